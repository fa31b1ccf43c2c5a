"""Checks of schedulers, and Hypothesis strategies for your own property tests.

Needs ``hypothesis``, which is imported only when a name of this package is used::

    from hypothesis import given
    from gridsim.testing import queues

    @given(queues())
    def test_something(queue):
        gridcore.edf.optimal_stretch(*queue.entries, speed=queue.speed, now=queue.free_at)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gridsim.testing.cases import fault_schedules, networks, scenarios
    from gridsim.testing.conformance import ConformanceError, check_scheduler
    from gridsim.testing.strategies import QueueCase, batches, grids, queues, summaries

_PLACES = {
    "conformance": ("ConformanceError", "check_scheduler"),
    "cases": ("fault_schedules", "networks", "scenarios"),
    "strategies": ("QueueCase", "batches", "grids", "queues", "summaries"),
}

__all__ = [
    "ConformanceError",
    "QueueCase",
    "batches",
    "check_scheduler",
    "fault_schedules",
    "grids",
    "networks",
    "queues",
    "scenarios",
    "summaries",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    [place] = [module for module, names in _PLACES.items() if name in names]
    try:
        module = import_module(f"gridsim.testing.{place}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"gridsim.testing needs hypothesis: {error}", name=error.name) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
