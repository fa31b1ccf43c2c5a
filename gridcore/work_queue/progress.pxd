"""The progress of running task copies: for `gridcore.work_queue.dispatch`.

A copy that continues from a checkpoint reads it first, for `restore` ns.  Then it computes, and after each
`interval` ns of computing it writes a checkpoint, for `checkpoint` ns; it writes none when its task is done.  A
checkpoint counts from the instant at which it has been written.

With background load a machine has a series of speed factors, one for each period, which repeats.
"""

from libc.math cimport llrint

from gridcore.common.instants cimport NEVER

cdef extern from *:
    """
    #define GRIDCORE_LONGEST 9200000000000000000LL
    """
    const long long LONGEST "GRIDCORE_LONGEST"    # the longest duration in computations, ns


cdef struct LoadProfile:
    long long period                    # ns; 0: no background load
    long long phase                     # age of each machine's step at time 0, ns; less than `period`
    Py_ssize_t steps
    const double* factor                # a row of `steps` factors for each series
    const int* series                   # by machine: its series
    const int* first                    # by machine: its step at time 0


cdef struct Rules:
    long long interval, checkpoint, restore     # ns; interval 0: no checkpoints
    LoadProfile load


cdef struct Copy:
    long long start, end                # ns; `end` is when it completes the task if nothing interrupts it
    long long marks                     # number of checkpoints that it writes before its end
    double begin                        # Mflop of the task that were done before it started
    double speed                        # Mflop/s
    Py_ssize_t machine


# -- computing ----------------------------------------------------------------------------------------------

cdef inline double load_work(const LoadProfile* p, Py_ssize_t u, long long start, long long end) noexcept nogil:
    """Return the work of machine u from `start` to `end` ns, in ns at whole speed."""
    cdef long long k, edge
    cdef double done = 0.0
    if p.period == 0:
        return <double> (end - start)
    k = (start + p.phase) // p.period
    while start < end:
        edge = min((k + 1) * p.period - p.phase, end)
        done += p.factor[p.series[u] * p.steps + (p.first[u] + k) % p.steps] * <double> (edge - start)
        start = edge
        k += 1
    return done


cdef inline long long load_end(const LoadProfile* p, Py_ssize_t u, long long start, double work,
                               long long limit) noexcept nogil:
    """Return when machine u, which has a series, has done `work` (ns at whole speed), from `start` ns on.

    The result is at least 1 ns after `start`; it is NEVER if it would be after `limit` ns.
    """
    cdef long long k, edge
    cdef double factor, capacity
    k = (start + p.phase) // p.period
    while start < limit:
        edge = min((k + 1) * p.period - p.phase, limit)
        factor = p.factor[p.series[u] * p.steps + (p.first[u] + k) % p.steps]
        capacity = factor * <double> (edge - start)
        if work <= capacity + 0.5 * factor:         # up to half a ns is rounded off
            return min(start + max(<long long> 1, llrint(work / factor)), limit)
        work -= capacity
        start = edge
        k += 1
    return NEVER


# -- a copy --------------------------------------------------------------------------------------------

cdef inline long long copy_duration(const Rules* rules, double begin, double size, double speed) noexcept nogil:
    """Return the ns that the rest of a task takes at whole speed, with its checkpoints; NEVER if that is too long."""
    cdef double work = (size - begin) / speed * 1e9, total
    cdef long long computing, marks = 0
    if not work < <double> LONGEST:
        return NEVER
    computing = max(<long long> 1, llrint(work))
    if rules.interval > 0:
        marks = (computing - 1) // rules.interval
    total = <double> computing + <double> marks * <double> rules.checkpoint + <double> rules.restore
    if not total < <double> LONGEST:
        return NEVER
    return computing + marks * rules.checkpoint + (rules.restore if begin > 0.0 else 0)


