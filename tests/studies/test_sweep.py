from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.plots.charts import CurveChart
from gridsim.studies.replicate import PARTS, replication
from gridsim.studies.sweep import Sweep, sweep
from gridsim.studies.sweep_result import SweepResult
from gridsim.support.imports import import_object
from gridsim.support.text import to_json


def small_scenario() -> gs.Scenario:
    workload = gs.Workload.bags(applications=4, tasks_per_node=2, seed=1)
    return gs.Scenario(gs.Platform.pareto(6, 1), workload, seed=1)


SCHEDULERS = {"tree": gs.FairTree(), "fcfs": gs.Fcfs()}
OVER = {
    "platform.nodes": [6, 12],
    "schedulers.tree.bound": [1.0, 2.0],
    "load": {"light": {"workload.interarrival": 100.0}, "heavy": {"workload.interarrival": 1.0}},
}


@pytest.fixture(scope="module")
def finished_sweep() -> SweepResult:
    return sweep(
        small_scenario(), SCHEDULERS, OVER, replicates=2, metrics=("max_stretch", "makespan"), baseline="fcfs"
    )


def test_each_row_equals_a_single_run_of_its_point(finished_sweep: SweepResult) -> None:
    table = finished_sweep.table()
    assert len(table) == 2 * 2 * 2 * 3  # fcfs has no bound
    assert list(table)[:5] == ["platform_nodes", "schedulers_tree_bound", "load", "scheduler", "replicate"]
    for row in table.rows():
        between = {"light": 100.0, "heavy": 1.0}[row["load"]]
        scenario = small_scenario().replaced(
            {"platform.nodes": row["platform_nodes"], "workload.interarrival": between}
        )
        scheduler = (
            gs.FairTree(bound=row["schedulers_tree_bound"]) if row["scheduler"] == "tree" else gs.Fcfs()
        )
        result = gs.simulate(replication(scenario, row["replicate"]), scheduler)
        assert row["digest"] == result.digest and row["error"] == ""
        assert (row["max_stretch"], row["makespan"]) == (result.max_stretch, result.makespan)


def test_equal_runs_at_several_points_are_run_once(run_counts: list[int]) -> None:
    sweep(small_scenario(), SCHEDULERS, OVER, replicates=2)
    # fcfs has 16 cells; those that differ only in the bound of the tree are equal runs
    assert run_counts == [16 + 8]


def test_points_are_selected_by_their_labels(finished_sweep: SweepResult) -> None:
    labels = [labels for labels, _ in finished_sweep.each()]
    assert labels[0] == {"platform.nodes": 6, "schedulers.tree.bound": 1.0, "load": "light"}
    assert labels[1] == {**labels[0], "load": "heavy"} and len(labels) == 8
    row_ = finished_sweep.at(platform_nodes=12, schedulers_tree_bound=2.0, load="heavy")
    rows = [
        row for row in finished_sweep.table().rows() if (row["platform_nodes"], row["load"]) == (12, "heavy")
    ]
    rows = [row for row in rows if row["schedulers_tree_bound"] == 2.0]
    assert row_["makespan"]["tree"].tolist() == [r["makespan"] for r in rows if r["scheduler"] == "tree"]
    for wrong, message in (
        ({"load": "light"}, "at requires a value of platform_nodes, one of 6, 12"),
        ({"platform_nodes": 7, "schedulers_tree_bound": 1.0, "load": "light"}, "must be one of 6, 12, got 7"),
        (
            {"platform_nodes": 6, "schedulers_tree_bound": 1.0, "load": "light", "x": 1},
            "at must name axes of the sweep, .*, got 'x'",
        ),
    ):
        with pytest.raises(gs.ScenarioError, match=message):
            finished_sweep.at(**wrong)


def test_xarray_pandas_and_arrow_have_the_values_of_the_table(finished_sweep: SweepResult) -> None:
    dataset = finished_sweep.to_xarray()
    assert dataset["max_stretch"].dims == (
        "platform_nodes", "schedulers_tree_bound", "load", "scheduler", "replicate",
    )  # fmt: skip
    for row in finished_sweep.table().rows():
        place = {key: row[key] for key in dataset["max_stretch"].dims}
        if row["scheduler"] == "fcfs":
            place["schedulers_tree_bound"] = 2.0
        assert dataset["max_stretch"].sel(place).item() == row["max_stretch"]
        assert dataset["digest"].sel(place).item() == row["digest"]
    assert dataset["makespan"].attrs == {"units": "s"}
    assert len(finished_sweep.to_pandas()) == finished_sweep.to_arrow().num_rows == 24


def test_means_are_those_of_the_table() -> None:
    """The schedulers of a point share the lowest bound, also in the table: WQR-FT may copy tasks."""
    schedulers = {"central": gs.MinCent(), "copies": gs.WqrFt()}
    actual = sweep(small_scenario(), schedulers, {"platform.nodes": [6, 12]}, replicates=2, metrics=["gap"])
    table = actual.table()
    for labels, point_ in actual.each():
        for name in schedulers:
            rows = (table["platform_nodes"] == labels["platform.nodes"]) & (table["scheduler"] == name)
            assert table["gap"][rows].tolist() == point_["gap"][name].tolist()
    alone = gs.simulate(replication(small_scenario().replaced({"platform.nodes": 6}), 0), gs.MinCent())
    assert table["gap"][0] > alone.gap()


