"""Task placement by outdated views of the machines, as studied by M. Mitzenmacher, "How useful is old
information?" (IEEE Transactions on Parallel and Distributed Systems 11(1), 2000)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import Case, Measurements, Reproduction, ResultGrid, Run, panels
from gridsim.reproduce.verdicts import LARGER, SMALLER, Row, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.scheduling.contract import NodeForm
from gridsim.studies.replicate_result import Replicates
from gridsim.support.random_streams import Streams

TWO_CHOICES = "the least loaded of two random machines is extremely effective over a large range of ages"
HERD_BEHAVIOUR = "going to the apparently least loaded machine can significantly hurt performance"

MACHINES, LOAD = 100, 0.9
#: The second half of the jobs is measured; the first half is 1111 mean service times long.
JOBS = 200_000, 20_000
#: Ages of views, in mean service times of 1 s.
AGES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0), (0.1, 1.0, 10.0)
#: Range of ages in which two choices should beat random placement, and age from which every method should be
#: worse than random placement.
LARGE_RANGE, OLD = 10.0, 10.0

#: Forms of nodes, preferably compiled if Numba is installed; both have the same results.
_FORMS: tuple[NodeForm, ...] = ("interpreted", "compiled")
_FORMS = _FORMS[::-1] if find_spec("numba") else _FORMS


class _Random(gs.Random, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


class _Queue(gs.JoinShortestQueue, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


class _Work(gs.LeastWork, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


RANDOM = "random"
SHORTEST, SHORTER_OF_TWO, LEAST = "shortest queue of all", "shorter queue of two", "least work of all"
METHODS: dict[str, tuple[type[gs.Scheduler], dict[str, Any]]] = {
    SHORTER_OF_TWO: (_Queue, {"choices": 2}),
    SHORTEST: (_Queue, {}),
    LEAST: (_Work, {}),
}
#: Way of refreshing views -> the compared methods.
REFRESHES = {
    "continuous": (SHORTER_OF_TWO, SHORTEST, LEAST),
    "periodic": (SHORTER_OF_TWO, SHORTEST),
    "individual": (SHORTER_OF_TWO, SHORTEST),
}
#: Metric that is drawn and judged.
RESPONSE = "response"


@dataclass(frozen=True)
class PoissonJobs:
    """Factory of scenarios with Poisson arrivals and exponential sizes."""

    jobs: int
    load: float = LOAD
    machines: int = MACHINES

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return f"poisson-{self.machines}-{self.load:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        streams = Streams(seed)
        gaps = streams("stale views arrivals").exponential(1 / (self.load * self.machines), self.jobs)
        sizes = streams("stale views sizes").exponential(1.0, self.jobs).clip(1e-9)
        submitter = streams("stale views submitters").integers(self.machines, size=self.jobs)
        workload = gs.Workload.of(
            np.cumsum(gaps), np.ones(self.jobs, int), sizes, submitter=submitter, origin=0.0
        )
        return gs.Scenario(gs.Platform.of([1.0] * self.machines), workload, seed=seed)


def mean_response(result: gs.Result) -> float:
    """Return the mean response time of the second half of the jobs, s."""
    times = result.applications["finish"] - result.applications["release"]
    return float(times[len(times) // 2 :].mean())


def _label(method: str, refresh: str, age: float) -> str:
    return method if method == RANDOM else f"{method}, {refresh}, {age:g} s"


def _cases(run: Run) -> dict[str, Case]:
    schedulers: dict[str, gs.Scheduler] = {RANDOM: _Random(instant=True)}
    for refresh, methods in REFRESHES.items():
        for method in methods:
            kind, options = METHODS[method]
            for age in run.choose(*AGES):
                label = _label(method, refresh, age)
                schedulers[label] = kind(instant=True, age=age, refresh=refresh, **options)
    return {"": Case(PoissonJobs(run.choose(*JOBS)), schedulers)}


def _rows(data: Measurements) -> Iterator[Row]:
    values, ages = data.first, data.run.choose(*AGES)
    for refresh, methods in REFRESHES.items():
        for method in methods:
            for age in ages:
                claim, test = "", None
                if method == SHORTER_OF_TWO and age <= LARGE_RANGE:
                    claim, test = TWO_CHOICES, SMALLER
                elif method != SHORTER_OF_TWO and age >= OLD:
                    claim, test = HERD_BEHAVIOUR, LARGER
                ratio = values.ratio_of_means(_label(method, refresh, age), RANDOM, RESPONSE)
                yield judge(claim, f"{refresh}, {age:g} s: mean response, {method} / random", ratio, test)
    for refresh, methods in REFRESHES.items():
        for a, b in (*((method, RANDOM) for method in methods), (SHORTEST, SHORTER_OF_TWO)):
            quantity = f"{refresh}: age from which {a} is worse than {b}"
            yield judge("", quantity, _crossing(values, refresh, ages, a, b), unit="s")


def _crossing(values: Replicates, refresh: str, ages: Iterable[float], a: str, b: str) -> Estimate | None:
    """Return the age from which `a` is worse than `b`; None unless their means cross exactly once.

    The crossing of each seed is interpolated between two ages, in the logarithms of ages and ratios.
    """

    def logs(method: str) -> Any:
        columns = [values[RESPONSE][_label(method, refresh, age)] for age in ages]
        return np.log(np.array(columns))

    crossings = [crossing(tuple(ages), column) for column in (logs(a) - logs(b)).T]
    return None if any(map(math.isnan, crossings)) else estimate(crossings)


def crossing(ages: tuple[float, ...], logs: Any) -> float:
    """Return the age at which `logs` (a value for each age) crosses 0 upwards, interpolated in log(age).

    The result is NaN unless the sign changes exactly once, upwards.
    """
    signs = [(a, b, x, y) for (a, x), (b, y) in pairwise(zip(ages, logs, strict=True)) if (x < 0) != (y < 0)]
    if len(signs) != 1 or signs[0][2] >= 0:
        return math.nan
    [(a, b, x, y)] = signs
    return float(a * (b / a) ** (x / (x - y)))


def _series(data: Measurements) -> dict[str, dict[str, list[Estimate]]]:
    """Return way of refreshing -> method -> mean response time at each age."""
    return {
        refresh: {
            method: [
                data.first.mean(_label(method, refresh, age), RESPONSE) for age in data.run.choose(*AGES)
            ]
            for method in (RANDOM, *methods)
        }
        for refresh, methods in REFRESHES.items()
    }


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    columns = ["method", *(f"{age:g} s old" for age in data.run.choose(*AGES))]
    for refresh, rows in _series(data).items():
        yield ResultGrid(f"mean response time, s; {refresh} refresh", columns, rows)


STALE_VIEWS = Reproduction(
    name="stale-views",
    title="placing tasks by views of different ages",
    paper="Mitzenmacher 2000",
    claims=(TWO_CHOICES, HERD_BEHAVIOUR),
    cases=_cases,
    metrics={RESPONSE: mean_response},
    rows=_rows,
    grids=_grids,
    remarks=(
        f"{MACHINES} machines, Poisson arrivals at load {LOAD:g}, exponential sizes with a mean service "
        "time of 1 s, first come, first served; messages take no time.",
        "Random needs no view: 1 / (1 - load) = 10 s in the limit.",
        "The paper does not say what a large range of ages is; two choices are judged up to "
        f"{LARGE_RANGE:g} mean service times, and all machines from {OLD:g} on.",
        "The second half of the jobs is measured.  Where the herd is worst this is too short for a steady "
        "state: the means of several times random's are those of this span.",
        "Ties are broken at random.  A job's placement is seen by others only when the view is refreshed.",
        "Continuous: a job knows the machines as they were `age` s ago.  Periodic: all are seen anew at each "
        "multiple of `age`.  Individual: each machine at instants of its own, `age` apart.",
        "Crossings are interpolated between ages for each seed, linear in the logarithms; - where the "
        "curves do not cross exactly once in each seed.",
    ),
    figure=lambda data: panels(
        _series(data),
        data.run.choose(*AGES),
        {"xscale": "log", "yscale": "log", "xlabel": "age, s", "ylabel": "mean response time, s"},
    ),
)
