"""An interrupted run resumes from its checkpoint, and ends like an uninterrupted one.

`check_scheduler` tests this for every scheduler and scenario.  The tests here cover the file, processes that
are killed, and invalid checkpoints.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.provenance import code_version
from tests._helpers.checkpoints import edit_checkpoint
from tests.golden.test_golden_digests import CASES, EVERY
from tests.golden.test_golden_digests import scenario as golden_scenario


class InterruptError(Exception):
    """Exception that interrupts a run."""


def interrupt_at(
    path: Path, wave: int, scenario: gs.Scenario, scheduler: gs.Scheduler, **options: Any
) -> None:
    """Run up to a wave, or to the last one before the end, save a checkpoint there, and stop."""
    for _ in range(2):
        simulation = Simulation(scenario, scheduler, Options(**options))
        interruption = Interruption(simulation, path, wave)
        simulation.engine.at_wave_end(interruption)
        try:
            simulation.run()
        except InterruptError:
            break
        wave = interruption.waves - 1  # no checkpoint is possible at the last wave
    assert path.exists()


class Interruption:
    """Handler of wave ends that saves a checkpoint at one wave, and interrupts the run there."""

    def __init__(self, simulation: Simulation, path: Path, last: int) -> None:
        self.simulation, self.path, self.last, self.waves = simulation, path, last, 0

    def __call__(self) -> None:
        self.waves += 1
        if self.waves == self.last:
            save(self.path, self.simulation, self.simulation.checkpoint_header(600.0))
            raise InterruptError


#: Cases of each scheduler: with failures, jitter, and queues, and without any of these.
SELECTED = [
    case
    for case in CASES
    if case.split("; ", 1)[1]
    in ("fifo; no failures", "jitter; outages", "equal; outages", "fifo; resets", "fifo; nights")
    and case not in ("fair-tree, to the end; fifo; resets", "fair-tree, to the end; jitter; outages")
    or case == "migration-linger; fifo; outages"
]


#: One case of each kind of policy; the remaining cases are slow.
FAST = {
    f"{name}; fifo; {'outages' if name.startswith('migration') else 'resets'}"
    for name in (
        "fair-tree, on change", "dgs-asap, pull", "wqr-ft", "backfill", "expanding-ring", "migration-linger",
    )
}  # fmt: skip


def test_the_fast_cases_are_among_the_selected_ones() -> None:
    assert set(SELECTED) > FAST


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in SELECTED]
)
def test_a_resumed_run_ends_like_the_uninterrupted_one(case: str, tmp_path: Path) -> None:
    name, network, faults = CASES[case]
    scenario = golden_scenario(name, network, faults)
    scheduler = EVERY[name]
    uninterrupted = gs.simulate(scenario, scheduler, record=True)
    file = tmp_path / "run.checkpoint"
    for wave in (1, 40):
        interrupt_at(file, wave, scenario, scheduler, record=True)
        resumed = gs.resume(file)
        assert resumed.digest == uninterrupted.digest and resumed.tables == uninterrupted.tables
        assert resumed.provenance["events"] == uninterrupted.provenance["events"]
        assert resumed.provenance["resumed"] == 1 and resumed.scheduler == uninterrupted.scheduler


def test_other_cohorts_and_threads_do_not_change_resumed_runs(tmp_path: Path) -> None:
    scenario, scheduler = golden_scenario("fair-tree", "equal", "outages"), EVERY["fair-tree"]
    uninterrupted = gs.simulate(scenario, scheduler)
    file = tmp_path / "run.checkpoint"
    for options in ({"cohort_limit": 2}, {"threads": 2}):
        interrupt_at(file, 12, scenario, scheduler, **options)
        for threads in (1, 2):
            assert gs.resume(file, threads=threads).digest == uninterrupted.digest


def test_writing_checkpoints_does_not_change_the_result(tmp_path: Path) -> None:
    scenario, scheduler = golden_scenario("fair-tree", "equal", "outages"), EVERY["fair-tree"]
    file = tmp_path / "run.checkpoint"
    checkpoint_file = gs.simulate(scenario, scheduler, checkpoint=file, checkpoint_every=0.0)
    assert checkpoint_file.digest == gs.simulate(scenario, scheduler).digest
    assert checkpoint_file.provenance["resumed"] == 0
    # the checkpoint that remains is of the last wave before the end
    resumed = gs.resume(file)
    assert resumed.digest == checkpoint_file.digest and resumed.provenance["wall_seconds"] > 0.0
    assert gs.resume(file).digest == checkpoint_file.digest
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint"]


def test_repeatedly_resumed_runs_have_the_same_digest(tmp_path: Path) -> None:
    """Each run continues from the checkpoint of the previous one for a few waves."""
    scenario = golden_scenario("fair-tree", "jitter", "outages")
    scheduler = EVERY["fair-tree, on change"]
    uninterrupted = gs.simulate(scenario, scheduler)
    file = tmp_path / "run.checkpoint"
    interrupt_at(file, 2, scenario, scheduler)
    for _ in range(6):
        simulation = Simulation(scenario, scheduler, Options())
        with Checkpoint(file) as checkpoint_file:
            checkpoint_file.restore(simulation)
        simulation.engine.at_wave_end(Interruption(simulation, file, 1))
        with pytest.raises(InterruptError):
            simulation.run()
    assert gs.resume(file).digest == uninterrupted.digest


# -- processes that are killed ------------------------------------------------------------------------------

LONG = ["--nodes", "200", "--applications", "40", "--seed", "5", "--no-progress"]


def start_command(*arguments: object, cwd: Path, **options: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", "gridsim", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def json_output(process: Any) -> Any:
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return json.loads(stdout)


def kill_and_resume(count: int, folder: Path, scheduler: str, draw: random.Random) -> None:
    """Kill `count` runs at random times, and resume each until its end."""
    uninterrupted = json_output(start_command("run", *LONG, "--scheduler", scheduler, "--json", cwd=folder))
    duration = uninterrupted["wall_seconds"]
    killed = 0
    while killed < count:
        for file in folder.iterdir():
            file.unlink()
        process = start_command(
            "run", *LONG, "--scheduler", scheduler, "--checkpoint-every", "0", "--json", cwd=folder
        )
        file = folder / "gridsim.checkpoint"
        while not file.exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(0.0, 2.0 * duration))  # writing checkpoints takes time, too
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == 0:
            continue  # the run ended before the signal
        killed += 1
        end = json_output(start_command("resume", "gridsim.checkpoint", "--json", cwd=folder))
        assert end["digest"] == uninterrupted["digest"]
        assert end["provenance"]["resumed"] == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_can_be_resumed(tmp_path: Path) -> None:
    kill_and_resume(3, tmp_path, "fair-tree", random.Random(1))


@pytest.mark.claims
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("scheduler", ["fair-tree", "mincent-once"])  # runs of other schedulers end too soon
def test_twenty_killed_runs_can_be_resumed(scheduler: str, tmp_path: Path) -> None:
    kill_and_resume(20, tmp_path, scheduler, random.Random(2))


SAVE_REPEATEDLY = """
import sys, gridsim as gs
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.support.provenance import code_version
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
with Checkpoint(sys.argv[1]) as checkpoint_file:
    header = checkpoint_file.header
    simulation = Simulation(
        gs.Scenario.from_toml(header.scenario), gs.FairTree(), Options()
    )
    checkpoint_file.restore(simulation)
