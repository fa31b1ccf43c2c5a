"""simulate(): one scenario under one scheduler, from the first release to a checked Result."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim import provenance
from gridsim.engine import NEVER, NS, TIMER, Engine, nanoseconds
from gridsim.errors import InvariantViolation, ScenarioError, SchedulerError
from gridsim.metrics import utilization
from gridsim.model import Applications
from gridsim.outages import Outages
from gridsim.platform import Platform, real, whole
from gridsim.records import Table, check_name, plain
from gridsim.results import CORE_TABLES, RECORDS, Result
from gridsim.scenario import Scenario
from gridsim.scheduler import ARRIVALS, SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.streams import Streams
from gridsim.transport import Transport

Progress = bool | Literal["force"]

#: The clock counts int64 nanoseconds; a run must have time for many messages.
LONGEST_LATENCY = 1.0e6

_APPLICATION_COLUMNS = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
_MACHINE_COLUMNS = ("busy", "tasks", "peak_queue")
# What the tables of a result hold besides; a scheduler's own columns have other names.
_APPLICATION_NAMES = ("release", "tasks", "task_size", "size", "submitter", "stretch", "stretch_agg")
_MACHINE_NAMES = (
    "speed", "bytes_out", "bytes_in", "use_mean", "use_peak_1s", "use_peak_10s", "utilization", "failures",
    "data_in",
)  # fmt: skip


def simulate(
    scenario: Scenario,
    scheduler: Scheduler,
    *,
    progress: Progress = False,
    cohort_limit: int | None = None,
    threads: int = 1,
    time_limit: float | None = None,
    record: bool = False,
) -> Result:
    """Run `scenario` under `scheduler`.

    progress : a bar on stderr, if that is a terminal ("force": in any case); it changes nothing else.
    cohort_limit : the most rows a handler gets in one call; the result does not depend on it.
    threads : how many the kernels may use where many machines act at one instant, as with equal delays; the
        result does not depend on it.
    time_limit : s of the run's clock after which it is given up.  Only failures can make a run endless, where
        machines do not stay up for as long as a task takes; without failures the clock may end when the last
        task has been placed, long before it is completed.
    record : add the tables ``schedule`` and ``arrivals``, what ran where and when; the digest does not depend
        on it.

    Raises ScenarioError for a workload that does not fit the platform or a run that meets the time limit,
    SchedulerError when the scheduler breaks its contract, InvariantViolation when a law of the simulation
    does not hold afterwards.
    """
    if time_limit is not None:
        time_limit = real("time_limit", time_limit, above=0, unit="s")
    if not isinstance(scheduler, Scheduler):
        raise ScenarioError(f"scheduler must be a Scheduler object, got {scheduler!r}")
    started = time.perf_counter()
    platform = scenario.platform
    applications = scenario.workload.realize(platform)
    _check_size(applications, platform, scenario.network.latency)

    engine = Engine(cohort_limit=cohort_limit)
    network = Transport(engine, scenario.network, platform.nodes, seed=scenario.seed)
    outages = Outages(scenario.faults, platform.nodes, engine, network)
    released = _Releases()
    engine.on("release", released.release, priority=0, phase=TIMER)
    run = Run(
        engine=engine,
        network=network,
        speeds=platform.speeds,
        applications=applications,
        streams=Streams(scenario.seed),
        up=outages.up,
        faults=scenario.faults is not None,
        record=record,
        threads=whole("threads", threads, low=1, high=1024),
    )
    policy = scheduler.start(run)
    if not isinstance(policy, Policy):
        raise SchedulerError(f"t = 0.0 s: start() must return a Policy, got {type(policy).__name__}")
    released.submit = policy.on_release
    network.watch(int(applications.release_ns[0]), int(applications.release_ns[-1]))
    if scenario.faults is not None:
        outages.begin(policy)
    for index, at in enumerate(applications.release_ns.tolist()):
        engine.at(at, "release", index)
    with _bar(progress, scheduler.name, len(applications), engine, released):
        limit = math.inf if time_limit is None else time_limit
        stopped = engine.run(nanoseconds(limit) if limit * NS < NEVER else NEVER)
    if not stopped and time_limit is not None and not engine.exhausted():
        raise ScenarioError(
            f"time_limit must let the run end, got {time_limit} s: {scheduler.name} still had something to "
            f"do, after {int(outages.failures.sum())} failures"
        )
    outcome = policy.finish()
    ledger, interfaces = network.ledger(), network.interfaces()

    if outages.over_at is not None and (left := _unfinished(outcome, applications)):
        raise ScenarioError(
            f"faults must leave a machine up until all is done; at {outages.over_at / NS:g} s the last one "
            f"goes for good, with {left} tasks left"
        )
    tables = _check_contract(outcome, len(applications), platform.nodes, engine.now)
    if record:
        tables |= _records(outcome, engine.now)
    _check_laws(outcome, applications, platform, outages)
    return Result(
        tables={
            "applications": _applications(outcome, applications, platform),
            "machines": _machines(
                outcome,
                applications,
                platform,
                interfaces | network.use(),
                outages,
                scenario.network.task_data,
            ),
            "messages": Table(ledger),
            **tables,
        },
        facts=outcome.facts,
        scheduler=describe(scheduler),
        provenance={
            **provenance.describe(seed=scenario.seed, files=scenario.files),
            "scenario": scenario.to_toml(),
            "clock_seconds": engine.now / NS,
            "events": engine.events,
            "handler_calls": engine.calls,
            "cohort_limit": cohort_limit,
            "threads": threads,
            "wall_seconds": time.perf_counter() - started,
            "peak_memory": provenance.peak_memory(),
        },
        scenario=scenario,
    )


def _unfinished(outcome: Outcome, applications: Applications) -> int:
    return int((applications.tasks - outcome.applications["completed"]).sum())


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """Name, class and parameters of a scheduler as plain values."""
    kind = type(scheduler)
    parameters = msgspec.to_builtins(scheduler, enc_hook=repr)
    return {"name": kind.name, "class": f"{kind.__module__}:{kind.__qualname__}", "parameters": parameters}


class _Releases:
    """The handler of releases: hands them to the policy, and counts them for the progress bar."""

    def __init__(self) -> None:
        self.count = 0
        self.submit: Callable[[list[int]], None]

    def release(self, applications: list[int]) -> None:
        self.count += len(applications)
        self.submit(applications)


# -- progress -------------------------------------------------------------------------------------------


def _bar(progress: Progress, name: str, total: int, engine: Engine, released: _Releases) -> Any:
    """A bar that looks at the engine after its waves; the run does not know of it."""
    if not progress or (progress != "force" and not sys.stderr.isatty()):
        return nullcontext()
    from tqdm import tqdm  # type: ignore[import-untyped]

    bar: Any = tqdm(total=total, desc=name, unit=" applications", file=sys.stderr, dynamic_ncols=True)
    last = 0.0

    def look() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.1 or released.count == total > bar.n:
            last = now
            bar.set_postfix_str(f"t = {engine.now / NS:.0f} s, {engine.events} events", refresh=False)
            bar.update(released.count - bar.n)
            bar.refresh()

    engine.at_wave_end(look)
    return bar


# -- checks ---------------------------------------------------------------------------------------------


def _check_size(applications: Applications, platform: Platform, latency: float) -> None:
    """The clock holds the run, and counts every task."""
    if latency > LONGEST_LATENCY:
        raise ScenarioError(f"network.latency must be at most {LONGEST_LATENCY:g} s, got {latency!r}")
    with np.errstate(over="ignore"):
        shortest = applications.task_size / platform.speeds.max() * NS
        longest = float(applications.task_size.max() / platform.speeds.min())
    for i in np.flatnonzero(shortest < 1)[:1]:
        raise ScenarioError(
            f"workload.task_size of application {i} must take at least 1 ns on the fastest machine, "
            f"got {applications.task_size[i]:g} Mflop"
        )
    for i in np.flatnonzero(applications.tasks >= 2**31)[:1]:  # a machine counts its share in 32 bits
        raise ScenarioError(
            f"workload.tasks of application {i} must be at most {2**31 - 1}, got {applications.tasks[i]}"
        )
    if (tasks := math.fsum(applications.tasks.tolist())) > 2**53:
        raise ScenarioError(f"workload.tasks must be at most 2**53 in all, got {tasks:g}")
    work = math.fsum(applications.size.tolist())
    end = float(applications.release[-1]) + work / platform.aggregate_speed
    if max(end, longest) * NS > NEVER / 4:
        raise ScenarioError(
            f"workload.task_size must let the run end within {NEVER / 4 / NS:.3g} s, "
            f"this one needs at least {max(end, longest):.3g} s"
        )


def _check_contract(outcome: Outcome, applications: int, machines: int, now: int) -> dict[str, Table]:
    """The further tables of an outcome that is what it should be."""
    when = f"t = {now / NS} s:"
    if not isinstance(outcome, Outcome):
        raise SchedulerError(f"{when} finish() must return an Outcome, got {type(outcome).__name__}")
    for what, columns, wanted, taken, rows in (
        ("applications", outcome.applications, _APPLICATION_COLUMNS, _APPLICATION_NAMES, applications),
        ("machines", outcome.machines, _MACHINE_COLUMNS, _MACHINE_NAMES, machines),
    ):
        for name in wanted:
            if name not in columns:
                raise SchedulerError(f"{when} outcome.{what} has no column {name!r}")
        for name, column in columns.items():
            if name in taken:
                raise SchedulerError(f"{when} outcome.{what} has {name!r}, which every result has already")
            if np.shape(column) != (rows,) or np.asarray(column).dtype.kind not in "biu":
                raise SchedulerError(f"{when} outcome.{what}[{name!r}] must be {rows} whole numbers")
    tables = {}
    for name, columns in outcome.tables.items():
        if name in CORE_TABLES + RECORDS:
            raise SchedulerError(f"{when} outcome.tables has {name!r}, which every result has already")
        try:
            tables[check_name(name)] = Table(columns)
        except ValueError as error:
            raise SchedulerError(f"{when} outcome.tables[{name!r}]: {error}") from error
    try:
        plain(outcome.facts)
    except TypeError as error:
        raise SchedulerError(f"{when} outcome.facts: {error}") from error
    return tables


def _records(outcome: Outcome, now: int) -> dict[str, Table]:
    """The tables of what was recorded."""
    tables = {}
    for name, wanted, given in (
        ("schedule", SCHEDULE, outcome.schedule),
        ("arrivals", ARRIVALS, outcome.arrivals or {column: np.zeros(0, np.int64) for column in ARRIVALS}),
    ):
        shapes = {np.shape(given.get(column, 0)) for column in wanted}
        if len(shapes) > 1 or len(shapes.pop()) != 1:
            raise SchedulerError(
                f"t = {now / NS} s: a run that is recorded needs outcome.{name} with equally long columns "
                f"{', '.join(wanted)}"
            )
        times = ("start", "end", "time")
        tables[name] = Table({c: given[c] / NS if c in times else given[c] for c in wanted})
    return tables


def _check_laws(outcome: Outcome, applications: Applications, platform: Platform, outages: Outages) -> None:
    """No task lost or done twice, nothing before its time, and no machine busier than its tasks make it."""
    first, finish = outcome.applications["first_start"], outcome.applications["finish"]
    completed, tasks = outcome.applications["completed"], applications.tasks
    for i in np.flatnonzero(completed != tasks)[:1]:
        raise InvariantViolation(
            f"application {i}: {completed[i]} of its {tasks[i]} tasks were completed, each must be, once"
        )
    for i in np.flatnonzero(first < applications.release_ns)[:1]:
        raise InvariantViolation(
            f"application {i}: started at {first[i]} ns, before its release, {applications.release_ns[i]} ns"
        )
    for i in np.flatnonzero(finish < first)[:1]:
        raise InvariantViolation(
            f"application {i}: finished at {finish[i]} ns, before its start at {first[i]} ns"
        )
    done = outcome.machines["tasks"]
    if int(done.sum()) != int(tasks.sum()):
        raise InvariantViolation(
            f"machines: completed {int(done.sum())} tasks, the applications have {int(tasks.sum())}"
        )
    busy, span = outcome.machines["busy"], int(finish.max() - applications.release_ns.min())
    for u in np.flatnonzero((busy < 0) | (busy > span))[:1]:
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns of {span} ns")
    end = int(max(finish.max(), outages.now))
    up_time = end - outages.down_time(end)
    for u in np.flatnonzero(busy > up_time)[:1]:
        raise InvariantViolation(f"machine {u}: busy for {busy[u]} ns, but up for {up_time[u]} ns only")
    worked = math.fsum((busy * (platform.speeds / NS)).tolist())
    work = math.fsum(applications.size.tolist())
    # each task's duration is rounded to whole ns; products and sums are rounded besides
    slack = float(done @ (platform.speeds / NS)) + 1e-9 * work
    if worked < work - slack or (worked > work + slack and not outcome.applications["resubmitted"].any()):
        raise InvariantViolation(
            f"machines: their busy time is worth {worked!r} Mflop, the applications have {work!r} Mflop"
        )


# -- tables ---------------------------------------------------------------------------------------------


def _applications(outcome: Outcome, applications: Applications, platform: Platform) -> Table:
    given = outcome.applications
    stretch = (given["finish"] - applications.release_ns) / NS / applications.size
    further = {name: column for name, column in given.items() if name not in _APPLICATION_COLUMNS}
    return Table(
        {
            "release": applications.release,
            "first_start": given["first_start"] / NS,
            "finish": given["finish"] / NS,
            "tasks": applications.tasks,
            "task_size": applications.task_size,
            "size": applications.size,
            "submitter": applications.submitter,
            "stretch": stretch,
            "stretch_agg": stretch * platform.aggregate_speed,
            "resubmitted": given["resubmitted"],
            "nodes_used": given["nodes_used"],
            **further,
        }
    )


def _machines(
    outcome: Outcome,
    applications: Applications,
    platform: Platform,
    interfaces: Mapping[str, NDArray[Any]],
    outages: Outages,
    task_data: float,
) -> Table:
    given = outcome.machines
    span = int(outcome.applications["finish"].max() - applications.release_ns.min()) / NS
    busy = given["busy"] / NS
    further: dict[str, NDArray[Any]] = {
        name: column for name, column in given.items() if name not in _MACHINE_COLUMNS
    }
    if task_data > 0:
        further["data_in"] = task_data * (given["tasks"] + given.get("interrupted", 0))
    return Table(
        {
            "speed": platform.speeds,
            "busy": busy,
            "tasks": given["tasks"],
            "peak_queue": given["peak_queue"],
            **interfaces,
            "utilization": utilization(busy, span),
            "failures": outages.failures,
            **further,
        }
    )
