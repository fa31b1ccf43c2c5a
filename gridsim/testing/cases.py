"""Hypothesis strategies for scenarios: small grids with coincident events, failures and background load."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from gridsim.errors import ScenarioError
from gridsim.model.applications import JOB_TIMES, JobTime, ListedWorkload
from gridsim.model.attributes import ListedAttributes
from gridsim.model.background_load import Fluctuation
from gridsim.model.bag_workloads import ListRecipe
from gridsim.model.capacity import MachineCapacity, scarce_memory
from gridsim.model.faults import Faults, ListedFaults
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.power import Power
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.machines import RunMachines
from gridsim.support.arrays import Integers
from gridsim.support.random_streams import Streams

#: Numbers of machines that are special cases of trees.
_MACHINE_COUNTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)
#: Numbers of machines of `large_grids`.
_LARGE_GRIDS = (27, 40)
#: Numbers of scenarios of `long_queues`: with random times, with times that almost coincide, and on machines
#: that jobs share; number of jobs in each.
_RANDOM_QUEUES, _COINCIDENT_QUEUES, _SHARED_QUEUES, _QUEUED_JOBS = 2, 2, 2, 60
#: Times of failures (s): some while the first requests or a summary are in flight, or at a heartbeat.
_INSTANTS = (0.0, 0.05, 0.05136, 0.1, 0.15408, 0.3, 1.0, 20.0, 60.0)
#: Times (s) from the release or end of an application to the failure of a machine.
_FAILURE_OFFSETS = (-1.0, -0.05, -1e-9, 0.0, 0.0, 0.0, 1e-9, 0.05)
#: Times (s) from the end of an application to the next release, and from a failure to the next one.
_SHORT_GAPS = (1e-9, 0.05, 0.3, 1.0)
#: Memory (bytes) of tasks of bags that share it: parts of that of a machine, and a byte more.
_BYTES_OF_TASKS = (0.0, 2e9, 2.7e9, 4e9, 4e9 + 1, 8e9)
#: Delay (s) of the releases of some applications, so that machines are idle for hours.
PAUSE = 7300.0


def networks() -> st.SearchStrategy[Network]:
    """Draw networks with or without queues, with latencies from 0 s to longer than most tasks."""
    latencies = st.sampled_from(((0.0, 0.0), (0.001, 0.0), (0.05, 0.0), (0.05, 0.02), (2.0, 0.0)))
    return st.builds(
        lambda latency, **rest: Network(latency=latency[0], jitter=latency[1], **rest),
        latency=latencies,
        bandwidth=st.sampled_from((inf, 125_000.0, 5_000.0)),
        interfaces=st.sampled_from(("fifo", "fifo", "equal")),
    )


@st.composite
def fault_schedules(
    draw: st.DrawFn,
    machines: int,
    reachable: bool = False,
    turns: Sequence[float] = (),
    homes: Sequence[int] = (),
) -> Faults:
    """Draw transient failures and outages of any machines; one machine has no long outages.

    Parameters
    ----------
    machines
        The number of machines.
    reachable
        Whether machines stay reachable during owner absences (as in `Faults.of`).
    turns
        Times (s) just before or after which machines also fail.
    homes
        Machines that submit applications; they fail more often.
    """
    instants = st.sampled_from(_INSTANTS) | st.floats(0.0, 400.0)
    if turns:
        near_turns = st.tuples(st.sampled_from(turns), st.sampled_from(_FAILURE_OFFSETS))
        instants |= near_turns.map(lambda times: max(0.0, sum(times)))
    stable_machine, max_outage = (
        draw(st.integers(0, machines - 1)),
        draw(st.sampled_from((0.0, 0.0, 0.0, 30.0))),
    )
    machine_sets = st.sets(st.integers(0, machines - 1), min_size=1, max_size=3)
    if homes:
        machine_sets |= st.sampled_from(homes).map(lambda home: {home})
    rows: list[tuple[int, float, float]] = []
    at = 0.0
    for _ in range(draw(st.integers(1, 4))):
        shortly_after = st.sampled_from(_SHORT_GAPS).map(at.__add__)  # before the last failure is detected
        at = draw(instants | shortly_after if rows else instants)
        up = at + draw(st.sampled_from((0.0, 0.0, 0.2, 30.0, 700.0, inf)))
        failing = draw(st.just(range(machines)) | machine_sets)
        rows += [(u, at, min(up, at + max_outage) if u == stable_machine else up) for u in sorted(failing)]
    merged: list[tuple[int, float, float]] = []
    for u, down, up in sorted(rows):
        # outages need a gap, since times are rounded to whole ns
        if not any(u == v and down <= last_up + 2e-9 for v, _, last_up in merged):
            merged.append((u, down, up))
    failing_machines, downs, ups = zip(*merged, strict=True)
    return Faults.of(failing_machines, downs, ups, reachable)


@st.composite
def fluctuations(draw: st.DrawFn, machines: int) -> Fluctuation:
    """Draw background loads with few factors, and with periods shorter or longer than tasks."""
    rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    factors = st.lists(st.sampled_from((1.0, 0.5, 0.25, 0.1)), min_size=steps, max_size=steps)

    def column(count: int) -> list[int]:
        return draw(st.lists(st.integers(0, count - 1), min_size=machines, max_size=machines))

    has_columns = draw(st.booleans())
    return Fluctuation.of(
        draw(st.lists(factors, min_size=rows, max_size=rows)),
        draw(st.sampled_from((1.0, 7.5, 60.0))),
        column(rows) if has_columns else None,
        column(steps) if has_columns else None,
    )


def scenarios(
    *,
    max_nodes: int = 40,
    faults: bool = False,
    rigid: bool = False,
    unequal: bool = False,
    fluctuating: bool = False,
    constraints: bool = False,
    moves_data: bool = False,
    cores: bool | str = False,
    shares_memory: bool = False,
    crowded: bool = False,
    reachable: bool = False,
    job_times: tuple[JobTime, ...] = (),
    pauses: bool = False,
    dependencies: bool = False,
    horizon: float | None = None,
) -> st.SearchStrategy[Scenario]:
    """Draw scenarios with up to `max_nodes` machines and 1..6 applications.

    Applications are often released at the same instant, or at the instant of another event.

    Parameters
    ----------
    faults
        Whether machines fail.
    rigid
        Whether the applications are rigid jobs.
    unequal
        Whether tasks of one application differ in size in some of the scenarios.
    fluctuating
        Whether machines have background load in some of the scenarios.
    crowded
        Whether there are up to 20 applications, released within 20 minutes at few machines, so that queues
        are long and some bags large.
    constraints
        Whether rigid jobs (or tasks of bags, if machines do not fail) require attributes of machines in some
        of the scenarios.
    moves_data
        Whether tasks fetch and send data over links of machines in some of the scenarios.
    cores
        Whether machines have several cores in some of the scenarios, and how (`Scheduler.cores`).  If True,
        some rigid jobs also need memory and GPUs, or have machines of their own.
    shares_memory
        Whether tasks of bags share the memory of machines with several cores in some of the scenarios
        (`Scheduler.shares_memory`).
    reachable
        Whether there are owner absences instead of failures.
    job_times
        Times that rigid jobs state in some of the scenarios.
    pauses
        Whether some applications are released hours after the others in some of the scenarios.
    dependencies
        Whether applications are released after others have ended in some of the scenarios.
    horizon
        Approximate time that a scenario spans, s: all times and sizes of longer ones are multiplied by the
        same factor.  None for no limit.
    """
    if rigid:
        cases = _rigid(max_nodes, faults, crowded, pauses)
    else:
        cases = _bags(max_nodes, faults, unequal, crowded, reachable, pauses)
    if rigid and constraints:
        required = cases.flatmap(with_machine_requirements)
        cases = cases | required if cores is True else required  # the latter share no machines
    if rigid:
        cases = cases.flatmap(_with_users)
    if rigid and job_times:
        cases = cases.flatmap(lambda scenario: _with_job_times(scenario, job_times))
    if constraints and not (rigid or faults or reachable):
        cases = cases.flatmap(_with_capacity_needs)
    if moves_data and not (rigid or faults or reachable):
        cases = cases.flatmap(_with_moved_data)
    if cores:
        cases = cases.flatmap(lambda scenario: _with_shared_machines(scenario, cores is True, shares_memory))
    if dependencies:
        cases = cases.flatmap(_with_dependencies)
    if horizon is not None:
        cases = cases.map(lambda scenario: compress(scenario, horizon))
    return cases.flatmap(_with_background_load) if fluctuating else cases


def compress(scenario: Scenario, horizon: float) -> Scenario:
    """Return the scenario with times and sizes reduced by one factor, so that it spans about `horizon` s."""
    recipe, faults = scenario.workload.recipe, scenario.faults
    if (scenario_span := span(scenario)) <= horizon:
        return scenario
    factor = horizon / scenario_span

    def scale_fields(recipe: Any, *names: str) -> Any:
        columns = {name: getattr(recipe, name, None) for name in names}
        return msgspec.structs.replace(
            recipe, **{name: _scale(value, factor) for name, value in columns.items() if value is not None}
        )

    times = ("release", "think_time", "not_before", "deadline", "cancel_at")
    sizes = ("run_time", "requested", "task_size", "sizes")
    return dataclasses.replace(
        scenario,
        workload=Workload(scale_fields(recipe, *times, *sizes)),
        faults=None if faults is None else dataclasses.replace(faults, recipe=_scale_faults(faults, factor)),
    )


def _scale_faults(faults: Faults, factor: float) -> ListedFaults:
    """Return the outages with times reduced by one factor, without those that then begin too early."""
    assert isinstance(faults.recipe, ListedFaults)
    outages = zip(*(getattr(faults.recipe, name) for name in ("machine", "down", "up")), strict=True)
    kept, over = list[tuple[int, float, float]](), dict[int, float]()
    for machine, down, up in sorted(outages, key=lambda outage: outage[1]):
        if down * factor > over.get(machine, -1.0) + 2e-9:  # at least 1 ns later after rounding to ns
            kept.append((machine, down * factor, up * factor))
            over[machine] = up * factor
    columns = {name: tuple(outage[k] for outage in kept) for k, name in enumerate(("machine", "down", "up"))}
    return msgspec.structs.replace(faults.recipe, **columns)


def span(scenario: Scenario) -> float:
    """Return the approximate time (s) until the last task ends and the last failure is over."""
    platform, applications = scenario.platform, scenario.workload.realize(scenario.platform)
    work = applications.size.sum() / platform.aggregate_speed
    longest_task = applications.task_size.max() / platform.speeds.min()
    end = float(applications.release.max() + work + longest_task)
    faults = None if scenario.faults is None else scenario.faults.recipe
    if isinstance(faults, ListedFaults):
        end = max(end, *faults.down, *(time for time in faults.up if time < inf), 0.0)
    return end


def _scale(values: Any, factor: float) -> Any:
    return tuple(_scale(value, factor) if isinstance(value, tuple) else value * factor for value in values)


def large_bags() -> list[Scenario]:
    """Return scenarios of more than 2**16 tasks: of a large bag, and of many bags at once at one machine."""
    large = Scenario(Platform.equal(2, 1000.0), Workload.of([0.0, 1.0], [70_000, 5], 1.0, [0, 1]))
    many = Scenario(Platform.equal(4, 1000.0), Workload.of([0.0] * 1_100, 64, 1.0, [0] * 1_100))
    return [large, many]


def large_grids(rigid: bool) -> list[Scenario]:
    """Return scenarios of more machines than random scenarios have, with long queues at a few submitters."""
    grids = []
    for seed, nodes in enumerate(_LARGE_GRIDS):
        homes = [(7 * k * k + seed) % 5 for k in range(10)]
        release, speeds = [30.0 * k for k in range(10)], [1000.0 - 10.0 * (u % 7) for u in range(nodes)]
        if rigid:
            # wider ones would wait for the machine that is down in checks of locality
            widths = [1 + 3 * k % (nodes // 2) for k in range(10)]
            platform, workload = Platform.equal(nodes), Workload.jobs_of(release, widths, 90.0, None, homes)
        else:
            platform, workload = Platform.of(speeds), Workload.of(release, 2 * nodes, 40_000.0, homes)
        grids.append(Scenario(platform, workload, seed=seed))
    return grids


def with_places(scenario: Scenario) -> Scenario:
    """Return the scenario with machines in rows of six, a unit apart; some schedulers require places."""
    machines = range(scenario.platform.nodes)
    x, y = (
        tuple(float(part) for part in column)
        for column in zip(*(divmod(u, 6) for u in machines), strict=True)
    )
    return dataclasses.replace(
        scenario, platform=scenario.platform.with_attributes(ListedAttributes(x=x, y=y))
    )


def long_queues(shares: bool = False) -> list[Scenario]:
    """Return scenarios of rigid jobs whose queues are longer than in random scenarios, with estimates.

    Parameters
    ----------
    shares
        Whether jobs share machines in further scenarios, of which they need cores, memory and GPUs.
    """
    cases = []
    unshared_count = _RANDOM_QUEUES + _COINCIDENT_QUEUES
    for seed in range(unshared_count + shares * _SHARED_QUEUES):
        stream = Streams(seed)("long queue")
        times = stream.uniform(10.0, 600.0, (2, _QUEUED_JOBS))
        needs, platform = dict[str, Any](), Platform.equal(10)
        columns: dict[str, Any] = {
            "release": np.sort(stream.uniform(0.0, 1200.0, _QUEUED_JOBS)),
            "nodes": stream.integers(1, 8, _QUEUED_JOBS),
            "submitter": stream.integers(0, 10, _QUEUED_JOBS),
            "user": stream.integers(0, 3, _QUEUED_JOBS),
            "queue": stream.integers(0, 2, _QUEUED_JOBS),
        }
        if seed >= _RANDOM_QUEUES:
            columns["release"] -= columns["release"] % 120.0  # several jobs at one instant
        if _RANDOM_QUEUES <= seed < unshared_count:
            times = 60.0 * stream.integers(1, 5, times.shape) + stream.choice([0.0, 0.5, 1.0], times.shape)
        elif seed >= unshared_count:
            has_gpus = stream.random(_QUEUED_JOBS) < 0.5
            needs = {
                "nodes": stream.integers(1, 4, _QUEUED_JOBS),
                "cores": stream.integers(1, 4, _QUEUED_JOBS),
                "memory": 1e9 * stream.integers(0, 6, _QUEUED_JOBS),
                "gpus": has_gpus * stream.integers(1, 3, _QUEUED_JOBS),
                "exclusive": (stream.random(_QUEUED_JOBS) < 0.1).astype(int),
            }
            platform = Platform.equal(6, cores=4, memory=8e9, gpus=[2] * 3 + [0] * 3)
            columns["submitter"] %= 6
        outlives = _RANDOM_QUEUES < seed < unshared_count  # jobs run for longer than requested
        requested = times[1] if outlives else times.sum(axis=0)
        columns |= {"run_time": times[0], "requested": requested} | needs
        cases.append(Scenario(platform, Workload.jobs_of(**columns, origin=0.0), seed=seed))
    return cases


def job_alone(scenario: Scenario) -> Scenario | None:
    """Return the scenario with one of its rigid jobs, without other requirements; None on shared machines."""
    if scenario.platform.is_shared:
        return None
    jobs = scenario.workload.realize(scenario.platform)
    assert jobs.requested is not None
    i = scenario.seed % len(jobs)
    run_time = float(jobs.task_size[i] / scenario.platform.speeds[0])
    workload = Workload.jobs_of(
        [float(jobs.release[i])],
        int(jobs.tasks[i]),
        run_time,
        max(run_time, float(jobs.requested[i])),
        int(jobs.submitter[i]),
        origin=0.0,
    )
    return dataclasses.replace(scenario, workload=workload)


def with_deadline_after(scenario: Scenario, start: float) -> Scenario:
    """Return a scenario of one job with the deadline at which the job ends if it starts at `start` s."""
    recipe = scenario.workload.recipe
    assert isinstance(recipe, JobListRecipe) and recipe.requested is not None
    deadline = start + float(recipe.requested.array[0]) + 1e-6  # times are rounded to whole ns
    return _replace_recipes(scenario, {}, {"deadline": [deadline]})


@st.composite
def _with_moved_data(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe) or draw(st.booleans()):
        return scenario
    nodes, count = scenario.platform.nodes, len(recipe.release)
    links = draw(st.lists(st.sampled_from((1e4, 1e5, 1e6)), min_size=nodes, max_size=nodes))
    amounts = st.lists(st.sampled_from((0.0, 1e4, 1e6)), min_size=count, max_size=count).map(tuple)
    new_recipe = msgspec.structs.replace(
        recipe, input_bytes=draw(amounts), output_bytes=draw(st.none() | amounts)
    )
    return dataclasses.replace(
        scenario, platform=scenario.platform.linked(links), workload=Workload(new_recipe)
    )


def _with_shared_machines(
    scenario: Scenario, shares: bool, shares_memory: bool
) -> st.SearchStrategy[Scenario]:
    """Draw the number of cores of each machine, unless tasks move data or rigid jobs need attributes.

    Parameters
    ----------
    shares
        Whether rigid jobs share machines; else their tasks run on any cores, as on machines of one core.
    shares_memory
        Whether tasks of bags may share memory that does not suffice for a task on each core.
    """
    platform, recipe = scenario.platform, scenario.workload.recipe
    has_needs = platform.attributes is not None and not (shares_memory and isinstance(recipe, ListRecipe))
    if platform.bandwidth is not None or has_needs:
        return st.just(scenario)
    counts = st.lists(st.sampled_from((1, 2, 4)), min_size=platform.nodes, max_size=platform.nodes)
    # on equal machines with many cores, more jobs share a machine
    choices = st.none() | counts.map(tuple) | (st.just((4,) * platform.nodes) if shares else st.none())
    return choices.flatmap(lambda cores: _with_cores(scenario, cores, shares, shares_memory))


@st.composite
def _with_cores(
    draw: st.DrawFn, scenario: Scenario, cores: tuple[int, ...] | None, shares: bool, shares_memory: bool
) -> Scenario:
    """Return the scenario with these cores of machines, and with what tasks need of them."""
    jobs = scenario.workload.recipe
    if cores is not None and shares_memory and isinstance(jobs, ListRecipe) and jobs.memory is None:
        scenario = draw(_with_shared_memory(scenario))
    if cores is None or not isinstance(jobs, JobListRecipe):
        return _replace_recipes(scenario, {"cores": cores}, {})
    machines, count = len(cores), len(jobs.release)

    def column(values: tuple[Any, ...], length: int = count) -> list[Any]:
        return draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))

    # jobs of equal needs, of which many share a machine
    is_uniform = draw(st.booleans())

    def needs_column(values: tuple[Any, ...]) -> list[Any]:
        return [draw(st.sampled_from(values))] * count if is_uniform else column(values)

    capacity: dict[str, Any] = {"cores": cores}
    needs: dict[str, Any] = {"tasks_per_machine": [0] * count}
    if shares:
        gpus = draw(st.sampled_from((None, (0, 1, 2), (2,))))
        capacity["gpus"] = None if gpus is None else column(gpus, machines)
        memory = [8e9, *column((4e9, 5e9, 8e9), machines - 1)]
        capacity["attributes"] = draw(st.none() | st.just(ListedAttributes(memory=tuple(memory))))
        needs = {"cores": needs_column((1, 1, 2, 4)), "tasks_per_machine": needs_column((0, 1, 1, 2))}
        needs["exclusive"] = column((0, 0, 0, 1))
        if capacity["gpus"] is not None:
            needs["gpus"] = needs_column((0, 1, 1))
        if capacity["attributes"] is not None:
            task_bytes = draw(st.sampled_from((1e9, 2.6e9, 3e9)))  # many tasks need the same
            needs["memory"] = column((0.0, task_bytes, task_bytes, 8e9 - task_bytes + 1))
    nodes = [tasks * k for tasks, k in zip(jobs.nodes, column((1, 1, 2, 4)), strict=True)]
    shared = _replace_recipes(scenario, capacity, {})
    room, shrinks = _rooms(shared, needs).tolist(), draw(st.booleans())
    for i in np.flatnonzero(np.array(nodes) > room).tolist():
        if shrinks and room[i]:  # two such jobs contend for a machine
            nodes[i] = 1 + room[i] // 2
            continue
        nodes[i] = list(jobs.nodes)[i]  # fits if each task needs a core anywhere
        for name in needs.keys() - {"exclusive"}:
            needs[name][i] = int(name == "cores")
    return _replace_recipes(shared, {}, {"nodes": nodes, **needs})


@st.composite
def _with_shared_memory(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw the memory of machines, and that of tasks, of which each fits on all machines."""
    if draw(st.sampled_from((False, False, False, True))):
        return scenario
    recipe = scenario.workload.recipe
    assert isinstance(recipe, ListRecipe)
    nodes, count = scenario.platform.nodes, len(recipe.release)
    capacity, needs = (
        tuple(draw(st.lists(st.sampled_from(values), min_size=length, max_size=length)))
        for values, length in (((8e9, 12e9, 16e9), nodes), (_BYTES_OF_TASKS, count))
    )
    return _replace_recipes(scenario, {"attributes": ListedAttributes(memory=capacity)}, {"memory": needs})


