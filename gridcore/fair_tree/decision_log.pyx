"""The optional log of decisions of `gridcore.fair_tree.protocol`, with the knowledge behind each of them.

A row has the value that the node saw, its age, and the true value at that moment, which no node knows: the number of
tasks that the leaves below a node could take, or the smallest stretch at which they could take all of a request.
The log does not affect a run: it projects queues to an instant without advancing them.
"""

cimport cython

from libc.math cimport INFINITY, NAN, isfinite, isnan
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from gridcore.common.arguments cimport plain
from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport reallocate
from gridcore.fair_tree.summary_tree cimport Decision, Request, SummaryTree
from gridcore.network.links cimport Links
from gridcore.queues.availability cimport queue_gap
from gridcore.queues.edf cimport Queue
from gridcore.queues.task_queues cimport TaskQueues, scratch_free, scratch_make

import numpy as np

__all__ = ["ACTIONS", "LOG_ROW"]


#: The logged actions, in the order of their numbers in the log.
ACTIONS = ("passed-on", "passed-on-idle", "passed-on-full", "accepted", "accepted-at-root", "accepted-full", "gave",
           "queued")
cdef enum:
    PASSED_ON, PASSED_ON_IDLE, PASSED_ON_FULL, ACCEPTED, ACCEPTED_AT_ROOT, ACCEPTED_FULL, GAVE, QUEUED

#: A row of the log, as in `gridsim.results.decisions.Decisions`, except that `action` is an index into `ACTIONS`.
LOG_ROW = np.dtype([("time", "i8"), ("application", "i8"), ("task", "i8"), ("action", "i2"), ("decider", "i8"),
                 ("level", "i2"), ("machine", "i8"), ("tasks", "i8"), ("among", "i8"), ("saw", "f8"), ("limit", "f8"),
                 ("true", "f8"), ("age", "f8")])

# Relative tolerance of the smallest stretch.
cdef double _TOLERANCE = 1e-9


cdef inline double whole_tasks(double room) noexcept nogil:
    """Return `room` (tasks) rounded down, at most 2**63."""
    return <double> <long long> room if room < 2.0**63 else 2.0**63


