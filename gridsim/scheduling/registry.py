"""Schedulers by name: those that are known, those of the user's modules, and those that a file tells of."""

from __future__ import annotations

import importlib
import os
import shlex
import traceback
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from gridsim.errors import GridSimError, ScenarioError, text_of
from gridsim.scheduling.contract import Scheduler
from gridsim.support import imports as importing
from gridsim.support.arguments import shown, text
from gridsim.support.imports import current_name, imported, kept_name, names_code


def check_schedulers(schedulers: Any) -> None:
    """That they map names to Scheduler objects, else ScenarioError."""
    if not isinstance(schedulers, Mapping):
        raise ScenarioError(f"schedulers must map names to Scheduler objects, got {schedulers!r}")
    if not schedulers:
        raise ScenarioError("schedulers must name at least one, got none")
    for name, scheduler in schedulers.items():
        text("schedulers: a name", name)
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"schedulers[{name!r}] must be a Scheduler object, got {scheduler!r}")


def named_scheduler(name: str, parameters: Mapping[str, Any]) -> Scheduler:
    """The scheduler NAME or module:Class with its parameters.  Raises ScenarioError as those below."""
    return (import_scheduler if ":" in name else make_scheduler)(name, parameters)


def make_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler known as `name`, with `parameters`.

    Raises ScenarioError for an unknown name or parameter, a value that does not fit, with what is known, or
    one that contradicts a name which stands for another.
    """
    known = registered()
    if name not in known:
        raise ScenarioError(f"unknown scheduler {name!r}; known: {', '.join(known)}")
    cls, preset = known[name]
    check_preset(name, cls, parameters or {})
    return build_scheduler(cls, {**preset, **(parameters or {})}, name)


def check_preset(name: str, cls: type[Scheduler], parameters: Mapping[str, Any]) -> None:
    """That no parameter contradicts what `name` stands for, if it is known as one of `cls`."""
    known, preset = registered().get(name, (None, {}))
    for key, value in parameters.items():
        if known is cls and name != cls.name and value != preset.get(key, value):
            raise ScenarioError(
                f"{name}.{key} must be {preset[key]!r}, for which the name stands, got {shown(value)}; "
                f"say {cls.name} for others"
            )


def import_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """The scheduler class at module:Class, with `parameters`.

    Modules of the current directory are found too, after installed ones.  Raises ScenarioError for whatever
    goes wrong on the way.
    """
    try:
        found = imported(name)
    except (Exception, SystemExit) as error:  # whatever the module does wrong
        said = f"{type(error).__name__}: {text_of(error)}{_place(error)}"
        raise ScenarioError(f"cannot import scheduler {name!r}: {said}") from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise ScenarioError(f"scheduler {name!r} must be a subclass of gridsim.Scheduler, got {found!r}")
    if found.start is Scheduler.start:
        raise ScenarioError(f"scheduler {name!r} must define start(run), {found.__name__} does not")
    return build_scheduler(found, parameters or {}, name)


def _place(error: BaseException) -> str:
    """Where a module of somebody else raised `error`; nothing if that was in the import itself."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    ours = (__file__, importing.__file__, importlib.__file__)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename not in ours and not frame.filename.startswith("<frozen "):
            return f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    return ""


def scheduler_from(
    description: Mapping[str, Any],
    whose: str,
    *,
    imported_as: str | None = None,
    imports: Collection[str] = (),
) -> Scheduler:
    """The scheduler that `gridsim.simulation.simulate.describe` told of, if it is one of those known by name.

    imported_as : the ``module:Class`` of any other.  imports : what code its parameters may name; a file is
        not asked what to import.

    Raises ScenarioError that says `whose` scheduler is another one or names other code.
    """
    stated, parameters = description["class"], _given(description, whose, imports)
    if imported_as is not None:
        if current_name(imported_as) != stated:
            raise ScenarioError(f"--scheduler must be {whose}'s, {stated}, got {imported_as!r}")
        return import_scheduler(imported_as, parameters)
    for cls, _ in registered().values():
        if kept_name(cls) == stated:
            return build_scheduler(cls, parameters, cls.name)
    raise ScenarioError(
        f"the scheduler of {whose}, {description['name']!r}, is {stated}, which is not known by a name: "
        f"say --scheduler {stated} to import it"
    )


