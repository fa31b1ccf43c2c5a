"""Rigid jobs on identical machines, and the events of their runs: the base of `JobQueue` and `ManualQueue`.

Times are int64 nanoseconds.  A job runs on the number of machines that it requests, on all of them at the same time:
by default the free ones with the lowest numbers.  At one instant ends are handled first, then submissions, and then
the queue is examined; which jobs start then is up to the subclass.

Machines may be divided into partitions with consecutive numbers; a job uses machines of its own partition only.
"""

from libc.stdlib cimport free
from libc.string cimport memmove

from gridcore.common.arguments cimport _Guard, check_lengths, guard, indices, integers
from gridcore.common.bits cimport lowest_bit
from gridcore.common.heap cimport Entry, heap_pop, heap_push
from gridcore.common.instants cimport LATEST, NEVER
from gridcore.common.memory cimport reallocate
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.rigid_queue.occupancy cimport (
    Occupancy, Span, occupancy_add, occupancy_clear, occupancy_free, occupancy_make, occupancy_mark,
    occupancy_meets, occupancy_remove, occupancy_return, occupancy_take, occupancy_take_one,
)
from gridcore.rigid_queue.run_log cimport (
    runlog_add, runlog_add_part, runlog_copy, runlog_fill, runlog_free, runlog_machines, runlog_rows,
)
from gridcore.rigid_queue.steps cimport Profile, profile_add, profile_clear

import numpy as np

from gridcore.common.state import FLAG, ArrayEntry, NumberEntry, TableEntry, array_entries, read, read_only

__all__ = ["JobRuns"]

_INSTANT = (0, LAST_END + 1)
_STATE = {
    "now": NumberEntry(), "must_examine": NumberEntry(0, 2), "wake_at": NumberEntry(),
    "coming": TableEntry({"job": (0, "jobs"), "at": _INSTANT}),
    "masks": ArrayEntry(np.uint64), "words": ArrayEntry(np.int64, ("masks",), (0, "groups")),
    "runs": TableEntry({
        "job": (0, "jobs"), "start": _INSTANT, "end": _INSTANT, "completed": FLAG, "parts": (0, None),
    }, totals={"parts": "masks"}),
}

#: Instants between two looks at signals, such as an interrupt by Ctrl-C.
cdef int INSTANTS = 256


