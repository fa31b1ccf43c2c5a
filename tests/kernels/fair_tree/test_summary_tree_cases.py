"""The summary tree, case by case."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridcore.fair_tree import summary_tree as tree
from gridcore.queues.summary_grid import SummaryGrid
from tests._helpers.small_trees import BOTH, GRID, NEVER, NS, TOP, full, make, requests, spoilt, tell


@BOTH
def test_a_debit_stays_until_it_is_echoed(module):
    one = make(module)
    tell(one, [1, 2], 50)
    first, _ = one.route(requests((0, 0, 10)), 0)
    second, _ = one.route(requests((0, 0, 4)), 0)
    assert first["tasks"].tolist() == [5, 5] and first["sequence"].tolist() == [1, 1]
    assert second["sequence"].tolist() == [2, 2]
    assert (one.owed(1), one.owed(2)) == (7, 7)
    # seven tasks of 1 displace three of 3
    assert one.known(1, 0)[-1, -1, 2] == 47
    # A summary made before the requests arrived changes nothing.
    tell(one, [1], 60)
    assert (one.owed(1), one.known(1, 0)[-1, -1, 2]) == (7, 57)
    one.acknowledge(first)
    [row] = one.report([1], 0, full(55), [1.0], [0.0])
    assert (row["echo"], one.owed(1)) == (1, 7)
    one.receive(np.array([row]))
    assert (one.owed(1), one.known(1, 0)[-1, -1, 2]) == (2, 54)
    one.acknowledge(second)
    tell(one, [1], 53)
    assert (one.owed(1), one.known(1, 0)[-1, -1, 2]) == (0, 53)
    assert one.owed(2) == 7


@BOTH
def test_a_debit_is_at_most_that_of_each_task_alone(module):
    """Tasks that fill cells would take one more of them by volume, on as many leaves as there are tasks."""
    one = make(module, leaves=4)
    tell(one, [3, 4, 5, 6], 50)
    one.receive(one.report([1, 2], 0, full(0, 0), [], []))
    one.route(requests((0, 1, 4)), 0)
    assert (one.owed(1), one.owed(2)) == (2, 2)
    assert one.known(1, 0)[-1, -1].tolist() == [98, 98, 98]


@BOTH
def test_stale_summaries_are_dropped(module):
    one = make(module)
    old = one.report([1], 0, full(9), [1.0], [0.0])
    new = one.report([1], 0, full(5), [2.0], [0.0])
    assert [old["sequence"][0], new["sequence"][0]] == [0, 1]
    one.receive(new)
    assert one.payloads_in_use == 2
    one.receive(old)
    assert one.known(1, 0).max() == 5
    assert one.payloads_in_use == 1
    again = one.report([1], 0, full(7), [2.0], [0.0])
    one.receive(spoilt(again, "sequence", 1))  # the number of the one that is known
    assert one.known(1, 0).max() == 5


@BOTH
def test_the_same_summary_is_not_sent_twice_unless_asked(module):
    one = make(module)
    assert len(tell(one, [1, 2], 9)) == 2
    assert len(one.report([1, 2], 5, full(9, 2), [1.0, 1.0], [0.0, 0.0])) == 0
    # another minimum is news, and so is a request since the last one
    assert one.report([1, 2], 5, full(9, 2), [1.0, 3.0], [0.0, 0.0])["sender"].tolist() == [2]
    sent, _ = one.route(requests((0, 0, 2)), 0)
    one.acknowledge(sent)
    assert one.report([1, 2], 6, full(9, 2), [1.0, 3.0], [0.0, 0.0])["echo"].tolist() == [1, 1]
    assert len(one.report([1, 2], 7, full(9, 2), [1.0, 3.0], [0.0, 0.0])) == 0
    # a summary in flight is the one of its sending
    assert one.payloads_in_use == 5


@BOTH
def test_payloads_do_not_pile_up(module):
    one = make(module, leaves=4)
    for k in range(600):
        tell(one, [3, 4, 5, 6], k, now=k)
        one.receive(one.report([1, 2], k, full(0, 0), [], []))
        assert one.payloads_in_use <= 6
    assert one.known(1, 0).min() == 2 * 599


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
    assert len(one.report([3], NS, full(7), [1.0], [0.0])) == 0
    assert one.ready([3], NS + 1)[0].tolist() == [3]


@BOTH
def test_the_oldest_change_is_handed_on_once(module):
    one = make(module, leaves=3)
    one.ready([3], 5)
    one.ready([4], 7)
    rows = one.report([3, 4], 8, full(3, 2), [1.0, 1.0], [0.0, 0.0])
    assert rows["since"].tolist() == [5, 7]
    one.receive(rows)
    assert one.report([1], 9, full(0, 0), [], [])["since"].tolist() == [5]
    tell(one, [3], 4)
    assert one.report([1], 9, full(0, 0), [], [])["since"].tolist() == [NEVER]


@BOTH
def test_a_request_climbs_until_the_bound_holds(module):
    one = make(module, leaves=4, bound=1.0)
    for node, least in ((3, 1.0), (4, 1.0), (5, 0.5), (6, math.inf)):
        tell(one, [node], 2, least)
    one.receive(one.report([1, 2], 0, full(0, 0), [], []))
    # The smallest sample is 0.5; beneath 1 the minimum is 1.0, and 5 tasks are too many.
    sent, decisions = one.route(requests((1, 0, 4), (1, 0, 5)), 0)
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
    sent, decisions = one.route(requests((1, 0, 1)), 0)
    assert [len(decisions), len(sent)] == [1, 1]
    # A request from the parent brings the minimum along.
    row = requests((1, 0, 1, 1))
    row["minimum"] = 0.25
    assert one.route(row, 0)[1]["hops"].tolist() == [-1]
    assert len(one.route(requests((1, 0, 1)), 0)[1]) == 0
    assert one.below_window == 3


@BOTH
def test_the_bound_itself_is_accepted(module):
    one = make(module, leaves=4, bound=2.0)
    tell(one, [3, 4], 2, 0.25)
    assert one.route(requests((1, 0, 4)), 0)[1]["sample"].tolist() == [0]
    tell(one, [3, 4], 2, 0.249)
    assert len(one.route(requests((1, 0, 1)), 0)[1]) == 0


@BOTH
def test_an_application_outside_the_grid_goes_to_the_root_and_by_speed(module):
    one = module.SummaryTree(
        GRID, [1.0, 3.0], release=[0.0] * 2, size=[0.5, 4.0], task_size=[0.25, 3.5], nbytes=0, bound=math.inf
    )
    tell(one, [1, 2], 100)
    sent, decisions = one.route(requests((0, 0, 8), (0, 1, 2)), 0)
    assert decisions["sample"].tolist() == [-1, -1]
    assert decisions["guaranteed"].tolist() == [0, 0]
    assert sent["tasks"].tolist() == [2, 6, 1, 1]
    assert one.above_window == 2


@BOTH
def test_what_is_guaranteed_goes_first(module):
    one = make(module)
    tell(one, [1], 7)
    sent, _ = one.route(requests((0, 0, 17)), 0)
    assert sent["tasks"].tolist() == [12, 5]


@BOTH
def test_without_leaves_halves_go_on(module):
    one = make(module)
    one.leave([1, 2])
    sent, _ = one.route(requests((0, 0, 9)), 0)
    assert sent["tasks"].tolist() == [5, 4]
    # and otherwise by speed, also of slow ones
    slow = module.SummaryTree(GRID, [0.25, 0.5], release=[0.0], size=[4.0], task_size=[1.0], nbytes=0)
    assert slow.route(requests((0, 0, 9)), 0)[0]["tasks"].tolist() == [3, 6]


@BOTH
def test_the_rims_of_the_grid_belong_to_it(module):
    one = module.SummaryTree(GRID, [1.0, 1.0], release=[0.0], size=[1.0], task_size=[3.0], nbytes=0)
    tell(one, [1, 2], 5)
    rooms, least = one.look(0, 0, 0)
    assert rooms.tolist() == [[5, 5]] * 3 and least == 1.0


@BOTH
def test_what_dispatches_displace_is_summed_up_from_the_last_one_on(module):
    """(1.86 + 0.93) + 0.21 are 3 tasks of 1 s; in another order rounding makes them more than 3."""
    size = [0.21, 0.93, 1.86]
    one = module.SummaryTree(SummaryGrid([1.0], [1.0], [1.0, 3.0]), [1.0, 1.0], release=[0.0] * 3,
                             size=[1.0] * 3, task_size=size, nbytes=0)  # fmt: skip
    assert sum(size[::-1]) == 3.0 < size[0] + size[2] + size[1]
    one.receive(one.report([1], 0, np.array([[[[50, 0]]]], np.uint32), [1.0], [0.0]))
    for application in range(3):
        one.route(requests((0, application, 1)), 0)
    assert one.owed(1) == 3 and one.known(1, 0)[0, 0].tolist() == [47, 0]


@BOTH
def test_the_first_request_of_a_router_is_answered_by_a_summary(module):
    """Its number may be 0; it is not one that climbs, and the next summary says so at least."""
    one = make(module, leaves=4)
    assert len(one.report([1], 0, full(0, 0), [], [])) == 1
    assert len(one.report([1], 0, full(0, 0), [], [])) == 0
    sent, decisions = one.route(requests((1, 0, 4, 0)), 0)
    assert decisions["hops"].tolist() == [-1] and sent["node"].tolist() == [3, 4]
    assert one.report([1], 0, full(0, 0), [], [])["echo"].tolist() == [0]


@BOTH
def test_the_first_summary_is_shifted_as_any_other(module):
    """What is known for another release, from the first payload of all and from a later one."""
    rooms = []
    for before in (False, True):
        one = make(module, release=[0.0, 6.0], celled=True)
        if before:
            tell(one, [1, 2], 9)
        one.receive(one.report([1, 2], 0, full(50, 2), [1.0, 1.0], [0.0, 0.0]))
        rooms.append([one.look(0, application, 0)[0].tolist() for application in (0, 1)])
    assert rooms[0] == rooms[1]
    # 6 s at 1/s, and one more task of 3 s, displace 3 of them
    assert rooms[0] == [[[50, 50]] * 3, [[47, 47]] * 3]


@BOTH
def test_who_knows_nothing_says_so_for_release_0(module):
    one = make(module, leaves=5, celled=True)
    one.receive(one.report([3, 4], 0, full(9), [1.0], [0.0]))
    assert len(one.report([1], 0, full(0, 0), [], [])) == 1


@BOTH
def test_the_root_may_be_a_leaf_and_hears_too(module):
    """Node 0 is no exception among the rows."""
    one = make(module, leaves=1)
    one.acknowledge(requests((0, 0, 1, 3)))
    two = make(module)
    two.take_spread(np.array([(0, 0, 0.125)], tree.SPREAD))
    assert two.look(0, 0, 0)[1] == 0.125


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
    one.receive(one.report([1], 0, full(0, 0), [], []))
    assert one.known(1, 0).max() == TOP
    # the shares of the largest request are exact
    sent, _ = one.route(requests((0, 0, 2 * TOP - 1)), 0)
    assert sent["tasks"].tolist() == [TOP, TOP - 1]


@BOTH
def test_summaries_of_different_cells_are_not_added(module):
    cells = full(9, 1)
    for celled in (False, True):
        one = make(module, leaves=3, celled=celled)
        one.receive(one.report([3], 0, cells, [1.0], [0.0]))
        one.receive(one.report([4], 0, cells, [1.0], [5.0]))
        told = one.report([1], 0, full(0, 0), [], [])
        assert len(told) == (not celled)
        one.receive(one.report([3], 0, full(8), [1.0], [5.0]))
        assert len(one.report([1], 0, full(0, 0), [], [])) == 1


@BOTH
def test_a_tree_of_one_leaf(module):
    one = make(module, leaves=1)
    assert (one.nodes, one.first_leaf) == (1, 0)
    assert [x.tolist() for x in one.ready([0], 5)] == [[], [], []]
    assert len(one.report([0], 5, full(0, 0), [], [])) == 0
    assert len(one.spread([0])) == 0
    assert one.owed(0) == 0 and not one.known(0, 0).any()
    with pytest.raises(ValueError, match="must be a router"):
        one.route(requests((0, 0, 1)), 0)


@BOTH
def test_extreme_task_sizes_leave_nothing(module):
    grid = SummaryGrid([1.0], [1e300], [1e-300, 1e300])
    one = module.SummaryTree(grid, [1.0, 1.0], release=[0.0], size=[1e300], task_size=[1e299], nbytes=0)
    cells = np.full((2, 1, 1, 2), 2**31, np.uint32)
    one.receive(one.report([1, 2], 0, cells, [1.0, 1.0], [0.0, 0.0]))
    one.route(requests((0, 0, 2)), 0)
    assert one.known(1, 0)[0, 0].tolist() == [2**31 - 1, 2**31 - 1]


@BOTH
def test_old_requests_are_read_at_the_size_that_is_left(module):
    """At S the deadline 4 S of 4 Mflop released at 0 is for a summary of t like one of size 4 - t / S."""
    for release, now, reads in (
        (0.0, 0, [2, 2, 2]),  # 4 Mflop
        (1.0, 1, [1, 2, 2]),  # 2, 3 and 3.5 Mflop, of which samples are 1 and 3
        (math.inf, 1, [1, 2, 2]),  # idle leaves are at any moment as they were
        (4.0, 4, [0, 0, 1]),  # the deadline has passed, is now, is 4 s ahead: 2 Mflop
        (1.0, 4, [0, 0, 2]),  # what is known of 1 s is read as of then, where there is time at all
        (-1.0, 0, [2, 2, 2]),  # older than the request: as of its release
    ):
        one = module.SummaryTree(
            SummaryGrid([0.5, 1.0, 2.0], [1.0, 3.0], [1.0]), [1.0, 1.0],
            release=[0.0], size=[4.0], task_size=[1.0], nbytes=0,
        )  # fmt: skip
        cells = np.array([[[[1], [2]]] * 3] * 2, np.uint32)
        one.receive(one.report([1, 2], now * NS, cells.reshape(2, 3, 2, 1), [1.0, 1.0], [release] * 2))
        assert one.look(0, 0, now * NS)[0].tolist() == [[n, n] for n in reads]


@BOTH
def test_a_sum_is_as_new_as_the_newest_of_its_parts(module):
    one = make(module, leaves=4, release=[0.0, 0.0])
    one.receive(one.report([3, 4, 5, 6], 0, full(9, 4), [1.0] * 4, [0.0, 2.0, 0.0, math.inf]))
    one.receive(one.report([1, 2], 3 * NS, full(0, 0), [], []))
    # 16 Mflop at 0.5, 1, 2 s/Mflop, of 2 s and of now
    rooms = one.look(0, 1, 3 * NS)[0]
    assert rooms.tolist() == [[18, 18]] * 3
    # 4 Mflop: 0 and less is left at 0.5; 2 and 1 at 1
    assert one.look(0, 0, 3 * NS)[0].tolist() == [[0, 0], [18, 18], [18, 18]]


@BOTH
def test_further_applications_are_routed(module):
    one = make(module)
    one.add_applications([3.0], [8.0], [3.0])
    tell(one, [1, 2], 5)
    assert one.look(0, 2, 0)[0].tolist() == [[5, 5]] * 3
    assert one.route(requests((0, 2, 10)), 0)[0]["tasks"].tolist() == [5, 5]


@BOTH
def test_a_router_that_is_gone_has_nobody_below(module):
    one = make(module, leaves=4)
    tell(one, [3, 4, 5, 6], 5)
    one.receive(one.report([1, 2], 0, full(0, 0), [], []))
    one.silence([1])
    assert [x.tolist() for x in one.ready([1, 2], 0)] == [[2], [], []]
    assert one.look(0, 0, 0)[0][0].tolist() == [10, 10]
    one.leave([1])
    assert one.look(0, 0, 0)[0][0].tolist() == [0, 10]
    assert one.route(requests((0, 0, 50)), 0)[0]["node"].tolist() == [2]
    one.silence([1])  # whoever is known to be gone stays so
    assert len(one.spread([1], True)) == 0
    one.reset([1])
    assert one.route(requests((0, 0, 50)), 0)[0]["tasks"].tolist() == [25, 25]
