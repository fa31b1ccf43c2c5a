"""Recipes of bags of tasks and of job streams, in which each machine's users submit one job after another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import MOST_BYTES, MOST_DATA, Columns, Listed, Machines
from gridsim.model.attributes import Constraints, ListedMemory, Wants, check_constraints, drawn_wants
from gridsim.model.distributions import Amount, checked_amount, drawn, largest
from gridsim.model.platform import Platform
from gridsim.support.arguments import normalise, short_repr
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import FloatColumn, IntColumn, RaggedColumn
from gridsim.support.memory import APPLICATION_BYTES, TASK_BYTES, check_fits
from gridsim.support.parameters import Limits, Recipe, Seed, Text
from gridsim.support.random_streams import DEFAULT_SEED, Streams, normal_factors

if TYPE_CHECKING:
    from gridsim.traces import Bags


#: Largest number of tasks with sizes of their own.  They are kept in memory, 8 bytes each.
MOST_SIZES = 2**30


TaskSize = Annotated[Amount, Limits(above=0, unit="Mflop")]
TaskBytes = Annotated[Amount | None, Limits(low=0, high=MOST_BYTES, unit="bytes")]


class _Spread(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "workload.spread"


class Normal(_Spread, frozen=True, tag="normal"):
    """Normally distributed factors of mean 1; factors of at most 0.01 are drawn again.

    Parameters
    ----------
    deviation
        Standard deviation, >= 0.  Drawing again raises the mean if the deviation is large: to 1.008 with 0.4,
        to 1.29 with 1.
    """

    deviation: Annotated[float, Limits(low=0)]

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Return `count` factors, float64[count], without unit."""
        return normal_factors(draw, self.deviation, count)


class LogUniform(_Spread, frozen=True, tag="log-uniform"):
    """Factors from 1 / ratio to ratio whose logarithm is uniform.

    Parameters
    ----------
    ratio
        Largest factor, >= 1.  The mean of the factors is (ratio - 1 / ratio) / (2 ln ratio).
    """

    ratio: Annotated[float, Limits(low=1)]

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Return `count` factors, float64[count], without unit."""
        width = math.log(self.ratio)
        # rounding may put a value just beyond an end
        return np.clip(np.exp(draw.uniform(-width, width, count)), 1 / self.ratio, self.ratio)


class Exponential(_Spread, frozen=True, tag="exponential"):
    """Exponentially distributed factors of mean 1, as in most models of queueing theory; at least 1e-9."""

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Return `count` factors, float64[count], without unit."""
        return np.maximum(draw.exponential(1.0, count), 1e-9)