def test_text_and_json_of_a_sweep_have_its_values(finished_sweep: SweepResult) -> None:
    lines = finished_sweep.format(width=200).splitlines()
    (caption,) = (
        line for line in lines if line.startswith("max_stretch (s/Mflop), mean over 2 replications")
    )
    assert caption.endswith("[95% interval, which is too narrow with so few]; ratios are geometric means")
    lines = lines[lines.index(caption) :]
    few = "2 replications allow no conclusion: at least 5 are needed."
    assert (
        lines[-1]
        == few
        == finished_sweep.verdict()
        == finished_sweep.at(platform_nodes=6, schedulers_tree_bound=1.0, load="light").verdict()
    )
    row = finished_sweep.at(platform_nodes=6, schedulers_tree_bound=1.0, load="light")
    assert row.ratio("tree", "fcfs").format(seeds=2) in lines[2] and lines[4].endswith("  1")
    message = json.loads(to_json(finished_sweep.to_dict()))
    assert message["axes"]["load"] == ["light", "heavy"] and len(message["cells"]) == 24
    assert message["points"][0]["ratios"]["max_stretch"]["tree"]["mean"] == row.ratio("tree", "fcfs").mean


@pytest.mark.parametrize(("width", "blocks"), [(80, 2), (100, 1)])
def test_tables_of_a_sweep_fit_the_width(finished_sweep: SweepResult, width: int, blocks: int) -> None:
    _, table = finished_sweep.format(width=width).split("\nmax_stretch (s/Mflop), ")
    lines = table.partition("\nmakespan ")[0].splitlines()
    assert max(map(len, lines)) <= width
    keys = [line.partition("  tree ")[0] for line in lines if "  tree " in line]
    assert len(keys) == 8 * blocks and len({*keys}) == 8


def test_a_sweep_states_different_orders_of_queues() -> None:
    scenario = gs.Scenario(gs.Platform.desktop_grid(4, 1), gs.Workload.bags(2, 10.0, 2.0, seed=1))
    over = {"platform.nodes": [4, 6]}
    text = " ".join(str(gs.sweep(scenario, ["fair-tree", "random"], over, replicates=1)).split())
    assert "machines run their queues by earliest deadline (fair-tree), first in, first out (random)" in text


def test_a_failed_run_is_recorded() -> None:
    actual = sweep(small_scenario(), {"fcfs": gs.Fcfs(), "dgs": gs.DgsAsap()}, {}, replicates=2)
    assert actual.table()["error"].tolist()[::2] == ["", ""]
    assert actual.errors and "dgs-asap" in actual.errors[0]
    assert "failed: dgs, replication 1: ScenarioError: " in actual.format()
    assert np.isnan(actual.at()["stretch"]["dgs"]).all()


def test_the_order_of_entries_in_a_case_has_no_effect() -> None:
    """A whole table is applied before its single entries, whatever other cases there are."""
    bags = {"kind": "bags", "seed": 2, "applications": 5}
    one: dict[str, Any] = {"workload": bags, "workload.applications": 20}
    other = dict(reversed(one.items()))
    for cases in ({"one": one}, {"other": other}, {"one": one, "other": other}, {"other": other, "one": one}):
        finished_sweep = Sweep(
            scenario=small_scenario(),
            schedulers={"fcfs": gs.Fcfs()},
            over={"load": cases},
            replicates=1,
            hold=PARTS,
        )
        assert [cell.scenario.workload.recipe.applications for cell in finished_sweep.cells] == [20] * len(
            cases
        )
        assert {cell.scenario.workload.recipe.seed for cell in finished_sweep.cells} == {2}
    assert small_scenario().replaced(one) == small_scenario().replaced(other)


def test_an_entry_that_another_overrides_is_rejected() -> None:
    message = "workload.tasks_per_node does not support workload.tasks, which overrides it; set one of them"
    both = {"workload.tasks_per_node": 2.0, "workload.tasks": 7.0}
    finished_sweep = Sweep(
        scenario=small_scenario(),
        schedulers={"fcfs": gs.Fcfs()},
        over={name: [value] for name, value in both.items()},
        replicates=1,
    )
    with pytest.raises(gs.ScenarioError, match=f"^{message}$"):
        finished_sweep.run()
    assert small_scenario().replaced({**both, "workload.tasks": None}).workload.recipe.tasks is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scheduler", "must not have a function 'scheduler', which is a column of the table"),
        ("replicate", "must not have a function 'replicate', which is a column of the table"),
        ("makespan", "must not have a function 'makespan', which is a metric or a unit"),
        ("work", "must not have a function 'work', which is a metric or a unit"),
        ("", "the name of a table or column must be letters, digits and _, with no digit first, got ''"),
        ("a\nb", "the name of a table or column must be letters, digits and _, with no digit first, got 'a"),
        ("\ud800", "the name of a table or column must be letters, digits and _, with no digit first, got '"),
    ],
)
def test_invalid_and_reserved_names_of_metrics_are_rejected(name: str, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match="^metrics") as refused:
        sweep(small_scenario(), {"fcfs": gs.Fcfs()}, {}, replicates=1, metrics={name: len})
    assert message in str(refused.value)


def test_values_on_an_axis_may_be_tables_or_none() -> None:
    faults = gs.Scenario(
        small_scenario().platform,
        small_scenario().workload,
        faults=gs.Faults.exponential(up=1e4, down=10.0, seed=3),
    ).document()["faults"]
    over = {"faults": [None, faults]}
    finished_sweep = Sweep(scenario=small_scenario(), schedulers={"fcfs": gs.Fcfs()}, over=over, replicates=1)
    result = finished_sweep.run()
    assert result.axes == {"faults": (None, json.dumps(faults, sort_keys=True))}
    assert result.table()["faults"][0] == "none" and result.at(faults=None)["makespan"]["fcfs"].size == 1
    assert "\n  none " in result.format() and result.chart("makespan").labels[0] == "none"
    numbers = sweep(
        small_scenario(), {"fcfs": gs.Fcfs()}, {"network.bandwidth": [None, 1e9]}, replicates=1
    ).table()["network_bandwidth"]
    assert np.isnan(numbers[0]) and numbers[1] == 1e9
    with pytest.raises(gs.ScenarioError, match="no value twice"):
        Sweep(scenario=small_scenario(), schedulers=SCHEDULERS, over={"network.bandwidth": [None, 1.0, None]})
    first, second = (cell.scenario.faults for cell in finished_sweep.cells)
    assert first is None and second is not None and second.recipe.up == 1e4


