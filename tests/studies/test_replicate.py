from __future__ import annotations

import json
import math
import multiprocessing
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gridsim as gs
from gridsim.results.metrics.estimates import RESAMPLES, Estimate, estimate, ratio_of_means
from gridsim.studies.replicate import _widest, replicate
from gridsim.studies.replicate_result import Replicates
from gridsim.support.random_streams import Streams
from gridsim.support.text import number_text, to_json

SCHEDULERS = {"tree": gs.FairTree(), "central": gs.MinCent(), "fcfs": gs.Fcfs(mode="random")}


def small_scenario(seed: int) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.pareto(12, seed), gs.Workload.bags(applications=8, tasks_per_node=3, seed=seed), seed=seed
    )


def response(result: gs.Result) -> float:
    return float((result.applications["finish"] - result.applications["release"]).max())


@pytest.fixture(scope="module")
def replicates() -> Replicates:
    return replicate(small_scenario, SCHEDULERS, range(1, 6), metrics=("max_stretch", "gap"))


def test_every_scheduler_runs_the_scenario_of_each_seed(replicates: Replicates) -> None:
    assert replicates.schedulers == tuple(SCHEDULERS) and replicates.seeds == (1, 2, 3, 4, 5)
    for i, seed in enumerate(replicates.seeds):
        for name, scheduler in SCHEDULERS.items():
            result = gs.simulate(small_scenario(seed), scheduler)
            assert replicates["max_stretch"][name][i] == result.max_stretch
            assert replicates["gap"][name][i] == result.gap()


def test_the_scenario_is_made_once_per_seed() -> None:
    seen: list[int] = []
    replicate(lambda seed: seen.append(seed) or small_scenario(seed), SCHEDULERS, [3, 1])
    assert seen == [3, 1]


