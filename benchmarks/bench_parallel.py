"""How much faster one run of the fair tree would be on more cores than there are: a model, and its check.

Processes that share a run meet at the end of each epoch, which is as long as the least delay of a message
(`gridcore.network.exchange`).  A run of one process says which message arrives where and when, so it is known
how much each of p processes would do in each epoch::

    T(p) = S + sum over epochs of (c * most messages of one process, and that it takes over, + m)

S is what is not done by the protocol (the set-up, and the result), and c the time of the protocol divided by
its messages: both measured in the run of one process.  Answers to submitters, which only the links handle,
count for less: as long as the links alone take, measured as well.  To hand a message over is assumed to take
as long as to handle it, and a meeting m = 10 us.  Nothing is fitted to runs of several processes.  The check
is a run of two, in turn with that of one.

    python benchmarks/bench_parallel.py [--nodes 20000] [--applications 16] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gridsim as gs
from gridcore.network.links import Links
from gridsim.schedulers.fair_tree.compiled import CompiledTree
from gridsim.scheduling.overlays import tree_parts

#: s that processes take to meet at the end of an epoch.
MEETING = 10e-6
LATENCY = 0.05


def made(nodes: int, applications: int, delays: str) -> gs.Scenario:
    """Return the paper's shape, with FIFO interfaces or unequal delays of 30 to 70 ms."""
    network = (
        gs.Network(interfaces="fifo") if delays == "fifo" else gs.Network(interfaces="equal", jitter=0.02)
    )
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes, seed=1),
        gs.Workload.bags(applications, interarrival=10.0, tasks_per_node=10.0, task_size=65536.0, seed=1),
        network,
        seed=1,
    )


def tree() -> gs.FairTree:
    """Return the tree of the other tables."""
    return gs.FairTree(accept="minimum", bound=2.0, minimum_of="busy", samples=(10, 9, 8))


def timed(scenario: gs.Scenario, processes: int = 1, **how: Any) -> tuple[gs.Result, float, float]:
    """Return the result, the seconds of the run, and those of them within the protocol of this process."""
    inside = [0.0]
    advance = CompiledTree.advance

    def measured(self: CompiledTree, limit: int) -> int:
        start = time.perf_counter()
        try:
            return advance(self, limit)
        finally:
            inside[0] += time.perf_counter() - start

    CompiledTree.advance = measured  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        result = gs.simulate(scenario, tree(), processes=processes, **how)
        return result, time.perf_counter() - start, inside[0]
    finally:
        CompiledTree.advance = advance  # type: ignore[method-assign]


def epochs(at: NDArray[np.float64], length: float) -> NDArray[np.int64]:
    """Return the epoch of each of ascending instants; one begins with the first instant after another."""
    number = np.zeros(len(at), np.int64)
    first, k = 0, 0
    while first < len(at):
        last = int(np.searchsorted(at, at[first] + length))
        number[first:last] = k
        first, k = last, k + 1
    return number


def answer() -> float:
    """Return the s that an answer of 120 bytes takes: 200,000 machines send one to the first one."""
    machines, when = 200_000, []
    for _ in range(5):
        links = Links(
            np.arange(machines), machines, latency=50_000_000, bandwidth=1e6, widths=[32], deferred=[True]
        )
        records = np.zeros((machines, 4), np.int64)
        records[:, 1] = np.arange(machines)
        start = time.process_time()
        links.send(0, 0, records.view(np.uint8).reshape(machines, 32), 120)
        links.advance(2**62)
        links.drain(2**62)
        when.append(time.process_time() - start)
    return median(when) / machines


def busiest(
    log: gs.Table, cost: NDArray[np.float64], nodes: int, processes: int, length: float
) -> tuple[int, float]:
    """Return the number of epochs, and the s of the busiest process of each, in all.

    cost : s that each message takes whoever handles it, and again who takes it over from another process.
    """
    part = tree_parts(nodes, processes)
    order = np.argsort(log["delivered"], kind="stable")[: int(np.isfinite(log["delivered"]).sum())]
    number = epochs(log["delivered"][order], length)
    sender, receiver = part[log["sender"][order]], part[log["receiver"][order]]
    seconds = cost[order] * (1 + (sender != receiver))
    count = int(number[-1] + 1)
    work = np.bincount(number * processes + receiver, seconds, minlength=count * processes)
    return count, float(work.reshape(count, processes).max(axis=1).sum())


def main() -> None:
    """Print the model for 1 to 64 processes, and what one and two take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--applications", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    least = answer()
    for delays, length in (("fifo", LATENCY), ("unequal", LATENCY - 0.02)):
        scenario = made(given.nodes, given.applications, delays)
        log = gs.simulate(scenario, tree(), record=["messages"], messages_limit=10**8).tables["message_log"]
        alone, ratios, protocol = [], [], []
        for _ in range(given.rounds):
            one, whole, inside = timed(scenario)
            other, together, _ = timed(scenario, 2)
            assert one.digest == other.digest
            alone.append(whole)
            protocol.append(inside)
            ratios.append(whole / together)
        whole, inside = median(alone), median(protocol)
        answers = log["kind"] == "accept"
        each = (inside - least * int(answers.sum())) / int((~answers).sum())
        cost = np.where(answers, least, each)
        print(
            f"{delays}: {whole:.2f} s with one process, {whole - inside:.2f} s of them outside the protocol, "
            f"{each * 1e6:.2f} us a message, {least * 1e6:.2f} an answer; two processes are "
            f"{median(ratios):.2f} times as fast"
        )
        for processes in (1, 2, 4, 8, 16, 32, 64):
            count, work = busiest(log, cost, given.nodes, processes, length)
            seconds = whole - inside + work + MEETING * count * (processes > 1)
            print(
                f"  {processes:3} processes: {count} epochs of {len(log) / count:.0f} messages, the busiest "
                f"has {work / inside:.3f} of the work: {whole / seconds:.2f} times as fast"
            )


if __name__ == "__main__":
    main()
