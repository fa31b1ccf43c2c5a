"""Task queues with data: equality with the reference implementation, and the lemmas of what a machine can take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from gridcore.queues import task_queues as queues
from gridcore.queues.data_queues import DataQueues
from tests._helpers.small_queues import NS, quarters, same, sizes, speeds, steps
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
        self.ours = self.kind(speed, **self.options)
        self.reference = self.other(speed, **(self.options if self.data else more))
        self.now = self.applications = self.enqueued = self.lost = 0
        self.rows, self.further, self.machines = [], [], len(speed)
        self.add(0.0, 4.0, 1.0)

    def append(self, release, size, task_size, whose=None):
        k = len(release)
        bytes_ = [self.random.choice([0.0, 0.5, 1.5, 4.0], k) if self.data else np.zeros(k) for _ in range(2)]
        columns = dict(zip(("input_bytes", "output_bytes"), bytes_, strict=True))
        self.ours.add_applications(release, size, task_size, whose, **columns)
        if self.data:
            self.reference.add_applications(release, size, task_size, whose, **columns)
        else:
            self.reference.add_applications(release, size, task_size, whose)
        whose = range(self.applications, self.applications + k) if whose is None else whose
        self.rows += zip(release, size, task_size, whose, *bytes_, strict=True)
        self.applications += k

    def running(self):
        return int(self.ours.getstate()["n_held"].sum())

    @rule()
    def restore(self):
        fresh = self.kind(self.speed, **self.options)
        for *row, fetched, sent in self.rows:
            columns = {"input_bytes": [fetched], "output_bytes": [sent]}
            fresh.add_applications(*([value] for value in row), **columns)
        fresh.setstate(self.ours.getstate())
        self.ours = fresh


class WithoutAny(WithData):
    """Without data, machines with links are those of `TaskQueues`."""

    data, other = False, WithoutData


for _program in (WithData, WithoutAny):
    _program.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None, phases=[Phase.generate])
TestWithData, TestWithoutAny = WithData.TestCase, WithoutAny.TestCase
