"""Slot schedules: kernel and reference are equal, reservations never overlap, and starts are the earliest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.dgs.slots import SlotSchedules
from tests.reference.slots import SlotSchedules as Reference

BOTH = [SlotSchedules, Reference]
NODES = 6

nodes = st.integers(0, NODES - 1)
slots = st.integers(1, 5) | st.integers(1, 40)
starts = st.integers(0, 30)
instants = st.integers(0, 12)


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Draw calls on schedules at ascending instants."""
    story: list[tuple[Any, ...]] = []
    now = 0
    for _ in range(draw(st.integers(0, 25))):
        now += draw(st.integers(0, 1))
        kind = draw(
            st.sampled_from(("reserve", "reserve", "reserve", "release", "cut", "extend", "lose", "forget"))
        )
        if kind == "reserve":
            story.append((kind, draw(nodes), draw(starts), draw(slots), now))
        elif kind in ("release", "cut"):
            whose = draw(st.none() | st.integers(0, 3))
            story.append((kind, draw(nodes), draw(st.integers(0, 5)), draw(st.integers(0, 6)), whose, now))
        elif kind == "extend":
            story.append(
                (
                    kind,
                    draw(nodes),
                    draw(st.integers(0, 5)),
                    draw(st.integers(-2, 40)),
                    draw(st.booleans()),
                    now,
                )
            )
        elif kind == "lose":
            story.append((kind, draw(nodes), draw(starts), now))
        elif draw(st.booleans()):
            story.append((kind, draw(st.integers(0, 10)), now - draw(st.integers(1, 6))))
    return story


def call_results(schedules: Any, story: list[tuple[Any, ...]]) -> list[Any]:
    """Make the calls, and return their results."""
    answers: list[Any] = []
    for number, (kind, *rest) in enumerate(story):
        if kind == "reserve":
            node, start, count, now = rest
            answers.append(schedules.reserve([node], [start], [count], [number], now).tolist())
        elif kind in ("release", "cut"):
            node, k, more, whose, now = rest
            begins, ends, _ = schedules.reservations(node)
            if not len(begins):
                continue
            k %= len(begins)
            begin = int(begins[k])
            to = None if kind == "release" else [min(begin + more, int(ends[k]) + 1)]
            jobs = None if whose is None else [whose]
            answers.append(schedules.release([node], [begin], now, ends=to, jobs=jobs).tolist())
        elif kind == "extend":
            node, k, more, whose, now = rest
            begins, ends, jobs = schedules.reservations(node)
            if not len(begins):
                continue
            k %= len(begins)
            to = max(0, int(ends[k]) + more)
            met = schedules.extend(node, int(begins[k]), to, int(jobs[k]) if whose else -1, now)
            answers.append(None if met is None else [column.tolist() for column in met])
        elif kind == "lose":
            answers.append([column.tolist() for column in schedules.lose([rest[0]], rest[1], rest[2])])
        else:
            schedules.forget(*rest)
    return answers


def table(schedules: Any) -> list[Any]:
    return [[column.tolist() for column in schedules.reservations(node)] for node in range(NODES)]


@given(stories(), st.booleans(), st.data())
def test_kernel_and_reference_are_equal(
    story: list[tuple[Any, ...]], stale: bool, data: st.DataObject
) -> None:
    kernel, reference = SlotSchedules(NODES, stale=stale), Reference(NODES, stale=stale)
    assert call_results(kernel, story) == call_results(reference, story)
    assert table(kernel) == table(reference)
    candidates = data.draw(st.permutations(range(NODES)))[: data.draw(st.integers(0, NODES))]
    expected, length, since = data.draw(st.integers(1, NODES)), data.draw(slots), data.draw(starts)
    seen = data.draw(st.none() | st.lists(instants, min_size=len(candidates), max_size=len(candidates)))
    seen = seen if stale else None
    known = [int(job) for node in range(NODES) for job in kernel.reservations(node)[2]]
    own_job = data.draw(st.none() | st.sampled_from([-1, *known]))
    actual = [
        item.earliest_start(candidates, expected, length, since, as_of=seen, own_job=own_job)
        for item in (kernel, reference)
    ]
    assert (actual[0] is None) == (actual[1] is None) == (len(candidates) < expected)
    if actual[0] is not None:
        assert (actual[0][0], actual[0][1].tolist()) == (actual[1][0], actual[1][1].tolist())
    free = [
        item.is_free(candidates, since, length, as_of=seen, own_job=own_job).tolist()
        for item in (kernel, reference)
    ]
    assert free[0] == free[1]
    # a kernel restored from a checkpoint gives the same answers
    second = SlotSchedules(NODES, stale=stale)
    second.setstate(kernel.getstate())
    assert table(second) == table(kernel)
    other = second.earliest_start(candidates, expected, length, since, as_of=seen, own_job=own_job)
    assert other is None or (other[0], other[1].tolist()) == (actual[0][0], actual[0][1].tolist())


