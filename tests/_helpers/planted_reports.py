"""Schedulers on cohorts with false reports: outcomes, bytes, decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import wrong_schedulers
from planted import Fault, _Planted, scheduler_of
from wrong_schedulers import Shares, SharesPolicy

from gridsim.results.decisions import DecisionTexts
from gridsim.schedulers.centralized.heuristics import InTurnMode, Olb
from gridsim.scheduling.contract import DecisionVerb, Outcome, Policy, Run


class _FalsePeak(_Planted):
    """Policy that reports one waiting task too many for the machine with the longest queue."""

    def finish(self) -> Outcome:
        outcome = super().finish()
        peak = outcome.machines["peak_queue"]
        peak[np.argmax(peak)] += 2
        return outcome


class _MissingPeak(_Planted):
    def finish(self) -> Outcome:
        outcome = super().finish()
        outcome.machines["peak_queue"][:] = 0
        return outcome


class _DecisionOnTooMany(_Planted):
    """Policy that reports twice as many tasks as it sent."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, 2 * tasks, submitter, among)


class _DecisionByAnotherMachine(_Planted):
    """Policy that reports decisions as those of the next machine."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, tasks, (submitter + 1) % len(self.run.speeds), among)


class _DecisionOnAnotherApplication(_Planted):
    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(max(i - 1, 0), tasks, submitter, among)


class _DecisionOnTooFew(_Planted):
    """Policy that reports one task too few for large bags."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        super().note(i, tasks - (tasks > 10), submitter, among)


class _ShareReport(_Planted):
    """Policy that reports each share; faults falsify the report."""

    def targets(self, submitter: int, application: int) -> Any:
        self.last = super().targets(submitter, application)
        return self.last

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        shares = tasks // among + (np.arange(among) < tasks % among)
        for machine, share in zip(self.last.tolist(), shares.tolist(), strict=True):
            if share and self.run.decisions is not None:
                now = self.run.engine.now
                reported_share = dict(
                    zip(("machine", "tasks"), self.reported_share(machine, share, tasks), strict=True)
                )
                self.run.decisions.record(
                    "gave", time=now, application=i, decider=submitter, **reported_share
                )

    def reported_share(self, machine: int, share: int, tasks: int) -> tuple[int, int]:
        return machine, share


class _ExcessShareReport(_ShareReport):
    """Policy that reports one task too many for each share of a large bag."""

    def reported_share(self, machine: int, share: int, tasks: int) -> tuple[int, int]:
        return machine, min(tasks, share + (tasks > 10))


class _MisdirectedShareReport(_ShareReport):
    """Policy that reports the next machine as the target of each share."""

    def reported_share(self, machine: int, share: int, tasks: int) -> tuple[int, int]:
        return (machine + 1) % len(self.run.speeds), share


def _reporting(table: str, column: str, change: Callable[[Any, Any], None], doc: str) -> type[_Planted]:
    """Return a policy that reports a changed column of a table of its outcome."""

    def finish(self: Any) -> Outcome:
        outcome = _Planted.finish(self)
        change(getattr(outcome, table)[column], self)
        return outcome

    return type("_Reports", (_Planted,), {"finish": finish, "__doc__": doc})


def _add(values: Any, _: Any) -> None:
    values[-1] += 1


def _add_a_microsecond(values: Any, _: Any) -> None:
    values[-1] += 1000


def _add_after_failures(values: Any, policy: Any) -> None:
    if policy.resubmitted.any():
        values[np.argmax(values)] += 1000


def _add_many(values: Any, _: Any) -> None:
    values *= 1000


def _add_where_none(values: Any, policy: Any) -> None:
    values[np.flatnonzero(policy.resubmitted == 0)[:1]] += 1


class _FalseStarts(
    _reporting("applications", "first_start", _add_a_microsecond, "Says that the last one began later.")
):
    pass


class _FalseEnds(
    _reporting("applications", "finish", _add_a_microsecond, "Says that the last one ended later.")
):
    pass


class _FalseNodeCount(_reporting("applications", "nodes_used", _add, "Counts a machine too many.")):
    pass


class _FalseBusyTime(
    _reporting("machines", "busy", _add_a_microsecond, "Says that a machine was busy for 1 us more.")
):
    pass


class _FalseInterruptions(
    _reporting("machines", "interrupted", _add, "Counts a task that no failure cut off.")
):
    pass


class _FalseLosses(_reporting("applications", "resubmitted", _add_where_none, "Counts a loss too many.")):
    pass


class _RepeatedLosses(_reporting("applications", "resubmitted", _add_many, "Counts each loss too often.")):
    pass


