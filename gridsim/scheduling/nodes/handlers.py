"""The handlers of node programs, and the checks of their classes before a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

from gridcore.common.names import closest
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.program import Message, NodeProgram, kinds_of
from gridsim.scheduling.nodes.roles import Role, role_classes
from gridsim.scheduling.nodes.timers import (
    Timer,
    handler_name,
    location,
    methods_that_call,
    own_timers,
    strings,
    uses,
)
from gridsim.support.arguments import one_of, short_repr

__all__ = [
    "check_class_variables",
    "check_constructor",
    "check_handlers",
    "defined_handlers",
    "handler_of",
    "takes_value",
    "timers_of",
]

#: Handler of an event -> its parameters after ``self``; `on_timer` may also have ``value``.
_SIGNATURES: dict[str, tuple[str, ...]] = {
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
#: The same for schedulers with requests, which are kinds of messages with an answer.
_REQUEST_SIGNATURES: dict[str, tuple[str, ...]] = {**_SIGNATURES, "on_timeout": ("view", "request")}
#: Handlers of events, which a class of nodes need not define.
_EVENTS = tuple(name for name in _REQUEST_SIGNATURES if name != "on_message")


def defined_handlers(policies: Collection[type[NodeProgram]]) -> list[str]:
    """Return the names of the handlers of events that at least one of `policies` defines.

    They include ``"value"`` if `on_timer` takes the value of the timer.
    """
    handlers = {
        name
        for policy in policies
        for name in _EVENTS
        if getattr(policy, name) is not getattr(NodeProgram, name)
    }
    if "on_release" in handlers:
        handlers.add("on_lost")  # on_lost calls on_release by default
    value_options = {
        takes_value(policy) for policy in policies if policy.on_timer is not NodeProgram.on_timer
    }
    if len(value_options) == 2:
        raise ScenarioError(
            "on_timer must have the parameter value in all classes of nodes, or in none of them"
        )
    return sorted({*handlers, "value"} if True in value_options else handlers)


def takes_value(policy: type[NodeProgram]) -> bool:
    """Return whether `on_timer` of `policy` takes the value of the timer."""
    return len(inspect.signature(policy.on_timer).parameters) > len(("self", "view", "name"))


def handler_of(policies: Collection[type[NodeProgram]], kind: str) -> str | None:
    """Return the name of the method that handles messages of `kind`; None if no class has one.

    It is ``on_message`` if no class has a handler for the kind, or if the kind has the name of an event,
    such as ``done``.
    """
    name = handler_name(kind)
    if name not in _SIGNATURES and any(hasattr(cls, name) for cls in policies):
        return name
    has_message = any(cls.on_message is not NodeProgram.on_message for cls in policies)
    return "on_message" if has_message else None


def timers_of(scheduler: Any, classes: Iterable[Iterable[Any]]) -> list[Timer]:
    """Return the timers of nodes: declared timers, then timers with a handler of their own.

    A method ``on_<name>`` that handles neither an event nor a kind of message is the handler of a timer if a
    method of the class contains its name as a string.

    Parameters
    ----------
    classes
        For each role, the classes of its nodes.

    Raises
    ------
    ScenarioError
        If a handler of a timer has unsuitable parameters, or other ones in another class of the role.
    """
    timers = [Timer(name) for name in scheduler.timers]
    for role, policies in enumerate(classes):
        of_role: dict[str, Timer] = {}
        for policy in policies:
            for name, timer in _own_timers(scheduler, policy).items():
                if (known := of_role.setdefault(name, timer)) != timer:
                    fields, others = (", ".join(each.fields) for each in (timer, known))
                    raise ScenarioError(
                        f"{location(policy, timer.handler)} must have the fields {others}, as in another "
                        f"class of nodes, got {fields}; or rename the timer"
                    )
        timers += [timer._replace(role=role) for timer in of_role.values()]
    return timers


def _own_timers(scheduler: Any, policy: Any) -> dict[str, Timer]:
    """Return name -> timer, for the timers with their own handler in a class of nodes."""
    names = map(handler_name, (*scheduler.messages, *scheduler.timers))
    others = frozenset({*_signatures(scheduler), *names})
    return own_timers(policy, others, (*scheduler.ticks, *scheduler.environment_timers))


def _signatures(scheduler: Any) -> dict[str, tuple[str, ...]]:
    """Return name -> parameters after ``self`` of the handlers of events."""
    has_requests = any(kind.answers for kind in scheduler.messages.values())
    signatures = _REQUEST_SIGNATURES if has_requests else _SIGNATURES
    return {**signatures, **scheduler.adapter_handlers, **scheduler.environment_handlers}


def check_handlers(policy: Any, scheduler: Any) -> None:
    """Raise ScenarioError if a method ``on_...`` is never called or has the wrong parameters.

    The attributes in ``stable_storage`` must be names, too.

    Parameters
    ----------
    policy
        The class of the nodes, a subclass of `NodeProgram`.
    """
    _check_names(f"{policy.__name__}.stable_storage", policy.stable_storage)
    kinds, timers = scheduler.messages, scheduler.timers
    events = _signatures(scheduler)
    signatures = {**{handler_name(kind): ("view", "message") for kind in kinds}, **events}
    if "on_timeout" in events and policy.on_timeout is NodeProgram.on_timeout:
        for method in methods_that_call(policy, "request"):
            raise ScenarioError(
                f"{location(policy, method)} calls view.request, which requires {policy.__name__}.on_timeout"
            )
    _check_undeclared_kinds(policy, scheduler)
    timer_handlers = {timer.handler for timer in _own_timers(scheduler, policy).values()}
    for name in dir(policy):
        if not name.startswith("on_") or name in timer_handlers:
            continue
        if getattr(policy, name) is getattr(NodeProgram, name, None):
            continue
        attribute = inspect.getattr_static(policy, name)
        function = getattr(attribute, "__func__", attribute)
        if not inspect.isfunction(function):
            continue
        place = location(policy, name)
        if name not in signatures:
            if uses(policy, name):
                continue
            if name in map(handler_name, timers):
                raise ScenarioError(
                    f"{place} is never called: on_timer handles the timer {name[3:]!r}, since it is in "
                    "timers; remove it there"
                )
            names = {*strings(policy)} - _names_of_values(scheduler)
            close = closest([*signatures, *map(handler_name, sorted(names))], name)
            raise ScenarioError(
                f"{place} is never called: there is no kind of message {name[3:]!r}, and no method sets a "
                f"timer {name[3:]!r}; {close}known: {', '.join(signatures)}"
            )
        if function is not attribute:
            raise ScenarioError(f"{place} must be an instance method, got a {type(attribute).__name__}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise ScenarioError(f"{place} must not be a generator or async: its body would never run")
        parameters = ("self", *signatures[name])
        if not (
            _takes(function, parameters) or name == "on_timer" and _takes(function, (*parameters, "value"))
        ):
            raise ScenarioError(
                f"{place} must take ({', '.join(parameters)}), got {inspect.signature(function)}"
            )


def check_constructor(policy: Any) -> None:
    """Raise ScenarioError if the class of the nodes cannot be called with the scheduler alone."""
    if not _takes(policy.__init__, ("self", "parameters")):
        raise ScenarioError(
            f"{location(policy, '__init__')} must take (self, parameters), and call "
            f"super().__init__(parameters), got {inspect.signature(policy.__init__)}"
        )


def _check_undeclared_kinds(policy: Any, scheduler: Any) -> None:
    """Raise ScenarioError if a method handles messages of a kind that is not declared.

    It does so if it takes, besides the view, one parameter that is not annotated and called ``message``, or
    called otherwise in a class that sets no timers.
    """
    handlers = {*_signatures(scheduler), *map(handler_name, (*scheduler.messages, *scheduler.timers))}
    sets_timers = any(any(methods_that_call(policy, name)) for name in ("timer", "at"))
    for name in dir(policy):
        function = inspect.getattr_static(policy, name)
        if not name.startswith("on_") or name in handlers or uses(policy, name):
            continue
        parameters = (
            [*inspect.signature(function).parameters.values()] if inspect.isfunction(function) else []
        )
        if len(parameters) != 3 or parameters[2].annotation is not inspect.Parameter.empty:
            continue
        kind = name.removeprefix("on_")
        if kind in strings(policy) and (parameters[2].name == "message" or not sets_timers):
            declared = ", ".join(scheduler.messages) or "none"
            raise ScenarioError(
                f"{location(policy, name)} handles a message of the kind {kind!r}: declare it in "
                f"{type(scheduler).__name__}.messages, which has {declared}"
            )


def _names_of_values(scheduler: Any) -> set[str]:
    """Return the names of fields of messages, and of tables and their columns, which are not timers."""
    mappings = [kind.fields for kind in scheduler.messages.values()]
    return set().union(scheduler.tables, *mappings, *scheduler.tables.values())


@lru_cache(1024)  # cached, since reading a signature takes long compared with a small run
def _takes(function: Any, parameters: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError:
        return False
    return True


def check_class_variables(scheduler: Any) -> None:
    """Raise ScenarioError if a class variable of a `NodeScheduler` has the wrong type or value."""
    path = type(scheduler).__name__
    policy = getattr(scheduler, "policy", None)
    if scheduler.roles:
        _check_roles(path, scheduler, policy)
    elif not (isinstance(policy, type) and issubclass(policy, NodeProgram)):
        entries = vars(type(scheduler)).items() if policy is None else ()
        names = [
            name for name, entry in entries if isinstance(entry, type) and issubclass(entry, NodeProgram)
        ]
        close = f"; did you mean policy = {path}.{names[0]}?" if names else ""
        raise ScenarioError(f"{path}.policy must be a subclass of NodeProgram, got {policy!r}{close}")
    if not isinstance(scheduler.name, str) or not scheduler.name:
        raise ScenarioError(f"{path}.name must be a non-empty string, got {short_repr(scheduler.name)}")
    for name in ("timers", "environment_timers", "node_forms"):
        _check_names(f"{path}.{name}", getattr(scheduler, name))
    forms = get_args(NodeForm)
    for form in scheduler.node_forms or ("",):
        one_of(f"{path}.node_forms", form, forms)
    one_of(f"{path}.local_order", scheduler.local_order, ("edf", "fifo"))
    if scheduler.watch is not None:
        one_of(f"{path}.watch", scheduler.watch, ("idle", "completion"))
    mappings: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
        ("messages", "a Message", lambda value: isinstance(value, Message)),
        (
            "ticks",
            "a number in 1e-9..2e9 (s)",
            lambda value: isinstance(value, (int, float)) and 1e-9 <= value <= 2e9,
        ),
        ("tables", "a dict of columns, each int or float", _are_columns),
    )
    for name, condition, fits in mappings:
        mapping = getattr(scheduler, name)
        if not isinstance(mapping, Mapping):
            raise ScenarioError(f"{path}.{name} must be a dict, got {short_repr(mapping)}")
        for key, value in mapping.items():
            if not isinstance(key, str) or not fits(value):
                raise ScenarioError(f"{path}.{name}[{key!r}] must be {condition}, got {short_repr(value)}")
    if not scheduler.messages:
        for name, value in vars(type(scheduler)).items():
            if isinstance(value, Mapping) and any(isinstance(kind, Message) for kind in value.values()):
                raise ScenarioError(
                    f"{path}.messages must declare the messages, got none; did you mean messages = "
                    f"{path}.{name}?"
                )
    for kind in scheduler.messages:
        if handler_name(kind) in _signatures(scheduler) and not _handles_messages(scheduler):
            raise ScenarioError(
                f"{path}.messages must not have the name of an event, got {kind!r}, since "
                f"{handler_name(kind)} handles that event; rename the kind, or handle it in on_message"
            )
    try:
        kinds_of(scheduler.messages)
    except ScenarioError as error:
        raise ScenarioError(f"{path}.messages: {error}") from None


def _handles_messages(scheduler: Any) -> bool:
    """Return whether a class of nodes defines `on_message`."""
    return any(policy.on_message is not NodeProgram.on_message for policy in role_classes(scheduler).values())


def _check_names(path: str, names: Any) -> None:
    if not isinstance(names, (tuple, list)) or not all(isinstance(entry, str) for entry in names):
        advice = f"; write ({names!r},)" if isinstance(names, str) else ""
        raise ScenarioError(f"{path} must be a tuple of strings, got {short_repr(names)}{advice}")


def _check_roles(path: str, scheduler: Any, policy: Any) -> None:
    roles = scheduler.roles
    if isinstance(policy, type):
        raise ScenarioError(f"{path} must have policy or roles, got both")
    if not isinstance(roles, Mapping):
        raise ScenarioError(f"{path}.roles must be a dict, got {short_repr(roles)}")
    for name, role in roles.items():
        if not isinstance(name, str) or not name or not isinstance(role, Role):
            raise ScenarioError(f"{path}.roles[{name!r}] must be a Role, got {short_repr(role)}")
    names = [name for name, role in roles.items() if role.releases]
    if len(names) > 1:
        raise ScenarioError(
            f"{path}.roles must have at most one role with releases=True, got {', '.join(names)}"
        )


def _are_columns(value: Any) -> bool:
    return isinstance(value, Mapping) and all(kind in (int, float) for kind in value.values())
