"""Claims: rows of measured quantities, and verdicts that are computed from intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate, estimate

Verdict = Literal["reproduced", "not reproduced", "not robust", "undecided", "cannot be compared"]


@dataclass(frozen=True)
class Row:
    """One quantity: its published value, its measured value, and the verdict.

    Parameters
    ----------
    claim
        Sentence of the experiment's claims that the row belongs to; "" for none.
    verdict, why
        The verdict and its reason; empty if the paper does not report the quantity.
    """

    claim: str
    quantity: str
    paper: str
    measured: Estimate | None
    unit: str = ""
    verdict: Verdict | Literal[""] = ""
    why: str = ""


@dataclass(frozen=True)
class ClaimedRange:
    """A published statement about a quantity, and the range of values that agree with it."""

    paper: str
    low: float = -math.inf
    high: float = math.inf


#: The floating-point numbers next to 1 (for ratios) and 0 (for differences). As ends of a range they exclude
#: equality, so that an equal value is neither better nor worse.
BELOW_ONE, ABOVE_ONE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
BELOW_ZERO, ABOVE_ZERO = math.nextafter(0.0, -1.0), math.nextafter(0.0, 1.0)
#: Common ranges of ratios and of differences.
SMALLER, LARGER = ClaimedRange("< 1", high=BELOW_ONE), ClaimedRange("> 1", ABOVE_ONE)
NEGATIVE, POSITIVE, ZERO = (
    ClaimedRange("< 0", high=BELOW_ZERO),
    ClaimedRange("> 0", ABOVE_ZERO),
    ClaimedRange("0", 0.0, 0.0),
)


def range_around(paper: float, tolerance: float = 0.25) -> ClaimedRange:
    """Return the range around a published number: `tolerance` times the number on either side."""
    return ClaimedRange(f"{paper:g}", paper * (1 - tolerance), paper * (1 + tolerance))


def judge(
    claim: str,
    quantity: str,
    measured: Estimate | None,
    test: ClaimedRange | None = None,
    *,
    unit: str = "",
    why: str = "",
) -> Row:
    """Return a row whose verdict compares the confidence interval of `measured` with a range.

    The verdict is "reproduced" if the whole interval lies within the range, and "not reproduced" if all of it
    lies outside.  It is "undecided" if the interval straddles an end, is missing, or comes from fewer than
    `MIN_SEEDS` seeds, and "cannot be compared" if nothing was measured.  `why` is added to the reason.
    If `test` is None, there is no verdict.
    """
    if test is None:
        return Row(claim, quantity, "", measured, unit, "", why)
    low, high = test.low, test.high
    verdict: Verdict
    expected = f"wanted {_range_text(low, high)}"
    if measured is None:
        verdict, reason = "cannot be compared", "not recorded"
    elif math.isnan(measured.low):
        verdict, reason = "undecided", f"{expected}; no interval: {measured.note}"
    elif measured.seeds < MIN_SEEDS:
        verdict, reason = "undecided", f"{expected}; fewer than {MIN_SEEDS} seeds"
    else:
        digits = _digits(measured, low, high)
        if low <= measured.low and measured.high <= high:
            verdict, reason = "reproduced", f"{expected}; the interval{digits} lies within"
        elif measured.high < low or measured.low > high:
            side = _side(measured, low, high)
            verdict, reason = "not reproduced", f"{expected}; the interval{digits} lies {side}"
        else:
            verdict, reason = "undecided", f"{expected}; the interval{digits} straddles an end"
    return Row(claim, quantity, test.paper, measured, unit, verdict, "; ".join(filter(None, (reason, why))))


def sign(
    claim: str,
    quantity: str,
    paper: str,
    differences: Any,
    *,
    unit: str = "",
    seeds: Sequence[int] | None = None,
) -> Row:
    """Return a row whose verdict depends on the signs of n differences, one per seed.

    The verdict is "reproduced" if all differences are above 0, "not reproduced" if none is, and "not robust"
    if some are.  It is "undecided" for fewer than `MIN_SEEDS` seeds.  The reason names those of the n
    `seeds`, if they are given, whose difference is not above 0.
    """
    values = np.asarray(differences, dtype=np.float64)
    positive_count = int((values > 0).sum())
    verdict: Verdict
    count = f"{positive_count} of {len(values)} seeds" if seeds is None else seeds_above(values, seeds)
    reason = f"wanted above 0; it is in {count}"
    if len(values) < MIN_SEEDS:
        verdict, reason = "undecided", f"{reason}; fewer than {MIN_SEEDS} seeds"
    elif positive_count == len(values):
        verdict = "reproduced"
    else:
        verdict = "not robust" if positive_count else "not reproduced"
    return Row(claim, quantity, paper, estimate(values), unit, verdict, reason)


def seeds_above(differences: Any, seeds: Sequence[int]) -> str:
    """Return the number of seeds with a difference above 0, and a list of the others, as text."""
    values = np.asarray(differences, dtype=np.float64)
    not_above = [f"{seed}" for value, seed in zip(values, seeds, strict=True) if not value > 0]
    count = f"{len(values) - len(not_above)} of {len(values)} seeds"
    return f"{count}, not in {', '.join(not_above)}" if not_above else count


def exact(claim: str, quantity: str, paper: str, holds: bool, why: str) -> Row:
    """Return a row about a value that does not depend on the seed and therefore has no interval."""
    return Row(claim, quantity, paper, None, "", "reproduced" if holds else "not reproduced", why)


def incomparable(
    claim: str, quantity: str, paper: str, measured: Estimate, why: str, *, unit: str = ""
) -> Row:
    """Return a row whose published value cannot be compared with the measured one."""
    return Row(claim, quantity, paper, measured, unit, "cannot be compared", why)


class Conclusion(NamedTuple):
    """The verdict on a claim that follows from the rows about it."""

    claim: str
    verdict: Verdict | Literal["partly reproduced"]
    why: str


def conclude(claim: str, rows: Sequence[Row]) -> Conclusion:
    """Return the conclusion on a claim: the common verdict of its rows, if they agree.

    If verdicts differ, it is "partly reproduced" if any row is reproduced, and "not reproduced" if none is.
    Rows without a verdict do not count.  Rows that cannot be compared count only if there are no others.
    """
    verdicts = [(row.verdict, row.why) for row in rows if row.claim == claim and row.verdict]
    comparable = [entry for entry in verdicts if entry[0] != "cannot be compared"] or verdicts
    if not comparable:
        return Conclusion(claim, "cannot be compared", "not measured")
    counts = Counter(verdict for verdict, _ in comparable)
    [(first, reason), *others] = comparable
    if others:
        tally = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        reason = f"{len(comparable)} rows: {tally}"
    if len(counts) == 1:
        return Conclusion(claim, first, reason)
    return Conclusion(claim, "partly reproduced" if counts["reproduced"] else "not reproduced", reason)


def _range_text(low: float, high: float) -> str:
    (minimum, above), (maximum, below) = _end(low, -math.inf), _end(high, math.inf)
    if math.isfinite(low) and math.isfinite(high) and not (above or below):
        return f"{low:.4g}..{high:.4g}"
    lower = "" if math.isinf(low) else f"{'above' if above else 'at minimum'} {minimum:.4g}"
    upper = "" if math.isinf(high) else f"{'below' if below else 'at maximum'} {maximum:.4g}"
    return " and ".join(filter(None, (lower, upper)))


def _end(end: float, towards: float) -> tuple[float, bool]:
    """Return an end of a range as a short number, and whether the range excludes that number.

    The range excludes it if the adjacent number outside the range has fewer digits: `BELOW_ONE` means "below
    1".
    """
    beyond = math.nextafter(end, towards) + 0.0  # avoid "-0"
    strict = float(f"{beyond:.4g}") == beyond and (beyond == 0 or float(f"{end:.4g}") != end)
    return (beyond, True) if strict and math.isfinite(end) else (end, False)


def _side(measured: Estimate, low: float, high: float) -> str:
    """Return the side of the range on which an interval outside it lies."""
    if measured.high < low:
        end, _ = _end(low, -math.inf)
        return "at that end" if measured.low == measured.high == end else "below"
    end, _ = _end(high, math.inf)
    return "at that end" if measured.low == measured.high == end else "above"


def _digits(measured: Estimate, low: float, high: float) -> str:
    """Return the interval with more digits if rounding in the table moves it across an end, else ""."""
    ends = [end for end, _ in (_end(low, -math.inf), _end(high, math.inf)) if math.isfinite(end)]
    for value in (measured.low, measured.high):
        text = float(f"{value:.4g}")
        if any((value < end) != (text < end) or (value > end) != (text > end) for end in ends):
            return f" ({measured.low:.10g} to {measured.high:.10g})"
    return ""
