"""Dodoor: single decisions and batches computed by hand, message counts, and equality of all forms."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

import gridsim as gs
from gridsim.testing import Bench, check_scheduler
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests._helpers.forms import FORMS, RUNNABLE_FORMS, needs_numba

MACHINES = 6


def single_tasks(count: int = 200, size: float = 1e4, **options: Any) -> gs.Scenario:
    """Return bags of one task, released 0.5 s apart, on machines of 1 to 3 cores."""
    rng = np.random.default_rng(1)
    bags = gs.Workload.of(
        0.5 * np.arange(1, count + 1),
        np.ones(count, int),
        rng.uniform(0.5, 1.5, count) * size,
        submitter=rng.integers(MACHINES, size=count),
        origin=0.0,
    )
    platform = gs.Platform.of([1000.0, 2000.0] * (MACHINES // 2), cores=[1, 2, 3] * (MACHINES // 3))
    return gs.Scenario(platform, bags, gs.Network(latency=0.01), seed=1, **options)


def informed(form: Any, **options: Any) -> Bench:
    """Return the only scheduler, which has the loads of two servers, and 4000 tasks to place.

    Server 0 has 4 cores of 1000 Mflop/s, 8 GB, 1 task, 6 GB in use and 40 s of work; server 1 has 16 cores of
    2000 Mflop/s, 16 GB, 24 tasks, 8 GB in use and 80 s of work.
    """
    workload = gs.Workload.of([0.0], [4000], [1e4], submitter=[0])
    bench = Bench(gs.Dodoor(schedulers=1, **options), "scheduler", machines=2, workload=workload, form=form)
    bench.deliver("register", sender=0, cores=4, speed=1000.0, memory=8e9)
    bench.deliver("register", sender=1, cores=16, speed=2000.0, memory=16e9)
    loads = {"memory": np.array([6e9, 8e9]), "work": np.array([40.0, 80.0])}
    bench.deliver("snapshot", sender=3, tasks=np.array([1, 24]), **loads)
    return bench


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("options", "share"),
    [
        # Anti-affinities are 1/16 and 24/256, with shares 0.4 and 0.6.  A task of 10,000 Mflop ends after
        # 40/4 + 10 s and 80/16 + 5 s, with shares 2/3 and 1/3.  So the scores are equal if the weight of the
        # durations is 3/8.
        ({"duration_weight": 0.37}, 0.25),
        ({"duration_weight": 0.38}, 0.75),
        ({"duration_weight": 0.38, "beta": 0.0}, 0.5),
        ({"duration_weight": 0.38, "beta": 0.6}, 0.65),
    ],
)
def test_the_better_of_two_servers_gets_a_task(options: Any, share: float, form: Any) -> None:
    """A server is compared with the other one in half of the cases, and with itself in the other half."""
    bench = informed(form, **options)
    bench.release(0, tasks=4000)
    report, *tasks = bench.sent
    assert {sent.kind for sent in tasks} == {"task"} and report.kind == "placed"
    placed = Counter(sent.to for sent in tasks)
    assert placed[1] / 4000 == pytest.approx(share, abs=0.03)
    order = np.argsort(report.fields["servers"])
    assert np.array(report.fields["tasks"])[order].tolist() == [placed[0], placed[1]]
    seconds = np.array(report.fields["work"])[order]
    np.testing.assert_allclose(seconds, [10.0 * placed[0], 5.0 * placed[1]])


def test_memory_counts_by_its_weight() -> None:
    """For a task of 2 GB, 1/16 + w 2 6/8^2 equals 24/256 + w 2 8/16^2 if w is 1/4."""
    for weight, is_better in ((0.24, False), (0.26, True)):
        node: Any = informed("interpreted", duration_weight=0.0, memory_weight=weight).program
        assert (node.is_better(1, 0, 1e4, 2e9), node.is_better(0, 1, 1e4, 2e9)) == (is_better, not is_better)
        assert not node.is_better(1, 1, 1e4, 2e9)


def test_servers_report_the_memory_of_their_tasks() -> None:
    """Memory of the platform and of the bags arrives at the schedulers, which avoid the small server."""
    bags = gs.Workload.of(
        np.arange(1.0, 41.0), np.ones(40, int), np.full(40, 1e6), submitter=[0] * 40, memory=[1e9] * 40
    )
    platform = gs.Platform.of([1000.0] * 2, cores=40, memory=[1e9, 1e12])
    scenario = gs.Scenario(platform, bags, seed=1)
    scheduler = gs.Dodoor(schedulers=1, batch=1, decisions=1, memory_weight=10.0)
    counts = [
        gs.simulate(scenario, scheduler, nodes=form).machines["tasks"].tolist()
        for form in ("python", "interpreted")
    ]
    assert counts[0] == counts[1] and counts[0][0] < 15
    without = gs.simulate(scenario, msgspec.structs.replace(scheduler, memory_weight=0.0))
    assert without.machines["tasks"][0] >= 15


@pytest.mark.parametrize("form", FORMS)
def test_the_store_pushes_all_loads_at_the_end_of_a_batch(form: Any) -> None:
    bench = Bench(gs.Dodoor(schedulers=2, batch=5), "store", machines=3, form=form)

    def place(server: int, tasks: int, memory: float, work: float) -> None:
        loads = {"tasks": np.array([tasks]), "memory": np.array([memory]), "work": np.array([work])}
        bench.deliver("placed", sender=3, servers=np.array([server]), **loads)

    place(0, 3, 1e9, 30.0)
    place(2, 1, 2e9, 7.0)
    bench.deliver("state", sender=0, tasks=2, memory=5e9, work=12.0)  # replaces what was added
    assert bench.sent == []
    place(0, 2, 1e9, 8.0)  # the fifth and sixth decision
    assert [sent.to for sent in bench.sent] == [3, 4]
    for sent in bench.sent:
        assert sent.kind == "snapshot"
        assert np.array(sent.fields["tasks"]).tolist() == [4, 0, 1]
        assert np.array(sent.fields["memory"]).tolist() == [6e9, 0.0, 2e9]
        assert np.array(sent.fields["work"]).tolist() == [20.0, 0.0, 7.0]
    place(1, 3, 0.0, 1.0)
    assert len(bench.sent) == 2
    place(1, 1, 0.0, 1.0)
    assert len(bench.sent) == 4


@pytest.mark.parametrize("batch", [1, 20, 1000])
def test_decisions_see_the_loads_at_the_end_of_the_last_batch(batch: int) -> None:
    """No task ends before the last decision, and reports arrive before the next one."""
    scheduler = gs.Dodoor(schedulers=1, batch=batch, decisions=1)
    decisions = gs.simulate(single_tasks(size=1e7), scheduler, record="decisions").tables["decisions"]
    machines = decisions["machine"].tolist()
    seen = [machines[: k // batch * batch].count(machine) for k, machine in enumerate(machines)]
    assert len(seen) == 200 and decisions["saw"].tolist() == seen


@pytest.mark.parametrize(("schedulers", "batch", "completions", "decisions"), [(1, 50, 1, 8), (3, 7, 4, 3)])
def test_the_numbers_of_messages(schedulers: int, batch: int, completions: int, decisions: int) -> None:
    scenario = single_tasks()
    result = gs.simulate(
        scenario,
        gs.Dodoor(schedulers=schedulers, batch=batch, completions=completions, decisions=decisions),
    )
    submitter = result.applications["submitter"]
    reports = [int((submitter % schedulers == k).sum()) // decisions for k in range(schedulers)]
    states = int((result.machines["tasks"] // completions).sum())
    expected = {
        "register": MACHINES * schedulers,
        "state": MACHINES + states,
        "placed": sum(reports),
        "snapshot": schedulers * (sum(reports) * decisions // batch),
        "task": 200,
    }
    sent = result.messages
    assert dict(zip(sent["kind"].tolist(), sent["sent"].tolist(), strict=True)) == expected
    size = dict(zip(sent["kind"].tolist(), (sent["bytes"] // sent["sent"]).tolist(), strict=True))
    assert size["snapshot"] == 64 + 24 * MACHINES and size["task"] == 170


@pytest.mark.parametrize("failing", [False, True])
def test_all_forms_have_equal_digests(failing: bool) -> None:
    faults: dict[str, Any] = {"faults": gs.Faults.exponential(40.0, 5.0, seed=2)} if failing else {}
    scheduler = gs.Dodoor(schedulers=2, batch=5, beta=0.75, completions=2, decisions=3)
    results = [
        gs.simulate(single_tasks(**faults), scheduler, nodes=form, record="all") for form in RUNNABLE_FORMS
    ]
    assert len({result.digest for result in results}) == 1
    assert validate_result(results[0]) == []
    assert (results[0].summary()["resubmitted"] > 0) == failing


@pytest.mark.parametrize("form", ["interpreted", pytest.param("compiled", marks=needs_numba)])
def test_a_resumed_run_has_the_same_digest(form: Any) -> None:
    scenario = single_tasks(faults=gs.Faults.exponential(40.0, 5.0, seed=2))
    result = gs.simulate(scenario, gs.Dodoor(batch=5, decisions=2), nodes=form)
    assert resume_difference(scenario, gs.Dodoor(batch=5, decisions=2), result, nodes=form) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        gs.Dodoor(),
        gs.Dodoor(schedulers=2, batch=3, beta=0.7, completions=3, decisions=1),
        gs.Dodoor(memory_weight=1.0),
    ],
)
def test_it_keeps_the_invariants(scheduler: gs.Scheduler) -> None:
    assert check_scheduler(scheduler, examples=20, hash_seeds=False).never_reached == ()
