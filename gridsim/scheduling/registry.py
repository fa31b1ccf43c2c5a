"""Schedulers by name: registered ones, classes in users' modules, and schedulers that a file describes."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from gridsim.errors import GridSimError, ScenarioError, text_of, variant_label
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.description import MAX_NUMBERS
from gridsim.support.arguments import closest, entries_of, hint, listed, short_repr, text
from gridsim.support.imports import (
    current_name,
    first_code_name,
    import_named,
    is_sent_object,
    plugins,
    stored_name,
)
from gridsim.support.parameters import changed_fields, fields_of, limits_of, literal_values

#: Schedulers passed by a user: objects, or names for `named_scheduler`, as a list, or a mapping from labels.
Schedulers = Mapping[str, Scheduler | str] | Sequence[Scheduler | str]


def chosen_schedulers(
    schedulers: Any, tables: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Scheduler]:
    """Return name -> scheduler for the schedulers that a user passes; schedulers in a list get a name.

    Parameters
    ----------
    schedulers
        A scheduler or its name, a list of these, or a mapping of names to these.
    tables
        Name -> parameters of the schedulers that are passed by name, such as ``Scenario.schedulers``.

    Raises
    ------
    ScenarioError
        If `schedulers` has another type or is empty, or two schedulers have the same name.
    """
    if isinstance(schedulers, (str, Scheduler)):
        schedulers = [schedulers]
    condition = "schedulers must map names to Scheduler objects, or be a list of these or of names"
    if isinstance(schedulers, Mapping):
        entries = list(schedulers.items())
    elif isinstance(schedulers, Sequence):
        entries = [
            (split_label(entry)[0] if isinstance(entry, str) else label(entry), entry)
            for entry in entries_of(schedulers)
        ]
    else:
        raise ScenarioError(f"{condition}, got {short_repr(schedulers)}")
    if not entries:
        raise ScenarioError("schedulers must contain at least one scheduler, got none")
    result: dict[str, Scheduler] = {}
    for name, scheduler in entries:
        text("schedulers: a name", name)
        if name in result:
            raise ScenarioError(
                f"schedulers must have different names, got {name!r} twice: use a mapping, or LABEL=NAME"
            )
        result[name] = scheduler_of(f"schedulers[{name!r}]", scheduler, tables)
    return result


def scheduler_of(
    path: str, scheduler: Any, tables: Mapping[str, Mapping[str, Any]] | None = None
) -> Scheduler:
    """Return `scheduler` if it is a scheduler; if it is a name, return the scheduler of this name.

    Parameters
    ----------
    path
        The path of the argument in error messages.
    tables
        Name -> parameters of the schedulers that are passed by name.

    Raises
    ------
    ScenarioError
        If `scheduler` has another type or is an unknown name.
    """
    if isinstance(scheduler, str):
        return named_scheduler(scheduler, (tables or {}).get(scheduler, {}))
    if not isinstance(scheduler, Scheduler):
        hint = " (an object, not the class)" if isinstance(scheduler, type) else ""
        raise ScenarioError(f"{path} must be a Scheduler object or a name{hint}, got {short_repr(scheduler)}")
    return scheduler


def label(scheduler: Any) -> str:
    """Return a name for a scheduler.

    It is the registered name that has the same class and parameters.  If there is none, it is the name of the
    class and the parameters that differ from their defaults.
    """
    if not isinstance(scheduler, Scheduler):
        return short_repr(scheduler)
    kind = type(scheduler)
    parameters = changed_fields(scheduler)
    changed = {name: getattr(scheduler, name) for name in parameters}
    for name, entry in _entries():
        if entry.class_path == stored_name(kind) and entry.preset == changed and entry.cls is kind:
            return name
    return " ".join([kind.name, *(f"{name}={value}" for name, value in parameters.items())])


def split_label(name: str) -> tuple[str, str]:
    """Return the label and the scheduler of ``LABEL=SCHEDULER``.

    Without a label, a registered name is its own label, and a class module:Class has the `name` that it
    defines; a class that defines none is called module:Class.

    Raises
    ------
    ScenarioError
        If the label is empty or has a colon, or the class cannot be imported.
    """
    first, equals, scheduler = (part.strip() for part in name.partition("="))
    if equals and (not first or ":" in first):
        raise ScenarioError(
            f"scheduler {name!r} must be SCHEDULER or LABEL=SCHEDULER, and parameters are set by "
            "--set LABEL.PARAM=VALUE"
        )
    if equals:
        return first, scheduler
    cls = _import_class(first) if ":" in first else None
    return (cls.name if cls is not None and "name" in vars(cls) else first), first


def named_scheduler(name: str, parameters: Mapping[str, Any]) -> Scheduler:
    """Return the scheduler that `name` stands for, with `parameters`.

    Parameters
    ----------
    name
        A registered name or module:Class; after ``LABEL=`` it is a variant with parameters of its own.

    Raises
    ------
    ScenarioError
        If `split_label`, `make_scheduler` or `import_scheduler` raises it.
    """
    label, scheduler = split_label(name)
    with variant_label(label, scheduler_class(scheduler).name):
        return (import_scheduler if ":" in scheduler else make_scheduler)(scheduler, parameters)


def make_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """Return the scheduler that is registered as `name`, with `parameters`.

    Raises
    ------
    ScenarioError
        If the name or a parameter is unknown, a value does not fit, or a value contradicts a preset parameter
        of the name.
    """
    cls, preset = _class_and_preset(name)
    check_preset(name, cls, parameters or {})
    return build_scheduler(cls, {**preset, **(parameters or {})}, name)


def scheduler_class(name: str) -> type[Scheduler]:
    """Return the class of a scheduler that is registered as `name`, or the class ``module:Class``.

    Raises
    ------
    ScenarioError
        If the name is unknown or the class cannot be imported.
    """
    return _import_class(name) if ":" in name else _class_and_preset(name)[0]


def _class_and_preset(name: str) -> tuple[type[Scheduler], Mapping[str, Any]]:
    """Return the class and the preset parameters of a registered name; raise ScenarioError without one."""
    if (entry := _entry(name)) is None:
        raise ScenarioError(f"unknown scheduler {name!r}; {_suggestion(registered(), name)}")
    return entry.cls, entry.preset


def _suggestion(names: Collection[str], name: str) -> str:
    """Return a hint for an unknown name: the closest of `names`, or a file in the current folder."""
    if os.path.isfile(file := f"{name}.py"):
        with open(file, encoding="utf-8", errors="replace") as stream:
            classes = re.findall(r"^class (\w+)\(.*Scheduler\b", stream.read(), re.MULTILINE)
        return f"{file} is in this folder: did you mean {name}:{classes[0] if classes else 'Class'}?"
    if "," in name:
        return "this is one scheduler; for several use gridsim compare --schedulers, or gridsim.compare"
    suggestion = _SYNONYMS.get(name.lower()) or closest(names, name).removeprefix("did you mean ").strip("? ")
    return (
        f"did you mean {suggestion}? " if suggestion else ""
    ) + f"gridsim list schedulers shows all {len(names)}"


def check_preset(name: str, cls: type[Scheduler], parameters: Mapping[str, Any]) -> None:
    """Raise ScenarioError if `name` is registered for `cls` and a parameter contradicts its preset."""
    if not parameters or (entry := _entry(name)) is None or entry.cls is not cls or name == cls.name:
        return
    for key, value in parameters.items():
        if value != entry.preset.get(key, value):
            raise ScenarioError(
                f"{name}.{key} must be {entry.preset[key]!r}, the preset of {name}, got "
                f"{short_repr(value)}; use {cls.name} for other values"
            )


def import_scheduler(name: str, parameters: Mapping[str, Any] | None = None) -> Scheduler:
    """Import the class module:Class and return an instance with `parameters`.

    Modules in the current directory are found too, after installed ones.

    Raises
    ------
    ScenarioError
        If the import or the code of the module fails, or a parameter does not fit.
    """
    return build_scheduler(_import_class(name), parameters or {}, name)


def _import_class(name: str) -> type[Scheduler]:
    cls = import_named("scheduler", name)
    if not (isinstance(cls, type) and issubclass(cls, Scheduler)):
        raise ScenarioError(f"scheduler {name!r} must be a subclass of gridsim.Scheduler, got {cls!r}")
    if cls.start is Scheduler.start:
        raise ScenarioError(f"scheduler {name!r} must define start(run), which {cls.__name__} does not")
    return cls


def scheduler_from(
    description: Mapping[str, Any],
    owner: str,
    *,
    imported_as: str | None = None,
    imports: Collection[str] = (),
) -> Scheduler:
    """Return the scheduler of a description that `gridsim.scheduling.description.describe` returned.

    Parameters
    ----------
    owner
        The owner of the description in error messages, such as "the run".
    imported_as
        The ``module:Class`` of the scheduler if it is not registered.
    imports
        The code that its parameters may name.  For safety, other code that a file names is not imported.

    Raises
    ------
    ScenarioError
        If the class is not `imported_as` or is not registered, a parameter names other code, or the
        description has only the SHA-256 of a parameter.
    """
    class_path, parameters = description["class"], _described_parameters(description, owner, imports)
    if imported_as is not None:
        if current_name(imported_as) != class_path:
            raise ScenarioError(
                f"--scheduler must be {class_path}, the scheduler of {owner}, got {imported_as!r}"
            )
        return import_scheduler(imported_as, parameters)
    for _, entry in _entries():
        if entry.class_path == class_path:
            return build_scheduler(entry.cls, parameters, entry.cls.name)
    raise ScenarioError(
        f"the scheduler of {owner}, {description['name']!r}, is {class_path}, which is not registered: "
        f"pass it as scheduler=, or in the shell add --scheduler {class_path} to import it"
    )


def _described_parameters(
    description: Mapping[str, Any], owner: str, imports: Collection[str]
) -> dict[str, Any]:
    parameters = dict(description["parameters"])
    for key, value in parameters.items():
        if isinstance(value, dict) and [*value] == ["sha256"]:
            raise ScenarioError(
                f"{owner} has only the SHA-256 of {description['name']}.{key}, since it has more than "
                f"{MAX_NUMBERS} numbers: in Python, create the scheduler with these numbers, and pass it to "
                "gridsim.simulate or gridsim.resume"
            )
        if (code := first_code_name(value, imports)) is not None:
            raise ScenarioError(
                f"{owner} names the code {code!r} for {description['name']}.{key}.  For safety, code that "
                f"only a file names is not imported: add --import {shlex.quote(code)}, or pass the "
                "scheduler object"
            )
    return parameters


def build_scheduler(cls: type[Scheduler], parameters: Mapping[str, Any], name: str) -> Scheduler:
    """Return ``cls(**parameters)``, with each value converted to the type of its field.

    Parameters
    ----------
    name
        The name of the scheduler in error messages.

    Raises
    ------
    ScenarioError
        If a parameter is unknown or missing, or the class does not accept a value.
    """
    fields = fields_of(cls)
    limits = limits_of(cls)
    values = {}
    for key, value in parameters.items():
        if key not in fields:
            known = listed(fields, key) if fields else "it has none"
            raise ScenarioError(f"{name}.{key} is not a parameter of this scheduler; {known}")
        if value is None and fields[key].default is None:  # the default may not match the annotation
            continue
        try:
            values[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            if key in limits:  # the error of the class also states the valid range
                values[key] = value
                continue
            if words := _terms_of_type(fields[key].type):
                close = hint(literal_values(fields[key].type), value)
                raise ScenarioError(
                    f"{name}.{key} must be {words[0]}, got {short_repr(value)}{close}"
                ) from error
            message = str(error)[:1].lower() + str(error)[1:]
            raise ScenarioError(f"{name}.{key} = {short_repr(value)}: {message}") from error
        except UnicodeEncodeError as error:
            raise ScenarioError(f"{name}.{key} must be valid Unicode, got {short_repr(value)}") from error
    missing = [key for key, field in fields.items() if field.required and key not in values]
    if missing:
        raise ScenarioError(f"{name}.{missing[0]} is required: it has no default")
    try:
        return cls(**values)
    except GridSimError:
        raise
    except Exception as error:  # the checks of a user's scheduler may raise anything
        raise ScenarioError(f"{name}: {type(error).__name__}: {text_of(error)}") from error


def command(file: str, scheduler: Scheduler) -> str:
    """Return the shell command that runs `scheduler`, which must be registered, on the scenario in `file`."""
    name, default = scheduler.name, type(scheduler)()
    words = ["gridsim", "run", file, "--scheduler", name]
    for field in scheduler.__struct_fields__:
        value = getattr(scheduler, field)
        if value != getattr(default, field):
            words += ["--set", f"{name}.{field}={setting_text(value)}"]
    return shlex.join(words)


def setting_text(value: Any) -> str:
    """Return the value of a parameter as ``--set`` takes it."""
    if isinstance(value, Mapping):
        entries = ", ".join(f"{json.dumps(key)} = {json.dumps(entry)}" for key, entry in value.items())
        return f"{{{entries}}}"
    if isinstance(value, (tuple, list)):
        return ",".join(map(setting_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


_TYPE_TERMS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "entries true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
}


def _terms_of_type(kind: Any) -> tuple[str, str] | None:
    """Return the singular and plural terms for values of a type; None if it has no simple term."""
    if kind in _TYPE_TERMS:
        return _TYPE_TERMS[kind]
    origin, entries = get_origin(kind), [entry for entry in get_args(kind) if entry is not Ellipsis]
    if origin is Literal:
        listed = ", ".join(str(entry) or "''" for entry in entries)
        return f"one of {listed}", f"entries of {listed}"
    if origin in (Union, UnionType):
        texts = [_terms_of_type(entry) for entry in entries if entry is not NoneType]
        terms = [words for words in texts if words is not None]
        if len(terms) < len(texts):
            return None
        return " or ".join(singular for singular, _ in terms), " or ".join(plural for _, plural in terms)
    if (
        origin in (tuple, list)
        and entries
        and len(set(entries)) == 1
        and (words := _terms_of_type(entries[0]))
    ):
        count = "" if origin is list or Ellipsis in get_args(kind) else f"{len(entries)} "
        return f"a list of {count}{words[1]}", f"lists of {count}{words[1]}"
    return None


#: Synonym of a scheduler's name -> the registered name.
_SYNONYMS = {
    "easy": "backfill",
    "easy-backfilling": "backfill",
    "backfilling": "backfill",
    "sjf": "backfill-sjf",
}
#: The package of gridsim's own schedulers, which registers their names when it is imported.
_PACKAGE = "gridsim.schedulers"


class _Entry:
    """An entry of the registry: a class, or ``module:Class`` in `_PACKAGE`, and preset parameters.

    Attributes
    ----------
    class_path
        The class as ``module:Class``, which is known without an import of the class.
    place
        Its place in `_PACKAGE` as ``module:Class``; "" for other classes.
    """

    def __init__(self, cls: type[Scheduler] | str, preset: Mapping[str, Any]) -> None:
        self._cls, self.preset = cls, preset
        self.place = cls if isinstance(cls, str) else ""
        self.class_path = f"gridsim:{cls.partition(':')[2]}" if isinstance(cls, str) else stored_name(cls)

    @property
    def cls(self) -> type[Scheduler]:
        """The class; a class of gridsim is imported at the first access."""
        if isinstance(self._cls, str):
            module, _, name = self._cls.partition(":")
            cls: type[Scheduler] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
            self._cls = cls
        return self._cls


_REGISTRY: dict[str, _Entry] = {}


def register(name: str, cls: type[Scheduler], **parameters: Any) -> None:
    """Make ``cls(**parameters)`` available under `name`.

    Raises
    ------
    ValueError
        If the name is invalid or registered already.
    TypeError
        If the class is not a `Scheduler` or does not have these parameters.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"name of a scheduler must be a non-empty string without a colon, got {name!r}")
    importlib.import_module(_PACKAGE)
    # a module that another process sent may register a name that the script or another version has registered
    is_sent, known = is_sent_object(cls), _REGISTRY.get(name)
    if known is not None and not is_sent:
        raise ValueError(f"scheduler {name!r} is already registered")
    if not (isinstance(cls, type) and issubclass(cls, Scheduler)):
        raise TypeError(f"scheduler {name!r} must be a subclass of Scheduler, got {cls!r}")
    for key in parameters:
        if key not in cls.__struct_fields__:
            raise TypeError(f"scheduler {name!r}: {key!r} is not a parameter of {cls.__name__}")
    if known is None or is_sent_object(known.cls):
        _REGISTRY[name] = _Entry(cls, parameters)


