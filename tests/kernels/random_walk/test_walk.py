"""Walks of jobs: invariants of the kernel, small examples, and continued states.

`tests/schedulers/rjss/test_node.py` compares it with its reference, the node program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridcore.common.state import NEVER
from gridcore.network.links import Links
from gridcore.random_walk.state import VERDICTS
from gridcore.random_walk.walk import JobWalks

S = 10**9
BOOKS = ("sent", "delivered", "traffic", "bytes_in", "bytes_out", "by_level")
Case = dict[str, Any]


def make(case: Case) -> tuple[Links, JobWalks]:
    """Return the links and walks of a case."""
    nodes = len(case["speed"])
    links = Links(np.arange(nodes), nodes, widths=[24] * 4, deferred=[False] * 4, **case["network"])
    if case.get("log", 0) > 0:
        links.log(2 * case["log"], [16] * 4)
    arguments = {name: value for name, value in case.items() if name not in ("network", "speed")}
    return links, JobWalks(links, case["speed"], kinds=[0, 1, 2, 3], **arguments)


def two_node_case(**changes: Any) -> Case:
    """Return two nodes, the second twice as fast; 1 s from one to the other, and 1 ms more per byte."""
    case: Case = {
        "network": {"latency": S, "bandwidth": 1000.0, "fifo": False},
        "speed": [100.0, 200.0],
        "release": [0],
        "node": [0],
        "work": [1000.0],
        "data": [0],
        "rate": [0.0, 0.0],
        "probes": 1,
    }
    return {**case, **changes}


def run(case: Case) -> tuple[Any, dict[str, list[Any]]]:
    links, walks = make(case)
    assert walks.advance(NEVER) == NEVER
    walks.settle()
    return links, {name: column.tolist() for name, column in walks.jobs().items()}


# -- any cases ------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes, jobs = draw(st.integers(1, 8)), draw(st.integers(0, 20))

    def column(count: int, *usual: Any, among: st.SearchStrategy[Any] | None = None) -> list[Any]:
        values = st.sampled_from(usual) if among is None else st.sampled_from(usual) | among
        return draw(st.lists(values, min_size=count, max_size=count))

    latency = draw(st.sampled_from((0, S // 10, 3 * S // 10, 2 * S)))
    degree = min(draw(st.integers(0, 2)), nodes - 1)
    more = draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes))
    more = more if 0 < degree < nodes - 1 else [0] * nodes
    table = [[(u + 1 + k) % nodes for k in range(degree + more[u])] for u in range(nodes)]
    overlay: dict[str, Any] = {
        "neighbours": np.array([v for row in table for v in row], np.int64),
        "neighbour_offsets": np.cumsum([0, *map(len, table)]),
    }
    return {
        "network": {
            "latency": latency,
            "jitter": draw(st.sampled_from((0, latency // 2))),
            "seed": draw(st.integers(0, 3)),
            "bandwidth": draw(st.sampled_from((np.inf, 1000.0, 125_000.0))),
            "fifo": draw(st.booleans()),
        },
        "speed": column(nodes, 100.0, 150.0, 200.0),
        "release": sorted(column(jobs, 0, S, 2 * S, S // 2, among=st.integers(0, 4 * S))),
        "node": draw(st.lists(st.integers(0, nodes - 1), min_size=jobs, max_size=jobs)),
        "work": column(jobs, 100.0, 50.0, 300.0, among=st.floats(1.0, 2000.0)),
        "data": column(jobs, 0, 1000, 100, 5000),
        "rate": column(nodes, np.nan, 0.5, 0.0, 3.0),
        "probes": draw(st.integers(0, 7)),
        "pick": draw(st.sampled_from(("first", "best", "fastest"))),
        "rule": draw(st.sampled_from(("none", "exactly-one", "at-least-one"))),
        "local_threshold": draw(st.sampled_from((0.5, 0.2, 0.3, 1.0))),
        "remote_threshold": draw(st.sampled_from((1.0, 0.1, 0.0, 0.5, np.inf))),
        "min_speed": draw(st.sampled_from((0.0, 0.0, 150.0))),
        "printed": draw(st.booleans()),
        "probe_time": draw(st.sampled_from((0, 0, 1, 3, S // 10 + 1, S // 2))),
        "queued": draw(st.booleans()),
        "packet": draw(st.sampled_from((0, 100))),
        "seed": draw(st.integers(0, 2**40)),
        **draw(st.sampled_from(({}, overlay))),
        "cores": draw(st.none() | st.lists(st.integers(1, 9), min_size=nodes, max_size=nodes)),
        "log": draw(st.sampled_from((10**6, 0, 9))),
    }


def reports(links: Links, walks: JobWalks) -> dict[str, Any]:
    """Return all that links and walks report at the end."""
    walks.settle()
    columns = {name: getattr(walks, name)() for name in ("jobs", "totals", "probe_rows")}
    columns |= {"logged": links.logged(), "books": {name: getattr(links, name) for name in BOOKS}}
    lists = {kind: {name: item.tolist() for name, item in part.items()} for kind, part in columns.items()}
    return {**lists, "unlogged": (walks.unlogged, links.unlogged)}


@given(cases(), st.lists(st.integers(0, 8 * S), max_size=4))
def test_another_kernel_continues_from_a_state(case: Case, stops: list[int]) -> None:
    """The states are those at any instants, after the counters of the links were settled."""
    links, walks = make(case)
    for instant in sorted(stops):
        assert walks.advance(instant) == NEVER
        walks.settle()
        other_links, other = make(case)
        other_links.setstate(links.getstate())
        other.setstate(walks.getstate())
        links, walks = other_links, other
    uninterrupted_links, uninterrupted = make(case)
    for item in (walks, uninterrupted):
        assert item.advance(NEVER) == NEVER
    assert reports(links, walks) == reports(uninterrupted_links, uninterrupted)


@given(cases())
def test_the_log_changes_no_result(case: Case) -> None:
    links, jobs = run({**case, "log": 0})
    logged, other = make({**case, "log": 10**6})
    other.advance(NEVER)
    other.settle()
    assert {name: column.tolist() for name, column in other.jobs().items()} == jobs
    for name in BOOKS:
        np.testing.assert_array_equal(getattr(links, name), getattr(logged, name), name)
    messages = logged.logged()
    assert np.bincount(messages["kind"], minlength=4).tolist() == logged.sent.tolist()
    assert np.bincount(messages["kind"], messages["nbytes"], 4).tolist() == logged.traffic.tolist()
    probes = other.probe_rows()
    ends = probes["verdict"] >= VERDICTS.index("moves")
    # a row for each answer, and one for each job with its destination
    assert (~ends).sum() == links.sent[1] and sorted(probes["job"][ends]) == list(range(len(jobs["machine"])))
    jobs_after = np.where(
        probes["node"][ends] < 0, np.array(case["node"], np.int64)[probes["job"][ends]], probes["node"][ends]
    )
    assert jobs_after.tolist() == [jobs["machine"][job] for job in probes["job"][ends]]
    assert (probes["heard"] - probes["asked"])[~ends].tolist() == [
        case["probe_time"] - case["probe_time"] // 2
    ] * int((~ends).sum())


# -- small examples -------------------------------------------------------------------------------------


def test_a_dispatcher_busy_beyond_the_last_instant_raises_an_error() -> None:
    """All jobs move to the faster node, and three are decided before the first one arrives there."""
    case = two_node_case(
        release=[0] * 9, node=[0] * 9, work=[1.0] * 9, data=[0] * 9, pick="fastest", rule="none",
        probe_time=2**60 - 1,
    )  # fmt: skip
    case["network"]["latency"] = 2**61
    _, walks = make(case)
    with pytest.raises(OverflowError, match=f"^node 0 must decide on its jobs by {2**61} ns, got"):
        walks.advance(NEVER)


def test_each_other_node_is_probed_once_and_equally_often() -> None:
    nodes, jobs = 12, 3000
    case = two_node_case(
        speed=[100.0] * nodes, release=[0] * jobs, node=[5] * jobs, work=[1.0] * jobs, data=[0] * jobs,
        rate=[0.0] * nodes, probes=4, min_speed=1000.0,
    )  # fmt: skip
    links, result = run(case)
    assert result["probes"] == [4] * jobs
    # the number of probes of a node is binomial with a standard deviation of 25
    asked = np.delete(links.bytes_out, 5) / 100
    assert links.sent[:2].tolist() == [4 * jobs] * 2 and abs(asked - 4 * jobs / 11).max() < 130
    links, result = run({**case, "probes": 100})
    assert result["probes"] == [11] * jobs and (np.delete(links.bytes_out, 5) == 100 * jobs).all()


def test_probes_of_an_instant_precede_its_releases() -> None:
    """A probe of 3 ns arrives after 1 ns, before the node's first job, because of which it would decline."""
    case = two_node_case(
        release=[0, 1], node=[0, 1], work=[1000.0, 1.0], data=[0, 0], rate=[np.nan] * 2,
        rule="at-least-one", probe_time=3,
    )  # fmt: skip
    _, walks = make(case)
    walks.advance(NEVER)
    assert walks.jobs()["machine"][0] == 1
    _, walks = make({**case, "release": [0, 0]})
    walks.advance(NEVER)
    assert walks.jobs()["machine"][0] == 0


