"""Checks that nothing depends on a job's cancellation before its user cancels it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import msgspec
import numpy as np

from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.support.clock import NS, nanoseconds

#: The most instants of a scenario that are tried.
_INSTANTS = 2
#: (time in ns, machine, job) of a start.
_Start = tuple[int, int, int]


def foreseen_cancellation(result: Result, run: Callable[[Scenario], Result]) -> str | None:
    """Return the first start that differs if nobody cancels any more from a later instant on; else None.

    The instants are those at which users cancel jobs, the first and the last.

    result : of the scenario, with its schedule.  run : runs another scenario, and records the schedule.
    """
    recipe, table = result.scenario.workload.recipe, result.applications
    if not isinstance(recipe, JobListRecipe) or recipe.cancel_at is None or "cancelled" not in table:
        return None
    at = np.unique(table["cancel_at"][table["cancelled"] != 0])
    for since in at[:: max(1, len(at) - 1)][:_INSTANTS].tolist():
        kept = tuple(each if each < since - 1 / NS else math.inf for each in recipe.cancel_at)
        workload = Workload(msgspec.structs.replace(recipe, cancel_at=kept))
        other = run(dataclasses.replace(result.scenario, workload=workload))
        here, there = (_starts(each, nanoseconds(since)) for each in (result, other))
        if here != there:
            time, machine, job = min(here ^ there)
            verb = "not" if (time, machine, job) in here else "only then"
            return (
                f"job {job} starts on machine {machine} at {time / NS} s, {verb} if from {since} s on nobody "
                "cancels a job"
            )
    return None


def _starts(result: Result, before: int) -> set[_Start]:
    """Return all starts before an instant, ns."""
    table = result.tables["schedule"]
    time = np.rint(table["start"] * NS).astype(np.int64)
    early = time < before
    columns = (time, table["machine"], table["application"])
    return set(zip(*(column[early].tolist() for column in columns), strict=True))
