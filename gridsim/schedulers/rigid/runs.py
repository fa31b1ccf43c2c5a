"""The runs of rigid jobs on their machines: completed ones, and ones that failures or users cut off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsim.model.attributes import mean_distance
from gridsim.scheduling.contract import SCHEDULE, Outcome, Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful


class Runs(Stateful):
    """The runs of all jobs.

    A job that is placed begins at its start on all its machines, if none of them has failed by then.  If one
    fails later, the run is lost at that moment.  The other machines continue it in vain until a message stops
    them, or until its end, or until what it has reserved ends.

    Parameters
    ----------
    lasts
        int64[applications], ns that each job runs.

    Attributes
    ----------
    until
        int64[applications], ns, when what each job that is placed has reserved ends; `NEVER` without.
    over
        int64[applications], ns by which that was extended.
    extended, displaced
        Reservations that were extended, and jobs that these have displaced.
    """

    STATE = (
        "placed", "wrecks", "completed", "first_start", "end", "done", "used", "busy", "tasks", "interrupted",
        "rows", "apart", "cancelled", "freed", "until", "over", "extended", "displaced",
    )  # fmt: skip

    def __init__(self, run: Run, lasts: Integers) -> None:
        self.lasts, self.record = lasts, run.record
        jobs, machines = len(run.applications), len(run.speeds)
        # job -> (machines, start ns) of its run, which is to come or in progress
        self.placed: dict[int, tuple[Integers, int]] = {}
        # job -> its runs that have lost a machine and continue on others
        self.wrecks: dict[int, list[SimpleNamespace]] = {}
        self.completed = self.extended = self.displaced = 0
        self.until, self.over = np.full(jobs, NEVER), np.zeros(jobs, np.int64)
        self.first_start, self.end = np.full(jobs, -1, np.int64), np.full(jobs, -1, np.int64)
        self.done = np.zeros(jobs, np.int64)
        # job with a cut-off run -> machines on which it has run
        self.used: dict[int, set[int]] = {}
        self.busy, self.tasks = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
        self.interrupted = np.zeros(machines, np.int64)
        self.places = None if run.attributes is None else run.attributes.places
        # mean distance between two machines of the completed run, where machines have places; -1 before it
        self.apart = np.full(jobs, -1.0)
        # machine, application, tasks, start, end, completed
        self.rows: list[tuple[int, ...]] = []
        #: Whether the user of each job has cancelled it; None where users cancel no jobs.
        self.cancelled = None if run.applications.cancel_at is None else np.zeros(jobs, np.int64)
        # application, machine, start, end: what cancelled jobs had reserved and not used
        self.freed: list[tuple[int, ...]] = []

    def place(self, job: int, nodes: Integers, start: int, until: int = NEVER) -> int:
        """Let `job` run on `nodes` from `start` ns on, and return when it will end, ns.

        Parameters
        ----------
        until
            When what it has reserved ends, ns.
        """
        self.placed[job] = nodes, start
        self.until[job], self.over[job] = until, 0
        return start + int(self.lasts[job])

    def outlives(self, job: int) -> bool:
        """Return whether `job`, which is placed, will go on after what it has reserved."""
        return self.end_of(job) > int(self.until[job])

    def extend(self, job: int, slot: int) -> int:
        """Extend what `job` has reserved, which goes on; return until when, ns.

        It is extended by one slot (of `slot` ns) at first, then each time by twice as much as before: little
        for a job that is soon over, and seldom for one that goes on for long.
        """
        more = int(self.over[job]) + slot
        self.over[job] += more
        self.until[job] += more
        return int(self.until[job])

    def end_of(self, job: int) -> int:
        """Return when the run of `job` that is placed ends, ns."""
        return self.placed[job][1] + int(self.lasts[job])

    def finish(self, job: int) -> tuple[Integers, int]:
        """Complete the run of `job`, and return its machines and its start, ns."""
        nodes, start = self.placed.pop(job)
        end = start + int(self.lasts[job])
        self._begin(job, start)
        self.completed += 1
        self.end[job], self.done[job] = end, len(nodes)
        self.busy[nodes] += end - start
        self.tasks[nodes] += 1
        if job in self.used:
            self.used[job].update(nodes.tolist())
        self.note(job, nodes)
        return nodes, start

    def note(self, job: int, nodes: Integers) -> None:
        """Record how far apart the `nodes` of the completed run of `job` are, and its rows of a schedule."""
        if self.places is not None:
            self.apart[job] = mean_distance(self.places[np.sort(nodes)])
        if self.record:
            end = int(self.end[job])
            start = end - int(self.lasts[job])
            self.rows += [(node, job, 1, start, end, 1) for node in nodes.tolist()]

    def _begin(self, job: int, start: int) -> None:
        if self.first_start[job] < 0:
            self.first_start[job] = start

    # -- failures ---------------------------------------------------------------------------------------

    def wreck(self, job: int, node: int, attempt: int, now: int) -> None:
        """Handle the failure of `node` at `now` ns: the run of `job` is lost if it has begun.

        attempt : the number of this attempt to run it, by which `stop` knows it.
        The job stays in `placed`, since its other machines must still be released.
        """
        nodes, start = self.placed[job]
        end = self.end_of(job)
        if start < now < end:
            self._begin(job, start)
            self.used.setdefault(job, set())
            end = min(end, int(self.until[job]))
            wreck = SimpleNamespace(attempt=attempt, start=start, end=end, nodes=nodes.tolist())
            self.wrecks.setdefault(job, []).append(wreck)
            self.stop(job, node, attempt, now)

    def cut(self, job: int, now: int) -> None:
        """Cut off the run of `job` on all its machines at `now` ns."""
        nodes, start = self.placed.pop(job)
        if start >= now:
            return
        self._begin(job, start)
        self.used.setdefault(job, set())
        for node in nodes.tolist():
            self._cut(job, node, start, now)

    def stop(self, job: int, node: int, attempt: int, now: int) -> None:
        """Stop `node` at `now` ns if it still works on the lost run of this attempt to run `job`."""
        for wreck in self.wrecks.get(job, ()):
            if wreck.attempt == attempt and node in wreck.nodes:
                wreck.nodes.remove(node)
                self._cut(job, node, wreck.start, min(now, wreck.end))
        self._clear(job)

    def cancel(self, job: int, nodes: Integers, start: int, reserved: int, attempt: int, now: int) -> None:
        """Handle that the user of `job`, which is placed, cancels it at `now` ns.

        nodes, start : of its run, which is to come or in progress.  reserved : until when it has reserved
        them, ns.  attempt : as for `wreck`.

        Each machine stops when `stop` is called, which is before the start if a message comes in time.
        """
        self.placed.pop(job, None)
        end = min(start + int(self.lasts[job]), reserved)
        wreck = SimpleNamespace(attempt=attempt, start=start, end=end, nodes=nodes.tolist())
        self.wrecks.setdefault(job, []).append(wreck)
        self.freed += [(job, node, max(start, now), reserved) for node in sorted(wreck.nodes)]

    def run_out(self, job: int, now: int) -> None:
        """End lost runs of `job` that were to end by `now` ns, on machines that were not stopped before."""
        for wreck in self.wrecks.get(job, ()):
            if wreck.end <= now:
                for node in wreck.nodes:
                    self._cut(job, node, wreck.start, wreck.end)
                wreck.nodes = []
        self._clear(job)

    def _cut(self, job: int, node: int, start: int, end: int) -> None:
        if end <= start:
            return  # cancelled before it began
        self._begin(job, start)
        self.used.setdefault(job, set())
        self.busy[node] += end - start
        self.interrupted[node] += 1
        self.used[job].add(node)
        if self.record:
            self.rows.append((node, job, 1, start, end, 0))

    def _clear(self, job: int) -> None:
        if job in self.wrecks:
            left = [wreck for wreck in self.wrecks[job] if wreck.nodes]
            if left:
                self.wrecks[job] = left
            else:
                del self.wrecks[job]

    # -- the end ----------------------------------------------------------------------------------------

    def settle(self, now: int) -> None:
        """End lost runs that are still in progress when the simulation ends at `now` ns."""
        for job in sorted(self.wrecks):
            for wreck in self.wrecks[job]:
                for node in wreck.nodes:
                    self._cut(job, node, wreck.start, min(now, wreck.end))
        self.wrecks.clear()

    def outcome(self, **columns: Integers) -> Outcome:
        """Return the outcome of all runs; `columns` are further columns of the applications."""
        used = self.done.copy()
        for job in sorted(self.used):
            used[job] = len(self.used[job])
        rows = sorted(self.rows, key=lambda row: (row[3], row[1], row[0]))
        schedule = np.array(rows, np.int64).reshape(-1, 6).T.copy()
        placed = np.flatnonzero(self.apart >= 0)
        counts = {"extended": self.extended, "displaced": self.displaced} if self.extended else {}
        tables: dict[str, dict[str, Any]] = {}
        if self.places is not None:
            tables["placements"] = {"application": placed, "distance": self.apart[placed]}
        if self.cancelled is not None:
            columns = {**columns, "cancelled": self.cancelled}
            which, node, start, end = np.array(self.freed, np.int64).reshape(-1, 4).T
            tables["freed"] = {"application": which, "machine": node, "start": start / NS, "end": end / NS}
        return Outcome(
            applications={
                "first_start": self.first_start,
                "finish": self.end,
                "completed": self.done,
                "nodes_used": used,
                **columns,
            },
            machines={
                "busy": self.busy,
                "tasks": self.tasks,
                "interrupted": self.interrupted,
                "peak_queue": np.zeros_like(self.busy),  # no job waits at a machine without a start
            },
            tables=tables,
            facts=counts,
            schedule=dict(zip(SCHEDULE, schedule, strict=True)),
        )
