"""The environment of a fair tree maintained by messages: submitters' records, and the tasks really lost.

A submitter learns of its tasks only from reports of leaves.  A task is missing if for some time the submitter
has known neither that it is done nor on which leaf it is.  The submitter submits missing tasks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.engine.engine import TIMER
from gridsim.schedulers.fair_tree.environment import TreeEnvironment
from gridsim.schedulers.fair_tree.member import BELOW_BYTES, COMPLETION, RESIGNATION, TAG_BYTES, TAKEOVER
from gridsim.schedulers.fair_tree.tree import Tree, parent_of
from gridsim.scheduling.contract import FAULT_PRIORITY, Outcome, Run
from gridsim.scheduling.overlays import subtree_sums
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.state import kept_in_checkpoints


@kept_in_checkpoints
@dataclass
class Record:
    """The record of a submitter about the tasks of an application.

    Parameters
    ----------
    total
        Number of tasks submitted.
    since
        Time at which tasks of the application were submitted last, ns.
    done
        (machine, beginning of an incarnation in ns) -> number of tasks that it completed in the incarnation.
    left
        Machine -> beginning of its incarnation (ns), number of uncompleted tasks at its last report,
        and time of that report (ns).
    """

    total: int = 0
    since: int = -NEVER
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    left: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def missing(self) -> int:
        """Return the number of tasks that are neither known to be done nor known to be on a leaf."""
        on_leaves = sum(tasks for _, tasks, _ in self.left.values())
        return max(0, self.total - sum(self.done.values()) - on_leaves)

    def report(self, machine: int, incarnation: int, left: int, done: int, now: int) -> int:
        """Record a report of a leaf; return the number of tasks lost in a failure that the report reveals."""
        last_report = self.left.get(machine, (0, 0, 0))
        if incarnation < last_report[0]:  # the report was sent before a failure that is already known
            return 0
        self.done[machine, incarnation] = max(done, self.done.get((machine, incarnation), 0))
        self.left[machine] = incarnation, left, now
        return last_report[1] if incarnation > last_report[0] else 0

    def fail(self, machine: int, incarnation: int, now: int) -> int:
        """Record that a leaf began an incarnation without tasks, and return the number of tasks lost.

        If the leaf has already reported in this incarnation, nothing changes.
        """
        known = self.left.get(machine, (0, 0, 0))[0]
        return self.report(machine, incarnation, 0, 0, now) if incarnation > known else 0

    def presume(self, silent: int) -> int:
        """Presume tasks lost on leaves that have been silent since `silent` (ns); return their number."""
        lost = [machine for machine, (_, tasks, heard) in self.left.items() if tasks and heard < silent]
        return sum(self.left.pop(machine)[1] for machine in lost)


class TreeByMessages(TreeEnvironment):
    """The records of all submitters, and the tasks that are really lost.

    Attributes
    ----------
    records
        The record of each submitted application.
    lost
        Number of tasks of each application that were lost in failures and have not been submitted again yet.
    doubted
        Maximum number of tasks of each application that were missing at once although they were done or under
        way; a submitter on its own would have run them twice.
    due
        Application -> number of tasks that are submitted again at this instant.
    vacancies
        (router, ns) of routers whose machine has failed.
    has_failed
        Whether each machine has failed.
    """

    reason = (
        "the record of a submitter survives its failure, and while it is down the next machine that is up "
        "acts for it, as in the ideal tree; only the model knows which of the missing tasks are lost"
    )
    timers: ClassVar[dict[str, str]] = {
        "heartbeat": "heartbeat",
        "beat": "look-around",
        "release_cell": "refresh",
        "refresh": "refresh",
    }
    STATE = "bags", "records", "lost", "doubted", "due", "vacancies", "has_failed"
    central = "submit_tasks", "report_tasks", "fail_tasks", "watch_all"

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.heartbeat = nanoseconds(parameters.heartbeat)
        self.leaves, self.speed = subtree_sums(np.ones(len(run.speeds))), subtree_sums(run.speeds)
        self.records: dict[int, Record] = {}
        self.lost, self.doubted = [0] * len(run.applications), [0] * len(run.applications)
        self.due: dict[int, int] = {}
        self.vacancies: list[tuple[int, int]] = []
        self.has_failed = [False] * len(run.speeds)

    def make_tree(self) -> Tree:
        """Return the common knowledge of all nodes."""
        summary_bytes, more = self.parameters.summary_bytes, TAG_BYTES + BELOW_BYTES
        return Tree.of(self.parameters, self.run, lambda cells: summary_bytes(cells) + more)

    def attach(self, adapter: Any) -> None:
        """Register the handler that submits tasks again after the failures of an instant."""
        super().attach(adapter)
        self.run.engine.on("resubmit", self._resubmit, priority=FAULT_PRIORITY + 1, phase=TIMER)

    def of_node(self, node: int) -> MachineView:
        """Return the environment of a machine."""
        return MachineView(self, node)

    # -- submitters -----------------------------------------------------------------------------------------

    def of(self, application: int) -> Record:
        """Return the record of an application, which may be given by a bag of its lost tasks."""
        return self.records.setdefault(int(self.bags.whose[application]), Record())

    def acting(self, application: int) -> int:
        """Return the machine that acts for a submitter: itself or, if it is down, the next up machine."""
        machine, up = self.submitter(application) - self.tree.first_leaf, self.run.up
        steps = (step for step in range(len(up)) if up[(machine + step) % len(up)])
        return (machine + next(steps, 0)) % len(up)

    def submit_tasks(self, application: int, tasks: int, now: int) -> None:
        """Record that a submitter has submitted `tasks` new tasks at `now` (ns), or 0 and its lost tasks."""
        record = self.of(application)
        record.total, record.since = record.total + tasks, now

    def report_tasks(
        self, application: int, machine: int, incarnation: int, left: int, done: int, now: int
    ) -> None:
        """Record how many tasks a leaf has done in an incarnation and has left; resubmit lost tasks."""
        self.seek(application, self.of(application).report(machine, incarnation, left, done, now))

    def fail_tasks(self, application: int, machine: int, incarnation: int, now: int) -> None:
        """Record that a leaf has lost its tasks, and submit them again."""
        self.seek(application, self.of(application).fail(machine, incarnation, now))

    def watch_all(self, machine: int) -> None:
        """Submit missing tasks again for all submitters for which a machine acts."""
        for application in sorted(self.records):
            if self.acting(application) == machine:
                self.watch(application)

    def watch(self, application: int) -> None:
        """Submit tasks again that are on silent leaves or have not been reported for a heartbeat."""
        record, now = self.of(application), self.adapter.now
        silent = record.presume(now - self.parameters.missed * self.heartbeat)
        long_ago = now - record.since >= self.heartbeat
        self.seek(application, record.missing() if long_ago else silent)

    def seek(self, application: int, missing: int) -> None:
        """Resubmit missing tasks that are really lost."""
        whose, now = int(self.bags.whose[application]), self.adapter.now
        resubmitted = min(missing, self.lost[whose])
        self.lost[whose] -= resubmitted
        self.doubted[whose] = max(self.doubted[whose], missing - resubmitted)
        if resubmitted:
            self.due[whose] = self.due.get(whose, 0) + resubmitted
            self.run.engine.at(now, "resubmit")
            self.adapter.core.wake(now)

    # -- lost tasks -----------------------------------------------------------------------------------------

    def task_lost(self, application: int, tasks: int, node: int) -> None:
        """Record tasks lost in a queue, on their way, or because no machine is up to submit them."""
        record = self.of(application)
        if record.total == 0:
            record.total, record.since = tasks, self.adapter.now
        self.lost[int(self.bags.whose[application])] += tasks

    def _resubmit(self, _: list[int]) -> None:
        due, self.due = self.due, {}
        if not due:
            return
        if not self.run.up.any():
            for application, tasks in due.items():
                self.lost[application] += tasks
            return
        applications, counts = np.array(sorted(due.items()), np.int64).T.copy()
        self.adapter.resubmitted[applications] += counts
        self.submit(applications, counts)

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Record which routers have lost their machine."""
        now = self.run.engine.now
        for machine in failed.tolist():
            self.vacancies += [(router, now) for router in self.routers_on(machine)]
            self.has_failed[machine] = True

    def routers_on(self, machine: int) -> list[int]:
        """Return the routers on a machine, from its memory or, in another process, from its rows."""
        routers = {machine} if machine < self.tree.first_leaf else set()
        if self.adapter.is_local(machine):
            member = self.adapter.nodes[machine]
            return sorted(member.routers if member.born >= 0 else routers)
        for router, by, _, event in self.adapter.notes.rows["seats"]:
            if event == TAKEOVER and by == machine:
                routers.add(router)
            elif event == TAKEOVER or (event == RESIGNATION and by == machine):
                routers.discard(router)
        return sorted(routers)

    # -- the record of decisions, and the end ---------------------------------------------------------------

    def deciding(self, node: int) -> int:
        """Return the leaf or router that is deciding on the machine `node`."""
        return int(self.adapter.nodes[node].sending_node)

    def machine_of(self, node: int, by: int) -> int:
        """Return the machine on which a leaf or router is, as far as machine `by` knows."""
        return int(self.adapter.nodes[by].host(node))

    def complete(self, outcome: Outcome) -> None:
        """Replace the outcome by the outcome of a fair tree maintained by messages, with its repairs."""
        seats = outcome.tables["seats"]
        self.report(outcome, None, self.adapter.resubmitted)
        del outcome.tables["traffic"]  # nodes are machines, which have no level
        outcome.tables["repairs"] = repairs(seats, self.vacancies, self.tree.first_leaf)
        outcome.facts["tasks_doubted"] = sum(self.doubted)


