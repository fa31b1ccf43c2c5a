"""Inspection of a scheduler: supported scenarios, its own code, and the side effects of that code."""

from __future__ import annotations

import math
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import gridcore
import gridsim
from gridsim.errors import ScenarioError
from gridsim.model.attributes import ListedAttributes
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.contract import Policy, Scheduler
from gridsim.scheduling.jobs import JobPolicy
from gridsim.scheduling.nodes.adapter import ProgramScheduler
from gridsim.scheduling.nodes.roles import role_classes
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.random_streams import Streams
from gridsim.testing.cases import PAUSE
from gridsim.testing.coverage import Coverage
from gridsim.testing.perturbations import has_only_owner_events
from gridsim.testing.run_limits import LIMITS, MAX_SIMULATED_TIME, WALL_TIME_LIMIT, limit_wall_time
from gridsim.testing.violation import ConformanceError, failed_run, save

#: Folders of installed code, which is not a scheduler's own code.
_LIBRARIES = tuple(
    {
        os.path.join(os.path.abspath(folder), "")
        for folder in (
            *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            *(os.path.dirname(package.__file__ or "") for package in (gridsim, gridcore)),
        )
    }
)
#: Packages of base classes that are not a scheduler's own code.
_BASES = frozenset({"gridsim", "gridcore", "builtins", "msgspec", "abc", "typing"})
#: Module in which a run begins; frames outside of it belong to the caller of the check.
_RUN_MODULE = "gridsim.simulation.simulate"
#: Modules that only forward calls.
_FORWARDING_MODULES = frozenset({"os", "collections.abc", "_collections_abc", "time", "datetime", __name__})


class OwnCode:
    """The scheduler's own code: the modules of its package, and all modules that are not installed."""

    def __init__(self, scheduler: Scheduler) -> None:
        programs = role_classes(scheduler).values() if isinstance(scheduler, ProgramScheduler) else ()
        classes = [cls for program in (type(scheduler), *programs) for cls in program.__mro__]
        self.roots = {item.__module__.partition(".")[0] for item in classes} - _BASES

    def contains(self, module: str, file: str) -> bool:
        """Return whether the module with the source `file` is the scheduler's own."""
        root = module.partition(".")[0]
        if root in self.roots:
            return True
        return root not in _BASES and not file.startswith((*_LIBRARIES, "<")) and bool(file)

    def modules(self) -> Iterator[ModuleType]:
        """Iterate over the loaded modules that are the scheduler's own."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and self.contains(
                name, getattr(module, "__file__", None) or ""
            ):
                yield module

    def is_caller(self, frame: FrameType | None) -> bool:
        """Return whether the scheduler's code called `frame`, directly or through forwarding modules."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name not in _FORWARDING_MODULES:
                return self.contains(name, frame.f_code.co_filename)
            frame = frame.f_back
        return False

    def innermost_code(self, frame: FrameType | None) -> CodeType | None:
        """Return the scheduler's innermost code on the stack of `frame` in a run; None if there is none."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name == _RUN_MODULE:
                return None
            if self.contains(name, frame.f_code.co_filename):
                return frame.f_code
            frame = frame.f_back
        return None

    def rebind(self, substitutes: dict[Any, Any]) -> list[tuple[ModuleType, str, Any]]:
        """Replace functions in modules of the scheduler that imported them by name.

        Returns
        -------
        (module, name, original) of each replacement.
        """
        replacements = []
        for module in self.modules():
            for name, value in list(vars(module).items()):
                try:
                    new = substitutes.get(value)
                except TypeError:  # unhashable
                    continue
                if new is not None:
                    replacements.append((module, name, value))
                    setattr(module, name, new)
        return replacements


#: Audit events of Python that report changes outside of the process, or connections to other processes.
_SIDE_EFFECT_EVENTS = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.putenv",
    "os.unsetenv", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.kill", "os.chdir",
    "subprocess.Popen", "socket.connect", "socket.bind", "sqlite3.connect", "shutil.copyfile",
)  # fmt: skip
#: Functions that create random generators or seed them.
_SEEDING_FUNCTIONS = (
    "default_rng",
    "RandomState",
    "SeedSequence",
    "PCG64",
    "PCG64DXSM",
    "MT19937",
    "Philox",
    "SFC64",
    "seed",
)

#: Receivers of audit events; a list, since an audit hook cannot be removed.
_watchers: list[Callable[[str, tuple[Any, ...]], None]] = []
_has_hook = False


def _audit_hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watchers and (event == "open" or event in _SIDE_EFFECT_EVENTS):
        _watchers[-1](event, arguments)


class SideEffects:
    """Side effects of the scheduler's code in runs, and its calls that seeded random generators."""

    def __init__(self) -> None:
        #: Descriptions of side effects; a dict serves as an ordered set.
        self.actions: dict[str, None] = {}
        #: Call that creates or seeds a generator -> the function of the scheduler's code that made it.
        self.seeds: dict[str, str] = {}


