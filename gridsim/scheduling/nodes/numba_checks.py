"""Keeps compiled node programs to what Python does: refuses what would differ, and checks what may fail.

Methods of nodes are compiled with two more passes than Numba has.  The first one, before types are known,
puts checked functions in the place of those that return a number where Python raises, such as ``int(nan)``
and ``math.sqrt(-1.0)``.  The second one refuses what cannot be compiled, or would round otherwise.

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
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import ConstantInferenceError
from numba.core.ir_utils import build_definitions, mk_unique_var
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing import signature
from numba.core.untyped_passes import LiteralUnroll
from numba.extending import intrinsic, overload

from gridsim.scheduling.nodes.compilable import NotCompiled
from gridsim.scheduling.nodes.numba_types import (
    I64,
    ApplicationType,
    MessageType,
    NodeType,
    ParametersType,
    ViewType,
    field_type,
    said,
)

__all__ = ["Checked"]


# -- functions that raise where Python does ------------------------------------------------------------------


def _guarded(function: Any, overflows: bool) -> Any:
    """Return a function of `math` with the errors that Python's has."""

    @njit
    def guarded(x: Any) -> Any:
        found = function(x)
        if math.isnan(found) and not math.isnan(x):
            raise ValueError("math domain error")
        if math.isinf(found) and not math.isinf(x):
            if overflows:
                raise OverflowError("math range error")
            raise ValueError("math domain error")
        return found

    return guarded


def _stub(name: str, *, of: int) -> Any:
    """Return a function of `of` arguments for others to overload, which errors call by its `name`."""
    stub = (lambda x: None) if of == 1 else (lambda x, y: None)
    stub.__name__ = name
    return stub


def _whole(function: Any) -> Any:
    """Return `function`, which makes an int of a number, with an error where there is no such int."""
    stub = _stub(function.__name__, of=1)

    @overload(stub)
    def found(x):  # type: ignore[no-untyped-def]
        if not isinstance(x, types.Float):
            return lambda x: function(x)

        def checked(x):  # type: ignore[no-untyped-def]
            if math.isnan(x):
                raise ValueError("cannot convert float NaN to integer")
            if math.isinf(x):
                raise OverflowError("cannot convert float infinity to integer")
            if not -9223372036854775808.0 <= x < 9223372036854775808.0:
                raise OverflowError("a whole number has 64 bits in compiled nodes, this float is beyond that")
            return function(x)

        return checked

    return stub


