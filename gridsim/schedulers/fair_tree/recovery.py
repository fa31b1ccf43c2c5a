"""What the fair tree does when machines fail: tasks are submitted again, routers move, leaves come and go.

A failed machine loses its leaf's tasks and its routers' knowledge.  Its routers are out of the tree until
the tree has been repaired, which takes no time in the paper.  Then they are on the next machine by id that is
up, itself if it is back, and hear anew from their children.  The parent counts on a leaf or a router that is
gone no longer once it knows.  The submitters' records survive; where a submitting machine is away, the next
one up acts for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.fair_tree.summary_tree import SummaryTree
from gridcore.queues.task_queues import TaskQueues
from gridsim.engine.engine import TIMER
from gridsim.scheduling.contract import FAULT_PRIORITY, Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds
from gridsim.support.state import Stateful

#: So often in a row is chance; and the part of a period by which each later submission is moved.
_PATIENCE = 8
_GOLDEN = (5**0.5 - 1) / 2


class Recovery(Stateful):
    """The part of a fair tree policy that only failures need.

    submit : called with applications and tasks that are to be submitted again.
    detection : s until a failure is noticed; None for the next multiple of `heartbeat` (s).
    repair : s that the routers of a machine that failed are out of the tree.
    resubmitted : int64[applications], tasks submitted again so far.
    stand_in : int64[machines], who acts for a machine: the machine itself if it is up, else the next one.
    host : int64[routers], the machine on which each sits, or sat when it left the tree.
    """

    STATE = (
        "resubmitted", "stand_in", "host", "losses", "postponed", "last_lost", "in_a_row", "noticed_at",
        "repaired_at",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        tree: SummaryTree,
        queues: TaskQueues,
        submit: Callable[[Integers, Integers], None],
        *,
        heartbeat: float,
        detection: float | None,
        repair: float,
    ) -> None:
        self.run, self.tree, self.queues, self.submit = run, tree, queues, submit
        self.period = nanoseconds(heartbeat)
        self.delay = None if detection is None else nanoseconds(detection)
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.repair = nanoseconds(repair)
        self.stand_in = np.arange(len(run.speeds))
        self.host = np.arange(tree.first_leaf)
        # tasks lost, by the instant at which that is noticed, and those that wait for another moment
        self.losses: dict[int, dict[int, int]] = {}
        self.postponed: dict[int, dict[int, int]] = {}
        # of each application how many were lost last time, and how often in a row it was as many
        self.last_lost = np.zeros(len(run.applications), np.int64)
        self.in_a_row = np.zeros(len(run.applications), np.int64)
        # when the last failure of a machine is noticed, and its routers are elsewhere
        self.noticed_at = np.full(len(run.speeds), -1, np.int64)
        self.repaired_at = np.full(len(run.speeds), -1, np.int64)
        # after the failures of the instant: else one that comes with each heartbeat (a trace that repeats may
        # have it) takes what has just been submitted again, forever
        for priority, (kind, handler) in enumerate(
            {"repaired": self.repaired, "absent": self.absent, "resubmit": self.resubmit}.items(), 1
        ):
            run.engine.on(kind, handler, priority=FAULT_PRIORITY + priority, phase=TIMER)

    def _notice(self) -> int:
        """When what happens now will be noticed."""
        now = self.run.engine.now
        return (now // self.period + 1) * self.period if self.delay is None else now + self.delay

    # -- tasks --------------------------------------------------------------------------------------------

    def lose(self, applications: Integers, tasks: Integers) -> None:
        """These tasks have been lost now."""
        if len(applications):
            self._book(self._notice(), applications, tasks)

    def lose_requests(self, nodes: Integers, applications: Integers, tasks: Integers) -> None:
        """Requests for these tasks were lost on their way to `nodes`.

        Those to a router that is out of the tree are not submitted again before it is back: without a delay
        they would be lost again at the same instant, for ever.
        """
        due = np.full(len(nodes), self._notice())
        routers = np.flatnonzero(nodes < self.tree.first_leaf)
        due[routers] = np.maximum(due[routers], self.repaired_at[self.host[nodes[routers]]])
        for at in np.unique(due).tolist():
            self._book(at, applications[due == at], tasks[due == at])

    def _book(self, due: int, applications: Integers, tasks: Integers) -> None:
        if due not in self.losses:
            self.losses[due] = {}
            self.run.engine.at(due, "resubmit")
        lost = self.losses[due]
        for application, count in zip(applications.tolist(), tasks.tolist(), strict=True):
            lost[application] = lost.get(application, 0) + count

    def resubmit(self, _: list[int]) -> None:
        """What was lost is submitted again: one request for each application, with its release and size."""
        now = self.run.engine.now
        if not self.run.up.any():
            return  # left until somebody is back
        due = self.postponed.pop(now, {})
        for application, tasks in self.losses.pop(now, {}).items():
            if (later := self._out_of_step(application, tasks)) > now:
                waiting = self.postponed.setdefault(later, {})
                waiting[application] = waiting.get(application, 0) + tasks
                self.run.engine.at(later, "resubmit")
            else:
                due[application] = due.get(application, 0) + tasks
        if due:
            applications, counts = np.array(sorted(due.items()), np.int64).T
            self.resubmitted[applications] += counts
            self.submit(applications, counts)

    def _out_of_step(self, application: int, tasks: int) -> int:
        """When to submit lost tasks again: now, unless failures are in step with that.

        Where they come soon after each heartbeat, as in a trace whose length divides it, what is submitted at
        heartbeats is lost forever.  So if all that is left of an application has been lost so many times in a
        row, it is submitted at moments spread over the time between two heartbeats.
        """
        now = self.run.engine.now
        self.in_a_row[application] = (self.in_a_row[application] + 1) * (self.last_lost[application] == tasks)
        self.last_lost[application] = tasks
        if (times := int(self.in_a_row[application])) < _PATIENCE:
            return now
        self.queues.catch_up(now)
        left = self.run.applications.tasks[application] - self.queues.totals()["completed"][application]
        if left != tasks:
            self.in_a_row[application] = 0
            return now
        return now + int(self.period * (times * _GOLDEN % 1.0))

    def _catch_up(self) -> None:
        """What was due while nobody was there to submit it is due now."""
        now = self.run.engine.now
        for waiting in (self.losses, self.postponed):
            for due in sorted(due for due in waiting if due < now):
                for application, tasks in waiting.pop(due).items():
                    again = waiting.setdefault(now, {})
                    again[application] = again.get(application, 0) + tasks
                self.run.engine.at(now, "resubmit")

    # -- machines -----------------------------------------------------------------------------------------

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """Machines fail and come back."""
        engine, tree = self.run.engine, self.tree
        first_leaf = tree.first_leaf
        _, applications, tasks = self.queues.fail(failed, engine.now)
        self.lose(applications, tasks)

        up = self.run.up
        gone = failed[~up[failed]]
        returned = np.setdiff1d(back, failed, assume_unique=True)
        reset = np.setdiff1d(failed, gone, assume_unique=True)
        if len(gone) or len(returned):
            self.stand_in = _next_up(up)
            self._catch_up()
            tree.silence(gone + first_leaf)
        if len(failed):
            self.noticed_at[failed], self.repaired_at[failed] = self._notice(), engine.now + self.repair
            engine.at(self._notice(), "absent")
            if self.repair:
                engine.at(engine.now + self.repair, "repaired")
        tree.reset(np.concatenate((reset, returned)) + first_leaf)
        engine.touch("report", np.concatenate((reset, returned)) + first_leaf)
        self._settle()

    def repaired(self, _: list[int]) -> None:
        """Routers that were on machines that have failed are in the tree again."""
        self._settle()

    def _settle(self) -> None:
        """Routers leave the tree, or go where they belong; those that do, or come back, begin anew."""
        engine, links, host = self.run.engine, self.run.network.links, self.host
        gone = self.repaired_at[host] > engine.now
        self.host = np.where(gone, host, self.stand_in[: len(host)])
        begin = np.flatnonzero((self.host != host) | (self.repaired_at[host] == engine.now))
        links.detach(np.flatnonzero(gone))
        links.move(begin, self.host[begin])
        self.tree.silence(np.flatnonzero(gone))
        self.tree.reset(begin)
        engine.touch("report", np.concatenate((2 * begin + 1, 2 * begin + 2)))

    def absent(self, _: list[int]) -> None:
        """Machines have been away for so long that it is known."""
        now = self.run.engine.now
        known = self.noticed_at == now
        routers = np.flatnonzero((known & (self.repaired_at > now))[self.host])
        nodes = np.concatenate((routers, np.flatnonzero(known & ~self.run.up) + self.tree.first_leaf))
        self.tree.leave(nodes)
        self.run.engine.touch("report", (nodes[nodes > 0] - 1) // 2)


def _next_up(up: NDArray[Any]) -> Integers:
    """For each machine itself if it is up, else the next one by id that is (after the last, the first).

    Where nobody is up, each stands for itself.
    """
    alive = np.flatnonzero(up)
    if not len(alive):
        return np.arange(len(up))
    found = np.searchsorted(alive, np.arange(len(up)))
    return alive[found % len(alive)]
