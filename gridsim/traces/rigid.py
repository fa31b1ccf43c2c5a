"""Rigid jobs derived from a job log: each needs all its nodes at once, from its start to its end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.traces._text import Remark, warn_remarks
from gridsim.traces.job_lines import lines_of
from gridsim.traces.job_remarks import report
from gridsim.traces.jobs import JobLog


@dataclass(frozen=True)
class RigidJobs:
    """Rigid jobs, sorted by (release, job number); all arrays have one entry per job.

    Parameters
    ----------
    release
        float64, s on the clock of the log.
    nodes
        int64; the number of nodes, which a job needs all at once.
    run_time
        float64, s.
    requested
        float64, s; the run time that the user requested, or the actual one if the log does not have it. Jobs
        that ran for longer than requested are as in the log.
    user
        int64; -1 if the log does not name users.
    job
        int64; the job number in the log.
    row
        int64; the row in `JobLog.jobs`.
    """

    release: NDArray[np.float64]
    nodes: NDArray[np.int64]
    run_time: NDArray[np.float64]
    requested: NDArray[np.float64]
    user: NDArray[np.int64]
    job: NDArray[np.int64]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.release)

    def utilization(self, machines: int) -> float:
        """Return the request utilization.

        It is the node seconds of the jobs over those that `machines` nodes have from first to last release,
        and infinite if all jobs are released at once. Raises `ScenarioError` for fewer than 1 machine.
        """
        _check_whole("machines", machines)
        return _utilization(self.release, self.nodes, self.run_time, machines)


def derive_jobs(
    log: JobLog,
    *,
    procs_per_node: int = 1,
    start: float = 0.0,
    end: float = math.inf,
    max_nodes: int | None = None,
    zero_run_time: float = 1.0,
    utilization: float | None = None,
    machines: int | None = None,
) -> RigidJobs:
    """Return the rigid jobs of a job log that were submitted in [start, end), s after its first submission.

    A job of p processors (`JobLog.procs`) needs ceil(p / `procs_per_node`) nodes. Left out are jobs that
    never ran (run time 0 and cancelled, or failed without processors), of unknown run time or submission,
    parts of a job that has a line of its own, and jobs of more than `max_nodes` nodes; run times of 0 s,
    below the log's resolution, count as `zero_run_time` s. One `TraceWarning` reports each of these, and
    others report parts without a line for their job, fields that are not used (preceding job, think time),
    and what cannot be true. They are only about lines in the window.

    With `utilization` and `machines`, release times are scaled: their distances from the first release are
    multiplied by the factor with which `RigidJobs.utilization(machines)` gets that value. A factor below 1
    compresses them, one above 1 stretches them. Run times stay the same.

    Raises `ScenarioError` for a parameter out of range, for one of `utilization` and `machines` without the
    other, for a `utilization` of jobs that are all released at once, and for one so small that the last
    release would not be finite.
    """
    _check(procs_per_node, start, end, max_nodes, zero_run_time, utilization, machines)
    submit, run_time = log.jobs["submit"], log.jobs["run_time"]
    nodes = -(-log.procs // procs_per_node)
    lines = lines_of(log.jobs)
    since = submit - lines.first
    used = lines.within(log.jobs, (since >= start) & (since < end))
    if max_nodes is not None:
        wide = used & (nodes > max_nodes) & ~lines.part & ~lines.never_ran
        said = Remark(log.jobs["line"][wide], f"jobs of more than {max_nodes} nodes, left out")
        warn_remarks(log.path, [said], 3)
        used &= nodes <= max_nodes
    report(log, lines, used, zero_run_time)

    row = np.flatnonzero(used & lines.ran)
    nodes, release, requested = nodes[row], submit[row], log.jobs["req_time"][row]
    run_time = np.where(lines.zero_run_time, zero_run_time, run_time)[row]
    requested = np.where(requested > 0, requested, run_time)
    if utilization is not None and machines is not None:
        release = _compress(release, nodes, run_time, utilization, machines)
    order = np.lexsort((log.jobs["job"][row], release))
    row = row[order]
    return RigidJobs(
        release=release[order],
        nodes=nodes[order],
        run_time=run_time[order],
        requested=requested[order],
        user=log.jobs["user"][row],
        job=log.jobs["job"][row],
        row=row,
    )


def warn_missing_requests(log: JobLog, jobs: RigidJobs) -> None:
    """Issue one `TraceWarning` that counts the jobs of a log without a requested time."""
    rows = log.jobs[jobs.row]
    lines = rows["line"][rows["req_time"] <= 0]
    warn_remarks(log.path, [Remark(lines, "jobs without a requested time, for which their run time counts")])


def _utilization(
    release: NDArray[np.float64], nodes: NDArray[np.int64], run_time: NDArray[np.float64], machines: int
) -> float:
    if not len(release):
        return 0.0
    offered = machines * float(np.ptp(release))
    return float(nodes @ run_time) / offered if offered else math.inf


def _compress(
    release: NDArray[np.float64],
    nodes: NDArray[np.int64],
    run_time: NDArray[np.float64],
    utilization: float,
    machines: int,
) -> NDArray[np.float64]:
    """Return release times that give this request utilization; the first one stays the same."""
    now = _utilization(release, nodes, run_time, machines)
    if now == 0:  # no jobs
        return release
    if math.isinf(now):
        raise ScenarioError(f"utilization: {utilization}, expected none: all jobs are released at once")
    first, factor = release.min(), now / utilization
    if not math.isfinite(float(np.ptp(release)) * factor):
        raise ScenarioError(
            f"utilization: {utilization}, expected a number that leaves the last release finite"
        )
    compressed: NDArray[np.float64] = first + (release - first) * factor
    return compressed


def _check(
    procs_per_node: int,
    start: float,
    end: float,
    max_nodes: int | None,
    zero_run_time: float,
    utilization: float | None,
    machines: int | None,
) -> None:
    _check_whole("procs_per_node", procs_per_node)
    if not 0 <= start < math.inf:
        raise ScenarioError(f"start: {start}, expected a finite time of 0 s or more")
    if not end > start:
        raise ScenarioError(f"end: {end}, expected a time after the start, {start} s")
    if max_nodes is not None:
        _check_whole("max_nodes", max_nodes)
    if not 0 < zero_run_time < math.inf:  # work of 0 would make the stretch of a job infinite
        raise ScenarioError(f"zero_run_time: {zero_run_time}, expected a finite time above 0 s")
    if utilization is not None and not 0 < utilization < math.inf:
        raise ScenarioError(f"utilization: {utilization}, expected a finite number above 0")
    if machines is not None:
        _check_whole("machines", machines)
    if utilization is not None and machines is None:
        raise ScenarioError(f"machines: None, expected their number for a utilization of {utilization}")
    if machines is not None and utilization is None:
        raise ScenarioError(f"utilization: None, expected a number above 0 for {machines} machines")


def _check_whole(name: str, value: int) -> None:
    if not 1 <= value < math.inf or value != int(value):
        raise ScenarioError(f"{name}: {value}, expected a whole number of 1 or more")
