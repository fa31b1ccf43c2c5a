"""One queue of rigid parallel jobs for identical machines, as the batch systems of sites have it.

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

The order is that of the job numbers, or of `ranks`; or it is dynamic: the jobs with the highest values of a function
of their waiting times come first, computed anew whenever the queue is examined.

The queue is examined only when a job has ended or was submitted, a machine has failed or recovered, or a reserved
start has come.  At other instants no job starts, although the shadow time moves while jobs run beyond their estimates.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling" (2001); Tang et al., "Fault-aware,
utility-based job scheduling on Blue Gene/P systems" (2009: WFP and UNICEF).  The reference implementation is
`tests.reference.batch_queue`.
"""

from libc.math cimport INFINITY, exp, exp2, log2
from libc.stdlib cimport free, qsort
from libc.string cimport memmove

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices, integers
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.bits cimport count_bits, highest_bit, lowest_bit
from gridcore.common.heap cimport Entry, heap_pop, heap_push
from gridcore.common.memory cimport reallocate
from gridcore.rigid_queue.occupancy cimport (
    Occupancy, Span, occupancy_add, occupancy_clear, occupancy_free, occupancy_make, occupancy_mark,
    occupancy_meets, occupancy_remove, occupancy_return, occupancy_span, occupancy_take, occupancy_take_one,
    occupancy_unset,
)
from gridcore.rigid_queue.steps cimport (
    Profile, profile_add, profile_clear, profile_earliest, profile_forget, profile_free,
)
from gridcore.rigid_queue.run_log cimport (
    RunLog, runlog_add, runlog_add_part, runlog_copy, runlog_fill, runlog_free, runlog_machines, runlog_rows,
)
from gridcore.rigid_queue.waiting cimport (
    Waiting, waiting_clear, waiting_find_head, waiting_free, waiting_join, waiting_leave, waiting_make,
    waiting_next,
)

import numpy as np

from gridcore.common.state import AMOUNT, FLAG, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only

__all__ = ["JobQueue"]

# The latest end and the longest duration of a job (2**62 ns); the sum of an instant and an estimate does not overflow.
cdef long long _LAST = 4611686018427387904
_INSTANT = (0, _LAST + 1)
_STATE = {
    "now": NumberEntry(), "changed": NumberEntry(0, 2), "compressible": NumberEntry(0, 2), "coming": TableEntry({"job": (0, "jobs"), "at": _INSTANT}),
    "on": ArrayEntry(np.int32, ("machines",), (-1, "jobs")),
    "masks": ArrayEntry(np.uint64), "words": ArrayEntry(np.int64, ("masks",), (0, "groups")),
    "runs": TableEntry({
        "job": (0, "jobs"), "start": _INSTANT, "end": _INSTANT, "completed": FLAG, "parts": (0, None),
    }, totals={"parts": "masks"}),
}

cdef enum:
    UNKNOWN, COMING, WAITING, RUNNING, ENDED

cdef struct EstimatedEnd:                  # of a running job: its estimated end, and the machines that it frees then
    long long at
    int job, nodes


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
    STATIC, SHORTEST, SMALLEST, WFP, UNICEF, WEIGHTED

_ORDERS = {None: STATIC, "sjf": SHORTEST, "saf": SMALLEST, "wfp": WFP, "unicef": UNICEF, "multifactor": WEIGHTED}


