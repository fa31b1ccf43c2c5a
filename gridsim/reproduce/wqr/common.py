"""Shared by the experiments on WQR-FT: one bag on failing desktops, drawn or real, and orderings of
policies."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.model.bag_workloads import LogUniform, Normal
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, BELOW, Desktops, Grid, Row, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.schedulers import WqrFt
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.random_streams import Streams

NODES, SMALL = 1000, 60
BASE = "WQR-FT"
#: The metric that counts tasks completed that were never resubmitted.
COUNT = "undisturbed"
METRICS = ("mean_completion", COUNT, "wasted")

#: Choices that the paper leaves open: drawn desktops are up for 4 h and down for 1 h on average, s
#: (exponential), and have 1000..3000 Mflop/s; a task, in Mflop, takes an hour at the mean speed.
UP, DOWN, TASK = 14_400.0, 3_600.0, 7.2e6
SPREADS = {
    "normal": "task sizes normal, standard deviation half the mean",
    "log-uniform": "task sizes log-uniform, from a tenth of the median to ten times it",
}
REAL = "real"
#: Smallest number of tasks of a bag of a job log that is scaled to the desktops.
LEAST = 20


def policies(**parameters: Any) -> dict[str, Scheduler]:
    """Return the nine policies with these parameters."""
    return {
        name: WqrFt(task_order=order, machine_choice=choice, **parameters)
        for name, (order, choice) in POLICIES.items()
    }


def kinds(desktops: Desktops | None) -> dict[str, str]:
    """Return the calibrations: name -> description."""
    if desktops is None:
        return SPREADS
    said = f"hosts of {os.path.basename(desktops.availability)} with speeds of "
    said += f"{os.path.basename(desktops.speeds)}, one bag of {os.path.basename(desktops.log)} a seed"
    return {REAL: said}


@lru_cache(maxsize=2)
def _bags(path: str) -> int:
    """Return how many bags of a log have enough tasks.  Raises TraceFormatError if there are none."""
    from gridsim.traces import derive_bags, read_jobs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the run itself shows the warning
        count = int((derive_bags(read_jobs(path)).tasks >= LEAST).sum())
    if not count:
        raise TraceFormatError(f"{path}: no bag has {LEAST} tasks or more, expected some")
    return count


@lru_cache(maxsize=2)
def _horizon(path: str) -> float:
    """Return how long an availability trace is from 0 on, s."""
    from gridsim.traces import read_availability

    return max(0.0, read_availability(path).horizon)


@dataclass(frozen=True)
class Bag:
    """Makes one bag on desktops that fail, as ``Bag(1000, 4.0, "normal")(seed)``.

    It can be sent to another process.

    Parameters
    ----------
    ratio
        RR, tasks per machine.
    kind
        One of `SPREADS`, or `REAL` with `desktops`.  Then the hosts are those of availability and speed
        traces.  The seed chooses a bag of the log, whose jobs are drawn again for the number of tasks.
    late
        When the bag is released, in mean up and down times of drawn desktops, so that machines have a past.
        If it is not 0, real desktops have been watched for a fifth of the trace.
    """

    nodes: int
    ratio: float
    kind: str
    desktops: Desktops | None = None
    late: float = 0.0

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``normal-1000-rr4``."""
        return f"{self.kind}-{self.nodes}-rr{self.ratio:g}{'-late' if self.late else ''}"

    def __call__(self, seed: int) -> Scenario:
        if self.desktops is not None:
            return self._real(self.desktops, seed)
        spread = Normal(0.5) if self.kind == "normal" else LogUniform(10.0)
        platform = Platform.desktop_grid(self.nodes, seed)
        workload = Workload.bags(1, 0.0, self.ratio, 0.0, TASK, seed=seed, spread=spread)
        if self.late:
            sizes = workload.realize(platform).sizes()
            workload = Workload.of_tasks([self.late * (UP + DOWN)], [sizes], origin=0.0)
        return Scenario(platform, workload, seed=seed, faults=Faults.exponential(UP, DOWN, seed))

    def _real(self, desktops: Desktops, seed: int) -> Scenario:
        draw = Streams(seed)("reproduce.bag")
        bag, horizon = int(draw.integers(_bags(desktops.log))), _horizon(desktops.availability)
        start = float(draw.uniform(0.2 * horizon, 0.4 * horizon))
        platform = Platform.from_hosts(desktops.speeds, self.nodes, seed)
        workload = Workload.from_log(
            desktops.log,
            min_tasks=LEAST,
            skip=bag,
            max_applications=1,
            tasks_per_node=self.ratio,
            own_sizes=True,
            seed=seed,
        )
        if self.late:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TraceWarning)  # shown when the log was read before
                sizes = workload.realize(platform).sizes()
            workload = Workload.of_tasks([0.2 * horizon], [sizes], origin=0.0)
            start -= 0.2 * horizon
        return Scenario(
            platform,
            workload,
            seed=seed,
            faults=Faults.trace(desktops.availability, seed, start=start),
        )


