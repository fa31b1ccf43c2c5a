"""Malicious or damaged text files: one clear error, in little time and memory."""

from __future__ import annotations

import dataclasses
import gzip
import math
import os
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from io import BufferedReader
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.output import file_name
from gridsim.errors import MAX_MESSAGE_LENGTH, GridSimError, ScenarioError, TraceFormatError
from gridsim.model.fault_events import CLOCK_END, display_limit
from gridsim.model.platform import Platform
from gridsim.model.time_zones import Zones
from gridsim.reproduce.others.waves import hours_of
from gridsim.scheduling.contract import Policy, Run, Scheduler
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.studies.sweep import Sweep
from gridsim.support import files as inputs
from gridsim.support import memory as memory_of
from gridsim.support.clock import NEVER
from gridsim.traces import read_avt, read_fta, read_gwf, read_host_speeds, read_swf, read_tr
from gridsim.traces._text import LONGEST_LINE, text_lines
from gridsim.validation.logs import BATSIM, validate_batsim, validate_swf
from tests._helpers.archives import change_archive

pytestmark = pytest.mark.slow

JOB = "1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n"
READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "swf": (read_swf, JOB),
    "gwf": (read_gwf, JOB.strip() + " -1" * 11 + "\n"),
    "tr": (read_tr, "5 2 3 2 4\n"),
    "avt": (read_avt, "h 1 0 10\n"),
    "fta": (read_fta, "0\t0\t1\t1\ta\t1\t100\t200\tx\n"),
    "hosts": (read_host_speeds, "cpu_model,computers,gflops_core\nA,2,1.5\n"),
}
OPENERS: dict[str, Callable[[Any], Any]] = {
    **{name: read for name, (read, _) in READERS.items()},
    "scenario": gs.Scenario.from_toml,
    "sweep": Sweep.from_toml,
    "result": gs.Result.load,
    "checkpoint": Checkpoint,
    "batsim": validate_batsim,
}


# -- decompression bombs ------------------------------------------------------------------------------------


