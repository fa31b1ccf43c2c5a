"""What submitters know of their tasks in a fair tree that is kept by messages, and what is really lost.

A submitter learns of its tasks only by what leaves report.  Tasks of which it knows neither that they are
done, nor on which leaf they are, are missing after a while, and it submits them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gridsim.schedulers.fair_tree.bags import Bags
from gridsim.scheduling.contract import Run
from gridsim.support.clock import NEVER
from gridsim.support.state import Stateful, kept_in_checkpoints


@kept_in_checkpoints
@dataclass
class Record:
    """What the submitter of an application knows of its tasks.

    Parameters
    ----------
    total
        Tasks submitted.
    since
        ns, when tasks of it were submitted last.
    done
        (machine, when its life began, ns) -> tasks that it has completed in that life.
    left
        Machine -> when its life began, the tasks that it had not completed when it reported last, and when
        that was, ns.
    """

    total: int = 0
    since: int = -NEVER
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    left: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def missing(self) -> int:
        """Return how many tasks are neither known to be done nor known to be on a leaf."""
        on_leaves = sum(tasks for _, tasks, _ in self.left.values())
        return max(0, self.total - sum(self.done.values()) - on_leaves)

    def report(self, machine: int, life: int, left: int, done: int, now: int) -> int:
        """Note a report of a leaf; return how many tasks there were lost in a failure that it shows."""
        before = self.left.get(machine, (0, 0, 0))
        if life < before[0]:  # sent before a failure of which is known
            return 0
        self.done[machine, life] = max(done, self.done.get((machine, life), 0))
        self.left[machine] = life, left, now
        return before[1] if life > before[0] else 0

    def fail(self, machine: int, life: int, now: int) -> int:
        """Note that a leaf began a life with no tasks, unless it has reported in that; see `report`."""
        known = self.left.get(machine, (0, 0, 0))[0]
        return self.report(machine, life, 0, 0, now) if life > known else 0

    def presume(self, silent: int) -> int:
        """Give up tasks on leaves that have been silent since `silent` (ns); return how many."""
        lost = [machine for machine, (_, tasks, heard) in self.left.items() if tasks and heard < silent]
        return sum(self.left.pop(machine)[1] for machine in lost)


class Records(Stateful):
    """The records of all submitters, which survive failures, and the tasks that are really lost.

    A machine that is down submits nothing: the next machine by id that is up acts for it, and leaves send it
    their reports.  That is so in the ideal tree, too.

    Attributes
    ----------
    lost
        Tasks of each application that failures have destroyed and that nobody has submitted again yet.
    doubted
        The most tasks of each application that were missing at once and were not lost, but done, or under
        way: what a submitter would have had run twice.
    """

    STATE = ("records", "lost", "doubted")

    def __init__(
        self, run: Run, bags: Bags, heartbeat: int, missed: int, submit: Callable[[int, int, int], None]
    ) -> None:
        """Make empty records.

        Parameters
        ----------
        heartbeat
            ns; a leaf that does not report for `missed` of them is presumed to have failed.
        submit
            Called with an application, how many of its tasks are to be submitted again, and when, ns.
        """
        self.run, self.bags, self.submit = run, bags, submit
        self.heartbeat, self.silence = heartbeat, missed * heartbeat
        self.records: dict[int, Record] = {}
        self.lost = [0] * len(run.applications)
        self.doubted = [0] * len(run.applications)

    def acting(self, machine: int) -> int:
        """Return the machine that acts for a submitter: itself if it is up, else the next by id that is."""
        up = self.run.up
        steps = (step for step in range(len(up)) if up[(machine + step) % len(up)])
        return (machine + next(steps, 0)) % len(up)

    def of(self, application: int) -> Record:
        """Return the record of an application; `application` may be a bag of its lost tasks."""
        return self.records.setdefault(int(self.bags.whose[application]), Record())

    def watch(self, application: int, now: int) -> None:
        """Seek tasks on leaves that are silent, and those of which nothing was heard for a heartbeat."""
        record = self.of(application)
        silent = record.presume(now - self.silence)
        long_ago = now - record.since >= self.heartbeat
        self.seek(application, record.missing() if long_ago else silent, now)

    def seek(self, application: int, missing: int, now: int) -> None:
        """Submit tasks again that seem to be lost, as far as they are."""
        whose = int(self.bags.whose[application])
        found = min(missing, self.lost[whose])
        self.lost[whose] -= found
        self.doubted[whose] = max(self.doubted[whose], missing - found)
        if found:
            self.submit(whose, found, now)
