"""Calls in `try` statements of compiled nodes: arguments by name, and errors that are caught."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs

pytest.importorskip("numba", reason="needs the extra jit")

KIND = "share"


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDSIM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


class Base(gs.NodeProgram):
    def weigh(self, small: float, large: float) -> float:
        return large - 2.0 * small


class TryNode(Base):
    """A node whose calls are in `try` statements; about half of them raise errors."""

    flood_kind = "news"

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.errors = self.heard = self.late = 0
        self.total = 0.0
        self.queue = gs.Fifo(value=int)

    def weigh(self, small: float, large: float) -> float:
        return large - small

    def __add(self, first: float, second: float = 0.0) -> None:
        self.total += first - second

    def on_start(self, view: Any) -> None:
        try:
            view.timer(name="tick", seconds=1.0, step=1, pace=0.5)
        except Exception:
            self.errors += 1

    def on_tick(self, view: Any, step: int, pace: float) -> None:
        try:
            self.total += self.weigh(large=view.now, small=pace)
            self.total += super().weigh(large=view.now, small=pace)
            self.__add(second=1.0, first=view.now)
            values = np.full(3, dtype=np.float64, fill_value=pace)
            weights = [self.weigh(large=float(k), small=values[k]) for k in range(3)]
            for weight in weights:
                self.total += weight
            view.note("log", total=self.total, errors=self.errors, heard=self.heard, late=self.late)
            view.send(view.neighbours[0], self.flood_kind, level=step, value=pace)
            view.timer(
                1.0 - pace * step, "tick", pace=pace, step=step + 1
            )  # the third delay is -0.5 s, an error
        except Exception:
            try:
                self.errors += step
                view.later(kind="note", seconds=2.0, level=self.errors)
                view.later(kind="note", seconds=-2.0, level=self.errors)
            except Exception:
                self.errors += 100
                self.__add(second=0.25, first=self.total)

    def on_note(self, view: Any, message: Any) -> None:
        self.late += message.level
        view.note("log", total=self.total, errors=self.errors, heard=self.heard, late=self.late)

    def on_news(self, view: Any, message: Any) -> None:
        self.heard += message.level
        try:
            self.queue.pop()
            self.heard += 1000
        except Exception:
            self.errors += 1
        view.note("log", total=self.total, errors=self.errors, heard=self.heard, late=self.late)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        for place in (view.machines, view.neighbours[0]):
            try:
                view.send(place, KIND, tasks=tasks, application=application.number)
                break
            except Exception:
                view.decide(application=application.number, action="failed", tasks=tasks, node=view.node)

    def on_share(self, view: Any, message: Any) -> None:
        try:
            view.enqueue(tasks=message.tasks + 1, application=message.application)
        except Exception:
            try:
                view.enqueue(tasks=message.tasks, application=message.application)
            finally:
                view.decide("queued", message.application, tasks=message.tasks, saw=self.total)


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "careful"
    policy: ClassVar[type[gs.NodeProgram]] = TryNode
    messages: ClassVar[dict[str, gs.Message]] = {
        "news": gs.Message(50, value=float, level=int),
        "note": gs.Message(None, level=int),
        "share": gs.Message(170, moves_tasks=True, application=int, tasks=int),
    }
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "log": {"errors": int, "total": float, "heard": int, "late": int}
    }
    decision_words: ClassVar[Any] = {"failed": ("failed", "", ""), "queued": ("queued {tasks} tasks", "", "")}


SCENARIO = gs.Scenario(
    gs.Platform.desktop_grid(nodes=6, seed=1),
    gs.Workload.bags(applications=5, interarrival=3.0, tasks=4, task_size=9000.0, seed=1),
    seed=1,
)


def test_calls_in_try_statements_do_the_same_in_all_forms() -> None:
    python, interpreted, compiled = (
        gs.simulate(SCENARIO, Scheduler(), nodes=form, record="decisions")
        for form in ("python", "interpreted", "compiled")
    )
    assert python.digest == interpreted.digest == compiled.digest
    assert python.tables == interpreted.tables == compiled.tables
    log = compiled.tables["log"]
    assert log["errors"].max() > 100 and log["heard"].max() > 3 and log["late"].max() > 0
    assert {*compiled.tables["decisions"]["action"]} == {"failed", "queued"}


def _wrong_field(self: Any, view: Any) -> None:
    try:
        view.send(0, "news", level=1, amount=2.0)
    except Exception:
        self.errors += 1


def _variable_kind(self: Any, view: Any) -> None:
    kind = "news" if self.errors else "share"
    try:
        view.send(0, kind, level=1, value=2.0)
    except Exception:
        self.errors += 1


@pytest.mark.parametrize(
    ("method", "line", "text"),
    [
        (_wrong_field, 2, "view.send of 'news' has no argument 'amount'; known: to, kind, value, level"),
        (_variable_kind, 3, "the kind of a message must be a string literal"),
    ],
)
def test_errors_of_compilation_name_the_line_of_the_call(method: Any, line: int, text: str) -> None:
    class NodeWithoutSource(TryNode):
        on_start = method

    class SchedulerWithoutSource(Scheduler, frozen=True, kw_only=True):
        policy = NodeWithoutSource

    line += inspect.getsourcelines(method)[1]
    with pytest.raises(
        gs.CompileError, match=rf"test_compiled_try.py:{line}: NodeWithoutSource.on_start: {text}"
    ):
        gs.simulate(SCENARIO, SchedulerWithoutSource(), nodes="compiled")


def test_try_statements_without_their_source_are_reported() -> None:
    """The keywords of calls in them would be lost."""
    items: dict[str, Any] = {}
    source = "def on_start(self, view):\n try: view.act(seconds=1.0)\n except Exception: self.errors += 1"
    exec(source, items)

    class NodeWithoutSource(TryNode):
        on_start = items["on_start"]

    class SchedulerWithoutSource(Scheduler, frozen=True, kw_only=True):
        policy = NodeWithoutSource

    with pytest.raises(gs.CompileError, match="try can be compiled only if the method is in a file"):
        gs.simulate(SCENARIO, SchedulerWithoutSource(), nodes="compiled")


class CatchingNode(gs.NodeProgram):
    """A node whose loops in `try` statements raise errors."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.peers = gs.IntSet()
        self.waiting = gs.IntMap(tasks=int, work=float)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        for k in range(4):
            self.peers.add(k)
            self.waiting[k] = k, 0.5
        steps, last = self.steps_of_loops()
        view.note("steps", name=1, steps=steps, last=last)
        view.note("steps", name=2, steps=self.steps_of_lists(tasks), last=-1)

    def steps_of_loops(self) -> tuple[int, int]:
        steps = last = 0
        for peer in self.peers:  # changes in no iteration of this loop
            try:
                for key in self.waiting:
                    steps, last = steps + 1, key
                    self.waiting[10 * steps] = peer, 1.0
                steps += 1000
            except Exception:
                steps += 100
        try:
            for peer in self.peers:
                try:
                    self.peers.discard(peer)
                    steps += 1
                except Exception:
                    steps += 1_000_000
        except Exception:
            steps += 10_000
        return steps, last

    def steps_of_lists(self, tasks: int) -> int:
        steps = 0
        try:
            steps += len([self.remember(peer, tasks) for peer in self.peers])
        except Exception:
            steps += 100
        try:
            steps += len({tasks: tasks // (2 - tasks) for tasks in range(tasks)})
        except Exception:
            steps += tasks
        return steps

    def remember(self, peer: int, tasks: int) -> int:
        self.peers.add(peer + tasks)
        return peer


class CatchingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = CatchingNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"steps": {"name": int, "steps": int, "last": int}}


def test_errors_of_iterations_are_caught_in_all_forms() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2, 1000.0), gs.Workload.of([0.0], 7, 1e3, [0]))
    for form in ("python", "interpreted", "compiled"):
        steps = gs.simulate(scenario, CatchingScheduler(), nodes=form).tables["steps"]
        assert steps["steps"].tolist() == [4 + 400 + 1 + 10_000, 107], form
        assert steps["last"].tolist() == [0, -1], form
