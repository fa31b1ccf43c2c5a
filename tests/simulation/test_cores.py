"""Runs on machines with several cores: all forms of nodes, exact cases, and what is refused."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.scheduling.nodes.adapter import NodeScheduler
from gridsim.scheduling.registry import registered, scheduler_of
from gridsim.testing.order import promised_order_violation
from gridsim.testing.resuming import resume_difference
from gridsim.theory.formulas import mmc_wait
from gridsim.validation.results import validate_result
from tests.validation.test_jobs import with_columns

#: The schedulers of bags that support several cores, and those of them that send no messages.
NAMES = [
    name
    for name in registered()
    if not (scheduler := scheduler_of("scheduler", name, {})).rigid and scheduler.cores
]
CENTRALIZED = [
    name
    for name in NAMES
    if not (scheduler := scheduler_of("scheduler", name, {})).decentralized
    and not isinstance(scheduler, NodeScheduler)
    and scheduler.cores == "separate"
]


@st.composite
def scenarios(draw: st.DrawFn, min_cores: int = 1) -> gs.Scenario:
    """Draw bags on machines of which some have several cores."""
    machines, count = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    numbers: dict[str, Any] = {"min_size": count, "max_size": count}
    cores = draw(st.lists(st.integers(min_cores, 4), min_size=machines, max_size=machines))
    speeds = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=machines, max_size=machines))
    bags = gs.Workload.of(
        sorted(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 10.0]), **numbers))),
        draw(st.lists(st.integers(1, 20), **numbers)),
        draw(st.lists(st.sampled_from([1.0, 6.0, 10.0]), **numbers)),
        submitter=draw(st.lists(st.integers(0, machines - 1), **numbers)),
    )
    network = gs.Network(latency=draw(st.sampled_from([0.0, 0.05, 1.0])))
    faults = None
    if machines > 1 and draw(st.booleans()):
        faults = gs.Faults.of(*zip(*((u, 3.0 + u, 9.0 + 2 * u) for u in range(machines - 1)), strict=True))
    return gs.Scenario(
        gs.Platform.of(speeds, cores=cores), bags, network, draw(st.integers(0, 9)), faults=faults
    )


def with_unequal_tasks(scenario: gs.Scenario) -> gs.Scenario:
    """Return the scenario with two bags of tasks of different sizes, whose numbers follow from its seed."""
    sizes = [[6.0, 3.0, 1.0, 10.0, 2.5], [3.0] * scenario.seed + [8.0]]
    return replace(scenario, workload=gs.Workload.of_tasks([0.0, 2.0], sizes, submitter=[0, 0]))


@settings(max_examples=100, deadline=None)
@given(
    scenario=scenarios(),
    name=st.sampled_from(NAMES),
    unequal=st.booleans(),
    cohort_limit=st.sampled_from([None, 1]),
)
def test_all_forms_of_nodes_have_equal_and_valid_runs(
    scenario: gs.Scenario, name: str, unequal: bool, cohort_limit: int | None
) -> None:
    scheduler = scheduler_of("scheduler", name, {})
    if unequal and scheduler.unequal:
        scenario = with_unequal_tasks(scenario)
    is_compiled = not isinstance(scheduler, NodeScheduler) or find_spec("numba") is not None
    forms: list[Any] = [None, *(form for form in scheduler.node_forms if form != "compiled" or is_compiled)]
    forms += ["python"][: "interpreted" in scheduler.node_forms]
    if not scheduler.failures:
        scenario = replace(scenario, faults=None)
    results = [gs.simulate(scenario, scheduler, nodes=form, record="schedule") for form in forms]
    results.append(gs.simulate(scenario, scheduler, record="all", cohort_limit=cohort_limit))
    assert len({result.digest for result in results}) == 1
    order = scheduler.promised_order
    for result in (results[0], results[-1]):
        assert validate_result(result) == []
        assert order is None or promised_order_violation(result, order) is None
    cores, tables = scenario.platform.cores, results[0].tables
    assert ("cores" in tables["machines"]) == (cores is not None)
    assert ("core" in tables["schedule"]) == (cores is not None and scheduler.cores == "separate")
    # run times are rounded to ns: a task of 1/3 s ends 1e-9 of it earlier
    assert results[0].max_stretch >= results[0].bound().stretch * (1 - 1e-8)


def one_core_each(scenario: gs.Scenario) -> gs.Scenario:
    """Return the scenario with a machine for each core; submitters do not matter."""
    cores, faults = scenario.platform.cores, scenario.faults
    assert cores is not None
    machine_of = np.repeat(np.arange(len(cores)), cores)
    if faults is not None:
        listed: Any = faults.recipe
        rows = zip(listed.machine, listed.down, listed.up, strict=True)
        failures = [(k, down, up) for u, down, up in rows for k in np.flatnonzero(machine_of == u).tolist()]
        faults = gs.Faults.of(*zip(*failures, strict=True))
    return replace(
        scenario,
        platform=gs.Platform.of(scenario.platform.speeds[machine_of].tolist()),
        faults=faults,
    )


@settings(max_examples=100, deadline=None)
@given(
    scenario=scenarios(min_cores=2),
    name=st.sampled_from(CENTRALIZED),
    unequal=st.booleans(),
    fluctuates=st.booleans(),
)
def test_separate_cores_equal_machines_of_one_core(
    scenario: gs.Scenario, name: str, unequal: bool, fluctuates: bool
) -> None:
    """Schedulers without messages start each task when and where they would on machines of one core."""
    scheduler = scheduler_of("scheduler", name, {})
    if isinstance(scheduler, gs.WqrFt):  # by default it depends on the mean up time of the machines
        scheduler = msgspec.structs.replace(scheduler, checkpoint_interval=3.0)
    if unequal and scheduler.unequal:
        scenario = with_unequal_tasks(scenario)
    if fluctuates and scheduler.fluctuating:
        scenario = replace(scenario, fluctuation=gs.Fluctuation.of([[0.5, 1.0, 0.25]], 1.5))
    shared = gs.simulate(scenario, scheduler, record="all")
    single = gs.simulate(one_core_each(scenario), scheduler, record="schedule")
    assert validate_result(shared) == []
    for column in ("first_start", "finish", "resubmitted", "nodes_used"):
        np.testing.assert_array_equal(shared.applications[column], single.applications[column])
    schedule, cores = shared.tables["schedule"], shared.machines["cores"]
    core = (np.cumsum(cores) - cores)[schedule["machine"]] + schedule["core"]
    np.testing.assert_array_equal(core, single.tables["schedule"]["machine"])
    for column in ("application", "start", "end", "completed"):
        np.testing.assert_array_equal(schedule[column], single.tables["schedule"][column])
    assert shared.provenance["origin"] == single.provenance["origin"]


#: Number of machines -> schedulers that start single tasks on the first idle one of all cores, in the order
#: of arrival, if machines have equal cores and messages take no time.
FIRST_COME = {
    # machines pull tasks from one list, or each task goes to the core or queue in which it starts first
    2: [
        *("fcfs", "fcfs-pull", "mct", "olb", "sufferage", "lwl", "rjss", "rjss-best", "resource-exclusion"),
        *(name for name in NAMES if isinstance(scheduler_of("scheduler", name, {}), gs.WqrFt | gs.Wave)),
    ],
    # the cores of a machine have one queue
    1: [
        *("fcfs-random", "random", "round-robin", "power-of-d", "join-shortest-queue", "least-work"),
        *("dodoor", "resource-exclusion-fastest", "no-migration"),
    ],
}
#: The other schedulers -> why tasks start in another order, or wait while a core is idle.
OTHERS = {
    **dict.fromkeys(("fair-tree", "fair-tree-root", "ideal-tree"), "the order is that of deadlines"),
    **dict.fromkeys(("mincent", "mincent-once"), "the order is that of stretches"),
    **dict.fromkeys(("min-min", "max-min", "eagle", "shortest-bag-first"), "the order is that of sizes"),
    **dict.fromkeys(("met", "k-percent-best", "switching"), "the first of equal machines get more tasks"),
    **dict.fromkeys(("sparrow", "hawk"), "probes are drawn with replacement and may miss an idle core"),
    "work-stealing": "an idle core asks random others, and pauses if they have nothing",
    "join-idle-queue": "if no core is idle, tasks are bound to a random one",
    "dlwl": "loads are known from periodic messages",
    **dict.fromkeys(("steady-state", "bandwidth-centric"), "machines keep tasks in a buffer"),
    "market": "tasks are bound to machines by bids of some of them",
    **dict.fromkeys(
        ("expanding-ring", "random-walk-search", "advertisement", "rendezvous"),
        "a search ends at the first machine that fits",
    ),
}


def without_copies(name: str) -> gs.Scheduler:
    """Return a registered scheduler, without replicas and checkpoints, which take time."""
    scheduler = scheduler_of("scheduler", name, {})
    if isinstance(scheduler, gs.WqrFt):
        return msgspec.structs.replace(scheduler, max_replicas=1, checkpoint_interval=math.inf)
    return scheduler


def exponential_jobs(servers: int, count: int, seed: int) -> gs.Workload:
    """Return jobs of exponential sizes with the mean 1 Mflop, at load 0.8 on cores of 1 Mflop/s."""
    draw = np.random.default_rng(seed)
    release = np.cumsum(draw.exponential(1.0 / (0.8 * servers), count))
    size = draw.exponential(1.0, count)
    return gs.Workload.of(release - release[0], np.ones(count, int), size, submitter=np.zeros(count, int))


def simulate_free(scheduler: gs.Scheduler, jobs: gs.Workload, machines: int, servers: int) -> gs.Result:
    """Return the result of jobs on machines that share `servers` cores, if messages take no time."""
    platform = gs.Platform.equal(machines, 1.0, cores=servers // machines)
    return gs.simulate(gs.Scenario(platform, jobs, gs.Network(latency=0.0, bandwidth=math.inf)), scheduler)


def test_each_scheduler_is_first_come_first_served_or_not() -> None:
    assert sorted([*FIRST_COME[1], *FIRST_COME[2], *OTHERS]) == sorted(NAMES)


@pytest.mark.parametrize(
    ("name", "machines"), [(name, count) for count, names in FIRST_COME.items() for name in names]
)
def test_first_of_all_idle_cores_takes_the_next_task(name: str, machines: int) -> None:
    """Each task starts when the first of all cores is free, in the order of arrival."""
    for servers in (2, 6):
        jobs = exponential_jobs(servers, 300, servers)
        result = simulate_free(without_copies(name), jobs, machines, servers)
        applications, free = jobs.realize(result.scenario.platform), [0] * servers
        starts: list[int] = []
        durations = np.rint(applications.task_size * 1e9).astype(int).tolist()
        for release, duration in zip(applications.release_ns.tolist(), durations, strict=True):
            starts.append(max(release, free[0]))
            heapq.heapreplace(free, starts[-1] + duration)
        np.testing.assert_array_equal(result.applications["first_start"], np.array(starts) / 1e9)
        assert result.machines["busy"].sum() == pytest.approx(applications.size.sum())


def mean_wait(scheduler: gs.Scheduler, machines: int, servers: int, seed: int) -> float:
    """Return the mean wait (s) of exponential jobs at load 0.8, without messages that take time."""
    count = 40_000
    jobs = exponential_jobs(servers, count, seed)
    table = simulate_free(scheduler, jobs, machines, servers).applications
    return float((table["finish"] - table["release"] - table["size"])[count // 10 :].mean())


@pytest.mark.claims
@pytest.mark.parametrize(
    ("name", "machines"),
    [
        *((name, 2) for name in ("fcfs", "fcfs-pull", "mct", "rjss", "WQR-FT", "wave")),
        *((name, 1) for name in ("fcfs-random", "join-shortest-queue", "no-migration", "random")),
    ],
)
def test_cores_that_pull_wait_as_erlang_says(name: str, machines: int) -> None:
    """Two machines of three cores are M/M/6 for a central list, and one machine for its own queue.

    It is so for all of `FIRST_COME`, whose tasks start at the same times, but these cover each mechanism.
    """
    servers = 6
    scheduler = without_copies(name)
    waits = [mean_wait(scheduler, machines, servers, seed) for seed in range(20)]
    error = np.std(waits, ddof=1) / math.sqrt(len(waits))
    expected = mmc_wait(servers, 0.8)
    assert abs(np.mean(waits) - expected) < 4.0 * error < 0.1 * expected


def test_separate_cores_share_a_network_interface() -> None:
    """A machine with 4 cores sends one message after another, and between its cores messages are free."""
    network = gs.Network(latency=0.0, bandwidth=100.0)
    bags = gs.Workload.of([0.0] * 8, [1] * 8, [4000.0] * 8, submitter=[0] * 8)
    result = gs.simulate(
        gs.Scenario(gs.Platform.of([1000.0] * 2, cores=[4, 4]), bags, network), "sparrow", record="messages"
    )
    log = result.tables["message_log"]
    for end, side in (("sender", "sent"), ("receiver", "delivered")):
        assert set(log[end].tolist()) <= {0, 1}
        assert np.isfinite(log[side]).all()
    assert (log["sender"] != log["receiver"]).all()
    arrivals = np.sort(log["delivered"][log["receiver"] == 1])
    assert (np.diff(arrivals) > log["bytes"].min() / 100.0 - 1e-9).all()
    assert result.machines["bytes_out"].sum() == log["bytes"].sum()


def bags(**arguments: Any) -> gs.Scenario:
    workload = gs.Workload.of([0.0, 1.0], [16, 4], [4.0, 4.0])
    return gs.Scenario(gs.Platform.equal(2, 1.0, cores=4), workload, gs.Network(latency=0.0), **arguments)


def test_cores_share_the_tasks_of_a_machine() -> None:
    result = gs.simulate(bags(), "join-shortest-queue", record="schedule")
    assert result.makespan == pytest.approx(12.0, rel=1e-3)
    assert result.utilization == pytest.approx(80 / (2 * 4 * 12.0), rel=1e-3)
    assert result.machines["cores"].tolist() == [4, 4] and result.aggregate_speed == 8.0


def test_tasks_beyond_the_cores_are_found() -> None:
    result = gs.simulate(bags(), "random", record="schedule")
    start = result.tables["schedule"]["start"].copy()
    row = int(np.argmax(start))
    start[row] = start[start > 0].min() / 2
    violations = validate_result(with_columns(result, schedule={"start": start}))
    assert "overlap" in {violation.law for violation in violations}


def test_failure_of_a_machine_loses_the_tasks_of_all_cores() -> None:
    faults = gs.Faults.of([0], [2.0], [50.0])
    result = gs.simulate(bags(faults=faults), "round-robin", record="schedule")
    assert result.machines["interrupted"].tolist() == [4, 0] and validate_result(result) == []


def test_resumed_run_equals_the_whole_run() -> None:
    options: dict[str, Any] = {"record": "schedule"}
    result = gs.simulate(bags(), gs.FairTree(), **options)
    assert resume_difference(bags(), gs.FairTree(), result, **options) is None


class OneCore(gs.Random, frozen=True, kw_only=True):
    """A scheduler that does not support cores."""

    name: ClassVar[str] = "one-core"
    cores: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("scheduler", "changes", "message"),
    [
        (OneCore(), {}, "under one-core"),
        (gs.Mct(), {"faults": gs.Faults.zones()}, "with faults in time zones"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_runs_without_support_are_refused(
    scheduler: gs.Scheduler, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=f"^platform.cores must be 1 {message}, got up to 4$"):
        gs.simulate(replace(bags(), **changes), scheduler)


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        (0, "platform.cores must be a whole number in 1..65536, got 0"),
        ([1, 2, 3], "platform.cores must have 2 entries, one per machine, got 3"),
        ([1, 0], r"platform.cores\[1\] must be"),
        (1.5, "platform.cores must be"),
    ],
)
def test_invalid_numbers_of_cores_are_rejected(cores: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        gs.Platform.equal(2, cores=cores)


def test_cores_are_in_scenario_files() -> None:
    for cores in (4, (1, 3)):
        scenario = gs.Scenario(gs.Platform.equal(2, cores=cores), gs.Workload.of([0.0], [1], [1.0]))
        assert gs.Scenario.from_toml(scenario.to_toml()) == scenario
    assert "cores" not in gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], [1], [1.0])).to_toml()


class FillingNode(gs.NodeProgram):
    """A node that keeps a task for each idle core, and passes the others to the next one."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.keep(view, application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.keep(view, message.application, message.tasks)

    def keep(self, view: Any, application: int, tasks: int) -> None:
        view.note("seen", node=view.node, cores=view.cores, running=view.running, waiting=view.waiting)
        idle = view.cores - view.running - view.waiting
        kept = tasks if view.node == view.machines - 1 else min(tasks, max(0, idle))
        if kept > 0:
            view.enqueue(application, kept)
        if kept < tasks:
            view.send(view.node + 1, "task", application=application, tasks=tasks - kept)


