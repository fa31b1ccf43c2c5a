"""The report on a scheduler that kept all invariants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conformance:
    """Report on a scheduler that kept all invariants.

    Parameters
    ----------
    scheduler
        Name of the scheduler.
    examples, with_failures
        The number of scenarios tried, and the number of them with failures.
    left_out
        Invariant -> reason why it was not checked.
    not_compiled
        Reason why the nodes run interpreted only, "" if they can be compiled.
    interrupted
        Whether the check was interrupted or its time was over before all scenarios were tried.
    never_reached
        Handlers and branches of the scheduler's code that no scenario reached; for compiled nodes, those of
        their interpreted form.  Empty if a debugger or a measurement of coverage is active.
    """

    scheduler: str
    examples: int
    with_failures: int
    left_out: dict[str, str]
    not_compiled: str = ""
    never_reached: tuple[str, ...] = ()
    interrupted: bool = False

    def __str__(self) -> str:
        lines = [
            f"{self.scheduler}: {self.examples} scenarios, {self.with_failures} with failures, no violations"
            f"{' so far; the check has not ended' if self.interrupted else ''}"
        ]
        if self.not_compiled:
            lines.append(f"not compiled: {self.not_compiled}")
        lines += [f"never reached: {branch}" for branch in self.never_reached]
        return "\n".join(
            [*lines, *(f"not checked: {invariant}, {reason}" for invariant, reason in self.left_out.items())]
        )
