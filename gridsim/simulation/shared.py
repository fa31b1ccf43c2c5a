"""A run that several processes share, each of which has some of the machines.

Every process runs the whole program: the scenario, the engine and the scheduler, with the same numbers.  Only
what a compiled protocol does for the nodes is divided, see `gridcore.network.exchange`.  The first
process makes the result, from what the others report at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import ProcessShare, Scheduler
from gridsim.support.clock import nanoseconds
from gridsim.support.processes import Processes
from gridsim.support.warning_scope import collect_warnings

#: Bytes of the shared memory of each process; what is longer goes in parts.
_ROOM = 8 * 2**20


def check_sharing(scenario: Scenario, scheduler: Scheduler, processes: int, **others: Any) -> None:
    """Raise ScenarioError unless so many processes can share a run.

    Parameters
    ----------
    others
        What else the run is to do, by what it is; anything true is refused.
    """
    network = scenario.network
    refused = {
        f"a run of {scheduler.name}, which cannot be shared": not scheduler.shares,
        "machines that fail": scenario.faults is not None,
        "background load": scenario.fluctuation is not None,
        "a message that may take no time (network.latency less network.jitter)": (
            nanoseconds(network.latency) - nanoseconds(network.jitter) < 1
        ),
        **{what.replace("_", " "): bool(given) for what, given in others.items()},
    }
    for what, wrong in refused.items():
        if wrong:
            raise ScenarioError(f"processes must be 1 with {what}, got {processes}")
    if processes > scenario.platform.nodes:
        raise ScenarioError(
            f"processes must be at most the number of machines ({scenario.platform.nodes}), got {processes}"
        )


@contextmanager
def sharing(processes: int, part: Callable[..., Any], *args: Any) -> Iterator[ProcessShare]:
    """Start processes that call ``part(share, *args)`` each, and provide the share of this one.

    Raises what one of them raises, as soon as this one waits for it.
    """
    memory = SharedMemory(create=True, size=processes * _ROOM)
    try:
        with Processes(processes - 1) as pool:
            others = [
                pool.submit(_call, memory.name, rank, processes, part, args) for rank in range(1, processes)
            ]
            report = partial(_reported, pool)
            share = ProcessShare(
                0, processes, _cells(memory), partial(_look, others, report), lambda: [*map(report, others)]
            )
            try:
                yield share
            finally:
                share.end()
    finally:
        memory.close()
        memory.unlink()


def _cells(memory: SharedMemory) -> Any:
    assert memory.buf is not None
    return np.frombuffer(memory.buf, np.uint8)


def _reported(pool: Processes, other: Future[Any]) -> Any:
    try:
        return other.result()
    except BrokenExecutor as error:
        raise GridSimError(f"a process that shares the run {pool.loss()}") from error


def _look(others: list[Future[Any]], report: Callable[[Future[Any]], Any]) -> None:
    """Raise what another process has raised."""
    for other in others:
        if other.done():
            report(other)
            raise GridSimError("a process that shares the run has ended before the others")


def _call(name: str, rank: int, ranks: int, part: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call `part` as process `rank` of those that share the memory `name`."""
    memory = SharedMemory(name)
    share = ProcessShare(rank, ranks, _cells(memory), lambda: None, list)
    try:
        with collect_warnings():  # the process that the user sees issues the same warnings
            return part(share, *args)
    finally:
        share.end()
        memory.close()
