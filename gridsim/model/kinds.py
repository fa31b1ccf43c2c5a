"""Kinds of the tables of a scenario file: those of gridsim, and those of installed packages.

A package adds kinds by entry points of the groups ``gridsim.platforms``, ``gridsim.workloads``,
``gridsim.faults`` and ``gridsim.fluctuations``.  The object is a class, whose tag is the name of the entry
point and the ``kind`` in files: a subclass of `PlatformKind` with a method ``speeds``, of `BagsKind` or
`RigidJobsKind` with a method ``columns``, of `FaultsKind` with a method ``course``, or of `FluctuationKind`
with a method ``realize``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, get_args

import msgspec

from gridsim.model.background_load import FluctuationKind, FluctuationRecipe
from gridsim.model.bag_workloads import BagsKind
from gridsim.model.faults import FaultsKind, FaultsRecipe
from gridsim.model.platform import PlatformKind, PlatformRecipe
from gridsim.model.rigid_workloads import RigidJobsKind
from gridsim.model.workload import WorkloadRecipe
from gridsim.support.arguments import short_repr
from gridsim.support.imports import import_named, is_sent_object, plugins

Kind = type[msgspec.Struct]


class _Part(NamedTuple):
    """A table of a scenario file.

    Parameters
    ----------
    kinds
        The union of gridsim's kinds.
    group
        The group of entry points.
    bases
        Classes of which the class of an entry point is a subclass.
    method
        The method that such a class must define.
    """

    kinds: Any
    group: str
    bases: tuple[type, ...]
    method: str


_PARTS = {
    "platform": _Part(PlatformRecipe, "gridsim.platforms", (PlatformKind,), "speeds"),
    "workload": _Part(WorkloadRecipe, "gridsim.workloads", (BagsKind, RigidJobsKind), "columns"),
    "faults": _Part(FaultsRecipe, "gridsim.faults", (FaultsKind,), "course"),
    "fluctuation": _Part(FluctuationRecipe, "gridsim.fluctuations", (FluctuationKind,), "realize"),
}
#: The tables that have kinds.
PARTS = tuple(_PARTS)


@cache
def own_kinds(part: str) -> Mapping[str, Kind]:
    """Return name -> class of gridsim's kinds of a table, such as "platform"."""
    return {str(kind.__struct_config__.tag): kind for kind in get_args(_PARTS[part].kinds)}


def all_kinds(part: str) -> dict[str, Kind]:
    """Return name -> class of all kinds of a table, with those of installed packages."""
    return {**own_kinds(part), **plugins(_PARTS[part].group, _check(part), own_kinds(part))}


def kinds_for(part: str, name: Any, known: Kind | None, imports: Collection[str]) -> dict[str, Kind]:
    """Return name -> class of the kinds of a table whose kind is `name`, including that class if it is found.

    The class is `known` if that has this name, or the first one among those of gridsim, of installed
    packages, of this process (the one that was defined last), and of `imports`.

    Parameters
    ----------
    imports
        Names of code, ``module:Class``, which is imported only if no other class is found.

    Raises
    ------
    ScenarioError
        If the import of a name fails.
    """
    kinds = dict(own_kinds(part))  # installed packages are searched only for other kinds
    if not isinstance(name, str) or name in kinds:
        return kinds
    if known is not None and known.__struct_config__.tag == name:
        return {**kinds, name: known}
    if name in (kinds := all_kinds(part)):
        return kinds
    defined = _defined_kinds(part)
    if name not in defined and imports:
        for code in imports:
            import_named("kind", code)
        defined = _defined_kinds(part)
    return {**kinds, name: defined[name]} if name in defined else kinds


def _defined_kinds(part: str) -> dict[str, Kind]:
    """Return name -> class of the valid kinds of a table that are defined in this process."""
    classes = (kind for base in _PARTS[part].bases for kind in _subclasses(base) if not is_sent_object(kind))
    kinds = ((str(kind.__struct_config__.tag), kind) for kind in classes)
    return {tag: kind for tag, kind in kinds if not _check(part)(tag, kind)}


def _subclasses(base: Kind) -> Iterator[Kind]:
    """Iterate over the direct and indirect subclasses of a class, in the order of their definition."""
    for kind in base.__subclasses__():
        yield kind
        yield from _subclasses(kind)


@cache
def _check(part: str) -> Callable[[str, Any], str]:
    return partial(_fault, _PARTS[part])


def _fault(part: _Part, name: str, kind: Any) -> str:
    """Return why the object of an entry point is not a kind of a table; "" if it is one."""
    if not (isinstance(kind, type) and issubclass(kind, part.bases)):
        bases = " or ".join(f"{base.__module__}.{base.__name__}" for base in part.bases)
        return f"it must be a subclass of {bases}, got {short_repr(kind)}"
    if not any(part.method in vars(base) for base in kind.__mro__ if base not in part.bases):
        return f"it must define {part.method}"
    if (tag := kind.__struct_config__.tag) != name:  # type: ignore[attr-defined]
        return f"its tag must be the name of the entry point, got {tag!r}"
    return ""
