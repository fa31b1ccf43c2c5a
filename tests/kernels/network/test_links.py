"""Links: equality with a reference that keeps a list of messages, and the invariants of FIFO interfaces."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gridcore.common.state import NEVER
from gridcore.network import links
from tests._helpers.small_links import SUBJECTS, counters, make, records, words_of
from tests.reference import links as reference

latencies = st.sampled_from([0, 1, 5, 40]) | st.integers(0, 100)
# ns per byte: 0, 1, 3 1/3, 10
bandwidths = st.sampled_from([math.inf, 1e9, 3e8, 1e8])
sizes = st.sampled_from([0, 1, 2, 7, 50])


def assert_equal(actual, expected):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a[0] == b[0]
        assert [x.dtype for x in a[1:]] == [x.dtype for x in b[1:]]
        for x, y in zip(a[1:], b[1:], strict=True):
            np.testing.assert_array_equal(x, y)


class Program(RuleBasedStateMachine):
    """The kernel and its reference side by side, driven like an engine: no instant is skipped."""

    @initialize(
        limit=st.sampled_from([None, 4, 10**6]),
        machine_of=st.lists(st.integers(0, 3), min_size=2, max_size=7),
        latency=latencies,
        bandwidth=bandwidths,
        fifo=st.booleans(),
        jitter=st.sampled_from([0, 0, 1, 20]),
        interfaces=st.just(range(4)) | st.lists(st.integers(0, 3), min_size=4, max_size=4),
    )
    def start(self, limit, machine_of, latency, bandwidth, fifo, jitter, interfaces):
        self.settings = machine_of, 4, latency, bandwidth, fifo, min(jitter, latency), interfaces
        self.interface_of = interfaces
        self.kernels = [make(module, *self.settings) for module in (links, reference)]
        self.limit = limit
        if limit is not None:
            self.call("log", limit, SUBJECTS)
        self.nodes, self.now, self.tag, self.remote = len(machine_of), 0, 0, [0, 0, 0]
        self.machine_of = machine_of
        self.call("watch", 20, 400, 30)

    def call(self, name, *arguments):
        return [getattr(one, name)(*arguments) for one in self.kernels]

    @rule(data=st.data(), kind=st.integers(0, 2), nbytes=sizes)
    def send(self, data, kind, nbytes):
        node = st.integers(0, self.nodes - 1)
        rows = data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=6))
        self.tag += 100
        self.call("send", self.now, kind, records(kind, rows, self.tag), nbytes)
        ends = [[self.interface_of[self.machine_of[node]] for node in row] for row in rows]
        self.remote[kind] += sum(a != b for a, b in ends)

    @rule(step=st.integers(0, 60))
    def run(self, step):
        """Advance to now + step, and collect deliveries on the way."""
        limit = self.now + step
        while True:
            actual, expected = self.call("advance", limit)
            assert actual == expected
            if actual == NEVER:
                break
            assert self.now <= actual <= limit
            self.now = actual
            assert_equal(*self.call("collect", actual))
        self.now = limit

    @rule(step=st.integers(0, 60))
    def advance_to_next_delivery(self, step):
        """Advance to the next delivery, so that later calls come between deliveries."""
        actual, expected = self.call("advance", self.now + step)
        assert actual == expected
        self.now = min(actual, self.now + step)
        if actual < NEVER:
            assert_equal(*self.call("collect", actual))

    @rule(data=st.data(), down=st.booleans())
    def fail(self, data, down):
        self.call("advance", self.now)
        machines = data.draw(st.lists(st.sampled_from(self.machine_of), min_size=1))
        for one in self.kernels:
            one.fail(machines, self.now, down=down)

    @rule(data=st.data())
    def restore(self, data):
        self.call("advance", self.now)
        self.call("restore", data.draw(st.lists(st.sampled_from(self.machine_of), min_size=1)), self.now)

    @rule(node=st.integers(0, 6), machine=st.integers(0, 3))
    def move(self, node, machine):
        if node < self.nodes:
            self.call("move", [node], [machine])
            self.machine_of = [*self.machine_of]
            self.machine_of[node] = machine

    @rule(node=st.integers(0, 6))
    def detach(self, node):
        if node < self.nodes:
            self.call("detach", [node])

    @rule()
    def compare_lost(self):
        actual, expected = self.call("lost")
        assert len(actual) == len(expected)
        for (kind, record), (same, other) in zip(actual, expected, strict=True):
            assert kind == same == 1
            np.testing.assert_array_equal(record, other)

    @rule()
    def go_on(self):
        """Continue with another kernel from the state of this one."""
        self.compare_lost()
        restored = make(links, *self.settings)
        restored.watch(20, 400, 30)
        if self.limit is not None:
            restored.log(self.limit, SUBJECTS)
        restored.setstate(self.kernels[0].getstate())
        self.kernels[0] = restored

    @rule()
    def drain(self):
        assert_equal(*self.call("drain", self.now))

    @precondition(lambda self: hasattr(self, "kernels"))
    @invariant()
    def messages_are_conserved(self):
        actual, expected = self.kernels
        assert counters(actual) == counters(expected)
        np.testing.assert_array_equal(actual.by_level, expected.by_level)
        np.testing.assert_array_equal(actual.windows, expected.windows)
        flight = actual.in_flight()
        np.testing.assert_array_equal(flight, expected.in_flight())
        assert actual.sent.tolist() == self.remote
        assert (flight >= 0).all()
        # the reference implementation still lists the messages in flight
        listed = [m.kind for m in expected._flight if not m.is_local]
        assert flight.tolist() == [listed.count(kind) for kind in range(3)]
        self.check_log()

    def check_log(self):
        """Check that the logs are equal and agree with the counters."""
        actual, expected = self.kernels
        mine, expected_log = actual.logged(), expected.logged()
        assert list(mine) == list(expected_log) == list(links.LOGGED)
        for name, column in expected_log.items():
            np.testing.assert_array_equal(mine[name], column, name, strict=True)
        assert actual.unlogged == expected.unlogged
        if self.limit is None:
            assert not len(mine["kind"]) and actual.unlogged == 0
        elif actual.unlogged:
            assert len(mine["kind"]) == self.limit
        else:
            ends = mine["delivered"]
            for which, ledger in (
                (ends >= -2, actual.sent),
                (ends >= 0, actual.delivered),
                (ends == -2, actual.dropped),
            ):
                assert np.bincount(mine["kind"][which], minlength=3).tolist() == ledger.tolist()
            assert np.bincount(mine["kind"], mine["nbytes"], 3).tolist() == actual.traffic.tolist()

    def teardown(self):
        if hasattr(self, "kernels"):
            self.run(100_000)
            self.drain()
            self.messages_are_conserved()
            assert not self.kernels[0].in_flight().any()


Program.TestCase.settings = settings(stateful_step_count=25, deadline=None)
TestProgram = Program.TestCase
messages = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 4), st.integers(0, 4), st.integers(1, 2), sizes), max_size=25
)


@given(messages, latencies, bandwidths)
def test_deliveries_follow_the_formulas_of_fifo_interfaces(rows, latency, bandwidth):
    one = make(links, range(5), 5, latency, bandwidth)
    now, sent = 0, []
    arrived = []

    def run(limit):
        while (instant := one.advance(limit)) != NEVER:
            arrived.extend((instant, row) for _, batch in one.collect(instant) for row in words_of(batch))

    for k, (gap, node, sender, kind, nbytes) in enumerate(rows):
        run(now + gap)
        now += gap
        one.send(now, kind, records(kind, [(node, sender)], k), nbytes)
        sent.append((now, node, sender, nbytes))
    run(10**6)
    for _, batch, ends in one.drain(10**6):
        arrived += list(zip(ends.tolist(), words_of(batch), strict=True))
    times = {row[2]: instant for instant, row in arrived}
    assert len(times) == len(arrived) == len(rows)
    # the formulas of the model, message by message
    up, down, heads = [0] * 5, [0] * 5, []
    for k, (instant, node, sender, nbytes) in enumerate(sent):
        if node == sender:
            assert times[k] == instant
            continue
        start = max(instant, up[sender])
        up[sender] = start + round(nbytes / bandwidth * 1e9)
        heads.append((start + latency, k))
    for head, k in sorted(heads):
        _, node, _, nbytes = sent[k]
        down[node] = max(head, down[node]) + round(nbytes / bandwidth * 1e9)
        assert times[k] == down[node]
    # messages from one machine to another arrive in the order of sending
    for a in range(5):
        for b in range(5):
            along = [times[k] for k, row in enumerate(sent) if row[1:3] == (a, b)]
            assert along == sorted(along)


#: A message (kind, receiver, sender), or None for the next instant with a delivery.
steps = st.none() | st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))


@given(
    steps=st.lists(steps, max_size=30),
    delays=st.tuples(latencies, latencies),
    fail_at=st.integers(0, 30),
    latency=latencies,
    is_counted=st.booleans(),
)
def test_direct_messages_equal_the_reference(steps, delays, fail_at, latency, is_counted):
    """Kinds 1 and 2 bypass the interfaces; each step takes deliveries kind by kind, or one by one."""
    options = {"latency": latency, "bandwidth": 1e8, "widths": [24] * 3, "deferred": [False] * 3}
    kernels = [
        module.Links([0, 1, 1, 2], 3, keep=[False, False, True], **options) for module in (links, reference)
    ]
    now = count = 0

    def call_both(name, *arguments, **more):
        actual, expected = (getattr(one, name)(*arguments, **more) for one in kernels)
        np.testing.assert_array_equal(actual, expected)
        return actual

    def run(until):
        nonlocal now
        while (instant := call_both("advance", until)) != NEVER:
            now = instant
            while instant <= now:
                direct = [call_both("next_delivery", kind) for kind in (1, 2)]
                instant = min(call_both("next_delivery", 0)[0], *(item[0] for item in direct))
                if min(direct)[0] <= now:
                    call_both("take_first", 1 + direct.index(min(direct)))
                else:
                    call_both("take", 0, now)
            assert_equal(*(one.lost() for one in kernels))
        now = max(now, until)

    for k, step in enumerate(steps):
        if k == fail_at:
            for one in kernels:
                one.fail([1], now, down=True)
        if step is None:
            run(now + 20)
            continue
        kind, *ends = step
        record = np.array([[*ends, k]], np.int64).view(np.uint8)
        if kind:
            more = {"is_counted": is_counted}
            for one in kernels:
                one.send_directly(now, kind, record, 9, delays[kind - 1], count, **more)
            count += 1
        else:
            for one in kernels:
                one.send(now, 0, record, 9)
    run(now + 10_000)
    assert counters(kernels[0]) == counters(kernels[1])
    assert not kernels[0].in_flight().any()


@given(
    seed=st.integers(0, 2**32),
    bursts=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 60), st.integers(0, 300)), max_size=12),
)
def test_long_queues_are_ordered_by_time_then_number(seed, bursts):
    """A burst is (messages, bits of their delays, messages taken after it); some begin with a new kernel."""
    rng = np.random.default_rng(seed)
    options = {"latency": 10, "bandwidth": 1e8, "widths": [24], "deferred": [False]}
    one, queue, now, count = links.Links([0, 1], 2, **options), [], 0, 0
    for messages, bits, taken in [*bursts, (0, 0, 10_000)]:
        for delay in rng.integers(0, 2**bits, messages).tolist():
            record = np.array([[1, 0, count]], np.int64).view(np.uint8)
            one.send_directly(now, 0, record, 9, delay, count)
            heapq.heappush(queue, (now + delay, count))
            count += 1
        if rng.random() < 0.3:
            state = one.getstate()
            one = links.Links([0, 1], 2, **options)
            one.setstate(state)
        for _ in range(min(taken, len(queue))):
            assert one.next_delivery(0) == queue[0]
            now, number = heapq.heappop(queue)
            assert words_of(one.take_first(0)) == [[1, 0, number]]
        assert one.in_flight().tolist() == [len(queue)]
        if now > 2**60:
            break


def test_many_messages_equal_reference():
    """The log becomes full, machines fail, nodes move, and some messages are never drained."""
    rng = np.random.default_rng(12)
    for fifo, jitter in ((True, 0), (True, 40), (False, 0), (False, 20)):
        kernels = [
            make(module, [0, 1, 2, 3, 0, 1], 4, 40, 3e8, fifo, jitter) for module in (links, reference)
        ]
        for one in kernels:
            one.log(100, SUBJECTS, nodes=np.arange(6) != 4)
            one.watch(100, 2000, 70)
        now = 0
        for _ in range(120):
            kind, nbytes = int(rng.integers(0, 3)), max(0, int(rng.integers(-20, 40)))
            batch = records(kind, rng.integers(0, 6, (rng.integers(1, 5), 2)), now)
            machines = rng.permutation(4)[:2]
            draw = rng.random()
            for one in kernels:
                one.send(now, kind, batch, nbytes)
                if draw < 0.1:
                    one.fail(machines, now, down=draw < 0.05)
                elif draw < 0.2:
                    one.restore(machines, now)
                elif draw < 0.25:
                    one.move([int(batch[0, 0])], machines[:1])
            now += int(rng.integers(0, 40))
            while (instant := kernels[0].advance(now)) == kernels[1].advance(now) != NEVER:
                assert_equal(*(one.collect(instant) for one in kernels))
            assert instant == NEVER
            if draw > 0.8:
                assert_equal(*(one.drain(now) for one in kernels))
            assert [(k, x.tolist()) for k, x in kernels[0].lost()] == [
                (k, x.tolist()) for k, x in kernels[1].lost()
            ]
            assert counters(kernels[0]) == counters(kernels[1])
        for name in ("by_level", "windows"):
            np.testing.assert_array_equal(getattr(kernels[0], name), getattr(kernels[1], name))
        assert kernels[0].unlogged == kernels[1].unlogged > 0
        actual, expected = (one.logged() for one in kernels)
        assert {k: v.tolist() for k, v in actual.items()} == {k: v.tolist() for k, v in expected.items()}
        with pytest.raises(
            ValueError, match="^log must be called before the first message, got [0-9]+ messages$"
        ):
            kernels[0].log(5, SUBJECTS)


def test_jitter_spreads_delays_uniformly_around_the_latency():
    one = make(links, [0, 1], 2, latency=1000, bandwidth=math.inf, fifo=False, jitter=300)
    one.send(0, 0, records(0, [(1, 0)] * 2000), 5)
    times = []
    while (instant := one.advance(10_000)) != NEVER:
        times += [instant] * sum(len(batch) for _, batch in one.collect(instant))
    assert len(times) == 2000 and min(times) >= 700 and max(times) <= 1300
    assert min(times) < 705 and max(times) > 1295 and abs(np.mean(times) - 1000) < 20
    with pytest.raises(ValueError, match="^jitter"):
        make(links, [0], 1, latency=1000, jitter=1001)
