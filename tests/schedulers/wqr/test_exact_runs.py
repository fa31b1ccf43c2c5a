"""The node programs of WQR-FT equal the compiled kernel to the nanosecond, and to the last bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.work_queue.state import BAG_ORDERS
from tests.schedulers.wqr import exact_runs
from tests.schedulers.wqr.exact_runs import Change, ExactRun

S = 10**9
NEVER = 2**63 - 1
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))


def times(*usual: float) -> st.SearchStrategy[int]:
    return (st.sampled_from(usual) | st.floats(0.0, 30.0)).map(lambda seconds: round(seconds * S))


@st.composite
def changes(draw: st.DrawFn, machines: int) -> list[Change]:
    rows: list[Change] = []
    for u in range(machines):
        instant, course = 0, []
        for _ in range(draw(st.integers(0, 3))):
            down = instant + draw(times(0.0, 1.0, 2.0, 5.0)) + (1 if course else 0)
            instant = down + draw(times(0.0, 0.0, 1.0, 5.0))
            course.append((down, instant))
        ends = [down for down, _ in course[1:]] + [NEVER]
        for (down, back), until in zip(course, ends, strict=False):
            rows += [(down, u, False, back), (back, u, True, until)]
    return sorted(rows)


@st.composite
def schedulers(draw: st.DrawFn) -> gs.WqrFt:
    predictor: Any = draw(st.sampled_from(("exact", "exact", "past", "age")))
    printed = draw(st.sampled_from((False, False, False, True)))
    return gs.WqrFt(
        bag_order=draw(st.sampled_from(BAG_ORDERS)),
        task_order=draw(st.sampled_from(("random", "small", "great"))),
        machine_choice=draw(st.sampled_from(("none", "cpu", "avail", "all"))),
        max_replicas=draw(st.integers(1, 4)),
        exclude=None if printed else draw(st.sampled_from((None, None, 0.0, 1.0))),
        checkpoint_interval=draw(st.sampled_from((math.inf, 0.5, 2.0, 3.0))),
        checkpoint_cost=draw(st.sampled_from((0.0, 0.0, 0.25))),
        restore_cost=draw(st.sampled_from((0.0, 0.0, 0.5))),
        checkpoint_store=draw(st.sampled_from(("server", "local"))),
        predictor=predictor,
        prediction_error=draw(st.sampled_from((0.0, 0.5))) if predictor == "exact" else 0.0,
        as_printed=printed,
    )


@st.composite
def loads(draw: st.DrawFn, machines: int) -> dict[str, Any]:
    factor = st.sampled_from((0.25, 0.5, 1.0)) | st.floats(0.1, 2.0)
    period = draw(st.sampled_from((S, 3 * S // 2, 7 * S)))

    def column(high: int) -> Any:
        return np.array(draw(st.lists(st.integers(0, high), min_size=machines, max_size=machines)))

    return {
        "period": period,
        "factors": np.array(draw(st.lists(st.lists(factor, min_size=3, max_size=3), min_size=2, max_size=2))),
        "series": column(1),
        "first": column(2),
        "phase": draw(st.sampled_from((0, 1, period // 3, period - 1))),
    }


@st.composite
def runs(draw: st.DrawFn, **rules: Any) -> ExactRun:
    machines = draw(st.integers(1, 8))
    size = st.sampled_from((5.0, 10.0, 10.0, 20.0, 40.0)) | st.floats(1.0, 60.0)
    sizes = draw(st.lists(st.lists(size, min_size=1, max_size=7), min_size=1, max_size=4))
    speed = st.sampled_from((1.0, 2.0, 2.0, 3.7, 4.0))
    rows = draw(changes(machines)) if draw(st.booleans()) else None
    return ExactRun(
        speeds=draw(st.lists(speed, min_size=machines, max_size=machines)),
        sizes=sizes,
        releases=sorted(draw(st.lists(times(0.0, 0.0, 3.0), min_size=len(sizes), max_size=len(sizes)))),
        scheduler=gs.WqrFt(**rules) if rules else draw(schedulers()),
        changes=rows,
        cuts=sorted(draw(st.sets(st.integers(0, len(rows or [])), max_size=2))),
        load=draw(loads(machines)) if draw(st.booleans()) else None,
        records_decisions=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32)),
    )


@QUICK
@given(runs())
def test_node_programs_equal_the_kernel_in_exact_runs(run: ExactRun) -> None:
    assert run.play("interpreted") == run.play("compiled")


@QUICK
@given(runs(task_order=exact_runs.any_task, machine_choice=exact_runs.any_machine, checkpoint_interval=2.0,
            checkpoint_cost=0.25, max_replicas=3))  # fmt: skip
def test_functions_are_given_the_same_choices(run: ExactRun) -> None:
    seen = []
    for nodes in ("interpreted", "compiled"):
        exact_runs.CHOICES.clear()
        seen.append((run.play(nodes), exact_runs.CHOICES[:]))
    assert seen[0] == seen[1] and seen[0][1]


def tiny_run(seed: int) -> ExactRun:
    """Draw a run in which single nanoseconds matter: at the beginning, or late, where float64 is coarse."""
    stream = np.random.default_rng(seed)

    def draw_integer(high: int, low: int = 0) -> int:
        return int(stream.integers(low, high))

    def draw_value(*values: Any) -> Any:
        return values[draw_integer(len(values))]

    machines, start, load = draw_integer(6, 1), draw_value(0, 0, 10**17 + 1), None
    predictor, printed = draw_value("exact", "past", "age"), draw_value(False, True)
    scheduler = gs.WqrFt(
        task_order=draw_value("random", "small", "great"),
        machine_choice=draw_value("none", "cpu", "avail", "all"),
        bag_order=draw_value(*BAG_ORDERS),
        max_replicas=draw_integer(4, 1),
        checkpoint_interval=(draw_integer(6) or math.inf) * 1e-9,
        checkpoint_cost=draw_value(0, 0, 1, 2, 7) * 1e-9,
        restore_cost=draw_value(0, 1, 3) * 1e-9,
        checkpoint_store=draw_value("server", "local"),
        predictor=predictor,
        prediction_error=draw_value(0.0, 1.0) if predictor == "exact" else 0.0,
        as_printed=printed,
    )
    if draw_value(False, True):
        load = {
            "period": draw_integer(7, 1),
            "factors": stream.choice([0.25, 0.5, 1.0, 2.0, 0.3], (2, 3)),
            "series": stream.integers(0, 2, machines),
            "first": stream.integers(0, 3, machines),
        }
    rows: list[Change] = []
    for u in range(machines):
        down = start + draw_integer(9)
        for _ in range(draw_integer(4)):
            back = down + draw_integer(5)
            second = back + draw_integer(9, 1)
            rows += [(down, u, False, back), (back, u, True, draw_value(second, second, NEVER))]
            down = second
    return ExactRun(
        speeds=stream.choice([0.5, 1.0, 2.0], machines).tolist(),
        sizes=[(stream.integers(1, 25, draw_integer(5, 1)) * 0.5e-9).tolist() for _ in range(3)],
        releases=sorted(start + draw_integer(20) for _ in range(3)),
        scheduler=scheduler,
        changes=sorted(rows),
        cuts=[draw_integer(len(rows) + 1)],
        load=load,
        records_decisions=draw_value(False, True),
        seed=seed,
    )


def test_durations_are_exact_to_the_nanosecond() -> None:
    for seed in range(300):
        run = tiny_run(seed)
        assert run.play("interpreted") == run.play("compiled"), seed


def test_node_programs_equal_the_kernel_with_many_machines() -> None:
    """The kernel's heap gets more ends than it keeps in order, and more ends of lost copies than fit."""
    stream, rows = np.random.default_rng(2), []
    speeds, sizes = stream.uniform(1.0, 9.0, 120).tolist(), (10.0 ** stream.uniform(-2, 4, 400)).tolist()
    for u in range(len(speeds)):
        edges = np.cumsum(np.ceil(stream.exponential((100.0, 10.0), (5, 2)) * S).astype(np.int64)).tolist()
        for instant, back, until in zip(edges[::2], edges[1::2], [*edges[2::2], NEVER], strict=True):
            rows += [(instant, u, False, back), (back, u, True, until)]
    scheduler = gs.WqrFt(
        task_order="great",
        machine_choice="cpu",
        checkpoint_interval=5.0,
        checkpoint_cost=0.25,
        restore_cost=0,
    )
    run = ExactRun(speeds, [sizes], [0], scheduler, sorted(rows))
    assert run.play("interpreted") == run.play("compiled")


def test_the_last_part_of_a_task_is_added_separately() -> None:
    """A task resumes from its first checkpoint for six intervals: sums beyond 2**53 ns are rounded."""
    interval = 4_753_305_983_434_210
    run = ExactRun(
        [2.0**-23],
        [[3.9664676051186882]],
        [0],
        gs.WqrFt(checkpoint_interval=interval / 1e9, checkpoint_cost=0.0, restore_cost=1e-9, max_replicas=1),
        [(instant := 3 * interval // 2, 0, False, instant), (instant, 0, True, NEVER)],
    )
    outcome, *_ = played = run.play("compiled")
    assert (
        run.play("interpreted") == played
        and outcome["applications"]["finish"] == f"[{instant + 1 + 6 * interval}]"
    )
    assert 0 < abs(float(outcome["cycles"]["slowed"].strip("[]"))) < 1e-12
