"""Faulty schedulers of rigid jobs, each with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from planted import Fault

from gridsim.engine.engine import TIMER
from gridsim.model.applications import run_and_reserved_times
from gridsim.schedulers.rigid.asap import Asap, _AsapPolicy
from gridsim.scheduling.contract import Outcome, Policy, Run, Scheduler
from gridsim.scheduling.rigid_runs import Runs

#: Priority of an event that follows all others of an instant.
_LAST = 4001


class FirstFit(Scheduler, frozen=True, kw_only=True):
    """Policy that starts jobs as soon as enough machines are free, in order of requested time."""

    name: ClassVar[str] = "first-fit"
    rigid: ClassVar[bool] = True
    constraints: ClassVar[bool] = True

    def start(self, run: Run) -> Policy:
        return FirstFitPolicy(self, run)


class FirstFitPolicy(Policy):
    STATE: ClassVar[tuple[str, ...]] = ("runs", "waiting", "free", "resubmitted")

    def __init__(self, parameters: Scheduler, run: Run) -> None:
        self.run, self.jobs = run, run.applications
        lasts, self.estimate = run_and_reserved_times(run.applications, float(run.speeds[0]), "requested")
        self.runs = Runs(run, lasts)
        self.waiting: list[int] = []
        self.free = np.ones(len(run.speeds), np.bool_)
        self.resubmitted = np.zeros(len(self.jobs), np.int64)
        run.engine.on("finish", self.on_finish, priority=1, phase=TIMER)
        run.engine.on("dispatch", self.dispatch, priority=_LAST, phase=TIMER)

    def on_release(self, applications: list[int]) -> None:
        self.wait(applications)

    def wait(self, jobs: list[int]) -> None:
        """Queue `jobs`, and start at this instant those that fit."""
        self.waiting += jobs
        self.run.engine.at(self.run.engine.now, "dispatch", 0)

    def dispatch(self, _: list[int]) -> None:
        for job in sorted(self.waiting, key=lambda job: (self.estimate[job], job)):
            usable, suited = self.free & self.run.up, self.jobs.machines_for(job)
            nodes = np.flatnonzero(usable if suited is None else usable & suited)[: self.jobs.tasks[job]]
            if len(nodes) == self.jobs.tasks[job]:
                self.waiting.remove(job)
                self.free[nodes] = False
                self.run.engine.at(self.runs.place(job, nodes, self.run.engine.now), "finish", job)

    def on_finish(self, jobs: list[int]) -> None:
        for job in jobs:
            if job in self.runs.placed and self.runs.end_of(job) <= self.run.engine.now:
                self.free[self.runs.finish(job)[0]] = True
        self.wait([])
        if self.runs.completed == len(self.jobs):
            self.run.engine.stop()

    def on_faults(self, failed: Any, back: Any) -> None:
        lost = [job for job in sorted(self.runs.placed) if np.isin(self.runs.placed[job][0], failed).any()]
        for job in lost:
            nodes, _ = self.runs.placed[job]
            self.runs.interrupt(job, self.run.engine.now)
            self.free[nodes] = True
            self.resubmitted[job] += len(nodes)
        self.wait(self.jobs_to_requeue(lost))

    def jobs_to_requeue(self, lost: list[int]) -> list[int]:
        """Return the jobs that wait again, among those that have lost a machine."""
        return lost

    def unfinished(self) -> Any:
        return np.flatnonzero(self.runs.end < 0)

    def finish(self) -> Outcome:
        failed = (self.runs.end < 0).astype(np.int64)
        return self.runs.outcome(failed=failed, resubmitted=self.resubmitted)


class _NoJobs(FirstFitPolicy):
    """Policy that rejects all jobs."""

    def dispatch(self, _: list[int]) -> None:
        pass


class _DroppedJobs(FirstFitPolicy):
    """Policy that rejects all except the first of the jobs lost at one instant."""

    def jobs_to_requeue(self, lost: list[int]) -> list[int]:
        return lost[:1]


class _EarlyStart(FirstFitPolicy):
    """Policy that starts jobs to be released within 0.3 s when a job ends."""

    STATE = (*FirstFitPolicy.STATE, "ahead")

    def __init__(self, parameters: Scheduler, run: Run) -> None:
        super().__init__(parameters, run)
        self.ahead: list[int] = []

    def on_release(self, applications: list[int]) -> None:
        super().on_release([job for job in applications if job not in self.ahead])

    def on_finish(self, jobs: list[int]) -> None:
        release, now = self.jobs.release_ns, self.run.engine.now
        upcoming = np.flatnonzero((release > now) & (release <= now + 300_000_000)).tolist()
        upcoming = [job for job in upcoming if job not in self.ahead]
        self.ahead += upcoming
        self.waiting += upcoming
        super().on_finish(jobs)


class _EarlyCompletion(FirstFitPolicy):
    """Policy that reports a job as completed if it loses a machine after 90 % of its time."""

    def on_faults(self, failed: Any, back: Any) -> None:
        now = self.run.engine.now
        for job, (nodes, start) in sorted(self.runs.placed.items()):
            if np.isin(nodes, failed).any() and 0.9 * self.runs.durations[job] < now - start:
                self.runs.durations[job] = min(self.runs.durations[job], now - start)
                self.free[self.runs.finish(job)[0]] = True
        super().on_faults(failed, back)


class _LossAtEnd(FirstFitPolicy):
    """Policy that reports a job as lost if its machine fails as the job ends."""

    def __init__(self, parameters: Scheduler, run: Run) -> None:
        super().__init__(parameters, run)
        run.engine.on("finish late", super().on_finish, priority=_LAST + 1, phase=TIMER)

    def on_finish(self, jobs: list[int]) -> None:
        for job in jobs:
            self.run.engine.at(self.run.engine.now, "finish late", job)


class _RestartBeforeEarliestStart(_AsapPolicy):
    """Policy that ignores the earliest start of a lost job."""

    def on_faults(self, failed: Any, back: Any) -> None:
        kept, self.first_slots = self.first_slots, np.zeros_like(self.first_slots)
        super().on_faults(failed, back)
        self.first_slots = kept


class _ExtendedDeadlines(_AsapPolicy):
    """Policy that allows long jobs to end a slot after their deadlines."""

    def __init__(self, parameters: Asap, run: Run) -> None:
        super().__init__(parameters, run)
        self.last_slots = np.where(
            (self.lengths > 4) & (self.last_slots < 2**40), self.last_slots + 1, self.last_slots
        )


class _CancellationForesight(_AsapPolicy):
    """Policy that does not place a job whose user cancels it within ten minutes."""

    def _place(self, jobs: list[int]) -> None:
        at, horizon = self.run.applications.instants("cancel_at"), self.run.engine.now + 600 * 10**9
        cancelled = [] if at is None else [job for job in jobs if at[job] < horizon]
        self.waiting += cancelled
        super()._place([job for job in jobs if job not in cancelled])


class _MissingReservation(_AsapPolicy):
    """Policy that reserves nothing for a job that is cancelled before its start."""

    def _place(self, jobs: list[int]) -> None:
        at = self.run.applications.instants("cancel_at")
        for job in jobs:
            super()._place([job])
            if at is not None and job in self.runs.placed and self.runs.placed[job][1] > at[job]:
                nodes, start = self.runs.placed.pop(job)
                self._free(job, nodes, start // self.slot)
                self.waiting.append(job)


class _LateRestart(_AsapPolicy):
    """Policy that allows a lost job to restart after its latest start."""

    def on_faults(self, failed: Any, back: Any) -> None:
        kept, self.last_slots = self.last_slots, np.full_like(self.last_slots, 2**40)
        super().on_faults(failed, back)
        self.last_slots = kept


class _MissingCancellation(_AsapPolicy):
    """Policy that does not cancel a lost job that waits for machines."""

    def on_call_off(self, jobs: list[int]) -> None:
        super().on_call_off([job for job in jobs if job not in self.waiting or not self.resubmitted[job]])


class _LateCancellation(_AsapPolicy):
    """Policy that runs a cancelled job for another slot."""

    STATE = (*_AsapPolicy.STATE, "late")

    def __init__(self, parameters: Asap, run: Run) -> None:
        super().__init__(parameters, run)
        self.late: list[int] = []

    def on_call_off(self, jobs: list[int]) -> None:
        now = self.run.engine.now
        for job in jobs:
            runs = job in self.runs.placed and self.runs.placed[job][1] <= now
            if runs and job not in self.late and self.runs.end_of(job) > now + self.slot:
                self.late.append(job)
                self.run.engine.at(now + self.slot, "call-off", job)
            else:
                super().on_call_off([job])


def _scheduler(policy: type[Policy]) -> type[Scheduler]:
    make_policy: Callable[..., Policy] = policy
    base: type[Scheduler] = Asap if issubclass(policy, _AsapPolicy) else FirstFit

    def start(self: Any, run: Run) -> Policy:
        return make_policy(self, run)

    name = policy.__name__.removeprefix("_")
    body = {"start": start, "__module__": __name__}
    make: Callable[..., Any] = type(base)
    new_class: type[Scheduler] = make(name, (base,), body, frozen=True, kw_only=True)
    globals()[name] = new_class
    return new_class


_KINDS: dict[str, dict[type[Policy], tuple[str, ...]]] = {
    "rejects jobs that can run": {_NoJobs: ("served",), _DroppedJobs: ("served",)},
    "knows the future": {
        _CancellationForesight: ("foresight",),
        _MissingReservation: ("foresight",),
        _EarlyStart: ("runs", "sound"),
    },
    "misreports": {_EarlyCompletion: ("runs", "sound"), _LossAtEnd: ("sound",)},
    "breaks the times that jobs state": {
        _RestartBeforeEarliestStart: ("sound",),
        _ExtendedDeadlines: ("sound",),
        _LateRestart: ("sound",),
        _MissingCancellation: ("sound", "cohorts"),
        _LateCancellation: ("sound",),
    },
}

PLANTED_RIGID = {
    policy.__name__.removeprefix("_"): Fault(_scheduler(policy), kind, "rigid", laws)
    for kind, policies in _KINDS.items()
    for policy, laws in policies.items()
}
