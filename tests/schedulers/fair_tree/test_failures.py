"""The fair tree on four machines that fail, compared with cases computed by hand.

Router k is node k, leaf 3 + k is that of machine k; router 1 has leaves 3 and 4, router 2 has leaves 5 and 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gridsim as gs
from gridsim.scheduling.contract import NodeForm
from gridsim.validation.results import validate_result


def run(faults: gs.Faults, release: Any, tasks: Any, submitter: Any, **parameters: Any) -> gs.Result:
    """Run tasks of 100 s on four machines, and check the result."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 4),
        gs.Workload.of(release, tasks, 1e5, submitter, origin=0.0),
        faults=faults,
    )
    tree = gs.FairTree(**{"accept": "minimum", "heartbeat": 300.0, "samples": (4, 3, 2), **parameters})
    # the time limit ends runs that, by mistake, submit the same tasks again and again
    result = gs.simulate(scenario, tree, record=["schedule", "messages"], time_limit=20_000.0)
    assert validate_result(result) == []
    return result


def test_the_level_of_an_application_is_that_of_its_first_request() -> None:
    """The root decides on the first request, as no machine is busy; router 1 accepts the lost tasks."""
    resets = gs.Faults.of([3], [50.0], [50.0])
    result = run(resets, [10.0], [40], [1], bound=1e9, accept="minimum", minimum_of="busy", detection=5.0)
    requests = result.tables["requests"]
    assert (requests["level"].tolist(), requests["tasks"].tolist()) == ([0, 1], [40, 10])
    assert result.applications["level"].tolist() == [0]


def test_router_of_a_failed_machine_moves_to_the_next_machine() -> None:
    """Router 1 is on machine 2 when three tasks come; it gets the request for leaf 3 and passes it on."""
    failure = gs.Faults.of([1], [1.0], [np.inf])
    result = run(failure, [100.0], [3], [0], detection=1.0)
    log = result.tables["message_log"]
    asked = log["kind"] == "request"
    ways = list(zip(log["sender"][asked].tolist(), log["receiver"][asked].tolist(), strict=True))
    assert sorted(ways) == [(0, 2), (0, 2), (2, 0), (2, 3)]
    assert result.applications["resubmitted"].tolist() == [0]
    assert result.machines["tasks"].tolist() == [1, 0, 1, 1]


def test_failed_leaf_sends_no_report() -> None:
    """Leaf 6 has lost its task, and would report that at 10 s, when all leaves report again."""
    away = gs.Faults.of([3], [5.0], [400.0])
    result = run(away, [1.0], [4], [0], refresh=10.0, detection=1000.0)
    log = result.tables["message_log"]
    of_3 = log["sent"][(log["sender"] == 3) & (log["kind"] == "summary")]
    assert len(of_3) and not ((of_3 >= 5.0) & (of_3 < 400.0)).any() and (of_3 >= 400.0).any()


def test_leaf_reports_its_transient_failure() -> None:
    """The share of the leaf is dropped in transit, so its parent must not wait for a reply to it."""
    resets = gs.Faults.of([3], [10.08], [10.08])
    log = run(resets, [10.0], [4], [0]).tables["message_log"]
    (lost,) = np.flatnonzero(log["dropped"])
    assert (log["kind"][lost], log["sender"][lost], log["receiver"][lost]) == ("request", 2, 3)
    assert log["sent"][lost] < 10.08
    assert 10.08 in log["sent"][(log["sender"] == 3) & (log["kind"] == "summary")]


def test_parent_uses_a_leaf_until_its_failure_is_detected() -> None:
    """Machine 3 fails at 1 s, detected at 6 s: it would get some of 30 tasks at 3 s, and none at 100 s."""
    failure = gs.Faults.of([3], [1.0], [np.inf])
    early, late = (run(failure, [release], [30], [0], detection=5.0) for release in (3.0, 100.0))
    assert early.applications["resubmitted"][0] > 0
    assert late.applications["resubmitted"][0] == 0
    assert late.machines["tasks"].tolist() == [10, 10, 10, 0]


