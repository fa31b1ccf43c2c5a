"""Faulty batch schedulers with policies of jobs in Python, and faulty node programs for rigid jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from planted import Fault

import gridsim as gs

# -- policies that decide about all jobs --------------------------------------------------------------------


class FirstFitJobs(gs.JobPolicy):
    """Policy that starts each job that fits, in order of release."""

    def decide(self, view: gs.JobView) -> None:
        for job in self.queue(view):
            if job.nodes <= view.free:
                view.start(job)

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        """Return the waiting jobs in the order in which they start."""
        return view.waiting


class FirstFitQueue(gs.JobScheduler, frozen=True, kw_only=True):
    """Scheduler of `FirstFitJobs`."""

    name = "first-fit-jobs"
    policy = FirstFitJobs


class OwnQueueJobs(FirstFitJobs):
    """Policy with a queue of its own, which jobs that lose a machine do not join again."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.numbers: list[int] = []

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        self.numbers += [job.number for job in view.released]
        queue = [view.job(number) for number in self.numbers]
        free, chosen = view.free, list[gs.Job]()
        for job in queue:
            if job.nodes <= free:
                chosen.append(job)
                free -= job.nodes
                self.numbers.remove(job.number)
        return chosen


class WideRejectionJobs(FirstFitJobs):
    """Policy that rejects the jobs that request more machines than are up."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes > view.up:
                view.reject(job)
        super().decide(view)


class KeptJobs(FirstFitJobs):
    """Policy that keeps the objects of jobs by number, which a checkpoint does not."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.seen: list[gs.Job] = []

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        self.seen += view.released
        return sorted(view.waiting, key=lambda job: (len(self.seen) > 3, job.number))


class TrueTimeJobs(FirstFitJobs):
    """Policy that prefers jobs by their true run times, which it takes from the adapter of its view."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        durations = view._adapter.durations
        return sorted(view.waiting, key=lambda job: (durations[job.number], job.number))


class ClassCountJobs(FirstFitJobs):
    """Policy that counts the starts of jobs in its class, and starts every fifth one last."""

    starts: ClassVar[list[int]] = []

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        self.starts.extend(job.number for job in view.ended)
        return view.waiting[::-1] if len(self.starts) % 5 == 4 else view.waiting


class NamedJobs(FirstFitJobs):
    """Policy that takes waiting jobs from a set of names."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        return [view.job(int(name[4:])) for name in {f"job {job.number}" for job in view.waiting}]


