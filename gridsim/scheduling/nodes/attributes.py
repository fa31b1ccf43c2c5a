"""The attributes of node programs: of the object, and of its class if nodes change them."""

from __future__ import annotations

import dis
import inspect
from functools import cache
from typing import Any

__all__ = ["assigned_attributes", "attributes_of", "instance_attributes"]


def instance_attributes(program: Any) -> dict[str, Any]:
    """Return the attributes of the object by name, including those in ``__slots__``."""
    state = object.__getstate__(program)
    plain, slots = state if isinstance(state, tuple) else (state, None)
    return {**(plain or {}), **(slots or {})}


def attributes_of(program: Any) -> dict[str, Any]:
    """Return the memory of a node by name: its attributes other than the parameters.

    Attributes of the class belong to it if methods assign them, or if they are annotated, but not as class
    variables.
    """
    policy: Any = type(program)
    attributes = {name: getattr(program, name) for name in _class_attributes(policy)}
    attributes |= instance_attributes(program)
    attributes.pop("parameters", None)
    return attributes


@cache
def assigned_attributes(policy: Any) -> frozenset[str]:
    """Return the names of the attributes that methods of `policy` assign."""
    methods = (entry for base in policy.__mro__ for entry in vars(base).values() if inspect.isfunction(entry))
    code = (dis.get_instructions(method) for method in methods)
    return frozenset(step.argval for steps in code for step in steps if step.opname == "STORE_ATTR")


@cache
def _class_attributes(policy: Any) -> tuple[str, ...]:
    """Return the attributes with a default in the class; properties with setters do not count."""
    names, targets = [], assigned_attributes(policy)
    for cls in reversed(policy.__mro__):
        annotations = vars(cls).get("__annotations__", {})
        for name, value in vars(cls).items():
            if isinstance(value, property) or inspect.ismemberdescriptor(value):
                continue
            if name in targets or name in annotations and "ClassVar" not in str(annotations[name]):
                names.append(name)
    return tuple(dict.fromkeys(names))
