"""C-level contract of the negotiations of DGS_ASAP, and the record of each of them."""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.arguments cimport _Guard
from gridcore.common.memory cimport reallocate
from gridcore.common.pending cimport Pending
from gridcore.dgs.decision_log cimport DecisionLog
from gridcore.dgs.outbox cimport Delayed, Outbox, Row
from gridcore.dgs.overlay cimport Views
from gridcore.dgs.slots cimport Observation, SlotSchedules
from gridcore.network.links cimport Links

# The kinds of messages, in order of priority.
cdef enum:
    CANCEL_KIND, REQUEST_KIND, ANSWER_KIND, COMMIT_KIND, REPLY_KIND, DISPLACED_KIND, KINDS

# The phases of a job.  BROKEN: it has lost a machine, which its scheduling node does not know yet.
cpdef enum:
    NEW, SEARCHING, COMMITTING, WAITING, PLACED, BROKEN, DONE, FAILED, CANCELLED


# -- one negotiation ----------------------------------------------------------------------------------------

cdef inline long long claim(long long job, long long attempt) noexcept nogil:
    """Return the number under which nodes reserve slots, see `gridcore.dgs.state.claimed`."""
    return (attempt << 32) | job


cdef struct Answer:
    long long start                     # slot; -1 after it has been tried
    int searcher, place                 # place: index of its machines in the pool, in units of `n_nodes`


cdef struct SearchRecord:               # what a searcher knew, if decisions are logged
    long long oldest                    # time of the oldest observation of a candidate, ns; -1: never
    long long slot                      # the first slot that leaves time for the messages
    Observation* observations           # of the candidates; NULL after the search has answered
    int n


cdef struct Negotiation:
    long long start                     # start (slot) of the allocation that is being tried, or was reserved
    long long due                       # when the wait for answers or replies ends, ns; 0: never
    long long first_late_start          # the first answered start that misses the deadline; -1: none
    int n_asked, missing, n_answers, n_results, n_reserved, n_nodes
    int current                         # place of the allocation that is being tried; -1: none
    bint retry_may_help                 # whether another search may succeed
    bint lost_a_node                    # whether one of its machines has failed, which is detected later
    Answer* answer                      # answers in order of arrival
    Answer* results                     # what searchers found; unknown to the scheduling node until they answer
    SearchRecord* search_records        # by place in `results`; NULL if decisions are not logged
    int* pool                           # machines found by searches, `n_nodes` for each
    int* reserved                       # machines that have committed


cdef inline void negotiation_drop_records(Negotiation* negotiation) noexcept nogil:
    cdef Py_ssize_t k
    if negotiation.search_records == NULL:
        return
    for k in range(negotiation.n_results):
        free(negotiation.search_records[k].observations)
    free(negotiation.search_records)
    negotiation.search_records = NULL


cdef inline void negotiation_drop(Negotiation** place) noexcept nogil:
    cdef Negotiation* negotiation = place[0]
    if negotiation == NULL:
        return
    negotiation_drop_records(negotiation)
    free(negotiation.answer)
    free(negotiation.results)
    free(negotiation.pool)
    free(negotiation.reserved)
    free(negotiation)
    place[0] = NULL


cdef inline int negotiation_open(Negotiation** place, Py_ssize_t n_nodes, Py_ssize_t n_asked,
                                 bint logs_decisions) except -1 nogil:
    """Begin a search for a job of `n_nodes` nodes, in which `n_asked` nodes have still to answer.

    logs_decisions : whether to allocate search records.
    """
    cdef Negotiation* negotiation = <Negotiation*> reallocate(NULL, sizeof(Negotiation))
    memset(negotiation, 0, sizeof(Negotiation))
    # stored first, so that it is freed later if an allocation below fails; `n_asked` is then still 0
    negotiation_drop(place)
    place[0] = negotiation
    negotiation.n_nodes, negotiation.start, negotiation.current = <int> n_nodes, -1, -1
    negotiation.first_late_start = -1
    if n_asked:
        negotiation.answer = <Answer*> reallocate(NULL, n_asked * sizeof(Answer))
        negotiation.results = <Answer*> reallocate(NULL, n_asked * sizeof(Answer))
        if logs_decisions:
            negotiation.search_records = <SearchRecord*> reallocate(NULL, n_asked * sizeof(SearchRecord))
            memset(negotiation.search_records, 0, n_asked * sizeof(SearchRecord))
    negotiation.n_asked = negotiation.missing = <int> n_asked
    return 0


cdef inline int* negotiation_pool(Negotiation* negotiation) except NULL nogil:
    """Return the pool, with room for the machines of each search; those of a search without a result are 0."""
    cdef Py_ssize_t size = max(negotiation.n_asked, 1) * <Py_ssize_t> negotiation.n_nodes * sizeof(int)
    if negotiation.pool == NULL:
        negotiation.pool = <int*> reallocate(NULL, size)
        memset(negotiation.pool, 0, size)
    return negotiation.pool


