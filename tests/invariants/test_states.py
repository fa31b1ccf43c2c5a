"""All attributes that change during a run are saved in checkpoints."""

from __future__ import annotations

import dataclasses
import gc
from collections import deque
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import Stateful
from tests.golden.test_golden_digests import CASES, EVERY
from tests.golden.test_golden_digests import scenario as golden_scenario

#: Single machines fail, and later all of them at once.
FAILURES = gs.Faults.of(
    [0, 3, 3, 7, 5, 5, 5, *range(37)],
    [0.0, 5.0, 25.0, 20.0, 7.0, 9.0, 11.0] + [30.0] * 37,
    [8.0, 5.0, 28.0, 29.0, 7.0, 9.0, 11.0] + [45.0 + u / 10 for u in range(37)],
)

#: Attributes that are set and used only between two events.
TEMPORARY = {("Replan", "stretch")}
#: Attributes that are computed again from the state.
DERIVED = {("Bags", name) for name in ("whose", "release", "size", "task_size", "tasks")}
#: Attributes of all policies that a resumed run derives: the nodes that are up, from the machines; and the
#: counts of events without progress, which begin anew.
OF_POLICIES = {"up", "progress_checks"}


def comparable(value: Any) -> Any:
    """Return a copy for later comparison; only the type of objects that save their own state."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, list | tuple | deque):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return [(comparable(key), comparable(item)) for key, item in value.items()]
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, set | int | float | str | np.generic):
        return repr(value)
    if hasattr(value, "getstate") or callable(value) or not hasattr(value, "__dict__"):
        return type(value).__name__
    return (
        [type(value).__name__, comparable(vars(value))]
        if type(value).__module__.startswith("gridsim")
        else None
    )


def objects() -> dict[int, Stateful]:
    return {id(item): item for item in gc.get_objects() if isinstance(item, Stateful)}


def unsaved_attributes(each: Stateful) -> dict[str, Any]:
    saved = {} if each.STATE is None else each.getstate()  # an `Environment` that does nothing has no state
    return {name: comparable(value) for name, value in vars(each).items() if name not in saved}


def own_names(each: Stateful) -> set[str]:
    """Return the attributes of an object without those that it computes at their first use."""
    return {name for name in vars(each) if not isinstance(getattr(type(each), name, None), cached_property)}


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
    earlier_objects = objects()
    simulation = Simulation(scenario, scheduler, Options(record=record))
    own_objects = [item for number, item in objects().items() if earlier_objects.get(number) is not item]
    before = [unsaved_attributes(item) for item in own_objects]
    attributes = [own_names(item) for item in own_objects]
    assert own_objects
    waves, changed = count(1), set()

    def compare_attributes() -> None:
        if next(waves) < 300:
            for item, previous in zip(own_objects, before, strict=True):
                names = [name for name, value in previous.items() if comparable(getattr(item, name)) != value]
                changed.update((type(item).__name__, name) for name in names)

    simulation.engine.at_wave_end(compare_attributes)
    simulation.run()
    assert [own_names(item) for item in own_objects] == attributes
    assert next(waves) > 3
    assert {each for each in changed if each[1] not in OF_POLICIES} <= TEMPORARY | DERIVED
