"""Compiled nodes give the results of interpreted ones; errors name the code that cannot be compiled."""

from __future__ import annotations

import inspect
import math
import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.testing import check_scheduler
from gridsim.testing.resuming import resume_difference
from tests.scheduling.nodes.test_all_forms import scenarios

numba = pytest.importorskip("numba", reason="needs the extra jit")

LIMIT = 5
SIZES = {3: 3}


@numba.njit  # type: ignore[untyped-decorator]
def half(number: int) -> int:
    return number // 2


class RandomActionNode(gs.NodeProgram):
    """A node with random actions, which uses all features of compiled nodes."""

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

    def _random_node(self, view: Any) -> int:
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
            view.send(self._random_node(view), "note", left=view.random.integers(3), value=load)
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
            view.decide("ran", number, node=view.node, tasks=here)
            view.enqueue(number, here)
        if here < tasks:
            view.send(self._random_node(view), "share", hops=hops + 1, application=number, tasks=tasks - here)

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


class RoundingNode(gs.NodeProgram):
    """A node with calculations that NumPy, LLVM and Python might round differently."""

    weights = (3, 0.5, "x")

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.flags = np.zeros(3, bool)

    def on_start(self, view: Any) -> None:
        for _ in range(100):
            x, n = view.random.uniform(0.1, 9.0), view.random.integers(5)
            self.flags[n % 3] ^= x < 3.0
            for k in view.random.permutation(n).tolist() + view.random.integers(-2, 5, size=n).tolist():
                x += k * view.random.integers(9, size=3)[k % 3]
            x = abs(x) + 0.5
            view.note("numbers", x=x**2 + x**3 + x**n, n=int(x) + round(-x) + (n << 2) + self.flags[1])
        view.note("numbers", x=self.weights[1], n=self.weights[0])

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class RoundingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = RoundingNode
    tables: ClassVar[dict[str, dict[str, type]]] = {"numbers": {"x": float, "n": int}}


def test_compiled_nodes_round_as_python_does() -> None:
    results = [gs.simulate(SMALL, RoundingScheduler(), nodes=form) for form in ("interpreted", "compiled")]
    assert results[0].tables == results[1].tables


