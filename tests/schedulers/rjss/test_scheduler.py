"""RJSS and compared schedulers: small runs computed by hand, short replays, and rejected input."""

from __future__ import annotations

import heapq
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.scheduling.overlays import random_neighbours
from gridsim.scheduling.registry import make_scheduler
from gridsim.simulation.checkpoint import save
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.random_streams import Streams
from gridsim.validation.results import validate_result

NS = 10**9
ALL: dict[str, gs.Scheduler] = {
    "rjss": gs.Rjss(k=0.3),
    "rjss-best": gs.Rjss(k=0.3, pick="best"),
    "in round trips": gs.Rjss(k=0.3, probe_latency="network"),
    "on an overlay": gs.Rjss(k=0.5, overlay=3),
    "resource-exclusion": gs.ResourceExclusion(k=0.3),
    "fastest": gs.ResourceExclusion(k=0.3, reading="fastest"),
    "no-migration": gs.NoMigration(),
}


def one_second_network(bandwidth: float = 1000.0, interfaces: str = "equal") -> gs.Network:
    """Return a network in which a message of b bytes takes 1 s + b / bandwidth."""
    return gs.Network(latency=1.0, bandwidth=bandwidth, interfaces=interfaces)  # type: ignore[arg-type]


def small_scenario(
    speeds: list[float],
    network: gs.Network | None = None,
    *,
    tasks: int | list[int] = 1,
    size: float = 1000.0,
    data: int = 100,
    release: tuple[float, ...] = (0.0,),
) -> gs.Scenario:
    """Return a scenario of jobs that are all released at machine 0."""
    bags = gs.Workload.of(release, tasks, size, [0] * len(release), data, origin=0.0)
    return gs.Scenario(gs.Platform.of(speeds), bags, network or one_second_network(), seed=1)


def streams(
    nodes: int = 60, network: gs.Network | None = None, seed: int = 5, cores: Any = None, **workload: Any
) -> gs.Scenario:
    """Return a scenario of job streams with a load below 1 if machines have one core."""
    usual: dict[str, Any] = {"horizon": 400.0, "interarrival": 20.0, "processing_time": 16.0, "seed": seed}
    jobs = gs.Workload.job_streams(**{**usual, **workload})
    platform = gs.Platform.normal(nodes, seed, cores=cores)
    return gs.Scenario(platform, jobs, network or gs.Network.star(), seed=seed)


def rows(result: gs.Result, table: str, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result.tables[table][name].tolist() for name in names), strict=True))


# -- by hand --------------------------------------------------------------------------------------------


def test_a_job_moves_and_its_result_comes_back() -> None:
    """The job takes 10 s at home, or 1.1 s to go, 5 s at node 1, and 1.1 s back."""
    result = gs.simulate(small_scenario([100.0, 200.0]), gs.Rjss(k=1.0), record=True)
    names = "application", "machine", "probes", "predicted", "waited", "turnaround"
    assert rows(result, "jobs", *names) == [(0, 1, 1, 0.0, 0.0, 7.2)]
    assert rows(result, "applications", "first_start", "finish", "nodes_used", "data") == [(1.1, 6.1, 1, 100)]
    assert rows(result, "messages", "kind", "sent", "delivered", "bytes") == [
        ("probe", 1, 1, 100), ("load", 1, 1, 100), ("job", 1, 1, 100), ("result", 1, 1, 100)
    ]  # fmt: skip
    assert rows(result, "machines", "bytes_out", "bytes_in", "busy") == [(200, 200, 0.0), (200, 200, 5.0)]
    assert rows(result, "arrivals", "machine", "application", "tasks", "time") == [(1, 0, 1, 1.1)]
    assert result.facts == {"nodes_asked": 1} and validate_result(result) == []
    assert (result.mean_turnaround, result.migrated, result.messages_per_job) == (7.2, 1.0, 4.0)