class AddressedJobs(FirstFitJobs):
    """Policy that takes jobs of one width in the order of the addresses of their objects."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        return sorted(view.waiting, key=lambda job: (job.nodes, id(job)))


class OverdueJobs(FirstFitJobs):
    """Policy that reserves the end of the running jobs, and fails if one has outlived its estimate."""

    def decide(self, view: gs.JobView) -> None:
        super().decide(view)
        if view.waiting and view.running:
            view.wake(min(job.started + job.estimate for job in view.running if job.started is not None))


class TiredJobs(FirstFitJobs):
    """Policy that does not start jobs that have waited for more than 1,000 s while others run."""

    def queue(self, view: gs.JobView) -> list[gs.Job]:
        return [job for job in view.waiting if job.waited <= 1000.0]


class UnplannedBackfillJobs(gs.JobPolicy):
    """Policy of EASY backfilling that makes no reservation for the jobs that it backfills."""

    def decide(self, view: gs.JobView) -> None:
        queue = view.waiting
        while queue and queue[0].nodes <= view.free:
            view.start(queue.pop(0))
        if not queue:
            return
        first, profile = queue.pop(0), view.profile()
        start = profile.earliest(first)
        if start is not None:
            profile.reserve(first, start)
        for job in queue:
            if job.nodes <= view.free and profile.earliest(job) == view.now:
                view.start(job)


class EasyJobs(gs.JobPolicy):
    """Policy of EASY backfilling."""

    def decide(self, view: gs.JobView) -> None:
        queue = view.waiting
        while queue and queue[0].nodes <= view.free:
            view.start(queue.pop(0))
        if not queue:
            return
        first, profile = queue.pop(0), view.profile()
        start = profile.earliest(first)
        if start is not None:
            profile.reserve(first, start)
        for job in queue:
            if job.nodes > view.free:
                continue
            if profile.earliest(job) == view.now:
                profile.reserve(job, view.now)
                view.start(job)
            elif start is not None and self.ignores_reservation(view, job, first, start):
                view.start(job)

    def ignores_reservation(self, view: gs.JobView, job: gs.Job, first: gs.Job, start: float) -> bool:
        """Return whether `job` starts although it delays the first one."""
        return False


class OtherQueueJobs(EasyJobs):
    """Policy that reserves machines only for jobs of one queue."""

    def ignores_reservation(self, view: gs.JobView, job: gs.Job, first: gs.Job, start: float) -> bool:
        return job.queue != first.queue


class OwnDelayJobs(EasyJobs):
    """Policy by which a user may delay his own first job."""

    def ignores_reservation(self, view: gs.JobView, job: gs.Job, first: gs.Job, start: float) -> bool:
        return job.user == first.user >= 0


class TolerantJobs(EasyJobs):
    """Policy by which a job may end up to a second after the reserved start."""

    def ignores_reservation(self, view: gs.JobView, job: gs.Job, first: gs.Job, start: float) -> bool:
        return view.now + job.estimate <= start + 1.0


class SpareMachineJobs(gs.JobPolicy):
    """Policy that starts jobs in order of release, but keeps a machine free while more than two jobs run."""

    def decide(self, view: gs.JobView) -> None:
        for job in view.waiting:
            if job.nodes > view.up:
                continue
            if job.nodes > view.free - (len(view.running) > 2):
                return
            view.start(job)


# -- node programs for rigid jobs ---------------------------------------------------------------------------


class GatherRecord(gs.JobRecord):
    """Record of a job, with the replies that are missing."""

    def __init__(self, number: int, submitter: int, tasks: int, length: int) -> None:
        super().__init__(number, submitter, tasks, length)
        self.missing = 0
        self.tries = 0


class GatherNode(gs.NodeProgram):
    """Node that asks other machines to agree to a job, and tries again later if too few do."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.on_retry(view, view.jobs[application.number])

    def on_retry(self, view: Any, job: Any) -> None:
        if job.tries == self.parameters.most_tries:
            view.jobs.reject(job, "starved")
            return
        job.phase, job.nodes, job.tries = gs.JobPhase.COMMITTING, [], job.tries + 1
        job.attempt += 1
        machines = self.candidates(view, job)
        job.missing = len(machines)
        job.start = view.now_ns + 3 * (view.jobs.latency + (1 + job.missing) * view.jobs.transfer_time(128))
        for node in machines:
            view.send(node, "claim", application=job.number, attempt=job.attempt)

    def candidates(self, view: Any, job: Any) -> list[int]:
        """Return the machines to ask."""
        return list(range(view.machines))

    def on_claim(self, view: Any, message: Any) -> None:
        agrees = view.jobs.claim(message.application, message.attempt)
        view.send(
            message.sender, "reply", application=message.application, attempt=message.attempt, agrees=agrees
        )

    def on_reply(self, view: Any, message: Any) -> None:
        job = view.jobs[message.application]
        job.missing -= 1
        if message.agrees:
            job.nodes.append(message.sender)
        if job.missing:
            return
        is_enough = len(job.nodes) >= job.tasks and view.now_ns <= job.start
        for node in self.cancelled(job.nodes[job.tasks :] if is_enough else job.nodes):
            view.send(node, "cancel", application=job.number, attempt=job.attempt)
        if is_enough:
            job.nodes = job.nodes[: job.tasks]
            view.jobs.start(job, job.start)
        else:
            job.phase = gs.JobPhase.WAITING
            view.jobs.timer(job, 100.0 * view.random.uniform(0.5, 1.5), "retry")

    def cancelled(self, nodes: list[int]) -> list[int]:
        """Return the machines that are released, of those that have agreed and are not needed."""
        return nodes

    def on_cancel(self, view: Any, message: Any) -> None:
        view.jobs.release(message.application, message.attempt)


class Gather(gs.RigidNodeScheduler, frozen=True, kw_only=True):
    """Scheduler of `GatherNode`."""

    name = "gather"
    policy = GatherNode
    record = GatherRecord
    failures = False
    may_reject = True
    messages: ClassVar[dict[str, gs.Message]] = {
        "claim": gs.Message(128, application=int, attempt=int),
        "reply": gs.Message(128, application=int, attempt=int, agrees=int),
        "cancel": gs.Message(128, application=int, attempt=int),
    }
    job_timers: ClassVar[dict[str, gs.JobTimer]] = {"retry": gs.JobTimer()}
    rejections = ("starved",)

    most_tries: int = 300


