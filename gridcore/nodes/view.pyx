"""The view of a node, through which its handlers see the grid and act."""

from libc.math cimport INFINITY

cimport cython

from gridcore.nodes.calls cimport new_object
from gridcore.nodes.holdings cimport holdings_give
from gridcore.common.instants cimport LATEST, NEVER, later_by
from gridcore.nodes.kinds cimport MessageKind
from gridcore.nodes.node_actions cimport NodeActions
from gridcore.nodes.outbox cimport Outbox, outbox_add, outbox_drop
from gridcore.nodes.roles cimport ON_ACT, ON_TIMER, role_of
from gridcore.nodes.timers cimport timers_cancel, timers_set

from gridcore.common.names import listed

__all__ = ["View"]


@cython.final
@cython.auto_pickle(False)
cdef class View:
    """The interface of a node program: its machine, queue, clock, neighbours, messages and timers.

    Its attributes are read-only.
    """

    cdef NodeActions core
    cdef readonly int node              #: The number of this node.
    cdef readonly object slots          #: The slot schedule of this machine, where the scheduler has rigid jobs.
    cdef object _neighbours

    @property
    def machine(self) -> int:
        """The number of the machine on which this node runs: equal to `node` unless there is a layout."""
        return self.core.links.machine_of[self.node]

    @property
    def machines(self) -> int:
        """The number of machines; they are numbered 0..machines - 1."""
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
            self._neighbours = tuple(self.core.neighbours[self.node].tolist())
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
        """The number of tasks that wait here; a running task does not count."""
        cdef Py_ssize_t machine = self._machine()
        self.core._catch_up(machine)
        return self.core.queues.waiting[machine]

    @property
    def tasks(self) -> int:
        """The number of tasks that wait or run here."""
        return self.core._tasks_at(self._machine())

    @property
    def work(self) -> float:
        """The time (s) that this machine needs for its running and waiting tasks."""
        return self.core._work(self._machine())

    @property
    def board(self) -> Floats:
        """The published numbers of all nodes, with the delay of the board: float64[nodes], read-only.

        A node has 0 until its first number is shown, or inf if it was down at first.  The next read of the board
        changes the array: copy it to keep it.
        """
        self.core._check_board(self.node)
        self.core.board._read(self.core.now)
        return self.core.board.read_only_values

    def publish(self, value: float, falling: bool = False, application: int = -1):
        """Publish a number on the board, in place of the last number of this node; it is shown with a delay.

        Parameters
        ----------
        falling
            Whether the number falls by 1 each second, down to 0, as seconds of work do.
        application
            The application of the number, if the board has applications (`BoardScheduler.board_of`).

        Raises
        ------
        SchedulerError
            If `value` is not a number, or the scheduler has no board.
        """
        self._check_may_act()
        if type(value) is not float:
            value = self.core.convert(float, value, self.node, "the board")
        self.core._publish(self.node, application, value, falling)

    @property
    def minimum_stretch(self) -> float:
        """The smallest stretch (s/Mflop) at which the tasks here meet their deadlines; inf if there are none."""
        return self.core._minimum_stretch(self._machine())

    def sample(self, grid: SummaryGrid, release: int | None = None) -> NDArray[np.uint32]:
        """Return how many more tasks this machine could take: uint32[nS, nW, nA] on `grid`.

        Parameters
        ----------
        release
            ns, the release of the application of these tasks; by default now.
        """
        return self.core._sample(self._machine(), grid, self.core.now if release is None else release)

    def completed(self) -> list[tuple[int, int]]:
        """Return the tasks that this machine has completed since the last call: a list of (application, tasks).

        This requires `NodeScheduler.reports`.
        """
        self._check_may_act()
        done = self.core._completed(self._machine())
        for application, _ in done:
            holdings_give(&self.core.holdings, self.node, application, 0)
        return done

    @property
    def queued(self) -> tuple[tuple[int, int], ...]:
        """The waiting tasks: (application, tasks) pairs in the order of the queue, without the running task.

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
        """Raise an error in handlers of deferred messages, whose time of call depends on unrelated events."""
        if self.core.deferred_kind is not None:
            raise self.core.error_type(f"t = {self.now} s: node {self.node} acts in a handler of "
                                       f"{self.core.deferred_kind.name!r}, but handlers of deferred messages may only "
                                       "read and note; leave out deferred=True")
        return 0

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
        cdef NodeActions core = self.core
        cdef MessageKind k = core.by_name.get(kind)
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
                row[k.n] = core._bytes_of(self.node, k, fields)
            if k.application_at >= 0:
                core._account_for_message(self.node, k, row)
        except BaseException:
            core._drop_message(k, n_stored)
            raise
        if k.delay < 0 and not core.at_once:
            core.dirty = True
            return
        outbox_drop(box)                # `row` stays valid until another record is added
        core._send_now(k, row - 2)

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
        cdef int i
        if k is None or k.number >= 0 or len(fields) != k.n:
            raise core._send_error(self.node, self.node, kind, fields)
        if type(seconds) is not float:
            seconds = core.convert(float, seconds, self.node, f"the time until {kind!r}")
        if not 0 <= seconds < INFINITY:
            raise core.error_type(f"t = {self.now} s: node {self.node} sends {kind!r} to itself: "
                                  f"seconds must be finite and >= 0, got {seconds!r}")
        message = new_object(k.type)
        message.sender = self.node
        for i in range(k.n):
            name = <object> k.fields[i]
            value = (<dict> fields).get(name, core)
            if value is core:
                raise core._send_error(self.node, self.node, kind, fields)
            setattr(message, name, core._array_field(self.node, k, i, value) if k.type_codes[i] == 2
                    else core.convert(k.types[i], value, self.node, name))
        if k.application_at >= 0:
            self._known_application(message.application)
        core.local._add(later_by(core.now, seconds), self.node, k, message)

    def timer(self, seconds: float, name: str, value: float = 0.0):
        """Call `NodeProgram.on_timer` with `name` after `seconds`, unless the machine fails before that.

        A call has no effect if a timer of the same name, instant and value is set already.

        Parameters
        ----------
        value
            The third argument of `on_timer`, if it takes three.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        if type(seconds) is not float:
            seconds = core.convert(float, seconds, self.node, f"the timer {name!r}")
        if type(value) is not float:
            value = core.convert(float, value, self.node, f"the value of the timer {name!r}")
        if name not in core.timer_names:
            raise core._timer_error(self.node, name, seconds)
        core._set_timer(self.node, core.timer_names.index(name), seconds, value)

    def at(self, instant: int, name: str, value: float = 0.0):
        """Set a timer as `timer` does, for an exact instant in ns (`now_ns`)."""
        self._check_may_act()
        cdef NodeActions core = self.core
        if type(instant) is not int:
            instant = core.convert(int, instant, self.node, f"the instant of the timer {name!r}")
        if type(value) is not float:
            value = core.convert(float, value, self.node, f"the value of the timer {name!r}")
        if not (core._handles(self.node, ON_TIMER) and name in core.timer_names and core.now <= instant <= LATEST):
            raise core._timer_error(self.node, name, (instant - core.now) / 1e9)
        timers_set(&core.timers, instant, self.node, core.timer_names.index(name), value)

    def act(self, double seconds=0.0):
        """Call `NodeProgram.on_act` once after `seconds`, after the deliveries and before the releases of that instant.

        If the node fails before that, its new program is called.
        """
        self._check_may_act()
        cdef NodeActions core = self.core
        if not core._handles(self.node, ON_ACT):
            raise core.error_type(f"t = {self.now} s: node {self.node} calls act, which requires the method on_act")
        if not 0 <= seconds < INFINITY:
            raise core.error_type(f"t = {self.now} s: node {self.node} calls act: seconds must be finite and >= 0, "
                                  f"got {seconds!r}")
        timers_set(&core.turns, later_by(core.now, seconds), self.node, 0, 0.0)

    def cancel(self, name: str):
        """Cancel all timers `name` of this node that have not fired."""
        self._check_may_act()
        cdef NodeActions core = self.core
        if name not in core.timer_names:
            raise core.error_type(f"t = {self.now} s: node {self.node} cancels the timer {name!r}, which the scheduler "
                                  f"does not declare; {listed(core.timer_names, name)}")
        timers_cancel(&core.timers, self.node, core.timer_names.index(name))

    def note(self, table: str, **values: float):
        """Add a row to a table of the result.  Nodes cannot read the row, and failures do not remove it.

        Raises
        ------
        SchedulerError
            If the scheduler does not declare the table or its columns, or a value has the wrong type.
        """
        self.core.add_note(self.node, table, values)

    def decide(self, action: str, application: int, *, machine: int = -1, task: int = -1, tasks: int = 0,
               among: int = -1, saw: float = float("nan"), limit: float = float("nan"), age: float = float("nan")):
        """Record a decision for `Result.why`, if decisions are recorded.

        Parameters
        ----------
        action
            One of the scheduler's `decision_words`, which explain the numbers.
        application, task, tasks
            The subject: an application, one of its tasks, or a number of tasks.
        machine
            The machine of the decision.
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
        self.core.record_decision(self.node, action, self._known_application(application), {
            "machine": machine, "task": task, "tasks": tasks, "among": among, "saw": saw, "limit": limit, "age": age})


cdef object new_view(NodeActions core, int node, slots):
    """Return the view through which `node` calls `core`."""
    cdef View view = View.__new__(View)
    view.core, view.node, view.slots = core, node, slots
    return view
