"""The metascheduler and Zorilla on sites of unequal size and speed: cases by hand, and sites alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result

#: Messages take 1 s, whatever their size.
NETWORK = gs.Network(latency=1.0, bandwidth=math.inf, interfaces="equal")
FREE = gs.Network(latency=0.0, bandwidth=math.inf)


def case(platform: gs.Platform, *jobs: tuple[float, int, float, int]) -> gs.Scenario:
    """Return a scenario of jobs given as (release, machines, run time, submitter)."""
    release, nodes, run_time, submitter = (list(column) for column in zip(*jobs, strict=True))
    return gs.Scenario(
        platform, gs.Workload.jobs_of(release, nodes, run_time, submitter=submitter), NETWORK, 1
    )


def run(scenario: gs.Scenario, **parameters: Any) -> gs.Result:
    result = gs.simulate(scenario, gs.Metascheduler(**parameters), record=True)
    assert validate_result(result) == []
    python = gs.simulate(scenario, gs.Metascheduler(**parameters), nodes="python")
    assert python.digest == result.digest
    return result


#: Both jobs are submitted at site 0, which has one machine.
TWO_AT_HOME = case(gs.Platform.sites([1, 3]), (0.0, 1, 100.0, 0), (0.5, 1, 100.0, 0))


@pytest.mark.parametrize(
    ("parameters", "sites", "starts"),
    [
        # the first job is submitted at 1 s, dispatched at 2 s and claimed at 3 s; replies arrive at 4 s, and
        # it starts at 5 s
        ({}, [1, 1], [5.0, 5.5]),  # site 1 has more idle machines
        ({"home": "preferred"}, [0, 1], [5.0, 5.5]),  # the second job would wait at home
        ({"home": "first"}, [0, 0], [5.0, 109.0]),  # the first one ends at 105 s, known at 106 s
        # site 1 asks at 10 s, which arrives at 11 s, and gets the job at 12 s
        ({"home": "first", "pull": 10.0}, [0, 1], [5.0, 15.0]),
        # the job arrives at 2.5 s, goes back at 32.5 s, arrives at 33.5 s and at site 1 at 34.5 s
        ({"home": "first", "suspension": 30.0}, [0, 1], [5.0, 37.5]),
    ],
)
def test_jobs_leave_their_home_site_as_the_parameters_state(
    parameters: dict[str, Any], sites: list[int], starts: list[float]
) -> None:
    jobs = run(TWO_AT_HOME, **parameters).applications
    assert jobs["site"].tolist() == sites and jobs["first_start"].tolist() == starts
    moves = "pull" in parameters or "suspension" in parameters
    assert jobs["moved"].tolist() == [0, int(moves)]


def test_jobs_stay_at_home_if_there_is_less_work_than_elsewhere() -> None:
    """Both sites are busy when the third job comes: for 10 s at its home, for 500 s at the other one."""
    jobs = (0.0, 1, 10.0, 0), (0.0, 1, 500.0, 1), (1.0, 1, 5.0, 0), (1.5, 1, 5.0, 1)
    result = run(case(gs.Platform.sites([1, 1]), *jobs), home="preferred")
    assert result.applications["site"].tolist() == [0, 1, 0, 0]


def test_jobs_wider_than_their_home_site_go_elsewhere() -> None:
    platform = gs.Platform.sites([1, 3])
    result = run(case(platform, (0.0, 3, 10.0, 0), (0.5, 4, 10.0, 0)), home="first")
    assert result.applications["site"].tolist() == [1, -1]  # the second one is co-allocated
    assert run(case(platform, (0.0, 3, 10.0, 0), (0.5, 4, 10.0, 0)), wide="reject").failed == 1


def test_sizes_of_sites_can_be_parameters() -> None:
    on_equal = gs.Scenario(gs.Platform.equal(4), TWO_AT_HOME.workload, NETWORK, 1)
    given_sizes = run(on_equal, sizes=(1, 3), home="preferred")
    assert given_sizes.digest == run(TWO_AT_HOME, home="preferred").digest
    with pytest.raises(gs.ScenarioError, match="metascheduler.sizes must add up to 4, .* got 5"):
        gs.simulate(on_equal, gs.Metascheduler(sizes=(2, 3)))


# -- unequal speeds -----------------------------------------------------------------------------------------


def test_the_slowest_machine_determines_the_run_time() -> None:
    """Site 1 is twice as fast as site 0."""
    platform = gs.Platform.sites([1, 1], speeds=[1000.0, 2000.0])
    # the second job takes 100 s at its home and 50 s at site 1
    away = run(case(platform, (0.0, 1, 100.0, 0), (0.5, 1, 100.0, 0)))
    assert away.applications["finish"].tolist() == [105.0, 55.5]
    assert away.applications["run_time"].tolist() == [100.0, 50.0]
    assert away.applications["waiting"].tolist() == [5.0, 5.0]
    # a job on both sites takes 100 s at its home, site 1, and 200 s on the machine of site 0
    wide = case(platform, (0.0, 2, 100.0, 1))
    for result in (run(wide), gs.simulate(wide, gs.Zorilla(degree=1), record=True)):
        table = result.applications
        assert (table["finish"] - table["first_start"]).tolist() == [200.0]
        assert validate_result(result) == []


def test_runs_resume_while_jobs_run_on_sites_of_different_speed() -> None:
    """The first job runs at site 1 from 5 s to 505 s, while others come and go at site 0."""
    others = [(20.0 * k, 1, 5.0, 0) for k in range(1, 21)]
    scenario = case(gs.Platform.sites([1, 1], speeds=[1000.0, 2000.0]), (0.0, 1, 500.0, 1), *others)
    scheduler = gs.Metascheduler(home="first")
    result = gs.simulate(scenario, scheduler, record=True)
    assert result.applications["finish"][0] == 505.0
    assert resume_difference(scenario, scheduler, result, time_limit=1000.0) is None


def test_schedulers_with_one_run_time_per_job_reject_unequal_speeds() -> None:
    scenario = case(gs.Platform.sites([1, 1], speeds=[1000.0, 2000.0]), (0.0, 1, 100.0, 0))
    for scheduler in (gs.BatchQueue(), gs.Asap(), gs.DgsAsap()):
        with pytest.raises(gs.ScenarioError, match="platform.speeds must be equal for rigid jobs under"):
            gs.simulate(scenario, scheduler)
    failing = gs.Scenario(
        scenario.platform, scenario.workload, NETWORK, 1, faults=gs.Faults.of([1], [50.0], [60.0])
    )
    with pytest.raises(
        gs.ScenarioError, match="platform.speeds must be equal for rigid jobs on machines that"
    ):
        gs.simulate(failing, gs.Zorilla())


def test_schedulers_see_the_machines_of_sites_of_equal_speed() -> None:
    scenario = case(gs.Platform.sites([1, 3]), (0.0, 3, 10.0, 0), (0.5, 4, 10.0, 0))
    plain = gs.Scenario(gs.Platform.equal(4), scenario.workload, NETWORK, 1)
    for scheduler in (gs.DgsAsap(), gs.Zorilla(), gs.BatchQueue(), gs.Asap()):
        assert gs.simulate(scenario, scheduler).digest == gs.simulate(plain, scheduler).digest


# -- sites by themselves ------------------------------------------------------------------------------------


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    speeds = [draw(st.sampled_from((500.0, 1000.0, 2000.0))) for _ in sizes]
    count = draw(st.integers(1, 12))
    site = [draw(st.integers(0, len(sizes) - 1)) for _ in range(count)]
    nodes = [draw(st.integers(1, sizes[k])) for k in site]
    run_time = [draw(st.sampled_from((1.0, 10.0, 30.0, 100.0))) for _ in site]
    requested = [length * draw(st.sampled_from((0.5, 1.0, 3.0))) for length in run_time]
    # times are distinct, since jobs of one instant would reach the metascheduler in the order of their
    # machines
    release = sorted(draw(st.sets(st.integers(0, 100), min_size=count, max_size=count)))
    workload = gs.Workload.jobs_of(release, nodes, run_time, requested, site=site)
    return gs.Scenario(gs.Platform.sites(sizes, speeds), workload, FREE, 1)


@settings(max_examples=40)
@given(scenarios(), st.sampled_from(("run", "requested")))
def test_sites_that_keep_their_jobs_equal_queues_by_themselves(scenario: gs.Scenario, estimate: Any) -> None:
    """If messages take no time, each job starts when the EASY queue of its site alone starts it."""
    together = gs.simulate(scenario, gs.Metascheduler(home="first", estimate=estimate)).applications
    site = scenario.workload.realize(scenario.platform).site
    for name, alone in scenario.by_site().items():
        table = gs.simulate(alone, gs.BatchQueue(estimate=estimate)).applications
        rows = site == int(name)
        assert (together["first_start"][rows] == table["first_start"]).all()
        assert (together["finish"][rows] == table["finish"]).all()


@settings(max_examples=25)
@given(
    scenarios(),
    st.sampled_from(("ignored", "preferred", "first")),
    st.sampled_from((7.0, math.inf)),
    st.sampled_from((20.0, math.inf)),
)
def test_random_runs_on_sites_are_valid(
    scenario: gs.Scenario, home: Any, pull: float, suspension: float
) -> None:
    """Each job is run once, no machine runs two at a time, and all forms have the same digest."""
    slow = gs.Scenario(scenario.platform, scenario.workload, gs.Network(latency=0.5, bandwidth=2000.0), 1)
    parameters = {"home": home, "pull": pull, "suspension": suspension, "period": 30.0}
    result = run(slow, **parameters)
    assert result.failed == 0
    assert resume_difference(slow, gs.Metascheduler(**parameters), result) is None
