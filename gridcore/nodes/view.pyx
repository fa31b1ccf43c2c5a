"""The view of a node, through which its handlers see the grid and act."""

from libc.math cimport INFINITY

cimport cython

from gridcore.nodes.board cimport Board
from gridcore.nodes.calls cimport new_object
from gridcore.nodes.holdings cimport holdings_give
from gridcore.common.instants cimport LATEST, NEVER, later_by
from gridcore.nodes.kinds cimport MessageKind, TimerKind
from gridcore.nodes.node_actions cimport NodeActions, check_may_act
from gridcore.nodes.outbox cimport Outbox, outbox_add, outbox_drop
from gridcore.nodes.roles cimport ON_ACT, ON_TIMER, role_of
from gridcore.nodes.timers cimport timers_cancel, timers_cancel_fields, timers_set, timers_set_fields

from gridcore.common.names import listed

__all__ = ["BoardView", "View"]


@cython.final
@cython.auto_pickle(False)
cdef class BoardView:
    """The board as a node sees it: the published numbers of all nodes (or applications), with a delay.

    ``board.values``, or ``board.work`` for numbers with the name ``work`` (`BoardScheduler.numbers`), is the array of
    the numbers, float64[nodes], read-only.  A node has 0 until its first number is shown, or inf if it was down at
    first.  The next use of the board changes the array: copy it to keep it.  ``board[node]``, or
    ``board[node, "work"]``, is one number.
    """

    cdef View view
    cdef NodeActions core
    cdef int node

    def __cinit__(self, view: View):
        if not isinstance(view, View):
            raise TypeError(f"view must be a View, got {type(view).__name__}")
        self.view = view
        self.core, self.node = self.view.core, self.view.node

    def __getattr__(self, name: str) -> Floats:
        cdef Board board = self.core.board
        if name not in board.numbers:
            known = listed([*board.numbers, "add", "least"], name)
            raise AttributeError(f"t = {self.core.now / 1e9} s: node {self.node}: the board has no {name!r}; {known}")
        return board.read(self.core.now, board.numbers.index(name))

    def __getitem__(self, index: int | tuple[int, str]) -> float:
        """Return the number of a node, or of a node and a name; unlike arrays, this does not read all nodes."""
        name = None
        if type(index) is tuple and len(index) == 2:
            index, name = index
        if type(index) is not int:
            index = self.core.convert(int, index, self.node, "the index of the board")
        return self.core.board.number(index, self.core.now, self._column(name))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise self.core._board_error(self.node, "it is not a function; write view.board[node]")

    def __iter__(self):
        raise self.core._board_error(self.node, "it is not a sequence; iterate over view.board.values")

    def __array__(self, *_: Any, **__: Any) -> Floats:
        raise self.core._board_error(self.node, "it is not an array; write view.board.values")

    def least(self, k: int, name: str | None = None) -> tuple[int, ...]:
        """Return the k nodes with the least numbers in ascending order, ties by the lower node.

        This takes O(k log nodes) steps.

        Parameters
        ----------
        k
            The number of nodes; if there are fewer, all are returned.
        name
            The name of the number, if the board has several.

        Raises
        ------
        SchedulerError
            If `k` is negative or there is no such number.
        """
        cdef Py_ssize_t column = self._column(name)
        if type(k) is not int:
            k = self.core.convert(int, k, self.node, "k")
        if k < 0:
            raise self.core._board_error(self.node, f"k must be at least 0, got {k}")
        return self.core.board.least(k, self.core.now, column)

    def add(self, node: int, delta: float | None = None, name: str | None = None, **deltas: float):
        """Add to shown numbers of a node (or an application), as all nodes see them.

        They stay changed until the next refresh of the board; with ``refresh="continuous"``, until the node's next
        number is shown.

        Parameters
        ----------
        delta, name
            What is added, and the name of the number if the board has several.
        **deltas
            What is added, by names of numbers.

        Raises
        ------
        SchedulerError
            If there is no such node or number, or a delta is not finite.
        """
        self.view._check_may_act()
        cdef NodeActions core = self.core
        if type(node) is not int:
            node = core.convert(int, node, self.node, "the node of an addition")
        if name is not None and not deltas:
            delta, deltas = None, {name: delta}
        try:
            changes = core.board.changes(delta, deltas)
        except ValueError as error:
            raise core._board_error(self.node, error) from None
        changes = [(column, core.convert(float, number, self.node, core.board.numbers[column]))
                   for column, number in changes]
        for k, (column, number) in enumerate(changes):
            core._add_to_board(self.node, node, column, number, k == len(changes) - 1)

    cdef Py_ssize_t _column(self, name) except -1:
        try:
            return self.core.board._column(name)
        except ValueError as error:
            raise self.core._board_error(self.node, error) from None


