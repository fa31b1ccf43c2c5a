"""Source of definitions in the script or notebook (``__main__``), as a module of their own.

Other processes cannot import ``__main__``: a notebook is no module, and a script would run its study again.
So the definitions that a scheduler uses are copied: classes and functions as their source, imports as
imports, and other values pickled.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import io
import linecache
import pickle
import symtable
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gridsim.errors import ScenarioError, text_of

_MAIN = "__main__"
#: Name of the function that restores a pickled value in the source.
UNPICKLE = "_gridsim_unpickle"
_LITERALS = (int, float, bool, str, bytes, type(None))


def main_source(owners: Mapping[str, str]) -> tuple[str, set[str]]:
    """Return the source of a module with definitions of ``__main__``, and the modules that it imports.

    Parameters
    ----------
    owners
        Name of a class or function in ``__main__`` -> what needs it, for errors.

    Raises
    ------
    ScenarioError
        If the source of a definition is not known, or a value that it uses cannot be sent.
    """
    collection = _Definitions()
    for name, owner in sorted(owners.items()):
        collection.add(name, owner)
    return collection.text(), collection.modules


class _Definitions:
    """Definitions of ``__main__`` in an order in which each follows those that it uses."""

    def __init__(self) -> None:
        self._namespace = vars(sys.modules[_MAIN])
        self._texts: dict[str, str] = {}
        self.modules: set[str] = set()

    def text(self) -> str:
        future = self._namespace.get("annotations") is __future__.annotations
        return "\n".join(["from __future__ import annotations"] * future + list(self._texts.values())) + "\n"

    def add(self, name: str, owner: str) -> None:
        """Add what `name` refers to, unless it is unknown: an error that only the run can report."""
        if name in self._texts or name not in self._namespace:
            return
        value = self._namespace[name]
        module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, types.ModuleType):
            if value.__name__ == _MAIN:
                raise _error(owner, name, "it must not use its module as a whole")
            self._import(name, value.__name__, None)
        elif module == _MAIN and isinstance(qualname, str):
            if qualname != name and self._namespace.get(qualname) is value:
                self.add(qualname, owner)
                self._texts[name] = f"{name} = {qualname}"
            else:
                self._define(name, value, owner)
        elif isinstance(module, str) and isinstance(qualname, str) and _object_of(module, qualname) is value:
            self._import(name, module, qualname)
        else:
            self._texts[name] = self._assignment(name, value, owner)

    def _import(self, name: str, module: str, qualname: str | None) -> None:
        self.modules.add(module)
        if qualname is None:
            self._texts[name] = f"import {module} as {name}"
            return
        first, _, rest = qualname.partition(".")
        line = f"from {module} import {first} as {name}"
        self._texts[name] = f"{line}\n{name} = {name}.{rest}" if rest else line

    def _define(self, name: str, value: Any, owner: str) -> None:
        segment = _segment(name, value, owner)
        self._texts[name] = ""  # for definitions that use each other
        for used in _global_names(segment):
            if used != name:
                self.add(used, owner)
        for chain in _attribute_chains(segment):
            self._import_parts(chain)
        del self._texts[name]
        self._texts[name] = segment

    def _import_parts(self, chain: list[str]) -> None:
        """Import the modules of packages that a definition uses as attributes, such as ``scipy.stats``."""
        package = self._namespace.get(chain[0])
        module = package.__name__ if isinstance(package, types.ModuleType) else ""
        for part in chain[1:] if module else ():
            module = f"{module}.{part}"
            if module not in sys.modules:
                return
            self.modules.add(module)
            self._texts[module] = f"import {module} as _{module.replace('.', '_')}"

    def _assignment(self, name: str, value: Any, owner: str) -> str:
        """Return a statement that assigns a value: a literal, or a call with its pickled form."""
        try:
            if type(value) in _LITERALS and ast.literal_eval(repr(value)) == value:
                return f"{name} = {value!r}"
        except (ValueError, SyntaxError):  # infinity, for example
            pass
        stream = io.BytesIO()
        pickler = _ValuePickler(stream, 5)
        try:
            pickler.dump(value)
        except Exception as error:
            raise _error(owner, name, " ".join(text_of(error).split())) from error
        self.modules |= pickler.modules
        return f"{name} = {UNPICKLE}({stream.getvalue()!r})"


def _object_of(module: str, qualname: str) -> Any:
    target: Any = sys.modules.get(module)
    for part in qualname.split("."):
        target = getattr(target, part, None)
    return target


class _ValuePickler(pickle.Pickler):
    """Pickler that raises PicklingError for classes and functions of ``__main__``, and lists the modules."""

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.modules: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)):
            if obj.__module__ == _MAIN:
                raise pickle.PicklingError(f"its value has a {obj.__qualname__} of the script or notebook")
            self.modules.add(obj.__module__)
        return NotImplemented


def _error(owner: str, name: str, reason: str) -> ScenarioError:
    return ScenarioError(
        f"{owner} must be defined in a module to be sent to other processes: {name} of the script or "
        f"notebook cannot be sent ({reason})"
    )


# -- sources ----------------------------------------------------------------------------------------------


def _segment(name: str, value: Any, owner: str) -> str:
    """Return the source of the last definition of `name` that has the code of `value`."""
    codes = [code for code in map(_code, (value, *vars(value).values())) if code is not None]
    codes = [code for code in codes if code.co_qualname.partition(".")[0] in (name, "<lambda>")]
    for text in _texts(codes):
        try:
            tree = ast.parse(text)
        except SyntaxError:  # a command of the notebook
            continue
        for node in reversed([*_top_level(tree.body)]):
            first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
            is_it = all(first <= code.co_firstlineno <= (node.end_lineno or first) for code in codes)
            if is_it and name in _defined_names(node):
                lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
                return textwrap.dedent("".join(lines)).rstrip("\n") + "\n"
    reason = "its source is not known; the definition must be in the script or in the history of the notebook"
    raise _error(owner, name, reason)


def _code(value: Any) -> types.CodeType | None:
    """Return the code of a function or method, also of a decorated one."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    value = getattr(value, "fget", value)
    value = getattr(value, "py_func", value)  # of Numba
    try:
        code = getattr(inspect.unwrap(value), "__code__", None)
    except ValueError:
        return None
    is_code = isinstance(code, types.CodeType) and not code.co_filename.startswith("<string")
    return code if is_code else None


