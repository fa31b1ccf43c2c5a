"""The true state of a grid of local policies, used only to record it with the decisions of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gridcore.common.names import listed
from gridcore.nodes.message_core import NodeCore
from gridsim.errors import SchedulerError
from gridsim.scheduling.contract import Run
from gridsim.scheduling.local.layout import Layout
from gridsim.scheduling.local.policy import LocalPolicy, as_number
from gridsim.support.clock import NS


class Grid(Protocol):
    """What `Truth` and `Decider` need to read."""

    run: Run
    core: NodeCore
    parameters: Any
    layout: Layout

    @property
    def nodes(self) -> list[LocalPolicy]: ...
    @property
    def now(self) -> int: ...


class Truth:
    """The true current state of all machines.  Reading it changes nothing, and no node has access to it.

    machines : their number.
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

    def memory(self, machine: int) -> LocalPolicy:
        """Return the node that is at home on `machine`; it must only be read."""
        return self._grid.nodes[int(self._grid.layout.home[machine])]


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
        if action in self.truths:
            found = self.truths[action](self.truth, node, columns["machine"])
            columns["true"], columns["age"] = found if isinstance(found, tuple) else (found, columns["age"])
        decider = self.grid.core.machine_of(node)
        if decider >= self.truth.machines:  # a server, see `Layout`
            decider = -1
        self.log.note(action, time=self.grid.now, application=application, decider=decider, **columns)