@cython.final
@cython.auto_pickle(False)
cdef class View:
    """The interface of a node program: its machine, queue, clock, neighbours, messages and timers.

    Its attributes are read-only.
    """

    cdef NodeActions core
    cdef readonly int node              #: The number of this node.
    cdef readonly object slots          #: The slot schedule of this machine, if the scheduler uses one.
    cdef readonly object jobs           #: The knowledge and the actions of this node on rigid jobs.
    cdef readonly object environment    #: The part of the environment of the model for this node.
    cdef object _neighbours
    cdef dict timer_of                  # name -> kind, of the timers that this node may set
    cdef BoardView _board

    def __cinit__(self, core: NodeActions, node: int):
        if not isinstance(core, NodeActions):
            raise TypeError(f"core must be a NodeActions, got {type(core).__name__}")
        self.core = core
        if not 0 <= node < self.core.nodes:
            raise ValueError(f"node must be in 0..{self.core.nodes - 1}, got {node}")
        self.node, self.timer_of = node, {}

    def __repr__(self):
        cdef NodeActions core = self.core
        parts = [f"machine {self.machine}", f"{self.waiting} waiting and {self.running} running tasks"]
        tasks = [f"{count} of application {index}" for index, count in core.held_by(self.node).items() if count]
        if tasks:
            parts.append(f"tasks to place: {', '.join(tasks)}")
        timers = [f"{name} at {instant / 1e9} s" for _, instant, name, _ in core.timers_of(self.node)]
        if timers:
            parts.append(f"timers: {', '.join(timers)}")
        return f"<View of node {self.node}, t = {self.now} s: {'; '.join(parts)}>"

    @property
    def machine(self) -> int:
        """The number of the machine on which this node runs: equal to `node` unless there is a layout."""
        return self.core.links.machine_of[self.node]

    @property
    def machines(self) -> int:
        """The number of machines, including servers, which have the last numbers."""
        return self.core.queues.machines

    def role(self, name: str) -> range:
        """Return the numbers of the nodes with the role `name`, a range.

        Raises
        ------
        SchedulerError
            If the scheduler does not declare the role.
        """
        nodes = self.core.role_nodes.get(name)
        if nodes is None:
            raise self.core.error_type(f"t = {self.now} s: node {self.node} uses the role {name!r}, which the scheduler "
                                       f"does not declare; {listed(self.core.role_nodes, name)}")
        return nodes

    @property
    def rank(self) -> int:
        """The index of this node among the nodes of its role, from 0 on; equal to `node` without roles."""
        return self.node - role_of(self.core.roles, self.node).first

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The numbers of the neighbours of this node."""
        if self._neighbours is None:
            first, end = self.core.neighbour_offsets[self.node], self.core.neighbour_offsets[self.node + 1]
            self._neighbours = tuple(self.core.neighbours[first:end].tolist())
        return self._neighbours

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self.core.now / 1e9

    @property
    def now_ns(self) -> int:
        """The simulated time, ns, as a whole number; it is exact, while `now` is rounded after 52 days."""
        return self.core.now

    @property
    def speed(self) -> float:
        """The speed of this machine, Mflop/s."""
        return self.core.queues.speed[self._machine()]

    @property
    def random(self) -> RandomStream:
        """The node's own random stream."""
        self._check_may_act()
        return self.core._stream(self.node)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait here; running tasks do not count."""
        cdef Py_ssize_t machine = self._machine()
        self.core._catch_up(machine)
        return self.core.queues.waiting[machine]

    @property
    def tasks(self) -> int:
        """The number of tasks that wait or run here."""
        return self.core._tasks_at(self._machine())

    @property
    def running(self) -> int:
        """The number of tasks that run here."""
        return self.core._running_at(self._machine())

    @property
    def cores(self) -> int:
        """The number of cores of this machine, each of which runs one task at a time."""
        return self.core.queues._cores(self._machine())

    @property
    def work(self) -> float:
        """The time (s) that this machine needs for its running and waiting tasks."""
        return self.core._work(self._machine())

    @property
    def board(self) -> BoardView:
        """The published numbers of all nodes, with the delay of the board."""
        if self._board is None:
            self.core._check_board(self.node)
            self._board = BoardView.__new__(BoardView, self)
        return self._board

    def publish(self, value: float | None = None, falling: bool | tuple[str, ...] = False, application: int = -1,
                **numbers: float):
        """Publish numbers on the board, which replace the previous numbers of this node after a delay.

        Parameters
        ----------
        value
            The number, if the board has one number for each node.
        falling
            Whether the numbers fall by 1 each second, down to 0, as seconds of work do; or the names of those that
            do.
        application
            The application of the numbers, if the board has applications (`BoardScheduler.board_of`).
        **numbers
            The numbers by name, some or all, if the board has several (`BoardScheduler.numbers`).

        Raises
        ------
        SchedulerError
            If a number is not a number or has an unknown name, or the scheduler has no board.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        if type(value) is float and not numbers and type(falling) is bool and (
                core.board is None or core.board.n_columns == 1):
            core._publish(self.node, application, 0, value, falling)
            return
        core._check_board(self.node)
        try:
            publications = core.board.publications(value, numbers, falling)
        except ValueError as error:
            raise core._board_error(self.node, error) from None
        publications = [(column, core.convert(float, number, self.node, core.board.numbers[column]), falls)
                        for column, number, falls in publications]
        for column, number, falls in publications:
            core._publish(self.node, application, column, number, falls)

    @property
    def minimum_stretch(self) -> float:
        """The smallest stretch (s/Mflop) at which the tasks here meet their deadlines; inf if there are none."""
        return self.core._minimum_stretch(self._machine())

    def sample(self, grid: SummaryGrid, release: int | None = None, memory: int = 0) -> NDArray[np.uint32]:
        """Return how many more tasks this machine could take: uint32[nS, nW, nA] on `grid`.

        Parameters
        ----------
        release
            ns, the release of the application of these tasks; by default now.
        memory
            Bytes that each of these tasks takes while it runs, if this machine has several cores.
        """
        return self.core._sample(self._machine(), grid, self.core.now if release is None else release, memory)

    def completed(self) -> list[tuple[int, int]]:
        """Return the tasks that this machine has completed since the last call: a list of (application, tasks).

        This requires `NodeScheduler.reports`.
        """
        self._check_may_act()
        self.core._check_reports(self.node)
        done = self.core._completed(self._machine())
        for application, _ in done:
            holdings_give(&self.core.holdings, self.node, application, 0)
        return done

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        """The waiting tasks: (application, tasks) pairs in the order of the queue, without running tasks.

        Tasks that were enqueued after the queue was last ordered are at its end.
        """
        return self.core._queued(self._machine())

    def held(self, application: int) -> int:
        """Return the number of tasks of `application` that were released or moved here and must still be placed."""
        cdef object number = application
        if type(number) is not int:
            number = self.core.convert(int, number, self.node, "application")
        return self.core._tasks_to_place(self.node, number)

    def application(self, index: int) -> Any:
        """Return an application that this node knows.

        A node knows the applications released here, and those in the field ``application`` of its messages.

        Raises
        ------
        SchedulerError
            If the node does not know the application.
        """
        return self.core._application(self._known_application(index))

    cdef Py_ssize_t _machine(self) noexcept:
        return self.core.links.machine_of[self.node]

    cdef long long _known_application(self, index) except -1:
        """Return `index` as an integer; raise an error if this node does not know the application."""
        if type(index) is not int:
            index = self.core.convert(int, index, self.node, "application")
        self.core._check_known(self.node, index)
        return index

    cdef int _check_may_act(self) except -1:
        return check_may_act(self.core, self.node)

    cdef int _check_may_note(self) except -1:
        return self._check_may_act() if self.core.is_observed else 0

    def enqueue(self, application: int, tasks: int):
        """Enqueue `tasks` tasks of `application` on this machine.

        Raises
        ------
        SchedulerError
            If the node has fewer tasks to place.
        """
        self._check_may_act()
        cdef long long index = self._known_application(application)
        if type(tasks) is not int:
            tasks = self.core.convert(int, tasks, self.node, "tasks")
        self.core._enqueue(self.node, index, tasks)

    def take(self, application: int, tasks: int) -> int:
        """Withdraw up to `tasks` waiting tasks of `application` from the queue of this machine; return their number.

        A running task stays.  The node must place the tasks, like tasks that are released here.  If no task runs or
        waits here afterwards, `NodeProgram.on_idle` is called at this instant, after the handlers of the current
        wave, unless tasks have been enqueued by then.
        """
        self._check_may_act()
        cdef long long index = self._known_application(application)
        if type(tasks) is not int or not 0 <= tasks <= NEVER:
            tasks = self.core.convert(int, tasks, self.node, "tasks")
        return self.core._take(self.node, index, tasks)

    def send(self, to: int, kind: str, **fields: ArrayLike):
        """Send a message to node `to`.

        The message leaves when all events of the current wave have been handled, unless its kind has its own
        delay or the scheduler has `at_once`.

        Raises
        ------
        SchedulerError
            If the kind or receiver is unknown, the fields or their types are not as declared, the node does not know
            the application, or it has fewer tasks to place.
        """
        self._check_may_act()
        cdef MessageKind k = self.core.by_name.get(kind)
        if k is not None and k.request_at >= 0:
            if k.answers and "request" in fields and self.core.only_node in (-1, self.node):
                raise self.core.error_type(f"t = {self.now} s: node {self.node} sends {kind!r} with a number of a "
                                           "request; view.request numbers it")
            fields.setdefault("request", 0)
        self._leave(k, self._add_message(k, to, kind, fields))

    def request(self, to: int, kind: str, timeout: float, **fields: float) -> int:
        """Send a message of a kind that has an ``answer`` to node `to`, wait for an answer, and return its number.

        If an answer arrives within `timeout` s, its handler is called, and ``message.request`` has the number, which is
        at least 1 and unique in the run.  If not, ``on_timeout(view, request)`` is called, and later answers are
        dropped; those that move tasks arrive with a ``request`` of 0.  A node that fails forgets its requests.

        Raises
        ------
        SchedulerError
            As for `send`, or if the kind has no answer, `timeout` is negative or infinite, or the class of the node
            has no ``on_timeout``.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        cdef MessageKind k = core.by_name.get(kind)
        cdef long long* row
        cdef long long number
        if k is None or "request" in fields:
            raise core._send_error(self.node, to, kind, fields)
        if type(timeout) is not float:
            timeout = core.convert(float, timeout, self.node, f"the timeout of {kind!r}")
        core._check_request(self.node, k, timeout)
        fields["request"] = 0
        row = self._add_message(k, to, kind, fields)
        number = core._start_request(self.node, k, row, timeout)
        self._leave(k, row)
        return number

    def reply(self, message: Any, kind: str, **fields: ArrayLike):
        """Send an answer to the sender of `message`, a request that the node has received.

        To answer later, keep ``message.sender`` and ``message.request``, and send the answer with the field
        ``request``: ``view.send(sender, kind, request=number, ...)``.

        Raises
        ------
        SchedulerError
            As for `send`, or if `kind` is not an answer to messages of this kind.
        """
        cdef MessageKind k = self.core.by_name.get(message.kind)
        if k is None or kind not in k.answers:
            raise self.core.error_type(f"t = {self.now} s: node {self.node} replies to {message.kind!r} with {kind!r}, "
                                       f"which is not its answer; {listed(k.answers if k is not None else (), kind)}")
        self.send(message.sender, kind, request=message.request, **fields)

    cdef long long* _add_message(self, MessageKind k, to, kind, dict fields) except NULL:
        """Add a message to the outbox, and return its fields."""
        cdef NodeActions core = self.core
        cdef long long target = -1
        cdef long long* row
        cdef Outbox* box
        cdef int i, n_stored = 0
        if type(to) is not int:
            to = core.convert(int, to, self.node, "the receiver")
        if k is None or k.number < 0 or len(fields) != k.n or not 0 <= to < core.nodes:
            raise core._send_error(self.node, to, kind, fields)
        target = to
        box = &core.out[k.number]
        row = outbox_add(box, target, self.node)
        try:
            for i in range(k.n):
                name = <object> k.fields[i]
                value = (<dict> fields).get(name, core)
                if value is core:
                    raise core._send_error(self.node, to, kind, fields)
                if k.type_codes[i] == 2:
                    value = core._array_field(self.node, k, i, value)
                    row[i] = core.payloads._store(value)
                    n_stored = i + 1
                elif k.type_codes[i]:
                    if type(value) is not float:
                        value = core.convert(float, value, self.node, name)
                    (<double*> row)[i] = value
                else:
                    if type(value) is not int or not -NEVER - 1 <= value <= NEVER:
                        value = core.convert(int, value, self.node, name)
                    row[i] = value
                if k.size is not None:  # the size depends on the fields as the receiver gets them
                    (<dict> fields)[name] = value
            if k.size is not None:
                if k.request_at >= 0:
                    del fields["request"]
                try:
                    size = k.size(**fields)
                except Exception as error:
                    raise core._failed_size(self.node, k, error) from error
                row[k.n] = core.convert(int, size, self.node, f"the size of {kind!r} in bytes")
                core._check_size(self.node, k, row[k.n])
            if k.application_at >= 0:
                core._account_for_message(self.node, k, row)
        except BaseException:
            core._drop_message(k, n_stored)
            raise
        return row

    cdef int _leave(self, MessageKind k, const long long* row) except -1:
        """Send the message that was added last to the outbox, now or at the end of the wave."""
        if k.delay < 0 and not self.core.at_once:
            self.core.dirty = True
            return 0
        outbox_drop(&self.core.out[k.number])  # `row` stays valid until another record is added
        return self.core._send_now(k, row - 2)

    def later(self, seconds: float, kind: str, **fields: ArrayLike):
        """Send a message of a local kind to this node; it arrives after `seconds` unless the machine fails before that.

        Local messages model work of the scheduler that takes time, such as a search.  They are handled after the
        other messages of the instant, and are not counted.

        Raises
        ------
        SchedulerError
            If the kind is not local, or fields are invalid as for `send`.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        cdef MessageKind k = core.by_name.get(kind)
        cdef long long* row
        cdef int i
        if k is None or k.number >= 0 or len(fields) != k.n:
            raise core._send_error(self.node, self.node, kind, fields)
        if type(seconds) is not float:
            seconds = core.convert(float, seconds, self.node, f"the time until {kind!r}")
        values = []
        for i in range(k.n):
            name = <object> k.fields[i]
            value = (<dict> fields).get(name, core)
            if value is core:
                raise core._send_error(self.node, self.node, kind, fields)
            values.append(core._array_field(self.node, k, i, value) if k.type_codes[i] == 2
                          else core.convert(k.types[i], value, self.node, name))
        row = core._send_later(self.node, k, seconds, values[k.application_at] if k.application_at >= 0 else -1)
        for i in range(k.n):
            if k.type_codes[i] == 2:
                row[i] = core.payloads._store(values[i])
            elif k.type_codes[i]:
                (<double*> row)[i] = values[i]
            else:
                row[i] = values[i]

    def timer(self, seconds: float, name: str, value: float | None = None, **fields: float):
        """Call the handler of the timer `name` after `seconds`, unless the machine fails before that.

        The handler is ``on_<name>(view, ...)``, which gets the fields by position.  A timer that the scheduler
        declares in ``timers`` is handled by `NodeProgram.on_timer`.  A call has no effect if a timer of the same name,
        instant and fields (or value) is set already.

        Parameters
        ----------
        value
            The third argument of `on_timer`, if it takes three; by default 0.0.
        fields
            The arguments of ``on_<name>``, by their names; those with a default may be left out.

        Raises
        ------
        SchedulerError
            If the timer is unknown, `seconds` is negative or infinite, or fields are missing, unknown or of another type.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        cdef TimerKind kind = <TimerKind> self.timer_of.get(name)
        if type(seconds) is not float:
            seconds = core.convert(float, seconds, self.node, f"the timer {name!r}")
        if kind is None:
            raise core._timer_error(self.node, name, seconds)
        if kind.is_plain:
            core._set_timer(self.node, kind.number, seconds, self._timer_value(kind, value, fields))
        else:
            self._fill_fields(kind, value, fields)
            core._set_timer_fields(self.node, kind.number, seconds, core.timer_fields)

    def at(self, instant: int, name: str, value: float | None = None, **fields: float):
        """Set a timer as `timer` does, for an exact instant in ns (`now_ns`)."""
        self._check_may_act()
        cdef NodeActions core = self.core
        cdef TimerKind kind = <TimerKind> self.timer_of.get(name)
        if type(instant) is not int:
            instant = core.convert(int, instant, self.node, f"the instant of the timer {name!r}")
        if kind is None or not core.now <= instant <= LATEST:
            raise core._timer_error(self.node, name, (instant - core.now) / 1e9)
        if kind.is_plain:
            core._set_timer_at(self.node, kind.number, instant, self._timer_value(kind, value, fields))
        else:
            self._fill_fields(kind, value, fields)
            core._set_timer_fields_at(self.node, kind.number, instant, core.timer_fields)

    cdef double _timer_value(self, TimerKind kind, value, dict fields) except? -1.0:
        """Return the value of a timer that `on_timer` handles."""
        if fields:
            raise self.core._timer_field_error(self.node, kind, "sets", fields)
        if value is None:
            return 0.0
        if type(value) is not float:
            value = self.core.convert(float, value, self.node, f"the value of the timer {kind.name!r}")
        return value

    cdef int _fill_fields(self, TimerKind kind, value, dict fields) except -1:
        """Convert all fields of a timer to words of `timer_fields` of the core."""
        if value is not None:
            fields["value"] = value     # `value` is a parameter of `timer`, and so is not in `fields`
        for name, default in kind.defaults.items():
            fields.setdefault(name, default)
        if len(fields) != kind.n or self._fill_some_fields(kind, fields) != (1LL << kind.n) - 1:
            raise self.core._timer_field_error(self.node, kind, "sets", fields)
        return 0

    cdef long long _fill_some_fields(self, TimerKind kind, dict fields) except -1:
        """Convert fields of a timer to words of `timer_fields` of the core; return the bit set of the converted fields."""
        cdef NodeActions core = self.core
        cdef long long among = 0
        cdef int i
        for i in range(kind.n):
            name = <object> kind.fields[i]
            value = fields.get(name, core)
            if value is core:
                continue
            if kind.type_codes[i]:
                if type(value) is not float:
                    value = core.convert(float, value, self.node, f"{name} of the timer {kind.name!r}")
                (<double*> core.timer_fields)[i] = value
            else:
                if type(value) is not int or not -NEVER - 1 <= value <= NEVER:
                    value = core.convert(int, value, self.node, f"{name} of the timer {kind.name!r}")
                core.timer_fields[i] = value
            among |= 1LL << i
        return among

    def act(self, double seconds=0.0):
        """Call `NodeProgram.on_act` once after `seconds`, after the deliveries and before the releases of that instant.

        If the node fails before that, its new program is called.
        """
        self._check_may_act()
        self.core._act_after(self.node, seconds)

    def cancel(self, name: str, **fields: float):
        """Cancel the timers `name` of this node that have not fired, or only those with the given `fields`."""
        self._check_may_act()
        cdef NodeActions core = self.core
        cdef TimerKind kind = <TimerKind> self.timer_of.get(name)
        cdef long long among
        if kind is None:
            raise core.error_type(f"t = {self.now} s: node {self.node} cancels the timer {name!r}, which has no handler "
                                  f"and is not in the scheduler's timers; {listed(self.timer_of, name)}")
        if not fields:
            timers_cancel(&core.timers, self.node, kind.number)
            return
        if not fields.keys() <= {*kind.fields}:
            raise core._timer_field_error(self.node, kind, "cancels", fields)
        among = self._fill_some_fields(kind, fields)
        timers_cancel_fields(&core.timers, self.node, kind.number, core.timer_fields, kind.type_codes, kind.n, among)

    def note(self, table: str, **values: float):
        """Add a row to a table of the result.  Nodes cannot read the row, and failures do not remove it.

        Raises
        ------
        SchedulerError
            If the scheduler does not declare the table or its columns, or a value has the wrong type.
        """
        self._check_may_note()
        self.core.add_note(self.node, table, values)

    def decide(self, action: str, application: int, *, node: int = -1, task: int = -1, tasks: int = 0,
               among: int = -1, saw: float = float("nan"), limit: float = float("nan"), age: float = float("nan")):
        """Record a decision for `Result.why`, if decisions are recorded.

        Parameters
        ----------
        action
            One of the scheduler's `decision_words`, which explain the numbers.
        application, task, tasks
            The subject: an application, one of its tasks, or a number of tasks.
        node
            The node that was chosen or asked; the record has its machine.
        among
            The number of alternatives.
        saw
            The value on which the decision is based.
        limit
            The threshold of the comparison.
        age
            The age of the value, s.

        Raises
        ------
        SchedulerError
            If the action is not one of `decision_words`, or the node does not know the application.
        """
        self._check_may_note()
        self.core.record_decision(self.node, action, self._known_application(application), {
            "node": node, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit, "age": age})


cdef object new_view(NodeActions core, int node):
    """Return the view through which `node` calls `core`."""
    cdef View view = View.__new__(View, core, node)
    view.timer_of = core._timer_of(node)
    view.slots, view.jobs, view.environment = [None if make is None else make(node)
                                               for make in (core.slots, core.jobs, core.environment)]
    return view
