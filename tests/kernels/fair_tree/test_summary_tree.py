"""The summary tree: equality with its reference implementation, and what a parent may believe."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gridcore.fair_tree import summaries
from gridcore.fair_tree import summary_tree as tree
from gridcore.queues import task_queues as queues
from gridcore.queues.summary_grid import SummaryGrid
from tests._helpers.small_trees import NEVER, NS, TOP, requests, same
from tests.reference import summary_tree as reference

QUICK = settings(max_examples=60, deadline=None)
quarters = st.integers(1, 24).map(lambda k: k / 4.0)


def samples(most):
    return st.lists(quarters, min_size=1, max_size=most, unique=True).map(sorted)


grids = st.builds(SummaryGrid, samples(4), samples(3), samples(3))


def closed(cells):
    """The smallest summary above `cells` that grows with S and w and falls with a."""
    for axis in (0, 1):
        cells = np.maximum.accumulate(cells, axis=axis)
    return np.ascontiguousarray(np.maximum.accumulate(cells[:, :, ::-1], axis=2)[:, :, ::-1])


#: For which summaries are sampled, s; inf of idle leaves.
releases = st.sampled_from([0.0, 1.0, 3.0, math.inf])


def summary_of(seed, shape):
    """A monotone summary: of small values, up to 2**16 (where the store widens), near saturation, or none."""
    random = np.random.default_rng(seed)
    most = random.choice([1, 5, 20, 2**16, 2**16 + 1, TOP + 1])
    return closed(random.integers(0, most, shape, dtype=np.uint32))


class Program(RuleBasedStateMachine):
    """The kernel and its reference implementation side by side; messages are delivered in any order."""

    @initialize(
        grid=grids,
        speed=st.lists(quarters, min_size=1, max_size=9),
        applications=st.lists(st.tuples(quarters, quarters, quarters), min_size=1, max_size=4),
        celled=st.booleans(),
        rate=st.sampled_from([0.0, 100.0, math.inf]),
        hold_off=st.sampled_from([0, NS // 4]),
        bound=st.sampled_from([0.0, 1.0, 2.5, math.inf]),
    )
    def start(self, grid, speed, applications, celled, rate, hold_off, bound):
        release, size, task_size = (list(column) for column in zip(*applications, strict=True))
        self.trees = [
            module.SummaryTree(
                grid, speed, release=release, size=size, task_size=task_size,
                nbytes=40, celled=celled, rate=rate, hold_off=hold_off, bound=bound,
            )
            for module in (tree, reference)
        ]  # fmt: skip
        ours, expected = self.trees
        for name in ("leaves", "nodes", "first_leaf", "grid"):
            assert getattr(ours, name) == getattr(expected, name)
        self.nodes, self.first_leaf = ours.nodes, ours.first_leaf
        self.grid, self.applications, self.now, self.celled = grid, len(size), 0, celled
        self.gap = 4 * NS // 10 if rate == 100.0 else 0
        self.last = {}
        # in flight: [our row, the reference implementation's row], and requests
        self.summaries, self.requests, self.spreads = [], [], []

    @rule(
        seeds=st.lists(st.integers(0, 30), min_size=9, max_size=9),
        release=st.lists(releases, min_size=9, max_size=9),
    )
    def tell_everyone(self, seeds, release):
        """Every leaf reports, and what follows goes up to the root at once."""
        level = range(self.first_leaf, self.nodes)
        cells = np.array([summary_of(seed, self.grid.shape) for seed in seeds[: len(level)]], np.uint32)
        low = [seed / 8.0 if seed else math.inf for seed in seeds[: len(level)]]
        if self.nodes == 1:
            return
        self.last = {}
        release = [self.sampled(at) for at in release[: len(level)]]
        told = self.both("report", list(level), self.now, cells, low, release)
        none = np.zeros((0, *self.grid.shape), np.uint32)
        while len(told[0]):
            for one, rows in zip(self.trees, told, strict=True):
                one.receive(rows)
            parents = sorted(set(told[0]["node"].tolist()) - {0})
            told = self.both("report", parents, self.now, none, [], [])

    def sampled(self, release):
        """No cell is every one."""
        return 5.0 if self.celled and math.isinf(release) else release

    def both(self, name, *arguments, **options):
        results = [getattr(one, name)(*arguments, **options) for one in self.trees]
        first, second = ((r,) if not isinstance(r, tuple) else r for r in results)
        for a, b in zip(first, second, strict=True):
            if a is None or b is None:
                assert a is b
            else:
                same(a, b, but=("payload",))
        return results

    def some(self, data, pool):
        """Take some of what is in flight, mostly in order."""
        taken = data.draw(st.lists(st.integers(0, len(pool) - 1), max_size=4, unique=True).map(sorted))
        if data.draw(st.integers(0, 4)) == 0:
            taken.reverse()
        rows = [pool[k] for k in taken]
        for k in sorted(taken, reverse=True):
            del pool[k]
        return rows

    @rule(step=st.integers(0, 4).map(lambda k: k * NS // 4))
    def wait(self, step):
        self.now += step

    @rule(data=st.data(), release=releases)
    def report(self, data, release):
        touched = data.draw(st.sets(st.integers(0, self.nodes - 1)).map(sorted), label="touched")
        (ready, _, until), _ = self.both("ready", touched, self.now)
        assert (until > self.now).all()
        leaves = ready[ready >= max(self.first_leaf, 1)]
        seeds = data.draw(st.lists(st.integers(0, 30), min_size=len(leaves), max_size=len(leaves)))
        cells = np.array([summary_of(seed, self.grid.shape) for seed in seeds], np.uint32)
        low = [seed / 8.0 if seed else math.inf for seed in seeds]
        cells = cells.reshape(len(leaves), *self.grid.shape)
        pairs = self.both("report", ready, self.now, cells, low, [self.sampled(release)] * len(leaves))
        for m in pairs[0]["sender"].tolist():
            assert self.now - self.last.get(m, -self.gap) >= self.gap
            self.last[m] = self.now
        self.summaries += [[a[k : k + 1] for a in pairs] for k in range(len(pairs[0]))]

    @precondition(lambda self: self.summaries)
    @rule(data=st.data())
    def receive(self, data):
        rows = self.some(data, self.summaries)
        for k, one in enumerate(self.trees):
            one.receive(np.concatenate([np.zeros(0, tree.SUMMARY), *(row[k] for row in rows)]))

    @precondition(lambda self: self.first_leaf > 0)
    @rule(data=st.data())
    def submit(self, data):
        row = st.tuples(
            st.integers(0, self.first_leaf - 1),
            st.integers(0, self.applications - 1),
            st.integers(1, 12) | st.integers(1, 100) | st.sampled_from([2**31, 2**34 + 1, 2**52 - 1]),
        )
        self.route(requests(*data.draw(st.lists(row, min_size=1, max_size=3))))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def deliver(self, data):
        rows = np.array(self.some(data, self.requests), tree.REQUEST)
        leaf = rows["node"] >= self.first_leaf
        self.both("acknowledge", rows[leaf])
        self.route(rows[~leaf])

    def route(self, rows):
        seen = self.trees[0].look(*rows[["node", "application"]][0].tolist(), self.now) if len(rows) else None
        (sent, decisions), _ = self.both("route", rows, self.now)
        if len(rows) and sent["sequence"][0] >= 0:
            # what is seen is what the first of them went by: the first stretch with room for all
            hosts = np.flatnonzero(seen[0].sum(axis=1) >= rows["tasks"][0])
            assert decisions["sample"][0] == (hosts[0] if len(hosts) else -1)
        self.requests += sent.tolist()
        # nothing is lost or made on the way
        assert sent["tasks"].sum() == rows["tasks"].sum()
        assert (sent["tasks"] >= 1).all()
        up = sent[sent["sequence"] < 0]
        assert len(decisions) + len(up) == len(rows)
        assert (up["node"] == (up["sender"] - 1) // 2).all()

    @rule(data=st.data(), always=st.booleans())
    def spread(self, data, always):
        nodes = data.draw(st.sets(st.integers(0, self.nodes - 1)).map(sorted))
        sent, _ = self.both("spread", nodes, always)
        self.spreads += sent.tolist()

    @precondition(lambda self: self.spreads)
    @rule(data=st.data())
    def take_spread(self, data):
        self.both("take_spread", np.array(self.some(data, self.spreads), tree.SPREAD))

    @precondition(lambda self: self.summaries)
    @rule(data=st.data())
    def lose(self, data):
        rows = self.some(data, self.summaries)
        for k, one in enumerate(self.trees):
            one.forget(np.concatenate([np.zeros(0, tree.SUMMARY), *(row[k] for row in rows)]))

    @rule(data=st.data())
    def reset(self, data):
        self.both("reset", data.draw(st.sets(st.integers(0, self.nodes - 1), max_size=3).map(sorted)))

    @rule(data=st.data(), name=st.sampled_from(["leave", "silence"]))
    def go(self, data, name):
        self.both(name, data.draw(st.sets(st.integers(0, self.nodes - 1), max_size=3).map(sorted)))

    @rule(release=quarters, size=quarters, task_size=quarters)
    def add(self, release, size, task_size):
        self.both("add_applications", [release], [size], [task_size])
        self.applications += 1

    @precondition(lambda self: hasattr(self, "trees"))
    @invariant()
    def equal(self):
        ours, expected = self.trees
        for node in range(self.nodes):
            same(ours.known(node, self.now), expected.known(node, self.now))
            assert ours.owed(node) == expected.owed(node)
        for node, application in product(range(self.first_leaf), range(self.applications)):
            (rooms, least), (wanted, low) = (one.look(node, application, self.now) for one in self.trees)
            same(rooms, wanted)
            assert least == low
        held, known = (one.held(range(self.nodes)) >= 0 for one in self.trees)
        assert held.tolist() == known.tolist()
        assert ours.below_window == expected.below_window
        assert ours.above_window == expected.above_window
        assert ours.payloads_in_use == expected.payloads_in_use
        # one with each sender, one with each parent, and those in flight
        assert ours.payloads_in_use <= 2 * (self.nodes - 1) + len(self.summaries)


Program.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestProgram = Program.TestCase


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_parent_never_knows_of_more_than_there_is(data):
    """Time stands still, requests enter at the root, messages are in flight for as long as they like."""
    speed = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=6))
    grid = data.draw(st.builds(SummaryGrid, samples(4), samples(3), samples(3)))
    row = st.tuples(quarters, quarters)
    old, new = (data.draw(st.lists(row, min_size=1, max_size=n)) for n in (3, 5))
    every = len(old) + len(new)
    age = data.draw(st.lists(st.one_of(st.just(0.0), quarters), min_size=every, max_size=every))
    size, task_size = (np.array(column) for column in zip(*old, *new, strict=True))
    store = queues.TaskQueues(speed)
    released = [-x for x in age]
    store.add_applications(released, size, task_size)
    everyone = np.arange(len(speed))
    for i in range(len(old)):
        tasks = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(speed), max_size=len(speed))))
        store.enqueue(everyone[tasks > 0], np.full((tasks > 0).sum(), i), tasks[tasks > 0], 0)
    store.reschedule(everyone, 0)
    one = tree.SummaryTree(grid, speed, release=released, size=size, task_size=task_size, nbytes=0, bound=0.0)
    # what is between a node and its parent, down and up, each in order
    down, up = ({k: [] for k in range(1, one.nodes)} for _ in range(2))
    promised = []

    def report(nodes):
        leaves = np.array([m - one.first_leaf for m in nodes if m >= one.first_leaf], np.int64)
        cells, least = store.summaries(leaves, grid, 0), store.minimum_stretch(leaves, 0)
        sent = one.report(nodes, 0, cells, least, [0.0] * len(leaves))
        for k in range(len(sent)):
            up[sent["sender"][k]].append(sent[k : k + 1])

    def route(rows):
        sent, decisions = one.route(rows, 0)
        assert (decisions["guaranteed"] == 1).all()
        for k in range(len(sent)):
            down[sent["node"][k]].append(sent[k : k + 1])
        return decisions

    def truth(node):
        below = [node]
        while below[0] < one.first_leaf:
            below = [c for m in below for c in ((2 * m + 1, 2 * m + 2) if m < one.first_leaf else (m,))]
            below.sort()
        leaves = [m - one.first_leaf for m in below]
        return store.summaries(leaves, grid, 0).astype(np.int64).sum(axis=0)

    for _ in range(data.draw(st.integers(5, 40), label="steps")):
        kind = data.draw(st.integers(0, 4))
        if kind == 0:
            report(sorted(data.draw(st.sets(st.integers(1, one.nodes - 1)))))
        elif kind == 1 and (ready := [k for k in up if up[k]]):
            one.receive(up[data.draw(st.sampled_from(ready))].pop(0))
        elif kind == 2 and (ready := [k for k in down if down[k]]):
            rows = down[k := data.draw(st.sampled_from(ready))].pop(0)
            if k < one.first_leaf:
                route(rows)
            else:
                one.acknowledge(rows)
                store.enqueue([k - one.first_leaf], rows["application"], rows["tasks"], 0)
                store.reschedule([k - one.first_leaf], 0)
        else:
            i = data.draw(st.integers(len(old), len(size) - 1))
            rooms = one.look(0, i, 0)[0].T
            j = np.flatnonzero(grid.size <= size[i])
            k = np.flatnonzero(grid.task_size >= task_size[i])
            if age[i] == 0.0 and len(j) and len(k):
                assert (rooms == [one.known(child, 0)[:, j[-1], k[0]] for child in (1, 2)]).all()
            total = sum(rooms)
            if total[-1] == 0:
                continue
            tasks = data.draw(st.integers(1, int(min(total[-1], 2**31 - 1))))
            before = {child: one.owed(child) for child in (1, 2)}
            sample = route(requests((0, i, tasks)))["sample"][0]
            assert sample == summaries.lowest_stretch(total, tasks)
            shares = [one.owed(child) - before[child] for child in (1, 2)]
            assert shares == summaries.split([room[sample] for room in rooms], tasks).tolist()
            assert all(share <= room[sample] for share, room in zip(shares, rooms, strict=True))
            promised.append((i, grid.stretch[sample]))
        for node in range(1, one.nodes):
            assert (one.known(node, 0) <= truth(node)).all()
    # Every promise is kept once all requests have come down, but by those after it that were promised more.
    for k in sorted(down):
        for rows in down[k]:
            if k < one.first_leaf:
                route(rows)
            else:
                store.enqueue([k - one.first_leaf], rows["application"], rows["tasks"], 0)
    store.reschedule(everyone, 0)
    store.advance(NEVER - 1)
    finish = store.totals()["finish"]
    for number, (i, _) in enumerate(promised):
        # an application ends with its last task, also of an earlier request that was promised more
        stretch = max(each for at, (j, each) in enumerate(promised) if at >= number or j == i)
        assert finish[i] / 1e9 <= released[i] + stretch * size[i] * (1 + 1e-9) + 1e-6


def test_without_a_guarantee_nothing_is_left_above_the_size():
    # Four tasks of B (w = 2) where two can be hosted: at w = 8 four would seem to be left, but B is late.
    grid = SummaryGrid([1.0], [2.0, 8.0], [1.0])
    store = queues.TaskQueues([1.0, 1.0])
    store.add_applications([0.0], [2.0], [1.0])
    for module in (tree, reference):
        one = module.SummaryTree(grid, [1.0, 1.0], release=[0.0], size=[2.0], task_size=[1.0], nbytes=0)
        cells = store.summaries([0, 1], grid, 0)
        one.receive(one.report([1, 2], 0, cells, [math.inf] * 2, [math.inf] * 2))
        assert one.known(1, 0)[0, :, 0].tolist() == [2, 8]
        sent, decisions = one.route(requests((0, 0, 8)), 0)
        assert (decisions["sample"][0], decisions["guaranteed"][0]) == (-1, 0)
        assert sent["tasks"].tolist() == [4, 4]
        assert one.known(1, 0)[0, :, 0].tolist() == [0, 0]
    store.enqueue([0], [0], [4], 0)
    assert store.summaries([0], grid, 0)[0, 0, :, 0].tolist() == [0, 0]
