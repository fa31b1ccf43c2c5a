"""What all reproductions share: scenarios, runs, and claims whose verdicts are computed from intervals."""

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
from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import Progress
from gridsim.studies.replicate import Replicates, replicate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["reproduced", "not reproduced", "not robust", "undecided", "cannot be compared"]

#: The calibrations, as the papers give neither the distribution of speeds nor the task size.
CALIBRATIONS = {
    "K1": "speeds 1000..2800 Mflop/s, most of them slow (Pareto), tasks of 65536 Mflop",
    "K2": "speeds 1000..3000 Mflop/s, uniform in steps of 200; task size of each application uniform in "
    "65536..131072 Mflop",
    "U": "speeds 1000..3000 Mflop/s, uniform in steps of 200, tasks of 65536 Mflop",
    "V": "as U, tasks of 16384 Mflop",
}
#: The numbers next to 1 (for ratios) and next to 0 (for differences).  As ends of a range they exclude
#: equality: an equal value is neither better nor worse.
BELOW, ABOVE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
NEGATIVE, POSITIVE = math.nextafter(0.0, -1.0), math.nextafter(0.0, 1.0)
_TASK_SIZE: dict[str, Any] = {"K2": (65536.0, 131072.0), "V": 16384.0}


def scenario(kind: str, nodes: int, seed: int, **further: Any) -> Scenario:
    """Return the papers' experiment with the platform and the task size of calibration `kind`.

    There are 100 applications, released 10 s apart on average, of 10 tasks per machine +- 20 %.  `further`
    goes to `Scenario`.
    """
    platform = Platform.pareto(nodes, seed) if kind == "K1" else Platform.desktop_grid(nodes, seed)
    workload = Workload.bags(100, 10.0, 10.0, 0.2, _TASK_SIZE.get(kind, 65536.0), seed=seed)
    return Scenario(platform, workload, further.pop("network", Network()), seed, **further)


class Maker(Protocol):
    """Makes the scenario of a seed.

    Attributes
    ----------
    name
        Name of its file, without the ending.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, seed: int) -> Scenario: ...


@dataclass(frozen=True)
class Make:
    """Calls `scenario` for a seed, as in ``Make("K1", 1000)(seed)``; it can be sent to another process."""

    kind: str
    nodes: int
    further: Callable[[int], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """Name of the scenario's file, such as ``k1-1000-failing``."""
        name = f"{self.kind.lower()}-{self.nodes}"
        return name if self.further is None else f"{name}-{self.further.__name__}"

    def __call__(self, seed: int) -> Scenario:
        return scenario(self.kind, self.nodes, seed, **({} if self.further is None else self.further(seed)))


# -- claims ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper says about it, what was measured, and the verdict.

    Parameters
    ----------
    claim
        The sentence that the row is about, one of the `CLAIMS` of its module; "" for none.
    verdict, why
        The verdict and its reason; empty where the paper says nothing about the quantity.
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
    """Return a row whose verdict compares the interval of `measured` with the range low..high.

    The verdict is "reproduced" if the whole interval lies within the range, and "not reproduced" if all of it
    lies outside.  It is "undecided" if the interval straddles an end, is missing, or comes from fewer than
    `MIN_SEEDS` seeds, and "cannot be compared" if nothing was measured.  `why` is added to the reason.
    """
    verdict: Verdict
    wanted = f"wanted {_range(low, high)}"
    if measured is None:
        verdict, reason = "cannot be compared", "not recorded"
    elif math.isnan(measured.low):
        verdict, reason = "undecided", f"{wanted}; no interval: {measured.note}"
    elif measured.seeds < MIN_SEEDS:
        verdict, reason = "undecided", f"{wanted}; fewer than {MIN_SEEDS} seeds"
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
    """Call `judge` with the range around a printed number: `within` times the number on either side."""
    low, high = paper * (1 - within), paper * (1 + within)
    return judge(claim, quantity, f"{paper:g}", measured, low, high, **named)


