"""What a sweep costs besides its runs, here, on processes and on Dask; a store of many runs; the least run.

``pytest benchmarks/bench_sweep.py`` (extras ``data`` and ``sweep``).  Runs are of the least scenario, so that
much of the time is the cells', the tasks' and the store's; it is under ``extra_info``, ms a cell.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.metrics.registry import METRICS
from gridsim.studies.execution.store import _COLUMNS
from gridsim.support.processes import Processes

CELLS, ROWS = 2000, 1_000_000


def sweep(nodes: int, replicates: int) -> gs.Sweep:
    workload = gs.Workload.bags(
        applications=2, interarrival=10.0, tasks_per_node=2, task_size=65536.0, seed=2
    )
    scenario = gs.Scenario(gs.Platform.desktop_grid(nodes, 1), workload, seed=3)
    return gs.Sweep(scenario=scenario, schedulers={"fcfs": gs.Fcfs()}, replicates=replicates)


@pytest.fixture(scope="module", params=["here", "processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    """None, two processes, or a local Dask cluster of two workers; begun before anything is measured."""
    if request.param == "here":
        yield None
    elif request.param == "processes":
        with Processes(2) as pool:
            sweep(2, 8).run(executor=pool)
            yield pool
    else:
        distributed = pytest.importorskip("distributed")
        settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with (
            distributed.LocalCluster(**settings) as cluster,
            distributed.Client(cluster) as client,
            client.get_executor() as pool,
        ):
            sweep(2, 8).run(executor=pool)
            yield pool


@pytest.mark.parametrize("stored", [False, True], ids=["alone", "stored"])
def test_cells(benchmark: Any, executor: Executor | None, stored: bool, tmp_path: Path) -> None:
    made, number = sweep(2, CELLS), iter(range(100))
    assert len(made.cells) == CELLS  # made once, not measured

    def run() -> None:
        made.run(executor=executor, store=tmp_path / str(next(number)) if stored else None)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    benchmark.extra_info["ms_per_cell"] = round(1e3 * benchmark.stats.stats.median / CELLS, 3)


@pytest.mark.parametrize("metrics", [None, ["makespan"]], ids=["default metrics", "makespan"])
def test_cold_workers(benchmark: Any, metrics: list[str] | None) -> None:
    """A thousand runs on two processes that are started for them."""
    made = replace(sweep(2, 1000), metrics=metrics)
    assert len(made.cells) == 1000  # made once, not measured

    def run() -> None:
        with Processes(2) as pool:
            made.run(executor=pool)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    benchmark.extra_info["ms_per_cell"] = round(benchmark.stats.stats.median, 3)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("scheduler", ["fcfs", "GreatET-AllInfo", "sparrow", "fair-tree"])
@pytest.mark.parametrize("new", [False, True], ids=["same scenario", "new scenario"])
def test_least_run(benchmark: Any, scheduler: str, new: bool) -> None:
    """One run, s of a processor; of the same scenario again the applications are there already."""
    benchmark.group = "the least run"
    again = sweep(2, 1).scenario
    benchmark(lambda: gs.simulate(sweep(2, 1).scenario if new else again, scheduler))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> gs.Store:
    """A million runs, drawn, in ten files."""
    import pyarrow

    store, draw = gs.Store(tmp_path_factory.mktemp("store") / "s"), np.random.default_rng(1)
    keys = [f"{k:064x}" for k in draw.permutation(ROWS)]
    texts = {name: [name] * ROWS for name, kind in _COLUMNS.items() if kind == "string"}
    numbers = {name: np.arange(ROWS) for name in ("seed", "peak_memory")}
    times = {name: draw.random(ROWS) for name in ("time_limit", "wall_seconds", *METRICS)}
    rows = {**texts, "key": keys, "digest": keys, "error": [""] * ROWS, **numbers, **times}
    table = pyarrow.table({name: rows[name] for name in (*_COLUMNS, *METRICS)})
    for begin in range(0, ROWS, ROWS // 10):
        store._cells.write(table.slice(begin, ROWS // 10))
    return store


def test_a_million_runs_to_pandas(benchmark: Any, store: gs.Store) -> None:
    assert len(benchmark.pedantic(store.to_pandas, rounds=3, warmup_rounds=1)) == ROWS


def test_a_thousand_of_a_million(benchmark: Any, store: gs.Store) -> None:
    keys = store.to_arrow()["key"][:1000].to_pylist()
    assert len(benchmark.pedantic(store.find, (keys, ["gap"]), rounds=3, warmup_rounds=1)) == 1000
