"""check_theory(): run the experiments, and compare measured values with queueing theory."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.results.metrics.estimates import Estimate
from gridsim.scheduling.contract import NodeForm
from gridsim.support.arguments import integer, listed
from gridsim.support.imports import import_extra
from gridsim.support.processes import executor_of, result_of
from gridsim.support.progress import Progress, with_progress
from gridsim.support.text import align
from gridsim.theory.experiments import EXPERIMENTS, Experiment, ExperimentSize

#: Confidence level of the intervals.
LEVEL = 0.99
#: Tolerance of values that are exact apart from the rounding of times and sums.
TOLERANCE = 1e-9

#: Values of a replication, a remark on it, and its duration (s).
Replication = tuple[list[float], str, float]


@dataclass(frozen=True)
class Row:
    """Outcome for one quantity of an experiment.

    Parameters
    ----------
    experiment, title
        Name of the experiment, and its model.
    quantity
        Name of the quantity.
    expected
        Value according to theory.
    measured
        Mean over replications, with its confidence interval.
    inside
        Whether the expected value is inside the interval.
    seconds
        Total duration of all replications of the experiment (s).
    remark
        Remark on the experiment, or empty.
    """

    experiment: str
    title: str
    quantity: str
    expected: float
    measured: Estimate
    inside: bool
    seconds: float
    remark: str = ""


@dataclass(frozen=True)
class Theory:
    """Outcome of `check_theory`.

    Parameters
    ----------
    left_out
        Names of the experiments that have no small version.
    """

    seed: int
    full: bool
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all expected values are inside their intervals."""
        return all(row.inside for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as dicts, lists, strings and numbers."""
        return {
            "seed": self.seed,
            "full": self.full,
            "passed": self.passed,
            "left_out": list(self.left_out),
            "rows": [asdict(row) for row in self.rows],
        }

    def format(self) -> str:
        """Return the outcome as a text table."""
        head = ("experiment", "quantity", "expected", "measured", f"{LEVEL:.0%} interval", "verdict", "s")
        columns = [[title] for title in head]
        experiment_above = ""
        for row in self.rows:
            estimate = row.measured
            cells = (
                "" if row.experiment == experiment_above else row.experiment,
                row.quantity,
                f"{row.expected:.5g}",
                f"{estimate.mean:.5g}",
                f"{estimate.low:.5g} .. {estimate.high:.5g}",
                "inside" if row.inside else "OUTSIDE",
                "" if row.experiment == experiment_above else f"{row.seconds:.1f}",
            )
            experiment_above = row.experiment
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
        remarks = [f"{row.experiment}: {row.remark}" for row in self.rows if row.remark]
        remarks += [f"not run without --full: {name}" for name in self.left_out]
        outside = sum(not row.inside for row in self.rows)
        verdict = f"{outside} of {len(self.rows)} outside" if outside else f"all {len(self.rows)} inside"
        return "\n".join([*align(columns, left=(0, 1)), "", *remarks, verdict])

    __str__ = format


def check_theory(
    names: Sequence[str] = (),
    *,
    full: bool = False,
    seed: int = 1,
    workers: int | None = 1,
    progress: Progress = False,
) -> Theory:
    """Run experiments whose outcome is known from queueing theory, and compare measured with exact values.

    Parameters
    ----------
    names
        Names of experiments; if empty, all are run.
    full
        Whether to run the full versions, which takes minutes, or the small ones.
    seed
        Seed of the replications.  In a correct simulator, a row is outside its interval for 1 % of seeds.
    workers
        Number of processes; None for as many as there are processors.  Results do not depend on it.
    progress
        Whether to show a bar on stderr, as in `gridsim.simulate`.

    Raises
    ------
    ScenarioError
        If a name is unknown, or its experiment has no small version.
    MissingExtra
        If SciPy is not installed.

    Notes
    -----
    Node programs run compiled; without Numba they run interpreted, in the small versions.
    """
    experiments = {experiment.name: experiment for experiment in EXPERIMENTS}
    for name in names:
        if name not in experiments:
            raise ScenarioError(f"unknown experiment {name!r}; {listed(experiments, name)}")
    integer("seed", seed, low=0, high=2**40)
    import_extra("scipy.stats", "stats", "theory")
    candidates = {name: _Plan.of(experiments[name], full) for name in (names or experiments)}
    left_out = tuple(name for name, plan in candidates.items() if plan is None)
    if names and left_out:
        raise ScenarioError(f"experiment {left_out[0]!r} requires --full and Numba (extra jit)")
    plans = [plan for plan in candidates.values() if plan is not None]
    tasks = [(plan, replication_seed) for plan in plans for replication_seed in plan.seeds(seed)]
    with executor_of(workers) as executor:
        replications: Iterable[Replication]
        if executor is None:
            replications = (plan.replication(replication_seed) for plan, replication_seed in tasks)
        else:
            futures = [
                executor.submit(_replication, plan.experiment.name, full, replication_seed)
                for plan, replication_seed in tasks
            ]
            replications = (result_of(executor, future) for future in futures)
        results = list(with_progress(replications, progress, len(tasks), "replications"))
    rows: list[Row] = []
    for plan in plans:
        rows += plan.rows(
            [result for (owner, _), result in zip(tasks, results, strict=True) if owner is plan]
        )
    return Theory(seed, full, tuple(rows), left_out)


def check_experiment(experiment: Experiment, *, full: bool = False, seed: int = 1) -> list[Row]:
    """Run an experiment, which need not be in `EXPERIMENTS`, and return a row for each quantity."""
    plan = _Plan.of(experiment, full)
    assert plan is not None, "the experiment has no small version"
    return plan.rows([plan.replication(replication_seed) for replication_seed in plan.seeds(seed)])


def _replication(name: str, full: bool, seed: int) -> Replication:
    [plan] = [_Plan.of(experiment, full) for experiment in EXPERIMENTS if experiment.name == name]
    assert plan is not None
    return plan.replication(seed)


@dataclass(frozen=True)
class _Plan:
    """Execution plan of an experiment.

    Parameters
    ----------
    is_reduced
        Whether the small version is run in place of the full one.
    """

    experiment: Experiment
    size: ExperimentSize
    nodes: NodeForm | None
    is_reduced: bool

    @classmethod
    def of(cls, experiment: Experiment, full: bool) -> _Plan | None:
        """Return the plan; None if the experiment has no version of this size."""
        compiled = find_spec("numba") is not None
        is_full = full and (compiled or not experiment.nodes)
        size = experiment.full if is_full else experiment.small
        nodes: NodeForm | None = "compiled" if experiment.nodes and compiled else None
        return None if size is None else cls(experiment, size, nodes, full and not is_full)

    def seeds(self, seed: int) -> list[int]:
        """Return the seed of each replication."""
        return [1000 * seed + k for k in range(self.size.replications)]

    def replication(self, seed: int) -> Replication:
        """Run one replication, and return its values, its remark and its duration (s)."""
        start = time.perf_counter()
        values, remark = self.experiment.measure(self.size, seed, self.nodes)
        return values, remark, time.perf_counter() - start

    def rows(self, replications: Sequence[Replication]) -> list[Row]:
        """Return a row for each quantity, from all replications."""
        remarks = ["small version, since Numba is not installed"] if self.is_reduced else []
        remarks += [remark for _, remark, _ in replications if remark]
        seconds = math.fsum(duration for _, _, duration in replications)
        rows = []
        for k, value in enumerate(self.experiment.values(self.size)):
            estimate = interval([values[k] for values, _, _ in replications], exact=value.exact)
            rows.append(
                Row(
                    self.experiment.name,
                    self.experiment.title,
                    value.quantity,
                    value.expected,
                    estimate,
                    estimate.low <= value.expected <= estimate.high,
                    seconds,
                    "" if k else "; ".join(dict.fromkeys(remarks)),
                )
            )
        return rows


def interval(values: Sequence[float], *, exact: bool = False) -> Estimate:
    """Return the mean of independent values with Student's t interval at `LEVEL`.

    Parameters
    ----------
    exact
        Whether the values are exact except for rounding; the interval is then their range, widened by
        `TOLERANCE`.
    """
    array = np.asarray(values, dtype=np.float64)
    mean, count = float(array.mean()), len(array)
    if exact:
        low, high = float(array.min()) - TOLERANCE, float(array.max()) + TOLERANCE
        return Estimate(mean, low, high, count, LEVEL, "exact but for rounding")
    quantile = import_extra("scipy.stats", "stats", "theory").t.ppf((1 + LEVEL) / 2, count - 1)
    half = float(quantile * array.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - half, mean + half, count, LEVEL)