print("ready", flush=True)
while True:
    save(sys.argv[1], simulation, header)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_during_writing_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    """The process only writes checkpoints; at any moment the file is the old or the new one, complete."""
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=300, seed=1), gs.Workload.bags(20, interarrival=4.0, seed=2), seed=3
    )
    uninterrupted = gs.simulate(scenario, gs.FairTree()).digest
    file, draw = tmp_path / "run.checkpoint", random.Random(4)
    interrupt_at(file, 25, scenario, gs.FairTree())
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_REPEATEDLY, str(file)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(draw.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
        with Checkpoint(file) as checkpoint_file:
            assert checkpoint_file.header.resumed == 0
        assert gs.resume(file).digest == uninterrupted
        assert list(tmp_path.iterdir()) == [file]  # temporary files are removed


# -- invalid checkpoints ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("checkpoint_file") / "run.checkpoint"
    interrupt_at(file, 20, golden_scenario("fair-tree", "fifo", "outages"), EVERY["fair-tree"])
    return file


def test_wrong_checkpoints_and_schedulers_are_rejected_at_once(checkpoint_file: Path, tmp_path: Path) -> None:
    with pytest.raises(gs.ScenarioError, match="^scheduler"):
        gs.resume(checkpoint_file, scheduler=gs.FairTree)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="not a regular file"):
        gs.simulate(golden_scenario("fair-tree", "fifo", "outages"), gs.Fcfs(), checkpoint=tmp_path)
    with pytest.raises(gs.ScenarioError, match="^checkpoint"):
        gs.simulate(golden_scenario("fair-tree", "fifo", "outages"), gs.Fcfs(), checkpoint="")


