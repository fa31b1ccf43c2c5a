"""Recipes of rigid jobs: applications whose tasks start together, each on a separate machine.

All machines of the platform must have one speed, or it must have sites (`SiteSpeeds`), whose speeds may
differ.  Run times and requested times then are those at the home site of a job, or at the first site if the
home is unknown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from gridsim.errors import ScenarioError, TraceWarning, warn
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
from gridsim.model.resampling import Blocks, resample
from gridsim.optimization.chains import earliest_ends
from gridsim.support.arguments import normalise, one_of, real, sequence
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import FloatColumn, IntColumn, TextColumn
from gridsim.support.parameters import FilePath, Limits, Recipe, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

if TYPE_CHECKING:
    from gridsim.traces.jobs import JobLog

_MaxNodes = Annotated[int, Limits(low=1)] | None
_Numbers = Annotated[IntColumn, Limits(low=0, high=2**31 - 1)]
_RunTimes = Annotated[FloatColumn, Limits(above=0, unit="s")]
_DAY = 86_400.0
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
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    """

    seed: Seed = DEFAULT_SEED
    jobs: Annotated[int, Limits(low=1)] = 1000
    profile: str = "wagap2013"
    utilization: Annotated[float, Limits(above=0)] = 0.25
    max_nodes: _MaxNodes = None
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
            if platform.extremes[0] != platform.extremes[1]:
                work = float(tasks @ (run_time * _home_speeds(platform, submitter)))
                capacity = self.utilization * platform.aggregate_speed * span
            factor = work / capacity if capacity > 0 else math.inf
            if not math.isfinite(span * factor):
                raise ScenarioError(
                    f"workload.utilization must keep the last release finite, got {self.utilization!r}"
                )
            release = release * factor
        columns = {"release": release, "tasks": tasks, "submitter": submitter, "requested": requested}
        columns |= _as_tasks(platform, self.jobs, exclusive=self.exclusive)
        return _columns(platform, columns, np.maximum(1.0, run_time), requirements)


