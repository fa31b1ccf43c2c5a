"""The functions that compiled handlers call through their `Context`, with the checks of `gridcore.nodes.view`."""

from cpython.ref cimport PyObject
from libc.string cimport memcpy

from gridcore.common.instants cimport NEVER
from gridcore.nodes.holdings cimport holdings_give
from gridcore.nodes.kinds cimport MessageKind, TimerKind
from gridcore.nodes.node_actions cimport check_may_act
from gridcore.nodes.outbox cimport outbox_add, outbox_drop
from gridcore.nodes.payloads cimport Contents, Payload, StridedArray, payload_of
from gridcore.nodes.rows cimport (
    heap_at, heap_pop, heap_push, iteration_error, map_at, map_discard, map_find, map_get, map_next, map_pop, map_put,
    map_remove, queue_at, queue_delete, queue_pop, queue_push, rows_clear,
)
from gridcore.nodes.shared_array cimport contents_at, replace_array
from gridcore.nodes.timers cimport timers_cancel, timers_cancel_fields
from gridcore.nodes.random_stream cimport RandomStream
from gridcore.queues.availability cimport Grid
from gridcore.queues.task_queues cimport TaskQueues

import numpy as np

cdef extern from *:
    """static int raise_current_error(void) { return -1; }"""
    int raise_current_error() except -1

__all__ = ["CONTEXT"]

cdef double NO_NUMBERS = 0.0            # the memory of a board without rows

#: The names of the fields of a `Context`, in order.
CONTEXT = (
    "core", "now", "nodes", "machines", "machine_of", "neighbours", "neighbour_offsets", "roles", "speed", "parameters", "tasks",
    "task_size", "size", "release", "board_rows", "place", "send", "finish_send", "fail_size", "request", "later", "enqueue",
    "waiting", "work", "minimum_stretch", "timer", "timer_at", "timer_fields", "timer_fields_at", "cancel", "act",
    "check_known", "draw", "integer", "integers", "permute", "held", "take", "queued", "completed", "note", "decide",
    "publish", "check_board", "board", "board_number", "board_least", "board_add", "tasks_at", "running", "cores", "store",
    "set_array",
    "shared_array", "sample", "slots", "extend_slots", "queue_push", "queue_pop", "queue_at", "queue_delete",
    "heap_push", "heap_pop", "heap_at", "map_find", "map_get", "map_put", "map_discard", "map_remove", "map_at", "map_next", "map_pop",
    "rows_clear", "iteration_error",
)


cdef int fill_context(Context* c, NodeActions core, const long long[::1] tasks) except -1:
    """Fill in the context of the handlers of `core.compiled_form`; `tasks` is the number of tasks by application."""
    cdef const long long[::1] neighbours = core.neighbours, neighbour_offsets = core.neighbour_offsets
    cdef const unsigned char[::1] parameters = core.compiled_form.parameters.view(np.uint8).reshape(-1)
    cdef TaskQueues queues = core.queues
    c.core, c.now, c.nodes, c.machines, c.place = <PyObject*> core, &core.now, core.nodes, queues.machines, 0
    c.machine_of = &core.links.machine_of[0] if core.nodes else NULL
    c.neighbours = &neighbours[0] if neighbours.shape[0] else NULL
    c.neighbour_offsets = &neighbour_offsets[0]
    c.roles = &core.role_bounds[0, 0]
    c.speed = &queues.speed[0] if core.nodes else NULL
    c.parameters = <const char*> &parameters[0] if parameters.shape[0] else NULL
    if tasks.shape[0]:
        c.tasks, c.task_size, c.size = &tasks[0], &queues.task_size[0], &queues.size[0]
        c.release = &queues.release[0]
    c.send, c.finish_send, c.fail_size = add_message, finish_message, drop_unsized_message
    c.request, c.enqueue = start_request, enqueue_tasks
    c.waiting, c.work, c.minimum_stretch, c.later = count_waiting, remaining_time, minimum_stretch, send_later
    c.timer, c.timer_at, c.cancel, c.act = set_timer, set_timer_at, cancel_timers, act_after
    c.timer_fields, c.timer_fields_at = set_timer_fields, set_timer_fields_at
    c.check_known, c.draw, c.integer = check_application, draw_variate, draw_integer
    c.integers, c.permute = draw_integers, draw_permutation
    c.held, c.take, c.queued, c.note, c.decide = held_tasks, take_tasks, queued_applications, add_note, add_decision
    c.board_rows = 0 if core.board is None else core.board.nodes
    c.publish, c.check_board, c.board, c.board_number = publish_number, check_board, read_board, read_number
    c.board_least, c.board_add = find_least, add_to_number
    c.tasks_at, c.running, c.cores = count_tasks, count_running, count_cores
    c.completed, c.store = completed_tasks, store_array
    c.sample, c.slots, c.extend_slots = sample_cells, change_slots, extend_reservation
    c.set_array, c.shared_array = set_array, contents_at
    c.queue_push, c.queue_pop, c.queue_at, c.queue_delete = queue_push, queue_pop, queue_at, queue_delete
    c.heap_push, c.heap_pop, c.heap_at = heap_push, heap_pop, heap_at
    c.map_find, c.map_get, c.map_put, c.map_discard, c.map_remove = map_find, map_get, map_put, map_discard, map_remove
    c.map_at, c.map_next, c.map_pop, c.rows_clear = map_at, map_next, map_pop, rows_clear
    c.iteration_error = iteration_error
    return 0


