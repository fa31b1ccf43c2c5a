"""Recipes of rigid jobs: applications whose tasks start together, each on a separate machine.

All machines of the platform must have one speed, or it must have sites (`SiteSpeeds`), whose speeds may
differ.  Run times and requested times then are those at the home site of a job, or at the first site if the
home is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Columns, ListedWorkload, Machines
from gridsim.model.attributes import (
    Constraints,
    ListedMemory,
    Requirements,
    check_constraints,
    draw_requirements,
)
from gridsim.model.capacity import MachineCapacity
from gridsim.model.platform import MAX_CORES, Platform
from gridsim.support.arguments import normalise, one_of
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import FloatColumn, IntColumn, TextColumn
from gridsim.support.parameters import Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

MaxNodes = Annotated[int, Limits(low=1)] | None
_Numbers = Annotated[IntColumn, Limits(low=0, high=2**31 - 1)]
_RunTimes = Annotated[FloatColumn, Limits(above=0, unit="s")]
#: Latest time that a job may state (s), since the clock counts int64 nanoseconds.
_LATEST_TIME = 4.0e9
_EndTimes = Annotated[FloatColumn, Limits(above=0, unit="s", finite=False)]


class RigidJobsKind(Recipe, frozen=True, kw_only=True):
    """Base class of the kinds of workloads that consist of rigid jobs."""

    part: ClassVar[str] = "workload"

    def columns(self, platform: Platform) -> Columns:
        """Return the jobs as columns with one entry per job; each kind defines this method.

        Returns
        -------
        dict of str to array
            As for `gridsim.model.bag_workloads.BagsKind`: ``tasks`` is the number of machines that a job
            needs, ``task_size`` the run time times the speed; also ``requested``, the requested time, s.
        """
        raise NotImplementedError


class JobRecipe(RigidJobsKind, frozen=True, kw_only=True, tag="jobs"):
    """Rigid jobs drawn from the statistics of a real log; the first is submitted at 0 s.

    Nodes, run times, gaps between submissions and requested times have the quantiles of the log.  They
    also have its rank correlations of nodes with run times, and of each job with the previous one, as
    users submit many similar jobs.  Each job is submitted at a machine drawn uniformly.  Days and nights, and
    other properties of logs, are not modelled.

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
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    """

    seed: Seed = DEFAULT_SEED
    jobs: Annotated[int, Limits(low=1)] = 1000
    profile: str = "wagap2013"
    utilization: Annotated[float, Limits(above=0)] = 0.25
    max_nodes: MaxNodes = None
    constraints: Constraints | None = None
    exclusive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, profile=one_of("workload.profile", self.profile, tuple(PROFILES)))
        check_constraints(self.constraints)

    def columns(self, platform: Platform) -> Columns:
        streams = Streams(self.seed)
        nodes, run_time, gaps, requested = PROFILES[self.profile].draw(self.jobs, streams("workload.jobs"))
        machines = platform.core_count
        max_nodes = machines if self.max_nodes is None else min(self.max_nodes, machines)
        requirements = draw_requirements(self.constraints, self.seed, self.jobs)
        tasks = np.clip(nodes, 1, max_nodes).astype(np.int64)
        if requirements.any:
            group, suited = requirements.groups(platform.attributes)
            # a job without a suitable machine keeps one task, so that `_with_requirements` rejects it
            tasks = np.minimum(tasks, np.maximum(suited.sum(axis=1), 1)[group])
        release = np.cumsum(gaps) - gaps[0]
        submitter = streams("workload.submitters").integers(platform.nodes, size=self.jobs)
        work, span = float(tasks @ run_time), float(release[-1])
        if span > 0:
            capacity = self.utilization * machines * span
            if not platform.has_equal_speeds:
                work = float(tasks @ (run_time * home_speeds(platform, submitter)))
                capacity = self.utilization * platform.aggregate_speed * span
            factor = work / capacity if capacity > 0 else math.inf
            if not math.isfinite(span * factor):
                raise ScenarioError(
                    f"workload.utilization must keep the last release finite, got {self.utilization!r}"
                )
            release = release * factor
        columns = {"release": release, "tasks": tasks, "submitter": submitter, "requested": requested}
        if platform.is_shared:  # any number of a job's processors may be on one machine
            columns["cores"] = np.ones(self.jobs, np.int64)
            columns["tasks_per_machine"] = np.zeros(self.jobs, np.int64)
            columns["exclusive"] = np.full(self.jobs, int(self.exclusive))
        return rigid_columns(platform, columns, np.maximum(1.0, run_time), requirements)


class JobListRecipe(ListedWorkload, frozen=True, kw_only=True, tag="job-list"):
    """A list of rigid jobs.

    All lists have one entry per job; in Python, a single value in place of a list other than `release` is
    that of all jobs.  Times are on the clock of the releases.

    Parameters
    ----------
    nodes
        Number of machines that a job needs at once.
    run_time
        Run time, s.
    requested
        Run time that the user requested, s; by default `run_time`.
    submitter
        Machine that submits each job; by default machine i modulo the number of machines submits job i.
    user, queue
        Number of the user who submits a job, and of the queue to which it is submitted.
    site
        Number of the home site of a job, -1 if unknown; by default the site of `submitter`.  Without a
        submitter, the machines of its site submit its jobs in turn.
    priority
        Priority that the user states; higher ones are preferred.
    memory, disk
        Bytes that a job needs on each of its machines.
    kinds
        Kind of machines that a job needs, empty for any.
    cores, gpus
        Cores and GPUs that a job takes on each of its machines, if jobs share machines; by default 1 and 0.
    tasks_per_machine
        The most of the `nodes` parts of a job that may be on one machine, if jobs share machines; by default
        1, and 0 for no limit.
    exclusive
        1 for jobs whose machines run no other job, if jobs share machines; by default 0.
    not_before
        Earliest start of a job (an advance reservation), s; by default its release.
    deadline
        Time by which the reservation of a job must end, or it is rejected, s; inf for none.
    cancel_at
        Time at which the user cancels a job unless it has ended, s, after its release; inf for never.
    """

    nodes: Annotated[IntColumn, Limits(low=1, high=2**31 - 1)]
    run_time: _RunTimes
    requested: _RunTimes | None = None
    submitter: Machines | None = None
    user: _Numbers | None = None
    queue: _Numbers | None = None
    site: Annotated[IntColumn, Limits(low=-1, high=2**31 - 1)] | None = None
    priority: Annotated[FloatColumn, Limits()] | None = None
    memory: ListedMemory | None = None
    disk: ListedMemory | None = None
    kinds: TextColumn | None = None
    cores: Annotated[IntColumn, Limits(low=1, high=MAX_CORES)] | None = None
    gpus: Annotated[IntColumn, Limits(low=0, high=MAX_CORES)] | None = None
    tasks_per_machine: _Numbers | None = None
    exclusive: Annotated[IntColumn, Limits(low=0, high=1)] | None = None
    not_before: Annotated[FloatColumn, Limits(low=0, high=_LATEST_TIME, unit="s")] | None = None
    deadline: _EndTimes | None = None
    cancel_at: _EndTimes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns("job")
        for name in ("deadline", "cancel_at"):
            if (column := getattr(self, name)) is None:
                continue
            for i in first_true((column.array > _LATEST_TIME) & (column.array < math.inf)):
                raise ScenarioError(
                    f"workload.{name}[{i}] must be at most {_LATEST_TIME:g} s, or inf, got {column[i]!r}"
                )
            for i in first_true(column.array <= self.release.array):
                raise ScenarioError(
                    f"workload.{name}[{i}] must be after workload.release[{i}], {self.release[i]!r} s, got "
                    f"{column[i]!r}"
                )

    def columns(self, platform: Platform) -> Columns:
        columns = self.listed_columns(platform.nodes)
        if self.site is not None:
            columns["submitter"] = self._submitters_at_home(platform, columns["submitter"])
        names = {"memory": self.memory, "kind": self.kinds, "disk": self.disk}
        needs = {name: np.array(column) for name, column in names.items() if column is not None}
        columns |= {"tasks": np.array(self.nodes, np.int64)}
        columns.setdefault("requested", np.array(self.run_time))
        return rigid_columns(platform, columns, np.array(self.run_time), Requirements(**needs))

    def _submitters_at_home(self, platform: Platform, submitter: Integers) -> Integers:
        """Return the machine at which each job is submitted, at its home site."""
        assert self.site is not None
        site, sizes, machine_site = self.site.array, platform.site_sizes, platform.machine_site
        if sizes is None or machine_site is None:
            raise ScenarioError("workload.site requires a platform of sites (Platform.sites)")
        for i in first_true(site >= len(sizes)):
            raise ScenarioError(f"workload.site[{i}] must be in -1..{len(sizes) - 1}, got {site[i]}")
        if self.submitter is not None:
            for i in first_true((site >= 0) & (machine_site[submitter] != site)):
                raise ScenarioError(
                    f"workload.submitter[{i}] must be a machine of site {site[i]}, the home of the job, got "
                    f"{submitter[i]}, a machine of site {machine_site[submitter[i]]}"
                )
            return submitter
        first = np.cumsum(sizes) - sizes
        for k, size in enumerate(sizes.tolist()):
            jobs = np.flatnonzero(site == k)
            submitter[jobs] = first[k] + np.arange(len(jobs)) % size
        return submitter


def home_speeds(platform: Platform, submitter: Integers, site: Integers | None = None) -> Floats:
    """Return the speed at the home site of each job: float64[n], Mflop/s.

    Parameters
    ----------
    submitter
        Machine at which each job is submitted.
    site
        Home site of each job, by default that of `submitter`; for -1 it is the speed of the first site.
    """
    if site is None:
        return platform.speeds[submitter]
    assert platform.site_sizes is not None
    first = np.cumsum(platform.site_sizes) - platform.site_sizes
    speeds: Floats = platform.speeds[first[np.maximum(site, 0)]]
    return speeds


def rigid_columns(
    platform: Platform, columns: Columns, run_time: Floats, requirements: Requirements
) -> Columns:
    """Return `columns` of jobs with their task sizes and requirements.

    Parameters
    ----------
    run_time
        Run time of each job, s.
    requirements
        Requirements of the jobs on each machine.

    Raises
    ------
    ScenarioError
        If the platform cannot run the jobs.
    """
    speeds, machine_site = platform.speeds, platform.machine_site
    if speeds.min() != speeds.max() and machine_site is None:
        raise ScenarioError(
            f"platform must have machines of one speed for rigid jobs, got {speeds.min():g} to "
            f'{speeds.max():g} Mflop/s; platform.kind = "equal" (Platform.equal) has such machines, and '
            '"sites" (Platform.sites) machines of one speed at each site'
        )
    _check_room(platform, columns, requirements)
    if machine_site is None:
        columns = {**columns, "task_size": run_time * float(speeds[0])}
    else:
        site = columns.get("site", machine_site[columns["submitter"]])
        speed = home_speeds(platform, columns["submitter"], site)
        columns = {
            **columns,
            "site": site,
            "machine_site": machine_site.copy(),
            "task_size": run_time * speed,
        }
    if platform.is_shared and requirements.memory is not None:
        # jobs share the memory, so it does not determine which machines suit them
        requirements.check_stated(platform.attributes)
        columns["memory"] = requirements.memory
        requirements = requirements._replace(memory=None)
    return _with_requirements(columns, platform, requirements) if requirements.any else columns


def _check_room(platform: Platform, columns: Columns, requirements: Requirements) -> None:
    """Raise ScenarioError if a job does not fit the empty machines, whatever suits it."""
    tasks, is_shared = columns["tasks"], platform.is_shared
    for name, most in (("cores", 1), ("gpus", 0)):
        if is_shared or name not in columns:
            continue
        for i in first_true(columns[name] > most):
            raise ScenarioError(
                f"workload.{name}[{i}] must be {most} unless machines have several cores (platform.cores) or "
                f"GPUs (platform.gpus), got {columns[name][i]}"
            )
    room = np.full(len(tasks), platform.nodes)
    if is_shared:
        capacity = MachineCapacity.of(platform.nodes, platform.cores, platform.attributes, platform.gpus)
        room = capacity.room(
            np.zeros(len(tasks), np.int64),
            columns.get("cores"),
            columns.get("gpus"),
            columns.get("tasks_per_machine"),
            requirements.memory,
        )
    for i in first_true(tasks > room):
        number, advice = i, ""
        if "job" in columns:
            number = columns["job"][i]
            key = "workload.max_nodes" if is_shared else f"workload.max_nodes={room[i]}"
            advice = (
                "; with workload.cores_per_node, machines are nodes of several processors; "
                f"{key} (in the shell --change {key}{'=N' if is_shared else ''}) leaves out larger jobs"
            )
        if is_shared:
            names = ("cores", "gpus")
            needs: dict[str, Any] = {name: columns[name][i] for name in names if name in columns}
            if requirements.memory is not None:
                needs["bytes of memory"] = f"{requirements.memory[i]:g}"
            if "job" in columns and len(needs) > 1:
                advice = (
                    "; platform.gpus and platform.memory are those of each machine, or lists with an entry "
                    "for each"
                )
            parts = ", ".join(f"{amount} {name}" for name, amount in needs.items()) or "a core"
            raise ScenarioError(
                f"job {number} (workload.nodes[{i}]) must fit on the {platform.nodes} machines, which have "
                f"room for {room[i]} of its parts of {parts} each, got {tasks[i]}{advice}"
            )
        raise ScenarioError(
            f"workload.nodes[{i}] must be at most {room[i]}, the number of machines, got {tasks[i]} for job "
            f"{number}{advice}"
        )


def _with_requirements(columns: Columns, platform: Platform, requirements: Requirements) -> Columns:
    """Return `columns` with the requirements of jobs; raise ScenarioError if too few machines suit a job."""
    group, suited = requirements.groups(platform.attributes)
    machines, tasks = suited.sum(axis=1)[group], columns["tasks"]
    for i in np.flatnonzero(tasks > machines)[:1]:
        raise ScenarioError(
            f"workload.nodes[{i}] must be at most {machines[i]}, the number of machines with "
            f"{requirements.describe(i)}, got {tasks[i]}"
        )
    return columns | requirements.columns(group, suited)


#: Probabilities of the quantiles in a `Profile`.
SHARES = np.array([0, 1, 2, 5, *range(10, 95, 5), 95, 98, 99, 99.5, 99.9, 100]) / 100


@dataclass(frozen=True)
class Profile:
    """Statistics of the jobs of a log: distributions and correlations.

    Parameters
    ----------
    nodes, run_time, gap, overestimate
        Quantiles at `SHARES` of the number of nodes, the run time (s), the time to the next submission (s),
        and the requested over the actual run time.
    serial
        Rank correlations of nodes, run times and gaps with those of the previous job.
    nodes_with_run_time
        Rank correlation of nodes and run times.
    """

    nodes: tuple[float, ...]
    run_time: tuple[float, ...]
    gap: tuple[float, ...]
    overestimate: tuple[float, ...]
    serial: tuple[float, float, float]
    nodes_with_run_time: float

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """Draw the nodes, run times (s), gaps before each job (s) and requested times (s) of `count` jobs.

        Each column has the quantiles of the log; a Gaussian copula gives them its rank correlations.
        """
        normal = rng.standard_normal((3, count))
        # the correlation of normal variables with this rank correlation (Pearson 1907)
        rho = 2 * np.sin(np.pi / 6 * self.nodes_with_run_time)
        normal[1] = rho * normal[0] + np.sqrt(1 - rho**2) * normal[1]
        nodes, run, gap = (
            _series(shocks, 2 * np.sin(np.pi / 6 * serial))
            for shocks, serial in zip(normal, self.serial, strict=True)
        )
        run_time = _quantile_values(run, self.run_time)
        overestimate = _quantile_values(rng.standard_normal(count), self.overestimate)
        # no requested time may exceed the longest run time of the log
        requested = np.clip(np.rint(run_time * overestimate), 1.0, self.run_time[-1])
        return (
            np.rint(_quantile_values(nodes, self.nodes)),
            np.rint(run_time),
            np.rint(_quantile_values(gap, self.gap)),
            requested,
        )


def _series(shocks: Floats, correlation: float) -> Floats:
    """Return a stationary first-order autoregressive series with the innovations `shocks`."""
    values, last, shock_weight = shocks.tolist(), 0.0, np.sqrt(1 - correlation**2)
    series = []
    for k, shock in enumerate(values):
        last = shock if k == 0 else correlation * last + shock_weight * shock
        series.append(last)
    return np.array(series)


def _quantile_values(latent: Floats, quantiles: tuple[float, ...]) -> Floats:
    """Map `latent`, by rank, to values with these `quantiles`, interpolated in the logarithm of 1 + value."""
    rank = np.empty(len(latent))
    rank[np.argsort(latent, kind="stable")] = (np.arange(len(latent)) + 0.5) / max(1, len(latent))
    values: Floats = np.expm1(np.interp(rank, SHARES, np.log1p(np.array(quantiles))))
    return values


#: Profile of each log, by its name in the Parallel Workloads Archive; nodes of RICC have 8 processors.
PROFILES = {
    "wagap2013": Profile(
        nodes=(
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 6, 6, 8, 12, 20, 32, 32, 64, 64, 80, 80, 256,
        ),
        run_time=(
            1, 1, 1, 1, 3, 17, 152.4, 303, 388.1, 764.9, 1081.8, 1714, 2370.5, 3127.1, 6978.4, 14433, 22702.4,
            32807.5, 53920, 71855.5, 117778.7, 333551.2, 499572.8, 604820, 693845.3, 1209628.3, 5356972,
        ),
        gap=(
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 17, 59, 131, 296, 720.6, 1953.6, 5061.7, 8796,
            13511.3, 30019.1, 53919,
        ),
        overestimate=(
            0.111, 0.999, 1, 1.099, 1.562, 2.101, 2.574, 2.902, 3.298, 4.091, 5.247, 7.537, 13.544, 22.086,
            32.354, 51.247, 105.045, 227.444, 488.799, 1952.356, 7200, 86400, 356400, 1188000, 1209600,
            1209600, 5356800,
        ),
        serial=(0.843, 0.714, 0.574),
        nodes_with_run_time=0.244,
    ),
    "ricc2010": Profile(
        nodes=(
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 4, 16, 32, 32, 64, 256, 1000,
        ),
        run_time=(
            1, 3, 4, 5, 6, 9, 18, 28, 81, 202, 356, 361, 370, 738, 1367, 2186, 4027, 6602.5, 14240, 26896,
            51096, 97293, 220398, 259203, 259205, 259220, 283610,
        ),
        gap=(
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 3, 8, 105, 417, 898, 1757.1, 5473.3,
            44744,
        ),
        overestimate=(
            0.001, 0.999, 1, 1.239, 1.871, 2.958, 5.672, 11.165, 19.468, 19.945, 20.225, 29.173, 45, 67.925,
            112.5, 171.429, 232.258, 428.43, 600, 1183.562, 2880, 10800, 28800, 57600, 64800, 86400, 216000,
        ),
        serial=(0.892, 0.893, 0.404),
        nodes_with_run_time=0.173,
    ),
}  # fmt: skip
