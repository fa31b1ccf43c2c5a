from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim import plots
from gridsim.cli.commands.reproduce import (
    MODULES,
    PROBE_EXPERIMENTS,
    REAL_DESKTOPS,
    RIGID_EXPERIMENTS,
    reproduction,
)
from gridsim.cli.main import cli
from gridsim.reproduce.celaya import table1 as celaya_table1
from gridsim.reproduce.dgs import coallocation
from gridsim.reproduce.dgs import common as dgs_common
from gridsim.reproduce.dgs import fig4 as dgs_fig4
from gridsim.reproduce.dgs import fig6 as dgs_fig6
from gridsim.reproduce.dgs.common import Jobs
from gridsim.reproduce.framework import (
    Log,
    Make,
    Report,
    Row,
    Run,
    conclude,
    failing,
    judge,
    latest_update,
    near,
    per_doubling,
    scenario,
    sign,
)
from gridsim.reproduce.written import write
from gridsim.results.metrics.estimates import MIN_SEEDS, Estimate, estimate
from gridsim.results.table import Table
from gridsim.scheduling.description import describe
from gridsim.scheduling.overlays import random_neighbours
from gridsim.support.processes import executor_of
from gridsim.support.random_streams import Streams

pytestmark = pytest.mark.slow


def invoke(*arguments):
    return CliRunner().invoke(cli, ["reproduce", *map(str, arguments)])


def wrong(*arguments):
    found = invoke(*arguments)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    return found.stderr


# -- the command ------------------------------------------------------------------------------------------


def test_the_flag_list_prints_all_experiments():
    found = invoke("--list")
    assert found.exit_code == 0
    for name in MODULES:
        assert f"{name}: {reproduction(name).TITLE}" in found.stdout
    listed = json.loads(invoke("--list", "--json").stdout)["reproductions"]
    assert [entry["name"] for entry in listed] == list(MODULES)
    assert all(entry["seeds"] >= MIN_SEEDS for entry in listed)
    assert [entry["name"] for entry in listed if not entry["claims"]] == ["celaya-loss"]


def test_every_experiment_has_a_name_seeds_title_and_figure():
    for name in MODULES:
        this = reproduction(name)
        assert name == this.NAME and len(this.SEEDS) == 2 and this.TITLE and this.figure


def test_a_quick_run_writes_its_files_and_marks_its_verdicts(tmp_path):
    arguments = ("celaya-table1", "--quick", "--seeds", 1, "--workers", 1, "--out", tmp_path, "--no-progress")
    found = invoke(*arguments)
    assert found.exit_code == 0, found.output
    folder = tmp_path / "celaya-table1"
    scenarios = [f"{kind}-100-{what}.toml" for kind in "uv" for what in ("fetching", "recording")]
    names = ["figure.png", *(f"scenarios/{name}" for name in scenarios), "table.json", "table.md"]
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert sorted(path.as_posix() for path in files) == names
    assert (folder / "table.md").read_text() in found.stdout
    assert found.stdout.count("**undecided (quick)** (") == len(celaya_table1.CLAIMS)
    assert "| undecided (quick) | wanted 95..100; no interval: n = 1 |" in found.stdout
    assert "Values of one seed: there are no intervals." in found.stdout
    assert all(str(folder / name) in found.stdout for name in names)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    table = json.loads((folder / "table.json").read_text())
    assert table["seeds"] == [1] and table["quick"] is True
    assert [claim["claim"] for claim in table["claims"]] == list(celaya_table1.CLAIMS)
    assert {claim["verdict"] for claim in table["claims"]} == {"undecided"}
    for ran in table["runs"]:
        assert gs.Scenario.from_toml(folder / ran["scenario"]).platform.nodes == 100
        for column in ran["values"].values():
            assert [len(values) for values in column.values()] == [1] * len(ran["schedulers"])
    before = {name: (folder / name).read_bytes() for name in names}
    again = json.loads(invoke(*arguments, "--json").stdout)["reproductions"]
    assert {k: v for k, v in again[0].items() if k != "files"} == table
    assert {name: (folder / name).read_bytes() for name in names} == before  # equal runs, equal files


