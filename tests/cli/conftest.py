"""Fixtures of the tests of the command line: a scheduler in a module of the user."""

from __future__ import annotations

import pytest

TOY = '''
import numpy as np
from gridsim.scheduling.contract import Outcome, Policy, Scheduler


class Toy(Scheduler, frozen=True):
    """First come, first served, on the machine to which an application was submitted."""

    name = "toy"
    pause: float = 0.0
    mode: str = "x"

    def start(self, run):
        return ToyPolicy(self, run)


class ToyPolicy(Policy):
    def __init__(self, toy, run):
        if toy.mode == "interrupt":
            raise KeyboardInterrupt
        if toy.mode == "fail":
            raise ZeroDivisionError("of mine")
        count, machines = len(run.applications), len(run.speeds)
        names = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
        self.applications = {name: np.zeros(count, np.int64) for name in names}
        self.machines = {name: np.zeros(machines, np.int64) for name in ("busy", "tasks", "peak_queue")}
        self.toy, self.run, self.free = toy, run, [0] * machines

    def on_release(self, applications):
        given, mine = self.run.applications, self.applications
        for i in applications:
            u, tasks = int(given.submitter[i]), int(given.tasks[i])
            busy = tasks * round(given.task_size[i] / self.run.speeds[u] * 1e9)
            start = max(self.run.engine.now, self.free[u]) + round(self.toy.pause * 1e9)
            self.free[u] = start + busy
            mine["first_start"][i], mine["finish"][i], mine["completed"][i] = start, start + busy, tasks
            self.machines["busy"][u] += busy
            self.machines["tasks"][u] += tasks

    def finish(self):
        return Outcome(self.applications, self.machines, facts={"pause": self.toy.pause})
'''

NAME = "toy_for_the_command_line"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a working folder with a module that contains the scheduler of `toy`."""
    (tmp_path / f"{NAME}.py").write_text(TOY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, NAME, raising=False)
    return tmp_path


@pytest.fixture
def toy():
    return f"{NAME}:Toy"
