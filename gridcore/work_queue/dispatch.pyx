"""Work queues with task copies and checkpoints: selection of tasks and machines, and progress of copies.

WQR-FT (Anglano & Canonico, EGC 2005) and the information-aware selections of Arora et al.  Times are int64
nanoseconds.  At one instant tasks end first, then machines fail and recover, then free machines get tasks.

The node programs, `gridsim.schedulers.wqr.node`, have a scan in place of each index.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from gridcore.work_queue.agenda cimport ABSENT, Agenda
from gridcore.common.arguments cimport POSITIVE, _Guard, check_array, check_lengths, doubles, guard, indices, integers
from gridcore.common.memory cimport reallocate, large_pages, prefetch
from gridcore.common.release_queue cimport ReleaseQueue
from gridcore.common.radix_heap cimport radix_clear, radix_free, radix_pop, radix_reserve
from gridcore.work_queue.uptime_prediction cimport (
    MAX_UP_TIMES, PAST, TOLD, Prediction, predictor_free, predictor_make, predictor_up,
)
from gridcore.common.instants cimport NEVER
from gridcore.work_queue.progress cimport Copy, copy_begin, copy_duration
from gridcore.work_queue.selection cimport next_bag, pick_machine, pick_task
from gridcore.work_queue.task_order cimport order_by_size
from gridcore.work_queue.tournament cimport OUT, tournament_best, tournament_free, tournament_make, tournament_set
from gridcore.work_queue.work cimport (
    ALL, ASK_MACHINE, ASK_TASK, BEGUN, COMPLETED, CPU, FINE, GREAT, NO_MEMORY, SMALL, TOO_LATE, Bag, Machine, Row, Task, Work,
    work_change, work_clear, work_complete, work_drop_ranking, work_due, work_enrank, work_forget_ranking,
    work_is_idle, work_link, work_make_ranking, work_next, work_prefetch_copy, work_prefetch_machine,
    work_queue_failed, work_rate, work_room_for_machines, work_room_for_rows, work_save, work_saved, work_set_idle,
    work_start,
)

import numpy as np

from gridcore.work_queue import state as states
from gridcore.common.state import read_only

__all__ = ["WorkQueue"]

cdef enum:                              # why `_run` stops; a negative value is an error
    REACHED, BLOCKS, DECIDE, ENDED, DONE, OVER

_STOP_REASONS = ("reached", "blocks", "decide", "ended", "done", "over")

if (sizeof(Task), sizeof(Machine), sizeof(Bag), sizeof(Row)) != (
        states.TASK.itemsize, states.MACHINE.itemsize, states.BAG.itemsize, states.ROW.itemsize):
    raise ImportError("dtypes in gridcore.work_queue.state must have the sizes of the structs in gridcore/work_queue/work.pxd")


cdef object instants(object values, str name, long long low):
    """Return `values` as int64; raise ValueError if a value is below `low`."""
    array = integers(values, name)
    if len(array) and array.min() < low:
        k = int(np.argmax(array < low))
        raise ValueError(f"{name}[{k}] must be >= {low}, got {array[k]}")
    return array


cdef object table(void* rows, Py_ssize_t n, dtype):
    """Return a copy of n structs as an array of type `dtype`."""
    result = np.zeros(n, dtype)
    cdef unsigned char[::1] raw = result.view(np.uint8)
    if n:
        memcpy(&raw[0], rows, raw.shape[0])
    return result


cdef int fill(void* rows, object array) except -1:
    """Copy an array of structs, as `table` returns it, to `rows`."""
    cdef const unsigned char[::1] raw = array.view(np.uint8)
    if raw.shape[0]:
        memcpy(rows, &raw[0], raw.shape[0])
    return 0


cdef int check(int status) except -1:
    if status == NO_MEMORY:
        raise MemoryError
    if status == TOO_LATE:
        raise OverflowError("a task ends after the last instant")
    return 0


cdef class WorkQueue:
    """A work queue with task copies and checkpoints, for bags of tasks on machines that fail.

    `bag_order` selects the next bag.  Its next task is, if some tasks have lost all copies, the one without a copy for
    the longest time; otherwise the next task that was never started; otherwise the one that `order` selects among the
    tasks with the fewest copies, if these have fewer than `max_replicas`.
    `choice` selects its machine among the free ones.  A copy continues from the most advanced checkpoint.  The
    first copy that completes the task ends the others.

    Parameters
    ----------
    speed
        float64[machines], Mflop/s > 0.
    tasks
        int64[bags] >= 1, the number of tasks of each bag.
    sizes
        float64[all tasks], Mflop > 0, bag after bag.
    up_until
        int64[machines], ns, the predicted first failure of each machine; `NEVER` for none.
    order
        "random", "small" or "great" (smallest or greatest residual, ties: the lowest index), "ask" (see
        `candidates`).
    choice
        "none" (the lowest index), "cpu" (the fastest), "avail" (predicted to stay up the longest), "all" (the
        fastest of those predicted to be up until the task is done, else the fastest), "ask"; ties: the lowest
        index.
    max_replicas
        Copies that a task may have at a time, 1..1024.
    bag_order
        Which bag is next; ties go to the first in order of release.  "fcfs-share": the first that has a task to start;
        "fcfs-excl": the first that is not complete, even if it has none; "rr": round robin, the bag after the one
        selected last; "rr-nrf": the same, but only among bags that have a task without a copy, as long as there are any;
        "longidle": the bag of the task that has had no copy for the longest time, or if all tasks have a copy, as
        "fcfs-share".
    min_speed
        Mflop/s; slower machines get no task.
    interval, checkpoint, restore
        ns >= 0; computing between two checkpoints (0: none are written), writing one, reading one; at most
        10**18.
    local
        Whether a checkpoint stays on its machine, which keeps only that of the last task that it lost.  Otherwise
        the most advanced checkpoint of a task is on the server.
    printed
        Whether to choose as in the figures of the paper: machine 0 takes part in comparisons even if it is not free.
    prediction
        The predicted failure of a machine: "told": `up_until`, and after each recovery the instant given with it;
        "past": after the mean of those of its last 32 up times that were longer than its age; "age": after
        twice its age.
    faults
        Whether machines fail; `feed` gives the failures.
    seed
        Seed of the random order, >= 0.
    log
        Whether to keep every copy for `copies`.
    period, phase, factors, series, first
        Machine u has the fraction `factors[series[u], (first[u] + (t + phase) // period) % steps]` of its
        speed at t ns.  period is at most 10**16 ns; if it is 0, machines have their full speed.  phase is below
        period.
    step
        Whether `run` stops with "decide" before each start, as with "ask"; `pick_task`, `pick_machine` and
        `assign` (or `wait`, if there is no machine) then make the same decisions as `run`.
    releases
        The releases to which completed bags are reported, if some bags follow the ends of others; `run` then stops
        with "ended" after the ends at an instant.  It does not release bags.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    cdef bint in_call                       # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef readonly Py_ssize_t machines, bags
    cdef readonly bint log
    cdef Work w
    cdef bint faults, dirty, fed, step
    cdef const long long[::1] by_rank, rank
    cdef const double[:, ::1] factors
    cdef const int[::1] series, first_step
    # the current block of failures and recoveries, and the index of the next one in it
    cdef const long long[::1] fault_time, fault_machine, fault_until
    cdef const unsigned char[::1] fault_up
    cdef Py_ssize_t fault
    cdef ReleaseQueue releases
    cdef bint ended                         # whether a bag has ended now and `run` has not stopped for it

    def __cinit__(self, speed: ArrayLike, tasks: ArrayLike, sizes: ArrayLike, up_until: ArrayLike, *, order: str,
                  choice: str, max_replicas: SupportsIndex, interval: SupportsIndex = 0,
                  checkpoint: SupportsIndex = 0, restore: SupportsIndex = 0, bint local=False, bint printed=False,
                  prediction: str = "told", bint faults=False, seed: SupportsIndex = 0, bint log=False,
                  period: SupportsIndex = 0, factors: ArrayLike | None = None, series: ArrayLike | None = None,
                  first: ArrayLike | None = None, bint step=False, bag_order: str = "fcfs-share",
                  double min_speed=0.0, phase: SupportsIndex = 0, releases: ReleaseQueue | None = None):
        cdef Work* w = &self.w
        cdef Py_ssize_t u
        cdef const double[::1] speeds = doubles(speed, "speed")
        cdef const double[::1] size = doubles(sizes, "sizes")
        cdef const long long[::1] counts = indices(tasks, "tasks", 1, 2**31)
        cdef const long long[::1] forecast = instants(up_until, "up_until", 0)
        check_array(speeds, "speed", POSITIVE)
        check_array(size, "sizes", POSITIVE)
        check_lengths(speeds.shape[0], forecast.shape[0], "speed", "up_until")
        states.check_rules(max_replicas, interval, checkpoint, restore, period, phase, seed)
        w.machines, w.bags, w.tasks = speeds.shape[0], counts.shape[0], size.shape[0]
        if w.machines > 2**30 or w.tasks >= 2**31 - 1:
            raise ValueError(f"sizes must have fewer than {2**31 - 1} entries, and speed at most {2**30}, "
                             f"got {w.tasks} and {w.machines}")
        total = int(np.sum(counts))
        if total != w.tasks:
            raise ValueError(f"sizes must have {total} entries, the sum of tasks, got {w.tasks}")
        w.order = states.index_of("order", order, ("random", "small", "great", "ask"))
        w.choice = states.index_of("choice", choice, ("none", "cpu", "avail", "all", "ask"))
        by = states.index_of("prediction", prediction, ("told", "past", "age"))
        w.bag_order = states.index_of("bag_order", bag_order, states.BAG_ORDERS)
        w.min_speed = min_speed
        w.max_copies, w.local, w.printed, w.log, w.random_state, w.left = max_replicas, local, printed, log, seed, w.tasks
        w.rules.interval, w.rules.checkpoint, w.rules.restore = interval, checkpoint, restore
        self.step = step
        if releases is not None:
            self.releases = releases
            check_lengths(w.bags, self.releases.applications, "tasks", "releases")
        self.machines, self.bags, self.log, self.faults, self.fed = w.machines, w.bags, log, faults, not faults
        self._set_load(period, phase, factors, series, first)
        if w.choice in (CPU, ALL):
            self.by_rank = np.argsort(-np.asarray(speeds), kind="stable")
        else:
            self.by_rank = np.arange(w.machines)
        self.rank = np.argsort(np.asarray(self.by_rank), kind="stable")
        if w.machines:
            w.by_rank, w.rank = &self.by_rank[0], &self.rank[0]
        self.fault_time = self.fault_machine = self.fault_until = np.zeros(0, np.int64)
        self.fault_up = np.zeros(0, np.uint8)
        predictor_make(&w.predictor, w.machines, <Prediction> <int> by)
        self._make()
        for u in range(w.machines):
            w.machine[u].run.speed, w.machine[u].run.machine = speeds[u], u
            w.up += speeds[u] >= min_speed
            predictor_up(&w.predictor, u, 0, forecast[u])
            work_set_idle(w, u)
        self._make_tasks(counts, size)

    cdef int _make(self) except -1:
        """Allocate memory; all machines are up and free."""
        cdef Work* w = &self.w
        cdef Py_ssize_t u
        w.task = <Task*> calloc(w.tasks + 1, sizeof(Task))
        w.machine_block = calloc(w.machines + 2, sizeof(Machine))
        w.bag = <Bag*> calloc(w.bags + 1, sizeof(Bag))
        w.by_place = <int*> reallocate(NULL, (w.bags + 1) * sizeof(int))
        w.ranking = <Agenda**> calloc(w.bags + 1, sizeof(void*))
        w.used_machines = <unsigned long long**> calloc(w.bags + 1, sizeof(void*))
        w.sequence = <int*> reallocate(NULL, (w.tasks + 1) * sizeof(int))
        w.lost_at = <long long*> reallocate(NULL, (w.tasks + 1) * sizeof(long long))
        w.place = <int*> reallocate(NULL, (w.tasks + 1) * sizeof(int))
        if w.task == NULL or w.machine_block == NULL or w.bag == NULL or w.ranking == NULL or w.used_machines == NULL:
            raise MemoryError
        large_pages(w.task, w.tasks * sizeof(Task))
        large_pages(w.machine_block, w.machines * sizeof(Machine))
        w.machine = <Machine*> ((<size_t> w.machine_block + 127) & ~<size_t> 127)
        radix_reserve(&w.due, 2 * w.machines + 64)
        tournament_make(&w.idle, w.machines)
        tournament_make(&w.ready, w.bags)
        for u in range(w.machines):
            work_clear(&w.machine[u])
            w.machine[u].local_task = w.machine[u].met = -1
            w.machine[u].due = -1
            w.machine[u].up = True
        return 0

    cdef int _make_tasks(self, const long long[::1] counts, const double[::1] size) except -1:
        cdef Work* w = &self.w
        cdef Py_ssize_t b, k = 0, end
        for b in range(w.bags):
            w.bag[b].first, w.bag[b].tasks, w.bag[b].left = k, counts[b], counts[b]
            w.bag[b].failed = w.bag[b].last_failed = w.bag[b].first_start = w.bag[b].finish = w.bag[b].place = -1
            end = k + counts[b]
            while k < end:
                w.task[k].size, w.task[k].head, w.task[k].after = size[k], -1, -1
                w.task[k].bag, w.sequence[k], w.place[k] = <int> b, <int> k, ABSENT
                k += 1
        return 0

    cdef int _set_load(self, period, phase, factors, series, first) except -1:
        cdef Work* w = &self.w
        w.rules.load.period, w.rules.load.phase = period, phase
        if period == 0:
            return 0
        self.factors = np.array(factors, np.float64, ndmin=2)
        values = np.asarray(self.factors)
        is_valid = np.isfinite(values) & (values > 0)
        if not is_valid.all():
            raise ValueError(f"factors must be finite and > 0, got {values[~is_valid][0]}")
        rows, steps = self.factors.shape[0], self.factors.shape[1]
        self.series = np.asarray(indices(series, "series", 0, rows)).astype(np.int32)
        self.first_step = np.asarray(indices(first, "first", 0, steps)).astype(np.int32)
        check_lengths(w.machines, self.series.shape[0], "speed", "series")
        check_lengths(w.machines, self.first_step.shape[0], "speed", "first")
        w.rules.load.steps = steps
        w.rules.load.factor = &self.factors[0, 0]
        if w.machines:
            w.rules.load.series, w.rules.load.first = &self.series[0], &self.first_step[0]
        return 0

    def __dealloc__(self):
        cdef Work* w = &self.w
        cdef Py_ssize_t b
        for b in range(w.bags):
            if w.ranking != NULL:
                work_forget_ranking(w, b)
            if w.used_machines != NULL:
                free(w.used_machines[b])
        free(w.task)
        free(w.machine_block)
        free(w.bag)
        free(w.by_place)
        free(w.ranking)
        free(w.used_machines)
        free(w.sequence)
        free(w.place)
        free(w.lost_at)
        radix_free(&w.due)
        free(w.row)
        tournament_free(&w.idle)
        tournament_free(&w.ready)
        predictor_free(&w.predictor)

    @property
    def now(self) -> int:
        """The current time, ns."""
        return self.w.now

    @property
    def left(self) -> int:
        """The number of tasks, over all bags, that are not completed."""
        return self.w.left

    @property
    def n_examined(self) -> int:
        """The number of machines examined so far by the choice "all"."""
        return self.w.n_examined

    # -- input ------------------------------------------------------------------------------------------

    def submit(self, Py_ssize_t bag, sequence: ArrayLike | None = None):
        """Release `bag` now.

        Parameters
        ----------
        sequence
            int64[tasks of the bag], its tasks, numbered from 0, in the order in which they are first started.  None, if
            `order` is "small" or "great": the smallest or the greatest first, ties by number.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Bag* b
        cdef const long long[::1] order
        cdef unsigned char[::1] is_listed
        cdef Py_ssize_t k
        if not 0 <= bag < w.bags:
            raise ValueError(f"bag must be in 0..{w.bags - 1}, got {bag}")
        b = &w.bag[bag]
        if sequence is not None:
            order = indices(sequence, "sequence", 0, b.tasks)
            check_lengths(b.tasks, order.shape[0], "tasks of the bag", "sequence")
        elif w.order != SMALL and w.order != GREAT:
            raise ValueError("submit without sequence requires order 'small' or 'great'")
        if b.place >= 0:
            raise ValueError(f"bag must not be released yet, got {bag}")
        if sequence is None:
            order_by_size(w, b)
        else:
            is_listed = np.zeros(b.tasks, np.uint8)
            for k in range(b.tasks):
                if is_listed[order[k]]:
                    raise ValueError(f"sequence[{k}] must differ from the entries before it, got {order[k]}")
                is_listed[order[k]] = True
            for k in range(b.tasks):
                w.sequence[b.first + k] = <int> (b.first + order[k])
        b.unstarted, b.open, b.release, b.place = b.tasks, b.tasks, w.now, w.released
        w.by_place[w.released] = <int> bag
        w.released += 1
        work_rate(w, bag)
        self.dirty = True
        if w.predictor.by != TOLD:
            for k in range(w.machines):
                if w.machine[k].task < 0:
                    work_set_idle(w, k)

    def feed(self, time: ArrayLike, machine: ArrayLike, up: ArrayLike, until: ArrayLike):
        """Add the next block of failures and recoveries, by time, then machine, failures before recoveries.

        An empty block is the last one.  This may only be called after `run` has returned "blocks".

        Parameters
        ----------
        time
            int64[k], ns, not before now.
        machine
            int64[k].
        up
            bool[k], true if the machine recovers, false if it fails.
        until
            int64[k], ns, the predicted next failure of a machine that recovers.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t k
        if self.fed or self.fault < self.fault_time.shape[0]:
            raise ValueError("feed requires that the last run returned 'blocks'")
        cdef const long long[::1] times = instants(time, "time", self.w.now)
        machine_ids, predicted = indices(machine, "machine", 0, self.w.machines), instants(until, "until", 0)
        up_flags = np.ascontiguousarray(up, np.bool_).view(np.uint8)
        for name, column in (("machine", machine_ids), ("up", up_flags), ("until", predicted)):
            check_lengths(times.shape[0], len(column), "time", name)
        for k in range(1, times.shape[0]):
            if times[k] < times[k - 1]:
                raise ValueError(f"time[{k}] must be >= time[{k - 1}], {times[k - 1]}, got {times[k]}")
        self.fault_time, self.fault_machine, self.fault_up, self.fault_until = times, machine_ids, up_flags, predicted
        self.fault, self.fed = 0, times.shape[0] == 0

    def run(self, long long until) -> Literal["reached", "blocks", "decide", "ended", "done", "over"]:
        """Run everything that is due before `until` ns, and return why the run stops.

        "reached": no event is left before `until`, and `now` is `until` unless that is `NEVER`.  "blocks": `feed` must
        be called first.  "decide": the caller must choose a task or a machine from `candidates` and `idle_machines`.
        "ended": bags were completed at `now`, and those that follow them at once must be submitted first.
        "done": the last task of all bags was completed at `now`.  "over": no machine is up, and none will recover.

        Raises
        ------
        OverflowError
            If a task would end after the end of the clock.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef int reason
        with nogil:
            reason = self._run(until)
        check(-reason if reason < 0 else FINE)
        return _STOP_REASONS[reason]

    cdef int _run(self, long long until) noexcept nogil:
        cdef Work* w = &self.w
        cdef long long at
        cdef Py_ssize_t u
        cdef int reason
        if until <= w.now:
            return DONE if w.left == 0 else REACHED
        while w.left > 0:
            if self.fault == self.fault_time.shape[0] and not self.fed:
                return BLOCKS
            at = work_next(w)
            if self.fault < self.fault_time.shape[0]:
                at = min(at, self.fault_time[self.fault])
            if self.dirty:
                at = w.now
            if at == NEVER and w.up == 0:
                return OVER
            if at >= until:
                if until != NEVER:
                    w.now = until
                return REACHED
            w.now = at
            while w.due.n_front > 0 and w.due.front[0].time == at:
                u = w.due.front[0].slot
                radix_pop(&w.due)
                if w.machine[u].due == at:
                    self._pass(u)
            if w.left == 0:
                break
            if self.ended:
                self.ended = False
                return ENDED
            while self.fault < self.fault_time.shape[0] and self.fault_time[self.fault] == at:
                self._read_faults_ahead()
                if not work_change(w, self.fault_machine[self.fault], self.fault_up[self.fault] != 0,
                                   self.fault_until[self.fault]):
                    return -NO_MEMORY
                self.fault += 1
                self.dirty = True
            if self.fault == self.fault_time.shape[0] and not self.fed:
                continue                    # the next block may have failures or recoveries at this instant
            if not self.dirty:
                continue                # only checkpoints were written, which free no machine
            reason = self._match()
            if reason != REACHED:
                return reason
            self.dirty = False
        return DONE

    cdef inline void _read_faults_ahead(self) noexcept nogil:
        """Prefetch the data of the next failures and recoveries."""
        cdef Py_ssize_t k = self.fault + 4
        if k + 4 < self.fault_time.shape[0]:
            work_prefetch_machine(&self.w, self.fault_machine[k + 4])
            work_prefetch_copy(&self.w, self.fault_machine[k])

    cdef inline void _pass(self, Py_ssize_t u) noexcept nogil:
        """Handle the end or the checkpoint of the copy on machine u, which is due now."""
        cdef Work* w = &self.w
        cdef Py_ssize_t k
        for k in range(min(<Py_ssize_t> 5, w.due.n_front)):
            work_prefetch_copy(w, w.due.front[k].slot)
        w.machine[u].due = -1
        if w.machine[u].run.end == w.now:
            k = w.task[w.machine[u].task].bag
            work_complete(w, u)
            self.dirty = True
            if self.releases is not None and w.bag[k].left == 0:
                self.releases.end_one(k, w.now)
                self.ended = True
        else:
            work_save(w, u)

    cdef int _match(self) noexcept nogil:
        """Start tasks on free machines as long as there are both."""
        cdef Work* w = &self.w
        cdef Py_ssize_t b, k, u
        cdef int status
        while tournament_best(&w.idle) != OUT:
            b = next_bag(w)
            if b < 0:
                break
            if w.order == ASK_TASK or w.choice == ASK_MACHINE or self.step:
                self.dirty = True
                return DECIDE
            k = pick_task(w, b)
            if k < 0:
                return -NO_MEMORY
            u = pick_machine(w, k)
            if u < 0:
                break
            status = work_start(w, k, u)
            if status != FINE:
                return -status
        return REACHED

    # -- decisions from outside -------------------------------------------------------------------------

    def candidates(self) -> tuple[int, Integers, Floats]:
        """Return (bag, tasks int64[k], residual float64[k] Mflop) for the tasks that may be started next.

        Tasks are numbered from 0 within the bag, and ascending; k = 0 if there is none.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t b = next_bag(w), k
        cdef Bag* bag
        cdef int fewest = w.max_copies
        if b < 0:
            return -1, np.zeros(0, np.int64), np.zeros(0)
        bag = &w.bag[b]
        if bag.failed >= 0:
            eligible = [bag.failed]
        else:
            for k in range(bag.first, bag.first + bag.tasks):
                if w.task[k].state & COMPLETED == 0:
                    fewest = min(fewest, w.task[k].running)
            eligible = [k for k in range(bag.first, bag.first + bag.tasks)
                      if w.task[k].state & COMPLETED == 0 and w.task[k].running == fewest]
        residual = [w.task[k].size - work_saved(w, k) for k in eligible]
        return b, np.array(eligible, np.int64) - bag.first, np.array(residual, np.float64)

    def idle_machines(self) -> tuple[Integers, Integers]:
        """Return (machines int64[k], until int64[k] ns): the free machines, ascending, and their predicted failures."""
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        machines = [u for u in range(w.machines) if work_is_idle(w, u)]
        until = [w.idle.round[0][w.rank[u]] for u in machines]
        return np.array(machines, np.int64), np.array(until, np.int64)

    def lasts(self, Py_ssize_t bag, Py_ssize_t task, machines: ArrayLike) -> Integers:
        """Return the duration of `task` of `bag` on each of `machines` at full speed, int64[k], ns."""
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t k = self._left(bag, task)
        cdef const long long[::1] machine_ids = indices(machines, "machines", 0, self.machines)
        saved = work_saved(w, k)
        return np.array([copy_duration(&w.rules, saved, w.task[k].size, w.machine[u].run.speed) for u in machine_ids],
                        np.int64)

    def pick_task(self) -> tuple[int, int]:
        """Return (bag, task), the next task by `order`, drawn if it is "random"; (-1, -1) if there is none."""
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t b = next_bag(w), k
        if b < 0:
            return -1, -1
        if w.order == ASK_TASK:
            raise ValueError("pick_task does not support order 'ask'")
        k = pick_task(w, b)
        if k < 0:
            raise MemoryError
        return b, k - w.bag[b].first

    def pick_machine(self, Py_ssize_t bag, Py_ssize_t task) -> int:
        """Return the machine that `choice` selects for `task` of `bag`; -1 if there is none."""
        cdef _Guard access = guard(&self.in_call)
        if self.w.choice == ASK_MACHINE:
            raise ValueError("pick_machine does not support choice 'ask'")
        return pick_machine(&self.w, self._left(bag, task))

    def assign(self, Py_ssize_t bag, Py_ssize_t task, Py_ssize_t machine):
        """Start `task` of `bag` on `machine`.

        Raises
        ------
        ValueError
            If the task is not one of `candidates`, or the machine is not free.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t k = self._task(bag, task)
        cdef Task* t = &w.task[k]
        if bag != next_bag(w) or t.state & COMPLETED or t.running >= w.max_copies or (
                w.bag[bag].failed >= 0 and w.bag[bag].failed != k):
            raise ValueError(f"task must be one of the candidates, got {task} of bag {bag}")
        if not 0 <= machine < w.machines or not work_is_idle(w, machine):
            raise ValueError(f"machine must be free, got {machine}")
        check(work_start(w, k, machine))

    def wait(self):
        """Keep the free machines idle until the next event."""
        cdef _Guard access = guard(&self.in_call)
        self.dirty = False

    def weigh(self, Py_ssize_t bag, Py_ssize_t task, Py_ssize_t machine) -> tuple[int, bool, int, int, int, int]:
        """Return the facts about an assignment of `task` of `bag`, a next task, to `machine`, which is free.

        The tuple has: the number of copies of the task; whether it was ever started; the number of uncompleted tasks
        of the bag, including this one, with the same two values; the number of free machines; the predicted failure of
        `machine` (ns); and the duration of the task there (ns, as by `lasts`).
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t k = self._left(bag, task), j, u, n_alternatives = 0, free = 0
        cdef Task* t = &w.task[k]
        if not 0 <= machine < w.machines or not work_is_idle(w, machine):
            raise ValueError(f"machine must be free, got {machine}")
        if t.running == 0 and t.state & BEGUN:
            j = w.bag[bag].failed
            while j >= 0:
                n_alternatives += 1
                j = w.task[j].after
        else:
            for j in range(w.bag[bag].first, w.bag[bag].first + w.bag[bag].tasks):
                n_alternatives += (w.task[j].running == t.running and w.task[j].state & COMPLETED == 0
                          and w.task[j].state & BEGUN == t.state & BEGUN)
        for u in range(w.machines):
            free += work_is_idle(w, u)
        need = copy_duration(&w.rules, work_saved(w, k), t.size, w.machine[machine].run.speed)
        return t.running, t.state & BEGUN != 0, n_alternatives, free, w.idle.round[0][w.rank[machine]], need

    cdef Py_ssize_t _left(self, Py_ssize_t bag, Py_ssize_t task) except -1:
        """Return the index of `task` of `bag` among all tasks; raise ValueError if it is completed."""
        cdef Py_ssize_t k = self._task(bag, task)
        if self.w.task[k].state & COMPLETED:
            raise ValueError(f"task must not be completed, got {task} of bag {bag}")
        return k

    cdef Py_ssize_t _task(self, Py_ssize_t bag, Py_ssize_t task) except -1:
        if not 0 <= bag < self.w.bags:
            raise ValueError(f"bag must be in 0..{self.w.bags - 1}, got {bag}")
        if not 0 <= task < self.w.bag[bag].tasks:
            raise ValueError(f"task must be in 0..{self.w.bag[bag].tasks - 1}, got {task}")
        return self.w.bag[bag].first + task

    # -- results ----------------------------------------------------------------------------------------

    def totals(self) -> dict[str, NDArray[Any]]:
        """Return the totals of bags and machines so far, as new arrays.

        Per bag int64: first_start, finish (ns, -1 for never), completed (tasks), nodes_used (machines that
        began a task of it), resubmitted (how often a task was left without a copy), replicas (copies
        begun while another ran), killed (copies stopped because another was faster), undisturbed (completed
        tasks that were never resubmitted); and float64, Mflop: redundant, lost, overhead, slowed (`cycles` of
        `gridsim.scheduling.contract.Outcome`).  Per machine int64: busy (ns), tasks (completed), interrupted
        (copies that ran when it failed), ended (copies stopped because another was faster).
        """
        cdef _Guard access = guard(&self.in_call)
        bags = table(self.w.bag, self.w.bags, states.BAG)
        machines = table(self.w.machine, self.w.machines, states.MACHINE)
        return {
            "completed": bags["tasks"] - bags["left"], "nodes_used": bags["nodes"].copy(),
            **{name: bags[name].copy() for name in states.BAG_TOTALS},
            "tasks": machines["done"].copy(),
            **{name: machines[name].copy() for name in ("busy", "interrupted", "ended")},
        }

    def copies(self) -> dict[str, NDArray[Any]]:
        """Return a row for each task copy that has ended, in the order of their ends; none if ``log`` is false.

        The columns are int64: machine, bag, task (within the bag), start, end (ns), completed (0 or 1); and
        float64: begin, the work of the task done before the copy, Mflop.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Py_ssize_t b
        rows = table(self.w.row, self.w.n_rows, states.ROW)
        first = np.array([self.w.bag[b].first for b in range(self.w.bags)], np.int64)
        task = rows["task"].astype(np.int64)
        bag = np.searchsorted(first, task, side="right") - 1
        return {
            "machine": rows["machine"].astype(np.int64), "bag": bag,
            "task": task - first[bag] if len(task) else task,
            "start": rows["start"].copy(), "end": rows["end"].copy(),
            "completed": rows["completed"].astype(np.int64), "begin": rows["begin"].copy(),
        }

    # -- checkpoints ------------------------------------------------------------------------------------

    def getstate(self) -> dict[str, Any]:
        """Return the changes since construction, as described in `gridcore.common.state`.

        Tables are copied.  Of lists and heaps, only the members are stored, in order; `setstate` rebuilds them.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t k, u, b, n, words = (w.machines + 63) >> 6
        due, until = np.zeros(w.machines, np.int64), np.zeros(w.machines, np.int64)
        running, failed, ranked_tasks = [], [], []
        for k in range(w.tasks):
            u = w.task[k].head
            while u >= 0:
                running.append(u)
                u = w.machine[u].next
        for u in range(w.machines):
            due[u] = max(w.machine[u].due, 0)
            until[u] = w.idle.round[0][w.rank[u]]
        for b in range(w.bags):
            k = w.bag[b].failed
            while k >= 0:
                failed.append(k)
                k = w.task[k].after
            for n in range(w.max_copies if w.ranking[b] != NULL else 0):
                ranked_tasks += [w.ranking[b][n].item[k].number for k in range(w.ranking[b][n].n)]
        bags_with_machines = [b for b in range(w.bags) if w.used_machines[b] != NULL]
        n_up_times = MAX_UP_TIMES if w.predictor.by == PAST else 0
        int64 = np.dtype(np.int64)
        tasks, machines = table(w.task, w.tasks, states.TASK), table(w.machine, w.machines, states.MACHINE)
        bags = table(w.bag, w.bags, states.BAG)
        states.without_links(tasks, machines, bags)
        return read_only({
            "now": w.now, "examined": w.n_examined, "dirty": int(self.dirty), "fed": int(self.fed), "turn": w.turn,
            "chance": np.array([w.random_state], np.uint64),
            "tasks": tasks, "machines": machines, "bags": bags, "rows": table(w.row, w.n_rows, states.ROW),
            "sequence": table(w.sequence, w.tasks, np.int32), "due": due, "until": until,
            "since": table(w.predictor.since, w.machines, int64),
            "told": table(w.predictor.forecast, w.machines, int64),
            "up_times_ended": table(w.predictor.failures, w.machines, int64),
            "up_times": table(w.predictor.up_time, w.machines * n_up_times, int64),
            "running": np.array(running, np.int64), "failed": np.array(failed, np.int64),
            "lost": np.array([w.lost_at[k] for k in failed], np.int64),
            "ranked_bags": np.array([b for b in range(w.bags) if w.ranking[b] != NULL], np.int64),
            "ranked": np.array(ranked_tasks, np.int64), "seen_of": np.array(bags_with_machines, np.int64),
            "seen": np.array([table(w.used_machines[b], words, np.uint64) for b in bags_with_machines],
                             np.uint64).reshape(len(bags_with_machines), words),
            "faults": np.stack((self.fault_time, self.fault_machine, np.asarray(self.fault_up).astype(np.int64),
                                self.fault_until), axis=1)[self.fault:],
        })

    def setstate(self, state):
        """Restore a state of `getstate` of a queue with the same arguments.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        cdef _Guard access = guard(&self.in_call)
        cdef Work* w = &self.w
        cdef Py_ssize_t k, u, b, words = (w.machines + 63) >> 6
        cdef const long long[::1] until
        cdef long long[::1] due
        tables = (table(w.task, w.tasks, states.TASK), table(w.machine, w.machines, states.MACHINE),
                table(w.bag, w.bags, states.BAG))
        entries = states.read_state(state, *tables, MAX_UP_TIMES if w.predictor.by == PAST else 0, w.max_copies,
                                    w.min_speed)
        due, until = entries["due"], entries["until"]
        self._begin_copies(entries, due)
        w.now, w.n_examined, self.dirty, self.fed = entries["now"], entries["examined"], entries["dirty"], entries["fed"]
        w.random_state, w.turn, w.running = int(entries["chance"][0]), entries["turn"], 0
        radix_clear(&w.due)
        w.up = int(entries["machines"]["up"][entries["fast"]].sum())
        # the tables have empty links between rows
        fill(w.task, entries["tasks"])
        fill(w.machine, entries["machines"])
        fill(w.bag, entries["bags"])
        fill(w.sequence, entries["sequence"])
        fill(w.by_place, entries["by_place"])
        w.released, self.ended = len(entries["by_place"]), False
        fill(w.lost_at, entries["lost_at"])
        fill(w.predictor.since, entries["since"])
        fill(w.predictor.forecast, entries["told"])
        fill(w.predictor.failures, entries["up_times_ended"])
        fill(w.predictor.up_time, entries["up_times"])
        for k in range(w.tasks):
            w.place[k] = ABSENT
        for u in range(w.machines):
            tournament_set(&w.idle, w.rank[u], until[u])
        task_of = entries["task_of"]
        for u in reversed(entries["running"].tolist()):
            work_link(w, task_of[u], u)
            work_due(w, u, due[u])
        for k in entries["failed"].tolist():
            work_queue_failed(w, k)
        w.left = 0
        for b in range(w.bags):
            tournament_set(&w.ready, b, OUT)
        for b in range(w.bags):
            w.left += w.bag[b].left
            if w.bag[b].place >= 0:
                work_rate(w, b)
            work_forget_ranking(w, b)
            free(w.used_machines[b])
            w.used_machines[b] = NULL
        has_memory = True
        for b in entries["ranked_bags"].tolist():
            has_memory = has_memory and work_make_ranking(w, b)
        for k in entries["ranked"].tolist():
            has_memory = has_memory and work_enrank(w, k)
        if not has_memory:
            for b in range(w.bags):
                work_drop_ranking(w, b)
            raise MemoryError
        # restore the due instants of machines, which `work_enrank` may have changed
        for u in entries["running"].tolist():
            work_due(w, u, due[u])
        for k, b in enumerate(entries["seen_of"].tolist()):
            if not work_room_for_machines(w, b):
                raise MemoryError
            fill(w.used_machines[b], entries["seen"][k])
        self.fault_time, self.fault_machine, up, self.fault_until = np.ascontiguousarray(entries["faults"].T)
        self.fault_up, self.fault = (up != 0).view(np.uint8), 0
        rows = entries["rows"] if w.log else entries["rows"][:0]
        w.n_rows = len(rows)
        if not work_room_for_rows(w):
            w.n_rows = 0
            raise MemoryError
        fill(w.row, rows)

    cdef int _begin_copies(self, entries, long long[::1] due) except -1:
        """Compute the ends of the running copies of a state; raise ValueError if one would have ended before."""
        cdef Work* w = &self.w
        cdef Copy run
        cdef Py_ssize_t u
        cdef long long now = entries["now"]
        machines, task_of = entries["machines"], entries["task_of"]
        cdef long long[::1] start = machines["start"].copy(), end = machines["end"].copy(), marks = machines["marks"].copy()
        cdef const double[::1] begin = machines["begin"].copy()
        for u in entries["running"].tolist():
            if not copy_begin(&run, &w.rules, u, w.machine[u].run.speed, begin[u], w.task[<Py_ssize_t> task_of[u]].size,
                              start[u]) or not start[u] <= now <= run.end:
                raise ValueError(f"state['machines'][{u}] must have a copy that runs at {now} ns, got a start at {start[u]}")
            end[u], marks[u], due[u] = run.end, run.marks, min(max(due[u], now), run.end)
        machines["end"], machines["marks"] = end, marks
        return 0
