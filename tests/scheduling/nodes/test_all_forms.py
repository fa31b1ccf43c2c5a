"""All forms of a run give equal digests, for programs that use every part of the node tier.

``pytest -m claims tests/scheduling/nodes/test_all_forms.py`` draws `MANY_EXAMPLES` scenarios, or as many as
the environment variable GRIDSIM_MANY_EXAMPLES says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.scheduling.contract import NodeForm
from gridsim.scheduling.nodes.layout import Layout
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot
from tests._helpers.forms import RUNNABLE_FORMS

#: Scenarios of the long test, which take about 15 minutes on one core.
MANY_EXAMPLES = int(os.environ.get("GRIDSIM_MANY_EXAMPLES", "5000"))
#: The forms whose handlers are not compiled, which takes half a minute for each of these programs.
IN_PYTHON: tuple[NodeForm, ...] = ("python", "interpreted")
#: Features that the actions of a node may use, by the number of the action.
PARTS = (
    "timer", "alarm", "cancel", "act", "tell", "hint", "nudge", "call", "ask", "think", "matrix", "board",
    "withdraw", "read", "draw", "containers",
)  # fmt: skip
ALL_PARTS = 2 ** len(PARTS) - 1
OBSERVE = gs.Observe(every=1.0, columns={"hints": "hints", "work": "view.work"})
Run = tuple[gs.Scenario, gs.Scheduler]


def nbytes_of_tell(value: float, left: int) -> int:
    return 64 + 8 * (left % 3) if value > 0.5 else 80


class Node(gs.NodeProgram):
    """A node that acts at random, so that many events are due at one instant.

    Tasks that have been handed on `hops` times are queued where they are, so that all are done in the end.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.kept = gs.Fifo(application=int, tasks=int, hops=int)
        self.offers = gs.Heap(price=float, node=int)
        self.debts = gs.IntMap(count=int, work=float)
        self.known = gs.IntSet()  # applications that this node knows
        self.senders = gs.IntSet()
        self.left, self.hints, self.sum = parameters.actions, 0, 0.0
        self.table = np.arange(6).reshape(2, 3)
        self.levels = np.linspace(0.0, 1.0, 4)

    def random_node(self, view: Any) -> int:
        """Return a random neighbour, or the node itself."""
        k = view.random.integers(len(view.neighbours) + 1)
        return int(view.neighbours[k]) if k < len(view.neighbours) else view.node

    def do(self, view: Any) -> None:
        """Do a random action of a part that is switched on."""
        self.left -= 1
        if self.left < 0:
            return
        part = view.random.integers(16)
        if (self.parameters.parts >> part) % 2 == 0:
            return
        if part < 4:
            self.set_times(view, part)
        elif part < 10:
            self.send_message(view, part)
        elif part == 10:
            self.send_arrays(view)
        elif part == 11:
            self.publish(view)
        elif part == 12:
            self.withdraw(view)
        elif part == 13:
            self.read(view)
        elif part == 14:
            self.draw(view)
        else:
            self.use_containers(view)

    def set_times(self, view: Any, part: int) -> None:
        delay = float(view.random.integers(3)) / 2.0
        if part == 0:
            view.timer(delay, "tick", self.levels[1])
            view.at(view.now_ns + 500_000_000 * view.random.integers(3), "tock")
        elif part == 1:
            view.timer(delay, "alarm", number=view.random.integers(2))
            view.at(view.now_ns, "alarm", weight=view.work, number=1)
        elif part == 2:
            view.cancel("tick")
            view.cancel("alarm", number=view.random.integers(2))
        elif view.random.random() < 0.5:
            self.act_at(view, 0.0)
        else:
            self.act_at(view, delay)

    def act_at(self, view: Any, delay: float) -> None:
        view.act(delay)

    def send_message(self, view: Any, part: int) -> None:
        to = self.random_node(view)
        if part == 4:
            view.send(to, "tell", value=view.work, left=view.random.integers(3))
        elif part == 5:
            view.send(to, "hint", value=view.now)
        elif part == 6:
            view.send(to, "nudge", left=view.random.integers(3))
        elif part == 7:
            view.send(to, "call", at=view.now_ns)
        elif part == 8:
            timeout = float(view.random.integers(4)) / 2.0
            number = view.request(to, "ask", timeout=timeout, job=self.left, due=view.now + timeout)
            view.note("seen", node=number, value=timeout, at=view.now)
        else:
            view.later(
                float(view.random.integers(3)) / 2.0, "think",
                matrix=self.table[:, 1:], few=np.full(2, self.left), load=view.speed,
            )  # fmt: skip

    def send_arrays(self, view: Any) -> None:
        self.table[:, view.random.integers(3)] += view.node
        self.levels[:] = 0.5 * self.levels + view.random.random()
        view.send(
            self.random_node(view), "arrays", few=np.full(3, self.hints), halves=self.levels,
            signed=np.full(2, -view.node), wide=self.table[0], words=self.table,
        )  # fmt: skip
        view.send(self.random_node(view), "matrix", values=self.table[:, ::2], weights=self.levels[::-1])

    def publish(self, view: Any) -> None:
        if view.random.random() < 0.5:
            view.publish(work=view.work, queue=view.waiting, falling=("work",))
        else:
            view.publish(queue=view.tasks, falling=False)
        view.board.add(view.random.integers(view.machines), 1.5, "queue")
        displayed = min(view.board[view.node, "queue"], 1e9)
        for value in view.board.work:
            displayed += min(value, 1e6)
        minimum = view.board.least(2, "queue")
        view.note("seen", node=minimum[0], value=displayed, at=view.now)

    def withdraw(self, view: Any) -> None:
        for application, tasks in view.queued:
            # the tasks were enqueued by this node, or by another node of this machine
            if application in self.known:
                taken = view.take(application, view.random.integers(tasks + 2))
                if taken:
                    self.place(view, application, taken, self.parameters.hops - 1)
                break

    def read(self, view: Any) -> None:
        if self.parameters.completes:
            for application, tasks in view.completed():
                view.note("seen", node=view.node, value=float(tasks), at=float(application))
        view.note("seen", node=view.machine, value=min(view.minimum_stretch, 1e9), at=float(self.hints))
        view.note("seen", node=view.machines, value=view.speed, at=float(view.waiting - view.tasks))
        for number in self.known:
            known = view.application(number)
            size = known.size + known.task_size * known.tasks
            view.note("seen", node=view.held(number), value=size, at=known.release)

    def draw(self, view: Any) -> None:
        self.sum = view.random.normal(1.0, 0.5) + view.random.exponential(2.0)
        self.sum += view.random.uniform(1.0, 2.0) * view.random.integers(2, 5) + view.random.random()
        if view.neighbours:
            self.senders.add(view.random.choice(view.neighbours))
        view.note("seen", node=len(self.senders), value=self.sum, at=view.now)

    def use_containers(self, view: Any) -> None:
        self.offers.push(view.random.random(), view.node)
        if len(self.offers) > 2:
            price, node = self.offers.pop()
            self.sum += price + self.offers[0][0] + node
        count, work = self.debts.get(view.random.integers(3), (0, 0.5))
        key = view.random.integers(4)
        self.debts[key] = (count + 1, work + view.work)
        if count > 1 and key in self.debts:
            del self.debts[key]
        for number in self.debts:
            self.sum += number * self.debts[number][0]
        if len(self.senders) > 2:
            self.sum += self.senders.pop() + self.senders[-1]
        for application, tasks, hops in self.kept:
            self.sum += application + 2 * tasks + 3 * hops
        view.note("seen", node=len(self.debts), value=self.sum, at=float(len(self.offers)))

    def place(self, view: Any, application: int, tasks: int, hops: int) -> None:
        self.known.add(application)
        here = tasks if hops >= self.parameters.hops else view.random.integers(tasks + 1)
        if view.machine >= self.parameters.machines:  # a server runs no tasks
            here = 0
        if here and view.random.random() < 0.3:
            self.kept.push(application, here, hops)
            view.timer(0.0 if hops % 2 else 2.0, "place")
        elif here:
            view.decide("kept", application, tasks=here, node=view.node, saw=view.work)
            view.enqueue(application, here)
        if here < tasks:
            to = self.parameters.first_worker + view.random.integers(self.parameters.machines)
            view.send(to, "share", hops=hops + 1, application=application, tasks=tasks - here)

    def on_start(self, view: Any) -> None:
        self.do(view)
        view.timer(1.0, "tock")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.do(view)
        self.place(view, application.number, tasks, 0)

    def on_lost(self, view: Any, application: Any, tasks: int) -> None:
        self.do(view)
        super().on_lost(view, application, tasks)

    def on_message(self, view: Any, message: Any) -> None:
        self.senders.add(message.sender)
        if message.kind == "tell" and message.left > 0:
            view.send(message.sender, "tell", value=message.value + view.waiting, left=message.left - 1)
        self.do(view)

    def on_share(self, view: Any, message: Any) -> None:
        self.place(view, message.application, message.tasks, message.hops)

    def on_hint(self, view: Any, message: Any) -> None:
        self.hints += 1
        view.note("seen", node=message.sender, value=message.value, at=0.0)

    def on_nudge(self, view: Any, message: Any) -> None:
        if message.left > 0:
            view.send(self.random_node(view), "nudge", left=message.left - 1)
        self.do(view)

    def on_ask(self, view: Any, message: Any) -> None:
        if message.job % 3:
            view.reply(message, "offer", price=view.work)
        else:
            view.timer(1.5, "late", sender=message.sender, request=message.request)

    def on_late(self, view: Any, sender: int, request: int) -> None:
        view.send(sender, "offer", request=request, price=0.5)
        view.send(sender, "offer", price=2.5)

    def on_offer(self, view: Any, message: Any) -> None:
        self.offers.push(message.price, message.sender)
        view.note("seen", node=message.request, value=message.price, at=view.now)
        self.do(view)

    def on_timeout(self, view: Any, request: Any) -> None:
        view.note("seen", node=request.number, value=request.due, at=float(request.to + request.job))
        self.do(view)

    def on_think(self, view: Any, message: Any) -> None:
        self.sum += message.load + int(message.few[0])
        view.send(self.random_node(view), "nudge", left=message.matrix[1, 0] % 2)

    def on_arrays(self, view: Any, message: Any) -> None:
        double = message.halves + message.halves
        self.sum += float(double[2]) + int(message.signed.min()) + int(message.words[1, 2])
        self.sum += message.wide.astype(np.int64).sum() + int(message.few[0])
        view.note("seen", node=len(message.few), value=self.sum, at=view.now)
        self.do(view)

    def on_matrix(self, view: Any, message: Any) -> None:
        self.sum += message.values[1, 1] * message.values.shape[1] + len(message.weights)
        if len(message.weights) > 0 and view.random.random() < 0.5:
            self.sum += message.weights[0]
            view.send(self.random_node(view), "matrix", values=message.values, weights=message.weights[1:])
        self.do(view)

    def on_alarm(self, view: Any, number: int, weight: float = 0.5) -> None:
        view.note("seen", node=number, value=weight, at=view.now)
        self.do(view)

    def on_place(self, view: Any) -> None:
        for _ in range(len(self.kept)):
            application, tasks, hops = self.kept.pop()
            self.place(view, application, tasks, hops + 1)

    def on_timer(self, view: Any, name: str, value: float = 0.0) -> None:
        if name != "beat" or view.random.random() < value + 0.2:
            self.do(view)

    def on_idle(self, view: Any) -> None:
        self.do(view)

    def on_end(self, view: Any) -> None:
        self.do(view)

    def on_act(self, view: Any) -> None:
        self.do(view)


