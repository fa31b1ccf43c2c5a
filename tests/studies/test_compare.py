from __future__ import annotations

import json
import os
import re
from typing import Annotated

import msgspec
import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.schedulers import FairTree
from gridsim.scheduling.registry import build_scheduler, import_scheduler, named_scheduler
from gridsim.studies.compare import compare, default_baseline
from gridsim.studies.comparison_table import comparison_table, rows_of, verdict
from gridsim.studies.verdicts import by_cores, of_one_run, reference_text
from tests.reference.easy import starts
from tests.validation.test_jobs import with_columns

SCENARIO = Scenario(Platform.of([1000.0, 2000.0]), Workload.of([0.0, 10.0], [10, 20], 1000.0))


def test_schedulers_are_compared_with_the_baseline(toy):
    actual = compare(SCENARIO, {"quick": toy(), "slow": toy(pause=5.0)})
    assert actual.baseline == "quick" and actual.ratio("quick") == 1.0
    assert actual["slow"].max_stretch / actual["quick"].max_stretch == actual.ratio("slow") == 1.5
    assert [row["name"] for row in actual.table()] == ["quick", "slow"]
    assert compare(SCENARIO, {"quick": toy(), "slow": toy(pause=5.0)}, baseline="slow").ratio("slow") == 1.0


def test_the_baseline_depends_on_names_and_order_not_on_results(toy):
    class ApartScheduler(toy, frozen=True):
        decentralized = True

    quick, slow, apart = toy(), toy(pause=5.0), ApartScheduler()
    assert compare(SCENARIO, {"slow": slow, "quick": quick}).baseline == "slow"
    assert compare(SCENARIO, {"apart": apart, "slow": slow, "quick": quick}).baseline == "slow"
    assert compare(SCENARIO, {"quick": quick, "mincent": slow}).baseline == "mincent"
    assert compare(SCENARIO, {"b": apart, "a": ApartScheduler(pause=1.0)}).baseline == "b"
    actual = compare(SCENARIO, {"quick": quick, "mincent": slow})
    assert "baseline      mincent (ratios are relative to it)" in str(actual).splitlines()
    assert actual.to_dict()["baseline"] == "mincent"


def test_the_table_names_all_schedulers_at_any_width(toy):
    actual = compare(SCENARIO, {"quick": toy(), "slow": toy(pause=5.0)})
    lines = str(actual).splitlines()
    lines = lines[lines.index("") - 2 :]
    assert lines[0] == "load          1 (work submitted / capacity during submission)"
    assert lines[1] == "baseline      quick (ratios are relative to it)"
    assert lines[3].split("  ")[0] == "scheduler" and "s/Mflop" not in lines[4]
    assert lines[5].startswith("quick") and "not charged" in lines[5]
    assert " ".join(lines[-2:]).strip() == (
        "In this run, quick has the lowest max stretch (slow +50 %) and the lowest mean stretch (slow +50 %)."
    )
    full_run = actual.format(verbose=True)
    assert "slow: pause 5" in full_run.splitlines() and actual["quick"].digest[:16] in full_run
    assert len([line for line in actual.format(width=70).splitlines() if line.startswith("quick ")]) == 1
    for width in (40, 100):
        narrow = actual.format(width=width, verbose=True).splitlines()
        assert max(map(len, narrow)) <= width
        # each block of columns has the names, and nothing is left out
        assert sum(line.startswith("quick ") for line in narrow) == {40: 4, 100: 2}[width]


