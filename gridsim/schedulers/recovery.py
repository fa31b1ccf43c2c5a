"""What the fair tree does when machines fail: tasks are submitted again, routers move, leaves come and go.

A failed machine loses its leaf's tasks and its routers' knowledge.  If it is back at once, its routers hear
anew from their children and nothing else changes.  If it stays away, its routers go to the next machine by
id that is up, and its father counts on it no longer once it knows.  The repair of the tree itself takes no
time, as in the paper.  The submitters' books survive; where a submitting machine is away, the next one up
acts for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.queues import TaskQueues
from gridcore.tree import SummaryTree
from gridsim.engine import TIMER, nanoseconds
from gridsim.scheduler import FAULT_PRIORITY, Run
from gridsim.states import Stateful

Integers = NDArray[np.int64]

#: So often in a row is chance; and the part of a period by which each later submission is moved.
_PATIENCE = 8
_GOLDEN = (5**0.5 - 1) / 2


class Recovery(Stateful):
    """The part of a fair tree policy that only failures need.

    submit : called with applications and tasks that are to be submitted again.
    detection : s until a failure is noticed; None for the next multiple of `heartbeat` (s).
    resubmitted : int64[applications], tasks submitted again so far.
    stand_in : int64[machines], who acts for a machine: the machine itself if it is up, else the next one.
    """

    STATE = ("resubmitted", "stand_in", "losses", "postponed", "last_lost", "in_a_row", "noticed_at")

    def __init__(
        self,
        run: Run,
        tree: SummaryTree,
        queues: TaskQueues,
        submit: Callable[[Integers, Integers], None],
        *,
        heartbeat: float,
        detection: float | None,
    ) -> None:
        self.run, self.tree, self.queues, self.submit = run, tree, queues, submit
        self.period = nanoseconds(heartbeat)
        self.delay = None if detection is None else nanoseconds(detection)
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        self.stand_in = np.arange(len(run.speeds))
        # tasks lost, by the instant at which that is noticed, and those that wait for another moment
        self.losses: dict[int, dict[int, int]] = {}
        self.postponed: dict[int, dict[int, int]] = {}
        # of each application how many were lost last time, and how often in a row it was as many
        self.last_lost = np.zeros(len(run.applications), np.int64)
        self.in_a_row = np.zeros(len(run.applications), np.int64)
        self.noticed_at = np.full(len(run.speeds), -1, np.int64)
        # after the failures of the instant: else one that comes with each heartbeat (a trace that repeats may
        # have it) takes what has just been submitted again, forever
        run.engine.on("absent", self.absent, priority=FAULT_PRIORITY + 1, phase=TIMER)
        run.engine.on("resubmit", self.resubmit, priority=FAULT_PRIORITY + 2, phase=TIMER)

    def _notice(self) -> int:
        """When what happens now will be noticed."""
        now = self.run.engine.now
        return (now // self.period + 1) * self.period if self.delay is None else now + self.delay

    # -- tasks --------------------------------------------------------------------------------------------

    def lose(self, applications: Integers, tasks: Integers) -> None:
        """These tasks have been lost now."""
        if len(applications):
            self._book(self._notice(), applications, tasks)

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
        before = self.stand_in
        if len(gone) or len(returned):
            self.stand_in = _next_up(up)
            self._catch_up()
            tree.silence(gone + first_leaf)
            tree.join(returned + first_leaf)
            self.noticed_at[gone] = self._notice()
            for at in np.unique(self.noticed_at[gone]).tolist():
                engine.at(at, "absent")
        # routers that sit elsewhere from now on, or sat on a machine that failed, begin anew
        host = self.stand_in[:first_leaf]
        moved = np.flatnonzero(host != before[:first_leaf])
        self.run.network.links.move(moved, host[moved])
        anew = np.union1d(moved, np.flatnonzero(np.isin(before[:first_leaf], failed)))
        tree.reset(np.concatenate((anew, reset + first_leaf)))
        report = [2 * anew + 1, 2 * anew + 2, reset + first_leaf, returned + first_leaf]
        engine.touch("report", np.concatenate(report))

    def absent(self, _: list[int]) -> None:
        """Machines have been away for so long that it is known."""
        known = np.flatnonzero((self.noticed_at == self.run.engine.now) & ~self.run.up)
        leaves = known + self.tree.first_leaf
        self.tree.leave(leaves)
        if self.tree.first_leaf:
            self.run.engine.touch("report", (leaves - 1) // 2)


def _next_up(up: NDArray[Any]) -> Integers:
    """For each machine itself if it is up, else the next one by id that is (after the last, the first).

    Where nobody is up, each stands for itself.
    """
    alive = np.flatnonzero(up)
    if not len(alive):
        return np.arange(len(up))
    found = np.searchsorted(alive, np.arange(len(up)))
    return alive[found % len(alive)]