def test_an_observed_rate_at_time_zero_is_infinite() -> None:
    """At 0 s the rate of node 1, which has received a job, is infinite if the job takes any time."""

    def jobs_after(latency: int = S, **changes: Any) -> int:
        case = two_node_case(
            release=[0, 0], node=[1, 0], work=[1.0, 1000.0], data=[0, 0], rate=[np.nan] * 2, **changes
        )
        case["network"]["latency"] = latency
        _, walks = make(case)
        walks.advance(NEVER)
        return int(walks.jobs()["machine"][1])

    assert jobs_after() == 1  # exactly one arrival is impossible at an infinite rate
    assert jobs_after(rule="at-least-one") == 0
    assert jobs_after(0, rule="at-least-one") == 1
    # the condition is strict: 0 is not below 0
    assert jobs_after(0, rule="at-least-one", local_threshold=0.0) == 0


def test_a_difference_of_one_nanosecond_decides() -> None:
    def jobs_after(**changes: Any) -> dict[str, Any]:
        _, walks = make(two_node_case(node=[0, 0], release=[0, 0], data=[0, 0], **changes))
        walks.advance(NEVER)
        return {name: column.tolist() for name, column in walks.jobs().items()}

    # the job takes 1 s to move, and the queue at home takes 1 s and 1 ns
    assert jobs_after(printed=True, work=[100.0000001, 1000.0])["machine"] == [0, 1]
    assert jobs_after(printed=True, work=[100.0, 1000.0])["machine"] == [0, 0]
    # 1000 s to send the data, and 1 s more: 999 s before node 1 is free
    case = two_node_case(release=[0, 0], node=[1, 0], work=[400_000.0, 1e6], data=[0, 10**6], rule="none")
    _, walks = make(case)
    walks.advance(NEVER)
    assert walks.jobs()["predicted"].tolist() == [-1, 999 * S]