def test_schedulers_that_rejected_jobs_are_not_ranked():
    values = {"mean waiting": {"a": 3.0, "b": 1.0, "c": 2.0, "d": float("nan")}}
    message = of_one_run(values, {"b": "it rejected 2 jobs"})
    assert (
        message
        == "In this run, c has the lowest mean waiting (a +50 %).  b is not ranked: it rejected 2 jobs."
    )
    assert (
        of_one_run({"x": {"a": 0.0, "b": 0.0, "c": 7.0}}, {})
        == "In this run, a and b have the lowest x (c 7 against 0)."
    )
    in_hours = of_one_run({"x": {"a": 0.0, "b": 7200.0, "c": 4.5e7}}, {}, units={"x": (3600.0, "h")})
    assert in_hours == "In this run, a has the lowest x (b 2 h, c 12,500 h against 0)."
    assert of_one_run({"x": {"a": 1.0, "b": 1.996}}, {}).endswith("(b +100 %).")
    assert reference_text("x", "1 s", 1.0, {"a": 0.004}).endswith("1 s: a 100 % below.")
    assert of_one_run({"x": {"a": 1.0}}, {}) == ""
    rounded = of_one_run({"x": {"a": 1.0, "b": 1.0 + 8e-8, "c": 1.00001}}, {})
    assert rounded == "In this run, a and b have the lowest x (c +0.001 %)."


def waits_of(*waits: float) -> gs.Result:
    """Return the result of jobs of 9 s on one machine each that wait for these times (s)."""
    scenario = gs.Scenario(
        gs.Platform.equal(len(waits)),
        gs.Workload.jobs_of([0.0] * len(waits), [1] * len(waits), [9.0] * len(waits)),
    )
    result = gs.simulate(scenario, "backfill")
    columns = {"waiting": np.array(waits), "slowdown": 1.0 + np.array(waits) / 10.0}
    return with_columns(result, applications=columns)


@pytest.mark.parametrize("waits", [(0.9, 0.0), (0.0, 0.0)])
def test_waits_of_less_than_a_second_are_not_ranked(waits: tuple[float, float]) -> None:
    results = {name: waits_of(wait, wait) for name, wait in zip("ab", waits, strict=True)}
    rows = rows_of(results, "a", "best")
    text = verdict(results, rows)
    assert text.startswith("In this run, jobs hardly wait: each mean waiting time is below 1 s.")
    assert "lowest mean waiting" not in text and ("lowest mean slowdown" in text) == (waits[0] > 0)
    assert [row[2] for row in comparison_table(results, rows, "a", "best").rows][1] == "-"
    results["c"] = waits_of(2.0, 2.0)
    text = verdict(results, rows_of(results, "a", "best"))
    assert "lowest mean waiting time (" in text and "c 2 s against 0" in text and "times that" not in text


def test_an_extreme_scheduler_does_not_choose_the_unit() -> None:
    """Waits of 1 h, 1 h and 40 days are in s, and those of 10 h and 40 days in h."""
    short, middle, long = (waits_of(wait, wait) for wait in (3600.0, 36_000.0, 40 * 86_400.0))
    for results, unit, texts in (
        ({"a": short, "b": short, "c": long}, "s", ["3,600", "3,600", "3,460,000"]),
        ({"a": middle, "b": long}, "h", ["10", "960"]),
    ):
        table = comparison_table(results, rows_of(results, "a", "best"), "a", "best")
        assert table.head[1] == ("waiting", f"mean, {unit}") and table.numeric[1]
        assert [row[1] for row in table.rows] == texts


def test_json_of_a_comparison_is_complete_and_strict(toy):
    at_once = Scenario(SCENARIO.platform, Workload.of([0.0, 0.0], 1, 1000.0))
    actual = compare(at_once, {"toy": toy()})
    read = json.loads(actual.to_json())
    assert read["schedulers"][0]["offered_load"] is None  # an infinite load is null in JSON
    assert read["schedulers"][0]["digest"] == actual["toy"].digest
    assert Scenario.from_toml(read["scenario"]) == at_once
    assert "s/Mflop" in read["units"].values()


