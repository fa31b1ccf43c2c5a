"""Charts of runs on the same scenario: how values are distributed, and what there was over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.plots.scales import clock, log_scale, powers
from gridsim.plots.style import beside, check_count, legend, look, on, titled
from gridsim.results.metrics import series as data
from gridsim.results.schema import COLUMN_UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridsim.results.result import Result

#: A series is drawn with about so many points.
POINTS = 2000
#: What there is over time, in words.
_QUANTITIES = {"active": "released and not finished", "waiting": "waiting", "busy": "machines that are busy"}


def distribution(
    results: Result | Mapping[str, Result], metric: str = "stretch", *, axes: Axes | None = None
) -> Axes:
    """The share of applications that have at most a value: a step line a scheduler, with its maximum.

    results : a result, or name -> result.  metric : a column of ``applications``, or ``"response"``, finish -
        release.

    Values that differ by more than `series.WIDE` are on a logarithmic scale, around 0 on a linear one.  Jobs
    that were rejected have no value; shares are of all, so that a line then ends below 1.
    """
    runs = _named(results)
    values = {name: data.per_application(result, metric) for name, result in runs.items()}
    width, height = runs_size(list(runs))
    axes = on(axes, width=width, height=height)
    for number, (name, column) in enumerate(values.items()):
        x, share = data.distribution(column)
        gone = int(np.isnan(column).sum())
        said = [f"max {x[-1]:.3g}"] if len(x) else []
        said += [f"{gone} rejected"] if gone else []
        style = look(number)
        axes.step(
            np.concatenate((x[:1], x)),
            np.concatenate((np.zeros(min(1, len(x))), share)),
            where="post",
            label=f"{name} ({', '.join(said)})",
            linewidth=1.4,
            markersize=5,
            markevery=[len(x)] if len(x) else None,
            **style,
        )
    _scale(axes, np.concatenate(list(values.values())))
    axes.set_ylim(0.0, 1.03)
    axes.set_xlabel(
        titled(metric, "s" if metric == "response" else COLUMN_UNITS["applications"].get(metric, ""))
    )
    axes.set_ylabel(f"share of {_things(runs)}")
    legend(axes)
    return axes


def series(
    results: Result | Mapping[str, Result], quantity: data.Quantity = "active", *, axes: Axes | None = None
) -> Axes:
    """What there was over time: a step line a scheduler.

    results : a result, or name -> result.  quantity : see `gridsim.results.metrics.series.over_time`.

    Of more than `POINTS` steps the least and the largest value of each stretch of time are drawn.
    """
    runs = _named(results)
    steps = {name: data.over_time(result, quantity) for name, result in runs.items()}
    width, height = runs_size(list(runs))
    axes = on(axes, width=width, height=height)
    first = min((float(s.times[0]) for s in steps.values() if len(s.times)), default=0.0)
    last = max((float(s.times[-1]) for s in steps.values() if len(s.times)), default=0.0)
    factor, unit = clock(last - first)
    for number, (name, line) in enumerate(steps.items()):
        thin = line.thinned(POINTS)
        style = look(number)
        axes.step(
            thin.times / factor,
            thin.values,
            where="post",
            label=name,
            linewidth=1.2,
            color=style["color"],
            linestyle=style["linestyle"],
        )
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(f"time ({unit})")
    said = _QUANTITIES[quantity]
    axes.set_ylabel(said if quantity == "busy" else f"{_things(runs)} {said}")
    if len(runs) > 1:
        legend(axes)
    return axes


def runs_size(names: Sequence[str]) -> tuple[float, float]:
    """Width and height of a chart with a line per name, inches."""
    aside, least = beside(names, more=12)
    return 5.5 + aside, max(3.6, least)


def _named(results: Result | Mapping[str, Result]) -> Mapping[str, Result]:
    """Results by name; one alone has the name of its scheduler."""
    runs = results if isinstance(results, Mapping) else {str(results.scheduler["name"]): results}
    if not runs:
        raise ScenarioError("results must be at least one, got none")
    check_count(len(runs))
    return runs


def _things(runs: Mapping[str, Result]) -> str:
    rigid = all(result.rigid for result in runs.values())
    return "jobs" if rigid else "applications"


def _scale(axes: Axes, values: Any) -> None:
    """A logarithmic x axis where values differ widely, linear around 0 if some are 0 or below."""
    known = np.abs(values[np.isfinite(values) & (values != 0)])
    if not data.wide(known):
        axes.locator_params(axis="x", nbins=6)
        powers(axes, "x")
    elif np.nanmin(values) > 0:
        log_scale(axes, "x")
    else:
        least = max(float(known.min()), 1e-5 * float(known.max()))
        axes.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(least)), linscale=0.5)
        if np.nanmin(values) >= 0:
            axes.set_xlim(left=0.0)
