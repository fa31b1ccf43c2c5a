"""The timers of node programs that have a handler of their own, as their methods declare them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from dis import Instruction, get_instructions
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from gridcore.nodes.kinds import MAX_TIMER_FIELDS
from gridsim.errors import ScenarioError
from gridsim.scheduling.nodes.compile_errors import place_of
from gridsim.scheduling.nodes.program import NodeProgram

__all__ = ["Timer", "handler_name", "location", "methods_that_call", "own_timers", "strings", "uses"]

#: Names of the parameters of `View.timer`, `View.at` and `View.cancel`, which fields cannot have.
_RESERVED_FIELDS = ("seconds", "instant", "name")


class Timer(NamedTuple):
    """A timer that nodes may set.

    Parameters
    ----------
    name
        The name by which nodes set it.
    handler
        The method that handles it.
    fields
        Name -> ``int`` or ``float`` of the parameters of the handler after ``view``; none for ``on_timer``.
    defaults
        Optional fields of the timer -> their default values.
    role
        The index of the role whose nodes have it; -1 for all.
    """

    name: str
    handler: str = "on_timer"
    fields: dict[str, type] = {}
    defaults: dict[str, float] = {}
    role: int = -1


@lru_cache(256)
def own_timers(policy: Any, others: frozenset[str], fieldless: tuple[str, ...]) -> dict[str, Timer]:
    """Return name -> timer, for the timers with their own handler in a class of nodes.

    A method ``on_<name>`` is such a handler if a method of the class contains the name as a string, or if the
    name is in `fieldless`.

    Parameters
    ----------
    policy
        A subclass of `NodeProgram`.
    others
        The names of methods that handle other events.
    fieldless
        The names of ticks and of timers that the environment fires, which have no fields.

    Raises
    ------
    ScenarioError
        If a handler has unsuitable parameters.
    """
    handlers = [
        name
        for name, method in _methods(policy).items()
        if name.startswith("on_") and name not in others and method is not getattr(NodeProgram, name, None)
    ]
    names = sorted({*strings(policy), *fieldless}) if handlers else []
    timers: dict[str, Timer] = {}
    for handler in handlers:
        set_names = [name for name in names if handler_name(name) == handler]
        if not set_names:
            continue
        fields = _timer_fields(policy, handler, must_fit=not uses(policy, handler))
        if fields is None:
            continue  # the method is called by the class itself
        if fields[0] and (name := next((name for name in set_names if name in fieldless), None)):
            raise ScenarioError(
                f"{location(policy, handler)} must take (self, view), since {name!r} is in ticks, "
                f"got {inspect.signature(getattr(policy, handler))}"
            )
        timers.update((name, Timer(name, handler, *fields)) for name in set_names)
    return timers


def _timer_fields(
    policy: type[NodeProgram], handler: str, *, must_fit: bool
) -> tuple[dict[str, type], dict[str, float]] | None:
    """Return the fields of the timer that a method handles, and their defaults; None if it handles none.

    Parameters
    ----------
    must_fit
        Whether to raise ScenarioError instead of returning None.
    """
    function = inspect.getattr_static(policy, handler)
    problem, fields, defaults = "", {}, {}
    if not inspect.isfunction(function):
        problem = f"must be an instance method, got a {type(function).__name__}"
    elif inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        problem = "must not be a generator or async: its body would never run"
    else:
        parameters = list(inspect.signature(function).parameters.values())
        if len(parameters) < 2 or len(parameters) > 2 + MAX_TIMER_FIELDS:
            problem = f"must take (self, view) and at most {MAX_TIMER_FIELDS} fields of its timer"
        for parameter in parameters[2:]:
            name, default = parameter.name, parameter.default
            kind = _annotated_type(parameter.annotation, function)
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                problem = f"must take {name!r} by position, since it handles a timer"
            elif name in _RESERVED_FIELDS:
                problem = f"must rename {name!r}: View.timer has a parameter of this name"
            elif kind not in (int, float):
                problem = (
                    f"must annotate {name!r} with int or float, such as {name}: int, since it handles a "
                    f"timer: there is no kind of message {handler[3:]!r}"
                )
            elif default is not parameter.empty and not (type(default) is int or type(default) is kind):
                problem = f"must have a default of {name!r} of the type {kind.__name__}"
            if problem:
                break
            fields[name] = kind
            if default is not parameter.empty:
                defaults[name] = kind(default)
    if problem and must_fit:
        signature = inspect.signature(getattr(policy, handler))
        raise ScenarioError(f"{location(policy, handler)} {problem}; got {signature}")
    return None if problem else (fields, defaults)


def _annotated_type(annotation: Any, function: Any) -> Any:
    """Return an annotation as a type; None if it is a text that the module of `function` cannot evaluate."""
    if isinstance(annotation, str):
        try:
            return eval(annotation, function.__globals__)  # the program's own source
        except Exception:  # for example a name that only type checkers know
            return None
    return annotation


def location(policy: type, method: str) -> str:
    """Return file, line, class and name of a method."""
    return f"{place_of(inspect.unwrap(getattr(policy, method)))}{policy.__name__}.{method}"


def _methods(policy: type) -> dict[str, Any]:
    """Return the methods of a class by name, in the order of definition, base classes first."""
    entries = (item for base in reversed(policy.__mro__) for item in vars(base).items())
    return {name: inspect.getattr_static(policy, name) for name, entry in entries if callable(entry)}


def strings(policy: type) -> Iterator[str]:
    """Iterate over the strings in methods of a class, and in module variables that methods read."""
    for base in policy.__mro__:
        for entry in vars(base).values():
            function = entry.fget if isinstance(entry, property) else getattr(entry, "__func__", entry)
            if inspect.isfunction(function) and base is not NodeProgram:
                yield from _strings_in(function.__code__.co_consts)
                values = (function.__globals__.get(name) for name in function.__code__.co_names)
                yield from (value for value in values if isinstance(value, str))


def _strings_in(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _strings_in(constant)
        elif isinstance(constant, CodeType):
            yield from _strings_in(constant.co_consts)


def handler_name(name: str) -> str:
    """Return the name of the method that handles a kind of message or a timer."""
    return f"on_{name.replace('-', '_')}"


def uses(policy: type, name: str) -> bool:
    """Return whether a method of `policy` mentions `name`, as in ``self.on_free(view)``."""
    methods = (entry for base in policy.__mro__ for entry in vars(base).values() if inspect.isfunction(entry))
    return any(name in method.__code__.co_names for method in methods)


def methods_that_call(policy: type, method: str) -> Iterator[str]:
    """Iterate over the names of methods of `policy` that call a `method`, as in ``view.request(...)``."""
    for name, function in _methods(policy).items():
        code = getattr(function, "__code__", None)
        if code is not None and method in code.co_names:
            steps = (step for step in get_instructions(code) if step.argval == method)
            if any(step.opname == "LOAD_METHOD" or _precedes_call(step) for step in steps):
                yield name


def _precedes_call(step: Instruction) -> bool:
    """Return whether an instruction of Python 3.12 or later loads an attribute that is called."""
    return sys.version_info >= (3, 12) and step.opname == "LOAD_ATTR" and bool((step.arg or 0) & 1)
