"""User code: the sources of the modules from which a scheduler or a metric of the user comes.

Keys of runs cover these sources, and `gridsim.studies.execution.packing` sends them to other processes, so
that no older copy of a module there can take part in a run.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from gridsim.errors import ScenarioError, text_of
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.description import Description
from gridsim.studies.execution.main_source import main_source
from gridsim.support.imports import module_file, original_module
from gridsim.support.provenance import PACKAGES, sha256
from gridsim.support.sources import bare_module

#: Names of folders in which packages are installed.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class ModuleSource:
    """A module of the user.

    Parameters
    ----------
    text
        Its source; None for a module that is not sent: one that is installed, or of a package with compiled
        modules.  Other processes import it themselves and compare its file.
    file
        The path of its file; "" if there is none.
    is_package
        Whether it is a package.
    sha256
        SHA-256 of the source, or of the file.
    """

    text: str | None
    file: str
    is_package: bool
    sha256: str


class UserCode:
    """The modules of the user on which some schedulers and metrics depend.

    These are the modules of their classes and functions and, from there on, all modules that are imported by
    an import statement and are neither installed nor part of Python or gridsim.  Of the script or notebook
    (``__main__``), they are the definitions that are used.

    Attributes
    ----------
    modules
        Name -> module.
    packages
        Name -> version of each installed package that one of the modules imports.
    """

    def __init__(self) -> None:
        self.modules: dict[str, ModuleSource] = {}
        self.packages: dict[str, str] = {}
        #: Packages and modules of the user that are not sent, since they are or contain compiled modules.
        self._compiled: set[str] = set()
        self._main_owners: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of all modules, hexadecimal."""
        entries = {name: module.sha256 for name, module in self.modules.items()}
        return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()

    @property
    def digests(self) -> dict[str, str]:
        """Digest of each module, without comments and docstrings in Python; version of each package."""
        modules = {name: f"sha256:{_bare_digest(module)}" for name, module in self.modules.items()}
        return {**self.packages, **modules}

    def add_scheduler(self, scheduler: Scheduler) -> None:
        """Add the modules of a scheduler and of its parameters; raise ScenarioError without a source."""
        description, owner = Description(scheduler), type(scheduler).name
        bases = [cls for cls in type(scheduler).__mro__ if cls not in Scheduler.__mro__]
        for obj in (*bases, *description.objects):
            self.add_object(obj, owner)
        for text in description.texts:  # a text with a colon may name a function, or be a time of day
            name, _, attribute = text.partition(":")
            if name and attribute and _may_be_user(name) and module_file(name) is not None:
                self._add(name, owner)

    def add_metric(self, name: str, metric: MetricFunction) -> None:
        """Add the module of a metric; raise ScenarioError without a source."""
        self.add_object(metric, f"metrics[{name!r}]")

    def add_object(self, obj: Any, owner: str) -> None:
        """Add the module of a class or function."""
        module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", "")
        if module == "__main__":
            if getattr(sys.modules[module], name, obj) is not obj:
                raise ScenarioError(
                    f"{owner} must be defined and created again, since {name} of the script or notebook "
                    "was redefined"
                )
            self._add_main(name, owner)
        elif isinstance(module, str):
            self._add(module, owner)

    def _add_main(self, name: str, owner: str) -> None:
        """Add a definition of the script or notebook, with all definitions that it uses."""
        if "<locals>" in name:
            raise ScenarioError(
                f"{owner} must be at the top level of the script or notebook, so that other processes can "
                f"execute it, got {name}"
            )
        name = name.partition(".")[0]
        if name in self._main_owners:
            return
        self._main_owners[name] = owner
        text, modules = main_source(self._main_owners)
        self.modules["__main__"] = ModuleSource(text, "", False, _sha256_of_text(text))
        for module in modules:
            self._add_if_used(module)

    def _add(self, name: str, owner: str) -> None:
        """Add a module, and the modules that it imports."""
        name = original_module(name)
        if name in self.modules or not _may_be_user(name):
            return
        spec = _spec(name)
        module = None if spec is None else _module(name, spec)
        if spec is None or module is None:
            raise ScenarioError(
                f"{owner} must come from a module in a file, so that stores can identify it and other "
                f"processes can execute it, got one of {name}"
            )
        package, top = name.rpartition(".")[0], name.partition(".")[0]
        self.modules[name] = self._not_sent(module) if top in self._compiled else module
        if module.text is None and not _is_installed(top):
            self._compiled.add(top)
            for other in self.modules:
                if other.partition(".")[0] == top:
                    self.modules[other] = self._not_sent(self.modules[other])
        if package:
            self._add(package, owner)
        for imported in _imported_names(_text_of(module) or "", name if module.is_package else package):
            self._add_if_used(imported, top)

    @staticmethod
    def _not_sent(module: ModuleSource) -> ModuleSource:
        if module.text is None or not module.file:
            return module
        return replace(module, text=None, sha256=sha256(module.file))

    def _add_if_used(self, name: str, own_package: str = "") -> None:
        """Add a module that a module of `own_package` may import, unless it is part of Python or gridsim.

        Of other packages that are installed, only the version is added.
        """
        if name in self.modules or not _may_be_user(name):
            return
        top = name.partition(".")[0]
        if top != own_package and _is_installed(top):
            self.packages[top] = _version(top)
        elif (spec := _spec(name)) is not None and _module(name, spec) is not None:
            self._add(name, name)


