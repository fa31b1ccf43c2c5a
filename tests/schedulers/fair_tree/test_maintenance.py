"""The fair tree maintained by messages: replaced routers, and detection of lost tasks.

On four machines: router k is on machine k, leaf 3 + k is that of machine k; router 1 has leaves 3 and 4,
router 2 has leaves 5 and 6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import CompileError, ScenarioError
from gridsim.schedulers.fair_tree.member import COMPLETION, TAKEOVER
from gridsim.schedulers.fair_tree.records import Record, TreeByMessages, repairs
from gridsim.schedulers.fair_tree.tree import is_below
from gridsim.validation.results import validate_result

LATENCY = 0.05


def run(
    faults: gs.Faults | None,
    machines: int = 4,
    release: Any = (10.0,),
    tasks: Any = (40,),
    latency: float = LATENCY,
    submitter: int = -1,
    **parameters: Any,
) -> gs.Result:
    """Run tasks of 100 s from one submitter, with interfaces of infinite bandwidth, and check the result."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of(release, tasks, 1e5, [submitter % machines] * len(release), origin=0.0),
        gs.Network(latency=latency, bandwidth=math.inf),
        faults=faults,
    )
    tree = gs.FairTree(samples=(4, 3, 2), maintenance="messages", **parameters)
    result = gs.simulate(scenario, tree, record=["schedule", "messages"], time_limit=30_000.0)
    assert validate_result(result) == []
    assert result.machines["tasks"].sum() == sum(tasks)
    return result


def rows(result: gs.Result) -> list[tuple[Any, ...]]:
    """Return the rows of the table of repairs."""
    table = result.tables["repairs"]
    return list(zip(*(table[name].tolist() for name in table), strict=True))


def kinds(result: gs.Result) -> dict[str, int]:
    """Return the number of sent messages of each kind."""
    return dict(zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True))


# -- routers ----------------------------------------------------------------------------------------------


def test_first_successor_replaces_a_failed_router() -> None:
    """Leaf 3 on machine 0 hears router 1 last just after 30 s, which is over 60 s ago at 120 s."""
    result = run(gs.Faults.of([1], [35.0], [math.inf]))
    (row,) = rows(result)
    assert row[:4] == (1, 35.0, 0, 120.0)
    # leaf 4 was silent for as long, but its new router waits for it from the time of the takeover on
    assert row[4] == 210.0
    assert kinds(result)["take"] == 0


@pytest.mark.parametrize(("accept", "level_meanwhile"), [("minimum", 0), ("root", 1)])
def test_a_child_that_returns_and_has_not_reported_sends_requests_up(
    accept: Any, level_meanwhile: int
) -> None:
    """Machine 0 takes router 3 over at 420 s; router 1 hears that at 420.05 s, its report at 420.15 s.

    By "root" router 1 accepts the request meanwhile, since its other child has room.
    """
    failure = gs.Faults.of([3], [335.0], [math.inf])
    grid = (1e-4, 1e-2, 1.0), (1e5, 1e6), (1e5,)
    options: Any = {"accept": accept, "bound": 1e6, "update_rate": 4.0, "grid": grid}

    def level(release: float) -> int:
        result = run(failure, 8, (10.0, release), (80, 2), submitter=1, **options)
        assert rows(result)[0][:4] == (3, 335.0, 0, 420.0)
        return int(result.applications["level"][1])

    assert level(300.0) == 1  # the minimum stretches of both children are known, and above 0
    assert level(420.1) == level_meanwhile


@pytest.mark.parametrize(
    ("accept", "nbytes"), [("minimum", 218), ("root", 222), ("largest", 226), ("either", 230)]
)
def test_the_update_rate_counts_all_bytes_of_a_summary(accept: str, nbytes: int) -> None:
    log = run(None, accept=accept, update_rate=1.0).tables["message_log"]
    of_leaf = (log["kind"] == "summary") & (log["sender"] == 3)
    assert set(log["bytes"][of_leaf]) == {nbytes}
    assert np.diff(log["sent"][of_leaf]) == pytest.approx(nbytes)


