"""Work queues with replication and checkpoints: which task goes to which machine, and what becomes of it.

WQR-FT (Anglano & Canonico, EGC 2005) and the information-aware selections of Arora et al.  Times are int64
nanoseconds.  At one instant tasks end first, then machines fail and come back, then free machines get tasks.

`gridcore.reference.dispatch` is the same in plain Python, with scans in the place of each index.
"""

from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from gridcore.agenda cimport (
    ABSENT, Agenda, agenda_drop, agenda_reserve, agenda_set, bunch_add, bunch_drop,
)
from gridcore.edf cimport POSITIVE, check_array, check_lengths, doubles, indices, integers
from gridcore.memory cimport grown
from gridcore.outlook cimport (
    AGE, KEPT, PAST, TOLD, Outlook, Prediction, outlook_down, outlook_free, outlook_make, outlook_until,
    outlook_up,
)
from gridcore.progress cimport (
    NEVER, Instance, Rules, Spent, instance_begin, instance_mark_at, instance_marks, instance_saved,
    instance_spent, lasts,
)
from gridcore.tournament cimport (
    OUT, Tournament, tournament_best, tournament_first, tournament_free, tournament_from, tournament_make,
    tournament_set,
)

import numpy as np

from gridcore.dispatch_states import check_rules, check_state, named

__all__ = ["WorkQueue"]

cdef enum:                              # orders of tasks, choices of machines
    RANDOM, SMALL, GREAT, ASK_TASK
    FIRST = 0, CPU, AVAIL, ALL, ASK_MACHINE

cdef enum:                              # why it stops
    REACHED, BLOCKS, DECIDE, DONE, OVER, NO_MEMORY, TOO_LATE

cdef enum:                              # of a task
    BEGUN = 1, COMPLETED = 2, RESUBMITTED = 4

_WHY = ("reached", "blocks", "decide", "done", "over")


cdef struct Task:
    double size                         # Mflop
    double saved                        # of it, in the newest checkpoint on the server that has been looked at
    double spent                        # Mflop computed by instances that have ended without completing it
    int head                            # machine of one of its instances, -1
    int after                           # the task that failed next
    int running, state


cdef struct Machine:
    Instance run
    double local_saved                  # of the last task that failed on it
    int local_task
    int task                            # that it runs, -1
    int previous, next                  # other machines that run it, -1
    int up
    int met                             # the application of its last task


cdef struct Bag:
    Py_ssize_t first, tasks             # its tasks
    Py_ssize_t left                     # not completed
    Py_ssize_t open                     # not completed, and with fewer instances than there may be
    Py_ssize_t unstarted, at            # tasks never started, and where in the sequence they begin
    int failed, last_failed             # without an instance, oldest first; -1
    Agenda* ranking                     # by number of instances, 1 first; NULL until it is needed
    unsigned long long* seen            # machines that began a task of it
    long long first_start, finish, nodes, resubmitted, replicas, killed, undisturbed
    double redundant, lost, overhead, slowed


cdef struct Row:
    int machine, task
    long long start, end, completed
    double begin


cdef inline long long rank_of(double residual, bint great) noexcept nogil:
    """A number in the order of residuals (>= 0), which are told apart to the last bit."""
    cdef long long bits
    memcpy(&bits, &residual, sizeof(double))
    return -bits if great else bits


cdef object instants(object values, str name, long long low):
    """`values` as int64, none of which is before `low`."""
    array = integers(values, name)
    if len(array) and array.min() < low:
        k = int(np.argmax(array < low))
        raise ValueError(f"{name}[{k}] must be >= {low}, got {array[k]}")
    return array


