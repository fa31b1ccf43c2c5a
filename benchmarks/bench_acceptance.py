"""What the acceptance rules of the fair tree cost, and how much they decide below the root.

``python benchmarks/bench_acceptance.py --out acceptance.json`` runs all rules in all cells with ten seeds,
which takes two hours on one core, and prints tables (``--only REGEX``: cells of such names; ``--seeds N``).
A file that is there is continued.  ``--plot acceptance.png`` draws the measurements of the file.
docs/background/acceptance.md reports the results.

All values are relative to the tree that decides everything at its root (``bound=0``), on the same seed and
with the same heartbeat and samples: geometric means over seeds of the paired ratios, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import gridsim as gs
from gridsim import plots
from gridsim.results.metrics.estimates import estimate

ROOT, LITERAL, DEFAULT = "all at the root", "minimum, B = 1", "root, B = 1"
RULES: dict[str, dict[str, Any]] = {
    ROOT: {"bound": 0.0},
    LITERAL: {"accept": "minimum", "bound": 1.0},
    "minimum, B = 1.25": {"accept": "minimum", "bound": 1.25},
    DEFAULT: {"accept": "root", "bound": 1.0},
    "root, B = 1.15": {"accept": "root", "bound": 1.15},
    "largest, B = 1": {"accept": "largest", "bound": 1.0},
    "either, B = 1": {"accept": "either", "bound": 1.0},
}
#: The rules that also run on more than 100 machines.
FEW = (ROOT, "minimum, B = 1.25", DEFAULT, "either, B = 1")
HEARTBEAT = 60.0
FACTS = ("applications_at_root", "requests_at_root", "root_bytes_per_s", "decision_wait_mean_s")
Make = Callable[[int], gs.Scenario]


def bags(nodes: int, kind: str, load: float, *, failing: bool) -> Make:
    """Return a maker of scenarios of bags on `nodes` desktops.

    kind : ``"paper"``, 10 tasks of 65536 Mflop a machine +- 20 %; ``"drawn"``, 5 to 10 tasks a machine, whose
        size is drawn for each bag from 20,000..2,000,000 Mflop (log-uniform); ``"mixed"``, 5 tasks of 65536
        Mflop to 10 a machine (log-uniform).
    failing : whether machines are up for 4 h and down for 1 h on average; with 20 bags (40 mixed ones) then,
        else 100.
    """
    applications = (40 if kind == "mixed" else 20) if failing else 100

    def make(seed: int) -> gs.Scenario:
        platform = gs.Platform.desktop_grid(nodes, seed)
        capacity = load * platform.aggregate_speed
        if kind == "mixed":
            random = np.random.default_rng(seed)
            tasks = np.exp(random.uniform(math.log(5), math.log(10 * nodes), applications))
            tasks = tasks.round().astype(int)
            gap = float(tasks.mean()) * 65536.0 / capacity
            release = np.cumsum(random.exponential(gap, applications))
            users = random.integers(0, nodes, applications)
            workload = gs.Workload.of(release, tasks, np.full(applications, 65536.0), users)
        elif kind == "drawn":
            mean = (2e6 - 2e4) / math.log(100.0)
            gap = 7.5 * nodes * mean / capacity
            workload = gs.Workload.bags(
                applications, gap, 7.5, variation=1 / 3, task_size=(2e4, 2e6), seed=seed
            )
        else:
            workload = gs.Workload.bags(
                applications, 10.0 * nodes * 65536.0 / capacity, 10.0, task_size=65536.0, seed=seed
            )
        faults = gs.Faults.exponential(14_400.0, 3600.0, seed) if failing else None
        return gs.Scenario(platform, workload, seed=seed, faults=faults)

    return make


#: Machines, kinds of bags and loads, without failures and with them.
CALM = [
    *((100, kind, load) for kind in ("paper", "drawn", "mixed") for load in (0.3, 0.9, 3.0, 30.0)),
    *((300, kind, load) for kind in ("paper", "drawn", "mixed") for load in (0.9, 3.0, 30.0)),
    *((1000, "paper", load) for load in (3.0, 30.0)),
    *((1000, "mixed", load) for load in (0.9, 3.0, 30.0)),
    (1000, "drawn", 3.0),
    (5000, "paper", 30.0),
    (5000, "mixed", 3.0),
]
FAILING = [
    *((100, kind, load) for kind in ("paper", "drawn", "mixed") for load in (0.3, 0.9, 3.0)),
    *((300, kind, load) for kind in ("paper", "drawn", "mixed") for load in (0.9, 3.0)),
    (1000, "paper", 3.0),
    (1000, "mixed", 3.0),
]
CELLS: dict[str, Make] = {
    f"{kind}, load {load:g}, {nodes}{name}": bags(nodes, kind, load, failing=bool(name))
    for name, cells in (("", CALM), (", failing", FAILING))
    for nodes, kind, load in cells
}


def run(cell: str, rule: str, seed: int) -> dict[str, Any]:
    """Return the measurements of one run."""
    result = gs.simulate(CELLS[cell](seed), gs.FairTree(**RULES[rule], heartbeat=HEARTBEAT))
    return {
        "cell": cell,
        "rule": rule,
        "seed": seed,
        "max_stretch": result.max_stretch,
        "mean_stretch": float(result.applications["stretch"].mean()),
        "messages": int(result.messages["sent"].sum()),
        **{name: result.facts[name] for name in FACTS},
    }


def measure(path: Path, only: str, seeds: int) -> None:
    """Run what `path` does not have yet, and append it there, a JSON object a line."""
    present = {(line["cell"], line["rule"], line["seed"]) for line in read(path)}
    sizes: dict[int, list[str]] = {}
    for cell in CELLS:
        if re.search(only, cell):
            sizes.setdefault(int(cell.split(", ")[2]), []).append(cell)
    wanted = [
        key
        for nodes, cells in sizes.items()
        for seed in range(1, seeds + 1)
        for cell in cells
        for key in ((cell, rule, seed) for rule in (RULES if nodes == 100 else FEW))
        if key not in present
    ]
    with ProcessPoolExecutor() as pool, path.open("a") as stream:
        for line in pool.map(run, *zip(*wanted, strict=True)) if wanted else ():
            print(json.dumps(line), file=stream, flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the measurements in a file, none if it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield for each cell and rule the ratios to the tree that decides all at its root, and shares."""
    by_run = {(line["cell"], line["rule"], line["seed"]): line for line in lines}
    for cell in CELLS:
        for rule in RULES:
            pairs = [
                (line, by_run[cell, ROOT, seed])
                for (of, other, seed), line in by_run.items()
                if (of, other) == (cell, rule) and (cell, ROOT, seed) in by_run
            ]
            if not pairs:
                continue
            ratios = {
                name: np.array([line[name] / base[name] for line, base in pairs])
                for name in ("max_stretch", "mean_stretch", "messages", "root_bytes_per_s")
            }
            logarithm = estimate(np.log(ratios["max_stretch"]))
            yield {
                "cell": cell,
                "rule": rule,
                "seeds": len(pairs),
                **{name: math.exp(np.log(values).mean()) for name, values in ratios.items()},
                "low": math.exp(logarithm.low),
                "high": math.exp(logarithm.high),
                **{
                    name: float(np.mean([line[name] for line, _ in pairs]))
                    for name in ("applications_at_root", "requests_at_root", "decision_wait_mean_s")
                },
            }