def test_commands_in_the_written_table_give_its_values(tmp_path, monkeypatch):
    how = Run([3, 4], quick=True)
    schedulers = {"a": gs.FairTree(samples=(4, 3, 2), bound=1.25, run_on=True), "b": gs.MinCent(mode="once")}
    how.replicate(Make("K2", 10, failing), schedulers)
    report = Report((3, 4), True, [])
    this = SimpleNamespace(NAME="n", TITLE="t", CLAIMS=(), figure=lambda report: plots.figure()[0])
    write(this, report, how.ran, tmp_path)
    monkeypatch.chdir(tmp_path / "n")
    [ran] = json.loads(Path("table.json").read_text())["runs"]
    assert ran["scenario"] == "scenarios/k2-10-failing.toml"
    for label, scheduler in schedulers.items():
        of = ran["schedulers"][label]
        assert of["parameters"] == json.loads(json.dumps(describe(scheduler)["parameters"]))
        words = shlex.split(of["command"])
        assert words[0] == "gridsim"
        done = CliRunner().invoke(cli, [*words[1:], "--json"])
        assert done.exit_code == 0, done.output
        value = json.loads(done.stdout)["max_stretch"]
        assert value == ran["values"]["max_stretch"][label][0] != ran["values"]["max_stretch"][label][1]


def test_the_number_of_workers_does_not_change_the_report():
    this, made = reproduction("celaya-fig4b"), []
    for workers in (1, 2):
        with executor_of(workers) as executor:
            assert (executor is None) == (workers == 1)
            made.append(this.run(Run([1, 2], quick=True, executor=executor)))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "NAME must be one of celaya-fig4a"),
        (
            ("celaya-fig5",),
            "unknown experiment 'celaya-fig5'; did you mean celaya-fig4b? known: celaya-fig4a",
        ),
        (("celaya-fig4b", "--seeds", 0), "--seeds must be a whole number in 1..1000000, got 0"),
        (("celaya-fig4b", "--seeds", -3), "--seeds must be"),
        (("celaya-fig4b", "--workers", 0), "--workers must be"),
        (("celaya-fig4b", "--out", ""), "--out must name a folder"),
        (("celaya-fig4b", "--list"), "--list does not support a name"),
        (("celaya-fig4b", "--log", "jobs.swf"), "celaya-fig4b does not support --log"),
        (("all", "--log", "jobs.swf"), "celaya-fig4a runs bags of tasks"),
        (("dgs-fig5", "--procs-per-node", 8), "--procs-per-node requires --log FILE"),
        (("dgs-fig5", "--log", "jobs.swf", "--procs-per-node", 0), "--procs-per-node must be a whole number"),
        (("dgs-fig5", "--log", "jobs.swf"), "jobs.swf"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, said):
    assert said in wrong(*arguments)


def test_out_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert "--out must name a folder" in wrong("celaya-fig4b", "--out", tmp_path / "file")
    under = tmp_path / "file" / "under"
    assert "--out must name a folder that can be made" in wrong("celaya-fig4b", "--out", under)


def test_a_missing_extra_is_reported_before_the_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "gridsched[plot]"' in wrong("celaya-fig4b", "--out", tmp_path)


def test_importing_the_command_loads_neither_numpy_scipy_nor_matplotlib():
    heavy = "('scipy', 'matplotlib', 'numpy')"
    code = f"import sys, gridsim.cli.main; print([m for m in {heavy} if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(gs.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stderr


# -- verdicts ---------------------------------------------------------------------------------------------


def interval(low, high, seeds=10):
    return Estimate((low + high) / 2, low, high, seeds)


