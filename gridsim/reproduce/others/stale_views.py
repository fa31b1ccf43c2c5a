"""Placing tasks by old views of the machines, as compared by M. Mitzenmacher, "How useful is old
information?" (IEEE Transactions on Parallel and Distributed Systems 11(1), 2000)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.framework import ABOVE, BELOW, Grid, Report, Row, Run, judge, panels
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.schedulers import JoinShortestQueue, LeastWork, Random
from gridsim.scheduling.contract import NodeForm, Scheduler
from gridsim.studies.replicate import Replicates
from gridsim.support.random_streams import Streams

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "stale-views"
TITLE = "placing tasks by views of different ages"
TWO = "the least loaded of two random machines is extremely effective over a large range of ages"
HERD = "going to the apparently least loaded machine can significantly hurt performance"
CLAIMS = (TWO, HERD)
SEEDS = (10, 5)

MACHINES, LOAD = 100, 0.9
#: The second half of the jobs is measured; the first half is 1111 mean service times long.
JOBS, FEW_JOBS = 200_000, 20_000
#: Ages in mean service times, each 1 s.
AGES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
FEW_AGES = (0.1, 1.0, 10.0)
#: Ages over which two choices are wanted to be better than random, and from which on all are worse than that.
LARGE_RANGE, OLD = 10.0, 10.0

#: The form that is fast, if there is what compiles it; both have the same results.
_FORMS: tuple[NodeForm, ...] = ("interpreted", "compiled")
_FORMS = _FORMS[::-1] if find_spec("numba") else _FORMS


class _Random(Random, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


class _Queue(JoinShortestQueue, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


class _Work(LeastWork, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


RANDOM = "random"
SHORTEST, OF_TWO, LEAST = "shortest queue of all", "shorter queue of two", "least work of all"
METHODS: dict[str, tuple[type[Scheduler], dict[str, Any]]] = {
    OF_TWO: (_Queue, {"choices": 2}),
    SHORTEST: (_Queue, {}),
    LEAST: (_Work, {}),
}
#: How views are refreshed -> the methods that are compared.
REFRESHES = {
    "continuous": (OF_TWO, SHORTEST, LEAST),
    "periodic": (OF_TWO, SHORTEST),
    "individual": (OF_TWO, SHORTEST),
}
#: What is drawn and judged.
RESPONSE = "response"


@dataclass(frozen=True)
class Jobs:
    """Makes a scenario of Poisson arrivals and exponential sizes; it can be sent to another process."""

    jobs: int
    load: float = LOAD
    machines: int = MACHINES

    @property
    def name(self) -> str:
        """Name of the scenario's file."""
        return f"poisson-{self.machines}-{self.load:g}"

    def __call__(self, seed: int) -> Scenario:
        streams = Streams(seed)
        gaps = streams("stale views arrivals").exponential(1 / (self.load * self.machines), self.jobs)
        sizes = streams("stale views sizes").exponential(1.0, self.jobs).clip(1e-9)
        submitter = streams("stale views submitters").integers(self.machines, size=self.jobs)
        workload = Workload.of(
            np.cumsum(gaps), np.ones(self.jobs, int), sizes, submitter=submitter, origin=0.0
        )
        return Scenario(Platform.of([1.0] * self.machines), workload, seed=seed)