class Worker(Node):
    """A node that handles the end of each task, and has no own actions at the end of several."""

    def on_done(self, view: Any, application: Any) -> None:
        view.note("seen", node=view.rank, value=float(application.number), at=view.now)
        self.do(view)


class Desk(Node):
    """A node that gets releases, and handles no events of machines."""

    on_act = gs.NodeProgram.on_act
    on_idle = gs.NodeProgram.on_idle
    on_end = gs.NodeProgram.on_end

    def act_at(self, view: Any, delay: float) -> None:
        hubs = view.role("desk")
        view.note("seen", node=hubs[view.rank % len(hubs)], value=delay, at=0.0)


def true_sum(truth: Any, node: int, machine: int) -> float:
    program = truth.memory(machine)
    return float(program.sum + len(program.kept))


class Scheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    name = "all parts"
    messages: ClassVar[dict[str, gs.Message]] = {
        "tell": gs.Message(nbytes_of_tell, value=float, left=int),
        "share": gs.Message(1000, moves_tasks=True, hops=int, application=int, tasks=int),
        "hint": gs.Message(10, deferred=True, value=float),
        "nudge": gs.Message(0, delay=0.0, counted=False, left=int),
        "call": gs.Message(50, delay=1.0, at=int),
        "ask": gs.Message(60, answer="offer", job=int, due=float),
        "offer": gs.Message(80, price=float),
        "think": gs.Message(None, matrix=gs.array(int, ndim=2), few=gs.array(np.uint32, ndim=1), load=float),
        "arrays": gs.Message(
            300,
            few=gs.array(np.uint16, ndim=1),
            halves=gs.array(np.float32, ndim=1),
            signed=gs.array(np.int16, ndim=1),
            wide=gs.array(np.int32, ndim=1),
            words=gs.array(np.uint32, ndim=2),
        ),
        "matrix": gs.Message(
            lambda values, weights: 64 + values.nbytes + weights.nbytes,
            values=gs.array(int, ndim=2),
            weights=gs.array(float, ndim=1),
        ),
    }
    timers = ("tock", "tick")
    numbers = ("work", "queue")
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"node": int, "value": float, "at": float}}
    decision_words: ClassVar[Any] = {"kept": ("kept them, with {saw} s of work", "work", "s")}
    decision_verbs: ClassVar[Any] = {"kept": "keeps"}
    truths: ClassVar[Any] = {"kept": true_sum}

    parts: int = ALL_PARTS
    actions: int = 10  # number of actions of a node since it started
    hops: int = 3
    machines: int = 1
    first_worker: int = 0
    completes: bool = False
    arrangement: int = 0  # arrangement of nodes on machines if there are no roles

    def layout(self, machines: int) -> Layout:
        if self.roles or self.arrangement == 0:
            return super().layout(machines)
        if self.arrangement == 1:
            return Layout.with_server(machines)
        nodes = np.arange(2 * machines)  # two nodes per machine, the second of which is its home node
        return Layout(nodes % machines, nodes[machines:], nodes % 3)


