"""Executor of runs on a Dask cluster, whose scheduler may end and whose workers come and go."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Self

from gridsim.errors import ExecutorWarning, ScenarioError, text_of, warn
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.execution.packing import Parcel, call, mismatch
from gridsim.studies.execution.run_executor import WIDTH, ExecutorLost, RunExecutor, WorkerLost
from gridsim.support.provenance import code_version

#: Interval between requests for the state of the cluster, s.
_INTERVAL = 1.0
#: Interval between looks at answers, s.
_POLL = 0.02
#: Time without an answer of the scheduler after which it counts as lost, s.
_SILENCE = 30.0
#: Time after a lost connection in which the scheduler may answer again, s.
_RECONNECTION = 10.0
#: Time without a worker after which there is a warning, s.
_WITHOUT_WORKERS = 60.0
#: Number of workers that a task may lose; the scheduler itself allows more (`allowed-failures`).
_MAX_LOSSES = 2
#: Number of successive answers that do not know a task after which it counts as lost: one that was submitted
#: while the cluster was restarted may be unknown to the scheduler, and is never over.
_MAX_UNKNOWN = 5
#: Log of clients, which has a line for each result that is lost with a worker, and for each attempt to reach
#: the scheduler; the study reports what is lost.
_CLIENT_LOG = logging.getLogger("distributed.client")
#: Topic of the events of the scheduler.
_TOPIC = "all"
#: Number of values that the cluster keeps for later tasks.
_MAX_SHARED = 64
#: An expression with the version of a worker, which every version of gridsim can evaluate.
_VERSION = "__import__('gridsim.support.provenance', fromlist=['code_version']).code_version()"


class DaskExecutor(RunExecutor):
    """A Dask cluster, as a client or as the executor of a client.

    The state of the cluster is requested about every second, without waiting for the answer.

    Parameters
    ----------
    executor
        A ``distributed.Client``, or what its method ``get_executor`` returns.
    """

    _by_value = True

    def __init__(self, executor: Any) -> None:
        if hasattr(executor, "get_executor"):
            executor = executor.get_executor()
        super().__init__(executor)
        self._client = executor._client
        if self._client.asynchronous:
            raise ScenarioError("executor must be a client of Dask that is not asynchronous")
        self._id = ""
        self._request: Future[Any] | None = None
        self._threads = 0
        self._last_request = -_INTERVAL
        self._last_answer = self._last_worker = time.monotonic()
        #: Time of the first request after the last answer.
        self._silent_since: float | None = None
        self._is_warned = False
        #: Address of a worker -> the answer about its version of gridsim; None once it is known to be right.
        self._versions: dict[str, Future[Any] | None] = {}
        #: Name -> what was sent once, as a future of Dask; the latest use is last.
        self._shared: dict[str, Any] = {}
        #: Key of a task -> its future.
        self._tasks: dict[str, Future[Any]] = {}
        #: Keys of the tasks on each worker that was lost, added in the thread of the client.
        self._losses: deque[list[str]] = deque()
        #: Key of a task -> number of workers that were lost with it.
        self._loss_counts: Counter[str] = Counter()
        #: Key of a task -> number of successive answers in which the scheduler does not know it.
        self._unknown: Counter[str] = Counter()
        #: Tasks that ended too many workers and were cancelled.
        self._killers: set[Future[Any]] = set()
        #: Filter of the log of the client, an object of its own for each executor.
        self._drop_record = lambda record: False

    def __enter__(self) -> Self:
        _CLIENT_LOG.addFilter(self._drop_record)
        return self

    def __exit__(self, *_: object) -> None:
        _CLIENT_LOG.removeFilter(self._drop_record)
        if self._client.status == "running":
            with suppress(ValueError):  # `prepare` raised before it subscribed
                self._client.unsubscribe_topic(_TOPIC)

    def prepare(
        self, schedulers: Iterable[Scheduler], metrics: Iterable[tuple[str, MetricFunction | None]] = ()
    ) -> None:
        super().prepare(schedulers, metrics)
        self.check()
        self._subscribe()
        while not self._id:  # the first answer
            self.check()
            time.sleep(_POLL)
        self._wait_for_versions()

    @property
    def width(self) -> int:
        """The number of threads of the workers now.

        It has a minimum, so that a cluster which adapts to its tasks sees enough of them."""
        self._update()
        return max(self._threads, WIDTH // 2)

    def _send(self, parcel: Parcel) -> Future[Any]:
        shared = [self._share(f"array-{name}", self._packer.arrays[name]) for name in parcel.arrays]
        key = f"gridsim-{uuid.uuid4()}"
        future: Future[Any] = self._executor.submit(call, parcel, *shared, pure=False, key=key)
        self._tasks[key] = future
        future.add_done_callback(lambda _: self._tasks.pop(key, None))
        return future

    def result(self, future: Future[Any]) -> Any:
        if future in self._killers:
            self._killers.remove(future)
            raise WorkerLost(f"{_MAX_LOSSES} workers ended while they executed it")
        try:
            return super().result(future)
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # the scheduler has reached its own limit before
                losses = getattr(error, "allowed_failures", _MAX_LOSSES - 1) + 1
                raise WorkerLost(f"{losses} workers ended while they executed it") from error
            raise

    def _subscribe(self) -> None:
        """Subscribe to the events of the scheduler, which report each worker that is lost."""
        losses = self._losses  # the client keeps the function, which must not keep this object

        def receive(event: tuple[float, Any]) -> None:
            message = event[1]
            is_removal = isinstance(message, dict) and message.get("action") == "remove-worker"
            if is_removal and not message.get("expected", False):
                losses.append([*message["processing-tasks"]])

        self._client.subscribe_topic(_TOPIC, receive)

    def _share(self, name: str, value: Any) -> Any:
        """Return the future of a value, which is sent to the cluster once and survives the end of workers."""
        future = self._shared.pop(name, None)
        if future is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                future = self._client.submit(pickle.loads, pickle.dumps(value), key=f"gridsim-{name}")
        self._shared[name] = future
        if len(self._shared) > _MAX_SHARED:
            del self._shared[next(iter(self._shared))]  # the cluster keeps it for the tasks that need it
        return future

    def check(self) -> None:
        """Raise ExecutorLost if the scheduler is lost, WorkerMismatch for a worker with other code."""
        if self._client.status in ("closing", "closed"):
            raise ExecutorLost(f"the {self._name} has ended, or its client was closed")
        if self._executor._shutdown:
            raise ExecutorLost(f"the executor of the {self._name} was shut down")
        self._update()
        if self._silent_since is not None and time.monotonic() - self._silent_since > _SILENCE:
            raise ExecutorLost(f"the {self._name} has not answered for {_SILENCE:g} s")
        for worker, answer in list(self._versions.items()):
            if answer is not None and answer.done():
                self._check_version(worker, answer)
        if time.monotonic() - self._last_worker < _WITHOUT_WORKERS:
            return
        shortage = f"the {self._name} has had no worker for {_WITHOUT_WORKERS:g} s"
        if self.lost_run:  # a cluster may give up workers that end again and again
            raise ExecutorLost(f"{shortage}, since workers ended again and again in {self.lost_run}")
        if not self._is_warned:
            self._is_warned = True
            warn(f"{shortage}; the runs wait for one", ExecutorWarning)

    def _check_version(self, worker: str, answer: Future[Any]) -> None:
        error = CancelledError() if answer.cancelled() else answer.exception()
        if error is not None and not isinstance(error, (ImportError, AttributeError)):
            del self._versions[worker]  # the worker was lost; if it is still there, it is asked again
            return
        version = answer.result() if error is None else f"none ({text_of(error)})"
        if version != code_version():
            raise mismatch("run the same code", code_version(), f"{version} at {worker}")
        self._versions[worker] = None

    def explain(self, error: Exception) -> None:
        super().explain(error)
        if isinstance(error, CancelledError) or self._client.status != "running":
            # a client that loses its scheduler cancels all calls, and connects again if it can
            self._shared.clear()
            self._versions.clear()
            until, self._request = time.monotonic() + _RECONNECTION, None
            answered = self._last_answer
            while self._last_answer == answered and self._client.status not in ("closing", "closed"):
                if time.monotonic() > until:
                    raise ExecutorLost(f"the {self._name} has ended or cannot be reached") from error
                time.sleep(_POLL)
                self._update()
            self.check()
            self._subscribe()
        self._wait_for_versions()

    @property
    def _name(self) -> str:
        return f"Dask scheduler at {getattr(self._client.scheduler, 'address', 'an unknown address')}"

    def _wait_for_versions(self) -> None:
        """Wait until the versions of all present workers are known."""
        until = time.monotonic() + _RECONNECTION
        while time.monotonic() < until:
            self.check()
            if all(answer is None or answer.done() for answer in self._versions.values()):
                return
            time.sleep(_POLL)

    def _update(self) -> None:
        """Take the answer to the last request for the state of the cluster, and send the next one."""
        self._take_losses()
        now = time.monotonic()
        if self._request is not None and self._request.done():
            request, self._request = self._request, None
            if request.exception() is None:
                self._last_answer, self._silent_since = now, None
                state, tasks = request.result()
                self._take(state)
                self._cancel_unknown(tasks)
        is_due = self._request is None and now - self._last_request >= _INTERVAL
        if is_due and self._client.status == "running":
            self._last_request = now
            self._silent_since = now if self._silent_since is None else self._silent_since
            self._request = asyncio.run_coroutine_threadsafe(
                _state_of(self._client.scheduler, list(self._tasks)), self._client.loop.asyncio_loop
            )

    def _take_losses(self) -> None:
        """Cancel the tasks that have lost too many workers, since each one may end more of them."""
        while self._losses:
            for key in self._losses.popleft():
                self._loss_counts[key] += 1
                future = self._tasks.get(key)
                if future is not None and self._loss_counts[key] == _MAX_LOSSES and future.cancel():
                    self._killers.add(future)

    def _cancel_unknown(self, tasks: dict[str, str | None]) -> None:
        """Cancel the tasks that the scheduler does not know; `tasks` has their states, by key."""
        self._unknown = Counter(
            {key: self._unknown[key] + 1 for key, state in tasks.items() if state is None}
        )
        for key, answers in self._unknown.items():
            if answers >= _MAX_UNKNOWN and (future := self._tasks.get(key)) is not None:
                future.cancel()

    def _take(self, state: dict[str, Any]) -> None:
        """Take the state of the cluster: its scheduler and its workers."""
        if self._id and state["id"] != self._id:
            raise ExecutorLost(f"the {self._name} was restarted, and its runs are lost")
        self._id = state["id"]
        workers = state["workers"]
        self._threads = sum(worker["nthreads"] for worker in workers.values())
        if workers:
            self._last_worker = time.monotonic()
        for worker in self._versions.keys() - workers.keys():
            answer = self._versions.pop(worker)
            if answer is not None:
                answer.cancel()  # it would wait for a worker that has left
        if self._executor._kwargs.keys() & {"workers", "resources"}:
            return  # not all workers are for the runs
        for worker in workers:
            if worker not in self._versions:
                self._versions[worker] = self._executor.submit(
                    eval, _VERSION, workers=[worker], allow_other_workers=False, pure=False, priority=1
                )


async def _state_of(scheduler: Any, keys: list[str]) -> tuple[dict[str, Any], dict[str, str | None]]:
    """Return the state of a cluster, and that of the tasks `keys`: None for those that it does not know."""
    return await scheduler.identity(), await scheduler.get_task_status(keys=keys)