cdef inline int* negotiation_reserved(Negotiation* negotiation) except NULL nogil:
    """Return `reserved`, with room for all machines that may commit."""
    if negotiation.reserved == NULL:
        negotiation.reserved = <int*> reallocate(NULL, negotiation.n_nodes * sizeof(int))
    return negotiation.reserved


cdef inline int negotiation_place(Negotiation* negotiation) except -1 nogil:
    """Drop everything from the negotiation except the machines of the current allocation."""
    cdef int* nodes = <int*> reallocate(NULL, negotiation.n_nodes * sizeof(int))
    cdef Py_ssize_t k
    for k in range(negotiation.n_nodes):
        nodes[k] = negotiation.pool[negotiation.current * <Py_ssize_t> negotiation.n_nodes + k]
    negotiation_drop_records(negotiation)
    free(negotiation.answer)
    free(negotiation.results)
    free(negotiation.pool)
    free(negotiation.reserved)
    negotiation.answer, negotiation.results, negotiation.reserved = NULL, NULL, NULL
    negotiation.pool, negotiation.current, negotiation.n_asked, negotiation.missing = nodes, 0, 0, 0
    negotiation.n_answers = negotiation.n_results = negotiation.n_reserved = 0
    negotiation.lost_a_node, negotiation.due = False, 0
    return 0


# -- checkpoints ------------------------------------------------------------------------------------------

cdef struct TableRows:                  # number of rows of each table of a checkpoint, counted so far
    Py_ssize_t negotiations, answers, results, reserved, pool, candidates


cdef inline void negotiation_count(const Negotiation* negotiation, TableRows* rows) noexcept nogil:
    """Add the rows that a negotiation needs."""
    cdef Py_ssize_t k, n_nodes = negotiation.n_nodes
    rows.negotiations += 1
    if negotiation.search_records != NULL:
        for k in range(negotiation.n_results):
            rows.candidates += negotiation.search_records[k].n
    rows.answers += negotiation.n_answers
    rows.results += negotiation.n_results
    rows.reserved += negotiation.n_reserved
    if negotiation.pool != NULL:
        rows.pool += n_nodes if negotiation.n_asked == 0 else negotiation.n_results * n_nodes


cdef inline void negotiation_copy(const Negotiation* negotiation, Py_ssize_t job, long long[:, ::1] negotiations,
                                  long long[:, ::1] answers, long long[:, ::1] results, long long[::1] reserved,
                                  long long[::1] pool, long long[:, ::1] search_records,
                                  long long[:, ::1] candidates, TableRows* rows) noexcept nogil:
    """Append the negotiation to the tables, after the rows in use, and count its rows."""
    cdef TableRows at = rows[0]
    cdef const SearchRecord* record
    cdef long long* row = &negotiations[at.negotiations, 0]
    cdef Py_ssize_t k, j
    negotiation_count(negotiation, rows)
    row[0], row[1], row[2], row[3] = job, negotiation.start, negotiation.n_asked, negotiation.missing
    row[4], row[5], row[6] = negotiation.n_answers, negotiation.n_results, negotiation.n_reserved
    row[7], row[8], row[9] = negotiation.current, negotiation.retry_may_help, negotiation.pool != NULL
    row[10], row[11], row[12] = negotiation.lost_a_node, negotiation.due, negotiation.first_late_start
    for k in range(negotiation.n_answers):
        row = &answers[at.answers + k, 0]
        row[0], row[1] = negotiation.answer[k].start, negotiation.answer[k].place
    for k in range(negotiation.n_results):
        row = &results[at.results + k, 0]
        row[0], row[1] = negotiation.results[k].searcher, negotiation.results[k].place
        if negotiation.search_records != NULL:
            record = &negotiation.search_records[k]
            row = &search_records[at.results + k, 0]
            row[0], row[1], row[2] = record.oldest, record.slot, record.n
            for j in range(record.n):
                candidates[at.candidates + j, 0] = record.observations[j].node
                candidates[at.candidates + j, 1] = record.observations[j].as_of
            at.candidates += record.n
    for k in range(negotiation.n_reserved):
        reserved[at.reserved + k] = negotiation.reserved[k]
    for k in range(rows.pool - at.pool):
        pool[at.pool + k] = negotiation.pool[k]


