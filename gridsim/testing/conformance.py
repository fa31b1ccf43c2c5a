"""`check_scheduler`: check that a scheduler keeps the invariants of every credible scheduler.

Like scikit-learn's ``check_estimator``, it runs the scheduler on random small grids with many coincident
events, and checks every invariant on each of them.  A scenario that breaks an invariant is shrunk and saved.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, get_args

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from gridsim.errors import CompileError, ModelWarning, ScenarioError, SchedulerError, text_of
from gridsim.model.bag_workloads import ListRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Order, Scheduler
from gridsim.scheduling.nodes.adapter import ProgramScheduler
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.simulation.options import Record, Recording
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arguments import integer, real
from gridsim.support.progress import Bar, Progress, bar
from gridsim.testing.cases import (
    compress,
    has_supported_needs,
    job_alone,
    large_bags,
    large_grids,
    long_queues,
    scenarios,
    with_cores_anywhere,
    with_deadline_after,
    with_equal_delays,
    with_places,
    without_dependencies,
    without_needs,
)
from gridsim.testing.clairvoyance import FORESIGHT_KINDS, foresight_violation
from gridsim.testing.coverage import Coverage
from gridsim.testing.decision_checks import false_decision, wrong_verb
from gridsim.testing.exploration import explore_orders
from gridsim.testing.failure_injection import (
    failures_at_events,
    failures_before_releases,
    failures_beside_jobs,
    failures_during_job,
    repeated_requests,
)
from gridsim.testing.introspection import (
    OwnCode,
    SideEffects,
    inspect_scheduler,
    is_limit_error,
    record_side_effects,
)
from gridsim.testing.locality import can_isolate_nodes, isolate_nodes, locality_violation
from gridsim.testing.order import promised_order_violation
from gridsim.testing.other_interpreters import INTERPRETERS, interpreter, run_in_fresh_process
from gridsim.testing.report import Conformance
from gridsim.testing.resuming import has_checkpoint_state, resume_difference
from gridsim.testing.run_limits import (
    LIMITS,
    MAX_EVENTS,
    MAX_SIMULATED_TIME,
    OTHER_FUTURE,
    SLOW_MESSAGES,
    WALL_TIME_LIMIT,
    cores_up_at_end,
    limit_wall_time,
    only_last_job,
    skip_endless,
    with_last_job,
    wrongly_rejected_job,
)
from gridsim.testing.violation import (
    ConformanceError,
    Findings,
    error_text,
    failed_run,
    save,
    shorten_traceback,
)
from gridsim.validation.results import validate_result

#: Tables that the checked run records; runs that record less must have the same digest.
RECORDED_TABLES: tuple[Recording, ...] = ("schedule", "messages")
#: Invariants of a run and its repetitions, which are checked first.
_FIRST_INVARIANTS = ("sound", "served", "messages", "closed", "repeatable", "hash seed")
#: Invariants that are checked last.
_OTHER_INVARIANTS = ("order", "cohorts", "forms", "isolated", "decisions", "resumed", "locality", "foresight")
#: Invariants that are checked on large grids, and on long queues of rigid jobs.
_GRID_INVARIANTS = ("sound", "repeatable", "hash seed", "cohorts", "order", "resumed", "locality")
_QUEUE_INVARIANTS = ("sound", "served", "repeatable", "hash seed", "cohorts", "order", "resumed", "foresight")
#: Pairs of an invariant whose violation is being shrunk, and another one whose check may also report it.
_REPORTED_BY_OTHER_RUNS = tuple(
    ("runs", invariant) for invariant in ("sound", "served", "closed", "locality", "foresight")
)
#: Number of scenarios of each kind in the first round; it doubles with each round.
_FIRST_ROUND, _MAX_ROUND = 3, 48
#: Default number of scenarios, and a number that no check reaches.
_EXAMPLES, _MANY_EXAMPLES = 100, 10**9
#: Maximum numbers of machines of a scenario whose orders of events are explored, and of such orders; minimum
#: number of such scenarios.
_EXPLORED_NODES, _EXPLORED_ORDERS, _MIN_EXPLORED = 4, 200, 6
#: Multiple of the time of a check after which a call of a handler may last only a few seconds.
OVERTIME = 2.0
#: The scenarios of each kind that the rounds of the search for new lines try.  The first
#: round is short, so that a check with little time tries all kinds of scenarios.
_SEARCHED_PER_ROUND = (2, 6, 8, 8)


def check_scheduler(
    scheduler: Scheduler | st.SearchStrategy[Scheduler],
    *,
    examples: int | None = None,
    seconds: float | None = None,
    horizon: float | None = None,
    messages_per_task: float | None = None,
    faults: bool | None = None,
    max_nodes: int = 20,
    hash_seeds: bool = True,
    explore: bool = False,
    jitter: float = 0.0,
    seed: int = 0,
    shrink: bool = True,
    folder: str | os.PathLike[str] = "gridsim-check",
    progress: Progress = False,
) -> Conformance:
    """Run `scheduler` on random scenarios and check that it keeps the invariants `INVARIANTS`.

    Parameters
    ----------
    scheduler
        The scheduler, or a Hypothesis strategy that draws it with various parameters (`parameters`).
    examples
        The number of scenarios, by default 100, or as many as fit into `seconds`.  Half of them have failures
        if the scheduler handles failures, and half have many applications, long queues and large bags.  The
        first ones are chosen so that they reach the branches of the scheduler's own code.
    seconds
        Wall time after which no further scenario is tried, s; None for no limit.  A scenario whose check is
        not finished by then does not count.  A handler that has not returned a few seconds after twice that
        time breaks the invariant "runs" (except on Windows, and outside the main thread).
    horizon
        Approximate simulated time that scenarios and their variants span, s: longer ones are compressed.  It
        makes checks of schedulers with periodic timers fast.  None for no limit.
    messages_per_task
        Maximum number of messages that a run may send for each task, including resubmissions; None for no
        limit.
    faults
        True for failures in all scenarios, False for none, None for failures in half of them if the scheduler
        handles failures.
    max_nodes
        Maximum number of machines of the random scenarios; two further ones have 27 and 40.
    hash_seeds
        Whether to run everything in two further interpreters, which must be able to import the scheduler.
    explore
        Whether to run node programs in other orders of the messages and timers that reach a node at one
        instant, on a tenth as many scenarios of at most 4 machines, in up to 200 orders each.  The report has
        the number of orders that were left.  `ConformanceError.order` has the order of a violation, which
        `run_in_order` repeats in plain Python.
    jitter
        Time by which messages and timers may be late in these orders, so that events of a node within that
        time swap places, s.
    seed
        Seed of the random scenarios; the same seed gives the same scenarios.
    shrink
        Whether to look for the smallest scenario that breaks an invariant, for up to a minute.
    folder
        The folder for the scenario that breaks an invariant; created if needed.
    progress
        Whether to show the number of scenarios so far and the share of branches reached, as in
        `gridsim.simulate`.

    Raises
    ------
    ConformanceError
        If an invariant is broken; it has the smallest scenario found, or the first one without `shrink`.
    ScenarioError
        If an argument is invalid, or other interpreters cannot import the scheduler.
    KeyboardInterrupt
        If the check is interrupted; its text is the report so far.
    """
    limit = _limit_of_examples(examples, seconds)
    integer("max_nodes", max_nodes, low=1)
    for name, value, unit in (("horizon", horizon, "s"), ("messages_per_task", messages_per_task, "")):
        if value is not None:
            real(name, value, above=0, unit=unit)
    real("jitter", jitter, low=0, unit="s")
    now, maximum = time.monotonic(), math.inf if seconds is None else seconds
    deadline, handlers_until = now + maximum, now + OVERTIME * maximum
    strategy = st.just(scheduler) if isinstance(scheduler, Scheduler) else scheduler
    if not isinstance(strategy, st.SearchStrategy):
        raise ScenarioError(
            f"scheduler must be a Scheduler object or a Hypothesis strategy of them, got {scheduler!r}"
        )
    policy, features, handles_failures, coverage = inspect_scheduler(strategy, folder, handlers_until)
    can_fail = handles_failures if faults is None else faults
    left_out = {} if can_fail else {"failures": "the scheduler does not support failures of machines"}
    if faults is False:
        left_out["failures"] = "not requested"
    if not hash_seeds:
        left_out["hash seed"] = "not requested"
    elif isinstance(scheduler, Scheduler):
        _check_importable(scheduler)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ModelWarning)  # random scenarios have odd values
        interpreters = [stack.enter_context(interpreter(s)) for s in INTERPRETERS if hash_seeds]
        trial = _ConformanceTrial(interpreters, has_checkpoint_state(policy), can_fail, coverage)
        trial.deadline, trial.handlers_until = deadline, handlers_until
        trial.messages_per_task, trial.jitter = messages_per_task, jitter
        trial.horizon = math.inf if horizon is None else horizon
        phases = (Phase.generate, Phase.target, *((Phase.shrink,) if shrink else ()))
        failing_count = limit if faults else limit // 2 if can_fail else 0
        total = limit if limit < _MANY_EXAMPLES else None
        if display := bar(progress, total, "scenarios", "check_scheduler"):
            stack.enter_context(display)
            trial.display = display
        try:
            number = 1000 * seed
            for is_search in (True, False):
                trial.is_searching = is_search
                trial.quota = {False: limit - failing_count, True: failing_count}
                for has_failures, is_crowded, count in (
                    _search_rounds(trial) if is_search else _rounds(*trial.counts_left())
                ):
                    if trial.is_over:
                        break
                    cases = scenarios(
                        max_nodes=max_nodes,
                        faults=has_failures,
                        crowded=is_crowded,
                        horizon=horizon,
                        **features,
                    )
                    _run_trial(trial, cases, strategy, hypothesis_settings(count, *phases), number)
                    number += 1
            trial.is_interrupted = trial.example_count < (limit if limit < _MANY_EXAMPLES else 1)
            if trial.is_interrupted:
                scenarios_left = (
                    f"{limit - trial.example_count} of {limit} scenarios" if total else "scenarios"
                )
                left_out[scenarios_left] = "the time was over; set seconds higher"
            if explore and (reason := _explore(trial, strategy, features, min(max_nodes, _EXPLORED_NODES))):
                left_out["orders"] = reason
            if not (features["rigid"] or trial.is_over) and (too_long := trial.check_large_bags()):
                left_out["large bags"] = too_long
            if not trial.is_over and (too_long := trial.check_large_grids(features["rigid"])):
                left_out["large grids"] = too_long
            if features["rigid"] and not trial.is_over and (too_long := trial.check_long_queues()):
                left_out["long queues"] = too_long
        except ConformanceError as error:
            error.examples = trial.examples_until_violation or trial.example_count
            error.file = save(error, os.fspath(folder))
            shorten_traceback(error)
            raise
        except KeyboardInterrupt:
            trial.is_interrupted = True
            raise KeyboardInterrupt(f"\n{_report(trial, left_out, features)}") from None
    return _report(trial, left_out, features)


def _explore(
    trial: _ConformanceTrial,
    strategy: st.SearchStrategy[Scheduler],
    features: dict[str, Any],
    max_nodes: int,
) -> str:
    """Explore orders of events in small scenarios; return what was not explored, or ""."""
    if not isinstance(trial.scheduler, ProgramScheduler) or "interpreted" not in trial.scheduler.node_forms:
        return "the scheduler has no node programs"
    trial.is_exploring = True
    kinds = (False, True) if trial.can_fail else (False,)
    count = max(_MIN_EXPLORED, trial.example_count // 10) // len(kinds)
    for number, has_failures in enumerate(kinds):
        cases = scenarios(max_nodes=max_nodes, faults=has_failures, horizon=trial.horizon, **features)
        settings_of_kind = hypothesis_settings(count, Phase.generate, Phase.shrink)
        _run_trial(trial, cases.map(with_equal_delays), strategy, settings_of_kind, number)
    trial.is_exploring = False
    if not trial.left_order_count:
        return ""
    known_count = trial.run_order_count + trial.left_order_count
    return f"{trial.left_order_count} of {known_count} known orders of events were not run"


def _limit_of_examples(examples: int | None, seconds: float | None) -> int:
    """Return the number of scenarios; a large number if only the time is limited."""
    if seconds is not None:
        real("seconds", seconds, above=0, unit="s")
    if examples is None:
        return _EXAMPLES if seconds is None else _MANY_EXAMPLES
    return integer("examples", examples, low=1)


def _report(trial: _ConformanceTrial, left_out: dict[str, str], features: dict[str, Any]) -> Conformance:
    """Return the report on the scenarios that a trial has tried."""
    if not trial.has_locality:
        left_out["locality"] = "the scheduler is not declared to be informed by messages only"
    elif trial.speeds_known:
        left_out["locality of speeds"] = "the scheduler declares that speeds are known when the run begins"
    for invariant, counts in trial.endless.items():
        if counts:
            left_out[f"{invariant} of some scenarios"] = "; ".join(
                f"{count} do not end within {MAX_EVENTS:,} events if {variant}"
                for variant, count in counts.items()
            )
    if "failures" not in left_out and not trial.failing_count:
        left_out["failures"] = (
            "no scenario with failures was tried in the time; set seconds or examples higher"
        )
    if features["rigid"] and not trial.has_service_check:
        left_out["served"] = (
            "the scheduler declares that it may reject jobs (Scheduler.may_reject), except after all others"
        )
    for kind in sorted(trial.foresight_kinds):
        left_out[f"foresight of {kind}"] = "the scheduler declares that it foresees them (Scheduler.foresees)"
    if not trial.has_checkpoint_state:
        left_out["resumed"] = "the scheduler does not declare its state (Policy.STATE)"
    if not trial.has_order_check:
        left_out["order"] = "the scheduler promises no order (Scheduler.promised_order)"
    if not trial.has_decisions:
        left_out["decisions"] = "the scheduler does not record decisions (Scheduler.decision_words)"
    return Conformance(
        trial.name or "the scheduler",
        trial.example_count,
        trial.failing_count,
        left_out,
        trial.not_compiled,
        tuple(trial.coverage.unreached_branches()),
        trial.is_interrupted,
    )


def _search_rounds(trial: _ConformanceTrial) -> Iterator[tuple[bool, bool, int]]:
    """Iterate over blocks of scenarios, as `_rounds`, until all branches are reached, or for some rounds."""
    for count in _SEARCHED_PER_ROUND:
        if not trial.coverage.can_record or not trial.coverage.unreached_count():
            return
        for is_crowded in (False, True):
            for has_failures in (False, True):
                if trial.quota[has_failures] > 0:
                    yield has_failures, is_crowded, count


def _rounds(calm_count: int, failing_count: int) -> Iterator[tuple[bool, bool, int]]:
    """Iterate over blocks of scenarios: with failures or not, crowded or not, and the number of scenarios.

    The kinds alternate, so that a fault that occurs in only one kind is found early.  Crowded scenarios come
    last, since the check of one may take many seconds.
    """
    scenarios_left = {
        (has_failures, is_crowded): count // 2 if is_crowded else count - count // 2
        for is_crowded in (False, True)
        for has_failures, count in ((False, calm_count), (True, failing_count))
    }
    size = _FIRST_ROUND
    while any(scenarios_left.values()):
        for (has_failures, is_crowded), count in scenarios_left.items():
            if count:
                yield has_failures, is_crowded, min(size, count)
            scenarios_left[has_failures, is_crowded] = max(0, count - size)
        size = min(2 * size, _MAX_ROUND)


def hypothesis_settings(count: int, *phases: Phase) -> settings:
    """Return settings of Hypothesis for `count` cases, which report the first failing case only."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        report_multiple_bugs=False,
        print_blob=False,
    )


