"""Compiled nodes can use every action and declaration: acts, ticks, local and deferred messages, layouts."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.scheduling.nodes.layout import Layout
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import RUNNABLE_FORMS
from tests.scheduling.nodes.test_all_forms import scenarios

pytest.importorskip("numba", reason="needs the extra jit")


def size_of_gossip(level: int, value: float) -> int:
    return 64 + 8 * (level % 3) if value > 0.5 else 80


class RandomActionNode(gs.NodeProgram):
    """A node with random actions; `ExtendedNode` adds to its handlers."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.steps = self.heard = self.ended = 0
        self.levels = gs.Fifo(level=int)
        self.value = 0.0

    @property
    def level(self) -> int:
        return self.heard % 5

    def other(self, view: Any) -> int:
        nodes = 2 * view.machines if self.parameters.has_pairs else view.machines
        return int(view.random.integers(nodes))

    def step(self, view: Any) -> None:
        self.steps += 1
        if self.steps > 60:  # the limit lets each run end
            return
        draw = view.random.integers(8)
        if draw == 0:
            view.act()
        elif draw == 1:
            view.act(float(view.random.integers(3)) / 2)
        elif draw == 2:
            view.at(view.now_ns + 500_000_000 * view.random.integers(4), "tick", self.value)
        elif draw == 3:
            view.later(float(view.random.integers(3)), "found", level=self.level, best=self.value)
        elif draw == 4:
            view.send(self.other(view), "gossip", level=self.level, value=view.random.random())
        elif draw == 5:
            view.send(self.other(view), "report", level=self.level)
        elif draw == 6:
            view.send(self.other(view), "now", level=self.level)
        else:
            view.send(self.other(view), "soon", level=self.level)

    def place(self, view: Any, application: int, tasks: int) -> None:
        here = tasks if view.random.random() < 0.5 else int(view.random.integers(tasks + 1))
        if self.parameters.has_server and view.machine == view.machines - 1:
            here = 0
        if here:
            view.decide("ran", application, node=view.node, tasks=here, saw=view.minimum_stretch)
            view.enqueue(application, here)
        if here < tasks:
            view.send(self.other(view), "share", application=application, tasks=tasks - here)

    def on_start(self, view: Any) -> None:
        self.step(view)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.step(view)
        self.place(view, application.number, tasks)

    def on_share(self, view: Any, message: Any) -> None:
        self.place(view, message.application, message.tasks)

    def on_message(self, view: Any, message: Any) -> None:
        self.heard += 1
        if message.kind == "gossip":
            self.value = 0.5 * self.value + message.value
            if message.level < 4:
                self.step(view)

    def on_found(self, view: Any, message: Any) -> None:
        self.heard += message.level + (message.sender == view.node)
        self.value += message.best
        if message.best < 8.0:
            self.step(view)

    def on_report(self, view: Any, message: Any) -> None:
        self.heard += message.level
        self.levels.push(message.level)

    def on_timer(self, view: Any, name: str, value: float = 0.0) -> None:
        if name == "beat":
            for application, tasks in view.completed():
                self.ended += tasks * view.application(application).tasks
        self.value += value + (name == "tick")

    def on_act(self, view: Any) -> None:
        view.note("acts", node=view.node, machine=view.machine, at=view.now_ns, value=self.value)
        if view.random.random() < 0.7:
            self.step(view)


class ExtendedNode(RandomActionNode):
    """A node whose handlers extend those of `RandomActionNode`."""

    __secret = 3

    @property
    def level(self) -> int:
        return super().level + 1

    def __more(self) -> int:
        return self.__secret

    def place(self, view: Any, application: int, tasks: int = 1) -> None:
        self.heard += self.__more()
        super().place(view, application=application, tasks=tasks)

    def on_report(self, view: Any, message: Any) -> None:
        super().on_report(view, message)
        self.value += 0.25

    def on_act(self, view: Any) -> None:
        for _ in range(2):
            super().on_act(view)

    def on_done(self, view: Any, application: Any) -> None:
        super().on_done(view, application)
        self.ended += application.tasks
        if self.ended % 2:
            self.step(view)

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        self.heard += 1
        super().on_lost(view, application, tasks)


class SkippingNode(ExtendedNode):
    """A node that skips a class when it extends a handler."""

    def on_report(self, view: Any, message: Any) -> None:
        super().on_report(view, message)
        self.value += self.level


