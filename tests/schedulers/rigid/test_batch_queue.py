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
    "killing": {"kill": "at-limit", "queue_limits": (6, 0)},
    "partitions": {"partitions": (6, 2), "queue_partitions": (0, 0), "backfill": "conservative"},
}


def jobs(count: int = 60) -> gs.Workload:
    """Return jobs of three users and two queues that ask for twice their run times, or for half of them."""
    numbers = range(count)
    run = [10.0 + 37 * k % 90 for k in numbers]
    return gs.Workload.jobs_of(
        [7.0 * k for k in numbers],
        [1 + 5 * k % 6 for k in numbers],
        run,
        [time * (2.0 if k % 7 else 0.5) for k, time in enumerate(run)],
        queue=[k % 2 for k in numbers],
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
    # reservations of particular machines and of numbers of machines may give equal results
    assert len(set(digests.values())) >= len(QUEUES) - 1


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"backfill": "none", "depth": 2}, 'backfill.depth must be 1 unless backfill is "easy", got 2'),
        ({"backfill": "conservative", "reserve": "machines"}, "backfill.reserve must be 'counts' unless"),
        ({"reserve": "machines", "depth": 2}, 'backfill.depth must be 1 with reserve="machines", got 2'),
        ({"backfill": "conservative", "user_limit": 4}, "backfill.user_limit must not be set with"),
        ({"order": "shortest"}, "backfill.order must be one of"),
        ({"backfill": "conservative", "queue_limits": (4,)}, "backfill.queue_limits must not be set with"),
        ({"queue_priorities": (1.0,)}, 'backfill.queue_priorities require order="multifactor", got'),
        (
            {"queue_partitions": (0, 2), "partitions": (4, 4)},
            "backfill.queue_partitions must be below 2, the",
        ),
        ({"queue_partitions": {"a": "b"}}, "backfill.queue_partitions must be a table exactly if partitions"),
        (
            {"queue_partitions": {"a": "b"}, "partitions": {"c": 1}},
            "backfill.queue_partitions.a must be one of c, got 'b'",
        ),
        ({"partitions": "site"}, "backfill.partitions must be a list, a table or 'sites', got 'site'"),
        ({"queue_limits": "debug"}, "backfill.queue_limits must be a list or a table, got 'debug'"),
        ({"queue_limits": 4}, "backfill.queue_limits must be a list or a table, got 4"),
        ({"partitions": (2, 0)}, "backfill.partitions[1] must be a whole number >= 1, got 0"),
        (
            {"queue_partitions": (0,), "partitions": "sites"},
            'backfill.queue_partitions must be empty with partitions="sites", got (0,)',
        ),
        ({"queue_limits": {"a": -1}}, "backfill.queue_limits.a must be a whole number >= 0, got -1"),
    ],
)
def test_contradictory_options_of_queues_are_rejected(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(gs.ScenarioError) as error:
        gs.BatchQueue(**parameters)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"queue_limits": (1,)},
            "backfill.queue_limits must have an entry for each of the 2 queues of the workload (0, 1), got 1",
        ),
        (
            {"partitions": (99, 1)},
            "backfill.partitions must leave each a machine of the 8 of the platform, got 0=8, 1=0",
        ),
        (
            {"partitions": (7, 1)},
            "backfill.partitions must allow some jobs of queue 1, which request at least 2 machines, got 1",
        ),
        (
            {"queue_limits": (0, 1)},
            "backfill.queue_limits must allow some jobs of queue 1, which request at least 2 machines, got 1",
        ),
        (
            {"queue_limits": {"2": 4}},
            "backfill.queue_limits must have names of queues of the workload (0, 1), got '2'",
        ),
        ({"partitions": "sites"}, 'backfill.partitions = "sites" requires a platform of sites'),
        (
            {"partitions": {"0": 8}},
            "backfill.partitions must have the name of each queue that queue_partitions does not have, got 0",
        ),
    ],
)
def test_queues_that_do_not_fit_the_workload_are_rejected(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(gs.ScenarioError) as error:
        gs.simulate(gs.Scenario(gs.Platform.equal(8), jobs()), gs.BatchQueue(**parameters))
    assert str(error.value).startswith(text)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("parameters", "rejected"),
    [({"user_limit": 5}, 10), ({"queue_limits": {"1": 3}}, 20), ({"partitions": (3, 5)}, 20)],
)
def test_jobs_wider_than_a_limit_are_rejected(parameters: dict[str, Any], rejected: int, fails: bool) -> None:
    faults = gs.Faults.exponential(400.0, 50.0, seed=3) if fails else None
    scenario, queue = gs.Scenario(gs.Platform.equal(8), jobs(), faults=faults), gs.BatchQueue(**parameters)
    message = rf"{rejected} of 60 jobs, .* % of the work, request more machines than it allows"
    with pytest.warns(gs.SchedulerWarning, match=message):
        result = gs.simulate(scenario, queue, record=("schedule", "decisions"))
        assert resume_difference(scenario, queue, gs.simulate(scenario, queue, record=True)) is None
    assert validate_result(result) == [] and result.failed == rejected


