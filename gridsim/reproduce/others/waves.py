"""The four wave schedulers: gains from moving tasks to hosts at night, and from waiting before a move."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import gridsim as gs
from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.reproduce.framework import (
    Case,
    CaseTable,
    Measurements,
    Reproduction,
    ResultGrid,
    Run,
    relative_to,
)
from gridsim.reproduce.verdicts import SMALLER, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.schedulers import MODES
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETTER = "wave schedulers have a better turnaround than migration to any host"
WAITING = "fixing the amount of lingering time will influence the turnaround time of the job"

#: Numbers of nodes and of days of the full and the quick run.
NODES, DAYS = (600, 96), (5.0, 1.0)
#: Speed of every host, Mflop/s; minimum and maximum run time of tasks, s (uniform).
SPEED, SHORTEST, LONGEST = 1000.0, 3600.0, 43_200.0
#: Work over the capacity of the hosts while they are up, during the period of releases.
LOADS = {"light": 0.2, "heavy": 0.8}
#: Share of the day in which drawn hosts are up, for each kind of hosts.
DAY_UP = (0.1, 0.4)
#: Time of a move, and maximum waiting before it, s, in runs that do not vary them.
COST, LINGER = 300.0, 3600.0
COSTS = (0.0, 60.0, 300.0, 1200.0)
LINGER_TIMES = (0.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0)
BASE = "migration-immediate"
PAIRS = (("wave-immediate", "migration-immediate"), ("wave-linger", "migration-linger"))
LINGERING = [mode for mode in MODES if mode.endswith("linger")]
#: Length of the night in a trace, h, and the criteria that determine its hours.
NIGHT = 8
FEWEST_DEPARTURES, MOST_HOSTS_UP = "night when fewest hosts go", "night when most are up"
NIGHTS = (FEWEST_DEPARTURES, MOST_HOSTS_UP)
DAY = 86_400.0


def turnaround(result: gs.Result) -> float:
    """Return the mean time from release to completion of a task, h."""
    return result.mean_completion / 3600


def moves(result: gs.Result) -> float:
    """Return the mean number of moves of a task to another host."""
    return float(result.applications["migrated"].sum() / result.applications["tasks"].sum())


def resumed(result: gs.Result) -> float:
    """Return the mean number of times that a task resumed on the host that had interrupted it."""
    return float(result.applications["resumed"].sum() / result.applications["tasks"].sum())


METRICS = {"turnaround": turnaround, "moves": moves, "resumed": resumed}


# -- hosts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hours:
    """Statistics by hour of day over the whole days of a trace, float64[24]; a day starts with the trace.

    Parameters
    ----------
    up
        Share of hosts that are up, among hosts that are ever up.
    go
        Rate at which hosts fail, per host that is up and hour.
    """

    up: Floats
    go: Floats

    def night(self, kind: str) -> int:
        """Return the first of the eight hours in which most hosts are up, or fewest fail (`kind`)."""
        if kind == MOST_HOSTS_UP:
            return int(np.argmax(_windows(self.up)))
        up = _windows(self.up)
        # hours without a host that is up have no failures, but must not count as a night
        return int(np.argmin(np.divide(_windows(self.go * self.up), up, np.full(24, np.inf), where=up > 0)))

    def in_night(self, kind: str) -> tuple[float, float]:
        """Return `up` and `go` of the eight hours of the night."""
        night, up = self.night(kind), _windows(self.up)
        return float(up[night] / NIGHT), float(_windows(self.go * self.up)[night] / up[night])


def _windows(hours: Floats) -> Floats:
    """Return the sum over the eight hours that begin with each hour of the day: float64[24]."""
    return np.array([np.roll(hours, -hour)[:NIGHT].sum() for hour in range(24)])


@lru_cache(maxsize=2)
def hours_of(path: str) -> Hours:
    """Return the `Hours` of a trace.  Raises TraceFormatError if no host is up in a whole day."""
    from gridsim.traces import read_availability

    trace = read_availability(path)
    days = trace.horizon // DAY
    if days < 1:
        raise TraceFormatError(f"{path}: the trace must last at least a day, got {trace.horizon:g} s")
    (begun, begin), (ended, end) = (
        np.divmod(at.clip(0.0, days * DAY), DAY) for at in (trace.start, trace.end)
    )

    def time_in_hour(hour: int) -> float:
        """Return the total time of all intervals within this hour of the days, s."""
        first, last = ((of_day - 3600.0 * hour).clip(0.0, 3600.0) for of_day in (begin, end))
        return float((3600.0 * (ended - begun) + last - first).sum())

    hosts = int((np.diff(trace.offsets) > 0).sum())
    up = np.array([time_in_hour(hour) for hour in range(24)]) / 3600.0
    if not up.any():
        raise TraceFormatError(f"{path}: a host must be up in the {days:g} whole days of the trace, got none")
    ends_within = end[(trace.end >= 0.0) & (trace.end < days * DAY)]
    end_counts = np.bincount((ends_within // 3600.0).astype(np.int64), minlength=24)
    return Hours(up / (hosts * days), end_counts / np.maximum(up, 1.0))


@dataclass(frozen=True)
class WorldHosts:
    """Factory of scenarios with hosts around the world and tasks that are released over `days` days.

    Parameters
    ----------
    day_up
        Share of the day in which a drawn host is up.
    availability
        Trace whose hosts replace drawn ones.
    night
        Criterion for the night in the trace, one of `NIGHTS`.
    """

    nodes: int
    load: str
    day_up: float = DAY_UP[0]
    days: float = DAYS[0]
    availability: str | None = None
    night: str = ""

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``heavy-600-day10``."""
        kind = f"day{100 * self.day_up:g}"
        if self.availability is not None:
            kind = {MOST_HOSTS_UP: "most-up", FEWEST_DEPARTURES: "fewest-go"}[self.night]
        return f"{self.load}-{self.nodes}-{kind}"

    @property
    def _zones(self) -> gs.Zones:
        if self.availability is None:
            return gs.Zones()
        return gs.Zones(night_begin=hours_of(self.availability).night(self.night), night_hours=NIGHT)

    @property
    def share(self) -> float:
        """Share of the time in which a host is up."""
        if self.availability is not None:
            return float(hours_of(self.availability).up.mean())
        night = self._zones.night_hours
        return (night + self.day_up * (24.0 - night)) / 24.0

    def faults(self, seed: int, reachable: bool = False) -> gs.Faults:
        """Return the down times of the hosts; `reachable` is as in `Faults.zones`."""
        zones = self._zones
        if self.availability is None:
            return gs.Faults.zones(seed, zones, day_up=self.day_up, reachable=reachable)
        return gs.Faults.trace(self.availability, seed, zones=zones, reachable=reachable)

    def __call__(self, seed: int) -> gs.Scenario:
        gap = (SHORTEST + LONGEST) / 2 / (LOADS[self.load] * self.share * self.nodes)
        tasks = max(1, round(self.days * DAY / gap))
        return gs.Scenario(
            gs.Platform.equal(self.nodes, SPEED),
            gs.Workload.bags(
                tasks, gap, tasks=1, variation=0.0, task_size=(SHORTEST * SPEED, LONGEST * SPEED), seed=seed
            ),
            seed=seed,
            faults=self.faults(seed),
        )


