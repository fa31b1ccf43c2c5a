"""The compiler of node programs, which ensures that they compute the same as in Python.

It adds passes to Numba's compiler, and records the lines of errors.  One pass rejects variables that may be
unset (`gridsim.scheduling.nodes.numba_flow`).  Some functions of Numba return a number where Python raises an
error, such as ``int(nan)`` and ``math.sqrt(-1.0)``.  Another pass, before type inference, replaces them by
functions that raise errors of the same types.  Further passes reject operations that cannot be compiled, or
would be rounded differently.

Only `gridsim.scheduling.nodes.numba_methods` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir as llvm
from numba import njit, types
from numba.extending import intrinsic, overload

from gridcore.fair_tree.summaries import aggregate, debit, lookup, lowest_stretch, split
from gridcore.nodes.containers import Container, Heap
from gridsim.errors import SchedulerError
from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_flow import CatchInLoopsPass, RefuseUnsetPass
from gridsim.scheduling.nodes.numba_internals import (
    CompilerBase,
    ConstantInferenceError,
    DefaultPassBuilder,
    FunctionPass,
    LiteralUnroll,
    NopythonTypeInference,
    build_definitions,
    cgutils,
    eh,
    get_definition,
    guard,
    ir,
    mk_unique_var,
    register_pass,
    signature,
)
from gridsim.scheduling.nodes.numba_lines import record_lines
from gridsim.scheduling.nodes.numba_types import (
    I32,
    I64,
    PTR,
    ApplicationType,
    MessageType,
    NodeType,
    ParametersType,
    RequestType,
    ViewType,
    check_result,
    field_type,
    type_text,
)
from gridsim.scheduling.nodes.rewrites import MAX_ITERATIONS, check_loop

__all__ = ["CheckedCompiler"]


# -- functions that raise where Python does ------------------------------------------------------------------


def _with_math_errors(function: Any, overflows: bool) -> Any:
    """Wrap a function of `math` so that it raises errors of the same types as in Python."""
    domain_text = f"x of math.{function.__name__} must be in its domain"
    range_text = f"math.{function.__name__}(x) must be in the range of a float"

    @njit
    def checked_function(x: Any) -> Any:
        value = function(x)
        if math.isnan(value) and not math.isnan(x):
            raise ValueError(domain_text)
        if math.isinf(value) and not math.isinf(x):
            if overflows:
                raise OverflowError(range_text)
            raise ValueError(domain_text)
        return value

    return checked_function


def _stub(name: str, *, arity: int) -> Any:
    """Return a function of `arity` arguments that can be overloaded; errors show its `name`."""
    stub = (lambda x: None) if arity == 1 else (lambda x, y: None)
    stub.__name__ = name
    return stub


def _with_range_errors(function: Any) -> Any:
    """Wrap `function`, which converts a number to an int, so that it rejects numbers out of range."""
    stub = _stub(function.__name__, arity=1)
    finite_text = f"x of {function.__name__} must be finite"

    @overload(stub)
    def convert(x):  # type: ignore[no-untyped-def]
        if function is int and isinstance(x, types.Integer):
            return lambda x: np.int64(x)  # Numba would keep the narrower type
        if not isinstance(x, types.Float):
            return lambda x: function(x)

        def checked_function(x):  # type: ignore[no-untyped-def]
            if math.isnan(x):
                raise ValueError(finite_text)
            if math.isinf(x):
                raise OverflowError(finite_text)
            if not -9223372036854775808.0 <= x < 9223372036854775808.0:
                raise OverflowError(
                    "a whole number must have at most 64 bits in compiled nodes, got a larger float"
                )
            return function(x)

        return checked_function

    return stub


_to_float = _stub("float", arity=1)


@overload(_to_float)
def _convert_to_float(x):  # type: ignore[no-untyped-def]
    if isinstance(x, types.Float):
        return lambda x: np.float64(x)  # Numba would keep the narrower type
    return lambda x: float(x)


@intrinsic
def _opaque(typing: Any, x: Any) -> Any:
    """Return `x` so that LLVM does not know its value; otherwise it would replace x ** 2.0 by x * x."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], I64)
        same = builder.asm(llvm.FunctionType(I64, [I64]), "", "=r,0", [bits], False)
        return builder.bitcast(same, llvm.DoubleType())

    return signature(types.float64, types.float64), lower


