"""Tasks, their running copies and machines, and their changes: for `gridcore.work_queue.dispatch`."""

from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from gridcore.common.instants cimport NEVER
from gridcore.common.memory cimport prefetch
from gridcore.common.radix_heap cimport RadixHeap, radix_clear, radix_full, radix_pop, radix_push, radix_refill
from gridcore.work_queue.agenda cimport ABSENT, Agenda, agenda_drop, agenda_reserve, agenda_set, bunch_add, bunch_drop
from gridcore.work_queue.uptime_prediction cimport UptimePredictor, predictor_down, predicted_end, predictor_up
from gridcore.work_queue.progress cimport (
    Copy, Cycles, Rules, copy_begin, copy_cycles, copy_mark_at, copy_marks, copy_saved,
)
from gridcore.work_queue.tournament cimport OUT, Tournament, tournament_set

cdef enum:                              # orders of tasks, choices of machines, orders of bags
    RANDOM, SMALL, GREAT, ASK_TASK
    FIRST = 0, CPU, AVAIL, ALL, ASK_MACHINE
    SHARE = 0, EXCL, ROUND, ROUND_NRF, LONG_IDLE

cdef enum:                              # results of functions
    FINE, NO_MEMORY, TOO_LATE

cdef enum:                              # flags in the state of a task
    BEGUN = 1, COMPLETED = 2, RESUBMITTED = 4


cdef struct Task:
    double size                         # Mflop
    double saved                        # Mflop done by its most advanced known checkpoint on the server
    double spent                        # Mflop computed by copies that have ended without completing it
    int head                            # the first machine in the list of machines that run the task, -1: none
    int after                           # the next task in the list of tasks without a copy, -1: none
    int running, state                  # number of copies; flags
    int bag, unused


cdef struct Machine:                    # two cache lines; the first has everything about the running copy
    Copy run
    int task                            # the task that it runs, -1: none
    int previous, next                  # neighbours in the list of machines that run this task, -1: none
    int up
    long long busy, done, interrupted, ended
    double local_saved                  # Mflop in the checkpoint of the last task that it lost
    int local_task
    int met                             # the bag of its last task, -1: none
    long long due                       # the next event of its copy, ns; -1: none
    double unused


cdef struct Bag:
    long long first, tasks              # the first of its tasks, and their number
    long long left                      # number of tasks that are not completed
    long long open                      # number of these that have fewer copies than allowed
    long long release                   # ns
    long long unstarted, at             # number of tasks never started, and the place of the first in the sequence
    long long failed, last_failed       # ends of the list of tasks that lost all copies, oldest first; -1: none
    long long first_start, finish, nodes, resubmitted, replicas, killed, undisturbed
    long long place                     # number of bags released before it; -1: not released
    double redundant, lost, overhead, slowed


cdef struct Row:                        # a copy that has ended
    double begin
    long long start, end
    int machine, task, completed, unused


cdef struct Work:
    Py_ssize_t machines, bags, tasks
    Py_ssize_t up                       # number of machines that are up and fast enough
    Py_ssize_t released                 # number of released bags
    Py_ssize_t turn                     # the place after that of the last served bag
    long long now, left                 # ns; number of tasks that are not completed
    long long n_examined                # machines that were examined for choices by ALL
    int order, choice, max_copies, bag_order
    double min_speed                    # Mflop/s; slower machines get no task
    bint local, printed, log
    unsigned long long random_state
    Rules rules
    UptimePredictor predictor
    Task* task
    Machine* machine
    void* machine_block                 # the allocated memory of `machine`
    Bag* bag
    int* by_place                       # released bags in order of release
    Agenda** ranking                    # by bag, then by number of copies, from 1 on; NULL until first used
    unsigned long long** used_machines  # by bag: bits of the machines that have begun a task of it
    int* sequence                       # bag after bag: its tasks in the order of their first start
    int* place                          # by task: its position in a ranking
    long long* lost_at                  # by task: when it lost its last copy, ns
    const long long* by_rank            # machines in order of rank
    const long long* rank               # by machine
    RadixHeap due                       # machines by the next event of their copies; valid entries equal `Machine.due`
    Py_ssize_t running                  # number of copies
    Tournament idle                     # by rank: predicted end of the up time of a free machine
    Tournament ready                    # by place of a bag: OUT, or a number from `work_rate`
    Row* row
    Py_ssize_t n_rows, row_room


