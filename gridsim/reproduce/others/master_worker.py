"""Bags at one master, scheduled by a linear program and by local rules.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).  Only the
abstracts were available.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

import gridsim as gs
from gridsim.optimization.throughput import Throughput, optimal_throughput
from gridsim.reproduce.framework import CaseTable, Measurements, Reproduction, ResultGrid, Run, panels
from gridsim.reproduce.others.tree_extensions import GAP, DataBags, over_bound
from gridsim.reproduce.verdicts import Row, exact, incomparable, judge
from gridsim.results.metrics.estimates import Estimate, estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.schedulers.steady_state.sorted_shares import sorted_shares
from gridsim.support.arrays import Floats, Integers
from gridsim.support.random_streams import Streams

STAR = "in a single-level tree the optimum sends tasks with more data per Mflop to children with faster links"
THIRDS = "the best decentralized heuristic performs as the linear program in about two thirds of the cases"
WORSE = "in a few cases it is far worse"

MACHINES, APPLICATIONS = 15, 4
#: Numbers of tasks of the full and the quick run.
TASKS = 900, 300
SPEEDS, LINKS, SIZES = (1000.0, 3000.0), (62_500.0, 625_000.0), (20_000.0, 200_000.0)
#: Ratio of the maximum to the minimum bytes per Mflop of applications, whose logarithms are uniform.
RATIOS = 100.0
#: Mean bytes per Mflop, relative to the bytes that a link of mean bandwidth carries while all machines
#: compute.
LOADS = (0.3, 1.0, 3.0)
#: Children of the master, and of each machine.
BRANCHING = (2, 4, 8)
#: Share of the centralized throughput from which a throughput counts as the same, and that below which it
#: counts as far worse.
EQUAL_SHARE, FAR_SHARE = 0.95, 0.8
CENTRAL, SORTED, IN_TURN = "steady-state", "bandwidth-centric, sorted", "bandwidth-centric, in turn"
#: Loads of the experiment `data-tree`, full and quick.
DATA_LOADS = (0.1, 1.0, 10.0), (1.0,)
DATA_APPLICATIONS = 15


def schedulers(branching: int) -> dict[str, gs.Scheduler]:
    """Return the schedulers that are compared in trees with `branching` children per node."""
    return {
        CENTRAL: gs.SteadyState(branching=branching),
        SORTED: gs.BandwidthCentric(branching=branching),
        IN_TURN: gs.BandwidthCentric(branching=branching, rule="in-turn"),
    }


@dataclass(frozen=True)
class MasterBags:
    """Factory of scenarios in which all bags are at the master at time 0.

    Parameters
    ----------
    load
        Load of the links, one of `LOADS`.
    branching
        Number of children per node of the tree; it determines the drawn platform.
    """

    load: float
    branching: int
    tasks: int = TASKS[0]

    @property
    def name(self) -> str:
        """File name of the scenario without its extension."""
        return f"master-{self.branching}-{self.load:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        draw = Streams(seed)(f"master-worker {self.branching}")
        speeds, links = draw.uniform(*SPEEDS, MACHINES), _log_uniform(draw, LINKS, MACHINES)
        size = _log_uniform(draw, SIZES, APPLICATIONS)
        ratio = _log_uniform(draw, (1.0, RATIOS), APPLICATIONS)
        data = self.load * links.mean() / speeds.sum() * ratio / ratio.mean() * size
        platform = gs.Platform.of(speeds).linked(links)
        bags = gs.Workload.of([0.0] * APPLICATIONS, self.tasks, size, [0] * APPLICATIONS, input_bytes=data)
        return gs.Scenario(platform, bags, seed=seed)


def _log_uniform(draw: np.random.Generator, limits: tuple[float, float], count: int) -> Floats:
    low, high = limits
    values: Floats = np.exp(draw.uniform(math.log(low), math.log(high), count))
    return values


def throughput(result: gs.Result) -> float:
    """Return the minimum throughput of an application, tasks/s."""
    table = result.applications
    return float((table["tasks"] / (table["finish"] - table["release"])).min())


def optimum(scenario: gs.Scenario, parent: Integers | None) -> Throughput:
    """Return the optimum of the linear program for a master that serves one child at a time."""
    bags, links = scenario.workload.realize(scenario.platform), scenario.platform.bandwidth
    assert links is not None
    return optimal_throughput(
        scenario.platform.speeds, links, bags.task_size, bags.moved()[0], port="one", parent=parent
    )


@dataclass(frozen=True)
class TreeThroughputs:
    """Throughputs in trees, and of schedulers for stretch with independent links.

    Parameters
    ----------
    throughputs
        (children per node, load) -> scheduler -> throughput over the optimum: float64[seeds].
    """

    throughputs: Mapping[tuple[int, float], Mapping[str, Floats]]
    independent: Measurements


def _measure(run: Run) -> TreeThroughputs:
    """Run the rules in random trees, and then with schedulers for stretch on independent links."""
    tasks = run.choose(*TASKS)
    trees = {
        (b, load): _relative_throughput(run, MasterBags(load, b, tasks)) for b in BRANCHING for load in LOADS
    }
    rivals: dict[str, gs.Scheduler] = {
        "mincent-once": gs.MinCent(mode="once"),
        "fair-tree": gs.FairTree(),
        CENTRAL: gs.SteadyState(port="many"),
        IN_TURN: gs.BandwidthCentric(port="many", rule="in-turn"),
    }
    metrics: dict[str, MetricFunction] = {GAP: over_bound, "makespan": makespan}
    cases = {f"{load:g}": DataBags(load, DATA_APPLICATIONS) for load in run.choose(*DATA_LOADS)}
    return TreeThroughputs(trees, run.replicate_cases(cases, rivals, metrics))


def _relative_throughput(run: Run, scenario: MasterBags) -> dict[str, Floats]:
    """Return the throughput of each scheduler over the optimum: float64[seeds]."""
    metrics: dict[str, MetricFunction] = {"throughput": throughput}
    values = run.replicate(scenario, schedulers(scenario.branching), metrics)["throughput"]
    parent = gs.SteadyState(branching=scenario.branching).parents(MACHINES)
    best = np.array([optimum(scenario(seed), parent).level for seed in run.seeds])
    return {name: np.asarray(column) / best for name, column in values.items()}


def _rows(data: TreeThroughputs) -> Iterator[Row]:
    yield _star(data.independent.run)
    for rule in (SORTED, IN_TURN):
        trees = [tree[rule] / tree[CENTRAL] for tree in data.throughputs.values()]
        equal = estimate(np.mean([ratio >= EQUAL_SHARE for ratio in trees], axis=0))
        quantity = f"share of trees with {EQUAL_SHARE:g} of its throughput or more, {rule}"
        yield incomparable(THIRDS, quantity, "about two thirds", equal, OTHER_RULES)
        far = estimate(1.0 - np.mean([ratio >= FAR_SHARE for ratio in trees], axis=0))
        quantity = f"share of trees with less than {FAR_SHARE:g} of it, {rule}"
        yield incomparable(WORSE, quantity, "a few", far, OTHER_RULES)
        quantity = f"smallest share of its throughput in the trees of a seed, {rule}"
        yield judge("", quantity, estimate(np.min(trees, axis=0)))


def _star(run: Run) -> Row:
    """Return the row on whether serving in the order of data and links attains the program's optimum."""
    largest, count = 0.0, 0
    for seed in run.seeds:
        for load in LOADS:
            scenario = MasterBags(load, BRANCHING[0])(seed)
            bags, links = scenario.workload.realize(scenario.platform), scenario.platform.bandwidth
            assert links is not None
            children = dict(enumerate(zip(scenario.platform.speeds.tolist(), links.tolist(), strict=True)))
            work = zip(bags.task_size.tolist(), bags.moved()[0].tolist(), [1.0] * len(bags), strict=True)
            level, _ = sorted_shares(children, dict(enumerate(work)))
            largest, count = max(largest, abs(level / optimum(scenario, None).level - 1.0)), count + 1
    reason = f"largest relative difference in {count} stars: {largest:.1g}"
    return exact(STAR, "throughput in that order, and of the linear program", "equal", largest < 1e-6, reason)


