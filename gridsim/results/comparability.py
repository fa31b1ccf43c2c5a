"""Whether results are comparable: the first difference between their machines and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.support.arrays import Integers

#: Column that is compared to find out whether two applications are equal -> its unit.
_COMPARED_COLUMNS = {"release": "s", "tasks": "tasks", "task_size": "Mflop"}
#: Such a column -> its name and unit for rigid jobs, and whether it is a work, to be divided by the speed.
_RIGID_NAMES = {"tasks": ("nodes", "nodes", False), "task_size": ("run time", "s", True)}


def check_same_jobs(result: Result, scenario: Scenario) -> None:
    """Check that `result` has the applications and the machine speeds of `scenario`.

    Otherwise it cannot be compared with results of the scenario.

    Raises
    ------
    ScenarioError
        If they differ; the error states the first difference.
    """
    applications = scenario.workload.realize(scenario.platform)
    columns = {name: getattr(applications, name) for name in _COMPARED_COLUMNS}
    if difference := _difference(result, scenario.platform.speeds, columns):
        raise ScenarioError(f"scenario must have the {difference}")


def job_difference(result: Result, reference: Result) -> str:
    """Return the first difference between the machines and applications of two results; "" if there is none.

    Results can only be compared if there is none.
    """
    return _difference(
        result,
        reference.machines["speed"],
        {name: _stated_column(reference, name) for name in _COMPARED_COLUMNS},
    )


def has_equal_jobs(result: Result, reference: Result) -> bool:
    """Return whether two results have the same applications, whatever their machines are."""
    columns = {name: _stated_column(reference, name) for name in _COMPARED_COLUMNS}
    return not _application_difference(result, columns)


def rejected_jobs(result: Result) -> Integers:
    """Return the numbers of the rigid jobs that a scheduler rejected: int64[k]."""
    if not result.rigid or result.of_log:
        return np.zeros(0, np.int64)
    is_rejected = np.isnan(result.applications["finish"])
    if "cancelled" in result.applications:
        is_rejected &= result.applications["cancelled"] == 0
    return np.flatnonzero(is_rejected)


def rejects_others(result: Result, reference: Result) -> bool:
    """Return whether two runs of the same jobs, whatever their machines are, rejected different ones."""
    is_different = not np.array_equal(rejected_jobs(result), rejected_jobs(reference))
    return is_different and has_equal_jobs(result, reference)


def _stated_column(result: Result, name: str) -> NDArray[Any]:
    """Return a column of the applications as the workload states it, not the time of their actual release."""
    table = result.applications
    is_later = name == "release" and "stated_release" in table
    return table["stated_release" if is_later else name]


def _difference(result: Result, speeds: Any, columns: Mapping[str, Any]) -> str:
    """Return the first difference between `result` and given machines and applications; "" if none.

    Parameters
    ----------
    speeds
        Speeds of the machines, Mflop/s.
    columns
        Columns of the applications, those of `_COMPARED_COLUMNS`.
    """
    speeds_of_result = result.machines["speed"]
    if not np.array_equal(speeds_of_result, speeds):
        return f"machines of the result, {_describe_speeds(speeds_of_result)}, got {_describe_speeds(speeds)}"
    return _application_difference(result, columns)


def _application_difference(result: Result, columns: Mapping[str, Any]) -> str:
    """Return the first difference between the applications of `result` and given ones; "" if none."""
    table, rigid = result.applications, result.rigid
    items, item = ("jobs", "job") if rigid else ("applications", "application")
    if len(columns["release"]) != len(table):
        return f"{len(table)} {items} of the result, got {len(columns['release'])}"
    for name, unit in _COMPARED_COLUMNS.items():
        actual, expected = columns[name], _stated_column(result, name)
        # the clock has a resolution of 1 ns
        different = np.abs(actual - expected) > 1e-9 * np.maximum(1.0, np.abs(expected))
        for i in np.flatnonzero(different)[:1]:
            if rigid and name in _RIGID_NAMES:  # task_size is the run time at the speed of the machines
                name, unit, factor = _RIGID_NAMES[name]
                speed = float(result.machines["speed"][0]) if factor else 1.0
                actual, expected = actual / speed, expected / speed
            return (
                f"{items} of the result, where {name} of {item} {i} is {expected[i]:.12g} {unit}, "
                f"got {actual[i]:.12g} {unit}"
            )
    return ""


def _describe_speeds(speeds: Any) -> str:
    return f"{len(speeds)} of {speeds.min():g} to {speeds.max():g} Mflop/s"