def test_invalid_comparisons_are_rejected(toy):
    with pytest.raises(ScenarioError, match="^schedulers"):
        compare(SCENARIO, {})
    with pytest.raises(ScenarioError, match="^schedulers"):
        compare(SCENARIO, 3)
    with pytest.raises(
        ScenarioError,
        match=r"^schedulers\['b'\]",
    ):
        compare(SCENARIO, {"a": toy(), "b": toy})
    with pytest.raises(ScenarioError, match="^baseline"):
        compare(SCENARIO, {"a": toy()}, baseline="b")
    for replicates in (None, 2):
        with pytest.raises(ScenarioError, match="^executor"):
            compare(SCENARIO, {"a": toy()}, executor=4, replicates=replicates)


def test_parameters_of_a_scheduler_are_converted_and_checked(toy):
    assert build_scheduler(toy, {"pause": 3}, "toy") == toy(pause=3.0)
    with pytest.raises(
        ScenarioError,
        match="toy.puase is not a parameter of this scheduler; did you mean pause. known: pause, flaw",
    ):
        build_scheduler(toy, {"puase": 3}, "toy")
    with pytest.raises(ScenarioError, match="^toy.pause"):
        build_scheduler(toy, {"pause": "x"}, "toy")


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (
            "samples",
            "30,x",
            "fair-tree.samples must be a whole number or a list of 3 whole numbers, got '30,x'",
        ),
        (
            "samples",
            [30, 20],
            "fair-tree.samples must be a whole number or a list of 3 whole numbers, got [30, 20]",
        ),
        ("samples", 3.5, "fair-tree.samples must be a whole number or a list of 3 whole numbers, got 3.5"),
        (
            "samples",
            [1, 2, "x"],
            "fair-tree.samples must be a whole number or a list of 3 whole numbers, got [1, 2, 'x']",
        ),
        ("grid", [1], "fair-tree.grid must be a list of 3 lists of numbers, got [1]"),
        ("bound", "much", "fair-tree.bound must be a finite number >= 0, got 'much'"),
        ("run_on", "yes", "fair-tree.run_on must be true or false, got 'yes'"),
        ("request_bytes", 1.5, "fair-tree.request_bytes must be a whole number in 0..2147483647, got 1.5"),
        ("spread", "x", "fair-tree.spread must be one of heartbeat, change, got 'x'"),
    ],
)
def test_errors_on_values_of_the_wrong_type_name_the_expected_type(parameter, value, message):
    with pytest.raises(ScenarioError) as excinfo:
        build_scheduler(FairTree, {parameter: value}, "fair-tree")
    assert str(excinfo.value) == message


def test_errors_on_types_without_a_simple_name_quote_msgspec(toy):
    class FurtherScheduler(toy, frozen=True):
        ratio: Annotated[float, msgspec.Meta(gt=1)] = 2.0

    with pytest.raises(ScenarioError, match="^toy.ratio = 0: expected `float` > 1.0$"):
        build_scheduler(FurtherScheduler, {"ratio": 0}, "toy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_module_here:X",
            "cannot import scheduler 'no_such_module_here:X': ModuleNotFoundError: No module named "
            rf"'no_such_module_here', which is not in this folder \({re.escape(os.getcwd())}\), PYTHONPATH",
        ),
        ("gridsim.errors:Nothing", "cannot import scheduler 'gridsim.errors:Nothing': AttributeError"),
        ("gridsim.errors:GridSimError", "must be a subclass of gridsim.Scheduler"),
    ],
)
def test_failed_imports_of_schedulers_are_reported(name, message):
    with pytest.raises(ScenarioError, match=message):
        import_scheduler(name)


def test_shares_are_in_per_cent() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], 1, 1000.0))
    results = {"a": gs.simulate(scenario, gs.Fcfs())}
    (row,) = rows_of(results, "a", "fluid")
    row |= {"utilization": 0.5, "wasted": 0.25, "mean_completion": 1.0}
    row |= {"migrated": 0.5, "mean_turnaround": 1.0}
    table = comparison_table(results, [row], "a", "fluid", verbose=True)
    cells = {title: (unit, cell) for (title, unit), cell in zip(table.head, table.rows[0], strict=True)}
    assert cells["busy"] == ("%", "50.0") and cells["wasted"] == ("%", "25")
    assert cells["migrated"] == ("%", "50")


