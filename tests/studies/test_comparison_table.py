"""The table of a comparison: what its cells say of the rows they are made of."""

from __future__ import annotations

import gridsim as gs
from gridsim.studies.comparison_table import columns_of, rows_of


def test_shares_are_in_per_cent() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], 1, 1000.0))
    results = {"a": gs.simulate(scenario, gs.Fcfs())}
    (row,) = rows_of(results, "a", "fluid")
    row |= {"utilization": 0.5, "wasted": 0.25, "mean_completion": 1.0}
    row |= {"migrated": 0.5, "mean_turnaround": 1.0}
    columns = columns_of(results, [row], "a", "fluid", verbose=True)
    cells = {title: (unit, cell) for title, unit, cell in columns}
    assert cells["busy"] == ("%", "50.0") and cells["wasted"] == ("%", "25")
    assert cells["migrated"] == ("%", "50")
