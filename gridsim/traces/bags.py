"""Bags of tasks derived from a job log: jobs that one user submitted in one go are one application.

The grouping follows A. Iosup et al., "The characteristics and performance of groups of jobs in grids"
(Euro-Par 2007): same user, submissions close together. The limit on the span of a bag is an addition of
gridsim: without it, a user who submits steadily for days would make a single bag.
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
    """Bags of independent tasks, sorted by (release, first job number).

    All arrays have one entry per bag, except those of jobs, `job_...`, which have one per job: the jobs of
    the first bag in order of submission, then those of the next.

    Parameters
    ----------
    release
        float64, s on the clock of the log; the first submission.
    tasks
        int64; the sum of the processors of its jobs.
    run_time
        float64, s; mean per task.
    user
        int64; -1 if the log does not name users.
    jobs
        int64; number of jobs of the log in the bag.
    job_run_time
        float64, s; run time of each job.
    job_procs
        int64; processors of each job, which is as many tasks of its run time.
    job_number, job_line
        int64; the number of each job in the log, and its line.
    job_zero
        Bool; whether the log says that it ran for 0 s.
    estimate
        float64, s; the run time of a task that the log states for each bag, None if it states none.
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
        """The index of the first job of each bag, and the number of jobs: int64[n + 1]."""
        return np.concatenate(([0], np.cumsum(self.jobs)))

    def check_size(self, path: str, kept: NDArray[np.int64], machines: int) -> None:
        """Raise ScenarioError naming the first job of the bags `kept` that needs more than `machines`."""
        large = np.flatnonzero(self.job_procs > machines)
        for job in large[np.isin(np.searchsorted(self.offsets, large, side="right") - 1, kept)][:1]:
            needs = f"job {self.job_number[job]} needs {self.job_procs[job]} processors"
            raise ScenarioError(
                f"{path}:{self.job_line[job]}: {needs}, but the platform has {machines} machines"
            )

    @property
    def cpu_seconds(self) -> float:
        """The processor seconds of all bags together."""
        return float(self.tasks @ self.run_time)

    def offered_load(self, machines: int) -> float:
        """Return the offered load of `machines` machines as fast as those of the log.

        It is the processor seconds of the bags over those that the machines offer from first to last release,
        and infinite if all bags are released at once. Raises `ScenarioError` for fewer than 1 machine.
        """
        if machines < 1:
            raise ScenarioError(f"machines: {machines}, expected 1 or more")
        if not len(self):
            return 0.0
        offered = machines * float(self.release[-1] - self.release[0])
        return self.cpu_seconds / offered if offered else math.inf


def derive_bags(log: JobLog, *, gap: float = 120.0, span: float = 120.0, zero_run_time: float = 1.0) -> Bags:
    """Return the bags of a job log: same user, successive submissions at most `gap` s apart, cut at `span` s.

    A job joins the bag of the user's previous job unless it comes more than `gap` s after that job or more
    than `span` s after the first job of the bag (`span=math.inf`: no such limit). A job of p processors
    (`JobLog.procs`) is p tasks of its run time. Jobs of unknown user (-1) count as jobs of one user (one
    `TraceWarning` if no user is known).

    Left out before bags are formed are jobs that never ran (run time 0 and cancelled, or failed without
    processors), of unknown run time or submission, and parts of a job that has a line of its own; run times
    of 0 s, below the log's resolution, count as `zero_run_time` s. One `TraceWarning` reports each of these,
    and others report parts without a line for their job, fields that are not used (preceding job, think
    time), and what cannot be true.

    Raises `ScenarioError` for a parameter out of range.
    """
    bags = bags_of_jobs(log, gap=gap, span=span, zero_run_time=zero_run_time)
    report_bags(log, bags)
    return bags


def bags_of_jobs(log: JobLog, *, gap: float, span: float, zero_run_time: float = 1.0) -> Bags:
    """Return the bags of a job log as `derive_bags` does, without a warning."""
    for name, value in (("gap", gap), ("span", span)):
        if not value >= 0:
            raise ScenarioError(f"{name}: {value}, expected 0 s or more")
    if not 0 < zero_run_time < math.inf:  # work of 0 would make the stretch of a bag infinite
        raise ScenarioError(f"zero_run_time: {zero_run_time}, expected a finite time above 0 s")
    ran = lines_of(log.jobs).ran
    jobs, procs = log.jobs[ran], log.procs[ran]
    run_time = np.where(jobs["run_time"] == 0, zero_run_time, jobs["run_time"])

    order = np.lexsort((jobs["submit"], jobs["user"]))  # stable: ties stay in the order of the log
    user, submit = jobs["user"][order], jobs["submit"][order]
    begins = _cut(user, submit, gap, span)
    if not len(begins):
        return Bags(submit, user, submit, user, user, submit, user, user, user, user != user)
    tasks = np.add.reduceat(procs[order], begins)
    cpu_seconds = np.add.reduceat((run_time * procs)[order], begins)
    count = np.diff(np.append(begins, len(order)))
    first_job = np.minimum.reduceat(jobs["job"][order], begins)
    sort = np.lexsort((first_job, submit[begins]))
    rank = np.repeat(np.argsort(sort), count)  # the rank of the bag of each job
    bag_by_bag = order[np.argsort(rank, kind="stable")]
    return Bags(
        release=submit[begins][sort],
        tasks=tasks[sort],
        run_time=(cpu_seconds / tasks)[sort],
        user=user[begins][sort],
        jobs=count[sort].astype(np.int64),
        job_run_time=run_time[bag_by_bag],
        job_procs=procs[bag_by_bag],
        job_number=jobs["job"][bag_by_bag],
        job_line=jobs["line"][bag_by_bag],
        job_zero=(jobs["run_time"] == 0)[bag_by_bag],
    )


