"""Who fails when: what each recipe draws or reads, and what it refuses."""

from __future__ import annotations

from itertools import islice
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.faults import LATEST, Faults

NS = 10**9
WORD: Any = "1"  # what a careless caller may pass

DRAWN = {
    "poisson": Faults.poisson(50.0, 1),
    "exponential": Faults.exponential(up=40.0, down=5.0, seed=2),
    "never down": Faults.exponential(up=40.0, down=0.0, seed=2),
    "weibull": Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3),
    "of nanoseconds": Faults.exponential(up=2e-9, down=1e-9, seed=4),
}


def changes(faults: Faults, nodes: int, blocks: int) -> list[tuple[int, int, bool]]:
    """(ns, machine, up) of the first blocks."""
    return [
        row
        for block in islice(faults.events(nodes), blocks)
        for row in zip(block.time.tolist(), block.machine.tolist(), block.up.tolist(), strict=True)
    ]


def check_turns(rows: list[tuple[int, int, bool]], nodes: int) -> None:
    """In order; each machine goes down and up in turn, and no two outages of one share an instant."""
    assert [time for time, _, _ in rows] == sorted(time for time, _, _ in rows)
    for u in range(nodes):
        own = [(time, up) for time, machine, up in rows if machine == u]
        assert [up for _, up in own] == [k % 2 == 1 for k in range(len(own))]
        downs = [time for time, up in own if not up]
        ups = [time for time, up in own if up]
        assert all(back < again for back, again in zip(ups, downs[1:], strict=False))


@pytest.mark.parametrize("name", DRAWN)
def test_machines_fail_and_come_back_in_turn(name: str) -> None:
    rows = changes(DRAWN[name], 7, 1)[:20_000]
    assert len(rows) > 500
    check_turns(rows, 7)


def test_means_are_those_asked_for() -> None:
    rows = changes(Faults.exponential(up=40.0, down=5.0, seed=9), 50, 1)
    up, down, last = [], [], dict.fromkeys(range(50), 0)
    for time, machine, back in rows:
        (down if back else up).append(time - last[machine])
        last[machine] = time
    assert np.mean(up) == pytest.approx(40.0 * NS, rel=0.05)
    assert np.mean(down) == pytest.approx(5.0 * NS, rel=0.05)


def test_draws_depend_on_the_seed_alone() -> None:
    one, same = (changes(Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=3), 900, 1) for _ in range(2))
    assert one == same
    assert one != changes(Faults.weibull(0.7, 30.0, 1.5, 4.0, seed=8), 900, 1)


