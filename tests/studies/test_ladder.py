from __future__ import annotations

import dataclasses
import io
import json
import math

import msgspec
import numpy as np
import pytest

import gridsim as gs
from gridsim import plots
from gridsim.studies.ladder import FAILURES, Ladder, Step, ladder, steps_of
from gridsim.studies.replicate import replication
from gridsim.studies.replicate_result import Replicates

BAGS = gs.Scenario(
    gs.Platform.desktop_grid(nodes=20, seed=1),
    gs.Workload.bags(applications=6, tasks_per_node=4.0, task_size=65536.0, seed=2),
    gs.Network(latency=0.3, interfaces="fifo"),
    seed=3,
)
JOBS = gs.Scenario(
    gs.Platform.equal(nodes=30),
    gs.Workload.jobs(jobs=30, utilization=0.9, max_nodes=8, seed=2),
    gs.Network(interfaces="equal"),
    seed=3,
)


@pytest.fixture(scope="module")
def bags() -> Ladder:
    return ladder(BAGS, 3, scheduler=gs.FairTree(samples=(4, 3, 2), bound=3.0))


def steps_by_name(found: Ladder) -> dict[str, Step]:
    return {step.name: step for step in found.steps}


def test_each_step_of_the_fair_tree_adds_one_restriction(bags: Ladder) -> None:
    names = [step.name for step in bags.steps if not step.beside]
    assert names == [
        "lower bound",
        "central, replanning",
        "central, bound at release",
        "tree, perfect information",
        "tree, summaries",
        "messages take time",
        "rate limit",
        "early acceptance",
        "failures",
    ]
    steps = steps_by_name(bags)
    root, limited, early = (steps[name].scheduler for name in (names[4], names[6], names[7]))
    assert isinstance(root, gs.FairTree) and isinstance(early, gs.FairTree)
    assert (root.bound, root.update_rate, root.samples) == (0.0, 0.0, (4, 3, 2))
    assert steps["messages take time"].scheduler == root
    assert limited == msgspec.structs.replace(early, bound=0.0)
    assert early == steps["failures"].scheduler == gs.FairTree(samples=(4, 3, 2), bound=3.0)
    free = steps["tree, summaries"].scenario
    assert (free.network.latency, free.network.bandwidth) == (0.0, math.inf)
    assert dataclasses.replace(free, network=BAGS.network) == BAGS
    assert all(steps[name].scenario == BAGS for name in names if name not in (names[4], names[8]))
    assert steps["failures"].scenario.faults == gs.Faults.poisson(FAILURES, 3)
    assert bags.scenario == BAGS


def test_values_equal_those_of_single_runs_of_each_replication(bags: Ladder) -> None:
    steps = steps_by_name(bags)
    for name in ("central, bound at release", "tree, summaries", "early acceptance", "failures"):
        for k in range(3):
            alone = gs.simulate(replication(steps[name].scenario, k), steps[name].scheduler)
            assert bags.replicates["max_stretch"][name][k] == alone.max_stretch
            assert bags.replicates["mean_stretch"][name][k] == alone.mean_stretch
    bound = bags.replicates["max_stretch"]["lower bound"]
    alone = gs.simulate(replication(BAGS, 2), gs.MinCent())
    assert bound[2] == alone.bound().stretch
    calm = [name for name, step in steps.items() if step.scenario.faults is None]
    assert all((bags.replicates["max_stretch"][name] >= bound * (1 - 1e-9)).all() for name in calm)


def test_failures_are_those_of_the_papers(bags: Ladder) -> None:
    """Each machine is reset once in four hours on average."""
    last = steps_by_name(bags)["failures"]
    assert last.adds == "machines fail (poisson, once in 14400 s)"
    assert last.scenario.faults is not None and last.scenario.faults.recipe.mean == 4 * 3600


def test_each_run_has_the_time_limit() -> None:
    with pytest.raises(gs.GridSimError, match="0.001"):
        ladder(BAGS, 1, time_limit=1e-3)


def invented_ladder() -> Ladder:
    """Return a ladder of three steps and one run beside them, with invented values."""
    steps = [Step(name, "", BAGS, gs.MinCent(), beside=name == "d") for name in "abcd"]
    values = {"a": [1.0, 2.0], "b": [1.5, 4.5], "c": [1.0, 4.0], "d": [4.0, 6.0]}
    columns = {name: np.array(column) for name, column in values.items()}
    return Ladder(BAGS, tuple(steps), Replicates((0, 1), {"max_stretch": columns}))