def _series(data: TreeThroughputs) -> dict[str, dict[str, list[Estimate]]]:
    """Return tree -> scheduler -> throughput over the optimum, at each load."""
    return {
        f"{branching} children a node": {
            name: [estimate(data.throughputs[branching, load][name]) for load in LOADS]
            for name in schedulers(0)
        }
        for branching in BRANCHING
    }


def _grids(data: TreeThroughputs) -> Iterator[ResultGrid]:
    columns = ["scheduler", *(f"load {load:g}" for load in LOADS)]
    for title, rows in _series(data).items():
        yield ResultGrid(f"throughput over the optimum, {title}", columns, rows)
    for label, metric in (("maximum stretch over the lower bound", GAP), ("last task done, s", "makespan")):
        yield CaseTable(f"independent links: {label}", metric).grid(data.independent)


def makespan(result: gs.Result) -> float:
    """Return the time at which the last task ends, s."""
    return float(result.applications["finish"].max())


#: Reason why the claims of the abstracts on local rules cannot be compared with the measurements.
OTHER_RULES = "the abstract's rules, trees and limits are not printed; these are ours"
REMARKS = (
    f"{MACHINES} machines of {SPEEDS[0]:g}..{SPEEDS[1]:g} Mflop/s, uniform, with links of "
    f"{LINKS[0]:g}..{LINKS[1]:g} bytes/s whose logarithms are uniform, in the order of their numbers in a "
    f"tree of 2, 4 or 8 children a node; {APPLICATIONS} bags of {TASKS[0]} tasks ({TASKS[1]} quick) of "
    f"{SIZES[0]:g}..{SIZES[1]:g} Mflop, all at the master at time 0, of weight 1; bytes per Mflop differ up "
    "to a hundredfold.",
    "Throughput: of the application that has the least, its tasks over the time until the last is done; so "
    "the beginning and the end of a run count, and nothing reaches the optimum.",
    "The abstracts have no number besides the two thirds, which are of heuristics and test cases that they "
    f"do not describe.  The platforms, the local rules, and what counts as the same ({EQUAL_SHARE:g}) and "
    f"as far worse (below {FAR_SHARE:g}) are ours: what is measured is not what the two thirds are of, and "
    "speaks neither for nor against them.",
    f"Independent links: the scenario of data-tree with {DATA_APPLICATIONS} applications, over bytes per "
    "Mflop relative to what the links carry; no port is shared there.",
)

MASTER_WORKER = Reproduction(
    name="master-worker",
    title="bags at one master: a linear program and local rules",
    paper="Beaumont et al., IPDPS 2006 and TPDS 2008",
    claims=(STAR, THIRDS, WORSE),
    measure=_measure,
    rows=_rows,
    grids=_grids,
    remarks=REMARKS,
    figure=lambda data: panels(
        _series(data),
        LOADS,
        {"xscale": "log", "xlabel": "bytes per Mflop over what a link carries", "ylim": (0.0, 1.05)},
        shared=True,
    ),
)