def test_a_bag_moves_task_by_task() -> None:
    """The first task starts at home; the others find node 1 idle until one has arrived there."""
    bag = small_scenario([100.0, 100.0], tasks=4)
    result = gs.simulate(bag, gs.Rjss(k=1.0, rule="none"), record=True)
    assert rows(result, "jobs", "application", "machine", "predicted", "waited", "turnaround")[1:] == [
        (0, 1, 0.0, 0.0, 12.2), (0, 1, 0.0, 10.0, 22.2), (0, 1, 0.0, 20.0, 32.2)
    ]  # fmt: skip
    assert result.tables["jobs"][0]["turnaround"] == 10.0 and np.isnan(result.tables["jobs"]["predicted"][0])
    assert rows(result, "applications", "first_start", "finish", "nodes_used") == [(0.0, 31.1, 2)]
    assert rows(result, "schedule", "machine", "tasks", "start", "end", "completed") == [
        (0, 1, 0.0, 10.0, 1), (1, 3, 1.1, 31.1, 3)
    ]  # fmt: skip
    assert rows(result, "arrivals", "machine", "tasks", "time") == [(0, 1, 0.0), *[(1, 1, 1.1)] * 3]
    assert result.machines["peak_queue"].tolist() == [0, 2]
    assert result.prediction_error == 1.0  # the mean over the two jobs that waited
    # as printed: an arrival at time 0 makes the rate of jobs from others infinite, so the remaining jobs stay
    held = gs.simulate(bag, gs.Rjss(k=1.0), record=True)
    assert rows(held, "jobs", "machine", "turnaround") == [(0, 10.0), (1, 12.2), (0, 20.0), (0, 30.0)]


def test_jobs_that_leave_one_node_wait_for_its_interface() -> None:
    """1000 bytes take 1 s; node 1 needs 0.1 s a job, home 10 s."""
    found = {
        interfaces: gs.simulate(
            small_scenario([100.0, 10_000.0], one_second_network(1000.0, interfaces), tasks=3, data=1000),
            gs.Rjss(k=1.0, rule="none"),
            record=True,
        )
        for interfaces in ("fifo", "equal")
    }
    fifo, equal = found["fifo"], found["equal"]
    assert fifo.tables["arrivals"]["time"].tolist() == [2.0, 3.0, 4.0]
    assert fifo.tables["jobs"]["turnaround"].tolist() == [4.1, 5.1, 6.1]
    assert equal.tables["arrivals"]["time"].tolist() == [2.0, 2.0, 2.0]
    assert equal.tables["jobs"]["turnaround"].tolist() == pytest.approx([4.1, 4.2, 4.3], abs=1e-12)
    assert fifo.tables["schedule"]["tasks"].tolist() == [1, 1, 1]
    assert equal.tables["schedule"]["tasks"].tolist() == [3]


def test_tasks_of_different_sizes_are_placed() -> None:
    """A task of 20 s moves (5 s, and 1 s each way without data), and a task of 1 s does not."""
    bags = gs.Workload.of_tasks([0.0, 50.0], [[2000.0, 100.0], [100.0, 2000.0]], [0, 0])
    scenario = gs.Scenario(gs.Platform.of([100.0, 400.0]), bags, one_second_network(), seed=1)
    result = gs.simulate(scenario, gs.Rjss(k=1.0, rule="none"), record=True)
    assert rows(result, "jobs", "application", "machine", "turnaround") == [
        (0, 1, 7.0), (0, 0, 1.0), (1, 0, 1.0), (1, 1, 7.0)
    ]  # fmt: skip
    assert rows(result, "applications", "first_start", "finish") == [(0.0, 6.0), (50.0, 56.0)]
    assert validate_result(result) == []


def test_probe_takes_as_long_as_two_packets() -> None:
    """A probe of 100 bytes takes 1.1 s each way, so the job leaves at 2.2 s."""
    scenario = small_scenario([100.0, 200.0])
    result = gs.simulate(scenario, gs.Rjss(k=1.0, probe_latency="network"))
    assert rows(result, "jobs", "machine", "turnaround") == [(1, 9.4)]
    assert result.digest == gs.simulate(scenario, gs.Rjss(k=1.0, probe_latency=2.2)).digest
    assert gs.Rjss(probe_latency="network").informed_by_messages
    assert not gs.Rjss(probe_latency=2.2).informed_by_messages and gs.NoMigration().informed_by_messages


