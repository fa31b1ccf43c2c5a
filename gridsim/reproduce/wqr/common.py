"""Common parts of the experiments on WQR-FT: one bag on failing desktops, and orderings of policies."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import gridsim as gs
from gridsim.errors import TraceFormatError, TraceWarning
from gridsim.reproduce.framework import CaseTable, Cell, Desktops, ResultGrid, relative_to
from gridsim.reproduce.verdicts import ABOVE_ONE, BELOW_ONE, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.schedulers.wqr.policies import POLICIES
from gridsim.studies.replicate_result import Replicates
from gridsim.support.random_streams import Streams

NODES, SMALL = 1000, 60
BASE = "WQR-FT"
#: The metric that counts completed tasks without resubmission.
COUNT = "undisturbed"
METRICS = ("mean_completion", COUNT, "wasted")

#: Values that the paper leaves open: mean up and down times of drawn desktops, s (exponential), their speeds,
#: Mflop/s, and the task size, Mflop, which takes an hour at the mean speed.
UP, DOWN, TASK = 14_400.0, 3_600.0, 7.2e6
SPREADS = {
    "normal": "task sizes normal, standard deviation half the mean",
    "log-uniform": "task sizes log-uniform, from a tenth of the median to ten times it",
}
REAL = "real"
#: Minimum number of tasks of a bag of a job log that is scaled to the desktops.
LEAST = 20


def policies(**parameters: Any) -> dict[str, gs.Scheduler]:
    """Return name -> policy for the nine policies, with the given parameters."""
    return {
        name: gs.WqrFt(task_order=order, machine_choice=choice, **parameters)
        for name, (order, choice) in POLICIES.items()
    }


def calibrations(desktops: Desktops | None) -> dict[str, str]:
    """Return the calibrations: name -> description."""
    if desktops is None:
        return SPREADS
    text = f"hosts of {os.path.basename(desktops.availability)} with speeds of "
    text += f"{os.path.basename(desktops.speeds)}, one bag of {os.path.basename(desktops.log)} a seed"
    return {REAL: text}


@lru_cache(maxsize=2)
def _bags(path: str) -> int:
    """Return the number of bags with `LEAST` tasks or more.  Raises TraceFormatError if there are none."""
    from gridsim.traces import derive_bags, read_jobs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # the run shows the warning again
        count = int((derive_bags(read_jobs(path)).tasks >= LEAST).sum())
    if not count:
        raise TraceFormatError(f"{path}: the log must have a bag of at least {LEAST} tasks, got none")
    return count


@lru_cache(maxsize=2)
def _horizon(path: str) -> float:
    """Return the end of an availability trace, s; 0 if it ends before time 0."""
    from gridsim.traces import read_availability

    return max(0.0, read_availability(path).horizon)


@dataclass(frozen=True)
class OneBag:
    """Picklable factory of scenarios of one bag on desktops that fail: ``OneBag(1000, 4.0, "normal")(seed)``.

    Parameters
    ----------
    ratio
        RR, tasks per machine.
    kind
        One of `SPREADS`, or `REAL` with `desktops`.  Then the hosts are those of availability and speed
        traces.  The seed chooses a bag of the log, whose jobs are drawn again for the number of tasks.
    delay
        Release of the bag, in mean up and down times of drawn desktops, so that machines have a history. If
        it is not 0, real desktops have been observed for a fifth of the trace.
    """

    nodes: int
    ratio: float
    kind: str
    desktops: Desktops | None = None
    delay: float = 0.0

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``normal-1000-rr4``."""
        return f"{self.kind}-{self.nodes}-rr{self.ratio:g}{'-late' if self.delay else ''}"

    def __call__(self, seed: int) -> gs.Scenario:
        if self.desktops is not None:
            return self._real(self.desktops, seed)
        spread = gs.Normal(0.5) if self.kind == "normal" else gs.LogUniform(10.0)
        platform = gs.Platform.desktop_grid(self.nodes, seed)
        workload = gs.Workload.bags(1, 0.0, self.ratio, 0.0, TASK, seed=seed, spread=spread)
        if self.delay:
            sizes = workload.realize(platform).sizes()
            workload = gs.Workload.of_tasks([self.delay * (UP + DOWN)], [sizes], origin=0.0)
        return gs.Scenario(platform, workload, seed=seed, faults=gs.Faults.exponential(UP, DOWN, seed))

    def _real(self, desktops: Desktops, seed: int) -> gs.Scenario:
        draw = Streams(seed)("reproduce.bag")
        bag, horizon = int(draw.integers(_bags(desktops.log))), _horizon(desktops.availability)
        start = float(draw.uniform(0.2 * horizon, 0.4 * horizon))
        platform = gs.Platform.from_hosts(desktops.speeds, self.nodes, seed)
        workload = gs.Workload.from_log(
            desktops.log,
            min_tasks=LEAST,
            skip=bag,
            max_applications=1,
            tasks_per_node=self.ratio,
            own_sizes=True,
            seed=seed,
        )
        if self.delay:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TraceWarning)  # shown when the log was read before
                sizes = workload.realize(platform).sizes()
            workload = gs.Workload.of_tasks([0.2 * horizon], [sizes], origin=0.0)
            start -= 0.2 * horizon
        return gs.Scenario(
            platform, workload, seed=seed, faults=gs.Faults.trace(desktops.availability, seed, start=start)
        )


