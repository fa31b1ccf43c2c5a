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
  no job ever starts after its first reservation, unless a job runs beyond its estimate or a machine fails.  If
  machines fail or recover, all reservations are made anew, and those of a partition if a prediction is corrected.

Machines may be divided into partitions, each with reservations of its own; the order is one of all jobs.

The order is that of submissions, or of `ranks`; or it is dynamic: the jobs with the highest values of a function of
their waiting times come first, computed anew whenever the queue is examined.  Jobs of equal turn are in order of
submission, then of number.

The queue is examined only when a job has ended or was submitted, a machine has failed or recovered, a reserved start
has come, or a prediction was corrected.  At other instants no job starts, although the shadow time moves while jobs run beyond their estimates.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling" (2001); Tang et al., "Fault-aware,
utility-based job scheduling on Blue Gene/P systems" (2009: WFP and UNICEF).  The reference implementation is
`tests.reference.batch_queue`.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.instants cimport NEVER
from gridcore.common.bits cimport count_bits, highest_bit
from gridcore.common.memory cimport reallocate
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.occupancy cimport Occupancy, occupancy_span, occupancy_unset
from gridcore.rigid_queue.ordered_queue cimport OrderedQueue
from gridcore.rigid_queue.runs cimport GO_ON, LAST_END, NO_MEMORY, TOO_LATE, WAITING
from gridcore.rigid_queue.steps cimport (
    Profile, profile_add, profile_earliest, profile_fits, profile_forget, profile_free,
)
from gridcore.rigid_queue.waiting cimport (
    Waiting, waiting_clear, waiting_find_head, waiting_free, waiting_join, waiting_leave, waiting_make,
    waiting_next,
)

import numpy as np

from gridcore.common.state import FLAG

__all__ = ["JobQueue"]


