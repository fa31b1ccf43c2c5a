"""Edges of work queues: the last instants, predictions, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gridcore.work_queue import dispatch

S = 10**9
NEVER = 2**63 - 1
LONGEST = 9_200_000_000_000_000_000
ASK = {"order": "ask", "choice": "ask"}


def simple(**options: Any) -> Any:
    rules = {"order": "small", "choice": "cpu", "max_replicas": 2} | options
    return dispatch.WorkQueue([1.0, 2.0], [2], [4.0, 8.0], [NEVER, NEVER], **rules)


def release(queue: Any, *bags: int) -> Any:
    for bag in bags or (0,):
        queue.submit(bag, [0, 1])
    return queue


def feed(queue: Any, *rows: tuple[int, int, bool, int]) -> Any:
    queue.feed(*(list(column) for column in zip(*rows, strict=True)) if rows else ((), (), (), ()))
    return queue


def failing(**options: Any) -> Any:
    queue = release(simple(faults=True, **options))
    assert queue.run(NEVER) == "blocks"
    return queue


# -- the last instants ----------------------------------------------------------------------------------


def single_task_queue(size: float, now: int = 0, **options: Any) -> Any:
    """Return one task on one machine of 1 Mflop/s, from `now` on."""
    rules = {"order": "small", "choice": "none", "max_replicas": 1} | options
    queue = dispatch.WorkQueue([1.0], [1], [size], [NEVER], **rules)
    queue.run(now)
    queue.submit(0, [0])
    return queue


def test_a_task_ends_at_the_last_instant_at_the_latest() -> None:
    size = 9.1e9
    last = NEVER - 1 - round(size * 1e9)
    queue = single_task_queue(size, last)
    assert queue.run(NEVER) == "done" and queue.now == NEVER - 1
    with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
        single_task_queue(size, last + 1).run(NEVER)


def test_too_long_tasks_raise_an_error() -> None:
    """Tasks must take less than 9.2e18 ns with their checkpoints; the first copy reads no checkpoint."""
    work = LONGEST - 11 * 1024

    def lasts(**rules: int) -> int:
        return int(single_task_queue(work / 1e9, **rules).lasts(0, 0, [0])[0])

    assert work / 1e9 * 1e9 == work
    assert lasts() == lasts(restore=10 * 1024) == work
    assert lasts(restore=11 * 1024) == NEVER
    assert lasts(interval=10**18, checkpoint=1024) == work + 9 * 1024
    assert lasts(interval=10**18, checkpoint=1024, restore=2 * 1024) == NEVER
    assert single_task_queue(9.2e9).lasts(0, 0, [0]).tolist() == [NEVER]


@pytest.mark.parametrize(
    ("size", "now", "more"),
    [
        # five intervals of 10**18 ns, with their checkpoints, fit
        (9.1e9, 0, {"interval": 10**18, "checkpoint": 10**18}),
        (1e9, 85 * 10**17, {"interval": 10**18}),
        (0.5e9, 85 * 10**17, {"interval": 10**18}),  # the task would end in time, but its interval would not
        (9e9, 0, {"factors": [[0.5, 1.0]]}),
        (9.2e9, 0, {"factors": [[2.0, 2.0]]}),
        (1e30, 0, {}),
        (1e30, 0, {"interval": S}),
        (1e-9, LONGEST, {}),
        (1e-9, NEVER - 1, {"interval": 1}),
    ],
)
def test_too_long_tasks_with_background_load_raise_an_error(
    size: float, now: int, more: dict[str, Any]
) -> None:
    pace = {"period": 10**16, "factors": [[1.0, 1.0]], "series": [0], "first": [0], "phase": 10**16 - 1}
    with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
        single_task_queue(size, now, **{**pace, **more}).run(NEVER)


def test_a_checkpoint_is_read_before_the_last_instant() -> None:
    """At 8.5e18 ns a task resumes from its checkpoint, which takes 10**18 ns to read."""
    pace = {"period": 10**16, "factors": [[1.0, 1.0]], "series": [0], "first": [0]}
    for more in (pace, {}):
        queue = single_task_queue(8.1e9, interval=10**18, restore=10**18, faults=True, **more)
        assert queue.run(NEVER) == "blocks"
        feed(queue, (8 * 10**18, 0, False, 0), (85 * 10**17, 0, True, NEVER))
        assert queue.run(NEVER) == "blocks"
        with pytest.raises(OverflowError, match="^a task ends after the last instant$"):
            feed(queue).run(NEVER)


def test_a_machine_is_chosen_if_it_stays_up_until_its_task_ends_near_the_last_instant() -> None:
    """Machine 1 is faster, and is needed until one or two ns before the last instant."""
    size = 6e9
    need = round(size / 2.0 * 1e9)
    for left, machine in ((2, 1), (1, 0)):
        queue = dispatch.WorkQueue(
            [1.0, 2.0], [1], [size], [NEVER, NEVER - left], order="small", choice="all", max_replicas=1,
            step=True,
        )  # fmt: skip
        queue.run(NEVER - left - need)
        queue.submit(0, [0])
        assert queue.run(NEVER) == "decide"
        assert queue.pick_machine(0, 0) == machine


# -- what is predicted ----------------------------------------------------------------------------------


def test_predictions_use_the_last_32_up_times() -> None:
    """The first machine is up for 1, 2, ... 40 s, and then for 0 s: the mean of 9 s to 40 s is 24.5 s."""
    queue = simple(faults=True, prediction="past", choice="avail")
    assert queue.run(NEVER) == "blocks"
    rows, now = [], 0
    for k in range(1, 41):
        rows += [(now + k * S, 0, False, 0), (now + k * S + 1, 0, True, NEVER)]
        now += k * S + 1
    feed(queue, *rows, (now, 0, False, 0), (now, 0, True, NEVER))
    assert queue.run(NEVER) == "blocks"
    assert feed(queue).run(now + 1) == "reached"
    release(queue)
    free, until = queue.idle_machines()
    assert (free.tolist(), until.tolist()) == ([0, 1], [now + 24_500_000_000, 2 * (now + 1)])


def test_predictions_do_not_exceed_the_last_instant() -> None:
    """Machine 0 was up for 10**18 ns: predicted again, that is beyond the last instant from 8.2e18 ns on."""
    for back, until in ((82 * 10**17 - 1024, LONGEST - 1024), (82 * 10**17, NEVER), (85 * 10**17, NEVER)):
        queue = simple(faults=True, prediction="past", choice="avail")
        assert queue.run(NEVER) == "blocks"
        feed(queue, (10**18, 0, False, back), (back, 0, True, NEVER))
        assert queue.run(NEVER) == "blocks"
        assert feed(queue).run(back + 1) == "reached"
        # machine 1 has been up all the time: it is predicted to stay up for as long again, within the last
        # instant
        assert queue.idle_machines()[1].tolist()[0] == until
        release(queue)
        assert queue.idle_machines()[1].tolist() == [until, min(2 * (back + 1), NEVER)]


# -- what there is to choose from -----------------------------------------------------------------------


def test_candidates_and_idle_machines_are_returned() -> None:
    """They are checked before any release, while all machines are busy, and after an earlier bag."""
    queue = dispatch.WorkQueue(
        [1.0, 2.0], [2, 2], [4.0, 8.0, 2.0, 6.0], [NEVER, 9 * S],
        order="small", choice="cpu", max_replicas=1, step=True,
    )  # fmt: skip

    def check(bag: int, tasks: list[int], residual: list[float], idle: dict[int, int]) -> None:
        """Check the bag, its tasks with their residual work, and the idle machines with their predictions."""
        of, *columns = queue.candidates()
        columns += queue.idle_machines()
        assert (of, *(column.tolist() for column in columns)) == (
            bag,
            tasks,
            residual,
            [*idle],
            [*idle.values()],
        )
        assert [column.dtype.char for column in columns] == ["l", "d", "l", "l"]
        assert (queue.lasts(1, 1, []).tolist(), queue.lasts(1, 1, [1, 0]).tolist()) == ([], [3 * S, 6 * S])
        assert queue.pick_task() == (bag, tasks[0] if tasks else -1)

    check(-1, [], [], {0: NEVER, 1: 9 * S})
    release(queue, 1)  # no machine waits for the first bag at this time
    check(1, [0, 1], [2.0, 6.0], {0: NEVER, 1: 9 * S})
    for task, machine, weight in ((0, 1, (0, False, 2, 2, 9 * S, S)), (1, 0, (0, False, 1, 1, NEVER, 6 * S))):
        assert queue.run(S) == "decide" and queue.pick_task() == (1, task)
        assert queue.pick_machine(1, task) == machine and queue.weigh(1, task, machine) == weight
        queue.assign(1, task, machine)
    assert queue.run(S) == "reached" and queue.pick_machine(1, 0) == -1
    check(-1, [], [], {})
    release(queue, 0)
    check(0, [0, 1], [4.0, 8.0], {})


def test_the_printed_rule_may_choose_no_machine() -> None:
    """Machine 0 is busy, and machine 1 is not faster."""
    queue = release(simple(printed=True, choice="none", step=True))
    assert queue.run(NEVER) == "decide" and queue.pick_machine(0, 0) == 0
    slow = release(dispatch.WorkQueue(
        [2.0, 1.0], [2], [4.0, 8.0], [NEVER] * 2, order="small", choice="cpu", max_replicas=1, step=True,
        printed=True,
    ))  # fmt: skip
    assert slow.run(NEVER) == "decide" and slow.pick_machine(0, 0) == 0
    slow.assign(0, 0, 0)
    assert slow.run(NEVER) == "decide" and slow.pick_machine(0, 1) == -1


def test_run_returns_the_reason_of_its_stop() -> None:
    queue = simple(faults=True)
    assert queue.run(0) == "reached" and queue.run(S) == "blocks"
    assert feed(queue, (S, 0, False, S), (S, 1, False, S)).run(9 * S) == "blocks"
    assert feed(release(queue)).run(9 * S) == "over" and queue.now == S
    assert queue.totals()["completed"].tolist() == [0]
    done = release(simple())
    assert [done.run(until) for until in (NEVER, S, NEVER)] == ["done"] * 3


def test_recovery_of_a_machine_that_is_up_is_ignored() -> None:
    """A failure of a machine that is down is ignored, too."""
    queue = release(simple(faults=True, log=True, prediction="age", max_replicas=1))
    assert queue.run(NEVER) == "blocks"
    feed(queue, (S, 0, True, 5 * S), (S, 1, True, 5 * S), (3 * S, 1, False, 0), (5 * S, 1, False, 0))
    assert queue.run(NEVER) == "blocks"
    assert feed(queue, (6 * S, 1, True, 9 * S)).run(NEVER) == "blocks" and feed(queue).run(7 * S) == "reached"
    # machine 1 ran task 0 until 2 s; machine 0 is up from 0 s on, and runs task 1 until 8 s
    assert [column.tolist() for column in queue.idle_machines()] == [[1], [6 * S]]
    assert queue.run(NEVER) == "done"
    rows = queue.copies()
    assert (rows["machine"].tolist(), rows["end"].tolist()) == ([1, 0], [2 * S, 8 * S])


def test_runs_of_empty_queues_return_done() -> None:
    """A queue without machines and bags has columns of the declared types."""
    queue = dispatch.WorkQueue([], [], [], [], order="small", choice="cpu", max_replicas=1, log=True)
    assert queue.run(1) == "done"
    totals, copies = queue.totals(), queue.copies()
    floats = {name for name, column in (totals | copies).items() if column.dtype == np.float64}
    assert floats == {"redundant", "lost", "overhead", "slowed", "begin"}
    assert {(column.dtype.char, len(column)) for column in (totals | copies).values()} == {("l", 0), ("d", 0)}


def test_every_bit_of_a_random_number_counts() -> None:
    """One of three tasks is drawn by a number of exactly a third, and by the number below it."""
    for seed, task in ((15_879_961_201_844_960_580, 0), (8_278_976_590_717_499_476, 1)):
        queue = dispatch.WorkQueue(
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
ORDERS = "random, small, great, ask"
CHOICES = "none, cpu, avail, all, ask"
RULES: list[tuple[dict[str, Any], str]] = [
    ({"order": "big"}, f"order must be one of {ORDERS}, got 'big'"),
    ({"choice": 3}, f"choice must be one of {CHOICES}, got 3"),
    ({"prediction": "none"}, "prediction must be one of told, past, age, got 'none'"),
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


@pytest.mark.parametrize(("changes", "words"), RULES)
def test_invalid_arguments_raise_errors(changes: dict[str, Any], words: str) -> None:
    rules = {**MADE, "order": "small", "choice": "cpu", "max_replicas": 2, **changes}
    with pytest.raises((ValueError, TypeError)) as refused:
        dispatch.WorkQueue(**rules)
    assert str(refused.value) == words


def test_extreme_valid_arguments_are_accepted() -> None:
    dispatch.WorkQueue(
        [1.0], [1], [1.0], [0], order="great", choice="all", max_replicas=1024, interval=10**18,
        checkpoint=10**18, restore=10**18, seed=2**64 - 1, period=10**16, factors=[0.5],
        series=[0], first=[0],
    )  # fmt: skip
    assert feed(failing(), (0, 1, False, 0), (0, 0, False, 0)).run(NEVER) == "blocks"


def completed_queue(**options: Any) -> Any:
    queue = release(simple(**options))
    queue.run(3 * S)  # task 0 ended at 2 s
    return queue


def asking_queue(**options: Any) -> Any:
    """Return a queue in which task 0 runs on machine 1, and task 1 is next."""
    queue = release(simple(**ASK, **options))
    assert queue.run(NEVER) == "decide"
    queue.assign(0, 0, 1)
    return queue


def two_bags() -> Any:
    queue = dispatch.WorkQueue([1.0, 2.0], [2, 2], [4.0] * 4, [NEVER] * 2, max_replicas=2, **ASK)
    assert release(queue, 0, 1).run(NEVER) == "decide"
    return queue


def failed_queue() -> Any:
    """Return a queue whose machines 0 and 1 failed at 1 s with tasks 0 and 1, which are next in order."""
    queue = release(simple(faults=True, **ASK))
    assert queue.run(NEVER) == "blocks"
    assert feed(queue, *((S, u, up, NEVER) for u in (0, 1) for up in (False, True))).run(NEVER) == "decide"
    for u in (0, 1):
        queue.assign(0, u, u)
    assert queue.run(NEVER) == "blocks" and feed(queue).run(NEVER) == "decide"
    return queue


NEXT = "task must be one of the candidates, got {} of bag {}"
LATER = "feed requires that the last run returned 'blocks'"
CALLS: list[tuple[Any, str]] = [
    (lambda: simple().submit(1, [0, 1]), "bag must be in 0..0, got 1"),
    (lambda: simple().submit(-1, [0, 1]), "bag must be in 0..0, got -1"),
    (lambda: simple().submit(0, [0.5, 1]), "sequence must hold integers, got dtype float64"),
    (lambda: simple().submit(0, [0, 2]), "sequence[1] must be in 0..1, got 2"),
    (
        lambda: simple().submit(0, [0]),
        "sequence must have as many entries as tasks of the bag, got 1 and 2",
    ),
    (lambda: simple().submit(0, [1, 1]), "sequence[1] must differ from the entries before it, got 1"),
    (lambda: release(simple(), 0, 0), "bag must not be released yet, got 0"),
    (lambda: feed(simple()), LATER),
    (lambda: feed(feed(failing(), (5, 0, False, 9))), LATER),
    (
        lambda: feed(failing(), (2, 0, False, 3), (1, 1, False, 3)),
        "time[1] must be >= time[0], 2, got 1",
    ),
    (lambda: feed(failing(), (-1, 0, False, 3)), "time[0] must be >= 0, got -1"),
    (lambda: feed(failing(), (2, 0, False, -3)), "until[0] must be >= 0, got -3"),
    (lambda: feed(failing(), (2, 2, False, 3)), "machine[0] must be in 0..1, got 2"),
    (lambda: feed(failing(), (0.5, 0, False, 3)), "time must hold integers, got dtype float64"),
    (
        lambda: failing().feed([1], [0, 1], [True], [1]),
        "machine must have as many entries as time, got 2 and 1",
    ),
    (lambda: failing().feed([1], [0], [], [1]), "up must have as many entries as time, got 0 and 1"),
    (lambda: failing().feed([1], [0], [True], []), "until must have as many entries as time, got 0 and 1"),
    (lambda: simple().lasts(0, 0, [0, 2]), "machines[1] must be in 0..1, got 2"),
    (lambda: simple().lasts(0, 0, [0.5]), "machines must hold integers, got dtype float64"),
    (lambda: simple().lasts(0, 2, [0]), "task must be in 0..1, got 2"),
    (lambda: simple().lasts(1, 0, [0]), "bag must be in 0..0, got 1"),
    (lambda: completed_queue().lasts(0, 0, [0]), "task must not be completed, got 0 of bag 0"),
    (lambda: completed_queue().pick_machine(0, 0), "task must not be completed, got 0 of bag 0"),
    (lambda: completed_queue().weigh(0, 0, 0), "task must not be completed, got 0 of bag 0"),
    (lambda: completed_queue().assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda: completed_queue(max_replicas=3).assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda: two_bags().assign(1, 0, 0), NEXT.format(0, 1)),
    (lambda: failed_queue().assign(0, 1, 0), NEXT.format(1, 0)),
    (lambda: asking_queue(max_replicas=1).assign(0, 0, 0), NEXT.format(0, 0)),
    (lambda: asking_queue().assign(0, 1, 1), "machine must be free, got 1"),
    (lambda: asking_queue().assign(0, 1, 2), "machine must be free, got 2"),
    (lambda: asking_queue().assign(0, 1, -1), "machine must be free, got -1"),
    (lambda: asking_queue().assign(0, 2, 0), "task must be in 0..1, got 2"),
    (lambda: asking_queue().assign(0, -1, 0), "task must be in 0..1, got -1"),
    (lambda: asking_queue().weigh(0, 1, 1), "machine must be free, got 1"),
    (lambda: asking_queue().pick_task(), "pick_task does not support order 'ask'"),
    (lambda: asking_queue().pick_machine(0, 1), "pick_machine does not support choice 'ask'"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_invalid_calls_raise_errors(call: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    assert str(refused.value) == words
