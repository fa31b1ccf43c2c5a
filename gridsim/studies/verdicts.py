"""Sentences on the best schedulers, and on the size and significance of the differences to the others."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gridsim.results.metrics.estimates import Estimate

#: The most schedulers that a sentence names after the best one, for one run and for replications.
_NAMED, _MANY = 3, 6
#: Relative difference of two values that are called equal: it is below what tables can show.
_TOLERANCE = 1e-6


def more(value: float, least: float) -> str:
    """Return how much larger a value is than the least one, such as "+12 %" or "3.4 times that"."""
    if least <= 0.0:
        return f"{value:.4g}"
    ratio = value / least
    if ratio >= 2.0:
        return f"{ratio:.3g} times that"
    share = 100.0 * (ratio - 1.0)
    return f"+{share:.2g} %" if share < 100.0 else "+100 %"


def of_one_run(values: Mapping[str, Mapping[str, float]], excluded: Mapping[str, str]) -> str:
    """Return a sentence on the best of several schedulers in one run each; empty for fewer than two.

    Parameters
    ----------
    values
        What is measured, in words -> scheduler -> value; less is better.
    excluded
        Scheduler that takes no part, because it left something undone -> what.
    """
    parts, before = [], ""
    for what, every in values.items():
        known = {name: value for name, value in every.items() if name not in excluded}
        known = {name: value for name, value in known.items() if not math.isnan(value)}
        if len(known) < 2:
            continue
        best, others = _ranked(known)
        if not others:
            parts.append(f"all have the same {what}")
            continue
        whose = "" if best == before else f"{best} {'have' if ' and ' in best else 'has'} "
        parts.append(f"{whose}the lowest {what} ({others})")
        before = best
    left = "".join(f"  {name} is not ranked: {why}." for name, why in excluded.items())
    return f"In this run, {' and '.join(parts)}.{left}" if parts else left.strip()


def by_cores(jobs: Mapping[str, float], cores: Mapping[str, float]) -> str:
    """Return a sentence, after two spaces, if the mean waiting by cores ranks schedulers in another order.

    Parameters
    ----------
    jobs, cores
        Scheduler -> mean waiting time over jobs, and over their machines.  Empty if it does not.
    """
    known = [name for name in jobs if math.isfinite(jobs[name]) and math.isfinite(cores[name])]
    if not any(jobs[a] < jobs[b] and cores[a] > cores[b] for a in known for b in known):
        return ""
    best, others = _ranked({name: cores[name] for name in known})
    has = "have" if " and " in best else "has"
    return f"  Weighted by cores the order differs: {best} {has} the lowest mean waiting time ({others})."


def _ranked(known: Mapping[str, float]) -> tuple[str, str]:
    """Return the names with the least value, and how much more the others have, the best of them first."""
    names = sorted(known, key=known.__getitem__)
    least = known[names[0]]
    best = [name for name in names if known[name] <= least + _TOLERANCE * abs(least)]
    others = [f"{name} {more(known[name], least)}" for name in names[len(best) :]]
    if len(others) > _NAMED:
        others[_NAMED - 1 :] = [f"... {others[-1]}"]
    return " and ".join(best), ", ".join(others)


def points_text(labels: list[str], points: int) -> str:
    """Return the points with these labels as the end of a sentence; `points` is the number of all points."""
    if len(labels) == 1:
        return f" ({labels[0]})" if labels[0] else ""
    return f" at all {points} points" if len(labels) == points else f" at {len(labels)} points"


def short_list(texts: list[str], separator: str = ", ") -> str:
    """Return a list as text; of a long one, what comes first, and the last, which is the worst."""
    shown = texts if len(texts) <= _MANY else [*texts[: _MANY - 2], "...", texts[-1]]
    return separator.join(shown)


def interval_text(ratio: Estimate) -> str:
    """Return the interval of a ratio as percentages or factors; empty if there is none."""
    if math.isnan(ratio.low):
        return ""
    if ratio.high >= 2.0:
        return f"{ratio.mean:.3g} [{ratio.low:.3g}, {ratio.high:.3g}] times that"
    middle, low, high = (100.0 * (each - 1.0) for each in (ratio.mean, ratio.low, ratio.high))
    return f"{middle:+.2g} % [{low:+.2g}, {high:+.2g}]"
