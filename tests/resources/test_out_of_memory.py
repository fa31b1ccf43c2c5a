"""Without memory, kernels raise MemoryError and stay valid, and commands report it in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import OutOfMemory
from gridsim.studies.execution.cell import Cell, measure
from gridsim.studies.execution.run_cells import run_cells
from gridsim.support.imports import import_extra
from gridsim.support.processes import Processes
from tests.resources.memory_cases import CASES, QUICK

pytestmark = pytest.mark.slow

#: Kernels that allocate memory only through numpy.
WITHOUT = {"dgs.overlay"}


def check(lines: list[str], cases: Any) -> set[str]:
    """Check that no case is wrong, and return the kernels in which allocations failed."""
    actual = [json.loads(line) for line in lines]
    assert [entry["case"] for entry in actual] == list(cases)
    assert [entry["wrong"] for entry in actual if entry["wrong"]] == []
    return {site.partition("+")[0] for entry in actual for site in entry["sites"]}


def test_a_failed_allocation_raises_only_a_memory_error(run_counted: Any) -> None:
    """Wherever it fails, no memory leaks, no array is overrun, and later calls do not crash."""
    kernels = check(run_counted("failing.py", *QUICK), QUICK)
    assert kernels >= {"queues.edf", "queues.availability", "queues.task_queues", "network.links"}
    assert kernels >= {"fair_tree.summaries", "fair_tree.summary_tree", "fair_tree.nodes", "dgs.slots"}
    assert kernels >= {"dgs.nodes", "work_queue.dispatch", "random_walk.walk", "rigid_queue.batch_queue"}
    assert kernels >= {"centralized.earliest_ends", "centralized.pull_queue", "centralized.mapping"}


@pytest.mark.claims
def test_failed_allocations_raise_memory_errors_in_every_scheduler(run_counted: Any) -> None:
    kernels = check(run_counted("failing.py"), CASES)
    assert len(kernels | WITHOUT) == 28, "each kernel has an allocation that failed"


class MemoryErrorScheduler(gs.Scheduler, frozen=True):
    """Scheduler that runs out of memory at its start."""

    name = "greedy"

    def start(self, run: Any) -> Any:
        raise MemoryError("no room")


def scenario(nodes: int = 5, **rest: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes=nodes, seed=1), gs.Workload.bags(2, interarrival=1.0, seed=1, **rest)
    )


def test_a_store_does_not_keep_runs_that_ran_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may have enough memory, so later studies run them again."""
    measured = measure(Cell(scenario(), MemoryErrorScheduler()))
    assert measured.lost and measured.error == "MemoryError: no room"
    monkeypatch.setattr(gs.Fcfs, "start", MemoryErrorScheduler.start)
    store = gs.Store(tmp_path / "store")
    actual = gs.sweep(scenario(), {"fcfs": gs.Fcfs(), "met": gs.Met()}, {}, replicates=2, store=store)
    assert {error for error in actual.errors} and len(store) == 2
    monkeypatch.undo()
    second = gs.sweep(scenario(), {"fcfs": gs.Fcfs(), "met": gs.Met()}, {}, replicates=2, store=store)
    assert not second.errors and len(store) == 4


def test_scenarios_beyond_the_memory_are_rejected_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridsim.support.memory.memory", lambda: 10**9)
    with pytest.raises(
        MemoryError, match=r"platform.nodes: 6000000 machines take at least 1.2 GB, but only 1.0"
    ):
        gs.simulate(scenario(6_000_000), gs.Fcfs())
    with pytest.raises(OutOfMemory, match=r"workload.applications: 6000000 applications"):
        work = gs.Workload.bags(6_000_000, interarrival=1.0, seed=1)
        gs.simulate(gs.Scenario(gs.Platform.desktop_grid(nodes=5, seed=1), work), gs.Fcfs())
    with pytest.raises(gs.GridSimError, match=r"workload.spread: \d+ tasks of different sizes"):
        gs.simulate(scenario(tasks_per_node=1e8, spread=gs.Normal(0.5)), gs.WqrFt())
    answers = CliRunner().invoke(cli, ["run", "--nodes", "1000000000"])
    assert answers.exit_code == 2 and answers.stderr.count("\n") == 1
    assert answers.stderr.startswith(
        "gridsim: not enough memory for platform.nodes: 1000000000 machines take"
    )


