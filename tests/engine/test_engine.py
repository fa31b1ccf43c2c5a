"""Single calls of the engine: errors, periods, cancellation and stopping."""

from __future__ import annotations

import numpy as np
import pytest

from gridsim.engine.engine import ACT, DELIVERY, TIMER, Engine
from gridsim.errors import SchedulerError
from gridsim.support.clock import nanoseconds


def timers(engine: Engine, kind: str = "t", priority: int = 0) -> list[tuple[int, list[int]]]:
    fired: list[tuple[int, list[int]]] = []
    engine.on(kind, lambda items: fired.append((engine.now, items)), priority=priority, phase=TIMER)
    return fired


def test_nanoseconds_are_rounded_half_to_even() -> None:
    assert [nanoseconds(s) for s in (1.5, 2.5e-9, 3.5e-9)] == [1_500_000_000, 2, 4]


@pytest.mark.parametrize("limit", [0, -1])
def test_cohort_limit_must_be_positive(limit: int) -> None:
    with pytest.raises(ValueError, match="^cohort_limit"):
        Engine(cohort_limit=limit)


def test_kinds_and_priorities_of_a_phase_must_be_unique() -> None:
    engine = Engine()
    engine.on("a", print, priority=1)
    with pytest.raises(ValueError, match="kind 'a' is already registered"):
        engine.on("a", print, priority=2)
    with pytest.raises(ValueError, match="^priority of 'b'"):
        engine.on("b", print, priority=1)
    engine.on("b", print, priority=1, phase=ACT)


@pytest.mark.parametrize("priority", [-1, 4096])
def test_priorities_out_of_range_are_rejected(priority: int) -> None:
    with pytest.raises(ValueError, match="^priority of 'a'"):
        Engine().on("a", print, priority=priority)


def test_unknown_phases_are_rejected() -> None:
    with pytest.raises(ValueError, match="^phase of 'a'"):
        Engine().on("a", print, priority=0, phase=3)


@pytest.mark.parametrize("period", [0, -5])
def test_periods_that_are_not_positive_are_rejected(period: int) -> None:
    engine = Engine()
    timers(engine)
    with pytest.raises(ValueError, match="^period of 't'"):
        engine.every(period, "t")


def test_an_unknown_kind_is_an_error() -> None:
    for call in (lambda e: e.at(1, "x"), lambda e: e.touch("x", [1]), lambda e: e.cancel(1, "x")):
        with pytest.raises(KeyError, match="x"):
            call(Engine())


@pytest.mark.parametrize("options", ["at", "post", "touch", "every"])
@pytest.mark.parametrize("running", [False, True])
def test_events_in_the_past_are_rejected(options: str, running: bool) -> None:
    engine = Engine()
    row = np.zeros(1, dtype=[("node", np.int64)])

    def misuse_kind(_: object = None) -> None:
        kind = {"at": "t", "every": "t", "post": "d", "touch": "a"}[options]
        with pytest.raises(
            SchedulerError, match=f"t = 2.0 s: '{kind}' must be posted for this instant or later, got 1.0 s"
        ):
            past = nanoseconds(1)
            {
                "at": lambda: engine.at(past, "t"),
                "every": lambda: engine.every(5, "t", first=past),
                "post": lambda: engine.post(past, "d", row),
                "touch": lambda: engine.touch("a", [1], time=past),
            }[options]()

    engine.on("t", print, priority=0, phase=TIMER)
    engine.on("a", print, priority=0, phase=ACT)
    engine.on("d", print, priority=0, phase=DELIVERY)
    engine.on("go", misuse_kind, priority=1, phase=TIMER)
    if running:
        engine.at(nanoseconds(2), "go")
        engine.run()
    else:
        engine.run(nanoseconds(2))
        misuse_kind()
    assert len(engine._queue) == 0


def test_the_clock_advances_to_the_end_of_each_run() -> None:
    engine = Engine()
    fired = timers(engine)
    engine.at(10, "t")
    engine.run(5)
    assert (engine.now, fired) == (5, [])
    engine.run(10)
    engine.run()
    assert (engine.now, fired) == (10, [(10, [0])])
    engine.run(3)
    assert engine.now == 10


def test_stop_leaves_later_events_pending() -> None:
    engine = Engine()
    engine.on("stop", lambda _: engine.stop(), priority=0, phase=TIMER)
    fired = timers(engine, priority=1)
    engine.at(4, "stop")
    engine.at(4, "t", 1)
    engine.at(9, "t", 2)
    assert engine.run(20)
    assert (engine.now, fired) == (4, [])
    assert not engine.run(20)
    assert (engine.now, fired) == (20, [(4, [1]), (9, [2])])


