"""The disciplines of `BatchQueue` as policies in plain Python, each in some twenty lines."""

from __future__ import annotations

from typing import Any

import gridsim as gs


class FcfsPolicy(gs.JobPolicy):
    """First come, first served."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes > view.free:
                return
            view.start(job)


class EasyPolicy(gs.JobPolicy):
    """EASY, as a reservation of a number of machines, in an order of priority."""

    def priority(self, job: gs.Job) -> Any:
        """Return a key of the order: jobs with lower ones come first."""
        return job.number

    def decide(self, view: gs.JobView) -> None:
        queue = sorted(view.waiting, key=self.priority)
        while queue and queue[0].nodes <= view.free:
            view.start(queue.pop(0))
        if not queue or not view.free:
            return
        head, free = queue[0], view.free
        shadow, extra = float("inf"), view.machines
        for job in sorted(view.running, key=lambda job: (job.expected_end, job.number)):
            if free >= head.nodes and job.expected_end > shadow:
                break
            free, shadow = free + job.nodes, job.expected_end
            extra = free - head.nodes
        if free < head.nodes:
            shadow, extra = float("inf"), view.machines
        for job in queue[1:]:
            is_short = view.now + job.estimate <= shadow
            if job.nodes <= view.free and (is_short or job.nodes <= extra):
                extra -= 0 if is_short else job.nodes
                view.start(job)


class WfpPolicy(EasyPolicy):
    """EASY in the order of (wait / estimate)**3 * machines, the highest first."""

    def priority(self, job: gs.Job) -> Any:
        return -((job.waited / job.estimate) ** 3) * job.nodes, job.number


class DepthPolicy(gs.JobPolicy):
    """Backfilling around the reservations of the first jobs that do not fit."""

    def decide(self, view: gs.JobView) -> None:
        queue = view.waiting
        while queue and queue[0].nodes <= view.free:
            view.start(queue.pop(0))
        profile, reservations = view.profile(), 0
        for job in queue:
            start = profile.earliest(job)
            if start == view.now:
                view.start(job)
            elif start is None or reservations == self.parameters.depth:
                continue
            else:
                reservations += 1
            profile.reserve(job, start)


class ConservativePolicy(gs.JobPolicy):
    """Conservative backfilling: reservations are kept, and move to earlier starts after early ends."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.reserved: dict[int, float] = {}  # job -> start, s

    def decide(self, view: gs.JobView) -> None:
        profile, queue = view.profile(), view.waiting
        for job in queue:
            if job.number in self.reserved:
                profile.reserve(job, self.reserved[job.number])
        compresses = any(job.expected_end > view.now for job in view.ended)
        while True:
            is_delayed = False
            for job in queue:
                reserved = self.reserved.get(job.number, float("inf"))
                if job.started is not None or (view.now < reserved < float("inf") and not compresses):
                    continue
                if job.number in self.reserved:
                    profile.release(job)
                    del self.reserved[job.number]
                start = profile.earliest(job)
                if start is None:
                    continue
                is_delayed = is_delayed or view.now >= reserved < start
                start = start if reserved <= view.now else min(start, reserved)
                profile.reserve(job, start)
                if start == view.now:
                    view.start(job)
                else:
                    self.reserved[job.number] = start
            compresses = is_delayed
            if not is_delayed:
                break
        # a start directly after now waits for the end of a job that has exceeded its estimate
        starts = [start for start in self.reserved.values() if start > view.now + 1e-6]
        if starts:
            view.wake(min(starts))


class Fcfs(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler of rigid jobs with first come, first served, `FcfsPolicy`."""

    policy = FcfsPolicy


class Easy(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler of rigid jobs with EASY backfilling, `EasyPolicy`."""

    policy = EasyPolicy


class Wfp(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler of rigid jobs with the priority WFP3, `WfpPolicy`."""

    policy = WfpPolicy


class Depth(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler of rigid jobs with a limited number of reservations, `DepthPolicy`."""

    policy = DepthPolicy
    depth: int = 1


class Conservative(gs.JobScheduler, frozen=True, kw_only=True):
    """A scheduler of rigid jobs with conservative backfilling, `ConservativePolicy`."""

    policy = ConservativePolicy