def write_bomb(path: Path, unit: bytes, size: int) -> Path:
    """Write `unit` repeated to `size` bytes, as gzip: some 200 kB for 200 MB."""
    block = unit * (1 + (1 << 20) // len(unit))
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(1 + size // len(block)):
            stream.write(block)
    return path


@pytest.mark.parametrize("unit", [b"0", b";\n", JOB.encode(), b"\n"])
def test_gzip_bombs_are_rejected(tmp_path: Path, unit: bytes) -> None:
    path = write_bomb(tmp_path / "bomb.swf.gz", unit, 30 << 20)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TraceFormatError) as error:
        read_swf(path)
    assert any(
        message in str(error.value)
        for message in ("unpacked contents must", "a line must have at most", "comments")
    )


def test_unpacked_contents_are_limited_by_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bomb(tmp_path / "log.swf.gz", JOB.encode(), 3 << 20)
    assert sum(1 for _ in text_lines(path)) > 1000  # the file can be read if there is enough memory
    monkeypatch.setattr("gridsim.traces._text.memory", lambda: 1 << 20)
    with pytest.raises(
        TraceFormatError, match=r"unpacked contents must be at most 1\.0\d+ MB, the available memory"
    ):
        read_swf(path)


def test_overlong_lines_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "line.avt"
    path.write_bytes(b"h 1 0 10\nx " + b"1" * (LONGEST_LINE + (1 << 19)))
    with pytest.raises(TraceFormatError, match=f"line.avt:2: a line must have at most {LONGEST_LINE} bytes"):
        read_avt(path)
    # the longest lines of real traces are much shorter
    path.write_text("h 200000 " + " ".join(f"{2 * k} {2 * k + 1}" for k in range(200_000)))
    assert len(read_avt(path).start) == 200_000


def test_a_table_with_too_many_intervals_of_resources_is_rejected(tmp_path: Path) -> None:
    """Intervals are reported in pieces, the number of which is limited."""
    head = "job_id,submission_time,requested_number_of_resources,starting_time,execution_time,finish_time,"
    path = tmp_path / "jobs.csv"
    maximum = 2**40
    rows = [f"{k},0,{maximum},{k},1,{k + 1},0-{maximum - 1}\n" for k in range(3)]
    path.write_text(f"{head}allocated_resources\n" + "".join(rows))
    assert validate_batsim(path) == []
    path.write_text(f"{head}allocated_resources\n" + "".join(rows[:1] * 2))
    assert {item.law: item.count for item in validate_batsim(path)} == {"done twice": 1, "overlap": maximum}
    nested = [f"{k},0,{20_000 - 2 * k},{k},1,{k + 1},{k}-{19_999 - k}\n" for k in range(10_000)]
    path.write_text(f"{head}allocated_resources\n" + "".join(nested))
    with pytest.raises(
        TraceFormatError,
        match=r"jobs.csv: field allocated_resources makes 1e\+08 pieces of intervals, at most 50000000 are",
    ):
        validate_batsim(path)


# -- numbers ------------------------------------------------------------------------------------------------

#: Words that are invalid or extreme in any field of a trace.
NUMBERS = ["nan", "inf", "-inf", "1e19", "-1e308", "1e999", "9" * 5000, "0x10", "1_0", "", "²", "1\x1b[31m"]


@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
@pytest.mark.parametrize("name", READERS)
def test_extreme_values_in_any_field_of_a_trace_are_rejected_or_safe(name: str, tmp_path: Path) -> None:
    """Each field in turn has an error with the line, or a value that keeps later sums finite."""
    read, text = READERS[name]
    split = {"fta": "\t", "hosts": ","}.get(name, " ")
    *head, row = text.removesuffix("\n").split("\n")
    path = tmp_path / ("event_trace.tab" if name == "fta" else f"a.{name}")
    words = row.split(split)
    rejections = 0
    for place in range(len(words)):
        for number in NUMBERS:
            line = split.join([*words[:place], number, *words[place + 1 :]])
            path.write_text("\n".join([*head, line]))
            try:
                read(path)
            except TraceFormatError as error:
                rejections += 1
                message = str(error)
                assert message.startswith(f"{path}:{len(head) + 1}: ") and message.isprintable(), message
                assert len(message) < 400
    # of job logs, the fields on which runs depend: others count as unknown if they cannot be read
    numeric = {"swf": 9, "gwf": 8, "tr": 5, "avt": 3, "fta": 5, "hosts": 2}[name]
    assert rejections >= numeric * (len(NUMBERS) - 3)


def test_sums_of_the_largest_allowed_values_do_not_overflow(tmp_path: Path) -> None:
    """Means and totals of the largest values are finite."""
    count, maximum = str(2**40), "1e18"
    (tmp_path / "a.csv").write_text("cpu_model,computers,gflops_core\n" + f"A,{count},{maximum}\n" * 100)
    hosts = read_host_speeds(tmp_path / "a.csv")
    assert hosts.mean() == pytest.approx(1e21) and set(
        Platform.from_hosts(tmp_path / "a.csv", 3, 1).speeds
    ) == {1e21}
    (tmp_path / "a.avt").write_text(f"h 1 -{maximum} {maximum}\n")
    assert math.isfinite(read_avt(tmp_path / "a.avt").up_time().sum())
    for text in (
        "cpu_model,computers,gflops_core\nA,2,1e308\n",
        f"cpu_model,computers,gflops_core\nA,{2**41},1\n",
    ):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(TraceFormatError, match="expected at most"):
            read_host_speeds(tmp_path / "a.csv")
    many = "cpu_model,computers,gflops_core\n" + f"A,{count},1\n" * 2**13
    (tmp_path / "a.csv").write_text(many)
    assert len(Platform.from_hosts(tmp_path / "a.csv", 3, 1).speeds) == 3
    (tmp_path / "a.csv").write_text(f"{many}A,1,1\n")
    with pytest.raises(TraceFormatError, match=r"a.csv:8194: field computers makes 9007199254740993 in all"):
        Platform.from_hosts(tmp_path / "a.csv", 3, 1)


def test_invalid_machine_counts_in_headers_of_logs_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    for declared in ("²", "9" * 5000, "٣", "1073741824"):
        path.write_text(f"; MaxProcs: {declared}\n{JOB}")
        assert validate_swf(path) == []
        with pytest.raises(ScenarioError, match="machines (is required|must be at most)"):
            gs.result_from_log(path)


SCENARIO = """
seed = 1
[platform]
kind = "equal"
nodes = 2
speed = 1000.0
[workload]
kind = "bags"
seed = 1
applications = 2
interarrival = 10.0
tasks = 3.0
task_size = 500.0
[faults]
kind = "exponential"
up = 100.0
down = 10.0
seed = 1
[network]
latency = 0.1
jitter = 0.05
bandwidth = 1e6
"""
FIELDS = [line.split(" = ")[0] for line in SCENARIO.splitlines() if " = " in line]


@pytest.mark.parametrize(
    "number", ["nan", "inf", "-inf", "-1", "9223372036854775808", "0x" + "f" * 4000, "1e308"]
)
def test_extreme_values_in_any_field_of_a_scenario_round_trip_or_fail(number: str) -> None:
    """A ScenarioError names the field, or the scenario survives a file; nothing is generated."""
    lines = SCENARIO.splitlines()
    for place in [k for k, line in enumerate(lines) if " = " in line and '"' not in line]:
        name = lines[place].split(" = ")[0]
        text = "\n".join([*lines[:place], f"{name} = {number}", *lines[place + 1 :]])
        try:
            scenario = gs.Scenario.from_toml(text)
        except ScenarioError as error:
            message = str(error)
            assert message.isprintable() and len(message) < 300
            assert name in message or "numbers must have at most 100 digits" in message or number == "1e308"
        else:
            assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


EXTREMES = (1.7e308, 1e300, 1e-300, 5e-324, 2147483648, 9007199254740992)
RUN_FIELDS = [
    *(("platform", name) for name in ("speed", "nodes")),
    *(("workload", name) for name in ("tasks_per_node", "task_size", "interarrival")),
    *(("network", name) for name in ("latency", "bandwidth", "jitter")),
]


@pytest.mark.parametrize(
    "scheduler", ["fair-tree", "mincent", "fcfs", "min-min", "rjss", "rendezvous", "dgs-asap"]
)
def test_runs_with_extreme_values_end_or_raise_a_clear_error(scheduler: str) -> None:
    """A scenario that can be read either runs or has one line of error."""
    kind = "jobs" if scheduler == "dgs-asap" else "bags"
    base: dict[str, dict[str, Any]] = {
        "platform": {"kind": "equal", "nodes": 3},
        "workload": {"kind": kind, "seed": 1, kind.replace("bags", "applications"): 2},
        "network": {},
    }
    read = 0
    for table, name in RUN_FIELDS:
        for value in EXTREMES:
            if name in ("nodes", "task_size", "interarrival") and value == 2147483648:
                continue  # these runs are valid but long
            try:
                scenario = gs.Scenario.from_document({**base, table: {**base[table], name: value}}, "x", "")
                read += 1
                gs.simulate(scenario, make_scheduler(scheduler), time_limit=1e4)
            except (GridSimError, MemoryError) as error:
                assert str(error).isprintable()
    assert read > 10


@pytest.mark.parametrize("scheduler", ["fair-tree", "mincent-once", "fcfs", "fcfs-random", "mct", "min-min"])
def test_a_run_beyond_the_last_instant_is_rejected(scheduler: str) -> None:
    """Each number is valid, but together they make the run too long on a slow machine."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 0.003]),
        gs.Workload.of([0.0], [1000], [65536.0]),
        faults=gs.Faults.of([0], [1.0], [9e8]),
    )
    with pytest.raises(ScenarioError, match=r"end before its numbers are too large, at \d+ s"):
        gs.simulate(scenario, make_scheduler(scheduler))


def test_an_overflow_error_in_a_user_scheduler_is_passed_on() -> None:
    class OverflowingScheduler(Scheduler, frozen=True):
        name = "mine"

        def start(self, run: Run) -> Any:
            return OverflowingPolicy()

    class OverflowingPolicy(Policy):
        def on_release(self, applications: list[int]) -> None:
            math.exp(1e9)

        def finish(self) -> Any:
            raise AssertionError("never")

    scenario = gs.Scenario(gs.Platform.equal(2), gs.Workload.of([0.0], [1], [1.0]))
    with pytest.raises(OverflowError, match="math range error"):
        gs.simulate(scenario, OverflowingScheduler())


#: Values of parameters, up to above the largest one that a scheduler accepts.
STEPS = (
    5e-324,
    1e-300,
    *(m * 10.0**k for k in (0, 3, *range(6, 11), 15, 18) for m in (1, 2.5, 4)),
    1e300,
    1.7e308,
)
BAGS = gs.Workload.bags(applications=2, tasks_per_node=1.0, seed=1)
JOBS = gs.Workload.jobs_of([0.0, 1.0, 2.0], [2, 3, 1], [10.0, 100.0, 50.0])


@pytest.mark.parametrize("faults", [None, gs.Faults.of([0, 1], [1.0, 50.0], [200.0, 500.0])])
@pytest.mark.parametrize("name", sorted({type(make_scheduler(name)).name for name in registered()}))
def test_extreme_parameters_of_schedulers_are_rejected_or_run(name: str, faults: gs.Faults | None) -> None:
    """Times beyond the clock are rejected, or are never reached."""
    plain = make_scheduler(name)
    workload = JOBS if plain.rigid else BAGS
    platform = gs.Platform.equal(nodes=3, attributes=gs.DrawnAttributes(side=1.0))
    scenario = gs.Scenario(platform, workload, faults=faults)
    # the scheduler supports the workload with these parameters
    gs.simulate(dataclasses.replace(scenario, faults=None), plain)
    for parameter in type(plain).__struct_fields__:
        full_run = isinstance(getattr(plain, parameter), int)
        for value in STEPS:
            try:
                scheduler = make_scheduler(name, {parameter: int(value) if full_run else value})
                gs.simulate(scenario, scheduler, time_limit=1e4)
            except (GridSimError, MemoryError) as error:
                assert str(error).isprintable()


def test_negative_zero_counts_as_zero() -> None:
    """numpy rejects -0.0 in places where it accepts 0."""
    platform = gs.Platform.normal(nodes=3, mean=200.0, variation=-0.0, seed=1)
    assert platform == gs.Platform.normal(nodes=3, mean=200.0, variation=0.0, seed=1)
    assert platform.speeds.tolist() == [200.0] * 3
    assert math.copysign(1.0, platform.recipe.variation) == 1.0


@pytest.mark.parametrize("value", ["nan", "[1.0, nan]", "{ deeper = [-nan] }"])
def test_nan_is_rejected_as_a_parameter(value: str) -> None:
    """A scenario with NaN would not be equal to itself."""
    with pytest.raises(ScenarioError, match="^schedulers.fcfs.x"):
        gs.Scenario.from_toml(f"{SCENARIO}\n[schedulers.fcfs]\nx = {value}\n")


def test_a_large_scenario_is_read_without_generating_it() -> None:
    text = SCENARIO.replace("nodes = 2", f"nodes = {2**30}").replace(
        "applications = 2", "applications = 1000000000000"
    )
    scenario = gs.Scenario.from_toml(text)
    assert scenario.platform.nodes == 2**30 and gs.Scenario.from_toml(scenario.to_toml()) == scenario
    with pytest.raises(ScenarioError, match="^platform.nodes"):
        gs.Scenario.from_toml(SCENARIO.replace("nodes = 2", "nodes = 1000000000000"))


@pytest.mark.parametrize("horizon", ["5e12", "9e15", "1e18"])
def test_traces_of_a_long_horizon_take_little_memory(horizon: str, tmp_path: Path) -> None:
    """Memory is proportional to the size of the file, not to the horizon."""
    path = tmp_path / "a.avt"
    path.write_text("".join(f"h{k} 1 0 {horizon}\n" for k in range(2)))
    tracemalloc.start()
    try:
        assert hours_of(str(path)).up == pytest.approx(1.0)
        faults = gs.Faults.trace(path, seed=1, zones=Zones())
        assert faults.course(2).first.tolist() == [NEVER, NEVER] and faults.mean_up_time(2) == float(horizon)
        assert tracemalloc.get_traced_memory()[1] < 4 * LONGEST_LINE
    finally:
        tracemalloc.stop()


#: Up intervals of a host: none, very short ones, and some that end before 0 or after the end of the clock.
TIMES = (
    "1 -5 -3", "1 -1e18 1e18", "1 5e-324 1e-300", "2 0 1e-9 2e-9 3e-9", "1 0 6e-10", "1 0 86400", "1 0 5e9",
    "2 0 1 7.9999e9 8.0001e9", "2 0 1 8.00008e9 8.0001e9", "1 0 9e15", "2 0 1 9e17 1e18", "1 5e17 1e18",
)  # fmt: skip


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("zones", [None, Zones(zones=1), Zones(), Zones(zones=1440, night_begin=23.99)])
def test_faults_of_extreme_traces_are_sorted_or_rejected(
    times: str, zones: Zones | None, tmp_path: Path
) -> None:
    """There is one line of error, or sorted changes from 0 to the end of the clock."""
    path = tmp_path / "a.avt"
    path.write_text(f"x {times}\ny 1 0 1\nnever 0\n")
    for start in (0.0, 5e-324, 1e-9, 86400.0, 8e9, 9.99e17, 1e18, 1.7e308):
        for repeat, never_up in product((True, False), repeat=2):
            try:
                faults = gs.Faults.trace(path, 1, start, repeat, never_up, zones)
                course = faults.course(2, display_limit(2))
                assert faults.mean_up_time(2) > 0
            except ScenarioError as error:
                assert str(error).isprintable()
                continue
            due, last = course.first.tolist(), 0
            for block in islice(course.blocks, 9):
                columns = (block.time, block.machine, block.until)
                for time, machine, until in zip(*(column.tolist() for column in columns), strict=True):
                    assert last <= time == due[machine] < min(until, CLOCK_END)
                    due[machine], last = until, time


def test_an_error_of_a_late_release_names_the_file_of_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rest = "0 60 1 -1 -1 1 90 -1 1 7 1 1 1 -1 -1 -1"
    path.write_text(f"1 5 {rest}\n2 {2**33} {rest}\n")
    for workload in (gs.Workload.from_log(path), gs.Workload.jobs_from_log(path)):
        with pytest.raises(ScenarioError, match=r"^log.swf: workload.release\[1\]"):
            workload.realize(gs.Platform.equal(4))


@pytest.mark.parametrize("times", ["1 0 9e15", "1 0 1e18", "1 5e17 1e18", "2 0 1 9e17 1e18"])
@pytest.mark.parametrize("scheduler", ["fcfs", "WQR-FT", "wave-linger"])
def test_runs_with_extreme_traces_complete_or_raise_a_clear_error(
    times: str, scheduler: str, tmp_path: Path
) -> None:
    """In the last two traces, the host is up for at most a second before the end of the clock."""
    path = tmp_path / "a.avt"
    path.write_text(f"x {times}\n")
    faults = gs.Faults.trace(path, 1, zones=Zones())
    scenario = gs.Scenario(gs.Platform.equal(1), gs.Workload.of([0.0], 1, 1e5), faults=faults)
    if times in ("1 0 9e15", "1 0 1e18"):
        assert gs.simulate(scenario, make_scheduler(scheduler)).makespan > 1.0
    else:
        with pytest.raises(ScenarioError, match="faults must leave"):
            gs.simulate(scenario, make_scheduler(scheduler))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = " + "[" * 5000 + "\n", "too deeply"),
        ("x = " + "[" * 100 + "]" * 100 + "\n", "too deeply"),
        ("\nseed" + ".a" * 200_000 + " = 1\n", ":2: keys must have at most 64 parts"),
        ("\n[a." + "'b' . " * 100_000 + "c]\n", ":2: keys must have at most 64 parts"),
        ("x = { " + "y = { " * 5000 + "\n", "too deeply"),
        ("\n\nseed = " + "9" * 5000 + "\n", ":3: numbers must have at most 100 digits"),
        ("seed = 0x" + "f" * 5000 + "\n", "numbers must have at most 100 digits"),
        ("#" + "x" * (17 << 20) + "\n", "must have at most 16777216 bytes"),
        ("\n\x00\n", ":2: column 1"),
        ('"\\u001b[31mred" = 1\n', "\\x1b[31mred is not a known key"),
    ],
)
def test_malicious_toml_is_rejected_with_a_short_message(tmp_path: Path, text: str, expected: str) -> None:
    """Without the checks, the parser or its message would take hours or overflow the stack."""
    path = tmp_path / "a.toml"
    path.write_text(text)
    for read in (gs.Scenario.from_toml, Sweep.from_toml):
        with pytest.raises(ScenarioError) as error:
            read(path)
        message = str(error.value)
        assert expected in message and message.isprintable() and len(message) <= MAX_MESSAGE_LENGTH + 5


@pytest.mark.parametrize(
    "text", ["replicates = 10000001\n", "[over]\n" + "".join(f"a{k} = [1, 2]\n" for k in range(24))]
)
def test_sweeps_of_too_many_runs_are_rejected(tmp_path: Path, text: str) -> None:
    scenario = 'kind = "equal"\nnodes = 2\n[scenario.workload]\nkind = "bags"\nseed = 1\n'
    (tmp_path / "a.toml").write_text(f'schedulers = ["mincent"]\n{text}[scenario.platform]\n{scenario}')
    with pytest.raises(ScenarioError, match="^over and replicates"):
        Sweep.from_toml(tmp_path / "a.toml")


def test_long_lists_are_read() -> None:
    speeds = ", ".join(["1000.0"] * 200_000)
    text = f'[platform]\nkind = "list"\nspeeds = [{speeds}]\n[workload]\nkind = "bags"\nseed = 1\n'
    assert gs.Scenario.from_toml(text).platform.nodes == 200_000


# -- paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("kind", ["zero", "null", "pipe", "folder", "link", "missing", "nul"])
def test_paths_that_are_no_regular_files_are_rejected(opener: str, kind: str, tmp_path: Path) -> None:
    """No reader waits for data in a pipe, or reads a file without an end."""
    path = {"zero": "/dev/zero", "null": "/dev/null", "nul": "a\0b"}.get(kind, str(tmp_path / kind))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "link":
        os.symlink("/dev/zero", path)
    with pytest.raises((GridSimError, OSError)) as error:
        OPENERS[opener](path)
    message = str(error.value)
    assert message.isprintable()
    if kind in ("zero", "null", "link", "pipe"):
        assert "not a regular file" in message


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc/self/mem of Linux")
@pytest.mark.parametrize("opener", OPENERS)
def test_a_read_error_names_the_file(opener: str) -> None:
    """The error of the operating system does not name the file."""
    with pytest.raises((TraceFormatError, OSError), match="/proc/self/mem"):
        OPENERS[opener]("/proc/self/mem")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc/self/mem of Linux")
@pytest.mark.parametrize("command", ["validate", "run", "resume"])
def test_commands_report_a_read_error_with_the_name_of_the_file(command: str) -> None:
    message = CliRunner().invoke(cli, [command, "/proc/self/mem"])
    assert message.exit_code == 2 and message.stderr.startswith("gridsim: /proc/self/mem: I")


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("rest", ["x\n", '"x\n', "\0"])
def test_files_are_closed_when_reading_fails(
    opener: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is left open gives a ResourceWarning when it is garbage-collected."""
    streams = []

    def recorded_reader(*arguments: Any) -> Any:
        streams.append(BufferedReader(*arguments))
        return streams[-1]

    monkeypatch.setattr(inputs, "BufferedReader", recorded_reader)
    text = READERS[opener][1] if opener in READERS else f"{','.join(BATSIM)}\n"
    path = tmp_path / ("event_trace.tab" if opener == "fta" else "a")
    path.write_text(text + rest + text * 100)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), pytest.raises(GridSimError) as error:
        warnings.simplefilter("ignore", gs.TraceWarning)
        OPENERS[opener](path)
    assert streams and all(stream.closed for stream in streams)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "pipe", ".", "", "a\\u0000b"])