@pytest.mark.parametrize("cls", [gs.Rjss, gs.ResourceExclusion])
def test_dispatcher_places_one_job_after_another(cls: type[gs.Scheduler]) -> None:
    """Probes take 4 s, and both jobs stay: the second is decided at 8 s, and the first result waits."""
    scenario = small_scenario([100.0, 50.0], size=100.0, release=(0.0, 1.0))
    result = gs.simulate(scenario, cls(k=1.0, probe_latency=4.0), record=True)
    assert rows(result, "arrivals", "application", "time") == [(0, 4.0), (1, 8.0)]
    assert result.applications["finish"].tolist() == [5.0, 9.0]
    assert rows(result, "jobs", "waited", "turnaround") == [(0.0, 8.0), (0.0, 8.0)]
    result = gs.simulate(scenario, cls(k=1.0, probe_latency=4.0, dispatcher="parallel"))
    assert rows(result, "jobs", "waited", "turnaround") == [(0.0, 5.0), (0.0, 5.0)]


# -- against replays ------------------------------------------------------------------------------------


#: Workload of `streams` -> loads of about 0.8 on machines of one core, and on those of 1 to 4 cores.
LOADS: list[dict[str, Any]] = [{}, {"cores": [1 + k % 4 for k in range(60)], "interarrival": 8.0}]


@pytest.mark.parametrize("workload", LOADS, ids=["one core", "cores"])
def test_without_migration_each_node_is_a_plain_queue(workload: dict[str, Any]) -> None:
    scenario = streams(**workload)
    result = gs.simulate(scenario, gs.NoMigration(), record=True)
    jobs, speeds = scenario.workload.realize(scenario.platform), scenario.platform.speeds
    free = [[0] * cores for cores in core_counts(scenario)]
    for i, (instant, home) in enumerate(zip(jobs.release_ns.tolist(), jobs.submitter.tolist(), strict=True)):
        start = max(instant, free[home][0])
        end = start + round(jobs.task_size[i] / speeds[home] * NS)
        heapq.heapreplace(free[home], end)
        found = result.tables["jobs"][i]
        assert (found["machine"], found["probes"]) == (home, 0)
        assert (found["waited"], found["turnaround"]) == ((start - instant) / NS, (end - instant) / NS)
        assert result.applications[i]["finish"] == end / NS
    assert i > 1000 and result.messages["sent"].sum() == 0 and result.migrated == 0.0
    assert validate_result(result) == []


def core_counts(scenario: gs.Scenario) -> list[int]:
    """Return the number of cores of each machine."""
    cores = scenario.platform.cores
    return [1] * scenario.platform.nodes if cores is None else cores.tolist()


def replay(scenario: gs.Scenario, choose: Any) -> tuple[list[int], list[float]]:
    """Return machines and turnarounds if all nodes are probed, without interfaces or conditions.

    choose : (turnarounds in ns at each node, home) -> node.
    """
    jobs, speeds = scenario.workload.realize(scenario.platform), scenario.platform.speeds
    network, nodes = scenario.network, len(speeds)
    way = [round(network.latency * NS) + round(b / network.bandwidth * NS) for b in jobs.data.tolist()]
    lasts = np.rint(jobs.task_size[:, None] / speeds * NS).astype(np.int64)
    free, machine, turnaround = np.zeros(nodes, np.int64), [0] * len(jobs), [0.0] * len(jobs)
    core_ends = [[0] * cores for cores in core_counts(scenario)]
    events = [
        (instant, 1, i) for i, instant in enumerate(jobs.release_ns.tolist())
    ]  # jobs come before others leave
    heapq.heapify(events)
    while events:
        now, leaves, i = heapq.heappop(events)
        home = int(jobs.submitter[i])
        if leaves:
            legs = np.where(np.arange(nodes) == home, 0, way[i])
            machine[i] = u = choose(np.maximum(free - (now + legs), 0) + lasts[i] + 2 * legs, home)
            if u != home:
                heapq.heappush(events, (now + way[i], 0, i))
                continue
        u = machine[i]
        end = max(core_ends[u][0], now) + int(lasts[i, u])
        heapq.heapreplace(core_ends[u], end)
        free[u] = core_ends[u][0]
        back = end + (0 if u == home else way[i])
        turnaround[i] = (back - int(jobs.release_ns[i])) / NS
    return machine, turnaround


