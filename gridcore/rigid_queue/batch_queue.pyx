"""A queue of rigid parallel jobs for identical machines, as in the batch system of a site.

Times are int64 nanoseconds.  A job runs on the number of machines that it requests, on all of them at the same time:
the free ones with the lowest numbers.  At one instant ends are handled first, then submissions, then starts.  The
queue is examined in its order; a job that fits the free machines when its turn comes starts.  What happens when one
does not fit is the discipline:

- ``depth=0``: no later job starts.
- ``depth=1``: EASY.  The job gets a reservation.  Its shadow time is the first instant at which, by the estimates,
  enough machines are free for it.  A job that runs beyond its estimate counts as ending now.  Its extra is the number
  of further machines that are free then, after all ends up to that instant.  The other jobs start in queue order if
  they fit the free machines, and either end by the shadow time according to their estimates, or request at most extra
  machines, which are then subtracted from extra.  If too few machines are up for the head, there is no shadow time,
  and every job that fits is started.
- ``depth`` > 1: the first so many jobs that do not fit get reservations, one after the other; other jobs start if they
  delay none of these.  Reservations are made anew whenever the queue is examined.
- ``conservative``: every job keeps its reservation, which it gets when it is submitted.  When a job ends before its
  estimate, each waiting job in turn moves to its earliest start among the reservations of the others (compression):
  no job ever starts after its first reservation, unless a job runs beyond its estimate or a machine fails.

Machines may be divided into partitions, each with reservations of its own; the order is one of all jobs.

The order is that of the job numbers, or of `ranks`; or it is dynamic: the jobs with the highest values of a function
of their waiting times come first, computed anew whenever the queue is examined.

The queue is examined only when a job has ended or was submitted, a machine has failed or recovered, or a reserved
start has come.  At other instants no job starts, although the shadow time moves while jobs run beyond their estimates.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling" (2001); Tang et al., "Fault-aware,
utility-based job scheduling on Blue Gene/P systems" (2009: WFP and UNICEF).  The reference implementation is
`tests.reference.batch_queue`.
"""

from libc.math cimport INFINITY, exp, exp2, log2, log10
from libc.stdlib cimport free, qsort
from libc.string cimport memmove, memset

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices
from gridcore.common.instants cimport NEVER
from gridcore.common.bits cimport count_bits, highest_bit
from gridcore.common.memory cimport reallocate
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.occupancy cimport Occupancy, occupancy_span, occupancy_unset
from gridcore.rigid_queue.runs cimport (
    COMING, GO_ON, LAST_END, NO_MEMORY, TOO_LATE, WAITING, JobRuns,
)
from gridcore.rigid_queue.steps cimport (
    Profile, profile_add, profile_earliest, profile_forget, profile_free,
)
from gridcore.rigid_queue.waiting cimport (
    Waiting, waiting_clear, waiting_find_head, waiting_free, waiting_join, waiting_leave, waiting_make,
    waiting_next,
)

import numpy as np

from gridcore.common.state import AMOUNT, FLAG

__all__ = ["JobQueue"]


cdef struct Turn:                          # a job in a dynamic order: the highest keys come first
    double key
    int job


cdef int _compare_turns(const void* one, const void* two) noexcept nogil:
    cdef const Turn* a = <const Turn*> one
    cdef const Turn* b = <const Turn*> two
    if a.key != b.key:
        return -1 if a.key > b.key else 1
    return -1 if a.job < b.job else a.job > b.job


# the dynamic orders
cdef enum:
    STATIC, SHORTEST, SMALLEST, WFP, UNICEF, WEIGHTED, LAST, F1

_ORDERS = {None: STATIC, "sjf": SHORTEST, "saf": SMALLEST, "wfp": WFP, "unicef": UNICEF, "multifactor": WEIGHTED,
           "lcfs": LAST, "f1": F1}


