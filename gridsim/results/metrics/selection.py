"""The metrics that a study measures: those of gridsim by name, those of installed packages, and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridsim.errors import ScenarioError, text_of
from gridsim.results.metrics.registry import ALIASES, METRICS, SUMMARY, UNITS, MetricFunction
from gridsim.support.arguments import entries_of, listed, short_repr
from gridsim.support.imports import import_object, plugins
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


#: What a study is asked to measure: names and functions, name -> function or the same name, or one function.
#: A name may be ``module:function`` or ``LABEL=module:function``.
RequestedMetrics = Sequence[str | MetricFunction] | Mapping[str, str | MetricFunction] | MetricFunction


def requested_metrics(metrics: RequestedMetrics) -> dict[str, MetricFunction | None]:
    """Return the requested metrics: name -> function, or None for a metric of `METRICS`.

    A function in a list is named by its ``__name__``, unless it is requested as ``LABEL=module:function``.

    Raises
    ------
    ScenarioError
        If a name is unknown or stands for several metrics, a function cannot be imported, or `metrics` has
        other entries than names and functions.
    """
    functions: dict[str, MetricFunction | None] = {}
    for name, entry in _entries(metrics):
        if isinstance(entry, str) or entry is None:
            name, function = _by_name(name, name if entry is None else entry)
        elif callable(entry):
            function = entry
        else:
            raise ScenarioError(f"metrics[{name!r}] must be a function of a result, got {short_repr(entry)}")
        if functions.setdefault(name, function) is not function:
            raise ScenarioError(f"metrics must have different names, got {name!r} for several")
    if not functions:
        raise ScenarioError("metrics must contain at least one name, got none")
    return functions


def _entries(metrics: RequestedMetrics) -> Iterator[tuple[str, Any]]:
    """Iterate over the requested metrics: their names, and a name, a function, or None for the same name."""
    if isinstance(metrics, Mapping):
        entries: list[tuple[Any, Any]] = [*metrics.items()]
    elif callable(metrics):
        entries = [(_name_of("metrics", metrics), metrics)]
    elif isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise ScenarioError(
            "metrics must be a list of names and functions, or map names to functions, got "
            f"{short_repr(metrics)}"
        )
    else:
        entries = [
            (_name_of(f"metrics[{k}]", entry) if callable(entry) else entry, entry)
            for k, entry in enumerate(entries_of(metrics))
        ]
    for name, entry in entries:
        if not isinstance(name, str):
            raise ScenarioError(f"metrics must be names and functions, got the entry {short_repr(name)}")
        yield name, entry


def _name_of(path: str, function: Any) -> str:
    name = getattr(function, "__name__", "")
    if not (isinstance(name, str) and name.isidentifier()):  # a lambda, for example
        raise ScenarioError(
            f"{path} must be a function with a name, got {short_repr(function)}; "
            'or map a name to it, as in {"mine": function}'
        )
    return name


def _by_name(name: str, metric: str) -> tuple[str, MetricFunction | None]:
    """Return the name and the function of a metric, requested as `name`: of gridsim, a plugin or a module."""
    if ":" in metric:
        label, code = split_code(metric)
        function = _import_function(code)
        return name if name != metric else label or _name_of(code, function), function
    metric = ALIASES.get(metric, metric)
    if metric in METRICS:
        if name != metric and ALIASES.get(name) != metric:
            raise ScenarioError(
                f"metrics[{name!r}] must be a function of a result, got {metric!r}, a metric of gridsim that "
                "keeps its name"
            )
        return metric, None
    others = plugin_metrics()
    if metric not in others:
        known = listed((*METRICS, *ALIASES, *others), metric)
        raise ScenarioError(f"metrics must be names of metrics, got {metric!r}; {known}")
    return name, others[metric].value


def split_code(metric: str) -> tuple[str, str]:
    """Return the label, which may be empty, and the code of ``LABEL=module:function``."""
    label, equals, code = (part.strip() for part in metric.partition("="))
    return (label, code) if equals else ("", label)


def _import_function(code: str) -> MetricFunction:
    """Return the function that ``module:function`` names."""
    try:
        function: MetricFunction = import_object(code)
    except (Exception, SystemExit) as error:  # the module may raise anything
        raise ScenarioError(
            f"metrics must name functions that can be imported, got {code!r}: {type(error).__name__}: "
            f"{text_of(error)}"
        ) from error
    if not callable(function):
        raise ScenarioError(f"metrics: {code} must be a function of a result, got {short_repr(function)}")
    return function


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
