"""Plugins add schedulers, formats, metrics and kinds by entry points, without an import in user code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.model.kinds import all_kinds
from gridsim.results.formats.registry import export_formats
from gridsim.results.metrics.selection import plugin_metrics
from gridsim.scheduling.registry import registered
from gridsim.studies.execution import user_code
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.keys import Keys
from gridsim.support import imports as importing

MODULE = '''
import numpy as np

import gridsim as gs
from gridsim.model.background_load import FluctuationKind, LoadProfile
from gridsim.model.bag_workloads import BagsKind
from gridsim.model.fault_events import drawn_events
from gridsim.model.faults import FaultsKind
from gridsim.model.platform import PlatformKind
from gridsim.model.rigid_workloads import RigidJobsKind
from gridsim.results.formats.registry import ExportFormat
from gridsim.results.metrics.selection import CustomMetric
from gridsim.traces import JobLog, TraceFormat


class LastNode(gs.NodeProgram):
    def on_release(self, view, application, tasks):
        view.enqueue(application.number, tasks)


class Stay(gs.NodeScheduler, frozen=True, kw_only=True):
    """Stay: tasks run where they are submitted."""

    name = "stay"
    policy = LastNode
    pause: float = 0.0


def read(path):
    with open(path) as lines:
        rows = [line.split(",") for line in lines]
    submit, run_time, user = zip(*rows)
    return JobLog.of(path, submit=submit, run_time=run_time, user=user)


COMMAS = TraceFormat(kind="jobs", read=read, suffixes=(".jobs.csv",), about="jobs with commas")


def last_release(result):
    return float(result.applications["release"].max())


LAST_RELEASE = CustomMetric(last_release, unit="s", text="time of the last release")


def write_names(result, path):
    with open(path, "w") as stream:
        stream.writelines(f"{release:g}\\n" for release in result.applications["release"])
    return len(result.applications)


RELEASES = ExportFormat(write_names, text="a line for each application")


class Halves(PlatformKind, frozen=True, kw_only=True, tag="halves"):
    """Machines of which each second one is half as fast.

    Parameters
    ----------
    nodes
        Number of machines.
    """

    nodes: int

    def speeds(self):
        return np.where(np.arange(self.nodes) % 2, 500.0, 1000.0)


class Ticks(BagsKind, frozen=True, kw_only=True, tag="ticks"):
    """Single tasks at equal intervals.

    Parameters
    ----------
    interval
        Time between two tasks, s.
    """

    applications: int
    interval: float = 10.0
    seed: int = 0

    def columns(self, platform):
        count = self.applications
        draw = np.random.default_rng(self.seed)
        return {
            "release": self.interval * np.arange(count),
            "tasks": np.ones(count, np.int64),
            "task_size": np.full(count, 1000.0),
            "submitter": draw.integers(platform.nodes, size=count),
        }


class Rows(RigidJobsKind, frozen=True, kw_only=True, tag="rows"):
    """Rigid jobs that need all machines."""

    jobs: int

    def columns(self, platform):
        count = self.jobs
        run_time = np.full(count, 5.0)
        return {
            "release": np.arange(count, dtype=float),
            "tasks": np.full(count, platform.nodes),
            "task_size": run_time * platform.speeds.min(),
            "submitter": np.zeros(count, np.int64),
            "requested": run_time,
        }


class Rare(FaultsKind, frozen=True, kw_only=True, tag="rare"):
    """Transient failures after equal up times."""

    up: float
    seed: int = 0

    def course(self, nodes, count):
        equal = lambda rng, count: np.full(count, self.up)
        return drawn_events(self.seed, nodes, equal, lambda rng, count: np.zeros(count), self.up, count)


class Half(FluctuationKind, frozen=True, kw_only=True, tag="half"):
    def realize(self, nodes, origin):
        zeros = np.zeros(nodes, np.int64)
        return LoadProfile(10**9, np.full((1, 1), 0.5), zeros, zeros.copy())


class Nameless(PlatformKind, frozen=True, kw_only=True, tag="other"):
    nodes: int

    def speeds(self):
        return np.ones(self.nodes)


class Empty(BagsKind, frozen=True, kw_only=True, tag="empty"):
    pass
'''
ENTRIES = """
[gridsim.schedulers]
stay = others_of_gridsim:Stay
mincent = others_of_gridsim:Stay
broken = others_of_gridsim:Missing
odd = others_of_gridsim:read

[gridsim.traces]
commas = others_of_gridsim:COMMAS

[gridsim.metrics]
last_release = others_of_gridsim:LAST_RELEASE
makespan = others_of_gridsim:LAST_RELEASE
bare = others_of_gridsim:last_release

[gridsim.exporters]
releases = others_of_gridsim:RELEASES
swf = others_of_gridsim:RELEASES
bare = others_of_gridsim:write_names

[gridsim.platforms]
halves = others_of_gridsim:Halves
nameless = others_of_gridsim:Nameless

[gridsim.workloads]
ticks = others_of_gridsim:Ticks
rows = others_of_gridsim:Rows
empty = others_of_gridsim:Empty
rare = others_of_gridsim:Rare

