"""One seed of each scheduler on the Yahoo log, compared with results of the authors' simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridsim as gs
from gridsim.reproduce.others.probes import LogJobs, Percentile, allowed_range, ends, log_of, schedulers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")]


@pytest.mark.parametrize("name", ["lwl", "sparrow", "hawk", "eagle", "dlwl"])
def test_completion_times_are_those_of_the_authors_simulator(name: str, traces: Path) -> None:
    """Each value is in the range of means, or in the range of seeds extended by half its width."""
    path = str(traces / "probe-jobs/YH1_sub.tr.gz")
    log = log_of(path)
    result = gs.simulate(LogJobs(path)(1), schedulers(log)[name])
    for metric, published in log.values_of(name).items():
        accepted = allowed_range(name, metric, published)
        minimum, maximum = ends(published)
        margin = (maximum - minimum) / 2
        value = Percentile(metric, log.cutoff)(result)
        assert min(accepted.low, minimum - margin) <= value <= max(accepted.high, maximum + margin), metric