# -- claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ordering:
    """The statement that the ratio of a metric of two policies lies in low..high, and the paper's sentence.

    Parameters
    ----------
    other
        A policy, or "" for the one of all others with the best mean.
    """

    claim: str
    said: str
    policy: str
    other: str
    low: float = -math.inf
    high: float = BELOW
    metric: str = "mean_completion"

    def ratio(self, made: Replicates) -> Estimate:
        """Return the ratio over seeds; each ratio compares the policies for one seed."""
        means = {name: float(values.mean()) for name, values in made[self.metric].items()}
        return made.ratio(self.policy, self.rival(means), self.metric)

    def rival(self, values: Mapping[str, float]) -> str:
        """Return the policy to compare with, given the value of the metric of each policy."""
        best = max if self.metric == COUNT else min
        return self.other or best(
            (name for name in values if name != self.policy), key=lambda name: values[name]
        )

    @property
    def wanted(self) -> str:
        """The paper's value, as text for a table."""
        if self.low == ALMOST.low:
            return "almost 0.75"
        if math.isinf(self.low):
            return "< 1"
        return "> 1" if math.isinf(self.high) else "about 1"

    @property
    def counted(self) -> Ordering:
        """The same statement about the number of tasks completed, of which more is better."""
        low, high = (ABOVE, math.inf) if self.high == BELOW else (self.low, self.high)
        return replace(self, low=low, high=high, metric=COUNT)


#: The sentences of section VI.
BETTER = "SmallET-NoInfo and GreatET-NoInfo are better than WQR-FT"
ALMOST_25 = "GreatET-NoInfo is almost 25 % better than WQR-FT at RR = 4"
GREAT_ALIKE = "GreatET-NoInfo, -CpuInfo and -AvailInfo are alike"
SMALL_ALIKE = "SmallET-NoInfo and -AvailInfo are alike"
CPU_BETTER = "GreatET-CpuInfo is better than WQR-FT"
AVAIL_BETTER = "SmallET-AvailInfo is better than SmallET-CpuInfo"
ALL_BETTER = "GreatET-AllInfo is better than GreatET-CpuInfo"
ALL_BEST = "GreatET-AllInfo is the best of all"
#: A sentence of the abstract, and one about the metric of Figure 5.
WASTE = "all policies waste fewer cycles than WQR-FT"
UNDISTURBED = "SmallET-NoInfo and GreatET-NoInfo complete more tasks without resubmission than WQR-FT"