FILE = """
scenario = "scenario.toml"
schedulers = ["fair-tree", "fcfs"]
replicates = 3
baseline = "fcfs"
metrics = ["makespan"]
hold = ["platform"]

[over]
"network.latency" = [0.0, 0.5]

[over.load]
light = { "workload.interarrival" = 100.0 }
heavy = { "workload.interarrival" = 1.0, "schedulers.fair-tree.bound" = 3.0 }
"""


def test_a_sweep_is_read_from_a_file(tmp_path: Path) -> None:
    dataclasses.replace(small_scenario(), schedulers={"fair-tree": {"bound": 1.5}}).save(
        tmp_path / "scenario.toml"
    )
    (tmp_path / "s.toml").write_text(FILE)
    finished_sweep = Sweep.from_toml(tmp_path / "s.toml")
    assert [*Sweep.from_toml(tmp_path / "s.toml", schedulers=["my=mincent"], baseline=None).schedulers] == [
        "my"
    ]
    assert (
        finished_sweep.replicates,
        finished_sweep.baseline,
        list(finished_sweep.metrics),
        finished_sweep.hold,
    ) == (
        3,
        "fcfs",
        ["makespan"],
        ["platform"],
    )
    assert len(finished_sweep.cells) == 2 * 2 * 3 * 2
    assert {cell.scenario.platform for cell in finished_sweep.cells} == {small_scenario().platform}
    trees = [cell.scheduler.bound for cell in finished_sweep.cells if isinstance(cell.scheduler, gs.FairTree)]
    assert trees == [1.5, 1.5, 1.5, 3.0, 3.0, 3.0] * 2
    other = Sweep.from_toml(
        tmp_path / "s.toml", schedulers=["mincent"], baseline="mincent", over={}, replicates=1
    )
    assert [type(cell.scheduler) for cell in other.cells] == [gs.MinCent]
    tables = "[parameters.wide]\nbound = 4.0\n[parameters.fcfs]\nmode = 'pull'\n[over]"
    variants = FILE.replace('"fcfs"]', '"fcfs", "wide=fair-tree"]').replace("[over]", tables)
    (tmp_path / "variants.toml").write_text(variants)
    schedulers = Sweep.from_toml(tmp_path / "variants.toml").schedulers
    expected = {
        "fair-tree": gs.FairTree(bound=1.5),
        "fcfs": gs.Fcfs(mode="pull"),
        "wide": gs.FairTree(bound=4.0),
    }
    assert schedulers == expected
    assert Sweep.from_toml(
        tmp_path / "variants.toml", schedulers=["fcfs"], baseline=None, over={}
    ).schedulers == {"fcfs": gs.Fcfs(mode="pull")}
    inline = FILE.replace('scenario = "scenario.toml"', "") + small_scenario().to_toml().replace(
        "seed = 1\n\n", "", 1
    )
    inline = inline.replace("[platform]", "[scenario.platform]").replace("[workload]", "[scenario.workload]")
    (tmp_path / "inline.toml").write_text(inline.replace("[network]", "[scenario.network]"))
    assert Sweep.from_toml(tmp_path / "inline.toml").scenario.platform == small_scenario().platform


