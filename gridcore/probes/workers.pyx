"""Sparrow, Hawk and least work left in compiled form.

Each class has the handlers of the node program of that name in `gridsim.schedulers.probes`, which is its definition,
under names close to those there; and the states of all nodes.
"""

from libc.math cimport INFINITY, ceil
from libc.string cimport memcpy

cimport cython

from gridcore.nodes.handlers cimport (EVENTS, ON_IDLE, ON_LOST, ON_RELEASE, ON_START, ON_TIMER, Handlers)
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.timers cimport timers_cancel
from gridcore.probes.reservations cimport (Place, Places, places_add, places_clear, places_first, places_free,
                                           places_make, places_remove)
from gridcore.probes.waiting_times cimport WaitingTimes

import numpy as np

from gridcore.common.state import AMOUNT, FLAG, Array, Number, Rows, read, read_only

__all__ = ["Hawk", "Lwl", "Sparrow", "Worker"]

_RESERVATION = {"node": (0, "nodes"), "application": (0, "applications"), "scheduler": (0, "nodes")}
_SPARROW = {
    "places": Rows(_RESERVATION),
    "ranks": Array(np.float64, ("places", 2), AMOUNT),
    "taken": Array(np.uint8, ("nodes",), FLAG),
}
_WORKER = {"booked": Array(np.uint8, ("nodes",), FLAG), "opened": Number(below=2)}
_HAWK = {"attempts": Array(np.int64, ("nodes",), (0, None))}

