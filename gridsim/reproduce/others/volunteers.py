"""RJSS and resource exclusion where owners come and go, compared with wave schedulers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gridsim.errors import TraceWarning
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, BELOW, Grid, Report, Row, Run, judge
from gridsim.reproduce.others.waves import DAY, FEWEST_GO, LOADS, SPEED, Around, moves, waves
from gridsim.results.result import Result
from gridsim.schedulers import MODES, ResourceExclusion, Rjss
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "volunteers"
TITLE = "RJSS, resource exclusion and wave schedulers where owners come and go, by turnaround"
KEEPS = "jobs that are sent on with what they have done end sooner than jobs that begin anew"
KNOWS = "jobs end sooner where nodes predict from their own past how long their owners stay away"
BETTER = "RJSS has a better turnaround than RE, also where owners come and go"
WAVES = "a job placed by random probes takes longer than one placed by a wave scheduler that knows all hosts"
CLAIMS = (KEEPS, KNOWS, BETTER, WAVES)
SEEDS = (10, 5)

NODES, SMALL = 60, 40
DAYS, FEW_DAYS = 2.0, 0.5
#: Shortest and longest time that a job takes at the mean speed, s (uniform).
LEAST, MOST = 1800.0, 14_400.0
#: Time that a job which has begun takes to another node, s; and how many bytes that is.
COST = 300.0
STATE = round(COST * Network.star().bandwidth)
#: Share of the nodes that are asked.
K = 0.1


@dataclass(frozen=True)
class Owned:
    """Makes nodes of different speeds whose owners come and go, and jobs, as ``Owned(150, "heavy")(seed)``.

    Owners are as in `Around`: drawn, or from the trace `availability`.
    """

    nodes: int
    load: str
    days: float = DAYS
    availability: str | None = None

    @property
    def _around(self) -> Around:
        night = "" if self.availability is None else FEWEST_GO
        return Around(self.nodes, self.load, days=self.days, availability=self.availability, night=night)

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``heavy-150-day10``."""
        return self._around.name

    def __call__(self, seed: int) -> Scenario:
        owners = self._around.faults(seed, reachable=True)
        gap = (LEAST + MOST) / 2 / (LOADS[self.load] * self._around.share * self.nodes)
        jobs = Workload.bags(
            max(1, round(self.days * DAY / gap)),
            gap,
            tasks=1,
            variation=0.0,
            task_size=(LEAST * SPEED, MOST * SPEED),
            seed=seed,
        )
        platform = Platform.normal(self.nodes, seed, SPEED)
        return Scenario(platform, jobs, Network.star(), seed, faults=owners)


# -- what is measured -----------------------------------------------------------------------------------

#: What nodes do when owners return and what they predict -> those parameters of `Rjss`.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "predictive": {"predictor": "past"},
    "migrating": {"on_return": "migrate"},
    "predictive, migrating": {"predictor": "past", "on_return": "migrate"},
    "home, predictive": {"predictor": "past", "on_return": "home"},
    "exact": {"predictor": "exact"},
    "exact, migrating": {"predictor": "exact", "on_return": "migrate"},
}
#: The same for RJSS with the best of all nodes asked; RE has the first three.
BEST_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "predictive": {"predictor": "past", "prefer": "completion"},
    "migrating": {"on_return": "migrate"},
    "predictive, migrating": {"predictor": "past", "prefer": "completion", "on_return": "migrate"},
    "exact": {"predictor": "exact", "prefer": "completion"},
}
PLAIN, BASE = "RJSS", "wave-immediate"
BEST = "RJSS best"


def schedulers() -> dict[str, Scheduler]:
    """Return all schedulers, by name."""
    asking: dict[str, Any] = {"k": K, "probe_latency": "network", "state": STATE}
    made: dict[str, Scheduler] = {_named("RJSS", way): Rjss(**asking, **said) for way, said in WAYS.items()}
    for way, said in BEST_WAYS.items():
        made[_named(BEST, way)] = Rjss(pick="best", **asking, **said)
    for way in ("plain", "predictive", "migrating"):
        made[_named("RE", way)] = ResourceExclusion(**asking, **BEST_WAYS[way])
    return {**made, **waves(cost=COST)}


def _named(name: str, way: str) -> str:
    return name if way == "plain" else f"{name}, {way}"


def turnaround(result: Result) -> float:
    """Mean time from the release of a job until it has run, h."""
    return result.mean_completion / 3600


def interrupted(result: Result) -> float:
    """How often a job lost its node while it ran, on average."""
    return float(result.applications["resubmitted"].sum() / len(result.applications))


def wasted(result: Result) -> float:
    """Share of the cycles that jobs lost, or that moves took."""
    return result.wasted


def messages(result: Result) -> float:
    """Messages a job."""
    return float(result.messages["sent"].sum() / len(result.applications))


METRICS = {
    "turnaround": turnaround,
    "moves": moves,
    "interrupted": interrupted,
    "wasted": wasted,
    "messages": messages,
}


