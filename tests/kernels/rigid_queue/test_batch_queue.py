"""Backfilling: equality with the reference, examples by hand, invariants of a schedule, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gridcore.rigid_queue.batch_queue import JobQueue
from tests.reference.batch_queue import JobQueue as Reference

BOTH = [JobQueue, Reference]
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
def options(draw: st.DrawFn, machines: int, nodes: list[int]) -> dict[str, Any]:
    """Draw a discipline, an order, limits and partitions."""
    jobs = len(nodes)
    kind = draw(
        st.sampled_from(["none", "easy", "easy", "depth", "concrete", "conservative", "conservative"])
    )
    keywords: dict[str, Any] = {
        "none": {"depth": 0},
        "easy": {},
        "depth": {"depth": draw(st.integers(2, 4))},
        "concrete": {"concrete": True},
        "conservative": {"conservative": True},
    }[kind]
    order = draw(st.sampled_from([None, None, "ranks", "sjf", "saf", "wfp", "unicef"]))
    if order == "ranks":
        keywords["ranks"] = draw(
            st.lists(st.integers(0, min(3, max(0, jobs - 1))), min_size=jobs, max_size=jobs)
        )
    elif order:
        keywords["order"] = order
    if draw(st.booleans()):
        keywords["users"] = draw(st.lists(st.integers(0, 2), min_size=jobs, max_size=jobs))
        keywords["predicted"] = draw(st.booleans())
        if kind != "conservative":
            keywords["limit"] = draw(st.integers(0, 8))
    if kind != "conservative" and draw(st.integers(0, 3)) == 0:
        keywords["queues"] = draw(st.lists(st.integers(0, 1), min_size=jobs, max_size=jobs))
        keywords["queue_limits"] = draw(st.lists(st.integers(0, 8), min_size=2, max_size=3))
    if machines > 1 and draw(st.integers(0, 3)) == 0:
        first = draw(st.integers(1, machines - 1))
        sizes = keywords["sizes"] = [first, machines - first]
        keywords["partition"] = [0 if draw(st.booleans()) or n > sizes[1] else 1 for n in nodes]
        nodes[:] = [min(n, sizes[p]) for n, p in zip(nodes, keywords["partition"], strict=True)]
    return keywords


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, list[int], list[int], list[int], list[int]]:
    """Draw machines, nodes, run times, estimates and submissions."""
    load = draw(loads())
    n = len(load[1])
    return (*load, sorted(draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))))


def to_lists(columns: Any) -> Any:
    if isinstance(columns, dict):
        return {name: column.tolist() for name, column in columns.items()}
    return [column.tolist() for column in columns]


def outcome(queue: Any) -> Any:
    return queue.now, queue.next_end(), to_lists(queue.totals()), to_lists(queue.starts())


# -- examples worked by hand --------------------------------------------------------------------------------


# -- kernel and reference implementation ----------------------------------------------------------------


class QueueComparison(RuleBasedStateMachine):
    """Kernel and reference side by side; at times another kernel continues from the state."""

    kernel: Any = JobQueue

    @initialize(load=loads(24), data=st.data())
    def begin(self, load: Any, data: st.DataObject) -> None:
        self.load, self.options = load, data.draw(options(load[0], load[1]), label="options")
        self.machines, self.jobs, self.next, self.since = load[0], len(load[1]), 0, 0
        self.queues: list[Any] = [kind(*load, **self.options, log=True) for kind in BOTH]

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
    def restore_checkpoint(self) -> None:
        restored = self.kernel(*self.load, **self.options, log=True)
        restored.setstate(self.queues[0].getstate())
        self.queues[0] = restored

    @invariant()
    def check_equality(self) -> None:
        if hasattr(self, "queues"):
            assert outcome(self.queues[0]) == outcome(self.queues[1])

    def teardown(self) -> None:
        if hasattr(self, "queues"):
            self.call_both("restore", range(self.machines), self.queues[0].now)
            for queue in self.queues:
                queue.submit(range(self.next, self.jobs), max(queue.now, self.since))
            self.call_both("run", NEVER)
            self.check_equality()


TestQueueComparison = QueueComparison.TestCase
TestQueueComparison.settings = settings(stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("seed", range(4))
def test_logs_with_overdue_jobs_and_failures_equal_reference(seed: int) -> None:
    """Many small logs with overdue jobs, which move shadow times, and with failures."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        machines, jobs = int(rng.integers(4, 16)), 30
        nodes = np.minimum(rng.geometric(0.3, jobs) + 5 * (rng.random(jobs) < 0.2), machines)
        run, estimate = rng.integers(1, 40, jobs), rng.integers(1, 25, jobs)
        instants = np.sort(rng.integers(0, 120, jobs))
        queues: list[Any] = [kind(machines, nodes, run, estimate, log=True) for kind in BOTH]
        for queue in queues:
            queue.submit(range(jobs), instants)
        for stop in (30, 31, 70, 100):
            who = np.flatnonzero(rng.random(machines) < 0.1)
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
    rng = np.random.default_rng(machines)
    nodes = np.minimum(2 ** rng.integers(0, 9, jobs), machines)
    run = rng.integers(1, 200, jobs)
    estimate = np.maximum(1, (run * rng.uniform(0.3, 4.0, jobs)).astype(np.int64))
    instants = np.sort(rng.integers(0, 2000, jobs))
    queues = [kind(machines, nodes, run, estimate, log=True) for kind in BOTH]
    for queue in queues:
        queue.submit(range(jobs), instants)
    for stop in range(0, 6000, 500):
        assert queues[0].run(stop) == queues[1].run(stop)
        who = np.sort(rng.choice(machines, 5, replace=False))
        assert np.array_equal(*(queue.fail(who, stop) for queue in queues))
        for queue in queues:
            queue.restore(who[:4], stop)
    assert queues[0].run(NEVER) == queues[1].run(NEVER)
    assert to_lists(queues[0].totals()) == to_lists(queues[1].totals())
    assert outcome(queues[0]) == outcome(queues[1])


