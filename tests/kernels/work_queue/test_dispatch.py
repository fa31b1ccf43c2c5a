"""Work queues: invariants, states, stops and single steps.

`tests/schedulers/wqr/test_exact_runs.py` compares them with the node programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.work_queue import dispatch
from gridcore.work_queue.state import BAG_ORDERS

S = 10**9
NEVER = 2**63 - 1

Change = tuple[int, int, bool, int]


@dataclass
class Case:
    """A queue with its submissions, failures and stops."""

    speed: list[float]
    tasks: list[int]
    sizes: list[float]
    rules: dict[str, Any]
    release: list[int]
    sequences: list[list[int]]
    changes: list[Change]
    cuts: list[int]
    looks: list[int]

    def first_failures(self) -> list[int]:
        """Return the first failure of each machine."""
        first_failures = {u: at for at, u, up, _ in reversed(self.changes) if not up}
        return [first_failures.get(u, NEVER) for u in range(len(self.speed))]

    def blocks(self) -> Iterator[list[Change]]:
        edges = [0, *self.cuts, len(self.changes)]
        yield from (self.changes[a:b] for a, b in zip(edges, edges[1:], strict=False) if b > a)
        yield []


def times(*usual: float) -> st.SearchStrategy[int]:
    return (st.sampled_from(usual) | st.floats(0.0, 30.0)).map(lambda x: round(x * S))


@st.composite
def changes(draw: st.DrawFn, machines: int) -> list[Change]:
    rows: list[Change] = []
    for u in range(machines):
        instant, course = 0, []
        for _ in range(draw(st.integers(0, 3))):
            down = instant + draw(times(0.0, 1.0, 2.0, 5.0)) + (1 if course else 0)
            instant = down + draw(times(0.0, 0.0, 1.0, 5.0))
            course.append((down, instant))
        ends = [down for down, _ in course[1:]] + [NEVER]
        for (down, back), until in zip(course, ends, strict=False):
            rows += [(down, u, False, back), (back, u, True, until)]
    return sorted(rows)


@st.composite
def cases(draw: st.DrawFn, **fixed: Any) -> Case:
    machines = draw(st.integers(1, 8))
    tasks = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    faulty = draw(st.booleans())
    rules: dict[str, Any] = {
        "order": draw(st.sampled_from(("random", "small", "great"))),
        "choice": draw(st.sampled_from(("none", "cpu", "avail", "all"))),
        "bag_order": draw(st.sampled_from(BAG_ORDERS)),
        "max_replicas": draw(st.integers(1, 4)),
        "min_speed": draw(st.sampled_from((0.0, 0.0, 2.0))),
        "interval": draw(st.sampled_from((0, S // 2, 2 * S, 3 * S))),
        "checkpoint": draw(st.sampled_from((0, 0, S // 4))),
        "restore": draw(st.sampled_from((0, 0, S // 2))),
        "local": draw(st.booleans()),
        "printed": draw(st.sampled_from((False, False, False, True))),
        "prediction": draw(st.sampled_from(("told", "told", "past", "age"))),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "faults": faulty,
        "log": True,
    }
    if draw(st.booleans()):
        factor = st.sampled_from((0.25, 0.5, 1.0)) | st.floats(0.1, 2.0)
        period = draw(st.sampled_from((S, 3 * S // 2, 7 * S)))
        rules |= {
            "period": period,
            "factors": draw(st.lists(st.lists(factor, min_size=3, max_size=3), min_size=2, max_size=2)),
            "series": draw(st.lists(st.integers(0, 1), min_size=machines, max_size=machines)),
            "first": draw(st.lists(st.integers(0, 2), min_size=machines, max_size=machines)),
            "phase": draw(st.sampled_from((0, 1, period // 3, period - 1))),
        }
    rows = draw(changes(machines)) if faulty else []
    size = st.sampled_from((5.0, 10.0, 10.0, 20.0, 40.0)) | st.floats(1.0, 60.0)
    total = sum(tasks)
    return Case(
        speed=draw(
            st.lists(st.sampled_from((1.0, 2.0, 2.0, 3.7, 4.0)), min_size=machines, max_size=machines)
        ),
        tasks=tasks,
        sizes=draw(st.lists(size, min_size=total, max_size=total)),
        rules=rules | fixed,
        release=sorted(draw(st.lists(times(0.0, 0.0, 3.0), min_size=len(tasks), max_size=len(tasks)))),
        sequences=[draw(st.permutations(range(n))) for n in tasks],
        changes=rows,
        cuts=sorted(draw(st.lists(st.integers(0, len(rows)), max_size=2))),
        looks=draw(st.lists(times(1.0, 5.0), max_size=3)),
    )


def queue_of(case: Case) -> Any:
    return dispatch.WorkQueue(case.speed, case.tasks, case.sizes, case.first_failures(), **case.rules)


def run(queue: Any, until: int, blocks: Iterator[list[Change]]) -> str:
    while (reason := queue.run(until)) == "blocks":
        rows = next(blocks)
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        time, machine, up, next_change = (list(column) for column in columns)
        queue.feed(
            np.array(time, np.int64),
            np.array(machine, np.int64),
            np.array(up, np.bool_),
            np.array(next_change, np.int64),
        )
    return reason


def acts(case: Case) -> list[tuple[int, int, int]]:
    """Return releases (bag) and stops (-1), in order."""
    return sorted(
        [(instant, 0, i) for i, instant in enumerate(case.release)]
        + [(instant, 1, -1) for instant in case.looks]
    )


def play(case: Case, *, again: bool = False) -> list[Any]:
    """Return everything visible; with `again`, continue after each act in a new queue from the state."""
    queue, blocks, seen = queue_of(case), case.blocks(), []
    for instant, _, bag in acts(case):
        seen.append((run(queue, instant, blocks), queue.now, queue.left))
        if bag >= 0:
            queue.submit(bag, case.sequences[bag])
        if again:
            other = queue_of(case)
            other.setstate(queue.getstate())
            queue = other
    seen.append((run(queue, NEVER, blocks), queue.now, queue.left))
    for table in (queue.totals(), queue.copies()):
        seen.append({name: column.tolist() for name, column in sorted(table.items())})
    return seen


def failing(speed: list[float], sizes: list[float], up: float, down: float, times: int, **rules: Any) -> Case:
    """Return one bag on machines that fail `times` times, up for about `up` s and down for about `down` s."""
    rng, rows = np.random.default_rng(4), []
    for u in range(len(speed)):
        edges = np.cumsum(np.ceil(rng.exponential((up, down), (times, 2)) * S).astype(np.int64)).tolist()
        for instant, back, until in zip(edges[::2], edges[1::2], [*edges[2::2], NEVER], strict=True):
            rows += [(instant, u, False, back), (back, u, True, until)]
    fixed = {"order": "great", "choice": "cpu", "max_replicas": 2, "faults": True, "log": True}
    sequence = list(range(len(sizes)))
    return Case(speed, [len(sizes)], sizes, fixed | rules, [0], [sequence], sorted(rows), [], [20 * S])


def test_a_restored_queue_with_many_machines_continues_equally() -> None:
    """The heap gets more ends than it keeps in order, and more ends of lost copies than fit."""
    rng = np.random.default_rng(2)
    speed, sizes = rng.uniform(1.0, 9.0, 120).tolist(), (10.0 ** rng.uniform(-2, 4, 400)).tolist()
    case = failing(speed, sizes, 100.0, 10.0, 5, interval=5 * S, checkpoint=S // 4)
    assert play(case) == play(case, again=True)


@given(cases())
def test_a_restored_queue_continues_equally(case: Case) -> None:
    assert play(case, again=True) == play(case)


@given(cases())
def test_stops_and_blocks_do_not_change_a_run(case: Case) -> None:
    assert play(replace(case, cuts=[], looks=[]))[-3:] == play(case)[-3:]


@given(st.lists(st.sampled_from((1.0, 2.0, 2.5, 4.0, 4.0, 8.0)), min_size=1, max_size=700), st.data())
def test_the_choice_all_info_equals_a_scan_of_all_machines(speed: list[float], data: st.DataObject) -> None:
    """The index, of several rounds, finds the fastest machine that suffices, else the fastest."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    until = (rng.integers(0, data.draw(st.sampled_from((3, 60))), len(speed)) * S).tolist()
    sizes = rng.choice([1.0, 10.0, 40.0, 100.0, 400.0], data.draw(st.integers(1, 2 * len(speed)))).tolist()
    queue = dispatch.WorkQueue(speed, [len(sizes)], sizes, until, order="small", choice="all", max_replicas=1)
    queue.submit(0, np.argsort(sizes, kind="stable"))
    queue.run(1)  # starts all tasks that start at time 0
    free = set(range(len(speed)))
    expected = {}
    for k in np.argsort(sizes, kind="stable").tolist()[: len(speed)]:
        enough = [u for u in free if until[u] >= max(1, round(sizes[k] / speed[u] * S))]
        expected[k] = min(enough or free, key=lambda u: (-speed[u], u))
        free.remove(expected[k])
    running = queue.getstate()["machines"]["task"]
    actual = {int(k): u for u, k in enumerate(running.tolist()) if k >= 0}
    assert actual == expected


