"""What the adapter of local policies writes down of its nodes: tasks in their hands, and tables."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import SchedulerError
from gridsim.states import Stateful

#: What fields and columns of whole numbers take.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def as_number(kind: type, value: Any, node: int, name: str) -> Any:
    """`value`, which `node` gives for `name`, as an ``int`` or a ``float``.

    Raises SchedulerError for what is none: text, and a fraction or 2**63 for an ``int``.
    """
    try:
        if kind is int:
            value_of = int(value) if isinstance(value, np.bool_) else operator.index(value)
            if LOWEST <= value_of <= HIGHEST:
                return value_of
        elif isinstance(value, (Real, np.bool_)):
            return float(value)
    except (TypeError, OverflowError):
        pass
    expected = "a whole number of 64 bits" if kind is int else "a number that a float can be"
    raise SchedulerError(f"node {node} gives {value!r} for {name}; it must be {expected}") from None


class Hands(Stateful):
    """Tasks that a node has been given and neither queued nor handed over: a failure takes them, too."""

    STATE = ("tasks",)

    def __init__(self, machines: int) -> None:
        self.tasks: list[dict[int, int]] = [{} for _ in range(machines)]  # by application

    def put(self, node: int, application: int, tasks: int) -> None:
        """`tasks` of an application come to `node`."""
        held = self.tasks[node]
        held[application] = held.get(application, 0) + tasks

    def take(self, node: int, application: int, tasks: int) -> None:
        """They leave it.  Raises SchedulerError if it does not have so many."""
        held = self.tasks[node]
        left = held.get(application, 0) - tasks
        if left < 0 or tasks < 0:
            raise SchedulerError(
                f"node {node} places {tasks} tasks of application {application}, "
                f"and has {held.get(application, 0)} of it to place"
            )
        if left:
            held[application] = left
        else:
            held.pop(application, None)

    def drop(self, node: int) -> list[tuple[int, int]]:
        """All that `node` had: (application, tasks)."""
        held, self.tasks[node] = self.tasks[node], {}
        return list(held.items())


class Notes(Stateful):
    """Rows of tables that nodes write and nobody reads.

    tables : name -> columns, each ``int`` or ``float``.
    """

    STATE = ("rows",)

    def __init__(self, tables: Mapping[str, Mapping[str, type]]) -> None:
        self.declared = tables
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in tables}

    def add(self, node: int, table: str, values: Mapping[str, float]) -> None:
        """Raises SchedulerError for a table or columns that are not declared, and values of another kind."""
        columns = self.declared.get(table)
        if columns is None or values.keys() != columns.keys():
            known = {name: list(each) for name, each in self.declared.items()}
            raise SchedulerError(f"node {node} notes {table!r} with {sorted(values)}; there are {known}")
        self.rows[table].append([as_number(kind, values[name], node, name) for name, kind in columns.items()])

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Name -> columns, in the order in which they were written."""
        return {
            table: {
                name: np.array([row[k] for row in self.rows[table]], np.int64 if kind is int else np.float64)
                for k, (name, kind) in enumerate(columns.items())
            }
            for table, columns in self.declared.items()
        }
