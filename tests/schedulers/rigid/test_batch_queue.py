"""`BatchQueue`: valid and resumable runs of all disciplines, with failures; refusals; users of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result

QUEUES: dict[str, dict[str, Any]] = {
    "none": {"backfill": "none"},
    "easy": {},
    "deep": {"depth": 3},
    "machines": {"reserve": "machines"},
    "conservative": {"backfill": "conservative"},
    "saf": {"order": "saf"},
    "f1": {"order": "f1", "backfill": "conservative"},
    "wfp": {"order": "wfp", "user_limit": 6},
    "multifactor": {"order": "multifactor", "priority_weight": 1.0},
    "predicted": {"order": "sjf", "estimate": "predicted"},
}


def jobs(count: int = 60) -> gs.Workload:
    """Return jobs of three users that ask for twice their run times."""
    numbers = range(count)
    run = [10.0 + 37 * k % 90 for k in numbers]
    return gs.Workload.jobs_of(
        [7.0 * k for k in numbers],
        [1 + 5 * k % 6 for k in numbers],
        run,
        [2.0 * time for time in run],
        user=[k % 3 for k in numbers],
        priority=[float(k % 2) for k in numbers],
    )


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", QUEUES)
def test_runs_are_valid_and_can_be_resumed(name: str, fails: bool) -> None:
    faults = gs.Faults.exponential(400.0, 50.0, seed=3) if fails else None
    scenario = gs.Scenario(gs.Platform.equal(8), jobs(), faults=faults)
    queue = gs.BatchQueue(**QUEUES[name])
    result = gs.simulate(scenario, queue, record=("schedule", "decisions"))
    assert validate_result(result) == [] and not result.applications["failed"].any()
    assert len(result.why(0).decisions["action"])
    full = gs.simulate(scenario, queue, record=True)
    assert resume_difference(scenario, queue, full) is None


def test_each_discipline_and_order_gives_a_result_of_its_own() -> None:
    scenario = gs.Scenario(gs.Platform.equal(8), jobs())
    digests = {name: gs.simulate(scenario, gs.BatchQueue(**queue)).digest for name, queue in QUEUES.items()}
    assert len(set(digests.values())) >= len(QUEUES) - 1  # reservations of machines and of numbers may agree


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"backfill": "none", "depth": 2}, 'backfill.depth must be 1 unless backfill is "easy", got 2'),
        ({"backfill": "conservative", "reserve": "machines"}, "backfill.reserve must be 'counts' unless"),
        ({"reserve": "machines", "depth": 2}, 'backfill.depth must be 1 with reserve="machines", got 2'),
        ({"backfill": "conservative", "user_limit": 4}, "backfill.user_limit must be None with"),
        ({"order": "shortest"}, "backfill.order must be one of"),
    ],
)
def test_combinations_without_a_meaning_are_rejected(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(gs.ScenarioError) as error:
        gs.BatchQueue(**parameters)
    assert str(error.value).startswith(text)


def test_predictions_need_users() -> None:
    scenario = gs.Scenario(gs.Platform.equal(8), gs.Workload.jobs(jobs=5, seed=1))
    with pytest.raises(gs.ScenarioError, match="workload.user must be known"):
        gs.simulate(scenario, gs.BatchQueue(estimate="predicted"))


def test_jobs_of_a_log_have_their_users_and_queues(tmp_path: Path) -> None:
    line = "{0} {0} 0 10 2 -1 -1 2 20 -1 1 {1} 1 1 {2} 1 -1 -1\n"
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 8\n" + "".join(line.format(k, k % 2, k % 3) for k in range(1, 5)))
    applications = gs.Workload.jobs_from_log(str(log)).realize(gs.Platform.equal(4))
    assert applications.user is not None and applications.user.tolist() == [1, 0, 1, 0]
    assert applications.queue is not None and applications.queue.tolist() == [1, 2, 0, 1]
