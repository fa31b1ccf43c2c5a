"""Task queues with data: equality with the reference implementation, and the room of machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from gridcore.queues.data_queues import DataQueues
from tests._helpers.small_queues import NS, quarters, sizes, speeds, steps
from tests.kernels.queues.test_task_queues import Program
from tests.reference import data_queues as reference
from tests.reference.task_queues import TaskQueues as WithoutData

BOTH = pytest.mark.parametrize("kind", [DataQueues, reference.DataQueues], ids=["kernel", "reference"])
amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 6.0])
options = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["edf", "fifo"]),
        "watch": st.sampled_from(["idle", "completion"]),
        "log": st.booleans(),
        "record": st.booleans(),
    }
)


class WithData(Program):
    """The kernel and its reference implementation side by side, with links and data."""

    kind, other = DataQueues, reference.DataQueues
    data = True

    @initialize(
        speed=st.lists(speeds, min_size=1, max_size=3),
        more=options,
        aware=st.booleans(),
        seed=st.integers(0, 2**32),
    )
    def start(self, speed, more, aware, seed):
        self.random = np.random.default_rng(seed)
        width = {"bandwidth": self.random.choice([0.5, 1.0, 2.0, np.inf], len(speed)), "aware": aware}
        self.speed, self.options, self.log = speed, more | width, more["log"]
        self.kernel = self.kind(speed, **self.options)
        self.reference = self.other(speed, **(self.options if self.data else more))
        self.now = self.applications = self.enqueued = self.lost = 0
        self.rows, self.further, self.machines = [], [], len(speed)
        self.add(0.0, 4.0, 1.0)

    def append(self, release, size, task_size, whose=None):
        k = len(release)
        bytes_ = [self.random.choice([0.0, 0.5, 1.5, 4.0], k) if self.data else np.zeros(k) for _ in range(2)]
        columns = dict(zip(("input_bytes", "output_bytes"), bytes_, strict=True))
        self.kernel.add_applications(release, size, task_size, whose, **columns)
        if self.data:
            self.reference.add_applications(release, size, task_size, whose, **columns)
        else:
            self.reference.add_applications(release, size, task_size, whose)
        whose = range(self.applications, self.applications + k) if whose is None else whose
        self.rows += zip(release, size, task_size, whose, *bytes_, strict=True)
        self.applications += k

    def running(self):
        return int(self.kernel.getstate()["n_active"].sum())

    @rule()
    def restore(self):
        fresh = self.kind(self.speed, **self.options)
        for *row, fetched, sent in self.rows:
            columns = {"input_bytes": [fetched], "output_bytes": [sent]}
            fresh.add_applications(*([value] for value in row), **columns)
        fresh.setstate(self.kernel.getstate())
        self.kernel = fresh


class WithoutAny(WithData):
    """Machines with links but without data, which equal `TaskQueues`."""

    data, other = False, WithoutData


def test_a_task_that_ends_a_nanosecond_later_still_runs():
    program = WithData()
    more = {"order": "edf", "watch": "idle", "log": False, "record": False}
    program.start(speed=[0.5, 1.5], seed=510511, aware=False, more=more)
    program.call_both("enqueue", [1], [0], [3], 0)  # no data, and 0.666666667 s per task
    program.call_both("advance", 2 * NS, None)
    program.now, program.enqueued = 2 * NS, 3
    program.equal()


for _program in (WithData, WithoutAny):
    _program.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestWithData, TestWithoutAny = WithData.TestCase, WithoutAny.TestCase

shares = st.tuples(st.integers(-4, 0).map(float), sizes, quarters, amounts, amounts, st.integers(1, 5))


def machine(speed, bandwidth, shares_before, **options):
    """Return one machine with shares (release, size, task size, input, output, tasks), enqueued at 0."""
    queues = DataQueues([speed], bandwidth=[bandwidth], **options)
    for k, (release, size, task_size, fetched, sent, tasks) in enumerate(shares_before):
        columns = {"input_bytes": [fetched], "output_bytes": [sent]}
        queues.add_applications([release], [size], [task_size], **columns)
        if tasks:
            queues.enqueue([0], [k], [tasks], 0)
    return queues


@given(
    speeds,
    st.sampled_from([0.5, 1.0, 4.0]),
    st.lists(shares, max_size=3),
    shares,
    st.sampled_from([0.5, 1.0, 2.0, 5.0, 20.0]),
    steps,
)
def test_tasks_within_the_room_meet_all_deadlines(speed, bandwidth, shares_before, new, stretch, now):
    queues = machine(speed, bandwidth, [*shares_before, (*new[:5], 0)])
    queues.reschedule([0], 0)
    queues.advance(now)
    [room] = queues.room(stretch, len(shares_before), now, [0])
    assume(0 < room < 1000)
    queues.enqueue([0], [len(shares_before)], [room], now)
    queues.reschedule([0], now)
    queues.advance(10**15)
    finish = queues.totals()["finish"]
    for (release, size, *_), end in zip([*shares_before, new], finish.tolist(), strict=True):
        assert end / NS <= (release + stretch * size) * (1 + 1e-9) + 1e-6 or end <= now


@given(speeds, st.sampled_from([0.5, 1.0, 4.0]), shares, st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_the_room_of_an_idle_machine_is_exact(speed, bandwidth, new, stretch):
    """One task more would be late: the bound of an idle machine is tight."""
    queues = machine(speed, bandwidth, [(*new[:5], 0)])
    [room] = queues.room(stretch, 0, 0, [0])
    assume(room < 1000)
    queues.enqueue([0], [0], [room + 1], 0)
    queues.advance(10**15)
    deadline = new[0] + stretch * new[1]
    assert queues.totals()["finish"][0] / NS >= deadline * (1 - 1e-9) - 1e-6


@BOTH
def test_a_machine_fetches_the_next_task_while_it_computes_one(kind):
    """Tasks of 2 s fetch 3 s and send 1 s: they start at 3, 6 and 9 s; the last output arrives at 12 s."""
    queues = kind([1.0], bandwidth=[1.0], log=True, record=True)
    queues.add_applications([0.0], [6.0], [2.0], input_bytes=[3.0], output_bytes=[1.0])
    queues.enqueue([0], [0], [3], 0)
    queues.advance(20 * NS)
    ran = queues.schedule()
    assert ran["start"].tolist() == [3 * NS, 6 * NS, 9 * NS]
    assert queues.totals()["finish"].tolist() == [12 * NS] and queues.totals()["busy"].tolist() == [6 * NS]


@BOTH
def test_output_that_waits_for_the_link_keeps_the_processor(kind):
    """Tasks of 1 s send 3 s: the second, computed from 1 s on, leaves the processor at 4 s."""
    queues = kind([1.0], bandwidth=[1.0], record=True)
    queues.add_applications([0.0], [3.0], [1.0], output_bytes=[3.0])
    queues.enqueue([0], [0], [3], 0)
    queues.advance(20 * NS)
    assert queues.schedule()["end"].tolist() == [2 * NS, 5 * NS]  # the first two without a pause
    assert queues.totals()["finish"].tolist() == [10 * NS]


@BOTH
def test_a_task_whose_input_is_fetched_is_not_overtaken(kind):
    queues = kind([1.0], bandwidth=[1.0], record=True)
    queues.add_applications([0.0, 0.0], [100.0, 1.0], [10.0, 1.0], input_bytes=[5.0, 0.5])
    queues.enqueue([0], [0], [3], 0)
    queues.reschedule([0], 0)
    queues.advance(6 * NS)  # one is computed from 5 s on, and the input of the next is there
    queues.enqueue([0], [1], [1], 6 * NS)
    queues.reschedule([0], 6 * NS)
    queues.advance(100 * NS)
    assert queues.schedule()["application"].tolist() == [0, 1, 0]


@BOTH
def test_input_is_not_fetched_before_the_task_arrives(kind):
    """While tasks without input wait, a more urgent one arrives at 6 s and fetches until 8 s."""
    queues = kind([1.0], bandwidth=[1.0], record=True)
    queues.add_applications([0.0, 0.0], [100.0, 1.0], [7.0, 1.0], input_bytes=[0.0, 2.0])
    queues.enqueue([0], [0], [3], 0)
    queues.advance(6 * NS)
    queues.enqueue([0], [1], [1], 6 * NS)
    queues.reschedule([0], 6 * NS)
    queues.advance(100 * NS)
    ran = queues.schedule()
    assert ran["application"].tolist() == [0, 1, 0]
    assert ran["start"].tolist() == [0, 8 * NS, 9 * NS]


@BOTH
def test_a_task_without_input_does_not_start_before_its_arrival(kind):
    """The processor is idle until 5 s, while input is fetched; a task that arrives at 2 s is second."""
    queues = kind([1.0], bandwidth=[1.0], record=True)
    queues.add_applications([0.0, 0.0], [9.0, 90.0], [1.0, 1.0], input_bytes=[5.0, 0.0])
    queues.enqueue([0], [0], [1], 0)
    queues.advance(2 * NS)
    queues.enqueue([0], [1], [1], 2 * NS)
    queues.reschedule([0], 2 * NS)
    queues.advance(100 * NS)
    assert queues.schedule()["start"].tolist() == [5 * NS, 6 * NS]


@BOTH
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"bandwidth": [0.0]}, r"bandwidth\[0\] must be a number > 0, got 0.0"),
        ({"bandwidth": [1.0, 1.0]}, "bandwidth must have as many entries as speed, got 2 and 1"),
    ],
)
def test_bandwidths_must_be_positive(kind, columns, message):
    with pytest.raises(ValueError, match=message):
        kind([1.0], **columns)


@BOTH
def test_negative_bytes_are_rejected(kind):
    queues = kind([1.0], bandwidth=[1.0])
    with pytest.raises(ValueError, match=r"^input_bytes\[0\]"):
        queues.add_applications([0.0], [1.0], [1.0], input_bytes=[-1.0])
