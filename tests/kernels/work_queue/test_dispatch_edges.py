"""Edges of work queues, in kernel and reference: single nanoseconds, the last instants, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gridcore.work_queue import dispatch
from tests.kernels.work_queue.test_dispatch import NEVER, Case, S, play, simple
from tests.reference import dispatch as reference

BOTH = pytest.mark.parametrize("kernel", [dispatch, reference])
LONGEST = 9_200_000_000_000_000_000
ASK = {"order": "ask", "choice": "ask"}


def tiny(seed: int) -> Case:
    """Draw a case in which single nanoseconds matter: at the beginning, or late, where float64 is coarse."""
    chance = np.random.default_rng(seed)

    def some(high: int, low: int = 0) -> int:
        return int(chance.integers(low, high))

    def one(*values: Any) -> Any:
        return values[some(len(values))]

    machines, start = some(6, 1), one(0, 0, 10**17 + 1)
    tasks = chance.integers(1, 5, 3).tolist()
    rules: dict[str, Any] = {
        "order": one("random", "small", "great"), "choice": one("none", "cpu", "avail", "all"),
        "max_replicas": some(4, 1), "interval": some(6), "checkpoint": one(0, 0, 1, 2, 7),
        "restore": one(0, 1, 3), "local": one(False, True), "printed": one(False, True),
        "prediction": one("told", "past", "age"), "seed": some(2**40), "faults": True, "log": True,
    }  # fmt: skip
    if one(False, True):
        rules |= {
            "period": some(7, 1), "factors": chance.choice([0.25, 0.5, 1.0, 2.0, 0.3], (2, 3)),
            "series": chance.integers(0, 2, machines), "first": chance.integers(0, 3, machines),
        }  # fmt: skip
    rows = []
    for u in range(machines):
        down = start + some(9)
        for _ in range(some(4)):
            back = down + some(5)
            again = back + some(9, 1)
            rows += [(down, u, False, back), (back, u, True, one(again, again, NEVER))]
            down = again
    return Case(
        speed=chance.choice([0.5, 1.0, 2.0], machines).tolist(),
        tasks=tasks,
        sizes=(chance.integers(1, 25, sum(tasks)) * 0.5e-9).tolist(),
        rules=rules,
        release=[start + some(20) for _ in tasks],
        sequences=[chance.permutation(n).tolist() for n in tasks],
        changes=sorted(rows),
        cuts=[some(len(rows) + 1)],
        looks=(start + chance.integers(0, 30, 4)).tolist(),
    )


def test_durations_are_exact_to_the_nanosecond() -> None:
    for seed in range(200):
        case = tiny(seed)
        assert play(dispatch, case) == play(reference, case), seed


def release(queue: Any, *bags: int) -> Any:
    for bag in bags or (0,):
        queue.submit(bag, [0, 1])
    return queue


def fed(queue: Any, *rows: tuple[int, int, bool, int]) -> Any:
    queue.feed(*(list(column) for column in zip(*rows, strict=True)) if rows else ((), (), (), ()))
    return queue


def failing(kernel: Any, **more: Any) -> Any:
    queue = release(simple(kernel, faults=True, **more))
    assert queue.run(NEVER) == "blocks"
    return queue


# -- the last instants ----------------------------------------------------------------------------------


def alone(kernel: Any, size: float, now: int = 0, **more: Any) -> Any:
    """Return one task on one machine of 1 Mflop/s, from `now` on."""
    rules = {"order": "small", "choice": "none", "max_replicas": 1} | more
    queue = kernel.WorkQueue([1.0], [1], [size], [NEVER], **rules)
    queue.run(now)
    queue.submit(0, [0])
    return queue


@BOTH
def test_a_task_ends_at_the_last_instant_at_the_latest(kernel: Any) -> None:
    size = 9.1e9
    last = NEVER - 1 - round(size * 1e9)
    queue = alone(kernel, size, last)
    assert queue.run(NEVER) == "done" and queue.now == NEVER - 1
    with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
        alone(kernel, size, last + 1).run(NEVER)


@BOTH
def test_too_long_tasks_raise_an_error(kernel: Any) -> None:
    """9.2e18 ns or more, including checkpoints; the first copy reads none."""
    work = LONGEST - 11 * 1024

    def lasts(**rules: int) -> int:
        return int(alone(kernel, work / 1e9, **rules).lasts(0, 0, [0])[0])

    assert work / 1e9 * 1e9 == work
    assert lasts() == lasts(restore=10 * 1024) == work
    assert lasts(restore=11 * 1024) == NEVER
    assert lasts(interval=10**18, checkpoint=1024) == work + 9 * 1024
    assert lasts(interval=10**18, checkpoint=1024, restore=2 * 1024) == NEVER
    assert alone(kernel, 9.2e9).lasts(0, 0, [0]).tolist() == [NEVER]


@BOTH
@pytest.mark.parametrize(
    ("size", "now", "more"),
    [
        (9.1e9, 0, {"interval": 10**18, "checkpoint": 10**18}),  # five parts of 10**18 ns fit
        (1e9, 85 * 10**17, {"interval": 10**18}),
        (0.5e9, 85 * 10**17, {"interval": 10**18}),  # the task would end in time, but its part would not
        (9e9, 0, {"factors": [[0.5, 1.0]]}),
        (9.2e9, 0, {"factors": [[2.0, 2.0]]}),
        (1e30, 0, {}),
        (1e30, 0, {"interval": S}),
        (1e-9, LONGEST, {}),
        (1e-9, NEVER - 1, {"interval": 1}),
    ],
)
def test_too_long_tasks_with_background_load_raise_an_error(
    kernel: Any, size: float, now: int, more: dict[str, Any]
) -> None:
    pace = {"period": 10**16, "factors": [[1.0, 1.0]], "series": [0], "first": [0], "phase": 10**16 - 1}
    with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
        alone(kernel, size, now, **{**pace, **more}).run(NEVER)


@BOTH
def test_a_checkpoint_is_read_before_the_last_instant(kernel: Any) -> None:
    """At 8.5e18 ns a task resumes from its checkpoint, which takes 10**18 ns to read."""
    pace = {"period": 10**16, "factors": [[1.0, 1.0]], "series": [0], "first": [0]}
    for more in (pace, {}):
        queue = alone(kernel, 8.1e9, interval=10**18, restore=10**18, faults=True, **more)
        assert queue.run(NEVER) == "blocks"
        fed(queue, (8 * 10**18, 0, False, 0), (85 * 10**17, 0, True, NEVER))
        assert queue.run(NEVER) == "blocks"
        with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
            fed(queue).run(NEVER)


@BOTH
def test_a_machine_is_chosen_if_it_stays_up_until_its_task_ends_near_the_last_instant(kernel: Any) -> None:
    """Machine 1 is faster, and is needed until one or two ns before the last instant."""
    size = 6e9
    need = round(size / 2.0 * 1e9)
    for left, machine in ((2, 1), (1, 0)):
        queue = kernel.WorkQueue(
            [1.0, 2.0], [1], [size], [NEVER, NEVER - left], order="small", choice="all", max_replicas=1,
            step=True,
        )  # fmt: skip
        queue.run(NEVER - left - need)
        queue.submit(0, [0])
        assert queue.run(NEVER) == "decide"
        assert queue.pick_machine(0, 0) == machine


def test_the_last_part_of_a_task_is_added_separately() -> None:
    """A task resumes from its first checkpoint for six intervals: sums beyond 2**53 ns are rounded."""
    interval, seen = 4_753_305_983_434_210, []
    for kernel in (dispatch, reference):
        queue = kernel.WorkQueue(
            [2.0**-23], [1], [3.9664676051186882], [NEVER], order="small", choice="none", max_replicas=1,
            interval=interval, restore=1, faults=True, log=True,
        )  # fmt: skip
        queue.submit(0, [0])
        at = 3 * interval // 2
        assert queue.run(NEVER) == "blocks"
        assert fed(queue, (at, 0, False, 0), (at, 0, True, NEVER)).run(NEVER) == "blocks"
        assert fed(queue).run(NEVER) == "done" and queue.now == at + 1 + 6 * interval
        tables = queue.totals(), queue.copies()
        seen.append([{name: x.tolist() for name, x in sorted(table.items())} for table in tables])
    assert seen[0] == seen[1]
    assert 0 < seen[0][1]["begin"][1] < 1 and 0 < abs(seen[0][0]["slowed"][0]) < 1e-12


# -- what is predicted ----------------------------------------------------------------------------------


@BOTH
def test_predictions_use_the_last_32_up_times(kernel: Any) -> None:
    """The first machine is up for 1, 2, ... 40 s, and then for 0 s: the mean of 9 s to 40 s is 24.5 s."""
    queue = simple(kernel, faults=True, prediction="past", choice="avail")
    assert queue.run(NEVER) == "blocks"
    rows, now = [], 0
    for k in range(1, 41):
        rows += [(now + k * S, 0, False, 0), (now + k * S + 1, 0, True, NEVER)]
        now += k * S + 1
    fed(queue, *rows, (now, 0, False, 0), (now, 0, True, NEVER))
    assert queue.run(NEVER) == "blocks"
    assert fed(queue).run(now + 1) == "reached"
    release(queue)
    free, until = queue.idle_machines()
    assert (free.tolist(), until.tolist()) == ([0, 1], [now + 24_500_000_000, 2 * (now + 1)])


@BOTH
def test_predictions_do_not_exceed_the_last_instant(kernel: Any) -> None:
    """Machine 0 was up for 10**18 ns: predicted again, that is beyond the last instant from 8.2e18 ns on."""
    for back, until in ((82 * 10**17 - 1024, LONGEST - 1024), (82 * 10**17, NEVER), (85 * 10**17, NEVER)):
        queue = simple(kernel, faults=True, prediction="past", choice="avail")
        assert queue.run(NEVER) == "blocks"
        fed(queue, (10**18, 0, False, back), (back, 0, True, NEVER))
        assert queue.run(NEVER) == "blocks"
        assert fed(queue).run(back + 1) == "reached"
        # machine 1 has been up all the time: predicted for as long again, but not beyond the last instant
        assert queue.idle_machines()[1].tolist()[0] == until
        release(queue)
        assert queue.idle_machines()[1].tolist() == [until, min(2 * (back + 1), NEVER)]


# -- what there is to choose from -----------------------------------------------------------------------


def test_candidates_and_idle_machines_equal_reference() -> None:
    """With equal types: before any release, while all machines are busy, and after an earlier bag."""
    seen: list[list[Any]] = []
    for kernel in (dispatch, reference):
        queue = kernel.WorkQueue(
            [1.0, 2.0], [2, 2], [4.0, 8.0, 2.0, 6.0], [NEVER, 9 * S],
            order="small", choice="cpu", max_replicas=1, step=True,
        )  # fmt: skip
        told: list[Any] = []

        def look(queue: Any = queue, told: list[Any] = told) -> None:
            bag, *columns = queue.candidates()
            columns += queue.idle_machines()
            columns += (queue.lasts(1, 1, []), queue.lasts(1, 1, [1, 0]))
            told.append((bag, *((column.dtype, column.tolist()) for column in columns)))
            told.append(queue.pick_task())

        look()
        release(queue, 1)  # while no machine waits for the first bag
        look()
        while queue.run(S) == "decide":
            bag, task = queue.pick_task()
            told.append((bag, task, machine := queue.pick_machine(bag, task)))
            told.append(queue.weigh(bag, task, machine))
            queue.assign(bag, task, machine)
        told.append(queue.pick_machine(1, 0))
        look()
        release(queue, 0)
        look()
        seen.append(told)
    assert seen[0] == seen[1]
    assert seen[0][:2] == [(-1, *seen[0][0][1:]), (-1, -1)]


@BOTH
def test_the_printed_rule_may_choose_no_machine(kernel: Any) -> None:
    """Machine 0 is busy, and machine 1 is not faster."""
    queue = release(simple(kernel, printed=True, choice="none", step=True))
    assert queue.run(NEVER) == "decide" and queue.pick_machine(0, 0) == 0
    slow = release(kernel.WorkQueue(
        [2.0, 1.0], [2], [4.0, 8.0], [NEVER] * 2, order="small", choice="cpu", max_replicas=1, step=True,
        printed=True,
    ))  # fmt: skip
    assert slow.run(NEVER) == "decide" and slow.pick_machine(0, 0) == 0
    slow.assign(0, 0, 0)
    assert slow.run(NEVER) == "decide" and slow.pick_machine(0, 1) == -1


@BOTH
def test_run_returns_the_reason_of_its_stop(kernel: Any) -> None:
    queue = simple(kernel, faults=True)
    assert queue.run(0) == "reached" and queue.run(S) == "blocks"
    assert fed(queue, (S, 0, False, S), (S, 1, False, S)).run(9 * S) == "blocks"
    assert fed(release(queue)).run(9 * S) == "over" and queue.now == S
    assert queue.totals()["completed"].tolist() == [0]
    done = release(simple(kernel))
    assert [done.run(until) for until in (NEVER, S, NEVER)] == ["done"] * 3


@BOTH
def test_recovery_of_a_machine_that_is_up_is_ignored(kernel: Any) -> None:
    """A failure of a machine that is down is ignored, too."""
    queue = release(simple(kernel, faults=True, log=True, prediction="age", max_replicas=1))
    assert queue.run(NEVER) == "blocks"
    fed(queue, (S, 0, True, 5 * S), (S, 1, True, 5 * S), (3 * S, 1, False, 0), (5 * S, 1, False, 0))
    assert queue.run(NEVER) == "blocks"
    assert fed(queue, (6 * S, 1, True, 9 * S)).run(NEVER) == "blocks" and fed(queue).run(7 * S) == "reached"
    # machine 1 had task 0 until 2 s; machine 0 is up from 0 s and runs the other until 8 s
    assert [column.tolist() for column in queue.idle_machines()] == [[1], [6 * S]]
    assert queue.run(NEVER) == "done"
    rows = queue.copies()
    assert (rows["machine"].tolist(), rows["end"].tolist()) == ([1, 0], [2 * S, 8 * S])


def test_runs_of_empty_queues_return_done() -> None:
    """Without machines and bags; the columns have their types."""
    seen = []
    for kernel in (dispatch, reference):
        queue = kernel.WorkQueue([], [], [], [], order="small", choice="cpu", max_replicas=1, log=True)
        assert queue.run(1) == "done"
        tables = queue.totals(), queue.copies()
        seen.append([{name: (x.dtype, len(x)) for name, x in sorted(table.items())} for table in tables])
    assert seen[0] == seen[1]


@BOTH
def test_every_bit_of_a_random_number_counts(kernel: Any) -> None:
    """One of three tasks is drawn by a number of exactly a third, and by the number below it."""
    for seed, task in ((15_879_961_201_844_960_580, 0), (8_278_976_590_717_499_476, 1)):
        queue = kernel.WorkQueue(
            [1.0] * 4, [3], [5.0] * 3, [NEVER] * 4, order="random", choice="none", max_replicas=2, seed=seed,
            log=True,
        )  # fmt: skip
        queue.submit(0, [0, 1, 2])
        queue.run(NEVER)
        rows = queue.copies()
        assert rows["task"][rows["machine"] == 3].tolist() == [task]


# -- what is refused ------------------------------------------------------------------------------------

MADE = {"speed": [1.0, 2.0], "tasks": [2], "sizes": [4.0, 8.0], "up_until": [NEVER] * 2}
PACE = {"period": S, "factors": [[1.0, 2.0]], "series": [0, 0], "first": [0, 1]}
ORDERS = "('random', 'small', 'great', 'ask')"
CHOICES = "('none', 'cpu', 'avail', 'all', 'ask')"
RULES: list[tuple[dict[str, Any], str]] = [
    ({"order": "big"}, f"order must be one of {ORDERS}, got 'big'"),
    ({"choice": 3}, f"choice must be one of {CHOICES}, got 3"),
    ({"prediction": "none"}, "prediction must be one of ('told', 'past', 'age'), got 'none'"),
    ({"speed": [1.0, 0.0]}, "speed[1] must be finite and > 0, got 0.0"),
    ({"speed": [1.0]}, "up_until must have as many entries as speed, got 2 and 1"),
    ({"speed": ["a", "b"]}, "speed must hold real numbers, got dtype <U1"),
    ({"sizes": [4.0, math.inf]}, "sizes[1] must be finite and > 0, got inf"),
    ({"sizes": [[4.0]]}, "sizes must have one dimension, got 2"),
    ({"tasks": [0, 2]}, "tasks[0] must be in 1..2147483647, got 0"),
    ({"tasks": [2**31]}, "tasks[0] must be in 1..2147483647, got 2147483648"),
    ({"tasks": [0.5]}, "tasks must hold integers, got dtype float64"),
    ({"tasks": [3]}, "sizes must have 3 entries, the sum of tasks, got 2"),
    ({"up_until": [0, -1]}, "up_until[1] must be >= 0, got -1"),
    ({"up_until": [0.5, 1]}, "up_until must hold integers, got dtype float64"),
    ({**PACE, "factors": [[1.0, 0.0]]}, "factors must be finite and > 0, got 0.0"),
    ({**PACE, "factors": [[1.0, math.nan]]}, "factors must be finite and > 0, got nan"),
    ({**PACE, "series": [0, 1]}, "series[1] must be in 0..0, got 1"),
    ({**PACE, "series": [0]}, "series must have as many entries as speed, got 1 and 2"),
    ({**PACE, "first": [-1, 0]}, "first[0] must be in 0..1, got -1"),
    ({**PACE, "first": [0, 2]}, "first[1] must be in 0..1, got 2"),
    ({**PACE, "first": [0]}, "first must have as many entries as speed, got 1 and 2"),
    ({**PACE, "phase": S}, f"phase must be below period, {S}, got {S}"),
    ({**PACE, "phase": -1}, "phase must be in 0..10000000000000000, got -1"),
    ({"interval": -1}, "interval must be in 0..1000000000000000000, got -1"),
    ({"checkpoint": 10**18 + 1}, "checkpoint must be in 0..1000000000000000000, got 1000000000000000001"),
    ({"restore": 0.5}, "restore must be an integer, got 0.5"),
    ({"max_replicas": 0}, "max_replicas must be in 1..1024, got 0"),
    ({"max_replicas": 1025}, "max_replicas must be in 1..1024, got 1025"),
    ({"period": 10**16 + 1}, "period must be in 0..10000000000000000, got 10000000000000001"),
    ({"seed": 2**64}, "seed must be in 0..18446744073709551615, got 18446744073709551616"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("changes", "words"), RULES)
def test_invalid_arguments_raise_errors(kernel: Any, changes: dict[str, Any], words: str) -> None:
    rules = {**MADE, "order": "small", "choice": "cpu", "max_replicas": 2, **changes}
    with pytest.raises((ValueError, TypeError)) as refused:
        kernel.WorkQueue(**rules)
    assert str(refused.value) == words


@BOTH
def test_limits_of_arguments_are_accepted(kernel: Any) -> None:
    kernel.WorkQueue(
        [1.0], [1], [1.0], [0], order="great", choice="all", max_replicas=1024, interval=10**18,
        checkpoint=10**18, restore=10**18, seed=2**64 - 1, period=10**16, factors=[0.5],
        series=[0], first=[0],
    )  # fmt: skip
    assert fed(failing(kernel), (0, 1, False, 0), (0, 0, False, 0)).run(NEVER) == "blocks"


def completed(kernel: Any, **more: Any) -> Any:
    queue = release(simple(kernel, **more))
    queue.run(3 * S)  # task 0 ended at 2 s
    return queue


def asking(kernel: Any, **more: Any) -> Any:
    """Return a queue in which task 0 runs on machine 1, and task 1 is next."""
    queue = release(simple(kernel, **ASK, **more))
    assert queue.run(NEVER) == "decide"
    queue.assign(0, 0, 1)
    return queue


def two_bags(kernel: Any) -> Any:
    queue = kernel.WorkQueue([1.0, 2.0], [2, 2], [4.0] * 4, [NEVER] * 2, max_replicas=2, **ASK)
    assert release(queue, 0, 1).run(NEVER) == "decide"
    return queue


def both_failed(kernel: Any) -> Any:
    """Return a queue whose machines 0 and 1 failed at 1 s with tasks 0 and 1, which are next in order."""
    queue = release(simple(kernel, faults=True, **ASK))
    assert queue.run(NEVER) == "blocks"
    assert fed(queue, *((S, u, up, NEVER) for u in (0, 1) for up in (False, True))).run(NEVER) == "decide"
    for u in (0, 1):
        queue.assign(0, u, u)
    assert queue.run(NEVER) == "blocks" and fed(queue).run(NEVER) == "decide"
    return queue


NEXT = "task must be one of the candidates, got {} of bag {}"
LATER = "feed requires that the last run returned 'blocks'"
CALLS: list[tuple[Any, str]] = [
    (lambda m: simple(m).submit(1, [0, 1]), "bag must be in 0..0, got 1"),
    (lambda m: simple(m).submit(-1, [0, 1]), "bag must be in 0..0, got -1"),
    (lambda m: simple(m).submit(0, [0.5, 1]), "sequence must hold integers, got dtype float64"),
    (lambda m: simple(m).submit(0, [0, 2]), "sequence[1] must be in 0..1, got 2"),
    (
        lambda m: simple(m).submit(0, [0]),
        "sequence must have as many entries as tasks of the bag, got 1 and 2",
    ),
    (lambda m: simple(m).submit(0, [1, 1]), "sequence[1] must differ from the entries before it, got 1"),
    (lambda m: release(simple(m), 0, 0), "bag must not be released yet, got 0"),
    (lambda m: fed(simple(m)), LATER),
    (lambda m: fed(fed(failing(m), (5, 0, False, 9))), LATER),
    (
        lambda m: fed(failing(m), (2, 0, False, 3), (1, 1, False, 3)),
        "time[1] must be >= time[0], 2, got 1",
    ),
    (lambda m: fed(failing(m), (-1, 0, False, 3)), "time[0] must be >= 0, got -1"),
    (lambda m: fed(failing(m), (2, 0, False, -3)), "until[0] must be >= 0, got -3"),
    (lambda m: fed(failing(m), (2, 2, False, 3)), "machine[0] must be in 0..1, got 2"),
    (lambda m: fed(failing(m), (0.5, 0, False, 3)), "time must hold integers, got dtype float64"),
    (
        lambda m: failing(m).feed([1], [0, 1], [True], [1]),
        "machine must have as many entries as time, got 2 and 1",
    ),
    (lambda m: failing(m).feed([1], [0], [], [1]), "up must have as many entries as time, got 0 and 1"),
    (lambda m: failing(m).feed([1], [0], [True], []), "until must have as many entries as time, got 0 and 1"),
    (lambda m: simple(m).lasts(0, 0, [0, 2]), "machines[1] must be in 0..1, got 2"),
    (lambda m: simple(m).lasts(0, 0, [0.5]), "machines must hold integers, got dtype float64"),
    (lambda m: simple(m).lasts(0, 2, [0]), "task must be in 0..1, got 2"),
    (lambda m: simple(m).lasts(1, 0, [0]), "bag must be in 0..0, got 1"),
    (lambda m: completed(m).lasts(0, 0, [0]), "task must not be completed, got 0 of bag 0"),
    (lambda m: completed(m).pick_machine(0, 0), "task must not be completed, got 0 of bag 0"),
    (lambda m: completed(m).weigh(0, 0, 0), "task must not be completed, got 0 of bag 0"),
    (lambda m: completed(m).assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda m: completed(m, max_replicas=3).assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda m: two_bags(m).assign(1, 0, 0), NEXT.format(0, 1)),
    (lambda m: both_failed(m).assign(0, 1, 0), NEXT.format(1, 0)),
    (lambda m: asking(m, max_replicas=1).assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda m: asking(m).assign(0, 1, 1), "machine must be free, got 1"),
    (lambda m: asking(m).assign(0, 1, 2), "machine must be free, got 2"),
    (lambda m: asking(m).assign(0, 1, -1), "machine must be free, got -1"),
    (lambda m: asking(m).assign(0, 2, 0), "task must be in 0..1, got 2"),
    (lambda m: asking(m).assign(0, -1, 0), "task must be in 0..1, got -1"),
    (lambda m: asking(m).weigh(0, 1, 1), "machine must be free, got 1"),
    (lambda m: asking(m).pick_task(), "pick_task does not support order 'ask'"),
    (lambda m: asking(m).pick_machine(0, 1), "pick_machine does not support choice 'ask'"),
]


@BOTH
@pytest.mark.parametrize(("call", "words"), CALLS)
def test_invalid_calls_raise_errors(kernel: Any, call: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        call(kernel)
    assert str(refused.value) == words