class MachineView:
    """The information that a machine of the tree has without a message (`View.environment`).

    Attributes
    ----------
    tree
        The common knowledge of all nodes.
    submitter
        Function that returns the leaf of the submitter of an application, or of a bag of lost tasks.
    acting
        Function that returns the machine that acts for that submitter now.
    """

    def __init__(self, environment: TreeByMessages, machine: int) -> None:
        self._environment, self._machine = environment, machine
        self.tree, self.submitter, self.acting = environment.tree, environment.submitter, environment.acting

    @property
    def has_failed(self) -> bool:
        """True if this machine has failed, even if its disk was still empty."""
        return self._environment.has_failed[self._machine]

    def whole_of(self, application: int) -> int:
        """Return the application of which `application` is a bag of lost tasks, or itself."""
        return int(self._environment.bags.whose[application])

    def leaves_below(self, node: int) -> int:
        """Return the number of leaves below a node at the beginning."""
        return int(self._environment.leaves[node])

    def speed_below(self, node: int) -> float:
        """Return the total speed of the leaves below a node at the beginning, Mflop/s."""
        return self._environment.speed[node]

    # -- acting for submitters -------------------------------------------------------------------------------

    def submit(self, application: int, tasks: int, now: int) -> None:
        """Record that a submitter has submitted `tasks` new tasks at `now` (ns), or 0 and its lost tasks."""
        self._environment.tell("submit_tasks", application, tasks, now)

    def report(
        self, application: int, machine: int, incarnation: int, left: int, done: int, now: int
    ) -> None:
        """Record how many tasks a leaf has done in an incarnation and has left; resubmit lost tasks."""
        self._environment.tell("report_tasks", application, machine, incarnation, left, done, now)

    def fail(self, application: int, machine: int, incarnation: int, now: int) -> None:
        """Record that a leaf has lost its tasks, and submit them again."""
        self._environment.tell("fail_tasks", application, machine, incarnation, now)

    def watch(self) -> None:
        """Submit missing tasks again, for the submitters for which this machine acts."""
        self._environment.tell("watch_all", self._machine)