def test_thousands_of_waiting_jobs_start_as_in_a_simple_list() -> None:
    """Skipped blocks and partial rescans change no start, compared with a simple list."""
    rng = np.random.default_rng(5)
    jobs, machines = 5000, 64
    nodes = np.minimum(2 ** rng.integers(0, 7, jobs), machines)
    run = rng.integers(1, 300, jobs)
    estimate = np.maximum(1, (run * rng.uniform(0.5, 3.0, jobs)).astype(np.int64))
    instants = np.sort(rng.integers(0, 16_000, jobs))
    queue = JobQueue(machines, nodes, run, estimate)
    queue.submit(range(jobs), instants)
    assert queue.run(30_000) < jobs - 1000
    assert queue.totals()["start"].tolist() == easy_starts(machines, nodes, run, estimate, instants, 30_000)


def easy_starts(machines: int, nodes: Any, run: Any, estimate: Any, at: Any, until: int) -> list[int]:
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
        running = [item for item in running if item[0] > now]
        while coming and coming[-1][0] == now:
            waiting.append(coming.pop()[1])
        free = machines - sum(n for _, _, n in running)
        limit, extra, head, left = -1, 0, -1, []
        for job in waiting:
            n = width[job]
            if head < 0 and n > free:
                head, capacity = job, free
                for end, count in sorted((max(end, now), count) for _, end, count in running):
                    if capacity >= n and end > limit:
                        break
                    capacity, limit = capacity + count, end
                extra = capacity - n
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


@pytest.mark.parametrize("kind", BOTH)
def test_empty_queues_and_the_last_instant_are_accepted(kind: Callable[..., Any]) -> None:
    empty_queue = kind(4, [], [], [])
    columns = [*empty_queue.totals().values(), *empty_queue.starts(), empty_queue.fail([0], empty_queue.now)]
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    # without a log there are no rows
    queue = kind(2, [1, 1], [1, 1], [1, 1])
    queue.submit([0], 0)
    assert queue.run(5) == 1 and len(queue.starts()[0]) == 0
    last = int(LAST)
    for when in (last, [last]):
        kind(2, [1], [1], [1]).submit([0], when)


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [], [], []), r"machines must be in 1..2147483647, got 0"),
        ((True, [], [], []), r"machines must be in 1..2147483647, got True"),
        ((1.0, [], [], []), r"machines must be in 1..2147483647, got 1.0"),
        ((2**31, [], [], []), r"machines must be in 1..2147483647, got 2147483648"),
        ((4, [1, 5], [1, 1], [1, 1]), r"nodes\[1\] must be in 1..4, the machines of its partition, got 5"),
        ((4, [0], [1], [1]), r"nodes\[0\] must be in 1..2147483647, got 0"),
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
def test_wrong_queues_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        JobQueue(*arguments)


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
def test_wrong_calls_are_rejected_and_change_nothing(call: Callable[[Any], Any], message: str) -> None:
    """The queue then equals one without the call."""
    queue, other = (JobQueue(3, [1, 2, 3, 1], [5, 50, 5, 5], [5, 50, 5, 5], log=True) for _ in range(2))
    for item in (queue, other):
        item.submit([0, 1], 5)
        item.run(10)
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(queue)
    assert outcome(queue) == outcome(other)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("jobs", lambda q: q.submit([0.5], 0)),
        ("now", lambda q: q.submit([0], [0.5])),
        ("machines", lambda q: q.fail([0.5], 0)),
    ],
)
def test_arguments_of_wrong_types_are_rejected(name: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=f"^{name}"):
        call(JobQueue(3, [1], [1], [1]))


