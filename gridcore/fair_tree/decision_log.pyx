"""The optional log of decisions of `gridcore.fair_tree.protocol`: what nodes decided, and on what grounds.

A row has what the node saw, since when that was so, and the true value at that moment, which no node knows: how
many tasks the leaves below a node could take, or the smallest stretch at which they could take all of a request.
The log changes nothing: it reads queues as they will be at an instant and does not let them work up to it.
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

__all__ = ["ACTIONS", "NOTE"]


#: The actions that are logged, by their numbers in the log.
ACTIONS = ("passed-on", "passed-on-idle", "passed-on-full", "accepted", "accepted-at-root", "accepted-full", "gave",
           "queued")
cdef enum:
    PASSED_ON, PASSED_ON_IDLE, PASSED_ON_FULL, ACCEPTED, ACCEPTED_AT_ROOT, ACCEPTED_FULL, GAVE, QUEUED

#: A row of the log, as `gridsim.results.decisions.Decisions` keeps it, but for the `action`, an index of `ACTIONS`.
NOTE = np.dtype([("time", "i8"), ("application", "i8"), ("task", "i8"), ("action", "i2"), ("decider", "i8"),
                 ("level", "i2"), ("machine", "i8"), ("tasks", "i8"), ("among", "i8"), ("saw", "f8"), ("limit", "f8"),
                 ("true", "f8"), ("age", "f8")])

# The smallest stretch is found up to this fraction of it.
cdef double _TOLERANCE = 1e-9


cdef inline double whole(double room) noexcept nogil:
    """Return how many whole tasks fit."""
    return <double> <long long> room if room < 2.0**63 else 2.0**63


@cython.auto_pickle(False)
cdef class _DecisionLog:
    """A log of decisions about the bags of `tree`, whose leaves have the `queues`.

    Parameters
    ----------
    links
        Has the machine on which each node is.
    up
        bool[machines], whether each is up; shared with the caller.
    speed_below
        A function from a node to the total speed (Mflop/s) of the leaves below it that are up.
    """

    def __cinit__(self, SummaryTree tree, TaskQueues queues, Links links, up, speed_below):
        cdef Py_ssize_t k
        up = plain(up)
        if not (isinstance(up, np.ndarray) and up.dtype == np.bool_ and up.shape == (tree.leaves,)):
            raise ValueError(f"up must be bool[{tree.leaves}]")
        if not callable(speed_below):
            raise TypeError(f"speed_below must be a function, got {type(speed_below).__name__}")
        self.tree, self.queues, self.links, self.up = tree, queues, links, up.view(np.uint8)
        self.speed_below = speed_below
        self.leaf = <Leaf*> reallocate(NULL, tree.leaves * sizeof(Leaf))
        self.open = <Open*> reallocate(NULL, tree.leaves * sizeof(Open))
        for k in range(tree.leaves):
            self.leaf[k].until = self.leaf[k].row = -1

    def __dealloc__(self):
        free(self.row)
        free(self.sampled)
        free(self.leaf)
        free(self.open)
        if self.scratch_room:
            scratch_free(&self.scratch)

    # -- rows ---------------------------------------------------------------------------------------------

    cdef object _taken(self, Py_ssize_t most):
        result = np.empty(self.n, NOTE)
        cdef unsigned char[::1] out
        if self.n:
            out = result.view(np.uint8)
            memcpy(&out[0], self.row, self.n * sizeof(Note))
        left_out = self.left_out
        self.most = max(0, most - self.n)
        self.n = self.left_out = 0
        return result, left_out

    cdef Note* _add(self, int action, long long now, Py_ssize_t node, long long application) except? NULL:
        cdef Note* row
        cdef Py_ssize_t level = 0, k = node + 1
        if self.n >= self.most:
            self.left_out += 1
            return NULL
        if self.n == self.room:
            self.row = <Note*> reallocate(self.row, (2 * self.room + 256) * sizeof(Note))
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
        """Return the age of what was sampled at `since` ns, in s, correctly rounded; nan for `NEVER`."""
        if since == NEVER:
            return NAN
        if now - since <= 2**53:
            return (now - since) / 1e9
        return int(now - since) / 1_000_000_000

    cdef int _sent(self, Py_ssize_t node, long long handle, long long now) except -1:
        cdef Py_ssize_t more
        if handle >= self.handles:
            more = handle + handle // 2 + 512
            self.sampled = <long long*> reallocate(self.sampled, more * sizeof(long long))
            memset(self.sampled + self.handles, 0, (more - self.handles) * sizeof(long long))
            self.handles = more
        if node < self.tree.first_leaf:
            now = min(self._since(2 * node + 1), self._since(2 * node + 2))
        self.sampled[handle] = now
        return 0

    cdef long long _since(self, Py_ssize_t child) noexcept nogil:
        """Return when the oldest sample that the parent of `child` holds of it was taken, ns; `NEVER` for none."""
        cdef int held = self.tree.node[child].held
        return self.sampled[held] if 0 <= held < self.handles else NEVER

    cdef int _routed(self, const Request* row, bint made, const Decision* decision, const Request* out, Py_ssize_t n,
                     double limit, long long now) except -1:
        cdef Py_ssize_t k, which, last = self.tree.g.n_stretch - 1, sample
        cdef Note* note
        if row.sequence < 0:
            self._climbed(row, made, out, limit, now)
        if not made:
            return 0
        # at the last sample each child gets what it guarantees, and a part of what no sample has room for
        sample = decision.sample if decision.sample >= 0 else last
        self._make_room()
        for k in range(n):
            note = self._add(GAVE, now, row.node, row.application)
            if note == NULL:
                continue
            which = out[k].node - 2 * row.node - 1
            note.machine, note.tasks = self.links.machine_of[out[k].node], out[k].tasks
            note.saw = self.tree.rooms[which * self.tree.g.n_stretch + sample]
            note.age = self._age(self._since(out[k].node), now)
            note.true_value = self._room_below(out[k].node, self.tree.gs[sample], row.application, now)
        return 0

    cdef int _climbed(self, const Request* row, bint made, const Request* out, double limit,
                      long long now) except -1:
        """Log that a router accepted a climbing request, or passed it on."""
        cdef Py_ssize_t k
        cdef double saw = INFINITY
        cdef bint known = not isnan(limit)
        cdef int action
        cdef Note* note
        for k in range(self.tree.g.n_stretch):
            if self.tree.rooms[k] + self.tree.rooms[self.tree.g.n_stretch + k] >= row.tasks:
                saw = self.tree.gs[k]
                break
        if made:
            action = ACCEPTED_FULL if saw == INFINITY else ACCEPTED if row.node > 0 else ACCEPTED_AT_ROOT
        else:
            action = PASSED_ON_FULL if saw == INFINITY else PASSED_ON if known else PASSED_ON_IDLE
        note = self._add(action, now, row.node, row.application)
        if note == NULL:
            return 0
        note.tasks, note.among, note.saw = row.tasks, self._leaves_below(row.node), saw
        if not made:
            note.machine = self.links.machine_of[out.node]
        if row.node > 0 and known:
            note.limit = limit
        note.age = self._age(min(self._since(2 * row.node + 1), self._since(2 * row.node + 2)), now)
        note.true_value = INFINITY
        if note.among > 0:
            self._make_room()
            note.true_value = self._smallest(self.speed_below(row.node), saw, row.application, row.tasks, now)
        return 0

    cdef int _queued(self, const Request* row, long long now) except -1:
        cdef Note* note = self._add(QUEUED, now, row.node, row.application)
        if note != NULL:
            note.tasks = row.tasks
            self.leaf[row.node - self.tree.first_leaf].row = <int> (self.n - 1)
        return 0

    cdef int _settle(self, Py_ssize_t u, double least, long long now) except -1:
        cdef Leaf* leaf = &self.leaf[u]
        cdef Note* note
        cdef Queue q
        leaf.until = -1
        if leaf.row < 0:
            return 0
        if isnan(least):
            self._make_room()
            self.queues._gather(u, now, False, &q, &self.scratch)
            least = self.queues._minimum(&q, &self.scratch)
        note = &self.row[leaf.row]
        note.saw = note.true_value = least
        leaf.row = -1
        return 0

    # -- true values --------------------------------------------------------------------------------------

    cdef int _make_room(self) except -1:
        """Make scratch for the longest possible queue."""
        if self.scratch_room >= self.queues.capacity:
            return 0
        if self.scratch_room:
            scratch_free(&self.scratch)
            self.scratch_room = 0
        if not scratch_make(&self.scratch, self.queues.capacity):
            raise MemoryError
        self.scratch_room = self.queues.capacity
        return 0

    cdef double _ask(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil:
        """Return how many tasks of a bag machine `u` could take at `now` ns at a stretch, and a part of one more."""
        cdef Queue q
        self.queues._gather(u, now, False, &q, &self.scratch)
        return queue_gap(&q, self.scratch.order, stretch, self.tree.release[application], self.tree.size[application],
                         self.scratch.room) / self.tree.task_size[application]

    cdef double _room_of(self, Py_ssize_t u, double stretch, Py_ssize_t application, long long now) noexcept nogil:
        """Return the same as `_ask`, but 0 if the machine is down; a result is kept for further requests of the bag.

        Only the end of its running task, shares that come, and a failure change what a busy machine can take.
        """
        cdef Leaf* leaf = &self.leaf[u]
        cdef bint busy = self.queues.running[u] >= 0 and self.queues.free_at[u] > now
        if not self.up[u]:
            return 0.0
        if not (busy and leaf.until == self.queues.free_at[u] and leaf.application == application
                and leaf.stretch == stretch):
            leaf.room = self._ask(u, stretch, application, now)
            leaf.until = self.queues.free_at[u] if busy else -1
            leaf.application, leaf.stretch = <int> application, stretch
        return leaf.room

    cdef double _room_below(self, Py_ssize_t node, double stretch, Py_ssize_t application,
                            long long now) noexcept nogil:
        """Return how many tasks of a bag the leaves below `node` could take at `now` ns at a stretch."""
        cdef Py_ssize_t first = node, last = node, m
        cdef double total = 0.0
        while first < self.tree.nodes:
            for m in range(max(first, self.tree.first_leaf), min(last + 1, self.tree.nodes)):
                total += whole(self._room_of(m - self.tree.first_leaf, stretch, application, now))
            first, last = 2 * first + 1, 2 * last + 2
        return total

    cdef Py_ssize_t _leaves_below(self, Py_ssize_t node) noexcept nogil:
        """Collect the leaves below `node` that are up in `open`, and return their number."""
        cdef Py_ssize_t first = node, last = node, m
        self.n_open = 0
        while first < self.tree.nodes:
            for m in range(max(first, self.tree.first_leaf), min(last + 1, self.tree.nodes)):
                if self.up[m - self.tree.first_leaf]:
                    self.open[self.n_open].leaf = <int> (m - self.tree.first_leaf)
                    self.n_open += 1
            first, last = 2 * first + 1, 2 * last + 2
        return self.n_open

    cdef double _smallest(self, double speed, double guess, Py_ssize_t application, long long tasks,
                          long long now) noexcept nogil:
        """Return the smallest stretch at which the leaves in `open` have room for so many tasks of a bag.

        It is the end of a bisection that begins at the stretch of idle leaves, whose total speed is given.  The steps
        of the bisection are fixed, but most of them are known without a look at the leaves: trials near `guess`, and
        where the rooms seem to reach `tasks`, narrow the interval in which the stretch must be.
        """
        cdef Py_ssize_t k, trial
        cdef double low = 0.0, high, middle, slope, at
        self.low, self.high, self.fixed = 0.0, INFINITY, 0.0
        for k in range(self.n_open):
            self.open[k].low, self.open[k].high = 0.0, INFINITY
        high = tasks * self.tree.task_size[application] / self.tree.size[application] / speed
        if guess < INFINITY:
            # the rooms grow by about the speed of the leaves
            slope = speed * self.tree.size[application] / self.tree.task_size[application]
            at = guess
            for trial in range(2):
                if self._enough(at, application, tasks, now, trial == 0):
                    at = self.high - (self._rooms(1.0) - tasks) / slope
                else:
                    at = self.low + (tasks - self._rooms(0.0)) / slope
        while not self._enough(high, application, tasks, now, False):
            low, high = high, 2.0 * high
        for trial in range(6):
            at = self._crossing(tasks)
            if (self._enough(at * (1.0 + 0.2 * _TOLERANCE), application, tasks, now, False)
                    and not self._enough(at * (1.0 - 0.2 * _TOLERANCE), application, tasks, now, False)):
                break
        while high - low > _TOLERANCE * high:
            middle = low + (high - low) / 2.0
            if self._enough(middle, application, tasks, now, False):
                high = middle
            else:
                low = middle
        return high

    cdef double _rooms(self, double part) noexcept nogil:
        """Return the room at this part of the interval of the bisection, if rooms grow evenly between its ends."""
        cdef Py_ssize_t k
        cdef double total = self.fixed
        for k in range(self.n_open):
            total += whole(self.open[k].low + part * (self.open[k].high - self.open[k].low) if 0.0 < part < 1.0
                           else self.open[k].high if part > 0.0 else self.open[k].low)
        return total

    cdef double _crossing(self, long long tasks) noexcept nogil:
        """Return where the rooms reach `tasks`, if they grow evenly between the ends of the interval."""
        cdef double low = 0.0, high = 1.0, middle
        while high - low > 1e-10:
            middle = low + (high - low) / 2.0
            if self._rooms(middle) >= tasks:
                high = middle
            else:
                low = middle
        return self.low + high * (self.high - self.low)

    cdef bint _enough(self, double stretch, Py_ssize_t application, long long tasks, long long now,
                      bint keep) noexcept nogil:
        """Return whether the leaves have room for so many tasks at a stretch, and narrow the interval.

        A leaf has the more room the larger the stretch.  So one that has equal room at both ends of the interval is
        not asked again.

        Parameters
        ----------
        keep
            Whether rooms are kept as by `_room_of`.
        """
        cdef Py_ssize_t k, left = 0
        cdef double total = self.fixed
        cdef bint enough
        cdef Open* o
        if stretch <= self.low:
            return False
        if stretch >= self.high:
            return True
        for k in range(self.n_open):
            o = &self.open[k]
            o.middle = (self._room_of(o.leaf, stretch, application, now) if keep
                        else self._ask(o.leaf, stretch, application, now))
            total += whole(o.middle)
        enough = total >= tasks
        if enough:
            self.high = stretch
        else:
            self.low = stretch
        for k in range(self.n_open):
            o = &self.open[k]
            if enough:
                o.high = o.middle
            else:
                o.low = o.middle
            if whole(o.low) == whole(o.high):
                self.fixed += whole(o.low)
            else:
                self.open[left] = o[0]
                left += 1
        self.n_open = left
        return enough

    # -- checkpoints --------------------------------------------------------------------------------------

    cdef object _read_sampled(self):
        result = np.empty(self.handles, np.int64)
        cdef long long[::1] out = result
        if self.handles:
            memcpy(&out[0], self.sampled, self.handles * sizeof(long long))
        return result

    cdef int _write_sampled(self, const long long[::1] sampled) except -1:
        if sampled.shape[0] > self.handles:
            self.sampled = <long long*> reallocate(self.sampled, sampled.shape[0] * sizeof(long long))
            self.handles = sampled.shape[0]
        memset(self.sampled, 0, self.handles * sizeof(long long))
        if sampled.shape[0]:
            memcpy(self.sampled, &sampled[0], sampled.shape[0] * sizeof(long long))
        return 0
