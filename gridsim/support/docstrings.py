"""Extraction of parts of numpydoc docstrings, for lists, schemas and tables."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def _text(obj: Any) -> str:
    """Return the docstring of `obj`; "" under ``python -OO``, where only base classes in C have one."""
    return "" if sys.flags.optimize >= 2 else inspect.getdoc(obj) or ""


def first_paragraph(obj: Any) -> str:
    """Return the first paragraph of the docstring of `obj`, as one line."""
    return " ".join(_text(obj).partition("\n\n")[0].splitlines())


def parameter_texts(obj: Any) -> dict[str, str]:
    """Return parameter -> its description in the docstring of `obj`, as one line."""
    from docstring_parser import DocstringStyle, parse

    return {
        name.strip().lstrip("*"): " ".join((entry.description or "").splitlines())
        for entry in parse(_text(obj), style=DocstringStyle.NUMPYDOC).params
        for name in entry.arg_name.split(",")
    }
