"""The function `run_cells`, which executes runs in batches on any `concurrent.futures.Executor`.

The results do not depend on the executor, on the number of workers, or on their speeds: runs are independent,
and each is reported with its number.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from itertools import islice
from typing import Any

from gridsim.errors import GridSimError, OutOfMemory, ScenarioError, text_of
from gridsim.studies.execution.cell import Cell, RunRecord, measure, measure_all
from gridsim.support.arguments import integer
from gridsim.support.processes import _NO_THREAD, _NO_THREADS, Processes, broken_executor_error
from gridsim.support.provenance import code_version

#: Target duration of a task (a batch of runs for a worker), s: long compared with the overhead of a task and
#: of storing its records, and short enough that little is lost with a worker.
TASK_SECONDS = 0.5
#: Minimum duration of a task, s, even at the end, where smaller tasks would divide the rest evenly.
_LEAST_SECONDS = 0.1
#: Interval between checks of whether a pool of `Processes` still responds, s.
_PATIENCE = 1.0
#: Number of tasks at a time for an executor that does not state its number of workers.
_WIDTH = 64


Report = Callable[[list[tuple[int, RunRecord]]], None]


def run_cells(
    cells: Sequence[Cell], report: Report, *, executor: Executor | None = None, batch: int | None = None
) -> None:
    """Execute the runs `cells`, and report their records with their numbers, several at a time.

    An error of a run, or of the worker that executed it, is in its record (`RunRecord.error`).  The runs of a
    task that was lost are tried once more, one by one.  Exceptions of `report` and KeyboardInterrupt end the
    execution; runs that were finished before have been reported.

    Parameters
    ----------
    report
        Function called with (number, record) pairs when a task is over, or, without an executor, after about
        `TASK_SECONDS` and after each error.
    executor
        The executor of the runs; None to execute them in this process, one after another.
    batch
        Number of runs in a task; None for as many as take about `TASK_SECONDS`.

    Raises
    ------
    ScenarioError
        If the executor is invalid, a run cannot be sent to other processes, or workers cannot import the
        script, since it does not start them under ``if __name__ == "__main__":``.
    GridSimError
        If the executor is broken, or its workers run other code.
    """
    if batch is not None:
        integer("batch", batch, low=1)
    check_executor(executor)
    if executor is None:
        _run_here(cells, report)
        return
    if isinstance(executor, (ProcessPoolExecutor, Processes)):
        for cell in {(id(cell.scheduler), id(cell.metrics)): cell for cell in cells}.values():
            _check_pickles(cell)
    _Tasks(cells, report, executor, batch).run()


def check_executor(executor: Any) -> None:
    """Raise ScenarioError unless `executor` is None or has a method ``submit`` like an `Executor`."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ScenarioError(f"executor must be a concurrent.futures.Executor or None, got {executor!r}")


def _run_here(cells: Sequence[Cell], report: Report) -> None:
    finished: list[tuple[int, RunRecord]] = []
    seconds = 0.0
    try:
        for number, cell in enumerate(cells):
            finished.append((number, measure(cell)))
            seconds += finished[-1][1].wall_seconds
            if seconds >= TASK_SECONDS or finished[-1][1].error:
                ready, finished, seconds = finished, [], 0.0
                report(ready)
    finally:
        if finished:
            report(finished)


