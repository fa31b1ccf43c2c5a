"""Every scheduler conserves tasks, messages, bytes and machine time, and respects lower bounds."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.support.clock import NS
from gridsim.testing import scenarios
from tests._helpers.scenarios import CENTRAL, Witness, fair_trees

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SIZES = {"spread": "spread_bytes", "request": "request_bytes", "accept": "accept_bytes"}

any_scheduler = st.one_of(fair_trees(), fair_trees(), st.sampled_from(list(CENTRAL.values())))


def fluid_bound(release: Any, size: Any, speed: float) -> float:
    """Return a lower bound on the maximum stretch: divisible load on one machine of `speed`.

    For each k, the applications released from r_k on are served from r_k on.  Lawler's algorithm minimizes
    the maximum of (C_j - r_j) / w_j: it repeatedly puts last the application with the smallest stretch there.
    """
    worst = 0.0
    for begin in release:
        waiting = [(r, w) for r, w in zip(release, size, strict=True) if r >= begin]
        end = begin + sum(w for _, w in waiting) / speed
        while waiting:
            stretches = [(end - r) / w for r, w in waiting]
            worst = max(worst, min(stretches))
            end -= waiting.pop(stretches.index(min(stretches)))[1] / speed
    return worst


def test_the_fluid_bound_equals_values_computed_by_hand() -> None:
    assert fluid_bound([5.0], [100.0], 10.0) == pytest.approx(0.1)
    # releases 0 and 1, work 4 and 1, speed 1: the small application goes first, and the large one ends at 5
    assert fluid_bound([0.0, 1.0], [4.0, 1.0], 1.0) == pytest.approx(1.25)
    # both are released at 0: the large application goes last, and ends at 5
    assert fluid_bound([0.0, 0.0], [4.0, 1.0], 1.0) == pytest.approx(1.25)
    # the last application alone gives a bound, whatever preceded it
    assert fluid_bound([0.0, 9.0], [1.0, 4.0], 2.0) == pytest.approx(0.5)


@QUICK
@given(scenarios(), any_scheduler)
def test_tasks_and_machine_time_are_conserved(scenario: gs.Scenario, scheduler: gs.Scheduler) -> None:
    outcomes: list[gs.Outcome] = []
    result = gs.simulate(scenario, Witness(inner=scheduler, outcomes=outcomes))
    given_applications = scenario.workload.realize(scenario.platform)
    (outcome,) = outcomes
    completed, machines = outcome.applications, outcome.machines
    tasks, release_ns = given_applications.tasks, given_applications.release_ns

    # each task is completed once, and none starts before its release
    assert (completed["completed"] == tasks).all()
    assert (completed["resubmitted"] == 0).all()
    assert machines["tasks"].sum() == tasks.sum()
    assert (completed["first_start"] >= release_ns).all()
    longest = given_applications.task_size / scenario.platform.speeds.max() * NS
    assert (completed["finish"] - completed["first_start"] >= np.floor(longest)).all()
    assert (completed["nodes_used"] >= 1).all()
    assert (completed["nodes_used"] <= np.minimum(tasks, scenario.platform.nodes)).all()

    # runs on a machine do not overlap, so all its work fits between the first start and the last end
    span = completed["finish"].max() - completed["first_start"].min()
    assert (machines["busy"] <= span).all()
    assert (machines["tasks"] > 0).tolist() == (machines["busy"] > 0).tolist()
    worked = math.fsum(machines["busy"] / NS * scenario.platform.speeds)
    rounding = tasks.sum() * scenario.platform.speeds.max() / NS
    assert worked == pytest.approx(given_applications.size.sum(), rel=1e-9, abs=rounding)

    # no schedule is better than divisible load on one fast machine
    bound = fluid_bound(
        given_applications.release.tolist(),
        given_applications.size.tolist(),
        scenario.platform.aggregate_speed,
    )
    slack = float(tasks.sum()) / NS / given_applications.size.min()
    assert result.max_stretch >= bound * (1 - 1e-9) - slack
    alone = given_applications.task_size / scenario.platform.speeds.max() / given_applications.size
    assert (result.applications["stretch"] >= alone * (1 - 1e-9) - slack).all()


@QUICK
@given(scenarios(), fair_trees())
def test_messages_and_bytes_are_conserved(scenario: gs.Scenario, scheduler: gs.FairTree) -> None:
    result = gs.simulate(scenario, scheduler)
    messages, machines = result.messages, result.machines
    kinds = messages["kind"].tolist()
    size = {kind: getattr(scheduler, field) for kind, field in SIZES.items()}
    size |= {"completion": scheduler.completion_bytes, "summary": result.facts["summary_bytes"]}
    nbytes = np.array([size[kind] for kind in kinds])

    sent, delivered, dropped = messages["sent"], messages["delivered"], messages["dropped"]
    assert (sent == delivered + dropped + messages["in_flight"]).all()
    assert (messages["in_flight"] >= 0).all() and (delivered >= 0).all()
    assert (dropped == 0).all()
    has_extra_bytes = np.isin(kinds, ["spread", "request"]) & (scheduler.accept != "minimum")
    assert (messages["bytes"] == sent * nbytes)[~has_extra_bytes].all()
    assert (messages["bytes"] >= sent * nbytes).all()  # acceptance rules add bytes
    assert machines["bytes_out"].sum() == messages["bytes"].sum()
    if not has_extra_bytes.any():
        assert machines["bytes_in"].sum() == (delivered * nbytes).sum()
    if scenario.platform.nodes == 1:
        assert sent.sum() == 0
    # requests climb and descend at most once per edge
    requests = result.tables["requests"]
    steps = int(requests["steps_up"].sum()) + int(result.applications["nodes_used"].sum()) * (
        scenario.platform.nodes.bit_length()
    )
    assert sent[kinds.index("request")] <= steps + len(result.applications)


@pytest.mark.slow
@QUICK
@given(scenarios(), fair_trees(run_on=False))
def test_continuing_after_the_last_placement_does_not_change_the_schedule(
    scenario: gs.Scenario, scheduler: gs.FairTree
) -> None:
    ended = gs.simulate(scenario, scheduler)
    run_on = gs.simulate(scenario, msgspec.structs.replace(scheduler, run_on=True))
    assert ended.applications == run_on.applications
    for column in ("speed", "busy", "tasks", "peak_queue", "utilization"):
        assert (ended.machines[column] == run_on.machines[column]).all()
    for column in ("router", "steps_up", "promised", "kept"):
        assert (ended.tables["requests"][column] == run_on.tables["requests"][column]).all()
    assert ended.facts["ledger_end_s"] == run_on.facts["ledger_end_s"]
    assert (run_on.messages["sent"] >= ended.messages["sent"]).all()
    assert run_on.facts["tasks_accepted_known"] >= ended.facts["tasks_accepted_known"]