def sign(
    claim: str,
    quantity: str,
    paper: str,
    differences: Any,
    *,
    unit: str = "",
    seeds: Sequence[int] | None = None,
) -> Row:
    """Return a row whose verdict depends on the signs of n differences, one per seed.

    The verdict is "reproduced" if all differences are above 0, "not reproduced" if none is, and "not robust"
    if some are.  It is "undecided" for fewer than `MIN_SEEDS` seeds.  The reason names those of the n
    `seeds`, if they are given, whose difference is not above 0.
    """
    values = np.asarray(differences, dtype=np.float64)
    above = int((values > 0).sum())
    verdict: Verdict
    count = f"{above} of {len(values)} seeds" if seeds is None else seeds_above(values, seeds)
    reason = f"wanted above 0; it is in {count}"
    if len(values) < MIN_SEEDS:
        verdict, reason = "undecided", f"{reason}; fewer than {MIN_SEEDS} seeds"
    elif above == len(values):
        verdict = "reproduced"
    else:
        verdict = "not robust" if above else "not reproduced"
    return Row(claim, quantity, paper, estimate(values), unit, verdict, reason)


def seeds_above(differences: Any, seeds: Sequence[int]) -> str:
    """Return in how many of n `seeds` the difference is above 0, and in which it is not."""
    values = np.asarray(differences, dtype=np.float64)
    not_above = [f"{seed}" for value, seed in zip(values, seeds, strict=True) if not value > 0]
    count = f"{len(values) - len(not_above)} of {len(values)} seeds"
    return f"{count}, not in {', '.join(not_above)}" if not_above else count


def exact(claim: str, quantity: str, paper: str, holds: bool, why: str) -> Row:
    """Return a row about a value that does not depend on a seed, and so has no interval."""
    return Row(claim, quantity, paper, None, "", "reproduced" if holds else "not reproduced", why)


def incomparable(
    claim: str, quantity: str, paper: str, measured: Estimate, why: str, *, unit: str = ""
) -> Row:
    """Return a row for which the paper has a value that cannot be compared with the measured one."""
    return Row(claim, quantity, paper, measured, unit, "cannot be compared", why)


class Conclusion(NamedTuple):
    """The verdict on a claim that follows from the rows about it."""

    claim: str
    verdict: Verdict | Literal["partly reproduced"]
    why: str


def conclude(claim: str, rows: Sequence[Row]) -> Conclusion:
    """Return the conclusion on a claim: the verdict of its rows, if they all have the same one.

    If verdicts differ, it is "partly reproduced" if any row is reproduced, and "not reproduced" if none is.
    Rows without a verdict do not count.  Rows that cannot be compared count only if there are no others.
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
    """Return an end of a range as a reader would write it, and whether the range excludes that number.

    The range excludes it where the next number outside has few digits: `BELOW` means "below 1".
    """
    beyond = math.nextafter(end, towards) + 0.0  # 0 without a sign
    strict = float(f"{beyond:.4g}") == beyond and (beyond == 0 or float(f"{end:.4g}") != end)
    return (beyond, True) if strict and math.isfinite(end) else (end, False)


def _where(measured: Estimate, low: float, high: float) -> str:
    """Return on which side of a range an interval lies that is entirely outside it."""
    if measured.high < low:
        end, _ = _end(low, -math.inf)
        return "at that end" if measured.low == measured.high == end else "below"
    end, _ = _end(high, math.inf)
    return "at that end" if measured.low == measured.high == end else "above"


def _digits(measured: Estimate, low: float, high: float) -> str:
    """Return the interval with more digits if rounding, as in the table, moves it across an end; else ""."""
    ends = [end for end, _ in (_end(low, -math.inf), _end(high, math.inf)) if math.isfinite(end)]
    for value in (measured.low, measured.high):
        told = float(f"{value:.4g}")
        if any((value < end) != (told < end) or (value > end) != (told > end) for end in ends):
            return f" ({measured.low:.10g} to {measured.high:.10g})"
    return ""


# -- reports --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A table without verdicts, mostly of values that the paper does not print.

    Parameters
    ----------
    rows
        Title -> cells.
    """

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Estimate | str]]


@dataclass(frozen=True)
class Report:
    """The outcome: rows about claims, further tables, remarks, and the values that the figure shows."""

    seeds: Sequence[int]
    quick: bool
    rows: Sequence[Row]
    grids: Sequence[Grid] = ()
    remarks: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """What was run: the scenario of each seed, the schedulers, and the values of each metric."""

    make: Maker
    schedulers: Mapping[str, Scheduler]
    made: Replicates


