"""Executors of runs: how an executor takes calls, how many at a time, and how it is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from typing import Any, Self

from gridsim.errors import GridSimError, OutOfMemory, ScenarioError, text_of
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.execution.packing import Packer, Parcel, Reply, WorkerMismatch, call, check_packed
from gridsim.studies.execution.user_code import UserCode
from gridsim.support.processes import NO_THREAD, NO_THREADS, Processes, broken_executor_error

#: Interval between checks of whether an executor still responds, s.
_PATIENCE = 1.0
#: Number of tasks at a time for an executor that does not state its number of workers.
WIDTH = 64


class ExecutorLost(GridSimError):
    """Error about an executor that executes no more runs."""


class WorkerLost(GridSimError):
    """Error about a call whose worker ended, while other workers may continue."""


class RunExecutor:
    """An executor that packs calls for its workers; base class of those for certain executors.

    Parameters
    ----------
    executor
        The executor.
    """

    #: Whether functions that are in no module can be sent by cloudpickle.
    _by_value = False

    def __init__(self, executor: Executor) -> None:
        self._executor: Any = executor
        self._packer = Packer(UserCode())
        #: Whether the workers are threads of this process, which need nothing sent.
        self._is_local = isinstance(executor, ThreadPoolExecutor)
        #: The last run that lost its workers several times, as a phrase for errors; "" if there is none.
        self.lost_run = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the observation of workers; the executor itself remains."""

    def prepare(
        self, schedulers: Iterable[Scheduler], metrics: Iterable[tuple[str, MetricFunction | None]] = ()
    ) -> None:
        """Collect the code of the user that calls need.

        Raises
        ------
        ScenarioError
            If a scheduler or metric cannot be sent.
        """
        if self._is_local:
            return
        self._packer = Packer(UserCode(), by_value=self._by_value)
        owners: list[tuple[str, Any]] = []
        for scheduler in schedulers:
            self._packer.code.add_scheduler(scheduler)
            owners.append((type(scheduler).name, scheduler))
        for name, metric in metrics:
            if metric is not None:
                if not self._by_value or "<" not in str(getattr(metric, "__qualname__", "")):
                    self._packer.code.add_metric(name, metric)
                owners.append((name, metric))
        for owner, value in owners:
            check_packed(self._packer, owner, value)

    @property
    def width(self) -> int:
        """The number of tasks that the executor can execute at a time, now; a guess if it is unknown."""
        workers = getattr(self._executor, "_max_workers", None)  # Python's and mpi4py's executors have it
        return workers if isinstance(workers, int) else WIDTH

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a call; `result` returns its result.

        Raises
        ------
        BrokenExecutor
            If the executor has lost a worker.
        ExecutorLost
            If the executor was shut down.
        ScenarioError
            If the executor returns no future of `concurrent.futures`.
        """
        parcel = None if self._is_local else self._packer.pack(function, *args)
        try:
            future: Future[Any] = (
                self._executor.submit(function, *args) if parcel is None else self._send(parcel)
            )
        except RuntimeError as error:
            if isinstance(error, (BrokenExecutor, GridSimError)):
                raise
            raise ExecutorLost(f"the executor accepts no runs ({text_of(error)})") from error
        if not isinstance(future, Future):
            if callable(cancel := getattr(future, "cancel", None)):
                cancel()
            raise ScenarioError(
                "executor must be a concurrent.futures.Executor, whose submit returns a "
                f"concurrent.futures.Future, got {type(self._executor).__name__}, whose submit returns "
                f"{type(future).__name__}"
            )
        return future

    def _send(self, parcel: Parcel) -> Future[Any]:
        arrays = [self._packer.arrays[name] for name in parcel.arrays]
        future: Future[Any] = self._executor.submit(call, parcel, *arrays)
        return future

    def result(self, future: Future[Any]) -> Any:
        """Return the result of a call that is over; raise its exception."""
        if future.cancelled():
            raise CancelledError
        value = future.result()
        return value.result() if isinstance(value, Reply) else value

    def wait_for(self, future: Future[Any]) -> Any:
        """Wait for a call, and return its result; raise its exception, or an error about the executor."""
        self.wait([future])
        try:
            return self.result(future)
        except Exception as error:
            self.explain(error)
            if isinstance(error, BrokenExecutor):
                raise broken_executor_error(self._executor, error) from error
            if isinstance(error, CancelledError):
                raise WorkerLost("the executor cancelled it") from error
            raise

    def wait(self, futures: Collection[Future[Any]]) -> None:
        """Wait until one of `futures` is over, while `check` raises no error."""
        while True:
            # `wait` does not count futures that were cancelled before a worker took them
            if not any(future.done() for future in futures):
                wait(futures, _PATIENCE, FIRST_COMPLETED)
            try:
                self.check()
            except GridSimError:
                # a task may have been reported just before the executor was lost
                if not any(future.done() for future in futures):
                    raise
            if any(future.done() for future in futures):
                return

    def check(self) -> None:
        """Raise an error if the executor executes no more calls."""

    def renew(self) -> bool:
        """Replace lost workers, with all running calls; return False if the executor cannot."""
        return False

    def explain(self, error: Exception) -> None:
        """Raise an error about the executor, if `error` of a call shows that it executes no more calls."""
        if isinstance(error, WorkerMismatch):
            raise error
        if isinstance(error, BrokenExecutor):
            raise ExecutorLost(str(broken_executor_error(self._executor, error))) from error


class ProcessesExecutor(RunExecutor):
    """A pool of `Processes`, which can replace lost workers."""

    _executor: Processes

    def check(self) -> None:
        if not self._executor.is_responsive():
            raise OutOfMemory("not enough memory for a pool of workers; finished runs are kept")

    def renew(self) -> bool:
        self._executor.renew()
        return True

    def explain(self, error: Exception) -> None:
        if isinstance(error, BrokenExecutor):
            if NO_THREAD in str(error.__cause__):
                raise OutOfMemory(f"{NO_THREADS}; finished runs are kept") from error
            self._executor.loss_description()  # raises for a script that no worker can import
        else:
            super().explain(error)
