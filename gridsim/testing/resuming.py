"""Check that a run resumed from a checkpoint ends like an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from gridsim.model.scenario import Scenario
from gridsim.results.diff import first_difference
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Policy, Scheduler
from gridsim.simulation.options import Options, Record
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import Array, pack, unpack

#: Number of items that are added to a restored set and removed again, to enlarge its hash table.
_EXTRA_ITEMS = 50

#: Contents of a checkpoint: text, and arrays.
Snapshot = tuple[str, list[Array]]


def has_checkpoint_state(policy: type[Policy]) -> bool:
    """Return whether the policy class defines its state in checkpoints."""
    return policy.STATE is not None or policy.getstate is not Policy.getstate


def snapshot(simulation: Simulation) -> Snapshot:
    """Return the contents of a checkpoint of `simulation`: text, and copies of arrays."""
    arrays: list[Array] = []

    def save(array: Array) -> int:
        arrays.append(np.array(array))
        return len(arrays) - 1

    return json.dumps(pack(simulation, save)), arrays


def _permuted_set(items: Iterable[Any]) -> set[Any]:
    """Return a set of the ascending `items` whose order of iteration is not the usual one.

    The order of a set depends on its history, which a checkpoint does not save: the order in which items with
    colliding hashes were added, and the largest size so far.
    """
    extra_items = [((), k) for k in range(_EXTRA_ITEMS)]
    permuted_items = {*extra_items, *list(items)[::-1]}
    permuted_items.difference_update(extra_items)
    return permuted_items


def resume_difference(
    scenario: Scenario,
    scheduler: Scheduler,
    result: Result,
    time_limit: float | None = None,
    record: Record = True,
    nodes: NodeForm | None = None,
    **options: Any,
) -> str | None:
    """Compare `result` with a run with checkpoints and with runs that continue from a checkpoint.

    The run takes a checkpoint after waves 1, 2, 4, ..., and after each wave with all machines down; the check
    continues from the last one of each kind and from the middle one, with sets in another order.

    Parameters
    ----------
    time_limit, record, nodes, options
        Options of `gridsim.simulate` that gave `result`.  Tables of `record`
        that `result` lacks are compared between the runs with checkpoints only.

    Returns
    -------
    A description of the first difference; None if all results are the same.
    """
    snapshots: list[tuple[float, Snapshot]] = []
    snapshots_while_down: list[tuple[float, Snapshot]] = []
    run_options = Options(record=record, time_limit=time_limit, nodes=nodes, **options)
    run = Simulation(scenario, scheduler, run_options)
    waves = 0

    def take_snapshot() -> None:
        nonlocal waves
        waves += 1
        if run.engine.stopping:
            return
        if waves & (waves - 1) == 0:
            snapshots.append((run.engine.now / 1e9, snapshot(run)))
        if not run.outages.up.any():
            snapshots_while_down[:] = [(run.engine.now / 1e9, snapshot(run))]

    run.engine.at_wave_end(take_snapshot)
    full_result = run.run()
    comparisons = [("a run with checkpoints", full_result, result)]
    chosen_snapshots = [snapshots[len(snapshots) // 2], snapshots[-1]] if snapshots else []
    for at, (text, arrays) in chosen_snapshots + snapshots_while_down:
        resumed_run = Simulation(scenario, scheduler, run_options)
        copies = [array.copy() for array in arrays]
        state: Any = unpack(json.loads(text), copies.__getitem__, _permuted_set)
        resumed_run.setstate(state.state)
        comparisons.append((f"a run resumed at t = {at} s", resumed_run.run(), full_result))
    for label, resumed_result, reference in comparisons:
        if resumed_result.digest != reference.digest or any(
            resumed_result.tables[name] != reference.tables[name] for name in reference.tables
        ):
            difference = first_difference(reference, resumed_result)
            return f"{label}: {difference or 'the facts or the recorded tables differ'}"
    return None
