"""The node program of DGS_ASAP equals the compiled protocol: same digests, tables and facts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.results.diff import first_difference
from gridsim.testing import cases
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result


@st.composite
def failures(draw: st.DrawFn, nodes: int) -> gs.Faults:
    """Draw failures at whole seconds, at which other events may be due, or at drawn times."""
    if draw(st.booleans()):
        return gs.Faults.exponential(up=2000.0, down=200.0, seed=draw(st.integers(0, 99)))
    free = [0] * nodes
    rows = []
    for machine in draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=8)):
        down = free[machine] + draw(st.integers(0, 300))
        up = down + draw(st.sampled_from([0, 1, 10, 60, 100, 500]))
        rows.append((machine, down, up))
        free[machine] = up + 1
    return gs.Faults.of(*(list(column) for column in zip(*rows, strict=True)))


#: Ratios of requested times to run times: some users request too much, and some jobs outlive their requests.
factors = st.sampled_from([None, 2.0, 0.5, 0.1])


@st.composite
def scenarios(draw: st.DrawFn, *, fails: bool) -> gs.Scenario:
    nodes, count = draw(st.integers(1, 15)), draw(st.integers(1, 12))
    latency = draw(st.sampled_from([0.0, 0.05, 1.0, 5.0]))
    network = gs.Network(
        latency=latency,
        jitter=draw(st.sampled_from([0.0, latency / 2])),
        bandwidth=draw(st.sampled_from([math.inf, 1e6, 2000.0])),
        interfaces=draw(st.sampled_from(["fifo", "equal"])),
    )
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    run_time = draw(st.lists(st.sampled_from([1.0, 30.0, 60.0, 100.0, 600.0]), **numbers))
    workload = gs.Workload.jobs_of(
        sorted(draw(st.lists(st.integers(0, 200), **numbers))),
        draw(st.lists(st.integers(1, nodes), **numbers)),
        run_time,
        requested=None if (factor := draw(factors)) is None else [factor * item for item in run_time],
        submitter=draw(st.lists(st.integers(0, nodes - 1), **numbers)),
    )
    faults = draw(failures(nodes)) if fails else None
    actual = gs.Scenario(gs.Platform.equal(nodes), workload, network, draw(st.integers(0, 99)), faults=faults)
    return draw(cases.with_machine_requirements(actual))


def schedulers() -> st.SearchStrategy[gs.DgsAsap]:
    return st.builds(
        gs.DgsAsap,
        policy=st.sampled_from(["push", "pull", "poll"]),
        overlay=st.sampled_from(["static", "cyclon"]),
        degree=st.sampled_from([1, 2, 3, 6]),
        shuffle=st.just(1),
        forward=st.integers(1, 3),
        slot=st.sampled_from([1.0, 10.0, 60.0]),
        hops=st.integers(1, 3),
        candidates=st.sampled_from(["all", "others"]),
        wide=st.sampled_from(["widen", "fail"]),
        estimate=st.sampled_from(["run", "requested"]),
        early=st.sampled_from(["release", "keep"]),
        rounds=st.sampled_from([1, 3]),
        retry=st.sampled_from([10.0, 600.0]),
        tries=st.sampled_from([2, 10]),
        detection=st.sampled_from([1.0, 60.0]),
        patience=st.sampled_from([2.0, 120.0]),
        poll_period=st.sampled_from([7.0, 120.0]),
        cycle=st.sampled_from([13.0, 600.0]),
    )


def run(scenario: gs.Scenario, scheduler: gs.DgsAsap, **options: Any) -> gs.Result | str:
    """Return the result, or the error: with failures some runs do not end."""
    try:
        return gs.simulate(scenario, scheduler, time_limit=1e5, **options)
    except gs.ScenarioError as error:
        return str(error).split(":")[0]


@given(data=st.data(), fails=st.sampled_from([False, False, True]), scheduler=schedulers())
def test_node_program_equals_the_compiled_protocol(
    data: st.DataObject, fails: bool, scheduler: gs.DgsAsap
) -> None:
    scenario = data.draw(scenarios(fails=fails))
    forms: tuple[Any, ...] = ("interpreted", "compiled")
    one, other = (run(scenario, scheduler, record=("schedule", "decisions"), nodes=form) for form in forms)
    if isinstance(one, str) or isinstance(other, str):
        assert one == other and fails
        return
    assert one.digest == other.digest, first_difference(one, other)
    assert one.tables == other.tables and one.facts == other.facts


@settings(max_examples=10, deadline=None)
@given(scenario=scenarios(fails=True), scheduler=schedulers())
def test_both_forms_have_valid_and_equal_runs_with_failures(
    scenario: gs.Scenario, scheduler: gs.DgsAsap
) -> None:
    one, other = (
        run(scenario, scheduler, record=record, nodes=nodes)
        for record, nodes in ((True, "compiled"), ("decisions", "interpreted"))
    )
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    assert one.digest == other.digest and validate_result(one) == []


@pytest.mark.parametrize("asked", [1.0, 0.3])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("policy", ["push", "pull", "poll"])
def test_resumed_run_equals_the_whole_run(policy: Any, fails: bool, asked: float) -> None:
    faults = gs.Faults.exponential(up=3000.0, down=200.0, seed=1) if fails else None
    run_time = [100.0, 300.0, 60.0, 30.0, 200.0, 90.0]
    requested = [asked * item for item in run_time]
    jobs = gs.Workload.jobs_of(
        [0.0, 1.0, 2.0, 2.0, 50.0, 400.0], [3, 5, 4, 8, 1, 6], run_time, requested=requested
    )
    scenario = gs.Scenario(
        gs.Platform.equal(12), jobs, gs.Network(latency=0.5, jitter=0.1), seed=2, faults=faults
    )
    scheduler = gs.DgsAsap(policy=policy, degree=3, overlay="cyclon", cycle=20.0, slot=10.0)
    for form in ("interpreted", "compiled"):
        options: dict[str, Any] = {"record": ("schedule", "decisions"), "nodes": form}
        result = gs.simulate(scenario, scheduler, **options)
        assert (result.facts.get("displaced", 0) > 0) == (asked < 1)
        assert resume_difference(scenario, scheduler, result, **options) is None


def test_a_job_whose_reservation_ends_before_the_last_reply_is_searched_again() -> None:
    # s; shorter than the two latencies of 5 s after which the reply to a commit arrives
    requested = [3.0, 3.0]
    workload = gs.Workload.jobs_of([1.0, 2.0], [1, 1], [30.0, 30.0], requested=requested, submitter=[1, 3])
    network = gs.Network(latency=5.0, interfaces="equal")
    scenario = gs.Scenario(gs.Platform.equal(4), workload, network, seed=48)
    scheduler = gs.DgsAsap(forward=3, degree=3, slot=1.0)
    compiled, program = (
        gs.simulate(scenario, scheduler, nodes=form, record=True) for form in ("compiled", "interpreted")
    )
    assert compiled.digest == program.digest
    assert compiled.facts["displaced"] > 0 and compiled.tables["schedule"]["completed"].tolist() == [1, 1]
