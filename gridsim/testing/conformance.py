"""check_scheduler(): checks that a scheduler keeps the invariants of every credible scheduler.

It works like scikit-learn's ``check_estimator``: it runs the scheduler on random small grids with many
coincidences, and checks every invariant on each.  A scenario that breaks one is shrunk and saved, to be run.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from gridsim.errors import CompileError, ScenarioError, SchedulerError, text_of
from gridsim.model.bag_workloads import ListRecipe
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.scheduling.contract import NodeForm, Order, Scheduler
from gridsim.simulation.simulate import Record, Recording
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.arguments import whole
from gridsim.testing.cases import large_bag, scenarios, without_needs
from gridsim.testing.clairvoyance import FORESEEN, foreknown
from gridsim.testing.coverage import Reached
from gridsim.testing.decision_checks import false_decision
from gridsim.testing.failure_injection import asked_anew, cut_off, struck
from gridsim.testing.introspection import Own, Watched, policy_of, watching
from gridsim.testing.locality import can_be_isolated, differing_decision, isolated
from gridsim.testing.order import broken_promise
from gridsim.testing.other_interpreters import INTERPRETERS, afresh, interpreter
from gridsim.testing.resuming import differing_end, keeps_state
from gridsim.testing.run_limits import LIMITS, LONGEST, MOST_EVENTS, PATIENCE, patience, unserved
from gridsim.testing.violation import ConformanceError, error_text, save
from gridsim.validation.results import validate_result

#: s of wall time in which a smaller scenario is looked for.
SHRINKING = 60.0
#: What the checked run records; further runs, which record less, must have the same digest.
RECORDED: tuple[Recording, ...] = ("schedule", "messages")
#: Invariants that are checked after those of a single run, and of the same run again.
_FURTHER = ("order", "cohorts", "forms", "isolated", "decisions", "resumed", "locality", "foresight")
#: What may break "runs" in further runs: it is checked again, too, where only "runs" matters.
_IN_FURTHER_RUNS = (("runs", "sound"), ("runs", "closed"))
#: Scenarios of each kind in the first round; each further round has twice as many.
_FIRST_ROUND = 3


@dataclass(frozen=True)
class Conformance:
    """The report on a scheduler that kept all invariants.

    Parameters
    ----------
    scheduler
        Its name.
    examples, with_failures
        The number of scenarios tried, and how many of them had failures.
    left_out
        Invariant -> why it was not checked.
    not_compiled
        Why the nodes run interpreted only, "" if they do not.
    never_reached
        Handlers and branches of the scheduler's code that no scenario reached; of nodes that run compiled, in
        their interpreted form.  Empty where a debugger or a measurement of coverage is active.
    """

    scheduler: str
    examples: int
    with_failures: int
    left_out: dict[str, str]
    not_compiled: str = ""
    never_reached: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.scheduler}: {self.examples} scenarios, {self.with_failures} with failures, no violations"
        ]
        if self.not_compiled:
            lines.append(f"not compiled: {self.not_compiled}")
        lines += [f"never reached: {what}" for what in self.never_reached]
        return "\n".join([*lines, *(f"left out: {law}, {why}" for law, why in self.left_out.items())])


def check_scheduler(
    scheduler: Scheduler | st.SearchStrategy[Scheduler],
    *,
    examples: int = 100,
    faults: bool | None = None,
    max_nodes: int = 20,
    hash_seeds: bool = True,
    seed: int = 0,
    shrink: bool = True,
    folder: str | os.PathLike[str] = "gridsim-check",
) -> Conformance:
    """Run `scheduler` on random scenarios and check that it keeps the invariants `LAWS`.

    Raises ConformanceError with the smallest scenario found that breaks an invariant, or the first one, and
    ScenarioError for invalid arguments or a class that other interpreters cannot import.

    Parameters
    ----------
    scheduler
        The scheduler, or a Hypothesis strategy that draws it with various parameters.
    examples
        The number of scenarios; half of them have failures, if the scheduler handles these, and a half have
        many applications, long queues and large bags.
    faults
        True for failures in all scenarios, False for none; None: in half, if the scheduler handles them.
    max_nodes
        The most machines.
    hash_seeds
        Whether to run everything in two further interpreters, which must be able to import the scheduler.
    seed
        Seed of the random scenarios; the same seed gives the same scenarios.
    shrink
        Whether to look for the smallest scenario that breaks an invariant, for up to a minute.
    folder
        The folder for the scenario that breaks an invariant; created when needed.
    """
    whole("examples", examples, low=1)
    whole("max_nodes", max_nodes, low=1)
    strategy = st.just(scheduler) if isinstance(scheduler, Scheduler) else scheduler
    if not isinstance(strategy, st.SearchStrategy):
        raise ScenarioError(f"scheduler must be a Scheduler object or a strategy of such, got {scheduler!r}")
    policy, kind, knows, reached = policy_of(strategy, folder)
    able = knows if faults is None else faults
    left_out = {} if able else {"failures": "the scheduler does not say what it does when machines fail"}
    if faults is False:
        left_out["failures"] = "not asked for"
    if not hash_seeds:
        left_out["hash seed"] = "not asked for"
    with ExitStack() as stack:
        interpreters = [stack.enter_context(interpreter(s)) for s in INTERPRETERS if hash_seeds]
        trial = _Trial(interpreters, keeps_state(policy), able, reached)
        phases = (Phase.generate, Phase.target, *((Phase.shrink,) if shrink else ()))
        failing = examples if faults else examples // 2 if able else 0
        try:
            for number, (fails, crowded, some) in enumerate(_rounds(examples - failing, failing)):
                cases = scenarios(max_nodes=max_nodes, faults=fails, crowded=crowded, **kind)
                _attempt(trial, cases, strategy, drawing(some, *phases), 1000 * seed + number)
            if too_long := not kind["rigid"] and trial.large_bag():
                left_out["a large bag"] = too_long
        except ConformanceError as error:
            error.examples = trial.found_after or trial.tried
            error.file = save(error, os.fspath(folder))
            raise
    if not trial.local:
        left_out["locality"] = "the scheduler does not say that only messages tell its machines of others"
    elif trial.speeds_known:
        left_out["locality of speeds"] = "the scheduler says that they are known when the run begins"
    if trial.endlessly:
        left_out["locality of some scenarios"] = "with messages that take minutes they do not end"
    if kind["rigid"] and not trial.serves:
        left_out["served"] = "the scheduler says that it may reject jobs (Scheduler.may_reject)"
    for what in sorted(trial.foreseen):
        left_out[f"foresight of {what}"] = "the scheduler says that it foresees them"
    if not trial.keeps_state:
        left_out["resumed"] = "the scheduler does not say what of it changes (Policy.STATE)"
    if not trial.ordered:
        left_out["order"] = "the scheduler promises none"
    if not trial.noted:
        left_out["decisions"] = "the scheduler does not say what it decides (Scheduler.decision_words)"
    missed = tuple(reached.missed())
    return Conformance(trial.name, trial.tried, trial.failing, left_out, trial.not_compiled, missed)


def _rounds(calm: int, failing: int) -> Iterator[tuple[bool, bool, int]]:
    """Iterate over blocks of scenarios: whether machines fail, whether they are crowded, how many there are.

    All kinds take turns, so that a fault is found soon whichever kind shows it.
    """
    left = {
        (fails, crowded): count // 2 if crowded else count - count // 2
        for fails, count in ((False, calm), (True, failing))
        for crowded in (False, True)
    }
    size = _FIRST_ROUND
    while any(left.values()):
        for (fails, crowded), count in left.items():
            if count:
                yield fails, crowded, min(size, count)
            left[fails, crowded] = max(0, count - size)
        size *= 2


def drawing(count: int, *phases: Phase) -> settings:
    """Return settings of Hypothesis for `count` cases, of which the first that fails is the only one."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        report_multiple_bugs=False,
        print_blob=False,
    )


