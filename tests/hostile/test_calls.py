"""Random calls of all names of gridcore, also of internal ones: none crashes, and each ends.

Arguments are drawn by the types in the `.pyi` files, and many are replaced by values of other types, shapes,
layouts and sizes.  Objects are those of runs that are stopped in the middle.  `.ci/nightly` runs this under
sanitizers, which find accesses that would not crash here.

For more calls: ``python -m tests.hostile.test_calls CALLS [SEED]``; the seed of a batch repeats it.
"""

from __future__ import annotations

import ast
import gc
import json
import mmap
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gridcore
import gridsim as gs
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from tests._helpers import thread_work as work

#: Number of calls of the test, and of a process.
CALLS, BATCH = 6_000, 200
#: Time (s) after which a call gets a signal as by Ctrl-C, and a process is killed.
PATIENCE, GRACE = 5, 300.0
#: Memory limit (bytes) of a process, since arguments may request any amount.
MEMORY = 6 << 30
#: Maximum number of tasks in an argument: kernels run tasks one by one, so that billions are valid, but slow.
MAX_TASKS = 100_000
#: Events after which runs are stopped.
WAVES = 12

Array = np.ndarray[Any, Any]
#: (name, type, whether the name is required) of each parameter.
Parameters = tuple[tuple[str, str, bool], ...]


class Target(NamedTuple):
    """A function, a class or a member of a class, whose parameters are None if it is a property."""

    module: str
    owner: str | None
    name: str
    parameters: Parameters | None

    def __str__(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))


#: Special methods that classes may have, with the types of their arguments.
SPECIAL = {
    "__init__": ("Any",), "__len__": (), "__iter__": (), "__next__": (), "__bool__": (), "__repr__": (),
    "__contains__": ("int",), "__getitem__": ("int",), "__setitem__": ("int", "float"),
    "__delitem__": ("int",), "__reduce__": (), "__copy__": (), "__eq__": ("Any",),
}  # fmt: skip


def parameters(function: ast.FunctionDef) -> Parameters:
    given = function.args
    return tuple(
        (each.arg, ast.unparse(each.annotation) if each.annotation else "Any", each in given.kwonlyargs)
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        if each.arg not in ("self", "cls")
    )


def targets() -> Iterator[Target]:
    """Iterate over what the `.pyi` files of kernels declare."""
    root = Path(gridcore.__file__).parent
    for path in sorted(root.glob("*/*.pyi")):
        module = f"gridcore.{path.parent.name}.{path.stem}"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield Target(module, None, node.name, parameters(node))
            if not isinstance(node, ast.ClassDef):
                continue
            for name, types in SPECIAL.items():
                yield Target(module, node.name, name, tuple(("", each, False) for each in types))
            for member in node.body:
                if isinstance(member, ast.AnnAssign):
                    yield Target(module, node.name, ast.unparse(member.target), None)
                elif isinstance(member, ast.FunctionDef) and member.name == "__new__":
                    yield Target(module, None, node.name, parameters(member))
                elif isinstance(member, ast.FunctionDef):
                    is_property = "property" in map(ast.unparse, member.decorator_list)
                    yield Target(module, node.name, member.name, None if is_property else parameters(member))


# -- objects ------------------------------------------------------------------------------------------------

#: Runs that together have objects of nearly all classes.
RUNS: tuple[tuple[Callable[[], gs.Scenario], gs.Scheduler], ...] = (
    (work.rigid, gs.DgsAsap(degree=8, slot=10.0, overlay="cyclon", cycle=2.0)),
    (work.rigid, gs.BatchQueue()),
    (work.bags, gs.FairTree(samples=(4, 3, 3))),
    (work.bags, gs.JoinShortestQueue()),
    (work.bags, gs.Hawk()),
    (work.bags, gs.Eagle()),
    (work.bags, gs.Dlwl()),
    (work.bags, gs.ExpandingRing()),
    (work.bags, gs.WqrFt()),
    (work.bags, gs.Fcfs(mode="pull")),
    (work.streams, gs.Rjss()),
)


