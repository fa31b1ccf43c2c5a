"""Messages on the engine: their times of arrival, their order of sending, and their accounting."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridsim.engine.engine import TIMER, Engine
from gridsim.engine.transport import Transport, message
from gridsim.errors import ScenarioError
from gridsim.model.network import Network
from gridsim.support.clock import NEVER

QUICK = settings(max_examples=30, deadline=None)
ROW = message(("value", "i8"))
BOTH = pytest.mark.parametrize("interfaces", ["fifo", "equal"])
MS = 1_000_000


def rows(*triples: tuple[int, int, int]) -> Any:
    """Return rows of (receiving node, sending node, value)."""
    return np.array(list(triples), ROW)


class Setup:
    """An engine and its transport; arrivals are traced, and the timer ``go`` calls `script[item]`."""

    def __init__(
        self,
        machines: int = 3,
        *,
        interfaces: str = "fifo",
        latency: float = 0.010,
        bandwidth: float = 1000.0,
        machine_of: list[int] | None = None,
        deferred: tuple[str, ...] = (),
        cohort_limit: int | None = None,
    ) -> None:
        self.engine = Engine(cohort_limit=cohort_limit)
        network = Network(latency=latency, bandwidth=bandwidth, interfaces=interfaces)  # type: ignore[arg-type]
        self.net = Transport(self.engine, network, machines)
        self.trace: list[tuple[int, str, int, int, int]] = []
        self.script: dict[int, Any] = {}
        # the order of declarations differs from that of priorities
        for name, nbytes, priority in (("slow", 5, 2), ("fast", 1, 1)):
            self.net.kind(name, ROW, nbytes, self.catch(name), priority=priority, deferred=name in deferred)
        self.engine.on("go", lambda items: [self.script[i]() for i in items], priority=0, phase=TIMER)
        self.net.open(None if machine_of is None else np.array(machine_of))

    def catch(self, name: str) -> Any:
        def handler(cohort: Any) -> None:
            for node, sender, value in cohort.tolist():
                self.trace.append((self.engine.now, name, node, sender, value))

        return handler

    def at(self, time: int, *sends: tuple[str, Any]) -> None:
        item = len(self.script)
        self.script[item] = lambda: [self.net.send(name, payload) for name, payload in sends]
        self.engine.at(time, "go", item)

    def accounting(self) -> dict[str, dict[str, int]]:
        columns = self.net.accounting()
        kinds = columns.pop("kind").tolist()
        return {
            kind: {name: int(column[k]) for name, column in columns.items()} for k, kind in enumerate(kinds)
        }


# -- when messages arrive ---------------------------------------------------------------------------------


@BOTH
def test_messages_on_one_machine_are_free(interfaces: str) -> None:
    """Messages between nodes 0 and 3, both on machine 0, take no time and no bytes, and delay no others."""
    setup = Setup(interfaces=interfaces, machine_of=[0, 1, 2, 0])
    setup.at(0, ("slow", rows((3, 0, 1), (1, 0, 2), (0, 3, 3), (0, 0, 4))))
    setup.engine.run()
    assert setup.trace == [
        (0, "slow", 0, 0, 4),
        (0, "slow", 0, 3, 3),
        (0, "slow", 3, 0, 1),
        (15 * MS, "slow", 1, 0, 2),
    ]
    counts = {"sent": 1, "delivered": 1, "dropped": 0, "in_flight": 0, "bytes": 5}
    assert setup.accounting()["slow"] == counts
    interface = setup.net.interfaces()
    assert interface["bytes_out"].tolist() == [5, 0, 0]
    assert interface["bytes_in"].tolist() == [0, 5, 0]


# -- order of sending ------------------------------------------------------------------------


def test_rows_of_a_sender_leave_in_the_order_of_sending() -> None:
    setup = Setup(latency=0.0, bandwidth=inf)
    text = [(2, k % 2, k) for k in range(1000, 0, -1)]
    setup.at(0, ("slow", rows(*text)))
    setup.engine.run()
    assert [entry[2:] for entry in setup.trace] == [item for u in (0, 1) for item in text if item[1] == u]


def test_messages_of_a_wave_leave_by_kind_and_sender() -> None:
    setup = Setup(machines=4, latency=0.0)
    # three timers of one instant send them in the reverse order
    setup.at(0, ("slow", rows((3, 1, 1))))
    setup.at(0, ("slow", rows((3, 0, 2), (3, 0, 3))), ("fast", rows((3, 1, 4), (3, 0, 5))))
    setup.at(0, ("fast", rows((3, 0, 6))))
    setup.engine.run()
    # Machine 0 sends messages 5, 6, 2 and 3, and machine 1 sends 4 and 1; their heads arrive at 0, 1, 2, 7
    # and at 0, 1 ms, and queue at machine 3.  Simultaneous heads are received in the order of sending: "fast"
    # from machine 0 (5, 6) and machine 1 (4), then "slow" from machine 0 (2, 3) and machine 1 (1).
    assert [(entry[0] // MS, entry[4]) for entry in setup.trace] == [
        (1, 5), (2, 4), (3, 6), (8, 1), (13, 2), (18, 3),
    ]  # fmt: skip


def relay(setup: Setup, machines: int) -> None:
    """Make the receiver of each row send further rows, until the value of a row is 0."""

    def handler(name: str) -> Any:
        trace = setup.catch(name)

        def act(cohort: Any) -> None:
            trace(cohort)
            for node, sender, value in cohort.tolist():
                for turn in range(value % 3 if value > 0 else 0):
                    target = (node * 7 + sender * 3 + value + turn) % (2 * machines)
                    other = "slow" if (value + turn + node) % 2 else "fast"
                    setup.net.send(other, rows((target, node, value - 1 - turn)))

        return act

    for kind in setup.net._kinds:
        kind.handler = handler(kind.name)


@QUICK
@given(
    st.sampled_from(("fifo", "equal")),
    st.sampled_from((0.0, 0.010)),
    st.sampled_from((1000.0, inf)),
    st.lists(
        st.tuples(
            st.sampled_from((0, 1, 5 * MS, 10 * MS)),
            st.sampled_from(("slow", "fast")),
            st.integers(0, 7),
            st.integers(0, 7),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_the_division_into_cohorts_does_not_change_the_deliveries(
    interfaces: str, latency: float, bandwidth: float, start: Any
) -> None:
    """Each machine has two nodes; messages of both kinds trigger each other, at one instant and later."""
    seen = []
    for limit in (None, 1, 2):
        setup = Setup(
            4,
            interfaces=interfaces,
            latency=latency,
            bandwidth=bandwidth,
            machine_of=[0, 1, 2, 3, 0, 1, 2, 3],
            cohort_limit=limit,
        )
        relay(setup, 4)
        for time, kind, node, sender, value in start:
            setup.at(time, (kind, rows((node, sender, value))))
        setup.engine.run()
        interface = {name: column.tolist() for name, column in setup.net.interfaces().items()}
        seen.append((setup.trace, setup.accounting(), interface))
    assert seen[0] == seen[1] == seen[2]
    ledger, interface = seen[0][1], seen[0][2]
    sizes = {"slow": 5, "fast": 1}
    for kind, row in ledger.items():
        assert row["sent"] == row["delivered"] and row["dropped"] == row["in_flight"] == 0
        assert row["bytes"] == row["sent"] * sizes[kind]
    total = sum(row["bytes"] for row in ledger.values())
    assert sum(interface["bytes_out"]) == sum(interface["bytes_in"]) == total
    remote = [entry for entry in seen[0][0] if entry[2] % 4 != entry[3] % 4]
    assert len(remote) == sum(row["sent"] for row in ledger.values())


# -- accounting -------------------------------------------------------------------------------------------


def test_changing_the_returned_accounting_has_no_effect() -> None:
    setup = Setup()
    setup.net.accounting()["sent"][:] = 9
    setup.net.interfaces()["bytes_in"][:] = 9
    assert setup.net.accounting()["sent"].tolist() == [0, 0]
    assert setup.net.interfaces()["bytes_in"].tolist() == [0, 0, 0]


# -- deferred kinds ---------------------------------------------------------------------------------------


def test_the_accounting_drains_deferred_messages() -> None:
    setup = Setup(deferred=("slow",))
    setup.at(0, ("slow", rows((1, 0, 1))))
    setup.engine.run(until=15 * MS)
    assert setup.trace == []
    assert setup.accounting()["slow"]["delivered"] == 1
    assert [entry[4] for entry in setup.trace] == [1]


def test_deferred_messages_cause_no_events() -> None:
    """The engine ends while they are in transit, or have arrived but were not drained."""
    setup = Setup(deferred=("slow",))
    setup.at(0, ("slow", rows((1, 0, 1))))
    setup.engine.run()
    assert (setup.engine.now, setup.trace) == (0, [])


# -- declarations -------------------------------------------------------------------------------------


def test_a_transport_that_is_not_opened_counts_no_messages() -> None:
    """A scheduler that sends nothing need not open the network."""
    net = Transport(Engine(), Network(), 2)
    assert len(net.accounting()["kind"]) == 0
    assert net.interfaces()["bytes_in"].tolist() == [0, 0]


def test_unknown_kinds_are_errors() -> None:
    setup = Setup()
    with pytest.raises(KeyError, match="odd"):
        setup.net.send("odd", rows((0, 1, 2)))
    setup.net.send("odd", rows())  # no rows, no message


def test_messages_that_take_too_long_are_rejected() -> None:
    with pytest.raises(ScenarioError, match=r"network.bandwidth .* 1100 s, got 0.002: a slow of 5 bytes"):
        Setup(bandwidth=0.002)
    assert Setup(bandwidth=0.02).engine.now == 0


def test_message_kinds_are_numbered_by_priority() -> None:
    setup = Setup()
    assert (setup.net.number("fast"), setup.net.number("slow")) == ((0, 1), (1, 5))


# -- sources ----------------------------------------------------------------------------------------------


class Clockwork:
    """A source with its own instants, at each of which it posts its name to node 0."""

    def __init__(self, engine: Engine, name: int, times: list[int], asked: list[tuple[int, int]]) -> None:
        self.name, self.times, self.asked = name, times, asked
        engine.add_source(self)

    def advance(self, limit: int) -> int:
        self.asked.append((self.name, limit))
        return self.times[0] if self.times and self.times[0] <= limit else NEVER

    def collect(self, engine: Engine, time: int) -> None:
        assert self.times.pop(0) == time
        engine.post(time, "tick", rows((0, 0, self.name)))


def test_a_source_advances_up_to_the_next_event_of_the_source_before_it() -> None:
    engine = Engine()
    ticks: list[tuple[int, list[int]]] = []
    engine.on("tick", lambda cohort: ticks.append((engine.now, cohort["value"].tolist())), priority=0)
    asked: list[tuple[int, int]] = []
    Clockwork(engine, 1, [10, 30], asked)
    Clockwork(engine, 2, [10, 20], asked)
    engine.run(until=100)
    # both sources post their events at 10 before one is handled, the first source first
    assert ticks == [(10, [1, 2]), (20, [2]), (30, [1])]
    assert asked[:6] == [
        (1, 100), (2, 10),  # the first source is due at 10, so the second may run until then
        (1, 10), (2, 10),  # the second source is due at 10, too
        (1, 10), (2, 10),  # no source is due: the instant is complete
    ]  # fmt: skip
    assert asked[6:8] == [(1, 100), (2, 30)]
    assert all(limit >= 10 for _, limit in asked)


def test_a_source_runs_alongside_the_network() -> None:
    """A source that is added before `open` runs first; the links do not run beyond its next event."""
    engine = Engine()
    asked: list[tuple[int, int]] = []
    heard: list[tuple[int, int]] = []
    engine.on("tick", lambda cohort: net.send("word", rows((1, 0, int(cohort["value"][0])))), priority=9)
    net = Transport(engine, Network(latency=0.010, bandwidth=1000.0), 2)
    net.kind("word", ROW, 5, lambda cohort: heard.append((engine.now, int(cohort["value"][0]))), priority=0)
    Clockwork(engine, 4, [0, 2 * MS, 15 * MS], asked)
    net.open()
    engine.run()
    # at 15 ms the source and the first delivery coincide; each message occupies the interface for 5 ms
    assert heard == [(15 * MS, 4), (20 * MS, 4), (30 * MS, 4)]
    assert [limit for name, limit in asked if name == 4 and limit == NEVER]


# -- use of interfaces -------------------------------------------------------------------------------------


def recording_transport(*sent: float, last: float) -> Transport:
    """Return a transport in which 1 sends words of 0.5 s to 0 at these times (s), recorded from 1 s on."""
    engine = Engine()
    net = Transport(engine, Network(latency=0.0, bandwidth=1000.0, record_use=True), 2)
    net.kind("word", ROW, 500, lambda cohort: None, priority=0)
    engine.on("go", lambda items: net.send("word", rows((1, 0, 0))), priority=0, phase=TIMER)
    net.open(level_of=np.array([3, 0]))
    for at in sent:
        engine.at(int(at * 1e9), "go")
    net.watch(10**9, int(last * 1e9))
    engine.run()
    return net


def test_the_use_of_interfaces_is_recorded() -> None:
    net = recording_transport(1.0, 1.9, 15.0, 40.0, last=21.0)
    use = {name: column.tolist() for name, column in net.use().items()}
    # each word takes 0.5 s; the use at 40 s is not recorded
    assert use == {
        "use_mean": [0.075, 0.075], "use_peak_1s": [1.0, 1.0], "use_peak_10s": [0.1, 0.1],
    }  # fmt: skip
    levels = net.by_level()
    assert [levels[name].tolist() for name in ("kind", "level", "messages", "bytes")] == [
        ["word"], [3], [4], [2000],
    ]  # fmt: skip


def test_the_peak_use_of_ten_seconds_is_recorded() -> None:
    """Two words of 500 bytes are 8 s apart; in 10 s the interface could send 10000 bytes."""
    assert recording_transport(1.0, 9.0, last=21.0).use()["use_peak_10s"].tolist() == [0.1, 0.1]


def test_the_mean_use_is_over_the_recorded_time() -> None:
    """1500 bytes are sent in 20.5 s, at 1000 bytes/s; there are 21 windows."""
    assert recording_transport(1.0, 1.9, 15.0, last=21.5).use()["use_mean"] == pytest.approx([1.5 / 20.5] * 2)


def test_too_many_windows_of_network_use_are_rejected() -> None:
    net = Transport(Engine(), Network(record_use=True), 1000)
    with pytest.raises(ScenarioError, match=r"network.record_use .* got 1000 machines for 1000000 s"):
        net.watch(0, 10**15)
    assert Transport(Engine(), Network(), 2).use() == {}
