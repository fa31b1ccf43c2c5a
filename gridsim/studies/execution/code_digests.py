"""Digests of the code of users: modules with all that they import, which the outcome of a run depends on."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path, PurePath

from gridsim.support.provenance import PACKAGES, sha256
from gridsim.support.sources import bare_module

#: Folders of installed packages.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


def is_of_user(module: str) -> bool:
    """Return whether a module is neither gridsim's nor Python's."""
    top = module.partition(".")[0]
    return top not in PACKAGES and top not in sys.stdlib_module_names


def code_digests(module: str, file: str) -> dict[str, str]:
    """Return the digests of a module in `file` and of all modules that it imports, directly or not.

    Imports in functions count as well; imports whose names are computed do not.

    Returns
    -------
    dict of str to str
        Module -> its SHA-256, for a module in Python without comments and docstrings; package -> its version,
        for an installed package other than that of `module`; nothing for modules of Python and of gridsim.
    """
    digests: dict[str, str] = {}
    own_package = module.partition(".")[0]
    files = {module: file}
    while files:
        name, path = files.popitem()
        digests[name], imports = _digest_and_imports(name, path)
        for target in imports:
            package = target.partition(".")[0]
            if not is_of_user(package) or target in digests or target in files:
                continue
            place = _place(package)
            if package != own_package and (place is None or not _PACKAGE_FOLDERS.isdisjoint(place.parts)):
                digests[package] = "not installed" if place is None else _version(package)
            elif (spec := _spec(target)) is not None and spec.has_location and spec.origin is not None:
                files[target] = spec.origin
    return digests


def _spec(module: str) -> ModuleSpec | None:
    """Return the spec of a module without importing anything; None if there is no such module."""
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    if isinstance(loaded, ModuleSpec):
        return loaded
    package = module.rpartition(".")[0]
    try:
        if not package:
            return find_spec(module)
        parent = _spec(package)
        folders = None if parent is None else parent.submodule_search_locations
        return None if folders is None else PathFinder.find_spec(module, folders)
    except Exception:  # a finder may raise anything
        return None


def _place(package: str) -> PurePath | None:
    """Return the file, or one of the folders, of a package; None if it is not installed."""
    if (spec := _spec(package)) is None:
        return None
    if spec.has_location and spec.origin is not None:
        return PurePath(spec.origin)
    return PurePath(next(iter(spec.submodule_search_locations or ()), ""))


def _version(package: str) -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _digest_and_imports(module: str, file: str) -> tuple[str, list[str]]:
    if not file.endswith(".py"):
        return f"sha256:{sha256(file)}", []  # a compiled module
    parts = module.split(".")
    package = parts if PurePath(file).stem == "__init__" else parts[:-1]
    digest, imports = _parse(Path(file).read_bytes())
    parents = (".".join(parts[:k]) for k in range(1, len(parts)))  # an import of a module runs these as well
    return digest, [*parents, *(name for entry in imports for name in _names(entry, package))]


#: An import: its level (0 if absolute), its module, and the names imported from it.
_Import = tuple[int, str, tuple[str, ...]]


def _names(entry: _Import, package: list[str]) -> Iterator[str]:
    """Iterate over the modules that an import in `package` may name, with the packages that contain them."""
    level, module, names = entry
    base = [*package[: len(package) - level + 1], *filter(None, [module])] if level else module.split(".")
    yield from (".".join(base[:k]) for k in range(1, len(base) + 1))
    yield from (".".join([*base, name]) for name in names)


@lru_cache(maxsize=256)
def _parse(source: bytes) -> tuple[str, tuple[_Import, ...]]:
    """Return the digest and the imports of a module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a module that no run has imported
        return f"sha256:{hashlib.sha256(source).hexdigest()}", ()
    imports: list[_Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return f"sha256:{hashlib.sha256(bare_module(source).encode()).hexdigest()}", tuple(imports)
