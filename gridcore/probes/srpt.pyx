"""Eagle and DLWL in compiled form, see `gridcore.probes.workers`; their definition is `gridsim.schedulers.probes.eagle`."""

from libc.math cimport INFINITY, ceil, isfinite

cimport cython

from gridcore.nodes.handlers cimport ON_ACT, ON_TIMER
from gridcore.nodes.kinds cimport Kind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.timers cimport timers_set
from gridcore.probes.reservations cimport (Place, Places, places_add, places_clear, places_first, places_free,
                                           places_make, places_remove)
from gridcore.probes.waiting_times cimport StaleTimes, lowest, ones
from gridcore.probes.workers cimport RETRY, Worker, put

import numpy as np

from gridcore.common.state import LATEST, Array, Arrays, Rows, read
from gridcore.probes.waiting_times import StaleTimes as Stale

__all__ = ["Dlwl", "Eagle", "Srpt"]

_SRPT = {
    "smallest": Array(np.float64, ("nodes",)),
    "served": Array(np.int32, ("nodes",), (-1, None)),
}
_EAGLE = {
    "version": Array(np.int64, ("nodes",), (-1, LATEST)),
    "bits": Arrays(np.int64, (None,)),
    "bits_of": Array(np.int64, ("nodes",), (0, None)),
    "refused": Rows({"node": (0, "nodes"), "application": (0, "applications"), "round": (0, 4)}),
}

# Rounds of probes, see the definition.
cdef enum:
    ANYWHERE = 1, RESERVED = 3
# After the timers of `gridcore.probes.workers`.
cdef enum:
    HEARTBEAT = 2


def one_by_one(arrays) -> Any:
    """Yield arrays, as a state has them where there are many."""
    yield from arrays


