"""Parses the house style of docstrings: paragraphs of lines "name : text", continued by indented lines."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

Entry = tuple[list[str], list[str]]

_ENTRY = re.compile(r"(\*{0,2}[A-Za-z_][\w.]*(?:, \*{0,2}[A-Za-z_][\w.]*)*) : (.+)")
_NEXT = re.compile(r"(?<=\.)  (?=\w+ : )")
_UNDERLINE = re.compile("-{4,}")


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the paragraphs of `lines`, which blank lines separate."""
    part: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            part.append(line)
        elif part:
            yield part
            part = []


def headless(paragraph: list[str]) -> list[str]:
    """Return a paragraph without the underlined heading of a section."""
    return paragraph[2:] if len(paragraph) > 1 and _UNDERLINE.fullmatch(paragraph[1]) else paragraph


def entries(paragraph: list[str]) -> tuple[list[str], list[Entry]]:
    """Return the lines before the first entry of a paragraph, and the names and lines of each entry.

    A line may hold several entries, two blanks apart.  A paragraph with other lines after its entries is
    prose, and has no entries.
    """
    before: list[str] = []
    found: list[Entry] = []
    for line in (part for each in paragraph for part in _NEXT.split(each)):
        if match := _ENTRY.fullmatch(line):
            found.append((match[1].split(", "), [match[2]]))
        elif found and line.startswith(" "):
            found[-1][1].append(line.strip())
        elif found:
            return paragraph, []
        else:
            before.append(line)
    return before, found


def _lines(thing: Any) -> list[str]:
    """Return the docstring of `thing`; none with ``-OO``, rather than that of a base class in C."""
    return [] if sys.flags.optimize >= 2 else (inspect.getdoc(thing) or "").splitlines()


def told(thing: Any) -> dict[str, str]:
    """Return name -> what the docstring of `thing` says about it, as one line."""
    said = {}
    for paragraph in paragraphs(_lines(thing)):
        for names, text in entries(headless(paragraph))[1]:
            said.update({name.lstrip("*"): " ".join(text) for name in names})
    return said


def opening(thing: Any) -> str:
    """Return the first paragraph of the docstring of `thing`, up to its first entry, as one line."""
    for paragraph in paragraphs(_lines(thing)):
        return " ".join(entries(paragraph)[0])
    return ""
