"""C-level declarations of the events of nodes that several processes share."""

from gridcore.network.exchange cimport Exchange
from gridcore.nodes.handlers cimport Handlers
from gridcore.nodes.node_events cimport NodeEvents

cdef class NodeExchange(Exchange):
    cdef Handlers handlers
    cdef list kinds
    cdef long long coming               # tasks in messages that may be placed within an epoch

    cdef int _count(self, int slot, long long sign) except -1


cdef class SharedEvents(NodeEvents):
    cdef bint in_call                   # set while a public method runs; see `gridcore.common.arguments.guard`
    cdef NodeExchange exchange          # None: this process runs all nodes
    cdef long long epoch                # ns, the shortest time that a message to another machine takes
    cdef long long calls                # of the engine so far
    # The step of the instant: blocks of timers, of acts between them, and waves of deliveries between those; and the
    # phase of the present step, `NOTHING` at the beginning of an instant or a call.
    cdef long long timer_blocks, act_blocks, waves
    cdef int step, part
    cdef bint all_placed                # whether all processes together have placed all tasks, at acts in step

    cdef int _begin_call(self) except -1
    cdef bint _is_local(self, Py_ssize_t node) noexcept
    cdef long long _next_instant(self) except -1
    cdef int _write_facts(self, long long* facts) except -1
    cdef long long _total(self, int fact) noexcept
    cdef bint _is_exhausted(self) except -1
    cdef bint _may_end(self, long long at) except -1
    cdef long long _advance_together(self, long long limit) except -1
    cdef int _run_in_step(self, long long at, long long limit) except -1
