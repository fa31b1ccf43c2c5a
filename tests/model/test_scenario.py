from __future__ import annotations

import math
import os
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridsim as gs
from gridsim.errors import ScenarioError
from gridsim.model.bag_workloads import Exponential, LogNormal, LogUniform, Normal
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.scheduling.registry import registered

SEEDS = st.integers(0, 2**63 - 1)
POSITIVE = st.floats(1e-300, 1e300)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)

PLATFORMS = st.one_of(
    st.builds(Platform.desktop_grid, st.integers(1, 20), SEEDS),
    st.builds(Platform.pareto, st.integers(1, 20), SEEDS),
    st.builds(Platform.of, st.lists(st.floats(1e-6, 1e300), min_size=1, max_size=5)),
)
SIZES = st.one_of(
    POSITIVE, st.tuples(st.floats(1, 10), st.floats(10, 1e30)), st.lists(POSITIVE, min_size=1, max_size=4)
)


@st.composite
def listed_workloads(draw):
    count = draw(st.integers(1, 5))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    submitter = column(st.integers(0, 2**63 - 1)) if draw(st.booleans()) else None
    return Workload.of(
        column(st.floats(0, 1e300)), column(st.integers(1, 2**53)), column(POSITIVE), submitter
    )


@st.composite
def task_lists(draw):
    count = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.lists(POSITIVE, min_size=1, max_size=4), min_size=count, max_size=count))
    release = draw(st.lists(st.floats(0, 1e300), min_size=count, max_size=count))
    submitter = draw(st.none() | st.lists(st.integers(0, 2**63 - 1), min_size=count, max_size=count))
    return Workload.of_tasks(release, sizes, submitter)


WORKLOADS = st.one_of(
    listed_workloads(),
    task_lists(),
    st.builds(
        Workload.bags,
        st.integers(1, 1000),
        st.floats(0, 1e300),
        POSITIVE,
        st.floats(0, 1),
        SIZES,
        seed=SEEDS,
        tasks=st.none() | st.floats(1, 1e300),
        spread=st.none()
        | st.builds(Normal, st.floats(0, 1e300))
        | st.builds(LogUniform, st.floats(1, 1e300))
        | st.builds(Exponential)
        | st.builds(LogNormal, st.floats(0, 10)),
    ),
    st.builds(
        Workload.from_log,
        ANY_TEXT.filter(lambda text: text and "\0" not in text),
        gap=st.floats(0),
        span=st.floats(0),
        reference_speed=st.none() | POSITIVE,
        seed=SEEDS,
        max_applications=st.none() | st.integers(1, 2**63 - 1),
        own_sizes=st.booleans(),
        tasks_per_node=st.none() | POSITIVE,
        min_tasks=st.integers(1, 2**63 - 1),
        skip=st.integers(0, 2**63 - 1),
    ),
)
NETWORKS = st.builds(
    Network,
    latency=st.floats(0, 1e300),
    bandwidth=st.floats(1e-6),
    interfaces=st.sampled_from(["fifo", "equal"]),
)
NO_CODE = ANY_TEXT.filter(lambda text: ":" not in text)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | NO_CODE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NO_CODE, inner, max_size=3),
    max_leaves=5,
)
SCHEDULERS = st.dictionaries(NO_CODE, st.dictionaries(ANY_TEXT, VALUES, max_size=3), max_size=3)


@settings(deadline=None, max_examples=30)
@given(st.builds(Scenario, PLATFORMS, WORKLOADS, NETWORKS, SEEDS, SCHEDULERS))
def test_toml_round_trip_is_exact(scenario):
    copy = Scenario.from_toml(scenario.to_toml())
    assert copy == scenario
    assert copy.to_toml() == scenario.to_toml()
    assert copy.platform.speeds.tobytes() == scenario.platform.speeds.tobytes()


def scenario_text(
    platform='kind = "uniform"\nnodes = 5\nseed = 1', workload='kind = "bags"\nseed = 2', rest=""
):
    return f"{rest}\n[platform]\n{platform}\n[workload]\n{workload}\n"


