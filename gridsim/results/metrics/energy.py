"""Energy and carbon of machines, from their power, busy times and outages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NS

#: Joules in a kWh.
JOULES_PER_KWH = 3.6e6


class Pieces(NamedTuple):
    """The work in a schedule: `cores` of `machine` are busy from `start` to `end` (int64[rows], ns)."""

    machine: Integers
    start: Integers
    end: Integers
    cores: Integers


def energy_columns(
    platform: Platform,
    faults: Faults | None,
    origin: float,
    span: tuple[int, int],
    busy: Integers,
    pieces: Pieces | None,
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
        The schedule; needed only if the carbon intensity changes.
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

    energy = machine_totals(lambda time: time, busy) / NS
    if intensity is None:
        return {"energy": energy}
    if intensity.is_constant:
        return {"energy": energy, "carbon": energy * (intensity.value[0] / JOULES_PER_KWH / 1000.0)}
    assert pieces is not None

    def grams(time: Integers) -> Floats:
        return intensity.integral(origin + time / NS)

    of_pieces = (grams(pieces.end) - grams(pieces.start)) * pieces.cores
    busy_grams = np.bincount(pieces.machine, of_pieces, platform.nodes)
    return {"energy": energy, "carbon": machine_totals(grams, busy_grams) / JOULES_PER_KWH / 1000.0}


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
