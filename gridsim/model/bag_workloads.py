"""Recipes of bags of tasks, and of streams of single jobs that each machine's users submit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import MAX_BYTES, MAX_DATA, Columns, ListedWorkload, Machines
from gridsim.model.attributes import (
    Constraints,
    ListedMemory,
    Requirements,
    check_constraints,
    draw_requirements,
)
from gridsim.model.distributions import Amount, check_amount, draw_amounts, largest
from gridsim.model.platform import Platform
from gridsim.support.arguments import normalise, short_repr
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import FloatColumn, IntColumn, RaggedColumn
from gridsim.support.memory import APPLICATION_BYTES, TASK_BYTES, check_fits
from gridsim.support.parameters import FilePath, Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams, normal_factors

if TYPE_CHECKING:
    from gridsim.traces import Bags


#: Largest number of tasks in a workload whose tasks differ in size; each size takes 8 bytes of memory.
MAX_SIZES = 2**30


TaskSize = Annotated[Amount, Limits(above=0, unit="Mflop")]
TaskBytes = Annotated[Amount | None, Limits(low=0, high=MAX_BYTES, unit="bytes")]


class _Spread(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "workload.spread"


class Normal(_Spread, frozen=True, tag="normal"):
    """Normally distributed factors of mean 1; factors of at most 0.01 are redrawn.

    Parameters
    ----------
    deviation
        Standard deviation, >= 0.  Redrawing raises the mean if the deviation is large: to 1.008 with 0.4, to
        1.29 with 1.
    """

    deviation: Annotated[float, Limits(low=0)]

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Draw `count` factors: float64[count], dimensionless."""
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
        """Draw `count` factors: float64[count], dimensionless."""
        width = math.log(self.ratio)
        # rounding errors may lead just outside of the interval
        return np.clip(np.exp(draw.uniform(-width, width, count)), 1 / self.ratio, self.ratio)


class Exponential(_Spread, frozen=True, tag="exponential"):
    """Exponentially distributed factors of mean 1, as in most models of queueing theory; at least 1e-9."""

    def factors(self, draw: np.random.Generator, count: int) -> Floats:
        """Draw `count` factors: float64[count], dimensionless."""
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
        """Draw `count` factors: float64[count], dimensionless."""
        return draw.lognormal(-(self.deviation**2) / 2, self.deviation, count)


Spread = Normal | LogUniform | Exponential | LogNormal

_Seconds = Annotated[float, Limits(low=0, unit="s")]
_ListedBytes = Annotated[FloatColumn, Limits(low=0, high=MAX_BYTES, unit="bytes")]
_Load = Annotated[float, Limits(above=0)] | None
_Reference = Annotated[float, Limits(above=0, unit="Mflop/s")] | None


class BagsKind(Recipe, frozen=True, kw_only=True):
    """Base class of the kinds of workloads that consist of bags of tasks."""

    part: ClassVar[str] = "workload"

    def columns(self, platform: Platform) -> Columns:
        """Return the applications as columns with one entry per application; each kind defines this method.

        Returns
        -------
        dict of str to array
            ``release``, s; ``tasks``, their number; ``task_size``, Mflop; ``submitter``, a number of a
            machine; and optional ones, see `gridsim.model.applications`.
        """
        raise NotImplementedError


def _scale_to_load(columns: Columns, load: float | None, platform: Platform) -> Columns:
    """Return `columns` with releases scaled to an offered load of `load`.

    The offered load is the work over the capacity of the platform between the first and the last release.

    Raises
    ------
    ScenarioError
        If all applications are released at the same time.
    """
    if load is None:
        return columns
    release = columns["release"]
    span = float(release.max() - release.min())
    if not span > 0.0:
        raise ScenarioError("workload.load requires applications with at least two different release times")
    work = columns["task_sizes"] if "task_sizes" in columns else columns["tasks"] * columns["task_size"]
    with np.errstate(over="ignore"):  # `Workload.realize` rejects infinite release times
        release = release * (float(np.sum(work)) / (load * platform.aggregate_speed) / span)
    return {**columns, "release": release}