# -- due events ----------------------------------------------------------------------------------------

cdef inline void work_due(Work* w, Py_ssize_t u, long long at) noexcept nogil:
    """Make machine u due at `at`."""
    cdef Py_ssize_t v
    if w.machine[u].due == at:
        return
    w.machine[u].due = at
    if not radix_full(&w.due):
        radix_push(&w.due, at, u, <int> u)
        return
    # the heap has room for two entries per machine, of which one can be valid
    radix_clear(&w.due)
    for v in range(w.machines):
        if w.machine[v].due >= 0:
            radix_push(&w.due, w.machine[v].due, v, <int> v)


cdef inline void work_prefetch_machine(const Work* w, Py_ssize_t u) noexcept nogil:
    """Prefetch the data of machine u."""
    prefetch(&w.machine[u])
    prefetch(&w.machine[u].busy)
    prefetch(&w.rank[u])
    prefetch(&w.predictor.forecast[u])


cdef inline void work_prefetch_copy(const Work* w, Py_ssize_t u) noexcept nogil:
    """Prefetch the data for the end of the copy on machine u; the data of u must be in the cache."""
    cdef Py_ssize_t k = w.machine[u].task, rank = w.rank[u]
    if k >= 0:
        prefetch(&w.task[k])
        prefetch(&w.task[k].bag)
    prefetch(&w.idle.round[0][rank])
    prefetch(&w.by_rank[rank])


cdef inline long long work_next(Work* w) noexcept nogil:
    """Return when the next machine is due, which is then the first of `due.front`; NEVER if none is."""
    cdef Py_ssize_t k
    while True:
        if radix_refill(&w.due):
            for k in range(w.due.n_front):
                work_prefetch_machine(w, w.due.front[k].slot)
        if w.due.n_front == 0:
            return NEVER
        if w.machine[w.due.front[0].slot].due == w.due.front[0].time:
            return w.due.front[0].time
        radix_pop(&w.due)


# -- tasks that may have a further copy -----------------------------------------------------------------

cdef inline double work_saved(const Work* w, Py_ssize_t k) noexcept nogil:
    """Return the Mflop of task k in its most advanced checkpoint on the server; 0 with local checkpoints."""
    cdef double saved = w.task[k].saved
    cdef Py_ssize_t v = w.task[k].head
    if w.local:
        return 0.0
    while v >= 0:
        saved = max(saved, copy_saved(&w.machine[v].run, &w.rules, w.now))
        v = w.machine[v].next
    return saved


cdef inline long long work_residual(const Work* w, Py_ssize_t k) noexcept nogil:
    """Return a sort key for the order in which tasks are taken: exact to the last bit of their residuals."""
    cdef double residual = max(0.0, w.task[k].size - w.task[k].saved)
    cdef long long bits
    memcpy(&bits, &residual, sizeof(double))
    return -bits if w.order == GREAT else bits


cdef inline Agenda* work_ranking(Work* w, Py_ssize_t k) noexcept nogil:
    """Return the ranking that task k is in if it may have a further copy."""
    return &w.ranking[w.task[k].bag][w.task[k].running - 1]


cdef inline void work_watch(Work* w, Py_ssize_t u, bint checkpoints) noexcept nogil:
    """Schedule the next event of machine u: the end of its copy or, with `checkpoints`, the next checkpoint."""
    cdef const Copy* run = &w.machine[u].run
    cdef long long at = run.end, number
    if checkpoints:
        number = copy_marks(run, &w.rules, w.now) + 1
        if number <= run.marks:
            at = copy_mark_at(run, &w.rules, number)
    work_due(w, u, at)


cdef inline bint work_room_in(Work* w, Py_ssize_t b, Py_ssize_t running) noexcept nogil:
    """Make room for one more task of bag b with `running` copies, if these are ranked; False without memory."""
    cdef Agenda* group
    if w.ranking[b] == NULL or running == 0 or running >= w.max_copies:
        return True
    group = &w.ranking[b][running - 1]
    return agenda_reserve(group, group.n + 1)


