"""Node programs that run rigid jobs: claims, timers of jobs, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

import gridsim as gs


class LocalNode(gs.NodeProgram):
    """A machine that runs jobs of one task itself, one after another."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.on_retry(view, view.jobs[application.number])

    def on_retry(self, view: Any, job: Any) -> None:
        if self.parameters.mistake == "unknown job":
            view.jobs[99].attempt += 1
        elif self.parameters.mistake == "job of another node":
            _ = view.jobs[2].phase
        elif self.parameters.mistake == "unknown timer":
            view.jobs.timer(job, 1.0, "retri")
        elif self.parameters.mistake == "unknown reason":
            view.jobs.reject(job, "too_small")
        elif view.jobs.claimed >= 0:
            view.jobs.timer(job, self.parameters.pause, "retry")
        elif job.tasks > 1:
            view.jobs.reject(job, "too_large")
        else:
            job.attempt += 1
            job.nodes, job.start = [view.node], view.now_ns
            if self.parameters.mistake != "no claim":
                view.jobs.claim(job.number, job.attempt)
            view.jobs.start(job)


class OneMachineScheduler(gs.RigidNodeScheduler, frozen=True, kw_only=True):
    name = "one machine"
    failures = False
    policy = LocalNode
    job_timers: ClassVar[Mapping[str, gs.JobTimer]] = {"retry": gs.JobTimer()}
    rejections = ("too_large",)

    pause: float = 1.0
    mistake: str = ""


def scenario() -> gs.Scenario:
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0], [1, 1, 2], [10.0, 5.0, 1.0], submitter=[0, 0, 1])
    return gs.Scenario(gs.Platform.equal(2), jobs)


@pytest.mark.parametrize("nodes", ["interpreted", "python"])
def test_jobs_run_one_after_another_on_a_machine_that_they_claim(nodes: Any) -> None:
    result = gs.simulate(scenario(), OneMachineScheduler(), nodes=nodes)
    jobs = result.applications
    assert jobs["first_start"].tolist()[:2] == [0.0, 10.0] and jobs["finish"].tolist()[:2] == [10.0, 15.0]
    assert jobs["failed"].tolist() == [0, 0, 1] and result.facts["too_large"] == 1


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ("unknown job", "t = 0.0 s: node 0: application must be in 0..2, got 99"),
        ("job of another node", "t = 0.0 s: node 0 does not know application 2; it knows those released"),
        ("unknown timer", "name of a timer must be in job_timers, got 'retri'; did you mean retry"),
        ("unknown reason", "the reason of a rejection must be one of too_large, got 'too_small'"),
        ("no claim", "job.nodes must be machines that have agreed to attempt 1 of job 0, got 0"),
    ],
)
def test_mistakes_with_jobs_are_errors(mistake: str, text: str) -> None:
    with pytest.raises(gs.SchedulerError, match=text):
        gs.simulate(scenario(), OneMachineScheduler(mistake=mistake))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"record": dict}, "Wrong.record must be a subclass of JobRecord"),
        ({"job_timers": {"retry": 1.0}}, r"Wrong.job_timers\['retry'\] must be a JobTimer, got 1.0"),
        ({"failures": True}, r"Wrong.job_timers\['retry'\].pause must be the name of a parameter, .* got ''"),
        ({"columns": ("tries",)}, "Wrong.columns must be attributes of JobRecord, got 'tries'"),
    ],
)
def test_wrong_declarations_are_errors(members: dict[str, Any], text: str) -> None:
    kind = type(
        "Wrong", (OneMachineScheduler,), {"__module__": __name__, **members}, frozen=True, kw_only=True
    )
    with pytest.raises(gs.ScenarioError, match=text):
        gs.simulate(scenario(), kind())
