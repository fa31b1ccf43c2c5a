"""Small emulated runs in two processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.emulation.coordinator import Coordinator, Peer
from gridsim.emulation.emulate import emulate
from gridsim.emulation.part import Setup
from gridsim.emulation.wire import Conversation, Greeting, Introduction
from gridsim.emulation.worker import Worker
from gridsim.report import write_report
from gridsim.scheduling.registry import make_scheduler
from gridsim.support.clock import NEVER
from gridsim.validation.results import validate_result

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")


def bags(**further: Any) -> gs.Scenario:
    workload = gs.Workload.bags(applications=3, interarrival=20.0, tasks_per_node=1.0, seed=2)
    return gs.Scenario(gs.Platform.desktop_grid(nodes=8, seed=1), workload, seed=3, **further)


def rigid() -> gs.Scenario:
    own = gs.ListedAttributes(kinds=("a", "b") * 4)
    jobs = gs.Workload.jobs_of(
        release=[0.0, 10.0, 20.0], nodes=[3, 8, 2], run_time=[50.0, 60.0, 70.0], kinds=["a", "", "b"]
    )
    return gs.Scenario(gs.Platform.equal(8, attributes=own), jobs, seed=3)


#: The systems differ in what nodes share: nothing, a server, a board, a tree, or messages without delay.
NAMES = ["sparrow", "hawk", "join-shortest-queue", "fair-tree", "rjss", "WQR-FT"]


def check(result: gs.Result) -> None:
    """Check that each task is completed once, and that the recorded schedule is valid."""
    assert validate_result(result) == []
    assert result.provenance["emulation"]["processes"] == 2


@pytest.mark.parametrize("name", NAMES)
def test_node_programs_run_in_processes(name: str) -> None:
    result = emulate(bags(), make_scheduler(name), speedup=200.0)
    check(result)
    simulated = gs.simulate(bags(), make_scheduler(name))
    assert set(result.tables) - {"schedule", "arrivals"} == set(simulated.tables)
    assert result.messages["kind"].tolist() == simulated.messages["kind"].tolist()


def equal_machines(**further: Any) -> gs.Scenario:
    """Return a scenario of rigid jobs on equal machines."""
    workload = gs.Workload.jobs_of([5.0 * k for k in range(6)], [3, 5, 2, 4, 1, 3], [20.0] * 6)
    return gs.Scenario(gs.Platform.equal(8), workload, seed=3, **further)


RIGID: dict[str, dict[str, float]] = {
    "dgs-asap": {"slot": 5.0, "retry": 10.0, "detection": 1.0, "patience": 10.0},
    "zorilla": {"detection": 1.0, "patience": 10.0, "longest": 10.0},
    "metascheduler": {"sites": 1, "period": 10.0},
}


@pytest.mark.parametrize("name", RIGID)
def test_rigid_jobs_run_in_processes(name: str) -> None:
    result = emulate(equal_machines(), make_scheduler(name, RIGID[name]), speedup=20.0)
    check(result)
    assert (result.applications["failed"] == 0).all()


def test_jobs_with_kinds_run_in_processes() -> None:
    check(emulate(rigid(), gs.DgsAsap(slot=10.0), speedup=100.0))


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("name", ["dgs-asap", "zorilla"])
def test_rigid_jobs_survive_failures_in_processes(name: str, kill: bool) -> None:
    faults = gs.Faults.of([1, 6, 2], [12.0, 20.0, 28.0], [15.0, 23.0, 31.0])
    result = emulate(
        equal_machines(faults=faults), make_scheduler(name, RIGID[name]), speedup=15.0, kill=kill
    )
    check(result)
    assert (result.applications["failed"] == 0).all() and result.applications["resubmitted"].sum() > 0
    assert result.provenance["emulation"]["kills"] == (3 if kill else 0)


def test_users_cancel_jobs_in_processes() -> None:
    cancel_at = [float("inf"), 12.0, float("inf"), 25.0, float("inf"), float("inf")]
    workload = gs.Workload.jobs_of(
        [5.0 * k for k in range(6)], [3, 5, 2, 4, 1, 3], [20.0] * 6, cancel_at=cancel_at
    )
    scheduler = make_scheduler("dgs-asap", RIGID["dgs-asap"])
    result = emulate(gs.Scenario(gs.Platform.equal(8), workload, seed=3), scheduler, speedup=10.0)
    check(result)
    assert result.applications["cancelled"].tolist() == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("name", ["join-shortest-queue", "dgs-asap"])
def test_applications_follow_others_though_a_process_is_killed(name: str) -> None:
    """A restarted process learns of the releases that it has missed: its stretches depend on them."""
    scheduler, after = make_scheduler(name), [[], [0], [0, 1]]
    release, faults = [0.0] * 3, gs.Faults.of([1], [12.0], [36.0])
    workload = gs.Workload.of(release, [20, 9, 5], 9000.0, after=after, think_time=[0.0, 0.0, 5.0])
    if scheduler.rigid:
        workload = gs.Workload.jobs_of(release, [3, 8, 2], [50.0, 60.0, 70.0], after=after)
    scenario = replace(rigid() if scheduler.rigid else bags(), workload=workload, faults=faults)
    result = emulate(scenario, scheduler, speedup=20.0, kill=True)
    check(result)
    assert result.provenance["emulation"]["kills"] == 1
    assert result.applications["release"][2] > result.applications["release"][1] > 0.0


@pytest.mark.parametrize("store", ["server", "local"])
def test_task_copies_of_killed_processes_are_accounted_for(store: str) -> None:
    """All cycles add up, also those of copies ended by a kill; checkpoints on disks survive kills."""
    faults = gs.Faults.of([1, 2, 0], [25.0, 40.0, 55.0], [28.0, 43.0, 58.0])
    parameters = {"checkpoint_interval": 4.0, "checkpoint_cost": 0.5, "restore_cost": 0.5}
    scheduler = make_scheduler("WQR-FT", {**parameters, "checkpoint_store": store})
    result = emulate(bags(faults=faults), scheduler, speedup=20.0, kill=True)
    check(result)
    assert result.provenance["emulation"]["kills"] == 3 and result.machines["interrupted"].sum() > 3


@pytest.mark.parametrize("kill", [False, True])
def test_a_tree_that_is_kept_by_messages_survives_failures_in_processes(kill: bool) -> None:
    faults = gs.Faults.of([1, 6, 2], [25.0, 60.0, 90.0], [35.0, 70.0, 100.0])
    scheduler = gs.FairTree(maintenance="messages", heartbeat=20.0)
    result = emulate(bags(faults=faults), scheduler, speedup=15.0, kill=kill)
    check(result)
    assert result.applications["resubmitted"].sum() > 0 and len(result.tables["repairs"]["router"]) > 0
    assert result.provenance["emulation"]["kills"] == (3 if kill else 0)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({}, "maintenance must be 'messages' in an emulation with failures, got 'ideal'"),
        (
            {"maintenance": "messages", "resubmit": "new"},
            "resubmit must be 'as-is' in an emulation with fail",
        ),
    ],
)
def test_a_tree_that_knows_failures_at_once_is_not_emulated(parameters: Any, message: str) -> None:
    faults = gs.Faults.of([1], [25.0], [35.0])
    with pytest.raises(gs.ScenarioError, match=message):
        emulate(bags(faults=faults), gs.FairTree(**parameters))


def test_nodes_follow_one_plan_in_processes() -> None:
    check(emulate(bags(), gs.SteadyState(branching=2), speedup=100.0))


def test_owners_leave_and_return_in_processes() -> None:
    faults = gs.Faults.exponential(up=60.0, down=30.0, seed=1, reachable=True)
    scheduler = gs.Rjss(k=0.5, probe_latency="network", on_return="migrate")
    result = emulate(bags(faults=faults), scheduler, speedup=40.0)
    check(result)
    assert result.machines["interrupted"].sum() > 0


def test_emulated_results_can_be_saved_printed_and_reported(tmp_path: Path) -> None:
    scenario, scheduler = bags(), gs.Sparrow()
    emulated = emulate(scenario, scheduler, speedup=200.0, network="real", work="spin")
    emulated.save(tmp_path / "emulated.npz")
    copy = gs.Result.load(tmp_path / "emulated.npz")
    check(copy)
    assert "emulated" in copy.format() and copy.provenance["emulation"]["work"] == "spin"
    both = gs.Comparison(
        scenario, {"simulated": gs.simulate(scenario, scheduler), "emulated": copy}, "simulated", "fluid"
    )
    write_report(both, tmp_path / "page.html")
    assert "emulated" in both.format()


def test_the_command_emulate_saves_a_result(tmp_path: Path) -> None:
    flags = (
        "--nodes 4 --applications 2 --tasks-per-node 1 --interarrival 5 --speedup 200 --processes 2 --json"
    )
    answer = CliRunner().invoke(cli, ["emulate", *flags.split(), "--out", str(tmp_path / "one.npz")])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["provenance"]["emulation"]["processes"] == 2
    assert validate_result(tmp_path / "one.npz") == []


def test_failed_machines_lose_their_tasks_once() -> None:
    faults = gs.Faults.of([1, 6, 3], [30.0, 40.0, 50.0], [45.0, 40.0, 70.0])
    result = emulate(bags(faults=faults), gs.Sparrow(), speedup=100.0)
    check(result)
    assert result.machines["failures"].tolist() == [0, 1, 0, 1, 0, 0, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparrow", "work-stealing"])
def test_killed_processes_lose_their_tasks_once(name: str) -> None:
    """Some processes are killed while others are down or have just restarted."""
    instants = [30.0 + 8.0 * k for k in range(25)]
    faults = gs.Faults.of([5 * k % 24 for k in range(25)], instants, [item + 2.0 for item in instants])
    workload = gs.Workload.bags(applications=5, interarrival=40.0, tasks_per_node=1.0, seed=2)
    scenario = gs.Scenario(gs.Platform.desktop_grid(nodes=24, seed=1), workload, seed=3, faults=faults)
    result = emulate(scenario, make_scheduler(name), speedup=50.0, kill=True, processes=4)
    assert validate_result(result) == []
    assert result.provenance["emulation"]["kills"] >= 10 and result.applications["resubmitted"].sum() > 0


class FaultyNode(gs.NodeProgram):
    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks + 1)


class FaultyScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "faulty"
    policy = FaultyNode


def test_an_error_of_a_node_ends_the_run_and_its_processes() -> None:
    before = processes(1, os.getpid())  # other tests may have running processes
    with pytest.raises(gs.SchedulerError, match="places .* tasks of application"):
        emulate(bags(), FaultyScheduler(), speedup=200.0)
    assert processes(1, os.getpid()) == before


@pytest.mark.parametrize(
    "scheduler, options, message",
    [
        (gs.MinCent(), {}, "mincent does not support emulation: it has no node program"),
        (gs.Sparrow(), {"speedup": 1e300}, r"speedup must be at most 1e\+06, got 1e\+300"),
        (gs.Sparrow(), {"host": "0.0.0.0"}, "host"),
        (gs.Sparrow(), {"kill": True}, "faults"),
        (gs.Sparrow(), {"processes": 9}, "at most 8"),
        (gs.Sparrow(), {"speedup": 0.0}, "speedup"),
        (gs.WqrFt(), {"work": "spin"}, "sleep"),
        (
            gs.DgsAsap(),
            {"work": "spin"},
            "work must be 'sleep' for dgs-asap, whose nodes have no task queues",
        ),
    ],
)
def test_unsupported_emulations_are_rejected(
    scheduler: gs.Scheduler, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        emulate(equal_machines() if scheduler.rigid else bags(), scheduler, **options)


@pytest.mark.parametrize(
    "scheduler, faults, message",
    [
        (
            gs.WqrFt(machine_choice="avail"),
            gs.Faults.of([1], [5.0], [9.0]),
            "kill .* foresee failures of single machines",
        ),
        (
            gs.WqrFt(),
            gs.Faults.of([1], [5.0], [9.0], reachable=True),
            "kill does not support faults.reachable",
        ),
    ],
)
def test_failures_that_are_known_or_harmless_kill_no_process(
    scheduler: gs.Scheduler, faults: gs.Faults, message: str
) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        emulate(bags(faults=faults), scheduler, kill=True)


class ForeignEventsNode(gs.NodeProgram):
    """A node that handles the events of several machines."""

    def on_idle(self, view: Any) -> None: ...


class DistantScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    name = "distant"
    roles: ClassVar[dict[str, gs.Role]] = {"waiting": gs.Role(ForeignEventsNode, count=2, releases=True)}


def test_events_of_other_machines_are_not_emulated() -> None:
    with pytest.raises(
        gs.ScenarioError, match="distant does .*: node 1 on machine 4 handles the events of machine 1"
    ):
        emulate(bags(), DistantScheduler())


def setup(**further: Any) -> Setup:
    options: dict[str, Any] = {"scenario": bags(), "scheduler": gs.Sparrow(), "processes": 2, "speedup": 1.0}
    options |= {"modelled": True, "spin": False, "kill": False, "secret": b""}
    return Setup(**(options | further))


class UnencodableError(Exception):
    """Error whose text cannot be encoded."""

    def __str__(self) -> str:
        return "half \ud800"


class UnprintableError(Exception):
    """Error whose text cannot be computed."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("what", [UnencodableError(), UnprintableError(), None])
