"""Animations: drawn states are compared with the tables of results, event by event."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim import plots
from gridsim.errors import ScenarioError
from gridsim.plots.animation import scenes
from gridsim.results.metrics.series import down_times
from gridsim.scheduling.overlays import tree_machines


def scenario(nodes: int = 8, faults: Any = None, **platform: Any) -> gs.Scenario:
    return gs.Scenario(
        gs.Platform.desktop_grid(nodes, seed=1, **platform),
        gs.Workload.bags(4, tasks_per_node=3.0, seed=2),
        gs.Network(latency=0.05),
        seed=3,
        faults=faults,
    )


def jobs(**options: Any) -> gs.Scenario:
    workload = gs.Workload.jobs(jobs=12, utilization=0.9, max_nodes=5, seed=4)
    return gs.Scenario(gs.Platform.equal(nodes=10, **options), workload, seed=3)


OUTAGES = {"up": 400.0, "down": 60.0, "seed": 4}
RUNS: dict[str, Any] = {
    "tree": lambda: gs.simulate(scenario(), gs.FairTree(), record="all"),
    "failing tree": lambda: gs.simulate(
        scenario(faults=gs.Faults.exponential(**OUTAGES)), gs.FairTree(), record="all"
    ),
    "transient failures": lambda: gs.simulate(
        scenario(faults=gs.Faults.poisson(mean=300.0, seed=3)), gs.Fcfs(), record="all"
    ),
    "cores": lambda: gs.simulate(scenario(4, cores=3), gs.FairTree(), record="all"),
    "no queues": lambda: gs.simulate(scenario(), gs.MinCent(), record="all"),
    "replicas": lambda: gs.simulate(
        scenario(faults=gs.Faults.exponential(**OUTAGES)), gs.WqrFt(), record="all"
    ),
    "probes": lambda: gs.simulate(scenario(), gs.Sparrow(), record="all"),
    "rigid jobs": lambda: gs.simulate(jobs(cores=4), gs.BatchQueue(), record=True),
}


@pytest.fixture(scope="module", params=RUNS)
def result(request: pytest.FixtureRequest) -> gs.Result:
    return RUNS[request.param]()


@pytest.fixture(scope="module")
def tree() -> gs.Result:
    return RUNS["tree"]()


def tasks_of(result: gs.Result) -> list[tuple[float, float, int, int, bool, int]]:
    """Return start, end, machine, application, completion and row of each execution of a task."""
    table, tasks = result.tables["schedule"], []
    for k, row in enumerate(table.rows()):
        for number in range(row["tasks"]):
            step = 0.0 if result.rigid else (row["end"] - row["start"]) / row["tasks"]
            start = row["start"] + number * step
            end = start + step if step else row["end"]
            tasks.append((start, end, row["machine"], row["application"], row["completed"] > 0, k))
    return tasks


def instants(result: gs.Result) -> list[float]:
    """Return instants between any two events, so that rounding does not matter."""
    schedule = result.tables["schedule"]
    times = [schedule["start"], schedule["end"], result.applications["release"]]
    if "arrivals" in result.tables:
        times.append(result.tables["arrivals"]["time"])
    machine, begin, end = down_times(result, float(schedule["end"].max()))
    events = np.unique(np.concatenate((*times, begin, end[np.isfinite(end)])))
    events = events[np.append(True, np.diff(events) > 1e-6)]
    between = events[:-1] + 0.382 * np.diff(events)  # not in the middle, where a task of two may end
    return between[:: max(1, len(between) // 60)].tolist()


def test_states_are_those_of_the_schedule(result: gs.Result) -> None:
    animation, tasks = plots.animate(result), tasks_of(result)
    machines, applications = len(result.machines), len(result.applications)
    machine, begin, end = down_times(result, animation.scene.end)
    arrivals = result.tables["arrivals"]
    for time in instants(result):
        state = animation.state(time)
        pieces = animation.scene.pieces
        assert pieces is not None
        # what runs
        running = [task for task in tasks if task[0] <= time < task[1]]
        drawn = {(int(pieces.machine[k]), int(pieces.application[k])) for k in state.running}
        assert drawn == {(task[2], task[3]) for task in running}
        used = np.bincount(pieces.machine[state.running], pieces.cores[state.running], machines)
        assert (used <= animation.scene.cores).all()
        # what is done
        done = np.zeros(applications, np.int64)
        for task in tasks:
            done[task[3]] += task[4] and task[1] <= time
        assert state.done.tolist() == done.tolist()
        # each released task is in one place
        released = np.where(result.applications["release"] <= time, result.applications["tasks"], 0)
        places = state.done + state.running_tasks + state.queued + state.pending
        assert places.tolist() == released.tolist()
        # failures
        is_down = {int(u) for u, a, b in zip(machine, begin, end, strict=True) if a <= time < b}
        assert set(np.flatnonzero(~state.is_up).tolist()) == is_down
        # queues: what has arrived since the last failure and was not started
        if not len(arrivals):
            assert not state.queued.any()
            continue
        since = np.full(machines, -np.inf)
        np.maximum.at(since, machine[begin <= time], begin[begin <= time])
        queued = np.zeros((machines, applications), np.int64)
        for row in arrivals.rows():
            if since[row["machine"]] <= row["time"] <= time:
                queued[row["machine"], row["application"]] += row["tasks"]
        for start, _, u, i, _, _ in tasks:
            if since[u] <= start <= time:
                queued[u, i] -= 1
        drawn_queues = np.zeros_like(queued)
        np.add.at(drawn_queues, state.queues[:2], state.queues[2])
        assert drawn_queues.tolist() == queued.tolist()


@pytest.mark.parametrize("name", ["tree", "cores"])
def test_queues_are_drawn_in_the_order_of_execution(name: str) -> None:
    result = RUNS[name]()
    animation, tasks = plots.animate(result), sorted((task[0], task[3], task[2]) for task in tasks_of(result))
    mixed = 0
    for time in instants(result):
        machines, applications, counts = animation.state(time).queues
        waiting = [row for row in zip(machines.tolist(), applications.tolist(), counts.tolist(), strict=True)]
        drawn = [(u, i) for u, i, count in waiting for _ in range(count)]
        for machine in range(len(result.machines)):
            order = [i for u, i in drawn if u == machine]
            left, starts = Counter(order), []
            for start, i, u in tasks:
                if u == machine and start > time and left[i]:
                    left[i] -= 1
                    starts.append(i)
            assert order == starts
            mixed += order != sorted(order)
    assert mixed  # the order is not that of the numbers of bags


def test_a_tree_shows_requests_between_neighbours(tree: gs.Result) -> None:
    """A request climbs from the router of its submitter to the one that accepts it, then goes down."""
    scene = plots.animate(tree).scene
    messages, machine_of = scene.messages, tree_machines(8)
    assert messages is not None
    log = tree.tables["message_log"]
    log_rows = log["sent"] >= scene.begin
    assert machine_of[messages.sender].tolist() == log["sender"][log_rows].tolist()
    assert machine_of[messages.receiver].tolist() == log["receiver"][log_rows].tolist()
    requests = np.array(messages.kinds)[messages.kind] == "request"
    for i in range(4):
        rows = np.flatnonzero(requests & (messages.application == i))
        place, has_turned = int(tree.applications["submitter"][i]), False
        place = place if place < 7 else place + 7
        reached: dict[int, float] = {place: tree.applications["release"][i]}
        for k in rows.tolist():
            sender, receiver = int(messages.sender[k]), int(messages.receiver[k])
            goes_up = (sender - 1) // 2 == receiver
            assert goes_up or (receiver - 1) // 2 == sender
            assert not (goes_up and has_turned)
            has_turned |= not goes_up
            assert reached[sender] <= messages.sent[k] + 1e-9
            reached[receiver] = messages.delivered[k]
        tops = {node for node in reached if np.log2(node + 1) // 1 == tree.applications["level"][i]}
        assert tops and min(reached) in tops
    assert messages.tasks[requests].min() > 0 and not messages.tasks[~requests].any()


def test_time_passes_slowly_while_messages_travel(tree: gs.Result) -> None:
    animation = plots.animate(tree)
    pace, messages = animation.pace, animation.scene.messages
    assert messages is not None and (np.diff(pace.time) > 0).all() and (np.diff(pace.play) > 0).all()
    assert pace.times([0.0, pace.seconds]).tolist() == [animation.scene.begin, animation.scene.end]
    rows = np.flatnonzero(messages.is_main)
    shown = pace.plays(messages.until[rows]) - pace.plays(messages.sent[rows])
    assert shown.min() > 0.3
    assert len(plots.animate(tree, messages=False).pace.play) == 2
    assert plots.animate(tree, seconds=5.0).pace.seconds == pytest.approx(5.0)


def test_pages_have_the_data_and_load_nothing(tree: gs.Result, tmp_path: Path) -> None:
    animation = plots.animate(tree)
    animation.save(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http-equiv", "") and len(page) < 60_000
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    start = np.cumsum(data["pieces"]["start"]) * data["unit"] + data["begin"]
    assert start == pytest.approx(np.sort(tree.tables["schedule"]["start"]), abs=1e-6)
    assert 'srcdoc="&lt;!DOCTYPE' in animation._repr_html_()
    animation.save(tmp_path / "b.html")
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()


@pytest.mark.parametrize("dark", [False, True])
def test_gifs_repeat_and_last_as_long_as_stated(tree: gs.Result, tmp_path: Path, dark: bool) -> None:
    image = pytest.importorskip("PIL.Image")
    plots.animate(tree, seconds=0.5).save(tmp_path / "a.gif", width=400, dark=dark)
    with image.open(io.BytesIO((tmp_path / "a.gif").read_bytes())) as gif:
        assert gif.n_frames == 6 and gif.width == 400 and gif.info["loop"] == 0
        corner = gif.convert("RGB").getpixel((1, 60))
        assert (sum(corner) < 200) == dark


def test_large_runs_show_the_utilization_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "MACHINES", 10)
    monkeypatch.setattr(scenes, "GROUPS", 5)
    result = gs.simulate(scenario(12), gs.Fcfs(), record=True)
    animation = plots.animate(result)
    raster = animation.scene.raster
    assert raster is not None and raster.machines.sum() == 12 and len(raster.share) == 5
    busy = (raster.share.mean(axis=1) * raster.machines).sum() * (raster.edges[-1] - raster.edges[0])
    assert busy == pytest.approx(result.machines["busy"].sum(), rel=1e-6)
    assert "up to 3 adjacent machines" in animation.notes[0]
    assert '"raster":{' in animation.to_html()
    with pytest.raises(ScenarioError, match="^state requires an animation of single machines"):
        animation.state(100.0)


def test_routers_are_not_taken_for_machines(tree: gs.Result) -> None:
    animation = plots.animate(tree)
    assert any("routers: r0, r1" in note for note in animation.notes)
    assert "text(`r${node}`" in animation.to_html()


def test_notes_count_messages_like_the_table(tree: gs.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree.tables["message_log"]["sent"].min() < tree.applications["release"].min()
    monkeypatch.setattr(scenes, "MESSAGES", 10)
    count = tree.messages["sent"].sum()
    assert plots.animate(tree).notes[-1] == f"messages are not drawn: they are {count}, more than 10"


@pytest.mark.parametrize(
    ("name", "traffic"), [("tree", "requests"), ("probes", "messages about bags"), ("no queues", "messages")]
)
def test_pages_say_what_slows_them_down(name: str, traffic: str) -> None:
    assert f"Slow while {traffic} travel" in plots.animate(RUNS[name]()).to_html()


def test_missing_recordings_name_their_option(tree: gs.Result) -> None:
    bare = gs.simulate(scenario(), gs.FairTree())
    with pytest.raises(ScenarioError, match=r"requires a recorded run: use simulate\(..., record=True\)"):
        plots.animate(bare)
    unlogged = gs.simulate(scenario(), gs.FairTree(), record=True)
    with pytest.raises(ScenarioError, match=r"^messages requires a run with record="):
        plots.animate(unlogged, messages=True)
    assert any('record="messages"' in note for note in plots.animate(unlogged).notes)
    with pytest.raises(ScenarioError, match=r"^path must end in .html or .gif, got 'x.mp4'"):
        plots.animate(tree).save("x.mp4")
    with pytest.raises(ScenarioError, match="^seconds must be"):
        plots.animate(tree, seconds=0.0)
