"""Large results: saved, loaded, and made into frames of others (extra ``data``).

``pytest benchmarks/bench_results.py``; the megabytes of the file are under ``extra_info``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs

ROWS, MACHINES = 1_000_000, 1000
WHOLE = ("tasks", "peak_queue", "bytes_out", "bytes_in", "failures", "interrupted")


@pytest.fixture(scope="module")
def result() -> gs.Result:
    """As a run of `ROWS` rigid jobs would leave it, drawn."""
    draw = np.random.default_rng(1)
    release = np.cumsum(draw.exponential(1.0, ROWS))
    run_time = np.ceil(draw.lognormal(6.0, 2.0, ROWS))
    tasks = draw.integers(1, 65, ROWS)
    waiting = np.round(draw.exponential(100.0, ROWS) * (draw.random(ROWS) < 0.7), 9)
    start = release + waiting
    size, none = 1000.0 * run_time * tasks, np.zeros(ROWS, np.int64)
    stretch = (start + run_time - release) / size
    applications = {
        "release": release,
        "first_start": start,
        "finish": start + run_time,
        "tasks": tasks,
        "task_size": 1000.0 * run_time,
        "size": size,
        "submitter": draw.integers(0, MACHINES, ROWS),
        "stretch": stretch,
        "stretch_agg": stretch * 1000.0 * MACHINES,
        "resubmitted": none,
        "nodes_used": tasks,
        "failed": none,
        "run_time": run_time,
        "requested": 2 * run_time,
        "waiting": waiting,
        "slowdown": np.maximum(1.0, (waiting + run_time) / np.maximum(10.0, run_time)),
    }
    counts = {name: [0] for name in ("sent", "delivered", "dropped", "in_flight", "bytes")}
    return gs.Result(
        tables={
            "applications": gs.Table(applications),
            "machines": gs.Table(
                {name: np.zeros(MACHINES) for name in ("busy", "utilization")}
                | {"speed": np.full(MACHINES, 1000.0)}
                | {name: np.zeros(MACHINES, np.int64) for name in WHOLE}
            ),
            "messages": gs.Table({"kind": ["request"], **counts}),
        },
        facts={},
        scheduler={"name": "drawn", "class": "drawn", "parameters": {}},
        provenance={},
    )


def afresh(result: gs.Result) -> gs.Result:
    """The same, with its digest not yet computed."""
    return gs.Result(
        tables=result.tables, facts=result.facts, scheduler=result.scheduler, provenance=result.provenance
    )


def rounds(benchmark: Any, what: Any) -> Any:
    return benchmark.pedantic(what, rounds=7, warmup_rounds=1)


def test_save(benchmark: Any, result: gs.Result, tmp_path: Path) -> None:
    rounds(benchmark, lambda: afresh(result).save(tmp_path / "r.gridsim"))
    benchmark.extra_info["MB"] = round((tmp_path / "r.gridsim").stat().st_size / 1e6, 1)


def test_load(benchmark: Any, result: gs.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r.gridsim")
    assert rounds(benchmark, lambda: gs.Result.load(tmp_path / "r.gridsim")).digest == result.digest


@pytest.mark.parametrize("method", ["to_pandas", "to_arrow", "to_xarray"])
def test_frames(benchmark: Any, result: gs.Result, method: str) -> None:
    pytest.importorskip(method.removeprefix("to_").replace("arrow", "pyarrow"))
    rounds(benchmark, getattr(result.applications, method))


def test_save_load_and_pandas(benchmark: Any, result: gs.Result, tmp_path: Path) -> None:
    pytest.importorskip("pandas")

    def everything() -> int:
        afresh(result).save(tmp_path / "r.gridsim")
        return len(gs.Result.load(tmp_path / "r.gridsim").applications.to_pandas())

    assert rounds(benchmark, everything) == ROWS
