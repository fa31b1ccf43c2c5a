"""Executions of the kernel targets, and the table of the functions and classes that they call.

The first byte chooses the kind of execution.  A *sane* one makes small well-formed calls of a kernel and its
reference implementation, which must agree in results, errors and texts of errors.  A *hostile* one makes any
calls of a kernel, in any order; the kernel may raise an error of `REFUSALS`, and nothing else may happen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from arrays import Source, corrupted, corrupted_state, deep_copy, is_equal
from classes import (
    BACKFILL,
    CORE_QUEUES,
    DATA_QUEUES,
    ENDS,
    LINKS,
    MANUAL,
    PROFILE,
    PULL,
    QUEUES,
    RELEASES,
    SHARED,
    SLOTS,
    STREAM,
    TREE,
    VIEWS,
    WORK,
    bind_earliest,
)
from flows import NODES, WALK
from functions import FUNCTIONS
from kinds import Arguments, Context, Part

# for tests.reference; at the end, so that installed packages take precedence
sys.path.append(str(Path(__file__).resolve().parents[1]))

#: Errors that a kernel may raise; conversions of invalid arrays raise IndexError and BufferError, those of
#: masked numbers MaskError.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, IndexError, BufferError, np.ma.MaskError)


class Disagreement(Exception):
    """Error about different results of a kernel and its reference implementation or restored copy."""


#: Target -> the functions and classes that it calls.
KERNELS: dict[str, tuple[Part, ...]] = {
    **FUNCTIONS,
    "centralized.earliest_ends": (ENDS, bind_earliest),
    "centralized.pull_queue": (PULL,),
    "common.release_queue": (RELEASES,),
    "rigid_queue.batch_queue": (BACKFILL,),
    "rigid_queue.manual_queue": (MANUAL, PROFILE),
    "rigid_queue.shared_queue": (SHARED,),
    "work_queue.dispatch": (WORK,),
    "dgs.slots": (SLOTS,),
    "dgs.overlay": (VIEWS,),
    "network.links": (LINKS,),
    "queues.task_queues": (QUEUES,),
    "queues.core_queues": (CORE_QUEUES,),
    "queues.data_queues": (DATA_QUEUES,),
    "fair_tree.summary_tree": (TREE,),
    "random_walk.walk": (WALK,),
    "nodes.message_core": (NODES,),
    "nodes.random_stream": (STREAM,),
}
#: Kernels without a reference implementation.
WITHOUT_REFERENCE = (
    "fair_tree.summary_tree",
    "rigid_queue.manual_queue",
    "nodes.message_core",
    "work_queue.dispatch",
    "random_walk.walk",
)

#: Arguments with numbers of tasks, and their maximum: kernels run tasks one by one, so that billions of tasks
#: are valid, but slow.
AMOUNTS, MAX_AMOUNT = ("left", "counts"), 100_000

#: Maximum size (bytes) of arrays that are compared after a call, and copied when their object is gone.
MAX_COMPARED_BYTES = 1 << 20


def reference_of(kernel: str) -> Any:
    """Return the module of the reference implementation of a kernel."""
    return import_module(f"tests.reference.{kernel.rpartition('.')[2]}")


# -- one execution ------------------------------------------------------------------------------------------

#: Maximum number of calls of an object.
STEPS = 24
LATEST, NEVER = 2**61, 2**63 - 1


def draw_arguments(
    c: Context, arguments: Arguments, hostile: bool, own_sizes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Draw the arguments of a call; all sizes except `own_sizes`, those of the object, are drawn again."""
    for name in [name for name in c.sizes if own_sizes and name not in own_sizes]:
        del c.sizes[name]
    made: dict[str, Any] = {}
    for name, kind in arguments.items():
        made[name] = kind(c)
    if hostile:
        for name in made:
            if c.s.chance(28):
                made[name] = corrupted(c.s, made[name])
            many = made[name]
            if name in AMOUNTS and isinstance(many, np.ndarray) and many.dtype.kind in "iu":
                made[name] = np.minimum(many, MAX_AMOUNT) if np.any(many > MAX_AMOUNT) else many
    return made


