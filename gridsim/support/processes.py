"""Worker processes in which runs are executed, and how each of them is set up."""

from __future__ import annotations

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
from gridsim.support.arguments import whole
from gridsim.support.extras import need
from gridsim.support.idle_threads import asleep

#: Signals that go to all processes of a command; workers ignore them, and the parent decides what to do.
_SENT_TO_ALL = (signal.SIGINT, signal.SIGTERM)


#: Environment variable that keeps Python from looking for modules in the current folder first.
_SAFE_PATH = "PYTHONSAFEPATH"


#: What a script lacks that asks for processes whenever it is imported.
UNGUARDED = (
    'processes require that the script calls gridsim under `if __name__ == "__main__":`, since each process '
    "imports the script"
)
#: What workers are called, also before they have imported the script, and the exit code of one whose script
#: asks for processes meanwhile.
_NAME, _UNGUARDED = "gridsim-worker", 79


class _Worker(SpawnProcess):
    """A worker process that `terminate` ends although it ignores the signals of `_SENT_TO_ALL` (`_begin`).

    A pool that has lost one worker terminates the others, and waits for them.
    """

    def terminate(self) -> None:
        self.kill()


class _Workers(SpawnContext):
    """Makes workers, and keeps them to see how they have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """Make a worker."""
        self.made.append(_Worker(*args, **{**kwargs, "name": _NAME}))
        return self.made[-1]


class _Future(Future[Any]):
    """A future that may be cancelled before its worker is lost; the pools of some Pythons break on that."""

    def set_exception(self, exception: BaseException | None) -> None:
        with suppress(InvalidStateError):
            super().set_exception(exception)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals until the block ends.

    Otherwise a pool could be left with a lock that is never released, or with an unknown worker.  Processes
    that are started in the block begin with these signals blocked (except on Windows)."""
    here = threading.current_thread() is threading.main_thread()  # other threads are not interrupted
    before = {number: signal.getsignal(number) for number in _SENT_TO_ALL} if here else {}
    came: list[int] = []

    def later(number: int, _: object) -> None:
        came.append(number)

    masks = hasattr(signal, "pthread_sigmask")  # inherited by processes; not enough for this one's threads
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_ALL) if masks else set()
    try:
        for number, handler in before.items():
            if handler is not None:  # None: the handler was not installed by Python
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
    """Set `variables` of the environment in the block, for processes that are started there."""
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
    """Keep processes that are started in the block from importing modules from the current folder.

    Python looks there first, and the folder may have files of others.  It holds until the processes have the
    path of this one."""
    return environment(**{_SAFE_PATH: "1"})


class Processes(Executor):
    """A pool of spawned worker processes that end when this process ends, and leave Ctrl-C to it.

    Raises ScenarioError in a script that workers cannot import: it is no file, or asks for workers when it is
    imported.

    Parameters
    ----------
    workers
        The number of workers; None for the number of processors that may be used.
    """

    def __init__(self, workers: int | None = None) -> None:
        _check_script()
        self._max_workers = whole("workers", _processors() if workers is None else workers, low=1, high=4096)
        self._pool = self._made()

    def _made(self) -> ProcessPoolExecutor:
        _check_threads()
        as_here = (os.environ.get(_SAFE_PATH),)
        self._workers = _Workers()
        with unseeing():  # the pool starts a process that tracks resources
            return ProcessPoolExecutor(
                self._max_workers, mp_context=self._workers, initializer=_begin, initargs=as_here
            )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; see `concurrent.futures.Executor`.

        If a worker cannot import what the call needs, the call fails, but the worker does not end.

        Raises OutOfMemory if a thread of the pool cannot be started.
        """
        call = pickle.dumps((fn, args, kwargs))
        with _undisturbed(), unseeing(), environment(**asleep()):
            try:
                future: Future[Any] = self._pool.submit(_unpacked, call)
            except RuntimeError as error:
                pool: Any = self._pool
                thread = pool._executor_manager_thread
                if thread is None or thread.ident is not None:
                    raise
                pool._executor_manager_thread = None  # a thread that has not started cannot be joined
                raise OutOfMemory(_NO_THREADS) from error
            future.__class__ = _Future
        return future

    def answers(self) -> bool:
        """Whether the thread of the pool that receives the results of the workers is alive."""
        thread: Any = self._pool._executor_manager_thread
        return thread is not None and bool(thread.is_alive())

    def loss(self) -> str:
        """Return in words how workers have ended that were lost.

        Raises ScenarioError if that is because the script asks for workers whenever it is imported.
        """
        workers, until = self._workers.made, time.monotonic() + _END
        # a pool breaks when one has ended; that its code is known, and that others end, takes a moment
        while any(worker.exitcode is None for worker in workers) and time.monotonic() < until:
            time.sleep(0.01)
        codes = [worker.exitcode or 0 for worker in workers]
        if _UNGUARDED in codes:
            raise ScenarioError(UNGUARDED)
        if (code := max(codes, default=0)) > 0:
            return f"ended with exit code {code}; if there is an error above, it is that of the process"
        return "was killed, as the system does when memory runs out"

    def renew(self) -> None:
        """Replace the pool by one with new workers, after workers were lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._made()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down the pool; see `concurrent.futures.Executor`."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the workers; after an error at once, since their results are no longer needed."""
        if kind is not None:
            for worker in list((self._pool._processes or {}).values()):
                worker.kill()
        self._pool.shutdown(cancel_futures=kind is not None)


