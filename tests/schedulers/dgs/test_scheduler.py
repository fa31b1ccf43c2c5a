"""DGS_ASAP: small cases computed by hand, costs of its policies, conflicts, and failures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.validation.results import validate_result

IDEAL = gs.Network(latency=0.0, bandwidth=math.inf)
EQUAL = gs.Network(latency=0.05, bandwidth=math.inf, interfaces="equal")


def run(workload: gs.Workload, nodes: int, network: gs.Network = IDEAL, **parameters: Any) -> gs.Result:
    faults = parameters.pop("faults", None)
    scenario = gs.Scenario(gs.Platform.equal(nodes), workload, network, seed=1, faults=faults)
    result = gs.simulate(scenario, gs.DgsAsap(**parameters), record=True)
    assert validate_result(result) == []
    return result


def jobs_at_distinct_times(jobs: int, utilization: float = 0.9, seed: int = 3) -> gs.Workload:
    """Return jobs of which no two are released at one instant."""
    workload = gs.Workload.jobs(jobs, utilization=utilization, max_nodes=30, seed=seed)
    applications = workload.realize(gs.Platform.equal(100))
    release = applications.release + np.arange(jobs) * 1e-3
    return gs.Workload.jobs_of(
        release,
        applications.tasks,
        applications.task_size / 1000.0,
        submitter=applications.submitter,
        origin=0.0,
    )


# -- by hand ------------------------------------------------------------------------------------------------


def test_job_starts_in_the_first_slot_after_its_messages() -> None:
    jobs = gs.Workload.jobs_of([0.0, 60.0, 119.9], 1, 90.0)
    ideal = run(jobs, 30).applications
    assert ideal["first_start"].tolist() == [0.0, 60.0, 120.0]
    assert ideal["finish"].tolist() == [90.0, 150.0, 210.0]
    # after a submission at 119.9 s, request, answer, commit, reply and release do not arrive before 120 s
    slow = run(jobs, 30, EQUAL).applications
    assert slow["first_start"].tolist() == [60.0, 120.0, 180.0]
    assert slow["waiting"].tolist() == pytest.approx([60.0, 60.0, 60.1])
    assert (slow["conflicts"] == 0).all() and (slow["searches"] == 1).all()


@pytest.mark.parametrize(
    ("candidates", "starts"), [("others", [0.0, 100.0, 10.0]), ("all", [0.0, 10.0, 60.0])]
)
def test_jobs_wait_for_machines_reserved_by_earlier_jobs(candidates: str, starts: list[float]) -> None:
    # each of the 4 machines knows all others
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0], [2, 2, 1], [100.0, 50.0, 30.0], submitter=[0, 0, 0])
    actual = run(jobs, 4, forward=3, degree=3, slot=10.0, candidates=candidates)
    table = actual.applications
    # With "others", each searcher knows two of machines 1, 2 and 3: the first job reserves two of them, the
    # second job needs one of these two, and the third finds the remaining one.  With "all", there are two
    # machines for each of the first two jobs.
    assert table["first_start"].tolist() == starts
    assert table["nodes_used"].tolist() == [2, 2, 1]


@pytest.mark.parametrize("policy", ["push", "pull", "poll"])
def test_job_of_the_whole_grid_is_placed(policy: str) -> None:
    """The job needs all machines, including the scheduling node and the searcher."""
    jobs = gs.Workload.jobs_of([0.0, 200.0], 6, 60.0)
    for hops in (1, 2, 3):
        of_all: dict[str, Any] = {"degree": 5, "policy": policy, "hops": hops}
        actual = run(jobs, 6, EQUAL, **of_all)
        assert actual.failed == 0 and actual.applications["first_start"].tolist() == [60.0, 240.0]
        assert actual.applications["reached"].tolist() == [6, 6]
        # a node that commits itself needs no message
        commits = actual.messages["sent"][actual.messages["kind"] == "commit"].sum()
        assert commits == 10
        scenario = gs.Scenario(gs.Platform.equal(6), jobs, EQUAL, seed=1)
        by_one = gs.simulate(scenario, gs.DgsAsap(**of_all), nodes="interpreted")
        noted = gs.simulate(scenario, gs.DgsAsap(**of_all), record="decisions")
        assert by_one.digest == noted.digest == actual.digest
        decisions = noted.tables["decisions"]
        assert set(decisions["among"][decisions["action"] == "answered"]) == {6}
        left_out = run(jobs, 6, EQUAL, candidates="others", **of_all)
        assert left_out.facts["too_large"] == 2 and (left_out.applications["reached"] == 4).all()


def test_a_searcher_knows_its_own_schedule() -> None:
    """No node has polled yet, but the searcher of the second job has committed to the first one."""
    jobs = gs.Workload.jobs_of([0.0, 100.0], [3, 3], [600.0, 60.0], submitter=[0, 0])
    poll: dict[str, Any] = {"policy": "poll", "poll_period": 1e6, "forward": 1, "degree": 2}
    actual = run(jobs, 3, EQUAL, **poll).applications
    assert actual["first_start"].tolist() == [60.0, 660.0] and actual["conflicts"].tolist() == [0, 0]


def test_unused_slots_are_released_at_the_end_of_a_job() -> None:
    def table(release: list[float]) -> Any:
        jobs = gs.Workload.jobs_of(
            release, 1, 60.0, requested=600.0, submitter=[0] * len(release), origin=0.0
        )
        few: dict[str, Any] = {"forward": 2, "degree": 2, "candidates": "others"}
        return run(jobs, 3, estimate="requested", **few).applications

    # with three machines, each searcher has one candidate, and there are two searchers
    assert table([0.0, 5.0])["first_start"].tolist() == [0.0, 60.0]
    assert table([0.0, 1.0, 100.0])["waiting"][2] == 20.0
    # the job was placed behind a full reservation, and keeps its start
    assert table([0.0, 1.0, 2.0])["first_start"][2] == 600.0


def test_kept_slots_stay_reserved_after_an_early_end() -> None:
    """The only machine of two jobs is free at 60 s, and by its reservation at 600 s."""
    jobs = gs.Workload.jobs_of([0.0, 90.0], 2, 50.0, requested=600.0)
    starts = {
        early: run(jobs, 2, estimate="requested", early=early).applications["first_start"].tolist()
        for early in ("release", "keep")
    }
    assert starts == {"release": [0.0, 120.0], "keep": [0.0, 600.0]}


def test_job_of_a_failed_machine_is_placed_again() -> None:
    jobs = gs.Workload.jobs_of([0.0], 2, 300.0, submitter=[0])
    calm = run(jobs, 12, EQUAL, degree=6)
    had = sorted(calm.tables["schedule"]["machine"].tolist())
    # the first of its machines fails at 100 s, for good; the job is 40 s old
    faults = gs.Faults.of([had[0]], [100.0], [math.inf])
    actual = run(jobs, 12, EQUAL, degree=6, faults=faults, detection=30.0)
    rows = [tuple(row.values()) for row in actual.tables["schedule"].rows()]
    lost = [row for row in rows if row[5] == 0]
    # the other machine is informed one latency after the failure is detected
    assert lost == [(had[0], 0, 1, 60.0, 100.0, 0), (had[1], 0, 1, 60.0, 130.05, 0)]
    second = [row for row in rows if row[5] == 1]
    assert len(second) == 2 and {row[3:5] for row in second} == {(180.0, 480.0)}
    assert had[0] not in {row[0] for row in second}
    table = actual.applications
    assert table[0]["resubmitted"] == 2 and table[0]["waiting"] == 180.0 and table[0]["first_start"] == 60.0
    assert actual.machines["interrupted"].sum() == 2
    assert table[0]["nodes_used"] == len({row[0] for row in rows})


#: Messages of 1 s.
SLOW = gs.Network(latency=1.0, bandwidth=math.inf, interfaces="equal")


def test_searcher_does_not_answer_after_a_transient_failure() -> None:
    """Requests arrive at 1 s, and pulled schedules not before 3 s; all searchers are reset at 2 s."""
    jobs = gs.Workload.jobs_of([0.0], 1, 30.0, submitter=[0])
    all_of_them: dict[str, Any] = {"policy": "pull", "forward": 3, "degree": 3}
    calm = run(jobs, 4, SLOW, **all_of_them).applications[0]
    assert (calm["searches"], calm["first_start"]) == (1, 60.0)
    resets = gs.Faults.of([1, 2, 3], [2.0] * 3, [2.0] * 3)
    reset = run(jobs, 4, SLOW, faults=resets, **all_of_them).applications[0]
    # the scheduling node waits for answers until 120 s, and searches again
    assert (reset["searches"], reset["first_start"]) == (2, 180.0)


def test_late_answers_are_counted() -> None:
    """One of three searchers never answers; at 120 s, the start in the other answers (60 s) has passed."""
    jobs = gs.Workload.jobs_of([0.0], 1, 30.0, submitter=[0])
    failure = gs.Faults.of([1], [0.5], [math.inf])
    table = run(jobs, 4, SLOW, faults=failure, forward=3, degree=3).applications[0]
    assert (table["late"], table["searches"], table["conflicts"], table["first_start"]) == (2, 2, 0, 180.0)


def test_recovered_machine_sends_its_schedule_to_its_neighbours() -> None:
    """All four know one another; with push, each change of a schedule is sent to three nodes."""
    jobs = gs.Workload.jobs_of([0.0], 1, 100.0, submitter=[0])
    calm = run(jobs, 4, forward=3, degree=3)
    (had,) = calm.tables["schedule"]["machine"].tolist()
    other = next(u for u in (1, 2, 3) if u != had)
    away = run(jobs, 4, faults=gs.Faults.of([other], [10.0], [20.0]), forward=3, degree=3)
    assert (sent(calm, "push"), sent(away, "push")) == (3, 3 + 3)


def test_failed_searches_count_from_the_last_placement() -> None:
    """One search places the job, and one more places it again after one of its machines has failed."""
    jobs = gs.Workload.jobs_of([0.0], 2, 300.0, submitter=[0])
    had = run(jobs, 5, forward=4, degree=4).tables["schedule"]["machine"].tolist()
    failure = gs.Faults.of([had[0]], [100.0], [math.inf])
    actual = run(jobs, 5, faults=failure, forward=4, degree=4, tries=1)
    assert actual.failed == 0 and actual.applications["searches"].tolist() == [2]
    # each change is sent to four nodes: two machines commit, one of them is released, and two commit again
    assert sent(actual, "push") == (2 + 1 + 2) * 4


def test_polls_of_a_failed_machine_are_counted() -> None:
    """The machine polls three neighbours every 100 s until it fails at 650 s: six or seven times."""
    jobs = gs.Workload.jobs_of([0.0], 1, 2000.0, submitter=[0])
    poll: dict[str, Any] = {"policy": "poll", "poll_period": 100.0, "forward": 3, "degree": 3}
    (had,) = run(jobs, 4, **poll).tables["schedule"]["machine"].tolist()
    other = next(u for u in (1, 2, 3) if u != had)
    actual = run(jobs, 4, faults=gs.Faults.of([other], [650.0], [math.inf]), **poll)
    assert actual.machines["schedules_received"][other] in (3 * 6, 3 * 7)


# -- what is exchanged --------------------------------------------------------------------------------------


def sent(result: gs.Result, kind: str) -> int:
    table = result.tables["exchanges"]
    return int(table["schedules"][table["kind"].tolist().index(kind)])


def test_the_policies_push_and_pull_count_sent_schedules() -> None:
    jobs = gs.Workload.jobs_of(np.arange(8) * 1000.0, [1, 3, 2, 5, 4, 1, 2, 9], 60.0, origin=0.0)
    degree, forward = 10, 5
    pull = run(jobs, 60, policy="pull", degree=degree, forward=forward)
    # the grid is idle, so no neighbour is opened
    searches = int(pull.applications["searches"].sum()) * forward
    assert searches == 40
    assert sent(pull, "pull") == searches * degree
    assert sent(pull, "push") == sent(pull, "poll") == sent(pull, "retrieve") == 0
    push = run(jobs, 60, policy="push", degree=degree, forward=forward)
    # each machine of a job sends its schedule to the ten nodes that know it on average
    allocated = int(push.applications["tasks"].sum())
    low, high = push.facts["in_degree_min"], push.facts["in_degree_max"]
    assert allocated * low <= sent(push, "push") <= allocated * high
    assert push.machines["schedules_received"].sum() == sent(push, "push") + sent(push, "retrieve")


def test_the_policy_poll_counts_sent_schedules() -> None:
    jobs = gs.Workload.jobs_of([0.0, 6000.0], 1, 600.0)
    actual = run(jobs, 50, policy="poll", poll_period=100.0, degree=7)
    # in 6600 s each node polls 66 times, whatever the time of its first poll
    assert sent(actual, "poll") == 50 * 7 * 66


@pytest.mark.parametrize("policy", ["push", "pull"])
def test_single_jobs_without_latency_have_no_conflicts(policy: str) -> None:
    actual = run(jobs_at_distinct_times(250), 100, policy=policy, degree=8)
    assert actual.applications["conflicts"].sum() == 0
    assert (actual.applications["searches"] == 1).all() and actual.failed == 0
    # jobs that are released at one instant conflict
    both = gs.Workload.jobs_of([0.0] * 20, 10, 60.0, submitter=[0] * 20)
    assert run(both, 100, policy=policy, degree=8).applications["conflicts"].sum() > 0


# -- jobs that are too large --------------------------------------------------------------------------------


def test_jobs_too_large_for_two_hops_fail_or_search_further() -> None:
    jobs = gs.Workload.jobs_of([0.0, 100.0, 200.0], [4, 60, 150], 60.0)
    fails = run(jobs, 200, degree=4, wide="fail")
    assert fails.applications["failed"].tolist() == [0, 1, 1] and fails.facts["too_large"] == 2
    table = fails.applications
    assert (table["reached"][1:] < table["tasks"][1:]).all() and table["reached"][0] >= 4
    assert np.isnan(table["finish"][1:]).all() and math.isfinite(fails.mean_waiting)
    widens = run(jobs, 200, degree=4, wide="widen")
    assert widens.failed == 0 and (widens.applications["reached"] >= widens.applications["tasks"]).all()
    # with "others", two of the machines are not candidates
    of_nearly_all = gs.Workload.jobs_of([0.0], 199, 60.0)
    assert run(of_nearly_all, 200, degree=8).failed == 0
    assert run(of_nearly_all, 200, degree=8, candidates="others").failed == 1


def test_single_machine_rejects_jobs() -> None:
    actual = run(gs.Workload.jobs_of([0.0], 1, 60.0), 1)
    assert actual.failed == 1 and math.isnan(actual.max_stretch) and math.isnan(actual.mean_waiting)
    assert "rejected" in actual.format() and "1 rejected" in repr(actual)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["push", "pull", "poll"])
def test_jobs_wait_while_all_machines_are_down(policy: Any) -> None:
    """No machine can search, choose or cancel; jobs wait until machines recover."""
    for seed in range(2):  # machines fail while some jobs are being placed, and others run
        faults = gs.Faults.exponential(up=150.0, down=300.0, seed=seed)
        jobs = gs.Workload.jobs_of([0.0, 1.0, 100.0, 300.0], [2, 3, 1, 2], [100.0, 1.0, 100.0, 1.0])
        actual = run(jobs, 5, gs.Network(latency=1.0), faults=faults, policy=policy)
        assert actual.failed < 4  # some jobs wait for all machines at once while other answers remain
    network, late = gs.Network(latency=10.0, bandwidth=math.inf), {"patience": 60.0, "slot": 300.0}
    for instant in range(15, 100, 10):
        faults = gs.Faults.of(list(range(8)), [float(instant)] * 8, [1000.0] * 8)
        actual = run(gs.Workload.jobs_of([0.0], 2, 300.0), 8, network, faults=faults, policy=policy, **late)
        assert actual.failed == 0 and actual.applications["finish"][0] > 1300.0
    # machines fail one after the other, before the first failure is detected
    down = [70.0, 75.0, 80.0, 85.0, 90.0]
    faults = gs.Faults.of(list(range(5)), down, [500.0, 505.0, 510.0, 515.0, 520.0])
    actual = run(gs.Workload.jobs_of([0.0], 3, 300.0), 5, gs.Network(), faults=faults, policy=policy)
    assert actual.failed == 0 and actual.applications["resubmitted"].tolist() == [3]
    assert actual.applications["finish"][0] > 800.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"forward": 0}, "dgs-asap.forward must be a whole number in 1..32768, got 0"),
        ({"degree": 1.5}, "dgs-asap.degree must be a whole number in 1..32768, got 1.5"),
        ({"policy": "gossip"}, "dgs-asap.policy must be one of push, pull, poll, got 'gossip'"),
        ({"candidates": "any"}, "dgs-asap.candidates must be one of all, others, got 'any'"),
        ({"slot": 0.0}, "dgs-asap.slot must be a number in 1e-09..1e+08 s, got 0.0"),
        ({"retry": 1e10}, "dgs-asap.retry must be a number in 1e-09..1e+08 s, got 10000000000.0"),
        ({"tries": 0}, "dgs-asap.tries must be a whole number in 1..1000000, got 0"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.DgsAsap(**parameters)
    assert str(excinfo.value) == message


def test_bags_are_rejected() -> None:
    bags = gs.Scenario(gs.Platform.equal(5), gs.Workload.of([0.0], 1, 1000.0))
    with pytest.raises(
        gs.ScenarioError, match="dgs-asap requires a workload of rigid jobs, got bags of tasks"
    ):
        gs.simulate(bags, gs.DgsAsap())
    jobs = gs.Scenario(gs.Platform.equal(5), gs.Workload.jobs_of([0.0], 1, 10.0))
    with pytest.raises(gs.ScenarioError, match="fcfs requires a workload of bags of tasks, got rigid jobs"):
        gs.simulate(jobs, gs.Fcfs())
