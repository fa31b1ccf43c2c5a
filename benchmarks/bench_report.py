"""The report on a large result: how long it takes to write, and how large it is (extra ``report``).

``pytest benchmarks/bench_report.py``; the megabytes of the file are under ``extra_info``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs

MACHINES, PIECES, APPLICATIONS = 100_000, 5_000_000, 100


@pytest.fixture(scope="module", params=["schedule", "jobs"])
def result(request: pytest.FixtureRequest) -> gs.Result:
    """As a run would leave it, drawn: `PIECES` pieces of a few bags, or a million applications."""
    draw = np.random.default_rng(1)
    count = APPLICATIONS if request.param == "schedule" else 1_000_000
    release = np.cumsum(draw.exponential(10.0, count))
    size, none = draw.lognormal(20.0, 2.0, count), np.zeros(count, np.int64)
    finish = release + draw.lognormal(6.0, 2.0, count)
    stretch = (finish - release) / size
    applications = {
        "release": release,
        "first_start": release + draw.random(count) * (finish - release),
        "finish": finish,
        "tasks": none + 1,
        "task_size": size,
        "size": size,
        "submitter": none,
        "stretch": stretch,
        "stretch_agg": stretch * 1000.0 * MACHINES,
        "resubmitted": none,
        "nodes_used": none + 1,
    }
    kinds = {"kind": ["request"], **{name: [0] for name in ("sent", "delivered", "dropped", "in_flight")}}
    busy = draw.random(MACHINES)
    machines = {
        "speed": np.full(MACHINES, 1000.0),
        "busy": busy,
        "utilization": busy,
        "tasks": np.zeros(MACHINES, np.int64),
    }
    tables = {
        "applications": gs.Table(applications),
        "machines": gs.Table(machines),
        "messages": gs.Table({**kinds, "bytes": [0]}),
    }
    if request.param == "schedule":
        start = np.round(draw.random(PIECES) * 30_000.0, 9)
        tables["schedule"] = gs.Table(
            {
                "machine": np.sort(draw.integers(0, MACHINES, PIECES)),
                "application": draw.integers(0, count, PIECES),
                "tasks": np.ones(PIECES, np.int64),
                "start": start,
                "end": start + 60.0,
                "completed": np.ones(PIECES, np.int64),
            }
        )
    scheduler = {"name": "drawn", "class": "drawn:Drawn", "parameters": {}}
    made = gs.Result(tables=tables, facts={}, scheduler=scheduler, provenance={})
    assert made.digest  # computed once, not measured
    return made


def test_report(benchmark: Any, result: gs.Result, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    benchmark.pedantic(gs.write_report, (result, path), rounds=5, warmup_rounds=1)
    benchmark.extra_info["MB"] = round(path.stat().st_size / 1e6, 2)
