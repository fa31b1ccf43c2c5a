"""Arrays in messages of compiled nodes: equal results in both forms, and no array left behind."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.testing.resuming import resume_difference
from tests.scheduling.nodes.test_all_forms import scenarios

pytest.importorskip("numba", reason="needs the extra jit")

WIDTH = 5


class GossipNode(gs.NodeProgram):
    """Push-sum of vectors; arrays of all types go along, some of which are passed on."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.mass = np.linspace(0.0, 1.0, WIDTH)
        self.weight, self.rounds, self.checks = 1.0, 0, 0.0
        self.table = np.arange(6).reshape(2, 3)
        self.last = np.zeros(WIDTH, np.uint16)
        self.known, self.counts = gs.SharedArray(np.zeros(0)), gs.SharedArray(np.arange(3))

    def _random_node(self, view: Any) -> Any:
        return view.random.choice(view.neighbours) if view.neighbours else view.node

    def on_start(self, view: Any) -> None:
        self.mass[0] = view.node
        view.timer(view.random.integers(3), "round")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.send(
            self._random_node(view), "task", application=application.number, tasks=tasks, path=[view.node]
        )

    def on_task(self, view: Any, message: Any) -> None:
        view.note("paths", length=len(message.path), first=message.path[0])
        if len(message.path) >= 3:
            view.enqueue(message.application, message.tasks)
            return
        path = np.empty(len(message.path) + 1, np.int64)
        path[:-1] = message.path
        path[-1] = view.node
        view.send(
            self._random_node(view), "task",
            application=message.application, tasks=message.tasks, path=path,
        )  # fmt: skip

    def on_timer(self, view: Any, name: str) -> None:
        self.mass[:] = 0.5 * self.mass
        self.weight *= 0.5
        self.table[:, view.random.integers(3)] += view.node
        for neighbour in view.neighbours:
            half = self.mass if neighbour % 2 == 0 else self.mass[::-1]
            view.send(neighbour, "push", values=half, weight=self.weight)
        view.send(self._random_node(view), "now", column=self.table[:, 1], matrix=self.table[:, ::2])
        view.send(
            self._random_node(view), "counts", few=np.full(WIDTH, view.node), halves=self.mass,
            signed=[-view.node] * 2, wide=self.table[0], words=self.table,
        )  # fmt: skip
        self.rounds += 1
        if self.rounds < self.parameters.rounds:
            view.timer(1.0, "round")

    def on_push(self, view: Any, message: Any) -> None:
        self.mass[:] = self.mass + message.values
        self.weight += message.weight
        if view.random.random() < 0.3:
            view.send(self._random_node(view), "late", values=message.values)
        view.note("mass", first=self.mass[0], last=self.mass[-1], weight=self.weight)

    def on_late(self, view: Any, message: Any) -> None:
        for value in message.values:
            self.checks += value
        old, draw = self.known.values, view.random.random()
        if draw < 0.5:
            self.known.set(message.values)
        else:
            self.known.set(self.mass[::-1])
        self.counts.set(np.full(len(message.values) + len(self.counts.values), self.rounds))
        for value in old:  # a handler may still read an array that has been replaced
            self.checks += value
        if draw < 0.3:
            view.send(self._random_node(view), "late", values=self.known.values)
        if view.random.random() < 0.5:
            view.send(self._random_node(view), "late", values=message.values[1:])

    def on_now(self, view: Any, message: Any) -> None:
        self.checks += message.column[0] + message.matrix[1, 1] * message.matrix.shape[1]

    def on_counts(self, view: Any, message: Any) -> None:
        self.last[:] = message.few
        if message.few[0] > 1:
            self.checks += int(self.last[0]) + float(message.halves[1]) + int(message.signed.min())
        double = message.halves + message.halves
        self.checks += float(double[2]) + message.wide.astype(np.int64).sum() + int(message.words[1, 2])
        view.note("checks", value=self.checks)
        if self.checks < 1e6:
            halves = [0.5 * k for k in range(view.node)]
            view.send(view.node, "again", few=[0, len(halves)], halves=halves)
            view.send(self._random_node(view), "late", values=[len(halves), 7])
        view.later(0.75, "thought", matrix=self.table[:, 1:], counts=message.few, k=self.rounds)

    def on_thought(self, view: Any, message: Any) -> None:
        self.checks += message.matrix[1, 1] + int(message.counts[-1]) + message.k
        if view.random.random() < 0.5:
            view.later(0.25, "thought", matrix=message.matrix, counts=self.table[0], k=0)

    def on_again(self, view: Any, message: Any) -> None:
        self.checks += int(message.few[1]) + len(message.halves)
        for half in message.halves:
            self.checks += float(half)


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "vector-gossip"
    policy = GossipNode
    timers: ClassVar[tuple[str, ...]] = ("round",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "task": gs.Message(90, moves_tasks=True, application=int, tasks=int, path=gs.array(int, ndim=1)),
        "push": gs.Message(
            lambda values, weight: 64 + 8 * values.size, values=gs.array(float, ndim=1), weight=float
        ),
        "late": gs.Message(80, delay=1.5, values=gs.array(float, ndim=1)),
        "now": gs.Message(80, delay=0, column=gs.array(int, ndim=1), matrix=gs.array(int, ndim=2)),
        "counts": gs.Message(
            300,
            few=gs.array(np.uint16, ndim=1),
            halves=gs.array(np.float32, ndim=1),
            signed=gs.array(np.int16, ndim=1),
            wide=gs.array(np.int32, ndim=1),
            words=gs.array(np.uint32, ndim=2),
        ),
        "again": gs.Message(
            lambda halves, few: 10 + few.nbytes + halves.nbytes,
            few=gs.array(np.uint16, ndim=1),
            halves=gs.array(np.float32, ndim=1),
        ),
        "thought": gs.Message(None, matrix=gs.array(int, ndim=2), counts=gs.array(np.uint32, ndim=1), k=int),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "paths": {"length": int, "first": int},
        "mass": {"first": float, "last": float, "weight": float},
        "checks": {"value": float},
    }
    rounds: int = 4


