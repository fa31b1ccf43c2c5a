"""C-level contract of what the compiled protocol of DGS_ASAP knows."""

from gridcore.common.arguments cimport _Guard
from gridcore.common.pending cimport Pending
from gridcore.dgs.decision_log cimport DecisionLog
from gridcore.dgs.outbox cimport Delayed, Outbox, Row
from gridcore.dgs.overlay cimport Views
from gridcore.dgs.slots cimport Seen, SlotSchedules
from gridcore.dgs.talks cimport Talk
from gridcore.network.links cimport Links

# The kinds of messages, in the order of their priorities.
cdef enum:
    CANCEL_KIND, REQUEST_KIND, ANSWER_KIND, COMMIT_KIND, REPLY_KIND, DISPLACED_KIND, KINDS

# The phases of a job.  BROKEN: it has lost a machine, and its scheduling node does not know yet.
cpdef enum:
    NEW, SEARCHING, COMMITTING, WAITING, PLACED, BROKEN, DONE, FAILED, CANCELLED


cdef class Negotiations:
    cdef bint occupied                  # see `gridcore.common.arguments.guard`
    cdef SlotSchedules schedules
    cdef Views views
    cdef Links links
    cdef Py_ssize_t jobs, nodes
    cdef int[KINDS] number, fields
    cdef long long[KINDS] nbytes
    cdef long long[KINDS] span
    cdef signed char[::1] phase
    cdef long long[::1] tasks, length, lasts, submitter, attempt, searches, in_vain, conflicts, late, reached
    cdef long long[::1] resubmitted, first_start, end, done, group, earliest, latest, held
    cdef unsigned char[:, ::1] suited     # by group of jobs and node; None if all nodes suit all jobs
    cdef long long[::1] received, changes, busy, done_by, first, counts
    cdef const unsigned char[::1] up, gone  # gone: nodes that are known to have failed; None where none may fail
    cdef long long slot, one_way, latency, at_least, opening, period, width, patience
    cdef unsigned long long seed
    cdef long long forward, hops, rounds, tries
    cdef bint wide, others, keep, push, pull, poll, stale, faults
    cdef Talk** talk
    cdef Outbox[KINDS] out
    cdef Row* row                       # scratch: the messages of a cohort
    cdef Row* spare
    cdef Py_ssize_t room
    cdef long long* chosen              # scratch
    cdef Seen* seen                     # scratch
    cdef Delayed thinking               # searches that take time: their requests, with the start that was found
    cdef Pending ending                 # jobs by the end of their run; where machines fail, of lost runs, too
    cdef Pending outliving              # jobs by the end of what they have reserved, if they outlive it, and stale ones
    cdef Pending overdue                # jobs by the end of their waits, of waits that are over, too
    cdef readonly long long completed, given_up
    cdef readonly long long extended, displaced     # reservations extended and jobs displaced by that so far
    cdef long long reported_end             # ns, the last end of runs or waits that `advance` has returned
    cdef bint record
    cdef object _waiting, _given_up     # jobs that the policy has still to learn about, see `DgsProtocol.read_outcomes`
    cdef object _stopped                # see `DgsProtocol.stopped`
    cdef object _moved                  # see `DgsProtocol.moved`
    cdef DecisionLog log
    cdef bint recorded                  # whether decisions are
    cdef long long detection            # ns, see `gridsim.schedulers.dgs.failures`
    cdef object decided                 # see `DgsProtocol`

    cdef _Guard _guard(self)
    cdef int _hand_over(self) except -1
    cdef Py_ssize_t _home(self, Py_ssize_t job) noexcept nogil
    cdef int _watch(self, Py_ssize_t job) except -1
    cdef long long _slot_at(self, long long time) noexcept nogil
    cdef int _check(self, Py_ssize_t job) except -1
    cdef int _check_placed(self, Py_ssize_t job) except -1
    cdef int _room_for(self, Py_ssize_t n) except -1 nogil