def test_a_job_that_ends_after_the_last_instant_is_rejected() -> None:
    """The queue stays as before that start, and raises the same error again."""
    long = 2**61
    queue = JobQueue(2, [1, 2, 2, 1], [long, long, 1, long], [long, long, 1, 1], log=True)
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
    assert queue.fail([0, 2], 7).tolist() == [] and to_lists(queue.starts()) == [[]] * 5
    assert [len(column) for column in queue.totals().values()] == [0, 0, 0, 0, 3, 3, 3]
    assert (queue.machines, queue.jobs, queue.depth, queue.log) == (3, 0, 1, True)


# -- conservative backfilling, and orders by hand ---------------------------------------------------------


@given(logs())
def test_conservative_backfilling_starts_no_job_after_its_first_reservation(log: Any) -> None:
    """If no job outlives its estimate, each reservation is that of a queue without later jobs."""
    *load, time_ns = log
    machines, nodes, run, estimate = load
    estimate = [max(*item) for item in zip(run, estimate, strict=True)]
    queue = JobQueue(machines, nodes, run, estimate, conservative=True)
    queue.submit(range(len(time_ns)), time_ns)
    queue.run(NEVER)
    starts = queue.totals()["start"]
    for job, instant in enumerate(time_ns):
        # a queue with this job and all jobs before it, as of its release; if no further jobs arrived, all
        # would run as long as they are estimated to
        before = JobQueue(machines, nodes[: job + 1], run[: job + 1], estimate[: job + 1], conservative=True)
        before.submit(range(job + 1), time_ns[: job + 1])
        before.run(instant)
        reserved = before.getstate()["reserved"][job]
        assert starts[job] <= (instant if reserved < 0 else reserved)


def test_orders_are_as_computed_by_hand() -> None:
    """Job 0 occupies the only machine until 10; then jobs 1 to 4, each for one machine, run one by one.

    WFP: at 10 jobs 1 to 4 have waited 9, 8, 7 and 6, so their priorities are (9/8)**3 = 1.42, (8/2)**3 = 64,
    (7/4)**3 = 5.4 and (6/6)**3 = 1: jobs 2 and 3 run first.  At 16 jobs 1 and 4 have waited 15 and 12, so job
    4 is next: (15/8)**3 = 6.6, (12/6)**3 = 8.
    """
    nodes, run = [1] * 5, [10, 8, 2, 4, 6]
    for options_of_order, order in (
        ({}, [1, 2, 3, 4]),
        ({"ranks": [0, 4, 3, 2, 1]}, [4, 3, 2, 1]),
        ({"order": "sjf"}, [2, 3, 4, 1]),
        ({"order": "wfp"}, [2, 3, 4, 1]),
    ):
        queue = JobQueue(1, nodes, run, run, **options_of_order)
        queue.submit(range(5), [0, 1, 2, 3, 4])
        queue.run(NEVER)
        assert np.argsort(queue.totals()["start"]).tolist()[1:] == order, options_of_order


def test_predictions_are_the_mean_of_the_last_two_runs_of_a_user() -> None:
    """User 0's first two jobs ran 4 and 8, so the third, which asks for 100, is expected to run 6.

    It may pass the head, whose shadow time is 6 away; with its requested time it may not.
    """
    # jobs 0 and 1 end at 12; at 12 job 2 takes one of three machines for 6; the head needs three
    nodes, run, ask = [1, 1, 1, 3, 1], [4, 8, 6, 1, 5], [100, 100, 6, 1, 100]
    users = [0, 0, 1, 1, 0]
    starts = {}
    for predicted in (False, True):
        queue = JobQueue(3, nodes, run, ask, users=users, predicted=predicted)
        queue.submit(range(5), [0, 4, 12, 12, 12])
        queue.run(NEVER)
        starts[predicted] = queue.totals()["start"].tolist()
    assert starts == {False: [0, 4, 12, 18, 19], True: [0, 4, 12, 18, 12]}


