"""Draws the pictures of the README and the docs: ``python docs/pictures.py`` (needs the extra ``plot``)."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import gridsim as gs
from gridsim import plots
from gridsim.cli_scenario import default_scenario
from gridsim.ladders import ladder

IMAGES = Path(__file__).parent / "images"
COLOURS = {"fair-tree": "#0072B2", "mincent": "#009E73", "fcfs": "#D55E00"}  # Okabe and Ito


def compare() -> None:
    """Stretch of every application under three schedulers, and over its size the tree's price."""
    scenario = gs.Scenario(
        platform=gs.Platform.desktop_grid(nodes=1000, seed=1),
        workload=gs.Workload.bags(
            applications=100, interarrival=10.0, tasks_per_node=10.0, task_size=(65536.0, 131072.0), seed=1
        ),
        network=gs.Network(),
        seed=1,
    )
    schedulers = {"mincent": gs.MinCent(), "fair-tree": gs.FairTree(), "fcfs": gs.Fcfs()}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for name, scheduler in schedulers.items():
        result = gs.simulate(scenario, scheduler)
        stretch = np.sort(result.applications["stretch_agg"])
        share = np.arange(1, len(stretch) + 1) / len(stretch)
        left.step(stretch, share, where="post", color=COLOURS[name], label=f"{name} (max {stretch[-1]:.0f})")
        right.scatter(
            result.applications["size"] / 1e9,
            result.applications["stretch_agg"],
            s=9,
            color=COLOURS[name],
            label=name,
        )
    left.set(xlabel="stretch x aggregate speed", ylabel="share of applications", ylim=(0, 1), xlim=(0, None))
    left.legend(frameon=False)
    right.set(xlabel="application size (Pflop)", ylabel="stretch x aggregate speed", ylim=(0, None))
    figure.suptitle("100 bags of tasks on 1000 machines: small applications pay for FCFS", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "compare.png", dpi=110)


def ladders() -> None:
    """The waterfalls of docs/background/ladder.md, as `gridsim ladder --figure` draws them; takes minutes."""
    jobs = gs.Workload.jobs(jobs=3000, utilization=0.9, max_nodes=40, seed=1)
    rigid = gs.Scenario(platform=gs.Platform.equal(nodes=1000), workload=jobs, seed=1)
    for name, scenario in (("ladder", default_scenario()), ("ladder-rigid", rigid)):
        with (IMAGES / f"{name}.png").open("wb") as stream:
            plots.save(ladder(scenario, replicates=10).figure(), stream)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    compare()
    ladders()
