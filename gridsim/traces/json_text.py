"""Objects of JSON files, with the lines at which they begin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from gridsim.support.files import StrPath
from gridsim.traces._text import format_error, text_blocks

#: Largest number of bytes of a line; whole files of JSON may be one line.
_LONGEST_LINE = 1 << 28


class JsonText:
    """JSON text of a file, read value by value, so that each value has its line.

    Raises
    ------
    TraceFormatError
        If the file cannot be read, or is not JSON.
    """

    def __init__(self, path: StrPath) -> None:
        self._path = path
        with closing(text_blocks(path, _LONGEST_LINE)) as blocks:
            self._text = "\n".join(blocks)
        self._decoder = json.JSONDecoder()
        self._at, self._line_start, self._line = 0, 0, 1

    @property
    def line(self) -> int:
        """Line of the next value."""
        self._line += self._text.count("\n", self._line_start, self._at)
        self._line_start = self._at
        return self._line

    def peek(self) -> str:
        """Return the next character that is not white space; "" at the end of the text."""
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
            self._at += 1
        return self._text[self._at : self._at + 1]

    def skip(self, character: str) -> None:
        """Skip the next character, which must be `character`."""
        if self.peek() != character:
            got = repr(self.peek()) if self.peek() else "the end of the file"
            raise format_error(self._path, self.line, f"not valid JSON: {character!r} expected, got {got}")
        self._at += 1

    def value(self) -> Any:
        """Return the next value."""
        self.peek()
        try:
            value, self._at = self._decoder.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise format_error(self._path, error.lineno, f"not valid JSON ({error.msg})") from error
        except (RecursionError, ValueError) as error:
            raise format_error(self._path, self.line, f"cannot be read as JSON ({error})") from error
        return value

    def items(self) -> Iterator[int]:
        """Yield the line of each item of the next list; the caller reads the item."""
        self.skip("[")
        while self.peek() != "]":
            self.peek()
            yield self.line
            if self.peek() != "]":
                self.skip(",")
        self.skip("]")

    def members(self) -> Iterator[str]:
        """Yield the name of each member of the next object; the caller reads its value."""
        self.skip("{")
        while self.peek() != "}":
            name = self.value()
            if not isinstance(name, str):
                raise format_error(self._path, self.line, f"not valid JSON: a name expected, got {name!r}")
            self.skip(":")
            yield name
            if self.peek() != "}":
                self.skip(",")
        self.skip("}")
