"""Node programs compared with the same programs in SimPy: us of a processor for each message.

``python benchmarks/bench_nodes.py`` prints a table: medians over rounds, in each of which all run one after
another, each in a process of its own.  ``--nodes``, ``--rounds``, ``--programs`` and ``--how`` choose.

Five programs.  *tokens*: each node sends a token to its first neighbour, and whoever gets one passes it on.
*choices*: of two random machines the one with less work gets each share of an application (power of two
choices), by probes, answers and shares, with task queues; in SimPy a queue is one number, ours is a real one.
*gossip*: push-sum, a node sends half of its sum and of its weight to a random neighbour every second.
*pigeon*: ``examples/pigeon.py`` at a load of 0.8, with queues of any length at the masters.  *stations*: each
node is an M/M/1 queue at a load of 0.9, with two timers for each customer; times are us a customer.

Three networks: delays that differ (30 to 70 ms), FIFO interfaces, and equal delays.  SimPy (4.1) twice: with
callbacks of timeouts, and with a process and a store a node.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import gridsim as gs

#: s; bytes/s; Mflop; Mflop/s.
LATENCY, JITTER, BANDWIDTH, SIZE = 0.05, 0.02, 125_000.0, 65_536.0
NBYTES = {"token": 80, "probe": 80, "answer": 80, "share": 170, "half": 80, "task": 170, "free": 64}
NETWORKS = ("differing", "fifo", "equal")
DEGREE, GAP, SHARES = 8, 10.0, 64
#: Of Pigeon: workers of a group, those reserved for short tasks, distributors, and the load.
GROUP, RESERVED, DISTRIBUTORS, LOAD = 25, 1, 4, 0.8
PROGRAMS = ("tokens", "choices", "gossip", "pigeon", "stations")
#: Of stations: arrivals per s; customers are served in 1 s on average.
ARRIVALS = 0.9

# -- ours --------------------------------------------------------------------------------------------------


class TokenNode(gs.NodeProgram):
    def on_start(self, view: Any) -> None:
        view.send(view.neighbours[0], "token", hops=self.parameters.hops)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_message(self, view: Any, message: Any) -> None:
        if message.hops:
            others = view.neighbours
            view.send(others[(message.hops * 7 + view.node) % len(others)], "token", hops=message.hops - 1)


class Tokens(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = TokenNode
    messages: ClassVar[dict[str, gs.Message]] = {"token": gs.Message(NBYTES["token"], hops=int)}
    hops: int = 50


class ChoiceNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.application = -1  # whose shares are being placed
        self.first = np.full(SHARES, -1)  # by share: the machine that has answered
        self.work = np.zeros(SHARES)

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        self.application = application.number
        for share in range(tasks):
            self.first[share] = -1
            for _ in range(2):
                view.send(view.random.integers(view.machines), "probe", share=share)

    def on_probe(self, view: Any, message: Any) -> None:
        view.send(message.sender, "answer", share=message.share, work=view.work)

    def on_answer(self, view: Any, message: Any) -> None:
        share = message.share
        if self.first[share] < 0:
            self.first[share], self.work[share] = message.sender, message.work
            return
        best = self.first[share] if self.work[share] <= message.work else message.sender
        if best == view.node:
            view.enqueue(self.application, 1)
        else:
            view.send(best, "share", application=self.application, tasks=1)

    def on_share(self, view: Any, message: Any) -> None:
        view.enqueue(message.application, message.tasks)


class Choices(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = ChoiceNode
    local_order = "fifo"
    messages: ClassVar[dict[str, gs.Message]] = {
        "probe": gs.Message(NBYTES["probe"], share=int),
        "answer": gs.Message(NBYTES["answer"], share=int, work=float),
        "share": gs.Message(NBYTES["share"], moves_tasks=True, application=int, tasks=int),
    }


class GossipNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.sum, self.weight = 0.0, 1.0

    def on_start(self, view: Any) -> None:
        self.sum = float(view.node)
        view.timer(view.random.random(), "round")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_timer(self, view: Any, name: str) -> None:
        self.sum, self.weight = self.sum / 2.0, self.weight / 2.0
        neighbours = view.neighbours
        to = neighbours[view.random.integers(len(neighbours))]
        view.send(to, "half", sum=self.sum, weight=self.weight)
        view.timer(1.0, "round")

    def on_half(self, view: Any, message: Any) -> None:
        self.sum, self.weight = self.sum + message.sum, self.weight + message.weight


class Gossip(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = GossipNode
    timers: ClassVar[tuple[str, ...]] = ("round",)
    messages: ClassVar[dict[str, gs.Message]] = {"half": gs.Message(NBYTES["half"], sum=float, weight=float)}


class StationNode(gs.NodeProgram):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self.queue = gs.Fifo(arrival=float)
        self.left, self.total_time = parameters.customers, 0.0

    def on_start(self, view: Any) -> None:
        view.timer(view.random.exponential(1.0 / ARRIVALS), "arrival")

    def on_release(self, view: Any, application: Any, tasks: int) -> None:
        view.enqueue(application.number, tasks)

    def on_arrival(self, view: Any) -> None:
        if not self.queue:
            view.timer(view.random.exponential(1.0), "departure")
        self.queue.push(view.now)
        self.left -= 1
        if self.left > 0:
            view.timer(view.random.exponential(1.0 / ARRIVALS), "arrival")

    def on_departure(self, view: Any) -> None:
        self.total_time += view.now - self.queue.pop()
        if self.queue:
            view.timer(view.random.exponential(1.0), "departure")


class Stations(gs.NodeScheduler, frozen=True, kw_only=True):
    policy = StationNode
    degree: int = 0
    customers: int = 1000


def pigeon() -> gs.NodeScheduler:
    """Return Pigeon, of the examples."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from pigeon import Pigeon

    return Pigeon(size=GROUP, reserved=RESERVED)


