"""Sentences that say who is best at what, by how much, and what the runs leave undecided."""

from __future__ import annotations

import math
from collections.abc import Mapping

#: The most schedulers that a sentence names after the best one.
_NAMED = 3


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

    values : what is measured, in words -> scheduler -> value; less is better.
    excluded : scheduler that takes no part, because it left something undone -> what.
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
    left = "".join(f"  {name} takes no part: {why}." for name, why in excluded.items())
    return f"In this run, {' and '.join(parts)}.{left}" if parts else left.strip()


def _ranked(known: Mapping[str, float]) -> tuple[str, str]:
    """Return the names with the least value, and how much more the others have, the best of them first."""
    names = sorted(known, key=known.__getitem__)
    least = known[names[0]]
    best = [name for name in names if known[name] == least]
    others = [f"{name} {more(known[name], least)}" for name in names[len(best) :]]
    if len(others) > _NAMED:
        others[_NAMED - 1 :] = [f"... {others[-1]}"]
    return " and ".join(best), ", ".join(others)