def stopped_run(scenario: gs.Scenario, scheduler: gs.Scheduler) -> Simulation:
    run, waves = Simulation(scenario, scheduler, Options(record="all")), 0

    def count_waves() -> None:
        nonlocal waves
        waves += 1
        if waves == WAVES:
            run.engine.stop()

    run.engine.at_wave_end(count_waves)
    run.engine.run()
    return run


def objects_below(*roots: Any) -> dict[str, list[Any]]:
    """Return the objects of gridcore that `roots` refer to, by the names of their classes and bases."""
    pending, seen, objects = list(roots), dict[int, Any](), dict[str, list[Any]]()
    while pending:
        entry = pending.pop()
        module = type(entry).__module__.partition(".")[0]
        if id(entry) in seen or module not in ("gridcore", "gridsim", "builtins", "collections"):
            continue
        if type(entry).__name__ in ("type", "module", "function", "frame", "code"):
            continue
        seen[id(entry)] = entry
        for cls in type(entry).__mro__ if module == "gridcore" else ():
            objects.setdefault(cls.__name__, []).append(entry)
        pending += gc.get_referents(entry)
    return objects


def all_objects() -> dict[str, list[Any]]:
    runs = [stopped_run(scenario(), scheduler) for scenario, scheduler in RUNS]
    kernels = [
        work.backfill(30), work.shared_queue(30), work.releases(30), work.manual_queue(30), work.profile(),
        work.work_queue(60), work.task_queues(9), work.core_queues(9), work.data_queues(9),
        work.schedules(20), work.pull(20),
    ]  # fmt: skip
    return objects_below(runs, kernels)


# -- arguments ----------------------------------------------------------------------------------------------

INTEGERS = (
    *(-(2**63), -(2**62), -(2**31) - 1, -(2**31), -2, -1, 0, 1, 3, 64, 255, 256, 2**16, 10**9),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**30),
)
REALS = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, -1.0, 0.5, 1e300)
WORDS = ("", "edf", "fifo", "start", "note", "push", "idle", "random", "cpu", "request", "\0", "ä")


class Unconvertible:
    """Object whose every use raises an error."""

    def fail(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no such value")

    __array__ = __index__ = __float__ = __len__ = __iter__ = __bool__ = __getitem__ = __call__ = __eq__ = fail
    __getattr__ = __hash__ = fail  # type: ignore[assignment]


OTHERS: tuple[Any, ...] = (
    *INTEGERS, *REALS, *WORDS, None, True, b"bytes", [], {}, (), [[1], [2, 3]], [None], 1j, object, range(3),
    Unconvertible(), lambda *_, **__: None, iter(()), memoryview(b"abcdefgh"), np.float32(1.5), np.int8(-1),
    np.datetime64("NaT"), np.zeros(()), np.zeros((1, 1, 1, 1)), np.zeros((0, 3)), np.array([None, 1], object),
    np.broadcast_to(np.int64(1), 2**20), np.ma.masked_array([1.0, 2.0], [0, 1]), np.array(["a", "b"]),
)  # fmt: skip

#: Functions that return an array in another form.
FORMS: tuple[Callable[[Array], Any], ...] = (
    lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: a[::-1], lambda a: a.T, lambda a: a[:-1],
    lambda a: a[:0], lambda a: a[None], lambda a: a[..., None], lambda a: np.concatenate([a] * 9),
    lambda a: a.astype("f4"), lambda a: a.astype("u1"), lambda a: a.astype("i4"), lambda a: a.astype("O"),
    lambda a: a.astype(a.dtype.newbyteorder()), lambda a: np.broadcast_to(a[:1], 40), lambda a: a.tolist(),
    lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype), np.asfortranarray, memoryview,
)  # fmt: skip


#: Words in types of arrays and sequences.
ARRAY_TYPES = {
    *("Bools", "Floats", "Integers", "NDArray", "ArrayLike"),
    *("Sequence", "Iterable", "list", "tuple"),
}


