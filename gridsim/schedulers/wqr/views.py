"""What the nodes of WQR-FT can see and do: the views of the server and of a worker.  All times are ns."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from gridsim.schedulers.wqr.cycles import Computing, Copies, Copy, Ending

#: The number of the server, which is on no machine; workers have the numbers of their machines.
SERVER = -1


class Runs(Protocol):
    """What runs the nodes, as far as views need it."""

    chance: np.random.Generator
    computing: Computing
    copies: Copies
    until: list[int]

    @property
    def now(self) -> int: ...
    def draw(self) -> float: ...
    def signal(self, sender: int, to: int, kind: str, fields: dict[str, float]) -> None: ...
    def timer(self, node: int, after: int, name: str) -> None: ...
    def cancel(self, node: int) -> None: ...
    def decide(
        self, action: str, application: int, task: int, machine: int, grounds: dict[str, int]
    ) -> None: ...


class _View:
    def __init__(self, runs: Runs, node: int) -> None:
        self._runs, self.node = runs, node

    @property
    def now(self) -> int:
        """The simulated time."""
        return self._runs.now

    def send(self, to: int, kind: str, **fields: float) -> None:
        """Send a signal to another node; it is delivered before anything else happens at this instant."""
        self._runs.signal(self.node, to, kind, fields)


class ServerView(_View):
    """The view of the server."""

    @property
    def chance(self) -> np.random.Generator:
        """The generator of the order in which tasks start first, and of task orders that draw."""
        return self._runs.chance

    def draw(self, count: int) -> int:
        """Return a random position in 0..count - 1, of the task that gets a further copy."""
        return int(self._runs.draw() * float(count))

    def timer(self, name: str) -> None:
        """Call `on_timer` once, after everything else at this instant."""
        self._runs.timer(SERVER, 0, name)

    def decide(self, action: str, application: int, task: int, machine: int = -1, **grounds: int) -> None:
        """Note a decision and its grounds; see `Interpreted.decide` in `gridsim.schedulers.wqr.runner`."""
        self._runs.decide(action, application, task, machine, grounds)


class Lost(NamedTuple):
    """A checkpoint on the disk of a machine, in which `saved` Mflop of a task are done."""

    application: int
    task: int
    saved: float


class WorkerView(_View):
    """The view of a worker, on the machine of the same number.

    disk : what a failure of the machine leaves.
    """

    def __init__(self, runs: Runs, node: int) -> None:
        super().__init__(runs, node)
        self.disk: dict[str, Lost] = {}

    @property
    def speed(self) -> float:
        """The nominal speed of the machine, Mflop/s."""
        speed: float = self._runs.computing.speeds[self.node]
        return speed

    @property
    def until(self) -> int:
        """When the machine is predicted to fail, as it was told when it came up."""
        return self._runs.until[self.node]

    def time_for(self, work: float) -> float:
        """Return how long `work` (Mflop) takes at full speed."""
        return self._runs.computing.time_for(self.node, work)

    def time_until_done(self, left: float, limit: int) -> int | None:
        """Return how long the machine needs from now on for `left` ns at full speed; None for above `limit`.

        It is longer than `left` if the machine has background load.
        """
        return self._runs.computing.time_until_done(self.node, self.now, left, limit)

    def done(self, begin: int, end: int) -> float:
        """Return what the machine computes from `begin` to `end`, in ns at full speed."""
        return self._runs.computing.done(self.node, begin, end)

    def timer(self, after: int, name: str) -> None:
        """Call `on_timer` in `after` ns; a worker has one timer at a time."""
        self._runs.timer(self.node, after, name)

    def cancel(self) -> None:
        """Cancel the timer, if there is one."""
        self._runs.cancel(self.node)

    def record(self, how: Ending, copy: Any, start: int, begin: float, checkpoints: int) -> None:
        """Record a copy that ends now, for the result; no node can read it.

        copy : the signal that assigned it.  start : when it began.  begin : Mflop that were done before.
        checkpoints : how many it has written.
        """
        about = copy.copy, self.node, copy.application, copy.task
        self._runs.copies.add(Copy(*about, start, self.now, begin, checkpoints, how))
