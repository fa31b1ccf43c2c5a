"""Under any failures, every task is completed once, messages are conserved, and cohorts do not matter."""

from __future__ import annotations

import dataclasses
from itertools import islice
from math import inf
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.centralized.pull_queue import PullQueue
from gridcore.queues.task_queues import TaskQueues
from gridsim.model.faults import Faults
from gridsim.schedulers.centralized import pull as central
from gridsim.scheduling import queues
from gridsim.scheduling.contract import Policy, Run
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.testing import scenarios
from tests._helpers.scenarios import CENTRAL, fair_trees

each_central = pytest.mark.parametrize("name", CENTRAL)
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
#: For tests with several runs per example; `check_scheduler` covers more examples every night.
FEWER_EXAMPLES = settings(QUICK, max_examples=12)
limits = st.sampled_from((1, 3))


def check(result: gs.Result) -> None:
    """Check messages and machines of a result; `simulate` itself checks the tasks."""
    messages = result.tables["messages"]
    sent, delivered, dropped = (messages[name] for name in ("sent", "delivered", "dropped"))
    assert (messages["in_flight"] == sent - delivered - dropped).all()
    assert (messages["in_flight"] >= 0).all() and (dropped >= 0).all()
    assert (result.machines["tasks"] >= 0).all()
    assert result.machines["tasks"].sum() == result.applications["tasks"].sum()
    # a task that a failure interrupts is resubmitted
    assert 0 <= result.machines["interrupted"].sum() <= result.applications["resubmitted"].sum()


@FEWER_EXAMPLES
@given(scenarios(faults=True), fair_trees(), st.sampled_from((None, 0.0, 0.07, 25.0)), limits)
def test_the_fair_tree_completes_every_task_once(
    scenario: gs.Scenario, scheduler: gs.FairTree, detection: float | None, limit: int
) -> None:
    parameters = {name: getattr(scheduler, name) for name in scheduler.__struct_fields__}
    scheduler = gs.FairTree(**{**parameters, "detection": detection})
    full_run = gs.simulate(scenario, scheduler)
    check(full_run)
    assert gs.simulate(scenario, scheduler, cohort_limit=limit).digest == full_run.digest
    requests = full_run.tables["requests"]
    if scenario.platform.nodes > 1:
        # requests are only for the tasks of an application and its lost tasks
        requested = np.zeros(len(full_run.applications["tasks"]), np.int64)
        np.add.at(requested, requests["application"], requests["tasks"])
        given_tasks = full_run.applications["tasks"]
        assert (requested <= given_tasks + full_run.applications["resubmitted"]).all()


@pytest.mark.parametrize(
    ("examples", "decisions"), [(2, 150), pytest.param(30, 5_000, marks=pytest.mark.claims)]
)
def test_promised_stretches_can_still_be_met(examples: int, decisions: int) -> None:
    """Lost tasks keep their release, and no request is promised a stretch that it has already passed."""
    decision_count = 0

    @settings(max_examples=examples, deadline=None)
    @given(
        fair_trees(samples=720, update_on="completion"),
        st.integers(2, 12),
        st.integers(0, 2**20),
        st.sampled_from((300.0, 2000.0)),
        st.sampled_from((None, 0.0, 25.0)),
    )
    def check_promises(
        scheduler: gs.FairTree, nodes: int, seed: int, mean: float, detection: float | None
    ) -> None:
        nonlocal decision_count
        scenario = gs.Scenario(
            gs.Platform.desktop_grid(nodes, seed),
            gs.Workload.bags(12, 200.0, 20.0, 0.9, (5e4, 2e5), seed=seed),
            faults=Faults.poisson(mean, seed),
            seed=seed,
        )
        result = gs.simulate(scenario, msgspec.structs.replace(scheduler, detection=detection))
        requests = result.tables["requests"]
        waited = requests["accepted"] - requests["release"]
        assert (requests["promised"] * requests["size"] >= waited * (1 - 1e-12) - 1e-9).all()
        assert ((requests["guaranteed"] == 1) == np.isfinite(requests["promised"])).all()
        decision_count += len(waited)

    check_promises()
    assert decision_count >= decisions


