"""PHOLD, the usual benchmark of parallel simulators: events/s of a processor, one event a node at any time.

``python benchmarks/bench_phold.py`` prints a table: medians over rounds, in each of which all run one after
another, each in a process of its own.  ``--nodes``, ``--rounds``, ``--events`` and ``--how`` choose.

An event at a node makes one at another node, drawn uniformly, after a lookahead of 0.1 s and an exponential
time of mean 0.9 s.  *heap*: Python's heapq and nothing else.  *engine*: timers of `gridsim.engine.Engine`.
*interpreted* and *compiled*: a node program, in which the lookahead is a message and the rest a timer, so an
event is two.  *SimPy*: bare timeouts with callbacks.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import gridsim as gs
from gridsim.engine.engine import TIMER, Engine

#: s.
LOOKAHEAD, MEAN = 0.1, 0.9
NS = 10**9


class Phold(gs.NodeProgram):
    def on_start(self, view: Any) -> None:
        view.timer(view.random.exponential(MEAN), "next")

    def on_timer(self, view: Any, name: str) -> None:
        view.send(view.random.integers(view.machines), "event")

    def on_event(self, view: Any, message: Any) -> None:
        view.timer(view.random.exponential(MEAN), "next")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)


class PholdNodes(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = Phold
    timers = ("next",)
    messages: ClassVar[dict[str, gs.Message]] = {"event": gs.Message(8, delay=LOOKAHEAD)}


def program(nodes: int, events: int, form: str) -> Callable[[], int]:
    """A node program; the run ends with an application that is released after so many events."""
    end = events / nodes * (LOOKAHEAD + MEAN)
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=nodes, seed=1),
        gs.Workload.of(release=[end], tasks=[1], task_size=[1.0], submitter=[0]),
        seed=1,
    )
    return lambda: int(gs.simulate(scenario, PholdNodes(degree=1), nodes=form).messages["sent"].sum())


def engine(nodes: int, events: int) -> Callable[[], int]:
    chance, made = random.Random(1), Engine()
    left = [events]

    def fire(due: list[int]) -> None:
        for _ in due:
            left[0] -= 1
            after = LOOKAHEAD + chance.expovariate(1 / MEAN)
            made.at(made.now + int(after * NS), "event", chance.randrange(nodes))
        if left[0] <= 0:
            made.stop()

    made.on("event", fire, priority=0, phase=TIMER)
    for node in range(nodes):
        made.at(int(chance.expovariate(1 / MEAN) * NS), "event", node)

    def run() -> int:
        made.run()
        return events - left[0]

    return run


def heap(nodes: int, events: int) -> Callable[[], int]:
    chance = random.Random(1)
    pending = [(chance.expovariate(1 / MEAN), node) for node in range(nodes)]
    heapq.heapify(pending)

    def run() -> int:
        for _ in range(events):
            now, _ = pending[0]
            after = LOOKAHEAD + chance.expovariate(1 / MEAN)
            heapq.heapreplace(pending, (now + after, chance.randrange(nodes)))
        return events

    return run


def by_simpy(nodes: int, events: int) -> Callable[[], int]:
    import simpy

    chance, world = random.Random(1), simpy.Environment()

    def event(_: Any) -> None:
        after = LOOKAHEAD + chance.expovariate(1 / MEAN)
        world.timeout(after, value=chance.randrange(nodes)).callbacks.append(event)

    for node in range(nodes):
        world.timeout(chance.expovariate(1 / MEAN), value=node).callbacks.append(event)

    def run() -> int:
        for _ in range(events):
            world.step()
        return events

    return run


HOW: dict[str, Callable[[int, int], Callable[[], int]]] = {
    "heap": heap,
    "engine": engine,
    "interpreted": lambda nodes, events: program(nodes, events, "interpreted"),
    "compiled": lambda nodes, events: program(nodes, events, "compiled"),
    "SimPy": by_simpy,
}


def measure(how: str, nodes: int, events: int) -> float:
    """Return events/s of a processor: of a long run less one of a fifth of its events."""
    HOW[how](nodes, nodes)()  # imports and compiles what it needs
    seconds, done = [], []
    for count in (events // 5, events):
        run = HOW[how](nodes, count)
        begin = time.process_time()
        done.append(run())
        seconds.append(time.process_time() - begin)
    return (done[1] - done[0]) / (seconds[1] - seconds[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="PHOLD: events/s of a processor.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--how", nargs="+", choices=list(HOW), default=list(HOW))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        how, nodes, events = given.child
        print(json.dumps(measure(how, int(nodes), int(events))))
        return
    print("| nodes | " + " | ".join(given.how) + " |\n|" + "---|" * (len(given.how) + 1))
    for nodes in given.nodes:
        rates: dict[str, list[float]] = {how: [] for how in given.how}
        for _ in range(given.rounds):
            for how in given.how:
                child = [sys.executable, __file__, "--child", how, str(nodes), str(given.events)]
                output = subprocess.run(child, check=True, capture_output=True, text=True).stdout
                rates[how].append(json.loads(output))
        medians = (f"{statistics.median(rates[how]):,.0f}" for how in given.how)
        print(f"| {nodes:,} | " + " | ".join(medians) + " |")


if __name__ == "__main__":
    main()
