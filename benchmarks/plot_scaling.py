"""Draw seconds and memory of whole runs over the number of nodes.

``python benchmarks/bench_runs.py "equal delays" FIFO --save runs.json`` measures, and
``python benchmarks/plot_scaling.py runs.json scaling.png`` draws.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from bench_runs import RUNS
from matplotlib import pyplot as plt

HOW = ("equal delays", "FIFO", "delays of 30 to 70 ms")


def main(source: str, target: str) -> None:
    """Two panels on logarithmic axes, a line for each way in which messages travel."""
    measured = json.loads(Path(source).read_text())
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for how, marker in zip(HOW, "os^", strict=True):
        points = sorted((RUNS[name][0], m) for name, m in measured.items() if name.endswith(f"nodes, {how}"))
        nodes = [n for n, _ in points]
        for axes, key, unit in zip(panels, ("wall_s", "peak_mb"), (1.0, 1024.0), strict=True):
            axes.loglog(nodes, [m[key] / unit for _, m in points], marker=marker, label=how)
    for axes, title in zip(panels, ("seconds", "peak memory, GiB"), strict=True):
        axes.set_xlabel("machines")
        axes.set_title(title)
        axes.grid(True, which="major", alpha=0.3)
    panels[0].legend()
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:])
