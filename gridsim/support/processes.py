"""Worker processes that execute runs."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from gridsim.errors import GridSimError, OutOfMemory, ScenarioError, text_of
from gridsim.support.arguments import integer
from gridsim.support.imports import import_extra, sleeping_thread_variables
from gridsim.support.threads import processors

#: Signals that a terminal sends to all processes of a command; only the parent process handles them.
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGTERM)


#: Environment variable that keeps Python from searching the current folder for modules first.
_SAFE_PATH = "PYTHONSAFEPATH"


#: Message of the error about a script that starts processes when it is imported.
MISSING_GUARD = (
    'processes require that the script calls gridsim under `if __name__ == "__main__":`, since each process '
    "imports the script"
)
#: Name of worker processes, set before they import the script, and their exit code if the script starts
#: processes when it is imported.
_NAME, _MISSING_GUARD_CODE = "gridsim-worker", 79


class _Worker(SpawnProcess):
    """A worker process that `terminate` kills, since it ignores the signals in `_TERMINAL_SIGNALS`.

    A pool that has lost one worker terminates the others and waits for them.
    """

    def terminate(self) -> None:
        self.kill()


class _Workers(SpawnContext):
    """A context that creates workers and remembers them, so that their exit codes can be read."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """Create a worker."""
        self.workers.append(_Worker(*args, **{**kwargs, "name": _NAME}))
        return self.workers[-1]


class _Future(Future[Any]):
    """A future that ignores an exception set after cancellation; some versions of Python raise an error."""

    def set_exception(self, exception: BaseException | None) -> None:
        with suppress(InvalidStateError):
            super().set_exception(exception)


@contextmanager
def _delay_signals() -> Iterator[None]:
    """Delay the signals in `_TERMINAL_SIGNALS` until the block ends.

    Without the delay a pool could keep a lock forever or lose track of a worker.  Processes started in the
    block inherit the blocked signals (except on Windows).
    """
    # Python handles signals in the main thread only
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _TERMINAL_SIGNALS} if in_main_thread else {}
    received: list[int] = []

    def record(number: int, _: object) -> None:
        received.append(number)

    # new processes inherit the mask, which does not cover other threads of this process
    has_masks = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS) if has_masks else set()
    try:
        for number, handler in handlers.items():
            if handler is not None:  # a handler that Python did not install is None
                signal.signal(number, record)
        yield
    finally:
        if has_masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        for signal_number in received:
            signal.raise_signal(signal_number)


@contextmanager
def set_environment(**variables: str) -> Iterator[None]:
    """Set environment variables within the block, for processes that are started in it."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            _set(name, value)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def exclude_current_folder() -> AbstractContextManager[None]:
    """Prevent processes started in the block from importing modules of the current folder.

    Python searches that folder first, and it may contain untrusted files.  The restriction ends when
    the processes adopt the search path of this one.
    """
    return set_environment(**{_SAFE_PATH: "1"})


