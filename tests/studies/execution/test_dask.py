"""Studies on a Dask cluster: the rows of a local run, whatever ends, is late or has other code."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ExecutorWarning
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.packing import WorkerMismatch
from gridsim.studies.execution.run_cells import run_cells
from gridsim.studies.execution.run_executor import ExecutorLost, WorkerLost
from gridsim.studies.execution.store import Store
from gridsim.studies.replicate import replication
from gridsim.support.processes import executor_of
from gridsim.support.provenance import code_version

distributed = pytest.importorskip("distributed", reason="dask.distributed (extra sweep) is not installed")
dask = pytest.importorskip("dask")
dask_executor = importlib.import_module("gridsim.studies.execution.dask_executor")

# the warning occurs without a network
pytestmark = pytest.mark.filterwarnings("ignore:Couldn't detect a suitable IP address")
#: Maximum time of a server's start, s.
START = 60.0


class Cluster:
    """A Dask scheduler and workers on the loopback interface, each a process without a nanny."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder, self._environment = folder, environment
        self._servers: list[subprocess.Popen[bytes]] = []
        self.port = 0
        self.start_scheduler()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()
            server.wait()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def _start(self, kind: str, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.dask_{kind}",
            "--no-dashboard",
            "--dashboard-address",  # also without pages; another scheduler has the default port
            ":0",
            "--host",
            "127.0.0.1",
        ]
        with (self._folder / f"{kind}.log").open("ab") as log:
            server = subprocess.Popen(
                [*command, *map(str, arguments)],
                env={**os.environ, **self._environment, **environment, "DASK_TEMPORARY_DIRECTORY": "."},
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self._servers.append(server)
        return server

    def start_scheduler(self) -> None:
        """Start the scheduler, on the previous port if there is one."""
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", self.port, "--scheduler-file", file)
        until = time.monotonic() + START
        while time.monotonic() < until and self.scheduler.poll() is None:
            try:
                self.port = int(json.loads(file.read_text())["address"].rpartition(":")[2])
                return
            except (OSError, ValueError):
                time.sleep(0.05)
        pytest.fail((self._folder / "scheduler.log").read_text())

    def start_workers(
        self, count: int, nanny: bool = False, **environment: str
    ) -> list[subprocess.Popen[bytes]]:
        options = ("--nthreads", 1, "--nanny" if nanny else "--no-nanny")
        return [self._start("worker", self.address, *options, **environment) for _ in range(count)]

    def client(self, workers: int = 0) -> Any:
        client = distributed.Client(self.address, timeout=START)
        client.wait_for_workers(workers, timeout=START) if workers else None
        return client


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def small_scenario() -> gs.Scenario:
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
    return gs.Scenario(gs.Platform.pareto(6, 1), workload, seed=1)


def make_cells(count: int, scheduler: gs.Scheduler | None = None) -> list[Cell]:
    return [Cell(replication(small_scenario(), k), scheduler or gs.Fcfs()) for k in range(count)]


def collected(
    cells: list[Cell], report: Callable[[], None] = lambda: None, **options: Any
) -> list[RunRecord]:
    records: dict[int, RunRecord] = {}

    def add(finished: list[tuple[int, RunRecord]]) -> None:
        records.update(finished)
        report()

    run_cells(cells, add, **options)
    return [records[number] for number in range(len(cells))]


def rows(records: list[RunRecord]) -> list[tuple[str, str, list[str]]]:
    return [(record.digest, record.error, sorted(record.values)) for record in records]


OWN = """
import os, signal, time
from pathlib import Path
import gridsim as gs

class Own(gs.Fcfs, frozen=True, kw_only=True):
    "Takes a while; ends its process unless the file `once` exists."
    name = "own"
    seconds: float = 0.0
    once: str = ""

    def start(self, run):
        time.sleep(self.seconds)
        if self.once and not Path(self.once).exists():
            Path(self.once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().start(run)

class Fatal(gs.Fcfs, frozen=True, kw_only=True):
    "Ends its process."
    name = "fatal"

    def start(self, run):
        os.kill(os.getpid(), signal.SIGKILL)

def worker(result):
    return os.getpid()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the user that is only in the search path of this process."""
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "own_of_dask.py").write_text(OWN)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "own_of_dask", raising=False)
    return importlib.import_module("own_of_dask")


# -- in one process -----------------------------------------------------------------------------------------


@contextmanager
def local_cluster(workers: int) -> Iterator[tuple[Any, Any]]:
    """Yield a cluster in this process, on ports that no other cluster uses, and its client."""
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(temporary_directory=folder),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", processes=False
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