def _rooms(scenario: Scenario, needs: dict[str, Any]) -> Integers:
    """Return the number of tasks for which the empty machines have room, for each job."""
    platform = scenario.platform
    capacity = MachineCapacity.of(platform.nodes, platform.cores, platform.attributes, platform.gpus)
    columns = {
        name: np.array(needs[name]) if name in needs else None
        for name in ("cores", "gpus", "tasks_per_machine", "memory")
    }
    return capacity.room(np.zeros(len(needs["tasks_per_machine"]), np.int64), **columns)


def _replace_recipes(scenario: Scenario, platform: dict[str, Any], workload: dict[str, Any]) -> Scenario:
    """Return the scenario with these fields of the recipes of its platform and its workload."""
    return dataclasses.replace(
        scenario,
        platform=Platform(msgspec.structs.replace(scenario.platform.recipe, **platform)),
        workload=Workload(msgspec.structs.replace(scenario.workload.recipe, **workload)),
    )


def with_cores_anywhere(scenario: Scenario) -> Scenario:
    """Return the scenario in which each task of a rigid job takes one core of any machine and no more."""
    jobs = scenario.workload.recipe
    if not isinstance(jobs, JobListRecipe) or jobs.tasks_per_machine is None:
        return scenario
    needs = {"cores": None, "gpus": None, "exclusive": None, "memory": None}
    anywhere = {"tasks_per_machine": (0,) * len(jobs.release)}
    return _replace_recipes(scenario, {"gpus": None, "attributes": None}, needs | anywhere)