def grid(**of: Any) -> gs.Scenario:
    """Return a scenario of eight machines and two bags, with the faults of `Faults.of`."""
    return gs.Scenario(
        gs.Platform.of([1000.0, 2000.0] * 4),
        gs.Workload.of(release=[0.0, 2.0], tasks=[40, 16], task_size=[1000.0, 3000.0], submitter=[5, 2]),
        faults=Faults.of(**of),
    )


failure_lists = pytest.mark.parametrize(
    "of",
    [
        {"machine": [5], "down": [0.0], "up": [0.0]},  # the submitter fails at the release
        {"machine": [5], "down": [0.02], "up": [inf]},  # the submitter fails for good
        {"machine": [1, 3], "down": [0.12, 0.12], "up": [0.12, 0.12]},  # parent and child fail at one instant
        {
            "machine": [0, 1, 2],
            "down": [0.11] * 3,
            "up": [50.0] * 3,
        },  # the upper routers fail while requests descend
        # the root fails while the first summaries are in transit
        {"machine": [0], "down": [0.03], "up": [0.03]},
        {"machine": list(range(7)), "down": [1.0] * 7, "up": [inf] * 7},  # all machines except one fail
        {"machine": list(range(8)), "down": [1.0] * 8, "up": [90.0] * 8},  # all machines fail for a while
        # one machine fails repeatedly
        {"machine": [3, 3, 3], "down": [1.0, 2.0, 3.0], "up": [1.0, 2.5, 3.0]},
        {"machine": [6, 7], "down": [0.0, 0.0], "up": [10.0, 400.0]},  # two machines join later
    ],
)


@failure_lists
@pytest.mark.parametrize("detection", [None, 0.0])
def test_the_fair_tree_handles_any_list_of_failures(of: dict[str, Any], detection: float | None) -> None:
    scheduler = gs.FairTree(samples=(6, 4, 3), detection=detection)
    result = gs.simulate(grid(**of), scheduler)
    check(result)
    late = sum(down == 0 < up for down, up in zip(of["down"], of["up"], strict=True))
    assert result.machines["failures"].sum() == len(of["machine"]) - late
    assert gs.simulate(grid(**of), scheduler, cohort_limit=1).digest == result.digest


@pytest.mark.parametrize("name", ["fair-tree", *CENTRAL])
def test_a_run_without_any_machine_up_is_rejected(name: str) -> None:
    scheduler = gs.FairTree(detection=0.0) if name == "fair-tree" else CENTRAL[name]
    with pytest.raises(gs.ScenarioError, match="t = 0 s: the last machine failed for good"):
        gs.simulate(grid(machine=range(8), down=[0.0] * 8, up=[inf] * 8), scheduler)


def test_a_fair_tree_run_fails_when_all_machines_have_left() -> None:
    all_machines: dict[str, Any] = {"machine": list(range(8)), "down": [1.0] * 8, "up": [inf] * 8}
    with pytest.raises(gs.ScenarioError, match=r"^t = 1 s: the last machine .* with 5\d tasks unfinished"):
        gs.simulate(grid(**all_machines), gs.FairTree())


# -- centralized schedulers -----------------------------------------------------------------------------


