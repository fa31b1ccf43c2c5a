"""Compiled nodes do what interpreted ones do, and what cannot be compiled is named with its line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import differing_end
from tests.scheduling.local.test_message_core import scenarios

numba = pytest.importorskip("numba", reason="needs the extra jit")

LIMIT = 5


@numba.njit  # type: ignore[untyped-decorator]
def half(number: int) -> int:
    return number // 2


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDSIM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


class Restless(gs.LocalPolicy):
    """A node that draws what it does, and uses everything that a compiled one may."""

    heard: int = 0
    turns = 0
    factor = 1.5  # a constant

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.kept, self.tasks, self.busy, self.mean = -1, 0, False, 0.0
        self.load = np.zeros(parameters.degree)
        self.seen = np.full((2, 3), -1)

    @property
    def holds(self) -> bool:
        return self.tasks > 0

    def _any(self, view: Any) -> int:
        others = view.neighbours
        which = view.random.integers(len(others) + 1)
        return others[which] if which < len(others) else view.node

    def _act(self, view: Any) -> None:
        draw = view.random.integers(9)
        if draw == 0:
            view.timer(view.random.integers(3), "tick", view.random.normal(1.0, 0.5))
        elif draw == 1:
            view.timer(1.0, "tock")
        elif draw == 2:
            view.cancel("tick")
        elif draw < 6:
            load = view.work + self.load.max() * self.factor
            view.send(self._any(view), "note", left=view.random.integers(3), value=load)
        elif draw == 6:
            self.mean += view.random.exponential(2.0) + view.random.uniform(1.0, 2.0) * view.speed

    def _place(self, view: Any, number: int, tasks: int, hops: int) -> None:
        here = tasks if hops >= self.parameters.hops else view.random.integers(0, tasks + 1)
        if here and not self.holds and view.random.random() < 0.3:
            self.kept, self.tasks = number, here
            view.timer(0.0 if hops % 2 else 2.0, "place", float(hops))
            view.decide("kept", number, tasks=here, saw=view.work, limit=self.mean, age=0.0)
        elif here:
            self.busy = True
            view.decide("ran", number, machine=view.node, tasks=here)
            view.enqueue(number, here)
        if here < tasks:
            view.send(self._any(view), "share", hops=hops + 1, application=number, tasks=tasks - here)

    def on_start(self, view: Any) -> None:
        self._act(view)
        view.timer(1.0, "tock")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        known = view.application(application.number)
        share = known.size / known.task_size / known.tasks + application.release - view.now
        view.note("releases", application=known.number, at=view.now, share=share, hosts=view.machines)
        self._act(view)
        self._place(view, application.number, tasks, 0)

    def on_share(self, view: Any, message: Any) -> None:
        self._place(view, message.application, message.tasks, message.hops)

    def on_message(self, view: Any, message: Any) -> None:
        self.heard += 1 + (message.sender in view.neighbours)
        self.seen[half(self.heard) % 2, self.heard % 3] = message.sender
        if message.kind == "note":
            self.load[self.heard % len(self.load)] = message.value / (1.0 + abs(message.value))
            if message.left and self.parameters.rule != "quiet":
                value = message.value + view.waiting + self.seen.max()
                view.send(message.sender, "note", value=value, left=message.left - 1)
            elif self.heard < LIMIT:
                view.send(message.sender, "ping")

    def on_timer(self, view: Any, name: str, value: float) -> None:
        if name == "place":
            number, tasks, self.kept, self.tasks = self.kept, self.tasks, -1, 0
            if tasks:
                self._place(view, number, tasks, int(value) + 1)
        elif name == "tick":
            self.mean = 0.5 * self.mean + value
            self._act(view)
        elif view.random.random() < 0.5:
            self._act(view)

    def on_idle(self, view: Any) -> None:
        self.busy = False
        self.turns += 1
        self._act(view)


class Unbound(Restless):
    """Cannot be compiled."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.names: dict[str, int] = {}


class Scheduler(gs.LocalScheduler, frozen=True, kw_only=True):
    name = "restless"
    policy = Restless
    messages: ClassVar[dict[str, gs.Message]] = {
        "note": gs.Message(100, value=float, left=int),
        "share": gs.Message(1000, moves_tasks=True, hops=int, application=int, tasks=int),
        "ping": gs.Message(50),
    }
    timers = ("tock", "tick", "place")
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "releases": {"application": int, "at": float, "share": float, "hosts": int}
    }
    decision_words: ClassVar[Any] = {
        "kept": ("kept {tasks} tasks", "work", "s"),
        "ran": ("queued {tasks} tasks", "nothing", ""),
    }
    hops: int = 3
    rule: str = "loud"


