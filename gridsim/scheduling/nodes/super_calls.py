"""Calls of ``super()`` in the methods of node programs, which Numba does not know.

``super().name`` in a method becomes ``self.name@k``, an attribute with the name `base_name`: the member that
the classes of the program have from number k of the method resolution order on.
"""

from __future__ import annotations

import ast
import types
from typing import Any

__all__ = ["base_name", "has_super", "method_text", "recompiled", "replace_super", "split_base_name"]


def base_name(name: str, start: int) -> str:
    """Return the name of the member `name` that the classes of a program have from number `start` on."""
    return f"{name}@{start}"


def split_base_name(name: str) -> tuple[str, int]:
    """Return the arguments of `base_name`; with 0 for a plain name."""
    name, _, start = name.partition("@")
    return name, int(start or 0)


def method_text(name: str) -> str:
    """Return ``self.name``, or ``super().name`` for a name from `base_name`."""
    name, start = split_base_name(name)
    return f"super().{name}" if start else f"self.{name}"


def has_super(function: Any) -> bool:
    """Return whether a method calls ``super()``."""
    return "super" in function.__code__.co_names and "__class__" in function.__code__.co_freevars


def replace_super(function: Any, policy: type, tree: ast.Module) -> None:
    """Replace ``super().name`` in `tree`, the source of a method of `policy`."""
    owner = _free_variables(function)["__class__"].cell_contents
    _SuperCalls(function.__code__.co_varnames[0], policy.__mro__.index(owner) + 1).visit(tree)


class _SuperCalls(ast.NodeTransformer):
    def __init__(self, node_name: str, start: int) -> None:
        self.node_name, self.start = node_name, start

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]):
                node.value = ast.copy_location(ast.Name(self.node_name, ast.Load()), node.value)
                node.attr = base_name(node.attr, self.start)
        return node


def recompiled(function: Any, tree: ast.Module) -> Any:
    """Return the method `function` with the code of `tree`, its changed source."""
    definition: Any = tree.body[0]
    definition.decorator_list = []
    cells = _free_variables(function)
    # private names depend on the class, and free variables on an outer function
    owner = cells["__class__"].cell_contents.__name__
    outer: Any = ast.parse(f"def outer({', '.join(cells.keys() - {'__class__'})}):\n class {owner}: pass")
    outer.body[0].body[0].body = [definition]
    made = compile(outer, function.__code__.co_filename, "exec", dont_inherit=True)
    for name in ("outer", owner, definition.name):
        made = next(entry for entry in made.co_consts if getattr(entry, "co_name", "") == name)
    closure = tuple(cells[name] for name in made.co_freevars)
    return types.FunctionType(made, function.__globals__, function.__name__, function.__defaults__, closure)


def _free_variables(function: Any) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