cdef class JobQueue(OrderedQueue):
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
        int64[jobs], 0..jobs - 1: jobs of lower ranks come first, those of equal ranks in order of submission.  None
        for equal ranks.
    order
        An order that may change: "sjf" and "saf" (by the estimates, which may be predictions), "wfp", "unicef",
        "multifactor", or "lcfs" and "f1" (by the submissions); None for a static one.
    weights
        For "multifactor": numbers by name, ``age``, ``size`` and ``share`` (each 0 by default), ``age_limit`` and
        ``half_life`` (s, a week by default), and ``base``, float64[jobs], which is added.
    predicted
        Whether the estimate of a job is the mean run time of the last two jobs of its user that have ended, at most
        `estimate`, once there are two.  It is made when the job is submitted.  If the job still runs when it is over,
        it grows by 1, 5, 15 and 30 min, then 1, 2, 5, 10, 20, 50 and 100 h, one after the other, up to `estimate`.
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

    cdef readonly bint conservative, concrete
    cdef readonly Py_ssize_t depth
    # a static order, no limits, one partition, and at most one reservation, of a machine count rather than
    # particular machines; the waiting jobs are not in `line` then
    cdef bint simple
    # by job: its reserved start, -1 for none
    cdef long long[::1] reserved
    cdef Profile* profiles                 # by partition
    # by number of machines: the least estimate with which no more jobs of so many, or fewer, machines can start now
    cdef long long[::1] hopeless
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
        if depth < 0:
            raise ValueError(f"depth must be >= 0, got {depth}")
        if concrete and (depth != 1 or conservative):
            raise ValueError(f"concrete requires a depth of 1, got {depth}")
        self._set_up("nodes", machines, nodes, run, estimate, sizes, partition, releases, log)
        self._set_up_machines()
        self.width, self.total_width = self.nodes, self.machines
        self._set_up_order(ranks, order, weights, predicted, users, limit, queues, queue_limits)
        self.depth, self.conservative, self.concrete = depth, conservative, concrete
        self.simple = not (conservative or concrete or self.order or limit or queue_limits is not None
                           or depth > 1 or self.partitions > 1)
        self.line = np.zeros(0 if self.simple else self.jobs + 1, np.int32)
        self.reserved = np.full(self.jobs if conservative else 0, -1, np.int64)
        self.waits_for_end = np.zeros(self.jobs if conservative else 0, np.int8)
        self.is_compressible = np.zeros(self.partitions, np.int8)
        self.profiles = <Profile*> reallocate(NULL, self.partitions * sizeof(Profile))
        memset(self.profiles, 0, self.partitions * sizeof(Profile))
        waiting_make(&self.queue, self.jobs if self.simple else 0)
        self.hopeless = np.zeros(self.machines + 1 if depth > 1 else 0, np.int64)
        self.reserved_machines = np.zeros((self.machines + 63) // 64 if concrete else 0, np.uint64)
        self._clear()

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.profiles != NULL:
            for k in range(self.partitions):
                profile_free(&self.profiles[k])
        free(self.profiles)
        waiting_free(&self.queue)

    # -- checkpoints ----------------------------------------------------------------------------------------

    cdef dict _columns(self):
        return {**OrderedQueue._columns(self), **{name: np.asarray(column) for name, column in (
            ("reserved", self.reserved), ("waits_for_end", self.waits_for_end),
            ("is_compressible", self.is_compressible))}}

    cdef dict _limits(self):
        return {**OrderedQueue._limits(self), "reserved": (-1, LAST_END + 1), "waits_for_end": FLAG,
                "is_compressible": FLAG}

    cdef int _rebuild_queue(self, known) except -1:
        self.wake_at = NEVER               # whatever the state says: reserved starts decide
        # the tail follows the last submitted job, even if that job is no longer waiting
        if self.simple:
            self.queue.tail = int(np.asarray(self.place)[known].max(initial=-1)) + 1
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
            if not self._fill_plan(k):
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

    cdef void _insert(self, int job) noexcept nogil:
        cdef int place = self.place[job]
        if not self.simple:
            OrderedQueue._insert(self, job)
            return
        if self.queue.head < self.queue.tail and place < self.queue.head:
            self.blocked = False
        waiting_join(&self.queue, place, self.nodes[job], self.estimate[job])
        self.first_new = min(self.first_new, place)

    cdef void _before_start(self, int job) noexcept nogil:
        if self.simple:
            waiting_leave(&self.queue, self.place[job])
        if self.conservative:
            self.reserved[job] = -1
        OrderedQueue._before_start(self, job)

    cdef void _before_leave(self, int job) noexcept nogil:
        self.blocked = False
        OrderedQueue._before_leave(self, job)

    cdef void _before_correction(self, int job) noexcept nogil:
        self.blocked = False
        self.profiles[self.partition[job]].n = 0        # all its reservations are made anew

    cdef bint _after_end(self, int job) noexcept nogil:
        OrderedQueue._after_end(self, job)
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
                if not self._start_on(self.job_at[self.queue.head], -1):
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
            if not self._start_on(self.job_at[j], -1):
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
        cdef Py_ssize_t reservations = 0, n
        cdef long long start
        cdef int job
        if not self._fill_profile(profile, p):
            return NO_MEMORY
        for n in range(self.machines + 1):
            self.hopeless[n] = NEVER
        while k < self.n_line and occupancy.n_idle > 0:
            job = self.line[k]
            k += 1
            if self.partition[job] != p or self._is_limited(job):
                continue
            if reservations == self.depth:
                n = self.nodes[job]
                if n > occupancy.n_idle or self.estimate[job] >= self.hopeless[n]:
                    continue
                if not profile_fits(profile, n, self.estimate[job]):
                    while n <= self.machines and self.estimate[job] < self.hopeless[n]:
                        self.hopeless[n] = self.estimate[job]
                        n += 1
                    continue
                start = self.now
            else:
                start = profile_earliest(profile, self.nodes[job], self.estimate[job], self.now, NEVER)
            if start == self.now:
                if not self._start_on(job, -1):
                    return TOO_LATE
            elif start == NEVER:
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
            # after a failure or the correction of a prediction all reservations are recomputed
            if not self._fill_plan(p):
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

    cdef bint _fill_plan(self, Py_ssize_t p) noexcept nogil:
        """Fill the profile of partition p without reservations; return False if memory runs out.

        As in a profile that is kept, machines of jobs that run beyond their estimates are free from now on.
        """
        cdef Profile* profile = &self.profiles[p]
        cdef Py_ssize_t k = self.n_running - 1
        if not self._fill_profile(profile, p):
            return False
        while k >= 0 and self.estimated_ends[k].at <= self.now:
            if (self.partition[self.estimated_ends[k].job] == p
                    and not profile_add(profile, self.now, self.now + 1, self.estimated_ends[k].nodes)):
                return False
            k -= 1
        return True

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
