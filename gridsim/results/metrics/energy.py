"""Energy and carbon of machines, from their power, busy times and outages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS

#: Joules in a kWh.
JOULES_PER_KWH = 3.6e6


class Pieces(NamedTuple):
    """The work in a schedule: `cores` of `machine` are busy from `start` to `end` (ns), one entry per row.

    A machine that stands for a node has one core, of which a job may use a part.
    """

    machine: Integers
    start: Integers
    end: Integers
    cores: Floats


def needs_schedule(platform: Platform, applications: Applications) -> bool:
    """Return whether the schedule of a run is needed to count energy or carbon, besides busy times."""
    has_parts = platform.power is not None and applications.core_share is not None
    return has_parts or platform.needs_schedule


def energy_columns(
    platform: Platform,
    faults: Faults | None,
    origin: float,
    span: tuple[int, int],
    busy: Integers,
    pieces: Pieces | None,
    *,
    has_parts: bool = False,
) -> dict[str, Floats]:
    """Return the columns ``energy`` (J) and, with a carbon intensity, ``carbon`` (kg) of machines.

    A machine draws its power off while it is down, else its power idle, and for each busy core the share of
    a core in busy - idle.  A machine whose owner is back (`Faults.reachable`) is not down.

    Parameters
    ----------
    origin
        Time 0 of the run on the clock of the carbon intensity, s.
    span
        The time that is counted, ns: from the first release to the end.
    busy
        int64[machines], time that the cores of each machine spent on tasks, ns.
    pieces
        The schedule; needed only if the carbon intensity changes, or with `has_parts`.
    has_parts
        Whether jobs use parts of the cores of their machines, which `busy` does not show.
    """
    power, intensity = platform.power, platform.carbon_intensity
    if power is None:
        return {}
    if faults is not None and faults.reachable:
        faults = None

    def machine_totals(integral: Callable[[Integers], NDArray[Any]], busy: NDArray[Any]) -> Floats:
        begin, end = integral(np.array(span))
        down = _down_integral(faults, platform.nodes, span, integral)
        share = busy if platform.cores is None else busy / platform.cores
        total: Floats = power.idle * (end - begin - down) + power.off * down
        return total + (power.busy - power.idle) * share

    def of_pieces(pieces: Pieces | None, integral: Callable[[Integers], NDArray[Any]]) -> Floats:
        assert pieces is not None
        weights = (integral(pieces.end) - integral(pieces.start)) * pieces.cores
        return np.bincount(pieces.machine, weights, platform.nodes).astype(np.float64)

    def nanoseconds(time: Integers) -> Integers:
        return time

    energy = machine_totals(nanoseconds, of_pieces(pieces, nanoseconds) if has_parts else busy) / NS
    if intensity is None:
        return {"energy": energy}
    if intensity.is_constant:
        return {"energy": energy, "carbon": energy * (intensity.value[0] / JOULES_PER_KWH / 1000.0)}

    def grams(time: Integers) -> Floats:
        return intensity.integral(origin + time / NS)

    carbon = machine_totals(grams, of_pieces(pieces, grams)) / JOULES_PER_KWH / 1000.0
    return {"energy": energy, "carbon": carbon}


def recorded_energy(
    platform: Platform,
    origin: float,
    sites: Integers,
    cores: Floats,
    start: Floats,
    run_time: Floats,
) -> dict[str, float]:
    """Return the facts ``energy`` (kWh) and, with a carbon intensity, ``carbon`` (kg) of recorded jobs.

    All machines are up from 0 s, the first release, to the last end.  A log does not say which machines of
    its site a job used, so the totals are NaN if these differ in what a busy core adds.

    Parameters
    ----------
    origin
        Time 0 on the clock of the carbon intensity, s.
    sites
        int64[jobs], site of each job.
    cores
        float64[jobs], cores that each job used.
    start, run_time
        float64[jobs], start (NaN if unknown) and run time of each job, s.
    """
    power, intensity = platform.power, platform.carbon_intensity
    if power is None:
        return {}
    per_core = (power.busy - power.idle) / (1 if platform.cores is None else platform.cores)
    sizes = [platform.nodes] if platform.site_sizes is None else platform.site_sizes
    first = np.cumsum(sizes) - sizes
    is_equal = np.array_equal(per_core, np.repeat(per_core[first], sizes))
    watts = cores * per_core[first][sites] if is_equal else np.full(len(cores), np.nan)
    idle, end = float(power.idle.sum()), float(np.nanmax(start + run_time))
    kwh = (idle * end + float(watts @ run_time)) / JOULES_PER_KWH
    if intensity is None:
        return {"energy": kwh}
    if intensity.is_constant:
        return {"energy": kwh, "carbon": kwh * float(intensity.value[0]) / 1000.0}

    def grams(begin: Floats, end: Floats) -> Floats:
        return intensity.integral(origin + end) - intensity.integral(origin + begin)

    of_machines = idle * float(grams(np.zeros(1), np.array([end]))[0])
    of_jobs = float(watts @ grams(start, start + run_time))
    return {"energy": kwh, "carbon": (of_machines + of_jobs) / JOULES_PER_KWH / 1000.0}


def _down_integral(
    faults: Faults | None,
    machines: int,
    span: tuple[int, int],
    integral: Callable[[Integers], NDArray[Any]],
) -> NDArray[Any]:
    """Return the integral over the time within `span` (ns) in which each machine is down."""
    begin, end = span
    total = np.zeros(machines, integral(np.zeros(1, np.int64)).dtype)
    if faults is None:
        return total
    is_down = np.zeros(machines, np.bool_)
    for block in faults.course(machines).blocks:
        if not len(block):
            continue
        until = integral(np.clip(block.time, begin, end))
        np.add.at(total, block.machine, np.where(block.up, until, -until))
        is_down[block.machine] = ~block.up  # the last change of a machine counts
        if block.time[-1] >= end:
            break
    total[is_down] += integral(np.array([end]))[0]
    return total
