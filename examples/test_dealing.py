"""Tests of the scheduler in dealing.py.  Run: pytest test_dealing.py"""

from dealing import Dealing

import gridsim as gs


def test_an_application_is_divided_equally():
    """Three machines that are all neighbours get two tasks each."""
    scenario = gs.Scenario(gs.Platform.equal(3), gs.Workload.of([0.0], [6], [1000.0]), seed=1)
    result = gs.simulate(scenario, Dealing(degree=2))
    assert result.machines["tasks"].tolist() == [2, 2, 2]


def test_invariants_hold():
    """On random small grids with failures no task is lost or run twice, and runs are reproducible."""
    from gridsim.testing import check_scheduler  # needs the extra "testing"

    check_scheduler(Dealing(), examples=10, hash_seeds=False)
