"""Processes that runs are run in, and what each of them is set to before."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, ClassVar

from gridsim.errors import OutOfMemory, ScenarioError, text_of
from gridsim.support.arguments import whole
from gridsim.support.extras import need

#: Signals that go to all processes of a command: what to do about them, the parent decides.
_SENT_TO_ALL = (signal.SIGINT, signal.SIGTERM)


#: Python does not put the current folder where it looks for modules first.
_SAFE_PATH = "PYTHONSAFEPATH"


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
