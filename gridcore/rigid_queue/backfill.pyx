"""Rigid parallel jobs on a grid of identical machines: first come, first served, and EASY backfilling.

Times are int64 nanoseconds.  A job runs on the number of machines that it requests, on all of them at the same
time: the free ones with the lowest numbers.  The queue is in order of job number.  At one instant ends are handled
first, then submissions, then starts.  Jobs are started from the head of the queue as long as the head fits.  Without
backfilling no other job starts.  With backfilling a head that does not fit gets a reservation:

- Its shadow time is the first instant at which, by the estimates, enough machines are free for it.  A job that runs
  beyond its estimate counts as ending now.
- Its extra is the number of further machines that are free then, after all ends up to that instant.

The other jobs start in queue order if they fit the free machines, and either end by the shadow time according to their
estimates, or request at most extra machines, which are then subtracted from extra.  If too few machines are up for
the head, there is no shadow time, and every job that fits is started.

The queue is examined only when a job has ended or was submitted, or a machine has failed or recovered.  At other
instants no job starts, although the shadow time moves while jobs run beyond their estimates.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling" (2001).  The reference
implementation is `tests.reference.backfill`.
"""

from libc.stdlib cimport free
from libc.string cimport memmove

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices, integers
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.bits cimport lowest_bit
from gridcore.common.heap cimport Entry, heap_pop, heap_push
from gridcore.common.memory cimport reallocate
from gridcore.rigid_queue.occupancy cimport (
    Occupancy, Span, occupancy_add, occupancy_clear, occupancy_free, occupancy_make, occupancy_mark,
    occupancy_meets, occupancy_remove, occupancy_return, occupancy_take, occupancy_take_one,
)
from gridcore.rigid_queue.run_log cimport (
    RunLog, runlog_add, runlog_add_part, runlog_copy, runlog_fill, runlog_free, runlog_machines, runlog_rows,
)
from gridcore.rigid_queue.waiting cimport (
    Waiting, waiting_clear, waiting_find_head, waiting_free, waiting_join, waiting_leave, waiting_make,
    waiting_next,
)

import numpy as np

from gridcore.common.state import FLAG, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only

__all__ = ["BackfillQueue"]

# The latest end and the longest duration of a job (2**62 ns); the sum of an instant and an estimate does not overflow.
cdef long long _LAST = 4611686018427387904
_INSTANT = (0, _LAST + 1)
_STATE = {
    "now": NumberEntry(), "changed": NumberEntry(0, 2), "coming": TableEntry({"job": (0, "jobs"), "at": _INSTANT}),
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


cdef class BackfillQueue:
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
    easy
        Whether to backfill; otherwise no job starts before a job that is ahead of it in the queue.
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
    cdef readonly bint easy, log
    cdef const int[::1] nodes
    cdef const long long[::1] length, estimate
    cdef char[::1] status
    cdef long long[::1] first_start, start, finish, cut
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
                  bint easy=True, bint log=False):
        cdef Py_ssize_t k
        if isinstance(machines, bool) or not isinstance(machines, int | np.integer) or not 1 <= machines < 2**31:
            raise ValueError(f"machines must be in 1..{2**31 - 1}, got {machines!r}")
        self.machines, self.easy, self.log = machines, easy, log
        self.nodes = indices(nodes, "nodes", 1, self.machines + 1).astype(np.int32)
        self.length = indices(run, "run", 1, LATEST + 1)
        self.estimate = indices(estimate, "estimate", 1, LATEST + 1)
        self.jobs = self.nodes.shape[0]
        check_lengths(self.jobs, self.length.shape[0], "nodes", "run")
        check_lengths(self.jobs, self.estimate.shape[0], "nodes", "estimate")
        if self.jobs >= 2**31 - 1:
            raise ValueError(f"nodes must have fewer than {2**31 - 1} entries, got {self.jobs}")
        self.status = np.zeros(self.jobs, np.int8)
        self.first_start = np.full(self.jobs, -1, np.int64)
        self.start = np.full(self.jobs, -1, np.int64)
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
        waiting_make(&self.queue, self.jobs)
        occupancy_make(&self.occupancy, self.machines)
        self._clear()

    def __dealloc__(self):
        free(self.ends)
        free(self.estimated_ends)
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
        self.n_running = 0
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
                          "coming": coming, "on": job_on,
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
                            start=instants, finish=instants),
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
        self.queue.tail = self.coming[self.n_joined - 1] + 1 if self.n_joined else 0
        for u in range(self.machines - 1, -1, -1):
            if job_on[u] >= 0:
                occupancy_take_one(&self.occupancy, &self.spans[job_on[u]], u)
        for k in range(self.jobs):
            if self.status[k] == RUNNING:
                self._schedule(<int> k)

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or job."""
        return {name: np.asarray(column) for name, column in (
            ("status", self.status), ("first_start", self.first_start), ("start", self.start),
            ("finish", self.finish), ("cut", self.cut), ("down", self.down), ("busy", self.busy_time),
            ("done", self.done), ("interrupted", self.interrupted))}

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
                self._join(self.coming[self.n_joined])
                self.n_joined += 1
            failed = self._examine(first)
            if failed:
                # make the next call examine the whole queue
                self.machines_changed = True
                return failed
            self.machines_changed = False
        return 0

    # -- the queue ------------------------------------------------------------------------------------------

    cdef inline void _join(self, int job) noexcept nogil:
        """Insert the job into the queue at the place of its number."""
        self.status[job] = WAITING
        waiting_join(&self.queue, job, self.nodes[job], self.estimate[job])

    cdef int _examine(self, Py_ssize_t first) noexcept nogil:
        """Start the jobs that can start now; those from `first` on are new.  Returns the code that `_run` returns."""
        cdef long long previous_extra
        if not self.blocked or self.machines_changed:
            self.blocked = False
            waiting_find_head(&self.queue)
            while self.queue.head < self.queue.tail and self.queue.nodes[self.queue.head] <= self.occupancy.n_idle:
                if not self._start(self.queue.head):
                    return 2
                waiting_find_head(&self.queue)
            if self.queue.head == self.queue.tail:
                return 0
            self.blocked = True
            first = self.queue.head + 1
            if self.easy and self.occupancy.n_idle > 0:
                self._reserve()
        elif self.easy and self.occupancy.n_idle > 0 and self.shadow < self.now:
            # Jobs that exceed their estimates have delayed the shadow time.  Its distance from now has not grown, so a
            # job that could not be backfilled before can start now only if the number of extra machines has changed.
            previous_extra = self.extra
            self._reserve()
            if self.extra != previous_extra:
                first = self.queue.head + 1
        if not self.easy or self.occupancy.n_idle == 0:
            return 0
        return self._fill(first)

    cdef void _reserve(self) noexcept nogil:
        """Compute the shadow time and the number of extra machines for the head of the queue, which does not fit."""
        cdef long long n = self.occupancy.n_idle, need = self.queue.nodes[self.queue.head]
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
            if not self._start(j):
                return 2
            j += 1
        return 0

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

    cdef bint _start(self, Py_ssize_t job) noexcept nogil:
        """Start a job that fits; return False if it would end too late."""
        if self.length[job] > _LAST - self.now:
            return False
        waiting_leave(&self.queue, job)
        self.start[job] = self.now
        if self.first_start[job] < 0:
            self.first_start[job] = self.now
        self.spans[job] = occupancy_take(&self.occupancy, self.nodes[job])
        self._schedule(<int> job)
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
