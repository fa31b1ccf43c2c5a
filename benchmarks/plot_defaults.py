"""Draw how far other settings of a scheduler are from its defaults, a dot a cell.

``python benchmarks/bench_defaults.py --scheduler fair-tree --out swept.json`` measures, and
``python benchmarks/plot_defaults.py swept.json defaults.png`` draws.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gridsim import plots


def called(line: dict[str, Any]) -> str:
    """What a setting is called."""
    given = [f"{name} = {value}" for name, value in line["given"].items()]
    said = ", ".join(f"{name} = {value}" for name, value in line["setting"].items())
    return said + (f" (with {', '.join(given)})" if given else "")


def main(source: str, target: str) -> None:
    """A row a setting: the ratios of all cells, those filled whose interval does not contain 1."""
    (swept,) = json.loads(Path(source).read_text())
    settings = list(dict.fromkeys(called(line) for line in swept["lines"]))
    made, (axes,) = plots.figure(1, width=9.0, height=1.0 + 0.28 * len(settings))
    axes.axvline(1.0, color="#000000", linewidth=0.8)
    for k, failing in enumerate((False, True)):
        for clear in (True, False):
            mine = [
                line
                for line in swept["lines"]
                if ("failing" in line["cell"]) == failing and (line["low"] > 1 or line["high"] < 1) == clear
            ]
            axes.scatter(
                [line["ratio"] for line in mine],
                [settings.index(called(line)) + 0.18 * (2 * k - 1) for line in mine],
                s=16,
                marker=plots.MARKERS[k],
                facecolors=plots.COLOURS[k] if clear else "none",
                edgecolors=plots.COLOURS[k],
                linewidths=0.8,
                label=("with failures" if failing else "without failures") if clear else None,
            )
    axes.set_yticks(range(len(settings)), settings, fontsize="small")
    axes.invert_yaxis()
    axes.set_xscale("log")
    ticks = (0.33, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(f"{swept['scheduler']}: maximum stretch, setting over default; hollow: undecided")
    axes.legend(loc="lower right", fontsize="small")
    with open(target, "wb") as stream:
        plots.save(made, stream, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:])
