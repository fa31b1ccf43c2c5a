"""Checks that a run which continues from a checkpoint ends like one that was not interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from gridsim.model.scenario import Scenario
from gridsim.results.diff import first_difference
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Policy, Scheduler
from gridsim.simulation.simulate import Options, Record, Simulation
from gridsim.support.state import Array, pack, unpack

#: So many items a set had before it was restored, which is more than it needs.
_LARGER = 50

Snapshot = tuple[str, list[Array]]


def keeps_state(policy: type[Policy]) -> bool:
    """Return whether the policy class defines what a checkpoint must keep of it."""
    return policy.STATE is not None or policy.getstate is not Policy.getstate


def snapshot(simulation: Simulation) -> Snapshot:
    """Return the contents of a checkpoint of `simulation`: text, and copies of arrays."""
    arrays: list[Array] = []

    def save(array: Array) -> int:
        arrays.append(np.array(array))
        return len(arrays) - 1

    return json.dumps(pack(simulation, save)), arrays


def _in_another_order(items: Iterable[Any]) -> set[Any]:
    """Return a set of `items`, ascending, over which one iterates in another order than usual.

    The order of a set depends on its history, which a checkpoint does not keep: on which of two numbers that
    collide came first, and on how large the set once was.
    """
    others = [((), k) for k in range(_LARGER)]
    made = {*others, *list(items)[::-1]}
    made.difference_update(others)
    return made


def differing_end(
    scenario: Scenario,
    scheduler: Scheduler,
    result: Result,
    time_limit: float | None = None,
    record: Record = True,
    nodes: NodeForm | None = None,
) -> str | None:
    """Return how a run with checkpoints, or one that continues from a checkpoint, ends unlike `result`.

    Returns None if all ends are the same.  The run takes a checkpoint after waves 1, 2, 4, ...; the check
    continues from the last one and from the middle one, with sets in another order.

    Parameters
    ----------
    time_limit, record, nodes
        The options of the run that gave `result`; see `gridsim.simulate`.  More may be recorded, which then
        only the runs with checkpoints have.
    """
    kept: list[tuple[float, Snapshot]] = []
    options = Options(record=record, time_limit=time_limit, nodes=nodes)
    run = Simulation(scenario, scheduler, options)
    waves = 0

    def keep() -> None:
        nonlocal waves
        waves += 1
        if waves & (waves - 1) == 0 and not run.engine.stopping:
            kept.append((run.engine.now / 1e9, snapshot(run)))

    run.engine.at_wave_end(keep)
    whole = run.run()
    ends = [("a run that is kept", whole, result)]
    for at, (text, arrays) in [kept[len(kept) // 2], kept[-1]] if kept else []:
        again = Simulation(scenario, scheduler, options)
        copies = [array.copy() for array in arrays]
        state: Any = unpack(json.loads(text), copies.__getitem__, _in_another_order)
        again.setstate(state.state)
        ends.append((f"a run that goes on from t = {at} s", again.run(), whole))
    for what, end, like in ends:
        if end.digest != like.digest or any(end.tables[name] != like.tables[name] for name in like.tables):
            return f"{what}: {first_difference(like, end) or 'the facts or what was recorded differ'}"
    return None