cdef class JobRuns:
    """Rigid jobs on machines, with their submissions, runs and ends; a base class without a queue.

    Attributes
    ----------
    machines, jobs, partitions
        Numbers of them.
    now
        The instant reached, ns.
    log
        Whether every run is kept for `starts`.
    """

    def __cinit__(self):
        if type(self) is JobRuns:
            raise TypeError("JobRuns is a base class; use JobQueue or ManualQueue")
        self.wake_at = NEVER

    cdef int _set_up(self, str sizes_name, machines, nodes, run, estimate, sizes, partition, releases,
                     bint log) except -1:
        """Allocate memory for the jobs, after a check of the arguments; see the subclasses."""
        if isinstance(machines, bool) or not isinstance(machines, int | np.integer) or not 1 <= machines < 2**31:
            raise ValueError(f"machines must be in 1..{2**31 - 1}, got {machines!r}")
        self.machines, self.log, self.sizes_name = machines, log, sizes_name
        self.nodes = indices(nodes, sizes_name, 1, 2**31).astype(np.int32)
        self.length = indices(run, "run", 1, LATEST + 1)
        self.estimate = np.array(indices(estimate, "estimate", 1, LATEST + 1))
        self.jobs = self.nodes.shape[0]
        check_lengths(self.jobs, self.length.shape[0], sizes_name, "run")
        check_lengths(self.jobs, self.estimate.shape[0], sizes_name, "estimate")
        if self.jobs >= 2**31 - 1:
            raise ValueError(f"{sizes_name} must have fewer than {2**31 - 1} entries, got {self.jobs}")
        sizes = np.array([self.machines]) if sizes is None else indices(sizes, "sizes", 1, self.machines + 1)
        if not 1 <= len(sizes) <= self.machines or sizes.sum() != self.machines:
            raise ValueError(f"sizes must add up to {self.machines}, the number of machines, got {sizes.tolist()}")
        partition = np.zeros(self.jobs, np.int64) if partition is None else indices(
            partition, "partition", 0, len(sizes))
        check_lengths(self.jobs, len(partition), sizes_name, "partition")
        if releases is not None:
            self.releases = releases
            check_lengths(self.jobs, self.releases.applications, sizes_name, "releases")
        self.partitions = len(sizes)
        self.partition = partition.astype(np.int32)
        self.partition_of_machine = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
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
        return 0

    cdef int _set_up_running(self, Py_ssize_t limit) except -1:
        """Allocate memory for the running jobs, of which there are at most so many."""
        limit = min(self.jobs, limit) + 1
        self.ends = <Entry*> reallocate(NULL, limit * sizeof(Entry))
        self.estimated_ends = <EstimatedEnd*> reallocate(NULL, limit * sizeof(EstimatedEnd))
        return 0

    cdef int _set_up_machines(self) except -1:
        """Allocate memory for machines that jobs have to themselves, after `_set_up`.

        Raises
        ------
        ValueError
            If a job does not fit on the machines of its partition.
        """
        cdef Py_ssize_t k
        sizes = np.bincount(self.partition_of_machine)
        for job in np.flatnonzero(sizes[np.asarray(self.partition)] < np.asarray(self.nodes))[:1]:
            raise ValueError(f"nodes[{job}] must be in 1..{sizes[self.partition[job]]}, the machines of its partition, "
                             f"got {self.nodes[job]}")
        self._set_up_running(self.machines)      # each running job has a machine of its own
        self.occupancy = <Occupancy*> reallocate(NULL, self.partitions * sizeof(Occupancy))
        for k in range(self.partitions):
            self.occupancy[k].idle = self.occupancy[k].nonzero = NULL
            self.occupancy[k].span = NULL
        for k in range(self.partitions):
            occupancy_make(&self.occupancy[k], self.machines)
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t k
        free(self.ends)
        free(self.estimated_ends)
        if self.occupancy != NULL:
            for k in range(self.partitions):
                occupancy_free(&self.occupancy[k])
        free(self.occupancy)
        runlog_free(&self.history)

    cdef void _clear(self) noexcept nogil:
        """Empty the queue, drop all running jobs, and make each machine that is up idle."""
        cdef Py_ssize_t k
        self._clear_machines()
        for k in range(self.jobs):
            self.spans[k] = -1
        self.n_running = 0
        self._empty_queue()
        for k in range(self.machines):
            if not self.down[k]:
                self._set_up_or_down(k, True)

    # -- hooks that subclasses override -----------------------------------------------------------------------

    cdef int _examine(self) noexcept nogil:
        """Start the jobs that start now; return `GO_ON`, or why the run does not."""
        return PAUSE

    cdef void _join(self, int job, bint is_new) noexcept nogil:
        """Add a job that waits to the queue: one that is submitted, or one that is cut off."""

    cdef void _before_start(self, int job) noexcept nogil:
        """Handle that a job starts now, on machines that are still free."""

    cdef void _before_leave(self, int job) noexcept nogil:
        """Handle that a job, whose machines are still taken, ends or is cut off."""

    cdef bint _after_end(self, int job) noexcept nogil:
        """Handle that a job has ended; return False if memory runs out."""
        return True

    cdef long long _next_correction(self) noexcept nogil:
        """Return the first instant at which the estimate of a running job is corrected; NEVER if there is none."""
        return NEVER

    cdef void _correct(self) noexcept nogil:
        """Correct the estimates of running jobs that are due now."""

    cdef void _handle_over(self, int job) noexcept nogil:
        """Handle that a job ended now, or was rejected: jobs may be submitted after it."""
        if self.releases is not None:
            self.releases.end_one(job, self.now)

    cdef void _place_joined(self, known) except *:
        """Restore the places of the submitted jobs, int64[k] in order of submission, if these determine places."""

    cdef void _empty_queue(self) noexcept nogil:
        """Remove all jobs from the queue."""

    cdef int _rebuild_queue(self, known) except -1:
        """Complete the queue after a state was restored; `known` are the submitted jobs, int64[k], ascending."""
        return 0

    # -- the machines, for subclasses whose jobs share them ----------------------------------------------------

    cdef void _clear_machines(self) noexcept nogil:
        """Make no machine free, and forget the machines of all jobs."""
        cdef Py_ssize_t k
        for k in range(self.partitions):
            occupancy_clear(&self.occupancy[k])

    cdef void _set_up_or_down(self, Py_ssize_t machine, bint is_up) noexcept nogil:
        """Make a machine on which no job runs free, or unavailable."""
        cdef Occupancy* occupancy = &self.occupancy[self.partition_of_machine[machine]]
        if is_up:
            occupancy_add(occupancy, machine)
        else:
            occupancy_remove(occupancy, machine)

    cdef int _take(self, int job) noexcept nogil:
        """Take the free machines with the lowest numbers for a job, which must fit; return its first span."""
        return occupancy_take(&self.occupancy[self.partition[job]], self.nodes[job])

    cdef void _give_back(self, int job, long long ran, bint completed) noexcept nogil:
        """Free the machines of a job that has run for `ran` ns, and add its run to their totals."""
        cdef Occupancy* occupancy = &self.occupancy[self.partition[job]]
        cdef int s = self.spans[job]
        cdef Py_ssize_t base, u
        cdef unsigned long long mask
        while s >= 0:
            mask, base = occupancy.span[s].mask, 64 * <Py_ssize_t> occupancy.span[s].word
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
                mask = occupancy.span[s].mask
                while mask:
                    self.interrupted[base + lowest_bit(mask)] += 1
                    mask &= mask - 1
            s = occupancy_return(occupancy, s)

    cdef bint _log_machines(self, int job, bint completed) noexcept nogil:
        """Add the run of a job, with its machines, to the log; return False if memory runs out."""
        cdef const Occupancy* occupancy = &self.occupancy[self.partition[job]]
        cdef const Span* span
        cdef int s = self.spans[job]
        if not runlog_add(&self.history, job, self.start[job], self.now, completed,
                          min(<Py_ssize_t> self.nodes[job], occupancy.words)):
            return False
        while s >= 0:
            span = &occupancy.span[s]
            runlog_add_part(&self.history, span.word, span.mask)
            s = span.next
        return True

    cdef bint _meets(self, int job, const unsigned long long* machines) noexcept nogil:
        """Return whether a running job uses any of these machines, which are bits."""
        return occupancy_meets(&self.occupancy[self.partition[job]], self.spans[job], machines)

    cdef dict _machine_entries(self):
        """Return the entries of a state about the machines of running jobs."""
        return {"on": ArrayEntry(np.int32, ("machines",), (-1, "jobs"))}

    cdef dict _machine_state(self):
        """Return the values of these entries."""
        cdef Py_ssize_t k
        cdef int job
        job_on = np.full(self.machines, -1, np.int32)
        for k in range(self.n_running):
            job = self.estimated_ends[k].job
            occupancy_mark(&self.occupancy[self.partition[job]], self.spans[job], job, job_on)
        return {"on": job_on}

    cdef object _restore_machines(self, dict entries):
        """Give running jobs their machines by these entries; return which jobs run: bool[jobs].

        A job runs if it has as many machines of its partition as it requests; otherwise it waits.
        """
        cdef Py_ssize_t u
        on = entries["on"]
        on[entries["down"] != 0] = -1
        on[np.append(self.partition, -1)[on] != np.asarray(self.partition_of_machine)] = -1
        runs = np.bincount(on[on >= 0], minlength=self.jobs) == np.asarray(self.nodes)
        on[~np.append(runs, False)[on]] = -1
        cdef const int[::1] job_on = on
        for u in range(self.machines - 1, -1, -1):
            if job_on[u] >= 0:
                occupancy_take_one(&self.occupancy[self.partition_of_machine[u]], &self.spans[job_on[u]], u)
        return runs

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

    def starts(self) -> tuple[Integers, ...]:
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
        runs, masks = np.empty((self.history.n, 5), np.int64), np.empty(self.history.n_parts, np.uint64)
        words = np.empty(self.history.n_parts, np.int64)
        runlog_copy(&self.history, runs, masks, words)
        coming = np.stack((np.asarray(self.coming)[self.n_joined:self.n_coming],
                           np.asarray(self.coming_at)[self.n_joined:self.n_coming]), axis=1).astype(np.int64)
        return read_only({**self._columns(), **self._machine_state(), "now": self.now,
                          "must_examine": int(self.must_examine), "wake_at": self.wake_at, "coming": coming,
                          "runs": runs, "masks": masks, "words": words})

    def setstate(self, state):
        """Restore a state of `getstate` of a queue with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        columns = self._columns()
        entries = read(state, {**array_entries(columns, _INSTANT, **self._limits()), **_STATE,
                               **self._machine_entries()},
                       jobs=self.jobs, machines=self.machines, groups=(self.machines + 63) // 64)
        now, status = entries["now"], entries["status"]
        for name, column in columns.items():
            if name != "status":
                column[...] = entries[name]
        self._clear()
        runs = self._restore_machines(entries)
        status[status == RUNNING] = WAITING
        status[runs] = RUNNING
        # jobs are submitted in their order
        last = np.flatnonzero(status > COMING).max(initial=-1)
        status[:last + 1][status[:last + 1] == COMING] = WAITING
        columns["status"][...] = status
        coming_at = np.full(self.jobs, now)
        coming_at[entries["coming"][:, 0]] = entries["coming"][:, 1]
        runlog_fill(&self.history, entries["runs"], entries["masks"], entries["words"])
        self.now, self.must_examine, self.ended = now, entries["must_examine"], int((status == ENDED).sum())
        self.wake_at = entries["wake_at"]
        known = np.flatnonzero(status >= COMING)
        self.n_coming, self.n_joined = len(known), int((status > COMING).sum())
        np.asarray(self.coming)[:self.n_coming] = known
        np.asarray(self.coming_at)[:self.n_coming] = coming_at[known]
        if self.releases is not None:
            self._place_joined(known[np.argsort(np.asarray(self.submitted)[known], kind="stable")])
        for k in range(self.jobs):
            if self.status[k] == WAITING:
                self._join(<int> k, False)
        for k in range(self.jobs):
            if self.status[k] == RUNNING:
                self._schedule(<int> k)
        self._rebuild_queue(known[:self.n_joined])

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or job."""
        return {name: np.asarray(column) for name, column in (
            ("status", self.status), ("first_start", self.first_start), ("start", self.start),
            ("finish", self.finish), ("cut", self.cut), ("down", self.down), ("busy", self.busy_time),
            ("done", self.done), ("interrupted", self.interrupted), ("estimate", self.estimate),
            ("submitted", self.submitted))}

    cdef dict _limits(self):
        """Return the limits of the columns other than instants: name -> low and end."""
        instants = (-1, LAST_END + 1)
        return {"status": (0, ENDED + 1), "down": FLAG, "first_start": instants, "start": instants,
                "finish": instants, "estimate": (1, LATEST + 1)}

    # -- events ---------------------------------------------------------------------------------------------

    def submit(self, jobs: ArrayLike, now: ArrayLike):
        """Put `jobs` (int64[k], ascending) at the end of the queue at `now` ns; nothing starts before `run`.

        A job is submitted once, and never after one with a higher number.  A queue with `releases` submits all jobs itself.

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
        if self.releases is not None:
            raise ValueError("jobs must be submitted by releases, which the queue has")
        if is_array:
            at = integers(now, "now")
            check_lengths(ids.shape[0], at.shape[0], "jobs", "now")
        elif not earliest <= now <= LAST_END:
            raise ValueError(f"now must be in {earliest}..{LAST_END}, got {now}")
        else:
            instant = now
        for k in range(ids.shape[0]):
            if ids[k] <= last:
                raise ValueError(f"jobs[{k}] must be above {last}, the job submitted before it, got {ids[k]}")
            if is_array and not earliest <= at[k] <= LAST_END:
                raise ValueError(f"now[{k}] must be in {earliest}..{LAST_END}, got {at[k]}")
            last, earliest = ids[k], at[k] if is_array else instant
        for k in range(ids.shape[0]):
            self.coming[self.n_coming], self.coming_at[self.n_coming] = <int> ids[k], at[k] if is_array else instant
            self.status[ids[k]] = COMING
            self.n_coming += 1

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
        cdef int job
        cdef unsigned long long[::1] failing = np.zeros((self.machines + 63) // 64, np.uint64)
        for k in range(ids.shape[0]):
            failing[ids[k] >> 6] |= <unsigned long long> (not self.down[ids[k]]) << (ids[k] & 63)
        cut = np.zeros(self.n_running, np.int64)
        cdef long long[::1] out = cut
        for k in range(self.n_running):
            job = self.estimated_ends[k].job
            if self._meets(job, &failing[0]):
                out[n] = job
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
            self._set_up_or_down(ids[k], False)
            self.must_examine = True
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
                self._set_up_or_down(ids[k], True)
                self.must_examine = True

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
        """Run to `until` ns, or until the queue is left to the caller or signals are to be handled; return why."""
        cdef long long at
        cdef int reason, instants = 0
        cdef Py_ssize_t job
        while until >= self.now:
            instants += 1
            if instants > INSTANTS:
                return SIGNALS
            at = NEVER
            if self.n_running > 0:
                at = self.ends[0].at
            if self.n_joined < self.n_coming and self.coming_at[self.n_joined] < at:
                at = self.coming_at[self.n_joined]
            if self.releases is not None:
                at = min(at, self.releases.first())
            at = min(at, self.wake_at, self._next_correction())
            if self.must_examine:
                at = self.now
            elif at > until or at == NEVER:
                self.now = until
                break
            self.now = at
            while self.n_running > 0 and self.ends[0].at <= at:
                if not self._end():
                    return NO_MEMORY
            self._correct()
            while True:
                job = -1
                if self.releases is not None:
                    job = self.releases.take_one(at)
                    if job >= 0 and self.status[job] != UNKNOWN:
                        continue           # a state from a file may say so
                elif self.n_joined < self.n_coming and self.coming_at[self.n_joined] <= at:
                    job = self.coming[self.n_joined]
                if job < 0:
                    break
                self.submitted[job] = at
                self.status[job] = WAITING
                self._join(<int> job, True)
                self.n_joined += 1
            reason = self._examine()
            if reason == NO_MEMORY or reason == TOO_LATE:
                # make the next call examine the whole queue
                self.must_examine = True
                return reason
            self.must_examine = False
            if reason == PAUSE:
                return reason
        return GO_ON

    # -- the running jobs -----------------------------------------------------------------------------------

    cdef Py_ssize_t _place(self, long long at, int job) noexcept nogil:
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

    cdef bint _start_on(self, int job, int span) noexcept nogil:
        """Start a job on the machines of the span list that begins at `span`, or on those of `_take` if it is -1.

        The job must fit.  Returns False, and does not start it, if it would end too late.
        """
        if self.length[job] > LAST_END - self.now:
            return False
        self._before_start(job)
        self.start[job] = self.now
        if self.first_start[job] < 0:
            self.first_start[job] = self.now
        if span < 0:
            span = self._take(job)
        self.spans[job] = span
        self._schedule(job)
        return True

    cdef void _schedule(self, int job) noexcept nogil:
        """Add the job, which has its machines and its `start`, to the running jobs."""
        cdef Entry end
        self.status[job] = RUNNING
        self._insert_end(job)
        end.at, end.number = self.start[job] + self.length[job], job
        heap_push(self.ends, self.n_running, end)
        self.n_running += 1

    cdef void _insert_end(self, int job) noexcept nogil:
        """Insert a job into the estimated ends; the caller counts it as running."""
        cdef long long at = self.start[job] + self.estimate[job]
        cdef Py_ssize_t k = self._place(at, job)
        memmove(&self.estimated_ends[k + 1], &self.estimated_ends[k], (self.n_running - k) * sizeof(EstimatedEnd))
        self.estimated_ends[k].at, self.estimated_ends[k].job, self.estimated_ends[k].nodes = at, job, self.nodes[job]

    cdef void _forget_end(self, int job) noexcept nogil:
        """Remove a job from the estimated ends; the caller has removed it from `ends`."""
        cdef Py_ssize_t k = self._place(self.start[job] + self.estimate[job], job)
        self.n_running -= 1
        memmove(&self.estimated_ends[k], &self.estimated_ends[k + 1], (self.n_running - k) * sizeof(EstimatedEnd))

    cdef void _move_end(self, int job, long long estimate) noexcept nogil:
        """Change the estimate of a running job."""
        self._forget_end(job)
        self.estimate[job] = estimate
        self._insert_end(job)
        self.n_running += 1

    cdef bint _end(self) noexcept nogil:
        """End the running job that ends first; return False if memory runs out."""
        cdef int job = <int> self.ends[0].number
        if not self._leave(job, True):
            return False
        self.finish[job] = self.now
        self.status[job] = ENDED
        self.ended += 1
        heap_pop(self.ends, self.n_running)
        self._forget_end(job)
        self._handle_over(job)
        return self._after_end(job)

    cdef bint _leave(self, int job, bint completed) noexcept nogil:
        """Free the machines of a job, which waits again unless `completed`; return False if memory runs out."""
        cdef long long ran = self.now - self.start[job]
        if self.log and ran > 0 and not self._log_machines(job, completed):
            return False
        self._before_leave(job)
        self._give_back(job, ran, completed)
        self.spans[job] = -1
        if not completed:
            self.cut[job] += 1
            self.status[job] = WAITING
            self._join(job, False)
        return True

    cdef bint _fill_profile(self, Profile* profile, Py_ssize_t partition) noexcept nogil:
        """Fill the profile with the free machines of a partition, and the machines of running jobs after their estimated ends.

        Returns False if memory runs out.
        """
        cdef Py_ssize_t k
        if not profile_clear(profile, self.now, self.occupancy[partition].n_idle):
            return False
        for k in range(self.n_running - 1, -1, -1):
            if self.partition[self.estimated_ends[k].job] != partition:
                continue
            if not profile_add(profile, max(self.estimated_ends[k].at, self.now + 1), NEVER,
                               self.estimated_ends[k].nodes):
                return False
        return True
