"""Warnings about unusual values, such as a latency of 50 s, and about waits too short for the network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from gridsim.errors import ModelWarning, warn
from gridsim.model.bag_workloads import BagRecipe
from gridsim.model.distributions import largest, mean_amount
from gridsim.model.faults import ListedFaults, TraceFaults
from gridsim.model.scenario import Scenario
from gridsim.support.parameters import CheckedStruct, answer_waits_of

#: A network is unusual if its latency (s) is higher, or its bandwidth (bytes/s) is lower.
MAX_LATENCY, MIN_BANDWIDTH = 10.0, 1000.0
#: Speeds (Mflop/s) below and above which a machine is unusual.
MIN_SPEED, MAX_SPEED = 10.0, 1e9
#: Load above which a workload is unusual.
MAX_LOAD = 10.0
#: Time at the mean speed above which a task is unusual, s.
MAX_RUN_TIME = 30 * 86_400.0
#: Faults are unusual if the mean up time (s) is shorter, or the first failure (s) is later.
MIN_UP_TIME, MAX_FIRST_FAILURE = 60.0, 3e8


def warn_unusual(scenario: Scenario, stacklevel: int = 3) -> None:
    """Issue a `ModelWarning` for each unusual value of `scenario`, whose unit may be wrong.

    Parameters
    ----------
    stacklevel
        As in `warnings.warn`, from this function: 3 is the caller of a function that calls it.
    """
    for message in unusual_values(scenario):
        warn(f"unusual: {message}", ModelWarning, stacklevel)


def unusual_values(scenario: Scenario) -> Iterator[str]:
    """Yield a message for each unusual value of the recipes and speeds of a scenario."""
    network, platform = scenario.network, scenario.platform
    if network.latency > MAX_LATENCY:
        yield (
            f"network.latency is {network.latency:g} s; messages usually take less than 1 s (in s, "
            'or with a unit: "50 ms")'
        )
    if network.bandwidth < MIN_BANDWIDTH:
        yield (
            f"network.bandwidth is {network.bandwidth:g} bytes/s; it is usually above 10,000 (in "
            'bytes/s, or with a unit: "1 Mbit/s")'
        )
    (slowest, fastest), mean = platform.extremes, platform.aggregate_speed / platform.core_count
    for is_unusual, speed in ((slowest < MIN_SPEED, slowest), (fastest > MAX_SPEED, fastest)):
        if is_unusual:
            yield (
                f"platform has a machine of {speed:g} Mflop/s; machines usually have 100 to 1,000,000 "
                '(in Mflop/s, or with a unit: "2 Gflop/s")'
            )
    workload = scenario.workload.recipe
    if (load := getattr(workload, "load", None)) is not None and load > MAX_LOAD:
        yield f"workload.load is {load:g}; it is work submitted / capacity, usually below 1 (80 % is 0.8)"
    task_size = getattr(workload, "task_size", None)
    longest = 0.0 if task_size is None else largest(task_size)
    if longest / mean > MAX_RUN_TIME:
        yield (
            f"workload.task_size is up to {longest:g} Mflop, {longest / mean / 86_400.0:.3g} days at the "
            'mean speed (in Mflop, or with a unit: "65 Gflop")'
        )
    # only of drawn tasks: a list may have a tiny task that keeps a run going
    task = mean_amount(workload.task_size) if isinstance(workload, BagRecipe) else math.inf
    if task / mean < network.latency <= MAX_LATENCY:
        yield (
            f"workload.task_size is {task:g} Mflop on average, {task / mean:.3g} s at the mean speed, "
            f'less than the latency of a message, {network.latency:g} s (in Mflop, or "65 Gflop")'
        )
    faults = scenario.faults
    if faults is None:
        return
    recipe = faults.recipe.shift_clock(faults.origin)
    if (up := _mean_time_between_failures(recipe, platform.nodes)) < MIN_UP_TIME:
        yield f'faults make each machine fail after {up:g} s on average (in s, or with a unit: "4 h")'
    if isinstance(recipe, ListedFaults) and (first := min(recipe.down, default=0.0)) > MAX_FIRST_FAILURE:
        yield (
            f"faults.down begins {first:g} s after the run ({first / (365.25 * 86_400.0):.3g} years); times "
            "count from the first release of a log, and from the origin of a list"
        )


def warn_of_short_waits(scheduler: CheckedStruct, name: str, scenario: Scenario) -> None:
    """Issue a `ModelWarning` for each parameter that waits shorter than an answer takes in the network.

    Parameters
    ----------
    scheduler
        The parameters, whose declarations `AnswerWait` say which of them wait for an answer.
    name
        Name of the scheduler.
    """
    delay = scenario.network.latency + scenario.network.jitter
    for field, wait in answer_waits_of(type(scheduler)).items():
        time, answer = getattr(scheduler, field), wait.messages * delay
        if time >= answer or (wait.only_failures and scenario.faults is None):
            continue
        trip = {1: "a message", 2: "a round trip"}.get(wait.messages, "an answer")
        text = f"{name}.{field} is {time:g} s, but {trip} of the network takes up to {answer:g} s"
        warn(f"{text}: {wait.consequence}", ModelWarning, stacklevel=2)


def _mean_time_between_failures(recipe: Any, nodes: int) -> float:
    """Return the mean time between failures of a machine, s; inf for a trace.

    For a list of failures it is the up time of all machines until the last entry, over the number of
    failures; inf if most machines fail at most once, since their times then have no meaningful mean.

    Parameters
    ----------
    recipe
        The recipe of the faults.
    nodes
        Number of machines.
    """
    if isinstance(recipe, TraceFaults):
        return math.inf
    if not isinstance(recipe, ListedFaults):
        mean: float = recipe.mean_up_time(nodes)
        return mean
    failures = Counter(recipe.machine)
    if 2 * sum(count > 1 for count in failures.values()) <= nodes:
        return math.inf
    end = max(*recipe.down, *(time for time in recipe.up if time < math.inf))
    down_time = math.fsum(min(up, end) - down for down, up in zip(recipe.down, recipe.up, strict=True))
    return (nodes * end - down_time) / failures.total()
