"""Nodes that act for ever at one instant meet the limit of events."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import gridsim as gs


class Node(gs.LocalPolicy):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self._again(view)

    def _again(self, view: Any, message: Any = None) -> None:
        how, sender = self.parameters.how, view.node if message is None else message.sender
        if how in ("timer", "timer and message"):
            view.timer(0.0, "soon")
        if how in ("message to itself", "timer and message"):
            view.send(view.node, "note")
        elif how == "at once":
            view.send(sender if message else 1 - view.node, "now")
        elif how == "later":
            view.later(0.0, "own")
        elif how == "act":
            view.act()

    def on_timer(self, view: Any, name: str) -> None:
        self._again(view)

    def on_act(self, view: Any) -> None:
        self._again(view)

    def on_note(self, view: Any, message: Any) -> None:
        if self.parameters.how == "message to itself":
            self._again(view)

    def on_own(self, view: Any, message: Any) -> None:
        self._again(view)

    def on_now(self, view: Any, message: Any) -> None:
        self._again(view, message)


class Endless(gs.LocalScheduler, frozen=True, kw_only=True):
    policy = Node
    timers = ("soon",)
    messages: ClassVar[dict[str, gs.Message]] = {
        "note": gs.Message(10), "now": gs.Message(10, delay=0.0), "own": gs.Message(None),
    }  # fmt: skip
    how: str = "timer"


@pytest.mark.parametrize(
    "how", ["timer", "message to itself", "timer and message", "at once", "later", "act"]
)
def test_it_meets_the_limit_of_events(how: str) -> None:
    scenario = gs.Scenario(
        gs.Platform.equal(nodes=2), gs.Workload.of(release=[0.0], tasks=[1], task_size=[1e9]), seed=1
    )
    said = "a delay of 0 for ever: 'now'" if how == "at once" else "has not ended after .* events"
    with pytest.raises(gs.SchedulerError, match=f"^t = 0.0 s: .*{said}"):
        gs.simulate(scenario, Endless(how=how, degree=1), events_limit=10_000)


class Keeper(gs.LocalPolicy):
    def on_timer(self, view: Any, name: str) -> None:
        view.send(view.neighbours[0], "news")

    def on_news(self, view: Any, message: Any) -> None:
        pass

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        pass


class Keeping(gs.LocalScheduler, frozen=True, kw_only=True):
    policy = Keeper
    ticks: ClassVar[dict[str, float]] = {"beat": 5.0}
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10)}


@pytest.mark.parametrize("faults", [None, gs.Faults.exponential(6000.0, 500.0, seed=1)])
def test_tasks_that_nodes_never_place_end_a_run(monkeypatch: pytest.MonkeyPatch, faults: Any) -> None:
    monkeypatch.setattr("gridsim.scheduling.local.adapter.PATIENCE", 1_000)
    scenario = gs.Scenario(
        gs.Platform.equal(nodes=2), gs.Workload.of([0.0, 9.0], [1, 3], [1e3, 1e3], [1, 1]), faults=faults
    )
    with pytest.raises(gs.SchedulerError, match="node 1 holds 1 tasks of application 0, not placed; 1 more"):
        gs.simulate(scenario, Keeping(degree=1))


def test_the_limit_of_events_names_tasks_that_nodes_hold() -> None:
    scenario = gs.Scenario(gs.Platform.equal(nodes=2), gs.Workload.of([0.0], 3, 1e3, [1]))
    with pytest.raises(gs.SchedulerError, match="'news', [0-9]+; node 1 holds 3 tasks of application 0, not"):
        gs.simulate(scenario, Keeping(degree=1), events_limit=500)


class Chatting(Keeping, frozen=True, kw_only=True):
    to_the_end = True
    ticks: ClassVar[dict[str, float]] = {}
    policy = type("Chatter", (Keeper,), {
        "on_release": lambda self, view, application, tasks: (
            view.enqueue(application.number, tasks), view.send(view.neighbours[0], "news", left=100_000)
        ),
        "on_news": lambda self, view, message: message.left and view.send(
            message.sender, "news", left=message.left - 1
        ),
    })  # fmt: skip
    messages: ClassVar[dict[str, gs.Message]] = {"news": gs.Message(10, left=int)}


def test_what_goes_on_after_the_last_task_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE", "PATIENCE_A_NODE"):
        monkeypatch.setattr(f"gridsim.scheduling.local.adapter.{name}", 1)
    grid = gs.Platform.equal(nodes=6)
    result = gs.simulate(gs.Scenario(grid, gs.Workload.of([0.0], [1], [1e3])), Chatting(degree=1))
    assert result.messages["sent"].sum() == 100_001
