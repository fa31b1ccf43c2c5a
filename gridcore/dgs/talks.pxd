"""What scheduling nodes know of jobs being placed, and the machines of placed jobs: for `gridcore.dgs.protocol`."""

from libc.stdlib cimport free
from libc.string cimport memset

from gridcore.common.memory cimport reallocate
from gridcore.dgs.slots cimport Seen

cdef inline long long claim(long long job, long long attempt) noexcept nogil:
    """Return for whom nodes reserve slots: for one attempt to place a job.  See `gridcore.dgs.state.claimed`."""
    return (attempt << 32) | job


cdef struct Answer:
    long long start                     # slot; -1 once it has been tried
    int searcher, place                 # place: where its machines are in the pool


cdef struct Looked:                     # what the answer of a search rests on, where decisions are recorded
    long long oldest                    # ns, when the candidates were seen, the first of them; -1 for never
    long long slot                      # the first one that its messages left
    Seen* seen                          # the candidates; NULL once the search has answered
    int n


cdef struct Talk:
    long long start                     # slot of the allocation that is being tried or was taken
    long long due                       # ns, when the wait for answers or replies ends; 0 for never
    long long tardy                     # the first start of an answer that the deadline does not allow; -1 for none
    int asked, missing, n_answers, n_found, n_taken, n_nodes, current
    bint hope                           # whether another search may do better
    bint hit                            # whether a machine being asked to commit has failed, which is detected later
    Answer* answer                      # in the order of their arrival
    Answer* found                       # what searchers found; not known to the scheduling node before their answers
    Looked* looked                      # by place in `found`; NULL where decisions are not recorded
    int* pool                           # machines found, n_nodes for each search
    int* taken                          # machines that have committed


cdef inline void talk_forget(Talk* talk) noexcept nogil:
    """Drop what searches have looked at."""
    cdef Py_ssize_t k
    if talk.looked == NULL:
        return
    for k in range(talk.n_found):
        free(talk.looked[k].seen)
    free(talk.looked)
    talk.looked = NULL


cdef inline void talk_drop(Talk** place) noexcept nogil:
    cdef Talk* talk = place[0]
    if talk == NULL:
        return
    talk_forget(talk)
    free(talk.answer)
    free(talk.found)
    free(talk.pool)
    free(talk.taken)
    free(talk)
    place[0] = NULL


cdef inline int talk_open(Talk** place, Py_ssize_t n_nodes, Py_ssize_t asked, bint recorded) except -1 nogil:
    """Begin a new search for a job of `n_nodes` nodes; `asked` nodes have still to answer.

    recorded : whether to remember what they look at.
    """
    cdef Talk* talk = <Talk*> reallocate(NULL, sizeof(Talk))
    memset(talk, 0, sizeof(Talk))
    # stored first, so that it is not leaked if an allocation below fails; `asked` is still 0 then
    talk_drop(place)
    place[0] = talk
    talk.n_nodes, talk.start, talk.current, talk.tardy = <int> n_nodes, -1, -1, -1
    if asked:
        talk.answer = <Answer*> reallocate(NULL, asked * sizeof(Answer))
        talk.found = <Answer*> reallocate(NULL, asked * sizeof(Answer))
        if recorded:
            talk.looked = <Looked*> reallocate(NULL, asked * sizeof(Looked))
            memset(talk.looked, 0, asked * sizeof(Looked))
    talk.asked = talk.missing = <int> asked
    return 0


cdef inline int* talk_pool(Talk* talk) except NULL nogil:
    """Return the pool, with room for what every node asked may find; zeros where a search finds nothing."""
    cdef Py_ssize_t size = max(talk.asked, 1) * <Py_ssize_t> talk.n_nodes * sizeof(int)
    if talk.pool == NULL:
        talk.pool = <int*> reallocate(NULL, size)
        memset(talk.pool, 0, size)
    return talk.pool


cdef inline int* talk_taken(Talk* talk) except NULL nogil:
    """Return `taken`, with room for all machines that may commit."""
    if talk.taken == NULL:
        talk.taken = <int*> reallocate(NULL, talk.n_nodes * sizeof(int))
    return talk.taken


cdef inline int talk_place(Talk* talk) except -1 nogil:
    """Drop everything from the talk except the machines of the current answer."""
    cdef int* nodes = <int*> reallocate(NULL, talk.n_nodes * sizeof(int))
    cdef Py_ssize_t k
    for k in range(talk.n_nodes):
        nodes[k] = talk.pool[talk.current * <Py_ssize_t> talk.n_nodes + k]
    talk_forget(talk)
    free(talk.answer)
    free(talk.found)
    free(talk.pool)
    free(talk.taken)
    talk.answer, talk.found, talk.taken, talk.pool, talk.current = NULL, NULL, NULL, nodes, 0
    talk.asked = talk.n_answers = talk.n_found = talk.n_taken = talk.missing = 0
    talk.hit, talk.due = False, 0
    return 0


# -- checkpoints ------------------------------------------------------------------------------------------

