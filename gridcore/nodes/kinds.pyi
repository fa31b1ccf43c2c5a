from typing import Any, final

__all__ = ["Kind", "Received"]

class Received:
    kind: str
    sender: int
    plain: bool

@final
class Kind:
    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def type(self) -> Any: ...
    def __init__(
        self,
        name: str,
        number: int,
        nbytes: Any,
        fields: dict[str, Any],
        moves: bool,
        handler: str,
        delay: int = -1,
        counted: bool = True,
    ) -> None: ...