@pytest.fixture
def local_client() -> Iterator[Any]:
    with local_cluster(2) as (_, client):
        yield client


def test_rows_of_a_client_and_of_its_executor_equal_local_rows(local_client: Any) -> None:
    cells = make_cells(6)
    serial = rows(collected(cells))
    assert rows(collected(cells, executor=local_client)) == serial
    with local_client.get_executor() as pool:
        assert rows(collected(cells, executor=pool, batch=4)) == serial
    schedulers = {"fcfs": gs.Fcfs(), "mincent": gs.MinCent()}
    remote = gs.compare(small_scenario(), schedulers, executor=local_client)
    for name, result in gs.compare(small_scenario(), schedulers).results.items():
        assert remote[name].digest == result.digest


def test_functions_without_a_module_are_sent(local_client: Any) -> None:
    factor = 3.0
    metrics = {"triple": lambda result: factor * result.makespan}
    cells = [dataclasses.replace(cell, metrics=metrics) for cell in make_cells(2)]
    assert [record.values["triple"] for record in collected(cells, executor=local_client)] == [
        record.values["triple"] for record in collected(cells)
    ]


def test_a_large_platform_is_sent_once(local_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    sizes: list[int] = []
    submit = local_client.submit

    def counting(function: Any, *args: Any, key: str | None = None, **options: Any) -> Any:
        keys.append(str(key))
        sizes.extend(len(arg.data) for arg in args if hasattr(arg, "data"))
        return submit(function, *args, key=key, **options)

    monkeypatch.setattr(local_client, "submit", counting)
    speeds = np.random.default_rng(1).uniform(1000.0, 3000.0, 20_000)
    workload = gs.Workload.bags(applications=2, tasks=10, seed=1)
    scenario = gs.Scenario(gs.Platform.of(speeds), workload, seed=1)
    cells = [Cell(replication(scenario, k), gs.Fcfs()) for k in range(5)]
    assert rows(collected(cells, executor=local_client, batch=1)) == rows(collected(cells))
    assert len(sizes) == 5 and max(sizes) < 10_000
    assert sum(key.startswith("gridsim-array-") for key in keys) == 1


def test_an_adaptive_cluster_grows(own: Any) -> None:
    """It starts workers for tasks, so it must see more tasks than its workers can execute."""
    cells, widest = make_cells(60, own.Own(seconds=0.05)), 0
    with local_cluster(0) as (cluster, client):
        cluster.adapt(minimum=0, maximum=5, interval="50 ms", target_duration="100 ms")

        def look() -> None:
            nonlocal widest
            widest = max(widest, len(cluster.workers))

        assert not any(record.error for record in collected(cells, look, executor=client, batch=1))
    assert widest == 5


def test_a_failed_connection_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ``tls:`` without certificates, `distributed` raises a TypeError."""

    def fails(_: str) -> None:
        raise TypeError("TLS expects a context")

    monkeypatch.setattr(distributed, "Client", fails)
    message = r"--dask must be .*, got 'tls://localhost:1' \(TLS expects a context\)"
    with pytest.raises(gs.ScenarioError, match=message), executor_of(None, "tls://localhost:1"):
        pass


# -- the scheduler of Dask ----------------------------------------------------------------------------------


class ActingStore(Store):
    """Store that calls a function after its first runs."""

    act: Callable[[], None] | None = None

    def add(self, added: Any) -> None:
        super().add(added)
        if self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.mark.parametrize("event", ["killed", "terminated", "restarted"])
def test_a_lost_scheduler_ends_the_study_which_can_continue(
    event: str, cluster: Cluster, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        cluster.scheduler.send_signal(signal.SIGTERM if event == "terminated" else signal.SIGKILL)
        cluster.scheduler.wait()
        if event == "restarted":
            cluster.start_scheduler()

    if event != "restarted":
        monkeypatch.setattr(dask_executor, "_RECONNECTION", 1.5)
    cluster.start_workers(1)
    store = ActingStore(tmp_path / "runs")
    store.act = act
    study: dict[str, Any] = {
        "scenario": small_scenario(),
        "schedulers": [own.Own(seconds=0.03)],
        "replicates": 40,
    }
    outcome = "was restarted, and its runs are lost" if event == "restarted" else "has ended"
    message = (
        f"^the Dask scheduler at {cluster.address} {outcome}.* of 40 runs are done, which are in .*continues"
    )
    with cluster.client(workers=1) as client:
        started = time.monotonic()
        with pytest.raises(ExecutorLost, match=message):
            gs.replicate(**study, store=store, executor=client)
        assert time.monotonic() - started < 30.0
    assert 0 < len(store) < 40
    kept = gs.replicate(**study, store=store)
    assert kept.to_dict() == gs.replicate(**study).to_dict()


def test_a_closed_client_ends_the_study(local_client: Any) -> None:
    with pytest.raises(ExecutorLost, match="^the Dask scheduler at .* has ended, or its client was closed$"):
        collected(make_cells(200), local_client.close, executor=local_client, batch=1)


def test_what_was_closed_before_a_study_is_named(local_client: Any) -> None:
    pool = local_client.get_executor()
    pool.shutdown()
    with pytest.raises(ExecutorLost, match="^the executor of the Dask scheduler at .* was shut down$"):
        collected(make_cells(1), executor=pool)
    local_client.close()
    with pytest.raises(ExecutorLost, match="^the Dask scheduler at .* has ended, or its client was closed$"):
        collected(make_cells(1), executor=local_client)


def test_a_restart_by_another_client_delays_a_study_by_seconds(cluster: Cluster, own: Any) -> None:
    """It cancels all tasks, 64 here; they are sent again at once, and not one by one."""
    cells, times, restarts = make_cells(80, own.Own(seconds=0.01)), [], []
    cluster.start_workers(1, nanny=True)
    with cluster.client(workers=1) as client, cluster.client() as other:

        def report() -> None:
            times.append(time.monotonic())
            if len(times) == 2:
                restarts.append(threading.Thread(target=other.restart))
                restarts[0].start()

        records = collected(cells, report, executor=client, batch=1)
        restarts[0].join()
    assert rows(records) == rows(collected(cells))
    assert times[-1] - times[0] < 50.0


def test_tasks_that_the_scheduler_has_lost_are_repeated(cluster: Cluster, own: Any) -> None:
    """As are those that are submitted while another client restarts the cluster."""

    def forget_tasks(dask_scheduler: Any = None) -> int:
        """Release the tasks of all clients without a word to them; return their number."""
        forgotten = 0
        for client in dask_scheduler.clients.values():
            keys = [task.key for task in client.wants_what if str(task.key).startswith("gridsim-")]
            dask_scheduler.client_releases_keys(keys=keys, client=client.client_key)
            forgotten += len(keys)
        return forgotten

    cells, times, forgotten = make_cells(20, own.Own(seconds=0.05)), [], []
    cluster.start_workers(1)
    with cluster.client(workers=1) as client, cluster.client() as other:

        def report() -> None:
            times.append(time.monotonic())
            if len(times) == 2:
                forgotten.append(other.run_on_scheduler(forget_tasks))

        records = collected(cells, report, executor=client, batch=1)
    assert rows(records) == rows(collected(cells)) and forgotten[0] > 0


# -- workers ------------------------------------------------------------------------------------------------


def test_late_workers_are_used(cluster: Cluster, own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "_WITHOUT_WORKERS", 0.5)
    cells = [
        dataclasses.replace(cell, metrics={"worker": own.worker})
        for cell in make_cells(60, own.Own(seconds=0.05))
    ]
    timer = threading.Timer(1.5, cluster.start_workers, [3])
    message = f"^the Dask scheduler at {cluster.address} has had no worker for 0.5 s"
    with cluster.client() as client, pytest.warns(ExecutorWarning, match=message) as warned:
        timer.start()
        records = collected(cells, executor=client)
        timer.join()
    assert len(warned) == 1
    assert rows(records) == rows(collected(cells[:1])) + rows(records[1:])
    assert len({record.values["worker"] for record in records}) == 3


def test_the_runs_of_a_killed_worker_are_repeated(cluster: Cluster, own: Any, tmp_path: Path) -> None:
    cells = make_cells(12)
    cells[5] = dataclasses.replace(cells[5], scheduler=own.Own(once=str(tmp_path / "once")))
    cluster.start_workers(2)
    with cluster.client(workers=2) as client:
        records = collected(cells, executor=client, batch=2)
    assert (tmp_path / "once").exists() and rows(records) == rows(collected(cells))


def test_a_run_that_always_kills_its_worker_is_reported_and_the_others_continue(
    cluster: Cluster, own: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cells = make_cells(6)
    cells[2] = dataclasses.replace(cells[2], scheduler=own.Fatal())
    cluster.start_workers(2, nanny=True)
    with cluster.client(workers=2) as client:
        records = collected(cells, executor=client, batch=1)
        message = "^fatal: .* workers ended while they executed it$"
        with pytest.raises(WorkerLost, match=message):
            gs.compare(small_scenario(), [own.Fatal()], executor=client)
    assert re.match("the worker was lost: WorkerLost: .* workers ended while", records[2].error)
    assert not [record for record in caplog.records if record.name == "distributed.client"]
    assert records[2].lost
    del records[2], cells[2]
    assert rows(records) == rows(collected(cells))


@pytest.mark.filterwarnings("ignore::gridsim.errors.ExecutorWarning")
def test_a_study_ends_if_a_run_has_killed_all_workers(
    cluster: Cluster, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may give up workers that end repeatedly, as a `LocalCluster` does; nothing replaces them."""
    monkeypatch.setattr(dask_executor, "_WITHOUT_WORKERS", 1.5)
    cells = make_cells(3)
    place = "bound = 4, replication 1"
    cells[1] = dataclasses.replace(cells[1], scheduler=own.Fatal(), place=place)
    cluster.start_workers(2)
    message = (
        f"^the Dask scheduler at {cluster.address} has had no worker for 1.5 s, since workers ended "
        r"again and again in a run of fatal \(bound = 4, replication 1\)$"
    )
    with cluster.client(workers=2) as client, pytest.raises(ExecutorLost, match=message):
        collected(cells, executor=client, batch=1)


@pytest.mark.parametrize("copy", ["stale", "missing"])
def test_copies_of_the_users_module_elsewhere_are_not_used(copy: str, own: Any, tmp_path: Path) -> None:
    """They are in the search paths of the scheduler and of the worker."""
    (tmp_path / "other").mkdir()
    if copy == "stale":
        (tmp_path / "other" / "own_of_dask.py").write_text(OWN.replace("gs.Fcfs", "gs.MinCent"))
    cells = make_cells(4, own.Own()) + make_cells(2)
    assert collected(make_cells(1, own.Own()))[0].digest != collected(make_cells(1, gs.MinCent()))[0].digest
    path = os.pathsep.join(filter(None, (str(tmp_path / "other"), os.environ.get("PYTHONPATH"))))
    with Cluster(tmp_path, PYTHONPATH=path) as cluster:
        cluster.start_workers(1)
        with cluster.client(workers=1) as client:
            assert rows(collected(cells, executor=client)) == rows(collected(cells))


OTHER_VERSION = "import gridsim.support.provenance as it\nit.code_version = lambda: '0+other'\n"
NO_GRIDSIM = "import sys\nsys.modules['gridsim'] = None\n"


@pytest.mark.parametrize(
    ("code", "version"),
    [(OTHER_VERSION, r"0\+other"), (NO_GRIDSIM, r"none \(No module named 'gridsim.support'.*\)")],
)
def test_workers_with_other_code_are_rejected_before_the_runs(
    code: str, version: str, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code)
    path = os.pathsep.join(filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH"))))
    cluster.start_workers(1, PYTHONPATH=path)
    code = code_version().replace("+", ".")
    message = rf"^workers must run the same code, {code}, got {version} at tcp:.*; install"
    with cluster.client(workers=1) as client, pytest.raises(WorkerMismatch, match=message):
        collected(make_cells(3), lambda: pytest.fail("runs were kept"), executor=client)


# -- the client ---------------------------------------------------------------------------------------------

CLIENT = """
import sys, time
import gridsim as gs
from distributed import Client

class Mine(gs.Fcfs, frozen=True, kw_only=True):
    name = "mine"

    def start(self, run):
        time.sleep(0.04)
        return super().start(run)

workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
scenario = gs.Scenario(gs.Platform.pareto(6, 1), workload, seed=1)
if __name__ == "__main__":
    client = Client(sys.argv[1]) if len(sys.argv) > 2 else None
    store = sys.argv[2] if client else None
    found = gs.replicate(scenario, [Mine()], replicates=30, executor=client, store=store)
    print(*found.digests["mine"])
"""


def test_a_study_of_a_killed_client_continues(cluster: Cluster, tmp_path: Path) -> None:
    """Its scheduler is defined in the script, which the workers do not import."""
    script, store = tmp_path / "client.py", tmp_path / "runs"
    script.write_text(CLIENT)
    command = [sys.executable, str(script), cluster.address]
    cluster.start_workers(2)
    with subprocess.Popen([*command, str(store)], stdout=subprocess.DEVNULL) as client:
        until = time.monotonic() + START
        while not list(store.glob("cells/*.parquet")) and time.monotonic() < until:
            time.sleep(0.05)
        client.kill()
    before = len(Store(store))
    assert 0 < before < 30
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": START, "check": True}
    continued = subprocess.run([*command, str(store)], **options).stdout
    assert continued == subprocess.run(command, **options).stdout and len(continued.split()) == 30
