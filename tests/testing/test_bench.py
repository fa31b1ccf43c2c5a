"""The bench for one node: it behaves as in a run, in all forms."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import Bench, Sent
from tests._helpers.forms import FORMS, RUNNABLE_FORMS


class HalfNode(gs.NodeProgram):
    """A node that keeps half of its tasks, passes on the others, and asks another node when it is idle."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.asked = 0
        self.share = 0.0
        self.seen = np.zeros(3, np.int64)
        self.senders = gs.Fifo(node=int, tasks=int)

    def on_start(self, view: Any) -> None:
        view.timer(4.0, "ask")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.deal(view, application.number, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        self.senders.push(message.sender, message.tasks)
        self.seen[message.tasks % 3] += 1
        self.deal(view, message.application, message.tasks)

    def deal(self, view: Any, application: int, tasks: int) -> None:
        keeps = (tasks + 1) // 2
        view.enqueue(application, keeps)
        if tasks > keeps:
            to = view.random.choice(view.neighbours)
            view.send(to, "task", application=application, tasks=tasks - keeps)

    def on_idle(self, view: Any) -> None:
        self.asked += 1
        view.timer(0.5, "ask")

    def on_timer(self, view: Any, name: str) -> None:
        self.share = view.random.uniform(0.0, 1.0)
        if self.asked < 20 and view.tasks == 0:
            view.send(view.random.choice(view.neighbours), "ask", share=self.share)

    def on_ask(self, view: Any, message: Any) -> None:
        for application, tasks in view.queued:
            if message.share < 0.9 and tasks > 1:
                taken = view.take(application, tasks // 2)
                view.send(message.sender, "task", application=application, tasks=taken)
                break


class HalfScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "halving"
    policy = HalfNode
    timers = ("ask",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "task": gs.Message(100, moves_tasks=True, application=int, tasks=int),
        "ask": gs.Message(40, share=float),
    }


def _bench(form: Any, scheduler: Any = None, *args: Any, **options: Any) -> Bench:
    return Bench(HalfScheduler(degree=2) if scheduler is None else scheduler, *args, form=form, **options)


# -- as in a run ---------------------------------------------------------------------------------------------


class RecordedNode(HalfNode):
    """A node that records what happens at node 1, in the order of a run."""

    events: ClassVar[list[tuple[Any, ...]]] = []

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self._record(view, "release", application.number, tasks)
        super().on_release(view, application, tasks)

    def on_task(self, view: Any, message: Any) -> None:
        fields = {"application": message.application, "tasks": message.tasks}
        self._record(view, "deliver", "task", message.sender, fields)
        super().on_task(view, message)

    def on_ask(self, view: Any, message: Any) -> None:
        self._record(view, "deliver", "ask", message.sender, {"share": message.share})
        super().on_ask(view, message)

    def _record(self, view: Any, *event: Any) -> None:
        if view.node == 1:
            self.events.append((view.now_ns, *event))


class RecordedScheduler(HalfScheduler, frozen=True, kw_only=True):
    name = "halving"
    policy = RecordedNode


@pytest.mark.parametrize("form", FORMS)
def test_a_node_on_the_bench_repeats_what_it_did_in_a_run(form: str) -> None:
    rng = np.random.default_rng(3)
    count = 30
    workload = gs.Workload.of(
        np.cumsum(rng.uniform(0.5, 6.0, count)), rng.integers(1, 12, count), rng.uniform(500, 4000, count),
        rng.integers(0, 4, count), origin=0.0,
    )  # fmt: skip
    scenario = gs.Scenario(gs.Platform.equal(4, 1000.0), workload, seed=5)
    RecordedNode.events.clear()
    result = gs.simulate(scenario, RecordedScheduler(degree=2), nodes="interpreted", record="messages")
    log = result.tables["message_log"]
    at_node = log["sender"] == 1
    sent = list(zip(log["receiver"][at_node].tolist(), log["kind"][at_node].tolist(), strict=True))
    assert len(RecordedNode.events) > 20 and len(sent) > 20

    bench = _bench(form, node=1, machines=4, workload=workload, seed=5)
    clock = 0
    for time, method, *arguments in RecordedNode.events:
        bench.advance((time - clock) / 1e9)
        clock = time
        if method == "release":
            bench.release(*arguments)
        else:
            kind, sender, fields = arguments
            bench.deliver(kind, sender, **fields)
    bench.advance(result.provenance["clock_seconds"] - clock / 1e9)
    assert [(item.to, item.kind) for item in bench.sent] == sent
    assert bench.held == {} and bench.view.tasks == 0


@st.composite
def _steps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    deliveries = st.tuples(
        st.just("deliver"), st.just("task"), st.sampled_from((0, 2, 3)), st.integers(0, 2), st.integers(1, 5)
    )
    requests = st.tuples(
        st.just("deliver"), st.just("ask"), st.sampled_from((0, 2, 3)), st.sampled_from((0.5, 1.0))
    )
    releases = st.tuples(st.just("release"), st.integers(0, 2), st.integers(1, 5))
    waits = st.tuples(st.just("advance"), st.sampled_from((0.0, 0.25, 1.0, 4.0)))
    return draw(st.lists(deliveries | requests | releases | waits | st.just(("restart",)), max_size=12))


def _state(bench: Bench) -> dict[str, Any]:
    program = bench.program
    return {
        "now": bench.now, "sent": bench.sent, "held": bench.held, "queued": bench.queued,
        "timers": bench.timers, "tasks": bench.view.tasks, "asked": program.asked, "share": program.share,
        "seen": program.seen.tolist(), "senders": program.senders.rows().tolist(),
    }  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(_steps())
def test_all_forms_give_the_same_results_on_the_bench(steps: list[tuple[Any, ...]]) -> None:
    benches = [_bench(form, node=1) for form in RUNNABLE_FORMS]
    for step in steps:
        states = []
        for bench in benches:
            match step:
                case "deliver", "task", sender, application, tasks:
                    bench.deliver("task", sender, application=application, tasks=tasks)
                case "deliver", "ask", sender, share:
                    bench.deliver("ask", sender, share=share)
                case method, *arguments:
                    getattr(bench, method)(*arguments)
            states.append(_state(bench))
        assert all(state == states[0] for state in states)


# -- one by one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_bench_causes_only_events_that_a_test_requests(form: str) -> None:
    bench = _bench(form, node=1)
    bench.start()
    assert bench.timers == [(4.0, "ask", {})] and bench.sent == []
    bench.release(0, tasks=3)
    [sent] = bench.sent
    assert sent == Sent(sent.to, "task", application=0, tasks=1) and sent.to != 1
    assert bench.queued == ((0, 2),) and bench.held == {}
    bench.end_task()
    assert bench.now == 1.0 and bench.queued == ((0, 1),) and bench.view.tasks == 1
    bench.sent.clear()
    bench.deliver("ask", sender=3, share=0.5)
    assert bench.sent == []  # a node does not give away its only task
    bench.end_task()
    assert bench.now == 2.0 and bench.program.asked == 1
    assert [(timer.time, timer.name) for timer in bench.timers] == [(2.5, "ask"), (4.0, "ask")]
    bench.advance(0.5)
    assert [item.kind for item in bench.sent] == ["ask"] and bench.program.share == bench.sent[0].fields[
        "share"
    ]
    bench.restart()
    assert bench.program.asked == 0 and [timer.time for timer in bench.timers] == [6.5]


class PriceNode(gs.NodeProgram):
    """A node that asks node 2 for its price at each release."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.request(2, "ask", timeout=2.0, tasks=tasks)
        view.enqueue(application.number, tasks)

    def on_ask(self, view: Any, message: Any) -> None:
        view.reply(message, "price", price=0.5 * message.tasks)

    def on_price(self, view: Any, message: Any) -> None:
        view.timer(message.price, "priced")

    def on_priced(self, view: Any) -> None:
        view.send(2, "ask", tasks=1, request=1)  # only view.request numbers requests

    def on_timeout(self, view: Any, request: Any) -> None:
        pass


class PriceScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = PriceNode
    node_forms = ("interpreted",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "ask": gs.Message(10, answer="price", tasks=int),
        "price": gs.Message(10, price=float),
    }


@pytest.mark.parametrize("form", ["python", "interpreted"])
def test_a_test_numbers_its_requests_and_answers_those_of_the_node(form: Any) -> None:
    bench = Bench(PriceScheduler(), form=form)
    bench.deliver("ask", sender=3, tasks=4, request=7)
    bench.deliver("ask", sender=3, tasks=4)
    assert bench.sent == [Sent(3, "price", price=2.0, request=request) for request in (7, 0)]
    bench.release(0, tasks=1)
    request = bench.sent[-1]
    assert request == Sent(2, "ask", tasks=1, request=1)
    bench.deliver("price", sender=2, price=1.5, request=request.fields["request"])
    with pytest.raises(
        gs.SchedulerError, match="node 0 sends 'ask' with a number of a request; view.request"
    ):
        bench.advance(1.5)


class Master(gs.NodeProgram):
    """A node that hands each task over to a worker, in turn."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.next = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for _ in range(tasks):
            view.send(1 + self.next, "task", application=application.number, tasks=1)
            self.next = (self.next + 1) % 3


class Worker(gs.NodeProgram):
    def on_task(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_idle(self, view: Any) -> None:
        view.send(0, "free")


class MasterScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    """A scheduler with a master that is on machine 0, beside the first worker."""

    roles: ClassVar[dict[str, gs.Role]] = {
        "master": gs.Role(Master, count=1, releases=True), "worker": gs.Role(Worker),
    }  # fmt: skip
    messages: ClassVar[dict[str, gs.Message]] = {
        "task": gs.Message(100, moves_tasks=True, application=int, tasks=int), "free": gs.Message(10),
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_role_is_tested_without_the_others(form: str) -> None:
    master = _bench(form, MasterScheduler(), role="master", machines=3)
    master.release(0, tasks=4)
    assert [item.to for item in master.sent] == [1, 2, 3, 1] and master.program.next == 1
    assert master.view.tasks == 0  # the master runs no tasks, and the worker on its machine does not exist
    worker = _bench(form, MasterScheduler(), "worker", 2, machines=3)
    assert worker.node == 3 and worker.view.machine == 2
    worker.deliver("task", sender=0, application=0, tasks=2)
    worker.end_task()
    assert worker.sent == []
    worker.end_task()
    assert worker.sent == [Sent(0, "free")] and worker.now == 2.0


class ManyKindsNode(gs.NodeProgram):
    """A node with arrays, messages of fixed and zero delay, deferred ones, and local ones."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.send(1, "array", values=[1, 2])
        view.send(view.node, "array", values=[3])
        view.send(1, "soon", x=1)
        view.send(view.node, "soon", x=2)
        view.later(1.0, "own", x=5)
        view.enqueue(application.number, tasks)

    def on_array(self, view: Any, message: Any) -> None:
        view.send(2, "array", values=message.values * 2)

    def on_soon(self, view: Any, message: Any) -> None:
        view.send(3, "soon", x=10 * message.x)

    def on_own(self, view: Any, message: Any) -> None:
        view.send(3, "soon", x=message.x)

    def on_late(self, view: Any, message: Any) -> None:
        view.send(2, "soon", x=1)


class ManyKindsScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = ManyKindsNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "array": gs.Message(lambda values: 8 * len(values), values=gs.array(int, ndim=1)),
        "soon": gs.Message(10, delay=0.0, x=int),
        "own": gs.Message(None, x=int),
        "late": gs.Message(10, deferred=True),
    }


@pytest.mark.parametrize("form", FORMS)
def test_messages_of_all_kinds_are_recorded(form: str) -> None:
    bench = _bench(form, ManyKindsScheduler())
    bench.release(0)
    assert bench.sent == [
        Sent(1, "soon", x=1), Sent(0, "soon", x=2), Sent(3, "soon", x=20),
        Sent(1, "array", values=np.array([1, 2])), Sent(0, "array", values=np.array([3])),
        Sent(2, "array", values=np.array([6])),
    ]  # fmt: skip
    assert bench.queued == ((0, 100),)
    bench.sent.clear()
    bench.advance(1.0)
    bench.deliver("soon", 4, x=7)
    bench.deliver("array", 4, values=np.array([4, 5]))
    assert bench.sent == [Sent(3, "soon", x=5), Sent(3, "soon", x=70), Sent(2, "array", values=[8, 10])]
    with pytest.raises(gs.SchedulerError, match="handlers of deferred messages may only"):
        bench.deliver("late", 4)
    bench.deliver("soon", 4, x=8)  # the failed delivery has left nothing behind
    assert bench.sent[-1] == Sent(3, "soon", x=80)


class WatchingNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.ticks = 0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.publish(float(tasks))
        if view.board[2] < view.board[1]:
            view.enqueue(application.number, tasks)

    def on_timer(self, view: Any, name: str) -> None:
        self.ticks += 1


class WatchingScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    policy = WatchingNode
    ticks: ClassVar[dict[str, float]] = {"beat": 2.0}


def test_boards_and_ticks_work_on_the_bench() -> None:
    bench = Bench(WatchingScheduler(), node=1)
    bench.publish(2, 5.0)
    bench.publish(1, 6.0)
    bench.advance(100.0)
    assert bench.program.ticks == 50
    bench.release(0, tasks=4)
    bench.release(1, tasks=9)
    assert bench.queued == ((1, 9),) and bench.held == {0: 4}


@pytest.mark.parametrize("form", FORMS)
def test_wrong_uses_of_the_bench_are_errors(form: str) -> None:
    bench = _bench(form)
    with pytest.raises(gs.ScenarioError, match="t = 0.0 s: end_task requires a running task at node 0"):
        bench.end_task()
    with pytest.raises(gs.SchedulerError, match="node 1 sends 'tasks', which is not .*did you mean task"):
        bench.deliver("tasks", 1)
    with pytest.raises(gs.SchedulerError, match="node 1 sends 'ask' without share"):
        bench.deliver("ask", 1)
    with pytest.raises(gs.ScenarioError, match="sender must be another node in 0..4, got 0"):
        bench.deliver("ask", 0, share=1.0)
    with pytest.raises(gs.ScenarioError, match="application must be a whole number in 0..9, got 10"):
        bench.release(10)
    with pytest.raises(gs.ScenarioError, match="application must be a whole number in 0..9, got 10"):
        bench.deliver("task", 1, application=10, tasks=1)
    with pytest.raises(gs.ScenarioError, match="^tasks must be a whole number in 0..2147483647, got -1"):
        bench.deliver("task", sender=1, application=0, tasks=-1)
    with pytest.raises(gs.ScenarioError, match="node must be a whole number in 0..4, got 5"):
        _bench(form, node=5)
    with pytest.raises(gs.ScenarioError, match="role must be one of master, worker, got 'boss'"):
        _bench(form, MasterScheduler(), role="boss")
    with pytest.raises(gs.ScenarioError, match="must run node programs"):
        Bench(gs.Fcfs(), form="compiled")


@pytest.mark.parametrize("form", FORMS)
def test_errors_of_programs_name_the_line(form: str) -> None:
    bench = _bench(form)
    with pytest.raises(gs.SchedulerError, match=f"got 0\nHalfNode.on_task, {__file__}:.* in deal"):
        bench.deliver("task", 1, application=0, tasks=0)


def test_the_bench_does_not_require_hypothesis() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; from gridsim.testing import Bench; print(Bench)"
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "Bench" in process.stdout


class FailingNode(gs.NodeProgram):
    """A node whose timer, tick, and message to itself each fail once."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.calls = gs.Fifo(number=int)

    def fail(self, number: int) -> None:
        self.calls.push(number)
        if len(self.calls) < 4:
            raise ValueError("once")

    def on_start(self, view: Any) -> None:
        view.timer(1.0, "retry")

    def on_retry(self, view: Any) -> None:
        view.send(view.node, "own")
        view.timer(1.0, "retry")
        self.fail(1)

    def on_own(self, view: Any, message: Any) -> None:
        self.fail(2)

    def on_beat(self, view: Any) -> None:
        self.fail(3)


class FailingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = FailingNode
    messages: ClassVar[dict[str, gs.Message]] = {"own": gs.Message(40)}
    ticks: ClassVar[dict[str, float]] = {"beat": 1.25}


@pytest.mark.parametrize("form", FORMS)
def test_a_bench_continues_after_an_error_of_a_handler(form: Any) -> None:
    bench = Bench(FailingScheduler(), form=form)
    for now in (1.0, 1.0, 1.25):
        with pytest.raises(ValueError, match="once"):
            bench.advance(2.0)
        assert bench.now == now and bench.view.now == now
    bench.advance(1.75)
    assert bench.now == 3.0 and [*bench.program.calls] == [1, 2, 3, 1, 2, 3, 1, 2]