def test_leave_calls_the_end_hooks_of_an_interrupted_wave() -> None:
    engine = Engine()
    ends: list[tuple[int, bool]] = []
    engine.at_wave_end(lambda: ends.append((engine.now, engine.stopping)))
    engine.on("stop", lambda _: engine.stop(), priority=0, phase=TIMER)
    fired = timers(engine, priority=1)
    for instant in (4, 5, 9):
        engine.at(instant, "stop")
    engine.at(5, "t")
    engine.leave()
    assert engine.run() and ends == [(4, True)]
    engine.leave()
    assert engine.run() and ends == [(4, True)]
    engine.leave()
    engine.leave()
    assert ends == [(4, True), (5, True)] and not engine.stopping
    assert engine.run() and fired == [(5, [0])]
    assert ends == [(4, True), (5, True), (5, False), (9, True)]
    engine.leave()
    assert len(ends) == 4


def test_a_stop_before_a_run_ends_that_run_only() -> None:
    engine = Engine()
    fired = timers(engine)
    engine.at(4, "t")
    engine.stop()
    assert engine.run(20)
    assert (engine.now, fired, engine.is_exhausted()) == (0, [], False)
    assert not engine.run(20)
    assert (engine.now, fired, engine.is_exhausted()) == (20, [(4, [0])], True)


def test_a_periodic_timer_keeps_its_period_when_other_timers_of_its_kind_fire() -> None:
    engine = Engine()
    fired = timers(engine)
    engine.every(10, "t")
    engine.at(15, "t", 3)
    engine.at(20, "t", 3)
    engine.run(40)
    assert fired == [(10, [0]), (15, [3]), (20, [0, 3]), (30, [0]), (40, [0])]


def test_a_handler_can_replace_the_period_of_its_timer() -> None:
    engine = Engine()
    fired = []

    def tick(_: object) -> None:
        fired.append(engine.now)
        if engine.now == 20:
            engine.every(5, "t")

    engine.on("t", tick, priority=0, phase=TIMER)
    engine.every(7, "t")
    engine.every(10, "t", first=0)
    engine.run(30)
    assert fired == [0, 10, 20, 25, 30]


def test_a_period_ends_when_its_next_timer_is_cancelled() -> None:
    engine = Engine()
    fired = timers(engine)
    engine.every(10, "t")
    engine.run(10)
    assert engine.cancel(20, "t")
    engine.run(50)
    assert fired == [(10, [0])]


def test_a_cancellation_removes_one_timer_even_at_its_instant() -> None:
    engine = Engine()
    fired = timers(engine)
    answers = []
    engine.on("d", lambda _: answers.extend([engine.cancel(5, "t", 1), engine.cancel(5, "t", 1)]), priority=0)
    engine.post(5, "d", np.zeros(1, dtype=[("node", np.int64)]))
    engine.at(5, "t", 1)
    for item in (1, 2, 2):
        engine.at(8, "t", item)
    assert engine.cancel(8, "t", 2)
    assert not engine.cancel(8, "t", 3) and not engine.cancel(7, "t", 1)
    engine.run()
    assert answers == [True, False]
    assert fired == [(8, [1, 2])]
    assert not engine.cancel(8, "t", 1)


def test_empty_rows_and_items_post_no_events() -> None:
    engine = Engine()
    engine.on("d", print, priority=0)
    engine.on("a", print, priority=0, phase=ACT)
    engine.post(5, "d", np.zeros(0, dtype=[("node", np.int64)]))
    engine.touch("a", [])
    engine.run()
    assert (engine.now, engine.events) == (0, 0)


def test_acts_run_once_after_every_wave_and_timers_run_last() -> None:
    engine, trace = Engine(), []
    row = np.zeros(1, dtype=[("node", np.int64)])

    def arrive(cohort: np.ndarray) -> None:
        trace.append("d")
        engine.touch("a", np.array([2, 1, 2]))
        if trace.count("d") < 3:
            engine.post(engine.now, "d", row)

    engine.on("t", lambda items: trace.append("t"), priority=0, phase=TIMER)
    engine.on("a", lambda items: trace.append(items), priority=0, phase=ACT)
    engine.on("d", arrive, priority=0)
    engine.at_wave_end(lambda: trace.append("|"))
    engine.at(1, "t")
    engine.post(1, "d", row)
    engine.run()
    assert trace == ["d", "|", "d", "|", "d", "|", [1, 2], "|", "t", "|"]