class Values:
    """Random arguments of one call, of which a part is of any kind."""

    def __init__(self, draw: random.Random, objects: dict[str, list[Any]], results: list[Any]) -> None:
        self.draw, self.objects, self.results = draw, objects, results
        self.part = draw.choice((0.0, 0.1, 0.4))
        #: Arrays have one length in most calls, and numbers are below it.
        self.length = draw.choice((0, 1, 2, 3, 9, 20, 20, 20))

    def of(self, name: str, kind: str) -> Any:
        """Draw a value for a parameter with the type `kind`."""
        value = self._any() if self.draw.random() < self.part else self._valid(kind)
        if name in ("tasks", "counts", "left"):
            if isinstance(value, int):
                return min(value, MAX_TASKS)
            if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
                return np.where(value > MAX_TASKS, 9, value)
        return value

    def _any(self) -> Any:
        luck = self.draw.random()
        if luck < 0.3:
            return self._array(self.draw.choice(("int", "float", "Bools", "uint8")))
        return self.draw.choice(self.results if luck < 0.4 and self.results else OTHERS)

    def _valid(self, kind: str) -> Any:
        draw, words = self.draw, set(re.findall(r"\w+", kind))
        if "None" in words and draw.random() < 0.3:
            return None
        if owners := [name for name in sorted(words) if name in self.objects]:
            return draw.choice(self.objects[draw.choice(owners)])
        if choices := re.findall(r"'(.*?)'", kind):
            return draw.choice(choices)
        if words & {
            "Bools",
            "Floats",
            "Integers",
            "NDArray",
            "ArrayLike",
            "Sequence",
            "Iterable",
            "list",
            "tuple",
        }:
            return self._array(draw.choice(("int", "float")) if "ArrayLike" in words else kind)
        if words & {"int", "SupportsIndex"}:
            return draw.choice(
                (draw.randrange(self.length + 1), draw.randrange(3), 10**9 * draw.randrange(60))
            )
        if "float" in words:
            return draw.choice((draw.randrange(20) / 4, float(draw.randrange(9)), 1e-3, 1e4))
        if "bool" in words:
            return draw.random() < 0.5
        if "str" in words:
            return draw.choice(WORDS)
        return draw.choice(self.objects[draw.choice(sorted(self.objects))])

    def _array(self, kind: str) -> Any:
        """Draw an array; some have other values or another form."""
        draw, length = self.draw, self.length if self.draw.random() < 0.9 else self.draw.randrange(40)
        made: Array = np.array([draw.randrange(self.length + 1) for _ in range(length)], np.int64)
        if "Bools" in kind:
            made = made % 2 == 0
        elif "float" in kind or "Floats" in kind:
            made = 1.0 + made * draw.choice((1.0, 0.25, 1e3))
        elif "uint8" in kind:
            made = np.zeros((length, draw.choice((8, 16, 24, 32, 40))), np.uint8)
        else:
            made = np.sort(made) * draw.choice((1, 1, 1, 1, 10**9))
        if draw.random() < self.part and made.dtype.kind in "if" and length:
            values = REALS if made.dtype.kind == "f" else [v for v in INTEGERS if abs(v) < 2**63]
            made[draw.randrange(length)] = draw.choice(values)
        if draw.random() < self.part:
            with suppress(ValueError, TypeError, IndexError):  # the array has no such form
                made = draw.choice(FORMS)(made)
        if isinstance(made, np.ndarray) and draw.random() < self.part / 4:
            made.flags.writeable = False
        return made

    def state_of(self, owner: Any) -> Any:
        """Draw a state of an object or of another one, with some values changed."""
        donor = self.draw.choice(self.objects[type(owner).__name__])
        with suppress(Exception):
            state = dict(donor.getstate())
            return {
                name: self.of(name, type(value).__name__) if self.draw.random() < self.part / 4 else value
                for name, value in state.items()
            }
        return None


# -- calls --------------------------------------------------------------------------------------------------