@cache
def scheduler_class(roles: str, at_once: bool, watch: str, order: str, reports: bool) -> type[Scheduler]:
    """Return a class of schedulers; those with roles, or without, share their machine code by `at_once`."""
    is_long = at_once != bool(
        roles
    )  # some schedulers of each kind, but not all pairs, each of which would be compiled separately
    members: dict[str, Any] = {
        "at_once": at_once, "watch": watch, "local_order": order, "to_the_end": is_long, "reports": reports,
        "ticks": {} if is_long else {"beat": 2.0},  # ticks never end
    }  # fmt: skip
    if not roles:
        members["policy"] = Node
    else:
        desk = gs.Role(Desk, count=2, server=roles == "servers", releases=True)
        members["roles"] = {"desk": desk, "worker": gs.Role(Worker)}
    return type("Drawn", (Scheduler,), {"__module__": __name__, **members}, frozen=True, kw_only=True)


#: The roles, and whether messages leave at once, of each variant.
VARIANTS = tuple((roles, at_once) for roles in ("", "desks", "servers") for at_once in (False, True))


@st.composite
def scenarios(draw: st.DrawFn) -> gs.Scenario:
    nodes, latency = draw(st.integers(1, 6)), draw(st.sampled_from([0.0, 0.5, 1.0]))
    count = draw(st.integers(1, 5))
    network = gs.Network(
        latency=latency,
        jitter=draw(st.sampled_from([0.0, latency / 2])),
        bandwidth=draw(st.sampled_from([1000.0, float("inf")])),
        interfaces=draw(st.sampled_from(["fifo", "equal"])),
    )
    workload = gs.Workload.of(
        release=sorted(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))),
        tasks=draw(st.lists(st.integers(1, 6), min_size=count, max_size=count)),
        task_size=draw(st.lists(st.sampled_from([500.0, 1000.0]), min_size=count, max_size=count)),
        submitter=draw(st.lists(st.integers(0, nodes - 1), min_size=count, max_size=count)),
    )
    faults = None
    if draw(st.booleans()):
        # failures at whole seconds, where timers, releases and messages are due as well
        machine = draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=4, unique=True))
        instants = draw(st.lists(st.integers(0, 8), min_size=len(machine), max_size=len(machine)))
        down = draw(st.lists(st.integers(0, 2), min_size=len(machine), max_size=len(machine)))
        faults = gs.Faults.of(machine, instants, [a + d for a, d in zip(instants, down, strict=True)])
    return gs.Scenario(
        gs.Platform.of([1000.0] * nodes), workload, network, faults=faults, seed=draw(st.integers(0, 99))
    )