class JobLogRecipe(RigidJobsKind, frozen=True, kw_only=True, tag="job-log"):
    """The rigid jobs of a job log, such as SWF or sacct, released as recorded, the first at 0 s.

    `realize` reads the file, and rejects a job of more nodes than the platform has machines that suit it.

    Parameters
    ----------
    path
        Path of the log, plain or gzip.
    seed
        Seed of the draw of the machines at which jobs are submitted, and of the jitter.
    cores_per_node
        Processors per node; a job of p processors needs ceil(p / cores_per_node) nodes.
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
    resample
        Blocks of jobs that are drawn with replacement with `seed`: ``"weeks"``, as many as the log has, put
        one after another; or ``"users"``, as many as it has, with all their jobs.  None for the jobs of the
        log.  A utilization then is that of the drawn jobs.
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    after
        The job after whose end, and a think time, a job is released, instead of at its submission:
        ``"none"``; ``"preceding"``, the preceding jobs that the log states (fields 17 and 18 of SWF), if they
        are among the jobs; ``"user"``, the previous job of the same user, if that had ended before the
        submission (a closed loop).  The think time is then the time between these in the log.  Other jobs are
        released at their submissions.  It does not support `utilization`, `copies` and `resample`.
    """

    path: FilePath
    seed: Seed = DEFAULT_SEED
    cores_per_node: Annotated[int, Limits(low=1)] = 1
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    end: Annotated[float, Limits(above=0, unit="s", finite=False)] = math.inf
    max_nodes: _MaxNodes = None
    utilization: Annotated[float, Limits(above=0)] | None = None
    copies: Annotated[int, Limits(low=1, high=10**6)] = 1
    jitter: Annotated[float, Limits(low=0, unit="s")] = 3600.0
    at_home: bool = False
    constraints: Constraints | None = None
    resample: Blocks | None = None
    exclusive: bool = False
    after: Literal["none", "preceding", "user"] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unchanged(self, ("utilization", None), ("copies", 1), ("resample", None))
        real("workload.end", self.end, above=self.start, unit="s", finite=False)
        check_constraints(self.constraints)

    @property
    def has_nodes_only(self) -> bool:
        """Whether the log has numbers of nodes and none of processors."""
        from gridsim.traces.info import load_jobs

        return load_jobs(self.path).has_nodes_only

    @property
    def dates(self) -> tuple[str, str] | None:
        """The dates of the first and the last submission in the window; None if unknown or changed.

        They are by the clock of the log.
        """
        if self.utilization is not None or self.resample is not None:
            return None
        return _dates(self.path, self.start, self.end)

    @property
    def unfinished_jobs(self) -> str:
        """A sentence on the jobs that the log leaves out at its end; "" if there are none."""
        if not math.isinf(self.end) or not (counts := _count_unfinished(self.path)):
            return ""
        return f"left out at the end of the log: {counts}"

    def columns(self, platform: Platform) -> Columns:
        machines, copies, share = platform.core_count, self.copies, self.utilization
        if platform.is_shared:
            machines //= self.cores_per_node
        is_scaled_by_log = share is not None and self.resample is None
        is_scaled_by_log &= platform.extremes[0] == platform.extremes[1]
        jobs = _jobs_of_log(
            self.path,
            cores_per_node=self.cores_per_node,
            start=self.start,
            end=self.end,
            max_nodes=self.max_nodes,
            utilization=max(share / copies, math.ulp(0.0)) if share and is_scaled_by_log else None,
            machines=machines if is_scaled_by_log else None,
            after=self.after,
        )
        streams = Streams(self.seed)
        if self.resample is not None:
            jobs = _draw_jobs(jobs, self.resample, streams)
        count = len(jobs["release"])
        release = np.tile(jobs["release"] - jobs["release"][0], copies)
        draw = streams("workload.submitters")
        if self.at_home:
            users, user_of = np.unique(jobs["user"], return_inverse=True)
            homes = draw.integers(platform.nodes, size=(copies, len(users)))
            submitter = homes[:, user_of].ravel()
        else:
            submitter = draw.integers(platform.nodes, size=len(release))
        if share is not None and not is_scaled_by_log:
            speed = _home_speeds(platform, submitter) / platform.aggregate_speed
            work = float((np.tile(jobs["tasks"] * jobs["run_time"], copies) * speed).sum())
            release = _scale_releases(release, work, share)
        jitter = streams("workload.jitter").uniform(0.0, self.jitter, len(release) - count)
        release[count:] += jitter
        columns = {
            "release": release,
            "submitter": submitter,
            **{name: np.tile(jobs[name], copies) for name in _LOG_COLUMNS if name in jobs},
            **_name_columns(_names_of_log(self.path), self.resample),
            **_as_tasks(platform, len(release), self.cores_per_node, exclusive=self.exclusive),
        }
        if self.after != "none":
            is_equal = platform.extremes[0] == platform.extremes[1]
            columns |= _with_predecessors(jobs, release, jobs["run_time"] if is_equal else 0.0 * release)
        requirements = draw_requirements(self.constraints, self.seed, len(release))
        return _columns(platform, _known(columns), np.tile(jobs["run_time"], copies), requirements)


def _check_unchanged(recipe: JobLogRecipe | SiteLogsRecipe, *fields: tuple[str, int | None]) -> None:
    """Raise ScenarioError if a field has not its default, though jobs of a log are released after others."""
    for name, default in fields:
        if recipe.after != "none" and (value := getattr(recipe, name)) != default:
            raise ScenarioError(
                f"workload.{name} must be {default} with workload.after = {recipe.after!r}, got {value!r}"
            )