def tables(lines: list[dict[str, Any]]) -> None:
    """Print a table for each quantity: a row for each cell, a column for each rule."""
    rules = [rule for rule in RULES if rule not in (ROOT, LITERAL)]
    by_cell: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows(lines):
        by_cell.setdefault(row["cell"], {})[row["rule"]] = row
    for title, text in COLUMNS.items():
        print(f"\n{title}\n\n| bags, machines | seeds |", " | ".join(rules), "|")
        print("|---" * (len(rules) + 2) + "|")
        for cell, of in by_cell.items():
            texts = [text(of[rule]) if rule in of else "-" for rule in rules]
            print(f"| {cell} | {of[DEFAULT]['seeds']} |", " | ".join(texts), "|")


def _stretch(row: dict[str, Any]) -> str:
    interval = "" if row["seeds"] < 5 else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['max_stretch']:.2f}{interval}"


def _share(row: dict[str, Any]) -> str:
    return f"{100 * row['requests_at_root' if 'failing' in row['cell'] else 'applications_at_root']:.0f}"


#: Title of a table -> text of an entry.
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "Maximum stretch": _stretch,
    "Decided at the root, %": _share,
    "Mean stretch": lambda row: f"{row['mean_stretch']:.2f}",
    "Messages": lambda row: f"{row['messages']:.2f}",
}


def plot(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw maximum stretch over the share that is decided at the root, a point a cell and rule."""
    made, panels = plots.figure(2, width=5.0, height=4.0)
    for axes, failing in zip(panels, (False, True), strict=True):
        share = "requests_at_root" if failing else "applications_at_root"
        for k, rule in enumerate(rule for rule in RULES if rule not in (ROOT, LITERAL)):
            mine = [
                row for row in rows(lines) if row["rule"] == rule and ("failing" in row["cell"]) == failing
            ]
            axes.scatter(
                [100.0 * row[share] for row in mine],
                [row["max_stretch"] for row in mine],
                s=16,
                marker=plots.MARKERS[k % len(plots.MARKERS)],
                color=plots.COLOURS[k % len(plots.COLOURS)],
                label=rule,
            )
        axes.axhline(1.05, color="#000000", linewidth=0.8, linestyle=":")
        axes.set_xlim(0.0, 102.0)
        axes.set_xlabel("% of requests decided at the root")
        axes.set_ylabel("maximum stretch / all at the root")
        axes.set_title("with failures" if failing else "without failures")
    plots.shared_legend(made)
    with path.open("wb") as stream:
        plots.save(made, stream, dpi=130)


def main() -> None:
    """Measure and print the tables, or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("acceptance.json"))
    parser.add_argument("--only", default="", help="cells whose name contains this regular expression")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--plot", type=Path, default=None)
    given = parser.parse_args()
    if given.plot is None:
        measure(given.out, given.only, given.seeds)
        tables(read(given.out))
    else:
        plot(read(given.out), given.plot)


if __name__ == "__main__":
    main()
