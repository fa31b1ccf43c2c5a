"""Recovery of the fair tree from failures: tasks are resubmitted, routers move, leaves leave and return.

A failed machine loses the tasks of its leaf and the knowledge of its routers.  Its routers are out of the
tree until the tree has been repaired, which takes no time in the paper.  Then they are on the same machine if
it is up again, otherwise on the next machine by id that is up, and their children report to them again.  The
parent stops counting on a failed leaf or router once it has detected the failure.  The records of submitters
survive; while a submitting machine is down, the next machine that is up acts for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import TIMER
from gridsim.scheduling.contract import FAULT_PRIORITY, Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful

#: Equal losses count as coincidence until they have repeated `_PATIENCE` times in a row.  After that, each
#: further submission is delayed by another `_GOLDEN` heartbeats, modulo one heartbeat.
_PATIENCE = 8
_GOLDEN = (5**0.5 - 1) / 2


class Members(Protocol):
    """The nodes of a tree, which can leave it and return, as in `SummaryTree`."""

    @property
    def first_leaf(self) -> int: ...
    def silence(self, nodes: Any) -> None: ...
    def reset(self, nodes: Any) -> None: ...
    def leave(self, nodes: Any) -> None: ...


class Recovery(Stateful):
    """The part of a fair tree's environment that is needed only in runs with failures.

    Parameters
    ----------
    tree
        The tree that nodes leave and to which they return.
    submit
        Function called with applications and numbers of tasks that must be submitted again.
    touch
        Function called with nodes that must report to their parents.
    detection
        Time until a failure is detected, s; None: detected at the next multiple of `heartbeat` (s).
    repair
        Time that the routers of a failed machine stay out of the tree, s.

    Attributes
    ----------
    resubmitted
        int64[applications], number of tasks submitted again so far.
    substitute
        int64[machines], the machine that acts for each: itself if it is up, else the next one that is up.
    host
        int64[routers], the machine of each router, or its last machine if it has left the tree.
    """

    STATE = (
        "resubmitted", "substitute", "host", "losses", "postponed", "last_lost", "consecutive_losses",
        "noticed_at", "repaired_at",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        tree: Members,
        queues: TaskQueues,
        submit: Callable[[Integers, Integers], None],
        touch: Callable[[Integers], None],
        *,
        heartbeat: float,
        detection: float | None,
        repair: float,
    ) -> None:
        self.run, self.tree, self.queues, self.submit, self.touch = run, tree, queues, submit, touch
        self.period = nanoseconds(heartbeat)
        self.delay = None if detection is None else nanoseconds(detection)
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.repair = nanoseconds(repair)
        self.substitute = np.arange(len(run.speeds))
        self.host = np.arange(tree.first_leaf)
        # time at which a loss is detected (ns) -> application -> number of tasks lost; and the same for tasks
        # whose submission was postponed, by the time at which they are due
        self.losses: dict[int, dict[int, int]] = {}
        self.postponed: dict[int, dict[int, int]] = {}
        # for each application: number of tasks lost last, and how often in a row it has been the same
        self.last_lost = np.zeros(len(run.applications), np.int64)
        self.consecutive_losses = np.zeros(len(run.applications), np.int64)
        # for each machine: when its last failure is detected, and when its routers return to the tree, ns
        self.noticed_at = np.full(len(run.speeds), -1, np.int64)
        self.repaired_at = np.full(len(run.speeds), -1, np.int64)
        # These events come after the failures of their instant.  Otherwise failures at each heartbeat, as in
        # a repeated trace, would destroy the tasks that have just been submitted again, forever.
        for priority, (kind, handler) in enumerate(
            {
                "repaired": self.return_routers,
                "absent": self.remove_absent,
                "resubmit": self.resubmit,
            }.items(),
            1,
        ):
            run.engine.on(kind, handler, priority=FAULT_PRIORITY + priority, phase=TIMER)

    def _detection_time(self, now: int) -> int:
        """Return the time at which a failure at `now` will be detected, ns."""
        return (now // self.period + 1) * self.period if self.delay is None else now + self.delay

    # -- tasks --------------------------------------------------------------------------------------------

    def lose(self, applications: Integers, tasks: Integers) -> None:
        """Record tasks that are lost now, to be submitted again when the loss is detected."""
        if len(applications):
            self._schedule_submission(self._detection_time(self.run.engine.now), applications, tasks)

    def lose_requests(self, nodes: Integers, applications: Integers, tasks: Integers, now: int) -> int:
        """Record tasks whose requests were lost `now` (ns) on their way to `nodes`.

        Returns when the first of them are submitted again, ns.

        If the request went to a router that is out of the tree, its tasks are not submitted again before the
        router has returned.  Without a delay they would be lost again at the same instant, forever.
        """
        due = np.full(len(nodes), self._detection_time(now))
        routers = np.flatnonzero(nodes < self.tree.first_leaf)
        due[routers] = np.maximum(due[routers], self.repaired_at[self.host[nodes[routers]]])
        for at in np.unique(due).tolist():
            self._schedule_submission(at, applications[due == at], tasks[due == at])
        return int(due.min())

    def _schedule_submission(self, due: int, applications: Integers, tasks: Integers) -> None:
        if due not in self.losses:
            self.losses[due] = {}
            self.run.engine.at(due, "resubmit")
        lost = self.losses[due]
        for application, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            lost[application] = lost.get(application, 0) + count

    def resubmit(self, _: list[int]) -> None:
        """Submit lost tasks again, with one request for each application.

        Tasks wait if no machine is up, or if their submission is postponed.
        """
        now = self.run.engine.now
        if not self.run.up.any():
            return  # they are submitted once a machine is up
        due = self.postponed.pop(now, {})
        for application, tasks in self.losses.pop(now, {}).items():
            if (later := self._submission_time(application, tasks)) > now:
                waiting = self.postponed.setdefault(later, {})
                waiting[application] = waiting.get(application, 0) + tasks
                self.run.engine.at(later, "resubmit")
            else:
                due[application] = due.get(application, 0) + tasks
        if due:
            applications, counts = np.array(sorted(due.items()), np.int64).T
            self.resubmitted[applications] += counts
            self.submit(applications, counts)

    def _submission_time(self, application: int, tasks: int) -> int:
        """Return when to submit lost tasks again, ns: now, unless failures coincide with submissions.

        Failures may occur soon after each heartbeat, as in a trace whose length divides the heartbeat.  Tasks
        that are submitted at heartbeats are then lost every time.  So if all remaining tasks of an
        application have been lost again `_PATIENCE` times in a row, they are submitted at times spread
        over the interval between two heartbeats.
        """
        now = self.run.engine.now
        self.consecutive_losses[application] = (self.consecutive_losses[application] + 1) * (
            self.last_lost[application] == tasks
        )
        self.last_lost[application] = tasks
        if (times := int(self.consecutive_losses[application])) < _PATIENCE:
            return now
        self.queues.catch_up(now)
        left = self.run.applications.tasks[application] - self.queues.totals()["completed"][application]
        if left != tasks:
            self.consecutive_losses[application] = 0
            return now
        return now + int(self.period * (times * _GOLDEN % 1.0))

    def _submit_overdue(self) -> None:
        """Schedule now the submissions that became due while no machine was up."""
        now = self.run.engine.now
        for waiting in (self.losses, self.postponed):
            for due in sorted(due for due in waiting if due < now):
                for application, tasks in waiting.pop(due).items():
                    resubmissions = waiting.setdefault(now, {})
                    resubmissions[application] = resubmissions.get(application, 0) + tasks
                self.run.engine.at(now, "resubmit")

    # -- machines -----------------------------------------------------------------------------------------

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Handle machines that fail and recover now."""
        engine, tree = self.run.engine, self.tree
        first_leaf = tree.first_leaf
        _, applications, tasks = self.queues.fail(failed, engine.now)
        self.lose(applications, tasks)

        up = self.run.up
        still_down = failed[~up[failed]]
        returning = np.setdiff1d(recovered, failed, assume_unique=True)
        reset = np.setdiff1d(failed, still_down, assume_unique=True)
        if len(still_down) or len(returning):
            self.substitute = _next_up(up)
            self._submit_overdue()
            tree.silence(still_down + first_leaf)
        if len(failed):
            notice = self._detection_time(engine.now)
            self.noticed_at[failed], self.repaired_at[failed] = notice, engine.now + self.repair
            engine.at(notice, "absent")
            if self.repair:
                engine.at(engine.now + self.repair, "repaired")
        tree.reset(np.concatenate((reset, returning)) + first_leaf)
        self.touch(np.concatenate((reset, returning)) + first_leaf)
        self._place_routers()

    def return_routers(self, _: list[int]) -> None:
        """Return routers of failed machines to the tree, after the duration of a repair."""
        self._place_routers()

    def _place_routers(self) -> None:
        """Remove routers from the tree, or move them to the machines that now act for theirs.

        A router that moves or returns starts without knowledge, and its children report to it again.
        """
        engine, links, host = self.run.engine, self.run.network.links, self.host
        is_detached = self.repaired_at[host] > engine.now
        self.host = np.where(is_detached, host, self.substitute[: len(host)])
        begin = np.flatnonzero((self.host != host) | (self.repaired_at[host] == engine.now))
        links.detach(np.flatnonzero(is_detached))
        links.move(begin, self.host[begin])
        self.tree.silence(np.flatnonzero(is_detached))
        self.tree.reset(begin)
        self.touch(np.concatenate((2 * begin + 1, 2 * begin + 2)))

    def remove_absent(self, _: list[int]) -> None:
        """Remove leaves and routers from the tree whose failures are detected now; their parents report."""
        now = self.run.engine.now
        is_detected = self.noticed_at == now
        routers = np.flatnonzero((is_detected & (self.repaired_at > now))[self.host])
        nodes = np.concatenate((routers, np.flatnonzero(is_detected & ~self.run.up) + self.tree.first_leaf))
        self.tree.leave(nodes)
        self.touch((nodes[nodes > 0] - 1) // 2)


def _next_up(up: NDArray[Any]) -> Integers:
    """Return for each machine itself if it is up, else the next machine by id that is up.

    The first machine follows the last one.  If no machine is up, each machine is returned for itself.
    """
    alive = np.flatnonzero(up)
    if not len(alive):
        return np.arange(len(up))
    positions = np.searchsorted(alive, np.arange(len(up)))
    return alive[positions % len(alive)]
