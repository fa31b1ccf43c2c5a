"""Plugins: schedulers and trace formats that installed packages add by entry points.

A package declares them in its ``pyproject.toml``::

    [project.entry-points."gridsim.schedulers"]
    my-scheduler = "mypackage.schedulers:MyScheduler"

User code need not import the package.  Only installed packages are loaded; a file never names code.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from gridsim.errors import PluginWarning, text_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugins(group: str, check: Callable[[Any], str], reserved: Collection[str] = ()) -> dict[str, Any]:
    """Return name -> object, for the entry points of `group` that can be loaded.

    A `PluginWarning` is issued, once per process, for each entry point that is ignored.

    Parameters
    ----------
    check
        Function that returns the fault of a loaded object, or "" if it is valid.
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
def _load(entry: EntryPoint, check: Callable[[Any], str], is_reserved: bool) -> tuple[Any, str]:
    """Return the object of an entry point and its fault, which is "" for a valid object."""
    target, fault = None, "the name is taken" if is_reserved else ""
    if not fault:
        try:
            target = entry.load()
        except (Exception, SystemExit) as error:  # the module may raise anything
            fault = f"{type(error).__name__}: {text_of(error)}"
        else:
            fault = check(target)
    if fault:
        owner = f" of {entry.dist.name}" if entry.dist is not None else ""
        warnings.warn(
            f"{entry.group}: {entry.name} = {entry.value}{owner} is ignored: {fault}",
            PluginWarning,
            stacklevel=2,
        )
    return target, fault
