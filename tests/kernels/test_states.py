"""The states of kernels: they can be restored, and values of other types or shapes are rejected.

A kernel with a restored state continues as before: that is an invariant of whole runs (`check_scheduler`, and
tests/invariants/test_checkpoints.py).  Here a restored state equals the saved one, for kernels in the middle
of a run.  What kernels do with wrong numbers is in `test_damaged_states`.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridcore.common.state import ArrayEntry, TableEntry, members_in_order, read
from gridcore.network.links import Links
from gridcore.random_walk.walk import JobWalks
from gridcore.rigid_queue.backfill import BackfillQueue
from gridcore.work_queue.dispatch import WorkQueue
from gridsim.simulation.simulate import Options, Simulation
from tests._helpers import thread_work as work_of

NAMES = ("queues", "links", "tree", "pull", "backfill", "work", "walk", "nodes")


def backfill(events: int) -> BackfillQueue:
    """Return a queue of jobs on 70 machines, some of which fail, after the given number of events."""
    chance = np.random.default_rng(1)
    nodes, run, estimate = (chance.integers(1, most, 40) for most in (50, 9, 15))
    queue = BackfillQueue(70, nodes, run * 10**9, estimate * 10**9, log=True)
    if events:
        queue.submit(np.arange(30), np.arange(30) * 10**9)
    for event in range(events):
        queue.run(event * 10**9)
        if event % 4 == 0:
            queue.fail([event, 2 * event + 9, 69], event * 10**9)
        if event % 8 == 0:
            queue.restore([event, 69], event * 10**9)
    return queue


def work(events: int) -> WorkQueue:
    """Return a queue of three bags on nine machines, some of which fail, after so many half seconds."""
    chance = np.random.default_rng(2)
    tasks, second = [9, 12, 7], 10**9
    sizes = chance.uniform(1.0, 9.0, sum(tasks))
    queue = WorkQueue(
        [1.0, 2.0, 2.0, 1.5, 1.0, 3.0, 1.0, 2.5, 1.0], tasks, sizes, np.full(9, 2**62),
        order="great", choice="all", max_replicas=3, interval=second, checkpoint=second // 8,
        restore=second // 8, prediction="past", faults=True, log=True,
    )  # fmt: skip
    down = np.arange(1, 17)
    time = np.repeat(down, 2) * second + np.tile([0, second // 2], 16)
    machine = np.repeat(down * 5 % 9, 2)
    until = np.append(time[1:], 2**62)
    fed = False
    for event in range(events):
        if event in (0, 4, 12):
            queue.submit((0, 4, 12).index(event), chance.permutation(tasks[(0, 4, 12).index(event)]))
        while queue.run((event + 1) * second // 2) == "blocks":
            rows = slice(0, 0 if fed else None)
            queue.feed(time[rows], machine[rows], np.tile([False, True], 16)[rows], until[rows])
            fed = True
    return queue


def walks(events: int) -> tuple[Links, JobWalks]:
    """Return walks of jobs with probes in progress, after the given number of half seconds."""
    chance, nodes, jobs = np.random.default_rng(3), 9, 120
    links = Links(
        np.arange(nodes), nodes, latency=10**8, bandwidth=1000.0, widths=[24] * 4, deferred=[False] * 4
    )
    links.log(500, [16] * 4)
    walk_ = JobWalks(
        links,
        chance.uniform(1.0, 3.0, nodes),
        kinds=[0, 1, 2, 3],
        release=np.sort(chance.integers(0, 2 * 10**10, jobs)),
        node=chance.integers(0, 4, jobs),
        work=chance.uniform(1.0, 6.0, jobs),
        data=chance.integers(0, 500, jobs),
        rate=np.full(nodes, np.nan),
        probes=4,
        pick="best",
        probe_time=3 * 10**8,
        log=1000,
    )
    if events:
        walk_.advance(events * 10**9 // 2)
    return links, walk_


def simulation(scheduler: gs.Scheduler) -> Simulation:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=9, seed=1),
        gs.Workload.bags(6, interarrival=5.0, tasks_per_node=3.0, task_size=[4000.0, 9000.0], seed=2),
        gs.Network(bandwidth=2_000.0),
        seed=3,
        faults=gs.Faults.of([2, 5], [6.0, 9.0], [6.0, 15.0]),
    )
    messages = isinstance(scheduler, gs.FairTree)
    return Simulation(scenario, scheduler, Options(record=("schedule", "messages") if messages else True))


def kernels(of: Simulation) -> dict[str, Any]:
    policy: Any = of.policy
    if isinstance(of.scheduler, gs.Fcfs):
        return {"pull": policy.queue}
    if isinstance(of.scheduler, gs.RandomWalkSearch):
        return {"nodes": policy.core}
    return {
        "queues": policy.queues,
        "links": of.network.links,
        "tree": policy.compiled,
    }


RUNS = (gs.FairTree(samples=(3, 2, 2), run_on=True), gs.Fcfs(mode="pull"), gs.RandomWalkSearch())


def states(at_wave: int) -> dict[str, dict[str, Any]]:
    """Return copies of the states of all kernels after some waves of a run, or after the last one."""
    snapshots: dict[str, dict[str, Any]] = {}
    for scheduler in RUNS:
        run = simulation(scheduler)
        waves = 0

        def look(run: Simulation = run) -> None:
            nonlocal waves
            waves += 1
            if waves <= at_wave:
                snapshots.update(
                    {name: deep_copy(kernel.getstate()) for name, kernel in kernels(run).items()}
                )

        run.engine.at_wave_end(look)
        run.engine.run()
    snapshots["backfill"] = deep_copy(backfill(at_wave).getstate())
    snapshots["work"] = deep_copy(work(at_wave).getstate())
    snapshots["walk"] = deep_copy(walks(at_wave)[1].getstate())
    assert set(snapshots) == set(NAMES)
    return snapshots


def deep_copy(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with copies of arrays, and lists instead of iterators."""
    return {
        name: value
        if isinstance(value, int)
        else np.array(value)
        if isinstance(value, np.ndarray)
        else [np.array(each) for each in value]
        for name, value in state.items()
    }