cdef class Srpt(Worker):
    """A worker that serves jobs with less work left first; base class.

    Parameters
    ----------
    srpt_cap
        See `gridsim.Eagle`.

    Attributes
    ----------
    others
        See `gridcore.probes.workers.Worker`.
    """

    cdef double srpt_cap
    cdef double[::1] smallest           # per node, Mflop: no task that is queued there is smaller
    cdef int[::1] served                # the number of the place that is served; -1 for none
    cdef int[::1] longs                 # how many places are of long tasks

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double srpt_cap, **_):
        self.srpt_cap = srpt_cap
        self.smallest, self.served = np.full(nodes, np.inf), np.full(nodes, -1, np.int32)
        self.longs = np.zeros(nodes, np.int32)

    cdef bint _goes_first(self, double size) noexcept:
        """Whether tasks of this size at the head of the queue cannot be overtaken."""
        return False

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.smallest[node], self.served[node], self.longs[node] = INFINITY, -1, 0
        return Worker._forget(self, node)

    # -- a scheduler ------------------------------------------------------------------------------------------

    cdef int _publish(self, NodeActions core, Py_ssize_t node, long long job) except -1:
        """Let all know how much work of a job has not been given out."""
        cdef long long left = core._held(node, job)
        return core._publish(node, job, left * core.queues.task_size[job] if left else 0.0, False)

    cdef int _schedule(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        self._publish(core, node, job)
        return Worker._schedule(self, core, node, job, tasks)

    cdef int _fetched(self, NodeActions core, Py_ssize_t node, Py_ssize_t worker, long long job) except -1:
        cdef bint had = core._held(node, job) > 0   # another scheduler may have what was lost of it
        Worker._fetched(self, core, node, worker, job)
        return self._publish(core, node, job) if had else 0

    cdef int _timer(self, NodeActions core, Py_ssize_t node, long long name, double value) except -1:
        cdef long long job = <long long> value
        if name == RETRY and core._held(node, job) > 0:
            self._publish(core, node, job)          # another one may have said that nothing is left
        return Worker._timer(self, core, node, name, value)

    cdef int _send_probe(self, NodeActions core, Py_ssize_t node, Py_ssize_t to, long long job) except -1:
        cdef long long* row = put(core, self.probe, to, node)
        row[0] = job
        (<double*> row)[1] = core.queues.task_size[job]
        return 0

    # -- the worker -------------------------------------------------------------------------------------------

    cdef int _add(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Queue a reservation."""
        cdef Place* new = places_add(&self.places[node], <int> row[2], <int> row[1])
        new.size = (<const double*> row)[3]
        self.smallest[node] = min(self.smallest[node], new.size)
        self.longs[node] += new.size > self.cutoff
        return 0 if self.taken[node] else self._serve(core, node)

    cdef int _serve(self, NodeActions core, Py_ssize_t node) except -1:
        cdef Place place
        if not self._select(core, node):
            return self._free(core, node)
        place = places_first(&self.places[node])[self.served[node]]
        if place.scheduler == self.center:  # it is for one task
            self._leave_queue(node)
        return self._ask(core, node, place.job, place.scheduler)

    cdef int _select(self, NodeActions core, Py_ssize_t node) except -1:
        """Choose the place to serve next; return whether there is one."""
        cdef Places* p = &self.places[node]
        cdef Place* place = places_first(p)
        cdef const double* left = core.board._read(core.now) if p.n else NULL
        cdef int visited = 0, alive = 0, best = 0, k
        cdef double least = INFINITY, room = INFINITY, smallest = INFINITY, size, work
        while visited < p.n and room >= self.smallest[node]:
            size, work = place[visited].size, left[place[visited].job]
            if work <= 0:
                self.longs[node] -= size > self.cutoff
                visited += 1
                continue
            if alive != visited:
                place[alive] = place[visited]
            if work < least and size <= room:
                best, least = alive, work
            room = min(room, self.srpt_cap * size - place[alive].overtaken)
            smallest = min(smallest, size)
            if alive == 0 and self._goes_first(size):
                room = -INFINITY
            alive, visited = alive + 1, visited + 1
        if visited == p.n:
            self.smallest[node] = smallest
        if alive < visited:
            places_remove(p, alive, visited - alive)
        self.served[node] = best if alive else -1
        if alive == 0:
            return False
        place = places_first(p)
        for k in range(best):
            place[k].overtaken += place[best].size
        return True

    cdef int _leave_queue(self, Py_ssize_t node) except -1:
        """Remove the place that is served."""
        cdef int at = self.served[node]
        if at >= 0:
            self.longs[node] -= places_first(&self.places[node])[at].size > self.cutoff
            places_remove(&self.places[node], at, 1)
            self.served[node] = -1
        return 0

    cdef int _none(self, NodeActions core, Py_ssize_t node) except -1:
        self._leave_queue(node)         # the job has no place here any more
        return Worker._none(self, core, node)

    # -- checkpoints ------------------------------------------------------------------------------------------

    cdef dict _entries(self):
        return {**Worker._entries(self), "smallest": np.array(self.smallest), "served": np.array(self.served)}

    cdef int _set(self, state) except -1:
        cdef Py_ssize_t node, k
        given = read(state, _SRPT, nodes=self.nodes)
        Worker._set(self, state)
        self.smallest, self.served, self.longs = given["smallest"], given["served"], np.zeros(self.nodes, np.int32)
        for node in range(self.nodes):
            if self.served[node] >= self.places[node].n:
                raise ValueError(f"state['served'] must be -1 or a place of node {node}, got {self.served[node]}")
            for k in range(self.places[node].n):
                self.longs[node] += places_first(&self.places[node])[k].size > self.cutoff
        return 0


@cython.final
cdef class Eagle(Srpt):
    """Eagle in compiled form; see `gridsim.schedulers.probes.eagle.EagleNode`.

    Parameters
    ----------
    least_probes
        See `gridsim.Eagle`.

    Attributes
    ----------
    others
        See `Srpt`.
    """

    cdef long long least_probes
    cdef int long_kind, refusal         # numbers of kinds
    cdef long long[::1] version         # how new what each node knows is
    cdef list bits                      # int64[k]: which workers have long tasks, as far as each node knows
    cdef Places* refused                # per node, with the round in place of the scheduler

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, long long least_probes, **_):
        self.least_probes = least_probes
        self.version, self.bits = np.full(nodes, -1, np.int64), [np.zeros(0, np.int64)] * nodes
        self.refused = places_make(nodes)

    def __dealloc__(self):
        places_free(self.refused, self.nodes)

    cdef int _bind(self, NodeActions core) except -1:
        Srpt._bind(self, core)
        self.long_kind, self.refusal = self._number(core, "long"), self._number(core, "refusal")
        return 0

    cdef bint _goes_first(self, double size) noexcept:
        return size > self.cutoff

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.version[node], self.bits[node] = -1, np.zeros(0, np.int64)
        places_clear(&self.refused[node])
        return Srpt._forget(self, node)

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        cdef long long* answer
        if kind == self.probe:
            if row[4] == RESERVED or not (self.booked[node] or self.longs[node]):
                return self._add(core, node, row)
            answer = put(core, self.refusal, row[1], node)
            answer[0], answer[1] = row[2], row[4]
            return self._add_bits(core, node, &answer[2])
        if kind == self.long_kind:
            self._learn(core, node, row[4], row[5])
            return self._add(core, node, row)
        if kind == self.refusal:
            self._learn(core, node, row[4], row[5])
            places_add(&self.refused[node], <int> row[2], <int> row[3])
            return timers_set(&core.turns, core.now, <int> node, 0, 0.0)
        return Srpt._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* given) except -1:
        if event == ON_ACT:
            return self._probe_again(core, node)
        return Srpt._event(self, core, event, node, given)

    cdef int _add_bits(self, NodeActions core, Py_ssize_t node, long long* fields) except -1:
        """Fill in what the node knows, and the bytes of the message."""
        bits = self.bits[node]
        fields[0], fields[1], fields[2] = self.version[node], core.payloads._store(bits), 88 + 8 * len(bits)
        return 0

    cdef int _learn(self, NodeActions core, Py_ssize_t node, long long version, long long number) except -1:
        """Remember where long tasks are, if that is newer than what is known."""
        bits = core.payloads._fetch(number)
        if version > self.version[node]:
            self.version[node], self.bits[node] = version, bits
        return 0

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef RandomStream random
        cdef long long count
        cdef long long* row
        cdef Py_ssize_t k
        if node != self.center or not self.opened:
            random = core._stream(node)
            count = max(<long long> ceil(self.probe_ratio * tasks), self.least_probes)
            for k in range(count):
                self._send_probe_of(core, node, random._below(self.workers), job, ANYWHERE)
            return 0
        self._choose(core, node, job, tasks)
        self.version[node] += 1
        self.bits[node] = np.array(self.books.bits).view(np.int64)
        for k in range(tasks):
            row = put(core, self.long_kind, self.chosen[k], node)
            row[0] = job
            (<double*> row)[1] = core.queues.task_size[job]
            self._add_bits(core, node, row + 2)
        return 0

    cdef int _send_probe_of(self, NodeActions core, Py_ssize_t node, Py_ssize_t to, long long job,
                            long long number) except -1:
        """Send a probe of a round."""
        cdef long long* row = put(core, self.probe, to, node)
        row[0], row[2] = job, number
        (<double*> row)[1] = core.queues.task_size[job]
        return 0

    cdef int _probe_again(self, NodeActions core, Py_ssize_t node) except -1:
        """Send refused probes to workers without long tasks, as far as known; in the end to reserved ones."""
        cdef const unsigned long long[::1] bits = self.bits[node].view(np.uint64)
        cdef RandomStream random = core._stream(node)
        cdef Py_ssize_t free = self.workers, k, to
        cdef const Place* probe = places_first(&self.refused[node])
        cdef int number
        if bits.shape[0] != 0 and bits.shape[0] != self.books.bits.shape[0]:
            raise ValueError("a message has the bits of other workers than there are")
        for k in range(bits.shape[0]):
            free -= ones(bits[k])
        free = max(0, free)             # an array may come from a file
        for k in range(self.refused[node].n):
            number = probe[k].scheduler
            if number == ANYWHERE and free:
                to = self._free_worker(bits, random._below(free))
            else:
                to = random._below(self.reserved or self.workers)
            number = min(number + 1, RESERVED) if free else RESERVED
            if core._held(node, probe[k].job):
                self._send_probe_of(core, node, to, probe[k].job, number)
        places_clear(&self.refused[node])
        return 0

    cdef Py_ssize_t _free_worker(self, const unsigned long long[::1] bits, Py_ssize_t number) noexcept:
        """The worker which is the `number`-th of those whose bit is not set."""
        cdef Py_ssize_t k
        cdef unsigned long long free
        for k in range(bits.shape[0]):
            free = ~bits[k]
            if number < ones(free):
                while number:
                    free &= free - 1
                    number -= 1
                return min(64 * k + lowest(free), self.workers - 1)
            number -= ones(free)
        return min(64 * bits.shape[0] + number, self.workers - 1)

    cdef dict _entries(self):
        cdef Py_ssize_t node, k
        cdef const Place* probe
        arrays, numbers, of, refused = [], {}, [], []
        for node in range(self.nodes):
            bits = self.bits[node]
            if id(bits) not in numbers:
                numbers[id(bits)] = len(arrays)
                arrays.append(bits)
            of.append(numbers[id(bits)])
            probe = places_first(&self.refused[node])
            for k in range(self.refused[node].n):
                refused.append((node, probe[k].job, probe[k].scheduler))
        return {**Srpt._entries(self), "version": np.array(self.version), "bits": one_by_one(arrays),
                "bits_of": np.array(of, np.int64), "refused": np.array(refused, np.int64).reshape(-1, 3)}

    cdef int _set(self, state) except -1:
        given = read(state, _EAGLE, nodes=self.nodes, applications=self.applications)
        arrays = list(given["bits"])
        if (given["bits_of"] >= len(arrays)).any():
            raise ValueError(f"state['bits_of'] must be in 0..{len(arrays) - 1}")
        Srpt._set(self, state)
        self.version, self.bits = given["version"], [arrays[k] for k in given["bits_of"]]
        for node in range(self.nodes):
            places_clear(&self.refused[node])
        for node, job, number in given["refused"].tolist():
            places_add(&self.refused[node], job, number)
        return 0


@cython.final
cdef class Dlwl(Srpt):
    """DLWL in compiled form; see `gridsim.schedulers.probes.eagle.DlwlNode`.

    Parameters
    ----------
    heartbeat, spread
        See `gridsim.Dlwl`.

    Attributes
    ----------
    others
        See `Srpt`.
    """

    cdef double heartbeat
    cdef long long spread
    cdef long long[::1] added           # scratch

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double heartbeat, long long spread, **_):
        self.heartbeat, self.spread = heartbeat, spread
        self.added = np.empty(self.workers, np.int64)

    def _new_books(self, kept) -> Any:
        return Stale(self.workers, (0, self.reserved), self.fetch_time, kept)

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.probe:
            return self._add(core, node, row)
        return Srpt._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* given) except -1:
        if event == ON_TIMER and given[0] == HEARTBEAT:
            (<StaleTimes> self.books)._refresh()
            return core._set_timer(node, HEARTBEAT, self.heartbeat, 0.0)
        return Srpt._event(self, core, event, node, given)

    cdef int _open(self, NodeActions core) except -1:
        core._set_timer(self.center, HEARTBEAT, self.heartbeat, 0.0)
        return Srpt._open(self, core)

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        return self._pass_on(core, node, job, tasks)

    cdef int _place(self, NodeActions core, long long job, long long tasks) except -1:
        cdef RandomStream random = core._stream(self.center)
        cdef Py_ssize_t k
        for k in range(self.workers):
            self.added[k] = random._below(self.spread + 1)
        return (<StaleTimes> self.books)._place(self._is_long(core, job), tasks, core.queues.task_size[job],
                                                core.now / 1e9, &self.added[0], &self.chosen[0])

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef RandomStream random
        cdef Py_ssize_t k
        if node != self.center or not self.opened:
            random = core._stream(node)
            for k in range(<Py_ssize_t> ceil(self.probe_ratio * tasks)):
                self._send_probe(core, node, random._below(self.workers), job)
            return 0
        self._choose(core, node, job, tasks)
        for k in range(tasks):
            self._send_probe(core, node, self.chosen[k], job)
        return 0
