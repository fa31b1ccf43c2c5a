"""Waiting times by user, queue and site: over replications, and of saved results."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.results.metrics.estimates import estimate
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.groups import group_means

QUEUES = {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")}


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three weeks and a day, with two queues; user 9 submits in the third week only."""
    lines = []
    for k in range(66):
        day, user = divmod(k, 3)
        who = 9 if day >= 14 and user == 0 else user
        width, run = 1 + k % 4, 20_000 * (1 + k % 5)
        start = f"{k + 1} {day * 86_400 + 600 * user} -1 {run} {width} -1 -1 {width} {run} -1 1"
        lines.append(f"{start} {who} -1 -1 {1 + k % 2} 1 -1 -1\n")
    path = tmp_path_factory.mktemp("log") / "weeks.swf"
    path.write_text("; MaxProcs: 4\n; UnixStartTime: 1000000000\n" + "".join(lines))
    return path


def scenario(log: Path) -> gs.Scenario:
    return gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(log, resample="weeks", seed=4), seed=1)


def waits_of(result: gs.Result, user: int) -> np.ndarray:
    jobs = result.scenario.workload.realize(result.scenario.platform)
    return result.applications["waiting"][jobs.user == user]


def test_waiting_times_by_user_have_intervals_over_the_replications_with_jobs(
    log: Path, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"replicates": 6, "metrics": ["mean_waiting"], "by": ["user", "queue"]}
    found = gs.replicate(scenario(log), QUEUES, **arguments, store=tmp_path / "store")
    runs = [gs.simulate(gs.replication(scenario(log), k), QUEUES["easy"]) for k in range(6)]
    users, queues = found.to_dict()["by"]["user"], found.to_dict()["by"]["queue"]
    assert sorted(row["user"] for row in users) == ["0", "1", "2", "9"] and len(queues) == 2
    for row in users:
        waits = [waits for run in runs if len(waits := waits_of(run, int(row["user"])))]
        expected = estimate([column.mean() for column in waits])
        assert row["mean_waiting"]["easy"] == pytest.approx(asdict(expected))
        assert row["jobs"] == pytest.approx(np.mean([len(column) for column in waits]))
    some = next(row for row in users if row["user"] == "9")
    assert 1 < some["mean_waiting"]["easy"]["seeds"] < 6  # not all samples have its week
    assert [row["core_hours_share"] for row in users] == sorted(
        (row["core_hours_share"] for row in users), reverse=True
    )
    table = found.overview().tables[1]
    assert table.caption.startswith("Mean waiting time by user, mean over 6 replications [95% interval]")
    assert re.fullmatch(r"[\d.,]+ \[[\d.,]+, [\d.,]+\] \(n = 6\)", table.rows[0][3]), table.rows
    again = gs.replicate(scenario(log), QUEUES, **arguments, store=tmp_path / "store")
    assert again.to_dict()["by"] == found.to_dict()["by"]  # from the store


def test_a_failed_run_leaves_its_groups_without_an_interval() -> None:
    values = {f"user a: {key}": 1.0 for key in ("jobs", "core_hours_share", "mean_waiting", "rejected")}
    records = [RunRecord(values), RunRecord(values), RunRecord(error="no memory")]
    (means,) = group_means(["user"], {"fcfs": records})
    (row,) = means.rows()
    assert row["mean_waiting"]["fcfs"].note == "not all values are finite" and row["jobs"] == 1.0


def test_groups_that_differ_between_replications_are_rejected(log: Path) -> None:
    users = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(log, resample="users"))
    for place, by, message in (
        (users, ["user"], "^by must not be 'user' if workload.resample draws users"),
        (users, ["queue", "queue"], "^by must have each entry once, got 'queue' several times"),
        (users, ["shape"], "^by must be one of"),
    ):
        with pytest.raises(gs.ScenarioError, match=message):
            gs.replicate(place, QUEUES, replicates=2, metrics=None, by=by)
    assert len(gs.replicate(users, QUEUES, replicates=2, metrics=None, by=["queue"]).groups) == 1


