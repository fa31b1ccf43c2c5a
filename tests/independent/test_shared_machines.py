"""The batch queue against a simulator that was written from its page, on machines that jobs share or not.

The comparison covers which tasks ran on which machine, when they started and ended, and what was lost.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import SchedulerWarning
from gridsim.support.clock import NS
from tests.independent.shared_machines import Execution, Job, Outage, Room, Rules, Simulator

CASES = 500


@dataclass(frozen=True)
class Case:
    machines: list[Room]
    jobs: list[Job]
    outages: list[Outage]
    rules: Rules
    shared: bool

    def run(self) -> gs.Result:
        jobs, machines = self.jobs, self.machines
        columns: dict[str, Any] = {name: [getattr(job, name) for job in jobs] for name in ("user", "queue")}
        resources: dict[str, Any] = {}
        if self.shared:
            for name in ("cores", "memory", "gpus", "tasks_per_machine"):
                columns[name] = [getattr(job, name) for job in jobs]
            columns["exclusive"] = [int(job.exclusive) for job in jobs]
            for name in ("cores", "memory", "gpus"):
                resources[name] = [getattr(machine, name) for machine in machines]
        workload = gs.Workload.jobs_of(
            [job.release / NS for job in jobs],
            [job.tasks for job in jobs],
            [job.run / NS for job in jobs],
            [job.requested / NS for job in jobs],
            **columns,
        )
        faults = None
        if self.outages:
            rows = [(each.machine, each.down / NS, each.up / NS) for each in self.outages]
            faults = gs.Faults.of(*zip(*rows, strict=True))
        rules = self.rules
        queue = gs.BatchQueue(
            backfill=rules.backfill,
            order=rules.order,
            estimate=rules.estimate,
            placement=rules.placement,
            reserve="machines" if rules.backfill == "easy" and not rules.counts else "counts",
            depth=rules.depth,
            kill="at-limit" if rules.kill else "never",
            user_limit=rules.user_limit,
            queue_limits=rules.queue_limits,
            partitions=rules.partitions,
        )
        scenario = gs.Scenario(gs.Platform.equal(len(machines), **resources), workload, faults=faults)
        return gs.simulate(scenario, queue, record="schedule")

    def simulate(self) -> Simulator:
        simulator = Simulator(self.machines, self.jobs, self.outages, self.rules)
        simulator.simulate()
        return simulator


def draw(seed: int) -> Case:
    """Draw up to 6 machines that jobs share, or 12, and 40 jobs, whose times have many ties."""
    rng = np.random.default_rng(seed)
    machines, count, shared = int(rng.integers(1, 7)), int(rng.integers(5, 41)), rng.random() < 0.6
    if not shared:
        machines *= 2

    def some(values: list[int], size: int = count) -> list[int]:
        return [int(value) for value in rng.choice(values, size)]

    def times(values: list[int]) -> list[int]:
        return [value * NS for value in some(values)]

    if shared:
        most = [some([2, 4, 8], machines), some([8, 16, 24], machines), some([0, 1, 2], machines)]
        if rng.random() < 0.3:
            most = [[row[0]] * machines for row in most]
        # without GPUs and with one core everywhere, machines would run one job
    else:
        most = [[1] * machines, [0] * machines, [0] * machines]
    rooms = [Room(*row) for row in zip(*most, strict=True)]
    limit = int(rng.choice([4, 8, 12]))
    queues = int(rng.integers(1, 4))
    partitions: tuple[int, ...] = ()
    if queues <= machines and rng.random() < 0.3:
        cuts = sorted(rng.choice(range(1, machines), queues - 1, replace=False).tolist())
        partitions = tuple(np.diff([0, *cuts, machines]).tolist())
    backfill: Any = str(rng.choice(["none", "easy", "easy", "easy"]))
    if not shared and rng.random() < 0.4:
        backfill = "conservative"
    counts = not shared and backfill == "easy" and bool(rng.random() < 0.7)
    rules = Rules(
        backfill=backfill,
        order=str(rng.choice(["fcfs", "lcfs", "sjf", "saf", "largest"])),  # type: ignore[arg-type]
        estimate=str(rng.choice(["requested", "requested", "run", "predicted"])),  # type: ignore[arg-type]
        placement=str(rng.choice(["first", "best", "spread"])) if shared else "first",  # type: ignore[arg-type]
        kill=bool(rng.random() < 0.3),
        counts=counts,
        depth=int(rng.choice([1, 1, 2, 3])) if counts else 1,
        user_limit=limit if rng.random() < 0.3 and backfill != "conservative" else None,
        queue_limits=tuple(some([0, 4, 8], queues))
        if rng.random() < 0.2 and backfill != "conservative"
        else (),
        partitions=partitions,
    )
    run = times([1, 2, 3, 5, 8, 20])
    factor = [1.0] if rng.random() < 0.3 else [0.5, 1.0, 1.0, 2.0, 3.0]
    requested = [int(a * b) for a, b in zip(run, rng.choice(factor, count), strict=True)]
    gaps = times([0, 0, 1, 1, 2, 3])
    release = np.cumsum([0, *gaps[1:]]).tolist()
    columns = [
        some([0, 3, 8]) if shared else [0] * count,
        some([0, 0, 0, 1]) if shared else [0] * count,
        some([0, 1, 1, 2]),
        [bool(k) for k in some([0, 0, 0, 0, 1])] if shared else [False] * count,
        some([0, 1, 2]),
        some(list(range(queues))),
    ]
    columns[5][:queues] = range(queues)  # each queue has jobs
    cores = some([1, 1, 2, 3]) if shared else [1] * count
    most_tasks = some([1, 2, 3, 6] if shared else [1, 2, 3, 5, 8])
    jobs = []
    for k, row in enumerate(zip(release, most_tasks, run, requested, cores, *columns, strict=True)):
        job = Job(k, *row)
        job.tasks = min(job.tasks, sum(room.tasks(job) for room in rooms))
        if not job.tasks:  # a machine with the GPUs or the memory is missing
            job = Job(k, *row[:1], 1, *row[2:4], 1, 0, 0, 1, job.exclusive, job.user, job.queue)
        jobs.append(job)
    outages = []
    if rng.random() < 0.4:
        for machine in range(machines - 1):
            down = 0
            for _ in range(rng.integers(0, 3)):
                down += int(rng.integers(0 if down == 0 else 1, 15))
                up = down + int(rng.integers(0, 6)) + (down == 0)
                outages.append(Outage(machine, down * NS, up * NS))
                down = up
    return Case(rooms, jobs, outages, rules, shared)


def executions(result: gs.Result) -> list[Execution]:
    schedule = result.tables["schedule"]
    names = ("machine", "application", "tasks", "start", "end", "completed")
    rows = zip(*(schedule[name].tolist() for name in names), strict=True)
    return sorted((m, i, n, round(a * NS), round(b * NS), c > 0) for m, i, n, a, b, c in rows)


def test_batch_queue_equals_an_independent_simulator() -> None:
    cases: Counter[str] = Counter()
    for seed in range(CASES):
        case = draw(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SchedulerWarning)
            try:
                result = case.run()
            except gs.errors.ScenarioError as error:  # no job of a queue could run
                cases["refused"] += 1
                print(seed, error)
                continue
        simulator = case.simulate()
        expected = sorted(row for row in simulator.executions if row[3] < row[4])
        try:
            assert executions(result) == expected
            assert set(np.flatnonzero(result.applications["failed"])) == simulator.rejected
        except AssertionError as error:
            error.add_note(f"seed {seed}: {case.rules}")
            raise
        cases += simulator.cases
    print(cases)
