"""Hypothesis strategies for your own property tests: queues, grids and summaries.

Needs ``hypothesis``, which is imported only when a name of this package is used.

    from hypothesis import given
    from gridsim.testing import queues

    @given(queues())
    def test_something(queue):
        gridcore.edf.optimal_stretch(*queue.entries, speed=queue.speed, now=queue.free_at)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gridsim.testing.strategies import QueueCase, batches, grids, queues, summaries

__all__ = ["QueueCase", "batches", "grids", "queues", "summaries"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from gridsim.testing import strategies
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"gridsim.testing needs hypothesis: {error}", name=error.name) from error
    return getattr(strategies, name)


def __dir__() -> list[str]:
    return __all__