def outcome(function: Any, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Return the result of a call and None, or None and the refusal."""
    try:
        return function(**arguments), None
    except REFUSALS as refusal:
        return None, refusal


def arrays_of(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays in an argument."""
    if isinstance(value, np.ndarray | memoryview):
        yield np.asarray(value)  # for a masked array, the data under the mask
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from arrays_of(each)


@contextmanager
def check_unwritten(arguments: dict[str, Any], written: frozenset[str], name: str) -> Iterator[None]:
    """Check that the block writes only to arguments that are `written` in place."""
    places = [array for each in arguments if each in written for array in arrays_of(arguments[each])]
    before = [
        (each, array, array.tobytes())
        for each, value in arguments.items()
        if each not in written
        for array in arrays_of(value)
        # the elements of a large array may share a few bytes
        if array.nbytes <= MAX_COMPARED_BYTES
        and not any(np.may_share_memory(array, place) for place in places)
    ]
    yield
    for each, array, content in before:
        if array.tobytes() != content:
            raise Disagreement(f"{name}: {each} was written, and is now {array!r:.999}")


def checked_outcome(
    function: Any, arguments: dict[str, Any], written: frozenset[str], name: str
) -> tuple[Any, BaseException | None]:
    """Return the `outcome` of a call, and check that it writes only to the arguments `written`."""
    with check_unwritten(arguments, written, name):
        return outcome(function, arguments)


def compare_written(
    what: str, arguments: dict[str, Any], given: dict[str, Any], written: frozenset[str]
) -> None:
    """Check that arguments written in place equal those written by the reference implementation."""
    for each in written:
        if each in arguments and not is_equal(arguments[each], given[each]):
            raise Disagreement(
                f"{what}: {each} is now {arguments[each]!r:.999}\nthe reference has {given[each]!r:.999}"
            )


def written_by(part: Part, method: str) -> frozenset[str]:
    """Return the names of the arguments that a method writes in place."""
    return frozenset(
        each.removeprefix(f"{method}.") for each in part.written if each.startswith(f"{method}.")
    )


def compare(
    what: str, ours: tuple[Any, BaseException | None], references: tuple[Any, BaseException | None]
) -> None:
    (result, refusal), (expected, expected_refusal) = ours, references
    if (type(refusal), str(refusal)) != (type(expected_refusal), str(expected_refusal)):
        raise Disagreement(
            f"{what}: the kernel raises {refusal!r}, but its reference implementation {expected_refusal!r}"
        )
    if refusal is None and not is_equal(result, expected):
        raise Disagreement(
            f"{what}: the kernel gives {result!r:.999}\nbut its reference implementation {expected!r:.999}"
        )


def run_function(c: Context, kernel: str, part: Part, hostile: bool) -> None:
    arguments = draw_arguments(c, part.arguments, hostile)
    if part.name == "aggregate_into" and isinstance(arguments["children"], np.ndarray) and not hostile:
        arguments["out"] = np.zeros(arguments["children"].shape[1:], np.uint32)
    given = deep_copy(arguments)
    kernels = getattr(import_module(f"gridcore.{kernel}"), part.name)
    ours = checked_outcome(kernels, arguments, part.written, part.name)
    if not hostile and ours[1] is None:  # references do not check their arguments
        reference = getattr(reference_of(kernel), part.name)
        compare(part.name, ours, outcome(reference, given))
        compare_written(part.name, arguments, given, part.written)


def run_sane(c: Context, kernel: str, part: Part) -> None:
    """Make the same calls of a kernel and its reference; sometimes restore the kernel from its own state."""
    if part.prepare is not None:
        part.prepare(c, "gridcore")
    arguments = draw_arguments(c, part.arguments, False)
    module = import_module(f"gridcore.{kernel}")
    given = deep_copy(arguments)
    with check_unwritten(given, part.written, part.name):
        compare_calls(c, kernel, part, arguments, outcome(getattr(module, part.name), given))


def compare_calls(
    c: Context,
    kernel: str,
    part: Part,
    arguments: dict[str, Any],
    ours: tuple[Any, BaseException | None],
) -> None:
    """Compare calls of an object with those of a reference implementation made of the same arguments."""
    if ours[1] is not None:
        return
    references: tuple[Any, BaseException | None] | None = None
    if kernel not in WITHOUT_REFERENCE:
        if "links" in c.objects:
            return hostile_object(c, kernel, part, ours[0], ())
        references = outcome(getattr(reference_of(kernel), part.name), deep_copy(arguments))
        if references[1] is not None:
            raise Disagreement(f"{part.name}: the reference implementation raises {references[1]!r}")
    instance, reference = ours[0], None if references is None else references[0]
    c.objects["self"] = instance
    own_sizes, names = tuple(c.sizes), sorted(set(part.methods) - {"collect", "bind"})
    for _ in range(STEPS):
        if not c.s:
            break
        if c.s.chance(24) and hasattr(instance, "getstate"):
            restores_itself = kernel in (
                *WITHOUT_REFERENCE,
                "network.links",
            )  # its state is not only in arguments
            instance = c.objects["self"] = restored_copy(instance, type(instance), arguments, restores_itself)
        name = c.s.pick(names)
        called = draw_arguments(c, part.methods[name], False, own_sizes)
        given, written = deep_copy(called), written_by(part, name)
        result = checked_outcome(getattr(instance, name), called, written, f"{part.name}.{name}")
        if result[1] is not None:  # references do not check their arguments
            if name == "run_released" or not isinstance(result[1], TypeError | ValueError):
                return  # the kernel has handled a part of the call
            continue
        if reference is not None:
            expected = outcome(getattr(reference, name), given)
            compare(f"{part.name}.{name}", result, expected)
            compare_written(f"{part.name}.{name}", called, given, written)
            if part is LINKS and name == "advance" and result[0] != NEVER:
                # after an instant is announced, its deliveries must be collected
                c.now = result[0]
                compare(
                    "Links.collect",
                    outcome(instance.collect, {"time": c.now}),
                    outcome(reference.collect, {"time": c.now}),
                )
            for each in part.attributes:
                if hasattr(reference, each) and not is_equal(
                    getattr(instance, each), getattr(reference, each)
                ):
                    what = f"{part.name}.{each} after {name}"
                    raise Disagreement(
                        f"{what}: {getattr(instance, each)!r}, its reference has {getattr(reference, each)!r}"
                    )


def restored_copy(instance: Any, cls: Any, arguments: dict[str, Any], restores_itself: bool) -> Any:
    """Return a new object with the state of `instance`; `instance` itself if its state is not complete."""
    try:
        state = deep_copy(instance.getstate())
    except (RuntimeError, MemoryError):  # documented: not at this time, or too large
        return instance
    made = (
        instance if restores_itself or hasattr(instance, "add_applications") else cls(**deep_copy(arguments))
    )
    try:
        made.setstate(deep_copy(state))
    except ValueError as refusal:
        if f"{LATEST}" not in str(refusal):  # times in a state must be smaller
            raise
        return instance
    for name, value in deep_copy(made.getstate()).items():
        # in a tree, the positions of unused entries differ
        if not is_equal(state[name], value) and not hasattr(made, "payloads_in_use"):
            raise Disagreement(
                f"{cls.__name__}: state[{name!r}] is {value!r} after it was restored from {state[name]!r}"
            )
    return made


def hostile_object(c: Context, kernel: str, part: Part, instance: Any, names: tuple[str, ...]) -> None:
    """Make arbitrary calls of an object, and of the objects that it was made of."""
    if instance is None:
        return
    c.objects["self"] = instance
    others = {
        "links": (LINKS, c.objects.get("links")),
        "tree": (TREE, c.objects.get("tree")),
        "queues": (QUEUES, c.objects.get("queues")),
        "slots": (SLOTS, c.objects.get("schedules")),
        "overlay": (VIEWS, c.objects.get("views")),
    }
    targets = [
        (part, instance),
        *(
            (target_part, target)
            for target_part, target in others.values()
            if target is not None and target is not instance
        ),
    ]
    own_sizes = tuple(c.sizes)
    states: dict[int, Any] = {}
    for _ in range(STEPS):
        if not c.s:
            break
        target_part, target = targets[0] if len(targets) == 1 or c.s.chance(160) else c.s.pick(targets[1:])
        c.objects["self"] = instance if target_part is part else target
        number = c.s.below(len(target_part.methods) + 4)
        if number == len(target_part.methods):
            try:
                if not hasattr(target, "getstate"):
                    continue
                state = target.getstate()
                c.keep(state)
                states[id(target)] = deep_copy(state)
                del state
            except (RuntimeError, MemoryError):  # documented: not at this time, or too large
                continue
        elif number == len(target_part.methods) + 1:
            if id(target) in states:
                state = states[id(target)]
                if c.s.chance(200):
                    state = corrupted_state(c.s, state)
                checked_outcome(
                    target.setstate, {"state": state}, frozenset(), f"{target_part.name}.setstate"
                )
        elif number == len(target_part.methods) + 2:
            for name in target_part.attributes:
                getattr(target, name)
        elif number == len(target_part.methods) + 3:
            outcome(
                target.__init__,
                draw_arguments(c, target_part.arguments, True, own_sizes) if target_part is part else {},
            )
        else:
            name = sorted(target_part.methods)[number]
            try:
                arguments = draw_arguments(c, target_part.methods[name], True, own_sizes)
            except (
                KeyError,
                IndexError,
                AttributeError,
                ValueError,
                TypeError,
            ):  # the arguments need another kind of object
                continue
            what = f"{target_part.name}.{name}"
            result = checked_outcome(getattr(target, name), arguments, written_by(target_part, name), what)[0]
            c.keep(result)


def run_hostile(c: Context, kernel: str, part: Part) -> None:
    if part.prepare is not None:
        part.prepare(c, "gridcore")
    cls = getattr(import_module(f"gridcore.{kernel}"), part.name)
    if c.s.chance(4):
        instance = outcome(cls.__new__, {"cls": cls})[0]
        return hostile_object(c, kernel, part, instance, ())
    arguments = draw_arguments(c, part.arguments, c.s.chance(100))
    with check_unwritten(arguments, part.written, part.name):
        hostile_object(c, kernel, part, outcome(cls, arguments)[0], ())


def run(kernel: str, data: bytes) -> None:
    """Run one execution with the bytes `data`."""
    c = Context(Source(data))
    is_hostile = c.s.byte() % 2 == 1
    part = c.s.pick(KERNELS[kernel])
    if not part.methods:
        run_function(c, kernel, part, is_hostile)
    elif is_hostile:
        run_hostile(c, kernel, part)
    else:
        run_sane(c, kernel, part)
    c.objects.clear()  # the objects are gone
    for array in c.results:
        if array.nbytes <= MAX_COMPARED_BYTES:  # memory may not suffice for larger ones
            array.copy()


def seeds() -> Iterator[bytes]:
    """Yield random inputs; any bytes are valid."""
    draw = np.random.default_rng(1)
    for n in (2, 16, 64, 200, 400):
        for _ in range(8):
            yield draw.integers(0, 256, n, np.uint8).tobytes()
            yield (draw.integers(0, 256, n) % 28).astype(np.uint8).tobytes()
