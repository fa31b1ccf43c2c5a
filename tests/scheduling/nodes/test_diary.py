"""Diaries of nodes: what their handlers got, sent, set, queued and changed."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs


class DiaryNode(gs.NodeProgram):
    """A node that does everything that a diary shows."""

    total = 0

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.load = np.zeros(3)
        self.rows = gs.Fifo(tasks=int)
        self.known: dict[int, list[int]] = {}
        self.level = 0.0

    def on_start(self, view: Any) -> None:
        if view.node == 0:
            view.timer(1.0, "beat", 2.5)
            view.timer(4.0, "beat", 3.0)
            view.act(0.5)

    def on_act(self, view: Any) -> None:
        view.later(0.25, "search", best=0.5)

    def on_search(self, view: Any, message: Any) -> None:
        view.publish(message.best)

    def on_timer(self, view: Any, name: str, value: float) -> None:
        view.cancel("beat")
        view.send(1, "values", numbers=[1.0, value])
        view.send(1, "bare")
        view.send(0, "bare")
        view.send(1, "quick")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        view.take(application.number, 1)
        view.send(1, "share", application=application.number, tasks=1)
        view.note("seen", at=view.now)
        view.decide("placed", application.number, tasks=tasks, saw=0.25)
        self.load[1], self.level = 0.5, 2
        self.rows.push(tasks)
        self.known.setdefault(application.number, []).append(tasks)
        self.extra = "new"

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_message(self, view: Any, message: Any) -> None:
        self.total += 1

    def on_done(self, view: Any, application: Any) -> None:
        pass


class DiaryScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    name = "keeps"
    policy = DiaryNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "bare": gs.Message(10),
        "values": gs.Message(10, numbers=gs.array(float)),
        "quick": gs.Message(10, delay=0.125, counted=False),
        "search": gs.Message(None, best=float),
        "share": gs.Message(100, moves_tasks=True, application=int, tasks=int),
    }
    timers = ("beat",)
    watch = "completion"
    tables: ClassVar[dict[str, dict[str, type]]] = {"seen": {"at": float}}
    decision_words: ClassVar[Any] = {"placed": ("placed {tasks} tasks", "load", "")}
    degree: int = 1


def recorded_run(scheduler: Any = None, faults: gs.Faults | None = None, **options: Any) -> gs.Result:
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * 3),
        gs.Workload.of([2.0], [2], 1000.0, [0], origin=0.0),
        gs.Network(latency=0.5, bandwidth=float("inf"), interfaces="equal"),
        faults=faults,
    )
    return gs.simulate(scenario, scheduler or DiaryScheduler(), **{"record": "events", **options})


def test_a_diary_shows_what_the_handlers_of_a_node_did() -> None:
    assert recorded_run().diary(0).format().splitlines() == [
        "node 0: 7 handler calls",
        "t = 0.000000 s: on_start",
        "    sets the timer beat (value=2.5) for 1.000000 s",
        "    sets the timer beat (value=3) for 4.000000 s",
        "    calls act for 0.500000 s",
        "t = 0.500000 s: on_act",
        "    sends search to itself (best=0.5), which arrives at 0.750000 s",
        "t = 0.750000 s: on_search: search from node 0 (best=0.5)",
        "    publishes value=0.5",
        "t = 1.000000 s: on_timer: beat (value=2.5)",
        "    sends bare to node 1, which arrives at 1.500000 s",
        "    sends bare to node 0, which arrives at 1.000000 s",
        "    sends values to node 1 (numbers=[1.0, 2.5]), which arrives at 1.500000 s",
        "    sends quick to node 1, which arrives at 1.125000 s",
        "    cancels the timer beat (value=3) for 4.000000 s",
        "t = 1.000000 s: on_message: bare from node 0",
        "    total: 0 -> 1",
        "t = 2.000000 s: on_release (application=0, tasks=2)",
        "    sends share to node 1 (application=0, tasks=1), which arrives at 2.500000 s",
        "    enqueues application=0, tasks=2",
        "    withdraws application=0, tasks=1 from its queue",
        "    adds a row to seen: at=2",
        "    decides placed: application=0, tasks=2, saw=0.25",
        "    extra: nothing -> 'new'",
        "    known: {} -> {0: [2]}",
        "    level: 0 -> 2",
        "    load: [1] 0 -> 0.5",
        "    rows: Fifo(tasks=int)[] -> Fifo(tasks=int)[2]",
        "t = 3.000000 s: on_done (application=0)",
    ]


def test_a_message_that_is_lost_does_not_arrive() -> None:
    """Of three equal messages the second one is lost."""

    class BeatNode(DiaryNode):
        def on_start(self, view: Any) -> None:
            if view.node == 0:
                view.timer(1.0, "beat")

        def on_timer(self, view: Any, name: str) -> None:
            view.send(1, "bare")
            view.timer(1.0, "beat")

    class BeatScheduler(DiaryScheduler, frozen=True, kw_only=True):
        policy = BeatNode

    result = recorded_run(BeatScheduler(), faults=gs.Faults.of([1], [2.25], [2.75]))
    diary = result.tables["diary"]
    is_sent = (diary["entry"] == "send") & (diary["name"] == "bare")
    assert diary["due"][is_sent][:2].tolist() == [1.5, pytest.approx(np.nan, nan_ok=True)]
    assert "t = 2.000000 s: on_timer: beat\n    sends bare to node 1, which does not arrive" in str(
        result.diary(0)
    )
    lines = result.diary(1).format().splitlines()
    assert lines[lines.index("t = 2.250000 s: the machine fails, and the node loses its memory") + 1] == (
        "t = 2.750000 s: on_start"
    )


def test_a_diary_is_of_recorded_nodes_and_a_part_of_the_run() -> None:
    result = recorded_run(record_nodes=[1, 0])
    assert set(result.tables["diary"]["node"].tolist()) == {0, 1}
    part = result.diary(0, start=0.5, end=0.75)
    assert part.format().startswith("node 0 from 0.5 s to 0.75 s: 2 handler calls\n")
    assert part.to_dict()["rows"][0]["due"] is None and len(part.to_pandas()) == len(part.rows)
    assert (
        "<table" in part._repr_html_()
        and repr(part) == "<Diary of node 0 from 0.5 s to 0.75 s: 2 handler calls>"
    )
    with pytest.raises(gs.ScenarioError, match="^node must be one of the recorded nodes, 0, 1, got 2$"):
        result.diary(2)
    with pytest.raises(gs.GridSimError, match='^diary requires a run with record="events"'):
        recorded_run(record=False).diary(0)
    with pytest.raises(gs.ScenarioError, match='^record_nodes requires record="events", got record=False$'):
        recorded_run(record=False, record_nodes=[0])
    with pytest.raises(
        gs.ScenarioError, match=r"^record_nodes must be in 0\.\.2, the nodes of this run, got 3$"
    ):
        recorded_run(record_nodes=[3])


def test_rows_beyond_the_limit_are_counted() -> None:
    full = recorded_run()
    cut = recorded_run(diary_limit=7)
    assert len(cut.tables["diary"]) == 7 and cut.left_out["diary"] > 0
    for name, column in cut.tables["diary"].items():
        if name != "due":  # the log of messages is cut as well
            assert column.tolist() == full.tables["diary"][name][:7].tolist()
    assert cut.diary(0).format().endswith("were not kept: the limit was reached")


def test_a_diary_with_the_message_log_shows_the_same_arrivals() -> None:
    both = recorded_run(record=["events", "messages"], record_nodes=[0])
    assert both.tables["diary"] == recorded_run(record_nodes=[0]).tables["diary"]
    assert both.tables["message_log"] == recorded_run(record="messages").tables["message_log"]


def test_long_arrays_show_what_changed() -> None:
    class LongArrayNode(DiaryNode):
        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            self.many = [np.zeros(2000)]
            view.enqueue(application.number, tasks)

        def on_done(self, view: Any, application: Any) -> None:
            self.many[0][1000] += 1.0  # NumPy leaves this element out of a repr
            self.load[:] = view.now

    class Scheduler(DiaryScheduler, frozen=True, kw_only=True):
        policy = LongArrayNode

    diary = recorded_run(Scheduler()).tables["diary"]
    changes = diary["name"][(diary["entry"] == "attribute") & (diary["handler"] == "on_done")].tolist()
    assert changes == 2 * ["load", "many"]
