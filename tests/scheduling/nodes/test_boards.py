"""Boards of several numbers give equal digests in all forms, with failures and resumed."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing.resuming import resume_difference
from tests._helpers.forms import FORMS, RUNNABLE_FORMS, needs_numba
from tests.scheduling.nodes.test_all_forms import scenarios


class EveryOperationNode(gs.NodeProgram):
    """A node that uses every operation of the board, and notes what it sees."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.sum = 0.0

    def on_start(self, view: Any) -> None:
        view.publish(work=3.0 + view.node, falling=True)
        view.timer(1.0 + view.node % 3, "look")

    def on_timer(self, view: Any, name: str) -> None:
        draw = view.random.integers(6)
        node = view.random.integers(view.machines)
        if draw == 0:
            view.publish(queue=view.random.integers(4), work=view.random.random(), falling=view.node % 2 == 0)
        elif draw == 1:
            view.publish(work=5.0, queue=7, falling=("queue", "work"))
        elif draw == 2:
            view.board.add(node, -1.5, "queue")
        elif draw == 3:
            view.board.add(node, work=2.5)
        elif draw == 4:
            view.publish(queue=float("inf"))
        else:
            view.publish(work=1, falling=False)
        for place, other in enumerate(view.board.least(view.machines - 1, "work")):
            self.sum += place * other
        minimum = view.board.least(2, name="queue")
        if minimum and view.node not in minimum and view.board.queue[node] < 1e9:
            self.sum += minimum[0] + view.board.queue[node]
        work = 0.0
        for number in view.board.work:
            work += min(number, 1e6)
        view.note("seen", sum=self.sum, work=work, first=minimum[0], number=view.board[node, "work"])
        if view.now < 30.0:
            view.timer(view.random.exponential(2.0), "look")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class EveryOperationScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    """A scheduler for `EveryOperationNode`."""

    name = "every"
    policy = EveryOperationNode
    numbers = ("work", "queue")
    timers = ("look",)
    tables: ClassVar[Any] = {"seen": {"sum": float, "work": float, "first": int, "number": float}}