@dataclass(frozen=True)
class Log:
    """A job log: its file, and how many of its processors count as one node."""

    path: str
    procs_per_node: int = 1


@dataclass(frozen=True)
class Desktops:
    """Files about real desktops: host availability, host speeds, and the jobs (bags) that run there."""

    availability: str
    speeds: str
    log: str


@dataclass(frozen=True)
class Run:
    """How to measure: the seeds, whether in small, where runs go, and whether to show progress bars.

    Parameters
    ----------
    log
        Job log that replaces drawn jobs; for the experiments on rigid jobs.
    desktops
        Real desktops that replace drawn ones; for the experiments on WQR-FT.
    availability
        Trace that replaces drawn host availability only; for the experiment on wave schedulers.
    traces
        Logs with the duration of every task; for the experiments on probe-based schedulers.
    ran
        What has been run so far, which is written down beside the results.
    """

    seeds: Sequence[int]
    quick: bool = False
    executor: Executor | None = None
    progress: Progress = False
    log: Log | None = None
    desktops: Desktops | None = None
    availability: str | None = None
    traces: Sequence[str] = ()
    ran: list[Ran] = field(default_factory=list)

    def replicate(
        self,
        make: Maker,
        schedulers: Mapping[str, Scheduler],
        metrics: Sequence[str] | Mapping[str, MetricFunction] = ("max_stretch",),
    ) -> Replicates:
        """Run `gridsim.studies.replicate.replicate` on these seeds, and add the outcome to `ran`."""
        made = replicate(
            make, schedulers, self.seeds, executor=self.executor, metrics=metrics, progress=self.progress
        )
        self.ran.append(Ran(make, schedulers, made))
        return made


class Reproduction(Protocol):
    """The names that each experiment, a module of this package, defines.

    NAME : name on the command line.  TITLE, CLAIMS : what is repeated, and what the paper says, in sentences;
        each sentence is the `Row.claim` of the rows from which its verdict follows.
    SEEDS : default number of seeds, in full and in small.
    run(how) : measures.  figure(report) : draws.
    """

    NAME: str
    TITLE: str
    CLAIMS: Sequence[str]
    SEEDS: tuple[int, int]

    def run(self, how: Run) -> Report: ...

    def figure(self, report: Report) -> Figure: ...


# -- what several experiments need ----------------------------------------------------------------------


#: Mean time between the failures of a machine in the paper, s: a Poisson process, once in four hours.
FAILURES = 14_400.0


def failing(seed: int) -> dict[str, Any]:
    """Return the paper's failures; for `Make`."""
    return {"faults": Faults.poisson(FAILURES, seed)}


def per_doubling(sizes: Sequence[int], values: Sequence[Any]) -> Any:
    """Return the growth per doubling of the size: for each seed, the least-squares slope over log2(size).

    Parameters
    ----------
    sizes
        K numbers of machines.
    values
        K arrays with a value for each of n seeds.  Returns n slopes.
    """
    x = np.log2(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    return (x @ np.stack(list(values))) / (x @ x)


def latest_update(result: Result) -> float:
    """Longest time from a change at a leaf, at or after the first release, until the root knows of it, s."""
    updates = result.tables["updates"]
    since = updates["arrived"] - updates["age"] >= result.applications["release"].min()
    return float(updates["age"][since].max()) if since.any() else math.nan


# -- charts -----------------------------------------------------------------------------------------------


def panels(
    series: Mapping[str, Any],
    x: Sequence[float],
    properties: Mapping[str, Any],
    *,
    named: str = "title",
    shared: bool = False,
) -> Figure:
    """Draw lines over `x`, a panel for each of `series`.

    Parameters
    ----------
    series
        Name of the panel -> its lines, for `plots.lines`.
    properties
        Of the axes, such as ``xlabel``.
    named
        The property that is the name.
    shared
        Whether panels share their legend.
    """
    from gridsim import plots

    made, places = plots.figure(len(series))
    for axes, (name, lines) in zip(places, series.items(), strict=True):
        plots.lines(x, lines, axes=axes)
        axes.set(**{**properties, named: name})
    if shared:
        plots.shared_legend(made)
    return made
