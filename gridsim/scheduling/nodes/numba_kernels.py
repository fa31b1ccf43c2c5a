"""Kernels of `gridcore` in compiled nodes: summaries of availability, and reservations of slots.

`View.sample` and the methods of `View.slots` are called through the `Context` of the core; the functions of
`gridcore.fair_tree.summaries` are symbols that `gridsim.scheduling.nodes.compiled` registers.
Only `gridsim.scheduling.nodes.compiled` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, overload_attribute, register_model, typeof_impl

from gridcore.fair_tree import summaries
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import (
    bind_arguments,
    define_method,
    filled_row,
    number_type,
    parameter_list,
)
from gridsim.scheduling.nodes.numba_internals import (
    arrayobj,
    cgutils,
    listobj,
    lower_constant,
    signature,
    templates,
)
from gridsim.scheduling.nodes.numba_types import (
    APPLICATIONS,
    F64,
    I32,
    I64,
    PTR,
    NameType,
    SlotsType,
    ViewType,
    call_core,
    call_unchecked,
    check_result,
    load_word,
    type_text,
)

__all__: list[str] = []

_CELLS = types.uint32

# -- grids ---------------------------------------------------------------------------------------------------


class SummaryGridType(types.Opaque):
    """Numba type of one `SummaryGrid`, which is a constant of the machine code."""

    def __init__(self, grid: SummaryGrid) -> None:
        self.grid = grid
        super().__init__(f"SummaryGrid({hash(grid)})")

    @property
    def key(self) -> Any:
        return self.grid


register_model(SummaryGridType)(models.OpaqueModel)


@typeof_impl.register(SummaryGrid)
def _type_of_grid(grid: SummaryGrid, context: Any) -> SummaryGridType:
    return SummaryGridType(grid)


@lower_constant(SummaryGridType)
def _grid_constant(context: Any, builder: Any, type_: Any, value: Any) -> Any:
    return context.get_dummy_value()


def _define_grid_attribute(name: str) -> None:
    @overload_attribute(SummaryGridType, name)
    def load(grid):  # type: ignore[no-untyped-def]
        value = getattr(grid.grid, name)
        return lambda grid: value


for _name in ("cells", "shape", "stretch", "size", "task_size"):
    _define_grid_attribute(_name)


def _grid_pointer(builder: Any, grid: SummaryGrid) -> Any:
    """Return a pointer to a grid, `Grid` of gridcore.queues.availability."""
    row = cgutils.alloca_once(builder, ir.ArrayType(I64, 6))
    words = [ir.Constant(I64, length) for length in grid.shape]
    for axis in (grid.stretch, grid.size, grid.task_size):
        data = ir.Constant(ir.ArrayType(F64, len(axis)), axis.tolist())
        words.append(builder.ptrtoint(cgutils.global_constant(builder, "axis", data), I64))
    for k, word in enumerate(words):
        builder.store(word, cgutils.gep_inbounds(builder, row, 0, k))
    return row


def _new_array(context: Any, builder: Any, type_: Any, shape: Any) -> Any:
    """Return a new array, with undefined contents."""
    return arrayobj._empty_nd_impl(context, builder, type_, shape)


# -- the view ------------------------------------------------------------------------------------------------


@define_method(ViewType, "sample")
class _Sample:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        names = ("grid", "release", "memory")
        arguments = bind_arguments("view.sample", names, args, kws, optional=("release", "memory"))
        grid = arguments["grid"]
        if not isinstance(grid, SummaryGridType):
            raise NotCompiled(
                "the grid of view.sample must be a SummaryGrid of the module or of the parameters, got "
                f"{type_text(grid)}"
            )
        release = arguments.get("release", types.int64)
        if isinstance(release, types.NoneType):
            release = types.int64
        memory = number_type("the memory of view.sample", int, arguments.get("memory", types.int64))
        argument_types = [grid, number_type("the release of view.sample", int, release), memory]
        defaults = {"release": -(2**63), "memory": 0}
        return types.Array(_CELLS, 3, "C"), argument_types, parameter_list(names, defaults)

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        grid = types_[0].grid
        shape = [ir.Constant(I64, length) for length in grid.shape]
        array = _new_array(context, builder, types.Array(_CELLS, 3, "C"), shape)
        pointer = _grid_pointer(builder, grid)
        call_core(
            context, builder, proxy.context, "sample", I32, proxy.node, pointer, args[1], args[2], array.data
        )
        return array._getvalue()


def _slot_method(name: str, names: tuple[str, ...], is_reserved: int) -> None:
    @define_method(SlotsType, name)
    class _SlotMethod:
        @staticmethod
        def infer(slots: Any, args: Any, kws: Any) -> Any:
            arguments = bind_arguments(f"view.slots.{name}", names, args, kws)
            argument_types = [
                number_type(f"{argument} of view.slots.{name}", int, type_)
                for argument, type_ in arguments.items()
            ]
            return types.boolean, argument_types, parameter_list(names)

        @staticmethod
        def lower(context: Any, builder: Any, slots: Any, value: Any, types_: Any, args: Any) -> Any:
            proxy = cgutils.create_struct_proxy(slots)(context, builder, value=value)
            is_done = call_core(
                context,
                builder,
                proxy.context,
                "slots",
                I32,
                proxy.node,
                ir.Constant(I64, is_reserved),
                *args,
            )
            return builder.icmp_signed("!=", is_done, ir.Constant(I32, 0))


_slot_method("reserve", ("application", "attempt", "start", "slots"), 1)
_slot_method("release", ("application", "attempt", "start", "since"), 0)


@define_method(SlotsType, "extend")
class _Extend:
    @staticmethod
    def infer(slots: Any, args: Any, kws: Any) -> Any:
        names = ("application", "attempt", "start", "end")
        arguments = bind_arguments("view.slots.extend", names, args, kws)
        argument_types = [
            number_type(f"{name} of view.slots.extend", int, type_) for name, type_ in arguments.items()
        ]
        return types.Optional(APPLICATIONS), argument_types, parameter_list(names)

    @staticmethod
    def lower(context: Any, builder: Any, slots: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(slots)(context, builder, value=value)
        # head of a queue of released reservations
        head = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(I64, 2)), PTR)
        cgutils.memset(builder, head, ir.Constant(I64, 16), 0)
        is_extended = call_core(context, builder, proxy.context, "extend_slots", I32, proxy.node, *args, head)
        result = cgutils.alloca_once_value(builder, context.make_optional_none(builder, APPLICATIONS))
        with builder.if_then(builder.icmp_signed("!=", is_extended, ir.Constant(I32, 0))):
            count = builder.zext(load_word(builder, head, 3, I32), I64)
            released = listobj.ListInstance.allocate(context, builder, APPLICATIONS, count)
            released.size = count
            with cgutils.for_range(builder, count) as loop:
                row = builder.bitcast(released._gep(loop.index), I64.as_pointer())
                call_unchecked(builder, proxy.context, "queue_pop", I32, head, row, ir.Constant(I64, 2))
            call_unchecked(builder, proxy.context, "rows_clear", I32, head)
            builder.store(context.make_optional_value(builder, APPLICATIONS, released.value), result)
        return builder.load(result)


# -- functions of summaries ----------------------------------------------------------------------------------


def _kernel(function: Any, names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that registers a function; the decorated class is as for `define_method`."""

    def register(definition: Any) -> Any:
        path = function.__name__

        @templates.infer_global(function)
        class KernelTemplate(templates.AbstractTemplate):
            key = function
            prefer_literal = True

            def generic(self, args: Any, kws: Any) -> Any:
                arguments = bind_arguments(path, names, args, kws, optional=defaults)
                parameters = parameter_list(names, defaults)
                types_ = [arguments.get(name, types.none) for name in names]
                result, argument_types = definition.infer(*types_)
                return signature(result, *argument_types).replace(pysig=inspect.Signature(parameters))

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return definition.lower(context, builder, sig, *args)

        return definition

    return register


