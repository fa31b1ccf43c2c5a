"""Only tables take more memory in longer runs, and the memory of kernels is returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: Maximum number of bytes of an application that kernels keep to the end: its properties and totals.
OF_APPLICATION = 120
#: Schedulers with a table of all tasks, of which an application of the scenario has 74 on average.
TASKS, OF_TASKS = ("WQR", "NoInfo", "CpuInfo", "AvailInfo", "AllInfo"), 74 * 64
#: Maximum growth of Python and numpy: a multiple of that of the result's tables, which are assembled at the
#: end, and bytes of transient objects.
OF_TABLES, OF_CHANCE = 8.0, 32_768
#: Smaller factors for schedulers that take much less, 1.5 times their measured values.
FEWER = {"fair-tree": 6.0, "dgs-asap": 4.5, "rjss": 1.3, "GreatET-AllInfo": 1.0}
#: Schedulers that store the start, machine and bytes of each task in Python -> bytes per task.
STARTS, OF_START = ("min-min", "max-min", "sufferage"), 160


def check(lines: list[str]) -> None:
    """Check that twice the length adds only tables to the peaks, and at most a third to those of kernels."""
    for entry in map(json.loads, lines):
        (_, short, long), (_, less, more) = entry["peaks"], entry["applications"]
        table = any(name in entry["case"] for name in TASKS)
        each = OF_TASKS if table else OF_APPLICATION
        assert long <= 4 / 3 * short + each * (more - less), entry
        growth = {name: entry[name][2] - entry[name][1] for name in ("python", "tables", "tasks")}
        starts = OF_START * growth["tasks"] if any(name in entry["case"] for name in STARTS) else 0
        times = FEWER.get(entry["case"], OF_TABLES)
        assert growth["python"] <= times * growth["tables"] + OF_CHANCE + starts, entry


def test_memory_does_not_grow_during_long_runs(run_counted: Any) -> None:
    """The load is about one half, so that queues become empty."""
    check(
        run_counted(
            "flat.py", "1,5,10", "fair-tree", "dgs-asap", "rjss", "backfill", "rendezvous", "GreatET-AllInfo"
        )
    )


@pytest.mark.claims
def test_memory_does_not_grow_with_any_scheduler(run_counted: Any) -> None:
    check(run_counted("flat.py", "2,10,20"))
