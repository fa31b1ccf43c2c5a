"""Runs in other interpreters: sets have other orders, clocks and surroundings differ, nothing ran before."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, ClassVar

import numpy as np

from gridsim.errors import ScenarioError, text_of
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import named_scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.processes import environment, without_current_folder
from gridsim.testing.introspection import Own
from gridsim.testing.run_limits import patience

#: PYTHONHASHSEED of the interpreters, and how far ahead their clocks are, s: a third of a day, and two.
INTERPRETERS = {"1": 3 * 86_400 + 8 * 3_600, "2": 5 * 86_400 + 16 * 3_600}
#: Whether each run is in a copy of its interpreter, so that runs of several schedulers may share one.
COPIES = hasattr(os, "fork")
#: Modules by which a program could know that it is tested.
_TOOLS = ("gridsim.testing", "hypothesis", "pytest", "_pytest")
#: How much faster than here the clocks of a scheduler's own code are that measure how long something takes.
_FASTER = 1000
#: Functions of this process that are replaced -> what replaces them; own modules may have their names, too.
_REPLACED: dict[Any, Any] = {}


@contextmanager
def interpreter(hash_seed: str) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool with one process, which has another hash seed and another time of day."""
    with without_current_folder(), environment(PYTHONHASHSEED=hash_seed):
        pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_begin,
            initargs=(INTERPRETERS[hash_seed],),
        )
        begun = pool.submit(os.getpid)
    with pool:
        try:
            begun.result()
        except BrokenProcessPool as error:
            raise ScenarioError(
                "hash_seeds must be False, or check_scheduler be called under if __name__ == '__main__': "
                "other interpreters import the script that calls it"
            ) from error
        yield pool


def _begin(ahead: float) -> None:
    """Prepare this process: let its clocks be `ahead` s ahead, and import what any run needs."""
    _move_clock(ahead)
    tiny = Scenario(Platform.of([1000.0]), Workload.of([0.0], 1, 1000.0))
    simulate(tiny, named_scheduler("fcfs", {}), record=True).digest  # noqa: B018  # what it needs is computed late


def _move_clock(ahead: float) -> None:
    """Let all clocks of this process that show a date be `ahead` s ahead."""
    now, local, utc, text = time.time, time.localtime, time.gmtime, time.strftime
    moved: dict[str, Callable[..., Any]] = {
        "time": lambda: now() + ahead,
        "time_ns": lambda: round((now() + ahead) * 1e9),
        "localtime": lambda secs=None: local(now() + ahead if secs is None else secs),
        "gmtime": lambda secs=None: utc(now() + ahead if secs is None else secs),
        "ctime": lambda secs=None: time.asctime(time.localtime(secs)),
        "strftime": lambda format, t=None: text(format, time.localtime() if t is None else t),
    }
    shift = datetime.timedelta(seconds=ahead)

    class Moved(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + shift

        @classmethod
        def utcnow(cls) -> Any:
            return super().utcnow() + shift

        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

    class MovedDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

    for name, function in moved.items():
        _replace(time, name, function)
    _replace(datetime, "datetime", Moved)
    _replace(datetime, "date", MovedDate)


def _replace(module: Any, name: str, new: Any) -> None:
    _REPLACED[getattr(module, name)] = new
    setattr(module, name, new)


class _Environment(os._Environ):  # type: ignore[type-arg]
    """Variables that a scheduler's own code sees with other values, and never misses."""

    own: ClassVar[Own]

    def __getitem__(self, key: str) -> str:
        if not self.own.asks(sys._getframe(1)):
            return str(super().__getitem__(key))
        try:
            return f"{super().__getitem__(key)}1"
        except KeyError:
            return "1"


def _estrange(own: Own) -> None:
    """Change the surroundings of this process, once: what own code could see that no scenario says."""
    if os.environ.__class__ is _Environment:
        return
    sys.path[:] = [os.path.abspath(folder) for folder in sys.path]
    sys.argv = ["elsewhere"]
    os.environ["GRIDSIM_ELSEWHERE"] = "1"
    _Environment.own = own
    os.environ.__class__ = _Environment
    host = socket.gethostname

    def for_own(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
        def asked(*args: Any) -> Any:
            value = function(*args)
            return change(value) if own.asks(sys._getframe(1)) else value

        return asked

    for name in ("cpu_count", "process_cpu_count"):
        if cores := getattr(os, name, None):
            _replace(os, name, for_own(cores, lambda count: (count or 1) + 1))
    if cores := getattr(os, "sched_getaffinity", None):
        _replace(
            os, "sched_getaffinity", for_own(cores, lambda processors: {*processors, max(processors) + 1})
        )
    _replace(socket, "gethostname", for_own(host, lambda name: f"{name}1"))
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        for each in (name, f"{name}_ns"):
            _replace(time, each, for_own(getattr(time, each), lambda value: value * _FASTER))
    own.rebind(_REPLACED)


def afresh(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    """Return the result of a run in a copy of this process, which has never run anything; or its error."""
    if not COPIES:
        return _run(scenario, scheduler, limits)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(_run(scenario, scheduler, limits), stream)
            code = 0
        finally:
            os._exit(code)  # nothing of the parent is to be cleared away
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    found: Result | str = pickle.loads(content) if content else "the process ended"
    return found


@contextmanager
def _untested() -> Iterator[None]:
    """Let no tool of tests be among the modules that are loaded."""
    loaded = {name: sys.modules[name] for name in [*sys.modules] if name.startswith(_TOOLS)}
    for name in loaded:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(loaded)


def _run(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    _estrange(Own(scheduler))
    folders = [os.path.dirname(os.path.abspath(module.__file__ or "")) for module in (os, json, np)]
    os.chdir(folders[zlib.crc32(scenario.encode()) % len(folders)])
    try:
        with patience(limits["patience"]), _untested():
            options = {name: value for name, value in limits.items() if name != "patience"}
            return simulate(Scenario.from_toml(scenario), scheduler, record=True, **options)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {text_of(error)}"