def fresh(name: str) -> Any:
    """Return a newly constructed kernel."""
    if name in ("backfill", "work"):
        return {name: (backfill if name == "backfill" else work)(0)}
    if name == "walk":
        return {name: walks(0)[1]}
    run = simulation(RUNS[("pull", "nodes").index(name) + 1 if name in ("pull", "nodes") else 0])
    objects = kernels(run)
    objects["simulation"] = run  # keeps the other objects alive
    return objects


@pytest.fixture(scope="module", params=(4, 10, 20))
def snapshot(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    return states(request.param)


def set_all(objects: dict[str, Any], snapshot: dict[str, dict[str, Any]], name: str) -> None:
    """Restore the state of a kernel."""
    objects[name].setstate(snapshot[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_restored_state_equals_the_saved_one(name: str, snapshot: dict[str, dict[str, Any]]) -> None:
    objects = fresh(name)
    set_all(objects, snapshot, name)
    restored = deep_copy(objects[name].getstate())
    assert set(restored) == set(snapshot[name])
    for entry, value in snapshot[name].items():
        assert np.array_equal(value, restored[entry]), entry


def test_saved_states_have_pending_events() -> None:
    """Otherwise the tests here would be vacuous."""
    seen = [states(wave) for wave in (4, 10, 20)]
    for name, entry in (
        ("queues", "came"), ("queues", "ran"), ("queues", "shares"),
        ("links", "messages"), ("links", "letters"),
        ("links", "logged"), ("links", "places"), ("links", "letter_places"),
        ("tree", "debts"), ("tree", "narrow"), ("tree", "updates"),
        ("pull", "seen"), ("pull", "log"), ("backfill", "coming"), ("backfill", "runs"),
        ("work", "running"), ("work", "ranked"), ("work", "rows"), ("work", "faults"), ("work", "seen"),
        ("walk", "ending"), ("walk", "searches"), ("walk", "steps"), ("walk", "looks"),
        ("walk", "dispatchers"), ("nodes", "timers"), ("nodes", "held"), ("nodes", "random"),
    ):  # fmt: skip
        assert any(len(each[name][entry]) for each in seen), (name, entry)
    for each in seen:
        assert (each["backfill"]["on"] >= 0).any() and each["backfill"]["down"].any()
        assert set(each["backfill"]["status"].tolist()) >= {0, 2, 3}


@pytest.mark.parametrize("name", NAMES)
def test_values_that_are_not_states_are_rejected(name: str, snapshot: dict[str, dict[str, Any]]) -> None:
    objects = fresh(name)
    good = snapshot[name]
    bad: Any
    for bad in (None, [], 3):
        with pytest.raises(ValueError, match="^state"):
            objects[name].setstate(bad)
    for entry, value in good.items():
        others: list[Any] = ["text"]
        if isinstance(value, int):
            others += [-1, 1.5, True, None, 2**63]
        elif isinstance(value, np.ndarray):
            others += [3, value[..., None], np.zeros(value.shape, np.float32), value.tolist()]
        else:
            no_text = np.array([2**31], np.uint32).view("U1")
            others += [[*value, np.zeros(3, np.uint8)], [np.zeros(1)], no_text]
        for other in others:
            with pytest.raises(ValueError, match=rf"state\['{entry}'\]"):
                objects[name].setstate({**good, entry: other})
        with pytest.raises(ValueError, match=f"state must have an entry '{entry}'"):
            objects[name].setstate({key: each for key, each in good.items() if key != entry})
    # the rejected states have changed no kernel except the tree, which documents it
    if name != "tree":
        set_all(objects, snapshot, name)


def test_relations_between_entries_are_checked() -> None:
    """Lengths that other entries add up to, and columns without repeated values."""
    rows = {"rows": ArrayEntry(np.int64)}
    counts = rows | {"counts": ArrayEntry(np.int64, total="rows")}
    for numbers in ([2, 1], [3, 0], [0, 0, 3]):
        read({"rows": np.zeros(3, np.int64), "counts": np.array(numbers)}, counts)
    for numbers in ([2, 2], [], [4, -1], [2**62, 2**62, 2**62, 2**62, 3]):
        with pytest.raises(ValueError, match=r"^state\['counts'\] must be numbers of rows that add up to 3"):
            read({"rows": np.zeros(3, np.int64), "counts": np.array(numbers, np.int64)}, counts)
    table = rows | {
        "jobs": TableEntry({"job": (0, 9), "rows": (0, None)}, unique=("job",), totals={"rows": "rows"})
    }
    read({"rows": np.zeros(3, np.int64), "jobs": np.array([[4, 1], [2, 2]])}, table)
    for jobs, message in (([[4, 1], [4, 2]], "must have each job once"), ([[4, 1], [2, 1]], "add up to 3")):
        with pytest.raises(ValueError, match=rf"^state\['jobs'\].* {message}"):
            read({"rows": np.zeros(3, np.int64), "jobs": np.array(jobs)}, table)


def test_members_are_arranged_by_a_list_that_may_have_others() -> None:
    members = np.array([1, 3, 5, 8])
    assert members_in_order(members, np.array([8, 2, 3, 9, 8])).tolist() == [3, 8, 1, 5]
    assert members_in_order(members[:0], np.array([7])).tolist() == []


def test_masked_elements_are_checked() -> None:
    """A mask hides numbers from comparisons only."""
    masked = np.ma.array([5, 10**6], mask=[False, True])
    with pytest.raises(ValueError, match=r"^state\['x'\]\[1\]"):
        read({"x": masked}, {"x": ArrayEntry(np.int64, (2,), (0, 10))})
    assert type(read({"x": masked}, {"x": ArrayEntry(np.int64, (2,))})["x"]) is np.ndarray


def test_a_state_is_read_only_and_outlives_its_kernel() -> None:
    states = {kind: one.getstate() for kind, one in work_of.objects().items() if hasattr(one, "getstate")}
    of_each = [(f"{kind}: {name}", value) for kind, state in states.items() for name, value in state.items()]
    arrays = {name: value for name, value in of_each if isinstance(value, np.ndarray)}
    for array in arrays.values():
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            array.flags.writeable = True
    before = deep_copy(arrays)
    chunks = {name: list(value) for name, value in of_each if not isinstance(value, int | np.ndarray)}
    told = deep_copy(chunks)
    del states, of_each
    gc.collect()
    _ = [np.full(size, 255, np.uint8) for size in range(1000, 100_000, 1000)]  # reuse its memory
    for those, then in ((arrays, before), (chunks, told)):
        for name, value in those.items():
            assert np.array_equal(value, then[name]), name


def test_summaries_of_a_state_are_read_to_the_end(snapshot: dict[str, dict[str, Any]]) -> None:
    objects = fresh("tree")["tree"]
    objects.setstate(snapshot["tree"])
    telling = objects.getstate()["narrow"]
    assert len(next(telling))
    objects.setstate(fresh("tree")["tree"].getstate())
    assert not list(telling)
