"""Traces for Perfetto are valid and have the numbers of the result."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli

Event = dict[str, Any]

GRID = gs.Scenario(
    gs.Platform.desktop_grid(nodes=120, seed=1),
    gs.Workload.bags(5, interarrival=6.0, tasks_per_node=2.0, task_size=[4000.0, 9000.0], seed=2),
    seed=3,
)
SMALL = gs.Scenario(
    gs.Platform.desktop_grid(nodes=9, seed=1),
    gs.Workload.bags(4, interarrival=5.0, tasks_per_node=3.0, task_size=[4000.0, 9000.0], seed=2),
    seed=3,
    faults=gs.Faults.of([2, 5, 7, 8], [6.0, 9.0, 4.0, 0.0], [6.0, 15.0, np.inf, 3.0]),
)
RIGID = gs.Scenario(gs.Platform.equal(30), gs.Workload.jobs(20, utilization=0.8, max_nodes=9, seed=2), seed=3)
RUNS: dict[str, tuple[gs.Scenario, gs.Scheduler, Any]] = {
    "messages": (GRID, gs.FairTree(), ("schedule", "messages")),
    "without messages": (GRID, gs.FairTree(), True),
    "nobody sends": (GRID, gs.MinCent(), "all"),
    "failures": (SMALL, gs.FairTree(samples=(4, 3, 2)), ("schedule", "messages")),
    "rigid": (RIGID, gs.DgsAsap(), "all"),
    "instances": (SMALL, gs.WqrFt(), True),
    "walks": (GRID, gs.Rjss(), "all"),
    "a server": (SMALL, gs.Lwl(), ("schedule", "messages")),
}


@pytest.fixture(scope="module", params=RUNS)
def result(request: pytest.FixtureRequest) -> gs.Result:
    scenario, scheduler, record = RUNS[request.param]
    return gs.simulate(scenario, scheduler, record=record)


def exported_trace(result: gs.Result, path: Path, **options: Any) -> list[Event]:
    count = gs.to_perfetto(result, path, **options)
    text = path.read_bytes()
    if path.suffix == ".gz":
        text = gzip.decompress(text)
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    events: list[Event] = content["traceEvents"]
    assert len(events) == count
    assert content["otherData"]["digest"] == result.digest
    for event in events:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = round(event[key] * 1000)  # ns
    return events


def tracks(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    """Return the slices of each thread, in order; they must not overlap."""
    actual: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            actual[event["pid"], event["tid"]].append(event)
    for slices in actual.values():
        slices.sort(key=lambda event: event["ts"])
        for one, other in zip(slices, slices[1:], strict=False):
            assert one["dur"] > 0 and one["ts"] + one["dur"] <= other["ts"]
    return actual


def open_slice(slices: list[Event], ts: int) -> Event:
    """Return the slice that is open at `ts`."""
    index = int(np.searchsorted([event["ts"] for event in slices], ts, side="right")) - 1
    assert index >= 0 and ts < slices[index]["ts"] + slices[index]["dur"]
    return slices[index]


def machine(event: Event) -> int:
    return (event["tid"] - 1_000_000) // 2


def test_a_trace_is_valid_and_has_the_numbers_of_the_result(result: gs.Result, tmp_path: Path) -> None:
    events = exported_trace(result, tmp_path / "a.json")
    threads = tracks(events)
    named = {(item["pid"], item["tid"]) for item in events if item.get("name") == "thread_name"}
    assert set(threads) <= named and not {tid for _, tid in named} & {pid for pid, _ in named}
    # a flow begins and ends once, in a slice of its thread that precedes it in the file
    places = {id(event): k for k, event in enumerate(events)}
    ends: dict[Any, dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            ends[event["cat"], event["name"], event["id"]][event["ph"]] = event
            within = open_slice(threads[event["pid"], event["tid"]], event["ts"])
            assert within["ts"] == event["ts"] and places[id(within)] < places[id(event)]
    assert all(set(pair) == {"s", "f"} and pair["s"]["ts"] <= pair["f"]["ts"] for pair in ends.values())
    if "message_log" in result.tables and len(log := result.tables["message_log"]):
        assert len(ends) == result.messages["delivered"].sum()
        _, pair = next(iter(ends.items()))
        first = int(np.flatnonzero(~np.isnan(log["delivered"]))[0])
        assert (machine(pair["s"]), machine(pair["f"])) == (log["sender"][first], log["receiver"][first])
        assert (
            pair["s"]["ts"] / 1e9 == log["sent"][first] and pair["f"]["ts"] / 1e9 == log["delivered"][first]
        )
        thin = [event for event in events if event["ph"] == "X" and event["cat"] == "message"]
        assert sum(item["args"]["sent"] for item in thin) == len(log)
        assert sum(item["args"]["received"] for item in thin) == len(ends)
    else:
        assert len(ends) == len(result.tables["schedule"])
        for pair in ends.values():
            piece = open_slice(threads[pair["f"]["pid"], pair["f"]["tid"]], pair["f"]["ts"])
            i = piece["args"]["application"]
            assert machine(pair["s"]) == result.applications["submitter"][i]
            assert pair["s"]["ts"] / 1e9 == result.applications["release"][i]
    # the schedule
    pieces = [event for event in events if event.get("cat") == "tasks"]
    busy = np.zeros(len(result.machines))
    for piece in pieces:
        busy[machine(piece)] += piece["dur"] / 1e9
        i = piece["args"]["application"]
        assert piece["name"].startswith(f"application {i} ")
        assert piece["args"]["stretch"] == result.applications["stretch"][i]
        assert (
            (piece["cname"] == "terrible")
            == ("cut off" in piece["args"])
            == (piece["args"]["completed"] == 0)
        )
    np.testing.assert_allclose(busy, result.machines["busy"], rtol=1e-9)
    # applications
    for kind, column in (("b", "release"), ("e", "finish")):
        actual = {event["id2"]["local"]: event["ts"] / 1e9 for event in events if event["ph"] == kind}
        assert [actual[i] for i in range(len(result.applications))] == result.applications[column].tolist()
    counts = [event for event in events if event["ph"] == "C"]
    for unit, maximum in (("applications", len(result.applications)), ("machines", len(result.machines))):
        values = [event["args"][unit] for event in counts if unit in event["args"]]
        assert values[-1] == 0 and 0 < max(values) <= maximum and min(values) == 0
    area = np.diff([event["ts"] for event in counts if "machines" in event["args"]])
    levels = [event["args"]["machines"] for event in counts if "machines" in event["args"]]
    assert (area * levels[:-1]).sum() / 1e9 == pytest.approx(busy.sum())


def test_failures_are_slices_of_their_machines(tmp_path: Path) -> None:
    result = gs.simulate(SMALL, gs.FairTree(samples=(4, 3, 2)), record=True)
    events = exported_trace(result, tmp_path / "a.json")
    down = {
        machine(item): (item["ts"], item["ts"] + item["dur"]) for item in events if item.get("name") == "down"
    }
    last = round(float(result.applications["finish"].max()) * 1e9)
    assert down == {5: (9 * 10**9, 15 * 10**9), 7: (4 * 10**9, last), 8: (0, 3 * 10**9)}
    assert [(machine(item), item["ts"]) for item in events if item["ph"] == "i"] == [(2, 6 * 10**9)]
    cut = {(machine(item), item["ts"] + item["dur"]) for item in events if "cut off" in item.get("args", {})}
    assert cut and cut <= {(2, 6 * 10**9), (5, 9 * 10**9), (7, 4 * 10**9)}
    assert {item["args"]["cut off"] for item in events if "cut off" in item.get("args", {})} == {
        "the machine failed"
    }


def test_a_rejected_job_is_not_counted(tmp_path: Path) -> None:
    """A job that requires all three machines never runs, since one is down for good."""
    scenario = gs.Scenario(
        gs.Platform.equal(3),
        gs.Workload.jobs_of(release=[0.0, 1.0], nodes=[1, 3], run_time=[10.0, 10.0]),
        faults=gs.Faults.of([2], [0.0], [np.inf]),
    )
    events = exported_trace(gs.simulate(scenario, gs.BatchQueue(), record=True), tmp_path / "a.json")
    counts = [(item["ts"], item["args"]) for item in events if item["ph"] == "C"]
    assert [count for count in counts if "applications" in count[1]] == [
        (0, {"applications": 1}), (10 * 10**9, {"applications": 0}),
    ]  # fmt: skip
    assert min(item.get("ts", 0) for item in events) == 0


@pytest.mark.parametrize("up", [100.0, 10.000_000_001])
def test_a_machine_that_recovers_after_the_run_is_down_until_the_end(up: float, tmp_path: Path) -> None:
    scenario = gs.Scenario(
        gs.Platform.equal(2, 1000.0),
        gs.Workload.of([0.0], 1, 10_000.0),
        faults=gs.Faults.of([1], [5.0], [up]),
    )
    events = exported_trace(gs.simulate(scenario, gs.MinCent(), record=True), tmp_path / "a.json")
    down = [(machine(item), item["ts"], item["dur"]) for item in events if item.get("name") == "down"]
    assert down == [(1, 5 * 10**9, 5 * 10**9)]


def test_slices_of_messages_are_thin(tmp_path: Path) -> None:
    """Such a slice lasts 1 ms, or until the next one."""
    workload = gs.Workload.of([0.0, 1.0, 1.0004], 1, 100.0, [0, 0, 0])
    result = gs.simulate(gs.Scenario(gs.Platform.equal(1), workload), gs.MinCent(), record=True)
    events = exported_trace(result, tmp_path / "a.json")
    thin = [(item["ts"], item["dur"]) for item in events if item["ph"] == "X" and item["cat"] == "message"]
    assert thin == [(0, 10**6), (10**9, 400_000), (10**9 + 400_000, 10**6)]


def test_slower_replicas_are_cut_off(tmp_path: Path) -> None:
    result = gs.simulate(gs.Scenario(SMALL.platform, SMALL.workload), gs.WqrFt(), record=True)
    cut = [
        item["args"]
        for item in exported_trace(result, tmp_path / "a.json")
        if "cut off" in item.get("args", {})
    ]
    assert {args["cut off"] for args in cut} == {"another copy was faster"}
    assert len(cut) == result.machines["ended"].sum() > 0 and all("task" in args for args in cut)


@pytest.mark.parametrize("machines", [slice(90, 110), range(90, 110), np.arange(90, 110)])
def test_a_trace_can_be_limited_to_some_machines(machines: Any, tmp_path: Path) -> None:
    result = gs.simulate(GRID, gs.FairTree(), record=("schedule", "messages"))
    events = exported_trace(result, tmp_path / "a.json.gz", machines=machines)
    assert {machine(item) for item in events if item.get("tid", 0) >= 1_000_000} == set(range(90, 110))
    assert {item["args"]["name"] for item in events if item.get("name") == "process_name"} == {
        "applications",
        "machines 0-99",
        "machines 100-119",
    }
    log, part = result.tables["message_log"], range(90, 110)
    inside = np.isin(log["sender"], part) & np.isin(log["receiver"], part) & ~np.isnan(log["delivered"])
    assert sum(item["ph"] == "s" for item in events) == inside.sum() > 0
    tracks(events)
    second = tmp_path / "again.json.gz"
    gs.to_perfetto(result, second, machines=machines)
    assert second.read_bytes() == (tmp_path / "a.json.gz").read_bytes()


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(gs.ScenarioError, match="to_perfetto requires a recorded schedule.*--record"):
        gs.to_perfetto(gs.simulate(SMALL, gs.WqrFt()), file)
    result = gs.simulate(SMALL, gs.WqrFt(), record=True)
    for machines in ([0, 9], [-1], [0.5], [[1]], "0", range(10**15)):
        with pytest.raises(gs.ScenarioError, match="^machines"):
            gs.to_perfetto(result, file, machines=machines)  # type: ignore[arg-type]
    for none in ([], slice(9, None)):
        with pytest.raises(gs.ScenarioError, match="^machines"):
            gs.to_perfetto(result, file, machines=none)
    assert not file.exists()


def test_the_command_exports_a_trace(tmp_path: Path) -> None:
    result, out = tmp_path / "a.gridsim", tmp_path / "a.json"
    gs.simulate(SMALL, gs.WqrFt(), record=True).save(result)

    def export(*flags: str) -> Any:
        return CliRunner().invoke(cli, ["export", str(result), "--out", str(out), *flags])

    answer = export("--format", "perfetto", "--machines", "2:5")
    assert answer.exit_code == 0 and answer.output.strip().endswith("events")
    events = json.loads(out.read_text())["traceEvents"]
    assert {machine(item) for item in events if item.get("tid", 0) >= 1_000_000} == {2, 3, 4}
    for flags, message in (
        (("--format", "perfetto", "--machines", "2-4"), "--machines must be FIRST:END or numbers"),
        (("--format", "perfetto", "--machines", "3,99"), "distinct numbers in 0..8, got [3, 99]"),
        (("--format", "swf", "--machines", "2:4"), "--machines requires --format perfetto"),
    ):
        refused = export(*flags)
        assert refused.exit_code == 2 and message in refused.output


@pytest.mark.parametrize("scheduler", [gs.FairTree(), gs.BatchQueue()])
def test_each_core_has_a_track(scheduler: gs.Scheduler, tmp_path: Path) -> None:
    """Slices of a machine with several cores would overlap in one track."""
    workload = gs.Workload.bags(3, interarrival=5.0, tasks_per_node=9.0, task_size=4000.0, seed=2)
    if isinstance(scheduler, gs.BatchQueue):
        workload = gs.Workload.jobs(20, utilization=0.8, max_nodes=9, seed=2)
    scenario = gs.Scenario(gs.Platform.equal(6, cores=4), workload, seed=3)
    result = gs.simulate(scenario, scheduler, record=True)
    events = exported_trace(result, tmp_path / "a.json")
    names = {item["tid"]: item["args"]["name"] for item in events if item.get("name") == "thread_name"}
    busy: dict[str, float] = defaultdict(float)
    for (_, tid), slices in tracks(events).items():
        for item in slices:
            if item["cat"] == "tasks":
                machine_name, core = names[tid].split(", core ")
                assert int(core) < 4
                busy[machine_name] += item["dur"] / 1e9
    assert [busy[f"machine {u}"] for u in range(6)] == pytest.approx(result.machines["busy"].tolist())
