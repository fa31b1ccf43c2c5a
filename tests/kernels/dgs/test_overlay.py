"""CYCLON: kernel and reference are equal, views are valid, and the overlay stays connected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridcore.dgs.overlay import Views, _vector_level
from tests.reference.overlay import Views as Reference

BOTH = [Views, Reference]


def check_views(views: Any) -> None:
    """Check that no view has its own node or duplicates, and that empty entries are last."""
    for u, row in enumerate(views.views.tolist()):
        known = [entry for entry in row if entry >= 0]
        assert u not in known and len(set(known)) == len(known)
        assert row == known + [-1] * (len(row) - len(known))


@pytest.fixture(params=[0, 1], ids=["plain", "avx512"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test with each variant of the kernel; the plain one replaces those that the processor lacks."""
    actual: int = _vector_level(request.param)
    yield actual
    _vector_level(1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    # rows that fit in one vector, rows that need two, and rows too long for the variant with wide vectors
    st.one_of(
        st.tuples(st.integers(1, 12), st.integers(1, 5)), st.tuples(st.integers(30, 45), st.integers(14, 36))
    ),
    st.integers(0, 2**64 - 1),
    st.data(),
)
def test_kernel_and_reference_are_equal(size: tuple[int, int], seed: int, data: st.DataObject) -> None:
    nodes, degree = size
    shuffle = data.draw(st.integers(1, degree))
    pair = [kind(nodes, degree, shuffle=shuffle, seed=seed) for kind in BOTH]
    up = np.ones(nodes, np.bool_)
    for _ in range(data.draw(st.integers(0, 12))):
        what = data.draw(st.sampled_from(("cycle", "cycle", "leave", "join")))
        node = data.draw(st.integers(0, nodes - 1))
        if what == "cycle":
            there = data.draw(st.sampled_from((None, up)))
            assert pair[0].cycle(there) == pair[1].cycle(there)
        elif what == "leave":
            up[node] = False
            for views in pair:
                views.leave([node])
        else:
            other = data.draw(st.integers(0, nodes - 1))
            if node == other or (pair[0].views[node] >= 0).any():
                continue
            up[node] = True
            steps = data.draw(st.integers(0, 4))
            for views in pair:
                views.join(node, other, steps=steps, up=up)
        assert np.array_equal(pair[0].views, pair[1].views)
        assert np.array_equal(pair[0].ages, pair[1].ages)
        assert np.array_equal(pair[0].in_degree(), pair[1].in_degree())
        check_views(pair[0])
        k = data.draw(st.integers(0, 3))
        sample = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=k, max_size=k)
        nodes_drawn = data.draw(st.lists(st.integers(0, nodes - 1), min_size=k, max_size=k))
        arguments = nodes_drawn, data.draw(sample), data.draw(sample), data.draw(st.integers(0, 6))
        away = data.draw(st.sampled_from((None, ~up)))
        one, two = ([c.tolist() for c in item.pick(*arguments, seed=seed, known_down=away)] for item in pair)
        assert one == two
    second = Views(nodes, degree, shuffle=shuffle)
    second.setstate(pair[0].getstate())
    assert second.cycle(up) == pair[0].cycle(up)
    assert np.array_equal(second.views, pair[0].views) and np.array_equal(second.ages, pair[0].ages)


def test_kernel_and_reference_are_equal_while_many_nodes_come_and_go() -> None:
    """Joining nodes are introduced by nodes that know no node, a few, or as many as they can."""
    rng = np.random.default_rng(5)
    pair = [kind(24, 3, shuffle=2, seed=9) for kind in BOTH]
    up = np.ones(24, np.bool_)
    for _ in range(150):
        node, other = (int(item) for item in rng.choice(24, 2, replace=False))
        options: dict[str, Any] = {"steps": int(rng.integers(0, 4))} if rng.random() < 0.7 else {}
        if rng.random() < 0.8:
            options["up"] = up
        for views in pair:
            views.leave([node])  # a node that has left may have introduced others
            if not up[node]:
                views.join(node, other, **options)
        up[node] = not up[node]
        if rng.random() < 0.1:
            assert pair[0].cycle(up) == pair[1].cycle(up)
        assert np.array_equal(pair[0].views, pair[1].views)
        assert np.array_equal(pair[0].ages, pair[1].ages)
        check_views(pair[0])


