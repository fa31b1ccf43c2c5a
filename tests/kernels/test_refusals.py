"""Bad input is rejected by kernels; unusual but valid input is accepted."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridcore
from gridcore.common.decimal_numbers import decimal_numbers
from gridcore.fair_tree import summaries
from gridcore.nodes import containers
from gridcore.queues import availability, edf
from gridcore.queues.summary_grid import SummaryGrid
from tests.reference import decimal_numbers as reference

NAN, INF = math.nan, math.inf
GRID = SummaryGrid([1.0, 2.0], [4.0, 8.0], [1.0, 2.0])
CELLS = np.zeros(GRID.shape, dtype=np.uint32)
QUEUE = {"release": [0.0, 1.0], "size": [4.0, 8.0], "work": [2.0, 2.0]}
RUNNING = {"running_release": None, "running_size": None}
NEW = {"stretch": 1.0, "release_new": 0.0, "size_new": 4.0}
BATCH = {
    "offsets": [0, 1, 2], **QUEUE, "speed": [1.0, 1.0], "free_at": [0.0, 0.0],
    "running_release": [NAN, 0.0], "running_size": [NAN, 1.0],
}  # fmt: skip

GOOD = {
    "meets_deadlines": {"work": [1.0, 2.0], "deadlines": [3.0, INF], "speed": 1.0, "now": 0.0},
    "optimal_stretch": {**QUEUE, "speed": 1.0, "now": 0.0, **RUNNING, "method": "exact", "rtol": 1e-9},
    "project_queues": {**BATCH, "task_size": [1.0, 2.0], "until": 3.0, "preemptive": False},
    "gap": {**NEW, **QUEUE, "speed": 1.0, "free_at": 0.0, **RUNNING},
    "available_tasks": {**NEW, "task_size_new": 1.0, **QUEUE, "speed": 1.0, "free_at": 0.0, **RUNNING},
    "sample_availability": {
        "grid": GRID, "release_new": 0.0, **QUEUE, "speed": 1.0, "free_at": 0.0, **RUNNING,
    },
    "sample_availability_batch": {"grid": GRID, "release_new": 0.0, **BATCH, "threads": 1},
    "aggregate": {"children": [CELLS, CELLS]},
    "aggregate_into": {"out": CELLS.copy(), "children": [CELLS, CELLS]},
    "lookup": {
        "summary": CELLS, "grid": GRID, "stretch": 1.0, "size": 4.0, "task_size": 1.0, "release": 0.0,
        "cell_release": 0.0, "speed": None, "leaves": None, "longest_task": None,
    },
    "lowest_stretch": {"totals": [0, 3], "n_tasks": 2},
    "split": {"available": [1, 3], "n_tasks": 2},
    "debit_drop": {"tasks": [1, 2], "task_size": [1.0, 2.0], "cell_task_size": 1.0, "leaves": 2},
    "debit": {
        "summary": CELLS, "grid": GRID, "tasks": [1, 2], "task_size": [1.0, 2.0], "size": [4.0, 8.0],
        "stretch": [1.0, 2.0], "leaves": 2, "rule": "subtree",
    },
}  # fmt: skip

_finite = [(NAN, "finite, got nan"), (INF, "finite, got inf"), (-INF, "finite, got -inf")]
_zero_up = [(NAN, ">= 0, got nan"), (-1.0, ">= 0, got -1.0"), (INF, ">= 0, got inf")]
_positive = [(NAN, "> 0, got nan"), (0.0, "> 0, got 0.0"), (-2.0, "> 0, got -2.0"), (INF, "> 0, got inf")]

VECTORS = {
    "release": _finite,
    "size": _positive,
    "work": _zero_up,
    "deadlines": [(NAN, "or +inf, got nan"), (-INF, "or +inf, got -inf")],
    "task_size": _positive,
}
SCALARS = {
    "speed": _positive,
    "now": _finite,
    "free_at": _finite,
    "until": _finite,
    "release_new": _finite,
    "size_new": _positive,
    "task_size_new": _positive,
    "cell_task_size": _positive,
    "stretch": _zero_up,
    "cell_release": _finite,
    "release": _finite,
    "size": _positive,
    "task_size": _positive,
}


def bad_values():
    for function, good in GOOD.items():
        for name, value in good.items():
            if isinstance(value, list) and name in VECTORS | SCALARS and len(value) == 2:
                for wrong, message in VECTORS.get(name, SCALARS.get(name)):
                    yield function, {name: [value[0], wrong]}, f"{name}[1] must be", message
                    yield function, {name: np.array([wrong, value[1]])}, f"{name}[0] must be", message
                yield function, {name: [1.0]}, "must have as many entries as", "got"
                yield function, {name: [[1.0, 2.0]]}, f"{name} must have one dimension", "got 2"
            elif isinstance(value, float) and name in SCALARS:
                for wrong, message in SCALARS[name]:
                    yield function, {name: wrong}, f"{name} must be", message
    for function in ("optimal_stretch", "gap", "available_tasks", "sample_availability"):
        yield function, {"running_size": 1.0}, "require each other", ""
        yield function, {"running_release": 0.0, "running_size": 0.0}, "running_size must be", "> 0, got 0.0"
        yield function, {"running_release": NAN, "running_size": 1.0}, "running_release must be", "got nan"
    for function in ("project_queues", "sample_availability_batch"):
        yield function, {"running_size": None}, "require each other", ""
        yield function, {"running_size": [NAN, NAN]}, "and running_size[1] must both be nan", "0.0"
        yield function, {"running_size": [NAN, -1.0]}, "running_size[1] must be", "> 0, got -1.0"
        yield function, {"running_release": [NAN, INF]}, "running_release[1] must be", "got inf"
        yield function, {"running_size": [NAN]}, "must have as many entries as offsets[1:]", "got 1 and 2"
        yield function, {"running_release": [0.0]}, "running_release must have as many entries", "got 1 and 2"
        yield function, {"offsets": [0, -1, 2]}, "offsets[1] must be >= offsets[0]", "got -1 and 0"
        yield function, {"offsets": []}, "offsets must start with 0", "got no entries"
        yield function, {"offsets": [1, 1, 2]}, "offsets must start with 0", "got 1"
        yield function, {"offsets": [0, 2, 1]}, "offsets[2] must be >= offsets[1]", "got 1 and 2"
        yield function, {"offsets": [0, 1, 3]}, "offsets must end with 2, the number of entries", "got 3"
        yield function, {"offsets": [0, 2]}, "must have as many entries as offsets[1:]", "got 2 and 1"
    yield "optimal_stretch", {"method": "newton"}, "method must be", "'newton'"
    yield "optimal_stretch", {"method": "bisection", "rtol": 0.0}, "rtol must be > 0 and < 1", "got 0.0"
    yield "optimal_stretch", {"method": "bisection", "rtol": NAN}, "rtol must be > 0 and < 1", "got nan"
    yield "optimal_stretch", {"method": "bisection", "rtol": 1.0}, "rtol must be > 0 and < 1", "got 1.0"
    yield "project_queues", {"work": [2.0, 3.0]}, "work[1] must be a whole number of tasks of 2.0", "got 3.0"
    yield "sample_availability_batch", {"threads": 0}, "threads must be >= 1", "got 0"
    yield "aggregate", {"children": [1, 2]}, "children must have at least two dimensions", "got 1"
    yield "aggregate", {"children": [[1, -2]]}, "children[0, 1] must be in 0..4294967295", "got -2"
    yield (
        "aggregate",
        {"children": [[0], [2**32]]},
        "children[1, 0] must be in 0..4294967295",
        "got 4294967296",
    )
    yield "aggregate_into", {"out": CELLS[0].copy()}, "out must have the shape of one child", "(2, 2)"
    yield (
        "aggregate_into",
        {"out": CELLS.T},
        "out must be C-contiguous, aligned and writable",
        "got c_contiguous=False",
    )
    for function in ("lookup", "debit"):
        yield function, {"summary": CELLS[0]}, "summary must have the shape of its grid", "got (2, 2)"
        yield function, {"leaves": 0}, "leaves must be >= 1", "got 0"
    yield "lookup", {"speed": 0.0}, "speed must be finite and > 0", "got 0.0"
    yield "lookup", {"longest_task": -1.0}, "longest_task must be finite and >= 0", "got -1.0"
    yield "lowest_stretch", {"totals": [3, 2]}, "totals must not decrease", "totals[1] = 2 after 3"
    yield "lowest_stretch", {"totals": [-1, 2]}, "totals[0] must be >= 0", "got -1"
    yield "lowest_stretch", {"totals": [[1]]}, "totals must have one dimension", "got 2"
    yield "lowest_stretch", {"n_tasks": -1}, "n_tasks must be >= 0", "got -1"
    yield "split", {"available": [1, -1]}, "available[1] must be >= 0", "got -1"
    yield "split", {"n_tasks": -1}, "n_tasks must be >= 0", "got -1"
    yield "split", {"n_tasks": 5}, "n_tasks must be at most 4, the sum of available", "got 5"
    wide = np.full(2, 2**64 - 1, dtype=np.uint64)
    yield "split", {"available": wide, "n_tasks": 2**63}, "n_tasks must be < 2**63", "got"
    yield "debit", {"tasks": [1, -2]}, "tasks[1] must be >= 0", "got -2"
    yield "debit", {"tasks": [[1]]}, "tasks must be a number or have one dimension", "got 2"
    yield "debit", {"rule": "leaf"}, "rule must be 'subtree' or 'printed'", "'leaf'"
    yield "debit_drop", {"leaves": 0}, "leaves must be >= 1", "got 0"


def bad_types():
    for function in ("lookup", "debit", "sample_availability", "sample_availability_batch"):
        yield function, {"grid": (1, 2, 3)}, "grid must be a SummaryGrid, got tuple"
    for function in ("meets_deadlines", "optimal_stretch", "gap", "sample_availability_batch"):
        yield function, {"work": ["1", "2"]}, "work must hold real numbers, got dtype <U1"
        yield function, {"work": [1.0, 2j]}, "work must hold real numbers, got dtype complex128"
        yield function, {"work": [1.0, None]}, "work must hold real numbers, got dtype object"
    for function in ("project_queues", "sample_availability_batch"):
        for name in ("running_release", "running_size"):
            yield function, {name: ["1", "2"]}, f"{name} must hold real numbers, got dtype <U1"
        yield function, {"offsets": [0.0, 1.0, 2.0]}, "offsets must hold integers, got dtype float64"
    yield "aggregate", {"children": [[0.5]]}, "children must hold integers, got dtype float64"
    yield "aggregate_into", {"out": CELLS.astype(np.int64)}, "out must be a uint32 array, got int64"
    for function in ("lookup", "debit"):
        yield function, {"leaves": 1.5}, "leaves must be an integer, got float"
        yield function, {"summary": CELLS.astype(float)}, "summary must hold integers, got dtype float64"
    yield "lowest_stretch", {"totals": [0.5, 1.0]}, "totals must hold integers, got dtype float64"
    yield "lowest_stretch", {"n_tasks": 1.0}, "n_tasks must be an integer, got float"
    yield "split", {"n_tasks": 1.0}, "n_tasks must be an integer, got float"
    yield "debit", {"tasks": [1.0, 2.0]}, "tasks must hold integers, got dtype float64"


def call(function, **changes):
    arguments = GOOD[function] | changes
    positional, only_keyword = [], {}
    keywords = {
        "speed", "now", "free_at", "until", "preemptive", "running_release", "running_size", "method", "rtol",
        "threads", "cell_release", "leaves", "longest_task", "rule",
    }  # fmt: skip
    if function in ("lookup", "debit"):
        keywords |= set(GOOD[function]) - {"summary", "grid"}
    if function == "lookup":
        keywords -= {"stretch", "size", "task_size"}
    if function == "debit_drop":
        keywords = set()
    for name, value in arguments.items():
        if name in keywords:
            only_keyword[name] = value
        else:
            positional.append((name, value))
    if function == "project_queues":
        order = ["offsets", "release", "size", "work", "task_size"]
        positional.sort(key=lambda item: order.index(item[0]))
    return getattr(gridcore, function)(*(value for _, value in positional), **only_keyword)


@pytest.mark.parametrize("function", GOOD)
def test_a_valid_call_succeeds(function):
    call(function)


@pytest.mark.parametrize(("function", "changes", "start", "end"), list(bad_values()))
def test_wrong_values_are_rejected(function, changes, start, end):
    with pytest.raises(ValueError) as excinfo:
        call(function, **changes)
    assert start in str(excinfo.value) and end in str(excinfo.value)


@pytest.mark.parametrize(("function", "changes", "message"), list(bad_types()))
def test_wrong_types_are_rejected(function, changes, message):
    with pytest.raises(TypeError) as excinfo:
        call(function, **changes)
    assert str(excinfo.value) == message


@pytest.mark.parametrize(
    ("function", "changes"),
    [
        ("optimal_stretch", {"work": [1e308, 1e308]}),
        ("optimal_stretch", {"size": [1e-300, 1.0], "work": [1e300, 1.0]}),
        ("optimal_stretch", {"size": [1e-300, 1.0], "work": [1e300, 1.0], "method": "bisection"}),
        ("gap", {"work": [1e308, 1e308]}),
        ("gap", {"work": [1e308, 0.0], "release": [-1e308, 0.0]}),
        ("gap", {"work": [1e300, 1.0], "speed": 1e-10}),
        (
            "project_queues",
            {"size": [1e-300, 1.0], "work": [1e300, 1.0], "task_size": [1e300, 1.0], "offsets": [0, 0, 2]},
        ),
        ("gap", {"release": [-1e308, 1.0], "free_at": 1e308}),
        ("sample_availability", {"work": [1e308, 1e308]}),
        ("sample_availability_batch", {"work": [1e308, 1e308], "offsets": [0, 0, 2]}),
        ("gap", {"stretch": 1e300, "size_new": 1e300, "size": [1e300, 1e300]}),
        ("available_tasks", {"task_size_new": 5e-324, "stretch": 1e300, "size_new": 1e5}),
        ("project_queues", {"work": [1e308, 1e308], "task_size": [1e308, 1e308], "offsets": [0, 0, 2]}),
        ("debit_drop", {"task_size": [1e308, 1e308], "cell_task_size": 1e-9}),
        ("debit_drop", {"tasks": [2**62, 1], "task_size": [1e300, 1.0]}),
    ],
)
def test_values_beyond_float64_are_rejected(function, changes):
    with pytest.raises(OverflowError):
        call(function, **changes)


@pytest.mark.parametrize("function", ["optimal_stretch", "gap", "sample_availability", "meets_deadlines"])
def test_read_only_strided_and_converted_input_is_accepted(function):
    names = [name for name, value in GOOD[function].items() if isinstance(value, list) and len(value) == 2]
    plain = {name: np.array(GOOD[function][name]) for name in names}
    finite = {name: np.where(np.isinf(value), 9.0, value) for name, value in plain.items()}
    expected = call(function, **finite)
    for change in (
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(np.float32),
        lambda x: x.astype(np.int64),
        lambda x: tuple(int(v) for v in x),
        read_only_copy,
    ):
        changed = {name: change(value) for name, value in finite.items()}
        np.testing.assert_equal(call(function, **changed), expected)


def read_only_copy(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def test_input_is_not_changed():
    cells = read_only_copy(np.full((2, *GRID.shape), 7, dtype=np.uint32))
    summaries.aggregate(cells)
    summaries.debit(cells[0], GRID, tasks=1, task_size=1.0, size=4.0, stretch=1.0, leaves=1)
    assert (cells == 7).all()
    work = np.array([4.0])
    left, _, _ = edf.project_queues([0, 1], [0.0], [4.0], work, [1.0], speed=[1.0], free_at=[0.0], until=2.0)
    assert work[0] == 4.0 and left[0] == 2.0


def test_empty_input_is_accepted():
    empty = {name: np.zeros(0) for name in ("release", "size", "work")}
    for nodes in (0, 2):
        node = {"speed": np.ones(nodes), "free_at": np.ones(nodes)}
        left, end, instant = edf.project_queues(
            [0] * (nodes + 1), *empty.values(), np.zeros(0), **node, until=3.0
        )
        assert (left.size, end.tolist(), instant.tolist()) == (0, [3.0] * nodes, [-1] * nodes)
    none = {"speed": np.zeros(0), "free_at": np.zeros(0)}
    batch = availability.sample_availability_batch(GRID, 0.0, [0], *empty.values(), **none, threads=2)
    assert batch.shape == (0, *GRID.shape) and batch.dtype == np.uint32
    assert summaries.aggregate(np.zeros((0, 2, 3), dtype=np.uint32)).tolist() == [[0] * 3] * 2
    assert summaries.lowest_stretch([], 0) is None


def helpers():
    """Return the classes of kernels that are internal."""
    for info in pkgutil.walk_packages(gridcore.__path__, "gridcore."):
        if not info.ispkg:
            module = importlib.import_module(info.name)
            if not module.__file__.endswith(".py"):
                exports = {*getattr(module, "__all__", ())} - {*gridcore.__all__}
                classes = (kind for name, kind in vars(module).items() if name[:1] == "_" or name in exports)
                # omit Python classes, such as messages, and containers of nodes, since these may be copied
                yield from (
                    kind
                    for kind in classes
                    if type(kind) is type
                    and not kind.__flags__ & 1 << 9
                    and not issubclass(kind, containers.Container)
                )


def test_internal_classes_cannot_be_copied():
    # a copy would lack C pointers, and attributes that are set later
    kinds = list(helpers())
    names = {kind.__name__ for kind in kinds}
    assert names >= {
        "_Axes",
        "_Batch",
        "_CheckedQueue",
        "_Debts",
        "_Guard",
        "MessageKind",
        "NodeActions",
    }
    for helper in (availability._Axes(GRID), summaries._Debts([1], [1.0], 1)):
        with pytest.raises(TypeError):
            pickle.dumps(helper)
    for kind in kinds:
        with pytest.raises(TypeError):
            copy.copy(kind.__new__(kind))


NUMBERS = (
    st.integers(-(10**18), 10**18).map(str)
    | st.integers(-9, 9).map("{:+d}".format)
    | st.from_regex(r"-?[0-9]{0,10}\.[0-9]{0,10}", fullmatch=True)
)
ODD = st.sampled_from(("1e5", "1.2.3", "x", "", "-", "+-1", "1\r", "\r", "0" * 19, "²", "1_0", ";", "\0"))
LINES = st.lists(NUMBERS | NUMBERS | NUMBERS | ODD, max_size=4).flatmap(
    lambda words: st.sampled_from((" ", "\t", "  ", " \t ")).map(lambda gap: gap.join(words))
)


@given(
    st.lists(LINES | st.lists(NUMBERS, min_size=3, max_size=4).map(" ".join), max_size=5), st.integers(1, 3)
)
def test_tables_equal_reference(lines: list[str], columns: int) -> None:
    text = "\n".join(lines)
    actual, expected = decimal_numbers(text, columns), reference.decimal_numbers(text, columns)
    assert (None if actual is None else actual.tolist()) == expected


def test_zero_columns_are_rejected() -> None:
    with pytest.raises(ValueError, match="^columns"):
        decimal_numbers("1", 0)


def test_a_huge_number_of_columns_allocates_no_table() -> None:
    """The table is not larger than the text allows."""
    assert decimal_numbers("1 2", 2**60) is None
