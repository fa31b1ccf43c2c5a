"""Eagle and DLWL in compiled form, as `gridcore.probes.workers`; `gridsim.schedulers.probes.eagle` defines them."""

from libc.math cimport INFINITY, ceil, isfinite

cimport cython

from gridcore.nodes.handlers cimport put
from gridcore.nodes.roles cimport ON_ACT, ON_TIMER
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.nodes.timers cimport timers_set
from gridcore.probes.reservations cimport (
    Reservation, ReservationQueue, reservations_add, reservations_clear, reservations_first, reservations_free,
    reservations_make, reservations_remove,
)
from gridcore.common.bits cimport count_bits, lowest_bit
from gridcore.nodes.waiting_times cimport StaleTimes
from gridcore.probes.workers cimport RETRY, ProbeWorker

import numpy as np

from gridcore.common.state import LATEST, ArrayEntry, TableEntry, read
from gridcore.nodes.waiting_times import StaleTimes as Stale

__all__ = ["Dlwl", "Eagle", "Srpt"]

_SRPT = {
    "smallest": ArrayEntry(np.float64, ("nodes",)),
    "served": ArrayEntry(np.int32, ("nodes",), (-1, None)),
}
_EAGLE = {
    "version": ArrayEntry(np.int64, ("nodes",), (-1, LATEST)),
    "bits": ArrayEntry(np.int64),
    "words": ArrayEntry(np.int64, total="bits"),
    "bits_of": ArrayEntry(np.int64, ("nodes",), (0, "words")),
    "refused": TableEntry({"node": (0, "nodes"), "application": (0, "applications"), "round": (0, 4)}),
}

# Rounds of probes.
cdef enum:
    FIRST_ROUND = 1, RESERVED_ROUND = 3
# Numbers of timers continue those of `gridcore.probes.workers`.
cdef enum:
    HEARTBEAT = 2