class WatchedScheduler(gs.Scheduler, frozen=True):
    """Centralized scheduler with assertions that machines that are down run and receive no tasks."""

    inner: gs.Scheduler

    def start(self, run: Run) -> Policy:
        class WatchedPullQueue(PullQueue):
            def run(self, *arguments: Any, **options: bool) -> int:
                before = len(self.starts()[0])
                count = super().run(*arguments, **options)
                machine, _, start, _ = (column[before:] for column in self.starts())
                assert run.up[machine].all()
                assert (start >= latest[machine]).all()
                return count

        class WatchedQueues(TaskQueues):
            def enqueue(self, machines: Any, *arguments: Any) -> None:
                assert run.up[machines].all()
                assert not self.is_busy(np.flatnonzero(~run.up)).any()
                super().enqueue(machines, *arguments)

        latest = np.zeros(len(run.speeds), np.int64)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                central, "PullQueue", lambda *arguments, log: WatchedPullQueue(*arguments, log=True)
            )
            patch.setattr(queues, "TaskQueues", WatchedQueues)
            policy = self.inner.start(run)
        inner_on_faults = policy.on_faults

        def on_faults(failed: Any, recovered: Any) -> None:
            inner_on_faults(failed, recovered)
            latest[failed] = latest[recovered] = run.engine.now

        policy.on_faults = on_faults
        return policy


@each_central
@FEWER_EXAMPLES
@given(scenario=scenarios(faults=True), limit=limits)
def test_each_centralized_scheduler_completes_every_task_once(
    name: str, scenario: gs.Scenario, limit: int
) -> None:
    full_run = gs.simulate(scenario, CENTRAL[name])
    check(full_run)
    assert len(full_run.tables["messages"]["sent"]) == 0
    assert gs.simulate(scenario, CENTRAL[name], cohort_limit=limit).digest == full_run.digest
    watched = gs.simulate(scenario, WatchedScheduler(inner=CENTRAL[name]))
    for table in ("applications", "machines"):
        for column, values in full_run.tables[table].items():
            assert values.tolist() == watched.tables[table][column].tolist(), column
    used, tasks = full_run.applications["nodes_used"], full_run.applications["tasks"]
    second = full_run.applications["resubmitted"]
    assert (used >= 1).all() and (used <= scenario.platform.nodes).all() and (used <= tasks + second).all()


@each_central
@failure_lists
def test_centralized_schedulers_handle_any_list_of_failures(of: dict[str, Any], name: str) -> None:
    result = gs.simulate(grid(**of), CENTRAL[name])
    check(result)
    end = result.applications["finish"].max()
    assert result.provenance["clock_seconds"] == end
    assert result.machines["failures"].sum() == sum(
        instant < end for instant, up in zip(of["down"], of["up"], strict=True) if instant > 0 or up == 0
    )
    assert gs.simulate(grid(**of), CENTRAL[name], cohort_limit=1).digest == result.digest


@each_central
def test_faults_after_the_end_do_not_change_the_run(name: str) -> None:
    """With faults, a run proceeds in steps and checks for its end, but its decisions are the same."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=30, seed=4), gs.Workload.bags(applications=12, seed=2), seed=3
    )
    late = gs.Scenario(
        scenario.platform, scenario.workload, seed=3, faults=Faults.of([0, 1], [5e6, 6e6], [inf, inf])
    )
    assert gs.simulate(late, CENTRAL[name]).digest == gs.simulate(scenario, CENTRAL[name]).digest


@each_central
def test_a_failing_machine_loses_its_task_and_repeats_it(name: str) -> None:
    """A task of 5 s is lost after 3 s, and restarted at once when a machine is up."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0]),
        gs.Workload.of(release=[1.0], tasks=[2], task_size=[5000.0], submitter=[0], origin=0.0),
        faults=Faults.of([0, 0], [4.0, 10.0], [4.0, 20.0]),
    )
    result = gs.simulate(scenario, CENTRAL[name])
    # 1..4 lost, 4..9 done, 9..10 lost, 20..25 done
    assert result.applications["finish"].tolist() == [25.0]
    assert result.applications["first_start"].tolist() == [1.0]
    # bound tasks are also lost while they wait
    waiting = 0 if name in ("pull", "replan") else 1
    assert result.applications["resubmitted"].tolist() == [2 + waiting]
    assert result.applications["nodes_used"].tolist() == [1]
    assert result.machines["busy"].tolist() == [14.0]
    assert result.machines["failures"].tolist() == [2]


