"""What a scheduler supports, which code is its own, and what that code does beyond its run."""

from __future__ import annotations

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
from gridsim.simulation.simulate import execute as simulate
from gridsim.support.random_streams import Streams
from gridsim.testing.cases import PAUSE
from gridsim.testing.coverage import Reached
from gridsim.testing.perturbations import only_owners
from gridsim.testing.run_limits import LIMITS, LONGEST, PATIENCE, patience
from gridsim.testing.violation import ConformanceError, error_text, save

#: Where code lies that is nobody's own.
_LIBRARIES = tuple(
    {
        os.path.join(os.path.abspath(folder), "")
        for folder in (
            *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            *(os.path.dirname(package.__file__ or "") for package in (gridsim, gridcore)),
        )
    }
)
#: Packages whose classes a scheduler derives from without being theirs.
_BASES = frozenset({"gridsim", "gridcore", "builtins", "msgspec", "abc", "typing"})
#: The module in whose frames a run begins; what lies outside of them called the check.
_RUNS = "gridsim.simulation.simulate"
#: Modules that only hand on what somebody asks them.
_HAND_ON = frozenset({"os", "collections.abc", "_collections_abc", "time", "datetime", __name__})


class Own:
    """The code of a scheduler: what lies in its package, and all that is not installed."""

    def __init__(self, scheduler: Scheduler) -> None:
        classes = [*type(scheduler).__mro__, *getattr(getattr(scheduler, "policy", None), "__mro__", ())]
        self.roots = {each.__module__.partition(".")[0] for each in classes} - _BASES

    def has(self, module: str, file: str) -> bool:
        """Return whether the code of a module, which lies in `file`, is the scheduler's own."""
        root = module.partition(".")[0]
        if root in self.roots:
            return True
        return root not in _BASES and not file.startswith((*_LIBRARIES, "<")) and bool(file)

    def modules(self) -> Iterator[ModuleType]:
        """Iterate over the loaded modules that are the scheduler's own."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and self.has(name, getattr(module, "__file__", None) or ""):
                yield module

    def asks(self, frame: FrameType | None) -> bool:
        """Return whether own code called the function of `frame`, itself or through `os` and the like."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name not in _HAND_ON:
                return self.has(name, frame.f_code.co_filename)
            frame = frame.f_back
        return False

    def acts(self, frame: FrameType | None) -> CodeType | None:
        """Return the innermost own code that runs in `frame` or called it, in a run; else None."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name == _RUNS:
                return None
            if self.has(name, frame.f_code.co_filename):
                return frame.f_code
            frame = frame.f_back
        return None

    def rebind(self, replaced: dict[Any, Any]) -> list[tuple[ModuleType, str, Any]]:
        """Replace functions in own modules that imported them by name, and return what was replaced where."""
        found = []
        for module in self.modules():
            for name, value in list(vars(module).items()):
                try:
                    new = replaced.get(value)
                except TypeError:  # it has no hash
                    continue
                if new is not None:
                    found.append((module, name, value))
                    setattr(module, name, new)
        return found


#: Events of Python's audit that change something outside of the process, or ask others.
_OUTSIDE = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.putenv",
    "os.unsetenv", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.kill", "os.chdir",
    "subprocess.Popen", "socket.connect", "socket.bind", "sqlite3.connect", "shutil.copyfile",
)  # fmt: skip
#: Functions that make generators or seed them.
_SEEDED = (
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

#: Who is told of audit events; a hook of Python's audit cannot be removed.
_watchers: list[Callable[[str, tuple[Any, ...]], None]] = []
_hooked = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watchers and (event == "open" or event in _OUTSIDE):
        _watchers[-1](event, arguments)


class Watched:
    """What own code did outside of its run, or with streams, and with which numbers it seeded generators."""

    def __init__(self) -> None:
        #: In words, each once.
        self.outside: dict[str, None] = {}
        #: Call of a function that makes or seeds a generator -> the own function that it came from.
        self.seeds: dict[str, str] = {}


@contextmanager
def watching(own: Own) -> Iterator[Watched]:
    """Watch what own code does in runs in this context."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    found = Watched()

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not _writes(*arguments):
            return
        if (code := own.acts(sys._getframe(2))) is not None:
            what = f"opens {arguments[0]!r} to write" if event == "open" else f"{event} {arguments[:1]!r}"
            found.outside[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {what}"] = None

    asked: set[tuple[Streams, str]] = set()

    def ask(streams: Streams, name: str) -> Any:
        if (code := own.acts(sys._getframe(1))) is not None:
            if (streams, name) in asked:
                what = f"asks again for the stream {name!r}, which begins anew"
                found.outside[f"{code.co_qualname}, {code.co_filename}:{code.co_firstlineno}: {what}"] = None
            asked.add((streams, name))
        return call(streams, name)

    call = Streams.__call__
    _watchers.append(see)
    try:
        Streams.__call__ = ask  # type: ignore[assignment, method-assign]
        with _seeding(own, found):
            yield found
    finally:
        Streams.__call__ = call  # type: ignore[method-assign]
        _watchers.remove(see)


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@contextmanager
def _seeding(own: Own, found: Watched) -> Iterator[None]:
    """Record in `found` with what own code, or what it calls, seeds generators."""
    replaced: dict[Any, Any] = {}

    def recorded(function: Any, name: str) -> Any:
        def make(*args: Any, **more: Any) -> Any:
            if (code := own.acts(sys._getframe(1))) is not None and (args or more):
                said = [*map(repr, args), *(f"{key}={value!r}" for key, value in more.items())]
                found.seeds[f"{name}({', '.join(said)})"] = code.co_qualname
            return function(*args, **more)

        class Stand(type):
            """What stands for a class: calls make objects of that, which are its instances."""

            def __call__(cls, *args: Any, **more: Any) -> Any:
                return make(*args, **more)

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, function)

        return Stand(name, (), {}) if isinstance(function, type) else make

    shared = import_module("random")
    places = [(np.random, name) for name in _SEEDED] + [(shared, "Random"), (shared, "seed")]
    before = [(module, name, getattr(module, name)) for module, name in places]
    for module, name, function in before:
        replaced[function] = recorded(function, f"{module.__name__}.{name}")
        setattr(module, name, replaced[function])
    before += own.rebind(replaced)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


