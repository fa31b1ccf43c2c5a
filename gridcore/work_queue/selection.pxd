"""Selection of the next task and of its machine, for `gridcore.work_queue.dispatch`."""

from gridcore.work_queue.agenda cimport Agenda
from gridcore.common.memory cimport prefetch
from gridcore.work_queue.uptime_prediction cimport predicted_end
from gridcore.common.instants cimport NEVER
from gridcore.work_queue.progress cimport copy_duration
from gridcore.work_queue.tournament cimport OUT, tournament_best, tournament_first, tournament_from
from gridcore.work_queue.work cimport (
    ALL, AVAIL, BEGUN, FIRST, RANDOM, ROUND, ROUND_NRF, Bag, Work, work_drop_ranking, work_enrank, work_is_idle,
    work_make_ranking, work_saved,
)


cdef enum:
    AHEAD = 8                           # tasks of the sequence are prefetched this far ahead


cdef inline Py_ssize_t next_bag(const Work* w) noexcept nogil:
    """Return the bag whose turn it is, which has a task that may be started; -1 if there is none."""
    cdef long long best = tournament_best(&w.ready)
    cdef Py_ssize_t place = -1, b
    if best == OUT:
        return -1
    if w.bag_order == ROUND or w.bag_order == ROUND_NRF:
        place = tournament_from(&w.ready, w.turn, best)
    if place < 0:
        place = tournament_first(&w.ready, best)
    b = w.by_place[place]
    return b if w.bag[b].open > 0 else -1


cdef inline double draw(Work* w) noexcept nogil:
    """Draw a number, uniform in [0, 1): splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    cdef unsigned long long x
    w.random_state += <unsigned long long> 0x9E3779B97F4A7C15
    x = w.random_state
    x = (x ^ (x >> 30)) * <unsigned long long> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <unsigned long long> 0x94D049BB133111EB
    x = x ^ (x >> 31)
    return <double> (x >> 11) * (1.0 / 9007199254740992.0)


cdef inline Py_ssize_t pick_task(Work* w, Py_ssize_t number) noexcept nogil:
    """Return the next task of a bag that has one; -1 without memory."""
    cdef Bag* b = &w.bag[number]
    cdef Agenda* group
    cdef Py_ssize_t k
    if b.failed >= 0:
        return b.failed
    if b.unstarted > 0:
        while w.task[w.sequence[b.first + b.at]].state & BEGUN:
            b.at += 1
        if b.at + AHEAD < b.tasks:
            prefetch(&w.task[w.sequence[b.first + b.at + AHEAD]])
        return w.sequence[b.first + b.at]
    if w.ranking[number] == NULL:
        # allocated when a task of this bag may first get another copy
        if not work_make_ranking(w, number):
            return -1
        for k in range(b.first, b.first + b.tasks):
            if not work_enrank(w, k):
                work_drop_ranking(w, number)
                return -1
    group = w.ranking[number]
    while group.n == 0:
        group += 1
    if w.order == RANDOM:
        return group.item[<Py_ssize_t> (draw(w) * <double> group.n)].number
    return group.item[0].number


cdef inline long long needed_until(const Work* w, double begin, double size, double speed) noexcept nogil:
    """Return until when a machine must be up to complete a task (ns); as `printed`, 1 ns longer."""
    cdef long long need = copy_duration(&w.rules, begin, size, speed)
    if need > NEVER - 2 - w.now:
        return NEVER
    return w.now + need + w.printed


cdef inline Py_ssize_t fastest_sufficient(Work* w, Py_ssize_t k) noexcept nogil:
    """Return the first rank that is free and predicted to be up until task k is done; -1 if there is none.

    Ranks are ordered by speed, so the up time that is needed at one rank is also needed at all later ones.
    """
    cdef double begin = work_saved(w, k), size = w.task[k].size, speed = -1.0
    cdef Py_ssize_t r = 0, rank
    cdef long long least = 0
    while r < w.machines:
        if w.machine[w.by_rank[r]].run.speed != speed:
            speed = w.machine[w.by_rank[r]].run.speed
            least = needed_until(w, begin, size, speed)
        rank = tournament_from(&w.idle, r, least)
        if rank < 0:
            return -1
        w.n_examined += 1
        if w.machine[w.by_rank[rank]].run.speed == speed:
            return rank
        speed = w.machine[w.by_rank[rank]].run.speed
        least = needed_until(w, begin, size, speed)
        if w.idle.round[0][rank] >= least:
            return rank
        r = rank + 1
    return -1


cdef inline Py_ssize_t pick_machine(Work* w, Py_ssize_t k) noexcept nogil:
    """Return the machine for task k; -1 if there is none."""
    cdef long long best = tournament_best(&w.idle), zero
    cdef Py_ssize_t r = -1, u
    if best == OUT:
        return -1
    if w.choice == ALL:
        r = fastest_sufficient(w, k)
    elif w.choice == AVAIL:
        r = tournament_first(&w.idle, best)
    if r < 0 and not (w.printed and w.choice == ALL):
        r = tournament_first(&w.idle, 0)
    if not w.printed or w.choice == FIRST:
        return w.by_rank[r]
    # as printed in the paper: machine 0 is chosen, free or not, unless another machine is better
    u = w.by_rank[r] if r >= 0 else 0
    if w.choice == AVAIL:
        zero = predicted_end(&w.predictor, 0, w.now) if w.machine[0].up else w.now
        if best > zero:
            return u
    elif w.machine[u].run.speed > w.machine[0].run.speed:
        return u
    return 0 if work_is_idle(w, 0) else -1