def test_predictions_that_jobs_outlive_grow_up_to_their_requests() -> None:
    """Job 2 is expected to run for 1 min, then 2, 7 and 22, and for 30 at last; it runs for 40.

    Job 3 needs both machines, so job 4, which lasts for 10 min, waits until job 2 is expected to run for at
    least 10 min more: when it has run for 7, and 15 are left.
    """
    minute = 60 * 10**9
    run, ask = (np.array(times) * minute for times in ([1, 1, 40, 1, 10], [1, 1, 30, 1, 10]))
    users, at = [0, 0, 0, 1, 1], np.array([-1, -1, 0, 0, 0]) * minute + minute
    queue = JobQueue(2, [1, 1, 1, 2, 1], run, ask, users=users, predicted=True)
    queue.submit(range(5), at)
    estimates = {0: 1, 1: 2, 2: 7, 6: 7, 7: 22, 21: 22, 22: 30, 39: 30}
    for now, estimate in estimates.items():
        queue.run((now + 1) * minute)
        assert queue.getstate()["estimate"][2] == estimate * minute, now
    queue.run(NEVER)
    assert (queue.totals()["start"] // minute).tolist() == [0, 0, 1, 41, 8]


@pytest.mark.parametrize(
    "kind", [{"depth": 0, "order": "sjf"}, {}, {"concrete": True}, {"depth": 3}, {"conservative": True}]
)
def test_corrected_predictions_equal_reference(kind: dict[str, Any]) -> None:
    """On one partition and on two, with failures that cut off corrected jobs; some outlive their requests."""
    rng, grown = np.random.default_rng(len(kind)), 0
    for case in range(20):
        machines, jobs = int(rng.integers(3, 8)), 24
        run, estimate = (60e9 * (rng.pareto(0.6, jobs) + 1).clip(max=3000) for _ in range(2))
        estimate = np.where(rng.random(jobs) < 0.9, np.maximum(run, estimate), estimate)
        load = machines, rng.integers(1, 4, jobs), run.astype(np.int64), estimate.astype(np.int64)
        options: dict[str, Any] = {"users": rng.integers(0, 3, jobs), "predicted": True, **kind}
        if case % 2:
            options |= {
                "sizes": [machines // 2, machines - machines // 2],
                "partition": rng.integers(0, 2, jobs),
            }
            load[1][:] = np.minimum(load[1], machines // 2)
        instants = np.sort(rng.integers(0, 10**13, jobs))
        queues: list[Any] = [queue(*load, **options, log=True) for queue in BOTH]
        for queue in queues:
            queue.submit(range(jobs), instants)
        for stop in np.cumsum(rng.integers(0, 10**13, 5)).tolist():
            assert queues[0].run(stop) == queues[1].run(stop)
            assert np.array_equal(*(queue.fail([1], stop) for queue in queues))
            restored = JobQueue(*load, **options, log=True)
            restored.setstate(queues[0].getstate())
            queues[0] = restored
            for queue in queues:
                queue.restore([1], stop)
        assert queues[0].run(NEVER) == queues[1].run(NEVER)
        assert outcome(queues[0]) == outcome(queues[1])
        grown += (queues[0].getstate()["corrections"] > 1).sum()
    assert grown > 20


def test_fair_share_prefers_the_user_who_has_used_less() -> None:
    """Users 0 and 1 have used 10 and 1 machine seconds when the machine is free again at 11 s."""
    second = 10**9
    nodes, run = [1] * 4, [10 * second, second, second, second]
    weights = {"share": 1.0, "half_life": 1e9}
    queue = JobQueue(1, nodes, run, run, users=[0, 1, 0, 1], order="multifactor", weights=weights)
    queue.submit(range(4), 0)
    queue.run(NEVER)
    # at 0 all priorities are equal, so job 0 starts; at 10 user 0 has used all the time, so its second job is
    # last
    assert np.argsort(queue.totals()["start"]).tolist() == [0, 1, 3, 2]


def test_a_limit_passes_over_the_jobs_of_a_user() -> None:
    nodes, run = [2, 2, 1], [10, 10, 10]
    queue = JobQueue(4, nodes, run, run, users=[0, 0, 1], limit=3)
    queue.submit(range(3), 0)
    queue.run(NEVER)
    assert queue.totals()["start"].tolist() == [0, 10, 0]
