"""The types of objects in the memory of compiled nodes, and of the functions that these nodes call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gridcore.nodes.containers import Container
from gridcore.nodes.node_memory import MemoryObject, NodeKernel
from gridcore.nodes.waiting_times import functions

__all__ = ["FUNCTIONS", "function_symbol", "method_symbol", "symbols_of", "type_key"]

#: Function that compiled handlers may call -> its address and the types of its arguments.
FUNCTIONS: dict[Callable[..., int], tuple[int, tuple[type, ...]]] = functions()


def type_key(value: MemoryObject) -> tuple[Any, ...]:
    """Return the properties of an object on which code depends: class, and columns, methods or type."""
    if isinstance(value, Container):
        return type(value), value.columns.names, value.columns.kinds
    if isinstance(value, NodeKernel):
        return type(value), [(name, kinds) for name, (_, kinds) in value.methods.items()]
    return type(value), repr(value)


def method_symbol(kernel: type[NodeKernel], method: str) -> str:
    """Return the name by which the code of nodes calls a method of a kernel."""
    return f"gridcore_{kernel.__name__}_{method}"


def function_symbol(function: Callable[..., int]) -> str:
    """Return the name by which the code of nodes calls a function of `gridcore`."""
    return f"gridcore_{function.__name__}"


def symbols_of(objects: dict[str, MemoryObject]) -> dict[str, int]:
    """Return the addresses of C functions, including methods of `objects`, by name."""
    methods = {
        method_symbol(type(value), name): address
        for value in objects.values()
        if isinstance(value, NodeKernel)
        for name, (address, _) in value.methods.items()
    }
    return methods | {function_symbol(each): address for each, (address, _) in FUNCTIONS.items()}
