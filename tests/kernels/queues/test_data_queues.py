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

amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 6.0])
options = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["edf", "fifo"]),
        "watch": st.sampled_from(["idle", "completion"]),
        "log": st.booleans(),
        "record": st.booleans(),
    }
)


class DataQueueComparison(Program):
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

    def running_tasks(self):
        return int(self.kernel.getstate()["n_active"].sum())

    @rule()
    def restore(self):
        fresh = self.kind(self.speed, **self.options)
        for *row, fetched, sent in self.rows:
            columns = {"input_bytes": [fetched], "output_bytes": [sent]}
            fresh.add_applications(*([value] for value in row), **columns)
        fresh.setstate(self.kernel.getstate())
        self.kernel = fresh


class NoDataQueueComparison(DataQueueComparison):
    """Machines with links but without data, which equal `TaskQueues`."""

    data, other = False, WithoutData


def test_a_task_that_ends_a_nanosecond_later_still_runs():
    program = DataQueueComparison()
    more = {"order": "edf", "watch": "idle", "log": False, "record": False}
    program.start(speed=[0.5, 1.5], seed=510511, aware=False, more=more)
    program.call_both("enqueue", [1], [0], [3], 0)  # no data, and 0.666666667 s per task
    program.call_both("advance", 2 * NS, None)
    program.now, program.enqueued = 2 * NS, 3
    program.check_equality()


for _program in (DataQueueComparison, NoDataQueueComparison):
    _program.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestWithData, TestWithoutAny = DataQueueComparison.TestCase, NoDataQueueComparison.TestCase

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
    [capacity] = queues.capacity_of(stretch, len(shares_before), now, [0])
    assume(0 < capacity < 1000)
    queues.enqueue([0], [len(shares_before)], [capacity], now)
    queues.reschedule([0], now)
    queues.advance(10**15)
    finish = queues.totals()["finish"]
    for (release, size, *_), end in zip([*shares_before, new], finish.tolist(), strict=True):
        assert end / NS <= (release + stretch * size) * (1 + 1e-9) + 1e-6 or end <= now


@given(speeds, st.sampled_from([0.5, 1.0, 4.0]), shares, st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_the_room_of_an_idle_machine_is_exact(speed, bandwidth, new, stretch):
    """One task more would be late: the bound of an idle machine is tight."""
    queues = machine(speed, bandwidth, [(*new[:5], 0)])
    [capacity] = queues.capacity_of(stretch, 0, 0, [0])
    assume(capacity < 1000)
    queues.enqueue([0], [0], [capacity + 1], 0)
    queues.advance(10**15)
    deadline = new[0] + stretch * new[1]
    assert queues.totals()["finish"][0] / NS >= deadline * (1 - 1e-9) - 1e-6


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"bandwidth": [0.0]}, r"bandwidth\[0\] must be a number > 0, got 0.0"),
        ({"bandwidth": [1.0, 1.0]}, "bandwidth must have as many entries as speed, got 2 and 1"),
    ],
)
def test_bandwidths_must_be_positive(columns, message):
    with pytest.raises(ValueError, match=message):
        DataQueues([1.0], **columns)


def test_negative_bytes_are_rejected():
    queues = DataQueues([1.0], bandwidth=[1.0])
    with pytest.raises(ValueError, match=r"^input_bytes\[0\]"):
        queues.add_applications([0.0], [1.0], [1.0], input_bytes=[-1.0])