def with_equal_delays(scenario: Scenario) -> Scenario:
    """Return the scenario in which all messages take the latency, so that many arrive at one instant."""
    network = msgspec.structs.replace(scenario.network, jitter=0.0, bandwidth=inf)
    return dataclasses.replace(scenario, network=network)


def with_one_core(scenario: Scenario) -> Scenario:
    """Return the scenario on machines of one core, with rigid jobs of at most as many tasks as machines."""
    scenario, workload = with_cores_anywhere(scenario), dict[str, Any]()
    if isinstance(jobs := scenario.workload.recipe, JobListRecipe):
        most = scenario.platform.nodes
        workload = {"nodes": tuple(min(most, n) for n in jobs.nodes), "tasks_per_machine": None}
    return _replace_recipes(scenario, {"cores": None}, workload)


@st.composite
def _with_capacity_needs(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw the memory and disk of machines (the first has the most), and the needs of tasks."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe) or draw(st.booleans()):
        return scenario

    def column(values: tuple[float, ...], count: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    nodes, count = scenario.platform.nodes, len(recipe.release)
    other_machines = nodes - 1
    attributes = ListedAttributes(
        memory=(8e9, *column((1e9, 4e9, 8e9), other_machines)),
        disk=(1e12, *column((0.0, 1e12), other_machines)),
    )
    new_recipe = msgspec.structs.replace(
        recipe,
        memory=column((0.0, 2e9, 4e9, 8e9), count),
        disk=draw(st.none() | st.just(column((0.0, 1e11), count))),
    )
    platform = scenario.platform.with_attributes(attributes)
    return dataclasses.replace(scenario, platform=platform, workload=Workload(new_recipe))


def without_needs(scenario: Scenario) -> Scenario:
    """Return the scenario without the memory and disk that tasks of bags need."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe):
        return scenario
    workload = Workload(msgspec.structs.replace(recipe, memory=None, disk=None))
    return dataclasses.replace(scenario, platform=scenario.platform.with_attributes(None), workload=workload)


def has_supported_needs(scenario: Scenario, scheduler: Scheduler) -> bool:
    """Return whether the scheduler supports the memory and disk that tasks of bags need, if any."""
    platform, recipe = scenario.platform, scenario.workload.recipe
    if not isinstance(recipe, ListRecipe) or recipe.memory is None:
        return scheduler.constraints
    applications = scenario.workload.realize(platform)
    if scheduler.cores == "separate":
        try:
            applications = RunMachines(platform, scheduler).with_suited_machines(applications)
        except ScenarioError:
            return False
    elif scarce_memory(platform.cores, platform.attributes, applications.memory).any():
        return scheduler.shares_memory and (scheduler.constraints or applications.group is None)
    return applications.group is None or (scheduler.constraints and scenario.faults is None)


@st.composite
def with_power(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw the power of machines, and the carbon intensity of their electricity, in half of the scenarios."""
    if draw(st.booleans()):
        return scenario
    nodes = scenario.platform.nodes

    def column(*values: float) -> tuple[float, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=nodes, max_size=nodes)))

    idle, extra = column(0.0, 80.0), column(0.0, 120.0)
    power = Power(
        idle=idle,
        busy=tuple(map(sum, zip(idle, extra, strict=True))),
        off=draw(st.sampled_from((0.0, 5.0))),
        carbon=draw(st.sampled_from((None, 300.0, ((0.0, 100.0), (60.0, 400.0), (400.0, 0.0))))),
    )
    return _replace_recipes(scenario, {"power": power}, {})