@settings(max_examples=30)
@given(scenario=scenarios(), rounds=st.integers(1, 5), degree=st.integers(1, 3))
def test_arrays_of_compiled_nodes_arrive_as_those_of_interpreted_ones(
    scenario: gs.Scenario, rounds: int, degree: int
) -> None:
    scheduler = Scheduler(rounds=rounds, degree=degree)
    expected = gs.simulate(scenario, scheduler)
    outcome = gs.simulate(scenario, scheduler, nodes="compiled")
    assert outcome.digest == expected.digest
    assert outcome.tables == expected.tables


LONG = gs.Scenario(
    gs.Platform.of([1000.0] * 8),
    gs.Workload.of([0.0, 3.0, 9.0, 200.0], 6, 1000.0, submitter=[0, 1, 5, 2]),
    gs.Network(latency=0.4, bandwidth=3000.0, jitter=0.1),
    faults=gs.Faults.of([1, 2, 1, 3, 4, 5], [0.5, 1.2, 2.5, 2.6, 3.1, 9.3], [0.9, 1.9, 3.4, 3.9, 5.0, 9.9]),
    seed=5,
)


def test_a_run_with_arrays_continues_from_checkpoints_and_failures() -> None:
    expected = gs.simulate(LONG, Scheduler(rounds=9), record=True)
    assert expected.messages["dropped"].sum() > 0
    difference = resume_difference(LONG, Scheduler(rounds=9), expected, nodes="compiled")
    assert difference is None


def test_nodes_share_the_arrays_that_they_have_received() -> None:
    run = Simulation(LONG, Scheduler(rounds=9), Options(nodes="compiled"))
    core: Any = run.policy.core  # type: ignore[attr-defined]
    run.run()
    (memory,) = core.memory
    state = memory.getstate(0)
    assert len(state["array_of"]) == 8 > len(state["arrays"]) > 1
    memory.setstate(0, state)
    arrays = [memory.copy_of(0, node).values.tolist() for node in range(8)]
    assert arrays == [state["arrays"][k].tolist() for k in state["array_of"]]
    matrices, numbers = {**state, "arrays": [np.zeros((1, 2))]}, {**state, "array_of": np.arange(2)}
    for wrong in ({"arrays": []}, matrices, numbers):
        with pytest.raises(ValueError, match="arrays|array_of"):
            memory.setstate(0, wrong)


@pytest.mark.parametrize("nodes", ["interpreted", "compiled"])
def test_no_array_is_left_when_no_message_is_in_transit(nodes: Any) -> None:
    """The last application is released long after all gossip has arrived or was dropped."""
    run = Simulation(LONG, Scheduler(rounds=9), Options(nodes=nodes))
    core: Any = run.policy.core  # type: ignore[attr-defined]
    counts: list[int] = []
    run.engine.at_wave_end(lambda: counts.append(len(core.getstate()["payloads"])))
    result = run.run()
    assert result.messages["dropped"].sum() > 0
    assert max(counts) > 20
    assert len(core.getstate()["payloads"]) == 0


class WrongNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.x, self.few, self.k = np.zeros(3), np.zeros(3, np.uint16), 0
        self.known = gs.SharedArray(np.arange(2))

    def send_negative(self, view: Any) -> None:
        view.send(1, "data", one=self.x, values=np.full(2, -1))


def scheduler_of(release: Any, *, receive: Any = None, **fields: Any) -> gs.NodeScheduler:
    """Return a scheduler whose nodes do `release`, with messages "data" of these fields."""
    functions = {"on_release": release, **({} if receive is None else {"on_data": receive})}
    node = type("Node", (WrongNode,), functions)

    class SenderScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        name: ClassVar[str] = "sender"
        policy = node
        messages: ClassVar[dict[str, gs.Message]] = {
            "data": gs.Message(8, **(fields or {"values": gs.array(np.uint16, ndim=1)}))
        }

    return SenderScheduler()


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 3), gs.Workload.of([0.0], 1, 1000.0), gs.Network(), seed=1)


def _sends_negative(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=np.full(2, -1))