cdef class JobQueue(JobRuns):
    """A queue of rigid jobs on `machines` identical machines, and the jobs that run on them.

    Durations are at most 2**61 ns.  An object supports one thread at a time.

    Parameters
    ----------
    nodes
        int64[jobs], the number of machines that each job requests, 1..machines.
    run
        int64[jobs], ns >= 1, the run time of each job.
    estimate
        int64[jobs], ns >= 1, the estimated run time of each job, which may differ from `run`.
    depth
        Number of jobs that get reservations if they do not fit: 0 for no backfilling, 1 for EASY.
    conservative
        Whether all jobs get reservations, and keep them; `depth` has no effect then.
    concrete
        Whether a reservation is of machines, those of the lowest numbers that are free at the shadow time: a job that
        is started before and ends later takes others.  It requires a `depth` of 1.
    ranks
        int64[jobs], the place of each job in the order of the queue, a permutation; None for the order of numbers, or
        with `releases` that of submissions.
    order
        An order that may change: "sjf" and "saf" (by the estimates, which may be predictions), "wfp", "unicef",
        "multifactor", or "lcfs" and "f1" (by the submissions); None for a static one.
    weights
        For "multifactor": numbers by name, ``age``, ``size`` and ``share`` (each 0 by default), ``age_limit`` and
        ``half_life`` (s, a week by default), and ``base``, float64[jobs], which is added.
    predicted
        Whether the estimate of a job is the mean run time of the last two jobs of its user that have ended, at most
        `estimate`, once there are two.  It is made when the job is submitted.
    users
        int64[jobs], the user of each job, from 0 on; needed for predictions, shares and limits.
    limit
        Number of machines that the running jobs of a user may have in all; jobs beyond it are passed over.  0 for no
        limit.
    queues
        int64[jobs], the queue of each job, from 0 on; needed for `queue_limits`.
    queue_limits
        int64[queues], the same for the jobs of each queue; 0 for no limit.
    sizes
        int64[partitions], the machines of each partition, whose machines have consecutive numbers; None for one.
    partition
        int64[jobs], the partition of each job.
    releases
        The submissions of all jobs, some of which follow the ends of others (`gridcore.ReleaseQueue`); None if jobs are
        submitted by `submit`.
    log
        Whether to keep every run for `starts`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef readonly bint conservative, concrete, predicted
    cdef readonly Py_ssize_t depth
    # a static order, no limits, one partition, and at most one reservation, of a machine count rather than
    # particular machines
    cdef bint simple
    cdef int order
    cdef const long long[::1] requests
    cdef int[::1] rank, at_rank            # the place of each job in a static order, and the job at each place
    cdef bint ranks_submissions            # whether places are those of submissions, which `releases` decide
    cdef const int[::1] user, queue_of
    # by user: the run times of the last jobs, 0 for none; the machines in use; and the time used, decayed, as of an
    # instant, machine-seconds
    cdef long long[:, ::1] last_runs
    cdef long long[::1] in_use, used_at
    cdef double[::1] used
    cdef long long limit
    cdef const long long[::1] queue_limits
    cdef long long[::1] queue_in_use
    # the weights of "multifactor": of age, size, share, and given values; by job
    cdef double w_age, w_size, w_share, age_limit, half_life
    cdef const double[::1] base
    # the waiting jobs in their order, if the order is not simple; by job: its reserved start, -1 for none
    cdef int[::1] line
    cdef Py_ssize_t n_line
    cdef Turn* turns
    cdef long long[::1] reserved
    cdef Profile* profiles                 # by partition
    cdef char[::1] waits_for_end           # by job: whether it waits for jobs that run beyond their estimates
    cdef char[::1] is_compressible         # by partition: a job has ended before its estimate since the last examination
    cdef unsigned long long[::1] reserved_machines      # bits of the machines of a concrete reservation
    cdef Waiting queue                     # the waiting jobs, if the order is simple
    cdef Py_ssize_t first_new              # the first place of a job that has joined it since it was examined
    # whether the head is known not to fit, since only submissions have happened after it was examined
    cdef bint blocked
    cdef long long shadow, extra           # of the head, if machines are free; shadow NEVER: it has no shadow time

    def __cinit__(self, machines: SupportsIndex, nodes: ArrayLike, run: ArrayLike, estimate: ArrayLike, *,
                  Py_ssize_t depth=1, bint conservative=False, bint concrete=False, ranks: ArrayLike | None=None,
                  order: str | None=None, weights: dict[str, Any] | None=None, bint predicted=False,
                  users: ArrayLike | None=None, long long limit=0, queues: ArrayLike | None=None,
                  queue_limits: ArrayLike | None=None, sizes: ArrayLike | None=None,
                  partition: ArrayLike | None=None, ReleaseQueue releases=None, bint log=False):
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {', '.join(map(repr, _ORDERS))}, got {order!r}")
        if depth < 0:
            raise ValueError(f"depth must be >= 0, got {depth}")
        if concrete and (depth != 1 or conservative):
            raise ValueError(f"concrete requires a depth of 1, got {depth}")
        if limit < 0:
            raise ValueError(f"limit must be >= 0, got {limit}")
        self._set_up(machines, nodes, run, estimate, sizes, partition, releases, log)
        self.ranks_submissions = releases is not None and ranks is None
        self.depth, self.order, self.limit = depth, _ORDERS[order], limit
        self.conservative, self.concrete, self.predicted = conservative, concrete, predicted
        self.requests = np.array(self.estimate)
        rank = np.arange(self.jobs, dtype=np.int32)
        if ranks is not None:
            rank = indices(ranks, "ranks", 0, self.jobs).astype(np.int32)
            check_lengths(self.jobs, len(rank), "nodes", "ranks")
            if (np.bincount(rank, minlength=self.jobs) != 1).any():
                raise ValueError(f"ranks must be a permutation of 0..{self.jobs - 1}, got {rank[:8].tolist()}")
        at_rank = np.empty(self.jobs, np.int32)
        at_rank[rank] = np.arange(self.jobs, dtype=np.int32)
        self.rank, self.at_rank = rank, at_rank
        needs_users = predicted or limit > 0 or order == "multifactor"
        if needs_users and users is None:
            raise ValueError("predictions, limits and shares require users, got None")
        self.user = self._groups(users, "users")
        n_users = int(np.max(self.user, initial=-1)) + 1
        self.last_runs = np.zeros((n_users, 2), np.int64)
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
            check_lengths(self.jobs, self.base.shape[0], "nodes", "weights.base")
        self.simple = not (conservative or concrete or self.order or limit or queue_limits is not None
                           or depth > 1 or self.partitions > 1)
        self.line = np.zeros(0 if self.simple else self.jobs + 1, np.int32)
        self.reserved = np.full(self.jobs if conservative else 0, -1, np.int64)
        self.waits_for_end = np.zeros(self.jobs if conservative else 0, np.int8)
        self.is_compressible = np.zeros(self.partitions, np.int8)
        if self.order:
            self.turns = <Turn*> reallocate(NULL, (self.jobs + 1) * sizeof(Turn))
        self.profiles = <Profile*> reallocate(NULL, self.partitions * sizeof(Profile))
        memset(self.profiles, 0, self.partitions * sizeof(Profile))
        waiting_make(&self.queue, self.jobs if self.simple else 0)
        self.reserved_machines = np.zeros((self.machines + 63) // 64 if concrete else 0, np.uint64)
        self._clear()

    cdef const int[::1] _groups(self, groups, str name):
        """Return the user or the queue of each job, 0 by default."""
        if groups is None:
            return np.zeros(self.jobs, np.int32)
        groups = indices(groups, name, 0, 2**31 - 1).astype(np.int32)
        check_lengths(self.jobs, len(groups), "nodes", name)
        return groups

    def __dealloc__(self):
        cdef Py_ssize_t k
        free(self.turns)
        if self.profiles != NULL:
            for k in range(self.partitions):
                profile_free(&self.profiles[k])
        free(self.profiles)
        waiting_free(&self.queue)

    def run(self, long long until) -> int:
        """Run up to and including `until` ns; return how many jobs have ended so far.

        Running to t1 and then to t2 equals running to t2.

        Raises
        ------
        OverflowError
            If a job would end after 2**62 ns; the job is then not started, and stays in the queue.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef int reason
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
            ("last_runs", self.last_runs), ("in_use", self.in_use), ("used_at", self.used_at), ("used", self.used),
            ("queue_in_use", self.queue_in_use), ("reserved", self.reserved), ("waits_for_end", self.waits_for_end),
            ("is_compressible", self.is_compressible))}}

    cdef dict _limits(self):
        return {**JobRuns._limits(self), "reserved": (-1, LAST_END + 1), "waits_for_end": FLAG,
                "is_compressible": FLAG, "used": AMOUNT}

    cdef void _rank_joined(self, known) except *:
        if self.ranks_submissions:
            np.asarray(self.rank)[known] = np.arange(len(known))
            np.asarray(self.at_rank)[:len(known)] = known

    cdef int _rebuild_queue(self, known) except -1:
        self.wake_at = NEVER               # whatever the state says: reserved starts decide
        # the tail follows the last submitted job, even if that job is no longer waiting
        if self.simple:
            self.queue.tail = int(np.asarray(self.rank)[known].max(initial=-1)) + 1
        self.first_new = self.queue.tail
        if self.conservative and not self._restore_profiles():
            raise MemoryError
        return 0

    cdef bint _restore_profiles(self) noexcept nogil:
        """Make the profiles of the running jobs and the reservations; return False if memory runs out."""
        cdef Py_ssize_t k
        cdef int job
        self.wake_at = NEVER
        for k in range(self.partitions):
            if not self._fill_profile(&self.profiles[k], k):
                return False
        for k in range(self.n_line):
            job = self.line[k]
            if self.reserved[job] < 0:
                continue
            if not self.waits_for_end[job]:
                self.wake_at = min(self.wake_at, self.reserved[job])
            if not profile_add(&self.profiles[self.partition[job]], self.reserved[job],
                               self.reserved[job] + self.estimate[job], -self.nodes[job]):
                return False
        return True

    # -- events of the runs ---------------------------------------------------------------------------------

    cdef void _empty_queue(self) noexcept nogil:
        waiting_clear(&self.queue)
        self.n_line = self.first_new = 0
        self.blocked = False

    cdef void _join(self, int job, bint is_new) noexcept nogil:
        """Insert the job into the queue at its place."""
        cdef Py_ssize_t low = 0, high = self.n_line, middle
        cdef int place
        if is_new and self.ranks_submissions:
            self.rank[job], self.at_rank[self.n_joined] = <int> self.n_joined, job
        place = self.rank[job]
        if is_new and self.predicted:
            self._predict(job)
        if self.simple:
            if self.queue.head < self.queue.tail and place < self.queue.head:
                self.blocked = False
            waiting_join(&self.queue, place, self.nodes[job], self.estimate[job])
            self.first_new = min(self.first_new, place)
            return
        if self.order or (low < high and self.rank[self.line[high - 1]] < place):
            low = high                     # a dynamic order is made when the queue is examined
        while low < high:
            middle = (low + high) >> 1
            if self.rank[self.line[middle]] < place:
                low = middle + 1
            else:
                high = middle
        memmove(&self.line[low + 1], &self.line[low], (self.n_line - low) * sizeof(int))
        self.line[low] = job
        self.n_line += 1

    cdef void _predict(self, int job) noexcept nogil:
        cdef const long long* last = &self.last_runs[self.user[job], 0]
        self.estimate[job] = self.requests[job]
        if last[0] and last[1]:
            self.estimate[job] = max(1, min(self.requests[job], (last[0] + last[1]) // 2))

    cdef void _before_start(self, int job) noexcept nogil:
        if self.simple:
            waiting_leave(&self.queue, self.rank[job])
        if self.conservative:
            self.reserved[job] = -1
        self._decay(self.user[job])
        self.in_use[self.user[job]] += self.nodes[job]
        self.queue_in_use[self.queue_of[job]] += self.nodes[job]

    cdef void _before_leave(self, int job) noexcept nogil:
        self.blocked = False
        self._decay(self.user[job])
        self.in_use[self.user[job]] -= self.nodes[job]
        self.queue_in_use[self.queue_of[job]] -= self.nodes[job]

    cdef bint _after_end(self, int job) noexcept nogil:
        self.last_runs[self.user[job], 1] = self.last_runs[self.user[job], 0]
        self.last_runs[self.user[job], 0] = self.length[job]
        if self.conservative and self.start[job] + self.estimate[job] > self.now:
            self.is_compressible[self.partition[job]] = True
            return profile_add(&self.profiles[self.partition[job]], self.now, self.start[job] + self.estimate[job],
                               self.nodes[job])
        return True

    cdef int _examine(self) noexcept nogil:
        cdef int reason = self._examine_head() if self.simple else self._examine_line()
        self.first_new = self.queue.tail
        return reason

    # -- first come, first served, and EASY -----------------------------------------------------------------

    cdef int _examine_head(self) noexcept nogil:
        """Start the jobs that can start now, by the places of a simple order."""
        cdef Py_ssize_t first = self.first_new
        cdef long long previous_extra
        if not self.blocked or self.must_examine:
            self.blocked = False
            waiting_find_head(&self.queue)
            while self.queue.head < self.queue.tail and self.queue.nodes[self.queue.head] <= self.occupancy[0].n_idle:
                if not self._start_on(self.at_rank[self.queue.head], -1):
                    return TOO_LATE
                waiting_find_head(&self.queue)
            if self.queue.head == self.queue.tail:
                return GO_ON
            self.blocked = True
            first = self.queue.head + 1
            if self.depth and self.occupancy[0].n_idle > 0:
                self._reserve()
        elif self.depth and self.occupancy[0].n_idle > 0 and self.shadow < self.now:
            # Jobs that exceed their estimates have delayed the shadow time.  Its distance from now has not grown, so a
            # job that could not be backfilled before can start now only if the number of extra machines has changed.
            previous_extra = self.extra
            self._reserve()
            if self.extra != previous_extra:
                first = self.queue.head + 1
        if not self.depth or self.occupancy[0].n_idle == 0:
            return GO_ON
        return self._fill(first)

    cdef inline void _reserve(self) noexcept nogil:
        """Make a reservation for the head of the queue, which does not fit."""
        self._reserve_number(0, self.queue.nodes[self.queue.head])

    cdef void _reserve_number(self, Py_ssize_t partition, long long need) noexcept nogil:
        """Compute the shadow time and the number of extra machines for a job that does not fit."""
        cdef long long n = self.occupancy[partition].n_idle
        cdef Py_ssize_t k = self.n_running
        while k > 0 and n < need:
            k -= 1
            n += self._machines_in(k, partition)
        if n < need:
            self.shadow, self.extra = NEVER, self.machines
            return
        self.shadow = max(self.estimated_ends[k].at, self.now)
        while k > 0 and self.estimated_ends[k - 1].at <= self.shadow:
            k -= 1
            n += self._machines_in(k, partition)
        self.extra = n - need

    cdef inline int _machines_in(self, Py_ssize_t k, Py_ssize_t partition) noexcept nogil:
        """Return the number of machines of a partition that the running job with estimated end k frees then."""
        return self.estimated_ends[k].nodes if self.partition[self.estimated_ends[k].job] == partition else 0

    cdef int _fill(self, Py_ssize_t j) noexcept nogil:
        """Start the jobs from j on that do not delay the head; return the result of `_examine`."""
        cdef long long slack = self.shadow - self.now
        while self.occupancy[0].n_idle > 0:
            j = waiting_next(&self.queue, j, self.occupancy[0].n_idle, self.extra, slack)
            if j == self.queue.tail:
                break
            if self.queue.estimate[j] > slack:
                self.extra -= self.queue.nodes[j]
            if not self._start_on(self.at_rank[j], -1):
                return TOO_LATE
            j += 1
        return GO_ON

    # -- other orders and reservations ----------------------------------------------------------------------

    cdef int _examine_line(self) noexcept nogil:
        """Start the jobs that can start now, by the line of all waiting jobs."""
        cdef Py_ssize_t p, idle = 0
        cdef int reason = GO_ON
        for p in range(self.partitions):
            idle += self.occupancy[p].n_idle
        if self.order and self.n_line and (idle or self.conservative):
            self._sort()
        if self.conservative:
            self.wake_at = NEVER
        for p in range(self.partitions):
            if self.conservative:
                reason = self._examine_reservations(p)
            elif self.n_line and self.occupancy[p].n_idle:
                reason = self._backfill_line(p)
            if reason != GO_ON:
                break
        self._close_line()
        return reason

    cdef void _close_line(self) noexcept nogil:
        """Remove the jobs that no longer wait from the line."""
        cdef Py_ssize_t k, n = 0
        for k in range(self.n_line):
            if self.status[self.line[k]] == WAITING:
                self.line[n] = self.line[k]
                n += 1
        self.n_line = n

    cdef inline bint _is_limited(self, int job) noexcept nogil:
        """Return whether a job must wait for other jobs of its user or its queue."""
        cdef long long most = self.queue_limits[self.queue_of[job]]
        if most > 0 and self.queue_in_use[self.queue_of[job]] + self.nodes[job] > most:
            return True
        return self.limit > 0 and self.in_use[self.user[job]] + self.nodes[job] > self.limit

    cdef int _backfill_line(self, Py_ssize_t p) noexcept nogil:
        """Start the jobs of partition p that can start now."""
        cdef Py_ssize_t k = 0
        cdef Occupancy* occupancy = &self.occupancy[p]
        cdef int job
        # the jobs whose turn it is, as long as they fit
        while k < self.n_line and occupancy.n_idle > 0:
            job = self.line[k]
            if self.partition[job] == p and not self._is_limited(job):
                if self.nodes[job] > occupancy.n_idle:
                    break
                if not self._start_on(job, -1):
                    return TOO_LATE
            k += 1
        if k == self.n_line or self.depth == 0 or occupancy.n_idle == 0:
            return GO_ON
        return self._backfill_behind(p, k) if self.depth == 1 else self._backfill_among(p, k)

    cdef int _backfill_behind(self, Py_ssize_t p, Py_ssize_t k) noexcept nogil:
        """Give the job at place k of the line a reservation, and start jobs of partition p that do not delay it."""
        cdef Occupancy* occupancy = &self.occupancy[p]
        cdef long long slack
        cdef int job, first
        self._reserve_number(p, self.nodes[self.line[k]])
        slack = self.shadow - self.now
        if self.concrete:
            self._keep_machines(p, self.nodes[self.line[k]])
        for k in range(k + 1, self.n_line):
            job = self.line[k]
            if occupancy.n_idle == 0:
                break
            if self.partition[job] != p or self.nodes[job] > occupancy.n_idle or self._is_limited(job):
                continue
            if self.estimate[job] <= slack:
                first = -1
            elif self.concrete:
                if self.nodes[job] > self._count_outside(p):
                    continue
                first = self._take_outside(p, self.nodes[job])
            elif self.nodes[job] <= self.extra:
                self.extra -= self.nodes[job]
                first = -1
            else:
                continue
            if not self._start_on(job, first):
                return TOO_LATE
        return GO_ON

    cdef int _backfill_among(self, Py_ssize_t p, Py_ssize_t k) noexcept nogil:
        """Reserve machines for the first `depth` jobs of partition p from place k, and start jobs that delay none of them."""
        cdef Occupancy* occupancy = &self.occupancy[p]
        cdef Profile* profile = &self.profiles[p]
        cdef Py_ssize_t reservations = 0
        cdef long long start
        cdef int job
        if not self._fill_profile(profile, p):
            return NO_MEMORY
        while k < self.n_line and occupancy.n_idle > 0:
            job = self.line[k]
            k += 1
            if self.partition[job] != p or self._is_limited(job):
                continue
            if reservations == self.depth and self.nodes[job] > occupancy.n_idle:
                continue
            start = profile_earliest(profile, self.nodes[job], self.estimate[job], self.now, NEVER)
            if start == self.now:
                if not self._start_on(job, -1):
                    return TOO_LATE
            elif reservations == self.depth or start == NEVER:
                continue
            else:
                reservations += 1
            if not profile_add(profile, start, start + self.estimate[job], -self.nodes[job]):
                return NO_MEMORY
        return GO_ON

    cdef void _keep_machines(self, Py_ssize_t p, Py_ssize_t need) noexcept nogil:
        """Keep the `need` machines of the lowest numbers that are free at the shadow time, by the estimates."""
        cdef const Occupancy* occupancy = &self.occupancy[p]
        cdef Py_ssize_t k, count
        cdef int s
        cdef unsigned long long mask
        for k in range(occupancy.words):
            self.reserved_machines[k] = occupancy.idle[k]
        for k in range(self.n_running - 1, -1, -1):
            if self.estimated_ends[k].at > self.shadow:
                break
            if self.partition[self.estimated_ends[k].job] != p:
                continue
            s = self.spans[self.estimated_ends[k].job]
            while s >= 0:
                self.reserved_machines[occupancy.span[s].word] |= occupancy.span[s].mask
                s = occupancy.span[s].next
        if self.shadow == NEVER:
            need = 0
        for k in range(occupancy.words):
            mask = self.reserved_machines[k]
            count = count_bits(mask)
            while count > need:            # drop the machine with the highest number
                mask ^= <unsigned long long> 1 << highest_bit(mask)
                count -= 1
            self.reserved_machines[k] = mask
            need -= count

    cdef Py_ssize_t _count_outside(self, Py_ssize_t p) noexcept nogil:
        """Return the number of free machines that are not kept."""
        cdef const Occupancy* occupancy = &self.occupancy[p]
        cdef Py_ssize_t k, n = 0
        for k in range(occupancy.words):
            n += count_bits(occupancy.idle[k] & ~self.reserved_machines[k])
        return n

    cdef int _take_outside(self, Py_ssize_t p, int n) noexcept nogil:
        """Take the lowest n free machines that are not kept, which must exist; return their first span."""
        cdef Occupancy* occupancy = &self.occupancy[p]
        cdef int first = -1, last = -1, s
        cdef Py_ssize_t k = 0
        cdef unsigned long long mask
        occupancy.n_idle -= n
        while n > 0:
            mask = occupancy.idle[k] & ~self.reserved_machines[k]
            while count_bits(mask) > n:
                mask ^= <unsigned long long> 1 << highest_bit(mask)
            if mask:
                n -= count_bits(mask)
                occupancy_unset(occupancy, <int> k, mask)
                s = occupancy_span(occupancy, <int> k, mask)
                if last < 0:
                    first = s
                else:
                    occupancy.span[last].next = s
                last = s
            k += 1
        return first

    # -- conservative backfilling ---------------------------------------------------------------------------

    cdef int _examine_reservations(self, Py_ssize_t p) noexcept nogil:
        """Make and move the reservations of partition p, and start the jobs whose reserved start is due."""
        cdef Profile* profile = &self.profiles[p]
        cdef Py_ssize_t k
        cdef int reason, job
        if self.must_examine or profile.n == 0:
            # after a failure all reservations are recomputed
            if not self._fill_profile(profile, p):
                return NO_MEMORY
            for k in range(self.n_line):
                if self.partition[self.line[k]] == p:
                    self.reserved[self.line[k]] = -1
        else:
            profile_forget(profile, self.now)
        while True:
            reason = self._place_line(p)
            if reason != GO_ON:
                return reason
            if not self.is_compressible[p]:
                break
        for k in range(self.n_line):
            job = self.line[k]
            if (self.partition[job] == p and self.status[job] == WAITING and self.reserved[job] >= 0
                    and not self.waits_for_end[job]):
                self.wake_at = min(self.wake_at, self.reserved[job])
        return GO_ON

    cdef int _place_line(self, Py_ssize_t p) noexcept nogil:
        """Go through the line once; set `is_compressible` again if a reservation was moved to a later start."""
        cdef Profile* profile = &self.profiles[p]
        cdef bint compresses = self.is_compressible[p], is_moved
        cdef Py_ssize_t k
        cdef int job
        cdef long long start, sooner
        cdef char waits
        self.is_compressible[p] = False
        for k in range(self.n_line):
            job, start = self.line[k], self.reserved[self.line[k]]
            if self.partition[job] != p or self.status[job] != WAITING:
                continue                   # it has started in an earlier pass
            is_moved = 0 <= start <= self.now and self.nodes[job] > self.occupancy[p].n_idle
            if start < 0:
                start = self._earliest(job, NEVER)
            elif is_moved:                 # a job that runs beyond its estimate still has the machines
                if not self._unreserve(job):
                    return NO_MEMORY
                start, self.is_compressible[p] = self._earliest(job, NEVER), True
            elif start <= self.now:
                if not self._unreserve(job):
                    return NO_MEMORY
                start = self.now
            elif compresses:
                waits, sooner = self.waits_for_end[job], self._earliest(job, start)
                if sooner == NEVER:
                    self.waits_for_end[job] = waits
                    continue
                if not self._unreserve(job):
                    return NO_MEMORY
                start = sooner
            else:
                continue
            self.reserved[job] = -1 if start == NEVER else start  # too few machines are up
            if start != NEVER and not profile_add(profile, start, start + self.estimate[job], -self.nodes[job]):
                return NO_MEMORY
            if start == self.now and not self._start_on(job, -1):
                return TOO_LATE
        return GO_ON

    cdef long long _earliest(self, int job, long long last) noexcept nogil:
        """Return the earliest start of a job before `last` by the profile; one now needs machines that are free."""
        cdef const Profile* profile = &self.profiles[self.partition[job]]
        cdef long long start = profile_earliest(profile, self.nodes[job], self.estimate[job], self.now, last)
        self.waits_for_end[job] = False
        if start == self.now and self.nodes[job] > self.occupancy[self.partition[job]].n_idle:
            start = profile_earliest(profile, self.nodes[job], self.estimate[job], self.now + 1, last)
            self.waits_for_end[job] = start == self.now + 1
        return start

    cdef bint _unreserve(self, int job) noexcept nogil:
        """Remove the reservation of a job from the profile; return False if memory runs out."""
        cdef long long start = self.reserved[job]
        return profile_add(&self.profiles[self.partition[job]], start, start + self.estimate[job], self.nodes[job])

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
            self.turns[k].job = job
            if self.order == SHORTEST:
                self.turns[k].key = -duration
            elif self.order == SMALLEST:
                self.turns[k].key = -duration * self.nodes[job]
            elif self.order == WFP:
                self.turns[k].key = (wait / duration) ** 3 * self.nodes[job]
            elif self.order == UNICEF:
                self.turns[k].key = INFINITY if self.nodes[job] == 1 else wait / (log2(self.nodes[job]) * duration)
            elif self.order == LAST:
                self.turns[k].key = self.rank[job]
            elif self.order == F1:
                self.turns[k].key = -(log10(duration / 1e9) * self.nodes[job]
                                      + 870.0 * log10(max(1.0, self.submitted[job] / 1e9)))
            else:
                self.turns[k].key = self._priority(job, wait / 1e9, total)
        qsort(self.turns, self.n_line, sizeof(Turn), _compare_turns)
        for k in range(self.n_line):
            self.line[k] = self.turns[k].job

    cdef double _priority(self, int job, double wait, double total) noexcept nogil:
        """Return the weighted sum of age, size, share and the given value of a job."""
        cdef double share = 1.0
        if self.w_share and total > 0.0:
            # 2 ** -(use / entitlement): each user is entitled to an equal part
            share = exp2(-self.used[self.user[job]] / total * self.used.shape[0])
        return (self.w_age * min(wait / self.age_limit, 1.0) + self.w_size * self.nodes[job] / self.machines
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
