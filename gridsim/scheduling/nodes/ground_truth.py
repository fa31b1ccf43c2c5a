"""The true state of a grid of node programs, used only to record it with the decisions of nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import MappingProxyType, MethodType
from typing import Any, Protocol, cast

import numpy as np

from gridcore.common.names import listed
from gridcore.nodes.message_core import NodeCore
from gridsim.errors import SchedulerError
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import NodeProgram, as_number
from gridsim.support.clock import NS


class Grid(Protocol):
    """What `Truth` and `Decider` need to read."""

    run: Run
    core: NodeCore
    parameters: Any
    layout: Layout

    @property
    def nodes(self) -> list[NodeProgram]: ...
    @property
    def now(self) -> int: ...


class Truth:
    """The true current state of all machines.  Reading it changes nothing, and no node has access to it.

    Attributes
    ----------
    machines
        Their number.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid, self.machines = grid, len(grid.run.speeds)

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self._grid.now / NS

    def up(self, machine: int) -> bool:
        """Return whether `machine` is up."""
        return bool(self._grid.run.up[machine])

    def waiting(self, machine: int) -> int:
        """Return how many tasks wait on `machine`; a running task does not count."""
        return self._grid.core.waiting_at(machine)

    def tasks(self, machine: int) -> int:
        """Return how many tasks `machine` has, with the running one."""
        return self._grid.core.tasks_at(machine)

    def work(self, machine: int) -> float:
        """Return how long `machine` needs for its running task and all that wait there, s."""
        return self._grid.core.work_of(machine)

    def memory(self, machine: int) -> NodeProgram:
        """Return the node that is at home on `machine`, to be read only.

        Its methods and attributes are those of the node, arrays are read-only, and lists, dicts and sets are
        copies that do not change.  To set an attribute raises AttributeError.
        """
        return cast(NodeProgram, _Reading(self._grid.nodes[int(self._grid.layout.home[machine])]))


class _Reading:
    """A node that can only be read; what it calls of its own methods cannot change it either."""

    def __init__(self, node: NodeProgram) -> None:
        object.__setattr__(self, "_node", node)

    def __getattribute__(self, name: str) -> Any:
        node = object.__getattribute__(self, "_node")
        if name == "__class__":
            return type(node)
        stated = getattr(type(node), name, None)
        if isinstance(stated, property) and stated.fget is not None:
            return stated.fget(self)
        value = getattr(node, name)
        if isinstance(value, MethodType) and value.__self__ is node:
            return MethodType(value.__func__, self)
        return _unchanging(value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of the memory of a node can only be read, not set to {value!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of the memory of a node can only be read, not deleted")


def _unchanging(value: Any) -> Any:
    """Return `value` as it can only be read."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if type(value) is dict:
        return MappingProxyType({key: _unchanging(each) for key, each in value.items()})
    if type(value) in (list, tuple, deque):
        return tuple(map(_unchanging, value))
    return frozenset(value) if type(value) is set else value


#: Returns the true value when a node (second argument) decides something about a machine (third argument, -1
#: for none), in the unit of the action's words.  It may return the age (s) of what the node saw as well, if
#: the node cannot know that age itself.
TruthOf = Callable[[Truth, int, int], float | tuple[float, float]]


class Decider:
    """Notes the decisions of nodes with the true values; if they are not recorded, only checks the action."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.log = grid, grid.run.decisions
        self.words, self.truths = grid.parameters.decision_words, grid.parameters.truths
        self.truth = Truth(grid)

    def note(self, node: int, action: str, application: int, columns: dict[str, Any]) -> None:
        """See `gridcore.nodes.view.View.decide`."""
        if action not in self.words:
            known = listed(self.words, action)
            raise SchedulerError(
                f"node {node} decides {action!r}, for which there are no decision_words; {known}"
            )
        if self.log is None:
            return
        for name, value in columns.items():
            columns[name] = as_number(float if name in ("saw", "limit", "age") else int, value, node, name)
        machine, machines = columns["machine"], len(self.grid.layout.home)
        if not -1 <= machine < machines:
            raise SchedulerError(
                f"node {node} decides {action!r}: machine must be in -1..{machines - 1}, got {machine}"
            )
        if action in self.truths:
            found = self.truths[action](self.truth, node, columns["machine"])
            columns["true"], columns["age"] = found if isinstance(found, tuple) else (found, columns["age"])
        decider = self.grid.core.machine_of(node)
        if decider >= self.truth.machines:  # a server, see `Layout`
            decider = -1
        self.log.record(action, time=self.grid.now, application=application, decider=decider, **columns)
