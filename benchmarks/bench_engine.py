"""The bare event rate, beside SimPy's.

    pytest benchmarks/bench_engine.py          pytest-benchmark, in three groups
    python benchmarks/bench_engine.py          paired ratios, to check the claim in one run

Each event handles one timer and sets it again after a random delay.  SimPy runs the same program in its
natural form, one generator process a timer, and in its fastest, bare ``Timeout`` callbacks.  The machine's
other work disturbs all of them, so the rounds are interleaved and only ratios within a round are used.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from gridsim.engine.engine import TIMER, Engine

try:
    import simpy
except ImportError:
    simpy = None

_DELAYS = 4096
_random = random.Random(1)
_NS = [_random.randrange(1, 10**9) for _ in range(_DELAYS)]
_SECONDS = [ns / 1e9 for ns in _NS]
_MASK = _DELAYS - 1

#: From the numbers of pending timers and of events to a call that runs these events: what is measured.
Program = Callable[[int, int], Callable[[], None]]


class _Enough(Exception):
    pass


def gridsim_timers(pending: int, events: int) -> Callable[[], None]:
    engine, count = Engine(), 0

    def fire(items: list[int]) -> None:
        nonlocal count
        for item in items:
            count += 1
            if count >= events:
                engine.stop()
            engine.at(engine.now + _NS[count & _MASK], "fire", item)

    engine.on("fire", fire, priority=0, phase=TIMER)
    for i in range(pending):
        engine.at(_NS[i & _MASK] + i, "fire", i)
    return engine.run


def simpy_processes(pending: int, events: int) -> Callable[[], None]:
    env, count = simpy.Environment(), 0

    def process(i: int) -> Any:
        nonlocal count
        yield env.timeout(_SECONDS[i & _MASK] + i * 1e-9)
        while True:
            count += 1
            if count >= events:
                raise _Enough
            yield env.timeout(_SECONDS[count & _MASK])

    for i in range(pending):
        env.process(process(i))
    env.run(until=1e-10)  # the processes start and set their first timers: not part of the measurement
    return _until_enough(env)


def simpy_callbacks(pending: int, events: int) -> Callable[[], None]:
    env, count = simpy.Environment(), 0

    def fire(_: Any) -> None:
        nonlocal count
        count += 1
        if count >= events:
            raise _Enough
        env.timeout(_SECONDS[count & _MASK]).callbacks.append(fire)

    for i in range(pending):
        env.timeout(_SECONDS[i & _MASK] + i * 1e-9).callbacks.append(fire)
    return _until_enough(env)


def _until_enough(env: Any) -> Callable[[], None]:
    def run() -> None:
        with suppress(_Enough):
            env.run()

    return run


def gridsim_cohorts(pending: int, events: int, rows: int = 1000) -> Callable[[], None]:
    """Deliveries of `rows` rows, each handled by one call that sends the rows on."""
    engine, count = Engine(), 0

    def arrive(cohort: Any) -> None:
        nonlocal count
        count += 1
        if engine.events >= events:
            engine.stop()
        engine.post(engine.now + _NS[count & _MASK], "arrive", cohort)

    engine.on("arrive", arrive, priority=0)
    batch = np.zeros(rows, dtype=[("node", np.int64), ("value", np.float64)])
    batch["node"] = np.arange(rows)
    for i in range(pending // rows):
        engine.post(_NS[i & _MASK] + i, "arrive", batch.copy())
    return engine.run


_needs_simpy = pytest.mark.skipif(simpy is None, reason="SimPy is not installed: nothing to compare with")
_OURS = [pytest.param(gridsim_timers, id="gridsim")]
_SIMPY = [
    pytest.param(simpy_processes, id="simpy-processes", marks=_needs_simpy),
    pytest.param(simpy_callbacks, id="simpy-callbacks", marks=_needs_simpy),
]


def _measure(benchmark: Any, program: Program, pending: int, events: int, rounds: int) -> None:
    benchmark.extra_info["events"] = events
    benchmark.pedantic(lambda run: run(), setup=lambda: ((program(pending, events),), {}), rounds=rounds)


@pytest.mark.benchmark(group="one pending")
@pytest.mark.parametrize("program", _OURS + _SIMPY)
def test_one_pending(benchmark: Any, program: Program) -> None:
    _measure(benchmark, program, 1, 20_000, rounds=51)


@pytest.mark.benchmark(group="100,000 pending")
@pytest.mark.parametrize("program", _OURS + _SIMPY)
def test_many_pending(benchmark: Any, program: Program) -> None:
    _measure(benchmark, program, 100_000, 100_000, rounds=3)


@pytest.mark.benchmark(group="cohorts of 1,000")
@pytest.mark.parametrize("program", [pytest.param(gridsim_cohorts, id="gridsim"), *_SIMPY])
def test_cohorts(benchmark: Any, program: Program) -> None:
    """SimPy has one event a row: the rate of its 100,000 timers is what it is held against."""
    _measure(benchmark, program, 100_000, 100_000, rounds=3)


def _rate(program: Program, pending: int, events: int) -> float:
    run = program(pending, events)
    start = perf_counter()
    run()
    return events / (perf_counter() - start)


def main() -> None:
    if simpy is None:
        sys.exit("SimPy is not installed: nothing to compare with")
    # Short rounds and many of them, so that both sides of a ratio see the same machine.
    cases: list[tuple[str, Program, int, int, int, int]] = [
        ("one pending", gridsim_timers, 1, 20_000, 20_000, 51),
        ("100,000 pending", gridsim_timers, 100_000, 100_000, 100_000, 7),
        ("cohorts of 1,000", gridsim_cohorts, 100_000, 5_000_000, 100_000, 7),
    ]
    for name, ours, pending, our_events, their_events, rounds in cases:
        rates: dict[str, list[float]] = {"gridsim": [], "processes": [], "callbacks": []}
        for _ in range(rounds):
            rates["gridsim"].append(_rate(ours, pending, our_events))
            rates["processes"].append(_rate(simpy_processes, pending, their_events))
            rates["callbacks"].append(_rate(simpy_callbacks, pending, their_events))
        print(f"{name}: gridsim {statistics.median(rates['gridsim']):,.0f} events/s, {rounds} rounds")
        for rival in ("processes", "callbacks"):
            ratios = sorted(a / b for a, b in zip(rates["gridsim"], rates[rival], strict=True))
            low, high = ratios[rounds // 4], ratios[-1 - rounds // 4]
            print(
                f"  SimPy {rival}: {statistics.median(rates[rival]):,.0f} events/s,"
                f" ratio {statistics.median(ratios):.2f} (quartiles {low:.2f} and {high:.2f})"
            )


if __name__ == "__main__":
    main()
