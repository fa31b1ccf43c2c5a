"""The true state of the machines, which is recorded with the decisions of nodes; no node can read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from gridcore.common.names import listed
from gridcore.nodes.containers import Container
from gridcore.nodes.shared_array import SharedArray
from gridsim.errors import SchedulerError
from gridsim.scheduling.contract import Run
from gridsim.scheduling.nodes.layout import Layout
from gridsim.scheduling.nodes.program import NodeProgram, as_number
from gridsim.support.clock import NS

if TYPE_CHECKING:
    from gridcore.nodes.message_core import NodeCore


class DecidingPolicy(Protocol):
    """The attributes of a policy that `Truth` and `Decider` read."""

    run: Run
    core: NodeCore
    parameters: Any
    layout: Layout
    environment: Any
    single_tasks: Any

    def program_of(self, node: int) -> Any: ...
    @property
    def now(self) -> int: ...


class Truth:
    """The true current state of all machines, for functions in ``truths`` of a `NodeScheduler`.

    Attributes
    ----------
    machines
        Number of machines of the platform.
    """

    def __init__(self, policy: DecidingPolicy) -> None:
        self._policy, self.machines = policy, len(policy.run.speeds)

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self._policy.now / NS

    @property
    def environment(self) -> Any:
        """The part of the model outside the nodes, an `Environment`; None if there is none."""
        return self._policy.environment

    def up(self, machine: int) -> bool:
        """Return whether `machine` is up."""
        return bool(self._policy.run.up[machine])

    def waiting(self, machine: int) -> int:
        """Return the number of tasks that wait on `machine`, without the running one."""
        return self._policy.core.waiting_at(machine)

    def tasks(self, machine: int) -> int:
        """Return the number of tasks on `machine`, with the running one."""
        return self._policy.core.tasks_at(machine)

    def work(self, machine: int) -> float:
        """Return the time in s that `machine` needs for its running task and all waiting tasks."""
        return self._policy.core.work_of(machine)

    def memory(self, machine: int) -> NodeProgram:
        """Return a read-only view of the home node of `machine`.

        It has the methods and attributes of the node.  Arrays are read-only; lists, dicts and sets are
        immutable copies, and containers are copies.  Setting an attribute raises AttributeError.
        """
        node = self._policy.program_of(int(self._policy.layout.home[machine]))
        return cast(NodeProgram, ReadOnlyNode(node))


class ReadOnlyNode:
    """A read-only view of a node; methods that are called through it cannot change the node either."""

    def __init__(self, node: NodeProgram) -> None:
        object.__setattr__(self, "_node", node)

    def __getattribute__(self, name: str) -> Any:
        node = object.__getattribute__(self, "_node")
        if name == "__class__":
            return type(node)
        attribute = getattr(type(node), name, None)
        if isinstance(attribute, property) and attribute.fget is not None:
            return attribute.fget(self)
        value = getattr(node, name)
        if isinstance(value, MethodType) and value.__self__ is node:
            return MethodType(value.__func__, self)
        return _read_only(value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of the memory of a node is read-only: it cannot be set to {value!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of the memory of a node is read-only: it cannot be deleted")


def _read_only(value: Any) -> Any:
    """Return a read-only view of an array, a copy of a collection, and any other value as it is."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, Container):
        return copy(value)
    if isinstance(value, SharedArray):
        return SharedArray(value.values)
    if type(value) is dict:
        return MappingProxyType({key: _read_only(entry) for key, entry in value.items()})
    if type(value) in (list, tuple, deque):
        return tuple(map(_read_only, value))
    return frozenset(value) if type(value) is set else value


#: A function of the truth, the deciding node, and the machine to which the decision refers (-1: none).  It
#: returns the true value in the unit of the action in ``decision_words``.  If the node cannot know the age of
#: the value that it saw, the function returns a pair of the true value and that age (s).
TruthOf = Callable[[Truth, int, int], float | tuple[float, float]]


class Decider:
    """Recorder of the decisions of nodes with the true values; without a log it only checks the actions."""

    def __init__(self, policy: DecidingPolicy) -> None:
        self.grid, self.log = policy, policy.run.decisions
        self.sentences, self.truths = policy.parameters.decision_words, policy.parameters.truths
        self.truth = Truth(policy)

    def note(self, node: int, action: str, application: int, arguments: dict[str, Any]) -> None:
        """Record a decision that `node` reports by `View.decide`.

        Raises
        ------
        SchedulerError
            If ``decision_words`` does not have the action, or an argument has a wrong value.
        """
        if action not in self.sentences:
            known = listed(self.sentences, action)
            raise SchedulerError(
                f"node {node}: action of View.decide must be in decision_words, got {action!r}; {known}"
            )
        if self.log is None:
            return
        columns = {**arguments}
        if self.grid.environment is not None:
            self.grid.environment.complete_decision(node, action, application, columns)
            application = self.grid.environment.original_of(application)
        for name, value in columns.items():
            kind = float if name in ("saw", "limit", "age", "true") else int
            columns[name] = as_number(kind, value, node, name)
        target, nodes = columns.pop("node"), self.grid.layout.nodes
        if "machine" not in columns:
            if not -1 <= target < nodes:
                raise SchedulerError(
                    f"node {node}: node of {action!r} must be in -1..{nodes - 1}, got {target}"
                )
            columns["machine"] = target if target < 0 else self.grid.core.machine_of(target)
        if action in self.truths:
            value_and_age = self.truths[action](self.truth, node, columns["machine"])
            if isinstance(value_and_age, tuple):
                columns["true"], columns["age"] = value_and_age
            else:
                columns["true"] = value_and_age
        if self.grid.single_tasks is not None:
            application, columns["task"] = self.grid.single_tasks.place_of(application)
        decider = self.grid.core.machine_of(node)
        if decider >= self.truth.machines:  # the machine of a server has no number in the log
            decider = -1
        self.log.record(action, time=self.grid.now, application=application, decider=decider, **columns)