# -- the experiment -------------------------------------------------------------------------------------


def waves(linger: float = LINGER, cost: float = COST) -> dict[str, gs.Scheduler]:
    """Return mode -> scheduler."""
    return {mode: gs.Wave(mode=mode, linger=linger, migration_cost=cost) for mode in MODES}


@dataclass(frozen=True)
class WaveRuns:
    """Runs of each place (kind of hosts and load), and runs on the first kind with varied parameters.

    Parameters
    ----------
    costs
        (place, time of a move) -> values.
    lingers
        Place -> values of schedulers with each maximum wait.
    """

    places: Measurements
    costs: Measurements
    lingers: Measurements


def _measure(run: Run) -> WaveRuns:
    """Run the four schedulers at each load and kind of hosts, then with varied costs of a move and waits."""
    kinds: dict[str, dict[str, Any]]
    kinds = {f"up {100 * share:g} % of the day": {"day_up": share} for share in DAY_UP}
    if run.availability is not None:
        kinds = {night: {"availability": run.availability, "night": night} for night in NIGHTS}
    hosts = {
        f"{kind}, {load}": WorldHosts(run.choose(*NODES), load, days=run.choose(*DAYS), **options)
        for kind, options in kinds.items()
        for load in LOADS
    }
    first = {place: scenario for place, scenario in hosts.items() if place.startswith(next(iter(kinds)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the warning has already been shown
        places = run.replicate_cases(hosts, waves(), METRICS)
        cost_cases = {
            (place, cost): Case(scenario, waves(cost=cost))
            for place, scenario in first.items()
            for cost in COSTS
            if cost != COST
        }
        costs = run.replicate_cases(cost_cases, metrics=METRICS)
        lingers = run.replicate_cases(first, _lingering(), METRICS)
    merged = {
        (place, cost): places[place] if cost == COST else costs[place, cost]
        for place in first
        for cost in COSTS
    }
    return WaveRuns(places, Measurements(run, merged), lingers)


def _lingering() -> dict[str, gs.Scheduler]:
    return {
        f"{mode} {linger:g}": gs.Wave(mode=mode, linger=linger, migration_cost=COST)
        for mode in LINGERING
        for linger in LINGER_TIMES
    }


#: Minimum ratio of the turnaround with the worst wait to that with the best one that counts as influence.
INFLUENCE = ClaimedRange("influences", 1.01)


def _rows(data: WaveRuns) -> Iterator[Row]:
    """Return the rows about all claims, in which an equal turnaround does not count as better."""
    for place, values in data.places.items():
        for a, b in PAIRS:
            quantity = f"{place}: turnaround of {a} / {b}"
            yield judge(BETTER, quantity, values.mean_ratio(a, b, "turnaround"), SMALLER)
    for place, values in data.lingers.items():
        for mode in LINGERING:
            means = {at: float(values["turnaround"][f"{mode} {at:g}"].mean()) for at in LINGER_TIMES}
            worst, best = max(LINGER_TIMES, key=means.__getitem__), min(LINGER_TIMES, key=means.__getitem__)
            ratio = values.mean_ratio(f"{mode} {worst:g}", f"{mode} {best:g}", "turnaround")
            quantity = f"{place}: turnaround of {mode}, the worst wait / the best"
            why = f"waits of up to {worst:g} s and {best:g} s"
            yield judge(WAITING, quantity, ratio, INFLUENCE, why=why)


def _grids(data: WaveRuns) -> Iterator[ResultGrid]:
    rivals = [mode for mode in MODES if mode != BASE]
    for table in (
        CaseTable("turnaround, h", "turnaround"),
        CaseTable(f"turnaround / {BASE}", relative_to(BASE, "turnaround"), rivals),
        CaseTable("moves to another host, a task", "moves"),
        CaseTable("gone on at the same host, a task", "resumed"),
    ):
        yield table.grid(data.places)
    for place, costs in data.costs.groups.items():
        yield ResultGrid(
            f"{place}: wave / migration, turnaround, by s that a move takes",
            ["pair", *(f"{cost:g} s" for cost in costs)],
            {
                f"{a} / {b}": [values.mean_ratio(a, b, "turnaround") for values in costs.values()]
                for a, b in PAIRS
            },
        )
    for place, values in data.lingers.items():
        yield ResultGrid(
            f"{place}: turnaround, h, by s of waiting at most",
            ["scheduler", *(f"{linger:g} s" for linger in LINGER_TIMES)],
            {
                mode: [values.mean(f"{mode} {linger:g}", "turnaround") for linger in LINGER_TIMES]
                for mode in LINGERING
            },
        )


REMARKS = (
    f"Hosts of {SPEED:g} Mflop/s in 24 zones.  Drawn ones have night from 22 h to 6 h, begun and ended up to "
    "half an hour early or late, and in the day spells of half an hour on average.",
    "Tasks of 1 to 12 h, uniform, come one by one (Poisson) for "
    f"{DAYS[0]:g} days; all of them count.  Light and heavy: {100 * LOADS['light']:g} and "
    f"{100 * LOADS['heavy']:g} % of what the hosts can do while they are up.",
    f"A move takes {COST:g} s and waiting at most {LINGER:g} s (uniform from 0), unless the table says "
    "otherwise.  A task keeps what it has done.",
    "Where a move takes nothing and hosts are free, it does not matter where a task goes: what wave "
    "schedulers gain is moves.",
)


def _remarks(data: WaveRuns) -> list[str]:
    availability = data.places.run.availability
    if availability is None:
        return [*REMARKS]
    hours, nights = hours_of(availability), []
    for night in NIGHTS:
        up, go = hours.in_night(night)
        begin = f"eight hours from hour {hours.night(night)} of its days on"
        nights.append(f"{night.capitalize()}: {begin}, {up:.3f} and {go:.4f}.")
    hosts = (
        f"Hosts of {os.path.basename(availability)}: {hours.up.mean():.3f} are up on average, and "
        f"{np.average(hours.go, weights=hours.up):.4f} of these go in an hour.  "
    )
    return [*REMARKS, hosts + "  ".join(nights)]


def _error_bar(value: Estimate) -> tuple[float, float]:
    """Return the distances from an estimate to the ends of its interval; 0 if it has none."""
    low, high = (0.0 if math.isnan(end) else abs(value.mean - end) for end in (value.low, value.high))
    return low, high


def _draw(data: WaveRuns) -> Figure:
    """Draw the turnaround relative to plain migration (left) and over the wait (right)."""
    from gridsim import plots
    from gridsim.plots.style import label_x

    figure, (left, *panels) = plots.figure(1 + len(data.lingers))
    places = list(data.places)
    left.axhline(1.0, color="black", linewidth=0.8, linestyle="--", label=BASE)
    styles = plots.styles(MODES)
    for k, mode in enumerate([*LINGERING, *(mode for mode in MODES if mode not in (BASE, *LINGERING))]):
        ratios = [values.mean_ratio(mode, BASE, "turnaround") for values in data.places.values()]
        left.errorbar(
            [x + 0.15 * (k - 1) for x in range(len(places))],
            [ratio.mean for ratio in ratios],
            yerr=np.array(list(map(_error_bar, ratios))).T,
            markersize=5,
            capsize=3,
            label=mode,
            **styles[mode] | {"linestyle": ""},
        )
    left.set_xlim(-0.5, len(places) - 0.5)
    left.grid(axis="y", alpha=0.3)
    label_x(left, range(len(places)), places)
    left.set_ylabel(f"turnaround / {BASE}")
    plots.legend(left)
    for axes, (place, values) in zip(panels, data.lingers.items(), strict=True):
        lines: dict[str, list[Estimate]] = {
            mode: [
                values.mean_ratio(f"{mode} {at:g}", f"{mode} {LINGER_TIMES[0]:g}", "turnaround")
                for at in LINGER_TIMES
            ]
            for mode in LINGERING
        }
        plots.lines([at / 3600 for at in LINGER_TIMES], lines, styles=MODES, axes=axes)
        axes.set(title=place, xlabel="waiting at most (h)", ylabel="turnaround / not waiting")
    return figure


WAVES = Reproduction(
    name="waves",
    title="wave schedulers against plain migration, by turnaround and moves",
    paper="on wave schedulers",
    claims=(BETTER, WAITING),
    files="availability",
    measure=_measure,
    rows=_rows,
    grids=_grids,
    remarks=_remarks,
    figure=_draw,
)
