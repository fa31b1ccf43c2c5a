"""Runs shared by several processes, each with some of the machines.

Every process runs the complete program: the scenario, the engine and the scheduler, with the same random
numbers.  Only the work of the nodes is divided (`gridcore.network.exchange`).  At the end, the first process
creates the result from the reports of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from gridsim.errors import GridSimError, ScenarioError, collect_warnings
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import ProcessShare, Scheduler
from gridsim.support.clock import nanoseconds
from gridsim.support.processes import Processes

#: Size of the shared memory of each process, bytes; longer data are exchanged in parts.
_MEMORY_PER_PROCESS = 8 * 2**20


def check_sharing(scenario: Scenario, scheduler: Scheduler, processes: int, **features: Any) -> None:
    """Raise ScenarioError unless `processes` processes can share a run.

    Parameters
    ----------
    features
        Whether the run has further features, such as ``recordings``; none of them is supported.
    """
    network = scenario.network
    unsupported_features = {
        f"{scheduler.name}, whose runs cannot be shared": not scheduler.shares,
        "machines that fail": scenario.faults is not None,
        "background load": scenario.fluctuation is not None,
        "a series of carbon intensity": scenario.platform.needs_schedule,
        "a message that may take no time (network.latency - network.jitter)": (
            nanoseconds(network.latency) - nanoseconds(network.jitter) < 1
        ),
        **{feature.replace("_", " "): bool(value) for feature, value in features.items()},
    }
    for feature, is_unsupported in unsupported_features.items():
        if is_unsupported:
            raise ScenarioError(f"processes must be 1 with {feature}, got {processes}")
    if processes > scenario.platform.nodes:
        raise ScenarioError(
            f"processes must be at most the number of machines ({scenario.platform.nodes}), got {processes}"
        )


@contextmanager
def sharing(processes: int, function: Callable[..., Any], *args: Any) -> Iterator[ProcessShare]:
    """Start processes that call ``function(share, *args)``, and provide the share of this process.

    An exception in another process is raised here when this process waits for it.
    """
    memory = SharedMemory(create=True, size=processes * _MEMORY_PER_PROCESS)
    try:
        with Processes(processes - 1) as pool:
            futures = [
                pool.submit(_call, memory.name, rank, processes, function, args)
                for rank in range(1, processes)
            ]
            report = partial(_result_of, pool)
            share = ProcessShare(
                0,
                processes,
                _shared_array(memory),
                partial(_raise_failure, futures, report),
                lambda: [*map(report, futures)],
            )
            try:
                yield share
            finally:
                share.end()
    finally:
        memory.close()
        memory.unlink()


def _shared_array(memory: SharedMemory) -> Any:
    assert memory.buf is not None
    return np.frombuffer(memory.buf, np.uint8)


def _result_of(pool: Processes, future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise GridSimError(f"a process that shares the run {pool.loss_description()}") from error


def _raise_failure(futures: list[Future[Any]], report: Callable[[Future[Any]], Any]) -> None:
    """If another process has ended, raise its exception, or GridSimError if it has none."""
    for future in futures:
        if future.done():
            report(future)
            raise GridSimError("a process that shares the run ended before the others")


def _call(name: str, rank: int, ranks: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call `function` as process number `rank` of the processes that share the memory `name`."""
    memory = SharedMemory(name)
    share = ProcessShare(rank, ranks, _shared_array(memory), lambda: None, list)
    try:
        with collect_warnings():  # the first process already issues the same warnings
            return function(share, *args)
    finally:
        share.end()
        memory.close()
