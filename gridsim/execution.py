"""Execution: cells on any `concurrent.futures.Executor`, some at a time, until all are done.

What comes out does not depend on the executor, on how many work, or on who is faster: cells are independent,
and each is reported with its number.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, ClassVar

from gridsim.arguments import whole
from gridsim.cells import Cell, Measured, measure, measure_all
from gridsim.errors import GridSimError, OutOfMemory, ScenarioError, text_of
from gridsim.extras import need
from gridsim.provenance import code_version

#: s that the cells of one task should take together: long beside what a task costs by itself, and short
#: enough that not much is lost with a worker.
TASK_SECONDS = 0.25
#: s after which somebody looks whether a pool of ours still answers.
_PATIENCE = 1.0
#: Tasks at a time, where an executor does not say how many it can do.
_WIDTH = 64

#: Signals that go to all processes of a command: what to do about them, the parent decides.
_SENT_TO_ALL = (signal.SIGINT, signal.SIGTERM)
#: Python does not put the current folder where it looks for modules first.
_SAFE_PATH = "PYTHONSAFEPATH"

Report = Callable[[list[tuple[int, Measured]]], None]


def run_cells(
    cells: Sequence[Cell], report: Report, *, executor: Executor | None = None, batch: int | None = None
) -> None:
    """Run `cells`, and tell numbers and what was measured, those of some cells at a time.

    report : is told as soon as a task is over, or here after `TASK_SECONDS`.
    executor : where they go; None runs them here, one after another.
    batch : cells of a task; None for as many as take about `TASK_SECONDS`.

    An error of a cell is its own (`Measured.error`), as is one of the worker that ran it: a task that was
    lost is tried once more, cell by cell.  What is raised by `report`, and KeyboardInterrupt, end it; what
    was done by then has been told.

    Raises ScenarioError for what is no executor, or a cell that cannot be sent to other processes;
    GridSimError for an executor that is broken, or whose workers run other code.
    """
    if batch is not None:
        whole("batch", batch, low=1)
    check_executor(executor)
    if executor is None:
        _run_here(cells, report)
        return
    if isinstance(executor, (ProcessPoolExecutor, Processes)):
        for cell in cells:
            _check_pickles(cell)
    _Tasks(cells, report, executor, batch).run()


def check_executor(executor: Any) -> None:
    """That it is None or takes tasks as a `concurrent.futures.Executor` does, else ScenarioError."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ScenarioError(f"executor must be a concurrent.futures.Executor or None, got {executor!r}")


def _run_here(cells: Sequence[Cell], report: Report) -> None:
    over: list[tuple[int, Measured]] = []
    seconds = 0.0
    try:
        for number, cell in enumerate(cells):
            over.append((number, measure(cell)))
            seconds += over[-1][1].wall_seconds
            if seconds >= TASK_SECONDS or over[-1][1].error:
                ready, over, seconds = over, [], 0.0
                report(ready)
    finally:
        if over:
            report(over)


