from typing import Any

from typing_extensions import disjoint_base

from gridcore.nodes.node_actions import NodeActions

__all__ = ["NodeEvents"]

@disjoint_base
class NodeEvents(NodeActions):
    @property
    def programs(self) -> Any: ...
    @property
    def events(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def placed_at(self) -> int: ...
