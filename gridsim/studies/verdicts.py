"""Sentences on the best schedulers, and on the size and significance of the differences to the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate
from gridsim.results.metrics.formulas import mean
from gridsim.results.metrics.registry import display_name

if TYPE_CHECKING:
    from gridsim.plots.charts import ReplicationData, SweepData

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


def of_replications(found: ReplicationData, metric: str | None = None) -> str:
    """Return who has the lowest mean of a metric, by how much, and what the replications leave undecided.

    A difference counts as decided if the interval of the ratio, paired by replication, does not contain 1.
    Empty for fewer than two schedulers with values.

    Parameters
    ----------
    metric
        By default the one by which schedulers are compared.
    """
    metric = found.measure if metric is None else metric
    means = {name: mean(values) for name, values in found[metric].items()}
    known = sorted((name for name in means if math.isfinite(means[name])), key=means.__getitem__)
    if len(known) < 2:
        return ""
    count = len(found.seeds)
    if count < MIN_SEEDS:
        return f"{count} replication{'s are' if count > 1 else ' is'} too few for a conclusion."
    best, *others = known
    alike = [name for name in others if np.array_equal(found[metric][name], found[metric][best])]
    others = [name for name in others if name not in alike]
    first = " and ".join([best, *alike])
    what = display_name(metric)
    decided: list[str] = []
    open_: list[str] = []
    for name in others:
        ratio = found.ratio(name, best, metric)
        said = _interval(ratio)
        (decided if ratio.low > 1.0 else open_).append(f"{name} {said}" if said else name)
    wide = ""
    if metric == "mean_waiting" and (cores := found.values.get("mean_waiting_by_cores")):
        wide = by_cores({name: means[name] for name in known}, {name: mean(cores[name]) for name in known})
    text = f"Over {count} replications, {first} {'have' if alike else 'has'} "
    text += f"the lowest {what} on average"
    if decided:
        text += f" ({_few(decided)})"
    if open_:
        text += f"; the difference to {_few(open_)} is not significant"
    return f"{text}.{wide}"


def of_points(found: SweepData) -> str:
    """Return a sentence: at how many points each scheduler has the lowest mean, and which are undecided."""
    metric, wins, points, all_ = found.metrics[0], dict.fromkeys(found.schedulers, 0), 0, 0
    mean_of = display_name(metric) if metric.startswith("mean_") else f"mean {display_name(metric)}"
    open_: dict[str, list[str]] = {}
    for labels, one in found.each():
        all_ += 1
        means = {name: mean(values) for name, values in one[metric].items()}
        known = sorted((name for name in means if math.isfinite(means[name])), key=means.__getitem__)
        if len(known) < 2:
            continue
        points += 1
        if one.ratio(known[1], known[0], metric).low > 1.0:
            wins[known[0]] += 1
        else:
            where = ", ".join(f"{axis} = {label}" for axis, label in labels.items())
            open_.setdefault(" and ".join(sorted(known[:2])), []).append(where)
    if not points:
        return ""
    won = sorted((each for each in wins.items() if each[1]), key=lambda each: -each[1])
    said = [f"{'' if k else f'has the lowest {mean_of} '}at {count}" for k, (_, count) in enumerate(won)]
    of = f"of {points} point{'s' * (points > 1)}"
    text = ", ".join(f"{name} {each}" for (name, _), each in zip(won, said, strict=True))
    text = f"{text} {of}; " if won else ""
    by = "" if won else f" by {mean_of}"
    pairs = [f"{pair} cannot be separated{by}{_at(at, points)}" for pair, at in open_.items()]
    text = (text + _few(pairs, "; ")).removesuffix("; ")
    if points < all_:
        text += f".  {all_ - points} of {all_} points are missing: fewer than two schedulers have results"
    return text + "."


def _at(labels: list[str], points: int) -> str:
    """Return the points with these labels as the end of a sentence; `points` is the number of all points."""
    if len(labels) == 1:
        return f" ({labels[0]})" if labels[0] else ""
    return f" at all {points} points" if len(labels) == points else f" at {len(labels)} points"


def _few(said: list[str], between: str = ", ") -> str:
    """Return a list as text; of a long one, what comes first, and the last, which is the worst."""
    return between.join(said if len(said) <= _MANY else [*said[: _MANY - 2], "...", said[-1]])


def _interval(ratio: Estimate) -> str:
    """Return the interval of a ratio as percentages or factors; empty if there is none."""
    if math.isnan(ratio.low):
        return ""
    if ratio.high >= 2.0:
        return f"{ratio.mean:.3g} [{ratio.low:.3g}, {ratio.high:.3g}] times that"
    middle, low, high = (100.0 * (each - 1.0) for each in (ratio.mean, ratio.low, ratio.high))
    return f"{middle:+.2g} % [{low:+.2g}, {high:+.2g}]"
