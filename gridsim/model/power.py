"""Electrical power of machines, and the carbon intensity of their electricity.

Both are accounting: they change nothing in a run, which states the energy that its machines used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.attributes import Texts
from gridsim.support.arguments import normalise, real, sequence, short_repr, text
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.parameters import CheckedStruct, Limits

#: Limits of the power of a machine.
POWER_LIMITS = Limits(low=0, high=1e9, unit="W")
#: Limits of a carbon intensity.
CARBON_LIMITS = Limits(low=0, high=1e9, unit="g/kWh")

_Watts = Annotated[float | tuple[float, ...] | dict[str, float], POWER_LIMITS]


class MachinePower(NamedTuple):
    """The power of n machines.

    Parameters
    ----------
    idle, busy, off
        float64[n], W: without a task, with a task on each core, and while the machine is down.
    """

    idle: Floats
    busy: Floats
    off: Floats


@dataclass(frozen=True, eq=False)
class CarbonIntensity:
    """The carbon intensity of electricity: each value holds until the time of the next.

    Parameters
    ----------
    time
        float64[k], ascending, s.
    value
        float64[k], g of CO2 per kWh.
    """

    time: Floats
    value: Floats

    @property
    def is_constant(self) -> bool:
        """True if there is a single value."""
        return len(self.value) == 1

    @cached_property
    def _until(self) -> Floats:
        """The integral from ``time[0]`` to each of `time`, g s/kWh."""
        return np.concatenate(([0.0], np.cumsum(self.value[:-1] * np.diff(self.time))))

    def integral(self, time: Floats) -> Floats:
        """Return the integral from ``time[0]`` to each of the given times (s), g s/kWh."""
        step = np.maximum(np.searchsorted(self.time, time, side="right") - 1, 0)
        integral: Floats = self._until[step] + self.value[step] * (time - self.time[step])
        return integral


class Power(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The electrical power of machines, and the carbon intensity of their electricity.

    A machine of c cores of which k are busy draws idle + (busy - idle) * k / c.  Each power is a number for
    all machines, a list with one entry per machine, or, of sites, per site, or a table with one entry per
    kind of machine (``attributes``).

    Parameters
    ----------
    idle
        Power of a machine without a task, W.
    busy
        Power of a machine with a task on each core, W; at least `idle`.
    off
        Power of a machine that is down, W.
    carbon
        Carbon intensity of the electricity, g of CO2 per kWh: a number, or a series of pairs (time, value),
        or the path of a CSV table with the columns time_s and g_per_kwh.  A value holds from its time (s, on
        the clock of the releases) until the next one, the last to the end of the run.  By default no carbon
        is counted.
    """

    part: ClassVar[str] = "platform.power"

    idle: _Watts
    busy: _Watts
    off: _Watts = 0.0
    carbon: Annotated[float | tuple[tuple[float, ...], ...] | str | None, CARBON_LIMITS] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("idle", "busy", "off"):
            normalise(self, **{name: _checked_power(f"{self.part}.{name}", getattr(self, name))})
        if self.carbon is not None:
            normalise(self, carbon=_checked_carbon(f"{self.part}.carbon", self.carbon))

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self, order="deterministic"))

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of the table of the carbon intensity; empty if there is none."""
        return (self.carbon,) if isinstance(self.carbon, str) else ()

    def realize(self, machines: int, kinds: Texts | None, sizes: Integers | None = None) -> MachinePower:
        """Return the power of `machines` machines.

        Parameters
        ----------
        kinds
            Kind of each machine; None if machines have no kinds.
        sizes
            Number of machines of each site; None without sites.

        Raises
        ------
        ScenarioError
            If a list does not have one entry per machine or site, a table lacks a kind, or a machine draws
            less when it is busy than when it is idle.
        """
        power = MachinePower(*(self._column(name, machines, kinds, sizes) for name in MachinePower._fields))
        for u in first_true(power.busy < power.idle):
            raise ScenarioError(
                f"{self.part}.busy must be at least idle, {power.idle[u]:g} W on machine {u}, got "
                f"{power.busy[u]:g}"
            )
        return power

    def _column(self, name: str, machines: int, kinds: Texts | None, sizes: Integers | None) -> Floats:
        path, watts = f"{self.part}.{name}", getattr(self, name)
        if isinstance(watts, dict):
            if kinds is None:
                raise ScenarioError(f"a table {path} requires kinds of machines (platform.attributes)")
            names, kind_of = np.unique(kinds, return_inverse=True)
            for kind in names.tolist():
                if kind not in watts:
                    raise ScenarioError(
                        f"{path} must have an entry for each kind of machine, got none for {kind!r}"
                    )
            watts = np.array([watts[kind] for kind in names.tolist()])[kind_of]
        elif isinstance(watts, tuple) and len(watts) != machines:
            if sizes is None or len(watts) != len(sizes):
                of_sites = "" if sizes is None else f", or {len(sizes)} entries, one per site"
                raise ScenarioError(
                    f"{path} must have {machines} entries, one per machine{of_sites}, got {len(watts)}"
                )
            watts = np.repeat(np.array(watts), sizes)
        column: Floats = np.broadcast_to(np.asarray(watts, dtype=np.float64), machines)
        return column

    def carbon_intensity(self) -> CarbonIntensity | None:
        """Return the carbon intensity, for which a table is read; None if no carbon is counted.

        Raises
        ------
        TraceFormatError
            If the table is invalid.
        """
        if self.carbon is None:
            return None
        if isinstance(self.carbon, str):
            from gridsim.traces.carbon import read_carbon

            return CarbonIntensity(*read_carbon(self.carbon))
        steps = np.array(self.carbon if isinstance(self.carbon, tuple) else [(0.0, self.carbon)])
        return CarbonIntensity(steps[:, 0].copy(), steps[:, 1].copy())


def _checked_power(path: str, watts: Any) -> float | tuple[float, ...] | dict[str, float]:
    if isinstance(watts, Mapping):
        for kind in watts:
            text(f"a kind of {path}", kind)
        return {kind: POWER_LIMITS.real(f"{path}.{kind}", watts[kind]) for kind in sorted(watts)}
    if isinstance(watts, str) or np.ndim(watts) == 0:
        return POWER_LIMITS.real(path, watts)
    return tuple(POWER_LIMITS.real(f"{path}[{u}]", value) for u, value in enumerate(sequence(path, watts)))


def _checked_carbon(path: str, carbon: Any) -> float | tuple[tuple[float, ...], ...] | str:
    if hasattr(carbon, "__fspath__") or isinstance(carbon, str):
        return text(path, carbon)
    if np.ndim(carbon) == 0:
        return CARBON_LIMITS.real(path, carbon)
    steps: list[tuple[float, float]] = []
    for k, step in enumerate(sequence(path, carbon)):
        pair = sequence(f"{path}[{k}]", step)
        if len(pair) != 2:
            raise ScenarioError(f"{path}[{k}] must be a pair (time, value), got {short_repr(step)}")
        above = steps[-1][0] if steps else None
        time = real(f"{path}[{k}][0]", pair[0], above=above, low=0 if above is None else None, unit="s")
        steps.append((time, CARBON_LIMITS.real(f"{path}[{k}][1]", pair[1])))
    if not steps:
        raise ScenarioError(f"{path} must have at least one step, got none")
    return tuple(steps)
