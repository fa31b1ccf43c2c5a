"""Definitions of methods in compiled node programs, and the checks of the arguments of calls.

Only the modules ``numba_...`` import this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin

from gridcore.common.names import listed
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_internals import cgutils, signature, templates
from gridsim.scheduling.nodes.numba_types import I64, METHODS, type_text

__all__ = [
    "bind_arguments",
    "define_method",
    "filled_row",
    "literal_text",
    "new_row",
    "number_type",
    "parameter_list",
    "store_word",
]


def define_method(type_: type, name: str) -> Callable[[Any], Any]:
    """Return a decorator that registers the method `name` of a type.

    The decorated class has two static methods.  ``infer(type_, args, kws)`` returns the type of the result,
    the types of the arguments and the parameters.  ``lower`` emits the code of a call.
    """

    def register(method: Any) -> Any:
        class ViewMethod(templates.AbstractTemplate):
            key = ("gridsim", type_, name)
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                result, argument_types, parameters = method.infer(self.this, args, kws)
                pysig = inspect.Signature(parameters)
                return signature(result, *argument_types, recvr=self.this).replace(pysig=pysig)

        METHODS.setdefault(type_, {})[name] = ViewMethod

        @lower_builtin(ViewMethod.key, type_, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return method.lower(context, builder, sig.args[0], args[0], sig.args[1:], args[1:])

        return method

    return register


def parameter_list(names: Any, defaults: dict[str, Any] | None = None) -> list[inspect.Parameter]:
    empty, kind = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=(defaults or {}).get(name, empty)) for name in names]


def bind_arguments(call: str, names: Any, args: Any, kws: Any, optional: Any = ()) -> dict[str, Any]:
    """Return name -> type of the arguments of a call; raise NotCompiled if they do not fit `names`."""
    if len(args) > len(names):
        raise NotCompiled(
            f"{call} takes at most {len(names)} arguments ({', '.join(names)}), got {len(args)}"
        )
    arguments = dict(zip(names, args, strict=False))
    for name, type_ in kws.items():
        if name not in names:
            raise NotCompiled(f"{call} has no argument {name!r}; {listed(names, name)}")
        if name in arguments:
            raise NotCompiled(f"{call} has the argument {name} twice")
        arguments[name] = type_
    missing = [name for name in names if name not in arguments and name not in optional]
    if missing:
        raise NotCompiled(f"{call} requires {', '.join(missing)}")
    return {name: arguments[name] for name in names if name in arguments}


def literal_text(path: str, type_: Any, known: Any) -> str:
    if not isinstance(type_, types.StringLiteral):
        raise NotCompiled(
            f"{path} must be a string literal, not a variable or an expression; {listed(known, '')}"
        )
    if type_.literal_value not in known:
        raise NotCompiled(f"{path} {type_.literal_value!r} is unknown; {listed(known, type_.literal_value)}")
    return str(type_.literal_value)


def number_type(path: str, kind: type, type_: Any) -> Any:
    """Return the type as which a number of `kind` is passed; raise NotCompiled if `type_` does not fit."""
    if isinstance(type_, types.Optional):
        raise NotCompiled(
            f"{path} must be a number, got a value that may be None; use a number such as -1 for None, or "
            "int(...) or float(...) where it is not None"
        )
    if kind is int and not isinstance(type_, (types.Integer, types.Boolean)):
        hint = "; int(...) makes one" if isinstance(type_, types.Float) else ""
        raise NotCompiled(f"{path} must be a whole number, got {type_text(type_)}{hint}")
    if not isinstance(type_, (types.Integer, types.Boolean, types.Float)):
        raise NotCompiled(f"{path} must be a number, got {type_text(type_)}")
    if kind is int and getattr(type_, "literal_type", type_) == types.uint64:
        raise NotCompiled(f"{path} must be below 2**63, got {type_text(type_)}; np.int64(...) makes one")
    return types.int64 if kind is int else types.float64


def store_word(context: Any, builder: Any, row: Any, at: int, value: Any) -> None:
    target = builder.bitcast(row, value.type.as_pointer())
    builder.store(value, builder.gep(target, [ir.Constant(I64, at)]))


def new_row(builder: Any, words: int) -> Any:
    """Return the address of int64 words."""
    row = cgutils.alloca_once(builder, ir.ArrayType(I64, max(1, words)))
    return builder.bitcast(row, I64.as_pointer())


def filled_row(context: Any, builder: Any, values: Any) -> Any:
    """Return the address of int64 words with `values`, ints and floats."""
    row = new_row(builder, len(values))
    for k, value in enumerate(values):
        store_word(context, builder, row, k, value)
    return row
