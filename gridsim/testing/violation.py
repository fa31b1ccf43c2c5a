"""Invariants of `check_scheduler`, the error about a violation, violations found so far, and their files."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import time
import types
from collections.abc import Iterator
from typing import Any

import msgspec

from gridsim.errors import ScenarioError, text_of
from gridsim.model.scenario import Scenario
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import registered

INVARIANTS = {
    "runs": "a run raises no error, and ends",
    "sound": "each task is completed once, none runs before its release, on a machine that is down, or at "
    "the same time as another one; messages sent = delivered + dropped + in flight, and each is in the log",
    "order": "machines run tasks in the order that `Scheduler.promised_order` promises",
    "served": "no rigid job is rejected for which there are enough machines",
    "messages": "a run sends at most `messages_per_task` messages for each task",
    "closed": "a run writes no files, starts no processes, and draws only random numbers that depend on the "
    "seed of the scenario, each stream opened once",
    "repeatable": "repeated runs of a scenario have the same digest, with one thread or two, recorded or not",
    "hash seed": "a fresh interpreter with another hash seed, clock, environment and folder gives the same "
    "digest",
    "cohorts": "cohorts cut at one or three rows give the same digest as whole cohorts",
    "forms": "interpreted, compiled and Python nodes give the same digest, and the first two resume from "
    "checkpoints",
    "isolated": "nodes that share no variable of a class or a module give the same digest",
    "decisions": "recording decisions does not change the digest, each completed application has one, and "
    "none is before its release, about more tasks than it has, or by a machine that cannot know of it",
    "resumed": "a run resumed from a checkpoint has the same result as an uninterrupted one",
    "locality": "the messages and starts of a machine depend only on information that messages have brought",
    "orders": "node programs end without an error, and each task is completed once, in whatever order the "
    "messages and timers of one instant, or within the jitter of each other, reach a node",
    "foresight": "decisions do not depend on later applications and failures, nor on run times of jobs with "
    "estimates, except for those that `Scheduler.foresees` names",
}

#: Wall time (s) of the search for a smaller scenario that breaks the same invariant.
SHRINKING_TIME = 60.0


class ConformanceError(AssertionError):
    """Error about a scheduler that breaks an invariant.

    Parameters
    ----------
    law
        Name of the invariant: one of `INVARIANTS`, or a way to run that `differential` compares.
    scenario
        The smallest scenario found that breaks it.
    scheduler
        The scheduler in that run.
    order
        The order of events in that run, as in `run_in_order`; None for the usual one.
    jitter
        Time by which messages and timers may be late in that run, s.

    Attributes
    ----------
    examples
        Number of scenarios tried, including the first that breaks it; 0 if unknown.
    file
        Path of the saved scenario; None before it is saved.
    left_out
        Reason why the file lacks the scheduler's parameters; "" if it does not.
    """

    def __init__(
        self,
        law: str,
        message: str,
        scenario: Scenario,
        scheduler: Scheduler,
        *,
        order: tuple[int, ...] | None = None,
        jitter: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.jitter = jitter
        self.law, self.scenario, self.scheduler, self.order = law, scenario, scheduler, order
        self.examples = 0
        self.file: str | None = None
        self.left_out = ""

    def __str__(self) -> str:
        invariant = (
            f"breaks the invariant {self.law!r} ({INVARIANTS[self.law]})"
            if self.law in INVARIANTS
            else self.law
        )
        text = f"{self.scheduler.name} {invariant}: {self.args[0]}"
        if self.order is not None:
            jitter = f", jitter={self.jitter!r}" if self.jitter else ""
            text += f"\nrun_in_order(scenario, scheduler, {self.order}{jitter}) repeats the run"
        if self.file is None:
            return text
        left_out = f" (without parameters of the scheduler: {self.left_out})" if self.left_out else ""
        return f"{text}\n{self.scheduler!r} on the scenario {self.file}{left_out}"


class Findings:
    """Violations found so far; the search for the smallest one takes up to `SHRINKING_TIME` s."""

    def __init__(self) -> None:
        #: Violations, each with the drawn scenario and scheduler; it may concern a variant of these.
        self._violations: list[tuple[ConformanceError, Scenario, Scheduler]] = []
        self._deadline = math.inf

    @property
    def first(self) -> ConformanceError | None:
        """The first violation, or None; a nondeterministic scheduler may never repeat it."""
        return self._violations[0][0] if self._violations else None

    @property
    def invariant(self) -> str | None:
        """The invariant of the first violation; later runs check only this one.  None: no violation."""
        return self.first.law if self.first else None

    def unrepeated_violation(self, invariant: str) -> ConformanceError:
        """Return an error about `invariant` that reports the first violation as nondeterministic."""
        assert (violation := self.first) is not None
        return ConformanceError(
            invariant,
            f"nondeterministic: the scenario broke the invariant {violation.law!r} in one run, but not in "
            f"another: {violation.args[0]}",
            violation.scenario,
            violation.scheduler,
        )

    def add(self, error: ConformanceError, scenario: Scenario, scheduler: Scheduler) -> None:
        """Record a violation of a random scenario."""
        if not self._violations:
            self._deadline = time.monotonic() + SHRINKING_TIME
        self._violations.append((error, scenario, scheduler))

    def is_shrinking_over(self, scenario: Scenario, scheduler: Scheduler) -> bool:
        """Return whether the search for a smaller scenario is over.

        It ends when time is up, or at once if the violation is a run that does not end.

        Raises
        ------
        ConformanceError
            If the search is over and this pair has broken an invariant before.
        """
        if time.monotonic() < self._deadline and not (self.first and "has not ended" in self.first.args[0]):
            return False
        for error, *pair in self._violations:
            if pair == [scenario, scheduler]:
                raise error
        return True


def shorten_traceback(error: BaseException) -> None:
    """Leave out the frames of gridsim and Hypothesis, and causes with no others: they hide the text."""
    error.__notes__ = []  # those of Hypothesis; the error has the scenario
    error.__traceback__ = None
    cause = error.__cause__
    while cause is not None and (frames := _user_frames(cause)) is None:
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    if cause is not None:
        cause.__traceback__, cause.__cause__, cause.__suppress_context__ = frames, None, True
    error.__cause__, error.__suppress_context__ = cause, True


def _user_frames(error: BaseException) -> types.TracebackType | None:
    """Return the traceback of an error from its first frame outside of gridsim on, in code called by it."""
    own, entries = {"gridsim", "gridcore", "hypothesis", "contextlib"}, list(_entries(error.__traceback__))
    is_own = [entry.tb_frame.f_globals.get("__name__", "").partition(".")[0] in own for entry in entries]
    trace = None
    for entry, skipped in zip(reversed(entries), reversed(is_own), strict=True):
        if not skipped:
            trace = types.TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def _entries(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


def failed_run(error: BaseException, scenario: Scenario, scheduler: Scheduler) -> ConformanceError:
    """Return the violation of the invariant "runs" by a run with an error."""
    text = error_text(error)
    if "events_limit" in text:
        text += "; if it has periodic timers, use `horizon` for shorter runs"
    return ConformanceError("runs", text, scenario, scheduler)


def save(error: ConformanceError, folder: str) -> str:
    """Save the scenario of a broken invariant, and return the path of the file.

    The file also has the parameters of a registered scheduler if no parameter is a function.
    """
    scheduler, scenario = error.scheduler, error.scenario
    if scheduler.name in registered():
        try:
            parameters: dict[str, Any] = msgspec.to_builtins(scheduler)
            explicit_parameters = {key: value for key, value in parameters.items() if value is not None}
            scenario = dataclasses.replace(scenario, schedulers={scheduler.name: explicit_parameters})
        except (ScenarioError, TypeError) as problem:  # a parameter is a function
            error.left_out = text_of(problem)
    os.makedirs(folder, exist_ok=True)
    name = re.sub(r"[^\w.-]", "_", f"{scheduler.name}-{error.law}".replace(" ", "-"))
    path = os.path.join(folder, f"{name[-100:]}.toml")
    scenario.save(path)
    return path