def bags_of_tasks(log: TaskLog, *, whole_seconds: bool = True, zero_duration: float = 0.001) -> Bags:
    """Return the bags of a log with the duration of every task: each job is one, of a user of its own.

    The first bag is released at 0 s, and those of one submit time 0.01 s apart (`TaskLog.release`).  In the
    result each task counts as a job of one processor.  The estimate is the mean that the log states.

    Raises `ScenarioError` for a parameter out of range.

    Parameters
    ----------
    whole_seconds
        Durations and means are cut to whole seconds, as by the simulator of the log's authors.
    zero_duration
        s that a task of duration 0 s counts as (one `TraceWarning`).  Estimates may be 0 s.
    """
    bags = bags_of_durations(log, whole_seconds=whole_seconds, zero_duration=zero_duration)
    report_bags(log, bags)
    return bags


def bags_of_durations(log: TaskLog, *, whole_seconds: bool, zero_duration: float = 0.001) -> Bags:
    """Return the bags as `bags_of_tasks` does, without a warning."""
    if not 0 < zero_duration < math.inf:  # work of 0 would make the stretch of a bag infinite
        raise ScenarioError(f"zero_duration: {zero_duration}, expected a finite time above 0 s")
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
    log: JobLog | TaskLog, bags: Bags, kept: NDArray[np.int64] | None = None, stacklevel: int = 3
) -> None:
    """Report on the lines of a log that the bags `kept` use, at the caller's caller; None for all bags.

    Lines that are in no bag are used if they were submitted between the bags that are kept.
    """
    chosen = np.ones(len(bags), np.bool_) if kept is None else np.isin(np.arange(len(bags)), kept)
    of_chosen = np.repeat(chosen, bags.jobs)
    counted_as = float(bags.job_run_time.max(where=bags.job_zero, initial=0.0))
    stacklevel += 1
    if isinstance(log, TaskLog):
        warn_remarks(log.path, [each.within(bags.job_line[of_chosen]) for each in log.repairs], stacklevel)
        zero = Remark(
            bags.job_line[of_chosen & bags.job_zero],
            f"tasks of duration 0 s, counted as {counted_as:g} s",
        )
        warn_remarks(log.path, [zero], stacklevel)
        return
    jobs, lines = log.jobs, lines_of(log.jobs)
    used = ~np.isin(jobs["line"], bags.job_line[~of_chosen])
    of_kept = used & lines.ran
    if not chosen.all() and of_kept.any():
        submit = jobs["submit"]
        first = submit[of_kept].min() if not chosen[0] else -np.inf
        last = submit[of_kept].max() if not chosen[-1] else np.inf
        used = lines.within(jobs, used & (first <= submit) & (submit <= last))
    report(log, lines, used, counted_as, stacklevel)
    if of_kept.sum() > 1 and (jobs["user"][lines.ran] < 0).all():
        text = "jobs of unknown user, taken for those of one, who submits at one machine"
        warn_remarks(log.path, [Remark(jobs["line"][of_kept], text)], stacklevel)


def _cut(user: NDArray[np.int64], submit: NDArray[np.float64], gap: float, span: float) -> NDArray[np.int64]:
    """Return the indices where bags begin, for jobs sorted by (user, submission)."""
    if not len(user):
        return np.empty(0, dtype=np.int64)
    breaks = np.flatnonzero((np.diff(user) != 0) | (np.diff(submit) > gap)) + 1
    edges = np.concatenate(([0], breaks, [len(user)]))
    if math.isinf(span):
        return edges[:-1]
    long = np.flatnonzero(submit[edges[1:] - 1] - submit[edges[:-1]] > span)
    cuts: list[int] = []
    for low, high in zip(edges[long].tolist(), edges[long + 1].tolist(), strict=True):
        while (low := low + _within(submit[low:high], span)) < high:
            cuts.append(low)
    return np.sort(np.concatenate((edges[:-1], np.array(cuts, dtype=np.int64))))


def _within(submit: NDArray[np.float64], span: float) -> int:
    """Return how many of the sorted times are at most `span` s after the first."""
    return int(np.searchsorted(submit, submit[0] + span, side="right"))
