"""Cells, their keys, and the executors that run them."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import nullcontext
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.studies.execution import keys
from gridsim.studies.execution import run_cells as execution
from gridsim.studies.execution.cell import Cell, RunRecord, measure
from gridsim.studies.execution.keys import Keys
from gridsim.studies.execution.run_cells import run_cells
from gridsim.studies.execution.run_executor import RunExecutor
from gridsim.studies.replicate import replication
from gridsim.support.processes import Processes
from gridsim.support.provenance import code_version, digest_of_sources


def small_scenario(seed: int = 1, **changes: object) -> gs.Scenario:
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=seed)
    return dataclasses.replace(gs.Scenario(gs.Platform.pareto(6, seed), workload, seed=seed), **changes)


def make_cells(count: int) -> list[Cell]:
    schedulers = [gs.Fcfs(), gs.FairTree()]
    return [Cell(replication(small_scenario(), k // 2), schedulers[k % 2]) for k in range(count)]


def collected_runs(cells: list[Cell], **options: object) -> list[RunRecord]:
    actual: dict[int, RunRecord] = {}

    def report(over: list[tuple[int, RunRecord]]) -> None:
        for number, measured in over:
            assert number not in actual
            actual[number] = measured

    run_cells(cells, report, **options)
    assert sorted(actual) == list(range(len(cells)))
    return [actual[number] for number in range(len(cells))]


FATAL = """
import os, signal
from pathlib import Path
import gridsim as gs

class Fatal(gs.Scheduler, frozen=True, kw_only=True):
    "Ends its process, or fails; where there is `once`, only before that file is there."
    name = "fatal"
    how: str = "kill"
    once: str = ""

    def start(self, run):
        if not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "exit":
                raise SystemExit(3)
            if self.how == "speechless":
                raise Speechless
            raise ZeroDivisionError("as asked for " + chr(0xD800))
        return gs.Fcfs().start(run)

class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("asked for its text")

def speechless(result):
    raise Speechless
