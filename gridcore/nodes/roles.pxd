"""The roles of nodes: which nodes have a role, and the handlers and compiled states of these."""

# The events that have handlers, after the kinds of messages.
cdef enum:
    ON_START, ON_RELEASE, ON_LOST, ON_TIMER, ON_IDLE, ON_END, ON_ACT, ON_DONE, ON_TIMEOUT, EVENTS
# The bit of `Role.events` that is set if `on_timer` takes the value of the timer.
cdef enum:
    WITH_VALUE = EVENTS


cdef struct Role:
    long long first, end                # the nodes first..end - 1
    unsigned int events                 # bit k: the nodes handle event k
    void** handlers                     # compiled: a `Handler` per kind of message, then per event, or NULL
    char* states                        # compiled: the state of node k is at `states + k * stride`
    Py_ssize_t stride


cdef inline Role* role_of(Role* roles, long long node) noexcept nogil:
    """Return the role of a node; there are few, so that a search is faster than a table of nodes."""
    while node >= roles.end:
        roles += 1
    return roles