def _attempt(
    trial: _Trial,
    cases: st.SearchStrategy[Scenario],
    schedulers: st.SearchStrategy[Scheduler],
    drawn: settings,
    seed: int,
) -> None:
    """Run `trial` on drawn cases; Hypothesis may shrink one that breaks an invariant."""

    @seeded(seed)
    @drawn
    @given(cases, schedulers)
    def attempt(scenario: Scenario, scheduler: Scheduler) -> None:
        trial(scenario, scheduler)
        target(float(len(trial.reached.seen)), label="lines of the scheduler that were reached")

    try:
        attempt()
    except Flaky as error:
        if trial.findings.first is None:
            raise
        raise trial.findings.not_repeated("repeatable") from error


class Findings:
    """The violations that were found, the smallest of which is looked for during `SHRINKING` s."""

    def __init__(self) -> None:
        #: With the scenario and the scheduler that were drawn: what was run may differ from these.
        self._found: list[tuple[ConformanceError, Scenario, Scheduler]] = []
        self._until = math.inf

    @property
    def first(self) -> ConformanceError | None:
        """The first violation; a nondeterministic scheduler may never repeat it."""
        return self._found[0][0] if self._found else None

    @property
    def law(self) -> str | None:
        """The invariant that is broken; only that matters from then on."""
        return self.first.law if self.first else None

    def not_repeated(self, law: str) -> ConformanceError:
        """Return the violation of `law` that the first one did not come again."""
        assert (found := self.first) is not None
        return ConformanceError(
            law,
            f"nondeterministic: the scenario broke the invariant {found.law!r} once, and did not when it was "
            f"run again: {found.args[0]}",
            found.scenario,
            found.scheduler,
        )

    def add(self, error: ConformanceError, scenario: Scenario, scheduler: Scheduler) -> None:
        """Keep a violation by a scenario that was drawn."""
        if not self._found:
            self._until = time.monotonic() + SHRINKING
        self._found.append((error, scenario, scheduler))

    def settled(self, scenario: Scenario, scheduler: Scheduler) -> bool:
        """Return whether no smaller one is looked for any more; raise what this pair broke before.

        That is so when time is up, and where a run does not end: it would take for ever.
        """
        if time.monotonic() < self._until and not (self.first and "has not ended" in self.first.args[0]):
            return False
        for error, *pair in self._found:
            if pair == [scenario, scheduler]:
                raise error
        return True


