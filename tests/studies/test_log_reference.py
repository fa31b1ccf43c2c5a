"""The schedule of a job log beside schedulers that run its jobs, and the words of texts on rigid jobs."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.errors import TraceWarning
from gridsim.plots.style import TOTAL_COLOUR
from gridsim.studies.log_reference import log_reference

SCHEDULERS: dict[str, Any] = {"easy": gs.BatchQueue(), "fcfs": gs.BatchQueue(backfill="none")}
#: Submission, wait, run time, processors of each job; at most 4 processors are busy at once.
JOBS = [(0, 0, 10, 2), (1, 9, 5, 3), (2, 0, 8, 1), (3, 7, 2, 1)]

_WORDS_OF_BAGS = re.compile(r"(?i).{0,60}\b(?:applications?|tasks?|Mflop|stretch(?:es)?)\b.{0,30}")


def log(path: Path, jobs: list[tuple[int, int, int, int]], header: str = "; MaxProcs: 4\n") -> Path:
    lines = [
        f"{k} {submit} {wait} {lasts} {procs} -1 -1 {procs} 20 -1 1 1 1 -1 1 1 -1 -1"
        for k, (submit, wait, lasts, procs) in enumerate(jobs, 1)
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log(tmp_path / "own.swf", JOBS)


def scenario(path: Path, machines: int = 4, **selection: Any) -> gs.Scenario:
    return gs.Scenario(gs.Platform.equal(machines), gs.Workload.jobs_from_log(path, **selection))


def test_the_row_of_the_log_has_its_waiting_times(path: Path) -> None:
    """Waits of 0, 9, 0 and 7 s; until the last release, at 3 s, two jobs run."""
    found = gs.compare(scenario(path), SCHEDULERS)
    own = found["log"]
    assert own.mean_waiting == 4 and own.mean_waiting_by_cores == (3 * 9 + 7) / 7
    assert own.median_waiting == 3.5
    assert own.mean_slowdown == (1 + 1.4 + 1 + 1) / 4 and own.utilization == 45 / 60
    # work offered until 3 s: two machines from 0 s on, and one machine from 2 s on
    assert own.offered_utilization == (2 * 3 + 1) / (4 * 3)
    row = next(line.split() for line in str(found).splitlines() if line.startswith("log "))
    assert row == ["log", "4", "unranked", "4.86", "3.5", "8.7", "1.1", "15", "58.3", "75.0"]


def test_the_log_is_neither_ranked_nor_among_the_schedulers(path: Path) -> None:
    found = gs.compare(scenario(path), SCHEDULERS)
    assert [*found.results] == ["easy", "fcfs"] == [row["name"] for row in found.table()]
    assert found.verdict().count("log") == 1 and found.baseline == "easy"
    assert found["log"].digest[:16] not in found.format(verbose=True) and "unknown" not in str(found)
    data = json.loads(found.to_json())
    assert data["log"]["mean_waiting"] == 4 and not {"digest", "messages", "bytes"} & {*data["log"]}
    assert len(data["schedulers"]) == 2 and len(found.runs()) == 2
    lines = {str(line.get_label()): line for line in found.figure().axes[0].lines}
    (label,) = (name for name in lines if name.startswith("log (recorded"))
    assert lines[label].get_color() == TOTAL_COLOUR


def test_the_log_may_be_the_baseline(path: Path) -> None:
    """The mean waiting time is 4 s in the log."""
    found = gs.compare(scenario(path), SCHEDULERS, baseline="log")
    assert found.ratio("easy") == found["easy"].mean_waiting / 4 == found.table()[0]["ratio"]
    rows = {line.split()[0]: line.split()[2] for line in str(found).splitlines() if " 4.86 " in line}
    assert rows["log"] == "1.000"
    for machines, log_row in ((5, True), (4, False)):
        with pytest.raises(gs.ScenarioError, match="baseline must be one of easy, fcfs, got 'log'"):
            gs.compare(scenario(path, machines), SCHEDULERS, baseline="log", log=log_row)


def test_the_conclusion_compares_each_scheduler_with_the_log(path: Path) -> None:
    """A limit of one machine rejects the jobs of more: jobs 1 and 2."""
    found = gs.compare(scenario(path), SCHEDULERS)
    above = 100 * (found["fcfs"].mean_waiting / 4 - 1)
    assert found["easy"].mean_waiting == 4 and above > 0
    assert found.verdict().endswith(
        f"Compared with the log's mean waiting time of 4 s: easy equal, fcfs {above:.2g} % above."
    )
    with pytest.warns(UserWarning, match=r"78 % of the work, .*--change workload.max_nodes=1\) leaves them"):
        limited = gs.compare(scenario(path), {"limited": gs.BatchQueue(user_limit=1)}, by=["user"])
    assert limited.to_dict()["by"]["user"][0]["rejected"] == {"limited": 2}
    assert [unit for title, unit in limited.overview().tables[1].head if title == "rejected"] == [
        "limited, jobs"
    ]
    # the waits of the log are those of all jobs, so only a line on the jobs of both compares them
    assert "Compared with" not in str(limited)
    assert "mean waiting time of the 2 jobs that each of these ran: limited 3.5 s, log 3.5 s" in str(limited)


def test_the_row_of_the_log_does_not_read_traces_of_failures(path: Path, tmp_path: Path) -> None:
    """Files that only the runs read have not changed.

    At 2.5 s job 1 is running on two machines, and with backfilling job 3 on one.
    """
    trace = tmp_path / "own.avt"
    trace.write_text("".join(f"host{k} 2 0 2.5 5 900\n" for k in range(4)))
    faults = gs.Faults.trace(trace, start=0.0)
    given = gs.Scenario(gs.Platform.equal(4), gs.Workload.jobs_from_log(path), faults=faults)
    found = gs.compare(given, SCHEDULERS)
    assert found["log"].mean_waiting == 4 and found["easy"].machines["failures"].sum() == 4
    text = "2 jobs interrupted and begun again, 2 times in all, 0.001528 core-hours lost"
    of_fcfs = "1 job interrupted and begun again, 1 time in all, 0.001389 core-hours lost"
    line = f"of machines, until the end of each run: 4 (easy), 4 (fcfs); easy: {text}; fcfs: {of_fcfs}; "
    assert found.overview().facts["failures"].startswith(line)
    assert found["easy"].lines()["interrupted"] == text
    metrics = gs.replicate(given, SCHEDULERS, replicates=2, metrics=["interrupted", "lost_core_hours"])
    assert metrics["interrupted"]["easy"].tolist() == [2, 2]
    assert metrics["lost_core_hours"]["fcfs"] == pytest.approx([5 / 3600] * 2)


@pytest.mark.filterwarnings("ignore:limited.user_limit")
def test_csv_has_the_rows_of_the_screen_as_numbers_with_units(path: Path) -> None:
    """The limit rejects the jobs of two and of three processors, so that variant is not ranked."""
    limited = gs.BatchQueue(user_limit=1, kill="at-limit")
    found = gs.compare(
        scenario(path), {"easy": gs.BatchQueue(), "limited": limited}, baseline="log", by=["size"]
    )
    rows = [*csv.DictReader(io.StringIO(found.to_csv()))]
    assert [row["scheduler"] for row in rows] == ["easy", "limited", "log"] * 3
    assert [(row["by"], row["group"]) for row in rows[::3]] == [("", ""), ("size", "2-8"), ("size", "1")]
    easy, own, log_row = rows[:3]
    assert float(log_row["mean_waiting (s)"]) == 4 and float(log_row["ratio"]) == 1
    assert float(easy["ratio"]) == found.ratio("easy") and not own["ratio"] and own["ranked"] == "False"
    assert [row["rejected (jobs)"] for row in rows[:5]] == ["0.0", "2.0", "", "0.0", "2.0"]
    assert [row["killed (jobs)"] for row in rows[:3]] == ["", "0.0", "0.0"]
    assert json.loads(own["parameters"])["user_limit"] == 1
    assert float(rows[5]["mean_waiting (s)"]) == 4.5 and not rows[4]["mean_waiting (s)"]


@pytest.mark.filterwarnings("ignore:.*without a requested time")
def test_a_factor_of_requested_times_changes_plans_and_limits_but_no_run_time(path: Path) -> None:
    """The jobs request 20 s each and run for 10, 5, 8 and 2 s; the log has them still."""
    text = path.read_text().replace(" 20 -1", " -1 -1")
    path.write_text(text)
    with pytest.raises(
        gs.ScenarioError, match="request_factor requires requested times, and .*own.swf has none"
    ):
        gs.compare(scenario(path, request_factor=2.0), SCHEDULERS)
    assert "run times, which count as requested, are known to easy, fcfs" in str(
        gs.compare(scenario(path), SCHEDULERS)
    )
    path.write_text(text.replace(" 3 -1 -1 1", " 3 20 -1 1"))
    for factor, killed in ((0.2, 1), (2.0, 0)):
        found = gs.compare(scenario(path, request_factor=factor), {"easy": gs.BatchQueue(kill="at-limit")})
        assert found["easy"].applications["requested"].tolist() == [10, 20 * factor, 8, 2]
        assert found["easy"].terminated == killed and found["log"].mean_waiting == 4
        assert f"requested times are {factor:g} times those of the log" in str(found)


def test_jobs_wider_than_the_platform_are_an_error_with_the_limit_that_leaves_them_out(path: Path) -> None:
    with pytest.raises(gs.ScenarioError, match=r"got 3 for job 2; .*--change workload.max_nodes=2\) leaves"):
        gs.compare(scenario(path, 2), SCHEDULERS)


def test_the_log_can_be_left_out(path: Path) -> None:
    found = gs.compare(scenario(path), SCHEDULERS, log=False)
    assert found.log is None and "log " not in str(found) and "no row" not in str(found)
    with pytest.raises(KeyError):
        found["log"]


@pytest.mark.parametrize(
    ("machines", "selection", "reason"),
    [
        (5, {}, "differ from those of the log: 5 machines instead of 4"),
        (3, {}, "differ from those of the log: 3 machines instead of 4"),
        (4, {"utilization": 0.5}, "releases are scaled to a load of 0.5"),
        (4, {"copies": 2}, "each job is submitted 2 times"),
        (4, {"max_nodes": 2}, "workload.max_nodes leaves out jobs"),
        (4, {"constraints": gs.Constraints(memory=[1.0])}, "jobs have constraints"),
    ],
)
@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
def test_logs_of_changed_jobs_or_machines_have_no_row(
    path: Path, machines: int, selection: Any, reason: str
) -> None:
    reference = log_reference(scenario(path, machines, **selection))
    assert reference.result is None and reference.remark.startswith("no row for the log: the jobs or the")
    assert reason in reference.remark


def test_a_limit_that_leaves_out_no_job_and_whole_nodes_keep_the_row(path: Path) -> None:
    assert log_reference(scenario(path, max_nodes=3)).result is not None
    nodes = log_reference(scenario(path, machines=2, cores_per_node=2)).result
    assert nodes is not None and nodes.applications["tasks"].tolist() == [1, 2, 1, 1]


def test_the_recorded_schedule_must_fit_if_the_header_states_no_machines(tmp_path: Path) -> None:
    path = log(tmp_path / "x.swf", JOBS, header="")
    assert log_reference(scenario(path, 3)).remark.endswith(
        "its jobs used up to 4 machines at once, and the platform has 3"
    )
    for machines in (4, 9):  # job 2 starts at 10 s, at which job 1 ends
        assert log_reference(scenario(path, machines)).result is not None


def test_unknown_waits_are_stated_in_a_remark_or_a_reason(tmp_path: Path) -> None:
    unknown = [(submit, -1, lasts, procs) for submit, _, lasts, procs in JOBS]
    none_known = log_reference(scenario(log(tmp_path / "none.swf", unknown)))
    assert none_known.remark == "no row for the log: the log does not state the waiting times of its jobs"
    some = log_reference(scenario(log(tmp_path / "some.swf", [*JOBS[:3], unknown[3]])))
    assert some.result is None and "the waiting time of 1 of 4 jobs" in some.remark
    many = [(10 * k, 0, 5, 1) for k in range(200)]
    found = gs.compare(scenario(log(tmp_path / "few.swf", [*many, (2000, -1, 5, 1)])), SCHEDULERS)
    assert found.log is not None and "the waiting times of 1 of 201 jobs are unknown" in " ".join(
        str(found).split()
    )


def test_the_row_of_several_logs_has_the_waiting_times_of_each_at_its_site(
    path: Path, tmp_path: Path
) -> None:
    """Jobs of one log are released at 0, 1, 2 and 3 s, those of the other at 0 and 2 s."""
    other = log(tmp_path / "other.swf", [(5, 3, 10, 2), (7, 11, 4, 1)], header="; MaxProcs: 2\n")
    two = gs.Platform.sites([4, 2], speeds=[1000.0, 500.0])
    workload = gs.Workload.jobs_from_logs([path, other])
    found = gs.compare(gs.Scenario(two, workload), {"sites": gs.Metascheduler()}, by=["site"])
    own = found["log"]
    assert own.applications["waiting"].tolist() == [0, 3, 9, 0, 11, 7]
    assert own.applications["first_start"].tolist() == [0, 3, 10, 2, 13, 10]
    assert own.applications["finish"].tolist() == [10, 13, 15, 10, 17, 12]
    assert own.utilization == pytest.approx(69 / (6 * 17)) and "each job ran at its home site" in str(found)
    rows = {row["site"]: row for row in found.to_dict()["by"]["site"]}
    assert {name: row["mean_waiting"]["log"] for name, row in rows.items()} == {"0": 4, "1": 7}
    # work of 45 and 24 machine-seconds is released within 3 s on 4 and 2 machines
    assert {name: (row["machines"], row["load"]) for name, row in rows.items()} == {
        "0": (4, pytest.approx(45 / 12)),
        "1": (2, pytest.approx(24 / 6)),
    }
    busy = found["sites"].machines["utilization"]
    assert rows["1"]["utilization"] == {"sites": pytest.approx(busy[4:].mean())}
    for platform, selection, reason in (
        (gs.Platform.sites([4, 3]), {}, "3 machines instead of 2 for other.swf"),
        (two, {"resample": "users"}, "users are drawn with replacement"),
    ):
        workload = gs.Workload.jobs_from_logs([path, other], **selection)
        assert reason in log_reference(gs.Scenario(platform, workload)).remark


def test_a_remark_states_that_a_window_begins_with_empty_machines(path: Path) -> None:
    assert "before the window" in log_reference(scenario(path, start=1.0)).remark
    assert "empty at the first submission" in log_reference(scenario(path, end=3.0)).remark


def test_machines_and_clock_that_the_header_states_decide_the_remarks(tmp_path: Path) -> None:
    line = "busy share and energy are of those simulated"
    for header, has_line, clock in (
        (
            "; MaxProcs: 4\n; UnixStartTime: 1000000000\n; TimeZoneString: Europe/Paris\n",
            False,
            "by the clock",
        ),
        ("; UnixStartTime: 1000000000\n", True, "UTC"),
    ):
        one = scenario(log(tmp_path / "one.swf", JOBS, header))
        assert (line in log_reference(one).remark) == has_line
        assert f"2001-09-09, {clock}" in one.workload.remarks["period"]


def test_workloads_that_are_no_log_have_neither_row_nor_remark() -> None:
    jobs = gs.Workload.jobs_of(release=[0.0], nodes=1, run_time=5.0)
    found = gs.compare(gs.Scenario(gs.Platform.equal(4), jobs), SCHEDULERS)
    assert found.log is None and found.log_remark == ""


def test_a_scheduler_called_log_keeps_its_name(path: Path) -> None:
    found = gs.compare(scenario(path), {"log": gs.BatchQueue()})
    assert found.log is None and not found["log"].of_log and "a scheduler is called log" in str(found)


def test_errors_in_a_log_are_reported_once(tmp_path: Path) -> None:
    """The row of the log reads the file again."""
    path = log(tmp_path / "x.swf", [*JOBS, (4, 0, 0, 1)])
    with pytest.warns(TraceWarning) as warned:
        gs.compare(scenario(path), SCHEDULERS)
    assert len([entry for entry in warned if "run time 0 s" in str(entry.message)]) == 1


def _texts(path: Path, folder: Path) -> dict[str, str]:
    """Return all texts on runs of the jobs of a log: of runs, comparisons, replications and pages."""
    setting = scenario(path)
    schedulers = {**SCHEDULERS, "dgs": gs.DgsAsap(slot=1.0), "asap": gs.Asap(slot=1.0)}
    found = gs.compare(setting, schedulers, record=True)
    repeated = gs.compare(setting, SCHEDULERS, replicates=2)
    for name, study in (("one", found["dgs"]), ("all", found), ("many", repeated)):
        gs.write_report(study, folder / f"{name}.html")
    return {
        "run": found["dgs"].format(verbose=True) + repr(found["dgs"]) + found["log"].format(),
        "notebook": found._repr_html_() + found["easy"]._repr_html_(),
        "comparison": str(found) + found.format(verbose=True) + found.verdict(),
        "replications": str(repeated),
        **{f"page of {name}": (folder / f"{name}.html").read_text() for name in ("one", "all", "many")},
    }


def test_texts_about_rigid_jobs_contain_no_terms_of_bags(path: Path, tmp_path: Path) -> None:
    """Pages contain programs, styles, data of animations and the scenario, which are no texts on the run."""
    for name, text in _texts(path, tmp_path).items():
        charts = "".join(re.findall(r'(?s)<script type="application/json" id="charts">(.*?)</script>', text))
        plain = re.sub(r"(?s)<script.*?</script>|<style.*?</style>|<details.*?</details>", "", text)
        words = _WORDS_OF_BAGS.findall(plain + charts)
        assert not words, (name, words)


def test_the_log_of_a_site_is_a_row(traces: Path) -> None:
    """The guide on formats has these numbers."""
    (path,) = (traces / "kth-sp2").glob("*.swf.gz")
    with pytest.warns(TraceWarning):
        found = gs.compare(scenario(path, 100), {"easy": gs.BatchQueue()})
    assert found.log is not None and round(found["log"].mean_waiting) == 15_296
    assert found["log"].median_waiting == 300 and round(found["log"].mean_slowdown) == 193


def test_tables_by_site_name_queues_that_fill_the_first_site(path: Path, tmp_path: Path) -> None:
    other = log(tmp_path / "other.swf", [(5, 3, 10, 2), (7, 11, 4, 1)], header="; MaxProcs: 2\n")
    platform, workload = gs.Platform.sites([4, 2]), gs.Workload.jobs_from_logs([path, other])
    shared = gs.Platform.sites([4, 2], cores=2)
    for machines, one_queue in ((platform, ["first", "spread"]), (shared, ["first"])):
        schedulers = {
            "first": gs.BatchQueue(),
            "spread": gs.BatchQueue(placement="spread"),
            "separate": gs.BatchQueue(partitions="sites"),
            "asap": gs.Asap(),
        }
        found = gs.compare(gs.Scenario(machines, workload), schedulers, by=["site"])
        assert f"\n{' and '.join(one_queue)}: jobs take the machines of the first site first" in str(found)


def test_waits_of_the_log_count_from_the_ends_of_preceding_jobs_if_those_of_runs_do(path: Path) -> None:
    """On one processor, by hand: job 2 follows job 1, and job 3 follows job 2 by 5 s, but starts after 10 s.

    The waits from the submissions, 0, 90 and 110 s, include waiting for the preceding jobs.
    """
    rows = [(1, 0, 0, 100, -1, -1), (2, 10, 90, 10, 1, -1), (3, 10, 110, 10, 2, 5)]
    lines = [
        f"{job} {submit} {wait} {run} 1 -1 -1 1 {run} -1 1 1 -1 -1 -1 -1 {preceding} {think}"
        for job, submit, wait, run, preceding, think in rows
    ]
    path.write_text("; MaxProcs: 1\n" + "\n".join(lines) + "\n")
    with pytest.warns(TraceWarning, match="preceding job, which is not used"):
        from_submission = gs.compare(scenario(path, 1), SCHEDULERS)
    assert from_submission["log"].applications["waiting"].tolist() == [0, 90, 110]
    assert "include waiting for preceding jobs, which 2 jobs (67 %) have" in from_submission.log_remark
    from_release = gs.compare(scenario(path, 1, after="preceding"), SCHEDULERS)
    jobs = from_release["log"].applications
    assert jobs["waiting"].tolist() == [0, 0, 5] and jobs["release"].tolist() == [0, 100, 115]
    assert jobs["first_start"].tolist() == [0, 100, 120]
    assert jobs["slowdown"].tolist() == [1, 1, 1.5]
    assert from_release["fcfs"].applications["waiting"].tolist() == [0, 0, 0]
    assert "include waiting" not in from_release.log_remark
    # the lines before the runs are on the earliest releases, and job 3 is released at 110 + 5 s
    assert "released within 115 s, in this run" in str(from_release)


def test_nodes_that_jobs_of_the_log_shared_are_not_whole_ones(path: Path) -> None:
    """By hand: 4 jobs of 7 cores in all ran at once on 2 nodes of 4; they would take 4 whole ones."""
    log(path, [(0, 0, 100, 2), (1, 0, 100, 2), (2, 0, 100, 2), (50, 0, 100, 1)], "; MaxProcs: 7\n")
    queues = {"shared": gs.BatchQueue(), "whole": gs.BatchQueue(exclusive=True)}
    jobs = gs.Workload.jobs_from_log(path)
    shared = str(gs.compare(gs.Scenario(gs.Platform.equal(2, cores=4), jobs), queues))
    # 4 jobs of 100 s on a node each, over 50 s of 2 nodes
    assert "whole: the load is 4 with whole machines" in shared and "shared: the load is" not in shared
    assert "\nlog " in shared and "busy is above" not in shared
    whole = gs.compare(scenario(path, 2, cores_per_node=4), SCHEDULERS)
    assert whole["log"].utilization == pytest.approx(400 / 300)
    assert "log: busy is above 100 %" in str(whole)
