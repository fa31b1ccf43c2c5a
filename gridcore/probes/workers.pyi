from collections.abc import Mapping
from typing import Any, final

from gridcore.nodes.handlers import Handlers

__all__ = ["Hawk", "Lwl", "Sparrow"]

class Sparrow(Handlers):
    def __init__(
        self,
        nodes: int,
        applications: int,
        *,
        workers: int,
        probe_ratio: float,
        patience: float,
        retry: float,
        **_: Any,
    ) -> None: ...
    def getstate(self) -> dict[str, Any]: ...
    def setstate(self, state: Mapping[str, Any]) -> None: ...

class Worker(Sparrow):
    def __init__(
        self, nodes: int, applications: int, *, cutoff: float, reserved: int, **_: Any
    ) -> None: ...

@final
class Hawk(Worker):
    def __init__(self, nodes: int, applications: int, *, steal_attempts: int, **_: Any) -> None: ...

@final
class Lwl(Worker): ...
