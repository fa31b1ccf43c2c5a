"""What other numbers of machines change: a sentence on the best scheduler, and numbers by group of jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gridsim.results.comparability import has_equal_jobs, rejects_others
from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate, estimate, ratio_of_means
from gridsim.results.result import Result
from gridsim.studies.overview import value_text
from gridsim.studies.verdicts import excess_text, interval_text

#: Length of the parts of a log whose jobs are paired for an interval, s.
_WEEK = 7 * 86_400.0


def size_effect(
    results: Mapping[str, Result],
    values: Sequence[Mapping[str, float]],
    metric: str,
    unit: tuple[float, str],
) -> str:
    """Return a sentence that compares the best scheduler with itself on other numbers of machines.

    The best one is that with the least value on the first number.  The sentence is empty if it has no value,
    or ran other jobs, on all other numbers.

    Parameters
    ----------
    results
        Name -> result.
    values
        For each number of machines, name of the result -> value of the metric; less is better.
    metric
        Name of the metric, in words.
    unit
        Length (s) and name of the unit of the values.
    """
    first, *others = ({name: value for name, value in row.items() if not math.isnan(value)} for row in values)
    if not first:
        return ""
    best = min(first, key=lambda name: first[name])
    parts = []
    for row in others:
        name = next((name for name in row if results[name].scheduler == results[best].scheduler), None)
        if name is None or not has_equal_jobs(results[name], results[best]):
            continue
        if rejects_others(results[name], results[best]):
            continue
        change = _change_text(results[name], results[best], row[name], first[best])
        size = len(results[name].machines)
        parts.append(f"{value_text(row[name], unit)} with {size:,} machines{change}")
    if not parts:
        return ""
    label = best.removesuffix(f" {len(results[best].machines)}")
    start = f"{value_text(first[best], unit)} with {len(results[best].machines):,}"
    return f"The {metric} of {label} is {start}, and {', '.join(parts)}."


def size_change(result: Result, reference: Result, is_member: NDArray[np.bool_]) -> str:
    """Return the relative change of the mean waiting time of some jobs, bool[jobs]; "-" if there is none.

    It is of the jobs that ran in both results.  If these span enough weeks, it has an interval over them.
    """
    waits = [run.applications["waiting"][is_member & run.is_counted] for run in (result, reference)]
    has_run = np.isfinite(waits[0]) & np.isfinite(waits[1])
    value, least = (float(wait[has_run].mean()) if has_run.any() else 0.0 for wait in waits)
    if least <= 0.0:
        return "-"
    ratio = _ratio_over_weeks(result, reference, is_member)
    return excess_text(value, least) if ratio is None else interval_text(ratio)


def _change_text(result: Result, reference: Result, value: float, least: float) -> str:
    """Return the relative change of a value in brackets; with an interval if it is a mean over weeks."""
    if least <= 0.0 or value == least:
        return ""
    ratio = _ratio_over_weeks(result, reference) if result.rigid else None
    if ratio is None or not math.isclose(ratio.mean, value / least, rel_tol=1e-6):
        return f" ({excess_text(value, least)})"
    return f" ({interval_text(ratio)} over {ratio.seeds} weeks)"


def _ratio_over_weeks(
    result: Result, reference: Result, is_member: NDArray[np.bool_] | Literal[True] = True
) -> Estimate | None:
    """Return the ratio of the mean waiting times of equal jobs; None if they span too few weeks."""
    release = reference.applications["release"]
    waits = [run.applications["waiting"] for run in (result, reference)]
    counted = is_member & reference.is_counted & np.isfinite(waits[0]) & np.isfinite(waits[1])
    _, week = np.unique(release[counted] // _WEEK, return_inverse=True)
    if not len(week) or week.max() + 1 < MIN_SEEDS:
        return None
    try:
        ratio = estimate(*(np.bincount(week, wait[counted]) for wait in waits), statistic=ratio_of_means)
    except ImportError:  # an interval requires scipy
        return None
    return None if math.isnan(ratio.low) else ratio
