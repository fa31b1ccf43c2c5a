"""Results whose tables say what cannot be: machines that are none, what is no character, too few columns."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.result_args import display_errors
from gridsim.errors import GridSimError, ScenarioError
from tests._helpers.archives import changed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result with messages, in which all is recorded."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 2000.0, 500.0]), gs.Workload.of([0.0, 1.0], [6, 3], [5e2] * 2)
    )
    path = tmp_path_factory.mktemp("sound") / "sound.npz"
    gs.simulate(scenario, gs.FairTree(samples=(3, 2, 2)), record="all").save(path)
    return path


def planted(sound: Path, to: Path, place: str, value: Any) -> Path:
    """A copy in which the last number of TABLE.COLUMN is `value`, or the column, if that is an array."""
    to.write_bytes(sound.read_bytes())
    member = "tables/{}/{}.npy".format(*place.split("."))
    with zipfile.ZipFile(sound) as archive:
        column = np.load(io.BytesIO(archive.read(member)))
    if isinstance(value, np.ndarray):
        column = value
    else:
        column[-1] = value
    stream = io.BytesIO()
    np.save(stream, column, allow_pickle=False)
    return changed(to, {member: stream.getvalue()})


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("schedule.application", 2, r"schedule\.application\[\d+\] must be in 0\.\.1, got 2"),
        ("schedule.application", -1, r"schedule\.application\[\d+\] must be in 0\.\.1, got -1"),
        ("schedule.machine", 3, r"schedule\.machine\[\d+\] must be in 0\.\.2, got 3"),
        ("arrivals.machine", -1, r"arrivals\.machine\[\d+\] must be in 0\.\.2, got -1"),
        ("message_log.receiver", 2**31, r"message_log\.receiver\[\d+\] must be in 0\.\.2, got 2147483648"),
        ("message_log.application", -2, r"message_log\.application\[\d+\] must be in -1\.\.1, got -2"),
        ("decisions.decider", 3, r"decisions\.decider\[\d+\] must be in -1\.\.2, got 3"),
        ("applications.submitter", 3, r"applications\.submitter\[1\] must be in -1\.\.2, got 3"),
        ("applications.size", -np.inf, r"applications\.size\[1\] must be finite and > 0, got -inf"),
        ("machines.speed", 0.0, r"machines\.speed\[2\] must be finite and > 0, got 0\.0"),
        ("traffic.level", 2**62, r"traffic\.level\[\d+\] must be in 0\.\.64, got 4611686018427387904"),
    ],
)
def test_records_that_refer_to_missing_rows_are_rejected(
    sound: Path, tmp_path: Path, place: str, value: Any, said: str
) -> None:
    file = planted(sound, tmp_path / "bad.npz", place, value)
    with pytest.raises(GridSimError, match=rf"bad\.npz: not a sound result file \(.*({said})"):
        gs.Result.load(file)


@pytest.mark.parametrize("table", ["schedule", "arrivals", "decisions", "message_log", "traffic"])
def test_missing_columns_are_rejected(sound: Path, tmp_path: Path, table: str) -> None:
    for column in gs.Result.load(sound).tables[table]:
        file = tmp_path / f"{column}.npz"
        file.write_bytes(sound.read_bytes())
        changed(file, about=lambda told, column=column: told["tables"][table].remove(column))
        with pytest.raises(
            GridSimError, match=f"not a sound result file .*{table} must have a column '{column}'"
        ):
            gs.Result.load(file, verify=False)


@pytest.mark.parametrize("code", [0x110000, 2**31, 0xD800, 0xDFFF])
def test_invalid_characters_in_texts_are_rejected(sound: Path, tmp_path: Path, code: int) -> None:
    count = len(gs.Result.load(sound).tables["messages"])
    text = np.full(count, ord("x"), np.uint32)
    text[-1] = code
    file = planted(sound, tmp_path / "bad.npz", "messages.kind", text.view("<U1"))
    with pytest.raises(GridSimError, match="^column 'kind'"):
        gs.Result.load(file, verify=False)
    file.write_bytes(sound.read_bytes())
    changed(file, about=lambda told: told["scheduler"]["parameters"].update(update_on="\ud800"))
    with pytest.raises(GridSimError, match="not a sound result file .*surrogates not allowed"):
        gs.Result.load(file, verify=False)


def test_commands_report_a_bad_file_on_one_line(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a digest that fits, and contents that no check looks for; and with one that is not looked at."""
    monkeypatch.chdir(tmp_path)
    planted(sound, tmp_path / "bad.npz", "schedule.application", 99)
    for command in (["validate", "bad.npz"], ["why", "bad.npz", "0"]):
        done = CliRunner().invoke(cli, command)
        assert done.exception is None or isinstance(done.exception, SystemExit), command
        assert done.exit_code in (0, 1)
    said = r"^a\.npz: cannot be displayed \(IndexError: index 9 is out of bounds"
    with pytest.raises(GridSimError, match=said), display_errors(["a.npz"]):
        np.zeros(3)[9]
    with pytest.raises(ScenarioError, match=r"^a\.npz: of it$"), display_errors(["a.npz"]):
        raise ScenarioError("of it")
    with pytest.raises(GridSimError, match=r"^as a\.npz is$"), display_errors(["a.npz"]):
        raise GridSimError("as a.npz is")


def test_a_scenario_text_in_a_result_is_not_read_as_a_path(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gs.Result.load(sound).scenario.save("other.toml")
    file = tmp_path / "bad.npz"
    for name in ("other.toml", "/etc/passwd"):
        file.write_bytes(sound.read_bytes())
        changed(file, about=lambda told, name=name: told["provenance"].update(scenario=name))
        with pytest.raises(GridSimError, match="^<scenario>:1: "):
            _ = gs.Result.load(file).scenario
