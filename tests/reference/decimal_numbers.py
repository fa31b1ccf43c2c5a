"""Reference implementation of `gridcore.common.decimal_numbers`: the same tables, in plain Python."""

from __future__ import annotations

import re

WORD = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
DIGIT = re.compile(r"[0-9]")


def decimal_numbers(text: str, columns: int) -> list[list[float]] | None:
    """Return the first `columns` numbers of each line; None if a line is invalid."""
    rows = []
    for line in text.split("\n"):
        words = re.split(r"[ \t]+", line.strip(" \t"))
        if "\r" in line or len(words) < columns or not all(map(is_exact, words[:columns])):
            return None
        rows.append([float(word) + 0.0 for word in words[:columns]])  # not -0.0
    return rows


def is_exact(word: str) -> bool:
    """Return whether a word is a number with at most 18 digits, or with a point and digits up to 2**53."""
    digits = "".join(DIGIT.findall(word))
    return bool(WORD.fullmatch(word) and len(digits) <= 18 and ("." not in word or int(digits) <= 2**53))
