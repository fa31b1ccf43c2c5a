"""Faults: the events of each recipe, and rejected recipes."""

from __future__ import annotations

import warnings
from itertools import islice
from math import gamma, inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.engine import engine
from gridsim.model import fault_events
from gridsim.model.fault_events import LATEST_CHANGE
from gridsim.model.faults import Faults
from gridsim.support.clock import NEVER
from gridsim.support.random_streams import Streams
from gridsim.testing.cases import fault_schedules

NS = 10**9
WORD: Any = "1"  # a string in place of a number

DRAWN = {
    "poisson": Faults.poisson(50.0, 1),
    "exponential": Faults.exponential(up=40.0, down=5.0, seed=2),
    "never down": Faults.exponential(up=40.0, down=0.0, seed=2),
    "weibull": Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3),
    "of nanoseconds": Faults.exponential(up=2e-9, down=1e-9, seed=4),
}


def rows_of(block: fault_events.Events) -> list[tuple[int, int, bool, int]]:
    """Return the rows (ns, machine, up, until) of a block."""
    return list(zip(*(c.tolist() for c in (block.time, block.machine, block.up, block.until)), strict=True))


def changes(faults: Faults, nodes: int, blocks: int) -> list[tuple[int, int, bool]]:
    """Return the rows (ns, machine, up) of the first blocks."""
    return [row[:3] for block in islice(faults.course(nodes).blocks, blocks) for row in rows_of(block)]


def check_alternation(rows: list[tuple[int, int, bool]], nodes: int) -> None:
    """Check that rows are in order, and that outages of a machine alternate with nonempty up times."""
    assert [time for time, _, _ in rows] == sorted(time for time, _, _ in rows)
    for u in range(nodes):
        own = [(time, up) for time, machine, up in rows if machine == u]
        assert [up for _, up in own] == [k % 2 == 1 for k in range(len(own))]
        downs = [time for time, up in own if not up]
        ups = [time for time, up in own if up]
        assert all(begin < end for begin, end in zip(ups, downs[1:], strict=False))


def check_until(faults: Faults, nodes: int, blocks: int) -> None:
    """Check the time of the next change, of each change and at the beginning, within the first blocks."""
    course = faults.course(nodes)
    assert course.first.dtype == np.int64 and course.first.shape == (nodes,)
    due, last = course.first.tolist(), 0
    for block in islice(course.blocks, blocks):
        assert block.until.dtype == np.int64
        for time, u, _, until in rows_of(block):
            assert due[u] == time
            due[u], last = until, time
    after = next(course.blocks, None)
    assert (
        all(instant == NEVER for instant in due) if after is None else all(instant >= last for instant in due)
    )


def test_constants_for_never_are_equal_in_all_modules() -> None:
    assert NEVER == engine.NEVER and fault_events.CLOCK_END == LATEST_CHANGE * NS


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_each_drawn_change_states_the_time_of_the_next_one(name: str) -> None:
    for nodes in (1, 7, 700):
        check_until(DRAWN[name], nodes, 3)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9).flatmap(lambda nodes: st.tuples(st.just(nodes), fault_schedules(nodes))))
def test_each_listed_change_states_the_time_of_the_next_one(of: tuple[int, Faults]) -> None:
    nodes, faults = of
    check_until(faults, nodes, 9)


def test_a_listed_failure_may_occur_at_time_0() -> None:
    faults = Faults.of([0, 1, 2, 2], [0.0, 0.0, 3.0, 8e9], [0.0, 5.0, 4.0, 8e9])
    assert faults.course(4).first.tolist() == [0, 0, 3 * NS, NEVER]
    (block,) = faults.course(4).blocks
    assert [(t / NS, u, up, until / NS) for t, u, up, until in rows_of(block)] == [
        (0.0, 0, False, 0.0),
        (0.0, 0, True, NEVER / NS),
        (0.0, 1, False, 5.0),
        (3.0, 2, False, 4.0),
        (4.0, 2, True, 8e9),
        (5.0, 1, True, NEVER / NS),
        (8e9, 2, False, 8e9),
        (8e9, 2, True, NEVER / NS),
    ]


