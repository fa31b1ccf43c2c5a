"""A router of the node program, message by message."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridcore.fair_tree import summaries
from gridcore.queues.summary_grid import SummaryGrid
from gridcore.queues.task_queues import TaskQueues
from gridsim.model.applications import Application
from gridsim.schedulers.fair_tree.node import CLIMBING, Leaf, Router
from gridsim.schedulers.fair_tree.summary_grid import samples_of
from gridsim.schedulers.fair_tree.tree import Tree
from gridsim.scheduling.overlays import subtree_sums
from gridsim.support.clock import NEVER, NS

GRID = SummaryGrid([0.5, 1.0, 2.0], [1.0, 4.0, 16.0], [0.5, 1.0, 3.0])
#: Application 0 has 4 Mflop in tasks of 1 Mflop; application 1 has 16 Mflop in tasks of 3 Mflop.
APPLICATIONS = [Application(0, 4, 1.0, 4.0, 0.0), Application(1, 16, 3.0, 16.0, 0.0)]


class TreeKnowledge:
    """What nodes know of a tree of machines of these speeds, of which the test removes nodes."""

    def __init__(self, speeds: Any, parameters: gs.FairTree) -> None:
        run: Any = SimpleNamespace(
            speeds=np.array(speeds),
            bandwidth=None,
            cores=None,
            attributes=None,
            applications=SimpleNamespace(group=None, memory=None),
        )
        self.tree = Tree.of(parameters, run, parameters.summary_bytes)
        self.leaves, self.speed = subtree_sums(np.ones(len(speeds))), subtree_sums(run.speeds)
        self.gone: set[int] = set()

    def leaves_below(self, child: int) -> int:
        return 0 if child in self.gone else int(self.leaves[child])

    def speed_below(self, child: int) -> float:
        return 0.0 if child in self.gone else self.speed[child]

    def has_left(self, node: int) -> bool:
        return node in self.gone


class RecordingView:
    """View of a node that stores sent messages."""

    def __init__(self, node: int, now: int, applications: list[Application], below: TreeKnowledge) -> None:
        self.node, self.now_ns, self.now, self.applications = node, now, now / NS, applications
        self.environment = below
        self.sent: list[SimpleNamespace] = []
        self.notes: list[dict[str, Any]] = []
        self.acts = 0

    def application(self, number: int) -> Application:
        return self.applications[number]

    def send(self, to: int, kind: str, **fields: Any) -> None:
        self.sent.append(SimpleNamespace(to=to, kind=kind, sender=self.node, **fields))

    def act(self, seconds: float = 0.0) -> None:
        self.acts += 1

    def note(self, table: str, **values: Any) -> None:
        self.notes.append(values)

    def decide(self, action: str, application: int, **said: Any) -> None:
        pass


class RouterBench:
    """A router with two leaves below it, in a tree of `leaves` leaves."""

    def __init__(
        self,
        leaves: int = 2,
        node: int = 0,
        speeds: Any = None,
        grid: SummaryGrid = GRID,
        applications: list[Application] | None = None,
        **parameters: Any,
    ) -> None:
        self.applications = APPLICATIONS if applications is None else applications
        chosen: Any = {"accept": "minimum", "update_rate": 0.0, "grid": samples_of(grid), **parameters}
        self.parameters = gs.FairTree(**chosen)
        self.below = TreeKnowledge([1.0] * leaves if speeds is None else speeds, self.parameters)
        self.node, self.grid = node, grid
        self.router = Router(self.parameters)
        self.numbers = [0, 0]

    def make_view(self, now: float = 0.0) -> Any:
        return RecordingView(self.node, round(now * NS), self.applications, self.below)

    def tell(self, side: int, value: Any, *, echo: int = -1, number: int | None = None, **fields: Any) -> Any:
        """Handle a summary of a child with `value` in all cells."""
        if number is None:
            number = self.numbers[side]
            self.numbers[side] += 1
        cells = np.broadcast_to(np.asarray(value, np.int64), self.grid.shape)
        message = SimpleNamespace(
            **{
                "sender": 2 * self.node + 1 + side, "cells": cells.reshape(-1), "number": number,
                "echo": echo, "release": 0.0, "minimum": 1.0, "since": NEVER, "oldest": 0, **fields,
            }
        )  # fmt: skip
        self.router.on_summary(self.make_view(), message)

    def ask(self, application: int, tasks: int, now: float = 0.0, **fields: Any) -> Any:
        """Handle a request; return the tasks for each child, or None if it is passed up."""
        view = self.make_view(now)
        message = SimpleNamespace(
            **{"number": CLIMBING, "minimum": math.nan, "hops": 0, "application": application,
               "tasks": tasks, **fields}
        )  # fmt: skip
        self.router.on_request(view, message)
        if len(view.sent) == 1 and view.sent[0].to < self.node:
            return None
        shares = [0, 0]
        for sent in view.sent:
            shares[sent.to - 2 * self.node - 1] = sent.tasks
        return shares

    def capacity(self, application: int = 0, now: float = 0.0) -> list[list[int]]:
        each = [
            self.router.capacity(self.make_view(now), k, self.applications[application]) for k in range(2)
        ]
        return [list(pair) for pair in zip(*(column.tolist() for column in each), strict=True)]

    def debited_summary_of(self, side: int = 0, now: float = 0.0) -> Any:
        return self.router.debited_summary(self.make_view(now), side)

    def debt_of(self, side: int) -> int:
        return sum(tasks for _, tasks, *_ in self.router.debts[side])


def test_leaf_reports_the_release_of_its_sample() -> None:
    """The sample is for the next cell, or for now; without cells, that of an idle leaf is for any release."""
    for cell, minimum, release in (
        (0.0, 2.0, 7.0),
        (0.0, math.inf, math.inf),
        (5.0, 2.0, 10.0),
        (5.0, math.inf, 10.0),
    ):
        one = RouterBench(release_cell=cell, accept="minimum", minimum_of="inverse-speed")
        asked: list[int] = []

        def sample(grid: Any, instant: int, asked: list[int] = asked) -> Any:
            asked.append(instant)
            return np.zeros(GRID.shape, np.uint32)

        view: Any = one.make_view(7.0)
        view.machine, view.speed, view.minimum_stretch, view.sample = 0, 1.0, minimum, sample
        actual = Leaf(one.parameters).availability(view)
        assert actual[:2] == (release, minimum if minimum < math.inf else 1.0)
        assert asked == [(10 if cell else 7) * NS]


quarters = st.integers(1, 24).map(lambda k: k / 4.0)


def samples(most: int) -> Any:
    return st.lists(quarters, min_size=1, max_size=most, unique=True).map(sorted)


class StaticTree:
    """All nodes of a tree at one instant; the test decides when messages arrive."""

    def __init__(self, speeds: list[float], grid: SummaryGrid, applications: list[Application]) -> None:
        columns = zip(*((item.release, item.size, item.task_size) for item in applications), strict=True)
        self.queues = TaskQueues(speeds)
        self.queues.add_applications(*(np.array(column) for column in columns))
        one = RouterBench(speeds=speeds, grid=grid, applications=applications, bound=0.0)
        self.below, self.speeds = one.below, speeds
        self.grid, self.applications, self.first_leaf = grid, applications, len(speeds) - 1
        self.nodes: list[Any] = [
            Leaf(one.parameters) if node >= self.first_leaf else Router(one.parameters)
            for node in range(2 * self.first_leaf + 1)
        ]
        # messages between a node and its parent, downwards and upwards, in the order of sending
        self.down: dict[int, list[Any]] = {node: [] for node in range(1, len(self.nodes))}
        self.up: dict[int, list[Any]] = {node: [] for node in range(1, len(self.nodes))}

    def make_view(self, node: int) -> Any:
        view: Any = RecordingView(node, 0, self.applications, self.below)
        if node >= self.first_leaf:
            view.machine = machine = node - self.first_leaf
            view.speed = self.speeds[machine]
            view.minimum_stretch = float(self.queues.minimum_stretch([machine], 0)[0])
            view.sample = lambda grid, _: self.queues.summaries([machine], grid, 0)[0]
        return view

    def report(self, node: int) -> None:
        view = self.make_view(node)
        self.nodes[node].report(view)
        self.up[node] += view.sent

    def hear(self, node: int) -> None:
        """Deliver the next summary of `node` to its parent."""
        parent = (node - 1) // 2
        self.nodes[parent].on_summary(self.make_view(parent), self.up[node].pop(0))

    def route(self, node: int, message: Any) -> dict[str, Any]:
        """Return the decision of a router."""
        view = self.make_view(node)
        self.nodes[node].on_request(view, message)
        for sent in view.sent:
            self.down[sent.to].append(sent)
        decision: dict[str, Any] = view.notes[0]
        return decision

    def go_on(self, node: int) -> None:
        """Deliver the next request of its parent to `node`."""
        message = self.down[node].pop(0)
        if node < self.first_leaf:
            assert self.route(node, message)["sample"] >= 0
            return
        self.nodes[node].receive(message)
        machine = [node - self.first_leaf]
        self.queues.enqueue(machine, [message.application], [message.tasks], 0)
        self.queues.reschedule(machine, 0)

    def debited_summary_of(self, node: int) -> Any:
        """Return the debited summary that the parent of `node` has."""
        parent, side = self.nodes[(node - 1) // 2], (node - 1) % 2
        return (
            0 if parent.cells[side] is None else parent.debited_summary(self.make_view((node - 1) // 2), side)
        )

    def true_summary(self, node: int) -> Any:
        below = [node]
        while below[0] < self.first_leaf:
            below = sorted(
                child
                for item in below
                for child in ((2 * item + 1, 2 * item + 2) if item < self.first_leaf else (item,))
            )
        leaves = [item - self.first_leaf for item in below]
        return self.queues.summaries(leaves, self.grid, 0).astype(np.int64).sum(axis=0)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_parent_never_overestimates_the_room_of_children(data: Any) -> None:
    """Requests enter at the root; its promises are kept unless later requests were promised more."""
    speeds = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=6))
    grid = data.draw(st.builds(SummaryGrid, samples(4), samples(3), samples(3)))
    row = st.tuples(st.one_of(st.just(0.0), quarters), quarters, quarters)
    old, new = (data.draw(st.lists(row, min_size=1, max_size=n)) for n in (3, 5))
    applications = [Application(i, 1, a, w, -age) for i, (age, w, a) in enumerate(old + new)]
    one = StaticTree(speeds, grid, applications)
    everyone = np.arange(len(speeds))
    for i in range(len(old)):
        tasks = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(speeds), max_size=len(speeds))))
        one.queues.enqueue(everyone[tasks > 0], np.full((tasks > 0).sum(), i), tasks[tasks > 0], 0)
    one.queues.reschedule(everyone, 0)
    promised = []
    for _ in range(data.draw(st.integers(5, 40), label="steps")):
        kind = data.draw(st.integers(0, 4))
        if kind == 0:
            for node in sorted(data.draw(st.sets(st.integers(1, len(one.nodes) - 1)))):
                one.report(node)
        elif kind == 1 and (ready := [node for node in one.up if one.up[node]]):
            one.hear(data.draw(st.sampled_from(ready)))
        elif kind == 2 and (ready := [node for node in one.down if one.down[node]]):
            one.go_on(data.draw(st.sampled_from(ready)))
        else:
            of = applications[data.draw(st.integers(len(old), len(applications) - 1))]
            capacities = [one.nodes[0].capacity(one.make_view(0), choice, of) for choice in range(2)]
            total = capacities[0] + capacities[1]
            if total[-1] == 0:
                continue
            tasks = data.draw(st.integers(1, int(min(total[-1], 2**31 - 1))))
            share = {"application": of.number, "tasks": tasks}
            message = SimpleNamespace(number=CLIMBING, minimum=math.nan, hops=0, **share)
            sample = one.route(0, message)["sample"]
            assert sample == summaries.lowest_stretch(total, tasks)
            promised.append((of, grid.stretch[sample]))
        for node in range(1, len(one.nodes)):
            assert (one.debited_summary_of(node) <= one.true_summary(node)).all()
    for node in sorted(one.down):  # deliver all requests that are on their way down
        while one.down[node]:
            one.go_on(node)
    one.queues.advance(NEVER - 1)
    finish = one.queues.totals()["finish"]
    for number, (of, _) in enumerate(promised):
        # an application ends with its last task, also of an earlier request that was promised more
        stretch = max(item for index, (other, item) in enumerate(promised) if index >= number or other == of)
        assert finish[of.number] / 1e9 <= of.release + stretch * of.size * (1 + 1e-9) + 1e-6