class LogNormal(_Spread, frozen=True, tag="log-normal"):
    """Factors of mean 1 whose logarithm is normally distributed.

    Parameters
    ----------
    deviation
        Standard deviation of the logarithm, in 0..10.  The squared coefficient of variation of the factors is
        exp(deviation^2) - 1: 1.72 with 1.
    """

    deviation: Annotated[float, Limits(low=0, high=10)]

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Return `count` factors, float64[count], without unit."""
        return draw.lognormal(-(self.deviation**2) / 2, self.deviation, count)


Spread = Normal | LogUniform | Exponential | LogNormal

_Seconds = Annotated[float, Limits(low=0, unit="s")]
_ListedBytes = Annotated[FloatColumn, Limits(low=0, high=MOST_BYTES, unit="bytes")]
_Load = Annotated[float, Limits(above=0)] | None
_Reference = Annotated[float, Limits(above=0, unit="Mflop/s")] | None


class _Bags(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "workload"


def _at_load(columns: Columns, load: float | None, platform: Platform) -> Columns:
    """Return `columns` with releases scaled so that the work divided by what the platform can do is `load`.

    What counts is what it can do between the first release and the last.  Raises ScenarioError.
    """
    if load is None:
        return columns
    span = float(columns.release.max() - columns.release.min())
    if not span > 0.0:
        raise ScenarioError(
            f"workload.load needs applications that are released at different times, got {short_repr(load)}"
        )
    work = columns.sizes if columns.sizes is not None else columns.tasks * columns.task_size
    with np.errstate(over="ignore"):  # checked with the release times
        scaled = columns.release * (float(np.sum(work)) / (load * platform.aggregate_speed) / span)
    return columns._replace(release=scaled)


class BagRecipe(_Bags, frozen=True, kw_only=True, tag="bags"):
    """Bags of tasks submitted by a Poisson process; `Workload.bags` explains each field.

    Parameters
    ----------
    task_size
        Mflop; a number, a table {low = ..., high = ...} (one uniform draw per application), or a list of
        classes (one per application, all equally likely).
    spread
        How tasks differ within an application: a table of the kind ``normal``, ``log-uniform``,
        ``exponential`` or ``log-normal``.  Each task has task_size times a factor of its own.  Without it
        they are equal.
    """

    seed: Seed
    applications: Annotated[int, Limits(low=1)] = 100
    interarrival: _Seconds = 10.0
    tasks_per_node: Annotated[float, Limits(above=0)] = 10.0
    tasks: Annotated[float, Limits(low=1)] | None = None
    variation: Annotated[float, Limits(low=0, high=1)] = 0.2
    task_size: TaskSize = 65536.0
    spread: Spread | None = None
    load: _Load = None
    input_bytes: TaskBytes = None
    output_bytes: TaskBytes = None
    constraints: Constraints | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_constraints(self.constraints)
        if self.constraints is not None and self.constraints.kinds:
            raise ScenarioError(
                "workload.constraints.kinds must be empty for bags, whose tasks want memory and disk, "
                f"got {short_repr(self.constraints.kinds)}"
            )
        if not isinstance(self.spread, Spread | None):
            raise ScenarioError(
                "workload.spread must be Normal, LogUniform, Exponential, LogNormal or None, got "
                f"{short_repr(self.spread)}"
            )
        size = checked_amount("workload.task_size", self.task_size, "size", above=0, unit="Mflop")
        normalise(self, task_size=size)
        for name in ("input_bytes", "output_bytes"):
            if (given := getattr(self, name)) is not None:
                checked = checked_amount(f"workload.{name}", given, "number", low=0, unit="bytes")
                if (most := largest(checked)) > MOST_BYTES:
                    raise ScenarioError(f"workload.{name} must be at most {MOST_BYTES:g} bytes, got {most:g}")
                normalise(self, **{name: checked})

    def columns(self, platform: Platform) -> Columns:
        streams = Streams(self.seed)
        count = self.applications
        check_fits("workload.applications", count, "applications", APPLICATION_BYTES)
        gaps = streams("workload.arrivals").exponential(self.interarrival, count)
        middle = self.tasks_per_node * platform.nodes if self.tasks is None else self.tasks
        # a bound that differs from a whole number by rounding only counts as that number
        most = middle * (1 + self.variation) * (1 + 1e-12)
        _check_count(middle, most)
        low, high = math.ceil(middle * (1 - self.variation) * (1 - 1e-12)), math.floor(most)
        if low > high:  # no whole number lies between the bounds
            low = high = round(middle)
        tasks = streams("workload.tasks").integers(max(1, low), max(1, high) + 1, size=count)
        submitter = streams("workload.submitters").integers(platform.nodes, size=count)
        task_size, sizes = self._sizes(streams), None
        if self.spread is not None:
            _countable(tasks)
            check_fits("workload.spread", int(tasks.sum()), "tasks with sizes of their own", TASK_BYTES)
            sizes = np.repeat(task_size, tasks)
            sizes *= self.spread.factors(streams("workload.spread"), len(sizes))
        made = Columns(np.cumsum(gaps), tasks, task_size, submitter, sizes=sizes, **self._bytes(streams))
        made = _suited(made, platform, drawn_wants(self.constraints, self.seed, count))
        return _at_load(made, self.load, platform)

    def _sizes(self, streams: Streams) -> NDArray[np.float64]:
        return drawn(self.task_size, streams, "workload.task_sizes", self.applications)

    def _bytes(self, streams: Streams) -> dict[str, Any]:
        given = {"input_bytes": self.input_bytes, "output_bytes": self.output_bytes}
        return {
            name: np.rint(drawn(amount, streams, f"workload.{name}", self.applications))
            for name, amount in given.items()
            if amount is not None
        }


class LogRecipe(_Bags, frozen=True, kw_only=True, tag="log"):
    """Bags of a real job log; `Workload.from_log` explains each field."""

    path: Text
    seed: Seed = DEFAULT_SEED
    gap: Annotated[float, Limits(low=0, unit="s", finite=False)] = 120.0
    span: Annotated[float, Limits(low=0, unit="s", finite=False)] = 120.0
    reference_speed: _Reference = None
    max_applications: Annotated[int, Limits(low=1)] | None = None
    own_sizes: bool | None = None
    tasks_per_node: Annotated[float, Limits(above=0)] | None = None
    min_tasks: Annotated[int, Limits(low=1)] = 1
    skip: Annotated[int, Limits(low=0)] = 0
    whole_seconds: bool = True
    load: _Load = None

    @property
    def made_by(self) -> str:
        """How the jobs of the log become applications, in a line."""
        from gridsim.traces import format_of_name

        if format_of_name(self.path) == "tr":
            equal = ", whose tasks all have its mean duration" if self.own_sizes is False else ""
            said, rigid = f"each job becomes one application{equal}", ""
        else:
            own = "of its run time" if self.own_sizes else "of the mean run time in their application"
            said = f"jobs of one user at most {self.gap:g} s apart become one application, and a job of p "
            said += f"processors p independent tasks {own}"
            rigid = "; --rigid and Workload.jobs_from_log keep the jobs as they are"
        if self.tasks_per_node is not None:
            said += f"; each application is scaled to {self.tasks_per_node:g} tasks a machine"
        if self.load is not None:
            said += f"; releases are scaled to a load of {self.load:g}"
        return f"{self.path}: {said}{rigid}"

    def columns(self, platform: Platform) -> Columns:
        from gridsim.traces.bags import report_bags
        from gridsim.traces.info import load_bags

        log, bags = load_bags(self.path, gap=self.gap, span=self.span, whole_seconds=self.whole_seconds)
        if not len(bags):
            report_bags(log, bags)
            raise ScenarioError(f"{self.path}: no job that ran for a known time, so no bag")
        large = np.flatnonzero(bags.tasks >= self.min_tasks)
        kept = large[self.skip :][: self.max_applications]
        if not len(kept):
            raise ScenarioError(
                f"{self.path}: expected more than {self.skip} bags (workload.skip) of at least "
                f"{self.min_tasks} tasks (workload.min_tasks), found {len(large)}"
            )
        report_bags(log, bags, kept)
        bags.check_size(self.path, kept, platform.nodes)
        tasks = bags.tasks[kept]
        if self.tasks_per_node is not None:
            wanted = self.tasks_per_node * platform.nodes
            _check_count(wanted, wanted)
            tasks = np.full(len(kept), max(1, round(wanted)), dtype=np.int64)
        speed = self.reference_speed or platform.aggregate_speed / platform.nodes
        own_sizes = bags.estimate is not None if self.own_sizes is None else self.own_sizes
        sizes = self._own(bags, kept, _countable(tasks)) * speed if own_sizes else None
        # where all tasks have the mean of their bag, nothing is to be estimated
        estimate = None if bags.estimate is None or not own_sizes else bags.estimate[kept] * speed
        users, which = np.unique(bags.user, return_inverse=True)
        homes = Streams(self.seed)("workload.submitters").integers(platform.nodes, size=len(users))
        release = bags.release[kept] - bags.release[kept[0]]
        task_size, submitter = bags.run_time[kept] * speed, homes[which[kept]]
        made = Columns(release, tasks, task_size, submitter, sizes=sizes, estimate=estimate)
        return _at_load(made, self.load, platform)

    def _own(self, bags: Bags, kept: Integers, tasks: Integers) -> Floats:
        """Return the run times (s) of the tasks of each bag in `kept`, one bag after another.

        Parameters
        ----------
        tasks
            Number of tasks of each bag.  Their run times are those of the bag's own tasks, or are drawn from
            them if the recipe has tasks_per_node.
        """
        draw, offsets, parts = Streams(self.seed)("workload.scaled"), bags.offsets, []
        for bag, count in zip(kept.tolist(), tasks.tolist(), strict=True):
            jobs = slice(offsets[bag], offsets[bag + 1])
            own = np.repeat(bags.job_run_time[jobs], bags.job_procs[jobs])
            parts.append(own if self.tasks_per_node is None else own[draw.integers(len(own), size=count)])
        return np.concatenate(parts)


class ListRecipe(Listed, frozen=True, kw_only=True, tag="list"):
    """A list of applications; `Workload.of` explains each field.

    Parameters
    ----------
    release
        s, one entry per application, in any order.
    tasks
        Number of tasks, one entry per application.
    task_size
        Mflop, one entry per application.
    submitter
        Machines, one entry per application; without it application i submits at machine i modulo the number
        of machines.
    data
        Bytes of a task's instructions and data, and of its result, one entry per application.
    input_bytes, output_bytes
        Bytes that a task fetches before it can be computed, and that it sends afterwards, one entry per
        application; see `Platform.linked`.
    memory, disk
        Bytes that a task needs on its machine, one entry per application; without it any.
    origin
        s, the time at which a run begins; without it the first release.  Times count from it.
    """

    tasks: Annotated[IntColumn, Limits(low=1, high=2**53)]
    task_size: Annotated[FloatColumn, Limits(above=0, unit="Mflop")]
    submitter: Machines | None = None
    data: Annotated[IntColumn, Limits(low=0, high=MOST_DATA)] | None = None
    input_bytes: _ListedBytes | None = None
    output_bytes: _ListedBytes | None = None
    memory: ListedMemory | None = None
    disk: ListedMemory | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns("application")

    def columns(self, platform: Platform) -> Columns:
        tasks, submitter = np.array(self.tasks, dtype=np.int64), _submitters(self, platform)
        data = None if self.data is None else np.array(self.data, dtype=np.int64)
        moved: dict[str, Any] = {
            name: np.array(column, dtype=np.float64)
            for name in ("input_bytes", "output_bytes")
            if (column := getattr(self, name)) is not None
        }
        made = Columns(np.array(self.release), tasks, np.array(self.task_size), submitter, data=data, **moved)
        memory, disk = (None if each is None else np.array(each) for each in (self.memory, self.disk))
        return _suited(made, platform, Wants(memory, disk=disk))


class TasksRecipe(Listed, frozen=True, kw_only=True, tag="tasks"):
    """A list of applications, task by task; `Workload.of_tasks` explains each field.

    Parameters
    ----------
    release
        s, one entry per application, in any order.
    sizes
        Mflop of every task, one list per application.
    submitter
        Machines, one entry per application; without it application i submits at machine i modulo the number
        of machines.
    estimate
        Mflop, the size of a task that submitters state, which schedulers see, one entry per application;
        without it the mean of the sizes.
    origin
        s, the time at which a run begins; without it the first release.  Times count from it.
    """

    sizes: Annotated[RaggedColumn, Limits(above=0, unit="Mflop")]
    submitter: Machines | None = None
    estimate: Annotated[FloatColumn, Limits(low=0, unit="Mflop")] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns("application")
        for i in first_true(self.sizes.counts == 0):
            raise ScenarioError(f"workload.sizes[{i}] must have at least one task, got none")

    def columns(self, platform: Platform) -> Columns:
        tasks, sizes = self.sizes.counts, self.sizes.values
        unsaid = np.full(len(tasks), np.nan)
        estimate = None if self.estimate is None else np.array(self.estimate)
        submitter = _submitters(self, platform)
        return Columns(np.array(self.release), tasks, unsaid, submitter, sizes=sizes, estimate=estimate)


def _submitters(recipe: ListRecipe | TasksRecipe, platform: Platform) -> Integers:
    count = len(recipe.release)
    if recipe.submitter is None:
        return np.arange(count, dtype=np.int64) % platform.nodes
    submitter = np.array(recipe.submitter, dtype=np.int64)
    for i in first_true(submitter >= platform.nodes):
        raise ScenarioError(
            f"workload.submitter[{i}] must be a machine in 0..{platform.nodes - 1}, got {submitter[i]}"
        )
    return submitter


def _suited(made: Columns, platform: Platform, wants: Wants) -> Columns:
    """Return `made` with what tasks want of machines; raise ScenarioError if no machine suits one."""
    if not wants.any:
        return made
    attributes = platform.attributes
    group, suited = wants.groups(attributes, "tasks")
    for i in first_true(suited.sum(axis=1)[group] == 0):
        wanted = [name for name in ("memory", "disk") if getattr(wants, name) is not None]
        stated = {name: getattr(attributes, name) for name in wanted}
        fields = " and ".join(f"workload.{name}" for name in stated)
        there = " and ".join(f"{name} of up to {column.max():g} bytes" for name, column in stated.items())
        raise ScenarioError(
            f"{fields} must leave each application a machine that can hold its tasks: machines have {there}, "
            f"got {wants.said(i)} for application {i}, which none has"
        )
    return made.wanting(wants, group, suited)


def _check_count(mean: float, most: float) -> None:
    if most >= 2**53:
        raise ScenarioError(f"workload.tasks must stay below 2**53 an application, got {mean:g}")


def _countable(tasks: Integers) -> Integers:
    """Return `tasks`, or raise ScenarioError if they are too many to keep a size for each task."""
    if (total := sum(tasks.tolist())) > MOST_SIZES:
        raise ScenarioError(
            f"workload.tasks must be at most {MOST_SIZES} in all where they differ in size, got {total}"
        )
    return tasks


#: Largest number of jobs of a workload.
MOST_JOBS = 2**31 - 1


class StreamRecipe(_Bags, frozen=True, kw_only=True, tag="streams"):
    """Jobs submitted by a Poisson process at every machine; `Workload.job_streams` explains each field."""

    seed: Seed
    horizon: Annotated[float, Limits(above=0, unit="s")] = 2000.0
    interarrival: Annotated[float, Limits(above=0, unit="s")] = 20.0
    processing_time: Annotated[float, Limits(above=0, unit="s")] = 30.0
    data: Annotated[float, Limits(low=0, unit="bytes")] = 5000.0
    variation: Annotated[float, Limits(low=0)] = 0.2
    deviation: Annotated[float, Limits(low=0)] = 0.2
    reference_speed: _Reference = None

    def columns(self, platform: Platform) -> Columns:
        streams, nodes = Streams(self.seed), platform.nodes

        def of_machines(name: str, mean: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return mean * normal_factors(streams(f"workload.{name}"), self.variation, nodes)

        rates = of_machines("rates", 1 / self.interarrival)
        expected = float(rates.sum()) * self.horizon  # inf where it is too large for a float
        if not expected <= MOST_JOBS / 2:
            raise ScenarioError(
                f"workload.horizon must leave at most {MOST_JOBS // 2} jobs, got {expected:.3g} on average"
            )
        check_fits("workload.horizon", round(expected), "jobs", APPLICATION_BYTES)
        draw = streams("workload.arrivals")
        counts = draw.poisson(rates * self.horizon)
        if not (total := int(counts.sum())):
            raise ScenarioError(
                f"workload.horizon must be long enough for a job, got {self.horizon!r} s, in which none came"
            )
        home = np.repeat(np.arange(nodes), counts)
        # given their number, the arrivals of a Poisson process are independent and uniform
        release = draw.uniform(0.0, self.horizon, total)
        work = of_machines("processing_times", self.processing_time)[home]
        work *= normal_factors(streams("workload.jobs"), self.deviation, total)
        work *= self.reference_speed or platform.aggregate_speed / nodes
        scale = of_machines("data", self.data)[home]
        data = np.ceil(streams("workload.data_of_jobs").exponential(scale))
        if (most := float(data.max())) > MOST_DATA:
            raise ScenarioError(
                f"workload.data must leave each job at most {MOST_DATA} bytes, got {most:g} with a mean of "
                f"{self.data:g}"
            )
        ones = np.ones(total, np.int64)
        return Columns(release, ones, work, home, data=data.astype(np.int64), rates=rates)
