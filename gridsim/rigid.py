"""Recipes of rigid jobs: applications whose tasks start together, one on each of as many machines.

A rigid job takes as long on every machine: the platform must have machines of one speed.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from gridsim.arguments import flag, normalise, one_of, real, sequence, text, whole
from gridsim.errors import ScenarioError
from gridsim.model import Columns, Floats, Integers
from gridsim.platform import Platform
from gridsim.profiles import PROFILES
from gridsim.streams import Streams


class JobRecipe(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="jobs"
):
    """Jobs like those of a log; the meaning of each field is told by `Workload.jobs`."""

    seed: int
    jobs: int = 1000
    profile: str = "wagap2013"
    utilization: float = 0.25
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        normalise(
            self,
            seed=whole("workload.seed", self.seed),
            jobs=whole("workload.jobs", self.jobs, low=1),
            profile=one_of("workload.profile", self.profile, tuple(PROFILES)),
            utilization=real("workload.utilization", self.utilization, above=0),
            max_nodes=_max_nodes(self.max_nodes),
        )

    def columns(self, platform: Platform) -> Columns:
        streams = Streams(self.seed)
        nodes, run_time, gaps, requested = PROFILES[self.profile].draw(self.jobs, streams("workload.jobs"))
        most = platform.nodes if self.max_nodes is None else min(self.max_nodes, platform.nodes)
        tasks = np.clip(nodes, 1, most).astype(np.int64)
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
        return _columns(platform, release, tasks, np.maximum(1.0, run_time), requested, submitter)


class JobLogRecipe(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="job-log"
):
    """The jobs of a real log; the meaning of each field is told by `Workload.jobs_from_log`."""

    path: str
    seed: int = 0
    procs_per_node: int = 1
    start: float = 0.0
    end: float = math.inf
    max_nodes: int | None = None
    utilization: float | None = None
    copies: int = 1
    jitter: float = 3600.0
    at_home: bool = False

    def __post_init__(self) -> None:
        share = self.utilization
        normalise(
            self,
            path=text("workload.path", self.path),
            seed=whole("workload.seed", self.seed),
            procs_per_node=whole("workload.procs_per_node", self.procs_per_node, low=1),
            start=real("workload.start", self.start, low=0, unit="s"),
            end=real("workload.end", self.end, above=self.start, unit="s", finite=False),
            max_nodes=_max_nodes(self.max_nodes),
            utilization=None if share is None else real("workload.utilization", share, above=0),
            copies=whole("workload.copies", self.copies, low=1, high=10**6),
            jitter=real("workload.jitter", self.jitter, low=0, unit="s"),
            at_home=flag("workload.at_home", self.at_home),
        )

    def columns(self, platform: Platform) -> Columns:
        from gridsim.traces import derive_jobs, read_jobs

        machines, copies, share = platform.nodes, self.copies, self.utilization
        jobs = derive_jobs(
            read_jobs(self.path),
            procs_per_node=self.procs_per_node,
            start=self.start,
            end=self.end,
            max_nodes=self.max_nodes,
            utilization=None if share is None else max(share / copies, math.ulp(0.0)),
            machines=None if share is None else machines,
        )
        if not len(jobs):
            raise ScenarioError(f"{self.path}: no job of known run time within the window, so no workload")
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
        )


class JobListRecipe(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="job-list"
):
    """The jobs themselves; the meaning of each field is told by `Workload.jobs_of`.

    release : s, one entry a job, in any order.
    nodes : machines that a job wants at once, one entry a job.
    run_time : s, one entry a job.
    requested : s that the user asked for, one entry a job; without it the run times.
    submitter : machines, one entry a job; without it job i submits at machine i modulo their number.
    """

    release: tuple[float, ...]
    nodes: tuple[int, ...]
    run_time: tuple[float, ...]
    requested: tuple[float, ...] | None = None
    submitter: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        checks: dict[str, Any] = {
            "release": lambda path, value: real(path, value, low=0, unit="s"),
            "nodes": lambda path, value: whole(path, value, low=1, high=2**31 - 1),
            "run_time": lambda path, value: real(path, value, above=0, unit="s"),
            "requested": lambda path, value: real(path, value, above=0, unit="s"),
            "submitter": lambda path, value: whole(path, value),
        }
        count = len(sequence("workload.release", self.release))
        if not count:
            raise ScenarioError("workload.release must name at least one job, got none")
        for name, check in checks.items():
            if (given := getattr(self, name)) is None:
                continue
            values = sequence(f"workload.{name}", given)
            if len(values) != count:
                raise ScenarioError(
                    f"workload.{name} must have {count} entries as workload.release has, got {len(values)}"
                )
            checked = tuple(check(f"workload.{name}[{i}]", value) for i, value in enumerate(values))
            normalise(self, **{name: checked})

    def columns(self, platform: Platform) -> Columns:
        count = len(self.release)
        run_time = np.array(self.run_time)
        requested = run_time if self.requested is None else np.array(self.requested)
        submitter = (
            np.arange(count, dtype=np.int64) % platform.nodes
            if self.submitter is None
            else np.array(self.submitter, np.int64)
        )
        return _columns(
            platform,
            np.array(self.release),
            np.array(self.nodes, np.int64),
            run_time,
            requested,
            submitter,
        )


RigidRecipe = JobRecipe | JobLogRecipe | JobListRecipe


def _max_nodes(given: int | None) -> int | None:
    return None if given is None else whole("workload.max_nodes", given, low=1)


def _columns(
    platform: Platform,
    release: Floats,
    tasks: Integers,
    run_time: Floats,
    requested: Floats,
    submitter: Integers,
) -> Columns:
    """The jobs on a platform that can run them."""
    speeds = platform.speeds
    if speeds.min() != speeds.max():
        raise ScenarioError(
            f"platform must have machines of one speed for rigid jobs, got {speeds.min():g} to "
            f"{speeds.max():g} Mflop/s"
        )
    for name, column in (("nodes", tasks), ("submitter", submitter + 1)):
        for i in np.flatnonzero(column > platform.nodes)[:1]:
            what = f"at most {platform.nodes}, the machines there are" if name == "nodes" else "a machine"
            got = column[i] - (name == "submitter")
            raise ScenarioError(f"workload.{name}[{i}] must be {what}, got {got}")
    return Columns(release, tasks, run_time * float(speeds[0]), submitter, requested)
