from __future__ import annotations

from itertools import chain

import pytest

from gridsim.reproduce.others.probes_on_bags import CUTOFF, LOAD, AtLoad, GridLog, TaskTrace
from gridsim.results.metrics.formulas import offered_load


@pytest.fixture
def task_trace(tmp_path):
    """Return a log of 40 jobs of 1 to 40 tasks, whose mean run time is the cutoff."""
    path = tmp_path / "jobs.tr"
    mean = TaskTrace.cutoff
    path.write_text("".join(f"{10 * i} {i} {mean} {' '.join([str(mean)] * i)}\n" for i in range(1, 41)))
    return TaskTrace(10, 0.02, str(path), 4)


@pytest.fixture
def grid_log(tmp_path):
    """Return a log of 40 serial jobs of 40 users with different run times."""
    path = tmp_path / "jobs.swf"
    line = "{i} {at} 0 {run} 1 -1 -1 1 -1 -1 1 {i} -1 -1 -1 -1 -1 -1\n"
    path.write_text("".join(line.format(i=i, at=1000 * i, run=7200 + i) for i in range(1, 41)))
    return GridLog(10, 0.1, str(path), 10)


@pytest.mark.parametrize("source", ["task_trace", "grid_log"])
def test_each_seed_has_other_bags_of_the_log_at_the_same_load(source, request):
    make = AtLoad(request.getfixturevalue(source))
    scenarios = [make(seed) for seed in (1, 2, 3, 4)]
    made = [each.workload.realize(each.platform) for each in scenarios]
    for each, bags in zip(scenarios, made, strict=True):
        assert offered_load(bags, each.platform) == pytest.approx(LOAD)
    sizes = sorted(chain.from_iterable((bags.size / CUTOFF).tolist() for bags in made))
    wanted = range(1, 41) if source == "task_trace" else [(7200 + i) / 7200 for i in range(1, 41)]
    assert sizes == pytest.approx(list(wanted))
    again = make(5).workload.realize(scenarios[0].platform)
    assert again.size.tolist() == made[0].size.tolist()