@cython.auto_pickle(False)
cdef class _DecisionLog:
    """A log of the decisions about the bags of `tree`, whose leaves have the task queues `queues`.

    Parameters
    ----------
    links
        The network, which knows the machine of each node.
    up
        bool[machines], whether each machine is up; shared with the caller.
    speed_below
        A function from a node to the total speed (Mflop/s) of the leaves below it that are up.
    """

    def __cinit__(self, SummaryTree tree, TaskQueues queues, Links links, up, speed_below):
        cdef Py_ssize_t k
        up = plain(up)
        if not (isinstance(up, np.ndarray) and up.dtype == np.bool_ and up.shape == (tree.leaves,)):
            got = f"{up.dtype}{list(up.shape)}" if isinstance(up, np.ndarray) else type(up).__name__
            raise ValueError(f"up must be bool[{tree.leaves}], got {got}")
        if not callable(speed_below):
            raise TypeError(f"speed_below must be a function, got {type(speed_below).__name__}")
        self.tree, self.queues, self.links, self.up = tree, queues, links, up.view(np.uint8)
        self.speed_below = speed_below
        self.leaf = <Leaf*> reallocate(NULL, tree.leaves * sizeof(Leaf))
        self.open_leaves = <OpenLeaf*> reallocate(NULL, tree.leaves * sizeof(OpenLeaf))
        for k in range(tree.leaves):
            self.leaf[k].until = self.leaf[k].row = -1

    def __dealloc__(self):
        free(self.row)
        free(self.sample_times)
        free(self.leaf)
        free(self.open_leaves)
        if self.scratch_room:
            scratch_free(&self.scratch)

    # -- rows ---------------------------------------------------------------------------------------------

    cdef object _take(self, Py_ssize_t max_rows):
        result = np.empty(self.n, LOG_ROW)
        cdef unsigned char[::1] out
        if self.n:
            out = result.view(np.uint8)
            memcpy(&out[0], self.row, self.n * sizeof(LogRow))
        n_unlogged = self.n_unlogged
        self.max_rows = max(0, max_rows - self.n)
        self.n = self.n_unlogged = 0
        return result, n_unlogged

    cdef LogRow* _add(self, int action, long long now, Py_ssize_t node, long long application) except? NULL:
        cdef LogRow* row
        cdef Py_ssize_t level = 0, k = node + 1
        if self.n >= self.max_rows:
            self.n_unlogged += 1
            return NULL
        if self.n == self.room:
            self.row = <LogRow*> reallocate(self.row, (2 * self.room + 256) * sizeof(LogRow))
            self.room = 2 * self.room + 256
        while k > 1:
            k >>= 1
            level += 1
        row = &self.row[self.n]
        self.n += 1
        row.time, row.application, row.task = now, self.queues.owner[application], -1
        row.action = <short> action
        row.decider, row.level, row.machine = self.links.machine_of[node], <short> level, -1
        row.among, row.limit, row.age = -1, NAN, 0.0
        return row

    cdef double _age(self, long long since, long long now) except? -1.0:
        """Return the age (s) of a sample taken at `since` ns, correctly rounded; nan for `NEVER`."""
        if since == NEVER:
            return NAN
        if now - since <= 2**53:
            return (now - since) / 1e9
        return int(now - since) / 1_000_000_000

    cdef int _record_samples(self, Py_ssize_t node, long long handle, long long now) except -1:
        cdef Py_ssize_t more
        if handle >= self.handles:
            more = handle + handle // 2 + 512
            self.sample_times = <long long*> reallocate(self.sample_times, more * sizeof(long long))
            memset(self.sample_times + self.handles, 0, (more - self.handles) * sizeof(long long))
            self.handles = more
        if node < self.tree.first_leaf:
            now = min(self._sampled_at(2 * node + 1), self._sampled_at(2 * node + 2))
        self.sample_times[handle] = now
        return 0

    cdef long long _sampled_at(self, Py_ssize_t child) noexcept nogil:
        """Return when the oldest sample in the summary of `child` at its parent was taken, ns; `NEVER` for none."""
        cdef int handle = self.tree.node[child].summary
        return self.sample_times[handle] if 0 <= handle < self.handles else NEVER

    cdef int _log_route(self, const Request* row, bint is_accepted, const Decision* decision, const Request* out,
                        Py_ssize_t n, double limit, long long now) except -1:
        cdef Py_ssize_t k, side, last = self.tree.g.n_stretch - 1, sample
        cdef LogRow* log_row
        if row.sequence < 0:
            self._log_climb(row, is_accepted, out, limit, now)
        if not is_accepted:
            return 0
        # if no sample hosts the request, the last sample gives the guarantees
        sample = decision.sample if decision.sample >= 0 else last
        self._make_room()
        for k in range(n):
            log_row = self._add(GAVE, now, row.node, row.application)
            if log_row == NULL:
                continue
            side = out[k].node - 2 * row.node - 1
            log_row.machine, log_row.tasks = self.links.machine_of[out[k].node], out[k].tasks
            log_row.saw = self.tree.rooms[side * self.tree.g.n_stretch + sample]
            log_row.age = self._age(self._sampled_at(out[k].node), now)
            log_row.true_value = self._room_below(out[k].node, self.tree.gs[sample], row.application, now)
        return 0

    cdef int _log_climb(self, const Request* row, bint is_accepted, const Request* out, double limit,
                      long long now) except -1:
        """Log that a router accepted a climbing request or passed it on."""
        cdef Py_ssize_t k
        cdef double saw = INFINITY
        cdef bint has_limit = not isnan(limit)
        cdef int action
        cdef LogRow* log_row
        for k in range(self.tree.g.n_stretch):
            if self.tree.rooms[k] + self.tree.rooms[self.tree.g.n_stretch + k] >= row.tasks:
                saw = self.tree.gs[k]
                break
        if is_accepted:
            action = ACCEPTED_FULL if saw == INFINITY else ACCEPTED if row.node > 0 else ACCEPTED_AT_ROOT
        else:
            action = PASSED_ON_FULL if saw == INFINITY else PASSED_ON if has_limit else PASSED_ON_IDLE
        log_row = self._add(action, now, row.node, row.application)
        if log_row == NULL:
            return 0
        log_row.tasks, log_row.among, log_row.saw = row.tasks, self._leaves_below(row.node), saw
        if not is_accepted:
            log_row.machine = self.links.machine_of[out.node]
        if row.node > 0 and has_limit:
            log_row.limit = limit
        log_row.age = self._age(min(self._sampled_at(2 * row.node + 1), self._sampled_at(2 * row.node + 2)), now)
        log_row.true_value = INFINITY
        if log_row.among > 0:
            self._make_room()
            log_row.true_value = self._smallest(self.speed_below(row.node), saw, row.application, row.tasks, now)
        return 0

    cdef int _log_queued(self, const Request* row, long long now) except -1:
        cdef LogRow* log_row = self._add(QUEUED, now, row.node, row.application)
        if log_row != NULL:
            log_row.tasks = row.tasks
            self.leaf[row.node - self.tree.first_leaf].row = <int> (self.n - 1)
        return 0

    cdef int _complete_row(self, Py_ssize_t u, double least, long long now) except -1:
        cdef Leaf* leaf = &self.leaf[u]
        cdef LogRow* log_row
        cdef Queue q
        leaf.until = -1
        if leaf.row < 0:
            return 0
        if isnan(least):
            self._make_room()
            self.queues._gather(u, now, False, &q, &self.scratch)
            least = self.queues._minimum(&q, &self.scratch)
        log_row = &self.row[leaf.row]
        log_row.saw = log_row.true_value = least
        leaf.row = -1
        return 0

    # -- true values --------------------------------------------------------------------------------------

    cdef int _make_room(self) except -1:
        """Allocate scratch memory for the longest possible queue."""
        if self.scratch_room >= self.queues.capacity:
            return 0
        if self.scratch_room:
            scratch_free(&self.scratch)
            self.scratch_room = 0
        if not scratch_make(&self.scratch, self.queues.capacity):
            raise MemoryError
        self.scratch_room = self.queues.capacity
        return 0

    cdef double _compute_room(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil:
        """Return the (fractional) number of tasks of a bag that machine `u` could take at `now` ns at `stretch`."""
        cdef Queue q
        self.queues._gather(u, now, False, &q, &self.scratch)
        return queue_gap(&q, self.scratch.order, stretch, self.tree.release[application], self.tree.size[application],
                         self.scratch.room) / self.tree.task_size[application]

    cdef double _room_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil:
        """Return the result of `_compute_room`, or 0 if the machine is down; cache it for further requests of the bag.

        The room of a busy machine changes only if its running task ends, it gets new shares, or it fails.
        """
        cdef Leaf* leaf = &self.leaf[u]
        cdef bint busy = self.queues.running[u] >= 0 and self.queues.free_at[u] > now
        if not self.up[u]:
            return 0.0
        if not (busy and leaf.until == self.queues.free_at[u] and leaf.application == application
                and leaf.stretch == stretch):
            leaf.room = self._compute_room(u, stretch, application, now)
            leaf.until = self.queues.free_at[u] if busy else -1
            leaf.application, leaf.stretch = <int> application, stretch
        return leaf.room

    cdef double _room_below(self, Py_ssize_t node, double stretch, Py_ssize_t application,
                            long long now) noexcept nogil:
        """Return the number of tasks of a bag that the leaves below `node` could take at `now` ns at `stretch`."""
        cdef Py_ssize_t first = node, last = node, m
        cdef double total = 0.0
        while first < self.tree.nodes:
            for m in range(max(first, self.tree.first_leaf), min(last + 1, self.tree.nodes)):
                total += whole_tasks(self._room_of(m - self.tree.first_leaf, stretch, application, now))
            first, last = 2 * first + 1, 2 * last + 2
        return total

    cdef Py_ssize_t _leaves_below(self, Py_ssize_t node) noexcept nogil:
        """Collect the leaves below `node` that are up in `open_leaves`, and return their number."""
        cdef Py_ssize_t first = node, last = node, m
        self.n_open = 0
        while first < self.tree.nodes:
            for m in range(max(first, self.tree.first_leaf), min(last + 1, self.tree.nodes)):
                if self.up[m - self.tree.first_leaf]:
                    self.open_leaves[self.n_open].leaf = <int> (m - self.tree.first_leaf)
                    self.n_open += 1
            first, last = 2 * first + 1, 2 * last + 2
        return self.n_open

    cdef double _smallest(self, double speed, double guess, Py_ssize_t application, long long tasks,
                          long long now) noexcept nogil:
        """Return the smallest stretch at which the leaves in `open_leaves` have room for `tasks` tasks of a bag.

        It is found by a bisection with fixed steps, which begins at the stretch of idle leaves of total `speed`.
        Before, trials near `guess` and near an interpolated solution narrow the interval, so that few steps have to
        evaluate the leaves.
        """
        cdef Py_ssize_t k, trial
        cdef double low = 0.0, high, middle, slope, at
        self.low, self.high, self.fixed = 0.0, INFINITY, 0.0
        for k in range(self.n_open):
            self.open_leaves[k].low, self.open_leaves[k].high = 0.0, INFINITY
        high = tasks * self.tree.task_size[application] / self.tree.size[application] / speed
        if guess < INFINITY:
            # per unit of stretch the leaves can do about speed * size Mflop more
            slope = speed * self.tree.size[application] / self.tree.task_size[application]
            at = guess
            for trial in range(2):
                if self._has_room(at, application, tasks, now, trial == 0):
                    at = self.high - (self._rooms(1.0) - tasks) / slope
                else:
                    at = self.low + (tasks - self._rooms(0.0)) / slope
        while not self._has_room(high, application, tasks, now, False):
            low, high = high, 2.0 * high
        for trial in range(6):
            at = self._crossing(tasks)
            if (self._has_room(at * (1.0 + 0.2 * _TOLERANCE), application, tasks, now, False)
                    and not self._has_room(at * (1.0 - 0.2 * _TOLERANCE), application, tasks, now, False)):
                break
        while high - low > _TOLERANCE * high:
            middle = low + (high - low) / 2.0
            if self._has_room(middle, application, tasks, now, False):
                high = middle
            else:
                low = middle
        return high

    cdef double _rooms(self, double fraction) noexcept nogil:
        """Return the total room (tasks) at a fraction of the interval, by linear interpolation between its ends."""
        cdef Py_ssize_t k
        cdef const OpenLeaf* o
        cdef double total = self.fixed
        for k in range(self.n_open):
            o = &self.open_leaves[k]
            total += whole_tasks(o.low + fraction * (o.high - o.low) if 0.0 < fraction < 1.0
                                 else o.high if fraction > 0.0 else o.low)
        return total

    cdef double _crossing(self, long long tasks) noexcept nogil:
        """Return the stretch at which `_rooms` reaches `tasks`."""
        cdef double low = 0.0, high = 1.0, middle
        while high - low > 1e-10:
            middle = low + (high - low) / 2.0
            if self._rooms(middle) >= tasks:
                high = middle
            else:
                low = middle
        return self.low + high * (self.high - self.low)

    cdef bint _has_room(self, double stretch, Py_ssize_t application, long long tasks, long long now,
                      bint store) noexcept nogil:
        """Return whether the leaves have room for `tasks` tasks at `stretch`, and narrow the interval.

        The room of a leaf never decreases with the stretch, so it is fixed if it is equal at both ends of the interval.

        Parameters
        ----------
        store
            Whether to cache rooms as `_room_of` does.
        """
        cdef Py_ssize_t k, left = 0
        cdef double total = self.fixed
        cdef bint fits
        cdef OpenLeaf* o
        if stretch <= self.low:
            return False
        if stretch >= self.high:
            return True
        for k in range(self.n_open):
            o = &self.open_leaves[k]
            o.middle = (self._room_of(o.leaf, stretch, application, now) if store
                        else self._compute_room(o.leaf, stretch, application, now))
            total += whole_tasks(o.middle)
        fits = total >= tasks
        if fits:
            self.high = stretch
        else:
            self.low = stretch
        for k in range(self.n_open):
            o = &self.open_leaves[k]
            if fits:
                o.high = o.middle
            else:
                o.low = o.middle
            if whole_tasks(o.low) == whole_tasks(o.high):
                self.fixed += whole_tasks(o.low)
            else:
                self.open_leaves[left] = o[0]
                left += 1
        self.n_open = left
        return fits

    # -- checkpoints --------------------------------------------------------------------------------------

    cdef object _read_sample_times(self):
        result = np.empty(self.handles, np.int64)
        cdef long long[::1] out = result
        if self.handles:
            memcpy(&out[0], self.sample_times, self.handles * sizeof(long long))
        return result

    cdef int _write_sample_times(self, const long long[::1] sample_times) except -1:
        if sample_times.shape[0] > self.handles:
            self.sample_times = <long long*> reallocate(self.sample_times, sample_times.shape[0] * sizeof(long long))
            self.handles = sample_times.shape[0]
        memset(self.sample_times, 0, self.handles * sizeof(long long))
        if sample_times.shape[0]:
            memcpy(self.sample_times, &sample_times[0], sample_times.shape[0] * sizeof(long long))
        return 0