def _run_trial(
    trial: _ConformanceTrial,
    cases: st.SearchStrategy[Scenario],
    schedulers: st.SearchStrategy[Scheduler],
    run_settings: settings,
    seed: int,
) -> None:
    """Run `trial` on random cases; Hypothesis may shrink a case that breaks an invariant."""

    @with_seed(seed)
    @run_settings
    @given(cases, schedulers)
    def attempt(scenario: Scenario, scheduler: Scheduler) -> None:
        trial(scenario, scheduler)
        if not trial.is_over:
            target(float(len(trial.coverage.lines_run)), label="lines of the scheduler that were reached")

    try:
        attempt()
    except Flaky as error:
        if trial.findings.first is None:
            raise
        raise trial.findings.unrepeated_violation("repeatable") from error


class _ConformanceTrial:
    """Check of all invariants, on one scenario per call, with counts for the report."""

    def __init__(
        self,
        interpreters: list[ProcessPoolExecutor],
        has_checkpoint_state: bool,
        can_fail: bool,
        coverage: Coverage,
    ) -> None:
        self.interpreters, self.has_checkpoint_state = interpreters, has_checkpoint_state
        #: Whether the scheduler handles failures.
        self.can_fail = can_fail
        self.coverage = coverage
        #: The scheduler of the last call.
        self.scheduler: Scheduler | None = None
        self.findings = Findings()
        self.example_count = self.failing_count = self.examples_until_violation = 0
        self.has_locality = self.has_order_check = self.has_decisions = False
        self.speeds_known = self.can_isolate = self.has_service_check = False
        self.own_code: OwnCode | None = None
        #: Invariant -> variant of a scenario -> number of scenarios whose variant reached a limit.
        self.endless = {"locality": Counter[str](), "foresight": Counter[str]()}
        self.side_effects = SideEffects()
        self.name = ""
        #: Parts of the future that the schedulers of all calls declare to foresee.
        self.foresight_kinds: set[str] = {*FORESIGHT_KINDS}
        #: Reason why the nodes cannot be compiled; "" if they can.
        self.not_compiled = ""
        #: Time (of `time.monotonic`) after which no scenario is tried.
        self.deadline = math.inf
        #: Time from which on a call of a handler may last only a few seconds.
        self.handlers_until = math.inf
        self.is_interrupted = False
        self.messages_per_task: float | None = None
        #: Approximate time (s) that runs may span.
        self.horizon = math.inf
        #: Whether only scenarios that reach new lines are checked.
        self.is_searching = False
        #: Has failures -> the largest number of scenarios to check, and the number checked.
        self.quota: dict[bool, int] = {}
        self.checked_counts = {False: 0, True: 0}
        self.display: Bar | None = None
        #: Whether calls explore orders of events, and the time by which events may be late, s; the numbers of
        #: orders that were run, and that were left.
        self.is_exploring, self.jitter = False, 0.0
        self.run_order_count = self.left_order_count = 0

    @property
    def is_over(self) -> bool:
        """Whether the time is over; a violation is shrunk nevertheless."""
        return time.monotonic() > self.deadline and self.findings.first is None

    def counts_left(self) -> tuple[int, int]:
        """Return the number of scenarios still to be checked, without failures and with failures."""
        calm, failing = (max(0, self.quota[key] - self.checked_counts[key]) for key in (False, True))
        return calm, failing

    def __call__(self, scenario: Scenario, scheduler: Scheduler) -> None:
        if self.is_over or self.findings.is_shrinking_over(scenario, scheduler):
            return
        self.name, self.scheduler = scheduler.name, scheduler
        is_search = self.is_searching and self.findings.first is None and not self.is_exploring
        if is_search and not self.reaches_new_lines(scenario, scheduler):
            return
        try:
            if self.is_exploring:
                self.explore(_drop_unsupported_features(scenario, scheduler), scheduler)
            else:
                self.check_all(scenario, scheduler)
        except ConformanceError as error:
            self.examples_until_violation = self.examples_until_violation or self.example_count
            self.findings.add(error, scenario, scheduler)
            raise

    def reaches_new_lines(self, scenario: Scenario, scheduler: Scheduler) -> bool:
        """Run a scenario; return whether it reaches lines that no earlier one has, and may be checked."""
        has_failures = scenario.faults is not None
        if self.checked_counts[has_failures] >= self.quota[has_failures]:
            return False
        lines = len(self.coverage.lines_run)
        form = "interpreted" if _runs_compiled(scheduler) else None
        try:
            with limit_wall_time(WALL_TIME_LIMIT, self.handlers_until), self.coverage.recording():
                simulate(_drop_unsupported_features(scenario, scheduler), scheduler, nodes=form, **LIMITS)
        except (Exception, SystemExit):
            return True  # the check reports the error
        return len(self.coverage.lines_run) > lines

    def count(self, scenario: Scenario, change: int) -> None:
        """Add `change` to the number of scenarios that were tried."""
        has_failures = scenario.faults is not None
        self.checked_counts[has_failures] += change
        self.example_count += change
        self.failing_count += change * has_failures

    def check_all(self, scenario: Scenario, scheduler: Scheduler) -> None:
        """Check all invariants on one scenario."""
        scenario = _drop_unsupported_features(scenario, scheduler)
        self.count(scenario, 1)
        if self.display is not None:
            self.display.move(self.example_count, self.coverage.reached_text)
        if self.interpreters:
            _check_importable(scheduler)
        # while a violation is being shrunk, only its invariant is checked
        shrinking = self.findings.invariant
        if self.own_code is None:  # must precede the threads that import the scheduler's class to pickle it
            self.own_code, self.can_isolate = OwnCode(scheduler), can_isolate_nodes(scheduler)
        is_run_elsewhere = shrinking in (None, "hash seed")
        outcomes = self.run_elsewhere(scenario, scheduler, LIMITS) if is_run_elsewhere else []
        result = self.run(scenario, scheduler)
        # hidden state and randomness also break other invariants, so they are checked first
        for invariant in (*_FIRST_INVARIANTS, *_OTHER_INVARIANTS):
            if shrinking not in (None, invariant) and (shrinking, invariant) not in _REPORTED_BY_OTHER_RUNS:
                continue
            if self.is_over:
                self.count(scenario, -1)
                return
            if invariant == "hash seed":
                self.check_hash_seed([process.result() for process in outcomes], result, scenario, scheduler)
            else:
                self.check_invariant(invariant, result, scenario, scheduler)

    def explore(self, scenario: Scenario, scheduler: Scheduler) -> None:
        """Run the nodes in other orders of the events of one instant."""
        with limit_wall_time(10 * WALL_TIME_LIMIT, self.handlers_until):
            run_count, left_count = explore_orders(scenario, scheduler, _EXPLORED_ORDERS, self.jitter)
        self.run_order_count += run_count
        self.left_order_count += left_count

    def check_large_bags(self) -> str:
        """Check more than 2**16 tasks; return the reason why a scenario was not checked, or ""."""
        return max(self._check_large(scenario, "sound") for scenario in large_bags())

    def check_large_grids(self, rigid: bool) -> str:
        """Check grids of many machines; return the reason why one was not checked, or ""."""
        endless, self.endless = self.endless, {name: Counter[str]() for name in self.endless}
        grids = [compress(scenario, self.horizon) for scenario in large_grids(rigid)]
        reasons = [self._check_large(scenario, *_GRID_INVARIANTS) for scenario in grids]
        variants = sorted({*self.endless["locality"]})
        self.endless = endless
        reasons += [f"they do not end within {MAX_EVENTS:,} events if {variant}" for variant in variants]
        return max(reasons)

    def check_long_queues(self) -> str:
        """Check long queues of rigid jobs; return the reason why one was not checked, or ""."""
        assert self.scheduler is not None
        cases = long_queues(shares=self.scheduler.cores is True)
        queues = [compress(scenario, self.horizon) for scenario in cases]
        return max(self._check_large(scenario, *_QUEUE_INVARIANTS) for scenario in queues)

    def _check_large(self, scenario: Scenario, *invariants: str) -> str:
        """Check invariants of a large scenario; return the reason why they were not checked, or ""."""
        scheduler = self.scheduler
        limits = {**LIMITS, "events_limit": 5 * MAX_EVENTS}  # a few events per task
        assert scheduler is not None
        if scheduler.rigid and scheduler.constraints and scenario.platform.attributes is None:
            scenario = with_places(scenario)
        try:
            result = self.simulate_variant(scenario, scheduler, record=RECORDED_TABLES, **limits)
        except ConformanceError as error:
            if is_limit_error(error):
                return "its run has too many events"
            raise
        has_few_events = result.provenance["events"] <= MAX_EVENTS
        for invariant in invariants:
            if invariant == "hash seed":
                outcomes = self.run_elsewhere(scenario, scheduler, limits)
                self.check_hash_seed([outcome.result() for outcome in outcomes], result, scenario, scheduler)
            elif has_few_events or invariant in ("sound", "locality"):
                self.check_invariant(invariant, result, scenario, scheduler)
        return ""

    def run_elsewhere(
        self, scenario: Scenario, scheduler: Scheduler, limits: dict[str, Any]
    ) -> list[Future[Result | str]]:
        """Begin a run in each of the other interpreters."""
        limits = {**limits, "wall_time": (WALL_TIME_LIMIT, self.handlers_until)}
        text = scenario.to_toml()
        return [
            process.submit(run_in_fresh_process, text, scheduler, limits) for process in self.interpreters
        ]

    def simulate_variant(self, scenario: Scenario, scheduler: Scheduler, **options: Any) -> Result:
        """Run a variant of the random scenario; an error breaks the invariant "runs"."""
        try:
            with limit_wall_time(WALL_TIME_LIMIT, self.handlers_until):
                return simulate(scenario, scheduler, **options)
        except (Exception, SystemExit) as error:
            raise failed_run(error, scenario, scheduler) from error

    def check_invariant(
        self, invariant: str, result: Result, scenario: Scenario, scheduler: Scheduler
    ) -> None:
        """Check one invariant; an error in one of the runs of the check also breaks it."""
        try:
            with limit_wall_time(
                10 * WALL_TIME_LIMIT, self.handlers_until
            ):  # these checks take many runs and a compilation
                getattr(self, f"check_{invariant}")(result, scenario, scheduler)
        except ConformanceError:
            raise
        except (Exception, SystemExit) as error:
            raise ConformanceError(invariant, error_text(error), scenario, scheduler) from error

    def run(self, scenario: Scenario, scheduler: Scheduler) -> Result:
        assert self.own_code is not None
        try:
            with (
                limit_wall_time(WALL_TIME_LIMIT, self.handlers_until),
                self.coverage.recording(),
                record_side_effects(self.own_code) as self.side_effects,
            ):
                return simulate(scenario, scheduler, record=RECORDED_TABLES, **LIMITS)
        except (Exception, SystemExit) as error:
            raise failed_run(error, scenario, scheduler) from error

    def check_sound(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if violations := validate_result(result):
            raise ConformanceError("sound", "; ".join(map(str, violations)), scenario, scheduler)
        if scenario.faults is None:
            return
        for scenario_with_failure in (
            *failures_at_events(result, self.horizon),
            *failures_during_job(result),
            *failures_beside_jobs(result),
            *failures_before_releases(result),
            *repeated_requests(result),
        ):
            result_with_failure = self.simulate_variant(
                scenario_with_failure, scheduler, record=RECORDED_TABLES, **LIMITS
            )
            if violations := validate_result(result_with_failure):
                raise ConformanceError(
                    "sound", "; ".join(map(str, violations)), scenario_with_failure, scheduler
                )

    def check_served(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not scheduler.rigid:
            return
        if scheduler.may_reject:
            if scheduler.decentralized:  # a center may reject any job, and has no claims to lose
                self.check_last_job(result, scheduler)
            return
        self.has_service_check = True
        if rejection := wrongly_rejected_job(result, scheduler.promised_order):
            raise ConformanceError("served", rejection, scenario, scheduler)
        if (longer := with_last_job(result)) is not None:
            longer_result = self.simulate_variant(longer, scheduler, **LIMITS)
            if rejection := wrongly_rejected_job(longer_result, scheduler.promised_order):
                raise ConformanceError("served", rejection, longer, scheduler)
        if "deadline" in scheduler.job_times and scenario.faults is None:
            self.check_last_start(scenario, scheduler)

    def check_last_job(self, result: Result, scheduler: Scheduler) -> None:
        """Check that an idle system runs the widest job that it runs if there has been no job before.

        A scheduler that may reject jobs may, for example, know too few machines for wider ones.
        """
        width, widest = 0, cores_up_at_end(result.scenario)
        tasks = widest
        try:
            while width < widest and (longer := with_last_job(result, tasks)) is not None:
                if self.rejects_last_job(only_last_job(longer), scheduler):
                    widest = tasks - 1
                else:
                    width = tasks
                tasks = (width + widest + 1) // 2
            longer = with_last_job(result, width) if width else None
            if longer is None or not self.rejects_last_job(longer, scheduler):
                return
        except ConformanceError as error:
            if is_limit_error(error):  # of a longer run than that of the scenario
                return
            raise
        text = f"job {len(result.applications)}, of {width} tasks, was rejected after all others had ended"
        text += ", although it is run if there has been no job before"
        raise ConformanceError("served", text, longer, scheduler)

    def rejects_last_job(self, scenario: Scenario, scheduler: Scheduler) -> bool:
        result = self.simulate_variant(scenario, scheduler, **LIMITS)
        return bool(result.applications["failed"][-1])

    def check_last_start(self, scenario: Scenario, scheduler: Scheduler) -> None:
        """Check that a job alone is run if its deadline is exactly what it needs."""
        alone = job_alone(scenario)
        if alone is None:
            return
        start = self.simulate_variant(alone, scheduler, **LIMITS).applications["first_start"][0]
        urgent = with_deadline_after(alone, float(start))
        if self.simulate_variant(urgent, scheduler, **LIMITS).applications["failed"][0]:
            text = f"a job alone was rejected, although its deadline allows the start at {start} s"
            raise ConformanceError("served", f"{text} that it has without the deadline", urgent, scheduler)

    def check_messages(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if (limit := self.messages_per_task) is None:
            return
        sent = int(result.messages["sent"].sum())
        applications = result.applications
        resubmitted = applications["resubmitted"].sum() if "resubmitted" in applications else 0
        tasks = int(applications["tasks"].sum() + resubmitted)
        if sent > limit * tasks:
            text = f"{sent} messages for {tasks} tasks, but messages_per_task = {limit:g}"
            raise ConformanceError("messages", text, scenario, scheduler)

    def check_closed(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        assert self.own_code is not None
        for action in self.side_effects.actions:
            raise ConformanceError("closed", action, scenario, scheduler)
        if not self.side_effects.seeds:
            return
        other_scenario = dataclasses.replace(scenario, seed=scenario.seed + 1)
        with record_side_effects(self.own_code) as other_effects:
            self.simulate_variant(other_scenario, scheduler, **LIMITS)
        for call in sorted(self.side_effects.seeds.keys() & other_effects.seeds.keys())[:1]:
            function = self.side_effects.seeds[call]
            text = (
                f"{function} calls {call}, whatever the seed of the scenario; use a random stream of the run"
            )
            raise ConformanceError("closed", text, scenario, scheduler)

    def check_order(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if scheduler.promised_order not in get_args(Order):
            text = (
                f"Scheduler.promised_order must be one of {get_args(Order)}, got {scheduler.promised_order!r}"
            )
            raise ConformanceError("order", text, scenario, scheduler)
        # with links, the tables do not show when machines take tasks from their queues
        has_links = scenario.platform.bandwidth is not None
        # owners interrupt tasks, which continue later
        has_owners = scenario.faults is not None and scenario.faults.reachable
        if scheduler.promised_order is None or has_links or has_owners:
            return
        self.has_order_check = True
        has_nodes, foresees_run_times = (
            isinstance(scheduler, ProgramScheduler),
            "run times" in scheduler.foresees,
        )
        if violation := promised_order_violation(
            result, scheduler.promised_order, has_nodes, foresees_run_times
        ):
            raise ConformanceError("order", violation, scenario, scheduler)

    def check_repeatable(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        for number, variant, options in (
            (2, "", {"record": False}),
            (3, ", with 2 threads,", {"threads": 2}),
        ):
            blocks = _fragment_memory(number)
            repeated = simulate(scenario, scheduler, **options, **LIMITS)
            del blocks
            if repeated.digest != result.digest:
                text = f"run {number}{variant} differs from run 1: {_first_difference(result, repeated)}"
                raise ConformanceError("repeatable", text, scenario, scheduler)

    def check_cohorts(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        for limit in (1, 3):
            cut_result = simulate(scenario, scheduler, record=True, cohort_limit=limit, **LIMITS)
            if cut_result.digest != result.digest:
                text = f"cohorts of at most {limit}: {_first_difference(result, cut_result)}"
                raise ConformanceError("cohorts", text, scenario, scheduler)

    def check_forms(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        forms = forms_for(scenario, scheduler)
        for form in forms if len(forms) > 1 else ():
            if form == "compiled" and self.not_compiled:
                continue
            is_recording = form == "interpreted" and _runs_compiled(scheduler)
            try:
                with self.coverage.recording() if is_recording else nullcontext():
                    form_result = simulate(scenario, scheduler, record=RECORDED_TABLES, nodes=form, **LIMITS)
            except (ImportError, CompileError) as error:
                self.not_compiled = text_of(error)
                continue
            except SchedulerError as error:
                if "events_limit" in str(error):
                    continue  # one event in one form may be many in the other
                raise
            if form_result.digest != result.digest:
                raise ConformanceError(
                    "forms", f"{form}: {_first_difference(result, form_result)}", scenario, scheduler
                )
            if not self.has_checkpoint_state or form in (scheduler.node_forms[0], "python"):
                continue  # `check_resumed` checks the first form; a resumed run in Python takes long
            # interpreted and compiled nodes may record rows in different orders
            if difference := resume_difference(
                scenario, scheduler, form_result, MAX_SIMULATED_TIME, RECORDED_TABLES, form
            ):
                raise ConformanceError("forms", f"{form}: {difference}", scenario, scheduler)

    def check_isolated(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not self.can_isolate:
            return
        try:
            with isolate_nodes(scheduler):
                isolated_result = simulate(scenario, scheduler, nodes="interpreted", **LIMITS)
        except Exception as error:
            text = f"nodes that share no variables raise an error: {error_text(error)}"
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text += f", in {frame.name}, {frame.filename}:{frame.lineno}"
            raise ConformanceError("isolated", text, scenario, scheduler) from error
        if isolated_result.digest != result.digest:
            raise ConformanceError(
                "isolated", _first_difference(result, isolated_result), scenario, scheduler
            )

    def check_decisions(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if wrong_text := wrong_verb(scheduler):
            raise ConformanceError("decisions", wrong_text, scenario, scheduler)
        if not scheduler.decision_words:
            return
        self.has_decisions = True
        record: Record = (*RECORDED_TABLES, "decisions")
        with self.coverage.recording():  # some code runs only if decisions are recorded
            decided_result = simulate(scenario, scheduler, record=record, **LIMITS)
            if _runs_compiled(scheduler):
                simulate(scenario, scheduler, record=record, nodes="interpreted", **LIMITS)
        if decided_result.digest != result.digest:
            raise ConformanceError(
                "decisions", _first_difference(result, decided_result), scenario, scheduler
            )
        table, applications = decided_result.tables["decisions"], decided_result.applications
        last_decision = np.full(len(applications), -np.inf)
        np.maximum.at(last_decision, table["application"], table["time"])
        without_decision = np.flatnonzero(
            (last_decision < applications["release"]) & ~np.isnan(applications["finish"])
        )
        if len(without_decision):
            text = (
                f"application {without_decision[0]} was completed, but no decision about it was recorded "
                "since its release"
            )
            raise ConformanceError("decisions", text, scenario, scheduler)
        if false_text := false_decision(decided_result, scheduler):
            raise ConformanceError("decisions", false_text, scenario, scheduler)

    def check_resumed(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not self.has_checkpoint_state:
            return
        record: Record = (*RECORDED_TABLES, "decisions") if scheduler.decision_words else RECORDED_TABLES
        if difference := resume_difference(scenario, scheduler, result, MAX_SIMULATED_TIME, record):
            raise ConformanceError("resumed", difference, scenario, scheduler)

    def check_hash_seed(
        self, outcomes: list[Result | str], result: Result, scenario: Scenario, scheduler: Scheduler
    ) -> None:
        for (hash_seed, offset), outcome in zip(INTERPRETERS.items(), outcomes, strict=False):
            if isinstance(outcome, str) or outcome.digest != result.digest:
                difference = outcome if isinstance(outcome, str) else _first_difference(result, outcome)
                settings_text = f"with PYTHONHASHSEED={hash_seed}, a clock {timedelta(seconds=offset)} ahead"
                text = f"in a fresh process {settings_text} and another environment: {difference}"
                raise ConformanceError("hash seed", text, scenario, scheduler)

    def check_locality(self, _: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not (scheduler.informed_by_messages or _is_informed_by_board(scheduler)):
            return
        self.has_locality, self.speeds_known = True, scheduler.speeds_known
        # a scheduler whose timeouts are shorter than messages take may repeat its requests forever
        with self.skip_endless_runs("locality", SLOW_MESSAGES) as skipped_variants:
            options = scenario, scheduler, self.can_fail, self.horizon, skipped_variants
            if not (difference := locality_violation(*options)):
                return
            if (repeated := locality_violation(*options)) != difference:
                text = (
                    f"machines act differently in repeated runs: once {difference}, another time {repeated}"
                )
                raise ConformanceError("repeatable", text, scenario, scheduler)
            raise ConformanceError("locality", difference, scenario, scheduler)

    def check_foresight(self, _: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if unknown := sorted({*scheduler.foresees} - {*FORESIGHT_KINDS}):
            text = f"Scheduler.foresees must contain only {FORESIGHT_KINDS}, got {unknown[0]!r}"
            raise ConformanceError("foresight", text, scenario, scheduler)
        self.foresight_kinds &= {*scheduler.foresees}
        with self.skip_endless_runs("foresight", OTHER_FUTURE) as skipped_variants:
            if violation := foresight_violation(scenario, scheduler, self.horizon, skipped_variants):
                raise ConformanceError("foresight", violation, scenario, scheduler)

    @contextmanager
    def skip_endless_runs(self, invariant: str, variant: str) -> Iterator[set[str]]:
        """Count the scenario in `endless`, once for each variant whose run in the context reaches a limit."""
        skipped_variants = set[str]()
        try:
            with skip_endless(skipped_variants, variant):
                yield skipped_variants
        finally:
            self.endless[invariant].update(skipped_variants)


def forms_for(scenario: Scenario, scheduler: Scheduler) -> tuple[NodeForm, ...]:
    """Return the forms in which nodes can run the scenario.

    If tasks move data, or need memory or disk, nodes are not compiled.
    """
    recipe, platform = scenario.workload.recipe, scenario.platform
    needs_capacity = isinstance(recipe, ListRecipe) and (recipe.memory is not None or recipe.disk is not None)
    interpreted_only = platform.bandwidth is not None or needs_capacity
    forms = ("interpreted",) if interpreted_only and len(scheduler.node_forms) > 1 else scheduler.node_forms
    return (*forms, "python") if "interpreted" in forms else forms


def _is_informed_by_board(scheduler: Scheduler) -> bool:
    """Return whether nodes know of others only by messages and a board, as they do unless a class differs."""
    inherited: Any = BoardScheduler.informed_by_messages
    return isinstance(scheduler, BoardScheduler) and type(scheduler).informed_by_messages is inherited


def _drop_unsupported_features(scenario: Scenario, scheduler: Scheduler) -> Scenario:
    """Return the scenario without the features that the scheduler does not support with its parameters."""
    if not scheduler.moves_data:
        scenario = dataclasses.replace(scenario, platform=scenario.platform.unlinked())
    if not scheduler.dependencies:
        scenario = without_dependencies(scenario)
    if scheduler.cores is not True:
        scenario = with_cores_anywhere(scenario)
    return scenario if has_supported_needs(scenario, scheduler) else without_needs(scenario)


def _runs_compiled(scheduler: Scheduler) -> bool:
    """Return whether nodes run as machine code by default, so that coverage does not see their lines."""
    return "interpreted" in scheduler.node_forms[1:]


def _first_difference(a: Result, b: Result) -> str:
    from gridsim.results.diff import first_difference

    return first_difference(a, b) or "the facts differ"


def _fragment_memory(number: int) -> list[bytes]:
    """Permute the allocator's free list, so that new objects are not in the order of their ids."""
    blocks = [bytes(size) for size in range(16, 480, 16) for _ in range(64)]
    step = (601, 1201, 1597)[number % 3]  # has no divisor in common with the number of blocks
    return [blocks[k * step % len(blocks)] for k in range(len(blocks))][::2]


def _check_importable(scheduler: Scheduler) -> None:
    try:
        pickle.dumps(scheduler)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ScenarioError(
            f"scheduler must be importable by other interpreters if hash_seeds is true, got "
            f"{type(scheduler).__qualname__} of {type(scheduler).__module__}: {error}"
        ) from error
