"""The metrics that a study measures: those of gridsim by name, those of installed packages, and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.results.metrics.registry import ALIASES, METRICS, SUMMARY, UNITS, MetricFunction
from gridsim.support.arguments import entries_of, listed, short_repr
from gridsim.support.imports import plugins
from gridsim.support.text import check_name


@dataclass(frozen=True)
class CustomMetric:
    """A metric of a plugin, a package with an entry point in the group ``gridsim.metrics``.

    The name of the entry point is the name of the metric, which studies can select like those of gridsim.

    Parameters
    ----------
    value
        Function of a `Result` that returns a number; it must be a function of a module.
    unit
        Its unit, such as "s"; "1" if it has none.
    text
        Its description, in one line.
    """

    value: MetricFunction
    unit: str = "1"
    text: str = ""


def plugin_metrics() -> dict[str, CustomMetric]:
    """Return name -> metric, for the metrics of installed plugins."""
    return plugins("gridsim.metrics", _fault, (*SUMMARY, *ALIASES, *UNITS))


def _fault(name: str, metric: Any) -> str:
    """Return why the object of an entry point is not a valid metric; "" if it is one."""
    if not isinstance(metric, CustomMetric):
        return f"it must be a {__name__}.CustomMetric, got {short_repr(metric)}"
    if not callable(metric.value):
        return f"its value must be a function of a result, got {short_repr(metric.value)}"
    if not (isinstance(metric.unit, str) and isinstance(metric.text, str)):
        return f"its unit and text must be strings, got {metric.unit!r} and {short_repr(metric.text)}"
    try:
        check_name(name)
    except ValueError as error:
        return str(error)
    return ""


def requested_metrics(
    metrics: Sequence[str] | Mapping[str, MetricFunction],
) -> dict[str, MetricFunction | None]:
    """Return the requested metrics: name -> function, or None for a metric of `METRICS`.

    Raises
    ------
    ScenarioError
        If a name is unknown, or `metrics` is neither a list of names nor a mapping of names to functions.
    """
    functions: dict[str, MetricFunction | None] = {}
    if isinstance(metrics, str):
        raise ScenarioError(f"metrics must be a list of names, or map names to functions, got {metrics!r}")
    for name in entries_of(metrics):
        if not isinstance(name, str):
            raise ScenarioError(f"metrics must be a list of names, got the entry {short_repr(name)}")
        if name in ALIASES and not isinstance(metrics, Mapping):
            name = ALIASES[name]
        functions[name] = metrics[name] if isinstance(metrics, Mapping) else None
        if not (functions[name] is None or callable(functions[name])):
            raise ScenarioError(f"metrics[{name!r}] must be a function of a result, got {functions[name]!r}")
        if functions[name] is None and name not in METRICS:
            if name not in (others := plugin_metrics()):
                known = listed((*METRICS, *ALIASES, *others), name)
                raise ScenarioError(f"metrics must be names of metrics, got {name!r}; {known}")
            functions[name] = others[name].value
    if not functions:
        raise ScenarioError("metrics must contain at least one name, got none")
    return functions


def units_of(
    metrics: Iterable[str], functions: Mapping[str, MetricFunction | None] | None = None
) -> dict[str, str]:
    """Return metric -> unit, for those of `metrics` whose unit is known.

    Parameters
    ----------
    functions
        The functions of metrics, as `requested_metrics` returned them; a function of the user has no unit.
    """
    units = {}
    for name in metrics:
        function = None if functions is None else functions.get(name)
        if name in UNITS:
            if function is None:
                units[name] = UNITS[name]
        elif name not in SUMMARY:
            metric = plugin_metrics().get(name)
            if metric is not None and function in (None, metric.value):
                units[name] = metric.unit
    return units