@pytest.mark.parametrize(("discipline", "factor"), [("easy", 0.5), ("conservative", 2.0)])
def test_sites_as_partitions_are_as_each_site_by_itself(discipline: Any, factor: float) -> None:
    """With EASY also if a seventh of the jobs outlive their estimates."""
    numbers = range(60)
    run = [10.0 + 37 * k % 90 for k in numbers]
    workload = gs.Workload.jobs_of(
        [7.0 * k for k in numbers],
        [1 + 5 * k % 6 for k in numbers],
        run,
        [time * (2.0 if k % 7 else factor) for k, time in enumerate(run)],
        site=[int(k % 4 == 0) for k in numbers],
    )
    scenario = gs.Scenario(gs.Platform.sites([7, 6]), workload)
    together = gs.simulate(scenario, gs.BatchQueue(partitions="sites", backfill=discipline))
    waits = together.applications["waiting"]
    for k, alone in enumerate(scenario.by_site().values()):
        expected = gs.simulate(alone, gs.BatchQueue(backfill=discipline)).applications["waiting"]
        assert waits[[k == (i % 4 == 0) for i in numbers]].tolist() == expected.tolist()
    assert waits.any()


# -- by hand ------------------------------------------------------------------------------------------------


def starts(scheduler: gs.BatchQueue, machines: int, *columns: Any, **more: Any) -> list[float]:
    scenario = gs.Scenario(gs.Platform.equal(machines), gs.Workload.jobs_of(*columns, **more))
    column: list[float] = gs.simulate(scenario, scheduler).applications["first_start"].tolist()
    return column


def test_limits_and_partitions_of_queues_are_as_computed_by_hand() -> None:
    """Jobs of 10 s on 4 machines; those of queue 3 come last."""
    load: Any = [0.0] * 5, [1, 2, 1, 2, 1], [10.0] * 5
    queue = [3, 3, 3, 5, 5]
    assert starts(gs.BatchQueue(), 4, *load, queue=queue) == [0.0, 0.0, 0.0, 10.0, 10.0]
    limited = gs.BatchQueue(queue_limits=(2, 0))
    assert starts(limited, 4, *load, queue=queue) == [0.0, 10.0, 0.0, 0.0, 10.0]
    # in partitions of two machines, the jobs of a queue wait for one another only
    split = gs.BatchQueue(partitions=(2, 2))
    assert starts(split, 4, *load, queue=queue) == [0.0, 10.0, 0.0, 0.0, 10.0]
    swapped = gs.BatchQueue(partitions=(3, 1), queue_partitions=(1, 0))
    assert starts(swapped, 4, [0.0] * 4, [1, 1, 2, 1], [10.0] * 4, queue=[3, 3, 5, 5]) == [
        0.0,
        10.0,
        0.0,
        0.0,
    ]


def test_partitions_are_scaled_to_the_machines_with_a_warning() -> None:
    scenario = gs.Scenario(gs.Platform.equal(8), jobs())
    with pytest.warns(gs.errors.SchedulerWarning, match=r"add up to 7, .* to the 8 machines .*: 0=7, 1=1$"):
        scaled = gs.simulate(scenario, gs.BatchQueue(partitions=(6, 1), queue_partitions=(0, 0)))
    exact = gs.simulate(scenario, gs.BatchQueue(partitions=(7, 1), queue_partitions=(0, 0)))
    assert scaled.digest == exact.digest