def state_of(truth: Any, node: int, machine: int) -> float:
    program = truth.memory(machine)
    return float(sum(program.levels) + program.level + program.value)


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "acting"
    policy: ClassVar[type[gs.NodeProgram]] = RandomActionNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "gossip": gs.Message(size_of_gossip, value=float, level=int),
        "found": gs.Message(None, level=int, best=float),
        "share": gs.Message(
            lambda tasks, application: 100 + tasks, moves_tasks=True, application=int, tasks=int
        ),
        "report": gs.Message(60, deferred=True, level=int),
        "now": gs.Message(0, delay=0.0, counted=False, level=int),
        "soon": gs.Message(10, delay=0.5, level=int),
    }
    timers = ("tick",)
    ticks: ClassVar[dict[str, float]] = {"beat": 1.0}
    reports = True
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "acts": {"node": int, "machine": int, "at": int, "value": float}
    }
    decision_words: ClassVar[Any] = {"ran": ("queued {tasks} tasks", "smallest stretch", "s/Mflop")}
    truths: ClassVar[Any] = {"ran": state_of}
    has_pairs: bool = False
    has_server: bool = False

    def layout(self, machines: int) -> Layout:
        if self.has_pairs:  # the releases of machine m go to node 2m + 1
            return Layout(np.arange(2 * machines) // 2, 2 * np.arange(machines) + 1)
        return Layout.with_server(machines) if self.has_server else Layout.one_each(machines)


class DoneScheduler(Scheduler, frozen=True, kw_only=True):
    policy: ClassVar[type[gs.NodeProgram]] = SkippingNode
    reports = False
    ticks: ClassVar[dict[str, float]] = {}
    at_once = True
    to_the_end = True


class OneWatchScheduler(Scheduler, frozen=True, kw_only=True):
    at_once = True


class RunToEndScheduler(DoneScheduler, frozen=True, kw_only=True):
    policy: ClassVar[type[gs.NodeProgram]] = ExtendedNode
    at_once = False


@settings(max_examples=40, deadline=None)
@given(
    scenario=scenarios(),
    scheduler=st.sampled_from([Scheduler, DoneScheduler, OneWatchScheduler, RunToEndScheduler]),
    arrangement=st.sampled_from(["", "has_pairs", "has_server"]),
)
def test_compiled_nodes_have_the_digest_of_interpreted_ones(
    scenario: gs.Scenario, scheduler: type[Scheduler], arrangement: str
) -> None:
    program = scheduler(degree=1, **dict.fromkeys(filter(None, [arrangement]), True))
    results = [
        gs.simulate(scenario, program, record="decisions", events_limit=100_000, nodes=form)
        for form in ("interpreted", "compiled")
    ]
    assert results[0].digest == results[1].digest
    assert results[0].tables == results[1].tables


@pytest.mark.parametrize("scheduler", [Scheduler, DoneScheduler, RunToEndScheduler])
def test_compiled_nodes_continue_from_a_checkpoint(scheduler: type[Scheduler]) -> None:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=10, seed=1),
        gs.Workload.bags(applications=8, interarrival=20.0, tasks_per_node=2, task_size=65536.0, seed=1),
        faults=gs.Faults.of(
            [1, 3, 5, 7, 1], [40.0, 55.5, 60.0, 99.0, 120.0], [45.0, 60.0, 60.0, 110.0, 130.0]
        ),
        seed=1,
    )
    result = gs.simulate(scenario, scheduler(has_pairs=True))
    assert (
        resume_difference(scenario, scheduler(has_pairs=True), result, record=False, nodes="compiled") is None
    )


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 4), gs.Workload.of([0.0], 3, 1000.0))


def scheduler_of(method: Any, **kinds: gs.Message) -> gs.NodeScheduler:
    """Return a scheduler whose nodes handle a release by `method`."""

    class Base(gs.NodeProgram):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks)

    class Node(Base):
        on_release = method

        def on_message(self, view: Any, message: Any) -> None:
            pass

        def on_timer(self, view: Any, name: str) -> None:
            pass

        def on_known(self, view: Any, message: Any) -> None:
            view.act()

        def on_act(self, view: Any) -> None:
            pass

    class SingleNodeScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = Node
        messages: ClassVar[dict[str, gs.Message]] = {
            "known": gs.Message(80, deferred=True),
            "found": gs.Message(None, application=int),
            **kinds,
        }
        timers = ("tick",)

    return SingleNodeScheduler()


