"""The negotiations about jobs: what their scheduling nodes know of answers and of machines that have committed."""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport reallocate
from gridcore.nodes.handlers cimport Handlers

# The phases of a job.  BROKEN: it has lost a machine, which its scheduling node does not know yet.
cpdef enum:
    NEW, SEARCHING, COMMITTING, WAITING, PLACED, BROKEN, DONE, FAILED, CANCELLED


cdef inline long long claim(long long job, long long attempt) noexcept nogil:
    """Return the number under which nodes reserve slots, see `gridcore.dgs.state.claimed`."""
    return (attempt << 32) | job


cdef struct Answer:
    long long start                     # slot; -1 after it has been tried
    int searcher
    int* nodes                          # as many as the job requests; NULL after it has been tried


cdef struct Negotiation:
    long long start                     # start (slot) of the allocation that is being tried, or was reserved
    long long first_late_start          # the first answered start that misses the deadline; -1: none
    long long missing                   # answers or replies that have not arrived
    int n_nodes, n_answers, capacity, n_reserved
    bint retry_may_help                 # whether another search may succeed
    Answer* answers                     # in order of arrival
    int* nodes                          # nodes of the allocation that is being tried, or was reserved; or NULL
    int* reserved                       # machines that have committed, at most `n_nodes`; or NULL


cdef inline void negotiation_drop_answers(Negotiation* negotiation) noexcept nogil:
    """Drop everything except the machines of the allocation."""
    cdef Py_ssize_t k
    for k in range(negotiation.n_answers):
        free(negotiation.answers[k].nodes)
    free(negotiation.answers)
    free(negotiation.reserved)
    negotiation.answers, negotiation.reserved = NULL, NULL
    negotiation.n_answers = negotiation.capacity = negotiation.n_reserved = 0


cdef inline void negotiation_drop(Negotiation** place) noexcept nogil:
    if place[0] == NULL:
        return
    negotiation_drop_answers(place[0])
    free(place[0].nodes)
    free(place[0])
    place[0] = NULL


cdef inline Negotiation* negotiation_open(Negotiation** place, Py_ssize_t n_nodes) except NULL:
    """Replace a negotiation by a new negotiation about a job of `n_nodes` nodes."""
    negotiation_drop(place)
    place[0] = <Negotiation*> reallocate(NULL, sizeof(Negotiation))
    memset(place[0], 0, sizeof(Negotiation))
    place[0].n_nodes = <int> n_nodes
    place[0].start = place[0].first_late_start = -1
    return place[0]


cdef inline int* negotiation_nodes(const Negotiation* negotiation) except NULL:
    """Return memory for the nodes of an allocation."""
    return <int*> reallocate(NULL, negotiation.n_nodes * sizeof(int))


cdef inline Answer* negotiation_answer(Negotiation* negotiation, long long start, Py_ssize_t searcher) except NULL:
    """Add an answer, whose nodes the caller fills in, unless its `start` is -1."""
    cdef Answer* answer
    if negotiation.n_answers == negotiation.capacity:
        negotiation.answers = <Answer*> reallocate(negotiation.answers, (2 * negotiation.capacity + 4) * sizeof(Answer))
        negotiation.capacity = 2 * negotiation.capacity + 4
    answer = &negotiation.answers[negotiation.n_answers]
    answer.start, answer.searcher = start, <int> searcher
    answer.nodes = NULL if start < 0 else negotiation_nodes(negotiation)
    negotiation.n_answers += 1
    return answer


cdef inline int negotiation_try(Negotiation* negotiation, Answer* answer) except -1:
    """Try the allocation of an answer next."""
    if negotiation.reserved == NULL:
        negotiation.reserved = negotiation_nodes(negotiation)
    free(negotiation.nodes)
    negotiation.start, negotiation.nodes = answer.start, answer.nodes
    negotiation.missing, negotiation.n_reserved = negotiation.n_nodes, 0
    answer.start, answer.nodes = -1, NULL
    return 0


cdef inline Answer* first_answer(const Negotiation* negotiation) noexcept nogil:
    """Return the untried answer with the earliest start, the first of equal answers; NULL if none is left."""
    cdef Answer* first = NULL
    cdef Py_ssize_t k
    for k in range(negotiation.n_answers):
        if negotiation.answers[k].start >= 0 and (first == NULL or negotiation.answers[k].start < first.start):
            first = &negotiation.answers[k]
    return first


cdef class Negotiations(Handlers):
    cdef bint in_call                   # set while a handler runs; see `gridcore.common.arguments.guard`
    cdef long long slot                 # ns
    # per job
    cdef readonly dict columns          #: the columns that change, by name
    cdef signed char[::1] phase
    cdef unsigned char[::1] has_lost_node
    cdef int[::1] attempt, failed_searches
    cdef long long[::1] searches, conflicts, late_answers, most_candidates, resubmitted
    cdef const long long[::1] tasks
    cdef Negotiation** negotiation      # NULL: none
    cdef readonly Py_ssize_t n_unfinished  #: number of jobs that are not over

    cdef Negotiation* _find(self, Py_ssize_t job) except? NULL
    cdef int _check_lengths(self, rows, answers, members) except -1
