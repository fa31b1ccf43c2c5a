"""Sparrow, Hawk and least work left in compiled form.

Each class has the states of all nodes, and the handlers of the node program of the same name in
`gridsim.schedulers.probes`, which defines the scheduler.
"""

from libc.math cimport INFINITY, ceil
from libc.string cimport memcpy

cimport cython

from gridcore.nodes.handlers cimport Handlers, put
from gridcore.nodes.roles cimport ON_IDLE, ON_LOST, ON_RELEASE, ON_START, ON_TIMER
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.timers cimport timers_cancel
from gridcore.probes.reservations cimport (
    Reservation, ReservationQueue, reservations_add, reservations_clear, reservations_first, reservations_free,
    reservations_make, reservations_remove,
)
from gridcore.nodes.waiting_times cimport WaitingTimes

import numpy as np

from gridcore.common.state import AMOUNT, FLAG, ArrayEntry, NumberEntry, TableEntry, read, read_only

__all__ = ["Hawk", "Lwl", "ProbeWorker", "Sparrow"]

_RESERVATION = {"node": (0, "nodes"), "application": (0, "applications"), "scheduler": (0, "nodes")}
_SPARROW = {
    "places": TableEntry(_RESERVATION),
    "ranks": ArrayEntry(np.float64, ("places", 2), AMOUNT),
    "taken": ArrayEntry(np.uint8, ("nodes",), FLAG),
}
_WORKER = {"booked": ArrayEntry(np.uint8, ("nodes",), FLAG), "opened": NumberEntry(end=2)}
_HAWK = {"attempts": ArrayEntry(np.int64, ("nodes",), (0, None))}