@each_central
def test_centralized_schedulers_wait_until_a_machine_is_up(name: str) -> None:
    """Tasks are released and lost while no machine is up."""
    all_machines = list(range(8))
    scenario = grid(machine=all_machines, down=[1.0] * 8, up=[90.0] * 7 + [95.0])
    result = gs.simulate(scenario, CENTRAL[name])
    assert result.applications["first_start"][0] == 0.0
    assert result.applications["first_start"][1] >= 90.0
    down_at_start = grid(machine=all_machines, down=[0.0] * 8, up=[90.0] * 8)
    result = gs.simulate(down_at_start, CENTRAL[name])
    assert (result.applications["first_start"] >= 90.0).all()
    assert result.applications["resubmitted"].sum() == 0


@each_central
@pytest.mark.parametrize("instant", [0.0, 1.0, 3.0])
def test_a_centralized_run_fails_when_all_machines_have_left(name: str, instant: float) -> None:
    all_machines: dict[str, Any] = {"machine": list(range(8)), "down": [instant] * 8, "up": [inf] * 8}
    with pytest.raises(
        gs.ScenarioError, match=rf"^t = {instant:g} s: the last machine .* with [2-5]\d tasks unfinished"
    ):
        gs.simulate(grid(**all_machines), CENTRAL[name])


# -- runs that might not end --------------------------------------------------------------------------------


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("period", [50.0, 100.0, 300.0])
def test_the_fair_tree_ends_despite_failures_in_step_with_the_heartbeat(machines: int, period: float) -> None:
    """All machines are down in the second half of each period, when heartbeats are due."""
    begins = np.arange(40) * period + period / 2
    rows = [(u, instant) for u in range(machines) for instant in begins]
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of(release=[period / 2 - 1.5], tasks=[5], task_size=[1000.0], submitter=[0], origin=0.0),
        faults=Faults.of(
            [u for u, _ in rows],
            [instant for _, instant in rows],
            [instant + period / 2 for _, instant in rows],
        ),
    )
    result = gs.simulate(scenario, gs.FairTree(samples=(6, 4, 3)))
    check(result)
    assert result.applications["resubmitted"].sum() >= 3
    assert result.makespan < 700.0


def endless_scenario() -> gs.Scenario:
    """Return a scenario in which a task takes 10 s, and no machine is up for longer than 5 s."""
    instants = np.arange(1, 2000) * 5.0
    return gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of(release=[0.0], tasks=[3], task_size=[10_000.0], submitter=[0]),
        faults=Faults.of(np.tile([0, 1], len(instants)), np.repeat(instants, 2), np.repeat(instants, 2)),
    )


def failures_with_heartbeat(offset: float) -> dict[str, Any]:
    instants = [300.0 * k + offset for k in range(200)]
    return {"machine": [0] * len(instants), "down": instants, "up": instants}