def test_defaults_of_a_file_are_those_of_the_constructors():
    assert Scenario.from_toml(scenario_text()) == Scenario(Platform.desktop_grid(5, 1), Workload.bags(seed=2))
    text = scenario_text(workload='kind = "bags"\nseed = 1\ntask_size = {low = 1, high = 2}')
    assert Scenario.from_toml(text).workload == Workload.bags(seed=1, task_size=(1.0, 2.0))
    text = scenario_text(workload='kind = "bags"\nseed = 1\ntask_size = [1, 2, 3]')
    assert Scenario.from_toml(text).workload == Workload.bags(seed=1, task_size=[1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            scenario_text(rest="sede = 1"),
            "sede is not a known key of a scenario; did you mean seed? known: seed, platform,",
        ),
        (scenario_text(rest="seed = 1.5"), "seed must be a whole number >= 0, got 1.5"),
        (
            scenario_text(rest='[network]\nlatency = "5km"'),
            "network.latency must be a finite number >= 0 s, got '5km' (a string requires a unit: ns",
        ),
        (scenario_text(rest="network = 5"), "network must be a table, got 5"),
        ("seed = 1\n", "platform is missing: <scenario> has no table [platform]"),
        (
            scenario_text("nodes = 5"),
            "platform.kind must be one of uniform, pareto, normal, hosts, list, equal, sites, got nothing",
        ),
        (
            scenario_text('kind = "grid"'),
            "platform.kind must be one of uniform, pareto, normal, hosts, list, equal, sites, got 'grid'",
        ),
        (
            scenario_text('kind = "pareto"\nnodse = 5\nseed = 1'),
            "platform.nodse is not a known key; did you mean nodes? known: bandwidth, cores",
        ),
        (scenario_text('kind = "pareto"\nseed = 1'), "platform.nodes is missing"),
        (
            scenario_text('kind = "pareto"\nnodes = "5"\nseed = 1'),
            "platform.nodes must be a whole number, got a string",
        ),
        (
            scenario_text('kind = "list"\nspeeds = [1, -2]'),
            "platform.speeds[1] must be a finite number >= 1e-06 Mflop/s",
        ),
        (
            scenario_text(workload='kind = "list"\nrelease = [0]\ntasks = [0]\ntask_size = [1]'),
            "workload.tasks[0] must be a whole number in 1..9007199254740992, got 0",
        ),
        (
            scenario_text(workload='kind = "list"\nrelease = [0]\ntasks = [1]\ntask_size = [nan]'),
            "workload.task_size[0] must be a finite number > 0 Mflop, got nan",
        ),
        (
            scenario_text(workload='kind = "bags"\nseed = 1\ntask_size = {low = 1, hihg = 2}'),
            "workload.task_size.hihg is not a known key",
        ),
        (
            scenario_text(workload='kind = "tasks"\nrelease = [0]\nsizes = [[1, 0]]'),
            "workload.sizes[0][1] must be a finite number > 0 Mflop, got 0",
        ),
        (
            scenario_text(workload='kind = "tasks"\nrelease = [0]\nsizes = [1]'),
            "workload.sizes[0] must be a list of numbers, got 1",
        ),
        (
            scenario_text(workload='kind = "bags"\nseed = 1\nspread = {kind = "normal", deviation = -1}'),
            "workload.spread.deviation must be a finite number >= 0, got -1.0",
        ),
        (
            scenario_text(workload='kind = "bags"\nseed = 1\nspread = {kind = "gauss", deviation = 1}'),
            "workload.spread.kind must be one of normal, log-uniform, exponential, log-normal, got 'gauss'",
        ),
        (
            scenario_text() + "[network]\nlatency = -1\n",
            "network.latency must be a finite number >= 0 s, got -1.0",
        ),
        (scenario_text() + '[network]\ninterfaces = "x"\n', "network.interfaces must be one of"),
        (
            scenario_text() + '[schedulers."my.module:Class"]\nx = 1\n',
            "schedulers.'my.module:Class' must be the name of a registered scheduler",
        ),
        (
            scenario_text() + "[schedulers]\nfcfs = 3\n",
            "schedulers.fcfs must be a table of parameters, got 3",
        ),
        ("[platform]\nkind = \n", "<scenario>:2: column 8: Invalid value"),
        ("[platform]\nkind = [1,\n", "<scenario>:3: at the end of the file: "),
    ],
)
def test_invalid_scenarios_are_rejected(text, message):
    with pytest.raises(ScenarioError) as excinfo:
        Scenario.from_toml(text)
    assert str(excinfo.value).startswith(message)