class _Tasks:
    """Cells on their way through an executor."""

    def __init__(self, cells: Sequence[Cell], report: Report, executor: Executor, batch: int | None) -> None:
        self._cells, self._report, self._executor, self._batch = cells, report, executor, batch
        self._todo = deque(range(len(cells)))
        #: Cells of tasks that were lost: they run alone, so that it is known which of them it is.
        self._suspects: deque[int] = deque()
        self._running: dict[Future[list[Measured]], list[int]] = {}
        self._alone = False
        self._seconds, self._done = 0.0, 0
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
        taken = True
        while taken and self._todo and not self._suspects and len(self._running) < 2 * self._width:
            taken = self._send(self._todo, self._size())
        self._alone = not self._running and bool(self._suspects)
        if self._alone:
            self._send(self._suspects, 1)

    def _size(self) -> int:
        if self._batch is not None:
            return self._batch
        if not self._done:
            return 1
        fair = math.ceil(len(self._todo) / (4 * self._width))
        return max(1, min(fair, int(TASK_SECONDS * self._done / max(self._seconds, 1e-9))))

    def _send(self, queue: deque[int], count: int) -> bool:
        """Hand over the first `count` of a queue; False if a worker was lost, as what is running will say."""
        numbers = list(islice(queue, count))
        cells = [self._cells[number] for number in numbers]
        try:
            future = self._executor.submit(measure_all, cells)
        except BrokenExecutor as error:
            if not isinstance(self._executor, Processes):
                self._finished()
                raise GridSimError(f"the executor is broken ({error}); what was finished is kept") from error
            if self._running:
                return False
            self._executor.renew()  # the worker had nothing to do
            future = self._executor.submit(measure_all, cells)
        for _ in numbers:
            queue.popleft()
        self._running[future] = numbers
        return True

    def _wait(self) -> None:
        """Until one is over; a pool whose thread has ended, as without memory, would not say that it is."""
        while not wait(self._running, _PATIENCE, FIRST_COMPLETED).done:
            if isinstance(self._executor, Processes) and not self._executor.answers():
                if any(future.done() for future in self._running):  # it was the last thing that it did
                    return
                raise OutOfMemory("not enough memory for a pool of workers; what was finished is kept")

    def _finished(self) -> list[tuple[list[int], BaseException]]:
        """Tell what was measured, and return the others that are over, with their errors."""
        over = [(numbers, future) for future, numbers in self._running.items() if future.done()]
        failed: list[tuple[list[int], BaseException]] = []
        for numbers, future in sorted(over, key=lambda entry: entry[0]):
            del self._running[future]
            error = CancelledError() if future.cancelled() else future.exception()
            if error is None:
                found = future.result()
                self._seconds += sum(each.wall_seconds for each in found)
                self._done += len(found)
                self._tell(list(zip(numbers, found, strict=True)))
            else:
                failed.append((numbers, error))
        return failed

    def _collect(self) -> None:
        broken = False
        for numbers, error in self._finished():
            if not isinstance(error, Exception):
                raise error
            if isinstance(error, BrokenExecutor) and not isinstance(self._executor, Processes):
                raise GridSimError(f"the executor broke ({error}); what was finished is kept") from error
            if isinstance(error, BrokenExecutor) and _NO_THREAD in str(error.__cause__):
                raise OutOfMemory(f"{_NO_THREADS}; what was finished is kept") from error
            broken |= isinstance(error, BrokenExecutor)
            self._lost(numbers, error)
        if broken:  # with it all else that was running
            for numbers in self._running.values():
                self._suspects.extend(numbers)
            self._running.clear()
            assert isinstance(self._executor, Processes)
            self._executor.renew()

    def _lost(self, numbers: list[int], error: Exception) -> None:
        if not self._alone:
            self._suspects.extend(numbers)
            return
        lost = isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"  # of Dask
        what = "the worker was lost" if lost else "the worker could not run it"
        # Dask wraps what it was; a cause that the standard library gives is the worker's traceback as text
        cause = error.__cause__
        why = error if cause is None or type(cause).__name__ == "_RemoteTraceback" else cause
        said = f"{what}: {type(why).__name__}: {' '.join(text_of(why).split())}"
        self._tell([(numbers[0], Measured(error=said, lost=True, code=code_version()))])

    def _tell(self, found: list[tuple[int, Measured]]) -> None:
        for _, each in found:
            if each.code != code_version():
                raise GridSimError(f"workers must run the same code, {code_version()}, got {each.code}")
        self._report(found)


def _width(executor: Executor) -> int:
    """Tasks that an executor can do at a time, as far as one can tell."""
    workers = getattr(executor, "_max_workers", None)  # of the standard library, and of mpi4py
    if isinstance(workers, int):
        return workers
    client = getattr(executor, "_client", None)  # of Dask
    return max(1, sum(client.nthreads().values())) if client is not None else _WIDTH


def _check_pickles(cell: Cell) -> None:
    for what, value in ((cell.scheduler.name, cell.scheduler), *cell.metrics.items()):
        try:
            pickle.dumps(value)
        except Exception as error:
            why = " ".join(text_of(error).split())
            raise ScenarioError(f"{what} must be of a module to be sent to other processes: {why}") from error


# -- processes on this machine ----------------------------------------------------------------------------


class _Worker(SpawnProcess):
    """One that can be ended, though it does not heed what is sent to all (`_begin`).

    A pool of which one worker was lost ends the others so, and waits for them.
    """

    def terminate(self) -> None:
        self.kill()


class _Workers(SpawnContext):
    Process: ClassVar[type[SpawnProcess]] = _Worker


class _Future(Future[Any]):
    """One that may be cancelled when its worker is lost: some Pythons' pools break on that."""

    def set_exception(self, exception: BaseException | None) -> None:
        with suppress(InvalidStateError):
            super().set_exception(exception)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait until this is over, lest a pool is left with a lock that nobody opens, or a worker that
    nobody knows of; and processes that are begun here are born without an ear for them (but on Windows)."""
    here = threading.current_thread() is threading.main_thread()  # others are not interrupted
    before = {number: signal.getsignal(number) for number in _SENT_TO_ALL} if here else {}
    came: list[int] = []

    def later(number: int, _: object) -> None:
        came.append(number)

    masks = hasattr(signal, "pthread_sigmask")  # what a process inherits; not enough for one with threads
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_ALL) if masks else set()
    try:
        for number, handler in before.items():
            if handler is not None:  # None: not of Python
                signal.signal(number, later)
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        for heard in came:
            signal.raise_signal(heard)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """What processes that are begun here are told by `variables` of the environment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            _set(name, value)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def unseeing() -> AbstractContextManager[None]:
    """Processes that are begun here take no module from the current folder, where files of others may lie,
    before they have the path of this one; Python looks there first."""
    return environment(**{_SAFE_PATH: "1"})