@given(cases(printed=False))
def test_task_copies_keep_their_invariants(case: Case) -> None:
    queue, blocks = queue_of(case), case.blocks()
    for instant, _, bag in acts(case):
        run(queue, instant, blocks)
        if bag >= 0:
            queue.submit(bag, case.sequences[bag])
    reason = run(queue, NEVER, blocks)
    rows, totals = queue.copies(), queue.totals()
    if reason != "done":  # no machine is up any more
        assert queue.left > 0
        return
    offsets = np.concatenate(([0], np.cumsum(case.tasks)))
    task = offsets[rows["bag"]] + rows["task"]
    completed = rows["completed"] == 1
    assert sorted(task[completed].tolist()) == list(range(len(case.sizes)))  # each task is completed once
    outages = {u: [] for u in range(len(case.speed))}
    for instant, u, up, until in case.changes:
        if not up:
            outages[u].append((instant, until))
    for u in range(len(case.speed)):
        mine = np.flatnonzero(rows["machine"] == u)
        mine = mine[np.argsort(rows["start"][mine], kind="stable")]
        assert (rows["start"][mine][1:] >= rows["end"][mine][:-1]).all()  # a machine runs one copy at a time
        for down, back in outages[u]:
            inside = (rows["start"][mine] < down) & (rows["end"][mine] > down)
            assert not inside.any()
            assert not ((rows["start"][mine] >= down) & (rows["start"][mine] < back)).any()
    for k in range(len(case.sizes)):
        own = np.flatnonzero(task == k)
        end = rows["end"][own][completed[own]][0]
        assert (rows["end"][own] <= end).all()
        for instant in rows["start"][own]:
            alive = (rows["start"][own] <= instant) & (rows["end"][own] > instant)
            assert alive.sum() <= case.rules["max_replicas"]
    worked = float(totals["busy"] @ np.array(case.speed)) / 1e9
    answers = sum(case.sizes) + sum(
        float(totals[name].sum()) for name in ("redundant", "lost", "overhead", "slowed")
    )
    assert answers == pytest.approx(worked, rel=1e-9, abs=1e-7)
    assert min(totals[name].min() for name in ("redundant", "lost", "overhead")) >= 0


