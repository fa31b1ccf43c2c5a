"""Extraction of parts of numpydoc docstrings, for lists, schemas and tables."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PARAMETERS = "Parameters\n----------\n"
#: An entry of a section of a docstring: names, and an indented description.
_ENTRY = re.compile(r"^(\S[^\n]*)\n((?:(?: +[^\n]*)?\n?)+)", re.MULTILINE)


def _text(obj: Any) -> str:
    """Return the docstring of `obj`; "" under ``python -OO``, where only base classes in C have one."""
    return "" if sys.flags.optimize >= 2 else inspect.getdoc(obj) or ""


def first_paragraph(obj: Any) -> str:
    """Return the first paragraph of the docstring of `obj`, as one line; a class inherits none."""
    if isinstance(obj, type) and not obj.__doc__:
        return ""
    return " ".join(_text(obj).partition("\n\n")[0].splitlines())


def description(obj: Any) -> str:
    """Return the docstring of `obj` without its sections."""
    return re.split(r"\n\n(?=.+\n-{3,}\n)", _text(obj))[0].strip()


def parameter_texts(obj: Any) -> dict[str, str]:
    """Return parameter -> its description in the docstring of `obj`, as one line."""
    from docstring_parser import DocstringStyle, parse

    return {
        name.strip().lstrip("*"): " ".join((entry.description or "").splitlines())
        for entry in parse(_text(obj), style=DocstringStyle.NUMPYDOC).params
        for name in entry.arg_name.split(",")
    }


def parameter_entries(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the names and the description of each entry of the parameters in the docstring of a class."""
    text = inspect.cleandoc(vars(kind).get("__doc__") or "")
    section = text.partition("Parameters\n----------\n")[2].partition("\n\nRaises\n")[0]
    for match in _ENTRY.finditer(section + "\n"):
        yield match[1], match[2]


def with_parameters_of(kind: type) -> Callable[[_Function], _Function]:
    """Decorate a function, so that its docstring also describes the parameters of a class."""

    def decorate(function: _Function) -> _Function:
        if text := function.__doc__:
            head, _, tail = inspect.cleandoc(text).partition("\n\nRaises\n")
            entries = (f"\n{names}\n{description.rstrip()}" for names, description in parameter_entries(kind))
            function.__doc__ = "".join((head, *entries, f"\n\nRaises\n{tail}" if tail else ""))
        return function

    return decorate
