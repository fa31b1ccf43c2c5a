"""Rigid parallel jobs on a grid of identical machines: first come, first served, and EASY backfilling.

Times are int64 nanoseconds.  A job runs on as many machines as it wants, on all of them at once, the
lowest-numbered ones that are free.  The queue is in order of job number.  At an instant all ends come first, then
what is submitted, then the starts: from the head of the queue on as long as the head fits.  That is all of it
without backfilling.  With it the head, where it does not fit, gets a reservation:

- its shadow time is the first instant at which enough machines are free for it, by the estimates.  Who runs beyond
  its estimate counts as ending now.
- extra is how many more are free then, counting all ends up to that instant.

The others start in queue order where they fit the free machines and either end by the shadow time, by their
estimate, or want no more than extra, which is then less by what they take.  Where too few machines are up for the
head there is no shadow time, and whatever fits is started.

The queue is looked at when something has ended, was submitted, has failed or is back, and at no other instant:
time alone, though it moves the shadow of jobs beyond their estimates, starts nothing.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling" (2001).  The twin is
`gridcore.reference.backfill`.
"""

from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove

from gridcore.edf cimport check_lengths, indices, integers

import numpy as np

from gridcore.states import LATEST, State

__all__ = ["BackfillQueue"]

cdef extern from "bits.h":
    int count_bits "gridcore_count"(unsigned long long x) noexcept nogil
    int lowest_bit "gridcore_lowest"(unsigned long long x) noexcept nogil

cdef long long _NEVER = 9223372036854775807
# No job ends later and none lasts longer: an instant and an estimate can be added.
cdef long long _LAST = 4611686018427387904
cdef long long _LONGEST = LATEST
cdef int _BIG = 2147483647

cdef enum:
    UNKNOWN, COMING, WAITING, RUNNING, ENDED

cdef enum:
    # jobs of a block, and of a block of blocks, in powers of two
    BLOCK = 6
    LARGE = 12


cdef struct End:                        # of a running job
    long long at
    int job

cdef struct Believed:                   # the same by its estimate, and what is free then
    long long at
    int job, nodes

cdef struct Span:                       # machines of a job within a word of the bitset
    unsigned long long mask
    int word, next                      # -1 for none

cdef struct Least:                      # of the waiting jobs of a block
    long long estimate
    int nodes

cdef struct Run:                        # of the log
    long long start, end, spans         # where its machines begin
    int job, completed

cdef struct Part:                       # machines of a run of the log
    unsigned long long mask
    long long word


# --- a heap of ends ---------------------------------------------------------------------------------------

cdef inline bint before(End a, End b) noexcept nogil:
    return (a.at < b.at) | ((a.at == b.at) & (a.job < b.job))


cdef inline void push(End* heap, Py_ssize_t n, End new) noexcept nogil:
    """Add `new` to a heap of n."""
    cdef Py_ssize_t k = n, parent
    while k > 0:
        parent = (k - 1) // 4
        if not before(new, heap[parent]):
            break
        heap[k] = heap[parent]
        k = parent
    heap[k] = new


cdef inline void settle(End* heap, Py_ssize_t n, Py_ssize_t k, End moved) noexcept nogil:
    """Put `moved` at position k or below; four children a node."""
    cdef Py_ssize_t child, least, other
    while True:
        child = 4 * k + 1
        if child >= n:
            break
        least = child
        for other in range(child + 1, min(child + 4, n)):
            if before(heap[other], heap[least]):
                least = other
        if not before(heap[least], moved):
            break
        heap[k] = heap[least]
        k = least
    heap[k] = moved


# --- the queue --------------------------------------------------------------------------------------------

