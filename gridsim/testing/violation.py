"""What `check_scheduler` says about a scheduler that breaks an invariant, and the file that it saves."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import msgspec

from gridsim.errors import ScenarioError, text_of
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import registered

LAWS = {
    "runs": "no error, and an end",
    "sound": "each task completed once, nothing before its release, on a dead machine, or two at a time; "
    "messages sent = delivered + dropped + in flight, and each in the log, of no machine that was down",
    "order": "machines run what came to them in the order that `Scheduler.order` promises",
    "served": "no rigid job is rejected for which there are enough machines",
    "closed": "a run writes no files, starts no processes, and draws only random numbers that depend on the "
    "seed of the scenario, from streams that are asked for once",
    "repeatable": "the same scenario has the same digest, each time it is run, with one thread or two, "
    "recorded or not",
    "hash seed": "another interpreter, in which sets have another order, clocks, environment and folder are "
    "others, and nothing ran before, finds the same digest",
    "cohorts": "rows handed over one by one, or by three, give the same digest as all together",
    "forms": "interpreted and compiled nodes give the same digest, and both go on from checkpoints",
    "isolated": "nodes that share no variable of a class or a module give the same digest",
    "decisions": "noting decisions does not change the digest, each application that is completed has one, "
    "and none is before its release, about more tasks than there are, or by who cannot have heard of it",
    "resumed": "a run that goes on from a checkpoint ends as if it had not been cut off",
    "locality": "what a machine sends and starts does not depend on what no message can have told it",
    "foresight": "what is done does not depend on what comes or fails later, nor on how long jobs will run "
    "where users state estimates, except for what `Scheduler.foresees` names",
}


class ConformanceError(AssertionError):
    """A scheduler broke an invariant.

    Parameters
    ----------
    law
        Name of the invariant, one of `LAWS`, or the way to run that `differential` compared.
    scenario
        The smallest scenario found that breaks it.
    scheduler
        The scheduler in that run.

    Attributes
    ----------
    examples
        The number of scenarios that were tried until a first one broke it; 0 if that is not known.
    file
        Where the scenario has been saved; None before that.
    left_out
        Why the file lacks the scheduler's parameters, "" if it has them or needs none.
    """

    def __init__(self, law: str, message: str, scenario: Scenario, scheduler: Scheduler) -> None:
        super().__init__(message)
        self.law, self.scenario, self.scheduler = law, scenario, scheduler
        self.examples = 0
        self.file: str | None = None
        self.left_out = ""

    def __str__(self) -> str:
        which = f"breaks the invariant {self.law!r} ({LAWS[self.law]})" if self.law in LAWS else self.law
        said = f"{self.scheduler.name} {which}: {self.args[0]}"
        if self.file is None:
            return said
        left_out = f" (without parameters of the scheduler: {self.left_out})" if self.left_out else ""
        return f"{said}\n{self.scheduler!r}\n{self.file}{left_out}:\n{self.scenario.to_toml()}"


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


def save(error: ConformanceError, folder: str) -> str:
    """Save the scenario of a broken invariant and return its path.

    The file has the scheduler's parameters, too, if the scheduler is registered and none is a function.
    """
    scheduler, scenario = error.scheduler, error.scenario
    if scheduler.name in registered():
        try:
            stated: dict[str, Any] = msgspec.to_builtins(scheduler)
            given = {key: value for key, value in stated.items() if value is not None}
            scenario = dataclasses.replace(scenario, schedulers={scheduler.name: given})
        except (ScenarioError, TypeError) as found:  # a function, which no file names
            error.left_out = text_of(found)
    os.makedirs(folder, exist_ok=True)
    name = re.sub(r"[^\w.-]", "_", f"{scheduler.name}-{error.law}".replace(" ", "-"))
    path = os.path.join(folder, f"{name[-100:]}.toml")
    scenario.save(path)
    return path