@pytest.mark.parametrize("name", DRAWN)
def test_failures_and_recoveries_of_a_machine_alternate(name: str) -> None:
    rows = changes(DRAWN[name], 7, 1)[:20_000]
    assert len(rows) > 500
    check_alternation(rows, 7)


def test_drawn_times_have_the_stated_means() -> None:
    rows = changes(Faults.exponential(up=40.0, down=5.0, seed=9), 50, 1)
    up, down, last = [], [], dict.fromkeys(range(50), 0)
    for time, machine, is_up in rows:
        (down if is_up else up).append(time - last[machine])
        last[machine] = time
    assert np.mean(up) == pytest.approx(40.0 * NS, rel=0.05)
    assert np.mean(down) == pytest.approx(5.0 * NS, rel=0.05)


def test_draws_depend_on_the_seed_alone() -> None:
    one, same = (changes(Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3), 900, 1) for _ in range(2))
    assert one == same
    assert one != changes(Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=8), 900, 1)


BEYOND_DOWN = r"faults.down\[0\] must be at most 8e\+09 s, got 16000000000.0"
BEYOND_UP = r"faults.up\[0\] must be at most 8e\+09 s, or inf, got 16000000000.0"
TOO_EARLY = r"faults.down\[1\] must be at least 1 ns after the recovery of machine 0"


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"machine": [0], "down": [1.0], "up": [0.5]}, r"faults.up\[0\] must be .* 1.* s, got 0.5"),
        ({"machine": [0], "down": [nan], "up": [1.0]}, r"faults.down\[0\] must be"),
        ({"machine": [0], "down": [-1.0], "up": [1.0]}, r"faults.down\[0\] must be"),
        ({"machine": [-1], "down": [1.0], "up": [1.0]}, r"faults.machine\[0\] must be"),
        ({"machine": [0.5], "down": [1.0], "up": [1.0]}, r"faults.machine\[0\] must be"),
        ({"machine": [0], "down": [1.0, 2.0], "up": [1.0]}, "faults.machine, .down and .up must be equal"),
        ({"machine": [0], "down": [2 * LATEST_CHANGE], "up": [inf]}, BEYOND_DOWN),
        ({"machine": [0], "down": [1.0], "up": [2 * LATEST_CHANGE]}, BEYOND_UP),
        ({"machine": [0, 0], "down": [1.0, 2.0], "up": [3.0, 4.0]}, TOO_EARLY),
        ({"machine": [0, 0], "down": [1.0, 1.0], "up": [1.0, 9.0]}, TOO_EARLY),
        # the times differ in seconds, but not in nanoseconds
        ({"machine": [0, 0], "down": [0.0, 1e-45], "up": [0.0, 7.0]}, TOO_EARLY + " at 0 s, got 1e-45"),
        ({"machine": [0, 0], "down": [0.0, 9.0], "up": [inf, 9.0]}, TOO_EARLY),
    ],
)  # fmt: skip
def test_invalid_lists_of_failures_are_rejected(of: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        Faults.of(**of)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Faults.poisson(0.0, 1), "faults.mean must be"),
        (lambda: Faults.poisson(inf, 1), "faults.mean must be"),
        (lambda: Faults.poisson(5.0, -1), "faults.seed must be"),
        (lambda: Faults.exponential(up=-1.0, down=1.0, seed=1), "faults.up must be"),
        (lambda: Faults.exponential(up=1.0, down=nan, seed=1), "faults.down must be"),
        (lambda: Faults.weibull(0.0, 1.0, 1.0, 1.0, seed=1), "faults.up_shape must be"),
        (lambda: Faults.weibull(1.0, 1.0, 1.0, WORD, seed=1), "faults.down_scale must be"),
        (lambda: Faults.trace("x.avt", seed=1, start=-1.0), "faults.start must be"),
        (lambda: Faults.trace("x.avt", seed=1, repeat=WORD), "faults.repeat must be true or false"),
    ],
)  # fmt: skip
def test_invalid_recipes_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()


def test_a_failure_of_an_unknown_machine_is_rejected() -> None:
    with pytest.raises(gs.ScenarioError, match=r"^faults.machine\[1\]"):
        Faults.of([0, 4], [1.0, 1.0], [1.0, 1.0]).course(4)


