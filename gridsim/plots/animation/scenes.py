"""What an animation shows of a recorded run: pieces of work, queues, outages and messages over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.fault_events import TooManyChanges
from gridsim.plots.trees import has_tree
from gridsim.results.metrics.series import (
    cores_used,
    down_times,
    machine_cores,
    occupancy,
    recorded_schedule,
)
from gridsim.scheduling.overlays import tree_level, tree_machines, tree_spans
from gridsim.support.arrays import Floats, Integers

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.results.table import Table

#: An animation of more machines or pieces of work shows the utilization of groups of machines.
MACHINES, PIECES = 2000, 50_000
#: Largest numbers of groups of machines, and of intervals of time, of such an animation.
GROUPS, INTERVALS = 1024, 400
#: Up to this number of machines, they are columns, and a tree is drawn; more are cells of a grid.
COLUMNS = 128
#: Up to this number of applications, each has a bar.
BARS = 12
#: Largest number of messages that are drawn.
MESSAGES = 20_000
#: Shades of the utilization of groups of machines, those of the colour map cividis.
SHADES = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55",
    "#fee838",
)  # fmt: skip
#: Kinds of messages between neighbours in a fair tree; others go to any machine.
_TREE_KINDS = ("request", "summary", "spread")


@dataclass(frozen=True)
class WorkPieces:
    """Pieces of work, ordered by start; each runs from `start` until before `end` (s).

    The tasks of a piece run one after the other, each for an equal time, or, if `at_once`, at the same time.

    Parameters
    ----------
    cores
        Number of cores that a piece uses at a time.
    completed
        Whether all tasks are completed at the end; otherwise none of them is.
    """

    machine: Integers
    application: Integers
    tasks: Integers
    start: Floats
    end: Floats
    completed: NDArray[np.bool_]
    cores: Integers
    at_once: bool

    def starts(self) -> tuple[Integers, Floats]:
        """Return the piece of each task, and the start of the task, s."""
        row = np.repeat(np.arange(len(self.tasks)), self.tasks)
        if self.at_once:
            return row, self.start[row]
        number = np.arange(len(row)) - (np.cumsum(self.tasks) - self.tasks)[row]
        return row, self.start[row] + ((self.end - self.start) / self.tasks)[row] * number

    def started(self, time: float) -> Integers:
        """Return the number of tasks of each piece that have started by `time`."""
        if self.at_once:
            return np.where(self.start <= time, self.tasks, 0)
        progress = (time - self.start) / np.maximum(self.end - self.start, 1e-12) * self.tasks
        return np.where(self.start <= time, np.clip(np.floor(progress) + 1, 1, self.tasks), 0).astype(
            np.int64
        )

    def finished(self, time: float) -> Integers:
        """Return the number of tasks of each piece that are completed by `time`."""
        under_way = 0 if self.at_once else np.maximum(self.started(time) - 1, 0)
        return np.where(self.completed, np.where(self.end <= time, self.tasks, under_way), 0)

    def is_running(self, time: float) -> NDArray[np.bool_]:
        """Return which pieces run at `time`."""
        mask: NDArray[np.bool_] = (self.start <= time) & (time < self.end)
        return mask


@dataclass(frozen=True)
class Messages:
    """Messages between machines, ordered by the time at which they are sent (s).

    Parameters
    ----------
    sender, receiver
        Positions in the picture: machines, servers after them, or nodes of the tree.
    delivered
        Time of delivery, s; NaN if the message did not arrive before the end of the run.
    is_lost
        Whether a failure has dropped the message.
    tasks
        Number of tasks that the message is about; 0 if it is not recorded.
    in_tree
        Whether the message goes to a neighbour in the tree; True without a tree.
    """

    kinds: tuple[str, ...]
    kind: Integers
    sender: Integers
    receiver: Integers
    sent: Floats
    delivered: Floats
    is_lost: NDArray[np.bool_]
    application: Integers
    tasks: Integers
    in_tree: NDArray[np.bool_]

    @cached_property
    def until(self) -> Floats:
        """Time at which each message disappears, s; after a typical time of travel if it did not arrive."""
        travel = self.delivered - self.sent
        typical = float(np.nanmedian(travel)) if np.isfinite(travel).any() else 0.0
        return np.where(np.isnan(self.delivered), self.sent + typical, self.delivered)

    @property
    def is_main(self) -> NDArray[np.bool_]:
        """Which messages are about applications, and in a tree between neighbours; they have lines."""
        return (self.application >= 0) & self.in_tree

    @property
    def is_followed(self) -> NDArray[np.bool_]:
        """Which messages slow the animation down: the main ones, or all if there are none."""
        return self.is_main if self.is_main.any() else np.ones(len(self.kind), np.bool_)


@dataclass(frozen=True)
class Raster:
    """The share of the time for which groups of machines were busy in intervals of time.

    Parameters
    ----------
    machines
        Number of machines of each group.
    edges
        float[intervals + 1], s.
    share
        float[groups, intervals].
    """

    machines: Integers
    edges: Floats
    share: Floats


@dataclass(frozen=True)
class State:
    """The state of a run at an instant, after all its events.

    Parameters
    ----------
    running
        Rows of `Scene.pieces` that run.
    queues
        (machine, application, tasks), int[k] each, of the tasks that wait at machines, ordered by machine; if
        machines are columns, then in the order in which the tasks start, those that never start last.
    done, running_tasks, queued, pending
        int[applications], tasks that are completed, that run, that wait at machines, and that wait elsewhere:
        at a submitter or scheduler, or in messages.
    is_up
        Whether each machine is up.
    """

    running: Integers
    queues: tuple[Integers, Integers, Integers]
    done: Integers
    running_tasks: Integers
    queued: Integers
    pending: Integers
    is_up: NDArray[np.bool_]


@dataclass(frozen=True)
class Scene:
    """The contents of an animation, from `begin` to `end` (s).

    Parameters
    ----------
    names
        Number of each application, or of each job in its log.
    cores
        Number of cores of each machine.
    release, tasks, submitter
        Release (s), number of tasks and machine of each application; applications without an end are left
        out, with no tasks.
    arrivals
        (time, machine, application, change of the number of tasks): tasks that arrive in queues or leave them
        without being run.  None if machines have no queues.
    outages
        (machine, begin, end), s; a transient failure ends when it begins.
    levels
        Level of each node of the tree; empty without a tree.
    positions
        Horizontal position of each node of the tree, in machines from the left.
    """

    title: str
    names: Integers
    begin: float
    end: float
    rigid: bool
    cores: Integers
    release: Floats
    tasks: Integers
    submitter: Integers
    servers: int
    pieces: WorkPieces | None
    arrivals: tuple[Floats, Integers, Integers, Integers] | None
    outages: tuple[Integers, Floats, Floats]
    messages: Messages | None
    raster: Raster | None
    levels: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    positions: Floats = field(default_factory=lambda: np.zeros(0))
    notes: tuple[str, ...] = ()

    @property
    def machines(self) -> int:
        """Number of machines."""
        return len(self.cores)

    @property
    def item(self) -> str:
        """What an application is called."""
        return "job" if self.rigid else "bag"

    @property
    def traffic(self) -> str:
        """What slows the animation down while it travels."""
        if self.messages is None or not self.messages.is_main.any():
            return "messages"
        return "requests" if len(self.levels) else f"messages about {self.item}s"

    @property
    def has_bars(self) -> bool:
        """Whether each application has a bar, which shows how many of its tasks are done."""
        return self.raster is None and len(self.tasks) <= BARS

    @property
    def has_columns(self) -> bool:
        """Whether machines are columns, not cells of a grid."""
        return self.raster is None and self.machines <= COLUMNS

    @cached_property
    def order(self) -> Integers:
        """The machines from left to right: in a tree, leaves in order of their subtrees."""
        if not len(self.levels):
            return np.arange(self.machines)
        return np.argsort(self.positions[self.machines - 1 :], kind="stable")

    @cached_property
    def largest_queue(self) -> int:
        """Largest number of tasks that wait at a machine, after all events of an instant."""
        if self.arrivals is None or self.pieces is None:
            return 0
        (row, started), (time, machine, _, change) = self.pieces.starts(), self.arrivals
        machines, times = np.append(machine, self.pieces.machine[row]), np.append(time, started)
        order = np.lexsort((times, machines))
        level = np.cumsum(np.append(change, np.full(len(row), -1))[order])
        machines, times = machines[order], times[order]
        is_last = np.append((np.diff(machines) != 0) | (np.diff(times) > 0), True)
        first = np.searchsorted(machines, machines)
        before = np.where(first > 0, level[np.maximum(first - 1, 0)], 0)
        return int((level - before)[is_last].max())

    def state(self, time: float) -> State:
        """Return the state at `time` (s).

        Raises
        ------
        ScenarioError
            If the animation shows only the utilization of groups of machines.
        """
        if (pieces := self.pieces) is None:
            raise ScenarioError("state requires an animation of single machines, got one of groups")
        applications, is_running = len(self.tasks), pieces.is_running(time)
        queues = self._queues(pieces, time)
        queued = np.bincount(queues[1], queues[2], applications).astype(np.int64)
        done = np.bincount(pieces.application, pieces.finished(time), applications).astype(np.int64)
        width = np.where(is_running, pieces.tasks if pieces.at_once else 1, 0)
        running = np.bincount(pieces.application, width, applications).astype(np.int64)
        done, released = np.minimum(done, self.tasks), np.where(self.release <= time, self.tasks, 0)
        # several replicas of a task may run
        running = np.minimum(running, released - done)
        pending = np.maximum(released - done - running - queued, 0)
        is_up = np.ones(self.machines, np.bool_)
        machine, begin, end = self.outages
        is_up[machine[(begin <= time) & (time < end)]] = False
        return State(np.flatnonzero(is_running), queues, done, running, queued, pending, is_up)

    @cached_property
    def _queue_keys(self) -> tuple[Integers, Integers]:
        """Machine * applications + application of each queue, ascending; and the queue of each change.

        Changes are the rows of `arrivals`, followed by the starts of pieces.
        """
        assert self.pieces is not None and self.arrivals is not None
        _, machine, application, _ = self.arrivals
        machines = np.append(machine, self.pieces.machine)
        keys = machines * len(self.tasks) + np.append(application, self.pieces.application)
        distinct_keys, index = np.unique(keys, return_inverse=True)
        return distinct_keys, index.ravel()

    def _queues(self, pieces: WorkPieces, time: float) -> tuple[Integers, Integers, Integers]:
        """Return the tasks that wait at machines at `time` (s): machine, application, tasks."""
        if self.arrivals is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        at, _, _, change = self.arrivals
        keys, index = self._queue_keys
        changes = np.append(np.where(at <= time, change, 0), -pieces.started(time))
        tasks = np.bincount(index, changes, len(keys)).astype(np.int64)
        rows = np.flatnonzero(tasks > 0)
        if self.has_columns:
            rows, tasks = self._in_order_of_execution(rows, tasks[rows], time)
        else:
            tasks = tasks[rows]
        return keys[rows] // len(self.tasks), keys[rows] % len(self.tasks), tasks

    @cached_property
    def _task_starts(self) -> tuple[Integers, Floats]:
        """Queue and start (s) of each task, ordered by queue and start."""
        assert self.pieces is not None
        row, start = self.pieces.starts()
        queue = self._queue_keys[1][-len(self.pieces.start) :][row]
        order = np.lexsort((start, queue))
        return queue[order], start[order]

    def _in_order_of_execution(
        self, queues: Integers, tasks: Integers, time: float
    ) -> tuple[Integers, Integers]:
        """Divide the tasks of queues into runs of tasks that start one after another on their machine.

        Parameters
        ----------
        queues, tasks
            Rows of `_queue_keys`, ascending, and the number of tasks that wait in each at `time`.
        """
        queue_of_start, start = self._task_starts
        begin, end = (np.searchsorted(queue_of_start, queues, side) for side in ("left", "right"))
        started = np.bincount(queue_of_start[start <= time], minlength=len(self._queue_keys[0]))[queues]
        later = np.minimum(tasks, end - begin - started)
        row = np.repeat(np.arange(len(queues)), later)
        index = np.arange(len(row)) - np.repeat(np.cumsum(later) - later, later) + (begin + started)[row]
        never = np.flatnonzero(tasks > later)
        row, times = np.append(row, never), np.append(start[index], np.full(len(never), np.inf))
        count = np.append(np.ones(len(index), np.int64), (tasks - later)[never])
        machine = self._queue_keys[0][queues] // len(self.tasks)
        order = np.lexsort((row, times, machine[row]))
        row, count = row[order], count[order]
        first = np.flatnonzero(np.diff(row, prepend=-1))
        return queues[row[first]], np.add.reduceat(count, first) if len(first) else count


def scene_of(result: Result, messages: bool | None) -> Scene:
    """Return what an animation of `result` shows; `gridsim.plots.animation.player.animate` documents it."""
    schedule = recorded_schedule(result, "an animation")
    if messages and "message_log" not in result.tables:
        raise ScenarioError(
            'messages requires a run with record=["schedule", "messages"] (run --record --messages)'
        )
    table, machines = result.applications, len(result.machines)
    begin = float(min(table["release"].min(), schedule["start"].min(initial=np.inf)))
    end = float(max(schedule["end"].max(initial=begin), begin + 1e-9))
    is_ended = ~np.isnan(table["finish"])
    notes = [] if is_ended.all() else [f"{int((~is_ended).sum()):,} rejected jobs are not drawn"]
    numbers = result.jobs_of_log
    options: dict[str, Any] = {
        "title": f"{result.scheduler['name']} on {machines:,} machine{'' if machines == 1 else 's'}",
        "names": np.arange(len(table)) if numbers is None else numbers,
        "begin": begin,
        "end": end,
        "rigid": result.rigid,
        "cores": machine_cores(result),
        "release": np.asarray(table["release"], np.float64),
        "tasks": np.where(is_ended, table["tasks"], 0).astype(np.int64),
        "submitter": np.asarray(table["submitter"], np.int64),
        "servers": result.servers,
    }
    no_outages = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    if machines > MACHINES or len(schedule["start"]) > PIECES:
        edges, times, share = occupancy(result, GROUPS, INTERVALS)
        raster = Raster(np.diff(edges).astype(np.int64), times, share)
        notes.append(
            f"{machines:,} machines with {len(schedule['start']):,} pieces of work: a cell is the share of "
            f"{(times[1] - times[0]):.4g} s in which up to {int(raster.machines.max()):,} adjacent machines "
            "were busy; queues, failures and messages are not drawn"
        )
        return Scene(
            **options | {"begin": float(times[0]), "end": float(times[-1])}, pieces=None, arrivals=None,
            outages=no_outages, messages=None, raster=raster, notes=tuple(notes),
        )  # fmt: skip
    order = np.argsort(schedule["start"], kind="stable")
    columns = {name: column[order] for name, column in schedule.items()}
    pieces = WorkPieces(
        columns["machine"].astype(np.int64),
        columns["application"].astype(np.int64),
        columns["tasks"].astype(np.int64),
        columns["start"].astype(np.float64),
        columns["end"].astype(np.float64),
        columns["completed"].astype(np.int64) > 0,
        cores_used(result, columns),
        result.rigid,
    )
    if "largest_task" in table and (pieces.tasks > 1).any():
        notes.append("tasks that run one after the other are drawn with equal times, though they differ")
    outages, has_outages = _outages(result, end, notes)
    arrivals = None
    if len(result.tables.get("arrivals", ())) and has_outages:
        arrivals = _arrivals(result.tables["arrivals"], pieces, outages, len(table))
    is_tree = has_tree(result) and machines <= COLUMNS
    visible_messages = None
    if messages is not False and "message_log" in result.tables:
        visible_messages = _messages(result, begin, end, is_tree, machines, notes)
    elif messages is None and result.messages["sent"].any():
        notes.append('messages are not drawn: they require record="messages" (run --messages)')
    if is_tree:
        first, count = tree_spans(machines)
        options["levels"] = tree_level(np.arange(2 * machines - 1))
        options["positions"] = first + count / 2 - 0.5
        if "failures" in result.machines and result.machines["failures"].any():
            notes.append("routers are drawn at the start, before failures moved them")
    return Scene(
        **options, pieces=pieces, arrivals=arrivals, outages=outages, messages=visible_messages, raster=None,
        notes=tuple(notes),
    )  # fmt: skip


def _outages(result: Result, end: float, notes: list[str]) -> tuple[tuple[Integers, Floats, Floats], bool]:
    """Return the outages until `end` (s), and whether they are known."""
    empty = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    if not result.has_faults:
        return empty, True
    try:
        result.check_faults()
        return down_times(result, end), True
    except TooManyChanges:
        notes.append("failures and queues are not drawn: there are too many failures")
    except (GridSimError, OSError):
        notes.append("failures and queues are not drawn: the failure trace was not found")
    return empty, False


def _arrivals(
    table: Table, pieces: WorkPieces, outages: tuple[Integers, Floats, Floats], applications: int
) -> tuple[Floats, Integers, Integers, Integers]:
    """Return the changes of queues other than starts: arrivals, withdrawals, and losses in failures."""
    row, started = pieces.starts()
    key_of_arrival = table["machine"] * applications + table["application"]
    keys = np.unique(key_of_arrival)
    failed, begin, _ = outages
    # each failure empties the queue of its machine, for each application that ever waited in it
    low, high = np.searchsorted(keys, (failed * applications, (failed + 1) * applications))
    count = high - low
    failure = np.repeat(np.arange(len(failed)), count)
    lost_key = keys[np.repeat(low - np.cumsum(count) + count, count) + np.arange(count.sum())]
    key = np.concatenate(
        (lost_key, key_of_arrival, (pieces.machine * applications + pieces.application)[row])
    )
    time = np.concatenate((begin[failure], table["time"], started))
    changes = np.zeros(len(lost_key)), table["tasks"], -np.ones(len(started))
    change = np.concatenate(changes).astype(np.int64)
    rank = np.repeat((0, 1, 2), (len(lost_key), len(table), len(started)))
    order = np.lexsort((rank, time, key))
    level, sorted_key, sorted_rank = np.cumsum(change[order]), key[order], rank[order]
    marks = np.flatnonzero(sorted_rank == 0)
    group_start = np.searchsorted(sorted_key, sorted_key[marks])
    base = np.where(group_start > 0, level[np.maximum(group_start - 1, 0)], 0)
    previous = np.roll(marks, 1)
    has_previous = np.arange(len(marks)) > 0
    has_previous &= np.roll(sorted_key[marks], 1) == sorted_key[marks]
    lost = level[marks] - np.where(has_previous, level[previous], base)
    rows = np.flatnonzero(lost > 0)
    times = np.concatenate((time[order][marks[rows]], table["time"]))
    loss_keys = sorted_key[marks[rows]]
    machine = np.concatenate((loss_keys // applications, table["machine"])).astype(np.int64)
    application = np.concatenate((loss_keys % applications, table["application"])).astype(np.int64)
    change = np.concatenate((-lost[rows], table["tasks"])).astype(np.int64)
    by_time = np.argsort(times, kind="stable")
    return times[by_time], machine[by_time], application[by_time], change[by_time]


def _messages(
    result: Result, begin: float, end: float, is_tree: bool, machines: int, notes: list[str]
) -> Messages | None:
    """Return the messages sent from `begin` to `end` (s); None if there are none or too many."""
    log = result.tables["message_log"]
    rows = np.flatnonzero((log["sent"] >= begin) & (log["sent"] <= end))
    rows = rows[np.argsort(log["sent"][rows], kind="stable")]
    if len(rows) > MESSAGES:
        count = int(result.messages["sent"].sum())
        notes.append(f"messages are not drawn: they are {count:,}, more than {MESSAGES:,}")
        return None
    if has_tree(result) and not is_tree:
        notes.append(f"the tree and its messages are drawn for at most {COLUMNS} machines")
        return None
    if left_out := result.left_out.get("message_log", 0):
        notes.append(f"the last {left_out:,} messages were not recorded")
    if not len(rows):
        return None
    kinds, kind = np.unique(log["kind"][rows], return_inverse=True)
    sender, receiver = (log[name][rows].astype(np.int64) for name in ("sender", "receiver"))
    application = log["application"][rows].astype(np.int64)
    if is_tree:
        sender, receiver = _edges(result, log["kind"][rows], sender, receiver, application, machines)
    return Messages(
        tuple(kinds.tolist()),
        kind.ravel().astype(np.int64),
        sender,
        receiver,
        log["sent"][rows].astype(np.float64),
        log["delivered"][rows].astype(np.float64),
        log["dropped"][rows] > 0,
        application,
        _tasks_of(result, rows) if is_tree else np.zeros(len(rows), np.int64),
        np.isin(log["kind"][rows], _TREE_KINDS) if is_tree else np.ones(len(rows), np.bool_),
    )


def _edges(
    result: Result, kind: Any, sender: Integers, receiver: Integers, application: Integers, machines: int
) -> tuple[Integers, Integers]:
    """Return the nodes of the tree between which messages travel, instead of their machines.

    Messages other than those between neighbours in the tree, such as reports to a submitter, go from leaf to
    leaf.
    """
    nodes = np.arange(1, 2 * machines - 1)
    machine_of = tree_machines(machines)
    # (machine of the child, machine of the parent) -> child
    pairs = machine_of[nodes] * machines + machine_of[(nodes - 1) // 2]
    child_of = dict(zip(pairs.tolist(), nodes.tolist(), strict=True))
    climbs = _Climbs(result, machines)
    start, end = machines - 1 + sender, machines - 1 + receiver
    for k, (name, a, b, i) in enumerate(
        zip(kind.tolist(), sender.tolist(), receiver.tolist(), application.tolist(), strict=True)
    ):
        if name not in _TREE_KINDS:
            continue
        up, down = child_of.get(a * machines + b), child_of.get(b * machines + a)
        if up is not None and (down is None or name == "summary" or name == "request" and climbs(up, i)):
            start[k], end[k] = up, (up - 1) // 2
        elif down is not None:
            start[k], end[k] = (down - 1) // 2, down
    return start, end


class _Climbs:
    """The climbs of requests: each begins at the router of its submitter, and ends where it is accepted.

    They tell a request that climbs from one that is on its way down between two machines that are neighbours
    twice in the tree.
    """

    def __init__(self, result: Result, machines: int) -> None:
        self.level: Integers = result.applications["level"]
        submitter = result.applications["submitter"]
        self.begin = np.where(submitter < machines - 1, submitter, machines - 1 + submitter)
        self.edges: set[tuple[int, int]] = set()

    def __call__(self, node: int, application: int) -> bool:
        """Return whether the next request of an application from `node` to its neighbour climbs."""
        top = int(self.begin[application])
        while top > node:
            top = (top - 1) // 2
        is_first = (node, application) not in self.edges
        self.edges.add((node, application))
        return is_first and top == node and int(self.level[application]) < int(tree_level(node))


def _tasks_of(result: Result, rows: Integers) -> Integers:
    """Return the number of tasks of each request of a fair tree, as the decisions state it; else 0."""
    log, decisions = result.tables["message_log"], result.tables.get("decisions")
    tasks = np.zeros(len(rows), np.int64)
    if decisions is None:
        return tasks
    names = ("time", "decider", "machine", "application")
    keys = zip(*(decisions[name].tolist() for name in names), strict=True)
    known = dict(zip(keys, decisions["tasks"].tolist(), strict=True))
    names = ("sent", "sender", "receiver", "application")
    is_request = log["kind"][rows] == "request"
    for k, key in enumerate(zip(*(log[name][rows].tolist() for name in names), strict=True)):
        tasks[k] = known.get(key, 0) if is_request[k] else 0
    return tasks
