"""Rigid jobs derived from a job log: jobs that need all their nodes from start to end."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError, TraceWarning
from gridsim.traces._text import Remark, warn_remarks
from gridsim.traces.job_lines import lines_of
from gridsim.traces.job_remarks import report
from gridsim.traces.jobs import JobLog


@dataclass(frozen=True)
class RigidJobs:
    """Rigid jobs, sorted by release, ties in the order of the log; all arrays have one entry per job.

    Parameters
    ----------
    release
        float64, s on the clock of the log.
    nodes
        int64; number of nodes that a job needs at the same time.
    run_time
        float64, s.
    requested
        float64, s; run time that the user requested, or the actual run time if the log has no request.  It
        may be shorter than the run time, as in the log.
    user
        int64; -1 if the log has no users.
    job
        int64; number of the job in the log.
    row
        int64; row in `JobLog.jobs`.
    cores
        int64; processors that a job takes on each of its nodes.
    core_share
        float64; processors of a job over all those of its nodes, from 0 to 1.
    """

    release: NDArray[np.float64]
    nodes: NDArray[np.int64]
    run_time: NDArray[np.float64]
    requested: NDArray[np.float64]
    user: NDArray[np.int64]
    job: NDArray[np.int64]
    row: NDArray[np.int64]
    cores: NDArray[np.int64]
    core_share: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.release)

    def utilization(self, machines: int) -> float:
        """Return the request utilization of `machines` nodes.

        It is the node seconds of the jobs over the node seconds of the machines from the first to the last
        release, and infinite if all jobs are released at once.

        Raises
        ------
        ScenarioError
            If there is no machine.
        """
        _check_positive_integer("machines", machines)
        return _utilization(self.release, self.nodes, self.run_time, machines)


def derive_jobs(
    log: JobLog,
    *,
    cores_per_node: int = 1,
    start: float = 0.0,
    end: float = math.inf,
    max_nodes: int | None = None,
    zero_run_time: float = 1.0,
    utilization: float | None = None,
    machines: int | None = None,
    uses_preceding: bool = False,
    uses_gpus: bool = False,
    keeps_nodes: bool = False,
) -> RigidJobs:
    """Return the rigid jobs of a job log that were submitted in a window of time.

    Jobs that never ran (run time 0 and cancelled, or failed without processors), jobs of unknown run time or
    submission, parts of a job with a line for the whole job, and jobs of more than `max_nodes` nodes are left
    out.  A `TraceWarning` reports each of these, and run times of 0 s, parts without a line for the whole
    job, fields that no run uses (preceding job, think time), and contradictions, for lines in the window.

    Parameters
    ----------
    cores_per_node
        Processors per node; a job of p processors (`JobLog.procs`) needs ceil(p / cores_per_node) nodes.
    start, end
        Window [start, end) of submissions, s after the first submission of the log.
    max_nodes
        Largest number of nodes of a job; None for no limit.
    zero_run_time
        Run time that replaces run times of 0 s, which are below the log's resolution, s.
    utilization, machines
        Value of `RigidJobs.utilization(machines)` to which release times are scaled, by one factor for their
        distances from the first release.  None for release times as recorded.
    uses_preceding
        Whether the caller uses preceding jobs and think times.
    uses_gpus
        Whether the caller uses GPUs (`JobLog.gpus`).
    keeps_nodes
        Whether a job keeps the number of nodes that the log states besides its processors
        (`JobLog.node_counts`), on each of which it takes as many processors, rounded up.  `max_nodes` remains
        a number of processors.

    Raises
    ------
    ScenarioError
        If a parameter is out of range, if only one of `utilization` and `machines` is set, if release times
        cannot be scaled because they are all equal, if the scaled times are not finite, or if
        `cores_per_node` would divide numbers of nodes (`JobLog.has_nodes_only`).
    """
    _check(cores_per_node, start, end, max_nodes, zero_run_time, utilization, machines)
    if cores_per_node > 1 and log.has_nodes_only:
        raise ScenarioError(
            f"cores_per_node must be 1 for {log.path}, which has numbers of nodes and none of processors, "
            f"got {cores_per_node}; leave it out, and count machines in nodes (MaxProcs of the header, or "
            "--nodes)"
        )
    submit, run_time = log.jobs["submit"], log.jobs["run_time"]
    nodes, cores = -(-log.procs // cores_per_node), np.full(len(log), cores_per_node)
    lines = lines_of(log.jobs)
    elapsed = submit - lines.first
    used = lines.in_window(log.jobs, (elapsed >= start) & (elapsed < end))
    if max_nodes is not None:
        wide = used & (nodes > max_nodes) & ~lines.part & ~lines.never_ran
        noun = "nodes" if cores_per_node > 1 or log.has_nodes_only else "processors"
        remark = Remark(log.jobs["line"][wide], f"jobs of more than {max_nodes} {noun}, left out")
        warn_remarks(log.path, [remark], 3)
        used &= nodes <= max_nodes
    report(log, lines, used, zero_run_time, uses_preceding=uses_preceding, uses_gpus=uses_gpus)

    if keeps_nodes:
        stated_nodes = np.minimum(log.nodes, log.procs)
        nodes = np.where(stated_nodes > 0, stated_nodes, nodes)
        cores = np.where(stated_nodes > 0, -(-log.procs // nodes), cores)
    row = np.flatnonzero(used & lines.ran)
    nodes, release, requests = nodes[row], submit[row], log.jobs["req_time"][row]
    run_time = np.where(lines.zero_run_time, zero_run_time, run_time)[row]
    requests = np.where(requests > 0, requests, run_time)
    if utilization is not None and machines is not None:
        sizes = nodes * cores[row] // cores_per_node
        release = _scale_releases(release, sizes, run_time, utilization, machines)
    order = np.argsort(release, kind="stable")
    row = row[order]
    return RigidJobs(
        release=release[order],
        nodes=nodes[order],
        run_time=run_time[order],
        requested=requests[order],
        user=log.jobs["user"][row],
        job=log.jobs["job"][row],
        row=row,
        cores=cores[row],
        core_share=log.procs[row] / (nodes[order] * cores[row]),
    )


def most_in_use(log: JobLog, cores_per_node: int = 1) -> int:
    """Return the most nodes that jobs of a log used at once, by its waits; 0 if it states no waits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        jobs = derive_jobs(log, cores_per_node=cores_per_node)
    wait = log.jobs["wait"][jobs.row]
    known = wait >= 0
    start = (jobs.release + wait)[known]
    return peak_use(jobs.nodes[known], start, start + jobs.run_time[known])