# -- claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ordering:
    """The statement that the ratio of a metric of two policies lies in low..high, and the paper's sentence.

    Parameters
    ----------
    rival
        A policy, or "" for the one of all others with the best mean.
    """

    claim: str
    statement: str
    policy: str
    rival: str
    low: float = -math.inf
    high: float = BELOW_ONE
    metric: str = "mean_completion"

    def ratio(self, values: Replicates) -> Estimate:
        """Return the ratio over seeds; each ratio compares the policies for one seed."""
        means = {name: float(column.mean()) for name, column in values[self.metric].items()}
        return values.mean_ratio(self.policy, self.best_rival(means), self.metric)

    def best_rival(self, values: Mapping[str, float]) -> str:
        """Return the policy to compare with, given the value of the metric of each policy."""
        best = max if self.metric == COUNT else min
        return self.rival or best((name for name in values if name != self.policy), key=values.__getitem__)

    @property
    def test(self) -> ClaimedRange:
        """The range, with the paper's value as text for a table."""
        if self.low == ALMOST_25_BETTER.low:
            text = "almost 0.75"
        elif math.isinf(self.low):
            text = "< 1"
        else:
            text = "> 1" if math.isinf(self.high) else "about 1"
        return ClaimedRange(text, self.low, self.high)

    @property
    def in_tasks(self) -> Ordering:
        """The same statement about the number of tasks completed, of which more is better."""
        low, high = (ABOVE_ONE, math.inf) if self.high == BELOW_ONE else (self.low, self.high)
        return replace(self, low=low, high=high, metric=COUNT)


#: The sentences of section VI.
BETTER = "SmallET-NoInfo and GreatET-NoInfo are better than WQR-FT"
ALMOST_25 = "GreatET-NoInfo is almost 25 % better than WQR-FT at RR = 4"
GREAT_ET_EQUAL = "GreatET-NoInfo, -CpuInfo and -AvailInfo are alike"
SMALL_ALIKE = "SmallET-NoInfo and -AvailInfo are alike"
CPU_BETTER = "GreatET-CpuInfo is better than WQR-FT"
AVAIL_BETTER = "SmallET-AvailInfo is better than SmallET-CpuInfo"
ALL_BETTER = "GreatET-AllInfo is better than GreatET-CpuInfo"
ALL_BEST = "GreatET-AllInfo is the best of all"
#: A sentence of the abstract, and one about the metric of Figure 5.
WASTE = "all policies waste fewer cycles than WQR-FT"
NO_RESUBMISSION = "SmallET-NoInfo and GreatET-NoInfo complete more tasks without resubmission than WQR-FT"