@pytest.mark.parametrize(
    ("machines", "tasks", "of"),
    [
        (1, 2, failures_with_heartbeat(0.5)),
        (
            2,
            3,
            {
                k: [*v, *((1,) * len(v) if k == "machine" else v)]
                for k, v in failures_with_heartbeat(0.5).items()
            },
        ),
        (8, 1, failures_with_heartbeat(0.1)),
        (8, 1, {**failures_with_heartbeat(0.03), "machine": [2] * 200}),
    ],
)
@pytest.mark.parametrize("parameters", [{}, {"bound": 0.0}, {"accept": "minimum", "bound": 1.25}])
def test_the_fair_tree_ends_despite_failures_soon_after_each_heartbeat(
    machines: int, tasks: int, of: dict[str, Any], parameters: dict[str, Any]
) -> None:
    """Tasks resubmitted at a heartbeat must not be lost forever."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of(release=[0.0], tasks=[tasks], task_size=[1000.0], submitter=[5 % machines]),
        faults=Faults.of(**of),
    )
    result = gs.simulate(scenario, gs.FairTree(samples=(6, 4, 3), **parameters), time_limit=50_000.0)
    check(result)
    assert result.makespan < 12 * 300.0


def test_a_trace_without_failures_causes_none(tmp_path: Any) -> None:
    """Such a trace is not repeated forever."""
    (tmp_path / "up.avt").write_text("a 1 0 1\nb 1 0 1\n")
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 2),
        gs.Workload.of(release=[0.0], tasks=[3], task_size=[1000.0], submitter=[0]),
        faults=Faults.trace(str(tmp_path / "up.avt"), seed=2),
    )
    for scheduler in (gs.FairTree(samples=(6, 4, 3)), gs.MinCent()):
        assert gs.simulate(scenario, scheduler).machines["failures"].sum() == 0


@pytest.mark.parametrize("name", ["fair-tree", *CENTRAL])
def test_a_time_limit_stops_an_endless_run(name: str) -> None:
    scheduler = gs.FairTree(samples=(6, 4, 3)) if name == "fair-tree" else CENTRAL[name]
    with pytest.raises(gs.ScenarioError, match=r"did not end within time_limit = 1,000 s \(400 failures\)"):
        gs.simulate(endless_scenario(), scheduler, time_limit=1000.0)


@pytest.mark.parametrize("name", ["fair-tree", *CENTRAL])
def test_a_time_limit_after_the_end_does_not_change_the_digest(name: str) -> None:
    """One run has no failures, the other has some; both end before the limit."""
    scheduler = gs.FairTree(samples=(6, 4, 3)) if name == "fair-tree" else CENTRAL[name]
    calm = gs.Scenario(
        gs.Platform.of([1000.0] * 4),
        gs.Workload.of(release=[0.0, 3.0], tasks=[9, 9], task_size=[1000.0, 500.0], submitter=[0, 2]),
    )
    of: dict[str, Any] = {"machine": [0, 1], "down": [2.0, 3.0], "up": [2.0, 40.0]}
    for scenario in (calm, grid(**of)):
        full_run = gs.simulate(scenario, scheduler)
        for limit in (5000.0, 1e300):
            assert gs.simulate(scenario, scheduler, time_limit=limit).digest == full_run.digest


#: Schedulers of all kinds of policies, most of which know the end of the last task long before it.
_FORESIGHTED: dict[str, gs.Scheduler] = {
    **CENTRAL,
    "min-min": gs.MinMin(),
    "fair-tree": gs.FairTree(),
    "rjss": gs.Rjss(k=1.0),
    "wqr-ft": gs.WqrFt(),
    "wave": gs.Wave(),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, form) for name, scheduler in _FORESIGHTED.items() for form in (*scheduler.node_forms, None)],
)
def test_a_time_limit_before_the_last_completion_is_an_error(name: str, form: Any) -> None:
    scheduler = _FORESIGHTED[name]
    scenario = gs.Scenario(gs.Platform.equal(4), gs.Workload.of([0.0, 3.0], [9, 9], [1000.0, 500.0], [0, 2]))
    result = gs.simulate(scenario, scheduler, nodes=form)
    end = float(result.applications["finish"].max())
    if name == "rjss":  # the last results are still in transit when the last job ends
        jobs = result.tables["jobs"]
        end = float((result.applications["release"][jobs["application"]] + jobs["turnaround"]).max())
    assert gs.simulate(scenario, scheduler, nodes=form, time_limit=end).digest == result.digest
    with pytest.raises(gs.ScenarioError, match="did not end within time_limit"):
        gs.simulate(scenario, scheduler, nodes=form, time_limit=end - 1e-6)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), inf, "60", True])
def test_invalid_time_limits_are_rejected(limit: Any) -> None:
    with pytest.raises(gs.ScenarioError, match="^time_limit"):
        gs.simulate(endless_scenario(), gs.Fcfs(), time_limit=limit)


def test_a_late_first_start_does_not_count_as_a_failure() -> None:
    of: dict[str, Any] = {"machine": [0, 1, 1, 2], "down": [0.0, 0.0, 3.0, 0.0], "up": [1.0, 1.0, 3.0, 0.0]}
    result = gs.simulate(grid(**of), gs.FairTree(samples=(6, 4, 3)))
    assert result.machines["failures"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0]


def test_a_machine_that_gets_tasks_again_is_counted_once() -> None:
    """Each of four machines is reset twice while it has tasks."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 4),
        gs.Workload.of(release=[0.0], tasks=[40], task_size=[5000.0], submitter=[0]),
        faults=Faults.of([0, 1, 2, 3] * 2, [20.0] * 4 + [25.0] * 4, [20.0] * 4 + [25.0] * 4),
    )
    result = gs.simulate(scenario, gs.FairTree(samples=(6, 4, 3), detection=0.0))
    assert result.applications["resubmitted"].tolist() > [40]
    assert result.applications["nodes_used"].tolist() == [4]


