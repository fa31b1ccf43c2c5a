"""The readable core gives the results of the compiled core, for a program that uses all of the node tier."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridsim as gs
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.nodes.layout import Layout
from gridsim.simulation.simulate import Options, Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot
from tests.scheduling.nodes.test_message_core import scenarios


def _length_of_view(node: Any, view: Any) -> int:
    return len(repr(view))


RECORDED: Any = ("schedule", "messages", "decisions", "events")
OBSERVE = gs.Observe(every=1.0, columns={"hints": "hints", "work": "view.work", "view": _length_of_view})


def nbytes_of(values: Any, weight: float) -> int:
    return 8 * len(values.ravel()) + int(abs(weight))


class Everything(gs.NodeProgram):
    """A node that acts at random: many events are due at one instant, and all features are used.

    Tasks that have been handed on `hops` times are queued where they are, so that all are done in the end.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.kept: list[tuple[int, int, int]] = []  # application, tasks, hops
        self.kept_requests: list[tuple[int, int]] = []  # sender, number
        self.known: set[int] = set()  # applications
        self.hints = 0
        self.left = 12  # actions without a cause

    def others(self, view: Any) -> int:
        """Return a random neighbour, or the node itself."""
        nodes = (*view.neighbours, view.node)
        return int(nodes[int(view.random.integers(len(nodes)))])

    def do(self, view: Any) -> None:
        self.left -= 1
        if self.left < 0:
            return
        # a message may lead to another action, so that most of them go through the cases below quickly
        getattr(self, self.actions[int(view.random.integers(len(self.actions)))])(view)

    def set_timer(self, view: Any) -> None:
        view.timer(float(view.random.integers(3)), "tick", float(view.random.integers(2)))
        view.at(view.now_ns + int(view.random.integers(2)) * 10**9, "tock")

    def set_alarm(self, view: Any) -> None:
        view.timer(float(view.random.integers(2)), "alarm", number=int(view.random.integers(2)))
        view.at(view.now_ns, "alarm", number=1, weight=view.work)

    def on_alarm(self, view: Any, number: int, weight: float = 0.5) -> None:
        view.note("seen", node=number, board=weight, at=view.now)
        self.do(view)

    def cancel(self, view: Any) -> None:
        view.cancel("tick")
        view.cancel("alarm", number=int(view.random.integers(2)))

    def act_later(self, view: Any) -> None:
        view.act(float(view.random.integers(2)))

    def tell(self, view: Any) -> None:
        view.send(self.others(view), "tell", value=view.work, left=int(view.random.integers(3)))

    def hint(self, view: Any) -> None:
        view.send(self.others(view), "hint", value=view.now)

    def nudge(self, view: Any) -> None:
        view.send(self.others(view), "nudge", left=int(view.random.integers(3)))

    def ask(self, view: Any) -> None:
        number = view.request(
            self.others(view), "ask", timeout=float(view.random.integers(1, 4)), job=self.left
        )
        view.note("seen", node=number, board=0.0, at=view.now)

    def on_ask(self, view: Any, message: Any) -> None:
        if message.job % 3 and message.request:
            view.reply(message, "offer", price=view.work)
        elif message.request:
            self.kept_requests.append((message.sender, message.request))
            view.timer(1.5, "offer")

    def on_offer(self, view: Any, message: Any) -> None:
        view.note("seen", node=message.request, board=message.price, at=view.now)
        self.do(view)

    def on_timeout(self, view: Any, request: Any) -> None:
        view.note("seen", node=request.number, board=float(request.job), at=float(request.to))
        self.do(view)

    def call(self, view: Any) -> None:
        view.send(self.others(view), "call", at=view.now_ns)

    def think(self, view: Any) -> None:
        values = [view.waiting, view.tasks]
        view.later(float(view.random.integers(2)), "think", values=values, weight=view.speed)

    def matrix(self, view: Any) -> None:
        values = np.full((2, int(view.random.integers(3))), view.random.random())
        view.send(self.others(view), "matrix", values=values, weight=float(view.random.integers(100)))

    def publish(self, view: Any) -> None:
        view.publish(
            queue=view.waiting, work=view.work, falling=("work",) if view.random.random() < 0.5 else False
        )
        view.board.add(self.others(view), 1.5, "queue")
        shown = float(np.minimum(view.board.work, 1e9).sum()) + min(view.board[view.node, "queue"], 1e9)
        view.note("seen", node=view.board.least(1, "queue")[0], board=shown, at=view.now)

    def withdraw(self, view: Any) -> None:
        queued = [row for row in view.queued if row[0] in self.known]  # by this node, or by another one here
        if queued:
            application, tasks = queued[int(view.random.integers(len(queued)))]
            taken = view.take(application, int(view.random.integers(tasks + 2)))
            if taken:
                self.place(view, application, taken, self.parameters.hops - 1)

    def read(self, view: Any) -> None:
        if self.parameters.reports:
            for application, tasks in view.completed():
                view.note("seen", node=view.node, board=float(tasks), at=float(application))
        view.note("seen", node=view.machine, board=min(view.minimum_stretch, 1e9), at=float(self.hints))

    actions = (
        "set_timer", "set_alarm", "cancel", "act_later", "tell", "hint", "nudge", "ask", "call", "think",
        "matrix", "publish", "withdraw", "read",
    )  # fmt: skip

    def place(self, view: Any, application: int, tasks: int, hops: int) -> None:
        self.known.add(application)
        here = tasks if hops >= self.parameters.hops else int(view.random.integers(tasks + 1))
        if view.machine >= self.parameters.machines:  # a server
            here = 0
        if here and view.random.random() < 0.3:
            self.kept.append((application, here, hops))
            view.timer(0.0 if hops % 2 else 2.0, "place")
        elif here:
            view.decide("keep", application, tasks=here, node=view.node, saw=view.work)
            view.enqueue(application, here)
        if here < tasks:
            workers = view.role("worker") if self.parameters.roles else range(self.parameters.machines)
            to = workers[int(view.random.integers(self.parameters.machines))]
            view.send(to, "share", hops=hops + 1, application=application, tasks=tasks - here)

    def on_start(self, view: Any) -> None:
        self.do(view)
        view.timer(1.0, "tock")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.do(view)
        self.place(view, application.number, tasks, 0)

    def on_message(self, view: Any, message: Any) -> None:
        if message.kind == "tell" and message.left:
            view.send(message.sender, "tell", value=message.value + view.waiting, left=message.left - 1)
        self.do(view)

    def on_share(self, view: Any, message: Any) -> None:
        self.place(view, message.application, message.tasks, message.hops)

    def on_hint(self, view: Any, message: Any) -> None:
        self.hints += 1
        view.note("seen", node=message.sender, board=message.value, at=0.0)

    def on_nudge(self, view: Any, message: Any) -> None:
        if message.left:
            view.send(self.others(view), "nudge", left=message.left - 1)
        self.do(view)

    def on_think(self, view: Any, message: Any) -> None:
        view.send(self.others(view), "nudge", left=int(message.values.sum()) % 2)

    def on_timer(self, view: Any, name: str, value: float) -> None:  # type: ignore[override]
        if name == "offer":
            for sender, number in self.kept_requests:
                view.send(sender, "offer", request=number, price=0.5)
            self.kept_requests = []
        elif name == "place":
            kept, self.kept = self.kept, []
            for application, tasks, hops in kept:
                self.place(view, application, tasks, hops + 1)
        elif name != "beat" or view.random.random() < value + 0.2:
            self.do(view)

    def on_idle(self, view: Any) -> None:
        self.do(view)

    def on_end(self, view: Any) -> None:
        self.do(view)

    def on_act(self, view: Any) -> None:
        self.do(view)


