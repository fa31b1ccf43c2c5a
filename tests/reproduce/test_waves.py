from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gridsim.cli.main import cli
from gridsim.model.faults import Faults
from gridsim.reproduce.framework import Run
from gridsim.reproduce.others import waves
from gridsim.schedulers import MODES

pytestmark = pytest.mark.slow


def invoke(*arguments):
    return CliRunner().invoke(cli, ["reproduce", *map(str, arguments)])


@pytest.fixture
def hosts(tmp_path):
    """Return a trace of a hundred hosts over three days and an hour, most of them up from 9 to 17 h."""
    days = [f"{day * 86_400 + 9 * 3600} {day * 86_400 + 17 * 3600 + 600}" for day in range(3)]
    lines = [f"h{u} 3 {' '.join(days)}" for u in range(98)]
    path = tmp_path / "hosts.avt"
    path.write_text("\n".join([*lines, "always 1 0 262800", "late 1 0 262800", "never 0"]) + "\n")
    return path


def test_the_night_of_a_trace_is_as_computed_by_hand(hosts):
    """Hosts are up for eight hours and ten minutes from hour 9 on, and all leave in hour 17."""
    seen = waves.hours_of(str(hosts))
    assert seen.up[[0, 9, 16]].tolist() == pytest.approx([0.02, 1.0, 1.0])
    assert seen.up[17] == pytest.approx(0.02 + 0.98 / 6)
    assert seen.night(waves.MOST_HOSTS_UP) == 9 and seen.in_night(waves.MOST_HOSTS_UP) == pytest.approx(
        (1.0, 0.0)
    )
    assert seen.go.nonzero()[0].tolist() == [17] and seen.go[17] == pytest.approx(0.98 / seen.up[17])
    assert seen.night(waves.FEWEST_DEPARTURES) == 0 and seen.in_night(waves.FEWEST_DEPARTURES)[1] == 0.0


def test_the_night_contains_an_hour_in_which_hosts_are_up(tmp_path):
    """No host leaves after 10 h, as none is up then."""
    path = tmp_path / "hosts.avt"
    path.write_text("a 2 0 34200 86400 120600\nb 1 3600 7200\nlate 1 172800 172801\n")
    seen = waves.hours_of(str(path))
    assert seen.up[10:].tolist() == [0.0] * 14
    assert seen.night(waves.FEWEST_DEPARTURES) == 17  # 0 h is the last of the eight hours of this night
    assert (
        seen.in_night(waves.FEWEST_DEPARTURES) == pytest.approx((1 / 24, 0.0))
        and seen.night(waves.MOST_HOSTS_UP) == 0
    )


def test_a_quick_run_uses_the_hosts_of_a_trace(hosts, tmp_path, monkeypatch):
    monkeypatch.setattr(waves, "COSTS", (0.0, 300.0))
    monkeypatch.setattr(waves, "LINGER_TIMES", (0.0, 3600.0))
    monkeypatch.setattr(waves, "NODES", (600, 24))
    answer = invoke(
        "waves", "--quick", "--seeds", 1, "--workers", 1, "--json", "--availability", hosts, "--out", tmp_path
    )
    assert answer.exit_code == 0, answer.output
    (report,) = json.loads(answer.stdout)["reproductions"]
    assert {row["verdict"] for row in report["rows"]} == {"undecided"} and len(report["rows"]) == 12
    assert list(report["grids"][0]["rows"]) == list(MODES)
    assert "are up: eight hours from hour 9 of its days on, 1.000 and 0.0000" in report["remarks"][-1]
    names = sorted(path.name for path in (tmp_path / "waves" / "scenarios").iterdir())
    assert names == [
        f"{load}-24-{night}.toml" for load in ("heavy", "light") for night in ("fewest-go", "most-up")
    ]


def test_a_quick_run_on_drawn_hosts_shows_the_effect_of_waves(monkeypatch):
    monkeypatch.setattr(waves, "COSTS", (300.0,))
    monkeypatch.setattr(waves, "LINGER_TIMES", (0.0, 28_800.0))
    monkeypatch.setattr(waves, "NODES", (600, 48))
    report = waves.WAVES.run(Run([1], quick=True))
    assert len(report.rows) == 12 and len(report.grids) == 8
    influence = [row.measured.mean for row in report.rows if "worst wait" in row.quantity]
    assert min(influence) > 1.2
    moves = {name: cells[2].mean for name, cells in report.grids[2].rows.items()}
    assert moves["wave-immediate"] < 0.7 * moves[waves.BASE]  # where hosts are up for 40 % of the day


def test_scenarios_depend_only_on_the_seed():
    make = waves.WorldHosts(48, "light", 0.4)
    assert make(3) == make(3) != make(4)
    assert make(3).faults == Faults.zones(3, day_up=0.4) and make.name == "light-48-day40"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one 1 0 1", "a.avt: the trace must last at least a day, got 1 s"),
        ("a 1 0 86399\nnever 1 1 1", "a.avt: the trace must last at least a day, got 86399 s"),
        ("x 1 -5 -3", "a.avt: the trace must last at least a day, got -3 s"),
        ("x 1 172800 172801", "a.avt: a host must be up in the 2 whole days of the trace, got none"),
    ],
)
@pytest.mark.filterwarnings("ignore::gridsim.errors.TraceWarning")
def test_traces_without_a_night_are_rejected_before_the_runs(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(waves, "_measure", None)
    path = tmp_path / "a.avt"
    path.write_text(f"{text}\n")
    answer = invoke("waves", "--quick", "--workers", 1, "--availability", path)
    assert answer.exit_code == 2 and answer.stderr.endswith(f"{message}\n"), answer.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["waves", "--speeds", "x.csv"], "waves does not support --speeds and --log"),
        (["waves", "--availability", "a", "--log", "b"], "waves does not support --speeds and --log"),
        (["waves", "--availability", "a"], "a: No such file"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    answer = invoke(*arguments)
    assert answer.exit_code == 2 and message in answer.stderr, answer.output
