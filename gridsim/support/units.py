"""Conversion of strings with a unit, such as "50 ms", "1 Gbit/s" or "4 h", to numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

_SIZES = {
    f"{prefix}{name}": Fraction(1000**power) * scale
    for name, scale in (("B", Fraction(1)), ("bit", Fraction(1, 8)))
    for power, prefix in enumerate(("", "k", "M", "G", "T"))
}
_SIZES |= {f"{prefix}iB": Fraction(1024**power) for power, prefix in enumerate("KMGT", 1)}
_WORK = {
    f"{prefix}flop": Fraction(1000) ** (power - 2)
    for power, prefix in enumerate(("", "k", "M", "G", "T", "P"))
}


def _per_second(units: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {f"{name}/s": factor for name, factor in units.items()}


#: Unit of a number -> another unit that a string may have -> that unit as a multiple of the first.
UNITS: Mapping[str, Mapping[str, Fraction]] = {
    "s": {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
        "d": Fraction(86_400),
    },
    "bytes": _SIZES,
    "bytes/s": _per_second(_SIZES),
    "Mflop": _WORK,
    "Mflop/s": _per_second(_WORK),
    "in": {"mm": Fraction(5, 127), "cm": Fraction(50, 127), "in": Fraction(1)},
    "W": {"mW": Fraction(1, 1000), "W": Fraction(1), "kW": Fraction(1000)},
}
#: A number and a unit; [0-9], since \d also matches digits of other scripts, such as full-width ones.
_TEXT = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z/]+)\s*")


def number(text: str, unit: str) -> float | None:
    """Return the number in `unit` that `text` states; None if it is not a number with a compatible unit."""
    match, known = _TEXT.fullmatch(text), UNITS.get(unit, {})
    if match is None or match[2] not in known:
        return None
    try:
        return float(Fraction(match[1]) * known[match[2]])
    except OverflowError:
        return math.inf


def pattern(unit: str) -> str:
    """Return a regular expression, as in a JSON Schema, for strings with a unit compatible with `unit`."""
    return rf"^\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*({'|'.join(UNITS[unit])})\s*$"


def accepted_units(unit: str) -> str:
    """Return the end of an error about a number in `unit`: the units that a string may have."""
    return f" (a string requires a unit: {', '.join(UNITS[unit])})" if unit in UNITS else ""