#: The kinds of scenarios that a scheduler may support.
KINDS = ("rigid", "unequal", "fluctuating", "constraints", "moves_data", "job_times")
#: The most events of a run of so many machines that wait for hours, unless they poll one another.
_WHILE_IDLE, _SEVERAL = 20_000, 5


def policy_of(
    strategy: st.SearchStrategy[Scheduler], folder: str | os.PathLike[str]
) -> tuple[type[Policy], dict[str, Any], bool, Reached]:
    """Return the class of the scheduler's policy, what it supports, and who sees what runs.

    What it supports is the options of `scenarios`, and whether machines may fail.
    """
    policies: list[tuple[type[Policy], dict[str, Any], bool, Reached]] = []
    errors: list[ConformanceError] = []  # raised at the end: Hypothesis would run again what fails

    @settings(max_examples=1, database=None, deadline=None, phases=(Phase.generate,))
    @seeded(0)
    @given(strategy)
    def look(scheduler: Scheduler) -> None:
        if not isinstance(scheduler, Scheduler):
            raise ScenarioError(f"scheduler must be a strategy of schedulers, got one of {scheduler!r}")

        class Look(Scheduler, frozen=True):
            name = scheduler.name
            rigid = scheduler.rigid

            def start(self, run: Any) -> Policy:
                policy = scheduler.start(run)
                kind = {name: getattr(scheduler, name) for name in KINDS}
                kind["reachable"] = only_owners(scheduler)
                # lines of machine code are not seen
                program = (
                    getattr(scheduler, "policy", None) if "interpreted" in scheduler.node_forms else None
                )
                classes = [*type(policy).__mro__, *(program.__mro__ if isinstance(program, type) else ())]
                fails = policy.takes_blocks or type(policy).on_faults is not Policy.on_faults
                able = (scheduler.failures and fails) or kind["reachable"]
                policies.append((type(policy), kind, able, Reached(classes)))
                return policy

        scenario = _plain(scheduler, 1, [0.0])
        try:
            with patience(PATIENCE):
                simulate(scenario, Look(), **LIMITS)
        except (Exception, SystemExit) as error:
            if not policies or "has not ended" in str(error):
                found = ConformanceError("runs", error_text(error), scenario, scheduler)
                found.__cause__ = error
                errors.append(found)
            # otherwise the trials meet the error again, and shrink it
        if policies and not errors:
            policies[0][1]["pauses"] = not _polls(scheduler)

    look()
    if errors:
        errors[0].file = save(errors[0], os.fspath(folder))
        raise errors[0]
    return policies[0]


def _plain(scheduler: Scheduler, nodes: int, release: list[float]) -> Scenario:
    """Return a scenario of equal machines, and of single tasks with these releases (s)."""
    workload = Workload.of(release, 1, 1000.0, origin=0.0)
    if scheduler.rigid:
        workload = Workload.jobs_of(release, 1, 1.0, origin=0.0)
    zeros = (0.0,) * nodes
    place = ListedAttributes(x=zeros, y=zeros) if scheduler.constraints else None
    return Scenario(Platform.equal(nodes, 1000.0, place), workload)


def _polls(scheduler: Scheduler) -> bool:
    """Return whether idle machines do so much that scenarios of hours would take long."""
    try:
        with patience(PATIENCE):
            scenario = _plain(scheduler, _SEVERAL, [0.0, PAUSE])
            simulate(scenario, scheduler, time_limit=LONGEST, events_limit=_WHILE_IDLE)
    except (Exception, SystemExit) as error:
        return "has not ended" in str(error)  # other errors are for the trials
    return False
