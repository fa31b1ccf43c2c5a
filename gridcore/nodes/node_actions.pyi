from typing_extensions import disjoint_base

__all__ = ["NodeActions"]

@disjoint_base
class NodeActions:
    @property
    def nodes(self) -> int: ...
    @property
    def now(self) -> int: ...