def test_defaults_of_kernel_and_reference_are_equal() -> None:
    views, reference, message = Views(40, 10), Reference(40, 10), Views(40, 10, shuffle=8, seed=0)
    for item in (views, reference, message):
        item.cycle()
        item.leave([3])
    for item, options in ((views, {}), (reference, {}), (message, {"steps": 5})):
        item.join(3, 4, **options)
    assert views.views.tolist() == reference.views.tolist() == message.views.tolist()
    picked = [
        item.pick([1], [2], [3], 4, **options)[1].tolist()
        for item, options in ((views, {}), (reference, {}), (message, {"seed": 0}))
    ]
    assert picked[0] == picked[1] == picked[2]


@pytest.mark.parametrize("kind", BOTH)
def test_views_have_the_declared_types_and_limits(kind: Callable[..., Any]) -> None:
    views = kind(2, 1, shuffle=1)
    assert views.views.dtype == np.int32 and views.ages.dtype == np.uint8
    assert [column.dtype for column in views.pick([], [], [], 3)] == [np.int64, np.int64]
    for _ in range(260):
        views.cycle()
    assert views.ages.tolist() == [[255], [255]]  # the maximum age
    views = kind(3, 2, shuffle=1)
    views.leave([0, 1, 2])
    views.join(0, 1, steps=2**16)  # also works through a node that knows no other node
    assert views.views.tolist() == [[1, -1], [0, -1], [-1, -1]]


@pytest.mark.parametrize("seed", [1, 2])
def test_shuffling_evens_out_the_in_degrees(seed: int) -> None:
    """In-degrees of a random graph deviate by 20**0.5; shuffling reduces that, as published."""
    views = Views(20_000, 20, seed=seed)
    first = views.in_degree()
    assert first.mean() == 20.0 and abs(first.std() - 20**0.5) < 0.15
    for _ in range(60):
        views.cycle()
    shuffled = views.in_degree()
    assert shuffled.mean() == 20.0 and 1.0 < shuffled.std() < 2.0
    assert shuffled.min() >= 10 and shuffled.max() <= 30
    # the views are independent of the first ones
    assert (views.views == Views(20_000, 20, seed=seed).views).mean() < 0.001


def test_views_are_drawn_uniformly() -> None:
    """Each other node is equally likely, even if a view has nearly all nodes."""
    for nodes in (5, 6):  # views are dealt for 5 nodes, and drawn for 6
        counts = np.zeros((nodes, nodes))
        for seed in range(4000):
            views = Views(nodes, 2, shuffle=1, seed=seed)
            for u, row in enumerate(views.views.tolist()):
                counts[u, row] += 1
        off, mean = counts[~np.eye(nodes, dtype=bool)], 4000 * 2 / (nodes - 1)
        assert (np.diag(counts) == 0).all() and off.mean() == mean
        assert abs(off - mean).max() < 5 * mean**0.5


@pytest.mark.parametrize("kind", BOTH)
def test_a_pick_depends_only_on_its_arguments(kind: Callable[..., Any]) -> None:
    views = kind(30, 8, shuffle=3, seed=5)
    offsets, selection = views.pick([4, 4, 9], [1, 2, 1], [0, 0, 0], 3, seed=7)
    assert offsets.tolist() == [0, 3, 6, 9]
    assert all(len(set(part)) == 3 for part in selection.reshape(3, 3).tolist())
    assert set(selection[:6].tolist()) <= set(views.views[4].tolist())
    for i, (node, first) in enumerate([(4, 1), (4, 2), (9, 1)]):
        assert (
            views.pick([node], [first], [0], 3, seed=7)[1].tolist() == selection[3 * i : 3 * i + 3].tolist()
        )
    # each neighbour equally often: 3 of 8 in 4000 draws, +- 4 standard deviations
    sample = views.pick([4] * 4000, range(4000), [1] * 4000, 3)[1]
    assert (np.abs(np.bincount(sample, minlength=30)[views.views[4]] - 1500) < 4 * 30.6).all()


