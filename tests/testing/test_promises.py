"""Long queues of rigid jobs show whether a batch queue keeps its promise."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import gridsim as gs
from gridsim.testing.cases import long_queues
from gridsim.testing.order import promised_order_violation

sys.path.insert(0, str(Path(__file__).parents[1] / "_helpers"))
PLANTED_JOBS, PLANTED_EASY = import_module("planted_jobs"), import_module("planted_easy")
del sys.path[0]


def violations(scheduler: gs.Scheduler) -> list[str | None]:
    foresees_run_times, order = "run times" in scheduler.foresees, scheduler.promised_order
    assert order is not None
    queues = long_queues(shares=scheduler.cores is True)
    results = [gs.simulate(scenario, scheduler, record=True) for scenario in queues]
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
        gs.BatchQueue(placement="best"),
        gs.BatchQueue(placement="spread"),
        PLANTED_JOBS.EasyQueue(),
        PLANTED_EASY.EasyFitQueue(),
    ],
    ids=repr,
)
def test_queue_keeps_its_promise(scheduler: gs.Scheduler) -> None:
    assert not any(violations(scheduler))


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (PLANTED_JOBS, "UnplannedBackfill", "delays"),
        (PLANTED_JOBS, "SpareMachine", "is the first one that waits"),
        (PLANTED_JOBS, "OtherQueue", "delays"),
        (PLANTED_JOBS, "OwnDelay", "delays"),
        (PLANTED_JOBS, "Tolerance", "delays"),
        (PLANTED_EASY, "SameRoomQueue", "delays"),
        (PLANTED_EASY, "UnreservedGpusQueue", "delays"),
        (PLANTED_EASY, "LastCoreQueue", "is the first one that waits"),
    ],
)
def test_broken_promise_is_found(module: ModuleType, name: str, text: str) -> None:
    assert any(text in (violation or "") for violation in violations(getattr(module, name)()))
