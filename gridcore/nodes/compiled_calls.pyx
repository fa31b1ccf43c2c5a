"""The functions that compiled handlers call through their `Context`, with the checks of `gridcore.nodes.view`."""

from cpython.ref cimport PyObject

from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.outbox cimport outbox_add, outbox_drop
from gridcore.nodes.rows cimport (
    heap_at, heap_pop, heap_push, iteration_error, map_at, map_discard, map_find, map_get, map_next, map_pop, map_put,
    map_remove, queue_at, queue_pop, queue_push, rows_clear,
)
from gridcore.nodes.timers cimport timers_cancel
from gridcore.queues.task_queues cimport TaskQueues

import numpy as np

__all__ = ["CONTEXT"]

#: The names of the fields of a `Context`, in order.
CONTEXT = (
    "core", "now", "nodes", "degree", "neighbours", "roles", "speed", "parameters", "tasks", "task_size", "size", "release",
    "send", "finish_send", "enqueue", "waiting", "work", "timer", "cancel", "check_known", "draw", "integer", "held",
    "take", "queued", "note", "decide", "publish", "board", "tasks_at",
    "queue_push", "queue_pop", "queue_at", "heap_push", "heap_pop", "heap_at", "map_find", "map_get", "map_put",
    "map_discard", "map_remove", "map_at", "map_next", "map_pop", "rows_clear", "iteration_error",
)


cdef int fill_context(Context* c, NodeActions core, const long long[::1] tasks) except -1:
    """Fill in the context of the handlers of `core.compiled_form`; `tasks` is the number of tasks by application."""
    cdef const long long[:, ::1] neighbours = core.neighbours
    cdef const unsigned char[::1] parameters = core.compiled_form.parameters.view(np.uint8).reshape(-1)
    cdef TaskQueues queues = core.queues
    c.core, c.now, c.nodes, c.degree = <PyObject*> core, &core.now, core.nodes, core.neighbours.shape[1]
    c.neighbours = &neighbours[0, 0] if neighbours.size else NULL
    c.roles = &core.role_bounds[0, 0]
    c.speed = &queues.speed[0] if core.nodes else NULL
    c.parameters = <const char*> &parameters[0] if parameters.shape[0] else NULL
    if tasks.shape[0]:
        c.tasks, c.task_size, c.size = &tasks[0], &queues.task_size[0], &queues.size[0]
        c.release = &queues.release[0]
    c.send, c.finish_send, c.enqueue = add_message, finish_message, enqueue_tasks
    c.waiting, c.work, c.timer, c.cancel = count_waiting, remaining_time, set_timer, cancel_timer
    c.check_known, c.draw, c.integer = check_application, draw_variate, draw_integer
    c.held, c.take, c.queued, c.note, c.decide = held_tasks, take_tasks, queued_applications, add_note, add_decision
    c.publish, c.board, c.tasks_at = publish_value, read_board, count_tasks
    c.queue_push, c.queue_pop, c.queue_at = queue_push, queue_pop, queue_at
    c.heap_push, c.heap_pop, c.heap_at = heap_push, heap_pop, heap_at
    c.map_find, c.map_get, c.map_put, c.map_discard, c.map_remove = map_find, map_get, map_put, map_discard, map_remove
    c.map_at, c.map_next, c.map_pop, c.rows_clear = map_at, map_next, map_pop, rows_clear
    c.iteration_error = iteration_error
    return 0


cdef long long* add_message(PyObject* core, long long node, long long kind, long long to) except NULL:
    """Add a message to the outbox and return its fields, which the handler fills in."""
    cdef NodeActions c = <NodeActions> core
    if not 0 <= to < c.nodes:
        raise c._send_error(node, to, (<MessageKind> c.kinds[kind]).name,
                            dict.fromkeys((<MessageKind> c.kinds[kind]).fields))
    if (<MessageKind> c.kinds[kind]).delay < 0:
        c.dirty = True
    return outbox_add(&c.out[kind], to, node)


