"""Reports of all experiments on random values: full and quick rows, tables and figures are consistent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from gridsim.cli.commands.reproduce import EXPERIMENTS, experiment_of
from gridsim.reproduce.framework import ExperimentRun, Report, Reproduction, Run
from gridsim.reproduce.verdicts import conclude
from gridsim.scheduling.contract import Scheduler
from gridsim.studies.replicate_result import Replicates

pytestmark = pytest.mark.slow

SEEDS = range(1, 6)
#: Experiments that do more than compare replications, whose full runs take long.
OTHER_MEASUREMENTS = ("emulation", "dgs-criteria", "dgs-times", "coallocation", "queues", "lpas")


class DrawnValuesRun(Run):
    """Run that draws random values instead of running replications."""

    def replicate(self, scenario: Any, schedulers: Mapping[str, Scheduler], metrics: Any = ()) -> Replicates:
        draw = np.random.default_rng(1)
        values = {
            metric: {name: draw.uniform(0.5, 2.0) * draw.uniform(0.9, 1.1, len(SEEDS)) for name in schedulers}
            for metric in metrics
        }
        replicates = Replicates(tuple(SEEDS), values)
        self.record.append(ExperimentRun(scenario, schedulers, replicates))
        return replicates


def cases() -> Iterator[tuple[str, bool]]:
    for name in EXPERIMENTS:
        if not experiment_of(name).needs_files and name != "emulation":
            yield name, True
            if name not in OTHER_MEASUREMENTS:
                yield name, False


def check_report(experiment: Reproduction, report: Report) -> None:
    """Check that all claims have rows, all verdicts reasons, and all cells of a table columns."""
    assert {row.claim for row in report.rows} - {""} == set(experiment.claims)
    assert len({(row.claim, row.quantity, row.unit) for row in report.rows}) == len(report.rows)
    assert all(row.why and row.measured is not None for row in report.rows if row.verdict == "undecided")
    assert all(conclude(claim, report.rows).why for claim in experiment.claims)
    assert report.grids and report.remarks
    for grid in report.grids:
        assert grid.rows and {len(cells) + 1 for cells in grid.rows.values()} == {len(grid.columns)}
    assert not any("{case}" in row.quantity for row in report.rows)
    assert not any("{group}" in grid.title for grid in report.grids)


@pytest.mark.parametrize(("name", "quick"), list(cases()))
def test_claims_have_rows_and_tables_have_columns(name: str, quick: bool) -> None:
    experiment, run = experiment_of(name), DrawnValuesRun(SEEDS, quick=quick)
    report = experiment.run(run)
    check_report(experiment, report)
    assert experiment.draw(report).axes
    runs = [(part.scenario.name, repr(part.schedulers)) for part in run.record]
    assert len(set(runs)) == len(runs)  # no run is repeated