# -- failures in blocks -----------------------------------------------------------------------------------


def outages_of(scenario: gs.Scenario, scheduler: gs.Scheduler, until: float = 0.0) -> Any:
    """Return the outages of a run that has proceeded until `until` s."""
    simulation = Simulation(scenario, scheduler, Options())
    if until:
        simulation.engine.run(round(until * 1e9))
        simulation.outages.end(stopped=False)
    return simulation.outages


BLOCKS = gs.WqrFt()


@failure_lists
def test_outages_in_blocks_equal_those_of_single_failures(of: dict[str, Any]) -> None:
    in_blocks, single = (outages_of(grid(**of), scheduler, 2.75) for scheduler in (BLOCKS, CENTRAL["pull"]))
    for until in (2_750_000_000, 3_000_000_000):
        assert in_blocks.down_time(until).tolist() == single.down_time(until).tolist()
    assert in_blocks.up.tolist() == single.up.tolist()


def test_changes_at_the_end_of_a_run_have_no_effect() -> None:
    """The run ends first, even if all machines leave at that instant."""
    end = gs.simulate(grid(machine=[0], down=[0.5], up=[0.75]), BLOCKS).makespan
    for up in (end, end + 1.0, inf):
        down, back = [0.5] + [end] * 8, [0.75] + [up] * 8
        result = gs.simulate(grid(machine=[0, *range(8)], down=down, up=back), BLOCKS)
        assert result.makespan == end and result.machines["failures"].sum() == 1


def test_invalid_states_of_outages_are_rejected() -> None:
    scenario = grid(machine=[0, 1], down=[1.0, 2.0], up=[1.0, 3.0])
    good = outages_of(scenario, BLOCKS).getstate()
    for change in (
        {"taken": 2}, {"taken": 10**12}, {"at": -1}, {"at": 1}, {"taken": 1, "at": 5},
        {"up": np.ones(3, np.bool_)}, {"down": np.zeros(3, np.int64)}, {"more": 1},
    ):  # fmt: skip
        outages = outages_of(scenario, BLOCKS)
        with pytest.raises((ValueError, StopIteration)):
            outages.setstate({**good, **change})
    outages = outages_of(scenario, CENTRAL["pull"])
    with pytest.raises(ValueError, match=r"^state\['taken'\]"):
        outages.setstate({**good, "taken": 0})


def test_the_feed_of_failures_gives_all_changes_in_order() -> None:
    """A policy takes the blocks of failures; there are none if nothing fails."""
    faults = Faults.exponential(20.0, 5.0, seed=4)
    scenario = dataclasses.replace(grid(machine=[], down=[], up=[]), faults=faults)
    feed = outages_of(scenario, BLOCKS)
    assert feed.mean_up_time == 20.0
    course = faults.course(8)
    assert feed.first.tolist() == course.first.tolist()
    for block in islice(course.blocks, 3):
        taken = feed.take()
        assert taken is not None and taken.until.tolist() == block.until.tolist()
    no_outages = outages_of(grid(machine=[], down=[], up=[]), BLOCKS)
    assert no_outages.take() is None and no_outages.take() is None and no_outages.mean_up_time == inf