def test_a_worker_reports_only_the_error_after_a_failure(what: Exception | None) -> None:
    worker, sent = Worker(setup(), 0, 0), list[bytes]()
    worker.control = SimpleNamespace(write=sent.append)  # type: ignore[assignment]
    if what is None:
        worker.tell("note", object())
    else:
        worker._fail(what)
    worker.report()
    (record,) = msgspec.msgpack.decode(sent[0][4:])
    kind = "TypeError" if what is None else type(what).__name__
    assert record[:2] == ["error", kind] and len(sent) == 1 and not worker.pending_reports


def test_invalid_messages_from_other_processes_are_rejected() -> None:
    core = Worker(setup(), 0, 0).core
    task = core.mail.wire["task"].type
    good: dict[str, Any] = {"node": 1, "sender": 7, "_due": 0, "_start": 0, "_incarnation": 0, "_move": 0}
    good |= {"_tasks": ((2, 3),), "application": 0, "tasks": 1}
    core.mail.receive(task(**good))
    for wrong in (
        {"node": 7},
        {"node": -1},
        {"sender": 8},
        {"application": 3},
        {"tasks": 10**9},
        {"tasks": -1},
        {"_tasks": ()},
        {"_tasks": ((-1, 0),)},
        {"_tasks": ((10**6, 10**6 + 1),)},
        {"_tasks": ((3, 2), (2, 4))},
    ):
        with pytest.raises(msgspec.ValidationError):
            core.mail.receive(task(**(good | wrong)))
    assert core.next_instant() < NEVER and core.unqueued_tasks[0].parts == [(2, 3)]


