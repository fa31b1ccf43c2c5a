"""A policy that maps tasks to machines in batches, and maps them again until they start."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gridcore.centralized.mapping import map_batch
from gridsim.engine.engine import TIMER, Engine
from gridsim.results.decisions import Decisions
from gridsim.scheduling.contract import FAULT_PRIORITY, SCHEDULE, Outcome, Policy, Run
from gridsim.support.arrays import Floats, Integers
from gridsim.support.clock import NEVER, NS

#: Latest instant, and longest duration, ns; longer durations are reduced to it.
_MAX_TIME = 9.2e18
#: Rows of `BatchMode.plan` and `BatchMode.started`.
_MACHINE, _APPLICATION, _START, _END = range(4)


def durations(task_size: float | Floats, speeds: Floats) -> Floats:
    """Return the duration of a task of `task_size` Mflop at `speeds` (Mflop/s), rounded to ns, at least 1."""
    rounded: Floats = np.clip(np.rint(task_size / speeds * 1e9), 1.0, _MAX_TIME)
    return rounded


def check_ends(left: Floats, now: int) -> None:
    """Check that machines with `left` ns of work at `now` ns end before the latest possible time.

    Raises
    ------
    OverflowError
        If a machine would end later.
    """
    if left.max() + now > _MAX_TIME:
        raise OverflowError(f"tasks must end by {_MAX_TIME:g} ns, got {left.max() + now:g}")


class BatchMode(Policy):
    """Policy that maps all unstarted tasks by `rule` at each mapping event.

    Each size of tasks is a row of `map_batch`, in order of the release of its first application, ties by
    number, and each speed of machines is a kind.

    Machines have no queues (``peak_queue`` is 0); ``facts["peak_waiting"]`` is the largest number of
    unstarted tasks at a mapping event.  If machines fail, the policy itself ends the run with the last task.
    If applications follow others, it stops at each end of an application, which the plan tells unless a
    mapping event comes first.

    Parameters
    ----------
    rule
        Rule of `map_batch`.
    interval
        Time between mapping events while tasks wait, ns; 0 for a mapping event at each change.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "unstarted_tasks", "unreleased_count", "resubmitted", "plan", "started", "started_count", "lost",
        "free_at", "last", "running", "next_event", "peak_waiting", "last_end", "is_open",
    )  # fmt: skip

    def __init__(self, run: Run, rule: Literal["min-min", "max-min", "sufferage"], interval: int) -> None:
        self.run, self.rule, self.interval = run, rule, interval
        machines, applications = len(run.speeds), len(run.applications)
        self.unstarted_tasks = np.zeros(applications, np.int64)  # unstarted tasks, mapped or not
        self.unreleased_count = applications
        self.resubmitted = np.zeros(applications, np.int64)
        #: int64[4, tasks]: tasks that are mapped but not started, by machine, then by start
        self.plan = np.zeros((4, 0), np.int64)
        self.started: list[Integers] = []  # started tasks, in arrays like `plan`
        self.started_count = 0
        self.lost: list[tuple[int, int]] = []  # (task, numbered in order of start; time of the loss, ns)
        # for the last task started on each machine: its end or loss (ns), its number, and its application
        self.free_at = np.zeros(machines, np.int64)
        self.last = np.zeros(machines, np.int64)
        self.running = np.zeros(machines, np.int64)
        self.next_event = -1
        self.peak_waiting = 0
        # of each application: the last end of a started task (ns); whether it is released and has not ended
        self.last_end = np.zeros(applications, np.int64)
        self.is_open = np.zeros(applications, np.bool_)
        run.engine.on("map", self.on_map, priority=FAULT_PRIORITY + 1, phase=TIMER)
        if run.faults or run.releases is not None:
            run.engine.add_source(self)

    # -- events ------------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Add new tasks, which wait for the next mapping event."""
        self.unstarted_tasks[applications] = self.run.applications.tasks[applications]
        self.unreleased_count -= len(applications)
        self.is_open[applications] = True
        self._schedule_mapping()

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Return the running and mapped tasks of failed machines to the waiting tasks."""
        now = self.run.engine.now
        self._start_until(now)
        interrupted = failed[self.free_at[failed] > now]
        self.lost += [(task, now) for task in self.last[interrupted].tolist()]
        self.free_at[interrupted] = now
        np.add.at(self.unstarted_tasks, self.running[interrupted], 1)
        np.add.at(self.resubmitted, self.running[interrupted], 1)
        if len(interrupted):
            self.last_end = self._ends(*self._started_tasks())
        self.plan = self.plan[:, ~np.isin(self.plan[_MACHINE], failed)]
        self._schedule_mapping()

    def _schedule_mapping(self) -> None:
        """Set the next mapping event if tasks wait and none is set."""
        now = self.run.engine.now
        if self.next_event < now and self.unstarted_tasks.any():
            self.next_event = -(-now // self.interval) * self.interval if self.interval else now
            self.run.engine.at(self.next_event, "map")

    def on_map(self, _: list[int]) -> None:
        """Map all unstarted tasks, after all other events of this instant except starts."""
        now = self.run.engine.now
        self._start_until(now)
        self.peak_waiting = max(self.peak_waiting, int(self.unstarted_tasks.sum()))
        self._map(now)
        if self.interval and (self.plan[_START] > now).any():
            self.next_event = now + self.interval
            self.run.engine.at(self.next_event, "map")

    def advance(self, limit: int) -> int:
        """Return the end of the last task, ns, if it is known and not after `limit`; otherwise NEVER.

        If applications follow others, return the next end of an application.
        """
        if self.run.releases is not None:
            end = int(self._known_ends().min())
            return end if end <= limit else NEVER
        if self.unreleased_count or int(self.unstarted_tasks.sum()) > self.plan.shape[1]:
            return NEVER
        end = int(max(self.free_at.max(), self.plan[_END].max(initial=0)))
        return end if end <= limit else NEVER

    def _known_ends(self) -> Integers:
        """Return the ends of open applications whose unstarted tasks are all mapped, ns; NEVER for others."""
        application, end = self.plan[_APPLICATION], self.last_end.copy()
        np.maximum.at(end, application, self.plan[_END])
        planned = np.bincount(application, minlength=len(end))
        return np.where(self.is_open & (planned == self.unstarted_tasks), end, NEVER)

    def collect(self, engine: Engine, time: int) -> None:
        """Report the applications that end now, and end the run with the last one."""
        if self.run.releases is not None:
            ended = np.flatnonzero(self._known_ends() <= time)
            self.is_open[ended] = False
            self.run.releases.end(ended, time)
            if self.unreleased_count or self.is_open.any():
                return
        engine.stop()

    # -- mapping -----------------------------------------------------------------------------------------

    def _map(self, now: int) -> None:
        waiting, up = np.flatnonzero(self.unstarted_tasks), np.flatnonzero(self.run.up)
        if not (len(waiting) and len(up)):
            self.plan = np.zeros((4, 0), np.int64)
            return
        if self.run.releases is not None:  # applications are in order of their stated releases
            waiting = waiting[np.argsort(self.run.releases.release[waiting], kind="stable")]
        count = self.unstarted_tasks[waiting]
        sizes, first, kind = np.unique(
            self.run.applications.task_size[waiting], return_index=True, return_inverse=True
        )
        rows = np.argsort(first)
        row_of = np.argsort(rows)[kind]  # the row of each waiting application
        counts = np.zeros(len(rows), np.int64)
        np.add.at(counts, row_of, count)
        speeds, column = np.unique(self.run.speeds[up], return_inverse=True)
        task_durations = durations(sizes[rows, None], speeds)
        begin = np.maximum(self.free_at[up], now)
        left = (begin - now).astype(np.float64)
        row, machine = map_batch(task_durations, counts, left, self.rule, kind=column)
        check_ends(left, now)
        by_row = np.argsort(row_of, kind="stable")
        application = np.empty_like(row)
        application[np.argsort(row, kind="stable")] = np.repeat(waiting[by_row], count[by_row])
        # each machine runs its tasks in the order in which they were mapped
        by_machine = np.argsort(machine, kind="stable")
        row, machine, application = row[by_machine], machine[by_machine], application[by_machine]
        length = task_durations[row, column[machine]].astype(np.int64)
        end = np.cumsum(length)
        start = end - length
        shift = begin[machine] - start[np.searchsorted(machine, machine)]
        self.plan = np.stack((up[machine], application, start + shift, end + shift))
        if self.run.decisions is not None:
            self._record_mapping(self.run.decisions, now, len(up))

    def _record_mapping(self, log: Decisions, now: int, among: int) -> None:
        """Record the mapping of the waiting tasks; `among` machines are up."""
        machine, application, start, end = self.plan[:, np.lexsort((self.plan[_MACHINE], self.plan[_START]))]
        waiting, first = np.unique(application, return_index=True)
        last = np.zeros(len(self.unstarted_tasks), np.int64)
        np.maximum.at(last, application, end - now)
        saw = last[waiting] / NS
        log.record(
            "mapped",
            time=now,
            application=waiting,
            decider=-1,
            machine=machine[first],
            tasks=self.unstarted_tasks[waiting],
            among=among,
            saw=saw,
            true=saw,
            age=0.0,
        )

    def _start_until(self, until: int) -> None:
        """Move the mapped tasks whose start is before `until`, ns, to the started tasks."""
        due = self.plan[_START] < until
        if not due.any():
            return
        rows, self.plan = self.plan[:, due], self.plan[:, ~due]
        machine, application = rows[_MACHINE], rows[_APPLICATION]
        np.subtract.at(self.unstarted_tasks, application, 1)
        last = np.flatnonzero(np.append(machine[1:] != machine[:-1], True))
        busy = machine[last]
        self.free_at[busy], self.running[busy] = rows[_END, last], application[last]
        self.last[busy] = self.started_count + last
        np.maximum.at(self.last_end, application, rows[_END])
        self.started.append(rows)
        self.started_count += len(machine)

    def _started_tasks(self) -> tuple[Integers, Integers]:
        """Return the started tasks, in columns like `plan`, with their losses as ends; and 0 for the lost."""
        rows = np.concatenate([np.zeros((4, 0), np.int64), *self.started], axis=1)
        done = np.ones(rows.shape[1], np.int64)
        if self.lost:
            task, at = np.array(self.lost, np.int64).T
            rows[_END, task], done[task] = at, 0
        return rows, done

    def _ends(self, rows: Integers, done: Integers) -> Integers:
        """Return the last end of a task of each application among `rows`, ns; -1 for none."""
        finish = np.full(len(self.unstarted_tasks), -1, np.int64)
        np.maximum.at(finish, rows[_APPLICATION][done > 0], rows[_END][done > 0])
        return finish

    # -- the outcome -------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Start all remaining tasks, and return the outcome."""
        self._start_until(NEVER)
        rows, done = self._started_tasks()
        machine, application, start, end = rows
        machines, applications = len(self.run.speeds), len(self.unstarted_tasks)
        first = np.full(applications, NEVER)
        np.minimum.at(first, application, start)
        finish = self._ends(rows, done)
        busy = np.zeros(machines, np.int64)
        np.add.at(busy, machine, end - start)
        used_by = np.unique(application * machines + machine) // machines

        def count(index: Integers, length: int) -> Integers:
            return np.bincount(index, minlength=length).astype(np.int64, copy=False)

        order = np.lexsort((start, machine))
        columns = (machine, application, np.ones_like(machine), start, end, done)
        return Outcome(
            applications={
                "first_start": np.where(first < NEVER, first, -1),
                "finish": finish,
                "completed": count(application[done > 0], applications),
                "resubmitted": self.resubmitted,
                "nodes_used": count(used_by, applications),
            },
            machines={
                "busy": busy,
                "tasks": count(machine[done > 0], machines),
                "interrupted": count(machine[done == 0], machines),
                "peak_queue": np.zeros(machines, np.int64),
            },
            facts={"peak_waiting": self.peak_waiting},
            schedule=dict(zip(SCHEDULE, (column[order] for column in columns), strict=True))
            if self.run.record
            else {},
        )
