"""Checks of the energy and the carbon of machines against their busy times and outages."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats
from gridsim.validation.common import Violation, column_label, differences

_J_PER_KWH = 3.6e6


def check_energy(result: Result, workload: Applications) -> list[Violation]:
    """Check the columns ``energy`` and ``carbon`` of machines.

    Carbon, if its intensity changes, and the energy of jobs that use parts of the cores of their machines are
    checked only against a recorded schedule of existing machines and applications.
    """
    platform, machines = result.scenario.platform, result.machines
    power, intensity = platform.power, platform.carbon_intensity
    if power is None:
        return []
    names = ["energy"] if intensity is None else ["energy", "carbon"]
    if missing := [name for name in names if name not in machines]:
        return [Violation("energy", 1, "machines", f"has no column {missing[0]!r}")]
    begin = float(result.applications["release"].min())
    finish = result.applications["finish"]
    end = float(np.fmax.reduce(finish, initial=begin))
    if np.isnan(finish).any():
        end = max(end, result.provenance["clock_seconds"])
    weight = (power.busy - power.idle) / (1 if platform.cores is None else platform.cores)

    def totals(edges: Floats, values: Floats, busy: Floats) -> Floats:
        """Return power.idle, off and busy times the integral of a function, given at `edges`, over each."""
        up = np.full(len(machines), np.interp(end, edges, values) - np.interp(begin, edges, values))
        off = np.zeros(len(machines))
        if result.scenario.faults is not None and not result.scenario.faults.reachable:
            for u, down, recovery in result.scenario.faults.outages(len(machines), end):
                off[u] = np.sum(np.interp(np.clip(recovery, begin, end), edges, values)) - np.sum(
                    np.interp(np.clip(down, begin, end), edges, values)
                )
        energy: Floats = power.idle * (up - off) + power.off * off + weight * busy
        return energy

    def busy_integral(edges: Floats, values: Floats) -> Floats:
        """Return the integral of a function, given at `edges`, over the busy cores of the schedule."""
        schedule = result.tables["schedule"]
        row = schedule["application"]
        cores = schedule["tasks"] if result.rigid else np.ones(len(row))
        for column in (workload.cores, workload.core_share):
            cores = cores if column is None else cores * column[row]
        ends, starts = (np.interp(schedule[name], edges, values) for name in ("end", "start"))
        return np.bincount(schedule["machine"], (ends - starts) * cores, len(machines)).astype(np.float64)

    # a time of the table is rounded to a float
    slack = 1e-6 * power.busy + 1e-9 * machines["energy"]
    has_schedule, violations = _has_valid_schedule(result), []
    last = max(end, 1.0)
    if has_schedule:
        last = max(last, float(result.tables["schedule"]["end"].max(initial=0.0)))
    seconds = np.array([0.0, last])
    if workload.core_share is None or has_schedule:
        busy = machines["busy"] if workload.core_share is None else busy_integral(seconds, seconds)
        violations = _differences(result, "energy", totals(seconds, seconds, busy), slack)
    if intensity is None:
        return violations
    factor = 1e-3 / _J_PER_KWH
    slack *= factor * intensity.value.max()
    if intensity.is_constant:
        carbon = machines["energy"] * factor * intensity.value[0]
        return violations + _differences(result, "carbon", carbon, slack)
    if not has_schedule:
        return violations
    time = intensity.time - result.scenario.workload.origin
    edges = np.append(time[time < last], last)
    steps = np.diff(edges) * intensity.value[: len(edges) - 1]
    values = np.append(0.0, np.cumsum(steps))
    carbon = factor * totals(edges, values, busy_integral(edges, values))
    return violations + _differences(result, "carbon", carbon, slack)


def _has_valid_schedule(result: Result) -> bool:
    """Return whether a result has a recorded schedule of existing machines and applications."""
    if "schedule" not in result.tables:
        return False
    counts = {"machine": len(result.machines), "application": len(result.applications)}
    rows = {name: result.tables["schedule"][name] for name in counts}
    return all(bool(((rows[name] >= 0) & (rows[name] < count)).all()) for name, count in counts.items())


def _differences(result: Result, name: str, expected: Floats, slack: Any) -> list[Violation]:
    actual = result.machines[name]
    wrong = ~(np.abs(actual - expected) <= slack)
    label = column_label(f"machines.{name}")
    return differences("energy", label, wrong, actual, expected, "busy times and outages give")