def test_paths_in_scenarios_create_no_files_and_expose_no_contents(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    workload = f'kind = "log"\npath = "{path}"'
    for text in (
        SCENARIO.replace(
            'kind = "equal"\nnodes = 2\nspeed = 1000.0',
            f'kind = "hosts"\nnodes = 2\nseed = 1\npath = "{path}"',
        ),
        SCENARIO.split("[workload]")[0] + f"[workload]\n{workload}\n",
    ):
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(GridSimError) as error:
            scenario = gs.Scenario.from_toml(tmp_path / "s.toml")
            scenario.workload.realize(scenario.platform)
        message = str(error.value)
        assert "daemon" not in message and len(message) < 300 and message.isprintable()
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "s.toml"])


def test_a_checkpoint_that_names_a_pipe_is_rejected(tmp_path: Path) -> None:
    """Files that a checkpoint names are read only if they are regular files."""
    log = tmp_path / "log.swf"
    log.write_text(JOB)
    scenario = gs.Scenario(gs.Platform.equal(nodes=2), gs.Workload.from_log(log))
    simulation = Simulation(scenario, make_scheduler("mincent"), Options())
    save(tmp_path / "run.checkpoint", simulation, simulation.checkpoint_header(600.0))
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(OSError, match="not a regular file"):
        gs.resume(tmp_path / "run.checkpoint")


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "..", "a\0b", "\x1b[31m", "a\nb", "C:\\x", ""])
def test_names_of_results_become_safe_names_of_files(name: str) -> None:
    """Results that are saved in a folder have such names."""
    file = file_name(name)
    assert os.path.basename(file) == file and file not in (".", "..") and file.isprintable()
    assert file.endswith(".npz")


