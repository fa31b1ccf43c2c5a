"""The experiments on the fair tree: the paper's tree, two readings of failures, and verdicts."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gridsim.reproduce.celaya import common, failures, figure4
from gridsim.reproduce.celaya.common import PAPER_TREE, READINGS, ROOT, TREE, paper_tree, with_failures
from gridsim.reproduce.celaya.failures import FAILURES
from gridsim.reproduce.celaya.figure4 import FIG4A, FIG4B, LOSS_STEPS
from gridsim.reproduce.celaya.table1 import TABLE1
from gridsim.reproduce.framework import ExperimentRun, Run
from gridsim.reproduce.verdicts import Row, conclude
from gridsim.schedulers import FairTree
from gridsim.studies.replicate_result import Replicates

pytestmark = pytest.mark.slow

AS_THEY_WERE, AS_NEW = READINGS
SEEDS = range(1, 7)


class FixedValuesRun(Run):
    """Reproduction run with the values in `VALUES` for a metric and a scheduler, else 1."""

    VALUES: dict[tuple[str, str], float] = {}

    def replicate(self, scenario, schedulers, metrics=("max_stretch",)):
        values = {
            metric: {
                name: np.full(len(self.seeds), self.VALUES.get((metric, name), 1.0)) for name in schedulers
            }
            for metric in metrics
        }
        replicates = Replicates(tuple(self.seeds), values)
        self.record.append(ExperimentRun(scenario, schedulers, replicates))
        return replicates


def report_of(experiment, values=None):
    run = FixedValuesRun(SEEDS)
    object.__setattr__(run, "VALUES", values or {})
    return experiment.run(run), run.record


# -- one tree ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("experiment", [FIG4A, FIG4B, TABLE1, FAILURES, LOSS_STEPS], ids=lambda e: e.name)
def test_every_experiment_runs_the_papers_tree(experiment):
    """Only parameters that an experiment varies on purpose may differ from those of the paper's tree."""
    varied = {"accept", "bound", "minimum_of", "update_rate"}
    varied |= {"samples", "detection"} if experiment is LOSS_STEPS else set()
    report, record = report_of(experiment)
    trees = {
        name: tree for run in record for name, tree in run.schedulers.items() if isinstance(tree, FairTree)
    }
    assert trees
    for name, tree in trees.items():
        for parameter, (value, _) in PAPER_TREE.items():
            assert parameter in varied or getattr(tree, parameter) == value, (name, parameter)
    for name in (TREE, *(with_failures(TREE, reading) for reading in READINGS)):
        if name in trees and experiment is not TABLE1:  # table 1 calls its trees by their rates
            reading = next((read for read in READINGS if name.endswith(read)), AS_THEY_WERE)
            assert trees[name] == paper_tree(resubmit=READINGS[reading])
    assert any(name.startswith(ROOT) or name.endswith(ROOT) for name in trees)
    assert common.TREE_REMARK in report.remarks


# -- where requests are decided ---------------------------------------------------------------------------


def test_shares_decided_at_the_root_are_facts_in_per_cent():
    result = SimpleNamespace(facts={"requests_at_root": 0.25, "applications_at_root": 0.5})
    assert (common.requests_at_root(result), common.applications_at_root(result)) == (25.0, 50.0)
    for facts in ({}, {"requests_at_root": None, "applications_at_root": None}):
        result = SimpleNamespace(facts=facts)
        assert math.isnan(common.requests_at_root(result) + common.applications_at_root(result))


@pytest.mark.parametrize(
    ("share", "ratio", "verdict"),
    [(75.0, 1.1, "reproduced"), (75.0, 1.3, "not reproduced"), (76.0, 1.1, "cannot be compared")],
)
def test_the_loss_is_judged_only_if_the_tree_decides_below_its_root(share, ratio, verdict):
    report, _ = report_of(FIG4A, {("requests", TREE): share, ("max", TREE): ratio, ("max", ROOT): 5.0})
    # this verdict is about the paper's tree alone
    assert conclude(figure4.LOSS, report.rows).verdict == verdict
    losses = [row for row in report.rows if row.claim == figure4.LOSS]
    assert len(losses) == len(figure4.KINDS) * (len(figure4.TREES) + 1)
    assert all("% of the requests are decided at the root" in row.why for row in losses)


# -- readings ---------------------------------------------------------------------------------------------


def test_each_reading_is_judged_on_its_own_rows():
    low, high = (with_failures(TREE, reading) for reading in READINGS)
    fcfs = {("max", with_failures(name)): 1.6 for name in common.FCFS} | {
        ("max", name): 1.6 for name in common.FCFS
    }
    values = {**fcfs, ("max", low): 1.15, ("max", high): 1.9, ("completed", low): 100.0}
    for experiment, sentences in ((FAILURES, (failures.LARGER, common.WORSE)), (FIG4A, (common.WORSE,))):
        report, _ = report_of(experiment, values)
        for sentence in sentences:
            verdicts = [
                conclude(common.by_reading(sentence, reading), report.rows).verdict for reading in READINGS
            ]
            assert verdicts[0] == "reproduced" and verdicts[1] in ("not reproduced", "partly reproduced")


def test_claims_hold_together_only_with_one_reading_and_one_calibration():
    def rows(reading, *verdicts):
        return [
            Row(common.by_reading(sentence, reading), "q", "p", None, "", verdict, "because")
            for sentence, verdict in zip("ab", verdicts, strict=True)
        ]

    good, bad = "reproduced", "not reproduced"
    apart = {
        ("K1", AS_THEY_WERE): rows(AS_THEY_WERE, good, bad),
        ("K1", AS_NEW): rows(AS_NEW, bad, good),
        ("U", AS_THEY_WERE): rows(AS_THEY_WERE, bad, good),
    }
    grid, remark = common.verdict_grid("ab", apart, quick=False)
    assert grid.rows == {"a": [good, bad, bad], "b": [bad, good, good]}
    assert remark.startswith("No reading gives all claims")
    together = {**apart, ("U", AS_NEW): rows(AS_NEW, good, good)}
    _, remark = common.verdict_grid("ab", together, quick=True)
    assert f"reproduced together with: U, {AS_NEW} (quick)" in remark


# -- against FCFS -----------------------------------------------------------------------------------------


def test_the_better_fcfs_is_chosen_for_each_seed():
    columns = {
        common.BASE: [2.0, 2.0, 2.0],
        common.ECT: [4.0, 9.0, 9.0],
        common.RANDOM: [9.0, 6.0, 9.0],
        with_failures(common.ECT): [8.0, 8.0, 8.0],
        with_failures(common.RANDOM): [6.0, 10.0, 10.0],
        "t": [5.0, 5.0, 8.0],
    }
    replications = Replicates(
        (3, 5, 7), {"max": {name: np.array(column) for name, column in columns.items()}}
    )
    assert common.fcfs_margin(replications, "t", failing=False).tolist() == [-0.5, 0.5, 0.5]
    assert common.fcfs_margin(replications, "t", failing=True).tolist() == [0.5, 1.5, 0.0]
