"""Decisions as they are noted, against small cases by hand; that noting them changes nothing is an invariant.

`check_scheduler` holds that for every scheduler; see tests/testing/test_conformance.py.
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
from gridsim.simulation.simulate import Options, Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import snapshot

#: Samples of a fair tree.
SMALL = (4, 3, 2)
LATENCY, REQUEST = 0.05, 1.36e-3


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=2e-9, atol=1e-12)


def chosen(table: Table, *actions: str) -> Table:
    which = np.isin(table["action"], actions)
    return Table({name: column[which] for name, column in table.items()})


def bags(speeds: list[float], release: Any, tasks: Any, task_size: Any = 1000.0, **rest: Any) -> gs.Scenario:
    submitter = rest.pop("submitter", np.zeros(len(release), int))
    workload = gs.Workload.of(release, tasks, task_size, submitter, origin=0.0)
    return gs.Scenario(gs.Platform.of(speeds), workload, **rest)


# -- the log ------------------------------------------------------------------------------------------------

WORDS = {"took": ("took {tasks} of it", "a wait of", "s"), "left": ("left it", "", "")}


def test_a_log_keeps_the_first_and_counts_the_rest() -> None:
    log = Decisions(WORDS, limit=5)
    for k in range(3):
        log.record("took", time=k, application=[0, 1, 2], decider=-1, tasks=[k, k, k], saw=0.5)
    assert (log.kept, log.dropped) == (5, 4)
    table = log.table()
    assert table["application"].tolist() == [0, 1, 2, 0, 1] and table["tasks"].tolist() == [0, 0, 0, 1, 1]
    assert log.about() == {
        "words": {"took": ["took {tasks} of it", "a wait of", "s"], "left": ["left it", "", ""]},
        "kept": 5,
        "dropped": 4,
        "limit": 5,
    }
    assert len(log.getstate()["rows"]) == 5
    with pytest.raises(KeyError):
        log.record("gave", time=0, application=0, decider=0)


@pytest.mark.parametrize(
    "said", [("took {that}", "", ""), ("took", ""), (1, "", ""), ("took {tasks", "", "")]
)
def test_words_that_cannot_be_said(said: Any) -> None:
    with pytest.raises(gs.ScenarioError, match=r"decision_words\['took'\] must be a sentence with columns"):
        Decisions({"took": said})


def test_a_scheduler_that_does_not_say_what_it_decides() -> None:
    class Mute(gs.MinCent, frozen=True, kw_only=True):
        decision_words: ClassVar[DecisionTexts] = {}

    scenario = bags([1000.0], [0.0], 1)
    with pytest.raises(
        gs.ScenarioError, match="record must not be 'decisions' for mincent, which does not say"
    ):
        gs.simulate(scenario, Mute(), record="decisions")
    with pytest.raises(
        gs.ScenarioError,
        match="record must be one of False, True, 'schedule', 'decisions', 'messages', 'all'",
    ):
        gs.simulate(scenario, gs.MinCent(), record="everything")


def test_what_is_said_of_one() -> None:
    result = gs.simulate(bags([1000.0] * 2, [10.0], 4), FairTree(samples=SMALL), record="decisions")
    assert str(result.why(0)).splitlines() == [
        "application 0: 6 decisions",
        "t = 10.000000 s: machine 0 sent a request for 4 tasks to machine 0",
        "t = 10.000000 s: machine 0 (level 0) accepted 4 tasks for its 2 machines, as the root, and promised "
        "the stretch",
        "    saw a stretch of 0.000629961 s/Mflop; 10 s old; true value 0.0005",
        *(
            line
            for machine in (0, 1)
            for line in (
                f"t = 10.000000 s: machine 0 (level 0) gave 2 tasks to its child on machine {machine}",
                "    saw room for 2 tasks; 10 s old; true value 2",
            )
        ),
        "t = 10.000000 s: machine 0 (level 1) queued 2 tasks",
        "    saw a minimum stretch of all it has of 0.0005 s/Mflop; fresh and true",
        "t = 10.051360 s: machine 1 (level 1) queued 2 tasks",
        "    saw a minimum stretch of all it has of 0.00051284 s/Mflop; fresh and true",
    ]


def test_large_numbers_are_said_in_full() -> None:
    log = Decisions({"took": ("took it for {limit} s, {saw:.3g}", "a wait of", "s")})
    at = 2_086_480_123_456_789
    log.record(
        "took", time=at, application=0, decider=-1, saw=2_086_480.25, limit=1e6, true=math.inf, age=999_999.9
    )
    log.record(
        "took", time=at, application=0, decider=-1, saw=1234.5678, limit=1e18, true=0.00012345678, age=0.0
    )
    assert str(why(log.table(), log.about(), 0, None)).splitlines()[1:] == [
        "t = 2086480.123457 s: the scheduler took it for 1000000 s, 2086480",
        "    saw a wait of 2086480 s; 1000000 s old; true value inf",
        "t = 2086480.123457 s: the scheduler took it for 1e+18 s, 1235",
        "    saw a wait of 1234.57 s; fresh; true value 0.000123457",
    ]


def test_why_is_refused_without_decisions_and_out_of_range() -> None:
    scenario = bags([1000.0] * 2, [10.0], 4)
    with pytest.raises(gs.GridSimError, match='record="decisions"'):
        gs.simulate(scenario, FairTree(samples=SMALL), record=True).why(0)
    result = gs.simulate(scenario, FairTree(samples=SMALL), record="all")
    assert {"schedule", "arrivals", "decisions"} <= set(result.tables)
    with pytest.raises(IndexError, match="application 1 of 1"):
        result.why(1)
    with pytest.raises(IndexError, match="task 4 of 4 of application 0"):
        result.why(0, 4)


def test_the_first_are_kept_and_the_others_counted() -> None:
    scenario = bags([1000.0] * 2, [10.0, 11.0], 4)
    every = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions")
    few = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions", decisions_limit=5)
    assert few.digest == every.digest and len(few.tables["decisions"]) == 5
    for name, column in few.tables["decisions"].items():
        np.testing.assert_array_equal(column, every.tables["decisions"][name][:5])
    dropped = len(every.tables["decisions"]) - 5
    assert few.provenance["decisions"]["dropped"] == dropped
    assert str(few.why(1)).endswith(
        f"{dropped} later decisions of this run were not kept: the limit was reached"
    )


def test_saved_and_loaded_and_not_part_of_the_digest(tmp_path: Any) -> None:
    scenario = bags([1000.0] * 2, [10.0], 4)
    result = gs.simulate(scenario, FairTree(samples=SMALL), record="decisions")
    result.save(tmp_path / "result.npz")
    again = gs.Result.load(tmp_path / "result.npz")
    assert str(again.why(0)) == str(result.why(0)) and again.digest == result.digest
    assert result.digest == gs.simulate(scenario, FairTree(samples=SMALL)).digest


# -- the fair tree ------------------------------------------------------------------------------------------


def test_fair_tree_ages_on_two_machines() -> None:
    """Leaf 1 sits with the root, leaf 2 learns of its share a message later, and says so a message later."""
    scenario = bags([1000.0] * 2, [10.0, 10.01, 10.2], 4)
    result = gs.simulate(scenario, FairTree(accept="minimum", samples=SMALL, bound=1e9), record="decisions")
    table = result.tables["decisions"]
    # both leaves told the root at 0, and were silent since
    gave = chosen(table, "gave")
    assert gave["tasks"].tolist()[:2] == [2, 2] and gave["machine"].tolist()[:2] == [0, 1]
    first, second, third = (chosen(result.why(i).decisions, "accepted-at-root", "gave") for i in range(3))
    close(first["age"], [10.0, 10.0, 10.0])
    # the second sample, since sizes are sampled 1 % below, has room for half a task more than needed
    close(first["saw"], [result.facts["grid"]["stretch"][1], 3, 3])
    close(first["true"], [0.0005, 3, 3])
    # 10 ms later leaf 1 has said what it got, leaf 2 has not got it: the root owes it 2 tasks, in truth it is
    # idle and has room for more
    close(second["age"], [10.01, 0.01, 10.01])
    assert second["saw"][2] < second["true"][2]
    # then both have got a second share, and said so as soon as the limit of their rate allows after the first
    gap = 186 / 10_000
    close(third["age"], [10.2 - 10.0 - gap, 10.2 - 10.0 - gap, 10.2 - 10.0 - LATENCY - REQUEST - gap])


def test_fair_tree_passes_on_what_it_would_do_too_late() -> None:
    """The router of machine 1 has two of four machines, which can do it at twice the stretch."""
    scenario = bags([1000.0] * 4, [1.0, 2.0], [4, 12], submitter=[1, 1])
    grid = (0.00025, 0.0003, 0.0005, 0.001), (1000.0, 4000.0, 12000.0), (1000.0,)
    result = gs.simulate(
        scenario, FairTree(accept="minimum", grid=grid, minimum_of="busy"), record="decisions"
    )
    idle, late = (chosen(result.why(i).decisions, "passed-on", "passed-on-idle") for i in range(2))
    # nobody is busy: no stretch is small enough
    assert idle["action"].tolist() == ["passed-on-idle"] and np.isnan(idle["limit"][0])
    assert [idle[name][0] for name in ("decider", "machine", "level", "among")] == [1, 0, 1, 2]
    close(idle["true"], [2 / 4000])
    # held against B times the smallest stretch of the busy leaf it knows of: its own, which had a task put
    # into an empty queue as soon as the request had been up and down again
    assert late["action"].tolist() == ["passed-on"] and [*idle["saw"], *late["saw"]] == [0.0005, 0.001]
    down = 1.0 + 2 * (LATENCY + REQUEST)
    close(late["limit"], [(down + 1.0 - 1.0) / 4000])
    # in truth each machine is free for 6 tasks when it is through with the one it has
    own = down + LATENCY + REQUEST
    close(late["true"], [(own + 1.0 + 6.0 - 2.0) / 12000])


def test_fair_tree_counts_idle_leaves_by_their_own_speed() -> None:
    """Router 1 has machines 0 and 1: the fast one, idle, is the least; the bound is three times that."""
    scenario = bags([1000.0, 4000.0, 1000.0, 1000.0], [10.0], 2, submitter=[1])
    grid = (0.001, 0.002), (2000.0,), (1000.0,)
    tree = FairTree(accept="minimum", grid=grid, bound=3.0, minimum_of="inverse-speed")
    first = gs.simulate(scenario, tree, record="decisions").why(0).decisions
    passed = chosen(first, "passed-on", "passed-on-idle", "accepted")
    assert (passed["action"].tolist(), passed["decider"].tolist()) == (["passed-on"], [1])
    close([passed["saw"][0], passed["limit"][0]], [0.001, 3 / 4000])


# -- central schedulers -------------------------------------------------------------------------------------

#: Two machines, of 1000 and 500 Mflop/s; 3 tasks of 1000 Mflop at 0 s, and 3 more at 1 s.
TWO = bags([1000.0, 500.0], [0.0, 1.0], 3)
CENTRAL: dict[str, tuple[gs.Scheduler, list[tuple[str, float, int, int, int, float]]]] = {
    # of the second application: action, time, machine, tasks, among, saw
    # at 1 s the fast machine has just become free, the slow one has half a task to go, and one waits besides
    "replan": (gs.MinCent(), [("ordered", 1.0, -1, 3, 2, (500 + 1000 + 3000) / 1500 / 3000)]),
    "pull": (gs.Fcfs(mode="pull"), [("listed", 1.0, -1, 3, 2, 1.0)]),
    # the fast one has to work until 2 s, and the slow one too: 2 and 1 of them are done at 4 s
    "ect": (gs.Fcfs(), [("bound", 1.0, 0, 3, 2, 3.0)]),
    "met": (gs.Met(), [("bound", 1.0, 0, 3, 2, 1.0)]),
    "once": (gs.MinCent(mode="once"), [("bound", 1.0, 0, 3, 2, 3.0 / 3000)]),
    "min-min": (gs.MinMin(), [("mapped", 1.0, 0, 3, 2, 3.0)]),
}


@pytest.mark.parametrize("name", CENTRAL)
def test_central_schedulers(name: str) -> None:
    scheduler, wanted = CENTRAL[name]
    table = gs.simulate(TWO, scheduler, record="decisions").why(1).decisions
    columns = ("action", "time", "machine", "tasks", "among")
    rows = list(zip(*(table[column].tolist() for column in columns), strict=True))
    assert rows == [row[:5] for row in wanted]
    close(table["saw"], [row[5] for row in wanted])
    assert (table["true"] == table["saw"]).all() and not table["age"].any() and (table["decider"] == -1).all()


def test_replan_counts_on_who_is_up() -> None:
    """Machine 1 goes at 5 s: three tasks of 10 Mflop wait, 5 are left of one: done at 40 s, of 40 Mflop."""
    faults = gs.Faults.of([1], [5.0], [math.inf])
    scenario = bags([1.0, 1.0], [0.0], 4, 10.0, faults=faults)
    table = gs.simulate(scenario, gs.MinCent(), record="decisions").tables["decisions"]
    columns = (table[name].tolist() for name in ("action", "time", "tasks", "saw"))
    assert list(zip(*columns, strict=True)) == [("ordered", 0.0, 4, 0.5), ("ordered", 5.0, 3, 1.0)]


# -- work queues --------------------------------------------------------------------------------------------

PLAIN = {"task_order": "small", "machine_choice": "cpu", "checkpoint_interval": math.inf}
#: The fast machine fails at 0.75 s, with its second task.
FAILING = bags([2000.0, 1000.0], [0.0], 3, faults=gs.Faults.of([0], [0.75], [10.0]))


def test_starts_of_a_work_queue() -> None:
    table = gs.simulate(FAILING, gs.WqrFt(**PLAIN), record="decisions").tables["decisions"]
    columns = ("action", "time", "task", "machine", "tasks", "among", "limit")
    assert list(zip(*(table[column].tolist() for column in columns), strict=True)) == [
        ("started", 0.0, 0, 0, 3, 2, 0.5),
        ("started", 0.0, 1, 1, 2, 1, 1.0),
        ("started", 0.5, 2, 0, 1, 1, 0.5),
        ("restarted", 1.0, 2, 1, 1, 1, 1.0),
    ]
    assert table["saw"].tolist() == table["true"].tolist() == [0.75, math.inf, 0.25, math.inf]


def test_what_a_work_queue_predicts_is_not_what_is_true() -> None:
    """For as long again as it has been up: for no time at 0 s, for 0.5 s at 0.5 s."""
    result = gs.simulate(FAILING, gs.WqrFt(predictor="age", **PLAIN), record="decisions")
    table = result.why(0).decisions
    assert table["saw"].tolist() == [0.0, 0.0, 0.5, 1.0]
    assert table["true"].tolist() == [0.75, math.inf, 0.25, math.inf]
    assert result.why(0, 2).decisions["time"].tolist() == [0.5, 1.0]
    assert str(result.why(0, 2)).splitlines()[1:3] == [
        "t = 0.500000 s: the scheduler gave task 2, one of 1 that had never run, to machine 0 (of 1 free), "
        "for 0.5 s",
        "    saw a time until it fails of 0.5 s; fresh; true value 0.25",
    ]


def test_a_work_queue_as_printed_waits_for_machine_0() -> None:
    scenario = bags([3000.0, 1000.0], [0.0], 3)
    table = gs.simulate(scenario, gs.WqrFt(as_printed=True, **PLAIN), record="all").tables["decisions"]
    assert table["action"].tolist() == ["started", "waited"] * 3
    assert table["task"].tolist() == [0, 1, 1, 2, 2, 2]
    assert set(table["machine"][table["action"] == "started"].tolist()) == {0}


@pytest.mark.parametrize(
    ("scheduler", "scenario"),
    [(FairTree(samples=SMALL), TWO), (gs.MinCent(), TWO), (gs.WqrFt(), FAILING), (gs.Wave(), FAILING)],
)
def test_they_are_kept_in_a_checkpoint(scheduler: gs.Scheduler, scenario: gs.Scenario) -> None:
    options = Options(record="decisions")
    kept, run = [], Simulation(scenario, scheduler, options)
    run.engine.at_wave_end(lambda: None if run.engine.stopping else kept.append(snapshot(run)))
    whole = run.run().tables["decisions"]
    for text, arrays in kept[:: max(1, len(kept) // 3)]:
        again, copies = Simulation(scenario, scheduler, options), [array.copy() for array in arrays]
        state: Any = unpack(json.loads(text), copies.__getitem__)
        again.setstate(state.state)
        for name, column in again.run().tables["decisions"].items():
            np.testing.assert_array_equal(column, whole[name])


#: Much at one instant, machines that fail, and requests that are lost with them.
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
    ids=lambda each: each.name,
)
def test_they_do_not_depend_on_how_cohorts_are_cut(scheduler: gs.Scheduler) -> None:
    whole, *cut = (
        gs.simulate(DESKTOPS, scheduler, record="decisions", cohort_limit=limit) for limit in (None, 1, 3)
    )
    assert all(each.tables["decisions"] == whole.tables["decisions"] for each in cut)
    assert whole.digest == gs.simulate(DESKTOPS, scheduler).digest
    assert whole.machines["failures"].sum() > 3


def test_machines_fail_when_a_work_queue_says_that_they_will_in_truth() -> None:
    result = gs.simulate(DESKTOPS, gs.WqrFt(predictor="age", checkpoint_cost=0.1), record="all")
    ran, noted = result.tables["schedule"], result.tables["decisions"]
    names = "application", "task", "machine"
    starts = zip(*(noted[name].tolist() for name in (*names, "time")), strict=True)
    fails = dict(zip(starts, (noted["time"] + noted["true"]).tolist(), strict=True))
    ran_from = zip(*(ran[name].tolist() for name in (*names, "start")), strict=True)
    left = np.array([fails.pop(key) for key in ran_from]) - ran["end"]
    assert not fails and left.min() > -1e-9
    cut = (np.abs(left) < 1e-9) & (ran["completed"] == 0)
    assert cut.sum() == result.machines["interrupted"].sum() > 3
    acts = noted["action"].tolist()
    assert acts.count("restarted") == result.applications["resubmitted"].sum()
    assert acts.count("replicated") == result.applications["replicas"].sum()