class Filling(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "filling"
    policy = FillingNode
    cores: ClassVar[bool] = True
    messages: ClassVar[dict[str, gs.Message]] = {
        "task": gs.Message(100, moves_tasks=True, application=int, tasks=int)
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "seen": {"node": int, "cores": int, "running": int, "waiting": int}
    }


def test_nodes_see_their_cores_and_running_tasks() -> None:
    workload = gs.Workload.of([0.0, 1.0, 5.5], [5, 2, 2], [4000.0] * 3, submitter=[0, 0, 0])
    network = gs.Network(latency=0.5, bandwidth=math.inf)
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0, cores=[4, 2]), workload, network)
    forms: tuple[Any, ...] = ("interpreted", "python", *["compiled"][: find_spec("numba") is not None])
    results = [gs.simulate(scenario, Filling(), nodes=form) for form in forms]
    results.append(gs.emulate(scenario, Filling(), processes=1, speedup=math.inf))
    assert len({result.digest for result in results}) == 1
    seen = results[0].tables["seen"]
    rows = [tuple(seen[name].tolist()) for name in ("node", "cores", "running", "waiting")]
    assert [*zip(*rows, strict=True)] == [
        (0, 4, 0, 0),
        (1, 2, 0, 0),
        (0, 4, 4, 0),
        (1, 2, 1, 0),  # one of two tasks waits from now on
        (0, 4, 0, 0),
    ]


def test_bench_has_cores() -> None:
    bench = gs.testing.Bench(Filling(), cores=3)
    bench.release(0, tasks=5)
    assert [item.fields["tasks"] for item in bench.sent] == [2]
    bench.advance(0.5)
    assert (bench.view.cores, bench.view.running, bench.view.waiting) == (3, 3, 0)
    with pytest.raises(ScenarioError, match="^cores must be 1 for sparrow, whose nodes do not share"):
        gs.testing.Bench(gs.Sparrow(), cores=3)
