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
from gridcore.random_walk.state import LOOKS, VERDICTS
from gridcore.random_walk.walk import JobWalks

S = 10**9
BOOKS = ("sent", "delivered", "traffic", "bytes_in", "bytes_out", "by_level")
Case = dict[str, Any]


def make(case: Case) -> tuple[Links, JobWalks]:
    """Return the links and walks of a case."""
    nodes = len(case["speed"])
    wires = Links(np.arange(nodes), nodes, widths=[24] * 4, deferred=[False] * 4, **case["network"])
    if case.get("log", 0) > 0:
        wires.log(2 * case["log"], [16] * 4)
    arguments = {name: value for name, value in case.items() if name not in ("network", "speed")}
    return wires, JobWalks(wires, case["speed"], kinds=[0, 1, 2, 3], **arguments)


def plain(**changes: Any) -> Case:
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
    wires, walks = make(case)
    assert walks.advance(NEVER) == NEVER
    walks.settle()
    return wires, {name: column.tolist() for name, column in walks.jobs().items()}


# -- any cases ------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes, jobs = draw(st.integers(1, 8)), draw(st.integers(0, 20))

    def column(count: int, *usual: Any, among: st.SearchStrategy[Any] | None = None) -> list[Any]:
        values = st.sampled_from(usual) if among is None else st.sampled_from(usual) | among
        return draw(st.lists(values, min_size=count, max_size=count))

    latency = draw(st.sampled_from((0, S // 10, 3 * S // 10, 2 * S)))
    degree = min(draw(st.integers(0, 2)), nodes - 1)
    table = [[(u + 1 + k) % nodes for k in range(degree)] for u in range(nodes)]
    neighbours = np.array(table, np.int32).reshape(nodes, degree)
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
        "neighbours": draw(st.sampled_from((None, neighbours))),
        "log": draw(st.sampled_from((10**6, 0, 9))),
    }


def reports(wires: Links, walks: JobWalks) -> dict[str, Any]:
    """Return all that links and walks report at the end."""
    walks.settle()
    columns = {name: getattr(walks, name)() for name in ("jobs", "totals", "looks")}
    columns |= {"logged": wires.logged(), "books": {name: getattr(wires, name) for name in BOOKS}}
    lists = {kind: {name: each.tolist() for name, each in part.items()} for kind, part in columns.items()}
    return {**lists, "unlogged": (walks.unlogged, wires.unlogged)}


@given(cases(), st.lists(st.integers(0, 8 * S), max_size=4))
def test_another_kernel_continues_from_a_state(case: Case, stops: list[int]) -> None:
    """The states are those at any instants, after the counters of the links were settled."""
    wires, walks = make(case)
    for at in sorted(stops):
        assert walks.advance(at) == NEVER
        walks.settle()
        other_wires, other = make(case)
        other_wires.setstate(wires.getstate())
        other.setstate(walks.getstate())
        wires, walks = other_wires, other
    uninterrupted_wires, uninterrupted = make(case)
    for each in (walks, uninterrupted):
        assert each.advance(NEVER) == NEVER
    assert reports(wires, walks) == reports(uninterrupted_wires, uninterrupted)


@given(cases())
def test_the_log_changes_no_result(case: Case) -> None:
    wires, jobs = run({**case, "log": 0})
    logged, other = make({**case, "log": 10**6})
    other.advance(NEVER)
    other.settle()
    assert {name: column.tolist() for name, column in other.jobs().items()} == jobs
    for name in BOOKS:
        np.testing.assert_array_equal(getattr(wires, name), getattr(logged, name), name)
    messages = logged.logged()
    assert np.bincount(messages["kind"], minlength=4).tolist() == logged.sent.tolist()
    assert np.bincount(messages["kind"], messages["nbytes"], 4).tolist() == logged.traffic.tolist()
    looks = other.looks()
    ends = looks["verdict"] >= VERDICTS.index("moves")
    # a row for each answer, and one for each job with its destination
    assert (~ends).sum() == wires.sent[1] and sorted(looks["job"][ends]) == list(range(len(jobs["machine"])))
    went = np.where(
        looks["node"][ends] < 0, np.array(case["node"], np.int64)[looks["job"][ends]], looks["node"][ends]
    )
    assert went.tolist() == [jobs["machine"][job] for job in looks["job"][ends]]
    assert (looks["heard"] - looks["asked"])[~ends].tolist() == [
        case["probe_time"] - case["probe_time"] // 2
    ] * int((~ends).sum())


@given(cases())
def test_each_job_runs_once_at_its_node(case: Case) -> None:
    wires, jobs = run(case)
    table = {name: np.array(column, np.int64) for name, column in jobs.items()}
    home, release = np.array(case["node"], np.int64), np.array(case["release"], np.int64)
    lasts = np.rint(np.array(case["work"]) / np.array(case["speed"])[table["machine"]] * 1e9)
    assert (table["end"] - table["start"] == lasts).all()
    assert (table["arrived"] >= release).all() and (table["start"] >= table["arrived"]).all()
    at_home = table["machine"] == home
    assert ((table["predicted"] == -1) == at_home).all()
    # a dispatcher decides on one job after another; a result leaves when the earlier decisions are made
    took, decision = table["probes"] * case["probe_time"], release.copy()
    for u in range(len(case["speed"])):
        until = 0
        for job in np.flatnonzero(home == u):
            until = decision[job] = (max(until, release[job]) if case["queued"] else release[job]) + took[job]
    assert (table["arrived"] == decision)[at_home].all() and (table["arrived"] >= decision).all()
    for job in range(len(home)):
        end = table["end"][job]
        # jobs released at the very end may be before the result or behind it
        here = (home == table["machine"][job]) & case["queued"]
        before, with_it = (
            max(end, decision[here & earlier].max(initial=0)) for earlier in (release < end, release <= end)
        )
        back = table["returned"][job]
        assert back in (before, with_it) if at_home[job] else back >= before
    # no job overtakes another on a node, and no node is idle while a job waits there
    for u in range(len(case["speed"])):
        here = np.flatnonzero(table["machine"] == u)
        here = here[np.argsort(table["start"][here])]
        assert (np.diff(table["arrived"][here]) >= 0).all()
        free = np.append(0, table["end"][here][:-1])
        assert (table["start"][here] == np.maximum(free, table["arrived"][here])).all()
    moved = int((~at_home).sum())
    assert wires.sent.tolist()[2:] == wires.delivered.tolist()[2:] == [moved, moved]
    assert wires.sent[0] == table["probes"].sum() >= wires.sent[1]


# -- small examples -------------------------------------------------------------------------------------


def test_a_job_moves_to_the_node_with_the_earlier_turnaround() -> None:
    # at home 10 s; away 1 s to go, 5 s, 1 s back
    _, jobs = run(plain())
    assert (jobs["machine"], jobs["arrived"], jobs["end"], jobs["returned"]) == ([1], [S], [6 * S], [7 * S])
    assert (jobs["predicted"], jobs["probes"]) == ([0], [1])
    # 1500 bytes take 1.5 s more each way: 10 s, as at home, where the job then stays
    _, jobs = run(plain(data=[1500]))
    assert (jobs["machine"], jobs["returned"], jobs["predicted"]) == ([0], [10 * S], [-1])


def test_the_printed_rule_compares_only_queues_and_one_way_latency() -> None:
    # 1 s to go against an empty queue: the job stays, although it would be back 3 s earlier
    assert run(plain(printed=True))[1]["machine"] == [0]
    # the second job finds a queue of 10 s
    two = plain(printed=True, release=[0, 0], node=[0, 0], work=[1000.0, 1000.0], data=[0, 0])
    assert run(two)[1]["machine"] == [0, 1]


def test_arrivals_in_transit_make_the_prediction_wrong() -> None:
    # both jobs of node 0 find node 1 idle; the second waits there for the first
    case = plain(release=[0, 0], node=[0, 0], work=[1000.0, 1000.0], data=[0, 0], rule="none")
    _, jobs = run(case)
    assert jobs["machine"] == [1, 1] and jobs["predicted"] == [0, 0]
    assert jobs["start"] == [S, 6 * S] and jobs["arrived"] == [S, S]


def test_each_rule_on_arrivals_in_transit_is_as_computed_by_hand() -> None:
    def goes(**changes: Any) -> bool:
        return bool(run(plain(**changes))[1]["machine"] == [1])

    # 1 s on the way: x = rate
    assert goes(rule="exactly-one", rate=[0.0, 1.0])  # the maximum, 0.37, is below 0.5
    assert not goes(rule="exactly-one", rate=[0.0, 1.0], local_threshold=0.36)
    assert goes(rule="exactly-one", rate=[0.0, 50.0], local_threshold=0.36)  # 50 exp(-50)
    assert goes(rule="at-least-one", rate=[0.0, 0.69])
    assert not goes(rule="at-least-one", rate=[0.0, 0.70])
    assert goes(rule="none", rate=[0.0, 50.0])
    # jobs of others: with the first job at node 1, at 2 s, the rate is 1/3 job/s at 3 s
    two = {"release": [2 * S, 3 * S], "node": [0, 0], "work": [1000.0, 5000.0], "data": [0, 0]}
    assert run(plain(**two, remote_threshold=0.34))[1]["machine"] == [1, 1]
    assert run(plain(**two, remote_threshold=0.33))[1]["machine"] == [1, 0]
    assert run(plain(remote_threshold=0.0))[1]["machine"] == [0]
    # one job sent at 0 s is an infinite rate, unless the condition is off
    jobs = {"release": [0, 0], "node": [0, 0], "work": [1000.0, 9000.0], "data": [0, 0]}
    assert run(plain(**jobs))[1]["machine"] == [1, 0]
    assert run(plain(**jobs, remote_threshold=np.inf))[1]["machine"] == [1, 1]


def test_an_unknown_rate_is_replaced_by_the_observed_one() -> None:
    # two jobs at node 1 in the first 2 s: 1 - exp(-1) = 0.63
    case = plain(
        release=[S, S, 2 * S], node=[1, 1, 0], work=[1.0, 1.0, 1000.0], data=[0, 0, 0],
        rate=[np.nan, np.nan], rule="at-least-one",
    )  # fmt: skip
    assert run({**case, "local_threshold": 0.64})[1]["machine"][2] == 1
    assert run({**case, "local_threshold": 0.63})[1]["machine"][2] == 0


def test_picks_choose_the_first_best_and_fastest_node() -> None:
    """Node 3 is the fastest and has a queue of 30 s; node 2 is the best."""
    case = plain(
        speed=[100.0, 150.0, 200.0, 400.0], release=[0, S], node=[3, 0], work=[12_000.0, 2000.0], data=[0, 0],
        rate=[0.0] * 4, rule="none",
    )  # fmt: skip
    chosen = {pick: set() for pick in ("first", "best", "fastest")}
    for seed in range(20):
        for pick, result in chosen.items():
            result.add(run({**case, "pick": pick, "probes": 3, "seed": seed})[1]["machine"][1])
    assert chosen == {"first": {1, 2}, "best": {2}, "fastest": {3}}
    # slower nodes are skipped; the first that is fast enough is node 2
    assert run({**case, "pick": "first", "probes": 3, "min_speed": 160.0})[1]["machine"][1] == 2


def test_probes_take_time_and_answers_are_old() -> None:
    """A probe takes 2 s, and its answer is 1 s old."""
    case = plain(probe_time=2 * S)
    _, jobs = run(case)
    assert (jobs["machine"], jobs["arrived"], jobs["returned"]) == ([1], [3 * S], [9 * S])
    # node 1 has 20 s of work from 2 s on: after its probe at 1.5 s, and before its answer at 2.5 s
    _, jobs = run({**case, "release": [0, S // 2], "node": [1, 0], "work": [4000.0, 1000.0], "data": [0, 0]})
    assert jobs["machine"] == [1, 1] and jobs["predicted"][1] == 0
    assert jobs["arrived"] == [2 * S, 3 * S + S // 2] and jobs["start"][1] == 22 * S
    # no node is better: the job starts at home when the answer arrives
    _, jobs = run(plain(probe_time=2 * S, work=[10.0]))
    assert (jobs["machine"], jobs["arrived"]) == ([0], [2 * S])


def test_a_dispatcher_handles_one_job_at_a_time() -> None:
    """A probe takes 6 s; node 0 decides until 6, 12 and 18 s, and finds node 1 idle each time."""
    case = plain(
        release=[0, S, 8 * S], node=[0, 0, 0], work=[1.0, 1000.0, 1.0], data=[0] * 3, rule="none",
        probe_time=6 * S,
    )  # fmt: skip

    def went(**changes: Any) -> dict[str, Any]:
        _, walks = make({**case, **changes})
        walks.advance(NEVER)
        return {name: column.tolist() for name, column in walks.jobs().items()}

    jobs, ran = went(), S // 100
    assert jobs["machine"] == [0, 1, 0]
    # job 0 ends at 6.01 s; its result waits for the decision on job 1, but not for job 2, which is behind it
    assert (jobs["arrived"], jobs["end"]) == ([6 * S, 13 * S, 18 * S], [6 * S + ran, 18 * S, 18 * S + ran])
    assert jobs["returned"] == [12 * S, 19 * S, 18 * S + ran]
    # a result for another node waits, too: node 1 decides on its own job from 17 to 23 s
    busy = went(release=[0, S, 17 * S], node=[0, 0, 1], work=[1.0, 1000.0, 1.0])
    assert busy["end"][1] == 18 * S and busy["returned"][1] == 24 * S
    # with parallel decisions nothing waits
    jobs = went(queued=False)
    assert jobs["machine"] == [0, 1, 0] and jobs["arrived"] == [6 * S, 8 * S, 14 * S]
    assert jobs["returned"] == [6 * S + ran, 14 * S, 14 * S + ran]


def test_a_dispatcher_busy_beyond_the_last_instant_raises_an_error() -> None:
    """Each job leaves for the faster node, and none has arrived there when three are decided."""
    case = plain(
        release=[0] * 9, node=[0] * 9, work=[1.0] * 9, data=[0] * 9, pick="fastest", rule="none",
        probe_time=2**60 - 1,
    )  # fmt: skip
    case["network"]["latency"] = 2**61
    _, walks = make(case)
    with pytest.raises(OverflowError, match=f"^node 0 must decide on its jobs by {2**61} ns$"):
        walks.advance(NEVER)


def test_each_other_node_is_probed_once_and_equally_often() -> None:
    nodes, jobs = 12, 3000
    case = plain(
        speed=[100.0] * nodes, release=[0] * jobs, node=[5] * jobs, work=[1.0] * jobs, data=[0] * jobs,
        rate=[0.0] * nodes, probes=4, min_speed=1000.0,
    )  # fmt: skip
    wires, result = run(case)
    assert result["probes"] == [4] * jobs
    # a load for each probe of a node: binomial with a standard deviation of 25
    asked = np.delete(wires.bytes_out, 5) / 100
    assert wires.sent[:2].tolist() == [4 * jobs] * 2 and abs(asked - 4 * jobs / 11).max() < 130
    wires, result = run({**case, "probes": 100})
    assert result["probes"] == [11] * jobs and (np.delete(wires.bytes_out, 5) == 100 * jobs).all()


def test_a_walk_passes_through_visited_nodes() -> None:
    # a ring of three, one-way: 1, 2, 0 (itself), 1 ...: two nodes are asked in five steps
    ring = np.array([[1], [2], [0]], np.int32)
    wires, jobs = run(plain(speed=[100.0] * 3, rate=[0.0] * 3, probes=5, neighbours=ring))
    assert jobs["probes"] == [5] and wires.sent.tolist() == [5, 2, 0, 0]
    assert wires.bytes_in.tolist() == [300, 200, 200] and wires.bytes_out.tolist() == [200, 300, 200]


def test_defaults_equal_the_documented_values() -> None:
    """Each option changes the table of jobs."""

    def went(**changes: Any) -> tuple[Any, dict[str, list[int]]]:
        wires, walks = make(plain(**changes))
        walks.advance(NEVER)
        walks.settle()
        assert walks.unlogged == 0 and not len(walks.looks()["job"])
        return wires, {name: column.tolist() for name, column in walks.jobs().items()}

    wires, jobs = went()
    # not as printed, immediate answers, and 100 bytes per probe
    assert (jobs["machine"], jobs["arrived"], wires.traffic[0]) == ([1], [S], 100)
    # exactly one arrival with a probability below 0.5: true of 0.7 exp(-0.7), not of 1 - exp(-0.7)
    assert went(rate=[0.0, 0.7])[1]["machine"] == [1]
    assert went(rate=[0.0, 0.7], rule="at-least-one")[1]["machine"] == [0]
    # one job sent in 1 s is not below a rate of 1 job/s
    two = {"release": [S // 2, S], "node": [0, 0], "work": [1000.0, 5000.0], "data": [0, 0]}
    assert went(**two)[1]["machine"] == [1, 0]
    # any speed suffices, and the first better node is chosen
    assert went(speed=[0.1, 0.9], work=[1.0])[1]["machine"] == [1]
    case = {
        "speed": [100.0, 150.0, 200.0, 400.0], "rate": [0.0] * 4, "probes": 3,
        "release": [100 * k * S for k in range(10)], "node": [0] * 10, "work": [1000.0] * 10,
        "data": [0] * 10,
    }  # fmt: skip
    assert went(**case)[1] == went(**case, pick="first", seed=0)[1] != went(**case, pick="best")[1]
    assert went(**case)[1] != went(**case, seed=1)[1]


def test_probes_of_an_instant_precede_its_releases() -> None:
    """A probe of 3 ns arrives after 1 ns, before the node's first job, because of which it would decline."""
    case = plain(
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

    def went(latency: int = S, **changes: Any) -> int:
        case = plain(
            release=[0, 0], node=[1, 0], work=[1.0, 1000.0], data=[0, 0], rate=[np.nan] * 2, **changes
        )
        case["network"]["latency"] = latency
        _, walks = make(case)
        walks.advance(NEVER)
        return int(walks.jobs()["machine"][1])

    assert went() == 1  # exactly one arrival is impossible at an infinite rate
    assert went(rule="at-least-one") == 0
    assert went(0, rule="at-least-one") == 1
    assert went(0, rule="at-least-one", local_threshold=0.0) == 0  # 0 is not below 0


def test_observed_rates_count_jobs_of_other_nodes_exactly() -> None:
    """One job sent in 3 s, and 1 s of latency: just below the threshold."""
    case = plain(release=[2 * S, 3 * S], node=[0, 0], work=[1000.0, 5000.0], data=[0, 0])
    for allowed, machine in ((1 / 3 + 1e-10, 1), (1 / 3 - 1e-10, 0)):
        _, walks = make({**case, "remote_threshold": allowed})
        walks.advance(NEVER)
        assert walks.jobs()["machine"].tolist() == [1, machine]


def test_the_best_node_is_best_after_all_answers() -> None:
    """Node 1 is the fastest and busy until 55 s; the third answer arrives at 60 s, from any node."""
    case = plain(
        speed=[100.0, 200.0, 190.0, 10.0], rate=[0.0] * 4, release=[0, 30 * S], node=[1, 0],
        work=[5000.0, 1000.0], data=[0, 0], pick="best", rule="none", probes=3, probe_time=10 * S,
    )  # fmt: skip
    for seed in range(8):
        _, walks = make({**case, "seed": seed})
        walks.advance(NEVER)
        assert walks.jobs()["end"][0] == 55 * S and walks.jobs()["machine"].tolist() == [1, 1]


def test_a_difference_of_one_nanosecond_decides() -> None:
    def went(**changes: Any) -> dict[str, Any]:
        _, walks = make(plain(node=[0, 0], release=[0, 0], data=[0, 0], **changes))
        walks.advance(NEVER)
        return {name: column.tolist() for name, column in walks.jobs().items()}

    # 1 s to go, and a queue of 1 s and 1 ns at home
    assert went(printed=True, work=[100.0000001, 1000.0])["machine"] == [0, 1]
    assert went(printed=True, work=[100.0, 1000.0])["machine"] == [0, 0]
    # 1000 s to send the data, and 1 s more: 999 s before node 1 is free
    case = plain(release=[0, 0], node=[1, 0], work=[400_000.0, 1e6], data=[0, 10**6], rule="none")
    _, walks = make(case)
    walks.advance(NEVER)
    assert walks.jobs()["predicted"].tolist() == [-1, 999 * S]


# -- what is logged -------------------------------------------------------------------------------------


def test_the_log_has_answers_and_true_values() -> None:
    """A probe takes 2 s; node 1 gets 20 s of work between the probe and the answer."""
    case = plain(
        probe_time=2 * S, release=[0, S // 2], node=[1, 0], work=[4000.0, 1000.0], data=[0, 0], log=10
    )
    _, walks = make(case)
    walks.advance(NEVER)
    looks = walks.looks()
    assert [VERDICTS[k] for k in looks["verdict"]] == ["fits", "fits", "stays", "moves"]
    assert list(looks) == list(LOOKS)
    names = "job", "node", "asked", "heard", "free", "home_free", "true_free"
    assert list(zip(*(looks[name].tolist() for name in names), strict=True)) == [
        (0, 0, S, 2 * S, 0, 0, 0),
        (1, 1, 3 * S // 2, 5 * S // 2, 0, 0, 22 * S),
        (0, -1, -1, 2 * S, -1, 0, -1),
        (1, 1, -1, 5 * S // 2, 0, 0, 22 * S),
    ]
    # room for the first three rows; one row was dropped
    _, walks = make({**case, "log": 3})
    walks.advance(NEVER)
    assert walks.unlogged == 1 and all((walks.looks()[name] == looks[name][:3]).all() for name in LOOKS)


def test_a_full_log_counts_the_dropped_rows() -> None:
    _, walks = make(plain(log=1))
    walks.advance(NEVER)
    assert walks.looks()["verdict"].tolist() == [VERDICTS.index("fits")] and walks.unlogged == 1


def test_the_log_has_the_verdict_on_each_node() -> None:
    two = {"release": [2 * S, 3 * S], "node": [0, 0], "work": [1000.0, 5000.0], "data": [0, 0], "log": 9}
    for changes, job, verdict, count in (
        ({"rate": [0.0, 1.0], "local_threshold": 0.36}, 0, "own", 0),
        ({"remote_threshold": 0.33}, 1, "others", 1),
        ({"min_speed": 300.0}, 0, "slow", 0),
    ):
        _, walks = make(plain(**two, **changes))
        walks.advance(NEVER)
        looks = walks.looks()
        (k,) = np.flatnonzero((looks["job"] == job) & (looks["asked"] >= 0))
        assert (VERDICTS[looks["verdict"][k]], looks["count"][k]) == (verdict, count)


# -- bad input ------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"speed": [1.0, 0.0]}, "speed[1] must be finite and > 0, got 0.0"),
    ({"work": [np.nan]}, "work[0] must be finite and > 0, got nan"),
    ({"work": [np.inf]}, "work[0] must be finite and > 0, got inf"),
    ({"rate": [0.0, -1.0]}, "rate[1] must be finite and >= 0, or nan, got -1.0"),
    ({"rate": [0.0]}, "rate must have 2 entries, got 1"),
    ({"release": [-1]}, "release[0] must be in 0..2305843009213693952, got -1"),
    ({"release": [[0]]}, "release must have one dimension, got 2"),
    ({"release": [5, 4], "node": [0, 0], "work": [1.0, 1.0], "data": [0, 0]},
     "release must not decrease, got 4 after 5"),
    ({"node": [2]}, "node[0] must be in 0..1, got 2"),
    ({"data": [2**31]}, "data[0] must be in 0..2147483647, got 2147483648"),
    ({"data": []}, "data must have 1 entries, got 0"),
    ({"pick": "any"}, "pick must be one of ('first', 'best', 'fastest'), got 'any'"),
    ({"rule": "P"}, "rule must be one of ('none', 'exactly-one', 'at-least-one'), got 'P'"),
    ({"probes": -1}, "probes must be in 0..2147483647, got -1"),
    ({"local_threshold": np.nan}, "local_threshold must be in 0..inf, got nan"),
    ({"min_speed": -1.0}, "min_speed must be in 0..inf, got -1.0"),
    ({"probe_time": -1}, "probe_time must be in 0..2305843009213693952, got -1"),
    ({"log": -1}, "log must be in 0..2305843009213693952, got -1"),
    ({"packet": 2**31}, "packet must be in 0..2147483647, got 2147483648"),
    ({"neighbours": [[1], [0]]}, "neighbours must be int32[nodes, degree], got list"),
    ({"neighbours": np.zeros((3, 1), np.int32)}, "neighbours must have 2 rows, got 3"),
    ({"neighbours": np.array([[1], [2]], np.int32)}, "neighbours[1] must be in 0..1, got 2"),
    ({"neighbours": np.array([[1], [1]], np.int32)}, "neighbours[1] must not contain 1, the node itself"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_wrong_input_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(plain(**changes))
    assert str(caught.value) == message


def test_unsuitable_kinds_and_links_are_rejected() -> None:
    wires, _ = make(plain())
    arguments = {name: value for name, value in plain().items() if name not in ("network", "speed")}
    with pytest.raises(ValueError, match=r"^kinds\[3\]"):
        JobWalks(wires, [1.0, 1.0], kinds=[0, 1, 2, 4], **arguments)
    more = {**arguments, "rate": [0.0] * 3}
    with pytest.raises(ValueError, match="^links"):
        JobWalks(wires, [1.0] * 3, kinds=[0, 1, 2, 3], **more)


def test_a_job_beyond_the_last_instant_raises_an_error() -> None:
    _, walks = make(plain(work=[1e300], probes=0))
    walks.advance(NEVER)
    assert walks.jobs()["end"].tolist() == [2**61]  # the last instant at which a job may end
    _, walks = make(plain(release=[S], work=[1e300], probes=0))
    with pytest.raises(OverflowError, match="^jobs of node 0 must end by 2305843009213693952 ns$"):
        walks.advance(NEVER)


def test_a_job_too_long_to_queue_raises_in_each_call_of_advance() -> None:
    """A node can be probed repeatedly; otherwise no node would be left to probe."""
    case = plain(speed=[100.0] * 3, rate=[0.0] * 3, release=[S], work=[1e300], probes=2)
    _, walks = make(case)
    for _ in range(3):
        with pytest.raises(OverflowError, match="^jobs of node 0 must end by 2305843009213693952 ns$"):
            walks.advance(NEVER)
