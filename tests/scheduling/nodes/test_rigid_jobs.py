"""Node programs that run rigid jobs: claims, timers of jobs, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridcore.dgs.negotiations import NEW
from gridsim.scheduling.nodes.rigid_jobs import JobTimer, RigidNodeScheduler


class Local(gs.NodeProgram):
    """A machine that runs jobs of one task itself, one after another."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.on_retry(view, view.jobs[application.number])

    def on_retry(self, view: Any, job: Any) -> None:
        if self.parameters.mistake == "unknown job":
            view.jobs[99].attempt += 1
        elif self.parameters.mistake == "unknown reason":
            view.jobs.reject(job, "too_small")
        elif view.jobs.claimed >= 0:
            view.jobs.timer(job, view.now_ns + 10**9, "retry")
        elif job.tasks > 1:
            view.jobs.reject(job, "too_large")
        else:
            job.attempt += 1
            job.nodes, job.start = [view.node], view.now_ns
            if self.parameters.mistake != "no claim":
                view.jobs.claim(job.number, job.attempt)
            view.jobs.start(job, job.start)


class OneMachine(RigidNodeScheduler, frozen=True, kw_only=True):
    name = "one machine"
    failures = False
    policy = Local
    job_timers: ClassVar[Mapping[str, JobTimer]] = {"retry": JobTimer((NEW,), "pause")}
    rejections = ("too_large",)

    pause: float = 1.0
    mistake: str = ""


def scenario() -> gs.Scenario:
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0], [1, 1, 2], [10.0, 5.0, 1.0], submitter=[0, 0, 1])
    return gs.Scenario(gs.Platform.equal(2), jobs)


@pytest.mark.parametrize("nodes", ["interpreted", "python"])
def test_jobs_run_one_after_another_on_a_machine_that_they_claim(nodes: Any) -> None:
    result = gs.simulate(scenario(), OneMachine(), nodes=nodes)
    jobs = result.applications
    assert jobs["first_start"].tolist()[:2] == [0.0, 10.0] and jobs["finish"].tolist()[:2] == [10.0, 15.0]
    assert jobs["failed"].tolist() == [0, 0, 1] and result.facts["too_large"] == 1


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ("unknown job", "t = 0.0 s: node 0: application must be in 0..2, got 99"),
        ("unknown reason", "the reason of a rejection must be one of too_large, got 'too_small'"),
        ("no claim", "job.nodes must be machines that have agreed to attempt 1 of job 0, got 0"),
    ],
)
def test_mistakes_with_jobs_are_errors(mistake: str, text: str) -> None:
    with pytest.raises(gs.SchedulerError, match=text):
        gs.simulate(scenario(), OneMachine(mistake=mistake))
