"""The timers of compiled node programs.

Only `gridsim.scheduling.nodes.numba_methods` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_calls import (
    bind_arguments,
    define_method,
    filled_row,
    literal_text,
    number_type,
    parameter_list,
)
from gridsim.scheduling.nodes.numba_internals import cgutils
from gridsim.scheduling.nodes.numba_types import I32, I64, ViewType, call_core
from gridsim.scheduling.nodes.timers import Timer

__all__: list[str] = []


def _timer_of(view: Any, call: str, type_: Any) -> Timer:
    """Return the timer that a call names by a string literal."""
    if type_ is None:
        raise NotCompiled(f"{call} takes the name of a timer, and its fields as keyword arguments")
    timer: Timer = view.program.timers[literal_text("the name of a timer", type_, view.program.timers)][1]
    return timer


def _setting_method(method: str, time: str, kind: type, call: str) -> None:
    """Register `View.timer` or `View.at`, which have different time arguments.

    Parameters
    ----------
    time, kind
        The name and the type of the first argument.
    call
        The function of the core for timers of `on_timer`; the one for timers with fields has a similar name.
    """

    @define_method(ViewType, method)
    class SettingMethod:
        @staticmethod
        def infer(view: Any, args: Any, kws: Any) -> Any:
            path = f"view.{method}"
            timer = _timer_of(view, path, args[1] if len(args) > 1 else dict(kws).get("name"))
            fields, defaults = timer.fields, timer.defaults
            if timer.handler == "on_timer":
                fields, defaults = {"value": float}, {"value": 0.0}
            elif len(args) > 2:
                raise NotCompiled(f"{path} of {timer.name!r} takes fields as keyword arguments")
            names = (time, "name", *fields)
            arguments = bind_arguments(f"{path} of {timer.name!r}", names, args, kws, optional=defaults)
            first = number_type(f"the {'time' if kind is float else time} of {path}", kind, arguments[time])
            argument_types = [first, arguments["name"]]
            for name, of in fields.items():
                default = types.int64 if of is int else types.float64
                field = f"{name} of the timer {timer.name!r}"
                argument_types.append(number_type(field, of, arguments.get(name, default)))
            return types.none, argument_types, parameter_list(names, defaults)

        @staticmethod
        def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
            proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
            number, timer = view.program.timers[types_[1].literal_value]
            function, last = call, args[2:3]
            if timer.handler != "on_timer":
                function = call.replace("timer", "timer_fields")
                last = [filled_row(context, builder, args[2:])]
            arguments = proxy.node, ir.Constant(I64, number), args[0], *last
            call_core(context, builder, proxy.context, function, I32, *arguments)
            return context.get_dummy_value()


_setting_method("timer", "seconds", float, "timer")
_setting_method("at", "instant", int, "timer_at")


@define_method(ViewType, "cancel")
class _Cancel:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        timer = _timer_of(view, "view.cancel", args[0] if args else dict(kws).get("name"))
        call, names = f"view.cancel of {timer.name!r}", ("name", *timer.fields)
        if len(args) > 1:
            raise NotCompiled(f"{call} takes fields as keyword arguments")
        arguments = bind_arguments(call, names, args, kws, optional=timer.fields)
        argument_types = [arguments["name"]] + [
            number_type(f"{name} of the timer {timer.name!r}", kind, arguments[name])
            if name in arguments
            else types.none
            for name, kind in timer.fields.items()
        ]
        return types.none, argument_types, parameter_list(names, dict.fromkeys(timer.fields))

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        number, _ = view.program.timers[types_[0].literal_value]
        are_given = [type_ is not types.none for type_ in types_[1:]]
        zero = ir.Constant(I64, 0)
        words = [word if is_given else zero for word, is_given in zip(args[1:], are_given, strict=True)]
        row = filled_row(context, builder, words)
        among = ir.Constant(I64, sum(is_given << k for k, is_given in enumerate(are_given)))
        name = ir.Constant(I64, number)
        call_core(context, builder, proxy.context, "cancel", I32, proxy.node, name, among, row)
        return context.get_dummy_value()


@define_method(ViewType, "act")
class _Act:
    @staticmethod
    def infer(view: Any, args: Any, kws: Any) -> Any:
        arguments = bind_arguments("view.act", ("seconds",), args, kws, optional=("seconds",))
        argument_type = number_type("the time of view.act", float, arguments.get("seconds", types.float64))
        return types.none, [argument_type], parameter_list(("seconds",), {"seconds": 0.0})

    @staticmethod
    def lower(context: Any, builder: Any, view: Any, value: Any, types_: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(view)(context, builder, value=value)
        call_core(context, builder, proxy.context, "act", I32, proxy.node, *args)
        return context.get_dummy_value()
