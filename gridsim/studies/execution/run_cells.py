"""The function `run_cells`, which executes runs in batches on any `concurrent.futures.Executor`.

The results do not depend on the executor, on the number of workers, or on their speeds: runs are independent,
and each is reported with its number.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from itertools import islice

from gridsim.errors import text_of
from gridsim.studies.execution.cell import Cell, RunRecord, measure, measure_all
from gridsim.studies.execution.executors import executor_for
from gridsim.studies.execution.packing import mismatch
from gridsim.studies.execution.run_executor import ExecutorLost, RunExecutor, WorkerLost
from gridsim.support.arguments import integer
from gridsim.support.processes import Processes as Processes
from gridsim.support.provenance import code_version

#: Target duration of a task (a batch of runs for a worker), s: long compared with the overhead of a task and
#: of storing its records, and short enough that little is lost with a worker.
TASK_SECONDS = 0.5
#: Minimum duration of a task, s, even at the end, where smaller tasks would divide the rest evenly.
_LEAST_SECONDS = 0.1

#: Number of cancellations after which a run is reported; from the second one on it is executed alone.
_MAX_CANCELLATIONS = 10

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
        If the executor is invalid or returns no futures of `concurrent.futures`, a run cannot be sent to
        other processes, or workers cannot import the script, since it does not start them under
        ``if __name__ == "__main__":``.
    ExecutorLost
        If the executor is broken, or the scheduler of a Dask cluster has ended.
    WorkerMismatch
        If workers have other code of gridsim or of an installed package.
    """
    if batch is not None:
        integer("batch", batch, low=1)
    if executor is None:
        _run_here(cells, report)
        return
    distinct = {(id(cell.scheduler), id(cell.metrics)): cell for cell in cells}.values()
    with executor_for(executor) as target:
        target.prepare(
            (cell.scheduler for cell in distinct),
            (entry for cell in distinct for entry in cell.metrics.items()),
        )
        _Tasks(cells, report, target, batch).run()


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

    def __init__(
        self, cells: Sequence[Cell], report: Report, executor: RunExecutor, batch: int | None
    ) -> None:
        self._cells, self._report, self._executor, self._batch = cells, report, executor, batch
        self._todo = deque(range(len(cells)))
        #: Runs of lost tasks, which are executed alone to identify the cause.
        self._suspects: deque[int] = deque()
        #: Run -> how often its task was cancelled.
        self._cancellations: Counter[int] = Counter()
        self._running: dict[Future[list[RunRecord]], list[int]] = {}
        self._is_exclusive = False
        #: Total time (s) and number of finished runs, halved after each task, since the first run of a worker
        #: imports modules and takes long.
        self._seconds, self._done = 0.0, 0.0
        self._width = executor.width

    def run(self) -> None:
        try:
            while self._todo or self._suspects or self._running:
                self._submit()
                self._executor.wait(self._running)
                self._collect()
        except KeyboardInterrupt:
            self._collect()
            raise
        except ExecutorLost:
            self._report_finished()
            raise
        finally:
            for future in self._running:
                future.cancel()

    def _submit(self) -> None:
        self._width, is_accepted = self._executor.width, True
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
        except Exception as error:
            self._executor.explain(error)
            if not isinstance(error, BrokenExecutor):
                raise
            if self._running:
                return False
            self._executor.renew()  # a worker was lost while it was idle
            future = self._executor.submit(measure_all, cells)
        for _ in numbers:
            queue.popleft()
        self._running[future] = numbers
        return True

    def _report_finished(self) -> list[tuple[list[int], BaseException]]:
        """Report the records of tasks that are over; return the numbers and errors of failed tasks."""
        done_tasks = [(numbers, future) for future, numbers in self._running.items() if future.done()]
        failed: list[tuple[list[int], BaseException]] = []
        finished: list[tuple[int, RunRecord]] = []
        for numbers, future in sorted(done_tasks, key=lambda entry: entry[0]):
            del self._running[future]
            try:
                records = self._executor.result(future)
            except BaseException as error:
                failed.append((numbers, error))
            else:
                self._seconds = self._seconds / 2 + sum(record.wall_seconds for record in records)
                self._done = self._done / 2 + len(records)
                finished += zip(numbers, records, strict=True)
        if finished:
            self._executor.lost_run = ""
            self._deliver(finished)
        return failed

    def _collect(self) -> None:
        failed, renew = self._report_finished(), False
        for error in {type(error): error for _, error in failed}.values():  # errors of a type have one cause
            if not isinstance(error, Exception):
                raise error
            self._executor.explain(error)
        for numbers, error in failed:
            renew |= isinstance(error, BrokenExecutor)
            self._retry_or_report(numbers, error)
        if renew:  # then all other running tasks are lost as well
            for numbers in self._running.values():
                self._suspects.extend(numbers)
            self._running.clear()
            self._executor.renew()

    def _retry_or_report(self, numbers: list[int], error: BaseException) -> None:
        """Repeat the runs of a lost task, or report the error of a run that was alone.

        They are repeated alone, unless the task was cancelled for the first time: then another client may
        have cancelled all tasks of the executor.
        """
        if isinstance(error, CancelledError):
            self._cancellations.update(numbers)
            limit, queue = (_MAX_CANCELLATIONS, self._suspects) if self._is_exclusive else (2, self._todo)
            if max(self._cancellations[number] for number in numbers) < limit:
                queue.extendleft(reversed(numbers))
                return
        lost = isinstance(error, (BrokenExecutor, WorkerLost))
        if lost:
            self._executor.lost_run = self._description(numbers)
        if not self._is_exclusive:
            self._suspects.extend(numbers)
            return
        event = "the worker was lost" if lost else "the worker failed to run it"
        if isinstance(error, CancelledError):
            event = f"the executor cancelled it {self._cancellations[numbers[0]]} times"
        # Dask wraps the original error; in the standard library the cause is only the worker's traceback
        cause = error.__cause__
        is_own = isinstance(error, WorkerLost)
        origin = error if is_own or cause is None or type(cause).__name__ == "_RemoteTraceback" else cause
        text = f"{event}: {type(origin).__name__}: {' '.join(text_of(origin).split())}".removesuffix(": ")
        self._deliver([(numbers[0], RunRecord(error=text, lost=True, code=code_version()))])

    def _description(self, numbers: list[int]) -> str:
        """Return a phrase that names the runs of a task, such as "a run of fcfs (replication 3)"."""
        run = f"run of {self._cells[numbers[0]].name}"
        return f"a {run}" if len(numbers) == 1 else f"a task of {len(numbers)} runs, the first a {run}"

    def _deliver(self, records: list[tuple[int, RunRecord]]) -> None:
        for _, record in records:
            if record.code != code_version():
                raise mismatch("run the same code", code_version(), record.code)
        self._report(records)
