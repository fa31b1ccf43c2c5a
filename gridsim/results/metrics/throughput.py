"""The largest steady-state throughput of applications whose tasks all come from one master: a linear program.

O. Beaumont, L. Carter, J. Ferrante, A. Legrand, L. Marchal and Y. Robert, "Centralized versus distributed
schedulers for multiple bag-of-task applications", IPDPS 2006, and IEEE TPDS 19 (2008).

Machine u computes x_uk tasks of application k a second, and f_uk come to it: its own, and those that it
passes on to its children in the tree.  The program maximizes t subject to

    sum over k of c_k x_uk <= s_u                                  the processor of u
    sum over k of in_k f_uk <= b_u,  sum of out_k x_uk <= b_u      its link, down and up
    f_uk = x_uk + sum over children v of u of f_vk                 what comes goes somewhere
    sum over children v of u, and k, of in_k f_vk / b_v <= 1       the port of u, if it serves one at a time
    sum over children v of the master of f_vk = w_k t              shares as the weights want them.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.support.arguments import one_of, real, short_repr
from gridsim.support.arrays import Floats, Integers
from gridsim.support.extras import need

#: How a node sends to its children: to one at a time, or to all at once, each over its own link.
Port = Literal["one", "many"]


class Throughput(NamedTuple):
    """The optimum of the linear program.

    Parameters
    ----------
    level
        The largest t: application k completes ``weights[k] * level`` tasks/s.
    computed
        float64[machines, applications], tasks/s that each machine computes.
    received
        float64[machines, applications], tasks/s that come to each machine, also for those below it.
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
    """Return the largest weighted throughput that all applications can have at once, and how to reach it.

    All tasks start at a master, which computes nothing.  There are always enough of each application.

    Output counts on the machine's own link only.  The optimum is unique, the rates that reach it need not be.

    Raises ScenarioError for arguments out of range, and ImportError without scipy (extra ``stats``).

    Parameters
    ----------
    speeds
        float64[machines], Mflop/s.
    bandwidth
        float64[machines], bytes/s of the link over which each gets tasks; inf for no limit.
    task_size
        float64[applications], Mflop.
    input_bytes, output_bytes
        Bytes that a task fetches and sends; one value, or one an application.
    weights
        Of applications, > 0; one value, or one each.  Their throughputs are in this ratio.
    port
        ``"one"``: who passes tasks on sends to one machine at a time, as fast as its link carries;
        ``"many"``: to all at once, each over its own link.
    master_bandwidth
        Bytes/s that the master sends at most: to the machine that it serves, if port is ``"one"``, else to
        all together.
    parent
        int64[machines], from whom each machine gets tasks: -1 for the master, else a machine of a lower
        number.  None: all from the master.
    """
    speeds = _positive("speeds", speeds)
    machines, sizes = len(speeds), _positive("task_size", task_size)
    links = _positive("bandwidth", bandwidth, machines, finite=False)
    fetched = _bytes("input_bytes", input_bytes, len(sizes))
    sent = _bytes("output_bytes", output_bytes, len(sizes))
    shares = _positive("weights", weights, len(sizes))
    one_of("port", port, get_args(Port))
    limit = real("master_bandwidth", master_bandwidth, above=0, unit="bytes/s", finite=False)
    above = _tree(parent, machines)
    # in this unit of time rates are about 1, which is what the tolerances of the solver are made for
    unit, share = float(sizes.mean() / speeds.mean()), float(shares.mean())
    program = _Program(speeds * unit, links * unit, sizes, fetched, sent, above)
    found = program.solve(shares / share, port, limit * unit)
    return Throughput(found.level / unit / share, found.computed / unit, found.received / unit)


class _Rows:
    """Rows of a sparse matrix, put together from blocks."""

    def __init__(self) -> None:
        self.count = 0
        self.parts: list[tuple[Any, Any, Any]] = []

    def add(self, row: Any, column: Any, value: Any) -> None:
        """Add entries to the block: row within it, column and value, broadcast together."""
        shape = np.broadcast_shapes(np.shape(row), np.shape(column), np.shape(value))
        row, column, value = (np.broadcast_to(each, shape).ravel() for each in (row, column, value))
        self.parts.append((row + self.count, column, value))

    def end(self, rows: int) -> None:
        """End a block of so many rows."""
        self.count += rows

    def matrix(self, columns: int) -> Any:
        """Return the matrix, with so many columns."""
        row, column, value = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        sparse = need("scipy.sparse", "stats", "optimal_throughput")
        return sparse.csr_array((value, (row, column)), shape=(self.count, columns))


