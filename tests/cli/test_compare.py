"""`gridsim compare` with replications, and of all schedulers that support a scenario."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.settings import parse_setting
from gridsim.scheduling.registry import registered
from gridsim.studies.compare import applicable, compare
from gridsim.studies.execution import cell as cells
from gridsim.traces import info

SMALL = ["--nodes", "12", "--applications", "6"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *(str(argument) for argument in arguments)])


def bags() -> gs.Scenario:
    workload = gs.Workload.bags(applications=6, interarrival=10.0, task_size=65536.0, seed=1)
    return gs.Scenario(gs.Platform.desktop_grid(12, 1), workload, seed=1)


def rigid() -> gs.Scenario:
    workload = gs.Workload.jobs(jobs=20, utilization=0.8, max_nodes=6, seed=1)
    return gs.Scenario(gs.Platform.equal(12), workload, gs.Network(interfaces="equal"), seed=1)


def test_replications_give_means_and_ratios(tmp_path: Path) -> None:
    figure, table = tmp_path / "c.svg", tmp_path / "c.csv"
    files = "--figure", figure, "--width", "84mm", "--table", table
    answer = invoke(*SMALL, "--replicates", 5, "--workers", 2, *files)
    assert answer.exit_code == 0, answer.output
    assert f'width="{84 / 25.4 * 72:.6f}'.rstrip("0") in figure.read_text()  # pt
    lines = answer.stdout.splitlines()
    begins = lines.index("")
    places = 0, 1, begins - 2, begins - 1
    assert [lines[k].split()[0] for k in places] == ["platform", "workload", "replications", "digest"]
    lines = lines[begins + 1 :]
    assert lines[0].startswith(
        "max stretch (max_stretch_agg), mean over 5 replications [95% interval]; ratios"
    )
    assert lines[1].split() == ["scheduler", "mean", "relative", "to", "mincent"]
    assert [line.split()[0] for line in lines[2:6]] == ["fair-tree", "fair-tree-root", "mincent", "fcfs"]
    library = compare(
        bags(),
        {
            "fair-tree": gs.FairTree(),
            "fair-tree-root": gs.FairTree(bound=0.0),
            "mincent": gs.MinCent(),
            "fcfs": gs.Fcfs(),
        },
        replicates=5,
    )
    saved = f"saved {figure}, which shows max_stretch_agg\nsaved {table}\n"
    assert answer.stdout == f"{library.format()}\n{saved}" and table.read_text() == library.to_csv()
    single = tmp_path / "single.tex"
    assert invoke(*SMALL, "--table", single).exit_code == 0
    assert (
        single.read_text() == compare(bags(), ["fair-tree", "fair-tree-root", "mincent", "fcfs"]).to_latex()
    )


def test_schedulers_that_know_run_times_are_named() -> None:
    schedulers = {"easy": gs.BatchQueue(), "dgs": gs.DgsAsap(estimate="run")}
    text = " ".join(compare(rigid(), schedulers).format().split())
    assert "run times are known to dgs (estimate=run)" in text and "requested times are known to easy" in text
    assert "MB of exchanged schedules are not among its messages" in text


def test_a_scheduler_that_predicts_run_times_is_named(tmp_path: Path) -> None:
    flags = "--schedulers", "pred=backfill", "--set", "pred.estimate=predicted"
    found = invoke("--job-log", _job_log(tmp_path), "--rigid", *flags)
    assert found.exit_code == 0, found.output
    text = " ".join(found.stdout.split())
    assert "predictions by earlier jobs of the user are known to pred (estimate=predicted)" in text


def test_whole_results_are_kept_in_the_store(tmp_path: Path) -> None:
    location = ("--replicates", 2, "--workers", 1, "--store", tmp_path / "s", "--keep-results")
    assert invoke(*SMALL, "--schedulers", "fcfs", *location).exit_code == 0
    assert len(list((tmp_path / "s" / "results").iterdir())) == 2


def test_retry_repeats_failed_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = (*SMALL, "--schedulers", "fcfs", "--replicates", 2, "--workers", 1, "--store", tmp_path / "s")

    def raise_error(*_: object, **__: object) -> None:
        raise gs.GridSimError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(cells, "simulate", raise_error)
        assert invoke(*location).exit_code == 1
    known = invoke(*location)
    assert known.exit_code == 1 and "out of order (in the store: retry runs it again)" in known.output
    assert invoke(*location, "--retry").exit_code == 0


@pytest.mark.slow
def test_the_name_all_selects_the_applicable_schedulers(tmp_path: Path) -> None:
    for scenario, file in ((bags(), tmp_path / "bags.toml"), (rigid(), tmp_path / "rigid.toml")):
        scenario.save(file)
        answer = invoke(file, "--schedulers", "all", "--replicates", 1, "--workers", 1, "--json")
        output = json.loads(answer.stdout)
        assert answer.exit_code == 0 and answer.stderr == "", answer.output
        measure = next(iter(output["means"]))
        assert measure == ("mean_waiting" if scenario.workload.rigid else "max_stretch_agg")
        names, refused = applicable(scenario)
        assert list(output["means"][measure]) == list(names) and set(output["not_applicable"]) == set(refused)
        same = sum("same scheduler as" in reason for reason in refused.values())
        kinds = [kind.rigid for kind, _ in registered().values()]
        without_places = sum("places" in reason for reason in refused.values())
        assert len(names) == kinds.count(scenario.workload.rigid) - same - without_places
        assert all(gs.ScenarioError.__name__ not in reason and reason for reason in refused.values())


def test_default_schedulers_must_support_the_jobs(tmp_path: Path) -> None:
    late = gs.Workload.jobs_of([0.0], [2], [30.0], deadline=[100.0])
    gs.Scenario(gs.Platform.equal(4), late).save(tmp_path / "late.toml")
    answer = invoke(tmp_path / "late.toml", "--json")
    assert answer.exit_code == 0, answer.output
    output = json.loads(answer.stdout)
    assert [row["name"] for row in output["schedulers"]] == ["dgs-asap", "asap"]
    assert list(output["not_applicable"]) == ["backfill", "backfill-fcfs"]


@pytest.mark.parametrize("arguments", [[], ["--replicates", "2"]])
@pytest.mark.parametrize("names", ["", "all"])
def test_an_empty_selection_is_rejected(names: str, arguments: list[str], tmp_path: Path) -> None:
    """No scheduler supports tasks that are so short."""
    file = tmp_path / "e.toml"
    bag = gs.Workload.bags(applications=1, tasks=1, task_size=1e-6, seed=1)
    file.write_text(gs.Scenario(gs.Platform.equal(1), bag, seed=1).to_toml())
    answer = invoke(file, "--schedulers", names, *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr == "gridsim: --schedulers must name at least one scheduler, got none\n"


def test_failed_runs_are_recorded(tmp_path: Path) -> None:
    answer = invoke(
        *SMALL, "--replicates", 2, "--time-limit", "1", "--workers", 1, "--schedulers", "fcfs,mincent"
    )
    assert answer.exit_code == 1
    assert "failed: fcfs, all 2 replications: ScenarioError: fcfs did not end" in answer.stdout
    assert answer.stdout.count("failed: ") == 2  # a line per scheduler, and none for the command
    assert "nan" not in answer.stdout


def test_an_impossible_scenario_fails_before_the_runs(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("1 0 0 60 8 -1 -1 8 60 -1 1 1 1 -1 -1 -1 -1 -1\n")
    answer = invoke("--job-log", log, "--nodes", 4, "--replicates", 3, "--figure", tmp_path / "c.png")
    assert (answer.exit_code, answer.stdout) == (2, "") and not (tmp_path / "c.png").exists()
    assert "the processors of job 1 must be at most 4, the number of machines, got 8" in answer.stderr


def test_any_key_of_the_scenario_can_be_changed(tmp_path: Path) -> None:
    saved = tmp_path / "s.toml"
    subset = ("--nodes", 5, "--applications", 3, "--schedulers", "fcfs", "--save-scenario", saved)
    assert not invoke(*subset, "--load", 0.5, "--change", "network.latency=1 s").exit_code
    scenario = gs.Scenario.from_toml(saved)
    assert scenario.network.latency == 1.0 and "load = 0.5" in saved.read_text()
    one_failure = ("kind=list", "machine=0", "down=10", "up=[20]")  # lists of one entry
    changes = [word for entry in one_failure for word in ("--change", f"faults.{entry}")]
    assert not invoke(*subset, *changes).exit_code
    assert gs.Scenario.from_toml(saved).faults == gs.Faults.of([0], [10.0], [20.0])
    ranges = "--change", "faults.machine=0-2,4"
    assert not invoke(*subset, *changes, *ranges).exit_code
    assert gs.Scenario.from_toml(saved).faults == gs.Faults.of([0, 1, 2, 4], [10.0], [20.0])
    refused = invoke(*subset, *changes, "--change", "faults.machine=4-2")
    assert refused.exit_code == 2 and "faults.machine[0] must be a whole number" in refused.stderr
    assert parse_setting("a.b=[x, y]") == ("a", "b", ["x", "y"])
    answer = invoke(*subset, "--change", "network.latncy=1")
    assert answer.exit_code == 2 and "latncy is not a known key; did you mean latency?" in answer.stderr
    answer = invoke(*subset, "--change", "latency")
    assert answer.exit_code == 2 and "--change must be KEY=VALUE" in answer.stderr


def test_the_flag_rigid_rejects_bags_of_selected_jobs(tmp_path: Path) -> None:
    """Without the check, all jobs would be compared with the selected jobs."""
    log, part = tmp_path / "log.swf", tmp_path / "part.toml"
    log.write_text("".join(f"{k} {k} 0 60 1 -1 -1 1 60 -1 1 {k} 1 -1 -1 -1 -1 -1\n" for k in (1, 2, 3)))
    bags = gs.Workload.from_log(log, max_applications=2)
    gs.Scenario(gs.Platform.equal(4), bags, seed=1).save(part)
    answer = invoke(part, "--rigid")
    assert answer.exit_code == 2 and "--rigid does not support workload.max_applications = 2" in answer.stderr


def test_often_interrupted_applications_are_named(tmp_path: Path) -> None:
    """Tasks of 600 s run on machines with a mean time to failure of 100 s."""
    bag = gs.Workload.of([0.0], [2], 6e5)
    gs.Scenario(gs.Platform.of([1e3, 1e3]), bag, seed=1, faults=gs.Faults.poisson(100.0, 3)).save(
        tmp_path / "s.toml"
    )
    answer = invoke(tmp_path / "s.toml", "--schedulers", "fcfs")
    assert not answer.exit_code, answer.output
    assert "fcfs: failures cut off application 0 again and again, " in " ".join(answer.stdout.split())


def test_the_flag_half_width_adds_replications() -> None:
    answer = invoke(*SMALL, "--half-width", "0.02", "--at-most", 40, "--workers", 1, "--json")
    output = json.loads(answer.stdout)
    count = len(output["seeds"])
    widths = [(e["high"] - e["low"]) / 2 / e["mean"] for e in output["ratios"]["max_stretch_agg"].values()]
    assert 10 < count <= 40 and output["reached"] == (max(widths) <= 0.02)
    # ten replications were too few for the half-width
    ten = invoke(*SMALL, "--replicates", 10, "--workers", 1, "--json")
    few = json.loads(ten.stdout)["ratios"]["max_stretch_agg"].values()
    assert max((e["high"] - e["low"]) / 2 / e["mean"] for e in few) > 0.02
    assert (
        json.loads(ten.stdout)["values"]["max_stretch_agg"]["fcfs"]
        == output["values"]["max_stretch_agg"]["fcfs"][:10]
    )


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--time-limit", "1"], 10),  # every run fails
        (["--metrics", "messages"], 10),  # the baseline sends none
        (["--replicates", "1"], 5),
    ],
)
def test_the_flag_half_width_stops_at_the_maximum_of_replications(arguments: list[str], count: int) -> None:
    answer = invoke(*SMALL, "--half-width", "0.5", "--workers", 1, "--json", *arguments)
    output = json.loads(answer.stdout)
    assert len(output["seeds"]) == count and output["reached"] == (count == 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "s"], "--store requires --replicates"),
        (["--figure", "f.png"], "--figure requires --replicates"),
        (["--retry"], "--retry requires --replicates"),
        (["--no-headline"], "--no-headline requires --replicates and --figure"),
        (["--replicates", "2", "--no-headline"], "--no-headline requires --figure"),
        (["--keep-results"], "--keep-results requires --replicates"),
        (["--replicates", 2, "--bound", "discrete"], "--replicates does not support --bound"),
        (["--replicates", "2", "--out", "o"], "--replicates does not support --out"),
        (["--replicates", "2", "--record"], "--replicates does not support --record"),
        (["--replicates", "2", "--retry"], "--retry requires --store"),
        (["--replicates", "2", "--store", ""], "--store must name a folder, got ''"),
        (["--replicates", "2", "--at-most", "5"], "--at-most requires --half-width"),
        (["--messages"], "--messages requires --out"),
        (["--replicates", "0"], "replicates must be a whole number in 1..10000000, got 0"),
        (["--half-width", "0"], "--half-width must be a finite number > 0, got 0.0"),
        (["--half-width", "0.1", "--at-most", "5"], "--at-most must be a whole number >= 10, got 5"),
        (
            ["--replicates", "2", "--metrics", "speed"],
            "metrics must be names of metrics, got 'speed'; known: max_stretch",
        ),
        (["--replicates", "2", "--figure", "x.jpg"], "must end in one of .png, .svg, .pdf, got 'x.jpg'"),
        (["--replicates", "2", "--width", "3"], "--width requires --figure"),
        (
            ["--replicates", "2", "--figure", "x.pdf", "--width", "1cm"],
            "--width must be a finite number >= 2 in",
        ),
        (["--table", "x.txt"], "--table must end in one of .tex, .md, .csv, got 'x.txt'"),
        (["--workers", "0"], "--workers must be a whole number in 1..4096, got 0"),
        (["--replicates", "2", "--hold", "nodes"], "hold must contain only platform"),
    ],
)
def test_invalid_flags_are_rejected(arguments: list[str], message: str) -> None:
    answer = invoke(*SMALL, *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "") and message in answer.stderr, answer.output
    assert len(answer.stderr.splitlines()) == 1


def test_single_runs_on_an_executor_equal_local_runs() -> None:
    from gridsim.support.processes import Processes

    schedulers = {"tree": gs.FairTree(), "fcfs": gs.Fcfs()}
    serial = compare(bags(), schedulers, record=True)
    with Processes(2) as pool:
        parallel = compare(bags(), schedulers, record=True, executor=pool)
    for name in schedulers:
        assert serial[name].digest == parallel[name].digest and serial[name].tables == parallel[name].tables
        assert not parallel[name].applications["finish"].flags.writeable
    with pytest.raises(gs.ScenarioError, match="half_width requires replicates"):
        compare(bags(), schedulers, half_width=0.1)
    with pytest.raises(gs.ScenarioError, match="replicates does not support bound, threads and record"):
        compare(bags(), schedulers, replicates=2, record=True)


def test_a_job_log_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.swf"
    jobs = (f"{k} {10 * k} 0 {20 + k} 1 -1 -1 1 {40 + k} -1 1 {k % 3} 1 -1 -1 -1 -1 -1" for k in range(1, 30))
    log.write_text("\n".join(jobs) + "\n")
    scenario = gs.Scenario(gs.Platform.equal(9), gs.Workload.from_log(log), seed=1)
    scenario.save(tmp_path / "bags.toml")
    parsed: list[str] = []
    inner = info.load_jobs
    monkeypatch.setattr("gridsim.traces.info.load_jobs", lambda path: parsed.append(path) or inner(path))
    answer = invoke(tmp_path / "bags.toml", "--schedulers", "all")
    assert answer.exit_code == 0, answer.output
    assert len(parsed) == 1
    log.write_text(
        log.read_text().replace(" 20 ", " 21 ", 1) + "30 400 0 9 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n"
    )
    assert len(gs.simulate(scenario, gs.Fcfs()).applications) and len(parsed) == 2


def _job_log(folder: Path) -> Path:
    """Write a log of two jobs for four machines; the second is released after 10 s and waits 50 s."""
    log = folder / "site.swf"
    rest = "-1 1 1 1 1 1 1 -1 -1"
    log.write_text(f"; MaxProcs: 4\n1 0 0 60 3 -1 -1 3 90 {rest}\n2 10 50 20 2 -1 -1 2 90 {rest}\n")
    return log


def test_multiples_of_machines_and_load_are_of_those_of_the_log(tmp_path: Path) -> None:
    """The load of the log is (3 * 60 + 2 * 20) / (4 * 10) = 5.5."""
    where = ("--job-log", _job_log(tmp_path), "--rigid", "--schedulers", "backfill")
    as_it_is = invoke(*where)
    assert as_it_is.exit_code == 0 and "log " in as_it_is.stdout and "load          5.5 " in as_it_is.stdout
    for flags, line, reason in (
        (["--nodes", "2x"], "platform      8 machines", "8 machines instead of 4"),
        (["--load", "2x"], "load          11 (core-hours", "releases are scaled to a load of 11"),
        (
            ["--nodes", "0.75x", "--load", "0.3"],
            "load          0.3 (core-hours",
            "releases are scaled to a load of 0.3",
        ),
    ):
        found = invoke(*where, *flags)
        assert line in found.stdout, found.output
        if "2x" in flags and "--nodes" in flags:
            assert "gridsim: 8 machines, 2 times 4 machines, the MaxProcs of" in found.stderr
            assert "sets another number" not in found.stderr
        text = " ".join(found.stdout.split())
        assert f"the jobs or the machines differ from those of the log: {reason}" in text
    invalid = invoke(*where, "--load", "-1x")
    assert invalid.exit_code == 2 and "must be a factor > 0, such as 1.3x, got '-1x'" in invalid.stderr


def test_multiples_apply_to_scenario_files_and_bags(tmp_path: Path) -> None:
    bags().save(tmp_path / "bags.toml")
    found = json.loads(invoke(tmp_path / "bags.toml", "--schedulers", "fcfs", "--json").stdout)
    more = invoke(tmp_path / "bags.toml", "--schedulers", "fcfs", "--load", "1.5x", "--nodes", "2x", "--json")
    rows = [document["schedulers"][0] for document in (found, json.loads(more.stdout))]
    assert rows[1]["machines"] == 24 and rows[0]["machines"] == 12
    at_once = gs.Workload.of([0.0, 0.0], [1, 1], 1000.0)
    gs.Scenario(gs.Platform.equal(2), at_once).save(tmp_path / "once.toml")
    refused = invoke(tmp_path / "once.toml", "--load", "2x")
    assert refused.exit_code == 2 and "--load 2x requires applications or jobs released at" in refused.stderr


def test_the_row_of_the_log_is_a_choice_and_of_single_runs(tmp_path: Path) -> None:
    where = ("--job-log", _job_log(tmp_path), "--rigid", "--schedulers", "backfill")
    output = json.loads(invoke(*where, "--json").stdout)
    assert output["log"]["mean_waiting"] == 25 and "digest" not in output["log"]
    assert "log" not in json.loads(invoke(*where, "--json", "--no-log").stdout)
    repeated = invoke(*where, "--replicates", 2, "--workers", 1)
    assert repeated.exit_code == 0 and "shown beside single runs, without --replicates" in repeated.stdout


def test_machines_of_several_processors_come_from_the_header(tmp_path: Path) -> None:
    """Two nodes of 4: the header's MaxProcs is divided, also for multiples, and the log keeps its row."""
    line = "{0} {1} {2} {3} 4 -1 -1 4 900 -1 {4} 1 1 1 1 1 -1 -1\n"
    jobs = [(1, 0, 0, 600, 1), (2, 0, 600, 0, 0), (3, 60, 540, 600, 1), (4, 60, 0, 900, 1)]
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 8\n" + "".join(line.format(*job) for job in jobs))
    flags = "--job-log", log, "--rigid", "--cores-per-node", "4", "--schedulers", "backfill"
    found = invoke(*flags)
    assert "2 machines, the MaxProcs / 4 of" in found.stderr and "\nlog  " in found.stdout
    assert "each machine is a node of 4 processors" in found.stdout
    assert "node-hours; a mean job has 1 node;" in found.stdout and "by nodes, s" in found.stdout
    assert "core" not in found.stdout.replace("recorded", "")
    assert "platform      4 machines" in invoke(*flags, "--nodes", "2x").stdout
    # without a header, the run of 0 s, which counts as 1 s, does not exceed the two machines
    log.write_text("".join(line.format(*job) for job in jobs))
    assert "\nlog  " in invoke(*flags, "--nodes", "2").stdout
    assert "4 machines, 2 times 2 machines, as many as jobs used at" in invoke(*flags, "--nodes", "2x").stderr
    refused = invoke("--job-log", log, "--nodes", "2x")
    assert refused.exit_code == 2 and "--nodes must be a number of machines, since" in refused.stderr