def repairs(
    seats: dict[str, NDArray[Any]], vacancies: list[tuple[int, int]], routers: int
) -> dict[str, NDArray[Any]]:
    """Return the durations of repairs: one row per router whose machine failed, ordered by time and router.

    Parameters
    ----------
    seats
        Rows of the table ``seats``, which machines write.
    vacancies
        Router and time (ns) of each failure.
    routers
        Number of routers.
    """
    events: list[list[tuple[int, int]]] = [[] for _ in range(routers)]
    places: dict[tuple[int, float], int] = {}
    columns = (seats[name].tolist() for name in ("router", "time", "what", "machine"))
    for router, time, event, machine in zip(*columns, strict=True):
        events[router].append((time, event))
        if event == TAKEOVER:
            places[router, time] = machine

    def first(router: int, kind: int, since: float) -> float:
        """Return the time of the first event at or after `since`, ns; NaN if there is none."""
        return next((time for time, event in events[router] if event == kind and time >= since), np.nan)

    rows = []
    for router, failed in sorted(vacancies, key=lambda vacancy: vacancy[::-1]):
        takeover = first(router, TAKEOVER, failed)
        parent = parent_of(router) if router else router
        end = np.maximum(first(router, COMPLETION, takeover), first(parent, COMPLETION, takeover))
        rows.append((router, failed / NS, places.get((router, takeover), -1), takeover / NS, end / NS))
    kinds = {"router": int, "failed": float, "machine": int, "taken": float, "whole": float}
    return {name: np.array([row[k] for row in rows], kind) for k, (name, kind) in enumerate(kinds.items())}
