"""Writes the types of kernels, `.pyi`, from their sources: what type checkers and editors read.

`setup.py` calls it before it compiles, and ``python gridcore/common/stubs.py`` writes all of them anew.  A
parameter has its annotation or its C type, a function what it returns (else None), an attribute its C type or
what ``# type:`` says.  A kernel whose `.pyi` begins with `BY_HAND` keeps it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BY_HAND = "# by hand"
#: What stubs may name without an import in the kernel.
HEADER = """\
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.common.arrays import Bools, Floats, Integers
"""
_WHOLE = ("Py_ssize_t", "size_t", "int", "long long", "unsigned int", "unsigned long long")
PLAIN = dict.fromkeys(_WHOLE, "int") | dict.fromkeys(("", "object"), "Any")
PLAIN |= {"double": "float", "bint": "bool", "dict": "dict[str, Any]", "list": "list[Any]"}
CELLS = {"double": "float64", "long long": "int64", "int": "int32", "unsigned char": "uint8"}


class Parameter(NamedTuple):
    """`name` has its stars; `default` is None if there is none."""

    name: str
    type: str
    default: str | None


def cut(text: str, at: str) -> list[str]:
    """Split at a character, but not in brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        quote = ("" if quote == letter else quote) if quote else letter if letter in "\"'" else ""
        depth += 0 if quote else (letter in "([{") - (letter in ")]}")
        if letter == at and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def python_type(c: str) -> str:
    """Return the type for Python of a C type; that of a class is its name."""
    c = c.removeprefix("const ").strip()
    cell = re.fullmatch(r"([\w ]+?)\[.*\]", c)
    return f"NDArray[np.{CELLS[cell[1]]}]" if cell else PLAIN.get(c, c)


def parameter(text: str) -> Parameter:
    left, *default = (part.strip() for part in cut(text, "="))
    left, *annotation = (part.strip() for part in cut(left, ":"))
    found = re.fullmatch(r"(.*?)(\**\w*)", left, re.DOTALL)
    assert found is not None, text
    of = annotation[0] if annotation else python_type(found[1].strip())
    if default == ["None"] and of != "Any" and not of.endswith("None"):
        of += " | None"
    return Parameter(found[2], of, default[0] if default else None)


def parameters(text: str) -> list[Parameter]:
    """Read what is between the brackets of a ``def``."""
    return [parameter(" ".join(part.split())) for part in cut(text, ",") if part.strip()]


DEFINITION = re.compile(r"(?m)^(    )?def (\w+)\(([^)]*(?:\([^)]*\)[^)]*)*)\)(?: -> ([^\n]+))?:(?: *#.*)?$")
CLASS = re.compile(r"(?m)^((?:@.*\n)*)(cdef )?class (\w+)(?:\((\w+)\))?:.*\n((?:(?: .*)?\n)*)")
ATTRIBUTE = re.compile(r"(?m)^    cdef (readonly|public) (.+?)(?: +#(?: type: (.*)| *.*))?$")
ANNOTATED = re.compile(r"(?m)^    (\w+): (\w+)(?: = .*)?$")
CONSTANT = re.compile(r"(?m)^([A-Z_]+(?:, [A-Z_]+)*) = (.*)$")


def functions(text: str, indent: str = "") -> Iterator[tuple[str, str, list[Parameter], str]]:
    """Yield decorator, name, parameters and what is returned of each public ``def`` of this indent."""
    for found in DEFINITION.finditer(text):
        private = found[2].startswith("_") and found[2] not in ("__cinit__", "__init__")
        if (found[1] or "") == indent and not private:
            before = text[: found.start()].rstrip("\n").rpartition("\n")[2].strip()
            kind = before if before in ("@property", "@staticmethod") else ""
            yield kind, found[2], parameters(found[3]), found[4] or "None"


