from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.reproduce.framework import Measurements, Run, rows_of
from gridsim.reproduce.rjss.common import METRICS, JobStreams, all_faster, grows_less, jobs, rises
from gridsim.reproduce.verdicts import LARGER
from gridsim.studies.replicate_result import Replicates

pytestmark = pytest.mark.slow


def test_conditions_have_no_effect_at_the_sizes_of_the_paper():
    answer = CliRunner().invoke(
        cli, ["reproduce", "rjss-transit", "--quick", "--seeds", "2", "--json", "--workers", "1"]
    )
    (report,) = json.loads(answer.stdout)["reproductions"]
    equal = [row for row in report["rows"] if row["paper"] == "0"]
    # the equal cases: at short latency the rules as printed and as intended, at all latencies the rule as
    # printed without jobs of others; each with both loads
    assert len(equal) == 6 and {row["measured"]["mean"] for row in equal} == {0.0}


def replications(**values):
    """Return replications over six seeds."""
    return Replicates(tuple(range(6)), {metric: values for metric in METRICS})


def cases(first, last):
    return Measurements(Run((1,)), {"first": first, "last": last})


def test_claims_are_judged_by_measured_values():
    spread = np.array([1.0, 1.01, 0.99, 1.02, 0.98, 1.0])
    first, last = (
        replications(RJSS=a * spread, RE=b * spread, NM=c * spread)
        for a, b, c in ((10.0, 20.0, 5.0), (11.0, 40.0, 50.0))
    )
    rows = {row.quantity: row.verdict for row in rows_of(all_faster("c"), cases(first, last))}
    assert rows["last: turnaround of all jobs, RJSS / RE"] == rows["first: G^t, RJSS / RE"] == "reproduced"
    assert rows["first: turnaround of all jobs, RJSS / NM"] == "not reproduced" and len(rows) == 8
    assert {row.verdict for row in grows_less("c", cases(first, last))} == {"reproduced"}
    assert {row.verdict for row in grows_less("c", cases(last, first))} == {"not reproduced"}
    assert rises("c", cases(first, last), "NM", "turnaround", LARGER).measured.mean == pytest.approx(10.0)
    # an equal value does not count as better
    same = replications(RJSS=spread, RE=spread, NM=spread)
    assert {row.verdict for row in rows_of(all_faster("c"), {"same": same})} == {"not reproduced"}


def test_scenarios_have_the_stated_parameters():
    make = jobs(Run((1,)), interarrival=25.0, congestion=2.0)
    assert make == JobStreams(interarrival=25.0, congestion=2.0) and make.name == "jobs-100-25-30-200-2"
    scenario = make(3)
    assert scenario.network.latency == 2.0005 and scenario.network.interfaces == "equal"
    assert (scenario.platform.nodes, scenario.workload.recipe.horizon, scenario.seed) == (100, 2000.0, 3)
    assert jobs(Run((1,), quick=True)).nodes == 40