# -- traces -------------------------------------------------------------------------------------------------


def trace(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "hosts.avt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_machines_have_the_up_times_of_the_hosts_of_a_trace(tmp_path: Path) -> None:
    """One host is up from 0 to 10 s and from 20 s to the end at 30 s, the other from 5 to 12 s."""
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12")
    once = changes(Faults.trace(path, seed=1, repeat=False), 2, 5)
    by_machine = [[(time / NS, up) for time, u, up in once if u == machine] for machine in range(2)]
    assert sorted(by_machine) == [
        [(0.0, False), (5.0, True), (12.0, False)],
        [(10.0, False), (20.0, True)],
    ]


def test_a_trace_is_repeated_from_its_start(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12")
    rows = changes(Faults.trace(path, seed=1), 2, 3)
    check_alternation(rows, 2)
    of = {u: [(time / NS, up) for time, v, up in rows if v == u] for u in range(2)}
    first = min(of, key=lambda u: of[u][0][0] == 0.0)
    assert of[first] == [
        (10.0, False),
        (20.0, True),
        (40.0, False),
        (50.0, True),
        (70.0, False),
        (80.0, True),
    ]
    assert of[1 - first] == [
        (0.0, False), (5.0, True), (12.0, False), (35.0, True), (42.0, False), (65.0, True), (72.0, False),
    ]  # fmt: skip


def test_outages_include_all_rounds_of_a_trace(tmp_path: Path) -> None:
    """Outages of a repeated trace go on until the stated time."""
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 0 30")
    course = Faults.trace(path, seed=1).course(2)
    (machine,) = np.flatnonzero(course.first != NEVER)
    ((u, down, up),) = fault_events.outages(course, 300.0)
    assert u == machine and up.tolist()[:10] == (20.0 + 30.0 * np.arange(10)).tolist()
    assert down.tolist() == (10.0 + 30.0 * np.arange(10)).tolist()


def test_changes_of_a_repeated_trace_are_counted(tmp_path: Path) -> None:
    faults = Faults.trace(trace(tmp_path, "a 2 0 1e-9 2e-9 3e-9"), seed=1)
    counts: list[int] = []
    blocks = faults.course(1, counts.append).blocks
    changes = sum(len(block) for block in islice(blocks, 5))
    assert sum(counts) >= changes > 0


def test_the_number_of_displayed_changes_is_limited() -> None:
    """The limit is ten million, or 200 per machine; a pass counts as at least a hundred changes."""
    for nodes, maximum in ((1, 10**7), (10**6, 2 * 10**8)):
        count = fault_events.display_limit(nodes)
        count(maximum - 100)
        count(1)
        with pytest.raises(fault_events.TooManyChanges, match=f"at most {maximum} changes"):
            count(1)


def test_up_times_continue_across_rounds_of_a_trace(tmp_path: Path) -> None:
    """A host that is up at the end and the beginning has one up time; one that is always up never fails."""
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12", "c 1 0 30")
    course = Faults.trace(path, seed=1).course(3)
    blocks = [rows_of(block) for block in islice(course.blocks, 2)]
    of = [[(t / NS, until / NS) for rows in blocks for t, v, _, until in rows if v == u] for u in range(3)]
    b, a, c = sorted(range(3), key=lambda u: course.first[u])
    assert course.first[[a, b, c]].tolist() == [10 * NS, 0, NEVER]
    assert of[a] == [(10.0, 20.0), (20.0, 40.0), (40.0, 50.0), (50.0, 70.0)]
    assert of[b] == [(0.0, 5.0), (5.0, 12.0), (12.0, 35.0), (35.0, 42.0), (42.0, 65.0)]
    assert of[c] == []
    (once,) = Faults.trace(path, seed=1, repeat=False).course(3).blocks
    ends = [(t / NS, until) for t, _, _, until in rows_of(once)]
    assert ends == [(0.0, 5 * NS), (5.0, 12 * NS), (10.0, 20 * NS), (12.0, NEVER), (20.0, NEVER)]


@pytest.mark.parametrize("horizon", [3e9, 7.9e9, 8e9, 9e9])
def test_a_trace_longer_than_the_clock_is_truncated(tmp_path: Path, horizon: float) -> None:
    path = trace(tmp_path, f"a 2 0 10 20 {horizon}", "b 1 1000000000 2500000000", f"c 1 5 {horizon}")
    for start in (0.0, 7.0):
        faults = Faults.trace(path, seed=1, start=start)
        check_until(faults, 3, 9)
        rows = changes(faults, 3, 9)
        check_alternation(rows, 3)
        assert len(rows) >= 4 and rows[-1][0] < fault_events.CLOCK_END


def test_up_times_below_a_nanosecond_are_dropped(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 3 0 10 20 20.0000000001 25 30", "b 1 0 30")
    rows = changes(Faults.trace(path, seed=1, repeat=False), 2, 5)
    assert [(time / NS, up) for time, _, up in rows] == [(10.0, False), (25.0, True)]


intervals = st.lists(st.floats(0.0, 50.0), min_size=2, max_size=12, unique=True).map(sorted)


@settings(max_examples=50, deadline=None)
@given(hosts=st.lists(intervals, min_size=1, max_size=4), start=st.sampled_from([0.0, 1.5, 7.0]))
def test_failures_and_recoveries_alternate_for_any_trace(
    tmp_path_factory: pytest.TempPathFactory, hosts: Any, start: float
) -> None:
    lines = [
        f"h{k} {len(times) // 2} " + " ".join(repr(instant) for instant in times[: len(times) // 2 * 2])
        for k, times in enumerate(hosts)
    ]
    path = trace(tmp_path_factory.mktemp("trace"), *lines, "last 1 50 60")
    faults = Faults.trace(path, seed=1, start=start)
    check_alternation(changes(faults, len(hosts) + 1, 3), len(hosts) + 1)
    check_until(faults, len(hosts) + 1, 4)
    check_until(Faults.trace(path, seed=1, start=start, repeat=False), len(hosts) + 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["microsoft99-a/microsoft-a.avt.gz", "g5k06"])
@pytest.mark.parametrize("repeat", [True, False])
def test_each_change_of_real_hosts_states_the_time_of_the_next_one(
    traces: Path, name: str, repeat: bool
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.TraceWarning)
        check_until(Faults.trace(traces / name, seed=3, start=1e6, repeat=repeat), 500, 3)


def test_machines_follow_the_hosts_of_a_trace_in_order(tmp_path: Path) -> None:
    """Hosts that are never up keep their places."""
    path = trace(tmp_path, "a 1 0 30", "b 0", *(f"h{k} 1 0 30" for k in range(6)), "c 2 0 10 20 30")
    faults = Faults.trace(path, seed=1, repeat=False, in_order=True)
    assert changes(faults, 9, 5) == [(0, 1, False), (10 * NS, 8, False), (20 * NS, 8, True)]
    for nodes in (8, 10):
        with pytest.raises(
            gs.ScenarioError, match=f"^faults.path must have {nodes} hosts with faults.in_order"
        ):
            faults.course(nodes)


def test_one_time_is_of_all_listed_failures() -> None:
    assert Faults.of([0, 2, 5], [1.0], [4.0]) == Faults.of([0, 2, 5], [1.0] * 3, [4.0] * 3)
    with pytest.raises(gs.ScenarioError, match=r"faults.machine, .down and .up must be equal"):
        Faults.of([], [1.0], [])


def test_a_trace_with_too_few_hosts_is_rejected(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12", "c 0")
    with pytest.raises(gs.ScenarioError, match="^faults.path"):
        Faults.trace(path, seed=1).course(3)
    with pytest.raises(gs.ScenarioError, match="faults.start must be before the end of the trace, 30 s"):
        Faults.trace(path, seed=1, start=30.0).course(1)


@pytest.mark.parametrize(
    "faults",
    [
        Faults.exponential(1e9, 1e10, 1),
        Faults.exponential(5e9, 5e9, 1),
        Faults.weibull(0.1, 10.0, 1.0, 10.0, 1),
        Faults.poisson(1e300, 1),
        Faults.weibull(1.0, 1.7e308, 1.0, 1.7e308, 1),
        Faults.weibull(1.0, 1.0, 0.005, 1.7e308, 1),
    ],
)
def test_changes_beyond_the_clock_are_dropped(faults: Faults) -> None:
    """A machine whose next failure is after the end of the clock does not fail."""
    last = 0
    for block in faults.course(3).blocks:
        assert (np.diff(block.time) >= 0).all() and (block.time >= last).all()
        assert (block.time <= LATEST_CHANGE * 1e9).all()
        last = int(block.time[-1]) if len(block) else last
    check_until(faults, 3, 9)


@pytest.mark.slow
@given(st.integers(1, 5), st.integers(0, 99), st.sampled_from((0.01, 1.0, 1e3, 1e6)))
def test_skipped_blocks_leave_the_draws_unchanged(nodes: int, seed: int, down: float) -> None:
    """Blocks without changes are skipped, and the draws are those of consecutive blocks of equal length."""

    def draw_up(rng: np.random.Generator, count: int) -> Any:
        return rng.exponential(1.0, count)

    def draw_down(rng: np.random.Generator, count: int) -> Any:
        return down * rng.exponential(1.0, count) ** 8  # a few down times are much longer than most

    length, count = 2048 * NS, 20
    actual = []
    for block in fault_events.drawn_events(
        seed, nodes, draw_up, draw_down, 1.0, fault_events.no_limit
    ).blocks:
        if not len(block) or block.time[0] >= count * length:
            break
        actual += [row[:3] for row in rows_of(block)]

    streams, expected = Streams(seed), []
    up_stream, down_stream = streams("faults.up"), streams("faults.down")
    failures = fault_events.nanoseconds(draw_up(up_stream, nodes)).clip(1)
    for number in range(1, count + 1):
        while len(due := np.flatnonzero(failures < number * length)):
            failed, recovered = (
                failures[due],
                failures[due] + fault_events.nanoseconds(draw_down(down_stream, len(due))),
            )
            failures[due] = recovered + fault_events.nanoseconds(draw_up(up_stream, len(due))).clip(1)
            for times, is_up in ((failed, False), (recovered, True)):
                expected += [(int(instant), int(u), is_up) for instant, u in zip(times, due, strict=True)]
    assert actual == sorted(row for row in expected if row[0] < count * length)


# -- up times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "mean"),
    [
        (Faults.poisson(50.0, 1), 50.0),
        (Faults.exponential(up=40.0, down=5.0, seed=2), 40.0),
        (Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3), 30.0 * gamma(1 + 1 / 0.7)),
        (Faults.weibull(1e-3, 30.0, 1.5, 4.0, seed=3), inf),
        (Faults.weibull(5e-324, 30.0, 1.5, 4.0, seed=3), inf),
        # a machine that is down from the beginning has no up time yet; endless up times do not count
        (Faults.of([0, 0, 1], [0.0, 8.0, 9.0], [5.0, 8.0, inf]), 6.0),
        (Faults.of([0, 1], [0.0, 0.0], [0.0, 3.0]), inf),
        (Faults.of([], [], []), inf),
    ],
)  # fmt: skip
def test_mean_up_time_of_a_list_is_exact(faults: Faults, mean: float) -> None:
    assert faults.mean_up_time(3) == mean


def test_drawn_faults_have_the_mean_up_time_of_the_distribution() -> None:
    faults = Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3)
    course = faults.course(500)
    block = next(course.blocks)
    lasts = (block.until - block.time)[block.up] / NS
    assert len(lasts) > 30_000 and lasts.mean() == pytest.approx(faults.mean_up_time(500), rel=0.02)


def test_faults_of_a_trace_have_the_mean_up_time_of_its_intervals(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12", "c 0")
    assert Faults.trace(path, seed=1).mean_up_time(1) == 9.0
    assert Faults.trace(path, seed=1, start=8.0).mean_up_time(1) == (2.0 + 10.0 + 4.0) / 3
    with pytest.raises(gs.ScenarioError, match="faults.start must be before the end of the trace, 30 s"):
        Faults.trace(path, seed=1, start=30.0).mean_up_time(1)
