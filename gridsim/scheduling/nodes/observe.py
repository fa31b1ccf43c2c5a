"""Observation of the nodes of a run: tables of their attributes at regular instants.

Observation does not change a run: the message core reads programs and views between two instants with events,
and adds no events.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import repeat
from numbers import Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.view import View
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.results.table import Table, frozen
from gridsim.scheduling.nodes.attributes import assigned_attributes, attributes_of
from gridsim.scheduling.nodes.ground_truth import ReadOnlyNode
from gridsim.scheduling.nodes.program import NodeProgram
from gridsim.support.arguments import entries_of, integer, listed, real, short_repr
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.state import check_names

__all__ = ["Observations", "Observe"]

#: The source of a column: the path of an attribute, or a function of the program and the view of a node.
Column = str | Callable[[Any, Any], Any]

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\[\d+\])?")


@dataclass(frozen=True, kw_only=True)
class Observe:
    """Attributes of nodes that a run records at regular instants, for `Result.observed`.

    Parameters
    ----------
    every
        Time between two samples, s; the first one is at time 0.  A sample shows the nodes after all events of
        its instant.
    columns
        Name -> the path of an attribute: of the program, as ``"mean"``, or of its view, as ``"view.work"``;
        an element of an array, as ``"load[2]"``.  A container, list or array shows its length.  A function of
        the program and the view, which are read-only, returns a number.  In a list of paths,
        each is ``"NAME=PATH"``, or ``"PATH"`` for a column with the name of its last part.
    nodes
        The nodes to observe, by number; all by default.

    Raises
    ------
    ScenarioError
        If an argument is invalid.

    Examples
    --------
    >>> Observe(every=10.0, columns=["mean", "view.work"]).columns
    {'mean': 'mean', 'work': 'view.work'}
    """

    every: float
    columns: Mapping[str, Column] | Iterable[str]
    nodes: Iterable[int] | None = None

    def __post_init__(self) -> None:
        period = real("observe.every", self.every, above=0, unit="s")
        if not nanoseconds(period):
            raise ScenarioError(f"observe.every must be at least 1 ns, got {self.every!r}")
        object.__setattr__(self, "every", period)
        object.__setattr__(self, "columns", _checked_columns(self.columns))
        object.__setattr__(self, "nodes", checked_nodes("observe.nodes", self.nodes))

    @property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return cast(dict[str, Column], self.columns)

    @property
    def reads_programs(self) -> bool:
        """True if a column reads the program."""
        return any(callable(column) or not column.startswith("view.") for column in self.by_name.values())

    @property
    def reads_views(self) -> bool:
        """True if a column reads the view."""
        return any(callable(column) or column.startswith("view.") for column in self.by_name.values())

    def to_plain(self) -> dict[str, Any]:
        """Return the arguments as plain values, for checkpoints and results.

        Raises
        ------
        ScenarioError
            If a column is a function.
        """
        for name, column in self.by_name.items():
            if callable(column):
                raise ScenarioError(
                    f"a checkpoint does not support observe.columns[{name!r}], a function: name an attribute"
                )
        return {"every": self.every, "columns": self.by_name, "nodes": self.nodes}


def _checked_columns(columns: Any) -> dict[str, Column]:
    if isinstance(columns, Iterable) and not isinstance(columns, (str, Mapping)):
        columns = dict(
            _named_path(path) if isinstance(path, str) else ("", path) for path in entries_of(columns)
        )
    if not isinstance(columns, Mapping) or not columns:
        raise ScenarioError(
            "observe.columns must be a dict, name -> attribute, or a list of attributes, got "
            f"{short_repr(columns)}"
        )
    for name, column in columns.items():
        if not callable(column) and not (isinstance(column, str) and _PATH.fullmatch(column)):
            raise ScenarioError(
                f"observe.columns[{name!r}] must be an attribute such as 'mean', 'view.work' or 'load[2]', "
                f"or a function, got {short_repr(column)}"
            )
        if not isinstance(name, str) or not name.isidentifier() or name in ("time", "node"):
            raise ScenarioError(
                f"observe.columns must have names other than time and node, got {short_repr(name)}"
            )
    return dict(columns)


def _named_path(text: str) -> tuple[str, str]:
    """Return the name and path of a column; without ``NAME=``, the name is the last part of the path."""
    name, separator, path = text.partition("=")
    return (name, path) if separator else (text.rpartition(".")[2].partition("[")[0], text)


def checked_nodes(path: str, nodes: Any) -> tuple[int, ...] | None:
    """Return distinct numbers of nodes in ascending order; None for all nodes."""
    if nodes is None:
        return None
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable):
        raise ScenarioError(f"{path} must be a list of nodes, got {short_repr(nodes)}")
    numbers = sorted({integer(f"{path}[{k}]", node) for k, node in enumerate(entries_of(nodes))})
    if not numbers:
        raise ScenarioError(f"{path} must have at least one node, got none")
    return tuple(numbers)


def nodes_of(path: str, nodes: tuple[int, ...] | None, count: int) -> NDArray[np.int64]:
    """Return the nodes as an array; raise ScenarioError if there are only `count` nodes."""
    if nodes is not None and nodes[-1] >= count:
        raise ScenarioError(f"{path} must be in 0..{count - 1}, the nodes of this run, got {nodes[-1]}")
    return np.arange(count) if nodes is None else np.array(nodes, np.int64)


#: Rows of a sample: times (ns) and nodes, int64[n], and values of the columns, float64[n, columns].
_Sample = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


class Observations:
    """The samples of a run: a sampler of the message core (`gridcore.nodes.node_events.NodeEvents.sample`).

    Parameters
    ----------
    observe
        The attributes to sample, and the interval.
    """

    def __init__(self, observe: Observe) -> None:
        self.observe, self.period = observe, nanoseconds(observe.every)
        self.due = 0
        self.samples: list[_Sample] = []
        self._adapter: Any = None

    @property
    def is_attached(self) -> bool:
        """Whether the run has nodes that can be observed."""
        return self._adapter is not None

    @property
    def reads_programs(self) -> bool:
        """True if programs of nodes are read, which must then be objects or records."""
        return self.observe.reads_programs

    def attach(self, adapter: Any) -> None:
        """Sample the nodes of `adapter`, an `Adapter`, from now on.

        Raises
        ------
        ScenarioError
            If a node or an attribute does not exist.
        """
        self._adapter = adapter
        self.nodes = nodes_of("observe.nodes", cast(Any, self.observe.nodes), adapter.layout.nodes)
        for name, column in self.observe.by_name.items():
            if isinstance(column, str):
                self._check(name, column)
        self._readers = [_reader(column) for column in self.observe.by_name.values()]
        adapter.core.sample(self.due, self)

    def _check(self, name: str, path: str) -> None:
        """Raise ScenarioError if no observed node has the attribute of a column."""
        attribute = re.split(r"[.\[]", path.removeprefix("view."))[0]
        if path.startswith("view."):
            attributes = {
                key for key in dir(View) if not key.startswith("_") and not callable(getattr(View, key))
            }
            unset_names, owner = set[str](), "the view"
        else:
            programs: dict[Any, Any] = {
                type(program): program for program in map(self._adapter.program_of, self.nodes.tolist())
            }
            attributes = {"parameters"}.union(*map(readable_attributes, programs.values()))
            unset_names = {key for policy in programs for key in assigned_attributes(policy)}
            owner = ", ".join(sorted(policy.__name__ for policy in programs))
        if attribute not in attributes | unset_names:
            raise ScenarioError(
                f"observe.columns[{name!r}] must be an attribute of {owner}, got {attribute!r}; "
                f"{listed(sorted(attributes), attribute)}"
            )

    def __call__(self, now: int) -> int:
        """Take the sample at `now` ns, and return the time of the next sample, ns."""
        adapter, nodes = self._adapter, self.nodes[self._adapter.up[self.nodes]]
        numbers = nodes.tolist()
        views = map(adapter.core.view_of, numbers) if self.observe.reads_views else repeat(None)
        programs = map(adapter.program_of, numbers) if self.observe.reads_programs else repeat(None)
        rows = [
            [self._value(k, now, *owners) for k in range(len(self._readers))]
            for owners in zip(numbers, programs, views, strict=False)
        ]
        values = np.array(rows, np.float64).reshape(-1, len(self._readers))
        self.samples.append((np.full(len(nodes), now), nodes, values))
        self.due = now + self.period
        return self.due

    def _value(self, k: int, now: int, node: int, program: Any, view: Any) -> float:
        """Return column number `k` of a node."""
        try:
            value = self._readers[k](program, view)
            return _number(value)
        except Exception as error:
            path = f"observe.columns[{list(self.observe.by_name)[k]!r}]"
            if isinstance(error, _NotANumberError):
                raise SchedulerError(
                    f"t = {now / NS} s: node {node}: {path} must be a number, got {short_repr(value)}"
                ) from None
            error.add_note(f"at t = {now / NS} s, in {path} of node {node}")
            raise

    def _all_samples(self) -> _Sample:
        """Return the concatenation of all samples."""
        none = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(self._readers)))
        times, nodes, values = map(np.concatenate, zip(none, *self.samples, strict=True))
        return times, nodes, values

    def finish(self) -> None:
        """Take the remaining samples up to the end of the run."""
        self._adapter.core.sample_rest()

    def getstate(self) -> dict[str, Any]:
        """Return the samples so far and the time of the next sample."""
        return {"due": self.due, "samples": self._all_samples()}

    def setstate(self, state: dict[str, Any]) -> None:
        """Continue from a state that `getstate` returned."""
        check_names(self, state, ("due", "samples"))
        self.due, self.samples = state["due"], [state["samples"]]
        self._adapter.core.sample(self.due, self)

    def table(self) -> Table:
        """Return the samples as a table: time in s, node, and the columns of `Observe`."""
        times, nodes, values = self._all_samples()
        columns = {name: values[:, k].copy() for k, name in enumerate(self.observe.by_name)}
        return Table(
            {"time": frozen(times / NS), "node": frozen(nodes), **{n: frozen(c) for n, c in columns.items()}}
        )


class _NotANumberError(Exception):
    """The value of a column is not a number."""


def readable_attributes(program: Any) -> set[str]:
    """Return the names of the attributes and properties of a program that a column can read."""
    policy = type(program)
    names = {*dir(policy)} - {*dir(NodeProgram)}
    members = {name for name in names if not name.startswith("_") and not callable(getattr(policy, name))}
    return members | attributes_of(program).keys()


def _reader(column: Column) -> Callable[[Any, Any], Any]:
    """Return the function of a program and a view that reads the value of a column."""
    if callable(column):
        return lambda program, view: column(ReadOnlyNode(program), view)
    is_of_view = column.startswith("view.")
    path, _, index = column.removeprefix("view.").partition("[")
    get = operator.attrgetter(path)
    element = int(index[:-1]) if index else None

    def read(*owners: Any) -> Any:  # no parameter `view`: it is not a handler
        try:
            value = get(owners[is_of_view])
        except AttributeError:  # the node has another class, or no handler has assigned the attribute yet
            return None
        return value if element is None else value[element]

    return read


def _number(value: Any) -> float:
    """Return a value as a float: a collection by its length, None as NaN."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if value is None:
        return math.nan
    if isinstance(value, (np.bool_, Real)):
        return float(value)
    if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
        return float(len(value))
    raise _NotANumberError
