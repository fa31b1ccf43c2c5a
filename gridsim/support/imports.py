"""Imports by name: optional packages, objects at a path, plugins, and settings before numpy is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gridsim.errors import PluginWarning, ScenarioError, text_of
from gridsim.support.memory import check_address_space

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Beginning of the name of a package with modules of the user that another process sent.
SENT_PREFIX = "gridsim_user_"
#: Modules that were sent for the current run: original name -> name in this process.
SENT_MODULES: ContextVar[Mapping[str, str]] = ContextVar("SENT_MODULES", default=MappingProxyType({}))


def first_code_name(value: Any, imports: Collection[str] = ()) -> str | None:
    """Return the first string in `value` that could name code as ``module:attribute``; None if there is none.

    Strings inside lists and tables are searched too.  Values from files are checked before they become
    parameters, since a file must not cause an import.

    Parameters
    ----------
    imports
        The code that may be named.
    """
    if isinstance(value, str):
        return value if ":" in value and value not in imports else None
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    elif not isinstance(value, (list, tuple)):
        return None
    return next((text for each in value if (text := first_code_name(each, imports)) is not None), None)


def stored_name(obj: Any) -> str:
    """Return the ``module:name`` by which files refer to a class or function of a user or of gridsim."""
    return current_name(f"{original_module(obj.__module__)}:{obj.__qualname__}")


def is_sent_object(obj: Any) -> bool:
    """Return whether a class or function is of a module that another process sent."""
    return str(getattr(obj, "__module__", "")).startswith(SENT_PREFIX)


def original_module(name: str) -> str:
    """Return the name of a module of the user in the process that sent it; other names are unchanged."""
    package, _, module = name.partition(".")
    return module if package.startswith(SENT_PREFIX) else name


def current_name(name: str) -> str:
    """Replace ``gridsim.MODULE:NAME``, as stored by earlier versions, by ``gridsim:NAME``."""
    package, _, attribute = name.partition(":")
    return f"gridsim:{attribute}" if package.startswith("gridsim.") else name


def import_object(name: str) -> Any:
    """Import and return the object with the name ``module:attribute``.

    In a run that another process sent, the modules that it sent take precedence; then installed modules, and
    then those of the current directory.  Errors of the import are raised.
    """
    module, _, attribute = name.partition(":")
    _append_current_directory()
    target: Any = importlib.import_module(SENT_MODULES.get().get(module, module))
    for part in attribute.split("."):
        target = getattr(target, part)
    return target


def import_named(noun: str, name: str) -> Any:
    """Return `import_object` of a name that a user states.

    Parameters
    ----------
    noun
        The noun for the object in error messages, such as "scheduler".

    Raises
    ------
    ScenarioError
        If the name is not module:attribute, or the import or the code of the module fails.
    """
    module, colon, attribute = name.partition(":")
    if not (attribute and all(part.isidentifier() for part in module.split("."))):
        wrong = f"; {module!r} is not the name of a module" if colon else ""
        raise ScenarioError(
            f"{noun} {name!r} must be module:Class, of a module in this folder or in PYTHONPATH{wrong}"
        )
    try:
        return import_object(name)
    except (Exception, SystemExit) as error:  # the module may raise anything
        cause = f"{type(error).__name__}: {text_of(error)}{_place(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            cause += f", which is not in {_searched_folders()}"
        raise ScenarioError(f"cannot import {noun} {name!r}: {cause}") from error


def _place(error: BaseException) -> str:
    """Return the place in a user's module that raised `error`; "" if the import itself raised it."""
    if isinstance(error, SyntaxError):
        return ""  # the message of a syntax error already states the place
    ours = (__file__, importlib.__file__)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename not in ours and not frame.filename.startswith("<frozen "):
            return f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    return ""


def _searched_folders() -> str:
    """Return the places where a user's modules are searched, as text."""
    folder = "which was removed"
    with suppress(FileNotFoundError):
        folder = os.getcwd()
    path = os.environ.get("PYTHONPATH") or "empty"
    return f"this folder ({folder}), PYTHONPATH ({path}) or an installed package"


