"""A simple scheduler for tests of the framework."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gridsim.scheduling.contract import Outcome, Policy, Run, Scheduler
from gridsim.support.clock import nanoseconds


class Toy(Scheduler, frozen=True, kw_only=True):
    """Scheduler that runs applications on their submitters in order; `flaw` breaks an invariant."""

    name: ClassVar[str] = "toy"

    pause: float = 0.0
    flaw: str = ""

    def start(self, run: Run) -> ToyPolicy:
        return ToyPolicy(self, run)


class ToyPolicy(Policy):
    def __init__(self, toy: Toy, run: Run) -> None:
        self.toy, self.run = toy, run
        count, machines = len(run.applications), len(run.speeds)
        names = ("first_start", "finish", "completed", "resubmitted", "nodes_used")
        self.applications = {name: np.zeros(count, np.int64) for name in names}
        self.machines = {name: np.zeros(machines, np.int64) for name in ("busy", "tasks", "peak_queue")}
        self.free = [0] * machines

    def on_release(self, applications: list[int]) -> None:
        inputs, outputs, machines = self.run.applications, self.applications, self.machines
        for i in applications:
            u, tasks = int(inputs.submitter[i]), int(inputs.tasks[i])
            busy = tasks * nanoseconds(inputs.task_size[i] / self.run.speeds[u])
            start = max(self.run.engine.now, self.free[u]) + nanoseconds(self.toy.pause)
            self.free[u] = start + busy
            outputs["first_start"][i], outputs["finish"][i] = start, start + busy
            outputs["completed"][i], outputs["nodes_used"][i] = tasks, 1
            machines["busy"][u] += busy
            machines["tasks"][u] += tasks
            machines["peak_queue"][u] = max(machines["peak_queue"][u], tasks)

    def finish(self) -> Outcome:
        outcome = Outcome(self.applications, self.machines, facts={"pause": self.toy.pause})
        match self.toy.flaw:
            case "lost":
                outcome.applications["completed"][1] -= 1
            case "early":
                outcome.applications["first_start"][1] = -1
            case "reversed":
                outcome.applications["finish"][1] = outcome.applications["first_start"][1] - 1
            case "uncounted":
                outcome.machines["tasks"][0] += 1
            case "lazy":
                outcome.machines["busy"][:] = 0
            case "overworked":
                outcome.machines["busy"][:] = 10**18
            case "silent":
                del outcome.machines["busy"]
            case "short":
                outcome.applications["finish"] = outcome.applications["finish"][1:]
            case "clash":
                outcome.tables["machines"] = {"x": np.zeros(1)}
            case "ragged":
                outcome.tables["extra"] = {"x": np.zeros(1), "y": np.zeros(2)}
            case "taken":
                outcome.applications["size"] = np.zeros_like(outcome.applications["finish"])
            case "odd":
                outcome.facts["odd"] = object()
        return outcome
