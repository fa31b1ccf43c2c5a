"""M/M/1 with a load of 0.75: seconds of a processor for a million customers.

``python benchmarks/bench_mm1.py`` prints medians over rounds, in each of which all run one after another,
each in a process of its own and once before on few customers.  ``--customers``, ``--rounds`` and ``--how``
choose.

*interpreted* and *compiled*: a node program whose customers are timers, and which keeps when each arrived.
*SimPy*: a process for each customer and a resource.  *cimba*: `mm1_cimba`, which measures no single customer
(``pip install cimba``; left out where it is missing).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import gridsim as gs

LOAD = 0.75


class Server(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.present = gs.Fifo(arrival=float)
        self.served = 0
        self.time = 0.0

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.timer(view.random.exponential(1 / LOAD), "arrival")

    def on_arrival(self, view: Any) -> None:
        view.timer(view.random.exponential(1 / LOAD), "arrival")
        self.present.push(view.now)
        if len(self.present) == 1:
            view.timer(view.random.exponential(1.0), "departure")

    def on_departure(self, view: Any) -> None:
        self.time += view.now - self.present.pop()
        self.served += 1
        if self.present:
            view.timer(view.random.exponential(1.0), "departure")
        if self.served == self.parameters.customers:
            view.note("times", mean=self.time / self.served)
            view.enqueue(0, 1)  # the end of the run


class Mm1(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = Server
    tables: ClassVar[dict[str, dict[str, type]]] = {"times": {"mean": float}}
    customers: int = 1000


def by_gridsim(form: str) -> Callable[[int], float]:
    scenario = gs.Scenario(gs.Platform.of([1000.0]), gs.Workload.of([0.0], [1], [1.0], [0]), seed=1)

    def run(customers: int) -> float:
        result = gs.simulate(
            scenario, Mm1(customers=customers), nodes=form, events_limit=10 * customers + 1000
        )
        return float(result.tables["times"]["mean"][0])

    return run


def by_simpy(customers: int) -> float:
    import simpy

    env, chance, times = simpy.Environment(), random.Random(1), []
    server = simpy.Resource(env)

    def customer():
        arrival = env.now
        with server.request() as turn:
            yield turn
            yield env.timeout(chance.expovariate(1.0))
        times.append(env.now - arrival)

    def arrivals():
        for _ in range(customers):
            yield env.timeout(chance.expovariate(LOAD))
            env.process(customer())

    env.process(arrivals())
    env.run()
    return statistics.fmean(times)


def by_cimba() -> Callable[[int], float]:
    import mm1_cimba

    return mm1_cimba.run


HOW: dict[str, Callable[[], Callable[[int], float]]] = {
    "interpreted": lambda: by_gridsim("interpreted"),
    "compiled": lambda: by_gridsim("compiled"),
    "SimPy": lambda: by_simpy,
    "cimba": by_cimba,
}


def measure(how: str, customers: int) -> tuple[float, float]:
    """Return seconds of a processor, and the mean time of a customer in the system, s."""
    run = HOW[how]()
    run(1000)  # imports and compiles what it needs
    begin = time.process_time()
    mean = run(customers)
    return time.process_time() - begin, mean


def main() -> None:
    parser = argparse.ArgumentParser(description="M/M/1: seconds of a processor.")
    there = [how for how in HOW if how != "cimba" or importlib.util.find_spec("cimba")]
    parser.add_argument("--customers", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--how", nargs="+", choices=there, default=there)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child, given.customers)))
        return
    found: dict[str, list[list[float]]] = {how: [] for how in given.how}
    for _ in range(given.rounds):
        for how in given.how:
            child = [sys.executable, __file__, "--child", how, "--customers", str(given.customers)]
            output = subprocess.run(child, check=True, capture_output=True, text=True).stdout
            found[how].append(json.loads(output.splitlines()[-1]))
    print("mean time in the system in theory: 4 s")
    for how, rows in found.items():
        seconds, mean = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{how:12} {seconds:6.2f} s, mean time in the system {mean:.2f} s")


if __name__ == "__main__":
    main()
