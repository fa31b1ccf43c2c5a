"""Checks of the table `jobs` of RJSS and its rivals, whose jobs may move before they run."""

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
from gridsim.validation.common import NS, ROUNDING, Violation, broken, close, column, differs, emulated
from gridsim.validation.order import in_turn

#: The classes of the schedulers that make this table.
WALKERS = {"gridsim:Rjss", "gridsim:ResourceExclusion", "gridsim:NoMigration"}


def check_jobs(result: Result, given: Applications) -> list[Violation]:
    """Return what is wrong with the table `jobs`, given the scenario, the other tables and what was recorded.

    Without a recorded schedule the order of execution is checked only if every application has one task: the
    table of applications then says when each job ran.
    """
    if "jobs" not in result.tables:
        return [Violation("jobs", 1, "jobs", f"is missing, which {result.scheduler['name']} makes")]
    table = result.tables["jobs"]
    if len(table) != (tasks := int(given.tasks.sum())):
        said = f"has {len(table)} rows, the applications have {tasks} tasks"
        return [Violation("jobs", 1, "jobs", said)]
    have, want = table["application"], np.repeat(np.arange(len(given)), given.tasks)
    u, machines = table["machine"], len(result.scenario.platform.speeds)
    found = differs("jobs", column("jobs.application"), have != want, have, want, "the scenario has")
    found += broken(
        "unknown",
        (u < 0) | (u >= machines),
        column("jobs.machine"),
        lambda k: f"is {u[k]}, there are {machines} machines",
    )
    if found or len(result.applications) != len(given) or len(result.machines) != machines:
        return found
    jobs = Jobs(result, given)
    if result.scenario.faults is not None:
        return _among_owners(jobs)
    found = _searches(jobs) + _sent(jobs) + _times(jobs) + _agreement(jobs)
    if "schedule" in result.tables:
        return found + _recorded(jobs)
    return found + (_in_turn(jobs) if (given.tasks == 1).all() else [])