def test_next_machine_submits_for_a_failed_one() -> None:
    """Machine 1 has failed; machine 2 submits for it, and its own router asks the root."""
    failure = gs.Faults.of([1], [1.0], [np.inf])
    result = run(failure, [100.0], [3], [1], detection=1.0)
    log = result.tables["message_log"]
    first = np.flatnonzero(log["kind"] == "request")[0]
    assert (log["sender"][first], log["receiver"][first], log["sent"][first]) == (2, 0, 100.0)
    assert result.applications["resubmitted"].tolist() == [0]


def test_children_report_again_after_a_failure_of_their_router() -> None:
    """Machine 0 has the root and leaf 3; machines 1 and 2, whose routers are its children, did not fail."""
    resets = gs.Faults.of([0], [50.0], [50.0])
    log = run(resets, [10.0], [4], [0]).tables["message_log"]
    then = (log["kind"] == "summary") & (log["sent"] == 50.0)
    ways = zip(log["sender"][then].tolist(), log["receiver"][then].tolist(), strict=True)
    assert sorted(ways) == [(0, 1), (1, 0), (2, 0)]


def test_lost_tasks_keep_their_release_or_are_a_new_request() -> None:
    """Machine 3 loses 10 of 40 tasks at 50 s, which is known at 55 s, and one of them again at 60 s."""
    resets = gs.Faults.of([3, 3], [50.0, 60.0], [50.0, 60.0])
    for resubmit in ("as-is", "new"):
        result = run(resets, [10.0], [40], [1], detection=5.0, resubmit=resubmit)
        requests = result.tables["requests"]
        assert requests["application"].tolist() == [0, 0, 0]
        tasks = requests["tasks"]
        assert tasks[:2].tolist() == [40, 10] and tasks[2] > 0
        if resubmit == "as-is":
            assert requests["release"].tolist() == [10.0] * 3
            assert requests["size"].tolist() == [40e5] * 3
        else:
            assert requests["release"].tolist() == [10.0, 55.0, 65.0]
            assert requests["size"].tolist() == (tasks * 1e5).tolist()
        assert result.applications["resubmitted"].tolist() == [tasks[1:].sum()]
        # a request without losses has its own completions; the others share those of the application
        finish = result.applications["finish"][0]
        stretch = (finish - requests["release"]) / requests["size"]
        np.testing.assert_allclose(requests["stretch"][0], stretch[0], rtol=1e-12)
        assert (requests["stretch"] <= stretch * (1 + 1e-12)).all()


def test_router_does_not_answer_until_the_tree_is_repaired() -> None:
    """Machine 1 recovers at once, its router after 20 s: requests sent in between are sent again then."""
    resets = gs.Faults.of([1], [50.0], [50.0])
    for repair, start in ((0.0, 55.0), (20.0, 70.0)):
        result = run(resets, [55.0], [4], [1], detection=5.0, repair=repair)
        assert start <= result.applications["first_start"][0] < start + 1.0
        assert result.applications["resubmitted"].tolist() == [0 if repair == 0.0 else 4]


def test_parent_uses_a_router_until_its_failure_is_detected() -> None:
    """Router 1 serves machines 0 and 1; the root detects its failure at 6 s, and it returns at 301 s."""
    resets = gs.Faults.of([1], [1.0], [1.0])
    actual = {
        release: run(resets, [release], [20], [0], detection=5.0, repair=300.0)
        for release in (3.0, 100.0, 400.0)
    }
    assert [item.applications["resubmitted"][0] for item in actual.values()] == [10, 0, 0]
    assert actual[100.0].machines["tasks"].tolist() == [0, 0, 10, 10]
    assert actual[400.0].machines["tasks"].tolist() == [5, 5, 5, 5]


def test_a_router_moves_once_the_tree_is_repaired() -> None:
    """Machine 1 fails for good: its router is on machine 2 from 31 s on."""
    failure = gs.Faults.of([1], [1.0], [np.inf])
    log = run(failure, [100.0], [9], [0], detection=5.0, repair=30.0).tables["message_log"]
    answers = log["sent"][(log["sender"] == 0) & (log["receiver"] == 2) & (log["kind"] == "summary")]
    assert answers[0] == 31.0


# -- without messages in transit: machines of 1 Mflop/s, and messages that take no time ---------------------

#: Nine failures of machine 0, each a second after a heartbeat.
IN_STEP = [300.0 * k + 1.0 for k in range(9)]


