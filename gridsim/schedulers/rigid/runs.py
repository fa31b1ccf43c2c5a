"""What rigid jobs do on their machines: runs that are completed, and runs that failures cut off."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from gridsim.scheduling.contract import SCHEDULE, Outcome, Run
from gridsim.support.arrays import Integers
from gridsim.support.state import Stateful


class Runs(Stateful):
    """The runs of all jobs.

    A job that is placed begins at its start on all its machines, if none of them has failed by then.  When
    one fails later, the run is lost there and then; on the other machines it goes on for nothing until they
    are told, or until its end.

    lasts : int64[applications], ns that each job runs.
    """

    STATE = (
        "placed", "wrecks", "completed", "first_start", "end", "done", "used", "busy", "tasks", "interrupted",
        "rows",
    )  # fmt: skip

    def __init__(self, run: Run, lasts: Integers) -> None:
        self.lasts, self.record = lasts, run.record
        jobs, machines = len(run.applications), len(run.speeds)
        # job -> (machines, start ns) of the run to come or in hand
        self.placed: dict[int, tuple[Integers, int]] = {}
        # job -> what is left of runs that have lost a machine
        self.wrecks: dict[int, list[SimpleNamespace]] = {}
        self.completed = 0
        self.first_start, self.end = np.full(jobs, -1, np.int64), np.full(jobs, -1, np.int64)
        self.done = np.zeros(jobs, np.int64)
        # machines that jobs with a cut-off run have been on
        self.used: dict[int, set[int]] = {}
        self.busy, self.tasks = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
        self.interrupted = np.zeros(machines, np.int64)
        # machine, application, tasks, start, end, completed
        self.rows: list[tuple[int, ...]] = []

    def place(self, job: int, nodes: Integers, start: int) -> int:
        """`job` runs on `nodes` from `start` ns on; when it will end, ns."""
        self.placed[job] = nodes, start
        return start + int(self.lasts[job])

    def end_of(self, job: int) -> int:
        """When the run of `job` that is placed ends, ns."""
        return self.placed[job][1] + int(self.lasts[job])

    def finish(self, job: int) -> tuple[Integers, int]:
        """The run of `job` ends now, complete; its machines, and when it began."""
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
        """The run of `job` that was completed was on `nodes`."""
        if self.record:
            end = int(self.end[job])
            start = end - int(self.lasts[job])
            self.rows += [(node, job, 1, start, end, 1) for node in nodes.tolist()]

    def _begin(self, job: int, start: int) -> None:
        if self.first_start[job] < 0:
            self.first_start[job] = start

    # -- failures ---------------------------------------------------------------------------------------

    def wreck(self, job: int, node: int, now: int) -> None:
        """`node` fails at `now` ns, so that the run of `job` is lost if it has begun.

        It stays in `placed` for those who must be told.
        """
        nodes, start = self.placed[job]
        end = self.end_of(job)
        if start < now < end:
            self._begin(job, start)
            self.used.setdefault(job, set())
            wreck = SimpleNamespace(start=start, end=end, nodes=nodes.tolist())
            self.wrecks.setdefault(job, []).append(wreck)
            self.stop(job, node, start, now)

    def cut(self, job: int, now: int) -> None:
        """The run of `job` is lost at `now` ns, and all its machines know it."""
        nodes, start = self.placed.pop(job)
        if start >= now:
            return
        self._begin(job, start)
        self.used.setdefault(job, set())
        for node in nodes.tolist():
            self._cut(job, node, start, now)

    def stop(self, job: int, node: int, start: int, now: int) -> None:
        """If `node` still works on a lost run of `job` that began at `start` ns, it ends at `now` ns."""
        for wreck in self.wrecks.get(job, ()):
            if wreck.start == start and node in wreck.nodes:
                wreck.nodes.remove(node)
                self._cut(job, node, start, min(now, wreck.end))
        self._clear(job)

    def run_out(self, job: int, now: int) -> None:
        """Lost runs of `job` that would have ended at `now` ns end on the machines that were not told."""
        for wreck in self.wrecks.get(job, ()):
            if wreck.end <= now:
                for node in wreck.nodes:
                    self._cut(job, node, wreck.start, wreck.end)
                wreck.nodes = []
        self._clear(job)

    def _cut(self, job: int, node: int, start: int, end: int) -> None:
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
        """The run is over: what still works on lost runs has done so until now."""
        for job in sorted(self.wrecks):
            for wreck in self.wrecks[job]:
                for node in wreck.nodes:
                    self._cut(job, node, wreck.start, min(now, wreck.end))
        self.wrecks.clear()

    def outcome(self, **columns: Integers) -> Outcome:
        """What has been done; `columns` are further ones of the applications."""
        used = self.done.copy()
        for job in sorted(self.used):
            used[job] = len(self.used[job])
        rows = sorted(self.rows, key=lambda row: (row[3], row[1], row[0]))
        schedule = np.array(rows, np.int64).reshape(-1, 6).T.copy()
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
                "peak_queue": np.zeros_like(self.busy),  # nothing waits at machines without a start
            },
            schedule=dict(zip(SCHEDULE, schedule, strict=True)),
        )