cdef inline bint copy_begin(Copy* it, const Rules* rules, Py_ssize_t u, double speed, double begin,
                            double size, long long now) noexcept nogil:
    """Begin the rest of a task on machine u; False if it would end after the last instant."""
    cdef long long length, window, latest
    cdef double work
    it.machine, it.speed, it.begin, it.start = u, speed, begin, now
    it.marks = 0
    if rules.load.period == 0:
        length = copy_duration(rules, begin, size, speed)
        if length > NEVER - 1 - now:
            return False
        it.end = now + length
        if rules.interval > 0:
            length -= rules.restore if begin > 0.0 else 0
            it.marks = (length - 1) // (rules.interval + rules.checkpoint)
        return True
    work = (size - begin) / speed * 1e9
    # sums must not overflow: none may exceed LONGEST
    if not work < <double> LONGEST or now > LONGEST - (rules.restore if begin > 0.0 else 0):
        return False
    window = _computing_from(it, rules)
    latest = LONGEST
    while True:
        if rules.interval > 0:
            if window > LONGEST - rules.interval:
                return False
            latest = window + rules.interval
        it.end = load_end(&rules.load, u, window, work, latest)
        if it.end != NEVER:
            return True
        if rules.interval == 0 or latest > LONGEST - rules.checkpoint:
            return False
        work -= load_work(&rules.load, u, window, latest)
        it.marks += 1
        window = latest + rules.checkpoint


cdef inline long long _computing_from(const Copy* it, const Rules* rules) noexcept nogil:
    return it.start + (rules.restore if it.begin > 0.0 else 0)


cdef inline long long copy_marks(const Copy* it, const Rules* rules, long long now) noexcept nogil:
    """Return how many checkpoints the copy has written by `now` ns."""
    cdef long long since = now - _computing_from(it, rules)
    if rules.interval == 0 or since <= 0:
        return 0
    return min(it.marks, since // (rules.interval + rules.checkpoint))


cdef inline long long copy_mark_at(const Copy* it, const Rules* rules, long long number) noexcept nogil:
    """Return when the copy has written checkpoint `number` (from 1), ns."""
    return _computing_from(it, rules) + number * (rules.interval + rules.checkpoint)


cdef inline double copy_saved(const Copy* it, const Rules* rules, long long now) noexcept nogil:
    """Return the Mflop of the task in the newest checkpoint at `now` ns, or at its start if there is no checkpoint."""
    cdef long long marks = copy_marks(it, rules, now), k, window
    cdef double done = 0.0
    if marks == 0:
        return it.begin
    if rules.load.period == 0:
        done = <double> (marks * rules.interval)
    else:
        window = _computing_from(it, rules)
        for k in range(marks):
            done += load_work(&rules.load, it.machine, window, window + rules.interval)
            window += rules.interval + rules.checkpoint
    return it.begin + done / 1e9 * it.speed


cdef struct Cycles:                     # nominal speed times the time spent on each purpose, Mflop
    double computed, fresh, overhead, slowed


cdef inline Cycles copy_cycles(const Copy* it, const Rules* rules, long long now) noexcept nogil:
    """Return how the copy has spent the cycles of its machine until `now` ns.

    computed : for its task.  fresh : the part of computed since its newest checkpoint.  overhead : reading and
        writing checkpoints.  slowed : taken by background load.
    """
    cdef long long ran = now - it.start, marks = copy_marks(it, rules, now), k, window, computing, reading
    cdef double done
    cdef Cycles cycles
    reading = min(ran, rules.restore if it.begin > 0.0 else 0)
    window = it.start + reading + marks * (rules.interval + rules.checkpoint)
    # after the newest checkpoint comes computing, then an incomplete checkpoint, except at the end of the task
    computing = now - window
    if marks < it.marks:
        computing = min(computing, rules.interval)
    done = load_work(&rules.load, it.machine, window, window + computing)
    cycles.fresh = done / 1e9 * it.speed
    if rules.load.period == 0:
        done += <double> (marks * rules.interval)
    else:
        for k in range(marks):
            window = it.start + reading + k * (rules.interval + rules.checkpoint)
            done += load_work(&rules.load, it.machine, window, window + rules.interval)
    computing += marks * rules.interval
    cycles.computed = done / 1e9 * it.speed
    cycles.overhead = <double> (ran - computing) / 1e9 * it.speed
    cycles.slowed = (<double> computing - done) / 1e9 * it.speed
    return cycles