@pytest.mark.parametrize(
    ("measured", "verdict", "why"),
    [
        (interval(1.1, 1.2), "reproduced", "within"),
        (interval(1.1, 1.25), "reproduced", "within"),
        (interval(1.2, 1.3), "undecided", "straddles"),
        (interval(1.26, 1.3), "not reproduced", "above"),
        (interval(0.5, 0.9), "not reproduced", "below"),
        (interval(1.1, 1.2, seeds=4), "undecided", "fewer than 5 seeds"),
        (interval(1.1, 1.1, seeds=5), "reproduced", "within"),
        (interval(1.1, 1.1, seeds=2), "undecided", "fewer than 5 seeds"),
        (estimate([1.1]), "undecided", "no interval: n = 1"),
        (None, "cannot be compared", "not recorded"),
    ],
)
def test_verdicts_follow_from_intervals(measured, verdict, why):
    row = judge("c", "q", "p", measured, 1.0, 1.25)
    assert row.verdict == verdict and why in row.why


def test_near_accepts_a_quarter_on_either_side():
    assert near("c", "q", 4.0, interval(3.0, 5.0)).verdict == "reproduced"
    assert near("c", "q", 4.0, interval(2.9, 5.0)).verdict == "undecided"
    assert near("c", "q", 4.0, interval(5.1, 5.2)).why == "wanted 3..5; the interval lies above"


@pytest.mark.parametrize(
    ("rows", "verdict", "why"),
    [
        (["reproduced"], "reproduced", "because"),
        (["reproduced", "", "cannot be compared"], "reproduced", "because"),
        (["reproduced", "reproduced"], "reproduced", "2 rows: 2 reproduced"),
        (["undecided", "undecided"], "undecided", "2 rows: 2 undecided"),
        (
            ["undecided", "reproduced", "undecided"],
            "partly reproduced",
            "3 rows: 2 undecided, 1 reproduced",
        ),
        (["not robust", "undecided"], "not reproduced", "2 rows: 1 not robust, 1 undecided"),
        (["cannot be compared"] * 2, "cannot be compared", "2 rows: 2 cannot be compared"),
        ([""], "cannot be compared", "not measured"),
    ],
)
def test_the_verdict_of_a_claim_follows_from_its_rows(rows, verdict, why):
    made = [Row("claim", "q", "p", None, "", each, "because") for each in rows]
    made.append(Row("another", "q", "p", None, "", "not reproduced", "of another claim"))
    assert conclude("claim", made) == ("claim", verdict, why)


def test_the_value_per_doubling_is_the_slope_of_each_seed():
    sizes = (50, 100, 200, 400)
    times = [[1.0 + 0.5 * i, 3.0 - i] for i in range(4)]
    assert per_doubling(sizes, times) == pytest.approx([0.5, -1.0])


def test_scenarios_have_the_speeds_and_sizes_of_the_papers():
    for kind, speeds in (("K1", (1000.0, 2800.0)), ("K2", (1000.0, 3000.0)), ("U", (1000.0, 3000.0))):
        what = Make(kind, 200)(4)
        assert what == scenario(kind, 200, 4)
        given = what.workload.realize(what.platform)
        assert len(given) == 100 and given.tasks.min() >= 1600 and given.tasks.max() <= 2400
        assert (what.platform.speeds.min(), what.platform.speeds.max()) == speeds
        assert (given.task_size.min() < given.task_size.max()) == (kind == "K2")


def test_link_use_is_a_percentage_or_missing():
    result = gs.simulate(Make("U", 100, celaya_table1.recording)(1), gs.FairTree())
    for metric in (celaya_table1.mean_use, celaya_table1.peak_1s, celaya_table1.peak_10s):
        assert math.isnan(metric(result)) or 0.0 < metric(result) < 200.0
    columns = {"use_mean": [0.01, 0.03], "use_peak_1s": [0.2, 0.3], "use_peak_10s": [0.1, 0.05]}
    recorded = SimpleNamespace(machines=Table(columns))
    assert celaya_table1.mean_use(recorded) == pytest.approx(2.0)
    assert celaya_table1.peak_1s(recorded) == pytest.approx(30.0)
    assert celaya_table1.peak_10s(recorded) == pytest.approx(10.0)
    assert 95.0 < celaya_table1.summary_share(result) < 100.0
    assert 0.5 < latest_update(result) < 5.0


