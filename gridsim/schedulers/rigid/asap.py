"""A centralized scheduler of rigid jobs that knows the whole grid at every instant and needs no messages.

It is the baseline of DGS_ASAP.  Failures are known at once: a job that loses a machine is removed from all
its machines and placed again, and no job is placed on a failed machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import numpy as np

from gridcore.dgs.slots import SlotSchedules
from gridsim.engine.engine import TIMER
from gridsim.model.applications import JOB_TIMES, JobTime, run_and_reserved_times
from gridsim.results.decisions import DecisionTexts
from gridsim.scheduling.contract import Foreseen, Outcome, Policy, Run, Scheduler
from gridsim.scheduling.rigid_runs import Runs, allowed_start_slots, set_cancellation_timers
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.parameters import Limits

#: Time between two removals of past reservations from the schedules, ns.
_CLEANUP_INTERVAL = 3600 * 10**9


class Asap(Scheduler, frozen=True, kw_only=True):
    """Centralized DGS_ASAP: each job is placed at release at its earliest start on the whole grid.

    It places jobs as if every node of `DgsAsap` knew all others.  It is a heuristic, not a bound: it places
    each job before it knows later ones, so it may do worse than `BatchQueue`.

    A job whose earliest start does not meet its deadline is rejected.  When a user cancels a job, its
    machines are released at once.

    Of the machines that are free at the start, those with the lowest ids are used.  A job with constraints
    gets the earliest start on the machines that meet them.  Jobs are placed in order of release, then of
    index, and keep their placement.  If a job outlives its reservation, this is extended as in `DgsAsap`;
    jobs whose reservations conflict with it are placed again, in order of their starts.  After DGS_ASAP
    (Vasilakos, Sacha and Pierre).

    Parameters
    ----------
    slot, estimate
        Duration of a slot, and estimate of run times, as in `gridsim.DgsAsap`.
    move
        What happens to placed jobs that have not started: ``"never"``, they keep their starts, as in the
        paper; ``"forward"``, when reservations are released early or machines recover, each of them in turn,
        in order of release, moves to an earlier start if there is one.  They may change machines, also
        to make room for others, if jobs have no constraints.  This is conservative backfilling in slots.
    """

    name: ClassVar[str] = "asap"
    decentralized: ClassVar[bool] = False
    rigid: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    constraints: ClassVar[bool] = True
    job_times: ClassVar[tuple[JobTime, ...]] = JOB_TIMES
    decision_words: ClassVar[DecisionTexts] = {
        "placed": ("placed {tasks} tasks at the earliest start on {among} machines", "a start at", "s"),
        "waited": ("kept it: too few machines are up", "machines up:", ""),
        "rejected": ("rejected it: the earliest start does not meet the deadline", "a start at", "s"),
        "cancelled": ("cancelled it, as its user wanted", "machines that held it:", ""),
        "extended": (
            "extended what it has reserved, which it outlives: {among} others must move",
            "an end at",
            "s",
        ),
        "displaced": ("placed all {tasks} tasks anew: another job outlives its slots there", "", ""),
        "moved": ("moved all {tasks} tasks to an earlier start on {among} machines", "a start at", "s"),
        "lost": ("lost a machine of it and placed all {tasks} tasks anew", "machines failed:", ""),
    }

    slot: Annotated[float, Limits(low=1e-9, high=1e9, unit="s")] = 60.0
    estimate: Literal["requested", "run"] = "requested"
    move: Literal["never", "forward"] = "never"

    @property
    def foresees(self) -> tuple[Foreseen, ...]:
        """The run times, if the estimates are the true run times; else nothing."""
        return ("run times",) if self.estimate == "run" else ()

    def start(self, run: Run) -> Policy:
        return _AsapPolicy(self, run)


class _AsapPolicy(Policy):
    """The policy of `Asap`, with the reservations of all machines."""

    STATE: ClassVar[tuple[str, ...]] = (
        "schedules", "runs", "resubmitted", "waiting", "rejected", "displaced", "next_cleanup",
        "released", "arrivals",
    )  # fmt: skip

    def __init__(self, parameters: Asap, run: Run) -> None:
        self.run = run
        self.slot, self.moves_forward = nanoseconds(parameters.slot), parameters.move == "forward"
        durations, estimates = run_and_reserved_times(
            run.applications, float(run.speeds[0]), parameters.estimate
        )
        # of each job, in slots: its duration, and its first and last possible start
        self.lengths = -(-estimates // self.slot)
        self.first_slots, self.last_slots = allowed_start_slots(run.applications, estimates, self.slot)
        self.schedules = SlotSchedules(len(run.speeds))
        self.runs = Runs(run, durations)
        self.resubmitted = np.zeros(len(run.applications), np.int64)
        #: Jobs that wait because they need more machines than are up.
        self.waiting: list[int] = []
        #: Jobs that were rejected because their earliest starts did not meet their deadlines.
        self.rejected: list[int] = []
        #: Planned start (ns) and number of each displaced job, until it is placed again at the same instant.
        self.displaced: list[tuple[int, int]] = []
        #: Whether reservations were released at this instant, so that placed jobs may move.
        self.released = False
        #: Jobs that were released at this instant and are placed once others have moved.
        self.arrivals: list[int] = []
        self.next_cleanup = 0
        run.engine.on("finish", self.on_finish, priority=1, phase=TIMER)
        run.engine.on("call-off", self.on_call_off, priority=5, phase=TIMER)
        run.engine.on("outlived", self.on_outlived, priority=6, phase=TIMER)
        run.engine.on("displaced", self.on_displaced, priority=7, phase=TIMER)
        run.engine.on("moved", self.on_moved, priority=8, phase=TIMER)
        set_cancellation_timers(run.engine, run.applications)

    def on_release(self, applications: list[int]) -> None:
        """Place each of `applications` at its earliest start, now or at the end of this instant."""
        now = self.run.engine.now
        if now >= self.next_cleanup:
            # reservations that end now may still be extended
            self.schedules.forget(max(0, now // self.slot - 1), now)
            self.next_cleanup = now + _CLEANUP_INTERVAL
        if self.moves_forward:  # jobs that are placed already move first
            self._set_move_timer()
            self.arrivals += applications
        else:
            self._place(applications)

    def _place(self, jobs: list[int]) -> None:
        applications = self.run.applications
        up = np.flatnonzero(self.run.up)
        for job in jobs:
            machines, tasks = self._candidates(job, up), int(self.run.applications.tasks[job])
            earliest = self._first_slot(job)
            placement = self.schedules.earliest_start(machines, tasks, int(self.lengths[job]), earliest)
            if placement is None:
                self.record("waited", job, len(machines), tasks)
                self.waiting.append(job)
                continue
            start, nodes = placement
            must_arrange = False
            if self.moves_forward and applications.suited is None:
                first = _Profile(self, len(up)).earliest(job, earliest)
                assert first is not None
                start, must_arrange = first, first < start
            if start > self.last_slots[job]:
                self.record(
                    "rejected", job, start * self.slot / NS, int(self.last_slots[job]) * self.slot / NS
                )
                self.rejected.append(job)
                continue
            self.record("placed", job, start * self.slot / NS, earliest * self.slot / NS, among=len(machines))
            if must_arrange:  # other jobs must get other machines
                present = self._pending_starts()
                self._arrange(present, present | {job: start}, up)
            else:
                self._place_at(job, nodes, start)

    def _pending_starts(self) -> dict[int, int]:
        """Return the jobs that are placed and have not started, with their starts in slots."""
        now, slot = self.run.engine.now, self.slot
        return {job: start // slot for job, (_, start) in self.runs.placed.items() if start > now}

    def _first_slot(self, job: int) -> int:
        """Return the first slot, from now on, in which a job may start."""
        return max(-(-self.run.engine.now // self.slot), int(self.first_slots[job]))

    def _candidates(self, job: int, up: Integers) -> Integers:
        """Return the machines in `up` that a job may use."""
        suited = self.run.applications.machines_for(job)
        return up if suited is None else up[suited[up]]

    def _reserve(self, job: int, nodes: Integers, start: int) -> None:
        """Reserve `nodes` for a job from slot `start` on."""
        count, length = len(nodes), int(self.lengths[job])
        self.schedules.reserve(
            nodes, np.full(count, start), np.full(count, length), np.full(count, job), self.run.engine.now
        )

    def _place_at(self, job: int, nodes: Integers, start: int) -> None:
        """Place a job on `nodes` from slot `start` on."""
        self._reserve(job, nodes, start)
        end = self.runs.place(job, nodes, start * self.slot, (start + int(self.lengths[job])) * self.slot)
        self.run.engine.at(end, "finish", job)
        self._set_extension_timer(job)

    def _set_extension_timer(self, job: int) -> None:
        """Set a timer for the end of the reservation of a job, if the job outlives it."""
        if self.runs.outlives(job):
            self.run.engine.at(int(self.runs.until[job]), "outlived", job)

    def on_outlived(self, jobs: list[int]) -> None:
        """Extend the reservations of jobs that outlive them, and displace conflicting jobs."""
        now = self.run.engine.now
        # Displaced jobs are placed after all extensions of this instant, even if it has several cohorts.
        if not self.displaced:
            self.run.engine.at(now, "displaced")
        for job in sorted({*jobs} & self.runs.placed.keys()):
            if self.runs.until[job] != now or not self.runs.outlives(job):
                continue  # the timer belongs to a reservation that was lost
            nodes, start = self.runs.placed[job]
            end = self.runs.extend(job, self.slot)
            conflicts = set[int]()
            for node in nodes.tolist():
                extension = self.schedules.extend(node, start // self.slot, end // self.slot, job, now)
                assert extension is not None
                conflicts.update(extension[0].tolist())
            self.runs.extended += len(nodes)
            self.record("extended", job, end / NS, among=len(conflicts))
            for other in sorted(conflicts):
                nodes, start = self.runs.placed.pop(other)
                self._free(other, nodes, start // self.slot)
                self.displaced.append((start, other))
            self._set_extension_timer(job)

    def on_displaced(self, items: list[int]) -> None:
        """Place the displaced jobs again, in the order of their starts."""
        displaced, self.displaced = sorted(self.displaced), []
        self.runs.displaced += len(displaced)
        for _, job in displaced:
            self.record("displaced", job, math.nan)
            self._place([job])
        self._stop_if_done()

    def on_moved(self, _: list[int]) -> None:
        """Move placed jobs, and place the jobs released at this instant."""
        arrivals, self.arrivals = self.arrivals, []
        if self.released:
            self._move_forward()
        self._place(arrivals)

    def _in_order(self, jobs: Iterable[int]) -> list[int]:
        """Return jobs in order of release, then of number."""
        releases = self.run.releases
        if releases is None:
            return sorted(jobs)
        return sorted(jobs, key=lambda job: (releases.release[job], job))

    def _move_forward(self) -> None:
        """Move placed jobs that have not started to earlier starts, in order of release."""
        self.released = False
        present, up = self._pending_starts(), np.flatnonzero(self.run.up)
        if self.run.applications.suited is None:
            self._move_all(present, up)
        else:
            for job in self._in_order(present):
                self._move(job, present[job], up)

    def _move_all(self, present: dict[int, int], up: Integers) -> None:
        """Move jobs where all machines suit them, given the start of each in slots."""
        profile = _Profile(self, len(up))
        new_starts = {}
        for job in self._in_order(present):
            start = profile.earliest(job, self._first_slot(job))
            if start is not None and start < present[job]:
                profile.move(job, start)
                new_starts[job] = start
        if new_starts:
            for job, start in new_starts.items():
                self._record_move(job, start, present[job], len(up))
            self._arrange(present, present | new_starts, up)

    def _move(self, job: int, present: int, up: Integers) -> None:
        """Move a job that starts in slot `present`, if its machines have an earlier start for it."""
        now, nodes, machines = self.run.engine.now, self.runs.placed[job][0], self._candidates(job, up)
        self.schedules.release(nodes, np.full(len(nodes), present), now, jobs=np.full(len(nodes), job))
        placement = self.schedules.earliest_start(
            machines, len(nodes), int(self.lengths[job]), self._first_slot(job)
        )
        if placement is None or placement[0] >= present:
            self._reserve(job, nodes, present)
        else:
            self._record_move(job, placement[0], present, len(machines))
            self._place_at(job, placement[1], placement[0])

    def _record_move(self, job: int, start: int, present: int, machines: int) -> None:
        self.runs.moves += 1
        self.record("moved", job, start * self.slot / NS, present * self.slot / NS, among=machines)

    def _arrange(self, present: dict[int, int], starts: dict[int, int], up: Integers) -> None:
        """Recompute the reservations of all jobs that have not started; `present` has their present starts.

        Jobs are taken in the order of their `starts`.  So a machine that is free at the start of a job is
        free from then on, and there are enough of them if there are enough at each instant.
        """
        now = self.run.engine.now
        for job, start in present.items():
            nodes = self.runs.placed[job][0]
            self.schedules.release(nodes, np.full(len(nodes), start), now, jobs=np.full(len(nodes), job))
        for job, start in sorted(starts.items(), key=lambda item: (item[1], item[0])):
            tasks, length = int(self.run.applications.tasks[job]), int(self.lengths[job])
            placement = self.schedules.earliest_start(up, tasks, length, start)
            assert placement is not None and placement[0] == start
            if present.get(job) == start:
                self.runs.placed[job] = placement[1], start * self.slot
                self._reserve(job, placement[1], start)
            else:
                self._place_at(job, placement[1], start)

    def record(self, action: str, job: int, saw: float, limit: float = math.nan, among: int = -1) -> None:
        """Record a decision with a true value, if decisions are recorded."""
        if self.run.decisions is not None:
            self.run.decisions.record(
                action,
                time=self.run.engine.now,
                application=job,
                decider=-1,
                tasks=int(self.run.applications.tasks[job]),
                among=among,
                saw=saw,
                limit=limit,
                true=saw,
                age=0.0,
            )

    def on_finish(self, jobs: list[int]) -> None:
        """End jobs, and release the rest of their reservations."""
        now = self.run.engine.now
        for job in jobs:
            if job not in self.runs.placed or self.runs.end_of(job) > now:
                continue  # the timer belongs to a run that was lost
            nodes, start = self.runs.finish(job)
            self._free(job, nodes, start // self.slot)
        self._stop_if_done()

    def _stop_if_done(self) -> None:
        """End the run if all jobs are completed, rejected or cancelled."""
        cancelled = 0 if self.runs.cancelled is None else int(self.runs.cancelled.sum())
        if self.runs.completed + len(self.rejected) + cancelled == len(self.resubmitted):
            self.run.engine.stop()

    def on_call_off(self, jobs: list[int]) -> None:
        """Cancel jobs on behalf of their users, unless they have ended."""
        now = self.run.engine.now
        assert self.runs.cancelled is not None
        for job in jobs:
            if self.runs.end[job] >= 0 or job in self.rejected:
                continue
            self.runs.cancelled[job] = 1
            machines = len(self.runs.placed[job][0]) if job in self.runs.placed else 0
            self.record("cancelled", job, machines)
            if job in self.waiting:
                self.waiting.remove(job)
                continue
            nodes, start = self.runs.placed[job]
            self.runs.cancel(job, nodes, start, int(self.runs.until[job]), 0, now)
            for node in nodes.tolist():
                self.runs.stop(job, node, 0, now)
            self._free(job, nodes, start // self.slot)
        self._stop_if_done()

    def _free(self, job: int, nodes: Integers, start: int) -> None:
        """Release the rest of the reservation of a job, which began at slot `start` on `nodes`."""
        now, count = self.run.engine.now, len(nodes)
        end = max(start, -(-now // self.slot))
        released = self.schedules.release(
            nodes, np.full(count, start), now, ends=np.full(count, end), jobs=np.full(count, job)
        )
        if released.any():
            self._move_jobs()

    def _move_jobs(self) -> None:
        """Let placed jobs move after all other events of this instant, if `move` is "forward"."""
        if self.moves_forward:
            self._set_move_timer()
            self.released = True

    def _set_move_timer(self) -> None:
        """Set a timer for the end of this instant, unless it is set."""
        if not (self.released or self.arrivals):
            self.run.engine.at(self.run.engine.now, "moved")

    def on_faults(self, failed: Integers, recovered: Integers) -> None:
        """Place the waiting jobs, then the lost jobs; other jobs keep their reservations."""
        now = self.run.engine.now
        _, jobs, starts, _ = self.schedules.lose(failed, now // self.slot, now)
        lost = []
        for job, start in sorted(set(zip(jobs.tolist(), starts.tolist(), strict=True))):
            if job in self.runs.placed and self.runs.placed[job][1] == start * self.slot:
                nodes, _ = self.runs.placed[job]
                self.runs.interrupt(job, now)
                self.record("lost", job, int(np.isin(nodes, failed).sum()))
                self._free(job, nodes, start)
                self.resubmitted[job] += len(nodes)
                lost.append(job)
        waiting, self.waiting = self.waiting, []
        self._place(waiting + lost)
        if len(recovered):
            self._move_jobs()

    def unfinished(self) -> Integers:
        return np.flatnonzero(self.runs.end < 0)

    def finish(self) -> Outcome:
        """Return the outcome; jobs that still wait count as rejected, since too few machines are ever up.

        So do the jobs after them, which are not released.
        """
        failed = np.zeros(len(self.resubmitted), np.int64)
        failed[[*self.waiting, *self.rejected]] = 1
        if self.run.releases is not None:
            failed[self.runs.end < 0] = 1
        return self.runs.outcome(failed=failed, resubmitted=self.resubmitted)


class _Profile:
    """How many machines the placed jobs have reserved, over time in slots.

    Parameters
    ----------
    policy
        The policy that has placed the jobs.
    machines
        Number of machines that are up.
    """

    def __init__(self, policy: _AsapPolicy, machines: int) -> None:
        self.policy, self.machines = policy, machines
        placed, slot = policy.runs.placed, policy.slot
        self.row_of = {job: row for row, job in enumerate(placed)}
        self.start = np.array([start // slot for _, start in placed.values()], np.int64)
        self.end = policy.runs.until[list(placed)] // slot
        self.tasks = np.array([len(nodes) for nodes, _ in placed.values()], np.int64)

    def move(self, job: int, start: int) -> None:
        """Move the start of a placed job to slot `start`."""
        row = self.row_of[job]
        self.start[row], self.end[row] = start, start + int(self.policy.lengths[job])

    def earliest(self, job: int, first: int) -> int | None:
        """Return the earliest start of a job, from slot `first` on; None if too few machines are up."""
        tasks = int(self.policy.run.applications.tasks[job])
        if tasks > self.machines:
            return None
        others = self.end > first
        if job in self.row_of:
            others[self.row_of[job]] = False
        times = np.concatenate(([first], np.maximum(self.start[others], first), self.end[others]))
        changes = np.concatenate(([0], self.tasks[others], -self.tasks[others]))
        order = np.argsort(times, kind="stable")
        times, changes = times[order], changes[order]
        last = np.append(times[1:] > times[:-1], True)
        times, used = times[last], np.cumsum(changes)[last]
        fits = used + tasks <= self.machines
        # spans in which it fits; the last one has no end
        begins = np.flatnonzero(fits & np.append(True, ~fits[:-1]))
        ends = np.flatnonzero(~fits & np.append(False, fits[:-1]))
        lengths = np.append(times[ends], NEVER)[: len(begins)] - times[begins]
        return int(times[begins[np.argmax(lengths >= int(self.policy.lengths[job]))]])
