"""A policy that reads failures in blocks: ``Fcfs(mode="pull")`` in plain Python."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gridsim.engine.engine import Engine
from gridsim.scheduling.contract import SCHEDULE, Outcome, Policy, Run, Scheduler
from gridsim.support.clock import NEVER, NS


class OneList(Scheduler, frozen=True, kw_only=True):
    """Scheduler with one list of tasks, whose head goes to the next free machine; requires failures."""

    name: ClassVar[str] = "one-list"

    def start(self, run: Run) -> Policy:
        return OneListPolicy(run)


class OneListPolicy(Policy):
    """Policy of `OneList`; at an instant: ends, releases, failures and recoveries, starts."""

    takes_blocks = True
    STATE = (
        "now", "up", "due", "rows", "at", "left", "unreleased", "running",
        "first", "finish_at", "resubmitted", "used", "busy", "tasks", "interrupted", "ran",
    )  # fmt: skip

    def __init__(self, run: Run) -> None:
        self.run = run
        assert run.faults and run.feed is not None
        self.feed = run.feed
        count, machines = len(run.applications), len(run.speeds)
        self.now = 0
        self.up = [True] * machines
        self.due = self.feed.first.tolist()  # ns, the next change of each machine
        # the current block of rows (time, machine, up, until), and the next row in it
        self.rows, self.at = np.zeros((0, 4), np.int64), 0
        self.left = [0] * count
        self.unreleased = count
        self.running: dict[int, tuple[int, int, int]] = {}  # machine -> application, start, end
        self.first, self.finish_at, self.resubmitted = [-1] * count, [-1] * count, [0] * count
        self.used: set[tuple[int, int]] = set()
        self.busy, self.tasks, self.interrupted = [0] * machines, [0] * machines, [0] * machines
        self.ran: list[tuple[int, ...]] = []
        run.engine.add_source(self)

    def on_release(self, applications: list[int]) -> None:
        assert self.now == self.run.engine.now
        for i in applications:
            self.left[i] = int(self.run.applications.tasks[i])
        self.unreleased -= len(applications)

    def advance(self, limit: int) -> int:
        while self.now < limit:
            self.change()
            if not any(self.up) and self.next_change() == NEVER:
                return self.now
            self.start()
            self.now = min(limit, self.next_change(), *(end for _, _, end in self.running.values()))
            for u, (_, _, end) in list(self.running.items()):
                if end == self.now:
                    self.stop(u, completed=1)
            if not (self.unreleased or any(self.left) or self.running):
                return self.now
        return NEVER

    def collect(self, engine: Engine, time: int) -> None:
        engine.stop()

    def next_change(self) -> int:
        if self.at == len(self.rows) and (block := self.feed.take()) is not None:
            assert len(block)
            self.rows, self.at = np.stack((block.time, block.machine, block.up, block.until), axis=1), 0
        return int(self.rows[self.at, 0]) if self.at < len(self.rows) else NEVER

    def change(self) -> None:
        while self.next_change() == self.now:
            time, u, up, until = self.rows[self.at].tolist()
            self.at += 1
            assert self.due[u] == time and self.up[u] != up
            self.due[u], self.up[u] = until, bool(up)
            if u in self.running:
                self.stop(u, completed=0)

    def start(self) -> None:
        speeds, sizes = self.run.speeds, self.run.applications.task_size
        for u in sorted(range(len(self.up)), key=lambda u: (-speeds[u], u)):
            i = next((i for i, left in enumerate(self.left) if left), None)
            if i is None:
                return
            if self.up[u] and u not in self.running:
                self.left[i] -= 1
                self.running[u] = i, self.now, self.now + max(1, round(sizes[i] / speeds[u] * NS))
                self.used.add((i, u))
                if self.first[i] < 0:
                    self.first[i] = self.now

    def stop(self, u: int, *, completed: int) -> None:
        i, start, _ = self.running.pop(u)
        self.ran.append((u, i, 1, start, self.now, completed))
        self.busy[u] += self.now - start
        self.tasks[u] += completed
        if completed:
            self.finish_at[i] = self.now
        else:
            self.left[i] += 1
            self.resubmitted[i] += 1
            self.interrupted[u] += 1

    def finish(self) -> Outcome:
        count = len(self.left)
        done = np.bincount([row[1] for row in self.ran if row[5]], minlength=count)
        applications = {
            "first_start": self.first,
            "finish": self.finish_at,
            "completed": done,
            "resubmitted": self.resubmitted,
            "nodes_used": np.bincount([i for i, _ in self.used], minlength=count),
        }
        machines = {
            "busy": self.busy,
            "tasks": self.tasks,
            "interrupted": self.interrupted,
            "peak_queue": [0] * len(self.busy),
        }
        ran = np.array(sorted(self.ran, key=lambda row: (row[0], row[3])), np.int64).reshape(-1, 6)
        return Outcome(
            {name: np.array(column, np.int64) for name, column in applications.items()},
            {name: np.array(column, np.int64) for name, column in machines.items()},
            schedule=dict(zip(SCHEDULE, ran.T, strict=True)),
        )