@contextmanager
def record_side_effects(own_code: OwnCode) -> Iterator[SideEffects]:
    """Record the side effects of the scheduler's code in the runs of this context."""
    global _has_hook
    if not _has_hook:
        sys.addaudithook(_audit_hook)
        _has_hook = True
    effects = SideEffects()

    def record_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not _writes(*arguments):
            return
        if (code := own_code.innermost_code(sys._getframe(2))) is not None:
            action = f"opens {arguments[0]!r} to write" if event == "open" else f"{event} {arguments[:1]!r}"
            effects.actions[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {action}"] = None

    opened_streams: set[tuple[Streams, str]] = set()

    def get_stream(streams: Streams, name: str) -> Any:
        if (code := own_code.innermost_code(sys._getframe(1))) is not None:
            if (streams, name) in opened_streams:
                action = f"opens the stream {name!r} again, which restarts it"
                effects.actions[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {action}"] = (
                    None
                )
            opened_streams.add((streams, name))
        return original_call(streams, name)

    original_call = Streams.__call__
    _watchers.append(record_event)
    try:
        Streams.__call__ = get_stream  # type: ignore[assignment, method-assign]
        with _record_seeding(own_code, effects):
            yield effects
    finally:
        Streams.__call__ = original_call  # type: ignore[method-assign]
        _watchers.remove(record_event)


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@contextmanager
def _record_seeding(own_code: OwnCode, effects: SideEffects) -> Iterator[None]:
    """Record in `effects` the calls by which the scheduler's code, even indirectly, seeds generators."""
    substitutes: dict[Any, Any] = {}

    def recording_function(function: Any, name: str) -> Any:
        def recorded_call(*args: Any, **options: Any) -> Any:
            if (code := own_code.innermost_code(sys._getframe(1))) is not None and (args or options):
                arguments = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
                effects.seeds[f"{name}({', '.join(arguments)})"] = code.co_qualname
            return function(*args, **options)

        class ClassProxy(type):
            """Metaclass of a substitute for the class `function`, which creates instances of that class."""

            def __call__(cls, *args: Any, **options: Any) -> Any:
                return recorded_call(*args, **options)

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, function)

        return ClassProxy(name, (), {}) if isinstance(function, type) else recorded_call

    random_module = import_module("random")
    places = [(np.random, name) for name in _SEEDING_FUNCTIONS] + [
        (random_module, "Random"),
        (random_module, "seed"),
    ]
    originals = [(module, name, getattr(module, name)) for module, name in places]
    for module, name, function in originals:
        substitutes[function] = recording_function(function, f"{module.__name__}.{name}")
        setattr(module, name, substitutes[function])
    originals += own_code.rebind(substitutes)
    try:
        yield
    finally:
        for module, name, function in originals:
            setattr(module, name, function)


#: Options of `scenarios` that a scheduler may support.
SCENARIO_OPTIONS = (
    "rigid", "unequal", "fluctuating", "constraints", "moves_data", "cores", "shares_memory", "job_times",
    "dependencies",
)  # fmt: skip
#: Maximum number of events in a run in which `_IDLE_MACHINES` machines are idle for hours, unless they poll.
_MAX_IDLE_EVENTS, _IDLE_MACHINES = 20_000, 5