cdef class JobQueue:
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
        int64[jobs], the place of each job in the order of the queue, a permutation; None for the order of numbers.
    order
        An order that may change: "sjf" and "saf" (by the estimates, which may be predictions), "wfp", "unicef" or
        "multifactor"; None for a static one.
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
    log
        Whether to keep every run for `starts`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef bint in_call                      # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, jobs
    cdef readonly long long now
    cdef readonly bint conservative, concrete, log, predicted
    cdef readonly Py_ssize_t depth
    cdef bint simple                       # a static order, no limits, and at most one reservation, of a number
    cdef int order
    cdef const int[::1] nodes
    cdef const long long[::1] length, requests
    cdef long long[::1] estimate
    cdef const int[::1] rank, at_rank      # the place of each job in a static order, and the job at each place
    cdef const int[::1] user
    # by user: the run times of the last jobs, 0 for none; the machines in use; and the time used, decayed, as of an
    # instant, machine-seconds
    cdef long long[:, ::1] last_runs
    cdef long long[::1] in_use, used_at
    cdef double[::1] used
    cdef long long limit
    # the weights of "multifactor": of age, size, share, and given values; by job
    cdef double w_age, w_size, w_share, age_limit, half_life
    cdef const double[::1] base
    # the waiting jobs in their order, if the order is not simple; by job: its reserved start, -1 for none
    cdef int[::1] line
    cdef Py_ssize_t n_line
    cdef Turn* turns
    cdef long long[::1] reserved
    cdef Profile profile
    cdef long long next_reserved           # the first reserved start, without those of jobs that wait for an end
    cdef char[::1] waits_for_end           # by job: whether it waits for jobs that run beyond their estimates
    cdef bint is_compressible                        # a job has ended before its estimate since the queue was last examined
    cdef unsigned long long[::1] reserved_machines      # bits of the machines of a concrete reservation
    cdef char[::1] status
    cdef long long[::1] first_start, start, finish, cut, submitted
    # jobs in order of submission, up to `n_coming`; those from `n_joined` on are submitted later than `now`
    cdef int[::1] coming
    cdef long long[::1] coming_at
    cdef Py_ssize_t n_coming, n_joined
    cdef Waiting queue
    # the running jobs by their ends, and by their estimated ends.  The latter are in descending order, ties by
    # descending number: most jobs that start or end are short, so few entries are moved
    cdef Entry* ends
    cdef EstimatedEnd* estimated_ends
    cdef Py_ssize_t n_running
    cdef int[::1] spans                    # by job: the first span of its machines
    # the machines
    cdef Occupancy occupancy
    cdef char[::1] down
    cdef long long[::1] busy_time, done, interrupted
    cdef long long ended
    cdef bint machines_changed             # machines have failed or recovered since the queue was last examined
    # whether the head is known not to fit, since only submissions have happened after it was examined
    cdef bint blocked
    cdef long long shadow, extra           # of the head, if machines are free; shadow NEVER: it has no shadow time
    cdef RunLog history

    def __cinit__(self, machines: SupportsIndex, nodes: ArrayLike, run: ArrayLike, estimate: ArrayLike, *,
                  Py_ssize_t depth=1, bint conservative=False, bint concrete=False, ranks: ArrayLike | None=None,
                  order: str | None=None, weights: dict[str, Any] | None=None, bint predicted=False,
                  users: ArrayLike | None=None, long long limit=0, bint log=False):
        cdef Py_ssize_t k
        if isinstance(machines, bool) or not isinstance(machines, int | np.integer) or not 1 <= machines < 2**31:
            raise ValueError(f"machines must be in 1..{2**31 - 1}, got {machines!r}")
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {', '.join(map(repr, _ORDERS))}, got {order!r}")
        if depth < 0:
            raise ValueError(f"depth must be >= 0, got {depth}")
        if concrete and (depth != 1 or conservative):
            raise ValueError(f"concrete requires a depth of 1, got {depth}")
        if limit < 0:
            raise ValueError(f"limit must be >= 0, got {limit}")
        self.machines, self.depth, self.log = machines, depth, log
        self.conservative, self.concrete, self.predicted = conservative, concrete, predicted
        self.order, self.limit = _ORDERS[order], limit
        self.nodes = indices(nodes, "nodes", 1, self.machines + 1).astype(np.int32)
        self.length = indices(run, "run", 1, LATEST + 1)
        self.requests = indices(estimate, "estimate", 1, LATEST + 1)
        self.estimate = np.array(self.requests)
        self.jobs = self.nodes.shape[0]
        check_lengths(self.jobs, self.length.shape[0], "nodes", "run")
        check_lengths(self.jobs, self.requests.shape[0], "nodes", "estimate")
        if self.jobs >= 2**31 - 1:
            raise ValueError(f"nodes must have fewer than {2**31 - 1} entries, got {self.jobs}")
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
            raise ValueError("users must be given for predictions, limits and shares, got None")
        user = np.zeros(self.jobs, np.int32)
        if users is not None:
            user = indices(users, "users", 0, 2**31 - 1).astype(np.int32)
            check_lengths(self.jobs, len(user), "nodes", "users")
        self.user = user
        n_users = int(user.max(initial=-1)) + 1
        self.last_runs = np.zeros((n_users, 2), np.int64)
        self.in_use, self.used_at = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
        self.used = np.zeros(n_users)
        self.base = np.zeros(self.jobs)
        if order == "multifactor":
            weights = dict(weights or {})
            self.w_age, self.w_size = weights.get("age", 0.0), weights.get("size", 0.0)
            self.w_share = weights.get("share", 0.0)
            self.age_limit, self.half_life = weights.get("age_limit", 604800.0), weights.get("half_life", 604800.0)
            self.base = np.array(weights.get("base", np.zeros(self.jobs)), np.float64)
            check_lengths(self.jobs, self.base.shape[0], "nodes", "weights.base")
        self.simple = not (conservative or concrete or self.order or limit or depth > 1)
        self.line = np.zeros(0 if self.simple else self.jobs + 1, np.int32)
        self.reserved = np.full(self.jobs if conservative else 0, -1, np.int64)
        self.waits_for_end = np.zeros(self.jobs if conservative else 0, np.int8)
        self.status = np.zeros(self.jobs, np.int8)
        self.first_start = np.full(self.jobs, -1, np.int64)
        self.start = np.full(self.jobs, -1, np.int64)
        self.submitted = np.zeros(self.jobs, np.int64)
        self.finish = np.full(self.jobs, -1, np.int64)
        self.cut = np.zeros(self.jobs, np.int64)
        self.coming = np.zeros(self.jobs, np.int32)
        self.coming_at = np.zeros(self.jobs, np.int64)
        self.spans = np.full(self.jobs, -1, np.int32)
        self.down = np.zeros(self.machines, np.int8)
        self.busy_time = np.zeros(self.machines, np.int64)
        self.done = np.zeros(self.machines, np.int64)
        self.interrupted = np.zeros(self.machines, np.int64)
        # each running job has a machine of its own, so at most this many run
        k = min(self.jobs, self.machines) + 1
        self.ends = <Entry*> reallocate(NULL, k * sizeof(Entry))
        self.estimated_ends = <EstimatedEnd*> reallocate(NULL, k * sizeof(EstimatedEnd))
        if self.order:
            self.turns = <Turn*> reallocate(NULL, (self.jobs + 1) * sizeof(Turn))
        waiting_make(&self.queue, self.jobs if self.simple else 0)
        occupancy_make(&self.occupancy, self.machines)
        self.reserved_machines = np.zeros(self.occupancy.words if concrete else 0, np.uint64)
        self._clear()

    def __dealloc__(self):
        free(self.ends)
        free(self.estimated_ends)
        free(self.turns)
        profile_free(&self.profile)
        waiting_free(&self.queue)
        occupancy_free(&self.occupancy)
        runlog_free(&self.history)

    cdef void _clear(self) noexcept nogil:
        """Empty the queue, drop all running jobs, and make each machine that is up idle."""
        cdef Py_ssize_t k
        waiting_clear(&self.queue)
        occupancy_clear(&self.occupancy)
        for k in range(self.jobs):
            self.spans[k] = -1
        self.n_running = self.n_line = 0
        self.next_reserved = NEVER
        self.blocked = False
        for k in range(self.machines):
            if not self.down[k]:
                occupancy_add(&self.occupancy, k)

    # -- results --------------------------------------------------------------------------------------------

    def next_end(self) -> int:
        """Return the first instant (ns) at which a running job ends; 2**63 - 1 if no job runs."""
        cdef _Guard access = guard(&self.in_call)
        return self.ends[0].at if self.n_running else NEVER

    def totals(self) -> dict[str, Integers]:
        """Return copies of the totals so far.

        Per job: first_start, the earliest start, even if that run was cut off; start, that of the last run; finish
        (all ns, -1 for never); cut, the number of runs that were cut off.  Per machine: busy (ns), in runs that have
        ended or were cut off; tasks, the number of jobs completed on it; interrupted, the number of runs cut off on
        it, even if another of their machines failed.
        """
        cdef _Guard access = guard(&self.in_call)
        return {"first_start": np.array(self.first_start), "start": np.array(self.start),
                "finish": np.array(self.finish), "cut": np.array(self.cut), "busy": np.array(self.busy_time),
                "tasks": np.array(self.done), "interrupted": np.array(self.interrupted)}

    def starts(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Return (machine, job, start ns, end ns, completed), int64[k]: an entry for each machine of each run.

        It covers the runs that have ended (completed is 1) or were cut off (0), in order of start, job and machine.
        A run that was cut off at the instant of its start has no entries.  Empty without ``log``.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        keys = np.zeros((2, self.history.n), np.int64)
        cdef long long[:, ::1] key = keys
        for k in range(self.history.n):
            key[0, k], key[1, k] = self.history.run[k].job, self.history.run[k].start
        rows = np.zeros((5, runlog_machines(&self.history)), np.int64)
        runlog_rows(&self.history, np.lexsort(keys), rows)
        return tuple(rows)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`."""
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        cdef int job
        job_on = np.full(self.machines, -1, np.int32)
        for k in range(self.n_running):
            job = self.estimated_ends[k].job
            occupancy_mark(&self.occupancy, self.spans[job], job, job_on)
        runs, masks = np.empty((self.history.n, 5), np.int64), np.empty(self.history.n_parts, np.uint64)
        words = np.empty(self.history.n_parts, np.int64)
        runlog_copy(&self.history, runs, masks, words)
        coming = np.stack((np.asarray(self.coming)[self.n_joined:self.n_coming],
                           np.asarray(self.coming_at)[self.n_joined:self.n_coming]), axis=1).astype(np.int64)
        return read_only({**self._columns(), "now": self.now, "changed": int(self.machines_changed),
                          "compressible": int(self.is_compressible), "coming": coming, "on": job_on,
                      "runs": runs, "masks": masks, "words": words})

    def setstate(self, state):
        """Restore a state of `getstate` of a queue with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k, u
        columns, instants = self._columns(), (-1, _LAST + 1)
        entries = read(state, {
            **array_entries(columns, (0, _LAST + 1), status=(0, ENDED + 1), down=FLAG, first_start=instants,
                            start=instants, finish=instants, estimate=(1, LATEST + 1), reserved=instants,
                            waits_for_end=FLAG, used=AMOUNT),
            **_STATE,
        }, jobs=self.jobs, machines=self.machines, groups=self.occupancy.words)
        now, status, on = entries["now"], entries["status"], entries["on"]
        # a job runs if it has as many machines as it requests; otherwise it waits
        on[entries["down"] != 0] = -1
        runs = np.bincount(on[on >= 0], minlength=self.jobs) == np.asarray(self.nodes)
        on[~np.append(runs, False)[on]] = -1
        status[status == RUNNING] = WAITING
        status[runs] = RUNNING
        # jobs are submitted in their order
        last = np.flatnonzero(status > COMING).max(initial=-1)
        status[:last + 1][status[:last + 1] == COMING] = WAITING
        coming_at = np.full(self.jobs, now)
        coming_at[entries["coming"][:, 0]] = entries["coming"][:, 1]
        cdef const int[::1] job_on = on
        runlog_fill(&self.history, entries["runs"], entries["masks"], entries["words"])
        for name, column in columns.items():
            column[...] = entries[name]
        self.now, self.machines_changed, self.ended = now, entries["changed"], int((status == ENDED).sum())
        self._clear()
        known = np.flatnonzero(status >= COMING)
        self.n_coming, self.n_joined = len(known), int((status > COMING).sum())
        np.asarray(self.coming)[:self.n_coming] = known
        np.asarray(self.coming_at)[:self.n_coming] = coming_at[known]
        for k in range(self.jobs):
            if self.status[k] == WAITING:
                self._join(<int> k)
        # the tail follows the last submitted job, even if that job is no longer waiting
        if self.simple:
            self.queue.tail = int(np.asarray(self.rank)[known[:self.n_joined]].max(initial=-1)) + 1
        for u in range(self.machines - 1, -1, -1):
            if job_on[u] >= 0:
                occupancy_take_one(&self.occupancy, &self.spans[job_on[u]], u)
        for k in range(self.jobs):
            if self.status[k] == RUNNING:
                self._schedule(<int> k)
        if self.conservative and not self._restore_profile():
            raise MemoryError

    cdef bint _restore_profile(self) noexcept nogil:
        """Make the profile of the running jobs and the reservations; return False if memory runs out."""
        cdef Py_ssize_t k
        cdef int job
        if not self._fill_profile():
            return False
        for k in range(self.n_line):
            job = self.line[k]
            if self.reserved[job] < 0:
                continue
            if not self.waits_for_end[job]:
                self.next_reserved = min(self.next_reserved, self.reserved[job])
            if not profile_add(&self.profile, self.reserved[job], self.reserved[job] + self.estimate[job],
                               -self.nodes[job]):
                return False
        return True

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or job."""
        return {name: np.asarray(column) for name, column in (
            ("status", self.status), ("first_start", self.first_start), ("start", self.start),
            ("finish", self.finish), ("cut", self.cut), ("down", self.down), ("busy", self.busy_time),
            ("done", self.done), ("interrupted", self.interrupted), ("estimate", self.estimate),
            ("submitted", self.submitted), ("last_runs", self.last_runs), ("in_use", self.in_use),
            ("used_at", self.used_at), ("used", self.used), ("reserved", self.reserved),
            ("waits_for_end", self.waits_for_end))}

    # -- events ---------------------------------------------------------------------------------------------

    def submit(self, jobs: ArrayLike, now: ArrayLike):
        """Put `jobs` (int64[k], ascending) at the end of the queue at `now` ns; nothing starts before `run`.

        A job is submitted once, and never after one with a higher number.

        Parameters
        ----------
        now
            One instant for all, or int64[k], not decreasing; not before the instant reached, nor before an
            earlier submission.  A job submitted for a later instant joins the queue at that instant.

        Raises
        ------
        ValueError
            If a job or an instant is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = indices(jobs, "jobs", 0, self.jobs)
        cdef const long long[::1] at
        cdef Py_ssize_t k
        cdef long long last = self.coming[self.n_coming - 1] if self.n_coming else -1
        cdef long long earliest = max(self.now, self.coming_at[self.n_coming - 1] if self.n_coming else 0)
        cdef long long instant = 0
        cdef bint is_array = not isinstance(now, int | np.integer)
        if is_array:
            at = integers(now, "now")
            check_lengths(ids.shape[0], at.shape[0], "jobs", "now")
        elif not earliest <= now <= _LAST:
            raise ValueError(f"now must be in {earliest}..{_LAST}, got {now}")
        else:
            instant = now
        for k in range(ids.shape[0]):
            if ids[k] <= last:
                raise ValueError(f"jobs[{k}] must be above {last}, the job submitted before it, got {ids[k]}")
            if is_array and not earliest <= at[k] <= _LAST:
                raise ValueError(f"now[{k}] must be in {earliest}..{_LAST}, got {at[k]}")
            last, earliest = ids[k], at[k] if is_array else instant
        for k in range(ids.shape[0]):
            self.coming[self.n_coming], self.coming_at[self.n_coming] = <int> ids[k], at[k] if is_array else instant
            self.status[ids[k]] = COMING
            self.n_coming += 1

    def run(self, long long until) -> int:
        """Run up to and including `until` ns; return how many jobs have ended so far.

        Running to t1 and then to t2 equals running to t2.

        Raises
        ------
        OverflowError
            If a job would end after 2**62 ns; the job is then not started, and stays in the queue.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef int failed
        with nogil:
            failed = self._run(until)
        if failed == 1:
            raise MemoryError
        if failed == 2:
            raise OverflowError("jobs must end by 2**62 ns")
        return self.ended

    def fail(self, machines: ArrayLike, long long now) -> Integers:
        """Make `machines` (int64[k], ascending) fail at `now` ns, the instant reached by `run`.

        Jobs that run on any of them are cut off on all their machines and go back to their place in the queue.
        No job is started on the machines until `restore`; machines that are down already stay down.

        Returns int64[m], the jobs cut off, ascending.  Time O(machines of running jobs) for all machines together.

        Raises
        ------
        ValueError
            If a machine or `now` is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0, left
        cdef unsigned long long[::1] failing = np.zeros(self.occupancy.words, np.uint64)
        for k in range(ids.shape[0]):
            failing[ids[k] >> 6] |= <unsigned long long> (not self.down[ids[k]]) << (ids[k] & 63)
        cut = np.zeros(self.n_running, np.int64)
        cdef long long[::1] out = cut
        for k in range(self.n_running):
            if occupancy_meets(&self.occupancy, self.spans[self.estimated_ends[k].job], &failing[0]):
                out[n] = self.estimated_ends[k].job
                n += 1
        cut = np.sort(cut[:n])
        out = cut
        for k in range(n):
            if not self._leave(<int> out[k], False):
                raise MemoryError
        if n:
            left = 0
            for k in range(self.n_running):
                if self.status[self.estimated_ends[k].job] == RUNNING:
                    self.estimated_ends[left] = self.estimated_ends[k]
                    left += 1
            left = 0
            for k in range(self.n_running):
                if self.status[self.ends[k].number] == RUNNING:
                    heap_push(self.ends, left, self.ends[k])
                    left += 1
            self.n_running = left
        for k in range(ids.shape[0]):
            if self.down[ids[k]]:
                continue
            self.down[ids[k]] = True
            occupancy_remove(&self.occupancy, ids[k])
            self.machines_changed = True
        return cut

    def restore(self, machines: ArrayLike, long long now):
        """Make `machines` (int64[k], ascending) recover at `now` ns, the instant reached by `run`.

        Machines that are up are unchanged.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef const long long[::1] ids = self._machines(machines, now)
        cdef Py_ssize_t k
        for k in range(ids.shape[0]):
            if self.down[ids[k]]:
                self.down[ids[k]] = False
                occupancy_add(&self.occupancy, ids[k])
                self.machines_changed = True

    cdef const long long[::1] _machines(self, machines, long long now):
        cdef const long long[::1] ids = indices(machines, "machines", 0, self.machines)
        cdef Py_ssize_t k
        if now != self.now:
            raise ValueError(f"now must be {self.now} ns, the end of the last run, got {now}")
        for k in range(1, ids.shape[0]):
            if ids[k] <= ids[k - 1]:
                raise ValueError(f"machines[{k}] must be above {ids[k - 1]}, the one before it, got {ids[k]}")
        return ids

    cdef int _run(self, long long until) noexcept nogil:
        """Run the queue to `until` ns; return 0, 1 if memory runs out, or 2 if a job would end too late."""
        cdef long long at
        cdef Py_ssize_t first
        cdef int failed
        while until >= self.now:
            at = NEVER
            if self.n_running > 0:
                at = self.ends[0].at
            if self.n_joined < self.n_coming and self.coming_at[self.n_joined] < at:
                at = self.coming_at[self.n_joined]
            at = min(at, self.next_reserved)
            if self.machines_changed:
                at = self.now
            elif at > until or at == NEVER:
                self.now = until
                break
            self.now = at
            while self.n_running > 0 and self.ends[0].at <= at:
                if not self._end():
                    return 1
            first = self.queue.tail
            while self.n_joined < self.n_coming and self.coming_at[self.n_joined] <= at:
                self.submitted[self.coming[self.n_joined]] = at
                first = min(first, self._submit(self.coming[self.n_joined]))
                self.n_joined += 1
            failed = self._examine(first) if self.simple else self._examine_line()
            if failed:
                # make the next call examine the whole queue
                self.machines_changed = True
                return failed
            self.machines_changed = False
        return 0

    # -- the queue ------------------------------------------------------------------------------------------

    cdef Py_ssize_t _submit(self, int job) noexcept nogil:
        """Add a job to the queue for the first time; return its place in the static order."""
        cdef const long long* last
        if self.predicted:
            last = &self.last_runs[self.user[job], 0]
            self.estimate[job] = self.requests[job]
            if last[0] and last[1]:
                self.estimate[job] = max(1, min(self.requests[job], (last[0] + last[1]) // 2))
        self._join(job)
        return self.rank[job]

    cdef void _join(self, int job) noexcept nogil:
        """Insert the job into the queue at its place."""
        cdef Py_ssize_t low = 0, high = self.n_line, middle
        cdef int place = self.rank[job]
        self.status[job] = WAITING
        if self.simple:
            if self.queue.head < self.queue.tail and place < self.queue.head:
                self.blocked = False
            waiting_join(&self.queue, place, self.nodes[job], self.estimate[job])
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

    cdef int _examine(self, Py_ssize_t first) noexcept nogil:
        """Start the jobs that can start now; new ones have places from `first` on.  Returns the code that `_run` returns."""
        cdef long long previous_extra
        if not self.blocked or self.machines_changed:
            self.blocked = False
            waiting_find_head(&self.queue)
            while self.queue.head < self.queue.tail and self.queue.nodes[self.queue.head] <= self.occupancy.n_idle:
                if not self._start(self.at_rank[self.queue.head]):
                    return 2
                waiting_find_head(&self.queue)
            if self.queue.head == self.queue.tail:
                return 0
            self.blocked = True
            first = self.queue.head + 1
            if self.depth and self.occupancy.n_idle > 0:
                self._reserve()
        elif self.depth and self.occupancy.n_idle > 0 and self.shadow < self.now:
            # Jobs that exceed their estimates have delayed the shadow time.  Its distance from now has not grown, so a
            # job that could not be backfilled before can start now only if the number of extra machines has changed.
            previous_extra = self.extra
            self._reserve()
            if self.extra != previous_extra:
                first = self.queue.head + 1
        if not self.depth or self.occupancy.n_idle == 0:
            return 0
        return self._fill(first)

    cdef inline void _reserve(self) noexcept nogil:
        """Make a reservation for the head of the queue, which does not fit."""
        self._reserve_number(self.queue.nodes[self.queue.head])

    cdef void _reserve_number(self, long long need) noexcept nogil:
        """Compute the shadow time and the number of extra machines for a job that does not fit."""
        cdef long long n = self.occupancy.n_idle
        cdef Py_ssize_t k = self.n_running
        while k > 0 and n < need:
            k -= 1
            n += self.estimated_ends[k].nodes
        if n < need:
            self.shadow, self.extra = NEVER, self.machines
            return
        self.shadow = max(self.estimated_ends[k].at, self.now)
        while k > 0 and self.estimated_ends[k - 1].at <= self.shadow:
            k -= 1
            n += self.estimated_ends[k].nodes
        self.extra = n - need

    cdef int _fill(self, Py_ssize_t j) noexcept nogil:
        """Backfill: start the jobs from j on that do not delay the head.  Returns the code that `_run` returns."""
        cdef long long slack = self.shadow - self.now
        while self.occupancy.n_idle > 0:
            j = waiting_next(&self.queue, j, self.occupancy.n_idle, self.extra, slack)
            if j == self.queue.tail:
                break
            if self.queue.estimate[j] > slack:
                self.extra -= self.queue.nodes[j]
            if not self._start(self.at_rank[j]):
                return 2
            j += 1
        return 0

    # -- other orders and reservations ----------------------------------------------------------------------

    cdef int _examine_line(self) noexcept nogil:
        """Start the jobs that can start now, by the line of all waiting jobs.  Returns as `_run` does."""
        cdef int failed = 0
        if self.conservative:
            failed = self._examine_reservations()
        elif self.n_line and self.occupancy.n_idle:
            if self.order:
                self._sort()
            failed = self._backfill_line()
        self._close_line()
        return failed

    cdef void _close_line(self) noexcept nogil:
        """Remove the jobs that no longer wait from the line."""
        cdef Py_ssize_t k, n = 0
        for k in range(self.n_line):
            if self.status[self.line[k]] == WAITING:
                self.line[n] = self.line[k]
                n += 1
        self.n_line = n

    cdef inline bint _is_limited(self, int job) noexcept nogil:
        """Return whether a job must wait for other jobs of its user."""
        return self.limit > 0 and self.in_use[self.user[job]] + self.nodes[job] > self.limit

    cdef int _backfill_line(self) noexcept nogil:
        cdef Py_ssize_t k = 0, reservations = 0, idle, free_outside
        cdef long long slack, start
        cdef int job, first
        cdef bint has_profile = False
        # the jobs whose turn it is, as long as they fit
        while k < self.n_line and self.occupancy.n_idle > 0:
            job = self.line[k]
            if not self._is_limited(job):
                if self.nodes[job] > self.occupancy.n_idle:
                    break
                if not self._start(job):
                    return 2
            k += 1
        if k == self.n_line or self.depth == 0 or self.occupancy.n_idle == 0:
            return 0
        if self.depth == 1:
            self._reserve_number(self.nodes[self.line[k]])
            slack = self.shadow - self.now
            if self.concrete:
                self._keep_machines(self.nodes[self.line[k]])
            for k in range(k + 1, self.n_line):
                job, idle = self.line[k], self.occupancy.n_idle
                if idle == 0:
                    break
                if self.nodes[job] > idle or self._is_limited(job):
                    continue
                if self.estimate[job] <= slack:
                    first = -1
                elif self.concrete:
                    if self.nodes[job] > self._count_outside():
                        continue
                    first = self._take_outside(self.nodes[job])
                elif self.nodes[job] <= self.extra:
                    self.extra -= self.nodes[job]
                    first = -1
                else:
                    continue
                if not self._start_on(job, first):
                    return 2
            return 0
        if not self._fill_profile():
            return 1
        while k < self.n_line and self.occupancy.n_idle > 0:
            job = self.line[k]
            k += 1
            if self._is_limited(job) or (reservations == self.depth and self.nodes[job] > self.occupancy.n_idle):
                continue
            start = profile_earliest(&self.profile, self.nodes[job], self.estimate[job], self.now, NEVER)
            if start == self.now:
                if not self._start(job):
                    return 2
            elif reservations == self.depth or start == NEVER:
                continue
            else:
                reservations += 1
            if not profile_add(&self.profile, start, start + self.estimate[job], -self.nodes[job]):
                return 1
        return 0

    cdef bint _fill_profile(self) noexcept nogil:
        """Fill the profile with the free machines, and those of the running jobs from their estimated ends on."""
        cdef Py_ssize_t k
        if not profile_clear(&self.profile, self.now, self.occupancy.n_idle):
            return False
        for k in range(self.n_running - 1, -1, -1):
            if not profile_add(&self.profile, max(self.estimated_ends[k].at, self.now + 1), NEVER,
                               self.estimated_ends[k].nodes):
                return False
        return True

    cdef void _keep_machines(self, Py_ssize_t need) noexcept nogil:
        """Keep the `need` machines of the lowest numbers that are free at the shadow time, by the estimates."""
        cdef Py_ssize_t k, count
        cdef int s
        cdef unsigned long long mask
        for k in range(self.occupancy.words):
            self.reserved_machines[k] = self.occupancy.idle[k]
        for k in range(self.n_running - 1, -1, -1):
            if self.estimated_ends[k].at > self.shadow:
                break
            s = self.spans[self.estimated_ends[k].job]
            while s >= 0:
                self.reserved_machines[self.occupancy.span[s].word] |= self.occupancy.span[s].mask
                s = self.occupancy.span[s].next
        if self.shadow == NEVER:
            need = 0
        for k in range(self.occupancy.words):
            mask = self.reserved_machines[k]
            count = count_bits(mask)
            while count > need:            # without the highest ones
                mask ^= <unsigned long long> 1 << highest_bit(mask)
                count -= 1
            self.reserved_machines[k] = mask
            need -= count

    cdef Py_ssize_t _count_outside(self) noexcept nogil:
        """Return the number of free machines that are not kept."""
        cdef Py_ssize_t k, n = 0
        for k in range(self.occupancy.words):
            n += count_bits(self.occupancy.idle[k] & ~self.reserved_machines[k])
        return n

    cdef int _take_outside(self, int n) noexcept nogil:
        """Take the lowest n free machines that are not kept, which must exist; return their first span."""
        cdef int first = -1, last = -1, s
        cdef Py_ssize_t k = 0
        cdef unsigned long long mask
        self.occupancy.n_idle -= n
        while n > 0:
            mask = self.occupancy.idle[k] & ~self.reserved_machines[k]
            while count_bits(mask) > n:
                mask ^= <unsigned long long> 1 << highest_bit(mask)
            if mask:
                n -= count_bits(mask)
                occupancy_unset(&self.occupancy, <int> k, mask)
                s = occupancy_span(&self.occupancy, <int> k, mask)
                if last < 0:
                    first = s
                else:
                    self.occupancy.span[last].next = s
                last = s
            k += 1
        return first

    # -- conservative backfilling ---------------------------------------------------------------------------

    cdef int _examine_reservations(self) noexcept nogil:
        """Make and move reservations, and start the jobs whose reserved start has come."""
        cdef Py_ssize_t k
        cdef int failed, job
        if self.order:
            self._sort()
        if self.machines_changed or self.profile.n == 0:
            # after a failure all reservations are made anew
            if not self._fill_profile():
                return 1
            for k in range(self.n_line):
                self.reserved[self.line[k]] = -1
        else:
            profile_forget(&self.profile, self.now)
        while True:
            failed = self._place_line()
            if failed:
                return failed
            if not self.is_compressible:
                break
        self.next_reserved = NEVER
        for k in range(self.n_line):
            job = self.line[k]
            if self.status[job] == WAITING and self.reserved[job] >= 0 and not self.waits_for_end[job]:
                self.next_reserved = min(self.next_reserved, self.reserved[job])
        return 0

    cdef int _place_line(self) noexcept nogil:
        """Go through the line once; set `is_compressible` again if a reservation was moved to a later start."""
        cdef bint compresses = self.is_compressible, is_moved
        cdef Py_ssize_t k
        cdef int job
        cdef long long start, sooner
        cdef char waits
        self.is_compressible = False
        for k in range(self.n_line):
            job, start = self.line[k], self.reserved[self.line[k]]
            if self.status[job] != WAITING:
                continue                   # it has started in an earlier pass
            is_moved = 0 <= start <= self.now and self.nodes[job] > self.occupancy.n_idle
            if start < 0:
                start = self._earliest(job, NEVER)
            elif is_moved:                 # a job that runs beyond its estimate still has the machines
                if not self._unreserve(job):
                    return 1
                start, self.is_compressible = self._earliest(job, NEVER), True
            elif start <= self.now:
                if not self._unreserve(job):
                    return 1
                start = self.now
            elif compresses:
                waits, sooner = self.waits_for_end[job], self._earliest(job, start)
                if sooner == NEVER:
                    self.waits_for_end[job] = waits
                    continue
                if not self._unreserve(job):
                    return 1
                start = sooner
            else:
                continue
            self.reserved[job] = -1 if start == NEVER else start  # too few machines are up
            if start != NEVER and not profile_add(&self.profile, start, start + self.estimate[job], -self.nodes[job]):
                return 1
            if start == self.now and not self._start(job):
                return 2
        return 0

    cdef long long _earliest(self, int job, long long last) noexcept nogil:
        """Return the earliest start of a job before `last` by the profile; one now needs machines that are free."""
        cdef long long start = profile_earliest(&self.profile, self.nodes[job], self.estimate[job], self.now, last)
        self.waits_for_end[job] = False
        if start == self.now and self.nodes[job] > self.occupancy.n_idle:
            start = profile_earliest(&self.profile, self.nodes[job], self.estimate[job], self.now + 1, last)
            self.waits_for_end[job] = start == self.now + 1
        return start

    cdef bint _unreserve(self, int job) noexcept nogil:
        """Remove the reservation of a job from the profile; return False if memory runs out."""
        cdef long long start = self.reserved[job]
        return profile_add(&self.profile, start, start + self.estimate[job], self.nodes[job])

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

    # -- the running jobs -----------------------------------------------------------------------------------

    cdef inline Py_ssize_t _place(self, long long at, int job) noexcept nogil:
        """Return the index in `estimated_ends` of the first entry that is not later than (at, job)."""
        cdef Py_ssize_t low = 0, high = self.n_running, middle
        while low < high:
            middle = (low + high) // 2
            if self.estimated_ends[middle].at > at or (self.estimated_ends[middle].at == at
                                                 and self.estimated_ends[middle].job > job):
                low = middle + 1
            else:
                high = middle
        return low

    cdef inline bint _start(self, int job) noexcept nogil:
        """Start a job that fits on the free machines of the lowest numbers; return False if it would end too late."""
        return self._start_on(job, -1)

    cdef bint _start_on(self, int job, int span) noexcept nogil:
        """Start a job on the machines from a span on, -1 for the free ones of the lowest numbers."""
        if self.length[job] > _LAST - self.now:
            return False
        if self.simple:
            waiting_leave(&self.queue, self.rank[job])
        self.start[job] = self.now
        if self.first_start[job] < 0:
            self.first_start[job] = self.now
        if self.conservative:
            self.reserved[job] = -1
        self.spans[job] = occupancy_take(&self.occupancy, self.nodes[job]) if span < 0 else span
        self._decay(self.user[job])
        self.in_use[self.user[job]] += self.nodes[job]
        self._schedule(job)
        return True

    cdef void _schedule(self, int job) noexcept nogil:
        """Add the job, which has its machines and its `start`, to the running jobs."""
        cdef long long at = self.start[job] + self.estimate[job]
        cdef Py_ssize_t k = self._place(at, job)
        cdef Entry end
        self.status[job] = RUNNING
        memmove(&self.estimated_ends[k + 1], &self.estimated_ends[k], (self.n_running - k) * sizeof(EstimatedEnd))
        self.estimated_ends[k].at, self.estimated_ends[k].job, self.estimated_ends[k].nodes = at, job, self.nodes[job]
        end.at, end.number = self.start[job] + self.length[job], job
        heap_push(self.ends, self.n_running, end)
        self.n_running += 1

    cdef bint _end(self) noexcept nogil:
        """End the running job that ends first; return False if memory for the log runs out."""
        cdef int job = <int> self.ends[0].number
        cdef Py_ssize_t k
        if not self._leave(job, True):
            return False
        self.finish[job] = self.now
        self.status[job] = ENDED
        self.last_runs[self.user[job], 1] = self.last_runs[self.user[job], 0]
        self.last_runs[self.user[job], 0] = self.length[job]
        if self.conservative and self.start[job] + self.estimate[job] > self.now:
            self.is_compressible = True
            if not profile_add(&self.profile, self.now, self.start[job] + self.estimate[job], self.nodes[job]):
                return False
        self.ended += 1
        k = self._place(self.start[job] + self.estimate[job], job)
        heap_pop(self.ends, self.n_running)
        self.n_running -= 1
        memmove(&self.estimated_ends[k], &self.estimated_ends[k + 1], (self.n_running - k) * sizeof(EstimatedEnd))
        return True

    cdef bint _leave(self, int job, bint completed) noexcept nogil:
        """Free the machines of a job, which waits again unless `completed`; return False if memory runs out."""
        cdef long long ran = self.now - self.start[job]
        cdef int s = self.spans[job]
        cdef Py_ssize_t base, u
        cdef unsigned long long mask
        if self.log and ran > 0 and not self._log_run(job, completed):
            return False
        while s >= 0:
            mask, base = self.occupancy.span[s].mask, 64 * <Py_ssize_t> self.occupancy.span[s].word
            if mask == ~(<unsigned long long> 0):
                for u in range(base, base + 64):
                    self.busy_time[u] += ran
                    self.done[u] += completed
            else:
                while mask:
                    u = base + lowest_bit(mask)
                    self.busy_time[u] += ran
                    self.done[u] += completed
                    mask &= mask - 1
            if not completed:
                mask = self.occupancy.span[s].mask
                while mask:
                    self.interrupted[base + lowest_bit(mask)] += 1
                    mask &= mask - 1
            s = occupancy_return(&self.occupancy, s)
        self.spans[job] = -1
        self.blocked = False
        self._decay(self.user[job])
        self.in_use[self.user[job]] -= self.nodes[job]
        if not completed:
            self.cut[job] += 1
            self._join(job)
        return True

    cdef bint _log_run(self, int job, bint completed) noexcept nogil:
        """Add the run of a job to the log; return False if memory runs out."""
        cdef const Span* span
        cdef int s = self.spans[job]
        if not runlog_add(&self.history, job, self.start[job], self.now, completed,
                          min(<Py_ssize_t> self.nodes[job], self.occupancy.words)):
            return False
        while s >= 0:
            span = &self.occupancy.span[s]
            runlog_add_part(&self.history, span.word, span.mask)
            s = span.next
        return True