@intrinsic
def _forget_error(typing: Any, error: Any, kind: Any) -> Any:
    """Begin an ``except Exception``: as in Numba, any Exception matches, and an error of the core is cleared.

    Other errors, such as KeyboardInterrupt, do not match.
    """

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        api, matches = context.get_python_api(builder), cgutils.alloca_once_value(builder, cgutils.true_bit)
        with builder.if_then(cgutils.is_not_null(builder, api.err_occurred())):
            kind = llvm.FunctionType(I32, [PTR])
            match = cgutils.get_or_insert_function(builder.module, kind, "PyErr_ExceptionMatches")
            is_match = builder.call(match, [api.get_c_object("PyExc_Exception")])
            builder.store(builder.icmp_signed("!=", is_match, llvm.Constant(I32, 0)), matches)
        with builder.if_then(builder.load(matches)):
            api.err_clear()
        return builder.load(matches)

    return signature(types.boolean, error, kind), lower


def _float_power(domain: Any, zero: Any, overflow: tuple[Any, ...]) -> Any:
    """Return a power function of floats that raises the given errors (type, text) in three cases."""
    (domain_error, domain_text), (zero_error, zero_text), (overflow_error, overflow_text) = (
        domain,
        zero,
        overflow,
    )

    @njit
    def power(x: Any, y: Any) -> Any:
        value = math.pow(x, _opaque(y))
        if math.isnan(value) and not (math.isnan(x) or math.isnan(y)):
            raise domain_error(domain_text)
        if math.isinf(value) and not (math.isinf(x) or math.isinf(y)):
            if x == 0.0:
                raise zero_error(zero_text)
            raise overflow_error(overflow_text)
        return value

    return power


