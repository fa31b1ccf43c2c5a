"""The summary tree: equality with its twin, and what a father may believe."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gridcore import queues, summaries, tree
from gridcore.grid import SummaryGrid
from gridcore.reference import tree as twin
from gridcore.states import LATEST

QUICK = settings(max_examples=60, deadline=None)
BOTH = pytest.mark.parametrize("module", [tree, twin])
NEVER, TOP = tree.NEVER, 2**32 - 1
NS = 10**9
GRID = SummaryGrid([0.5, 1.0, 2.0], [1.0, 4.0, 16.0], [0.5, 1.0, 3.0])

quarters = st.integers(1, 24).map(lambda k: k / 4.0)


def samples(most):
    return st.lists(quarters, min_size=1, max_size=most, unique=True).map(sorted)


grids = st.builds(SummaryGrid, samples(4), samples(3), samples(3))


def requests(*rows):
    """(node, application, tasks), climbing, or with a number from the father as fourth."""
    full = [(node, node, i, n, *(rest or (-1,)), math.nan, 0) for node, i, n, *rest in rows]
    return np.array(full, tree.REQUEST)


def closed(cells):
    """The smallest summary above `cells` that grows with S and w and falls with a."""
    for axis in (0, 1):
        cells = np.maximum.accumulate(cells, axis=axis)
    return np.ascontiguousarray(np.maximum.accumulate(cells[:, :, ::-1], axis=2)[:, :, ::-1])


def summary_of(seed, shape):
    """A monotone summary: of small values, up to 2**16 (where the store widens), near saturation, or none."""
    random = np.random.default_rng(seed)
    most = random.choice([1, 5, 20, 2**16, 2**16 + 1, TOP + 1])
    return closed(random.integers(0, most, shape, dtype=np.uint32))


def same(ours, expected, but=()):
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    if ours.dtype.names:
        for name in ours.dtype.names:
            if name not in but:
                np.testing.assert_array_equal(ours[name], expected[name], err_msg=name)
    else:
        np.testing.assert_array_equal(ours, expected)


class Program(RuleBasedStateMachine):
    """The kernel and its twin side by side; messages are delivered in any order."""

    @initialize(
        grid=grids,
        speed=st.lists(quarters, min_size=1, max_size=9),
        applications=st.lists(st.tuples(quarters, quarters, quarters), min_size=1, max_size=4),
        shifted=st.booleans(),
        rate=st.sampled_from([0.0, 100.0, math.inf]),
        hold_off=st.sampled_from([0, NS // 4]),
        bound=st.sampled_from([0.0, 1.0, 2.5, math.inf]),
    )
    def start(self, grid, speed, applications, shifted, rate, hold_off, bound):
        release, size, task_size = (list(column) for column in zip(*applications, strict=True))
        self.trees = [
            module.SummaryTree(
                grid, speed, size=size, task_size=task_size, release=release if shifted else None,
                nbytes=40, rate=rate, hold_off=hold_off, bound=bound,
            )
            for module in (tree, twin)
        ]  # fmt: skip
        ours, expected = self.trees
        for name in ("leaves", "nodes", "first_leaf", "grid"):
            assert getattr(ours, name) == getattr(expected, name)
        self.nodes, self.first_leaf = ours.nodes, ours.first_leaf
        self.grid, self.applications, self.now = grid, len(size), 0
        self.gap = 4 * NS // 10 if rate == 100.0 else 0
        self.last = {}
        # in flight: [our row, the twin's row], and requests
        self.summaries, self.requests, self.spreads = [], [], []

    @rule(seeds=st.lists(st.integers(0, 30), min_size=9, max_size=9), cell=st.sampled_from([0.0, 1.0, 3.0]))
    def tell_everyone(self, seeds, cell):
        """Every leaf reports, and what follows goes up to the root at once."""
        level = range(self.first_leaf, self.nodes)
        cells = np.array([summary_of(seed, self.grid.shape) for seed in seeds[: len(level)]], np.uint32)
        low = [seed / 8.0 if seed else math.inf for seed in seeds[: len(level)]]
        if self.nodes == 1:
            return
        self.last = {}
        told = self.both("report", list(level), self.now, cells, low, cell=cell)
        none = np.zeros((0, *self.grid.shape), np.uint32)
        while len(told[0]):
            for one, rows in zip(self.trees, told, strict=True):
                one.receive(rows)
            fathers = sorted(set(told[0]["node"].tolist()) - {0})
            told = self.both("report", fathers, self.now, none, [])

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

    @rule(data=st.data(), cell=st.sampled_from([0.0, 1.0, 3.0]))
    def report(self, data, cell):
        touched = data.draw(st.sets(st.integers(0, self.nodes - 1)).map(sorted), label="touched")
        (ready, _, until), _ = self.both("ready", touched, self.now)
        assert (until > self.now).all()
        leaves = ready[ready >= max(self.first_leaf, 1)]
        seeds = data.draw(st.lists(st.integers(0, 30), min_size=len(leaves), max_size=len(leaves)))
        cells = np.array([summary_of(seed, self.grid.shape) for seed in seeds], np.uint32)
        low = [seed / 8.0 if seed else math.inf for seed in seeds]
        cells = cells.reshape(len(leaves), *self.grid.shape)
        pairs = self.both("report", ready, self.now, cells, low, cell=cell)
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
        seen = self.trees[0].look(*rows[["node", "application"]][0].tolist()) if len(rows) else None
        (sent, decisions), _ = self.both("route", rows)
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

    @rule(data=st.data(), name=st.sampled_from(["leave", "join", "silence"]))
    def come_and_go(self, data, name):
        leaf = st.integers(self.first_leaf, self.nodes - 1)
        self.both(name, data.draw(st.sets(leaf, max_size=3).map(sorted)))

    @precondition(lambda self: hasattr(self, "trees"))
    @invariant()
    def equal(self):
        ours, expected = self.trees
        for node in range(self.nodes):
            same(ours.known(node), expected.known(node))
            assert ours.owed(node) == expected.owed(node)
        for node, application in product(range(self.first_leaf), range(self.applications)):
            (rooms, least), (wanted, low) = (one.look(node, application) for one in self.trees)
            same(rooms, wanted)
            assert least == low
        held, known = (one.held(range(self.nodes)) >= 0 for one in self.trees)
        assert held.tolist() == known.tolist()
        assert ours.below_window == expected.below_window
        assert ours.above_window == expected.above_window
        assert ours.payloads_in_use == expected.payloads_in_use
        # one with each sender, one with each father, and those in flight
        assert ours.payloads_in_use <= 2 * (self.nodes - 1) + len(self.summaries)


Program.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestProgram = Program.TestCase


# --- what a father may believe ----------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_father_never_knows_of_more_than_there_is(data):
    """Time stands still, requests enter at the root, messages are in flight for as long as they like."""
    speed = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=6))
    grid = data.draw(st.builds(SummaryGrid, samples(4), samples(3), samples(3)))
    row = st.tuples(quarters, quarters)
    old, new = (data.draw(st.lists(row, min_size=1, max_size=n)) for n in (3, 5))
    age = data.draw(st.lists(quarters, min_size=len(old), max_size=len(old)))
    size, task_size = (np.array(column) for column in zip(*old, *new, strict=True))
    store = queues.TaskQueues(speed)
    store.add_applications([-x for x in age] + [0.0] * len(new), size, task_size)
    everyone = np.arange(len(speed))
    for i in range(len(old)):
        tasks = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(speed), max_size=len(speed))))
        store.enqueue(everyone[tasks > 0], np.full((tasks > 0).sum(), i), tasks[tasks > 0], 0)
    store.reschedule(everyone, 0)
    one = tree.SummaryTree(grid, speed, size=size, task_size=task_size, nbytes=0, bound=0.0)
    # what is between a node and its father, down and up, each in order
    down, up = ({k: [] for k in range(1, one.nodes)} for _ in range(2))
    promised = []

    def report(nodes):
        leaves = np.array([m - one.first_leaf for m in nodes if m >= one.first_leaf], np.int64)
        cells, least = store.summaries(leaves, grid, 0), store.minimum_stretch(leaves, 0)
        sent = one.report(nodes, 0, cells, least)
        for k in range(len(sent)):
            up[sent["sender"][k]].append(sent[k : k + 1])

    def route(rows):
        sent, decisions = one.route(rows)
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
            j = np.flatnonzero(grid.size <= size[i])
            k = np.flatnonzero(grid.task_size >= task_size[i])
            if not len(j) or not len(k):
                continue
            rooms = [one.known(child)[:, j[-1], k[0]].astype(int) for child in (1, 2)]
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
            assert (one.known(node) <= truth(node)).all()
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
        stretch = max(later for _, later in promised[number:])
        assert finish[i] / 1e9 <= stretch * size[i] * (1 + 1e-9) + 1e-6


def test_without_a_guarantee_nothing_is_left_above_the_size():
    # Four tasks of B (w = 2) where two can be hosted: at w = 8 four would seem to be left, but B is late.
    grid = SummaryGrid([1.0], [2.0, 8.0], [1.0])
    store = queues.TaskQueues([1.0, 1.0])
    store.add_applications([0.0], [2.0], [1.0])
    for module in (tree, twin):
        one = module.SummaryTree(grid, [1.0, 1.0], size=[2.0], task_size=[1.0], nbytes=0)
        cells = store.summaries([0, 1], grid, 0)
        one.receive(one.report([1, 2], 0, cells, [math.inf] * 2))
        assert one.known(1)[0, :, 0].tolist() == [2, 8]
        sent, decisions = one.route(requests((0, 0, 8)))
        assert (decisions["sample"][0], decisions["guaranteed"][0]) == (-1, 0)
        assert sent["tasks"].tolist() == [4, 4]
        assert one.known(1)[0, :, 0].tolist() == [0, 0]
    store.enqueue([0], [0], [4], 0)
    assert store.summaries([0], grid, 0)[0, 0, :, 0].tolist() == [0, 0]


# --- single cases -----------------------------------------------------------------------------------


def make(module, leaves=2, **options):
    return module.SummaryTree(
        GRID, [1.0] * leaves, size=[4.0, 16.0], task_size=[1.0, 3.0], nbytes=100, **options
    )


def full(value, count=1):
    return np.full((count, *GRID.shape), value, np.uint32)


def tell(one, nodes, value, least=1.0, now=0):
    """Leaves report `value` everywhere, and their fathers hear it."""
    rows = one.report(nodes, now, full(value, len(nodes)), [least] * len(nodes))
    one.receive(rows)
    return rows


@BOTH
def test_a_debit_stays_until_it_is_echoed(module):
    one = make(module)
    tell(one, [1, 2], 50)
    first, _ = one.route(requests((0, 0, 10)))
    second, _ = one.route(requests((0, 0, 4)))
    assert first["tasks"].tolist() == [5, 5] and first["sequence"].tolist() == [1, 1]
    assert second["sequence"].tolist() == [2, 2]
    assert (one.owed(1), one.owed(2)) == (7, 7)
    # seven tasks of 1 displace three of 3
    assert one.known(1)[-1, -1, 2] == 47
    # A summary made before the requests arrived changes nothing.
    tell(one, [1], 60)
    assert (one.owed(1), one.known(1)[-1, -1, 2]) == (7, 57)
    one.acknowledge(first)
    [row] = one.report([1], 0, full(55), [1.0])
    assert (row["echo"], one.owed(1)) == (1, 7)
    one.receive(np.array([row]))
    assert (one.owed(1), one.known(1)[-1, -1, 2]) == (2, 54)
    one.acknowledge(second)
    tell(one, [1], 53)
    assert (one.owed(1), one.known(1)[-1, -1, 2]) == (0, 53)
    assert one.owed(2) == 7


@BOTH
def test_stale_summaries_are_dropped(module):
    one = make(module)
    old = one.report([1], 0, full(9), [1.0])
    new = one.report([1], 0, full(5), [2.0])
    assert [old["sequence"][0], new["sequence"][0]] == [0, 1]
    one.receive(new)
    assert one.payloads_in_use == 2
    one.receive(old)
    assert one.known(1).max() == 5
    assert one.payloads_in_use == 1
    again = one.report([1], 0, full(7), [2.0])
    one.receive(spoilt(again, "sequence", 1))  # the number of the one that is known
    assert one.known(1).max() == 5


@BOTH
def test_the_same_summary_is_not_sent_twice_unless_asked(module):
    one = make(module)
    assert len(tell(one, [1, 2], 9)) == 2
    assert len(one.report([1, 2], 5, full(9, 2), [1.0, 1.0])) == 0
    # another minimum is news, and so is a request since the last one
    assert one.report([1, 2], 5, full(9, 2), [1.0, 3.0])["sender"].tolist() == [2]
    sent, _ = one.route(requests((0, 0, 2)))
    one.acknowledge(sent)
    assert one.report([1, 2], 6, full(9, 2), [1.0, 3.0])["echo"].tolist() == [1, 1]
    assert len(one.report([1, 2], 7, full(9, 2), [1.0, 3.0])) == 0
    # a summary in flight is the one of its sending
    assert one.payloads_in_use == 5


@BOTH
def test_payloads_do_not_pile_up(module):
    one = make(module, leaves=4)
    for k in range(600):
        tell(one, [3, 4, 5, 6], k, now=k)
        one.receive(one.report([1, 2], k, full(0, 0), []))
        assert one.payloads_in_use <= 6
    assert one.known(1).min() == 2 * 599


@BOTH
def test_the_rate_limit(module):
    # 100 bytes at 100 bytes/s: a second between two summaries of a node.
    one = make(module, leaves=4, rate=100.0, hold_off=NS // 4)
    ready, waiting, until = one.ready([0, 1, 3], 0)
    assert (ready.tolist(), waiting.tolist(), until.tolist()) == ([3], [1], [NS // 4])
    assert len(tell(one, [3], 7)) == 1
    # waits for its turn; asking again says nothing new
    ready, waiting, until = one.ready([1, 3], 10)
    assert (ready.tolist(), waiting.tolist(), until.tolist()) == ([], [3], [NS])
    assert [x.tolist() for x in one.ready([1, 3], 20)] == [[], [], []]
    assert one.ready([1], NS // 4)[0].tolist() == [1]
    assert one.ready([3], NS)[0].tolist() == [3]
    # an unchanged summary is not sent and does not take the turn
    assert len(one.report([3], NS, full(7), [1.0])) == 0
    assert one.ready([3], NS + 1)[0].tolist() == [3]


@BOTH
def test_the_oldest_change_is_handed_on_once(module):
    one = make(module, leaves=3)
    one.ready([3], 5)
    one.ready([4], 7)
    rows = one.report([3, 4], 8, full(3, 2), [1.0, 1.0])
    assert rows["since"].tolist() == [5, 7]
    one.receive(rows)
    assert one.report([1], 9, full(0, 0), [])["since"].tolist() == [5]
    tell(one, [3], 4)
    assert one.report([1], 9, full(0, 0), [])["since"].tolist() == [NEVER]


@BOTH
def test_a_request_climbs_until_the_bound_holds(module):
    one = make(module, leaves=4, bound=1.0)
    for node, least in ((3, 1.0), (4, 1.0), (5, 0.5), (6, math.inf)):
        tell(one, [node], 2, least)
    one.receive(one.report([1, 2], 0, full(0, 0), []))
    # The smallest sample is 0.5; beneath 1 the minimum is 1.0, and 5 tasks are too many.
    sent, decisions = one.route(requests((1, 0, 4), (1, 0, 5)))
    assert decisions[["node", "tasks", "sample", "guaranteed", "hops"]].tolist() == [(1, 4, 0, 1, 0)]
    assert sent[["node", "sender", "tasks", "sequence", "hops"]].tolist() == [
        (3, 1, 2, 1, 0),
        (4, 1, 2, 1, 0),
        (0, 1, 5, -1, 1),
    ]
    assert sent["minimum"].tolist()[:2] == [1.0, 1.0]
    # The rest of the tree is better off: what is spread is taken into account.
    one.take_spread(one.spread([0]))
    assert len(one.spread([0])) == 0
    assert len(one.spread([0, 1], True)) == 2
    tell(one, [3, 4], 3)
    sent, decisions = one.route(requests((1, 0, 1)))
    assert [len(decisions), len(sent)] == [1, 1]
    # A request from the father brings the minimum along.
    row = requests((1, 0, 1, 1))
    row["minimum"] = 0.25
    assert one.route(row)[1]["hops"].tolist() == [-1]
    assert len(one.route(requests((1, 0, 1)))[1]) == 0
    assert one.below_window == 3


@BOTH
def test_the_bound_itself_is_accepted(module):
    one = make(module, leaves=4, bound=2.0)
    tell(one, [3, 4], 2, 0.25)
    assert one.route(requests((1, 0, 4)))[1]["sample"].tolist() == [0]
    tell(one, [3, 4], 2, 0.249)
    assert len(one.route(requests((1, 0, 1)))[1]) == 0


@BOTH
def test_an_application_outside_the_grid_goes_to_the_root_and_by_speed(module):
    one = module.SummaryTree(
        GRID, [1.0, 3.0], size=[0.5, 4.0], task_size=[0.25, 3.5], nbytes=0, bound=math.inf
    )
    tell(one, [1, 2], 100)
    sent, decisions = one.route(requests((0, 0, 8), (0, 1, 2)))
    assert decisions["sample"].tolist() == [-1, -1]
    assert decisions["guaranteed"].tolist() == [0, 0]
    assert sent["tasks"].tolist() == [2, 6, 1, 1]
    assert one.above_window == 2


@BOTH
def test_what_is_guaranteed_goes_first(module):
    one = make(module)
    tell(one, [1], 7)
    sent, _ = one.route(requests((0, 0, 17)))
    assert sent["tasks"].tolist() == [12, 5]


@BOTH
def test_without_leaves_halves_go_on(module):
    one = make(module)
    one.leave([1, 2])
    sent, _ = one.route(requests((0, 0, 9)))
    assert sent["tasks"].tolist() == [5, 4]
    # and otherwise by speed, also of slow ones
    slow = module.SummaryTree(GRID, [0.25, 0.5], size=[4.0], task_size=[1.0], nbytes=0)
    assert slow.route(requests((0, 0, 9)))[0]["tasks"].tolist() == [3, 6]


@BOTH
def test_the_rims_of_the_grid_belong_to_it(module):
    one = module.SummaryTree(GRID, [1.0, 1.0], size=[1.0], task_size=[3.0], nbytes=0)
    tell(one, [1, 2], 5)
    rooms, least = one.look(0, 0)
    assert rooms.tolist() == [[5, 5]] * 3 and least == 1.0


@BOTH
def test_what_dispatches_displace_is_summed_up_from_the_last_one_on(module):
    """(1.86 + 0.93) + 0.21 are 3 tasks of 1 s; in another order rounding makes them more than 3."""
    size = [0.21, 0.93, 1.86]
    one = module.SummaryTree(SummaryGrid([1.0], [1.0], [1.0, 3.0]), [1.0, 1.0], size=[1.0] * 3,
                             task_size=size, nbytes=0)  # fmt: skip
    assert sum(size[::-1]) == 3.0 < size[0] + size[2] + size[1]
    one.receive(one.report([1], 0, np.array([[[[50, 0]]]], np.uint32), [1.0]))
    for application in range(3):
        one.route(requests((0, application, 1)))
    assert one.owed(1) == 3 and one.known(1)[0, 0].tolist() == [47, 0]


@BOTH
def test_the_first_request_of_a_router_is_answered_by_a_summary(module):
    """Its number may be 0; it is not one that climbs, and the next summary says so at least."""
    one = make(module, leaves=4)
    assert len(one.report([1], 0, full(0, 0), [])) == 1
    assert len(one.report([1], 0, full(0, 0), [])) == 0
    sent, decisions = one.route(requests((1, 0, 4, 0)))
    assert decisions["hops"].tolist() == [-1] and sent["node"].tolist() == [3, 4]
    assert one.report([1], 0, full(0, 0), [])["echo"].tolist() == [0]


@BOTH
def test_the_first_summary_is_shifted_as_any_other(module):
    """What is known for another release, from the first payload of all and from a later one."""
    rooms = []
    for before in (False, True):
        one = make(module, release=[0.0, 6.0])
        if before:
            tell(one, [1, 2], 9)
        one.receive(one.report([1, 2], 0, full(50, 2), [1.0, 1.0]))
        rooms.append([one.look(0, application)[0].tolist() for application in (0, 1)])
    assert rooms[0] == rooms[1]
    # 6 s at 1/s, and one more task of 3 s, displace 3 of them
    assert rooms[0] == [[[50, 50]] * 3, [[47, 47]] * 3]


@BOTH
def test_who_knows_nothing_says_so_for_release_0(module):
    one = make(module, leaves=5, release=[0.0, 0.0])
    one.receive(one.report([3, 4], 0, full(9), [1.0]))
    assert len(one.report([1], 0, full(0, 0), [])) == 1


@BOTH
def test_the_root_may_be_a_leaf_and_hears_too(module):
    """Node 0 is no exception among the rows."""
    one = make(module, leaves=1)
    one.acknowledge(requests((0, 0, 1, 3)))
    two = make(module)
    two.take_spread(np.array([(0, 0, 0.125)], tree.SPREAD))
    assert two.look(0, 0)[1] == 0.125


@BOTH
def test_the_longest_hold_off(module):
    one = make(module, leaves=4, hold_off=LATEST)
    assert [column.tolist() for column in one.ready([1], 5)] == [[], [1], [LATEST + 5]]


@BOTH
def test_the_last_instant(module):
    """There must be room for the time to hold off, and for what it takes to send 100 bytes."""
    one, last = make(module, hold_off=NS, rate=100.0), NEVER - 1 - 2 * NS
    for wrong in (-1, last + 1):
        for call, more in ((one.ready, ()), (one.report, (full(0), [1.0]))):
            with pytest.raises(ValueError, match=rf"^now must be in 0\.\.{last} ns, got {wrong}$"):
                call([1], wrong, *more)
    assert [column.tolist() for column in one.ready([1], last)] == [[1], [], []]
    assert one.report([1], last, full(0), [1.0])["since"].tolist() == [last]


@BOTH
def test_of_whom_nothing_is_known(module):
    one = make(module)
    tell(one, [1, 2], 9)
    assert one.held([1, 2]).tolist() == [0, 1] or module is tree
    one.leave([1])
    one.reset([0])
    assert one.held([1, 2]).tolist() == [-1, -1]
    assert one.held([]).dtype == np.int64


@BOTH
def test_summaries_add_up_and_saturate(module):
    one = make(module, leaves=3)
    tell(one, [2, 3, 4], TOP - 1)
    one.receive(one.report([1], 0, full(0, 0), []))
    assert one.known(1).max() == TOP
    # the shares of the largest request are exact
    sent, _ = one.route(requests((0, 0, 2 * TOP - 1)))
    assert sent["tasks"].tolist() == [TOP, TOP - 1]


@BOTH
def test_summaries_of_different_cells_are_not_added(module):
    cells = full(9, 1)
    for release in (None, [0.0, 0.0]):
        one = make(module, leaves=3, release=release)
        one.receive(one.report([3], 0, cells, [1.0], cell=0.0))
        one.receive(one.report([4], 0, cells, [1.0], cell=5.0))
        told = one.report([1], 0, full(0, 0), [])
        assert len(told) == (1 if release is None else 0)
        one.receive(one.report([3], 0, full(8), [1.0], cell=5.0))
        assert len(one.report([1], 0, full(0, 0), [])) == 1


@BOTH
def test_a_tree_of_one_leaf(module):
    one = make(module, leaves=1)
    assert (one.nodes, one.first_leaf) == (1, 0)
    assert [x.tolist() for x in one.ready([0], 5)] == [[], [], []]
    assert len(one.report([0], 5, full(0, 0), [])) == 0
    assert len(one.spread([0])) == 0
    assert one.owed(0) == 0 and not one.known(0).any()
    with pytest.raises(ValueError, match="must be a router"):
        one.route(requests((0, 0, 1)))


@BOTH
def test_extreme_task_sizes_leave_nothing(module):
    grid = SummaryGrid([1.0], [1e300], [1e-300, 1e300])
    one = module.SummaryTree(grid, [1.0, 1.0], size=[1e300], task_size=[1e299], nbytes=0)
    cells = np.full((2, 1, 1, 2), 2**31, np.uint32)
    one.receive(one.report([1, 2], 0, cells, [1.0, 1.0]))
    one.route(requests((0, 0, 2)))
    if module is twin:
        with pytest.raises(OverflowError):
            one.known(1)
    else:
        assert one.known(1)[0, 0].tolist() == [2**31 - 1, 2**31 - 1]


OPTIONS = {"size": [4.0], "task_size": [1.0], "nbytes": 100}


def spoilt(rows, name, value):
    rows[name] = value
    return rows


REFUSED = [
    (lambda m, x: m.SummaryTree(GRID, [], **OPTIONS), ValueError, "speed must have at least one entry"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0, 0.0], **OPTIONS),
        ValueError,
        r"speed\[1\] must be finite and > 0",
    ),
    (lambda m, x: m.SummaryTree(GRID, ["1"], **OPTIONS), TypeError, "^speed must hold real numbers"),
    *(
        (
            lambda m, x, name=name: m.SummaryTree(GRID, [1.0], **{**OPTIONS, name: ["1", "1"]}),
            TypeError,
            f"^{name} must hold real numbers",
        )
        for name in ("size", "task_size", "release")
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "task_size": [1.0, 0.0]}),
        ValueError,
        r"^task_size\[1\] must be finite and > 0, got 0.0",
    ),
    (lambda m, x: x.report([1], 0, full(0), ["1"]), TypeError, "^minimum must hold real numbers"),
    (lambda m, x: m.SummaryTree("grid", [1.0], **OPTIONS), TypeError, "grid must be a SummaryGrid, got str"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=math.nan),
        ValueError,
        "rate, bound, hold_off and nbytes must be >= 0, got nan, 2.0, 0, 100",
    ),
    (lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, bound=-1), ValueError, "must be >= 0, got 0.0, -1.0"),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=1e-300),
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 1e-300",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, hold_off=LATEST + 1),
        ValueError,
        rf"^hold_off must be at most {LATEST} ns, got {LATEST + 1}$",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, rate=100 / (2**62 / 1e9)),  # 2**62 ns
        ValueError,
        r"rate must allow a summary of 100 bytes within 2\*\*62 ns, got 2.168404344971009e-08",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [math.nan]}),
        ValueError,
        r"size\[0\] must",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **{**OPTIONS, "size": [1.0, 2.0]}),
        ValueError,
        "task_size must have as many entries as size, got 1 and 2",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, release=[]),
        ValueError,
        "release must have as many entries as size, got 0 and 1",
    ),
    (
        lambda m, x: m.SummaryTree(GRID, [1.0], **OPTIONS, release=[math.inf]),
        ValueError,
        r"release\[0\] must",
    ),
    (lambda m, x: x.route(requests((1, 0, 1))), ValueError, r"rows\[0\].node must be a router 0\.\.0, got 1"),
    (
        lambda m, x: x.route(requests((-1, 0, 1))),
        ValueError,
        r"rows\[0\].node must be a router 0\.\.0, got -1",
    ),
    (
        lambda m, x: x.route(requests((0, 2, 1))),
        ValueError,
        r"rows\[0\].application must be in 0\.\.1, got 2",
    ),
    (lambda m, x: x.route(requests((0, 0, 1), (0, 0, 0))), ValueError, r"rows\[1\].tasks must be in 1\.\."),
    (
        lambda m, x: x.route(requests((0, 0, 2**52))),
        ValueError,
        r"rows\[0\].tasks must be .* got 45035996273",
    ),
    (lambda m, x: x.acknowledge(requests((3, 0, 1))), ValueError, r"rows\[0\].node must be in 0\.\.2, got 3"),
    (
        lambda m, x: x.receive(np.array([(1, 2, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 2 to 1, which is not its father",
    ),
    (
        lambda m, x: x.receive(np.array([(0, 0, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 0 to 0, which is not its father",
    ),
    (
        lambda m, x: x.receive(np.array([(0, 1, 10**6, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\].payload is not in use, got 1000000",
    ),
    (
        lambda m, x: x.receive(np.array([(-1, 0, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 0 to -1, which is not its father",
    ),
    (
        lambda m, x: x.receive(np.array([(1, 3, 0, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"rows\[0\] goes from node 3 to 1, which is not its father",
    ),
    (
        lambda m, x: x.forget(np.array([(0, 1, 9, 0, 0, 1.0, 0)], tree.SUMMARY)),
        ValueError,
        r"^rows\[0\].payload is not in use, got 9$",
    ),
    (lambda m, x: x.leave([2, 3]), ValueError, r"^leaves\[1\] must be in 1\.\.2, got 3$"),
    (lambda m, x: x.join([0]), ValueError, r"^leaves\[0\] must be in 1\.\.2, got 0$"),
    (lambda m, x: x.silence([0.5]), TypeError, "^leaves must hold integers, got dtype float64$"),
    (lambda m, x: x.reset([0.5]), TypeError, "^nodes must hold integers, got dtype float64$"),
    (lambda m, x: x.ready([3], 0), ValueError, r"nodes\[0\] must be in 0\.\.2, got 3"),
    (lambda m, x: x.report([-1], 0, full(0, 0), []), ValueError, r"nodes\[0\] must be in 0\.\.2, got -1"),
    (
        lambda m, x: x.report([1, 2], 0, full(0, 1), [1.0]),
        ValueError,
        "summaries and minimum must have one entry for each of the 2 leaves among nodes, got 1 and 1",
    ),
    *(
        (
            lambda m, x, given=given: x.report([1], 0, given, [1.0]),
            ValueError,
            r"^summaries must be uint32\[k, 3, 3, 3\]$",
        )
        for given in ([0], full(0).astype(np.int64), full(0)[0], full(0)[:, :2])
    ),
    (lambda m, x: x.report([1], 0, full(0), []), ValueError, "each of the 1 leaves among nodes, got 1 and 0"),
    (
        lambda m, x: x.report([1], 0, full(0), [math.nan]),
        ValueError,
        r"minimum\[0\] must be a number or \+inf",
    ),
    (lambda m, x: x.spread([3]), ValueError, r"nodes\[0\] must be in 0\.\.2, got 3"),
    (
        lambda m, x: x.take_spread(np.array([(1, 0, 1.0)], tree.SPREAD)),
        ValueError,
        r"rows\[0\].node must be a router 0\.\.0, got 1",
    ),
    (lambda m, x: x.known(3), ValueError, r"node must be in 0\.\.2, got 3"),
    (lambda m, x: x.owed(-1), ValueError, r"node must be in 0\.\.2, got -1"),
    (lambda m, x: x.held([0, 3]), ValueError, r"nodes\[1\] must be in 0\.\.2, got 3"),
    (lambda m, x: x.look(1, 0), ValueError, r"node must be a router 0\.\.0, got 1"),
    (lambda m, x: x.look(0, 2), ValueError, r"^application must be in 0\.\.1, got 2$"),
]


@BOTH
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_input_is_refused(module, call, error, message):
    one = make(module)
    with pytest.raises(error, match=message):
        call(module, one)
    assert one.payloads_in_use == one.below_window == one.above_window == 0
    assert one.owed(1) == one.owed(2) == 0


@pytest.mark.parametrize("call", [row[0] for row in REFUSED])
def test_refusals_use_the_same_words(call):
    words = []
    for module in (tree, twin):
        with pytest.raises((ValueError, TypeError)) as refused:
            call(module, make(module))
        words.append(str(refused.value))
    assert words[0] == words[1]


@BOTH
def test_rows_must_be_what_they_seem(module):
    one = make(module)
    with pytest.raises(ValueError, match="^Buffer dtype" if module is tree else "^rows must be a contiguous"):
        one.route(np.array([(0, 0, 1.0)], tree.SPREAD))
    with pytest.raises(ValueError, match="contiguous"):
        one.route(requests(*[(0, 0, 1)] * 4)[::2])
    with pytest.raises(
        TypeError, match="bytes-like" if module is tree else "^rows must be .* array, got list$"
    ):
        one.route([(0, 0, 0, 1, -1, 1.0, 0)])
    rows = requests((0, 0, 1))
    rows.flags.writeable = False
    assert len(one.route(rows)[1]) == 1
    sent, decisions = one.route(requests())
    assert (sent.dtype, decisions.dtype) == (tree.REQUEST, tree.DECISION)
    assert len(sent) == len(decisions) == 0


def test_a_state_that_is_refused_late_leaves_no_summary_in_use():
    """One that is in use and free at once would be free twice."""
    one = make(tree)
    tell(one, [1, 2], 50)
    state = {name: value for name, value in one.getstate().items() if name[:6] != "cells_"}
    cells = [each.copy() for each in one.getstate()["cells_0"]]
    assert one.payloads_in_use and cells
    other = make(tree)
    with pytest.raises(ValueError, match="cells_1"):
        other.setstate({**state, "cells_0": cells, "cells_1": [7]})
    assert other.payloads_in_use == 0


def test_row_types_are_the_same():
    for name in ("REQUEST", "SUMMARY", "SPREAD", "DECISION", "NEVER"):
        assert getattr(tree, name) == getattr(twin, name)