class Processes(Executor):
    """Worker processes that are spawned, end when this one does, and leave Ctrl-C to it.

    workers : how many; None for as many as there are processors to use.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._max_workers = whole("workers", _processors() if workers is None else workers, low=1, high=4096)
        self._pool = self._made()

    def _made(self) -> ProcessPoolExecutor:
        _check_threads()
        as_here = (os.environ.get(_SAFE_PATH),)
        with unseeing():  # it begins a process that tracks resources
            return ProcessPoolExecutor(
                self._max_workers, mp_context=_Workers(), initializer=_begin, initargs=as_here
            )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `concurrent.futures.Executor`.

        What a worker cannot import is the error of what was submitted, and does not end the worker.

        Raises OutOfMemory if a thread of the pool cannot be started.
        """
        call = pickle.dumps((fn, args, kwargs))
        with _undisturbed(), unseeing():
            try:
                future: Future[Any] = self._pool.submit(_unpacked, call)
            except RuntimeError as error:
                pool: Any = self._pool
                thread = pool._executor_manager_thread
                if thread is None or thread.ident is not None:
                    raise
                pool._executor_manager_thread = None  # nobody can wait for what has not begun
                raise OutOfMemory(_NO_THREADS) from error
            future.__class__ = _Future
        return future

    def answers(self) -> bool:
        """Whether somebody waits for what the workers find."""
        thread: Any = self._pool._executor_manager_thread
        return thread is not None and bool(thread.is_alive())

    def renew(self) -> None:
        """Others in the place of workers that were lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._made()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `concurrent.futures.Executor`."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the workers; at once if it is by an error, since nobody waits for what they do."""
        if kind is not None:
            for worker in list((self._pool._processes or {}).values()):
                worker.kill()
        self._pool.shutdown(cancel_futures=kind is not None)


#: Threads of a pool: one waits for its workers, another one sends them what they do.
_THREADS = 2
_NO_THREADS = "not enough memory for the threads of a pool of workers"
#: What Python says then; of the second thread some Pythons' pools tell it as text, others end without a word.
_NO_THREAD = "can't start new thread"


def _check_threads() -> None:
    """That a pool can have its threads: one without the second would wait for ever.

    Raises OutOfMemory.
    """
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(_THREADS)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise OutOfMemory(_NO_THREADS) from error
    finally:  # the system keeps their stacks for the next ones
        over.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _unpacked(call: bytes) -> Any:
    fn, args, kwargs = pickle.loads(call)
    return fn(*args, **kwargs)


def _begin(safe_path: str | None) -> None:
    """What a worker does first."""
    _set(_SAFE_PATH, safe_path)  # what it begins is no worker of ours
    for deaf_to in _SENT_TO_ALL:  # on Windows it has an ear for them until here
        signal.signal(deaf_to, signal.SIG_IGN)

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    try:
        threading.Thread(target=end_with_parent, daemon=True).start()
    except RuntimeError:  # no memory for it: this worker is lost, without many words
        os._exit(1)


@contextmanager
def executor_of(workers: int | None, dask: str | None = None) -> Iterator[Executor | None]:
    """Where the command line sends cells: here (1 worker), to processes (None: to as many as there are
    processors), or to the Dask cluster whose scheduler is at the address `dask`.

    Raises ImportError without dask.distributed, ScenarioError for what is no address, OSError for a cluster
    that does not answer.
    """
    if dask is not None:
        distributed = need("distributed", "sweep", "--dask")
        try:
            distributed.comm.get_address_host(dask)  # first: a client that fails leaves threads behind
            client = distributed.Client(dask)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # no address, or one of a kind that is not set up
            raise ScenarioError(
                f"--dask must be the address of a scheduler of Dask, such as localhost:8786, got {dask!r} "
                f"({text_of(error)})"
            ) from error
        with client, client.get_executor() as executor:
            yield executor
        return
    count = _processors() if workers is None else whole("--workers", workers, low=1, high=4096)
    if count == 1:
        yield None
        return
    with Processes(count) as executor:
        yield executor
