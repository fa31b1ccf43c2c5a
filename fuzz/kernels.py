"""What the kernels are called with, and how: a table of functions and classes, and one execution of a target.

The first byte says which kind of execution it is.  A *sane* one makes well-formed small calls of a kernel
and its reference, which must agree: results, errors and their texts.  A *hostile* one gives anything
to the kernel, in any order: it may refuse it with an error of `REFUSALS`, and nothing else may happen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from arrays import Source, copied, damaged, same, spoiled
from classes import (
    BACKFILL,
    DATA_QUEUES,
    ENDS,
    LINKS,
    PULL,
    QUEUES,
    SLOTS,
    STREAM,
    TREE,
    VIEWS,
    WORK,
    bind_earliest,
)
from flows import FLOW, JOBFLOW, NODES, WALK, flow_records
from functions import FUNCTIONS
from kinds import Arguments, Context, Part

# for tests.reference; last, so that what is installed is found first
sys.path.append(str(Path(__file__).resolve().parents[1]))

#: What a kernel may raise; IndexError and BufferError come of wrong arrays before it sees them, MaskError of
#: masked numbers.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, IndexError, BufferError, np.ma.MaskError)


class Disagreement(Exception):
    """A kernel and its reference implementation, or a kernel and itself."""


#: What each target calls.
KERNELS: dict[str, tuple[Part, ...]] = {
    **FUNCTIONS,
    "centralized.earliest_ends": (ENDS, bind_earliest),
    "centralized.pull_queue": (PULL,),
    "rigid_queue.backfill": (BACKFILL,),
    "work_queue.dispatch": (WORK,),
    "dgs.slots": (SLOTS,),
    "dgs.overlay": (VIEWS,),
    "network.links": (LINKS,),
    "queues.task_queues": (QUEUES,),
    "queues.data_queues": (DATA_QUEUES,),
    "fair_tree.summary_tree": (TREE,),
    "random_walk.walk": (WALK,),
    "nodes.message_core": (NODES,),
    "nodes.random_stream": (STREAM,),
    "fair_tree.protocol": (FLOW,),
    "dgs.protocol": (JOBFLOW,),
}
#: They have no reference implementation of their own.
ALONE = ("fair_tree.protocol", "fair_tree.summary_tree", "dgs.protocol", "nodes.message_core")

#: Numbers of tasks that are done one by one, some with an entry of a log: 4e9 of them that take no time
#: are no mistake, and take what they take.  So there are no more.
AMOUNTS, MOST = ("left", "counts"), 100_000

#: Bytes of an array up to which it is looked at after a call, and when its object is gone.
WATCHED = 1 << 20


def reference_of(kernel: str) -> Any:
    """The module of its reference implementation."""
    return import_module(f"tests.reference.{kernel.rpartition('.')[2]}")


# -- one execution ------------------------------------------------------------------------------------------

#: Calls of an object, at most.
STEPS = 24
LATEST, NEVER = 2**61, 2**63 - 1


def made_of(c: Context, arguments: Arguments, hostile: bool, kept: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments of a call; `kept`: sizes of the object itself, the others are of this call alone."""
    for name in [name for name in c.sizes if kept and name not in kept]:
        del c.sizes[name]
    made: dict[str, Any] = {}
    for name, kind in arguments.items():
        made[name] = kind(c)
    if hostile:
        for name in made:
            if c.s.chance(28):
                made[name] = spoiled(c.s, made[name])
            many = made[name]
            if name in AMOUNTS and isinstance(many, np.ndarray) and many.dtype.kind in "iu":
                made[name] = np.minimum(many, MOST) if np.any(many > MOST) else many
    return made