def test_each_step_is_compared_with_the_previous_step_by_pairs() -> None:
    a, b, c, d = invented_ladder().table()
    assert (a["difference"], a["ratio"], a["over_first"]) == (None, None, None)
    assert [row["difference"].mean for row in (b, c)] == [1.5, -0.5]
    assert [row["ratio"].mean for row in (b, c)] == [2.0, pytest.approx(5 / 6)]
    assert [row["over_first"].mean for row in (b, c, d)] == pytest.approx([2.0, 5 / 3, 10 / 3])
    # a run beside the ladder is no step; the ratio compares the last step with it: 2.5 / 5
    assert d["beside"] and d["difference"] is None and d["ratio"].mean == 0.5
    assert b["difference"].low == pytest.approx(0.5) and b["difference"].high == pytest.approx(2.5)


def test_rounding_errors_of_means_are_no_differences() -> None:
    steps = [Step(name, "", BAGS, gs.MinCent()) for name in "ab"]
    values = {"a": np.array([1.0, 3.0]), "b": np.array([1.0 + 1e-15, 3.0 - 8e-15])}
    text = str(Ladder(BAGS, tuple(steps), Replicates((0, 1), {"max_stretch": values})))
    assert "+0 [+0, +0]" in text and "e-" not in text.partition("s/Mflop")[2]


def test_differences_add_up_to_the_last_step(bags: Ladder) -> None:
    for measure in bags.measures:
        rows = [row for row in bags.table(measure) if not row["beside"]]
        total = rows[0]["mean"].mean + sum(row["difference"].mean for row in rows[1:])
        assert total == pytest.approx(rows[-1]["mean"].mean)
    # the mean stretch has no lower bound as its first step
    assert bags.table("mean_stretch")[0]["name"] == "central, replanning"


def test_text_and_json_of_a_ladder_have_all_steps(bags: Ladder) -> None:
    message = str(bags)
    assert "means over 3 replications" in message and "early acceptance: routers below the root" in message
    assert "max stretch, 1e-8 s/Mflop" in message and "B = 3" in message and "4 x 3 x 2" in message
    plain = json.loads(bags.to_json())
    assert gs.Scenario.from_toml(plain["scenario"]) == BAGS and plain["replicates"] == 3
    assert [step["name"] for step in plain["steps"]] == [step.name for step in bags.steps]
    assert plain["steps"][0]["scheduler"] is None and plain["steps"][4]["scheduler"]["name"] == "fair-tree"
    row = plain["tables"]["max_stretch"][7]
    assert row["ratio"]["mean"] == bags.table()[7]["ratio"].mean
    assert len(plain["values"]["max_stretch"]["failures"]) == 3


def test_an_unknown_measure_is_rejected(bags: Ladder) -> None:
    with pytest.raises(KeyError, match="no measure 'x'; known: max_stretch, mean_stretch"):
        bags.table("x")


def test_one_replication_has_no_intervals() -> None:
    message = str(ladder(JOBS, 1))
    assert (
        "intervals of 1 replication: n = 1" in message
        and "[" not in message.split("whole grid")[1].split("\n")[0]
    )


def test_the_ladder_of_rigid_jobs_has_the_steps_of_dgs_asap() -> None:
    actual = ladder(JOBS, 2, scheduler=gs.DgsAsap(slot=30.0, poll_period=300.0))
    steps = steps_by_name(actual)
    assert list(steps) == ["whole grid", "2 hops, fresh views", "messages take time", "1 hop", "stale views"]
    schedulers = [step.scheduler for step in actual.steps]
    assert schedulers == [
        gs.Asap(slot=30.0),
        *[gs.DgsAsap(slot=30.0, poll_period=300.0)] * 2,
        gs.DgsAsap(slot=30.0, poll_period=300.0, hops=1),
        gs.DgsAsap(slot=30.0, poll_period=300.0, hops=1, policy="poll"),
    ]
    assert actual.measures[0] == "mean_waiting" and "mean waiting, s" in str(actual)
    assert "mean slowdown (bounded)" in str(actual)
    waiting, slowdown = actual.charts(full=True)[0][:2]
    assert (waiting.x.title, slowdown.x.title) == ("mean waiting (s)", "mean slowdown")
    assert waiting.caption.startswith("Mean waiting of the first step")
    alone = gs.simulate(replication(JOBS, 1), gs.Asap(slot=30.0))
    assert actual.replicates["mean_waiting"]["whole grid"][1] == alone.mean_waiting


def test_only_the_second_step_of_rigid_jobs_has_free_messages() -> None:
    steps = steps_of(JOBS, gs.DgsAsap(), None)
    free = steps[1].scenario.network
    assert (free.latency, free.bandwidth) == (0.0, math.inf)
    assert [step.scenario.network == JOBS.network for step in steps] == [True, False, True, True, True]


def test_failures_of_rigid_jobs_are_those_of_the_scenario() -> None:
    failing = dataclasses.replace(JOBS, faults=gs.Faults.of([3], [100.0], [4000.0]))
    actual = steps_by_name(ladder(failing, 1))
    assert list(actual)[-2:] == ["failures", "whole grid, with failures"]
    assert actual["failures"].scenario == failing and actual["stale views"].scenario == JOBS
    other = gs.Faults.of([4], [100.0], [4000.0])
    assert steps_by_name(ladder(failing, 1, faults=other))["failures"].scenario.faults == other


