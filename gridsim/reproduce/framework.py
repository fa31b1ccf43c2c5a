"""What every reproduction has: scenarios, runs, and claims whose verdicts are computed from intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from gridsim.model.faults import Faults
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.metrics.estimates import FEW, Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import Progress
from gridsim.studies.replicate import Replicates, replicate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["reproduced", "not reproduced", "not robust", "undecided", "cannot be compared"]

#: What the calibrations stand for: the papers give neither how speeds are distributed nor the task size.
CALIBRATIONS = {
    "K1": "speeds 1000..2800 Mflop/s, most of them slow (Pareto), tasks of 65536 Mflop",
    "K2": "speeds 1000..3000 Mflop/s, uniform in steps of 200; task size of each application uniform in "
    "65536..131072 Mflop",
    "U": "speeds 1000..3000 Mflop/s, uniform in steps of 200, tasks of 65536 Mflop",
    "V": "as U, tasks of 16384 Mflop",
}
#: Just below and above 1 and 0, for ratios and differences: to be the same is neither better nor worse.
BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
NEGATIVE, POSITIVE = math.nextafter(0.0, -1.0), math.nextafter(0.0, 1.0)
#: Parameters of the fair tree where its update times and messages are looked at; the paper does not give B.
TREE: dict[str, Any] = {"bound": 2.0, "minimum_of": "busy", "samples": (10, 9, 8), "update_on": "completion"}
_TASK_SIZE: dict[str, Any] = {"K2": (65536.0, 131072.0), "V": 16384.0}


def scenario(kind: str, nodes: int, seed: int, **further: Any) -> Scenario:
    """The papers' experiment with what calibration `kind` adds; `further` goes to `Scenario`.

    100 applications, gaps of 10 s on average, 10 tasks a machine +- 20 %.
    """
    platform = Platform.pareto(nodes, seed) if kind == "K1" else Platform.desktop_grid(nodes, seed)
    workload = Workload.bags(100, 10.0, 10.0, 0.2, _TASK_SIZE.get(kind, 65536.0), seed=seed)
    return Scenario(platform, workload, further.pop("network", Network()), seed, **further)


class Maker(Protocol):
    """Makes the scenario of a seed.  name : of the file that it is written to."""

    @property
    def name(self) -> str: ...

    def __call__(self, seed: int) -> Scenario: ...


@dataclass(frozen=True)
class Make:
    """``Make("K1", 1000)(seed)`` is `scenario`; it can be sent to another process."""

    kind: str
    nodes: int
    further: Callable[[int], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """Of a file: as ``k1-1000-failing``."""
        name = f"{self.kind.lower()}-{self.nodes}"
        return name if self.further is None else f"{name}-{self.further.__name__}"

    def __call__(self, seed: int) -> Scenario:
        return scenario(self.kind, self.nodes, seed, **({} if self.further is None else self.further(seed)))


# -- claims ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper says of it, what was measured, and what follows.

    claim : the sentence that the row is about, one of the `CLAIMS` of its module; "" for none.
    verdict, why : empty where the paper says nothing of it.
    """

    claim: str
    quantity: str
    paper: str
    measured: Estimate | None
    unit: str = ""
    verdict: Verdict | Literal[""] = ""
    why: str = ""


def judge(
    claim: str,
    quantity: str,
    paper: str,
    measured: Estimate | None,
    low: float,
    high: float,
    *,
    unit: str = "",
    why: str = "",
) -> Row:
    """A row whose verdict is told from the interval of `measured` against low..high.

    "reproduced" if the whole interval lies within, "not reproduced" if all of it lies outside, "undecided"
    if it straddles an end, is missing, or is one of fewer than `FEW` seeds; "cannot be compared" if nothing
    was measured.  `why` is added to the reason.
    """
    verdict: Verdict
    wanted = f"wanted {_range(low, high)}"
    if measured is None:
        verdict, reason = "cannot be compared", "not recorded"
    elif math.isnan(measured.low):
        verdict, reason = "undecided", f"{wanted}; no interval: {measured.note}"
    elif measured.seeds < FEW:
        verdict, reason = "undecided", f"{wanted}; fewer than {FEW} seeds"
    else:
        digits = _digits(measured, low, high)
        if low <= measured.low and measured.high <= high:
            verdict, reason = "reproduced", f"{wanted}; the interval{digits} lies within"
        elif measured.high < low or measured.low > high:
            where = _where(measured, low, high)
            verdict, reason = "not reproduced", f"{wanted}; the interval{digits} lies {where}"
        else:
            verdict, reason = "undecided", f"{wanted}; the interval{digits} straddles an end"
    return Row(claim, quantity, paper, measured, unit, verdict, "; ".join(filter(None, (reason, why))))


