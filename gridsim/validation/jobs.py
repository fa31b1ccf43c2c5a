"""Checks of the table ``jobs`` of RJSS and the schedulers compared with it, whose jobs may move."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.model.applications import Applications
from gridsim.results.result import Result
from gridsim.support.arrays import Floats, Integers
from gridsim.validation.common import (
    NS,
    ROUNDING,
    Violation,
    column_label,
    differences,
    is_close,
    is_emulated,
    violations_where,
)
from gridsim.validation.order import free_times, order_violations


def check_jobs(result: Result, workload: Applications) -> list[Violation]:
    """Check the table ``jobs`` against the scenario, the other tables and the recorded schedule.

    Without a recorded schedule the order of execution is checked only if every application has one task: the
    table of applications then has the times of each job.
    """
    if "jobs" not in result.tables:
        return [Violation("jobs", 1, "jobs", f"is missing, but {result.scheduler['name']} writes it")]
    table = result.tables["jobs"]
    if len(table) != (tasks := int(workload.tasks.sum())):
        message = f"has {len(table)} rows, but the applications have {tasks} tasks"
        return [Violation("jobs", 1, "jobs", message)]
    actual, expected = table["application"], np.repeat(np.arange(len(workload)), workload.tasks)
    u, machines = table["machine"], len(result.scenario.platform.speeds)
    violations = differences(
        "jobs", column_label("jobs.application"), actual != expected, actual, expected, "the scenario has"
    )
    violations += violations_where(
        "unknown",
        (u < 0) | (u >= machines),
        column_label("jobs.machine"),
        lambda k: f"is {u[k]}, but there are {machines} machines",
    )
    if violations or len(result.applications) != len(workload) or len(result.machines) != machines:
        return violations
    jobs = JobsTable(result, workload)
    if result.scenario.faults is not None:
        return _check_with_owners(jobs)
    violations = _check_searches(jobs) + _check_messages(jobs) + _check_times(jobs) + _check_agreement(jobs)
    if "schedule" in result.tables:
        return violations + _check_record(jobs)
    return violations + (_check_order(jobs) if (workload.tasks == 1).all() else [])


@dataclass(frozen=True)
class JobsTable:
    """The table ``jobs`` with columns that are computed from it, one row for each job; times are s."""

    result: Result
    workload: Applications

    def __getitem__(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self.result.tables["jobs"][name]
        return values

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the scheduler."""
        parameters: dict[str, Any] = self.result.scheduler["parameters"]
        return parameters

    @cached_property
    def application(self) -> Integers:
        """The application of each job."""
        return np.repeat(np.arange(len(self.workload)), self.workload.tasks)

    @cached_property
    def is_moved(self) -> NDArray[np.bool_]:
        """Whether each job ran on another machine than its submitter."""
        is_moved: NDArray[np.bool_] = self["machine"] != self.workload.submitter[self.application]
        return is_moved

    @cached_property
    def run_time(self) -> Floats:
        """The run time of each job on its machine."""
        speeds = self.result.scenario.platform.speeds
        ns: Floats = np.rint(self.workload.sizes() / speeds[self["machine"]] * 1e9)
        return ns * NS

    @property
    def has_dispatcher_queue(self) -> bool:
        """Whether jobs and results wait for busy dispatchers (parameter ``dispatcher`` of `Rjss`)."""
        return self.parameters.get("dispatcher") == "queue" and self.parameters["probe_latency"] != 0

    @cached_property
    def homes(self) -> dict[int, Integers]:
        """Machine -> the jobs submitted there, in order of release."""
        return _groups(self.workload.submitter[self.application])

    @cached_property
    def decision_time(self) -> Integers:
        """Instants (ns) at which the search of each job chose its machine, int64[jobs].

        The steps of a search are sequential.  If the dispatcher has a queue, the searches of a machine are
        sequential as well.
        """
        step_time, network = self.parameters.get("probe_latency", 0.0), self.result.scenario.network
        if step_time == "network":
            step_time = 2 * (network.latency + self.parameters["load_packet"] / network.bandwidth)
        search_time = self["probes"].astype(np.int64) * round(step_time * 1e9)
        begins: Integers = self.workload.release_ns[self.application]
        for jobs in self.homes.values() if self.has_dispatcher_queue else ():
            time_before = np.cumsum(search_time[jobs]) - search_time[jobs]
            begins[jobs] = time_before + np.maximum.accumulate(begins[jobs] - time_before)
        decision_time: Integers = begins + search_time
        return decision_time

    @cached_property
    def search(self) -> Floats:
        """The time from the release of each job until its search chose a machine."""
        search_time: Floats = np.float64(NS) * (
            self.decision_time - self.workload.release_ns[self.application]
        )
        return search_time

    @cached_property
    def dispatcher_wait(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds (s) of the time that each job's result waits for the dispatcher."""
        end = self.workload.release[self.application] + self.search + self["waited"] + self.run_time
        if not self.has_dispatcher_queue:
            return np.zeros(len(end)), np.zeros(len(end))
        first, last = (end + travel_time for travel_time in self.travel_time)
        return np.maximum(0.0, self._result_departures(first, -1) - last), self._result_departures(
            last, 1
        ) - first

    def _result_departures(self, end: Floats, side: int) -> Floats:
        """Return the instants (s) at which the results of jobs that end at `end` leave their machines.

        A result leaves after the decisions on all jobs released on the same machine before `end`.

        Parameters
        ----------
        side
            -1 excludes jobs released at `end`, up to rounding; 1 includes them.
        """
        at, departures = end + side * (4 * NS + 2 * ROUNDING * end), end.copy()
        for u, rows in _groups(self["machine"]).items():
            jobs = self.homes.get(u, np.zeros(0, np.int64))
            release = self.workload.release[self.application[jobs]]
            decision_time = np.append(0.0, self.decision_time[jobs] * NS)
            departures[rows] = np.maximum(end[rows], decision_time[np.searchsorted(release, at[rows])])
        return departures

    @cached_property
    def travel_time(self) -> tuple[Floats, Floats]:
        """The shortest and the longest time (s) that a job or its result travels; 0 if it did not move."""
        network = self.result.scenario.network
        data = np.zeros(len(self.workload)) if self.workload.data is None else self.workload.data
        sending = np.rint(data / network.bandwidth * 1e9)[self.application] * NS
        shortest = sending + network.latency - network.jitter
        longest = sending + network.latency + network.jitter
        if network.interfaces == "fifo":
            # in the worst case, all other data that the two machines send or receive are queued first
            home, machine = self.workload.submitter[self.application], self["machine"]
            nodes, data_time = len(self.result.machines), np.where(self.is_moved, sending, 0.0)
            busy = np.bincount(home, data_time, nodes) + np.bincount(machine, data_time, nodes)
            longest = longest + busy[home] + busy[machine]
        return np.where(self.is_moved, shortest, 0.0), np.where(self.is_moved, longest, 0.0)


def _check_with_owners(jobs: JobsTable) -> list[Violation]:
    """Check the jobs of a run with owner absences, in which a job may move more than once.

    `gridsim.validation.copies` checks that each job continued with the work it had done.
    """
    predicted, waits, turnaround = (jobs[name] for name in ("predicted", "waited", "turnaround"))
    violations = violations_where(
        "jobs",
        jobs["probes"] < 0,
        column_label("jobs.probes"),
        lambda k: f"must be >= 0, got {jobs['probes'][k]}",
    )
    violations += violations_where(
        "jobs",
        np.where(jobs.is_moved, ~(predicted >= 0) | np.isinf(predicted), ~np.isnan(predicted)),
        column_label("jobs.predicted"),
        lambda k: (
            f"must be {'finite and >= 0' if jobs.is_moved[k] else 'nan'}, since the job "
            f"{'moved' if jobs.is_moved[k] else 'stayed'}, got {predicted[k]} s"
        ),
    )
    schedule = jobs.result.tables.get("schedule")
    if schedule is None:
        return violations
    rows = np.flatnonzero(schedule["completed"] == 1)
    job = jobs.workload.offsets[schedule["application"][rows]] + schedule["task"][rows]
    if len(np.unique(job)) < len(jobs.application):
        return violations  # other checks report violations here
    start, end, machine = np.zeros(len(job)), np.zeros(len(job)), np.zeros(len(job), np.int64)
    for target, name in ((start, "start"), (end, "end"), (machine, "machine")):
        target[job] = schedule[name][rows]
    violations += differences(
        "jobs",
        column_label("jobs.machine"),
        jobs["machine"] != machine,
        jobs["machine"],
        machine,
        "it ran last on",
    )
    release = jobs.workload.release[jobs.application]
    violations += violations_where(
        "jobs",
        ~((waits >= 0) & (waits <= start - release + 2 * NS + ROUNDING * start)),
        column_label("jobs.waited"),
        lambda k: f"is {waits[k]} s, but the job starts {start[k] - release[k]} s after its release",
    )
    shortest = end - release + jobs.travel_time[0]
    return violations + violations_where(
        "jobs",
        ~(turnaround >= shortest - 4 * NS - 2 * ROUNDING * end) | np.isinf(turnaround),
        column_label("jobs.turnaround"),
        lambda k: (
            f"is {turnaround[k]} s, but running and returning the result takes at least {shortest[k]} s"
        ),
    )


def _groups(machine: Integers) -> dict[int, Integers]:
    """Return the indices of the entries of each machine, ascending."""
    order = np.argsort(machine, kind="stable")
    machines, begins = np.unique(machine[order], return_index=True)
    return dict(zip(machines.tolist(), np.split(order, begins[1:]), strict=True))


def _check_searches(jobs: JobsTable) -> list[Violation]:
    """Check that searches have as many steps as the parameters allow.

    The search of a job that stayed must have probed as many nodes as the parameters allow.
    """
    probes, nodes = jobs["probes"], len(jobs.result.machines)
    if "k" not in jobs.parameters:
        return violations_where(
            "jobs", probes < 0, column_label("jobs.probes"), lambda k: f"must be >= 0, got {probes[k]}"
        )
    max_probes = math.ceil(jobs.parameters["k"] * nodes) if nodes > 1 else 0
    if jobs.parameters["overlay"] is None:
        max_probes = min(max_probes, nodes - 1)
    min_probes = np.where(
        jobs.is_moved & (jobs.parameters.get("pick") == "first"), min(1, max_probes), max_probes
    )
    return violations_where(
        "jobs",
        (probes < min_probes) | (probes > max_probes),
        column_label("jobs.probes"),
        lambda k: (
            f"is {probes[k]}, but the scheduler's parameters require {_range_text(min_probes[k], max_probes)}"
        ),
    )


def _check_messages(jobs: JobsTable) -> list[Violation]:
    """Check the numbers of messages: one for each step of a search, and two for each job that moved.

    Without an overlay there is also one ``load`` message for each step.
    """
    steps, moves = int(jobs["probes"].sum()), int(jobs.is_moved.sum())
    expected_counts = {"probe": steps, "job": moves, "result": moves}
    if jobs.parameters.get("overlay") is None:
        expected_counts["load"] = steps
    messages = jobs.result.messages
    actual = messages["sent"]
    expected = np.array(
        [expected_counts.get(kind, sent) for kind, sent in zip(messages["kind"], actual, strict=True)]
    )
    return differences(
        "messages", column_label("messages.sent"), actual != expected, actual, expected, "the jobs give"
    )


def _check_times(jobs: JobsTable) -> list[Violation]:
    predicted, waits, turnaround = (jobs[name] for name in ("predicted", "waited", "turnaround"))
    violations = violations_where(
        "jobs",
        np.where(jobs.is_moved, ~(predicted >= 0) | np.isinf(predicted), ~np.isnan(predicted)),
        column_label("jobs.predicted"),
        lambda k: (
            f"must be {'finite and >= 0' if jobs.is_moved[k] else 'nan'}, since the job "
            f"{'moved' if jobs.is_moved[k] else 'stayed'}, got {predicted[k]} s"
        ),
    )
    violations += violations_where(
        "jobs",
        ~(waits >= 0) | np.isinf(waits),
        column_label("jobs.waited"),
        lambda k: f"must be finite and >= 0, got {waits[k]} s",
    )
    if is_emulated(jobs.result):
        return violations  # in an emulation, messages take real time
    local_time, (minimum, maximum), dispatcher_wait = (
        jobs.search + waits + jobs.run_time,
        jobs.travel_time,
        jobs.dispatcher_wait,
    )
    low, high = local_time + 2 * minimum + dispatcher_wait[0], local_time + 2 * maximum + dispatcher_wait[1]
    return violations + violations_where(
        "jobs",
        ~_is_within(turnaround, low, high, low),
        column_label("jobs.turnaround"),
        lambda k: (
            f"is {turnaround[k]} s, but search, waiting, execution and both transfers take "
            f"{_range_text(low[k], high[k])}"
        ),
    )


def _is_within(actual: Floats, low: Floats, high: Floats, digits: Floats) -> NDArray[np.bool_]:
    """Return whether times are in a range, up to rounding; `digits` is the largest term of each sum."""
    slack = 4 * NS + 2 * ROUNDING * np.abs(digits)
    is_inside: NDArray[np.bool_] = (actual >= low - slack) & (actual <= high + slack)
    return is_inside


def _range_text(low: Any, high: Any) -> str:
    if low == high:
        return f"{low}"
    return f"at least {low}, at most {high}"


def _check_agreement(jobs: JobsTable) -> list[Violation]:
    """Check that the tables of jobs, applications and machines agree."""
    applications, machines = jobs.result.applications, jobs.result.machines
    begins, release, tasks = jobs.workload.offsets[:-1], jobs.workload.release, jobs.workload.tasks
    first, finish = applications["first_start"], applications["finish"]
    shortest, longest = jobs.travel_time
    decision_and_wait, turnaround = jobs.search + jobs["waited"], jobs["turnaround"]
    low, high = (
        release + np.minimum.reduceat(decision_and_wait + travel_time, begins)
        for travel_time in (shortest, longest)
    )
    violations = []
    if not is_emulated(jobs.result):
        violations += _check_ranges("applications.first_start", first, low, high)
        dispatcher_wait = jobs.dispatcher_wait
        low = release + np.maximum.reduceat(turnaround - longest - dispatcher_wait[1], begins)
        high = release + np.maximum.reduceat(turnaround - shortest - dispatcher_wait[0], begins)
        violations += _check_ranges("applications.finish", finish, low, high)
    run_time = jobs.run_time[begins]
    violations += violations_where(
        "duration",
        (tasks == 1) & ~(np.abs(finish - first - run_time) <= 2 * NS + ROUNDING * finish),
        column_label("applications"),
        lambda i: (
            f"runs for {finish[i] - first[i]} s, but on machine {jobs['machine'][begins[i]]} it takes "
            f"{run_time[i]}"
        ),
    )
    pairs = np.unique(jobs.application * len(machines) + jobs["machine"])
    job_counts = np.bincount(jobs["machine"], minlength=len(machines))
    busy = np.bincount(jobs["machine"], jobs.run_time, len(machines))
    used = np.bincount(pairs // len(machines), minlength=len(applications))
    slack = NS * (job_counts + 1) + 1e-12 * busy  # rounding of sums
    for name, table, expected in (
        ("tasks", "machines", job_counts),
        ("busy", "machines", busy),
        ("nodes_used", "applications", used),
    ):
        actual = jobs.result.tables[table][name]
        equal = is_close(actual, expected, slack) if name == "busy" else actual == expected
        violations += differences(
            "agreement", column_label(f"{table}.{name}"), ~equal, actual, expected, "the jobs give"
        )
    return violations


def _check_ranges(name: str, actual: Floats, low: Floats, high: Floats) -> list[Violation]:
    return violations_where(
        "agreement",
        ~_is_within(actual, low, high, np.maximum(actual, high)) & ~np.isnan(low),
        column_label(name),
        lambda k: f"is {actual[k]} s, but the jobs give {_range_text(low[k], high[k])}",
    )


def _check_order(jobs: JobsTable) -> list[Violation]:
    """Check with the table of applications that machines start jobs first come, first served.

    Each application must have one job.
    """
    start, end = (jobs.result.applications[name] for name in ("first_start", "finish"))
    arrival = start - jobs["waited"]
    order = np.lexsort((arrival, start, jobs["machine"]))
    u, start, end, arrival = jobs["machine"][order], start[order], end[order], arrival[order]
    has_predecessor = np.diff(u, prepend=-1) == 0
    free_from = free_times(jobs.result, u, end)
    slack = 2 * NS + 2 * ROUNDING * start
    previous_arrival = np.where(has_predecessor, np.append(0.0, arrival[:-1])[: len(u)], 0.0)

    def row_label(k: int) -> str:
        return f"jobs[{order[k]}]"

    violations = violations_where(
        "order",
        arrival < previous_arrival - slack,
        row_label,
        lambda k: (
            f"arrives at machine {u[k]} at {arrival[k]} s, but the job that runs before it at "
            f"{previous_arrival[k]} s"
        ),
    )
    return violations + violations_where(
        "order",
        ~(np.abs(start - np.maximum(arrival, free_from)) <= slack),
        row_label,
        lambda k: (
            f"starts at {start[k]} s, but arrives at {arrival[k]} s, and machine {u[k]} is free at "
            f"{free_from[k]} s"
        ),
    )


def _check_record(jobs: JobsTable) -> list[Violation]:
    """Check that the table of jobs agrees with the recorded schedule and arrivals."""
    schedule, arrivals = jobs.result.tables["schedule"], jobs.result.tables["arrivals"]
    machines, count = len(jobs.result.machines), len(jobs.workload)
    for table, times in ((schedule, ("start", "end")), (arrivals, ("time",))):
        u, i = table["machine"], table["application"]
        known = (u >= 0) & (u < machines) & (i >= 0) & (i < count) & (table["tasks"] >= 1)
        if not (known & np.logical_and.reduce([np.isfinite(table[name]) for name in times])).all():
            return []  # other checks report violations here
    for name, table in (("schedule", schedule), ("arrivals", arrivals)):
        if (tasks := float(table["tasks"].sum(dtype=np.float64))) > len(jobs.application):
            message = f"has {tasks:g} tasks, but there are {len(jobs.application)} jobs"
            return [Violation("order", 1, name, message)]
    time = arrivals["time"]
    violations = violations_where(
        "order",
        np.diff(time, prepend=-np.inf) < 0,
        column_label("arrivals"),
        lambda k: f"is at {time[k]} s, but the row before it is at {time[k - 1]} s",
    )
    pairs = np.concatenate((jobs["machine"] * np.int64(count) + jobs.application,
                           arrivals["machine"] * count + arrivals["application"]))  # fmt: skip
    keys, key_index = np.unique(pairs, return_inverse=True)
    run_counts = np.bincount(key_index[: len(jobs.application)], minlength=len(keys))
    arrival_counts = np.bincount(key_index[len(jobs.application) :], arrivals["tasks"], len(keys))
    violations += violations_where(
        "agreement",
        run_counts != arrival_counts,
        lambda k: f"application {keys[k] % count} on machine {keys[k] // count}",
        lambda k: f"{arrival_counts[k]:.0f} tasks have arrived, but {run_counts[k]} jobs ran there",
    )
    violations += order_violations(jobs.result)
    # rows determine the waiting time of a job only if its application has one row in each table
    single = jobs.workload.tasks == 1
    for table in (schedule, arrivals):
        single = single & (np.bincount(table["application"], minlength=count) == 1)
    start, arrived = np.zeros(count), np.zeros(count)
    start[schedule["application"]], arrived[arrivals["application"]] = schedule["start"], time
    actual, expected = jobs["waited"], (start - arrived)[jobs.application]
    return violations + differences(
        "jobs",
        column_label("jobs.waited"),
        single[jobs.application] & ~(np.abs(actual - expected) <= NS + ROUNDING * start[jobs.application]),
        actual,
        expected,
        "schedule and arrivals give",
    )