class Counting(Everything):
    """A node that handles the end of each task."""

    def on_done(self, view: Any, application: Any) -> None:
        view.note("seen", node=view.node, board=float(application.number), at=view.now)
        self.do(view)


class Desk(Everything):
    """A node that gets releases, and handles fewer events."""

    on_act = gs.NodeProgram.on_act
    on_idle = gs.NodeProgram.on_idle
    on_end = gs.NodeProgram.on_end

    def act_later(self, view: Any) -> None:
        view.note("seen", node=view.rank, board=0.0, at=0.0)

    def on_timer(self, view: Any, name: str) -> None:  # type: ignore[override]
        super().on_timer(view, name, 0.0)


class Scheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    name = "everything"
    messages: ClassVar[dict[str, gs.Message]] = {
        "tell": gs.Message(100, value=float, left=int),
        "share": gs.Message(1000, moves_tasks=True, hops=int, application=int, tasks=int),
        "hint": gs.Message(10, deferred=True, value=float),
        "nudge": gs.Message(0, delay=0.0, counted=False, left=int),
        "call": gs.Message(50, delay=1.0, at=int),
        "ask": gs.Message(60, answer="offer", job=int),
        "offer": gs.Message(80, price=float),
        "think": gs.Message(None, values=gs.array(int), weight=float),
        "matrix": gs.Message(nbytes_of, values=gs.array(float), weight=float),
    }
    timers = ("tock", "tick", "place", "offer")
    numbers = ("work", "queue")
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"node": int, "board": float, "at": float}}
    decision_words: ClassVar[Any] = {"keep": ("kept them, with {saw} s of work", "work", "s")}
    decision_verbs: ClassVar[Any] = {"keep": "keeps"}
    hops: int = 3
    machines: int = 1


