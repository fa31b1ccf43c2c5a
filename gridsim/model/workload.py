"""Workload: the submitted applications, with times and machines, generated from a recipe."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import OPTIONAL_COLUMNS, PER_APPLICATION, Applications, ListedWorkload
from gridsim.model.attributes import Constraints
from gridsim.model.bag_workloads import (
    BagRecipe,
    ListRecipe,
    LogRecipe,
    Spread,
    StreamRecipe,
    TasksRecipe,
)
from gridsim.model.distributions import amount_of
from gridsim.model.platform import Platform
from gridsim.model.rigid_workloads import JobListRecipe, JobLogRecipe, JobRecipe, RigidRecipe
from gridsim.support.arguments import sequence, suggest_arguments, text
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.clock import NS
from gridsim.support.columns import ArrayColumn
from gridsim.support.random_streams import DEFAULT_SEED

#: Number of task sizes that are summed in one step; the step then ends with the current application.
_BLOCK_SIZES = 1 << 18
#: Latest release (s), as the clock counts int64 nanoseconds.
LATEST_RELEASE = 4.0e9

WorkloadRecipe = BagRecipe | LogRecipe | ListRecipe | TasksRecipe | StreamRecipe | RigidRecipe


def _with_length(path: str, values: Any) -> Any:
    """Return `values` as a sequence with a length, or raise a ScenarioError that begins with `path`."""
    plain = isinstance(values, (list, tuple, ArrayColumn)) or (isinstance(values, np.ndarray) and values.ndim)
    return values if plain else sequence(path, values)


def _column(value: Any, count: int) -> Any:
    """Return a single value as a column of `count` equal entries, and other values unchanged."""
    if isinstance(value, str):
        return [value] * count
    return np.full(count, value) if isinstance(value, (int, float, np.number)) else value


def _means_and_sums(tasks: Integers, sizes: Floats, order: Integers) -> tuple[Floats, Floats, Floats | None]:
    """Return the mean and the sum of each application's `sizes`, and the sizes of applications in `order`.

    The third value is None if the tasks of each application are equal.
    """
    starts = np.cumsum(tasks) - tasks
    for k in first_true(~(np.isfinite(sizes) & (sizes > 0))):
        i = int(np.searchsorted(starts, k, side="right")) - 1
        raise ScenarioError(
            f"workload.sizes[{i}][{k - starts[i]}] must be a finite number > 0 Mflop, got {float(sizes[k])!r}"
        )
    if len(sizes) == len(tasks):  # each application has one task
        return sizes, sizes, None
    low, high = np.minimum.reduceat(sizes, starts), np.maximum.reduceat(sizes, starts)
    size = _sums(sizes, starts, tasks, low)
    mean = np.clip(size / tasks, low, high)  # the mean of equal sizes is exactly that size
    if np.array_equal(low, high):
        return mean, size, None
    if (order[1:] > order[:-1]).all():
        return mean, size, sizes
    tasks, starts = tasks[order], starts[order]
    task = np.repeat(starts - (np.cumsum(tasks) - tasks), tasks)
    task += np.arange(len(sizes))
    return mean, size, sizes[task]


def _sums(sizes: Floats, starts: Integers, tasks: Integers, low: Floats) -> Floats:
    """Return the sum of each application's `sizes`, rounded once.

    Parameters
    ----------
    starts
        Index of each application's first size.
    low
        Smallest size of each application.

    Raises
    ------
    ScenarioError
        If a sum is infinite.
    """
    ends, sums = starts + tasks, np.zeros(len(tasks))
    # sum blocks of applications, to limit the number of sizes that are copied to the wider type at once
    blocks = np.searchsorted(ends, np.arange(0, len(sizes), _BLOCK_SIZES), side="right").tolist()
    for first, last in pairwise(dict.fromkeys([*blocks, len(tasks)])):
        block, start, stop = slice(first, last), starts[first], ends[last - 1]
        wide = np.add.reduceat(sizes[start:stop].astype(np.longdouble), starts[block] - start)
        with np.errstate(over="ignore"):
            sums[block] = wide
            # sums up to this limit are exact, since all sizes are multiples of the spacing of the smallest
            exact = wide <= np.spacing(low[block]) * 2.0 ** np.finfo(np.longdouble).nmant
        exact &= np.isfinite(sums[block])
        for i in (first + np.flatnonzero(~exact)).tolist():
            part = sizes[starts[i] : ends[i]]
            try:
                sums[i] = math.fsum(part.tolist())
            except OverflowError:
                raise ScenarioError(
                    f"workload.sizes[{i}] must have a finite sum, got sizes of up to {part.max():g} Mflop"
                ) from None
    return sums


@suggest_arguments
@dataclass(frozen=True)
class Workload:
    """The submitted applications, with times and machines.  Workloads with equal recipes are equal.

    Parameters
    ----------
    recipe
        Recipe of the workload; the constructors below make it.
    """

    recipe: WorkloadRecipe

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs rather than bags of tasks."""
        return isinstance(self.recipe, RigidRecipe)

    @cached_property
    def origin(self) -> float:
        """Time of a list of applications or jobs at which the clock of a run begins, s.

        By default it is the first release of the list.  It is 0 for other workloads, whose releases are drawn
        from time 0 on or counted from the first job of a log.
        """
        recipe = self.recipe
        if not isinstance(recipe, ListedWorkload):
            return 0.0
        return float(recipe.release.array.min()) if recipe.origin is None else recipe.origin

    @property
    def remarks(self) -> dict[str, str]:
        """Topic -> line, for properties of the workload that are not obvious from its recipe.

        ``log`` is the conversion of the jobs of a log to bags of tasks.  ``clock`` is the meaning of time 0
        for a log, or for a list that does not begin at 0 s.
        """
        recipe, lines = self.recipe, {}
        if isinstance(recipe, LogRecipe):
            lines["log"] = recipe.description
        if isinstance(recipe, LogRecipe | JobLogRecipe):
            lines["clock"] = "times are s since the first release of the log"
        elif self.origin:
            lines["clock"] = f"times are s since {self.origin!r} s of the workload, at which the run begins"
        return lines

    @classmethod
    def bags(
        cls,
        applications: int = 100,
        interarrival: float = 10.0,
        tasks_per_node: float = 10.0,
        variation: float = 0.2,
        task_size: float | tuple[float, float] | Sequence[float] = 65536.0,
        *,
        seed: int,
        tasks: float | None = None,
        spread: Spread | None = None,
        load: float | None = None,
        input_bytes: float | tuple[float, float] | Sequence[float] | None = None,
        output_bytes: float | tuple[float, float] | Sequence[float] | None = None,
        constraints: Constraints | None = None,
    ) -> Workload:
        """Draw bags of tasks submitted by a Poisson process; the first release is one gap after time 0.

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
            Size of a task, Mflop: a number, a tuple (low, high) for a uniform draw per application, or a list
            of sizes, one of which is drawn per application, all equally likely.
        seed
            Seed of independent random streams: arrivals, tasks, sizes, submitters and spread.  The submitter
            of each application is uniform over the machines.
        spread
            Distribution of task sizes within an application, `Normal`, `LogUniform`, `Exponential` or
            `LogNormal`: the size of each task is task_size times a drawn factor.  None for tasks of equal
            size.
        load
            Offered load to which all releases are scaled by one factor: the submitted work over the capacity
            of the machines between the first and the last release.  None for releases as drawn.
        input_bytes
            Bytes that a task fetches before it can be computed, over the link of its machine
            (`Platform.linked`), in the same forms as task_size; None for no data.
        output_bytes
            Bytes that a task sends afterwards over that link; the task ends when they have arrived.
        constraints
            Memory and disk that the tasks of an application need, `Constraints`, drawn with `seed`; None if
            all machines suit all tasks.
        """
        recipe = BagRecipe(
            applications=applications,
            interarrival=interarrival,
            tasks_per_node=tasks_per_node,
            variation=variation,
            task_size=amount_of("workload.task_size", task_size, above=0, unit="Mflop"),
            seed=seed,
            tasks=tasks,
            spread=spread,
            load=load,
            input_bytes=None
            if input_bytes is None
            else amount_of("workload.input_bytes", input_bytes, low=0, unit="bytes"),
            output_bytes=None
            if output_bytes is None
            else amount_of("workload.output_bytes", output_bytes, low=0, unit="bytes"),
            constraints=constraints,
        )
        return cls(recipe)

    @classmethod
    def from_log(
        cls,
        path: str | os.PathLike[str],
        gap: float = 120.0,
        span: float = 120.0,
        reference_speed: float | None = None,
        seed: int = DEFAULT_SEED,
        max_applications: int | None = None,
        *,
        own_sizes: bool | None = None,
        tasks_per_node: float | None = None,
        min_tasks: int = 1,
        skip: int = 0,
        whole_seconds: bool = True,
        load: float | None = None,
    ) -> Workload:
        """Derive bags of tasks from a job log (SWF, GWF, .tr).

        A bag is a group of jobs of one user, at most `gap` s apart and within `span` s.  A job of p
        processors becomes p tasks.  The task size (Mflop) is the mean run time of the bag's tasks times
        `reference_speed`.  Bags are released as recorded, the first at 0 s.  Each user submits at one
        machine, drawn uniformly with `seed`.

        A .tr log has the duration of every task.  Each of its jobs is one bag, submitted at a machine that is
        drawn for the job; jobs of one submit time are released 0.01 s apart.  Schedulers see the mean
        duration that the log states as the estimate of the bag's tasks (`Applications.estimate`).

        `gap` and `span` apply only to SWF and GWF logs, `whole_seconds` only to .tr logs.  `realize` reads
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
            of the machines between the first and the last release.  None for releases as recorded.
        """
        recipe = LogRecipe(
            path=text("workload.path", path),
            gap=gap,
            span=span,
            reference_speed=reference_speed,
            seed=seed,
            max_applications=max_applications,
            own_sizes=own_sizes,
            tasks_per_node=tasks_per_node,
            min_tasks=min_tasks,
            skip=skip,
            whole_seconds=whole_seconds,
            load=load,
        )
        return cls(recipe)

    @classmethod
    def of(
        cls,
        release: Sequence[float] | NDArray[Any],
        tasks: int | Sequence[int] | NDArray[Any],
        task_size: float | Sequence[float] | NDArray[Any],
        submitter: Sequence[int] | NDArray[Any] | None = None,
        data: int | Sequence[int] | NDArray[Any] | None = None,
        input_bytes: float | Sequence[float] | NDArray[Any] | None = None,
        output_bytes: float | Sequence[float] | NDArray[Any] | None = None,
        memory: float | Sequence[float] | NDArray[Any] | None = None,
        disk: float | Sequence[float] | NDArray[Any] | None = None,
        *,
        origin: float | None = None,
    ) -> Workload:
        """Use a list of applications.

        Parameters
        ----------
        release
            Release time, s, one entry per application, in any order.
        tasks, task_size
            Number of tasks, and size of a task (Mflop); one value for all applications, or one entry each.
        submitter
            Machine that submits each application; by default machine i modulo the number of machines submits
            application i.
        data
            Bytes of a task's instructions and data, and of its result; one value for all applications, or one
            entry each.
        input_bytes, output_bytes
            Bytes that a task fetches over the link of its machine before it can be computed, and that it
            sends afterwards (`Platform.linked`); one value for all applications, or one entry each.
        memory, disk
            Bytes that a task needs on its machine (`Platform.with_attributes`); one value for all
            applications, or one entry each.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        """
        releases = _with_length("workload.release", release)
        count = len(releases)
        return cls(
            ListRecipe(
                release=releases,
                tasks=_column(tasks, count),
                task_size=_column(task_size, count),
                submitter=_column(submitter, count),
                data=_column(data, count),
                input_bytes=_column(input_bytes, count),
                output_bytes=_column(output_bytes, count),
                memory=_column(memory, count),
                disk=_column(disk, count),
                origin=origin,
            )
        )

    @classmethod
    def of_tasks(
        cls,
        release: Sequence[float] | NDArray[Any],
        sizes: Sequence[Sequence[float] | NDArray[Any]],
        submitter: Sequence[int] | NDArray[Any] | None = None,
        estimate: float | Sequence[float] | NDArray[Any] | None = None,
        *,
        origin: float | None = None,
    ) -> Workload:
        """Use a list of applications with the size of every task.

        Parameters
        ----------
        release
            Release time, s, one entry per application, in any order.
        sizes
            Size of every task, Mflop, one list per application.
        submitter
            Machine that submits each application; by default machine i modulo the number of machines submits
            application i.
        estimate
            Task size that submitters state and schedulers see, Mflop, which may be wrong; one value for all
            applications, or one entry each.  By default it is the mean of the sizes.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        """
        releases, rows = _with_length("workload.release", release), _with_length("workload.sizes", sizes)
        count = len(releases)
        return cls(
            TasksRecipe(
                release=releases,
                sizes=rows,
                submitter=_column(submitter, count),
                estimate=_column(estimate, count),
                origin=origin,
            )
        )

    @classmethod
    def job_streams(
        cls,
        horizon: float = 2000.0,
        interarrival: float = 20.0,
        processing_time: float = 30.0,
        data: float = 5000.0,
        variation: float = 0.2,
        deviation: float = 0.2,
        reference_speed: float | None = None,
        *,
        seed: int,
    ) -> Workload:
        """Draw jobs of one task, submitted by a Poisson process at every machine (RJSS paper, section 2.1).

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
        recipe = StreamRecipe(
            horizon=horizon,
            interarrival=interarrival,
            processing_time=processing_time,
            data=data,
            variation=variation,
            deviation=deviation,
            reference_speed=reference_speed,
            seed=seed,
        )
        return cls(recipe)

    @classmethod
    def jobs(
        cls,
        jobs: int = 1000,
        profile: str = "wagap2013",
        utilization: float = 0.25,
        max_nodes: int | None = None,
        constraints: Constraints | None = None,
        *,
        seed: int,
    ) -> Workload:
        """Draw rigid jobs from the statistics of a real log; the first is submitted at 0 s.

        Nodes, run times, gaps between submissions and requested times have the quantiles of the log.  They
        also have its rank correlations of nodes with run times, and of each job with the previous one, as
        users submit many similar jobs.  Each job is submitted at a machine drawn uniformly.

        Parameters
        ----------
        jobs
            Number of jobs.
        seed
            Seed of the draw of the jobs and of the machines at which they are submitted.
        profile
            Log whose statistics are used, ``"wagap2013"`` or ``"ricc2010"``.
        utilization
            Request utilization to which the gaps are scaled: the sum of nodes * run time over the capacity of
            the machines from the first to the last submission.
        max_nodes
            Largest number of nodes of a job; by default the number of machines.
        constraints
            Requirements of jobs on machines, `Constraints`, drawn with `seed`; None if all machines suit all
            jobs.  The nodes of a job are at most the machines that suit it.
        """
        recipe = JobRecipe(
            jobs=jobs,
            profile=profile,
            utilization=utilization,
            max_nodes=max_nodes,
            constraints=constraints,
            seed=seed,
        )
        return cls(recipe)

    @classmethod
    def jobs_from_log(
        cls,
        path: str | os.PathLike[str],
        procs_per_node: int = 1,
        utilization: float | None = None,
        start: float = 0.0,
        end: float = math.inf,
        max_nodes: int | None = None,
        copies: int = 1,
        jitter: float = 3600.0,
        at_home: bool = False,
        seed: int = DEFAULT_SEED,
        constraints: Constraints | None = None,
    ) -> Workload:
        """Use the rigid jobs of a log (SWF or GWF), released as recorded, the first at 0 s.

        `realize` reads the file, and rejects a job of more nodes than the platform has machines that suit it.

        Parameters
        ----------
        path
            Path of the log, plain or gzip.
        seed
            Seed of the draw of the machines at which jobs are submitted, and of the jitter.
        procs_per_node
            Processors per node; a job of p processors needs ceil(p / procs_per_node) nodes.
        utilization
            Request utilization to which submit times are compressed or stretched; None for submit times as
            recorded.
        start, end
            Window of submit times of the jobs that are used, s after the first submission of the log.
        max_nodes
            Largest number of nodes of a job; larger jobs are left out, with a warning.
        copies, jitter
            Number of times that each job is submitted, and longest delay of further copies (s, uniform).  The
            load is the same on `copies` times as many machines.
        at_home
            If true, each user of each copy submits at one machine; if false, a machine is drawn for each job.
            Both draws are uniform and use `seed`.
        constraints
            Requirements of jobs on machines, `Constraints`, drawn with `seed`; None if all machines suit all
            jobs.
        """
        recipe = JobLogRecipe(
            path=text("workload.path", path),
            procs_per_node=procs_per_node,
            utilization=utilization,
            start=start,
            end=end,
            max_nodes=max_nodes,
            copies=copies,
            jitter=jitter,
            at_home=at_home,
            seed=seed,
            constraints=constraints,
        )
        return cls(recipe)

    @classmethod
    def jobs_of(
        cls,
        release: Sequence[float] | NDArray[Any],
        nodes: int | Sequence[int] | NDArray[Any],
        run_time: float | Sequence[float] | NDArray[Any],
        requested: float | Sequence[float] | NDArray[Any] | None = None,
        submitter: Sequence[int] | NDArray[Any] | None = None,
        memory: float | Sequence[float] | NDArray[Any] | None = None,
        kinds: str | Sequence[str] | NDArray[Any] | None = None,
        *,
        disk: float | Sequence[float] | NDArray[Any] | None = None,
        not_before: float | Sequence[float] | NDArray[Any] | None = None,
        deadline: float | Sequence[float] | NDArray[Any] | None = None,
        cancel_at: float | Sequence[float] | NDArray[Any] | None = None,
        origin: float | None = None,
    ) -> Workload:
        """Use a list of rigid jobs.

        Each parameter except `release` and `submitter` is one value for all jobs, or one entry per job.
        Times are on the clock of the releases.

        Parameters
        ----------
        release
            Release time, s, one entry per job, in any order.
        nodes
            Number of machines that a job needs at once.
        run_time
            Run time, s.
        requested
            Run time that the user requested, s; by default `run_time`.
        submitter
            Machine that submits each job; by default machine i modulo the number of machines submits job i.
        memory, disk
            Bytes that a job needs on each of its machines.
        kinds
            Kind of machines that a job needs, empty for any.
        not_before
            Earliest start of a job (an advance reservation), s; by default its release.
        deadline
            Time by which the reservation of a job must end, or it is rejected, s; inf for none.
        cancel_at
            Time at which the user cancels a job unless it has ended, s, after its release; inf for never.
        origin
            Time at which a run begins, s, on the clock of the releases; by default the first release.  Times
            of the run count from it.  With an earlier origin, failures and status messages precede the first
            release.
        """
        releases = _with_length("workload.release", release)
        count = len(releases)
        return cls(
            JobListRecipe(
                release=releases,
                nodes=_column(nodes, count),
                run_time=_column(run_time, count),
                requested=_column(requested, count),
                submitter=_column(submitter, count),
                memory=_column(memory, count),
                kinds=_column(kinds, count),
                disk=_column(disk, count),
                not_before=_column(not_before, count),
                deadline=_column(deadline, count),
                cancel_at=_column(cancel_at, count),
                origin=origin,
            )
        )

    def realize(self, platform: Platform) -> Applications:
        """Return the applications on `platform` in order of release; ties keep the order of the recipe.

        Times count from `origin`.
        """
        with np.errstate(over="ignore"):  # infinite results are rejected below
            columns = self.recipe.columns(platform)
        release = columns["release"] - self.origin
        log = f"{self.recipe.path}: " if isinstance(self.recipe, (LogRecipe, JobLogRecipe)) else ""
        for i in first_true(~(release <= LATEST_RELEASE)):
            reference = " after the first" if log else f" after {self.origin!r} s" if self.origin else ""
            raise ScenarioError(
                f"{log}workload.release[{i}] must be at most {LATEST_RELEASE:g} s{reference}, "
                f"got {float(columns['release'][i])!r}"
            )
        release_ns = np.rint(release * NS).astype(np.int64)
        order = np.argsort(release_ns, kind="stable")
        tasks = columns["tasks"]
        if "task_sizes" in columns:
            sizes = columns.pop("task_sizes")
            columns["task_size"], size, ordered = _means_and_sums(tasks, sizes, order)
            if ordered is not None:
                columns["task_sizes"] = ordered
        else:
            with np.errstate(over="ignore"):
                size = tasks * columns["task_size"]
        for i in first_true(~np.isfinite(size)):
            size_i = f"{columns['task_size'][i]:g} Mflop"
            raise ScenarioError(f"{log}workload.task_size[{i}] must keep tasks * size finite, got {size_i}")
        for name, column in OPTIONAL_COLUMNS.items():
            if name in columns:
                if column.is_time:
                    columns[name] = np.maximum(columns[name] - self.origin, 0.0)
                if not column.has_effect(columns[name], release):
                    del columns[name]
        release_ns = release_ns[order]
        columns["size"] = size
        for name in set(PER_APPLICATION) & set(columns):
            columns[name] = columns[name][order]
        columns |= {"release_ns": release_ns, "release": release_ns / NS}
        for each in columns.values():
            each.flags.writeable = False
        return Applications(**columns)
