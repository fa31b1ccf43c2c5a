"""The fair tree against a simulator that was written from its description, on random trees without delays.

The comparison covers all decisions of routers with their values and limits, acceptances with their promises,
the tasks of each machine, and every start and finish.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridcore.queues.summary_grid import SummaryGrid
from gridsim.results.result import Result
from gridsim.support.clock import NS, nanoseconds
from tests.reference.fair_tree import Bag, History, Rules, simulate

#: Trees of each rule, without and with failures.
TREES = {False: 50, True: 20}
#: Case -> minimum number of its occurrences on 10 trees.  Cases: acceptance below the root by each rule, a
#: limit above 0, a look-up less debts, a copy of the root's summary made while the root has debts, a missing
#: copy where one is required, and a copy without a promise.
CASES = {
    "minimum": {"by minimum": 4, "limit": 40, "debt": 100},
    "root": {"by root": 10, "limit": 40, "debt": 100, "copy in debt": 8, "no copy": 10, "no promise": 8},
    "largest": {"by largest": 5, "limit": 40, "debt": 100},
    "either": {
        **{"by root": 10, "by largest": 3, "limit": 40, "debt": 100},
        **{"copy in debt": 8, "no copy": 10, "no promise": 8},
    },
}

#: With small bounds, "minimum" accepts few requests below the root.
BOUNDS = {
    "minimum": [0.0, 1.0, 1.25, 2.0, 4.0, 8.0],
    "root": [0.0, 1.0, 1.06, 1.25, 2.0],
    "largest": [0.0, 1.0, 1.06, 1.25, 2.0],
    "either": [0.0, 1.0, 1.06, 1.25, 2.0],
}


@dataclass(frozen=True)
class Case:
    """A scenario, and the parameters of the tree but for its grid, which the result names."""

    speeds: list[float]
    bags: list[Bag]
    failures: list[tuple[int, int]]
    parameters: dict[str, Any]

    def run(self) -> Result:
        release, failed = [bag.release / NS for bag in self.bags], [at / NS for at, _ in self.failures]
        scenario = gs.Scenario(
            platform=gs.Platform.of(self.speeds),
            workload=gs.Workload.of(
                release,
                [bag.tasks for bag in self.bags],
                [bag.task_size for bag in self.bags],
                [bag.submitter for bag in self.bags],
                origin=0.0,
            ),
            network=gs.Network(latency=0.0, bandwidth=math.inf),
            faults=gs.Faults.of([u for _, u in self.failures], failed, failed) if failed else None,
            seed=1,
        )
        tree = gs.FairTree(update_rate=0.0, detection=0.0, **self.parameters)
        return gs.simulate(scenario, tree, record=("schedule", "decisions"))

    def simulate(self, grid: dict[str, list[float]]) -> History:
        arguments = {
            name: self.parameters[name] for name in ("accept", "bound", "minimum_of", "entry", "update_on")
        }
        rules = Rules(SummaryGrid(**grid), **arguments, heartbeat=nanoseconds(self.parameters["heartbeat"]))
        return simulate(self.speeds, self.bags, rules, self.failures)


def log_uniform(rng: np.random.Generator, low: float, high: float, count: int | None = None) -> Any:
    return np.exp(rng.uniform(math.log(low), math.log(high), count))


def draw(accept: str, failing: bool, seed: int) -> Case:
    """Up to 40 machines and 19 bags, many of which are released together with the one before."""
    rng = np.random.default_rng((seed, failing, list(CASES).index(accept)))
    machines, bags = int(1 + 40 * rng.random() ** 1.5), int(rng.integers(5, 20))
    speeds = log_uniform(rng, 500, 3000, machines)
    if rng.random() < 0.2:
        speeds[:] = speeds[0]
    task_size = log_uniform(rng, 15e3, 240e3, bags)
    if rng.random() < 0.4:
        task_size[:] = task_size[0]
    tasks = np.ceil(log_uniform(rng, 0.03, 6.0, bags) * machines).astype(int)
    # in half of the scenarios the first bag keeps all machines busy
    tasks[0] += 5 * machines * rng.integers(2)
    size = tasks * task_size
    gap = size.mean() / speeds.sum() / rng.choice([0.5, 2.0, 8.0])
    gaps = rng.exponential(gap, bags) * (rng.random(bags) >= 0.4)
    release = np.cumsum(np.round(gaps * NS).astype(int)) + 1

    parameters: dict[str, Any] = {
        "accept": accept,
        "bound": float(rng.choice(BOUNDS[accept])),
        "minimum_of": str(rng.choice(["all", "busy", "inverse-speed"])) if accept == "minimum" else "all",
        "entry": str(rng.choice(["own-router", "parent"])),
        "update_on": str(rng.choice(["completion", "change"])),
        "heartbeat": float(round(gap * rng.uniform(0.2, 2.0), 9)),
    }
    counts = [int(rng.integers(low, high)) for low, high in ((4, 25), (2, 7), (1, 4))]
    if rng.random() < 0.5:
        parameters["samples"] = tuple(counts)
    else:  # some requests exceed all samples of such a grid
        longest = log_uniform(rng, 0.5, 50.0) * max(size.max() / size.min(), size.max() / speeds.sum() / gap)
        ranges = (
            (0.5 / speeds.sum(), longest / speeds.sum()),
            (
                size.min() * rng.uniform(0.8, 1.02) * (0.03 if failing else 1.0),
                size.max() * rng.uniform(1.03, 1.5),
            ),
            (task_size.min() * 0.9, task_size.max() * rng.uniform(0.97, 1.3)),
        )
        parameters["grid"] = tuple(
            np.geomspace(*ends, max(2, count)).tolist() for ends, count in zip(ranges, counts, strict=True)
        )

    failures = []
    # at most seven failures, since tasks lost eight times in a row are not submitted again at once
    if failing:
        for _ in range(rng.integers(1, 8)):
            failures.append((int(rng.integers(1, 1.5 * release[-1])), int(rng.integers(machines))))
    rows = zip(release.tolist(), tasks.tolist(), task_size.tolist(), strict=True)
    return Case(
        speeds.tolist(), [Bag(*row, int(rng.integers(machines))) for row in rows], failures, parameters
    )


def rows(result: Result, table: str, *columns: str) -> list[tuple[Any, ...]]:
    named = result.tables[table]
    return list(zip(*(named[column].tolist() for column in columns), strict=True))


def assert_equal(result: Result, history: History, case: Case) -> None:
    expected = [
        (d.application, d.action, d.router, d.tasks, d.observed, d.machine) for d in history.decisions
    ]
    decisions, limits = [], []
    for application, action, decider, tasks, saw, machine, limit in rows(
        result, "decisions", "application", "action", "decider", "tasks", "saw", "machine", "limit"
    ):
        kind = action.split("-")[0]
        if kind in ("passed", "accepted", "gave"):
            decisions.append((application, kind, decider, tasks, saw, machine if kind == "gave" else -1))
            limits.append(limit)
    for k, pair in enumerate(zip(decisions, expected, strict=False)):
        assert pair[0] == pair[1], f"decision {k}"
    assert len(decisions) == len(expected)
    for k, (limit, decision) in enumerate(zip(limits, history.decisions, strict=True)):
        if math.isnan(limit):  # the limit is unknown, or the root accepts
            assert math.isnan(decision.limit) or decision.limit == 0.0, f"decision {k}"
        else:
            assert limit == pytest.approx(decision.limit, rel=1e-8), f"decision {k}"

    requests = sorted(history.requests, key=lambda request: request.application)
    assert rows(result, "requests", "application", "tasks", "router", "level", "steps_up", "promised") == [
        (r.application, r.tasks, r.router, level(r.router), r.steps_up, r.promised) for r in requests
    ]
    assert rows(result, "requests", "accepted", "guaranteed") == [
        (r.time / NS, math.isfinite(r.promised)) for r in requests
    ]
    if requests:
        at_root = [r.router == 0 for r in requests]
        assert result.facts["requests_at_root"] == pytest.approx(sum(at_root) / len(at_root))

    arrivals = rows(result, "arrivals", "machine", "application", "tasks", "time")
    assert sorted(arrivals) == sorted((u, i, n, instant / NS) for u, i, n, instant in history.arrivals)
    bags = range(len(case.bags))
    assert rows(result, "applications", "first_start", "finish", "resubmitted") == [
        (history.first_start[i] / NS, history.finish[i] / NS, history.resubmitted[i]) for i in bags
    ]
    stretches = [(history.finish[i] - bag.release) / NS / bag.size for i, bag in enumerate(case.bags)]
    assert result.max_stretch == pytest.approx(max(stretches), rel=1e-12)


def level(router: int) -> int:
    return (router + 1).bit_length() - 1


@pytest.mark.parametrize("failing", [False, True], ids=["reliable", "failing"])
@pytest.mark.parametrize("accept", list(CASES))
def test_fair_tree_equals_an_independent_simulator(accept: str, failing: bool) -> None:
    cases: Counter[str] = Counter()
    for seed in range(TREES[failing]):
        case = draw(accept, failing, seed)
        result = case.run()
        history = case.simulate(result.facts["grid"])
        try:
            assert_equal(result, history, case)
        except AssertionError as error:
            error.add_note(f"tree {seed}: {len(case.speeds)} machines, {case.parameters}, {case.failures}")
            raise
        cases += history.cases
    minimum = {name: TREES[failing] // 10 * count for name, count in CASES[accept].items()}
    assert not {name: count for name, count in minimum.items() if cases[name] < count}, cases