def run(how: Run) -> Report:
    """Run all at each load, on drawn owners or those of a trace."""
    nodes, days = (SMALL, FEW_DAYS) if how.quick else (NODES, DAYS)
    kind = "drawn owners" if how.availability is None else "owners of the trace"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # it has been shown already
        made = {
            f"{kind}, {load}": how.replicate(
                Owned(nodes, load, days, how.availability), schedulers(), METRICS
            )
            for load in LOADS
        }
    names = [*schedulers()]
    grids = [
        Grid(
            title,
            ["scheduler", *made],
            {name: [each.mean(name, metric) for each in made.values()] for name in names},
        )
        for title, metric in (
            ("turnaround, h", "turnaround"),
            ("interruptions a job", "interrupted"),
            ("moves to another node after it has begun, a job", "moves"),
            ("share of the cycles lost, or taken by moves", "wasted"),
            ("messages a job", "messages"),
        )
    ]
    grids.insert(
        1,
        Grid(
            f"turnaround / {PLAIN}, plain",
            ["scheduler", *made],
            {
                name: [each.ratio(name, PLAIN, "turnaround") for each in made.values()]
                for name in names
                if name != PLAIN
            },
        ),
    )
    data = {
        place: {name: each.ratio(name, PLAIN, "turnaround") for name in names if name != PLAIN}
        for place, each in made.items()
    }
    return Report(tuple(how.seeds), how.quick, _rows(made), grids, _REMARKS, data)


#: Claim -> pairs of schedulers, the first of which has the smaller turnaround if the claim holds.
PAIRS: dict[str, Sequence[tuple[str, str]]] = {
    KEEPS: [
        *((_named(name, "migrating"), name) for name in (PLAIN, BEST, "RE")),
        ("RJSS, predictive, migrating", "RJSS, predictive"),
    ],
    KNOWS: [
        *((_named(name, "predictive"), name) for name in (PLAIN, BEST, "RE")),
        *((_named(name, "predictive, migrating"), _named(name, "migrating")) for name in (PLAIN, BEST)),
    ],
    BETTER: [
        (_named(name, way), _named("RE", way)) for name in (PLAIN, BEST) for way in ("plain", "migrating")
    ],
}


def _rows(made: Mapping[str, Replicates]) -> list[Row]:
    """Return the rows about the claims; an equal turnaround does not count as better."""
    rows = [
        judge(
            claim,
            f"{place}: turnaround of {a} / {b}",
            "< 1",
            each.ratio(a, b, "turnaround"),
            -math.inf,
            BELOW,
        )
        for claim, pairs in PAIRS.items()
        for place, each in made.items()
        for a, b in pairs
    ]
    return rows + [
        judge(
            WAVES,
            f"{place}: turnaround of {name} / {BASE}",
            "> 1",
            each.ratio(name, BASE, "turnaround"),
            ABOVE,
            math.inf,
        )
        for place, each in made.items()
        for name in (_named(PLAIN, "migrating"), _named(BEST, "migrating"))
    ]


_REMARKS = (
    f"Nodes of {SPEED:g} Mflop/s on average (normal, standard deviation 0.2 of it), and owners as in waves: "
    "up at night, and 10 % of the day; or as a trace has them, night being the hours in which fewest go.  A "
    "node whose owner is there runs nothing, but can be reached.",
    f"Jobs of {LEAST / 3600:g} to {MOST / 3600:g} h at the mean speed, uniform, come one by one (Poisson) "
    f"for {DAYS:g} days; all of them count.  Light and heavy: {100 * LOADS['light']:g} and "
    f"{100 * LOADS['heavy']:g} % of what the nodes can do while their owners are away.",
    f"RJSS and RE ask {100 * K:g} % of the nodes, one after the other, which takes 0.2 s each.  The state of "
    f"a job that has begun is {STATE / 1e6:g} MB, {COST:g} s on the way; a move of a wave scheduler takes as "
    "long, but on the new host.  Wave schedulers know all hosts at once and are charged no message.",
    "RE: the best of the nodes asked that are not slower than the mean; RJSS: the first that is better than "
    "the job's own node; RJSS best: the best of all that are asked.",
)


def figure(report: Report) -> Figure:
    """Draw turnaround relative to plain RJSS, a panel for each load."""
    from gridsim import plots

    made, panels = plots.figure(len(report.data))
    for axes, (place, found) in zip(panels, report.data.items(), strict=True):
        names = [*found]
        for k, name in enumerate(names):
            each = found[name]
            low, high = (abs(each.mean - end) if math.isfinite(end) else 0.0 for end in (each.low, each.high))
            colour = plots.COLOURS[1 if name in MODES else 2 if name.startswith("RE") else 0]
            axes.errorbar(
                [each.mean],
                [len(names) - k],
                xerr=[[low], [high]],
                marker="o",
                markersize=4,
                capsize=2,
                color=colour,
            )
        axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
        axes.set_yticks([len(names) - k for k in range(len(names))], names, fontsize=6)
        axes.set_title(place)
        axes.set_xlabel(f"turnaround / plain {PLAIN}")
        axes.grid(axis="x", alpha=0.3)
    return made
