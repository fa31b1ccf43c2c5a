"""Runs whose tasks need memory and disk: supported and unsupported schedulers, and needs without effect."""

from __future__ import annotations

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.validation.results import validate_result

OWN = gs.DrawnAttributes(memory=(2e9, 2e9, 2e9, 8e9), disk=(1e10, 1e11), seed=3)
WANTS = gs.Constraints(memory=(0.0, 0.0, 4e9), disk=(0.0, 5e10))


def scenario(constraints=WANTS, own=OWN, machines=12, applications=5, linked=False, **options):
    platform = gs.Platform.pareto(machines, 1).with_attributes(own)
    moved = {"input_bytes": [0.0, 2e6]} if linked else {}
    return gs.Scenario(
        platform=platform.linked((1e5, 1e6)) if linked else platform,
        workload=gs.Workload.bags(applications, seed=1, constraints=constraints, **moved),
        seed=1,
        **options,
    )


NEEDING = {
    "mincent-once": gs.MinCent(mode="once"),
    "ideal-tree": gs.IdealTree(),
    "aware": gs.FairTree(),
    "ignored": gs.FairTree(needs="ignored"),
    "fcfs": gs.Fcfs(),
    "fcfs-random": gs.Fcfs(mode="random"),
}
each = pytest.mark.parametrize("scheduler", NEEDING.values(), ids=list(NEEDING))


@each
def test_the_result_with_needs_does_not_depend_on_the_options(scheduler):
    case = scenario()
    result = gs.simulate(case, scheduler, record="all")
    assert validate_result(result) == []
    assert gs.simulate(case, scheduler, cohort_limit=1).digest == result.digest
    for kind in ("fluid", "discrete"):
        assert result.bound(kind).stretch <= result.max_stretch
    assert np.unique(result.applications["memory"]).tolist() == [0.0, 4e9]


@pytest.mark.parametrize(
    "scheduler",
    [gs.MinCent(mode="once"), gs.FairTree(samples=60), gs.FairTree(data="ignored", samples=60)],
    ids=["mincent-once", "aware", "data ignored"],
)
def test_tasks_may_need_memory_and_move_data(scheduler):
    result = gs.simulate(scenario(linked=True), scheduler, record="all")
    assert validate_result(result) == []


@each
def test_needs_that_all_machines_meet_change_nothing(scheduler):
    """Only the columns of the stated needs differ."""
    own, wants = gs.DrawnAttributes(memory=(4e9, 8e9)), gs.Constraints(memory=(0.0, 4e9))
    declared, free = (gs.simulate(scenario(arguments, own), scheduler) for arguments in (wants, None))
    assert declared.applications["finish"].tolist() == free.applications["finish"].tolist()
    assert declared.facts == free.facts and "needs" not in free.facts.get("grid", {})
    plain = gs.simulate(scenario(None, None), scheduler)
    assert plain.applications["finish"].tolist() == free.applications["finish"].tolist()


def test_schedulers_that_count_memory_are_better_if_it_is_scarce():
    own = gs.ListedAttributes(memory=(8e9,) * 2 + (1e9,) * 10)
    scarce = scenario(gs.Constraints(memory=(0.0, 0.0, 0.0, 4e9)), own, applications=9)
    aware, ignored, best = (
        gs.simulate(scarce, NEEDING[name]) for name in ("aware", "ignored", "mincent-once")
    )
    assert aware.max_stretch < 0.9 * ignored.max_stretch and aware.max_stretch < 1.05 * best.max_stretch
    assert best.gap("discrete") < 1.1  # the bound counts only suitable machines