def _call_kernel(context: Any, builder: Any, name: str, result: Any, *args: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in args])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return check_result(context, builder, builder.call(function, args))


def _cells_type(path: str, type_: Any, ndim: int | None = None) -> Any:
    is_array = isinstance(type_, types.Array) and type_.layout == "C" and type_.dtype == _CELLS
    if not is_array or type_.ndim != (ndim or max(2, type_.ndim)):
        dimensions = f"{ndim}" if ndim else "at least 2"
        raise NotCompiled(
            f"{path} must be a contiguous array of uint32 of {dimensions} dimensions, got {type_text(type_)}"
        )
    return type_


@_kernel(summaries.aggregate, ("children",), {})
class _Aggregate:
    @staticmethod
    def infer(children: Any) -> Any:
        _cells_type("children of aggregate", children)
        return types.Array(_CELLS, children.ndim - 1, "C"), [children]

    @staticmethod
    def lower(context: Any, builder: Any, sig: Any, value: Any) -> Any:
        children = arrayobj.make_array(sig.args[0])(context, builder, value)
        count, *shape = cgutils.unpack_tuple(builder, children.shape, sig.args[0].ndim)
        array = _new_array(context, builder, sig.return_type, shape)
        _call_kernel(
            context, builder, "gridcore_aggregate", I32, children.data, count, array.nitems, array.data
        )
        return array._getvalue()


