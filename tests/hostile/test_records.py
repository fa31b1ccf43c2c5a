"""Results with invalid tables: unknown machines, invalid characters, missing columns."""

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
from gridsim.cli.result_args import guard_display
from gridsim.errors import GridSimError, ScenarioError
from tests._helpers.archives import change_archive

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def valid_result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a result with messages and all records."""
    scenario = gs.Scenario(
        gs.Platform.of([1000.0, 2000.0, 500.0]), gs.Workload.of([0.0, 1.0], [6, 3], [5e2] * 2)
    )
    path = tmp_path_factory.mktemp("sound") / "sound.npz"
    gs.simulate(scenario, gs.FairTree(samples=(3, 2, 2)), record="all").save(path)
    return path


def copy_with(valid_result: Path, to: Path, place: str, value: Any) -> Path:
    """Write a copy in which the last number of TABLE.COLUMN, or the column, is replaced by `value`."""
    to.write_bytes(valid_result.read_bytes())
    member = "tables/{}/{}.npy".format(*place.split("."))
    with zipfile.ZipFile(valid_result) as archive:
        column = np.load(io.BytesIO(archive.read(member)))
    if isinstance(value, np.ndarray):
        column = value
    else:
        column[-1] = value
    stream = io.BytesIO()
    np.save(stream, column, allow_pickle=False)
    return change_archive(to, {member: stream.getvalue()})


@pytest.mark.parametrize(
    ("place", "value", "expected"),
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
def test_records_with_values_out_of_range_are_rejected(
    valid_result: Path, tmp_path: Path, place: str, value: Any, expected: str
) -> None:
    file = copy_with(valid_result, tmp_path / "bad.npz", place, value)
    with pytest.raises(GridSimError, match=rf"bad\.npz: not a valid result file \(.*({expected})"):
        gs.Result.load(file)


@pytest.mark.parametrize("table", ["schedule", "arrivals", "decisions", "message_log", "traffic"])
def test_missing_columns_are_rejected(valid_result: Path, tmp_path: Path, table: str) -> None:
    for column in gs.Result.load(valid_result).tables[table]:
        file = tmp_path / f"{column}.npz"
        file.write_bytes(valid_result.read_bytes())
        change_archive(file, edit_json=lambda answers, column=column: answers["tables"][table].remove(column))
        with pytest.raises(
            GridSimError, match=f"not a valid result file .*{table} must have a column '{column}'"
        ):
            gs.Result.load(file, verify=False)


@pytest.mark.parametrize("code", [0x110000, 2**31, 0xD800, 0xDFFF])
def test_invalid_characters_in_texts_are_rejected(valid_result: Path, tmp_path: Path, code: int) -> None:
    count = len(gs.Result.load(valid_result).tables["messages"])
    text = np.full(count, ord("x"), np.uint32)
    text[-1] = code
    file = copy_with(valid_result, tmp_path / "bad.npz", "messages.kind", text.view("<U1"))
    with pytest.raises(GridSimError, match="not a valid result file"):
        gs.Result.load(file, verify=False)
    file.write_bytes(valid_result.read_bytes())
    change_archive(
        file, edit_json=lambda answers: answers["scheduler"]["parameters"].update(update_on="\ud800")
    )
    with pytest.raises(GridSimError, match="not a valid result file .*surrogates not allowed"):
        gs.Result.load(file, verify=False)


def test_commands_report_an_invalid_file_on_one_line(
    valid_result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors that no check of the file foresees are reported in the same way."""
    monkeypatch.chdir(tmp_path)
    copy_with(valid_result, tmp_path / "bad.npz", "schedule.application", 99)
    for command in (["validate", "bad.npz"], ["why", "bad.npz", "0"]):
        answer = CliRunner().invoke(cli, command)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), command
        assert answer.exit_code in (0, 1)
    expected = r"^a\.npz: cannot be displayed \(IndexError: index 9 is out of bounds"
    with pytest.raises(GridSimError, match=expected), guard_display(["a.npz"]):
        np.zeros(3)[9]
    with pytest.raises(ScenarioError, match=r"^a\.npz: of it$"), guard_display(["a.npz"]):
        raise ScenarioError("of it")
    with pytest.raises(GridSimError, match=r"^as a\.npz is$"), guard_display(["a.npz"]):
        raise GridSimError("as a.npz is")


def test_a_scenario_text_in_a_result_is_not_read_as_a_path(
    valid_result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gs.Result.load(valid_result).scenario.save("other.toml")
    file = tmp_path / "bad.npz"
    for name in ("other.toml", "/etc/passwd"):
        file.write_bytes(valid_result.read_bytes())
        change_archive(file, edit_json=lambda answers, name=name: answers["provenance"].update(scenario=name))
        with pytest.raises(GridSimError, match="^<scenario>:1: "):
            _ = gs.Result.load(file).scenario