class Processes(Executor):
    """Pool of spawned worker processes that end with this process and ignore Ctrl-C.

    Parameters
    ----------
    workers
        Number of workers; None for the number of available processors.

    Raises
    ------
    ScenarioError
        If workers cannot import the script: it is not a file, or it starts workers when it is imported.
    """

    def __init__(self, workers: int | None = None) -> None:
        _check_script()
        self._max_workers = integer("workers", processors() if workers is None else workers, low=1, high=4096)
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        _check_threads()
        arguments = (os.environ.get(_SAFE_PATH),)
        self._workers = _Workers()
        with exclude_current_folder():  # the pool starts a resource tracker process
            return ProcessPoolExecutor(
                self._max_workers,
                mp_context=self._workers,
                initializer=_initialize_worker,
                initargs=arguments,
            )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call, as `concurrent.futures.Executor.submit` does.

        If a worker cannot import the modules of the call, the call fails, but the worker continues.

        Raises
        ------
        OutOfMemory
            If a thread of the pool cannot be started.
        """
        call = pickle.dumps((fn, args, kwargs))
        with _delay_signals(), exclude_current_folder(), set_environment(**sleeping_thread_variables()):
            try:
                future: Future[Any] = self._pool.submit(_call, call)
            except RuntimeError as error:
                pool: Any = self._pool
                thread = pool._executor_manager_thread
                if thread is None or thread.ident is not None:
                    raise
                pool._executor_manager_thread = None  # a thread that has not started cannot be joined
                raise OutOfMemory(NO_THREADS) from error
            future.__class__ = _Future
        return future

    def is_responsive(self) -> bool:
        """Return whether the thread of the pool that receives results is alive."""
        thread: Any = self._pool._executor_manager_thread
        return thread is not None and bool(thread.is_alive())

    def loss_description(self) -> str:
        """Return a description of the exits of the lost workers.

        Raises
        ------
        ScenarioError
            If the script starts workers whenever it is imported.
        """
        workers, deadline = self._workers.workers, time.monotonic() + _EXIT_TIMEOUT
        # a pool breaks when one worker ends; the exit codes of all workers follow a moment later
        while any(worker.exitcode is None for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.01)
        codes = [worker.exitcode or 0 for worker in workers]
        if _MISSING_GUARD_CODE in codes:
            raise ScenarioError(MISSING_GUARD)
        if (code := max(codes, default=0)) > 0:
            return f"ended with exit code {code}; its error, if any, is printed above"
        return "was killed, possibly because the system ran out of memory"

    def renew(self) -> None:
        """Replace the pool by one with new workers after a loss of workers."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down the pool, as `concurrent.futures.Executor.shutdown` does."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the workers; kill them after an error, since their results are no longer needed."""
        if kind is not None:
            for worker in self._workers.workers:
                if worker.pid is not None:  # the worker has been started
                    worker.kill()
        self._pool.shutdown(cancel_futures=kind is not None)


def broken_executor_error(executor: Executor, error: BrokenExecutor) -> GridSimError:
    """Return the error for an executor that lost workers; may raise as `Processes.loss_description` does."""
    if isinstance(executor, Processes):
        return GridSimError(f"a worker process {executor.loss_description()}")
    context = getattr(executor, "_mp_context", None)  # an executor of the standard library
    spawned = context is not None and context.get_start_method() != "fork"
    hint = '; spawned processes require `if __name__ == "__main__":` in the script' if spawned else ""
    return GridSimError(f"the executor failed ({text_of(error)}){hint}")


def result_of(executor: Executor, future: Future[Any]) -> Any:
    """Return the result of a call that was submitted to `executor`.

    Raises
    ------
    GridSimError
        If the worker was lost.
    ScenarioError
        If workers cannot import the script.
    Exception
        The exception of the call itself.
    """
    try:
        return future.result()
    except BrokenExecutor as error:
        raise broken_executor_error(executor, error) from error


def _check_script() -> None:
    """Raise ScenarioError, or end this worker, if workers cannot import the script."""
    process, main = multiprocessing.current_process(), sys.modules["__main__"]
    if getattr(process, "_inheriting", False):  # a new process is importing the script
        if process.name == _NAME:
            raise SystemExit(_MISSING_GUARD_CODE)  # the parent reports the error
        raise ScenarioError(MISSING_GUARD)
    path = getattr(main, "__file__", None)
    if path is not None and main.__spec__ is None and not os.path.exists(path):
        raise ScenarioError(f"processes require a script that is a file, got {path!r}")


#: Maximum wait for the workers of a broken pool to end, s.
_EXIT_TIMEOUT = 5.0
#: Threads of a pool: one waits for its workers, the other sends calls to them.
_THREADS = 2


NO_THREADS = "not enough memory for the threads of a pool of workers"


#: Python's message if a thread cannot be started.  If that is the second thread of a pool, some Python
#: versions report it, while in others the pool breaks without a message.
NO_THREAD = "can't start new thread"


def _check_threads() -> None:
    """Raise OutOfMemory if the threads of a pool cannot be started.

    A pool without its second thread would wait forever.
    """
    release = threading.Event()
    threads = [threading.Thread(target=release.wait) for _ in range(_THREADS)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise OutOfMemory(NO_THREADS) from error
    finally:  # the system reuses the stacks of these threads for the next ones
        release.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _call(call: bytes) -> Any:
    fn, args, kwargs = pickle.loads(call)
    return fn(*args, **kwargs)


def _initialize_worker(safe_path: str | None) -> None:
    """Set the environment and signals of this worker, and start a thread that ends it with its parent."""
    _set(_SAFE_PATH, safe_path)  # for processes that the worker starts
    for number in _TERMINAL_SIGNALS:  # until here, these signals end a worker on Windows
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Start a thread that ends this process when its parent has ended, even if that was killed."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    try:
        threading.Thread(target=wait, daemon=True).start()
    except RuntimeError:  # no memory for the thread; end without a traceback
        os._exit(1)


@contextmanager
def executor_of(workers: int | None, dask: str | None = None) -> Iterator[Executor | None]:
    """Provide the executor for the runs of a command.

    Parameters
    ----------
    workers
        Number of worker processes; None for the number of processors.  If it is 1, the executor is None and
        runs are executed in this process.
    dask
        Address of the scheduler of a Dask cluster that executes the runs instead; None for no cluster.

    Raises
    ------
    ImportError
        If dask.distributed is not installed.
    ScenarioError
        If the address or the number of workers is invalid.
    OSError
        If the cluster does not answer.
    """
    if dask is not None:
        distributed = import_extra("distributed", "sweep", "--dask")
        try:
            # check the address first, since a client that fails leaves threads running
            distributed.comm.get_address_host(dask)
            client = distributed.Client(dask)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # not an address, or one with an unavailable protocol
            raise ScenarioError(
                f"--dask must be the address of a Dask scheduler, such as localhost:8786, got {dask!r} "
                f"({text_of(error)})"
            ) from error
        # the study reports a lost scheduler; the client would log each attempt to reach it again
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        with client:
            yield client.get_executor()
        return
    count = processors() if workers is None else integer("--workers", workers, low=1, high=4096)
    if count == 1:
        yield None
        return
    with Processes(count) as executor:
        yield executor