def peak_use(nodes: NDArray[np.int64], start: NDArray[np.float64], finish: NDArray[np.float64]) -> int:
    """Return the most nodes that are in use at once.

    Runs of at most 1 s do not count, since those of 0 s in a log count as 1 s.

    Parameters
    ----------
    nodes, start, finish
        Nodes, start and end (s) of each run.
    """
    long = finish - start > 1.0
    nodes, start, finish = nodes[long], start[long], finish[long]
    times = np.concatenate((finish, start))  # at one instant, jobs end before others start
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(np.concatenate((-nodes, nodes))[order]).max(initial=0))


def warn_missing_requests(log: JobLog, jobs: RigidJobs) -> None:
    """Issue one `TraceWarning` that counts the jobs of a log without a requested time."""
    lines = log.jobs["line"][jobs.row[log.jobs["req_time"][jobs.row] <= 0]]
    warn_remarks(log.path, [Remark(lines, "jobs without a requested time, counted as their run time")])


def warn_memory(log: JobLog, jobs: RigidJobs, *, is_used: bool) -> None:
    """Issue one `TraceWarning` that counts the jobs whose memory is left out, or if it is used, unknown."""
    is_known = log.memory[jobs.row] > 0
    text = "jobs without a requested memory, which take none"
    if not is_used:
        text = "jobs with a requested memory, which only platform.memory (--memory-per-node) uses, left out"
    elif not is_known.any():
        text = "jobs without a requested memory, so that the memory of machines has no effect"
    warn_remarks(log.path, [Remark(log.jobs["line"][jobs.row[is_known != is_used]], text)])


def _utilization(
    release: NDArray[np.float64], nodes: NDArray[np.int64], run_time: NDArray[np.float64], machines: int
) -> float:
    if not len(release):
        return 0.0
    capacity = machines * float(np.ptp(release))
    return float(nodes @ run_time) / capacity if capacity else math.inf


def _scale_releases(
    release: NDArray[np.float64],
    nodes: NDArray[np.int64],
    run_time: NDArray[np.float64],
    utilization: float,
    machines: int,
) -> NDArray[np.float64]:
    """Return release times scaled to a request utilization; the first release stays the same."""
    unscaled = _utilization(release, nodes, run_time, machines)
    if unscaled == 0:  # no jobs
        return release
    if math.isinf(unscaled):
        raise ScenarioError("utilization requires jobs with at least two different release times")
    first, factor = release.min(), unscaled / utilization
    if not math.isfinite(float(np.ptp(release)) * factor):
        raise ScenarioError(f"utilization must keep the last release finite, got {utilization}")
    scaled_release: NDArray[np.float64] = first + (release - first) * factor
    return scaled_release


def _check(
    cores_per_node: int,
    start: float,
    end: float,
    max_nodes: int | None,
    zero_run_time: float,
    utilization: float | None,
    machines: int | None,
) -> None:
    _check_positive_integer("cores_per_node", cores_per_node)
    if not 0 <= start < math.inf:
        raise ScenarioError(f"start must be a finite time of at least 0 s, got {start}")
    if not end > start:
        raise ScenarioError(f"end must be after start, {start} s, got {end}")
    if max_nodes is not None:
        _check_positive_integer("max_nodes", max_nodes)
    if not 0 < zero_run_time < math.inf:  # work of 0 would make the stretch of a job infinite
        raise ScenarioError(f"zero_run_time must be a finite time above 0 s, got {zero_run_time}")
    if utilization is not None and not 0 < utilization < math.inf:
        raise ScenarioError(f"utilization must be a finite number above 0, got {utilization}")
    if machines is not None:
        _check_positive_integer("machines", machines)
    if utilization is not None and machines is None:
        raise ScenarioError("utilization requires machines")
    if machines is not None and utilization is None:
        raise ScenarioError("machines requires utilization")


def _check_positive_integer(name: str, value: int) -> None:
    if not 1 <= value < math.inf or value != int(value):
        raise ScenarioError(f"{name} must be a whole number of at least 1, got {value}")
