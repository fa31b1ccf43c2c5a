"""`differential`: run random scenarios in all ways that must not change the result, and compare them."""

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
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from gridsim.errors import CompileError, ScenarioError, SchedulerError
from gridsim.model.scenario import Scenario
from gridsim.results.diff import first_difference
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Scheduler
from gridsim.scheduling.registry import registered, scheduler_of
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arguments import integer, real
from gridsim.testing.cases import scenarios, with_power
from gridsim.testing.conformance import RECORDED_TABLES, forms_for, hypothesis_settings
from gridsim.testing.introspection import inspect_scheduler, is_limit_error
from gridsim.testing.other_interpreters import CAN_FORK, interpreter, run_in_fresh_process
from gridsim.testing.resuming import has_checkpoint_state, resume_difference
from gridsim.testing.run_limits import LIMITS, WALL_TIME_LIMIT, limit_wall_time
from gridsim.testing.violation import ConformanceError, Findings, error_text, failed_run, save
from gridsim.validation.results import validate_result

Check = Callable[[Result], str | None]

#: Number of scenarios in a block; each block has its own seed.
_BLOCK = 50
#: Number of times that a run is repeated after another way to run it has given another result.
_REPEATS = 3


@dataclass
class Differential:
    """Report of `differential`.

    Parameters
    ----------
    pairs
        The number of random pairs of a scenario and a scheduler, each run at least twice.  Smaller scenarios
        that were tried after a difference do not count.
    variants
        Way to run -> number of runs; ``"left out"`` counts scenarios that cannot be run at all.
    differences
        One error for each scheduler with a difference, with its smallest scenario and file.
    not_run
        Scheduler, with its index if several have its name -> reason why it was not run, such as "no time
        left".
    seconds
        Duration of the check (s).
    """

    pairs: int = 0
    variants: Counter[str] = field(default_factory=Counter)
    differences: list[ConformanceError] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def runs(self) -> int:
        """The number of compared runs: one of each pair, and one of each other way to run it."""
        return self.pairs + sum(n for way, n in self.variants.items() if way not in ("checked", "left out"))

    def __str__(self) -> str:
        ways = ", ".join(f"{count} {name}" for name, count in self.variants.items())
        difference_count = len(self.differences)
        text = f"{difference_count or 'no'} difference{'s' * (difference_count != 1)}"
        if not self.pairs and not difference_count:
            text = "nothing was compared"
        lines = [
            f"{self.runs} runs of {self.pairs} pairs in {self.seconds:.0f} s, {text}{ways and '; '}{ways}"
        ]
        for reason in dict.fromkeys(self.not_run.values()):
            names = ", ".join(name for name, cause in self.not_run.items() if cause == reason)
            lines.append(f"not run, {reason}: {names}")
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

    Each scenario is run as usual, and again; with nodes interpreted, compiled and in Python; with cohorts cut
    at 1 and 3 rows; with 2 threads; with all that can be recorded; in another process (see
    `gridsim.testing.other_interpreters`); and from checkpoints.  Scenarios are those of `check_scheduler`,
    half of them with the power of machines.

    Parameters
    ----------
    schedulers
        The schedulers, or their names; None for all that are registered.
    runs
        The number of pairs of a scenario and a scheduler.
    minutes
        Maximum duration of the check, min.  Both budgets are divided among the schedulers; the report names
        the schedulers that were not run.
    checks
        Functions of a `Result` with the tables ``schedule``, ``arrivals`` and ``message_log`` that return a
        description of an error in it, or None.  `gridsim.validation` is always one of them.
    processes
        Whether to run in another process, too, which must be able to import the schedulers.
    max_nodes
        Maximum number of machines.
    seed
        Seed of the random scenarios.
    folder
        The folder for scenarios with a difference; created if needed.

    Raises
    ------
    ScenarioError
        If an argument is invalid.
    """
    integer("runs", runs, low=1)
    integer("max_nodes", max_nodes, low=1)
    real("minutes", minutes, above=0, unit="min")
    scheduler_list = list(registered()) if schedulers is None else list(schedulers)
    instances = [scheduler_of(f"schedulers[{k}]", entry, {}) for k, entry in enumerate(scheduler_list)]
    names = [entry if isinstance(entry, str) else entry.name for entry in scheduler_list]
    names = [name if names.count(name) == 1 else f"{name} [{k}]" for k, name in enumerate(names)]
    if not instances:
        raise ScenarioError("schedulers must name at least one scheduler, got none")
    start, report = time.monotonic(), Differential()
    deadline = start + 60.0 * minutes
    with ExitStack() as stack:
        pool: ProcessPoolExecutor | None = None
        for k, scheduler in enumerate(instances):
            count = runs * (k + 1) // len(instances) - runs * k // len(instances)
            if count and processes and time.monotonic() < deadline and not (pool and CAN_FORK):
                stack.close()
                pool = stack.enter_context(interpreter("1"))
            now = time.monotonic()
            if not count or now >= deadline:
                report.not_run[names[k]] = "no time left" if count else "no runs left"
                continue
            trial = _DifferentialTrial(
                report, tuple(checks), now + (deadline - now) / (len(instances) - k), deadline, pool
            )
            try:
                _run_scheduler(trial, scheduler, max_nodes, count, seed, folder)
            except ConformanceError as error:
                error.file = error.file or save(error, os.fspath(folder))
                report.differences.append(error)
            else:
                if not trial.pairs:
                    is_late = time.monotonic() >= deadline
                    report.not_run[names[k]] = "no time left" if is_late else "no scenario that can be run"
    report.seconds = time.monotonic() - start
    return report


def _run_scheduler(
    trial: _DifferentialTrial,
    scheduler: Scheduler,
    max_nodes: int,
    count: int,
    seed: int,
    folder: str | os.PathLike[str],
) -> None:
    policy, features, can_fail, _ = inspect_scheduler(st.just(scheduler), folder)
    trial.has_checkpoint_state = has_checkpoint_state(policy)
    cases = st.tuples(st.booleans() if can_fail else st.just(False), st.booleans()).flatmap(
        lambda options: scenarios(max_nodes=max_nodes, faults=options[0], crowded=options[1], **features)
    )
    cases = cases.flatmap(with_power)

    # Hypothesis cannot be stopped, so small blocks limit the scenarios that are drawn after the deadline
    for block in range(0, count, _BLOCK):
        if not trial.is_late:
            _run_block(trial, scheduler, cases, min(_BLOCK, count - block), seed + block)


def _run_block(
    trial: _DifferentialTrial, scheduler: Scheduler, cases: st.SearchStrategy[Scenario], count: int, seed: int
) -> None:
    @with_seed(seed)
    @hypothesis_settings(count, Phase.generate, Phase.shrink)
    @given(cases)
    def attempt(scenario: Scenario) -> None:
        trial(scenario, scheduler)

    try:
        attempt()
    except Flaky as error:
        if (violation := trial.findings.first) is None:
            raise
        raise (
            violation if violation.law == "again" else trial.findings.unrepeated_violation("again")
        ) from error


class _DifferentialTrial:
    """Comparison of all ways to run a scenario, for one scenario per call."""

    def __init__(
        self,
        report: Differential,
        checks: tuple[Check, ...],
        share_end: float,
        deadline: float,
        pool: ProcessPoolExecutor | None,
    ) -> None:
        """Set up the trial of one scheduler.

        Parameters
        ----------
        share_end
            The end of the scheduler's share of the time, on the clock of `time.monotonic`.
        deadline
            The end of the time for all schedulers.
        """
        self.report, self.checks, self.share_end, self.deadline, self.pool = (
            report,
            checks,
            share_end,
            deadline,
            pool,
        )
        self.pairs = 0
        self.has_checkpoint_state = False
        self.findings = Findings()

    @property
    def is_late(self) -> bool:
        """Whether no further pair may begin; the first pair may exceed the scheduler's share of the time."""
        return time.monotonic() > (self.share_end if self.pairs else self.deadline)

    def __call__(self, scenario: Scenario, scheduler: Scheduler) -> None:
        is_new = self.findings.first is None  # otherwise Hypothesis is shrinking
        if is_new and self.is_late or self.findings.is_shrinking_over(scenario, scheduler):
            return
        try:
            with limit_wall_time(WALL_TIME_LIMIT):
                result = simulate(scenario, scheduler, record=RECORDED_TABLES, **LIMITS)
        except (Exception, SystemExit) as failure:
            # no scheduler can run it, for example because all machines fail, or it has very many events
            if isinstance(failure, ScenarioError) or is_limit_error(failure):
                self.report.variants["left out"] += is_new
                return
            violation = failed_run(failure, scenario, scheduler)
            self.findings.add(violation, scenario, scheduler)
            raise violation from failure
        self.pairs += is_new
        self.report.pairs += is_new
        for way, message in self.variant_differences(result, scenario, scheduler):
            self.report.variants[way] += is_new
            if message is not None:
                if way not in ("checked", "again") and (
                    nondeterminism := self._nondeterminism(scenario, scheduler, result)
                ):
                    way, message = "again", nondeterminism
                error = ConformanceError(way, message, scenario, scheduler)
                self.findings.add(error, scenario, scheduler)
                raise error
            if is_new and way != "checked" and time.monotonic() > self.deadline:
                return

    def _nondeterminism(self, scenario: Scenario, scheduler: Scheduler, result: Result) -> str | None:
        """Repeat the run of `result`, and describe the first repetition that differs; None if none does."""
        for _ in range(_REPEATS):
            try:
                with limit_wall_time(WALL_TIME_LIMIT):
                    difference = _difference(
                        result, simulate(scenario, scheduler, record=RECORDED_TABLES, **LIMITS)
                    )
            except (Exception, SystemExit) as error:
                difference = error_text(error)
            if difference:
                return f"nondeterministic: {difference}"
        return None

    def variant_differences(
        self, result: Result, scenario: Scenario, scheduler: Scheduler
    ) -> Iterator[tuple[str, str | None]]:
        """Iterate over ways to run, each with a description of its difference from `result`, or None."""
        shrinking = self.findings.invariant
        forms: tuple[NodeForm | None, ...] = forms_for(scenario, scheduler)
        if len(forms) < 2:  # there are no nodes, or they run in one form only
            forms = (None,)
        options: dict[str, dict[str, Any]] = {
            "again": {},
            **{form: {"nodes": form} for form in forms if form},
            "cut at 1": {"cohort_limit": 1},
            "cut at 3": {"cohort_limit": 3},
            "threads": {"threads": 2},
            "recorded": {"record": "all"},
        }
        if shrinking in (None, "checked"):
            problems = [*map(str, validate_result(result)), *(check(result) for check in self.checks)]
            yield "checked", next((problem for problem in problems if problem), None)
        for way, run_options in options.items():
            if shrinking not in (None, way):
                continue
            try:
                with limit_wall_time(WALL_TIME_LIMIT):
                    variant = simulate(
                        scenario, scheduler, **{"record": RECORDED_TABLES, **LIMITS, **run_options}
                    )
            except (ImportError, CompileError):  # the nodes run interpreted only
                continue
            except SchedulerError as error:
                if "events_limit" not in str(error):
                    yield way, error_text(error)
                # a run with too many events: compiled protocols do not count theirs
            except (Exception, SystemExit) as error:
                yield way, error_text(error)
            else:
                yield way, _difference(result, variant)
        if self.pool is not None and shrinking in (None, "another process"):
            limits = {**LIMITS, "wall_time": (WALL_TIME_LIMIT,)}
            outcome = self.pool.submit(run_in_fresh_process, scenario.to_toml(), scheduler, limits).result()
            yield "another process", outcome if isinstance(outcome, str) else _difference(result, outcome)
        for form in forms if self.has_checkpoint_state else ():
            way = f"resumed, {form}" if form else "resumed"
            if shrinking in (None, way):
                try:  # the forms may record rows in different orders
                    full_result = simulate(scenario, scheduler, record=RECORDED_TABLES, nodes=form, **LIMITS)
                    difference = resume_difference(
                        scenario, scheduler, full_result, LIMITS["time_limit"], RECORDED_TABLES, form
                    )
                except (ImportError, CompileError):
                    continue
                except (Exception, SystemExit) as error:
                    difference = error_text(error)
                yield way, difference


def _difference(result: Result, variant: Result) -> str | None:
    if variant.digest == result.digest:
        return None
    return first_difference(result, variant) or "the facts differ"
