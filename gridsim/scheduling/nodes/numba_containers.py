"""The containers of compiled nodes as Numba sees them: their methods, operators and iteration.

A value is a pointer to the head in the record of the node, and the context, which has the functions of
`gridcore.nodes.rows`.  Only `gridsim.scheduling.nodes.numba_methods` imports this module, since it needs the
extra ``jit``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import infer, infer_getattr, lower_builtin, models, register_model

from gridcore.common.names import listed
from gridcore.nodes.containers import Fifo, Heap, IntMap, IntSet
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import number_type
from gridsim.scheduling.nodes.numba_internals import (
    RefType,
    cgutils,
    iternext_impl,
    length_of_iterator,
    signature,
    templates,
)
from gridsim.scheduling.nodes.numba_types import (
    F64,
    I32,
    I64,
    PTR,
    ContainerType,
    call_checked,
    call_unchecked,
    type_text,
)

_WORDS = I64.as_pointer()


# -- rows ----------------------------------------------------------------------------------------------------


def _value_types(container: ContainerType) -> list[Any]:
    return [types.float64 if kind is float else types.int64 for kind in container.kinds]


def _row_type(container: ContainerType) -> Any:
    """Return the type of a row without its key: a number for one column, otherwise a tuple."""
    values = _value_types(container)
    return values[0] if len(values) == 1 else types.Tuple(values)


def _has_key(container: ContainerType) -> bool:
    return container.kind in (IntMap, IntSet)


def _words(container: ContainerType) -> Any:
    return ir.Constant(I64, len(container.kinds) + _has_key(container))


def _reals(container: ContainerType) -> Any:
    return ir.Constant(I64, sum(1 << k for k, kind in enumerate(container.kinds) if kind is float))


def _parts(context: Any, builder: Any, container: ContainerType, value: Any) -> tuple[Any, Any]:
    """Return the pointers to the context and to the head."""
    proxy = cgutils.create_struct_proxy(container)(context, builder, value=value)
    return proxy.context, proxy.head


def _scratch_row(builder: Any, container: ContainerType) -> Any:
    row = cgutils.alloca_once(builder, ir.ArrayType(I64, len(container.kinds) + 1))
    return builder.bitcast(row, _WORDS)


def _word(builder: Any, row: Any, k: int, as_: Any) -> Any:
    return builder.gep(builder.bitcast(row, as_.as_pointer()), [ir.Constant(I64, k)])


def _load_row(context: Any, builder: Any, container: ContainerType, row: Any) -> Any:
    """Load the values of a row, without its key, as `_row_type` describes them."""
    values = [
        builder.load(_word(builder, row, k + _has_key(container), F64 if kind is float else I64))
        for k, kind in enumerate(container.kinds)
    ]
    return values[0] if len(values) == 1 else context.make_tuple(builder, _row_type(container), values)


def _store_row(builder: Any, container: ContainerType, row: Any, values: Any) -> None:
    for k, value in enumerate(values):
        builder.store(value, _word(builder, row, k + _has_key(container), value.type))


def _head_field(builder: Any, head: Any, k: int) -> Any:
    """Load ``first`` (2) or ``n`` (3) of a head, as 64 bits."""
    return builder.zext(
        builder.load(builder.gep(builder.bitcast(head, I32.as_pointer()), [ir.Constant(I64, k)])), I64
    )


# -- methods -------------------------------------------------------------------------------------------------

#: (class of the container, method) -> (types of the arguments, type of the result, code of a call)
_METHODS: dict[
    tuple[type, str], tuple[Callable[[Any], list[Any]], Callable[[Any], Any], Callable[..., Any]]
] = {}


#: (class of the container, method) -> number of the last arguments that a call may leave out
_OPTIONAL: dict[tuple[type, str], int] = {}


def _method(
    kinds: tuple[type, ...], name: str, arguments: Any, result: Any, optional: int = 0
) -> Callable[[Any], Any]:
    def register(lower: Any) -> Any:
        for kind in kinds:
            _METHODS[kind, name], _OPTIONAL[kind, name] = (arguments, result, lower), optional
        _lower_calls(name)
        return lower

    return register


_method_names: set[str] = set()


def _lower_calls(name: str) -> None:
    if name in _method_names:
        return
    _method_names.add(name)

    @lower_builtin(("gridsim container", name), ContainerType, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        container = sig.args[0]
        lower = _METHODS[container.kind, name][2]
        core_context, head = _parts(context, builder, container, args[0])
        result = lower(context, builder, container, core_context, head, *args[1:])
        return context.get_dummy_value() if result is None else result


def _as_number(path: str, kind: Any, value: Any) -> Any:
    """Return `kind`, int64 or float64; raise NotCompiled if a `value` type cannot be converted to it."""
    return number_type(path, int if kind == types.int64 else float, value)


def _check_value(path: str, kind: Any, value: Any) -> None:
    """Raise NotCompiled unless `value`, the type of an argument of a method, can be converted to `kind`."""
    columns, entries = (
        type_.types if isinstance(type_, types.BaseTuple) else (type_,) for type_ in (kind, value)
    )
    if len(columns) != len(entries) or isinstance(value, types.NoneType):
        zeros = ", ".join("0.0" if column == types.float64 else "0" for column in columns)
        example = f"a row such as ({zeros})" if len(columns) > 1 else f"a number such as {zeros}"
        remedy = "; `key in map` tells whether a key is there" if path.startswith("IntMap") else ""
        value_text = "None" if isinstance(value, types.NoneType) else type_text(value)
        raise NotCompiled(f"a value of {path} must be {example}, got {value_text}{remedy}")
    for column, entry in zip(columns, entries, strict=True):
        _as_number(f"a value of {path}", column, entry)


@infer_getattr
class _ContainerMethods(templates.AttributeTemplate):
    key = ContainerType

    def generic_resolve(self, container: Any, attr: str) -> Any:
        kind = container.kind
        if (kind, attr) not in _METHODS:
            if hasattr(kind, attr):
                raise NotCompiled(f"compiled nodes do not support {kind.__name__}.{attr}")
            known = sorted(name for owner, name in _METHODS if owner is kind)
            raise NotCompiled(f"there is no {kind.__name__}.{attr}; {listed(known, attr)}")
        arguments, result, _ = _METHODS[kind, attr]

        class Method(templates.AbstractTemplate):
            key = ("gridsim container", attr)

            def generic(self, args: Any, kws: Any) -> Any:
                expected, path = arguments(container), f"{kind.__name__}.{attr}"
                optional = _OPTIONAL.get((kind, attr), 0)
                if kws:
                    raise NotCompiled(f"{path} does not support keyword arguments in compiled nodes")
                if not len(expected) - optional <= len(args) <= len(expected):
                    counts = " or ".join(map(str, range(len(expected) - optional, len(expected) + 1)))
                    raise NotCompiled(f"{path} takes {counts} values, got {len(args)}")
                expected = expected[: len(args)]
                for argument, value in zip(expected, args, strict=True):
                    _check_value(path, argument, value)
                return signature(result(container), *expected, recvr=container)

        return types.BoundFunction(Method, container)


def _no_arguments(container: Any) -> list[Any]:
    return []


def _key_argument(container: Any) -> list[Any]:
    return [types.int64]


def _no_result(container: Any) -> Any:
    return types.none


@_method((Fifo,), "push", _value_types, _no_result)
def _fifo_push(
    context: Any, builder: Any, container: Any, core_context: Any, head: Any, *values: Any
) -> None:
    row = call_checked(context, builder, core_context, "queue_push", _WORDS, head, _words(container))
    _store_row(builder, container, row, values)


@_method((Fifo,), "pop", _no_arguments, _row_type)
def _fifo_pop(context: Any, builder: Any, container: Any, core_context: Any, head: Any) -> Any:
    row = _scratch_row(builder, container)
    call_checked(context, builder, core_context, "queue_pop", I32, head, row, _words(container))
    return _load_row(context, builder, container, row)


@_method((Heap,), "push", _value_types, _no_result)
def _heap_push(
    context: Any, builder: Any, container: Any, core_context: Any, head: Any, *values: Any
) -> None:
    row = _scratch_row(builder, container)
    _store_row(builder, container, row, values)
    call_checked(
        context, builder, core_context, "heap_push", I32, head, row, _words(container), _reals(container)
    )


@_method((Heap,), "pop", _no_arguments, _row_type)
def _heap_pop(context: Any, builder: Any, container: Any, core_context: Any, head: Any) -> Any:
    row = _scratch_row(builder, container)
    call_checked(
        context, builder, core_context, "heap_pop", I32, head, row, _words(container), _reals(container)
    )
    return _load_row(context, builder, container, row)


@_method((IntSet,), "add", _key_argument, _no_result)
def _set_add(context: Any, builder: Any, container: Any, core_context: Any, head: Any, key: Any) -> None:
    call_checked(context, builder, core_context, "map_put", _WORDS, head, key, _words(container))


@_method((IntSet,), "discard", _key_argument, _no_result)
def _set_discard(context: Any, builder: Any, container: Any, core_context: Any, head: Any, key: Any) -> None:
    call_unchecked(builder, core_context, "map_discard", I64, head, key, _words(container))


@_method((IntSet,), "remove", _key_argument, _no_result)
def _set_remove(context: Any, builder: Any, container: Any, core_context: Any, head: Any, key: Any) -> None:
    call_checked(context, builder, core_context, "map_remove", I32, head, key, _words(container))


@_method((IntSet,), "pop", _no_arguments, lambda container: types.int64)
def _set_pop(context: Any, builder: Any, container: Any, core_context: Any, head: Any) -> Any:
    row = _scratch_row(builder, container)
    call_checked(context, builder, core_context, "map_pop", I32, head, row, _words(container))
    return builder.load(row)


def _key_and_default(container: Any) -> list[Any]:
    return [types.int64, _row_type(container)]


@_method((IntMap,), "get", _key_and_default, _row_type)
def _map_get(
    context: Any, builder: Any, container: Any, core_context: Any, head: Any, key: Any, default: Any
) -> Any:
    row = call_unchecked(builder, core_context, "map_find", _WORDS, head, key, _words(container))
    out = cgutils.alloca_once_value(builder, default)
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, row)):
        builder.store(_load_row(context, builder, container, row), out)
    return builder.load(out)


@_method((IntMap,), "pop", _key_and_default, _row_type, optional=1)
def _map_pop(
    context: Any, builder: Any, container: Any, core_context: Any, head: Any, key: Any, *default: Any
) -> Any:
    if default:
        value = _map_get(context, builder, container, core_context, head, key, *default)
    else:
        row = call_checked(context, builder, core_context, "map_get", _WORDS, head, key, _words(container))
        value = _load_row(context, builder, container, row)
    call_unchecked(builder, core_context, "map_discard", I64, head, key, _words(container))
    return value


@_method((Fifo, Heap, IntMap, IntSet), "clear", _no_arguments, _no_result)
def _clear(context: Any, builder: Any, container: Any, core_context: Any, head: Any) -> None:
    call_unchecked(builder, core_context, "rows_clear", I32, head)


# -- operators -----------------------------------------------------------------------------------------------


def _infer(function: Any, rule: Callable[..., Any]) -> None:
    """Register `rule`, which gets the types of the arguments of `function` and returns the signature."""

    @templates.infer_global(function)
    class Template(templates.AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            return rule(*args) if args and isinstance(args[0], ContainerType) else None


def _count(builder: Any, container: ContainerType, head: Any) -> Any:
    return _head_field(builder, head, 2 if _has_key(container) else 3)


_infer(len, lambda container: signature(types.int64, container))
_infer(bool, lambda container: signature(types.boolean, container))
_infer(operator.not_, lambda container: signature(types.boolean, container))


@lower_builtin(len, ContainerType)
def _len(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _count(builder, sig.args[0], _parts(context, builder, sig.args[0], args[0])[1])


@lower_builtin(bool, ContainerType)
def _truth(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    count = _count(builder, sig.args[0], _parts(context, builder, sig.args[0], args[0])[1])
    return builder.icmp_signed(">", count, ir.Constant(I64, 0))


@lower_builtin(operator.not_, ContainerType)
def _is_empty(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.not_(_truth(context, builder, sig, args))


def member_type(container: ContainerType) -> Any:
    """Return the type of the elements of an iteration: keys, or rows of a container without keys."""
    return types.int64 if _has_key(container) else _row_type(container)


def load_member(context: Any, builder: Any, container: ContainerType, value: Any, k: Any) -> Any:
    """Return element `k` in the order of an iteration."""
    core_context, head = _parts(context, builder, container, value)
    place = "map_at" if _has_key(container) else "queue_at"
    row = call_checked(context, builder, core_context, place, _WORDS, head, k, _words(container))
    return builder.load(row) if _has_key(container) else _load_row(context, builder, container, row)


def _infer_item(container: Any, index: Any) -> Any:
    name = "key" if container.kind is IntMap else "index"
    return signature(
        types.int64 if container.kind is IntSet else _row_type(container),
        container,
        _as_number(f"{name} of {container.kind.__name__}", types.int64, index),
    )


_infer(operator.getitem, _infer_item)
_ITEMS = {Heap: "heap_at", IntMap: "map_get"}


@lower_builtin(operator.getitem, ContainerType, types.Integer)
def _item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    container = sig.args[0]
    if container.kind not in _ITEMS:
        return load_member(context, builder, container, *args)
    core_context, head = _parts(context, builder, container, args[0])
    words = () if container.kind is Heap else (_words(container),)
    row = call_checked(context, builder, core_context, _ITEMS[container.kind], _WORDS, head, args[1], *words)
    return _load_row(context, builder, container, row)


#: Class of a container with rows that can be assigned and deleted -> the functions of the core for both.
_ROW_CHANGES = {Fifo: ("queue_at", "queue_delete"), IntMap: ("map_put", "map_remove")}


def _infer_assignment(container: Any, key: Any, value: Any) -> Any:
    name = container.kind.__name__
    if container.kind not in _ROW_CHANGES:
        raise NotCompiled(f"{name} does not support assignment to its rows")
    row, path = _row_type(container), f"a value of {name}[...]"
    if isinstance(row, types.BaseTuple) != isinstance(value, types.BaseTuple):
        raise NotCompiled(f"{path} must be {row}, got {type_text(value)}")
    if isinstance(value, types.BaseTuple) and len(value) == len(row):
        for column, entry in zip(row, value, strict=True):
            _as_number(path, column, entry)
    elif not isinstance(value, types.BaseTuple):
        _as_number(path, row, value)
    else:
        raise NotCompiled(f"{path} must have {len(row)} numbers, got {len(value)}")
    return signature(types.none, container, _as_number(f"the index of a {name}", types.int64, key), row)


_infer(operator.setitem, _infer_assignment)


@lower_builtin(operator.setitem, ContainerType, types.Integer, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    container = sig.args[0]
    core_context, head = _parts(context, builder, container, args[0])
    values = [args[2]] if len(container.kinds) == 1 else cgutils.unpack_tuple(builder, args[2])
    place = _ROW_CHANGES[container.kind][0]
    row = call_checked(context, builder, core_context, place, _WORDS, head, args[1], _words(container))
    _store_row(builder, container, row, values)
    return context.get_dummy_value()


def _infer_deletion(container: Any, key: Any) -> Any:
    name = container.kind.__name__
    if container.kind not in _ROW_CHANGES:
        raise NotCompiled(f"{name} does not support del of its rows")
    return signature(types.none, container, _as_number(f"the index of a {name}", types.int64, key))


_infer(operator.delitem, _infer_deletion)


@lower_builtin(operator.delitem, ContainerType, types.Integer)
def _delete_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    container = sig.args[0]
    core_context, head = _parts(context, builder, container, args[0])
    remove = _ROW_CHANGES[container.kind][1]
    call_checked(context, builder, core_context, remove, I32, head, args[1], _words(container))
    return context.get_dummy_value()


def _infer_contains(container: Any, key: Any) -> Any:
    if not _has_key(container):
        raise NotCompiled(f"compiled nodes do not support `in` of a {container.kind.__name__}")
    return signature(types.boolean, container, _as_number("a key", types.int64, key))


_infer(operator.contains, _infer_contains)


@lower_builtin(operator.contains, ContainerType, types.Integer)
def _contains(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    core_context, head = _parts(context, builder, sig.args[0], args[0])
    row = call_unchecked(builder, core_context, "map_find", _WORDS, head, args[1], _words(sig.args[0]))
    return cgutils.is_not_null(builder, row)


# -- iteration -----------------------------------------------------------------------------------------------


class ContainerIteratorType(types.SimpleIteratorType):
    """Iterator over a `ContainerType`, which may yield pairs of a key and its value."""

    def __init__(self, container: ContainerType, has_pairs: bool = False) -> None:
        self.container, self.has_pairs = container, has_pairs
        key = member_type(container)
        member = types.Tuple([key, _row_type(container)]) if has_pairs else key
        super().__init__(f"iterator of {'items of ' if has_pairs else ''}{container}", member)


@register_model(ContainerIteratorType)
class _IteratorModel(models.StructModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        members = [
            ("container", fe_type.container),
            # the two words of the head when the iteration began, and the number of the next row
            *((name, types.EphemeralPointer(types.int64)) for name in ("block", "counts", "at")),
        ]
        super().__init__(manager, fe_type, members)


@infer
class _GetIterator(templates.AbstractTemplate):
    key = "getiter"

    def generic(self, args: Any, kws: Any) -> Any:
        container = args[0]
        if not isinstance(container, ContainerType):
            return None
        if container.kind is Heap:
            raise NotCompiled("a Heap does not support iteration: its rows are not in order")
        return signature(ContainerIteratorType(container), container)


@lower_builtin("getiter", ContainerType)
def _iterate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    core_context, head = _parts(context, builder, sig.args[0], args[0])
    return _new_iterator(context, builder, sig.return_type, core_context, head)


def _new_iterator(context: Any, builder: Any, type_: Any, core_context: Any, head: Any) -> Any:
    iterator = cgutils.create_struct_proxy(type_)(context, builder)
    container = cgutils.create_struct_proxy(type_.container)(context, builder)
    container.context, container.head = core_context, head
    iterator.container = container._getvalue()
    for name, k in (("block", 0), ("counts", 1)):
        word = builder.load(_word(builder, head, k, I64))
        setattr(iterator, name, cgutils.alloca_once_value(builder, word))
    iterator.at = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
    return iterator._getvalue()


def _pairs_type(container: Any) -> Any:
    return ContainerIteratorType(container, has_pairs=True)


@_method((IntMap,), "items", _no_arguments, _pairs_type)
def _map_items(context: Any, builder: Any, container: Any, core_context: Any, head: Any) -> Any:
    return _new_iterator(context, builder, _pairs_type(container), core_context, head)


@lower_builtin("iternext", ContainerIteratorType)
@iternext_impl(RefType.UNTRACKED)
def _next_row(context: Any, builder: Any, sig: Any, args: Any, result: Any) -> None:
    iterator = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
    container = sig.args[0].container
    core_context, head = _parts(context, builder, container, iterator.container)
    for name, k in (("block", 0), ("counts", 1)):
        is_changed = builder.icmp_signed(
            "!=", builder.load(getattr(iterator, name)), builder.load(_word(builder, head, k, I64))
        )
        with cgutils.if_unlikely(builder, is_changed):
            call_checked(context, builder, core_context, "iteration_error", I32)
    at = builder.load(iterator.at)
    if _has_key(container):
        at = call_unchecked(builder, core_context, "map_next", I64, head, at, _words(container))
        is_valid = builder.icmp_signed(">=", at, ir.Constant(I64, 0))
    else:
        is_valid = builder.icmp_signed("<", at, _head_field(builder, head, 3))
    result.set_valid(is_valid)
    with builder.if_then(is_valid):
        builder.store(builder.add(at, ir.Constant(I64, 1)), iterator.at)
        if _has_key(container):
            block = builder.load(builder.bitcast(head, PTR.as_pointer()))
            rows = builder.bitcast(builder.gep(block, [ir.Constant(I64, 16)]), _WORDS)
            row = builder.gep(rows, [builder.mul(at, _words(container))])
            key = builder.load(row)
            if sig.args[0].has_pairs:
                pair = key, _load_row(context, builder, container, row)
                key = context.make_tuple(builder, sig.args[0].yield_type, pair)
            result.yield_(key)
        else:
            row = call_checked(
                context, builder, core_context, "queue_at", _WORDS, head, at, _words(container)
            )
            result.yield_(_load_row(context, builder, container, row))


@templates.infer_global(length_of_iterator)
class _Length(templates.AbstractTemplate):
    """Number of rows, which Numba needs to build an array from a list comprehension."""

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.intp, *args) if isinstance(args[0], ContainerIteratorType) else None


@lower_builtin(length_of_iterator, ContainerIteratorType)
def _length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    iterator = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
    return _count(
        builder,
        sig.args[0].container,
        _parts(context, builder, sig.args[0].container, iterator.container)[1],
    )
