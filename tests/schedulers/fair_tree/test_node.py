"""The node program of the fair tree equals its compiled nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import gridsim as gs
from gridcore.fair_tree.summaries import _vector_level
from gridsim.testing import scenarios
from gridsim.testing.resuming import resume_difference
from tests._helpers.scenarios import fair_trees

BOTH = "schedule", "decisions"
QUICK = settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FAILING = settings(QUICK, max_examples=8)
LONG, LONG_FAILING = settings(QUICK, max_examples=200), settings(QUICK, max_examples=100)


def check_forms(scenario: gs.Scenario, scheduler: gs.FairTree, **options: Any) -> None:
    """Check that both forms give the same digest and records, and that recording changes nothing."""
    compiled, interpreted = (
        gs.simulate(scenario, scheduler, nodes=nodes, **{"record": BOTH, **options})
        for nodes in ("compiled", "interpreted")
    )
    assert interpreted.tables == compiled.tables
    assert interpreted.digest == compiled.digest == gs.simulate(scenario, scheduler).digest


@QUICK
@given(scenarios(max_nodes=17), fair_trees())
def test_interpreted_nodes_equal_the_compiled_protocol(scenario: gs.Scenario, scheduler: gs.FairTree) -> None:
    check_forms(scenario, scheduler)


@FAILING
@given(scenarios(max_nodes=9, faults=True), fair_trees())
def test_interpreted_nodes_equal_the_compiled_protocol_with_failures(
    scenario: gs.Scenario, scheduler: gs.FairTree
) -> None:
    check_forms(scenario, scheduler)


@pytest.mark.claims
@LONG
@given(scenarios(), fair_trees())
def test_interpreted_nodes_equal_the_compiled_protocol_in_long_runs(
    scenario: gs.Scenario, scheduler: gs.FairTree
) -> None:
    check_forms(scenario, scheduler)


@pytest.mark.claims
@LONG_FAILING
@given(scenarios(max_nodes=17, faults=True), fair_trees())
def test_interpreted_nodes_equal_the_compiled_protocol_with_failures_in_long_runs(
    scenario: gs.Scenario, scheduler: gs.FairTree
) -> None:
    check_forms(scenario, scheduler)


def grid(faults: gs.Faults | None = None, **network: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0, 500.0, 2000.0, 1000.0, 700.0]),
        gs.Workload.of([0.0, 1.0, 8.0], [30, 12, 7], [4000.0, 1000.0, 9000.0], [2, 0, 4]),
        gs.Network(**network),
        faults=faults,
        seed=3,
    )


FAULTS = gs.Faults.of([0, 1, 3, 3], [5.0, 9.0, 7.0, 40.0], [5.0, 25.0, 12.5, 41.0])
#: All machines are down when the first application is released, and again later.
NOBODY = gs.Faults.of([*range(5)] * 2, [0.0] * 5 + [20.0] * 5, [0.5, 2.0, 1.0, 9.0, 4.0] + [31.0] * 5)


@pytest.mark.parametrize("faults", [None, FAULTS, NOBODY], ids=["none", "some", "all"])
@pytest.mark.parametrize("resubmit", ["as-is", "new"])
@pytest.mark.parametrize("update_on", ["completion", "change"])
def test_both_forms_of_nodes_agree_on_all_kinds_of_events(faults: Any, resubmit: Any, update_on: Any) -> None:
    tree = gs.FairTree(
        samples=(4, 3, 2),
        resubmit=resubmit,
        update_on=update_on,
        heartbeat=10.0,
        refresh=5.0,
        release_cell=10.0,
        hold_off=0.03,
        repair=3.0,
    )
    for network in ({}, {"interfaces": "equal"}, {"jitter": 0.04}):
        check_forms(grid(faults, **network), tree)


@pytest.mark.parametrize("faults", [None, FAULTS, NOBODY], ids=["none", "some", "all"])
@pytest.mark.parametrize("minimum_of", ["all", "busy"])
def test_both_forms_of_nodes_record_the_same_decisions(faults: Any, minimum_of: Any) -> None:
    for resubmit in ("as-is", "new"):
        tree = gs.FairTree(
            samples=(4, 3, 2),
            resubmit=resubmit,
            accept="minimum",
            minimum_of=minimum_of,
            bound=2.0,
            heartbeat=10.0,
            repair=3.0,
        )
        check_forms(grid(faults), tree)


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["none", "some"])
def test_node_program_resumes_from_a_checkpoint(faults: Any) -> None:
    for resubmit, accept in (("as-is", "minimum"), ("new", "minimum"), ("as-is", "either")):
        common: dict[str, Any] = {"samples": (4, 3, 2), "heartbeat": 10.0, "repair": 3.0, "run_on": True}
        tree = gs.FairTree(resubmit=resubmit, accept=accept, **common)  # type: ignore[arg-type]
        what = grid(faults, jitter=0.02)
        result = gs.simulate(what, tree, nodes="interpreted", record=True)
        assert resume_difference(what, tree, result, nodes="interpreted") is None


def test_completion_may_arrive_as_its_receiver_fails() -> None:
    """A machine fails at a heartbeat, just after its leaf has reported completed tasks to it."""
    faults = gs.Faults.of([0], [20.0], [30.0])
    tree = gs.FairTree(samples=(4, 3, 2), heartbeat=10.0)
    check_forms(grid(faults), tree)


def test_router_may_move_to_a_machine_under_repair() -> None:
    """Machine 1 recovers at once, but not its routers; meanwhile the router of machine 0 moves to it."""
    faults = gs.Faults.of([1, 0], [5.0, 6.0], [5.0, 200.0])
    for spread in ("heartbeat", "change"):
        tree = gs.FairTree(samples=(4, 3, 2), heartbeat=10.0, repair=20.0, detection=3.0, spread=spread)
        check_forms(grid(faults), tree)


def test_request_at_the_recovery_of_the_only_machine_is_kept() -> None:
    """The request is not lost, whatever else happens at that instant."""
    scenario = gs.Scenario(
        gs.Platform.equal(1),
        gs.Workload.of([20.0], [1], [4000.0], origin=0.0),
        faults=gs.Faults.of([0], [10.0], [20.0]),
    )
    for periods in ({}, {"refresh": 10.0}, {"release_cell": 10.0}, {"heartbeat": 10.0}):
        check_forms(scenario, gs.FairTree(**periods))


def test_decisions_at_one_instant_keep_their_order() -> None:
    """Two applications of one instant, with equal delays: nodes act in the order of their numbers."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 8),
        gs.Workload.of([0.0] * 6, [9, 2, 5, 7, 1, 3], 1000.0, [0, 1, 2, 3, 4, 5]),
        gs.Network(interfaces="equal", bandwidth=np.inf),
    )
    check_forms(scenario, gs.FairTree(samples=(6, 3, 2), accept="minimum", minimum_of="busy", bound=2.0))


