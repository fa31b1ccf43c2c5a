"""Nodes as a probe sees them, searches that take time, and how nodes are drawn: for `gridcore.random_walk.walk`."""

from libc.math cimport llrint
from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport grown

cdef struct Node:                   # 32 bytes: all that a probe looks at lies in one cache line
    long long free                  # ns, when it will have finished the jobs that have come to it
    double speed                    # Mflop/s
    double rate                     # jobs/s released at it, nan if unknown
    unsigned int stamp              # 1 + the last job that asked it
    unsigned int answered           # answers that it sent, not yet in the accounting of the links


cdef struct Record:                 # the record of a message
    long long node, sender, job


cdef struct Search:                 # a search that takes time
    long long job, time, sequence
    bint asking                     # whether a probe is on its way to a node; otherwise its answer is
    Py_ssize_t taken, steps         # steps made, and steps drawn (at most `probes`)
    int seen, best                  # nodes, -1 for none
    long long seen_free, best_free
    int* step                       # the node of each step; ~node if it has been asked before


cdef struct Searches:               # the searches under way; all zero when there are none
    Search* search
    int* unused                     # unused places in `search`
    Py_ssize_t n_unused, room


# -- nodes to ask -----------------------------------------------------------------------------------------------

cdef inline unsigned long long mixed(unsigned long long x) noexcept nogil:
    """Return the output of SplitMix64 (Steele, Lea and Flood 2014) for state `x`."""
    x = (x ^ (x >> 30)) * <unsigned long long> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <unsigned long long> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline unsigned long long chance_of(unsigned long long seed, long long job) noexcept nogil:
    """Return the initial state of the random stream of a job."""
    return mixed(seed + <unsigned long long> (job + 1) * <unsigned long long> 0x9E3779B97F4A7C15)


cdef inline Py_ssize_t below(unsigned long long* chance, unsigned long long n) noexcept nogil:
    """Draw a number below n < 2**32."""
    chance[0] += <unsigned long long> 0x9E3779B97F4A7C15
    return <Py_ssize_t> ((mixed(chance[0]) >> 32) * n >> 32)


cdef inline Py_ssize_t other(unsigned long long* chance, Py_ssize_t others, Py_ssize_t home) noexcept nogil:
    """Draw any of the `others` nodes other than `home`."""
    cdef Py_ssize_t u = below(chance, others)
    return u + (u >= home)


# -- searches ---------------------------------------------------------------------------------------------------

cdef inline int searches_new(Searches* s, Py_ssize_t steps) except -1:
    """Return the place of a new search, with room for `steps` steps."""
    cdef Py_ssize_t k, room
    cdef int place
    if s.n_unused == 0:
        room = 2 * s.room + 16
        s.search = <Search*> grown(s.search, room * sizeof(Search))
        s.unused = <int*> grown(s.unused, room * sizeof(int))
        memset(&s.search[s.room], 0, (room - s.room) * sizeof(Search))
        for k in range(room - 1, s.room - 1, -1):
            s.unused[s.n_unused] = <int> k
            s.n_unused += 1
        s.room = room
    place = s.unused[s.n_unused - 1]
    s.search[place].step = <int*> grown(NULL, steps * sizeof(int))
    s.search[place].steps = steps
    s.n_unused -= 1
    return place


cdef inline void searches_drop(Searches* s, int place) noexcept nogil:
    free(s.search[place].step)
    s.search[place].step = NULL
    s.unused[s.n_unused] = place
    s.n_unused += 1


cdef inline void searches_free(Searches* s) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(s.room):
        free(s.search[k].step)
    free(s.search)
    free(s.unused)


# -- jobs -------------------------------------------------------------------------------------------------------

cdef inline long long lasts(double work, double speed) noexcept nogil:
    """Return the run time (ns) of a job on a node, at most 2**61, the largest time of the clock."""
    cdef double ns = work / speed * 1e9
    return llrint(ns) if ns < 2305843009213693952.0 else <long long> 2305843009213693952
