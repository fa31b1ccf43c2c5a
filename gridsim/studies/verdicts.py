"""Sentences on the best schedulers, and on the size and significance of the differences to the others."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate
from gridsim.results.metrics.formulas import mean
from gridsim.studies.overview import value_text
from gridsim.support.arrays import Floats
from gridsim.support.text import number_text

#: The most schedulers that a sentence on one run names after the best one, and the most entries of a short
#: list.
_MAX_RIVALS, _MAX_ENTRIES = 3, 6
#: Relative difference below which two values are called equal: tables cannot show it.
TOLERANCE = 1e-6
#: Mean waiting times below this (s), or below this share of the mean run time, are not ranked.
_SHORT_WAIT, SMALL_SHARE = 1.0, 1e-3
#: Length and name of the unit of a value without a unit.
_NO_UNIT = (1.0, "")


def excess_text(value: float, least: float) -> str:
    """Return how much larger a value is than the least one, above 0, such as "+12 %" or "3.4 times that"."""
    ratio = value / least
    if ratio >= 2.0:
        return f"{number_text(ratio, 3)} times that"
    return f"{_percent(ratio - 1.0, '+')} %"


def _percent(share: float, sign: str = "") -> str:
    """Return a share as a percentage with two significant digits and no exponent."""
    return f"{float(f'{100.0 * share:.2g}'):{sign}g}"


def of_one_run(
    values: Mapping[str, Mapping[str, float]],
    exclusions: Mapping[str, str],
    beginning: str = "In this run",
    units: Mapping[str, tuple[float, str]] = MappingProxyType({}),
    limits: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Return a sentence on the best of several schedulers in one run each; empty for fewer than two.

    Parameters
    ----------
    values
        What is measured, in words -> scheduler -> value; less is better.
    exclusions
        Scheduler that is not ranked -> the reason.
    beginning
        In which runs, in words.
    units
        What is measured -> length and name of its unit, if it has one.
    limits
        What is measured -> the value below which the best one allows no ratios, above 0.
    """
    parts, last_best = [], ""
    for quantity, scores in values.items():
        known = {name: value for name, value in scores.items() if name not in exclusions}
        known = {name: value for name, value in known.items() if not math.isnan(value)}
        if len(known) < 2:
            continue
        best, others = _ranking(known, units.get(quantity, _NO_UNIT), limits.get(quantity, 0.0))
        if not others:
            parts.append(f"all have the same {quantity}")
            continue
        subject = "" if best == last_best else f"{best} {'have' if ' and ' in best else 'has'} "
        parts.append(f"{subject}the lowest {quantity} ({others})")
        last_best = best
    text = f"{beginning}, {' and '.join(parts)}." if parts else ""
    return f"{text}{unranked_text(exclusions)}".strip()


def rejection_reasons(rejected: Mapping[str, float], suffix: str = "") -> dict[str, str]:
    """Return the schedulers that are not ranked since others reject fewer jobs, and why.

    Parameters
    ----------
    rejected
        Scheduler -> number of jobs that it rejected, or their mean; NaN is unknown.
    suffix
        Text after the number of jobs, such as "on average".
    """
    fewest = min((count for count in rejected.values() if not math.isnan(count)), default=0.0)
    return {
        name: " ".join(filter(None, (f"it rejected {number_text(count)} job{'s' * (count != 1)}", suffix)))
        for name, count in rejected.items()
        if count > fewest
    }


def unranked_text(exclusions: Mapping[str, str]) -> str:
    """Return a sentence, after two spaces, for each scheduler that is not ranked: the reason."""
    return "".join(f"  {name} is not ranked: {why}." for name, why in exclusions.items())


def wait_limit(mean_run_time: float = 0.0) -> tuple[float, str]:
    """Return the mean waiting time (s) below which schedulers are not ranked by it, and its text.

    Parameters
    ----------
    mean_run_time
        Mean run time of the jobs, s; 0 if it is unknown.
    """
    if (limit := SMALL_SHARE * mean_run_time) > _SHORT_WAIT:
        return limit, f"{100.0 * SMALL_SHARE:g} % of the mean run time"
    return _SHORT_WAIT, f"{_SHORT_WAIT:g} s"


def by_cores(
    jobs: Mapping[str, float],
    cores: Mapping[str, float],
    noun: str = "core",
    unit: tuple[float, str] = (1.0, "s"),
) -> str:
    """Return a sentence, after two spaces, if the mean waiting by cores ranks schedulers in another order.

    Parameters
    ----------
    jobs, cores
        Scheduler -> mean waiting time over jobs, and over their machines.  Empty if it does not.
    noun
        What the machines are called, "core" or "node".
    unit
        Length (s) and name of the unit of waiting times.
    """
    known = [name for name in jobs if math.isfinite(jobs[name]) and math.isfinite(cores[name])]
    if not any(jobs[a] < jobs[b] and cores[a] > cores[b] for a in known for b in known):
        return ""
    best, others = _ranking({name: cores[name] for name in known}, unit)
    has = "have" if " and " in best else "has"
    return f"  Weighted by {noun}s the order differs: {best} {has} the lowest mean waiting time ({others})."


