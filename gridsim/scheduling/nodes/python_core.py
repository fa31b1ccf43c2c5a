"""A readable message core, which runs node programs in plain Python.

`PythonCore` is equivalent to `gridcore.nodes.message_core.NodeCore`: it has the same parameters, and runs
with both have the same result.  It is meant for reading and for a debugger; it handles some tens of thousands
of messages per second.

The order of the events of one instant:

    tasks that end (`on_done`) -> deliveries, wave by wave -> acts (reorder, start, end, idle, act) -> direct
    messages (of kinds with their own delay), then releases -> timers

Tasks are handled by application, then machine.  The deliveries of a wave are handled by kind of message,
receiver and order of sending (`gridsim.scheduling.nodes.python_mail`, which leaves the sorting to the links),
followed by local messages (`View.later`) by receiver and order of sending.  Direct messages are handled in
the order of sending; timers by node, declaration of their names and order of setting (`Timers.due`).  An
event that becomes due in the meantime is handled first if it is earlier in this list.  There are two
exceptions: releases follow immediately after direct messages, and all timers that are due together fire.

Messages leave when the ends of tasks, the deliveries of a wave or the acts of one sort have been handled, and
before a change from releases and timers to other events.  So if a release makes an act due, such as the
reordering of a queue after `enqueue`, its messages leave before that act, and messages of timers of the same
instant leave later.  They leave by kind, sender and order of sending (`PythonActions.flush`), or at once with
the option `at_once`.  Direct messages always leave at once.  Those with a delay of 0 are handled as soon as
the handler that sends them returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.release_queue import ReleaseQueue
from gridcore.common.state import LATEST, NEVER, read, read_only
from gridcore.network.links import Links
from gridcore.nodes.board import Board
from gridcore.nodes.kinds import MessageKind
from gridcore.nodes.node_events import EVENT_NAMES, deferred_reason
from gridcore.nodes.random_stream import RandomStream
from gridcore.nodes.state import STATE, payload_entries
from gridcore.queues.task_queues import TaskQueues
from gridsim.scheduling.nodes.python_actions import PythonActions, fields_of
from gridsim.scheduling.nodes.python_timers import NodeTimer, from_word, to_word
from gridsim.scheduling.nodes.python_view import PythonView
from gridsim.support.arrays import Integers
from gridsim.support.clock import NS

__all__ = ["PythonCore"]

_EVENTS: Any = EVENT_NAMES
#: The core returns to the engine after this many events, for a checkpoint or a progress bar.
STRIDE = 8192
#: Number of events of an instant after which the engine checks its limits: a constant, plus a number per
#: node.
MANY_EVENTS, MANY_EVENTS_PER_NODE = 2**16, 64
#: Maximum number of events of an instant without an endless loop: a constant, plus numbers per node and task.
MAX_EVENTS, MAX_EVENTS_PER_NODE, MAX_EVENTS_PER_TASK = 1_000_000, 100, 10


class Phase(IntEnum):
    """The phases of an instant, in order."""

    DELIVERIES = 0
    ACTS = 1
    RELEASES_AND_TIMERS = 2
    END = 3  # no event is due


class PythonCore(PythonActions):
    """The events of the nodes of a grid, with the parameters of `gridcore.nodes.message_core.NodeCore`.

    Attributes
    ----------
    programs
        The program of each node.
    events
        Number of handler calls so far.
    finished
        Whether the run is over.
    placed_at
        Time at which all tasks were in queues for the first time, ns; -1: not yet.
    """

    def __init__(
        self,
        links: Links,
        queues: TaskQueues,
        *,
        programs: list[Any],
        roles: Iterable[tuple[str, str, int, Iterable[str]]],
        kinds: Iterable[tuple[Any, ...]],
        timers: Iterable[tuple[Any, ...]],
        neighbours: Integers,
        neighbour_offsets: Integers,
        up: NDArray[np.bool_],
        release: Integers,
        submitter: Integers,
        tasks: Integers,
        application: Callable[[int], Any],
        seed: int,
        report_lost: Callable[[int, int, int], None],
        add_note: Callable[..., None],
        record_decision: Callable[..., None],
        convert: Callable[..., Any],
        error_type: type[Exception],
        compiled_form: None = None,
        observe: Callable[..., None] | None = None,
        at_once: bool = False,
        home: Integers | None = None,
        releases: Integers | None = None,
        release_queue: ReleaseQueue | None = None,
        until: str = "done",
        slots: Callable[[int], Any] | None = None,
        jobs: Callable[[int], Any] | None = None,
        environment: Callable[[int], Any] | None = None,
        board: Board | None = None,
        report_endless: Callable[..., Exception],
        only_node: int = -1,
        threads: int = 1,
    ) -> None:
        super().__init__(
            links,
            queues,
            roles=roles,
            kinds=kinds,
            timers=timers,
            neighbours=neighbours,
            neighbour_offsets=neighbour_offsets,
            nodes=len(programs),
            application=application,
            seed=seed,
            add_note=add_note,
            record_decision=record_decision,
            convert=convert,
            error_type=error_type,
            observe=observe,
            at_once=at_once,
            board=board,
            only_node=only_node,
        )
        self.programs, self.up, self.report_lost = programs, up, report_lost
        self.slots, self.jobs, self.environment = slots, jobs, environment
        self.release, self.submitter, self.tasks = release.tolist(), submitter.tolist(), tasks.tolist()
        self.home = list(range(queues.machines)) if home is None else np.asarray(home).tolist()
        self.submission_nodes = self.home if releases is None else np.asarray(releases).tolist()
        self.views: dict[int, PythonView] = {}
        self.total, self.until = sum(self.tasks), until
        # the releases instead, if some follow the ends of other applications
        self.release_queue = release_queue
        self.released = 0  # number of applications released so far
        self.events, self.finished, self.placed_at = 0, False, -1
        self.limit = NEVER  # time of the next event of the engine, up to which `advance` runs, ns
        self.phase = Phase.END  # the phase that was handled last
        self.pause_at = STRIDE  # number of events after which the engine must have an event
        self.needs_engine = False  # whether the engine must have an event at this instant, to check limits
        self.events_before = 0  # number of events before this instant
        self.report_endless = report_endless
        self.counts = dict.fromkeys(self._event_types(), 0)  # number of events by type
        self.latest = dict.fromkeys(self.counts, 0)  # per type, the node that handled the latest event
        self.stalled_at, self.stalled_counts = -1, self.counts  # counts when a long standstill began
        self.sample_at = NEVER
        self.sampler: Callable[[int], int] = _no_sampler
        self.call_recorder: Any = None
        self.is_recorded = np.zeros(self.nodes, np.bool_)
        self.handles_instant_messages = False
        self.begin(range(self.nodes))

    # -- calls of the engine ----------------------------------------------------------------------------

    def advance(self, limit: int) -> int:
        """Run all events up to `limit` ns; return the instant at which the engine is needed, or `NEVER`.

        The engine is needed when all tasks are completed or `stop` was called (`finished`), and regularly for
        checkpoints and limits.  Messages sent by the last releases or timers of the instant `limit` have not
        left yet: an event of the engine at that instant may belong to the same wave, after which `flush` must
        be called.
        """
        self.limit = limit
        if self.needs_engine:
            # return to the engine, which has an event at this instant and then checks its limits
            self.needs_engine = False
            if limit <= self.now:
                return NEVER
        while True:
            # the end of a wave: its messages leave, and may be delivered at this instant
            if self.has_unsent and not self._wave_continues():
                self.flush()
            if self.finished:
                return self.now
            instant = self.next_instant()
            if self.sample_at < min(instant, self.limit) < NEVER:
                self._run_sampler(min(instant, self.limit))
            if instant > self.limit or instant == NEVER:
                return NEVER
            if instant > self.now:
                self._set_clock(instant)
            if self.events >= self.pause_at and self._has_to_pause():
                return self.now
            if self.queues.next_change() <= self.now:
                self._collect_ends()
                if self.finished:
                    return self.now
            phase = self._due_phase()
            if phase is not self.phase and self.has_unsent:
                # the wave of releases and timers at `limit`, after which an act or a delivery is due
                self.flush()
                continue
            self.phase = phase
            if phase is Phase.DELIVERIES:
                self._handle_wave()
            elif phase is Phase.ACTS:
                self._handle_act()
            elif phase is Phase.RELEASES_AND_TIMERS:
                self._release_or_fire()

    def _set_clock(self, at: int) -> None:
        """Advance the clock to an instant with events."""
        if at > LATEST:
            raise OverflowError(f"events of nodes must be at {LATEST} ns or earlier, got {at} ns")
        self.now, self.events_before = at, self.events

    def _wave_continues(self) -> bool:
        """Return whether more events belong to the current wave, which only releases and timers can continue.

        Events of the engine at the instant `limit` may continue it as well.
        """
        phase = Phase.RELEASES_AND_TIMERS
        return self.phase is phase and (self.now >= self.limit or self._due_phase() is phase)

    def _has_to_pause(self) -> bool:
        """Return whether the engine must have an event now."""
        self._check_clock()
        if self.needs_engine or not self.has_unsent:
            self.pause_at = self.events + STRIDE
            return True
        return False

    def wake(self, time: int) -> None:
        """Return control to the engine at `time` ns, for an event that is unknown to `advance`."""
        self.limit = min(self.limit, time)

    def stop(self) -> None:
        """End the run after the current wave: `advance` returns, and `finished` is True."""
        self.finished = True

    def enter(self, now: int) -> None:
        """Begin an event of the engine at `now` ns, which calls handlers itself and finally `flush`."""
        self._reach(now)
        self.phase, self.limit = Phase.RELEASES_AND_TIMERS, now

    def view_of(self, node: int, application: int = -1) -> PythonView:
        """Return the view of `node`, and make `application` known to the node unless it is -1."""
        if application >= 0:
            self.hold(node, application)
        return self.view(node)

    @property
    def is_exhausted(self) -> bool:
        """Whether there are no more events."""
        self.limit = NEVER
        return not self.has_unsent and self.next_instant() == NEVER

    def _reach(self, now: int) -> None:
        """Advance the clock to an event of the engine at `now` ns."""
        if not self.now <= now <= LATEST:
            raise ValueError(f"now must be in {self.now}..{LATEST} ns, got {now}")
        if now > self.now:
            self.now, self.events_before = now, self.events

    # -- events of the engine, and failures -------------------------------------------------------------

    def resubmit(self, applications: Integers, tasks: Integers, now: int) -> None:
        """Resubmit lost tasks at the home nodes of their submitters; timers of this instant fire as well."""
        self.enter(now)
        for index, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            self.submit(index, count, "on_lost")
        self._continue_wave()

    def give(self, node: int, application: int, tasks: int) -> None:
        """Release `tasks` tasks at `node` now, even if it is down; its messages are then lost."""
        self.hand_over(node, application, tasks, "on_release")

    def receive(self, sender: int, kind: str, fields: dict[str, Any], now: int) -> None:
        """Deliver a message to `only_node` at `now` ns, from a node that does not exist.

        If the message has an application, the sender counts as knowing it and as having the moved tasks.

        Raises
        ------
        ValueError
            If `only_node` is not set, or is `sender`.
        """
        if self.only_node < 0 or sender == self.only_node or not 0 <= sender < self.nodes:
            raise ValueError(
                f"sender must be in 0..{self.nodes - 1} and not {self.only_node}, the node, got {sender}"
            )
        self._reach(now)
        self.phase, self.limit = Phase.DELIVERIES, now
        declared = self.by_name.get(kind)
        if declared is not None and declared.application_at >= 0:
            tasks = fields.get("tasks", 0) if declared.moves_tasks else 0
            self.hold(sender, fields.get("application", 0), tasks)
        self.view(sender).send(self.only_node, kind, **fields)
        self.flush()
        message, number = self.received.pop().message, self.by_name[kind].number
        if self.links.is_deferred(number):
            self.read_only_reason = deferred_reason(kind)
        try:
            self._count(kind, self.only_node)
            self._deliver(self.by_name[kind], self.only_node, message)
        finally:
            self.read_only_reason = ""
        self.flush()

    def tick(self, nodes: ArrayLike, name: str, now: int) -> None:
        """Fire the timer `name` on each of `nodes`, at an event of the engine at `now` ns."""
        self.enter(now)
        ticking = np.asarray(nodes).tolist()
        if ticking:
            self._count("on_timer", ticking[0], len(ticking))
        for node in ticking:
            number = self.timers_for(node).get(name, -1)
            if number >= 0 and self.timer_kinds[number].handler != "on_timer":
                self.call(node, self.timer_kinds[number].handler)
            else:
                self._call_on_timer(node, name, 0.0)
        self._continue_wave()

    def _continue_wave(self) -> None:
        while self._due_phase() is Phase.RELEASES_AND_TIMERS:
            self._release_or_fire()

    def drain(self, now: int) -> None:
        """Handle the messages of deferred kinds that have arrived by `now` ns, an instant of the engine."""
        self._reach(now)
        self._drain()

    def act(self, nodes: ArrayLike, now: int) -> None:
        """Call `on_act` of `nodes` at `now` ns, an instant of the engine, as `View.act` does."""
        self._reach(now)
        for node in np.asarray(nodes).tolist():
            self.turns.set(now, node)

    def add_applications(self, submitter: ArrayLike) -> None:
        """Append applications with the given submitters, which only `resubmit` releases to nodes."""
        self.submitter += np.asarray(submitter).tolist()

    def with_completions(self, now: int) -> list[int]:
        """Return the machines, ascending, with tasks completed by `now` ns that no node has read yet."""
        self._reach(now)
        self.queues.catch_up(now)
        self.read_completions()
        return sorted(self.unread_completions)

    def restart(self, nodes: ArrayLike, programs: Sequence[Any], now: int) -> list[tuple[int, int]]:
        """Make `nodes` fail at `now` ns, and replace them by the new `programs`.

        Returns
        -------
        list
            Pairs (application, tasks) of the tasks that the nodes had not placed.
        """
        self._reach(now)
        pending_tasks = []
        for node, program in zip(np.asarray(nodes).tolist(), programs, strict=True):
            self.programs[node] = program
            if self.is_recorded[node]:
                self.call_recorder.failed(node)
            self.forget_requests(node)
            self.timers.cancel_all(node)
            self.local.drop(node)
            if self.board is not None and not self.board.is_per_application:
                self.board.fail(node, now)
            pending_tasks += [(i, tasks) for i, tasks in self.holdings[node].items() if tasks]
            self.holdings[node].clear()
        return pending_tasks

    def begin(self, nodes: Iterable[int]) -> None:
        """Call `on_start` of `nodes` at the current instant."""
        self.acting["start"].update(int(node) for node in nodes if self.handles(node, "on_start"))

    # -- due events -------------------------------------------------------------------------------------

    def next_instant(self) -> int:
        """Return the instant (ns) of the next event; `NEVER` if there is none."""
        first = self.next_own_instant()
        # the network must not run beyond the next event, whose messages may arrive before those in transit
        return min(first, self.mail.advance(min(first, self.limit)))

    def next_own_instant(self) -> int:
        """Return the instant (ns) of the next event other than the arrival of a message, or `NEVER`."""
        if any(self.acting.values()):
            return self.now
        return min(
            self.timers.first(),
            self.turns.first(),
            self.local.first(),
            self.queues.next_change(),
            self.next_release(),
        )

    def next_release(self) -> int:
        """Return the instant (ns) of the next release; `NEVER` if there is none."""
        if self.release_queue is not None:
            return self.release_queue.next_release()
        return self.release[self.released] if self.released < len(self.release) else NEVER

    def _due_phase(self) -> Phase:
        """Return the first phase of this instant with a due event."""
        if min(self.mail.next_delivery(), self.local.first()) <= self.now:
            return Phase.DELIVERIES
        if any(self.acting.values()) or self.turns.first() <= self.now:
            return Phase.ACTS
        if min(self.next_release(), self.timers.first()) <= self.now:
            return Phase.RELEASES_AND_TIMERS
        if self.mail.next_direct(self.now, instant_only=False) is not None:
            return Phase.RELEASES_AND_TIMERS
        return Phase.END

    def _collect_ends(self) -> None:
        """Collect the machines that have become idle or ended a task."""
        for machine in self.queues.due(self.now).tolist():
            if "on_end" in self.handlers and self.queues.watch == "completion":
                self.acting["end"].add(machine)
            if "on_idle" in self.handlers:
                self.acting["idle"].add(machine)
        self.finished = self.until == "done" and self.queues.tasks_done == self.total
        if "on_done" in self.handlers:
            ended = sorted(self.logged_completions(), key=lambda row: (row[1], row[0]))
            for machine, index, tasks in ended:
                node = self.home[machine]
                self._count("on_done", node, tasks)
                for _ in range(tasks if self.handles(node, "on_done") else 0):
                    self.call(node, "on_done", self.application(index))
            self.flush()

    # -- deliveries -------------------------------------------------------------------------------------

    def _handle_wave(self) -> None:
        """Handle all messages that have arrived, and send the messages from their handlers."""
        for kind in self.mail.through_links:
            arrived = self.mail.take(kind, self.now)
            if arrived:
                self._count(kind.name, arrived[0][0], len(arrived))
            for node, message in arrived:
                self._deliver(kind, node, message)
        for _, _, node, kind, message in self.local.take(self.now):
            self._count(kind.name, node)
            self._handle_message(kind, node, message)
        self._handle_dropped()
        self.flush()

    def _drain(self) -> None:
        """Handle the messages of deferred kinds that have arrived, by machine and time."""
        try:
            for kind, node, message in self.mail.drain(self.now):
                self._count(kind.name, node)
                self.read_only_reason = deferred_reason(kind.name)
                self._deliver(kind, node, message)
        finally:
            self.read_only_reason = ""

    def _deliver(self, kind: MessageKind, node: int, message: Any) -> None:
        """Deliver a message to `node`, which then knows its application and must place its tasks.

        A late answer is dropped, but its tasks are not.
        """
        if kind.is_answer and message.request and not self.end_request(node, message.request):
            if not kind.moves_tasks:
                return
            message = kind.message(message.sender, {**fields_of(message), "request": 0}.values())
        if kind.application_at >= 0:
            self.hold(node, message.application, message.tasks if kind.moves_tasks else 0)
        self._handle_message(kind, node, message)

    def _handle_message(self, kind: MessageKind, node: int, message: Any) -> None:
        handler = kind.handlers[self.role_number(node)]
        if handler is None:
            methods = f"on_{kind.name} or on_message".replace("-", "_")
            raise self._missing_handler(node, f"a message {kind.name!r} arrived", methods)
        self.call(node, handler, message)

    def _handle_dropped(self) -> None:
        """Report the tasks of dropped messages as lost."""
        for kind, node, message in self.mail.dropped():
            self._report_dropped(kind, node, message)

    def _report_dropped(self, kind: MessageKind, node: int, message: Any) -> None:
        if kind.moves_tasks:
            self.report_lost(message.application, message.tasks, node)

    def _take_direct(self, kind: MessageKind) -> None:
        """Handle the first direct message of `kind`."""
        arrived = self.mail.take_direct(kind)
        if not arrived:
            self.events += 1
        for node, message in arrived:
            self._count(kind.name, node)
            self._deliver(kind, node, message)
        self._handle_dropped()

    def _handle_instant_messages(self) -> None:
        """Handle direct messages with a delay of 0, including new ones, in the order of sending."""
        if self.handles_instant_messages:
            return
        limit = self.events + STRIDE
        self.handles_instant_messages = True
        try:
            while (kind := self.mail.next_direct(self.now, instant_only=True)) is not None:
                if self.events > limit:
                    limit += STRIDE
                    self._check_clock()
                self._take_direct(kind)
        finally:
            self.handles_instant_messages = False

    # -- acts -------------------------------------------------------------------------------------------

    def _handle_act(self) -> None:
        """Handle the first act that is due: reorder queues, `on_start`, `on_end`, `on_idle` or `on_act`."""
        act = next((act for act, members in self.acting.items() if members), None)
        if act is None:
            self._take_turns()
            return
        members = sorted(self.acting[act])
        self.acting[act].clear()
        if act == "reorder":
            self.events += len(members)
            self.queues.reschedule(members, self.now)
            if self.placed_at < 0 and self.queues.enqueued >= self.total:
                self.placed_at = self.now
                self.finished = self.until == "placed"
            return
        self._count(f"on_{act}", members[0] if act == "start" else self.home[members[0]], len(members))
        for member in members:
            node = member if act == "start" else self.home[member]
            is_due = self.up[node] and not (act == "idle" and self.queues.is_busy([member])[0])
            if is_due and self.handles(node, f"on_{act}"):
                self.call(node, f"on_{act}")

    def _take_turns(self) -> None:
        """Call `on_act` of the nodes that requested it for this instant."""
        due = self.turns.due(self.now)
        self._count("on_act", due[0].node, len(due))
        for timer in due:
            self.turns.fire(timer)
        for node in dict.fromkeys(timer.node for timer in due):
            if self.up[node]:
                self.call(node, "on_act")

    # -- releases and timers ----------------------------------------------------------------------------

    def _release_or_fire(self) -> None:
        """Handle direct messages and releases, or if there are none, timers."""
        is_direct = False
        while (kind := self.mail.next_direct(self.now, instant_only=False)) is not None:
            self._take_direct(kind)
            is_direct = True
        if self.next_release() <= self.now:
            self.take_releases()
            self._drain()
        elif not is_direct:
            for timer in self.timers.due(self.now):
                self._count(timer.name, timer.node)
                if self.timers.fire(timer):
                    self._fire(timer)

    def take_releases(self) -> None:
        """Release the applications that are due."""
        first, due = self.released, list[int]()
        if self.release_queue is not None:
            due = self.release_queue.take(self.now)
            self.released += len(due)
            if self.queues.n_applications:  # rigid jobs do not wait in task queues
                self.queues.release_applications(due)
        else:
            while self.next_release() <= self.now:
                self.released += 1
            due = list(range(first, self.released))
        node = self.submission_nodes[self.submitter[due[0]]]
        self._count("on_release", node, len(due))
        for index in due:
            self.submit(index, self.tasks[index], "on_release")

    def _fire(self, timer: NodeTimer) -> None:
        """Call the handler of a timer."""
        kind = self.timer_kinds[timer.name]
        if timer.name == self.request_timer:
            del self.pending_requests[int(timer.fields[0])]
            self.call(timer.node, "on_timeout", self._request_of(timer))
        elif kind.handler == "on_timer":
            self._call_on_timer(timer.node, kind.name, timer.fields[0])
        else:
            self.call(timer.node, kind.handler, *timer.fields)

    def _call_on_timer(self, node: int, name: str, value: float) -> None:
        if self.handles(node, "on_timer"):
            self.call(node, "on_timer", name, *([value] if self.handles(node, "value") else []))

    def submit(self, index: int, tasks: int, handler: str) -> None:
        """Give tasks to the node for releases at their submitter; if it is down, at the next machine."""
        machines, submitter = len(self.submission_nodes), self.submitter[index]
        for k in range(machines):
            node = self.submission_nodes[(submitter + k) % machines]
            if self.up[node]:
                self.hand_over(node, index, tasks, handler)
                return
        self.report_lost(index, tasks, -1)

    def hand_over(self, node: int, index: int, tasks: int, handler: str) -> None:
        """Hand tasks over to `node`, which must place them."""
        self.hold(node, index, tasks)
        if not self.handles(node, handler):
            raise self._missing_handler(node, "tasks were submitted", "on_release")
        self.call(node, handler, self.application(index), tasks)

    # -- handlers ---------------------------------------------------------------------------------------

    def _missing_handler(self, node: int, event: str, methods: str) -> Exception:
        """Return the error of a node without a handler of an event."""
        role = self.role_of(node)
        a_role = f", a {role.name}" if role.name else ""
        return self.error_type(
            f"t = {self.now / NS} s: {event} at node {node}{a_role}, but {role.program} does not define "
            f"{methods}"
        )

    def view(self, node: int) -> PythonView:
        """Return the view of `node`."""
        if node not in self.views:
            self.views[node] = PythonView(self, node)
        return self.views[node]

    def call(self, node: int, handler: str, *arguments: Any) -> None:
        """Call a handler, and handle the messages that it sends with a delay of 0."""
        method = getattr(self.programs[node], handler)
        if self.is_recorded[node]:
            self.call_recorder.begin(node, handler, arguments)
            self.recorder = self.call_recorder
            method(self.view(node), *arguments)
            self.recorder = None
            self.call_recorder.end()
        else:
            method(self.view(node), *arguments)
        self._handle_instant_messages()

    # -- counts of events -------------------------------------------------------------------------------

    def _event_types(self) -> list[str | int]:
        """Return the types of events: names of kinds of messages, of handlers, and numbers of timers."""
        linked = [kind.name for kind in self.mail.kinds]
        local = [kind.name for kind in self.local.kinds]
        return [*linked, *_EVENTS, *local, *range(len(self.timer_kinds))]

    def _count(self, event_type: str | int, node: int, events: int = 1) -> None:
        """Count events of one type, the first of which is at `node`."""
        self.events += events
        self.counts[event_type] += events
        self.latest[event_type] = node

    def _described(self, sort: str | int) -> tuple[str, str, str]:
        """Return (``"message"``, ``"timer"`` or ``"event"``; name; handler) of a sort of events."""
        if isinstance(sort, int):
            return "timer", self.timer_kinds[sort].name, self.timer_kinds[sort].handler
        if sort in _EVENTS:
            return "event", sort, sort
        return "message", sort, self.by_name[sort].handlers[self.role_number(self.latest[sort])] or ""

    def activity(self) -> list[tuple[str, str, str, int, int]]:
        """Return counts of the events that nodes have handled in this core, the most frequent first.

        Each entry is (``"message"``, ``"timer"`` or ``"event"``; name; handler; number of events; a node).
        """
        frequent = sorted(filter(self.counts.get, self.counts), key=lambda sort: -self.counts[sort])
        return [(*self._described(sort), self.counts[sort], self.latest[sort]) for sort in frequent]

    def _check_clock(self) -> None:
        """Raise an error if the clock has stood still for too many events."""
        events = self.events - self.events_before
        if events <= MANY_EVENTS + MANY_EVENTS_PER_NODE * self.nodes:
            return
        self.needs_engine = True
        if self.stalled_at != self.now:
            self.stalled_at, self.stalled_counts = self.now, dict(self.counts)
        if events > MAX_EVENTS + MAX_EVENTS_PER_NODE * self.nodes + MAX_EVENTS_PER_TASK * self.total:
            counts = {sort: count - self.stalled_counts[sort] for sort, count in self.counts.items()}
            sort = max(counts, key=counts.__getitem__)
            raise self.report_endless(events, counts[sort], *self._described(sort), self.latest[sort])

    # -- observers --------------------------------------------------------------------------------------

    def sample(self, first: int, sampler: Callable[[int], int]) -> None:
        """Call `sampler` at `first` ns, after all earlier events, and then at the instants that it returns.

        The sampler gets the instant, reads programs and views, and returns the instant (ns) of the next call.
        It adds no event, so the run is the same without it; nodes cannot act during a call.
        """
        self.sample_at, self.sampler = first, sampler

    def sample_rest(self) -> None:
        """Call the sampler at its instants up to the current one, at the end of the run."""
        self._run_sampler(self.now + 1)

    def _run_sampler(self, end: int) -> None:
        """Call the sampler at each of its instants before `end` ns."""
        now = self.now
        self.read_only_reason, self.is_observed = "a column of Observe, which may only read", True
        while self.sample_at < end:
            self.now = self.sample_at
            self.sample_at = self.sampler(self.now)
        self.now, self.read_only_reason, self.is_observed = now, "", False

    def record_calls(self, recorder: Any, is_recorded: NDArray[np.bool_]) -> None:
        """Report the handler calls of some nodes to a `gridsim.scheduling.nodes.diary.Recorder`."""
        self.call_recorder, self.is_recorded = recorder, is_recorded

    # -- checkpoints ------------------------------------------------------------------------------------

    def held(self) -> Integers:
        """Return rows (node, application, tasks) of the known applications and the tasks to place."""
        rows = [(u, i, tasks) for u, of_node in enumerate(self.holdings) for i, tasks in of_node.items()]
        return np.array(sorted(rows), np.int64).reshape(-1, 3)

    def getstate(self) -> dict[str, Any]:
        """Return the state, as `NodeCore.getstate` does, without the programs.

        Raises
        ------
        RuntimeError
            If messages of a wave have not been sent yet.
        """
        if self.has_unsent:
            raise RuntimeError("getstate requires that all messages were sent: call flush first")
        timers, turns = self.timers.pending(), self.turns.pending()
        local, arrays = self.local.entries(self.mail.payloads)
        completed = [
            (u, i, n) for u, of in sorted(self.unread_completions.items()) for i, n in sorted(of.items())
        ]
        random = [(node, self.streams[node].drawn) for node in sorted(self.streams)]
        return read_only(
            {
                "now": self.now,
                "events": self.events,
                "pause_at": self.pause_at,
                "phase": int(self.phase),
                "released": self.released,
                "number": self.timers.number,
                "directs": self.mail.n_direct,
                "placed": self.placed_at + 1,
                "turns": _table([(t.time, t.number, t.node) for t in turns], 3),
                "turn_number": self.turns.number,
                "completed": _table(completed, 3),
                "timers": _table([(t.time, t.number, t.node, t.name) for t in timers], 4),
                "values": np.array([self._value(t) for t in timers], np.float64),
                "fields": np.array([word for t in timers for word in self._words(t)], np.int64),
                "requests": np.array(self.request_counts, np.int64),
                "held": self.held(),
                **{act: np.array(sorted(members), np.int64) for act, members in self.acting.items()},
                "random": _table(random, 2),
                **local,
                **payload_entries(arrays),
                **({} if self.board is None else self.board.getstate()),
            }
        )

    def setstate(self, state: Any) -> None:
        """Restore a state of a core with the same arguments; raise ValueError if it is invalid."""
        entries = read(
            state,
            STATE,
            nodes=self.nodes,
            machines=self.queues.machines,
            applications=len(self.submitter),
            requesters=len(self.request_counts),
            names=len(self.timer_kinds),
            phases=len(Phase),
            up_to_releases=len(self.release) + 1,
        )
        self.now, self.events, self.pause_at = entries["now"], entries["events"], entries["pause_at"]
        self.events_before, self.needs_engine, self.finished = self.events, False, False
        self.phase, self.released = Phase(entries["phase"]), entries["released"]
        self.mail.n_direct, self.placed_at = entries["directs"], entries["placed"] - 1
        timers = self._restored_timers(entries)
        self.timers.restore(timers, entries["number"])
        self.request_counts = entries["requests"].tolist()
        self.pending_requests = {
            int(timer.fields[0]): timer for timer in self.timers.pending() if timer.name == self.request_timer
        }
        turns = [NodeTimer(time, number, node, 0, ()) for time, number, node in entries["turns"].tolist()]
        self.turns.restore(turns, entries["turn_number"])
        self.unread_completions.clear()
        for machine, application, tasks in entries["completed"].tolist():
            self.unread_completions.setdefault(machine, {})[application] = tasks
        self.holdings = [{} for _ in range(self.nodes)]
        for node, application, tasks in entries["held"].tolist():
            self.hold(node, application, tasks)
        self.views.clear()
        self.streams = {u: RandomStream(self.seed, u, drawn) for u, drawn in entries["random"].tolist()}
        for act, members in self.acting.items():
            members.clear()
            members.update(entries[act].tolist())
        for letters in self.outbox.values():
            letters.clear()
        self.mail.payloads.setstate(state)
        self.local.read(state, self.mail.payloads)
        if self.board is not None:
            self.board.setstate(state)

    def _value(self, timer: NodeTimer) -> float:
        """Return the value of a timer that `on_timer` handles, for a state; 0.0 for others."""
        return timer.fields[0] if self.timer_kinds[timer.name].handler == "on_timer" else 0.0

    def _words(self, timer: NodeTimer) -> list[int]:
        """Return the fields of a timer that has its own handler, for a state."""
        kinds = self.timer_kinds[timer.name].fields.values()
        if timer.name != self.request_timer:
            return [to_word(kind, value) for kind, value in zip(kinds, timer.fields, strict=False)]
        types = [int, int, int, *self.mail.kinds[int(timer.fields[2])].types[:-1]]
        words = [to_word(kind, value) for kind, value in zip(types, timer.fields, strict=True)]
        return words + [0] * (len(kinds) - len(words))

    def _restored_timers(self, entries: Mapping[str, Any]) -> list[NodeTimer]:
        """Return the timers of a state; raise ValueError if it is invalid."""
        kinds = [self.timer_kinds[name] for name in entries["timers"][:, 3]]
        if (count := sum(len(kind.fields) for kind in kinds)) != len(entries["fields"]):
            raise ValueError(f"state['fields'] must have {count} numbers, got {len(entries['fields'])}")
        words, timers = iter(entries["fields"].tolist()), []
        for kind, numbers, value in zip(
            kinds, entries["timers"].tolist(), entries["values"].tolist(), strict=True
        ):
            time, number, node, name = numbers
            fields: tuple[float, ...] = (value,)
            if kind.handler != "on_timer":
                fields = tuple(from_word(field, next(words)) for field in kind.fields.values())
            if name == self.request_timer:
                fields = self._restored_request(fields)
            timers.append(NodeTimer(time, number, node, name, fields))
        return timers

    def _restored_request(self, words: tuple[float, ...]) -> tuple[float, ...]:
        """Return the fields of the timer of a request; raise ValueError if they are invalid."""
        number, to, kind_number = map(int, words[:3])
        kinds = self.mail.kinds
        is_request = 0 <= kind_number < len(kinds) and kinds[kind_number].answers
        if not 0 <= to < self.nodes or not is_request:
            raise ValueError(
                f"the requests in state['fields'] must have receivers in 0..{self.nodes - 1} and kinds with "
                f"an answer, got receiver {to} and kind {kind_number}"
            )
        types = kinds[kind_number].types[:-1]
        values = [from_word(kind, int(word)) for kind, word in zip(types, words[3:], strict=False)]
        return number, to, kind_number, *values


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> Integers:
    return np.array(rows, np.int64).reshape(-1, columns)


def _no_sampler(now: int) -> int:
    """Return `NEVER`: there is no sampler."""
    return NEVER
