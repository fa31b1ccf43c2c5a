"""Reports: they show the numbers of results, escape all text, and load nothing from the network."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import plotly.graph_objects as go
import pytest

import gridsim as gs
from gridsim import plots
from gridsim.cli.settings import parse_setting
from gridsim.plots.draw import draw
from gridsim.plots.style import TOTAL_COLOUR
from gridsim.report import charts, contents, schedules, tables
from gridsim.report.draw import draw as plotly_draw
from gridsim.report.figures import BACKGROUND, GRID, POINTS, TEXT
from gridsim.results.metrics import series
from gridsim.schedulers import MODES
from gridsim.support.text import time_text
from tests._helpers.report_pages import NAMES, bags, rigid


def checked_figure(figure: dict[str, Any]) -> go.Figure:
    """Return a figure of plotly.py, which rejects properties that plotly.js does not have."""
    text = json.dumps(figure)
    for token in (TEXT, GRID, BACKGROUND):
        text = text.replace(f'"{token}"', '"#123456"')
    return go.Figure(json.loads(text))


def with_tables(result: gs.Result, **tables: gs.Table) -> gs.Result:
    """Return the result with other tables and without provenance."""
    return gs.Result(
        tables=dict(result.tables) | tables, facts=result.facts, scheduler=result.scheduler, provenance={}
    )


class OwnQueue(gs.Fcfs, frozen=True, kw_only=True):
    """A scheduler that is not registered, with parameters that the table of a report shortens."""

    shares: tuple[float, ...] = ()
    is_exact: bool = False


# -- numbers ----------------------------------------------------------------------------------------------


def test_commands_for_own_schedulers_have_exact_parameters() -> None:
    values = {"shares": [k / 3 for k in range(1, 15)], "is_exact": True}
    result = gs.simulate(bags(2), OwnQueue(shares=tuple(values["shares"]), is_exact=True))
    (again,) = [
        section for section in contents.of_results({"own": result}).sections if section.name == "again"
    ]
    words = shlex.split(again.codes[0].text.splitlines()[0], comments=True)
    settings = [parse_setting(words[k + 1]) for k, word in enumerate(words) if word == "--set"]
    assert {parameter: value for _, parameter, value in settings if parameter in values} == values


def test_report_of_a_run_has_its_printed_lines(single_run: gs.Result, write_report: Any) -> None:
    actual = write_report(single_run)
    for key, line in single_run.lines().items():
        if key in ("platform", "workload", "load", "makespan", "utilization", "digest"):
            assert line in actual.text, key
    assert actual.text.count(single_run.lines()["draw"]) == 1  # no card
    outcome = f"The max stretch is {single_run.max_stretch_agg:.4g}, and the makespan is "
    assert f"{outcome}{single_run.makespan:,.0f} s." in actual.text
    assert f"{single_run.max_stretch:.4g} s/Mflop" in actual.text
    assert f"max stretch over the discrete bound, {single_run.bound().stretch:.4g} s/Mflop" in actual.text
    messages = actual.tables["Messages"]
    assert messages[0] == ["kind", "sent", "delivered", "dropped", "in flight", "bytes B"]
    assert messages[1:] == [[str(cell) for cell in row.values()] for row in single_run.messages.rows()]
    quantiles = actual.tables["Quantiles of the stretch"][1]
    stretch = single_run.applications["stretch_agg"]
    assert quantiles[1:3] == ["8 of 8", f"{stretch.min():.3g}"]
    assert quantiles[4::3] == [f"{np.median(stretch):.3g}", f"{stretch.max():.3g}"]
    facts = dict(actual.tables["Facts reported by the schedulers"][1:])
    assert facts["ledger_end_s"] == f"{single_run.facts['ledger_end_s']:.8g}"
    assert dict(actual.tables["Parameters"][1:])["samples"] == "720"
    assert actual.tables["Digests"][1] == [
        "fair-tree",
        "gridsim:FairTree",
        single_run.digest,
    ]
    assert single_run.provenance["scenario"].strip() in actual.html.replace("&#34;", '"')
    assert "gridsim run scenario.toml --scheduler fair-tree # digest" in actual.text


def test_report_of_a_comparison_has_the_table_of_compare(
    comparison: gs.Comparison, write_report: Any
) -> None:
    actual = write_report(comparison)
    rows = actual.tables["Schedulers compared"]
    printed = comparison.format(width=500, verbose=True).splitlines()
    start = next(i for i, line in enumerate(printed) if line.startswith("scheduler"))
    for row, line in zip(rows[1:], printed[start + 2 :], strict=False):
        assert row == re.split("  +", line)
    assert "stretch max" in rows[0] and "relative to mincent" in rows[0]
    assert "mincent (ratios are relative to it)" in actual.text
    # the facts of the schedulers have another table
    for line in comparison.format(width=500).splitlines()[start + 6 :]:
        assert line in actual.text
    assert "mincent: Centralized heuristic for the smallest" in actual.text
    bars = actual.charts["summary-0"]["data"][0]
    assert bars["x"] == pytest.approx(
        [comparison[name].applications["stretch_agg"].max() for name in NAMES], rel=1e-6
    )
    assert bars["text"] == [f"{comparison.ratio(name):.3f}" for name in NAMES]


def test_a_report_begins_with_what_came_out(comparison: gs.Comparison, write_report: Any) -> None:
    tags = write_report(comparison).tags
    places = {name: [k for k, (tag, _) in enumerate(tags) if tag == name] for name in ("h2", "table", "dt")}
    plots = [k for k, (_, attributes) in enumerate(tags) if attributes.get("class") == "plot"]
    parts = [k for k, (_, attributes) in enumerate(tags) if attributes.get("class") == "part"]
    folded = next(k for k, (tag, _) in enumerate(tags) if tag == "details")
    # three lines, and one chart before the first table; all further sections are folded
    assert sum(place < folded for place in places["dt"]) == 3
    assert places["h2"][0] < plots[0] < places["table"][0] < parts[0]
    assert len(parts) == len(places["h2"]) - 1


def test_replications_have_confidence_intervals(replicates: gs.Replicates, write_report: Any) -> None:
    read = dataclasses.replace(replicates, files={"my.swf": "5" * 64})
    actual = write_report(read, scenario=bags(), command="gridsim compare scenario.toml --replicates 6")
    assert all(line in actual.text for line in ("my.swf", "5" * 64, *replicates.about.values()))
    printed = replicates.format(width=200)
    for caption, rows in list(actual.tables.items())[: len(replicates.values)]:
        assert caption in printed
        for row in rows[1:]:
            assert "  ".join(re.split(r"\s{2,}", row[0])) in printed
            assert all(cell in printed for cell in row)
    ratio = replicates.ratio("fair-tree", "mincent")
    dots, one, *_ = actual.charts["summary-1"]["data"]
    assert dots["x"] == pytest.approx(replicates["stretch"]["fair-tree"] / replicates["stretch"]["mincent"])
    assert one["x"] == pytest.approx([ratio.mean])
    assert one["error_x"]["array"] == pytest.approx([ratio.high - ratio.mean], rel=1e-6)
    assert actual.tables["Digests"][1][1] == replicates.digests["fair-tree"][0]
    assert "gridsim compare scenario.toml --replicates 6" in actual.text
    # without a command, the report has no section on it
    assert "Run it again" not in write_report(replicates, scenario=bags()).text


def test_charts_show_the_series(single_run: gs.Result, write_report: Any) -> None:
    actual = write_report(single_run).charts
    titles = {key: figure["layout"]["yaxis"]["title"]["text"] for key, figure in actual.items()}
    assert titles["time-0"] == "applications released and not finished"
    assert titles["time-2"] == "busy machines"
    for number, quantity in enumerate(get_args(series.Quantity)):
        key, steps = f"time-{number}", series.over_time(single_run, quantity)
        line = actual[key]["data"][0]
        assert line["x"] == pytest.approx(steps.times, rel=1e-6) and line["y"] == steps.values.tolist()
        assert line["line"]["shape"] == "hv"
    gantt, table = actual["machines-1"]["data"][0], single_run.tables["schedule"]
    assert gantt["base"] == pytest.approx(table["start"], rel=1e-6)
    assert np.add(gantt["base"], gantt["x"]) == pytest.approx(table["end"], rel=1e-6)
    assert gantt["y"] == table["machine"].tolist()
    assert sum(actual["machines-0"]["data"][0]["y"]) == 30
    sent = [sum(bar["x"]) for bar in actual["messages-1"]["data"]]
    assert sum(sent) == pytest.approx(single_run.messages["bytes"].sum() / 1e6)


def test_invalid_utilization_is_visible() -> None:
    run = gs.simulate(bags(4), gs.Fcfs())
    machines = dict(run.machines.items()) | {"utilization": np.array([0.2, 1.5, 1.5, np.nan])}
    wrong = with_tables(run, machines=gs.Table(machines))
    for results in ({"a": wrong}, {"a": wrong, "b": run}):
        chart = charts.utilization(results)
        assert chart is not None
        layout, (trace, *_) = chart.figure["layout"], chart.figure["data"]
        assert layout["xaxis"]["range"] == [0, 150.0]
        assert trace["y"][-1] == 2 and 145.0 < trace["x"][-1] <= 150.0


def test_axis_of_a_single_value_includes_zero(write_report: Any) -> None:
    work = gs.Workload.bags(1, 10.0, 1.0, task_size=1e6, seed=1)
    result = gs.simulate(gs.Scenario(gs.Platform.equal(1), work), gs.Fcfs(), record=True)
    actual = write_report(result)
    size, stretch = (float(result.applications[name][0]) for name in ("size", "stretch_agg"))
    ranges = [
        [actual.charts[chart]["layout"][axis].get("range") for axis in ("xaxis", "yaxis")]
        for chart in ("summary-0", "applications-0")
    ]
    assert ranges == [[[0.0, 2 * stretch], [0, 102]], [[0.0, 2 * size], [0.0, 2 * stretch]]]
    assert actual.charts["machines-1"]["layout"]["yaxis"]["dtick"] == 1
    # it never waits, and counts of one are in the singular
    assert "Waiting applications" not in actual.text and "Active applications" in actual.text
    assert (
        "1 machine, 1,000 Mflop/s" in actual.text and "1 application, 1 task, 1,000,000 Mflop" in actual.text
    )


def test_missing_values_have_no_chart(write_report: Any, compared_jobs: gs.Comparison) -> None:
    run = compared_jobs["easy"]
    unknown = {name: np.full(40, np.nan) for name in ("waiting", "slowdown")}
    jobs = gs.Table(dict(run.applications.items()) | unknown)
    actual = write_report(with_tables(run, applications=jobs))
    assert not [chart for chart in actual.charts if chart.startswith("applications")]
    assert "Quantiles of the slowdown" in actual.tables


LONG = [
    "fair-tree bound=1.25 minimum_of=all",
    "fair-tree bound=2.00 minimum_of=all",
    "fair-tree bound=2.00 minimum_of=one",
    "fair-tree bound=2.00 minimum_of=one, with & without a share of what each of its machines is told",
    *(f"scheduler number {k} with quite a long name" for k in range(10)),
]


def test_long_names_stay_distinct(single_run: gs.Result, write_report: Any) -> None:
    actual = write_report(dict.fromkeys(LONG, single_run)).charts
    legend = [trace["name"] for trace in actual["time-0"]["data"]]
    rows = actual["summary-0"]["layout"]["yaxis"]["ticktext"]
    for labels in (legend, rows):
        assert [html.unescape(item.replace("<br>", " ")) for item in labels] == LONG
        assert max(len(html.unescape(line)) for item in labels for line in item.split("<br>")) <= 24
    assert html.unescape(rows[3]).count("<br>") == 4
    (chart,) = [
        c for c in charts.over_time(dict.fromkeys(LONG, single_run)) if c.title == "Active applications"
    ]
    short = charts.over_time({str(k): single_run for k in range(len(LONG))})
    assert chart.pixels > next(short).pixels


# -- all kinds of runs ------------------------------------------------------------------------------------

FAILING = gs.Scenario(
    gs.Platform.desktop_grid(12, 1),
    gs.Workload.bags(3, 10.0, 4.0, task_size=1e6, seed=2, spread=gs.Normal(0.5)),
    faults=gs.Faults.exponential(up=7200.0, down=600.0, seed=4),
    seed=3,
)
STREAMS = gs.Scenario(gs.Platform.normal(9, 1), gs.Workload.job_streams(100.0, seed=2))
SEVERAL: dict[str, tuple[gs.Scenario, dict[str, gs.Scheduler]]] = {
    "trees": (bags(), {"fair-tree": gs.FairTree(), "ideal": gs.IdealTree(), "once": gs.MinCent(mode="once")}),
    "mapping": (bags(), {"min-min": gs.MinMin(), "mct": gs.Mct()}),
    "rigid": (rigid(), {"dgs": gs.DgsAsap(), "asap": gs.Asap(), "easy": gs.BatchQueue()}),
    "queues": (FAILING, {"WQR-FT": gs.WqrFt(), "informed": gs.WqrFt(machine_choice="all")}),
    "waves": (bags(9), {mode: gs.Wave(mode=mode) for mode in MODES}),
    "streams": (STREAMS, {"rjss": gs.Rjss(), "exclusion": gs.ResourceExclusion(), "none": gs.NoMigration()}),
    "searches": (bags(9), {"rendezvous": gs.Rendezvous(), "ring": gs.ExpandingRing(), "fcfs": gs.Fcfs()}),
}
CHARTS = {
    "rigid": {"Distribution of the waiting time", "Slowdown over size", "Waiting jobs"},
    "queues": {"Distribution of the response time", "Cycles"},
    "waves": {"Cycles"},
    "streams": {"Distribution of the turnaround", "Messages by kind"},
    "trees": {"Messages by level of the tree, fair-tree"},
}


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("kind", SEVERAL)
def test_every_scheduler_has_a_report(kind: str, recorded: bool, write_report: Any, tmp_path: Path) -> None:
    scenario, schedulers = SEVERAL[kind]
    results = {name: gs.simulate(scenario, item, record=recorded) for name, item in schedulers.items()}
    actual = write_report(results)
    titles = set(re.findall(r'aria-label="Chart\. ([^:"]*):', actual.html))
    assert CHARTS.get(kind, set()) | {"Active jobs" if kind == "rigid" else "Active applications"} <= titles
    assert ("Busy machines" in titles) == recorded
    assert all(f"Schedule of {name}" in titles for name in results) == recorded
    for figure in actual.charts.values():
        checked_figure(figure)
    cycles = [
        f for f in actual.charts.values() if f["layout"]["xaxis"]["title"]["text"].startswith("share of")
    ]
    for figure in cycles:
        sums = np.sum([bar["x"] for bar in figure["data"]], axis=0)
        assert sums == pytest.approx(100.0)
    for name, result in results.items():
        assert [name, result.scheduler["class"], result.digest] in actual.tables["Digests"]
        gs.write_report(result, tmp_path / "one.html")
        one = (tmp_path / "one.html").read_text(encoding="utf-8")
        makespan = time_text(result.makespan)
        assert ("<h3>Schedule</h3>" in one) == recorded and f"<dd>{makespan}" in one


def test_charts_of_several_runs_name_the_run(write_report: Any) -> None:
    """Only one run was recorded, sends messages or has cycles."""
    work = gs.Workload.bags(3, 10.0, 4.0, task_size=1e6, seed=1)
    scenario = gs.Scenario(gs.Platform.desktop_grid(9, 1), work)
    schedulers = {"mincent": gs.MinCent(), "fair-tree": gs.FairTree(), "WQR-FT": gs.WqrFt()}
    results = {
        name: gs.simulate(scenario, item, record=name == "WQR-FT") for name, item in schedulers.items()
    }
    actual = write_report(results)
    titles = dict(re.findall(r'aria-label="Chart\. ([^:"]*):[^"]*" id="([^"]*)"', actual.html))
    response = actual.charts[titles["Distribution of the response time"]]
    for trace, result in zip(response["data"], results.values(), strict=True):
        times = result.applications["finish"] - result.applications["release"]
        assert trace["x"][1:] == pytest.approx(np.unique(times), rel=1e-6)
    assert [row[0] for row in actual.tables["Quantiles of the response time (s)"]][1:] == list(results)
    busy = actual.charts[titles["Busy machines"]]
    assert [trace["name"] for trace in busy["data"]] == ["WQR-FT"] and busy["layout"]["showlegend"]
    assert actual.charts[titles["Cycles"]]["layout"]["yaxis"]["ticktext"] == ["WQR-FT"]
    assert {"Messages by kind, fair-tree", "Schedule of WQR-FT"} <= set(titles)


def test_long_times_are_in_hours_and_days(write_report: Any) -> None:
    jobs = gs.Workload.jobs_of([0.0, 0.0], [2, 2], [14_400.0, 36_000.0])
    scenario = gs.Scenario(gs.Platform.equal(2), jobs)
    actual = write_report(gs.compare(scenario, ["backfill", "asap"], record=True))
    head, *rows = actual.tables["Schedulers compared"]
    place = {title: k for k, title in enumerate(head)}
    assert rows[0][place["waiting mean, h"]] == "2" and rows[0][place["makespan h"]] == "14"
    assert actual.charts["summary-0"]["data"][0]["x"][0] == 2.0
    assert actual.charts["summary-0"]["layout"]["xaxis"]["title"]["text"] == "mean waiting time (h)"
    assert actual.charts["time-0"]["layout"]["xaxis"]["title"]["text"] == "time (h)"
    assert actual.charts["machines-1"]["data"][0]["base"] == [0.0, 0.0, 4.0, 4.0]
    long = gs.Scenario(gs.Platform.equal(2), gs.Workload.jobs_of([0.0], 1, 864_000.0))
    assert "<dd>10 days</dd>" in write_report(gs.simulate(long, "backfill")).html


def test_a_schedule_shows_when_machines_were_down(write_report: Any) -> None:
    jobs = gs.Workload.jobs_of([0.0, 5.0], [1, 2], [100.0, 50.0])
    faults = gs.Faults.of([1, 2, 3, 4], [20.0, 30.0, 0.0, 1e6], [60.0, 30.0, math.inf, math.inf])
    scenario = gs.Scenario(gs.Platform.equal(6), jobs, faults=faults)
    result = gs.simulate(scenario, gs.BatchQueue(), record=True)
    actual = write_report(result)
    down, pieces = checked_figure(actual.charts["machines-1"]).data
    last = float(result.tables["schedule"]["end"].max())
    first = float(result.tables["schedule"]["start"].min())
    displayed = sorted(zip(down.y, down.base, np.add(down.base, down.x), down.text, strict=True))
    assert displayed == [
        (1, 20.0, pytest.approx(60.0), "down from 20 s to 60 s"),
        (2, 30.0, 30.0, "transient failure at 30 s"),
        (3, first, pytest.approx(last), "down from 0 s on"),
    ]
    assert pieces.text[0].startswith("machine 0: job 0, ")
    assert pieces.marker.pattern.shape == tuple(
        "/" if end in (20.0, 30.0) else "" for end in np.add(pieces.base, pieces.x)
    )
    assert "hatched: not completed, grey: down or transient failure." in actual.text
    calm = write_report(gs.simulate(gs.Scenario(scenario.platform, jobs), gs.BatchQueue(), record=True))
    assert len(calm.charts["machines-1"]["data"]) == 1 and "grey" not in calm.text


def test_schedule_of_a_log_has_a_report(tmp_path: Path, write_report: Any) -> None:
    log = tmp_path / "log.swf"
    rest = "1 7 1 1 1 1 -1 -1"
    log.write_text(f"; MaxProcs: 4\n1 0 5 60 2 -1 -1 2 90 -1 {rest}\n2 9 -1 60 1 -1 -1 1 90 -1 {rest}\n")
    with pytest.warns(gs.TraceWarning):
        result = gs.result_from_log(log)
    actual = write_report({"log": result, "easy": gs.simulate(rigid(), gs.BatchQueue())})
    assert "different scenarios" in actual.text and "it cannot be repeated" in write_report(result).text
    assert [str(log), next(iter(result.provenance["files"].values()))] in actual.tables["Trace files"]
    assert actual.tables["Scenarios"][1][0] == "platform"


def test_a_report_names_the_platform_of_each_result(tmp_path: Path, write_report: Any) -> None:
    """The row of a log has fewer lines on its scenario than the runs, some of which have dates."""
    log = tmp_path / "log.swf"
    lines = [f"{k} {9 * k} 5 60 2 -1 -1 2 90 -1 1 7 1 1 1 1 -1 -1\n" for k in (1, 2)]
    log.write_text("; MaxProcs: 4\n; UnixStartTime: 1000000\n" + "".join(lines))
    jobs = gs.Workload.jobs_from_log(log)
    runs = {
        f"{machines}": gs.simulate(gs.Scenario(gs.Platform.equal(machines), jobs), gs.BatchQueue())
        for machines in (4, 8)
    }
    for results in (runs | {"log": gs.result_from_log(log)}, {"log": gs.result_from_log(log)} | runs, runs):
        actual = write_report(results)
        names = [name for name in results if name != "8"]
        assert f"{' and '.join(names)}: 4 machines" in actual.text and "8: 8 machines" in actual.text
        scenarios = {row[0]: row[1:] for row in actual.tables["Scenarios"]}
        assert scenarios["platform"] == [f"{8 if name == '8' else 4} machines" for name in results]
        assert {"platform", "load"} == {*scenarios} - {""}  # the lines that differ


def test_log_is_compared_with_runs_of_its_jobs(tmp_path: Path, write_report: Any) -> None:
    """The scenarios differ, but have the same jobs and machines."""
    log = tmp_path / "log.swf"
    rest = "1 7 1 1 1 1 -1 -1"
    log.write_text(f"; MaxProcs: 4\n1 0 5 60 2 -1 -1 2 90 -1 {rest}\n2 9 70 60 3 -1 -1 3 90 -1 {rest}\n")
    own = gs.result_from_log(log)
    listed = gs.Workload.jobs_of(release=[0.0, 9.0], nodes=[2, 3], run_time=60.0, requested=90.0)
    scenario = gs.Scenario(gs.Platform.equal(4), listed, seed=5)
    easy = gs.simulate(scenario, gs.BatchQueue())
    assert own.scenario != scenario
    for results in ({"log": own, "easy": easy}, {"easy": easy, "log": own}):
        actual = write_report(results)
        assert "different scenarios" not in actual.text and "Scenarios" not in actual.tables
        # there is only one scheduler; the log does not compete with it
        assert "In this run" not in actual.text
        row = next(row for row in actual.tables["Schedulers compared"] if row[0] == "log")
        assert "54.0" in row and "unranked" in row and "nan" not in actual.text.lower().split()
        assert own.digest[:16] not in actual.text and easy.digest[:16] in actual.text
        bars = actual.charts["summary-0"]["data"][0]
        colours = dict(zip(bars["customdata"], bars["marker"]["line"]["color"], strict=True))
        assert colours["log"] == TOTAL_COLOUR != colours["easy"]
        assert (bars["customdata"][-1], bars["text"][-1]) == ("log", "unranked")
    alone = write_report(own).text
    assert "54.0 % until the last end" in alone and "messages" not in alone and "nan" not in alone.split()
    other = gs.Workload.jobs_of(release=[0.0, 9.0], nodes=[2, 3], run_time=61.0, requested=90.0)
    slow = gs.Network(latency=1.0)
    for unlike in (
        gs.Scenario(gs.Platform.equal(4), other),
        gs.Scenario(gs.Platform.equal(5), listed),
        gs.Scenario(gs.Platform.equal(4), listed, network=slow),
    ):
        results = {"easy": easy, "other": gs.simulate(unlike, gs.BatchQueue()), "log": own}
        assert "different scenarios" in write_report(results).text


@pytest.mark.filterwarnings("ignore:.*rejected")
def test_the_chart_of_a_comparison_has_the_ratios_of_the_table(write_report: Any) -> None:
    jobs = gs.Workload.jobs_of([0.0, 0.0, 0.0], [2, 2, 1], [10.0, 20.0, 30.0], user=[1, 2, 3])
    queues = {"easy": gs.BatchQueue(), "limited": gs.BatchQueue(user_limit=1)}
    queues["lcfs"] = gs.BatchQueue(order="lcfs", backfill="none")
    scenario = gs.Scenario(gs.Platform.equal(2), jobs)
    actual = write_report({name: gs.simulate(scenario, queue) for name, queue in queues.items()})
    _, *rows = actual.tables["Schedulers compared"]
    ratios = {row[0]: row[2] for row in rows}
    bars = actual.charts["summary-0"]["data"][0]
    assert dict(zip(bars["customdata"], bars["text"], strict=True)) == ratios
    assert ratios["limited"] == "unranked" and bars["customdata"][-1] == "limited"
    assert bars["marker"]["color"][-1] == "@background" not in bars["marker"]["color"][:-1]
    names = [trace["name"] for trace in actual.charts["jobs-0"]["data"]]
    assert names[-1] == "limited (unranked)"


def test_quantiles_are_as_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The p % quantile of 0, 1, ..., 100 is p."""
    sample = {"stretch": ("s", {"a": np.arange(101.0)})}
    monkeypatch.setattr(tables, "sample_values", lambda results: sample)
    (table,) = tables.quantiles({})
    assert table.rows == [["a", "101 of 101", "0", "25", "50", "75", "95", "100"]]