def one_each(self: Any, machines: int) -> Layout:
    return Layout.one_each(machines)


def with_server(self: Any, machines: int) -> Layout:
    return Layout.with_server(machines)


def two_each(self: Any, machines: int) -> Layout:
    """Put two nodes on each machine; the second one is at home there."""
    nodes = np.arange(2 * machines)
    return Layout(nodes % machines, nodes[machines:], nodes % 3)


@st.composite
def schedulers(draw: st.DrawFn, machines: int) -> gs.Scheduler:
    counting, is_long = draw(st.booleans()), draw(st.booleans())
    has_roles, has_servers = draw(st.booleans()), draw(st.booleans())
    worker = Counting if counting else Everything

    class Drawn(Scheduler, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = (
            {"desk": gs.Role(Desk, count=2, server=has_servers, releases=True), "worker": gs.Role(worker)}
            if has_roles
            else {}
        )
        reports = False if counting else draw(st.booleans())
        local_order = draw(st.sampled_from(["edf", "fifo"]))
        watch = draw(st.sampled_from(["idle", "completion"]))
        at_once = draw(st.booleans())
        to_the_end = is_long
        ticks: ClassVar[dict[str, float]] = {} if is_long else {"beat": 2.0}  # ticks never end

    if not has_roles:
        Drawn.policy = worker
        Drawn.layout = draw(st.sampled_from([one_each, two_each, with_server]))  # type: ignore[method-assign]
    return Drawn(
        degree=min(machines, 3),
        detection=draw(st.sampled_from([0.0, 1.0])),
        age=draw(st.sampled_from([0.0, 1.5])),
        refresh=draw(st.sampled_from(["continuous", "periodic", "individual", "decisions"])),
        batch=2,
        error=draw(st.sampled_from([0.0, 0.3])),
        machines=machines,
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[gs.Scenario, gs.Scheduler]:
    scenario = draw(scenarios().filter(lambda scenario: scenario.platform.nodes > 1))
    return scenario, draw(schedulers(scenario.platform.nodes))


def tables(result: gs.Result) -> dict[str, Any]:
    return dict(result.tables)


@given(runs())
def test_python_nodes_have_the_messages_and_digest_of_interpreted_ones(
    run: tuple[gs.Scenario, gs.Scheduler],
) -> None:
    scenario, scheduler = run
    python, interpreted = (
        gs.simulate(scenario, scheduler, nodes=nodes, record=RECORDED, observe=OBSERVE)
        for nodes in ("python", "interpreted")
    )
    assert tables(python) == tables(interpreted)
    assert len(python.tables["diary"]) > 0
    assert python.digest == interpreted.digest
    assert python.provenance["events"] == interpreted.provenance["events"]
    assert (python.provenance["nodes"], interpreted.provenance["nodes"]) == ("python", "interpreted")


@given(run=runs(), waves=st.integers(1, 60))
def test_a_checkpoint_of_one_form_continues_in_the_other(
    run: tuple[gs.Scenario, gs.Scheduler], waves: int
) -> None:
    scenario, scheduler = run
    expected = gs.simulate(scenario, scheduler, record=RECORDED)
    for first, second in (("python", "interpreted"), ("interpreted", "python")):
        simulation = Simulation(scenario, scheduler, Options(record=RECORDED, nodes=first))  # type: ignore[arg-type]
        snapshots, count = [], 0

        def take() -> None:
            nonlocal count
            count += 1
            if count == waves and not simulation.engine.stopping:  # noqa: B023
                snapshots.append(snapshot(simulation))  # noqa: B023

        simulation.engine.at_wave_end(take)
        assert simulation.run().digest == expected.digest
        for text, arrays in snapshots:
            resumed = Simulation(scenario, scheduler, Options(record=RECORDED, nodes=second))  # type: ignore[arg-type]
            copies = [array.copy() for array in arrays]
            state: Any = unpack(json.loads(text), copies.__getitem__)
            resumed.setstate(state.state)
            result = resumed.run()
            assert result.digest == expected.digest
            assert tables(result) == tables(expected)


GRID = SummaryGrid([1.0], [1.0], [1.0])


def mistakes() -> dict[str, Callable[[Any, Any], Any]]:
    """Return name -> what a node does wrong at a release."""
    return {
        "unknown kind": lambda view, a: view.send(0, "tel", value=1.0, left=1),
        "unknown field": lambda view, a: view.send(0, "tell", value=1.0, lef=1),
        "missing field": lambda view, a: view.send(0, "tell", value=1.0),
        "receiver": lambda view, a: view.send(99, "nudge", left=1),
        "type of the receiver": lambda view, a: view.send("0", "nudge", left=1),
        "type of a field": lambda view, a: view.send(0, "nudge", left=1.5),
        "local kind": lambda view, a: view.send(0, "think", values=[1], weight=1.0),
        "kind of another node": lambda view, a: view.later(1.0, "nudge", left=1),
        "time of a local message": lambda view, a: view.later(-1.0, "think", values=[1], weight=1.0),
        "unknown application": lambda view, a: view.send(0, "share", hops=1, application=7, tasks=1),
        "more tasks than there are": lambda view, a: view.send(0, "share", hops=1, application=0, tasks=9),
        "more tasks enqueued": lambda view, a: view.enqueue(0, 9),
        "no task enqueued": lambda view, a: view.enqueue(0, 0),
        "application of a queue": lambda view, a: view.enqueue(3, 1),
        "negative withdrawal": lambda view, a: view.take(0, -1),
        "application of a node": lambda view, a: view.application(5),
        "timer": lambda view, a: view.timer(1.0, "tik"),
        "time of a timer": lambda view, a: view.timer(float("inf"), "tick"),
        "instant of a timer": lambda view, a: view.at(-1, "tick"),
        "distant instant": lambda view, a: view.at(2**62, "tick"),
        "value of a timer": lambda view, a: view.timer(1.0, "tick", "x"),
        "cancelled timer": lambda view, a: view.cancel("tik"),
        "time of an act": lambda view, a: view.act(-1.0),
        "number on the board": lambda view, a: view.publish(work=float("nan")),
        "unknown number": lambda view, a: view.publish(wrk=1.0),
        "number without a name": lambda view, a: view.publish(1.0),
        "board of applications": lambda view, a: view.publish(work=1.0, application=0),
        "board as an array": lambda view, a: np.sum(view.board),
        "board as a sequence": lambda view, a: list(view.board),
        "attribute of the board": lambda view, a: view.board.wrk,
        "least of an unknown number": lambda view, a: view.board.least(1, "wrk"),
        "least of a negative count": lambda view, a: view.board.least(-1, "work"),
        "addition for an unknown node": lambda view, a: view.board.add(9, 1.0, "work"),
        "infinite addition": lambda view, a: view.board.add(0, float("inf"), "work"),
        "missing field of a timer": lambda view, a: view.timer(1.0, "alarm"),
        "unknown field of a timer": lambda view, a: view.timer(1.0, "alarm", numbr=1),
        "type of a field of a timer": lambda view, a: view.timer(1.0, "alarm", number=1.5),
        "field of a plain timer": lambda view, a: view.timer(1.0, "tick", number=1),
        "time of a timer with fields": lambda view, a: view.timer(-1.0, "alarm", number=1),
        "request without an answer": lambda view, a: view.request(0, "tell", timeout=1.0, value=1.0, left=1),
        "unknown request": lambda view, a: view.request(0, "aks", timeout=1.0, job=1),
        "time of a request": lambda view, a: view.request(0, "ask", timeout=-1.0, job=1),
        "field of a request": lambda view, a: view.request(0, "ask", timeout=1.0, jb=1),
        "number of a request": lambda view, a: view.send(0, "ask", request=3, job=1),
        "cancelled field": lambda view, a: view.cancel("alarm", numbr=1),
        "table": lambda view, a: view.note("sen", node=1),
        "column": lambda view, a: view.note("seen", node=1, bord=1.0, at=1.0),
        "decision": lambda view, a: view.decide("kep", 0),
        "attribute of a view": lambda view, a: view.neighbors,
        "attribute of a message": lambda view, a: view.later(0.0, "think", values=[], weight=-1.0),
        "setting an attribute": lambda view, a: setattr(view, "extra", 3),
        "release of a sample": lambda view, a: view.sample(GRID, release=-1),
    }


@pytest.mark.parametrize("mistake", mistakes())
def test_mistakes_of_nodes_raise_the_same_errors_in_all_forms(mistake: str) -> None:
    class Mistaken(Everything):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks - 1)
            mistakes()[mistake](view, application)

        def on_think(self, view: Any, message: Any) -> None:
            message.valus  # noqa: B018

    class Mistakes(Scheduler, frozen=True, kw_only=True):
        policy = Mistaken

    scenario = gs.Scenario(gs.Platform.of([1000.0] * 2), gs.Workload.of([0.0], 2, 1000.0, [0]), seed=1)
    errors = []
    for nodes in ("python", "interpreted"):
        with pytest.raises((gs.SchedulerError, AttributeError, ValueError)) as caught:
            gs.simulate(scenario, Mistakes(degree=1), nodes=nodes)
        text = str(caught.value).replace("PythonView", "gridcore.nodes.view.View")
        errors.append((type(caught.value), text))
    assert errors[0] == errors[1]
