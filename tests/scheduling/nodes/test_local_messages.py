"""Local messages, which a node sends to itself to arrive later."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import gridsim as gs
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import resume_difference


class Node(gs.NodeProgram):
    """A node that asks its neighbours, which answer after a delay."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        for other in view.neighbours:
            view.send(other, "ask", application=application.number)

    def on_ask(self, view: Any, message: Any) -> None:
        takes = 0.5 * (1 + view.node % 2)
        view.later(
            takes, "found", client=message.sender, application=message.application, best=0.25, all=[view.node]
        )

    def on_found(self, view: Any, message: Any) -> None:
        assert message.sender == view.node and message.best == 0.25 and message.all.tolist() == [view.node]
        view.send(message.client, "answer", application=message.application, takes=view.node)

    def on_answer(self, view: Any, message: Any) -> None:
        view.note("answers", at=view.now, nanoseconds=view.now_ns, searcher=message.sender)


class Asking(gs.NodeScheduler, frozen=True, kw_only=True):
    name: ClassVar[str] = "asking"
    policy = Node
    messages: ClassVar[dict[str, gs.Message]] = {
        "ask": gs.Message(100, application=int),
        "found": gs.Message(None, client=int, application=int, best=float, all=gs.array(int)),
        "answer": gs.Message(100, application=int, takes=int),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "answers": {"at": float, "nanoseconds": int, "searcher": int}
    }


def scenario(machines: int = 4, faults: Any = None) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        gs.Workload.of([0.0, 1.0], 3, 1000.0, submitter=[0, 2]),
        gs.Network(latency=0.25, bandwidth=float("inf"), interfaces="equal"),
        faults=faults,
        seed=5,
    )


def test_a_local_message_arrives_after_its_delay() -> None:
    result = gs.simulate(scenario(), Asking(degree=3))
    rows = [(row["at"], row["searcher"]) for row in result.tables["answers"].rows()]
    assert rows == [(1.0, 2), (1.5, 1), (1.5, 3), (2.0, 0), (2.5, 1), (2.5, 3)]
    assert result.tables["answers"]["nanoseconds"][0] == 10**9
    assert result.messages["kind"].tolist() == ["ask", "answer"]  # local messages are not counted


def test_a_failure_drops_local_messages() -> None:
    """Machine 1 fails before its answer on the first application, and recovers before the second one."""
    result = gs.simulate(scenario(faults=gs.Faults.of([1], [0.5], [0.6])), Asking(degree=3))
    rows = [(row["at"], row["searcher"]) for row in result.tables["answers"].rows()]
    assert rows == [(1.0, 2), (1.5, 3), (2.0, 0), (2.5, 1), (2.5, 3)]


def test_a_run_with_local_messages_continues_from_a_checkpoint() -> None:
    what = scenario(faults=gs.Faults.of([1], [0.5], [0.6]))
    result = gs.simulate(what, Asking(degree=3), record=True)
    assert resume_difference(what, Asking(degree=3), result) is None


@pytest.mark.slow
def test_a_scheduler_with_local_messages_conforms(tmp_path: Any) -> None:
    assert check_scheduler(Asking(), examples=10, hash_seeds=False, folder=tmp_path).examples == 10


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda view: view.later(1.0, "ask", application=0), "node 0 sends 'ask'"),
        (
            lambda view: view.send(1, "found", client=1, application=0, best=0.0, all=[]),
            "node 0 sends 'found'",
        ),
        (lambda view: view.later(1.0, "found", client=1), "node 0 sends 'found' with"),
        (
            lambda view: view.later(-1.0, "found", client=1, application=0, best=0.0, all=[]),
            "node 0 sends 'found' to itself: seconds must be finite and >= 0, got -1.0",
        ),
        (
            lambda view: view.later(1.0, "found", client=1, application=1, best=0.0, all=[]),
            "node 0 does not know application 1",
        ),
        (
            lambda view: view.later(1.0, "found", client="me", application=0, best=0.0, all=[]),
            "node 0: client must be a whole number of 64 bits, got 'me'",
        ),
    ],
)
def test_wrong_local_messages_are_rejected(wrong: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def release(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        if application.number == 0:
            wrong(view)

    monkeypatch.setattr(Node, "on_release", release)
    with pytest.raises(gs.SchedulerError, match=said):
        gs.simulate(scenario(), Asking())


def test_a_local_message_moves_no_tasks() -> None:
    with pytest.raises(gs.ScenarioError, match="does not support moves_tasks=True"):
        gs.Message(None, moves_tasks=True, application=int, tasks=int)
