"""Calls that are packed for other processes: the one place that determines what is sent there, and how.

A call is pickled once, and only the worker unpickles it: processes in between, such as the scheduler of a
Dask cluster, need none of the modules.  Modules of the user are sent as their source (`UserCode`), and the
worker executes them under names that begin with the hash of all of them.  So another copy of a module there
is never used, and two copies do not mix.  Long arrays are replaced by their hashes, so that an executor can
send each of them once.
"""

from __future__ import annotations

import builtins
import io
import linecache
import os
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, text_of
from gridsim.studies.execution.main_source import UNPICKLE
from gridsim.studies.execution.user_code import ModuleSource, UserCode
from gridsim.support.columns import content_name
from gridsim.support.imports import SENT_MODULES, SENT_PREFIX, is_sent_object, original_module
from gridsim.support.provenance import sha256

#: Number of bytes from which on a read-only array is replaced by its hash.
SHARED_BYTES = 1 << 16


class WorkerMismatch(GridSimError):
    """Error about a worker whose installed code differs from that of the process that sent the runs."""


def mismatch(condition: str, expected: str, actual: str) -> WorkerMismatch:
    """Return the error about workers that must `condition`."""
    return WorkerMismatch(
        f"workers must {condition}, {expected}, got {actual}; install the packages of this process where the "
        "workers run, and start them again"
    )


@dataclass(frozen=True)
class Parcel:
    """A packed call.

    Parameters
    ----------
    data
        The pickled function and arguments.
    arrays
        Names of the arrays that belong to it.
    digest
        The digest of the code of the user.
    code
        The modules of the user, pickled: name -> `ModuleSource`.
    """

    data: bytes
    arrays: tuple[str, ...]
    digest: str
    code: bytes


@dataclass(frozen=True)
class Reply:
    """The packed result of a call, or its error, in which classes of the user have their original names."""

    data: bytes
    is_error: bool = False

    def result(self) -> Any:
        """Return the result, or raise the error."""
        value = pickle.loads(self.data)
        if self.is_error:
            raise value
        return value


@dataclass(frozen=True)
class Packer:
    """A packer of calls with the code of the user, and with arrays that are sent separately.

    Parameters
    ----------
    code
        The code of the user.
    by_value
        Whether functions that are in no module are sent by cloudpickle, which must be installed.
    """

    code: UserCode
    by_value: bool = False
    #: SHA-256 -> array
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    _names: dict[int, tuple[NDArray[Any], str]] = field(default_factory=dict)
    #: Digest of the code -> its modules, pickled
    _codes: dict[str, bytes] = field(default_factory=dict)

    def pack(self, function: Callable[..., Any], *args: Any) -> Parcel:
        """Return the call ``function(*args)``, packed.

        Raises
        ------
        Exception
            If an argument cannot be pickled.
        """
        used: dict[str, None] = {}
        base: Any = pickle.Pickler
        if self.by_value:
            base = import_module("cloudpickle").Pickler

        class Pickler(base):  # type: ignore[misc]
            def reducer_override(_, obj: Any) -> Any:
                if _is_shared(obj):
                    used[name := self._name_of(obj)] = None
                    return _shared_array, (name,)
                is_code = isinstance(obj, (type, types.FunctionType))
                if is_code and obj.__module__ in self.code.modules and _is_named(obj):
                    return obj.__qualname__
                return super().reducer_override(obj) if self.by_value else NotImplemented

        stream = io.BytesIO()
        Pickler(stream, pickle.HIGHEST_PROTOCOL).dump((function, args))
        digest = self.code.digest
        if digest not in self._codes:
            self._codes[digest] = pickle.dumps(self.code.modules)
        return Parcel(stream.getvalue(), tuple(used), digest, self._codes[digest])

    def _name_of(self, array: NDArray[Any]) -> str:
        if id(array) not in self._names:
            name = content_name(np.ascontiguousarray(array).reshape(-1)) + "x".join(map(str, array.shape))
            self._names[id(array)] = array, name  # the reference keeps the id unique
            self.arrays.setdefault(name, array)
        return self._names[id(array)][1]


def _is_shared(obj: Any) -> bool:
    is_large = type(obj) is np.ndarray and obj.nbytes >= SHARED_BYTES
    return is_large and not obj.flags.writeable and not obj.dtype.hasobject


def _is_named(obj: Any) -> bool:
    target: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        target = getattr(target, part, None)
    return target is obj


def _shared_array(name: str) -> NDArray[Any]:
    raise AssertionError(f"{name} must be unpacked by a worker")


# -- in the worker ----------------------------------------------------------------------------------------


def call(parcel: Parcel, *arrays: NDArray[Any]) -> Reply:
    """Execute a packed call, and return its packed result.

    Parameters
    ----------
    arrays
        The arrays that `parcel` names.

    Raises
    ------
    WorkerMismatch
        If an installed module of the scheduler differs from that of the process that packed the call.
    """
    package = _receive(parcel)
    modules = _RECEIVED[package]
    token = SENT_MODULES.set({name: f"{package}.{name}" for name, m in modules.items() if m.text is not None})
    try:
        by_name = dict(zip(parcel.arrays, arrays, strict=True))
        for array in arrays:
            array.flags.writeable = False
        function, args = _Unpickler(io.BytesIO(parcel.data), package, by_name).load()
        return Reply(_reply(function(*args)))
    except Exception as error:
        try:
            is_of_user = SENT_PREFIX.encode() in pickle.dumps(error)
        except Exception:
            raise GridSimError(f"{type(error).__name__}: {text_of(error)}") from error
        if not is_of_user:
            raise
        return Reply(_reply(error), is_error=True)  # the other process cannot import its class
    finally:
        SENT_MODULES.reset(token)


