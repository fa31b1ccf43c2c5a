"""Four methods to search for idle hosts: small cases computed by hand, failures, wrong parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import gridsim as gs
from gridsim.scheduling.nodes import declarations
from gridsim.testing.cases import scenarios
from gridsim.testing.resuming import resume_difference
from gridsim.validation.results import validate_result

METHODS = {
    "expanding-ring": gs.ExpandingRing,
    "random-walk-search": gs.RandomWalkSearch,
    "advertisement": gs.Advertisement,
    "rendezvous": gs.Rendezvous,
}
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
INF = math.inf


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link the machines in a line 0 - 1 - 2 - 3: before the hellos, machine u knows only u + 1."""

    def neighbours(machines: int, degree: int, stream: Any, among: Any = None) -> Any:
        return np.array([[min(u + 1, machines - 1)] for u in range(machines)])

    monkeypatch.setattr(declarations, "random_neighbours", neighbours)


def run(scheduler: gs.Scheduler, tasks: int = 3, machines: int = 4, **options: Any) -> gs.Result:
    """Run one bag at machine 0, released at 10 s; tasks take 100 s and messages 0.5 s."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        options.pop("workload", gs.Workload.of([10.0], [tasks], [1e5], [0], origin=0.0)),
        gs.Network(latency=0.5, bandwidth=INF),
        **options,
    )
    result = gs.simulate(scenario, scheduler, record=True)
    assert validate_result(result) == []
    return result


def sent(result: gs.Result) -> dict[str, int]:
    """Return kind -> number of sent messages, without hellos."""
    counts = zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True)
    return {kind: count for kind, count in counts if count and kind != "hello"}


def hosts(result: gs.Result) -> list[tuple[int, float]]:
    """Return the hosts in the order in which they were found, with the times."""
    table = result.tables["hosts"]
    return list(zip(table["host"].tolist(), np.round(table["found"], 6).tolist(), strict=True))


def one_point(beacons: int, workload: gs.Workload, degree: int = 4, machines: int = 4) -> tuple[int, int]:
    """Return a seed with which a single machine, not machine 0, becomes a point; and that machine."""
    for seed in range(1000):
        method = gs.Rendezvous(degree=degree, hop_time=1.0, share=0.3)
        result = run(method, workload=workload, seed=seed, machines=machines)
        point = int(result.machines["bytes_in"].argmax())  # all hosts send their descriptions to it
        if sent(result).get("beacon") == beacons and point:
            return seed, point
    raise AssertionError("no such seed")


# -- each method --------------------------------------------------------------------------------------------


def test_rings_grow_until_enough_hosts_are_found(line: None) -> None:
    result = run(gs.ExpandingRing(hop_time=1.0))
    # the first ring takes one hop out and one back; the second begins after 2 s, and takes two hops out and
    # back
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 13.5)]
    assert sent(result) == {"query": 1 + 2, "offer": 2, "task": 2}
    assert [dict(row) for row in [result.tables["searches"][0]]] == [
        {"client": 0, "wanted": 2, "found": 2, "rounds": 2, "began": 10.0, "ended": 13.5}
    ]


def test_queries_of_a_failed_client_are_answered_again(line: None) -> None:
    """By its transient failure at 500 s it loses the numbers of its searches."""
    workload = gs.Workload.of([10.0, 1000.0], 3, 1e5, [0, 0], origin=0.0)
    result = run(
        gs.ExpandingRing(hop_time=1.0), workload=workload, faults=gs.Faults.of([0], [500.0], [500.0])
    )
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 13.5), (0, 1000.0), (1, 1001.0), (2, 1003.5)]


def test_unneeded_hosts_are_dismissed(line: None) -> None:
    workload = gs.Workload.of([10.0], [2], [1e5], [1], origin=0.0)  # hosts 0 and 2 offer themselves
    result = run(gs.ExpandingRing(hop_time=1.0), workload=workload)
    assert hosts(result) == [(1, 10.0), (0, 11.0)]
    assert sent(result) == {"query": 2, "offer": 2, "task": 1, "dismiss": 1}


def test_rings_stop_growing_at_max_hops(line: None) -> None:
    result = run(gs.ExpandingRing(hop_time=1.0, max_hops=1, retry=1000.0))
    # the last task runs on the client's own machine, after the first task
    assert hosts(result) == [(0, 10.0), (1, 11.0), (0, 110.0)]
    assert result.tables["searches"]["found"].tolist() == [1]


def test_walker_stops_when_it_has_found_its_share(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=1, steps=3))
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5)]
    assert sent(result) == {"walk": 2, "offer": 2, "task": 2}


@pytest.mark.parametrize("seed", range(8))
def test_walker_does_not_return_to_its_sender(line: None, seed: int) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=1, steps=3), tasks=4, seed=seed)
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5), (3, 12.0)]


def test_walkers_share_the_needed_hosts(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=2, steps=3), tasks=4)
    # one walker must find two hosts, the other one; the first finds 1 and 2, the second walks on to 3
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5), (3, 12.0)]
    assert sent(result)["walk"] == 2 + 3 and len(result.tables["searches"]) == 1


def test_walks_are_repeated_while_they_find_hosts(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=2, steps=1, retry=1000.0))
    # both walkers go to machine 1; in the second round it is busy, so no third round follows
    assert hosts(result) == [(0, 10.0), (1, 11.0), (0, 110.0)]
    assert sent(result) == {"walk": 2 + 1, "offer": 1, "task": 1}


@pytest.mark.parametrize(("scope", "expected"), [(1, [(1, 11.0), (0, 110.0)]), (2, [(1, 11.0), (2, 11.0)])])
def test_only_advertised_hosts_are_asked(line: None, scope: int, expected: Any) -> None:
    result = run(gs.Advertisement(hop_time=1.0, scope=scope, retry=1000.0))
    assert sorted(hosts(result)) == sorted([(0, 10.0), *expected])
    # profiles cross each link, and with scope 2 also two links
    assert sent(result)["profile"] == (6 if scope == 1 else 6 + 4)


def test_no_more_hosts_are_asked_than_needed() -> None:
    result = run(gs.Advertisement(degree=3, hop_time=1.0), tasks=3)
    assert {kind: sent(result)[kind] for kind in ("ask", "offer", "task")} == {
        "ask": 2,
        "offer": 2,
        "task": 2,
    }


def test_neighbours_are_asked_before_they_advertise(line: None) -> None:
    """Neighbours advertise themselves at 5 s."""
    result = run(
        gs.Advertisement(hop_time=5.0, retry=1000.0), workload=gs.Workload.of([1.0], 2, 1e5, [0], origin=0.0)
    )
    assert hosts(result) == [(0, 1.0), (1, 2.0)]


def test_nearest_point_is_asked_first_from_the_last_machine(line: None) -> None:
    """The nearest point has the highest number."""
    workload = gs.Workload.of([10.0], 3, 1e5, [3], origin=0.0)
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3), workload=workload)
    assert hosts(result) == [(3, 10.0), (2, 14.0), (1, 17.0)]


def test_points_are_asked_nearest_first(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3))
    # each machine is the point of its own host; the client asks points one after another, each for 3 s
    assert hosts(result) == [(0, 10.0), (1, 14.0), (2, 17.0)]
    assert sent(result) == {"beacon": 12, "lookup": 2, "told": 2, "offer": 2, "task": 2}


def test_failed_point_is_skipped(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3), faults=gs.Faults.of([1], [11.0], [INF]))
    assert hosts(result) == [(0, 10.0), (2, 17.0), (3, 20.0)]
    assert sent(result)["lookup"] == 3 and result.messages["dropped"].sum() == 1


def test_point_chooses_the_longest_listed_or_random_hosts() -> None:
    """One point knows all 9 hosts; a second bag is released when the hosts of the first are listed again."""
    release = gs.Workload.of([50.0, 400.0], [5, 5], [1e5, 1e5], [0, 0], origin=0.0)
    seed, _ = one_point(8 + 8 * 7, release, degree=8, machines=9)
    selection = {}
    for pick in ("longest", "random"):
        method = gs.Rendezvous(degree=8, hop_time=1.0, share=0.3, pick=pick)
        result = run(method, workload=release, machines=9, seed=seed)
        table = result.tables["hosts"]
        sets = [set(table["host"][table["application"] == i].tolist()) for i in (0, 1)]
        assert all(len(members) == 5 for members in sets)
        selection[pick] = sets
    assert selection["longest"][0] & selection["longest"][1] == {0}
    assert len(selection["random"][0] & selection["random"][1]) > 1


def test_machine_that_knows_no_point_becomes_one(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=0.0, scope=3))
    assert sent(result)["where"] == 6 and sent(result)["beacon"] > 0
    assert {host for host, _ in hosts(result)} == {0, 1, 2}


def test_free_hosts_register_again_with_a_failed_point(line: None) -> None:
    """The only point fails and loses its list; the hosts register again after `refresh`."""
    release = gs.Workload.of([500.0], [3], [1e5], [0], origin=0.0)
    seed, point = one_point(3, release)
    reset = {"workload": release, "seed": seed, "faults": gs.Faults.of([point], [50.0], [50.0])}
    without_refresh = run(gs.Rendezvous(hop_time=1.0, share=0.3, refresh=INF, retry=1000.0), **reset)
    with_refresh = run(gs.Rendezvous(hop_time=1.0, share=0.3, refresh=100.0, retry=1000.0), **reset)
    assert {host for host, _ in hosts(without_refresh)} == {0, point}
    assert len({host for host, _ in hosts(with_refresh)}) == 3


# -- all methods -------------------------------------------------------------------------------


@ALL
def test_single_machine_runs_all_tasks(method: Any) -> None:
    result = run(method(), tasks=5, machines=1)
    assert hosts(result) == [(0, 10.0 + 100.0 * k) for k in range(5)]
    assert result.messages["sent"].sum() == 0 and (result.tables["searches"]["found"] == 0).all()


@ALL
def test_all_machines_share_many_tasks(method: Any) -> None:
    result = run(method(degree=3, hop_time=1.0, retry=5.0), tasks=40)
    assert result.machines["tasks"].min() > 5 and result.machines["peak_queue"].max() <= 1
    assert len(result.tables["hosts"]) == 40
    assert (result.tables["hosts"]["found"] >= result.tables["hosts"]["needed"]).all()


def test_task_after_the_end_of_a_promise_is_returned() -> None:
    """The promise to each client ends before its task arrives; the second task finds the host busy."""
    workload = gs.Workload.of([10.0, 10.2], [2, 2], [1e5, 1e5], [0, 1], origin=0.0)
    result = run(gs.ExpandingRing(degree=2, promise=0.1, hop_time=1.0), workload=workload, machines=3)
    assert sent(result)["back"] >= 1
    assert len(result.tables["hosts"]) == 4 + sent(result)["back"]
    assert result.applications["resubmitted"].sum() == 0


def assignments(result: gs.Result) -> list[tuple[int, int, float]]:
    """Return application, host and time of each assigned task."""
    table = result.tables["hosts"]
    return [(int(i), *host) for i, host in zip(table["application"], hosts(result), strict=True)]


def test_oldest_task_gets_the_next_host() -> None:
    workload = gs.Workload.of([10.0, 20.0], [2, 1], 1e5, [0, 0], origin=0.0)
    result = run(gs.ExpandingRing(), workload=workload, machines=1)
    assert assignments(result) == [(0, 0, 10.0), (0, 0, 110.0), (1, 0, 210.0)]


def test_returned_task_becomes_the_oldest() -> None:
    """Machine 1 offers itself at 10.5 s until 10.6 s, and runs an own task when that of 0 arrives."""
    workload = gs.Workload.of([10.0, 10.8, 11.2], [2, 1, 1], 1e5, [0, 1, 0], origin=0.0)
    method = gs.ExpandingRing(degree=1, promise=0.1, hop_time=1.0, max_hops=1, retry=1000.0)
    result = run(method, workload=workload, machines=2)
    # the task is back at 12 s, when the task of application 2 is already waiting; machine 0 is free at 110
    # and 210 s
    assert assignments(result) == [(0, 0, 10.0), (1, 1, 10.8), (0, 1, 11.0), (0, 0, 110.0), (2, 0, 210.0)]
    assert sent(result)["back"] == 1
    assert result.tables["hosts"]["needed"].tolist() == [10.0, 10.8, 10.0, 12.0, 11.2]


@pytest.mark.parametrize("short", [1, 2])
def test_timer_of_an_ended_promise_does_not_end_the_next_one(line: None, short: int) -> None:
    """Machine 2 offers itself to 1 at 10.5 s, is dismissed at 11.5 s, or has run a short task at 11.6 s.

    It offers itself to 3 at 11.8 s.  The first promise would have ended at 12 s; the second one ends at
    12.8 s with the task of 3, and what 2 has of its own since 12.1 s waits for that.
    """
    sizes = [1e5, 100.0, 1e5, 1e5]
    workload = gs.Workload.of([10.0, 10.0, 11.3, 12.1], [1, short, 2, 1], sizes, [1, 1, 3, 2], origin=0.0)
    result = run(gs.ExpandingRing(promise=1.5, hop_time=1.0, max_hops=1, retry=1000.0), workload=workload)
    assert sent(result).get("dismiss", 0) == 2 - short and "back" not in sent(result)
    of_3_and_2 = [row for row in assignments(result) if row[0] >= 2]
    assert of_3_and_2 == [(2, 3, 11.3), (2, 2, 12.3), (3, 2, 112.8)]


#: Machine 2 promises itself to 1 until 11.3 s.  At 11.4 s it offers itself to 3, until 12.2 s.
LATE = gs.ExpandingRing(promise=0.8, hop_time=1.0, max_hops=1, retry=1000.0)


def test_only_the_promised_client_can_dismiss_a_host(line: None) -> None:
    """Machine 1 dismisses 2 at 11.5 s; the task submitted at 2 at 11.6 s waits until 12.2 s."""
    workload = gs.Workload.of([10.0, 10.9, 11.6], [2, 2, 1], 1e5, [1, 3, 2], origin=0.0)
    result = run(LATE, workload=workload)
    assert [row for row in assignments(result) if row[0] == 2] == [(2, 2, 12.2)]


def test_host_promised_to_another_client_returns_a_task(line: None) -> None:
    """The task of 1 arrives at 11.5 s, and that of 3 at 12.4 s, when the promise has ended."""
    result = run(LATE, workload=gs.Workload.of([10.0, 10.9], [3, 2], 1e5, [1, 3], origin=0.0))
    assert sent(result)["back"] == 1
    assert assignments(result) == [
        (0, 1, 10.0), (1, 3, 10.9), (0, 0, 11.0), (0, 2, 11.0), (1, 2, 11.9), (0, 1, 110.0),
    ]  # fmt: skip


def pauses(result: gs.Result) -> Any:
    """Return the times from the end of each search to the start of the next, s."""
    table = result.tables["searches"]
    return table["began"][1:] - table["ended"][:-1]


def test_pauses_double_up_to_16_times() -> None:
    """A single machine has no other to ask; it runs the first bag until 1010 s, the second until 6000 s."""
    workload = gs.Workload.of([10.0, 5000.0], [2, 2], 1e6, [0, 0], origin=0.0)
    result = run(gs.ExpandingRing(retry=1.0), workload=workload, machines=1)
    second = result.tables["searches"]["began"][1:] >= 5000.0
    for bag in (~second, second):
        durations = pauses(result)[bag]
        durations = durations[durations < 1000.0]  # the time between the bags is excluded
        means = np.minimum(2.0 ** np.arange(len(durations)), 16.0)
        assert len(durations) > 20
        assert (durations >= 0.5 * means).all() and (durations <= 1.5 * means).all()


def test_pause_is_short_again_after_a_host_was_found(line: None) -> None:
    """Machine 1 is busy until 210 s; of the two tasks that need a host then it takes one."""
    workload = gs.Workload.of([10.0, 10.1], [1, 3], [2e5, 1e6], [1, 0], origin=0.0)
    result = run(gs.ExpandingRing(hop_time=1.0, max_hops=1, retry=10.0), workload=workload, machines=2)
    (k,) = np.flatnonzero(result.tables["searches"]["found"] == 1)
    # at least four pauses precede the success, since three pauses take at most 1.5 (10 + 20 + 40) s, less
    # than 200 s
    assert k >= 4 and pauses(result)[k - 1] >= 0.5 * 80.0
    assert 5.0 <= pauses(result)[k] <= 15.0 and 10.0 <= pauses(result)[k + 1] <= 30.0


@ALL
def test_late_answers_still_find_hosts(method: Any) -> None:
    result = run(method(degree=3, hop_time=0.1, retry=5.0), tasks=40)
    assert result.machines["tasks"].min() > 5


#: The methods with parameters that affect which of their branches run.
VARIED = {
    "expanding-ring": gs.ExpandingRing(degree=3, promise=0.1),
    "random-walk-search": gs.RandomWalkSearch(walkers=3, steps=5, retry=10.0),
    "advertisement": gs.Advertisement(degree=3),
    "rendezvous": gs.Rendezvous(share=0.1, refresh=50.0),
    "rendezvous, random": gs.Rendezvous(share=0.1, pick="random"),
}


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keep machine code in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDSIM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("name", VARIED)
def test_all_forms_have_equal_results(machine_code: None, name: str, failing: bool) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    outages = gs.Faults.of([0, 3, 3, 7, 12], [30.0, 35.0, 90.0, 50.0, 38.0], [70.0, 35.0, 120.0, INF, 38.5])
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(nodes=25, seed=1),
        gs.Workload.bags(applications=8, interarrival=15.0, tasks=20.0, task_size=90_000.0, seed=1),
        gs.Network(latency=0.05, jitter=0.02),
        seed=3,
        faults=outages if failing else None,
    )
    python, interpreted, compiled = (
        gs.simulate(scenario, VARIED[name], record="decisions", nodes=form)
        for form in ("python", "interpreted", "compiled")
    )
    assert python.digest == interpreted.digest == compiled.digest
    assert python.tables == interpreted.tables == compiled.tables
    assert len(compiled.tables["decisions"]) > 100
    assert resume_difference(scenario, VARIED[name], compiled, record="decisions", nodes="compiled") is None


@ALL
def test_failed_client_loses_no_task(method: Any) -> None:
    """Machine 0 fails while its tasks wait for hosts."""
    faults = gs.Faults.of([0, 0], [30.0, 250.0], [30.0, 260.0])
    result = run(method(degree=3), tasks=12, faults=faults)
    assert result.applications["resubmitted"][0] >= 8 and result.machines["tasks"].sum() == 12


@ALL
@settings(max_examples=12, deadline=None)
@given(scenario=scenarios(max_nodes=9, faults=True))
def test_tables_agree_with_messages_and_tasks(method: Any, scenario: gs.Scenario) -> None:
    result = gs.simulate(scenario, method(degree=3))
    assigned, searches = result.tables["hosts"], result.tables["searches"]
    back = int(result.messages["sent"][result.messages["kind"] == "back"].sum())
    tasks = int(result.applications["tasks"].sum())
    assert tasks <= len(assigned) <= tasks + back + int(result.applications["resubmitted"].sum())
    assert (searches["ended"] >= searches["began"]).all() and (searches["wanted"] > 0).all()


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (lambda: gs.ExpandingRing(max_hops=0), "expanding-ring.max_hops must be a whole number >= 1, got 0"),
        (lambda: gs.ExpandingRing(degree=0), "expanding-ring.degree must be a whole number >= 1, got 0"),
        (lambda: gs.RandomWalkSearch(walkers=0), "random-walk-search.walkers must be a whole number >= 1"),
        (lambda: gs.RandomWalkSearch(steps=1.5), "random-walk-search.steps must be a whole number >= 1"),
        (lambda: gs.Advertisement(scope=0), "advertisement.scope must be a whole number >= 1, got 0"),
        (lambda: gs.Advertisement(retry=0.0), "advertisement.retry must be a finite number > 0 s, got 0.0"),
        (lambda: gs.Rendezvous(hop_time=INF), "rendezvous.hop_time must be a finite number > 0 s, got inf"),
        (
            lambda: gs.Rendezvous(promise=math.nan),
            "rendezvous.promise must be a finite number > 0 s, got",
        ),
        (lambda: gs.Rendezvous(share=1.5), "rendezvous.share must be a number in 0..1, got 1.5"),
        (
            lambda: gs.Rendezvous(pick="any"),
            "rendezvous.pick must be one of longest, random, got",
        ),
        (lambda: gs.Rendezvous(refresh=0.0), "rendezvous.refresh must be a number > 0 s, got 0.0"),
    ],
)
def test_wrong_parameters_are_rejected(scheduler: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        scheduler()
    assert message in str(excinfo.value)
