"""Recorded decisions, compared with small cases computed by hand.

`check_scheduler` checks for every scheduler that recording decisions changes nothing.
"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.decisions import Decisions, DecisionTexts, why
from gridsim.results.table import Table
from gridsim.schedulers.fair_tree.scheduler import FairTree
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot

#: Samples of a fair tree.
SMALL = (4, 3, 2)
LATENCY, REQUEST = 0.05, 1.36e-3


def assert_close(values: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(values, float), expected, rtol=2e-9, atol=1e-12)


def rows_of(table: Table, *actions: str) -> Table:
    mask = np.isin(table["action"], actions)
    return Table({name: column[mask] for name, column in table.items()})


def bags(speeds: list[float], release: Any, tasks: Any, task_size: Any = 1000.0, **rest: Any) -> gs.Scenario:
    submitter = rest.pop("submitter", np.zeros(len(release), int))
    workload = gs.Workload.of(release, tasks, task_size, submitter, origin=0.0)
    return gs.Scenario(gs.Platform.of(speeds), workload, **rest)


# -- the log ------------------------------------------------------------------------------------------------

WORDS = {"took": ("took {tasks} of it", "a wait of", "s"), "left": ("left it", "", "")}


def test_log_keeps_the_first_rows_and_counts_the_others() -> None:
    log = Decisions(WORDS, limit=5)
    for k in range(3):
        log.record("took", time=k, application=[0, 1, 2], decider=-1, tasks=[k, k, k], saw=0.5)
    assert (log.kept, log.dropped) == (5, 4)
    table = log.table()
    assert table["application"].tolist() == [0, 1, 2, 0, 1] and table["tasks"].tolist() == [0, 0, 0, 1, 1]
    assert log.metadata() == {
        "words": {"took": ["took {tasks} of it", "a wait of", "s"], "left": ["left it", "", ""]},
        "kept": 5,
        "dropped": 4,
        "limit": 5,
    }
    assert len(log.getstate()["rows"]) == 5
    with pytest.raises(KeyError):
        log.record("gave", time=0, application=0, decider=0)


@pytest.mark.parametrize(
    "text", [("took {that}", "", ""), ("took", ""), (1, "", ""), ("took {tasks", "", "")]
)
def test_invalid_texts_are_rejected(text: Any) -> None:
    with pytest.raises(gs.ScenarioError, match=r"^decision_words\['took'\]"):
        Decisions({"took": text})


def test_scheduler_without_texts_does_not_record_decisions() -> None:
    class SchedulerWithoutTexts(gs.MinCent, frozen=True, kw_only=True):
        decision_words: ClassVar[DecisionTexts] = {}

    scenario = bags([1000.0], [0.0], 1)
    with pytest.raises(gs.ScenarioError, match="^mincent does not support record"):
        gs.simulate(scenario, SchedulerWithoutTexts(), record="decisions")
    with pytest.raises(
        gs.ScenarioError,
        match="^record",
    ):
        gs.simulate(scenario, gs.MinCent(), record="everything")


def test_explanation_lists_the_decisions_of_an_application() -> None:
    result = gs.simulate(bags([1000.0] * 2, [10.0], 4), FairTree(samples=SMALL), record="decisions")
    assert str(result.why(0)).splitlines() == [
        "application 0: 6 decisions",
        "t = 10.000000 s: machine 0 sent a request for 4 tasks to the router on machine 0",
        "t = 10.000000 s: the router of level 0 on machine 0 accepted 4 tasks for its 2 machines, as "
        "the root, and promised the stretch",
        "    saw a stretch of 0.000629961 s/Mflop; 10 s old; true value 0.0005",
        *(
            line
            for machine in (0, 1)
            for line in (
                "t = 10.000000 s: the router of level 0 on machine 0 gave 2 tasks to its child on machine "
                f"{machine}",
                "    saw room for 2 tasks; 10 s old; true value 2",
            )
        ),
        "t = 10.000000 s: machine 0 (level 1) queued 2 tasks",
        "    saw a minimum stretch of all it has of 0.0005 s/Mflop; fresh and true",
        "t = 10.051360 s: machine 1 (level 1) queued 2 tasks",
        "    saw a minimum stretch of all it has of 0.00051284 s/Mflop; fresh and true",
    ]


def test_a_choice_without_answers_says_so() -> None:
    late = gs.PowerOfD(patience=0.01)  # shorter than a round trip
    result = gs.simulate(bags([1000.0] * 50, [10.0], 1), late, record="decisions")
    text = str(result.why(0))
    assert (
        "put a task on machine" in text and "; no candidate was known\n    true value: tasks there:" in text
    )
    assert "inf" not in text and "among" not in text


def test_large_numbers_are_printed_in_full() -> None:
    log = Decisions({"took": ("took it for {limit} s, {saw:.3g}", "a wait of", "s")})
    instant = 2_086_480_123_456_789
    log.record(
        "took",
        time=instant,
        application=0,
        decider=-1,
        saw=2_086_480.25,
        limit=1e6,
        true=math.inf,
        age=999_999.9,
    )
    log.record(
        "took",
        time=instant,
        application=0,
        decider=-1,
        saw=1234.5678,
        limit=1e18,
        true=0.00012345678,
        age=0.0,
    )
    assert str(why(log.table(), log.metadata(), 0, None)).splitlines()[1:] == [
        "t = 2086480.123457 s: the scheduler took it for 1000000 s, 2086480",
        "    saw a wait of 2086480 s; 1000000 s old; true value inf",
        "t = 2086480.123457 s: the scheduler took it for 1e+18 s, 1235",
        "    saw a wait of 1234.57 s; fresh; true value 0.000123457",
    ]


def test_why_requires_decisions_and_a_valid_index() -> None:
    scenario = bags([1000.0] * 2, [10.0], 4)
    with pytest.raises(gs.GridSimError, match='record="decisions"'):
        gs.simulate(scenario, FairTree(samples=SMALL), record=True).why(0)
    result = gs.simulate(scenario, FairTree(samples=SMALL), record="all")
    assert {"schedule", "arrivals", "decisions"} <= set(result.tables)
    with pytest.raises(IndexError, match="^application must be in 0..0"):
        result.why(1)
    with pytest.raises(IndexError, match="^task must be in 0..3"):
        result.why(0, 4)


def test_limited_result_keeps_the_first_decisions() -> None:
    scenario = bags([1000.0] * 2, [10.0, 11.0], 4)
    unlimited = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions")
    limited = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions", decisions_limit=5)
    assert limited.digest == unlimited.digest and len(limited.tables["decisions"]) == 5
    for name, column in limited.tables["decisions"].items():
        np.testing.assert_array_equal(column, unlimited.tables["decisions"][name][:5])
    dropped = len(unlimited.tables["decisions"]) - 5
    assert limited.provenance["decisions"]["dropped"] == dropped
    assert str(limited.why(1)).endswith(
        f"{dropped} later decisions of this run were not kept: the limit was reached"
    )


def test_decisions_are_saved_and_not_part_of_the_digest(tmp_path: Any) -> None:
    scenario = bags([1000.0] * 2, [10.0], 4)
    result = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions")
    result.save(tmp_path / "result.npz")
    loaded = gs.Result.load(tmp_path / "result.npz")
    assert str(loaded.why(0)) == str(result.why(0)) and loaded.digest == result.digest
    assert result.digest == gs.simulate(scenario, FairTree(samples=SMALL)).digest


# -- the fair tree ------------------------------------------------------------------------------------------


def test_ages_of_reports_on_two_machines_are_as_computed_by_hand() -> None:
    """Leaf 1 is at the machine of the root; leaf 2 gets its share, and reports it, a message later each."""
    scenario = bags([1000.0] * 2, [10.0, 10.01, 10.2], 4)
    result = gs.simulate(scenario, FairTree(accept="minimum", samples=SMALL, bound=1e9), record="decisions")
    table = result.tables["decisions"]
    # the last reports of both leaves to the root were at 0
    gave = rows_of(table, "gave")
    assert gave["tasks"].tolist()[:2] == [2, 2] and gave["machine"].tolist()[:2] == [0, 1]
    first, second, third = (rows_of(result.why(i).decisions, "accepted-at-root", "gave") for i in range(3))
    assert_close(first["age"], [10.0, 10.0, 10.0])
    # sizes are sampled 1 % lower, so the second sample is chosen; it has room for half a task more than
    # needed
    assert_close(first["saw"], [result.facts["grid"]["stretch"][1], 3, 3])
    assert_close(first["true"], [0.0005, 3, 3])
    # 10 ms later leaf 1 has reported its tasks; those of leaf 2 are still in transit, so leaf 2 is idle and
    # has more room than the root assumes
    assert_close(second["age"], [10.01, 0.01, 10.01])
    assert second["saw"][2] < second["true"][2]
    # then both leaves have received a second share, and report it as soon as the rate limit allows
    gap = 186 / 10_000
    assert_close(third["age"], [10.2 - 10.0 - gap, 10.2 - 10.0 - gap, 10.2 - 10.0 - LATENCY - REQUEST - gap])


# -- central schedulers -------------------------------------------------------------------------------------

#: Two machines, of 1000 and 500 Mflop/s; 3 tasks of 1000 Mflop at 0 s, and 3 more at 1 s.
TWO = bags([1000.0, 500.0], [0.0, 1.0], 3)
CENTRAL: dict[str, tuple[gs.Scheduler, list[tuple[str, float, int, int, int, float]]]] = {
    # of the second application: action, time, machine, tasks, among, saw
    # at 1 s the fast machine has become free, the slow one has half a task left, and another task waits
    "replan": (gs.MinCent(), [("ordered", 1.0, -1, 3, 2, (500 + 1000 + 3000) / 1500 / 3000)]),
    "pull": (gs.Fcfs(mode="pull"), [("listed", 1.0, -1, 3, 2, 1.0)]),
    "shortest": (gs.ShortestBagFirst(), [("sorted", 1.0, -1, 3, 2, 1.0)]),
    # both machines are busy until 2 s: they complete 2 and 1 of the tasks at 4 s
    "ect": (gs.Fcfs(), [("bound", 1.0, 0, 3, 2, 3.0)]),
    "met": (gs.Met(), [("bound", 1.0, 0, 3, 2, 1.0)]),
    "once": (gs.MinCent(mode="once"), [("bound", 1.0, 0, 3, 2, 3.0 / 3000)]),
    "min-min": (gs.MinMin(), [("mapped", 1.0, 0, 3, 2, 3.0)]),
}


@pytest.mark.parametrize("name", CENTRAL)
def test_central_schedulers_record_their_decisions(name: str) -> None:
    scheduler, expected = CENTRAL[name]
    table = gs.simulate(TWO, scheduler, record="decisions").why(1).decisions
    columns = ("action", "time", "machine", "tasks", "among")
    rows = list(zip(*(table[column].tolist() for column in columns), strict=True))
    assert rows == [row[:5] for row in expected]
    assert_close(table["saw"], [row[5] for row in expected])
    assert (table["true"] == table["saw"]).all() and not table["age"].any() and (table["decider"] == -1).all()


def test_replan_uses_the_machines_that_are_up() -> None:
    """Machine 1 fails at 5 s: three tasks of 10 Mflop wait and 5 Mflop run, so the last one ends at 40 s."""
    faults = gs.Faults.of([1], [5.0], [math.inf])
    scenario = bags([1.0, 1.0], [0.0], 4, 10.0, faults=faults)
    table = gs.simulate(scenario, gs.MinCent(), record="decisions").tables["decisions"]
    columns = (table[name].tolist() for name in ("action", "time", "tasks", "saw"))
    assert list(zip(*columns, strict=True)) == [("ordered", 0.0, 4, 0.5), ("ordered", 5.0, 3, 1.0)]


# -- work queues --------------------------------------------------------------------------------------------

PLAIN = {"task_order": "small", "machine_choice": "cpu", "checkpoint_interval": math.inf}
#: The fast machine fails at 0.75 s, with its second task.
FAILING = bags([2000.0, 1000.0], [0.0], 3, faults=gs.Faults.of([0], [0.75], [10.0]))


def test_work_queue_records_starts_and_restarts() -> None:
    table = gs.simulate(FAILING, gs.WqrFt(**PLAIN), record="decisions").tables["decisions"]
    columns = ("action", "time", "task", "machine", "tasks", "among", "limit")
    assert list(zip(*(table[column].tolist() for column in columns), strict=True)) == [
        ("started", 0.0, 0, 0, 3, 2, 0.5),
        ("started", 0.0, 1, 1, 2, 1, 1.0),
        ("started", 0.5, 2, 0, 1, 1, 0.5),
        ("restarted", 1.0, 2, 1, 1, 1, 1.0),
    ]
    assert table["saw"].tolist() == table["true"].tolist() == [0.75, math.inf, 0.25, math.inf]


@pytest.mark.parametrize(
    ("scheduler", "scenario"),
    [(FairTree(samples=SMALL), TWO), (gs.MinCent(), TWO), (gs.WqrFt(), FAILING), (gs.Wave(), FAILING)],
)
def test_decisions_are_restored_from_a_checkpoint(scheduler: gs.Scheduler, scenario: gs.Scenario) -> None:
    options = Options(record="decisions")
    snapshots, run = [], Simulation(scenario, scheduler, options)
    run.engine.at_wave_end(lambda: None if run.engine.stopping else snapshots.append(snapshot(run)))
    uninterrupted = run.run().tables["decisions"]
    for text, arrays in snapshots[:: max(1, len(snapshots) // 3)]:
        resumed, copies = Simulation(scenario, scheduler, options), [array.copy() for array in arrays]
        state: Any = unpack(json.loads(text), copies.__getitem__)
        resumed.setstate(state.state)
        for name, column in resumed.run().tables["decisions"].items():
            np.testing.assert_array_equal(column, uninterrupted[name])


#: Many simultaneous events, and failing machines that lose requests.
DESKTOPS = gs.Scenario(
    gs.Platform.of([1000.0, 500.0] * 4),
    gs.Workload.of([0.0, 0.0, 1.0, 5.0, 5.0], 9, 1000.0, [0, 3, 5, 5, 7]),
    faults=gs.Faults.exponential(20.0, 3.0, seed=1),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        FairTree(samples=SMALL, heartbeat=5.0),
        gs.MinCent(),
        gs.Mct(),
        gs.MinMin(),
        gs.WqrFt(predictor="past"),
        gs.Wave(mode="migration-linger", linger=4.0),
    ],
    ids=lambda item: item.name,
)
def test_decisions_do_not_depend_on_the_cohort_limit(scheduler: gs.Scheduler) -> None:
    unlimited, *limited = (
        gs.simulate(DESKTOPS, scheduler, record="decisions", cohort_limit=limit) for limit in (None, 1, 3)
    )
    assert all(result.tables["decisions"] == unlimited.tables["decisions"] for result in limited)
    assert unlimited.digest == gs.simulate(DESKTOPS, scheduler).digest
    assert unlimited.machines["failures"].sum() > 3


def test_true_uptimes_agree_with_the_failures() -> None:
    result = gs.simulate(DESKTOPS, gs.WqrFt(predictor="age", checkpoint_cost=0.1), record="all")
    schedule, decisions = result.tables["schedule"], result.tables["decisions"]
    names = "application", "task", "machine"
    starts = zip(*(decisions[name].tolist() for name in (*names, "time")), strict=True)
    fails = dict(zip(starts, (decisions["time"] + decisions["true"]).tolist(), strict=True))
    runs = zip(*(schedule[name].tolist() for name in (*names, "start")), strict=True)
    left = np.array([fails.pop(key) for key in runs]) - schedule["end"]
    assert not fails and left.min() > -1e-9
    interrupted = (np.abs(left) < 1e-9) & (schedule["completed"] == 0)
    assert interrupted.sum() == result.machines["interrupted"].sum() > 3
    actions = decisions["action"].tolist()
    assert actions.count("restarted") == result.applications["resubmitted"].sum()
    assert actions.count("replicated") == result.applications["replicas"].sum()
