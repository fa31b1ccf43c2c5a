"""Schedulers by name: registered ones, classes in modules of users, and those that a file describes."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from gridsim.errors import GridSimError, ScenarioError, text_of
from gridsim.scheduling.contract import Scheduler
from gridsim.support import imports as importing
from gridsim.support.arguments import closest, listed, short_repr, text
from gridsim.support.imports import current_name, import_object, names_code, stored_name
from gridsim.support.parameters import changed_fields, fields_of, limits_of
from gridsim.support.plugins import plugins

#: Schedulers as a user gives them: objects, names or ``module:Class``, with or without names for them.
Schedulers = Mapping[str, Scheduler | str] | Sequence[Scheduler | str]


def chosen_schedulers(
    given: Any, tables: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Scheduler]:
    """Return name -> scheduler for `given`, `Schedulers`; those without a name of their own get one.

    Raises ScenarioError for anything else, for none, and for two schedulers of one name.

    Parameters
    ----------
    tables
        Parameters of schedulers that are given by name, such as ``Scenario.schedulers``.
    """
    if isinstance(given, (str, Scheduler)):
        given = [given]
    wanted = "schedulers must map names to Scheduler objects, or be a list of these or of names"
    if isinstance(given, Mapping):
        entries = list(given.items())
    elif isinstance(given, Sequence):
        entries = [(each if isinstance(each, str) else label(each), each) for each in given]
    else:
        raise ScenarioError(f"{wanted}, got {short_repr(given)}")
    if not entries:
        raise ScenarioError("schedulers must name at least one, got none")
    chosen: dict[str, Scheduler] = {}
    for name, scheduler in entries:
        text("schedulers: a name", name)
        if name in chosen:
            raise ScenarioError(f"schedulers has {name!r} twice: map names of your own to them")
        chosen[name] = scheduler_of(f"schedulers[{name!r}]", scheduler, tables)
    return chosen


def scheduler_of(path: str, given: Any, tables: Mapping[str, Mapping[str, Any]] | None = None) -> Scheduler:
    """Return `given` if it is a scheduler, or the one of this name, with its parameters in `tables`.

    Raises ScenarioError that begins with `path` for anything else.
    """
    if isinstance(given, str):
        return named_scheduler(given, (tables or {}).get(given, {}))
    if not isinstance(given, Scheduler):
        close = " (an object, not the class)" if isinstance(given, type) else ""
        raise ScenarioError(f"{path} must be a Scheduler object or a name{close}, got {short_repr(given)}")
    return given


def label(scheduler: Any) -> str:
    """Return a name for a scheduler: the registered one with its parameters, else its own and the parameters.

    Only parameters that differ from their defaults are named.
    """
    if not isinstance(scheduler, Scheduler):
        return short_repr(scheduler)
    kind = type(scheduler)
    given = changed_fields(scheduler)
    changed = {name: getattr(scheduler, name) for name in given}
    for name, entry in _entries():
        if entry.stated == stored_name(kind) and entry.preset == changed and entry.cls is kind:
            return name
    return " ".join([kind.name, *(f"{name}={said}" for name, said in given.items())])


def named_scheduler(name: str, parameters: Mapping[str, Any]) -> Scheduler:
    """Return the scheduler NAME or module:Class with `parameters`.

    Raises ScenarioError as `make_scheduler` and `import_scheduler` do.
    """
    return (import_scheduler if ":" in name else make_scheduler)(name, parameters)


def make_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """Return the scheduler that is registered as `name`, with `parameters`.

    Raises ScenarioError for an unknown name or parameter (the message lists the known ones), for a value that
    does not fit, and for one that contradicts a value for which the name stands.
    """
    cls, preset = _known(name)
    check_preset(name, cls, parameters or {})
    return build_scheduler(cls, {**preset, **(parameters or {})}, name)


def scheduler_class(name: str) -> type[Scheduler]:
    """Return the class of a scheduler that is registered, or ``module:Class``.  Raises ScenarioError."""
    return _imported(name) if ":" in name else _known(name)[0]


def _known(name: str) -> tuple[type[Scheduler], Mapping[str, Any]]:
    """Return the class and the preset parameters of a name; raise ScenarioError for an unknown one."""
    if (entry := _entry(name)) is None:
        raise ScenarioError(f"unknown scheduler {name!r}; {_near(registered(), name)}")
    return entry.cls, entry.preset


def _near(known: Collection[str], name: str) -> str:
    """Return what the user of an unknown name may have meant."""
    if os.path.isfile(file := f"{name}.py"):
        with open(file, encoding="utf-8", errors="replace") as stream:
            classes = re.findall(r"^class (\w+)\(.*Scheduler\b", stream.read(), re.MULTILINE)
        return f"{file} is in this folder: did you mean {name}:{classes[0] if classes else 'Class'}?"
    meant = _MEANT.get(name.lower()) or closest(known, name).removeprefix("did you mean ").strip("? ")
    return (f"did you mean {meant}? " if meant else "") + f"gridsim list schedulers shows all {len(known)}"


def check_preset(name: str, cls: type[Scheduler], parameters: Mapping[str, Any]) -> None:
    """Raise ScenarioError if a parameter contradicts the preset of `name`, where that stands for `cls`."""
    if not parameters or (entry := _entry(name)) is None or entry.cls is not cls or name == cls.name:
        return
    for key, value in parameters.items():
        if value != entry.preset.get(key, value):
            raise ScenarioError(
                f"{name}.{key} must be {entry.preset[key]!r}, for which the name stands, got "
                f"{short_repr(value)}; say {cls.name} for others"
            )


def import_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """Import the scheduler class module:Class and return it with `parameters`.

    Modules in the current directory are found too, after installed ones.  Raises ScenarioError if anything
    fails, including the code of the module.
    """
    return build_scheduler(_imported(name), parameters or {}, name)


def _imported(name: str) -> type[Scheduler]:
    module = name.partition(":")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        raise ScenarioError(
            f"scheduler {name!r} must be module:Class, of a module in this folder or in PYTHONPATH; "
            f"{module!r} is not the name of a module"
        )
    try:
        found = import_object(name)
    except (Exception, SystemExit) as error:  # the module may raise anything
        said = f"{type(error).__name__}: {text_of(error)}{_place(error)}"
        raise ScenarioError(f"cannot import scheduler {name!r}: {said}") from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise ScenarioError(f"scheduler {name!r} must be a subclass of gridsim.Scheduler, got {found!r}")
    if found.start is Scheduler.start:
        raise ScenarioError(f"scheduler {name!r} must define start(run), {found.__name__} does not")
    return found


def _place(error: BaseException) -> str:
    """Return where a module of a user raised `error`; "" if the import itself raised it."""
    if isinstance(error, SyntaxError):
        return ""  # its message has the place
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
    """Return the scheduler that `gridsim.scheduling.description.describe` described, if it is registered.

    Parameters
    ----------
    whose
        What the description belongs to, for error messages.
    imported_as
        The ``module:Class`` of a scheduler that is not registered.
    imports
        The code that its parameters may name; nothing is imported only because a file names it.

    Raises
    ------
    ScenarioError
        If the scheduler is another one, is not registered, or names other code.
    """
    stated, parameters = description["class"], _given(description, whose, imports)
    if imported_as is not None:
        if current_name(imported_as) != stated:
            raise ScenarioError(f"--scheduler must be {whose}'s, {stated}, got {imported_as!r}")
        return import_scheduler(imported_as, parameters)
    for _, entry in _entries():
        if entry.stated == stated:
            return build_scheduler(entry.cls, parameters, entry.cls.name)
    raise ScenarioError(
        f"the scheduler of {whose}, {description['name']!r}, is {stated}, which is not known by a name: "
        f"say --scheduler {stated} to import it"
    )


def _given(description: Mapping[str, Any], whose: str, imports: Collection[str]) -> dict[str, Any]:
    given = dict(description["parameters"])
    for key, value in given.items():
        if (code := names_code(value)) is not None and code not in imports:
            raise ScenarioError(
                f"{whose} names the code {code!r} for {description['name']}.{key}.  Code is not imported "
                f"because a file names it: add --import {shlex.quote(code)}, or pass the scheduler object"
            )
    return given


def build_scheduler(cls: type[Scheduler], parameters: Mapping[str, Any], name: str) -> Scheduler:
    """Return ``cls(**parameters)``, with each value converted to the type of its field.

    Raises ScenarioError for unknown or missing parameters, and for values that the class does not take.

    Parameters
    ----------
    name
        The scheduler in error messages.
    """
    fields = fields_of(cls)
    limits = limits_of(cls)
    values = {}
    for key, value in parameters.items():
        if key not in fields:
            known = listed(fields, key) if fields else "it has none"
            raise ScenarioError(f"{name}.{key} is not a parameter of this scheduler; {known}")
        if value is None and fields[key].default is None:  # the default, whatever the type
            continue
        try:
            values[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            if key in limits:  # the class says the range as well
                values[key] = value
                continue
            if words := _words(fields[key].type):
                raise ScenarioError(f"{name}.{key} must be {words[0]}, got {short_repr(value)}") from error
            message = str(error)[:1].lower() + str(error)[1:]
            raise ScenarioError(f"{name}.{key} = {short_repr(value)}: {message}") from error
        except UnicodeEncodeError as error:
            raise ScenarioError(f"{name}.{key} must be text, got {short_repr(value)}") from error
    missing = [key for key, field in fields.items() if field.required and key not in values]
    if missing:
        raise ScenarioError(f"{name}.{missing[0]} is missing, the scheduler has no default for it")
    try:
        return cls(**values)
    except GridSimError:
        raise
    except Exception as error:  # the checks of a user's scheduler may raise anything
        raise ScenarioError(f"{name}: {type(error).__name__}: {text_of(error)}") from error


def command(file: str, scheduler: Scheduler) -> str:
    """Return the command that runs `scheduler`, which must be registered, on the scenario in `file`."""
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
    """Return what one value and several values of a type are called; None if there is no simple name."""
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


#: Other names of schedulers -> the name here.
_MEANT = {"easy": "backfill", "easy-backfilling": "backfill", "backfilling": "backfill"}
#: The package of gridsim's own schedulers, which registers their names when it is imported.
_OWN = "gridsim.schedulers"


class _Entry:
    """What a name stands for: a class, or a name of one in `_OWN`, and preset parameters.

    Attributes
    ----------
    stated
        The class, as `stored_name` says it, for which it need not be imported.
    """

    def __init__(self, cls: type[Scheduler] | str, preset: Mapping[str, Any]) -> None:
        self._cls, self.preset = cls, preset
        self.stated = f"gridsim:{cls}" if isinstance(cls, str) else stored_name(cls)

    @property
    def cls(self) -> type[Scheduler]:
        """The class; one of gridsim's own is imported when it is first asked for."""
        if isinstance(self._cls, str):
            found: type[Scheduler] = getattr(importlib.import_module(_OWN), self._cls)
            self._cls = found
        return self._cls