@dataclass(frozen=True)
class Jobs:
    """The table `jobs`, one row for each job, and what can be computed for each row; times are s."""

    result: Result
    given: Applications

    def __getitem__(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self.result.tables["jobs"][name]
        return values

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the scheduler."""
        said: dict[str, Any] = self.result.scheduler["parameters"]
        return said

    @cached_property
    def application(self) -> Integers:
        """The application of each job."""
        return np.repeat(np.arange(len(self.given)), self.given.tasks)

    @cached_property
    def moved(self) -> NDArray[np.bool_]:
        """Whether each job ran on another machine than the one where it was submitted."""
        away: NDArray[np.bool_] = self["machine"] != self.given.submitter[self.application]
        return away

    @cached_property
    def lasts(self) -> Floats:
        """How long each job runs on its machine."""
        speeds = self.result.scenario.platform.speeds
        ns: Floats = np.rint(self.given.sizes() / speeds[self["machine"]] * 1e9)
        return ns * NS

    @property
    def queued(self) -> bool:
        """Whether jobs and results wait for dispatchers that are busy; see `Rjss`."""
        return self.parameters.get("dispatcher") == "queue" and self.parameters["probe_latency"] != 0

    @cached_property
    def homes(self) -> dict[int, Integers]:
        """Machine -> the jobs submitted there, in order of release."""
        return _groups(self.given.submitter[self.application])

    @cached_property
    def decided(self) -> Integers:
        """When the machine of each job was decided, ns.

        The steps of a search follow one another; if jobs are `queued`, so do the searches of a machine.
        """
        each, network = self.parameters.get("probe_latency", 0.0), self.result.scenario.network
        if each == "network":
            each = 2 * (network.latency + self.parameters["load_packet"] / network.bandwidth)
        took = self["probes"].astype(np.int64) * round(each * 1e9)
        begins: Integers = self.given.release_ns[self.application]
        for mine in self.homes.values() if self.queued else ():
            before = np.cumsum(took[mine]) - took[mine]
            begins[mine] = before + np.maximum.accumulate(begins[mine] - before)
        decided: Integers = begins + took
        return decided

    @cached_property
    def search(self) -> Floats:
        """The time from the release of each job until its machine was decided."""
        took: Floats = np.float64(NS) * (self.decided - self.given.release_ns[self.application])
        return took

    @cached_property
    def held(self) -> tuple[Floats, Floats]:
        """Bounds, lowest and highest (s), on how long each job's result waits for the dispatcher."""
        here = self.given.release[self.application] + self.search + self["waited"] + self.lasts
        if not self.queued:
            return np.zeros(len(here)), np.zeros(len(here))
        first, last = (here + way for way in self.way)
        return np.maximum(0.0, self._leaves(first, -1) - last), self._leaves(last, 1) - first

    def _leaves(self, end: Floats, side: int) -> Floats:
        """Return when the results of jobs that end at `end` leave.

        They leave after the decisions on all jobs that were released on the same machine before `end`.

        Parameters
        ----------
        side
            -1 leaves out jobs released at `end` itself, within its rounding; 1 includes them.
        """
        at, leaves = end + side * (4 * NS + 2 * ROUNDING * end), end.copy()
        for u, ran in _groups(self["machine"]).items():
            mine = self.homes.get(u, np.zeros(0, np.int64))
            release = self.given.release[self.application[mine]]
            decided = np.append(0.0, self.decided[mine] * NS)
            leaves[ran] = np.maximum(end[ran], decided[np.searchsorted(release, at[ran])])
        return leaves

    @cached_property
    def way(self) -> tuple[Floats, Floats]:
        """The shortest and the longest time that a job, or its result, travels; 0 if it did not move."""
        network = self.result.scenario.network
        data = np.zeros(len(self.given)) if self.given.data is None else self.given.data
        sending = np.rint(data / network.bandwidth * 1e9)[self.application] * NS
        least = sending + network.latency - network.jitter
        most = sending + network.latency + network.jitter
        if network.interfaces == "fifo":
            # everything else that the two machines ever send or receive may be queued before it
            home, there = self.given.submitter[self.application], self["machine"]
            nodes, on_its_way = len(self.result.machines), np.where(self.moved, sending, 0.0)
            busy = np.bincount(home, on_its_way, nodes) + np.bincount(there, on_its_way, nodes)
            most = most + busy[home] + busy[there]
        return np.where(self.moved, least, 0.0), np.where(self.moved, most, 0.0)


def _among_owners(jobs: Jobs) -> list[Violation]:
    """Check the jobs of a run in which owners come and go, so that a job may move more than once.

    That each went on with what it had done is checked in `gridsim.validation.copies`.
    """
    predicted, waited, turnaround = (jobs[name] for name in ("predicted", "waited", "turnaround"))
    found = broken("jobs", jobs["probes"] < 0, column("jobs.probes"), lambda k: f"is {jobs['probes'][k]}")
    found += broken(
        "jobs",
        np.where(jobs.moved, ~(predicted >= 0) | np.isinf(predicted), ~np.isnan(predicted)),
        column("jobs.predicted"),
        lambda k: f"is {predicted[k]} s, the job {'moved' if jobs.moved[k] else 'stayed'}",
    )
    schedule = jobs.result.tables.get("schedule")
    if schedule is None:
        return found
    rows = np.flatnonzero(schedule["completed"] == 1)
    job = jobs.given.offsets[schedule["application"][rows]] + schedule["task"][rows]
    if len(np.unique(job)) < len(jobs.application):
        return found  # other checks report this
    start, end, machine = np.zeros(len(job)), np.zeros(len(job)), np.zeros(len(job), np.int64)
    for into, name in ((start, "start"), (end, "end"), (machine, "machine")):
        into[job] = schedule[name][rows]
    found += differs(
        "jobs", column("jobs.machine"), jobs["machine"] != machine, jobs["machine"], machine, "it ran last on"
    )
    release = jobs.given.release[jobs.application]
    found += broken(
        "jobs",
        ~((waited >= 0) & (waited <= start - release + 2 * NS + ROUNDING * start)),
        column("jobs.waited"),
        lambda k: f"is {waited[k]} s, the job starts {start[k] - release[k]} s after its release",
    )
    least = end - release + jobs.way[0]
    return found + broken(
        "jobs",
        ~(turnaround >= least - 4 * NS - 2 * ROUNDING * end) | np.isinf(turnaround),
        column("jobs.turnaround"),
        lambda k: f"is {turnaround[k]} s, until it has run and its result is back at least {least[k]} s pass",
    )


def _groups(machine: Integers) -> dict[int, Integers]:
    """Return machine -> the indices at which `machine` has it, ascending."""
    order = np.argsort(machine, kind="stable")
    which, begins = np.unique(machine[order], return_index=True)
    return dict(zip(which.tolist(), np.split(order, begins[1:]), strict=True))


def _searches(jobs: Jobs) -> list[Violation]:
    """Check that searches have as many steps as the parameters allow.

    The search for a job that stayed must have asked all nodes that it could.
    """
    probes, nodes = jobs["probes"], len(jobs.result.machines)
    if "k" not in jobs.parameters:
        return broken("jobs", probes < 0, column("jobs.probes"), lambda k: f"is {probes[k]}")
    most = math.ceil(jobs.parameters["k"] * nodes) if nodes > 1 else 0
    if jobs.parameters["overlay"] is None:
        most = min(most, nodes - 1)
    least = np.where(jobs.moved & (jobs.parameters.get("pick") == "first"), min(1, most), most)
    return broken(
        "jobs",
        (probes < least) | (probes > most),
        column("jobs.probes"),
        lambda k: f"is {probes[k]}, the scheduler's parameters make it {_between(least[k], most)}",
    )


def _sent(jobs: Jobs) -> list[Violation]:
    """Check the numbers of messages: one for each step, and two for each job that moved.

    Without an overlay there is also one ``load`` message for each step.
    """
    steps, moved = int(jobs["probes"].sum()), int(jobs.moved.sum())
    wanted = {"probe": steps, "job": moved, "result": moved}
    if jobs.parameters.get("overlay") is None:
        wanted["load"] = steps
    messages = jobs.result.messages
    have = messages["sent"]
    want = np.array([wanted.get(kind, sent) for kind, sent in zip(messages["kind"], have, strict=True)])
    return differs("messages", column("messages.sent"), have != want, have, want, "the jobs make")


def _times(jobs: Jobs) -> list[Violation]:
    predicted, waited, turnaround = (jobs[name] for name in ("predicted", "waited", "turnaround"))
    found = broken(
        "jobs",
        np.where(jobs.moved, ~(predicted >= 0) | np.isinf(predicted), ~np.isnan(predicted)),
        column("jobs.predicted"),
        lambda k: f"is {predicted[k]} s, the job {'moved' if jobs.moved[k] else 'stayed'}",
    )
    found += broken(
        "jobs",
        ~(waited >= 0) | np.isinf(waited),
        column("jobs.waited"),
        lambda k: f"is {waited[k]} s",
    )
    if emulated(jobs.result):
        return found  # questions and jobs took their real time
    here, (least, most), held = jobs.search + waited + jobs.lasts, jobs.way, jobs.held
    low, high = here + 2 * least + held[0], here + 2 * most + held[1]
    return found + broken(
        "jobs",
        ~_within(turnaround, low, high, low),
        column("jobs.turnaround"),
        lambda k: (
            f"is {turnaround[k]} s, search, waits, execution and both ways make {_between(low[k], high[k])}"
        ),
    )


def _within(have: Floats, low: Floats, high: Floats, digits: Floats) -> NDArray[np.bool_]:
    """Return where times are in a range whose parts are rounded; `digits` is the largest of these."""
    slack = 4 * NS + 2 * ROUNDING * np.abs(digits)
    inside: NDArray[np.bool_] = (have >= low - slack) & (have <= high + slack)
    return inside


def _between(low: Any, high: Any) -> str:
    if low == high:
        return f"{low}"
    return f"at least {low}, at most {high}"


def _agreement(jobs: Jobs) -> list[Violation]:
    """Check that the tables of jobs, applications and machines agree."""
    applications, machines = jobs.result.applications, jobs.result.machines
    begins, release, tasks = jobs.given.offsets[:-1], jobs.given.release, jobs.given.tasks
    first, finish = applications["first_start"], applications["finish"]
    least, most = jobs.way
    until, back = jobs.search + jobs["waited"], jobs["turnaround"]
    low, high = (release + np.minimum.reduceat(until + way, begins) for way in (least, most))
    found = []
    if not emulated(jobs.result):
        found += _ranges("applications.first_start", first, low, high)
        held = jobs.held
        low = release + np.maximum.reduceat(back - most - held[1], begins)
        high = release + np.maximum.reduceat(back - least - held[0], begins)
        found += _ranges("applications.finish", finish, low, high)
    lasts = jobs.lasts[begins]
    found += broken(
        "duration",
        (tasks == 1) & ~(np.abs(finish - first - lasts) <= 2 * NS + ROUNDING * finish),
        column("applications"),
        lambda i: (
            f"runs for {finish[i] - first[i]} s, on machine {jobs['machine'][begins[i]]} it takes {lasts[i]}"
        ),
    )
    pairs = np.unique(jobs.application * len(machines) + jobs["machine"])
    ran = np.bincount(jobs["machine"], minlength=len(machines))
    busy = np.bincount(jobs["machine"], jobs.lasts, len(machines))
    used = np.bincount(pairs // len(machines), minlength=len(applications))
    slack = NS * (ran + 1) + 1e-12 * busy  # rounding of sums
    for name, table, want in (
        ("tasks", "machines", ran),
        ("busy", "machines", busy),
        ("nodes_used", "applications", used),
    ):
        have = jobs.result.tables[table][name]
        equal = close(have, want, slack) if name == "busy" else have == want
        found += differs("agreement", column(f"{table}.{name}"), ~equal, have, want, "the jobs make")
    return found


def _ranges(name: str, have: Floats, low: Floats, high: Floats) -> list[Violation]:
    return broken(
        "agreement",
        ~_within(have, low, high, np.maximum(have, high)) & ~np.isnan(low),
        column(name),
        lambda k: f"is {have[k]} s, the jobs make it {_between(low[k], high[k])}",
    )


def _in_turn(jobs: Jobs) -> list[Violation]:
    """Check that machines serve jobs first come, first served, by the times in the table of applications.

    Each application must be one job.
    """
    start, end = (jobs.result.applications[name] for name in ("first_start", "finish"))
    order = np.lexsort((start, jobs["machine"]))
    u, start, end = jobs["machine"][order], start[order], end[order]
    came = start - jobs["waited"][order]
    after = np.diff(u, prepend=-1) == 0
    before = np.where(after, np.append(0.0, end[:-1])[: len(u)], 0.0)
    slack = 2 * NS + 2 * ROUNDING * start
    earlier = np.where(after, np.append(0.0, came[:-1])[: len(u)], 0.0)

    def where(k: int) -> str:
        return f"jobs[{order[k]}]"

    found = broken(
        "order",
        came < earlier - slack,
        where,
        lambda k: f"comes to machine {u[k]} at {came[k]} s, the one that runs before it at {earlier[k]} s",
    )
    return found + broken(
        "order",
        ~(np.abs(start - np.maximum(came, before)) <= slack),
        where,
        lambda k: f"starts at {start[k]} s, comes at {came[k]} s, machine {u[k]} is free at {before[k]} s",
    )


def _recorded(jobs: Jobs) -> list[Violation]:
    """Check that the table of jobs agrees with the recorded schedule and arrivals."""
    schedule, arrivals = jobs.result.tables["schedule"], jobs.result.tables["arrivals"]
    machines, count = len(jobs.result.machines), len(jobs.given)
    for table, times in ((schedule, ("start", "end")), (arrivals, ("time",))):
        u, i = table["machine"], table["application"]
        known = (u >= 0) & (u < machines) & (i >= 0) & (i < count) & (table["tasks"] >= 1)
        if not (known & np.logical_and.reduce([np.isfinite(table[name]) for name in times])).all():
            return []  # other checks report this
    for name, table in (("schedule", schedule), ("arrivals", arrivals)):
        if (tasks := float(table["tasks"].sum(dtype=np.float64))) > len(jobs.application):
            said = f"has {tasks:g} tasks, there are {len(jobs.application)} jobs"
            return [Violation("order", 1, name, said)]
    time = arrivals["time"]
    found = broken(
        "order",
        np.diff(time, prepend=-np.inf) < 0,
        column("arrivals"),
        lambda k: f"comes at {time[k]} s, the row before at {time[k - 1]} s",
    )
    mine = np.concatenate((jobs["machine"] * np.int64(count) + jobs.application,
                           arrivals["machine"] * count + arrivals["application"]))  # fmt: skip
    keys, of = np.unique(mine, return_inverse=True)
    ran = np.bincount(of[: len(jobs.application)], minlength=len(keys))
    came = np.bincount(of[len(jobs.application) :], arrivals["tasks"], len(keys))
    found += broken(
        "agreement",
        ran != came,
        lambda k: f"application {keys[k] % count} on machine {keys[k] // count}",
        lambda k: f"{came[k]:.0f} tasks have come, jobs has {ran[k]}",
    )
    found += in_turn(jobs.result)
    # for an application with one task both tables have one row, with its time
    single = jobs.given.tasks == 1
    for table in (schedule, arrivals):
        single = single & (np.bincount(table["application"], minlength=count) == 1)
    start, arrived = np.zeros(count), np.zeros(count)
    start[schedule["application"]], arrived[arrivals["application"]] = schedule["start"], time
    have, want = jobs["waited"], (start - arrived)[jobs.application]
    return found + differs(
        "jobs",
        column("jobs.waited"),
        single[jobs.application] & ~(np.abs(have - want) <= NS + ROUNDING * start[jobs.application]),
        have,
        want,
        "schedule and arrivals make",
    )
