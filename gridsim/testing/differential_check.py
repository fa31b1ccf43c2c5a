"""differential(): runs random scenarios in all ways that must not change the result, and compares them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hypothesis import Phase, given
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from gridsim.errors import CompileError, ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.results.diff import first_difference
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Scheduler
from gridsim.scheduling.registry import registered, scheduler_of
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arguments import real, whole
from gridsim.testing.cases import scenarios
from gridsim.testing.conformance import RECORDED, Findings, drawing, forms_for
from gridsim.testing.introspection import policy_of
from gridsim.testing.other_interpreters import COPIES, afresh, interpreter
from gridsim.testing.resuming import differing_end, keeps_state
from gridsim.testing.run_limits import LIMITS, PATIENCE, patience
from gridsim.testing.violation import ConformanceError, error_text, save
from gridsim.validation.results import validate_result

Check = Callable[[Result], str | None]

#: The scenarios of a block, which have a seed of their own.
_BLOCK = 50
#: How often a run is made again once another way has given another result.
_REPEATS = 3


@dataclass
class Differential:
    """The report of `differential`.

    Parameters
    ----------
    pairs
        How many pairs of a scenario and a scheduler were drawn and run, at least twice each.  Smaller
        scenarios, which are looked for once there is a difference, do not count.
    variants
        Way to run -> number of runs; ``"left out"`` counts scenarios that cannot be run at all.
    differences
        One error for each scheduler with a difference, with its smallest scenario and file.
    not_run
        Scheduler, with its index where several have its name -> why no pair with it was run, such as "no time
        left".
    seconds
        s that it took.
    """

    pairs: int = 0
    variants: Counter[str] = field(default_factory=Counter)
    differences: list[ConformanceError] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def runs(self) -> int:
        """The number of runs that were compared: one of each pair, and one of each other way to run it."""
        return self.pairs + sum(n for way, n in self.variants.items() if way not in ("checked", "left out"))

    def __str__(self) -> str:
        ways = ", ".join(f"{count} {name}" for name, count in self.variants.items())
        found = len(self.differences)
        said = f"{found or 'no'} difference{'s' * (found != 1)}"
        if not self.pairs and not found:
            said = "nothing was compared"
        lines = [
            f"{self.runs} runs of {self.pairs} pairs in {self.seconds:.0f} s, {said}{ways and '; '}{ways}"
        ]
        for why in dict.fromkeys(self.not_run.values()):
            names = ", ".join(name for name, each in self.not_run.items() if each == why)
            lines.append(f"not run, {why}: {names}")
        return "\n".join([*lines, *map(str, self.differences)])


def differential(
    schedulers: Iterable[Scheduler | str] | None = None,
    *,
    runs: int = 1000,
    minutes: float = 10.0,
    checks: Iterable[Check] = (),
    processes: bool = True,
    max_nodes: int = 20,
    seed: int = 0,
    folder: str | os.PathLike[str] = "gridsim-check",
) -> Differential:
    """Run random scenarios in all ways that must not change the result, and compare them with one another.

    Each scenario is run as usual, and again; with nodes interpreted and compiled; with cohorts cut at 1 and 3
    rows; with 2 threads; in another process (see `gridsim.testing.other_interpreters`); and from checkpoints.
    Scenarios are those of `check_scheduler`.

    Raises ScenarioError for invalid arguments.

    Parameters
    ----------
    schedulers
        The schedulers, or their names; None for all that are registered.
    runs
        The number of pairs of a scenario and a scheduler.
    minutes
        The time after which it ends, if there is still something to run.  Both budgets are divided among the
        schedulers; the report names those for which nothing is left.
    checks
        Functions of a `Result` with the tables ``schedule``, ``arrivals`` and ``message_log``, which return
        what is wrong with it, or None.  `gridsim.validation` is always one of them.
    processes
        Whether to run in another process, too, which must be able to import the schedulers.
    max_nodes, seed, folder
        As in `check_scheduler`.
    """
    whole("runs", runs, low=1)
    whole("max_nodes", max_nodes, low=1)
    real("minutes", minutes, above=0, unit="min")
    given_ones = list(registered()) if schedulers is None else list(schedulers)
    chosen = [scheduler_of(f"schedulers[{k}]", each, {}) for k, each in enumerate(given_ones)]
    names = [each if isinstance(each, str) else each.name for each in given_ones]
    names = [name if names.count(name) == 1 else f"{name} [{k}]" for k, name in enumerate(names)]
    if not chosen:
        raise ScenarioError("schedulers must name at least one, got none")
    began, report = time.monotonic(), Differential()
    ends = began + 60.0 * minutes
    with ExitStack() as stack:
        pool: ProcessPoolExecutor | None = None
        for k, scheduler in enumerate(chosen):
            count = runs * (k + 1) // len(chosen) - runs * k // len(chosen)
            if count and processes and time.monotonic() < ends and not (pool and COPIES):
                stack.close()
                pool = stack.enter_context(interpreter("1"))
            now = time.monotonic()
            if not count or now >= ends:
                report.not_run[names[k]] = "no time left" if count else "no runs left"
                continue
            trial = _Trial(report, tuple(checks), now + (ends - now) / (len(chosen) - k), ends, pool)
            try:
                _attempt(trial, scheduler, max_nodes, count, seed, folder)
            except ConformanceError as error:
                error.file = error.file or save(error, os.fspath(folder))
                report.differences.append(error)
            else:
                if not trial.pairs:
                    late = time.monotonic() >= ends
                    report.not_run[names[k]] = "no time left" if late else "no scenario that can be run"
    report.seconds = time.monotonic() - began
    return report


def _attempt(
    trial: _Trial, scheduler: Scheduler, max_nodes: int, count: int, seed: int, folder: str | os.PathLike[str]
) -> None:
    policy, kind, able, _ = policy_of(st.just(scheduler), folder)
    trial.keeps_state = keeps_state(policy)
    cases = st.tuples(st.booleans() if able else st.just(False), st.booleans()).flatmap(
        lambda drawn: scenarios(max_nodes=max_nodes, faults=drawn[0], crowded=drawn[1], **kind)
    )

    # Hypothesis cannot be stopped: in blocks, so that not many are drawn in vain when time is up
    for block in range(0, count, _BLOCK):
        if not trial.late:
            _block(trial, scheduler, cases, min(_BLOCK, count - block), seed + block)


def _block(
    trial: _Trial, scheduler: Scheduler, cases: st.SearchStrategy[Scenario], count: int, seed: int
) -> None:
    @seeded(seed)
    @drawing(count, Phase.generate, Phase.shrink)
    @given(cases)
    def attempt(scenario: Scenario) -> None:
        trial(scenario, scheduler)

    try:
        attempt()
    except Flaky as error:
        if (found := trial.findings.first) is None:
            raise
        raise (found if found.law == "again" else trial.findings.not_repeated("again")) from error


class _Trial:
    """Runs one scenario in all ways for each call."""

    def __init__(
        self,
        report: Differential,
        checks: tuple[Check, ...],
        until: float,
        ends: float,
        pool: ProcessPoolExecutor | None,
    ) -> None:
        """`until`, `ends` : when this scheduler's share of the time is over, and when all time is."""
        self.report, self.checks, self.until, self.ends, self.pool = report, checks, until, ends, pool
        self.pairs = 0
        self.keeps_state = False
        self.findings = Findings()

    @property
    def late(self) -> bool:
        """Whether no further pair begins; a first one may, though the first look took the whole share."""
        return time.monotonic() > (self.until if self.pairs else self.ends)

    def __call__(self, scenario: Scenario, scheduler: Scheduler) -> None:
        drawn = self.findings.first is None  # and no smaller one than that
        if drawn and self.late or self.findings.settled(scenario, scheduler):
            return
        try:
            result = simulate(scenario, scheduler, record=RECORDED, **LIMITS)
        except ScenarioError:  # nothing can run it, as when all machines fail
            self.report.variants["left out"] += drawn
            return
        self.pairs += drawn
        self.report.pairs += drawn
        for way, message in self.ways(result, scenario, scheduler):
            self.report.variants[way] += drawn
            if message is not None:
                if way not in ("checked", "again") and (
                    said := self._not_repeated(scenario, scheduler, result)
                ):
                    way, message = "again", said
                error = ConformanceError(way, message, scenario, scheduler)
                self.findings.add(error, scenario, scheduler)
                raise error
            if drawn and way != "checked" and time.monotonic() > self.ends:
                return

    def _not_repeated(self, scenario: Scenario, scheduler: Scheduler, result: Result) -> str | None:
        """Return how the same run differs if it is made a few times more; None if it never does."""
        for _ in range(_REPEATS):
            try:
                with patience(PATIENCE):
                    said = _differs(result, simulate(scenario, scheduler, record=RECORDED, **LIMITS))
            except (Exception, SystemExit) as error:
                said = error_text(error)
            if said:
                return f"nondeterministic: {said}"
        return None

    def ways(
        self, result: Result, scenario: Scenario, scheduler: Scheduler
    ) -> Iterator[tuple[str, str | None]]:
        """Iterate over ways to run, and how the result of each differs from `result`; None if it does not."""
        only = self.findings.law
        forms: tuple[NodeForm | None, ...] = forms_for(scenario, scheduler)
        if len(scheduler.node_forms) < 2:  # it has no nodes, or they run in one way only
            forms = (None,)
        options: dict[str, dict[str, Any]] = {
            "again": {},
            **{form: {"nodes": form} for form in forms if form},
            "cut at 1": {"cohort_limit": 1},
            "cut at 3": {"cohort_limit": 3},
            "threads": {"threads": 2},
        }
        if only in (None, "checked"):
            wrong = [*map(str, validate_result(result)), *(check(result) for check in self.checks)]
            yield "checked", next((each for each in wrong if each), None)
        for way, more in options.items():
            if only not in (None, way):
                continue
            try:
                with patience(PATIENCE):
                    other = simulate(scenario, scheduler, record=RECORDED, **LIMITS, **more)
            except (ImportError, CompileError):  # the nodes run interpreted only
                continue
            except (Exception, SystemExit) as error:
                yield way, error_text(error)
            else:
                yield way, _differs(result, other)
        if self.pool is not None and only in (None, "another process"):
            limits = {**LIMITS, "patience": PATIENCE}
            found = self.pool.submit(afresh, scenario.to_toml(), scheduler, limits).result()
            yield "another process", found if isinstance(found, str) else _differs(result, found)
        for form in forms if self.keeps_state else ():
            way = f"resumed, {form}" if form else "resumed"
            if only in (None, way):
                try:  # what a form records may be in an order of its own
                    whole = simulate(scenario, scheduler, record=RECORDED, nodes=form, **LIMITS)
                    ends = differing_end(scenario, scheduler, whole, LIMITS["time_limit"], RECORDED, form)
                except (ImportError, CompileError):
                    continue
                except (Exception, SystemExit) as error:
                    ends = error_text(error)
                yield way, ends


def _differs(result: Result, other: Result) -> str | None:
    if other.digest == result.digest:
        return None
    return first_difference(result, other) or "the facts differ"
