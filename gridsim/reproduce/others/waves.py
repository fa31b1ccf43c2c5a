"""The four wave schedulers: whether tasks gain by moving to where it is night, and what waiting gains."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.time_zones import Zones
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import BELOW, Grid, Report, Row, Run, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.result import Result
from gridsim.schedulers import MODES, Wave
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "waves"
TITLE = "wave schedulers against plain migration, by turnaround and moves"
BETTER = "wave schedulers have a better turnaround than migration to any host"
WAITING = "fixing the amount of lingering time will influence the turnaround time of the job"
CLAIMS = (BETTER, WAITING)
SEEDS = (10, 5)

NODES, SMALL = 600, 96
DAYS, FEW_DAYS = 5.0, 1.0
#: Speed of every host, Mflop/s; shortest and longest time that tasks take there, s (uniform).
SPEED, LEAST, MOST = 1000.0, 3600.0, 43_200.0
#: Work over what the hosts can do while they are up, during the time of releases.
LOADS = {"light": 0.2, "heavy": 0.8}
#: Shares of the day in which drawn hosts are up, one for each kind of hosts.
DAY_UP = (0.1, 0.4)
#: Time that a move takes, and longest waiting, where they are not varied, s.
COST, LINGER = 300.0, 3600.0
COSTS = (0.0, 60.0, 300.0, 1200.0)
LINGERS = (0.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0)
BASE = "migration-immediate"
PAIRS = (("wave-immediate", "migration-immediate"), ("wave-linger", "migration-linger"))
LINGERING = [mode for mode in MODES if mode.endswith("linger")]
#: Length of the night in a trace, h, and two ways to choose its hours.
NIGHT = 8
FEWEST_GO, MOST_UP = "night when fewest hosts go", "night when most are up"
NIGHTS = (FEWEST_GO, MOST_UP)
DAY = 86_400.0


def turnaround(result: Result) -> float:
    """Mean over tasks of the time from release to finish, h."""
    return result.mean_completion / 3600


def moves(result: Result) -> float:
    """Mean number of moves of a task to another host."""
    return float(result.applications["migrated"].sum() / result.applications["tasks"].sum())


def resumed(result: Result) -> float:
    """Mean number of times that a task continued on the host that it had lost."""
    return float(result.applications["resumed"].sum() / result.applications["tasks"].sum())


METRICS = {"turnaround": turnaround, "moves": moves, "resumed": resumed}


# -- hosts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hours:
    """float64[24], statistics by hour of day, over the whole days of a trace; days count from its beginning.

    Parameters
    ----------
    up
        Share of hosts that are up, of those that are ever up.
    go
        Hosts that go down in an hour, per host that is up.
    """

    up: Floats
    go: Floats

    def night(self, kind: str) -> int:
        """Return the first of the eight hours in which most hosts are up, or fewest go down (`kind`)."""
        if kind == MOST_UP:
            return int(np.argmax(_windows(self.up)))
        up = _windows(self.up)
        # where no host is up, none goes down, but that does not count as a night
        return int(np.argmin(np.divide(_windows(self.go * self.up), up, np.full(24, np.inf), where=up > 0)))

    def in_night(self, kind: str) -> tuple[float, float]:
        """Return `up` and `go` of the eight hours of the night."""
        night, up = self.night(kind), _windows(self.up)
        return float(up[night] / NIGHT), float(_windows(self.go * self.up)[night] / up[night])


def _windows(hours: Floats) -> Floats:
    """Return float64[24]: for each hour of the day, the sum over the eight hours that begin with it."""
    return np.array([np.roll(hours, -hour)[:NIGHT].sum() for hour in range(24)])


@lru_cache(maxsize=2)
def hours_of(path: str) -> Hours:
    """Return the `Hours` of a trace.  Raises TraceFormatError for one without a whole day with a host up."""
    from gridsim.traces import read_availability

    trace = read_availability(path)
    days = trace.horizon // DAY
    if days < 1:
        raise TraceFormatError(f"{path}: the trace lasts {trace.horizon:g} s, expected a day at least")
    (begun, begin), (ended, end) = (
        np.divmod(at.clip(0.0, days * DAY), DAY) for at in (trace.start, trace.end)
    )

    def within(hour: int) -> float:
        """Return the time that intervals spend in this hour of the days, summed over intervals, s."""
        first, last = ((of_day - 3600.0 * hour).clip(0.0, 3600.0) for of_day in (begin, end))
        return float((3600.0 * (ended - begun) + last - first).sum())

    hosts = int((np.diff(trace.offsets) > 0).sum())
    up = np.array([within(hour) for hour in range(24)]) / 3600.0
    if not up.any():
        raise TraceFormatError(
            f"{path}: no host is up in the {days:g} whole days of the trace, expected some"
        )
    going = end[(trace.end >= 0.0) & (trace.end < days * DAY)]
    gone = np.bincount((going // 3600.0).astype(np.int64), minlength=24)
    return Hours(up / (hosts * days), gone / np.maximum(up, 1.0))


@dataclass(frozen=True)
class Around:
    """Makes hosts around the world and tasks released over `days`, as ``Around(600, "heavy", 0.1)(seed)``.

    Parameters
    ----------
    day_up
        Share of the day in which a drawn host is up.
    availability
        A trace whose hosts replace drawn ones.
    night
        Which of its hours are night, one of `NIGHTS`.
    """

    nodes: int
    load: str
    day_up: float = DAY_UP[0]
    days: float = DAYS
    availability: str | None = None
    night: str = ""

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``heavy-600-day10``."""
        kind = f"day{100 * self.day_up:g}"
        if self.availability is not None:
            kind = {MOST_UP: "most-up", FEWEST_GO: "fewest-go"}[self.night]
        return f"{self.load}-{self.nodes}-{kind}"

    @property
    def _zones(self) -> Zones:
        if self.availability is None:
            return Zones()
        return Zones(night_begin=hours_of(self.availability).night(self.night), night_hours=NIGHT)

    @property
    def share(self) -> float:
        """The share of the time in which a host is up."""
        if self.availability is not None:
            return float(hours_of(self.availability).up.mean())
        night = self._zones.night_hours
        return (night + self.day_up * (24.0 - night)) / 24.0

    def faults(self, seed: int, reachable: bool = False) -> Faults:
        """Make the times at which hosts are down; `reachable` is as in `Faults.zones`."""
        zones = self._zones
        if self.availability is None:
            return Faults.zones(seed, zones, day_up=self.day_up, reachable=reachable)
        return Faults.trace(self.availability, seed, zones=zones, reachable=reachable)

    def __call__(self, seed: int) -> Scenario:
        gap = (LEAST + MOST) / 2 / (LOADS[self.load] * self.share * self.nodes)
        tasks = max(1, round(self.days * DAY / gap))
        return Scenario(
            Platform.equal(self.nodes, SPEED),
            Workload.bags(
                tasks, gap, tasks=1, variation=0.0, task_size=(LEAST * SPEED, MOST * SPEED), seed=seed
            ),
            seed=seed,
            faults=self.faults(seed),
        )