def test_mean_waits_weighted_by_cores_may_rank_schedulers_differently() -> None:
    """With EASY, a job that exceeds its estimate delays the wide job, and narrow jobs do not wait."""
    jobs = [(0, 3, 100, 100), (1, 6, 50, 50), (2, 1, 300, 60), *((3 + k, 1, 20, 20) for k in range(6))]
    columns = [list(column) for column in zip(*jobs, strict=True)]
    case = gs.Scenario(gs.Platform.equal(6), gs.Workload.jobs_of(*columns))
    actual = compare(case, ["backfill-fcfs", "backfill"])
    by_jobs, cores = {}, {}
    for row in actual.table():
        start_times = starts(6, jobs, backfill=row["name"] == "backfill")
        waits = [start - job[0] for start, job in zip(start_times, jobs, strict=True)]
        wide = sum(wait * job[1] for wait, job in zip(waits, jobs, strict=True)) / sum(columns[1])
        by_jobs[row["name"]], cores[row["name"]] = sum(waits) / len(jobs), wide
        assert row["mean_waiting"] == pytest.approx(sum(waits) / len(jobs))
        assert row["mean_waiting_by_cores"] == pytest.approx(wide)
    assert by_jobs["backfill"] < by_jobs["backfill-fcfs"] and cores["backfill"] > cores["backfill-fcfs"]
    text = " ".join(actual.format().split())
    assert "In this run, backfill has the lowest mean waiting time" in text
    assert "Weighted by cores the order differs: backfill-fcfs has the lowest mean waiting time" in text
    assert by_cores(by_jobs, by_jobs) == "" == by_cores({"a": 1.0}, {"a": 2.0})


def test_the_baseline_of_rigid_jobs_is_easy() -> None:
    rigid = {
        "asap": gs.Asap(),
        "queue": gs.BatchQueue(backfill="none"),
        "easy": gs.BatchQueue(),
        "dgs": gs.DgsAsap(),
    }
    assert default_baseline(rigid) == "easy"
    del rigid["easy"]
    assert default_baseline(rigid) == "asap"


def test_warnings_and_errors_on_a_variant_name_its_label() -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0], [2, 4], 10.0, user=[0, 1])
    scenario = gs.Scenario(gs.Platform.equal(4), jobs)
    variants = {"two": gs.BatchQueue(user_limit=2), "three": gs.BatchQueue(user_limit=3)}
    with pytest.warns(gs.SchedulerWarning) as warned:
        found = gs.compare(scenario, variants)
    assert [str(entry.message).partition(":")[0] for entry in warned] == [
        "two.user_limit",
        "three.user_limit",
    ]
    assert found.warnings == tuple(str(entry.message) for entry in warned)
    with pytest.warns(gs.SchedulerWarning, match=r"^three.user_limit: 1 of 2 jobs"):
        gs.compare(scenario, {"three": variants["three"]}, replicates=2)
    with pytest.raises(gs.ScenarioError, match=r"^none.user_limit must allow some jobs"):
        gs.compare(scenario, {"none": gs.BatchQueue(user_limit=1)})
    with pytest.raises(gs.ScenarioError, match=r"^none.user_limit must be a whole number >= 1, got 0"):
        named_scheduler("none=backfill", {"user_limit": 0})


