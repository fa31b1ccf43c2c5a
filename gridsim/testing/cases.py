"""Hypothesis strategies for whole scenarios: failures, background load, small grids where events coincide."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from gridsim.model.applications import JobTime
from gridsim.model.attributes import ListedAttributes
from gridsim.model.background_load import Fluctuation
from gridsim.model.bag_workloads import ListRecipe
from gridsim.model.faults import Faults
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.rigid_workloads import JobListRecipe
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload

#: Numbers of machines that are special cases for a tree.
_MACHINES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)
#: Instants of failures, s: while the first requests descend or a summary travels, at a heartbeat, and others.
_INSTANTS = (0.0, 0.05, 0.05136, 0.1, 0.15408, 0.3, 1.0, 20.0, 60.0)
#: s from the release or end of an application to the failure of a machine.
_TO_FAILURE = (-1.0, -0.05, -1e-9, 0.0, 0.0, 0.0, 1e-9, 0.05)
#: s from the end of an application to the release of the next one, and from a failure to the next.
_SOON = (1e-9, 0.05, 0.3, 1.0)
#: s by which some applications are released later than others: more than two hours.
PAUSE = 7300.0


def networks() -> st.SearchStrategy[Network]:
    """Draw networks with or without queues; messages take no time, little, or longer than most tasks."""
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
    """Draw transient failures and outages of any machines at once; one machine has short outages at most.

    Parameters
    ----------
    reachable
        Whether owners come and go instead, see `Faults.of`.
    turns
        s, instants just before or after which machines fail, too.
    homes
        Machines at which applications are submitted; they fail more often.
    """
    instants = st.sampled_from(_INSTANTS) | st.floats(0.0, 400.0)
    if turns:
        close = st.tuples(st.sampled_from(turns), st.sampled_from(_TO_FAILURE))
        instants |= close.map(lambda each: max(0.0, sum(each)))
    safe, longest = draw(st.integers(0, machines - 1)), draw(st.sampled_from((0.0, 0.0, 0.0, 30.0)))
    some = st.sets(st.integers(0, machines - 1), min_size=1, max_size=3)
    if homes:
        some |= st.sampled_from(homes).map(lambda home: {home})
    rows: list[tuple[int, float, float]] = []
    at = 0.0
    for _ in range(draw(st.integers(1, 4))):
        soon = st.sampled_from(_SOON).map(at.__add__)  # before the one before is noticed
        at = draw(instants | soon if rows else instants)
        last = at + draw(st.sampled_from((0.0, 0.0, 0.2, 30.0, 700.0, inf)))
        struck = draw(st.just(range(machines)) | some)
        rows += [(u, at, min(last, at + longest) if u == safe else last) for u in sorted(struck)]
    kept: list[tuple[int, float, float]] = []
    for u, down, up in sorted(rows):
        if not any(u == v and down <= back + 2e-9 for v, _, back in kept):  # times are rounded to whole ns
            kept.append((u, down, up))
    which, begins, ends = zip(*kept, strict=True)
    return Faults.of(which, begins, ends, reachable)


@st.composite
def fluctuations(draw: st.DrawFn, machines: int) -> Fluctuation:
    """Draw background loads with few factors, which change often, or seldom compared with short tasks."""
    rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    factors = st.lists(st.sampled_from((1.0, 0.5, 0.25, 0.1)), min_size=steps, max_size=steps)

    def column(count: int) -> list[int]:
        return draw(st.lists(st.integers(0, count - 1), min_size=machines, max_size=machines))

    said = draw(st.booleans())
    return Fluctuation.of(
        draw(st.lists(factors, min_size=rows, max_size=rows)),
        draw(st.sampled_from((1.0, 7.5, 60.0))),
        column(rows) if said else None,
        column(steps) if said else None,
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
    crowded: bool = False,
    reachable: bool = False,
    job_times: tuple[JobTime, ...] = (),
    pauses: bool = False,
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
        are long, and some bags large.
    constraints
        Whether machines have attributes, and rigid jobs, or tasks of bags where machines do not fail, want
        certain ones in some of the scenarios.
    moves_data
        Whether tasks fetch and send data over links of machines in some of the scenarios.
    reachable
        Whether machines do not fail, but owners come and go.
    job_times
        The times that rigid jobs state in some of the scenarios.
    pauses
        Whether some applications come hours after the others, in some of the scenarios.
    """
    if rigid:
        plain = _rigid(max_nodes, faults, crowded, pauses)
    else:
        plain = _bags(max_nodes, faults, unequal, crowded, reachable, pauses)
    if rigid and constraints:
        plain = plain.flatmap(some_want_machines)
    if rigid and job_times:
        plain = plain.flatmap(lambda scenario: _some_state_times(scenario, job_times))
    if constraints and not (rigid or faults or reachable):
        plain = plain.flatmap(_some_need)
    if moves_data and not (rigid or faults or reachable):
        plain = plain.flatmap(_some_move_data)
    return plain.flatmap(_some_fluctuate) if fluctuating else plain


