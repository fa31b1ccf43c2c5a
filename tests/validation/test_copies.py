"""Checks of task copies, compared with a reference implementation that looks at pairs of copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.background_load import LoadProfile
from gridsim.validation import copies
from gridsim.validation.copies import (
    BackgroundLoadRules,
    CheckpointRules,
    Copies,
    _check_begins,
    overtaken_copies,
)
from gridsim.validation.results import validate_result

SPEEDS = np.array([1.0, 2.0, 0.5])
SIZES = np.full(4, 1e-6)

#: machine, task, start, duration, completed, whether the copy began with work done
ROW = st.tuples(
    st.integers(0, 2), st.integers(0, 3), st.integers(0, 60), st.integers(0, 60), st.booleans(), st.booleans()
)


def rows_of(drawn: list[tuple[Any, ...]]) -> Copies:
    columns = list(zip(*drawn, strict=True)) if drawn else [()] * 6
    machine, task, start, duration = (np.array(column, np.int64) for column in columns[:4])
    completed = np.array(columns[4], np.bool_)
    begin = np.where(np.array(columns[5], np.bool_), np.arange(len(drawn)) * 1e-9, 0.0)
    return Copies(machine, machine, task, start, start + duration, completed, begin, lambda k: f"row {k}")


@st.composite
def rules_of(draw: st.DrawFn) -> CheckpointRules:
    interval, checkpoint, restore = (draw(st.integers(0, 9)) for _ in range(3))
    if draw(st.booleans()):
        return CheckpointRules(interval, checkpoint, restore, draw(st.booleans()))
    factors = draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=6, max_size=6))
    first = np.array(draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)), np.int64)
    pace = LoadProfile(draw(st.integers(1, 7)), np.array(factors).reshape(2, 3), np.array([0, 1, 1]), first)
    return BackgroundLoadRules(interval, checkpoint, restore, draw(st.booleans()), pace)


def checkpointed_work(rules: CheckpointRules, rows: Copies, j: int, at: int, work: float) -> float:
    """Return the work (ns at full speed) in the newest checkpoint of row j at `at` ns, in steps of 1 ns."""
    work_done, newest, since_checkpoint = 0.0, 0.0, 0
    if not rules.interval:
        return 0.0
    now = int(rows.start[j]) + (rules.restore if rows.begin[j] > 0 else 0)
    until = min(at, int(rows.end[j]))
    while now < until:
        if since_checkpoint == rules.interval:
            now, since_checkpoint = now + rules.checkpoint, 0
            if now <= until and (isinstance(rules, BackgroundLoadRules) or work_done < max(1, round(work))):
                newest = work_done
            if now >= until:
                break
        factor = 1.0
        if isinstance(rules, BackgroundLoadRules):
            pace, u = rules.pace, rows.machine[j]
            step = (pace.first[u] + now // pace.period) % pace.factors.shape[1]
            factor = pace.factors[pace.series[u], step]
        work_done, now, since_checkpoint = work_done + factor, now + 1, since_checkpoint + 1
    is_written = since_checkpoint == rules.interval and rules.checkpoint == 0 and now == until
    if is_written and (isinstance(rules, BackgroundLoadRules) or work_done < max(1, round(work))):
        newest = work_done
    return newest


def expected_work(rows: Copies, rules: CheckpointRules, work: Any, k: int) -> float:
    is_overtaken, newest = overtaken_copies(rows), 0.0
    same = rows.machine if rules.local else rows.task
    earlier = [
        j
        for j in np.lexsort((rows.start, same)).tolist()
        if same[j] == same[k] and (rows.start[j], j) < (rows.start[k], k)
    ]
    if rules.local:
        earlier = [j for j in earlier if not (rows.completed[j] or is_overtaken[j])][-1:]
        earlier = [j for j in earlier if rows.task[j] == rows.task[k]]
    for j in earlier:
        completed = (
            checkpointed_work(rules, rows, j, int(rows.start[k]), float(work[j]))
            / 1e9
            * SPEEDS[rows.machine[j]]
        )
        newest = max(newest, float(rows.begin[j]) + completed)
    return newest


@given(st.lists(ROW, max_size=14), rules_of())
def test_copies_begin_with_the_most_advanced_checkpoint(
    sample: list[tuple[Any, ...]], rules: CheckpointRules
) -> None:
    rows = rows_of(sample)
    work = (SIZES[rows.task] - rows.begin) / SPEEDS[rows.machine] * 1e9
    expected = np.array([expected_work(rows, rules, work, k) for k in range(len(sample))])
    wrong = np.flatnonzero(np.abs(rows.begin - expected) > 1e-9 * SIZES[rows.task])
    violations = _check_begins(rows, rules, work, SIZES, SPEEDS)
    assert [item.count for item in violations] == [len(wrong)] * bool(len(wrong))
    for item in violations:
        assert item.where == f"row {wrong[0]}"
        assert float(item.message.split()[-1]) == pytest.approx(expected[wrong[0]], rel=1e-9)


def test_the_batch_size_does_not_change_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    sample = [
        (int(u), int(i), int(instant), int(lasts), bool(k % 7 == 0), bool(k % 3))
        for k, (u, i, instant, lasts) in enumerate(rng.integers(0, [3, 4, 60, 60], (40, 4)))
    ]
    rows = rows_of(sample)
    work = (SIZES[rows.task] - rows.begin) / SPEEDS[rows.machine] * 1e9
    pace = LoadProfile(7, np.array([[0.5, 1.0, 0.25]]), np.zeros(3, np.int64), np.arange(3))
    for rules in (CheckpointRules(3, 1, 2, False), BackgroundLoadRules(3, 1, 2, False, pace)):
        reference = _check_begins(rows, rules, work, SIZES, SPEEDS)
        with monkeypatch.context() as patch:
            patch.setattr(copies, "_BATCH", 3)
            assert str(_check_begins(rows, rules, work, SIZES, SPEEDS)) == str(reference) != "[]"


def test_too_many_concurrent_copies_to_check_are_rejected() -> None:
    """Consecutive copies are checked quickly; concurrent ones need too many steps."""
    count, rules = 300_000, CheckpointRules(10, 1, 0, False)
    none, times = np.zeros(count, np.int64), np.arange(count)
    work = np.full(count, 1e3)
    rows = Copies(none, none, none, times, times + 1, none > 0, np.zeros(count), str)
    assert _check_begins(rows, rules, work, SIZES, SPEEDS) == []
    rows = Copies(none, none, none, times, np.full(count, 10**6), none > 0, np.zeros(count), str)
    with pytest.raises(ScenarioError, match=r"facts.checkpoint_interval .* got 4\.5\d+e\+10"):
        _check_begins(rows, rules, work, SIZES, SPEEDS)


def test_too_many_concurrent_replicas_are_detected() -> None:
    """The only task runs on both machines, but the parameters allow one copy only."""
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0), gs.Workload.of([0.0], [1], 1000.0))
    result = gs.simulate(scenario, gs.WqrFt(max_replicas=2), record=True)
    assert result.tables["schedule"]["task"].tolist() == [0, 0] and validate_result(result) == []
    scheduler = {**result.scheduler, "parameters": {**result.scheduler["parameters"], "max_replicas": 1}}
    result.scheduler = scheduler
    (violation,) = validate_result(result)
    assert violation.message == "2 copies of a task run at a time, but at most 1 may"