class _Tasks:
    """A dispatcher that sends runs to an executor in tasks, and reports their records."""

    def __init__(self, cells: Sequence[Cell], report: Report, executor: Executor, batch: int | None) -> None:
        self._cells, self._report, self._executor, self._batch = cells, report, executor, batch
        self._todo = deque(range(len(cells)))
        #: Runs of lost tasks, which are executed alone to identify the cause.
        self._suspects: deque[int] = deque()
        self._running: dict[Future[list[RunRecord]], list[int]] = {}
        self._is_exclusive = False
        #: Total time (s) and number of finished runs, halved after each task, since the first run of a worker
        #: imports modules and takes long.
        self._seconds, self._done = 0.0, 0.0
        self._width = _width(executor)

    def run(self) -> None:
        try:
            while self._todo or self._suspects or self._running:
                self._submit()
                self._wait()
                self._collect()
        except KeyboardInterrupt:
            self._collect()
            raise
        finally:
            for future in self._running:
                future.cancel()

    def _submit(self) -> None:
        is_accepted = True
        while is_accepted and self._todo and not self._suspects and len(self._running) < 2 * self._width:
            is_accepted = self._send(self._todo, self._size())
        self._is_exclusive = not self._running and bool(self._suspects)
        if self._is_exclusive:
            self._send(self._suspects, 1)

    def _size(self) -> int:
        if self._batch is not None:
            return self._batch
        if not self._done:
            return 1
        even_share = math.ceil(len(self._todo) / (4 * self._width))
        rate = self._done / max(self._seconds, 1e-9)
        return max(1, int(_LEAST_SECONDS * rate), min(even_share, int(TASK_SECONDS * rate)))

    def _send(self, queue: deque[int], count: int) -> bool:
        """Submit the first `count` runs of `queue` as a task.

        Returns
        -------
        bool
            False if the pool has lost a worker, an error that running tasks will report.
        """
        numbers = list(islice(queue, count))
        cells = [self._cells[number] for number in numbers]
        try:
            future = self._executor.submit(measure_all, cells)
        except BrokenExecutor as error:
            if not isinstance(self._executor, Processes):
                self._report_finished()
                raise GridSimError(
                    f"{broken_executor_error(self._executor, error)}; finished runs are kept"
                ) from error
            self._executor.loss_description()  # raises for a script that no worker can import
            if self._running:
                return False
            self._executor.renew()  # a worker was lost while it was idle
            future = self._executor.submit(measure_all, cells)
        for _ in numbers:
            queue.popleft()
        self._running[future] = numbers
        return True

    def _wait(self) -> None:
        """Wait until a task is over; raise OutOfMemory if the pool's thread has ended.

        Such a pool, for example after a lack of memory, would never report the end of a task.
        """
        while not wait(self._running, _PATIENCE, FIRST_COMPLETED).done:
            if isinstance(self._executor, Processes) and not self._executor.is_responsive():
                # a task may have been reported just before the thread ended
                if any(future.done() for future in self._running):
                    return
                raise OutOfMemory("not enough memory for a pool of workers; finished runs are kept")

    def _report_finished(self) -> list[tuple[list[int], BaseException]]:
        """Report the records of tasks that are over; return the numbers and errors of failed tasks."""
        done_tasks = [(numbers, future) for future, numbers in self._running.items() if future.done()]
        failed: list[tuple[list[int], BaseException]] = []
        finished: list[tuple[int, RunRecord]] = []
        for numbers, future in sorted(done_tasks, key=lambda entry: entry[0]):
            del self._running[future]
            error = CancelledError() if future.cancelled() else future.exception()
            if error is None:
                records = future.result()
                self._seconds = self._seconds / 2 + sum(record.wall_seconds for record in records)
                self._done = self._done / 2 + len(records)
                finished += zip(numbers, records, strict=True)
            else:
                failed.append((numbers, error))
        if finished:
            self._deliver(finished)
        return failed

    def _collect(self) -> None:
        renew = False
        for numbers, error in self._report_finished():
            if not isinstance(error, Exception):
                raise error
            if isinstance(error, BrokenExecutor) and not isinstance(self._executor, Processes):
                raise GridSimError(
                    f"{broken_executor_error(self._executor, error)}; finished runs are kept"
                ) from error
            if isinstance(error, BrokenExecutor) and _NO_THREAD in str(error.__cause__):
                raise OutOfMemory(f"{_NO_THREADS}; finished runs are kept") from error
            if isinstance(error, BrokenExecutor) and isinstance(self._executor, Processes):
                renew = True
                self._executor.loss_description()  # raises for a script that no worker can import
            self._retry_or_report(numbers, error)
        if renew:  # then all other running tasks are lost as well
            for numbers in self._running.values():
                self._suspects.extend(numbers)
            self._running.clear()
            assert isinstance(self._executor, Processes)
            self._executor.renew()

    def _retry_or_report(self, numbers: list[int], error: Exception) -> None:
        """Mark the runs of a lost task for execution alone, or report the error of a run that was alone."""
        if not self._is_exclusive:
            self._suspects.extend(numbers)
            return
        lost = isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"  # an error of Dask
        event = "the worker was lost" if lost else "the worker failed to run it"
        # Dask wraps the original error; in the standard library the cause is only the worker's traceback
        cause = error.__cause__
        origin = error if cause is None or type(cause).__name__ == "_RemoteTraceback" else cause
        text = f"{event}: {type(origin).__name__}: {' '.join(text_of(origin).split())}"
        self._deliver([(numbers[0], RunRecord(error=text, lost=True, code=code_version()))])

    def _deliver(self, records: list[tuple[int, RunRecord]]) -> None:
        for _, record in records:
            if record.code != code_version():
                raise GridSimError(f"workers must run the same code, {code_version()}, got {record.code}")
        self._report(records)


def _width(executor: Executor) -> int:
    """Return the number of tasks that an executor can execute at a time, or `_WIDTH` if it is unknown."""
    workers = getattr(executor, "_max_workers", None)  # Python's and mpi4py's executors have this attribute
    if isinstance(workers, int):
        return workers
    client = getattr(executor, "_client", None)  # attribute of Dask's executor
    return max(1, sum(client.nthreads().values())) if client is not None else _WIDTH


def _check_pickles(cell: Cell) -> None:
    for name, value in ((cell.scheduler.name, cell.scheduler), *cell.metrics.items()):
        try:
            pickle.dumps(value)
        except Exception as error:
            reason = " ".join(text_of(error).split())
            raise ScenarioError(
                f"{name} must be defined in a module, so that other processes can import it: {reason}"
            ) from error