def test_parameters_of_the_scheduler_come_from_the_scenario() -> None:
    answers = dataclasses.replace(JOBS, schedulers={"dgs-asap": {"hops": 3, "policy": "pull", "degree": 5}})
    actual = steps_by_name(ladder(answers, 1))
    assert actual["3 hops, fresh views"].scheduler == gs.DgsAsap(hops=3, policy="pull", degree=5)


def test_a_name_stands_for_the_scheduler_with_the_parameters_of_the_scenario() -> None:
    scenario = dataclasses.replace(BAGS, schedulers={"fair-tree": {"bound": 2.0}})
    named, arguments = (ladder(scenario, 1, scheduler=item) for item in ("fair-tree", gs.FairTree(bound=2.0)))
    assert named.to_json() == arguments.to_json()


def test_each_age_of_views_is_a_step_and_later_steps_keep_the_last() -> None:
    informed = gs.LeastWork(refresh="periodic", error=0.2)
    actual = ladder(BAGS, 2, scheduler=informed, ages=(0.0, 5.0, 60.0))
    steps = steps_by_name(actual)
    assert [step.name for step in actual.steps if not step.beside] == [
        "lower bound",
        "central, replanning",
        "placed at release",
        "views 5 s old",
        "views 60 s old",
        "errors",
        "messages take time",
        "failures",
    ]
    known = [
        (step.scheduler.age, step.scheduler.error)
        for step in actual.steps
        if isinstance(step.scheduler, gs.LeastWork)
    ]
    assert known == [(0.0, 0.0), (5.0, 0.0), (60.0, 0.0), (60.0, 0.2), (60.0, 0.2), (60.0, 0.2)]
    assert steps["errors"].scenario.network.latency == 0.0
    assert steps["messages take time"].scenario == BAGS
    own = ladder(BAGS, 1, scheduler=gs.LeastWork(age=7.0))
    assert "views 7 s old" in steps_by_name(own) and "errors" not in steps_by_name(own)


def test_the_ladder_of_any_decentralized_scheduler_has_free_messages_and_failures() -> None:
    bags = ladder(BAGS, 1, scheduler=gs.Sparrow(), faults=gs.Faults.of([3], [100.0], [4000.0]))
    assert [step.name for step in bags.steps][1:] == [
        "central, replanning",
        "free messages",
        "messages take time",
        "failures",
        "central, replanning, with failures",
    ]
    jobs = ladder(JOBS, 1, scheduler=gs.Zorilla())
    assert [step.name for step in jobs.steps] == ["whole grid", "free messages", "messages take time"]
    steps = steps_of(BAGS, gs.NoMigration(), None)
    assert [step.scheduler for step in steps][1:] == [gs.MinCent(), *[gs.NoMigration()] * 2]


@pytest.mark.parametrize(
    ("scenario", "arguments", "message"),
    [
        (BAGS, {"replicates": 0}, "replicates must be"),
        (
            BAGS,
            {"scheduler": gs.MinCent()},
            "must be decentralized, derive from BoardScheduler or define ladder_steps, got MinCent",
        ),
        (BAGS, {"ages": (1.0,)}, "ages requires a scheduler that derives from BoardScheduler, got FairTree"),
        (BAGS, {"scheduler": gs.LeastWork(), "ages": (2.0, 1.0)}, "ages must be strictly ascending"),
        (JOBS, {"scheduler": gs.FairTree()}, "scheduler must be a Scheduler of rigid jobs, got FairTree"),
        (BAGS, {"faults": 3.0}, "faults must be Faults or None, got 3.0"),
    ],
)
def test_invalid_arguments_are_rejected(scenario: gs.Scenario, arguments: dict, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        ladder(scenario, **arguments)


def test_the_waterfall_goes_from_the_first_step_to_the_last() -> None:
    figure = invented_ladder().figure()
    (axes,) = figure.axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0.0, 1.5e8), (1.5e8, 1.5e8), (3e8, -0.5e8), (0.0, 2.5e8)]
    up, down = (axes.patches[k].get_facecolor() for k in (1, 2))
    assert up != down and axes.patches[0].get_facecolor() == axes.patches[3].get_facecolor()
    assert [text.get_text() for text in axes.texts] == ["+100 %", "-33 %"]
    assert axes.get_xlabel() == "max stretch (1e-8 s/Mflop)\nlabels: change in % of the first step"
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["a", "b", "c", "all together"]
    files = []
    for _ in range(2):
        stream = io.BytesIO()
        plots.save(invented_ladder().figure(), stream)
        files.append(stream.getvalue())
    assert files[0].startswith(b"\x89PNG") and files[0] == files[1]