# -- of rigid jobs ----------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    """Return a log of 400 jobs on 1 to 16 processors, two of which are submitted every 6 minutes."""
    jobs = [
        f"{n + 1} {n // 2 * 360} 0 {60 + n * 7} {1 + n % 16} -1 -1 {1 + n % 16} 5000 -1 1 7"
        for n in range(400)
    ]
    file = tmp_path / "small.swf"
    file.write_text("".join(f"{job} 1 1 1 1 -1 -1\n" for job in jobs))
    return file


@pytest.mark.parametrize("name", RIGID_EXPERIMENTS)
def test_quick_reproductions_of_rigid_jobs_have_verdicts(name, tmp_path):
    arguments = (name, "--quick", "--seeds", 1, "--workers", 1, "--out", tmp_path, "--no-progress")
    found = invoke(*arguments)
    assert found.exit_code == 0, found.output
    folder = tmp_path / name
    table = json.loads((folder / "table.json").read_text())
    assert all(claim["verdict"] and claim["why"] for claim in table["claims"])
    assert all(row["why"] for row in table["rows"] if row["verdict"])
    assert any(row["paper"] for row in table["rows"]) and table["remarks"]
    assert (folder / "table.md").read_text() in found.stdout
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "scenarios").iterdir())
    for ran in table["runs"]:
        assert gs.Scenario.from_toml(folder / ran["scenario"]).network.interfaces == "equal"


@pytest.mark.parametrize("name", ["dgs-table2", "dgs-fig6"])
def test_an_experiment_runs_jobs_of_a_log(name, log, tmp_path):
    arguments = (name, "--quick", "--seeds", 1, "--workers", 1, "--out", tmp_path, "--no-progress")
    found = invoke(*arguments, "--log", log, "--procs-per-node", 4)
    assert found.exit_code == 0, found.output
    assert "Jobs of small.swf, 4 processors a node: a window of it for each seed" in found.stdout
    [*_, ran] = json.loads((tmp_path / name / "table.json").read_text())["runs"]
    assert ran["scenario"].startswith("scenarios/small-")
    made = gs.Scenario.from_toml(tmp_path / name / ran["scenario"])
    assert made.workload.realize(made.platform).tasks.max() == 4


def test_dgs_whole_runs_all_jobs_of_a_log(log, tmp_path):
    """All 400 jobs are run, at their own times and compressed."""
    arguments = ("dgs-whole", "--seeds", 1, "--workers", 1, "--out", tmp_path, "--no-progress", "--json")
    found = invoke(*arguments, "--log", log, "--procs-per-node", 2)
    assert found.exit_code == 0, found.output
    [table] = json.loads(found.stdout)["reproductions"]
    assert "Jobs of small.swf, 2 processors a node: all of it" in table["remarks"][0]
    own, high, alone = [
        gs.Scenario.from_toml(tmp_path / "dgs-whole" / ran["scenario"]) for ran in table["runs"]
    ]
    submitted = [each.workload.realize(each.platform).release for each in (own, high, alone)]
    assert [len(each) for each in submitted] == [400] * 3
    assert submitted[0][-1] == 199 * 360 > submitted[1][-1] and alone.network.latency == 0
    asked = [row for row in table["rows"] if "one submission at a time" in row["quantity"]]
    assert len(asked) == 2 and all(row["measured"]["mean"] == 0 for row in asked)


def test_a_log_without_jobs_is_rejected(tmp_path):
    (tmp_path / "none.swf").write_text("; nothing\n")
    assert "no jobs in this log" in wrong("dgs-fig5", "--log", tmp_path / "none.swf")