class _Unpickler(pickle.Unpickler):
    """Unpickler that finds the modules of the user among those that were sent."""

    def __init__(self, stream: io.BytesIO, package: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(stream)
        self._package, self._arrays = package, arrays

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _shared_array.__name__):
            return self._arrays.__getitem__
        if (source := _RECEIVED[self._package].get(module)) is None:
            return super().find_class(module, name)
        if source.text is None:
            _check_package(_RECEIVED[self._package], module)
            return super().find_class(module, name)
        target: Any = import_module(f"{self._package}.{module}")
        for part in name.split("."):
            target = getattr(target, part)
        return target


class _ReplyPickler(pickle.Pickler):
    """Pickler that gives classes and functions of the user their original names."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and is_sent_object(obj):
            return _original, (original_module(obj.__module__), obj.__qualname__)
        return NotImplemented


def _reply(value: Any) -> bytes:
    stream = io.BytesIO()
    _ReplyPickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def _original(module: str, name: str) -> Any:
    target: Any = import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


def _check_package(modules: Mapping[str, ModuleSource], name: str) -> None:
    """Check the modules that are not sent and are in the same package as `name`."""
    top = name.partition(".")[0]
    for module, source in modules.items():
        if source.text is None and module.partition(".")[0] == top:
            _check_same(module, source.sha256)


@cache
def _check_same(module: str, expected: str) -> None:
    """Raise WorkerMismatch if the file of an installed module has another SHA-256."""
    spec = find_spec(module)
    actual = sha256(spec.origin) if spec is not None and spec.origin and spec.has_location else "none"
    if actual != expected:
        raise mismatch(f"have the same {module}", expected[:16], actual[:16])


#: Package of modules that were received -> original name -> module.
_RECEIVED: dict[str, dict[str, ModuleSource]] = {}


def _receive(parcel: Parcel) -> str:
    """Make the modules of a call importable, and return the name of the package that contains them."""
    package = f"{SENT_PREFIX}{parcel.digest[:16]}"
    if package not in _RECEIVED:
        _RECEIVED[package] = pickle.loads(parcel.code)
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    return package


class _Finder(MetaPathFinder):
    """Finder of the modules that were received."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if not package.startswith(SENT_PREFIX) or package not in _RECEIVED:
            return None
        source = ModuleSource("", "", True, "") if not name else _RECEIVED[package].get(name)
        if source is None or source.text is None:
            return None
        loader = _Loader(package, name, source)
        return spec_from_loader(fullname, loader, origin=loader.file, is_package=source.is_package)


class _Loader(InspectLoader):
    """Loader that executes a module from its source."""

    def __init__(self, package: str, name: str, source: ModuleSource) -> None:
        self._package, self._source = package, source
        self.file = _file_of(package, name, source)

    def is_package(self, fullname: str) -> bool:
        return self._source.is_package

    def get_source(self, fullname: str) -> str:
        return self._source.text or ""

    def exec_module(self, module: types.ModuleType) -> None:
        text = self.get_source(module.__name__)
        module.__file__ = self.file
        if not os.path.exists(self.file):  # for tracebacks and compilers
            linecache.cache[self.file] = len(text), None, text.splitlines(keepends=True), self.file
        vars(module)["__builtins__"] = {
            **vars(builtins),
            "__import__": partial(_import, self._package),
            UNPICKLE: lambda data: _Unpickler(io.BytesIO(data), self._package, {}).load(),
        }
        exec(compile(text, self.file, "exec", dont_inherit=True), vars(module))


def _file_of(package: str, name: str, source: ModuleSource) -> str:
    """Return the file that a module states: its original one if that has the same source here."""
    try:
        with open(source.file, "rb") as stream:
            if stream.read().decode() == source.text:
                return source.file
    except (OSError, ValueError):
        pass
    return f"<{package}>/{os.path.basename(source.file) or name + '.py'}"


def _import(
    package: str,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> Any:
    """Import a module as the statement does, preferably one of those that were received."""
    source = _RECEIVED[package].get(name)
    if level or source is None:
        return builtins.__import__(name, globals, locals, fromlist, level)
    if source.text is None:
        _check_package(_RECEIVED[package], name)
        return builtins.__import__(name, globals, locals, fromlist, level)
    module = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or ("",), 0)
    return module if fromlist else sys.modules[f"{package}.{name.partition('.')[0]}"]


# -- what is packed ---------------------------------------------------------------------------------------


def check_packed(packer: Packer, owner: str, value: Any) -> None:
    """Raise ScenarioError if a scheduler or metric cannot be sent to other processes."""
    try:
        packer.pack(type, value)
    except Exception as error:
        if isinstance(error, ScenarioError):
            raise
        reason = " ".join(text_of(error).split())
        raise ScenarioError(
            f"{owner} must be defined in a module, so that other processes can import it: {reason}"
        ) from error
