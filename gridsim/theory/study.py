"""check_theory(): runs the experiments, and compares what was measured with what theory says."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.results.metrics.estimates import Estimate
from gridsim.scheduling.contract import NodeForm
from gridsim.studies.execution.processes import executor_of
from gridsim.support.arguments import listed, whole
from gridsim.support.extras import need
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

    expected : what theory says.  measured : mean over replications, with its interval.
    inside : whether the expected value is inside the interval.
    seconds : of all replications of the experiment, added up.
    remark : what else there is to say.
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
    """The outcome of `check_theory`."""

    seed: int
    full: bool
    rows: tuple[Row, ...]

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
        outside = sum(not row.inside for row in self.rows)
        said = f"{outside} of {len(self.rows)} outside" if outside else f"all {len(self.rows)} inside"
        return "\n".join([*align(columns, left=2), "", *remarks, said])

    __str__ = format


def check_theory(
    names: Sequence[str] = (),
    *,
    full: bool = False,
    seed: int = 1,
    jobs: int = 1,
) -> Theory:
    """Run experiments whose outcome is known from theory, and compare.

    Parameters
    ----------
    names : names of experiments; none stands for all of them.
    full : whether to run them in full, which takes minutes, or in small.
    seed : seed of the replications.  With another seed, one row in a hundred is outside by chance.
    jobs : number of processes; no value depends on it.

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
    whole("seed", seed, low=0)
    need("scipy.stats", "stats", "theory")
    chosen = [known[name] for name in dict.fromkeys(names)] if names else list(EXPERIMENTS)
    rows: list[Row] = []
    with executor_of(jobs) as executor:
        for experiment in chosen:
            rows += run(experiment, full=full, seed=seed, executor=executor)
    return Theory(seed, full, tuple(rows))


def run(
    experiment: Experiment, *, full: bool = False, seed: int = 1, executor: Executor | None = None
) -> list[Row]:
    """Run one experiment, and return a row for each of its quantities.

    executor : where replications are executed; None for this process.  Only experiments of `EXPERIMENTS` can
        be executed elsewhere.
    """
    compiled = find_spec("numba") is not None
    in_full = full and (compiled or not experiment.nodes)
    size = experiment.full if in_full else experiment.small
    nodes: NodeForm | None = "compiled" if experiment.nodes and compiled else None
    seeds = [1000 * seed + k for k in range(size.replications)]
    if executor is None:
        made = [replication(experiment, size, each, nodes) for each in seeds]
    else:
        futures = [executor.submit(_named, experiment.name, size, each, nodes) for each in seeds]
        made = [future.result() for future in futures]
    remark = next((each for _, each, _ in made if each), "")
    if full and not in_full:
        remark = f"in small, since Numba is missing{'; ' if remark else ''}{remark}"
    seconds = math.fsum(each for _, _, each in made)
    rows = []
    for k, value in enumerate(experiment.values(size)):
        measured = interval([values[k] for values, _, _ in made], exact=value.exact)
        inside = measured.low <= value.expected <= measured.high
        title = experiment.title
        said = "" if k else remark
        rows.append(
            Row(experiment.name, title, value.quantity, value.expected, measured, inside, seconds, said)
        )
    return rows


def replication(experiment: Experiment, size: Size, seed: int, nodes: NodeForm | None) -> Replication:
    """Run one replication; return its values, a remark, and the s that it took."""
    since = time.perf_counter()
    values, remark = experiment.measure(size, seed, nodes)
    return values, remark, time.perf_counter() - since


def _named(name: str, size: Size, seed: int, nodes: NodeForm | None) -> Replication:
    [experiment] = [each for each in EXPERIMENTS if each.name == name]
    return replication(experiment, size, seed, nodes)


def interval(values: Sequence[float], *, exact: bool = False) -> Estimate:
    """Return the mean of independent values with Student's t interval at `LEVEL`.

    exact : whether the values must be right but for rounding: the interval is the one of all values, widened
        by `TOLERANCE`.
    """
    found = np.asarray(values, dtype=np.float64)
    mean, count = float(found.mean()), len(found)
    if exact:
        low, high = float(found.min()) - TOLERANCE, float(found.max()) + TOLERANCE
        return Estimate(mean, low, high, count, LEVEL, "exact but for rounding")
    quantile = need("scipy.stats", "stats", "theory").t.ppf((1 + LEVEL) / 2, count - 1)
    half = float(quantile * found.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - half, mean + half, count, LEVEL)
