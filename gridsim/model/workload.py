"""Workload: which applications are submitted, when and where; made from a recipe, as platforms are."""

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
from gridsim.model.applications import Applications, Listed
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

#: Sizes of tasks that are summed at a time, besides those of one more application.
_AT_A_TIME = 1 << 18
#: The latest release (s).  The clock counts int64 nanoseconds.
LATEST_RELEASE = 4.0e9

WorkloadRecipe = BagRecipe | LogRecipe | ListRecipe | TasksRecipe | StreamRecipe | RigidRecipe


def _with_length(path: str, values: Any) -> Any:
    """Return `values` as something that has a length, or raise a ScenarioError naming `path`."""
    plain = isinstance(values, (list, tuple, ArrayColumn)) or (isinstance(values, np.ndarray) and values.ndim)
    return values if plain else sequence(path, values)


def _column(value: Any, count: int) -> Any:
    """Return a column of `count` entries: a single value is repeated, other values are taken as they are."""
    if isinstance(value, str):
        return [value] * count
    return np.full(count, value) if isinstance(value, (int, float, np.number)) else value


def _summed(tasks: Integers, sizes: Floats, order: Integers) -> tuple[Floats, Floats, Floats | None]:
    """Return the mean and the sum of each application's `sizes`, and the sizes sorted into `order`.

    The third is None if the tasks of each application are equal.
    """
    begins = np.cumsum(tasks) - tasks
    for k in first_true(~(np.isfinite(sizes) & (sizes > 0))):
        i = int(np.searchsorted(begins, k, side="right")) - 1
        raise ScenarioError(
            f"workload.sizes[{i}][{k - begins[i]}] must be a finite number > 0 Mflop, got {float(sizes[k])!r}"
        )
    if len(sizes) == len(tasks):  # one task each
        return sizes, sizes, None
    low, high = np.minimum.reduceat(sizes, begins), np.maximum.reduceat(sizes, begins)
    size = _sums(sizes, begins, tasks, low)
    mean = np.clip(size / tasks, low, high)  # equal sizes have exactly their own mean
    if np.array_equal(low, high):
        return mean, size, None
    if (order[1:] > order[:-1]).all():
        return mean, size, sizes
    tasks, begins = tasks[order], begins[order]
    task = np.repeat(begins - (np.cumsum(tasks) - tasks), tasks)
    task += np.arange(len(sizes))
    return mean, size, sizes[task]


def _sums(sizes: Floats, begins: Integers, tasks: Integers, low: Floats) -> Floats:
    """Return the sum of each application's `sizes`, rounded once.

    Raises ScenarioError for an infinite sum.

    Parameters
    ----------
    begins, low
        The index of the first of its sizes, and the smallest of them.
    """
    ends, sums = begins + tasks, np.zeros(len(tasks))
    # some applications at a time, so that few sizes are in the wider type at once
    blocks = np.searchsorted(ends, np.arange(0, len(sizes), _AT_A_TIME), side="right").tolist()
    for first, last in pairwise(dict.fromkeys([*blocks, len(tasks)])):
        some, start, stop = slice(first, last), begins[first], ends[last - 1]
        wide = np.add.reduceat(sizes[start:stop].astype(np.longdouble), begins[some] - start)
        with np.errstate(over="ignore"):
            sums[some] = wide
            # all sizes are multiples of the spacing of the smallest, so the wider type has such a sum exactly
            exact = wide <= np.spacing(low[some]) * 2.0 ** np.finfo(np.longdouble).nmant
        exact &= np.isfinite(sums[some])
        for i in (first + np.flatnonzero(~exact)).tolist():
            part = sizes[begins[i] : ends[i]]
            try:
                sums[i] = math.fsum(part.tolist())
            except OverflowError:
                raise ScenarioError(
                    f"workload.sizes[{i}] must have a finite sum, got {part.max():g} Mflop among them"
                ) from None
    return sums


