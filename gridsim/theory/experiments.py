"""The experiments of `gridsim theory`: what is run, and which value theory gives.

Each of them is a number of independent replications.  A replication is one run, from which a value of each
quantity is computed.  Machines do 1 Mflop/s, and the mean service time is 1 s.
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


class Size(NamedTuple):
    """How much is run.

    Parameters
    ----------
    replications
        Independent runs.
    machines
        Of each run.
    time
        s of each run, the warm-up included.
    warm_up
        s from the beginning that are not measured.
    """

    replications: int
    machines: int
    time: float
    warm_up: float


class Value(NamedTuple):
    """The value that theory gives for a quantity.

    Parameters
    ----------
    exact
        Whether every replication must have this value; else it is the mean over replications.
    """

    quantity: str
    expected: float
    exact: bool = False


class Experiment(Protocol):
    """What an experiment is.

    Attributes
    ----------
    name, title
        Its name on the command line, and the model.
    small, full
        The sizes; small is None where only a large run says anything.
    nodes
        Whether a node program is run, which takes long unless it is compiled.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def small(self) -> Size | None: ...
    @property
    def full(self) -> Size: ...
    @property
    def nodes(self) -> bool: ...

    def values(self, size: Size) -> list[Value]:
        """Return what theory says."""
        ...

    def measure(self, size: Size, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """Run a replication, and return a value of each quantity, and a remark or ""."""
        ...


# -- queues -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jobs:
    """The jobs of a run after the warm-up, in order of arrival.

    Parameters
    ----------
    size, response
        s.
    first_half
        Share of all tasks that ran on the first half of the machines.
    """

    size: Floats
    response: Floats
    first_half: float

    @property
    def wait(self) -> Floats:
        """Time from the arrival to the start, s."""
        return self.response - self.size


def mean_response(jobs: Jobs) -> float:
    """Return the mean time from arrival to end, s."""
    return float(jobs.response.mean())


def mean_wait(jobs: Jobs) -> float:
    """Return the mean time from arrival to start, s."""
    return float(jobs.wait.mean())


def mean_wait_squared(jobs: Jobs) -> float:
    """Return the mean square of the time from arrival to start, s^2."""
    return float((jobs.wait**2).mean())


def share_that_waits(jobs: Jobs) -> float:
    """Return the share of jobs that do not start on arrival; times are rounded to ns."""
    return float((jobs.wait > 1.5e-9).mean())


def first_half(jobs: Jobs) -> float:
    """Return the share of tasks that ran on the first half of the machines."""
    return jobs.first_half


class Quantity(NamedTuple):
    """A quantity of a queue.

    Parameters
    ----------
    of
        Computes it from the jobs.
    theory
        Its value, from the load and the number of machines.
    """

    name: str
    of: Callable[[Jobs], float]
    theory: Callable[[float, int], float]


@dataclass(frozen=True)
class Queue:
    """Poisson arrivals of jobs of one task, each submitted at a random machine.

    Parameters
    ----------
    load
        Arrivals per machine and s.
    spread
        How sizes are distributed; None: they are equal.
    memory
        S over which the number of jobs forgets a change of the load; it matters for the width of intervals
        only.
    scheduler
        Made for a number of machines.
    dispatchers
        Machines for each machine at which jobs are submitted, which are the first ones.
    """

    name: str
    title: str
    scheduler: Callable[[int], Scheduler]
    load: float
    quantities: Sequence[Quantity]
    small: Size | None
    full: Size
    memory: float
    spread: Spread | None = Exponential()
    dispatchers: int = 1
    nodes: bool = True

    def values(self, size: Size) -> list[Value]:
        """See `Experiment`."""
        return [Value(each.name, each.theory(self.load, size.machines)) for each in self.quantities]

    def scenario(self, size: Size, seed: int) -> Scenario:
        """Return the scenario of a replication."""
        rate = self.load * size.machines
        jobs = round(rate * size.time)
        drawn = Workload.bags(
            jobs, 1 / rate, tasks=1, variation=0, task_size=1.0, seed=seed, spread=self.spread
        )
        platform = Platform.equal(size.machines, 1.0)
        if self.dispatchers > 1:
            made = drawn.realize(platform)
            submitter = made.submitter // self.dispatchers
            drawn = Workload.of(made.release, 1, made.task_size, submitter, origin=0.0)
        return Scenario(platform, drawn, seed=seed)

    def measure(self, size: Size, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """See `Experiment`.

        The load that was drawn differs from the true one by chance, and most of the variance comes from that.
        So each value is corrected by the derivative of theory with respect to the load, times the relative
        excess of work that matters for the jobs measured.  The mean of that excess over replications is 0,
        whatever the simulator does, so the correction makes intervals narrow and moves no mean.
        """
        result = simulate(self.scenario(size, seed), self.scheduler(size.machines), nodes=nodes)
        table = result.applications
        release, task_size = table["release"], table["size"]
        first = round(self.load * size.machines * size.warm_up)
        tasks = result.machines["tasks"]
        jobs = Jobs(
            task_size[first:],
            (table["finish"] - release)[first:],
            float(tasks[: len(tasks) // 2].sum() / tasks.sum()),
        )
        excess = self._excess(release, task_size, first, size.machines)
        return [each.of(jobs) - excess * self._slope(each, size.machines) for each in self.quantities], ""

    def _excess(self, release: Floats, task_size: Floats, first: int, machines: int) -> float:
        """Return the relative excess of work over the load, as it matters for jobs from `first` on.

        Work that arrives at s matters at t > s with the weight ``exp(-(t - s) / memory) / memory``.
        """
        rate = self.load * machines
        number, memory = np.arange(len(release)), self.memory * rate
        weight = np.exp(-np.maximum(first - number, 0) / memory) - np.exp(-(len(release) - number) / memory)
        excess = task_size - np.diff(release, prepend=0.0) * rate
        return float(weight @ excess) / (len(release) - first)

    def _slope(self, quantity: Quantity, machines: int) -> float:
        """Return the derivative of the theory with respect to the logarithm of the load."""
        step = min(1e-3, (1 - self.load) / 100)
        high, low = (quantity.theory(self.load * (1 + sign * step), machines) for sign in (1, -1))
        return (high - low) / (2 * step)


def _single(second: float, third: float) -> tuple[Quantity, ...]:
    """Return the quantities of M/G/1 queues, of the second and third moment of sizes."""
    return (
        Quantity("mean wait, s", mean_wait, lambda load, _: formulas.mg1_wait(load, second)),
        Quantity(
            "mean square of the wait, s^2",
            mean_wait_squared,
            lambda load, _: formulas.mg1_wait_squared(load, second, third),
        ),
        Quantity("share of jobs that wait", share_that_waits, lambda load, _: load),
    )


def _at_random(machines: int) -> Scheduler:
    return Random(instant=True, degree=1)


def _supermarket(load: float, memory: float, small: Size | None, full: Size) -> Queue:
    return Queue(
        f"supermarket-{load:g}",
        f"supermarket model, d = 2, load {load:g}",
        lambda _: PowerOfD(instant=True, room=1, degree=1),
        load,
        (
            Quantity("mean response, s", mean_response, lambda x, n: formulas.supermarket(x, 2, n)),
            Quantity("share of tasks on the first half", first_half, lambda *_: 0.5),
        ),
        small,
        full,
        memory,
    )


# -- machines that fail -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failing:
    """WQR-FT on machines with exponential up and down times, and always with tasks to do.

    Tasks take 1 s, are never replicated, and begin anew after a failure.
    """

    name: str
    title: str
    up: float
    down: float
    small: Size
    full: Size
    nodes: bool = False

    def values(self, size: Size) -> list[Value]:
        """See `Experiment`."""
        up = formulas.availability(self.up, self.down)
        return [
            Value("share of time that machines are up", up),
            Value("interrupted tasks per machine and s", up / self.up),
            Value("completed tasks per machine and s", formulas.completion_rate(1.0, self.up, self.down)),
        ]

    def measure(self, size: Size, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """See `Experiment`: a machine that is up is busy, since there are more tasks than can be done."""
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
        start, end, done = schedule["start"], schedule["end"], schedule["completed"]
        inside = np.minimum(end, size.time) - np.maximum(start, size.warm_up)
        ended = (end > size.warm_up) & (end <= size.time)
        total = size.machines * (size.time - size.warm_up)
        interrupted = float((ended & (done == 0)).sum())
        return [
            float(np.maximum(inside, 0.0).sum()) / total,
            interrupted / total,
            float((ended & (done == 1)).sum()) / total,
        ], ""


# -- Little's law -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Little:
    """Little's law for every scheduler, on the applications of a finished run.

    The mean number in the system is from the arrivals as they were submitted and from the ends in the
    schedule; rate and mean response are from the table of applications.  On a finished run they agree but for
    rounding.
    """

    name: str
    title: str
    rigid: bool
    small: Size
    full: Size
    nodes: bool = False
    only: tuple[str, ...] = ()

    def values(self, size: Size) -> list[Value]:
        """See `Experiment`."""
        return [Value("mean number / (rate x mean response) - 1", 0.0, exact=True)]

    def schedulers(self) -> dict[str, Scheduler]:
        """Return the schedulers to be tried, by name."""
        known = registered()
        names = self.only or [name for name, (cls, _) in known.items() if cls.rigid == self.rigid]
        return {name: make_scheduler(name) for name in names}

    def measure(self, size: Size, seed: int, nodes: NodeForm | None) -> tuple[list[float], str]:
        """See `Experiment`: the value of the scheduler that is farthest off, which the remark names."""
        draw = Streams(seed)("theory.little")
        rate = 0.5 * size.machines / (2.5 if self.rigid else 1.0)
        count = round(rate * size.time)
        release = np.cumsum(draw.exponential(1 / rate, count))
        length, nodes_wanted = draw.exponential(60.0, count) + 1.0, draw.integers(1, 5, count)
        release *= 61.0
        submitter = draw.integers(size.machines, size=count)
        if self.rigid:
            workload = Workload.jobs_of(release, nodes_wanted, length, submitter=submitter, origin=0.0)
        else:
            workload = Workload.of(release, 1, length * 1000.0, submitter, origin=0.0)
        places = DrawnAttributes(seed=seed, side=1.0) if self.rigid else None  # which some schedulers need
        scenario = Scenario(Platform.equal(size.machines, 1000.0, places), workload, seed=seed)
        release = np.rint(release * 1e9) / 1e9  # as clocks have it
        worst, whose = 0.0, ""
        schedulers = self.schedulers()
        for name, scheduler in schedulers.items():
            found = difference(release, simulate(scenario, scheduler, record="schedule"))
            if not abs(found) <= abs(worst):
                worst, whose = found, f", farthest off: {name}"
        return [worst], f"{len(schedulers)} schedulers{whose}"


def difference(release: Floats, result: Result) -> float:
    """Return by how much the mean number in the system exceeds rate x mean response, relative to that.

    Parameters
    ----------
    release
        s, of all applications that were submitted, whatever became of them.
    """
    table, schedule = result.applications, result.tables["schedule"]
    until = float(max(schedule["end"].max(), release.max()))
    end = np.full(len(release), -math.inf)
    done = schedule["completed"] > 0
    np.maximum.at(end, schedule["application"][done], schedule["end"][done])
    end[np.isneginf(end)] = until  # never left
    time = np.concatenate([release, end])
    step = np.repeat([1.0, -1.0], len(release))
    order = np.argsort(time, kind="stable")
    number = np.cumsum(step[order])[:-1]
    mean_number = float(number @ np.diff(time[order])) / until
    response = table["finish"] - table["release"]
    product = len(response) / until * float(response.mean())
    return mean_number / product - 1


# -- all of them ------------------------------------------------------------------------------------------

_SINGLE = Size(10, 50, 700.0, 200.0), Size(10, 500, 2000.0, 300.0)


def _idle_queue(name: str, load: float, dispatchers: int, small: Size, full: Size) -> Queue:
    whose = "each machine a dispatcher" if dispatchers == 1 else f"{dispatchers} machines a dispatcher"

    def theory(number: int) -> Callable[[float, int], float]:
        return lambda load, _: formulas.join_idle_queue(load, dispatchers)[number]

    return Queue(
        name,
        f"join idle queue, {whose}, load {load:g}",
        lambda machines: JoinIdleQueue(instant=True, degree=1, dispatchers=machines // dispatchers),
        load,
        (
            Quantity("mean response, s", mean_response, theory(0)),
            Quantity("share of jobs that wait", share_that_waits, theory(1)),
        ),
        small,
        full,
        memory=7.0,
        dispatchers=dispatchers,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    Queue("mm1", "M/M/1, load 0.7", _at_random, 0.7, _single(2.0, 6.0), *_SINGLE, memory=20.0),
    Queue("md1", "M/D/1, load 0.7", _at_random, 0.7, _single(1.0, 1.0), *_SINGLE, memory=20.0, spread=None),
    Queue(
        "mg1",
        "M/G/1, lognormal, load 0.7",
        _at_random,
        0.7,
        _single(*formulas.lognormal_moments(1.0)),
        *_SINGLE,
        memory=20.0,
        spread=LogNormal(1.0),
    ),
    Queue(
        "mmc",
        "M/M/c, c = 5, load 0.7",
        lambda _: Fcfs(),
        0.7,
        (
            Quantity("mean wait, s", mean_wait, lambda load, c: formulas.mmc_wait(c, load)),
            Quantity("share of jobs that wait", share_that_waits, lambda load, c: formulas.erlang_c(c, load)),
        ),
        Size(10, 5, 1000.0, 100.0),
        Size(10, 5, 10_000.0, 500.0),
        memory=4.0,
        nodes=False,
    ),
    Little("little-bags", "Little's law, bags", False, Size(1, 8, 30.0, 0.0), Size(1, 16, 125.0, 0.0)),
    Little("little-rigid", "Little's law, rigid jobs", True, Size(1, 8, 60.0, 0.0), Size(1, 16, 315.0, 0.0)),
    _supermarket(0.5, 2.3, Size(6, 100, 60.0, 20.0), Size(10, 2000, 60.0, 20.0)),
    _supermarket(0.9, 13.25, Size(6, 300, 110.0, 80.0), Size(5, 10_000, 105.0, 80.0)),
    _supermarket(0.95, 27.3, Size(6, 100, 250.0, 180.0), Size(6, 2000, 300.0, 200.0)),
    _supermarket(0.99, 142.0, None, Size(6, 1000, 1400.0, 1000.0)),
    _idle_queue("jiq", 0.7, 1, Size(8, 300, 45.0, 25.0), Size(10, 5000, 100.0, 50.0)),
    _idle_queue("jiq-10", 0.9, 10, Size(8, 300, 45.0, 30.0), Size(8, 2000, 100.0, 60.0)),
    Failing(
        "availability",
        "work queue, machines up for 10 s and down for 5 s",
        10.0,
        5.0,
        Size(8, 100, 250.0, 50.0),
        Size(10, 1000, 1000.0, 50.0),
    ),
)