def test_variants_of_a_scheduler_have_labels_and_parameters_of_their_own(tmp_path: Path) -> None:
    rigid().save(tmp_path / "rigid.toml")
    saved, out = tmp_path / "variants.toml", tmp_path / "out"
    sets = "--set", "deep.depth=3", "--set", "sjf.order=sjf", "--baseline", "deep"
    names = "backfill,deep=backfill,sjf=backfill"
    arguments = *sets, "--schedulers", names, "--save-scenario", saved, "--out", out, "--json"
    answer = json.loads(invoke(tmp_path / "rigid.toml", *arguments).stdout)
    rows = {row["name"]: row["digest"] for row in answer["schedulers"]}
    queues = gs.BatchQueue(), gs.BatchQueue(depth=3), gs.BatchQueue(order="sjf")
    digests = [gs.simulate(rigid(), queue).digest for queue in queues]
    assert rows == dict(zip(("backfill", "deep", "sjf"), digests, strict=True))
    assert answer["baseline"] == "deep" and list(answer["files"]) == ["backfill", "deep", "sjf"]
    again = json.loads(invoke(saved, "--schedulers", "deep=backfill,my=gridsim:BatchQueue", "--json").stdout)
    assert {row["name"]: row["digest"] for row in again["schedulers"]} == {
        "deep": digests[1],
        "my": digests[0],
    }
    assert [*gs.compare(rigid(), ["backfill", "my=backfill"]).results] == ["backfill", "my"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("backfill,backfill", "'backfill' twice; a variant has a label, LABEL=backfill"),
        ("backfill:depth=2", "must be SCHEDULER or LABEL=SCHEDULER"),
        ("=backfill", "must be SCHEDULER or LABEL=SCHEDULER"),
        ("deep=backfil", "unknown scheduler 'backfil'; did you mean backfill"),
    ],
)
def test_invalid_names_of_variants_are_rejected(names: str, message: str) -> None:
    found = invoke("--nodes", "4", "--schedulers", names)
    assert found.exit_code == 2 and message in found.stderr


