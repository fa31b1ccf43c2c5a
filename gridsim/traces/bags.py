"""Bags of tasks derived from a job log: jobs that one user submits close together are one application.

The grouping follows A. Iosup et al., "The characteristics and performance of groups of jobs in grids"
(Euro-Par 2007).  The limit on the span of a bag is an addition of gridsim; without it, a user who submits
steadily for days would make a single bag.
"""

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
from gridsim.traces.tr import TaskLog


@dataclass(frozen=True)
class Bags:
    """Bags of independent tasks, sorted by release and number of the first job.

    Arrays have one entry per bag, except `job_...`, which have one per job: the jobs of the first bag in
    order of submission, then the jobs of the next.

    Parameters
    ----------
    release
        float64, s on the clock of the log; the first submission of the bag.
    tasks
        int64; the sum of the processors of the bag's jobs.
    run_time
        float64, s; mean run time of a task.
    user
        int64; -1 if the log has no users.
    jobs
        int64; number of jobs of the log in the bag.
    job_run_time
        float64, s; run time of each job.
    job_procs
        int64; processors of each job, which is also its number of tasks.
    job_number, job_line
        int64; number and line of each job in the log.
    job_zero
        Bool; whether the run time of each job in the log is 0 s.
    estimate
        float64, s; estimated run time of a task of each bag, from the log; None if the log has none.
    """

    release: NDArray[np.float64]
    tasks: NDArray[np.int64]
    run_time: NDArray[np.float64]
    user: NDArray[np.int64]
    jobs: NDArray[np.int64]
    job_run_time: NDArray[np.float64]
    job_procs: NDArray[np.int64]
    job_number: NDArray[np.int64]
    job_line: NDArray[np.int64]
    job_zero: NDArray[np.bool_]
    estimate: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.release)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index of the first job of each bag, then the number of jobs: int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.jobs)))

    def check_size(self, path: str, selection: NDArray[np.int64], machines: int) -> None:
        """Check that no job of the bags `selection` has more processors than there are machines.

        Raises
        ------
        ScenarioError
            If a job has more processors; the message begins with the line of the first such job.
        """
        large = np.flatnonzero(self.job_procs > machines)
        for job in large[np.isin(np.searchsorted(self.offsets, large, side="right") - 1, selection)][:1]:
            raise ScenarioError(
                f"{path}:{self.job_line[job]}: the processors of job {self.job_number[job]} must be at most "
                f"{machines}, the number of machines, got {self.job_procs[job]}"
            )

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds of all bags."""
        return float(self.tasks @ self.run_time)

    def offered_load(self, machines: int) -> float:
        """Return the offered load of `machines` machines as fast as the machines of the log.

        The offered load is the processor seconds of the bags over the processor seconds of the machines from
        the first to the last release.  It is infinite if all bags are released at once.

        Raises
        ------
        ScenarioError
            If there is no machine.
        """
        if machines < 1:
            raise ScenarioError(f"machines must be at least 1, got {machines}")
        if not len(self):
            return 0.0
        capacity = machines * float(self.release[-1] - self.release[0])
        return self.cpu_seconds / capacity if capacity else math.inf


def derive_bags(log: JobLog, *, gap: float = 120.0, span: float = 120.0, zero_run_time: float = 1.0) -> Bags:
    """Return the bags of a job log.

    A job is in the bag of the user's previous job unless it is submitted more than `gap` s after that job or
    more than `span` s after the first job of the bag.  A job of p processors (`JobLog.procs`) becomes p tasks
    of its run time.  Jobs of unknown user (-1) count as jobs of one user, with a `TraceWarning` if no user is
    known.

    Jobs that never ran (run time 0 and cancelled, or failed without processors), jobs of unknown run time or
    submission, and parts of a job with a line for the whole job are left out before bags are formed.  A
    `TraceWarning` reports each of these, and run times of 0 s, parts without a line for the whole job, fields
    that no run uses (preceding job, think time), and contradictions.

    Parameters
    ----------
    gap
        Longest time between the submissions of two successive jobs of a bag, s.
    span
        Longest time from the first to the last submission of a bag, s; ``math.inf`` for no limit.
    zero_run_time
        Run time that replaces run times of 0 s, which are below the log's resolution, s.

    Raises
    ------
    ScenarioError
        If a parameter is out of range.
    """
    bags = bags_of_jobs(log, gap=gap, span=span, zero_run_time=zero_run_time)
    report_bags(log, bags)
    return bags


def bags_of_jobs(log: JobLog, *, gap: float, span: float, zero_run_time: float = 1.0) -> Bags:
    """Return the bags of a job log as `derive_bags` does, without warnings."""
    for name, value in (("gap", gap), ("span", span)):
        if not value >= 0:
            raise ScenarioError(f"{name} must be at least 0 s, got {value}")
    if not 0 < zero_run_time < math.inf:  # work of 0 would make the stretch of a bag infinite
        raise ScenarioError(f"zero_run_time must be a finite time above 0 s, got {zero_run_time}")
    ran = lines_of(log.jobs).ran
    jobs, procs = log.jobs[ran], log.procs[ran]
    run_time = np.where(jobs["run_time"] == 0, zero_run_time, jobs["run_time"])

    order = np.lexsort(
        (jobs["submit"], jobs["user"])
    )  # lexsort is stable, so that ties stay in the order of the log
    user, submit = jobs["user"][order], jobs["submit"][order]
    starts = _bag_starts(user, submit, gap, span)
    if not len(starts):
        return Bags(submit, user, submit, user, user, submit, user, user, user, user != user)
    tasks = np.add.reduceat(procs[order], starts)
    cpu_seconds = np.add.reduceat((run_time * procs)[order], starts)
    count = np.diff(np.append(starts, len(order)))
    first_job = np.minimum.reduceat(jobs["job"][order], starts)
    sort = np.lexsort((first_job, submit[starts]))
    rank = np.repeat(np.argsort(sort), count)  # rank of each job's bag
    bag_by_bag = order[np.argsort(rank, kind="stable")]
    return Bags(
        release=submit[starts][sort],
        tasks=tasks[sort],
        run_time=(cpu_seconds / tasks)[sort],
        user=user[starts][sort],
        jobs=count[sort].astype(np.int64),
        job_run_time=run_time[bag_by_bag],
        job_procs=procs[bag_by_bag],
        job_number=jobs["job"][bag_by_bag],
        job_line=jobs["line"][bag_by_bag],
        job_zero=(jobs["run_time"] == 0)[bag_by_bag],
    )


def bags_of_tasks(log: TaskLog, *, whole_seconds: bool = True, zero_duration: float = 0.001) -> Bags:
    """Return the bags of a log with the duration of every task; each job is a bag of a separate user.

    The first bag is released at 0 s; bags with the same submit time are released 0.01 s apart, see
    `TaskLog.release`.  In the result each task counts as a job of one processor.  The estimate is the mean
    duration that the log states.

    Parameters
    ----------
    whole_seconds
        Whether durations and means are truncated to whole seconds, as in the simulator of the log's authors.
    zero_duration
        Duration that replaces durations of 0 s, with a `TraceWarning`, s.  Estimates may be 0 s.

    Raises
    ------
    ScenarioError
        If a parameter is out of range.
    """
    bags = bags_of_durations(log, whole_seconds=whole_seconds, zero_duration=zero_duration)
    report_bags(log, bags)
    return bags


def bags_of_durations(log: TaskLog, *, whole_seconds: bool, zero_duration: float = 0.001) -> Bags:
    """Return the bags of a log as `bags_of_tasks` does, without warnings."""
    if not 0 < zero_duration < math.inf:  # work of 0 would make the stretch of a bag infinite
        raise ScenarioError(f"zero_duration must be a finite time above 0 s, got {zero_duration}")
    release = log.release
    order = np.argsort(release, kind="stable")
    log, release = log.take(order), release[order]
    duration, estimate, jobs = log.duration, log.mean, np.arange(len(log))
    if whole_seconds:
        duration, estimate = np.floor(duration), np.floor(estimate)
    zero = duration == 0
    duration = np.where(zero, zero_duration, duration)
    return Bags(
        release=release,
        tasks=log.tasks,
        run_time=np.add.reduceat(duration, log.offsets[:-1]) / log.tasks,
        user=jobs,
        jobs=log.tasks,
        job_run_time=duration,
        job_procs=np.ones(len(duration), np.int64),
        job_number=np.repeat(jobs, log.tasks),
        job_line=np.repeat(log.line, log.tasks),
        job_zero=zero,
        estimate=estimate,
    )


def report_bags(
    log: JobLog | TaskLog, bags: Bags, selection: NDArray[np.int64] | None = None, stacklevel: int = 3
) -> None:
    """Issue warnings about the lines of a log that belong to the selected bags.

    Lines that are in no bag are reported if they were submitted between these bags.

    Parameters
    ----------
    selection
        Indices of the bags; None for all bags.
    """
    mask = np.ones(len(bags), np.bool_) if selection is None else np.isin(np.arange(len(bags)), selection)
    job_mask = np.repeat(mask, bags.jobs)
    zero_duration = float(bags.job_run_time.max(where=bags.job_zero, initial=0.0))
    stacklevel += 1
    if isinstance(log, TaskLog):
        warn_remarks(
            log.path, [remark.restrict(bags.job_line[job_mask]) for remark in log.repairs], stacklevel
        )
        zero = Remark(
            bags.job_line[job_mask & bags.job_zero],
            f"tasks of duration 0 s, counted as {zero_duration:g} s",
        )
        warn_remarks(log.path, [zero], stacklevel)
        return
    jobs, lines = log.jobs, lines_of(log.jobs)
    used = ~np.isin(jobs["line"], bags.job_line[~job_mask])
    ran = used & lines.ran
    if not mask.all() and ran.any():
        submit = jobs["submit"]
        first = submit[ran].min() if not mask[0] else -np.inf
        last = submit[ran].max() if not mask[-1] else np.inf
        used = lines.in_window(jobs, used & (first <= submit) & (submit <= last))
    report(log, lines, used, zero_duration, stacklevel)
    if ran.sum() > 1 and (jobs["user"][lines.ran] < 0).all():
        text = "jobs of unknown user, taken as jobs of one user, who submits at one machine"
        warn_remarks(log.path, [Remark(jobs["line"][ran], text)], stacklevel)


def _bag_starts(
    user: NDArray[np.int64], submit: NDArray[np.float64], gap: float, span: float
) -> NDArray[np.int64]:
    """Return the index of the first job of each bag, for jobs sorted by (user, submission)."""
    if not len(user):
        return np.empty(0, dtype=np.int64)
    breaks = np.flatnonzero((np.diff(user) != 0) | (np.diff(submit) > gap)) + 1
    edges = np.concatenate(([0], breaks, [len(user)]))
    if math.isinf(span):
        return edges[:-1]
    long = np.flatnonzero(submit[edges[1:] - 1] - submit[edges[:-1]] > span)
    cuts: list[int] = []
    for low, high in zip(edges[long].tolist(), edges[long + 1].tolist(), strict=True):
        while (low := low + _count_in_span(submit[low:high], span)) < high:
            cuts.append(low)
    return np.sort(np.concatenate((edges[:-1], np.array(cuts, dtype=np.int64))))


def _count_in_span(submit: NDArray[np.float64], span: float) -> int:
    """Return the number of the sorted times that are at most `span` s after the first."""
    return int(np.searchsorted(submit, submit[0] + span, side="right"))