def _may_be_user(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in PACKAGES and top not in sys.stdlib_module_names and top != "__mp_main__"


def _spec(name: str) -> ModuleSpec | None:
    """Return the specification of a module, which is not imported; None if there is none."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, ModuleSpec):
        return loaded
    package = name.rpartition(".")[0]
    try:
        if not package:
            return importlib.util.find_spec(name)
        parent = _spec(package)  # `find_spec` would import it
        folders = None if parent is None else parent.submodule_search_locations
        return None if folders is None else PathFinder.find_spec(name, folders)
    except Exception:  # a finder may raise anything
        return None


def _is_installed(package: str) -> bool:
    """Return whether a package without a dot in its name is part of Python or has been installed."""
    spec = _spec(package)
    if spec is None:
        return False
    if spec.submodule_search_locations is not None:
        folders = [os.path.dirname(folder.rstrip(os.sep)) for folder in spec.submodule_search_locations]
    else:
        folders = [os.path.dirname(spec.origin or "")] if spec.has_location else []
    return all(map(_has_installed, map(os.path.realpath, folders)))


@cache
def _has_installed(folder: str) -> bool:
    """Return whether `folder` contains installed packages."""
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    if folder in map(os.path.realpath, standard) or os.path.basename(folder) in _PACKAGE_FOLDERS:
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:  # for example in a zip file
        return False


#: Name of a module -> its specification and source when the source was first read.  A module that is changed
#: after its import stays as it is in memory.
_FIRST_SOURCES: dict[str, tuple[ModuleSpec, ModuleSource | None]] = {}


def _module(name: str, spec: ModuleSpec) -> ModuleSource | None:
    """Return the source of a module; None if there is none."""
    known = _FIRST_SOURCES.get(name)
    if known is not None and known[0] is spec:
        return known[1]
    source = _read(name, spec)
    if name in sys.modules and source is not None:
        _FIRST_SOURCES[name] = spec, source
    return source


def _read(name: str, spec: ModuleSpec) -> ModuleSource | None:
    file, is_package = spec.origin or "", spec.submodule_search_locations is not None
    if not spec.has_location and is_package:  # a package without a file
        return ModuleSource("", "", True, _sha256_of_text(""))
    try:
        is_text = spec.has_location and file.endswith((".py", ".pyw"))
        if _is_installed(name.partition(".")[0]) or (not is_text and os.path.isfile(file)):
            return ModuleSource(None, file, is_package, sha256(file))
        if is_text and os.path.isfile(file):
            with open(file, "rb") as stream:
                text = importlib.util.decode_source(stream.read())
        else:  # for example in a zip file
            loader: Any = spec.loader
            text = loader.get_source(name)
            if text is None:
                return None
    except (OSError, ImportError, AttributeError, SyntaxError, UnicodeDecodeError):
        return None
    _check_current(name, spec, text)
    return ModuleSource(text, file, is_package, _sha256_of_text(text))


def _check_current(name: str, spec: ModuleSpec, text: str) -> None:
    """Raise ScenarioError if a function of an imported module is not in the source of its file."""
    module = sys.modules.get(name)
    if module is None or type(spec.loader) is not SourceFileLoader:  # others may change the code
        return
    try:
        code = compile(text, spec.origin or "", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ScenarioError(f"{spec.origin} must be valid: {text_of(error)}") from error
    known = set(_codes(code))
    for function in _functions(vars(module).values(), name):
        if function.__code__.co_filename == spec.origin and function.__code__ not in known:
            raise ScenarioError(
                f"{spec.origin} must be unchanged since it was imported, got another "
                f"{function.__qualname__}; import it again in a new process"
            )


def _text_of(module: ModuleSource) -> str | None:
    """Return the source of a module, also of one that is not sent; None if it is compiled."""
    if module.text is not None or not module.file.endswith((".py", ".pyw")):
        return module.text
    with open(module.file, "rb") as stream:
        return importlib.util.decode_source(stream.read())


@cache
def _bare_digest(module: ModuleSource) -> str:
    try:
        if (text := _text_of(module)) is not None:
            return _sha256_of_text(bare_module(text.encode("utf-8", "surrogatepass")))
    except (SyntaxError, ValueError):  # a module that no run has imported
        pass
    return module.sha256


def _version(package: str) -> str:
    # imported here, since workers do not need it
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):
        return version(package)
    return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _functions(values: Iterable[Any], module: str) -> Iterator[types.FunctionType]:
    for value in values:
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (entry for entry in vars(value).values() if isinstance(entry, types.FunctionType))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported_names(text: str, package: str) -> list[str]:
    """Return the absolute names of the modules that the imports of a source may name.

    These are import statements, and calls such as ``import_module("name")`` with the name as a literal.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # the error of the import is reported by the run
        return []
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names |= dict.fromkeys([base, *(f"{base}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function, name = node.func, node.args[0].value
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called in ("import_module", "__import__") and isinstance(name, str):
                names[name] = None
    return [name for name in names if name and not name.startswith(".")]


def _sha256_of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
