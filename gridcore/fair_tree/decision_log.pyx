"""The record of the decisions of a fair tree's nodes: rows of compiled nodes, and the true values of all nodes.

A true value is what no node knows: the number of tasks that the leaves below a node can take now, or the smallest
stretch at which they can take all tasks of a request.  It is used only where decisions are recorded, and changes
nothing of what nodes do.
"""

cimport cython

from libc.math cimport INFINITY, NAN, copysign
from libc.stdlib cimport free

from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport reallocate
from gridcore.queues.task_queues cimport scratch_free, scratch_make

import numpy as np

__all__ = ["TreeDecisionLog"]

# Relative tolerance of the smallest stretch.
cdef double _TOLERANCE = 1e-9
# The number of trials before the bisection.
cdef Py_ssize_t _TRIALS = 4


cdef double age_of(long long now, long long sampled) except? -1.0:
    """Return the age (s) of what was sampled at `sampled` ns, correctly rounded; nan for `NEVER`."""
    return NAN if sampled == NEVER else <object> (now - sampled) / 1_000_000_000


cdef short level_of(Py_ssize_t node) noexcept:
    """Return the level of a node in the tree, 0 for the root."""
    cdef short level = 0
    while node > 0:
        node = (node - 1) // 2
        level += 1
    return level