class JobsNode(gs.NodeProgram):
    """A node that publishes the remaining tasks of jobs, and runs those of the job with the fewest first."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.publish(tasks, application=application.number)
        view.enqueue(application.number, tasks)

    def on_idle(self, view: Any) -> None:
        minimum = view.board.least(2)
        view.note("seen", first=minimum[0], number=view.board[minimum[-1]], jobs=len(view.board.values))


class JobBoardScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
    """A scheduler with a board of applications."""

    name = "jobs"
    policy = JobsNode
    board_of = "applications"
    tables: ClassVar[Any] = {"seen": {"first": int, "number": float, "jobs": int}}


SCHEDULERS = (
    EveryOperationScheduler(batch=3, refresh="decisions"),
    JobBoardScheduler(age=2.0, refresh="individual"),
)
OPTIONS: Any = st.fixed_dictionaries(
    {
        "refresh": st.sampled_from(("continuous", "periodic", "individual", "decisions")),
        "age": st.sampled_from((0.0, 1.0, 7.0)),
        "error": st.sampled_from((0.0, 0.4)),
        "batch": st.integers(1, 5),
    }
)
FAILING = gs.Scenario(
    gs.Platform.of([1.0, 2.0, 1.0, 4.0, 1.0, 2.0, 1.0, 1.0]),
    gs.Workload.of([0.0, 5.0, 10.0, 10.0, 20.0], [9, 5, 30, 2, 12], [3.0, 8.0, 2.0, 10.0, 4.0]),
    gs.Network(latency=0.02),
    faults=gs.Faults.of([2, 5, 1], [6.0, 8.5, 15.0], [25.0, 9.0, 21.0]),
    seed=4,
)


@settings(max_examples=20)
@given(scenarios(), st.sampled_from((EveryOperationScheduler, JobBoardScheduler)), OPTIONS)
def test_all_forms_give_equal_digests(scenario: Any, scheduler: Any, options: Any) -> None:
    digests = {gs.simulate(scenario, scheduler(**options), nodes=form).digest for form in RUNNABLE_FORMS}
    assert len(digests) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.name)
def test_runs_with_failures_continue_from_checkpoints(scheduler: Any, form: Any) -> None:
    result = gs.simulate(FAILING, scheduler, nodes="interpreted")
    assert resume_difference(FAILING, scheduler, result, record=False, nodes=form) is None


#: What a node does wrong -> an error, which begins with the time and the node.
MISTAKES = {
    "view.publish(1.0)": "a board with several numbers requires a name: work, queue",
    "view.publish()": "at least one number must be given by its name: work, queue",
    "view.publish(works=1.0)": "the board has no number 'works'; did you mean work?",
    "view.publish(work=1.0, falling=('queue',))": "falling must be True, False or a tuple of the names of",
    "view.board.least(2)": "a board with several numbers requires a name: work, queue",
    "view.board.least(-1, 'work')": "k must be at least 0, got -1",
    "view.board.add(9, work=1.0)": "node must be in 0..1, got 9",
    "view.board.add(0, work=float('inf'))": "delta must be finite, got inf",
    "view.board(1)": "it is not a function; write view.board[node]",
    "min(view.board)": "it is not a sequence; iterate over view.board.values",
    "np.argmin(view.board)": "it is not an array; write view.board.values",
}


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_uses_of_the_board_are_rejected(mistake: str, form: Any) -> None:
    class Node(EveryOperationNode):
        def on_start(self, view: Any) -> None:
            eval(mistake, {"view": view, "np": np})

    class WrongScheduler(EveryOperationScheduler, frozen=True, kw_only=True):
        policy = Node

    scenario = gs.Scenario(gs.Platform.of([1.0] * 2), gs.Workload.of([0.0], 2, 1.0, [0]), seed=1)
    message = f"t = 0.0 s: node 0 uses the board: {MISTAKES[mistake]}"
    with pytest.raises(gs.SchedulerError, match=re.escape(message)):
        gs.simulate(scenario, WrongScheduler(degree=1), nodes=form)


class WrongNamesNode(EveryOperationNode):
    """A node with a call that cannot be compiled in each method."""

    def on_start(self, view: Any) -> None:
        view.publish(work=1.0, falling=("queue",))

    def on_end(self, view: Any) -> None:
        self.sum += view.board.wrk[0]

    def on_idle(self, view: Any) -> None:
        self.sum += view.board[0]

    def on_timer(self, view: Any, name: str) -> None:
        self.sum += view.board.least(1, "que")[0]

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.board.add(0, 1.0)


@needs_numba
@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("on_start", r"falling of view.publish must be True, False or a tuple of names .* \('work',\)"),
        ("on_end", "there is no view.board.wrk; did you mean work?"),
        ("on_idle", r"view.board\[node\] requires a name; write view.board\[node, 'work'\]"),
        ("on_timer", "the name of view.board.least 'que' is unknown; did you mean queue"),
        ("on_release", "view.board.add requires the name of a number: work, queue"),
    ],
)
def test_wrong_uses_of_the_board_are_not_compiled(method: str, message: str) -> None:
    node = type("Node", (EveryOperationNode,), {method: vars(WrongNamesNode)[method]})
    scheduler = type(
        "WrongScheduler",
        (EveryOperationScheduler,),
        {"policy": node, "watch": "completion"},
        frozen=True,
        kw_only=True,
    )
    with pytest.raises(gs.CompileError, match=f"test_boards.py:[0-9]+: Node.{method}: .*{message}"):
        gs.simulate(FAILING, scheduler(), nodes="compiled")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (("work", "work"), "must be a tuple of different names"),
        ("work", "must be a tuple of different names"),
        (("least",), "must have identifiers that .* are not one of add, .*, got 'least'"),
        (("a b",), "must have identifiers .*, got 'a b'"),
    ],
)
def test_numbers_of_a_board_have_different_names(numbers: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=f"WrongScheduler.numbers {message}"):
        type("WrongScheduler", (EveryOperationScheduler,), {"numbers": numbers}, frozen=True, kw_only=True)()


def test_an_age_beyond_the_clock_is_rejected() -> None:
    with pytest.raises(gs.ScenarioError, match=r"age must be a number in 0..2e\+09 s, got 9300000000.0$"):
        gs.LeastWork(age=9.3e9)