def test_tables_of_views_are_read_only() -> None:
    views = Views(5, 2, shuffle=1)
    for table in (views.views, views.ages):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1
    displayed = views.views
    views.cycle()
    assert np.array_equal(displayed, views.views)  # the displayed table has the views after the cycle


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "nodes must be in 1..2147483647, got 0"),
        ((5, 0), "degree must be in 1..32768, got 0"),
        ((5, 2, {"shuffle": 3}), "shuffle must be in 1..2, got 3"),
        ((5, 2, {"shuffle": 1, "seed": -1}), r"seed must be in 0..\d+, got -1"),
        ((5, 2, {"shuffle": True}), "shuffle must be in 1..2, got True"),
        ((5.0, 2), "nodes must be in 1..2147483647, got 5.0"),
    ],
)
def test_wrong_arguments_of_views_are_rejected(arguments: tuple[Any, ...], message: str) -> None:
    more = arguments[-1] if isinstance(arguments[-1], dict) else {"shuffle": 1}
    with pytest.raises(ValueError, match=f"^{message}$"):
        Views(*arguments[:2], **more)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v.cycle([True] * 4), r"up must be bool\[4\], got list"),
        (lambda v: v.cycle(np.ones(3, np.bool_)), r"up must be bool\[4\], got bool\[3\]"),
        (lambda v: v.leave([4]), r"nodes\[0\] must be in 0..3, got 4"),
        (lambda v: v.join(4, 0), "node must be in 0..3, got 4"),
        (lambda v: v.join(0, -1), "introducer must be in 0..3, got -1"),
        (lambda v: v.join(0, 0), "introducer must differ from node, 0, got 0"),
        (lambda v: v.join(0, 1), "node must have an empty view, got 0, which knows 2 nodes"),
        (lambda v: (v.leave([0]), v.join(0, 1, steps=-1)), "steps must be in 0..65536, got -1"),
        (lambda v: (v.leave([0]), v.join(0, 1, steps=65537)), "steps must be in 0..65536, got 65537"),
        (lambda v: v.leave([0.5]), "nodes must hold integers, got dtype float64"),
        (lambda v: v.pick([0], [0.5], [0], 1), "first must hold integers, got dtype float64"),
        (lambda v: v.pick([0], [0], [0.5], 1), "second must hold integers, got dtype float64"),
        (
            lambda v: v.pick([0, 1], [0], [0, 1, 2], 1),
            "nodes, first and second must be equally long, got 2, 1, 3",
        ),
        (lambda v: v.pick([0], [0], [0], -1), "count must be >= 0, got -1"),
        (
            lambda v: v.pick([0], [0], [0], 1, known_down=np.zeros(3, np.bool_)),
            r"known_down must be bool\[4\], got bool\[3\]",
        ),
    ],
)
def test_wrong_arguments_of_calls_are_rejected(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{message}$"):
        call(Views(4, 2, shuffle=2))


@pytest.mark.parametrize(
    ("name", "value"),
    [("views", [[9, -1]] * 4), ("views", [[-1, 2]] * 4), ("views", [[0]] * 4), ("ages", [[0, 0]] * 3)],
)
def test_impossible_states_are_rejected(name: str, value: Any) -> None:
    good = Views(4, 2, shuffle=1).getstate()
    with pytest.raises(ValueError, match=rf"state\['{name}'\]"):
        Views(4, 2, shuffle=1).setstate({**good, name: np.array(value, good[name].dtype)})
