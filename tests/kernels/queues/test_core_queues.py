"""Queues of machines with several cores: equality with the reference implementation, and single cases."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from gridcore.common.state import NEVER
from gridcore.queues.core_queues import CoreQueues
from tests._helpers.small_queues import NS, TOLERANCES, restored, speeds, steps
from tests.kernels.queues.test_task_queues import Program
from tests.reference import core_queues as reference
from tests.reference.task_queues import TaskQueues as OneCore

options = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["edf", "fifo"]),
        "watch": st.sampled_from(["idle", "completion"]),
        "log": st.booleans(),
        "record": st.booleans(),
        "tolerance": TOLERANCES,
    }
)


class CoreQueueComparison(Program):
    """The kernel and its reference implementation side by side."""

    counts = st.integers(1, 4)

    @initialize(speed=st.lists(speeds, min_size=1, max_size=3), more=options, data=st.data())
    def start(self, speed, more, data):
        cores = data.draw(st.lists(self.counts, min_size=len(speed), max_size=len(speed)), label="cores")
        self.speed, self.cores, self.options, self.log = speed, cores, more, more["log"]
        self.kernel, self.reference = CoreQueues(speed, cores=cores, **more), self.make_reference()
        self.now = self.applications = self.enqueued = self.lost = 0
        self.rows, self.further, self.machines = [], [], len(speed)
        self.add(0.0, 4.0, 1.0)

    def make_reference(self):
        return reference.CoreQueues(self.speed, cores=self.cores, **self.options)

    @rule()
    def restore(self):
        fresh = CoreQueues(self.speed, cores=self.cores, **self.options)
        self.kernel = restored(self.kernel, fresh, self.rows)

    @rule()
    def advance_to_next_change(self):
        """A machine that is watched for idleness may wake up several times before it is idle."""
        for _ in range(200):
            at = self.kernel.next_change()
            if at == NEVER:
                return
            assert at >= self.now
            self.now = at
            if len(self.due()):
                return
        raise AssertionError("no change after 200 instants")

    @rule(step=steps)
    def advance_due(self, step):
        self.now += step
        self.due()
        assert self.kernel.next_change() > self.now

    def due(self):
        """Return the machines whose change is due; the kernel may also have advanced others."""
        due = self.call_both("due", self.now)
        self.call_both("catch_up", self.now)
        return due

    def check_next_change(self):
        bound, exact = self.kernel.next_change(), self.reference.next_change()
        assert bound <= exact and (bound == NEVER) == (exact == NEVER)
        if self.options["watch"] == "completion" or max(self.cores) == 1:
            assert bound == exact

    def check_runs(self, ran):
        for machine in range(self.machines):
            rows = ran["machine"] == machine
            start, end = ran["start"][rows], ran["end"][rows]
            running = [int(((start <= at) & (at < end)).sum()) for at in start.tolist()]
            assert max(running, default=0) <= self.cores[machine]

    def running_tasks(self):
        return int((self.kernel.getstate()["core_task"] >= 0).sum())


class OneCoreComparison(CoreQueueComparison):
    """Machines with one core each, which equal `TaskQueues`."""

    counts = st.just(1)

    def make_reference(self):
        return OneCore(self.speed, **self.options)


for _program in (CoreQueueComparison, OneCoreComparison):
    _program.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestSeveralCores, TestOneCore = CoreQueueComparison.TestCase, OneCoreComparison.TestCase


def test_cores_take_tasks_in_the_order_of_the_queue():
    queues = CoreQueues([1.0], cores=[2], order="fifo", record=True)
    queues.add_applications([0.0, 0.0], [6.0, 2.0], [3.0, 1.0])
    queues.enqueue([0, 0], [0, 1], [2, 2], 0)
    queues.advance(10 * NS)
    assert queues.totals()["finish"].tolist() == [3 * NS, 4 * NS]
    ran = queues.schedule()
    assert ran["start"].tolist() == [0, 0, 3 * NS, 3 * NS] and ran["tasks"].sum() == 4
    assert queues.totals()["busy"].tolist() == [8 * NS]


def test_a_machine_takes_no_task_that_one_core_cannot_run_in_time():
    queues = CoreQueues([1.0], cores=[4])
    queues.add_applications([0.0], [4.0], [4.0])
    # 4 s on one core; four cores together would complete 8 Mflop within 2 s
    assert queues.available(1.0, 0.0, 2.0, 4.0, 0).tolist() == [0]
    assert queues.available(1.0, 0.0, 4.0, 4.0, 0).tolist() == [4]
    queues.enqueue([0], [0], [1], 0)
    assert queues.minimum_stretch([0], 0).tolist() == [1.0]


@pytest.mark.parametrize(
    ("cores", "message"),
    [
        ([0], r"cores\[0\] must be in 1..65536, got 0"),
        ([1, 1], "cores must have 1 entries"),
        ([1.5], "cores"),
    ],
)
def test_invalid_numbers_of_cores_are_rejected(cores, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CoreQueues([1.0], cores=cores)