def test_utilization_bars_are_centred_in_their_bins() -> None:
    """Bins have 2.5 %: a machine that is busy for half of the time is in the bin from 50 to 52.5 %."""
    result: Any = SimpleNamespace(machines={"utilization": np.array([0.5])}, of_log=False)
    chart = charts.utilization({"a": result})
    assert chart is not None
    (bars,) = chart.figure["data"]
    assert [(x, y) for x, y in zip(bars["x"], bars["y"], strict=True) if y] == [(51.25, 1)]


def test_a_minimal_run_has_a_report(write_report: Any) -> None:
    """The result has no provenance and an unknown scheduler."""
    tables = {name: gs.Table(dict(t.items())) for name, t in gs.simulate(bags(1), gs.Fcfs()).tables.items()}
    scheduler = {"name": "mine", "class": "nobody:Knows", "parameters": {}}
    little = gs.Result(tables=tables, facts={}, scheduler=scheduler, provenance={})
    actual = write_report({"a": little, "b": little})
    assert list(actual.tables) == ["Schedulers compared", "Quantiles of the stretch", "Digests"]
    assert "Run it again" not in actual.text and "a (ratios are relative to it)" in actual.text
    assert "mine on 1 machine" in write_report(little).text


def test_large_schedules_are_rasters_and_long_series_thinned() -> None:
    workload = gs.Workload.bags(3000, 1.0, 1.0, seed=1, task_size=65536.0)
    result = gs.simulate(gs.Scenario(gs.Platform.desktop_grid(120, 1), workload), gs.Fcfs(), record=True)
    assert len(result.applications) > POINTS and len(result.tables["schedule"]) > schedules.PIECES
    results = {"fcfs": result}
    (schedule,) = schedules.schedules(results)
    heat = schedule.figure["data"][0]
    assert heat["type"] == "heatmap" and np.shape(heat["z"]) == schedules.RASTER
    assert (len(heat["y"]), len(heat["x"])) == (schedules.RASTER[0] + 1, schedules.RASTER[1] + 1)
    all_charts = [*charts.distributions(results), *charts.over_time(results), charts.over_size(results)]
    for chart in all_charts:
        for trace in chart.figure["data"]:
            assert len(trace["x"]) == len(trace["y"]) <= POINTS + 2
    highest = max(charts.over_size(results).figure["data"][0]["y"])
    assert highest == pytest.approx(result.applications["stretch_agg"].max(), rel=1e-6)
    utilization = charts.utilization(results)
    assert utilization is not None
    for counted in (schedule.figure, utilization.figure):
        assert counted["layout"]["yaxis"]["tickformat"] == ","  # the tick is 20,000, not 0.2 x 10^5


