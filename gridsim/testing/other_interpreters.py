"""Runs in fresh interpreters with another hash seed, clock, environment and folder."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import socket
import sys
import time
import warnings
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
from gridsim.support.processes import end_with_parent, exclude_current_folder, set_environment
from gridsim.testing.introspection import OwnCode
from gridsim.testing.run_limits import limit_wall_time

#: PYTHONHASHSEED of an interpreter -> offset of its clock (s), which changes the day, the hour, the minute
#: and the second, and whether they are even.
INTERPRETERS = {"1": 3 * 86_400 + 9 * 3_600 + 23 * 60 + 17, "2": 5 * 86_400 + 16 * 3_600 + 38 * 60 + 43}
#: Whether processes can fork; schedulers can then share an interpreter, of which each gets a copy.
CAN_FORK = hasattr(os, "fork")
#: Modules by which a program could detect that it is tested.
_TEST_TOOLS = ("gridsim.testing", "hypothesis", "pytest", "_pytest")
#: Factor by which clocks that measure durations are faster for a scheduler's own code.
_CLOCK_FACTOR = 1000
#: Function -> its substitute, for modules of the scheduler that imported the function by name.
_SUBSTITUTES: dict[Any, Any] = {}


@contextmanager
def interpreter(hash_seed: str) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool of one process with another hash seed and another time of day."""
    with exclude_current_folder(), set_environment(PYTHONHASHSEED=hash_seed):
        pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_initialize,
            initargs=(INTERPRETERS[hash_seed],),
        )
        process_id = pool.submit(os.getpid)
    with pool:
        try:
            process_id.result()
        except BrokenProcessPool as error:
            raise ScenarioError(
                "hash_seeds = True requires a call of check_scheduler under if __name__ == '__main__', since "
                "other interpreters import the script"
            ) from error
        yield pool


def _initialize(offset: float) -> None:
    """Prepare this process: advance its clocks by `offset` s, and import the modules that any run needs."""
    end_with_parent()
    _shift_clock(offset)
    scenario = Scenario(Platform.of([1000.0]), Workload.of([0.0], 1, 1000.0))
    simulate(scenario, named_scheduler("fcfs", {}), record=True).digest  # noqa: B018  # it imports modules lazily


def _shift_clock(offset: float) -> None:
    """Advance all clocks of this process that show a date by `offset` s."""
    now, local, utc, text = time.time, time.localtime, time.gmtime, time.strftime
    clock_functions: dict[str, Callable[..., Any]] = {
        "time": lambda: now() + offset,
        "time_ns": lambda: round((now() + offset) * 1e9),
        "localtime": lambda secs=None: local(now() + offset if secs is None else secs),
        "gmtime": lambda secs=None: utc(now() + offset if secs is None else secs),
        "ctime": lambda secs=None: time.asctime(time.localtime(secs)),
        "strftime": lambda format, t=None: text(format, time.localtime() if t is None else t),
    }
    shift = datetime.timedelta(seconds=offset)

    class ShiftedDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + shift

        @classmethod
        def utcnow(cls) -> Any:
            return super().utcnow() + shift

        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

    class ShiftedDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

    for name, function in clock_functions.items():
        _replace(time, name, function)
    _replace(datetime, "datetime", ShiftedDatetime)
    _replace(datetime, "date", ShiftedDate)


def _replace(module: Any, name: str, new: Any) -> None:
    _SUBSTITUTES[getattr(module, name)] = new
    setattr(module, name, new)


class _Environment(os._Environ):  # type: ignore[type-arg]
    """Environment in which a scheduler's code sees changed values, and no variable is missing."""

    own_code: ClassVar[OwnCode]

    def __getitem__(self, key: str) -> str:
        if not self.own_code.is_caller(sys._getframe(1)):
            return str(super().__getitem__(key))
        try:
            return f"{super().__getitem__(key)}1"
        except KeyError:
            return "1"


def _change_surroundings(own_code: OwnCode) -> None:
    """Change the environment, arguments, clocks and host that the scheduler's code sees in this process."""
    if os.environ.__class__ is _Environment:
        return
    sys.path[:] = [os.path.abspath(folder) for folder in sys.path]
    sys.argv = ["elsewhere"]
    os.environ["GRIDSIM_ELSEWHERE"] = "1"
    _Environment.own_code = own_code
    os.environ.__class__ = _Environment
    host = socket.gethostname

    def changed_for_own_code(
        function: Callable[..., Any], change: Callable[[Any], Any]
    ) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            value = function(*args)
            return change(value) if own_code.is_caller(sys._getframe(1)) else value

        return wrapper

    for name in ("cpu_count", "process_cpu_count"):
        if cores := getattr(os, name, None):
            _replace(os, name, changed_for_own_code(cores, lambda count: (count or 1) + 1))
    if cores := getattr(os, "sched_getaffinity", None):
        _replace(
            os,
            "sched_getaffinity",
            changed_for_own_code(cores, lambda processors: {*processors, max(processors) + 1}),
        )
    _replace(socket, "gethostname", changed_for_own_code(host, lambda name: f"{name}1"))
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        for function_name in (name, f"{name}_ns"):
            _replace(
                time,
                function_name,
                changed_for_own_code(getattr(time, function_name), lambda value: value * _CLOCK_FACTOR),
            )
    own_code.rebind(_SUBSTITUTES)


def run_in_fresh_process(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    """Return the result of a run in a fork of this process, if possible, or the text of its error."""
    if not CAN_FORK:
        return _run(scenario, scheduler, limits)
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # the other thread only waits for the parent
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(_run(scenario, scheduler, limits), stream)
            code = 0
        finally:
            os._exit(code)  # skip the clean-up of the parent's objects
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    outcome: Result | str = pickle.loads(content) if content else "the process ended without a result"
    return outcome


@contextmanager
def _hide_test_tools() -> Iterator[None]:
    """Hide test tools in `sys.modules`."""
    tool_modules = {name: sys.modules[name] for name in [*sys.modules] if name.startswith(_TEST_TOOLS)}
    for name in tool_modules:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(tool_modules)


def _run(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    _change_surroundings(OwnCode(scheduler))
    folders = [os.path.dirname(os.path.abspath(module.__file__ or "")) for module in (os, json, np)]
    os.chdir(folders[zlib.crc32(scenario.encode()) % len(folders)])
    try:
        with limit_wall_time(*limits["wall_time"]), _hide_test_tools():
            options = {name: value for name, value in limits.items() if name != "wall_time"}
            return simulate(Scenario.from_toml(scenario), scheduler, record=True, **options)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {text_of(error)}"