#: Ranges of ratios: "alike" is within 5 % of 1, "almost 25 % faster" within 0.05 of 0.75.
ALIKE = (0.95, 1.05)
ALMOST = Ordering(ALMOST_25, "GreatET-NoInfo is better by almost 25 %", "GreatET-NoInfo", BASE, 0.70, 0.80)
#: The other statements of section VI, part by part.
STATEMENTS = (
    Ordering(BETTER, "SmallET-NoInfo is better than WQR-FT", "SmallET-NoInfo", BASE),
    Ordering(BETTER, "GreatET-NoInfo is better than WQR-FT", "GreatET-NoInfo", BASE),
    Ordering(
        GREAT_ALIKE, "GreatET-CpuInfo and -NoInfo are alike", "GreatET-CpuInfo", "GreatET-NoInfo", *ALIKE
    ),
    Ordering(
        GREAT_ALIKE, "GreatET-AvailInfo and -NoInfo are alike", "GreatET-AvailInfo", "GreatET-NoInfo", *ALIKE
    ),
    Ordering(
        SMALL_ALIKE, "SmallET-AvailInfo and -NoInfo are alike", "SmallET-AvailInfo", "SmallET-NoInfo", *ALIKE
    ),
    Ordering(
        AVAIL_BETTER, "SmallET-AvailInfo is better than -CpuInfo", "SmallET-AvailInfo", "SmallET-CpuInfo"
    ),
    Ordering(CPU_BETTER, CPU_BETTER, "GreatET-CpuInfo", BASE),
    Ordering(ALL_BETTER, "GreatET-AllInfo is better than -CpuInfo", "GreatET-AllInfo", "GreatET-CpuInfo"),
    Ordering(ALL_BEST, ALL_BEST, "GreatET-AllInfo", ""),
)
ORDERINGS = (
    *STATEMENTS,
    *(
        Ordering(WASTE, f"{name} wastes less than WQR-FT", name, BASE, metric="wasted")
        for name in POLICIES
        if name != BASE
    ),
    *(
        Ordering(
            UNDISTURBED,
            f"{name} completes more without resubmission than WQR-FT",
            name,
            BASE,
            ABOVE,
            math.inf,
            COUNT,
        )
        for name in ("SmallET-NoInfo", "GreatET-NoInfo")
    ),
)


def sentences(these: Iterable[Ordering], reading: str = "") -> tuple[str, ...]:
    """Return the claims of `these`, each once, for the `CLAIMS` of a module.

    Parameters
    ----------
    reading
        Prefix of each.
    """
    return tuple(dict.fromkeys(f"{reading}{each.claim}" for each in these))


def judged(
    where: str, made: Replicates, these: Iterable[Ordering] = ORDERINGS, reading: str = ""
) -> list[Row]:
    """Return a row for each ordering.

    Parameters
    ----------
    reading
        Prefix of the claims.
    """
    return [
        judge(
            f"{reading}{each.claim}",
            f"{where}: {each.said}",
            each.wanted,
            each.ratio(made),
            each.low,
            each.high,
        )
        for each in these
    ]


def orderings(title: str, made: Mapping[str, Replicates], these: Iterable[Ordering] = ORDERINGS) -> Grid:
    """Return a table: for each ordering and column, the ratio and whether it lies where the paper puts it."""
    rows: dict[str, list[Estimate | str]] = {}
    for ordering in these:
        cells = rows.setdefault(ordering.said, [])
        for each in made.values():
            row = judge("", "", "", ordering.ratio(each), ordering.low, ordering.high)
            measured = row.measured
            assert measured is not None
            interval = "" if math.isnan(measured.low) else f" [{measured.low:.3g}, {measured.high:.3g}]"
            cells.append(f"{HOLDS[row.verdict]}: {measured.mean:.3g}{interval}")
    return Grid(title, ["claim (ratio)", *made], rows)


HOLDS = {"reproduced": "yes", "not reproduced": "no"}
HOLDS |= {name: "open" for name in ("undecided", "not robust", "cannot be compared", "")}


def relative(title: str, made: Mapping[str, Replicates], metric: str, names: Sequence[str]) -> Grid:
    """Return a table of a metric of each policy over that of WQR-FT, as ratios of the same seed."""
    rows = {name: [each.ratio(name, BASE, metric) for each in made.values()] for name in names}
    return Grid(title, ["policy", *made], rows)


def means(title: str, made: Mapping[str, Replicates], metric: str) -> Grid:
    """Return a table of the mean of a metric for each policy."""
    names = next(iter(made.values())).schedulers
    return Grid(
        title,
        ["policy", *made],
        {name: [each.mean(name, metric) for each in made.values()] for name in names},
    )