def _acts_in_the_past(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.act(-1.0 * tasks)


def _sets_past_timer(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.at(view.now_ns - tasks, "tick")


def _later_than_never(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.later(view.now - tasks, "found", application=application.number)


def _unknown_application(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.later(1.0, "found", application=application.number + 1)


def _negative_size(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "sized", number=tasks)


def _acts_on_deferred(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "known")
    view.enqueue(application.number, tasks)


def _publishes(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.publish(1.0, application=application.number)


@pytest.mark.parametrize(
    "method",
    [
        _acts_in_the_past,
        _sets_past_timer,
        _later_than_never,
        _unknown_application,
        _negative_size,
        _acts_on_deferred,
        _publishes,
    ],
)
def test_compiled_handlers_raise_the_errors_of_interpreted_ones(method: Any) -> None:
    errors = []
    for form in ("interpreted", "compiled"):
        with pytest.raises(gs.SchedulerError) as excinfo:
            gs.simulate(
                SMALL,
                scheduler_of(method, sized=gs.Message(lambda number: 2 - number, number=int)),
                nodes=form,
            )
        errors.append(str(excinfo.value))
    assert errors[0] == errors[1]


def _sends_sized(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "sized", number=tasks)


def size_of_rest(**fields: Any) -> int:
    return int(80 * fields["number"])


def size_with_constant(number: int, unit: int = 8) -> int:
    return unit * number


def size_with_fraction(number: int) -> int:
    return number / 2  # type: ignore[return-value]


class SizeFunction:
    def __call__(self, number: int) -> int:
        return number


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (size_of_rest, "the function of the size of 'sized' must not read fields; write the fields that"),
        (size_with_constant, "of the size of 'sized' must have only fields as its parameters, got unit"),
        (size_with_fraction, "the size of 'sized' must be an int, got a fraction"),
        (SizeFunction(), "the size of 'sized' must be a function"),
    ],
)
def test_functions_of_sizes_that_cannot_be_compiled_are_reported(size: Any, reason: str) -> None:
    place = inspect.getsourcelines(size if inspect.isfunction(size) else _sends_sized)[1]
    line = place if inspect.isfunction(size) else place + 1
    with pytest.raises(
        gs.CompileError, match=f"test_compiled_actions.py:{line}: Node.on_release: .*{reason}"
    ):
        gs.simulate(SMALL, scheduler_of(_sends_sized, sized=gs.Message(size, number=int)), nodes="compiled")


@pytest.mark.parametrize(
    "size", [lambda **rest: 80, lambda *, number, **rest: 77 + number, lambda number, **rest: 77 + number]
)
def test_functions_of_sizes_take_the_rest_of_the_fields(size: Any) -> None:
    scheduler = scheduler_of(_sends_both, sized=gs.Message(size, number=int, weight=float))
    for form in RUNNABLE_FORMS:
        result = gs.simulate(SMALL, scheduler, nodes=form, record="messages")
        assert result.tables["message_log"]["bytes"].tolist() == [80]


def _sends_both(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "sized", number=tasks, weight=0.5)
    view.enqueue(application.number, tasks)


def _sends_after_an_error(self: Any, view: Any, application: Any, tasks: int) -> None:
    try:
        view.send(1, "sized", number=tasks - 3)
    except Exception:
        view.send(1, "sized", number=1)
    view.enqueue(application.number, tasks)


def _sends_nothing(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "sized", number=tasks - 3)


def test_an_error_of_the_size_of_a_message_names_kind_node_and_time() -> None:
    """Such a message is not sent: a handler that catches the error may send another one."""
    for form in RUNNABLE_FORMS:
        sized = gs.Message(lambda number: 60 // number, number=int)
        with pytest.raises(gs.SchedulerError) as excinfo:
            gs.simulate(SMALL, scheduler_of(_sends_nothing, sized=sized), nodes=form)
        place = "t = 0.0 s: node 0 sends 'sized': the function of its size"
        assert str(excinfo.value).startswith(f"{place} raises ZeroDivisionError: ")
        assert isinstance(excinfo.value.__cause__, ZeroDivisionError)
        result = gs.simulate(
            SMALL, scheduler_of(_sends_after_an_error, sized=sized), nodes=form, record="messages"
        )
        assert result.tables["message_log"]["bytes"].tolist() == [60]


class ExtendingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        super().on_release(view, application, tasks)


class QueueingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        gs.Fifo(task=int).push(tasks)


class CountingNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        super(CountingNode, self).on_lost(view, application, tasks)  # noqa: UP008


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (ExtendingNode, r"super\(\).on_release: no class of the program has this method"),
        (QueueingNode, "a Fifo must be an attribute that __init__ sets"),
        (CountingNode, r"super\(\) can be compiled only as super\(\).name"),
    ],
)
def test_constructs_that_cannot_be_compiled_are_reported(node: Any, reason: str) -> None:
    class SingleNodeScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = node

    line = inspect.getsourcelines(node.on_release)[1] + 1
    with pytest.raises(gs.CompileError, match=f"test_compiled_actions.py:{line}: .*on_release: .*{reason}"):
        gs.simulate(SMALL, SingleNodeScheduler(), nodes="compiled")