@given(cases())
def test_single_steps_equal_one_run(case: Case) -> None:
    full_run = play(case)[-2:]
    case.rules["step"] = True
    queue, blocks = queue_of(case), case.blocks()
    for instant, bag in [*((instant, bag) for instant, _, bag in acts(case)), (NEVER, -1)]:
        while run(queue, instant, blocks) == "decide":
            of, task = queue.pick_task()
            machine = queue.pick_machine(of, task)
            if machine < 0:
                queue.wait()
                continue
            free, until = queue.idle_machines()
            running, begun, alike, count, up, need = queue.weigh(of, task, machine)
            assert count == len(free) and up == until[free.tolist().index(machine)]
            assert need == queue.lasts(of, task, [machine])[0]
            numbers = queue.candidates()[1].tolist()
            # only the first of the failed tasks can be next
            assert task in numbers and (alike == len(numbers) or (not running and begun))
            queue.assign(of, task, machine)
        if bag >= 0:
            queue.submit(bag, case.sequences[bag])
    ends = [
        {name: column.tolist() for name, column in sorted(table.items())}
        for table in (queue.totals(), queue.copies())
    ]
    assert ends == full_run


def test_defaults_of_a_work_queue_equal_the_stated_values() -> None:
    """The defaults concern draws, printed rules, and the log."""
    speed, sizes = [1.0, 2.0, 3.0, 2.5], [4.0, 8.0, 5.0, 9.0, 7.0, 6.0, 3.0, 2.0]
    for rules in ({"order": "random", "choice": "cpu"}, {"order": "great", "choice": "avail"}):
        seen = []
        for more in ({}, {"seed": 0, "printed": False, "log": False}):
            queue = dispatch.WorkQueue(speed, [8], sizes, [NEVER] * 4, max_replicas=3, **rules, **more)
            queue.submit(0, list(range(8)))
            assert queue.run(NEVER) == "done" and len(queue.copies()["task"]) == 0
            seen.append({name: column.tolist() for name, column in queue.totals().items()})
        assert seen[0] == seen[1]


@given(
    st.lists(st.sampled_from((1.0, 2.0, 1e-300, 1e300)) | st.floats(1e-3, 1e6), min_size=1, max_size=600),
    st.sampled_from(("small", "great")),
)
def test_without_a_sequence_tasks_start_by_size_ties_by_number(sizes: list[float], order: str) -> None:
    bags, rules = [1, len(sizes)], {"order": order, "choice": "none", "max_replicas": 1}
    queue = dispatch.WorkQueue([1.0], bags, [1.0, *sizes], [NEVER], **rules)
    queue.submit(1)
    expected = np.argsort(sizes if order == "small" else -np.array(sizes), kind="stable") + 1
    assert queue.getstate()["sequence"].tolist() == [0, *expected]


def test_a_random_order_requires_a_sequence() -> None:
    queue = dispatch.WorkQueue([1.0], [1], [1.0], [NEVER], order="random", choice="none", max_replicas=1)
    with pytest.raises(ValueError, match="submit without sequence requires order 'small' or 'great'"):
        queue.submit(0)
