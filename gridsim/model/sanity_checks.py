"""Warnings about values that are possible but unusual, such as a latency of 50 s where 50 ms were meant."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

from gridsim.errors import ModelWarning
from gridsim.model.distributions import largest
from gridsim.model.faults import ListedFaults, TraceFaults
from gridsim.model.scenario import Scenario

#: Beyond these, values are unusual: s, bytes/s, Mflop/s, Mflop/s, s of a task at the mean speed, s, s.
LATENCY, BANDWIDTH, SLOW, FAST, TASK, UP, LATE = 10.0, 1000.0, 10.0, 1e9, 30 * 86_400.0, 60.0, 3e8


def warn_unusual(scenario: Scenario, stacklevel: int = 3) -> None:
    """Issue a `ModelWarning` for each value of `scenario` that is probably in another unit than was meant."""
    for message in unusual(scenario):
        warnings.warn(f"unusual: {message}", ModelWarning, stacklevel=stacklevel)


def unusual(scenario: Scenario) -> Iterator[str]:
    """Iterate over what is unusual about a scenario, as texts; only its recipes and speeds are looked at."""
    network, platform = scenario.network, scenario.platform
    if network.latency > LATENCY:
        yield (
            f"network.latency is {network.latency:g} s; messages usually take less than 1 s (in s, "
            'or as text: "50 ms")'
        )
    if network.bandwidth < BANDWIDTH:
        yield (
            f"network.bandwidth is {network.bandwidth:g} bytes/s; it is usually above 10,000 (or as text: "
            '"1 Mbit/s")'
        )
    (slowest, fastest), mean = platform.extremes, platform.aggregate_speed / platform.nodes
    for odd, which in ((slowest < SLOW, slowest), (fastest > FAST, fastest)):
        if odd:
            yield (
                f"platform has a machine of {which:g} Mflop/s; they usually do 100 to 1,000,000 (or as "
                'text: "2 Gflop/s")'
            )
    task_size = getattr(scenario.workload.recipe, "task_size", None)
    longest = 0.0 if task_size is None else largest(task_size)
    if longest / mean > TASK:
        yield (
            f"workload.task_size is up to {longest:g} Mflop, {longest / mean / 86_400.0:.3g} days at the "
            'mean speed (in Mflop, or as text: "65 Gflop")'
        )
    faults = scenario.faults
    if faults is None:
        return
    recipe = faults.recipe.since(faults.origin)
    if (up := _up_time(recipe, platform.nodes)) < UP:
        yield f'faults make each machine fail after {up:g} s on average (in s, or as text: "4 h")'
    if isinstance(recipe, ListedFaults) and (first := min(recipe.down, default=0.0)) > LATE:
        yield (
            f"faults.down begins {first:g} s after the run ({first / (365.25 * 86_400.0):.3g} years); times "
            "count from the first release of a log, and from the origin of a list"
        )


def _up_time(recipe: Any, nodes: int) -> float:
    """Return after how long (s) a machine fails on average; inf for a trace, and where few fail.

    In a list of failures it is the time that all machines are up until the last entry, also those that never
    fail, over the number of failures; outages of which most machines have at most one are no such average.
    """
    if isinstance(recipe, TraceFaults):
        return math.inf
    if not isinstance(recipe, ListedFaults):
        mean: float = recipe.mean_up_time(nodes)
        return mean
    failures = Counter(recipe.machine)
    if 2 * sum(count > 1 for count in failures.values()) <= nodes:
        return math.inf
    end = max(*recipe.down, *(at for at in recipe.up if at < math.inf))
    lost = math.fsum(min(up, end) - down for down, up in zip(recipe.down, recipe.up, strict=True))
    return (nodes * end - lost) / failures.total()