cdef class BackfillQueue:
    """Jobs that wait for `machines` identical machines, and those that run on them.

    Parameters
    ----------
    nodes : int64[jobs], machines that each job wants, 1..machines.
    run : int64[jobs], ns >= 1, how long it runs.
    estimate : int64[jobs], ns >= 1, how long the scheduler believes that it will run; more or less than `run`.
    easy : backfill; without, no job starts before one that is ahead of it.
    log : keep every run for `starts`.

    No duration is above 2**61 ns.  An object is for one thread at a time.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef readonly Py_ssize_t machines, jobs
    cdef readonly long long now
    cdef readonly bint easy, log
    cdef const int[::1] nodes
    cdef const long long[::1] length, estimate
    cdef char[::1] status
    cdef long long[::1] first_start, start, finish, cut
    # What is not at the queue's instant yet, in order; all that were ever submitted are in it, up to n_coming.
    cdef int[::1] coming
    cdef long long[::1] coming_at
    cdef Py_ssize_t n_coming, came
    # The queue: nodes and estimate of who waits, _BIG and _NEVER for all others, and the least of each block.  Who
    # is cut off is at its old place at once, and who starts leaves nothing to be moved up.
    cdef int[::1] want
    cdef long long[::1] wish
    cdef Least* block
    cdef Least* large
    cdef Py_ssize_t head, tail             # nobody waits before the one or from the other on
    # the running jobs
    cdef End* ends
    # the latest first, then the highest number: most that comes and goes is short, and little has to be moved
    cdef Believed* believed
    cdef Py_ssize_t n_running
    cdef int[::1] spans                    # the first of each job
    cdef Span* span
    cdef int spare                         # the first span that nobody has
    # the machines
    cdef unsigned long long[::1] idle      # bits: free and up
    cdef unsigned long long[::1] some      # bits: words of `idle` that are not 0
    cdef char[::1] down
    cdef long long[::1] busy, done, interrupted
    cdef Py_ssize_t n_idle
    cdef long long ended
    cdef bint changed                      # machines have failed or are back, and the queue was not looked at since
    # The head does not fit, and apart from what is submitted nothing has changed since that was found out.
    cdef bint blocked
    cdef long long shadow, extra           # of the head, where machines are free; _NEVER for no shadow
    # the log
    cdef Run* runs
    cdef Part* parts
    cdef Py_ssize_t n_runs, room_runs, n_parts, room_parts

    def __cinit__(self, machines, nodes, run, estimate, *, bint easy=True, bint log=False):
        cdef Py_ssize_t k, words
        if isinstance(machines, bool) or not isinstance(machines, int | np.integer) or not 1 <= machines < 2**31:
            raise ValueError(f"machines must be in 1..{2**31 - 1}, got {machines!r}")
        self.machines, self.easy, self.log = machines, easy, log
        self.nodes = indices(nodes, "nodes", 1, self.machines + 1).astype(np.int32)
        self.length = indices(run, "run", 1, _LONGEST + 1).copy()
        self.estimate = indices(estimate, "estimate", 1, _LONGEST + 1).copy()
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
        self.want = np.full(self.jobs, _BIG, np.int32)
        self.wish = np.full(self.jobs, _NEVER, np.int64)
        self.spans = np.full(self.jobs, -1, np.int32)
        words = (self.machines + 63) >> 6
        self.idle = np.zeros(words, np.uint64)
        self.some = np.zeros((words + 63) >> 6, np.uint64)
        self.down = np.zeros(self.machines, np.int8)
        self.busy = np.zeros(self.machines, np.int64)
        self.done = np.zeros(self.machines, np.int64)
        self.interrupted = np.zeros(self.machines, np.int64)
        # of all jobs that run at once each has a machine of its own, and each of their spans one too
        k = min(self.jobs, self.machines) + 1
        self.ends = <End*> malloc(k * sizeof(End))
        self.believed = <Believed*> malloc(k * sizeof(Believed))
        self.span = <Span*> malloc(self.machines * sizeof(Span))
        self.block = <Least*> malloc(((self.jobs >> BLOCK) + 1) * sizeof(Least))
        self.large = <Least*> malloc(((self.jobs >> LARGE) + 1) * sizeof(Least))
        if (self.ends == NULL or self.believed == NULL or self.span == NULL or self.block == NULL
                or self.large == NULL):
            raise MemoryError
        self._clear()

    def __dealloc__(self):
        free(self.ends)
        free(self.believed)
        free(self.span)
        free(self.block)
        free(self.large)
        free(self.runs)
        free(self.parts)

    cdef void _clear(self) noexcept nogil:
        """Nobody waits, nobody runs, no machine is idle."""
        cdef Py_ssize_t k
        for k in range(self.jobs):
            self.want[k], self.wish[k], self.spans[k] = _BIG, _NEVER, -1
        for k in range((self.jobs >> BLOCK) + 1):
            self.block[k].nodes, self.block[k].estimate = _BIG, _NEVER
        for k in range((self.jobs >> LARGE) + 1):
            self.large[k].nodes, self.large[k].estimate = _BIG, _NEVER
        for k in range(self.machines):
            self.span[k].next = <int> k + 1 if k + 1 < self.machines else -1
        for k in range(self.idle.shape[0]):
            self.idle[k] = 0
        for k in range(self.some.shape[0]):
            self.some[k] = 0
        self.spare = 0
        self.head = self.tail = 0
        self.n_running = self.n_idle = 0
        self.blocked = False
        for k in range(self.machines):
            if not self.down[k]:
                self._give_back(<int> (k >> 6), <unsigned long long> 1 << (k & 63))
                self.n_idle += 1

    # -- what there is --------------------------------------------------------------------------------------

    def next_end(self):
        """The first instant at which a running job ends, 2**63 - 1 for none."""
        return self.ends[0].at if self.n_running else _NEVER

    def totals(self):
        """Copies of what has happened so far.

        Per job: first_start, the earliest start, of a run that was cut off too; start, of the last run; finish (ns,
        -1 for never); cut, how often it was cut off.  Per machine: busy (ns), of runs that have ended or were cut
        off; tasks, the jobs that were completed on it; interrupted, those cut off on it, whichever machine of
        theirs it was that failed.
        """
        return {"first_start": np.array(self.first_start), "start": np.array(self.start),
                "finish": np.array(self.finish), "cut": np.array(self.cut), "busy": np.array(self.busy),
                "tasks": np.array(self.done), "interrupted": np.array(self.interrupted)}

    def starts(self):
        """(machine, job, start ns, end ns, completed) int64[k], a row for each machine of each run.

        Those of runs that have ended (completed is 1) or were cut off (0), in order of start, job and machine.  A
        run that was cut off at the instant of its start has none.  Empty without ``log``.
        """
        cdef Py_ssize_t k, i, p, last, row = 0, rows = 0
        cdef unsigned long long mask
        of = np.zeros((2, self.n_runs), np.int64)
        cdef long long[:, ::1] key = of
        for k in range(self.n_runs):
            key[0, k], key[1, k] = self.runs[k].job, self.runs[k].start
            rows += self.nodes[self.runs[k].job]
        cdef const long long[::1] order = np.lexsort(of)
        found = np.zeros((5, rows), np.int64)
        cdef long long[:, ::1] out = found
        for i in range(self.n_runs):
            k = order[i]
            last = self.runs[k + 1].spans if k + 1 < self.n_runs else self.n_parts
            for p in range(self.runs[k].spans, last):
                mask = self.parts[p].mask
                while mask:
                    out[0, row] = 64 * self.parts[p].word + lowest_bit(mask)
                    out[1, row] = self.runs[k].job
                    out[2, row] = self.runs[k].start
                    out[3, row] = self.runs[k].end
                    out[4, row] = self.runs[k].completed
                    row += 1
                    mask &= mask - 1
        return tuple(found)

    # -- checkpoints ----------------------------------------------------------------------------------------

    def getstate(self):
        """What has changed since the queue was made; see `gridcore.states`."""
        cdef Py_ssize_t k, u, last
        cdef int s
        cdef unsigned long long mask
        on_array = np.full(self.machines, -1, np.int32)
        cdef int[::1] on = on_array
        for k in range(self.n_running):
            s = self.spans[self.believed[k].job]
            while s >= 0:
                mask = self.span[s].mask
                while mask:
                    on[64 * <Py_ssize_t> self.span[s].word + lowest_bit(mask)] = self.believed[k].job
                    mask &= mask - 1
                s = self.span[s].next
        run_array, mask_array = np.empty((self.n_runs, 5), np.int64), np.empty(self.n_parts, np.uint64)
        word_array = np.empty(self.n_parts, np.int64)
        cdef long long[:, ::1] runs = run_array
        cdef unsigned long long[::1] masks = mask_array
        cdef long long[::1] words = word_array
        for k in range(self.n_runs):
            last = self.runs[k + 1].spans if k + 1 < self.n_runs else self.n_parts
            runs[k, 0], runs[k, 1], runs[k, 2] = self.runs[k].job, self.runs[k].start, self.runs[k].end
            runs[k, 3], runs[k, 4] = self.runs[k].completed, last - self.runs[k].spans
        for k in range(self.n_parts):
            masks[k], words[k] = self.parts[k].mask, self.parts[k].word
        coming = np.stack((np.asarray(self.coming)[self.came:self.n_coming],
                           np.asarray(self.coming_at)[self.came:self.n_coming]), axis=1).astype(np.int64)
        return {**self._columns(), "now": self.now, "changed": int(self.changed), "coming": coming, "on": on_array,
                "runs": run_array, "masks": mask_array, "words": word_array}

    def setstate(self, state):
        """Go on from what `getstate` of a queue made with the same arguments gave.

        Raises ValueError for a state that cannot be its own.
        """
        cdef Py_ssize_t k, u, n = 0
        cdef int s, last, job
        read, known = State(state), self._columns()
        lows = {"status": (0, ENDED), "down": (0, 1), "first_start": (-1, _LAST), "start": (-1, _LAST),
                "finish": (-1, _LAST)}
        given = {name: read.array(name, column.dtype, column.shape, *lows.get(name, (0, _LAST)))
                 for name, column in known.items()}
        now, changed = read.whole("now"), read.whole("changed", 0, 1)
        coming = read.array("coming", np.int64, (None, 2), 0, _LAST)
        on_array = read.array("on", np.int32, (self.machines,), -1, self.jobs - 1)
        run_array = read.array("runs", np.int64, (None, 5), 0, _LAST)
        mask_array = read.array("masks", np.uint64, (None,))
        word_array = read.array("words", np.int64, (len(mask_array),), 0, self.idle.shape[0] - 1)
        self._check(given, now, coming, on_array)
        self._check_log(run_array, mask_array, word_array)
        cdef const long long[:, ::1] runs = run_array
        cdef const unsigned long long[::1] masks = mask_array
        cdef const long long[::1] words = word_array
        cdef const long long[:, ::1] later = coming
        cdef const int[::1] on = on_array
        self.n_runs = self.n_parts = 0
        for k in range(runs.shape[0]):
            if not self._log_room(runs[k, 4]):
                raise MemoryError
            self.runs[k].job, self.runs[k].start, self.runs[k].end = <int> runs[k, 0], runs[k, 1], runs[k, 2]
            self.runs[k].completed, self.runs[k].spans = <int> runs[k, 3], self.n_parts
            self.n_runs += 1
            for u in range(self.n_parts, self.n_parts + runs[k, 4]):
                self.parts[u].mask, self.parts[u].word = masks[u], words[u]
            self.n_parts += runs[k, 4]
        for name, column in known.items():
            column[...] = given[name]
        self.now, self.changed, self.ended = now, changed, int((given["status"] == ENDED).sum())
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
        # who is last submitted comes after all that are queued, whether they still wait or not
        self.tail = self.coming[self.came - 1] + 1 if self.came else 0
        # the machines of a job that are in one word are one span, the last word first
        for u in range(self.machines - 1, -1, -1):
            job = on[u]
            if job < 0:
                continue
            self._take(<int> (u >> 6), <unsigned long long> 1 << (u & 63))
            self.n_idle -= 1
            s = self.spans[job]
            if s < 0 or self.span[s].word != u >> 6:
                last = s
                s = self.spare
                self.spare = self.span[s].next
                self.span[s].word, self.span[s].mask, self.span[s].next = <int> (u >> 6), 0, last
                self.spans[job] = s
            self.span[s].mask |= <unsigned long long> 1 << (u & 63)
        for k in range(self.jobs):
            if self.status[k] == RUNNING:
                self._schedule(<int> k)

    cdef int _check(self, given, now, coming, on) except -1:
        """Who waits, runs or is still to come; ValueError naming what cannot be."""
        status, start, later = given["status"], given["start"], coming[:, 0]
        known = np.flatnonzero(status > COMING)
        if not (
            np.array_equal(later, np.flatnonzero(status == COMING))
            and (len(later) == 0 or len(known) == 0 or known.max() < later.min())
            and (np.diff(coming[:, 1]) >= 0).all() and (coming[:, 1] >= now).all()
        ):
            raise ValueError(f"state['coming'] must be all that are to come, in order and not before {now} ns")
        runs = status == RUNNING
        wanted = np.where(runs, np.asarray(self.nodes), 0)
        if not np.array_equal(np.bincount(on[on >= 0], minlength=self.jobs), wanted):
            raise ValueError("state['on'] must have as many machines of each running job as it wants")
        if (given["down"][on >= 0] != 0).any():
            raise ValueError("state['on'] must have no job on machines that are down")
        begun = start[runs]
        if not ((begun >= 0) & (begun <= now) & (begun + np.asarray(self.length)[runs] > now)).all():
            raise ValueError(f"state['start'] of running jobs must be up to {now} ns, and their ends later")
        return 0

    cdef int _check_log(self, runs, masks, words) except -1:
        """ValueError if the log cannot be."""
        if len(runs) and not (runs[:, 0].max() < self.jobs and runs[:, 3].max() <= 1 and runs[:, 4].min() >= 1
                              and runs[:, 4].max() <= len(masks) and runs[:, 4].sum() == len(masks)):
            raise ValueError("state['runs'] must be of jobs and have all of the masks, one or more each")
        if not len(runs) and len(masks):
            raise ValueError("state['masks'] must belong to runs")
        inside = np.full(self.idle.shape[0], 2**64 - 1, np.uint64)
        if self.machines & 63:
            inside[self.idle.shape[0] - 1] = ((<unsigned long long> 1) << (self.machines & 63)) - 1
        counts = np.bitwise_count(masks).astype(np.int64)
        if (masks & ~inside[words]).any() or (len(runs) and not np.array_equal(
                np.add.reduceat(counts, np.cumsum(runs[:, 4]) - runs[:, 4]), np.asarray(self.nodes)[runs[:, 0]])):
            raise ValueError("state['masks'] must be of as many machines as the jobs want")
        return 0

    cdef dict _columns(self):
        """What changes, a value per machine or job."""
        return {name: np.asarray(column) for name, column in (
            ("status", self.status), ("first_start", self.first_start), ("start", self.start),
            ("finish", self.finish), ("cut", self.cut), ("down", self.down), ("busy", self.busy),
            ("done", self.done), ("interrupted", self.interrupted))}

    # -- what happens ---------------------------------------------------------------------------------------

    def submit(self, jobs, now):
        """The `jobs` (int64[k], ascending) join the end of the queue at `now` ns; nothing starts before `run`.

        now : one instant for all, or int64[k], not descending.  Not before the instant reached, nor before an
            earlier submission; what is later than the instant reached is kept until then.

        Each job is submitted once, after all those with lower numbers that ever are.  ValueError naming the index
        of a bad job or instant.
        """
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

    def run(self, long long until):
        """Handle everything that is due up to, and with, `until` ns.  Returns how many jobs have ended so far.

        Running to t1 and then to t2 equals running to t2.  MemoryError; OverflowError if a job ends after 2**62 ns,
        with the queue as it is before that start.
        """
        cdef int failed
        with nogil:
            failed = self._run(until)
        if failed == 1:
            raise MemoryError
        if failed == 2:
            raise OverflowError("a job ends after the last instant")
        return self.ended

    def fail(self, machines, long long now):
        """The `machines` (int64[k], ascending) go away at `now` ns, the instant reached by `run`.

        Jobs that run on any of them are cut off on all their machines and go back to their place in the queue.
        No job is started on them until `restore`; those that are away already stay so.

        Returns int64[m], the jobs cut off, ascending.  O(machines of running jobs) for all together.  ValueError
        naming the index of a bad machine.
        """
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k, n = 0, left
        cdef int s
        hit_array = np.zeros(self.idle.shape[0], np.uint64)
        cdef unsigned long long[::1] hit = hit_array
        cdef unsigned long long bit
        for k in range(who.shape[0]):
            hit[who[k] >> 6] |= <unsigned long long> (not self.down[who[k]]) << (who[k] & 63)
        cut = np.zeros(self.n_running, np.int64)
        cdef long long[::1] out = cut
        for k in range(self.n_running):
            s = self.spans[self.believed[k].job]
            while s >= 0:
                if self.span[s].mask & hit[self.span[s].word]:
                    out[n] = self.believed[k].job
                    n += 1
                    break
                s = self.span[s].next
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
                if self.status[self.ends[k].job] == RUNNING:
                    push(self.ends, left, self.ends[k])
                    left += 1
            self.n_running = left
        for k in range(who.shape[0]):
            if self.down[who[k]]:
                continue
            bit = <unsigned long long> 1 << (who[k] & 63)
            self.down[who[k]] = True
            self._take(<int> (who[k] >> 6), bit)
            self.n_idle -= 1
            self.changed = True
        return cut

    def restore(self, machines, long long now):
        """The `machines` (int64[k], ascending) are back at `now` ns, the instant reached by `run`.

        Those not away stay as they are.  ValueError naming the index of a bad machine.
        """
        cdef const long long[::1] who = self._machines(machines, now)
        cdef Py_ssize_t k
        for k in range(who.shape[0]):
            if self.down[who[k]]:
                self.down[who[k]] = False
                self._give_back(<int> (who[k] >> 6), <unsigned long long> 1 << (who[k] & 63))
                self.n_idle += 1
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
        """0, or 1 without memory, or 2 if a job ends too late."""
        cdef long long at
        cdef Py_ssize_t first
        cdef int failed
        while until >= self.now:
            at = _NEVER
            if self.n_running > 0:
                at = self.ends[0].at
            if self.came < self.n_coming and self.coming_at[self.came] < at:
                at = self.coming_at[self.came]
            if self.changed:
                at = self.now
            elif at > until or at == _NEVER:
                self.now = until
                break
            self.now = at
            while self.n_running > 0 and self.ends[0].at <= at:
                if not self._end():
                    return 1
            first = self.tail
            while self.came < self.n_coming and self.coming_at[self.came] <= at:
                self._join(self.coming[self.came])
                self.came += 1
            failed = self._look(first)
            if failed:
                # when it is tried again, all of the queue is looked at
                self.changed = True
                return failed
            self.changed = False
        return 0

    # -- the queue ------------------------------------------------------------------------------------------

    cdef inline void _join(self, int job) noexcept nogil:
        """The job waits, at its place."""
        cdef int nodes = self.nodes[job]
        cdef long long estimate = self.estimate[job]
        cdef Least* block = &self.block[job >> BLOCK]
        cdef Least* large = &self.large[job >> LARGE]
        self.status[job] = WAITING
        self.want[job], self.wish[job] = nodes, estimate
        block.nodes, block.estimate = min(block.nodes, nodes), min(block.estimate, estimate)
        large.nodes, large.estimate = min(large.nodes, nodes), min(large.estimate, estimate)
        if self.head == self.tail or job < self.head:
            self.head = job
        if job >= self.tail:
            self.tail = job + 1

    cdef inline void _unjoin(self, Py_ssize_t job) noexcept nogil:
        """The job does not wait any more."""
        cdef Least* block = &self.block[job >> BLOCK]
        cdef Least* large = &self.large[job >> LARGE]
        cdef Least old
        cdef int nodes = self.want[job]
        cdef long long estimate = self.wish[job]
        cdef Py_ssize_t k, first
        self.want[job], self.wish[job] = _BIG, _NEVER
        if nodes > block.nodes and estimate > block.estimate:
            return
        old = block[0]
        first = (job >> BLOCK) << BLOCK
        block.nodes, block.estimate = _BIG, _NEVER
        for k in range(first, min(first + (1 << BLOCK), self.jobs)):
            block.nodes = min(block.nodes, self.want[k])
            block.estimate = min(block.estimate, self.wish[k])
        if old.nodes > large.nodes and old.estimate > large.estimate:
            return
        first = (job >> LARGE) << (LARGE - BLOCK)
        large.nodes, large.estimate = _BIG, _NEVER
        for k in range(first, min(first + (1 << (LARGE - BLOCK)), (self.jobs >> BLOCK) + 1)):
            large.nodes = min(large.nodes, self.block[k].nodes)
            large.estimate = min(large.estimate, self.block[k].estimate)

    cdef inline void _find_head(self) noexcept nogil:
        """The first job that waits, or the tail."""
        cdef Py_ssize_t j = self.head
        while j < self.tail and self.want[j] == _BIG:
            if self.large[j >> LARGE].nodes == _BIG:
                j = ((j >> LARGE) + 1) << LARGE
            elif self.block[j >> BLOCK].nodes == _BIG:
                j = ((j >> BLOCK) + 1) << BLOCK
            else:
                j += 1
        self.head = min(j, self.tail)

    cdef int _look(self, Py_ssize_t first) noexcept nogil:
        """Start what starts now; those from `first` on have just been submitted.  Failures as of `_run`."""
        cdef long long before_it
        if not self.blocked or self.changed:
            self.blocked = False
            self._find_head()
            while self.head < self.tail and self.want[self.head] <= self.n_idle:
                if not self._start(self.head):
                    return 2
                self._find_head()
            if self.head == self.tail:
                return 0
            self.blocked = True
            first = self.head + 1
            if self.easy and self.n_idle > 0:
                self._reserve()
        elif self.easy and self.n_idle > 0 and self.shadow < self.now:
            # Jobs that run beyond their estimates have moved the shadow along.  Nobody ends by it, so those that
            # waited before start only if more machines are free then.  Otherwise who did not start does not now:
            # there is less time to the shadow and no more room.
            before_it = self.extra
            self._reserve()
            if self.extra != before_it:
                first = self.head + 1
        if not self.easy or self.n_idle == 0:
            return 0
        return self._fill(first)

    cdef void _reserve(self) noexcept nogil:
        """Shadow and extra of the head, which does not fit."""
        cdef long long n = self.n_idle, need = self.want[self.head]
        cdef Py_ssize_t k = self.n_running
        while k > 0 and n < need:
            k -= 1
            n += self.believed[k].nodes
        if n < need:
            self.shadow, self.extra = _NEVER, self.machines
            return
        self.shadow = max(self.believed[k].at, self.now)
        while k > 0 and self.believed[k - 1].at <= self.shadow:
            k -= 1
            n += self.believed[k].nodes
        self.extra = n - need

    cdef int _fill(self, Py_ssize_t j) noexcept nogil:
        """Start who may go before the head, from job j on."""
        cdef const int* want = &self.want[0]
        cdef const long long* wish = &self.wish[0]
        cdef long long slack = self.shadow - self.now
        cdef Py_ssize_t end
        while j < self.tail and self.n_idle > 0:
            if self._hopeless(&self.large[j >> LARGE], slack):
                j = ((j >> LARGE) + 1) << LARGE
                continue
            if self._hopeless(&self.block[j >> BLOCK], slack):
                j = ((j >> BLOCK) + 1) << BLOCK
                continue
            end = min(((j >> BLOCK) + 1) << BLOCK, self.tail)
            while j < end:
                if want[j] <= self.n_idle and (wish[j] <= slack or want[j] <= self.extra):
                    if wish[j] > slack:
                        self.extra -= want[j]
                    if not self._start(j):
                        return 2
                j += 1
        return 0

    cdef inline bint _hopeless(self, const Least* least, long long slack) noexcept nogil:
        """No job of these can go before the head."""
        return least.nodes > self.n_idle or (least.nodes > self.extra and least.estimate > slack)

    # -- the running jobs -----------------------------------------------------------------------------------

    cdef inline Py_ssize_t _place(self, long long at, int job) noexcept nogil:
        """The first running job that is not after (at, job), by the estimates."""
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
        """Start a job that fits; False if it ends too late."""
        if self.length[job] > _LAST - self.now:
            return False
        self._unjoin(job)
        self.start[job] = self.now
        if self.first_start[job] < 0:
            self.first_start[job] = self.now
        self._occupy(<int> job)
        self._schedule(<int> job)
        return True

    cdef void _schedule(self, int job) noexcept nogil:
        """The job runs since `start`, on machines that it has."""
        cdef long long at = self.start[job] + self.estimate[job]
        cdef Py_ssize_t k = self._place(at, job)
        cdef End end
        self.status[job] = RUNNING
        memmove(&self.believed[k + 1], &self.believed[k], (self.n_running - k) * sizeof(Believed))
        self.believed[k].at, self.believed[k].job, self.believed[k].nodes = at, job, self.nodes[job]
        end.at, end.job = self.start[job] + self.length[job], job
        push(self.ends, self.n_running, end)
        self.n_running += 1

    cdef bint _end(self) noexcept nogil:
        """The first of the running jobs ends; False without memory for the log."""
        cdef int job = self.ends[0].job
        cdef Py_ssize_t k
        if not self._leave(job, True):
            return False
        self.finish[job] = self.now
        self.status[job] = ENDED
        self.ended += 1
        k = self._place(self.start[job] + self.estimate[job], job)
        self.n_running -= 1
        memmove(&self.believed[k], &self.believed[k + 1], (self.n_running - k) * sizeof(Believed))
        if self.n_running > 0:
            settle(self.ends, self.n_running, 0, self.ends[self.n_running])
        return True

    cdef bint _leave(self, int job, bint completed) noexcept nogil:
        """A job leaves its machines, to wait again if it is not completed."""
        cdef long long ran = self.now - self.start[job]
        cdef int s = self.spans[job], next_
        cdef Py_ssize_t base, u
        cdef unsigned long long mask
        if self.log and ran > 0 and not self._note(job, completed):
            return False
        while s >= 0:
            mask, base = self.span[s].mask, 64 * <Py_ssize_t> self.span[s].word
            self._give_back(self.span[s].word, mask)
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
                mask = self.span[s].mask
                while mask:
                    self.interrupted[base + lowest_bit(mask)] += 1
                    mask &= mask - 1
            next_ = self.span[s].next
            self.span[s].next = self.spare
            self.spare = s
            s = next_
        self.spans[job] = -1
        self.n_idle += self.nodes[job]
        self.blocked = False
        if not completed:
            self.cut[job] += 1
            self._join(job)
        return True

    # -- the machines ---------------------------------------------------------------------------------------

    cdef inline void _give_back(self, int word, unsigned long long mask) noexcept nogil:
        self.idle[word] |= mask
        self.some[word >> 6] |= <unsigned long long> 1 << (word & 63)

    cdef inline void _take(self, int word, unsigned long long mask) noexcept nogil:
        self.idle[word] &= ~mask
        if self.idle[word] == 0:
            self.some[word >> 6] &= ~(<unsigned long long> 1 << (word & 63))

    cdef void _occupy(self, int job) noexcept nogil:
        """The lowest machines that are free and up become those of the job; there are enough."""
        cdef int need = self.nodes[job], word, n, s, last = -1
        cdef Py_ssize_t k = 0
        cdef unsigned long long mask, rest
        self.n_idle -= need
        while need > 0:
            while self.some[k] == 0:
                k += 1
            word = <int> (64 * k) + lowest_bit(self.some[k])
            mask = self.idle[word]
            n = count_bits(mask)
            if n > need:
                rest = mask
                for n in range(need):
                    rest &= rest - 1
                mask ^= rest
                n = need
            need -= n
            self._take(word, mask)
            s = self.spare
            self.spare = self.span[s].next
            self.span[s].mask, self.span[s].word, self.span[s].next = mask, word, -1
            if last < 0:
                self.spans[job] = s
            else:
                self.span[last].next = s
            last = s

    # -- the log --------------------------------------------------------------------------------------------

    cdef bint _log_room(self, Py_ssize_t parts) noexcept nogil:
        """Room for one run more, of so many parts."""
        cdef void* wider
        cdef Py_ssize_t room
        if self.n_runs == self.room_runs:
            room = 2 * self.room_runs + 256
            wider = realloc(self.runs, room * sizeof(Run))
            if wider == NULL:
                return False
            self.runs, self.room_runs = <Run*> wider, room
        if self.n_parts + parts > self.room_parts:
            room = 2 * self.room_parts + parts + 256
            wider = realloc(self.parts, room * sizeof(Part))
            if wider == NULL:
                return False
            self.parts, self.room_parts = <Part*> wider, room
        return True

    cdef bint _note(self, int job, bint completed) noexcept nogil:
        cdef Run* run
        cdef int s = self.spans[job]
        if not self._log_room(min(<Py_ssize_t> self.nodes[job], self.idle.shape[0])):
            return False
        run = &self.runs[self.n_runs]
        run.job, run.start, run.end, run.completed = job, self.start[job], self.now, completed
        run.spans = self.n_parts
        self.n_runs += 1
        while s >= 0:
            self.parts[self.n_parts].word, self.parts[self.n_parts].mask = self.span[s].word, self.span[s].mask
            self.n_parts += 1
            s = self.span[s].next
        return True
