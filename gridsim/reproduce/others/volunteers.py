"""RJSS and resource exclusion with owner absences, compared with wave schedulers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gridsim as gs
from gridsim.errors import TraceWarning
from gridsim.reproduce.framework import CaseTable, Check, Measurements, Reproduction, Run, ratio, relative_to
from gridsim.reproduce.others.waves import DAY, FEWEST_DEPARTURES, LOADS, SPEED, WorldHosts, moves, waves
from gridsim.reproduce.verdicts import LARGER, SMALLER
from gridsim.schedulers import MODES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT_WORK = "jobs that are sent on with what they have done end sooner than jobs that begin anew"
KNOWS = "jobs end sooner where nodes predict from their own past how long their owners stay away"
BETTER = "RJSS has a better turnaround than RE, also where owners come and go"
SLOWER = "a job placed by random probes takes longer than one placed by a wave scheduler that knows all hosts"

#: Numbers of nodes and of days of the full and the quick run.
NODES, DAYS = (60, 40), (2.0, 0.5)
#: Minimum and maximum run time of a job at the mean speed, s (uniform).
SHORTEST, LONGEST = 1800.0, 14_400.0
#: Time to move a started job to another node, s, and the corresponding bytes.
COST = 300.0
STATE = round(COST * gs.Network.star().bandwidth)
#: Share of the nodes that are probed.
K = 0.1


@dataclass(frozen=True)
class OwnedNodes:
    """Factory of scenarios with nodes of different speeds, owner absences, and jobs.

    Owners are as in `WorldHosts`: drawn, or from the trace `availability`.
    """

    nodes: int
    load: str
    days: float = DAYS[0]
    availability: str | None = None

    @property
    def _hosts(self) -> WorldHosts:
        night = "" if self.availability is None else FEWEST_DEPARTURES
        return WorldHosts(self.nodes, self.load, days=self.days, availability=self.availability, night=night)

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``heavy-150-day10``."""
        return self._hosts.name

    def __call__(self, seed: int) -> gs.Scenario:
        owners = self._hosts.faults(seed, reachable=True)
        gap = (SHORTEST + LONGEST) / 2 / (LOADS[self.load] * self._hosts.share * self.nodes)
        jobs = gs.Workload.bags(
            max(1, round(self.days * DAY / gap)),
            gap,
            tasks=1,
            variation=0.0,
            task_size=(SHORTEST * SPEED, LONGEST * SPEED),
            seed=seed,
        )
        platform = gs.Platform.normal(self.nodes, seed, SPEED)
        return gs.Scenario(platform, jobs, gs.Network.star(), seed, faults=owners)


# -- schedulers -----------------------------------------------------------------------------------------

#: Reaction of nodes to returning owners, and their prediction -> parameters of `Rjss`.
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "predictive": {"predictor": "past"},
    "migrating": {"on_return": "migrate"},
    "predictive, migrating": {"predictor": "past", "on_return": "migrate"},
    "home, predictive": {"predictor": "past", "on_return": "home"},
    "exact": {"predictor": "exact"},
    "exact, migrating": {"predictor": "exact", "on_return": "migrate"},
}
#: The same for RJSS with the best of all probed nodes; RE has the first three.
BEST_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "predictive": {"predictor": "past", "prefer": "completion"},
    "migrating": {"on_return": "migrate"},
    "predictive, migrating": {"predictor": "past", "prefer": "completion", "on_return": "migrate"},
    "exact": {"predictor": "exact", "prefer": "completion"},
}
PLAIN, BASE = "RJSS", "wave-immediate"
BEST = "RJSS best"


def schedulers() -> dict[str, gs.Scheduler]:
    """Return name -> scheduler."""
    asking: dict[str, Any] = {"k": K, "probe_latency": "network", "state": STATE}
    policies: dict[str, gs.Scheduler] = {
        _label("RJSS", way): gs.Rjss(**asking, **options) for way, options in OPTIONS.items()
    }
    for way, options in BEST_OPTIONS.items():
        policies[_label(BEST, way)] = gs.Rjss(pick="best", **asking, **options)
    for way in ("plain", "predictive", "migrating"):
        policies[_label("RE", way)] = gs.ResourceExclusion(**asking, **BEST_OPTIONS[way])
    return {**policies, **waves(cost=COST)}


def _label(name: str, variant: str) -> str:
    return name if variant == "plain" else f"{name}, {variant}"


# -- metrics --------------------------------------------------------------------------------------------


def turnaround(result: gs.Result) -> float:
    """Return the mean time from the release of a job to its completion, h."""
    return result.mean_completion / 3600


def interruptions(result: gs.Result) -> float:
    """Return the mean number of times that a running job lost its node."""
    return float(result.applications["resubmitted"].sum() / len(result.applications))


def wasted_share(result: gs.Result) -> float:
    """Return the share of cycles that were lost or spent on moves."""
    return result.wasted


def messages(result: gs.Result) -> float:
    """Return the number of messages per job."""
    return float(result.messages["sent"].sum() / len(result.applications))


METRICS = {
    "turnaround": turnaround,
    "moves": moves,
    "interrupted": interruptions,
    "wasted": wasted_share,
    "messages": messages,
}