cdef long long* add_message(PyObject* core, long long node, long long kind, long long to) except NULL:
    """Add a message to the outbox and return its fields, which the handler fills in."""
    cdef NodeActions c = <NodeActions> core
    check_may_act(c, node)
    if not 0 <= to < c.nodes:
        raise c._send_error(node, to, (<MessageKind> c.kinds[kind]).name,
                            dict.fromkeys((<MessageKind> c.kinds[kind]).fields))
    if (<MessageKind> c.kinds[kind]).delay < 0 and not c.at_once:
        c.dirty = True
    return outbox_add(&c.out[kind], to, node)


cdef int finish_message(PyObject* core, long long node, long long kind, const long long* row) except -1:
    """Check the fields of a message, and its size after them if it varies; send it if it leaves at once."""
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> c.kinds[kind]
    check_message(c, node, k, row)
    return leave(c, k, row)


cdef int drop_unsized_message(PyObject* core, long long node, long long kind) except -1:
    """Drop the message that was added last: the function of its size has raised the current error."""
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> c.kinds[kind]
    try:
        raise_current_error()
    except Exception as error:
        c._drop_message(k, k.n)
        raise c._failed_size(node, k, error) from error
    return 0


cdef int check_message(NodeActions c, long long node, MessageKind k, const long long* row) except -1:
    """Check the fields of the message that was added last; drop it if one is wrong."""
    try:
        if k.size is not None:
            c._check_size(node, k, row[k.n])
        if k.application_at >= 0:
            c._account_for_message(node, k, row)
    except BaseException:
        c._drop_message(k, k.n)
        raise
    return 0


cdef int leave(NodeActions c, MessageKind k, const long long* row) except -1:
    """Send the message that was added last if it leaves at once."""
    if k.delay < 0 and not c.at_once:
        return 0
    outbox_drop(&c.out[k.number])       # `row` stays valid until another record is added
    return c._send_now(k, row - 2)


cdef long long start_request(PyObject* core, long long node, long long kind, long long* row, double seconds) except -1:
    """Finish a message as `finish_message` does, as a request; return its number."""
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> c.kinds[kind]
    cdef long long number
    try:
        c._check_request(node, k, seconds)
    except BaseException:
        c._drop_message(k, k.n)
        raise
    check_message(c, node, k, row)
    number = c._start_request(node, k, row, seconds)
    leave(c, k, row)
    return number


cdef int send_later(PyObject* core, long long node, long long kind, double seconds, const long long* fields) except -1:
    """Send a message of the local kind of the number `kind`."""
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> c.local.kinds[kind]
    check_may_act(c, node)
    cdef long long application = fields[k.application_at] if k.application_at >= 0 else -1
    try:
        memcpy(c._send_later(node, k, seconds, application), fields, k.n * sizeof(long long))
    except BaseException:
        c._free_arrays(k, fields, k.n)
        raise
    return 0


cdef Contents* store_array(PyObject* core, long long node, long long kind, long long field, long long* fields,
                           const StridedArray* array) except NULL:
    """Store an array, write its number to its field of a message, and return the contents that the receiver gets.

    The fields before this one are filled in.  Local kinds have the numbers -1, -2, ...
    """
    cdef NodeActions c = <NodeActions> core
    cdef MessageKind k = <MessageKind> (c.kinds[kind] if kind >= 0 else c.local.kinds[-1 - kind])
    cdef Payload payload, source
    try:
        source = c.payloads._copy(array)
        payload = source._converted(k.elements[field])
        if payload is None:
            payload = payload_of(c.convert(k.types[field], source._array(), node, k.fields[field]))
        fields[field] = c.payloads._store(payload)
        return &payload.contents
    except BaseException:
        if kind >= 0:
            c._drop_message(k, <int> field)
        else:
            c._free_arrays(k, fields, <int> field)
        raise


