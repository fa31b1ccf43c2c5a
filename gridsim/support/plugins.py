"""What installed packages add by entry points: schedulers and trace formats, without an import in user code.

A package declares them in its ``pyproject.toml``::

    [project.entry-points."gridsim.schedulers"]
    my-scheduler = "mypackage.schedulers:MyScheduler"

Only packages that the user installed are loaded; a file never names code.
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


def plugins(group: str, check: Callable[[Any], str], taken: Collection[str] = ()) -> dict[str, Any]:
    """Return name -> object, for the entry points of `group` that can be loaded.

    Issues a `PluginWarning`, once in a process, for each entry point that is left out.

    Parameters
    ----------
    check
        Returns what is wrong with a loaded object, or "" if nothing is.
    taken
        Names that gridsim has itself, which no package can replace.
    """
    found = {}
    for entry in _declared(group, tuple(sys.path)):
        loaded, fault = _loaded(entry, check, entry.name in taken or entry.name in found)
        if not fault:
            found[entry.name] = loaded
    return found


@cache
def _declared(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name; for a search path, as looking takes a while."""
    from importlib.metadata import entry_points  # which imports as much as a small run needs

    return tuple(sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)))


@cache
def _loaded(entry: EntryPoint, check: Callable[[Any], str], taken: bool) -> tuple[Any, str]:
    """Return the object of an entry point, and what is wrong with it."""
    loaded, fault = None, "the name is taken" if taken else ""
    if not fault:
        try:
            loaded = entry.load()
        except (Exception, SystemExit) as error:  # the module may raise anything
            fault = f"{type(error).__name__}: {text_of(error)}"
        else:
            fault = check(loaded)
    if fault:
        whose = f" of {entry.dist.name}" if entry.dist is not None else ""
        warnings.warn(
            f"{entry.group}: {entry.name} = {entry.value}{whose} is left out: {fault}",
            PluginWarning,
            stacklevel=2,
        )
    return loaded, fault