class BagRecipe(BagsKind, frozen=True, kw_only=True, tag="bags"):
    """Bags of tasks submitted by a Poisson process; the first release is one gap after time 0.

    Parameters
    ----------
    applications
        Number of applications.
    interarrival
        Mean time between two releases, s (exponential); 0 to release all applications at time 0.
    tasks_per_node
        Mean number of tasks of an application, divided by the number of machines.
    tasks
        Mean number of tasks of an application on any platform, in place of tasks_per_node.
    variation
        Largest deviation of the number of tasks from the mean, as a share of the mean; the number is
        uniform on the whole numbers within it.
    task_size
        Size of a task, Mflop: a number; (low, high), in a file {low = ..., high = ...}, for a uniform draw
        per application; or a list of sizes, one of which is drawn per application, all equally likely.  The
        fair tree paper gives no size; it says that a task takes around one minute.
    seed
        Seed of independent random streams: arrivals, tasks, sizes, submitters and spread.  The submitter
        of each application is uniform over the machines.
    spread
        Distribution of task sizes within an application: `Normal`, `LogUniform`, `Exponential` or
        `LogNormal`, in a file a table of the kind ``normal``, ``log-uniform``, ``exponential`` or
        ``log-normal``.  The size of each task is task_size times a drawn factor.  None for tasks of equal
        size.
    load
        Offered load to which all releases are scaled by one factor: the submitted work over the capacity
        of the machines between the first and the last release, whether they are up or down.  None for
        releases as drawn.
    input_bytes
        Bytes that a task fetches before it can be computed, over the link of its machine
        (`Platform.linked`), in the same forms as task_size; None for no data.
    output_bytes
        Bytes that a task sends afterwards over that link; the task ends when they have arrived.
    constraints
        Memory and disk that the tasks of an application need, `Constraints`, drawn with `seed`; None if
        all machines suit all tasks.
    """

    seed: Seed = DEFAULT_SEED
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
                "workload.constraints.kinds must be empty for bags, whose tasks require memory and disk "
                f"only, got {short_repr(self.constraints.kinds)}"
            )
        if not isinstance(self.spread, Spread | None):
            raise ScenarioError(
                "workload.spread must be Normal, LogUniform, Exponential, LogNormal or None, got "
                f"{short_repr(self.spread)}"
            )
        size = check_amount("workload.task_size", self.task_size, "size", above=0, unit="Mflop")
        normalise(self, task_size=size)
        for name in ("input_bytes", "output_bytes"):
            if getattr(self, name) is not None:
                amount = check_amount(f"workload.{name}", getattr(self, name), "number", low=0, unit="bytes")
                if (maximum := largest(amount)) > MAX_BYTES:
                    raise ScenarioError(
                        f"workload.{name} must be at most {MAX_BYTES:g} bytes, got {maximum:g}"
                    )
                normalise(self, **{name: amount})

    def columns(self, platform: Platform) -> Columns:
        streams = Streams(self.seed)
        count = self.applications
        check_fits("workload.applications", count, "applications", APPLICATION_BYTES)
        gaps = streams("workload.arrivals").exponential(self.interarrival, count)
        mean = self.tasks_per_node * platform.nodes if self.tasks is None else self.tasks
        # the factors 1 +- 1e-12 keep a bound that is a whole number in spite of rounding errors
        bound = mean * (1 + self.variation) * (1 + 1e-12)
        _check_count(mean, bound)
        low, high = math.ceil(mean * (1 - self.variation) * (1 - 1e-12)), math.floor(bound)
        if low > high:  # no whole number lies between the bounds
            low = high = round(mean)
        tasks = streams("workload.tasks").integers(max(1, low), max(1, high) + 1, size=count)
        submitter = streams("workload.submitters").integers(platform.nodes, size=count)
        columns: Columns = {
            "release": np.cumsum(gaps),
            "tasks": tasks,
            "task_size": self._sizes(streams),
            "submitter": submitter,
        }
        if self.spread is not None:
            _check_task_total(tasks)
            check_fits("workload.spread", int(tasks.sum()), "tasks of different sizes", TASK_BYTES)
            sizes = np.repeat(columns["task_size"], tasks)
            sizes *= self.spread.factors(streams("workload.spread"), len(sizes))
            columns["task_sizes"] = sizes
        columns |= self._bytes(streams)
        requirements = draw_requirements(self.constraints, self.seed, count)
        return _scale_to_load(_with_requirements(columns, platform, requirements), self.load, platform)

    def _sizes(self, streams: Streams) -> NDArray[np.float64]:
        return draw_amounts(self.task_size, streams, "workload.task_sizes", self.applications)

    def _bytes(self, streams: Streams) -> Columns:
        amounts = {"input_bytes": self.input_bytes, "output_bytes": self.output_bytes}
        return {
            name: np.rint(draw_amounts(amount, streams, f"workload.{name}", self.applications))
            for name, amount in amounts.items()
            if amount is not None
        }


