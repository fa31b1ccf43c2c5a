"""Runs that several processes share, simulated by a thread for each process with common memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import gridsim as gs
from gridsim.scheduling.contract import ProcessShare, Scheduler
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation


def run_in_parts(
    scenario: gs.Scenario, scheduler: Scheduler, parts: int, *, capacity: int = 2**17
) -> gs.Result:
    """Run `scenario` in `parts` parts, each with a message buffer of `capacity` bytes."""
    memory, reports, failed = np.zeros(parts * capacity, np.uint8), {}, []

    def watch() -> None:
        if failed:
            raise RuntimeError("another part has failed") from failed[0]

    def part(rank: int) -> None:
        try:
            share = ProcessShare(rank, parts, memory, watch, list)
            reports[rank] = Simulation(scenario, scheduler, Options(), share).partial_outcome()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=part, args=(rank,)) for rank in range(1, parts)]

    def gather() -> list[Any]:
        for thread in threads:
            thread.join()
        return [reports[rank] for rank in range(1, parts)]

    for thread in threads:
        thread.start()
    try:
        return Simulation(scenario, scheduler, Options(), ProcessShare(0, parts, memory, watch, gather)).run()
    except BaseException as error:
        failed.append(error)
        raise
    finally:
        for thread in threads:
            thread.join()
