"""Reference implementation of `gridcore.common.whole_numbers`: the same tables, in plain Python."""

from __future__ import annotations

import re

WORD = re.compile(r"[-+]?[0-9]{1,18}")


def whole_numbers(text: str, columns: int) -> list[list[int]] | None:
    """Return the first `columns` numbers of each line; None if a line is invalid."""
    rows = []
    for line in text.split("\n"):
        words = re.split(r"[ \t]+", line.strip(" \t"))
        if "\r" in line or len(words) < columns or not all(map(WORD.fullmatch, words[:columns])):
            return None
        rows.append([int(word) for word in words[:columns]])
    return rows