def test_second_successor_replaces_a_router_if_the_first_is_down() -> None:
    """Machines 0 and 1 leave: router 2 suspects the root, asks the host of router 1, and then takes over."""
    result = run(gs.Faults.of([0, 1], [35.0] * 2, [math.inf] * 2))
    by_router = {row[0]: row for row in rows(result)}
    assert by_router[0][:4] == (0, 35.0, 2, 150.0)
    # no node below router 1 is left to detect its failure
    assert by_router[1][2] == -1 and math.isnan(by_router[1][3])
    assert kinds(result)["take"] == 1


def test_restarted_machine_claims_its_router_at_once() -> None:
    """The claim and the summaries of the children take 0.1 s, and a message to the parent follows."""
    result = run(gs.Faults.of([1], [35.0], [35.0]))
    (row,) = rows(result)
    assert row[:4] == (1, 35.0, 1, 35.0)
    assert 35.0 + 2 * LATENCY <= row[4] <= 35.0 + 4 * LATENCY


def test_router_returns_to_its_recovered_machine() -> None:
    """Machine 0 hosts router 1 until machine 1 recovers; then requests for leaf 3 come from machine 1."""
    faults = gs.Faults.of([1], [35.0], [400.0])
    result = run(faults, release=[10.0, 1000.0], tasks=[4, 4])
    log = result.tables["message_log"]
    late = (log["kind"] == "request") & (log["sent"] > 1000.0)
    assert (1, 0) in set(zip(log["sender"][late].tolist(), log["receiver"][late].tolist(), strict=True))


def final_environment(faults: gs.Faults, machines: int, **parameters: Any) -> TreeByMessages:
    """Return the environment at the end of a run, long after the last failure."""
    actual: list[TreeByMessages] = []
    complete = TreeByMessages.complete

    def keep(self: TreeByMessages, outcome: Any) -> None:
        actual.append(self)
        complete(self, outcome)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TreeByMessages, "complete", keep)
        run(faults, machines, release=[10.0, 4000.0], tasks=[3 * machines, 3 * machines], **parameters)
    return actual[0]


@st.composite
def storms(draw: st.DrawFn) -> tuple[gs.Faults, int]:
    """Draw failures of many machines, often at the instant of others or of a release; all end by 1500 s."""
    machines = draw(st.integers(2, 12))
    instants = st.sampled_from([10.0, 20.0, 31.0, 95.0, 300.0, 1000.0])
    down = draw(st.lists(instants, min_size=machines, max_size=machines))
    lasts = draw(
        st.lists(st.sampled_from([0.0, 5.0, 45.0, 100.0, 450.0]), min_size=machines, max_size=machines)
    )
    up = [instant + last for instant, last in zip(down, lasts, strict=True)]
    subset = draw(st.lists(st.booleans(), min_size=machines, max_size=machines))
    failing = [machine for machine in range(machines) if subset[machine]]
    return gs.Faults.of(failing, [down[k] for k in failing], [up[k] for k in failing]), machines


@settings(max_examples=8, deadline=None)
@given(storms(), st.sampled_from([0, -1]), st.sampled_from(["as-is", "new"]))
# machine 2 passes a request on, which must not count as its claim on the router that sent the request
@example((gs.Faults.of([4, 5, 6, 7], [20.0, 20.0, 20.0, 95.0], [120.0, 20.0, 20.0, 195.0]), 8), -1, "as-is")
# machine 4 takes over router 1 at 780 s, not knowing that the router has been at home since 750 s
@example(
    (gs.Faults.of([1, 2, 3, 4], [300.0, 95.0, 677.5, 300.0], [750.0, 287.0, 1127.5, 300.0]), 5), -1, "as-is"
)
# the submitter's request arrives at its own machine before that machine restarts
@example((gs.Faults.of([0], [10.0], [10.0]), 2), 0, "as-is")
def test_tree_is_complete_after_any_failures(
    storm: tuple[gs.Faults, int], submitter: int, resubmit: str
) -> None:
    """One tree is left in which all nodes know their neighbours, and no replacement acts any longer."""
    actual = final_environment(*storm, heartbeat=60.0, submitter=submitter, resubmit=resubmit)
    for machine, member in enumerate(actual.adapter.nodes):
        assert sorted(member.routers) == ([machine] if machine < actual.tree.first_leaf else [])
        for router, program in member.routers.items():
            known = member.children[router]
            for choice, child in enumerate((2 * router + 1, 2 * router + 2)):
                assert member.host(child) == member.home(child)
                assert program.cells[choice] is not None and not known.absent[child]
                assert known.leaves[child] == actual.leaves[child]
                assert known.speed[child] == pytest.approx(actual.speed[child])
    assert actual.lost == actual.doubted == [0, 0]