class SiteLogsRecipe(RigidJobsKind, frozen=True, kw_only=True, tag="site-logs"):
    """The rigid jobs of several logs (SWF or GWF), one of each site of the platform, in one workload.

    The home of a job is the site of its log, and it is submitted at a machine of that site, drawn uniformly.
    Queues of different logs are different, and users and accounts unless they are shared.

    Parameters
    ----------
    paths
        Path of the log of each site, plain or gzip.
    seed
        Seed of the draw of the machines at which jobs are submitted, and of the resampling.
    cores_per_node
        Processors per node of each site, one entry per site; in Python, a single number in place of a list is
        that of all sites.  By default it is 1.
    start, end
        Window of submit times of the jobs that are used, s after the first submission of each log.
    align
        ``"first"``: each log begins at 0 s with the first of its jobs that are used.  ``"unix"``: logs keep
        their differences in UNIX time, which is ``UnixStartTime`` in the header of a log plus the submission.
        None: ``"unix"`` if all logs state that time and have a common period, else ``"first"``.
    shared_users
        If true, users of equal names in the logs are one user, for example for limits of users, and so are
        accounts; without names, equal numbers are one.  If false, those of different logs are different.
    at_home
        If true, each user submits at one machine; if false, a machine is drawn for each job.
    resample
        Blocks of jobs that are drawn with replacement with `seed`: ``"weeks"``, the same weeks of all logs,
        or ``"users"`` with all their jobs; None for the jobs of the logs.
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    after
        As in the workload of one log; users are those of each log.  It does not support `resample`.
    """

    paths: tuple[FilePath, ...]
    seed: Seed = DEFAULT_SEED
    cores_per_node: Annotated[IntColumn, Limits(low=1)] | None = None
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    end: Annotated[float, Limits(above=0, unit="s", finite=False)] = math.inf
    align: Literal["first", "unix"] | None = None
    shared_users: bool = False
    at_home: bool = False
    resample: Blocks | None = None
    exclusive: bool = False
    after: Literal["none", "preceding", "user"] = "none"

    def __post_init__(self) -> None:
        if isinstance(self.cores_per_node, (int, np.integer)):
            normalise(
                self, cores_per_node=[self.cores_per_node] * len(sequence("workload.paths", self.paths))
            )
        super().__post_init__()
        if not self.paths:
            raise ScenarioError("workload.paths must have at least one log, got none")
        if self.cores_per_node is not None and len(self.cores_per_node) != len(self.paths):
            raise ScenarioError(
                f"workload.cores_per_node must have {len(self.paths)} entries, one per log, got "
                f"{len(self.cores_per_node)}"
            )
        _check_unchanged(self, ("resample", None))
        real("workload.end", self.end, above=self.start, unit="s", finite=False)

    @property
    def no_dates(self) -> str:
        """The reason why the logs cannot keep their dates, or hardly should; "" if there is none."""
        periods = [_period(path, self.start, self.end) for path in self.paths]
        for path, period in zip(self.paths, periods, strict=True):
            if period is None:
                name = os.path.basename(path)
                return f"{name} does not state UnixStartTime, which gridsim trace convert --zone NAME writes"
        known = [period for period in periods if period is not None]
        is_common = max(first for first, _ in known) <= min(last for _, last in known)
        return "" if is_common else "they have no common period"

    @property
    def clock(self) -> str:
        """A sentence on time 0, and on how the logs are aligned."""
        text = "times are s since the first release of the logs, "
        if self.align == "unix":
            return f"{text}which keep their dates"
        reason = f" since {missing}" if self.align is None and (missing := self.no_dates) else ""
        if self.align is None and not reason:
            return f'{text}which keep their dates (workload.align = "first" lets each begin at 0 s)'
        return f"{text}each of which begins at 0 s{reason}"

    @property
    def periods(self) -> str:
        """The dates of the first and the last submission of each log that states them; "" if none does."""
        if self.resample is not None:
            return ""
        dates = [(os.path.basename(path), _dates(path, self.start, self.end)) for path in self.paths]
        return ", ".join(f"{date[0]} to {date[1]} ({name})" for name, date in dates if date)

    @property
    def nodes(self) -> str:
        """A sentence on the processors of the nodes of the sites; "" if machines are processors."""
        procs = self.cores_per_node
        if procs is None:
            return ""
        if len(set(procs)) == 1:
            return f"each machine is a node of {procs[0]} processors, so sizes of jobs are in nodes"
        names = map(os.path.basename, self.paths)
        texts = ", ".join(f"{count} ({name})" for count, name in zip(procs, names, strict=True))
        return (
            f"machines are nodes of {texts} processors, which count as equal: a job takes as many nodes, for "
            "as long, at each site"
        )

    @property
    def unfinished_jobs(self) -> str:
        """A sentence on the jobs that the logs leave out at their ends; "" if there are none."""
        counts = {path: _count_unfinished(path) for path in self.paths if math.isinf(self.end)}
        texts = [f"{text} ({os.path.basename(path)})" for path, text in counts.items() if text]
        return f"left out at the ends of the logs: {', '.join(texts)}" if texts else ""

    def columns(self, platform: Platform) -> Columns:
        sizes = platform.site_sizes
        if sizes is None or len(sizes) != len(self.paths):
            count = "none" if sizes is None else len(sizes)
            raise ScenarioError(
                f"platform must have {len(self.paths)} sites (Platform.sites), one per log of "
                f"workload.paths, got {count}"
            )
        is_first = self.align == "first" or (self.align is None and self.no_dates != "")
        jobs: list[Columns] = []
        names: dict[str, list[str]] = {name: [] for name in _GROUPS}
        labels = platform.site_names or [str(k) for k in range(len(sizes))]
        for k, path in enumerate(self.paths):
            procs = 1 if self.cores_per_node is None else self.cores_per_node[k]
            log = _jobs_of_log(path, cores_per_node=procs, start=self.start, end=self.end, after=self.after)
            if self.after != "none":
                log["predecessors"] += sum(len(earlier["release"]) for earlier in jobs)
            unix = log.pop("unix_start")
            if is_first:
                log["release"] -= log["release"][0]
            elif np.isnan(unix[0]):
                raise ScenarioError(
                    f'{path}: the header must have UnixStartTime for workload.align = "unix", got none; '
                    "gridsim trace convert --zone NAME writes it for a log of local times"
                )
            else:
                log["release"] += unix[0]
            for name, header_names in _names_of_log(path).items():
                if self.shared_users and name != "queue":
                    log[name] = _shared_numbers(log[name], header_names, names[name])
                    continue
                texts, count = names[name], int(log[name].max()) + 1
                log[name] = np.where(log[name] < 0, -1, log[name] + len(texts))
                texts += [f"{labels[k]}/{header_names.get(number, number)}" for number in range(count)]
            log["site"] = np.full(len(log["release"]), k, np.int64)
            jobs.append(log)
        self._warn_of_periods([log["release"] for log in jobs])
        all_jobs = {name: np.concatenate([log[name] for log in jobs]) for name in jobs[0]}
        streams = Streams(self.seed)
        if self.resample is not None:
            key = None if self.shared_users else all_jobs["site"]
            all_jobs = _draw_jobs(all_jobs, self.resample, streams, key)
        all_jobs["release"] -= all_jobs["release"].min()
        draw, site = streams("workload.submitters"), all_jobs["site"]
        first = np.cumsum(sizes) - sizes
        if self.at_home:
            homes, home_of = np.unique(np.stack((site, all_jobs["user"])), axis=1, return_inverse=True)
            machine = draw.integers(sizes[homes[0]])[home_of.ravel()]
        else:
            machine = draw.integers(sizes[site])
        run_time = all_jobs.pop("run_time")
        if self.after != "none":
            is_equal = platform.extremes[0] == platform.extremes[1]
            shortest = run_time if is_equal else 0.0 * run_time
            all_jobs |= _with_predecessors(all_jobs, all_jobs["release"], shortest)
            del all_jobs["predecessor_counts"], all_jobs["is_submitted"]
        procs = np.ones(len(sizes), np.int64) if self.cores_per_node is None else self.cores_per_node.array
        all_jobs |= _as_tasks(platform, len(site), procs[site], exclusive=self.exclusive)
        return _columns(
            platform,
            _known({**all_jobs, **_name_columns(names, self.resample), "submitter": first[site] + machine}),
            run_time,
            Requirements(),
        )

    def _warn_of_periods(self, releases: Sequence[Floats]) -> None:
        """Issue a `TraceWarning` if the jobs of some logs end more than a day and a tenth before others."""
        begin = min(release.min() for release in releases)
        periods = [(release.min() - begin, release.max() - begin) for release in releases]
        ends = [end for _, end in periods]
        if max(ends) - min(ends) <= max(_DAY, max(ends) / 10.0):
            return
        texts = ", ".join(
            f"{os.path.basename(path)} {start / _DAY:.4g} to {end / _DAY:.4g}"
            for path, (start, end) in zip(self.paths, periods, strict=True)
        )
        warn(
            f"the logs of sites have jobs in different periods (days): {texts}; workload.end, such as "
            f"{math.ceil(min(end - start for start, end in periods)) + 1} s, shortens the longer ones",
            TraceWarning,
        )


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
    priority: FloatColumn | None = None
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
        return _columns(platform, columns, np.array(self.run_time), Requirements(**needs))

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


