"""Deliberate mistakes in programs: each error names the time, the node, the line and a remedy."""

from __future__ import annotations

import inspect
import re
import traceback
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import text_of
from tests._helpers.forms import FORMS


class DeafNode(gs.NodeProgram):
    """A node that enqueues its submissions and notifies node 1, which does not handle that."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.count = 0
        self.queue = gs.Fifo(application=int, tasks=int)
        self.load = np.zeros(3)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)
        self.act(view)

    def act(self, view: Any) -> None:
        view.send(1, "note", x=1)


class Correct(DeafNode):
    def on_note(self, view: Any, message: Any) -> None:
        self.count += message.x


class WrongReceiver(Correct):
    def act(self, view: Any) -> None:
        view.send(99, "note", x=1)  # mistake


class UnknownKind(Correct):
    def act(self, view: Any) -> None:
        view.send(1, "nota", x=1)  # mistake


class MissingField(Correct):
    def act(self, view: Any) -> None:
        view.send(1, "note")  # mistake


class UnknownField(Correct):
    def act(self, view: Any) -> None:
        view.send(1, "note", y=1)  # mistake


class WrongType(Correct):
    def act(self, view: Any) -> None:
        view.send(1, "note", x=0.5)  # mistake


class TimerWithoutEnd(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        view.timer(0.0, "again")

    def on_timer(self, view: Any, name: str) -> None:  # mistake
        view.timer(0.0, "again")


class MessageWithoutEnd(Correct):
    def on_note(self, view: Any, message: Any) -> None:  # mistake
        view.send(view.node, "note", x=message.x)


class Storm(Correct):
    def on_note(self, view: Any, message: Any) -> None:  # mistake
        for _ in range(2 if message.x < 14 else 0):
            view.send(message.sender, "note", x=message.x + 1)


class Unhandled(DeafNode):  # mistake
    pass


class UnknownAttribute(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = self.conut + 1  # type: ignore[attr-defined]  # mistake


class UnknownViewAttribute(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = view.wating  # mistake


class UnknownMessageField(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = message.z  # mistake


class ChangedMessage(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        message.x = 9  # mistake


class DeletedField(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        del message.x  # mistake


class NeverPlaced(Correct):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.count = tasks


class PlacedTwice(Correct):
    def act(self, view: Any) -> None:
        view.enqueue(0, 2)  # mistake


class PlacedElsewhere(Correct):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.send(1, "known", application=application.number)

    def on_known(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, 2)  # mistake


class EmptyPop(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count, _ = self.queue.pop()  # mistake


class DivisionByZero(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = self.ratio(message.x)

    def ratio(self, x: int) -> int:
        return x // self.count  # mistake


class UndeclaredTimer(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        view.timer(1.0, "agian")  # mistake

    def on_timer(self, view: Any, name: str) -> None:
        pass


class TimerNamedAsAKind(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        view.timer(1.0, "note")  # mistake


class NegativeTimer(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        view.timer(-1.0, "again")  # mistake

    def on_timer(self, view: Any, name: str) -> None:
        pass


class NoTasks(Correct):
    def act(self, view: Any) -> None:
        view.enqueue(0, 0)  # mistake


class Unreported(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = len(view.completed())  # mistake


class UnreportedDone(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = len(view.completed())  # mistake

    def on_done(self, view: Any, application: Any) -> None:
        pass


class UnknownApplication(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = view.application(0).tasks  # mistake


class IndexTooLarge(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.load[message.x + 2] = 1.0  # mistake


class EmptyRange(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        self.count = view.random.integers(self.count, 0)  # mistake


class UnknownTable(Correct):
    def on_note(self, view: Any, message: Any) -> None:
        view.note("level", load=1.0)  # mistake


class MisspeltHandler(Correct):
    def on_notes(self, view: Any, message: Any) -> None:  # mistake
        pass


class WrongParameters(Correct):
    def on_note(self, view: Any) -> None:  # type: ignore[override]  # mistake
        pass


class Asking(Correct):
    """A node that asks node 1 at its submissions, and asks again later."""

    def act(self, view: Any) -> None:
        view.request(1, "ask", timeout=1.0, job=1)

    def on_ask(self, view: Any, message: Any) -> None:
        view.reply(message, "offer", price=1.0)

    def on_offer(self, view: Any, message: Any) -> None:
        view.timer(1.0, "retry", job=message.request)

    def on_timeout(self, view: Any, request: Any) -> None:
        self.count += request.job

    def on_retry(self, view: Any, job: int) -> None:
        self.count += job


class RequestWithoutAnswer(Asking):
    def act(self, view: Any) -> None:
        view.request(1, "note", timeout=1.0, x=1)  # mistake


class NegativeTimeout(Asking):
    def act(self, view: Any) -> None:
        view.request(1, "ask", timeout=-1.0, job=1)  # mistake


class UnknownFieldOfRequest(Asking):
    def act(self, view: Any) -> None:
        view.request(1, "ask", timeout=1.0, jbo=1)  # mistake


class NumberOfRequest(Asking):
    def act(self, view: Any) -> None:
        view.send(1, "ask", request=3, job=1)  # mistake


class ChangedRequest(Asking):
    def on_ask(self, view: Any, message: Any) -> None:
        pass

    def on_timeout(self, view: Any, request: Any) -> None:
        request.job = 2  # mistake


class WrongAnswer(Asking):
    def on_ask(self, view: Any, message: Any) -> None:
        view.reply(message, "note", x=1)  # mistake


class WrongFieldOfAnswer(Asking):
    def on_ask(self, view: Any, message: Any) -> None:
        view.reply(message, "offer", prise=1.0)  # mistake


class UnhandledTimeout(Correct):
    def act(self, view: Any) -> None:  # mistake
        view.request(1, "ask", timeout=1.0, job=1)


class UnknownTimer(Asking):
    def act(self, view: Any) -> None:
        view.timer(1.0, "retri", job=1)  # mistake


class MissingFieldOfTimer(Asking):
    def act(self, view: Any) -> None:
        view.timer(1.0, "retry")  # mistake


class UnknownFieldOfTimer(Asking):
    def act(self, view: Any) -> None:
        view.timer(1.0, "retry", jbo=1)  # mistake


class WrongTypeOfTimer(Asking):
    def act(self, view: Any) -> None:
        view.timer(1.0, "retry", job=0.5)  # mistake


class WrongCancelledField(Asking):
    def act(self, view: Any) -> None:
        view.cancel("retry", jbo=1)  # mistake


class UnannotatedField(Asking):
    def on_retry(self, view: Any, job) -> None:  # type: ignore[no-untyped-def]  # mistake
        pass


class Mistake(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "mistake"
    policy = Correct
    timers = ("again",)
    tables: ClassVar[dict[str, dict[str, type]]] = {"levels": {"load": float}}
    messages: ClassVar[dict[str, gs.Message]] = {
        "note": gs.Message(10, x=int), "known": gs.Message(10, application=int),
        "ask": gs.Message(10, answer="offer", job=int), "offer": gs.Message(10, price=float),
    }  # fmt: skip


def _scheduler(program: type[gs.NodeProgram]) -> gs.NodeScheduler:
    cls: Any = type("Mistake", (Mistake,), {"policy": program}, frozen=True, kw_only=True)
    return cls(degree=1)  # type: ignore[no-any-return]


def _run(program: type[gs.NodeProgram], form: Any) -> gs.Result:
    workload = gs.Workload.of([0.0], 2, 1e6)
    return gs.simulate(gs.Scenario(gs.Platform.equal(3), workload), _scheduler(program), nodes=form)


def _line(program: type) -> str:
    """Return the file and line of the mistake, as errors name it."""
    lines, first = inspect.getsourcelines(program)
    return f"{__file__}:{first + next(k for k, line in enumerate(lines) if '# mistake' in line)}"


#: Program -> pattern of its error, and the node in it; None if the error is raised before the run.
class UnsetVariable(Correct):
    def act(self, view: Any) -> None:
        if self.count > 0:
            rows = [1.0]
        rows.append(2.0)  # mistake


class TooLargeForAContainer(Correct):
    def act(self, view: Any) -> None:
        self.queue.push(2**63, 1)  # mistake


MISTAKES: dict[type[gs.NodeProgram], tuple[str, int | None]] = {
    WrongReceiver: ("its receiver must be in 0..2, got 99", 0),
    UnknownKind: ("'nota'.*did you mean note", 0),
    MissingField: ("without x; its fields are x|requires x", 0),
    UnknownField: ("no (field|argument) 'y'.*x", 0),
    WrongType: ("'?x'?.* must be a whole number", 0),
    UnsetVariable: ("'?rows'? .*(may be unset|not associated with a value|referenced before)", 0),
    TooLargeForAContainer: (r"must be (below 2\*\*63|a whole number of 64 bits), got", 0),
    TimerWithoutEnd: ("most of .* timers 'again', .*; set it with a time > 0", 1),
    MessageWithoutEnd: ("most of .* messages 'note', .*; send it only in answer to new information", 1),
    Unhandled: ("does not define on_note or on_message", 1),
    UnknownAttribute: ("conut.*did you mean count", 1),
    UnknownViewAttribute: ("wating.*did you mean waiting", 1),
    UnknownMessageField: ("z.* known: kind, sender, x", 1),
    ChangedMessage: ("message.x is read-only", 1),
    DeletedField: ("message.x is read-only|del of a name or an attribute cannot be compiled", 1),
    ChangedRequest: ("request.job is read-only", None),
    PlacedTwice: ("places 2 tasks of application 0, but has 0 to place; no other node has any: each task", 0),
    PlacedElsewhere: ("but has 0 to place; node 0 has 2 of its tasks to place", 1),
    EmptyPop: ("empty", 1),
    DivisionByZero: ("division.* by zero", 1),
    UndeclaredTimer: ("'agian'.*did you mean again", 1),
    TimerNamedAsAKind: ("'note'.*(is a kind of message; rename the timer|is unknown)", 1),
    NegativeTimer: ("must be finite and >= 0 s, got -1.0", 1),
    NoTasks: ("tasks must be in 1..2147483647, got 0", 0),
    Unreported: ("calls view.completed, which requires reports = True in the class of the scheduler", 1),
    UnreportedDone: ("calls view.completed, which requires .*, and nodes without on_done", 1),
    UnknownApplication: ("does not know application 0; it knows those released here, and", 1),
    IndexTooLarge: ("index .*out of bounds", 1),
    EmptyRange: ("must be|low", 1),
    UnknownTable: ("'level'.*did you mean levels", 1),
    RequestWithoutAnswer: ("'note'.*has no answer: declare it", 0),
    NegativeTimeout: ("timeout must be finite and >= 0 s, got -1.0", 0),
    UnknownFieldOfRequest: ("no (field|argument) 'jbo'.*job", 0),
    NumberOfRequest: ("view.request numbers it|no argument 'request'", 0),
    WrongAnswer: ("'note'(, which is not its answer| is unknown); known: offer", 1),
    WrongFieldOfAnswer: ("no (field|argument) 'prise'.*price", 1),
    UnhandledTimeout: ("calls view.request, .*on_timeout", None),
    UnknownTimer: ("'retri'.*did you mean retry", 0),
    MissingFieldOfTimer: ("'retry' (without|requires) job", 0),
    UnknownFieldOfTimer: ("no (field|argument) 'jbo'.*job", 0),
    WrongTypeOfTimer: ("job of the timer 'retry' must be a whole number", 0),
    WrongCancelledField: ("no (field|argument) 'jbo'.*job", 0),
    UnannotatedField: ("must annotate 'job' with int or float, such as job: int", None),
    MisspeltHandler: ("never called.*did you mean on_note", None),
    WrongParameters: (r"must take \(self, view, message\)", None),
}


#: Programs that run until a limit of events, which takes long in Python.
ENDLESS = (TimerWithoutEnd, MessageWithoutEnd)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", MISTAKES)
def test_an_error_names_time_node_line_and_remedy(program: type[gs.NodeProgram], form: str) -> None:
    if form == "python" and program in ENDLESS:
        pytest.skip("takes long")
    text, node = MISTAKES[program]
    with pytest.raises(Exception) as excinfo:
        _run(program, form)
    message = text_of(excinfo.value)
    assert re.search(text, message), message
    assert _line(program) in message
    if node is not None and not isinstance(excinfo.value, gs.CompileError):
        time = "0.0" if node == 0 else "0.05008"
        assert f"t = {time} s" in message and f"node {node}" in message


@pytest.mark.parametrize(
    ("program", "methods"),
    [(WrongReceiver, ["on_release", "act"]), (DivisionByZero, ["on_note", "ratio"])],
)
def test_a_traceback_goes_from_the_run_to_the_handler(
    program: type[gs.NodeProgram], methods: list[str]
) -> None:
    with pytest.raises((gs.SchedulerError, ZeroDivisionError)) as excinfo:
        _run(program, "interpreted")
    frames = [frame.name for frame in traceback.extract_tb(excinfo.value.__traceback__)]
    assert frames[-4:] == ["run", "_run", *methods]


@pytest.mark.parametrize("form", FORMS)
def test_tasks_that_are_never_placed_are_reported(form: str) -> None:
    message = "^t = 0.0 s: mistake ended with 2 of 2 tasks unfinished: node 0 holds 2 tasks of application 0"
    with pytest.raises(gs.SchedulerError, match=message):
        _run(NeverPlaced, form)


@pytest.mark.parametrize("form", FORMS[1:])
def test_a_storm_of_messages_gives_a_warning(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.MANY_MESSAGES", 10_000)
    node = f"now at node [01], Storm.on_note, {re.escape(_line(Storm))}"
    with pytest.warns(gs.SchedulerWarning, match=f"^t = .* messages for 2 tasks, .* messages 'note' .{node}"):
        _run(Storm, form)


def test_a_flood_of_advertisements_for_rigid_jobs_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rigid jobs are in no queue of tasks, but their messages are counted as well."""
    monkeypatch.setattr("gridsim.scheduling.nodes.progress_checks.MANY_MESSAGES", 10_000)
    workload = gs.Workload.jobs_of([0.0, 1.0], [9, 17], [20.0, 500.0])
    with pytest.warns(gs.SchedulerWarning, match=r"messages for 26 tasks, most of them messages 'advert'"):
        gs.simulate(gs.Scenario(gs.Platform.equal(17), workload), gs.Zorilla(repeats=True, max_hops=5))