"""


@pytest.fixture
def fatal_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a scheduler class in a module that workers can import."""
    (tmp_path / "fatal_scheduler.py").write_text(FATAL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fatal_scheduler", raising=False)
    return importlib.import_module("fatal_scheduler").Fatal


# -- keys -------------------------------------------------------------------------------------------------


def response(result: gs.Result) -> float:
    return result.makespan


def test_keys_differ_exactly_if_outcomes_may_differ(tmp_path: Path) -> None:
    base = Cell(small_scenario(), gs.FairTree())
    key = Keys().key
    same = Cell(gs.Scenario.from_toml(small_scenario().to_toml()), gs.FairTree(bound=1), {"makespan": None})
    assert key(base) == key(same)
    parameters = dataclasses.replace(small_scenario(), schedulers={"fair-tree": {"bound": 3.0}})
    assert key(dataclasses.replace(base, scenario=parameters)) == key(base)  # used by the command line alone
    others = [
        dataclasses.replace(base, scheduler=gs.FairTree(bound=1.5)),
        dataclasses.replace(base, scheduler=gs.MinCent()),
        dataclasses.replace(base, scenario=small_scenario(seed=2)),
        dataclasses.replace(base, scenario=dataclasses.replace(small_scenario(), seed=9)),
        dataclasses.replace(
            base, scenario=dataclasses.replace(small_scenario(), network=gs.Network(latency=0.1))
        ),
        dataclasses.replace(base, metrics={"response": response}),
        dataclasses.replace(base, time_limit=10.0),
        dataclasses.replace(base, time_limit=10.25),
    ]
    assert len({key(cell) for cell in [base, *others]}) == len(others) + 1


def test_a_key_depends_on_the_version_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(small_scenario(), gs.FairTree())
    before = Keys().key(cell)
    monkeypatch.setattr(keys, "code_version", lambda: "0.1.0+0123456789abcdef")
    assert Keys().key(cell) != before


def test_a_key_depends_on_the_content_of_files_and_not_on_their_paths(tmp_path: Path) -> None:
    def cell(name: str, speed: int) -> Cell:
        file = tmp_path / name
        head = "cpu_model,computers,avg_cores,gflops_core,gflops_computer\n"
        file.write_text(f"{head}One,30,4.0,{speed},10.0\nTwo,10,1.0,0.5,0.5\n")
        platform = gs.Platform.from_hosts(file, nodes=3, seed=1)
        return Cell(dataclasses.replace(small_scenario(), platform=platform), gs.Fcfs())

    first, second, third = cell("a.csv", 2), cell("b.csv", 2), cell("c.csv", 3)
    keys = Keys()
    assert keys.key(first) == keys.key(second) != keys.key(third)


def test_a_key_depends_on_the_source_of_the_users_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import gridsim as gs
class Mine(gs.Fcfs, frozen=True, kw_only=True):
    name = "mine"
"""
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for more in ("", "    x = 1\n"):
        (tmp_path / "own_scheduler.py").write_text(code + more)
        sys.modules.pop("own_scheduler", None)
        from gridsim.scheduling.registry import import_scheduler

        keys.append(Keys().key(Cell(small_scenario(), import_scheduler("own_scheduler:Mine"))))
    assert keys[0] != keys[1]
    (tmp_path / "own_scheduler.py").unlink()  # the module stays in memory as it was
    assert Keys().key(Cell(small_scenario(), import_scheduler("own_scheduler:Mine"))) == keys[1]
    (tmp_path / "unread_scheduler.py").write_text(code)
    scheduler = import_scheduler("unread_scheduler:Mine")
    (tmp_path / "unread_scheduler.py").unlink()
    with pytest.raises(gs.ScenarioError, match="^mine"):
        Keys().key(Cell(small_scenario(), scheduler))


def test_a_module_that_changed_after_its_import_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise runs of the old code would be stored under the key of the new one."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "changing_metric.py"
    file.write_text("def value(result):\n    return 1.0\n")
    metric = importlib.import_module(file.stem).value
    file.write_text("def value(result):\n    return 20.0\n")
    with pytest.raises(gs.ScenarioError, match="changing_metric.py must be unchanged .* got another value;"):
        Keys().key(Cell(small_scenario(), gs.Fcfs(), {"v": metric}))


def test_a_key_depends_on_the_source_of_the_users_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for factor in (1, 20):
        (tmp_path / "own_metric.py").write_text(
            f"def value(result):\n    return {factor} * result.makespan\n"
        )
        sys.modules.pop("own_metric", None)
        importlib.invalidate_caches()
        keys.append(
            Keys().key(Cell(small_scenario(), gs.Fcfs(), {"v": importlib.import_module("own_metric").value}))
        )
    assert keys[0] != keys[1]


def test_a_key_depends_on_the_name_of_the_users_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = "".join(f"def {name}(result):\n    return {value}\n" for value, name in enumerate("ab"))
    (tmp_path / "own_metrics.py").write_text(code)
    own = importlib.import_module("own_metrics")
    cells = [Cell(small_scenario(), gs.Fcfs(), {"v": metric}) for metric in (own.a, own.b)]
    assert Keys().key(cells[0]) != Keys().key(cells[1])


def test_a_key_depends_on_the_source_of_functions_in_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for more in ("", "x = 1\n"):
        (tmp_path / "own_order.py").write_text(f"def order(tasks):\n    return tasks\n{more}")
        sys.modules.pop("own_order", None)
        importlib.invalidate_caches()
        order = importlib.import_module("own_order").order
        keys.append(Keys().key(Cell(small_scenario(), gs.WqrFt(task_order=order))))
    assert keys[0] != keys[1]


def test_a_key_depends_on_modules_that_the_users_module_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments and docstrings do not count, nor modules that are not imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_package" / "deep").mkdir(parents=True)
    files = {
        "own_package/__init__.py": "",
        "own_package/deep/__init__.py": "",
        "own_package/other.py": "x = 1\n",
        "own_package/value.py": "from .deep import numbers, missing\n\ndef value(result):\n    return 1\n",
        "own_package/deep/numbers.py": "def number():\n    import own_helper\n    return own_helper.x\n",
        "own_helper.py": "import json\nimport numpy, no_such_package\nx = 1\n",
    }
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "own_package" / "deep" / "__init__.py").write_text("missing = 1\n")

    def key() -> str:
        for name in [name for name in sys.modules if name.startswith("own_package")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        metric = importlib.import_module("own_package.value").value
        return Keys().key(Cell(small_scenario(), gs.Fcfs(), {"v": metric}))

    before = key()
    assert "own_helper" not in sys.modules  # a key imports nothing
    for name in files:
        intact = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f'"""Docstring."""\n# comment\n{intact}\n\n')
        assert key() == before, name
        (tmp_path / name).write_text(f"{intact}y = 2\n")
        assert (key() == before) == (name == "own_package/other.py"), name
        (tmp_path / name).write_text(intact)
    (tmp_path / "no_such_package.py").write_text("")
    assert key() != before
    (tmp_path / "no_such_package.py").unlink()
    assert key() == before
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0")
    assert key() != before  # the version of numpy, which a module imports


def test_the_code_version_is_a_digest_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest covers Python files, kernels with declarations and headers, and the version of numpy."""
    sources = digest_of_sources(Path(gs.__file__).parents[1], np.__version__)
    assert code_version() == f"{gs.__version__}+{sources[:16]}"
    intact = 'class A:\n    """What it is."""\n\n    x = "# no comment"  # comment\n'
    counted = [
        "gridsim/engine/a.py", "gridsim/model/in/b.py", "gridsim/errors.py", "gridcore/k.pyx",
        "gridcore/k.pxd", "gridcore/k.h", "gridsim/studies/execution/cell.py",
    ]  # fmt: skip
    others = [
        "gridsim/engine/a.pyc", "gridcore/k.so", "other/a.py", "gridsim/engine/schema.json",
        "gridsim/__init__.py", "gridsim/plots/a.py", "gridsim/cli/a.py", "gridsim/report/a.py",
        "gridsim/studies/sweep.py",
    ]  # fmt: skip
    for name in (*counted, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(intact)

    def digest(numpy: str = "2.0") -> str:
        return digest_of_sources(tmp_path, numpy)

    before = digest()
    assert digest("2.1") != before
    for name in (*counted, *others):
        for change in (("x =", "y ="), ("# no", "# a"), ("    x", "x")):
            (tmp_path / name).write_text(intact.replace(*change))
            assert (digest() == before) == (name in others), name
        for change in (("What it", "What\n\nthis"), ("# comment", ""), ("\n    x", "    # more\n    x")):
            (tmp_path / name).write_text(intact.replace(*change))
            assert digest() == before, name
        (tmp_path / name).write_text(intact)
    for name in counted:  # the file name also counts
        renamed = (tmp_path / name).rename((tmp_path / name).with_stem("c"))
        assert digest() != before
        renamed.rename(tmp_path / name)
    assert digest() == before
    (tmp_path / "gridsim/model/in/b.py").rename(tmp_path / "gridsim/model/b.py")  # the folder counts as well
    assert digest() != before
    (tmp_path / "gridsim/model/b.py").rename(tmp_path / "gridsim/model/in/b.py")
    actual = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda folder, name: reversed([*actual(folder, name)]))
    assert digest() == before  # but not the order in which the system lists the files


# -- where they run ---------------------------------------------------------------------------------------


def values(found: list[RunRecord]) -> list[tuple]:
    return [(item.digest, dict(item.values).keys(), item.error) for item in found]


def test_results_do_not_depend_on_the_executor() -> None:
    cells = make_cells(9)
    serial = collected_runs(cells)
    assert len({item.digest for item in serial}) == 9 and not any(item.error for item in serial)
    for workers, batch in ((1, None), (3, 2), (2, 50)):
        with ThreadPoolExecutor(workers) as pool:
            assert values(collected_runs(cells, executor=pool, batch=batch)) == values(serial)
    with Processes(2) as pool:
        assert values(collected_runs(cells, executor=pool)) == values(serial)
        assert values(collected_runs(cells[:3], executor=pool, batch=1)) == values(serial[:3])


class Job:
    """A job of an executor that returns no future of `concurrent.futures`."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class JobExecutor:
    """Executor like those of submitit."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, function: Any, *args: Any) -> Job:
        self.jobs.append(Job())
        return self.jobs[-1]


@pytest.mark.parametrize("replications", [None, 2])
def test_an_executor_without_futures_is_rejected_and_its_job_cancelled(replications: int | None) -> None:
    executor = JobExecutor()
    message = "^executor must be .*, got JobExecutor, whose submit returns Job$"
    with pytest.raises(gs.ScenarioError, match=message):
        gs.compare(small_scenario(), [gs.Fcfs(), gs.MinCent()], replicates=replications, executor=executor)
    assert [job.is_cancelled for job in executor.jobs] == [True]


class CountingExecutor(Executor):
    """Executor that runs each batch at once, and stores its size."""

    _max_workers = 1

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def submit(self, fn, *args):
        records = fn(*args).result()
        self.sizes.append(len(records))
        future: Future = Future()
        future.set_result([dataclasses.replace(item, wall_seconds=0.01) for item in records])
        return future


def test_cells_are_submitted_in_batches() -> None:
    pool = CountingExecutor()
    collected_runs(make_cells(40), executor=pool)
    assert sum(pool.sizes) == 40 and pool.sizes[0] == 1 and 3 <= max(pool.sizes) <= 25
    pool = CountingExecutor()
    collected_runs(make_cells(7), executor=pool, batch=3)
    assert pool.sizes == [3, 3, 1]
    with pytest.raises(gs.ScenarioError, match="^batch"):
        collected_runs(make_cells(1), executor=pool, batch=0)


def test_a_failed_run_does_not_stop_other_runs(fatal_scheduler: Any) -> None:
    cells = make_cells(5)
    cells[2] = Cell(small_scenario(), fatal_scheduler(how="raise"))
    cells[4] = Cell(small_scenario(), fatal_scheduler(how="exit"))
    actual = collected_runs(cells)
    assert [bool(item.error) for item in actual] == [False, False, True, False, True]
    assert actual[4].error.startswith("SystemExit: 3 (fatal")
    assert actual[2].error.startswith("ZeroDivisionError: as asked for \\ud800 (fatal_scheduler.py:")
    assert "as asked for" in actual[2].trace and not actual[2].values


@pytest.mark.parametrize("workers", [False, True])
def test_an_error_whose_text_fails_is_recorded(fatal_scheduler: Any, workers: bool) -> None:
    """A scheduler or a metric raises the error."""
    metrics = {"bad": sys.modules[fatal_scheduler.__module__].speechless}
    message = "Speechless: no text: str() of the error raises RuntimeError (fatal_scheduler.py:"
    with Processes(1) if workers else nullcontext() as location:
        schedulers = {"good": gs.Fcfs(), "bad": fatal_scheduler(how="speechless")}
        actual = gs.replicate(small_scenario(), schedulers, replicates=2, errors="record", executor=location)
        assert [*actual.errors] == [("bad", 0), ("bad", 1)]
        assert all(item.startswith(message) for item in actual.errors.values())
        with pytest.warns(gs.MetricWarning, match=re.escape(message)):
            actual = gs.replicate(
                small_scenario(),
                {"good": gs.Fcfs()},
                replicates=1,
                metrics=metrics,
                errors="record",
                executor=location,
            )
        assert not actual.errors
    with pytest.raises(gs.GridSimError, match=r"^bad \(replication 0\): Speechless: no text"):
        gs.replicate(small_scenario(), schedulers, replicates=1)


def test_a_killed_worker_fails_only_its_own_run(fatal_scheduler: Any, tmp_path: Path) -> None:
    """The cell that kills its process is distinguished from those that were lost with it."""
    cells = make_cells(8)
    cells[3] = Cell(small_scenario(), fatal_scheduler())
    with Processes(2) as pool:
        actual = collected_runs(cells, executor=pool, batch=2)
        assert [k for k, item in enumerate(actual) if item.error] == [3]
        assert actual[3].error.startswith("the worker was lost: ")
        # the loss may be accidental, so the run is repeated once
        cells[3] = Cell(small_scenario(), fatal_scheduler(once=str(tmp_path / "there")))
        assert not any(item.error for item in collected_runs(cells, executor=pool, batch=2))


def lose_one(pool: Processes) -> None:
    """Kill a worker, and wait until the pool has detected it."""
    inner: Any = pool._pool
    os.kill(next(iter(inner._processes)), signal.SIGKILL)
    until = time.monotonic() + 20
    while not inner._broken and time.monotonic() < until:
        time.sleep(0.01)
    assert inner._broken


@pytest.mark.slow
def test_the_loss_of_an_idle_worker_fails_no_run() -> None:
    with Processes(2) as pool:
        assert not any(item.error for item in collected_runs(make_cells(4), executor=pool))
        lose_one(pool)
        assert not any(item.error for item in collected_runs(make_cells(4), executor=pool))


class WorkerLossPool(Processes):
    """Pool that loses a worker between the first two submissions."""

    sent = 0

    def submit(self, fn, /, *args, **kwargs):
        self.sent += 1
        if self.sent == 2:
            lose_one(self)
        return super().submit(fn, *args, **kwargs)


def test_the_loss_of_a_worker_during_submissions_fails_no_run() -> None:
    with WorkerLossPool(2) as pool:
        assert not any(item.error for item in collected_runs(make_cells(6), executor=pool, batch=2))


class BatchLossPool(Processes):
    """Pool that loses the first batch and never completes the second; it runs later batches itself."""

    def __init__(self) -> None:
        self._max_workers = 1
        self.first: list[Future] = [Future(), Future()]
        self.first[0].set_exception(BrokenExecutor("a worker was lost"))

    def submit(self, fn, *args):
        if self.first:
            return self.first.pop(0)
        future: Future = Future()
        future.set_result(fn(*args))
        return future

    def is_responsive(self) -> bool:
        return True

    def renew(self) -> None:
        assert not self.first

    def loss_description(self) -> str:
        return "was killed"


def test_runs_lost_with_a_broken_pool_are_repeated() -> None:
    actual = collected_runs(make_cells(6), executor=BatchLossPool(), batch=2)
    assert not any(item.error for item in actual)


def test_a_broken_pool_waits_for_the_end_of_its_workers() -> None:
    """A pool that lost a worker kills the others, which ignore SIGTERM, and waits for them."""
    with Processes(2) as pool:
        assert all(future.result() for future in [pool.submit(os.getpid) for _ in range(8)])
        workers = list(pool._pool._processes.values())
        assert len(workers) == 2
        os.kill(workers[0].pid, signal.SIGKILL)
        with pytest.raises(BrokenExecutor):
            for _ in range(1000):
                pool.submit(time.sleep, 0.01).result(timeout=60)
        for worker in workers:
            assert connection.wait([worker.sentinel], timeout=60), "it goes on"
        pool._pool.shutdown()  # waits for the thread that notices the ends of the workers
        assert [worker.exitcode for worker in workers] == [-signal.SIGKILL] * 2
        pool.renew()
        assert pool.submit(os.getpid).result(timeout=60)


def test_an_import_error_of_a_worker_fails_only_its_own_run(fatal_scheduler: Any, tmp_path: Path) -> None:
    """The worker continues; a package that is not installed there causes such errors."""
    file = tmp_path / "unimportable_scheduler.py"
    condition = "__import__('multiprocessing').parent_process() is not None"
    file.write_text(f"if {condition}:\n    raise ImportError('there is no solver')\n{FATAL}")
    cells = make_cells(4)
    cells[1] = Cell(small_scenario(), importlib.import_module("unimportable_scheduler").Fatal())
    with Processes(1) as pool:
        actual = collected_runs(cells, executor=pool, batch=2)
    assert [k for k, item in enumerate(actual) if item.error] == [1]
    assert actual[1].error == "the worker failed to run it: ImportError: there is no solver"


class DroppingExecutor(CountingExecutor):
    """Executor that drops the first batch once, and the cell with number `always` each time."""

    def __init__(self, always: int) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.always = always

    def submit(self, fn, parcel, *args):
        first = parcel not in self.seen
        self.seen += [parcel] if first else []
        if self.seen.index(parcel) != self.always and not (first and len(self.seen) == 1):
            return super().submit(fn, parcel, *args)
        future: Future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_runs_dropped_by_an_executor_are_repeated() -> None:
    cells = [Cell(replication(small_scenario(), k), gs.Fcfs()) for k in range(5)]
    actual = collected_runs(cells, executor=DroppingExecutor(always=3), batch=1)
    assert [k for k, item in enumerate(actual) if item.error] == [3]
    assert actual[3].error == "the executor cancelled it 10 times: CancelledError"


class CancellingExecutor(CountingExecutor):
    """Executor that cancels its first tasks before a worker takes them, which no waiting thread is told."""

    _max_workers = 4

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def submit(self, fn, *args):
        self.count -= 1
        if self.count < 0:
            return super().submit(fn, *args)
        future: Future = Future()
        future.cancel()
        return future


def test_cancelled_tasks_are_explained_once_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of them, a Dask cluster would be asked for its state."""
    errors: list[Exception] = []
    monkeypatch.setattr(RunExecutor, "explain", lambda _, error: errors.append(error))
    actual = collected_runs(make_cells(8), executor=CancellingExecutor(8), batch=1)
    assert not any(item.error for item in actual) and [*map(type, errors)] == [CancelledError]
    # another client may cancel all tasks more than once
    again = collected_runs(make_cells(2), executor=CancellingExecutor(8), batch=1)
    assert not any(item.error for item in again)
    with pytest.raises(gs.GridSimError, match="^fcfs: the executor cancelled it$"):
        gs.compare(small_scenario(), [gs.Fcfs()], executor=CancellingExecutor(1))


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, Processes])
def test_an_executor_that_was_shut_down_is_reported(kind: Any) -> None:
    (pool := kind(1)).shutdown()
    with pytest.raises(gs.GridSimError, match="^the executor accepts no runs .*; 0 of 2 runs are done$"):
        gs.replicate(small_scenario(), [gs.Fcfs()], replicates=2, executor=pool)


def test_the_class_of_an_executor_is_rejected() -> None:
    with pytest.raises(
        gs.ScenarioError, match="^executor must be an object, got the class Processes; create"
    ):
        gs.compare(small_scenario(), [gs.Fcfs()], executor=Processes)


def test_a_broken_pool_is_reported(fatal_scheduler: Any) -> None:
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        pytest.raises(gs.GridSimError, match="the executor failed"),
    ):
        collected_runs([Cell(small_scenario(), fatal_scheduler())], executor=pool)


class BreakingExecutor(CountingExecutor):
    """Executor with two workers that breaks at the batch `number`, which it refuses or loses."""

    _max_workers = 2

    def __init__(self, number: int, refuses: bool) -> None:
        super().__init__()
        self.number, self.refuses = number, refuses

    def submit(self, fn, *args):
        future = super().submit(fn, *args)
        if len(self.sizes) - 1 != self.number:
            return future
        if self.refuses:
            raise BrokenExecutor("no more")
        future = Future()
        future.set_exception(BrokenExecutor("no more"))
        return future


@pytest.mark.parametrize(("refuses", "kept"), [(True, [0]), (False, [0, 2, 3])])
def test_runs_finished_before_an_executor_broke_are_reported(refuses: bool, kept: list[int]) -> None:
    answers: list[Any] = []
    with pytest.raises(gs.GridSimError, match="no more"):
        run_cells(make_cells(4), answers.extend, executor=BreakingExecutor(1, refuses), batch=1)
    assert [number for number, _ in answers] == kept


def test_workers_with_another_version_of_the_code_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = CountingExecutor()
    monkeypatch.setattr(execution, "code_version", lambda: "0+other")
    with pytest.raises(gs.GridSimError, match="^workers"):
        collected_runs(make_cells(1), executor=pool)


def test_functions_that_cannot_be_sent_are_rejected_before_the_runs() -> None:
    cells = [*make_cells(2), Cell(small_scenario(), gs.Fcfs(), {"own": lambda result: 1.0})]
    with Processes(1) as pool, pytest.raises(gs.ScenarioError, match="^own"):
        run_cells(cells, lambda over: pytest.fail("something ran"), executor=pool)


def test_warnings_of_a_worker_are_returned(tmp_path: Path) -> None:
    log = tmp_path / "jobs.swf"
    jobs = ["1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1", "2 5 0 -1 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1"]
    log.write_text("\n".join(jobs) + "\n")
    cell = Cell(dataclasses.replace(small_scenario(), workload=gs.Workload.from_log(log)), gs.Fcfs())
    with Processes(1) as pool:
        (actual,) = collected_runs([cell], executor=pool)
    assert actual.notes and all(issubclass(kind, gs.TraceWarning) for kind, _ in actual.notes)


# -- the end of a process ---------------------------------------------------------------------------------

PARENT = """
import sys, time
from gridsim.studies.execution.run_cells import Processes
if __name__ == "__main__":
    pool = Processes(2)
    print(pool.submit(__import__("os").getpid).result(), flush=True)
    pool.submit(time.sleep, 60)
    time.sleep(60)
"""


def _lives(process: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # the process has ended, or the system has no /proc
        return not Path("/proc").exists()


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        for _ in range(100):
            if not _lives(worker):
                return
            time.sleep(0.1)
    pytest.fail("a worker lives on")


STARTED = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_workers_ignore_signals_from_their_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals to all processes are ignored even before a worker reads its task: sitecustomize is first."""
    (tmp_path / "sitecustomize.py").write_text(STARTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with Processes(2) as pool:
        assert pool.submit(os.getpid).result(timeout=60) != os.getpid()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_during_a_submission_leaves_no_unknown_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is handled once the pool knows the started worker."""
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: set())  # other threads receive it anyway
    start = SpawnProcess.start
    heard = []

    def interrupt_start(worker: SpawnProcess) -> None:
        start(worker)
        signal.raise_signal(signal.SIGINT)
        heard.append(worker)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Processes(1) as pool:
            monkeypatch.setattr(SpawnProcess, "start", interrupt_start)
            with pytest.raises(KeyboardInterrupt):
                pool.submit(os.getpid)
            assert list(pool._pool._processes.values()) == heard != []
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("value", [None, "x"])
def test_workers_have_the_environment_of_their_parent(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONSAFEPATH is set only for their start.

    Idle threads of OpenBLAS sleep, unless the user states how long they wait."""
    names = "PYTHONSAFEPATH", "OPENBLAS_THREAD_TIMEOUT"
    for name in names:
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with Processes(1) as pool:
        actual = [pool.submit(os.getenv, name).result(timeout=60) for name in names]
    assert actual == [value, value or "4"]
    assert [os.environ.get(name) for name in names] == [value, value]


def test_cancelled_runs_cause_no_error_in_a_broken_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the pool reports the loss of the workers to all pending runs."""
    answers: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", answers.append)
    with Processes(1) as pool:
        pool.submit(os.getpid).result(timeout=60)
        manager, (worker,) = pool._pool._executor_manager_thread, pool._pool._processes.values()
        futures = [pool.submit(time.sleep, 60) for _ in range(9)]
        assert manager is not None and futures[-1].cancel()
        worker.kill()
        manager.join(timeout=60)
    assert not manager.is_alive() and answers == [] and all(future.done() for future in futures)


def test_measured_values_equal_those_of_simulate() -> None:
    actual = measure(make_cells(1)[0])
    assert actual.digest == gs.simulate(replication(small_scenario(), 0), gs.Fcfs()).digest
    assert actual.values["makespan"] == gs.simulate(replication(small_scenario(), 0), gs.Fcfs()).makespan
    assert actual.code == code_version() and actual.wall_seconds > 0