@pytest.mark.parametrize("machines", [6, 32])
def test_equal_machines_get_equal_shares_without_failures(machines: int) -> None:
    """A router whose report is delayed sends it later, whatever arrives in between."""
    platform, workload = (
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of([600.0], 50 * machines, 30_000.0, origin=0.0),
    )
    result = gs.simulate(gs.Scenario(platform, workload), gs.FairTree(maintenance="messages"))
    assert result.machines["tasks"].tolist() == [50] * machines


def test_no_machine_is_suspected_without_failures() -> None:
    """Heartbeats that travel for half a period are in time."""
    result = run(None, 9, latency=4.0, beat=8.0)
    assert kinds(result)["take"] == kinds(result)["where"] == kinds(result)["failed"] == 0
    assert len(rows(result)) == 0


def test_late_heartbeats_make_all_machines_suspected() -> None:
    """Routers then move from machine to machine, but every task is run once."""
    result = run(gs.Faults.of([1, 4], [35.0, 50.0], [35.0, 500.0]), 7, latency=40.0, beat=5.0)
    assert kinds(result)["where"] > 0


# -- tasks ------------------------------------------------------------------------------------------------


def test_restarted_leaf_reports_its_lost_tasks() -> None:
    result = run(gs.Faults.of([1], [35.0], [35.0]))
    lost = int(result.applications["resubmitted"][0])
    assert lost > 0 and result.facts["tasks_doubted"] == 0
    assert kinds(result)["failed"] == 1
    log = result.tables["message_log"]
    second = log["sent"][(log["kind"] == "request") & (log["sent"] > 35.0)]
    assert second.min() == pytest.approx(35.0 + LATENCY)


@pytest.mark.parametrize("machines", [1, 2, 6])
def test_share_that_arrives_at_a_transient_failure_is_kept(machines: int) -> None:
    """The submitter's machine loses the tasks that it has at 10 s, and keeps those that arrive then."""
    faults = gs.Faults.of([0], [10.0], [10.0])
    result = run(faults, machines, release=[0.0, 10.0], tasks=[8, 8], submitter=0)
    assert result.facts["tasks_doubted"] == 0
    second = result.applications["resubmitted"]
    assert second[0] > 0 and second[1] == 0


def test_tasks_of_a_failed_leaf_are_resubmitted_after_two_heartbeats() -> None:
    """The leaf reports ends of tasks; its last report, at about 120 s, is two heartbeats old at 240 s."""
    result = run(gs.Faults.of([1], [130.0], [math.inf]), heartbeat=60.0)
    assert result.applications["resubmitted"][0] > 0
    log = result.tables["message_log"]
    second = log["sent"][(log["kind"] == "request") & (log["sent"] > 130.0)]
    assert 230.0 <= second.min() <= 300.0


def test_lost_tasks_are_detected_after_a_resubmitted_bag() -> None:
    """Each machine runs its second task from 210 s on.

    Machine 0 is reset at 240 s, and gets a new bag of one task, which ends at 340 s.  The task of machine 1,
    which has been silent since 210 s, is still detected as lost at 360 s.
    """
    faults = gs.Faults.of([1, 0], [211.0, 240.0], [511.0, 240.0])
    result = run(
        faults, 2, release=[110.0], tasks=[4], latency=0.0, submitter=0, resubmit="new", heartbeat=60.0
    )
    assert result.applications["finish"].tolist() == [460.0]
    assert result.applications["resubmitted"].tolist() == [2] and result.facts["tasks_doubted"] == 0


def test_lost_request_is_sent_again() -> None:
    """The root's machine is down when the request arrives there.  Nobody has accepted it after a heartbeat.

    It is lost again at 80 s, but not at 120 s, as machine 1 replaces the root from 90 s on.
    """
    faults = gs.Faults.of([0], [9.99], [5000.0])
    result = run(faults, heartbeat=40.0)
    assert rows(result)[0][:4] == (0, 9.99, 1, 90.0)
    assert result.applications["resubmitted"].tolist() == [2 * 40]
    assert result.facts["tasks_doubted"] == 0