def test_a_file_names_own_schedulers_that_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_scenario().save(tmp_path / "scenario.toml")
    module = "import gridsim as gs\nclass Own(gs.FairTree):\n    name = 'own'\nclass Other(gs.Fcfs): ...\n"
    (tmp_path / "sweep_own.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    names = ["fcfs", "sweep_own:Own", "b=sweep_own:Own", "sweep_own:Other"]
    text = 'scenario = "scenario.toml"\nbaseline = "sweep_own:Own"\n'
    over = '[over]\n"schedulers.own.bound" = [1.0, 2.0]\n'
    (tmp_path / "s.toml").write_text(f"{text}schedulers = {json.dumps(names)}\n{over}")
    allowed = ["sweep_own:Own", "sweep_own:Other"]
    plan = Sweep.from_toml(tmp_path / "s.toml", imports=allowed)
    assert [*plan.schedulers] == ["fcfs", "own", "b", "sweep_own:Other"] and plan.baseline == "own"
    with pytest.raises(gs.ScenarioError, match="'sweep_own:Other'; to allow it, add --import"):
        Sweep.from_toml(tmp_path / "s.toml", imports=allowed[:1])
    (tmp_path / "s.toml").write_text(text + over)
    assert [*Sweep.from_toml(tmp_path / "s.toml", schedulers=names).schedulers] == [*plan.schedulers]
    with pytest.raises(gs.ScenarioError, match="schedulers is required, a list of names, unless --sched"):
        Sweep.from_toml(tmp_path / "s.toml")


OWN_KINDS = """
import numpy as np

from gridsim.model.bag_workloads import BagsKind
from gridsim.model.platform import PlatformKind


class Pairs(PlatformKind, frozen=True, kw_only=True, tag="pairs"):
    nodes: int

    def speeds(self):
        return np.full(self.nodes, 500.0)


class Gamma(BagsKind, frozen=True, kw_only=True, tag="gamma"):
    applications: int = 3
    size: float = 1000.0

    def columns(self, platform):
        ones = np.ones(self.applications, np.int64)
        return {"release": 0.0 * ones, "tasks": ones, "task_size": self.size * ones, "submitter": ones}
"""


def test_a_sweep_changes_kinds_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sweep_kinds.py").write_text(OWN_KINDS)
    monkeypatch.syspath_prepend(tmp_path)
    tables = '[scenario.platform]\nkind = "pairs"\nnodes = 3\n[scenario.workload]\nkind = "gamma"\n'
    over = '[over]\n"workload.size" = [1000.0, 2000.0]\n'
    (tmp_path / "s.toml").write_text(f'schedulers = ["fcfs"]\nreplicates = 1\n{tables}{over}')
    with pytest.raises(gs.ScenarioError, match=r"platform.kind must be .*, got 'pairs'; a class .* --import"):
        Sweep.from_toml(tmp_path / "s.toml")
    with pytest.raises(gs.ScenarioError, match="^cannot import kind 'no_kinds:K': ModuleNotFoundError"):
        Sweep.from_toml(tmp_path / "s.toml", imports=["no_kinds:K"])
    classes = ["sweep_kinds:Pairs", "sweep_kinds:Gamma"]
    from_file = Sweep.from_toml(tmp_path / "s.toml", imports=classes).run()
    assert from_file.table()["makespan"].tolist() == [2.0, 4.0]
    kinds = import_object(classes[0]), import_object(classes[1])
    scenario = gs.Scenario(gs.Platform(kinds[0](nodes=3)), gs.Workload(kinds[1]()))
    assert gs.Scenario.from_text(scenario.to_toml()) == scenario  # classes of this process need no import
    redefined: dict[str, Any] = {"__name__": "__main__"}
    exec(OWN_KINDS, redefined)  # as a cell of a notebook, after the scenario was made
    actual = sweep(scenario, ["fcfs"], {"workload.size": [1000.0, 2000.0]}, replicates=1)
    assert actual.table()["digest"].tolist() == from_file.table()["digest"].tolist()
    assert type(scenario.replaced({"workload.size": 2.0}).workload.recipe) is kinds[1]
    assert type(gs.Scenario.from_text(scenario.to_toml()).workload.recipe) is redefined["Gamma"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("replicates = 3", "replicates = 0"), "replicates must be a whole number >= 1, got 0"),
        (
            ("replicates = 3", "replicas = 3"),
            "replicas is not a known key of a sweep; did you mean replicates. known: scenario",
        ),
        (
            ('scenario = "scenario.toml"', "scenario = 3"),
            "scenario must be the path of a file or a table, got 3",
        ),
        (('["fair-tree", "fcfs"]', "[]"), r"schedulers must be a list of names, got \[\]"),
        (
            ('["fair-tree", "fcfs"]', '["a:B"]'),
            "schedulers must not name code that is not allowed, got 'a:B'",
        ),
        (('["fair-tree", "fcfs"]', '["x=a:B=fcfs"]'), "not allowed, got 'a:B=fcfs'"),
        (('["fair-tree", "fcfs"]', '["fcsf"]'), "unknown scheduler 'fcsf'"),
        (("[0.0, 0.5]", "[]"), "over.network.latency must have at least one value"),
        (
            ("[0.0, 0.5]", "[0.5, 0.5]"),
            "over.network.latency must have at least one value and no value twice",
        ),
        (("[0.0, 0.5]", '"0.5"'), "over.network.latency must be a list of values, or a table of cases"),
        (("[0.0, 0.5]", "[0.5, -1.0]"), "network.latency must be"),
        (("network.latency", "network.latencies"), "network.latencies is not a known key"),
        (
            ("network.latency", "schedulers.fair.bound"),
            "must be of a scheduler of the sweep, fair-tree, fcfs, got 'fair'",
        ),
        (("network.latency", "schedulers.fcfs.bound"), "fcfs.bound is not a parameter of this scheduler"),
        (
            ("network.latency", "schedulers.fcfs"),
            "over.schedulers.fcfs must be schedulers.NAME.PARAMETER",
        ),
        (
            ("light = {", "light = { schedulers = {fair-tree = {bound = 3.0}},"),
            "over.schedulers must be schedulers.NAME.PARAMETER",
        ),
        (("network.latency", "scheduler"), "over must not have the axis 'scheduler'"),
        (("light = {", "light = 3 #"), "over.load.light must be a table of entries, got 3"),
        (('baseline = "fcfs"', 'baseline = "x"'), "baseline must be one of fair-tree, fcfs, got 'x'"),
        (('["makespan"]', '["speed"]'), "^.*s.toml: metrics must be names of metrics, got 'speed'"),
        (
            ('"fcfs"]', '"fcfs", "fcfs"]'),
            "^.*s.toml: schedulers must have different names, got 'fcfs' twice: .* LABEL=NAME$",
        ),
        (('["makespan"]', '"speed"'), "metrics must be a list of names, got 'speed'"),
        (('["platform"]', '["nodes"]'), "hold must contain only platform"),
        (("replicates = 3", 'time_limit = "abc"'), "time_limit must be a finite number > 0 s, got 'abc'"),
        (("replicates = 3", "time_limit = [1]"), r"time_limit must be a finite number > 0 s, got \[1\]"),
        (("replicates = 3", "time_limit = {}"), "time_limit must be a finite number > 0 s, got {}"),
        (("replicates = 3", "time_limit = 1979-05-27"), "time_limit must be a finite number .*1979, 5, 27"),
        (("replicates = 3", "time_limit = 07:32:00"), r"time_limit must be a finite number .*time\(7, 32\)"),
        (("replicates = 3", "time_limit = 0"), "time_limit must be a finite number > 0 s, got 0"),
        (('["makespan"]', "[[1]]"), r"metrics must be names and functions, got the entry \[1\]"),
        (('["makespan"]', "[{a = 1}]"), "metrics must be names and functions, got the entry {'a': 1}"),
        (
            ("[0.0, 0.5]", "[1979-05-27]"),
            "over.network.latency must contain only numbers, strings, .*1979, 5, 27",
        ),
        (("= 100.0", "= 1979-05-27"), "over.load.light must contain only numbers, strings, .*1979, 5, 27"),
        (("= 3.0", "= [07:32:00]"), "over.load.heavy must contain only numbers, .*time.7, 32"),
        (
            ('"network.latency" = [0.0, 0.5]', '"schedulers.fair-tree.bound" = [1.0, {a = 1979-05-27}]'),
            "over.schedulers.fair-tree.bound must contain only numbers, strings, lists and tables, got {'a'",
        ),
        (('"network.latency" =', '"" ='), "over: the name of an axis must be a non-empty string, got ''"),
        (
            ("[0.0, 0.5]", "[1e0, '1.0']"),
            "over.network.latency must have at least one value and no value twice",
        ),
        (
            ("[0.0, 0.5]", f"[{2**70}, {2**70 + 1}]"),
            "over.network.latency must have at least one value and no value twice",
        ),
        (
            ("[0.0, 0.5]", f"[{2**53}, {2**53 + 1}, 0.5]"),
            "over.network.latency must have at least one value and no value twice",
        ),
        (("replicates = 3", "replicates ="), "s.toml:4: column 13: Invalid value"),
        (
            ("[over]", "[parameters]\nfcfs = 3\n[over]"),
            "parameters must be a table of tables, got {'fcfs': 3}",
        ),
        (("[over]", "[parameters.fcsf]\n[over]"), "parameters.fcsf must be that of .*did you mean fcfs"),
        (("[over]", "[parameters.fair-tree]\nbond = 1\n[over]"), "s.toml: fair-tree.bond is not a parameter"),
    ],
)
def test_invalid_sweep_files_are_rejected(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    small_scenario().save(tmp_path / "scenario.toml")
    assert change[0] in FILE
    (tmp_path / "s.toml").write_text(FILE.replace(*change))
    with pytest.raises(gs.ScenarioError, match=message):
        Sweep.from_toml(tmp_path / "s.toml").cells  # noqa: B018


def test_paths_on_axes_are_relative_to_the_sweep_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder has other files of the same names."""
    monkeypatch.chdir(tmp_path)
    Path("study").mkdir()
    for folder, up in ((Path(), 7.0), (Path("study"), 2.0)):
        for name in ("a.avt", "b.avt"):
            (folder / name).write_text(f"x 1 0 {up}\n")
    small_scenario().save("study/scenario.toml")
    head = 'scenario = "scenario.toml"\nschedulers = ["fcfs"]\nreplicates = 1\n[over]\n'
    elsewhere = json.dumps(str(tmp_path / "a.avt"))
    Path("study/tables.toml").write_text(
        f'{head}faults = [{{ kind = "trace", path = "a.avt", seed = 1 }}, '
        f'{{ kind = "trace", path = {elsewhere}, seed = 1 }}]'
    )
    finished_sweep = Sweep.from_toml("study/tables.toml")
    assert finished_sweep.labels["faults"][0] == '{"kind": "trace", "path": "a.avt", "seed": 1}'
    assert [cell.scenario.files for cell in finished_sweep.cells] == [
        ("study/a.avt",),
        (str(tmp_path / "a.avt"),),
    ]
    Path("study/cases.toml").write_text(
        f'{head}[over.up]\na = {{ "faults.kind" = "trace", "faults.seed" = 1, "faults.path" = "a.avt" }}\n'
        'b = { faults = { kind = "trace", seed = 2, path = "b.avt" } }\n'
    )
    finished_sweep = Sweep.from_toml("study/cases.toml")
    assert [cell.scenario.files for cell in finished_sweep.cells] == [("study/a.avt",), ("study/b.avt",)]
    small_scenario().replaced({"faults": {"kind": "trace", "seed": 1, "path": "a.avt"}}).save(
        "study/scenario.toml"
    )
    Path("study/paths.toml").write_text(f'{head}"faults.path" = ["b.avt", "a.avt"]')
    finished_sweep = Sweep.from_toml("study/paths.toml")
    assert finished_sweep.labels["faults.path"] == ("b.avt", "a.avt")
    assert [cell.scenario.files for cell in finished_sweep.cells] == [("study/b.avt",), ("study/a.avt",)]
    in_python = Sweep(
        scenario=finished_sweep.scenario, schedulers=SCHEDULERS, over={"faults.path": ["b.avt"]}
    )
    assert in_python.cells[0].scenario.files == ("b.avt",)


@pytest.mark.parametrize(
    "over",
    [
        {"schedulers": [{"tree": {"bound": 1.0}}, {"tree": {"bound": 2.0}}]},
        {"ax": {"a": {"schedulers": {"tree": {"bound": 1.0}}}}},
        {"schedulers": [{"nobody": {}}]},
    ],
)
def test_an_axis_of_whole_schedulers_is_rejected(over: dict[str, Any]) -> None:
    message = "over.schedulers must be schedulers.NAME.PARAMETER"
    with pytest.raises(gs.ScenarioError, match=message):
        sweep(small_scenario(), SCHEDULERS, over, replicates=1)


def test_a_parameter_fixed_by_the_name_of_a_scheduler_is_no_axis() -> None:
    over = {"schedulers.fcfs-pull.mode": ["pull", "random"]}
    schedulers = {"fcfs-pull": gs.Fcfs(mode="pull"), "mine": gs.Fcfs(mode="pull")}
    with pytest.raises(gs.ScenarioError, match="^fcfs-pull.mode"):
        Sweep(scenario=small_scenario(), schedulers=schedulers, over=over).cells  # noqa: B018
    own = Sweep(
        scenario=small_scenario(), schedulers=schedulers, over={"schedulers.mine.mode": ["pull", "random"]}
    )
    assert [cell.scheduler.mode for cell in own.cells[:2]] == ["pull", "pull"]  # type: ignore[attr-defined]
    assert [cell.scheduler.mode for cell in own.cells[-10:]] == ["random"] * 10  # type: ignore[attr-defined]


def test_invalid_tables_of_unused_schedulers_are_rejected(tmp_path: Path) -> None:
    for tables, message in (
        ({"fair_tree": {"bound": 1.25}}, "unknown scheduler 'fair_tree'"),
        ({"mincent": {"x": 1}}, "mincent.x is not a parameter"),
    ):
        dataclasses.replace(small_scenario(), schedulers=tables).save(tmp_path / "scenario.toml")
        (tmp_path / "s.toml").write_text(FILE)
        with pytest.raises(gs.ScenarioError, match=message):
            Sweep.from_toml(tmp_path / "s.toml")


def test_labels_of_axes_are_printed_on_one_line() -> None:
    over = {"ax": {"a\nsaved /x": {"platform.nodes": 3}, "b\u202e": {"platform.nodes": 4}}}
    lines = sweep(small_scenario(), {"fcfs": gs.Fcfs()}, over, replicates=1).format().splitlines()
    rows = [line for line in lines if "  fcfs  " in line][:2]
    assert [line.strip().split("  ")[0] for line in rows] == ["a saved /x", "b\\u202e"]
    assert len({line.index("fcfs") for line in rows}) == 1


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"platform.nodes": [5], "size": {"x": {"platform.nodes": 7}}}, "platform.nodes and size both"),
        ({"network": [{"latency": 0.1}], "network.latency": [0.2]}, "both change network"),
        (
            {"a": {"x": {"seed": 1, "seed.b": 1, "seed-": 1}}, "seed-c": [1], "seed.d": [1]},
            "over: a and seed.d both change seed$",
        ),
        (
            {"digest": {"a": {"seed": 1}}},
            "over must not have the axis 'digest': its column 'digest' is already a column of the table",
        ),
        ({"max_stretch": {"a": {"seed": 1}}}, "over must not have the axis 'max_stretch'"),
        (
            {"a.b": {"x": {"seed": 1}}, "a_b": {"x": {"workload.seed": 1}}},
            "its column 'a_b' is already the column of the axis 'a.b'",
        ),
        ([1], "over must map axes to values"),
    ],
)
def test_contradictory_axes_are_rejected(over: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        Sweep(scenario=small_scenario(), schedulers=SCHEDULERS, over=over)


def test_integers_beyond_int64_become_floats() -> None:
    """Labels in tables, JSON and charts are floats."""
    over = {"network.bandwidth": [10**22, 2**63 - 1, 1]}
    finished_sweep = sweep(small_scenario(), {"fcfs": gs.Fcfs()}, over, replicates=1)
    assert finished_sweep.axes == {"network.bandwidth": (1e22, 2**63 - 1, 1)} and not finished_sweep.errors
    column = finished_sweep.table()["network_bandwidth"]
    assert column.tolist() == [1e22, 2.0**63, 1.0] and column.dtype == float
    message = json.loads(to_json(finished_sweep.to_dict()))
    assert [point["point"]["network.bandwidth"] for point in message["points"]] == [1e22, 2**63 - 1, 1]
    finished_sweep.figure()
    other = Sweep(
        scenario=small_scenario(), schedulers=SCHEDULERS, over={"seed": [1 - 2**64, 2**64, -(2**63)]}
    )
    assert [type(label) for label in other.labels["seed"]] == [float, float, int]
    with pytest.raises(gs.ScenarioError, match="^over.seed"):
        Sweep(scenario=small_scenario(), schedulers=SCHEDULERS, over={"seed": [10**400]})


def test_names_of_axes_become_names_of_columns() -> None:
    over = {"größe (m²)": {"a": {"seed": 1}, "b": {"seed": 2}}, "٣": {"a": {"workload.seed": 1}}}
    finished_sweep = sweep(small_scenario(), {"fcfs": gs.Fcfs()}, over, replicates=1)
    assert list(finished_sweep.table())[:2] == ["gr__e__m__", "_"] and set(finished_sweep.axes) == set(over)
    assert finished_sweep.at(gr__e__m__="b")["makespan"]["fcfs"].size == 1
    with pytest.raises(
        gs.ScenarioError,
        match="the axis 'grüße': its column 'gr__e' is already the column of the axis 'größe'",
    ):
        Sweep(scenario=small_scenario(), schedulers=SCHEDULERS, over={"größe": [1], "grüße": [2]})


def test_time_limits_become_floats_or_are_rejected() -> None:
    """Invalid limits are rejected before the runs; stores hold limits as floats."""
    finished_sweep = Sweep(scenario=small_scenario(), schedulers=SCHEDULERS, time_limit=2**53 + 1)
    assert type(finished_sweep.time_limit) is float and type(finished_sweep.cells[0].time_limit) is float
    with pytest.raises(gs.ScenarioError, match="^time_limit"):
        gs.replicate(small_scenario(), SCHEDULERS, replicates=1, time_limit=True)
    with pytest.raises(gs.ScenarioError, match="^time_limit"):
        gs.replicate(small_scenario(), SCHEDULERS, replicates=1, time_limit=10**400)


def test_the_method_replaced_changes_individual_entries() -> None:
    finished_sweep = small_scenario().replaced(
        {"network.latency": 0.25, "faults.kind": "poisson", "faults.mean": 5.0, "faults.seed": 2}
    )
    assert finished_sweep.network.latency == 0.25 and finished_sweep.faults == gs.Faults.poisson(5.0, 2)
    assert finished_sweep.replaced({"faults": None}).faults is None
    assert small_scenario().replaced({}) == small_scenario()
    many = small_scenario().replaced({"workload.tasks": 500.0})
    # workload.tasks would override this entry, so it is removed
    few = many.replaced({"workload.tasks_per_node": 1.0})
    assert (few.workload.recipe.tasks, few.workload.recipe.tasks_per_node) == (None, 1.0)
    with pytest.raises(gs.ScenarioError, match="^seed.x: seed"):
        small_scenario().replaced({"seed.x": 3})
    with pytest.raises(gs.ScenarioError, match="^the path of an entry"):
        small_scenario().replaced({1: 3})  # type: ignore[dict-item]


def test_points_where_jobs_hardly_wait_are_not_ranked() -> None:
    """On 8 machines no job waits."""
    jobs = gs.Workload.jobs_of([0.0, 1.0, 2.0, 3.0], [2, 2, 1, 2], [9.0, 30.0, 9.0, 5.0])
    scenario = gs.Scenario(gs.Platform.equal(8), jobs)
    swept = sweep(scenario, ["backfill", "backfill-fcfs"], {"platform.nodes": [8, 2]}, replicates=2)
    assert swept.verdict().endswith("Jobs hardly wait at 1 of 2 points: each mean is below 1 s.")
    assert "missing" not in swept.verdict()
    idle = sweep(scenario, ["backfill", "backfill-fcfs"], {"platform.nodes": [8, 9]}, replicates=2)
    assert idle.verdict() == "Jobs hardly wait at 2 of 2 points: each mean is below 1 s."


def test_a_sweep_of_one_scheduler_compares_its_points_by_replication() -> None:
    values = {"workload.tasks_per_node": [2, 6]}
    actual = sweep(small_scenario(), {"fcfs": gs.Fcfs()}, values, replicates=6, metrics=["makespan"])
    few, many = (actual.at(workload_tasks_per_node=count)["makespan"]["fcfs"] for count in (2, 6))
    start = "Over 6 replications, workload.tasks_per_node = 2 has the lowest makespan on average "
    ratio = np.exp(np.mean(np.log(many / few)))
    assert actual.verdict().startswith(f"{start}(workload.tasks_per_node = 6 {ratio:.3g} [")
    assert sweep(small_scenario(), {"fcfs": gs.Fcfs()}, {}, replicates=6).verdict() == ""


def test_the_digest_of_a_sweep_covers_all_runs_in_order() -> None:
    actual = sweep(small_scenario(), SCHEDULERS, {}, replicates=2, metrics=["makespan"])
    lines = "".join(f"{digest}\n" for digest in actual.table()["digest"].tolist())
    assert actual.digest == hashlib.sha256(lines.encode()).hexdigest() == actual.at().digest
    assert actual.to_dict()["digest"] in actual.format()


@pytest.fixture(scope="module")
def own_parameter() -> SweepResult:
    """A sweep over the number of machines and over a parameter of one of three schedulers."""
    schedulers = {"tree": gs.FairTree(), "fcfs": gs.Fcfs(), "central": gs.MinCent()}
    over = {"platform.nodes": [6, 12], "schedulers.tree.bound": [1.0, 4.0]}
    metrics = ["max_stretch", "messages"]
    return sweep(small_scenario(), schedulers, over, replicates=5, metrics=metrics, baseline="central")


def test_runs_of_schedulers_without_a_parameter_are_shown_once(own_parameter: SweepResult) -> None:
    table = own_parameter.table()
    assert len(table) == len(own_parameter.measured) == 2 * 5 * (2 + 1 + 1)
    is_tree = table["scheduler"] == "tree"
    assert {*table["schedulers_tree_bound"][is_tree].tolist()} == {1.0, 4.0}
    assert np.isnan(table["schedulers_tree_bound"][~is_tree]).all()
    rows = own_parameter.overview().tables[0].rows
    assert [row[:3] for row in rows[:4]] == [
        ["6", "1.0", "tree"], ["6", "4.0", "tree"], ["6", "", "fcfs"], ["6", "", "central"],
    ]  # fmt: skip
    assert [row[:3] for row in own_parameter.paper_tables()[0].rows] == [row[:3] for row in rows]
    assert own_parameter.means()["scheduler"].tolist()[:4] == ["tree", "tree", "fcfs", "central"]
    at_point = own_parameter.at(platform_nodes=12, schedulers_tree_bound=4.0)
    is_point = (table["platform_nodes"] == 12) & (table["schedulers_tree_bound"] == 4.0)
    assert at_point["max_stretch"]["tree"].tolist() == table["max_stretch"][is_point].tolist()
    assert own_parameter.to_xarray()["max_stretch"].shape == (2, 2, 3, 5)


def test_a_parameter_of_one_scheduler_is_drawn_as_curves_of_it_or_over_the_constant_others(
    own_parameter: SweepResult,
) -> None:
    (means, _), *_ = own_parameter.charts()
    assert isinstance(means, CurveChart) and means.labels == [6, 12] and not means.constants
    assert [*means.curves] == ["tree bound=1.0", "tree bound=4.0", "fcfs", "central"]
    at_point = own_parameter.at(platform_nodes=12, schedulers_tree_bound=4.0)
    assert means.curves["tree bound=4.0"][1] == at_point.mean("tree")
    over_bound = own_parameter.chart(point={"platform.nodes": 12})
    assert over_bound.labels == [1.0, 4.0] and [*over_bound.constants] == ["fcfs", "central"]
    assert over_bound.curves["fcfs"] == [at_point.mean("fcfs")] * 2
    assert own_parameter.figure().axes


def test_each_value_of_a_parameter_of_one_scheduler_is_a_scheduler_of_the_conclusion() -> None:
    schedulers = {"tree": gs.FairTree(), "central": gs.MinCent()}
    over = {"schedulers.tree.bound": [1.0, 4.0]}
    verdict = sweep(small_scenario(), schedulers, over, replicates=6).verdict()
    assert verdict.startswith("Over 6 replications, ") and "tree bound=4.0 +" in verdict
    own = sweep(small_scenario(), schedulers, over, replicates=6, baseline="tree")
    assert own.overview().tables[0].rows[1][:2] == ["1.0", "central"]  # its ratio depends on the bound
    assert len(own.table()) == 6 * 3


def test_the_conclusion_of_a_sweep_has_intervals() -> None:
    over = {"workload.interarrival": [1.0, 100.0]}
    schedulers = {"tree": gs.FairTree(), "fcfs": gs.Fcfs(mode="random")}
    swept = sweep(small_scenario(), schedulers, over, replicates=6, metrics=["max_stretch"])
    excesses = {
        swept.at(workload_interarrival=value).excess("fcfs", "tree", "max_stretch")[1]: value
        for value in over["workload.interarrival"]
    }
    closest = min(excesses)
    assert swept.verdict() == (
        "tree has the lowest mean max stretch at 2 of 2 points "
        f"(closest at workload.interarrival = {excesses[closest]}: fcfs {closest})."
    )


def test_the_conclusion_of_a_sweep_places_a_baseline_that_is_third() -> None:
    over = {"workload.interarrival": [1.0, 100.0]}
    schedulers = {"tree": gs.FairTree(), "central": gs.MinCent(), "random": gs.Fcfs(mode="random")}
    swept = sweep(
        small_scenario(), schedulers, over, replicates=6, metrics=["max_stretch"], baseline="random"
    )
    text = swept.verdict()
    assert "random is neither first nor second (closest at workload.interarrival = " in text
    for value in over["workload.interarrival"]:
        runs = swept.at(workload_interarrival=value)
        best = min(("tree", "central"), key=lambda name: runs.mean(name, "max_stretch").mean)
        place = f"at workload.interarrival = {value}, behind {best}: "
        assert place + runs.excess("random", best, "max_stretch")[1] in text


def test_the_conclusion_of_a_sweep_places_an_own_scheduler_that_is_last() -> None:
    over = {"workload.interarrival": [1.0, 100.0]}
    schedulers = {"fair-tree": gs.FairTree(), "mincent": gs.MinCent(), "own": gs.Fcfs(mode="random")}
    text = sweep(small_scenario(), schedulers, over, replicates=6, metrics=["max_stretch"]).verdict()
    assert text.endswith(".  own is last of 3 at all 2 points.")
    usual = {**schedulers, "fcfs": schedulers["own"]}
    del usual["own"]
    text = sweep(small_scenario(), usual, over, replicates=6, metrics=["max_stretch"]).verdict()
    assert "last of" not in text


def test_studies_state_the_mean_availability() -> None:
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(4, 1),
        gs.Workload.bags(4, 10.0, 2.0, seed=1),
        faults=gs.Faults.exponential(100.0, 50.0, seed=1),
    )
    availability = gs.simulate(scenario, "fcfs").provenance["availability"]["mean"]
    held = ["platform", "workload", "faults", "run"]
    found = gs.replicate(scenario, ["fcfs"], seeds=[0], metrics=["makespan"], hold=held)
    assert f"\nup            mean availability {availability:.3g}; machines" in found.format()
    swept = sweep(scenario, ["fcfs"], {"faults.down": [0.0, 500.0]}, replicates=1, metrics=["makespan"])
    assert " to 1; machines that are down" in swept.format()
    assert "availability" not in sweep(small_scenario(), ["fcfs"], {}, replicates=1).format()


def test_a_scheduler_that_is_not_charged_for_messages_has_none(own_parameter: SweepResult) -> None:
    rows = own_parameter.overview().tables[1].rows
    assert {row[2] for row in rows} == {"tree"}
    found = gs.replicate(small_scenario(), ["fair-tree", "mincent"], replicates=2, metrics=["messages"])
    assert np.isnan(found["messages"]["mincent"]).all() and (found["messages"]["fair-tree"] > 0).all()


def test_axes_of_messages_are_logarithmic_in_all_charts(own_parameter: SweepResult) -> None:
    point = own_parameter.at(platform_nodes=6, schedulers_tree_bound=1.0)
    swept, compared = own_parameter.chart("messages").y, point.chart("messages").x
    assert swept.is_log and compared.is_log
    assert not own_parameter.chart("max_stretch").y.is_log


def test_a_file_names_own_metrics_that_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_scenario().save(tmp_path / "scenario.toml")
    module = "def half(result):\n    return result.makespan / 2\n"
    (tmp_path / "sweep_metrics.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    names = '["makespan", "sweep_metrics:half", "share=sweep_metrics:half"]'
    (tmp_path / "s.toml").write_text(FILE.replace('["makespan"]', names).replace("= 3", "= 1"))
    with pytest.raises(gs.ScenarioError, match="metrics must not name code that is not allowed, got 'sweep_"):
        Sweep.from_toml(tmp_path / "s.toml")
    result = Sweep.from_toml(tmp_path / "s.toml", imports=["sweep_metrics:half"], over={}).run()
    values = result.table()
    assert result.metrics == ("makespan", "half", "share")
    assert values["half"].tolist() == values["share"].tolist() == (values["makespan"] / 2).tolist()
    for name, message in (("sweep_metrics:none", "AttributeError"), ("json:__name__", "must be a function")):
        with pytest.raises(gs.ScenarioError, match=f"^metrics.*{message}"):
            sweep(small_scenario(), SCHEDULERS, {}, replicates=1, metrics=[name])
