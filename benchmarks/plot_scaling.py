"""Draw seconds and memory of whole runs over the number of nodes.

``python benchmarks/bench_runs.py "equal delays" FIFO --save runs.json`` measures, and
``python benchmarks/plot_scaling.py runs.json scaling.png`` draws.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench_runs import RUNS

from gridsim import plots

HOW = ("equal delays", "FIFO", "delays of 30 to 70 ms")


def main(source: str, target: str) -> None:
    """Two panels on logarithmic axes, a line for each way in which messages travel."""
    measured = json.loads(Path(source).read_text())
    points = {how: {RUNS[n][0]: m for n, m in measured.items() if n.endswith(f"nodes, {how}")} for how in HOW}
    sizes = sorted({nodes for each in points.values() for nodes in each})
    made, panels = plots.figure(2, width=4.5)
    for axes, key, factor, unit in zip(
        panels, ("wall_s", "peak_mb"), (1.0, 1024.0), ("s", "GiB"), strict=True
    ):
        values = {
            how: [each[n][key] / factor if n in each else None for n in sizes] for how, each in points.items()
        }
        plots.scaling(sizes, values, unit=unit, axes=axes)
        axes.set(xlabel="machines", ylabel="", title={"s": "seconds", "GiB": "peak memory, GiB"}[unit])
    with open(target, "wb") as stream:
        plots.save(made, stream, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:])
