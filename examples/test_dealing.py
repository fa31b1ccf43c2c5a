"""Tests of the scheduler in dealing.py.  Run: pytest test_dealing.py"""

from dealing import Dealing

import gridsim as gs


def test_equal_parts():
    """Two tasks each for three machines that all know each other."""
    scenario = gs.Scenario(gs.Platform.equal(3), gs.Workload.of([0.0], [6], [1000.0]), seed=1)
    result = gs.simulate(scenario, Dealing(degree=2))
    assert result.machines["tasks"].tolist() == [2, 2, 2]


def test_it_keeps_the_invariants():
    """On random small grids, with failures: nothing lost, nothing done twice, the same result each time."""
    from gridsim.testing import check_scheduler  # needs the extra "testing"

    check_scheduler(Dealing(), examples=10, hash_seeds=False)
