"""check_theory(): runs the experiments, and compares what was measured with what theory says."""

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
from gridsim.support.arguments import listed, whole
from gridsim.support.extras import need
from gridsim.support.processes import executor_of, result_of
from gridsim.support.progress import Progress, with_progress
from gridsim.support.text import align
from gridsim.theory.experiments import EXPERIMENTS, Experiment, Size

#: Confidence level of intervals.
LEVEL = 0.99
#: Largest difference of values that must be equal, from rounding of times and sums.
TOLERANCE = 1e-9

#: Values of a replication, a remark, and the s that it took.
Replication = tuple[list[float], str, float]


@dataclass(frozen=True)
class Row:
    """One quantity of an experiment.

    Parameters
    ----------
    expected
        What theory says.
    measured
        Mean over replications, with its interval.
    inside
        Whether the expected value is inside the interval.
    seconds
        Of all replications of the experiment, added up.
    remark
        What else there is to say.
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
    """The outcome of `check_theory`.

    Parameters
    ----------
    left_out
        Names of experiments that say nothing in small.
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
        """Return the rows as plain values."""
        return {
            "seed": self.seed,
            "full": self.full,
            "passed": self.passed,
            "left_out": list(self.left_out),
            "rows": [asdict(row) for row in self.rows],
        }

    def format(self) -> str:
        """Return the table as text."""
        head = ("experiment", "quantity", "expected", "measured", f"{LEVEL:.0%} interval", "verdict", "s")
        columns = [[each] for each in head]
        last = ""
        for row in self.rows:
            measured = row.measured
            cells = (
                "" if row.experiment == last else row.experiment,
                row.quantity,
                f"{row.expected:.5g}",
                f"{measured.mean:.5g}",
                f"{measured.low:.5g} .. {measured.high:.5g}",
                "inside" if row.inside else "OUTSIDE",
                "" if row.experiment == last else f"{row.seconds:.1f}",
            )
            last = row.experiment
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
        remarks = [f"{row.experiment}: {row.remark}" for row in self.rows if row.remark]
        remarks += [f"left out in small: {name}" for name in self.left_out]
        outside = sum(not row.inside for row in self.rows)
        said = f"{outside} of {len(self.rows)} outside" if outside else f"all {len(self.rows)} inside"
        return "\n".join([*align(columns, left=2), "", *remarks, said])

    __str__ = format


def check_theory(
    names: Sequence[str] = (),
    *,
    full: bool = False,
    seed: int = 1,
    workers: int | None = 1,
    progress: Progress = False,
) -> Theory:
    """Run experiments whose outcome is known from theory, and compare.

    Parameters
    ----------
    names
        Names of experiments; none stands for all of them.
    full
        Whether to run them in full, which takes minutes, or in small.
    seed
        Seed of the replications.  With another seed, one row in a hundred is outside by chance.
    workers
        Number of processes; None for as many as there are processors.  No value depends on it.
    progress
        Whether to show a bar on stderr, as in `gridsim.simulate`.

    Raises
    ------
    ScenarioError
        For an unknown name.
    MissingExtra
        Without SciPy.

    Notes
    -----
    Node programs run compiled; without Numba they run interpreted, and in small.
    """
    known = {each.name: each for each in EXPERIMENTS}
    for name in names:
        if name not in known:
            raise ScenarioError(f"unknown experiment {name!r}; {listed(known, name)}")
    whole("seed", seed, low=0, high=2**40)
    need("scipy.stats", "stats", "theory")
    tried = {name: _Plan.of(known[name], full) for name in (names or known)}
    left_out = tuple(name for name, plan in tried.items() if plan is None)
    if names and left_out:
        raise ScenarioError(f"experiment {left_out[0]!r} runs only in full, compiled by Numba (extra jit)")
    plans = [plan for plan in tried.values() if plan is not None]
    todo = [(plan, each) for plan in plans for each in plan.seeds(seed)]
    with executor_of(workers) as executor:
        made: Iterable[Replication]
        if executor is None:
            made = (plan.replication(each) for plan, each in todo)
        else:
            futures = [executor.submit(_named, plan.experiment.name, full, each) for plan, each in todo]
            made = (result_of(executor, future) for future in futures)
        done = list(with_progress(made, progress, len(todo), "replications"))
    rows: list[Row] = []
    for plan in plans:
        rows += plan.rows([each for (whose, _), each in zip(todo, done, strict=True) if whose is plan])
    return Theory(seed, full, tuple(rows), left_out)


def check(experiment: Experiment, *, full: bool = False, seed: int = 1) -> list[Row]:
    """Run one experiment, which need not be one of `EXPERIMENTS`; return a row for each of its quantities."""
    plan = _Plan.of(experiment, full)
    assert plan is not None, "it has a size"
    return plan.rows([plan.replication(each) for each in plan.seeds(seed)])


def _named(name: str, full: bool, seed: int) -> Replication:
    [plan] = [_Plan.of(each, full) for each in EXPERIMENTS if each.name == name]
    assert plan is not None
    return plan.replication(seed)


@dataclass(frozen=True)
class _Plan:
    """How an experiment is run.

    Parameters
    ----------
    reduced
        Whether it is run in small although it was asked for in full.
    """

    experiment: Experiment
    size: Size
    nodes: NodeForm | None
    reduced: bool

    @classmethod
    def of(cls, experiment: Experiment, full: bool) -> _Plan | None:
        """Return the plan; None if there is no such size of the experiment."""
        compiled = find_spec("numba") is not None
        in_full = full and (compiled or not experiment.nodes)
        size = experiment.full if in_full else experiment.small
        nodes: NodeForm | None = "compiled" if experiment.nodes and compiled else None
        return None if size is None else cls(experiment, size, nodes, full and not in_full)

    def seeds(self, seed: int) -> list[int]:
        """Return the seed of each replication."""
        return [1000 * seed + k for k in range(self.size.replications)]

    def replication(self, seed: int) -> Replication:
        """Run one replication."""
        since = time.perf_counter()
        values, remark = self.experiment.measure(self.size, seed, self.nodes)
        return values, remark, time.perf_counter() - since

    def rows(self, made: Sequence[Replication]) -> list[Row]:
        """Return the rows of all replications."""
        remarks = ["in small, since Numba is missing"] if self.reduced else []
        remarks += [remark for _, remark, _ in made if remark]
        seconds = math.fsum(each for _, _, each in made)
        rows = []
        for k, value in enumerate(self.experiment.values(self.size)):
            measured = interval([values[k] for values, _, _ in made], exact=value.exact)
            rows.append(
                Row(
                    self.experiment.name,
                    self.experiment.title,
                    value.quantity,
                    value.expected,
                    measured,
                    measured.low <= value.expected <= measured.high,
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
        Whether the values must be right but for rounding: the interval is the one of all values, widened by
        `TOLERANCE`.
    """
    found = np.asarray(values, dtype=np.float64)
    mean, count = float(found.mean()), len(found)
    if exact:
        low, high = float(found.min()) - TOLERANCE, float(found.max()) + TOLERANCE
        return Estimate(mean, low, high, count, LEVEL, "exact but for rounding")
    quantile = need("scipy.stats", "stats", "theory").t.ppf((1 + LEVEL) / 2, count - 1)
    half = float(quantile * found.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - half, mean + half, count, LEVEL)