def _check_vector(path: str, dtype: Any, type_: Any) -> None:
    is_array = isinstance(type_, types.Array) and type_.layout == "C" and type_.ndim == 1
    if not is_array or type_.dtype != dtype:
        raise NotCompiled(f"{path} must be a contiguous array of {dtype}, got {type_text(type_)}")


@_kernel(summaries.split, ("available", "n_tasks"), {})
class _Split:
    @staticmethod
    def infer(available: Any, n_tasks: Any) -> Any:
        _check_vector("available of split", types.int64, available)
        argument_types = [available, number_type("n_tasks of split", int, n_tasks)]
        return types.Array(types.int64, 1, "C"), argument_types

    @staticmethod
    def lower(context: Any, builder: Any, sig: Any, available: Any, n_tasks: Any) -> Any:
        capacity = arrayobj.make_array(sig.args[0])(context, builder, available)
        array = _new_array(context, builder, sig.return_type, [capacity.nitems])
        cgutils.memset(builder, array.data, builder.mul(capacity.nitems, ir.Constant(I64, 8)), 0)
        _call_kernel(
            context, builder, "gridcore_split", I32, capacity.data, capacity.nitems, n_tasks, array.data
        )
        return array._getvalue()


@_kernel(summaries.lowest_stretch, ("totals", "n_tasks"), {})
class _LowestStretch:
    @staticmethod
    def infer(totals: Any, n_tasks: Any) -> Any:
        _check_vector("totals of lowest_stretch", types.int64, totals)
        argument_types = [totals, number_type("n_tasks of lowest_stretch", int, n_tasks)]
        return types.Optional(types.int64), argument_types

    @staticmethod
    def lower(context: Any, builder: Any, sig: Any, totals: Any, n_tasks: Any) -> Any:
        values = arrayobj.make_array(sig.args[0])(context, builder, totals)
        index = _call_kernel(context, builder, "gridcore_stretch", I64, values.data, values.nitems, n_tasks)
        return builder.select(
            builder.icmp_signed("==", index, values.nitems),
            context.make_optional_none(builder, types.int64),
            context.make_optional_value(builder, types.int64, index),
        )


def _check_summary(call: str, summary: Any, grid: Any) -> None:
    _cells_type(f"summary of {call}", summary, 3)
    if not isinstance(grid, SummaryGridType):
        raise NotCompiled(f"grid of {call} must be a SummaryGrid, got {type_text(grid)}")


def _cells_of_grid(context: Any, builder: Any, sig: Any, summary: Any) -> Any:
    """Return the array of a summary, the first argument; raise ValueError without the shape of its grid."""
    shape = sig.args[1].grid.shape
    cells = arrayobj.make_array(sig.args[0])(context, builder, summary)
    for length, expected in zip(cgutils.unpack_tuple(builder, cells.shape, 3), shape, strict=True):
        is_wrong = builder.icmp_signed("!=", length, ir.Constant(I64, expected))
        with cgutils.if_unlikely(builder, is_wrong):
            text = f"summary must have the shape of its grid {shape}"
            context.call_conv.return_user_exc(builder, ValueError, (text,))
    return cells


_LOOKUP = ("summary", "grid", "stretch", "size", "task_size", "release", "cell_release")
_BOUNDS = {"speed": float, "leaves": float, "longest_task": float}