@pytest.mark.parametrize("cores", [None, [1, 2, 3] * 5], ids=["one core", "cores"])
def test_best_node_equals_that_of_a_replay(cores: list[int] | None) -> None:
    gap = 10.0 if cores is None else 5.0
    scenario = streams(15, cores=cores, interarrival=gap, processing_time=9.0, data=300_000.0)
    speeds = scenario.platform.speeds
    mean = speeds.mean()

    def choose_first_result(took: Any, home: int) -> int:
        return int(np.argmin(took))

    def choose_above_mean(took: Any, home: int) -> int:
        allowed = (speeds >= mean) | (np.arange(len(speeds)) == home)
        return int(np.argmin(np.where(allowed, took, np.iinfo(np.int64).max)))

    def choose_fastest(took: Any, home: int) -> int:
        return int(np.argmax(speeds))

    for scheduler, choose in (
        (gs.Rjss(k=1.0, pick="best", rule="none"), choose_first_result),
        (gs.ResourceExclusion(k=1.0), choose_above_mean),
        (gs.ResourceExclusion(k=1.0, reading="fastest"), choose_fastest),
    ):
        result = gs.simulate(scenario, scheduler)
        machine, turnaround = replay(scenario, choose)
        assert result.tables["jobs"]["machine"].tolist() == machine
        assert result.tables["jobs"]["turnaround"].tolist() == turnaround
        assert 0.1 < result.migrated < 1.0


# -- rules and parameters -------------------------------------------------------------------------------


def test_rules_on_arrivals_differ_only_for_long_transfers() -> None:
    def found(network: gs.Network, data: float) -> list[gs.Table]:
        scenario = streams(60, network, data=data, interarrival=20.0, processing_time=30.0)
        rules = ("exactly-one", "at-least-one", "none")
        return [gs.simulate(scenario, gs.Rjss(k=0.2, rule=rule)).tables["jobs"] for rule in rules]

    for data in (5000.0, 40_000.0):  # moves take 0.14 s and 0.42 s, as in the paper
        printed, meant, none = found(gs.Network.star(), data)
        assert printed == meant == none
    printed, meant, none = found(gs.Network.star(congestion=20.0), 5000.0)
    assert printed != meant and meant != none and printed != none


def test_printed_turnaround_compares_one_transfer_with_the_local_queue() -> None:
    """A transfer takes 1.1 s and home is idle: the job stays, although it would return 2.8 s earlier."""
    two = small_scenario([100.0, 200.0], release=(0.0, 5.0))
    result = gs.simulate(two, gs.Rjss(k=1.0, turnaround="printed", remote_threshold=np.inf))
    assert rows(result, "jobs", "machine", "turnaround") == [(0, 10.0), (1, 7.2)]
    assert gs.simulate(two, gs.Rjss(k=1.0)).tables["jobs"]["machine"].tolist() == [1, 1]


def test_rule_counts_jobs_that_arrive_during_the_transfer() -> None:
    """Two jobs at node 1 in 2 s, and 1.1 s in transit: another has probability 1 - exp(-1.1) = 0.667."""
    jobs = gs.Workload.of([1.0, 1.0, 2.0], 1, [1.0, 1.0, 1000.0], [1, 1, 0], 100, origin=0.0)
    scenario = gs.Scenario(gs.Platform.of([100.0, 200.0]), jobs, one_second_network(), seed=1)
    for threshold, machine in ((0.66, 0), (0.67, 1)):
        scheduler = gs.Rjss(k=1.0, rule="at-least-one", local_threshold=threshold)
        assert gs.simulate(scenario, scheduler).tables["jobs"]["machine"][2] == machine
    # as printed, 1.1 exp(-1.1) = 0.366
    for threshold, machine in ((0.36, 0), (0.37, 1)):
        scheduler = gs.Rjss(k=1.0, local_threshold=threshold)
        assert gs.simulate(scenario, scheduler).tables["jobs"]["machine"][2] == machine


