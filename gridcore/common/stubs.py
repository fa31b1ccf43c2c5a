"""Stubs of kernels (`.pyi`), generated from their sources, for type checkers and editors.

`setup.py` calls `write` before it compiles; ``python gridcore/common/stubs.py`` does the same.  The type of
a parameter is its annotation or its C type, that of a result its annotation (else None), that of an attribute
its C type or its comment ``# type:``.  A stub that begins with `HANDWRITTEN` is not replaced.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HANDWRITTEN = "# by hand"
#: Imports at the top of each stub.
HEADER = """\
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn, SupportsIndex, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from gridcore.common.arrays import Bools, Floats, Integers
"""
_INTEGER_TYPES = ("Py_ssize_t", "size_t", "int", "long long", "unsigned int", "unsigned long long")
PYTHON_TYPES = dict.fromkeys(_INTEGER_TYPES, "int") | dict.fromkeys(("", "object"), "Any")
PYTHON_TYPES |= {"double": "float", "bint": "bool", "dict": "dict[str, Any]", "list": "list[Any]"}
NUMPY_TYPES = {"double": "float64", "long long": "int64", "int": "int32", "unsigned char": "uint8"}


class Parameter(NamedTuple):
    """A parameter of a function; `name` includes stars, and `default` is None for a required parameter."""

    name: str
    type: str
    default: str | None


def split_outside(text: str, separator: str) -> list[str]:
    """Split a text at a character, except inside brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        quote = ("" if quote == letter else quote) if quote else letter if letter in "\"'" else ""
        depth += 0 if quote else (letter in "([{") - (letter in ")]}")
        if letter == separator and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def python_type(c_type: str) -> str:
    """Return the Python type of a C type, or the name of a class."""
    c_type = c_type.removeprefix("const ").strip()
    cell = re.fullmatch(r"([\w ]+?)\[.*\]", c_type)
    return f"NDArray[np.{NUMPY_TYPES[cell[1]]}]" if cell else PYTHON_TYPES.get(c_type, c_type)


def parameter(text: str) -> Parameter:
    left, *default = (part.strip() for part in split_outside(text, "="))
    left, *annotation = (part.strip() for part in split_outside(left, ":"))
    match = re.fullmatch(r"(.*?)(\**\w*)", left, re.DOTALL)
    assert match is not None, text
    kind = annotation[0] if annotation else python_type(match[1].strip())
    if default == ["None"] and kind != "Any" and not kind.endswith("None"):
        kind += " | None"
    return Parameter(match[2], kind, default[0] if default else None)


def parameters(text: str) -> list[Parameter]:
    """Return the parameters between the brackets of a ``def``."""
    return [parameter(" ".join(part.split())) for part in split_outside(text, ",") if part.strip()]


DEFINITION = re.compile(r"(?m)^(    )?def (\w+)\(([^)]*(?:\([^)]*\)[^)]*)*)\)(?: -> ([^\n]+))?:(?: *#.*)?$")
CLASS = re.compile(r"(?m)^((?:@.*\n)*)(cdef )?class (\w+)(?:\((\w+)\))?:.*\n((?:(?: .*)?\n)*)")
ATTRIBUTE = re.compile(r"(?m)^    cdef (readonly|public) (.+?)(?: +#(?: type: (.*)| *.*))?$")
ANNOTATION = re.compile(r"(?m)^    (\w+): (\w+)(?: = .*)?$")
CONSTANT = re.compile(r"(?m)^([A-Z_]+(?:, [A-Z_]+)*) = (.*)$")


#: The special methods that a stub has, if the source states their results.
SPECIAL_METHODS = tuple(
    f"__{name}__"
    for name in ("array", "getattr", "getitem", "setitem", "delitem", "len", "contains", "iter", "call")
)
#: Special methods whose parameters are positional only, since they are slots of the type.
SLOTS = tuple(f"__{name}__" for name in ("getitem", "setitem", "delitem", "contains"))


def functions(text: str, indent: str = "") -> Iterator[tuple[str, str, list[Parameter], str]]:
    """Yield decorator, name, parameters and result type of each public ``def`` at this indent."""
    for match in DEFINITION.finditer(text):
        private = match[2].startswith("_") and match[2] not in ("__cinit__", "__init__")
        if match[2] in SPECIAL_METHODS and match[4]:
            private = False
        if (match[1] or "") == indent and not private:
            previous_line = text[: match.start()].rstrip("\n").rpartition("\n")[2].strip()
            kind = previous_line if previous_line in ("@property", "@staticmethod") else ""
            yield kind, match[2], parameters(match[3]), match[4] or "None"


