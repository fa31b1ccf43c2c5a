"""Measures: what results can be asked for by name, and the user's own functions of a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gridsim.errors import ScenarioError
from gridsim.results.metrics.bounds import BOUND_LIMIT
from gridsim.results.result import Result
from gridsim.support.arguments import shown

Metric = Callable[[Result], float]

#: What can be asked for by name; units as in `gridsim.results.schema.UNITS`.
METRICS: dict[str, Metric] = {
    "max_stretch": lambda result: result.max_stretch,
    "mean_stretch": lambda result: result.mean_stretch,
    "min_stretch": lambda result: result.min_stretch,
    "gap": lambda result: result.gap(),
    "lower_bound": lambda result: result.bound().stretch,
    "makespan": lambda result: result.makespan,
    "utilization": lambda result: result.utilization,
    "failed": lambda result: result.failed,
    "resubmitted": lambda result: int(result.applications["resubmitted"].sum()),
    "mean_waiting": lambda result: result.mean_waiting,
    "median_waiting": lambda result: result.median_waiting,
    "mean_slowdown": lambda result: result.mean_slowdown,
    "mean_completion": lambda result: result.mean_completion,
    "mean_turnaround": lambda result: result.mean_turnaround,
    "migrated": lambda result: result.migrated,
    "prediction_error": lambda result: result.prediction_error,
    "prediction_undefined": lambda result: result.prediction_undefined,
    "messages_per_job": lambda result: result.messages_per_job,
    "wasted": lambda result: result.wasted,
    "undisturbed": lambda result: result.undisturbed,
    "messages": lambda result: int(result.messages["sent"].sum()),
    "bytes": lambda result: int(result.messages["bytes"].sum()),
}
#: What schedulers are compared by -> what is shown of them then; a metric that a run does not have is left
#: out.  See `gridsim.studies.compare.Comparison.measure`.
USUAL = {
    "mean_waiting": ("mean_waiting", "median_waiting", "mean_slowdown", "failed"),
    "mean_turnaround": ("mean_turnaround", "migrated", "messages_per_job"),
    "mean_completion": ("mean_completion", "wasted", "max_stretch"),
    "max_stretch": ("max_stretch", "mean_stretch", "gap"),
}
_ALWAYS = ("makespan", "utilization", "messages", "bytes")
#: Those that take time which grows with the square of the applications.
_COSTLY = ("gap", "lower_bound")


def wanted_metrics(metrics: Sequence[str] | Mapping[str, Metric]) -> dict[str, Metric | None]:
    """Name -> function, or None for a name in `METRICS`.  ScenarioError for a name that is not known."""
    wanted: dict[str, Metric | None] = {}
    if isinstance(metrics, str):
        raise ScenarioError(f"metrics must be a list of names, or map names to functions, got {metrics!r}")
    for name in metrics:
        if not isinstance(name, str):
            raise ScenarioError(f"metrics must be names, got {shown(name)}")
        wanted[name] = metrics[name] if isinstance(metrics, Mapping) else None
        if not (wanted[name] is None or callable(wanted[name])):
            raise ScenarioError(f"metrics[{name!r}] must be a function of a result, got {wanted[name]!r}")
        if wanted[name] is None and name not in METRICS:
            raise ScenarioError(f"metrics: unknown {name!r}; known: {', '.join(METRICS)}")
    if not wanted:
        raise ScenarioError("metrics must name at least one, got none")
    return wanted


def measured(result: Result, wanted: Mapping[str, Metric | None]) -> dict[str, float]:
    """All of `METRICS`, and those of `wanted` that are functions.

    What takes long, the bounds of more than `BOUND_LIMIT` applications, only if it is wanted.
    """
    costly = len(result.applications) > BOUND_LIMIT
    values = {
        name: float(metric(result))
        for name, metric in METRICS.items()
        if not (costly and name in _COSTLY and name not in wanted)
    }
    return values | {name: float(metric(result)) for name, metric in wanted.items() if metric is not None}


def usual_metrics(values: Sequence[Mapping[str, float]], rigid: bool) -> list[str]:
    """What is shown of runs that have these `values` of `METRICS`, first what they are compared by."""
    measure = "mean_waiting" if rigid else "max_stretch"
    for sign, said in (("migrated", "mean_turnaround"), ("wasted", "mean_completion")):
        if not rigid and values and all(math.isfinite(each.get(sign, math.nan)) for each in values):
            measure = said
            break
    shown = [*USUAL[measure], *_ALWAYS]
    return [name for name in shown if name == measure or all(name in each for each in values)]