cdef struct Tables:                     # number of rows of each table of a checkpoint that talks have used so far
    Py_ssize_t talks, answers, found, taken, pool, candidates


cdef inline void talk_count(const Talk* talk, Tables* rows) noexcept nogil:
    cdef Py_ssize_t k
    rows.talks += 1
    if talk.looked != NULL:
        for k in range(talk.n_found):
            rows.candidates += talk.looked[k].n
    rows.answers += talk.n_answers
    rows.found += talk.n_found
    rows.taken += talk.n_taken
    if talk.pool != NULL:
        rows.pool += talk.n_nodes if talk.asked == 0 else talk.n_found * <Py_ssize_t> talk.n_nodes


cdef inline void talk_copy(const Talk* talk, Py_ssize_t job, long long[:, ::1] talks, long long[:, ::1] answers,
                           long long[:, ::1] found, long long[::1] taken, long long[::1] pool,
                           long long[:, ::1] looked, long long[:, ::1] candidates, Tables* rows) noexcept nogil:
    """Append the talk to the tables, from the rows counted so far on."""
    cdef Tables at = rows[0]
    cdef const Looked* look
    cdef Py_ssize_t k, j
    talk_count(talk, rows)
    talks[at.talks, 0], talks[at.talks, 1], talks[at.talks, 2] = job, talk.start, talk.asked
    talks[at.talks, 3], talks[at.talks, 4], talks[at.talks, 5] = talk.missing, talk.n_answers, talk.n_found
    talks[at.talks, 6], talks[at.talks, 7], talks[at.talks, 8] = talk.n_taken, talk.current, talk.hope
    talks[at.talks, 9], talks[at.talks, 10], talks[at.talks, 11] = talk.pool != NULL, talk.hit, talk.due
    talks[at.talks, 12] = talk.tardy
    for k in range(talk.n_answers):
        answers[at.answers + k, 0], answers[at.answers + k, 1] = talk.answer[k].start, talk.answer[k].place
    for k in range(talk.n_found):
        found[at.found + k, 0], found[at.found + k, 1] = talk.found[k].searcher, talk.found[k].place
        if talk.looked != NULL:
            look = &talk.looked[k]
            looked[at.found + k, 0], looked[at.found + k, 1], looked[at.found + k, 2] = look.oldest, look.slot, look.n
            for j in range(look.n):
                candidates[at.candidates + j, 0] = look.seen[j].node
                candidates[at.candidates + j, 1] = look.seen[j].as_of
            at.candidates += look.n
    for k in range(talk.n_taken):
        taken[at.taken + k] = talk.taken[k]
    for k in range(rows.pool - at.pool):
        pool[at.pool + k] = talk.pool[k]


cdef inline int talk_fill(Talk** place, Py_ssize_t n_nodes, const long long[:, ::1] talks,
                          const long long[:, ::1] answers, const long long[:, ::1] found,
                          const long long[::1] taken, const long long[::1] pool, const long long[:, ::1] looked,
                          const long long[:, ::1] candidates, bint recorded, Tables* rows) except -1:
    """Make the talk of a job of `n_nodes` nodes from the next rows of the tables, which have been checked."""
    cdef Tables at = rows[0]
    cdef Talk* talk
    cdef Looked* look
    cdef Py_ssize_t k, j
    talk_open(place, n_nodes, talks[at.talks, 2], recorded)
    talk = place[0]
    talk.start, talk.missing = talks[at.talks, 1], <int> talks[at.talks, 3]
    talk.n_answers, talk.n_found = <int> talks[at.talks, 4], <int> talks[at.talks, 5]
    talk.n_taken, talk.current = <int> talks[at.talks, 6], <int> talks[at.talks, 7]
    talk.hope, talk.hit, talk.due = talks[at.talks, 8] != 0, talks[at.talks, 10] != 0, talks[at.talks, 11]
    talk.tardy = talks[at.talks, 12]
    if talks[at.talks, 9]:
        talk_pool(talk)
    if talk.asked and talk.current >= 0:
        talk_taken(talk)
    for k in range(talk.n_answers):
        talk.answer[k].start, talk.answer[k].place = answers[at.answers + k, 0], <int> answers[at.answers + k, 1]
    for k in range(talk.n_found):
        talk.found[k].searcher, talk.found[k].place = <int> found[at.found + k, 0], <int> found[at.found + k, 1]
        if talk.looked != NULL:
            look = &talk.looked[k]
            look.oldest, look.slot = looked[at.found + k, 0], looked[at.found + k, 1]
            look.n = <int> looked[at.found + k, 2]
            look.seen = <Seen*> reallocate(NULL, look.n * sizeof(Seen))
            for j in range(look.n):
                look.seen[j].node = <int> candidates[at.candidates + j, 0]
                look.seen[j].as_of = candidates[at.candidates + j, 1]
            at.candidates += look.n
    for k in range(talk.n_taken):
        talk.taken[k] = <int> taken[at.taken + k]
    talk_count(talk, rows)
    for k in range(rows.pool - at.pool):
        talk.pool[k] = <int> pool[at.pool + k]
    return 0