# -- terminals ----------------------------------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x9b31m\u202e\ud800"


def test_quoted_texts_in_errors_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "a.avt"
    path.write_text("h\x1b[31m 1 0 10\nh\x1b[31m 1 0 10\n")
    with pytest.raises(TraceFormatError, match=r"^host h\\x1b\[31m"):
        read_avt(path)
    for error in (GridSimError(ESCAPE), ScenarioError(ESCAPE), gs.TraceWarning(ESCAPE)):
        assert str(error).isprintable() and "owned" in str(error)
    assert str(GridSimError("a\nb\tc")) == "a b c"


def test_output_of_commands_is_printable(file: Path, tmp_path: Path, run: Any, result: gs.Result) -> None:
    """Escape sequences come from the name of a scheduler, the header of a log, and the name of a file."""

    def edit_json(document: Any) -> None:
        document["scheduler"]["name"] = ESCAPE[:-1] + "\n1 2 3"

    change_archive(file, edit_json=edit_json)
    path = str(tmp_path / "a.swf")
    for arguments in (
        ["export", str(file), "--format", "swf", "--out", path],
        ["validate", str(file), "--json"],
    ):
        assert all(line.isprintable() for line in run(arguments).splitlines())
    assert len(read_swf(path)) == len(result.tables["schedule"])
    log = tmp_path / "b.swf"
    log.write_text(f"; Computer: \x1b[31mred\x9b\n{JOB}")
    for arguments in (["trace", "info", str(log)], ["trace", "info", str(log), "--json"]):
        assert all(line.isprintable() for line in run(arguments).splitlines())
    named = tmp_path / "c\n\x1bd.swf"
    named.write_text(JOB)
    assert all(line.startswith(str(tmp_path)) for line in run(["trace", "lint", str(named)]).splitlines())
    loaded = gs.Result.load(file)
    assert all(line.isprintable() for line in repr(gs.Table({"kind": [ESCAPE[:-1]]})).splitlines())
    assert loaded.scheduler["name"].startswith("\x1b")  # the name in the result is unchanged