def test_logs_without_queues_are_left_out_of_tables_by_queue(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.swf"
    other.write_text(
        log.read_text().replace(" 1 1 -1 -1\n", " -1 1 -1 -1\n").replace(" 2 1 -1 -1\n", " -1 1 -1 -1\n")
    )
    scenarios = {
        path.stem: gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(path)) for path in (log, other)
    }
    with pytest.warns(gs.ModelWarning, match="by queue: no table, since the jobs of other have no queues"):
        compared = gs.compare(scenarios, ["backfill"], by=["queue"])
    assert [(group.label, group.names) for group in compared.groups] == [("weeks", ["1", "2"])]
    with pytest.raises(gs.ScenarioError, match="workload.queue must be known"):
        gs.compare({"other": scenarios["other"]}, ["backfill"], by=["queue"])


def test_a_report_on_saved_results_has_the_tables_of_the_comparison(log: Path, tmp_path: Path) -> None:
    common = "--job-log", log, "--rigid", "--schedulers", "backfill,backfill-fcfs"
    folder, both, saved = tmp_path / "runs", tmp_path / "both.html", tmp_path / "saved.html"
    options = "--by", "user,queue", "--skip-days", 7
    assert invoke("compare", *common, *options, "--out", folder, "--report", both).exit_code == 0
    answer = invoke("report", folder, *options, "--out", saved)
    assert answer.exit_code == 0, answer.output

    def tables(page: Path) -> list[list[str]]:
        found = re.findall(r"(?s)<caption>(Mean waiting time by .*?)</table>", page.read_text())
        return [sorted(re.findall(r"<t[dh][^>]*>([^<]*)<", table)) for table in found]

    assert len(tables(saved)) == 2 and tables(saved) == tables(both)
    refused = invoke("report", folder, "--by", "site", "--out", saved)
    assert refused.exit_code == 2 and "by = 'site' requires a platform of sites" in refused.stderr
    study = gs.replicate(scenario(log), QUEUES, replicates=2, metrics=None)
    with pytest.raises(gs.ScenarioError, match="^by requires a Result"):
        gs.write_report(study, saved, by=["user"])


def test_replications_from_the_shell_have_groups(log: Path, tmp_path: Path) -> None:
    common = "--job-log", log, "--rigid", "--schedulers", "backfill", "--replicates", 2, "--by", "queue"
    found = invoke("compare", *common, "--report", tmp_path / "page.html", "--json")
    rows = json.loads(found.stdout)["by"]["queue"]
    assert [set(row) for row in rows] == [
        {"queue", "jobs", "core_hours_share", "mean_waiting", "rejected"}
    ] * 2
    page = (tmp_path / "page.html").read_text()
    assert "Mean waiting time by queue" in page and "--by queue" in page


def test_groups_by_size_end_at_powers_of_8() -> None:
    workload = gs.Workload.jobs_of(release=[0.0] * 6, nodes=[1, 2, 8, 9, 64, 65], run_time=10.0)
    result = gs.compare(gs.Scenario(gs.Platform.equal(200), workload), QUEUES, by=["size"])
    rows = {row["size"]: row["jobs"] for row in result.to_dict()["by"]["size"]}
    assert rows == {"1": 1, "2-8": 2, "9-64": 2, "65-512": 1}


def test_changes_by_queue_with_other_numbers_of_machines_have_a_table(log: Path) -> None:
    """Each is the ratio of the means above it; the log has too few weeks for intervals."""
    jobs = gs.Workload.jobs_from_log(str(log))
    scenarios = {f"{n}": gs.Scenario(gs.Platform.equal(n), jobs) for n in (4, 6)}
    found = gs.compare(scenarios, QUEUES, by=["queue"])
    table = found.overview().tables[-1]
    assert [head for head, _ in table.head][3:] == ["easy 6", "fcfs 6"]
    members = jobs.realize(gs.Platform.equal(4)).members("queue")[1]
    for row in table.rows:
        for text, name in zip(row[3:], QUEUES, strict=True):
            means = [
                found[f"{name} {n}"].applications["waiting"][members == int(row[0]) - 1].mean()
                for n in (4, 6)
            ]
            assert float(text.removesuffix(" %")) == pytest.approx(100 * (means[1] / means[0] - 1), abs=0.6)
