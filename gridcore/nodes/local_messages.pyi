from typing import final

__all__ = ["LocalMessages"]

@final
class LocalMessages:
    def __new__(cls, nodes: int) -> LocalMessages: ...