def test_any_damage_of_a_checkpoint_is_detected_at_once(checkpoint_file: Path, tmp_path: Path) -> None:
    good, bad = checkpoint_file.read_bytes(), tmp_path / "bad.checkpoint"
    draw = random.Random(3)
    for _ in range(40):
        damaged = bytearray(good)
        damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        bad.write_bytes(damaged)
        with pytest.raises(gs.GridSimError, match=f"^{re.escape(str(bad))}: not a valid checkpoint"):
            Checkpoint(bad)
    for length in (0, 10, 30, len(good) // 2, len(good) - 1):
        bad.write_bytes(good[:length])
        with pytest.raises(gs.GridSimError, match=f"^{re.escape(str(bad))}: not a valid checkpoint"):
            Checkpoint(bad)


def with_header(source: Path, target: Path, **changes: Any) -> Path:
    """Write a copy of a checkpoint with changed entries of its document."""
    return edit_checkpoint(source, lambda document: document.update(changes), target)


def test_checkpoints_of_another_version_or_machine_are_rejected(
    checkpoint_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in (("code", "0.1.0+0123456789abcdef"), ("byteorder", "middle"), ("format", 99)):
        with pytest.raises(gs.GridSimError, match=f"{key} of a checkpoint .* got {re.escape(repr(value))}"):
            gs.resume(with_header(checkpoint_file, tmp_path / "other", **{key: value}))
    code_version.cache_clear()
    monkeypatch.setattr(np, "__version__", "9.9.9")
    with pytest.raises(gs.GridSimError, match="code of a checkpoint"):
        gs.resume(checkpoint_file)
    monkeypatch.undo()
    code_version.cache_clear()
    gs.resume(checkpoint_file)


@pytest.mark.parametrize("state", [None, 3, {"state": {}}, {"list": []}, {"what": 1}, {"dict": [[1, 2]]}])
def test_a_checkpoint_without_a_valid_state_is_rejected(
    checkpoint_file: Path, tmp_path: Path, state: Any
) -> None:
    file = with_header(checkpoint_file, tmp_path / "other", state=state)
    with pytest.raises(gs.GridSimError, match="not a valid checkpoint"):
        gs.resume(file)


def entry(state: Any, *path: str) -> Any:
    """Return the entry at `path` of a saved state."""
    for name in path:
        state = state["state"][name]
    return state


def delete(state: Any, *path: str) -> None:
    del entry(state, *path[:-1])["state"][path[-1]]


def replacement(value: Any, *path: str) -> Any:
    def change(state: Any) -> None:
        entry(state, *path[:-1])["state"][path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(
            lambda state, path=path: delete(state, *path)
            for path in (
                ["network"], ["released"], ["policy", "core"], ["policy", "nodes"], ["engine", "now"],
                ["policy", "core", "now"], ["outages", "up"], ["released", "count"],
            )
        ),
        replacement(-1, "engine"),
        replacement(-1, "policy"),
        replacement({"state": {}}, "policy", "core"),
        replacement({"set": [1]}, "policy", "updates"),
        replacement(1.5, "policy", "resubmitted"),
        replacement(5, "policy", "on_release"),
        replacement("boo", "scenario"),
        replacement({"dict": [[1, {"tuple": [0, 0]}]]}, "engine", "periods"),
        replacement(10**12, "outages", "taken"),
        replacement(-1, "outages", "at"),
    ],
)  # fmt: skip
def test_missing_or_wrong_entries_of_a_state_are_rejected(
    checkpoint_file: Path, tmp_path: Path, change: Any
) -> None:
    """The error is one line, and nothing is run."""
    file = edit_checkpoint(checkpoint_file, lambda document: change(document["state"]), tmp_path / "other")
    with pytest.raises(gs.GridSimError, match="other: not a valid checkpoint"):
        gs.resume(file)


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"what": 1}}, {"options": []}, {"options": {"cohort_limit": 0}}, {"files": []},
        {"resumed": None}, {"worked": "x"}, {"scheduler": []}, {"scenario": 3}, {"every": -1.0}, {"more": 1},
        {"scenario": "nodes = "}, {"files": {"none": "x"}},
    ],
)  # fmt: skip
def test_wrong_entries_about_the_run_are_rejected(
    checkpoint_file: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    file = edit_checkpoint(
        checkpoint_file, lambda document: document["about"].update(change), tmp_path / "other"
    )
    with pytest.raises((gs.GridSimError, FileNotFoundError)):
        gs.resume(file)


#: Script that resumes checkpoints in a process that may crash.
RESUME_ALL = """
import sys
import gridsim as gs
for file in sys.argv[1:]:
    try:
        gs.resume(file)
    except gs.GridSimError:
        pass
"""


def test_a_loss_of_an_unknown_application_is_rejected(checkpoint_file: Path, tmp_path: Path) -> None:
    """The number reaches the kernels only in a message; the kernels check it."""
    files = []
    for number in (-1, 9, 2**40):

        def change(document: Any, number: int = number) -> None:
            instant = entry(document["state"], "engine", "now") + 1
            losses = entry(document["state"], "policy", "environment", "recovery", "losses")["dict"]
            losses[:] = [[instant, {"dict": [[number, 3]]}]]

        files.append(edit_checkpoint(checkpoint_file, change, tmp_path / f"{number}"))
    process = subprocess.run(
        [sys.executable, "-c", RESUME_ALL, *files],
        env={**os.environ, "PYTHONPATH": str(Path(gs.__file__).parents[1])},
        cwd=tmp_path,  # outside the source tree, which is not compiled
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, process.stderr) == (0, "")


def test_resuming_with_another_scheduler_is_rejected(checkpoint_file: Path) -> None:
    with pytest.raises(gs.ScenarioError, match="^scheduler"):
        gs.resume(checkpoint_file, scheduler=gs.FairTree(bound=2.0))
    with pytest.raises(gs.ScenarioError, match="^scheduler"):
        gs.resume(checkpoint_file, scheduler=gs.Fcfs())


def test_resuming_with_a_changed_trace_is_rejected(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    line = "{} {} -1 10 1 -1 -1 1 -1 -1 1 1 1 1 -1 -1 -1 -1\n"
    log.write_text("".join(line.format(i, 10 * i) for i in range(1, 9)))
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=9, seed=1),
        gs.Workload.from_log(log, seed=1),
        seed=1,
        faults=gs.Faults.poisson(100.0, 1),
    )
    file = tmp_path / "run.checkpoint"
    interrupt_at(file, 3, scenario, gs.FairTree())
    assert gs.resume(file).digest == gs.simulate(scenario, gs.FairTree()).digest
    log.write_text(log.read_text() + line.format(9, 95))
    with pytest.raises(
        gs.ScenarioError, match=r"log.swf has changed since the run of .*run.checkpoint began"
    ):
        gs.resume(file)