def _as_tasks(
    platform: Platform, jobs: int, cores: int | Integers = 1, *, exclusive: bool = False
) -> Columns:
    """Return the columns of jobs whose sizes are in processors or nodes, if jobs share machines.

    A processor is a core, so any number of a job may be on one machine.  A node is `cores` > 1 cores of one
    machine.
    """
    if not platform.is_shared:
        return {}
    of_task = np.broadcast_to(np.asarray(cores, np.int64), jobs).copy()
    return {
        "cores": of_task,
        "tasks_per_machine": (of_task > 1).astype(np.int64),
        "exclusive": np.full(jobs, int(exclusive)),
    }


RigidRecipe = JobRecipe | JobLogRecipe | SiteLogsRecipe | JobListRecipe

#: Column that groups the jobs of a log -> its field in the log, which is also its key in the header.
_GROUPS = {"user": "user", "queue": "queue", "account": "group"}
#: The columns of the jobs of a log besides those that recipes compute.
_LOG_COLUMNS = ("tasks", "requested", "job", *_GROUPS)


def _jobs_of_log(
    path: str,
    *,
    cores_per_node: int,
    start: float,
    end: float,
    max_nodes: int | None = None,
    utilization: float | None = None,
    machines: int | None = None,
    after: Literal["none", "preceding", "user"] = "none",
) -> Columns:
    """Return the jobs of a log: `_LOG_COLUMNS`, release (s on its clock), run_time (s), and unix_start.

    The last one has a single entry, the UNIX time at which the clock begins; NaN if the header has none.  The
    other parameters are those of `gridsim.traces.rigid.derive_jobs`, and `JobLogRecipe.after`; with it, there
    are also the fields of `gridsim.traces.dependencies.Predecessors`.

    Raises
    ------
    ScenarioError
        If there is no job.
    """
    from gridsim.traces.dependencies import preceding_jobs, previous_jobs
    from gridsim.traces.info import load_jobs
    from gridsim.traces.jobs import unix_start
    from gridsim.traces.rigid import derive_jobs, warn_missing_requests

    log = load_jobs(path)
    jobs = derive_jobs(
        log,
        cores_per_node=cores_per_node,
        start=start,
        end=end,
        max_nodes=max_nodes,
        utilization=utilization,
        machines=machines,
        uses_preceding=after == "preceding",
    )
    if not len(jobs):
        raise ScenarioError(
            f"{path}: the log must have jobs between workload.start and workload.end that ran for a "
            "known time, got none"
        )
    warn_missing_requests(log, jobs)
    if cores_per_node > 1 and log.has_shared_nodes:
        warn(
            f"{path}: jobs share nodes, but have whole ones here; --shared (platform.cores in place of "
            "workload.cores_per_node) lets them share nodes",
            TraceWarning,
        )
    predecessors: Columns = {}
    if after != "none":
        find = preceding_jobs if after == "preceding" else previous_jobs
        predecessors = find(log, jobs)._asdict()
    return {
        **predecessors,
        "release": jobs.release,
        "tasks": jobs.nodes,
        "run_time": jobs.run_time,
        "requested": jobs.requested,
        "job": jobs.job,
        **{name: log.jobs[field][jobs.row].astype(np.int64) for name, field in _GROUPS.items()},
        "unix_start": np.array([unix_start(log.header)]),
    }