def register_builtin(name: str, cls: str, **parameters: Any) -> None:
    """Make ``module:Class`` of `gridsim.schedulers` available under `name`, without importing it."""
    _REGISTRY[name] = _Entry(cls, parameters)


def builtin_modules() -> dict[str, str]:
    """Return class -> module in `gridsim.schedulers`, for the built-in schedulers as they are registered."""
    importlib.import_module(_PACKAGE)
    places = (entry.place.partition(":") for entry in _REGISTRY.values() if entry.place)
    return {name: module for module, _, name in places}


class _RegistryView(Mapping[str, tuple[type[Scheduler], Mapping[str, Any]]]):
    """Mapping of names to (class, preset parameters) that imports a class when it is first accessed."""

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
    """Return name -> (class, preset parameters), for all registered schedulers.

    They include the classes that installed packages add as entry points of the group ``gridsim.schedulers``.
    A class of gridsim is imported when it is first accessed.
    """
    return _RegistryView(dict(_entries()))


def _entry(name: str) -> _Entry | None:
    """Return the entry of the scheduler `name`; None if there is none."""
    importlib.import_module(_PACKAGE)
    # Registered names come first, since the scan of installed packages takes long.
    return _REGISTRY.get(name) or _plugin_entries().get(name)


def _entries() -> Iterator[tuple[str, _Entry]]:
    """Iterate over names and entries, registered schedulers first, then installed packages."""
    importlib.import_module(_PACKAGE)
    yield from list(_REGISTRY.items())
    yield from _plugin_entries().items()


def _plugin_entries() -> dict[str, _Entry]:
    return {
        name: _Entry(cls, {}) for name, cls in plugins("gridsim.schedulers", _plugin_error, _REGISTRY).items()
    }


def _plugin_error(_: str, plugin: Any) -> str:
    """Return the reason why an object that a package adds is not a scheduler; "" if it is one."""
    if not (isinstance(plugin, type) and issubclass(plugin, Scheduler)):
        return f"it must be a subclass of gridsim.Scheduler, got {short_repr(plugin)}"
    return "" if plugin.start is not Scheduler.start else "it must define start(run)"