def broken(executor: Executor, error: BrokenExecutor) -> GridSimError:
    """Return the error for an executor whose workers were lost; see `Processes.loss` for what is raised."""
    if isinstance(executor, Processes):
        return GridSimError(f"a worker process {executor.loss()}")
    context = getattr(executor, "_mp_context", None)  # of the standard library
    spawned = context is not None and context.get_start_method() != "fork"
    hint = (
        '; processes that are spawned require `if __name__ == "__main__":` in the script' if spawned else ""
    )
    return GridSimError(f"the executor broke ({text_of(error)}){hint}")


def result_of(executor: Executor, future: Future[Any]) -> Any:
    """Return the result of a call that was submitted to `executor`.

    Raises what the call has raised, GridSimError if its worker was lost, and ScenarioError in a script that
    no worker can import.
    """
    try:
        return future.result()
    except BrokenExecutor as error:
        raise broken(executor, error) from error


def _check_script() -> None:
    """Raise ScenarioError, or end this worker, in a script that no worker can import."""
    this, main = multiprocessing.current_process(), sys.modules["__main__"]
    if getattr(this, "_inheriting", False):  # it is being imported in a process that has just begun
        if this.name == _NAME:
            raise SystemExit(_UNGUARDED)  # the parent says what is wrong
        raise ScenarioError(UNGUARDED)
    path = getattr(main, "__file__", None)
    if path is not None and main.__spec__ is None and not os.path.exists(path):
        raise ScenarioError(f"processes require a script that is a file, got {path!r}")


#: How long to wait for workers to end whose pool is broken, s.
_END = 5.0
#: Threads of a pool: one waits for its workers, another one sends calls to them.
_THREADS = 2


_NO_THREADS = "not enough memory for the threads of a pool of workers"


#: Python's message when a thread cannot be started.  If it is the second thread of a pool, the pools of some
#: Pythons report this text; those of others end without a message.
_NO_THREAD = "can't start new thread"


def _check_threads() -> None:
    """Raise OutOfMemory if the threads of a pool cannot be started.

    A pool without its second thread would wait for ever.
    """
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(_THREADS)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise OutOfMemory(_NO_THREADS) from error
    finally:  # the system keeps the stacks of these threads for the next ones
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
    """Set up a worker: environment, ignored signals, and a thread that ends it with its parent."""
    _set(_SAFE_PATH, safe_path)  # for processes that the worker starts itself
    for deaf_to in _SENT_TO_ALL:  # on Windows the worker reacts to these signals until here
        signal.signal(deaf_to, signal.SIG_IGN)

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    try:
        threading.Thread(target=end_with_parent, daemon=True).start()
    except RuntimeError:  # no memory for the thread: end this worker without a traceback
        os._exit(1)


@contextmanager
def executor_of(workers: int | None, dask: str | None = None) -> Iterator[Executor | None]:
    """Provide the executor to which the command line sends runs.

    Raises ImportError without dask.distributed, ScenarioError for an invalid address, OSError for a cluster
    that does not answer.

    Parameters
    ----------
    workers
        The number of worker processes; None for the number of processors.  With 1 the executor is None: runs
        are executed in this process.
    dask
        The address of the scheduler of a Dask cluster, which is used instead; None for no cluster.
    """
    if dask is not None:
        distributed = need("distributed", "sweep", "--dask")
        try:
            distributed.comm.get_address_host(dask)  # check first: a client that fails leaves threads behind
            client = distributed.Client(dask)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # not an address, or one whose protocol is not set up
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