@_kernel(summaries.lookup, (*_LOOKUP, *_BOUNDS), dict.fromkeys(_BOUNDS))
class _Lookup:
    @staticmethod
    def infer(summary: Any, grid: Any, *numbers: Any) -> Any:
        _check_summary("lookup", summary, grid)
        names = (*_LOOKUP[2:], *_BOUNDS)
        argument_types = [
            type_
            if isinstance(type_, types.NoneType) and name in _BOUNDS
            else number_type(f"{name} of lookup", int if name == "leaves" else float, type_)
            for name, type_ in zip(names, numbers, strict=True)
        ]
        return types.int64, [summary, grid, *argument_types]

    @staticmethod
    def lower(context: Any, builder: Any, sig: Any, summary: Any, grid: Any, *numbers: Any) -> Any:
        cells = _cells_of_grid(context, builder, sig, summary)
        known, words = 0, list(numbers[:5])
        for k, (type_, number) in enumerate(zip(sig.args[7:], numbers[5:], strict=True)):
            is_known = not isinstance(type_, types.NoneType)
            known |= is_known << k
            words.append(
                context.cast(builder, number, type_, types.float64) if is_known else ir.Constant(F64, 1.0)
            )
        pointer, flags = _grid_pointer(builder, sig.args[1].grid), ir.Constant(I64, known)
        arguments = [cells.data, pointer, *words[:5], flags, *words[5:]]
        return _call_kernel(context, builder, "gridcore_lookup", I64, *arguments)


#: The vectors of `debit` with the types of their elements; a number stands for one element.
_DISPATCHES = {
    "tasks": types.int64, "task_size": types.float64, "size": types.float64, "stretch": types.float64,
    "age": types.float64,
}  # fmt: skip
_RULES = ("subtree", "printed")


@_kernel(
    summaries.debit,
    ("summary", "grid", "tasks", "task_size", "size", "stretch", "leaves", "age", "rule"),
    {"age": None, "rule": None},
)
class _Debit:
    @staticmethod
    def infer(summary: Any, grid: Any, *arguments: Any) -> Any:
        _check_summary("debit", summary, grid)
        *vectors, leaves, age, rule = arguments
        argument_types = []
        for (name, dtype), type_ in zip(_DISPATCHES.items(), [*vectors, age], strict=True):
            path = f"{name} of debit"
            if isinstance(type_, types.Array):
                _check_vector(path, dtype, type_)
            elif not (name == "age" and isinstance(type_, types.NoneType)):
                type_ = number_type(path, int if dtype == types.int64 else float, type_)
            argument_types.append(type_)
        if not isinstance(rule, types.NoneType) and _text(rule) not in _RULES:
            raise NotCompiled(f"rule of debit must be one of the literals {_RULES}, got {type_text(rule)}")
        argument_types.insert(-1, number_type("leaves of debit", int, leaves))
        return types.Array(_CELLS, 3, "C"), [summary, grid, *argument_types, rule]

    @staticmethod
    def lower(context: Any, builder: Any, sig: Any, summary: Any, grid: Any, *arguments: Any) -> Any:
        cells = _cells_of_grid(context, builder, sig, summary)
        leaves, words = arguments[4], []
        for k in (0, 1, 2, 3, 5):
            type_, value = sig.args[2 + k], arguments[k]
            if isinstance(type_, types.NoneType):
                words += [ir.Constant(I64, 0), ir.Constant(I64, -1)]
            elif isinstance(type_, types.Array):
                array = arrayobj.make_array(type_)(context, builder, value)
                words += [builder.ptrtoint(array.data, I64), array.nitems]
            else:
                at = cgutils.alloca_once_value(builder, value)
                words += [builder.ptrtoint(at, I64), ir.Constant(I64, 1)]
        shape = [ir.Constant(I64, length) for length in sig.args[1].grid.shape]
        result = _new_array(context, builder, sig.return_type, shape)
        is_printed = ir.Constant(I64, int(_text(sig.args[8]) == "printed"))
        pointer = _grid_pointer(builder, sig.args[1].grid)
        row = filled_row(context, builder, words)
        _call_kernel(
            context, builder, "gridcore_debit", I32, cells.data, pointer, row, leaves, is_printed, result.data
        )
        return result._getvalue()


def _text(type_: Any) -> str:
    """Return the text that a type stands for: a literal, or a parameter of the scheduler."""
    return type_.names[0] if isinstance(type_, NameType) else getattr(type_, "literal_value", "")