class LogRecipe(BagsKind, frozen=True, kw_only=True, tag="log"):
    """Bags of tasks from a job log, such as SWF, sacct or .tr.

    A bag is a group of jobs of one user, at most `gap` s apart and within `span` s.  A job of p
    processors becomes p tasks.  The task size (Mflop) is the mean run time of the bag's tasks times
    `reference_speed`.  Bags are released as recorded, the first at 0 s.  Each user submits at one
    machine, drawn uniformly with `seed`.

    A .tr log has the duration of every task.  Each of its jobs is one bag, submitted at a machine that is
    drawn for the job; jobs of one submit time are released 0.01 s apart.  Schedulers see the mean
    duration that the log states as the estimate of the bag's tasks (`Applications.estimate`).

    Jobs of unknown run time are left out, and run times of 0 s count as 1 s, both with a warning.  Users that
    a GWF log names, such as U12, are numbered in the order in which they appear.

    `gap` and `span` do not apply to .tr logs, `whole_seconds` applies only to them.  `realize` reads
    the file, and rejects a job of more processors than the platform has machines.

    Parameters
    ----------
    path
        Path of the log, plain or gzip.
    gap
        Longest time between two jobs of a bag, s.
    span
        Longest time from the first job of a bag to the last, s.
    reference_speed
        Speed of the log's machines, Mflop/s; None for the mean speed of the platform.
    seed
        Seed of the draw of the users' machines, and of the draw of tasks with tasks_per_node.
    own_sizes
        If true, the run time of each task is that of its job (0 s counts as 1 s), so that tasks of a bag
        may differ in size; if false, it is the mean of the bag.  None is true for a .tr log and false for
        other logs.
    tasks_per_node
        Number of tasks of each bag per machine, in place of the number in the log; a bag has at least 1
        task.  With own_sizes, sizes are drawn from the tasks of the bag, with replacement.
    min_tasks
        Smallest number of tasks in the log of the bags that are used.
    skip, max_applications
        Number of these bags that are left out at the beginning, and largest number of bags after them.
    whole_seconds
        If true, durations and mean durations of a .tr log are truncated to whole seconds.  A task of 0 s
        counts as 0.001 s.
    load
        Offered load to which all releases are scaled by one factor: the submitted work over the capacity
        of the machines between the first and the last release, whether they are up or down.  None for
        releases as recorded.
    """

    path: FilePath
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
    def description(self) -> str:
        """Description, in one line, of the conversion of the jobs of the log to applications."""
        from gridsim.traces import format_of_name

        if format_of_name(self.path) == "tr":
            equal = ", whose tasks all have its mean duration" if self.own_sizes is False else ""
            line, rigid = f"each job becomes one application{equal}", ""
        else:
            size = "of its run time" if self.own_sizes else "of the mean run time in their application"
            line = f"jobs of one user at most {self.gap:g} s apart become one application, and a job of p "
            line += f"processors p independent tasks {size}"
            rigid = "; --rigid and Workload.jobs_from_log keep the jobs as they are"
        if self.tasks_per_node is not None:
            line += f"; each application is scaled to {self.tasks_per_node:g} tasks a machine"
        if self.load is not None:
            line += f"; releases are scaled to a load of {self.load:g}"
        return f"{self.path}: {line}{rigid}"

    def columns(self, platform: Platform) -> Columns:
        from gridsim.traces.bags import report_bags
        from gridsim.traces.info import load_bags

        log, bags = load_bags(self.path, gap=self.gap, span=self.span, whole_seconds=self.whole_seconds)
        if not len(bags):
            report_bags(log, bags)
            raise ScenarioError(f"{self.path}: the log must have jobs that ran for a known time, got none")
        large = np.flatnonzero(bags.tasks >= self.min_tasks)
        selection = large[self.skip :][: self.max_applications]
        if not len(selection):
            raise ScenarioError(
                f"{self.path}: the log must have more than {self.skip} bags (workload.skip) of at least "
                f"{self.min_tasks} tasks (workload.min_tasks), got {len(large)}"
            )
        report_bags(log, bags, selection)
        bags.check_size(self.path, selection, platform.nodes)
        tasks = bags.tasks[selection]
        if self.tasks_per_node is not None:
            mean = self.tasks_per_node * platform.nodes
            _check_count(mean, mean)
            tasks = np.full(len(selection), max(1, round(mean)), dtype=np.int64)
        speed = self.reference_speed or platform.aggregate_speed / platform.core_count
        own_sizes = bags.estimate is not None if self.own_sizes is None else self.own_sizes
        users, user_of = np.unique(bags.user, return_inverse=True)
        homes = Streams(self.seed)("workload.submitters").integers(platform.nodes, size=len(users))
        columns = {
            "release": bags.release[selection] - bags.release[selection[0]],
            "tasks": tasks,
            "task_size": bags.run_time[selection] * speed,
            "submitter": homes[user_of[selection]],
        }
        if own_sizes:
            run_times = self._task_run_times(bags, selection, _check_task_total(tasks))
            columns["task_sizes"] = run_times * speed
            if bags.estimate is not None:  # if all tasks have the mean size, there is nothing to estimate
                columns["estimate"] = bags.estimate[selection] * speed
        return _scale_to_load(columns, self.load, platform)

    def _task_run_times(self, bags: Bags, selection: Integers, tasks: Integers) -> Floats:
        """Return the run times (s) of the tasks of each bag in `selection`, one bag after another.

        Parameters
        ----------
        tasks
            Number of tasks of each bag.  With tasks_per_node in the recipe, their run times are drawn from
            those of the bag in the log.
        """
        draw, offsets, parts = Streams(self.seed)("workload.scaled"), bags.offsets, []
        for bag, count in zip(selection.tolist(), tasks.tolist(), strict=True):
            jobs = slice(offsets[bag], offsets[bag + 1])
            run_times = np.repeat(bags.job_run_time[jobs], bags.job_procs[jobs])
            is_scaled = self.tasks_per_node is not None
            parts.append(run_times[draw.integers(len(run_times), size=count)] if is_scaled else run_times)
        return np.concatenate(parts)


