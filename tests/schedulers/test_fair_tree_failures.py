"""What the fair tree does when machines fail, on four machines, by hand.

Router k is node k, leaf 3 + k is that of machine k; router 1 has leaves 3 and 4, router 2 has leaves 5 and 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gridsim as gs
from gridsim.validation.results import validate_result


def run(faults: gs.Faults, release: Any, tasks: Any, submitter: Any, **parameters: Any) -> gs.Result:
    """Tasks of 100 s."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 4), gs.Workload.of(release, tasks, 1e5, submitter), faults=faults
    )
    tree = gs.FairTree(samples=(4, 3, 2), **parameters)
    # the limit is for a mistake that submits the same tasks again and again
    result = gs.simulate(scenario, tree, record=["schedule", "messages"], time_limit=20_000.0)
    assert validate_result(result) == []
    return result


def test_the_level_is_that_of_the_first_request() -> None:
    """At first nobody is busy, so that the root decides; what machine 3 loses router 1 may accept."""
    resets = gs.Faults.of([3], [50.0], [50.0])
    result = run(resets, [10.0], [40], [1], bound=1e9, detection=5.0)
    requests = result.tables["requests"]
    assert (requests["level"].tolist(), requests["tasks"].tolist()) == ([0, 1], [40, 10])
    assert result.applications["level"].tolist() == [0]


def test_the_router_of_a_machine_that_is_away_sits_on_the_next_one() -> None:
    """Router 1 is on machine 2 when three tasks come; it gets the request for leaf 3 and passes it on."""
    gone = gs.Faults.of([1], [1.0], [np.inf])
    result = run(gone, [100.0], [3], [0], detection=1.0)
    log = result.tables["message_log"]
    asked = log["kind"] == "request"
    ways = list(zip(log["sender"][asked].tolist(), log["receiver"][asked].tolist(), strict=True))
    assert sorted(ways) == [(0, 2), (0, 2), (2, 0), (2, 3)]
    assert result.applications["resubmitted"].tolist() == [0]
    assert result.machines["tasks"].tolist() == [1, 0, 1, 1]


def test_who_is_away_tells_nothing() -> None:
    """Leaf 6 has lost its task; it would say so at 10 s, when all leaves report anew."""
    away = gs.Faults.of([3], [5.0], [400.0])
    result = run(away, [1.0], [4], [0], refresh=10.0, detection=1000.0)
    log = result.tables["message_log"]
    of_3 = log["sent"][(log["sender"] == 3) & (log["kind"] == "summary")]
    assert len(of_3) and not ((of_3 >= 5.0) & (of_3 < 400.0)).any() and (of_3 >= 400.0).any()


def test_who_is_reset_says_so_though_it_has_nothing_new() -> None:
    """Its share is on the way, and dropped: the father shall not count on a reply to that."""
    resets = gs.Faults.of([3], [10.08], [10.08])
    log = run(resets, [10.0], [4], [0]).tables["message_log"]
    (lost,) = np.flatnonzero(log["dropped"])
    assert (log["kind"][lost], log["sender"][lost], log["receiver"][lost]) == ("request", 2, 3)
    assert log["sent"][lost] < 10.08
    assert 10.08 in log["sent"][(log["sender"] == 3) & (log["kind"] == "summary")]


def test_a_father_counts_on_a_leaf_until_he_knows_that_it_is_gone() -> None:
    """Machine 3 goes at 1 s, which is known at 6 s; of 30 tasks at 3 s it would get some, at 100 s none."""
    gone = gs.Faults.of([3], [1.0], [np.inf])
    early, late = (run(gone, [release], [30], [0], detection=5.0) for release in (3.0, 100.0))
    assert early.applications["resubmitted"][0] > 0
    assert late.applications["resubmitted"][0] == 0
    assert late.machines["tasks"].tolist() == [10, 10, 10, 0]


def test_the_next_machine_submits_for_one_that_is_away() -> None:
    """Machine 1 is; machine 2 has a router of its own, which asks the root."""
    gone = gs.Faults.of([1], [1.0], [np.inf])
    result = run(gone, [100.0], [3], [1], detection=1.0)
    log = result.tables["message_log"]
    first = np.flatnonzero(log["kind"] == "request")[0]
    assert (log["sender"][first], log["receiver"][first], log["sent"][first]) == (2, 0, 100.0)
    assert result.applications["resubmitted"].tolist() == [0]
