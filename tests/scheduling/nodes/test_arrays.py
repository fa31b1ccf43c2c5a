"""Messages with arrays, and messages whose size depends on their fields."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.scheduling.nodes.program import as_number
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation


class Node(gs.NodeProgram):
    """A node that forwards a matrix and a list of machines `hops` times, and queues its tasks itself."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.sums: list[float] = []

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self.pass_on(view, np.arange(6.0).reshape(2, 3) * (application.number + 1), [view.node])

    def on_summary(self, view: Any, message: Any) -> None:
        self.sums.append(float(message.matrix.sum()))
        assert message.matrix.dtype == np.float64 and not message.matrix.flags.writeable
        view.note("seen", total=self.sums[-1], hops=len(message.path))
        self.pass_on(view, message.matrix, np.append(message.path, view.node))

    def pass_on(self, view: Any, matrix: Any, path: Any) -> None:
        if len(path) <= self.parameters.hops:
            for other in view.neighbours:
                view.send(other, "summary", matrix=matrix, path=path, weight=0.5)


class SummaryScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "summaries"
    policy = Node
    messages: ClassVar[dict[str, gs.Message]] = {
        "summary": gs.Message(
            lambda matrix, path, weight: 64 + 8 * (matrix.size + len(path)),
            matrix=gs.array(float),
            path=gs.array(int),
            weight=float,
        )
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"total": float, "hops": int}}

    hops: int = 2


def scenario(machines: int = 4, faults: Any = None, **network: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of([0.0, 1.0, 2.0], 3, 1000.0, submitter=[0, 1, 0]),
        gs.Network(**network),
        faults=faults,
        seed=5,
    )


def test_lists_count_the_bytes_of_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(as_given: Any) -> Any:
        def release(self: Any, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks)
            view.send(1, "summary", matrix=as_given([[1, 2], [3, 4]]), path=as_given([0, 1]), weight=1)

        monkeypatch.setattr(Node, "on_release", release)
        return gs.simulate(scenario(2), SummaryScheduler(hops=1)).messages["bytes"].tolist()

    assert (
        total(list) == total(np.array) == [2 * (64 + 8 * (4 + 2))]
    )  # node 1 sends one of its messages to itself


def test_a_sent_array_does_not_change_with_that_of_the_sender() -> None:
    for numbers in (np.arange(3), np.arange(3, dtype=np.int16), memoryview(bytearray(3))):
        sent = as_number(gs.array(int), numbers, 0, "path")
        numbers[0] = 9  # type: ignore[index]
        assert sent.tolist() in ([0, 1, 2], [0, 0, 0]) and not sent.flags.writeable


def test_a_float_beyond_the_type_of_its_field_is_infinite() -> None:
    """NumPy would warn, which is an error in tests."""
    sent = as_number(gs.array(np.float32), [1e300, -1e300, 0.1], 0, "weights")
    assert sent.tolist() == [math.inf, -math.inf, float(np.float32(0.1))]


def test_a_state_without_the_arrays_of_its_messages_is_rejected() -> None:
    """At 1 s, when the second application is released, messages of the first one are in transit."""
    run = Simulation(scenario(latency=0.3, bandwidth=1000.0), SummaryScheduler(degree=3), Options())
    core: Any = run.policy.core  # type: ignore[attr-defined]
    seen = []

    def lose() -> None:
        state = core.getstate()
        if len(state["payloads"]):
            seen.append(len(state["payloads"]))
            core.setstate(
                {**state, "payloads": np.zeros((0, 5), np.int64), "contents": np.zeros(0, np.int64)}
            )

    run.engine.at_wave_end(lose)
    with pytest.raises(ValueError, match="a message must refer to a stored array"):
        run.run()
    assert seen


@pytest.mark.parametrize(
    ("matrix", "path", "message"),
    [
        ([[1.0], [2.0, 3.0]], [1], "matrix must be an array of float, of one or two dimensions"),
        ("text", [1], "node 0: matrix must be an array of float, .* got 'text'"),
        (np.zeros((1, 1, 1)), [1], "matrix must be an array of float"),
        (
            [1.0],
            np.array(1),
            r"path must be an array of int, of one or two dimensions, got array\(1\)",
        ),
        ([1.0], [0.5], r"path must be an array of int, .* got \[0.5\]"),
        ([1.0], np.array([2**63], np.uint64), "path must be an array of int"),
    ],
)
def test_values_that_are_not_arrays_are_rejected(
    matrix: Any, path: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.send(1, "summary", matrix=matrix, path=path, weight=1.0)

    monkeypatch.setattr(Node, "on_release", release)
    with pytest.raises(gs.SchedulerError, match=message):
        gs.simulate(scenario(), SummaryScheduler())


@pytest.mark.parametrize("nbytes", [-1, 2**31, 1.5, math.nan])
def test_invalid_sizes_of_messages_are_rejected(nbytes: Any) -> None:
    class WrongScheduler(SummaryScheduler, frozen=True, kw_only=True):
        messages: ClassVar[dict[str, gs.Message]] = {
            "summary": gs.Message(
                lambda **_: nbytes, matrix=gs.array(float), path=gs.array(int), weight=float
            )
        }

    with pytest.raises(gs.SchedulerError, match="size"):
        gs.simulate(scenario(), WrongScheduler())


def test_arrays_of_other_types_are_rejected() -> None:
    with pytest.raises(gs.ScenarioError, match="^kind of an array"):
        gs.array(str)
