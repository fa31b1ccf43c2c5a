"""replication(): the scenario of a replication, with other random streams, the same for every scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.support.arguments import integer, short_repr

#: The parts of a scenario that have seeds; ``"run"`` is the scenario's own.
PARTS = ("platform", "workload", "faults", "fluctuation", "run")


def replication(scenario: Scenario, number: int, hold: Collection[str] = ()) -> Scenario:
    """Return the scenario of replication `number` of `scenario`: each part gets a new seed.

    The new seed of a part is spawned by `numpy.random.SeedSequence`, and depends only on the part's own seed
    and on `number`.  So scenarios that differ otherwise, as those of a sweep, have the same random streams in
    replications of the same number (common random numbers).  Parts that draw nothing, such as listed speeds,
    are the same in all replications.

    Raises ScenarioError for an invalid number or an unknown part.

    Parameters
    ----------
    number
        0, 1, 2, ...
    hold
        Parts that keep their seeds, of `PARTS`, for example the platform.
    """
    check_scenario(scenario)
    number = integer("number", number, high=2**32 - 1)
    if isinstance(hold, str) or not isinstance(hold, Collection):
        raise ScenarioError(f"hold must be several of {', '.join(PARTS)}, got {short_repr(hold)}")
    for part in hold:
        if part not in PARTS:
            raise ScenarioError(f"hold must be of {', '.join(PARTS)}, got {part!r}")
    changes: dict[str, Any] = {}
    for name in ("platform", "workload", "faults", "fluctuation"):
        part = getattr(scenario, name)
        if part is not None and name not in hold and hasattr(part.recipe, "seed"):
            recipe = msgspec.structs.replace(part.recipe, seed=_child(part.recipe.seed, number))
            changes[name] = type(part)(recipe)
    if "run" not in hold:
        changes["seed"] = _child(scenario.seed, number)
    return dataclasses.replace(scenario, **changes)


def _child(seed: int, number: int) -> int:
    """Return a child seed of 63 bits, which a scenario file can hold."""
    spawned = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)
    return int(spawned[0] >> np.uint64(1))