@intrinsic
def _check_signals(typing: Any) -> Any:
    """Run the handlers of pending signals, such as Ctrl-C; if one raises an error, the method ends."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = llvm.FunctionType(I32, [])
        function = cgutils.get_or_insert_function(builder.module, kind, "PyErr_CheckSignals")
        check_result(context, builder, builder.call(function, []))
        return context.get_dummy_value()

    return signature(types.none), lower


@overload(check_loop)
def _check_loop(count):  # type: ignore[no-untyped-def]
    def check(count):  # type: ignore[no-untyped-def]
        _check_signals()
        if count >= MAX_ITERATIONS:
            raise SchedulerError(_ENDLESS_LOOP)

    return check


_ENDLESS_LOOP = f"a while loop of a compiled node must end within {MAX_ITERATIONS:,} iterations, got more"

_DOMAIN = ValueError, "x and y of math.pow must be in its domain"
_math_power = _float_power(
    _DOMAIN, _DOMAIN, (OverflowError, "math.pow(x, y) must be in the range of a float")
)
_python_power = _float_power(
    (ValueError, "compiled nodes do not support a fractional power of a negative number, which is complex"),
    (ZeroDivisionError, "x ** y with y < 0 requires x != 0"),
    (OverflowError, "x ** y must be in the range of a float"),
)


def _power(in_place: bool) -> Any:
    """Return ``x ** y``, or ``x **= y``, with the same results and types of errors as in Python."""
    stub = _stub("pow", arity=2)

    @overload(stub, prefer_literal=True)
    def power(x, y):  # type: ignore[no-untyped-def]
        exponent = getattr(y, "literal_value", None)
        if all(isinstance(type_, _WHOLE_TYPES) for type_ in (x, y)):
            if exponent is None or exponent < 0:
                raise NotCompiled(
                    "int ** int requires a constant exponent >= 0 when compiled, since its result is always "
                    "an int; write 2.0 ** n or 1 << n"
                )
            return lambda x, y: x**exponent
        if isinstance(x, types.Array) or isinstance(y, types.Array):
            if exponent != 2 or in_place:
                raise NotCompiled(
                    "a power of an array rounds differently when compiled; write x * x or a loop"
                )
            return lambda x, y: x * x
        return lambda x, y: _python_power(float(x), float(y))

    return stub


def _shift(op: Any, scalar: Any) -> Any:
    """Return the shift `op` with an error for a negative count; a count above 63 shifts out all bits."""
    left = scalar is operator.lshift
    stub = _stub(scalar.__name__, arity=2)

    @overload(stub)
    def shift(x, y):  # type: ignore[no-untyped-def]
        if not all(isinstance(type_, _WHOLE_TYPES) for type_ in (x, y)):
            return lambda x, y: op(x, y)

        def checked_function(x, y):  # type: ignore[no-untyped-def]
            if y < 0:
                raise ValueError("y of x << y and x >> y must be >= 0")
            if y > 63:
                return 0 if left else scalar(x, 63)
            return scalar(x, y)

        return checked_function

    return stub


_WHOLE_TYPES = (types.Integer, types.Boolean)
#: Functions of `math` whose result may overflow.
_OVERFLOWING_FUNCTIONS = ("exp", "expm1", "cosh", "sinh")
_PARTIAL_FUNCTIONS = (
    "acos",
    "acosh",
    "asin",
    "atanh",
    "cos",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sqrt",
    "tan",
)
#: Function of one argument -> its version for Numba, which raises errors of the same types as Python.
_CHECKED_FUNCTIONS: dict[Any, Any] = {
    **{getattr(math, name): _with_math_errors(getattr(math, name), True) for name in _OVERFLOWING_FUNCTIONS},
    **{getattr(math, name): _with_math_errors(getattr(math, name), False) for name in _PARTIAL_FUNCTIONS},
    **dict(
        (function, _with_range_errors(function))
        for function in (builtins.int, builtins.round, math.floor, math.ceil, math.trunc)
    ),
    builtins.float: _to_float,
}
_POWER = _power(in_place=False)
#: The same for functions of two arguments and for operators.
_CHECKED_BINARY_FUNCTIONS = {
    math.pow: _math_power,
    **dict.fromkeys((builtins.pow, operator.pow), _POWER),
    eh.exception_match: _forget_error,
}
_OPERATORS = {
    operator.pow: _POWER,
    operator.ipow: _power(in_place=True),
    operator.lshift: _shift(operator.lshift, operator.lshift),
    operator.ilshift: _shift(operator.ilshift, operator.lshift),
    operator.rshift: _shift(operator.rshift, operator.rshift),
    operator.irshift: _shift(operator.irshift, operator.rshift),
}


@register_pass(mutates_CFG=False, analysis_only=False)
class _ReplacePass(FunctionPass):
    """Pass that replaces functions and operators which do not raise where Python does."""

    _name = "gridsim_replace"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            body = []
            for statement in block.body:
                value: Any = getattr(statement, "value", None)
                replacement = _replacement(state.func_ir, value) if isinstance(value, ir.Expr) else None
                if replacement is not None:
                    name = ir.Var(block.scope, mk_unique_var("$checked"), statement.loc)
                    body.append(
                        ir.Assign(ir.Global(name.name, replacement, statement.loc), name, statement.loc)
                    )
                    operands = (value.lhs, value.rhs) if value.op != "call" else value.args
                    statement.value = ir.Expr.call(name, list(operands), (), value.loc)
                body.append(statement)
            block.body = body
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


def _replacement(func_ir: Any, value: Any) -> Any:
    """Return the function to call instead in the expression `value`; None for no replacement."""
    if value.op in ("binop", "inplace_binop"):
        return _OPERATORS.get(value.fn)
    if value.op != "call" or value.kws or value.vararg is not None or len(value.args) not in (1, 2):
        return None
    try:
        function = func_ir.infer_constant(value.func)
        return (_CHECKED_FUNCTIONS if len(value.args) == 1 else _CHECKED_BINARY_FUNCTIONS).get(function)
    except (ConstantInferenceError, TypeError):  # the function is not a constant, or is unhashable
        return None


# -- unsupported operations ----------------------------------------------------------------------------------

#: Functions whose compiled form adds in another order than Python or NumPy; so do methods of arrays with
#: these names.
_SUMS = (
    sum, np.sum, np.mean, np.std, np.var, np.average, np.nansum, np.nanmean, np.nanstd, np.nanvar,
    np.cov, np.corrcoef, np.linalg.norm, np.trapezoid,
)  # fmt: skip
_NAMES_OF_SUMS = {function.__name__ for function in _SUMS}
#: Functions whose results the C library rounds differently than Python or NumPy.
_INEXACT_FUNCTIONS = (math.gamma, math.lgamma, np.tanh)

#: Classes of the global random generators, whose methods are the functions of `random` and `numpy.random`.
_GLOBAL_GENERATORS = ("Random", "RandomState")

#: Type whose attributes are read-only in handlers -> its name in errors.
_READ_ONLY = {
    ViewType: "view",
    MessageType: "message",
    RequestType: "request",
    ApplicationType: "application",
    ParametersType: "self.parameters",
}


#: Methods that change their array.
_CHANGES = ("fill", "itemset", "partition", "put", "resize", "sort")
#: Functions of Python that take a container.
_OF_CONTAINERS = (bool, len, print)


def _raise_not_compiled(reason: str, loc: Any) -> None:
    problem = NotCompiled(reason)
    problem.at = loc.filename, loc.line
    raise problem


@register_pass(mutates_CFG=False, analysis_only=True)
class _RefuseUsesPass(FunctionPass):
    """Pass that raises NotCompiled, with the name of the attribute, for uses that Numba rejects without it.

    These are changes of read-only arrays, and containers as arguments of functions of Python and NumPy.
    """

    _name = "gridsim_refuse_uses"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for kind in (ir.SetItem, ir.StaticSetItem):
                for statement in block.find_insts(kind):
                    _check_changed(state, statement.target, statement.loc)
            for call in block.find_exprs(op="call"):
                method = guard(get_definition, state.func_ir, call.func)
                if getattr(method, "op", "") == "getattr" and method.attr in _CHANGES:
                    _check_changed(state, method.value, call.loc)
                else:
                    _check_container_arguments(state, call)
        return False


def _attribute(state: Any, variable: Any) -> tuple[Any, str]:
    """Return the type of an argument and the attribute that a variable reads from it, or (None, "")."""
    definition = guard(get_definition, state.func_ir, variable)
    if getattr(definition, "op", "") == "getattr":
        owner = guard(get_definition, state.func_ir, definition.value)
        if isinstance(owner, ir.Arg):
            return state.args[owner.index], definition.attr
    return None, ""


def _check_changed(state: Any, variable: Any, loc: Any) -> None:
    owner, attr = _attribute(state, variable)
    if type(owner) in _READ_ONLY:
        path = f"{_READ_ONLY[type(owner)]}.{attr}"
        _raise_not_compiled(f"{path} is read-only; change a copy: values = np.array({path})", loc)


def _check_container_arguments(state: Any, call: Any) -> None:
    try:
        function = state.func_ir.infer_constant(call.func)
    except ConstantInferenceError:
        return
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    if module not in ("builtins", "numpy") or function in _OF_CONTAINERS:
        return
    for argument in call.args:
        owner, attr = _attribute(state, argument)
        container = owner.program.objects.get(attr) if isinstance(owner, NodeType) else None
        if isinstance(container, Container):
            path, kind = f"self.{attr}", type(container).__name__
            remedy = f"a loop, or the list [each for each in {path}]"
            if isinstance(container, Heap):
                remedy = "a loop that pops its rows"
            _raise_not_compiled(
                f"{function.__name__}({path}) of a container ({kind}) cannot be compiled; write {remedy}",
                call.loc,
            )


@register_pass(mutates_CFG=False, analysis_only=True)
class _RefusePass(FunctionPass):
    """Pass that raises NotCompiled for operations whose result would differ from Python's.

    These are assignments of a value that the attribute cannot hold; sums of floats, which NumPy adds in
    pairs, so compiled code would round differently; and computations with numbers of 16 or 32 bits, whose
    results have other types in NumPy.
    """

    _name = "gridsim_refuse"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.SetAttr):
                _check_assignment(
                    state.typemap[statement.target.name],
                    statement.attr,
                    state.typemap[statement.value.name],
                    statement.loc,
                )
            for call in block.find_exprs(op="call"):
                _check_call(state.typemap[call.func.name], state.calltypes[call], call.loc)
                _check_narrow_arguments(state.typemap, call)
            for op in ("unary", "binop", "inplace_binop"):
                for expr in block.find_exprs(op=op):
                    _check_narrow_operands(state.typemap, expr)
            for kind in (ir.SetItem, ir.StaticSetItem):
                for statement in block.find_insts(kind):
                    _check_narrow_target(state.typemap, statement)
        return False


def _check_assignment(target: Any, name: str, value_type: Any, loc: Any) -> None:
    if type(target) in _READ_ONLY:
        _raise_not_compiled(f"{_READ_ONLY[type(target)]}.{name} is read-only", loc)
    if not isinstance(target, NodeType):
        return
    if name not in (target.program.state.names or ()):
        _raise_not_compiled(f"self.{name} is read-only when compiled; write a method that sets it", loc)
    if name in target.program.objects:
        kind = type(target.program.objects[name]).__name__
        _raise_not_compiled(f"self.{name} is a {kind}: only its contents can be changed", loc)
    attribute_type = field_type(target.program.state, name)
    if isinstance(attribute_type, types.Array):
        _raise_not_compiled(
            f"self.{name} is an array: only its elements can be assigned, as in self.{name}[:] = ...", loc
        )
    if isinstance(attribute_type, types.Integer):
        fits = isinstance(value_type, (types.Integer, types.Boolean))
    elif isinstance(attribute_type, types.Boolean):
        fits = isinstance(value_type, types.Boolean)
    else:
        fits = isinstance(value_type, (types.Integer, types.Boolean, types.Float))
    if not fits:
        kind = {"int64": "an int", "boolean": "a bool"}.get(str(attribute_type), "a float")
        hint = (
            "; use a number such as -1 for None"
            if isinstance(value_type, (types.NoneType, types.Optional))
            else ""
        )
        _raise_not_compiled(
            f"self.{name} must be {kind}, as __init__ sets it, got {type_text(value_type)}{hint}", loc
        )


def _method_name(function_type: Any) -> str:
    key = function_type.typing_key
    return str(key[-1]) if isinstance(key, tuple) else str(key).rpartition(".")[2]


def _check_call(function_type: Any, signature: Any, loc: Any) -> None:
    key = getattr(function_type, "typing_key", None)
    if isinstance(function_type, types.BoundFunction):
        name, operand = _method_name(function_type), function_type.this
    else:
        name, operand = getattr(key, "__name__", ""), (*(signature.args if signature else ()), None)[0]
        name = name if key in _SUMS else ""
    if name in _NAMES_OF_SUMS and isinstance(getattr(operand, "dtype", None), types.Float):
        _raise_not_compiled(f"{name} of floats rounds differently when compiled; add them in a loop", loc)
    if key is print and signature is not None:
        for argument in signature.args:
            if isinstance(argument, (NodeType, *_READ_ONLY)):
                _raise_not_compiled("print shows numbers and text only in compiled nodes", loc)
    if key in _INEXACT_FUNCTIONS:
        _raise_not_compiled(f"{key.__name__} rounds differently when compiled", loc)
    if type(getattr(key, "__self__", None)).__name__ in _GLOBAL_GENERATORS:
        function = getattr(key, "__name__", "")
        _raise_not_compiled(f"{function} draws from a global random stream; draw from view.random", loc)


# -- numbers of 16 and 32 bits -------------------------------------------------------------------------------

#: Operators of integers of any width.
_COMPARISONS = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.contains,
)  # fmt: skip
#: Operators of two arrays whose results have the same type in NumPy and Numba.
_ARITHMETIC = (
    operator.add, operator.sub, operator.mul, operator.truediv,
    operator.iadd, operator.isub, operator.imul, operator.itruediv,
)  # fmt: skip
#: Functions, and methods of arrays, whose results do not depend on the width of their arguments.
_WIDTH_INDEPENDENT = (
    len, range, enumerate, zip, reversed, bool, np.array, np.asarray, np.copy, np.ascontiguousarray,
    np.concatenate, np.flatnonzero, np.argmax, np.argmin, _CHECKED_FUNCTIONS[int], _CHECKED_FUNCTIONS[float],
    aggregate, debit, lookup, lowest_stretch, split,
)  # fmt: skip
_WIDTH_INDEPENDENT_METHODS = (
    "astype", "copy", "reshape", "ravel", "flatten", "transpose", "max", "min", "argmax", "argmin", "item",
)  # fmt: skip
_CHECKED_DISPATCHERS = [*_CHECKED_FUNCTIONS.values(), *_CHECKED_BINARY_FUNCTIONS.values()]


def _element(type_: Any) -> Any:
    return type_.dtype if isinstance(type_, types.Array) else type_


def _is_narrow(type_: Any) -> bool:
    """Return whether numbers of a type, or elements of an array, have fewer than 64 bits."""
    element = _element(type_)
    return isinstance(element, (types.Integer, types.Float)) and element.bitwidth < 64


def _refuse_narrow(type_: Any, loc: Any) -> None:
    element = _element(type_)
    kind = "float" if isinstance(element, types.Float) else "int"
    remedy = f"values.astype(np.{kind}64)" if isinstance(type_, types.Array) else f"{kind}(values[k])"
    _raise_not_compiled(
        f"a result may differ from Python's for numbers of {element.bitwidth} bits, here {type_text(type_)}; "
        f"convert them first: {remedy}",
        loc,
    )


def _check_narrow_operands(typemap: Any, expr: Any) -> None:
    operands = [typemap[operand.name] for operand in expr.list_vars()]
    are_whole = all(isinstance(_element(type_), _WHOLE_TYPES) for type_ in operands)
    are_arrays = all(isinstance(type_, types.Array) for type_ in operands)
    narrow = next(filter(_is_narrow, operands), None)
    if narrow is None or expr.fn is operator.not_:
        return
    if not (expr.fn in _COMPARISONS and are_whole or expr.fn in _ARITHMETIC and are_arrays):
        _refuse_narrow(narrow, expr.loc)


def _check_narrow_arguments(typemap: Any, call: Any) -> None:
    arguments = [typemap[each.name] for each in (*call.args, *(value for _, value in call.kws))]
    function = typemap[call.func.name]
    if isinstance(function, types.BoundFunction):
        arguments.insert(0, function.this)
        is_allowed = isinstance(function.this, (NodeType, ViewType)) or (
            _is_narrow(function.this) and _method_name(function) in _WIDTH_INDEPENDENT_METHODS
        )
    elif isinstance(function, types.Dispatcher):
        is_allowed = function.dispatcher not in _CHECKED_DISPATCHERS
    else:
        key = getattr(function, "typing_key", None)
        is_allowed = isinstance(function, types.NumberClass) or key in _WIDTH_INDEPENDENT
    if not is_allowed:
        for narrow in filter(_is_narrow, arguments):
            _refuse_narrow(narrow, call.loc)


def _check_narrow_target(typemap: Any, statement: Any) -> None:
    target, value = typemap[statement.target.name], typemap[statement.value.name]
    if isinstance(target, types.Array) and _is_narrow(target) and _element(value) != target.dtype:
        wide = "float64" if isinstance(target.dtype, types.Float) else "int64"
        _raise_not_compiled(
            f"elements of {type_text(target)} must be assigned from numbers of that type, got "
            f"{type_text(value)}; use an array of np.{wide}",
            statement.loc,
        )


class CheckedCompiler(CompilerBase):
    """Numba compiler for the methods of nodes."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_ReplacePass, LiteralUnroll)
        passes.add_pass_after(RefuseUnsetPass, LiteralUnroll)
        passes.add_pass_after(CatchInLoopsPass, LiteralUnroll)
        passes.add_pass_after(_RefuseUsesPass, LiteralUnroll)
        passes.add_pass_after(_RefusePass, NopythonTypeInference)
        record_lines(passes)
        passes.finalize()
        return [passes]
