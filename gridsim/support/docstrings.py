"""Parts of numpydoc docstrings, for lists, schemas and tables."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def _text(thing: Any) -> str:
    """Return the docstring of `thing`; "" with ``-OO``, rather than that of a base class in C."""
    return "" if sys.flags.optimize >= 2 else inspect.getdoc(thing) or ""


def first_paragraph(thing: Any) -> str:
    """Return the first paragraph of the docstring of `thing`, as one line."""
    return " ".join(_text(thing).partition("\n\n")[0].splitlines())


def parameter_texts(thing: Any) -> dict[str, str]:
    """Return parameter -> its description in the docstring of `thing`, as one line."""
    from docstring_parser import DocstringStyle, parse

    return {
        name.strip().lstrip("*"): " ".join((entry.description or "").splitlines())
        for entry in parse(_text(thing), style=DocstringStyle.NUMPYDOC).params
        for name in entry.arg_name.split(",")
    }
