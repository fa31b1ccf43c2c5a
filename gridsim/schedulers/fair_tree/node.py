"""The fair tree as a node program: the behaviour of a leaf and of a router.

After Celaya and Marchal.  Every machine hosts a leaf, which runs tasks, and every machine except the last
hosts a router as well.  Leaves and routers form a balanced binary tree, numbered as a heap: the children of
node k are 2k+1 and 2k+2.

Summaries of availability flow up.  A leaf samples how many tasks it could take, for each stretch S, size w of
an application and task size a of a grid, and its own minimum stretch.  A router adds the summaries of its
children.  Requests climb from the router of the submitter until one can host all tasks at a stretch that is
good enough by the rule of `FairTree.accept`.  That router splits the request, and each router below it
splits its share again, in proportion to the room of its children.  A leaf queues its share, and runs its
tasks by their deadlines at its own minimum stretch.

Messages cross: a summary may have been made before or after a request arrived.  So a router numbers its
requests, and a summary echoes the last number that its sender had received.  The router then deletes exactly
the debts that the summary includes.  docs/background/fair_tree.md lists the differences from the papers: the
default acceptance rule, how debts are subtracted from a summary, and the sum of summaries of different
releases.

``view.environment`` has the information about the tree that nodes get without a message, since the repair of
the paper takes no time (`gridsim.schedulers.fair_tree.environment.RepairView`).  In a tree that is kept by
messages, it has what the machine has learned (`gridsim.schedulers.fair_tree.member`).

Shared kernels do the costly computations: sampling a queue, adding summaries, looking up a request, splitting
it, and debiting a summary by the tasks dispatched since.  Of the paper's algorithms, 1 (whether a queue meets
its deadlines) and 2 (its minimum stretch) are in `gridcore.queues.edf`, 3 (how much more it could take) is in
`gridcore.queues.availability`; `gridcore.queues.task_queues` applies them to the leaves' queues.  Algorithm 4
(the smallest stretch of a request) is in `Router.on_request`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summaries import aggregate, lookup, split
from gridcore.fair_tree.summary_tree import LARGEST_BYTES, MADE_BYTES
from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.tree import Cells, Tree, children_of, parent_of, side_of
from gridsim.scheduling.nodes.program import Message, NodeProgram, View, array
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import kept_in_checkpoints

#: The number of each request on its way up; only requests on their way down have numbers of their own.
CLIMBING = -1
#: Relative tolerance in comparisons of products of ratios of samples.
TOLERANCE = 1e-9
#: Cells of a message without a copy of the root's summary.
NO_CELLS = np.zeros(0, np.uint32)


@kept_in_checkpoints
class Availability(NamedTuple):
    """The report of a node to its parent.

    Parameters
    ----------
    release
        Release of an application for which the cells hold, s; inf if any part is of an idle leaf, which a
        reader takes as now.
    minimum, largest
        The smallest and the largest minimum stretch of a leaf, s/Mflop.  An idle leaf counts in the largest
        with 0, which stays 0 where no rule needs it.
    covers
        Number of leaves that the summary includes; 0 where no rule needs it.
    cells
        Number of tasks that fit, for each sample of stretch, size and task size.
    """

    release: float
    minimum: float
    largest: float
    covers: int
    cells: Cells


@kept_in_checkpoints
class RootCopy(NamedTuple):
    """A copy of the root's summary, made at `made` ns, minus the tasks dispatched since.

    Parameters
    ----------
    release, cells
        The same as in `Availability`.
    """

    made: int
    release: float
    cells: Cells


def messages(parameters: Any) -> dict[str, Message]:
    """Return the kinds of messages of a `FairTree`, in the order in which they are handled at one instant.

    summary : `cells` for an application released at `release` (as in `Availability`), the `number` of
        the summary, the number of the last request that the sender had received (`echo`), its `minimum`
        stretch, and `since`, the time of the oldest change of a leaf that it is the first to report, ns.
        `oldest`, the time of its oldest sample (ns), is only for the record of decisions.
    spread : the `minimum` stretch of the rest of the tree, on its way down.
    request : `tasks` tasks of `application` to place.  It climbs, or it comes from the parent, which numbers
        its requests (`number`) and adds the `minimum` stretch of the rest of the tree.  `hops` counts the
        steps up.
    Some acceptance rules need further fields.  A summary has the `largest` minimum stretch of a leaf (0 for
        idle ones) and the number of leaves that it `covers`.  A message from the parent to a router has the
        `largest` minimum stretch of the rest of the tree, and a copy of the root's summary: its `cells`, for
        an application released at `release` (s), and its time `made` (ns).  NaN or no cells: no value.
    accept, completion : the number of tasks that have arrived at a leaf, or are completed, for the submitter.
    """
    share: dict[str, Any] = {"application": int, "tasks": int}
    down: dict[str, Any] = {"largest": float} if parameters.by_largest else {}
    up = {**down, **({"covers": int} if parameters.by_root else {})}
    if parameters.by_root:
        down |= {"cells": array(int), "release": float, "made": int}

    def size_on_way_down(nbytes: int) -> Any:
        return (lambda **fields: nbytes + rule_bytes(**fields)) if down else nbytes

    return {
        "summary": Message(
            lambda cells, **_: parameters.summary_bytes(cells.size),
            cells=array(int),
            release=float,
            number=int,
            echo=int,
            minimum=float,
            since=int,
            oldest=int,
            **up,
        ),
        "spread": Message(size_on_way_down(parameters.spread_bytes), minimum=float, **down),
        "request": Message(
            size_on_way_down(parameters.request_bytes),
            moves_tasks=True,
            **share,
            number=int,
            minimum=float,
            hops=int,
            **down,
        ),
        "accept": Message(parameters.accept_bytes, deferred=True, **share),
        "completion": Message(parameters.completion_bytes, deferred=True, **share),
    }


def rule_bytes(*, largest: float = math.nan, cells: Any = (), **_: Any) -> int:
    """Return the bytes that an acceptance rule adds to a message to a child."""
    nbytes = 0 if math.isnan(largest) else LARGEST_BYTES
    return nbytes + (4 * len(cells) + MADE_BYTES if len(cells) else 0)


#: Tables that nodes write for the result.  ``routed``: decisions on requests, with the index of a stretch
#: `sample`, -1 if none has room; `hops` is -1 for requests from the parent.  ``updates``: summaries from
#: which the root learns of a change.  ``told``: reports to submitters.
TABLES: dict[str, dict[str, type]] = {
    "routed": {"node": int, "application": int, "tasks": int, "sample": int, "hops": int, "time": int},
    "updates": {"arrived": int, "since": int},
    "told": {"accepted": int, "completed": int},
}


class TreeNode(NodeProgram, ABC):
    """The common part of leaves and routers: they report their availability to their parents.

    A node whose availability has changed sends a report, but not more often than the update rate allows; a
    delayed report has the newest state.  A report without news is not sent, unless the node has received a
    request since its last report, which its parent must learn.
    """

    is_leaf = False
    #: The message number and the time of the next allowed report survive a failure.
    stable_storage: ClassVar[tuple[str, ...]] = ("number", "free_at")

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.last_report: Availability | None = None
        self.report_requested = False  # a request or a new parent has asked for it
        self.last_request = -1  # number of the last request from the parent
        self.number = 0  # number of the next report
        self.free_at, self.due = 0, NEVER  # times at which the next report is allowed and is due, ns
        self.since = NEVER  # time of the oldest unreported change of a leaf, ns
        self.oldest: list[int] = []  # time of the oldest sample in the summary of each child, ns

    @abstractmethod
    def availability(self, view: View) -> Availability | None:
        """Return the report; None if there is nothing to report at the moment."""

    def on_act(self, view: View) -> None:
        """Report now, or as soon as a report is allowed."""
        now = view.now_ns
        if self.due == NEVER:
            hold_off = 0 if self.is_leaf else view.environment.tree.hold_off
            self.due = max(self.free_at, now + hold_off)
            if self.due > now:
                view.act((self.due - now) / NS)
        if self.due <= now:
            self.due = NEVER
            self.report(view)

    def report(self, view: View) -> None:
        """Send a summary to the parent, if there is any news."""
        report = self.availability(view)
        if report is None:
            return
        if not self.report_requested and self.last_report is not None and _is_equal(report, self.last_report):
            self.since = NEVER
            return
        self.last_report = report
        fields: dict[str, Any] = {
            "cells": report.cells.reshape(-1),
            "release": report.release,
            "minimum": report.minimum,
            "number": self.number,
            "echo": self.last_request,
            "since": self.since,
            "oldest": min(self.oldest, default=view.now_ns),
        }
        if self.parameters.by_largest:
            fields["largest"] = report.largest
        if self.parameters.by_root:
            fields["covers"] = report.covers
        view.send(parent_of(view.node), "summary", **fields)
        self.report_requested, self.since = False, NEVER
        self.number += 1
        self.free_at = view.now_ns + view.environment.tree.gap

    def receive(self, message: Any) -> None:
        """Record the number of a request, which the next report echoes."""
        self.last_request, self.report_requested = max(self.last_request, message.number), True

    # -- the ideal repair of the tree, which calls these handlers --------------------------------------------

    def on_return(self, view: View, number: int) -> None:
        """Join the tree again, with an empty memory; `number` is that of the last request from the parent.

        Requests up to this number are lost with the machine, so the next report echoes it, which ends their
        debts.  If a router only moves home from a machine that is up, requests in transit still arrive and
        are handled, but their debts end as well: until the leaves below have reported, the parent
        overestimates the room by that of these requests.
        """
        self.last_request = number

    def on_parent_return(self, view: View) -> None:
        """Report again, since the parent has returned to the tree with an empty memory."""
        self.report_requested = True


class Leaf(TreeNode):
    """A leaf, which runs tasks and submits applications for its machine."""

    is_leaf = True

    def on_start(self, view: View) -> None:
        """Report to the parent: a leaf that joins is a change."""
        view.act()

    def on_release(self, view: View, application: Application, tasks: int) -> None:
        """Send a request for `tasks` tasks that are submitted here."""
        self.submit(view, application, tasks, "requested")

    def on_lost(self, view: View, application: Application, tasks: int) -> None:
        """Send a request for `tasks` tasks that have been lost."""
        self.submit(view, application, tasks, "requested-again")

    def submit(self, view: View, application: Application, tasks: int, action: str) -> None:
        """Send a request to the router on this machine, or to the parent."""
        router, first_leaf = view.machine, view.environment.tree.first_leaf
        uses_own_router = self.parameters.entry == "own-router" and router < first_leaf
        receiver = router if uses_own_router else parent_of(view.node) if first_leaf else view.node
        view.decide(action, application.number, node=receiver, tasks=tasks)
        share = {"application": application.number, "tasks": tasks}
        view.send(
            receiver, "request", number=CLIMBING, hops=0, **share, **empty_outer_fields(self.parameters)
        )

    def on_request(self, view: View, message: Any) -> None:
        """Queue a share and inform its submitter, or forward it if this machine lacks the memory or disk."""
        self.receive(message)
        if not view.environment.holds(message.application):
            self.forward_share(view, message)
            return
        view.enqueue(message.application, message.tasks)
        view.decide("queued", message.application, tasks=message.tasks, saw=view.minimum_stretch)
        self.report_tasks(view, "accept", message.application, message.tasks)
        view.act()

    def forward_share(self, view: View, message: Any) -> None:
        """Forward a share to the leaf of a random other machine, and report, as after any request.

        This happens only if summaries ignore memory and disk.
        """
        first_leaf = view.environment.tree.first_leaf
        leaf = view.random.integers(first_leaf) + first_leaf
        leaf += leaf >= view.node
        share = {"application": message.application, "tasks": message.tasks}
        view.decide("sent-on", message.application, node=leaf, tasks=message.tasks)
        view.send(
            leaf,
            "request",
            number=CLIMBING,
            hops=message.hops,
            **share,
            **empty_outer_fields(self.parameters),
        )
        view.act()

    def report_tasks(self, view: View, kind: str, application: int, tasks: int) -> None:
        """Report tasks to the submitter of `application`."""
        view.send(view.environment.submitter(application), kind, application=application, tasks=tasks)

    def on_accept(self, view: View, message: Any) -> None:
        """Record, as a submitter, that a leaf has accepted tasks."""
        view.note("told", accepted=message.tasks, completed=0)

    def on_completion(self, view: View, message: Any) -> None:
        """Record, as a submitter, that a leaf has completed tasks."""
        view.note("told", accepted=0, completed=message.tasks)

    def on_end(self, view: View) -> None:
        """Report that a task has ended."""
        view.act()

    def on_idle(self, view: View) -> None:
        """Report that there are no tasks left."""
        view.act()

    def on_heartbeat(self, view: View) -> None:
        """Report completed tasks to their submitters."""
        for application, tasks in view.completed():
            self.report_tasks(view, "completion", application, tasks)

    def on_refresh(self, view: View) -> None:
        """Report again, since time has passed and the next release cell may have begun."""
        view.act()

    def on_act(self, view: View) -> None:
        """Report, and record the time of the change; a leaf that is also the root does nothing."""
        if view.node > 0:
            self.since = min(self.since, view.now_ns)
            super().on_act(view)

    def availability(self, view: View) -> Availability:
        """Sample the queue, for an application released now or at the next multiple of the release cell."""
        tree, now, minimum = view.environment.tree, view.now_ns, view.minimum_stretch
        cell = tree.cell
        release = (now // cell + 1) * cell if cell else now
        cells, covers = tree.sample(view, release), int(self.parameters.by_root)
        if minimum < math.inf:
            largest = minimum if self.parameters.by_largest else 0.0
            return Availability(release / NS, minimum, largest, covers, cells)
        idle = self.parameters.idle_minimum(view.speed)
        return Availability(release / NS if cell else math.inf, idle, 0.0, covers, cells)


class Router(TreeNode):
    """A router, which adds the summaries of its children and divides requests among them.

    Lists have an entry for each child.  `debts` are the dispatches to a child that its summary does not
    include yet, the latest first: number, tasks, task size, size, release, stretch and bytes per Mflop.

    A minimum stretch that is not known yet, of the rest of the tree or of a child that has not reported,
    counts as `FairTree.unknown_minimum`.  A child that has not reported has no room.  The limit by "root"
    does not depend on the children, so a request is accepted even then if the other child has enough room.
    """

    stable_storage = (*TreeNode.stable_storage, "last_summary", "last_issued")

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        unknown = parameters.unknown_minimum
        self.outer_minimum = unknown  # minimum stretch of the rest of the tree; unused at the root
        self.outer_largest = 0.0  # largest minimum stretch of a leaf in the rest of the tree
        self.copy: RootCopy | None = None  # copy of the root's summary
        self.cells: list[Cells | None] = [None, None]  # the last summary of each child
        self.release, self.minimum = [0.0, 0.0], [unknown, unknown]  # further fields of that summary
        self.largest, self.covers = [0.0, 0.0], [0, 0]
        self.debts: list[list[tuple[int, int, float, float, float, float, float, float]]] = [[], []]
        self.oldest = [NEVER, NEVER]
        self.last_summary, self.last_issued = (
            [-1, -1],
            [0, 0],
        )  # number of the last summary from, request to each
        self.sent_minimum = [math.inf, math.inf]  # outer minimum stretch last sent to each child
        # largest minimum, and time of the copy, last sent to each child; -1: no copy
        self.sent_largest, self.sent_copy = [0.0, 0.0], [-1, -1]

    def on_child_leave(self, view: View, side: int) -> None:
        """Delete the data of a child that has left the tree or moved, including debts for shares in transit.

        If the child has moved, these shares still arrive.  Until the next reports of its leaves have climbed
        here, its room is overestimated by at most these shares.
        """
        self.oldest[side] = NEVER
        self.cells[side], self.minimum[side], self.sent_minimum[side] = None, math.inf, math.inf
        self.largest[side], self.covers[side] = 0.0, 0
        self.sent_largest[side], self.sent_copy[side] = 0.0, -1
        self.debts[side] = []

    def on_child_return(self, view: View, side: int) -> None:
        """Expect reports of a child that has returned to the tree, and of which nothing is known yet."""
        self.minimum[side] = self.parameters.unknown_minimum

    def outer(self, view: View) -> float:
        """Return the minimum stretch of the rest of the tree, s/Mflop; inf at the root, which has no rest."""
        return self.outer_minimum if view.node else math.inf

    # -- summaries on their way up ---------------------------------------------------------------------------

    def on_summary(self, view: View, message: Any) -> None:
        """Store the summary of a child unless it is outdated, and report to the parent."""
        side = side_of(message.sender)
        environment = view.environment
        if message.number > self.last_summary[side] and not environment.has_left(message.sender):
            self.last_summary[side] = message.number
            self.cells[side] = message.cells.astype(np.uint32).reshape(environment.tree.shape)
            self.release[side], self.minimum[side] = message.release, message.minimum
            self.largest[side] = message.largest if self.parameters.by_largest else 0.0
            self.covers[side] = message.covers if self.parameters.by_root else 0
            self.oldest[side] = message.oldest
            self.debts[side] = [debt for debt in self.debts[side] if debt[0] > message.echo]
            self.since = min(self.since, message.since)
            if view.node == 0 and message.since < NEVER:
                view.note("updates", arrived=view.now_ns, since=message.since)
        view.act()

    def on_act(self, view: View) -> None:
        """Report, and spread the minimum stretch if it has changed and must be spread at once."""
        if self.parameters.spread == "change":
            self.spread(view)
        if view.node > 0:
            super().on_act(view)

    def availability(self, view: View) -> Availability | None:
        """Add the availability of the children; summaries for different release cells are not added."""
        tree = view.environment.tree
        known_sides = [side for side in range(2) if self.cells[side] is not None]
        # The release of an idle leaf is reported as inf, since its cells are the same at any later instant,
        # which saves reports.  Once debts are subtracted, cells are valid only at this instant, since debts
        # depend on the age of their requests.
        releases = [
            self.release_of(view, side) if self.debts[side] else self.release[side] for side in known_sides
        ]
        if tree.cell and len(set(releases)) == 2:
            return None
        cells = [self.debited_summary(view, side) for side in known_sides]
        total = aggregate(cells) if cells else np.zeros(tree.shape, np.uint32)
        least, largest = min(self.minimum), max(self.largest)
        return Availability(max(releases, default=0.0), least, largest, sum(self.covers), total)

    def release_of(self, view: View, side: int) -> float:
        """Return the release (s) for which the summary of a child holds."""
        return self.release[side] if view.environment.tree.cell else min(self.release[side], view.now)

    def debited_summary(self, view: View, side: int) -> Cells:
        """Return the summary of a child minus the tasks dispatched to it since."""
        cells, debts = self.cells[side], self.debts[side]
        assert cells is not None
        if not debts:
            return cells
        _, tasks, task_size, size, release, stretch, data, memory = zip(*debts, strict=True)
        valid_at, child = self.release_of(view, side), children_of(view.node)[side]
        dispatched: dict[str, Any] = {
            "tasks": tasks,
            "task_size": task_size,
            "size": size,
            "stretch": stretch,
            "age": [max(0.0, valid_at - each) for each in release],  # older requests count as smaller
        }
        tree: Tree = view.environment.tree
        return tree.debit(cells, child, view.environment.leaves_below(child), data, memory, **dispatched)

    # -- requests --------------------------------------------------------------------------------------------

    def on_request(self, view: View, message: Any) -> None:
        """Accept a request and divide it among the children, or forward it to the parent."""
        is_climbing = message.number == CLIMBING
        if not is_climbing:
            self.receive(message)
            self.update_outer(view, message)
        application, tasks = view.application(message.application), message.tasks
        stretches = view.environment.tree.stretch
        capacities = np.stack([self.capacity(view, side, application) for side in range(2)], axis=1)
        # the stretch samples at which all tasks fit; Algorithm 4 finds the first of them
        hosts = np.flatnonzero(capacities.sum(axis=1) >= tasks)
        share = {"application": message.application, "tasks": tasks}
        if is_climbing:
            limit = self.limit(view, application, tasks)
            is_fair = len(hosts) > 0 and limit is not None and bool(stretches[hosts[0]] <= limit)
            self.record(view, message, math.inf if not len(hosts) else stretches[hosts[0]], is_fair, limit)
            if view.node > 0 and not is_fair:
                climb = {"number": CLIMBING, "hops": message.hops + 1}
                view.send(
                    parent_of(view.node), "request", **climb, **share, **empty_outer_fields(self.parameters)
                )
                return
        if view.node == 0 and self.parameters.by_root:
            self.renew_copy(view)
        sample = int(hosts[0]) if len(hosts) else -1
        shares = (
            split(capacities[sample], tasks)
            if len(hosts)
            else self.split_by_speed(view, capacities[-1], tasks, application)
        )
        hops = message.hops if is_climbing else -1
        view.note("routed", node=view.node, sample=sample, hops=hops, time=view.now_ns, **share)
        for side, part in enumerate(shares.tolist()):
            if part:
                self.dispatch(view, side, application, part, sample, message.hops)
                fields = {
                    "node": children_of(view.node)[side],
                    "tasks": part,
                    "saw": int(capacities[sample, side]),
                }
                age, limit = self.oldest[side], stretches[sample]
                view.decide("gave", application.number, age=age, limit=limit, **fields)

    def limit(self, view: View, application: Application, tasks: int) -> float | None:
        """Return the largest stretch at which a request is accepted, s/Mflop; None if that is not known."""
        parameters = self.parameters
        if parameters.accept == "minimum":
            least = min(self.outer(view), *self.minimum)
            # needs no tolerance: this is not a sample, so ties are not expected
            return parameters.bound * least if math.isfinite(least) else None
        if not parameters.bound:
            return 0.0
        limits = []
        if parameters.by_root and (promise := self.promise(view, application, tasks)) is not None:
            limits.append(parameters.bound * promise)
        if parameters.by_largest:
            factor = 1.0 if parameters.by_root else parameters.bound
            limits.append(factor * max(self.outer_largest, *self.largest))
        return max(limits) * (1.0 + TOLERANCE) if limits else None

    def promise(self, view: View, application: Application, tasks: int) -> float | None:
        """Return the smallest stretch at which all tasks fit by the copy of the root's summary, or None."""
        if self.copy is None:
            return None
        capacity = self.summary_capacity(view, self.copy.cells, self.copy.release, None, application)
        hosts = np.flatnonzero(capacity >= tasks)
        stretches: tuple[float, ...] = view.environment.tree.stretch
        return stretches[hosts[0]] if len(hosts) else None

    def record(self, view: View, message: Any, stretch: float, fair: bool, limit: float | None) -> None:
        """Record the decision on a request from below; `stretch` is inf if no sample has capacity."""
        root, has_no_room, is_limit_known = view.node == 0, stretch == math.inf, limit is not None
        if root or fair:
            action = "accepted" if not root else "accepted-full" if has_no_room else "accepted-at-root"
        else:
            action = "passed-on-full" if has_no_room else "passed-on" if is_limit_known else "passed-on-idle"
        recorded_limit = math.nan if limit is None or root else limit
        to = {"node": -1 if root or fair else parent_of(view.node), "tasks": message.tasks}
        view.decide(
            action, message.application, saw=stretch, limit=recorded_limit, age=min(self.oldest), **to
        )

    def capacity(self, view: View, side: int, application: Application) -> NDArray[np.int64]:
        """Return the number of tasks of `application` that a child can take, for each stretch sample."""
        if self.cells[side] is None:
            return np.zeros(len(view.environment.tree.stretch), np.int64)
        child = children_of(view.node)[side]
        return self.summary_capacity(
            view, self.debited_summary(view, side), self.release[side], child, application
        )

    def summary_capacity(
        self, view: View, cells: Cells, cells_release: float, node: int | None, application: Application
    ) -> NDArray[np.int64]:
        """Return the number of tasks of `application` that fit by a summary, for each stretch sample.

        Parameters
        ----------
        cells_release
            Release for which the cells hold, s.
        node
            Node above the leaves of the summary; None for all leaves.
        """
        environment = view.environment
        tree = environment.tree
        task_size, size, release = application.task_size, application.size, application.release
        capacity = np.zeros(len(tree.stretch), np.int64)
        if size < tree.smallest or task_size > tree.longest:
            return capacity
        valid_at = cells_release if tree.cell else min(cells_release, view.now)
        if node is None:
            leaves, speed = tree.machines, tree.speed
        else:
            leaves, speed = environment.leaves_below(node), environment.speed_below(node)
        part = tree.slice_of(application, cells, node, leaves, speed)
        if part is None:
            return capacity
        cells, leaves, speed = part
        options: dict[str, Any] = {
            "leaves": max(1, int(leaves)),
            "longest_task": tree.longest,
            "speed": max(speed, 5e-324),
            "release": release,
            "cell_release": valid_at if tree.cell else max(valid_at, release),
        }
        for k, stretch in enumerate(tree.stretch):
            if stretch * size > view.now - release:  # otherwise the deadline has passed
                capacity[k] = lookup(cells, tree.grid, stretch, size, task_size, **options)
        return capacity

    def split_by_speed(
        self, view: View, capacity: NDArray[np.int64], tasks: int, application: Application
    ) -> NDArray[np.int64]:
        """Return the share of each child: the room of its last sample, and a part of the rest by speed."""
        rates, speed_below = view.environment.tree.rates(application), view.environment.speed_below
        left, right = (
            speed_below(child) if rates is None else rates[child] for child in children_of(view.node)
        )
        left_share = left / (left + right) if left + right > 0.0 else 0.5
        remainder = tasks - int(capacity.sum())
        first = math.floor(remainder * left_share + 0.5)
        return np.array([capacity[0] + first, capacity[1] + remainder - first])

    def dispatch(
        self, view: View, side: int, application: Application, tasks: int, sample: int, hops: int
    ) -> None:
        """Send a share of a request to a child, and store it as a debt."""
        # without a sample that has room, the child may miss deadlines at every sample
        stretches = view.environment.tree.stretch
        stretch = stretches[sample] if sample >= 0 else 2.0 * stretches[-1]
        self.last_issued[side] += 1
        debt = (
            tasks,
            application.task_size,
            application.size,
            application.release,
            stretch,
            application.bytes_per_mflop,
            application.memory,
        )
        self.debts[side].insert(0, (self.last_issued[side], *debt))
        share = {"application": application.number, "tasks": tasks, "number": self.last_issued[side]}
        view.send(
            children_of(view.node)[side], "request", hops=hops, **share, **self.outer_fields(view, side)
        )

    def outer_fields(self, view: View, side: int, in_full: bool = False) -> dict[str, Any]:
        """Return the fields of a message to a child that describe the rest of the tree.

        Parameters
        ----------
        in_full
            Whether a router gets the copy of the root's summary even if it knows it.
        """
        parameters = self.parameters
        is_router = children_of(view.node)[side] < view.environment.tree.first_leaf
        self.sent_minimum[side] = min(self.outer(view), self.minimum[1 - side])
        fields: dict[str, Any] = {**empty_outer_fields(parameters), "minimum": self.sent_minimum[side]}
        if parameters.by_largest and is_router:
            fields["largest"] = self.sent_largest[side] = max(self.outer_largest, self.largest[1 - side])
        copy = self.copy if parameters.by_root and is_router else None
        if copy is not None and (in_full or copy.made > self.sent_copy[side]):
            self.sent_copy[side] = copy.made
            fields |= {"cells": copy.cells.reshape(-1), "release": copy.release, "made": copy.made}
        return fields

    def update_outer(self, view: View, message: Any) -> None:
        """Record the fields of a message from the parent that describe the rest of the tree."""
        if not math.isnan(message.minimum):
            self.outer_minimum = message.minimum
        if self.parameters.by_largest and not math.isnan(message.largest):
            self.outer_largest = message.largest
        known = -1 if self.copy is None else self.copy.made
        if self.parameters.by_root and message.made > known:
            cells = message.cells.astype(np.uint32).reshape(view.environment.tree.shape)
            self.copy = RootCopy(message.made, message.release, cells)

    def renew_copy(self, view: View) -> None:
        """Copy, as the root, the summary of the tree without debts, if it covers all leaves.

        In a tree kept by messages, these are the leaves that the same summaries count: leaves below a node
        that has returned but not yet reported to its parent may be missing.
        """
        environment = view.environment
        children = [child for child in children_of(view.node) if not environment.has_left(child)]
        expected = sum(environment.leaves_below(child) for child in children)
        cells = [self.cells[side_of(child)] for child in children]
        known_cells = [each for each in cells if each is not None]
        releases = {self.release[side_of(child)] for child in children}
        if (
            not known_cells
            or len(known_cells) < len(cells)
            or sum(self.covers) < expected
            or (environment.tree.cell and len(releases) == 2)
        ):
            return
        self.copy = RootCopy(view.now_ns, max(releases), aggregate(known_cells))

    # -- the minimum stretch on its way down -----------------------------------------------------------------

    def on_heartbeat(self, view: View) -> None:
        """Spread the minimum stretch from the root."""
        if self.parameters.by_root:
            self.renew_copy(view)
        self.spread(view, in_full=True)

    def on_spread(self, view: View, message: Any) -> None:
        """Record the minimum stretch of the rest of the tree, and spread it further."""
        self.update_outer(view, message)
        if self.parameters.spread == "change":
            view.act()
        else:
            self.spread(view, in_full=True)

    def spread(self, view: View, in_full: bool = False) -> None:
        """Send each child router the minimum stretch of the rest of the tree, if it has changed."""
        if view.environment.has_left(view.node):
            return
        for side, child in enumerate(children_of(view.node)):
            if child < view.environment.tree.first_leaf and (in_full or self.has_news(view, side)):
                fields = self.outer_fields(view, side, in_full=True)
                view.send(child, "spread", **fields)

    def has_news(self, view: View, side: int) -> bool:
        """Return whether the minimum, largest minimum or copy last sent to a child is outdated."""
        if min(self.outer(view), self.minimum[1 - side]) != self.sent_minimum[side]:
            return True
        if self.copy is not None and self.copy.made > self.sent_copy[side]:
            return True
        largest = max(self.outer_largest, self.largest[1 - side])
        return bool(self.parameters.by_largest and largest != self.sent_largest[side])


def empty_outer_fields(parameters: Any) -> dict[str, Any]:
    """Return the fields about the rest of the tree for a message without this information."""
    fields: dict[str, Any] = {"minimum": math.nan}
    if parameters.by_largest:
        fields["largest"] = math.nan
    if parameters.by_root:
        fields |= {"cells": NO_CELLS, "release": 0.0, "made": -1}
    return fields


def _is_equal(one: Availability, other: Availability) -> bool:
    return one[:-1] == other[:-1] and np.array_equal(one.cells, other.cells)