cdef class Srpt(ProbeWorker):
    """Workers that serve jobs with less remaining work first; base class.

    Parameters
    ----------
    srpt_cap
        The parameter of `gridsim.Eagle`.
    **_
        The parameters of `gridcore.probes.workers.ProbeWorker`.
    """

    cdef double srpt_cap
    cdef double[::1] smallest           # per node: a lower bound of the sizes of queued tasks, Mflop
    cdef int[::1] served_place          # per node: the index of the reservation in service, -1: none
    cdef int[::1] n_long                # per node: number of reservations for long tasks

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double srpt_cap, **_):
        self.srpt_cap = srpt_cap
        self.smallest, self.served_place = np.full(nodes, np.inf), np.full(nodes, -1, np.int32)
        self.n_long = np.zeros(nodes, np.int32)

    cdef bint _goes_first(self, double size) noexcept:
        """Return whether no other task may overtake a task of this size at the head of the queue."""
        return False

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.smallest[node], self.served_place[node], self.n_long[node] = INFINITY, -1, 0
        return ProbeWorker._forget(self, node)

    # -- a scheduler ------------------------------------------------------------------------------------------

    cdef int _publish(self, NodeActions core, Py_ssize_t node, long long job) except -1:
        """Publish the work of a job that is not placed."""
        cdef long long left = core._tasks_to_place(node, job)
        return core._publish(node, job, 0, left * core.queues.task_size[job] if left else 0.0, False)

    cdef int _schedule(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        self._publish(core, node, job)
        return ProbeWorker._schedule(self, core, node, job, tasks)

    cdef int _answer_fetch(self, NodeActions core, Py_ssize_t node, Py_ssize_t worker, long long job) except -1:
        cdef bint had_tasks = core._tasks_to_place(node, job) > 0  # another node may hold lost tasks
        ProbeWorker._answer_fetch(self, core, node, worker, job)
        return self._publish(core, node, job) if had_tasks else 0

    cdef int _timer(self, NodeActions core, Py_ssize_t node, long long name, double value) except -1:
        cdef long long job = <long long> value
        if name == RETRY and core._tasks_to_place(node, job) > 0:
            self._publish(core, node, job)  # another scheduler may have published that no work is left
        return ProbeWorker._timer(self, core, node, name, value)

    cdef int _send_probe(self, NodeActions core, Py_ssize_t node, Py_ssize_t to, long long job) except -1:
        cdef long long* row = put(core, self.probe, to, node)
        row[0] = job
        (<double*> row)[1] = core.queues.task_size[job]
        return 0

    # -- the worker -------------------------------------------------------------------------------------------

    cdef int _add(self, NodeActions core, Py_ssize_t node, const long long* row) except -1:
        """Queue a reservation."""
        cdef Reservation* new = reservations_add(&self.reservations[node], self._checked_job(row[2]), <int> row[1])
        new.size = (<const double*> row)[3]
        self.smallest[node] = min(self.smallest[node], new.size)
        self.n_long[node] += new.size > self.cutoff
        return 0 if self.slot_busy[node] else self._serve(core, node)

    cdef int _serve(self, NodeActions core, Py_ssize_t node) except -1:
        cdef Reservation place
        if not self._select(core, node):
            return self._free(core, node)
        place = reservations_first(&self.reservations[node])[self.served_place[node]]
        if place.scheduler == self.center:  # reservations of the center are for one task
            self._leave_queue(node)
        return self._ask(core, node, place.job, place.scheduler)

    cdef int _select(self, NodeActions core, Py_ssize_t node) except -1:
        """Choose the next reservation to serve; return whether there is one."""
        cdef ReservationQueue* p = &self.reservations[node]
        cdef Reservation* place = reservations_first(p)
        cdef const double* left = core.board._read(0, core.now) if p.n else NULL
        cdef int visited = 0, n_alive = 0, best = 0, k
        cdef double least = INFINITY, capacity = INFINITY, smallest = INFINITY, size, work
        while visited < p.n and capacity >= self.smallest[node]:
            size, work = place[visited].size, left[place[visited].job]
            if work <= 0:
                self.n_long[node] -= size > self.cutoff
                visited += 1
                continue
            if n_alive != visited:
                place[n_alive] = place[visited]
            if work < least and size <= capacity:
                best, least = n_alive, work
            capacity = min(capacity, self.srpt_cap * size - place[n_alive].overtaken)
            smallest = min(smallest, size)
            if n_alive == 0 and self._goes_first(size):
                capacity = -INFINITY
            n_alive, visited = n_alive + 1, visited + 1
        if visited == p.n:
            self.smallest[node] = smallest
        if n_alive < visited:
            reservations_remove(p, n_alive, visited - n_alive)
        self.served_place[node] = best if n_alive else -1
        if n_alive == 0:
            return False
        place = reservations_first(p)
        for k in range(best):
            place[k].overtaken += place[best].size
        return True

    cdef int _leave_queue(self, Py_ssize_t node) except -1:
        """Remove the chosen reservation from the queue."""
        cdef int at = self.served_place[node]
        if at >= 0:
            self.n_long[node] -= reservations_first(&self.reservations[node])[at].size > self.cutoff
            reservations_remove(&self.reservations[node], at, 1)
            self.served_place[node] = -1
        return 0

    cdef int _end_fetch(self, NodeActions core, Py_ssize_t node) except -1:
        self._leave_queue(node)         # the scheduler had no task for this reservation
        return ProbeWorker._end_fetch(self, core, node)

    # -- checkpoints ------------------------------------------------------------------------------------------

    cdef dict _entries(self):
        return {**ProbeWorker._entries(self), "smallest": np.array(self.smallest),
                "served": np.array(self.served_place)}

    cdef int _set(self, state) except -1:
        cdef Py_ssize_t node, k
        entries = read(state, _SRPT, nodes=self.nodes)
        ProbeWorker._set(self, state)
        self.smallest, self.served_place = entries["smallest"], entries["served"]
        self.n_long = np.zeros(self.nodes, np.int32)
        for node in range(self.nodes):
            if self.served_place[node] >= self.reservations[node].n:
                self.served_place[node] = -1
            for k in range(self.reservations[node].n):
                self.n_long[node] += reservations_first(&self.reservations[node])[k].size > self.cutoff
        return 0


@cython.final
cdef class Eagle(Srpt):
    """Eagle in compiled form, defined by `gridsim.schedulers.probes.eagle.EagleNode`.

    Parameters
    ----------
    least_probes
        The parameter of `gridsim.Eagle`.
    **_
        The parameters of `Srpt`.
    """

    cdef long long least_probes
    cdef int long_kind, refusal         # numbers of kinds
    cdef long long[::1] version         # per node: the version of its `bits`
    cdef list bits                      # per node, int64[k]: bits of the workers that have long tasks, as far as it knows
    cdef ReservationQueue* refusals     # per node: its refused probes, with the round in place of the scheduler

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, long long least_probes, **_):
        self.least_probes = least_probes
        self.version, self.bits = np.full(nodes, -1, np.int64), [np.zeros(0, np.int64)] * nodes
        self.refusals = reservations_make(nodes)

    def __dealloc__(self):
        reservations_free(self.refusals, self.nodes)

    cdef int _bind(self, NodeActions core) except -1:
        Srpt._bind(self, core)
        self.long_kind, self.refusal = self._number(core, "long"), self._number(core, "refusal")
        return 0

    cdef bint _goes_first(self, double size) noexcept:
        return size > self.cutoff

    cdef int _forget(self, Py_ssize_t node) except -1:
        self.version[node], self.bits[node] = -1, np.zeros(0, np.int64)
        reservations_clear(&self.refusals[node])
        return Srpt._forget(self, node)

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        cdef long long* answer
        if kind == self.probe:
            if row[4] == RESERVED_ROUND or not (self.recorded_at_center[node] or self.n_long[node]):
                return self._add(core, node, row)
            answer = put(core, self.refusal, row[1], node)
            answer[0], answer[1] = row[2], row[4]
            return self._add_bits(core, node, &answer[2])
        if kind == self.long_kind:
            self._learn(core, node, row[4], row[5])
            return self._add(core, node, row)
        if kind == self.refusal:
            self._learn(core, node, row[4], row[5])
            reservations_add(&self.refusals[node], <int> row[2], <int> row[3])
            return timers_set(&core.turns, core.now, <int> node, 0, 0.0)
        return Srpt._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        if event == ON_ACT:
            return self._probe_again(core, node)
        return Srpt._event(self, core, event, node, arguments)

    cdef int _add_bits(self, NodeActions core, Py_ssize_t node, long long* fields) except -1:
        """Write the bits of long tasks that the node knows, and the size of the message, to `fields`."""
        bits = self.bits[node]
        fields[0], fields[1], fields[2] = self.version[node], core.payloads._store(bits), 88 + 8 * len(bits)
        return 0

    cdef int _learn(self, NodeActions core, Py_ssize_t node, long long version, long long number) except -1:
        """Store received bits of long tasks if they are newer than the known bits."""
        bits = core.payloads._fetch(number)
        if version > self.version[node]:
            self.version[node], self.bits[node] = version, bits
        return 0

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef RandomStream random
        cdef long long count
        cdef long long* row
        cdef Py_ssize_t k
        if node != self.center or not self.has_workers:
            random = core._stream(node)
            count = max(<long long> ceil(self.probe_ratio * tasks), self.least_probes)
            for k in range(count):
                self._send_probe_of(core, node, random._integer_below(self.workers), job, FIRST_ROUND)
            return 0
        self._choose(core, node, job, tasks)
        self.version[node] += 1
        self.bits[node] = np.array(self.records.bits).view(np.int64)
        for k in range(tasks):
            row = put(core, self.long_kind, self.targets[k], node)
            row[0] = job
            (<double*> row)[1] = core.queues.task_size[job]
            self._add_bits(core, node, row + 2)
        return 0

    cdef int _send_probe_of(self, NodeActions core, Py_ssize_t node, Py_ssize_t to, long long job,
                            long long number) except -1:
        """Send a probe of round `number`."""
        cdef long long* row = put(core, self.probe, to, node)
        row[0], row[2] = job, number
        (<double*> row)[1] = core.queues.task_size[job]
        return 0

    cdef int _probe_again(self, NodeActions core, Py_ssize_t node) except -1:
        """Send refused probes to workers without known long tasks, and in the last round to reserved workers."""
        cdef const unsigned long long[::1] bits = self.bits[node].view(np.uint64)
        cdef RandomStream random = core._stream(node)
        cdef Py_ssize_t free = self.workers, k, to
        cdef const Reservation* probe = reservations_first(&self.refusals[node])
        cdef int number
        if bits.shape[0] != 0 and bits.shape[0] != self.records.bits.shape[0]:
            raise ValueError(f"bits of a message must have {self.records.bits.shape[0]} words, got {bits.shape[0]}")
        for k in range(bits.shape[0]):
            free -= count_bits(bits[k])
        free = max(0, free)             # a state from a file may have bits set beyond the last worker
        for k in range(self.refusals[node].n):
            number = probe[k].scheduler
            if number == FIRST_ROUND and free:
                to = self._free_worker(bits, random._integer_below(free))
            else:
                to = random._integer_below(self.reserved or self.workers)
            number = min(number + 1, RESERVED_ROUND) if free else RESERVED_ROUND
            if core._tasks_to_place(node, probe[k].job):
                self._send_probe_of(core, node, to, probe[k].job, number)
        reservations_clear(&self.refusals[node])
        return 0

    cdef Py_ssize_t _free_worker(self, const unsigned long long[::1] bits, Py_ssize_t number) noexcept:
        """Return the worker at position `number` among the workers whose bit is not set."""
        cdef Py_ssize_t k
        cdef unsigned long long free
        for k in range(bits.shape[0]):
            free = ~bits[k]
            if number < count_bits(free):
                while number:
                    free &= free - 1
                    number -= 1
                return min(64 * k + lowest_bit(free), self.workers - 1)
            number -= count_bits(free)
        return min(64 * bits.shape[0] + number, self.workers - 1)

    cdef dict _entries(self):
        cdef Py_ssize_t node, k
        cdef const Reservation* probe
        arrays, numbers, array_of, refusals = [], {}, [], []
        for node in range(self.nodes):
            bits = self.bits[node]
            if id(bits) not in numbers:
                numbers[id(bits)] = len(arrays)
                arrays.append(bits)
            array_of.append(numbers[id(bits)])
            probe = reservations_first(&self.refusals[node])
            for k in range(self.refusals[node].n):
                refusals.append((node, probe[k].job, probe[k].scheduler))
        return {**Srpt._entries(self), "version": np.array(self.version),
                "bits": np.concatenate([np.zeros(0, np.int64), *arrays]),
                "words": np.array([len(bits) for bits in arrays], np.int64),
                "bits_of": np.array(array_of, np.int64), "refused": np.array(refusals, np.int64).reshape(-1, 3)}

    cdef int _set(self, state) except -1:
        entries = read(state, _EAGLE, nodes=self.nodes, applications=self.applications)
        arrays = np.split(entries["bits"], np.cumsum(entries["words"])[:-1])
        Srpt._set(self, state)
        self.version, self.bits = entries["version"], [arrays[k] for k in entries["bits_of"]]
        for node in range(self.nodes):
            reservations_clear(&self.refusals[node])
        for node, job, number in entries["refused"].tolist():
            reservations_add(&self.refusals[node], job, number)
        return 0


