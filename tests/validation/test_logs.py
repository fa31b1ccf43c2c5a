"""Schedules in Batsim's columns and job logs: sound ones pass, and each kind of planted fault is detected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.validation import logs
from gridsim.validation.common import over_capacity, overlaps
from gridsim.validation.logs import validate_batsim, validate_swf

HEAD = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
# id, submission, size, start, duration, resources
JOBS = [
    ("w0!1", 0.0, 2, 0.0, 10.0, "0-1"),
    ("w0!2", 1.0, 3, 10.0, 5.0, "0-2"),
    ("w0!3", 2.0, 1, 2.0, 8.0, "2"),
    ("w0!4", 3.0, 2, 10.0, 2.5, "3 5"),
    ("w0!5", 4.0, 9, 0.0, 0.0, ""),  # rejected
]


def batsim(path: Path, **changes: Any) -> Path:
    """Write `JOBS` as a jobs table of Batsim; ``row_column=value`` changes a cell."""
    lines = [HEAD]
    for k, (job, submit, size, start, lasts, location) in enumerate(JOBS):
        end = start + lasts
        completed = bool(location)
        row: dict[str, Any] = dict.fromkeys(HEAD.split(","), "")
        row |= {
            "job_id": job,
            "workload_name": "w0",
            "submission_time": submit,
            "requested_number_of_resources": size,
            "success": int(completed),
            "final_state": "COMPLETED_SUCCESSFULLY" if completed else "REJECTED",
            "allocated_resources": location,
        }
        if completed:
            row |= {
                "starting_time": start,
                "execution_time": lasts,
                "finish_time": end,
                "waiting_time": start - submit,
                "turnaround_time": end - submit,
                "stretch": (end - submit) / lasts,
            }
        for name, value in changes.items():
            table_name, _, column = name.partition("_")
            if table_name == f"row{k}":
                row[column] = value
        lines.append(",".join(str(row[name]) for name in HEAD.split(",")))
    path.write_text("\n".join(lines) + "\n")
    return path


def swf(path: Path, rows: list[tuple[float, ...]], header: str = "; MaxProcs: 4\n") -> Path:
    """Write a job log of rows (job, submit, wait, run time, procs, requested time)."""
    lines = [
        f"{job} {submit} {wait} {lasts} {procs} -1 -1 {procs} {limit} -1 1 1 1 1 1 1 -1 -1"
        for job, submit, wait, lasts, procs, limit in rows
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


LOG = [(1, 0, 0, 10, 2, 20), (2, 1, 9, 5, 3, 20), (3, 2, 0, 8, 1, 20), (4, 3, 7, 2, 1, 20)]


def laws(violations: Any) -> set[str]:
    return {violation.law for violation in violations}


# -- Batsim -------------------------------------------------------------------------------------------------


def test_sound_table_has_no_violations(tmp_path: Path) -> None:
    path = batsim(tmp_path / "out_jobs.csv")
    assert validate_batsim(path) == validate_batsim(path, machines=6) == []
    answer = CliRunner().invoke(cli, ["validate", str(path), "--nodes", "6"])
    assert (answer.exit_code, answer.stdout) == (0, f"{path}: a jobs table of Batsim, no violations\n")


@pytest.mark.parametrize(
    ("changes", "law", "message"),
    [
        (
            {"row2_starting_time": 1.5, "row2_finish_time": 9.5},
            "before submission",
            "job w0!3 starts at 1.5 s",
        ),
        ({"row1_finish_time": 16.0}, "duration", "job w0!2 from 10.0 s for 5.0 s cannot finish at 16.0 s"),
        ({"row1_execution_time": -5.0}, "duration", "job w0!2"),
        (
            {"row1_execution_time": -5.0, "row1_finish_time": 5.0},
            "duration",
            "job w0!2 from 10.0 s for -5.0 s cannot finish at 5.0 s",
        ),
        ({"row0_allocated_resources": "0"}, "size", "job w0!1 has 1 resources, but requested 2"),
        ({"row3_allocated_resources": "2 5"}, "overlap", "on resource 2"),
        ({"row1_starting_time": 9.0, "row1_finish_time": 14.0}, "overlap", "starts at 9.0 s on resource 0"),
        ({"row3_job_id": "w0!1"}, "done twice", "job w0!1 is already at"),
        ({"row0_waiting_time": 3.0}, "agreement", "waiting_time is 3.0, but its times give 0.0"),
        ({"row2_stretch": 2.0}, "agreement", "stretch is 2.0"),
        ({"row3_allocated_resources": "3 6"}, "unknown", "job w0!4 runs on resource 6, but there are 6"),
    ],
)
def test_planted_fault_in_a_table_is_detected(tmp_path: Path, changes: Any, law: str, message: str) -> None:
    violations = validate_batsim(batsim(tmp_path / "jobs.csv", **changes), machines=6)
    if changes == {"row3_allocated_resources": "2 5"}:  # another job takes resource 2 at 10 s
        message = "on resource 2"
    assert law in laws(violations), violations
    assert any(
        message in str(violation) and f"{tmp_path / 'jobs.csv'}:" in violation.where
        for violation in violations
    )


def test_table_is_compared_with_the_submitted_jobs(tmp_path: Path) -> None:
    path = batsim(tmp_path / "jobs.csv")
    rows = [(k + 1, submit, -1, -1, size, -1) for k, (_, submit, size, *_) in enumerate(JOBS)]
    log = swf(tmp_path / "log.swf", rows)
    assert validate_batsim(path, job_log=log) == []
    swf(log, [*rows, (6, 9, -1, -1, 1, -1)])
    assert "job 6 of the workload is missing" in str(validate_batsim(path, job_log=log)[0])
    swf(log, rows[:-1])
    assert "job 5 is not in the workload" in str(validate_batsim(path, job_log=log)[0])
    swf(log, [(1, 0, -1, -1, 4, -1), *rows[1:]])
    assert "size is 2, but the workload has 4" in str(validate_batsim(path, job_log=log)[0])
    swf(log, [(1, 0.5, -1, -1, 2, -1), *rows[1:]])
    assert "submission is 0.0, but the workload has 0.5" in str(validate_batsim(path, job_log=log)[0])


SHORT = "job_id,submission_time,requested_number_of_resources,starting_time,execution_time,finish_time,"
SHORT += "allocated_resources"


def write_short(path: Path, *rows: str, more: str = "") -> Path:
    """Write a table with only the required columns."""
    path.write_text("\n".join((SHORT + more, *rows)) + "\n")
    return path


def test_job_of_a_log_may_run_only_once(tmp_path: Path) -> None:
    """The workload in front of the job number, or in its own column, makes no difference."""
    log = swf(tmp_path / "log.swf", [(1, 0, 0, 10, 2, 10)])
    rows = ("w0!1,0,2,0,10,10,0-1", "w1!1,0,2,20,10,30,0-1", "1,0,2,40,10,50,0-1")
    path = write_short(tmp_path / "jobs.csv", *rows)
    assert validate_batsim(path) == []  # rows of two workloads, and a row without a workload
    for k in range(3):
        assert validate_batsim(write_short(path, rows[k]), job_log=log) == []
    (violation,) = validate_batsim(write_short(path, *rows), machines=4, job_log=log)
    assert (violation.law, violation.count, violation.where) == ("done twice", 2, f"{path}:3")
    answer = CliRunner().invoke(cli, ["validate", str(path), "--nodes", "4", "--job-log", str(log)])
    assert answer.exit_code == 1 and f"job w1!1 is already at {path}:2 (and 1 more)" in answer.stdout
    named = ("1,0,2,0,10,10,0-1,w0", "1,0,2,20,10,30,0-1,w1", "w0!1,0,2,40,10,50,0-1,w0")
    write_short(path, *named, more=",workload_name")
    assert [(item.law, item.count) for item in validate_batsim(path)] == [("done twice", 1)]
    assert [(item.law, item.count) for item in validate_batsim(path, job_log=log)] == [("done twice", 2)]


def test_wrong_durations_and_overlaps_at_late_times_are_detected(tmp_path: Path) -> None:
    """Two jobs overlap on one machine at the end of a real log, or at times of Unix clocks."""
    path = tmp_path / "jobs.csv"
    for instant, lasts in ((28_763_000, 25), (1_700_000_000, 1600)):
        rows = [f"{k + 1},{instant},1,{instant + k},{lasts},{instant + k + 1},0" for k in range(2)]
        violations = validate_batsim(write_short(path, *rows), machines=1)
        assert [(item.law, item.count) for item in violations] == [("duration", 2)]
        rows = [f"{k + 1},{instant},1,{instant + k},{lasts},{instant + k + lasts},0" for k in range(2)]
        assert laws(validate_batsim(write_short(path, *rows), machines=1)) == {"overlap"}


#: Error (s) larger than any rounding.
SMALL_ERROR = 1e-3


@pytest.mark.parametrize("instant", [0, 1000, 28_763_000, 1_700_000_000])
def test_times_have_a_tolerance_of_six_decimals(tmp_path: Path, instant: int) -> None:
    """An error of a millisecond is detected at any time, an error of a microsecond is not."""

    def violation_count(by: float, moved: dict[str, int]) -> set[str]:
        base = {
            "submit": instant,
            "start": instant + 5,
            "lasts": 10,
            "finish": instant + 15,
            "wait": 5,
            "turn": 15,
        }
        t = {name: f"{value + moved.get(name, 0) * by:.6f}" for name, value in base.items()}
        row = f"1,{t['submit']},1,{t['start']},{t['lasts']},{t['finish']},0,{t['wait']},{t['turn']}"
        free = f"2,{instant},1,{instant + 15},1,{instant + 16},0,15,16"
        path = write_short(tmp_path / "jobs.csv", row, free, more=",waiting_time,turnaround_time")
        return laws(validate_batsim(path, machines=1))

    moves: list[tuple[dict[str, int], str]] = [
        ({"finish": -1}, "duration"),
        ({"lasts": 1}, "duration"),
        ({"wait": 1}, "agreement"),
        ({"turn": -1}, "agreement"),
        ({"start": 1, "finish": 1, "wait": 1, "turn": 1}, "overlap"),
    ]
    for moved, law in moves:
        assert violation_count(1e-6, moved) == set() and law in violation_count(SMALL_ERROR, moved), moved
    base = f"1,{instant + SMALL_ERROR:.6f},1,{instant},1,{instant + 1},0"
    assert laws(validate_batsim(write_short(tmp_path / "early.csv", base))) == {"before submission"}


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0, 2e9),
    st.lists(st.tuples(st.floats(0, 1e3), st.floats(1e-5, 1e5)), min_size=1, max_size=6),
    st.sampled_from([6, 9]),
)
def test_rounded_times_are_accepted(
    tmp_path_factory: pytest.TempPathFactory, instant: float, jobs: list[tuple[float, float]], decimals: int
) -> None:
    """Consecutive jobs without a gap are written with the decimals of Batsim and of gridsim."""
    rows = []
    for k, (early, lasts) in enumerate(jobs):
        submit, finish = max(0.0, instant - early), instant + lasts
        lasts = finish - instant
        if not lasts:
            continue
        numbers = (
            submit,
            instant,
            lasts,
            finish,
            instant - submit,
            finish - submit,
            (finish - submit) / lasts,
        )
        a, b, c, d, *derived = (f"{item:.{decimals}f}" for item in numbers)
        rows.append(",".join((str(k), a, "1", b, c, d, "0", *derived)))
        instant = finish
    if rows:
        path = tmp_path_factory.getbasetemp() / "rounded.csv"
        write_short(path, *rows, more=",waiting_time,turnaround_time,stretch")
        assert validate_batsim(path, machines=1) == []


@pytest.mark.parametrize(
    ("row", "more"),
    [
        ("1,0,2,0,10,10,,1,COMPLETED_SUCCESSFULLY", ",success,final_state"),
        ("1,0,2,,,,,1,", ",success,final_state"),
        ("1,0,2,,,,,COMPLETED_KILLED", ",final_state"),
        ("1,0,2,0,10,10,", ""),
    ],
)
def test_job_that_ran_without_resources_is_detected(tmp_path: Path, row: str, more: str) -> None:
    path, log = (
        write_short(tmp_path / "jobs.csv", row, more=more),
        swf(tmp_path / "a.swf", [(1, 0, 0, 10, 2, 10)]),
    )
    for job_log in (None, log):
        (violation,) = validate_batsim(path, job_log=job_log)
        assert violation.law == "size" and "job 1 has run, but has no resources" in str(violation)
    write_short(path, "1,0,2,-1,-1,-1,,0,REJECTED", more=",success,final_state")
    assert validate_batsim(path, job_log=log) == []


#: First resource, number of resources, start, duration.
INTERVALS = st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(0, 9), st.integers(1, 5))


@given(st.lists(INTERVALS, min_size=1, max_size=8), st.sampled_from([1, 3, 1 << 20]))
def test_overlaps_are_found_per_resource(rows: list[tuple[int, ...]], at_once: int) -> None:
    low, many, start, lasts = np.array(rows).T
    job = np.arange(len(rows))
    of, resource = np.repeat(job, many), np.concatenate([low[k] + np.arange(many[k]) for k in job])
    times, until = start.astype(np.float64), (start + lasts).astype(np.float64)
    earlier, later = overlaps(resource, times[of], until[of])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_BATCH", at_once)
        shared = list(logs._shared_resources("a.csv", job, low, low + many, times, until))
    assert sum(count for _, count, *_ in shared) == len(later)
    if shared:
        assert shared[0][0] == resource[later[0]]
        assert shared[0][2:] == (of[earlier[0]], of[later[0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have the columns job_id"),
        (HEAD, "must have at least one job"),
        (HEAD.replace("job_id,", ""), "must have the columns job_id"),
        (f"{HEAD}\n1,2\n", ":2: a line must have 17 fields, got 2"),
        (f"{HEAD}\n1,w,p,x,1,,1,S,0,1,1,0,1,1,0,,\n", ":2: field submission_time must be a number, got 'x'"),
        (
            f"{HEAD}\n1,w,p,0,1.5,,1,S,0,1,1,0,1,1,0,,\n",
            "requested_number_of_resources must be a whole number",
        ),
        (
            f"{HEAD}\n1,w,p,0,1,,1,S,0,1,1,0,1,1,0-x,,\n",
            "field allocated_resources must have resources or LOW-HIGH, got '0-x'",
        ),
        (f"{HEAD}\n1,w,p,0,1,,1,S,0,1,1,0,1,1,5-2,,\n", "must have LOW <= HIGH, got '5-2'"),
        (f"{HEAD}\n1,w,p,0,1,,1,S,0,1,1,0,1,1,0-9999999999999,,\n", "at most 1099511627776"),
        (f'{HEAD}\n"1,w,p\n', ":2: not a valid CSV line (unexpected end of data)"),
    ],
)
def test_malformed_tables_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(gs.TraceFormatError) as error:
        validate_batsim(path)
    assert str(error.value).startswith(f"{path}:") and message in str(error.value)


# -- job logs -----------------------------------------------------------------------------------------------


def test_sound_log_has_no_violations(tmp_path: Path) -> None:
    path = swf(tmp_path / "log.swf", LOG)
    assert validate_swf(path) == validate_swf(path, machines=4, job_log=path) == []
    output = json.loads(CliRunner().invoke(cli, ["validate", str(path), "--json"]).stdout)
    assert output == {"file": str(path), "kind": "a job log", "violations": []}
    assert laws(validate_swf(path, machines=3)) == {"overlap"}


@pytest.mark.parametrize(
    ("row", "values", "law", "message"),
    [
        (0, (1, 0, -5, 10, 2, 20), "before submission", "job 1 starts 5.0 s before its submission"),
        (1, (2, 1, 9, 25, 3, 20), "duration", "job 2 runs for 25.0 s and is completed, but requested 20.0 s"),
        (1, (2, 1, 4, 5, 3, 20), "overlap", "6 processors are in use at 5.0 s, but there are 4"),
        (2, (1, 2, 0, 8, 1, 20), "done twice", "job 1 is already at"),
        (3, (4, 3, 12, 2, 5, 20), "unknown", "job 4 runs on 5 processors, but there are 4"),
    ],
)
def test_planted_fault_in_a_log_is_detected(
    tmp_path: Path, row: int, values: Any, law: str, message: str
) -> None:
    rows = [*LOG]
    rows[row] = values
    path = swf(tmp_path / "log.swf", rows)
    violations = {violation.law: str(violation) for violation in validate_swf(path)}
    assert law in violations and message in violations[law], violations
    assert CliRunner().invoke(cli, ["validate", str(path)]).exit_code == 1


def test_log_is_compared_with_another_log(tmp_path: Path) -> None:
    arguments, path = swf(tmp_path / "given.swf", LOG), tmp_path / "log.swf"
    swf(path, LOG[1:])
    assert "job 1 of the workload is missing" in str(validate_swf(path, job_log=arguments)[0])
    swf(path, [*LOG, (9, 30, 0, 1, 1, 20)])
    assert "job 9 is not in the workload" in str(validate_swf(path, job_log=arguments)[0])
    swf(path, [(1, 0, 0, 10, 1, 20), *LOG[1:]])
    assert "size is 1, but the workload has 2" in str(validate_swf(path, job_log=arguments)[0])


def test_completed_job_without_times_is_detected(tmp_path: Path) -> None:
    arguments, path = swf(tmp_path / "given.swf", LOG), tmp_path / "log.swf"
    for wait, lasts in ((-1, -1), (0, -1), (-1, 10)):
        swf(path, [(1, 0, wait, lasts, 2, 20), *LOG[1:]])
        assert validate_swf(path) == []  # a job without times is left out
        (violation,) = validate_swf(path, job_log=arguments)
        assert violation.law == "lost" and "job 1 is completed, but its wait or run time is missing" in str(
            violation
        )
    path.write_text(path.read_text().replace("2 20 -1 1 ", "2 20 -1 5 ", 1))  # cancelled
    assert validate_swf(path, job_log=arguments) == []


def test_duplicate_job_number_of_a_log_is_detected(tmp_path: Path) -> None:
    """One job is missing, but its number is unknown."""
    path = swf(tmp_path / "log.swf", LOG)
    log = swf(tmp_path / "given.swf", [*LOG, (1, 3, 0, 10, 2, 20)])
    (violation,) = validate_swf(path, job_log=log)
    assert str(violation) == f"workload: {log}:6: job 1 of the workload is already at line 2"
    rows = [(k + 1, submit, -1, -1, size, -1) for k, (_, submit, size, *_) in enumerate(JOBS)]
    second = (3, 4, -1, -1, 1, -1)
    (violation,) = validate_batsim(batsim(tmp_path / "a.csv"), job_log=swf(log, [*rows, second, second]))
    assert violation.count == 2 and "job 3 of the workload is already at line 4" in str(violation)
    assert laws(validate_swf(log, job_log=log)) == {"done twice", "workload", "lost"}


def test_run_times_may_differ_from_the_log(tmp_path: Path) -> None:
    """On other machines jobs have other run times, so only number, submission and size are compared."""
    arguments = swf(tmp_path / "given.swf", LOG)
    path = swf(tmp_path / "log.swf", [(1, 0, 0, 1, 2, 30), *LOG[1:]])
    assert validate_swf(path, job_log=arguments) == []


def test_invalid_options_are_rejected(tmp_path: Path) -> None:
    path = swf(tmp_path / "log.swf", LOG)
    for arguments, message in (
        (["--nodes", "0"], "--nodes must be"),
        (["--job-log", "none.swf"], "none.swf"),
    ):
        answer = CliRunner().invoke(cli, ["validate", str(path), *arguments])
        assert answer.exit_code == 2 and message in answer.stderr and "Traceback" not in answer.output


# -- shared checks ------------------------------------------------------------------------------------------

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(1, 4)), max_size=8)


@settings(max_examples=100, deadline=None)
@given(rows)
def test_overlaps_equal_those_of_all_pairs(rows: list[tuple[int, int, int]]) -> None:
    u, start, lasts = np.array(rows, np.int64).reshape(-1, 3).T
    end = start + lasts
    earlier, later = overlaps(u, start.astype(float), end.astype(float))
    pairs = range(len(u))
    touching = [(a, b) for a in pairs for b in pairs if a != b and u[a] == u[b]]
    clash = [(a, b) for a, b in touching if start[a] <= start[b] < end[a]]
    assert (len(later) > 0) == (len(clash) > 0)
    for a, b in zip(earlier.tolist(), later.tolist(), strict=True):
        assert u[a] == u[b] and start[a] <= start[b] < end[a]
    free = set(pairs) - set(later.tolist())
    assert not any(a in free and b in free and start[a] < end[b] and start[b] < end[a] for a, b in touching)


@settings(max_examples=100, deadline=None)
@given(rows, st.integers(0, 12))
def test_over_capacity_finds_the_first_instant(rows: list[tuple[int, int, int]], capacity: int) -> None:
    amount, start, lasts = np.array(rows, np.int64).reshape(-1, 3).T
    end = start + lasts
    used = {t: int(amount[(start <= t) & (t < end)].sum()) for t in sorted({*start.tolist()})}
    first = next(((float(t), n) for t, n in used.items() if n > capacity), None)
    assert over_capacity(start.astype(float), end.astype(float), amount, capacity) == first


def test_uncompleted_job_may_exceed_its_request(tmp_path: Path) -> None:
    """The job was killed at its limit, or cancelled after it."""
    path = swf(tmp_path / "log.swf", [(1, 0, 0, 25, 2, 20)])
    assert laws(validate_swf(path)) == {"duration"}
    path.write_text(path.read_text().replace("20 -1 1 1", "20 -1 5 1"))
    assert validate_swf(path) == []


def test_a_header_may_allow_overuse(tmp_path: Path) -> None:
    rows = [(1, 0, 0, 10, 2, 5)]
    assert laws(validate_swf(swf(tmp_path / "a.swf", rows))) == {"duration"}
    assert laws(validate_swf(swf(tmp_path / "b.swf", rows, "; AllowOveruse: No\n"))) == {"duration"}
    assert validate_swf(swf(tmp_path / "c.swf", rows, "; AllowOveruse: Yes\n")) == []