# -- one file ---------------------------------------------------------------------------------------------


def test_a_report_is_self_contained(comparison: gs.Comparison, write_report: Any) -> None:
    actual = write_report(comparison)
    assert len(actual.scripts) == 3 and len(actual.scripts[1]) > 3e6
    assert actual.html.count("plotly.js v") == 1
    for tag, attributes in actual.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, name)
    own = actual.html.replace(actual.scripts[1], "")
    assert not re.search(r"https?://|@import|url\(", own)
    (policy,) = (a["content"] for t, a in actual.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'") and "eval" not in policy


def test_names_with_markup_are_shown_as_text(single_run: gs.Result, write_report: Any) -> None:
    wrong = "</script><script>alert('x')</script><!--&amp;\u2028"
    actual = write_report({wrong: single_run, "<b>": single_run}, title=wrong)
    assert len(actual.scripts) == 3 and not {tag for tag, _ in actual.tags} & {"b"}
    assert actual.tables["Digests"][1][0] == wrong
    assert "alert('x')" not in actual.scripts[0] and "<" not in actual.scripts[0]
    for figure in actual.charts.values():
        for trace in figure["data"]:
            assert "<" not in trace.get("name", "").replace("<br>", "")


def test_equal_results_give_equal_files(single_run: gs.Result, tmp_path: Path) -> None:
    single_run.save(tmp_path / "r.gridsim")
    for name, result in (("a.html", single_run), ("b.html", gs.Result.load(tmp_path / "r.gridsim"))):
        gs.write_report(result, tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_headings_and_links_are_consistent(comparison: gs.Comparison, write_report: Any) -> None:
    actual = write_report(comparison)
    levels = [int(tag[1]) for tag, _ in actual.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))
    ids = [a["id"] for _, a in actual.tags if "id" in a]
    assert len(ids) == len(set(ids)) and set(actual.charts) <= set(ids)
    links = {a["href"][1:] for tag, a in actual.tags if tag == "a" and a["href"]}
    assert links <= set(ids)
    assert all(a.get("scope") in ("col", "row") for tag, a in actual.tags if tag == "th")
    assert sum(tag == "caption" for tag, _ in actual.tags) == sum(tag == "table" for tag, _ in actual.tags)


# -- invalid input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "path", "more", "message"),
    [
        ("single", "x.pdf", {}, "path must end in .html, got"),
        ("single", "x.html", {"title": " "}, "title must be a non-empty string, got ' '"),
        ("single", "x.html", {"scenario": bags()}, "scenario requires Replicates"),
        ("single", "x.html", {"command": "gridsim run"}, "command requires Replicates"),
        ({}, "x.html", {}, "results must contain at least one result"),
        ({"a": 1}, "x.html", {}, "results['a'] must be a Result, got 1"),
        (
            3,
            "x.html",
            {},
            "a Comparison, Replicates, a SweepResult or a Ladder, got int",
        ),
    ],
)
def test_invalid_input_is_rejected(
    results: Any, path: str, more: Any, message: str, single_run: gs.Result, tmp_path: Path
) -> None:
    with pytest.raises(gs.ScenarioError) as excinfo:
        gs.write_report(single_run if results == "single" else results, tmp_path / path, **more)
    assert message in str(excinfo.value) and list(tmp_path.iterdir()) == []