def inspect_scheduler(
    strategy: st.SearchStrategy[Scheduler], folder: str | os.PathLike[str], handlers_until: float = math.inf
) -> tuple[type[Policy], dict[str, Any], bool, Coverage]:
    """Inspect a scheduler in a small run.

    Parameters
    ----------
    handlers_until
        As in `limit_wall_time`.

    Returns
    -------
    The class of the scheduler's policy, the options of `scenarios` that it supports, whether machines may
    fail, and the recorder of the lines of its code that run.

    Raises
    ------
    ConformanceError
        If the scheduler cannot start, or its run does not end.
    """
    policies: list[tuple[type[Policy], dict[str, Any], bool, Coverage]] = []
    errors: list[ConformanceError] = []  # raised at the end, since Hypothesis repeats a failing run

    @settings(max_examples=1, database=None, deadline=None, phases=(Phase.generate,))
    @seeded(0)
    @given(strategy)
    def inspect(scheduler: Scheduler) -> None:
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(
                f"scheduler must be a strategy of Scheduler objects, got one of {scheduler!r}"
            )

        class ProbeScheduler(Scheduler, frozen=True):
            name = scheduler.name
            rigid = scheduler.rigid

            def start(self, run: Any) -> Policy:
                policy = scheduler.start(run)
                features = {name: getattr(scheduler, name) for name in SCENARIO_OPTIONS}
                features["reachable"] = has_only_owner_events(scheduler)
                # executed lines of compiled nodes are not recorded
                programs = [role.program for role in getattr(scheduler, "roles", {}).values()]
                programs = programs or [getattr(scheduler, "policy", None)]
                classes = [*type(policy).__mro__]
                for program in programs:
                    is_job_policy = isinstance(program, type) and issubclass(program, JobPolicy)
                    if is_job_policy or "interpreted" in scheduler.node_forms:
                        classes += program.__mro__ if isinstance(program, type) else ()
                handles_failures = policy.takes_blocks or type(policy).on_faults is not Policy.on_faults
                can_fail = (scheduler.failures and handles_failures) or features["reachable"]
                policies.append((type(policy), features, can_fail, Coverage(classes)))
                return policy

        scenario = _simple_scenario(scheduler, 1, [0.0])
        try:
            with limit_wall_time(WALL_TIME_LIMIT, handlers_until):
                simulate(scenario, ProbeScheduler(), **LIMITS)
        except (Exception, SystemExit) as error:
            if not policies or is_limit_error(error):
                conformance_error = failed_run(error, scenario, scheduler)
                conformance_error.__cause__ = error
                errors.append(conformance_error)
            # other errors occur again in trials, which shrink the scenario
        if policies and not errors:
            policies[0][1]["pauses"] = not _polls_when_idle(scheduler, handlers_until)

    inspect()
    if errors:
        errors[0].file = save(errors[0], os.fspath(folder))
        raise errors[0]
    return policies[0]


def _simple_scenario(scheduler: Scheduler, nodes: int, release: list[float]) -> Scenario:
    """Return a scenario of equal machines and applications of one task with the given releases (s)."""
    workload = Workload.of(release, 1, 1000.0, origin=0.0)
    if scheduler.rigid:
        workload = Workload.jobs_of(release, 1, 1.0, origin=0.0)
    zeros = (0.0,) * nodes
    attributes = ListedAttributes(x=zeros, y=zeros) if scheduler.constraints else None
    return Scenario(Platform.equal(nodes, 1000.0, attributes), workload)


def is_limit_error(error: BaseException) -> bool:
    """Return whether a run reached its limit of events or of wall time."""
    return any(text in str(error) for text in ("events_limit", "has not ended"))


def _polls_when_idle(scheduler: Scheduler, handlers_until: float) -> bool:
    """Return whether idle machines cause so many events that a simulation of hours would take long."""
    try:
        with limit_wall_time(WALL_TIME_LIMIT, handlers_until):
            scenario = _simple_scenario(scheduler, _IDLE_MACHINES, [0.0, PAUSE])
            simulate(scenario, scheduler, time_limit=MAX_SIMULATED_TIME, events_limit=_MAX_IDLE_EVENTS)
    except (Exception, SystemExit) as error:
        return is_limit_error(error)  # the trials report other errors
    return False