class StatelessScheduler(gs.Scheduler, frozen=True, kw_only=True):
    """Scheduler that does not declare which attributes change."""

    def start(self, run: gs.Run) -> gs.Policy:
        policy = gs.Fcfs().start(run)
        policy.__class__ = type("Forgetful", (type(policy),), {"STATE": None})
        return policy


def test_a_scheduler_without_declared_state_is_rejected_before_the_run(tmp_path: Path) -> None:
    """No checkpoint is written."""
    scenario = golden_scenario("fair-tree", "fifo", "no failures")
    with pytest.raises(gs.SchedulerError, match="Forgetful does not declare the attributes that change"):
        gs.simulate(scenario, StatelessScheduler(), checkpoint=tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_in_a_missing_folder_is_rejected(tmp_path: Path) -> None:
    scenario = golden_scenario("fair-tree", "fifo", "no failures")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        gs.simulate(scenario, gs.Fcfs(), checkpoint=tmp_path / "none" / "file")


@pytest.mark.parametrize("every", [-1.0, float("nan"), "often"])
def test_wrong_intervals_of_checkpoints_are_rejected(every: Any, tmp_path: Path) -> None:
    scenario = golden_scenario("fair-tree", "fifo", "no failures")
    with pytest.raises(gs.ScenarioError, match="^checkpoint_every"):
        gs.simulate(scenario, gs.Fcfs(), checkpoint=tmp_path / "file", checkpoint_every=every)


# -- user node programs --------------------------------------------------------------------------------------


def test_only_plain_attributes_of_nodes_are_saved(tmp_path: Path) -> None:
    class Node(gs.NodeProgram):
        def on_start(self, view: Any) -> None:
            self.seen: dict[tuple[int, str], list[Any]] = {}
            self.total, self.set = np.float64(0.0), {3, 1}

        def on_release(self, view: Any, application: Any, tasks: int) -> None:
            self.seen[application.number, "released"] = [application, tasks, view.now]
            self.total += view.random.uniform()
            for neighbour in view.neighbours:
                view.send(neighbour, "ask", application=application.number)
            view.enqueue(application.number, tasks)
            view.timer(self.total, "tick")

        def on_message(self, view: Any, message: Any) -> None:
            self.last = message
            view.timer(view.random.uniform(), "tick")

        def on_timer(self, view: Any, name: str) -> None:
            if hasattr(self, "last") and view.random.uniform() < 0.5:
                view.send(self.last.sender, "ask", application=self.last.application)

    class MessagingScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
        name = "asks"
        policy = Node
        messages = {"ask": gs.Message(100, application=int)}
        timers = ("tick",)

    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=9, seed=1),
        gs.Workload.bags(4, interarrival=5.0, tasks_per_node=2.0, task_size=9000.0, seed=2),
        seed=3,
        faults=gs.Faults.of([2, 5], [6.0, 9.0], [6.0, 15.0]),
    )
    uninterrupted = gs.simulate(scenario, MessagingScheduler())
    assert uninterrupted.messages["sent"][0] > 50
    for wave in (3, 20, 50):
        interrupt_at(tmp_path / "file", wave, scenario, MessagingScheduler())
        assert gs.resume(tmp_path / "file", scheduler=MessagingScheduler()).digest == uninterrupted.digest
    with pytest.raises(gs.ScenarioError, match="not registered: pass it as scheduler="):
        gs.resume(tmp_path / "file")

    class OpaqueNode(Node):
        def on_start(self, view: Any) -> None:
            super().on_start(view)
            self.stream = sys.stdout

    class OpaqueScheduler(MessagingScheduler, frozen=True, kw_only=True):
        policy = OpaqueNode

    with pytest.raises(gs.SchedulerError, match=r"nodes\[0\]\['stream'\] cannot be saved"):
        gs.simulate(scenario, OpaqueScheduler(), checkpoint=tmp_path / "opens", checkpoint_every=0.0)
    assert not (tmp_path / "opens").exists()


# -- errors in user code -------------------------------------------------------------------------------------


class LateFailureNode(gs.NodeProgram):
    """Node that fails at the third application."""

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        if application.number == 2:
            raise ValueError("error in user code")
        view.enqueue(application.number, tasks)


class LateFailureScheduler(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = LateFailureNode


def test_an_error_in_user_code_is_not_reported_as_damage(tmp_path: Path) -> None:
    """The error keeps its traceback in a resumed run; a state that cannot be restored is still damage."""
    scenario = gs.Scenario(gs.Platform.desktop_grid(nodes=9, seed=1), gs.Workload.bags(4, seed=2))
    file = tmp_path / "file"
    with pytest.raises(ValueError, match="^error in user code\n"):
        gs.simulate(scenario, LateFailureScheduler(), checkpoint=file, checkpoint_every=0.0)
    with pytest.raises(ValueError, match="^error in user code\n"):
        gs.resume(file, scheduler=LateFailureScheduler())
    with pytest.raises(gs.GridSimError, match="other: not a valid checkpoint"):
        gs.resume(with_header(file, tmp_path / "other", state={}), scheduler=LateFailureScheduler())