@pytest.mark.filterwarnings("ignore::gridsim.errors.SchedulerWarning")
def test_schedulers_are_ranked_on_the_same_machines_and_jobs_only():
    """One of the workloads has a job that all schedulers reject."""
    runs = {"nodes": [2, 2, 1, 1], "run_time": [50, 50, 10, 60], "user": 1}
    light = Workload.jobs_of(release=[0, 1, 2, 3], **runs)
    heavy = Workload.jobs_of(release=[0, 1, 2, 3, 4], **{**runs, "nodes": [2, 2, 1, 1, 3], "run_time": 50})
    # released when jobs before them have ended, which depends on the scheduler
    chain = Workload.jobs_of(
        release=[0, 1, 2, 3, 4],
        after=[[], [], [], [1], [2]],
        **{**runs, "nodes": [2, 2, 1, 1, 2], "run_time": [50, 50, 10, 60, 9]},
    )
    queues = {
        "easy": gs.BatchQueue(user_limit=2, reserve="counts"),
        "fcfs": gs.BatchQueue(user_limit=2, backfill="none"),
    }
    for scenarios, beginnings in (
        ({"3": Scenario(Platform.equal(3), light), "9": Scenario(Platform.equal(9), light)}, (3, 9)),
        ({"light": Scenario(Platform.equal(3), light), "heavy": Scenario(Platform.equal(3), heavy)}, ()),
        ({"3": Scenario(Platform.equal(3), chain), "9": Scenario(Platform.equal(9), chain)}, (3, 9)),
        ({"1": Scenario(Platform.equal(3), light), "2": Scenario(Platform.equal(3, cores=2), light)}, ()),
    ):
        found = compare(scenarios, queues)
        *sentences, effect = [*found.verdict().split("  "), *([] if beginnings else [""])]
        assert effect.startswith("The mean waiting time of easy is ") == bool(beginnings), effect
        for sentence, label in zip(sentences, scenarios, strict=True):
            start = f"With {label} machines, " if beginnings else "In this run, "
            assert sentence.startswith(start) and "not ranked" not in sentence
            others = [name for name in found.results if not name.endswith(f" {label}")]
            assert not any(name in sentence for name in others)
        assert "unranked" not in str(found)


def test_runs_that_reject_different_jobs_are_not_compared():
    """User 0 has a job of two machines, and user 1 one of two in a queue that allows one."""
    jobs = Workload.jobs_of(
        [0, 1, 2, 3], [2, 2, 1, 1], [50.0] * 4, user=[0, 1, 0, 1], queue=[0, 1, 0, 1], submitter=0
    )
    queues = {
        "all": gs.BatchQueue(),
        "first": gs.BatchQueue(queue_limits=[1, 0]),
        "second": gs.BatchQueue(queue_limits=[0, 1]),
    }
    with pytest.warns(gs.SchedulerWarning, match="1 of 4 jobs, 33 % of the work, request"):
        found = compare(Scenario(Platform.equal(2), jobs), queues)
    text = " ".join(str(found).split())
    line = "mean waiting time of the 2 jobs that each of these ran: all 97.5 s, first 48.5 s, second 47.5 s"
    assert line in text
    limited = {name: queue for name, queue in queues.items() if name != "all"}
    with pytest.warns(gs.SchedulerWarning, match="rejected"):
        found = compare(Scenario(Platform.equal(2), jobs), limited, baseline="second")
    assert found.verdict() == "second is not ranked: it rejected other jobs than first."
    assert [row[2] for row in found.overview().tables[0].rows] == ["unranked", "1.000"]


def test_sizes_at_which_different_jobs_are_rejected_have_no_ratio():
    """The partitions of two machines, which reject the job of three, become four machines on eight."""
    jobs = Workload.jobs_of([0, 1, 2, 3], [2, 3, 2, 1], [50.0] * 4, queue=[0, 1, 0, 1])
    sizes = {f"{nodes}": Scenario(Platform.equal(nodes), jobs) for nodes in (8, 4)}
    with pytest.warns(gs.SchedulerWarning):
        found = compare(sizes, {"split": gs.BatchQueue(partitions=[2, 2])})
    assert [row[2] for row in found.overview().tables[0].rows] == ["-", "unranked"]
    text = " ".join(str(found).split())
    assert "jobs that each of these ran: split 8 " in text and "The mean waiting time of" not in text


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["backfill-conservative"], "backfill-conservative: each core is a machine of its own, so"),
        (
            ["backfill", "backfill-conservative", "asap"],
            "backfill-conservative and asap: each core is a machine of its own, so jobs use and reserve any "
            "cores; backfill: jobs share machines",
        ),
        (["backfill", "backfill-fcfs"], ""),
    ],
)
def test_schedulers_that_take_cores_for_machines_are_named(names, line):
    jobs = Workload.jobs(jobs=4, seed=1, max_nodes=4, utilization=0.5)
    found = " ".join(str(compare(Scenario(Platform.equal(3, cores=2), jobs), names)).split())
    assert line in found and ("a machine of its own" in found) == bool(line)