@cython.final
cdef class Dlwl(Srpt):
    """DLWL in compiled form, defined by `gridsim.schedulers.probes.eagle.DlwlNode`.

    Parameters
    ----------
    heartbeat, spread
        The parameters of `gridsim.Dlwl`.
    **_
        The parameters of `Srpt`.
    """

    cdef double heartbeat
    cdef long long spread
    cdef long long[::1] noise           # scratch

    def __cinit__(self, Py_ssize_t nodes, Py_ssize_t applications, *, double heartbeat, long long spread, **_):
        self.heartbeat, self.spread = heartbeat, spread
        self.noise = np.empty(self.workers, np.int64)

    def _new_records(self, state) -> Any:
        return Stale(self.fetch_time, self.workers, state)

    cdef int _message(self, NodeActions core, Py_ssize_t kind, Py_ssize_t node, const long long* row) except -1:
        if kind == self.probe:
            return self._add(core, node, row)
        return Srpt._message(self, core, kind, node, row)

    cdef int _event(self, NodeActions core, Py_ssize_t event, Py_ssize_t node, const long long* arguments) except -1:
        if event == ON_TIMER and arguments[0] == HEARTBEAT:
            (<StaleTimes> self.records)._refresh()
            return core._set_timer(node, HEARTBEAT, self.heartbeat, 0.0)
        return Srpt._event(self, core, event, node, arguments)

    cdef int _open(self, NodeActions core) except -1:
        core._set_timer(self.center, HEARTBEAT, self.heartbeat, 0.0)
        return Srpt._open(self, core)

    cdef int _release(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        return self._forward(core, node, job, tasks)

    cdef int _place(self, NodeActions core, long long job, long long tasks) except -1:
        cdef RandomStream random = core._stream(self.center)
        cdef Py_ssize_t k
        for k in range(self.workers):
            self.noise[k] = random._integer_below(self.spread + 1)
        return (<StaleTimes> self.records)._place(self.reserved if self._is_long(core, job) else 0,
                                                  core.queues.task_size[job], core.now / 1e9, &self.noise[0],
                                                  self.workers, &self.targets[0], tasks)

    cdef int _reserve(self, NodeActions core, Py_ssize_t node, long long job, long long tasks) except -1:
        cdef RandomStream random
        cdef Py_ssize_t k
        if node != self.center or not self.has_workers:
            random = core._stream(node)
            for k in range(<Py_ssize_t> ceil(self.probe_ratio * tasks)):
                self._send_probe(core, node, random._integer_below(self.workers), job)
            return 0
        self._choose(core, node, job, tasks)
        for k in range(tasks):
            self._send_probe(core, node, self.targets[k], job)
        return 0