def test_both_forms_of_nodes_agree_with_a_coarse_tolerance() -> None:
    """Leaves report the minimum stretch that the bisection finds, not the exact one."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=20, seed=1),
        gs.Workload.bags(8, interarrival=5.0, task_size=[4000.0, 9000.0], seed=2),
        seed=3,
    )
    coarse = gs.FairTree(stretch="bisection", tolerance=0.5)
    assert gs.simulate(scenario, coarse).digest != gs.simulate(scenario, gs.FairTree()).digest
    check_forms(scenario, coarse)


@pytest.mark.parametrize("level", [1, 0])
def test_both_forms_of_nodes_agree_with_summaries_of_both_widths(level: int) -> None:
    """Idle leaves count more small tasks than 16 bits hold, busy leaves fewer; with and without vectors."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=60, seed=1),
        gs.Workload.bags(8, interarrival=20.0, tasks_per_node=4.0, task_size=[1.0, 200_000.0], seed=2),
        gs.Network(interfaces="equal"),
        seed=3,
    )
    tree = gs.FairTree(samples=(6, 6, 3))
    _vector_level(level)
    try:
        check_forms(scenario, tree)
    finally:
        _vector_level(1)
    grid = gs.simulate(scenario, tree).facts["grid"]
    empty = grid["stretch"][-1] * grid["size"][-1] * scenario.platform.speeds / grid["task_size"][0]
    assert (empty > 2**16).all()


def test_both_forms_of_nodes_agree_with_the_maximum_number_of_tasks() -> None:
    """Shares are exact, although their products need 63 bits, and counts are cut off at 2**32 - 1."""
    scenario = gs.Scenario(
        gs.Platform.of([4.0, 3.0, 2.0, 4.0, 5.0]),
        gs.Workload.of([0.0, 1.0], [2**31 - 1, 7], 1e-6, [1, 3]),
    )
    # tasks take less than a microsecond: leaves do not report the end of each
    tree = gs.FairTree(grid=((1e-4, 1.0, 4.0), (1e-6, 1000.0), (1e-6, 1.0)), bound=1e9, update_on="change")
    check_forms(scenario, tree)


def test_displaced_work_is_summed_from_the_last_dispatch() -> None:
    """(1.86 + 0.93) + 0.21 are 3 tasks of 1 Mflop; in another order rounding makes them more than 3."""
    sizes = [0.21, 0.93, 1.86, 1.0]
    assert sum(sizes[2::-1]) == 3.0 < sizes[0] + sizes[2] + sizes[1]
    scenario = gs.Scenario(
        gs.Platform.of([125.0] * 2),
        gs.Workload.of([1.0, 1.001, 1.002, 1.003], [2] * 4, sizes, [0] * 4, origin=0.0),
        gs.Network(latency=1.0),
    )
    tree = gs.FairTree(grid=((1.0,), (0.4,), (1.0, 3.0)))
    check_forms(scenario, tree)
    table = gs.simulate(scenario, tree, record="decisions").tables["decisions"]
    gave = table["action"] == "gave"
    # leaf 2 is a second away, and its three tasks are in transit
    assert table["saw"][gave & (table["machine"] == 1)].tolist()[-1] == 50 - 3