def _given(description: Mapping[str, Any], whose: str, imports: Collection[str]) -> dict[str, Any]:
    given = dict(description["parameters"])
    for key, value in given.items():
        if (code := names_code(value)) is not None and code not in imports:
            raise ScenarioError(
                f"{description['name']}.{key} of {whose} is {code!r}, which is not imported because a file "
                f"says so: say --import {shlex.quote(code)}, or hand over the scheduler"
            )
    return given


def build_scheduler(cls: type[Scheduler], parameters: Mapping[str, Any], name: str) -> Scheduler:
    """``cls(**parameters)``, each value converted to the type of its field; `name` is for the errors."""
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    values = {}
    for key, value in parameters.items():
        if key not in fields:
            known = ", ".join(fields) or "it has none"
            raise ScenarioError(f"{name}.{key} is not a parameter of this scheduler; known: {known}")
        if value is None and fields[key].default is None:  # whatever its type says
            continue
        try:
            values[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            if words := _words(fields[key].type):
                raise ScenarioError(f"{name}.{key} must be {words[0]}, got {shown(value)}") from error
            message = str(error)[:1].lower() + str(error)[1:]
            raise ScenarioError(f"{name}.{key} = {shown(value)}: {message}") from error
        except UnicodeEncodeError as error:
            raise ScenarioError(f"{name}.{key} must be text, got {shown(value)}") from error
    missing = [key for key, field in fields.items() if field.required and key not in values]
    if missing:
        raise ScenarioError(f"{name}.{missing[0]} is missing, the scheduler has no default for it")
    try:
        return cls(**values)
    except GridSimError:
        raise
    except Exception as error:  # what the checks of somebody else's parameters raise
        raise ScenarioError(f"{name}: {type(error).__name__}: {text_of(error)}") from error


def command(file: str, scheduler: Scheduler) -> str:
    """The command that runs `scheduler`, one known by name, on the scenario in `file`."""
    name, usual = scheduler.name, type(scheduler)()
    words = ["gridsim", "run", file, "--scheduler", name]
    for field in scheduler.__struct_fields__:
        value = getattr(scheduler, field)
        if value != getattr(usual, field):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words += ["--set", f"{name}.{field}={text.lower() if isinstance(value, bool) else text}"]
    return shlex.join(words)


_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "entries true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
}


def _words(kind: Any) -> tuple[str, str] | None:
    """What a value of a type is called, and several of them; None for a type that has no simple name."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, entries = get_origin(kind), [entry for entry in get_args(kind) if entry is not Ellipsis]
    if origin is Literal:
        listed = ", ".join(map(repr, entries))
        return f"one of {listed}", f"entries of {listed}"
    if origin in (Union, UnionType):
        named = [_words(entry) for entry in entries if entry is not NoneType]
        some = [words for words in named if words is not None]
        if len(some) < len(named):
            return None
        return " or ".join(one for one, _ in some), " or ".join(several for _, several in some)
    if origin in (tuple, list) and entries and len(set(entries)) == 1 and (words := _words(entries[0])):
        count = "" if origin is list or Ellipsis in get_args(kind) else f"{len(entries)} "
        return f"a list of {count}{words[1]}", f"lists of {count}{words[1]}"
    return None


#: Packages that register schedulers as they are imported.
_REGISTER_THEMSELVES = ("gridsim.schedulers",)
_REGISTRY: dict[str, tuple[type[Scheduler], Mapping[str, Any]]] = {}


def register(name: str, cls: type[Scheduler], **parameters: Any) -> None:
    """Make ``cls(**parameters)`` available under `name`.

    Raises ValueError for a name that is none or is taken, TypeError for a class or parameters that are none.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"the name of a scheduler must be a text without a colon, got {name!r}")
    if name in _REGISTRY:
        raise ValueError(f"scheduler {name!r} is registered already")
    if not (isinstance(cls, type) and issubclass(cls, Scheduler)):
        raise TypeError(f"scheduler {name!r} must be a subclass of Scheduler, got {cls!r}")
    for key in parameters:
        if key not in cls.__struct_fields__:
            raise TypeError(f"{key!r} is not a parameter of {cls.__name__}, for the scheduler {name!r}")
    _REGISTRY[name] = cls, parameters


def registered() -> dict[str, tuple[type[Scheduler], Mapping[str, Any]]]:
    """Name -> (class, preset parameters) of the schedulers that are known by name."""
    for package in _REGISTER_THEMSELVES:
        importlib.import_module(package)
    return dict(_REGISTRY)