cdef class Sparrow(Handlers):
    """Sparrow in compiled form; see `gridsim.schedulers.probes.sparrow.SparrowNode`.

    Parameters
    ----------
    nodes, applications
        How many there are.
    workers
        How many nodes are workers.
    probe_ratio, patience, retry
        See `gridsim.schedulers.probes.sparrow.Probing`.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, Py_ssize_t workers, double probe_ratio,
                  double patience, double retry, **_):
        if not 1 <= workers <= nodes < 2**31:
            raise ValueError(f"workers must be in 1..{nodes}, got {workers}")
        self.workers, self.probe_ratio, self.patience, self.retry = workers, probe_ratio, patience, retry
        self.taken = np.zeros(nodes, np.uint8)
        self.places = places_make(nodes)

    def __dealloc__(self):
        places_free(self.places, self.nodes)

    cdef int _bind(self, NodeActions core) except -1:
        self.probe, self.fetch = self._number(core, "probe"), self._number(core, "fetch")
        self.task, self.none = self._number(core, "task"), self._number(core, "none")
        self.task_kind = core.by_name["task"]
        return 0

    cdef int _number(self, NodeActions core, str name) except -1:
        return (<Kind> core.by_name[name]).number

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.probe:
            places_add(&self.places[node], <int> row[2], <int> row[1])
            return 0 if self.taken[node] else self._serve(core, node)
        if kind == self.fetch:
            return self._fetched(core, node, row[1], row[2])
        if kind == self.task:
            timers_cancel(&core.timers, <int> node, UNANSWERED)
            return core._enqueue(node, row[2], row[3])
        if kind == self.none:
            return self._none(core, node)
        return 0

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* given) except -1:
        cdef double value
        if event == ON_RELEASE or event == ON_LOST:
            return self._release(core, node, given[0], given[1])
        if event == ON_IDLE:
            return self._finish(core, node)
        if event == ON_TIMER:
            memcpy(&value, &given[1], sizeof(double))
            return self._timer(core, node, given[0], value)
        return 0

    cdef int _forget(self, Py_ssize_t node) except -1:
        places_clear(&self.places[node])
        self.taken[node] = False
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
            put(core, self.probe, random._below(self.workers), node)[0] = job
        return 0

    cdef int _fetched(self, NodeActions core, Py_ssize_t node, Py_ssize_t worker, long long job) except -1:
        """Bind the next task of a job to the worker that asks, if any is left."""
        cdef long long* row
        if core._held(node, job) <= 0:
            put(core, self.none, worker, node)
            return 0
        if core.decided is not None:
            core.decided(node, "bound", job, {
                "machine": worker, "task": -1, "tasks": 1, "among": -1, "saw": 0.0, "limit": float("nan"),
                "age": float("nan")})
        row = put(core, self.task, worker, node)
        row[0], row[1] = job, 1
        return core._check_sent(node, self.task_kind, row)

    # -- the worker -------------------------------------------------------------------------------------------

    cdef int _serve(self, NodeActions core, Py_ssize_t node) except -1:
        cdef Places* p = &self.places[node]
        cdef Place* first = places_first(p)
        if p.n == 0:
            return self._free(core, node)
        places_remove(p, 0, 1)          # it stays where it is until another one is added
        return self._ask(core, node, first.job, first.scheduler)

    cdef int _ask(self, NodeActions core, Py_ssize_t node, int job, int scheduler) except -1:
        """Ask for a task of a job."""
        self.taken[node] = True
        put(core, self.fetch, scheduler, node)[0] = job
        return core._set_timer(node, UNANSWERED, self.patience, 0.0) if self.patience < INFINITY else 0

    cdef int _free(self, NodeActions core, Py_ssize_t node) except -1:
        return 0

    cdef int _none(self, NodeActions core, Py_ssize_t node) except -1:
        timers_cancel(&core.timers, <int> node, UNANSWERED)
        return self._finish(core, node)

    cdef int _finish(self, NodeActions core, Py_ssize_t node) except -1:
        self.taken[node] = False
        return self._serve(core, node)

    cdef int _timer(self, NodeActions core, Py_ssize_t node, long long name, double value) except -1:
        cdef long long job = <long long> value, left
        if name == UNANSWERED:
            return self._finish(core, node)
        left = core._held(node, job)
        if left <= 0:
            return 0
        self._reserve(core, node, job, left)
        cdef double pause = max(self.retry, core.now / 1e9 - core.queues.release[job])
        return core._set_timer(node, RETRY, min(pause, 100.0 * self.retry), job)

    # -- checkpoints ------------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """What has changed since this was made; see `gridcore.common.state`."""
        return read_only(self._entries())

    def setstate(self, state):
        """Go on from what `getstate` of an object made with the same arguments gave; raises ValueError."""
        self._set(state)

    cdef dict _entries(self):
        cdef Py_ssize_t node, k
        cdef const Place* place
        rows, ranks = [], []
        for node in range(self.nodes):
            place = places_first(&self.places[node])
            for k in range(self.places[node].n):
                rows.append((node, place[k].job, place[k].scheduler))
                ranks.append((place[k].size, place[k].overtaken))
        return {"places": np.array(rows, np.int64).reshape(-1, 3), "ranks": np.array(ranks).reshape(-1, 2),
                "taken": np.array(self.taken)}

    cdef int _set(self, state) except -1:
        cdef Py_ssize_t k
        cdef Place* new
        given = read(state, _SPARROW, nodes=self.nodes, applications=self.applications)
        rows, ranks = given["places"], given["ranks"]
        for k in range(self.nodes):
            places_clear(&self.places[k])
        for k in range(len(rows)):
            new = places_add(&self.places[rows[k, 0]], rows[k, 1], rows[k, 2])
            new.size, new.overtaken = ranks[k]
        self.taken = given["taken"]
        return 0


cdef class Worker(Sparrow):
    """A worker of a scheduler with a center; see `gridsim.schedulers.probes.worker.WorkerNode`; base class.

    Parameters
    ----------
    cutoff
        Mflop, above which a task is long.
    reserved
        Workers that run no long tasks.
    fetch_time
        See `WaitingTimes`.

    Attributes
    ----------
    others
        See `Sparrow`.
    """

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double cutoff, Py_ssize_t reserved,
                  double fetch_time, **_):
        if self.workers != nodes - 1 or not 0 <= reserved < self.workers:
            raise ValueError(f"workers must be {nodes - 1}, and reserved less, got {self.workers} and {reserved}")
        self.cutoff, self.reserved, self.fetch_time, self.center = cutoff, reserved, fetch_time, nodes - 1
        self.booked, self.chosen = np.zeros(nodes, np.uint8), np.empty(64, np.int32)
        self.books = self._new_books(None)

    def _new_books(self, kept) -> Any:
        return WaitingTimes(self.workers, (0, self.reserved), self.fetch_time, kept)

    cdef int _bind(self, NodeActions core) except -1:
        Sparrow._bind(self, core)
        self.job, self.up = self._number(core, "job"), self._number(core, "up")
        self.began, self.ended = self._number(core, "began"), self._number(core, "ended")
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        cdef double speed
        if kind == self.job:
            return self._schedule(core, node, row[2], row[3])
        if kind == self.began:
            return self.books._begin(row[1], core.queues.task_size[row[2]], core.now / 1e9)
        if kind == self.ended:
            return self.books._end(row[1], core.now / 1e9)
        if kind == self.up:
            if not self.opened:
                self._open(core)
            memcpy(&speed, &row[2], sizeof(double))
            return self.books._forget(row[1], speed)
        return Sparrow._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* given) except -1:
        cdef long long speed
        if event == ON_START:
            if node != self.center:
                memcpy(&speed, &core.queues.speed[node], sizeof(double))
                self._tell(core, self.up, node, speed)
            return 0
        return Sparrow._event(self, core, event, node, given)

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.booked[node] = False
        return Sparrow._forget(self, node)

    cdef int _open(self, NodeActions core) except -1:
        """Open the books, as the first worker comes up."""
        self.opened = True
        return 0

    cdef int _tell(self, NodeActions core, int kind, Py_ssize_t node, long long word) except -1:
        """Let the books know at once; by a message only if messages are observed, since that takes longer."""
        cdef long long row[3]
        row[0], row[1], row[2] = self.center, node, word
        if core.observe is not None:
            return core._leave(<Kind> core.kinds[kind], row)
        return self._message(core, kind, self.center, row)

    cdef bint _is_long(self, NodeActions core, long long job) noexcept:
        return core.queues.task_size[job] > self.cutoff

    cdef int _pass_on(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        """Pass a job on to the center."""
        cdef long long* row = put(core, self.job, self.center, node)
        row[0], row[1] = job, tasks
        return core._check_sent(node, <Kind> core.kinds[self.job], row)

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        if self._is_long(core, job):
            return self._pass_on(core, node, job, tasks)
        return self._schedule(core, node, job, tasks)

    cdef int _choose(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        """Let the center choose a worker for each task: into `chosen`."""
        if tasks > self.chosen.shape[0]:
            self.chosen = np.empty(2 * tasks, np.int32)
        return self._place(core, job, tasks)

    cdef int _place(self, NodeActions core, long long job, long long tasks) except -1:
        return (<WaitingTimes> self.books)._place(self._is_long(core, job), tasks, core.queues.task_size[job],
                                                  core.now / 1e9, &self.chosen[0])

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef Py_ssize_t k
        if node != self.center or not self.opened:
            return Sparrow._reserve(self, core, node, job, tasks)
        self._choose(core, node, job, tasks)
        for k in range(tasks):
            put(core, self.probe, self.chosen[k], node)[0] = job
        return 0

    cdef int _ask(self, NodeActions core, Py_ssize_t node, int job, int scheduler) except -1:
        self.booked[node] = scheduler == self.center
        if self.booked[node]:
            self._tell(core, self.began, node, job)
        return Sparrow._ask(self, core, node, job, scheduler)

    cdef int _finish(self, NodeActions core, Py_ssize_t node) except -1:
        if self.booked[node]:
            self._tell(core, self.ended, node, 0)
        self.booked[node] = False
        return Sparrow._finish(self, core, node)

    cdef dict _entries(self):
        return {**Sparrow._entries(self), "booked": np.array(self.booked), "opened": int(self.opened),
                **{f"books {name}": value for name, value in self.books.kept.items()}}

    cdef int _set(self, state) except -1:
        given = read(state, _WORKER, nodes=self.nodes)
        books = self._new_books({name[6:]: value for name, value in state.items() if name.startswith("books ")})
        Sparrow._set(self, state)
        self.booked, self.opened, self.books = given["booked"], given["opened"], books
        return 0


@cython.final
cdef class Hawk(Worker):
    """Hawk in compiled form; see `gridsim.schedulers.probes.hawk.HawkNode`.

    Parameters
    ----------
    steal_attempts
        See `gridsim.Hawk`.

    Attributes
    ----------
    others
        See `Worker`.
    """

    cdef long long steal_attempts
    cdef int steal, nothing, loot       # numbers of kinds
    cdef long long[::1] attempts        # to steal, since the slot became free

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, long long steal_attempts, **_):
        self.steal_attempts, self.attempts = steal_attempts, np.zeros(nodes, np.int64)

    cdef int _bind(self, NodeActions core) except -1:
        Worker._bind(self, core)
        self.steal, self.nothing = self._number(core, "steal"), self._number(core, "nothing")
        self.loot = self._number(core, "loot")
        return 0

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.steal:
            return self._give_away(core, node, row[1])
        if kind == self.nothing:
            return 0 if self.taken[node] else self._steal(core, node)
        if kind == self.loot:
            return self._keep(core, node, core.payloads._fetch(row[2]))
        return Worker._message(self, core, kind, node, row)

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.attempts[node] = 0
        return Worker._forget(self, node)

    cdef int _free(self, NodeActions core, Py_ssize_t node) except -1:
        self.attempts[node] = 0
        return self._steal(core, node)

    cdef int _steal(self, NodeActions core, Py_ssize_t node) except -1:
        if self.attempts[node] < self.steal_attempts:
            self.attempts[node] += 1
            put(core, self.steal, core._stream(node)._integer(self.reserved, self.workers), node)
        return 0

    cdef int _give_away(self, NodeActions core, Py_ssize_t node, Py_ssize_t thief) except -1:
        """Give away the first reservations of short jobs in a row that wait behind a long task."""
        cdef Places* p = &self.places[node]
        cdef Place* place = places_first(p)
        cdef int begin = 0, end
        cdef Py_ssize_t k
        cdef long long* row
        cdef long long[:, ::1] rows
        if not self.booked[node]:
            while begin < p.n and place[begin].scheduler != self.center:
                begin += 1
        while begin < p.n and place[begin].scheduler == self.center:
            begin += 1
        end = begin
        while end < p.n and place[end].scheduler != self.center:
            end += 1
        if end == begin:
            put(core, self.nothing, thief, node)
            return 0
        loot = np.empty((end - begin, 2), np.int64)
        rows = loot
        for k in range(end - begin):
            rows[k, 0], rows[k, 1] = place[begin + k].job, place[begin + k].scheduler
        places_remove(p, begin, end - begin)
        row = put(core, self.loot, thief, node)
        row[0], row[1] = core.payloads._store(loot), 64 + 8 * rows.size
        return 0

    cdef int _keep(self, NodeActions core, Py_ssize_t node, loot) except -1:
        """Queue what was stolen."""
        cdef const long long[:, :] rows = loot
        cdef Py_ssize_t k
        for k in range(rows.shape[0]):
            # an array may come from a file
            if not (0 <= rows[k, 0] < self.applications and 0 <= rows[k, 1] < self.nodes):
                raise ValueError("a message has reservations of an application or a node that there is not")
            places_add(&self.places[node], <int> rows[k, 0], <int> rows[k, 1])
        return 0 if self.taken[node] else self._serve(core, node)

    cdef dict _entries(self):
        return {**Worker._entries(self), "attempts": np.array(self.attempts)}

    cdef int _set(self, state) except -1:
        attempts = read(state, _HAWK, nodes=self.nodes)["attempts"]
        Worker._set(self, state)
        self.attempts = attempts
        return 0


@cython.final
cdef class Lwl(Worker):
    """Least work left in compiled form; see `gridsim.schedulers.probes.hawk.LwlNode`, and `Worker`."""

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        return self._pass_on(core, node, job, tasks)
