"""Columns of job logs in which a value may be a name in place of a number."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import number_fault


class MixedColumn:
    """Column of words, each a whole number or a text.

    Attributes
    ----------
    text
        Number of the text of each line, from 0, or -1 if the word is a whole number.
    """

    def __init__(self) -> None:
        self.text = array("q")
        self._text_numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def add(self, word: str) -> str:
        """Add a word to the column; return it if it is a whole number, else -1."""
        text = self._text_numbers.get(word)
        if text is None:
            text = -1
            if number_fault("", word, integer=True):
                text = len(self._texts)
                self._texts.append(word)
            self._text_numbers[word] = text
        self.text.append(text)
        return word if text < 0 else "-1"

    def numbers(self, column: NDArray[np.int64], first: int = 0) -> tuple[NDArray[np.int64], str]:
        """Return the numbers of the words, and a header value that lists the numbers of texts.

        The texts are numbered in the order of their first appearance, from `first` or the largest number of
        the column + 1.

        Parameters
        ----------
        column
            The numbers, -1 in place of texts.
        """
        text, base = np.array(self.text, dtype=np.int64), max(first, int(column.max()) + 1)
        names = "\n".join(f"{base + k} {name}" for k, name in enumerate(self._texts))
        return np.where(text < 0, column, text + base), names