cdef inline bint work_enrank(Work* w, Py_ssize_t k) noexcept nogil:
    """Put task k into its ranking if it may get a further copy; False without memory."""
    cdef Task* t = &w.task[k]
    cdef Py_ssize_t v = t.head
    cdef Agenda* group
    if w.ranking[t.bag] == NULL or t.running == 0 or t.running >= w.max_copies:
        return True
    if not work_room_in(w, t.bag, t.running):
        return False
    group = work_ranking(w, k)
    if w.order == RANDOM:
        bunch_add(group, k)
        return True
    t.saved = work_saved(w, k)
    agenda_set(group, k, work_residual(w, k))
    if not w.local:
        while v >= 0:
            work_watch(w, v, True)
            v = w.machine[v].next
    return True


cdef inline void work_unrank(Work* w, Py_ssize_t k) noexcept nogil:
    if w.ranking[w.task[k].bag] != NULL and w.place[k] != ABSENT:
        if w.order == RANDOM:
            bunch_drop(work_ranking(w, k), k)
        else:
            agenda_drop(work_ranking(w, k), k)


cdef inline bint work_make_ranking(Work* w, Py_ssize_t b) noexcept nogil:
    """Make empty rankings for bag b, whose tasks are ranked from now on; False without memory."""
    cdef int group
    w.ranking[b] = <Agenda*> calloc(w.max_copies, sizeof(Agenda))
    if w.ranking[b] == NULL:
        return False
    for group in range(w.max_copies):
        w.ranking[b][group].position = w.place
    return True


cdef inline void work_forget_ranking(Work* w, Py_ssize_t b) noexcept nogil:
    cdef int group
    if w.ranking[b] != NULL:
        for group in range(w.max_copies):
            free(w.ranking[b][group].item)
        free(w.ranking[b])
        w.ranking[b] = NULL


cdef inline void work_drop_ranking(Work* w, Py_ssize_t b) noexcept nogil:
    """Free the rankings of bag b, even if they contain tasks."""
    cdef Py_ssize_t k
    for k in range(w.bag[b].first, w.bag[b].first + w.bag[b].tasks):
        w.place[k] = ABSENT
    work_forget_ranking(w, b)


cdef inline void work_rate(Work* w, Py_ssize_t b) noexcept nogil:
    """Set the number of bag b, which is released, in `ready`, after any change to its tasks.

    A bag without a task that may be started is out, except that by EXCL it stays until it is complete.  Others
    have 0, or more while a task of theirs has no copy: by ROUND_NRF 1, by LONG_IDLE the more the longer the task
    has waited.
    """
    cdef const Bag* bag = &w.bag[b]
    cdef long long value = OUT
    cdef bint waits = bag.unstarted > 0 or bag.failed >= 0
    if bag.open > 0 or (w.bag_order == EXCL and bag.left > 0 and bag.first_start >= 0):
        value = 0
    if waits and w.bag_order == ROUND_NRF:
        value = 1
    elif waits and w.bag_order == LONG_IDLE:
        # a task that was never started has waited longer than all tasks that have failed since
        value = NEVER - (bag.release if bag.unstarted > 0 else w.lost_at[bag.failed])
    if w.ready.round[0][bag.place] != value:
        tournament_set(&w.ready, bag.place, value)


cdef inline void work_queue_failed(Work* w, Py_ssize_t k) noexcept nogil:
    """Append task k to the list of tasks that have lost all their copies."""
    cdef Bag* b = &w.bag[w.task[k].bag]
    w.task[k].after = -1
    if b.failed < 0:
        b.failed = k
    else:
        w.task[b.last_failed].after = <int> k
    b.last_failed = k


# -- copies ----------------------------------------------------------------------------------------------

cdef inline void work_set_idle(Work* w, Py_ssize_t u) noexcept nogil:
    """Make machine u, which runs nothing, free for a task if it is up and fast enough."""
    if w.machine[u].up and w.machine[u].run.speed >= w.min_speed:
        tournament_set(&w.idle, w.rank[u], predicted_end(&w.predictor, u, w.now))