def test_bags_and_rigid_jobs_are_not_compared(
    single_run: gs.Result, compared_jobs: gs.Comparison, tmp_path: Path
) -> None:
    with pytest.raises(gs.ScenarioError, match="must all be of rigid jobs or all of bags to be compared"):
        gs.write_report({"a": single_run, "b": compared_jobs["easy"]}, tmp_path / "x.html")


def test_failed_runs_are_reported(write_report: Any) -> None:
    options = {"baseline": "fcfs", "errors": "record", "metrics": ["max_stretch"], "time_limit": 1.0}
    actual = gs.replicate(bags(), NAMES, replicates=2, **options)
    page = write_report(actual)
    assert "failed: fcfs, all 2 replications: ScenarioError: fcfs did not end within time_limit" in page.text
    assert all(math.isnan(value) for value in actual["max_stretch"]["fcfs"])
    assert page.tables["Digests"][1][1:] == ["failed"] * 3


def test_reports_use_the_colour_order_of_plots(comparison: gs.Comparison) -> None:
    from gridsim.plots import COLOURS

    chart = next(charts.distributions(comparison.results))
    assert tuple(trace["line"]["color"] for trace in chart.figure["data"]) == COLOURS[:3]


def test_a_sweep_report_begins_with_the_verdict(write_report: Any) -> None:
    over = {"network.latency": ["50 ms", "2 s"], "platform.nodes": [20, 30]}
    swept = gs.sweep(bags(), ["mincent", "fcfs"], over, replicates=2, baseline="mincent")
    actual = write_report(swept, scenario=bags(), command="gridsim sweep study.toml")
    assert actual.text.index(swept.verdict()) < actual.text.index("Comparison")
    assert "latency (s)" in actual.html and "gridsim sweep study.toml" in actual.text
    ratio = actual.charts["summary-2"]["layout"]["yaxis"]
    assert ratio["type"] == "log" and ratio["range"][0] < 0.0 < ratio["range"][1]
    assert actual.charts["summary-0"]["data"][0]["x"] == [0.05, 2.0]
    (caption,) = (
        name for name in actual.tables if name.startswith("max stretch (max_stretch_agg), mean over")
    )
    rows = actual.tables[caption]
    assert len(rows) == 9 and rows[1][:3] == ["50 ms", "20", "mincent"]


