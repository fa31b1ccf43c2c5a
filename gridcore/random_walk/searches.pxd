"""Nodes as a probe sees them, searches that take time, and how nodes are drawn: for `gridcore.random_walk.walk`."""

from libc.math cimport llrint
from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport reallocate

cdef struct Node:                   # 32 bytes, so that all data read by a probe are in one cache line
    long long free                  # when it will have completed the jobs that have arrived, ns
    double speed                    # Mflop/s
    double rate                     # jobs/s that are released at it, nan: unknown
    unsigned int stamp              # 1 + the number of the last job that probed it
    unsigned int n_answers          # number of its answers that the links have not yet counted


cdef struct Record:                 # the record of a message
    long long node, sender, job


cdef struct Search:                 # a search that takes time
    long long job, time, sequence
    bint is_probing                 # whether its probe is in flight; otherwise the answer is
    Py_ssize_t steps_taken, steps   # numbers of steps that are taken and drawn (at most `probes`)
    int last_node, best             # nodes, -1: none
    long long last_free, best_free
    int* step                       # the node of each step; ~node if it was probed before


cdef struct Searches:               # the searches in progress; all zero if there are none
    Search* search
    int* unused                     # unused places in `search`
    Py_ssize_t n_unused, capacity


# -- nodes to probe -----------------------------------------------------------------------------------------------

cdef inline unsigned long long splitmix(unsigned long long x) noexcept nogil:
    """Return the output of SplitMix64 (Steele, Lea and Flood 2014) for state `x`."""
    x = (x ^ (x >> 30)) * <unsigned long long> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <unsigned long long> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline unsigned long long stream_seed(unsigned long long seed, long long job) noexcept nogil:
    """Return the initial state of the random stream of a job."""
    return splitmix(seed + <unsigned long long> (job + 1) * <unsigned long long> 0x9E3779B97F4A7C15)


cdef inline Py_ssize_t draw_below(unsigned long long* stream, unsigned long long n) noexcept nogil:
    """Draw a number below n < 2**32."""
    stream[0] += <unsigned long long> 0x9E3779B97F4A7C15
    return <Py_ssize_t> ((splitmix(stream[0]) >> 32) * n >> 32)


cdef inline Py_ssize_t draw_other(unsigned long long* stream, Py_ssize_t n_others, Py_ssize_t home) noexcept nogil:
    """Draw any of the `n_others` nodes other than `home`."""
    cdef Py_ssize_t u = draw_below(stream, n_others)
    return u + (u >= home)


# -- searches ---------------------------------------------------------------------------------------------------

cdef inline int searches_new(Searches* s, Py_ssize_t steps) except -1:
    """Return the place of a new search, with room for `steps` steps."""
    cdef Py_ssize_t k, capacity
    cdef int place
    if s.n_unused == 0:
        capacity = 2 * s.capacity + 16
        s.search = <Search*> reallocate(s.search, capacity * sizeof(Search))
        s.unused = <int*> reallocate(s.unused, capacity * sizeof(int))
        memset(&s.search[s.capacity], 0, (capacity - s.capacity) * sizeof(Search))
        for k in range(capacity - 1, s.capacity - 1, -1):
            s.unused[s.n_unused] = <int> k
            s.n_unused += 1
        s.capacity = capacity
    place = s.unused[s.n_unused - 1]
    s.search[place].step = <int*> reallocate(NULL, steps * sizeof(int))
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
    for k in range(s.capacity):
        free(s.search[k].step)
    free(s.search)
    free(s.unused)


# -- jobs -------------------------------------------------------------------------------------------------------

cdef inline long long run_time(double work, double speed) noexcept nogil:
    """Return the run time (ns) of a job on a node, at most 2**61, the largest time of the clock."""
    cdef double ns = work / speed * 1e9
    return llrint(ns) if ns < 2305843009213693952.0 else <long long> 2305843009213693952
