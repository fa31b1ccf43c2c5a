"""Long queues of rigid jobs show whether a batch queue keeps its promise."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import gridsim as gs
from gridsim.testing.cases import long_queues
from gridsim.testing.order import promised_order_violation

sys.path.insert(0, str(Path(__file__).parents[1] / "_helpers"))
PLANTED_JOBS = import_module("planted_jobs")
del sys.path[0]


def violations(scheduler: gs.Scheduler) -> list[str | None]:
    foresees_run_times, order = "run times" in scheduler.foresees, scheduler.promised_order
    assert order is not None
    results = [gs.simulate(scenario, scheduler, record=True) for scenario in long_queues()]
    return [
        promised_order_violation(result, order, foresees_run_times=foresees_run_times) for result in results
    ]


@pytest.mark.parametrize(
    "scheduler",
    [
        gs.BatchQueue(backfill="none"),
        gs.BatchQueue(),
        gs.BatchQueue(depth=4),
        gs.BatchQueue(reserve="machines"),
        gs.BatchQueue(estimate="run"),
        gs.BatchQueue(estimate="run", kill="at-limit"),
    ],
    ids=repr,
)
def test_batch_queue_keeps_its_promise(scheduler: gs.BatchQueue) -> None:
    assert violations(scheduler) == [None, None]


@pytest.mark.parametrize(
    ("name", "text"), [("UnplannedBackfill", "delays"), ("SpareMachine", "is the first one that waits")]
)
def test_broken_promise_is_found(name: str, text: str) -> None:
    assert all(text in (violation or "") for violation in violations(getattr(PLANTED_JOBS, name)()))
