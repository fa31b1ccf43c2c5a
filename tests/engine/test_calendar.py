"""The calendar queue against a sorted list, with times for which its pages are split and resized."""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.engine import calendar_queue as calendar
from gridsim.engine.calendar_queue import Calendar

delays = st.sampled_from([0, 1, 3, 50, 10**6, 10**12])


def drain(queue: Calendar) -> Iterator[tuple[int, ...]]:
    while queue.front or queue.fill_front():
        yield queue.front.pop(0)


@pytest.fixture(params=["small pages", "as it is"])
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small pages":
            patch.setattr(calendar, "_FRONT_SIZE", 4)
            patch.setattr(calendar, "_PAGE_SIZE", 2)
            patch.setattr(calendar, "_MIN_PAGE_SIZE", 2)
        yield


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), delays, st.integers(0, 9))))
def test_a_small_calendar_equals_a_sorted_list(steps: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calendar, "_FRONT_SIZE", 2)
        patch.setattr(calendar, "_PAGE_SIZE", 2)
        queue, model = Calendar(), []
        queue.front_limit = 3
        now = 0
        for what, delay, item in steps:
            entry = now + delay * (item + 1), item % 2, item
            if what == 0:
                assert queue.remove(entry) == (entry in model)
                if entry in model:
                    model.remove(entry)
            elif what == 1 and model:
                assert queue.front or queue.fill_front()
                assert queue.front[0] == model[0]
                now = queue.front.pop(0)[0]
                del model[0]
            else:
                queue.add(entry)
                insort(model, entry)
            queue._check()
            assert len(queue) == len(model)
        assert list(drain(queue)) == model


@pytest.mark.parametrize("spread", [1, 1000, 10**6, 10**15])
@pytest.mark.usefixtures("sizes")
def test_entries_are_sorted_for_any_spread_of_times(spread: int) -> None:
    rng = random.Random(spread)
    queue, model = Calendar(), []
    for i in range(3000):
        entry = rng.randrange(spread), 0, i
        queue.add(entry)
        model.append(entry)
    queue._check()
    assert list(drain(queue)) == sorted(model)


@pytest.mark.usefixtures("sizes")
def test_entries_are_sorted_if_their_density_changes() -> None:
    rng = random.Random(3)
    queue, model, now = Calendar(), [], 0
    for i in range(12_000):
        scale = 10 ** (3 * (i // 2000 % 3) + 1)
        entry = now + rng.randrange(scale), rng.randrange(2), i
        queue.add(entry)
        insort(model, entry)
        if i % 2000 > 700:
            for _ in range(rng.randrange(3)):
                if queue.front or queue.fill_front():
                    assert queue.front[0] == model.pop(0)
                    now = queue.front.pop(0)[0]
        if i % 500 == 0:
            queue._check()
    assert list(drain(queue)) == model


def test_entries_of_one_instant_stay_together() -> None:
    queue = Calendar()
    for i in range(5000):
        queue.add((i // 1000, 0, i))
    seen = 0
    while queue.front or queue.fill_front():
        time = queue.front[0][0]
        end = sum(entry[0] == time for entry in queue.front)
        assert end == 1000
        del queue.front[:end]
        seen += end
    assert seen == 5000


def test_pages_adapt_to_the_number_of_entries() -> None:
    rng = random.Random(5)
    queue = Calendar()
    for i in range(20_000):
        queue.add((rng.randrange(10**9), 0, i))
    queue.fill_front()
    while queue.front:
        queue.front.pop()
    queue.fill_front()
    assert 8 < len(queue) / len(queue._pages) < 256