def module_file(module: str) -> str | None:
    """Return the file of the module that `import_object` would import; None if there is none.

    The packages that contain the module are imported, the module itself is not.
    """
    _append_current_directory()
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # a finder or a parent package may raise anything
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _append_current_directory() -> None:
    """Add the current directory to the end of the module search path."""
    with suppress(FileNotFoundError):  # the directory may have been removed
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())


_TIMEOUT_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"


def sleeping_thread_variables() -> dict[str, str]:
    """Return environment variables that make idle threads of OpenBLAS sleep at once.

    By default each thread keeps a core busy for 20 ms or more after numpy is imported.  The number of
    threads, on which floating-point sums may depend, is unchanged.  A value set by the user is kept.
    """
    return {_TIMEOUT_VARIABLE: os.environ.get(_TIMEOUT_VARIABLE, "4")}  # 2**4 cycles, the minimum


#: Address space (bytes) that a library needs to load and to start its threads.  With less, OpenBLAS (part of
#: SciPy) retries forever, and Arrow crashes.
_ADDRESS_SPACE = {"scipy.stats": 400_000_000, "scipy.optimize": 400_000_000, "pyarrow": 400_000_000}


class MissingExtra(ImportError):
    """Error about a module of an extra that is not installed."""


def import_extra(module: str, extra: str, feature: str) -> Any:
    """Import and return `module`, which `feature` requires and `extra` installs.

    A module that is installed but cannot be imported raises its own error.

    Raises
    ------
    MissingExtra
        If the module is not installed (an ImportError).
    OutOfMemory
        If the process has too little address space left for the module.
    """
    package = module.partition(".")[0]
    for name in (package, module):
        if name in _ADDRESS_SPACE and name not in sys.modules:
            check_address_space(package, _ADDRESS_SPACE[name])
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(f'{feature} needs {package}: pip install "gridsched[{extra}]"') from error


#: Returns the fault of the object of an entry point with this name, or "" if it is valid.
PluginCheck = Callable[[str, Any], str]


def plugins(group: str, check: PluginCheck, reserved: Collection[str] = ()) -> dict[str, Any]:
    """Return name -> object, for the entry points of `group` that can be loaded.

    Installed packages add schedulers, trace formats, metrics, kinds of platforms, workloads, faults and
    background load, and export formats by entry points in their ``pyproject.toml``::

        [project.entry-points."gridsim.schedulers"]
        my-scheduler = "mypackage.schedulers:MyScheduler"

    User code need not import the package, and a file never names code.  A `PluginWarning` is issued, once per
    process, for each entry point that is ignored.

    Parameters
    ----------
    check
        Check of the name and the loaded object.
    reserved
        Names of gridsim's own objects, which no package can replace.
    """
    objects = {}
    for entry in _entry_points(group, tuple(sys.path)):
        target, fault = _load(entry, check, entry.name in reserved or entry.name in objects)
        if not fault:
            objects[entry.name] = target
    return objects


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group by name; cached per search path, since the search is slow."""
    from importlib.metadata import entry_points  # imported here since it takes as long as a small run

    return tuple(sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)))


@cache
def _load(entry: EntryPoint, check: PluginCheck, is_reserved: bool) -> tuple[Any, str]:
    """Return the object of an entry point and its fault, which is "" for a valid object."""
    target, fault = None, "the name is taken" if is_reserved else ""
    if not fault:
        try:
            target = entry.load()
        except (Exception, SystemExit) as error:  # the module may raise anything
            fault = f"{type(error).__name__}: {text_of(error)}"
        else:
            fault = check(entry.name, target)
    if fault:
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        warnings.warn(
            f"{entry.group}: {entry.name} = {entry.value}{owner} is ignored: {fault}",
            PluginWarning,
            stacklevel=2,
        )
    return target, fault