cdef class WorkQueue:
    """Tasks of bags on machines that fail: work queue with replication and checkpoints.

    Bags go in the order of their numbers (first come, first served).  Of the first bag that has one, the next
    task is: the one that has been without an instance the longest, of those that lost all of them; else the
    next of the sequence of those never started; else, of the tasks with the fewest instances, if those are
    fewer than `max_replicas`, the one that `order` says.  It goes to the free machine that `choice` says.  An
    instance goes on from the newest checkpoint; the first that completes the task ends the others.

    Parameters
    ----------
    speed : float64[machines], Mflop/s > 0.
    tasks : int64[bags] >= 1, how many tasks each bag has.
    sizes : float64[all tasks], Mflop > 0, bag after bag.
    up_until : int64[machines], ns, when each machine is predicted to fail first; `NEVER` if it is not.
    order : "random", "small" or "great" (residual, ties: the lowest index), "ask" (see `candidates`).
    choice : "none" (the lowest index), "cpu" (the fastest), "avail" (predicted to stay up the longest), "all"
        (the fastest of those predicted to be up until the task is done, else the fastest), "ask"; ties: the
        lowest index.
    max_replicas : instances that a task may have at a time, 1..1024.
    interval, checkpoint, restore : ns >= 0; computing between two checkpoints (0: none are written), writing
        one, reading one.
    local : checkpoints stay on their machine, which keeps the one of the last task that it lost; else the
        newest of a task is on the server.
    printed : choices as the figures of the paper have them: machine 0 counts where it is not free.
    prediction : "told": `up_until`, and with each return its own; "past": mean of the machine's last 32 up times
        that were longer than its age; "age": for as long again as it has been up.
    faults : whether machines fail; they do so as `feed` tells.
    seed : of the random order, >= 0.
    log : keep every instance for `instances`.
    period, factors, series, first : machines have `factors[series[u], (first[u] + t // period) % steps]` of their
        speed at t ns; period 0: the whole.

    Raises
    ------
    ValueError naming the argument, its index and value.
    """

    cdef readonly Py_ssize_t machines, bags
    cdef readonly long long now, left   # ns; tasks not completed
    #: Machines looked at when one was chosen by "all".
    cdef readonly long long looked
    cdef readonly bint log
    cdef Py_ssize_t n_tasks, n_up
    cdef int order, choice, most
    cdef bint local, printed, dirty, faults, fed
    cdef unsigned long long chance
    cdef Rules rules
    cdef Outlook outlook
    cdef Task* task
    cdef Machine* machine
    cdef Bag* bag
    cdef int* bag_of                    # by task
    cdef int* sequence                  # by bag, of tasks not yet started
    cdef int* position                  # of machines in `due`
    cdef int* place                     # of tasks in rankings
    cdef Agenda due                     # machines, by what their instances do next
    cdef Tournament idle                # by rank: until when it is predicted to be up
    cdef Tournament ready               # bags with a task that may be started
    cdef const long long[::1] by_rank, rank
    cdef const double[:, ::1] factors
    cdef const int[::1] series, first_step
    cdef long long[::1] busy, done, interrupted, ended
    # the block of failures
    cdef const long long[::1] fault_time, fault_machine, fault_until
    cdef const unsigned char[::1] fault_up
    cdef Py_ssize_t fault
    cdef Row* row
    cdef Py_ssize_t n_rows, row_room

    def __cinit__(self, speed, tasks, sizes, up_until, *, order, choice, max_replicas, interval=0,
                  checkpoint=0, restore=0, bint local=False, bint printed=False, prediction="told",
                  bint faults=False, seed=0, bint log=False, period=0, factors=None, series=None, first=None):
        cdef Py_ssize_t u, b, k
        cdef const double[::1] speeds = doubles(speed, "speed")
        cdef const double[::1] size = doubles(sizes, "sizes")
        cdef const long long[::1] counts = indices(tasks, "tasks", 1, 2**31)
        cdef const long long[::1] told = instants(up_until, "up_until", 0)
        check_array(speeds, "speed", POSITIVE)
        check_array(size, "sizes", POSITIVE)
        check_lengths(speeds.shape[0], told.shape[0], "speed", "up_until")
        check_rules(max_replicas, interval, checkpoint, restore, period, seed)
        self.machines, self.bags, self.n_tasks = speeds.shape[0], counts.shape[0], size.shape[0]
        self.n_up = self.machines
        if self.machines > 2**30 or self.n_tasks >= 2**31 - 1:
            raise ValueError(f"sizes must be fewer than {2**31 - 1}, on at most {2**30} machines")
        if int(np.sum(counts)) != self.n_tasks:
            raise ValueError(f"sizes must be {int(np.sum(counts))}, as many as there are tasks, got {self.n_tasks}")
        self.order = named("order", order, ("random", "small", "great", "ask"))
        self.choice = named("choice", choice, ("none", "cpu", "avail", "all", "ask"))
        self.most, self.local, self.printed, self.log = max_replicas, local, printed, log
        self.faults, self.fed, self.chance, self.left = faults, not faults, seed, self.n_tasks
        self.rules.interval, self.rules.checkpoint, self.rules.restore = interval, checkpoint, restore
        self._set_pace(period, factors, series, first)
        outlook_make(&self.outlook, self.machines, <Prediction> <int> named("prediction", prediction,
                                                                            ("told", "past", "age")))
        self.task = <Task*> grown(NULL, (self.n_tasks + 1) * sizeof(Task))
        self.machine = <Machine*> grown(NULL, (self.machines + 1) * sizeof(Machine))
        self.bag = <Bag*> calloc(self.bags + 1, sizeof(Bag))
        self.bag_of = <int*> grown(NULL, (self.n_tasks + 1) * sizeof(int))
        self.sequence = <int*> grown(NULL, (self.n_tasks + 1) * sizeof(int))
        self.place = <int*> grown(NULL, (self.n_tasks + 1) * sizeof(int))
        self.position = <int*> grown(NULL, (self.machines + 1) * sizeof(int))
        self.due.position = self.position
        if self.bag == NULL or not agenda_reserve(&self.due, self.machines + 1):
            raise MemoryError
        tournament_make(&self.idle, self.machines)
        tournament_make(&self.ready, self.bags)
        if self.choice in (CPU, ALL):
            self.by_rank = np.argsort(-np.asarray(speeds), kind="stable")
        else:
            self.by_rank = np.arange(self.machines)
        self.rank = np.argsort(np.asarray(self.by_rank), kind="stable")
        self.busy, self.done, self.interrupted, self.ended = np.zeros((4, self.machines), np.int64)
        self.fault_time = self.fault_machine = self.fault_until = np.zeros(0, np.int64)
        self.fault_up = np.zeros(0, np.uint8)
        for u in range(self.machines):
            self.machine[u].run.speed, self.machine[u].run.machine = speeds[u], u
            self._clear(u)
            self.machine[u].local_task = self.machine[u].met = -1
            self.machine[u].local_saved = 0.0
            self.machine[u].up = True
            self.position[u] = ABSENT
            outlook_up(&self.outlook, u, 0, told[u])
            self._set_idle(u)
        k = 0
        for b in range(self.bags):
            self.bag[b].first, self.bag[b].tasks, self.bag[b].left = k, counts[b], counts[b]
            self.bag[b].failed = self.bag[b].last_failed = -1
            self.bag[b].first_start = self.bag[b].finish = -1
            for k in range(k, k + counts[b]):
                self.bag_of[k] = <int> b
            k += 1
        for k in range(self.n_tasks):
            self.task[k].size = size[k]
            self.task[k].saved = self.task[k].spent = 0.0
            self.task[k].head = self.task[k].after = -1
            self.task[k].running = self.task[k].state = 0
            self.sequence[k], self.place[k] = <int> k, ABSENT

    cdef int _set_pace(self, period, factors, series, first) except -1:
        self.rules.pace.period = period
        if period == 0:
            return 0
        self.factors = np.array(factors, np.float64, ndmin=2)
        if not (np.isfinite(self.factors).all() and (np.asarray(self.factors) > 0).all()):
            raise ValueError("factors must be finite and > 0")
        rows, steps = self.factors.shape[0], self.factors.shape[1]
        self.series = np.asarray(indices(series, "series", 0, rows)).astype(np.int32)
        self.first_step = np.asarray(indices(first, "first", 0, steps)).astype(np.int32)
        check_lengths(self.machines, self.series.shape[0], "speed", "series")
        check_lengths(self.machines, self.first_step.shape[0], "speed", "first")
        self.rules.pace.steps = steps
        self.rules.pace.factor = &self.factors[0, 0]
        if self.machines:
            self.rules.pace.series, self.rules.pace.first = &self.series[0], &self.first_step[0]
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t b
        if self.bag != NULL:
            for b in range(self.bags):
                self._forget_ranking(&self.bag[b])
                free(self.bag[b].seen)
        free(self.task)
        free(self.machine)
        free(self.bag)
        free(self.bag_of)
        free(self.sequence)
        free(self.place)
        free(self.position)
        free(self.due.item)
        free(self.row)
        tournament_free(&self.idle)
        tournament_free(&self.ready)
        outlook_free(&self.outlook)

    # -- what comes from outside ------------------------------------------------------------------------

    def submit(self, Py_ssize_t bag, sequence):
        """The `bag` is released now; its tasks are started for the first time in this order.

        sequence : int64[tasks of the bag], its tasks, counted from 0 within the bag.
        """
        cdef Bag* b
        cdef const long long[::1] given
        cdef Py_ssize_t k
        if not 0 <= bag < self.bags:
            raise ValueError(f"bag must be in 0..{self.bags - 1}, got {bag}")
        b = &self.bag[bag]
        given = indices(sequence, "sequence", 0, b.tasks)
        check_lengths(b.tasks, given.shape[0], "tasks of the bag", "sequence")
        if b.unstarted > 0 or b.first_start >= 0:
            raise ValueError(f"bag {bag} is released already")
        met_array = np.zeros(b.tasks, np.uint8)
        cdef unsigned char[::1] met = met_array
        for k in range(b.tasks):
            if met[given[k]]:
                raise ValueError(f"sequence[{k}] must be a task that it has not had, got {given[k]}")
            met[given[k]] = True
        for k in range(b.tasks):
            self.sequence[b.first + k] = <int> (b.first + given[k])
        b.unstarted = b.open = b.tasks
        tournament_set(&self.ready, bag, 0)
        self.dirty = True
        if self.outlook.by != TOLD:
            for k in range(self.machines):
                if self.machine[k].up and self.machine[k].task < 0:
                    self._set_idle(k)

    def feed(self, time, machine, up, until):
        """The next changes of machines, in order of time, machine, and down before up; no rows: there are no more.

        time : int64[k], ns, not before now.  machine : int64[k].  up : bool[k].  until : int64[k], ns, when a
        machine that comes back is predicted to fail again.  Only when `run` has asked for them.
        """
        cdef Py_ssize_t k
        if self.fed or self.fault < self.fault_time.shape[0]:
            raise ValueError("feed must wait until run asks for blocks")
        cdef const long long[::1] times = instants(time, "time", self.now)
        self.fault_machine = indices(machine, "machine", 0, self.machines)
        self.fault_until = instants(until, "until", 0)
        self.fault_up = np.ascontiguousarray(up, np.bool_).view(np.uint8)
        for given, name in ((self.fault_machine, "machine"), (self.fault_up, "up"), (self.fault_until, "until")):
            check_lengths(times.shape[0], given.shape[0], "time", name)
        for k in range(1, times.shape[0]):
            if times[k] < times[k - 1]:
                raise ValueError(f"time[{k}] must not be before time[{k - 1}], got {times[k]}")
        self.fault_time, self.fault = times, 0
        self.fed = times.shape[0] == 0

    def run(self, long long until):
        """Let happen what is due before `until` ns, and say why that ends.

        "reached": all of it has happened, and it is `until` now, unless that is `NEVER`; "blocks": `feed` must come first; "decide":
        a task or a machine must be chosen, see `candidates` and `idle_machines`; "done": the last task of all
        bags was completed, now; "over": the last machine went for good, now.

        OverflowError if a task would end after the last instant.
        """
        cdef int why
        with nogil:
            why = self._run(until)
        if why == NO_MEMORY:
            raise MemoryError
        if why == TOO_LATE:
            raise OverflowError("a task ends after the last instant")
        return _WHY[why]

    # -- decisions from outside -------------------------------------------------------------------------

    def candidates(self):
        """(bag, tasks int64[k], residual float64[k] Mflop): of which tasks one is next; k = 0 if there is none.

        Tasks are counted from 0 within the bag, and ascend.
        """
        cdef Py_ssize_t b = tournament_first(&self.ready, 0), k
        cdef Bag* bag
        cdef int fewest = self.most
        if b < 0:
            return -1, np.zeros(0, np.int64), np.zeros(0)
        bag = &self.bag[b]
        if bag.failed >= 0:
            chosen = [bag.failed]
        else:
            for k in range(bag.first, bag.first + bag.tasks):
                if self.task[k].state & COMPLETED == 0:
                    fewest = min(fewest, self.task[k].running)
            chosen = [k for k in range(bag.first, bag.first + bag.tasks)
                      if self.task[k].state & COMPLETED == 0 and self.task[k].running == fewest]
        residual = [self.task[k].size - self._newest(k) for k in chosen]
        return b, np.array(chosen, np.int64) - bag.first, np.array(residual, np.float64)

    def idle_machines(self):
        """(machines int64[k], until int64[k] ns): who is free, ascending, and until when predicted to be up."""
        chosen = [u for u in range(self.machines) if self.idle.round[0][self.rank[u]] != OUT]
        until = [self.idle.round[0][self.rank[u]] for u in chosen]
        return np.array(chosen, np.int64), np.array(until, np.int64)

    def lasts(self, Py_ssize_t bag, Py_ssize_t task, machines):
        """int64[k] ns: how long `task` of `bag` would take on `machines` at whole speed, as "all" reckons."""
        cdef Py_ssize_t k = self._task(bag, task)
        cdef const long long[::1] who = indices(machines, "machines", 0, self.machines)
        saved = self._newest(k)
        return np.array([lasts(&self.rules, saved, self.task[k].size, self.machine[u].run.speed) for u in who],
                        np.int64)

    def pick_task(self):
        """(bag, task): which task is next by `order`; (-1, -1) if there is none.  Chance is used up."""
        cdef Py_ssize_t b = tournament_first(&self.ready, 0), k
        if b < 0:
            return -1, -1
        if self.order == ASK_TASK:
            raise ValueError("order must be said, the task is to be chosen from outside")
        k = self._pick_task(b)
        if k < 0:
            raise MemoryError
        return b, k - self.bag[b].first

    def pick_machine(self, Py_ssize_t bag, Py_ssize_t task):
        """Which machine is to have `task` of `bag` by `choice`; -1 if none."""
        if self.choice == ASK_MACHINE:
            raise ValueError("choice must be said, the machine is to be chosen from outside")
        return self._pick_machine(self._task(bag, task))

    def assign(self, Py_ssize_t bag, Py_ssize_t task, Py_ssize_t machine):
        """`task` of `bag` begins on `machine`.  ValueError for a task that is not next, or a machine not free."""
        cdef Py_ssize_t k = self._task(bag, task)
        cdef Task* t = &self.task[k]
        if bag != tournament_first(&self.ready, 0) or t.state & COMPLETED or t.running >= self.most or (
                self.bag[bag].failed >= 0 and self.bag[bag].failed != k):
            raise ValueError(f"task must be one of those that are next, got {task} of bag {bag}")
        if not 0 <= machine < self.machines or self.idle.round[0][self.rank[machine]] == OUT:
            raise ValueError(f"machine must be free, got {machine}")
        cdef int why = self._start(k, machine)
        if why == NO_MEMORY:
            raise MemoryError
        if why == TOO_LATE:
            raise OverflowError("a task ends after the last instant")

    cdef Py_ssize_t _task(self, Py_ssize_t bag, Py_ssize_t task) except -1:
        if not 0 <= bag < self.bags:
            raise ValueError(f"bag must be in 0..{self.bags - 1}, got {bag}")
        if not 0 <= task < self.bag[bag].tasks:
            raise ValueError(f"task must be in 0..{self.bag[bag].tasks - 1}, got {task}")
        return self.bag[bag].first + task

    # -- what has come of it ----------------------------------------------------------------------------

    def totals(self):
        """Per bag int64: first_start, finish (ns, -1 for never), completed (tasks), nodes_used (machines that
        began a task of it), resubmitted (how often a task was left without an instance), replicas (instances
        begun while another ran), killed (instances that another was faster than), undisturbed (tasks completed
        that were never resubmitted); and float64, Mflop: redundant, lost, overhead, slowed (see `cycles` of
        `gridsim.scheduler.Outcome`).  Per machine int64: busy (ns), tasks (completed), interrupted (instances
        that ran when it failed), ended (instances that another was faster than).
        """
        cdef Py_ssize_t b
        whole = np.empty((8, self.bags), np.int64)
        waste = np.empty((4, self.bags), np.float64)
        cdef long long[:, ::1] n = whole
        cdef double[:, ::1] x = waste
        for b in range(self.bags):
            n[0, b], n[1, b] = self.bag[b].first_start, self.bag[b].finish
            n[2, b], n[3, b] = self.bag[b].tasks - self.bag[b].left, self.bag[b].nodes
            n[4, b], n[5, b] = self.bag[b].resubmitted, self.bag[b].replicas
            n[6, b], n[7, b] = self.bag[b].killed, self.bag[b].undisturbed
            x[0, b], x[1, b] = self.bag[b].redundant, self.bag[b].lost
            x[2, b], x[3, b] = self.bag[b].overhead, self.bag[b].slowed
        names = ("first_start", "finish", "completed", "nodes_used", "resubmitted", "replicas", "killed",
                 "undisturbed")
        return {
            **dict(zip(names, whole)), **dict(zip(("redundant", "lost", "overhead", "slowed"), waste)),
            "busy": np.array(self.busy), "tasks": np.array(self.done),
            "interrupted": np.array(self.interrupted), "ended": np.array(self.ended),
        }

    def instances(self):
        """Columns of all instances that are over, as they ended; empty without ``log``.

        machine, bag, task (within the bag), start, end (ns), completed (0 or 1) int64; begin float64, Mflop of
        the task that were done before.
        """
        cdef Py_ssize_t k
        whole, begin = np.empty((6, self.n_rows), np.int64), np.empty(self.n_rows)
        cdef long long[:, ::1] out = whole
        cdef double[::1] done = begin
        for k in range(self.n_rows):
            out[0, k], out[1, k] = self.row[k].machine, self.bag_of[self.row[k].task]
            out[2, k] = self.row[k].task - self.bag[out[1, k]].first
            out[3, k], out[4, k], out[5, k] = self.row[k].start, self.row[k].end, self.row[k].completed
            done[k] = self.row[k].begin
        names = ("machine", "bag", "task", "start", "end", "completed")
        return {**dict(zip(names, whole)), "begin": begin}

    # -- checkpoints ------------------------------------------------------------------------------------

    def getstate(self):
        """What has changed since the queue was made; see `gridcore.states`.

        Lists and heaps are kept as their members in order: they are made again from these.
        """
        cdef Py_ssize_t k, u, b, n, words = (self.machines + 63) >> 6, rest
        cdef Bag* bag
        cdef Machine* m
        tasks, work = np.empty(self.n_tasks, np.int64), np.empty((self.n_tasks, 2))
        runs, held = np.empty((self.machines, 4), np.int64), np.empty((self.machines, 4), np.int64)
        machine_work, outlook = np.empty((self.machines, 2)), np.empty((self.machines, 3), np.int64)
        up_times = np.zeros((self.machines, KEPT if self.outlook.by == PAST else 0), np.int64)
        until, bags, bag_work = np.empty(self.machines, np.int64), np.empty((self.bags, 10), np.int64), np.empty(
            (self.bags, 4))
        cdef long long[::1] t = tasks, x = until
        cdef double[:, ::1] w = work, mw = machine_work, bw = bag_work
        cdef long long[:, ::1] r = runs, h = held, o = outlook, g = bags, past = up_times
        running, failed, ranked, met = [], [], [], []
        for k in range(self.n_tasks):
            t[k], w[k, 0], w[k, 1] = self.task[k].state, self.task[k].saved, self.task[k].spent
            u = self.task[k].head
            while u >= 0:
                running.append(u)
                u = self.machine[u].next
        for u in range(self.machines):
            m = &self.machine[u]
            r[u, 0], r[u, 1], r[u, 2] = m.run.start, m.run.end, m.run.marks
            r[u, 3] = self.due.item[self.position[u]].at if m.task >= 0 else 0
            if m.task < 0:
                r[u, 0] = r[u, 1] = r[u, 2] = 0
            h[u, 0], h[u, 1], h[u, 2], h[u, 3] = m.task, m.local_task, m.met, m.up
            mw[u, 0], mw[u, 1] = m.run.begin if m.task >= 0 else 0.0, m.local_saved
            o[u, 0], o[u, 1] = self.outlook.since[u], self.outlook.told[u]
            o[u, 2] = self.outlook.failures[u]
            x[u] = self.idle.round[0][self.rank[u]]
            for k in range(past.shape[1]):
                past[u, k] = self.outlook.up_time[KEPT * u + k]
        for b in range(self.bags):
            bag = &self.bag[b]
            g[b, 0] = bag.unstarted > 0 or bag.first_start >= 0
            g[b, 1] = bag.ranking != NULL
            g[b, 2], g[b, 3], g[b, 4] = bag.first_start, bag.finish, bag.nodes
            g[b, 5], g[b, 6], g[b, 7] = bag.resubmitted, bag.replicas, bag.killed
            g[b, 8], g[b, 9] = bag.undisturbed, 0
            bw[b, 0], bw[b, 1], bw[b, 2], bw[b, 3] = bag.redundant, bag.lost, bag.overhead, bag.slowed
            k = bag.failed
            while k >= 0:
                failed.append(k)
                k = self.task[k].after
            if bag.ranking != NULL:
                for n in range(self.most - 1):
                    ranked += [bag.ranking[n].item[k].number for k in range(bag.ranking[n].n)]
            if bag.seen != NULL:
                met.append(b)
        seen_array, rest = np.empty((len(met), words), np.uint64), self.fault
        cdef unsigned long long[:, ::1] seen = seen_array
        for k, b in enumerate(met):
            memcpy(&seen[k, 0], self.bag[b].seen, words * sizeof(long long))
        faults = np.stack((self.fault_time, self.fault_machine, np.asarray(self.fault_up).astype(np.int64),
                           self.fault_until), axis=1)[rest:]
        rows, begin = np.empty((self.n_rows, 5), np.int64), np.empty(self.n_rows)
        cdef long long[:, ::1] row = rows
        cdef double[::1] row_begin = begin
        for k in range(self.n_rows):
            row[k, 0], row[k, 1], row[k, 2] = self.row[k].machine, self.row[k].task, self.row[k].start
            row[k, 3], row[k, 4], row_begin[k] = self.row[k].end, self.row[k].completed, self.row[k].begin
        return {
            "now": self.now, "looked": self.looked, "dirty": int(self.dirty), "fed": int(self.fed),
            "chance": np.array([self.chance], np.uint64),
            "sequence": np.array(<int[:self.n_tasks]> self.sequence) if self.n_tasks else np.zeros(0, np.int32),
            "task_state": tasks, "task_work": work, "machine_runs": runs, "machine_tasks": held,
            "machine_work": machine_work, "until": until, "outlook": outlook, "up_times": up_times,
            "machine_totals": np.stack((self.busy, self.done, self.interrupted, self.ended), axis=1),
            "running": np.array(running, np.int64), "failed": np.array(failed, np.int64),
            "ranked": np.array(ranked, np.int64), "bags": bags, "bag_work": bag_work,
            "seen_of": np.array(met, np.int64), "seen": seen_array, "faults": faults,
            "rows": rows, "row_begin": begin,
        }

    def setstate(self, state):
        """Go on from what `getstate` of a queue made with the same arguments gave.

        Raises ValueError for a state that cannot be its own.
        """
        cdef Py_ssize_t k, u, b, i, words = (self.machines + 63) >> 6
        cdef Bag* bag
        cdef Task* task
        cdef Machine* m
        sizes = np.array([self.task[k].size for k in range(self.n_tasks)], np.float64)
        offsets = np.array([*(self.bag[b].first for b in range(self.bags)), self.n_tasks], np.int64)
        kept = KEPT if self.outlook.by == PAST else 0
        given = check_state(state, self.machines, sizes, offsets, kept, self.most, self.faults)
        cdef const long long[::1] t = given["task_state"], x = given["until"]
        cdef const double[:, ::1] w = given["task_work"], mw = given["machine_work"], bw = given["bag_work"]
        cdef const long long[:, ::1] r = given["machine_runs"], h = given["machine_tasks"], o = given["outlook"]
        cdef const long long[:, ::1] g = given["bags"], past = given["up_times"], row = given["rows"]
        cdef const int[::1] sequence = given["sequence"]
        cdef const unsigned long long[:, ::1] seen = given["seen"]
        self.now, self.looked, self.dirty, self.fed = given["now"], given["looked"], given["dirty"], given["fed"]
        self.chance = int(given["chance"][0])
        self.busy, self.done, self.interrupted, self.ended = np.ascontiguousarray(given["machine_totals"].T)
        self.left, self.due.n, self.n_up = self.n_tasks, 0, int(given["machine_tasks"][:, 3].sum())
        for b in range(self.bags):
            bag = &self.bag[b]
            self._forget_ranking(bag)
            free(bag.seen)
            bag.seen = NULL
            bag.left, bag.at, bag.open, bag.unstarted = bag.tasks, 0, 0, 0
            bag.failed = bag.last_failed = -1
            bag.first_start, bag.finish, bag.nodes = g[b, 2], g[b, 3], g[b, 4]
            bag.resubmitted, bag.replicas, bag.killed, bag.undisturbed = g[b, 5], g[b, 6], g[b, 7], g[b, 8]
            bag.redundant, bag.lost, bag.overhead, bag.slowed = bw[b, 0], bw[b, 1], bw[b, 2], bw[b, 3]
        for k in range(self.n_tasks):
            task = &self.task[k]
            self.sequence[k], self.place[k] = sequence[k], ABSENT
            task.state, task.saved, task.spent = <int> t[k], w[k, 0], w[k, 1]
            task.head, task.after, task.running = -1, -1, 0
        for u in range(self.machines):
            m = &self.machine[u]
            self.position[u] = ABSENT
            m.run.start, m.run.end, m.run.marks, m.run.begin = r[u, 0], r[u, 1], r[u, 2], mw[u, 0]
            m.local_task, m.met, m.up, m.local_saved = <int> h[u, 1], <int> h[u, 2], <int> h[u, 3], mw[u, 1]
            self._clear(u)
            self.outlook.since[u], self.outlook.told[u], self.outlook.failures[u] = o[u, 0], o[u, 1], o[u, 2]
            for k in range(past.shape[1]):
                self.outlook.up_time[KEPT * u + k] = past[u, k]
            tournament_set(&self.idle, self.rank[u], x[u])
        for u in reversed(given["running"].tolist()):
            k = h[u, 0]
            m, task = &self.machine[u], &self.task[k]
            m.task, m.next = <int> k, task.head
            if task.head >= 0:
                self.machine[task.head].previous = <int> u
            task.head = <int> u
            task.running += 1
            agenda_set(&self.due, u, r[u, 3])
        for k in given["failed"].tolist():
            self._queue_failed(&self.bag[self.bag_of[k]], k)
        for k in range(self.n_tasks):
            bag, task = &self.bag[self.bag_of[k]], &self.task[k]
            if task.state & COMPLETED:
                bag.left -= 1
                self.left -= 1
            elif g[self.bag_of[k], 0]:
                bag.open += task.running < self.most
                bag.unstarted += task.state & BEGUN == 0
        for b in range(self.bags):
            bag = &self.bag[b]
            tournament_set(&self.ready, b, 0 if bag.open else OUT)
            if g[b, 1] and bag.left and not self._empty_ranking(bag):
                raise MemoryError
        for k in given["ranked"].tolist():
            if not self._enrank(k):
                raise MemoryError
        # which checkpoints are looked at is kept, too
        for u in given["running"].tolist():
            agenda_set(&self.due, u, r[u, 3])
        for k, b in enumerate(given["seen_of"].tolist()):
            free(self.bag[b].seen)
            self.bag[b].seen = <unsigned long long*> calloc(words + 1, sizeof(long long))
            if self.bag[b].seen == NULL:
                raise MemoryError
            memcpy(self.bag[b].seen, &seen[k, 0], words * sizeof(long long))
        self.fault_time, self.fault_machine, up, self.fault_until = np.ascontiguousarray(given["faults"].T)
        self.fault_up, self.fault = (up != 0).view(np.uint8), 0
        self.n_rows = 0
        for i in range(row.shape[0]):
            if not self._room_for_rows():
                raise MemoryError
            self._note(row[i, 0], row[i, 1], row[i, 2], row[i, 3], row[i, 4] != 0, given["row_begin"][i])
        if not self._room_for_rows():
            raise MemoryError

    # -- what happens -----------------------------------------------------------------------------------

    cdef int _run(self, long long until) noexcept nogil:
        cdef long long at
        cdef int why
        if until <= self.now:
            return DONE if self.left == 0 else REACHED
        while self.left > 0:
            if self.fault == self.fault_time.shape[0] and not self.fed:
                return BLOCKS
            at = self.due.item[0].at if self.due.n > 0 else NEVER
            if self.fault < self.fault_time.shape[0]:
                at = min(at, self.fault_time[self.fault])
            if self.dirty:
                at = self.now
            if at == NEVER and self.n_up == 0:
                return OVER
            if at >= until:
                if until != NEVER:
                    self.now = until
                return REACHED
            self.now = at
            while self.due.n > 0 and self.due.item[0].at == at:
                self._due(self.due.item[0].number)
            if self.left == 0:
                break
            while self.fault < self.fault_time.shape[0] and self.fault_time[self.fault] == at:
                if not self._change():
                    return NO_MEMORY
                self.dirty = True
            if self.fault == self.fault_time.shape[0] and not self.fed:
                continue                # there may be more of this instant
            if not self.dirty:
                continue                # a checkpoint was written, which frees nobody
            why = self._match()
            if why != REACHED:
                return why
            self.dirty = False
        return DONE

    cdef int _match(self) noexcept nogil:
        """Tasks begin on machines that are free."""
        cdef Py_ssize_t b, k, u
        cdef int why
        while tournament_best(&self.idle) != OUT:
            b = tournament_first(&self.ready, 0)
            if b < 0:
                break
            if self.order == ASK_TASK or self.choice == ASK_MACHINE:
                self.dirty = True
                return DECIDE
            k = self._pick_task(b)
            if k < 0:
                return NO_MEMORY
            u = self._pick_machine(k)
            if u < 0:
                break
            why = self._start(k, u)
            if why != REACHED:
                return why
        return REACHED

    cdef void _due(self, Py_ssize_t u) noexcept nogil:
        """The instance of machine u ends, or has written a checkpoint that somebody looks at."""
        cdef Py_ssize_t k = self.machine[u].task
        if self.machine[u].run.end == self.now:
            self._complete(u)
            return
        self.task[k].saved = max(self.task[k].saved, instance_saved(&self.machine[u].run, &self.rules, self.now))
        if self.place[k] != ABSENT:
            agenda_set(self._ranking(k), k, self._rank_task(k))
        self._watch(u, self.place[k] != ABSENT)

    cdef void _watch(self, Py_ssize_t u, bint checkpoints) noexcept nogil:
        """Machine u is due when its instance ends, or when it has written its next checkpoint."""
        cdef const Instance* run = &self.machine[u].run
        cdef long long at = run.end, number
        if checkpoints:
            number = instance_marks(run, &self.rules, self.now) + 1
            if number <= run.marks:
                at = instance_mark_at(run, &self.rules, number)
        agenda_set(&self.due, u, at)

    cdef void _complete(self, Py_ssize_t u) noexcept nogil:
        cdef Py_ssize_t k = self.machine[u].task, v
        cdef Task* t = &self.task[k]
        cdef Bag* b = &self.bag[self.bag_of[k]]
        cdef Spent spent
        self._unrank(k)
        if t.running < self.most:
            self._close(b)
        while t.head >= 0:
            v = t.head
            spent = self._leave(v, k, v == u)
            if v != u:
                t.spent += spent.computed
                b.killed += 1
                self.ended[v] += 1
            self._set_idle(v)
        b.redundant += max(0.0, t.spent - self.machine[u].run.begin)    # but for rounding
        t.state |= COMPLETED
        b.undisturbed += t.state & RESUBMITTED == 0
        b.left -= 1
        self.left -= 1
        self.done[u] += 1
        b.finish = self.now
        self.dirty = True
        if b.left == 0:
            self._forget_ranking(b)

    cdef void _forget_ranking(self, Bag* b) noexcept nogil:
        cdef int group
        if b.ranking != NULL:
            for group in range(self.most - 1):
                free(b.ranking[group].item)
            free(b.ranking)
            b.ranking = NULL

    cdef bint _change(self) noexcept nogil:
        """The next change of a machine; False without memory."""
        cdef Py_ssize_t u = self.fault_machine[self.fault]
        cdef long long until = self.fault_until[self.fault]
        cdef bint up = self.fault_up[self.fault] != 0, fine = True
        self.fault += 1
        if up:
            if not self.machine[u].up:
                self.machine[u].up = True
                self.n_up += 1
                outlook_up(&self.outlook, u, self.now, until)
                self._set_idle(u)
        elif self.machine[u].up:
            outlook_down(&self.outlook, u, self.now)
            self.machine[u].up = False
            self.n_up -= 1
            tournament_set(&self.idle, self.rank[u], OUT)
            if self.machine[u].task >= 0:
                fine = self._fail(u)
        return fine

    cdef bint _fail(self, Py_ssize_t u) noexcept nogil:
        """The instance of machine u is lost; False without memory."""
        cdef Py_ssize_t k = self.machine[u].task
        cdef Task* t = &self.task[k]
        cdef Bag* b = &self.bag[self.bag_of[k]]
        cdef double saved = instance_saved(&self.machine[u].run, &self.rules, self.now)
        cdef Spent spent
        self._unrank(k)
        spent = self._leave(u, k, False)
        t.spent += spent.computed - spent.fresh
        b.lost += spent.fresh
        self.interrupted[u] += 1
        if self.local:
            self.machine[u].local_task, self.machine[u].local_saved = <int> k, saved
        else:
            t.saved = max(t.saved, saved)
        if t.running == self.most - 1:
            self._open(b)
        if t.running > 0:
            return self._enrank(k)
        t.state |= RESUBMITTED
        b.resubmitted += 1
        self._queue_failed(b, k)
        return True

    cdef void _queue_failed(self, Bag* b, Py_ssize_t k) noexcept nogil:
        """Task k is without an instance now."""
        self.task[k].after = -1
        if b.failed < 0:
            b.failed = <int> k
        else:
            self.task[b.last_failed].after = <int> k
        b.last_failed = <int> k

    cdef Spent _leave(self, Py_ssize_t u, Py_ssize_t k, bint completed) noexcept nogil:
        """The instance of task k on machine u is over; what it made of the cycles."""
        cdef Machine* m = &self.machine[u]
        cdef Task* t = &self.task[k]
        cdef Bag* b = &self.bag[self.bag_of[k]]
        cdef Spent spent = instance_spent(&m.run, &self.rules, self.now)
        b.overhead += spent.overhead
        b.slowed += spent.slowed
        self.busy[u] += self.now - m.run.start
        agenda_drop(&self.due, u)
        if m.previous >= 0:
            self.machine[m.previous].next = m.next
        else:
            t.head = m.next
        if m.next >= 0:
            self.machine[m.next].previous = m.previous
        t.running -= 1
        self._clear(u)
        if self.log:
            self._note(u, k, m.run.start, self.now, completed, m.run.begin)
        return spent

    cdef void _note(self, Py_ssize_t u, Py_ssize_t k, long long start, long long end, bint completed,
                    double begin) noexcept nogil:
        """A further row; there is room."""
        cdef Row* row = &self.row[self.n_rows]
        self.n_rows += 1
        row.machine, row.task, row.start, row.end = <int> u, <int> k, start, end
        row.completed, row.begin = completed, begin

    cdef void _clear(self, Py_ssize_t u) noexcept nogil:
        self.machine[u].task = self.machine[u].previous = self.machine[u].next = -1

    cdef int _start(self, Py_ssize_t k, Py_ssize_t u) noexcept nogil:
        """Task k begins on machine u, which is free."""
        cdef Machine* m = &self.machine[u]
        cdef Task* t = &self.task[k]
        cdef Bag* b = &self.bag[self.bag_of[k]]
        cdef double begin
        if self.local:
            begin = m.local_saved if m.local_task == k else 0.0
        else:
            begin = self._newest(k)
        if not self._room_for_rows():
            return NO_MEMORY
        if not instance_begin(&m.run, &self.rules, u, m.run.speed, begin, t.size, self.now):
            return TOO_LATE
        self._unrank(k)
        if t.running > 0:
            b.replicas += 1
        elif t.state & BEGUN:
            b.failed = t.after
        else:
            t.state |= BEGUN
            b.unstarted -= 1
            if b.first_start < 0:
                b.first_start = self.now
        if not self._meet(b, u):
            return NO_MEMORY
        tournament_set(&self.idle, self.rank[u], OUT)
        m.task, m.previous, m.next = <int> k, -1, t.head
        if t.head >= 0:
            self.machine[t.head].previous = <int> u
        t.head = <int> u
        t.running += 1
        if t.running == self.most:
            self._close(b)
        self._watch(u, False)
        return REACHED if self._enrank(k) else NO_MEMORY

    cdef bint _room_for_rows(self) noexcept nogil:
        """Room to note all instances that run, and a further one."""
        cdef Row* wider
        cdef Py_ssize_t need = self.n_rows + self.due.n + 1, room
        if self.log and need > self.row_room:
            room = need + self.row_room + 256
            wider = <Row*> realloc(self.row, room * sizeof(Row))
            if wider == NULL:
                return False
            self.row, self.row_room = wider, room
        return True

    cdef bint _meet(self, Bag* b, Py_ssize_t u) noexcept nogil:
        """Count machine u for the bag, once; False without memory."""
        cdef unsigned long long bit = <unsigned long long> 1 << (u & 63)
        cdef int number = <int> (b - self.bag)
        if self.machine[u].met == number:
            return True
        if b.seen == NULL:
            b.seen = <unsigned long long*> calloc((self.machines + 63) >> 6, sizeof(unsigned long long))
            if b.seen == NULL:
                return False
        self.machine[u].met = number
        b.nodes += b.seen[u >> 6] & bit == 0
        b.seen[u >> 6] |= bit
        return True

    cdef void _set_idle(self, Py_ssize_t u) noexcept nogil:
        if self.machine[u].up:
            tournament_set(&self.idle, self.rank[u], outlook_until(&self.outlook, u, self.now))

    cdef void _open(self, Bag* b) noexcept nogil:
        """A further task of the bag may be started."""
        b.open += 1
        if b.open == 1:
            tournament_set(&self.ready, b - self.bag, 0)

    cdef void _close(self, Bag* b) noexcept nogil:
        """A task of the bag may not be started any more."""
        b.open -= 1
        if b.open == 0:
            tournament_set(&self.ready, b - self.bag, OUT)

    # -- which task -------------------------------------------------------------------------------------

    cdef double _newest(self, Py_ssize_t k) noexcept nogil:
        """Mflop of task k in its newest checkpoint on the server."""
        cdef double saved = self.task[k].saved
        cdef Py_ssize_t v = self.task[k].head
        if self.local:
            return 0.0
        while v >= 0:
            saved = max(saved, instance_saved(&self.machine[v].run, &self.rules, self.now))
            v = self.machine[v].next
        return saved

    cdef Py_ssize_t _pick_task(self, Py_ssize_t number) noexcept nogil:
        """The next task of a bag that has one; -1 without memory."""
        cdef Bag* b = &self.bag[number]
        cdef Agenda* group
        cdef unsigned long long x
        if b.failed >= 0:
            return b.failed
        if b.unstarted > 0:
            while self.task[self.sequence[b.first + b.at]].state & BEGUN:
                b.at += 1
            return self.sequence[b.first + b.at]
        if b.ranking == NULL and not self._make_ranking(b):
            return -1
        group = b.ranking
        while group.n == 0:
            group += 1
        if self.order != RANDOM:
            return group.item[0].number
        # splitmix64 (Steele, Lea and Flood, 2014)
        self.chance += <unsigned long long> 0x9E3779B97F4A7C15
        x = self.chance
        x = (x ^ (x >> 30)) * <unsigned long long> 0xBF58476D1CE4E5B9
        x = (x ^ (x >> 27)) * <unsigned long long> 0x94D049BB133111EB
        x = x ^ (x >> 31)
        return group.item[<Py_ssize_t> (<double> (x >> 11) * (1.0 / 9007199254740992.0) * <double> group.n)].number

    cdef bint _make_ranking(self, Bag* b) noexcept nogil:
        """Rank the tasks of a bag that have instances, now that one of them may get another."""
        cdef Py_ssize_t k
        if not self._empty_ranking(b):
            return False
        for k in range(b.first, b.first + b.tasks):
            if not self._enrank(k):
                return False
        return True

    cdef bint _empty_ranking(self, Bag* b) noexcept nogil:
        cdef int group
        b.ranking = <Agenda*> calloc(self.most, sizeof(Agenda))
        if b.ranking == NULL:
            return False
        for group in range(self.most):
            b.ranking[group].position = self.place
        return True

    cdef Agenda* _ranking(self, Py_ssize_t k) noexcept nogil:
        return &self.bag[self.bag_of[k]].ranking[self.task[k].running - 1]

    cdef long long _rank_task(self, Py_ssize_t k) noexcept nogil:
        return rank_of(max(0.0, self.task[k].size - self.task[k].saved), self.order == GREAT)

    cdef bint _enrank(self, Py_ssize_t k) noexcept nogil:
        """Task k may get a further instance, if so; False without memory."""
        cdef Task* t = &self.task[k]
        cdef Py_ssize_t v = t.head
        cdef Agenda* group
        if self.bag[self.bag_of[k]].ranking == NULL or t.running == 0 or t.running >= self.most:
            return True
        group = self._ranking(k)
        if not agenda_reserve(group, group.n + 1):
            return False
        if self.order == RANDOM:
            bunch_add(group, k)
            return True
        t.saved = self._newest(k)
        agenda_set(group, k, self._rank_task(k))
        if not self.local:
            while v >= 0:
                self._watch(v, True)
                v = self.machine[v].next
        return True

    cdef void _unrank(self, Py_ssize_t k) noexcept nogil:
        if self.place[k] != ABSENT:
            if self.order == RANDOM:
                bunch_drop(self._ranking(k), k)
            else:
                agenda_drop(self._ranking(k), k)

    # -- which machine ----------------------------------------------------------------------------------

    cdef Py_ssize_t _pick_machine(self, Py_ssize_t k) noexcept nogil:
        """The machine for task k; -1 if there is none."""
        cdef long long best = tournament_best(&self.idle), zero
        cdef Py_ssize_t r = -1, u
        if best == OUT:
            return -1
        if self.choice == ALL:
            r = self._sufficing(k)
        elif self.choice == AVAIL:
            r = tournament_first(&self.idle, best)
        if r < 0 and not (self.printed and self.choice == ALL):
            r = tournament_first(&self.idle, 0)
        if not self.printed or self.choice == FIRST:
            return self.by_rank[r]
        # machine 0 stands, free or not, unless another is better
        u = self.by_rank[r] if r >= 0 else 0
        if self.choice == AVAIL:
            zero = outlook_until(&self.outlook, 0, self.now) if self.machine[0].up else self.now
            if best > zero:
                return u
        elif self.machine[u].run.speed > self.machine[0].run.speed:
            return u
        return 0 if self.idle.round[0][self.rank[0]] != OUT else -1

    cdef Py_ssize_t _sufficing(self, Py_ssize_t k) noexcept nogil:
        """The first rank that is free and predicted to be up until task k is done; -1 if there is none.

        Ranks are by speed, so that what suffices at one is needed at all after it.
        """
        cdef double begin = self._newest(k), size = self.task[k].size
        cdef Py_ssize_t r = 0, found
        cdef double speed = -1.0
        cdef long long least = 0
        while r < self.machines:
            if self.machine[self.by_rank[r]].run.speed != speed:
                speed = self.machine[self.by_rank[r]].run.speed
                least = self._enough(begin, size, speed)
            found = tournament_from(&self.idle, r, least)
            if found < 0:
                return -1
            self.looked += 1
            if self.machine[self.by_rank[found]].run.speed == speed:
                return found
            speed = self.machine[self.by_rank[found]].run.speed
            least = self._enough(begin, size, speed)
            if self.idle.round[0][found] >= least:
                return found
            r = found + 1
        return -1

    cdef long long _enough(self, double begin, double size, double speed) noexcept nogil:
        """Until when a machine must be up to complete a task; as printed, a moment longer."""
        cdef long long need = lasts(&self.rules, begin, size, speed)
        if need > NEVER - 2 - self.now:
            return NEVER
        return self.now + need + self.printed