@given(stories(), st.data())
def test_searches_of_kernel_and_reference_are_equal(
    story: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    stale = data.draw(st.booleans())
    kernel, reference = SlotSchedules(NODES, stale=stale), Reference(NODES, stale=stale)
    call_results(kernel, story)
    call_results(reference, story)
    degree = data.draw(st.integers(1, 4))
    row = st.lists(st.integers(-1, NODES - 1), min_size=degree, max_size=degree)
    views = np.array(data.draw(st.lists(row, min_size=NODES, max_size=NODES)), np.int32)
    each_its_own = st.lists(instants, min_size=NODES, max_size=NODES)
    seen = data.draw(st.none() | instants | each_its_own) if stale else None
    arguments: dict[str, Any] = {
        "exclude": data.draw(st.integers(-1, NODES - 1)),
        "include_searcher": data.draw(st.booleans()),
        "hops": data.draw(st.integers(1, 3)),
        "wide": data.draw(st.booleans()),
        "as_of": seen,
        **{
            name: data.draw(st.none() | st.lists(st.booleans(), min_size=NODES, max_size=NODES).map(np.array))
            for name in ("known_down", "suitable")
        },
        "poll_period": 0 if seen is None else data.draw(st.sampled_from((0, 3, 10))),
        "until": data.draw(st.integers(0, 60)),
    }
    searchers = data.draw(st.lists(nodes, max_size=4))
    k = len(searchers)
    job = [
        data.draw(item | st.lists(item, min_size=k, max_size=k))
        for item in (st.integers(1, NODES), slots, starts)
    ]
    one, two = (
        [column.tolist() for column in item.search(views, searchers, *job, **arguments)]
        for item in (kernel, reference)
    )
    assert one == two


def test_many_reservations_and_searches_equal_reference() -> None:
    """Many reservations, some of them released or cut, seen as of many instants."""
    rng = np.random.default_rng(2)
    kernel, reference = SlotSchedules(NODES, stale=True), Reference(NODES, stale=True)

    def call_both(call: str, *arguments: Any, **options: Any) -> Any:
        one, two = (getattr(item, call)(*arguments, **options) for item in (kernel, reference))
        assert (one is None) == (two is None)
        if one is None:
            return None
        one, two = (
            [np.asarray(x).tolist() for x in (y if isinstance(y, tuple) else (y,))] for y in (one, two)
        )
        assert one == two
        return one

    for now in range(150):
        node = rng.integers(0, NODES, 3)
        call_both(
            "reserve",
            node,
            rng.integers(0, 60, 3),
            rng.integers(1, 9, 3),
            rng.integers(0, 4, 3),
            now,
        )
        begins, ends, jobs = call_both("reservations", int(node[0]))
        for k in range(len(begins)):
            if rng.random() < 0.3:
                to = None if rng.random() < 0.5 else [int(rng.integers(begins[k], ends[k] + 2))]
                whose = None if rng.random() < 0.5 else [int(rng.integers(0, 4))]
                call_both("release", node[:1], [begins[k]], now, ends=to, jobs=whose)
        if now % 9 == 0:
            call_both("lose", node[1:2], int(rng.integers(0, 60)), now)
        if now % 20 == 19:
            call_both("forget", int(rng.integers(0, 6)), now - 12)
        seen = rng.integers(max(0, now - 10), now + 2, NODES)
        job = int(rng.integers(1, NODES + 1)), int(rng.integers(1, 9)), int(rng.integers(0, 50))
        own_job = None if rng.random() < 0.3 else int(rng.integers(0, 4))
        call_both("earliest_start", rng.permutation(NODES), *job, as_of=seen, own_job=own_job)
        call_both("is_free", np.arange(NODES), job[2], job[1], as_of=seen, own_job=own_job)
        call_both(
            "search",
            rng.integers(-1, NODES, (NODES, 2)).astype(np.int32),
            rng.integers(0, NODES, 3),
            rng.integers(1, NODES, 3),
            rng.integers(1, 9, 3),
            rng.integers(0, 50, 3),
            exclude=rng.integers(-1, NODES, 3) if now % 3 else int(node[0]),
            include_searcher=bool(now % 7 < 4),
            hops=int(rng.integers(1, 4)),
            wide=bool(now % 2),
            known_down=None if now % 4 else rng.random(NODES) < 0.3,
            as_of=seen,
            poll_period=0 if now % 5 else 3,
            until=now,
        )


@given(stories(), st.data())
def test_searches_find_the_earliest_start(story: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """Brute force tries each slot and each set of nodes."""
    schedules = SlotSchedules(NODES)
    call_results(schedules, story)
    count, length, since = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6)), data.draw(starts)
    actual = schedules.earliest_start(range(NODES), count, length, since)
    assert actual is not None
    start, selection = actual
    busy = [
        {slot for begin, end, _ in zip(*schedules.reservations(u), strict=True) for slot in range(begin, end)}
        for u in range(NODES)
    ]

    def fits(group: Any, instant: int) -> bool:
        return all(not busy[u] & set(range(instant, instant + length)) for u in group)

    assert start >= since and len(set(selection.tolist())) == count and fits(selection.tolist(), start)
    for instant in range(since, start):
        assert not any(fits(group, instant) for group in combinations(range(NODES), count))


