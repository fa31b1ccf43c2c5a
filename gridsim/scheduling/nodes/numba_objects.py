"""Kernels and shared arrays of compiled nodes as Numba sees them, and functions of `gridcore` that they call.

Kernels and functions declare the types of their arguments (`gridcore.nodes.node_memory.NodeKernel`), on which
the code of calls is based.  Only `gridsim.scheduling.nodes.compiled` imports this module, since it needs the
extra ``jit``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import infer_getattr, intrinsic, lower_builtin, overload_attribute, overload_method

from gridcore.common.names import listed
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.memory_types import FUNCTIONS, function_symbol, method_symbol
from gridsim.scheduling.nodes.numba_calls import number_type
from gridsim.scheduling.nodes.numba_internals import arrayobj, cgutils, signature, templates
from gridsim.scheduling.nodes.numba_messages import load_contents, strided
from gridsim.scheduling.nodes.numba_types import (
    I32,
    I64,
    PTR,
    KernelType,
    SharedArrayType,
    call_core,
    call_unchecked,
    check_result,
    load_word,
    type_text,
)

__all__: list[str] = []


def _argument_types(path: str, kinds: tuple[type, ...], args: Any, kws: Any) -> list[Any]:
    """Return the types as which arguments are passed; raise NotCompiled if they do not fit `kinds`."""
    if kws or len(args) != len(kinds):
        raise NotCompiled(
            f"{path} takes {len(kinds)} positional arguments, got {len(args)} and {len(dict(kws))} by name"
        )
    argument_types = []
    for k, (kind, type_) in enumerate(zip(kinds, args, strict=True), start=1):
        if kind is not np.int64:
            argument_types.append(number_type(f"argument {k} of {path}", kind, type_))
            continue
        is_array = isinstance(type_, types.Array) and type_.layout == "C" and type_.ndim == 1
        if not is_array or type_.dtype != types.int64:
            raise NotCompiled(
                f"argument {k} of {path} must be a contiguous array of int64, got {type_text(type_)}"
            )
        argument_types.append(type_)
    return argument_types


def _call(context: Any, builder: Any, symbol: str, result: Any, first: Any, types_: Any, args: Any) -> Any:
    """Call a C function with the values `first`, then `args`; an array is passed as address and length."""
    values = list(first)
    for type_, value in zip(types_, args, strict=True):
        if isinstance(type_, types.Array):
            array = arrayobj.make_array(type_)(context, builder, value)
            values += [array.data, array.nitems]
        else:
            values.append(value)
    kind = ir.FunctionType(result, [each.type for each in values])
    function = cgutils.get_or_insert_function(builder.module, kind, symbol)
    return check_result(context, builder, builder.call(function, values))


# -- kernels -------------------------------------------------------------------------------------------------

_lowered_names: set[str] = set()


@infer_getattr
class _KernelMethods(templates.AttributeTemplate):
    key = KernelType

    def generic_resolve(self, kernel: Any, attr: str) -> Any:
        methods, path = kernel.methods, f"{kernel.kind.__name__}.{attr}"
        if attr not in methods:
            if hasattr(kernel.kind, attr):
                raise NotCompiled(f"compiled nodes do not support {path}")
            raise NotCompiled(f"there is no {path}; {listed(sorted(methods), attr)}")

        class KernelMethod(templates.AbstractTemplate):
            key = ("gridsim kernel", attr)

            def generic(self, args: Any, kws: Any) -> Any:
                argument_types = _argument_types(path, methods[attr][1], args, kws)
                return signature(types.none, *argument_types, recvr=kernel)

        _lower_method(attr)
        return types.BoundFunction(KernelMethod, kernel)


def _lower_method(name: str) -> None:
    """Register a method name of kernels; the type of a kernel determines the C function that is called."""
    if name in _lowered_names:
        return
    _lowered_names.add(name)

    @lower_builtin(("gridsim kernel", name), KernelType, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kernel = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        symbol = method_symbol(sig.args[0].kind, name)
        first = [load_word(builder, kernel.head, 0, PTR)]
        _call(context, builder, symbol, I32, first, sig.args[1:], args[1:])
        return context.get_dummy_value()


# -- functions -----------------------------------------------------------------------------------------------


def _register_function(function: Any, kinds: tuple[type, ...]) -> None:
    @templates.infer_global(function)
    class FunctionTemplate(templates.AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(types.int64, *_argument_types(function.__name__, kinds, args, kws))

    @lower_builtin(function, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(context, builder, function_symbol(function), I64, [], sig.args, args)


for _function, (_, _kinds) in FUNCTIONS.items():
    _register_function(_function, _kinds)


# -- shared arrays -------------------------------------------------------------------------------------------


@intrinsic
def _values(typing: Any, array: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(array)(context, builder, value=args[0])
        contents = call_unchecked(builder, proxy.context, "shared_array", PTR, proxy.head)
        return load_contents(context, builder, array.values, contents)

    return array.values(array), lower


@intrinsic
def _set_values(typing: Any, array: Any, values: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(array)(context, builder, value=args[0])
        words = strided(context, builder, values, args[1])
        call_core(context, builder, proxy.context, "set_array", I32, proxy.head, words)
        return context.get_dummy_value()

    return types.none(array, values), lower


@overload_attribute(SharedArrayType, "values")
def _shared_values(array):  # type: ignore[no-untyped-def]
    return lambda array: _values(array)


@overload_method(SharedArrayType, "set")
def _set_shared(array, values):  # type: ignore[no-untyped-def]
    dtype = array.values.dtype
    if not isinstance(values, types.Buffer) or (values.ndim, values.dtype) != (1, dtype):
        raise NotCompiled(
            f"SharedArray.set takes an array of {dtype} of one dimension, got {type_text(values)}"
        )
    return lambda array, values: _set_values(array, values)