BEYOND_DOWN = r"faults.down\[0\] must be at most 8e\+09 s, got 16000000000.0"
BEYOND_UP = r"faults.up\[0\] must be at most 8e\+09 s, or inf, got 16000000000.0"
SOON = r"faults.down\[1\] must be a nanosecond or more after machine 0 is up again"


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"machine": [0], "down": [1.0], "up": [0.5]}, r"faults.up\[0\] must be .* 1.* s, got 0.5"),
        ({"machine": [0], "down": [nan], "up": [1.0]}, r"faults.down\[0\] must be"),
        ({"machine": [0], "down": [-1.0], "up": [1.0]}, r"faults.down\[0\] must be"),
        ({"machine": [-1], "down": [1.0], "up": [1.0]}, r"faults.machine\[0\] must be"),
        ({"machine": [0.5], "down": [1.0], "up": [1.0]}, r"faults.machine\[0\] must be"),
        ({"machine": [0], "down": [1.0, 2.0], "up": [1.0]}, "faults.machine, .down and .up must be equal"),
        ({"machine": [0], "down": [2 * LATEST], "up": [inf]}, BEYOND_DOWN),
        ({"machine": [0], "down": [1.0], "up": [2 * LATEST]}, BEYOND_UP),
        ({"machine": [0, 0], "down": [1.0, 2.0], "up": [3.0, 4.0]}, SOON),
        ({"machine": [0, 0], "down": [1.0, 1.0], "up": [1.0, 9.0]}, SOON),
        # not the same instant in seconds, but the same nanosecond
        ({"machine": [0, 0], "down": [0.0, 1e-45], "up": [0.0, 7.0]}, SOON + ", at 0 s, got 1e-45"),
        ({"machine": [0, 0], "down": [0.0, 9.0], "up": [inf, 9.0]}, SOON),
    ],
)  # fmt: skip
def test_bad_lists(of: dict[str, Any], message: str) -> None:
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
def test_bad_recipes(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()


def test_a_machine_that_is_not_there() -> None:
    with pytest.raises(gs.ScenarioError, match=r"faults.machine\[1\] must be in 0..3, got 4"):
        list(Faults.of([0, 4], [1.0, 1.0], [1.0, 1.0]).events(4))


# -- traces -------------------------------------------------------------------------------------------------


def trace(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "hosts.avt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_trace_host_by_host(tmp_path: Path) -> None:
    """Up from 0 to 10 and from 20 to 30, the end of the trace; the other from 5 to 12."""
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12")
    once = changes(Faults.trace(path, seed=1, repeat=False), 2, 5)
    by_machine = [[(time / NS, up) for time, u, up in once if u == machine] for machine in range(2)]
    assert sorted(by_machine) == [
        [(0.0, False), (5.0, True), (12.0, False)],
        [(10.0, False), (20.0, True)],
    ]


def test_a_trace_begins_again(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12")
    rows = changes(Faults.trace(path, seed=1), 2, 3)
    check_turns(rows, 2)
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


def test_less_than_a_nanosecond_up_is_not_up(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 3 0 10 20 20.0000000001 25 30", "b 1 0 30")
    rows = changes(Faults.trace(path, seed=1, repeat=False), 2, 5)
    assert [(time / NS, up) for time, _, up in rows] == [(10.0, False), (25.0, True)]


intervals = st.lists(st.floats(0.0, 50.0), min_size=2, max_size=12, unique=True).map(sorted)


@settings(max_examples=100, deadline=None)
@given(hosts=st.lists(intervals, min_size=1, max_size=4), start=st.sampled_from([0.0, 1.5, 7.0]))
def test_any_trace_gives_turns(tmp_path_factory: pytest.TempPathFactory, hosts: Any, start: float) -> None:
    lines = [
        f"h{k} {len(times) // 2} " + " ".join(repr(at) for at in times[: len(times) // 2 * 2])
        for k, times in enumerate(hosts)
    ]
    path = trace(tmp_path_factory.mktemp("trace"), *lines, "last 1 50 60")
    faults = Faults.trace(path, seed=1, start=start)
    check_turns(changes(faults, len(hosts) + 1, 3), len(hosts) + 1)


def test_a_trace_that_does_not_fit(tmp_path: Path) -> None:
    path = trace(tmp_path, "a 2 0 10 20 30", "b 1 5 12", "c 0")
    with pytest.raises(gs.ScenarioError, match="faults.path must have 3 hosts that were ever up"):
        list(Faults.trace(path, seed=1).events(3))
    with pytest.raises(gs.ScenarioError, match="faults.start must lie before the end of the trace, 30 s"):
        list(Faults.trace(path, seed=1, start=30.0).events(1))


@pytest.mark.parametrize(
    "faults",
    [
        Faults.exponential(1e9, 1e10, 1),
        Faults.exponential(5e9, 5e9, 1),
        Faults.weibull(0.1, 10.0, 1.0, 10.0, 1),
        Faults.poisson(1e300, 1),
    ],
)
def test_times_beyond_the_clock(faults: Faults) -> None:
    """Who would fail after the end of the clock does not fail."""
    last = 0
    for block in faults.events(3):
        assert (np.diff(block.time) >= 0).all() and (block.time >= last).all()
        assert (block.time <= LATEST * 1e9).all()
        last = int(block.time[-1]) if len(block) else last