def _measure(run: Run) -> Measurements:
    """Run all schedulers at each load, with drawn owners or the owners of a trace."""
    kind = "drawn owners" if run.availability is None else "owners of the trace"
    nodes, days = run.choose(*NODES), run.choose(*DAYS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the warning has already been shown
        cases = {f"{kind}, {load}": OwnedNodes(nodes, load, days, run.availability) for load in LOADS}
        return run.replicate_cases(cases, schedulers(), METRICS)


#: Claim -> pairs of schedulers of which the first has the shorter turnaround if the claim holds.
PAIRS: dict[str, Iterable[tuple[str, str]]] = {
    KEPT_WORK: [
        *((_label(name, "migrating"), name) for name in (PLAIN, BEST, "RE")),
        ("RJSS, predictive, migrating", "RJSS, predictive"),
    ],
    KNOWS: [
        *((_label(name, "predictive"), name) for name in (PLAIN, BEST, "RE")),
        *((_label(name, "predictive, migrating"), _label(name, "migrating")) for name in (PLAIN, BEST)),
    ],
    BETTER: [
        (_label(name, way), _label("RE", way)) for name in (PLAIN, BEST) for way in ("plain", "migrating")
    ],
}
#: Checks of the claims; an equal turnaround does not count as better.
CHECKS = [
    *(
        [
            Check(claim, f"{{case}}: turnaround of {a} / {b}", ratio(a, b, "turnaround"), SMALLER)
            for a, b in pairs
        ]
        for claim, pairs in PAIRS.items()
    ),
    [
        Check(SLOWER, f"{{case}}: turnaround of {name} / {BASE}", ratio(name, BASE, "turnaround"), LARGER)
        for name in (_label(PLAIN, "migrating"), _label(BEST, "migrating"))
    ],
]
RIVALS = [name for name in schedulers() if name != PLAIN]


REMARKS = (
    f"Nodes of {SPEED:g} Mflop/s on average (normal, standard deviation 0.2 of it), and owners as in waves: "
    "up at night, and 10 % of the day; or as a trace has them, night being the hours in which fewest go.  A "
    "node whose owner is there runs nothing, but can be reached.",
    f"Jobs of {SHORTEST / 3600:g} to {LONGEST / 3600:g} h at the mean speed, uniform, come one by one "
    f"(Poisson) for {DAYS[0]:g} days; all of them count.  Light and heavy: {100 * LOADS['light']:g} and "
    f"{100 * LOADS['heavy']:g} % of what the nodes can do while their owners are away.",
    f"RJSS and RE ask {100 * K:g} % of the nodes, one after the other, which takes 0.2 s each.  The state of "
    f"a job that has begun is {STATE / 1e6:g} MB, {COST:g} s on the way; a move of a wave scheduler takes as "
    "long, but on the new host.  Wave schedulers know all hosts at once and are charged no message.",
    "RE: the best of the nodes asked that are not slower than the mean; RJSS: the first that is better than "
    "the job's own node; RJSS best: the best of all that are asked.",
)


def _draw(data: Measurements) -> Figure:
    """Draw turnaround relative to plain RJSS, one panel per load."""
    from gridsim import plots

    figure, panels = plots.figure(len(data))
    places = [len(RIVALS) - k for k in range(len(RIVALS))]
    for axes, (case, values) in zip(panels, data.items(), strict=True):
        for place, name in zip(places, RIVALS, strict=True):
            value = values.mean_ratio(name, PLAIN, "turnaround")
            ends = (value.low, value.high)
            low, high = (abs(value.mean - end) if math.isfinite(end) else 0.0 for end in ends)
            colour = plots.COLOURS[1 if name in MODES else 2 if name.startswith("RE") else 0]
            style: Any = {"marker": "o", "markersize": 4, "capsize": 2, "color": colour}
            axes.errorbar([value.mean], [place], xerr=[[low], [high]], **style)
        axes.axvline(1.0, color="black", linewidth=0.8, linestyle="--")
        axes.set_yticks(places, RIVALS, fontsize=6)
        axes.set(title=case, xlabel=f"turnaround / plain {PLAIN}")
        axes.grid(axis="x", alpha=0.3)
    return figure


VOLUNTEERS = Reproduction(
    name="volunteers",
    title="RJSS, resource exclusion and wave schedulers where owners come and go, by turnaround",
    paper="the paper on RJSS, on volunteers, and those on wave schedulers",
    claims=(KEPT_WORK, KNOWS, BETTER, SLOWER),
    files="availability",
    measure=_measure,
    rows=CHECKS,
    grids=(
        CaseTable("turnaround, h", "turnaround"),
        CaseTable(f"turnaround / {PLAIN}, plain", relative_to(PLAIN, "turnaround"), RIVALS),
        CaseTable("interruptions a job", "interrupted"),
        CaseTable("moves to another node after it has begun, a job", "moves"),
        CaseTable("share of the cycles lost, or taken by moves", "wasted"),
        CaseTable("messages a job", "messages"),
    ),
    remarks=REMARKS,
    figure=_draw,
)