def test_a_ladder_has_a_report(write_report: Any) -> None:
    """Each step's bar begins where the step above ends; comparisons beside the ladder are notes."""
    actual = gs.ladder(bags(9), 2)
    page = write_report(actual, scenario=bags(9), command="gridsim ladder scenario.toml")
    rows = actual.table()
    (bars,) = page.charts["summary-0"]["data"]
    steps = [row for row in rows if not row["beside"]]
    widths = [steps[0]["mean"], *(row["difference"] for row in steps[1:]), steps[-1]["mean"]]
    # rounding errors are drawn as 0
    assert bars["x"] == pytest.approx([1e8 * item.mean for item in widths], rel=1e-6, abs=1e-3)
    ends = np.cumsum(bars["x"][:-1])
    assert bars["base"] == pytest.approx([0.0, *ends[:-1], 0.0], abs=1e-6 * ends[0])
    assert page.charts["summary-0"]["layout"]["yaxis"]["ticktext"][1] == "central, replanning"
    assert f"beside: {rows[-1]['name']}: " in page.text and "gridsim ladder scenario.toml" in page.text
    assert [row[0] for row in page.tables["max stretch, 1e-8 s/Mflop"][1:]] == [row["name"] for row in steps]
    for figure in page.charts.values():
        checked_figure(figure)