def test_the_width_of_an_interval_is_its_half_width_over_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of 10 +- 1 is 0.1."""
    actual = Replicates((0, 1), {"max_stretch": {"a": np.array([9.0, 11.0])}})
    monkeypatch.setattr(Replicates, "mean", lambda *_: Estimate(10.0, 9.0, 11.0, 2))
    assert _widest(actual) == pytest.approx(0.1)


def test_a_lower_confidence_gives_a_narrower_interval() -> None:
    half, usual = (estimate([3.0, 1.0, 4.0, 1.5, 5.0, 9.0], level=level) for level in (0.5, 0.95))
    assert usual.low < half.low < half.mean == usual.mean < half.high < usual.high


class ReverseExecutor(Executor):
    """Executor that runs six jobs when the last one is submitted, in reverse order."""

    def __init__(self) -> None:
        self.jobs: list = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.jobs.append((future, fn, args, kwargs))
        if len(self.jobs) == 6:
            for waiting, work, arguments, named in reversed(self.jobs):
                waiting.set_result(work(*arguments, **named))
        return future


def test_values_do_not_depend_on_the_executor() -> None:
    def all_values(executor):
        actual = replicate(
            small_scenario, SCHEDULERS, [1, 2], metrics={"response": response}, executor=executor
        )
        return to_json(actual.to_dict())

    serial = all_values(None)
    assert all_values(ReverseExecutor()) == serial
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            assert all_values(pool) == serial


def test_a_pool_of_spawned_processes_gives_equal_values() -> None:
    serial = replicate(small_scenario, SCHEDULERS, [1, 2])
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        pooled = replicate(small_scenario, SCHEDULERS, [1, 2], executor=pool)
    assert to_json(pooled.to_dict()) == to_json(serial.to_dict())


def test_a_metric_may_have_the_short_name_of_another() -> None:
    column = {"fcfs": np.array([1.0, 2.0])}
    assert Replicates((1, 2), {"waiting": column})["waiting"]["fcfs"].tolist() == [1.0, 2.0]
    assert Replicates((1, 2), {"mean_waiting": column})["waiting"]["fcfs"].tolist() == [1.0, 2.0]
    assert Replicates((1, 2), {"waiting": column}).chart("waiting").title == "Waiting"


def test_an_alias_has_the_unit_and_the_estimates_of_its_metric() -> None:
    columns = {"fcfs": np.array([7.2e5, 7.3e5, 7.4e5]), "easy": np.array([3.6e5, 3.7e5, 3.8e5])}
    values = Replicates((1, 2, 3), {"mean_waiting": columns}, {"mean_waiting": "s"})
    assert values.unit("waiting") == values.unit("mean_waiting") == (86_400.0, "days")
    assert values.mean("fcfs") is values.mean("fcfs", "waiting") is values.mean("fcfs", "mean_waiting")
    assert values.verdict("waiting") == values.verdict("mean_waiting")


def test_charts_of_nodes_name_no_cores() -> None:
    values = {"mean_waiting_by_cores": {"fcfs": np.array([1.0, 2.0])}}
    chart = Replicates((1, 2), values, about={"nodes": "each machine is a node"}).chart(
        "mean_waiting_by_cores"
    )
    assert (chart.title, chart.x.title) == ("Mean waiting by nodes", "mean waiting time by nodes")


def test_ratios_are_computed_by_pairs(replicates: Replicates) -> None:
    tree, central = replicates["max_stretch"]["tree"], replicates["max_stretch"]["central"]
    ratio = replicates.ratio("tree", "central")
    assert ratio.mean == pytest.approx(np.prod(tree / central) ** (1 / 5)) and ratio.seeds == 5
    assert replicates.mean_ratio("tree", "central").mean == pytest.approx(np.mean(tree / central))
    assert ratio.low <= ratio.mean <= ratio.high
    assert (tree / central).min() <= ratio.low and ratio.high <= (tree / central).max() * (1 + 1e-12)
    assert replicates.difference("tree", "central").mean == pytest.approx(np.mean(tree - central))
    assert replicates.ratio_of_means("tree", "central").mean == pytest.approx(tree.mean() / central.mean())
    assert (
        replicates.ratio("tree", "tree").note == "all equal" and replicates.ratio("tree", "tree").low == 1.0
    )
    assert replicates.ratio("tree", "central") == ratio  # the same values, the same interval


def test_a_ratio_is_the_inverse_of_that_with_the_schedulers_exchanged() -> None:
    """The mean of a / b is below 1 here, and so is that of b / a."""
    a, b = np.array([1.0, 9.0, 2.0, 3.0, 0.5, 7.0]), np.array([2.0, 2.0, 5.0, 3.5, 2.0, 4.0])
    both = Replicates(tuple(range(6)), {"max_stretch": {"a": a, "b": b}})
    ratio, inverse = both.ratio("a", "b"), both.ratio("b", "a")
    ends = inverse.mean, inverse.high, inverse.low
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx([1 / end for end in ends])
    assert both.mean_ratio("a", "b").mean > 1 < both.mean_ratio("b", "a").mean


def test_where_a_value_is_0_the_difference_is_shown_in_place_of_the_ratio() -> None:
    values = {"a": np.array([0.0, 1, 2, 1, 3, 2]), "b": np.array([4.0, 5, 9, 6, 7, 8])}
    units = {"makespan": "s"}
    for base, other in (("a", "b"), ("b", "a")):
        both = Replicates(tuple(range(6)), {"makespan": values}, units, measure="makespan", baseline=base)
        difference = both.difference(other, base)
        assert math.isnan(both.ratio(other, base).mean)
        assert (
            both.overview().tables[0].rows["ab".index(other)][-1]
            == f"difference {difference.format(seeds=6)}"
        )
        assert both.to_dict()["differences"]["makespan"][other]["mean"] == difference.mean
        assert both.verdict().endswith("average (b +5 s [+4, +6.67]).")


def test_the_conclusion_has_the_ratio_of_means_where_it_is_far_from_the_geometric_mean() -> None:
    a, b = np.full(20, 10.0), np.array([20.0, 21, 19, 22] * 4 + [18, 20, 21, 2000])
    both = Replicates(tuple(range(20)), {"makespan": {"a": a, "b": b}}, measure="makespan")
    ratio = number_text(b.mean() / 10.0, 3)
    assert both.verdict().endswith(
        f"geometric means over pairs; the ratios of the means give b {ratio} times that."
    )


def test_the_conclusion_does_not_hide_that_the_ratio_contradicts_the_means() -> None:
    """One replication of "extreme" is extreme, so that its mean is larger."""
    usual, extreme = np.full(20, 10.0), np.full(20, 1.0)
    extreme[7] = 300.0
    actual = Replicates(tuple(range(20)), {"max_stretch": {"usual": usual, "extreme": extreme}}).verdict()
    assert (
        "usual has the lowest max stretch on average, but others have a lower geometric mean (extreme -"
        in actual
    )


def test_common_noise_cancels_in_paired_ratios() -> None:
    noise = np.array([1.0, 50.0, 3.0, 700.0, 20.0])
    both = Replicates((1, 2, 3, 4, 5), {"m": {"a": noise * 1.5, "b": noise}})
    assert both.ratio("a", "b", "m").low == pytest.approx(1.5)
    assert both.mean("a", "m").high > 2 * both.mean("a", "m").low
    means = both.ratio_of_means("a", "b", "m")
    assert means.low == pytest.approx(1.5) and means.high == pytest.approx(1.5)


def test_estimates_of_degenerate_samples_have_a_note() -> None:
    one = estimate([2.0])
    assert (one.mean, one.note) == (2.0, "n = 1") and math.isnan(one.low)
    assert "no interval: n = 1" in one.format()
    equal = estimate([2.0, 2.0, 2.0])
    assert (equal.low, equal.high, equal.format()) == (2.0, 2.0, "2 (n = 3, all equal)")
    infinite = estimate([1.0, math.inf])
    assert math.isnan(infinite.low) and infinite.note == "not all values are finite"
    for values in ([math.inf, -math.inf], [math.inf, math.nan]):
        assert estimate(values).note == "not all values are finite"
    large = estimate([1.7e308, 1.5e308, 1.6e308])
    assert large.mean == pytest.approx(1.6e308) and large.note == "the bootstrap is undefined here"
    assert estimate([1.7e308] * 3).low == pytest.approx(1.7e308)
    two = estimate([1.0, 2.0])
    assert 1.0 <= two.low <= 1.5 <= two.high <= 2.0
    for wrong in ([], [[1.0], [2.0, 3.0]]):
        with pytest.raises(ValueError, match="equally long and not empty"):
            estimate(*wrong) if wrong else estimate([])


def test_intervals_of_few_values_have_the_stated_coverage() -> None:
    """Of 400 intervals at least 364 (91 %) contain the true mean; about 350 do if levels are not expanded."""
    draw = np.random.Generator(np.random.PCG64(1))
    actual = [estimate(draw.normal(10.0, 1.0, 8)) for _ in range(400)]
    assert sum(e.low <= 10.0 <= e.high for e in actual) >= 364


@pytest.mark.parametrize(
    ("count", "expanded"),
    [
        (5, 0.9980918),  # 2 Phi(sqrt(5/4) 2.7764) - 1, with t of 4 degrees of freedom from a table
        (10, 0.9828987),  # 2 Phi(sqrt(10/9) 2.2622) - 1
        (2, 1 - 2 / RESAMPLES),  # t is 12.7: no resample is that far
    ],
)
def test_an_interval_is_that_of_bca_at_the_expanded_level(count: int, expanded: float) -> None:
    values = np.random.Generator(np.random.PCG64(2)).exponential(1.0, count)
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=expanded,
        rng=Streams(0)("replication.bootstrap"),
    )
    actual = estimate(values)
    assert actual.low == pytest.approx(found.confidence_interval.low, rel=1e-5)
    assert actual.high == pytest.approx(found.confidence_interval.high, rel=1e-5)
    assert actual.level == 0.95


def test_a_statistic_of_two_samples_has_an_interval() -> None:
    actual = estimate([2.0, 4.0, 9.0], [1.0, 2.0, 3.0], statistic=ratio_of_means)
    assert actual.mean == 2.5 and 2.0 <= actual.low <= 2.5 <= actual.high <= 3.0


def test_replications_of_the_same_seeds_can_be_joined(replicates: Replicates) -> None:
    other = replicate(
        small_scenario, {"pull": gs.Fcfs(mode="pull")}, replicates.seeds, metrics=("max_stretch", "gap")
    )
    both = replicates.joined(other)
    assert both.schedulers == (*SCHEDULERS, "pull") and both.ratio("pull", "central").seeds == 5
    with pytest.raises(gs.ScenarioError, match="to be joined, got .*pull twice"):
        both.joined(other)
    with pytest.raises(gs.ScenarioError, match="same seeds"):
        replicates.joined(
            replicate(small_scenario, {"pull": gs.Fcfs(mode="pull")}, [1], metrics=("max_stretch", "gap"))
        )


def test_text_and_dict_of_replications_have_means_and_ratios(replicates: Replicates) -> None:
    text = replicates.format("central")
    assert "max_stretch (s/Mflop), mean over 5 replications" in text
    assert text.count("relative to central") == 2  # a column of each metric's table
    assert (
        replicates.ratio("fcfs", "central", "gap").format(seeds=5) in text
        and "relative" not in replicates.format()
    )
    plain = json.loads(to_json(replicates.to_dict()))
    assert plain["seeds"] == [1, 2, 3, 4, 5] and set(plain["means"]["gap"]) == set(SCHEDULERS)
    with pytest.raises(KeyError, match="no scheduler 'x'; known: tree"):
        replicates.ratio("x", "tree")
    with pytest.raises(KeyError, match="no metric 'x'"):
        replicates["x"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, "seeds must be different and not empty"),
        ({"seeds": [1, 1]}, "seeds must be different"),
        ({"seeds": [-1]}, r"seeds\[0\] must be a whole number"),
        ({"schedulers": {}}, "at least one scheduler, got none"),
        ({"schedulers": {"a": 3}}, r"schedulers\['a'\] must be a Scheduler"),
        ({"metrics": ["speed"]}, "names of metrics, got 'speed'; known: max_stretch"),
        ({"metrics": []}, "metrics must contain at least one"),
    ],
)
def test_invalid_arguments_are_rejected(change: dict, message: str) -> None:
    arguments = {"schedulers": SCHEDULERS, "seeds": [1], "metrics": ["max_stretch"], **change}
    with pytest.raises(gs.ScenarioError, match=message):
        replicate(small_scenario, arguments["schedulers"], arguments["seeds"], metrics=arguments["metrics"])


def test_an_unknown_argument_is_an_error_with_the_closest_one() -> None:
    with pytest.raises(
        gs.ScenarioError, match="^replicate has no argument 'shedulers'; did you mean schedulers"
    ):
        gs.replicate(small_scenario(1), shedulers=["fcfs"], replicates=1)  # type: ignore[call-arg]
    with pytest.raises(gs.ScenarioError, match="^sweep requires schedulers, got shedulers$"):
        gs.sweep(small_scenario(1), shedulers=["fcfs"], over={})  # type: ignore[call-arg]
    with pytest.raises(gs.ScenarioError, match="^compare requires scenario, got foo$"):
        gs.compare(foo=1)  # type: ignore[call-overload]
    message = "^replicate has no argument 'replicate'; did you mean replicates"
    with pytest.raises(gs.ScenarioError, match=message):
        replicate(small_scenario, SCHEDULERS, replicate=5)


@pytest.mark.parametrize("width", [1e-150, 1e-300, 5e-324])
def test_replications_stop_at_the_maximum_if_intervals_stay_too_wide(width: float) -> None:
    replicates = replicate(small_scenario(1), {"fcfs": gs.Fcfs()}, half_width=width, at_most=11)
    assert len(replicates.seeds) == 11 and replicates.reached is False
    assert replicates.overview().failures == ["max_stretch: not all intervals are as narrow as was asked for"]


def test_extreme_values_of_metrics_are_accepted() -> None:
    values = iter([1.7e308, 1.5e308, -1.7e308, 1.6e308, 5e-324, 0.0])
    replicates = replicate(
        small_scenario, SCHEDULERS, [1, 2], metrics={"m": lambda result: next(values)}, baseline="tree"
    )
    assert replicates["m"]["tree"].tolist() == [1.7e308, 1.6e308] and "1.65e+308" in replicates.format()
    assert replicates.difference("fcfs", "tree", "m").note == "not all values are finite"
    assert len(replicates.table()) == 3


def test_without_scipy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.stats", None)
    with pytest.raises(ImportError, match=r'pip install "gridsched\[stats\]"'):
        estimate([1.0, 2.0])


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    replicate(small_scenario, SCHEDULERS, [1], progress="force")
    actual = capsys.readouterr()
    assert actual.out == "" and "3/3" in actual.err


@pytest.mark.parametrize("name", ["replicate", "scheduler"])
def test_a_metric_cannot_replace_a_column(name: str) -> None:
    with pytest.raises(
        gs.ScenarioError, match=f"^metrics must not have a function '{name}', which is a column"
    ):
        replicate(small_scenario, SCHEDULERS, [1], metrics={name: lambda result: 1.0})


def test_a_metric_of_the_user_has_no_unit() -> None:
    """A function called ``makespan`` need not measure seconds."""
    replicates = gs.replicate(
        small_scenario(1), {"a": gs.Fcfs()}, replicates=1, metrics={"makespan": response, "v": response}
    )
    assert replicates.units == {}
    usual = gs.replicate(small_scenario(1), {"a": gs.Fcfs()}, replicates=1, metrics=["makespan"])
    assert usual.units == {"makespan": "s"}
    for name in ("", "a\nb", "\ud800"):
        with pytest.raises(gs.ScenarioError, match="^metrics"):
            gs.replicate(small_scenario(1), {"a": gs.Fcfs()}, replicates=1, metrics={name: len})


def test_a_table_leaves_out_schedulers_without_the_metric() -> None:
    values = {"tree": np.array([0.4, 0.5]), "mincent": np.full(2, np.nan)}
    both = {"tree": np.array([1.1, 1.2]), "mincent": np.array([1.0, 1.1])}
    actual = Replicates((0, 1), {"max_stretch": both, "at_root": values}, baseline="mincent")
    stretch, share = actual.overview().tables
    assert [title for title, _ in stretch.head] == ["scheduler", "mean", "relative to mincent"]
    assert share.columns[0] == ["scheduler", "tree"] and len(share.head) == 2
    failed = replace(actual, errors={("mincent", 0): "no memory"})
    assert failed.overview().tables[1].columns[0] == ["scheduler", "tree", "mincent"]


def test_conclusion_separates_significant_from_other_differences() -> None:
    subset = np.array([1.0, 1.1, 0.9, 1.05, 0.95, 1.0])
    values = {
        "a": subset,
        "same": subset.copy(),
        "near": subset[::-1] + 0.01,
        "far": 2.5 * subset,
        "broken": subset * np.nan,
    }
    actual = Replicates(tuple(range(6)), {"max_stretch": values})
    message = actual.verdict()
    assert message.startswith(
        "Over 6 replications, a and same have the lowest max stretch on average (far 2.5 "
    )
    assert "; not significantly higher: near +" in message and "broken" not in message
    few = Replicates((0, 1), {"max_stretch": {"a": subset[:2], "b": 2 * subset[:2]}})
    assert few.verdict() == "2 replications allow no conclusion: at least 5 are needed."
    assert Replicates((0,), {"max_stretch": {"a": subset[:1]}}).verdict() == ""
    fixed = {"a": np.full(6, 1.0), "b": np.full(6, 1.5), "drawn": 2 + subset}
    assert (
        "; equal in all replications, so without an interval: b +50 %"
        in replace(actual, values={"max_stretch": fixed}).verdict()
    )


def test_schedulers_that_reject_jobs_are_ranked_neither_in_replications_nor_in_sweeps() -> None:
    def jobs(seed: int) -> gs.Scenario:
        drawn = gs.Workload.jobs(jobs=60, utilization=0.9, seed=seed).realize(gs.Platform.equal(8))
        columns = drawn.release, drawn.tasks, drawn.task_size / 1000.0, drawn.requested
        return gs.Scenario(gs.Platform.equal(8), gs.Workload.jobs_of(*columns, user=np.arange(60)))

    queues = {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")}
    queues["limited"] = gs.BatchQueue(user_limit=2)
    with pytest.warns(UserWarning, match="rejected"):
        actual = replicate(jobs, queues, range(5), baseline="easy", metrics=["mean_waiting"])
        swept = gs.sweep(jobs(0), queues, {"platform.nodes": [8, 16]}, replicates=5, metrics=["mean_waiting"])
        mean = np.mean([gs.simulate(jobs(k), queues["limited"]).failed for k in range(5)])
    left_out = f".  limited is not ranked: it rejected {mean:.6g} jobs on average."
    assert actual.verdict().endswith(left_out) and "(limited" not in actual.verdict()
    assert [row[-1] == "unranked" for row in actual.overview().tables[0].rows] == [False, False, True]
    assert swept.verdict().endswith(
        "limited is not ranked: it rejected more jobs than others at 2 of 2 points."
    )
    means, ratios = actual.charts()[0]
    for chart in (means, ratios):
        assert [*chart.estimates] == ["easy", "fcfs", "limited"] and [*chart.exclusions] == ["limited"]
    assert math.isfinite(means.estimates["limited"].mean) and math.isnan(ratios.estimates["limited"].mean)
    curves = replace(swept, baseline="easy").chart(ratio=True).curves
    assert [*curves] == ["fcfs"] and [*swept.chart().unranked_points] == ["limited"]


def test_metrics_of_which_the_baseline_has_none_are_relative_to_another_scheduler() -> None:
    sent = {"none": np.zeros(5), "some": np.full(5, 10.0), "more": np.full(5, 20.0)}
    actual = Replicates(tuple(range(5)), {"messages": sent}, baseline="none", measure="messages")
    table = actual.overview().tables[0]
    assert table.head[-1] == ("relative to some", "")
    assert [row[-1].partition(" ")[0] for row in table.rows] == ["0", "1", "2"]
    alone = replace(actual, values={"messages": {"none": sent["none"], "some": sent["some"]}})
    assert [title for title, _ in alone.overview().tables[0].head] == ["scheduler", "mean"]


def test_replications_of_which_none_differs_allow_no_conclusion(tmp_path: Path) -> None:
    log = tmp_path / "own.swf"
    jobs = [(k, 10 * k, 1 + k % 7, 1 + k % 4, k % 5) for k in range(60)]
    log.write_text(
        "".join(f"{k} {at} 0 {90 * n} {n} -1 -1 {n} {t * 400} -1 1 {user} -1 -1 -1 -1 -1 -1\n"
                for k, at, t, n, user in jobs)
    )  # fmt: skip
    queues = {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")}
    same, drawn = (
        replicate(
            gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(log, resample=blocks)),
            queues,
            replicates=5,
            metrics=["mean_waiting"],
        )
        for blocks in (None, "users")
    )
    assert same["mean_waiting"]["easy"][0] < same["mean_waiting"]["fcfs"][0]
    assert same.verdict() == "All 5 replications have equal values, which allow no conclusion."
    assert (
        "[" not in same.overview().tables[0].rows[0][1]
        and "resample=weeks (or users)" in same.about["sample"]
    )
    assert "lowest" in drawn.verdict() and "sample" not in drawn.about
    assert drawn.about["drawn anew"].startswith("users of the log (with replacement) and ")
    with pytest.raises(gs.ScenarioError, match='at least 2 weeks.*"users" has no such limit'):
        gs.Workload.jobs_from_log(log, resample="weeks").realize(gs.Platform.equal(4))


def test_differences_to_zero_are_significant_or_not() -> None:
    """There is no ratio to a scheduler under which no job waits in some replications."""
    zero, wait = np.zeros(10), 7200.0 + 60.0 * np.arange(10.0)
    some = np.where(np.arange(10) == 3, 36_000.0, 0.0)
    values = {"zero": zero, "wait": wait, "some": some}
    found = Replicates(tuple(range(10)), {"mean_waiting": values}, {"mean_waiting": "s"}, baseline="zero")
    found = replace(found, measure="mean_waiting")
    significant = [name for name in values if found.excess(name, "zero", "mean_waiting")[0]]
    assert significant == ["wait"]
    text = found.verdict()
    assert "zero has the lowest mean waiting on average (wait +7,470 s [" in text
    assert "; not significantly higher: some +3,600 s [" in text
    low = replace(found, values={"mean_waiting": {"a": zero, "b": zero + 0.9}})
    assert low.verdict() == "Over 10 replications, jobs hardly wait: each mean is below 1 s."


class Broken(gs.Fcfs, frozen=True):
    name = "broken"

    def start(self, run: Any) -> Any:
        raise RuntimeError("no start")


def test_an_error_of_a_run_shows_the_code_of_the_user_once() -> None:
    with pytest.raises(gs.GridSimError, match="RuntimeError: no start") as excinfo:
        gs.replicate(small_scenario(1), [Broken()], replicates=1)
    (note,) = excinfo.value.__notes__
    assert note.startswith(f'  File "{__file__}"') and note.count("File ") == 1 and "Traceback" not in note


def test_a_metric_that_raises_an_error_is_missing_in_its_runs() -> None:
    """The runs are kept, and one warning names the first of them."""

    def fragile(result: gs.Result) -> float:
        if result.scheduler["name"] == "fcfs":
            raise ValueError("no such thing")
        return 1.0

    schedulers = {"tree": gs.FairTree(), "queue": gs.Fcfs()}
    expected = (
        r"^metrics\['fragile'\] has no value in 3 runs, first in queue \(replication 0\): ValueError: no"
    )
    with pytest.warns(gs.MetricWarning, match=expected) as records:
        found = replicate(small_scenario(1), schedulers, replicates=3, metrics=[fragile, "makespan"])
    assert len(records) == 1 and not found.errors
    assert np.isnan(found["fragile"]["queue"]).all() and (found["fragile"]["tree"] == 1.0).all()
    assert np.isfinite(found["makespan"]["queue"]).all()


@pytest.mark.parametrize("metrics", [["mean_waiting"], ["mean_waiting", "p95_waiting"], ["p95_waiting"]])
def test_waiting_times_have_the_unit_of_single_runs_whatever_the_metrics(metrics: list[str]) -> None:
    """The mean is 1.3 h, the 95th percentile 2.5 h: a comparison of single runs shows hours."""
    workload = gs.Workload.jobs_of([0.0] * 20, [1] * 20, [500.0] * 20)
    scenario = gs.Scenario(gs.Platform.equal(1), workload)
    schedulers = {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")}
    replicates = gs.replicate(scenario, schedulers, replicates=2, metrics=metrics)
    assert [replicates.unit(metric)[0] for metric in metrics] == [3600.0] * len(metrics)
    assert ("waiting", "mean, h") in gs.compare(scenario, schedulers).overview().tables[0].head
