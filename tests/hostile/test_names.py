"""Names of files, schedulers, kinds and axes are drawn in charts as text, not as mathematics."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim import plots
from gridsim.cli.main import cli
from gridsim.results.metrics.estimates import Estimate
from tests._helpers.archives import change_archive, npy

pytestmark = pytest.mark.slow

#: Names that matplotlib would reject as invalid mathematics.
NAMES = [r"$\frac$", r"\$\frac$ of a longer name, which goes over lines $\frac$"]


@pytest.mark.parametrize("kind", ["distribution", "series", "gantt", "traffic", "tree"])
def test_charts_draw_file_names_with_dollar_signs(scenario: gs.Scenario, tmp_path: Path, kind: str) -> None:
    result = gs.simulate(scenario, gs.FairTree(), record=True)
    paths = [tmp_path / f"{name}.npz" for name in NAMES]
    result.save(paths[0])
    rows = len(result.tables["traffic"])
    kinds = npy(shape=(rows,), descr="<U8") + np.array([NAMES[0]] * rows, "<U8").tobytes()
    change_archive(
        paths[0],
        {"tables/traffic/kind.npy": kinds},
        lambda answers: answers["scheduler"].update(name=NAMES[0]),
    )
    # saved again, so that the digest is that of the changed content
    gs.Result.load(paths[0], verify=False).save(paths[0])
    shutil.copy(paths[0], paths[1])
    for files in (paths, paths[:1]):
        out = ["plot", "--kind", kind, "--figure", str(tmp_path / "x.png")]
        answer = CliRunner().invoke(cli, [*out, *map(str, files)])
        assert answer.exit_code == 0, (answer.output, answer.exception)


def test_charts_of_studies_draw_names_with_dollar_signs(scenario: gs.Scenario) -> None:
    over: Any = {
        NAMES[0]: {name: {"seed": k} for k, name in enumerate(NAMES)},
        NAMES[1]: {NAMES[0]: {}, "b": {}},
    }
    schedulers = {NAMES[0]: gs.Fcfs(), NAMES[1]: gs.Met()}
    swept = gs.sweep(scenario, schedulers, over, replicates=2)
    compared = gs.compare(scenario, schedulers, replicates=2, baseline=NAMES[0])
    for instance in (swept.figure(), compared.figure()):
        plots.save(instance, io.BytesIO())


def test_plot_functions_draw_names_with_dollar_signs() -> None:
    values = [Estimate(1.0, 0.5, 2.0, 2)] * 2
    instance, panels = plots.figure(4)
    plots.boxes({name: [1.0, 2.0] for name in NAMES}, axes=panels[0])
    plots.bars(NAMES, values, axes=panels[1])
    plots.waterfall(NAMES, values[0], values[:1], values[1], axes=panels[2])
    plots.scaling([1, 2], {name: values for name in NAMES}, unit=NAMES[0], axes=panels[3])
    plots.shared_legend(instance)
    plots.save(instance, io.BytesIO())