def attributes(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield name, type and whether it can be set of the attributes that Python sees."""
    for access, declaration, of in ATTRIBUTE.findall(text):
        first, *others = declaration.split(",")
        c, _, name = first.strip().rpartition(" ")
        for each in (name, *others):
            yield each.strip(), of or python_type(c), access == "public"
    for name, of in ANNOTATED.findall(text):
        yield name, of, True


def definition(kind: str, name: str, of: list[Parameter], returned: str) -> str:
    shown = []
    for each in of:
        default = each.default or ""
        try:
            ast.literal_eval(default or "0")
        except ValueError:
            default = "..."
        typed = each.name if each.name in ("self", "cls", "*") else f"{each.name}: {each.type}"
        shown.append(f"{typed} = {default}" if default else typed)
    return f"{kind}def {name}({', '.join(shown)}) -> {returned}: ..."


def class_stub(decorators: str, compiled: str, name: str, base: str, body: str) -> Iterator[str]:
    fields = re.search(r"(?m)^    cdef (?!.*\()", body)
    if "final" in decorators:
        yield "@final"
    elif compiled and fields:
        yield "@disjoint_base"
    yield f"class {name}({base}):" if base else f"class {name}:"
    for attribute, typed, public in attributes(body):
        yield (
            f"    {attribute}: {typed}"
            if public
            else f"    @property\n    def {attribute}(self) -> {typed}: ..."
        )
    for kind, each, of, returned in functions(body, "    "):
        if each == "__cinit__":
            each, of, returned = "__new__", [Parameter("cls", "", None), *of[1:]], name
        yield "    " + definition(f"{kind}\n    " if kind else "", each, of, returned)
    yield "    ..."


def constant(name: str, value: str) -> str:
    if value.startswith("np.dtype("):
        return f"{name}: np.dtype[Any]"
    return f"{name}: tuple[str, ...]" if value.startswith(("(", "tuple(")) else f"{name}: int"


def stub(path: Path, homes: dict[str, str]) -> str:
    """Return the stub of the kernel whose `.pyx` this is; "" if it has nothing for Python.

    Parameters
    ----------
    homes
        The module of each class.
    """
    code = re.sub(r'(?m)^ *r?"""(?:.|\n)*?"""\n', "", path.read_text(encoding="utf-8"))
    header = path.with_suffix(".pxd")
    declared = header.read_text(encoding="utf-8") if header.is_file() else ""
    in_header = {name: body for _, _, name, _, body in CLASS.findall(declared)}
    listed = re.search(r"(?m)^__all__ = (\[[^\]]*\])", code)
    public = ast.literal_eval(listed[1]) if listed else []
    lines = []
    for names, value in CONSTANT.findall(code):
        lines += [constant(name, value) for name in names.split(", ") if name in public]
    numbers = re.findall(r"(?m)^cpdef enum:\n((?:    .*\n)*)", declared)
    lines += [f"{name}: int" for name in re.findall(r"\w+", "".join(numbers)) if name in public]
    for decorators, compiled, name, base, body in CLASS.findall(code):
        if name in public:
            lines += class_stub(decorators, compiled, name, base, in_header.get(name, "") + body)
    lines += [definition(kind, name, of, back) for kind, name, of, back in functions(code) if name in public]
    text = "\n".join(lines)
    imported = [
        f"from {home} import {name}"
        for name, home in homes.items()
        if re.search(rf"\b{name}\b", text) and not re.search(rf"\bclass {name}\b", text)
    ]
    for source, names in re.findall(r"(?m)^from (gridcore[\w.]*) import (.*)$", code):
        imported += [f"from {source} import {name}" for name in names.split(", ") if name in public]
    return "\n".join([HEADER, *imported, "", f"__all__ = {public}", "", text, ""]) if public else ""


def write(folder: Path) -> None:
    """Write the stubs of all kernels of the package `folder`."""
    homes = {
        found[2]: ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for path in sorted([*folder.rglob("*.pyx"), *folder.rglob("*.py")])
        for found in CLASS.findall(path.read_text(encoding="utf-8"))
    }
    for path in sorted(folder.rglob("*.pyx")):
        there = path.with_suffix(".pyi")
        by_hand = there.is_file() and there.read_text(encoding="utf-8").startswith(BY_HAND)
        if not by_hand and (text := stub(path, homes)):
            there.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parents[1])
