from typing import Any, final

from gridcore.probes.workers import Worker

__all__ = ["Dlwl", "Eagle"]

class Srpt(Worker):
    def __init__(self, nodes: int, applications: int, *, srpt_cap: float, **_: Any) -> None: ...

@final
class Eagle(Srpt):
    def __init__(self, nodes: int, applications: int, *, least_probes: int, **_: Any) -> None: ...

@final
class Dlwl(Srpt):
    def __init__(
        self, nodes: int, applications: int, *, heartbeat: float, spread: int, **_: Any
    ) -> None: ...