def test_the_row_of_the_log_is_saved(tmp_path: Path) -> None:
    flags = "--rigid", "--schedulers", "backfill", "--out", tmp_path / "out", "--json"
    answer = json.loads(invoke("--job-log", _job_log(tmp_path), *flags).stdout)
    assert list(answer["files"]) == ["backfill", "log"]
    assert gs.Result.load(answer["files"]["log"]).of_log


def test_waiting_times_by_queue_user_and_site_are_shown(tmp_path: Path) -> None:
    line = "{0} {0} 0 10 2 -1 -1 2 10 -1 1 {1} {2} 1 {2} 1 -1 -1\n"
    log = tmp_path / "log.swf"
    header = "; MaxProcs: 2\n; UnixStartTime: 1000000000\n"
    header += "; Queue: 1 batch\n; Queue: 2 debug\n; Group: 2 chem\n"
    log.write_text(header + "".join(line.format(k, k, 1 + k // 3) for k in range(1, 5)))
    flags = "--job-log", log, "--rigid", "--schedulers", "backfill,two=backfill", "--by", "queue,user"
    report = tmp_path / "report.html"
    found = invoke(*flags, "--no-log", "--report", report)
    assert found.exit_code == 0, found.output
    tables = found.stdout.partition("Mean waiting time by queue\n")[2].splitlines()
    assert [row.split() for row in tables[2:4]] == [
        ["batch", "2", "50.0", "4.5", "4.5"],
        ["debug", "2", "50.0", "22.5", "22.5"],
    ]
    assert "period        submitted from 2001-09-09 to 2001-09-09" in found.stdout
    dates = log.with_name("dates.swf")  # the same instants, as the clock of the log shows them
    dates.write_text(log.read_text().replace("; UnixS", "; TimeZoneString: Asia/Tokyo\n; UnixS"))
    dates.write_text(dates.read_text().replace("1000000000", "1000050000"))
    assert gs.Workload.jobs_from_log(dates).recipe.dates == ("2001-09-10", "2001-09-10")
    rows = json.loads(invoke(*flags, "--no-log", "--json").stdout)["by"]["queue"]
    assert rows[1] == {
        "queue": "debug",
        "jobs": 2,
        "core_hours_share": 0.5,
        "mean_waiting": {"backfill": 22.5, "two": 22.5},
        "rejected": {"backfill": 0, "two": 0},
    }
    page = report.read_text()
    assert "Mean waiting time by user" in page and "submitted from 2001-09-09" in page
    sites = invoke("--job-log", log, *flags[:4], "backfill", "--by", "site,queue", "--sites", "old=2,new=2")
    accounts = invoke(*flags[:4], "backfill", "--by", "account").stdout
    assert re.search(r"(?m)^  chem +2 +50.0 +22.5 +0$", accounts), accounts
    rows = [row.split()[:3] for row in sites.stdout.splitlines()]
    assert ["old", "4", "50.0"] in rows and ["new/debug", "2", "25.0"] in rows
    for group, message in (
        ("site", "by = 'site' requires a platform of sites"),
        ("groups", "--by must be one of queue, user, account, site, size, got 'groups'"),
        ("queue,user,queue", "--by must have each entry once, got 'queue' several times"),
    ):
        refused = invoke(*flags[:4], "backfill", "--by", group)
        assert refused.exit_code == 2 and message in refused.stderr


def test_a_report_on_a_log_is_for_operators(tmp_path: Path) -> None:
    """Waiting times have one unit, and schedulers are described by the parameters that differ."""
    from gridsim.report.contents import of_results
    from gridsim.studies.overview import TextTable, convert_times

    line = "{0} {1} -1 40000 2 -1 -1 2 40000 -1 {2} 1 1 1 1 1 -1 -1\n"
    log = tmp_path / "log.swf"
    text = "".join(line.format(k, 10 * k, 5 if k == 4 else 1) for k in range(1, 5))
    log.write_text("; MaxProcs: 4\n" + text.replace("4 40 -1 40000 2", "4 40 -1 0 -1"))
    flags = "--job-log", log, "--rigid", "--schedulers", "backfill,deep=backfill", "--set", "deep.depth=3"
    report = tmp_path / "report.html"
    assert invoke(*flags, "--report", report, "--title", "Grey cluster").exit_code == 0
    assert "--title requires --report" in invoke(*flags, "--title", "Grey cluster").stderr
    page = report.read_text()
    assert "Grey cluster" in page.partition("<title>")[2].partition("</title>")[0]
    assert "backfill (depth = 1): First come, first served, with EASY backfilling." in page
    assert "deep (depth = 3): First come" in page and "offered busy: the share of all machine" in page
    assert "1 jobs that never ran" in page
    head = page.partition("Schedulers compared")[2].partition("</thead>")[0]
    assert "median, h" in head and "mean, h" in head and "digest" not in head and "messages" not in head
    results = gs.compare(gs.Scenario.from_toml(_saved(tmp_path, flags)), ["backfill"], log=False).results
    assert "digests" not in of_results(results).lead
    head_of_times = [("name", ""), *(("waiting", f"{name}, s") for name in ("mean", "median", "least"))]
    table = TextTable("", head_of_times, [["a", "9000", "60", "0.28"], ["b", "0", "1e6", "4.0"]])
    in_hours = convert_times(table, {"waiting": (3600.0, "h")})
    assert in_hours.rows == [("a", "2.5", "0.0167", "<0.001"), ("b", "0", "278", "0.00111")]
    assert in_hours.head[1] == ("waiting", "mean, h") and in_hours.numeric == [False, True, True, True]


def _saved(folder: Path, flags: tuple[object, ...]) -> Path:
    """Return the file of the scenario of a comparison."""
    assert invoke(*flags, "--save-scenario", folder / "saved.toml").exit_code == 0
    return folder / "saved.toml"


def test_a_log_without_a_size_has_the_machines_that_it_used(tmp_path: Path) -> None:
    log = _job_log(tmp_path)  # the first job used three machines, the second two
    log.write_text(log.read_text().partition("\n")[2])
    found = invoke("--job-log", log, "--rigid", "--schedulers", "backfill")
    assert "3 machines, as many as jobs used at once, since" in found.stderr and "\nlog " in found.stdout
    several = invoke("--job-log", log, "--job-log", log, "--rigid", "--cores-per-node", "2,1", "--by", "site")
    assert (
        "2 machines, as many as jobs used at once" in several.stderr
        and "platform      5 machines" in several.stdout
    )
    assert "nodes of 2 (site.swf), 1 (site.swf) processors" in " ".join(several.stdout.split())
    assert several.stderr.count("--sites sets another number") == 2
    refused = invoke("--job-log", log, "--job-log", log, "--rigid", "--cores-per-node", "2,1,1")
    assert refused.exit_code == 2 and "--cores-per-node must be one number, or 2" in refused.stderr
    refused = invoke("--job-log", log, "--rigid", "--change", "workload.cores_per_node=0")
    assert refused.exit_code == 2 and "--change workload.cores_per_node must be a whole" in refused.stderr


def test_jobs_killed_at_their_limit_are_counted_in_the_log(tmp_path: Path) -> None:
    """The second job failed when it had run for longer than requested."""
    line = "{0} 0 0 {1} 1 -1 -1 1 50 -1 {2} 1 1 1 1 1 -1 -1\n"
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n" + line.format(1, 50, 1) + line.format(2, 60, 0) + line.format(3, 9, 0))
    flags = "--schedulers", "backfill", "--set", "backfill.kill=at-limit"
    rows = [row.split() for row in invoke("--job-log", log, "--rigid", *flags).stdout.splitlines()]
    killed = [row[7] for row in rows if row[:1] in (["backfill"], ["log"])]
    assert killed == ["1", "1"]


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("", (), "the trace must have records, got an empty file"),
        ("1 0 0 9 1\n", ("--load", "30%"), "a factor such as 1.3x for 30 % more, got '30%'"),
        ("1 0 0 9 1\n", ("--load", "no"), "must be a number, or a factor such as 1.3x, got 'no'"),
        ("1 0 0 9 1\n", ("--nodes", "8,ax"), "must be a whole number, or a factor such as 1.3x, got 'ax'"),
    ],
)
def test_errors_of_logs_say_what_is_right(
    text: str, flags: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    found = invoke("--job-log", log, "--rigid", *flags)
    assert found.exit_code == 2 and message in found.stderr


def test_machines_are_added_to_those_of_the_log(tmp_path: Path) -> None:
    found = invoke("--job-log", _job_log(tmp_path), "--rigid", "--schedulers", "backfill", "--nodes", "1x,+4")
    assert found.exit_code == 0, found.output
    assert "8 machines, 4 more than 4 machines" in found.stderr and "\nbackfill 8 " in found.stdout


def test_lists_of_nodes_are_scaled_with_the_number_of_nodes(tmp_path: Path) -> None:
    flags = "--job-log", _job_log(tmp_path), "--rigid", "--shared", "--cores-per-node", "1"
    gpus = "--gpus-per-node", "3x0,1x4"
    saved = _saved(tmp_path, (*flags, *gpus, "--nodes", "8"))
    assert gs.Scenario.from_toml(saved).platform.recipe.gpus == (0,) * 6 + (4,) * 2
    found = invoke(*flags, *gpus, "--schedulers", "backfill", "--nodes", "1x,2x")
    assert found.exit_code == 0, found.output
    assert found.stderr.count("--gpus-per-node is of 4 nodes, scaled to 8: 6x0,2x4") == 1
    refused = invoke(*flags, "--gpus-per-node", "0,4", "--nodes", "8")
    assert refused.exit_code == 2 and "--gpus-per-node must have 8 entries" in refused.stderr


def test_the_effect_of_more_machines_has_an_interval_over_weeks() -> None:
    period, random = 8 * 7 * 86_400.0, np.random.default_rng(1)
    workload = gs.Workload.jobs_of(
        release=np.sort(random.random(600)) * period,
        nodes=random.integers(1, 6, 600),
        run_time=random.random(600) * 2 * 0.9 * 10 * period / (600 * 3),
    )
    comparison = gs.compare(
        {f"{nodes}": gs.Scenario(gs.Platform.equal(nodes), workload) for nodes in (10, 12)}, ["backfill"]
    )
    waits = [comparison[f"backfill {nodes}"].mean_waiting for nodes in (10, 12)]
    (text,) = re.findall(r"with 12 machines \((\S+) % \[\S+, \S+\] over \d weeks\)\.$", comparison.verdict())
    assert float(text) == pytest.approx(100.0 * (waits[1] / waits[0] - 1.0), rel=0.1)


def test_several_numbers_of_machines_are_rows_of_one_table(tmp_path: Path) -> None:
    """The first of two jobs for three of four machines delays the second, which eight machines do not."""
    log, out, report = _job_log(tmp_path), tmp_path / "out", tmp_path / "report.html"
    flags = "--job-log", log, "--rigid", "--schedulers", "backfill,two=backfill", "--nodes", "1x,8"
    found = invoke(*flags, "--baseline", "log", "--out", out, "--report", report)
    assert found.exit_code == 0, found.output
    rows = {
        row.split()[0] + row.split()[1]: row.split()[2:4]
        for row in found.stdout.partition("\nslowdown:")[0].splitlines()
        if " 4 " in row[:13] or " 8 " in row[:13]
    }
    assert rows == {
        "backfill4": ["25", "1.000"],
        "two4": ["25", "1.000"],
        "backfill8": ["0", "0.000"],
        "two8": ["0", "0.000"],
    }
    assert "platform      backfill 4 and two 4: 4 machines; backfill 8 and two 8: 8 machines" in found.stdout
    assert sorted(file.name for file in out.iterdir()) == [
        "backfill_4.npz",
        "backfill_8.npz",
        "log.npz",
        "two_4.npz",
        "two_8.npz",
    ]
    assert "different scenarios" not in report.read_text()
    difference = "The mean waiting time of backfill is 25 s with 4, and 0 s with 8 machines (-100 %)."
    assert difference in " ".join(found.stdout.split())
    data = json.loads(invoke(*flags, "--json").stdout)
    assert data["baseline"] == "backfill 4" and [row["machines"] for row in data["schedulers"]] == [
        4,
        8,
        4,
        8,
    ]
    assert "nodes = 8" in data["scenarios"]["two 8"]
    for nodes, further, message in (
        ("4,1x", (), "--nodes must be different numbers, got 4, 4"),
        ("4,8", ("--replicates", 2), "--replicates requires one number of --nodes"),
    ):
        assert message in invoke(*flags[:5], "--nodes", nodes, *further).stderr
    with pytest.raises(gs.ScenarioError, match="replicates requires one scenario"):
        gs.compare({"a": gs.Scenario.from_toml(data["scenario"])}, ["backfill"], replicates=2)


def test_a_setting_of_all_schedulers_and_errors_of_later_runs_precede_the_output(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    line = "{0} 0 5 50 3 -1 -1 3 50 -1 1 1 1 1 {0} 1 -1 -1\n"
    log.write_text("; MaxProcs: 8\n; Queue: 1 a\n; Queue: 2 b\n" + line.format(1) + line.format(2))
    flags = "--job-log", log, "--rigid", "--schedulers", "easy=backfill,none=backfill-fcfs,asap"
    answer = invoke(*flags, "--set", "*.partitions=a=4,b=4", "--json")
    parameters = [row["parameters"].get("partitions") for row in json.loads(answer.stdout)["schedulers"]]
    assert parameters == [{"a": 4, "b": 4}, {"a": 4, "b": 4}, None]
    refused = invoke(*flags, "--set", "*.partition=a=4,b=4")
    assert "* requires a parameter of easy, none, asap, got 'partition'; did you mean" in refused.stderr
    late = invoke(*flags, "--nodes", "8,4", "--set", "*.partitions=a=4,b=4")
    assert late.exit_code == 2 and not late.stdout
    assert "easy.partitions must allow some jobs of queue a, which request at least 3" in late.stderr


def test_replications_on_nodes_name_nodes_and_no_messages(tmp_path: Path) -> None:
    flags = _job_log(tmp_path), "--rigid", "--cores-per-node", 2, "--schedulers", "backfill,two=backfill"
    report = tmp_path / "report.html"
    found = invoke("--job-log", *flags, "--replicates", 2, "--report", report, "--title", "Our nodes")
    assert "mean waiting by nodes (mean_waiting_by_cores), s (each job counts by its nodes)" in found.stdout
    assert "messages" not in found.stdout and "by cores" not in report.read_text()
    assert "<h1>Our nodes</h1>" in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scheduler", "fcfs"), r"\(?Did you mean '?--schedulers'?"),
        (("--schedulers", "random,", "fcfs"), "--schedulers must be a list without spaces: random,fcfs"),
        (("--over", "workload.load=1"), r"axes are no options: write them under \[over\]"),
        (("--metrics", "makespan"), "--metrics requires --replicates; add --replicates 5"),
    ],
)
def test_slips_in_the_command_line_are_named(arguments: tuple[str, ...], message: str) -> None:
    assert re.search(message, invoke(*SMALL, *arguments).stderr)


def test_an_error_in_a_library_call_names_the_line_of_the_program(tmp_path: Path) -> None:
    """A scheduler whose runs all fail has a line with its error, and no ratios are relative to it."""
    program = """import gridsim as gs


class Node(gs.NodeProgram):
    def on_release(self, view, application, tasks):
        view.board[99]


class Wrong(gs.BoardScheduler, frozen=True, kw_only=True):
    policy = Node
"""
    (tmp_path / "wrong.py").write_text(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        names = "wrong:Wrong,fcfs"
        text = invoke(*SMALL, "--schedulers", names, "--baseline", "wrong:Wrong", "--replicates", 2).stdout
    line = next(line for line in text.splitlines() if line.startswith("failed: "))
    assert line.startswith("failed: wrong:Wrong, all 2 replications: IndexError: ")
    assert line.endswith("wrong.py:6") and text.index(line) < text.index("max stretch (")
    assert "relative to" not in text