def _submissions(path: str, start: float, end: float) -> tuple[JobLog, float, float] | None:
    """Return a log, and its first and last submission in a window, s; None if there is none."""
    from gridsim.traces.info import load_jobs

    log = load_jobs(path)
    submit = log.jobs["submit"][log.jobs["submit"] >= 0]
    elapsed = submit - submit.min(initial=math.inf)
    submit = submit[(elapsed >= start) & (elapsed < end)]
    return (log, float(submit[0]), float(submit[-1])) if len(submit) else None


def _with_predecessors(jobs: Columns, release: Floats, run_time: Floats) -> Columns:
    """Return the columns of jobs that follow others; the order remains that of the submissions, `release`.

    The stated release of such a job is the earliest one: if no job before it has to wait, in whole s.
    """
    predecessors, think_time = jobs["predecessors"], jobs["think_time"]
    offsets = np.append(0, np.cumsum(jobs["predecessor_counts"]))
    earliest = np.where(jobs["is_submitted"], release, 0.0)
    ends = earliest_ends(earliest, run_time, predecessors, offsets, think_time)
    return {
        "release": np.where(jobs["is_submitted"], release, np.floor(ends - run_time)),
        "order": release,
        "predecessors": predecessors,
        "predecessor_offsets": offsets,
        "think_time": think_time,
    }


def _period(path: str, start: float, end: float) -> tuple[float, float] | None:
    """Return the UNIX times of the first and the last submission in a window of a log, s; None if unknown."""
    from gridsim.traces.jobs import unix_start

    if (submissions := _submissions(path, start, end)) is None:
        return None
    log, first, last = submissions
    begin = unix_start(log.header)
    return (begin + first, begin + last) if math.isfinite(begin) else None


def _count_unfinished(path: str) -> str:
    """Return how many jobs a log leaves out since they had not ended when it was written; "" if none."""
    from gridsim.traces.info import load_jobs

    return " and ".join(f"{count} {kind}" for kind, count in load_jobs(path).unfinished_jobs.items())