# -- what is measured -----------------------------------------------------------------------------------


def waves(linger: float = LINGER, cost: float = COST) -> dict[str, Scheduler]:
    """Return the four schedulers, by mode."""
    return {mode: Wave(mode=mode, linger=linger, migration_cost=cost) for mode in MODES}


def run(how: Run) -> Report:
    """Run the four at each load, on each kind of hosts; then with other costs of a move and other waits."""
    nodes, days = (SMALL, FEW_DAYS) if how.quick else (NODES, DAYS)
    kinds: dict[str, dict[str, Any]]
    kinds = {f"up {100 * share:g} % of the day": {"day_up": share} for share in DAY_UP}
    if how.availability is not None:
        kinds = {night: {"availability": how.availability, "night": night} for night in NIGHTS}
    makes = {
        f"{kind}, {load}": Around(nodes, load, days=days, **said)
        for kind, said in kinds.items()
        for load in LOADS
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # it has been shown already
        made = {place: how.replicate(make, waves(), METRICS) for place, make in makes.items()}
        usual = [place for place in makes if place.startswith(next(iter(kinds)))]
        costs = {
            place: {
                cost: made[place] if cost == COST else how.replicate(makes[place], waves(cost=cost), METRICS)
                for cost in COSTS
            }
            for place in usual
        }
        lingers = {place: how.replicate(makes[place], _lingering(), METRICS) for place in usual}
    rows = _better(made) + _influence(lingers)
    places = list(made)
    grids = [
        _table("turnaround, h", "turnaround", made, MODES),
        Grid(
            f"turnaround / {BASE}",
            ["scheduler", *places],
            {m: [each.ratio(m, BASE, "turnaround") for each in made.values()] for m in MODES if m != BASE},
        ),
        _table("moves to another host, a task", "moves", made, MODES),
        _table("gone on at the same host, a task", "resumed", made, MODES),
    ]
    for place in usual:
        grids.append(
            Grid(
                f"{place}: wave / migration, turnaround, by s that a move takes",
                ["pair", *(f"{cost:g} s" for cost in COSTS)],
                {
                    f"{a} / {b}": [each.ratio(a, b, "turnaround") for each in costs[place].values()]
                    for a, b in PAIRS
                },
            )
        )
    for place in usual:
        grids.append(
            Grid(
                f"{place}: turnaround, h, by s of waiting at most",
                ["scheduler", *(f"{linger:g} s" for linger in LINGERS)],
                {
                    mode: [lingers[place].mean(f"{mode} {linger:g}", "turnaround") for linger in LINGERS]
                    for mode in LINGERING
                },
            )
        )
    remarks = list(_REMARKS)
    if how.availability is not None:
        hours = hours_of(how.availability)
        remarks.append(
            f"Hosts of {os.path.basename(how.availability)}: {hours.up.mean():.3f} are up on average, and "
            f"{np.average(hours.go, weights=hours.up):.4f} of these go in an hour.  "
            + "  ".join(_say_night(hours, night) for night in NIGHTS)
        )
    data = {
        "made": {
            place: {m: each.ratio(m, BASE, "turnaround") for m in MODES} for place, each in made.items()
        },
        "lingers": {
            place: {
                mode: [each.ratio(f"{mode} {at:g}", f"{mode} {LINGERS[0]:g}", "turnaround") for at in LINGERS]
                for mode in LINGERING
            }
            for place, each in lingers.items()
        },
    }
    return Report(tuple(how.seeds), how.quick, rows, grids, remarks, data)


def _say_night(hours: Hours, night: str) -> str:
    up, go = hours.in_night(night)
    begin = hours.night(night)
    return f"{night.capitalize()}: eight hours from hour {begin} of its days on, {up:.3f} and {go:.4f}."


def _lingering() -> dict[str, Scheduler]:
    return {
        f"{mode} {linger:g}": Wave(mode=mode, linger=linger, migration_cost=COST)
        for mode in LINGERING
        for linger in LINGERS
    }


def _table(title: str, metric: str, made: Mapping[str, Replicates], names: Sequence[str]) -> Grid:
    return Grid(
        title,
        ["scheduler", *made],
        {name: [each.mean(name, metric) for each in made.values()] for name in names},
    )


def _better(made: Mapping[str, Replicates]) -> list[Row]:
    """Return the rows about `BETTER`; an equal turnaround does not count as better."""
    return [
        judge(
            BETTER,
            f"{place}: turnaround of {a} / {b}",
            "< 1",
            each.ratio(a, b, "turnaround"),
            -math.inf,
            BELOW,
        )
        for place, each in made.items()
        for a, b in PAIRS
    ]


#: Smallest ratio of turnarounds, worst wait over best wait, that counts as influence.
INFLUENCE = 1.01


def _influence(lingers: Mapping[str, Replicates]) -> list[Row]:
    rows = []
    for place, each in lingers.items():
        for mode in LINGERING:
            means = {at: float(each["turnaround"][f"{mode} {at:g}"].mean()) for at in LINGERS}
            worst, best = max(LINGERS, key=lambda at: means[at]), min(LINGERS, key=lambda at: means[at])
            rows.append(
                judge(
                    WAITING,
                    f"{place}: turnaround of {mode}, the worst wait / the best",
                    "influences",
                    each.ratio(f"{mode} {worst:g}", f"{mode} {best:g}", "turnaround"),
                    INFLUENCE,
                    math.inf,
                    why=f"waits of up to {worst:g} s and {best:g} s",
                )
            )
    return rows


_REMARKS = (
    f"Hosts of {SPEED:g} Mflop/s in 24 zones.  Drawn ones have night from 22 h to 6 h, begun and ended up to "
    "half an hour early or late, and in the day spells of half an hour on average.",
    "Tasks of 1 to 12 h, uniform, come one by one (Poisson) for "
    f"{DAYS:g} days; all of them count.  Light and heavy: {100 * LOADS['light']:g} and "
    f"{100 * LOADS['heavy']:g} % of what the hosts can do while they are up.",
    f"A move takes {COST:g} s and waiting at most {LINGER:g} s (uniform from 0), unless the table says "
    "otherwise.  A task keeps what it has done.",
    "Where a move takes nothing and hosts are free, it does not matter where a task goes: what wave "
    "schedulers gain is moves.",
)


def _reach(found: Estimate, end: float) -> float:
    """Return the distance from an estimate to an end of its interval; 0 if it has none."""
    return 0.0 if math.isnan(end) else abs(found.mean - end)


def figure(report: Report) -> Figure:
    """Draw turnaround relative to plain migration on the left, and turnaround over the wait on the right."""
    from gridsim import plots
    from gridsim.plots.style import label_x

    made, (left, *panels) = plots.figure(1 + len(report.data["lingers"]))
    places = list(report.data["made"])
    left.axhline(1.0, color="black", linewidth=0.8, linestyle="--", label=BASE)
    # schedulers that linger have the same markers and colours as on the right
    for k, mode in enumerate([*LINGERING, *(mode for mode in MODES if mode not in (BASE, *LINGERING))]):
        found = [report.data["made"][place][mode] for place in places]
        left.errorbar(
            [x + 0.15 * (k - 1) for x in range(len(places))],
            [each.mean for each in found],
            yerr=[[_reach(each, each.low) for each in found], [_reach(each, each.high) for each in found]],
            linestyle="",
            marker=plots.MARKERS[k],
            color=plots.COLOURS[k],
            markersize=5,
            capsize=3,
            label=mode,
        )
    left.set_xlim(-0.5, len(places) - 0.5)
    left.grid(axis="y", alpha=0.3)
    label_x(left, range(len(places)), places)
    left.set_ylabel(f"turnaround / {BASE}")
    plots.legend(left)
    for axes, (place, series) in zip(panels, report.data["lingers"].items(), strict=True):
        plots.lines([at / 3600 for at in LINGERS], series, axes=axes)
        axes.set_title(place)
        axes.set_xlabel("waiting at most (h)")
        axes.set_ylabel("turnaround / not waiting")
    return made