cdef class Sparrow(Handlers):
    """Sparrow in compiled form, defined by `gridsim.schedulers.probes.sparrow.SparrowNode`.

    Parameters
    ----------
    nodes, applications
        The number of nodes, and of applications.
    workers
        The number of nodes that are workers.
    probe_ratio, patience, retry
        The parameters of `gridsim.schedulers.probes.sparrow.Probing`.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, Py_ssize_t workers, double probe_ratio,
                  double patience, double retry, **_):
        if not 1 <= workers <= nodes < 2**31:
            raise ValueError(f"workers must be in 1..{nodes}, got {workers}")
        self.workers, self.probe_ratio, self.patience, self.retry = workers, probe_ratio, patience, retry
        self.slot_busy = np.zeros(nodes, np.uint8)
        self.reservations = reservations_make(nodes)

    def __dealloc__(self):
        reservations_free(self.reservations, self.nodes)

    cdef int _bind(self, NodeActions core) except -1:
        self.probe, self.fetch = self._number(core, "probe"), self._number(core, "fetch")
        self.task, self.none_kind = self._number(core, "task"), self._number(core, "none")
        self.task_kind = core.by_name["task"]
        return 0

    cdef int _number(self, NodeActions core, str name) except -1:
        return (<MessageKind> core.by_name[name]).number

    cdef int _checked_job(self, long long job) except -1:
        """Return the job of a message; one of a checkpoint may have any number."""
        if not 0 <= job < self.applications:
            raise ValueError(f"a message must be about a job below {self.applications}, got {job}")
        return <int> job

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.probe:
            reservations_add(&self.reservations[node], self._checked_job(row[2]), <int> row[1])
            return 0 if self.slot_busy[node] else self._serve(core, node)
        if kind == self.fetch:
            return self._answer_fetch(core, node, row[1], row[2])
        if kind == self.task:
            timers_cancel(&core.timers, <int> node, UNANSWERED)
            return core._enqueue(node, row[2], row[3])
        if kind == self.none_kind:
            return self._end_fetch(core, node)
        return 0

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        cdef double value
        if event == ON_RELEASE or event == ON_LOST:
            return self._release(core, node, arguments[0], arguments[1])
        if event == ON_IDLE:
            return self._finish(core, node)
        if event == ON_TIMER:
            memcpy(&value, &arguments[1], sizeof(double))
            return self._timer(core, node, arguments[0], value)
        return 0

    cdef int _forget(self, Py_ssize_t node) except -1:
        reservations_clear(&self.reservations[node])
        self.slot_busy[node] = False
        return 0

    # -- the scheduler ----------------------------------------------------------------------------------------

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        return self._schedule(core, node, job, tasks)

    cdef int _schedule(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        self._reserve(core, node, job, tasks)
        return core._set_timer(node, RETRY, self.retry, job) if self.retry < INFINITY else 0

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef RandomStream random = core._stream(node)
        cdef Py_ssize_t k
        for k in range(<Py_ssize_t> ceil(self.probe_ratio * tasks)):
            put(core, self.probe, random._integer_below(self.workers), node)[0] = job
        return 0

    cdef int _answer_fetch(self, NodeActions core, Py_ssize_t node, Py_ssize_t worker, long long job) except -1:
        """Bind the next task of a job to the worker that fetches it, if one is left."""
        cdef long long* row
        if core._tasks_to_place(node, job) <= 0:
            put(core, self.none_kind, worker, node)
            return 0
        if core.record_decision is not None:
            core.record_decision(node, "bound", job, {
                "node": worker, "task": -1, "tasks": 1, "among": -1, "saw": 0.0, "limit": float("nan"),
                "age": float("nan")})
        row = put(core, self.task, worker, node)
        row[0], row[1] = job, 1
        return core._account_for_message(node, self.task_kind, row)

    # -- the worker -------------------------------------------------------------------------------------------

    cdef int _serve(self, NodeActions core, Py_ssize_t node) except -1:
        cdef ReservationQueue* p = &self.reservations[node]
        cdef Reservation* first = reservations_first(p)
        if p.n == 0:
            return self._free(core, node)
        reservations_remove(p, 0, 1)    # the removed entry stays valid until a reservation is added
        return self._ask(core, node, first.job, first.scheduler)

    cdef int _ask(self, NodeActions core, Py_ssize_t node, int job, int scheduler) except -1:
        """Request a task of a job from its scheduler."""
        self.slot_busy[node] = True
        put(core, self.fetch, scheduler, node)[0] = job
        return core._set_timer(node, UNANSWERED, self.patience, 0.0) if self.patience < INFINITY else 0

    cdef int _free(self, NodeActions core, Py_ssize_t node) except -1:
        return 0

    cdef int _end_fetch(self, NodeActions core, Py_ssize_t node) except -1:
        timers_cancel(&core.timers, <int> node, UNANSWERED)
        return self._finish(core, node)

    cdef int _finish(self, NodeActions core, Py_ssize_t node) except -1:
        self.slot_busy[node] = False
        return self._serve(core, node)

    cdef int _timer(self, NodeActions core, Py_ssize_t node, long long name, double value) except -1:
        cdef long long job = <long long> value, left
        if name == UNANSWERED:
            return self._finish(core, node)
        left = core._tasks_to_place(node, job)
        if left <= 0:
            return 0
        self._reserve(core, node, job, left)
        cdef double pause = max(self.retry, core.now / 1e9 - core.queues.release[job])
        return core._set_timer(node, RETRY, min(pause, 100.0 * self.retry), job)

    # -- checkpoints ------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        return read_only(self._entries())

    def setstate(self, state):
        """Restore a state of `getstate` of an object with the same arguments; raise ValueError if it is invalid."""
        self._set(state)

    cdef dict _entries(self):
        cdef Py_ssize_t node, k
        cdef const Reservation* place
        rows, ranks = [], []
        for node in range(self.nodes):
            place = reservations_first(&self.reservations[node])
            for k in range(self.reservations[node].n):
                rows.append((node, place[k].job, place[k].scheduler))
                ranks.append((place[k].size, place[k].overtaken))
        return {"places": np.array(rows, np.int64).reshape(-1, 3), "ranks": np.array(ranks).reshape(-1, 2),
                "taken": np.array(self.slot_busy)}

    cdef int _set(self, state) except -1:
        cdef Py_ssize_t k
        cdef Reservation* new
        entries = read(state, _SPARROW, nodes=self.nodes, applications=self.applications)
        rows, ranks = entries["places"], entries["ranks"]
        for k in range(self.nodes):
            reservations_clear(&self.reservations[k])
        for k in range(len(rows)):
            new = reservations_add(&self.reservations[rows[k, 0]], rows[k, 1], rows[k, 2])
            new.size, new.overtaken = ranks[k]
        self.slot_busy = entries["taken"]
        return 0


cdef class ProbeWorker(Sparrow):
    """Workers of a scheduler with a center, in compiled form; base class.

    The definition is `gridsim.schedulers.probes.worker.WorkerNode`.

    Parameters
    ----------
    cutoff
        The size (Mflop) above which a task is long.
    reserved
        The number of workers that run no long tasks.
    fetch_time
        The parameter of `WaitingTimes`.
    **_
        The parameters of `Sparrow`.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double cutoff, Py_ssize_t reserved,
                  double fetch_time, **_):
        if self.workers != nodes - 1 or not 0 <= reserved < self.workers:
            raise ValueError(f"workers must be {nodes - 1}, and reserved in 0..{nodes - 2}, "
                             f"got {self.workers} and {reserved}")
        self.cutoff, self.reserved, self.fetch_time, self.center = cutoff, reserved, fetch_time, nodes - 1
        self.recorded_at_center, self.targets = np.zeros(nodes, np.uint8), np.empty(64, np.int64)
        self.records = self._new_records(None)

    def _new_records(self, state) -> Any:
        return WaitingTimes(self.fetch_time, self.workers, state)

    cdef int _bind(self, NodeActions core) except -1:
        Sparrow._bind(self, core)
        self.job, self.up = self._number(core, "job"), self._number(core, "up")
        self.began, self.ended = self._number(core, "began"), self._number(core, "ended")
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        cdef double speed
        if kind == self.job:
            return self._schedule(core, node, row[2], row[3])
        if kind in (self.began, self.ended, self.up) and row[1] >= self.workers:
            raise ValueError(f"a message of a worker must have a sender below {self.workers}, got {row[1]}")
        if kind == self.began:
            return self.records._begin(row[1], core.queues.task_size[self._checked_job(row[2])], core.now / 1e9)
        if kind == self.ended:
            return self.records._end(row[1], core.now / 1e9)
        if kind == self.up:
            if not self.has_workers:
                self._open(core)
            memcpy(&speed, &row[2], sizeof(double))
            return self.records._forget(row[1], speed)
        return Sparrow._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        cdef long long speed
        if event == ON_START:
            if node != self.center:
                memcpy(&speed, &core.queues.speed[node], sizeof(double))
                self._report(core, self.up, node, speed)
            return 0
        return Sparrow._event(self, core, event, node, arguments)

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.recorded_at_center[node] = False
        return Sparrow._forget(self, node)

    cdef int _open(self, NodeActions core) except -1:
        """Make the waiting-time records when the first worker reports."""
        self.has_workers = True
        return 0

    cdef int _report(self, NodeActions core, int kind, Py_ssize_t node, long long word) except -1:
        """Update the records of the center directly; send a message only if messages are observed, which is slower."""
        cdef long long row[3]
        row[0], row[1], row[2] = self.center, node, word
        if core.observe is not None:
            return core._send_now(<MessageKind> core.kinds[kind], row)
        return self._message(core, kind, self.center, row)

    cdef bint _is_long(self, NodeActions core, long long job) noexcept:
        return core.queues.task_size[job] > self.cutoff

    cdef int _forward(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        """Pass a job on to the center."""
        cdef long long* row = put(core, self.job, self.center, node)
        row[0], row[1] = job, tasks
        return core._account_for_message(node, <MessageKind> core.kinds[self.job], row)

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        if self._is_long(core, job):
            return self._forward(core, node, job, tasks)
        return self._schedule(core, node, job, tasks)

    cdef int _choose(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        """Choose a worker for each task of a job at the center, and write the workers to `targets`."""
        if tasks > self.targets.shape[0]:
            self.targets = np.empty(2 * tasks, np.int64)
        return self._place(core, job, tasks)

    cdef int _place(self, NodeActions core, long long job, long long tasks) except -1:
        return (<WaitingTimes> self.records)._place(self.reserved if self._is_long(core, job) else 0,
                                                    core.queues.task_size[job], core.now / 1e9, &self.targets[0], tasks)

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef Py_ssize_t k
        if node != self.center or not self.has_workers:
            return Sparrow._reserve(self, core, node, job, tasks)
        self._choose(core, node, job, tasks)
        for k in range(tasks):
            put(core, self.probe, self.targets[k], node)[0] = job
        return 0

    cdef int _ask(self, NodeActions core, Py_ssize_t node, int job, int scheduler) except -1:
        self.recorded_at_center[node] = scheduler == self.center
        if self.recorded_at_center[node]:
            self._report(core, self.began, node, job)
        return Sparrow._ask(self, core, node, job, scheduler)

    cdef int _finish(self, NodeActions core, Py_ssize_t node) except -1:
        if self.recorded_at_center[node]:
            self._report(core, self.ended, node, 0)
        self.recorded_at_center[node] = False
        return Sparrow._finish(self, core, node)

    cdef dict _entries(self):
        return {**Sparrow._entries(self), "booked": np.array(self.recorded_at_center), "opened": int(self.has_workers),
                **{f"books {name}": value for name, value in self.records.contents.items()}}

    cdef int _set(self, state) except -1:
        entries = read(state, _WORKER, nodes=self.nodes)
        records = self._new_records({name[6:]: value for name, value in state.items() if name.startswith("books ")})
        Sparrow._set(self, state)
        self.recorded_at_center, self.has_workers, self.records = entries["booked"], entries["opened"], records
        return 0


@cython.final
cdef class Hawk(ProbeWorker):
    """Hawk in compiled form, defined by `gridsim.schedulers.probes.hawk.HawkNode`.

    Parameters
    ----------
    steal_attempts
        The parameter of `gridsim.Hawk`.
    **_
        The parameters of `ProbeWorker`.
    """

    cdef long long steal_attempts
    cdef int steal, nothing_kind, loot  # numbers of message kinds
    cdef long long[::1] attempts        # per node: attempts to steal since its slot became free

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, long long steal_attempts, **_):
        self.steal_attempts, self.attempts = steal_attempts, np.zeros(nodes, np.int64)

    cdef int _bind(self, NodeActions core) except -1:
        ProbeWorker._bind(self, core)
        self.steal, self.nothing_kind = self._number(core, "steal"), self._number(core, "nothing")
        self.loot = self._number(core, "loot")
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.steal:
            return self._give_away(core, node, row[1])
        if kind == self.nothing_kind:
            return 0 if self.slot_busy[node] else self._steal(core, node)
        if kind == self.loot:
            return self._queue_loot(core, node, core.payloads._fetch(row[2]))
        return ProbeWorker._message(self, core, kind, node, row)

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.attempts[node] = 0
        return ProbeWorker._forget(self, node)

    cdef int _free(self, NodeActions core, Py_ssize_t node) except -1:
        self.attempts[node] = 0
        return self._steal(core, node)

    cdef int _steal(self, NodeActions core, Py_ssize_t node) except -1:
        if self.attempts[node] < self.steal_attempts:
            self.attempts[node] += 1
            put(core, self.steal, core._stream(node)._integer(self.reserved, self.workers), node)
        return 0

    cdef int _give_away(self, NodeActions core, Py_ssize_t node, Py_ssize_t thief) except -1:
        """Send `thief` the first consecutive reservations of short jobs that wait behind a long task."""
        cdef ReservationQueue* p = &self.reservations[node]
        cdef Reservation* place = reservations_first(p)
        cdef int begin = 0, end
        cdef Py_ssize_t k
        cdef long long* row
        cdef long long[:, ::1] rows
        if not self.recorded_at_center[node]:
            while begin < p.n and place[begin].scheduler != self.center:
                begin += 1
        while begin < p.n and place[begin].scheduler == self.center:
            begin += 1
        end = begin
        while end < p.n and place[end].scheduler != self.center:
            end += 1
        if end == begin:
            put(core, self.nothing_kind, thief, node)
            return 0
        loot = np.empty((end - begin, 2), np.int64)
        rows = loot
        for k in range(end - begin):
            rows[k, 0], rows[k, 1] = place[begin + k].job, place[begin + k].scheduler
        reservations_remove(p, begin, end - begin)
        row = put(core, self.loot, thief, node)
        row[0], row[1] = core.payloads._store(loot), 64 + 8 * rows.size
        return 0

    cdef int _queue_loot(self, NodeActions core, Py_ssize_t node, loot) except -1:
        """Queue stolen reservations."""
        cdef const long long[:, :] rows = loot
        cdef Py_ssize_t k
        if rows.shape[1] != 2:
            raise ValueError(f"a message must have reservations of two numbers, got {rows.shape[1]}")
        for k in range(rows.shape[0]):
            if not 0 <= rows[k, 1] < self.nodes:
                raise ValueError(f"a message must have schedulers below {self.nodes}, got {rows[k, 1]}")
            reservations_add(&self.reservations[node], self._checked_job(rows[k, 0]), <int> rows[k, 1])
        return 0 if self.slot_busy[node] else self._serve(core, node)

    cdef dict _entries(self):
        return {**ProbeWorker._entries(self), "attempts": np.array(self.attempts)}

    cdef int _set(self, state) except -1:
        attempts = read(state, _HAWK, nodes=self.nodes)["attempts"]
        ProbeWorker._set(self, state)
        self.attempts = attempts
        return 0


@cython.final
cdef class Lwl(ProbeWorker):
    """Least work left in compiled form, defined by `gridsim.schedulers.probes.hawk.LwlNode`."""

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        return self._forward(core, node, job, tasks)