_REGISTRY: dict[str, _Entry] = {}


def register(name: str, cls: type[Scheduler], **parameters: Any) -> None:
    """Make ``cls(**parameters)`` available under `name`.

    Raises ValueError for a name that is invalid or taken, TypeError for a class that is not a Scheduler or
    that does not have these parameters.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"the name of a scheduler must be a text without a colon, got {name!r}")
    importlib.import_module(_OWN)
    if name in _REGISTRY:
        raise ValueError(f"scheduler {name!r} is registered already")
    if not (isinstance(cls, type) and issubclass(cls, Scheduler)):
        raise TypeError(f"scheduler {name!r} must be a subclass of Scheduler, got {cls!r}")
    for key in parameters:
        if key not in cls.__struct_fields__:
            raise TypeError(f"{key!r} is not a parameter of {cls.__name__}, for the scheduler {name!r}")
    _REGISTRY[name] = _Entry(cls, parameters)


def register_own(name: str, cls: str, **parameters: Any) -> None:
    """Make the class called `cls` of gridsim's own package available under `name`, without importing it."""
    _REGISTRY[name] = _Entry(cls, parameters)


class _Registered(Mapping[str, tuple[type[Scheduler], Mapping[str, Any]]]):
    """Name -> (class, preset parameters); a class is imported when it is asked for."""

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> tuple[type[Scheduler], Mapping[str, Any]]:
        entry = self._entries[name]
        return entry.cls, entry.preset

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def registered() -> Mapping[str, tuple[type[Scheduler], Mapping[str, Any]]]:
    """Return name -> (class, preset parameters) of all schedulers with a name.

    These are the registered ones, and those that installed packages add by entry points of the group
    ``gridsim.schedulers``, whose value is a class.  A class of gridsim is imported when it is asked for.
    """
    return _Registered(dict(_entries()))


def _entry(name: str) -> _Entry | None:
    """Return what a name stands for.  A registered name needs no look at installed packages."""
    importlib.import_module(_OWN)
    return _REGISTRY.get(name) or _added().get(name)


def _entries() -> Iterator[tuple[str, _Entry]]:
    """Iterate over the names and what they stand for: the registered ones, then those of packages."""
    importlib.import_module(_OWN)
    yield from list(_REGISTRY.items())
    yield from _added().items()


def _added() -> dict[str, _Entry]:
    return {name: _Entry(cls, {}) for name, cls in plugins("gridsim.schedulers", _fault, _REGISTRY).items()}


def _fault(loaded: Any) -> str:
    """Return what is wrong with what a package adds; "" if it is a scheduler."""
    if not (isinstance(loaded, type) and issubclass(loaded, Scheduler)):
        return f"it must be a subclass of gridsim.Scheduler, got {short_repr(loaded)}"
    return "" if loaded.start is not Scheduler.start else "it must define start(run)"
