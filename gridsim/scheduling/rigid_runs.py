"""The runs of rigid jobs on their machines (completed, interrupted and cancelled ones), and their times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.model.applications import Applications
from gridsim.model.attributes import mean_distance
from gridsim.scheduling.contract import SCHEDULE, Outcome, Run
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS
from gridsim.support.state import Stateful


class Runs(Stateful):
    """The planned, current and past runs of all jobs.

    A placed job begins at its start on all its machines, if none of them has failed by then.  If one fails
    later, the run is lost.  The other machines continue the lost run until a message stops them, but at most
    until its end or the end of its reservation.

    Parameters
    ----------
    durations
        Run time of each job, ns, int64[jobs].  If machines differ in speed, it is the time on the slowest
        machine of the job's present or last run.

    Attributes
    ----------
    until
        End of the reservation of each placed job, ns, int64[jobs]; `NEVER` without a reservation.
    extension
        Duration by which the reservation was extended, ns, int64[jobs].
    extended, displaced, moves
        Numbers of extensions of reservations, of jobs displaced by them, and of moves to earlier starts.
    """

    STATE = (
        "placed", "lost_runs", "completed", "first_start", "end", "done", "used", "busy", "tasks",
        "interrupted", "rows", "distances", "cancelled", "freed_rows", "until", "extension", "extended",
        "displaced", "moves",
    )  # fmt: skip

    def __init__(self, run: Run, durations: Integers) -> None:
        self.durations, self.record, self.releases = durations, run.record, run.releases
        #: Size of a task of each job, Mflop, and speed of each machine; None if all have one speed.
        self.task_size, self.speeds = None, run.speeds
        if run.speeds.min() != run.speeds.max():
            self.task_size, self.durations = run.applications.task_size, durations.copy()
        jobs, machines = len(run.applications), len(run.speeds)
        # job -> machines and start (ns) of its planned or present run
        self.placed: dict[int, tuple[Integers, int]] = {}
        # job -> those of its runs that have lost a machine and continue on the others
        self.lost_runs: dict[int, list[SimpleNamespace]] = {}
        self.completed = self.extended = self.displaced = self.moves = 0
        self.until, self.extension = np.full(jobs, NEVER), np.zeros(jobs, np.int64)
        self.first_start, self.end = np.full(jobs, -1, np.int64), np.full(jobs, -1, np.int64)
        self.done = np.zeros(jobs, np.int64)
        # interrupted job -> machines on which it has run
        self.used: dict[int, set[int]] = {}
        self.busy, self.tasks = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
        self.interrupted = np.zeros(machines, np.int64)
        self.places = None if run.attributes is None else run.attributes.places
        # per job: mean distance between its machines, if these have coordinates; -1 until completed
        self.distances = np.full(jobs, -1.0)
        # rows of the schedule: machine, application, tasks, start, end, completed
        self.rows: list[tuple[int, ...]] = []
        #: Whether each job has been cancelled; None if users cancel no jobs.
        self.cancelled = None if run.applications.cancel_at is None else np.zeros(jobs, np.int64)
        # application, machine, start and end of the unused reservations of cancelled jobs
        self.freed_rows: list[tuple[int, ...]] = []

    def place(self, job: int, nodes: Integers, start: int, until: int = NEVER) -> int:
        """Place `job` on `nodes` at `start`, ns, and return the end of its run, ns.

        Parameters
        ----------
        until
            End of its reservation, ns.
        """
        self.placed[job] = nodes, start
        self.until[job], self.extension[job] = until, 0
        self._set_duration(job)
        return start + int(self.durations[job])

    def _set_duration(self, job: int) -> None:
        """Set the run time of the placed `job` by its slowest machine, if machines differ in speed."""
        if self.task_size is not None:
            speed = float(self.speeds[self.placed[job][0]].min())
            self.durations[job] = max(1, int(np.rint(self.task_size[job] / speed * 1e9)))

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        super().setstate(state)
        for job in self.placed:
            self._set_duration(job)

    def outlives(self, job: int) -> bool:
        """Return whether the run of the placed `job` ends after its reservation."""
        return self.end_of(job) > int(self.until[job])

    def extend(self, job: int, slot: int) -> int:
        """Extend the reservation of `job`, which outlives it, and return its new end, ns.

        The first extension is one slot of `slot` ns, and each later one doubles the previous one.  Short
        overruns thus reserve little more, and long ones need few extensions.
        """
        increase = int(self.extension[job]) + slot
        self.extension[job] += increase
        self.until[job] += increase
        return int(self.until[job])

    def end_of(self, job: int) -> int:
        """Return the end of the run of the placed `job`, ns."""
        return self.placed[job][1] + int(self.durations[job])

    def finish(self, job: int) -> tuple[Integers, int]:
        """Complete the run of `job`, and return its machines and its start, ns."""
        nodes, start = self.placed.pop(job)
        end = start + int(self.durations[job])
        self._begin(job, start)
        self.completed += 1
        self.end[job], self.done[job] = end, len(nodes)
        self.busy[nodes] += end - start
        self.tasks[nodes] += 1
        if job in self.used:
            self.used[job].update(nodes.tolist())
        self.record_completion(job, nodes)
        self.report_end(job, end)
        return nodes, start

    def report_end(self, job: int, now: int) -> None:
        """Report the end of `job` at `now`, ns: it is completed or rejected, and others may follow it."""
        if self.releases is not None:
            self.releases.end([job], now)

    def record_completion(self, job: int, nodes: Integers) -> None:
        """Record the mean distance between `nodes` for the completed `job`, and its rows of the schedule."""
        if self.places is not None:
            self.distances[job] = mean_distance(self.places[np.sort(nodes)])
        if self.record:
            end = int(self.end[job])
            start = end - int(self.durations[job])
            self.rows += [(node, job, 1, start, end, 1) for node in nodes.tolist()]

    def _begin(self, job: int, start: int) -> None:
        if self.first_start[job] < 0:
            self.first_start[job] = start

    # -- failures ---------------------------------------------------------------------------------------

    def lose(self, job: int, node: int, attempt: int, now: int) -> None:
        """Record the failure of `node` at `now`, ns: the run of `job` is lost if it has begun.

        The job stays in `placed`, since its other machines must still be released.

        Parameters
        ----------
        attempt
            Number of this attempt to run the job, by which `stop` identifies it.
        """
        nodes, start = self.placed[job]
        end = self.end_of(job)
        if start < now < end:
            self._begin(job, start)
            self.used.setdefault(job, set())
            end = min(end, int(self.until[job]))
            lost_run = SimpleNamespace(attempt=attempt, start=start, end=end, nodes=nodes.tolist())
            self.lost_runs.setdefault(job, []).append(lost_run)
            self.stop(job, node, attempt, now)

    def interrupt(self, job: int, now: int) -> None:
        """Interrupt the run of `job` on all its machines at `now`, ns."""
        nodes, start = self.placed.pop(job)
        if start >= now:
            return
        self._begin(job, start)
        self.used.setdefault(job, set())
        for node in nodes.tolist():
            self._interrupt(job, node, start, now)

    def stop(self, job: int, node: int, attempt: int, now: int) -> None:
        """Stop a lost `attempt` of `job` on `node` at `now`, ns, unless it has stopped there already."""
        for lost_run in self.lost_runs.get(job, ()):
            if lost_run.attempt == attempt and node in lost_run.nodes:
                lost_run.nodes.remove(node)
                self._interrupt(job, node, lost_run.start, min(now, lost_run.end))
        self._clear(job)

    def cancel(self, job: int, nodes: Integers, start: int, reserved: int, attempt: int, now: int) -> None:
        """Cancel the placed `job` at `now`, ns.

        Each machine stops when `stop` is called, before the start if the message arrives in time.

        Parameters
        ----------
        nodes, start
            Machines and start (ns) of its run, which is planned or in progress.
        reserved
            End of its reservation, ns.
        attempt
            Number of this attempt to run the job.
        """
        self.placed.pop(job, None)
        end = min(start + int(self.durations[job]), reserved)
        lost_run = SimpleNamespace(attempt=attempt, start=start, end=end, nodes=nodes.tolist())
        self.lost_runs.setdefault(job, []).append(lost_run)
        self.freed_rows += [(job, node, max(start, now), reserved) for node in sorted(lost_run.nodes)]

    def end_lost_runs(self, job: int, now: int) -> None:
        """End the lost runs of `job` that end by `now`, ns, on machines that were not stopped earlier."""
        for lost_run in self.lost_runs.get(job, ()):
            if lost_run.end <= now:
                for node in lost_run.nodes:
                    self._interrupt(job, node, lost_run.start, lost_run.end)
                lost_run.nodes = []
        self._clear(job)

    def _interrupt(self, job: int, node: int, start: int, end: int) -> None:
        if end <= start:
            return  # the job was cancelled before its start
        self._begin(job, start)
        self.used.setdefault(job, set())
        self.busy[node] += end - start
        self.interrupted[node] += 1
        self.used[job].add(node)
        if self.record:
            self.rows.append((node, job, 1, start, end, 0))

    def _clear(self, job: int) -> None:
        if job in self.lost_runs:
            left = [lost_run for lost_run in self.lost_runs[job] if lost_run.nodes]
            if left:
                self.lost_runs[job] = left
            else:
                del self.lost_runs[job]

    # -- the end ----------------------------------------------------------------------------------------

    def settle(self, now: int) -> None:
        """End the lost runs that are in progress when the simulation ends at `now`, ns."""
        for job in sorted(self.lost_runs):
            for lost_run in self.lost_runs[job]:
                for node in lost_run.nodes:
                    self._interrupt(job, node, lost_run.start, min(now, lost_run.end))
        self.lost_runs.clear()

    def outcome(self, **columns: Integers) -> Outcome:
        """Return the outcome of all runs, with additional `columns` of the applications."""
        used = self.done.copy()
        for number in sorted(self.used):
            used[number] = len(self.used[number])
        rows = sorted(self.rows, key=lambda row: (row[3], row[1], row[0]))
        schedule = np.array(rows, np.int64).reshape(-1, 6).T.copy()
        placed = np.flatnonzero(self.distances >= 0)
        counts = {"extended": self.extended, "displaced": self.displaced} if self.extended else {}
        if self.moves:
            counts["moves"] = self.moves
        tables: dict[str, dict[str, Any]] = {}
        if self.places is not None:
            tables["placements"] = {"application": placed, "distance": self.distances[placed]}
        if self.cancelled is not None:
            columns = {**columns, "cancelled": self.cancelled}
            job, node, start, end = np.array(self.freed_rows, np.int64).reshape(-1, 4).T
            tables["freed"] = {"application": job, "machine": node, "start": start / NS, "end": end / NS}
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


def allowed_start_slots(
    applications: Applications, lengths: Integers, slot: int
) -> tuple[Integers, Integers]:
    """Return the first and the last slot in which each job may start, int64[jobs] each.

    The reservation of a job that starts in its last slot ends by its deadline.  If no start is allowed, the
    last slot is less than the first one.  Without a deadline it is about 2**63 / slot.

    Parameters
    ----------
    lengths
        Duration of the reservation of each job, ns, int64[jobs].
    slot
        Duration of a slot, ns.
    """
    begin, end = (applications.instants(name) for name in ("not_before", "deadline"))
    first = np.zeros(len(lengths), np.int64) if begin is None else -(-begin // slot)
    last = (np.full(len(lengths), NEVER) if end is None else end - lengths) // slot
    return first, last


def set_cancellation_timers(engine: Engine, applications: Applications) -> None:
    """Set a timer "call-off" for each job that its user will cancel."""
    if (at := applications.instants("cancel_at")) is not None:
        for job in np.flatnonzero(at < NEVER).tolist():
            engine.at(int(at[job]), "call-off", job)