def pigeon_submissions(nodes: int, messages: int) -> list[tuple[float, int]]:
    """When applications of `SHARES` tasks are released, and where: at a load of `LOAD`, machines in turn."""
    gap = SHARES * SIZE / (LOAD * nodes * 2000.0)
    return [(gap * k, k % nodes) for k in range(max(1, int(messages / (2.6 * SHARES))))]


def submissions(nodes: int, messages: int) -> list[tuple[float, int]]:
    """When applications of `SHARES` tasks are released, and where: every `GAP` s at each `SHARES`-th node."""
    rounds = max(1, messages // (5 * nodes))
    return [(GAP * i, (i + SHARES * k) % nodes) for i in range(rounds) for k in range(nodes // SHARES)]


def ours(program: str, nodes: int, network: str, messages: int, form: str) -> tuple[float, int]:
    """Return s of a processor and messages or customers, with all that a run of the library has around it."""
    scheduler: gs.NodeScheduler
    rounds = max(1, messages // nodes)
    if program in ("tokens", "gossip", "stations"):
        scheduler = Tokens(hops=rounds, degree=DEGREE) if program == "tokens" else Gossip(degree=DEGREE)
        end = 1e6 if program == "tokens" else float(rounds)
        if program == "stations":
            scheduler, end = Stations(customers=rounds), 2.0 * rounds + 100.0
        workload = gs.Workload.of(release=[end], tasks=[1], task_size=[SIZE], submitter=[0], origin=0.0)
    else:
        scheduler, submitted = Choices(degree=1), submissions
        if program == "pigeon":
            scheduler, submitted = pigeon(), pigeon_submissions
        release, submitter = zip(*submitted(nodes, messages), strict=True)
        workload = gs.Workload.of(
            release=release,
            tasks=[SHARES] * len(release),
            task_size=[SIZE] * len(release),
            submitter=submitter,
        )
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=nodes, seed=1),
        workload,
        gs.Network(
            latency=LATENCY,
            jitter=JITTER if network == "differing" else 0.0,
            bandwidth=BANDWIDTH,
            interfaces="fifo" if network == "fifo" else "equal",
        ),
        seed=1,
    )
    begin = time.process_time()
    result = gs.simulate(scenario, scheduler, nodes=form)
    sent = nodes * rounds if program == "stations" else int(result.messages["sent"].sum())
    return time.process_time() - begin, sent


# -- SimPy -------------------------------------------------------------------------------------------------


def by_simpy(design: str, program: str, nodes: int, network: str, messages: int) -> tuple[float, int]:
    """Return s of a processor and messages of the same program; `design` is callbacks or processes."""
    import simpy

    draw = random.Random(1)
    begin = time.process_time()
    env = simpy.Environment()
    length = {kind: nbytes / BANDWIDTH for kind, nbytes in NBYTES.items()}
    masters = -(-nodes // GROUP)
    ends = nodes + masters + DISTRIBUTORS  # workers, masters and distributors
    up, down, sent, limit = [0.0] * ends, [0.0] * ends, 0, float("inf")
    act: Callable[[int, int, str, Any], None]

    if design == "callbacks":

        def arrive(event: Any) -> None:
            act(*event._value)

    else:
        stores = [simpy.Store(env) for _ in range(ends)]

        def arrive(event: Any) -> None:
            stores[event._value[0]].put(event._value)

        def life(node: int) -> Any:
            while True:
                act(*(yield stores[node].get()))

    def head(event: Any) -> None:
        to, _, kind, _ = event._value
        at = down[to] = max(env.now, down[to]) + length[kind]
        env.timeout(at - env.now, event._value).callbacks.append(arrive)

    def send(sender: int, to: int, kind: str, what: Any) -> None:
        nonlocal sent
        sent += 1
        if network == "fifo":
            start = max(env.now, up[sender])
            up[sender] = start + length[kind]
            env.timeout(start - env.now + LATENCY, (to, sender, kind, what)).callbacks.append(head)
        else:
            jitter = JITTER * (2.0 * draw.random() - 1.0) if network == "differing" else 0.0
            delay = LATENCY + length[kind] + jitter
            env.timeout(delay, (to, sender, kind, what)).callbacks.append(arrive)

    if program == "tokens":
        neighbours = [draw.sample(range(nodes), DEGREE) for _ in range(nodes)]

        def act(node: int, sender: int, kind: str, hops: Any) -> None:
            if hops:
                send(node, neighbours[node][(hops * 7 + node) % DEGREE], kind, hops - 1)

        for node in range(nodes):
            send(node, neighbours[node][0], "token", max(1, messages // nodes))
    elif program == "gossip":
        neighbours = [draw.sample(range(nodes), DEGREE) for _ in range(nodes)]
        total, weight, limit = [float(node) for node in range(nodes)], [1.0] * nodes, float(messages // nodes)

        def act(node: int, sender: int, kind: str, what: Any) -> None:
            total[node] += what[0]
            weight[node] += what[1]

        def halve(event: Any) -> None:
            node = event._value
            total[node] /= 2.0
            weight[node] /= 2.0
            to = neighbours[node][draw.randrange(DEGREE)]
            send(node, to, "half", (total[node], weight[node]))
            env.timeout(1.0, node).callbacks.append(halve)

        for node in range(nodes):
            env.timeout(draw.random(), node).callbacks.append(halve)
    elif program == "stations":
        customers, queue_of = [max(1, messages // nodes)] * nodes, [deque[float]() for _ in range(nodes)]
        sent, total_time = nodes * customers[0], [0.0] * nodes

        def enter(node: int) -> bool:
            """Let a customer arrive; return whether another one will."""
            queue_of[node].append(env.now)
            customers[node] -= 1
            return customers[node] > 0

        def leave(node: int) -> bool:
            """Let the first customer leave; return whether another one waits."""
            total_time[node] += env.now - queue_of[node].popleft()
            return bool(queue_of[node])

        def arrival(event: Any) -> None:
            node = event._value
            if not queue_of[node]:
                env.timeout(draw.expovariate(1.0), node).callbacks.append(departure)
            if enter(node):
                env.timeout(draw.expovariate(ARRIVALS), node).callbacks.append(arrival)

        def departure(event: Any) -> None:
            if leave(event._value):
                env.timeout(draw.expovariate(1.0), event._value).callbacks.append(departure)

        def source(node: int) -> Any:
            is_open = True
            while is_open:
                yield env.timeout(draw.expovariate(ARRIVALS))
                is_open = enter(node)
                stores[node].put(None)

        def server(node: int) -> Any:
            while True:
                yield stores[node].get()
                yield env.timeout(draw.expovariate(1.0))
                leave(node)

        for node in range(nodes):
            if design == "callbacks":
                env.timeout(draw.expovariate(ARRIVALS), node).callbacks.append(arrival)
            else:
                env.process(source(node))
                env.process(server(node))
    elif program == "pigeon":
        speed = [float(draw.randrange(1000, 3001, 200)) for _ in range(nodes)]
        waiting_of: list[deque[int]] = [deque() for _ in range(masters)]
        groups = [range(k * GROUP, min(nodes, (k + 1) * GROUP)) for k in range(masters)]
        reserved = [dict.fromkeys(group[:RESERVED]) for group in groups]
        idle = [dict.fromkeys(group[RESERVED:]) for group in groups]
        turn = [0] * DISTRIBUTORS

        def act(node: int, sender: int, kind: str, what: Any) -> None:
            if kind == "task":
                env.timeout(SIZE / speed[node], node).callbacks.append(end_task)
                return
            k = node - nodes
            if kind == "share":
                waiting_of[k].extend([what[0]] * what[1])
            else:
                (reserved if sender - groups[k][0] < RESERVED else idle)[k][sender] = None
            while waiting_of[k] and (idle[k] or reserved[k]):
                chosen = idle[k] or reserved[k]
                worker = next(iter(chosen))
                del chosen[worker]
                send(node, worker, "task", waiting_of[k].popleft())

        def end_task(event: Any) -> None:
            send(event._value, nodes + event._value // GROUP, "free", None)

        def distribute(event: Any) -> None:
            application, k = event._value
            for n in range(min(SHARES, masters)):
                share = SHARES // masters + (n < SHARES % masters)
                to = nodes + (turn[k] + n) % masters
                send(nodes + masters + k, to, "share", (application, share))
            turn[k] = (turn[k] + SHARES) % masters

        for number, (at, node) in enumerate(pigeon_submissions(nodes, messages)):
            env.timeout(at, (number, node % DISTRIBUTORS)).callbacks.append(distribute)
    else:
        speed = [float(draw.randrange(1000, 3001, 200)) for _ in range(nodes)]
        free, waiting = [0.0] * nodes, [dict[int, Any]() for _ in range(nodes)]

        def queue(node: int) -> None:
            free[node] = max(free[node], env.now) + SIZE / speed[node]

        def act(node: int, sender: int, kind: str, what: Any) -> None:
            if kind == "probe":
                send(node, sender, "answer", (what, max(0.0, free[node] - env.now)))
            elif kind == "answer":
                share, work = what
                first = waiting[node][share]
                if first is None:
                    waiting[node][share] = sender, work
                    return
                del waiting[node][share]
                best = first[0] if first[1] <= work else sender
                if best == node:
                    queue(node)
                else:
                    send(node, best, "share", share)
            else:
                queue(node)

        def release(event: Any) -> None:
            node = event._value
            for share in range(SHARES):
                waiting[node][share] = None
                for _ in range(2):
                    send(node, draw.randrange(nodes), "probe", share)

        for at, node in submissions(nodes, messages):
            env.timeout(at, node).callbacks.append(release)
    if design == "processes" and program != "stations":
        for node in range(ends):
            env.process(life(node))
    env.run(None if limit == float("inf") else limit)
    return time.process_time() - begin, sent


# -- the table ---------------------------------------------------------------------------------------------

HOW = ("interpreted", "compiled", "callbacks", "processes")


def one(how: str, program: str, nodes: int, network: str, messages: int) -> float:
    """Return us a message, without the start of a run: a long run less a run of a fifth of its messages."""

    def run(count: int) -> tuple[float, int]:
        given = program, nodes, network, count
        return ours(*given, how) if how in HOW[:2] else by_simpy(how, *given)

    if how == "compiled":
        run(1)  # so that the machine code is there
    (short, few), (long, many) = run(messages // 5), run(messages)
    if few == many:
        raise SystemExit(f"--messages must be higher for {nodes} nodes, got {messages}")
    return (long - short) / (many - few) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--messages", type=int, default=1_000_000, help="about as many a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--how", nargs="+", default=HOW, choices=HOW)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(one(*json.loads(given.one)))
        return
    print("us of a processor a message, and how many times as long SimPy with callbacks takes")
    print("                          ", *(f"{how:>18}" for how in given.how))
    for program in given.programs:
        for nodes in given.nodes:
            for network in given.networks:
                found: dict[str, list[float]] = {how: [] for how in given.how}
                for _ in range(given.rounds):
                    for how in given.how:
                        asked = json.dumps([how, program, nodes, network, given.messages])
                        done = subprocess.run(
                            [sys.executable, __file__, "--one", asked],
                            capture_output=True,
                            text=True,
                            check=True,
                        )
                        found[how].append(float(done.stdout))
                simpy = found.get("callbacks", [float("nan")] * given.rounds)
                cells = []
                for values in found.values():
                    times = statistics.median(b / a for a, b in zip(values, simpy, strict=True))
                    cells.append(f"{statistics.median(values):10.3f} {times:6.2f}x")
                print(f"{program:8} {nodes:8,} {network:10}", *cells, flush=True)


if __name__ == "__main__":
    main()