# -- what is logged -------------------------------------------------------------------------------------


def test_a_full_log_counts_the_dropped_rows() -> None:
    _, walks = make(two_node_case(log=1))
    walks.advance(NEVER)
    assert walks.probe_rows()["verdict"].tolist() == [VERDICTS.index("fits")] and walks.unlogged == 1


# -- bad input ------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"speed": [1.0, 0.0]}, "speed[1] must be finite and > 0, got 0.0"),
    ({"work": [np.nan]}, "work[0] must be finite and > 0, got nan"),
    ({"work": [np.inf]}, "work[0] must be finite and > 0, got inf"),
    ({"rate": [0.0, -1.0]}, "rate[1] must be finite and >= 0, or nan, got -1.0"),
    ({"rate": [0.0]}, "rate must have 2 entries, got 1"),
    ({"cores": [1]}, "cores must have 2 entries, got 1"),
    ({"cores": [1, 0]}, "cores[1] must be in 1..65536, got 0"),
    ({"release": [-1]}, "release[0] must be in 0..2305843009213693952, got -1"),
    ({"release": [[0]]}, "release must have one dimension, got 2"),
    ({"release": [5, 4], "node": [0, 0], "work": [1.0, 1.0], "data": [0, 0]},
     "release must not decrease, got 4 after 5"),
    ({"node": [2]}, "node[0] must be in 0..1, got 2"),
    ({"data": [2**31]}, "data[0] must be in 0..2147483647, got 2147483648"),
    ({"data": []}, "data must have 1 entries, got 0"),
    ({"pick": "any"}, "pick must be one of first, best, fastest, got 'any'"),
    ({"rule": "P"}, "rule must be one of none, exactly-one, at-least-one, got 'P'"),
    ({"probes": -1}, "probes must be in 0..2147483647, got -1"),
    ({"local_threshold": np.nan}, "local_threshold must be in 0..inf, got nan"),
    ({"min_speed": -1.0}, "min_speed must be in 0..inf, got -1.0"),
    ({"probe_time": -1}, "probe_time must be in 0..2305843009213693952, got -1"),
    ({"log": -1}, "log must be in 0..2305843009213693952, got -1"),
    ({"packet": 2**31}, "packet must be in 0..2147483647, got 2147483648"),
    ({"neighbours": [1, 0]}, "neighbours and neighbour_offsets must be given together"),
    ({"neighbours": [[1], [0]], "neighbour_offsets": [0, 1, 2]},
     "neighbours must be whole numbers with one dimension, got int64[2, 1]"),
    ({"neighbours": [1, 0], "neighbour_offsets": [0, 2]}, "neighbour_offsets must have 3 entries, got 2"),
    ({"neighbours": [1, 0], "neighbour_offsets": [0, 1, 1]},
     "neighbour_offsets must rise from 0 to 2, got [0, 1, 1]"),
    ({"neighbours": [1, 0], "neighbour_offsets": [0, 3, 2]},
     "neighbour_offsets must rise from 0 to 2, got [0, 3, 2]"),
    ({"neighbours": [1], "neighbour_offsets": [0, 1, 1]}, "node 1 must have a neighbour, as others have"),
    ({"neighbours": [1, 2], "neighbour_offsets": [0, 1, 2]}, "neighbours[1] must be in 0..1, got 2"),
    ({"neighbours": [1, 1], "neighbour_offsets": [0, 1, 2]},
     "neighbours[1] must be another node, got 1, the node itself"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_wrong_input_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as excinfo:
        make(two_node_case(**changes))
    assert str(excinfo.value) == message


def test_unsuitable_kinds_and_links_are_rejected() -> None:
    links, _ = make(two_node_case())
    arguments = {name: value for name, value in two_node_case().items() if name not in ("network", "speed")}
    with pytest.raises(ValueError, match=r"^kinds\[3\]"):
        JobWalks(links, [1.0, 1.0], kinds=[0, 1, 2, 4], **arguments)
    more = {**arguments, "rate": [0.0] * 3}
    with pytest.raises(ValueError, match="^links"):
        JobWalks(links, [1.0] * 3, kinds=[0, 1, 2, 3], **more)


def test_a_job_beyond_the_last_instant_raises_an_error() -> None:
    _, walks = make(two_node_case(work=[1e300], probes=0))
    walks.advance(NEVER)
    assert walks.jobs()["end"].tolist() == [2**61]  # the last instant at which a job may end
    _, walks = make(two_node_case(release=[S], work=[1e300], probes=0))
    with pytest.raises(OverflowError, match="^jobs of node 0 must end by 2305843009213693952 ns, got"):
        walks.advance(NEVER)


def test_a_job_too_long_to_queue_raises_in_each_call_of_advance() -> None:
    """A node can be probed repeatedly; otherwise no node would be left to probe."""
    case = two_node_case(speed=[100.0] * 3, rate=[0.0] * 3, release=[S], work=[1e300], probes=2)
    _, walks = make(case)
    for _ in range(3):
        with pytest.raises(OverflowError, match="^jobs of node 0 must end by 2305843009213693952 ns, got"):
            walks.advance(NEVER)