cdef int set_array(PyObject* core, PyObject** place, const StridedArray* array) except -1:
    """Replace the array of a `SharedArray` at `place` of a record."""
    return replace_array((<NodeActions> core).payloads, place, array)


cdef int enqueue_tasks(PyObject* core, long long node, long long application, long long tasks) except -1:
    cdef NodeActions c = <NodeActions> core
    check_may_act(c, node)
    c._check_known(node, application)
    return c._enqueue(node, application, tasks)


cdef long long count_waiting(PyObject* core, long long node) except -1:
    cdef NodeActions c = <NodeActions> core
    cdef Py_ssize_t machine = c.links.machine_of[node]
    c._catch_up(machine)
    return c.queues.waiting[machine]


cdef long long count_tasks(PyObject* core, long long node) except -1:
    cdef NodeActions c = <NodeActions> core
    return c._tasks_at(c.links.machine_of[node])


cdef long long count_running(PyObject* core, long long node) except -1:
    cdef NodeActions c = <NodeActions> core
    return c._running_at(c.links.machine_of[node])


cdef long long count_cores(PyObject* core, long long node) except -1:
    cdef NodeActions c = <NodeActions> core
    return c.queues._cores(c.links.machine_of[node])


cdef double remaining_time(PyObject* core, long long node) except -1.0:
    cdef NodeActions c = <NodeActions> core
    return c._work(c.links.machine_of[node])


cdef double minimum_stretch(PyObject* core, long long node) except -1.0:
    cdef NodeActions c = <NodeActions> core
    return c._minimum_stretch(c.links.machine_of[node])


cdef int set_timer(PyObject* core, long long node, long long name, double seconds, double value) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._set_timer(node, name, seconds, value)


cdef int set_timer_at(PyObject* core, long long node, long long name, long long instant, double value) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._set_timer_at(node, name, instant, value)


cdef int set_timer_fields(PyObject* core, long long node, long long name, double seconds,
                          const long long* fields) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._set_timer_fields(node, name, seconds, fields)


cdef int set_timer_fields_at(PyObject* core, long long node, long long name, long long instant,
                             const long long* fields) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._set_timer_fields_at(node, name, instant, fields)


cdef int cancel_timers(PyObject* core, long long node, long long name, long long among,
                       const long long* fields) except -1:
    """Cancel the timers `name` of a node whose fields in `among`, a set of bits, are equal to `fields`."""
    cdef TimerKind kind
    check_may_act(<NodeActions> core, node)
    if among == 0:
        return timers_cancel(&(<NodeActions> core).timers, <int> node, <int> name)
    kind = <TimerKind> (<NodeActions> core).timer_kinds[name]
    return timers_cancel_fields(&(<NodeActions> core).timers, <int> node, <int> name, fields, kind.type_codes, kind.n,
                                among)


cdef int act_after(PyObject* core, long long node, double seconds) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._act_after(node, seconds)


cdef int check_application(PyObject* core, long long node, long long application) except -1:
    return (<NodeActions> core)._check_known(node, application)


cdef int draw_variate(PyObject* core, long long node, long long kind, double factor, double shift,
                      double* out) except -1:
    check_may_act(<NodeActions> core, node)
    out[0] = (<NodeActions> core)._stream(node)._variate(<int> kind, factor, shift)
    return 0


cdef int draw_integer(PyObject* core, long long node, long long low, long long high, long long* out) except -1:
    check_may_act(<NodeActions> core, node)
    out[0] = (<NodeActions> core)._stream(node)._integer(low, high)
    return 0


cdef int draw_integers(PyObject* core, long long node, long long low, long long high, long long count,
                       long long* out) except -1:
    """Draw `count` integers."""
    cdef RandomStream stream
    cdef long long k
    check_may_act(<NodeActions> core, node)
    if count < 0:
        raise ValueError("negative dimensions are not allowed")
    stream = (<NodeActions> core)._stream(node)
    if count == 0 and low >= high:
        stream._integer(low, high)      # raises the error
    for k in range(count):
        out[k] = stream._integer(low, high)
    return 0


cdef int draw_permutation(PyObject* core, long long node, long long count, long long* out) except -1:
    """Draw the numbers 0..count - 1 in random order."""
    cdef long long[::1] places
    check_may_act(<NodeActions> core, node)
    if count > 0:
        places = (<NodeActions> core)._stream(node)._random_places(count, count)
        memcpy(out, &places[0], count * sizeof(long long))
    return 0


cdef long long held_tasks(PyObject* core, long long node, long long application) except -1:
    return (<NodeActions> core)._tasks_to_place(node, application)


