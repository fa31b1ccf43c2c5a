"""The batch queue against a simulator that was written from its page, on machines that jobs share or not.

The comparison covers which tasks ran on which machine, when they started and ended, and what was lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.support.clock import NS
from tests.independent.shared_machines import Execution, Job, Outage, Room, Rules, Simulator

CASES = 1000
#: What happens -> its minimum number in all cases.
MINIMUM = {
    **{"compared": 900, "lost": 500, "over limit": 500, "predicted": 500, "too few machines": 100},
    **{"reserved": 5000, "reserved now": 300, "would delay": 1000, "several on a machine": 1000},
    **{"ends by the shadow time": 500, "leaves enough": 300, "elsewhere": 50, "backfilled": 100},
    **{"gave up": 400, "moved": 500, "corrected twice": 300},
}


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


class Draw:
    """Draws a case: up to 6 machines that jobs share, or 12 others, and 5 to 40 jobs with ties in time."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shared, self.queues = self.happens(0.6), int(self.rng.integers(1, 4))
        self.machines = int(self.rng.integers(1, 7)) * (1 if self.shared else 2)
        self.unit = NS * self.one(1, 60)  # with minutes, predictions grow several times

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def some(self, values: Any, count: int) -> list[Any]:
        return [values[k] for k in self.rng.integers(0, len(values), count)]

    def one(self, *values: Any) -> Any:
        return self.some(values, 1)[0]

    def case(self) -> Case:
        rooms = self.rooms()
        return Case(rooms, self.jobs(rooms), self.outages(), self.rules(), self.shared)

    def rooms(self) -> list[Room]:
        if not self.shared:
            return [Room(1, 0, 0)] * self.machines
        columns = [self.some(values, self.machines) for values in ([2, 4, 8], [8, 16, 24], [0, 1, 2])]
        rooms = [Room(*row) for row in zip(*columns, strict=True)]
        return rooms if self.happens(0.7) else rooms[:1] * self.machines

    def jobs(self, rooms: list[Room]) -> list[Job]:
        count = int(self.rng.integers(5, 41))
        unit = self.unit
        run = self.some([1, 2, 3, 5, 8, 20], count)
        factor = self.some([0.5, 1.0, 1.0, 2.0, 3.0] if self.happens(0.7) else [1.0], count)
        release = np.cumsum([0, *self.some([0, 0, 1, 1, 2, 3], count - 1)]).tolist()
        users = self.some(range(int(self.rng.integers(1, 4))), count)
        queues = [*range(self.queues), *self.some(range(self.queues), count)][:count]
        jobs = []
        for k in range(count):
            needs = [self.one(1, 1, 2, 3), self.one(0, 3, 8), self.one(0, 0, 0, 1), self.one(0, 1, 1, 2)]
            job = Job(
                *(
                    k,
                    release[k] * unit,
                    self.one(1, 2, 3, 5, 8),
                    run[k] * unit,
                    int(run[k] * factor[k] * unit),
                ),
                *(needs if self.shared else [1, 0, 0, 1]),
                exclusive=self.shared and self.happens(0.2),
                user=users[k],
                queue=queues[k],
            )
            if not any(room.tasks(job) for room in rooms):
                job.cores, job.memory, job.gpus = 1, 0, 0
            job.tasks = min(job.tasks, sum(room.tasks(job) for room in rooms))
            jobs.append(job)
        return jobs

    def outages(self) -> list[Outage]:
        outages = []
        for machine in range(self.machines - 1 if self.happens(0.4) else 0):
            up = -1
            for _ in range(self.rng.integers(0, 3)):
                down = up + int(self.rng.integers(1, 15))
                up = down + int(self.rng.integers(down == 0, 6))
                outages.append(Outage(machine, down * self.unit, up * self.unit))
        return outages

    def rules(self) -> Rules:
        backfill = self.one("none", "easy", "easy", "easy")
        if not self.shared and self.happens(0.4):
            backfill = "conservative"
        counts = not self.shared and backfill == "easy" and self.happens(0.7)
        has_limits = backfill != "conservative"
        partitions: tuple[int, ...] = ()
        if self.queues <= self.machines and self.happens(0.3):
            cuts = self.rng.choice(range(1, self.machines), self.queues - 1, replace=False)
            partitions = tuple(np.diff([0, *sorted(cuts), self.machines]).tolist())
        return Rules(
            backfill=backfill,
            order=self.one("fcfs", "lcfs", "sjf", "saf", "largest"),
            estimate=self.one("requested", "requested", "run", "predicted"),
            placement=self.one("first", "best", "spread") if self.shared else "first",
            kill=self.happens(0.3),
            counts=counts,
            depth=self.one(1, 1, 2, 3) if counts else 1,
            user_limit=self.one(4, 8, 12) if has_limits and self.happens(0.3) else None,
            queue_limits=tuple(self.some([0, 4, 8], self.queues)) if has_limits and self.happens(0.2) else (),
            partitions=partitions,
        )


def executions(result: gs.Result) -> list[Execution]:
    schedule = result.tables["schedule"]
    names = ("machine", "application", "tasks", "start", "end", "completed")
    rows = zip(*(schedule[name].tolist() for name in names), strict=True)
    return sorted((m, i, n, round(a * NS), round(b * NS), c > 0) for m, i, n, a, b, c in rows)


@pytest.mark.filterwarnings("ignore::gridsim.errors.SchedulerWarning")
def test_batch_queue_equals_an_independent_simulator() -> None:
    cases: Counter[str] = Counter()
    for seed in range(CASES):
        case = Draw(seed).case()
        try:
            result = case.run()
        except ScenarioError as error:
            assert "must allow some jobs" in str(error)
            continue
        simulator = case.simulate()
        # an execution that a failure interrupts as it starts has no row
        expected = sorted(row for row in simulator.executions if row[3] < row[4])
        assert executions(result) == expected, f"seed {seed}: {case.rules}"
        assert set(np.flatnonzero(result.applications["failed"])) == simulator.rejected, f"seed {seed}"
        cases += simulator.cases + Counter(compared=1)
    assert not {name: count for name, count in MINIMUM.items() if cases[name] < count}, cases