def _with_background_load(scenario: Scenario) -> st.SearchStrategy[Scenario]:
    loads = st.none() | fluctuations(scenario.platform.nodes)
    return loads.map(lambda load: dataclasses.replace(scenario, fluctuation=load))


@st.composite
def with_machine_requirements(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw machines with attributes, and sometimes jobs that require attributes of enough machines."""
    nodes, jobs = scenario.platform.nodes, scenario.workload.realize(scenario.platform)

    def column(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    listed_attributes = ListedAttributes(
        memory=column((1e9, 4e9), nodes),
        kinds=column(("a", "b"), nodes),
        x=column((0.0, 1.0, 5.0), nodes),
        y=column((0.0, 2.0), nodes),
        disk=column((0.0, 1e12), nodes),
    )
    if draw(st.booleans()):
        return dataclasses.replace(scenario, platform=Platform.equal(nodes, attributes=listed_attributes))
    memory, kinds = list(column((0.0, 2e9), len(jobs))), list(column(("", "a", "b"), len(jobs)))
    disk = list(column((0.0, 0.0, 1e11), len(jobs)))
    attributes = listed_attributes.realize(nodes)
    for i, tasks in enumerate(jobs.tasks.tolist()):
        if attributes.suitable_machines(memory[i], kinds[i], disk[i]).sum() < tasks:
            memory[i], kinds[i], disk[i] = 0.0, "", 0.0
    assert jobs.requested is not None
    run_time = jobs.task_size / float(scenario.platform.speeds[0])
    return dataclasses.replace(
        scenario,
        platform=Platform.equal(nodes, attributes=listed_attributes),
        workload=Workload.jobs_of(
            jobs.release,
            jobs.tasks,
            run_time,
            jobs.requested,
            jobs.submitter,
            memory,
            kinds,
            disk=disk,
            origin=0.0,
        ),
    )


@st.composite
def _with_users(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw the users, queues and priorities of jobs in half of the scenarios."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, JobListRecipe) or draw(st.booleans()):
        return scenario
    count = len(recipe.release)

    def column(values: tuple[Any, ...]) -> list[Any]:
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    new = {"user": column((0, 1, 2)), "queue": column((0, 1)), "priority": column((0.0, 0.0, 1.0))}
    return _replace_recipes(scenario, {}, new)


@st.composite
def _with_job_times(draw: st.DrawFn, scenario: Scenario, names: tuple[JobTime, ...]) -> Scenario:
    """Draw some of the times `names` for jobs; many coincide with other events if the job starts at once."""
    recipe = scenario.workload.recipe
    chosen_names = [name for name in names if draw(st.sampled_from((True, True, False)))]
    if not isinstance(recipe, JobListRecipe) or not chosen_names:
        return scenario
    durations = recipe.run_time if recipe.requested is None or draw(st.booleans()) else recipe.requested
    # time from the release: a multiple of the run time, plus seconds
    offsets: dict[JobTime, tuple[tuple[float, float], ...]] = {
        "not_before": ((0.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.0, 61.0), (0.0, 400.0)),
        "deadline": ((inf, 0.0), (1.0, 0.0), (1.0, 30.0), (1.0, 60.0), (1.0, 90.0), (5.0, 500.0)),
        "cancel_at": ((inf, 0.0), (inf, 0.0), (0.0, 1.0), (0.5, 0.0), (0.9, 60.0), (1.0, 0.0), (0.0, 400.0)),
    }
    if draw(st.booleans()):  # with patient users, jobs may wait for long
        offsets |= {
            "deadline": ((inf, 0.0), (5.0, 500.0)),
            "cancel_at": ((inf, 0.0), (inf, 0.0), (1.0, 400.0), (0.0, 1000.0)),
        }

    def column(name: JobTime) -> tuple[float, ...]:
        drawn_offsets = draw(
            st.lists(st.sampled_from(offsets[name]), min_size=len(durations), max_size=len(durations))
        )
        rows = zip(recipe.release, durations, drawn_offsets, strict=True)
        return tuple(release + part * duration + seconds for release, duration, (part, seconds) in rows)

    new_recipe = msgspec.structs.replace(recipe, **{name: column(name) for name in chosen_names})
    return dataclasses.replace(scenario, workload=Workload(new_recipe))


@st.composite
def _with_dependencies(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw the applications after which others are released, and think times; jobs state no times then."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListedWorkload) or any(getattr(recipe, name, None) for name in JOB_TIMES):
        return scenario
    count = len(recipe.release)
    if count < 2 or draw(st.booleans()):
        return scenario
    order = draw(st.permutations(range(count)))
    after: list[list[int]] = [[] for _ in range(count)]
    for place, i in enumerate(order[1:], 1):
        after[i] = draw(st.lists(st.sampled_from(order[:place]), max_size=2))
    times = st.lists(st.sampled_from((0.0, 0.0, 0.05136, 1.0, 60.0)), min_size=count, max_size=count)
    new_recipe = msgspec.structs.replace(recipe, after=after, think_time=draw(times))
    if not draw(st.booleans()):
        return dataclasses.replace(scenario, workload=Workload(new_recipe))
    # several applications end at one instant, in particular if they begin at one, on equal machines
    names, equal_speeds = {"task_size", "run_time"}, dict[str, Any]()
    if draw(st.booleans()):
        names |= {"release"}
        if "speeds" in scenario.platform.recipe.__struct_fields__:
            equal_speeds = {"speeds": (scenario.platform.speeds.max(),) * scenario.platform.nodes}
    equal = {name: (getattr(recipe, name)[0],) * count for name in names if hasattr(recipe, name)}
    new_recipe = msgspec.structs.replace(new_recipe, **equal)
    return _replace_recipes(dataclasses.replace(scenario, workload=Workload(new_recipe)), equal_speeds, {})


def without_dependencies(scenario: Scenario) -> Scenario:
    """Return the scenario in which all applications are released at their stated releases."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListedWorkload) or recipe.after is None:
        return scenario
    workload = Workload(msgspec.structs.replace(recipe, after=None, think_time=None))
    return dataclasses.replace(scenario, workload=workload)


@st.composite
def _rigid(draw: st.DrawFn, max_nodes: int, faults: bool, is_crowded: bool, pauses: bool) -> Scenario:
    # with contention, all jobs are submitted at one instant, at one of few nodes
    has_contention = draw(st.booleans())
    if has_contention:
        nodes = draw(st.integers(min(4, max_nodes), min(10, max_nodes)))
    else:
        # with fewer machines, most jobs would be too large for the suitable ones
        nodes = draw(st.integers(max(1, max_nodes // 2), max_nodes) | _machine_counts(max_nodes))
    count = draw(
        st.integers(1, 20) if is_crowded else st.integers(3, 6) if has_contention else st.integers(1, 6)
    )

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    seconds = st.sampled_from((1.0, 59.0, 60.0, 61.0, 600.0)) | st.floats(0.1, 1000.0)
    small, large = st.integers(1, max(1, nodes // 3)), st.integers(1, nodes)
    releases = st.sampled_from((0.0, 0.0, 1.0, 59.9, 60.0)) | st.floats(0.0, 1200.0 if is_crowded else 300.0)
    run_times = column(seconds)
    release = [0.0] * count if has_contention else draw(_releases(column(releases), run_times, pauses))
    any_machine = st.integers(0, nodes - 1)
    homes = [draw(any_machine)] * count if has_contention else column(any_machine)
    return Scenario(
        platform=Platform.equal(nodes),
        workload=Workload.jobs_of(
            origin=0.0,
            release=release,
            nodes=column(st.integers(1, max(1, nodes // 2)) if has_contention else small | large),
            run_time=run_times,
            requested=column(seconds) if draw(st.booleans()) else None,
            submitter=homes,
        ),
        network=draw(networks()),
        seed=draw(st.integers(0, 3)),
        faults=draw(fault_schedules(nodes, False, _release_and_end_times(release, run_times), homes))
        if faults
        else None,
    )


@st.composite
def _releases(draw: st.DrawFn, releases: list[float], run_times: list[float], pauses: bool) -> list[float]:
    """Move random `releases` to just after the end of the previous application, or to hours later.

    Parameters
    ----------
    run_times
        Duration of one task of each application (s).
    pauses
        Whether some may move to hours later.
    """
    new_releases, gaps = releases.copy(), st.none() | st.none() | st.sampled_from(_SHORT_GAPS)
    if draw(st.booleans()):
        drawn_gaps = draw(st.lists(gaps, min_size=len(new_releases), max_size=len(new_releases)))
        for i, gap in enumerate(drawn_gaps[1:]):
            new_releases[i + 1] = releases[i + 1] if gap is None else new_releases[i] + run_times[i] + gap
    if not pauses:
        return new_releases
    first = draw(
        st.sampled_from((len(new_releases), len(new_releases), len(new_releases), 0, len(new_releases) // 2))
    )
    return new_releases[:first] + [release + PAUSE for release in new_releases[first:]]


def _release_and_end_times(releases: list[float], run_times: list[float]) -> list[float]:
    """Return the releases of applications, and the ends of tasks that start at the releases (s)."""
    return [*releases, *(release + run_time for release, run_time in zip(releases, run_times, strict=True))]


def _machine_counts(max_machines: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in _MACHINE_COUNTS if n <= max_machines]) | st.integers(1, max_machines)


@st.composite
def _bags(
    draw: st.DrawFn,
    max_nodes: int,
    faults: bool,
    unequal: bool,
    is_crowded: bool,
    reachable: bool,
    pauses: bool,
) -> Scenario:
    nodes = draw(_machine_counts(max_nodes))
    speeds = st.sampled_from((1000.0, 1000.0, 2000.0, 2800.0))
    count = draw(st.integers(1, 20) if is_crowded else st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    # 0.05136 s is when an accept or request that is sent at 0 arrives in the usual network
    instants = st.sampled_from((0.0, 0.0, 1.0, 0.05136, 20.0, 300.0))
    sizes = st.sampled_from((100.0, 1000.0, 4000.0, 65536.0)) | st.floats(50.0, 1e5)
    machine_speeds = draw(st.lists(speeds, min_size=nodes, max_size=nodes))
    release = column(instants | st.floats(0.0, 1200.0 if is_crowded else 30.0, allow_subnormal=False))
    # numbers with any remainder, since shares are rounded
    tasks = column(st.integers(1, 4) | st.sampled_from((nodes, 3 * nodes)) | st.integers(1, 4 * nodes))
    homes = st.integers(0, nodes - 1)
    if is_crowded:
        first, home_count = draw(homes), draw(st.integers(1, 3))
        neighbours = sorted({(first + k) % nodes for k in range(home_count)})
        homes = st.sampled_from(draw(st.just(neighbours) | st.lists(homes, min_size=1, max_size=3)))
        large = st.sampled_from((3 * nodes, 10 * nodes, 400)) | st.integers(5, 400)
        tasks[draw(st.integers(0, count - 1))] = draw(large)
    size_lists: list[list[float]] = []
    if unequal and draw(st.booleans()):
        # a few sizes are repeated, so that large bags are easy to draw and to shrink, and more events
        # coincide
        size_lists = column(st.lists(sizes, min_size=1, max_size=6))
        mflop, home = [size_list[0] for size_list in size_lists], column(homes)
    else:
        mflop, home = column(sizes), column(homes)
    run_times = [size / machine_speeds[u] for size, u in zip(mflop, home, strict=True)]
    release = draw(_releases(release, run_times, pauses))
    if size_lists:
        task_sizes = [np.resize(size_list, count) for size_list, count in zip(size_lists, tasks, strict=True)]
        workload = Workload.of_tasks(release, task_sizes, home, origin=0.0)
    else:
        workload = Workload.of(release, tasks, mflop, home, origin=0.0)
    return Scenario(
        platform=Platform.of(machine_speeds),
        workload=workload,
        network=draw(networks()),
        seed=draw(st.integers(0, 3)),
        faults=draw(fault_schedules(nodes, reachable, _release_and_end_times(release, run_times), home))
        if faults
        else None,
    )