def test_parameters_of_queues_take_the_names_of_a_log(tmp_path: Path) -> None:
    line = "{0} 0 -1 10 2 -1 -1 2 10 -1 1 {0} 1 1 {1} 1 -1 -1\n"
    log = tmp_path / "log.swf"
    names = "; MaxProcs: 4\n; Queue: 1 batch\n; Queue: 2 debug\n; Queue: 3 night\n; User: 2 ann\n"
    log.write_text(names + "".join(line.format(k, 1 + k % 2) for k in range(1, 5)))
    scenario = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(str(log)))
    applications = scenario.workload.realize(scenario.platform)
    assert applications.members("queue")[0] == ["batch", "debug"]
    assert applications.members("user")[0] == ["1", "ann", "3", "4"]
    for named, listed in (
        ({"queue_limits": {"batch": 2, "night": 1}}, {"queue_limits": (2, 0)}),
        ({"partitions": {"debug": 2, "batch": 2}}, {"partitions": (2, 2), "queue_partitions": (1, 0)}),
        (
            {"partitions": {"all": 4}, "queue_partitions": {"debug": "all", "batch": "all"}},
            {"partitions": (4,), "queue_partitions": (0, 0)},
        ),
        (
            {"order": "multifactor", "queue_priorities": {"debug": 1.0}},
            {"order": "multifactor", "queue_priorities": (0.0, 1.0)},
        ),
    ):
        one, other = (gs.simulate(scenario, gs.BatchQueue(**each)) for each in (named, listed))
        assert (one.applications["first_start"] == other.applications["first_start"]).all()


def test_priorities_of_queues_and_users_add_up() -> None:
    """One machine: the order is 1 (queue), 2 (its user's 0.5), 0, once the first job has ended."""
    queue = gs.BatchQueue(
        order="multifactor",
        age_weight=0.0,
        share_weight=0.0,
        priority_weight=0.5,
        queue_priorities=(0.0, 1.0),
    )
    load: Any = [0.0, 1.0, 1.0, 1.0], [1] * 4, [10.0] * 4
    actual = starts(queue, 1, *load, user=[0] * 4, queue=[0, 0, 1, 0], priority=[0.0, 0.0, 0.0, 1.0])
    assert actual == [0.0, 30.0, 10.0, 20.0]


def test_starts_with_fair_share_are_as_computed_by_hand() -> None:
    """Ten jobs of 100 s on two machines: those of user 0 take both, and user 1 has its turn after each.

    With a half-life of 100 s, 100 s on a machine count as 72.1 at their end.  So the uses are, from 100 s on
    at each 100 s, 144 and 0, 72 and 144, 180 and 72, 90 and 180, 189 and 90, and 95 and 117.
    """
    queue = gs.BatchQueue(backfill="none", order="multifactor", age_weight=0.0, half_life=100.0)
    load: Any = [0.0] * 10, [2] * 5 + [1] * 5, [100.0] * 10
    actual = starts(queue, 2, *load, user=[0] * 5 + [1] * 5)
    assert actual == [0.0, 200.0, 400.0, 600.0, 700.0, 100.0, 100.0, 300.0, 300.0, 500.0]


@pytest.mark.parametrize(("half_life", "first"), [(100.0, 3), (1e6, 4)])
def test_old_usage_counts_less(half_life: float, first: int) -> None:
    """User 0 has used 1,000 s long ago, which count as 36 s at 1,200 s; user 1 has used 200 s, 108."""
    queue = gs.BatchQueue(backfill="none", order="multifactor", age_weight=0.0, half_life=half_life)
    load: Any = [0.0, 1.0, 2.0, 1150.0, 1150.0], [1] * 5, [1000.0, 100.0, 100.0, 10.0, 10.0]
    actual = starts(queue, 1, *load, user=[0, 1, 1, 0, 1])
    assert actual[first] == 1200.0 and actual[7 - first] == 1210.0


def test_predicted_estimates_are_as_computed_by_hand() -> None:
    """The user of the last job has run for 10 and 30 s: 20 s are expected, which end by the reservation."""
    load: Any = [0.0, 0.0, 40.0, 41.0, 42.0], [1, 1, 1, 2, 1], [10.0, 30.0, 25.0, 5.0, 20.0]
    requested, user = [100.0, 100.0, 25.0, 5.0, 100.0], [1, 1, 0, 0, 1]
    assert starts(gs.BatchQueue(), 2, *load, requested, user=user)[4] == 70.0
    assert starts(gs.BatchQueue(estimate="predicted"), 2, *load, requested, user=user)[4] == 42.0


def test_predictions_require_users() -> None:
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
