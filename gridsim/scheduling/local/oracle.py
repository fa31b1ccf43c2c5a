"""What is true of a grid of local policies: for what they note of their decisions, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gridsim.errors import SchedulerError
from gridsim.scheduling.local.policy import LocalPolicy, Surroundings, View, as_number
from gridsim.support.clock import NS


class Grid(Surroundings, Protocol):
    """All nodes, and what they see."""

    nodes: list[LocalPolicy]
    views: list[View]


class Truth:
    """All machines as they are now.  To look changes nothing; no node has one in its hands.

    machines : how many there are.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid, self.machines = grid, len(grid.nodes)

    @property
    def now(self) -> float:
        """s."""
        return self._grid.run.engine.now / NS

    def up(self, machine: int) -> bool:
        """Whether it is up."""
        return bool(self._grid.run.up[machine])

    def waiting(self, machine: int) -> int:
        """Tasks that wait there; one that runs does not count."""
        return self._grid.views[machine].waiting

    def work(self, machine: int) -> float:
        """s until everything there is done."""
        return self._grid.work_of(machine)

    def memory(self, machine: int) -> LocalPolicy:
        """The node that is there, to be read only."""
        return self._grid.nodes[machine]


#: What is true when a node (its number) decides something on a machine (-1 for none): in the unit of the
#: action's words; or that and the age, s, of what the node saw, where it cannot know that itself.
TruthOf = Callable[[Truth, int, int], float | tuple[float, float]]


class Decider:
    """Notes what nodes decide, with what is true.  Where that is not recorded, it only checks the action."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.log = grid, grid.run.decisions
        self.words, self.truths = grid.parameters.decision_words, grid.parameters.truths
        self.truth = Truth(grid)

    def note(self, node: int, action: str, application: int, said: dict[str, Any]) -> None:
        """See `gridsim.scheduling.local.policy.View.decide`."""
        if action not in self.words:
            known = ", ".join(self.words) or "none"
            raise SchedulerError(f"node {node} decides {action!r}; of decision_words there are {known}")
        if self.log is None:
            return
        for name, value in said.items():
            said[name] = as_number(float if name in ("saw", "limit", "age") else int, value, node, name)
        if action in self.truths:
            found = self.truths[action](self.truth, node, said["machine"])
            said["true"], said["age"] = found if isinstance(found, tuple) else (found, said["age"])
        now = self.grid.run.engine.now
        self.log.note(action, time=now, application=application, decider=node, **said)
