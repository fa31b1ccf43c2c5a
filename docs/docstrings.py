"""Signatures for Sphinx: as they stand in the source, and those of compiled modules from their .pyi."""

from __future__ import annotations

import ast
import inspect
import types
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from sphinx.util.inspect import safe_getattr

# -- signatures, as they stand in the source -----------------------------------------------------------------


def signature_of(thing: Any) -> inspect.Signature | None:
    """Parameters and result, without self; None if nobody knows."""
    try:
        found = inspect.signature(declared(thing))
    except (TypeError, ValueError):
        return None
    kept = [each for each in found.parameters.values()]
    if kept and kept[0].name in ("self", "cls"):
        kept = kept[1:]
    return found.replace(parameters=kept)


def said(annotation: Any) -> str:
    """An annotation as source text."""
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(bare(annotation))


def bare(annotation: Any) -> Any:
    """A type without the limits that `Annotated` adds."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return bare(arguments[0])
    if origin in (Union, types.UnionType):
        return reduce(or_, map(bare, arguments))
    if origin is tuple:
        return tuple[tuple(map(bare, arguments))]
    return annotation


def signature(
    app: Any, what: str, name: str, thing: Any, options: Any, text: str | None, returned: str | None
) -> tuple[str, str] | None:
    """Sphinx's event ``autodoc-process-signature``: types as they stand in the source, or in the .pyi."""
    if text is None or what not in ("class", "exception", "function", "method"):
        return None
    found = signature_of(thing)
    if found is None:
        return None
    plain = [
        each.replace(annotation=Source(kind) if (kind := said(each.annotation)) else each.empty)
        for each in found.parameters.values()
    ]
    result = "" if what in ("class", "exception") else said(found.return_annotation)
    return str(inspect.Signature(plain)), result


class Source(str):
    """Text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


# -- compiled modules: their types are in the .pyi -----------------------------------------------------------


@cache
def stubs(module: str) -> dict[str, Any]:
    """Qualified name -> function with the signature of the .pyi; {} if the module has none."""
    loaded = import_module(module)
    file = str(getattr(loaded, "__file__", ""))
    path = Path(file).parent / f"{module.rpartition('.')[2]}.pyi"
    if not (file.endswith((".so", ".pyd")) and path.is_file()):
        return {}
    tree = ast.parse(path.read_text())
    found = {}
    for node in tree.body:
        of_class = isinstance(node, ast.ClassDef)
        for each in node.body if of_class else [node]:
            if isinstance(each, ast.FunctionDef):
                each.decorator_list = []
                future = "from __future__ import annotations\n"
                scope = dict(vars(loaded))
                exec(compile(future + ast.unparse(each), str(path), "exec"), scope)
                found[f"{node.name}.{each.name}" if of_class else each.name] = scope[each.name]
    return found


def declared(thing: Any) -> Any:
    """What has the signature of `thing`: itself, or its declaration in a .pyi."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module is None and (owner := getattr(thing, "__objclass__", None)) is not None:
        module = owner.__module__  # a compiled method
    if not str(module).startswith("gridcore."):
        return thing
    if isinstance(thing, type):
        name += ".__new__" if f"{name}.__new__" in stubs(module) else ".__init__"
    return stubs(module).get(name, thing)


def attribute(thing: Any, name: str, *default: Any) -> Any:
    """Sphinx asks a class for ``__new__`` to learn its signature; a compiled one does not tell."""
    if name == "__new__" and (stub := declared(thing)) is not thing:
        return stub
    return safe_getattr(thing, name, *default)


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", signature)
    app.add_autodoc_attrgetter(type, attribute)
