"""Affinity scheduling: the linear program, the mapping rules, and related machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError

pytest.importorskip("scipy")


def test_each_machine_gets_the_class_of_tasks_that_it_runs_fastest() -> None:
    """Each of two machines runs 1 task/s of one class, and is ten times as slow for the other class."""
    optimum = gs.affinity([[1.0, 10.0], [10.0, 1.0]], [1.0, 1.0])
    assert optimum.rate == pytest.approx(2.0) and optimum.allowed.tolist() == [[True, False], [False, True]]
    # there are three times as many tasks of class 0, so machine 1 runs them for a share t of its time; the
    # rates 1 + t / 10 and 3 (1 - t) are equal for t = 20/31
    optimum = gs.affinity([[1.0, 10.0], [10.0, 1.0]], [3.0, 1.0])
    assert optimum.rate == pytest.approx(4 * (1 - 20 / 31)) and optimum.shares[0, 1] == pytest.approx(20 / 31)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from((0.5, 1.0, 3.0)), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from((1.0, 7.0)), st.sampled_from((1.0, 4.0))), min_size=1, max_size=4),
    st.data(),
)
def test_on_related_machines_every_mapping_that_keeps_them_busy_is_optimal(
    speeds: list[float], classes: list[tuple[float, float]], draw: st.DataObject
) -> None:
    """If machines differ only in speed, any division of work in which none idles has the optimal rate."""
    size, proportion = np.array(classes).T
    etc = size[:, None] / np.array(speeds)
    best = gs.affinity(etc, proportion)
    assert best.rate == pytest.approx(sum(speeds) / (size @ proportion / proportion.sum()))
    # assign the work of the classes in any order, filling one machine after another
    work, left = dict(enumerate(size * proportion)), np.array(speeds) * (size @ proportion) / sum(speeds)
    arguments = np.zeros(etc.shape)
    for k in draw.draw(st.permutations(range(len(size)))):
        for u in draw.draw(st.permutations(range(len(speeds)))):
            subset = min(work[k], left[u])
            arguments[k, u], work[k], left[u] = subset, work[k] - subset, left[u] - subset
    time = arguments / np.array(speeds)  # time of each machine if one task/s arrives in total
    served = (time / etc).sum(axis=1) / time.sum(axis=0).max()
    assert served / proportion * proportion.sum() == pytest.approx(np.full(len(size), best.rate))


def test_the_rules_choose_the_machines_computed_by_hand() -> None:
    etc = [[4.0, 5.0, 20.0], [3.0, 9.0, 1.0]]
    kind, arrival = [0, 0, 0, 1], [0.0, 0.0, 0.5, 0.5]

    def machines(rule: Any, **named: Any) -> list[int]:
        return gs.map_arrivals(etc, kind, arrival, rule, **named).machine.tolist()

    assert machines("mct") == [0, 1, 0, 2]
    assert machines("met") == [0, 0, 0, 2]
    assert machines("olb") == [0, 1, 2, 0]
    assert machines("kpb", percent=67.0) == [0, 1, 0, 2]
    allowed = np.array([[False, True, True], [True, True, False]])
    assert machines("mct", allowed=allowed) == [1, 1, 1, 0]
    mapping = gs.map_arrivals(etc, kind, arrival, "mct")
    assert mapping.start.tolist() == [0.0, 0.0, 4.0, 0.5] and mapping.finish.tolist() == [
        4.0,
        5.0,
        8.0,
        1.5,
    ]


def test_queues_stay_short_at_the_optimal_rate_with_the_linear_program() -> None:
    """At 95 % of the optimal rate, queues stay short with the mask of the program and grow without it."""
    rng = np.random.default_rng(5)
    etc = gs.expected_times(4, 6, task_range=2.0, machine_range=50.0, consistency="inconsistent", seed=3)
    best = gs.affinity(etc, [1.0] * 4)
    kind = rng.integers(4, size=4000)
    gaps = rng.exponential(size=4000)
    ends = {
        (load, rule): gs.map_arrivals(
            etc,
            kind,
            (gaps / (load * best.rate)).cumsum(),
            rule,
            allowed=best.allowed if rule == "mct" else None,
        ).makespan
        * best.rate
        / 4000
        for load, rule in ((0.95, "mct"), (0.95, "olb"), (3.0, "mct"))
    }
    assert ends[0.95, "mct"] < 1.1 and ends[0.95, "olb"] > 1.5
    assert ends[3.0, "mct"] > 0.97  # although tasks arrive three times as fast as machines run them


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"etc": [[1.0, 0.0]]}, "etc must be rows of finite numbers > 0"),
        ({"etc": [1.0]}, "etc must be rows of finite numbers > 0"),
        ({"kind": [0, 1]}, r"kind must be whole numbers in 0..0, got \[0, 1\]"),
        ({"arrival": [1.0, 0.0]}, "arrival must be 2 finite numbers >= 0, ascending"),
        ({"rule": "mtc"}, "rule"),
        (
            {"allowed": [[False, False]]},
            "^allowed must be bool",
        ),
        ({"percent": 101}, "percent must be above 0 and at most 100, got 101"),
    ],
)
def test_invalid_arguments_are_reported(change: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"etc": [[1.0, 2.0]], "kind": [0, 0], "arrival": [0.0, 1.0], "rule": "mct"}
    with pytest.raises(ScenarioError, match=words):
        gs.map_arrivals(**{**good, **change})
    with pytest.raises(ScenarioError, match="^proportions"):
        gs.affinity([[1.0, 2.0]], [1.0, 1.0])