@settings(max_examples=60)
@given(
    scenario=scenarios(),
    hops=st.integers(0, 4),
    rule=st.sampled_from(["loud", "quiet"]),
    degree=st.just(2),
)
def test_compiled_nodes_do_the_same(scenario: gs.Scenario, hops: int, rule: str, degree: int) -> None:
    scheduler = Scheduler(hops=hops, rule=rule, degree=degree)
    wanted = gs.simulate(scenario, scheduler, record="decisions", events_limit=100_000)
    found = gs.simulate(scenario, scheduler, record="decisions", events_limit=100_000, nodes="compiled")
    assert found.digest == wanted.digest
    assert found.tables == wanted.tables


def test_compiled_nodes_go_on_from_a_checkpoint() -> None:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=20, seed=1),
        gs.Workload.bags(applications=15, interarrival=20.0, tasks_per_node=2, task_size=65536.0, seed=1),
        faults=gs.Faults.poisson(mean=300.0, seed=1),
        seed=1,
    )
    wanted = gs.simulate(scenario, Scheduler())
    assert differing_end(scenario, Scheduler(), wanted, record=False, nodes="compiled") is None


def test_studies_run_the_first_form_of_a_scheduler() -> None:
    class Compiled(Scheduler, frozen=True, kw_only=True):
        policy = Unbound
        node_forms = ("compiled", "interpreted")

    scenario = gs.Scenario(
        gs.Platform.equal(nodes=4), gs.Workload.of(release=[0.0], tasks=[4], task_size=[1e3])
    )
    with pytest.raises(gs.CompileError, match="Unbound"):
        gs.compare(scenario, {"own": Compiled()})
    assert gs.simulate(scenario, Compiled(), nodes="interpreted").digest


def test_the_check_of_a_scheduler_compares_the_forms(tmp_path: Path) -> None:
    report = check_scheduler(Scheduler(), examples=6, hash_seeds=False, folder=tmp_path)
    assert not report.not_compiled


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 4), gs.Workload.of([0.0], 3, 1000.0))


def scheduler_of(method: Any, *, kept: Any = 0) -> gs.LocalScheduler:
    """Return a scheduler whose nodes handle a release by `method`."""

    class Node(gs.LocalPolicy):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters)
            self.count = 0
            self.kept = kept

        on_release = method

        def on_message(self, view: Any, message: Any) -> None:
            self.count += message.number

    class Single(gs.LocalScheduler, frozen=True, kw_only=True):
        policy = Node
        messages: ClassVar[dict[str, gs.Message]] = {
            "ask": gs.Message(80, number=int), "bare": gs.Message(80),
        }  # fmt: skip
        timers = ("tick",)

    return Single()