@suggest_arguments
@dataclass(frozen=True)
class Workload:
    """Which applications are submitted, when and where.  Two workloads are equal when their recipes are.

    Parameters
    ----------
    recipe
        How the workload was made; use the constructors below.
    """

    recipe: WorkloadRecipe

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs rather than bags of tasks."""
        return isinstance(self.recipe, RigidRecipe)

    @cached_property
    def origin(self) -> float:
        """The time of a list of applications or jobs at which the clock of a run begins, s.

        It is the first release unless the list says otherwise, and 0 for other workloads: releases are drawn
        from time 0 on, or counted from the first job of a log.
        """
        recipe = self.recipe
        if not isinstance(recipe, Listed):
            return 0.0
        return float(recipe.release.array.min()) if recipe.origin is None else recipe.origin

    @property
    def remarks(self) -> dict[str, str]:
        """What a line on the workload is about -> its text, of what its recipe does not say by itself.

        ``log`` is how the jobs of a log become bags of tasks.  ``clock`` is what time 0 is in a log, or in a
        list whose first release is not 0 s.
        """
        recipe, lines = self.recipe, {}
        if isinstance(recipe, LogRecipe):
            lines["log"] = recipe.made_by
        if isinstance(recipe, LogRecipe | JobLogRecipe):
            lines["clock"] = "times are s since the first release, whatever the log counts from"
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
        """Bags of tasks submitted by a Poisson process.  The first release is one gap after time 0.

        Parameters
        ----------
        applications
            Number of applications.
        interarrival
            Mean time between two releases, s (exponential).  0 releases all of them at time 0.
        tasks_per_node
            Mean number of tasks of an application, divided by the number of machines.
        tasks
            Mean number of tasks of an application on any platform, in place of tasks_per_node.
        variation
            The number of tasks is uniform on the whole numbers within +- this share of the mean.
        task_size
            Mflop.  A tuple (low, high) stands for one uniform draw per application, a list for one of these
            classes per application, all equally likely.
        seed
            Arrivals, tasks, sizes, submitters and spread have independent random streams made from it. The
            submitter of each application is uniform over the machines.
        spread
            How tasks differ within an application, `Normal`, `LogUniform`, `Exponential` or `LogNormal`: each
            task has task_size times a factor of its own.  With None they are equal.
        load
            All releases are scaled by one factor, so that the submitted work is this many times what the
            machines can do between the first release and the last.  With None they stay as drawn.
        input_bytes
            Bytes that a task fetches before it can be computed, over the link of its machine
            (`Platform.linked`), given as task_size is; None for none.
        output_bytes
            Bytes that a task sends afterwards over that link; it ends when they are there.
        constraints
            Memory and disk that the tasks of an application need, `Constraints`, drawn with `seed`; with None
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
        """The bags of a job log (SWF, GWF, .tr): jobs of one user, at most `gap` s apart and within `span` s.

        A job of p processors becomes p tasks.  The task size (Mflop) is the mean run time of the bag's tasks
        times `reference_speed`.  Bags are released as recorded, the first at 0 s.  Each user submits at one
        machine, drawn uniformly with `seed`.

        A .tr log has the duration of every task.  Each of its jobs is one bag, submitted at a machine of its
        own draw; jobs of one submit time come 0.01 s apart.  Schedulers see the mean duration that the log
        states as the estimate of the bag's tasks (`Applications.estimate`).

        `gap` and `span` are only for SWF and GWF logs, `whole_seconds` is only for .tr logs.  `realize` reads
        the file.  It rejects a job of more processors than the platform has machines.

        Parameters
        ----------
        path
            The log, plain or gzip.
        gap
            Longest time between two jobs of a bag, s.
        span
            Longest time from the first job of a bag to the last, s.
        reference_speed
            Speed of the log's machines, Mflop/s.  None stands for the mean of the platform.
        seed
            Seed of the draw of the users' machines, and of the draw of tasks with tasks_per_node.
        own_sizes
            Each task is as long as its own job (0 s counts as 1 s, as in the mean), so that tasks of a bag
            may differ in size.  None stands for true for a .tr log, which has the duration of each task, and
            for false for other logs.
        tasks_per_node
            Each bag has round(tasks_per_node * machines) tasks, at least 1, in place of its own. With
            own_sizes they are drawn from its own tasks, with replacement.
        min_tasks
            Keep only the bags that have at least this many tasks in the log.
        skip, max_applications
            Of the bags kept, leave out the first `skip`, and use at most `max_applications` of the rest.
        whole_seconds
            The durations and the mean durations of a .tr log are cut to whole seconds.  A task of 0 s counts
            as 0.001 s.
        load
            All releases are scaled by one factor, so that the submitted work is this many times what the
            machines can do between the first release and the last.  With None they stay as recorded.
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
        """Exactly the given applications: release (s), tasks, task_size (Mflop).

        Parameters
        ----------
        release
            s, one entry per application, in any order.
        tasks, task_size
            Number of tasks, and Mflop of each; one value for all applications, or one entry each.
        submitter
            Machines; by default application i submits at machine i modulo the number of machines.
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
            s, the time of these releases at which a run begins, and from which its times count; by default
            the first release.  With an earlier one machines, failures and views of others have a past when
            the first application comes.
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
        """Exactly the given applications, task by task: release (s), sizes of the tasks (Mflop).

        Parameters
        ----------
        release
            s, one entry per application, in any order.
        sizes
            Mflop of every task, one list per application.
        submitter
            Machines; by default application i submits at machine i modulo the number of machines.
        estimate
            Mflop, the size of a task that submitters state, which schedulers see and which may be wrong; one
            value for all applications, or one entry each.  By default it is the mean of the sizes.
        origin
            s, the time of these releases at which a run begins, and from which its times count; by default
            the first release.  With an earlier one machines, failures and views of others have a past when
            the first application comes.
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
        """Jobs of one task each, submitted by a Poisson process at every machine (RJSS paper, section 2.1).

        The means of each machine are drawn once, from normal distributions around the given means.

        A value from a normal distribution is drawn again if it is at most 0.01 of the mean.

        Parameters
        ----------
        horizon
            S during which jobs are submitted.
        interarrival
            Mean time between two jobs at a machine of the mean rate, s.
        processing_time
            s that a job takes at `reference_speed`, mean over machines.
        data
            Bytes of a job's instructions and data, and of its result, mean over machines.  The bytes of a
            single job are exponential, rounded up.
        variation
            Standard deviation of the means of machines (rate, processing time, data), relative to the given
            means.
        deviation
            Standard deviation of the processing times of a machine's jobs, relative to their mean.
        reference_speed
            Mflop/s; the default is the mean of the platform.
        seed
            Rates, means and jobs have independent random streams made from it.
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
        """Rigid jobs drawn from the statistics of a real log.  The first is submitted at 0 s.

        Nodes, run times, gaps between submissions and requested times have the quantiles of the log.  They
        also have its rank correlations, of nodes with run times and of each job with the job before (users
        submit many similar jobs).  Each job is submitted at a machine drawn uniformly.

        Parameters
        ----------
        jobs
            Number of jobs.
        seed
            Seed of the draw of the jobs and of the machines at which they are submitted.
        profile
            The log, ``"wagap2013"`` or ``"ricc2010"`` (see `gridsim.model.rigid_workloads`).
        utilization
            Request utilization to which the gaps are scaled: the sum of nodes * run time, divided by what the
            machines can do from the first to the last submission.
        max_nodes
            Largest number of nodes that a job wants.  It is never more than there are machines.
        constraints
            What jobs want of machines, `Constraints`, drawn with `seed`; with None all machines suit all
            jobs.  A job wants at most as many nodes as suit it.
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
        """The rigid jobs of a log (SWF or GWF), released as recorded, the first at 0 s.

        `realize` reads the file.  It rejects a job of more nodes than the platform has machines that suit it.

        Parameters
        ----------
        path
            The log, plain or gzip.
        seed
            Seed of the draw of the machines at which jobs are submitted, and of the jitter.
        procs_per_node
            A job of p processors wants ceil(p / procs_per_node) nodes.
        utilization
            Request utilization to which submit times are compressed (or stretched).  With None they stay as
            recorded.
        start, end
            Use only the jobs submitted in this window, s after the first submission.
        max_nodes
            Jobs of more nodes are left out, with a warning.
        copies, jitter
            Each job is submitted `copies` times, the further copies up to `jitter` s later (uniform).  This
            gives the same load on `copies` times as many machines.
        at_home
            If true, each user of each copy submits at one machine; if false, a machine is drawn for each job.
            Both are uniform and use `seed`.
        constraints
            What jobs want of machines, `Constraints`, drawn with `seed`; with None all machines suit all
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
        """Exactly the given rigid jobs: release (s), nodes, run_time (s).

        Parameters
        ----------
        release
            s, one entry per job, in any order.
        nodes, run_time, requested
            One value for all jobs, or one entry each.  requested (s) defaults to run_time.
        submitter
            Machines; by default job i submits at machine i modulo the number of machines.
        memory, disk
            Bytes that a job needs on each of its machines; one value for all jobs, or one entry each.
        kinds
            Kind of machines that a job wants, empty for any; one value for all jobs, or one entry each.
        not_before
            s, before which a job must not start, an advance reservation; by default its release.
        deadline
            s, by which a job must have ended by what it reserves, or it is rejected; inf for none.
        cancel_at
            s, after its release, when its user cancels a job unless it has ended; inf for never. Each of
            these times is on the clock of the releases; one value for all jobs, or one entry each.
        origin
            s, the time of these releases at which a run begins, and from which its times count; by default
            the first release.  With an earlier one machines, failures and views of others have a past when
            the first job comes.
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

        Their times count from `origin`.
        """
        with np.errstate(over="ignore"):  # infinite results are rejected below
            columns = self.recipe.columns(platform).since(self.origin)
        release, tasks, task_size, submitter, requested, sizes, data, rates, estimate, job, *_ = columns
        memory, kind, group, suited = columns.memory, columns.kind, columns.group, columns.suited
        moved = columns.input_bytes, columns.output_bytes
        log = f"{self.recipe.path}: " if isinstance(self.recipe, (LogRecipe, JobLogRecipe)) else ""
        for i in first_true(~(release <= LATEST_RELEASE)):
            since = " after the first" if log else f" after {self.origin!r} s" if self.origin else ""
            raise ScenarioError(
                f"{log}workload.release[{i}] must be at most {LATEST_RELEASE:g} s{since}, "
                f"got {float(release[i] + self.origin)!r}"
            )
        release_ns = np.rint(release * NS).astype(np.int64)
        order = np.argsort(release_ns, kind="stable")
        if sizes is not None:
            task_size, size, sizes = _summed(tasks, sizes, order)
        else:
            with np.errstate(over="ignore"):
                size = tasks * task_size
        for i in first_true(~np.isfinite(size)):
            size_i = f"{task_size[i]:g} Mflop"
            raise ScenarioError(f"{log}workload.task_size[{i}] must leave tasks * size finite, got {size_i}")
        release_ns = release_ns[order]
        made = Applications(
            release_ns,
            release_ns / NS,
            tasks[order],
            task_size[order],
            size[order],
            submitter[order],
            None if requested is None else requested[order],
            sizes,
            None if data is None else data[order],
            rates,
            None if estimate is None else estimate[order],
            None if job is None else job[order],
            None if memory is None else memory[order],
            None if kind is None else kind[order],
            None if group is None else group[order],
            suited,
            *(None if each is None or not each.any() else each[order] for each in moved),
            *(None if each is None else each[order] for each in (*columns.times(), columns.disk)),
        )
        for name in made.__slots__:
            if (column := getattr(made, name)) is not None:
                column.flags.writeable = False
        return made