@pytest.fixture
def run() -> Callable[[list[str]], str]:
    from click.testing import CliRunner

    from gridsim.cli.main import cli

    def invoke(arguments: list[str]) -> str:
        answer = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert answer.exit_code in (0, 1), answer.output
        return str(answer.output)

    return invoke


def test_the_memory_of_the_machine_is_known() -> None:
    assert 1 << 20 < memory_of.memory() <= sys.maxsize


def test_the_memory_limit_is_that_of_the_control_group(tmp_path: Path) -> None:
    """The limit is the smallest of the group and its ancestors, of version 1 or 2."""
    answers, top = tmp_path / "cgroup", tmp_path / "fs"
    (top / "job/step").mkdir(parents=True)
    (top / "memory/batch").mkdir(parents=True)
    answers.write_text("0::/job/step\n")
    assert memory_of.cgroup_limit(answers, top) == sys.maxsize
    (top / "job/step/memory.max").write_text("max\n")
    assert memory_of.cgroup_limit(answers, top) == sys.maxsize
    (top / "job/memory.max").write_text("3000000\n")
    assert memory_of.cgroup_limit(answers, top) == 3_000_000
    (top / "memory.max").write_text("2000000\n")
    assert memory_of.cgroup_limit(answers, top) == 2_000_000
    (tmp_path / "memory.max").write_text("1\n")  # this folder is outside of all groups
    assert memory_of.cgroup_limit(answers, top) == 2_000_000
    answers.write_text("7:blkio:/\n4:cpu,memory:/elsewhere/x\n0::/\n")
    assert memory_of.cgroup_limit(answers, top) == 2_000_000
    (top / "memory/memory.limit_in_bytes").write_text("1500000\n")
    assert memory_of.cgroup_limit(answers, top) == 1_500_000
    assert memory_of.cgroup_limit(tmp_path / "none", top) == sys.maxsize


def test_the_usable_memory_is_limited_by_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_of, "cgroup_limit", lambda: 1 << 20)
    assert memory_of.memory() == 1 << 20


def test_a_long_error_is_cut_between_words() -> None:
    words = str(GridSimError("word " * MAX_MESSAGE_LENGTH)).split()
    assert set(words) == {"word", "..."} and words.count("...") == 1