#: Ranges of ratios: "alike" is within 5 % of 1, "almost 25 % faster" within 0.05 of 0.75.
ALIKE_RANGE = (0.95, 1.05)
ALMOST_25_BETTER = Ordering(
    ALMOST_25, "GreatET-NoInfo is better by almost 25 %", "GreatET-NoInfo", BASE, 0.70, 0.80
)
#: The other statements of section VI, part by part.
STATEMENTS = (
    Ordering(BETTER, "SmallET-NoInfo is better than WQR-FT", "SmallET-NoInfo", BASE),
    Ordering(BETTER, "GreatET-NoInfo is better than WQR-FT", "GreatET-NoInfo", BASE),
    Ordering(
        GREAT_ET_EQUAL,
        "GreatET-CpuInfo and -NoInfo are alike",
        "GreatET-CpuInfo",
        "GreatET-NoInfo",
        *ALIKE_RANGE,
    ),
    Ordering(
        GREAT_ET_EQUAL,
        "GreatET-AvailInfo and -NoInfo are alike",
        "GreatET-AvailInfo",
        "GreatET-NoInfo",
        *ALIKE_RANGE,
    ),
    Ordering(
        SMALL_ALIKE,
        "SmallET-AvailInfo and -NoInfo are alike",
        "SmallET-AvailInfo",
        "SmallET-NoInfo",
        *ALIKE_RANGE,
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
            NO_RESUBMISSION,
            f"{name} completes more without resubmission than WQR-FT",
            name,
            BASE,
            ABOVE_ONE,
            math.inf,
            COUNT,
        )
        for name in ("SmallET-NoInfo", "GreatET-NoInfo")
    ),
)


def sentences(orderings: Iterable[Ordering], reading: str = "") -> tuple[str, ...]:
    """Return the claims of orderings, each once; `reading` is a prefix of each."""
    return tuple(dict.fromkeys(f"{reading}{ordering.claim}" for ordering in orderings))


def ordering_rows(
    case: str, values: Replicates, orderings: Iterable[Ordering] = ORDERINGS, reading: str = ""
) -> list[Row]:
    """Return a row for each ordering; `reading` is a prefix of the claims."""
    return [
        judge(f"{reading}{item.claim}", f"{case}: {item.statement}", item.ratio(values), item.test)
        for item in orderings
    ]


def ordering_grid(
    title: str, cases: Mapping[str, Replicates], orderings: Iterable[Ordering] = ORDERINGS
) -> ResultGrid:
    """Return a table: for each ordering and column, the ratio and whether it lies where the paper puts it."""
    rows: dict[str, list[Estimate | str]] = {}
    for ordering in orderings:
        cells = rows.setdefault(ordering.statement, [])
        for values in cases.values():
            ratio = ordering.ratio(values)
            verdict = judge("", "", ratio, ordering.test).verdict
            interval = "" if math.isnan(ratio.low) else f" [{ratio.low:.3g}, {ratio.high:.3g}]"
            cells.append(f"{HOLDS.get(verdict, 'open')}: {ratio.mean:.3g}{interval}")
    return ResultGrid(title, ["claim (ratio)", *cases], rows)


#: Verdict -> whether an ordering holds; others are open.
HOLDS = {"reproduced": "yes", "not reproduced": "no"}
#: The policies that are compared with WQR-FT.
INFORMED_POLICIES = tuple(name for name in POLICIES if name != BASE)
RELATIVE_TIME, RELATIVE_COUNT = relative_to(BASE, "mean_completion"), relative_to(BASE, COUNT)


def policy_table(title: str, cell: Cell, names: Iterable[str] | None = None) -> CaseTable:
    """Return a table of the policies."""
    return CaseTable(title, cell, names, head="policy")