def _dates(path: str, start: float, end: float) -> tuple[str, str] | None:
    """Return the dates of the first and the last submission in a window of a log; None if unknown."""
    from gridsim.traces.jobs import date_at

    if (submissions := _submissions(path, start, end)) is None:
        return None
    log, *times = submissions
    first, last = (date_at(log.header, time) for time in times)
    return None if first is None or last is None else (first.date().isoformat(), last.date().isoformat())


def _names_of_log(path: str) -> dict[str, dict[int, str]]:
    """Return number -> name of the users, queues and accounts that the header of a log lists."""
    from gridsim.traces.info import load_jobs
    from gridsim.traces.jobs import listed_names

    header = load_jobs(path).header
    return {name: listed_names(header, field.capitalize()) for name, field in _GROUPS.items()}


def _shared_numbers(numbers: Integers, header_names: Mapping[int, str], names: list[str]) -> Integers:
    """Return the places of users or accounts in `names`, to which new ones are added; -1 if unknown.

    Parameters
    ----------
    numbers
        Number of each job's user or account in a log.
    header_names
        Number -> name in the header of the log.
    """
    known, places = {name: k for k, name in enumerate(names)}, {-1: -1}
    for number in np.unique(numbers[numbers >= 0]).tolist():
        name = header_names.get(number, str(number))
        places[number] = known.setdefault(name, len(known))
        names += [name] * (len(known) > len(names))
    return np.array([places[max(number, -1)] for number in numbers.tolist()], np.int64)


def _name_columns(names: Mapping[str, Mapping[int, str] | Sequence[str]], blocks: Blocks | None) -> Columns:
    """Return the columns with the names of users, queues and accounts; drawn users have none."""
    columns = {}
    for name, listed in names.items():
        if isinstance(listed, Mapping):
            listed = [listed.get(k, "") for k in range(max(listed, default=-1) + 1)]
        if any(listed) and not (name == "user" and blocks == "users"):
            columns[f"{name}_names"] = np.array(listed)
    return columns


def _draw_jobs(jobs: Columns, blocks: Blocks, streams: Streams, key: Integers | None = None) -> Columns:
    """Return jobs that are drawn with replacement, in order of release.

    Parameters
    ----------
    key
        Site of each job if users of different sites are different; None for one site.
    """
    user = jobs["user"]
    if blocks == "users" and user.max() < 0:
        raise ScenarioError('workload.resample = "users" requires a log with users, got one without')
    if key is not None:  # unknown users of different sites are different as well
        user = np.unique(np.stack((key, user)), axis=1, return_inverse=True)[1].ravel().astype(np.int64)
    sample = resample(blocks, jobs["release"], user, streams("workload.resample"))
    drawn = {name: jobs[name][sample.job] for name in jobs if name != "unix_start"}
    if blocks == "users":
        drawn["user"] = sample.user
    return {**drawn, "release": sample.release}


def _known(columns: Columns) -> Columns:
    """Return `columns` without users, queues and accounts if no job has one."""
    unknown = [name for name in _GROUPS if columns[name].max() < 0]
    return {name: column for name, column in columns.items() if name not in unknown}


def _scale_releases(release: Floats, work: float, utilization: float) -> Floats:
    """Return releases, which begin at 0 s, scaled so that `work` (s of all machines) is that utilization."""
    span = float(release.max())
    if not span:
        raise ScenarioError("utilization requires jobs with at least two different release times")
    factor = work / (utilization * span) if utilization * span > 0 else math.inf
    if not math.isfinite(span * factor):
        raise ScenarioError(f"workload.utilization must keep the last release finite, got {utilization!r}")
    return release * factor


def _home_speeds(platform: Platform, submitter: Integers, site: Integers | None = None) -> Floats:
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


def _columns(platform: Platform, columns: Columns, run_time: Floats, requirements: Requirements) -> Columns:
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
        speed = _home_speeds(platform, columns["submitter"], site)
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
        number, advice, reason = i, "", "the number of machines"
        if is_shared:
            reason = "for which the machines have room (cores, memory, GPUs)"
        if "job" in columns:
            number = columns["job"][i]
            advice = (
                "; with workload.cores_per_node, machines are nodes of several processors; "
                "workload.max_nodes leaves out larger jobs"
            )
        raise ScenarioError(
            f"workload.nodes[{i}] must be at most {room[i]}, {reason}, got {tasks[i]} for job {number}"
            f"{advice}"
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