def call(target: Target, values: Values) -> tuple[Callable[[], Any] | None, str]:
    """Return a random call, and its text; None if no object has it."""
    draw, place = values.draw, import_module(target.module)
    if target.owner is not None:
        if not (owners := values.objects.get(target.owner)):
            return None, ""
        place = draw.choice(owners)
        if target.name.startswith("__") and not hasattr(type(place), target.name):
            return None, ""
    if target.parameters is None:
        new = values.of("", "Any")
        if draw.random() < 0.5:
            return lambda: getattr(place, target.name), f"{target} of {type(place)}"
        return lambda: setattr(place, target.name, new), f"{target} of {type(place)} = {new!r:.99}"
    positional, named = [], {}
    for name, kind, is_named in target.parameters:
        value = values.of(name, kind)
        if name == "state" and target.owner is not None and draw.random() < 0.7:
            value = values.state_of(place)
        if not is_named:
            positional.append(value)
        elif draw.random() < 0.95:
            named[name] = value
    text = ", ".join((*(f"{v!r:.999}" for v in positional), *(f"{n}={v!r:.999}" for n, v in named.items())))
    return lambda: getattr(place, target.name)(*positional, **named), f"{target}({text})"


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def make_calls(
    seed: int, objects: dict[str, list[Any]], every: list[Target], note: Callable[[str], None]
) -> Counter[str]:
    """Make a batch of calls; return the number of each outcome."""
    draw, outcomes = random.Random(seed), Counter[str]()
    results: list[Any] = []
    while outcomes.total() < BATCH:
        target = draw.choice(every)
        if target.name in SPECIAL and draw.random() < 0.9:
            continue
        function, text = call(target, Values(draw, objects, results))
        if function is None:
            continue
        note(f"seed {seed}: {text}")
        try:
            signal.alarm(PATIENCE)
            results.append(function())
            signal.alarm(0)
            outcome = "returned"
        except SystemError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            outcome = type(error).__name__
        signal.alarm(0)
        outcomes[outcome] += 1
        outcomes[str(target)] += 0
    note(f"seed {seed}: the end")
    return outcomes


def run_batch(seed: int, objects: dict[str, list[Any]], every: list[Target]) -> tuple[str, dict[str, int]]:
    """Make a batch of calls in a process of its own; return the last call if it fails, and the outcomes."""
    page, (receive, send) = mmap.mmap(-1, 1 << 16), os.pipe()

    def note(text: str) -> None:
        page[:] = text.encode(errors="replace")[: len(page)].ljust(len(page), b"\0")

    process = os.fork()
    if process == 0:
        try:
            if "ASAN_OPTIONS" not in os.environ:  # AddressSanitizer reserves all addresses
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.signal(signal.SIGALRM, interrupt)
            os.write(send, json.dumps(make_calls(seed, objects, every, note)).encode())
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    os.close(send)
    start = time.monotonic()
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        time.sleep(0.01)
        if time.monotonic() - start > GRACE:
            os.kill(process, signal.SIGKILL)
    with os.fdopen(receive) as stream:
        text = stream.read()
    last = page[:].rstrip(b"\0").decode(errors="replace")
    return f"{last}: status {ended[1]}" if ended[1] else "", json.loads(text) if text else {}


def main(calls: int, seed: int = 0) -> None:
    """Make about `calls` calls in batches from `seed` on; the exit code is 1 if one of them fails."""
    warnings.simplefilter("ignore")
    objects, every, outcomes, failures = all_objects(), list(targets()), Counter[str](), 0
    for batch in range(-(-calls // BATCH)):
        failure, counts = run_batch(seed + batch, objects, every)
        outcomes.update(counts)
        if failure:
            failures += 1
            print(failure, flush=True)
    names = sorted(name for name in outcomes if "." in name)
    print(f"{sum(outcomes.values())} calls of {len(names)} names from seed {seed}, {failures} failures")
    print(dict(outcomes.most_common(20)))
    sys.exit(1 if failures else 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_no_call_of_any_name_crashes() -> None:
    process = subprocess.run(
        [sys.executable, "-m", __name__, str(CALLS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert process.returncode == 0, process.stdout + process.stderr


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