def _fraction(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.count = tasks / 2


def _unknown_kind(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "aks", number=1)


def _lacks_field(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "ask")


def _wrong_field(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "ask", number=0.5)


def _unknown_attribute(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, self.uncounted)


def _unknown_member(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.anything()


def _many_draws(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.random.integers(0, 3, 2)


def _unknown_timer(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(1.0, "tock")


def _application(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application, tasks)


def _text(number: int) -> str:
    return str(number)


def _function(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, len(_text(tasks)))


def _array_sum(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(np.ones(9).sum(), "tick")


def _numpy_mean(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(np.mean(np.ones(9)), "tick")


def _python_sum(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(sum([0.5, 0.25]), "tick")


def _power(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(2**-tasks, "tick")


def _own_stream(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(np.random.random(), "tick")


def _no_attribute(self: Any, view: Any, application: Any, tasks: int) -> None:
    tasks.foo()  # type: ignore[attr-defined]


def _array_replaced(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.kept = np.zeros(3)


def _array_copied(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.kept = self.kept


def _none(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.count = None


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (_none, "use a number such as -1 for None"),
        (_fraction, "self.count is an int where __init__ sets it, and gets a fraction here"),
        (_unknown_kind, "the kind of a message 'aks' is unknown; there are ask, bare"),
        (_lacks_field, "view.send of 'ask' lacks number"),
        (_wrong_field, "field 'number' of 'ask' must be a whole number, got a fraction; int"),
        (_unknown_attribute, "self.uncounted is neither a method nor .* there are: count, kept"),
        (_unknown_member, "view.anything is not compiled; there are application, "),
        (_many_draws, "draws one number where it is compiled; use a loop"),
        (_unknown_timer, "the name of a timer 'tock' is unknown; there are tick"),
        (_application, "must be a whole number, got an application, which has a .number"),
        (_function, "make it a method of the node, or decorate it with numba.njit"),
        (_array_sum, "sum of floats rounds otherwise than NumPy does; add them in a loop"),
        (_numpy_mean, "mean of floats rounds otherwise"),
        (_python_sum, "sum of floats rounds otherwise"),
        (_power, "a power of two int is an int when compiled; write 2.0"),
        (_own_stream, "random draws from a stream of its own; draw from view.random"),
        (_no_attribute, "Unknown attribute 'foo' of type int64"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_its_line(method: Any, said: str) -> None:
    line = inspect.getsourcelines(method)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled.py:{line}: Node.on_release: .*{said}"):
        gs.simulate(SMALL, scheduler_of(method), nodes="compiled")


@pytest.mark.parametrize(
    "kind",
    [
        gs.Message(8, x=gs.array(float)),
        gs.Message(lambda x: 8 + x, x=int),
        gs.Message(None, x=int),
        gs.Message(8, deferred=True),
    ],
)
def test_kinds_of_messages_that_only_interpreted_nodes_have_are_named(kind: gs.Message) -> None:
    class Only(Scheduler, frozen=True, kw_only=True):
        messages: ClassVar[dict[str, gs.Message]] = {"own": kind}

    with pytest.raises(
        gs.CompileError, match="messages, or ones with arrays .*, such as 'own', run interpreted only"
    ):
        gs.simulate(SMALL, Only(), nodes="compiled")


@pytest.mark.parametrize("method", [_array_replaced, _array_copied])
def test_an_array_that_is_assigned_as_a_whole_is_named(method: Any) -> None:
    line = inspect.getsourcelines(method)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled.py:{line}: .*only elements can be assigned"):
        gs.simulate(SMALL, scheduler_of(method, kept=np.zeros(3)), nodes="compiled")


@pytest.mark.parametrize("kept", [{}, [1], None, "text", np.zeros(3, np.int32)])
def test_a_state_that_is_no_number_is_named(kept: Any) -> None:
    with pytest.raises(gs.CompileError, match=r"test_compiled.py:\d+: Node: self.kept is .*write, say, -1"):
        gs.simulate(SMALL, scheduler_of(_fraction, kept=kept), nodes="compiled")


def _too_many(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, tasks + 1)


def _none_of_them(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, 0)


def _to_nobody(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(view.machines + tasks, "ask", number=1)


def _in_the_past(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(-1.0, "tick")


def _unheard(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.application(application.number + 1)


def _by_zero(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, tasks // (tasks - 3))


def _raises(self: Any, view: Any, application: Any, tasks: int) -> None:
    raise RuntimeError("mine")


def _fieldless(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "bare")
    view.enqueue(application.number, tasks)


def _no_choice(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.random.integers(tasks, 1)


@pytest.mark.parametrize(
    "method",
    [
        _too_many,
        _none_of_them,
        _to_nobody,
        _in_the_past,
        _unheard,
        _by_zero,
        _raises,
        _fieldless,
        _no_choice,
    ],
)
def test_errors_of_handlers_are_those_of_interpreted_ones(method: Any) -> None:
    """The same type; and the same text, unless it is Python's own."""
    errors = []
    for form in ("interpreted", "compiled"):
        with pytest.raises(Exception, match=r".") as caught:
            gs.simulate(SMALL, scheduler_of(method), nodes=form)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    if method not in (_by_zero, _fieldless):
        assert str(errors[0]) == str(errors[1])


def test_an_index_out_of_range_is_an_error() -> None:
    def beyond(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.send(view.neighbours[tasks + 5], "ask", number=1)

    with pytest.raises(IndexError):
        gs.simulate(SMALL, scheduler_of(beyond), nodes="compiled")


def test_machine_code_is_kept_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsim.scheduling.local import compiled

    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path))
    made: list[str] = []
    real = compiled._compile
    monkeypatch.setattr(compiled, "_compile", lambda *given: made.append("") or real(*given))

    def number_of(form: str) -> str:
        return gs.simulate(SMALL, scheduler_of(_fine), nodes=form).digest  # type: ignore[arg-type]

    assert number_of("compiled") == number_of("interpreted")
    assert number_of("compiled") == number_of("interpreted")
    assert len(made) == 1
    (file,) = tmp_path.iterdir()
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))  # damaged: not used
    assert number_of("compiled") == number_of("interpreted")
    assert len(made) == 2
    monkeypatch.setitem(globals(), "LIMIT", 1)  # what a handler uses has changed
    assert number_of("compiled") == number_of("interpreted")
    assert len(made) == 3
    monkeypatch.setenv("GRIDSIM_CACHE", str(file / "nowhere"))  # cannot be written
    assert number_of("compiled") == number_of("interpreted")


def _fine(self: Any, view: Any, application: Any, tasks: int) -> None:
    for _ in range(LIMIT):
        view.send((view.node + 1) % view.machines, "ask", number=tasks)
    view.enqueue(application.number, tasks)


def test_without_numba_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r'Numba; install it with: pip install "gridcore\[jit\]"'):
        gs.simulate(SMALL, scheduler_of(_fine), nodes="compiled")


@pytest.mark.parametrize("name", ["layout", "program"])
def test_nodes_that_are_not_one_a_machine_run_interpreted_only(name: str) -> None:
    made = type("Own", (Scheduler,), {name: lambda self, _: None}, frozen=True, kw_only=True)
    with pytest.raises(gs.CompileError, match=f"schedulers that define {name} run interpreted only"):
        gs.simulate(SMALL, made(), nodes="compiled")