def large_bag() -> Scenario:
    """Return a scenario of two machines with a bag of more tasks than 16 bits can count, and a small one."""
    return Scenario(Platform.equal(2, 1000.0), Workload.of([0.0, 1.0], [70_000, 5], 1.0, [0, 1]))


@st.composite
def _some_move_data(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe) or draw(st.booleans()):
        return scenario
    nodes, count = scenario.platform.nodes, len(recipe.release)
    links = draw(st.lists(st.sampled_from((1e4, 1e5, 1e6)), min_size=nodes, max_size=nodes))
    amounts = st.lists(st.sampled_from((0.0, 1e4, 1e6)), min_size=count, max_size=count).map(tuple)
    moving = msgspec.structs.replace(
        recipe, input_bytes=draw(amounts), output_bytes=draw(st.none() | amounts)
    )
    return dataclasses.replace(scenario, platform=scenario.platform.linked(links), workload=Workload(moving))


@st.composite
def _some_need(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw machines of different memory and disk, of which one has the most, and tasks that need some."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe) or draw(st.booleans()):
        return scenario

    def column(values: tuple[float, ...], count: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    nodes, count = scenario.platform.nodes, len(recipe.release)
    rest = nodes - 1
    own = ListedAttributes(
        memory=(8e9, *column((1e9, 4e9, 8e9), rest)), disk=(1e12, *column((0.0, 1e12), rest))
    )
    needing = msgspec.structs.replace(
        recipe,
        memory=column((0.0, 2e9, 4e9, 8e9), count),
        disk=draw(st.none() | st.just(column((0.0, 1e11), count))),
    )
    platform = scenario.platform.with_attributes(own)
    return dataclasses.replace(scenario, platform=platform, workload=Workload(needing))


def without_needs(scenario: Scenario) -> Scenario:
    """Return the scenario without what tasks of bags need of machines."""
    recipe = scenario.workload.recipe
    if not isinstance(recipe, ListRecipe):
        return scenario
    plain = Workload(msgspec.structs.replace(recipe, memory=None, disk=None))
    return dataclasses.replace(scenario, platform=scenario.platform.with_attributes(None), workload=plain)


def _some_fluctuate(scenario: Scenario) -> st.SearchStrategy[Scenario]:
    paces = st.none() | fluctuations(scenario.platform.nodes)
    return paces.map(lambda pace: dataclasses.replace(scenario, fluctuation=pace))


@st.composite
def some_want_machines(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Draw machines with attributes, and perhaps jobs that want certain ones where there are enough."""
    nodes, jobs = scenario.platform.nodes, scenario.workload.realize(scenario.platform)

    def column(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    own = ListedAttributes(
        memory=column((1e9, 4e9), nodes),
        kinds=column(("a", "b"), nodes),
        x=column((0.0, 1.0, 5.0), nodes),
        y=column((0.0, 2.0), nodes),
        disk=column((0.0, 1e12), nodes),
    )
    if draw(st.booleans()):
        return dataclasses.replace(scenario, platform=Platform.equal(nodes, attributes=own))
    memory, kinds = list(column((0.0, 2e9), len(jobs))), list(column(("", "a", "b"), len(jobs)))
    disk = list(column((0.0, 0.0, 1e11), len(jobs)))
    attributes = own.realize(nodes)
    for i, tasks in enumerate(jobs.tasks.tolist()):
        if attributes.suit(memory[i], kinds[i], disk[i]).sum() < tasks:
            memory[i], kinds[i], disk[i] = 0.0, "", 0.0
    assert jobs.requested is not None
    run_time = jobs.task_size / float(scenario.platform.speeds[0])
    return dataclasses.replace(
        scenario,
        platform=Platform.equal(nodes, attributes=own),
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
def _some_state_times(draw: st.DrawFn, scenario: Scenario, names: tuple[JobTime, ...]) -> Scenario:
    """Draw times that jobs state, many of which are those of another event if the job starts at once."""
    recipe = scenario.workload.recipe
    stated = [name for name in names if draw(st.sampled_from((True, True, False)))]
    if not isinstance(recipe, JobListRecipe) or not stated:
        return scenario
    lasts = recipe.run_time if recipe.requested is None or draw(st.booleans()) else recipe.requested
    # parts of what a job takes, and s
    after: dict[JobTime, tuple[tuple[float, float], ...]] = {
        "not_before": ((0.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.0, 61.0), (0.0, 400.0)),
        "deadline": ((inf, 0.0), (1.0, 0.0), (1.0, 30.0), (1.0, 60.0), (1.0, 90.0), (5.0, 500.0)),
        "cancel_at": ((inf, 0.0), (inf, 0.0), (0.0, 1.0), (0.5, 0.0), (0.9, 60.0), (1.0, 0.0), (0.0, 400.0)),
    }
    if draw(st.booleans()):  # users are patient, so that jobs wait for long
        after |= {
            "deadline": ((inf, 0.0), (5.0, 500.0)),
            "cancel_at": ((inf, 0.0), (inf, 0.0), (1.0, 400.0), (0.0, 1000.0)),
        }

    def column(name: JobTime) -> tuple[float, ...]:
        each = draw(st.lists(st.sampled_from(after[name]), min_size=len(lasts), max_size=len(lasts)))
        rows = zip(recipe.release, lasts, each, strict=True)
        return tuple(release + part * last + seconds for release, last, (part, seconds) in rows)

    stating = msgspec.structs.replace(recipe, **{name: column(name) for name in stated})
    return dataclasses.replace(scenario, workload=Workload(stating))


@st.composite
def _rigid(draw: st.DrawFn, max_nodes: int, faults: bool, crowded: bool, pauses: bool) -> Scenario:
    together = draw(st.booleans())  # all at once at one of few nodes: its jobs compete for machines
    if together:
        nodes = draw(st.integers(min(4, max_nodes), min(10, max_nodes)))
    else:
        # with few machines most jobs would be too large for those that can be found
        nodes = draw(st.integers(max(1, max_nodes // 2), max_nodes) | _machines(max_nodes))
    count = draw(st.integers(1, 20) if crowded else st.integers(3, 6) if together else st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    seconds = st.sampled_from((1.0, 59.0, 60.0, 61.0, 600.0)) | st.floats(0.1, 1000.0)
    small, large = st.integers(1, max(1, nodes // 3)), st.integers(1, nodes)
    releases = st.sampled_from((0.0, 0.0, 1.0, 59.9, 60.0)) | st.floats(0.0, 1200.0 if crowded else 300.0)
    lasts = column(seconds)
    release = [0.0] * count if together else draw(_releases(column(releases), lasts, pauses))
    anywhere = st.integers(0, nodes - 1)
    homes = [draw(anywhere)] * count if together else column(anywhere)
    return Scenario(
        platform=Platform.equal(nodes),
        workload=Workload.jobs_of(
            origin=0.0,
            release=release,
            nodes=column(st.integers(1, max(1, nodes // 2)) if together else small | large),
            run_time=lasts,
            requested=column(seconds) if draw(st.booleans()) else None,
            submitter=homes,
        ),
        network=draw(networks()),
        seed=draw(st.integers(0, 3)),
        faults=draw(fault_schedules(nodes, False, _turns(release, lasts), homes)) if faults else None,
    )


@st.composite
def _releases(draw: st.DrawFn, releases: list[float], lasts: list[float], pauses: bool) -> list[float]:
    """Draw which of `releases` are just after the end of the one before instead, and which after hours.

    Parameters
    ----------
    lasts
        s that one task of each application takes.
    pauses
        Whether some may come after hours.
    """
    made, gaps = releases.copy(), st.none() | st.none() | st.sampled_from(_SOON)
    if draw(st.booleans()):
        each = draw(st.lists(gaps, min_size=len(made), max_size=len(made)))
        for i, gap in enumerate(each[1:]):
            made[i + 1] = releases[i + 1] if gap is None else made[i] + lasts[i] + gap
    if not pauses:
        return made
    first = draw(st.sampled_from((len(made), len(made), len(made), 0, len(made) // 2)))
    return made[:first] + [each + PAUSE for each in made[first:]]


def _turns(releases: list[float], lasts: list[float]) -> list[float]:
    """Return when each application is released, and when a task of it ends that starts then, s."""
    return [*releases, *(release + last for release, last in zip(releases, lasts, strict=True))]


def _machines(most: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in _MACHINES if n <= most]) | st.integers(1, most)


@st.composite
def _bags(
    draw: st.DrawFn,
    max_nodes: int,
    faults: bool,
    unequal: bool,
    crowded: bool,
    reachable: bool,
    pauses: bool,
) -> Scenario:
    nodes = draw(_machines(max_nodes))
    speeds = st.sampled_from((1000.0, 1000.0, 2000.0, 2800.0))
    count = draw(st.integers(1, 20) if crowded else st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    # an accept or a request, sent at 0, arrives after 0.05136 s with the usual network
    instants = st.sampled_from((0.0, 0.0, 1.0, 0.05136, 20.0, 300.0))
    sizes = st.sampled_from((100.0, 1000.0, 4000.0, 65536.0)) | st.floats(50.0, 1e5)
    fast = draw(st.lists(speeds, min_size=nodes, max_size=nodes))
    release = column(instants | st.floats(0.0, 1200.0 if crowded else 30.0, allow_subnormal=False))
    tasks = column(st.integers(1, 4) | st.sampled_from((nodes, 3 * nodes)))
    homes = st.integers(0, nodes - 1)
    if crowded:
        first, some = draw(homes), draw(st.integers(1, 3))
        side_by_side = sorted({(first + k) % nodes for k in range(some)})
        homes = st.sampled_from(draw(st.just(side_by_side) | st.lists(homes, min_size=1, max_size=3)))
        tasks[draw(st.integers(0, count - 1))] = draw(st.sampled_from((3 * nodes, 10 * nodes, 400)))
    few: list[list[float]] = []
    if unequal and draw(st.booleans()):
        # few sizes that repeat: large bags stay easy to draw and to shrink, and more events coincide
        few = column(st.lists(sizes, min_size=1, max_size=6))
        mflop, home = [some[0] for some in few], column(homes)
    else:
        mflop, home = column(sizes), column(homes)
    lasts = [size / fast[u] for size, u in zip(mflop, home, strict=True)]
    release = draw(_releases(release, lasts, pauses))
    if few:
        each = [np.resize(some, count) for some, count in zip(few, tasks, strict=True)]
        workload = Workload.of_tasks(release, each, home, origin=0.0)
    else:
        workload = Workload.of(release, tasks, mflop, home, origin=0.0)
    return Scenario(
        platform=Platform.of(fast),
        workload=workload,
        network=draw(networks()),
        seed=draw(st.integers(0, 3)),
        faults=draw(fault_schedules(nodes, reachable, _turns(release, lasts), home)) if faults else None,
    )
