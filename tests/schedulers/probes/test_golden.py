"""One seed of each scheduler on the Yahoo log, compared with what the authors' simulator gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridsim as gs
from gridsim.reproduce.others.probes import Jobs, Percentile, allowed, ends, log_of, schedulers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::gridsim.TraceWarning")]


@pytest.mark.parametrize("name", ["lwl", "sparrow", "hawk", "eagle", "dlwl"])
def test_completion_times_are_those_of_the_authors_simulator(name: str, traces: Path) -> None:
    """In the range for means, or, as this is one seed, in that of their seeds with half its width around."""
    path = str(traces / "probe-jobs/YH1_sub.tr.gz")
    log = log_of(path)
    result = gs.simulate(Jobs(path)(1), schedulers(log)[name])
    for metric, said in log.said(name).items():
        low, high = allowed(name, metric, said)
        least, most = ends(said)
        around = (most - least) / 2
        found = Percentile(metric, log.cutoff)(result)
        assert min(low, least - around) <= found <= max(high, most + around), metric
