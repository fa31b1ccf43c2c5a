"""`check_scheduler` tries rigid jobs that share machines, and detects queues that ignore what jobs need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing import ConformanceError, check_scheduler
from tests.reference.batch_policies import Easy

#: Column of jobs -> the value that takes nothing.
NEEDS = {"cores": 1, "memory": 0.0, "gpus": 0, "tasks_per_machine": 0, "exclusive": 0}


@pytest.mark.parametrize(
    "scheduler",
    [
        gs.BatchQueue(placement="best", kill="at-limit"),
        gs.BatchQueue(backfill="none", placement="spread"),
        gs.BatchQueue(order="wfp", estimate="run"),
        gs.BatchQueue(backfill="conservative"),
        Easy(),
    ],
    ids=repr,
)
def test_queues_on_shared_machines_pass(scheduler: gs.Scheduler, tmp_path: Path) -> None:
    report = check_scheduler(scheduler, examples=12, hash_seeds=False, max_nodes=9, folder=tmp_path)
    assert report.examples >= 12 and report.with_failures >= 4


class Careless(gs.BatchQueue, frozen=True, kw_only=True):
    """Queue that ignores a column of the jobs."""

    name: ClassVar[str] = "careless"
    ignored: str = "cores"

    def start(self, run: Any) -> Any:
        jobs = run.applications
        if getattr(jobs, self.ignored) is not None:
            column = 0 * getattr(jobs, self.ignored) + NEEDS[self.ignored]
            run = replace(run, applications=replace(jobs, **{self.ignored: column}))
        return super().start(run)


@pytest.mark.parametrize("ignored", NEEDS)
def test_a_queue_that_ignores_a_need_is_found(ignored: str, tmp_path: Path) -> None:
    with pytest.raises(ConformanceError) as excinfo:
        check_scheduler(
            Careless(ignored=ignored),
            examples=200,
            max_nodes=9,
            hash_seeds=False,
            shrink=False,
            folder=tmp_path,
        )
    assert excinfo.value.law in ("runs", "sound")