def near(
    claim: str, quantity: str, paper: float, measured: Estimate | None, *, within: float = 0.25, **named: Any
) -> Row:
    """`judge` against a printed number and `within` of it on either side."""
    low, high = paper * (1 - within), paper * (1 + within)
    return judge(claim, quantity, f"{paper:g}", measured, low, high, **named)


def sign(claim: str, quantity: str, paper: str, differences: Any, *, unit: str = "") -> Row:
    """A row whose verdict is told from the signs of n differences, one a seed, that should be above 0.

    "reproduced" if all are, "not reproduced" if none is, and "not robust" if some are; "undecided" of fewer
    than `FEW` seeds.
    """
    values = np.asarray(differences, dtype=np.float64)
    above = int((values > 0).sum())
    verdict: Verdict
    reason = f"wanted above 0; it is in {above} of {len(values)} seeds"
    if len(values) < FEW:
        verdict, reason = "undecided", f"{reason}; fewer than {FEW} seeds"
    elif above == len(values):
        verdict = "reproduced"
    else:
        verdict = "not robust" if above else "not reproduced"
    return Row(claim, quantity, paper, estimate(values), unit, verdict, reason)


def exact(claim: str, quantity: str, paper: str, holds: bool, why: str) -> Row:
    """A row about what does not depend on a seed, and so has no interval."""
    return Row(claim, quantity, paper, None, "", "reproduced" if holds else "not reproduced", why)


def incomparable(
    claim: str, quantity: str, paper: str, measured: Estimate, why: str, *, unit: str = ""
) -> Row:
    """A row of which the paper has a value that cannot be compared with what was measured."""
    return Row(claim, quantity, paper, measured, unit, "cannot be compared", why)


class Conclusion(NamedTuple):
    """What follows for a claim from the rows about it."""

    claim: str
    verdict: Verdict | Literal["partly reproduced"]
    why: str


def conclude(claim: str, rows: Sequence[Row]) -> Conclusion:
    """What follows for a claim: the verdict that all of its rows have.

    Where they differ it is "partly reproduced" if any of them is reproduced, and "not reproduced" if none is.
    Rows without a verdict do not count, and those that cannot be compared only where there are no others.
    """
    about = [(row.verdict, row.why) for row in rows if row.claim == claim and row.verdict]
    judged = [each for each in about if each[0] != "cannot be compared"] or about
    if not judged:
        return Conclusion(claim, "cannot be compared", "not measured")
    counts = Counter(verdict for verdict, _ in judged)
    [(first, why), *others] = judged
    if others:
        each = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        why = f"{len(judged)} rows: {each}"
    if len(counts) == 1:
        return Conclusion(claim, first, why)
    return Conclusion(claim, "partly reproduced" if counts["reproduced"] else "not reproduced", why)


def _range(low: float, high: float) -> str:
    (least, above), (most, below) = _end(low, -math.inf), _end(high, math.inf)
    if math.isfinite(low) and math.isfinite(high) and not (above or below):
        return f"{low:.4g}..{high:.4g}"
    lower = "" if math.isinf(low) else f"{'above' if above else 'at least'} {least:.4g}"
    upper = "" if math.isinf(high) else f"{'below' if below else 'at most'} {most:.4g}"
    return " and ".join(filter(None, (lower, upper)))


def _end(end: float, towards: float) -> tuple[float, bool]:
    """An end of a range as a reader would say it, and whether it does not belong to the range itself.

    That is so where the next number outside is one of few digits.
    """
    beyond = math.nextafter(end, towards) + 0.0  # 0 without a sign
    strict = float(f"{beyond:.4g}") == beyond and (beyond == 0 or float(f"{end:.4g}") != end)
    return (beyond, True) if strict and math.isfinite(end) else (end, False)