class _MissingDroppedTasks(_Planted):
    """Policy that does not report tasks lost with a message."""

    def on_lost(self, rows: Any) -> None:
        before = self.resubmitted.copy()
        super().on_lost(rows)
        self.resubmitted[:] = before


class _FalsePeakAfterFailures(
    _reporting("machines", "peak_queue", _add_after_failures, "Counts what waits wrongly after failures.")
):
    pass


class _LateDecisionTime(_Planted):
    """Policy that reports decisions 50 s too late."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        if self.run.decisions is not None:
            now = self.run.engine.now + 50 * 10**9
            self.run.decisions.record(
                "shared", time=now, application=i, decider=submitter, tasks=tasks, among=among
            )


class _EarlyDecisionTime(_Planted):
    """Policy that reports decisions one second too early."""

    def note(self, i: int, tasks: int, submitter: int, among: int) -> None:
        if self.run.decisions is not None:
            now = max(0, self.run.engine.now - 10**9)
            self.run.decisions.record(
                "shared", time=now, application=i, decider=submitter, tasks=tasks, among=among
            )


class _SharesWithoutBytes(_Planted):
    """Policy whose messages with shares have no bytes."""

    def __init__(self, run: Run) -> None:
        kind = run.network.kind

        def declare_without_bytes(name: str, dtype: Any, nbytes: int, *args: Any, **more: Any) -> None:
            kind(name, dtype, 0, *args, **more)

        run.network.kind = declare_without_bytes  # type: ignore[method-assign]
        super().__init__(run)


class _FalseResubmission(InTurnMode):
    """Policy that reports lost tasks as all tasks of their application."""

    def _bind(self) -> None:
        log, tasks = self.run.decisions, self.run.applications.tasks
        if log is not None:

            def note(action: str, **columns: Any) -> None:
                log.record(action, **{**columns, "tasks": int(tasks[columns["application"]])})

            self.run.decisions = SimpleNamespace(record=note)
        super()._bind()
        self.run.decisions = log


class FalseResubmission(Olb, frozen=True, kw_only=True):
    name: ClassVar[str] = "all-again"

    def start(self, run: Run) -> Policy:
        return _FalseResubmission(run, "olb")


class ShareReport(Shares, frozen=True, kw_only=True):
    """Scheduler with sound reports of shares."""

    name: ClassVar[str] = "gives"
    decision_words: ClassVar[DecisionTexts] = {"gave": ("gave {tasks} tasks to machine {machine}", "", "")}
    decision_verbs: ClassVar[Mapping[str, DecisionVerb]] = {"gave": "gives"}

    def start(self, run: Run) -> Policy:
        return _ShareReport(run)


class ExcessShareReport(ShareReport, frozen=True, kw_only=True):
    name: ClassVar[str] = "gives-more"

    def start(self, run: Run) -> Policy:
        return _ExcessShareReport(run)


class MisdirectedShareReport(ShareReport, frozen=True, kw_only=True):
    name: ClassVar[str] = "gives-elsewhere"

    def start(self, run: Run) -> Policy:
        return _MisdirectedShareReport(run)


_KINDS: dict[str, dict[type[SharesPolicy], tuple[str, ...]]] = {
    "misreports": {
        _FalsePeak: ("sound",),
        _MissingPeak: ("sound",),
        _FalsePeakAfterFailures: ("sound",),
        _FalseStarts: ("sound",),
        _FalseEnds: ("sound",),
        _FalseNodeCount: ("sound",),
        _FalseBusyTime: ("sound", "runs"),
        _FalseInterruptions: ("sound",),
        _FalseLosses: ("sound",),
        _RepeatedLosses: ("sound",),
        _MissingDroppedTasks: ("sound",),
        _SharesWithoutBytes: ("locality",),
    },
    "false decisions": {
        _DecisionOnTooMany: ("decisions",),
        _DecisionOnTooFew: ("decisions",),
        _DecisionByAnotherMachine: ("decisions",),
        _DecisionOnAnotherApplication: ("decisions",),
        _LateDecisionTime: ("decisions",),
        _EarlyDecisionTime: ("decisions",),
    },
}

#: Name of the fault -> fault.
PLANTED_REPORTS = {
    policy.__name__.removeprefix("_"): Fault(scheduler_of(policy, globals()), kind, "cohorts", laws)
    for kind, policies in _KINDS.items()
    for policy, laws in policies.items()
}
for _own in (FalseResubmission, ExcessShareReport, MisdirectedShareReport):
    PLANTED_REPORTS[_own.__name__] = Fault(_own, "false decisions", "cohorts", ("decisions",))
for _name in ("DrawForRecord", "MissingDecisions"):
    _wrong = getattr(wrong_schedulers, _name)
    PLANTED_REPORTS[_name] = Fault(_wrong, "false decisions", "cohorts", ("decisions",))
