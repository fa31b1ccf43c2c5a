"""Probe-based schedulers: the rules of single nodes, equality of both forms, and failures."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.schedulers.probes.eagle import (
    ANY_WORKER,
    RESERVED_WORKER,
    SHORT_WORKER,
    EagleNode,
    SrptNode,
)
from gridsim.schedulers.probes.hawk import HawkNode
from gridsim.schedulers.probes.sparrow import EarlyBindingNode
from gridsim.scheduling.nodes.declarations import Declarations
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result
from tests.invariants.test_checkpoints import interrupt_at

LONG = 60e3  # Mflop, which take 60 s
PARTITIONS: dict[str, Any] = {"cutoff": LONG, "reserved": 0.2}
ALL: dict[str, gs.Scheduler] = {
    "sparrow": gs.Sparrow(),
    "hawk": gs.Hawk(**PARTITIONS),
    "eagle": gs.Eagle(**PARTITIONS),
    "lwl": gs.Lwl(**PARTITIONS),
    "dlwl": gs.Dlwl(**PARTITIONS),
}
MACHINES = 40


def jobs(**options: Any) -> gs.Scenario:
    """Return 60 jobs on 40 machines; every fifth is long, with up to 20 tasks of different sizes."""
    rng = np.random.default_rng(1)
    release = np.cumsum(rng.exponential(8.0, 60))
    sizes = [
        1e3 * np.ceil(rng.exponential(200.0 if k % 5 == 0 else 15.0, rng.integers(1, 21))) for k in range(60)
    ]
    workload = gs.Workload.of_tasks(release, sizes, submitter=rng.integers(MACHINES, size=60))
    network = gs.Network(latency=0.0005, bandwidth=math.inf, interfaces="equal")
    return gs.Scenario(gs.Platform.equal(MACHINES), workload, network, seed=1, **options)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_each_task_runs_once_for_its_own_duration(name: str, failing: bool) -> None:
    faults = {"faults": gs.Faults.poisson(400.0, seed=2)} if failing else {}
    result = gs.simulate(jobs(**faults), ALL[name], record="all")
    assert validate_result(result) == []
    assert (result.summary()["resubmitted"] > 0) == failing


def test_only_long_tasks_are_kept_off_the_reserved_workers() -> None:
    for name in ("hawk", "eagle", "lwl", "dlwl"):
        result = gs.simulate(jobs(), ALL[name], record="schedule")
        schedule, long = result.tables["schedule"], result.applications["task_size"] > LONG
        reserved = schedule["machine"] < 8
        of_long = long[schedule["application"]]
        assert of_long.any() and not (of_long & reserved).any() and (~of_long & reserved).any(), name


def test_a_reservation_of_a_job_without_unstarted_tasks_gets_no_task() -> None:
    """One machine has six reservations for three tasks, and then two for one task."""
    workload = gs.Workload.of([0.0, 1.0], [3, 1], 10e3, [0, 0])
    result = gs.simulate(gs.Scenario(gs.Platform.of([1000.0]), workload), gs.Sparrow())
    assert result.applications["finish"].tolist() == pytest.approx([30.0, 40.0], abs=0.01)


def test_tasks_run_for_their_sizes_and_not_for_their_estimates() -> None:
    """Sizes also count if all tasks of each bag are equal."""
    workload = gs.Workload.of_tasks([0.0, 0.0], [[1000.0], [3000.0]], estimate=[2000.0, 2000.0])
    result = gs.simulate(gs.Scenario(gs.Platform.of([1000.0]), workload), gs.Sparrow(), record="schedule")
    assert validate_result(result) == []
    assert result.applications["finish"].tolist() == pytest.approx([1.0, 4.0], abs=0.5)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_compiled_and_interpreted_forms_have_equal_digests(name: str, failing: bool) -> None:
    faults = {"faults": gs.Faults.poisson(4000.0, seed=2)} if failing else {}
    digests = [
        gs.simulate(jobs(**faults), ALL[name], nodes=form, record="decisions").digest
        for form in ("interpreted", "compiled", "compiled")
    ]
    assert len(set(digests)) == 1


def without_cython_handlers(scheduler: gs.Scheduler) -> gs.Scheduler:
    """Return a scheduler with the same parameters, and without its handlers in Cython."""
    kind = type(scheduler)
    options = {name: getattr(scheduler, name) for name in kind.__struct_fields__}
    new_class: Any = type(f"Plain{kind.__name__}", (kind,), {"hand_compiled": Declarations.hand_compiled})
    return new_class(**options)  # type: ignore[no-any-return]


SPARROWS: dict[str, gs.Scheduler] = {
    "cancelling": gs.Sparrow(cancellation=True),
    "early": gs.Sparrow(late_binding=False),
    "early by task": gs.Sparrow(late_binding=False, sampling="task"),
}


@pytest.mark.parametrize("name", [*ALL, *SPARROWS])
def test_the_programs_compile(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path))
    scenario = jobs(faults=gs.Faults.poisson(400.0, seed=2))
    scheduler = without_cython_handlers((ALL | SPARROWS)[name])
    result = gs.simulate(scenario, scheduler, nodes="interpreted", record="decisions")
    for form in ("python", "compiled"):
        assert gs.simulate(scenario, scheduler, nodes=form, record="decisions").digest == result.digest
    assert resume_difference(scenario, scheduler, result, record="decisions", nodes="compiled") is None


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_recovered_scheduler_does_not_publish_for_its_successor(form: Any) -> None:
    """Machine 24 fails, and its 69 tasks go to 25; after its recovery it gets requests and has no tasks."""
    down = dict(zip((8, 36, 4, 16, 7, 31, 28, 30, 24), range(5, 59, 6), strict=True))
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=40, seed=1),
        gs.Workload.bags(4, interarrival=15.0, tasks_per_node=1.5, task_size=(10000, 60000), seed=2),
        faults=gs.Faults.of(list(down), list(down.values()), [instant + 4 for instant in down.values()]),
        seed=1,
    )
    assert gs.simulate(scenario, gs.Eagle(), nodes=form, time_limit=1000.0).makespan < 120.0


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", ALL)
def test_resumed_run_has_the_same_digest(name: str, form: Any, tmp_path: Path) -> None:
    """The state has reservations, waiting times, and stolen reservations and refusals in transit."""
    file = tmp_path / "run.checkpoint"
    scenario = jobs(faults=gs.Faults.poisson(4000.0, seed=2))
    uninterrupted = gs.simulate(scenario, ALL[name], nodes=form)
    for wave in (5, 15):  # at each of these times a machine fails or recovers
        interrupt_at(file, wave, scenario, ALL[name], nodes=form)
        assert gs.resume(file).digest == uninterrupted.digest


def test_reservations_of_a_job_without_unstarted_tasks_are_cancelled() -> None:
    without_cython_handlers, cancelling = (
        gs.simulate(jobs(), gs.Sparrow(cancellation=on)) for on in (False, True)
    )
    sent = [
        dict(zip(result.messages["kind"], result.messages["sent"], strict=True))
        for result in (without_cython_handlers, cancelling)
    ]
    assert sent[0]["cancel"] == 0 < sent[1]["cancel"]
    assert sent[1]["none"] < sent[0]["none"] / 2


@pytest.mark.parametrize("sampling", ["batch", "task"])
def test_without_late_binding_tasks_go_to_the_shortest_queues(sampling: Any) -> None:
    node = EarlyBindingNode(gs.Sparrow(late_binding=False, sampling=sampling, patience=math.inf))
    view: Any = View()
    view.decide = lambda *_, **__: None
    node.on_release(view, SimpleNamespace(number=5), 4)
    groups = [fields["group"] for _, kind, fields in view.sent if kind == "ask"]
    assert [groups.count(group) for group in dict.fromkeys(groups)] == (
        [8] if sampling == "batch" else [2, 2, 2, 2]
    )
    view.sent.clear()
    loads = [3, 0, 3, 3, 3, 3, 3, 3] if sampling == "batch" else [3, 0]
    for k, load in enumerate(loads):
        node.on_load(view, SimpleNamespace(group=groups[0], tasks=load, sender=k))
    placed = [to for to, kind, _ in view.sent if kind == "task"]
    assert placed == ([1, 1, 1, 0] if sampling == "batch" else [1])


def test_contradictory_options_of_sparrow_are_rejected() -> None:
    with pytest.raises(gs.ScenarioError, match="sampling"):
        gs.Sparrow(sampling="task")
    with pytest.raises(gs.ScenarioError, match="cancellation"):
        gs.Sparrow(late_binding=False, cancellation=True)


# -- single nodes -----------------------------------------------------------------------------------------


class View(SimpleNamespace):
    """The view of one of 10 workers, which stores sent messages; node 10 is the centralized scheduler."""

    def __init__(self, **members: Any) -> None:
        super().__init__(node=0, machines=11, sent=[], random=np.random.default_rng(1), **members)

    def role(self, name: str) -> range:
        return {"worker": range(10), "center": range(10, 11)}[name]

    def send(self, to: int, kind: str, **fields: Any) -> None:
        self.sent.append((to, kind, fields))

    def act(self) -> None:
        pass


@pytest.mark.parametrize(
    ("running", "queue", "stolen"),
    [
        ("long", "ssls", "01"),
        ("long", "lsls", "1"),
        ("long", "", ""),
        ("short", "sllssls", "34"),
        ("short", "lls", "2"),
        ("short", "ss", ""),
        ("short", "ssl", ""),
    ],
)
def test_first_short_reservations_behind_a_long_task_are_stolen(
    running: str, queue: str, stolen: str
) -> None:
    node, center = HawkNode(gs.Hawk()), 10
    node.serves_center = running == "long"
    entries = [(k, center if length == "l" else 3) for k, length in enumerate(queue)]
    for entry in entries:
        node.queue.push(*entry)
    view: Any = View()
    node.on_steal(view, SimpleNamespace(sender=7))
    [(to, kind, fields)] = view.sent
    assert (to, kind) == (7, "loot" if stolen else "nothing")
    assert [job for job, _ in fields.get("loot", ())] == [int(k) for k in stolen]
    assert list(node.queue) == [entry for entry in entries if str(entry[0]) not in stolen]


def test_a_thief_asks_at_most_the_stated_number_of_general_workers() -> None:
    node, view = HawkNode(gs.Hawk(reserved=0.5, steal_attempts=4)), View()
    node.on_free(view)  # type: ignore[arg-type]
    for _ in range(9):
        node.on_nothing(view, None)  # type: ignore[arg-type]
    assert len(view.sent) == 4 and {5 <= to < 10 for to, _, _ in view.sent} == {True}


@pytest.mark.parametrize("holds", ["running", "waiting"])
def test_worker_with_a_long_task_refuses_short_jobs_until_the_last_round(holds: str) -> None:
    node, view = EagleNode(gs.Eagle(cutoff=50.0)), View()
    node.busy = True
    node.serves_center = holds == "running"
    if holds == "waiting":
        node.add_reservation(view, SimpleNamespace(job=1, sender=10, size=80.0))  # type: ignore[arg-type]
    for number in (ANY_WORKER, SHORT_WORKER, RESERVED_WORKER):
        node.on_probe(view, SimpleNamespace(job=5, sender=3, size=2.0, round=number))  # type: ignore[arg-type]
    assert [(to, kind, fields["round"]) for to, kind, fields in view.sent] == [
        (3, "refusal", ANY_WORKER),
        (3, "refusal", SHORT_WORKER),
    ]
    assert node.queue[-1][0] == 5


def test_refused_probes_avoid_known_long_tasks_then_go_to_reserved_workers() -> None:
    view = View(held=lambda job: 1, application=lambda job: SimpleNamespace(task_size=2.0))
    node = EagleNode(gs.Eagle(reserved=0.2))
    for version, long in ((4, range(2, 9)), (3, range(10))):  # the older version is ignored
        bits = np.array([sum(1 << worker for worker in long)])
        refusal = {"job": 5, "version": version, "bits": bits}
        for number in (ANY_WORKER, SHORT_WORKER):
            for _ in range(20):
                node.on_refusal(view, SimpleNamespace(round=number, **refusal))  # type: ignore[arg-type]
    node.on_act(view)  # type: ignore[arg-type]
    targets = {number: {to for to, _, fields in view.sent if fields["round"] == number} for number in (2, 3)}
    assert targets == {SHORT_WORKER: {0, 1, 9}, RESERVED_WORKER: {0, 1}} and not node.refusals


def test_job_with_the_least_work_left_is_served_until_the_cap() -> None:
    node = SrptNode(gs.Eagle(srpt_cap=2.0))
    node.smallest = 10.0
    left = np.array([40.0, 20.0, 0.0, 10.0])
    view: Any = View(board=SimpleNamespace(values=left))
    for job in (0, 2, 1, 3):
        node.queue.push(job, 3, 10.0, 0.0)

    def serve() -> int:
        assert node.choose(view)
        return int(node.queue[node.in_service][0])

    # job 2 has no work left, so its reservation is removed; job 3 overtakes the other two jobs twice, then
    # none
    assert [serve(), serve(), serve()] == [3, 3, 0]
    assert [(place[0], place[3]) for place in node.queue] == [(0, 20.0), (1, 20.0), (3, 0.0)]
    left[:] = 0.0
    assert not node.choose(view) and not node.queue


# -- slow tests -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_schedulers_keep_the_invariants(name: str) -> None:
    check_scheduler(type(ALL[name])(), examples=20, hash_seeds=False)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"cancellation": True}, {"late_binding": False}])
def test_sparrow_with_options_keeps_the_invariants(options: dict[str, Any]) -> None:
    check_scheduler(gs.Sparrow(**options), examples=20, hash_seeds=False)