def test_parts_of_the_wrong_type_are_rejected():
    with pytest.raises(ScenarioError, match="^platform"):
        Scenario(5, Workload.bags(seed=1))
    with pytest.raises(ScenarioError, match="^seed"):
        Scenario(Platform.of([1.0]), Workload.bags(seed=1), seed=-1)


def test_paths_are_relative_to_the_scenario_file(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "traces" / "hosts.csv").write_text("cpu_model,computers,gflops_core\nA,1,1.5\n")
    monkeypatch.chdir(tmp_path)
    platform = Platform.from_hosts(os.path.join("traces", "hosts.csv"), 3, seed=1)
    scenario = Scenario(platform, Workload.from_log("log.swf"))
    scenario.save("work/scenario.toml")
    assert 'path = "../traces/hosts.csv"' in (tmp_path / "work" / "scenario.toml").read_text()
    assert Scenario.from_toml("work/scenario.toml") == scenario
    assert scenario.files == (os.path.join("traces", "hosts.csv"), "log.swf")
    monkeypatch.chdir(tmp_path / "work")
    assert Scenario.from_toml(tmp_path / "work" / "scenario.toml").platform.speeds.tolist() == [1500.0] * 3
    absolute = Scenario(Platform.from_hosts(tmp_path / "traces" / "hosts.csv", 3, 1), Workload.bags(seed=1))
    absolute.save("s.toml")
    assert Scenario.from_toml("s.toml") == absolute


def test_unreadable_scenario_files_are_rejected(tmp_path):
    file = tmp_path / "s.toml"
    with pytest.raises(FileNotFoundError):
        Scenario.from_toml(file)
    file.write_bytes(b"seed = 1\nname = '\xff'\n")
    with pytest.raises(ScenarioError, match=r"s.toml:2: byte 0xff is not UTF-8 text"):
        Scenario.from_toml(file)
    file.write_text("seed = 1\nplatform = [\n")
    with pytest.raises(ScenarioError, match=r"s.toml:3: at the end of the file: Invalid value"):
        Scenario.from_toml(str(file))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    scenario = Scenario(Platform.of([1.0]), Workload.of([0.0], 1, 1.0), Network(bandwidth=math.inf))
    scenario.save(tmp_path / "s.toml")
    before = (tmp_path / "s.toml").read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        Scenario(scenario.platform, scenario.workload, seed=5).save(tmp_path / "s.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]
    assert (tmp_path / "s.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "cls", "parameters", "error", "expected"),
    [
        (3, gs.Fcfs, {}, ValueError, "name of a scheduler must be a non-empty string without a colon, got 3"),
        ("", gs.Fcfs, {}, ValueError, "a non-empty string without a colon, got ''"),
        ("a:b", gs.Fcfs, {}, ValueError, "a non-empty string without a colon, got 'a:b'"),
        ("fcfs", gs.Fcfs, {}, ValueError, "scheduler 'fcfs' is already registered"),
        ("new", int, {}, TypeError, "scheduler 'new' must be a subclass of Scheduler, got <class 'int'>"),
        ("new", gs.Fcfs(), {}, TypeError, "scheduler 'new' must be a subclass of Scheduler, got Fcfs"),
        (
            "new",
            gs.Fcfs,
            {"speed": 1},
            TypeError,
            "'speed' is not a parameter of Fcfs",
        ),
    ],
)
def test_invalid_schedulers_are_not_registered(
    name: Any, cls: Any, parameters: dict[str, Any], error: type[Exception], expected: str
) -> None:
    before = registered()
    with pytest.raises(error, match=re.escape(expected)):
        gs.register(name, cls, **parameters)
    assert registered() == before
