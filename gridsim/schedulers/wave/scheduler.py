"""Wave schedulers: tasks move on when the owner of their host is back, at best to where it is night.

D. Zhou and V. Lo, "Wave scheduler: scheduling for faster turnaround time in peer-based desktop grid systems"
(JSSPP 2005), as others tell of it.

Hosts are known at once, and nothing is charged for it: no message is sent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from heapq import heappop, heappush
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.results.decisions import Words
from gridsim.schedulers.wave.decisions import WORDS, HostNotes
from gridsim.scheduling.contract import Outcome, Policy, Run, Scheduler
from gridsim.support.arrays import Integers
from gridsim.support.clock import NEVER, NS, nanoseconds
from gridsim.support.parameters import Limits

Mode = Literal["migration-immediate", "wave-immediate", "migration-linger", "wave-linger"]
#: Each is the name of a scheduler.
MODES: tuple[Mode, ...] = get_args(Mode)
#: No wait or cost is longer than this (s).
LONGEST = 1e7

_END, _WAITED = 0, 1


class Wave(Scheduler, frozen=True, kw_only=True):
    """Bags of tasks on hosts that their owners take back; a task keeps what it has done, and can move.

    A host has one task at a time, a task one instance.  The host is drawn uniformly from those that are up
    and have nothing to do (stream ``wave``).  If there is none, tasks wait in one list: first those that lost
    their host, in the order in which they may move, then those never started, by application and number.

    mode : ``"migration-immediate"``: a task whose host goes down moves to another one at once;
        ``"wave-immediate"``: hosts are drawn from those that have night, if there are any, be it for the
        first time or after; ``"migration-linger"`` and ``"wave-linger"``: before it moves, a task waits for
        its host to come back, where it then goes on.
    linger : s of that waiting, at most: it is drawn uniformly from 0 to this (stream ``wave.linger``).
    migration_cost : s that a task takes on a new host before it computes.

    Where the scenario's faults have no zones there is no night, and "wave" is as "migration".  A host that
    is reset has its task taken away all the same.  At one instant tasks end first, then hosts change, then
    tasks have waited for long enough, then tasks are placed.
    """

    name: ClassVar[str] = "wave"
    decentralized: ClassVar[bool] = False
    unequal: ClassVar[bool] = True
    decision_words: ClassVar[Words] = WORDS

    mode: Mode = "wave-immediate"
    linger: Annotated[float, Limits(low=0, high=LONGEST, unit="s")] = 3600.0
    migration_cost: Annotated[float, Limits(low=0, high=LONGEST, unit="s")] = 0.0

    def start(self, run: Run) -> Policy:
        """Make the policy; see `gridsim.scheduling.contract.Scheduler`."""
        return Hosts(self, run)


class Hosts(Policy):
    """All hosts and tasks.  A source of the engine, which takes changes of hosts by the block.

    Tasks count through all applications.
    """

    takes_blocks: ClassVar[bool] = True
    STATE: ClassVar[tuple[str, ...]] = (
        "now", "due", "agenda", "released", "fresh", "left", "suspended", "moves", "outside",
        "block_time", "block_machine", "block_up", "at", "up", "over", "task", "runs", "since", "until",
        "free", "place", "done", "owed", "host", "disturbed", "applications", "machines", "overhead",
        "pairs", "log", "hosts_chance", "linger_chance", "notes",
    )  # fmt: skip

    def __init__(self, parameters: Wave, run: Run) -> None:
        self.run, self.record = run, run.record
        applications, machines = run.applications, len(run.speeds)
        self.speeds = run.speeds.tolist()
        self.offsets, self.sizes = applications.offsets.tolist(), applications.sizes().tolist()
        self.hosts_chance, self.linger_chance = run.streams("wave"), run.streams("wave.linger")
        self.lingers = parameters.mode.endswith("linger")
        self.linger, self.cost = parameters.linger, nanoseconds(parameters.migration_cost)
        self.zones = run.zones if parameters.mode.startswith("wave") else None
        zones = 1 if self.zones is None else min(self.zones.zones, machines)
        self.zone_numbers = np.arange(zones)

        self.now = 0  # ns; what happens before has happened
        self.due = NEVER  # when there is something to place besides
        self.agenda: list[tuple[int, int, int]] = []  # heap of (ns, _END or _WAITED, host)
        self.released = self.fresh = 0  # tasks, and those of them that were started
        self.left = len(self.sizes)
        self.suspended: list[tuple[int, int]] = []  # heap of (which move it is, task)
        self.moves = self.outside = 0
        # the changes of hosts in hand, and how many of them have happened
        self.block_time = self.block_machine = np.zeros(0, np.int64)
        self.block_up = np.zeros(0, np.bool_)
        self.at = 0
        self.over = run.feed is None  # whether there are no more

        # of each host
        self.up = machines
        self.task = [-1] * machines  # which it runs, or which waits for it
        self.runs = [False] * machines
        self.since = [0] * machines  # ns, when it started
        self.until = [NEVER] * machines  # ns, when it is done, or has waited
        #: Hosts that are up and have nothing to do, by zone, and where in its list each is.
        self.free = [list(range(zone, machines, zones)) for zone in range(zones)]
        self.place = [u // zones for u in range(machines)]
        # of each task
        self.done = [0.0] * len(self.sizes)  # Mflop
        self.owed = [0] * len(self.sizes)  # ns of moving
        self.host = [-1] * len(self.sizes)  # the last one
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
        self.pairs: set[int] = set()  # of a host and an application that it has had
        # rows of the schedule, if it is recorded: host, task, start, end, completed, begin
        self.log: list[tuple[int, int, int, int, int, float]] = []
        log = run.decisions
        self.notes = None if log is None else HostNotes(log, machines, run.feed, self.zones)
        run.engine.add_source(self)

    # -- the engine -------------------------------------------------------------------------------------

    def on_release(self, applications: list[int]) -> None:
        """What happens before now has happened; then the new tasks may start."""
        now = self.run.engine.now
        self._advance(now)
        self.due = now
        self.released = self.offsets[applications[-1] + 1]

    def advance(self, limit: int) -> int:
        """See `gridsim.engine.Source`: the last task ends the run, or the last host that goes for good."""
        return self.now if self._advance(limit) else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        """See `gridsim.engine.Source`."""
        engine.stop()

    def _advance(self, limit: int) -> bool:
        """Do what is due before `limit` ns; whether the run is over."""
        while True:
            if not self.left:
                return True
            if self.at == len(self.block_time) and not self.over:
                self._take()
            now = self.agenda[0][0] if self.agenda else NEVER
            if not self.over and (change := self.block_time.item(self.at)) < now:
                now = change
            if self.due < now:
                now = self.due
            if self.over and not self.up:
                return True
            if now >= limit:
                return False
            self.now = now
            self._instant(now)

    def _take(self) -> None:
        assert self.run.feed is not None
        block = self.run.feed.take()
        if block is None:
            self.over = True
        else:
            self.block_time, self.block_machine, self.block_up = block.time, block.machine, block.up
            self.at = 0
            if self.notes is not None:
                self.notes.feed(block)

    # -- what happens -----------------------------------------------------------------------------------

    def _instant(self, now: int) -> None:
        agenda = self.agenda
        while agenda and agenda[0][:2] == (now, _END):
            u = heappop(agenda)[2]
            if self.runs[u] and self.until[u] == now:  # else it was cut off
                self._end(u, now)
        if not self.left:
            return
        while self.at < len(self.block_time) and self.block_time.item(self.at) == now:
            u = self.block_machine.item(self.at)
            if self.notes is not None:
                self.notes.changed(u, self.at)
            if self.block_up.item(self.at):
                self._back(u, now)
            else:
                self._gone(u, now)
            self.at += 1
        while agenda and agenda[0][0] == now:
            u = heappop(agenda)[2]
            if not self.runs[u] and self.until[u] == now:  # else its host is back
                self._move(u, "gave-up")
        self.due = NEVER
        if self.suspended or self.fresh < self.released:
            self._place(now)

    def _end(self, u: int, now: int) -> None:
        t = self.task[u]
        i = self._application(t)
        self._ran(u, i, now, completed=1)
        self.left -= 1
        self.machines["tasks"][u] += 1
        columns = self.applications
        columns["completed"][i] += 1
        columns["finish"][i] = now
        columns["undisturbed"][i] += not self.disturbed[t]
        self._release(u)

    def _back(self, u: int, now: int) -> None:
        self.up += 1
        if self.task[u] >= 0:
            self._start(self.task[u], u, now)
            self._note("went-on", self.task[u], u)
        else:
            self._release(u)

    def _gone(self, u: int, now: int) -> None:
        self.up -= 1
        t = self.task[u]
        if t < 0:
            self._occupy(u)
            return
        i, speed = self._application(t), self.speeds[u]
        self._ran(u, i, now, completed=0)
        ran = now - self.since[u]
        paid = min(ran, self.owed[t])
        self.owed[t] -= paid
        self.overhead[i] += paid / NS * speed
        # durations are of whole ns: something is always left
        most = math.nextafter(self.sizes[t], 0.0)
        self.done[t] = min(self.done[t] + (ran - paid) / NS * speed, most)
        self.machines["interrupted"][u] += 1
        self.applications["resubmitted"][i] += 1
        self.disturbed[t] = True
        self.runs[u] = False
        if self.lingers:
            self.until[u] = now + nanoseconds(self.linger_chance.uniform(0.0, self.linger))
            heappush(self.agenda, (self.until[u], _WAITED, u))
            self._note("waited", t, u)
        else:
            self._move(u, "lost")

    def _ran(self, u: int, i: int, now: int, completed: int) -> None:
        t, since = self.task[u], self.since[u]
        self.machines["busy"][u] += now - since
        if completed:
            self.overhead[i] += self.owed[t] / NS * self.speeds[u]
        if self.record:
            self.log.append((u, t, since, now, completed, self.done[t]))

    def _move(self, u: int, why: str) -> None:
        """The task of the host may go on elsewhere."""
        t = self.task[u]
        heappush(self.suspended, (self.moves, t))
        self.moves += 1
        self.task[u], self.until[u] = -1, NEVER
        self._note(why, t, u)

    def _note(self, action: str, t: int, u: int, **said: int) -> None:
        if self.notes is not None:
            i = self._application(t)
            self.notes.note(action, self.now, i, t - self.offsets[i], u, self.until[u], **said)

    # -- placing ----------------------------------------------------------------------------------------

    def _place(self, now: int) -> None:
        nights = None
        while self.suspended or self.fresh < self.released:
            count = sum(map(len, self.free))
            if not count:
                return
            if self.zones is not None and nights is None:
                nights = np.flatnonzero(self.zones.night(self.zone_numbers, now)).tolist()
            if self.suspended:
                _, t = heappop(self.suspended)
            else:
                t = self.fresh
                self.fresh += 1
            u, among = self._draw(count, nights)
            self._occupy(u)
            last = self.host[t]
            self._start(t, u, now)
            action = "started" if last < 0 else "returned" if last == u else "moved"
            waited = 1 + len(self.suspended) + self.released - self.fresh
            self._note(action, t, u, tasks=waited, among=among)

    def _draw(self, count: int, nights: list[int] | None) -> tuple[int, int]:
        """One of the `count` hosts that are free, or of these zones, if they have one; and of how many."""
        lists = self.free
        if nights is not None:
            dark = [self.free[zone] for zone in nights]
            if in_night := sum(map(len, dark)):
                count, lists = in_night, dark
            else:
                self.outside += 1
        k = int(self.hosts_chance.integers(count))
        for each in lists:
            if k < len(each):
                break
            k -= len(each)
        return each[k], count

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
                self.owed[t] = self.cost
            pair = i * len(self.speeds) + u
            if pair not in self.pairs:
                self.pairs.add(pair)
                columns["nodes_used"][i] += 1
        computing = max(1, round((self.sizes[t] - self.done[t]) / self.speeds[u] * NS))
        self.host[t], self.task[u], self.runs[u], self.since[u] = u, t, True, now
        self.until[u] = now + self.owed[t] + computing
        heappush(self.agenda, (self.until[u], _END, u))

    def _release(self, u: int) -> None:
        """The host is up and has nothing to do."""
        self.task[u], self.runs[u], self.until[u] = -1, False, NEVER
        free = self.free[u % len(self.free)]
        self.place[u] = len(free)
        free.append(u)

    def _occupy(self, u: int) -> None:
        """It has, or is not up."""
        free = self.free[u % len(self.free)]
        last = free.pop()
        if last != u:
            free[self.place[u]] = last
            self.place[last] = self.place[u]

    def _application(self, t: int) -> int:
        return bisect_right(self.offsets, t) - 1

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Outcome:
        """Report what has been done."""
        none = np.zeros(len(self.overhead))
        return Outcome(
            applications=_columns(self.applications),
            machines={**_columns(self.machines), "peak_queue": np.zeros(len(self.speeds), np.int64)},
            cycles={
                "useful": self.run.applications.size,
                "redundant": none,
                "lost": none,
                "overhead": np.array(self.overhead),
                "slowed": none,
            },
            facts={"outside_night": self.outside},
            schedule=self._schedule(),
        )

    def _schedule(self) -> dict[str, Any]:
        """See `Outcome.schedule`."""
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