def test_windows_of_a_log_are_drawn_by_seed(log):
    what = Jobs(100, 50, 0.5, log=Log(str(log), 2))
    starts = set()
    for seed in range(1, 6):
        made = what(seed)
        assert made == what(seed)
        given = made.workload.realize(made.platform)
        assert 49 <= len(given) <= 51 and given.tasks.max() == 8  # two jobs share a second
        span = given.release[-1]
        assert given.size.sum() / (100 * span * made.platform.speeds[0]) == pytest.approx(0.5)
        starts.add(made.workload.recipe.start)
    assert len(starts) == 5
    whole = Jobs(100, 400, 0.5, log=Log(str(log)))(1)
    assert len(whole.workload.realize(whole.platform)) == 400


def test_windows_that_are_too_short_are_drawn_again():
    submit = np.concatenate([np.zeros(900), np.arange(100) * 600.0])
    for seed in range(20):
        start, end = dgs_common._window(submit, 50, seed)
        assert end - start >= dgs_common.SHORTEST
    assert dgs_common._window(np.zeros(60), 50, 1) == (0.0, math.inf)


def test_jobs_of_a_day_can_be_submitted_one_at_a_time_or_in_part():
    day = Jobs(200, 300)
    given = day(3).workload.realize(day(3).platform)
    assert (given.release[0], given.release[-1]) == (0.0, pytest.approx(86_400))
    apart = Jobs(200, 300, alone=True)(3)
    assert apart.network.latency == 0
    alone = apart.workload.realize(apart.platform)
    assert np.diff(alone.release).min() > 0.9e-3 and np.abs(alone.release - given.release).max() < 1
    assert (alone.tasks == given.tasks).all() and (alone.submitter == given.submitter).all()
    assert alone.size == pytest.approx(given.size)
    for name in ("push", "pull"):
        result = gs.simulate(apart, gs.DgsAsap(policy=name))
        assert dgs_common.refused(result) == dgs_common.refusals(result) == 0
    half = Jobs(200, 300, part=(1, 2))(3)
    early = half.workload.realize(half.platform)
    assert (early.release == given.release[given.release <= 43_200]).all()
    assert len({what.name for what in (day, Jobs(200, 300, alone=True), Jobs(200, 300, part=(1, 2)))}) == 3


def test_numbers_of_schedules_follow_from_searches_and_changes():
    made = Jobs(300, 200, 0.9)(1)
    for policy in ("push", "pull"):
        result = gs.simulate(made, gs.DgsAsap(policy=policy))
        searches = dgs_common.searched(result) * 200
        if policy == "pull":
            pulled = 20 * 5 * searches * (1 + dgs_common.opened(result))
            assert dgs_common.exchanged(result) == pytest.approx(pulled)
        else:
            changes = 200 * (dgs_common.nodes(result) + 2 * dgs_common.cancelled(result))
            assert dgs_common.exchanged(result) == pytest.approx(20 * changes, rel=0.1)
            retrieved = 20 * 5 * searches * dgs_common.opened(result)
            assert dgs_common.retrieved(result) == pytest.approx(retrieved)
    polled = gs.simulate(made, gs.DgsAsap(policy="poll"))
    expected = 300 * 20 * dgs_common.span(polled) / 120
    assert dgs_common.polled(polled) == pytest.approx(expected, rel=0.01)
    centralized = gs.simulate(made, gs.Asap())
    for name, metric in dgs_common.METRICS.items():
        assert math.isnan(metric(centralized)) == (
            name
            in ("schedules", "retrieved", "per node", "opened", "searched", "refused", "refusals", "again")
        )


def test_the_curves_of_figure_4_contain_all_the_work():
    result = gs.simulate(Jobs(300, 200, 0.9)(2), gs.DgsAsap())
    curves = dgs_fig4.curves(result)
    assert curves.ru.sum() == pytest.approx(curves.eu.sum()) == pytest.approx(curves.ideal.sum())
    assert curves.edges[curves.submissions] == pytest.approx(dgs_common.span(result))
    assert dgs_fig4.peak(result) <= 100 + 1e-9


