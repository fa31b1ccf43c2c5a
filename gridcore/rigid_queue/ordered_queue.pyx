"""A queue of waiting rigid jobs in an order: the base of `JobQueue` and `SharedQueue`.

The order is that of submissions, or of `ranks`; or it is dynamic: the jobs with the highest values of a function of
their waiting times come first, computed anew whenever the queue is examined.  Jobs of equal turn are in order of
submission, then of number.  Users and queues may have limits, and estimates may be predicted.  The prediction of a job
that is still running when it is over grows by `INCREMENTS`, one after the other, up to what the user requested.

Source: Tang et al., "Fault-aware, utility-based job scheduling on Blue Gene/P systems" (2009: WFP and UNICEF); Tsafrir
et al., "Backfilling using system-generated predictions rather than user runtime estimates" (2007).
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, exp, exp2, log2, log10
from libc.stdlib cimport free, qsort
from libc.string cimport memmove

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices
from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport reallocate
from gridcore.rigid_queue.runs cimport LAST_END, NO_MEMORY, SIGNALS, TOO_LATE, WAITING, JobRuns

import numpy as np

from gridcore.common.state import AMOUNT

__all__ = ["OrderedQueue"]

# by how much the prediction of a job that outlives it grows at each correction, s; then by the last of them
cdef enum:
    N_INCREMENTS = 11
cdef long long* INCREMENTS = [60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000]


cdef int _compare_turns(const void* one, const void* two) noexcept nogil:
    cdef const Turn* a = <const Turn*> one
    cdef const Turn* b = <const Turn*> two
    if a.key != b.key:
        return -1 if a.key > b.key else 1
    return -1 if a.place < b.place else a.place > b.place


# the dynamic orders
cdef enum:
    STATIC, SHORTEST, SMALLEST, WFP, UNICEF, WEIGHTED, LAST, F1

_ORDERS = {None: STATIC, "sjf": SHORTEST, "saf": SMALLEST, "wfp": WFP, "unicef": UNICEF, "multifactor": WEIGHTED,
           "lcfs": LAST, "f1": F1}


cdef void sort_turns(Turn* turns, Py_ssize_t n) noexcept nogil:
    """Sort turns that are mostly in order, as priorities change slowly: each is moved to its place among those before it.

    If that moves too many, as after a long time, they are sorted as a whole.
    """
    cdef Py_ssize_t k, low, high, middle
    cdef long long left = 32 * <long long> n
    cdef Turn turn
    for k in range(1, n):
        turn = turns[k]
        if _compare_turns(&turns[k - 1], &turn) < 0:
            continue
        low, high = 0, k - 1
        while low < high:
            middle = (low + high) >> 1
            if _compare_turns(&turns[middle], &turn) < 0:
                low = middle + 1
            else:
                high = middle
        memmove(&turns[low + 1], &turns[low], (k - low) * sizeof(Turn))
        turns[low] = turn
        left -= k - low
        if left < 0:
            qsort(turns, n, sizeof(Turn), _compare_turns)
            return


cdef class OrderedQueue(JobRuns):
    """Rigid jobs on machines, with a queue in an order; a base class that starts no jobs."""

    def __cinit__(self):
        if type(self) is OrderedQueue:
            raise TypeError("OrderedQueue is a base class; use JobQueue or SharedQueue")

    cdef int _set_up_order(self, ranks, order, weights, bint predicted, users, long long limit, queues,
                           queue_limits) except -1:
        """Set the order and the limits of the queue, after `_set_up` and `width`; see the subclasses."""
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {', '.join(_ORDERS)}, got {order!r}")
        if limit < 0:
            raise ValueError(f"limit must be >= 0, got {limit}")
        self.order, self.limit, self.predicted = _ORDERS[order], limit, predicted
        self.requests = np.array(self.estimate)
        self.corrections = np.zeros(self.jobs if predicted else 0, np.int8)
        ranks = np.zeros(self.jobs, np.int64) if ranks is None else indices(ranks, "ranks", 0, self.jobs)
        check_lengths(self.jobs, len(ranks), self.sizes_name, "ranks")
        self.rank = ranks.astype(np.int32)
        # the jobs of a rank have consecutive places, in order of submission: of number, unless `releases` decide
        job_at = np.argsort(ranks, kind="stable").astype(np.int32)
        place = np.empty(self.jobs, np.int32)
        place[job_at] = np.arange(self.jobs, dtype=np.int32)
        self.place, self.job_at = place, job_at
        self.next_place = np.zeros(0, np.int32)
        if self.releases is not None:
            self.next_place = self._first_places()
        needs_users = predicted or limit > 0 or order == "multifactor"
        if needs_users and users is None:
            raise ValueError("predictions, limits and shares require users, got None")
        self.user = self._groups(users, "users")
        n_users = int(np.max(self.user, initial=-1)) + 1
        self.last_jobs = np.full((n_users, 2), -1, np.int32)
        self.in_use, self.used_at = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
        self.used = np.zeros(n_users)
        self.queue_of = self._groups(queues, "queues")
        self.queue_limits = np.zeros(int(np.max(self.queue_of, initial=-1)) + 1, np.int64)
        if queue_limits is not None:
            self.queue_limits = indices(queue_limits, "queue_limits", 0, LAST_END)
            if self.queue_limits.shape[0] <= np.max(self.queue_of, initial=-1):
                raise ValueError(f"queue_limits must have an entry for each of the {np.max(self.queue_of) + 1} queues, "
                                 f"got {self.queue_limits.shape[0]}")
        self.queue_in_use = np.zeros(self.queue_limits.shape[0], np.int64)
        self.base = np.zeros(self.jobs)
        if order == "multifactor":
            weights = dict(weights or {})
            self.w_age, self.w_size = weights.get("age", 0.0), weights.get("size", 0.0)
            self.w_share = weights.get("share", 0.0)
            self.age_limit, self.half_life = weights.get("age_limit", 604800.0), weights.get("half_life", 604800.0)
            self.base = np.array(weights.get("base", np.zeros(self.jobs)), np.float64)
            check_lengths(self.jobs, self.base.shape[0], self.sizes_name, "weights.base")
        if self.order:
            self.turns = <Turn*> reallocate(NULL, (self.jobs + 1) * sizeof(Turn))
        return 0

    cdef const int[::1] _groups(self, groups, str name):
        """Return the user or the queue of each job, 0 by default."""
        if groups is None:
            return np.zeros(self.jobs, np.int32)
        groups = indices(groups, name, 0, 2**31 - 1).astype(np.int32)
        check_lengths(self.jobs, len(groups), self.sizes_name, name)
        return groups

    def __dealloc__(self):
        free(self.turns)

    def run(self, long long until) -> int:
        """Run up to and including `until` ns; return how many jobs have ended so far.

        Running to t1 and then to t2 equals running to t2.

        Raises
        ------
        OverflowError
            If a job would end after 2**62 ns; the job is then not started, and stays in the queue.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef int reason = SIGNALS
        while reason == SIGNALS:
            PyErr_CheckSignals()
            with nogil:
                reason = self._run(until)
        if reason == NO_MEMORY:
            raise MemoryError
        if reason == TOO_LATE:
            raise OverflowError("jobs must end by 2**62 ns")
        return self.ended

    # -- checkpoints ----------------------------------------------------------------------------------------

    cdef dict _columns(self):
        return {**JobRuns._columns(self), **{name: np.asarray(column) for name, column in (
            ("last_jobs", self.last_jobs), ("in_use", self.in_use), ("used_at", self.used_at), ("used", self.used),
            ("queue_in_use", self.queue_in_use), ("corrections", self.corrections))}}

    cdef dict _limits(self):
        return {**JobRuns._limits(self), "used": AMOUNT, "last_jobs": (-1, self.jobs),
                "corrections": (0, N_INCREMENTS)}

    cdef int[::1] _first_places(self):
        """Return the first place of the jobs of each rank: int32[jobs]."""
        counts = np.bincount(self.rank, minlength=self.jobs)
        return (np.cumsum(counts) - counts).astype(np.int32)

    cdef void _place_joined(self, known) except *:
        cdef int job
        self.next_place = self._first_places()
        for job in known:
            self._set_place(job)

    # -- events of the runs ---------------------------------------------------------------------------------

    cdef void _empty_queue(self) noexcept nogil:
        self.n_line = 0

    cdef void _join(self, int job, bint is_new) noexcept nogil:
        if is_new and self.releases is not None:
            self._set_place(job)
        if is_new and self.predicted:
            self._predict(job)
        self._insert(job)

    cdef void _set_place(self, int job) noexcept nogil:
        """Give a job that is submitted the next place of its rank."""
        cdef int place = self.next_place[self.rank[job]]
        self.next_place[self.rank[job]] += 1
        self.place[job], self.job_at[place] = place, job

    cdef void _insert(self, int job) noexcept nogil:
        """Insert the job into the queue at its place."""
        cdef Py_ssize_t low = 0, high = self.n_line, middle
        cdef int place = self.place[job]
        if self.order or (low < high and self.place[self.line[high - 1]] < place):
            low = high                     # a dynamic order is made when the queue is examined
        while low < high:
            middle = (low + high) >> 1
            if self.place[self.line[middle]] < place:
                low = middle + 1
            else:
                high = middle
        memmove(&self.line[low + 1], &self.line[low], (self.n_line - low) * sizeof(int))
        self.line[low] = job
        self.n_line += 1

    cdef void _predict(self, int job) noexcept nogil:
        cdef int last = self.last_jobs[self.user[job], 0], before = self.last_jobs[self.user[job], 1]
        self.estimate[job] = self.requests[job]
        if last >= 0 and before >= 0:
            self.estimate[job] = max(1, min(self.requests[job], (self.length[last] + self.length[before]) // 2))

    cdef int _next_outlived(self) noexcept nogil:
        """Return the running job whose prediction is over first, if it may still grow; -1 if there is none."""
        cdef Py_ssize_t k = self.n_running
        cdef int job
        if self.predicted:
            while k > 0:
                k -= 1
                job = self.estimated_ends[k].job
                if self.estimate[job] < self.requests[job]:
                    return job
        return -1

    cdef long long _next_correction(self) noexcept nogil:
        cdef int job = self._next_outlived()
        return NEVER if job < 0 else self.start[job] + self.estimate[job]

    cdef void _correct(self) noexcept nogil:
        cdef int job = self._next_outlived()
        cdef long long estimate
        while job >= 0 and self.start[job] + self.estimate[job] <= self.now:
            estimate = self.estimate[job] + 1000000000 * INCREMENTS[self.corrections[job]]
            self.corrections[job] = min(self.corrections[job] + 1, N_INCREMENTS - 1)
            self._before_correction(job)
            self._move_end(job, min(estimate, self.requests[job]))
            job = self._next_outlived()

    cdef void _before_correction(self, int job) noexcept nogil:
        """Handle that the estimate of a running job grows: what was planned by it is no longer valid."""

    cdef void _before_start(self, int job) noexcept nogil:
        self._decay(self.user[job])
        self.in_use[self.user[job]] += self.width[job]
        self.queue_in_use[self.queue_of[job]] += self.width[job]

    cdef void _before_leave(self, int job) noexcept nogil:
        self._decay(self.user[job])
        self.in_use[self.user[job]] -= self.width[job]
        self.queue_in_use[self.queue_of[job]] -= self.width[job]

    cdef bint _after_end(self, int job) noexcept nogil:
        cdef int user = self.user[job]
        if self._has_ended_after(job, self.last_jobs[user, 0]):
            self.last_jobs[user, 1], self.last_jobs[user, 0] = self.last_jobs[user, 0], job
        elif self._has_ended_after(job, self.last_jobs[user, 1]):
            self.last_jobs[user, 1] = job
        return True

    cdef bint _has_ended_after(self, int job, int other) noexcept nogil:
        """Return whether a job that ends now counts as ended after `other` (-1 for none).

        Jobs that end at one instant are in order of submission, then of number.
        """
        if other < 0 or self.finish[other] < self.now:
            return True
        if self.submitted[job] != self.submitted[other]:
            return self.submitted[job] > self.submitted[other]
        return job > other

    # -- the line -------------------------------------------------------------------------------------------

    cdef void _close_line(self) noexcept nogil:
        """Remove the jobs that no longer wait from the line."""
        cdef Py_ssize_t k, n = 0
        for k in range(self.n_line):
            if self.status[self.line[k]] == WAITING:
                self.line[n] = self.line[k]
                n += 1
        self.n_line = n

    cdef bint _is_limited(self, int job) noexcept nogil:
        """Return whether a job must wait for other jobs of its user or its queue."""
        cdef long long most = self.queue_limits[self.queue_of[job]]
        if most > 0 and self.queue_in_use[self.queue_of[job]] + self.width[job] > most:
            return True
        return self.limit > 0 and self.in_use[self.user[job]] + self.width[job] > self.limit

    # -- dynamic orders -------------------------------------------------------------------------------------

    cdef void _sort(self) noexcept nogil:
        """Put the line into the dynamic order."""
        cdef Py_ssize_t k
        cdef double wait, duration, total = 0.0
        cdef int job
        if self.order == WEIGHTED and self.w_share:
            for k in range(self.used.shape[0]):
                self._decay(k)
                total += self.used[k]
        for k in range(self.n_line):
            job = self.line[k]
            wait, duration = <double> (self.now - self.submitted[job]), <double> self.estimate[job]
            self.turns[k].place = self.place[job]
            if self.order == SHORTEST:
                self.turns[k].key = -duration
            elif self.order == SMALLEST:
                self.turns[k].key = -duration * self.width[job]
            elif self.order == WFP:
                self.turns[k].key = (wait / duration) ** 3 * self.width[job]
            elif self.order == UNICEF:
                self.turns[k].key = INFINITY if self.width[job] == 1 else wait / (log2(self.width[job]) * duration)
            elif self.order == LAST:
                self.turns[k].key = self.place[job]
            elif self.order == F1:
                self.turns[k].key = -(log10(duration / 1e9) * self.width[job]
                                      + 870.0 * log10(max(1.0, self.submitted[job] / 1e9)))
            else:
                self.turns[k].key = self._priority(job, wait / 1e9, total)
        sort_turns(self.turns, self.n_line)
        for k in range(self.n_line):
            self.line[k] = self.job_at[self.turns[k].place]

    cdef double _priority(self, int job, double wait, double total) noexcept nogil:
        """Return the weighted sum of age, size, share and the given value of a job."""
        cdef double share = 1.0
        if self.w_share and total > 0.0:
            # 2 ** -(use / entitlement): each user is entitled to an equal part
            share = exp2(-self.used[self.user[job]] / total * self.used.shape[0])
        return (self.w_age * min(wait / self.age_limit, 1.0) + self.w_size * self.width[job] / self.total_width
                + self.w_share * share + self.base[job])

    cdef void _decay(self, Py_ssize_t user) noexcept nogil:
        """Update the usage of a user to the present: earlier usage decays, and machines in use add to it."""
        cdef double rate, factor
        if self.order != WEIGHTED:
            return
        rate = 0.6931471805599453 / self.half_life
        factor = exp(-rate * (self.now - self.used_at[user]) / 1e9)
        self.used[user] = self.used[user] * factor + self.in_use[user] * (1.0 - factor) / rate
        self.used_at[user] = self.now