@pytest.mark.parametrize("ratio", [False, True])
def test_pages_and_figures_draw_the_same_values(replicates: gs.Replicates, ratio: bool) -> None:
    chart = replicates.chart(ratio=ratio)
    swept = gs.sweep(bags(9), NAMES, {"platform.nodes": [5, 9]}, replicates=5, baseline="mincent")
    curves = swept.chart(ratio=ratio)
    page, axes = plotly_draw(chart).figure, draw(chart, plots.figure()[1][0])
    means = [trace["x"][0] for trace in page["data"] if "error_x" in trace]
    centres = [float(container.lines[0].get_xdata()[0]) for container in axes.containers]
    assert means == pytest.approx([item.mean for item in chart.estimates.values()], rel=1e-6)
    assert centres == pytest.approx(means, rel=1e-6) and len(means) == 3
    page, axes = plotly_draw(curves).figure, draw(curves, plots.figure()[1][0])
    heights = [trace["y"] for trace in page["data"]]
    assert [container.lines[0].get_ydata() for container in axes.containers] == [
        pytest.approx(item, rel=1e-6) for item in heights
    ]
    assert len(heights) == 3 - ratio and page["data"][0]["x"] == [5.0, 9.0]


@pytest.mark.parametrize(("cores", "unit"), [(1, "machines"), (4, "cores")])
def test_limits_have_the_unit_that_they_count(cores: int, unit: str) -> None:
    jobs = gs.Workload.jobs_of([0.0, 1.0], [2, 2], 10.0, user=[0, 1], queue=[0, 1])
    queue = gs.BatchQueue(user_limit=2, queue_limits=(3, 2))
    result = gs.simulate(gs.Scenario(gs.Platform.equal(4, cores=cores), jobs), queue)
    (line,) = contents._schedulers({"limited": result})
    assert f"user_limit = 2 {unit}, queue_limits = 3, 2 {unit}" in line


def test_a_single_recorded_run_is_animated(write_report: Any, single_run: gs.Result, comparison: Any) -> None:
    one, several = write_report(single_run), write_report(comparison)
    assert "gridsim-animation" in one.html and "Animation" in one.text
    assert "gridsim-animation" not in several.html


def test_logarithmic_axes_are_labelled_at_1_2_and_5() -> None:
    from gridsim.report.figures import ratio_axis, value_axis

    for axis in (value_axis("size", [2.0, 80.0]), ratio_axis("ratio", [0.5, 30.0])):
        labels = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
        assert labels[20.0] == "20" and labels[0.5] == "0.5" and axis["title"]["text"].endswith(", log scale")
    assert value_axis("size", [1.0, 1e4])["dtick"] == 1
