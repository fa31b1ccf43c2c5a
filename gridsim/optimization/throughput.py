"""The maximum steady-state throughput of applications with one master, by a linear program.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).

Machine u computes x_uk tasks of application k per s and receives f_uk: those that it computes, and those that
it forwards to its children in the tree.  The program maximizes t subject to

    sum over k of c_k x_uk <= s_u                                  the processor of u
    sum over k of in_k f_uk <= b_u,  sum of out_k x_uk <= b_u      its link, down and up
    f_uk = x_uk + sum over children v of u of f_vk                 conservation of tasks
    sum over children v of u, and k, of in_k f_vk / b_v <= 1       the port of u, if it sends to one at a time
    sum over children v of the master of f_vk = w_k t              throughputs in the ratio of the weights.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.support.arguments import one_of, real, short_repr
from gridsim.support.arrays import Floats, Integers
from gridsim.support.imports import import_extra

#: Port of a node, which sends to one child at a time, or to all children at once, each over its own link.
Port = Literal["one", "many"]


class Throughput(NamedTuple):
    """The maximum throughput of applications in given ratios.

    Parameters
    ----------
    level
        The maximum t: application k completes ``weights[k] * level`` tasks/s.
    computed
        float64[machines, applications], tasks/s that each machine computes.
    received
        float64[machines, applications], tasks/s that each machine receives, including those for its subtree.
    """

    level: float
    computed: Floats
    received: Floats


def optimal_throughput(
    speeds: ArrayLike,
    bandwidth: ArrayLike,
    task_size: ArrayLike,
    input_bytes: ArrayLike = 0.0,
    *,
    output_bytes: ArrayLike = 0.0,
    weights: ArrayLike = 1.0,
    port: Port = "many",
    master_bandwidth: float = math.inf,
    parent: ArrayLike | None = None,
) -> Throughput:
    """Return the maximum weighted throughput of all applications together, with rates that achieve it.

    All tasks start at a master, which computes nothing and never runs out of tasks.  Output uses only the
    link of the machine that computes the task.  The optimum is unique; the rates need not be.

    Parameters
    ----------
    speeds
        float64[machines], speeds, Mflop/s.
    bandwidth
        float64[machines], bandwidth of the link over which each machine receives tasks, bytes/s; inf for no
        limit.
    task_size
        float64[applications], task sizes, Mflop.
    input_bytes, output_bytes
        Bytes that a task fetches and sends; one value, or one per application.
    weights
        Ratio of the throughputs of the applications, > 0; one value, or one per application.
    port
        ``"one"``: a sender serves one machine at a time, at the bandwidth of its link; ``"many"``: it serves
        all at once, each over its own link.
    master_bandwidth
        Maximum rate of the master, bytes/s: to one machine if `port` is ``"one"``, else to all together.
    parent
        int64[machines], the parent of each machine: -1 for the master, else a machine of a lower number.
        None if the master is the parent of all.

    Raises
    ------
    ScenarioError
        If an argument is out of range.
    ImportError
        If scipy is not installed (extra ``stats``).
    """
    speeds = _positive("speeds", speeds)
    machines, sizes = len(speeds), _positive("task_size", task_size)
    links = _positive("bandwidth", bandwidth, machines, finite=False)
    input_per_task = _bytes("input_bytes", input_bytes, len(sizes))
    output_per_task = _bytes("output_bytes", output_bytes, len(sizes))
    shares = _positive("weights", weights, len(sizes))
    one_of("port", port, get_args(Port))
    master_limit = real("master_bandwidth", master_bandwidth, above=0, unit="bytes/s", finite=False)
    parents = _tree(parent, machines)
    # in this unit of time, rates are about 1, which suits the tolerances of the solver
    time_unit, mean_share = float(sizes.mean() / speeds.mean()), float(shares.mean())
    program = _Program(speeds * time_unit, links * time_unit, sizes, input_per_task, output_per_task, parents)
    optimum = program.solve(shares / mean_share, port, master_limit * time_unit)
    return Throughput(
        optimum.level / time_unit / mean_share, optimum.computed / time_unit, optimum.received / time_unit
    )


class _Rows:
    """Rows of a sparse matrix, assembled from blocks."""

    def __init__(self) -> None:
        self.count = 0
        self.parts: list[tuple[Any, Any, Any]] = []

    def add(self, row: Any, column: Any, value: Any) -> None:
        """Add entries to the current block; `row` counts within it, and the arguments are broadcast."""
        shape = np.broadcast_shapes(np.shape(row), np.shape(column), np.shape(value))
        row, column, value = (np.broadcast_to(item, shape).ravel() for item in (row, column, value))
        self.parts.append((row + self.count, column, value))

    def end_block(self, rows: int) -> None:
        """End a block with the given number of rows."""
        self.count += rows

    def matrix(self, columns: int) -> Any:
        """Return the matrix with the given number of columns."""
        row, column, value = (np.concatenate(item) for item in zip(*self.parts, strict=True))
        sparse = import_extra("scipy.sparse", "stats", "optimal_throughput")
        return sparse.csr_array((value, (row, column)), shape=(self.count, columns))


class _Program:
    """The linear program; its variables are t, and x and f for each machine and application."""

    def __init__(
        self,
        speeds: Floats,
        links: Floats,
        sizes: Floats,
        input_bytes: Floats,
        output_bytes: Floats,
        parent: Integers,
    ) -> None:
        self.speeds, self.links, self.sizes = speeds[:, None], links[:, None], sizes
        self.input_bytes, self.output_bytes, self.parent = input_bytes, output_bytes, parent
        self.shape = len(speeds), len(sizes)
        self.x, self.f = np.arange(2 * len(speeds) * len(sizes)).reshape(2, *self.shape)

    def solve(self, shares: Floats, port: Port, limit: float) -> Throughput:
        """Return the optimum for applications in the ratio of `shares`."""
        width = 2 * self.x.size + 1
        limits, flow = self._limits(port, limit), self._flow(shares)
        gain = np.zeros(width)
        gain[-1] = -1.0
        solution = import_extra("scipy.optimize", "stats", "optimal_throughput").linprog(
            gain,
            limits.matrix(width),
            np.ones(limits.count),
            flow.matrix(width),
            np.zeros(flow.count),
            method="highs-ds",
        )
        if solution.status:
            raise ArithmeticError(f"the linear program was not solved: {solution.message}")
        x, f = np.clip(solution.x[:-1], 0.0, None).reshape(2, *self.shape)
        return Throughput(float(solution.x[-1]), x, f)

    def _limits(self, port: Port, limit: float) -> _Rows:
        """Return the rows whose products with the variables must be at most 1."""
        machines, rows = np.arange(self.shape[0])[:, None], _Rows()
        for column, cost in (
            (self.x, self.sizes / self.speeds),
            (self.x, self.output_bytes / self.links),
            (self.f, self.input_bytes / self.links),
        ):
            rows.add(machines, column, cost)
            rows.end_block(self.shape[0])
        master = self.parent[:, None] < 0
        if port == "one":
            speed = np.where(master, np.minimum(self.links, limit), self.links)
            rows.add(self.parent[:, None] + 1, self.f, self.input_bytes / speed)
            rows.end_block(self.shape[0])
        else:
            rows.add(0, self.f, master * self.input_bytes / limit)
            rows.end_block(1)
        return rows

    def _flow(self, shares: Floats) -> _Rows:
        """Return the rows whose products with the variables must be 0."""
        rows, applications = _Rows(), np.arange(self.shape[1])
        rows.add(self.x, self.x, -1.0)
        rows.add(self.x, self.f, 1.0)
        inner = np.flatnonzero(self.parent >= 0)
        rows.add(self.x[self.parent[inner]], self.f[inner], -1.0)
        rows.end_block(self.x.size)
        rows.add(applications, self.f[self.parent < 0], 1.0)
        rows.add(applications, 2 * self.x.size, -shares)
        rows.end_block(self.shape[1])
        return rows


def _positive(name: str, values: Any, count: int | None = None, *, finite: bool = True) -> Floats:
    """Return `values` as positive numbers; a single value is repeated `count` times."""
    array = _column(name, values, count)
    for k in np.flatnonzero(~((array > 0) & (np.isfinite(array) | (not finite))))[:1].tolist():
        bound = "a finite number > 0" if finite else "a number > 0"
        raise ScenarioError(f"{name}[{k}] must be {bound}, got {short_repr(float(array[k]))}")
    return array


def _bytes(name: str, values: Any, count: int) -> Floats:
    array = _column(name, values, count)
    for k in np.flatnonzero(~((array >= 0) & np.isfinite(array)))[:1].tolist():
        raise ScenarioError(f"{name}[{k}] must be a finite number >= 0, got {short_repr(float(array[k]))}")
    return array


def _column(name: str, values: Any, count: int | None) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
        if count is not None and array.ndim == 0:
            array = np.full(count, array)
    except (TypeError, ValueError):
        array = np.zeros((0, 0))
    expected = "one number or more" if count is None else f"{count} numbers or a single one"
    if array.ndim != 1 or not len(array) or (count is not None and len(array) != count):
        raise ScenarioError(f"{name} must be {expected}, got {short_repr(values)}")
    return array


def _tree(parent: Any, machines: int) -> Integers:
    if parent is None:
        return np.full(machines, -1)
    parents = np.asarray(parent)
    if parents.shape != (machines,) or parents.dtype.kind not in "iu":
        raise ScenarioError(f"parent must be {machines} whole numbers, got {short_repr(parent)}")
    for u in np.flatnonzero((parents < -1) | (parents >= np.arange(machines)))[:1].tolist():
        raise ScenarioError(f"parent[{u}] must be -1 or a machine below {u}, got {parents[u]}")
    return parents.astype(np.int64)