cdef inline int negotiation_fill(Negotiation** place, Py_ssize_t n_nodes, const long long[:, ::1] negotiations,
                                 const long long[:, ::1] answers, const long long[:, ::1] results,
                                 const long long[::1] reserved, const long long[::1] pool,
                                 const long long[:, ::1] search_records, const long long[:, ::1] candidates,
                                 bint logs_decisions, TableRows* rows) except -1:
    """Make the negotiation about a job of `n_nodes` nodes from the next rows of the tables, which have been checked."""
    cdef TableRows at = rows[0]
    cdef Negotiation* negotiation
    cdef SearchRecord* record
    cdef const long long* row = &negotiations[at.negotiations, 0]
    cdef Py_ssize_t k, j
    negotiation_open(place, n_nodes, row[2], logs_decisions)
    negotiation = place[0]
    negotiation.start, negotiation.missing = row[1], <int> row[3]
    negotiation.n_answers, negotiation.n_results, negotiation.n_reserved = <int> row[4], <int> row[5], <int> row[6]
    negotiation.current, negotiation.retry_may_help = <int> row[7], row[8] != 0
    negotiation.lost_a_node, negotiation.due, negotiation.first_late_start = row[10] != 0, row[11], row[12]
    if row[9]:
        negotiation_pool(negotiation)
    if negotiation.n_asked and negotiation.current >= 0:
        negotiation_reserved(negotiation)
    for k in range(negotiation.n_answers):
        row = &answers[at.answers + k, 0]
        negotiation.answer[k].start, negotiation.answer[k].place = row[0], <int> row[1]
    for k in range(negotiation.n_results):
        row = &results[at.results + k, 0]
        negotiation.results[k].searcher, negotiation.results[k].place = <int> row[0], <int> row[1]
        if negotiation.search_records != NULL:
            record = &negotiation.search_records[k]
            row = &search_records[at.results + k, 0]
            record.oldest, record.slot, record.n = row[0], row[1], <int> row[2]
            record.observations = <Observation*> reallocate(NULL, record.n * sizeof(Observation))
            for j in range(record.n):
                record.observations[j].node = <int> candidates[at.candidates + j, 0]
                record.observations[j].as_of = candidates[at.candidates + j, 1]
            at.candidates += record.n
    for k in range(negotiation.n_reserved):
        negotiation.reserved[k] = <int> reserved[at.reserved + k]
    negotiation_count(negotiation, rows)
    for k in range(rows.pool - at.pool):
        negotiation.pool[k] = <int> pool[at.pool + k]
    return 0


# -- all negotiations ---------------------------------------------------------------------------------------

cdef class Negotiations:
    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef SlotSchedules schedules
    cdef Views views
    cdef Links links
    cdef Py_ssize_t jobs, nodes
    # per kind of message: its number in `links`, number of fields, bytes, and time to send it (ns)
    cdef int[KINDS] number, fields
    cdef long long[KINDS] nbytes
    cdef long long[KINDS] span
    # per job
    cdef signed char[::1] phase
    cdef long long[::1] tasks, length, run_time, submitter, attempt, searches, failed_searches, conflicts, late_answers
    cdef long long[::1] most_candidates, resubmitted, first_start, end, done, group, earliest, latest, reserved_slots
    cdef unsigned char[:, ::1] suitable  # by group of jobs and node; None if all nodes suit all jobs
    # per node
    cdef long long[::1] received, changes, busy_time, tasks_done, first_poll
    cdef const unsigned char[::1] up, known_down    # `known_down` is None if machines do not fail
    cdef long long[::1] counts          # number of exchanged schedules, by kind of exchange
    cdef long long slot, one_way, latency, at_least, opening, period, width, patience
    cdef unsigned long long seed
    cdef long long forward, hops, rounds, tries
    cdef bint wide, exclude_home, keep_slots, push, pull, poll, stale, faults
    cdef Negotiation** negotiation      # by job; NULL: none
    cdef Outbox[KINDS] out
    cdef Row* row                       # scratch: the messages of a cohort
    cdef Row* spare
    cdef Py_ssize_t room
    cdef long long* selection           # scratch
    cdef Observation* observations      # scratch
    cdef Delayed delayed_answers        # answers of searches that take time
    cdef Pending run_ends               # jobs by the end of their run, including ends of lost runs
    cdef Pending reservation_ends       # jobs by the end of a reservation that they exceed, including outdated ends
    cdef Pending wait_ends              # jobs by the ends of their waits, including waits that are over
    cdef readonly long long completed, rejected
    cdef readonly long long extended, displaced     # reservations extended, and jobs displaced by that
    cdef long long reported_end         # the last end of runs or waits that `advance` has returned, ns
    cdef bint record
    cdef object _waiting, _rejections   # news for the policy, see `DgsProtocol.read_outcomes`
    cdef object _cancellations          # see `DgsProtocol.cancellations`
    cdef object _displacements          # see `DgsProtocol.displacements`
    cdef DecisionLog log
    cdef bint logs_decisions
    cdef long long detection            # time to detect a failure, ns; see `gridsim.schedulers.dgs.failures`
    cdef object on_decisions            # see `DgsProtocol`

    cdef _Guard _guard(self)
    cdef int _hand_over(self) except -1
    cdef Py_ssize_t _home(self, Py_ssize_t job) noexcept nogil
    cdef int _watch(self, Py_ssize_t job) except -1
    cdef long long _slot_at(self, long long time) noexcept nogil
    cdef int _check(self, Py_ssize_t job) except -1
    cdef int _check_placed(self, Py_ssize_t job) except -1
    cdef int _room_for(self, Py_ssize_t n) except -1 nogil