@intrinsic
def _opaque(typing: Any, x: Any) -> Any:
    """Return a float, of which LLVM cannot know which it is: it would replace x ** 2.0 by x * x."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], I64)
        same = builder.asm(llvm.FunctionType(I64, [I64]), "", "=r,0", [bits], False)
        return builder.bitcast(same, llvm.DoubleType())

    return signature(types.float64, types.float64), lower


def _float_power(domain: Any, zero: Any, overflow: tuple[Any, ...]) -> Any:
    """Return a power of floats; the arguments are errors: type and text."""
    (no_number, why), (no_power, why_not), (too_large, how) = domain, zero, overflow

    @njit
    def power(x: Any, y: Any) -> Any:
        found = math.pow(x, _opaque(y))
        if math.isnan(found) and not (math.isnan(x) or math.isnan(y)):
            raise no_number(why)
        if math.isinf(found) and not (math.isinf(x) or math.isinf(y)):
            if x == 0.0:
                raise no_power(why_not)
            raise too_large(how)
        return found

    return power


_DOMAIN = ValueError, "math domain error"
_math_power = _float_power(_DOMAIN, _DOMAIN, (OverflowError, "math range error"))
_python_power = _float_power(
    (ValueError, "a fractional power of a negative number is complex, which compiled nodes do not have"),
    (ZeroDivisionError, "0.0 cannot be raised to a negative power"),
    (OverflowError, "(34, 'Numerical result out of range')"),
)


def _power(in_place: bool) -> Any:
    """Return ``x ** y``, or ``x **= y``, which gives what Python gives, or an error."""
    stub = _stub("pow", of=2)

    @overload(stub, prefer_literal=True)
    def found(x, y):  # type: ignore[no-untyped-def]
        written = getattr(y, "literal_value", None)
        if all(isinstance(each, _WHOLE) for each in (x, y)):
            if written is None or written < 0:
                raise NotCompiled("a power of two int is an int when compiled; write 2.0 ** n, or 1 << n")
            return lambda x, y: x**written
        if isinstance(x, types.Array) or isinstance(y, types.Array):
            if written != 2 or in_place:
                raise NotCompiled(
                    "a power of an array rounds otherwise than NumPy does; write x * x or a loop"
                )
            return lambda x, y: x * x
        return lambda x, y: _python_power(float(x), float(y))

    return stub


def _shift(op: Any, scalar: Any) -> Any:
    """Return `op`, with an error for a negative count; beyond 63 bits, nothing of an int is left."""
    left = scalar is operator.lshift
    stub = _stub(scalar.__name__, of=2)

    @overload(stub)
    def found(x, y):  # type: ignore[no-untyped-def]
        if not all(isinstance(each, _WHOLE) for each in (x, y)):
            return lambda x, y: op(x, y)

        def checked(x, y):  # type: ignore[no-untyped-def]
            if y < 0:
                raise ValueError("negative shift count")
            if y > 63:
                return 0 if left else scalar(x, 63)
            return scalar(x, y)

        return checked

    return stub


_WHOLE = (types.Integer, types.Boolean)
#: Functions of `math` whose result may be too large.
_OVERFLOWING = ("exp", "expm1", "cosh", "sinh")
_FAILING = ("acos", "acosh", "asin", "atanh", "cos", "log", "log10", "log1p", "log2", "sin", "sqrt", "tan")
#: What is called -> what is called instead, for calls with one argument.
_CHECKED: dict[Any, Any] = {
    **{getattr(math, name): _guarded(getattr(math, name), True) for name in _OVERFLOWING},
    **{getattr(math, name): _guarded(getattr(math, name), False) for name in _FAILING},
    **{each: _whole(each) for each in (builtins.int, builtins.round, math.floor, math.ceil, math.trunc)},
}
_POWER = _power(in_place=False)
#: The same for functions of two arguments, and for operators.
_CHECKED_OF_TWO = {math.pow: _math_power, **dict.fromkeys((builtins.pow, operator.pow), _POWER)}
_OPERATORS = {
    operator.pow: _POWER,
    operator.ipow: _power(in_place=True),
    operator.lshift: _shift(operator.lshift, operator.lshift),
    operator.ilshift: _shift(operator.ilshift, operator.lshift),
    operator.rshift: _shift(operator.rshift, operator.rshift),
    operator.irshift: _shift(operator.irshift, operator.rshift),
}


@register_pass(mutates_CFG=False, analysis_only=False)
class _Replace(FunctionPass):
    """Lets methods call checked functions instead of those that do not raise what Python raises."""

    _name = "gridsim_replace"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            body = []
            for done in block.body:
                value: Any = getattr(done, "value", None)
                instead = _instead(state.func_ir, value) if isinstance(value, ir.Expr) else None
                if instead is not None:
                    name = ir.Var(block.scope, mk_unique_var("$checked"), done.loc)
                    body.append(ir.Assign(ir.Global(name.name, instead, done.loc), name, done.loc))
                    operands = (value.lhs, value.rhs) if value.op != "call" else value.args
                    done.value = ir.Expr.call(name, list(operands), (), value.loc)
                body.append(done)
            block.body = body
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


def _instead(of: Any, value: Any) -> Any:
    """Return what is called instead of `value`, an expression; None to leave it."""
    if value.op in ("binop", "inplace_binop"):
        return _OPERATORS.get(value.fn)
    if value.op != "call" or value.kws or value.vararg is not None or len(value.args) not in (1, 2):
        return None
    try:
        called = of.infer_constant(value.func)
        return (_CHECKED if len(value.args) == 1 else _CHECKED_OF_TWO).get(called)
    except (ConstantInferenceError, TypeError):  # not known yet, or unhashable
        return None


# -- what is refused -----------------------------------------------------------------------------------------

#: Functions that add in an order of their own; so do the methods of arrays of these names.
_SUMS = (
    sum, np.sum, np.mean, np.std, np.var, np.average, np.nansum, np.nanmean, np.nanstd, np.nanvar,
    np.cov, np.corrcoef, np.linalg.norm, np.trapezoid,
)  # fmt: skip
_NAMES_OF_SUMS = {each.__name__ for each in _SUMS}
#: Functions that the C library and Python or NumPy compute in different ways.
_ROUNDED = (math.gamma, math.lgamma, np.tanh)

#: Classes whose methods, on one global generator, are the functions of `random` and of the module of NumPy.
_OWN_STREAMS = ("Random", "RandomState")

#: What handlers get, which cannot be assigned to.
_GIVEN = {
    ViewType: "view",
    MessageType: "message",
    ApplicationType: "application",
    ParametersType: "self.parameters",
}


def _refuse(why: str, loc: Any) -> None:
    problem = NotCompiled(why)
    problem.at = loc.filename, loc.line
    raise problem


@register_pass(mutates_CFG=False, analysis_only=True)
class _Refuse(FunctionPass):
    """Raises NotCompiled where compiled code would compute something else than Python does.

    That is where an attribute is assigned what it cannot hold, and where floats are added: NumPy adds in
    pairs, and so rounds otherwise.
    """

    _name = "gridsim_refuse"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for done in block.find_insts(ir.SetAttr):
                _check_set(
                    state.typemap[done.target.name], done.attr, state.typemap[done.value.name], done.loc
                )
            for call in block.find_exprs(op="call"):
                _check_called(state.typemap[call.func.name], state.calltypes[call], call.loc)
        return False


def _check_set(target: Any, name: str, given: Any, loc: Any) -> None:
    if type(target) in _GIVEN:
        _refuse(f"{_GIVEN[type(target)]}.{name} cannot be assigned to", loc)
    if not isinstance(target, NodeType):
        return
    if name not in (target.program.state.names or ()):
        _refuse(f"self.{name} can be read only when compiled; write a method that sets it", loc)
    wanted = field_type(target.program.state, name)
    if isinstance(wanted, types.Array):
        _refuse(f"self.{name} is an array, of which only elements can be assigned: self.{name}[:] = ...", loc)
    if isinstance(wanted, types.Integer):
        fits = isinstance(given, (types.Integer, types.Boolean))
    elif isinstance(wanted, types.Boolean):
        fits = isinstance(given, types.Boolean)
    else:
        fits = isinstance(given, (types.Integer, types.Boolean, types.Float))
    if not fits:
        kind = {"int64": "an int", "boolean": "a bool"}.get(str(wanted), "a float")
        hint = (
            "; use a number such as -1 for None"
            if isinstance(given, (types.NoneType, types.Optional))
            else ""
        )
        _refuse(f"self.{name} is {kind} where __init__ sets it, and gets {said(given)} here{hint}", loc)


def _check_called(what: Any, signature: Any, loc: Any) -> None:
    key = getattr(what, "typing_key", None)
    if isinstance(what, types.BoundFunction):
        name, among = key[-1] if isinstance(key, tuple) else str(key), what.this
    else:
        name, among = getattr(key, "__name__", ""), (*(signature.args if signature else ()), None)[0]
        name = name if key in _SUMS else ""
    if name in _NAMES_OF_SUMS and isinstance(getattr(among, "dtype", None), types.Float):
        _refuse(f"{name} of floats rounds otherwise than NumPy does; add them in a loop", loc)
    if key in _ROUNDED:
        _refuse(f"{key.__name__} rounds otherwise than Python's when compiled", loc)
    if type(getattr(key, "__self__", None)).__name__ in _OWN_STREAMS:
        _refuse(f"{getattr(key, '__name__', '')} draws from a stream of its own; draw from view.random", loc)


class Checked(CompilerBase):
    """Compiles a method of a node."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Replace, LiteralUnroll)
        passes.add_pass_after(_Refuse, NopythonTypeInference)
        passes.finalize()
        return [passes]
