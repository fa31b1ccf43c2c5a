"""Work for threads: calls of every kernel on read-only arrays that all threads share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gridcore
import gridsim as gs
from gridcore import (
    CoreQueues,
    DataQueues,
    JobQueue,
    ManualQueue,
    PullQueue,
    ReleaseQueue,
    SharedQueue,
    SlotSchedules,
    StepProfile,
    SummaryGrid,
    TaskQueues,
    Views,
    WorkQueue,
)
from gridcore.common.state import NEVER
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation

CHANCE = np.random.default_rng(1)
SECOND = 10**9


def as_read_only(values: Any) -> Any:
    values.flags.writeable = False
    return values


GRID = SummaryGrid.geometric((1e-3, 1.0, 12), (1e3, 1e6, 8), (10.0, 1e4, 8))
CELLS = as_read_only(CHANCE.integers(0, 9, (500, *GRID.shape)).astype(np.uint32))
N = 4000
RELEASE = as_read_only(np.sort(CHANCE.uniform(0.0, 100.0, N)))
SIZE = as_read_only(CHANCE.uniform(1e3, 1e5, N))
WORK = as_read_only(CHANCE.integers(1, 9, N) * 50.0)
TASK_SIZE = as_read_only(np.full(N, 50.0))
OFFSETS = as_read_only(np.arange(0, N + 1, 20))
NODES = len(OFFSETS) - 1
SPEED = as_read_only(CHANCE.uniform(1.0, 9.0, NODES))
FREE_AT = as_read_only(np.full(NODES, 120.0))
FREE = as_read_only(CHANCE.integers(0, 50 * SECOND, NODES))
ETC = as_read_only(CHANCE.uniform(1.0, 99.0, (40, 60)))
COUNTS = as_read_only(CHANCE.integers(1, 30, 40))
ONE = {"speed": 2.0, "free_at": 120.0}
MANY = {"speed": SPEED, "free_at": FREE_AT}


# -- the classes ------------------------------------------------------------------------------------------


def backfill(jobs: int = 600) -> JobQueue:
    rng = np.random.default_rng(2)
    nodes, run = rng.integers(1, 90, jobs), rng.integers(1, 50, jobs) * SECOND
    queue = JobQueue(100, nodes, run, run * 2, log=True)
    queue.submit(np.arange(jobs), np.arange(jobs) * SECOND)
    return queue


def shared_queue(jobs: int = 300) -> SharedQueue:
    rng = np.random.default_rng(2)
    tasks, run = rng.integers(1, 90, jobs), rng.integers(1, 50, jobs) * SECOND
    queue = SharedQueue(np.full(50, 8), tasks, run, run * 2, task_cores=rng.integers(1, 4, jobs), log=True)
    queue.submit(np.arange(jobs), np.arange(jobs) * SECOND)
    return queue


def releases(applications: int = 600) -> ReleaseQueue:
    """Return releases in chains of two, half of which have ended."""
    second = np.arange(applications // 2)
    offsets = np.concatenate((np.zeros(applications - len(second), np.int64), np.arange(len(second) + 1)))
    queue = ReleaseQueue(np.arange(applications), second, offsets, np.full(applications, SECOND))
    queue.end(queue.take(applications // 4), applications)
    return queue


def manual_queue(jobs: int = 200) -> ManualQueue:
    """Return a queue whose jobs are started in order of release."""
    chance = np.random.default_rng(2)
    nodes, run = chance.integers(1, 90, jobs), chance.integers(1, 50, jobs) * SECOND
    queue = ManualQueue(100, nodes, run, run * 2, log=True)
    queue.submit(np.arange(jobs), np.arange(jobs) * SECOND)
    return queue


def start_in_order(queue: ManualQueue, until: int) -> int:
    """Start each job when it fits, up to an instant, and return the number of jobs that have ended."""
    while queue.advance(until) is not None:
        for job in queue.waiting_jobs().tolist():
            try:
                queue.start_job(job)
            except ValueError:
                break
    return queue.ended


def profile() -> StepProfile:
    steps = StepProfile(0, 100)
    for at in range(40):
        steps.reserve(1 + at % 7, 50, at)
    return steps


def work_queue(tasks: int = 3000) -> WorkQueue:
    rng = np.random.default_rng(3)
    queue = WorkQueue(
        rng.uniform(1.0, 9.0, 50), [tasks], rng.uniform(1.0, 99.0, tasks), np.full(50, NEVER - 1),
        order="great", choice="all", max_replicas=3, log=True,
    )  # fmt: skip
    queue.submit(0, rng.permutation(tasks))
    return queue


def task_queues(machines: int = 300) -> TaskQueues:
    rng = np.random.default_rng(4)
    queues = TaskQueues(rng.uniform(1.0, 9.0, machines), log=True, record=True)
    queues.add_applications(RELEASE[:40], SIZE[:40], TASK_SIZE[:40])
    every = np.repeat(np.arange(machines), 12)
    queues.enqueue(every, rng.integers(0, 40, len(every)), rng.integers(1, 99, len(every)), 0)
    return queues


def core_queues(machines: int = 300) -> CoreQueues:
    rng = np.random.default_rng(8)
    cores = rng.integers(1, 9, machines)
    memory = rng.integers(4, 30, machines)
    queues = CoreQueues(rng.uniform(1.0, 9.0, machines), cores=cores, memory=memory, log=True, record=True)
    queues.add_applications(RELEASE[:40], SIZE[:40], TASK_SIZE[:40], memory=rng.integers(0, 5, 40))
    every = np.repeat(np.arange(machines), 12)
    queues.enqueue(every, rng.integers(0, 40, len(every)), rng.integers(1, 99, len(every)), 0)
    return queues


def data_queues(machines: int = 300) -> DataQueues:
    rng = np.random.default_rng(7)
    queues = DataQueues(
        rng.uniform(1.0, 9.0, machines),
        bandwidth=rng.uniform(1.0, 9.0, machines),
        log=True,
        record=True,
    )
    data = {"input_bytes": rng.uniform(0.0, 90.0, 40), "output_bytes": rng.uniform(0.0, 9.0, 40)}
    queues.add_applications(RELEASE[:40], SIZE[:40], TASK_SIZE[:40], **data)
    every = np.repeat(np.arange(machines), 12)
    queues.enqueue(every, rng.integers(0, 40, len(every)), rng.integers(1, 99, len(every)), 0)
    return queues


def schedules(nodes: int = 300) -> tuple[SlotSchedules, Views]:
    rng = np.random.default_rng(5)
    slots, views = SlotSchedules(nodes, stale=True), Views(nodes, 12, seed=6)
    owners = rng.integers(0, nodes, 20 * nodes)
    slots.reserve(owners, rng.integers(0, 4000, len(owners)), rng.integers(1, 30, len(owners)), owners, 0)
    return slots, views


def pull(machines: int = NODES, tasks: int = 20) -> tuple[PullQueue, tuple[Any, ...]]:
    return PullQueue(SPEED[:machines], 40, log=True), (
        NEVER,
        np.arange(40),
        np.full(40, tasks),
        TASK_SIZE[:40],
    )


def rigid() -> gs.Scenario:
    jobs = gs.Workload.jobs_of(
        [0.0, 0.0, 3.5, 12.0, 12.0, 70.0], [9, 12, 14, 30, 4, 17], [45.0, 33.0, 20.0, 12.0, 31.0, 25.0]
    )
    return gs.Scenario(gs.Platform.equal(37), jobs, gs.Network(), seed=3)


def bags(nodes: int = 20) -> gs.Scenario:
    workload = gs.Workload.bags(5, interarrival=8.0, tasks_per_node=4.0, task_size=[4000.0, 9000.0], seed=2)
    return gs.Scenario(gs.Platform.desktop_grid(nodes=nodes, seed=1), workload, gs.Network(), seed=3)


def streams() -> gs.Scenario:
    jobs = gs.Workload.job_streams(300.0, 15.0, 20.0, 20_000.0, seed=2)
    return gs.Scenario(gs.Platform.normal(37, seed=1), jobs, gs.Network(), seed=3)


RUNS: dict[str, Callable[[], str]] = {
    "FairTree": lambda: gs.simulate(bags(), gs.FairTree(samples=(4, 3, 3), update_on="change")).digest,
    "DgsAsap": lambda: gs.simulate(rigid(), gs.DgsAsap(degree=8, slot=10.0)).digest,
    "Search": lambda: gs.simulate(bags(), gs.ExpandingRing()).digest,
    "Rjss": lambda: gs.simulate(streams(), gs.Rjss(k=0.3, pick="best", probe_latency="network")).digest,
}


def policy(scenario: gs.Scenario, scheduler: gs.Scheduler) -> Any:
    return Simulation(scenario, scheduler, Options()).policy


def objects() -> dict[str, Any]:
    """Return a non-empty object of every class, and the objects that it uses as ``class: part``."""
    tree = policy(bags(), gs.FairTree(samples=(4, 3, 3)))
    walks = Simulation(streams(), gs.Rjss(k=0.3), Options())
    nodes = policy(bags(), gs.ExpandingRing())
    return {
        "JobQueue": backfill(), "SharedQueue": shared_queue(), "ManualQueue": manual_queue(),
        "StepProfile": profile(), "ReleaseQueue": releases(),
        "WorkQueue": work_queue(), "PullQueue": pull()[0],
        "DataQueues": data_queues(20), "CoreQueues": core_queues(20),
        "TaskQueues": tree.queues, "SummaryTree": tree.tree, "Links": walks.network.links,
        "FairTreeNodes": tree.compiled, "FairTreeNodes: tree": tree.tree,
        "SlotSchedules": schedules()[0], "Views": schedules()[1],
        "NodeCore": nodes.core,
        "JobWalks": walks.policy.walks, "JobWalks: links": walks.network.links,
    }  # fmt: skip


# -- the calls --------------------------------------------------------------------------------------------


def run_queue(queue: JobQueue | SharedQueue) -> Any:
    return queue.run(NEVER - 1), queue.starts(), queue.totals()


def run_work_queue() -> Any:
    queue = work_queue()
    return queue.run(NEVER), queue.totals(), queue.copies()


def run_ends() -> Any:
    ends, free = gridcore.EarliestEnds(np.linspace(1.0, 3.0, 50)), np.zeros(50, np.int64)
    ends.restart(free, np.ones(50, np.bool_), 0)
    return [ends.bind(free, 1.0 + k % 7, 3, 10**8 * k) for k in range(200)], free


def run_pull() -> Any:
    queue, options = pull()
    return queue.run(*options), options[2], queue.starts()


def run_queues() -> Any:
    queues, every = task_queues(), np.arange(300)
    queues.reschedule(every, 0)
    cells = queues.summaries(every, GRID, 5 * SECOND, threads=2)
    minimum = queues.minimum_stretch(every, 6 * SECOND)
    capacity = queues.available(0.5, 6.0, 1e4, 50.0, 7 * SECOND)
    return cells, minimum, capacity, queues.advance(900 * SECOND), queues.schedule(), queues.next_change()


def run_core_queues() -> Any:
    queues, every = core_queues(), np.arange(300)
    queues.reschedule(every, 0)
    cells = queues.summaries(every, GRID, 5 * SECOND, threads=2)
    minimum = queues.minimum_stretch(every, 6 * SECOND)
    return cells, minimum, queues.advance(900 * SECOND), queues.schedule(), queues.next_change()


def run_data_queues() -> Any:
    queues, every = data_queues(), np.arange(300)
    queues.reschedule(every, 0)
    cells = queues.summaries(every, GRID, 5 * SECOND, threads=2)
    minimum, capacity = (
        queues.minimum_stretch(every, 6 * SECOND),
        queues.capacity_of(0.5, 3, 7 * SECOND, every),
    )
    return cells, minimum, capacity, queues.advance(900 * SECOND), queues.schedule(), queues.next_change()


def run_schedules() -> Any:
    slots, views = schedules()
    actual = slots.search(views.views, np.arange(40), 9, 30, 100, hops=3, wide=True)
    earliest = slots.earliest_start(np.arange(300), 90, 40, 7)
    slots.forget(50, 0)
    return actual, earliest, slots.is_free(np.arange(300), 60, 20)


def run_views() -> Any:
    views = Views(300, 12, seed=7)
    completed = [views.cycle() for _ in range(20)]
    return completed, views.pick(np.arange(300), np.arange(300), np.arange(300), 3), views.views.copy()


def aggregate_into() -> Any:
    out = np.empty(GRID.shape, np.uint32)
    return gridcore.aggregate_into(out, CELLS)


def lookup() -> int:
    return gridcore.lookup(CELLS[0], GRID, 0.1, 1e4, 50.0, release=1.0, cell_release=2.0)


def debit() -> Any:
    half = slice(0, 60)
    return gridcore.debit(
        CELLS[0],
        GRID,
        tasks=COUNTS,
        task_size=TASK_SIZE[:40],
        size=SIZE[:40],
        stretch=RELEASE[half][:40],
        leaves=9,
    )


CALLS: dict[str, Callable[[], Any]] = {
    "SummaryGrid": lambda: SummaryGrid(GRID.stretch, GRID.size, GRID.task_size).size,
    "aggregate": lambda: gridcore.aggregate(CELLS),
    "aggregate_into": aggregate_into,
    "lookup": lookup,
    "lowest_stretch": lambda: gridcore.lowest_stretch(OFFSETS, 900),
    "split": lambda: gridcore.split(COUNTS, 200),
    "debit_drop": lambda: gridcore.debit_drop(COUNTS, TASK_SIZE[:40], 20.0, 4),
    "debit": debit,
    "available_tasks": lambda: gridcore.available_tasks(2.0, 99.0, 1e4, 50.0, RELEASE, SIZE, WORK, **ONE),
    "gap": lambda: gridcore.gap(2.0, 99.0, 1e4, RELEASE, SIZE, WORK, **ONE),
    "sample_availability": lambda: gridcore.sample_availability(GRID, 99.0, RELEASE, SIZE, WORK, **ONE),
    "sample_availability_batch": lambda: gridcore.sample_availability_batch(
        GRID, 99.0, OFFSETS, RELEASE, SIZE, WORK, **MANY, threads=2
    ),
    "meets_deadlines": lambda: gridcore.meets_deadlines(WORK, RELEASE + 1e6, speed=2.0, now=100.0),
    "optimal_stretch": lambda: gridcore.optimal_stretch(RELEASE, SIZE, WORK, speed=2.0, now=100.0),
    "project_queues": lambda: gridcore.project_queues(
        OFFSETS, RELEASE, SIZE, WORK, TASK_SIZE, **MANY, until=400.0
    ),
    "bind_earliest": lambda: (at := FREE.copy(), gridcore.bind_earliest(at, SPEED, 50.0, 3000, 0), at),
    "map_batch": lambda: gridcore.map_batch(ETC, COUNTS, np.zeros(60), "sufferage"),
    "map_in_turn": lambda: gridcore.map_in_turn(ETC, COUNTS, np.zeros(60), "kpb"),
    "random_neighbours": lambda: gridcore.random_neighbours(900, 8, np.random.default_rng(1), 0, 900),
    "ReleaseQueue": lambda: (queue := releases(), queue.take(NEVER), queue.release)[1:],
    "JobQueue": lambda: run_queue(backfill()),
    "SharedQueue": lambda: run_queue(shared_queue()),
    "ManualQueue": lambda: start_in_order(queue := manual_queue(), NEVER - 1) and queue.starts(),
    "StepProfile": lambda: (profile().earliest(90, 10), *profile().steps()),
    "WorkQueue": run_work_queue,
    "EarliestEnds": run_ends,
    "PullQueue": run_pull,
    "TaskQueues": run_queues,
    "DataQueues": run_data_queues,
    "CoreQueues": run_core_queues,
    "SlotSchedules": run_schedules,
    "Views": run_views,
    "RandomStream": lambda: gridcore.RandomStream(5, 2).normal(size=500),
    **RUNS,
}
#: Kernels that require others, and a run that uses them.
WITHIN = {
    "Links": "FairTree", "SummaryTree": "FairTree",
    "JobWalks": "Rjss", "NodeCore": "DgsAsap", "View": "Search", "BoardView": "Search",
}  # fmt: skip