cdef inline bint work_is_idle(const Work* w, Py_ssize_t u) noexcept nogil:
    return w.idle.round[0][w.rank[u]] != OUT


cdef inline bint work_room_for_rows(Work* w) noexcept nogil:
    """Make room in the log for all copies that run and one more; False without memory."""
    cdef Row* wider
    cdef Py_ssize_t need = w.n_rows + w.running + 1, capacity
    if w.log and need > w.row_room:
        capacity = need + w.row_room + 256
        wider = <Row*> realloc(w.row, capacity * sizeof(Row))
        if wider == NULL:
            return False
        w.row, w.row_room = wider, capacity
    return True


cdef inline bint work_room_for_machines(Work* w, Py_ssize_t b) noexcept nogil:
    """Make room to record the machines that have worked for bag b; False without memory."""
    if w.used_machines[b] == NULL:
        w.used_machines[b] = <unsigned long long*> calloc((w.machines + 63) >> 6, sizeof(unsigned long long))
    return w.used_machines[b] != NULL


cdef inline void work_count_machine(Work* w, Py_ssize_t b, Py_ssize_t u) noexcept nogil:
    """Count machine u as one that has worked for bag b; each machine counts once."""
    cdef unsigned long long bit = <unsigned long long> 1 << (u & 63)
    if w.machine[u].met == b:
        return
    w.machine[u].met = <int> b
    w.bag[b].nodes += w.used_machines[b][u >> 6] & bit == 0
    w.used_machines[b][u >> 6] |= bit


cdef inline void work_clear(Machine* m) noexcept nogil:
    m.task = m.previous = m.next = -1


cdef inline void work_link(Work* w, Py_ssize_t k, Py_ssize_t u) noexcept nogil:
    """Add machine u to the list of machines that run task k."""
    cdef Machine* m = &w.machine[u]
    cdef Task* t = &w.task[k]
    m.task, m.previous, m.next = <int> k, -1, t.head
    if t.head >= 0:
        w.machine[t.head].previous = <int> u
    t.head = <int> u
    t.running += 1
    w.running += 1


cdef inline int work_start(Work* w, Py_ssize_t k, Py_ssize_t u) noexcept nogil:
    """Start task k on machine u, which is free; return FINE, NO_MEMORY or TOO_LATE."""
    cdef Machine* m = &w.machine[u]
    cdef Task* t = &w.task[k]
    cdef Py_ssize_t number = t.bag
    cdef Bag* b = &w.bag[number]
    cdef double begin
    if w.local:
        begin = m.local_saved if m.local_task == k else 0.0
    else:
        begin = work_saved(w, k)
    # allocate all memory first, so that a failure changes nothing
    if not work_room_for_rows(w) or not work_room_in(w, number, t.running + 1) or not work_room_for_machines(w, number):
        return NO_MEMORY
    if not copy_begin(&m.run, &w.rules, u, m.run.speed, begin, t.size, w.now):
        return TOO_LATE
    work_count_machine(w, number, u)
    work_unrank(w, k)
    if t.running > 0:
        b.replicas += 1
    elif t.state & BEGUN:
        b.failed = t.after
    else:
        t.state |= BEGUN
        b.unstarted -= 1
        if b.first_start < 0:
            b.first_start = w.now
    tournament_set(&w.idle, w.rank[u], OUT)
    work_link(w, k, u)
    b.open -= t.running == w.max_copies
    w.turn = b.place + 1
    work_rate(w, number)
    work_watch(w, u, False)
    work_enrank(w, k)
    return FINE