def _sends_too_large(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=np.full(4, 65536)[::2])


@pytest.mark.parametrize("release", [_sends_negative, _sends_too_large])
def test_elements_out_of_range_are_rejected_in_both_forms(release: Any) -> None:
    errors = set()
    for form in ("interpreted", "compiled"):
        with pytest.raises(
            gs.SchedulerError, match="values must be an array of uint16, of one dim"
        ) as excinfo:
            gs.simulate(SMALL, scheduler_of(release), nodes=form)
        errors.add(str(excinfo.value))
    assert len(errors) == 1


def _catches_refusal(self: Any, view: Any, application: Any, tasks: int) -> None:
    try:
        self.send_negative(view)
    except Exception:
        view.enqueue(application.number, tasks)


@pytest.mark.parametrize("nodes", ["interpreted", "compiled"])
def test_a_message_that_is_refused_leaves_no_array(nodes: Any) -> None:
    kinds = {"one": gs.array(float, ndim=1), "values": gs.array(np.uint16, ndim=1)}
    run = Simulation(SMALL, scheduler_of(_catches_refusal, **kinds), Options(nodes=nodes))
    core: Any = run.policy.core  # type: ignore[attr-defined]
    run.run()
    assert len(core.getstate()["payloads"]) == 0


def _list_of_floats(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=[1, 2.5])


def _tuple(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=(1, tasks))


def _list_of_bools(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=[tasks > 1, False])


def _bools(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=np.zeros(2, np.bool_))


def _empty_list(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=[])


def _a_number(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=1)


def _floats(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=self.x)


def _two_dimensions(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "data", values=np.zeros((2, 2), np.int64))


def _set_floats(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.known.set(self.x)


def _assigns_shared(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.known = self.x


def _changes_shared(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.known.values[0] = 1


def _calls_unknown_method(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.known.put(self.x)


def _adds(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = int(self.few[0] + 1)


def _scales(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.x[:] = self.few * 0.5


def _sums(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.k = int(self.few.sum())


def _root(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.x[:] = np.sqrt(self.few)


def _assigns(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.few[0] = tasks


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (_list_of_floats, r"must be an array of uint16, .*; np.array\(...\).astype\(np.int64\) makes one"),
        (_list_of_bools, r"must be .*, got list\(bool\); np.array\(...\).astype\(np.int64\) makes one"),
        (_bools, r"must be .*, got an array of bool; .astype\(np.int64\) makes one"),
        (_empty_list, r"the numbers of an empty list have no type; write np.zeros\(0\), or"),
        (_tuple, r"field 'values' of 'data' must be an array of uint16, .*; np.array\(...\) makes one"),
        (_a_number, "field 'values' of 'data' must be an array of uint16, of one dimension, got"),
        (_floats, r"must be an array of uint16, .* got an array of float; .astype\(np.int64\) makes one"),
        (_two_dimensions, "must be an array of uint16, of one dimension, got an array of int"),
        (_set_floats, "SharedArray.set takes an array of int of one dimension, got an array of float"),
        (_assigns_shared, "self.known is a SharedArray: only its contents can be changed"),
        (_changes_shared, r"the array is read-only; change a copy, np.array\(...\)"),
        (_calls_unknown_method, "compiled nodes do not support SharedArray.put"),
        (_adds, r"may differ from Python's for numbers of 16 bits, here uint16; convert them first: int\("),
        (_scales, r"of 16 bits, here an array of uint16; convert them first: values.astype\(np.int64\)"),
        (_sums, "of 16 bits, here an array of uint16"),
        (_root, "of 16 bits, here an array of uint16"),
        (_assigns, "elements of an array of uint16 must be assigned from numbers of that type, got int"),
    ],
)
def test_arrays_that_cannot_be_compiled_are_reported_with_a_remedy(release: Any, text: str) -> None:
    line = inspect.getsourcelines(release)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled_arrays.py:{line}: Node.on_release: .*{text}"):
        gs.simulate(SMALL, scheduler_of(release), nodes="compiled")


def _assigns_element(self: Any, view: Any, message: Any) -> None:
    values = message.values
    values[0] = 1


def _sorts(self: Any, view: Any, message: Any) -> None:
    self.k = 1
    message.values.sort()


@pytest.mark.parametrize("receive", [_assigns_element, _sorts])
def test_changes_of_an_array_in_a_message_are_reported_with_a_remedy(receive: Any) -> None:
    line = inspect.getsourcelines(receive)[1] + 2
    message = r"Node.on_data: message.values is read-only; change a copy: values = np.array\(message.values\)"
    with pytest.raises(gs.CompileError, match=rf"test_compiled_arrays.py:{line}: {message}"):
        gs.simulate(SMALL, scheduler_of(_sends_negative, receive=receive), nodes="compiled")


def test_arrays_without_a_number_of_dimensions_are_reported() -> None:
    with pytest.raises(
        gs.CompileError, match="does not support 'values' of the message 'data': set its ndim in gs.array"
    ):
        gs.simulate(SMALL, scheduler_of(_sends_negative, values=gs.array(int)), nodes="compiled")
