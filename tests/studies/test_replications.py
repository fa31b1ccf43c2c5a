from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.model.background_load import LoadProfile
from gridsim.studies.replicate import PARTS, replication
from gridsim.support.random_streams import Streams


def drawn_scenario(**changes: object) -> gs.Scenario:
    arguments = {
        "platform": gs.Platform.pareto(20, 1),
        "workload": gs.Workload.bags(applications=10, tasks_per_node=3, seed=1),
        "faults": gs.Faults.exponential(up=1000.0, down=100.0, seed=1),
        "fluctuation": gs.Fluctuation.uniform(low=0.5, high=1.0, period=60.0, seed=1),
        "seed": 1,
        **changes,
    }
    return gs.Scenario(**arguments)


def seeds(scenario: gs.Scenario) -> dict[str, int]:
    parts = {part: getattr(scenario, part).recipe.seed for part in PARTS[:-1]}
    return {**parts, "run": scenario.seed}


def test_a_replication_depends_only_on_its_number() -> None:
    replications = [replication(drawn_scenario(), k) for k in (0, 1, 2)]
    assert replication(drawn_scenario(), 1) == replications[1]
    for part in PARTS:
        assert len({seeds(one)[part] for one in (drawn_scenario(), *replications)}) == 4, part
    # numbers of numpy's own SeedSequence: they must never change
    spawned = np.random.SeedSequence(1, spawn_key=(2,)).generate_state(1, np.uint64)
    assert seeds(replications[2]) == dict.fromkeys(PARTS, int(spawned[0]) // 2)
    assert gs.Scenario.from_toml(replications[2].to_toml()) == replications[2]


def test_other_parameters_do_not_change_the_seeds() -> None:
    """All points of a sweep have common random numbers."""
    faster = drawn_scenario(network=gs.Network(latency=0.001))
    assert seeds(replication(faster, 3)) == seeds(replication(drawn_scenario(), 3))
    more = drawn_scenario(workload=gs.Workload.bags(applications=10, tasks_per_node=6, seed=1))
    here, there = (
        s.workload.realize(s.platform) for s in (replication(drawn_scenario(), 3), replication(more, 3))
    )
    assert np.array_equal(here.release_ns, there.release_ns)


def test_held_parts_keep_their_seeds() -> None:
    replications = replication(drawn_scenario(), 4, hold=("platform", "run"))
    assert replications.platform == drawn_scenario().platform and replications.seed == 1
    assert (
        replications.workload != drawn_scenario().workload and replications.faults != drawn_scenario().faults
    )


def test_parts_without_randomness_stay_unchanged() -> None:
    listed = gs.Scenario(gs.Platform.equal(3), gs.Workload.of([0.0], [5], [100.0]), seed=7)
    replications = replication(listed, 0)
    assert (replications.platform, replications.workload, replications.faults) == (
        listed.platform,
        listed.workload,
        None,
    )
    assert replications.seed != 7


@pytest.mark.parametrize(
    ("number", "hold", "message"),
    [
        (-1, (), "number must be a whole number"),
        (2**32, (), "number must be"),
        (0, ("nodes",), "hold must contain only"),
    ],
)
def test_invalid_arguments_are_rejected(number: int, hold: tuple[str, ...], message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        replication(drawn_scenario(), number, hold)


def test_draws_from_one_stream_do_not_shift_other_streams() -> None:
    streams = Streams(1)
    alone = streams("b").random(8)
    streams("a").random(1000)
    assert np.array_equal(streams("b").random(8), alone)
    others = (streams("a"), Streams(2)("b"), streams("b "), Streams(2**63)("b"))
    assert len({float(draw.random()) for draw in (streams("b"), *others)}) == 5


@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**63 + 1])
def test_streams_equal_those_of_numpy_seed_sequences(seed: int) -> None:
    words = np.frombuffer(hashlib.sha256(b"name").digest()[:16], "<u4")
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(words.tolist()))
    assert Streams(seed)("name").random() == np.random.Generator(np.random.PCG64(sequence)).random()


class WatchedScheduler(gs.Scheduler, frozen=True, kw_only=True):
    """Wrapper of a scheduler that stores failures in `SEEN` and background load in `PACES`."""

    name: ClassVar[str] = "watched"
    fluctuating: ClassVar[bool] = True
    inner: gs.Scheduler

    def start(self, run: gs.Run) -> gs.Policy:
        policy = self.inner.start(run)
        PACES.append(run.load_profile)
        seen, answers = SEEN.setdefault(self.inner, []), policy.on_faults

        def on_faults(failed, back) -> None:
            seen.append((run.engine.now, failed.tolist(), back.tolist()))
            answers(failed, back)

        policy.on_faults = on_faults
        return policy


SEEN: dict[gs.Scheduler, list] = {}
PACES: list[LoadProfile | None] = []


def test_every_scheduler_has_the_same_arrivals_and_failures() -> None:
    """Releases, tasks and failures are those of the scenario, whatever a scheduler draws or sends."""
    scenario = replication(drawn_scenario(fluctuation=None, network=gs.Network(latency=0.1, jitter=0.05)), 1)
    schedulers = [gs.FairTree(), gs.MinCent(), gs.Fcfs(mode="random"), gs.Fcfs(mode="pull")]
    results = [gs.simulate(scenario, WatchedScheduler(inner=scheduler)) for scheduler in schedulers]
    first = results[0]
    for result, scheduler in zip(results, schedulers, strict=True):
        for column in ("release", "tasks", "size", "submitter"):
            assert np.array_equal(result.applications[column], first.applications[column])
        assert np.array_equal(result.machines["speed"], first.machines["speed"])
        seen, others = SEEN[scheduler], SEEN[schedulers[0]]
        shared = min(len(seen), len(others))
        assert shared > 5 and seen[:shared] == others[:shared]


def test_every_scheduler_has_the_same_background_load() -> None:
    PACES.clear()
    schedulers = [gs.WqrFt(), gs.WqrFt(task_order="small", machine_choice="all"), gs.WqrFt(max_replicas=1)]
    for scheduler in schedulers:
        gs.simulate(drawn_scenario(), WatchedScheduler(inner=scheduler))
    first = PACES[0]
    assert first is not None and len(PACES) == 3
    for pace in PACES:
        assert pace.period == first.period
        for column in ("factors", "series", "first"):
            assert np.array_equal(getattr(pace, column), getattr(first, column))
