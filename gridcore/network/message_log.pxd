"""The optional log of messages between machines that `gridcore.network.links` keeps."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from gridcore.common.memory cimport reallocate

cdef enum:
    LOG_COLUMNS = 8
cdef enum:
    UNDER_WAY = -1
    DROPPED = -2


cdef struct LogEntry:               # `delivered` is an instant (ns), UNDER_WAY or DROPPED; `node` is the sending node
    long long sent, delivered, subject
    int kind, sender, receiver, nbytes, node


cdef struct MessageLog:             # all zero if there is no log
    LogEntry* entry
    Py_ssize_t n, max_rows, n_unlogged, capacity
    # row of each message in flight in the log, -1: none; by slot, and by entry of the mailboxes
    int* of_slot
    int* of_letter
    Py_ssize_t letters


cdef inline void messagelog_free(MessageLog* l) noexcept nogil:
    free(l.entry)
    free(l.of_slot)
    free(l.of_letter)


cdef inline int messagelog_add(MessageLog* l, const LogEntry* entry) except -2:
    """Append `entry` and return its place; if the log is full, only count it and return -1."""
    if l.n >= l.max_rows:
        l.n_unlogged += 1
        return -1
    if l.n == l.capacity:
        l.entry = <LogEntry*> reallocate(l.entry, (2 * l.capacity + 256) * sizeof(LogEntry))
        l.capacity = 2 * l.capacity + 256
    l.entry[l.n] = entry[0]
    l.n += 1
    return <int> (l.n - 1)


cdef inline int messagelog_slots(MessageLog* l, Py_ssize_t slots) except -1:
    """Make room for the places of `slots` messages in slots."""
    l.of_slot = <int*> reallocate(l.of_slot, slots * sizeof(int))
    return 0


cdef inline int messagelog_letters(MessageLog* l, Py_ssize_t letters) except -1:
    """Make room for the places of `letters` messages in mailboxes."""
    if letters > l.letters:
        l.of_letter = <int*> reallocate(l.of_letter, letters * sizeof(int))
        l.letters = letters
    return 0


cdef inline void messagelog_end(MessageLog* l, int place, long long delivered) noexcept nogil:
    if place >= 0:
        l.entry[place].delivered = delivered


cdef inline void messagelog_copy(const MessageLog* l, long long[:, ::1] out) noexcept nogil:
    """Copy the log into `out`, one row per message."""
    cdef Py_ssize_t k
    cdef const LogEntry* p
    for k in range(l.n):
        p = &l.entry[k]
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = p.kind, p.sender, p.receiver, p.sent
        out[k, 4], out[k, 5], out[k, 6], out[k, 7] = p.delivered, p.nbytes, p.subject, p.node


cdef inline int messagelog_fill(MessageLog* l, const long long[:, ::1] rows) except -1:
    """Replace the contents of the log by `rows`, of which there may be more than `max_rows`."""
    cdef Py_ssize_t k, n = rows.shape[0]
    cdef LogEntry* p
    if n > l.capacity:
        l.entry = <LogEntry*> reallocate(l.entry, n * sizeof(LogEntry))
        l.capacity = n
    l.n = n
    for k in range(n):
        p = &l.entry[k]
        p.kind, p.sender, p.receiver, p.sent = <int> rows[k, 0], <int> rows[k, 1], <int> rows[k, 2], rows[k, 3]
        p.delivered, p.nbytes, p.subject, p.node = rows[k, 4], <int> rows[k, 5], rows[k, 6], <int> rows[k, 7]
    return 0


cdef inline long long messagelog_subject(const void* record, long long offset) noexcept nogil:
    """Return the int64 at `offset` of a record; -1 if `offset` is negative."""
    cdef long long subject
    if offset < 0:
        return -1
    memcpy(&subject, <const char*> record + offset, sizeof(subject))
    return subject
