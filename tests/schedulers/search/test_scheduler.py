"""Four methods to search for idle hosts: small cases worked out by hand, failures, wrong parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import gridsim as gs
from gridsim.scheduling.nodes import adapter as local_adapter
from gridsim.testing.cases import scenarios
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
    """Machine u knows u + 1, and the last one nobody, until hello has been said: 0 - 1 - 2 - 3."""

    def neighbours(machines: int, degree: int, chance: Any) -> Any:
        return np.array([[min(u + 1, machines - 1)] for u in range(machines)])

    monkeypatch.setattr(local_adapter, "random_neighbours", neighbours)


def run(scheduler: gs.Scheduler, tasks: int = 3, machines: int = 4, **more: Any) -> gs.Result:
    """One bag at machine 0, released at 10 s; tasks of 100 s, messages of 0.5 s."""
    made = gs.Scenario(
        gs.Platform.of([1000.0] * machines),
        more.pop("workload", gs.Workload.of([10.0], [tasks], [1e5], [0], origin=0.0)),
        gs.Network(latency=0.5, bandwidth=INF),
        **more,
    )
    result = gs.simulate(made, scheduler, record=True)
    assert validate_result(result) == []
    return result


def sent(result: gs.Result) -> dict[str, int]:
    """Kind -> messages, of those that were sent, but for hello."""
    counts = zip(result.messages["kind"].tolist(), result.messages["sent"].tolist(), strict=True)
    return {kind: count for kind, count in counts if count and kind != "hello"}


def hosts(result: gs.Result) -> list[tuple[int, float]]:
    """Each host that was found, and when."""
    table = result.tables["hosts"]
    return list(zip(table["host"].tolist(), np.round(table["found"], 6).tolist(), strict=True))


def one_point(beacons: int, workload: gs.Workload, degree: int = 4, machines: int = 4) -> tuple[int, int]:
    """A seed with which one machine alone becomes a point, and not machine 0; and that machine."""
    for seed in range(1000):
        method = gs.Rendezvous(degree=degree, hop_time=1.0, share=0.3)
        result = run(method, workload=workload, seed=seed, machines=machines)
        point = int(result.machines["bytes_in"].argmax())  # to which all hosts send their description
        if sent(result).get("beacon") == beacons and point:
            return seed, point
    raise AssertionError("no such seed")


# -- each method --------------------------------------------------------------------------------------------


def test_rings_grow_until_there_are_enough(line: None) -> None:
    result = run(gs.ExpandingRing(hop_time=1.0))
    # one hop there, one back; the second ring begins after 2 s: two hops there, one back
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 13.5)]
    assert sent(result) == {"query": 1 + 2, "offer": 2, "task": 2}
    assert [dict(row) for row in [result.tables["searches"][0]]] == [
        {"client": 0, "wanted": 2, "found": 2, "rounds": 2, "began": 10.0, "ended": 13.5}
    ]


def test_a_client_that_has_failed_is_heard_again(line: None) -> None:
    """Reset at 500 s it has forgotten which numbers its searches had."""
    workload = gs.Workload.of([10.0, 1000.0], 3, 1e5, [0, 0], origin=0.0)
    result = run(
        gs.ExpandingRing(hop_time=1.0), workload=workload, faults=gs.Faults.of([0], [500.0], [500.0])
    )
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 13.5), (0, 1000.0), (1, 1001.0), (2, 1003.5)]


def test_hosts_that_are_not_needed_are_dismissed(line: None) -> None:
    workload = gs.Workload.of([10.0], [2], [1e5], [1], origin=0.0)  # 0 and 2 offer themselves
    result = run(gs.ExpandingRing(hop_time=1.0), workload=workload)
    assert hosts(result) == [(1, 10.0), (0, 11.0)]
    assert sent(result) == {"query": 2, "offer": 2, "task": 1, "dismiss": 1}


def test_the_last_ring_is_the_last(line: None) -> None:
    result = run(gs.ExpandingRing(hop_time=1.0, max_hops=1, retry=1000.0))
    assert hosts(result) == [(0, 10.0), (1, 11.0), (0, 110.0)]  # the own machine, when it has done the first
    assert result.tables["searches"]["found"].tolist() == [1]


def test_a_walker_ends_when_it_has_found_its_share(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=1, steps=3))
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5)]
    assert sent(result) == {"walk": 2, "offer": 2, "task": 2}


@pytest.mark.parametrize("seed", range(8))
def test_a_walker_does_not_go_straight_back(line: None, seed: int) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=1, steps=3), tasks=4, seed=seed)
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5), (3, 12.0)]


def test_all_hosts_that_are_wanted_are_dealt_to_the_walkers(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=2, steps=3), tasks=4)
    # one wants 2 and one 1 of three: the first takes 1 and 2, the second one goes on to 3
    assert hosts(result) == [(0, 10.0), (1, 11.0), (2, 11.5), (3, 12.0)]
    assert sent(result)["walk"] == 2 + 3 and len(result.tables["searches"]) == 1


def test_walks_are_repeated_as_long_as_they_find_somebody(line: None) -> None:
    result = run(gs.RandomWalkSearch(hop_time=1.0, walkers=2, steps=1, retry=1000.0))
    # both walkers go to machine 1; the second walk finds it busy, and there is no third one
    assert hosts(result) == [(0, 10.0), (1, 11.0), (0, 110.0)]
    assert sent(result) == {"walk": 2 + 1, "offer": 1, "task": 1}


@pytest.mark.parametrize(("scope", "found"), [(1, [(1, 11.0), (0, 110.0)]), (2, [(1, 11.0), (2, 11.0)])])
def test_only_those_are_asked_that_made_themselves_known(line: None, scope: int, found: Any) -> None:
    result = run(gs.Advertisement(hop_time=1.0, scope=scope, retry=1000.0))
    assert sorted(hosts(result)) == sorted([(0, 10.0), *found])
    assert sent(result)["profile"] == (6 if scope == 1 else 6 + 4)  # over each link, and over two


def test_as_many_are_asked_as_are_wanted() -> None:
    result = run(gs.Advertisement(degree=3, hop_time=1.0), tasks=3)
    assert {kind: sent(result)[kind] for kind in ("ask", "offer", "task")} == {
        "ask": 2,
        "offer": 2,
        "task": 2,
    }


def test_neighbours_are_known_before_they_tell_of_themselves(line: None) -> None:
    """They do so at 5 s, when they have joined."""
    result = run(
        gs.Advertisement(hop_time=5.0, retry=1000.0), workload=gs.Workload.of([1.0], 2, 1e5, [0], origin=0.0)
    )
    assert hosts(result) == [(0, 1.0), (1, 2.0)]


def test_the_point_of_the_fewest_hops_is_asked_first(line: None) -> None:
    """As the case below from the other end, where the nearest has the highest number."""
    workload = gs.Workload.of([10.0], 3, 1e5, [3], origin=0.0)
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3), workload=workload)
    assert hosts(result) == [(3, 10.0), (2, 14.0), (1, 17.0)]


def test_points_are_asked_nearest_first(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3))
    # all are points, of themselves alone: the own one knows nobody, then one after the other, each 3 s
    assert hosts(result) == [(0, 10.0), (1, 14.0), (2, 17.0)]
    assert sent(result) == {"beacon": 12, "lookup": 2, "told": 2, "offer": 2, "task": 2}


def test_a_point_that_has_failed_is_passed_over(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=1.0, scope=3), faults=gs.Faults.of([1], [11.0], [INF]))
    assert hosts(result) == [(0, 10.0), (2, 17.0), (3, 20.0)]
    assert sent(result)["lookup"] == 3 and result.messages["dropped"].sum() == 1


def test_a_point_names_those_that_have_waited_the_longest_or_any() -> None:
    """One point knows all 9 hosts; a first bag takes some, a second one comes when they are back."""
    release = gs.Workload.of([50.0, 400.0], [5, 5], [1e5, 1e5], [0, 0], origin=0.0)
    seed, _ = one_point(8 + 8 * 7, release, degree=8, machines=9)
    chosen = {}
    for pick in ("longest", "random"):
        method = gs.Rendezvous(degree=8, hop_time=1.0, share=0.3, pick=pick)
        result = run(method, workload=release, machines=9, seed=seed)
        table = result.tables["hosts"]
        sets = [set(table["host"][table["application"] == i].tolist()) for i in (0, 1)]
        assert all(len(each) == 5 for each in sets)
        chosen[pick] = sets
    assert chosen["longest"][0] & chosen["longest"][1] == {0}
    assert len(chosen["random"][0] & chosen["random"][1]) > 1


def test_who_knows_no_point_becomes_one(line: None) -> None:
    result = run(gs.Rendezvous(hop_time=1.0, share=0.0, scope=3))
    assert sent(result)["where"] == 6 and sent(result)["beacon"] > 0
    assert {host for host, _ in hosts(result)} == {0, 1, 2}


def test_hosts_are_noted_again(line: None) -> None:
    """The only point fails and forgets them: they tell it again, and it is a point once more."""
    release = gs.Workload.of([500.0], [3], [1e5], [0], origin=0.0)
    seed, point = one_point(3, release)
    reset = {"workload": release, "seed": seed, "faults": gs.Faults.of([point], [50.0], [50.0])}
    forgotten = run(gs.Rendezvous(hop_time=1.0, share=0.3, refresh=INF, retry=1000.0), **reset)
    noted = run(gs.Rendezvous(hop_time=1.0, share=0.3, refresh=100.0, retry=1000.0), **reset)
    assert {host for host, _ in hosts(forgotten)} == {0, point}
    assert len({host for host, _ in hosts(noted)}) == 3


# -- what they have in common -------------------------------------------------------------------------------


@ALL
def test_one_machine_does_all_by_itself(method: Any) -> None:
    result = run(method(), tasks=5, machines=1)
    assert hosts(result) == [(0, 10.0 + 100.0 * k) for k in range(5)]
    assert result.messages["sent"].sum() == 0 and (result.tables["searches"]["found"] == 0).all()


@ALL
def test_many_more_tasks_than_machines(method: Any) -> None:
    result = run(method(degree=3, hop_time=1.0, retry=5.0), tasks=40)
    assert result.machines["tasks"].min() > 5 and result.machines["peak_queue"].max() <= 1
    assert len(result.tables["hosts"]) == 40
    assert (result.tables["hosts"]["found"] >= result.tables["hosts"]["needed"]).all()


def test_a_task_that_comes_too_late_goes_back() -> None:
    """The promise to each client is over before its task comes; the second one finds the host busy."""
    workload = gs.Workload.of([10.0, 10.2], [2, 2], [1e5, 1e5], [0, 1], origin=0.0)
    result = run(gs.ExpandingRing(degree=2, promise=0.1, hop_time=1.0), workload=workload, machines=3)
    assert sent(result)["back"] >= 1
    assert len(result.tables["hosts"]) == 4 + sent(result)["back"]
    assert result.applications["resubmitted"].sum() == 0


def given_away(result: gs.Result) -> list[tuple[int, int, float]]:
    """Each task that was given to a host: its application, the host, and when."""
    table = result.tables["hosts"]
    return [(int(i), *host) for i, host in zip(table["application"], hosts(result), strict=True)]


def test_the_oldest_task_gets_the_next_host() -> None:
    workload = gs.Workload.of([10.0, 20.0], [2, 1], 1e5, [0, 0], origin=0.0)
    result = run(gs.ExpandingRing(), workload=workload, machines=1)
    assert given_away(result) == [(0, 0, 10.0), (0, 0, 110.0), (1, 0, 210.0)]


def test_a_task_that_comes_back_is_the_oldest_again() -> None:
    """Machine 1 offers itself at 10.5 s until 10.6 s, and runs a task of its own when that of 0 comes."""
    workload = gs.Workload.of([10.0, 10.8, 11.2], [2, 1, 1], 1e5, [0, 1, 0], origin=0.0)
    method = gs.ExpandingRing(degree=1, promise=0.1, hop_time=1.0, max_hops=1, retry=1000.0)
    result = run(method, workload=workload, machines=2)
    # back at 12 s, when the task of application 2 waits already; 0 is free at 110 s, and at 210 s
    assert given_away(result) == [(0, 0, 10.0), (1, 1, 10.8), (0, 1, 11.0), (0, 0, 110.0), (2, 0, 210.0)]
    assert sent(result)["back"] == 1
    assert result.tables["hosts"]["needed"].tolist() == [10.0, 10.8, 10.0, 12.0, 11.2]


@pytest.mark.parametrize("short", [1, 2])
def test_a_promise_that_was_kept_does_not_end_the_next_one(line: None, short: int) -> None:
    """Machine 2 offers itself to 1 at 10.5 s, is dismissed at 11.5 s, or has run a short task at 11.6 s.

    It offers itself to 3 at 11.8 s.  The first promise would have ended at 12 s; the second one ends at
    12.8 s with the task of 3, and what 2 has of its own since 12.1 s waits for that.
    """
    sizes = [1e5, 100.0, 1e5, 1e5]
    workload = gs.Workload.of([10.0, 10.0, 11.3, 12.1], [1, short, 2, 1], sizes, [1, 1, 3, 2], origin=0.0)
    result = run(gs.ExpandingRing(promise=1.5, hop_time=1.0, max_hops=1, retry=1000.0), workload=workload)
    assert sent(result).get("dismiss", 0) == 2 - short and "back" not in sent(result)
    of_3_and_2 = [row for row in given_away(result) if row[0] >= 2]
    assert of_3_and_2 == [(2, 3, 11.3), (2, 2, 12.3), (3, 2, 112.8)]


#: The promise of machine 2 to 1 is over at 11.3 s.  At 11.4 s it offers itself to 3, until 12.2 s.
LATE = gs.ExpandingRing(promise=0.8, hop_time=1.0, max_hops=1, retry=1000.0)


def test_a_promise_does_not_end_when_somebody_else_dismisses_the_host(line: None) -> None:
    """1 does so at 11.5 s; what 2 has of its own since 11.6 s waits until 12.2 s."""
    workload = gs.Workload.of([10.0, 10.9, 11.6], [2, 2, 1], 1e5, [1, 3, 2], origin=0.0)
    result = run(LATE, workload=workload)
    assert [row for row in given_away(result) if row[0] == 2] == [(2, 2, 12.2)]


def test_who_is_promised_to_another_client_sends_a_task_back(line: None) -> None:
    """That of 1 comes at 11.5 s; that of 3 comes at 12.4 s, when 2 is promised to nobody."""
    result = run(LATE, workload=gs.Workload.of([10.0, 10.9], [3, 2], 1e5, [1, 3], origin=0.0))
    assert sent(result)["back"] == 1
    assert given_away(result) == [
        (0, 1, 10.0), (1, 3, 10.9), (0, 0, 11.0), (0, 2, 11.0), (1, 2, 11.9), (0, 1, 110.0),
    ]  # fmt: skip


def pauses(result: gs.Result) -> Any:
    """From the end of each search to the beginning of the next (s)."""
    table = result.tables["searches"]
    return table["began"][1:] - table["ended"][:-1]


def test_pauses_double_up_to_16_times() -> None:
    """One machine has nobody to ask; it works until 1010 s, and until 6000 s on the second bag."""
    workload = gs.Workload.of([10.0, 5000.0], [2, 2], 1e6, [0, 0], origin=0.0)
    result = run(gs.ExpandingRing(retry=1.0), workload=workload, machines=1)
    second = result.tables["searches"]["began"][1:] >= 5000.0
    for of_this in (~second, second):
        found = pauses(result)[of_this]
        found = found[found < 1000.0]  # not the time between the bags
        longest = np.minimum(2.0 ** np.arange(len(found)), 16.0)
        assert len(found) > 20 and (found >= 0.5 * longest).all() and (found <= 1.5 * longest).all()


def test_the_pause_is_short_again_after_somebody_was_found(line: None) -> None:
    """Machine 1 is busy until 210 s; of the two tasks that need a host then it takes one."""
    workload = gs.Workload.of([10.0, 10.1], [1, 3], [2e5, 1e6], [1, 0], origin=0.0)
    result = run(gs.ExpandingRing(hop_time=1.0, max_hops=1, retry=10.0), workload=workload, machines=2)
    (k,) = np.flatnonzero(result.tables["searches"]["found"] == 1)
    # at least four pauses before, as 10 + 20 + 40 s are less than 200 s even times 1.5
    assert k >= 4 and pauses(result)[k - 1] >= 0.5 * 80.0
    assert 5.0 <= pauses(result)[k] <= 15.0 and 10.0 <= pauses(result)[k + 1] <= 30.0


@ALL
def test_hosts_are_found_though_answers_take_longer_than_expected(method: Any) -> None:
    result = run(method(degree=3, hop_time=0.1, retry=5.0), tasks=40)
    assert result.machines["tasks"].min() > 5


@ALL
def test_a_client_that_fails_loses_no_task(method: Any) -> None:
    """Machine 0 has tasks in hand for which there is no host yet."""
    faults = gs.Faults.of([0, 0], [30.0, 250.0], [30.0, 260.0])
    result = run(method(degree=3), tasks=12, faults=faults)
    assert result.applications["resubmitted"][0] >= 8 and result.machines["tasks"].sum() == 12


@ALL
@settings(max_examples=12, deadline=None)
@given(scenario=scenarios(max_nodes=9, faults=True))
def test_the_tables_add_up(method: Any, scenario: gs.Scenario) -> None:
    result = gs.simulate(scenario, method(degree=3))
    found, searches = result.tables["hosts"], result.tables["searches"]
    back = int(result.messages["sent"][result.messages["kind"] == "back"].sum())
    tasks = int(result.applications["tasks"].sum())
    assert tasks <= len(found) <= tasks + back + int(result.applications["resubmitted"].sum())
    assert (searches["ended"] >= searches["began"]).all() and (searches["wanted"] > 0).all()


@pytest.mark.parametrize(
    ("make", "said"),
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
            "rendezvous.pick must be one of ('longest', 'random'), got",
        ),
        (lambda: gs.Rendezvous(refresh=0.0), "rendezvous.refresh must be a number > 0 s, got 0.0"),
    ],
)
def test_wrong_parameters(make: Any, said: str) -> None:
    with pytest.raises(gs.ScenarioError) as caught:
        make()
    assert said in str(caught.value)
