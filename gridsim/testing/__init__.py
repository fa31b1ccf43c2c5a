"""Checks of schedulers, a test bench for one node, and Hypothesis strategies for property tests.

All names except `Bench` and `Sent` require Hypothesis (extra ``testing``), which is imported when one of them
is used::

    from gridcore import gap
    from gridsim.testing import quarters, queues
    from hypothesis import given

    @given(queues(), quarters(0.25, 8), quarters(0.25, 16))
    def test_gap_is_at_most_that_of_an_empty_queue(queue, stretch, size):
        assert gap(stretch, 0.0, size, *queue.entries, **queue.machine) <= stretch * size * queue.speed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gridsim.support.imports import import_extra

if TYPE_CHECKING:
    from gridsim.scheduling.nodes.diary import Sent
    from gridsim.testing.bench import Bench
    from gridsim.testing.cases import fault_schedules, networks, scenarios
    from gridsim.testing.conformance import check_scheduler
    from gridsim.testing.differential_check import differential
    from gridsim.testing.drawn_parameters import parameters
    from gridsim.testing.exploration import run_in_order
    from gridsim.testing.strategies import QueueCase, batches, grids, quarters, queues, summaries
    from gridsim.testing.violation import ConformanceError

_MODULES = {
    "bench": ("Bench", "Sent"),
    "conformance": ("check_scheduler",),
    "violation": ("ConformanceError",),
    "differential_check": ("differential",),
    "drawn_parameters": ("parameters",),
    "exploration": ("run_in_order",),
    "cases": ("fault_schedules", "networks", "scenarios"),
    "strategies": ("QueueCase", "batches", "grids", "quarters", "queues", "summaries"),
}

__all__ = [
    "Bench",
    "ConformanceError",
    "QueueCase",
    "Sent",
    "batches",
    "check_scheduler",
    "differential",
    "fault_schedules",
    "grids",
    "networks",
    "parameters",
    "quarters",
    "queues",
    "run_in_order",
    "scenarios",
    "summaries",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    [module_name] = [module for module, names in _MODULES.items() if name in names]
    if module_name != "bench":
        import_extra("hypothesis", "testing", f"gridsim.testing.{name}")
    return getattr(import_module(f"gridsim.testing.{module_name}"), name)


def __dir__() -> list[str]:
    return __all__