def _ranking(known: Mapping[str, float], unit: tuple[float, str], limit: float = 0.0) -> tuple[str, str]:
    """Return the names with the least value, and how much more the others have, the best of them first.

    There are no ratios to 0, or to a value below `limit`; then the values are stated in `unit`.
    """
    names = sorted(known, key=known.__getitem__)
    least = known[names[0]]
    best = [name for name in names if known[name] <= least + TOLERANCE * abs(least)]
    has_ratios = least > 0.0 and least >= limit
    if has_ratios:
        rivals = [f"{name} {excess_text(known[name], least)}" for name in names[len(best) :]]
    else:
        rivals = [f"{name} {value_text(known[name], unit)}" for name in names[len(best) :]]
    if len(rivals) > _MAX_RIVALS:
        rivals[_MAX_RIVALS - 1 :] = [f"... {rivals[-1]}"]
    suffix = "" if has_ratios or not rivals else f" against {value_text(least, unit) if least else '0'}"
    return " and ".join(best), ", ".join(rivals) + suffix


def reference_text(quantity: str, value_text: str, reference: float, values: Mapping[str, float]) -> str:
    """Return a sentence, after two spaces, that compares schedulers with the schedule of a log.

    Parameters
    ----------
    quantity
        What is measured, in words.
    value_text
        The value of the log with its unit.
    reference
        The value of the log, above 0.
    values
        Scheduler, perhaps with a remark -> value.
    """

    def difference(ratio: float) -> str:
        if abs(ratio - 1.0) <= TOLERANCE:
            return "equal"
        if ratio >= 2.0:
            return excess_text(ratio, 1.0)
        return f"{_percent(abs(ratio - 1.0))} % {'above' if ratio > 1.0 else 'below'}"

    parts = [
        f"{name} {difference(values[name] / reference)}" for name in sorted(values, key=values.__getitem__)
    ]
    return f"  Compared with the log's {quantity} of {value_text}: {short_list(parts)}."


def shortage_text(replications: int, *, identical: bool = False) -> str:
    """Return the sentence in place of a verdict on too few replications, or on `identical` ones; else ""."""
    if identical:
        return f"All {replications} replications have equal values, which allow no conclusion."
    if replications >= MIN_SEEDS:
        return ""
    verb = "s allow" if replications > 1 else " allows"
    return f"{replications} replication{verb} no conclusion: at least {MIN_SEEDS} are needed."


def ranking_of(values: Mapping[str, Floats], exclusions: Collection[str] = ()) -> list[str]:
    """Return the schedulers that have a mean over replications, but no `exclusions`, the least mean first."""
    means = {name: mean(column) for name, column in values.items() if name not in exclusions}
    return sorted((name for name in means if math.isfinite(means[name])), key=means.__getitem__)


def points_text(count: int, points: int) -> str:
    """Return `count` of all points as the end of a sentence; "" for one point, which is named elsewhere."""
    if count == 1:
        return ""
    return f" at all {points} points" if count == points else f" at {count} points"


def places_text(name: str, places: Sequence[tuple[int, int]], points: int) -> str:
    """Return the places of a scheduler at some of all points, such as "own is last of 4 at all 5 points".

    Parameters
    ----------
    places
        The place at each of these points, and the number of schedulers that have one.
    """
    texts = [
        f"last of {count}" if place == count else f"number {place} of {count}"
        for place, count in sorted(places)
    ]
    span = texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
    return f"{name} is {span}{points_text(len(places), points) or ' at one point'}"


def short_list(texts: list[str], separator: str = ", ") -> str:
    """Return a list as text; of a long list, the first items and the last, which is the worst."""
    shown = texts if len(texts) <= _MAX_ENTRIES else [*texts[: _MAX_ENTRIES - 2], "...", texts[-1]]
    return separator.join(shown)


def interval_text(ratio: Estimate) -> str:
    """Return the interval of a ratio as percentages or factors; empty if there is none."""
    if math.isnan(ratio.low):
        return ""
    if ratio.is_constant:
        return excess_text(ratio.mean, 1.0)
    if ratio.high >= 2.0:
        middle, low, high = (number_text(each, 3) for each in (ratio.mean, ratio.low, ratio.high))
        return f"{middle} [{low}, {high}] times that"
    middle, low, high = (_percent(each - 1.0, "+") for each in (ratio.mean, ratio.low, ratio.high))
    return f"{middle} % [{low}, {high}]"


def difference_text(difference: Estimate, unit: tuple[float, str]) -> str:
    """Return a difference with its interval, in the unit with this length and name."""
    length, name = unit
    middle, low, high = (
        f"{float(f'{value / length:.3g}'):+,.10g}"
        for value in (difference.mean, difference.low, difference.high)
    )
    has_interval = not math.isnan(difference.low) and not difference.is_constant
    return f"{middle} {name}".rstrip() + (f" [{low}, {high}]" if has_interval else "")