@given(stories(), st.lists(st.tuples(nodes, starts, slots), max_size=6), nodes)
def test_stale_views_never_see_the_future(
    story: list[tuple[Any, ...]], after: list[tuple[int, int, int]], cut: int
) -> None:
    """Events after an instant do not change the schedule seen as of that instant."""
    schedules = SlotSchedules(NODES, stale=True)
    call_results(schedules, [step for step in story if step[0] != "forget"])
    seen = 40  # later than all events of the story
    everyone = np.arange(NODES)

    def look() -> Any:
        free = [schedules.is_free(everyone, instant, 3, as_of=seen).tolist() for instant in range(0, 60, 2)]
        start, selection = schedules.earliest_start(everyone, 3, 4, 5, as_of=np.full(NODES, seen))
        return free, start, selection.tolist()

    before = look()
    assert before == (
        [schedules.is_free(everyone, instant, 3).tolist() for instant in range(0, 60, 2)],
        *(lambda actual: (actual[0], actual[1].tolist()))(schedules.earliest_start(everyone, 3, 4, 5)),
    )
    for node, start, length in after:
        schedules.reserve([node], [start], [length], [1], seen + 1)
    schedules.lose([cut], 0, seen + 2)
    begins, _, _ = schedules.reservations((cut + 1) % NODES)
    schedules.release(np.full(len(begins), (cut + 1) % NODES), begins, seen + 3)
    assert look() == before
    schedules.forget(0, seen)  # no view is as of an earlier instant
    assert look() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.reserve([9], [0], [1], [0], 0), r"nodes\[0\] must be in 0..2, got 9"),
        (lambda s: s.reserve([0], [-1], [1], [0], 0), r"starts\[0\] must be in 0..\d+, got -1"),
        (lambda s: s.reserve([0], [0], [0], [0], 0), r"slots\[0\] must be in 1..\d+, got 0"),
        (
            lambda s: s.reserve([0], [2**61], [1], [0], 0),
            r"starts\[0\] must be in 0..2305843009213693951, got 2305843009213693952",
        ),
        (
            lambda s: s.reserve([0, 1], [0], [1], [0], 0),
            "nodes and the arrays with it must be equally long, got 2, 1, 1, 1",
        ),
        (lambda s: s.release([0], [3], 0, ends=[2]), r"ends\[0\] must be at least starts\[0\], 3, got 2"),
        (lambda s: s.release([0], [-1], 0), r"starts\[0\] must be in 0..\d+, got -1"),
        (
            lambda s: s.release([0, 1], [3], 0),
            "nodes and the arrays with it must be equally long, got 2, 1, 1, 1",
        ),
        (
            lambda s: s.release([0], [3, 4], 0, ends=[5]),
            "nodes and the arrays with it must be equally long, got 1, 2, 1, 2",
        ),
        (
            lambda s: s.release([0], [3], 0, ends=[5, 6]),
            "nodes and the arrays with it must be equally long, got 1, 1, 2, 1",
        ),
        (
            lambda s: s.release([0], [3], 0, jobs=[5, 6]),
            "nodes and the arrays with it must be equally long, got 1, 1, 1, 2",
        ),
        (
            lambda s: s.is_free([0], 0, 2**61),
            "slots must be in 1..2305843009213693951, got 2305843009213693952",
        ),
        (
            lambda s: s.is_free([0], 2**61, 1),
            "not_before must be in 0..2305843009213693951, got 2305843009213693952",
        ),
        (
            lambda s: s.earliest_start([0, 1, 0], 1, 1, 0),
            r"candidates\[2\] must differ from the candidates before it, got 0",
        ),
        (lambda s: s.earliest_start([0], 0, 1, 0), "n_nodes must be >= 1, got 0"),
        (lambda s: s.earliest_start([0], 1, 0, 0), r"slots must be in 1..\d+, got 0"),
        (lambda s: s.earliest_start([0], 1, 1, -1), r"not_before must be in 0..\d+, got -1"),
        (
            lambda s: s.is_free([0], 0, 1, as_of=[1]),
            "as_of requires stale=True",
        ),
        (lambda s: s.reservations(3), "node must be in 0..2, got 3"),
        (lambda s: s.search(np.zeros((2, 1), np.int32), [0], 1, 1, 0), "views must have 3 rows, got 2"),
        (
            lambda s: s.search(np.full((3, 1), 3, np.int32), [0], 1, 1, 0),
            r"views\[0, 0\] must be below 3, got 3",
        ),
        (lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, hops=0), "hops must be >= 1, got 0"),
        (
            lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, poll_period=-1),
            "poll_period must be >= 0 ns, got -1",
        ),
        (
            lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, known_down=np.zeros(2, np.bool_)),
            r"known_down must be bool\[3\], got bool\[2\]",
        ),
        (
            lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, suitable=np.zeros(3)),
            r"suitable must be bool\[3\], got float64\[3\]",
        ),
        (
            lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, known_down=[False] * 3),
            r"known_down must be bool\[3\], got list",
        ),
        (
            lambda s: s.search(np.zeros((3, 1), np.int32), [0], 1, 1, 0, poll_period=1),
            "poll_period requires as_of",
        ),
        *(
            (
                lambda s, job=job: s.search(np.zeros((3, 1), np.int32), [0, 1], *job[:3], exclude=job[3]),
                f"{name} must have 2 entries, one for each searcher, got 1",
            )
            for name, job in {
                "n_nodes": ([1], 1, 0, -1),
                "slots": (1, [1], 0, -1),
                "not_before": (1, 1, [0], -1),
                "exclude": (1, 1, 0, [1]),
            }.items()
        ),
    ],
)
def test_wrong_arguments_are_rejected(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(SlotSchedules(3))


@pytest.mark.parametrize("count", [-1, 2**31, 1.5, True, None])
def test_wrong_numbers_of_nodes_are_rejected(count: Any) -> None:
    with pytest.raises(ValueError, match="^nodes"):
        SlotSchedules(count)


def test_arguments_of_wrong_types_are_rejected() -> None:
    calls = {
        "nodes": lambda s: s.reserve([0.5], [0], [1], [0], 0),
        "starts": lambda s: s.reserve([0], [0.5], [1], [0], 0),
        "slots": lambda s: s.reserve([0], [0], [1.5], [0], 0),
        "jobs": lambda s: s.reserve([0], [0], [1], [0.5], 0),
        "ends": lambda s: s.release([0], [0], 0, ends=[0.5]),
        "as_of": lambda s: s.is_free([0], 0, 1, as_of=[0.5]),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name}"):
            call(SlotSchedules(3, stale=True))
    with pytest.raises(TypeError, match="^jobs"):
        SlotSchedules(3).release([0], [0], 0, jobs=[0.5])
    with pytest.raises(TypeError, match="^n_nodes"):
        SlotSchedules(3).search(np.zeros((3, 1), np.int32), [0], [0.5], 1, 0)


def test_unaligned_and_reversed_views_give_equal_searches() -> None:
    """Views at an odd address, and with negative strides, give the same nodes; None is not accepted."""
    views = np.array([[1, 2], [2, 0], [0, 1]], np.int32)
    odd = np.zeros(views.nbytes + 1, np.uint8)[1:].view(np.int32).reshape(views.shape)
    odd[...] = views
    assert not odd.flags.aligned
    expected = SlotSchedules(3).search(views, [0, 1], 2, 1, 0)
    for other in (odd, views[::-1].copy()[::-1]):
        actual = SlotSchedules(3).search(other, [0, 1], 2, 1, 0)
        assert [item.tolist() for item in actual] == [item.tolist() for item in expected]
    with pytest.raises(TypeError, match="^views"):
        SlotSchedules(3).search(None, [0], 1, 1, 0)  # type: ignore[arg-type]


def test_the_earliest_start_is_found_in_months_of_reservations() -> None:
    """In 2.7 months of full 60 s slots on 120 nodes, the chosen start is free and the earliest."""
    rng = np.random.default_rng(1)
    schedules = SlotSchedules(120)
    horizon, every = 117_000, np.arange(120)
    for job in range(700):
        count = int(rng.integers(1, 64))
        length, since = int(rng.integers(1, 600)), int(rng.integers(0, horizon))
        start, selection = schedules.earliest_start(rng.permutation(every), count, length, since)
        assert start >= since
        assert schedules.reserve(selection, [start] * count, [length] * count, [job] * count, job).all()
    start, selection = schedules.earliest_start(every, 64, 30, 50_000)
    reference = Reference(120)
    for node in range(120):
        begins, ends, jobs = schedules.reservations(node)
        assert reference.reserve([node] * len(begins), begins, ends - begins, jobs, 0).all()
    actual = reference.earliest_start(every, 64, 30, 50_000)
    assert actual is not None and (actual[0], actual[1].tolist()) == (start, selection.tolist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reservations": [[9, 0, 1, 0, 0]]}, r"must have node in 0\.\.2"),
        ({"reservations": [[-1, 0, 1, 0, 0]]}, r"must have node in 0\.\.2"),
        ({"reservations": [[0, 5, 5, 0, 0]]}, "a reservation that ends after its start"),
        ({"reservations": [[0, -5, 5, 0, 0]]}, r"must have start in 0\.\."),
        ({"reservations": [[0, 0, 2**62, 0, 0]]}, r"must have end in 0\.\."),
        ({"reservations": [[0, 0, 5, 0, 0], [0, 4, 6, 0, 0]]}, r"\[1\] must not overlap another reservation"),
        ({"gone": [[0, 5, 5, 0, 0]]}, "a reservation that ends after its start"),
        ({"gone": [[0, 5, 6, 0]]}, r"state\['gone'\] must be int64\(any, 5\), got int64\(1, 4\)"),
    ],
)
def test_impossible_states_are_rejected(change: dict[str, Any], message: str) -> None:
    good = SlotSchedules(3, stale=True).getstate()
    for name, rows in change.items():
        with pytest.raises(ValueError, match=message):
            SlotSchedules(3, stale=True).setstate({**good, name: np.array(rows, np.int64)})
