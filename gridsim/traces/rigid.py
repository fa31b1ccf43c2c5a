"""Rigid jobs derived from a job log: each needs all its nodes at once, from its start until it is done."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.traces.jobs import JobLog, warn_jobs


@dataclass(frozen=True)
class RigidJobs:
    """Rigid jobs, sorted by (release, job number); all arrays have one entry per job.

    release : float64, s on the clock of the log.
    nodes : int64; all of them at once.
    run_time : float64, s.
    requested : float64, s; what the user asked for, the run time where the log does not tell. Jobs that
        ran for longer than they asked are as in the log.
    user : int64; -1 when the log does not tell users.
    job : int64; the number in the log.
    row : int64; the row of `JobLog.jobs`.
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
        """Request utilization: node seconds over those that `machines` nodes have from first to last release.

        Infinite when all jobs are released at once. Raises `ScenarioError` for fewer than 1 machine.
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
    """Rigid jobs of a job log: those submitted in [start, end), s after its first submission.

    A job of p processors (`JobLog.procs`) needs ceil(p / `procs_per_node`) nodes. Jobs of unknown run time
    are left out, and so are those of more than `max_nodes` nodes; run times of 0 s, below the log's
    resolution, count as `zero_run_time` s. Each of the three is told by one `TraceWarning`.

    With `utilization` and `machines`, release times are compressed: from the first release on they are
    multiplied by the factor that makes `RigidJobs.utilization(machines)` that value; a factor above 1
    stretches them. Run times stay.

    Raises `ScenarioError` for a parameter out of range, for one of `utilization` and `machines` without the
    other, and for a `utilization` of jobs that are all released at once, or that no release could have.
    """
    _check(procs_per_node, start, end, max_nodes, zero_run_time, utilization, machines)
    submit, run_time = log.jobs["submit"], log.jobs["run_time"]
    nodes = -(-log.procs // procs_per_node)
    since = submit - submit.min(initial=math.inf)
    kept = (since >= start) & (since < end)
    unknown = kept & (run_time < 0)
    if unknown.any():
        warn_jobs(log, unknown, "jobs of unknown run time, left out")
    kept &= ~unknown
    if max_nodes is not None:
        wide = kept & (nodes > max_nodes)
        if wide.any():
            warn_jobs(log, wide, f"jobs of more than {max_nodes} nodes, left out")
        kept &= ~wide
    zero = kept & (run_time == 0)
    if zero.any():
        warn_jobs(log, zero, f"jobs of run time 0 s, counted as {zero_run_time:g} s")

    jobs, nodes = log.jobs[kept], nodes[kept]
    run_time = np.where(zero, zero_run_time, run_time)[kept]
    requested = np.where(jobs["req_time"] > 0, jobs["req_time"], run_time)
    release = jobs["submit"]
    if utilization is not None and machines is not None:
        release = _compress(release, nodes, run_time, utilization, machines)
    order = np.lexsort((jobs["job"], release))
    return RigidJobs(
        release=release[order],
        nodes=nodes[order],
        run_time=run_time[order],
        requested=requested[order],
        user=jobs["user"][order],
        job=jobs["job"][order],
        row=np.flatnonzero(kept)[order],
    )


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
    """Release times for this request utilization; the first one stays."""
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
