"""Wave schedulers: a task moves when the owner of its host returns, preferably to a host at night.

D. Zhou and V. Lo, "Wave scheduler: scheduling for faster turnaround time in peer-based desktop grid systems"
(JSSPP 2005), as described in other publications.

The scheduler knows the state of all hosts at once and at no cost: no message is sent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.wave.decisions import VERBS, WORDS, HostDecisions
from gridsim.scheduling.contract import DecisionVerb, Outcome, Policy, Run, Scheduler, TaskCost
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.parameters import Limits

Mode = Literal["migration-immediate", "wave-immediate", "migration-linger", "wave-linger"]
#: All modes; each is also the name of a scheduler.
MODES: tuple[Mode, ...] = get_args(Mode)
#: Largest `linger` and `migration_cost`, s.
MAX_SECONDS = 1e7

_END, _WAIT_END = 0, 1


class Wave(Scheduler, frozen=True, kw_only=True):
    """Wave schedulers (Zhou and Lo 2005): tasks move between hosts that their owners reclaim.

    A task keeps the work it has done.

    A host runs one task at a time, and a task has one copy.  The host of a task is drawn uniformly from the
    hosts that are up and idle (random stream ``wave``).  If there is none, tasks wait in one list: first
    tasks that have lost their host, in the order in which they became free to move, then unstarted tasks, by
    release and number.

    If the scenario's faults have no zones there is no night, and "wave" works like "migration".  A transient
    failure interrupts the task of its host like any other failure.  At one instant tasks end first, then
    hosts change, then waits end, then tasks are placed.

    Parameters
    ----------
    mode
        ``"migration-immediate"``: a task whose host goes down moves to another one at once;
        ``"wave-immediate"``: the same, but every host, the first included, is drawn from those at night, if
        there are any; ``"migration-linger"`` and ``"wave-linger"``: before it moves, a task waits for its
        host to recover, and resumes there if it does.
    linger
        Longest wait of a task for its host, s; each wait is drawn uniformly from 0 to `linger` (random
        stream ``wave.linger``).
    migration_cost
        Time that a task needs on a new host before it computes, s.
    """

    name: ClassVar[str] = "wave"
    task_cost: ClassVar[TaskCost] = TaskCost(memory=32, time=1e-5)
    decentralized: ClassVar[bool] = False
    owners: ClassVar[bool] = True
    unequal: ClassVar[bool] = True
    dependencies: ClassVar[bool] = True
    decision_words: ClassVar[DecisionTexts] = WORDS
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = VERBS

    mode: Mode = "wave-immediate"
    linger: Annotated[float, Limits(low=0, high=MAX_SECONDS, unit="s")] = 3600.0
    migration_cost: Annotated[float, Limits(low=0, high=MAX_SECONDS, unit="s")] = 0.0

    @property
    def summary(self) -> str:
        """A sentence on the scheduler, on when tasks move, and on the hosts they move to."""
        kind, _, start = self.mode.partition("-")
        hosts = "to hosts at night" if kind == "wave" else "to any host"
        waits = "at once" if start == "immediate" else "after a wait for their host"
        return f"{super().summary.removesuffix('.')}, {waits} and {hosts}."

    @property
    def migrates(self) -> bool:
        """True: a task keeps its progress."""
        return True

    def start(self, run: Run) -> Policy:
        return WavePolicy(self, run)


class WavePolicy(Policy):
    """The policy of `Wave`, with the state of all hosts (machines) and tasks.

    It is an event source of the engine.  Failures and recoveries come in blocks
    (`Policy.takes_blocks`).  Tasks are numbered consecutively across applications.
    """

    takes_blocks: ClassVar[bool] = True
    STATE: ClassVar[tuple[str, ...]] = (
        "now", "placement_time", "agenda", "new_tasks", "releases", "new_task_count", "tasks_left",
        "suspended", "moves", "day_starts", "block_time", "block_machine", "block_up", "block_row", "up",
        "feed_ended", "task", "computing", "starts", "ends", "free", "place", "progress", "cost_left", "host",
        "disturbed", "applications", "machines", "overhead", "pairs", "log", "host_stream", "linger_stream",
        "decision_log",
    )  # fmt: skip

    def __init__(self, parameters: Wave, run: Run) -> None:
        self.run, self.record = run, run.record
        applications, machines = run.applications, len(run.speeds)
        self.speeds = run.speeds.tolist()
        self.offsets, self.sizes = applications.offsets.tolist(), applications.sizes().tolist()
        self.host_stream, self.linger_stream = run.streams("wave"), run.streams("wave.linger")
        self.can_linger = parameters.mode.endswith("linger")
        self.linger, self.migration_cost = parameters.linger, nanoseconds(parameters.migration_cost)
        self.zones = run.zones if parameters.mode.startswith("wave") else None
        zones = 1 if self.zones is None else min(self.zones.zones, machines)
        self.zone_numbers = np.arange(zones)

        self.now = 0  # ns; all earlier events have happened
        self.placement_time = NEVER  # time of the next placement of new tasks, ns
        self.agenda: list[tuple[int, int, int]] = []  # heap of (ns, _END or _WAIT_END, host)
        # heap of [number of the release, next task, end of tasks] of released applications with new tasks
        self.new_tasks: list[list[int]] = []
        self.releases = self.new_task_count = 0  # numbers of released applications, and of unstarted tasks
        self.tasks_left = len(self.sizes)
        self.has_ended = False  # whether applications have ended now after which others may be released
        self.suspended: list[tuple[int, int]] = []  # heap of (number of the interruption, task)
        self.moves = self.day_starts = 0
        # the current block of changes of hosts, and the number of changes already applied
        self.block_time = self.block_machine = np.zeros(0, np.int64)
        self.block_up = np.zeros(0, np.bool_)
        self.block_row = 0
        self.feed_ended = run.feed is None

        # number of hosts that are up, then values per host
        self.up = machines
        self.task = [-1] * machines  # the task that runs on it or waits for it; -1: none
        self.computing = [False] * machines
        self.starts = [0] * machines  # start of its task, ns
        self.ends = [NEVER] * machines  # end of its task, or of the wait for it, ns
        #: Per zone, the hosts that are up and idle; per host, its index in the list of its zone.
        self.free = [list(range(zone, machines, zones)) for zone in range(zones)]
        self.place = [u // zones for u in range(machines)]
        # values per task
        self.progress = [0.0] * len(self.sizes)  # Mflop done
        self.cost_left = [0] * len(self.sizes)  # remaining migration cost, ns
        self.host = [-1] * len(self.sizes)  # its last host; -1 if unstarted
        self.disturbed = [False] * len(self.sizes)

        count = len(applications)
        self.applications = {
            "first_start": [-1] * count,
            "finish": [-1] * count,
            **{
                name: [0] * count
                for name in ("completed", "resubmitted", "nodes_used", "migrated", "resumed", "undisturbed")
            },
        }
        self.machines = {name: [0] * machines for name in ("busy", "tasks", "interrupted")}
        self.overhead = [0.0] * count  # Mflop
        self.pairs: set[int] = set()  # pairs of an application and a host that has run its tasks, as numbers
        # rows of the schedule, if it is recorded: host, task, start, end, completed, begin (Mflop done)
        self.log: list[tuple[int, int, int, int, int, float]] = []
        log = run.decisions
        self.decision_log = None if log is None else HostDecisions(log, machines, run.feed, self.zones)
        run.engine.add_source(self)

    # -- the engine -------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """Run all events before now, and release the tasks of `applications`."""
        now = self.run.engine.now
        self._advance(now)
        self.placement_time = now
        for i in applications:
            first, end = self.offsets[i : i + 2]
            self.new_tasks.append([self.releases, first, end])  # the last in order, so still a heap
            self.releases += 1
            self.new_task_count += end - first

    def advance(self, limit: int) -> int:
        """Return the end of the run, or of an application that others may follow, ns, if before `limit`.

        Return NEVER if there is none.
        """
        if self.run.releases is not None:
            limit = min(limit, self.run.releases.next_release())
        return self.now if self._advance(limit) or self.has_ended else NEVER

    def is_exhausted(self) -> bool:
        """Return whether the run has ended by now; `advance` runs only what is before its limit."""
        return self._advance(self.run.engine.now + 1)

    def collect(self, engine: Engine, time: int) -> None:
        """End the run, unless an application has ended after which others may be released first."""
        if not self.has_ended:
            engine.stop()

    def _advance(self, limit: int) -> bool:
        """Run all events before `limit` ns, and return whether the run has ended.

        It stops after the ends at an instant if applications have ended that others may follow
        (`has_ended`); hosts change and tasks are placed only after the releases at this instant.
        """
        self.has_ended = False
        while not self.has_ended:
            if not self.tasks_left:
                return True
            if self.block_row == len(self.block_time) and not self.feed_ended:
                self._take_block()
            now = self.agenda[0][0] if self.agenda else NEVER
            if not self.feed_ended and (change := self.block_time.item(self.block_row)) < now:
                now = change
            if self.placement_time < now:
                now = self.placement_time
            if self.feed_ended and not self.up:
                return True
            if now >= limit:
                return False
            self.now = now
            self._run_events(now)
        return False

    def _take_block(self) -> None:
        assert self.run.feed is not None
        block = self.run.feed.take()
        if block is None:
            self.feed_ended = True
        else:
            self.block_time, self.block_machine, self.block_up = block.time, block.machine, block.up
            self.block_row = 0
            if self.decision_log is not None:
                self.decision_log.set_block(block)

    # -- events -----------------------------------------------------------------------------------------

    def _run_events(self, now: int) -> None:
        agenda = self.agenda
        while agenda and agenda[0][:2] == (now, _END):
            u = heappop(agenda)[2]
            if self.computing[u] and self.ends[u] == now:  # otherwise the task was interrupted
                self._end(u, now)
        if not self.tasks_left:
            return
        if self.has_ended:
            self.placement_time = now
            return
        while self.block_row < len(self.block_time) and self.block_time.item(self.block_row) == now:
            u = self.block_machine.item(self.block_row)
            if self.decision_log is not None:
                self.decision_log.apply_change(u, self.block_row)
            if self.block_up.item(self.block_row):
                self._recover(u, now)
            else:
                self._fail(u, now)
            self.block_row += 1
        while agenda and agenda[0][0] == now:
            u = heappop(agenda)[2]
            if not self.computing[u] and self.ends[u] == now:  # otherwise its host has recovered
                self._move(u, "gave-up")
        self.placement_time = NEVER
        if self.suspended or self.new_tasks:
            self._place(now)

    def _end(self, u: int, now: int) -> None:
        t = self.task[u]
        i = self._application(t)
        self._log_run(u, i, now, completed=1)
        self.tasks_left -= 1
        self.machines["tasks"][u] += 1
        columns = self.applications
        columns["completed"][i] += 1
        columns["finish"][i] = now
        columns["undisturbed"][i] += not self.disturbed[t]
        if self.run.releases is not None and columns["completed"][i] == self.offsets[i + 1] - self.offsets[i]:
            self.run.releases.end([i], now)
            self.has_ended = True
        self._release(u)

    def _recover(self, u: int, now: int) -> None:
        self.up += 1
        if self.task[u] >= 0:
            self._start(self.task[u], u, now)
            self._record_decision("went-on", self.task[u], u)
        else:
            self._release(u)

    def _fail(self, u: int, now: int) -> None:
        self.up -= 1
        t = self.task[u]
        if t < 0:
            self._occupy(u)
            return
        i, speed = self._application(t), self.speeds[u]
        self._log_run(u, i, now, completed=0)
        duration = now - self.starts[u]
        overhead = min(duration, self.cost_left[t])
        self.cost_left[t] -= overhead
        self.overhead[i] += overhead / NS * speed
        # rounding to ns must not leave an interrupted task without work
        limit = math.nextafter(self.sizes[t], 0.0)
        self.progress[t] = min(self.progress[t] + (duration - overhead) / NS * speed, limit)
        self.machines["interrupted"][u] += 1
        self.applications["resubmitted"][i] += 1
        self.disturbed[t] = True
        self.computing[u] = False
        if self.can_linger:
            self.ends[u] = now + nanoseconds(self.linger_stream.uniform(0.0, self.linger))
            heappush(self.agenda, (self.ends[u], _WAIT_END, u))
            self._record_decision("waited", t, u)
        else:
            self._move(u, "lost")

    def _log_run(self, u: int, i: int, now: int, completed: int) -> None:
        t, start = self.task[u], self.starts[u]
        self.machines["busy"][u] += now - start
        if completed:
            self.overhead[i] += self.cost_left[t] / NS * self.speeds[u]
        if self.record:
            self.log.append((u, t, start, now, completed, self.progress[t]))

    def _move(self, u: int, action: str) -> None:
        """Remove the task from its host and suspend it, so that another host may resume it."""
        t = self.task[u]
        heappush(self.suspended, (self.moves, t))
        self.moves += 1
        self.task[u], self.ends[u] = -1, NEVER
        self._record_decision(action, t, u)

    def _record_decision(self, action: str, t: int, u: int, **columns: int) -> None:
        if self.decision_log is not None:
            i = self._application(t)
            self.decision_log.record(action, self.now, i, t - self.offsets[i], u, self.ends[u], **columns)

    # -- placing ----------------------------------------------------------------------------------------

    def _place(self, now: int) -> None:
        night_zones = None
        while self.suspended or self.new_tasks:
            count = sum(map(len, self.free))
            if not count:
                return
            if self.zones is not None and night_zones is None:
                night_zones = np.flatnonzero(self.zones.night(self.zone_numbers, now)).tolist()
            if self.suspended:
                _, t = heappop(self.suspended)
            else:
                first = self.new_tasks[0]
                t = first[1]
                first[1] += 1  # which does not change the order
                if first[1] == first[2]:
                    heappop(self.new_tasks)
                self.new_task_count -= 1
            u, among = self._draw(count, night_zones)
            self._occupy(u)
            last = self.host[t]
            self._start(t, u, now)
            action = "started" if last < 0 else "returned" if last == u else "moved"
            waiting = 1 + len(self.suspended) + self.new_task_count
            self._record_decision(action, t, u, tasks=waiting, among=among)

    def _draw(self, count: int, night_zones: list[int] | None) -> tuple[int, int]:
        """Return one of `count` free hosts, if possible in `night_zones`, and the number of candidates."""
        lists = self.free
        if night_zones is not None:
            night_lists = [self.free[zone] for zone in night_zones]
            if night_count := sum(map(len, night_lists)):
                count, lists = night_count, night_lists
            else:
                self.day_starts += 1
        k = int(self.host_stream.integers(count))
        for hosts in lists:
            if k < len(hosts):
                break
            k -= len(hosts)
        return hosts[k], count

    def _start(self, t: int, u: int, now: int) -> None:
        i, last = self._application(t), self.host[t]
        columns = self.applications
        if last < 0 and columns["first_start"][i] < 0:
            columns["first_start"][i] = now
        if last == u:
            columns["resumed"][i] += 1
        else:
            if last >= 0:
                columns["migrated"][i] += 1
                self.cost_left[t] = self.migration_cost
            pair = i * len(self.speeds) + u
            if pair not in self.pairs:
                self.pairs.add(pair)
                columns["nodes_used"][i] += 1
        duration = max(1, round((self.sizes[t] - self.progress[t]) / self.speeds[u] * NS))
        self.host[t], self.task[u], self.computing[u], self.starts[u] = u, t, True, now
        self.ends[u] = now + self.cost_left[t] + duration
        heappush(self.agenda, (self.ends[u], _END, u))

    def _release(self, u: int) -> None:
        """Add a host that is up and idle to the free hosts."""
        self.task[u], self.computing[u], self.ends[u] = -1, False, NEVER
        free = self.free[u % len(self.free)]
        self.place[u] = len(free)
        free.append(u)

    def _occupy(self, u: int) -> None:
        """Remove a host that gets a task or fails from the free hosts."""
        free = self.free[u % len(self.free)]
        last = free.pop()
        if last != u:
            free[self.place[u]] = last
            self.place[last] = self.place[u]

    def _application(self, t: int) -> int:
        return bisect_right(self.offsets, t) - 1

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Return the outcome of the run."""
        zeros = np.zeros(len(self.overhead))
        return Outcome(
            applications=_columns(self.applications),
            machines={**_columns(self.machines), "peak_queue": np.zeros(len(self.speeds), np.int64)},
            cycles={
                "useful": self.run.applications.size,
                "redundant": zeros,
                "lost": zeros,
                "overhead": np.array(self.overhead),
                "slowed": zeros,
            },
            facts={"outside_night": self.day_starts},
            schedule=self._schedule(),
        )

    def _schedule(self) -> dict[str, Any]:
        rows = sorted(self.log, key=lambda row: (row[0], row[2]))
        machine, task, start, end, completed = (
            np.array([row[k] for row in rows], np.int64) for k in range(5)
        )
        application = np.searchsorted(self.offsets, task, side="right") - 1
        return {
            "machine": machine,
            "application": application,
            "tasks": np.ones_like(machine),
            "start": start,
            "end": end,
            "completed": completed,
            "task": task - np.array(self.offsets, np.int64)[application],
            "begin": np.array([row[5] for row in rows], np.float64),
        }


def _columns(table: dict[str, list[int]]) -> dict[str, Integers]:
    return {name: np.array(column, np.int64) for name, column in table.items()}