cdef long long take_tasks(PyObject* core, long long node, long long application, long long tasks) except -1:
    check_may_act(<NodeActions> core, node)
    (<NodeActions> core)._check_known(node, application)
    return (<NodeActions> core)._take(node, application, tasks)


cdef long long queued_applications(PyObject* core, long long node, long long* out) except -1:
    """Return the number of waiting applications of a node; write (application, tasks) of each unless `out` is NULL."""
    cdef NodeActions c = <NodeActions> core
    cdef TaskQueues queues = c.queues
    cdef Py_ssize_t k, first, machine = c.links.machine_of[node]
    if out == NULL:
        c._catch_up(machine)
    first = queues.first[machine]
    for k in range(queues.count[machine] if out != NULL else 0):
        out[2 * k], out[2 * k + 1] = queues.share[machine, first + k, 0], queues.share[machine, first + k, 1]
    return queues.count[machine]


cdef long long completed_tasks(PyObject* core, long long node, long long* out) except -1:
    """Return the number of applications with tasks that this machine has completed since the last call.

    Unless `out` is NULL, write (application, tasks) of each, make the applications known, and begin anew.
    """
    cdef NodeActions c = <NodeActions> core
    cdef Py_ssize_t k, machine = c.links.machine_of[node]
    check_may_act(c, node)
    c._check_reports(node)
    if out == NULL:
        c._catch_up(machine)
        c._read_completions()
        return len(c.unread_completions.get(machine, ()))
    done = c._completed(machine)
    for k, (application, tasks) in enumerate(done):
        holdings_give(&c.holdings, node, application, 0)
        out[2 * k], out[2 * k + 1] = application, tasks
    return len(done)


cdef int publish_number(PyObject* core, long long node, long long application, long long column, double value,
                        long long falling) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._publish(node, application, column, value, falling)


cdef int check_board(PyObject* core, long long node) except -1:
    return (<NodeActions> core)._check_board(node)


cdef double* read_board(PyObject* core, long long column) except NULL:
    """Return the memory of the board, float64[board_rows]; it may change after the handler has returned."""
    cdef NodeActions c = <NodeActions> core
    return c.board._read(column, c.now) if c.board.nodes else &NO_NUMBERS


cdef int read_number(PyObject* core, long long row, long long column, double* number) except -1:
    number[0] = (<NodeActions> core).board._number(row, column, (<NodeActions> core).now)
    return 0


cdef int find_least(PyObject* core, long long node, long long k, long long column, long long* nodes) except -1:
    """Write the min(k, board_rows) nodes with the least numbers to `nodes`."""
    cdef NodeActions c = <NodeActions> core
    if k < 0:
        raise c._board_error(node, f"k must be at least 0, got {k}")
    c.board._least(column, k, c.now, nodes)
    return 0


cdef int add_to_number(PyObject* core, long long node, long long row, long long column, double delta,
                       long long is_last) except -1:
    check_may_act(<NodeActions> core, node)
    return (<NodeActions> core)._add_to_board(node, row, column, delta, is_last)


cdef int sample_cells(PyObject* core, long long node, const Grid* grid, long long release, long long memory,
                      unsigned int* out) except -1:
    """Write the summary of the node's machine; the lowest `release` stands for now."""
    cdef NodeActions c = <NodeActions> core
    return c._sample_cells(c.links.machine_of[node], grid, c.now if release == -NEVER - 1 else release, memory, out)


cdef int change_slots(PyObject* core, long long node, long long is_reserved, long long application, long long attempt,
                      long long start, long long number) except -1:
    """Call `reserve` or `release` of the node's `View.slots`."""
    cdef NodeActions c = <NodeActions> core
    slots = None if c.slots is None else c.slots(node)
    return (slots.reserve if is_reserved else slots.release)(application, attempt, start, number)


cdef int extend_reservation(PyObject* core, long long node, long long application, long long attempt, long long start,
                            long long end, Head* released) except -1:
    """Call `extend` of the node's `View.slots`, and append its result to the queue `released`; return 0 for None."""
    cdef NodeActions c = <NodeActions> core
    cdef long long* row
    slots = None if c.slots is None else c.slots(node)
    reservations = slots.extend(application, attempt, start, end)
    try:
        for other, of_attempt in reservations or ():
            row = queue_push(released, 2)
            row[0], row[1] = other, of_attempt
    except BaseException:
        rows_clear(released)
        raise
    return reservations is not None


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
        "node": row[1], "task": row[2], "tasks": row[3], "among": row[4], "saw": floats[5], "limit": floats[6],
        "age": floats[7]})
    return 0