def outcome(of: Any, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """What a call gives, or the refusal."""
    try:
        return of(**arguments), None
    except REFUSALS as refusal:
        return None, refusal


def arrays_of(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays in an argument."""
    if isinstance(value, np.ndarray | memoryview):
        yield np.asarray(value)  # of a masked one what is under the mask, too
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from arrays_of(each)


@contextmanager
def unwritten(arguments: dict[str, Any], written: frozenset[str], name: str) -> Iterator[None]:
    """What is done here leaves the arguments as they are, but those that are `written` in place."""
    places = [array for each in arguments if each in written for array in arrays_of(arguments[each])]
    before = [
        (each, array, array.tobytes())
        for each, value in arguments.items()
        if each not in written
        for array in arrays_of(value)
        # a large one may be a few bytes, told to be many
        if array.nbytes <= WATCHED and not any(np.may_share_memory(array, place) for place in places)
    ]
    yield
    for each, array, content in before:
        if array.tobytes() != content:
            raise Disagreement(f"{name}: {each} was written, and is {array!r:.999} now")


def watched(
    of: Any, arguments: dict[str, Any], written: frozenset[str], name: str
) -> tuple[Any, BaseException | None]:
    """`outcome` of a call that writes into nothing else."""
    with unwritten(arguments, written, name):
        return outcome(of, arguments)


def compare_written(
    what: str, arguments: dict[str, Any], given: dict[str, Any], written: frozenset[str]
) -> None:
    """What was written in place must be what the reference implementation wrote."""
    for each in written:
        if each in arguments and not same(arguments[each], given[each]):
            raise Disagreement(
                f"{what}: {each} is {arguments[each]!r:.999} now\nthe reference makes it {given[each]!r:.999}"
            )


def written_by(part: Part, method: str) -> frozenset[str]:
    """Names of a method's arguments that it writes in place."""
    return frozenset(
        each.removeprefix(f"{method}.") for each in part.written if each.startswith(f"{method}.")
    )


def compare(
    what: str, ours: tuple[Any, BaseException | None], references: tuple[Any, BaseException | None]
) -> None:
    (result, refusal), (expected, wanted) = ours, references
    if (type(refusal), str(refusal)) != (type(wanted), str(wanted)):
        raise Disagreement(f"{what}: the kernel says {refusal!r}, its reference implementation {wanted!r}")
    if refusal is None and not same(result, expected):
        raise Disagreement(
            f"{what}: the kernel gives {result!r:.999}\nits reference implementation {expected!r:.999}"
        )


def function(c: Context, kernel: str, part: Part, hostile: bool) -> None:
    arguments = made_of(c, part.arguments, hostile)
    if part.name == "aggregate_into" and isinstance(arguments["children"], np.ndarray) and not hostile:
        arguments["out"] = np.zeros(arguments["children"].shape[1:], np.uint32)
    given = copied(arguments)
    kernels = getattr(import_module(f"gridcore.{kernel}"), part.name)
    ours = watched(kernels, arguments, part.written, part.name)
    if not hostile:
        reference = getattr(reference_of(kernel), part.name)
        compare(part.name, ours, outcome(reference, given))
        compare_written(part.name, arguments, given, part.written)


def sane(c: Context, kernel: str, part: Part) -> None:
    """The same calls of a kernel and its reference; now and then the kernel goes on from its own state."""
    if part.before is not None:
        part.before(c, "gridcore")
    arguments = made_of(c, part.arguments, False)
    module = import_module(f"gridcore.{kernel}")
    given = copied(arguments)
    with unwritten(given, part.written, part.name):
        together(c, kernel, part, arguments, outcome(getattr(module, part.name), given))


def together(
    c: Context,
    kernel: str,
    part: Part,
    arguments: dict[str, Any],
    ours: tuple[Any, BaseException | None],
) -> None:
    """Calls of an object and of the reference implementation that is made of the same arguments."""
    references: tuple[Any, BaseException | None] | None = None
    if kernel not in ALONE:
        if "links" in c.of:
            return hostile_object(c, kernel, part, ours[0], ())
        references = outcome(getattr(reference_of(kernel), part.name), copied(arguments))
        if (ours[1] is None) != (references[1] is None):
            raise Disagreement(
                f"{part.name}: the kernel says {ours[1]!r}, its reference implementation {references[1]!r}"
            )
    if ours[1] is not None:
        return
    it, reference = ours[0], None if references is None else references[0]
    c.of["self"] = it
    kept, names = tuple(c.sizes), sorted(set(part.methods) - {"collect", "bind"})
    for _ in range(STEPS):
        if not c.s:
            break
        if c.s.chance(24) and hasattr(it, "getstate"):
            alone = kernel in (*ALONE, "network.links")  # with what it was told beside its arguments
            it = c.of["self"] = again(it, type(it), arguments, alone)
        name = c.s.pick(names)
        called = made_of(c, part.methods[name], False, kept)
        given, written = copied(called), written_by(part, name)
        result = watched(getattr(it, name), called, written, f"{part.name}.{name}")
        if reference is not None:
            expected = outcome(getattr(reference, name), given)
            compare(f"{part.name}.{name}", result, expected)
            if name == "run_released" and result[1] is not None:
                return  # it checks entries when their turn comes, and stops in the midst
            compare_written(f"{part.name}.{name}", called, given, written)
            if part is LINKS and name == "advance" and result[0] != NEVER:
                # who is told of an instant is to collect what is delivered then
                c.now = result[0]
                compare(
                    "Links.collect",
                    outcome(it.collect, {"time": c.now}),
                    outcome(reference.collect, {"time": c.now}),
                )
            for each in part.shown:
                if hasattr(reference, each) and not same(getattr(it, each), getattr(reference, each)):
                    what = f"{part.name}.{each} after {name}"
                    raise Disagreement(
                        f"{what}: {getattr(it, each)!r}, its reference has {getattr(reference, each)!r}"
                    )


def again(it: Any, cls: Any, arguments: dict[str, Any], itself: bool) -> Any:
    """Another one with the state of this one; this one, where the state is not all of it."""
    try:
        state = copied(it.getstate())
    except (RuntimeError, MemoryError):  # documented: not now; or it is large
        return it
    made = it if itself or hasattr(it, "add_applications") else cls(**copied(arguments))
    try:
        made.setstate(copied(state))
    except ValueError as refusal:
        if f"{LATEST}" not in str(refusal):  # beyond which no state goes
            raise
        return it
    for name, value in copied(made.getstate()).items():
        # of a tree the places of what is not in use are others
        if not same(state[name], value) and not hasattr(made, "payloads_in_use"):
            raise Disagreement(
                f"{cls.__name__}: state[{name!r}] comes out as {value!r}, it was {state[name]!r}"
            )
    return made


def hostile_object(c: Context, kernel: str, part: Part, it: Any, names: tuple[str, ...]) -> None:
    """Anything is done to an object, and to what it was made of."""
    if it is None:
        return
    c.of["self"] = it
    others = {
        "links": (LINKS, c.of.get("links")),
        "tree": (TREE, c.of.get("tree")),
        "queues": (QUEUES, c.of.get("queues")),
        "slots": (SLOTS, c.of.get("schedules")),
        "overlay": (VIEWS, c.of.get("views")),
    }
    targets = [
        (part, it),
        *((of, each) for of, each in others.values() if each is not None and each is not it),
    ]
    kept = tuple(c.sizes)
    states: dict[int, Any] = {}
    for _ in range(STEPS):
        if not c.s:
            break
        of, each = targets[0] if len(targets) == 1 or c.s.chance(160) else c.s.pick(targets[1:])
        c.of["self"] = it if of is part else each
        number = c.s.below(len(of.methods) + 4)
        if number == len(of.methods):
            try:
                if not hasattr(each, "getstate"):
                    continue
                state = each.getstate()
                c.keep(state)
                states[id(each)] = copied(state)
                del state
            except (RuntimeError, MemoryError):  # documented: not now; or it is large
                continue
        elif number == len(of.methods) + 1:
            if id(each) in states:
                state = states[id(each)]
                if c.s.chance(200):
                    state = damaged(c.s, state)
                watched(each.setstate, {"state": state}, frozenset(), f"{of.name}.setstate")
        elif number == len(of.methods) + 2:
            for name in of.shown:
                getattr(each, name)
        elif number == len(of.methods) + 3:
            outcome(each.__init__, made_of(c, of.arguments, True, kept) if of is part else {})
        else:
            name = sorted(of.methods)[number]
            try:
                arguments = made_of(c, of.methods[name], True, kept)
            except (KeyError, IndexError, AttributeError, ValueError, TypeError):  # of another kind of object
                continue
            if name == "send" and kernel == "fair_tree.protocol" and c.s.chance(128):
                arguments |= {"kind": 1, "records": flow_records(c)}
            what = f"{of.name}.{name}"
            result = watched(getattr(each, name), arguments, written_by(of, name), what)[0]
            c.keep(result)


def hostile(c: Context, kernel: str, part: Part) -> None:
    if part.before is not None:
        part.before(c, "gridcore")
    cls = getattr(import_module(f"gridcore.{kernel}"), part.name)
    if c.s.chance(4):
        it = outcome(cls.__new__, {"cls": cls})[0]
        return hostile_object(c, kernel, part, it, ())
    arguments = made_of(c, part.arguments, c.s.chance(100))
    with unwritten(arguments, part.written, part.name):
        hostile_object(c, kernel, part, outcome(cls, arguments)[0], ())


def run(kernel: str, data: bytes) -> None:
    """One execution."""
    c = Context(Source(data))
    wild = c.s.byte() % 2 == 1
    part = c.s.pick(KERNELS[kernel])
    if not part.methods:
        function(c, kernel, part, wild)
    elif wild:
        hostile(c, kernel, part)
    else:
        sane(c, kernel, part)
    c.of.clear()  # the objects are gone
    for array in c.told:
        if array.nbytes <= WATCHED:  # for more there may be no memory
            array.copy()


def seeds() -> Iterator[bytes]:
    """Any bytes are an execution."""
    chance = np.random.default_rng(1)
    for n in (2, 16, 64, 200, 400):
        for _ in range(8):
            yield chance.integers(0, 256, n, np.uint8).tobytes()
            yield (chance.integers(0, 256, n) % 28).astype(np.uint8).tobytes()
