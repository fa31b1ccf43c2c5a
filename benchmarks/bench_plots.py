"""Gantt charts of large schedules, and a large tree: seconds to draw and to save as PNG.

``python benchmarks/bench_plots.py [REPETITIONS]``: N = 1000 with 100 pieces a machine, the most that are
drawn as bars, with and without pieces that failures cut off; ten times as many, which are a raster; a tree
of 100,000 leaves.  Each is drawn once that does not count, then several times; told are median and range.
"""

from __future__ import annotations

import io
import statistics
import sys
from time import perf_counter
from typing import Any

import numpy as np

import gridsim as gs
from gridsim import plots

MACHINES = 1000


def recorded(pieces: int, cut_off: float) -> gs.Result:
    """As a run of 300 applications would leave it with so many pieces a machine, drawn.

    cut_off : share of the pieces that were not completed.
    """
    draw = np.random.default_rng(1)
    lasts = draw.exponential(60.0, (MACHINES, pieces))
    end = np.cumsum(lasts + draw.exponential(5.0, lasts.shape), axis=1)
    count = MACHINES * pieces
    schedule = {
        "machine": np.repeat(np.arange(MACHINES), pieces),
        "application": draw.integers(0, 300, count),
        "tasks": np.ones(count, np.int64),
        "start": (end - lasts).ravel(),
        "end": end.ravel(),
        "completed": (draw.random(count) >= cut_off).astype(np.int64),
    }
    return result_of({"speed": np.ones(MACHINES)}, {"schedule": gs.Table(schedule)})


def result_of(machines: dict[str, Any], tables: dict[str, gs.Table]) -> gs.Result:
    core = {
        "applications": gs.Table({"release": [0.0], "finish": [1.0]}),
        "machines": gs.Table(machines),
        "messages": gs.Table({"kind": ["x"], "sent": [0], "bytes": [0]}),
    }
    scenario = gs.Scenario(gs.Platform.equal(5), gs.Workload.of([0.0], [1], [1.0]), seed=1)
    about = {"name": "drawn", "class": "drawn", "parameters": {}}
    return gs.Result(tables=core | tables, facts={}, scheduler=about, provenance={}, scenario=scenario)


def seconds(draw: Any) -> tuple[float, float]:
    """To draw, and to draw and save."""
    begun = perf_counter()
    made, (axes,) = plots.figure(width=9.0, height=6.0)
    draw(axes)
    drawn = perf_counter()
    plots.save(made, io.BytesIO())
    return drawn - begun, perf_counter() - begun


def main(repetitions: int) -> None:
    leaves = 100_000
    use = np.random.default_rng(1).random(leaves)
    tree = result_of({"speed": np.ones(leaves), "utilization": use}, {"traffic": gs.Table({"level": [0]})})
    bars, failing, raster = recorded(100, 0.0), recorded(100, 0.2), recorded(1000, 0.0)
    cases = {
        "100,000 bars": lambda axes: plots.gantt(bars, axes=axes),
        "100,000 bars, a fifth cut off": lambda axes: plots.gantt(failing, axes=axes),
        "5,000 bars of 50 machines, a fifth hatched": lambda axes: plots.gantt(
            failing, machines=slice(50), axes=axes
        ),
        "raster of 1,000,000 pieces": lambda axes: plots.gantt(raster, axes=axes),
        "tree of 100,000 leaves": lambda axes: plots.tree(tree, axes=axes),
    }
    print(f"{'':46} draw, s   with PNG, s (least to most of {repetitions})")
    for name, draw in cases.items():
        seconds(draw)
        drawn, saved = zip(*(seconds(draw) for _ in range(repetitions)), strict=True)
        middle, least, most = statistics.median(saved), min(saved), max(saved)
        print(f"{name:46} {statistics.median(drawn):7.2f}   {middle:.2f} ({least:.2f} to {most:.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