class _Program:
    """The linear program; its variables are x (machines by applications), f (the same), and t."""

    def __init__(
        self,
        speeds: Floats,
        links: Floats,
        sizes: Floats,
        fetched: Floats,
        sent: Floats,
        parent: Integers,
    ) -> None:
        self.speeds, self.links, self.sizes = speeds[:, None], links[:, None], sizes
        self.fetched, self.sent, self.parent = fetched, sent, parent
        self.shape = len(speeds), len(sizes)
        self.x, self.f = np.arange(2 * len(speeds) * len(sizes)).reshape(2, *self.shape)

    def solve(self, shares: Floats, port: Port, limit: float) -> Throughput:
        """Return the optimum for applications in the ratio of `shares`."""
        width = 2 * self.x.size + 1
        limits, flow = self._limits(port, limit), self._flow(shares)
        gain = np.zeros(width)
        gain[-1] = -1.0
        made = need("scipy.optimize", "stats", "optimal_throughput").linprog(
            gain,
            limits.matrix(width),
            np.ones(limits.count),
            flow.matrix(width),
            np.zeros(flow.count),
            method="highs-ds",
        )
        if made.status:
            raise ArithmeticError(f"the linear program was not solved: {made.message}")
        x, f = np.clip(made.x[:-1], 0.0, None).reshape(2, *self.shape)
        return Throughput(float(made.x[-1]), x, f)

    def _limits(self, port: Port, limit: float) -> _Rows:
        """Return the rows whose products must be at most 1."""
        machines, rows = np.arange(self.shape[0])[:, None], _Rows()
        for column, each in (
            (self.x, self.sizes / self.speeds),
            (self.x, self.sent / self.links),
            (self.f, self.fetched / self.links),
        ):
            rows.add(machines, column, each)
            rows.end(self.shape[0])
        master = self.parent[:, None] < 0
        if port == "one":
            speed = np.where(master, np.minimum(self.links, limit), self.links)
            rows.add(self.parent[:, None] + 1, self.f, self.fetched / speed)
            rows.end(self.shape[0])
        else:
            rows.add(0, self.f, master * self.fetched / limit)
            rows.end(1)
        return rows

    def _flow(self, shares: Floats) -> _Rows:
        """Return the rows whose products must be 0."""
        rows, applications = _Rows(), np.arange(self.shape[1])
        rows.add(self.x, self.x, -1.0)
        rows.add(self.x, self.f, 1.0)
        inner = np.flatnonzero(self.parent >= 0)
        rows.add(self.x[self.parent[inner]], self.f[inner], -1.0)
        rows.end(self.x.size)
        rows.add(applications, self.f[self.parent < 0], 1.0)
        rows.add(applications, 2 * self.x.size, -shares)
        rows.end(self.shape[1])
        return rows


def _positive(name: str, given: Any, count: int | None = None, *, finite: bool = True) -> Floats:
    """Return numbers > 0, `count` of them if that is given, where one may stand for all."""
    found = _column(name, given, count)
    for k in np.flatnonzero(~((found > 0) & (np.isfinite(found) | (not finite))))[:1].tolist():
        bound = "a finite number > 0" if finite else "a number > 0"
        raise ScenarioError(f"{name}[{k}] must be {bound}, got {short_repr(float(found[k]))}")
    return found


def _bytes(name: str, given: Any, count: int) -> Floats:
    found = _column(name, given, count)
    for k in np.flatnonzero(~((found >= 0) & np.isfinite(found)))[:1].tolist():
        raise ScenarioError(f"{name}[{k}] must be a finite number >= 0, got {short_repr(float(found[k]))}")
    return found


def _column(name: str, given: Any, count: int | None) -> Floats:
    try:
        found = np.asarray(given, dtype=np.float64)
        if count is not None and found.ndim == 0:
            found = np.full(count, found)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    wanted = "one number or more" if count is None else f"{count} numbers, or one for all"
    if found.ndim != 1 or not len(found) or (count is not None and len(found) != count):
        raise ScenarioError(f"{name} must be {wanted}, got {short_repr(given)}")
    return found


def _tree(parent: Any, machines: int) -> Integers:
    if parent is None:
        return np.full(machines, -1)
    found = np.asarray(parent)
    if found.shape != (machines,) or found.dtype.kind not in "iu":
        raise ScenarioError(f"parent must be {machines} whole numbers, got {short_repr(parent)}")
    for u in np.flatnonzero((found < -1) | (found >= np.arange(machines)))[:1].tolist():
        raise ScenarioError(f"parent[{u}] must be -1 or a machine of a lower number, got {found[u]}")
    return found.astype(np.int64)
