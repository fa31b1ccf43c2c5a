"""Draws the pictures of the README and the docs: ``python docs/pictures.py [NAME...]`` (extra ``all``).

Names are those of the functions below; without any it draws all of them, which takes minutes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from click.testing import CliRunner

matplotlib.use("Agg")

import gridsim as gs
from gridsim import plots
from gridsim.cli.main import cli
from gridsim.cli.scenario_flags import default_scenario
from gridsim.reproduce.others.probes import LENGTHS, LogJobs, log_of, response_times, schedulers
from gridsim.studies.ladder import ladder

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"


def save(name: str, made: Any, dpi: int = 220) -> None:
    with (IMAGES / name).open("wb") as stream:
        plots.save(made, stream, dpi=dpi)


def scenario_of(nodes: int) -> gs.Scenario:
    """The paper's workload, with tasks of a random size."""
    return gs.Scenario(
        platform=gs.Platform.desktop_grid(nodes=nodes, seed=1),
        workload=gs.Workload.bags(
            applications=100, interarrival=10.0, tasks_per_node=10.0, task_size=(65536.0, 131072.0), seed=1
        ),
        network=gs.Network(record_use=True),
        seed=1,
    )


def compare() -> None:
    """The picture of the README, drawn by its command."""
    command = re.search(r"^gridsim init .*\\\n.*$", (DOCS.parent / "README.md").read_text(), re.M)
    assert command
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for part in command[0].replace("\\\n", " ").split(" && "):
            CliRunner().invoke(cli, shlex.split(part)[1:], catch_exceptions=False)
        shutil.copy("compare.png", IMAGES / "compare.png")


def animation() -> None:
    """The animation of docs/guides/plots.md, drawn by its command, which writes a GIF here."""
    command = re.search(r"^gridsim run .*--animate run\.html$", (DOCS / "guides/plots.md").read_text(), re.M)
    assert command
    arguments = shlex.split(command[0].replace("run.html", str(IMAGES / "animation.gif")))[1:]
    CliRunner().invoke(cli, [*arguments, "--no-progress"], catch_exceptions=False)


def ladders() -> None:
    """The waterfalls of docs/background/ladder.md, as `gridsim ladder --figure` draws them; takes minutes."""
    jobs = gs.Workload.jobs(jobs=3000, utilization=0.9, max_nodes=40, seed=1)
    rigid = gs.Scenario(platform=gs.Platform.equal(nodes=1000), workload=jobs, seed=1)
    save("ladder.png", ladder(default_scenario(), replicates=10).figure(), dpi=220)
    found = ladder(rigid, replicates=10, scheduler=gs.DgsAsap(estimate="run"))
    save("ladder-rigid.png", found.figure(), dpi=220)


def gallery() -> None:
    """What the code in docs/guides/plots.md draws: an image after a block is what its `axes` are on."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = (DOCS / "guides/plots.md").read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code, image in re.findall(
            r"^```python\n(.*?)^```\n(?:\n!\[[^]]*\]\(\.\./images/(\S+)\))?", text, re.M | re.S
        ):
            exec(compile(code, "plots.md", "exec"), namespace)
            if image:
                save(image, namespace["axes"].get_figure(), dpi=192)


def tutorial() -> None:
    """What the code of docs/tutorial.md draws up to its step 6."""
    text = (DOCS / "tutorial.md").read_text().split("## 6.")[0]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        default_scenario().replaced({"platform.nodes": 100, "workload.applications": 20}).save("first.toml")
        for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
            exec(compile(code, "tutorial.md", "exec"), namespace)
        for made in Path(folder).glob("*.png"):
            shutil.copy(made, IMAGES / f"tutorial-{made.name}")


def trees() -> None:
    """The tree under the paper's workload, of 1000 and of 100,000 machines; takes minutes."""
    for name, nodes in (("tree-1000", 1000), ("tree-100000", 100_000)):
        result = gs.simulate(scenario_of(nodes), gs.FairTree())
        made, panels = plots.figure(rows=2, width=9.0, height=3.4)
        for axes, column in zip(panels, ("bytes_out", "use_peak_1s"), strict=True):
            plots.tree(result, column, axes=axes)
        save(f"plots-{name}.png", made)


def probes() -> None:
    """Response times under the probe-based schedulers on the Yahoo log, in $GRIDSIM_TRACES."""
    path = str(Path(os.environ["GRIDSIM_TRACES"]) / "probe-jobs/YH1_sub.tr.gz")
    log = log_of(path)
    made, panels = plots.figure(2, width=4.6)
    rivals = schedulers(log)
    for name, style in plots.styles(rivals).items():
        times = response_times(gs.simulate(LogJobs(path)(1), rivals[name]), log.cutoff)
        for axes, of_length, length in zip(panels, times, LENGTHS, strict=True):
            share = np.arange(1, len(of_length) + 1) / len(of_length)
            axes.step(np.sort(of_length), share, where="post", label=name, **style | {"marker": ""})
            axes.set(xlabel=f"response time of {length} jobs (s)", ylabel="share of jobs", xscale="log")
            axes.set_xlim(left=1.0)
            axes.grid(alpha=0.3)
    panels[0].legend()
    save("probes.png", made)


def teachers() -> None:
    """What the code of docs/guides/teachers.md draws."""
    code = re.search(r"^```python\n(.*?)^```$", (DOCS / "guides/teachers.md").read_text(), re.M | re.S)
    assert code
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        CliRunner().invoke(cli, ["init", "lesson"], catch_exceptions=False)
        exec(compile(code[1], "teachers.md", "exec"), {"__name__": "__main__"})
        shutil.copy("gantt.png", IMAGES / "teachers-gantt.png")


PICTURES = {
    each.__name__: each for each in (compare, animation, ladders, gallery, tutorial, trees, probes, teachers)
}


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