NOTE = {"note": gs.Message(10, x=int)}


class NoParameters(Correct):
    def __init__(self, parameters: Any) -> None:
        self.count = 0

    def act(self, view: Any) -> None:
        self.count = self.parameters.degree


@pytest.mark.parametrize("form", FORMS)
def test_a_program_without_parameters_names_the_missing_call(form: Any) -> None:
    kind = type(
        "Careless",
        (gs.NodeScheduler,),
        {"name": "careless", "policy": NoParameters, "messages": NOTE, "__module__": __name__},
    )
    with pytest.raises((AttributeError, gs.GridSimError), match=r"call super\(\).__init__\(parameters\)"):
        gs.simulate(gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], 2, 500.0)), kind(), nodes=form)


def test_a_kind_must_not_have_the_name_of_an_event() -> None:
    kinds = {"note": gs.Message(10, x=int), "idle": gs.Message(10)}
    kind = type("Confused", (gs.NodeScheduler,), {"name": "confused", "policy": Correct, "messages": kinds})
    with pytest.raises(gs.ScenarioError, match=r"Confused.messages must not have .*, got 'idle'"):
        kind()


def test_a_misspelt_handler_is_not_taken_for_a_field() -> None:
    """The string ``"tasks"`` in a method is not suggested as the intended handler."""

    class Misspelt(Correct):
        def act(self, view: Any) -> None:
            view.send(1, "task", **{"tasks": 1})

        def on_taks(self, view: Any, message: Any) -> None:
            pass

        def on_task(self, view: Any, message: Any) -> None:
            pass

    kinds = {**NOTE, "task": gs.Message(10, tasks=int)}
    kind = type("Wrong", (gs.NodeScheduler,), {"name": "wrong", "policy": Misspelt, "messages": kinds})
    with pytest.raises(gs.ScenarioError, match="did you mean on_task[?]"):
        kind()


class Aged(gs.BoardScheduler, frozen=True, kw_only=True):
    name = "aged"
    policy = Correct
    messages: ClassVar[dict[str, gs.Message]] = {"note": gs.Message(10, x=int)}

    age: float = 1.0
    limit = 5


def test_a_new_default_has_the_limits_of_its_parameter() -> None:
    with pytest.raises(gs.ScenarioError, match=r"aged.age must be .* s, got -1.0"):
        Aged(age=-1.0)


def test_a_class_variable_is_no_parameter() -> None:
    with pytest.raises(gs.ScenarioError, match="annotate it in the class: limit: int = 5"):
        Aged(age=1.0, limit=6)  # type: ignore[call-arg]
