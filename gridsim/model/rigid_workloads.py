"""Recipes of rigid jobs: applications whose tasks start together, each on a machine of its own.

A rigid job takes the same time on every machine, so all machines of the platform must have the same speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import JOB_TIMES, Columns, Listed, Machines
from gridsim.model.attributes import Constraints, ListedMemory, Wants, check_constraints, drawn_wants
from gridsim.model.platform import Platform
from gridsim.support.arguments import normalise, one_of, real
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import FloatColumn, IntColumn, TextColumn
from gridsim.support.parameters import Limits, Recipe, Seed, Text
from gridsim.support.random_streams import DEFAULT_SEED, Streams

_MaxNodes = Annotated[int, Limits(low=1)] | None
_RunTimes = Annotated[FloatColumn, Limits(above=0, unit="s")]
#: The latest time that a job may state, s; the clock counts int64 nanoseconds.
_LATEST = 4.0e9
_Ends = Annotated[FloatColumn, Limits(above=0, unit="s", finite=False)]


class _Jobs(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "workload"


class JobRecipe(_Jobs, frozen=True, kw_only=True, tag="jobs"):
    """Jobs drawn from the statistics of a log; `Workload.jobs` explains each field."""

    seed: Seed
    jobs: Annotated[int, Limits(low=1)] = 1000
    profile: str = "wagap2013"
    utilization: Annotated[float, Limits(above=0)] = 0.25
    max_nodes: _MaxNodes = None
    constraints: Constraints | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, profile=one_of("workload.profile", self.profile, tuple(PROFILES)))
        check_constraints(self.constraints)

    def columns(self, platform: Platform) -> Columns:
        streams = Streams(self.seed)
        nodes, run_time, gaps, requested = PROFILES[self.profile].draw(self.jobs, streams("workload.jobs"))
        most = platform.nodes if self.max_nodes is None else min(self.max_nodes, platform.nodes)
        wants = drawn_wants(self.constraints, self.seed, self.jobs)
        tasks = np.clip(nodes, 1, most).astype(np.int64)
        if wants.any:
            group, suited = wants.groups(platform.attributes)
            # a job that no machine suits still wants one, which is an error
            tasks = np.minimum(tasks, np.maximum(suited.sum(axis=1), 1)[group])
        release = np.cumsum(gaps) - gaps[0]
        work, span = float(tasks @ run_time), float(release[-1])
        if span > 0:
            offered = self.utilization * platform.nodes * span
            factor = work / offered if offered > 0 else math.inf
            if not math.isfinite(span * factor):
                raise ScenarioError(
                    f"workload.utilization must leave the last release finite, got {self.utilization!r}"
                )
            release = release * factor
        submitter = streams("workload.submitters").integers(platform.nodes, size=self.jobs)
        return _columns(
            platform,
            release,
            tasks,
            np.maximum(1.0, run_time),
            requested,
            submitter,
            wants=wants,
        )


class JobLogRecipe(_Jobs, frozen=True, kw_only=True, tag="job-log"):
    """The jobs of a real log; `Workload.jobs_from_log` explains each field."""

    path: Text
    seed: Seed = DEFAULT_SEED
    procs_per_node: Annotated[int, Limits(low=1)] = 1
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    end: Annotated[float, Limits(above=0, unit="s", finite=False)] = math.inf
    max_nodes: _MaxNodes = None
    utilization: Annotated[float, Limits(above=0)] | None = None
    copies: Annotated[int, Limits(low=1, high=10**6)] = 1
    jitter: Annotated[float, Limits(low=0, unit="s")] = 3600.0
    at_home: bool = False
    constraints: Constraints | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        real("workload.end", self.end, above=self.start, unit="s", finite=False)
        check_constraints(self.constraints)

    def columns(self, platform: Platform) -> Columns:
        from gridsim.traces.info import load_jobs
        from gridsim.traces.rigid import derive_jobs, warn_missing_requests

        log = load_jobs(self.path)
        machines, copies, share = platform.nodes, self.copies, self.utilization
        jobs = derive_jobs(
            log,
            procs_per_node=self.procs_per_node,
            start=self.start,
            end=self.end,
            max_nodes=self.max_nodes,
            utilization=None if share is None else max(share / copies, math.ulp(0.0)),
            machines=None if share is None else machines,
        )
        if not len(jobs):
            raise ScenarioError(
                f"{self.path}: no job that ran for a known time within the window, so no workload"
            )
        warn_missing_requests(log, jobs)
        streams = Streams(self.seed)
        release = np.tile(jobs.release - jobs.release[0], copies)
        later = streams("workload.jitter").uniform(0.0, self.jitter, len(release) - len(jobs))
        release[len(jobs) :] += later
        draw = streams("workload.submitters")
        if self.at_home:
            users, which = np.unique(jobs.user, return_inverse=True)
            homes = draw.integers(machines, size=(copies, len(users)))
            submitter = homes[:, which].ravel()
        else:
            submitter = draw.integers(machines, size=len(release))
        return _columns(
            platform,
            release,
            np.tile(jobs.nodes, copies),
            np.tile(jobs.run_time, copies),
            np.tile(jobs.requested, copies),
            submitter,
            np.tile(jobs.job, copies),
            drawn_wants(self.constraints, self.seed, len(release)),
        )


class JobListRecipe(Listed, frozen=True, kw_only=True, tag="job-list"):
    """A list of jobs; `Workload.jobs_of` explains each field.

    Parameters
    ----------
    release
        s, one entry per job, in any order.
    nodes
        Number of machines that a job wants at once, one entry per job.
    run_time
        s, one entry per job.
    requested
        s that the user asked for, one entry per job; without it the run times.
    submitter
        Machines, one entry per job; without it job i submits at machine i modulo the number of machines.
    memory, disk
        Bytes that a job needs on each of its machines, one entry per job; without it any.
    kinds
        Kind of machines that a job wants, one entry per job; without it, and where it is empty, any.
    not_before
        s, one entry per job, before which it must not start (an advance reservation); without it, and where
        it is not after the release, the release.
    deadline
        s, one entry per job, after its release, by which it must have ended by what it reserves, or it is
        rejected; inf and without it, none.
    cancel_at
        s, one entry per job, after its release, when its user cancels it unless it has ended; inf and without
        it, never.
    origin
        s, the time at which a run begins; without it the first release.  Times count from it.
    """

    nodes: Annotated[IntColumn, Limits(low=1, high=2**31 - 1)]
    run_time: _RunTimes
    requested: _RunTimes | None = None
    submitter: Machines | None = None
    memory: ListedMemory | None = None
    disk: ListedMemory | None = None
    kinds: TextColumn | None = None
    not_before: Annotated[FloatColumn, Limits(low=0, high=_LATEST, unit="s")] | None = None
    deadline: _Ends | None = None
    cancel_at: _Ends | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns("job")
        for name in ("deadline", "cancel_at"):
            if (column := getattr(self, name)) is None:
                continue
            for i in first_true((column.array > _LATEST) & (column.array < math.inf)):
                raise ScenarioError(
                    f"workload.{name}[{i}] must be at most {_LATEST:g} s, or inf, got {column[i]!r}"
                )
            for i in first_true(column.array <= self.release.array):
                raise ScenarioError(
                    f"workload.{name}[{i}] must be after workload.release[{i}], {self.release[i]!r} s, got "
                    f"{column[i]!r}"
                )

    def columns(self, platform: Platform) -> Columns:
        count = len(self.release)
        run_time = np.array(self.run_time)
        requested = run_time if self.requested is None else np.array(self.requested)
        submitter = (
            np.arange(count, dtype=np.int64) % platform.nodes
            if self.submitter is None
            else np.array(self.submitter, np.int64)
        )
        made = _columns(
            platform,
            np.array(self.release),
            np.array(self.nodes, np.int64),
            run_time,
            requested,
            submitter,
            wants=Wants(
                *(None if each is None else np.array(each) for each in (self.memory, self.kinds, self.disk))
            ),
        )
        stated = {name: getattr(self, name) for name in JOB_TIMES}
        return made._replace(**{name: np.array(each) for name, each in stated.items() if each is not None})


RigidRecipe = JobRecipe | JobLogRecipe | JobListRecipe


def _columns(
    platform: Platform,
    release: Floats,
    tasks: Integers,
    run_time: Floats,
    requested: Floats,
    submitter: Integers,
    job: Integers | None = None,
    wants: Wants = Wants(),  # noqa: B008 - it cannot change
) -> Columns:
    """Return the columns of the jobs, or raise ScenarioError if the platform cannot run them.

    Parameters
    ----------
    job
        Their numbers in the log that they come from.
    wants
        What they want of each machine.
    """
    speeds = platform.speeds
    if speeds.min() != speeds.max():
        raise ScenarioError(
            f"platform must have machines of one speed for rigid jobs, got {speeds.min():g} to "
            f'{speeds.max():g} Mflop/s; platform.kind = "equal" (Platform.equal) has such machines'
        )
    for i in first_true(tasks > platform.nodes):
        which, rest = (i, "") if job is None else (job[i], "; workload.max_nodes leaves out larger jobs")
        raise ScenarioError(
            f"workload.nodes[{i}]: job {which} wants {tasks[i]} machines, but there are only "
            f"{platform.nodes}{rest}"
        )
    for i in first_true(submitter >= platform.nodes):
        raise ScenarioError(f"workload.submitter[{i}] must be a machine, got {submitter[i]}")
    made = Columns(release, tasks, run_time * float(speeds[0]), submitter, requested, job=job)
    return _suited(made, platform, wants) if wants.any else made


def _suited(made: Columns, platform: Platform, wants: Wants) -> Columns:
    """Return `made` with what jobs want of machines; raise ScenarioError if too few suit a job."""
    group, suited = wants.groups(platform.attributes)
    there = suited.sum(axis=1)[group]
    for i in np.flatnonzero(made.tasks > there)[:1]:
        raise ScenarioError(
            f"workload.nodes[{i}] must be at most {there[i]}, the machines that have what the job wants "
            f"({wants.said(i)}), got {made.tasks[i]}"
        )
    return made.wanting(wants, group, suited)


#: The shares of jobs at which a `Profile` gives its quantiles.
SHARES = np.array([0, 1, 2, 5, *range(10, 95, 5), 95, 98, 99, 99.5, 99.9, 100]) / 100


@dataclass(frozen=True)
class Profile:
    """The statistics of the jobs of a log: distributions and correlations.

    nodes, run_time (s), gap (s, to the next submission) and overestimate (requested over run time) are
    quantiles at `SHARES`.

    Parameters
    ----------
    serial
        Rank correlations of nodes, run times and gaps with those of the job before.
    together
        Rank correlation of nodes and run times.
    """

    nodes: tuple[float, ...]
    run_time: tuple[float, ...]
    gap: tuple[float, ...]
    overestimate: tuple[float, ...]
    serial: tuple[float, float, float]
    together: float

    def draw(self, count: int, chance: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """Draw nodes (whole), and run times, gaps before each job and requested times (s), of `count` jobs.

        Each column has the quantiles of the log; a Gaussian copula gives them its rank correlations.
        """
        of_nodes, of_run, of_gap = self.serial
        normal = chance.standard_normal((3, count))
        # converts rank correlations to correlations of normal variables (Pearson 1907)
        rho = 2 * np.sin(np.pi / 6 * self.together)
        normal[1] = rho * normal[0] + np.sqrt(1 - rho**2) * normal[1]
        nodes, run, gap = (
            _series(each, 2 * np.sin(np.pi / 6 * serial))
            for each, serial in zip(normal, (of_nodes, of_run, of_gap), strict=True)
        )
        run_time = _values(run, self.run_time)
        over = _values(chance.standard_normal(count), self.overestimate)
        # no request is longer than the longest run time of the log
        requested = np.clip(np.rint(run_time * over), 1.0, self.run_time[-1])
        return (
            np.rint(_values(nodes, self.nodes)),
            np.rint(run_time),
            np.rint(_values(gap, self.gap)),
            requested,
        )


def _series(shocks: Floats, correlation: float) -> Floats:
    """Return a stationary autoregressive series of first order that is driven by `shocks`."""
    values, last, new = shocks.tolist(), 0.0, np.sqrt(1 - correlation**2)
    made = []
    for k, shock in enumerate(values):
        last = shock if k == 0 else correlation * last + new * shock
        made.append(last)
    return np.array(made)


def _values(latent: Floats, quantiles: tuple[float, ...]) -> Floats:
    """Return the quantiles at the ranks of `latent`, interpolated on a logarithmic scale (of 1 + value)."""
    rank = np.empty(len(latent))
    rank[np.argsort(latent, kind="stable")] = (np.arange(len(latent)) + 0.5) / max(1, len(latent))
    values: Floats = np.expm1(np.interp(rank, SHARES, np.log1p(np.array(quantiles))))
    return values


#: Profiles by the name of their log in the Parallel Workloads Archive; RICC's nodes have 8 processors.
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
        together=0.244,
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
        together=0.173,
    ),
}  # fmt: skip