@pytest.mark.parametrize("form", ["compiled", "interpreted"])
def test_rules_count_jobs_per_core(form: Any) -> None:
    """Two jobs of a node of two cores and one sent to it in 2 s, and 1.1 s in transit."""
    bags = gs.Workload.of([0.5, 1.0, 1.0, 2.0], 1, [1000.0, 1.0, 1.0, 1000.0], [0, 1, 1, 0], 100, origin=0.0)
    platform = gs.Platform.of([100.0, 200.0], cores=[1, 2])
    scenario = gs.Scenario(platform, bags, one_second_network(), seed=1)
    probability, sent = 1 - math.exp(-1.1 / 2), 1.1 / 2 / 2
    for rule, machines in (
        ({"local_threshold": probability * 1.01}, [1, 1]),
        ({"local_threshold": probability * 0.99}, [1, 0]),
        ({"remote_threshold": sent * 1.01}, [1, 1]),
        ({"remote_threshold": sent * 0.99}, [1, 0]),
    ):
        scheduler = gs.Rjss(k=1.0, rule="at-least-one", **rule)
        result = gs.simulate(scenario, scheduler, nodes=form, record="decisions")
        assert result.tables["jobs"]["machine"][[0, 3]].tolist() == machines
        decisions = result.tables["decisions"]
        is_rejected = (decisions["application"] == 3) & np.isin(decisions["action"], ["own", "others"])
        reasons = decisions["saw"][is_rejected]
        expected = probability if "local_threshold" in rule else sent
        assert reasons.tolist() == ([] if machines[1] else [pytest.approx(expected)])


@pytest.mark.parametrize("cls", [gs.Rjss, gs.ResourceExclusion])
def test_a_walk_goes_from_neighbour_to_neighbour(cls: type[gs.Scheduler]) -> None:
    """One step: to one of the two neighbours."""
    scenario = streams(20)
    neighbours = random_neighbours(20, 2, Streams(scenario.seed)("walk overlay"))
    result = gs.simulate(scenario, cls(k=0.05, overlay=2))
    moved = ~np.isnan(result.tables["jobs"]["predicted"])
    home, machine = result.applications["submitter"][moved], result.tables["jobs"]["machine"][moved]
    went = neighbours[home] == machine[:, None]
    assert moved.sum() > 20 and went.any(axis=1).all() and went.any(axis=0).all()


def test_default_minimum_speed_is_the_mean_speed() -> None:
    scenario = streams(40)
    mean = gs.ResourceExclusion(min_speed=scenario.platform.aggregate_speed / 40)
    jobs = scenario.workload.realize(scenario.platform)
    assert gs.ResourceExclusion().explicit(scenario.platform.speeds, jobs) == mean
    assert mean.explicit(scenario.platform.speeds, jobs) is mean
    result = gs.simulate(scenario, gs.ResourceExclusion(k=0.5))
    moved = ~np.isnan(result.tables["jobs"]["predicted"])
    assert result.machines["speed"][result.tables["jobs"]["machine"][moved]].min() >= mean.min_speed
    assert moved.any() and result.digest == gs.simulate(
        scenario, gs.ResourceExclusion(k=0.5, min_speed=mean.min_speed)
    ).digest  # fmt: skip


def test_schedulers_without_probes_do_not_migrate() -> None:
    scenario = streams()
    plain = gs.simulate(scenario, gs.NoMigration(), record=True)
    for scheduler in (gs.Rjss(k=0.0), gs.Rjss(k=0.0, probe_latency=3.0), gs.ResourceExclusion(k=0.0)):
        found = gs.simulate(scenario, scheduler, record=True)
        assert found.tables == plain.tables and found.digest == plain.digest


