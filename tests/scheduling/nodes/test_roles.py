"""Roles: desks, which forward submitted tasks to clerks, which give them to workers, one on each machine."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.testing.resuming import resume_difference


class Desk(gs.NodeProgram):
    """A node that forwards each application to the next clerk."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.turn = 0

    def on_start(self, view: Any) -> None:
        view.note("started", node=view.node, rank=view.rank, machine=view.machine)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        clerks = view.role("clerk")
        view.note("released", node=view.node, application=application.number)
        view.send(clerks[self.turn % len(clerks)], "order", application=application.number, tasks=tasks)
        self.turn += 1


class Clerk(gs.NodeProgram):
    """A node that gives single tasks to the workers in turn."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.waiting = gs.Fifo(application=int)
        self.turn = 0

    def on_start(self, view: Any) -> None:
        view.note("started", node=view.node, rank=view.rank, machine=view.machine)

    def on_order(self, view: Any, message: Any) -> None:
        for _ in range(message.tasks):
            self.waiting.push(message.application)
        view.timer(1.0, "deal")

    def on_timer(self, view: Any, name: str) -> None:
        workers = view.role("worker")
        if self.waiting:
            view.send(workers[self.turn % len(workers)], "task", application=self.waiting.pop(), tasks=1)
            view.timer(1.0, "deal")
            self.turn += 1


class Worker(gs.NodeProgram):
    """A node that queues the tasks that it gets."""

    def on_start(self, view: Any) -> None:
        view.note("started", node=view.node, rank=view.rank, machine=view.machine)

    def on_message(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)

    def on_idle(self, view: Any) -> None:
        view.note("idle", node=view.node)


class Office(gs.NodeScheduler, frozen=True, kw_only=True):
    """A scheduler with three roles: two desks on servers, clerks, and a worker on each machine."""

    name: ClassVar[str] = "office"
    roles: ClassVar[dict[str, gs.Role]] = {
        "desk": gs.Role(Desk, count=2, server=True, releases=True),
        "clerk": gs.Role(Clerk, count=lambda office, machines: max(1, machines // office.span)),
        "worker": gs.Role(Worker),
    }
    messages: ClassVar[dict[str, gs.Message]] = {
        "order": gs.Message(100, moves_tasks=True, application=int, tasks=int),
        "task": gs.Message(100, moves_tasks=True, application=int, tasks=int),
    }
    timers: ClassVar[tuple[str, ...]] = ("deal",)
    tables: ClassVar[dict[str, dict[str, type]]] = {
        "started": {"node": int, "rank": int, "machine": int},
        "released": {"node": int, "application": int},
        "idle": {"node": int},
    }
    span: int = 2


def scenario(
    submitter: tuple[int, ...] = (0, 1, 2, 3), tasks: int = 3, faults: gs.Faults | None = None
) -> gs.Scenario:
    release = np.arange(len(submitter)) * 10.0
    workload = gs.Workload.of(release, tasks, 1000.0, list(submitter), origin=0.0)
    return gs.Scenario(gs.Platform.of([1000.0] * 5), workload, faults=faults, seed=1)


def columns(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def test_nodes_are_numbered_role_by_role() -> None:
    """Servers have machines of their own; clerks are spread over the machines; each machine has a worker."""
    result = gs.simulate(scenario(), Office())
    assert columns(result.tables["started"], "node", "rank", "machine") == [
        (0, 0, 5), (1, 1, 6), (2, 0, 0), (3, 1, 2), (4, 0, 0), (5, 1, 1), (6, 2, 2), (7, 3, 3), (8, 4, 4),
    ]  # fmt: skip
    assert columns(result.tables["released"], "node", "application") == [(0, 0), (1, 1), (0, 2), (1, 3)]
    assert sorted(set(result.tables["idle"]["node"].tolist())) == [4, 5, 6, 7, 8]
    assert result.machines["tasks"].tolist() == [4, 2, 2, 2, 2] and result.servers == 2


def test_a_role_has_the_machines_of_its_place() -> None:
    class PlacedScheduler(Office, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            **Office.roles,
            "clerk": gs.Role(Clerk, count=2, place=lambda office, machines: [machines - 1, office.span]),
        }

    started = gs.simulate(scenario(), PlacedScheduler()).tables["started"]
    assert columns(started, "node", "machine")[2:4] == [(2, 4), (3, 2)]


def test_neighbours_are_home_nodes() -> None:
    """Neighbours are drawn among the workers, also those of desks and clerks."""

    class NeighbourWorker(Worker):
        def on_start(self, view: Any) -> None:
            for neighbour in view.neighbours:
                view.note("started", node=view.node, rank=neighbour, machine=view.machine)

    class NeighbourClerk(Clerk):
        on_start = NeighbourWorker.on_start

    class NeighbourScheduler(Office, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            "desk": Office.roles["desk"],
            "clerk": gs.Role(NeighbourClerk, count=2),
            "worker": gs.Role(NeighbourWorker),
        }

    rows = columns(gs.simulate(scenario(), NeighbourScheduler(degree=3)).tables["started"], "node", "rank")[
        2:
    ]
    for node in range(2, 9):
        seen = [neighbour for owner, neighbour in rows if owner == node]
        assert len(set(seen)) == 3 and set(seen) <= {*range(4, 9)} - {node}


@pytest.mark.parametrize("back", [6.0, np.inf])
def test_releases_go_to_the_next_machine_whose_node_is_up(back: float) -> None:
    """Desk 0, on machine 3, handles the releases at even machines; desk 1, on machine 4, the others."""

    class PlacedDesksScheduler(Office, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            **Office.roles,
            "desk": gs.Role(Desk, count=2, releases=True, place=lambda office, machines: [3, 4]),
        }

    faults = gs.Faults.of([3, 4], [5.0, 15.0], [back, 25.0])
    result = gs.simulate(scenario((0, 2, 2, 1), tasks=1, faults=faults), PlacedDesksScheduler())
    released = columns(result.tables["released"], "node", "application")
    if back == 6.0:
        assert released == [(0, 0), (0, 1), (0, 2), (1, 3)]
    else:  # from 15 s to 25 s no desk is up, and the application waits
        assert released == [(0, 0), (1, 1), (1, 2), (1, 3)]
    assert result.applications["resubmitted"].tolist() == [0, 0, int(back > 6.0), 0]


def test_a_run_with_roles_continues_from_a_checkpoint() -> None:
    faults = gs.Faults.of([0, 2], [11.0, 12.5], [20.0, 13.0])
    result = gs.simulate(scenario(faults=faults), Office(), record=True)
    assert resume_difference(scenario(faults=faults), Office(), result) is None


class _SilentNode(gs.NodeProgram):
    pass


class _TimerWorker(Worker):
    def on_message(self, view: Any, message: Any) -> None:
        view.timer(1.0, "deal")


class _AskingDesk(Desk):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.role("clerks")


@pytest.mark.parametrize("nodes", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    ("role", "program", "message"),
    [
        (
            "worker",
            _SilentNode,
            r"a message 'task' arrived at node 4, a worker, but _SilentNode .* does not define on_task",
        ),
        (
            "desk",
            _SilentNode,
            r"t = 0.0 s: tasks were submitted at node 0, a desk, but _SilentNode .* does not define on_rel",
        ),
        ("worker", _TimerWorker, r"node 4 sets the timer 'deal', which requires the method on_timer"),
    ],
)
def test_a_role_without_the_handler_is_reported(
    role: str, program: type[gs.NodeProgram], message: str, nodes: Any
) -> None:
    if nodes == "compiled":
        pytest.importorskip("numba", reason="needs the extra jit")

    class WrongScheduler(Office, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            name: gs.Role(program if name == role else old.program, **_options(old))
            for name, old in Office.roles.items()
        }

    with pytest.raises(gs.SchedulerError, match=message):
        gs.simulate(scenario(), WrongScheduler(), nodes=nodes)


def test_the_name_of_a_role_must_be_declared() -> None:
    class WrongScheduler(Office, frozen=True, kw_only=True):
        roles: ClassVar[dict[str, gs.Role]] = {
            **Office.roles,
            "desk": gs.Role(_AskingDesk, count=1, server=True, releases=True),
        }

    with pytest.raises(gs.SchedulerError, match=r"node 0 uses the role 'clerks', .*; did you mean clerk\?"):
        gs.simulate(scenario(), WrongScheduler())


def _options(role: gs.Role) -> Any:
    return {name: value for name, value in vars(role).items() if name != "program"}


def _zero(office: Any, machines: int) -> int:
    return 0


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (lambda: {"worker": Worker}, r"roles\['worker'\] must be a Role, got <class"),
        (
            lambda: {"worker": gs.Role(Office)},
            "program of a role must be a subclass of NodeProgram, got <class",
        ),
        (lambda: {"": gs.Role(Worker)}, r"roles\[''\] must be a Role"),
        (lambda: [gs.Role(Worker)], "roles must be a dict"),
        (lambda: {"desk": gs.Role(Desk, count=2)}, r"roles requires a role with a node on each machine"),
        (lambda: {"desk": gs.Role(Desk, server=True)}, "server of a role requires count"),
        (lambda: {"desk": gs.Role(Desk, place=_zero)}, "place of a role requires count"),
        (lambda: {"desk": gs.Role(Desk, count=0)}, r"count of a role must be a whole number in 1\.\."),
        (
            lambda: {"desk": gs.Role(Desk, count=_zero, releases=True)},
            r"roles\['desk'\].count must be a whole number in 1\.\.2147483647, got 0",
        ),
        (
            lambda: {"desk": gs.Role(Desk, count=lambda office, machines: 1 // 0, releases=True)},
            r"WrongScheduler.roles\['desk'\].count must return without an error, got ZeroDivisionError",
        ),
        (
            lambda: {"desk": gs.Role(Desk, count=2, releases=True, place=lambda office, m: [[0], [1, 2]])},
            r"WrongScheduler.roles\['desk'\].place must return without an error, got ValueError",
        ),
        (
            lambda: {**Office.roles, "desk": gs.Role(Desk, count=1, place=_zero)},
            r"roles\['desk'\].place must return 1 whole numbers, the machines of its nodes, got int64\[\]",
        ),
        (
            lambda: {"a": gs.Role(Desk, count=2, place=lambda p, m: [0, m]), "b": gs.Role(Worker)},
            r"roles\['a'\].place: entry 1 must be in 0\.\.4, got 5",
        ),
        (
            lambda: {"a": gs.Role(Desk, releases=True), "b": gs.Role(Desk, count=1, releases=True)},
            "at most one role with releases=True, got a, b",
        ),
    ],
)
def test_wrong_roles_are_rejected(declared: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):

        class WrongScheduler(Office, frozen=True, kw_only=True):
            roles: ClassVar[Any] = declared()

        gs.simulate(scenario(), WrongScheduler())


def test_a_scheduler_has_a_policy_or_roles() -> None:
    class PolicyAndRolesScheduler(Office, frozen=True, kw_only=True):
        policy = Worker

    class ProgramAndRolesScheduler(Office, frozen=True, kw_only=True):
        def program(self, node: int) -> gs.NodeProgram:
            return Worker(self)

    with pytest.raises(gs.ScenarioError, match="PolicyAndRolesScheduler must have policy or roles, got both"):
        PolicyAndRolesScheduler()
    with pytest.raises(
        gs.ScenarioError, match=r"ProgramAndRolesScheduler.roles does not support program\(\)"
    ):
        ProgramAndRolesScheduler()
