"""Makes machines fail at the very instants at which something happens to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result

#: s that a machine is down, by turns.
_OUTAGES = (0.0, 1.0, 30.0, 700.0)


def struck(result: Result) -> Iterator[Scenario]:
    """Iterate over the scenario of a run with one more failure, at the instant of one of the run's events.

    The events are the end of a task, the delivery of a message and the sending of one, on the machine that
    fails; until then the run is the same.  Which ones they are depends on the seed of the scenario and the
    number of events.

    result : of a run with listed failures that has the tables ``schedule`` and ``message_log``.
    """
    scenario, ran, log = result.scenario, result.tables["schedule"], result.tables["message_log"]
    recipe = scenario.faults.recipe if scenario.faults is not None else None
    if not isinstance(recipe, ListedFaults):
        return
    down, up = np.array(recipe.down), np.array(recipe.up)
    kinds = (ran["machine"], ran["end"]), (log["receiver"], log["delivered"]), (log["sender"], log["sent"])
    for machine, time in kinds:
        events = np.flatnonzero((machine >= 0) & (machine < len(result.machines)) & ~np.isnan(time))
        turn = 7 * scenario.seed + len(events)
        for k in events[turn * turn % max(1, len(events)) :][:1]:
            u, at = int(machine[k]), float(time[k])
            last = at + _OUTAGES[turn % len(_OUTAGES)]
            mine = np.array(recipe.machine) == u
            if (mine & (down <= last + 2e-9) & (at <= up + 2e-9)).any():  # times are rounded to whole ns
                continue
            rows = ((*recipe.machine, u), (*recipe.down, at), (*recipe.up, last))
            yield dataclasses.replace(scenario, faults=Faults.of(*rows, recipe.reachable))
