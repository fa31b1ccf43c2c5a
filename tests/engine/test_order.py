"""The order of events in the engine, checked against a list sorted by the documented key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.engine.engine import ACT, DELIVERY, TIMER, Engine
from gridsim.support.clock import NEVER

ROWS = np.dtype([("node", np.int64), ("value", np.int64)])
# Kinds are registered out of order, so that the order of registration differs from that of priority.
KINDS = {
    "d2": (DELIVERY, 2), "d0": (DELIVERY, 0), "d1": (DELIVERY, 1),
    "a1": (ACT, 1), "a0": (ACT, 0),
    "t1": (TIMER, 1), "t0": (TIMER, 0), "tick": (TIMER, 2),
}  # fmt: skip


def rows(pairs: list[tuple[int, int]]) -> Any:
    return np.array(pairs, dtype=ROWS)


class Reference:
    """A list sorted by (time, phase, wave, priority, receiver, sequence), handled row by row."""

    def __init__(self, program: Any) -> None:
        self.now, self.wave, self.stopped = 0, -1, False
        self.pending: list[list[Any]] = []
        self.program, self.sequence = program, 0
        self.period = 0

    def _add(self, time: int, kind: str, receiver: int, value: int) -> None:
        assert time >= self.now
        phase, priority = KINDS[kind]
        wave = self.wave + 1 if phase == DELIVERY and time == self.now else 0
        self.sequence += 1
        self.pending.append([time, phase, wave, priority, receiver, self.sequence, kind, value])

    def post(self, time: int, kind: str, pairs: list[tuple[int, int]]) -> None:
        for node, value in pairs:
            self._add(time, kind, node, value)

    def touch(self, kind: str, items: list[int], time: int) -> None:
        for item in items:
            self._add(time, kind, item, 0)

    def at(self, time: int, kind: str, item: int) -> None:
        self._add(time, kind, item, 0)

    def every(self, period: int, first: int) -> None:
        self.period = period
        self.at(first, "tick", 0)

    def cancel(self, time: int, kind: str, item: int) -> bool:
        for entry in self.pending:
            if (entry[0], entry[6], entry[4]) == (time, kind, item):
                self.pending.remove(entry)
                return True
        return False

    def stop(self) -> None:
        self.stopped = True

    def run(self, until: int) -> None:
        while self.pending and not self.stopped:
            self.pending.sort(key=lambda entry: entry[:6])
            cohort = [entry for entry in self.pending if entry[:4] == self.pending[0][:4]]
            time, phase, wave, _, _, _, kind, _ = cohort[0]
            if time > until:
                break
            if time != self.now:
                self.now, self.wave = time, -1
            if phase == DELIVERY:
                self.wave = wave
            # Events that the handlers of a cohort post are not part of the cohort.
            self.pending = self.pending[len(cohort) :]
            acted = set()
            for _, _, _, _, receiver, _, _, value in cohort:
                if phase != ACT or receiver not in acted:
                    self.program.handle(kind, receiver, value)
                acted.add(receiver)
            if kind == "tick":
                self.at(time + self.period, "tick", 0)
            if min((entry[:3] for entry in self.pending), default=None) != [time, phase, wave]:
                self.program.hook()


class Adapter:
    """The engine behind the interface of the reference."""

    def __init__(self, program: Any, cohort_limit: int | None) -> None:
        self.engine = engine = Engine(cohort_limit=cohort_limit)
        self.program, self.limit = program, cohort_limit
        self.touch = lambda kind, items, time: engine.touch(kind, items, time=time)
        self.at, self.cancel, self.run = engine.at, engine.cancel, engine.run
        for kind, (phase, priority) in KINDS.items():
            engine.on(kind, self.handler(kind, phase), phase=phase, priority=priority)
        engine.at_wave_end(program.hook)

    @property
    def now(self) -> int:
        return self.engine.now

    def post(self, time: int, kind: str, pairs: list[tuple[int, int]]) -> None:
        self.engine.post(time, kind, rows(pairs))

    def every(self, period: int, first: int) -> None:
        self.engine.every(period, "tick", first=first)

    def handler(self, kind: str, phase: int) -> Any:
        def handle(cohort: Any) -> None:
            assert self.limit is None or len(cohort) <= self.limit
            engine = self.engine
            assert engine._queue.horizon > engine.now
            engine._queue._check()
            for row in cohort:
                if phase == DELIVERY:
                    self.program.handle(kind, int(row["node"]), int(row["value"]))
                else:
                    self.program.handle(kind, row, 0)

        return handle


class Program:
    """A program that obeys one random order for each row it handles, and traces its calls."""

    def __init__(self, setup: list[Any], script: list[Any], limit: int | None = 0) -> None:
        self.trace: list[Any] = []
        self.script = iter(script)
        self.world: Any = Reference(self) if limit == 0 else Adapter(self, limit)
        for order in setup:
            self.execute(order)

    def execute(self, order: Any) -> None:
        verb, delay, kind, items = order
        world = self.world
        time = world.now + delay
        if verb == "post":
            world.post(time, f"d{kind}", [(item, i) for i, item in enumerate(items)])
        elif verb == "touch":
            world.touch(f"a{kind % 2}", items, time)
        elif verb == "at":
            for item in items:
                world.at(time, f"t{kind % 2}", item)
        elif verb == "cancel":
            self.trace += [world.cancel(time, f"t{kind % 2}", item) for item in items]
        elif verb == "every":
            world.every(delay + 1, time)

    def handle(self, kind: str, receiver: int, value: int) -> None:
        self.trace.append((self.world.now, kind, receiver, value))
        for order in next(self.script, ()):
            self.execute(order)

    def hook(self) -> None:
        self.trace.append("hook")

    def run(self, until: int) -> list[Any]:
        self.world.run(until)
        return self.trace


delays = st.sampled_from([0, 0, 0, 1, 1, 2, 5, 1000, 10**9])
items = st.lists(st.integers(0, 4), min_size=1, max_size=4)
verbs = st.sampled_from(["post", "post", "touch", "at", "at", "cancel"])
orders = st.tuples(verbs, delays, st.integers(0, 2), items)
ticks = st.tuples(st.just("every"), st.integers(1, 5), st.just(0), st.just([0]))
setups = st.builds(
    lambda some, tick: some + tick, st.lists(orders, min_size=1, max_size=8), st.lists(ticks, max_size=1)
)
scripts = st.lists(st.lists(orders, max_size=3), max_size=25)
UNTIL = 40


@settings(max_examples=60, deadline=None)
@given(setups, scripts)
def test_events_are_handled_in_the_documented_order(setup: list[Any], script: list[Any]) -> None:
    assert Program(setup, script, None).run(UNTIL) == Program(setup, script).run(UNTIL)


@settings(max_examples=25, deadline=None)
@given(setups, scripts, st.integers(1, 3))
def test_limited_cohorts_have_the_same_order(setup: list[Any], script: list[Any], limit: int) -> None:
    assert Program(setup, script, limit).run(UNTIL) == Program(setup, script, None).run(UNTIL)


@settings(max_examples=25, deadline=None)
@given(setups, scripts, st.lists(st.integers(0, UNTIL), max_size=5))
def test_several_short_runs_equal_one_run(setup: list[Any], script: list[Any], cuts: list[int]) -> None:
    full_run, pieces = Program(setup, script, None), Program(setup, script, None)
    full_run.world.run(UNTIL)
    for until in sorted(cuts) + [UNTIL]:
        pieces.world.run(until)
        assert pieces.world.now == until
    assert pieces.trace == full_run.trace


@settings(max_examples=25, deadline=None)
@given(setups, scripts, st.integers(1, 4))
def test_stopped_and_resumed_runs_equal_one_run(setup: list[Any], script: list[Any], often: int) -> None:
    full_run, pieces = Program(setup, script, None), Program(setup, script, None)
    full_run.world.run(UNTIL)
    engine = pieces.world.engine
    plain = pieces.handle

    def handle(kind: str, receiver: int, value: int) -> None:
        plain(kind, receiver, value)
        if len(pieces.trace) % often == 0:
            engine.stop()

    pieces.handle = handle
    for _ in range(10_000):
        if not engine.run(UNTIL):
            break
    assert pieces.trace == full_run.trace


class Messages:
    """A source with its own list of events, each of which it posts at its time."""

    def __init__(self, due: list[tuple[int, int]]) -> None:
        self.due = sorted(due)
        self.limits: list[int] = []

    def advance(self, limit: int) -> int:
        self.limits.append(limit)
        return self.due[0][0] if self.due and self.due[0][0] <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        assert engine.now == time
        ready = [node for at, node in self.due if at == time]
        self.due = [(at, node) for at, node in self.due if at != time]
        engine.post(time, "d1", rows([(node, 0) for node in ready]))


def without_values(trace: list[Any]) -> list[Any]:
    """Return the trace without values, which are numbered in another order if a source posts the events."""
    return [entry[:3] if isinstance(entry, tuple) else entry for entry in trace]


@settings(max_examples=25, deadline=None)
@given(setups, scripts, st.lists(st.tuples(st.integers(1, UNTIL), st.integers(0, 4)), min_size=1, max_size=8))
def test_a_source_equals_events_posted_in_advance(
    setup: list[Any], script: list[Any], due: list[Any]
) -> None:
    ahead, polled = Program([], script, None), Program([], script, None)
    source = Messages(due)
    polled.world.engine.add_source(source)
    for program in (ahead, polled):
        for order in setup:
            program.execute(order)
    for time, node in sorted(due):
        ahead.world.post(time, "d1", [(node, 0)])
    seen: list[int] = []
    advance = source.advance

    def watch(limit: int) -> int:
        assert limit >= polled.world.now
        seen.append(polled.world.now)
        return advance(limit)

    source.advance = watch
    ahead.world.run(UNTIL)
    polled.world.run(UNTIL)
    assert without_values(polled.trace) == without_values(ahead.trace)
    assert not source.due and seen == sorted(seen) and max(source.limits) <= UNTIL


def test_a_source_cannot_run_beyond_pending_events() -> None:
    engine, trace = Engine(), []
    engine.on("d1", lambda cohort: trace.append((engine.now, "d1", cohort["node"].tolist())), priority=1)
    engine.on("t0", lambda cohort: trace.append((engine.now, "t0", cohort)), priority=0, phase=TIMER)
    source = Messages([(7, 1), (5, 2), (9, 3)])
    engine.add_source(source)
    engine.at(5, "t0", 1)
    engine.at(6, "t0", 2)
    engine.run(8)
    assert trace == [(5, "d1", [2]), (5, "t0", [1]), (6, "t0", [2]), (7, "d1", [1])]
    assert source.due == [(9, 3)] and engine.now == 8
    assert max(source.limits) == 8


def test_the_source_with_the_earlier_event_advances_first() -> None:
    engine, trace = Engine(), []
    engine.on("d1", lambda cohort: trace.append((engine.now, cohort["node"].tolist())), priority=1)
    late, early = Messages([(7, 1), (8, 1)]), Messages([(5, 2), (8, 2)])
    engine.add_source(early)
    engine.add_source(late)
    engine.run(100)
    assert trace == [(5, [2]), (7, [1]), (8, [1, 2])]
    assert late.limits[0] == 5


@pytest.mark.parametrize("limit, calls", [(None, 1), (1, 5), (2, 3), (5, 1)])
def test_the_engine_counts_rows_as_events_and_handler_calls_as_calls(limit: int | None, calls: int) -> None:
    engine = Engine(cohort_limit=limit)
    engine.on("t0", lambda cohort: None, priority=0, phase=TIMER)
    for item in range(5):
        engine.at(1, "t0", item)
    engine.run()
    assert (engine.events, engine.calls) == (5, calls)