class _Trial:
    """Checks all invariants on one scenario for each call, and counts what was checked."""

    def __init__(
        self, interpreters: list[ProcessPoolExecutor], keeps_state: bool, able: bool, reached: Reached
    ) -> None:
        self.interpreters, self.keeps_state = interpreters, keeps_state
        #: Whether the scheduler handles failures.
        self.able = able
        self.reached = reached
        #: The one that was tried last.
        self.scheduler: Scheduler | None = None
        self.findings = Findings()
        self.tried = self.failing = self.found_after = 0
        self.local = self.endlessly = self.ordered = self.speeds_known = self.noted = self.isolates = (
            self.serves
        ) = False
        self.own: Own | None = None
        self.watched = Watched()
        self.name = ""
        #: What of the future the scheduler says that it knows, in all scenarios.
        self.foreseen: set[str] = {*FORESEEN}
        #: Why the nodes cannot be compiled.
        self.not_compiled = ""

    def __call__(self, scenario: Scenario, scheduler: Scheduler) -> None:
        if self.findings.settled(scenario, scheduler):
            return
        try:
            self.check(scenario, scheduler)
        except ConformanceError as error:
            self.found_after = self.found_after or self.tried
            self.findings.add(error, scenario, scheduler)
            raise

    def check(self, scenario: Scenario, scheduler: Scheduler) -> None:
        """Check all invariants on one scenario."""
        if not scheduler.moves_data:  # with other parameters it may
            scenario = dataclasses.replace(scenario, platform=scenario.platform.unlinked())
        if not scheduler.constraints:
            scenario = without_needs(scenario)
        self.tried += 1
        self.failing += scenario.faults is not None
        self.name, self.scheduler = scheduler.name, scheduler
        if self.interpreters:
            _check_importable(scheduler)
        text, limits = scenario.to_toml(), {**LIMITS, "patience": PATIENCE}
        # when a violation is being shrunk, only its invariant matters
        only = self.findings.law
        interpreters = self.interpreters if only in (None, "hash seed") else []
        if self.own is None:  # before a thread looks up the scheduler's class to hand it to interpreters
            self.own, self.isolates = Own(scheduler), can_be_isolated(scheduler)
        elsewhere = [each.submit(afresh, text, scheduler, limits) for each in interpreters]
        result = self.runs(scenario, scheduler)
        # hidden state and randomness break other invariants, too, in ways that say less: they come first
        for law in ("sound", "served", "closed", "repeatable", "hash seed", *_FURTHER):
            if only not in (None, law) and (only, law) not in _IN_FURTHER_RUNS:
                continue
            if law == "hash seed":
                self.hash_seed([each.result() for each in elsewhere], result, scenario, scheduler)
            else:
                self.keeps(law, result, scenario, scheduler)

    def large_bag(self) -> str:
        """Check the first invariants on a bag that 16 bits cannot count; return why not, or ""."""
        scenario, scheduler = large_bag(), self.scheduler
        limits = {**LIMITS, "events_limit": 5 * MOST_EVENTS}  # a few for each task
        assert scheduler is not None
        try:
            result = self.further(scenario, scheduler, record="schedule", **limits)
        except ConformanceError as error:
            if "has not ended" in error.args[0]:
                return "its run takes too many events"
            raise
        self.keeps("sound", result, scenario, scheduler)
        return ""

    def further(self, scenario: Scenario, scheduler: Scheduler, **options: Any) -> Result:
        """Run another scenario than the one that was drawn."""
        try:
            with patience(PATIENCE):
                return simulate(scenario, scheduler, **options)
        except (Exception, SystemExit) as error:
            raise ConformanceError("runs", error_text(error), scenario, scheduler) from error

    def keeps(self, law: str, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        """Check one invariant; an error in one of its own runs breaks it, too."""
        try:
            with patience(10 * PATIENCE):  # for many runs, and to compile
                getattr(self, law)(result, scenario, scheduler)
        except ConformanceError:
            raise
        except (Exception, SystemExit) as error:
            raise ConformanceError(law, error_text(error), scenario, scheduler) from error

    def runs(self, scenario: Scenario, scheduler: Scheduler) -> Result:
        assert self.own is not None
        try:
            with patience(PATIENCE), self.reached.watching(), watching(self.own) as self.watched:
                return simulate(scenario, scheduler, record=RECORDED, **LIMITS)
        except (Exception, SystemExit) as error:
            raise ConformanceError("runs", error_text(error), scenario, scheduler) from error

    def sound(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if found := validate_result(result):
            raise ConformanceError("sound", "; ".join(map(str, found)), scenario, scheduler)
        if scenario.faults is None:
            return
        for other in (*struck(result), *cut_off(result), *asked_anew(result)):
            again = self.further(other, scheduler, record=RECORDED, **LIMITS)
            if found := validate_result(again):
                raise ConformanceError("sound", "; ".join(map(str, found)), other, scheduler)

    def served(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not scheduler.rigid or scheduler.may_reject:
            return
        self.serves = True
        if said := unserved(result, scheduler.order):
            raise ConformanceError("served", said, scenario, scheduler)

    def closed(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        assert self.own is not None
        for what in self.watched.outside:
            raise ConformanceError("closed", what, scenario, scheduler)
        if not self.watched.seeds:
            return
        other = dataclasses.replace(scenario, seed=scenario.seed + 1)
        with watching(self.own) as again:
            self.further(other, scheduler, **LIMITS)
        for call in sorted(self.watched.seeds.keys() & again.seeds.keys())[:1]:
            who = self.watched.seeds[call]
            said = f"{who} calls {call}, whatever the seed of the scenario is: use a random stream of the run"
            raise ConformanceError("closed", said, scenario, scheduler)

    def order(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if scheduler.order not in get_args(Order):
            unknown = f"it promises {scheduler.order!r}, which is none of {get_args(Order)}"
            raise ConformanceError("order", unknown, scenario, scheduler)
        # with links, the instants at which machines take tasks are not in the tables
        linked = scenario.platform.bandwidth is not None
        owners = (
            scenario.faults is not None and scenario.faults.reachable
        )  # who stop tasks, which go on later
        if scheduler.order is None or linked or owners:
            return
        self.ordered = True
        if said := broken_promise(result, scheduler.order):
            raise ConformanceError("order", said, scenario, scheduler)

    def repeatable(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        for number, how, options in ((2, "", {"record": False}), (3, ", with 2 threads,", {"threads": 2})):
            held = _stirred(number)
            again = simulate(scenario, scheduler, **options, **LIMITS)
            del held
            if again.digest != result.digest:
                said = f"run {number}{how} differs from run 1: {_first_difference(result, again)}"
                raise ConformanceError("repeatable", said, scenario, scheduler)

    def cohorts(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        for limit in (1, 3):
            cut = simulate(scenario, scheduler, record=True, cohort_limit=limit, **LIMITS)
            if cut.digest != result.digest:
                said = f"cohorts of at most {limit}: {_first_difference(result, cut)}"
                raise ConformanceError("cohorts", said, scenario, scheduler)

    def forms(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if self.not_compiled or len(scheduler.node_forms) < 2:
            return
        for form in forms_for(scenario, scheduler):
            unseen = form == "interpreted" and _runs_compiled(scheduler)
            try:
                with self.reached.watching() if unseen else nullcontext():
                    other = simulate(scenario, scheduler, record=RECORDED, nodes=form, **LIMITS)
            except (ImportError, CompileError) as error:
                self.not_compiled = text_of(error)
                return
            except SchedulerError as error:
                if "events_limit" in str(error):
                    continue  # what one form counts as one event may be many in another
                raise
            if other.digest != result.digest:
                raise ConformanceError(
                    "forms", f"{form}: {_first_difference(result, other)}", scenario, scheduler
                )
            if not self.keeps_state or form == scheduler.node_forms[0]:
                continue  # `resumed` checks the first
            # what a form records may be in an order of its own
            if said := differing_end(scenario, scheduler, other, LONGEST, RECORDED, form):
                raise ConformanceError("forms", f"{form}: {said}", scenario, scheduler)

    def isolated(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not self.isolates:
            return
        try:
            with isolated(scheduler):
                alone = simulate(scenario, scheduler, nodes="interpreted", **LIMITS)
        except Exception as error:
            said = f"an error that comes only where nodes share no variable: {error_text(error)}"
            at = traceback.extract_tb(error.__traceback__)[-1]
            said += f", in {at.name}, {at.filename}:{at.lineno}"
            raise ConformanceError("isolated", said, scenario, scheduler) from error
        if alone.digest != result.digest:
            raise ConformanceError("isolated", _first_difference(result, alone), scenario, scheduler)

    def decisions(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not scheduler.decision_words:
            return
        self.noted = True
        record: Record = (*RECORDED, "decisions")
        with self.reached.watching():  # some code runs only then
            noted = simulate(scenario, scheduler, record=record, **LIMITS)
            if _runs_compiled(scheduler):
                simulate(scenario, scheduler, record=record, nodes="interpreted", **LIMITS)
        if noted.digest != result.digest:
            raise ConformanceError("decisions", _first_difference(result, noted), scenario, scheduler)
        table, applications = noted.tables["decisions"], noted.applications
        last = np.full(len(applications), -np.inf)
        np.maximum.at(last, table["application"], table["time"])
        undecided = np.flatnonzero((last < applications["release"]) & ~np.isnan(applications["finish"]))
        if len(undecided):
            said = (
                f"application {undecided[0]} was completed, and nothing was decided on it since its release"
            )
            raise ConformanceError("decisions", said, scenario, scheduler)
        if lie := false_decision(noted, scheduler):
            raise ConformanceError("decisions", lie, scenario, scheduler)

    def resumed(self, result: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not self.keeps_state:
            return
        record: Record = (*RECORDED, "decisions") if scheduler.decision_words else RECORDED
        if said := differing_end(scenario, scheduler, result, LONGEST, record):
            raise ConformanceError("resumed", said, scenario, scheduler)

    def hash_seed(
        self, found: list[Result | str], result: Result, scenario: Scenario, scheduler: Scheduler
    ) -> None:
        for (hash_seed, ahead), other in zip(INTERPRETERS.items(), found, strict=False):
            if isinstance(other, str) or other.digest != result.digest:
                said = other if isinstance(other, str) else _first_difference(result, other)
                where = f"with PYTHONHASHSEED={hash_seed}, the clock {ahead // 3600} h ahead"
                text = f"in a process {where}, another environment, nothing run before: {said}"
                raise ConformanceError("hash seed", text, scenario, scheduler)

    def locality(self, _: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if not scheduler.informed_by_messages:
            return
        self.local, self.speeds_known = True, scheduler.speeds_known
        try:
            said = differing_decision(scenario, scheduler, self.able)
            if said and (again := differing_decision(scenario, scheduler, self.able)) != said:
                said = f"machines do not do the same in each run; one time {said}; another time {again}"
                raise ConformanceError("repeatable", said, scenario, scheduler)
        except SchedulerError as error:
            if "events_limit" not in str(error):
                raise
            self.endlessly = True  # where messages take longer than it waits for them, it may ask for ever
            return
        if said:
            raise ConformanceError("locality", said, scenario, scheduler)

    def foresight(self, _: Result, scenario: Scenario, scheduler: Scheduler) -> None:
        if unknown := sorted({*scheduler.foresees} - {*FORESEEN}):
            said = f"it says that it foresees {unknown[0]!r}, which is none of {FORESEEN}"
            raise ConformanceError("foresight", said, scenario, scheduler)
        self.foreseen &= {*scheduler.foresees}
        if known := foreknown(scenario, scheduler, LIMITS):
            raise ConformanceError("foresight", known, scenario, scheduler)


def forms_for(scenario: Scenario, scheduler: Scheduler) -> tuple[NodeForm, ...]:
    """Return the ways in which the nodes can run the scenario.

    Where tasks move data, or need memory or disk, that is interpreted only.
    """
    recipe, platform = scenario.workload.recipe, scenario.platform
    needing = isinstance(recipe, ListRecipe) and (recipe.memory is not None or recipe.disk is not None)
    special = platform.bandwidth is not None or needing
    return ("interpreted",) if special and len(scheduler.node_forms) > 1 else scheduler.node_forms


def _runs_compiled(scheduler: Scheduler) -> bool:
    """Return whether nodes run as machine code by default, whose lines are not seen, and interpreted, too."""
    return "interpreted" in scheduler.node_forms[1:]


def _first_difference(a: Result, b: Result) -> str:
    from gridsim.results.diff import first_difference

    return first_difference(a, b) or "the facts differ"


def _stirred(number: int) -> list[bytes]:
    """Leave the free memory in another order, so that objects made next are not in the order of their ids."""
    blocks = [bytes(size) for size in range(16, 480, 16) for _ in range(64)]
    step = (601, 1201, 1597)[number % 3]  # has no divisor in common with the number of blocks
    return [blocks[k * step % len(blocks)] for k in range(len(blocks))][::2]


def _check_importable(scheduler: Scheduler) -> None:
    try:
        pickle.dumps(scheduler)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ScenarioError(
            f"scheduler must be importable by other interpreters, or be checked with hash_seeds=False; got "
            f"{type(scheduler).__qualname__} of {type(scheduler).__module__}: {error}"
        ) from error
