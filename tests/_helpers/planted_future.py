"""Faulty centralized schedulers, most of which use knowledge of the future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from planted import Fault

from gridsim.model.applications import run_and_reserved_times
from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.immediate import ImmediateMode
from gridsim.schedulers.rigid.asap import Asap, _AsapPolicy
from gridsim.scheduling.contract import Policy, Run, Scheduler


class EvenScheduler(Scheduler, frozen=True, kw_only=True):
    """Scheduler that divides each application equally among the machines that are up."""

    name: ClassVar[str] = "evenly"
    decision_words: ClassVar[DecisionTexts] = {"bound": ("bound {tasks} tasks", "their number:", "")}

    def start(self, run: Run) -> Policy:
        return EvenPolicy(run)


class EvenPolicy(ImmediateMode):
    def share(self, application: int, count: int, now: int) -> Any:
        tasks, chosen = np.zeros(len(self.run.speeds), np.int64), self.choose_machines(application, now)
        tasks[chosen] = count // len(chosen) + (np.arange(len(chosen)) < count % len(chosen))
        return tasks

    def choose_machines(self, application: int, now: int) -> Any:
        return np.flatnonzero(self.run.up)

    def decision_value(self, application: int, machines: Any, now: int) -> float:
        return float(len(machines))


class _LastApplicationForesight(EvenPolicy):
    """Policy that sends the last application of a run to one machine."""

    def choose_machines(self, application: int, now: int) -> Any:
        honest = super().choose_machines(application, now)
        return honest[:1] if application == len(self.run.applications) - 1 else honest


class _LargerApplicationForesight(EvenPolicy):
    """Policy that keeps a machine free if a larger application is released within a minute."""

    def choose_machines(self, application: int, now: int) -> Any:
        honest, bags, after = (
            super().choose_machines(application, now),
            self.run.applications,
            application + 1,
        )
        if len(honest) < 2 or after == len(bags) or bags.release[after] - bags.release[application] > 60.0:
            return honest
        return honest[1:] if bags.size[after] > bags.size[application] else honest


class _FailingMachineForesight(EvenPolicy):
    """Policy that avoids machines whose first failure is within two minutes."""

    def choose_machines(self, application: int, now: int) -> Any:
        honest = super().choose_machines(application, now)
        if self.run.feed is None:
            return honest
        first = self.run.feed.first[honest]
        safe = honest[(first <= now) | (first > now + 120 * 10**9)]
        return safe if len(safe) else honest


class _RunTimeForesight(_AsapPolicy):
    """Policy that reserves true run times instead of the users' estimates."""

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        lasts, _ = run_and_reserved_times(run.applications, float(run.speeds[0]), "run")
        self.lengths = -(-lasts // self.slot)


class _SixteenBitCount(EvenPolicy):
    """Policy whose numbers of tasks wrap around."""

    def share(self, application: int, count: int, now: int) -> Any:
        return super().share(application, count, now).astype(np.int16).astype(np.int64)


def _fault(policy: type[Policy], base: type[Scheduler], kind: str, law: str) -> Fault:
    def start(self: Any, run: Run) -> Policy:
        make: Any = policy
        return make(self, run) if issubclass(base, Asap) else make(run)  # type: ignore[no-any-return]

    name = policy.__name__.removeprefix("_")
    body = {"name": name.lower(), "start": start, "foresees": (), "__module__": __name__}
    body["__annotations__"] = {"name": "ClassVar[str]"}
    make: Callable[..., Any] = type(base)
    new_class: type[Any] = make(name, (base,), body, frozen=True, kw_only=True)
    globals()[name] = new_class
    return Fault(new_class, kind, "cohorts", (law,))


#: Name of the fault -> fault.
PLANTED_FUTURE = {
    policy.__name__.removeprefix("_"): _fault(policy, base, *rest)
    for policy, base, *rest in (
        (_LastApplicationForesight, EvenScheduler, "knows the future", "foresight"),
        (_LargerApplicationForesight, EvenScheduler, "knows the future", "foresight"),
        (_FailingMachineForesight, EvenScheduler, "knows the future", "foresight"),
        (_RunTimeForesight, Asap, "knows the future", "foresight"),
        (_SixteenBitCount, EvenScheduler, "depends on an order", "runs"),
    )
}