def test_tables_of_groups_are_those_of_each_scenario():
    """The platforms of sites have other numbers of machines, and the workloads of jobs."""
    jobs = ([0, 5], [0, 5, 5])
    scenarios = {
        f"{sum(sizes)}": Scenario(
            Platform.sites(sizes, cores=[2, 4]),
            Workload.jobs_of(release, 1, 100, site=[1] * (len(release) - 1) + [0]),
        )
        for sizes, release in zip(([1, 2], [3, 3]), jobs, strict=True)
    }
    found = compare(scenarios, {"queue": gs.BatchQueue(partitions="sites")}, by=["site"])
    rows = found.to_dict()["by"]["site"]
    assert [(row["scenario"], row["site"], row["jobs"], row["machines"]) for row in rows] == [
        ("3", "0", 1, 1),
        ("3", "1", 1, 2),
        ("6", "1", 2, 3),
        ("6", "0", 1, 3),
    ]
    for row in rows:
        cores = row["machines"] * (2 if row["site"] == "0" else 4)
        assert row["utilization"] == {
            f"queue {row['scenario']}": pytest.approx(row["jobs"] * 100 / (cores * 105))
        }
    assert all(f"Mean waiting time by site ({label})" in str(found) for label in scenarios)


def test_waiting_times_have_one_unit_in_texts_tables_and_charts() -> None:
    jobs = gs.Scenario(gs.Platform.equal(8), gs.Workload.jobs(jobs=100, utilization=0.9, seed=1))
    found = gs.compare(jobs, {"easy": gs.BatchQueue()})
    (line,) = (line for line in found["easy"].format().splitlines() if line.startswith("waiting "))
    (unit,) = set(re.findall(r"[\d,.]+ (\w+)(?:,|$)", line))
    heads = [unit for title, unit in found.overview().tables[0].head if title == "waiting"]
    assert unit in ("h", "days") and {head.split()[-1] for head in heads} == {unit}
    assert found.charts()[0][0].x.title == f"waiting time ({unit})"


def test_a_misspelt_metric_is_named_without_replicates() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.bags(2, seed=1))
    with pytest.raises(gs.ScenarioError, match="'strech'; did you mean stretch"):
        gs.compare(scenario, ["fcfs"], metrics=["strech"])


def test_waits_of_bags_name_their_response_times() -> None:
    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.bags(2, seed=1), seed=1)
    runs = gs.compare(scenario, ["fcfs"], replicates=2, metrics=["mean_waiting", "mean_response"])
    text = str(runs)
    assert (
        "bags have no mean_waiting: the mean response time of bags is mean_completion" in text
        and "nan" not in text
    )
    assert runs.mean("fcfs", "response") == runs.mean("fcfs", "mean_completion")
    assert "\nresponse      mean " in gs.simulate(scenario, "fcfs").format(verbose=True)


def test_orders_of_the_queues_of_machines_are_stated_if_they_differ() -> None:
    scenario = gs.Scenario(gs.Platform.desktop_grid(8, 1), gs.Workload.bags(4, 10.0, 2.0, seed=1))
    text = " ".join(str(gs.compare(scenario, ["random", "fair-tree", "mincent"])).split())
    assert "machines run their queues by earliest deadline (fair-tree), first in, first out (random)" in text
    runs = gs.compare(scenario, ["fair-tree", "random"], replicates=2)
    assert "first in, first out (random); the attribute local_order sets this" in " ".join(str(runs).split())
    assert "machines run their queues" not in str(gs.compare(scenario, ["random", "sparrow", "mincent"]))