def test_first_request_may_be_for_lost_tasks() -> None:
    """The application's own request was lost before it was accepted; `validate_result` accepts that."""
    away = gs.Faults.of([0], [10.01], [5000.0])
    table = run(away, heartbeat=100.0, resubmit="new").tables["requests"]
    assert table["release"].tolist() == [200.0] and table["tasks"].tolist() == [40]
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 4),
        gs.Workload.of([10.0], [40], 1e5, [3], origin=0.0),
        gs.Network(latency=LATENCY, bandwidth=math.inf),
        faults=away,
    )
    ideal = gs.simulate(scenario, gs.FairTree(samples=(4, 3, 2), repair=60.0, resubmit="new"), record=True)
    assert ideal.tables["requests"]["release"][0] > 10.0
    assert validate_result(ideal) == []


def test_applications_released_while_all_machines_are_down_are_submitted_later() -> None:
    result = run(gs.Faults.of(range(4), [5.0] * 4, [200.0] * 4), heartbeat=40.0)
    assert result.applications["first_start"][0] >= 200.0


def test_the_record_counts_missing_tasks() -> None:
    record = Record(total=10, since=0)
    assert record.missing() == 10
    assert record.report(1, incarnation=0, left=6, done=0, now=5) == 0
    assert record.report(2, incarnation=0, left=3, done=1, now=6) == 0
    assert record.missing() == 0
    assert record.fail(1, incarnation=0, now=6) == 0  # it has reported in this incarnation
    # the later incarnation has lost the tasks that were left before, but not those that were completed
    assert record.report(2, incarnation=7, left=0, done=0, now=8) == 3
    assert record.missing() == 3
    # this report was sent before the failure
    assert record.report(2, incarnation=0, left=2, done=2, now=9) == 0
    assert record.missing() == 3
    assert record.presume(silent=5) == 0
    assert record.presume(silent=6) == 6
    assert record.missing() == 9


# -- tables, and what is not allowed ----------------------------------------------------------------------


def test_repair_times_use_the_first_events_after_a_failure() -> None:
    """Router 1 failed twice; its summaries reached the parent again at 9 ns and 21 ns."""
    events = [
        (1, 3, 5, TAKEOVER),
        (1, 3, 7, COMPLETION),
        (0, 0, 9, COMPLETION),
        (1, 1, 20, TAKEOVER),
        (0, 0, 21, COMPLETION),
        (1, 1, 30, COMPLETION),
    ]
    seats = {
        name: np.array([event[k] for event in events])
        for k, name in enumerate(("router", "machine", "time", "what"))
    }
    table = repairs(seats, [(1, 2), (1, 20), (2, 25)], 3)
    assert table["machine"].tolist() == [3, 1, -1]
    assert table["taken"][:2].tolist() == [5e-9, 20e-9]
    assert table["whole"][:2].tolist() == [9e-9, 30e-9]
    assert np.isnan(table["taken"][2]) and np.isnan(table["whole"][2])


@pytest.mark.parametrize(
    ("node", "other", "below"), [(3, 1, True), (3, 0, True), (4, 3, False), (1, 1, False)]
)
def test_descendants_are_below_a_node(node: int, other: int, below: bool) -> None:
    assert is_below(node, other) is below


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"maintenance": "ideal", "beat": 5.0},
            "fair-tree.beat must be 30.0 if maintenance is 'ideal'",
        ),
        ({"repair": 5.0}, "fair-tree.repair must be 0.0 if maintenance is 'messages', got 5.0"),
        ({"detection": 5.0}, "fair-tree.detection must be None"),
        ({"run_on": True}, "fair-tree.run_on must be False"),
        ({"missed": 1}, "fair-tree.missed must be a whole number in 2..1000, got 1"),
    ],
)
def test_maintenance_by_messages_rejects_parameters_of_central_maintenance(
    parameters: Any, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        gs.FairTree(**{"maintenance": "messages", **parameters})


def test_maintenance_by_messages_rejects_compiled_nodes() -> None:
    scenario = gs.Scenario(gs.Platform.of([1.0] * 3), gs.Workload.of([0.0], [3], 1.0, [0]))
    with pytest.raises(CompileError, match="does not support fair-tree with maintenance='messages'"):
        gs.simulate(scenario, gs.FairTree(maintenance="messages"), nodes="compiled")