def test_number_of_probed_nodes_is_limited() -> None:
    """A job probes at most ceil(k * nodes) other nodes, until one is good enough."""
    scenario = streams(25)
    for k, asked in ((0.1, 3), (0.04, 1), (0.041, 2), (1.0, 24)):
        result = gs.simulate(scenario, gs.Rjss(k=k))
        assert result.facts["nodes_asked"] == asked == result.tables["jobs"]["probes"].max()
        stayed = np.isnan(result.tables["jobs"]["predicted"])
        assert (result.tables["jobs"]["probes"][stayed] == asked).all()
        assert rows(result, "messages", "sent")[0] == (result.tables["jobs"]["probes"].sum(),)


@pytest.mark.parametrize("name", ALL)
def test_runs_are_valid_and_reproducible(name: str) -> None:
    one, repeated = (gs.simulate(streams(30), ALL[name], record=True) for _ in range(2))
    assert one.digest == repeated.digest and validate_result(one) == []
    # all schedulers run the same jobs
    plain = gs.simulate(streams(30), gs.NoMigration())
    for column in ("release", "size", "submitter", "data"):
        assert np.array_equal(one.applications[column], plain.applications[column])
    assert (one.digest == plain.digest) == (name == "no-migration")
    assert one.mean_turnaround < plain.mean_turnaround or name in ("fastest", "no-migration")
    assert gs.simulate(streams(30, seed=6), ALL[name]).digest != one.digest


def test_each_scheduler_has_a_registered_name() -> None:
    assert make_scheduler("rjss") == gs.Rjss() and make_scheduler("rjss-best") == gs.Rjss(pick="best")
    assert make_scheduler("resource-exclusion", {"k": 0.2}) == gs.ResourceExclusion(k=0.2)
    assert make_scheduler("resource-exclusion-fastest") == gs.ResourceExclusion(reading="fastest")
    assert make_scheduler("no-migration") == gs.NoMigration()


# -- checkpoints ----------------------------------------------------------------------------------------


class RunInterruption(Exception):
    """Exception that ends a run."""


def test_checkpoints_contain_pending_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.simulation.simulate._STRIDE", 50)  # jobs between two checks by the engine
    scenario, file = streams(), tmp_path / "run.checkpoint"
    scheduler = gs.Rjss(k=0.3, probe_latency=0.5, pick="best")
    full_run = gs.simulate(scenario, scheduler, record=True)
    for wave in (2, 9, 18):
        simulation = Simulation(scenario, scheduler, Options(record=True))
        waves = iter(range(1, 100))

        def save_at_wave_end(last: int = wave, waves: Any = waves, simulation: Any = simulation) -> None:
            if next(waves) == last:
                save(file, simulation, simulation.checkpoint_header(600.0))
                raise RunInterruption

        simulation.engine.at_wave_end(save_at_wave_end)
        with pytest.raises(RunInterruption):
            simulation.run()
        state = simulation.policy.walks.getstate()  # type: ignore[attr-defined]
        assert len(state["searches"]) > 5 and 0 < state["next"] < len(full_run.tables["jobs"])
        assert len(state["dispatchers"]) > 5
        repeated = gs.resume(file)
        assert (
            repeated.digest == full_run.digest and repeated.tables["schedule"] == full_run.tables["schedule"]
        )


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rjss", "resource-exclusion", "no-migration"])
def test_failures_are_rejected(name: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.of([100.0, 200.0]),
        gs.Workload.of([0.0], 1, 1000.0),
        faults=gs.Faults.of([0], [1.0], [2.0]),
    )
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.simulate(scenario, ALL[name])
    takes = " or set faults.reachable = true (absences of owners)" if "no-" not in name else ""
    assert str(excinfo.value) == f"{name} does not support failures: remove faults (--failures){takes}"