class ListRecipe(ListedWorkload, frozen=True, kw_only=True, tag="list"):
    """A list of applications.

    In Python, a single value in place of a list other than `release` is that of all applications.

    Parameters
    ----------
    tasks
        Number of tasks, one entry per application.
    task_size
        Size of a task, Mflop, one entry per application.
    submitter
        Machine that submits each application; by default machine i modulo the number of machines submits
        application i.
    data
        Bytes of a task's instructions and data, and of its result, one entry per application.
    input_bytes
        Bytes that a task fetches over the link of its machine (`Platform.linked`) before it can be computed,
        one entry per application.
    output_bytes
        Bytes that a task sends over that link afterwards, one entry per application.
    memory, disk
        Bytes that a task needs on its machine (`Platform.with_attributes`); one entry per application.
    """

    tasks: Annotated[IntColumn, Limits(low=1, high=2**53)]
    task_size: Annotated[FloatColumn, Limits(above=0, unit="Mflop")]
    submitter: Machines | None = None
    data: Annotated[IntColumn, Limits(low=0, high=MAX_DATA)] | None = None
    input_bytes: _ListedBytes | None = None
    output_bytes: _ListedBytes | None = None
    memory: ListedMemory | None = None
    disk: ListedMemory | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns("application")

    def columns(self, platform: Platform) -> Columns:
        columns = self.listed_columns(platform.nodes)
        needs = Requirements(columns.pop("memory", None), disk=columns.pop("disk", None))
        return _with_requirements(columns, platform, needs)