def _texts(codes: Iterable[types.CodeType]) -> Iterator[str]:
    """Iterate over the texts that may contain a definition with these `codes`, the most likely one first."""
    main = sys.modules[_MAIN]
    files = list(dict.fromkeys(code.co_filename for code in codes))
    if not files and (file := getattr(main, "__file__", None)):
        files = [file]
    for file in files:
        if lines := linecache.getlines(file, vars(main)):
            yield "".join(lines)
    if not files:  # a class without methods: the history of a notebook
        yield from (text for text in reversed(vars(main).get("_ih") or ()) if isinstance(text, str))


def _defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Iterate over the statements of a module, also in its ``if``, ``try`` and ``with`` blocks."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            for block in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, block, ()))
            for handler in getattr(node, "handlers", ()):
                yield from _top_level(handler.body)


def _attribute_chains(text: str) -> Iterator[list[str]]:
    """Iterate over the dotted names in a definition, such as ``["scipy", "stats", "norm"]``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            names = ast.unparse(node).split(".")
            if all(map(str.isidentifier, names)):
                yield names


def _global_names(text: str) -> list[str]:
    """Return the names of the module that a definition uses."""
    names: dict[str, None] = {}

    def visit(table: symtable.SymbolTable, is_top: bool) -> None:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (is_top or symbol.is_global()):
                names[symbol.get_name()] = None
        for child in table.get_children():
            visit(child, False)

    visit(symtable.symtable(text, "definition", "exec"), True)
    return list(names)
