"""Queues of machines with several cores: equality with the reference implementation, and single cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from gridcore.common.state import NEVER
from gridcore.queues.core_queues import CoreQueues
from tests._helpers.small_queues import GRID, NS, TOLERANCES, quarters, restored, sizes, speeds, steps
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
    #: The memory of a machine, and of a task, which fits on each machine; no memory in most of the runs.
    capacities, needs = st.none(), st.just(0)

    @initialize(speed=st.lists(speeds, min_size=1, max_size=3), more=options, data=st.data())
    def start(self, speed, more, data):
        def column(entries):
            return data.draw(st.lists(entries, min_size=len(speed), max_size=len(speed)))

        self.speed, self.cores, memory = speed, column(self.counts), column(self.capacities)
        self.memory = None if None in memory else memory
        self.options, self.log, self.needs_of_tasks, self.data = more, more["log"], [], data
        self.kernel, self.reference = self.make_kernel(), self.make_reference()
        self.now = self.applications = self.enqueued = self.lost = 0
        self.rows, self.further, self.machines = [], [], len(speed)
        self.add(0.0, 4.0, 1.0)

    def make_kernel(self):
        return CoreQueues(self.speed, cores=self.cores, memory=self.memory, **self.options)

    def make_reference(self):
        return reference.CoreQueues(self.speed, cores=self.cores, memory=self.memory, **self.options)

    def append(self, release, size, task_size, whose=None):
        if self.memory is None:
            super().append(release, size, task_size, whose)
            return
        first, needs = self.applications, [self.data.draw(self.needs, label="memory") for _ in release]
        self.call_both("add_applications", release, size, task_size, whose, memory=needs)
        whose = range(first, first + len(release)) if whose is None else whose
        self.needs_of_tasks += needs
        self.rows += zip(release, size, task_size, whose, strict=True)
        self.applications += len(release)

    @rule()
    def restore(self):
        if self.memory is None:
            self.kernel = restored(self.kernel, self.make_kernel(), self.rows)
            return
        fresh = self.make_kernel()
        for row, need in zip(self.rows, self.needs_of_tasks, strict=True):
            fresh.add_applications(*([value] for value in row), memory=[need])
        fresh.setstate(self.kernel.getstate())
        self.kernel = fresh

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


class MemoryComparison(CoreQueueComparison):
    """Machines whose tasks share memory."""

    capacities, needs = st.integers(6, 12), st.integers(0, 6)

    def check_runs(self, ran):
        super().check_runs(ran)
        owner, needs = np.array([row[3] for row in self.rows]), np.array(self.needs_of_tasks)
        need = needs[owner][ran["application"]]
        for machine in range(self.machines):
            rows = ran["machine"] == machine
            start, end = ran["start"][rows], ran["end"][rows]
            used = [int(need[rows][(start <= at) & (at < end)].sum()) for at in start.tolist()]
            assert max(used, default=0) <= self.memory[machine]

    @rule(data=st.data(), memory=st.integers(0, 14))
    def ask_for_memory(self, data, memory):
        machines = self.pick(data)
        later = self.now + data.draw(steps)
        self.call_both("summaries", machines, GRID, self.now, cell=later, memory=memory)
        new = [data.draw(x) for x in (quarters, sizes, quarters)]
        question = (new[0], self.now / NS, new[1], new[2], self.now)
        self.call_both("available", *question, machines=machines, memory=memory)


class OneCoreComparison(CoreQueueComparison):
    """Machines with one core each, which equal `TaskQueues`."""

    counts = st.just(1)

    def make_reference(self):
        return OneCore(self.speed, **self.options)


for _program in (CoreQueueComparison, MemoryComparison, OneCoreComparison):
    _program.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestSeveralCores, TestOneCore = CoreQueueComparison.TestCase, OneCoreComparison.TestCase
TestMemory = MemoryComparison.TestCase


def starts_of(memory, needs, shares, *, order="fifo", cores=2):
    """Return the starts (s) of tasks of 2 s, by application, on one machine that gets shares at time 0."""
    queues = CoreQueues([1.0], cores=[cores], memory=[memory], order=order, record=True)
    count = len(needs)
    queues.add_applications([0.0] * count, [4.0] * count, [2.0] * count, memory=needs)
    queues.enqueue([0] * len(shares), *zip(*shares, strict=True), 0)
    queues.advance(100 * NS)
    ran = queues.schedule()
    return [(ran["start"][ran["application"] == i] / NS).tolist() for i in range(count)]


def test_a_task_waits_until_the_free_memory_suffices():
    assert starts_of(10, [6], [(0, 3)]) == [[0.0, 2.0, 4.0]]  # of two tasks of 6 on a machine with 10
    assert starts_of(12, [6], [(0, 3)]) == [[0.0, 0.0, 2.0]]


def test_tasks_behind_one_that_waits_for_memory_wait_too():
    assert starts_of(10, [6, 1], [(0, 2), (1, 2)]) == [[0.0, 2.0], [2.0, 4.0]]


def test_a_task_starts_when_the_one_that_blocks_it_is_withdrawn():
    queues = CoreQueues([1.0], cores=[2], memory=[10], order="fifo", record=True)
    queues.add_applications([0.0] * 3, [9.0] * 3, [9.0, 9.0, 1.0], memory=[6, 6, 1])
    queues.enqueue([0, 0, 0], [0, 1, 2], [1, 1, 1], 0)
    assert queues.withdraw(0, 1, 1, 4 * NS) == 1
    queues.advance(100 * NS)
    assert queues.schedule()["start"].tolist() == [0, 4 * NS]


def test_tasks_that_never_fit_are_rejected():
    queues = CoreQueues([1.0, 1.0], cores=[2, 2], memory=[10, 20])
    queues.add_applications([0.0], [1.0], [1.0], memory=[11])
    with pytest.raises(
        ValueError, match=r"application 0 must need at most the 10 bytes .* machine 0, got 11"
    ):
        queues.enqueue([0], [0], [1], 0)
    assert queues.available(1.0, 0.0, 8.0, 1.0, 0, memory=11).tolist() == [0, 14]
    queues.enqueue([1], [0], [1], 0)
    other = CoreQueues([1.0, 1.0], cores=[2, 2], memory=[10, 10])
    other.add_applications([0.0], [1.0], [1.0], memory=[11])
    with pytest.raises(ValueError, match=r"state\['shares'\] must have tasks on machine 1 that need at most"):
        other.setstate(queues.getstate())
    queues.advance(1)
    with pytest.raises(
        ValueError, match=r"state\['core_task'\] must have tasks on machine 1 that need at most"
    ):
        other.setstate(queues.getstate())


def test_of_shares_that_come_together_none_is_taken_if_one_is_rejected():
    queues = CoreQueues([1.0, 1.0], cores=[2, 2], memory=[10, 20])
    queues.add_applications([0.0], [1.0], [1.0], memory=[15])
    with pytest.raises(ValueError, match="memory of machine 0"):
        queues.enqueue([1, 0], [0, 0], [3, 1], 0)
    differing = CoreQueues([1.0], cores=[2])
    differing.add_applications([0.0], [1.0], [1.0], sizes=[1.0, 2.0, 3.0], tasks=[3])
    with pytest.raises(ValueError, match="tasks must be at most 3, .* got 4"):
        differing.enqueue([0, 0], [0, 0], [2, 2], 0)
    assert queues.enqueued == differing.enqueued == 0


def test_ample_memory_changes_nothing():
    rng = np.random.default_rng(5)
    stores = [CoreQueues([1.0, 2.0], cores=[3, 2], record=True, memory=memory) for memory in (None, [90, 60])]
    for store in stores:
        store.add_applications([0.0] * 4, [9.0] * 4, [1.0, 2.0, 3.0, 5.0], memory=[30, 5, 0, 1])
    for k in range(40):
        machines, tasks = rng.integers(0, 2, 4), rng.integers(1, 4, 4)
        for store in stores:
            store.enqueue(machines, [0, 1, 2, 3], tasks, k * NS)
            store.reschedule([0, 1], k * NS)
        cells = [store.summaries([0, 1], GRID, k * NS, memory=30) for store in stores]
        np.testing.assert_array_equal(*cells)
    for store in stores:
        store.advance(NEVER)
    first, second = (store.getstate() for store in stores)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)


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


@pytest.mark.parametrize(
    ("memory", "need", "message"),
    [
        ([-1], 0, r"memory\[0\] must be in 0..9007199254740992, got -1"),
        ([1, 1], 0, "memory must have as many entries as speed, got 2 and 1"),
        ([1], 2**53 + 1, r"memory\[0\] must be in 0..9007199254740992, got 9007199254740993"),
        ([0.5], 0, "memory"),
    ],
)
def test_invalid_memory_is_rejected(memory, need, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CoreQueues([1.0], cores=[1], memory=memory).add_applications([0.0], [1.0], [1.0], memory=[need])
    queues = CoreQueues([1.0], cores=[1])
    with pytest.raises(ValueError, match="memory must be >= 0 bytes, got -1"):
        queues.available(1.0, 0.0, 1.0, 1.0, 0, memory=-1)