@st.composite
def overlays(draw: st.DrawFn, nodes: int) -> list[list[int]]:
    """Draw the neighbours of each node; some nodes may have none."""
    return [sorted(draw(st.sets(st.sampled_from([v for v in range(nodes) if v != u])))) for u in range(nodes)]


@st.composite
def schedulers(draw: st.DrawFn, machines: int) -> gs.Scheduler:
    roles, at_once = draw(st.sampled_from(VARIANTS))
    reports = not roles and draw(st.booleans())
    sample = scheduler_class(
        roles,
        at_once,
        draw(st.sampled_from(["idle", "completion"])),
        draw(st.sampled_from(["edf", "fifo"])),
        reports,
    )
    some_parts = st.sets(st.integers(0, len(PARTS) - 1)).map(lambda parts: sum(2**part for part in parts))
    arrangement = 0 if roles else draw(st.integers(0, 2))
    return sample(
        degree=draw(st.integers(1, 3)),
        overlay=draw(st.none() | overlays(machines)) if arrangement == 0 else None,
        detection=draw(st.sampled_from([0.0, 1.0])),
        age=draw(st.sampled_from([0.0, 1.5])),
        refresh=draw(st.sampled_from(["continuous", "periodic", "individual", "decisions"])),
        batch=2,
        error=draw(st.sampled_from([0.0, 0.3])),
        parts=draw(st.just(ALL_PARTS) | some_parts),
        actions=draw(st.integers(0, 20)),
        machines=machines,
        first_worker=2 if roles else 0,
        completes=reports,
        arrangement=arrangement,
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    scenario = draw(scenarios().filter(lambda scenario: scenario.platform.nodes > 1))
    return scenario, draw(schedulers(scenario.platform.nodes))


def resumed_results(run: Run, form: NodeForm, other: NodeForm, waves: int) -> list[gs.Result]:
    """Return the result of a run that takes a checkpoint after `waves` waves, and of one in another form from
    there on."""
    simulation = Simulation(*run, Options(record="all", nodes=form))
    snapshots, count = [], 0

    def take() -> None:
        nonlocal count
        count += 1
        if count == waves and not simulation.engine.stopping:
            snapshots.append(snapshot(simulation))

    simulation.engine.at_wave_end(take)
    results = [simulation.run()]
    for text, arrays in snapshots:
        continued = Simulation(*run, Options(record="all", nodes=other))
        state: Any = unpack(json.loads(text), [array.copy() for array in arrays].__getitem__)
        continued.setstate(state.state)
        results.append(continued.run())
    return results


def check_forms(run: Run, forms: tuple[NodeForm, ...], further: NodeForm, limit: int, waves: int) -> None:
    """Check that a run has the same results in all `forms`, and in one form if it is cut or resumed."""
    scenario, scheduler = run
    results = [gs.simulate(scenario, scheduler, nodes=form, record="all", observe=OBSERVE) for form in forms]
    expected = results[0]
    for form, result in zip(forms, results, strict=True):
        assert result.digest == expected.digest, form
        assert dict(result.tables) == dict(expected.tables), form
        assert result.provenance["events"] == expected.provenance["events"], form
        assert result.provenance["nodes"] == form
    cut = gs.simulate(scenario, scheduler, nodes=further, cohort_limit=limit)
    assert cut.digest == expected.digest, ("cut", further)
    for result in resumed_results(run, further, forms[forms.index(further) - 1], waves):
        assert result.digest == expected.digest, ("resumed", further)
        assert all(table == expected.tables[name] for name, table in result.tables.items())


@settings(max_examples=30)
@given(run=runs(), form=st.sampled_from(IN_PYTHON), limit=st.integers(1, 3), waves=st.integers(1, 60))
def test_both_forms_in_python_give_equal_results(run: Run, form: NodeForm, limit: int, waves: int) -> None:
    check_forms(run, IN_PYTHON, form, limit, waves)


@pytest.mark.claims
@settings(max_examples=MANY_EXAMPLES, suppress_health_check=list(HealthCheck))
@given(run=runs(), form=st.sampled_from(RUNNABLE_FORMS), limit=st.integers(1, 3), waves=st.integers(1, 60))
def test_all_forms_give_equal_results(run: Run, form: NodeForm, limit: int, waves: int) -> None:
    check_forms(run, RUNNABLE_FORMS, form, limit, waves)


def test_a_run_with_many_pauses_equals_that_of_the_readable_core() -> None:
    """The core returns control to the engine at times, also within a wave."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=60, seed=1),
        gs.Workload.bags(applications=40, interarrival=20.0, tasks_per_node=3, task_size=65536.0, seed=1),
        faults=gs.Faults.poisson(mean=300.0, seed=1),
        seed=1,
    )
    scheduler = scheduler_class("", False, "idle", "edf", False)(degree=3, machines=60, actions=300)
    result = gs.simulate(scenario, scheduler)
    assert result.digest == gs.simulate(scenario, scheduler, nodes="python").digest
    assert result.provenance["events"] > 3 * 8192


GRID = SummaryGrid([1.0], [1.0], [1.0])
#: Fields of the local message "think".
THOUGHT: dict[str, Any] = {"matrix": np.zeros((2, 2), int), "few": [1], "load": 1.0}


def mistakes() -> dict[str, Callable[[Any, Any], Any]]:
    """Return name -> what a node does wrong at a release."""
    return {
        "type of the receiver": lambda view, a: view.send("0", "nudge", left=1),
        "local kind": lambda view, a: view.send(0, "think", **THOUGHT),
        "kind of another node": lambda view, a: view.later(1.0, "nudge", left=1),
        "time of a local message": lambda view, a: view.later(-1.0, "think", **THOUGHT),
        "unknown application": lambda view, a: view.send(0, "share", hops=1, application=7, tasks=1),
        "more tasks than there are": lambda view, a: view.send(0, "share", hops=1, application=0, tasks=9),
        "application of a queue": lambda view, a: view.enqueue(3, 1),
        "negative withdrawal": lambda view, a: view.take(0, -1),
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
        "field of a plain timer": lambda view, a: view.timer(1.0, "tick", number=1),
        "time of a timer with fields": lambda view, a: view.timer(-1.0, "alarm", number=1),
        "unknown request": lambda view, a: view.request(0, "aks", timeout=1.0, job=1, due=1.0),
        "column": lambda view, a: view.note("seen", node=1, valu=1.0, at=1.0),
        "decision": lambda view, a: view.decide("kep", 0),
        "attribute of a message": lambda view, a: view.later(0.0, "think", **THOUGHT),
        "setting an attribute": lambda view, a: setattr(view, "extra", 3),
        "release of a sample": lambda view, a: view.sample(GRID, release=-1),
    }


@pytest.mark.parametrize("mistake", mistakes())
def test_mistakes_of_nodes_raise_the_same_errors_in_all_forms(mistake: str) -> None:
    class MistakenNode(Node):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            view.enqueue(application.number, tasks - 1)
            mistakes()[mistake](view, application)

        def on_think(self, view: Any, message: Any) -> None:
            message.matrx  # noqa: B018

    class MistakenScheduler(Scheduler, frozen=True, kw_only=True):
        policy = MistakenNode

    scenario = gs.Scenario(gs.Platform.of([1000.0] * 2), gs.Workload.of([0.0], 2, 1000.0, [0]), seed=1)
    errors = []
    for nodes in IN_PYTHON:
        with pytest.raises((gs.SchedulerError, AttributeError, ValueError)) as excinfo:
            gs.simulate(scenario, MistakenScheduler(degree=1), nodes=nodes)
        text = str(excinfo.value).replace("PythonView", "gridcore.nodes.view.View")
        errors.append((type(excinfo.value), text))
    assert errors[0] == errors[1]