class UncompilableNode(RandomActionNode):
    """A node that cannot be compiled."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.names: dict[str, int] = {}


class Scheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "restless"
    policy = RandomActionNode
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


@settings(max_examples=30)
@given(
    scenario=scenarios(),
    hops=st.integers(0, 4),
    rule=st.sampled_from(["loud", "quiet"]),
    degree=st.just(2),
)
def test_compiled_nodes_have_the_digest_of_interpreted_ones(
    scenario: gs.Scenario, hops: int, rule: str, degree: int
) -> None:
    scheduler = Scheduler(hops=hops, rule=rule, degree=degree)
    expected = gs.simulate(scenario, scheduler, record="decisions", events_limit=100_000)
    outcome = gs.simulate(scenario, scheduler, record="decisions", events_limit=100_000, nodes="compiled")
    assert outcome.digest == expected.digest
    assert outcome.tables == expected.tables


def test_compiled_nodes_continue_from_a_checkpoint() -> None:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=20, seed=1),
        gs.Workload.bags(applications=15, interarrival=20.0, tasks_per_node=2, task_size=65536.0, seed=1),
        faults=gs.Faults.poisson(mean=300.0, seed=1),
        seed=1,
    )
    expected = gs.simulate(scenario, Scheduler())
    assert resume_difference(scenario, Scheduler(), expected, record=False, nodes="compiled") is None


def test_studies_run_the_first_form_of_a_scheduler() -> None:
    class CompiledScheduler(Scheduler, frozen=True, kw_only=True):
        policy = UncompilableNode
        node_forms = ("compiled", "interpreted")

    scenario = gs.Scenario(
        gs.Platform.equal(nodes=4), gs.Workload.of(release=[0.0], tasks=[4], task_size=[1e3])
    )
    with pytest.raises(gs.CompileError, match="UncompilableNode"):
        gs.compare(scenario, {"own": CompiledScheduler()})
    assert gs.simulate(scenario, CompiledScheduler(), nodes="interpreted").digest


def test_the_conformance_check_compares_both_forms(tmp_path: Path) -> None:
    report = check_scheduler(Scheduler(), examples=6, hash_seeds=False, folder=tmp_path)
    assert not report.not_compiled


SMALL = gs.Scenario(gs.Platform.of([1000.0] * 4), gs.Workload.of([0.0], 3, 1000.0))


def scheduler_of(method: Any, *, kept: Any = 0) -> gs.NodeScheduler:
    """Return a scheduler whose nodes handle a release by `method`."""

    class Node(gs.NodeProgram):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters)
            self.count = 0
            self.kept = kept

        on_release = method

        @property
        def level(self) -> int:
            return self.count

        @level.setter
        def level(self, value: int) -> None:
            self.count = value

        @staticmethod
        def fixed(number: int) -> int:
            return number

        def again(self, number: int) -> int:
            return self.again(number - 1)

        def only(self, *, number: int) -> int:
            return number

        def halve(self) -> None:
            self.count = 0.5  # type: ignore[assignment]

        def on_timer(self, view: Any, name: str) -> None:
            pass

        def on_message(self, view: Any, message: Any) -> None:
            self.count += message.number

    class SingleNodeScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        policy = Node
        messages: ClassVar[dict[str, gs.Message]] = {
            "ask": gs.Message(80, number=int), "bare": gs.Message(80),
        }  # fmt: skip
        timers = ("tick",)

    return SingleNodeScheduler()


def _fraction(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.count = tasks / 2


def _many_draws(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.random.uniform(0.0, 3.0, 2)


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


def _reads_missing_attribute(self: Any, view: Any, application: Any, tasks: int) -> None:
    tasks.foo()  # type: ignore[attr-defined]


def _array_replaced(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.kept = np.zeros(3)


def _assigns_own_array(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.kept = self.kept


def _assigns_none(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.count = None


def _format(self: Any, view: Any, application: Any, tasks: int) -> None:
    raise ValueError(f"{tasks:3d}")


def _star(self: Any, view: Any, application: Any, tasks: int) -> None:
    _first, *_ = [tasks, 1]


def _walrus(self: Any, view: Any, application: Any, tasks: int) -> None:
    if (count := tasks + 1) > 2:
        self.count = count


def _reads_undefined_name(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, taks)  # type: ignore[name-defined]  # noqa: F821


def _global_dict(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, SIZES[tasks])


def _reads_class_attribute(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, RandomActionNode.turns)


def _setter(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.level = tasks


def _assigns_view_attribute(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.now = 3


def _calls_static_method(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, self.fixed(tasks))


def _other_arguments(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.again()


def _calls_unsupported_builtin(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, len(list(reversed([1, 2]))))


def _gamma(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(math.gamma(tasks / 2), "tick")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (_format, "a format in an f-string cannot be compiled"),
        (_star, r"a \* in an assignment cannot be compiled"),
        (_walrus, "count := ... cannot be compiled; write count = ... in a line of its own"),
        (_reads_undefined_name, "the name taks is not defined; did you mean tasks?"),
        (_global_dict, "SIZES is a dict of the module, which cannot be compiled; write a tuple"),
        (_reads_class_attribute, "RandomActionNode is a class of nodes; write self.turns"),
        (_setter, "self.level is read-only when compiled; write a method"),
        (_assigns_view_attribute, "view.now is read-only"),
        (_calls_static_method, "self.fixed is a staticmethod; write it as a method"),
        (_other_arguments, r"self.again\(self, number: 'int'\).*: missing a required argument: 'number'"),
        (
            _calls_unsupported_builtin,
            "'view.enqueue.*' cannot be compiled: Numba does not support reversed of Python",
        ),
        (_gamma, "gamma rounds differently when compiled"),
        (_assigns_none, "use a number such as -1 for None"),
        (_fraction, "self.count must be an int, as __init__ sets it, got a fraction"),
        (_many_draws, "draws one number in compiled nodes"),
        (_application, "must be a whole number, got an application, which has a .number"),
        (_function, "make it a method of the node, or decorate it with numba.njit"),
        (_array_sum, "sum of floats rounds differently when compiled; add them in a loop"),
        (_numpy_mean, "mean of floats rounds differently"),
        (_python_sum, "sum of floats rounds differently"),
        (_power, r"int \*\* int requires a constant exponent >= 0 when compiled"),
        (_own_stream, "random draws from a global random stream; draw from view.random"),
        (_reads_missing_attribute, "Unknown attribute 'foo' of type int"),
    ],
)
def test_errors_of_compilation_name_the_construct_and_its_line(method: Any, message: str) -> None:
    line = inspect.getsourcelines(method)[1] + 1
    with pytest.raises(gs.CompileError, match=rf"test_compiled.py:{line}: Node.on_release: .*{message}"):
        gs.simulate(SMALL, scheduler_of(method), nodes="compiled")


def test_unsupported_kinds_of_messages_are_reported() -> None:
    class KindsScheduler(Scheduler, frozen=True, kw_only=True):
        messages: ClassVar[dict[str, gs.Message]] = {
            **Scheduler.messages, "own": gs.Message(8, x=gs.array(float)),
        }  # fmt: skip

    with pytest.raises(gs.CompileError, match="does not support 'x' of the message 'own'"):
        gs.simulate(SMALL, KindsScheduler(), nodes="compiled")


def _recursive(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, self.again(tasks))


def _keyword_only(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, self.only(number=tasks))


def _call_with_wrong_type(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.halve()


@pytest.mark.parametrize(
    ("method", "helper", "message"),
    [
        (_recursive, "again", "self.again is recursive"),
        (_keyword_only, "only", "only has the keyword-only argument number; write it without the"),
        (_call_with_wrong_type, "halve", "self.count must be an int, as __init__ sets it, got a fraction"),
    ],
)
def test_errors_of_compilation_name_the_method_and_its_caller(method: Any, helper: str, message: str) -> None:
    scheduler = scheduler_of(method)
    lines, first = inspect.getsourcelines(getattr(scheduler.policy, helper))
    line_suffix = f":({'|'.join(str(first + k) for k in range(len(lines)))})"
    with pytest.raises(
        gs.CompileError, match=f"{line_suffix}: Node.{helper}, which Node.on_release calls: {message}"
    ):
        gs.simulate(SMALL, scheduler, nodes="compiled")


def _assigns_in_place(self: Any, view: Any, application: Any, tasks: int) -> None:
    self.kept ^= True


@pytest.mark.parametrize("method", [_array_replaced, _assigns_own_array, _assigns_in_place])
def test_an_array_that_is_assigned_as_a_whole_is_reported(method: Any) -> None:
    line = inspect.getsourcelines(method)[1] + 1
    with pytest.raises(
        gs.CompileError, match=rf"test_compiled.py:{line}: .*only its elements can be assigned"
    ):
        gs.simulate(SMALL, scheduler_of(method, kept=np.zeros(3, bool)), nodes="compiled")


def test_a_sum_that_an_array_cannot_hold_is_reported() -> None:
    def add(self: Any, view: Any, application: Any, tasks: int) -> None:
        self.kept[:] += 0.5

    with pytest.raises(gs.CompileError, match=r"Node.on_release: 'self.kept\[:\] \+= 0.5'.*cannot hold"):
        gs.simulate(SMALL, scheduler_of(add, kept=np.zeros(3, int)), nodes="compiled")


@pytest.mark.parametrize("kept", [{}, [1], None, "text", np.zeros(3, np.int8)])
def test_an_attribute_that_is_not_a_number_is_reported(kept: Any) -> None:
    with pytest.raises(gs.CompileError, match=r"test_compiled.py:\d+: Node: self.kept must be .*use -1"):
        gs.simulate(SMALL, scheduler_of(_fraction, kept=kept), nodes="compiled")


def _divides_by_zero(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, tasks // (tasks - 3))


def _raises(self: Any, view: Any, application: Any, tasks: int) -> None:
    raise RuntimeError("mine")


def _fieldless(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.send(1, "bare")
    view.enqueue(application.number, tasks)


def _no_int(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, int(tasks * math.inf))


def _no_root(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(math.sqrt(-tasks), "tick")


def _no_power(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer((tasks - 3.0) ** -1, "tick")


def _no_limit(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.timer(view.random.uniform(0.0, tasks * math.nan), "tick")


def _no_shift(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.enqueue(application.number, 1 << (tasks - 4))


def _no_choice(self: Any, view: Any, application: Any, tasks: int) -> None:
    view.random.integers(tasks, 1)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (_divides_by_zero, "division by zero"),
        (_fieldless, "message has no field 'number'"),
        (_no_int, "x of int must be finite"),
        (_no_root, "x of math.sqrt must be in its domain"),
        (_no_power, r"x \*\* y with y < 0 requires x != 0"),
        (_no_shift, "y of x << y and x >> y must be >= 0"),
    ],
)
def test_compiled_handlers_raise_the_types_of_errors_of_python(method: Any, text: str) -> None:
    """The text differs, since that of Python depends on its version."""
    with pytest.raises(Exception, match=r".") as excinfo:
        gs.simulate(SMALL, scheduler_of(method), nodes="interpreted")
    with pytest.raises(excinfo.type, match=text):
        gs.simulate(SMALL, scheduler_of(method), nodes="compiled")


@pytest.mark.parametrize("method", [_raises, _no_choice, _no_limit])
def test_compiled_handlers_raise_the_errors_of_interpreted_ones(method: Any) -> None:
    errors = []
    for form in ("interpreted", "compiled"):
        with pytest.raises(Exception, match=r".") as excinfo:
            gs.simulate(SMALL, scheduler_of(method), nodes=form)
        errors.append((excinfo.type, str(excinfo.value)))
    assert errors[0] == errors[1]


def test_an_index_out_of_range_is_an_error() -> None:
    def _sends_to_missing_neighbour(self: Any, view: Any, application: Any, tasks: int) -> None:
        view.send(view.neighbours[tasks + 5], "ask", number=1)

    with pytest.raises(IndexError):
        gs.simulate(SMALL, scheduler_of(_sends_to_missing_neighbour), nodes="compiled")


def test_machine_code_is_stored_and_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gridsim.scheduling.nodes import compiled

    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path))
    items: list[str] = []
    real = compiled._compile
    monkeypatch.setattr(compiled, "_compile", lambda *given: items.append("") or real(*given))

    def number_of(form: str) -> str:
        return gs.simulate(SMALL, scheduler_of(_sends_to_next), nodes=form).digest  # type: ignore[arg-type]

    assert number_of("compiled") == number_of("interpreted")
    assert number_of("compiled") == number_of("interpreted")
    assert len(items) == 1
    (file,) = tmp_path.iterdir()
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))  # a damaged file is not used
    assert number_of("compiled") == number_of("interpreted")
    assert len(items) == 2
    monkeypatch.setitem(globals(), "LIMIT", 1)  # a global variable of the handler has changed
    assert number_of("compiled") == number_of("interpreted")
    assert len(items) == 3
    monkeypatch.setenv("GRIDSIM_CACHE", str(file / "nowhere"))  # not a folder, so nothing can be written
    assert number_of("compiled") == number_of("interpreted")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners of files")
def test_machine_code_that_others_could_have_written_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gridsim.scheduling.nodes import compiled

    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path))
    scheduler = scheduler_of(_sends_to_next)
    expected = gs.simulate(SMALL, scheduler).digest
    items: list[str] = []
    real = compiled._compile
    monkeypatch.setattr(compiled, "_compile", lambda *given: items.append("") or real(*given))
    assert gs.simulate(SMALL, scheduler, nodes="compiled").digest == expected and len(items) == 1
    (file,) = tmp_path.iterdir()
    for number, (path, mode) in enumerate([(file, 0o622), (tmp_path, 0o777), (tmp_path, 0o770)]):
        path.chmod(mode)
        with pytest.warns(gs.errors.SchedulerWarning, match=f"must belong to this user .* mode {mode:o}: "):
            assert gs.simulate(SMALL, scheduler, nodes="compiled").digest == expected
        assert len(items) == 2 + number
        tmp_path.chmod(0o700)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.warns(gs.errors.SchedulerWarning, match=f"got user {owner} and mode 700"):
        gs.simulate(SMALL, scheduler, nodes="compiled")
    monkeypatch.setattr(os, "getuid", lambda: owner)
    assert gs.simulate(SMALL, scheduler, nodes="compiled").digest == expected and len(items) == 5
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left")))
    file.unlink()
    assert gs.simulate(SMALL, scheduler, nodes="compiled").digest == expected
    assert [*tmp_path.iterdir()] == []


def test_a_text_that_no_method_reads_needs_no_other_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TextBoardScheduler(gs.BoardScheduler, frozen=True, kw_only=True):
        policy = type(scheduler_of(_sends_to_next)).policy
        messages: ClassVar[dict[str, gs.Message]] = {"ask": gs.Message(64, number=int)}

    monkeypatch.setenv("GRIDSIM_CACHE", str(tmp_path))
    refreshes: Any = ("continuous", "individual")
    for scheduler in [TextBoardScheduler(refresh=refresh, age=1.0) for refresh in refreshes]:
        assert gs.simulate(SMALL, scheduler, nodes="compiled").digest == gs.simulate(SMALL, scheduler).digest
    assert len([*tmp_path.iterdir()]) == 1


def _sends_to_next(self: Any, view: Any, application: Any, tasks: int) -> None:
    for _ in range(LIMIT):
        view.send((view.node + 1) % view.machines, "ask", number=tasks)
    view.enqueue(application.number, tasks)


def test_without_numba_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r'Numba; install it with: pip install "gridsched\[jit\]"'):
        gs.simulate(SMALL, scheduler_of(_sends_to_next), nodes="compiled")


def test_programs_of_several_classes_cannot_be_compiled() -> None:
    new_class = type("Own", (Scheduler,), {"program": lambda self, _: None}, frozen=True, kw_only=True)
    with pytest.raises(gs.CompileError, match="does not support nodes='compiled': Own defines program"):
        gs.simulate(SMALL, new_class(), nodes="compiled")