def _where(measured: Estimate, low: float, high: float) -> str:
    """On which side an interval lies that is all outside."""
    if measured.high < low:
        end, _ = _end(low, -math.inf)
        return "at that end" if measured.low == measured.high == end else "below"
    end, _ = _end(high, math.inf)
    return "at that end" if measured.low == measured.high == end else "above"


def _digits(measured: Estimate, low: float, high: float) -> str:
    """The interval to more digits, where those of the table would have it on another side of an end."""
    ends = [end for end, _ in (_end(low, -math.inf), _end(high, math.inf)) if math.isfinite(end)]
    for value in (measured.low, measured.high):
        told = float(f"{value:.4g}")
        if any((value < end) != (told < end) or (value > end) != (told > end) for end in ends):
            return f" ({measured.low:.10g} to {measured.high:.10g})"
    return ""


# -- reports --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A table of measurements that the paper has no numbers for: a title per row, and cells."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Estimate | str]]


@dataclass(frozen=True)
class Report:
    """What came out: rows about claims, further tables, remarks, and the values that the figure shows."""

    seeds: Sequence[int]
    quick: bool
    rows: Sequence[Row]
    grids: Sequence[Grid] = ()
    remarks: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """What was run: a scenario of each seed, under these schedulers, and the values of each metric."""

    make: Maker
    schedulers: Mapping[str, Scheduler]
    made: Replicates


@dataclass(frozen=True)
class Log:
    """A job log: its file, and how many of its processors count as a node."""

    path: str
    procs_per_node: int = 1


@dataclass(frozen=True)
class Desktops:
    """Real desktops and what runs on them: files of host availability, of host speeds, and of jobs (bags)."""

    availability: str
    speeds: str
    log: str


@dataclass(frozen=True)
class Run:
    """How to measure: the seeds, whether in small, where the runs go, and whether to show bars.

    log : whose jobs are run instead of drawn ones; for the experiments of rigid jobs.
    desktops : real ones in place of drawn ones; for the experiments of WQR-FT.
    availability : a trace of hosts in place of drawn ones, nothing else; for the one of wave schedulers.
    ran : what has been run so far, which is written down beside the results.
    """

    seeds: Sequence[int]
    quick: bool = False
    executor: Executor | None = None
    progress: Progress = False
    log: Log | None = None
    desktops: Desktops | None = None
    availability: str | None = None
    ran: list[Ran] = field(default_factory=list)

    def replicate(
        self,
        make: Maker,
        schedulers: Mapping[str, Scheduler],
        metrics: Sequence[str] | Mapping[str, MetricFunction] = ("max_stretch",),
    ) -> Replicates:
        """See `gridsim.studies.replicate.replicate`."""
        made = replicate(
            make, schedulers, self.seeds, executor=self.executor, metrics=metrics, progress=self.progress
        )
        self.ran.append(Ran(make, schedulers, made))
        return made


class Reproduction(Protocol):
    """A module of this package; the names below are what it defines.

    NAME : of the command.  TITLE, CLAIMS : what is repeated, and what the paper says, in sentences; each is
        the `Row.claim` of the rows from which its verdict follows.
    SEEDS : how many by default, in full and in small.
    run(how) : measures.  figure(report) : draws.
    """

    NAME: str
    TITLE: str
    CLAIMS: Sequence[str]
    SEEDS: tuple[int, int]

    def run(self, how: Run) -> Report: ...

    def figure(self, report: Report) -> Figure: ...


# -- what several experiments need ----------------------------------------------------------------------


#: The failures of the paper: each machine is reset once in four hours on average, by a Poisson process.
FAILURES = 14_400.0


def failing(seed: int) -> dict[str, Any]:
    """For `Make`: the paper's failures."""
    return {"faults": Faults.poisson(FAILURES, seed)}


def per_doubling(sizes: Sequence[int], values: Sequence[Any]) -> Any:
    """Slope over log2 of the size, by least squares, of each seed.

    sizes : k numbers of machines.  values : k arrays of n seeds.  Returns n slopes.
    """
    x = np.log2(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    return (x @ np.stack(list(values))) / (x @ x)


def latest_update(result: Result) -> float:
    """Longest time from a change at a leaf until the root knows, of changes from the first release on, s."""
    updates = result.tables["updates"]
    since = updates["arrived"] - updates["age"] >= result.applications["release"].min()
    return float(updates["age"][since].max()) if since.any() else math.nan