def test_a_single_application_goes_to_the_machines_that_can_hold_it():
    """Each of two suitable machines runs three of the six tasks of 1 s: the stretch is 3 s / 6000."""
    own = gs.ListedAttributes(memory=(1e9, 4e9, 1e9, 4e9))
    case = gs.Scenario(
        gs.Platform.equal(4, attributes=own),
        gs.Workload.of([0.0], 6, 1000.0, memory=2e9),
        gs.Network(latency=0.0, bandwidth=float("inf")),
    )
    for scheduler in NEEDING.values():
        result = gs.simulate(case, scheduler)
        assert result.machines["tasks"][[0, 2]].tolist() == [0, 0]
        if scheduler not in (NEEDING["fcfs-random"], NEEDING["ignored"]):
            assert result.machines["tasks"].tolist() == [0, 3, 0, 3]
            assert result.applications["finish"].tolist() == [3.0]
            assert result.bound("discrete").stretch == pytest.approx(3.0 / 6000.0)


def test_leaves_record_the_shares_that_they_pass_on():
    result = gs.simulate(scenario(), NEEDING["ignored"], record="decisions")
    log = result.tables["decisions"]
    memory, disk = result.machines["memory"], result.machines["disk"]
    needed, capacity = result.applications["memory"], result.applications["disk"]
    sent, queued = (
        (log["decider"][rows], log["application"][rows])
        for rows in (log["action"] == "sent-on", log["action"] == "queued")
    )
    (u, i), (v, j) = sent, queued
    assert len(u) and ((memory[u] < needed[i]) | (disk[u] < capacity[i])).all()
    assert ((memory[v] >= needed[j]) & (disk[v] >= capacity[j])).all()


@pytest.mark.parametrize("samples", [720, (1, 1, 1)])
def test_routers_send_no_tasks_to_machines_that_do_not_suit(samples):
    """The cases: samples without room, times before the first summaries, and needs that are rounded up."""
    at_once = gs.Workload.bags(8, interarrival=0.0, seed=1, constraints=WANTS)
    platform = gs.Platform.pareto(13, 1).with_attributes(OWN)
    scheduler = gs.FairTree(samples=samples, need_samples=((0.0, 5e10), (8e9, 1e11)), bound=2.0)
    result = gs.simulate(gs.Scenario(platform, at_once, seed=1), scheduler, record="all")
    actions = result.tables["decisions"]["action"].tolist()
    assert "sent-on" not in actions and "accepted-full" in actions and validate_result(result) == []


FOR = "schedulers that support them: fair-tree"


@pytest.mark.parametrize(
    ("scheduler", "more", "options", "message"),
    [
        (gs.MinCent(), {}, {}, FOR),
        (gs.Fcfs(mode="pull"), {}, {}, FOR),
        (gs.Mct(), {}, {}, FOR),
        (gs.WorkStealing(), {}, {}, FOR),
        (gs.FairTree(maintenance="messages"), {}, {}, FOR),
        (gs.FairTree(), {}, {"nodes": "compiled"}, "nodes must be 'interpreted' or None for fair-tree"),
        (gs.FairTree(), {}, {"processes": 2}, "processes must be 1 for a fair tree"),
        (
            gs.FairTree(),
            {"faults": gs.Faults.poisson(3600.0, 1)},
            {},
            "faults do not support tasks that need memory or disk",
        ),
        (gs.FairTree(need_samples=((4e9, 0.0),)), {}, {}, "fair-tree.need_samples must have for each"),
    ],
)
def test_unsupported_combinations_with_needs_are_reported(scheduler, more, options, message):
    with pytest.raises(ScenarioError, match=message):
        gs.simulate(scenario(**more), scheduler, **options)


@pytest.mark.parametrize("samples", [0, (), (2.0, 1.0), ((1.0,),), ((-1.0, 0.0),), ((1.0, 0.0),) * 2, "x"])
def test_invalid_samples_of_needs_are_rejected(samples):
    with pytest.raises(ScenarioError, match="^fair-tree.need_samples"):
        gs.FairTree(need_samples=samples)


def test_need_samples_count_in_the_size_of_summaries():
    arguments = ((0.0, 5e10), (4e9, 5e10))
    result = gs.simulate(scenario(), gs.FairTree(samples=(4, 3, 2), need_samples=arguments))
    assert result.facts["grid"]["needs"] == [list(pair) for pair in arguments]
    assert result.facts["summary_bytes"] == 2 * 24 * 4 + 90 + 4