def test_dgs_fig6_has_a_nonnegative_cost_for_each_part_of_the_time():
    report = dgs_fig6.run(Run([1], quick=True))
    last = next(each for each in report.data["costs"].values())
    assert len(last) == dgs_fig6.PARTS and (last >= 0).all()


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 2.0, 3.0, 1.0, 0.1], "reproduced"),
        ([1.0, 2.0, -3.0, 1.0, 0.1], "not robust"),
        ([-1.0, -2.0, -3.0, -1.0, 0.0], "not reproduced"),
        ([1.0, 2.0, 3.0, 1.0], "undecided"),
    ],
)
def test_verdicts_on_signs_count_the_seeds(values, verdict):
    row = sign("c", "q", "p", np.array(values))
    assert row.verdict == verdict and f"of {len(values)} seeds" in row.why


# -- at length --------------------------------------------------------------------------------------------


@pytest.mark.claims
@pytest.mark.parametrize("name", MODULES)
def test_a_quick_run_of_every_experiment_succeeds(name, tmp_path, request):
    files = []
    if name == REAL_DESKTOPS:
        traces = request.getfixturevalue("traces")
        files += ["--availability", traces / "microsoft99-a/microsoft-a.avt.gz"]
        files += ["--speeds", traces / "boinc-hosts-open/seti_hosts.csv"]
        files += ["--log", traces / "lcg2005-a/LCG-2005-a.swf.gz"]
    if name in PROBE_EXPERIMENTS:
        files += ["--trace", request.getfixturevalue("traces") / "probe-jobs/YH1_sub.tr.gz"]
    found = invoke(name, "--quick", "--out", tmp_path, "--no-progress", "--workers", 2, *files)
    assert found.exit_code == 0, found.output


@pytest.mark.claims
def test_table_1_is_reproduced_with_five_seeds():
    report = reproduction("celaya-table1").run(Run(range(1, 6)))
    times = [row for row in report.rows if row.quantity.startswith("maximum update time")]
    assert [row.verdict for row in times] == ["reproduced"] * 5


@pytest.mark.claims
def test_figure_4b_is_reproduced_with_ten_seeds():
    report = reproduction("celaya-fig4b").run(Run(range(1, 11)))
    assert [row.verdict for row in report.rows[:2]] == ["reproduced", "reproduced"]


def test_messages_of_floods_and_jobs_are_as_computed_by_hand(monkeypatch):
    """A flood of two hops costs 8 + 8 x 8 messages; DGS_ASAP is charged for the schedules, not for upkeep."""
    monkeypatch.setattr(coallocation, "HOPS", (1, 2))
    monkeypatch.setattr(coallocation, "FLOODED", 300)
    assert coallocation.floods(repeats=True) == {1: 8, 2: 72}
    # a flood to the end misses who is nobody's neighbour: with seed 9 node 188, with seed 8 nobody
    overlay = random_neighbours(300, 8, Streams(9)("zorilla overlay"))
    assert np.setdiff1d(np.arange(300), overlay).tolist() == [188]
    assert [coallocation.unreached(seed) for seed in (8, 9)] == [0, 1]
    scenario = Jobs(20, 5, 0.3, widest=4)(1)
    dgs = gs.simulate(scenario, coallocation.SCHEDULERS[coallocation.DGS])
    schedules = dgs.tables["exchanges"]["schedules"].sum()
    assert coallocation.messages(dgs) == (dgs.messages["sent"].sum() + schedules) / 5
    sites = gs.simulate(scenario, coallocation.SCHEDULERS[coallocation.META])
    assert coallocation.messages(sites) + coallocation.upkeep(sites) == sites.messages["sent"].sum() / 5