def attributes(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (name, type, is writable) of each attribute that is visible in Python."""
    for access, declaration, kind in ATTRIBUTE.findall(text):
        first, *others = declaration.split(",")
        c, _, name = first.strip().rpartition(" ")
        for attribute in (name, *others):
            yield attribute.strip(), kind or python_type(c), access == "public"
    for name, kind in ANNOTATION.findall(text):
        yield name, kind, True


def definition(kind: str, name: str, arguments: list[Parameter], result: str) -> str:
    texts = []
    for entry in arguments:
        default = entry.default or ""
        try:
            ast.literal_eval(default or "0")
        except ValueError:
            default = "..."
        parameter = entry.name if entry.name in ("self", "cls", "*") else f"{entry.name}: {entry.type}"
        texts.append(f"{parameter} = {default}" if default else parameter)
    if name in SLOTS:
        texts.append("/")
    return f"{kind}def {name}({', '.join(texts)}) -> {result}: ..."


def class_stub(decorators: str, compiled: str, name: str, base: str, body: str) -> Iterator[str]:
    fields = re.search(r"(?m)^    cdef (?!.*\()", body)
    methods = re.search(
        r"(?m)^    cdef .*\(", body
    )  # the first class with C methods has a field for their table
    if "final" in decorators:
        yield "@final"
    elif compiled and (fields or methods and not base):
        yield "@disjoint_base"
    yield f"class {name}({base}):" if base else f"class {name}:"
    for attribute, kind_name, public in attributes(body):
        yield (
            f"    {attribute}: {kind_name}"
            if public
            else f"    @property\n    def {attribute}(self) -> {kind_name}: ..."
        )
    for kind, method, arguments, result in functions(body, "    "):
        if method == "__cinit__":
            method, arguments, result = "__new__", [Parameter("cls", "", None), *arguments[1:]], name
        yield "    " + definition(f"{kind}\n    " if kind else "", method, arguments, result)
    yield "    ..."


def constant(name: str, value: str) -> str:
    if value.startswith("np.dtype("):
        return f"{name}: np.dtype[Any]"
    if value.startswith("{"):
        return f"{name}: dict[str, int]"
    if value.startswith("["):
        return f"{name}: list[str]"
    return f"{name}: tuple[str, ...]" if value.startswith(("(", "tuple(")) else f"{name}: int"


def stub(path: Path, class_modules: dict[str, str]) -> str:
    """Return the stub of a kernel; "" if the kernel exports nothing to Python.

    Parameters
    ----------
    class_modules
        The module of each class.
    """
    code = re.sub(r'(?m)^ *r?"""(?:.|\n)*?"""\n', "", path.read_text(encoding="utf-8"))
    header = path.with_suffix(".pxd")
    header_text = header.read_text(encoding="utf-8") if header.is_file() else ""
    header_bodies = {name: body for _, _, name, _, body in CLASS.findall(header_text)}
    names_match = re.search(r"(?m)^__all__ = (\[[^\]]*\])", code)
    public = ast.literal_eval(names_match[1]) if names_match else []
    lines = []
    for names, value in CONSTANT.findall(code):
        lines += [constant(name, value) for name in names.split(", ") if name in public]
    numbers = re.findall(r"(?m)^cpdef enum:\n((?:    .*\n)*)", header_text)
    lines += [f"{name}: int" for name in re.findall(r"\w+", "".join(numbers)) if name in public]
    for decorators, compiled, name, base, body in CLASS.findall(code):
        if name in public:
            lines += class_stub(decorators, compiled, name, base, header_bodies.get(name, "") + body)
    lines += [
        definition(kind, name, arguments, result)
        for kind, name, arguments, result in functions(code)
        if name in public
    ]
    text = "\n".join(lines)
    imports = [
        f"from {module} import {name}"
        for name, module in class_modules.items()
        if re.search(rf"\b{name}\b", text) and not re.search(rf"\bclass {name}\b", text)
    ]
    for source, names in re.findall(r"(?m)^from (gridcore[\w.]*) import (.*)$", code):
        imports += [f"from {source} import {name}" for name in names.split(", ") if name in public]
    return "\n".join([HEADER, *imports, "", f"__all__ = {public}", "", text, ""]) if public else ""


def write(folder: Path) -> None:
    """Write the stubs of all kernels of the package `folder`."""
    class_modules = {
        match[2]: ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for path in sorted([*folder.rglob("*.pyx"), *folder.rglob("*.py")])
        for match in CLASS.findall(path.read_text(encoding="utf-8"))
    }
    for path in sorted(folder.rglob("*.pyx")):
        target = path.with_suffix(".pyi")
        is_handwritten = target.is_file() and target.read_text(encoding="utf-8").startswith(HANDWRITTEN)
        if not is_handwritten and (text := stub(path, class_modules)):
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parents[1])