def run(folder: Path, first: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in another process, after the code `first`."""
    return subprocess.run(
        [sys.executable, "-c", f"{first}\nfrom gridsim.cli.main import main\nmain()", *command],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux")
def test_a_command_without_memory_prints_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (700 << 20,) * 2)"
    command = ["run", "--nodes", "3000000", "--applications", "2", "--scheduler", "fcfs", "--out", "r.npz"]
    answer = run(tmp_path, limit, *command)
    assert answer.returncode == 2 and answer.stdout == ""
    assert (
        answer.stderr.startswith("gridsim: not enough memory: Unable to allocate")
        and answer.stderr.count("\n") == 1
    )
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_fails_to_load_is_reported_as_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "libarrow.so: failed to map segment from shared object"

    def load(*arguments: Any, **options: Any) -> Any:
        raise ImportError(message)

    monkeypatch.setattr("gridsim.simulation.simulate.simulate", load)
    answers = CliRunner().invoke(cli, ["run", "--nodes", "5"])
    assert answers.exit_code == 2 and answers.stderr == f"gridsim: not enough memory: {message}\n"
    message = "cannot import name 'nothing'"
    assert isinstance(CliRunner().invoke(cli, ["run", "--nodes", "5"]).exception, ImportError)


@pytest.mark.parametrize(("module", "library"), [("scipy.stats", "scipy"), ("pyarrow", "pyarrow")])
def test_a_library_is_not_loaded_without_enough_address_space(
    module: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a small address space, OpenBLAS retries forever while it is loaded, and Arrow crashes."""
    pytest.importorskip(module)
    monkeypatch.setattr("gridsim.support.memory.free_address_space", lambda: 399_000_000)
    # with enough memory the library is imported
    assert import_extra(module, "data", "this").__name__ == module
    monkeypatch.delitem(sys.modules, module)
    with pytest.raises(OutOfMemory, match=f"memory for {library}: it takes 400 MB .* 399 MB are"):
        import_extra(module, "data", "this")


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux")
@pytest.mark.parametrize("megabytes", [400, 600])
def test_a_study_without_address_space_reports_lack_of_memory(tmp_path: Path, megabytes: int) -> None:
    """SciPy does not fit into the first address space, and Arrow does not fit into the second."""
    pytest.importorskip("scipy")
    pytest.importorskip("pyarrow")
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2)"
    scenario(8).save(tmp_path / "scenario.toml")
    (tmp_path / "sweep.toml").write_text(
        'scenario = "scenario.toml"\nschedulers = ["fcfs"]\nreplicates = 2\n'
    )
    answer = run(tmp_path, limit, "sweep", "sweep.toml", "--workers", "2")
    assert answer.returncode == 2 and answer.stdout == "" and answer.stderr.count("\n") == 1, answer.stderr
    assert answer.stderr.startswith("gridsim: not enough memory for ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scenario.toml", "sweep.toml"]


def cannot_start(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make threads with `name` in their names fail to start."""
    start = threading.Thread.start

    def refuse_thread(thread: threading.Thread) -> None:
        if name in f"{type(thread).__name__} {thread.name}":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_thread)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("choice", ["Thread-", "ExecutorManager", "QueueFeeder"])
def test_a_study_ends_if_threads_of_its_pool_cannot_start(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever thread cannot start, the study ends with all its workers."""
    cannot_start(monkeypatch, choice)
    if choice != "Thread-":
        monkeypatch.setattr("gridsim.support.processes._check_threads", lambda: None)
    answers: list[Any] = []
    workers: list[Any] = []
    expected = pytest.raises(OutOfMemory, match="not enough memory for .*a pool of workers")
    with expected, Processes(2) as executor:
        try:
            run_cells([Cell(scenario(), gs.Fcfs())] * 3, answers.extend, executor=executor)
        finally:
            workers += (executor._pool._processes or {}).values()
    assert answers == []
    for worker in workers:
        worker.join(20)
        assert worker.exitcode is not None
    assert bool(workers) == (choice != "Thread-")


def test_a_worker_that_cannot_start_a_thread_exits_silently(tmp_path: Path) -> None:
    worker = """
import threading
from gridsim.support.processes import _initialize_worker
def no(*_):
    raise RuntimeError("can't start new thread")
threading.Thread.start = no
_initialize_worker(None)
"""
    answer = run(tmp_path, worker)
    assert answer.returncode == 1 and answer.stdout == answer.stderr == ""


#: Code that limits the memory to slightly more than is in use after the first checkpoint.
NO_MORE = """
import resource
from gridsim.simulation import checkpoint
save = checkpoint.save
def last(*arguments, **how):
    kept = save(*arguments, **how)
    checkpoint.save = save
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20),) * 2)
    return kept
checkpoint.save = last
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux")
def test_a_run_without_memory_can_be_resumed_with_more(tmp_path: Path) -> None:
    command = ["run", "--nodes", "20000", "--applications", "50", "--scheduler", "fcfs", "--record"]
    kept = ["--checkpoint", "kept", "--checkpoint-every"]
    # a single early checkpoint, since a second one might cause the first warning
    cut = run(tmp_path, NO_MORE, *command, *kept, "0", "--out", "cut.npz")
    assert cut.returncode == 2 and cut.stdout == ""
    *warned, message = cut.stderr.splitlines()
    assert message.startswith("gridsim: not enough memory")
    assert message.endswith("; the run is saved in kept; gridsim resume continues it")
    assert warned in (
        [],
        ["gridsim: warning: kept: no checkpoint could be written (not enough memory); the run continues"],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert run(tmp_path, "", "resume", "kept", "--checkpoint-every", "600", "--out", "r.npz").returncode == 0
    assert run(tmp_path, "", *command, "--out", "whole.npz").returncode == 0
    assert gs.Result.load(tmp_path / "r.npz").digest == gs.Result.load(tmp_path / "whole.npz").digest


def test_a_run_continues_without_memory_for_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_memory_error(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("gridsim.simulation.checkpoint.save", raise_memory_error)
    with pytest.warns(
        gs.CheckpointWarning, match=r"kept: no checkpoint .* \(not enough memory\); the run continues"
    ):
        outcome = gs.simulate(scenario(), gs.Fcfs(), checkpoint=tmp_path / "kept", checkpoint_every=0)
    assert outcome.digest == gs.simulate(scenario(), gs.Fcfs()).digest