cdef int finish_message(PyObject* core, long long node, long long kind, const long long* row) except -1:
    """Check the fields of a message; if its kind has its own delay, send it at once."""
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> c.kinds[kind]
    if k.application_at >= 0:
        try:
            c._account_for_message(node, k, row)
        except BaseException:
            outbox_drop(&c.out[kind])
            raise
    if k.delay < 0:
        return 0
    outbox_drop(&c.out[kind])           # `row` stays valid until another record is added
    return c._send_now(k, row - 2)


cdef int enqueue_tasks(PyObject* core, long long node, long long application, long long tasks) except -1:
    cdef NodeActions c = <NodeActions> core
    c._check_known(node, application)
    return c._enqueue(node, application, tasks)


cdef long long count_waiting(PyObject* core, long long node) except -1:
    cdef NodeActions c = <NodeActions> core
    c._catch_up(node)
    return c.queues.waiting[node]


cdef long long count_tasks(PyObject* core, long long node) except -1:
    return (<NodeActions> core)._tasks_at(node)


cdef double remaining_time(PyObject* core, long long node) except -1.0:
    return (<NodeActions> core)._work(node)


cdef int set_timer(PyObject* core, long long node, long long name, double seconds, double value) except -1:
    return (<NodeActions> core)._set_timer(node, name, seconds, value)


cdef int cancel_timer(PyObject* core, long long node, long long name) except -1:
    return timers_cancel(&(<NodeActions> core).timers, <int> node, <int> name)


cdef int check_application(PyObject* core, long long node, long long application) except -1:
    return (<NodeActions> core)._check_known(node, application)


cdef int draw_variate(PyObject* core, long long node, long long kind, double factor, double shift,
                      double* out) except -1:
    out[0] = (<NodeActions> core)._stream(node)._variate(<int> kind, factor, shift)
    return 0


cdef int draw_integer(PyObject* core, long long node, long long low, long long high, long long* out) except -1:
    out[0] = (<NodeActions> core)._stream(node)._integer(low, high)
    return 0


cdef long long held_tasks(PyObject* core, long long node, long long application) except -1:
    return (<NodeActions> core)._tasks_to_place(node, application)


cdef long long take_tasks(PyObject* core, long long node, long long application, long long tasks) except -1:
    (<NodeActions> core)._check_known(node, application)
    return (<NodeActions> core)._take(node, application, tasks)


cdef long long queued_applications(PyObject* core, long long node, long long* out) except -1:
    """Return the number of waiting applications of a node; write (application, tasks) of each unless `out` is NULL."""
    cdef TaskQueues queues = (<NodeActions> core).queues
    cdef Py_ssize_t k, first
    if out == NULL:
        (<NodeActions> core)._catch_up(node)
    first = queues.first[node]
    for k in range(queues.count[node] if out != NULL else 0):
        out[2 * k], out[2 * k + 1] = queues.share[node, first + k, 0], queues.share[node, first + k, 1]
    return queues.count[node]


cdef int publish_value(PyObject* core, long long node, double value, long long falling) except -1:
    return (<NodeActions> core)._publish(node, -1, value, falling)


cdef double* read_board(PyObject* core, long long node) except NULL:
    """Return the memory of the board, float64[nodes]; it may change after the handler has returned."""
    (<NodeActions> core)._check_board(node)
    return (<NodeActions> core).board._read((<NodeActions> core).now)


cdef int add_note(PyObject* core, long long node, long long table, const long long* row) except -1:
    cdef NodeActions c = <NodeActions> core
    cdef Py_ssize_t k
    name, columns = c.compiled_form.tables[table]
    values = {}
    for k, (column, kind) in enumerate(columns.items()):
        values[column] = (<const double*> row)[k] if kind is float else row[k]
    c.add_note(node, name, values)
    return 0


cdef int add_decision(PyObject* core, long long node, long long action, const long long* row) except -1:
    """Record a decision; `row` has application, machine, task, tasks, among, and the floats saw, limit, age."""
    cdef NodeActions c = <NodeActions> core
    cdef const double* floats = <const double*> row
    c._check_known(node, row[0])
    if c.record_decision is None:
        return 0
    c.record_decision(node, c.compiled_form.actions[action], row[0], {
        "machine": row[1], "task": row[2], "tasks": row[3], "among": row[4], "saw": floats[5], "limit": floats[6],
        "age": floats[7]})
    return 0
