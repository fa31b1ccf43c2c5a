"""Runs the compiled protocol of DGS_ASAP, which does the same as the node program."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST
from gridcore.dgs.negotiations import (
    ANSWER,
    BROKEN,
    CANCEL,
    CANCELLED,
    COMMIT,
    COMMITTING,
    DISPLACED,
    DONE,
    FAILED,
    PLACED,
    REPLY,
    REQUEST,
    WAITING,
)
from gridcore.dgs.protocol import DgsProtocol
from gridcore.dgs.slots import SlotSchedules
from gridsim.engine.engine import TIMER, Engine
from gridsim.schedulers.dgs.decisions import note_rows
from gridsim.schedulers.dgs.failures import Failures
from gridsim.schedulers.dgs.jobs import ANSWER_BYTES, SMALL, Times, add_overlay
from gridsim.schedulers.dgs.neighbourhood import Neighbourhood
from gridsim.schedulers.dgs.node import pause
from gridsim.scheduling.contract import Outcome, Policy, Run
from gridsim.scheduling.rigid_runs import Runs, set_cancellation_timers
from gridsim.support.arrays import Integers
from gridsim.support.clock import nanoseconds


class Compiled(Policy):
    """The negotiations of a run, which `gridcore.dgs.protocol.DgsProtocol` carries out.

    It leaves to Python what is rare: releases, jobs that wait, failures and the runs that they cut off, and
    the end of the run.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "schedules", "overlay", "runs", "failures", "phase", "attempt", "searches", "conflicts", "late",
        "reached", "resubmitted", "in_vain", "next_forget", "why", "held",
    )  # fmt: skip

    def __init__(self, parameters: Any, run: Run) -> None:
        self.parameters, self.run = parameters, run
        jobs, engine, network = run.applications, run.engine, run.network
        count = len(jobs)
        self.times = times = Times(parameters, run)
        #: Slots that each job reserves.
        self.length = times.length
        self.schedules = SlotSchedules(len(run.speeds), stale=times.stale)
        self.overlay = Neighbourhood(run, parameters, times.latency)
        self.next_forget = 0
        #: How many jobs were rejected for each reason, see `DgsProtocol.read_outcomes`.
        self.why = dict.fromkeys(("", *parameters.rejections_of(run)), 0)
        # one value for each job
        self.phase = np.zeros(count, np.int8)
        self.attempt, self.searches = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.conflicts, self.late = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.reached, self.resubmitted = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.in_vain = np.zeros(count, np.int64)  # searches since it was last placed
        self.held = np.zeros(count, np.int64)  # slots that it has reserved, once it is placed
        self.runs = Runs(run, times.lasts)

        kinds = {"cancel": CANCEL, "request": REQUEST, "answer": ANSWER, "commit": COMMIT, "reply": REPLY}
        if times.outlived:
            kinds["displaced"] = DISPLACED
        for priority, (name, dtype) in enumerate(kinds.items()):
            nbytes = ANSWER_BYTES if name == "answer" else SMALL
            network.kind(name, dtype, nbytes, None, priority=priority)
        network.open()
        engine.on("finish", self._finish, priority=1, phase=TIMER)
        engine.on("retry", self._retry, priority=2, phase=TIMER)
        engine.on("overdue", self._overdue, priority=3, phase=TIMER)
        engine.on("call-off", self._call_off, priority=5, phase=TIMER)
        engine.on("outlived", self._outlived, priority=6, phase=TIMER)
        set_cancellation_timers(engine, jobs)
        self.failures = Failures(self)
        #: The compiled protocol.
        self.flow = DgsProtocol(
            self.schedules,
            self.overlay.views,
            network.links,
            kinds=[*map(network.number, kinds), *([] if times.outlived else [(-1, 0)])],
            settings={
                "slot": times.slot,
                "one_way": times.one_way,
                "latency": times.latency,
                "at_least": self.overlay.at_least,
                "opening": self.overlay.opening,
                "period": self.overlay.period,
                "width": self.overlay.width,
                "seed": self.overlay.seed,
                **{name: getattr(parameters, name) for name in ("forward", "hops", "rounds", "tries")},
                "wide": parameters.wide == "widen",
                "keep": parameters.early == "keep",
                "others": parameters.candidates == "others",
                **{policy: parameters.policy == policy for policy in ("push", "pull", "poll")},
                "stale": self.schedules.stale,
                "record": run.record or self.runs.places is not None,
                "faults": run.faults,
                "patience": nanoseconds(parameters.patience),
                "detection": self.failures.detection,
                "log": 0 if run.decisions is None else min(run.decisions.limit, LATEST),
            },
            suitable=jobs.suited,
            on_decisions=None if run.decisions is None else self._decided,
            **self._shared(),
        )
        network.hand_links_to(self)
        engine.at_wave_end(self._flush)

    def _shared(self) -> dict[str, Any]:
        """Return the arrays that the compiled protocol shares with this policy."""
        jobs, overlay, runs = self.run.applications, self.overlay, self.runs
        own = (
            "phase",
            "attempt",
            "searches",
            "in_vain",
            "conflicts",
            "late",
            "reached",
            "resubmitted",
            "length",
            "held",
        )
        return {
            "jobs": {
                **{name: getattr(self, name) for name in own},
                "lasts": runs.durations,
                **{name: getattr(runs, name) for name in ("first_start", "end", "done")},
                "earliest": self.times.earliest,
                "latest": self.times.latest,
                "tasks": jobs.tasks,
                "submitter": jobs.submitter,
                "group": np.zeros(len(jobs), np.int64) if jobs.group is None else jobs.group,
            },
            "nodes": {
                "received": overlay.received,
                "changes": overlay.changes,
                "first": overlay.first,
                "busy": runs.busy,
                "tasks": runs.tasks,
                "up": self.run.up,
                "away": overlay.away,
            },
            "counts": overlay.counts,
        }

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        self._stop()
        return {**super().getstate(), "flow": self.flow}

    def setstate(self, state: dict[str, Any]) -> None:
        """See `gridsim.support.state.Stateful`."""
        own = dict(state)
        kept = own.pop("flow", None)
        super().setstate(own)
        if kept is None:
            raise ValueError("the state of Compiled must have a flow")
        self.flow.bind(**self._shared())
        self.flow.setstate(kept.state)

    # -- as a source of the engine, behind the network ----------------------------------------------------

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`."""
        return self.flow.advance(limit)

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        self._heed()
        if self.flow.last_reported_end == time and not self.flow.is_over:
            # handled in their order among the events of this instant
            engine.at(time, "finish")
            engine.at(time, "overdue")
            engine.at(time, "outlived")
        self.flow.flush(time)

    def _heed(self) -> None:
        """Do what the compiled protocol leaves to Python: let jobs wait, count rejected ones, end the run."""
        waiting, given_up = self.flow.read_outcomes()
        for job in waiting:
            self.phase[job] = WAITING
            until = self.run.engine.now + pause(self.parameters, job, int(self.searches[job]))
            self.run.engine.at(until, "retry", job)
        for _, why in given_up:
            self.why[why] += 1
        for job, attempt in self.flow.displacements():
            self.failures.displaced(job, attempt)
        if self.flow.is_over:
            self.run.engine.stop()

    def _stop(self) -> None:
        """Stop machines that still work on lost runs of jobs, where these have been cancelled."""
        for job, node, attempt, time in self.flow.cancellations():
            self.runs.stop(job, node, attempt, time)

    def _decided(self, rows: NDArray[Any], lost: int) -> None:
        """Record decisions of the compiled protocol, see `DgsProtocol`."""
        assert self.run.decisions is not None
        note_rows(self.run.decisions, rows, lost, partial(pause, self.parameters))

    def _flush(self) -> None:
        self.flow.flush(self.run.engine.now)

    # -- events of the engine -----------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Search for machines for jobs that are submitted now."""
        self._forget()
        self._search(applications)

    def _forget(self) -> None:
        now = self.run.engine.now
        if now >= self.next_forget:
            # what ends now may still be extended
            self.schedules.forget(max(0, now // self.times.slot - 1), self.overlay.oldest)
            self.next_forget = now + 3600 * 10**9

    def _search(self, jobs: list[int]) -> None:
        self.flow.search(np.array(jobs, np.int64), self.run.engine.now)
        self._heed()

    def _retry(self, jobs: list[int]) -> None:
        """Search again for jobs whose wait is over."""
        self._search([job for job in jobs if self.phase[job] == WAITING])

    def _finish(self, _: list[int]) -> None:
        """End the jobs that end now."""
        self.flow.finish(self.run.engine.now)
        if self.flow.is_over:
            self.run.engine.stop()

    def _overdue(self, _: list[int]) -> None:
        """Wait no longer for answers or replies that were due by now."""
        self.flow.end_waits(self.run.engine.now)
        self._heed()

    def _outlived(self, _: list[int]) -> None:
        """Extend what jobs have reserved that go on after it."""
        self.flow.extend_reservations(self.run.engine.now)
        self._heed()

    def _call_off(self, jobs: list[int]) -> None:
        """Cancel jobs, as their users want, that are not over."""
        now, slot = self.run.engine.now, self.times.slot
        for job in jobs:
            if self.phase[job] == PLACED:
                start, nodes = self.flow.start_of(job), self.flow.machines_of(job)
                until = (start + int(self.held[job])) * slot
                self.runs.cancel(job, nodes, start * slot, until, int(self.attempt[job]), now)
            self.runs.placed.pop(job, None)
            self.flow.cancel(job, now)
        self._heed()

    # -- failures -----------------------------------------------------------------------------------------

    def on_faults(self, failed: Integers, back: Integers) -> None:
        """See `gridsim.schedulers.dgs.failures`."""
        self._stop()
        self._forget()
        self.failures.on_faults(failed, back)
        self.flow.fail(failed)

    def hit(self, job: int, node: int, attempt: int) -> bool:
        """See `gridsim.schedulers.dgs.failures.FailingRun`."""
        phase = self.flow.lose_node(job, attempt)
        if phase == BROKEN:
            start, slot = self.flow.start_of(job), self.times.slot
            until = (start + int(self.held[job])) * slot
            self.runs.place(job, self.flow.machines_of(job), start * slot, until)
            self.runs.lose(job, node, attempt, self.run.engine.now)
        return phase in (BROKEN, COMMITTING)

    def search_anew(self, job: int, attempt: int) -> None:
        """See `gridsim.schedulers.dgs.failures.FailingRun`."""
        self.flow.search_displaced(job, attempt, self.run.engine.now)
        self._heed()

    def start_again(self, job: int) -> None:
        """See `gridsim.schedulers.dgs.failures.FailingRun`."""
        self.runs.placed.pop(job, None)
        now, failed = self.run.engine.now, 0
        if self.run.decisions is not None and self.phase[job] == BROKEN:
            failed = self.failures.absences.since(now, self.flow.machines_of(job))
        self.flow.detect_failure(job, now, failed)
        self._heed()

    # -- the end ------------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """See `gridsim.scheduling.contract.Policy`."""
        self._stop()
        self.flow.hand_over()
        self.runs.settle(self.run.engine.now)
        self.runs.extended, self.runs.displaced = self.flow.extended, self.flow.displaced
        if self.runs.cancelled is not None:
            self.runs.cancelled[:] = self.phase == CANCELLED
        for job in np.flatnonzero(self.phase == DONE).tolist():
            if self.run.record or self.runs.places is not None:
                self.runs.record_completion(job, self.flow.machines_of(job))
            if job in self.runs.used:
                self.runs.used[job].update(self.flow.machines_of(job).tolist())
        outcome = self.runs.outcome(
            failed=(self.phase == FAILED).astype(np.int64),
            resubmitted=self.resubmitted,
            searches=self.searches,
            conflicts=self.conflicts,
            late=self.late,
            reached=self.reached,
        )
        outcome.facts |= {reason: count for reason, count in self.why.items() if reason}
        add_overlay(outcome, self.overlay)
        return outcome
