"""Rigid parallel jobs on a grid of identical machines: first come, first served, and EASY backfilling.

Times are int64 nanoseconds.  A job runs on as many machines as it wants, on all of them at the same time: the
lowest-numbered ones that are free.  The queue is in order of job number.  At one instant all ends come first, then
submissions, then starts.  Jobs are started from the head of the queue as long as the head fits.  Without backfilling
no others start.  With backfilling a head that does not fit gets a reservation:

- Its shadow time is the first instant at which, by the estimates, enough machines are free for it.  A job that runs
  beyond its estimate counts as ending now.
- Its extra is how many more machines are free then, counting all ends up to that instant.

The other jobs start in queue order if they fit the free machines, and either end by the shadow time, by their
estimate, or want no more machines than extra, which is then reduced by these.  If too few machines are up for the
head, there is no shadow time, and every job that fits is started.

The queue is examined when a job has ended or was submitted and when a machine has failed or recovered, and at no
other instant.  Time alone starts nothing, although it moves the shadow time when jobs run beyond their estimates.

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
from gridcore.common.memory cimport grown
from gridcore.rigid_queue.occupancy cimport (Occupancy, Span, occupancy_add, occupancy_clear, occupancy_free, occupancy_make,
                                 occupancy_mark, occupancy_meets, occupancy_remove, occupancy_return, occupancy_take,
                                 occupancy_take_one)
from gridcore.rigid_queue.run_log cimport (RunLog, runlog_add, runlog_add_part, runlog_copy, runlog_fill, runlog_free,
                              runlog_machines, runlog_rows)
from gridcore.rigid_queue.waiting cimport (Waiting, waiting_clear, waiting_find_head, waiting_free, waiting_join, waiting_leave,
                               waiting_make, waiting_next)

import numpy as np

from gridcore.rigid_queue.state import check_coming, check_log, check_running
from gridcore.common.state import FLAG, Array, Number, Rows, like, read, read_only

__all__ = ["BackfillQueue"]

# The latest end and the longest duration of a job, so that an instant plus an estimate does not overflow.
cdef long long _LAST = 4611686018427387904
_INSTANT = (0, _LAST + 1)
_STATE = {
    "now": Number(), "changed": Number(0, 2), "coming": Rows({"job": _INSTANT, "at": _INSTANT}),
    "on": Array(np.int32, ("machines",), (-1, "jobs")),
    "runs": Rows({"job": (0, "jobs"), "start": _INSTANT, "end": _INSTANT, "completed": FLAG, "parts": (1, _LAST + 1)}),
    "masks": Array(np.uint64), "words": Array(np.int64, ("masks",), (0, "groups")),
}

cdef enum:
    UNKNOWN, COMING, WAITING, RUNNING, ENDED

cdef struct Believed:                   # a running job: its end by its estimate, and the machines that it frees then
    long long at
    int job, nodes


cdef class BackfillQueue:
    """Jobs that wait for `machines` identical machines, and jobs that run on them.

    No duration is above 2**61 ns.  An object is for one thread at a time.

    Parameters
    ----------
    nodes
        int64[jobs], machines that each job wants, 1..machines.
    run
        int64[jobs], ns >= 1, how long each job runs.
    estimate
        int64[jobs], ns >= 1, how long the scheduler believes that it will run; more or less than `run`.
    easy
        Whether to backfill; without it, no job starts before one that is ahead of it.
    log
        Keep every run for `starts`.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef bint occupied                      # see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, jobs
    cdef readonly long long now
    cdef readonly bint easy, log
    cdef const int[::1] nodes
    cdef const long long[::1] length, estimate
    cdef char[::1] status
    cdef long long[::1] first_start, start, finish, cut
    # All jobs submitted so far, in order, up to n_coming; those from `came` on are submitted later than `now`.
    cdef int[::1] coming
    cdef long long[::1] coming_at
    cdef Py_ssize_t n_coming, came
    cdef Waiting queue
    # the running jobs by their ends, and by their estimates.  The latter begin with the latest, then the highest
    # number: most jobs that start or end are short, so little has to be moved
    cdef Entry* ends
    cdef Believed* believed
    cdef Py_ssize_t n_running
    cdef int[::1] spans                    # by job: the first span of its machines
    # the machines
    cdef Occupancy occupancy
    cdef char[::1] down
    cdef long long[::1] busy, done, interrupted
    cdef long long ended
    cdef bint changed                      # machines have failed or recovered since the queue was last examined
    # Whether the head is known not to fit: since that was found, nothing but submissions has happened.
    cdef bint blocked
    cdef long long shadow, extra           # of the head, set if machines are free; NEVER for no shadow time
    cdef RunLog past

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
        self.busy = np.zeros(self.machines, np.int64)
        self.done = np.zeros(self.machines, np.int64)
        self.interrupted = np.zeros(self.machines, np.int64)
        # each running job has at least one machine, which no other has, so at most this many run
        k = min(self.jobs, self.machines) + 1
        self.ends = <Entry*> grown(NULL, k * sizeof(Entry))
        self.believed = <Believed*> grown(NULL, k * sizeof(Believed))
        waiting_make(&self.queue, self.jobs)
        occupancy_make(&self.occupancy, self.machines)
        self._clear()

    def __dealloc__(self):
        free(self.ends)
        free(self.believed)
        waiting_free(&self.queue)
        occupancy_free(&self.occupancy)
        runlog_free(&self.past)

    cdef void _clear(self) noexcept nogil:
        """Empty the queue, drop all running jobs, and make all machines that are up idle."""
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
        """Return the first instant (ns) at which a running job ends, 2**63 - 1 for none."""
        cdef _Guard alone = guard(&self.occupied)
        return self.ends[0].at if self.n_running else NEVER

    def totals(self) -> dict[str, Integers]:
        """Return copies of the totals so far.

        Per job: first_start, the earliest start, even if that run was cut off; start, that of the last run; finish
        (all ns, -1 for never); cut, how often it was cut off.  Per machine: busy (ns), in runs that have ended or
        were cut off; tasks, the number of jobs completed on it; interrupted, the number of runs cut off on it,
        whichever of their machines failed.
        """
        cdef _Guard alone = guard(&self.occupied)
        return {"first_start": np.array(self.first_start), "start": np.array(self.start),
                "finish": np.array(self.finish), "cut": np.array(self.cut), "busy": np.array(self.busy),
                "tasks": np.array(self.done), "interrupted": np.array(self.interrupted)}

    def starts(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Return (machine, job, start ns, end ns, completed), int64[k]: an entry for each machine of each run.

        It covers the runs that have ended (completed is 1) or were cut off (0), in order of start, job and machine.
        A run that was cut off at the instant of its start has no entries.  Empty without ``log``.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k
        of = np.zeros((2, self.past.n), np.int64)
        cdef long long[:, ::1] key = of
        for k in range(self.past.n):
            key[0, k], key[1, k] = self.past.run[k].job, self.past.run[k].start
        found = np.zeros((5, runlog_machines(&self.past)), np.int64)
        runlog_rows(&self.past, np.lexsort(of), found)
        return tuple(found)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return what has changed since the queue was made; see `gridcore.common.state`."""
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k
        cdef int job
        on = np.full(self.machines, -1, np.int32)
        for k in range(self.n_running):
            job = self.believed[k].job
            occupancy_mark(&self.occupancy, self.spans[job], job, on)
        runs, masks = np.empty((self.past.n, 5), np.int64), np.empty(self.past.n_parts, np.uint64)
        words = np.empty(self.past.n_parts, np.int64)
        runlog_copy(&self.past, runs, masks, words)
        coming = np.stack((np.asarray(self.coming)[self.came:self.n_coming],
                           np.asarray(self.coming_at)[self.came:self.n_coming]), axis=1).astype(np.int64)
        return read_only({**self._columns(), "now": self.now, "changed": int(self.changed), "coming": coming, "on": on,
                      "runs": runs, "masks": masks, "words": words})

    def setstate(self, state):
        """Continue from a state that `getstate` returned for a queue made with the same arguments.

        Raises ValueError for a state that does not fit.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef Py_ssize_t k, u
        known, begun = self._columns(), (-1, _LAST + 1)
        given = read(state, {
            **like(known, (0, _LAST + 1), status=(0, ENDED + 1), down=FLAG, first_start=begun, start=begun, finish=begun),
            **_STATE,
        }, jobs=self.jobs, machines=self.machines, groups=self.occupancy.words)
        now, coming, on_array = given["now"], given["coming"], given["on"]
        runs, masks, words = given["runs"], given["masks"], given["words"]
        status, nodes = given["status"], np.asarray(self.nodes)
        check_coming(coming, now, status == COMING, status > COMING)
        check_running(on_array, given["down"], status == RUNNING, nodes, given["start"], np.asarray(self.length), now)
        check_log(runs, masks, words, nodes, self.machines)
        cdef const long long[:, ::1] later = coming
        cdef const int[::1] on = on_array
        runlog_fill(&self.past, runs, masks, words)
        for name, column in known.items():
            column[...] = given[name]
        self.now, self.changed, self.ended = now, given["changed"], int((status == ENDED).sum())
        self._clear()
        self.n_coming = 0
        for k in range(self.jobs):
            if self.status[k] > COMING:
                self.coming[self.n_coming], self.coming_at[self.n_coming] = <int> k, 0
                self.n_coming += 1
            if self.status[k] == WAITING:
                self._join(<int> k)
        self.came = self.n_coming
        for k in range(later.shape[0]):
            self.coming[self.n_coming], self.coming_at[self.n_coming] = <int> later[k, 0], later[k, 1]
            self.n_coming += 1
        # the tail is after the job submitted last, whether that still waits or not
        self.queue.tail = self.coming[self.came - 1] + 1 if self.came else 0
        for u in range(self.machines - 1, -1, -1):
            if on[u] >= 0:
                occupancy_take_one(&self.occupancy, &self.spans[on[u]], u)
        for k in range(self.jobs):
            if self.status[k] == RUNNING:
                self._schedule(<int> k)

    cdef dict _columns(self):
        """Return the arrays that change during a run, with a value per machine or job."""
        return {name: np.asarray(column) for name, column in (
            ("status", self.status), ("first_start", self.first_start), ("start", self.start),
            ("finish", self.finish), ("cut", self.cut), ("down", self.down), ("busy", self.busy),
            ("done", self.done), ("interrupted", self.interrupted))}

    # -- events ---------------------------------------------------------------------------------------------

    def submit(self, jobs: ArrayLike, now: ArrayLike):
        """Put `jobs` (int64[k], ascending) at the end of the queue at `now` ns; nothing starts before `run`.

        A job is submitted once, and never after one with a higher number.  Raises ValueError naming the index of a
        bad job or instant.

        Parameters
        ----------
        now
            One instant for all, or int64[k], not descending; not before the instant reached, nor before an
            earlier submission.  A job submitted for a later instant joins the queue then.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] who = indices(jobs, "jobs", 0, self.jobs)
        cdef const long long[::1] at
        cdef Py_ssize_t k
        cdef long long last = self.coming[self.n_coming - 1] if self.n_coming else -1
        cdef long long since = max(self.now, self.coming_at[self.n_coming - 1] if self.n_coming else 0)
        cdef long long one = 0
        cdef bint many = not isinstance(now, int | np.integer)
        if many:
            at = integers(now, "now")
            check_lengths(who.shape[0], at.shape[0], "jobs", "now")
        elif not since <= now <= _LAST:
            raise ValueError(f"now must be in {since}..{_LAST}, got {now}")
        else:
            one = now
        for k in range(who.shape[0]):
            if who[k] <= last:
                raise ValueError(f"jobs[{k}] must be above {last}, submitted before it, got {who[k]}")
            if many and not since <= at[k] <= _LAST:
                raise ValueError(f"now[{k}] must be in {since}..{_LAST}, got {at[k]}")
            last, since = who[k], at[k] if many else one
        for k in range(who.shape[0]):
            self.coming[self.n_coming], self.coming_at[self.n_coming] = <int> who[k], at[k] if many else one
            self.status[who[k]] = COMING
            self.n_coming += 1

    def run(self, long long until) -> int:
        """Run up to and including `until` ns; return how many jobs have ended so far.

        Running to t1 and then to t2 equals running to t2.  Raises MemoryError, and OverflowError if a job would end
        after 2**62 ns; the queue is then as it was before that start.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef int failed
        with nogil:
            failed = self._run(until)
        if failed == 1:
            raise MemoryError
        if failed == 2:
            raise OverflowError("a job ends after the last instant")
        return self.ended

    def fail(self, machines: ArrayLike, long long now) -> Integers:
        """Let `machines` (int64[k], ascending) fail at `now` ns, the instant reached by `run`.

        Jobs that run on any of them are cut off on all their machines and go back to their place in the queue.
        No job is started on the machines until `restore`; machines that are down already stay down.

        Returns int64[m], the jobs cut off, ascending.  Takes O(machines of running jobs) for all machines together.
        Raises ValueError naming the index of a bad machine.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0, left
        cdef unsigned long long[::1] hit = np.zeros(self.occupancy.words, np.uint64)
        for k in range(who.shape[0]):
            hit[who[k] >> 6] |= <unsigned long long> (not self.down[who[k]]) << (who[k] & 63)
        cut = np.zeros(self.n_running, np.int64)
        cdef long long[::1] out = cut
        for k in range(self.n_running):
            if occupancy_meets(&self.occupancy, self.spans[self.believed[k].job], &hit[0]):
                out[n] = self.believed[k].job
                n += 1
        cut = np.sort(cut[:n])
        out = cut
        for k in range(n):
            if not self._leave(<int> out[k], False):
                raise MemoryError
        if n:
            left = 0
            for k in range(self.n_running):
                if self.status[self.believed[k].job] == RUNNING:
                    self.believed[left] = self.believed[k]
                    left += 1
            left = 0
            for k in range(self.n_running):
                if self.status[self.ends[k].number] == RUNNING:
                    heap_push(self.ends, left, self.ends[k])
                    left += 1
            self.n_running = left
        for k in range(who.shape[0]):
            if self.down[who[k]]:
                continue
            self.down[who[k]] = True
            occupancy_remove(&self.occupancy, who[k])
            self.changed = True
        return cut

    def restore(self, machines: ArrayLike, long long now):
        """Let `machines` (int64[k], ascending) recover at `now` ns, the instant reached by `run`.

        Machines that are up stay as they are.  Raises ValueError naming the index of a bad machine.
        """
        cdef _Guard alone = guard(&self.occupied)
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k
        for k in range(who.shape[0]):
            if self.down[who[k]]:
                self.down[who[k]] = False
                occupancy_add(&self.occupancy, who[k])
                self.changed = True

    cdef const long long[::1] _machines(self, machines, long long now):
        cdef const long long[::1] who = indices(machines, "machines", 0, self.machines)
        cdef Py_ssize_t k
        if now != self.now:
            raise ValueError(f"now must be the instant reached, {self.now} ns, got {now}")
        for k in range(1, who.shape[0]):
            if who[k] <= who[k - 1]:
                raise ValueError(f"machines[{k}] must be above {who[k - 1]}, the one before it, got {who[k]}")
        return who

    cdef int _run(self, long long until) noexcept nogil:
        """Do the work of `run`; return 0, or 1 without memory, or 2 if a job would end too late."""
        cdef long long at
        cdef Py_ssize_t first
        cdef int failed
        while until >= self.now:
            at = NEVER
            if self.n_running > 0:
                at = self.ends[0].at
            if self.came < self.n_coming and self.coming_at[self.came] < at:
                at = self.coming_at[self.came]
            if self.changed:
                at = self.now
            elif at > until or at == NEVER:
                self.now = until
                break
            self.now = at
            while self.n_running > 0 and self.ends[0].at <= at:
                if not self._end():
                    return 1
            first = self.queue.tail
            while self.came < self.n_coming and self.coming_at[self.came] <= at:
                self._join(self.coming[self.came])
                self.came += 1
            failed = self._look(first)
            if failed:
                # so that the next try examines the whole queue
                self.changed = True
                return failed
            self.changed = False
        return 0

    # -- the queue ------------------------------------------------------------------------------------------

    cdef inline void _join(self, int job) noexcept nogil:
        """Make the job wait, at its place in the queue."""
        self.status[job] = WAITING
        waiting_join(&self.queue, job, self.nodes[job], self.estimate[job])

    cdef int _look(self, Py_ssize_t first) noexcept nogil:
        """Start the jobs that start now; those from `first` on have just been submitted.  Returns as `_run` does."""
        cdef long long before_it
        if not self.blocked or self.changed:
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
            # Jobs that run beyond their estimates have moved the shadow time.  Jobs that waited before cannot end by
            # it, so they start only if more machines are free then.  Otherwise the jobs that did not start before do
            # not start now: there is less time until the shadow time and no more room.
            before_it = self.extra
            self._reserve()
            if self.extra != before_it:
                first = self.queue.head + 1
        if not self.easy or self.occupancy.n_idle == 0:
            return 0
        return self._fill(first)

    cdef void _reserve(self) noexcept nogil:
        """Compute the shadow time and the extra of the head, which does not fit."""
        cdef long long n = self.occupancy.n_idle, need = self.queue.nodes[self.queue.head]
        cdef Py_ssize_t k = self.n_running
        while k > 0 and n < need:
            k -= 1
            n += self.believed[k].nodes
        if n < need:
            self.shadow, self.extra = NEVER, self.machines
            return
        self.shadow = max(self.believed[k].at, self.now)
        while k > 0 and self.believed[k - 1].at <= self.shadow:
            k -= 1
            n += self.believed[k].nodes
        self.extra = n - need

    cdef int _fill(self, Py_ssize_t j) noexcept nogil:
        """Start the jobs, from j on, that may start before the head."""
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
        """Return the place in `believed` of (at, job): the first entry that is not later than it."""
        cdef Py_ssize_t low = 0, high = self.n_running, middle
        while low < high:
            middle = (low + high) // 2
            if self.believed[middle].at > at or (self.believed[middle].at == at
                                                 and self.believed[middle].job > job):
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint _start(self, Py_ssize_t job) noexcept nogil:
        """Start a job that fits; False if it would end too late."""
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
        memmove(&self.believed[k + 1], &self.believed[k], (self.n_running - k) * sizeof(Believed))
        self.believed[k].at, self.believed[k].job, self.believed[k].nodes = at, job, self.nodes[job]
        end.at, end.number = self.start[job] + self.length[job], job
        heap_push(self.ends, self.n_running, end)
        self.n_running += 1

    cdef bint _end(self) noexcept nogil:
        """End the running job that ends first; False without memory for the log."""
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
        memmove(&self.believed[k], &self.believed[k + 1], (self.n_running - k) * sizeof(Believed))
        return True

    cdef bint _leave(self, int job, bint completed) noexcept nogil:
        """Free the machines of a job, which waits again if it is not completed; False without memory for the log."""
        cdef long long ran = self.now - self.start[job]
        cdef int s = self.spans[job]
        cdef Py_ssize_t base, u
        cdef unsigned long long mask
        if self.log and ran > 0 and not self._note(job, completed):
            return False
        while s >= 0:
            mask, base = self.occupancy.span[s].mask, 64 * <Py_ssize_t> self.occupancy.span[s].word
            if mask == ~(<unsigned long long> 0):
                for u in range(base, base + 64):
                    self.busy[u] += ran
                    self.done[u] += completed
            else:
                while mask:
                    u = base + lowest_bit(mask)
                    self.busy[u] += ran
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

    cdef bint _note(self, int job, bint completed) noexcept nogil:
        """Add the run of a job to the log; False without memory."""
        cdef const Span* span
        cdef int s = self.spans[job]
        if not runlog_add(&self.past, job, self.start[job], self.now, completed,
                          min(<Py_ssize_t> self.nodes[job], self.occupancy.words)):
            return False
        while s >= 0:
            span = &self.occupancy.span[s]
            runlog_add_part(&self.past, span.word, span.mask)
            s = span.next
        return True
