"""What changes while a run goes on is kept in checkpoints: a test that cuts runs short might not miss it."""

from __future__ import annotations

import dataclasses
import gc
from collections import deque
from itertools import count
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.simulation.simulate import Options, Simulation
from gridsim.support.state import Stateful
from tests.golden.test_golden_digests import CASES, EVERY
from tests.golden.test_golden_digests import scenario as golden_scenario

#: Machines fail now and then, and then all of them at once.
FAILURES = gs.Faults.of(
    [0, 3, 3, 7, 5, 5, 5, *range(37)],
    [0.0, 5.0, 25.0, 20.0, 7.0, 9.0, 11.0] + [30.0] * 37,
    [8.0, 5.0, 28.0, 29.0, 7.0, 9.0, 11.0] + [45.0 + u / 10 for u in range(37)],
)

#: What is set and used between two events.
PASSING = {("Replan", "stretch")}
#: What follows from the state, and is made of it again.
DERIVED = {("Bags", name) for name in ("whose", "release", "size", "task_size", "tasks")}


def told(value: Any) -> Any:
    """What can be compared later; of what keeps its own state nothing, as that is looked at by itself."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, list | tuple | deque):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return [(told(key), told(each)) for key, each in value.items()]
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, set | int | float | str | np.generic):
        return repr(value)
    if hasattr(value, "getstate") or callable(value) or not hasattr(value, "__dict__"):
        return type(value).__name__
    return [type(value).__name__, told(vars(value))] if type(value).__module__.startswith("gridsim") else None


def objects() -> dict[int, Stateful]:
    return {id(each): each for each in gc.get_objects() if isinstance(each, Stateful)}


def not_kept(each: Stateful) -> dict[str, Any]:
    kept = each.getstate()
    return {name: told(value) for name, value in vars(each).items() if name not in kept}


@pytest.mark.slow
@pytest.mark.parametrize("record", [True, "all"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.endswith(("; fifo; outages", "; fifo; nights"))]
)
def test_all_attributes_that_change_are_saved(case: str, record: Any) -> None:
    name, network, faults = CASES[case]
    scheduler = EVERY[name]
    scenario = golden_scenario(name, network, faults)
    if faults == "outages":
        scenario = dataclasses.replace(scenario, faults=FAILURES)
    others = objects()
    simulation = Simulation(scenario, scheduler, Options(record=record))
    mine = [each for number, each in objects().items() if others.get(number) is not each]
    before, attributes = [not_kept(each) for each in mine], [set(vars(each)) for each in mine]
    assert mine
    waves, changed = count(1), set()

    def look() -> None:
        if next(waves) < 300:
            for each, then in zip(mine, before, strict=True):
                names = [name for name, value in then.items() if told(getattr(each, name)) != value]
                changed.update((type(each).__name__, name) for name in names)

    simulation.engine.at_wave_end(look)
    simulation.run()
    assert [set(vars(each)) for each in mine] == attributes
    assert next(waves) > 3 and changed <= PASSING | DERIVED