class SharedClaimsNode(GatherNode):
    """Node that asks the machines that have agreed to the fewest jobs, counted in the class."""

    agreed: ClassVar[dict[int, int]] = {}

    def on_start(self, view: Any) -> None:
        self.agreed[view.node] = 0

    def candidates(self, view: Any, job: Any) -> list[int]:
        machines = sorted(range(view.machines), key=lambda node: (self.agreed.get(node, 0), node))
        return machines[: max(job.tasks, view.machines // 2) + job.tries]

    def on_claim(self, view: Any, message: Any) -> None:
        super().on_claim(view, message)
        self.agreed[view.node] = self.agreed.get(view.node, 0) + 1


class KeptClaimNode(GatherNode):
    """Node that keeps its machine for a job that has too few, instead of releasing it."""

    def on_cancel(self, view: Any, message: Any) -> None:
        if view.now < 200.0:
            super().on_cancel(view, message)


class LostSpareNode(GatherNode):
    """Node that forgets the last of more than three spare machines, which stays claimed."""

    def cancelled(self, nodes: list[int]) -> list[int]:
        return nodes[:-1] if len(nodes) > 3 else nodes


class EarlyStartNode(GatherNode):
    """Node that starts a job on as many machines as have agreed, if one is missing."""

    def on_reply(self, view: Any, message: Any) -> None:
        job = view.jobs[message.application]
        if job.missing == 1 and len(job.nodes) + message.agrees == job.tasks - 1 and job.tries > 1:
            job.nodes.append(message.sender if not message.agrees else view.node)
        super().on_reply(view, message)


class OwnQueue(FirstFitQueue, frozen=True, kw_only=True):
    policy = OwnQueueJobs


class WideRejection(FirstFitQueue, frozen=True, kw_only=True):
    policy = WideRejectionJobs


class KeptJobObjects(FirstFitQueue, frozen=True, kw_only=True):
    policy = KeptJobs


class TrueTimes(FirstFitQueue, frozen=True, kw_only=True):
    policy = TrueTimeJobs


class ClassCount(FirstFitQueue, frozen=True, kw_only=True):
    policy = ClassCountJobs


class NamedQueue(FirstFitQueue, frozen=True, kw_only=True):
    policy = NamedJobs


class AddressedQueue(FirstFitQueue, frozen=True, kw_only=True):
    policy = AddressedJobs


class OverdueWake(FirstFitQueue, frozen=True, kw_only=True):
    policy = OverdueJobs


class TiredQueue(FirstFitQueue, frozen=True, kw_only=True):
    policy = TiredJobs


class UnplannedBackfill(gs.JobScheduler, frozen=True, kw_only=True):
    policy = UnplannedBackfillJobs
    promised_order = "easy"


class EasyQueue(gs.JobScheduler, frozen=True, kw_only=True):
    policy = EasyJobs
    promised_order = "easy"


class OtherQueue(EasyQueue, frozen=True, kw_only=True):
    policy = OtherQueueJobs


class OwnDelay(EasyQueue, frozen=True, kw_only=True):
    policy = OwnDelayJobs


class Tolerance(EasyQueue, frozen=True, kw_only=True):
    policy = TolerantJobs


class SpareMachine(gs.JobScheduler, frozen=True, kw_only=True):
    policy = SpareMachineJobs
    promised_order = "list"


class SharedClaims(Gather, frozen=True, kw_only=True):
    policy = SharedClaimsNode


class KeptClaim(Gather, frozen=True, kw_only=True):
    policy = KeptClaimNode
    may_reject = False


class LostSpare(Gather, frozen=True, kw_only=True):
    policy = LostSpareNode


class EarlyStartOfJob(Gather, frozen=True, kw_only=True):
    policy = EarlyStartNode


_KINDS: dict[tuple[str, str], dict[type[gs.Scheduler], tuple[str, ...]]] = {
    ("rejects jobs that can run", "jobs"): {
        OwnQueue: ("runs", "served", "foresight"),
        WideRejection: ("served",),
        TiredQueue: ("runs", "served", "foresight"),
    },
    ("breaks its promise", "jobs"): {
        UnplannedBackfill: ("order",),
        SpareMachine: ("order",),
        OtherQueue: ("order",),
        OwnDelay: ("order",),
        Tolerance: ("order",),
    },
    ("forgets in a checkpoint", "jobs"): {KeptJobObjects: ("resumed",)},
    ("knows the future", "jobs"): {TrueTimes: ("foresight",)},
    ("remembers beyond the run", "jobs"): {ClassCount: ("repeatable", "cohorts", "resumed", "foresight")},
    ("depends on an order", "jobs"): {
        NamedQueue: ("hash seed",),
        AddressedQueue: ("repeatable", "cohorts", "resumed", "hash seed", "foresight"),
    },
    ("fails on unusual jobs", "jobs"): {OverdueWake: ("runs", "foresight")},
    ("knows without a message", "rigid nodes"): {SharedClaims: ("isolated", "locality", "resumed")},
    ("rejects jobs that can run", "rigid nodes"): {
        KeptClaim: ("runs", "served"),
        LostSpare: ("runs", "served"),
    },
    ("misreports", "rigid nodes"): {EarlyStartOfJob: ("runs", "sound", "locality")},
}

PLANTED_JOBS = {
    scheduler.__name__: Fault(scheduler, kind, tier, laws)
    for (kind, tier), schedulers in _KINDS.items()
    for scheduler, laws in schedulers.items()
}