def mean_response(result: Result) -> float:
    """Mean time from release to completion of the second half of the jobs, s."""
    took = result.applications["finish"] - result.applications["release"]
    return float(took[len(took) // 2 :].mean())


METRICS: dict[str, MetricFunction] = {RESPONSE: mean_response}


def _label(method: str, refresh: str, age: float) -> str:
    return f"{method}, {refresh}, {age:g} s"


def run(how: Run) -> Report:
    """Run all methods with views of all ages."""
    jobs, ages = (FEW_JOBS, FEW_AGES) if how.quick else (JOBS, AGES)
    schedulers: dict[str, Scheduler] = {RANDOM: _Random(instant=True)}
    for refresh, methods in REFRESHES.items():
        for method in methods:
            kind, more = METHODS[method]
            for age in ages:
                label = _label(method, refresh, age)
                schedulers[label] = kind(instant=True, age=age, refresh=refresh, **more)
    made = how.replicate(Jobs(jobs), schedulers, METRICS)
    rows = [row for refresh in REFRESHES for row in _claims(made, refresh, ages)]
    rows += [row for refresh in REFRESHES for row in _crossings(made, refresh, ages)]
    series = {
        refresh: {
            RANDOM: [made.mean(RANDOM, RESPONSE)] * len(ages),
            **{
                method: [made.mean(_label(method, refresh, age), RESPONSE) for age in ages]
                for method in methods
            },
        }
        for refresh, methods in REFRESHES.items()
    }
    grids = [_table(f"mean response time, s; {refresh} refresh", series[refresh], ages) for refresh in series]
    return Report(tuple(how.seeds), how.quick, rows, grids, _REMARKS, {"ages": ages, "series": series})


def _claims(made: Replicates, refresh: str, ages: tuple[float, ...]) -> list[Row]:
    """Return the ratios to random of one way of refreshing, judged where the paper says what it should be."""
    rows = []
    for method in REFRESHES[refresh]:
        for age in ages:
            claim, said, low, high = "", "", -math.inf, math.inf
            if method == OF_TWO and age <= LARGE_RANGE:
                claim, said, high = TWO, "< 1", BELOW
            elif method != OF_TWO and age >= OLD:
                claim, said, low = HERD, "> 1", ABOVE
            ratio = made.ratio_of_means(_label(method, refresh, age), RANDOM, RESPONSE)
            quantity = f"{refresh}, {age:g} s: mean response, {method} / random"
            rows.append(
                judge(claim, quantity, said, ratio, low, high) if claim else Row("", quantity, "", ratio)
            )
    return rows


def _crossings(made: Replicates, refresh: str, ages: tuple[float, ...]) -> list[Row]:
    """Return the ages at which curves cross."""
    found = []
    pairs = [*((method, RANDOM) for method in REFRESHES[refresh]), (SHORTEST, OF_TWO)]
    for one, other in pairs:
        quantity = f"{refresh}: age from which {one} is worse than {other}"
        found.append(Row("", quantity, "", _crossing(made, refresh, ages, one, other), "s"))
    return found


def _crossing(
    made: Replicates, refresh: str, ages: tuple[float, ...], one: str, other: str
) -> Estimate | None:
    """Return the age from which `one` is worse than `other`; None unless the means of both cross once.

    Each seed has its own crossing, found between two ages by the logarithms of ages and of ratios.
    """

    def logs(method: str) -> Any:
        columns = [
            made[RESPONSE][method if method == RANDOM else _label(method, refresh, age)] for age in ages
        ]
        return np.log(np.array(columns))

    ratio = logs(one) - logs(other)
    each = [crossing(ages, column) for column in ratio.T]
    return None if any(math.isnan(age) for age in each) else estimate(each)


def crossing(ages: tuple[float, ...], logs: Any) -> float:
    """Return where `logs`, a value for each age, rises through 0, linear in log(age).

    It is NaN unless they change their sign exactly once, upwards.
    """
    signs = [(a, b, x, y) for (a, x), (b, y) in pairwise(zip(ages, logs, strict=True)) if (x < 0) != (y < 0)]
    if len(signs) != 1 or signs[0][2] >= 0:
        return math.nan
    [(a, b, x, y)] = signs
    return float(a * (b / a) ** (x / (x - y)))


def _table(title: str, series: Mapping[str, list[Estimate]], ages: tuple[float, ...]) -> Grid:
    return Grid(title, ["method", *(f"{age:g} s old" for age in ages)], series)


_REMARKS = (
    f"{MACHINES} machines, Poisson arrivals at load {LOAD:g}, exponential sizes with a mean service time of "
    "1 s, first come, first served; messages take no time.",
    "Random needs no view: 1 / (1 - load) = 10 s in the limit.",
    "The paper does not say what a large range of ages is; two choices are judged up to "
    f"{LARGE_RANGE:g} mean service times, and all machines from {OLD:g} on.",
    "The second half of the jobs is measured.  Where the herd is worst this is too short for a steady state: "
    "the means of several times random's are those of this span.",
    "Ties are broken at random.  A job's placement is seen by others only when the view is refreshed.",
    "Continuous: a job knows the machines as they were `age` s ago.  Periodic: all are seen anew at each "
    "multiple of `age`.  Individual: each machine at instants of its own, `age` apart.",
    "Crossings are interpolated between ages for each seed, linear in the logarithms; - where the curves do "
    "not cross exactly once in each seed.",
)


def figure(report: Report) -> Figure:
    """Draw a panel per way of refreshing, over the age."""
    scales = {"xscale": "log", "yscale": "log"}
    labels = {"xlabel": "age, s", "ylabel": "mean response time, s"}
    return panels(report.data["series"], report.data["ages"], {**scales, **labels})