@cython.auto_pickle(False)
cdef class TreeDecisionLog:
    """Completes and records the decisions of the nodes of a run.

    Parameters
    ----------
    queues
        The task queues of the machines.
    up
        bool[machines], whether each machine is up; shared with the caller.
    applications
        The `gridsim.model.applications.Applications` of the run, which know which machines suit them.
    decisions
        The `gridsim.results.decisions.Decisions` of the run, to which compiled nodes add rows; None for other nodes.
    """

    def __cinit__(self, TaskQueues queues, up: Bools, applications, decisions=None):
        if queues is None:
            raise TypeError("queues must not be None")
        self.queues, self.up, self.speeds = queues, up.view(np.uint8), np.asarray(queues.speed)
        if self.up.shape[0] != queues.machines:
            raise ValueError(f"up must have {queues.machines} machines, got {self.up.shape[0]}")
        self.suitable = np.zeros((0, 0), np.uint8)
        if applications.group is not None and applications.suited is not None:
            self.suitable, self.group = np.ascontiguousarray(applications.suited).view(np.uint8), applications.group
        if decisions is not None:
            self.rows = DecisionRows(decisions)
        self.machine = np.zeros(queues.machines, np.int32)
        self.open_leaves = <OpenLeaf*> reallocate(NULL, queues.machines * sizeof(OpenLeaf))

    def __dealloc__(self):
        free(self.open_leaves)
        if self.scratch_capacity:
            scratch_free(&self.scratch)

    # -- rows -------------------------------------------------------------------------------------------------

    def complete(self, Py_ssize_t node, Py_ssize_t target, str action, Py_ssize_t application, dict columns,
                 long long now):
        """Add to the columns of a decision of `node` the level, the true value and its age, s.

        Parameters
        ----------
        target
            The node that the decision is about; -1 for none.
        columns
            ``age`` is the ns at which what the node saw was sampled, and ``limit`` of the action ``"gave"`` the stretch
            for which there is room.
        """
        cdef DecisionRow row
        cdef Py_ssize_t nodes = 2 * self.queues.machines - 1
        cdef long long sampled = NEVER if columns["age"] != columns["age"] else columns["age"]
        if not (0 <= node < nodes and -1 <= target < nodes and 0 <= application < self.queues.n_applications):
            raise ValueError(f"decisions must be about nodes below {nodes} and applications below "
                             f"{self.queues.n_applications}, got nodes {node} and {target}, application {application}")
        if not is_completed(action):
            return
        row.tasks, row.among, row.true_value = columns["tasks"], columns["among"], NAN
        row.saw, row.limit = columns["saw"], columns["limit"]
        self._complete(&row, action, node, target, application, sampled, now)
        columns.update(level=row.level, true=row.true_value, age=row.age, limit=row.limit, among=row.among)

    cdef int _record(self, NodeActions core, Py_ssize_t node, str action, Py_ssize_t application, Py_ssize_t target,
                     long long tasks, double saw=NAN, double limit=NAN, long long sampled=NEVER) except -1:
        """Record a decision of a compiled node, as a node program does by `View.decide`; see `complete`."""
        cdef DecisionRow* row = self.rows._add(action, core.now, self.queues.owner[application],
                                               core.links.machine_of[node])
        if target >= 0:
            row.machine = core.links.machine_of[target]
        row.tasks, row.saw, row.limit = tasks, saw, limit
        return self._complete(row, action, node, target, application, sampled, core.now) if is_completed(action) else 0

    cdef int _complete(self, DecisionRow* row, str action, Py_ssize_t node, Py_ssize_t target, Py_ssize_t application,
                       long long sampled, long long now) except -1:
        row.level, row.age = level_of(node), 0.0
        if action == "queued":
            row.true_value = row.saw
        elif action == "gave":
            self._find_leaves(target, application, now)
            row.true_value, row.limit = self._capacity(row.limit, application, now), NAN
            row.age = age_of(now, sampled)
        elif action != "sent-on":
            row.among = self._find_leaves(node, application, now)
            row.true_value = self._smallest(application, row.tasks, row.saw, now)
            row.age = age_of(now, sampled)
        return 0

    # -- true values ------------------------------------------------------------------------------------------

    cdef Py_ssize_t _find_leaves(self, Py_ssize_t node, Py_ssize_t application, long long now) except -1:
        """Find the leaves below `node` that suit an application and are up; return how many are up."""
        cdef Py_ssize_t first = node, last = node, first_leaf = self.queues.machines - 1, m, n_up = 0
        cdef bint all_suit = self.suitable.shape[0] == 0
        cdef Py_ssize_t group = 0 if all_suit else self.group[self.queues.owner[application]]
        if self.scratch_capacity < self.queues.capacity:
            if self.scratch_capacity:
                scratch_free(&self.scratch)
                self.scratch_capacity = 0
            if not scratch_make(&self.scratch, self.queues.capacity):
                raise MemoryError
            self.scratch_capacity = self.queues.capacity
        self.n = 0
        while 0 <= first <= 2 * first_leaf:
            for m in range(max(first, first_leaf) - first_leaf, min(last, 2 * first_leaf) + 1 - first_leaf):
                if not self.up[m]:
                    continue
                n_up += 1
                if all_suit or self.suitable[group, m]:
                    self.queues._advance(m, now)
                    self.queues._update(m)
                    self.machine[self.n] = <int> m
                    self.n += 1
            first, last = 2 * first + 1, 2 * last + 2
        return n_up

    cdef double _capacity(self, double stretch, Py_ssize_t application, long long now) noexcept nogil:
        """Return the number of tasks of an application that the given leaves can take at `stretch`."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(self.n):
            total += self.queues._capacity_of(self.machine[k], stretch, application, now, &self.scratch)
        return total

    cdef double _smallest(self, Py_ssize_t application, long long tasks, double guess, long long now) except -1.0:
        """Return the smallest stretch at which the given leaves can take `tasks` tasks of an application.

        It is found by a bisection with fixed steps, which begins at the stretch of idle leaves; inf without leaves.
        Trials from `guess` on narrow the interval before, so that few leaves are left to compute in these steps.
        """
        cdef Py_ssize_t k
        cdef double low = 0.0, high, middle, speed, slope
        if self.n == 0:
            return INFINITY
        speed = self.speeds[np.asarray(self.machine[:self.n])].sum()
        self.low, self.high, self.fixed, self.n_open = 0.0, INFINITY, 0.0, self.n
        for k in range(self.n):
            self.open_leaves[k].machine = self.machine[k]
            self.open_leaves[k].low, self.open_leaves[k].high = 0.0, INFINITY
        high = tasks * self.queues.task_size[application] / self.queues.size[application] / speed
        # growth of the room of busy leaves with the stretch
        slope = speed * self.queues.size[application] / self.queues.task_size[application]
        guess = guess if guess < INFINITY else high
        for k in range(_TRIALS):
            if not self.low < guess < self.high:
                break
            self._has_room(guess, application, tasks, now)
            # aim beyond the solution, to move the other end of the interval
            guess += (tasks - self.total + copysign(1.0 + self.n / 16.0, tasks - 0.5 - self.total)) / slope
        while not self._has_room(high, application, tasks, now):
            low, high = high, 2.0 * high
        while high - low > _TOLERANCE * high:
            middle = low + (high - low) / 2.0
            if self._has_room(middle, application, tasks, now):
                high = middle
            else:
                low = middle
        return high

    cdef bint _has_room(self, double stretch, Py_ssize_t application, long long tasks, long long now) noexcept nogil:
        """Return whether the given leaves can take `tasks` tasks at `stretch`, and narrow the interval.

        The room of a leaf never decreases with the stretch: it is fixed once it is equal at both ends.
        """
        cdef Py_ssize_t k, n_open = 0
        cdef double total = self.fixed
        cdef bint fits
        cdef OpenLeaf* leaf
        if stretch <= self.low or stretch >= self.high:
            return stretch >= self.high
        for k in range(self.n_open):
            leaf = &self.open_leaves[k]
            leaf.middle = self.queues._capacity_of(leaf.machine, stretch, application, now, &self.scratch)
            total += leaf.middle
        self.total = total
        fits = total >= tasks
        if fits:
            self.high = stretch
        else:
            self.low = stretch
        for k in range(self.n_open):
            leaf = &self.open_leaves[k]
            if fits:
                leaf.high = leaf.middle
            else:
                leaf.low = leaf.middle
            if leaf.low == leaf.high:
                self.fixed += leaf.low
            else:
                self.open_leaves[n_open] = leaf[0]
                n_open += 1
        self.n_open = n_open
        return fits


cdef bint is_completed(str action) noexcept:
    """Return whether a decision has a level and a true value: one of a submitter has none."""
    return action != "requested" and action != "requested-again"