def starts(
    faults: gs.Faults, *, machines: int = 1, release: float = 0.0, tasks: int = 1, task_size: float = 1000.0
) -> list[tuple[int, float]]:
    """Return (machine, start) of each started task, by machine and start."""
    scenario = gs.Scenario(
        gs.Platform.of([1.0] * machines),
        gs.Workload.of([release], [tasks], task_size, [0], origin=0.0),
        gs.Network(latency=0.0, bandwidth=np.inf),
        faults=faults,
    )
    result = gs.simulate(
        scenario, gs.FairTree(samples=(4, 3, 2), heartbeat=300.0), record=True, time_limit=20_000.0
    )
    assert validate_result(result) == []
    table = result.tables["schedule"]
    return list(zip(table["machine"].tolist(), table["start"].tolist(), strict=True))


def test_tasks_lost_at_a_heartbeat_are_submitted_at_the_next_one() -> None:
    assert starts(gs.Faults.of([0], [300.0], [300.0])) == [(0, 0.0), (0, 600.0)]


def test_machine_that_recovers_before_detection_stays_in_the_tree() -> None:
    """Machine 1 is down from 10 to 100 s; its failure would have been detected at 300 s."""
    away = gs.Faults.of([1], [10.0], [100.0])
    assert starts(away, machines=2, release=400.0, tasks=2) == [(0, 400.0), (1, 400.0)]


def test_tasks_lost_at_nine_heartbeats_are_submitted_between_heartbeats() -> None:
    """From the ninth loss on, the delay is the fractional part of n * 0.618, n = 8, 9, 10, times 300 s."""
    failures = [*IN_STEP, 2990.0, 3200.0]
    actual = [start for _, start in starts(gs.Faults.of([0] * 11, failures, failures))]
    assert actual[:9] == [300.0 * k for k in range(9)]
    late = 2700.0 + 0.9442719 * 300.0, 3000.0 + 0.5623059 * 300.0, 3300.0 + 0.1803399 * 300.0
    np.testing.assert_allclose(actual[9:], late, rtol=0, atol=1e-4)


def test_submission_waits_until_a_machine_is_up() -> None:
    """The submission is due at 2983.3 s, when the machine is down."""
    failures = gs.Faults.of([0] * 10, [*IN_STEP, 2900.0], [*IN_STEP, 3100.0])
    assert starts(failures)[9:] == [(0, 3100.0)]


def test_repeated_losses_are_counted_again_after_other_tasks_ran() -> None:
    """Machine 1 runs the other task until 2750 s: the loss reported at 2700 s is not of all tasks left.

    The loss reported at 3000 s is, but counting has begun again.
    """
    failures = [*IN_STEP, 2701.0]
    actual = starts(gs.Faults.of([0] * 10, failures, failures), machines=2, tasks=2, task_size=2750.0)
    assert actual == [*((0, 300.0 * k) for k in range(11)), (1, 0.0)]


def test_a_task_is_lost_again_at_a_router_of_its_own_machine_in_repair() -> None:
    tree = gs.FairTree(detection=0.0, repair=3.0)
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 1000.0]),
        gs.Workload.of([0.0], [1], [50_000.0], [0], origin=0.0),
        faults=gs.Faults.of([0, 1], [10.0, 10.0], [11.0, 11.0]),
        seed=1,
    )
    result = gs.simulate(scenario, tree, record="messages")
    assert result.applications["resubmitted"].tolist() == [2] and validate_result(result) == []


def test_restarted_router_forwards_requests_that_it_cannot_compare() -> None:
    """The lost task goes to the machine that the failure left idle, not behind another one."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(8, 1),
        gs.Workload.bags(1, tasks=8, variation=0.0, seed=1),
        gs.Network(latency=1.0),
        faults=gs.Faults.of([3], [28.3], [28.3]),
    )
    tree = gs.FairTree(accept="minimum", bound=2.5, detection=1.0, heartbeat=300.0)
    forms: tuple[NodeForm, ...] = ("compiled", "interpreted")
    for nodes in forms:
        result = gs.simulate(scenario, tree, nodes=nodes)
        # 80.6 s if the minimum stretch of the rest of the tree counted as infinite
        assert result.makespan < 62.0