class TasksRecipe(ListedWorkload, frozen=True, kw_only=True, tag="tasks"):
    """A list of applications with the size of every task.

    In Python, a single value in place of a list other than `release` is that of all applications.

    Parameters
    ----------
    sizes
        Size of every task, Mflop, one list per application.
    submitter
        Machine that submits each application; by default machine i modulo the number of machines submits
        application i.
    estimate
        Task size that submitters state and schedulers see, Mflop, which may be wrong; one entry per
        application.  By default it is the mean of the sizes.
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
        columns = self.listed_columns(platform.nodes)
        return {**columns, "tasks": self.sizes.counts, "task_sizes": self.sizes.values}


def _with_requirements(columns: Columns, platform: Platform, requirements: Requirements) -> Columns:
    """Return `columns` with the requirements of tasks.

    Raises
    ------
    ScenarioError
        If no machine meets the requirements of an application.
    """
    if not requirements.any:
        return columns
    attributes = platform.attributes
    group, suited = requirements.groups(attributes, "tasks")
    for i in first_true(suited.sum(axis=1)[group] == 0):
        names = [name for name in ("memory", "disk") if getattr(requirements, name) is not None]
        capacities = {name: getattr(attributes, name) for name in names}
        fields = " and ".join(f"workload.{name}" for name in capacities)
        limits = " and ".join(
            f"{name} of up to {column.max():g} bytes" for name, column in capacities.items()
        )
        raise ScenarioError(
            f"{fields} must suit at least one machine, got "
            f"{requirements.describe(i)} for application {i}; machines have {limits}"
        )
    return columns | requirements.columns(group, suited)


def _check_count(mean: float, bound: float) -> None:
    if bound >= 2**53:
        raise ScenarioError(f"workload.tasks must be below 2**53 per application, got {mean:g}")


def _check_task_total(tasks: Integers) -> Integers:
    """Return `tasks`, or raise ScenarioError if there are too many tasks to keep the size of each."""
    if (total := sum(tasks.tolist())) > MAX_SIZES:
        raise ScenarioError(
            f"workload.tasks must be at most {MAX_SIZES} in total if tasks differ in size, got {total}"
        )
    return tasks


#: Largest number of jobs of a workload.
MAX_JOBS = 2**31 - 1


class StreamRecipe(BagsKind, frozen=True, kw_only=True, tag="streams"):
    """Jobs of one task, submitted by a Poisson process at every machine (RJSS paper, section 2.1).

    The means of each machine are drawn once, from normal distributions around the parameters.  A value
    from a normal distribution is redrawn if it is at most 0.01 of the mean.

    Parameters
    ----------
    horizon
        Time during which jobs are submitted, s.
    interarrival
        Mean time between two jobs at a machine of the mean rate, s.
    processing_time
        Processing time of a job at `reference_speed`, s, mean over machines.
    data
        Bytes of a job's instructions and data, and of its result, mean over machines.  The bytes of a
        single job are exponential, rounded up.
    variation
        Standard deviation of the means of machines (rate, processing time, data), relative to the
        parameters.
    deviation
        Standard deviation of the processing times of a machine's jobs, relative to their mean.
    reference_speed
        Mflop/s; by default the mean speed of the platform.
    seed
        Seed of independent random streams: rates, means and jobs.
    """

    seed: Seed = DEFAULT_SEED
    horizon: Annotated[float, Limits(above=0, unit="s")] = 2000.0
    interarrival: Annotated[float, Limits(above=0, unit="s")] = 20.0
    processing_time: Annotated[float, Limits(above=0, unit="s")] = 30.0
    data: Annotated[float, Limits(low=0, unit="bytes")] = 5000.0
    variation: Annotated[float, Limits(low=0)] = 0.2
    deviation: Annotated[float, Limits(low=0)] = 0.2
    reference_speed: _Reference = None

    def columns(self, platform: Platform) -> Columns:
        streams, nodes = Streams(self.seed), platform.nodes

        def machine_means(name: str, mean: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return mean * normal_factors(streams(f"workload.{name}"), self.variation, nodes)

        rates = machine_means("rates", 1 / self.interarrival)
        mean_jobs = float(rates.sum()) * self.horizon  # inf if it is too large for a float
        if not mean_jobs <= MAX_JOBS / 2:
            raise ScenarioError(
                f"workload.horizon must give at most {MAX_JOBS // 2} jobs on average, got {mean_jobs:.3g}"
            )
        check_fits("workload.horizon", round(mean_jobs), "jobs", APPLICATION_BYTES)
        draw = streams("workload.arrivals")
        counts = draw.poisson(rates * self.horizon)
        if not (total := int(counts.sum())):
            raise ScenarioError(
                f"workload.horizon must be long enough for at least one job, got {self.horizon!r} s"
            )
        home = np.repeat(np.arange(nodes), counts)
        # for a fixed number of arrivals, the arrival times of a Poisson process are independent and uniform
        release = draw.uniform(0.0, self.horizon, total)
        work = machine_means("processing_times", self.processing_time)[home]
        work *= normal_factors(streams("workload.jobs"), self.deviation, total)
        work *= self.reference_speed or platform.aggregate_speed / platform.core_count
        scale = machine_means("data", self.data)[home]
        data = np.ceil(streams("workload.data_of_jobs").exponential(scale))
        if (maximum := float(data.max())) > MAX_DATA:
            raise ScenarioError(
                f"workload.data must give each job at most {MAX_DATA} bytes, got {maximum:g} with a mean of "
                f"{self.data:g}"
            )
        return {
            "release": release,
            "tasks": np.ones(total, np.int64),
            "task_size": work,
            "submitter": home,
            "data": data.astype(np.int64),
            "rates": rates,
        }
