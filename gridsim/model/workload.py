"""Workload: the submitted applications, with times and machines, generated from a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import (
    OPTIONAL_COLUMNS,
    PER_APPLICATION,
    Applications,
    Columns,
    ListedWorkload,
)
from gridsim.model.bag_workloads import (
    BagRecipe,
    BagsKind,
    ListRecipe,
    LogRecipe,
    StreamRecipe,
    TasksRecipe,
)
from gridsim.model.constructors import Constructor, WorkloadConstructors, constructors
from gridsim.model.platform import Platform
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.rigid_workloads import JobListRecipe, JobRecipe, RigidJobsKind
from gridsim.support.arguments import sequence
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.clock import NS
from gridsim.support.columns import ArrayColumn

#: Number of task sizes that are summed in one step; the step then ends with the current application.
_SIZES_PER_BLOCK = 1 << 18
#: Latest release (s), as the clock counts int64 nanoseconds.
LATEST_RELEASE = 4.0e9

RigidRecipe: TypeAlias = JobRecipe | JobLogRecipe | SiteLogsRecipe | JobListRecipe
WorkloadRecipe: TypeAlias = BagRecipe | LogRecipe | ListRecipe | TasksRecipe | StreamRecipe | RigidRecipe


def _with_length(path: str, values: Any) -> Any:
    """Return `values` as a sequence with a length, or raise a ScenarioError that begins with `path`."""
    plain = isinstance(values, (list, tuple, ArrayColumn)) or (isinstance(values, np.ndarray) and values.ndim)
    return values if plain else sequence(path, values)


def _column(value: Any, count: int) -> Any:
    """Return a single value as a column of `count` equal entries, and other values unchanged."""
    if isinstance(value, str):
        return [value] * count
    return np.full(count, value) if isinstance(value, (int, float, np.number)) else value


def _in_order(predecessors: Integers, offsets: Integers, order: Integers) -> Columns:
    """Return the predecessors of applications in `order`, numbered in this order; {} if there are none."""
    if not len(predecessors):
        return {}
    counts, number = np.diff(offsets)[order], np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    begins = np.cumsum(counts) - counts
    places = np.repeat(offsets[order] - begins, counts) + np.arange(len(predecessors))
    return {
        "predecessors": number[predecessors[places]],
        "predecessor_offsets": np.append(begins, len(predecessors)),
    }


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
    blocks = np.searchsorted(ends, np.arange(0, len(sizes), _SIZES_PER_BLOCK), side="right").tolist()
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


@constructors(
    bags=Constructor(BagRecipe, "applications interarrival tasks_per_node variation task_size"),
    from_log=Constructor(LogRecipe, "path gap span reference_speed seed max_applications"),
    of=Constructor(ListRecipe, "release tasks task_size submitter data input_bytes output_bytes memory disk"),
    of_tasks=Constructor(TasksRecipe, "release sizes submitter estimate"),
    job_streams=Constructor(
        StreamRecipe, "horizon interarrival processing_time data variation deviation reference_speed"
    ),
    jobs=Constructor(JobRecipe, "jobs profile utilization max_nodes constraints"),
    jobs_from_log=Constructor(
        JobLogRecipe,
        "path cores_per_node utilization start end max_nodes copies jitter at_home seed constraints",
    ),
    jobs_from_logs=Constructor(SiteLogsRecipe, "paths cores_per_node"),
    jobs_of=Constructor(JobListRecipe, "release nodes run_time requested submitter memory kinds"),
)
@dataclass(frozen=True)
class Workload(WorkloadConstructors):
    """The submitted applications, with times and machines.  Workloads with equal recipes are equal.

    Parameters
    ----------
    recipe
        Recipe of the workload; the constructors below make it.
    """

    recipe: WorkloadRecipe | BagsKind | RigidJobsKind

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs rather than bags of tasks."""
        return isinstance(self.recipe, RigidRecipe | RigidJobsKind)

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

        ``log`` is the conversion of the jobs of a log to bags of tasks.  ``period`` has the dates of the
        first and the last submission of the jobs of a log, if they are released as recorded.  ``clock`` is
        the meaning of time 0 for logs, or for a list that does not begin at 0 s.  ``cores`` says that
        machines are nodes.  ``after`` says after which jobs those of a log are released.  ``requests``
        says that requested times are not those of the log.  ``unfinished`` counts the jobs that a log leaves
        out at its end.  ``sample`` says that jobs of a log were drawn.
        """
        recipe, lines = self.recipe, {}
        if isinstance(recipe, LogRecipe):
            lines["log"] = recipe.description
        if isinstance(recipe, LogRecipe | JobLogRecipe):
            lines["clock"] = "times are s since the first release of the log"
        if isinstance(recipe, JobLogRecipe) and (dates := recipe.dates) is not None:
            lines["period"] = f"submitted from {dates[0]} to {dates[1]}, {recipe.dates_clock}"
        if isinstance(recipe, SiteLogsRecipe):
            lines["clock"] = recipe.clock
            if periods := recipe.periods:
                lines["period"] = f"submitted from {periods}, by the clocks of the logs"
        if isinstance(recipe, JobLogRecipe | SiteLogsRecipe) and (nodes := recipe.nodes):
            lines["cores"] = nodes
        if isinstance(recipe, (JobLogRecipe, SiteLogsRecipe)) and recipe.after != "none":
            which = "preceding jobs" if recipe.after == "preceding" else "previous job of their user"
            lines["after"] = f"jobs are released a think time after the {which}, if the log has one"
        if isinstance(recipe, JobLogRecipe | SiteLogsRecipe) and (requests := recipe.requests):
            lines["requests"] = requests
        if isinstance(recipe, JobLogRecipe | SiteLogsRecipe) and (jobs_left_out := recipe.unfinished_jobs):
            lines["unfinished"] = jobs_left_out
        if isinstance(recipe, JobLogRecipe | SiteLogsRecipe) and recipe.resample is not None:
            noun = "log" if isinstance(recipe, JobLogRecipe) else "logs"
            lines["sample"] = f"{recipe.resample} of the {noun}, drawn with replacement"
        if self.origin:
            origin = round(self.origin, 3) or self.origin
            lines["clock"] = f"times are s since {origin!r} s of the workload, at which the run begins"
        return lines

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
        order = np.argsort(columns.pop("order", release_ns), kind="stable")
        tasks = columns["tasks"]
        if "task_sizes" in columns:
            sizes = columns.pop("task_sizes")
            columns["task_size"], size, ordered = _means_and_sums(tasks, sizes, order)
            if ordered is not None:
                columns["task_sizes"] = ordered
        else:
            with np.errstate(over="ignore"):
                size = tasks * columns["task_size"] * columns.get("cores", 1)
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
        if "predecessors" in columns:
            columns |= _in_order(columns.pop("predecessors"), columns.pop("predecessor_offsets"), order)
        if "predecessors" in columns:
            columns.setdefault("think_time", np.zeros(len(order)))
            columns["stated_release"] = np.rint(release * NS) / NS
        else:
            columns.pop("think_time", None)
        for name in set(PER_APPLICATION) & set(columns):
            columns[name] = columns[name][order]
        columns |= {"release_ns": release_ns, "release": release_ns / NS}
        for each in columns.values():
            each.flags.writeable = False
        return Applications(**columns)
