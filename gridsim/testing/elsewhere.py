"""Runs in other interpreters: sets have other orders, the clock shows another hour, nothing ran before."""

from __future__ import annotations

import datetime
import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from gridsim.errors import ScenarioError, text_of
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.processes import environment, unseeing
from gridsim.testing.patience import patience

#: PYTHONHASHSEED of the interpreters, and how far ahead their clocks are, s: a third of a day, and two.
INTERPRETERS = {"1": 3 * 86_400 + 8 * 3_600, "2": 5 * 86_400 + 16 * 3_600}


@contextmanager
def interpreter(hash_seed: str) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool with one process, which has another hash seed and another time of day."""
    with unseeing(), environment(PYTHONHASHSEED=hash_seed):
        pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_move_clock,
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


def _move_clock(ahead: float) -> None:
    """Let all clocks of this process that show a date be `ahead` s ahead."""
    now, local, utc = time.time, time.localtime, time.gmtime
    time.time = lambda: now() + ahead
    time.time_ns = lambda: round((now() + ahead) * 1e9)
    time.localtime = lambda secs=None: local(now() + ahead if secs is None else secs)
    time.gmtime = lambda secs=None: utc(now() + ahead if secs is None else secs)
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

    datetime.datetime = Moved  # type: ignore[misc]


def afresh(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    """Return the result of a run in a copy of this process, which has never run anything; or its error."""
    if not hasattr(os, "fork"):
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


def _run(scenario: str, scheduler: Scheduler, limits: dict[str, Any]) -> Result | str:
    try:
        with patience(limits["patience"]):
            options = {name: value for name, value in limits.items() if name != "patience"}
            return simulate(Scenario.from_toml(scenario), scheduler, record=True, **options)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {text_of(error)}"
