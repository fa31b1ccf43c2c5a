"""Charts of runs on the same scenario: distributions of values, and counts over time."""

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

#: A series is drawn with at most this many points.
POINTS = 2000
#: The quantities of `series` in words.
_QUANTITIES = {"active": "released and not finished", "waiting": "waiting", "busy": "machines that are busy"}


def distribution(
    results: Result | Mapping[str, Result], metric: str | None = None, *, axes: Axes | None = None
) -> Axes:
    """Draw the cumulative distribution of a metric over applications: a step line per scheduler.

    The legend has the maximum of each line.  Values that differ by more than a factor of `series.WIDE` are on
    a logarithmic scale, which is linear around 0 if some are 0 or below.  Rejected jobs have no value, but
    shares are of all jobs, so that the line ends below 1.

    Parameters
    ----------
    results
        A result, or name -> result.
    metric
        A column of ``applications``, or ``"response"``, which is finish - release.  By default the stretch
        without a unit, or the waiting time of rigid jobs.
    """
    runs = _named(results)
    if metric is None:
        rigid = all(result.rigid for result in runs.values())
        metric = "waiting" if rigid else "stretch_agg"
        if not all(metric in result.applications for result in runs.values()):
            metric = "stretch"
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
    """Draw a count over time, such as active applications: a step line per scheduler.

    If there are more than `POINTS` steps, only the smallest and largest value of each interval are drawn.

    Parameters
    ----------
    results
        A result, or name -> result.
    quantity
        See `gridsim.results.metrics.series.over_time`.
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
    """Return width and height of a chart with a line per name, inches."""
    aside, least = beside(names, more=12)
    return 5.5 + aside, max(3.6, least)


def _named(results: Result | Mapping[str, Result]) -> Mapping[str, Result]:
    """Return results by name; a single result has the name of its scheduler."""
    runs = results if isinstance(results, Mapping) else {str(results.scheduler["name"]): results}
    if not runs:
        raise ScenarioError("results must be at least one, got none")
    check_count(len(runs))
    return runs


def _things(runs: Mapping[str, Result]) -> str:
    rigid = all(result.rigid for result in runs.values())
    return "jobs" if rigid else "applications"


def _scale(axes: Axes, values: Any) -> None:
    """Make the x axis logarithmic if values differ widely; it is linear around 0 if some are 0 or below."""
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
