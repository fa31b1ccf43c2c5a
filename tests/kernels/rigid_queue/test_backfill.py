"""Backfilling: equality with the reference, examples by hand, invariants of a schedule, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridcore.rigid_queue.backfill import BackfillQueue
from tests.reference.backfill import BackfillQueue as Reference

BOTH = [BackfillQueue, Reference]
NEVER, LAST = 2**63 - 1, 2**62

# few values, so that ties in time are frequent, and estimates above and below the run times
TIMES = st.integers(1, 6) | st.sampled_from([10, 20])


@st.composite
def loads(draw: st.DrawFn, limit: int = 16) -> tuple[int, list[int], list[int], list[int]]:
    """Draw machines, nodes, run times and estimates."""
    machines = draw(st.sampled_from([1, 2, 3, 5, 8]))
    n = draw(st.integers(0, limit))
    nodes = st.lists(st.integers(1, machines), min_size=n, max_size=n)
    times = st.lists(TIMES, min_size=n, max_size=n)
    run = draw(times)
    return machines, draw(nodes), run, draw(st.one_of(times, st.just(run)))


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, list[int], list[int], list[int], list[int]]:
    """Draw machines, nodes, run times, estimates and submissions."""
    load = draw(loads())
    n = len(load[1])
    return (*load, sorted(draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))))


def plain(columns: Any) -> Any:
    if isinstance(columns, dict):
        return {name: column.tolist() for name, column in columns.items()}
    return [column.tolist() for column in columns]


def outcome(queue: Any) -> Any:
    return queue.now, queue.next_end(), plain(queue.totals()), plain(queue.starts())


# -- examples worked by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("easy", [True, False])
def test_small_cases_are_as_computed_by_hand(kind: Callable[..., Any], easy: bool) -> None:
    """Ten machines.  At 0, job 0 takes six until 10.  The head, job 1, needs eight: its shadow time is 10,
    with two extra machines; four machines are free.

    - Job 2 needs three for 10: it ends by the shadow time and starts; one machine is left.
    - Job 3 needs two for 5: it does not fit.
    - Job 4 needs one for 100: it takes one of the two extra machines and starts; none is left.
    - Job 5 needs one for 1: it waits.

    At 10 jobs 0 and 2 end: nine are free, the head starts, and one is left.  Job 3, now the head, needs two;
    its shadow time is 20, with seven extra machines.  Job 5 ends by then and starts.  Job 6, submitted at 10,
    needs one for 30 and waits; when job 5 ends, at 11, it starts on one of the seven extra machines.
    """
    nodes, run = [6, 8, 3, 2, 1, 1, 1], [10, 10, 10, 5, 100, 1, 30]
    queue = kind(10, nodes, run, run, easy=easy, log=True)
    queue.submit(range(6), 0)
    queue.submit([6], 10)
    assert queue.run(0) == 0
    begun = queue.totals()["start"].tolist()
    assert begun == ([0, -1, 0, -1, 0, -1, -1] if easy else [0, -1, -1, -1, -1, -1, -1])
    assert queue.next_end() == 10
    assert queue.run(NEVER) == 7
    totals = plain(queue.totals())
    if easy:
        assert totals["start"] == [0, 10, 0, 20, 0, 10, 11]
        assert totals["tasks"] == [3, 3, 2, 2, 2, 2, 2, 2, 3, 1]
    else:
        # eight and two machines are busy until 20 and 15; then no job passes job 2, which needs three
        assert totals["start"] == [0, 10, 20, 20, 20, 20, 20]
    assert totals["finish"] == [start + length for start, length in zip(totals["start"], run, strict=True)]
    assert totals["first_start"] == totals["start"] and not any(totals["cut"])
    assert sum(totals["busy"]) == sum(n * length for n, length in zip(nodes, run, strict=True))


@pytest.mark.parametrize("kind", BOTH)
def test_long_jobs_use_up_the_extra_machines(kind: Callable[..., Any]) -> None:
    """Ten machines, five taken until 10; the head needs eight, so two are extra and five free.

    Two long jobs of one node each start, a third waits although it fits; a job that would end at 11 waits,
    too, and one that ends at 10 starts.
    """
    nodes, run = [5, 8, 1, 1, 1, 3, 3], [10, 10, 50, 50, 50, 11, 10]
    queue = kind(10, nodes, run, run)
    queue.submit(range(7), 0)
    queue.run(9)
    assert queue.totals()["start"].tolist() == [0, -1, 0, 0, -1, -1, 0]


@pytest.mark.parametrize("kind", BOTH)
def test_overdue_jobs_count_as_ending_now(kind: Callable[..., Any]) -> None:
    """Job 0 should end at 5 and runs until 20.  At 7 it counts as ending now.

    So no job ends by the shadow time any more, and of four free machines only the two that the head does not
    need are extra.
    """
    nodes, run, estimate = [6, 8, 4, 2, 1], [20, 1, 1, 30, 1], [5, 1, 1, 30, 1]
    queue = kind(10, nodes, run, estimate)
    queue.submit([0, 1], 0)
    queue.submit([2, 3, 4], 7)
    queue.run(19)
    assert queue.totals()["start"].tolist() == [0, -1, -1, 7, -1]
    queue.run(NEVER)
    assert queue.totals()["start"].tolist() == [0, 20, 21, 7, 21]


@pytest.mark.parametrize("kind", BOTH)
def test_a_later_shadow_time_leaves_more_extra_machines(kind: Callable[..., Any]) -> None:
    """By the shadow time of the head, 5, one machine is extra: job 3, which needs two, waits.

    At 9 jobs 0 and 1 are both overdue; three machines are extra by then, and job 3 starts as job 4 is
    submitted: the passage of time alone starts no job.
    """
    nodes, run, estimate = [4, 2, 7, 2, 5], [20, 20, 1, 30, 1], [5, 8, 1, 30, 1]
    queue = kind(10, nodes, run, estimate)
    queue.submit([0, 1, 2, 3], 0)
    queue.run(8)
    assert queue.totals()["start"].tolist() == [0, 0, -1, -1, -1]
    queue.submit([4], 9)
    queue.run(19)
    assert queue.totals()["start"].tolist() == [0, 0, -1, 9, -1]


@pytest.mark.parametrize("kind", BOTH)
def test_a_failure_restarts_its_job_as_computed_by_hand(kind: Callable[..., Any]) -> None:
    queue = kind(4, [2, 1, 4, 1], [10, 6, 5, 50], [10, 6, 5, 50], log=True)
    queue.submit(range(4), 0)
    queue.run(3)
    assert queue.totals()["start"].tolist() == [0, 0, -1, -1]  # job 3 would delay the head, which needs four
    assert queue.fail([1], 3).tolist() == [0]
    assert queue.next_end() == 6
    queue.run(5)
    # job 0 is the head again and starts at once on 0 and 3; with three machines up, job 2 has no shadow time
    assert queue.totals()["start"].tolist() == [3, 0, -1, -1]
    queue.run(6)
    assert queue.totals()["start"].tolist() == [3, 0, -1, 6]
    queue.restore([1], 6)
    assert queue.run(NEVER) == 4
    totals = plain(queue.totals())
    assert totals["first_start"] == [0, 0, 56, 6] and totals["start"] == [3, 0, 56, 6]
    assert totals["cut"] == [1, 0, 0, 0] and totals["interrupted"] == [1, 1, 0, 0]
    assert totals["busy"] == [3 + 10 + 5, 3 + 5, 6 + 50 + 5, 10 + 5]
    assert totals["tasks"] == [2, 1, 3, 2]
    assert list(zip(*plain(queue.starts()), strict=True))[:5] == [
        (0, 0, 0, 3, 0), (1, 0, 0, 3, 0), (2, 1, 0, 6, 1), (0, 0, 3, 13, 1), (3, 0, 3, 13, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", BOTH)
def test_a_job_interrupted_as_it_starts_runs_again(kind: Callable[..., Any]) -> None:
    queue = kind(2, [1], [5], [5], log=True)
    queue.submit([0], 4)
    queue.run(4)
    assert queue.fail([0], 4).tolist() == [0]
    queue.restore([0], 4)
    assert queue.run(NEVER) == 1
    totals = plain(queue.totals())
    assert (totals["cut"], totals["interrupted"], totals["busy"]) == ([1], [1, 0], [5, 0])
    assert plain(queue.starts()) == [[0], [0], [4], [9], [1]]


@pytest.mark.parametrize("kind", BOTH)
def test_jobs_take_the_lowest_free_machines(kind: Callable[..., Any]) -> None:
    """Jobs on machines of several words of bits, whole and partial, take the lowest machines."""
    queue = kind(300, [70, 3, 130, 90], [5, 9, 4, 1], [5, 9, 4, 1], log=True)
    queue.fail([0, 64, 299], 0)
    queue.submit(range(4), 0)
    queue.run(NEVER)
    machine, job, start, _, _ = queue.starts()
    assert machine[job == 0].tolist() == [*range(1, 64), *range(65, 72)]
    assert machine[job == 1].tolist() == [72, 73, 74]
    assert machine[job == 2].tolist() == list(range(75, 205))
    assert machine[job == 3].tolist() == list(range(205, 295)) and not start.any()


# -- kernel and reference implementation ----------------------------------------------------------------


class QueueComparison(RuleBasedStateMachine):
    """Kernel and reference side by side; at times another kernel continues from the state."""

    @initialize(load=loads(24), easy=st.sampled_from([True, True, False]))
    def begin(self, load: Any, easy: bool) -> None:
        self.load, self.easy = load, easy
        self.machines, self.jobs, self.next, self.since = load[0], len(load[1]), 0, 0
        self.queues: list[Any] = [kind(*load, easy=easy, log=True) for kind in BOTH]

    def call_both(self, call: str, *arguments: Any) -> Any:
        actual, other = (getattr(queue, call)(*arguments) for queue in self.queues)
        assert np.array_equal(actual, other)
        return actual

    @rule(data=st.data(), count=st.integers(1, 8), later=st.sampled_from([0, 0, 0, 1, 4]))
    def submit(self, data: st.DataObject, count: int, later: int) -> None:
        who = list(range(self.next, min(self.next + count, self.jobs)))
        if later and data.draw(st.booleans(), label="leave one out"):
            who = who[1:]
        self.next = min(self.next + count, self.jobs)
        since = max(self.queues[0].now, self.since)
        gaps = st.lists(st.integers(0, later), min_size=len(who), max_size=len(who))
        at = [since + gap for gap in np.cumsum(data.draw(gaps, label="gaps")).tolist()] if later else since
        for queue in self.queues:
            queue.submit(who, at)
        if who:
            self.since = at[-1] if isinstance(at, list) else at

    @rule(step=st.sampled_from([0, 0, 1, 1, 2, 3, 5, 8]))
    def run(self, step: int) -> None:
        self.call_both("run", self.queues[0].now + step)

    @rule()
    def run_to_the_next_end(self) -> None:
        if self.queues[0].next_end() < NEVER:
            self.call_both("run", self.queues[0].next_end())

    def pick(self, data: st.DataObject) -> list[int]:
        return sorted(data.draw(st.sets(st.integers(0, self.machines - 1), max_size=4), label="machines"))

    @rule(data=st.data(), recovers=st.booleans())
    def fail(self, data: st.DataObject, recovers: bool) -> None:
        who = self.pick(data)
        self.call_both("fail", who, self.queues[0].now)
        if recovers:
            self.call_both("restore", who, self.queues[0].now)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.call_both("restore", self.pick(data), self.queues[0].now)

    @rule()
    def from_a_checkpoint(self) -> None:
        restored = BackfillQueue(*self.load, easy=self.easy, log=True)
        restored.setstate(self.queues[0].getstate())
        self.queues[0] = restored

    @invariant()
    def equal(self) -> None:
        if hasattr(self, "queues"):
            assert outcome(self.queues[0]) == outcome(self.queues[1])

    def teardown(self) -> None:
        if hasattr(self, "queues"):
            self.call_both("restore", range(self.machines), self.queues[0].now)
            for queue in self.queues:
                queue.submit(range(self.next, self.jobs), max(queue.now, self.since))
            self.call_both("run", NEVER)
            self.equal()


TestQueueComparison = QueueComparison.TestCase
TestQueueComparison.settings = settings(stateful_step_count=30, deadline=None)


@given(logs(), st.booleans())
def test_schedules_equal_those_of_the_reference(log: Any, easy: bool) -> None:
    """In one call, and in pieces."""
    *load, at = log
    queues = [kind(*load, easy=easy, log=True) for kind in BOTH]
    for queue in queues:
        queue.submit(range(len(at)), at)
        assert queue.run(NEVER) == len(at)
    assert outcome(queues[0]) == outcome(queues[1])


@given(logs(), st.booleans(), st.lists(st.integers(0, 80), max_size=6))
def test_running_in_pieces_gives_the_same_result(log: Any, easy: bool, stops: list[int]) -> None:
    """Submitting jobs when they are due instead of before gives it, too."""
    *load, at = log
    whole, pieces = (BackfillQueue(*load, easy=easy, log=True) for _ in range(2))
    whole.submit(range(len(at)), at)
    whole.run(200)
    for stop in sorted({*stops, *at, 200}):
        who = [job for job, instant in enumerate(at) if instant == stop]
        if who:
            pieces.submit(who, stop)
        pieces.run(stop)
    assert outcome(whole) == outcome(pieces)


@pytest.mark.parametrize("seed", range(4))
def test_logs_with_overdue_jobs_and_failures_equal_reference(seed: int) -> None:
    """Many small logs with overdue jobs, which move shadow times, and with failures."""
    chance = np.random.default_rng(seed)
    for _ in range(60):
        machines, jobs = int(chance.integers(4, 16)), 30
        nodes = np.minimum(chance.geometric(0.3, jobs) + 5 * (chance.random(jobs) < 0.2), machines)
        run, estimate = chance.integers(1, 40, jobs), chance.integers(1, 25, jobs)
        at = np.sort(chance.integers(0, 120, jobs))
        queues: list[Any] = [kind(machines, nodes, run, estimate, log=True) for kind in BOTH]
        for queue in queues:
            queue.submit(range(jobs), at)
        for stop in (30, 31, 70, 100):
            who = np.flatnonzero(chance.random(machines) < 0.1)
            assert queues[0].run(stop) == queues[1].run(stop)
            assert np.array_equal(*(queue.fail(who, stop) for queue in queues))
            for queue in queues:
                queue.restore(who[: len(who) // 2], stop)
            assert outcome(queues[0]) == outcome(queues[1])
        assert queues[0].run(NEVER) == queues[1].run(NEVER)
        assert outcome(queues[0]) == outcome(queues[1])


@pytest.mark.parametrize(("machines", "jobs"), [(200, 400), (1000, 300)])
def test_a_long_queue_equals_reference(machines: int, jobs: int) -> None:
    """More jobs than a block holds, and more machines than a word has bits."""
    chance = np.random.default_rng(machines)
    nodes = np.minimum(2 ** chance.integers(0, 9, jobs), machines)
    run = chance.integers(1, 200, jobs)
    estimate = np.maximum(1, (run * chance.uniform(0.3, 4.0, jobs)).astype(np.int64))
    at = np.sort(chance.integers(0, 2000, jobs))
    queues = [kind(machines, nodes, run, estimate, log=True) for kind in BOTH]
    for queue in queues:
        queue.submit(range(jobs), at)
    for stop in range(0, 6000, 500):
        assert queues[0].run(stop) == queues[1].run(stop)
        who = np.sort(chance.choice(machines, 5, replace=False))
        assert np.array_equal(*(queue.fail(who, stop) for queue in queues))
        for queue in queues:
            queue.restore(who[:4], stop)
    assert queues[0].run(NEVER) == queues[1].run(NEVER)
    assert plain(queues[0].totals()) == plain(queues[1].totals())
    assert outcome(queues[0]) == outcome(queues[1])


def test_thousands_of_waiting_jobs_start_as_in_a_simple_list() -> None:
    """Skipped blocks and partial rescans change no start, compared with a simple list."""
    chance = np.random.default_rng(5)
    jobs, machines = 5000, 64
    nodes = np.minimum(2 ** chance.integers(0, 7, jobs), machines)
    run = chance.integers(1, 300, jobs)
    estimate = np.maximum(1, (run * chance.uniform(0.5, 3.0, jobs)).astype(np.int64))
    at = np.sort(chance.integers(0, 16_000, jobs))
    queue = BackfillQueue(machines, nodes, run, estimate)
    queue.submit(range(jobs), at)
    assert queue.run(30_000) < jobs - 1000
    assert queue.totals()["start"].tolist() == by_list(machines, nodes, run, estimate, at, 30_000)


def by_list(machines: int, nodes: Any, run: Any, estimate: Any, at: Any, until: int) -> list[int]:
    """Return the start of each job by a plain EASY on machine counts only, -1 if it is after `until`."""
    starts = [-1] * len(nodes)
    waiting: list[int] = []
    running: list[tuple[int, int, int]] = []  # end, estimated end, nodes
    width, length, belief = nodes.tolist(), run.tolist(), estimate.tolist()
    coming = list(zip(at.tolist(), range(len(nodes)), strict=True))[::-1]
    while coming or running:
        now = min([end for end, _, _ in running] + [instant for instant, _ in coming[-1:]])
        if now > until:
            break
        running = [each for each in running if each[0] > now]
        while coming and coming[-1][0] == now:
            waiting.append(coming.pop()[1])
        free = machines - sum(n for _, _, n in running)
        limit, extra, head, left = -1, 0, -1, []
        for job in waiting:
            n = width[job]
            if head < 0 and n > free:
                head, room = job, free
                for end, count in sorted((max(end, now), count) for _, end, count in running):
                    if room >= n and end > limit:
                        break
                    room, limit = room + count, end
                extra = room - n
            short = head < 0 or now + belief[job] <= limit
            if job == head or n > free or not (short or n <= extra):
                left.append(job)
                continue
            if not short:
                extra -= n
            free -= n
            starts[job] = now
            running.append((now + length[job], now + belief[job], n))
        waiting = left
    return starts


# -- invariants -----------------------------------------------------------------------------------------


@given(logs(), st.booleans())
def test_schedules_keep_the_invariants(log: Any, easy: bool) -> None:
    """Each job runs once, with its nodes and run time, after its submission, and alone on its machines."""
    *load, at = log
    machines, nodes, run, _ = load
    queue = BackfillQueue(*load, easy=easy, log=True)
    queue.submit(range(len(at)), at)
    queue.run(NEVER)
    machine, job, start, end, completed = queue.starts()
    totals = queue.totals()
    assert np.bincount(job, minlength=len(at)).tolist() == nodes and completed.all()
    assert ((end - start) == np.array(run, np.int64)[job]).all()
    assert (totals["start"] >= at).all() and (totals["finish"] == totals["start"] + run).all()
    assert sorted(zip(start, job, machine, strict=True)) == list(zip(start, job, machine, strict=True))
    for u in range(machines):
        mine = machine == u
        assert (end[mine][:-1] <= start[mine][1:]).all()
        assert totals["busy"][u] == (end - start)[mine].sum() and totals["tasks"][u] == mine.sum()
    if not easy:
        assert (np.diff(totals["start"]) >= 0).all()


@given(logs())
def test_the_head_starts_by_its_first_shadow_time(log: Any) -> None:
    """If no job exceeds its estimate, no head starts after its first shadow time."""
    machines, nodes, run, estimate, at = log
    estimate = [max(pair) for pair in zip(run, estimate, strict=True)]
    queue = BackfillQueue(machines, nodes, run, estimate)
    queue.submit(range(len(at)), at)
    promised: dict[int, int] = {}
    for now in range(0, 500):
        queue.run(now)
        totals = queue.totals()
        waits = [job for job in range(len(at)) if at[job] <= now and totals["start"][job] < 0]
        if not waits:
            continue
        busy = [job for job in range(len(at)) if totals["start"][job] >= 0 > totals["finish"][job]]
        free = machines - sum(nodes[job] for job in busy)
        for end, width in sorted((int(totals["start"][job]) + estimate[job], nodes[job]) for job in busy):
            free += width
            if free >= nodes[waits[0]]:
                promised.setdefault(waits[0], end)
                break
    begun = queue.totals()["start"]
    assert all(begun[job] <= instant for job, instant in promised.items())


@pytest.mark.parametrize("kind", BOTH)
def test_empty_queues_and_the_last_instant_are_accepted(kind: Callable[..., Any]) -> None:
    nothing = kind(4, [], [], [])
    columns = [*nothing.totals().values(), *nothing.starts(), nothing.fail([0], nothing.now)]
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    # without a log there are no rows
    queue = kind(2, [1, 1], [1, 1], [1, 1])
    queue.submit([0], 0)
    assert queue.run(5) == 1 and len(queue.starts()[0]) == 0
    last = int(LAST)
    for when in (last, [last]):
        kind(2, [1], [1], [1]).submit([0], when)


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [], [], []), r"machines must be in 1..2147483647, got 0"),
        ((True, [], [], []), r"machines must be in 1..2147483647, got True"),
        ((1.0, [], [], []), r"machines must be in 1..2147483647, got 1.0"),
        ((2**31, [], [], []), r"machines must be in 1..2147483647, got 2147483648"),
        ((4, [1, 5], [1, 1], [1, 1]), r"nodes\[1\] must be in 1..4, got 5"),
        ((4, [0], [1], [1]), r"nodes\[0\] must be in 1..4, got 0"),
        ((4, [1], [0], [1]), r"run\[0\] must be in 1..\d+, got 0"),
        ((4, [1], [1], [-3]), r"estimate\[0\] must be in 1..\d+, got -3"),
        ((4, [1], [2**61 + 1], [1]), r"run\[0\] must be in 1..2305843009213693952, got 2305843009213693953"),
        (
            (4, [1], [1], [2**61 + 1]),
            r"estimate\[0\] must be in 1..2305843009213693952, got 2305843009213693953",
        ),
        ((4, [1], [1, 2], [1]), "run must have as many entries as nodes, got 2 and 1"),
        ((4, [1], [1], []), "estimate must have as many entries as nodes, got 0 and 1"),
        ((4, [[1]], [1], [1]), "nodes must have one dimension, got 2"),
    ],
)
def test_wrong_queues_are_rejected(kind: Callable[..., Any], arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        kind(*arguments)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: q.submit([4], 10), r"jobs\[0\] must be in 0..3, got 4"),
        (lambda q: q.submit([-1], 10), r"jobs\[0\] must be in 0..3, got -1"),
        (lambda q: q.submit([1], 10), r"jobs\[0\] must be above 1, the job submitted before it, got 1"),
        (lambda q: q.submit([2, 2], 10), r"jobs\[1\] must be above 2, the job submitted before it, got 2"),
        (lambda q: q.submit([2], 9), r"now must be in 10..\d+, got 9"),
        (lambda q: q.submit([2], 2**70), r"now must be in 10..\d+, got 1180591620717411303424"),
        (lambda q: q.submit([2, 3], [11, 10]), r"now\[1\] must be in 11..\d+, got 10"),
        (lambda q: q.submit([2, 3], [9, 10]), r"now\[0\] must be in 10..\d+, got 9"),
        (lambda q: q.submit([2, 3], [10]), "now must have as many entries as jobs, got 1 and 2"),
        (lambda q: (q.submit([2], 15), q.submit([3], 14)), r"now must be in 15..\d+, got 14"),
        (lambda q: q.fail([3], 10), r"machines\[0\] must be in 0..2, got 3"),
        (lambda q: q.fail([1, 1], 10), r"machines\[1\] must be above 1, the one before it, got 1"),
        (lambda q: q.restore([2, 0], 10), r"machines\[1\] must be above 2, the one before it, got 0"),
        (lambda q: q.fail([0], 9), "now must be 10 ns, the end of the last run, got 9"),
        (lambda q: q.restore([0], 11), "now must be 10 ns, the end of the last run, got 11"),
    ],
)
def test_wrong_calls_are_rejected_and_change_nothing(
    kind: Callable[..., Any], call: Callable[[Any], Any], message: str
) -> None:
    """The queue then equals one without the call."""
    queue, other = (kind(3, [1, 2, 3, 1], [5, 50, 5, 5], [5, 50, 5, 5], log=True) for _ in range(2))
    for each in (queue, other):
        each.submit([0, 1], 5)
        each.run(10)
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(queue)
    assert outcome(queue) == outcome(other)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("jobs", lambda q: q.submit([0.5], 0)),
        ("now", lambda q: q.submit([0], [0.5])),
        ("machines", lambda q: q.fail([0.5], 0)),
    ],
)
def test_arguments_of_wrong_types_are_rejected(
    kind: Callable[..., Any], name: str, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match=f"^{name}"):
        call(kind(3, [1], [1], [1]))


@pytest.mark.parametrize("kind", BOTH)
def test_a_job_that_ends_after_the_last_instant_is_rejected(kind: Callable[..., Any]) -> None:
    """The queue stays as before that start, and raises the same error again."""
    long = 2**61
    queue = kind(2, [1, 2, 2, 1], [long, long, 1, long], [long, long, 1, 1], log=True)
    queue.submit(range(4), 0)
    for _ in range(2):
        with pytest.raises(OverflowError, match=r"^jobs must end by 2\*\*62 ns$"):
            queue.run(NEVER)
        assert (queue.now, queue.next_end()) == (LAST, NEVER)
    assert queue.totals()["finish"].tolist() == [long, LAST, -1, long]


@pytest.mark.parametrize("kind", BOTH)
def test_a_queue_without_jobs_ends_at_once(kind: Callable[..., Any]) -> None:
    queue = kind(3, [], [], [], log=True)
    queue.submit([], 5)
    assert (queue.run(7), queue.run(3), queue.now, queue.next_end()) == (0, 0, 7, NEVER)
    assert queue.fail([0, 2], 7).tolist() == [] and plain(queue.starts()) == [[]] * 5
    assert [len(column) for column in queue.totals().values()] == [0, 0, 0, 0, 3, 3, 3]
    assert (queue.machines, queue.jobs, queue.easy, queue.log) == (3, 0, True, True)
