"""Recipes of the rigid jobs of job logs: of one log, or of one log for each site."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from gridsim.errors import ScenarioError, TraceWarning, warn
from gridsim.model.applications import Columns
from gridsim.model.attributes import Constraints, Requirements, check_constraints, draw_requirements
from gridsim.model.log_facts import GROUP_FIELDS, log_facts, read_log
from gridsim.model.platform import Platform
from gridsim.model.resampling import Blocks, resample
from gridsim.model.rigid_workloads import MaxNodes, RigidJobsKind, home_speeds, rigid_columns
from gridsim.optimization.chains import earliest_ends
from gridsim.support.arguments import normalise, real, sequence
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.columns import IntColumn
from gridsim.support.parameters import FilePath, Limits, Seed
from gridsim.support.random_streams import DEFAULT_SEED, Streams

_DAY = 86_400.0
#: The columns of the jobs of a log besides those that recipes compute.
_SHARED_COLUMNS = ("cores", "tasks_per_machine", "gpus", "memory")
_LOG_COLUMNS = ("tasks", "requested", "job", "core_share", *_SHARED_COLUMNS, *GROUP_FIELDS)

#: Sentence on a log without requested times.
NO_REQUESTS = "the log has no requested times, so run times count as these"
#: Sentence on jobs that share the nodes of a log that states how many nodes each had.
_PARTS_OF_LOG = "jobs keep the numbers of nodes of the log, with as many cores on each, rounded up"


class JobLogRecipe(RigidJobsKind, frozen=True, kw_only=True, tag="job-log"):
    """The rigid jobs of a job log, such as SWF or sacct, released as recorded, the first at 0 s.

    Jobs of unknown run time are left out, and run times of 0 s count as 1 s, both with a warning.  `realize`
    reads the file, and rejects a job of more nodes than the platform has machines that suit it.  Of machines
    that jobs share, a job takes the GPUs and the requested memory of the log, divided evenly among its nodes,
    if machines state theirs (`gpus` and `memory` of the platform).

    Parameters
    ----------
    path
        Path of the log, plain or gzip.
    seed
        Seed of the draw of the machines at which jobs are submitted, and of the jitter.
    cores_per_node
        Processors per node; a job of p processors needs ceil(p / cores_per_node) nodes.  With 1, on machines
        that jobs share (the cores of the platform), a job keeps the number of nodes that the log states
        (NNodes of sacct), with as many cores on each, rounded up; without that number, it takes cores
        anywhere.
    utilization
        Request utilization to which submit times are compressed or stretched; None for submit times as
        recorded.
    start, end
        Window of submit times of the jobs that are used, s after the first submission of the log.
    max_nodes
        Largest number of nodes of a job, or of processors without `cores_per_node`; larger jobs are left out,
        with a warning.
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
        What is drawn from the log, with replacement and `seed`: ``"weeks"`` draws as many whole weeks as the
        log has, one after another; ``"users"`` draws as many users as it has, each with all of their jobs.
        None takes the jobs as they are.  `utilization` then is that of the drawn jobs.
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    after
        The job after whose end, and a think time, a job is released, instead of at its submission:
        ``"none"``; ``"preceding"``, the preceding jobs that the log states (fields 17 and 18 of SWF), if they
        are among the jobs; ``"user"``, the previous job of the same user, if that had ended before the
        submission (a closed loop).  The think time is then the time between these in the log.  Other jobs are
        released at their submissions.  It does not support `utilization`, `copies` and `resample`.
    request_factor
        Factor of the requested times, by which schedulers plan and at which they may kill jobs.  Run times
        stay those of the log, also of jobs that a limit ended there.  The log must have requested times; jobs
        without one count as requesting their run time.
    """

    path: FilePath
    seed: Seed = DEFAULT_SEED
    cores_per_node: Annotated[int, Limits(low=1)] = 1
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    end: Annotated[float, Limits(above=0, unit="s", finite=False)] = math.inf
    max_nodes: MaxNodes = None
    utilization: Annotated[float, Limits(above=0)] | None = None
    copies: Annotated[int, Limits(low=1, high=10**6)] = 1
    jitter: Annotated[float, Limits(low=0, unit="s")] = 3600.0
    at_home: bool = False
    constraints: Constraints | None = None
    resample: Blocks | None = None
    exclusive: bool = False
    after: Literal["none", "preceding", "user"] = "none"
    request_factor: Annotated[float, Limits(above=0)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unchanged(self, ("utilization", None), ("copies", 1), ("resample", None))
        real("workload.end", self.end, above=self.start, unit="s", finite=False)
        check_constraints(self.constraints)

    @property
    def nodes(self) -> str:
        """A sentence on the processors of the nodes; "" if machines are processors."""
        if self.cores_per_node > 1:
            return _nodes_text(self.cores_per_node)
        if log_facts(self.path).has_nodes_only:
            return "each machine is a node, since the log has numbers of nodes"
        return ""

    @property
    def parts(self) -> str:
        """A sentence on the parts of jobs on shared machines; "" if they are single cores."""
        procs = self.cores_per_node
        if procs > 1:
            return f"jobs take cores in parts of {procs}, each on a machine of its own"
        return _PARTS_OF_LOG if log_facts(self.path).has_node_counts else ""

    def resources(self, platform: Platform) -> str:
        """Return a sentence on the GPUs and the memory that jobs take of shared machines; "" if none."""
        return _resources_text(_resources(platform, self.constraints))

    @property
    def dates(self) -> tuple[str, str] | None:
        """The dates of the first and the last submission in the window; None if unknown or changed.

        They are by the clock of the log.
        """
        if self.utilization is not None or self.resample is not None:
            return None
        return log_facts(self.path).dates(self.start, self.end)

    @property
    def dates_clock(self) -> str:
        """A phrase on the clock of `dates`: UTC if the log has UNIX times without a time zone."""
        header = log_facts(self.path).header
        is_utc = "UnixStartTime" in header and not header.get("TimeZoneString", "").strip()
        return "UTC" if is_utc else "by the clock of the log"

    @property
    def requests(self) -> str:
        """A sentence on requested times that are not those of the log; "" if they are."""
        return _requests([self.path], self.request_factor)

    @property
    def unfinished_jobs(self) -> str:
        """A sentence on the jobs that the log leaves out at its end; "" if there are none."""
        if not math.isinf(self.end) or not (counts := log_facts(self.path).unfinished_jobs):
            return ""
        return f"left out at the end of the log: {counts}"

    def columns(self, platform: Platform) -> Columns:
        machines, copies, share = platform.core_count, self.copies, self.utilization
        if platform.is_shared:
            machines //= self.cores_per_node
        is_scaled_by_log = share is not None and self.resample is None
        is_scaled_by_log &= platform.has_equal_speeds  # else the load depends on the submitters
        jobs = _jobs_of_log(
            self.path,
            cores_per_node=self.cores_per_node,
            start=self.start,
            end=self.end,
            max_nodes=self.max_nodes,
            utilization=max(share / copies, math.ulp(0.0)) if share and is_scaled_by_log else None,
            machines=machines if is_scaled_by_log else None,
            after=self.after,
            uses=_resources(platform, self.constraints),
            draws_memory=_draws_memory(self.constraints),
            request_factor=self.request_factor,
            keeps_nodes=_keeps_nodes(self.cores_per_node, platform.cores),
        )
        _warn_of_whole_nodes([self.path], [self.cores_per_node], platform)
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
            speed = home_speeds(platform, submitter) / platform.aggregate_speed
            work = float((np.tile(jobs["tasks"] * jobs["run_time"], copies) * speed).sum())
            release = _scale_releases(release, work, share)
        jitter = streams("workload.jitter").uniform(0.0, self.jitter, len(release) - count)
        release[count:] += jitter
        columns = {
            "release": release,
            "submitter": submitter,
            **{name: np.tile(jobs[name], copies) for name in _LOG_COLUMNS if name in jobs},
            **_name_columns(log_facts(self.path).names, self.resample),
        }
        if platform.is_shared:
            columns["exclusive"] = np.full(len(release), int(self.exclusive))
        if self.after != "none":
            columns |= _with_predecessors(jobs, release, jobs["run_time"], platform)
        requirements = draw_requirements(self.constraints, self.seed, len(release))
        requirements = _with_memory(requirements, columns.pop("memory", None))
        return rigid_columns(platform, _known(columns), np.tile(jobs["run_time"], copies), requirements)


def _check_unchanged(recipe: JobLogRecipe | SiteLogsRecipe, *fields: tuple[str, int | None]) -> None:
    """Raise ScenarioError if jobs are released after others and a field does not have its default."""
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
        that of all sites.  By default it is 1.  On machines that jobs share (the cores of the platform), jobs
        of a site with 1 take cores as in the workload of one log, and those of a site with n as many parts of
        n cores.
    start, end
        Window of submit times of the jobs that are used, s after the first submission of each log.
    max_nodes
        Largest number of nodes of a job, or of processors if its site has no `cores_per_node`; larger jobs
        are left out, with a warning.
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
        What is drawn from the logs, as in the workload of one log; ``"weeks"`` draws the same weeks of all.
    exclusive
        If jobs share machines: whether the machines of each job run no other job.
    after
        As in the workload of one log; users are those of each log.  It does not support `resample`.
    request_factor
        As in the workload of one log, for all of the logs.
    """

    paths: tuple[FilePath, ...]
    seed: Seed = DEFAULT_SEED
    cores_per_node: Annotated[IntColumn, Limits(low=1)] | None = None
    start: Annotated[float, Limits(low=0, unit="s")] = 0.0
    end: Annotated[float, Limits(above=0, unit="s", finite=False)] = math.inf
    max_nodes: MaxNodes = None
    align: Literal["first", "unix"] | None = None
    shared_users: bool = False
    at_home: bool = False
    resample: Blocks | None = None
    exclusive: bool = False
    after: Literal["none", "preceding", "user"] = "none"
    request_factor: Annotated[float, Limits(above=0)] = 1.0

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
    def _processors(self) -> Sequence[int]:
        """Processors per node of each site."""
        return self.cores_per_node or [1] * len(self.paths)

    @property
    def no_dates(self) -> str:
        """The reason why the logs cannot or should not keep their dates; "" if there is none."""
        periods = [log_facts(path).period(self.start, self.end) for path in self.paths]
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
        dates = [(os.path.basename(path), log_facts(path).dates(self.start, self.end)) for path in self.paths]
        return ", ".join(f"{date[0]} to {date[1]} ({name})" for name, date in dates if date)

    @property
    def nodes(self) -> str:
        """A sentence on the processors of the nodes of the sites; "" if machines are processors."""
        procs = self._processors
        if max(procs) == 1:
            return ""
        if len(set(procs)) == 1:
            return _nodes_text(procs[0])
        names = map(os.path.basename, self.paths)
        texts = ", ".join(f"{count} ({name})" for count, name in zip(procs, names, strict=True))
        return (
            f"machines are nodes of {texts} processors, which count as equal: a job takes as many nodes, for "
            "as long, at each site"
        )

    @property
    def parts(self) -> str:
        """A sentence on the parts of jobs on shared machines; "" if they are single cores."""
        procs = self._processors
        has_nodes = [
            p == 1 and log_facts(path).has_node_counts for p, path in zip(procs, self.paths, strict=True)
        ]
        if max(procs) == 1 and not any(has_nodes):
            return ""
        counts = [
            "NCPUS / NNodes" if keeps_nodes else p for keeps_nodes, p in zip(has_nodes, procs, strict=True)
        ]
        names = map(os.path.basename, self.paths)
        texts = ", ".join(f"{count} ({name})" for count, name in zip(counts, names, strict=True))
        return f"jobs take cores in parts of {texts}; parts of several cores are on different machines"

    def resources(self, platform: Platform) -> str:
        """Return a sentence on the GPUs and the memory that jobs take of shared machines; "" if none."""
        return _resources_text(_resources(platform))

    @property
    def requests(self) -> str:
        """A sentence on requested times that are not those of the logs; "" if they are."""
        return _requests(self.paths, self.request_factor)

    @property
    def unfinished_jobs(self) -> str:
        """A sentence on the jobs that the logs leave out at their ends; "" if there are none."""
        counts = {path: log_facts(path).unfinished_jobs for path in self.paths if math.isinf(self.end)}
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
        jobs, names = self._read_jobs(platform, sizes)
        self._warn_of_periods([log["release"] for log in jobs])
        _warn_of_whole_nodes(self.paths, self._processors, platform)
        all_jobs = {name: np.concatenate([log[name] for log in jobs]) for name in jobs[0]}
        streams = Streams(self.seed)
        if self.resample is not None:
            key = None if self.shared_users else all_jobs["site"]
            all_jobs = _draw_jobs(all_jobs, self.resample, streams, key)
        all_jobs["release"] -= all_jobs["release"].min()
        draw, site, first = streams("workload.submitters"), all_jobs["site"], np.cumsum(sizes) - sizes
        if self.at_home:
            homes, home_of = np.unique(np.stack((site, all_jobs["user"])), axis=1, return_inverse=True)
            machine = draw.integers(sizes[homes[0]])[home_of.ravel()]
        else:
            machine = draw.integers(sizes[site])
        run_time, memory = all_jobs.pop("run_time"), all_jobs.pop("memory", None)
        if self.after != "none":
            all_jobs |= _with_predecessors(all_jobs, all_jobs["release"], run_time, platform)
            del all_jobs["predecessor_counts"], all_jobs["is_submitted"]
        if platform.is_shared:
            all_jobs["exclusive"] = np.full(len(site), int(self.exclusive))
        return rigid_columns(
            platform,
            _known({**all_jobs, **_name_columns(names, self.resample), "submitter": first[site] + machine}),
            run_time,
            _with_memory(Requirements(), memory),
        )

    def _read_jobs(self, platform: Platform, sizes: Integers) -> tuple[list[Columns], dict[str, list[str]]]:
        """Return the jobs of each log by one clock, and the names of all users, queues and accounts.

        Parameters
        ----------
        sizes
            Number of machines of each site.
        """
        begins_at_zero = self.align == "first" or (self.align is None and self.no_dates != "")
        jobs: list[Columns] = []
        names: dict[str, list[str]] = {name: [] for name in GROUP_FIELDS}
        labels = platform.site_names or [str(k) for k in range(len(sizes))]
        cores_of = (
            [None] * len(sizes) if platform.cores is None else np.split(platform.cores, np.cumsum(sizes)[:-1])
        )
        sites = zip(self.paths, self._processors, labels, cores_of, strict=True)
        for k, (path, processors, label, cores) in enumerate(sites):
            log = _jobs_of_log(
                path,
                cores_per_node=processors,
                start=self.start,
                end=self.end,
                max_nodes=self.max_nodes,
                after=self.after,
                uses=_resources(platform),
                request_factor=self.request_factor,
                keeps_nodes=_keeps_nodes(processors, cores),
            )
            if self.after != "none":
                log["predecessors"] += sum(len(earlier["release"]) for earlier in jobs)
            unix_start = log.pop("unix_start")[0]
            if begins_at_zero:
                log["release"] -= log["release"][0]
            elif np.isnan(unix_start):
                raise ScenarioError(
                    f'{path}: the header must have UnixStartTime for workload.align = "unix", got none; '
                    "gridsim trace convert --zone NAME writes it for a log of local times"
                )
            else:
                log["release"] += unix_start
            for name, header_names in log_facts(path).names.items():
                are_shared = self.shared_users and name != "queue"
                number = _shared_numbers if are_shared else _separate_numbers
                log[name] = number(log[name], header_names, names[name], label)
            log["site"] = np.full(len(log["release"]), k, np.int64)
            jobs.append(log)
        return jobs, names

    def _warn_of_periods(self, releases: Sequence[Floats]) -> None:
        """Issue a `TraceWarning` if the last releases of logs are more than a day and a tenth apart."""
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
    uses: frozenset[str],
    draws_memory: bool = False,
    request_factor: float = 1.0,
    keeps_nodes: bool,
) -> Columns:
    """Return the jobs of a log: `_LOG_COLUMNS`, release (s on its clock), run_time (s), and unix_start.

    The last one has a single entry, the UNIX time at which the clock begins; NaN if the header has none.  The
    `_SHARED_COLUMNS` are those in `uses`; if memory is drawn (`draws_memory`), there is no warning that the
    memory of the log is left out.  The other parameters are those of `gridsim.traces.rigid.derive_jobs`, and
    `JobLogRecipe.after` and `JobLogRecipe.request_factor`; with `after`, there are also the fields of
    `gridsim.traces.dependencies.Predecessors`.

    Raises
    ------
    ScenarioError
        If there is no job, no number of nodes of a job whose GPUs are used, or no requested time that a
        factor could change.
    """
    from gridsim.traces.dependencies import preceding_jobs, previous_jobs
    from gridsim.traces.rigid import derive_jobs, warn_memory, warn_missing_requests

    log, facts = read_log(path)
    jobs = derive_jobs(
        log,
        cores_per_node=cores_per_node,
        start=start,
        end=end,
        max_nodes=max_nodes,
        utilization=utilization,
        machines=machines,
        uses_preceding=after == "preceding",
        uses_gpus="gpus" in uses,
        keeps_nodes=keeps_nodes,
    )
    if not len(jobs):
        raise ScenarioError(
            f"{path}: the log must have jobs between workload.start and workload.end that ran for a "
            "known time, got none"
        )
    warn_missing_requests(log, jobs)
    is_stated = log.jobs["req_time"][jobs.row] > 0
    if request_factor != 1.0 and not is_stated.any():
        raise ScenarioError(f"workload.request_factor requires requested times, and {path} has none")
    predecessors: Columns = {}
    if after != "none":
        find = preceding_jobs if after == "preceding" else previous_jobs
        predecessors = find(log, jobs)._asdict()
    shared: Columns = {}
    if uses:
        if not draws_memory:
            warn_memory(log, jobs, is_used="memory" in uses)
        is_of_node = (jobs.cores > 1) | (keeps_nodes & (log.nodes[jobs.row] > 0))
        gpus = log.gpus[jobs.row]
        shared = {
            "cores": jobs.cores,
            "tasks_per_machine": is_of_node.astype(np.int64),
            "gpus": -(-gpus // jobs.nodes),
            "memory": log.memory[jobs.row] / jobs.nodes,
        }
        shared = {name: column for name, column in shared.items() if name in uses}
        for i in first_true(("gpus" in uses) & (gpus > 0) & (jobs.nodes > 1) & ~is_of_node):
            raise ScenarioError(
                f"{path}: the log must state the number of nodes (NNodes) of jobs with GPUs on machines "
                f"that jobs share, got none for job {jobs.job[i]}; platform.gpus = 0 leaves out the GPUs"
            )
    return {
        **predecessors,
        "release": jobs.release,
        "tasks": jobs.nodes,
        "run_time": jobs.run_time,
        "requested": np.where(is_stated, request_factor * jobs.requested, jobs.requested),
        "job": jobs.job,
        "core_share": jobs.core_share,
        **shared,
        **{name: log.jobs[field][jobs.row].astype(np.int64) for name, field in GROUP_FIELDS.items()},
        "unix_start": np.array([facts.unix_start]),
    }


def _nodes_text(processors: int) -> str:
    """Return a sentence on machines that are nodes of as many processors."""
    return f"each machine is a node of {processors} processors, so sizes of jobs are in nodes"


def _resources(platform: Platform, constraints: Constraints | None = None) -> frozenset[str]:
    """Return the names of the `_SHARED_COLUMNS` of jobs of a log; none if jobs do not share machines.

    Jobs take the GPUs and the memory of the log if machines state theirs; memory that is drawn replaces that
    of the log.
    """
    if not platform.is_shared:
        return frozenset()
    names = {"cores", "tasks_per_machine"}
    if platform.gpus is not None:
        names.add("gpus")
    attributes = platform.attributes
    if attributes is not None and attributes.memory is not None and not _draws_memory(constraints):
        names.add("memory")
    return frozenset(names)


def _draws_memory(constraints: Constraints | None) -> bool:
    return constraints is not None and len(constraints.memory) > 0


def _resources_text(names: frozenset[str]) -> str:
    """Return a sentence on the GPUs and the memory among the names of `_resources`; "" if there are none."""
    nouns = [noun for name, noun in (("gpus", "GPUs"), ("memory", "requested memory")) if name in names]
    return (
        f"jobs take the {' and '.join(nouns)} of the log, divided evenly among their parts" if nouns else ""
    )


def _with_memory(requirements: Requirements, memory: Floats | None) -> Requirements:
    """Return requirements with the memory that jobs of a log need on each of their machines, if any does."""
    return requirements if memory is None or not memory.any() else requirements._replace(memory=memory)


def _keeps_nodes(cores_per_node: int, cores: Integers | None) -> bool:
    """Return whether jobs keep the numbers of nodes of their log: they share machines of these cores."""
    return cores_per_node == 1 and cores is not None and bool(cores.max() > 1)


def _warn_of_whole_nodes(paths: Sequence[str], procs: Sequence[int], platform: Platform) -> None:
    """Issue a `TraceWarning` if jobs of logs get whole nodes, but are known to share them.

    Parameters
    ----------
    procs
        Processors per node of each log.
    """
    counts, is_whole = list(procs), [count > 1 for count in procs]
    shared = [k for k, path in enumerate(paths) if is_whole[k] and log_facts(path).has_shared_nodes]
    if not shared:
        return
    command = ["gridsim", "compare", "--rigid"]
    for path in paths:
        command += ["--job-log", path]
    if len(paths) == 1:
        command += ["--nodes", str(platform.nodes)]
    else:
        assert platform.site_sizes is not None
        sizes = platform.site_sizes.tolist()
        if platform.cores is not None:  # where jobs share nodes already
            first = np.cumsum(sizes) - sizes
            counts = [c if c > 1 else int(platform.cores[i]) for c, i in zip(counts, first, strict=True)]
        sites = zip(platform.site_names, sizes, strict=True)
        command += ["--sites", ",".join(f"{name}={size}" for name, size in sites)]
    command += ["--cores-per-node", ",".join(map(str, counts if len(set(counts)) > 1 else counts[:1]))]
    left = [k for k in range(len(paths)) if is_whole[k] and k not in shared]
    command.append("--shared")
    if left:
        command.append(",".join(name for k, name in enumerate(platform.site_names) if k not in left))
    warn(
        f"{', '.join(paths[k] for k in shared)}: jobs share nodes, but have whole ones here; they share them "
        f"with platform.cores and workload.cores_per_node = 1, or in the shell with {shlex.join(command)}",
        TraceWarning,
    )


def _with_predecessors(jobs: Columns, release: Floats, run_time: Floats, platform: Platform) -> Columns:
    """Return the columns of jobs that follow others; the order remains that of the submissions, `release`.

    The stated release of such a job is the earliest one: if no job before it has to wait, in whole s, and, on
    machines of different speeds, if those jobs took no time.
    """
    if not platform.has_equal_speeds:
        run_time = 0.0 * run_time
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


def _requests(paths: Sequence[str], factor: float) -> str:
    """Return a sentence on requested times that are not those of the logs; "" if they are."""
    if not any(log_facts(path).has_requests for path in paths):
        return NO_REQUESTS
    return "" if factor == 1.0 else f"requested times are {factor:g} times those of the log"


def _separate_numbers(
    numbers: Integers, header_names: Mapping[int, str], names: list[str], label: str
) -> Integers:
    """Return the places of the users, queues or accounts of a log in `names`, to which all of them are added.

    Parameters
    ----------
    numbers
        Number of each job's user, queue or account in the log; -1, also in what is returned, if unknown.
    header_names
        Number -> name in the header of the log.
    label
        Name of the site of the log.
    """
    first = len(names)
    names += [f"{label}/{header_names.get(number, number)}" for number in range(int(numbers.max()) + 1)]
    return np.where(numbers < 0, -1, numbers + first)


def _shared_numbers(numbers: Integers, header_names: Mapping[int, str], names: list[str], _: str) -> Integers:
    """Return the places of the users or accounts of a log in `names`, to which only new names are added.

    The parameters are those of `_separate_numbers`; the names are those of all sites.
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
    unknown = [name for name in GROUP_FIELDS if columns[name].max() < 0]
    return {name: column for name, column in columns.items() if name not in unknown}


def _scale_releases(release: Floats, work: float, utilization: float) -> Floats:
    """Return releases, which begin at 0 s, scaled so that `work` (s of all machines) is that utilization."""
    span = float(release.max())
    if not span:
        raise ScenarioError("workload.utilization requires jobs with at least two different release times")
    factor = work / (utilization * span) if utilization * span > 0 else math.inf
    if not math.isfinite(span * factor):
        raise ScenarioError(f"workload.utilization must keep the last release finite, got {utilization!r}")
    return release * factor