BAD: list[tuple[type[gs.Scheduler], dict[str, Any], str]] = [
    (gs.Rjss, {"k": -0.1}, "rjss.k must be a number in 0..1, got -0.1"),
    (gs.Rjss, {"k": "all"}, "rjss.k must be a number in 0..1, got 'all'"),
    (gs.Rjss, {"k": 1.5}, "rjss.k must be a number in 0..1, got 1.5"),
    (gs.Rjss, {"probe_latency": -1}, "rjss.probe_latency must be a finite number >= 0 s, got -1"),
    (gs.Rjss, {"probe_latency": "net"}, "rjss.probe_latency must be s >= 0 or 'network', got 'net'"),
    (gs.Rjss, {"dispatcher": "none"}, "rjss.dispatcher must be one of queue, parallel, got 'none'"),
    (gs.Rjss, {"load_packet": 1.5}, "rjss.load_packet must be a whole number in 0..2147483647, got 1.5"),
    (gs.Rjss, {"load_packet": 2**31},
     "rjss.load_packet must be a whole number in 0..2147483647, got 2147483648"),
    (gs.Rjss, {"overlay": 0}, "rjss.overlay must be a whole number >= 1, got 0"),
    (gs.Rjss, {"local_threshold": -1.0}, "rjss.local_threshold must be a number >= 0, got -1.0"),
    (gs.Rjss, {"remote_threshold": np.nan}, "rjss.remote_threshold must be a number >= 0, got nan"),
    (gs.Rjss, {"rule": "P"}, "rjss.rule must be one of exactly-one, at-least-one, none, got 'P'"),
    (gs.Rjss, {"pick": "any"}, "rjss.pick must be one of first, best, got 'any'"),
    (gs.Rjss, {"turnaround": 1}, "rjss.turnaround must be one of complete, printed, got 1"),
    (gs.ResourceExclusion, {"k": 2}, "resource-exclusion.k must be a number in 0..1, got 2"),
    (gs.ResourceExclusion, {"reading": "best"},
     "resource-exclusion.reading must be one of completion, fastest, got 'best'"),
    (gs.ResourceExclusion, {"min_speed": -1.0},
     "resource-exclusion.min_speed must be a finite number >= 0 Mflop/s, got -1.0"),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "parameters", "message"), BAD)
def test_invalid_parameters_are_rejected(
    cls: type[gs.Scheduler], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        cls(**parameters)
    assert str(excinfo.value) == message


def test_searches_beyond_the_clock_are_rejected() -> None:
    scenario = small_scenario([100.0, 200.0, 300.0, 400.0])
    expected = "probe_latency must allow {} probes within 2e+09 s, got {} s for each"
    for scheduler, message in (
        (gs.Rjss(k=0.5, probe_latency=1e308), f"rjss.{expected.format(2, 1e308)}"),
        (gs.ResourceExclusion(k=1.0, probe_latency=6e8), f"resource-exclusion.{expected.format(4, 6e8)}"),
    ):
        with pytest.raises(gs.ScenarioError) as excinfo:
            gs.simulate(scenario, scheduler)
        assert str(excinfo.value) == message
    far = gs.simulate(scenario, gs.Rjss(k=0.5, probe_latency=9e8))
    assert far.mean_turnaround > 9e8


@pytest.mark.parametrize("form", ["compiled", "interpreted", "python"])
def test_a_run_that_passes_the_last_instant_is_an_error(form: Any) -> None:
    """The dispatcher of machine 0 looks for places for three jobs, 9e8 s each."""
    scenario = small_scenario([100.0, 200.0], tasks=3)
    with pytest.raises(gs.ScenarioError, match="rjss did not end before a number overflowed"):
        gs.simulate(scenario, gs.Rjss(k=1.0, probe_latency=9e8), nodes=form)


def test_compiled_nodes_keep_no_columns_of_single_tasks() -> None:
    """The columns would take 60 bytes for each task of the bags, besides 140 of the kernel and the tables."""

    def peak(tasks: int) -> int:
        bags = gs.Workload.of(range(10), tasks // 10, 100.0, range(10))
        scenario = gs.Scenario(gs.Platform.equal(50), bags)
        # this run imports modules and draws the workload, which the measurement must exclude
        gs.simulate(scenario, gs.Rjss())
        tracemalloc.start()
        try:
            gs.simulate(scenario, gs.Rjss())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(30_000) - peak(10_000)) / 20_000 < 170.0


def test_thresholds_may_be_infinite() -> None:
    assert gs.Rjss(remote_threshold=np.inf).remote_threshold == np.inf
