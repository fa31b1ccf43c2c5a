"""Task queues with a size for each task: equality with the reference implementation, and rejected states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gridcore.common.state import NEVER
from gridcore.queues.core_queues import CoreQueues
from gridcore.queues.task_queues import TaskQueues
from tests._helpers.small_queues import GRID, assert_same_values, quarters, speeds, steps
from tests.reference.own_sizes import CoreOwnSizes, OwnSizes

SIZES = st.lists(st.lists(quarters, min_size=1, max_size=6), min_size=1, max_size=3)


class Program(RuleBasedStateMachine):
    """The kernel and its reference implementation with the same calls."""

    kernel_class, reference_class, max_cores = TaskQueues, OwnSizes, None

    @initialize(
        speed=st.lists(speeds, min_size=1, max_size=3),
        order=st.sampled_from(["edf", "fifo"]),
        watch=st.sampled_from(["idle", "completion"]),
        sizes=SIZES,
        task_size=quarters,
        data=st.data(),
    )
    def start(self, speed, order, watch, sizes, task_size, data):
        self.options = {"order": order, "watch": watch, "log": True, "record": True}
        n, machines, self.columns = len(sizes), len(speed), {}
        if self.max_cores is not None:

            def column(low, high, length, label):
                return data.draw(
                    st.lists(st.integers(low, high), min_size=length, max_size=length), label=label
                )

            self.options["cores"] = column(1, self.max_cores, machines, "cores")
            if data.draw(st.booleans(), label="has memory"):
                self.options["memory"] = column(6, 12, machines, "memory of machines")
                self.columns = {"memory": column(0, 6, n, "memory of tasks")}
        self.speed, self.sizes, self.task_size = speed, sizes, task_size
        self.kernel, self.reference = self.new_queues(), self.reference_class(speed, **self.options)
        self.now = 0
        self.reference.add(np.zeros(n), np.full(n, 8.0), np.full(n, task_size), sizes, **self.columns)

    def new_queues(self):
        queues, n = self.kernel_class(self.speed, **self.options), len(self.sizes)
        queues.add_applications(
            np.zeros(n),
            np.full(n, 8.0),
            np.full(n, self.task_size),
            sizes=np.concatenate([np.array(row) for row in self.sizes]),
            tasks=[len(row) for row in self.sizes],
            **self.columns,
        )
        return queues

    def call_both(self, call, *arguments):
        actual = getattr(self.kernel, call)(*arguments)
        assert_same_values(actual, getattr(self.reference, call)(*arguments))
        return actual

    @rule(data=st.data(), order=st.booleans())
    def enqueue(self, data, order):
        u = data.draw(st.integers(0, len(self.speed) - 1), label="machine")
        i = data.draw(st.integers(0, len(self.sizes) - 1), label="application")
        free = self.reference.free(i)
        if free:
            self.call_both("enqueue", [u], [i], [data.draw(st.integers(1, free), label="tasks")], self.now)
        with pytest.raises(ValueError, match="^tasks must be at most"):
            self.kernel.enqueue([u], [i], [self.reference.free(i) + 1], self.now)
        if order:
            self.call_both("reschedule", [u], self.now)

    @rule(data=st.data(), tasks=st.integers(0, 4), step=steps)
    def withdraw(self, data, tasks, step):
        self.now += step
        u = data.draw(st.integers(0, len(self.speed) - 1), label="machine")
        self.call_both(
            "withdraw", u, data.draw(st.integers(0, len(self.sizes) - 1), label="i"), tasks, self.now
        )

    @rule(data=st.data(), step=steps)
    def fail(self, data, step):
        self.now += step
        self.call_both("fail", [data.draw(st.integers(0, len(self.speed) - 1), label="machine")], self.now)

    @rule(step=steps)
    def advance(self, step):
        self.now += step
        self.call_both("advance", self.now)

    @rule()
    def advance_to_next_change(self):
        at = self.kernel.next_change()
        exact = self.reference.next_change()
        assert at == exact or (self.max_cores and self.options["watch"] == "idle" and at < exact < NEVER)
        if at < NEVER:
            self.now = max(self.now, at)
            self.call_both("due", self.now)
            self.call_both("catch_up", self.now)

    @rule()
    def ask(self):
        self.call_both("minimum_stretch", range(len(self.speed)), self.now)
        if self.max_cores is not None:
            self.call_both("summaries", range(len(self.speed)), GRID, self.now)
        for machine in range(len(self.speed)):
            self.call_both("work", machine, self.now)
        for name in ("totals", "schedule", "arrivals"):
            actual, expected = getattr(self.kernel, name)(), getattr(self.reference, name)()
            assert actual.keys() == expected.keys()
            for k in actual:
                assert_same_values(actual[k], expected[k])

    @rule()
    def restore(self):
        state = self.kernel.getstate()
        restored = self.new_queues()
        restored.setstate(
            {name: np.array(of) if isinstance(of, np.ndarray) else of for name, of in state.items()}
        )
        self.kernel = restored


class CoreProgram(Program):
    """Machines with several cores."""

    kernel_class, reference_class, max_cores = CoreQueues, CoreOwnSizes, 3


TestProgram, TestCores = Program.TestCase, CoreProgram.TestCase
TestProgram.settings = TestCores.settings = settings(stateful_step_count=25, deadline=None)


def with_sizes():
    queues = TaskQueues([1.0, 1.0], order="fifo")
    queues.add_applications([0.0, 0.0], [6.0, 2.0], [2.0, 2.0], sizes=[1.0, 2.0, 3.0, 2.0], tasks=[3, 1])
    queues.enqueue([0, 1, 0], [0, 0, 1], [1, 1, 1], 0)
    queues.advance(10**8)
    return queues


def test_task_sizes_must_cover_all_applications_or_none():
    queues = with_sizes()
    with pytest.raises(ValueError, match="^sizes"):
        queues.add_applications([0.0], [1.0], [1.0])
    queues.add_applications([0.0], [1.0], [2.0], [0])  # a resubmitted bag has no sizes
    with pytest.raises(ValueError, match="^sizes"):
        queues.add_applications([0.0], [1.0], [1.0], sizes=[1.0], tasks=[2])
