"""Watches what a scheduler's own code does beyond its run: files, processes, its own random numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from gridsim.support.random_streams import Streams
from gridsim.testing.own import Own

#: Events of Python's audit that change something outside of the process, or ask others.
_OUTSIDE = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.putenv",
    "os.unsetenv", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.kill", "os.chdir",
    "subprocess.Popen", "socket.connect", "socket.bind", "sqlite3.connect", "shutil.copyfile",
)  # fmt: skip
#: Functions that make generators or seed them.
_SEEDED = (
    "default_rng",
    "RandomState",
    "SeedSequence",
    "PCG64",
    "PCG64DXSM",
    "MT19937",
    "Philox",
    "SFC64",
    "seed",
)

#: Who is told of audit events; a hook of Python's audit cannot be removed.
_watchers: list[Callable[[str, tuple[Any, ...]], None]] = []
_hooked = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watchers and (event == "open" or event in _OUTSIDE):
        _watchers[-1](event, arguments)


class Watched:
    """What own code did outside of its run, or with streams, and with which numbers it seeded generators."""

    def __init__(self) -> None:
        #: In words, each once.
        self.outside: dict[str, None] = {}
        #: Call of a function that makes or seeds a generator -> the own function that it came from.
        self.seeds: dict[str, str] = {}


@contextmanager
def watching(own: Own) -> Iterator[Watched]:
    """Watch what own code does in runs in this context."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    found = Watched()

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not _writes(*arguments):
            return
        if (code := own.acts(sys._getframe(2))) is not None:
            what = f"opens {arguments[0]!r} to write" if event == "open" else f"{event} {arguments[:1]!r}"
            found.outside[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {what}"] = None

    asked: set[tuple[Streams, str]] = set()

    def ask(streams: Streams, name: str) -> Any:
        if (code := own.acts(sys._getframe(1))) is not None:
            if (streams, name) in asked:
                what = f"asks again for the stream {name!r}, which begins anew"
                found.outside[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {what}"] = None
            asked.add((streams, name))
        return call(streams, name)

    call = Streams.__call__
    _watchers.append(see)
    try:
        Streams.__call__ = ask  # type: ignore[assignment, method-assign]
        with _seeding(own, found):
            yield found
    finally:
        Streams.__call__ = call  # type: ignore[method-assign]
        _watchers.remove(see)


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@contextmanager
def _seeding(own: Own, found: Watched) -> Iterator[None]:
    """Record in `found` with what own code, or what it calls, seeds generators."""
    replaced: dict[Any, Any] = {}

    def recorded(function: Any, name: str) -> Any:
        def make(*args: Any, **more: Any) -> Any:
            if (code := own.acts(sys._getframe(1))) is not None and (args or more):
                said = [*map(repr, args), *(f"{key}={value!r}" for key, value in more.items())]
                found.seeds[f"{name}({', '.join(said)})"] = code.co_qualname
            return function(*args, **more)

        class Stand(type):
            """What stands for a class: calls make objects of that, which are its instances."""

            def __call__(cls, *args: Any, **more: Any) -> Any:
                return make(*args, **more)

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, function)

        return Stand(name, (), {}) if isinstance(function, type) else make

    shared = import_module("random")
    places = [(np.random, name) for name in _SEEDED] + [(shared, "Random"), (shared, "seed")]
    before = [(module, name, getattr(module, name)) for module, name in places]
    for module, name, function in before:
        replaced[function] = recorded(function, f"{module.__name__}.{name}")
        setattr(module, name, replaced[function])
    before += own.rebind(replaced)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)
