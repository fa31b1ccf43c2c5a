from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.network.links import Links
from gridcore.nodes.board import Board
from gridcore.nodes.node_events import NodeEvents
from gridcore.nodes.view import View
from gridcore.queues.task_queues import TaskQueues

__all__ = ["NEVER", "NodeCore"]

NEVER: int

@final
class NodeCore(NodeEvents):
    @property
    def exhausted(self) -> bool: ...
    def __new__(
        cls,
        links: Links,
        queues: TaskQueues,
        *,
        programs: Any,
        kinds: Iterable[tuple[Any, ...]],
        timers: Sequence[str],
        handlers: Sequence[str],
        neighbours: ArrayLike,
        up: NDArray[np.bool_],
        release: ArrayLike,
        submitter: ArrayLike,
        tasks: ArrayLike,
        application: Callable[[int], Any],
        seed: int,
        lost: Callable[[int, int, int], None],
        noted: Callable[..., None],
        decided: Callable[..., None] | None,
        checked: Callable[..., Any],
        error: type[Exception],
        compiled: Any = None,
        observe: Callable[[int, int, NDArray[np.uint8]], None] | None = None,
        at_once: bool = False,
        home: ArrayLike | None = None,
        until: str = "done",
        slots: Callable[[int], Any] | None = None,
        board: Board | None = None,
    ) -> NodeCore: ...
    def advance(self, limit: int) -> int: ...
    def wake(self, time: int) -> None: ...
    def stop(self) -> None: ...
    def enter(self, now: int) -> None: ...
    def view_of(self, node: int, application: int) -> View: ...
    def flush(self) -> None: ...
    def resubmit(self, applications: ArrayLike, tasks: ArrayLike, now: int) -> None: ...
    def give(self, node: int, application: int, tasks: int) -> None: ...
    def tick(self, nodes: ArrayLike, name: str, now: int) -> None: ...
    def drain(self, now: int) -> None: ...
    def act(self, nodes: ArrayLike, now: int) -> None: ...
    def add_applications(self, submitter: ArrayLike) -> None: ...
    def with_completions(self, now: int) -> list[int]: ...
    def restart(self, nodes: ArrayLike, programs: Any, now: int) -> list[tuple[int, int]]: ...
    def begin(self, nodes: ArrayLike) -> None: ...
    def machine_of(self, node: int) -> int: ...
    def work_of(self, machine: int) -> float: ...
    def available(
        self,
        stretch: float,
        release: float,
        size: float,
        task_size: float,
        now: int,
        machines: ArrayLike,
    ) -> NDArray[np.int64]: ...
    def waiting_at(self, machine: int) -> int: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Any) -> None: ...