cdef inline Cycles work_leave(Work* w, Py_ssize_t u, bint completed) noexcept nogil:
    """End the copy on machine u; return how it spent the cycles."""
    cdef Machine* m = &w.machine[u]
    cdef Py_ssize_t k = m.task
    cdef Task* t = &w.task[k]
    cdef Bag* b = &w.bag[t.bag]
    cdef Cycles cycles = copy_cycles(&m.run, &w.rules, w.now)
    cdef Row* row
    b.overhead += cycles.overhead
    b.slowed += cycles.slowed
    m.busy += w.now - m.run.start
    m.due = -1
    if m.previous >= 0:
        w.machine[m.previous].next = m.next
    else:
        t.head = m.next
    if m.next >= 0:
        w.machine[m.next].previous = m.previous
    t.running -= 1
    w.running -= 1
    work_clear(m)
    if w.log:
        row = &w.row[w.n_rows]          # there is room: `work_start` has made it
        w.n_rows += 1
        row.machine, row.task, row.start, row.end = <int> u, <int> k, m.run.start, w.now
        row.completed, row.begin, row.unused = completed, m.run.begin, 0
    return cycles


cdef inline void work_complete(Work* w, Py_ssize_t u) noexcept nogil:
    """Complete the task on machine u, and end its other copies."""
    cdef Py_ssize_t k = w.machine[u].task, v
    cdef Task* t = &w.task[k]
    cdef Py_ssize_t number = t.bag
    cdef Bag* b = &w.bag[number]
    cdef Cycles cycles
    work_unrank(w, k)
    b.open -= t.running < w.max_copies
    while t.head >= 0:
        v = t.head
        cycles = work_leave(w, v, v == u)
        if v != u:
            t.spent += cycles.computed
            b.killed += 1
            w.machine[v].ended += 1
        work_set_idle(w, v)
    b.redundant += max(0.0, t.spent - w.machine[u].run.begin)       # only rounding can make it negative
    t.state |= COMPLETED
    b.undisturbed += t.state & RESUBMITTED == 0
    b.left -= 1
    w.left -= 1
    w.machine[u].done += 1
    b.finish = w.now
    work_rate(w, number)
    if b.left == 0:
        work_forget_ranking(w, number)


cdef inline void work_save(Work* w, Py_ssize_t u) noexcept nogil:
    """Record that the copy on machine u has written a checkpoint that counts for the ranking of its task."""
    cdef Py_ssize_t k = w.machine[u].task
    w.task[k].saved = max(w.task[k].saved, copy_saved(&w.machine[u].run, &w.rules, w.now))
    if w.place[k] != ABSENT:
        agenda_set(work_ranking(w, k), k, work_residual(w, k))
    work_watch(w, u, w.place[k] != ABSENT)


cdef inline void work_fail(Work* w, Py_ssize_t u) noexcept nogil:
    """End the copy on machine u, which fails; the next ranking of its task must have room."""
    cdef Machine* m = &w.machine[u]
    cdef Py_ssize_t k = m.task
    cdef Task* t = &w.task[k]
    cdef Py_ssize_t number = t.bag
    cdef Bag* b = &w.bag[number]
    cdef double saved = copy_saved(&m.run, &w.rules, w.now)
    cdef Cycles cycles
    work_unrank(w, k)
    cycles = work_leave(w, u, False)
    t.spent += cycles.computed - cycles.fresh
    b.lost += cycles.fresh
    m.interrupted += 1
    if w.local:
        m.local_task, m.local_saved = <int> k, saved
    else:
        t.saved = max(t.saved, saved)
    b.open += t.running == w.max_copies - 1
    if t.running > 0:
        work_enrank(w, k)
    else:
        t.state |= RESUBMITTED
        b.resubmitted += 1
        work_queue_failed(w, k)
        w.lost_at[k] = w.now
    work_rate(w, number)


cdef inline bint work_change(Work* w, Py_ssize_t u, bint up, long long until) noexcept nogil:
    """Make machine u recover, with a predicted failure at `until` ns, or fail; False without memory."""
    cdef Machine* m = &w.machine[u]
    if up and not m.up:
        m.up = True
        w.up += m.run.speed >= w.min_speed
        predictor_up(&w.predictor, u, w.now, until)
        work_set_idle(w, u)
    elif m.up and not up:
        if m.task >= 0 and not work_room_in(w, w.task[m.task].bag, w.task[m.task].running - 1):
            return False
        predictor_down(&w.predictor, u, w.now)
        m.up = False
        w.up -= m.run.speed >= w.min_speed
        tournament_set(&w.idle, w.rank[u], OUT)
        if m.task >= 0:
            work_fail(w, u)
    return True
