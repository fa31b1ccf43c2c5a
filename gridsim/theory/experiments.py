"""Experiments of `gridsim theory`: models, and their values according to queueing theory.

An experiment consists of independent replications: runs from each of which a value of each quantity is
computed.  Machines have a speed of 1 Mflop/s, and the mean service time is 1 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gridsim.model.attributes import DrawnAttributes
from gridsim.model.bag_workloads import Exponential, LogNormal, Spread
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.results.result import Result
from gridsim.schedulers import Fcfs, JoinIdleQueue, PowerOfD, Random, WqrFt
from gridsim.scheduling.contract import NodeForm, Scheduler
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams
from gridsim.theory import formulas


class ExperimentSize(NamedTuple):
    """Size of an experiment.

    Parameters
    ----------
    replications
        Number of independent runs.
    machines
        Number of machines in a run.
    time
        Simulated time of a run (s), including the warm-up.
    warm_up
        Time from the start that is not measured (s).
    """

    replications: int
    machines: int
    time: float
    warm_up: float


class Value(NamedTuple):
    """Value of a quantity according to theory.

    Parameters
    ----------
    exact
        Whether every replication must have this value, and not only the mean over replications.
    """

    quantity: str
    expected: float
    exact: bool = False


class Experiment(Protocol):
    """Interface of an experiment.

    Attributes
    ----------
    name, title
        Name on the command line, and the model.
    small, full
        Sizes of the small and the full version; None if the experiment has no small version.
    nodes
        Whether the experiment runs a node program, which is slow unless it is compiled.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def small(self) -> ExperimentSize | None: ...
    @property
    def full(self) -> ExperimentSize: ...
    @property
    def nodes(self) -> bool: ...

    def values(self, size: ExperimentSize) -> list[Value]:
        """Return the values according to theory."""
        ...

    def measure(self, size: ExperimentSize, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """Run a replication, and return the value of each quantity, and a remark, which may be empty."""
        ...


# -- queues -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredJobs:
    """Jobs of a run after the warm-up, in order of arrival.

    Parameters
    ----------
    size, response
        Service times and response times (s).
    first_half_share
        Share of all tasks that ran on the first half of the machines.
    """

    size: Floats
    response: Floats
    first_half_share: float

    @property
    def wait(self) -> Floats:
        """Times from arrival to start (s)."""
        return self.response - self.size


def mean_response(jobs: MeasuredJobs) -> float:
    """Return the mean time from arrival to end (s)."""
    return float(jobs.response.mean())


def mean_wait(jobs: MeasuredJobs) -> float:
    """Return the mean time from arrival to start (s)."""
    return float(jobs.wait.mean())


def mean_squared_wait(jobs: MeasuredJobs) -> float:
    """Return the mean square of the time from arrival to start (s^2)."""
    return float((jobs.wait**2).mean())


def waiting_share(jobs: MeasuredJobs) -> float:
    """Return the share of jobs that wait for more than 1.5 ns, since times are rounded to ns."""
    return float((jobs.wait > 1.5e-9).mean())


def first_half_share(jobs: MeasuredJobs) -> float:
    """Return the share of tasks that ran on the first half of the machines."""
    return jobs.first_half_share


class QueueQuantity(NamedTuple):
    """Quantity of a queue.

    Parameters
    ----------
    measure
        Function that computes the quantity from the jobs of a run.
    theory
        Function that computes its exact value from the load and the number of machines.
    """

    name: str
    measure: Callable[[MeasuredJobs], float]
    theory: Callable[[float, int], float]


@dataclass(frozen=True)
class QueueModel:
    """Queue with Poisson arrivals of jobs of one task, submitted at random machines.

    Parameters
    ----------
    scheduler
        Function that returns the scheduler for a number of machines.
    load
        Arrival rate per machine (1/s).
    spread
        Function that draws the sizes; None if they are equal.
    memory
        Relaxation time of the number of jobs after a change of the load (s), which affects only the width of
        intervals.
    machines_per_dispatcher
        Number of machines per submitting machine; jobs are submitted at the first machines.
    """

    name: str
    title: str
    scheduler: Callable[[int], Scheduler]
    load: float
    quantities: Sequence[QueueQuantity]
    small: ExperimentSize | None
    full: ExperimentSize
    memory: float
    spread: Spread | None = Exponential()
    machines_per_dispatcher: int = 1
    nodes: bool = True

    def values(self, size: ExperimentSize) -> list[Value]:
        """Return the values according to theory."""
        return [
            Value(quantity.name, quantity.theory(self.load, size.machines)) for quantity in self.quantities
        ]

    def scenario(self, size: ExperimentSize, seed: int) -> Scenario:
        """Return the scenario of the replication with this seed."""
        rate = self.load * size.machines
        jobs = round(rate * size.time)
        workload = Workload.bags(
            jobs, 1 / rate, tasks=1, variation=0, task_size=1.0, seed=seed, spread=self.spread
        )
        platform = Platform.equal(size.machines, 1.0)
        if self.machines_per_dispatcher > 1:
            applications = workload.realize(platform)
            submitter = applications.submitter // self.machines_per_dispatcher
            workload = Workload.of(applications.release, 1, applications.task_size, submitter, origin=0.0)
        return Scenario(platform, workload, seed=seed)

    def measure(self, size: ExperimentSize, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """Run a replication, and return the value of each quantity, with the drawn load as a control variate.

        The load of the drawn jobs differs from the exact load, which causes most of the variance.  Therefore
        the derivative of the theoretical value with respect to the load, times the relative excess of work
        that affects the measured jobs, is subtracted from each value.  The expectation of this excess is 0
        for any simulator, so that the correction narrows intervals without shifting means.
        """
        result = simulate(self.scenario(size, seed), self.scheduler(size.machines), nodes=nodes)
        table = result.applications
        release, task_size = table["release"], table["size"]
        first = round(self.load * size.machines * size.warm_up)
        tasks = result.machines["tasks"]
        jobs = MeasuredJobs(
            task_size[first:],
            (table["finish"] - release)[first:],
            float(tasks[: len(tasks) // 2].sum() / tasks.sum()),
        )
        excess = self._excess(release, task_size, first, size.machines)
        return [
            quantity.measure(jobs) - excess * self._slope(quantity, size.machines)
            for quantity in self.quantities
        ], ""

    def _excess(self, release: Floats, task_size: Floats, first: int, machines: int) -> float:
        """Return the relative excess of work over the load that affects the jobs from number `first` on.

        Work that arrives at time s affects time t > s with the weight ``exp(-(t - s) / memory) / memory``.
        """
        rate = self.load * machines
        number, memory = np.arange(len(release)), self.memory * rate
        weight = np.exp(-np.maximum(first - number, 0) / memory) - np.exp(-(len(release) - number) / memory)
        excess = task_size - np.diff(release, prepend=0.0) * rate
        return float(weight @ excess) / (len(release) - first)

    def _slope(self, quantity: QueueQuantity, machines: int) -> float:
        """Return the derivative of the theoretical value with respect to the logarithm of the load."""
        step = min(1e-3, (1 - self.load) / 100)
        high, low = (quantity.theory(self.load * (1 + sign * step), machines) for sign in (1, -1))
        return (high - low) / (2 * step)


def _single_server(second_moment: float, third_moment: float) -> tuple[QueueQuantity, ...]:
    """Return the quantities of an M/G/1 queue, given the second and third moments of sizes."""
    return (
        QueueQuantity("mean wait, s", mean_wait, lambda load, _: formulas.mg1_wait(load, second_moment)),
        QueueQuantity(
            "mean square of the wait, s^2",
            mean_squared_wait,
            lambda load, _: formulas.mg1_squared_wait(load, second_moment, third_moment),
        ),
        QueueQuantity("share of jobs that wait", waiting_share, lambda load, _: load),
    )


def _random_scheduler(machines: int) -> Scheduler:
    return Random(instant=True)


def _supermarket(
    load: float, memory: float, small: ExperimentSize | None, full: ExperimentSize
) -> QueueModel:
    return QueueModel(
        f"supermarket-{load:g}",
        f"supermarket model, d = 2, load {load:g}",
        lambda _: PowerOfD(instant=True),
        load,
        (
            QueueQuantity("mean response, s", mean_response, lambda x, n: formulas.supermarket(x, 2, n)),
            QueueQuantity("share of tasks on the first half", first_half_share, lambda *_: 0.5),
        ),
        small,
        full,
        memory,
    )


# -- machines that fail -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureModel:
    """WQR-FT on saturated machines with exponential up and down times.

    Tasks take 1 s, are not replicated, and restart from the beginning after a failure.
    """

    name: str
    title: str
    up: float
    down: float
    small: ExperimentSize
    full: ExperimentSize
    nodes: bool = False

    def values(self, size: ExperimentSize) -> list[Value]:
        """Return the values according to theory."""
        up = formulas.availability(self.up, self.down)
        return [
            Value("share of time that machines are up", up),
            Value("interrupted tasks per machine and s", up / self.up),
            Value("completed tasks per machine and s", formulas.completion_rate(1.0, self.up, self.down)),
        ]

    def measure(self, size: ExperimentSize, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """Run a replication with more tasks than can be completed, so that machines that are up are busy."""
        rate = formulas.completion_rate(1.0, self.up, self.down) * size.machines
        tasks = round(rate * size.time + 12 * math.sqrt(rate * size.time)) + size.machines
        scenario = Scenario(
            Platform.equal(size.machines, 1.0),
            Workload.of([0.0], tasks, 1.0),
            faults=Faults.exponential(self.up, self.down, seed=seed),
            seed=seed,
        )
        queue = WqrFt(max_replicas=1, checkpoint_interval=math.inf, restore_cost=0.0)
        schedule = simulate(scenario, queue, record="schedule").tables["schedule"]
        start, end, is_completed = schedule["start"], schedule["end"], schedule["completed"]
        overlap = np.minimum(end, size.time) - np.maximum(start, size.warm_up)
        in_window = (end > size.warm_up) & (end <= size.time)
        total = size.machines * (size.time - size.warm_up)
        interrupted = float((in_window & (is_completed == 0)).sum())
        return [
            float(np.maximum(overlap, 0.0).sum()) / total,
            interrupted / total,
            float((in_window & (is_completed == 1)).sum()) / total,
        ], ""


# -- Little's law -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LittlesLaw:
    """Little's law for every scheduler, on the applications of a finished run.

    The mean number in the system is computed from the submitted arrivals and the ends in the schedule, rate
    and mean response from the table of applications.  On a finished run they agree except for rounding.
    """

    name: str
    title: str
    rigid: bool
    small: ExperimentSize
    full: ExperimentSize
    nodes: bool = False
    scheduler_names: tuple[str, ...] = ()

    def values(self, size: ExperimentSize) -> list[Value]:
        """Return the values according to theory."""
        return [Value("mean number / (rate x mean response) - 1", 0.0, exact=True)]

    def schedulers(self) -> dict[str, Scheduler]:
        """Return the schedulers to run, by name."""
        known = registered()
        names = self.scheduler_names or [name for name, (cls, _) in known.items() if cls.rigid == self.rigid]
        return {name: make_scheduler(name) for name in names}

    def measure(self, size: ExperimentSize, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """Run all schedulers, and return the largest deviation; the remark names its scheduler."""
        stream = Streams(seed)("theory.little")
        rate = 0.5 * size.machines / (2.5 if self.rigid else 1.0)
        count = round(rate * size.time)
        release = np.cumsum(stream.exponential(1 / rate, count))
        length, job_nodes = stream.exponential(60.0, count) + 1.0, stream.integers(1, 5, count)
        release *= 61.0
        submitter = stream.integers(size.machines, size=count)
        if self.rigid:
            workload = Workload.jobs_of(release, job_nodes, length, submitter=submitter, origin=0.0)
        else:
            workload = Workload.of(release, 1, length * 1000.0, submitter, origin=0.0)
        attributes = (
            DrawnAttributes(seed=seed, side=1.0) if self.rigid else None
        )  # some schedulers require positions
        scenario = Scenario(Platform.equal(size.machines, 1000.0, attributes), workload, seed=seed)
        release = np.rint(release * 1e9) / 1e9  # simulated times are whole nanoseconds
        worst, remark = 0.0, ""
        schedulers = self.schedulers()
        for name, scheduler in schedulers.items():
            deviation = littles_law_deviation(release, simulate(scenario, scheduler, record="schedule"))
            if not abs(deviation) <= abs(worst):
                worst, remark = deviation, f", largest deviation: {name}"
        return [worst], f"{len(schedulers)} schedulers{remark}"


def littles_law_deviation(release: Floats, result: Result) -> float:
    """Return the relative excess of the mean number in the system over rate x mean response.

    Parameters
    ----------
    release
        Release times of all submitted applications (s), including lost ones.
    """
    table, schedule = result.applications, result.tables["schedule"]
    end_of_run = float(max(schedule["end"].max(), release.max()))
    end = np.full(len(release), -math.inf)
    is_completed = schedule["completed"] > 0
    np.maximum.at(end, schedule["application"][is_completed], schedule["end"][is_completed])
    end[np.isneginf(end)] = end_of_run  # an application without a completed task stays in the system
    time = np.concatenate([release, end])
    step = np.repeat([1.0, -1.0], len(release))
    order = np.argsort(time, kind="stable")
    number = np.cumsum(step[order])[:-1]
    mean_number = float(number @ np.diff(time[order])) / end_of_run
    response = table["finish"] - table["release"]
    product = len(response) / end_of_run * float(response.mean())
    return mean_number / product - 1


# -- the experiments --------------------------------------------------------------------------------------

_SINGLE_SERVER_SIZES = ExperimentSize(10, 50, 700.0, 200.0), ExperimentSize(10, 500, 2000.0, 300.0)


def _idle_queue(
    name: str, load: float, machines_per_dispatcher: int, small: ExperimentSize, full: ExperimentSize
) -> QueueModel:
    ratio = "one machine" if machines_per_dispatcher == 1 else f"{machines_per_dispatcher} machines"

    def theory(number: int) -> Callable[[float, int], float]:
        return lambda load, _: formulas.join_idle_queue(load, machines_per_dispatcher)[number]

    return QueueModel(
        name,
        f"join idle queue, {ratio} per dispatcher, load {load:g}",
        lambda machines: JoinIdleQueue(instant=True, dispatchers=machines // machines_per_dispatcher),
        load,
        (
            QueueQuantity("mean response, s", mean_response, theory(0)),
            QueueQuantity("share of jobs that wait", waiting_share, theory(1)),
        ),
        small,
        full,
        memory=7.0,
        machines_per_dispatcher=machines_per_dispatcher,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    QueueModel(
        "mm1",
        "M/M/1, load 0.7",
        _random_scheduler,
        0.7,
        _single_server(2.0, 6.0),
        *_SINGLE_SERVER_SIZES,
        memory=20.0,
    ),
    QueueModel(
        "md1",
        "M/D/1, load 0.7",
        _random_scheduler,
        0.7,
        _single_server(1.0, 1.0),
        *_SINGLE_SERVER_SIZES,
        memory=20.0,
        spread=None,
    ),
    QueueModel(
        "mg1",
        "M/G/1, lognormal, load 0.7",
        _random_scheduler,
        0.7,
        _single_server(*formulas.lognormal_moments(1.0)),
        *_SINGLE_SERVER_SIZES,
        memory=20.0,
        spread=LogNormal(1.0),
    ),
    QueueModel(
        "mmc",
        "M/M/c, c = 5, load 0.7",
        lambda _: Fcfs(),
        0.7,
        (
            QueueQuantity("mean wait, s", mean_wait, lambda load, c: formulas.mmc_wait(c, load)),
            QueueQuantity(
                "share of jobs that wait", waiting_share, lambda load, c: formulas.erlang_c(c, load)
            ),
        ),
        ExperimentSize(10, 5, 1000.0, 100.0),
        ExperimentSize(10, 5, 10_000.0, 500.0),
        memory=4.0,
        nodes=False,
    ),
    LittlesLaw(
        "little-bags",
        "Little's law, bags",
        False,
        ExperimentSize(1, 8, 30.0, 0.0),
        ExperimentSize(1, 16, 125.0, 0.0),
    ),
    LittlesLaw(
        "little-rigid",
        "Little's law, rigid jobs",
        True,
        ExperimentSize(1, 8, 60.0, 0.0),
        ExperimentSize(1, 16, 315.0, 0.0),
    ),
    _supermarket(0.5, 2.3, ExperimentSize(6, 100, 60.0, 20.0), ExperimentSize(10, 2000, 60.0, 20.0)),
    _supermarket(0.9, 13.25, ExperimentSize(6, 300, 110.0, 80.0), ExperimentSize(5, 10_000, 105.0, 80.0)),
    _supermarket(0.95, 27.3, ExperimentSize(6, 100, 250.0, 180.0), ExperimentSize(6, 2000, 300.0, 200.0)),
    _supermarket(0.99, 142.0, None, ExperimentSize(6, 1000, 1400.0, 1000.0)),
    _idle_queue("jiq", 0.7, 1, ExperimentSize(8, 300, 45.0, 25.0), ExperimentSize(10, 5000, 100.0, 50.0)),
    _idle_queue("jiq-10", 0.9, 10, ExperimentSize(8, 300, 45.0, 30.0), ExperimentSize(8, 2000, 100.0, 60.0)),
    FailureModel(
        "availability",
        "work queue, machines up for 10 s and down for 5 s",
        10.0,
        5.0,
        ExperimentSize(8, 100, 250.0, 50.0),
        ExperimentSize(10, 1000, 1000.0, 50.0),
    ),
)