[gridsim.faults]
rare = others_of_gridsim:Rare

[gridsim.fluctuations]
half = others_of_gridsim:Half
"""
SCENARIO = """
seed = 1
[platform]
kind = "equal"
nodes = 3
[workload]
kind = "log"
path = "small.jobs.csv"
seed = 1
[schedulers.stay]
pause = 1.0
"""


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package into a folder on the search path; return a scenario that uses it."""
    site = tmp_path / "site"
    package_info = site / "others_of_gridsim-1.0.dist-info"
    package_info.mkdir(parents=True)
    (site / "others_of_gridsim.py").write_text(MODULE)
    (package_info / "METADATA").write_text("Metadata-Version: 2.1\nName: others-of-gridsim\nVersion: 1.0\n")
    (package_info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "small.jobs.csv").write_text("0,100,1\n5,200,1\n700,50,2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    importing._load.cache_clear()  # the module is imported again by each test
    yield tmp_path
    sys.modules.pop("others_of_gridsim", None)


def test_a_package_adds_a_scheduler_and_a_format(installed_package: Path) -> None:
    with pytest.warns(gs.PluginWarning) as records:
        names = list(registered())
    message = [str(item.message) for item in records]
    whose = "of others-of-gridsim is ignored"
    for line, expected in zip(
        message,
        (
            f"gridsim.schedulers: broken = others_of_gridsim:Missing {whose}: AttributeError: module ",
            f"gridsim.schedulers: mincent = others_of_gridsim:Stay {whose}: the name is taken",
            f"gridsim.schedulers: odd = others_of_gridsim:read {whose}: it must be a subclass of gridsim.Sch",
        ),
        strict=True,
    ):
        assert line.startswith(expected), line
    assert names[-1] == "stay" and registered()["mincent"][0] is gs.MinCent

    def answer(*words: str) -> str:
        cli_result = CliRunner().invoke(cli, list(words))
        assert cli_result.exit_code == 0, cli_result.output
        return cli_result.stdout

    listed = {row["name"]: row for row in json.loads(answer("list", "schedulers", "--json"))}
    assert listed["stay"]["what"] == "Stay: tasks run where they are submitted."
    assert "commas jobs with commas" in " ".join(answer("list", "traces").split())
    assert "pause" in answer("list", "parameters", "stay")
    assert json.loads(answer("trace", "info", "small.jobs.csv", "--json"))["records"] == 3
    assert "no findings" in answer("trace", "lint", "small.jobs.csv")
    message = json.loads(answer("compare", "scenario.toml", "--schedulers", "stay,mincent", "--json"))
    assert [row["name"] for row in message["schedulers"]] == ["stay", "mincent"]
    assert message["schedulers"][0]["parameters"]["pause"] == 1.0 and message["schedulers"][0]["tasks"] == 3
    # a result of a plugin's scheduler is reproduced without naming it, as for a built-in scheduler
    answer("run", "scenario.toml", "--scheduler", "stay", "--out", "r.npz")
    assert "the same digest" in answer("repro", "r.npz")


@pytest.mark.filterwarnings("ignore::gridsim.errors.PluginWarning")  # issued once per process
def test_errors_of_a_reader_become_trace_errors(installed_package: Path) -> None:
    (installed_package / "small.jobs.csv").write_text("0,100\n")
    with pytest.raises(gs.TraceFormatError, match=r"small.jobs.csv: ValueError: not enough values"):
        gs.simulate(gs.Scenario.from_toml(installed_package / "scenario.toml"), "mincent")


def test_a_plugin_scheduler_is_unregistered_with_its_package() -> None:
    assert "stay" not in registered()


OWN = """
seed = 1
[platform]
kind = "halves"
nodes = 4
[workload]
kind = "ticks"
applications = 6
[faults]
kind = "rare"
up = 300.0
[fluctuation]
kind = "half"
"""


def answer_of(*words: str) -> str:
    cli_result = CliRunner().invoke(cli, [*words])
    assert cli_result.exit_code == 0, cli_result.output
    return cli_result.stdout


@pytest.mark.filterwarnings("ignore::gridsim.errors.PluginWarning")
def test_a_package_adds_kinds_a_metric_and_an_export_format(installed_package: Path) -> None:
    scenario = gs.Scenario.from_text(OWN)
    assert gs.Scenario.from_text(scenario.to_toml()) == scenario
    assert scenario.platform.speeds.tolist() == [1000.0, 500.0, 1000.0, 500.0]
    result = gs.simulate(scenario, "WQR-FT", record=("schedule",))
    result.save("r.npz")
    assert gs.Result.load("r.npz").scenario == scenario and result.applications["finish"].max() > 50
    found = gs.replicate(scenario, ["WQR-FT"], replicates=2, metrics=["last_release", "makespan"])
    assert found.values["last_release"]["WQR-FT"].tolist() == [50.0, 50.0]
    assert found.units["last_release"] == "s"
    seeds = [gs.replication(scenario, k).workload.recipe.seed for k in range(2)]
    assert len({*seeds, 0}) == 3
    assert gs.export(result, "names.txt", "releases") == 6
    assert Path("names.txt").read_text().split() == ["0", "10", "20", "30", "40", "50"]
    with pytest.raises(gs.ScenarioError, match="format must be one of .*releases.*, got 'none'"):
        gs.export(result, "x", "none")
    workload = gs.Workload(all_kinds("workload")["rows"](jobs=3))
    assert gs.simulate(gs.Scenario(gs.Platform.equal(4), workload), "backfill").rigid


@pytest.mark.filterwarnings("ignore::gridsim.errors.PluginWarning")
def test_commands_know_the_names_of_a_package(installed_package: Path) -> None:
    Path("own.toml").write_text(OWN)
    listed = json.loads(answer_of("list", "--json"))
    assert {"name": "last_release", "unit": "s", "what": "time of the last release"} in listed["metrics"]
    assert {"format": "releases", "what": "a line for each application"} in listed["exports"]
    kinds = {(row["table"], row["kind"]) for row in listed["workloads"]}
    own = {("platform", "halves"), ("workload", "ticks"), ("faults", "rare"), ("fluctuation", "half")}
    assert own <= kinds and not {"nameless", "empty"} & {kind for _, kind in kinds}
    row = next(row for row in listed["workloads"] if row["kind"] == "ticks")
    assert row["what"] == "Single tasks at equal intervals."
    assert next(row for row in listed["workloads"] if row["kind"] == "half")["what"] == ""  # not of its base
    assert "Platform" in next(row for row in listed["workloads"] if row["kind"] == "halves")["constructor"]
    assert "pause" in {row["name"] for row in listed["parameters"]["stay"]}
    answer_of("run", "own.toml", "--scheduler", "WQR-FT", "--record", "--out", "r.npz")
    assert "6 rows" in answer_of("export", "r.npz", "--format", "releases", "--out", "names.txt")
    shown = answer_of(
        "compare", "own.toml", "--schedulers", "WQR-FT,SmallET-NoInfo", "--replicates", "2", "--workers", "1",
        "--metrics", "last_release", "--json",
    )  # fmt: skip
    assert json.loads(shown)["units"]["last_release"] == "s"
    Path("study.toml").write_text(
        'scenario = "own.toml"\nschedulers = ["WQR-FT"]\nreplicates = 1\nmetrics = ["last_release"]\n'
        '[over]\n"workload.interval" = [1.0, 2.0]\n'
    )
    cells = json.loads(answer_of("sweep", "study.toml", "--workers", "1", "--json"))["cells"]
    assert [cell["last_release"] for cell in cells] == [5.0, 10.0]
    schema = json.loads(answer_of("schema"))
    ticks = next(
        part
        for part in schema["$defs"].values()
        if "interval" in part.get("properties", {}) and "ticks" in part["title"]
    )
    assert ticks["properties"]["interval"]["description"] == "Time between two tasks, s."


def test_invalid_entry_points_are_named(installed_package: Path) -> None:
    with pytest.warns(gs.PluginWarning) as records:
        all_of_a_package()
    texts = [str(item.message).replace(" of others-of-gridsim is ignored", "") for item in records]
    for text in (
        "gridsim.metrics: bare = others_of_gridsim:last_release: it must be a gridsim.results."
        "metrics.selection.CustomMetric, got ",
        "gridsim.metrics: makespan = others_of_gridsim:LAST_RELEASE: the name is taken",
        "gridsim.exporters: bare = others_of_gridsim:write_names: it must be a ",
        "gridsim.exporters: swf = others_of_gridsim:RELEASES: the name is taken",
        "gridsim.platforms: nameless = others_of_gridsim:Nameless: its tag must be the name of the entry "
        "point, got 'other'",
        "gridsim.workloads: empty = others_of_gridsim:Empty: it must define columns",
        "gridsim.workloads: rare = others_of_gridsim:Rare: it must be a subclass of gridsim.model."
        "bag_workloads.BagsKind or ",
    ):
        assert any(line.startswith(text) for line in texts), (text, texts)
    assert len(texts) == 7


def all_of_a_package() -> None:
    for part in ("platform", "workload", "faults", "fluctuation"):
        all_kinds(part)
    plugin_metrics()
    export_formats()


@pytest.mark.filterwarnings("ignore::gridsim.errors.PluginWarning")
def test_the_code_of_a_package_is_part_of_the_keys_of_its_runs(installed_package: Path) -> None:
    module = installed_package / "site" / "others_of_gridsim.py"
    scenarios = {
        "kinds": gs.Scenario.from_text(OWN),
        "trace format": gs.Scenario.from_toml(installed_package / "scenario.toml"),
        "neither": gs.Scenario(gs.Platform.equal(2), gs.Workload.bags(2)),
    }

    def keys() -> dict[str, str]:
        user_code._FIRST_SOURCES.clear()  # as in another process
        return {name: Keys().key(Cell(scenario, gs.Fcfs())) for name, scenario in scenarios.items()}

    before = keys()
    module.write_text(MODULE + "# more\n")
    assert keys() == before
    module.write_text(MODULE + "more = 1\n")
    after = keys()
    assert {name for name in after if after[name] != before[name]} == {"kinds", "trace format"}
