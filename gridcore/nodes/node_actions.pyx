"""What nodes have, and what they can do: the part of the message core on which views and compiled handlers work.

It has the kinds of messages, what nodes have sent that has not left, their timers, what they know and must place, and
their random streams; and it asks the queues of their machines.  What is due it does not say: see
`gridcore.nodes.node_events`.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport free
from libc.string cimport memcpy

cimport cython

from gridcore.common.arguments cimport check_instant
from gridcore.common.memory cimport grown
from gridcore.network.transit cimport LONGEST_MESSAGE
from gridcore.nodes.holdings cimport Holding, holdings_find, holdings_free, holdings_give
from gridcore.common.instants cimport later_by
from gridcore.nodes.outbox cimport outbox_clear, outbox_free, outbox_sort
from gridcore.nodes.timers cimport timers_free, timers_set
from gridcore.nodes.touched cimport touched_add, touched_free
from gridcore.queues.availability cimport Grid
from gridcore.queues.edf cimport Queue
from gridcore.queues.journal cimport journal_copy
from gridcore.queues.task_queues cimport Scratch, scratch_free, scratch_make

import numpy as np

from gridcore.common.names import listed
from gridcore.common.state import LATEST
from gridcore.queues import journal_tables
from gridcore.queues.summary_grid import SummaryGrid

__all__ = ["NodeActions"]


@cython.auto_pickle(False)
cdef class NodeActions:
    """What the nodes of a grid have, and what they can do; the attributes are set by `NodeCore`."""

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.n_kinds if self.out != NULL else 0):
            outbox_free(&self.out[k])
        free(self.out)
        timers_free(&self.timers)
        timers_free(&self.turns)
        holdings_free(&self.holdings)
        touched_free(&self.reorder)
        touched_free(&self.idle)

    # -- what they know -------------------------------------------------------------------------------------

    cdef object _application(self, long long index):
        found = self.applications.get(index)
        if found is None:
            found = self.applications[index] = self.make_application(index)
        return found

    cdef RandomStream _stream(self, Py_ssize_t node):
        """The random stream of a node."""
        cdef RandomStream stream = <RandomStream> self.streams[node]
        if stream is None:
            stream = self.streams[node] = RandomStream(self.seed, node)
        return stream

    cdef int _check_board(self, Py_ssize_t node) except -1:
        if self.board is None:
            raise self.error(f"node {node} uses the board, which only schedulers have that derive from BoardScheduler")
        return 0

    cdef int _publish(self, Py_ssize_t node, long long application, double value, bint falling) except -1:
        """Put a number on the board: of the node, or of an application if that is not -1."""
        self._check_board(node)
        if self.board.of_applications != (application >= 0) or application >= self.queues.n_applications:
            raise self.error(f"node {node} publishes for application {application}; the board is of "
                             f"{'applications' if self.board.of_applications else 'nodes'}")
        if value != value:
            raise self.error(f"t = {self.now / 1e9} s: node {node} publishes {value!r}, which is not a number")
        return self.board._publish(node if application < 0 else application, value, falling, self.now)

    cdef int _check_heard(self, Py_ssize_t node, long long application) except -1:
        """Raise the error of nodes if this node does not know the application."""
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error(f"t = {self.now / 1e9} s: node {node} has not heard of application {application}")
        return 0

    cdef long long _held(self, Py_ssize_t node, long long application) noexcept:
        """How many tasks of the application the node has to place."""
        cdef Holding* held = holdings_find(&self.holdings, node, application)
        return 0 if held == NULL else held.tasks

    cdef int _place(self, Py_ssize_t node, long long application, long long tasks) except -1:
        """Take tasks that the node places; raises the error of nodes if it holds fewer."""
        cdef Holding* held = holdings_find(&self.holdings, node, application)
        if held == NULL or not 0 <= tasks <= held.tasks:
            raise self.error(f"t = {self.now / 1e9} s: node {node} places {tasks} tasks of application {application}, "
                             f"and has {0 if held == NULL else held.tasks} of it to place")
        held.tasks -= tasks
        return 0

    # -- their machines -------------------------------------------------------------------------------------

    cdef int _catch_up(self, Py_ssize_t machine) except -1:
        self.queues._advance(machine, self.now)
        self.queues._update(machine)
        return 0

    cdef long long _tasks_at(self, Py_ssize_t machine) except -1:
        cdef TaskQueues queues = self.queues
        self._catch_up(machine)
        # what has been enqueued at this instant waits until it is over, also where nothing runs
        return queues.waiting[machine] + (queues.running[machine] >= 0 and queues.free_at[machine] > self.now)

    cdef double _work(self, Py_ssize_t machine) except -1.0:
        cdef TaskQueues queues = self.queues
        cdef Py_ssize_t k, first
        cdef double left = 0.0, size = 0.0
        self._catch_up(machine)
        first = queues.first[machine]
        for k in range(first, first + queues.count[machine]):
            size += queues.task_size[queues.share[machine, k, 0]] * queues.share[machine, k, 1]
        if queues.running[machine] >= 0 and queues._planned_end(machine) > self.now:
            left = (queues._planned_end(machine) - self.now) / 1e9
        return left + size / queues.speed[machine]

    cdef double _minimum_stretch(self, Py_ssize_t machine) except -1.0:
        cdef TaskQueues queues = self.queues
        cdef Queue q
        cdef Scratch s
        cdef double found
        self._catch_up(machine)
        if queues.running[machine] < 0 and queues.count[machine] == 0:
            return INFINITY
        if not scratch_make(&s, queues.capacity):
            raise MemoryError
        queues._gather(machine, self.now, False, &q, &s)
        found = queues._minimum(&q, &s)
        scratch_free(&s)
        return found

    cdef object _sample(self, Py_ssize_t machine, grid, long long release):
        cdef Grid g
        cdef Scratch s
        if type(grid) is not SummaryGrid:
            raise TypeError(f"grid must be a SummaryGrid, got {type(grid).__name__}")
        if not self.now <= release <= LATEST:
            raise ValueError(f"release must be in {self.now}..{LATEST} ns, got {release}")
        cdef const double[::1] stretch = grid.stretch, size = grid.size, task_size = grid.task_size
        result = np.empty(grid.cells, np.uint32)
        cdef unsigned int[::1] out = result
        g.n_stretch, g.n_size, g.n_task_size = stretch.shape[0], size.shape[0], task_size.shape[0]
        g.stretch, g.size, g.task_size = &stretch[0], &size[0], &task_size[0]
        self._catch_up(machine)
        if not scratch_make(&s, self.queues.capacity):
            raise MemoryError
        self.queues._sample(machine, self.now, release, &g, &out[0], &s)
        scratch_free(&s)
        return result.reshape(grid.shape)

    cdef tuple _queued(self, Py_ssize_t machine):
        cdef int[:, :, ::1] share
        cdef Py_ssize_t k, first
        self._catch_up(machine)
        share, first = self.queues.share, self.queues.first[machine]
        return tuple([(share[machine, k, 0], share[machine, k, 1])
                      for k in range(first, first + self.queues.count[machine])])

    cdef list _completed(self, Py_ssize_t machine):
        self._catch_up(machine)
        self._read_completions()
        return sorted(self.unreported.pop(machine, {}).items())

    cdef int _read_completions(self) except -1:
        """Sort what the queues have completed by machine."""
        if self.queues.ended.n == 0:
            return 0
        rows = np.empty((self.queues.ended.n, 6), np.int64)
        journal_copy(&self.queues.ended, rows)
        self.queues.ended.n = 0
        for machine, application, tasks, _ in zip(*(each.tolist() for each in journal_tables.completions(rows))):
            done = self.unreported.setdefault(machine, {})
            done[application] = done.get(application, 0) + tasks
        return 0

    cdef int _enqueue(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef Py_ssize_t machine = self.links.machine_of[node]
        self._place(node, application, tasks)
        if not 1 <= tasks < 2**31:
            raise self.error(f"t = {self.now / 1e9} s: node {node} enqueues {tasks} tasks of application "
                             f"{application}; it must be in 1..{2**31 - 1}")
        try:
            self.queues._enqueue(machine, <int> application, tasks, self.now)
        except BaseException:
            self.queues._update(machine)
            raise
        touched_add(&self.reorder, <int> machine)
        return 0

    cdef long long _take(self, Py_ssize_t node, long long application, long long tasks) except -1:
        cdef TaskQueues queues = self.queues
        cdef Py_ssize_t machine = self.links.machine_of[node]
        if tasks < 0:
            raise self.error(f"t = {self.now / 1e9} s: node {node} takes {tasks} tasks of application {application}; "
                             "it must be 0 or more")
        tasks = queues._withdraw(machine, <int> application, tasks, self.now)
        if tasks == 0:
            return 0
        holdings_give(&self.holdings, node, application, tasks)
        touched_add(&self.reorder, <int> machine)
        if self.idles and queues.count[machine] == 0 and queues.running[machine] < 0:
            touched_add(&self.idle, <int> machine)
        return tasks

    cdef int _set_timer(self, Py_ssize_t node, Py_ssize_t name, double seconds, double value) except -1:
        if not (self.fires and 0 <= seconds < INFINITY):
            raise self._wrong_timer(node, self.timer_names[name], seconds)
        return timers_set(&self.timers, later_by(self.now, seconds), <int> node, <int> name, value)

    cdef object _wrong_timer(self, node, name, seconds):
        what = f"t = {self.now / 1e9} s: node {node} sets the timer {name!r}"
        if name not in self.timer_names:
            return self.error(f"{what}, which the scheduler does not declare; {listed(self.timer_names, name)}")
        if not self.fires:
            return self.error(f"{what}, and its class does not define on_timer, which would be called then")
        return self.error(f"{what} in {seconds!r} s; it must be in 0 s or more")

    # -- messages -------------------------------------------------------------------------------------------

    cdef int _make_kinds(self, kinds) except -1:
        """Take in all kinds of messages, of each the arguments of `Kind`."""
        cdef Py_ssize_t k
        self.n_kinds = self.links.kinds
        self.by_name, self.kinds = {}, [None] * self.n_kinds
        self.out = <Outbox*> grown(NULL, max(1, self.n_kinds) * sizeof(Outbox))
        for k in range(self.n_kinds):
            self.out[k].data, self.out[k].place = NULL, NULL
            self.out[k].words = self.out[k].n = self.out[k].room = self.out[k].place_room = 0
            self.out[k].unsorted = False
        for given in kinds:
            self._add_kind(Kind(*given))
        if None in self.kinds:
            raise ValueError(f"kinds must have all {self.n_kinds} kinds of the links")
        return 0

    cdef int _add_kind(self, Kind kind) except -1:
        cdef int number = kind.number
        if number == -1:
            self.by_name[kind.name] = kind
            self.local.kinds.append(kind)
            return 0
        if not 0 <= number < self.n_kinds or self.kinds[number] is not None:
            raise ValueError(f"kinds: {kind.name!r} must be a kind of the links of its own, got {number}")
        if self.links.width[number] != 8 * (2 + kind.n):
            raise ValueError(f"kinds: a record of {kind.name!r} must have {8 * (2 + kind.n)} bytes")
        if kind.arrays and not self.links.keep[number]:
            raise ValueError(f"kinds: the links must keep dropped messages of {kind.name!r}, which has arrays")
        kind.length = self.links._length(kind.nbytes)
        if kind.delay >= 0:
            self.links.inner[number] = True
        self.out[number].words = 2 + kind.n + (kind.size is not None)  # bytes that differ come last
        self.kinds[number] = self.by_name[kind.name] = kind
        return 0

    cdef int _check_sent(self, Py_ssize_t node, Kind k, const long long* row) except -1:
        """Check that the node knows the application it sends, and take the tasks that the message moves from it."""
        cdef long long application = row[k.application_at]
        if holdings_find(&self.holdings, node, application) == NULL:
            raise self.error(f"t = {self.now / 1e9} s: node {node} sends {k.name!r} with application "
                             f"{application}, of which it has not heard")
        return self._place(node, application, row[k.tasks_at]) if k.moves else 0

    cdef long long _bytes_of(self, Py_ssize_t node, Kind kind, dict fields) except -1:
        """Return the bytes of a message whose size depends on its fields."""
        nbytes = self.checked(int, kind.size(**fields), node, f"the bytes of {kind.name!r}")
        if not 0 <= nbytes < 2**31:
            raise self.error(f"t = {self.now / 1e9} s: node {node} gives {nbytes} for the bytes of {kind.name!r}; "
                             f"it must be in 0..{2**31 - 1}")
        self.links._length(nbytes)
        return nbytes

    cdef object _wrong_send(self, node, to, kind, dict fields):
        cdef Kind known = self.by_name.get(kind)
        what = f"t = {self.now / 1e9} s: node {node} sends {kind!r}"
        if known is None:
            return self.error(f"{what}, which is no kind of message; {listed(self.by_name, kind)}")
        for name in sorted(fields.keys() - {*known.fields}):
            return self.error(f"{what}, which has no field {name!r}; {listed(known.fields, name)}")
        if len(fields) < len(known.fields):
            missing = [name for name in known.fields if name not in fields]
            return self.error(f"{what} without {', '.join(missing)}; its fields are {', '.join(known.fields)}")
        if not 0 <= to < self.nodes:
            return self.error(f"{what} to node {to}; it must be in 0..{self.nodes - 1}")
        return self.error(f"{what}, which is {'' if known.number < 0 else 'not '}a local kind: send local kinds by "
                          "view.later, others by view.send")

    cdef int _leave(self, Kind kind, const long long* row) except -1:
        """Send one message, whose record is at `row`."""
        cdef Links links = self.links
        cdef long long nbytes = kind.nbytes if kind.size is None else row[2 + kind.n]
        check_instant(self.now, "now", max(kind.delay, 2 * links.latency + LONGEST_MESSAGE))
        if self.observe is not None:
            records = np.empty((1, 8 * (2 + kind.n)), np.uint8)
            self._copy(row, records)
            self.observe(self.now, kind.number, records)
        if kind.delay < 0:
            return links._send(self.now, kind.number, row, nbytes,
                               kind.length if kind.size is None else links._length(nbytes))
        links._send_past(self.now, kind.number, row, nbytes, kind.delay, self.directs, kind.counted)
        self.directs += 1
        if kind.delay == 0:
            self.unheard += 1
        return 0

    cdef int _copy(self, const long long* row, unsigned char[:, ::1] records) except -1:
        memcpy(&records[0, 0], row, records.shape[1])
        return 0

    cdef int _flush(self) except -1:
        cdef Py_ssize_t number, k
        cdef Outbox* box
        cdef Kind kind
        cdef const long long* row
        cdef long long nbytes
        self.dirty = False
        for number in range(self.n_kinds):
            box = &self.out[number]
            if box.n == 0:
                continue
            check_instant(self.now, "now", 2 * self.links.latency + LONGEST_MESSAGE)
            kind = <Kind> self.kinds[number]
            if box.unsorted:
                outbox_sort(box)
            if self.observe is not None:
                self._tell(box, <int> number)
            for k in range(box.n):
                row = box.data + (box.place[k].at if box.unsorted else k) * box.words
                if kind.size is None:
                    self.links._send(self.now, <int> number, row, kind.nbytes, kind.length)
                else:
                    nbytes = row[2 + kind.n]
                    self.links._send(self.now, <int> number, row, nbytes, self.links._length(nbytes))
            outbox_clear(box)
        return 0

    cdef int _tell(self, Outbox* box, int number) except -1:
        cdef Py_ssize_t k, nbytes = self.links.width[number]
        records = np.empty((box.n, nbytes), np.uint8)
        cdef unsigned char[:, ::1] to = records
        for k in range(box.n):
            memcpy(&to[k, 0], box.data + (box.place[k].at if box.unsorted else k) * box.words, nbytes)
        self.observe(self.now, number, records)
        return 0
