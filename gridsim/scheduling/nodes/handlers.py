"""The handlers of node programs, and what the classes of a program must be like: checked before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

from gridcore.common.names import listed
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.compilable import place_of
from gridsim.scheduling.nodes.program import Message, NodeProgram
from gridsim.support.arguments import one_of, short_repr

__all__ = ["check_declared", "check_handlers", "defined", "handler_of", "takes_value"]

#: What the handlers of events get after ``self``; `on_timer` may get the value of the timer, too.
_GETS: dict[str, tuple[str, ...]] = {
    "on_start": ("view",),
    "on_release": ("view", "application", "tasks"),
    "on_message": ("view", "message"),
    "on_timer": ("view", "name"),
    "on_idle": ("view",),
    "on_end": ("view",),
    "on_act": ("view",),
    "on_done": ("view", "application"),
    "on_lost": ("view", "application", "tasks"),
}
#: Handlers that a node need not have: those of `NodeProgram` do nothing.
_OPTIONAL = ("on_start", "on_end", "on_idle", "on_act", "on_timer", "on_done")


def defined(policies: Collection[type[NodeProgram]]) -> list[str]:
    """Return the names of the optional handlers that some of `policies` define, see `NodeCore`."""
    found = {
        name
        for policy in policies
        for name in _OPTIONAL
        if getattr(policy, name) is not getattr(NodeProgram, name)
    }
    value = {takes_value(policy) for policy in policies if policy.on_timer is not NodeProgram.on_timer}
    if len(value) == 2:
        raise ScenarioError("on_timer must take a value in all classes of nodes or in none")
    return sorted({*found, "value"} if True in value else found)


def takes_value(policy: type[NodeProgram]) -> bool:
    """Whether `on_timer` gets the value of the timer."""
    return len(inspect.signature(policy.on_timer).parameters) > len(("self", "view", "name"))


def handler_of(policies: Iterable[type[NodeProgram]], kind: str) -> str:
    """Return the name of the method that handles messages of this kind.

    A kind with the name of an event, such as ``done``, has no handler of its own.
    """
    own = _own(kind)
    return own if own not in _GETS and any(hasattr(each, own) for each in policies) else "on_message"


def _own(kind: str) -> str:
    return f"on_{kind.replace('-', '_')}"


def check_handlers(policy: type[NodeProgram], kinds: tuple[str, ...]) -> None:
    """Raise ScenarioError for a method ``on_...`` that nothing calls, or that has other parameters."""
    known = {**{_own(kind): ("view", "message") for kind in kinds}, **_GETS}
    for name in dir(policy):
        if not name.startswith("on_"):
            continue
        found = inspect.getattr_static(policy, name)
        function = getattr(found, "__func__", found)
        if not inspect.isfunction(function):
            continue
        what = f"{place_of(function)}{policy.__name__}.{name}"
        if name not in known:
            if _uses(policy, name):
                continue
            raise ScenarioError(
                f"{what} is never called, as there is no kind of message {name[3:]!r}; {listed(known, name)}"
            )
        if function is not found:
            raise ScenarioError(f"{what} must be a method, with self, not a {type(found).__name__}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise ScenarioError(f"{what} must not be a generator or async: nothing would run it")
        wanted = ("self", *known[name])
        if not (_takes(function, wanted) or name == "on_timer" and _takes(function, (*wanted, "value"))):
            raise ScenarioError(f"{what} must take ({', '.join(wanted)}), got {inspect.signature(function)}")


def _uses(policy: type, name: str) -> bool:
    """Whether a method of the class names another one, as in ``self.on_free(view)``."""
    methods = (each for base in policy.__mro__ for each in vars(base).values() if inspect.isfunction(each))
    return any(name in each.__code__.co_names for each in methods)


@lru_cache(1024)  # looking at a signature takes long, compared with a small run
def _takes(function: Any, wanted: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        return False
    return True


def check_declared(scheduler: Any) -> None:
    """Raise ScenarioError for class variables of a `NodeScheduler` that are not what they must be."""
    where = type(scheduler).__name__
    if not (
        isinstance(policy := getattr(scheduler, "policy", None), type) and issubclass(policy, NodeProgram)
    ):
        others = vars(type(scheduler)).items() if policy is None else ()
        names = [name for name, each in others if isinstance(each, type) and issubclass(each, NodeProgram)]
        typo = f"; did you mean policy where it has {names[0]}?" if names else ""
        raise ScenarioError(f"{where}.policy must be a subclass of NodeProgram, got {policy!r}{typo}")
    if not isinstance(scheduler.name, str) or not scheduler.name:
        raise ScenarioError(f"{where}.name must be a text, got {short_repr(scheduler.name)}")
    for name in ("timers", "node_forms"):
        given = getattr(scheduler, name)
        if not isinstance(given, (tuple, list)) or not all(isinstance(each, str) for each in given):
            hint = f"; write ({given!r},)" if isinstance(given, str) else ""
            raise ScenarioError(f"{where}.{name} must be a tuple of texts, got {short_repr(given)}{hint}")
    forms = get_args(NodeForm)
    for each in scheduler.node_forms or ("",):
        one_of(f"{where}.node_forms", each, forms)
    one_of(f"{where}.local_order", scheduler.local_order, ("edf", "fifo"))
    one_of(f"{where}.watch", scheduler.watch, ("idle", "completion"))
    mappings: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
        ("messages", "a Message", lambda value: isinstance(value, Message)),
        ("ticks", "a number of s above 0", lambda value: isinstance(value, (int, float)) and value > 0),
        ("tables", "a dict of columns, each int or float", _are_columns),
    )
    for name, wanted, fits in mappings:
        given = getattr(scheduler, name)
        if not isinstance(given, Mapping):
            raise ScenarioError(f"{where}.{name} must be a dict, got {short_repr(given)}")
        for key, value in given.items():
            if not isinstance(key, str) or not fits(value):
                raise ScenarioError(f"{where}.{name}[{key!r}] must be {wanted}, got {short_repr(value)}")


def _are_columns(value: Any) -> bool:
    return isinstance(value, Mapping) and all(kind in (int, float) for kind in value.values())