def test_invalid_board_values_from_other_processes_are_rejected() -> None:
    without, core = (
        Worker(setup(scheduler=scheduler), 0, 0).core for scheduler in (gs.Sparrow(), gs.JoinShortestQueue())
    )
    core.receive_fact("board", [7, 0, 1.0, 0])
    for location, values in (
        (without, [7, 0, 1.0, 0]),
        (core, [7, 0, 1.0]),
        (core, [8, 0, 1.0, 0]),
        (core, [-1, 0, 1.0, 0]),
        (core, [0.5, 0, 1.0, 0]),
        (core, [7, 1, 1.0, 0]),
        (core, [7, 0, float("nan"), 0]),
        (core, [7, 0, 1.0, 2]),
    ):
        with pytest.raises(msgspec.ValidationError):
            location.receive_fact("board", values)
    assert len(core.incoming) == 1 and not without.incoming


@pytest.fixture
def child() -> Iterator[int]:
    """Return the number of an ended process (a zombie)."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    yield pid
    with pytest.raises(ChildProcessError):  # the process was already waited for
        os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize("number", [0, 1, 99, -1])
def test_connections_with_unexpected_greetings_are_closed(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    run = Coordinator(setup(), None)
    run.peers = {0: Peer(-1, 0), 1: Peer(-1, 1)}
    closed, sent = list[str](), bytearray()
    transport = SimpleNamespace(
        is_closing=lambda: bool(closed), abort=lambda: closed.append("abort"), write=sent.extend
    )

    async def connect() -> Conversation:
        run.peers[0].connection = before = run._accept()  # process 1 is in its second incarnation
        connection = run._accept()
        connection.connection_made(transport)
        introduction = Introduction(run.setup.secret, number, 0, 1)
        connection.data_received(introduction.greeting(bytes(sent[4:])))
        connection.connection_lost(None)
        return before

    before = asyncio.run(connect())
    assert closed and len(caplog.records) == 1 and run.failure is None
    assert run.peers[0].connection is before and run.peers[1].connection is None


def test_a_process_that_ends_before_it_connects_is_an_error(child: int) -> None:
    run = Coordinator(setup(), None)
    run.peers = {0: Peer(child, 0)}
    run._reap()
    run._kill(run.peers[0])  # no process is killed, since its number may have been reused
    assert "process 0 of the emulation ended" in str(run.failure) and not run.killed_pids


def test_a_run_continues_after_it_kills_a_process(child: int) -> None:
    run = Coordinator(setup(), None)
    run.peers = {0: Peer(child, 0)}
    run._kill(run.peers[0])
    run._reap()
    assert run.failure is None and not run.killed_pids


def test_a_closed_connection_is_an_error_unless_its_process_was_killed() -> None:
    run = Coordinator(setup(), None)
    run.peers = {0: Peer(-1, 0), 1: Peer(-1, 1)}
    run.on_left(0, 1, 0)  # the closed connection is that of the previous incarnation
    run.peers[1].dead = True
    run.on_left(0, 1, 1)
    assert run.failure is None
    run.on_left(1, 0, 0)
    assert "process 0 of the emulation has closed its connection to process 1" in str(run.failure)


def test_a_restarted_process_learns_of_failures_while_it_connects() -> None:
    run = Coordinator(setup(), None)
    run.peers = {0: Peer(-1, 0), 1: Peer(-1, 1)}
    run._change([2], [])
    sent = bytearray()
    connection: Any = SimpleNamespace(transport=SimpleNamespace(write=sent.extend))
    run._greet(connection, Greeting(b"", bytes(32), 1, 1, 5000))
    commands = msgspec.msgpack.decode(sent[4 : 4 + int.from_bytes(sent[:4], "big")])
    assert commands == [["faults", [2], [], 0]]


def test_no_process_is_killed_after_the_end_of_a_run() -> None:
    run, late = Coordinator(setup(), None), list[int]()
    run.engine.start(time.monotonic_ns())
    run.engine.call_at(0, late.append, 1)
    run.closing = True
    run._handle_reports(SimpleNamespace(process=0), [])
    assert not late and run.failure is None


@pytest.mark.parametrize("before", [5.0, 1e-6])
def test_a_run_ends_although_a_process_is_killed_just_before(before: float) -> None:
    """The clock of the run begins with the first release, at 100 s of the workload."""
    scheduler = make_scheduler("dgs-asap", RIGID["dgs-asap"])
    jobs = gs.Workload.jobs_of([100.0], [1], [20.0])
    scenario = gs.Scenario(gs.Platform.equal(4), jobs, seed=3)
    simulated = gs.simulate(scenario, scheduler, record=True)
    (host,), (end,) = simulated.tables["schedule"]["machine"], simulated.applications["finish"]
    other = (int(host) + 2) % 4
    faults = gs.Faults.of([other], [100.0 + end - before], [1000.0])
    result = emulate(replace(scenario, faults=faults), scheduler, speedup=10.0, kill=True, time_limit=300.0)
    check(result)
    assert result.machines["failures"].sum() == 2


def test_a_run_ends_although_a_process_stays_down() -> None:
    faults = gs.Faults.of([1], [25.0], [float("inf")])
    result = emulate(bags(faults=faults), gs.Sparrow(), speedup=200.0, kill=True, time_limit=600.0)
    check(result)
    assert result.machines["failures"].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_a_run_ends_with_an_error_if_no_process_stays_up() -> None:
    faults = gs.Faults.of([1, 6], [3.0, 4.0], [float("inf")] * 2)
    with pytest.raises(gs.ScenarioError, match="faults must leave a process up"):
        emulate(bags(faults=faults), gs.Sparrow(), speedup=200.0, kill=True, time_limit=600.0)


def processes(field: int, number: int) -> list[int]:
    """Return processes with this parent (field 1) or group (field 2), including zombies."""
    actual = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[field]) == number:
            actual.append(int(stat.parent.name))
    return actual


EMULATE = """
import signal
import gridsim as gs
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what a shell runs in the background ignores
workload = gs.Workload.bags(applications=3, interarrival=20.0, tasks_per_node=1.0, seed=2)
gs.emulate(gs.Scenario(gs.Platform.desktop_grid(nodes=8, seed=1), workload, seed=3), gs.Sparrow())
"""


@pytest.fixture
def emulation_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start an emulation of two processes in its own process group, outside of the source tree."""
    environment = {**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", EMULATE],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    ) as process:
        try:
            wait_for(lambda: len(processes(2, process.pid)) == 3)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_ctrl_c_leaves_no_process_behind(emulation_process: subprocess.Popen[str]) -> None:
    time.sleep(0.3)
    os.killpg(emulation_process.pid, signal.SIGINT)
    _, message = emulation_process.communicate(timeout=60)
    assert "KeyboardInterrupt" in message and emulation_process.returncode != 0
    wait_for(lambda: not processes(2, emulation_process.pid))


def test_processes_end_with_the_coordinator(emulation_process: subprocess.Popen[str]) -> None:
    emulation_process.kill()
    emulation_process.wait()
    wait_for(lambda: not processes(2, emulation_process.pid))


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    until = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)