@pytest.mark.parametrize("limit", [1, 7, 40])
def test_both_forms_of_nodes_keep_the_same_decisions_up_to_a_limit(limit: int) -> None:
    tree = gs.FairTree(samples=(4, 3, 2), heartbeat=10.0)
    actual = [
        gs.simulate(grid(FAULTS), tree, nodes=nodes, record="decisions", decisions_limit=limit)
        for nodes in ("compiled", "interpreted")
    ]
    assert actual[0].tables["decisions"] == actual[1].tables["decisions"]
    assert actual[0].provenance["decisions"] == actual[1].provenance["decisions"]
    assert actual[0].provenance["decisions"]["kept"] == limit


def test_instant_message_after_a_failure_precedes_reports() -> None:
    """At one instant: a timer lets nodes report, and messages arrive before they do."""
    scenario = gs.Scenario(
        gs.Platform.of([2000.0, 2800.0, 1000.0, 2000.0, 1000.0, 2800.0]),
        gs.Workload.of(
            [20.0, 0.0, 300.0, 8.5, 300.0], [6, 3, 1, 2, 1], [4e3, 1e3, 2e4, 9e4, 9e4], [1, 3, 0, 1, 5]
        ),
        gs.Network(latency=0.0, bandwidth=np.inf),
        faults=gs.Faults.of([0, 2, 3, 4], [126.45, 1.0, 126.45, 300.0], [826.0, 1.2, 826.0, 310.0]),
    )
    for spread in ("heartbeat", "change"):
        for cell in (0.0, 7.0, 300.0):
            tree = gs.FairTree(
                samples=(4, 3, 2), update_rate=500.0, spread=spread, release_cell=cell, run_on=True
            )
            check_forms(scenario, tree)


@pytest.mark.parametrize("faults", [None, FAULTS, NOBODY], ids=["none", "some", "all"])
@pytest.mark.parametrize("record", [True, "decisions"])
def test_compiled_protocol_resumes_from_a_checkpoint(faults: Any, record: Any) -> None:
    for resubmit, accept in (("as-is", "minimum"), ("new", "minimum"), ("as-is", "either")):
        common: dict[str, Any] = {"samples": (4, 3, 2), "heartbeat": 10.0, "repair": 3.0, "run_on": True}
        tree = gs.FairTree(resubmit=resubmit, accept=accept, **common)  # type: ignore[arg-type]
        what = grid(faults, jitter=0.02)
        result = gs.simulate(what, tree, record=record)
        assert resume_difference(what, tree, result, record=record) is None


#: Messages take no time.
AT_ONCE = gs.Network(latency=0.0, bandwidth=np.inf)


def test_a_promise_that_is_met_exactly_is_kept() -> None:
    bag = gs.Workload.of([0.0], [2], 1000.0, [0])
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 2), bag, AT_ONCE)
    result = gs.simulate(scenario, gs.FairTree(grid=((0.0005, 0.001), (2000.0,), (1000.0,))))
    requests = result.tables["requests"]
    assert requests["promised"].tolist() == requests["stretch"].tolist() == [0.0005]
    assert requests["kept"].tolist() == [1]


def test_accounting_of_messages_ends_with_the_last_placement() -> None:
    bag = gs.Workload.of([5.0], [1], 1e6, [0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([1000.0]), bag, AT_ONCE)
    result = gs.simulate(scenario, gs.FairTree(samples=(4, 3, 2), run_on=True))
    assert result.applications["finish"].tolist() == [1005.0]
    assert result.facts["ledger_end_s"] == 5.0


def test_unchanged_minimum_stretch_is_not_forwarded() -> None:
    """All eight machines are idle at 300 s: the root sends the minimum, which its routers know already."""
    bag = gs.Workload.of([10.0], [8], 1000.0, [0], origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([1000.0] * 8), bag, AT_ONCE)
    parameters: dict[str, Any] = {
        "accept": "minimum",
        "samples": (4, 3, 2),
        "heartbeat": 300.0,
        "run_on": True,
    }
    senders = {}
    for spread in ("change", "heartbeat"):
        tree = gs.FairTree(spread=spread, **parameters)  # type: ignore[arg-type]
        log = gs.simulate(scenario, tree, record="messages").tables["message_log"]
        late = (log["kind"] == "spread") & (log["sent"] >= 300.0)
        senders[spread] = sorted(log["sender"][late].tolist())
    assert senders == {"change": [0, 0], "heartbeat": [0, 0, 1, 1, 2, 2]}
