"""Results, checkpoints and stores with changes that no digest covers: one clear error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import GridSimError
from gridsim.results.metrics.registry import METRICS
from gridsim.simulation.checkpoint import Checkpoint
from gridsim.studies.execution.store import Store
from gridsim.support.provenance import sha256
from tests._helpers.archives import change_archive
from tests._helpers.checkpoints import edit_checkpoint

pytestmark = pytest.mark.slow

COMMANDS = (
    ["repro"], ["validate"], ["plot", "--kind", "gantt", "--figure", "x.png"], ["report", "--out", "x.html"],
    ["export", "--format", "perfetto", "--out", "x.json"], ["why"],
)  # fmt: skip


@pytest.fixture
def recorded_result(scenario: gs.Scenario, tmp_path: Path) -> Path:
    """Return the path of a result with all records."""
    gs.simulate(scenario, gs.MinCent(), record="all").save(tmp_path / "recorded_result.npz")
    return tmp_path / "recorded_result.npz"


@pytest.mark.parametrize(("part", "key", "value"), [("about", "every", -1.0), ("options", "threads", 10**9)])
def test_errors_in_a_checkpoint_name_its_file(
    scenario: gs.Scenario, tmp_path: Path, part: str, key: str, value: Any
) -> None:
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)

    def put(document: Any) -> None:
        (document["about"] if part == "about" else document["about"][part])[key] = value

    edit_checkpoint(file, put)
    with pytest.raises(GridSimError, match=f"^{re.escape(str(file))}: .*{key}"):
        gs.resume(file)


@pytest.mark.parametrize(
    "change",
    [
        {"scenario": 7}, {"scenario": [1]}, {"files": []}, {"files": {"a": 1}}, {"message_log": []},
        {"message_log": {"left_out": "x"}}, {"decisions": 5}, {"decisions": {"words": 5}},
        {"decisions": {"words": {}, "dropped": None}}, {"wall_seconds": "x"}, {"peak_memory": "x"},
        {"clock_seconds": []}, {"gridcore": 1}, {"numpy": None}, {"seed": "x"}, {"resumed": 0.5},
        {"numpy": "2.0\nbad.npz: the same digest, 0"}, {"python": "\x1b[2J"}, {"system": "x" * 300},
        {"peak_memory": 10**400}, {"peak_memory": -1}, {"message_log": {"left_out": -5}},
        {"files": {"a": "b"}},
        {"decisions": {"words": {}, "dropped": 2**63}}, {"gridcore": "1\n"},
    ],
)  # fmt: skip
def test_provenance_of_wrong_types_is_rejected(recorded_result: Path, change: Any) -> None:
    key = next(iter(change))
    change_archive(recorded_result, edit_json=lambda answers: answers["provenance"].update(change))
    with pytest.raises(
        GridSimError, match=rf"recorded_result.npz: not a valid result file \(Expected .*\$\.{key}"
    ):
        gs.Result.load(recorded_result)


@pytest.mark.parametrize("missing", ["words", "dropped"])
def test_decisions_with_a_missing_field_are_rejected(recorded_result: Path, missing: str) -> None:
    change_archive(recorded_result, edit_json=lambda answers: answers["provenance"]["decisions"].pop(missing))
    with pytest.raises(
        GridSimError, match=rf"recorded_result.npz: .*missing required field `{missing}`.*decisions"
    ):
        gs.Result.load(recorded_result)


@pytest.mark.parametrize("command", [*COMMANDS, ["repro"]])
def test_an_error_of_an_invalid_scenario_names_the_file_of_its_result(
    recorded_result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """A command may read several files, so that an error must name the file."""
    monkeypatch.chdir(tmp_path)
    change_archive(
        recorded_result,
        edit_json=lambda answers: answers["provenance"].update(scenario="[workload]\nfile = 7\n"),
    )
    answer = CliRunner().invoke(cli, [*command, "recorded_result.npz", *["0"] * (command == ["why"])])
    if answer.exit_code or command in (["validate"], ["repro"]):
        output = answer.stderr.splitlines()
        assert (
            answer.exit_code == 2
            and len(output) == 1
            and output[0].startswith("gridsim: recorded_result.npz: ")
        )


def test_commands_handle_a_result_without_provenance(
    recorded_result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands succeed, or fail with one line."""
    monkeypatch.chdir(tmp_path)
    change_archive(recorded_result, edit_json=lambda answers: answers.update(provenance={}))
    for command in COMMANDS:
        answer = CliRunner().invoke(cli, [*command, "recorded_result.npz", *["0"] * (command == ["why"])])
        assert answer.exit_code in (0, 2), (command, answer.exception)
        if answer.exit_code:
            assert answer.stderr.startswith("gridsim: ") and answer.stderr.count("\n") == 1
    assert CliRunner().invoke(cli, ["repro", "recorded_result.npz"]).stderr == (
        "gridsim: recorded_result.npz: the result does not contain its scenario\n"
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "{tasks:0300000000}", "{tasks:.99999999}", "{tasks:{machine}}", "{tasks.__class__}", "{tasks[0]}",
        "{tasks!r}", "{}", "{0}", "{nothing}", "{", "{tasks:999,}", "{tasks:>99}",
    ],
)  # fmt: skip
def test_invalid_decision_texts_in_a_result_are_rejected(recorded_result: Path, sentence: str) -> None:
    def words(document: Any) -> None:
        every = document["provenance"]["decisions"]["words"]
        every |= {action: [sentence, "", ""] for action in every}

    answer = CliRunner().invoke(cli, ["why", str(change_archive(recorded_result, edit_json=words)), "0"])
    assert answer.exit_code == 2 and answer.stderr.startswith(f"gridsim: {recorded_result}: decision_words[")
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("part", "value"), [("faults", True), ("updates", None), ("updates", [1]), ("list", [1]), ("sizes", {})]
)
def test_a_checkpoint_with_values_of_wrong_types_is_rejected(
    scenario: gs.Scenario, tmp_path: Path, part: str, value: Any
) -> None:
    """Any value of the state may have another type."""
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)

    def put(state: Any) -> None:
        for key in state if isinstance(state, dict) else range(len(state)) if isinstance(state, list) else ():
            if key == part:
                state[key] = value
            else:
                put(state[key])

    edit_checkpoint(file, lambda document: put(document["state"]))
    try:
        gs.resume(file)
    except GridSimError as error:
        assert "not a valid checkpoint" in str(error)


@pytest.mark.parametrize("name", ["/proc/self/pagemap", "/etc/hostname", ""])
def test_a_checkpoint_that_names_other_files_is_rejected(
    scenario: gs.Scenario, tmp_path: Path, name: str
) -> None:
    """The files of a checkpoint are hashed as a whole, and some files have no end."""
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)
    edit_checkpoint(file, lambda document: document["about"].update(files={name: "0" * 64}))
    with pytest.raises(GridSimError, match=f"^'{name}' must be read by the scenario, as at the start"):
        gs.resume(file)


@pytest.mark.skipif(not os.path.exists("/proc/self/pagemap"), reason="needs /proc/self/pagemap of Linux")
def test_endless_files_are_rejected_when_hashed() -> None:
    with pytest.raises(OSError, match="the file has more bytes than its size"):
        sha256("/proc/self/pagemap")


def test_an_assertion_error_in_a_resumed_run_names_the_checkpoint(
    scenario: gs.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run"
    gs.simulate(scenario, gs.FairTree(), checkpoint=file, checkpoint_every=0.0)

    def fails(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("gridsim.simulation.simulate.Simulation.run", fails)
    with pytest.raises(GridSimError, match=r"run: not a valid checkpoint \(AssertionError: \)"):
        gs.resume(file)
    monkeypatch.setattr("gridsim.simulation.simulate.Simulation.checkpoint_to", fails)
    with pytest.raises(GridSimError, match=r"run: not a valid checkpoint \(AssertionError: \)"):
        gs.resume(file)
    with Checkpoint(file) as kept:
        assert kept.header.scheduler.name == "fair-tree"


def test_invalid_keys_of_a_store_are_rejected(recorded_result: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    shutil.copy(recorded_result, tmp_path / "outside.npz")
    for key in ("../../outside", str(tmp_path / "outside"), "", "x", "A" * 64, "a" * 63):
        with pytest.raises(GridSimError, match="^store: a key"):
            store.result(key)
    with pytest.raises(GridSimError, match="there is no result of aaa"):
        store.result("a" * 64)


@pytest.mark.parametrize("target", ["there", "nowhere"])
@pytest.mark.parametrize(
    "part",
    ["store.json", "cells", "scenarios", "results", "cells/0.parquet", "scenarios/0.parquet", "result"],
)
def test_links_in_a_store_are_not_followed(
    scenario: gs.Scenario, tmp_path: Path, part: str, target: str
) -> None:
    """Files outside of the store are neither read, written nor removed."""

    def study(store: Store) -> None:
        gs.sweep(scenario, {"fcfs": gs.Fcfs()}, {}, replicates=1, store=store)

    study(store := Store(tmp_path / "store", keep_results=True))
    (key,) = store.to_arrow()["key"].to_pylist()
    link = store.path / part if part != "result" else store.result_file(key)
    there = tmp_path / "there"
    if link.exists():
        link.rename(there)
    else:
        there.write_text("mine")
    before = sorted(path.name for path in there.iterdir()) if there.is_dir() else there.read_bytes()
    link.symlink_to(tmp_path / target)
    with pytest.raises(GridSimError, match=f"{link.name}: must be in the store itself, got a symbolic link"):
        study(Store(tmp_path / "store", keep_results=True))
    assert before == (sorted(path.name for path in there.iterdir()) if there.is_dir() else there.read_bytes())
    assert not (tmp_path / "nowhere").exists()


def _varint(number: int, length: int = 0) -> bytes:
    """Return `number` as in the footer of a Parquet file (zigzag, compact), in at least `length` bytes."""
    rest, message = number << 1, bytearray()
    while rest >= 128 or len(message) + 1 < length:
        message.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*message, rest])


def test_shards_that_unpack_to_too_many_bytes_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text that rows share is once in the file, but many times in memory."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    store = Store(tmp_path / "store")
    shard = store.path / "cells" / "0.parquet"
    monkeypatch.setattr("gridsim.studies.execution.shards.memory", lambda: 40 << 20)
    rows = 200
    long = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 100_000]))
    keys = pa.array(["a"] * rows)
    pq.write_table(pa.table({"key": keys, "error": long}), shard, store_schema=False)
    assert shard.stat().st_size < 20_000
    with pytest.raises(GridSimError, match=r"its unpacked size is 20 MB, above the limit of 10\.4858 MB"):
        store.to_arrow()
    many = pa.table({"key": pa.array(["a"]).take(pa.array(np.zeros(2_000_000, np.int8)))})
    pq.write_table(many, shard, row_group_size=2_000_000)
    assert shard.stat().st_size < 1 << 17
    too_much = r"its unpacked size is 16 MB, above the limit of 10\.4858 MB"
    with pytest.raises(GridSimError, match=too_much):
        len(store)
    # change the file: the total states one row, but the row group still states many
    assert pq.read_metadata(shard).num_rows == 2_000_000
    content = shard.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    shard.write_bytes(content[:start] + content[start:].replace(_varint(2_000_000), _varint(1, 4), 1))
    assert pq.read_metadata(shard).num_rows == 1
    assert pq.read_metadata(shard).row_group(0).num_rows == 2_000_000
    with pytest.raises(GridSimError, match=too_much):
        len(store)
    monkeypatch.setattr(
        "pyarrow.parquet.ParquetFile.read", None
    )  # these files are rejected because of their schema, without being read
    for other, kind in ((long, "string"), (pa.array([[0.0] * 1000] * rows), "list<.*double>")):
        pq.write_table(pa.table({"key": keys, "more": other}), shard, store_schema=False)
        with pytest.raises(
            GridSimError, match=rf"not a valid shard of a store \(more must be of type double, got {kind}\)"
        ):
            len(store)


@pytest.fixture
def shard(scenario: gs.Scenario, tmp_path: Path) -> Path:
    """Return the path of the shard of a store with one run, whose name states no SHA-256 of its content."""
    store = Store(tmp_path / "store")
    gs.sweep(scenario, {"met": gs.Met()}, {}, replicates=1, store=store)
    file = next((store.path / "cells").glob("*.parquet"))
    return file.rename(file.with_stem("0" * 32))


@pytest.mark.parametrize("column", ["parameters", "code", "digest", "error", "scheduler", "key"])
def test_invalid_utf_8_in_shards_is_rejected(shard: Path, column: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(shard)
    ends = np.arange(len(table) + 1, dtype=np.int32).tobytes()
    texts = pa.Array.from_buffers(
        pa.string(), len(table), [None, pa.py_buffer(ends), pa.py_buffer(b"\xff" * len(table))]
    )
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, texts), shard)
    with pytest.raises(GridSimError, match=rf"{shard.name}: not a valid shard of a store .*UTF8"):
        Store(shard.parents[1]).find(["x"])


@pytest.mark.parametrize("column", ["error", "key", "makespan"])
def test_a_duplicate_column_in_a_shard_is_rejected(shard: Path, column: str) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(shard)
    pq.write_table(table.append_column(column, table[column]), shard)
    with pytest.raises(
        GridSimError, match=rf"{shard.name}: not a valid shard of .*two columns have the same"
    ):
        Store(shard.parents[1]).find(["x"])


@pytest.mark.parametrize(
    "column",
    [
        "key", "error", "digest", "code", "scheduler", "class", "parameters", "scenario", "seed",
        "time_limit", "wall_seconds",
    ],
)  # fmt: skip
def test_shards_without_required_values_are_rejected(shard: Path, column: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(shard)
    index, kind = table.schema.get_field_index(column), table.schema.field(column).type
    for other in (
        table.set_column(index, column, pa.nulls(len(table), kind)),
        table.drop_columns([column]),
    ):
        pq.write_table(other, shard)
        with pytest.raises(
            GridSimError, match=rf"{shard.name}: not a valid shard of .* rows without {column}"
        ):
            Store(shard.parents[1]).to_arrow()


def test_optional_values_may_be_missing_in_a_row(shard: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(shard)
    index = table.schema.get_field_index("peak_memory")
    pq.write_table(table.set_column(index, "peak_memory", pa.nulls(len(table), "int64")), shard)
    assert Store(shard.parents[1]).to_arrow()["peak_memory"].to_pylist() == [None]


@pytest.mark.parametrize("column", METRICS)
def test_metrics_missing_in_a_row_are_left_out_or_nan(
    shard: Path, column: str, scenario: gs.Scenario
) -> None:
    """The same holds for metrics that take too long to compute."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(shard)
    index = table.schema.get_field_index(column)
    pq.write_table(table.set_column(index, column, pa.nulls(len(table), "double")), shard)
    actual = gs.sweep(scenario, {"met": gs.Met()}, {}, replicates=1, store=shard.parents[1])
    assert column not in actual.metrics or np.isnan(actual.at()[column]["met"]).all()
    assert actual.format() and actual.to_dict()["cells"]


def test_damaged_footers_of_shards_raise_errors(shard: Path) -> None:
    """The test runs in a separate process, as uncaught errors of pyarrow once ended it."""
    code = """
import sys
from pathlib import Path
from gridsim.errors import GridSimError
from gridsim.studies.execution.store import Store
shard = Path(sys.argv[1])
sound = shard.read_bytes()
start, refused = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little"), 0
for at in range(start, start + 400):
    shard.write_bytes(sound[:at] + b"\\x7f" + sound[at + 1 :])
    try:
        Store(shard.parents[1]).find(["x"])
    except GridSimError as error:
        refused += f"{shard.name}: not a valid shard" in str(error)
print(refused)
"""
    process = subprocess.run(
        [sys.executable, "-c", code, str(shard)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=shard.parent,  # outside of the source tree, in which the package may not be compiled
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and int(process.stdout) > 50, process.stderr


def test_a_stored_result_of_another_run_is_rejected(scenario: gs.Scenario, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", keep_results=True)
    gs.sweep(scenario, {"fcfs": gs.Fcfs(), "met": gs.Met()}, {}, replicates=1, store=store)
    one, other = (store.result_file(key) for key in store.to_arrow()["key"].to_pylist())
    assert store.result(one.stem).digest != store.result(other.stem).digest
    shutil.copy(one, other)
    with pytest.raises(
        GridSimError, match=f"{other.name}: the digest must be [0-9a-f]+, as in the store, got [0-9a-f]+"
    ):
        store.result(other.stem)


def test_reports_and_plots_accept_file_names_with_invalid_utf_8(
    recorded_result: Path, tmp_path: Path
) -> None:
    odd = recorded_result.rename(tmp_path / "caf\udce9.npz")
    for command in (["report", "--out", "x.html"], ["plot", "--kind", "distribution", "--figure", "x.png"]):
        out = [*command[:-1], str(tmp_path / command[-1])]
        answer = CliRunner().invoke(cli, [*out, str(odd)])
        assert answer.exit_code == 0, answer.output
        assert (tmp_path / command[-1]).stat().st_size
    assert r"caf\udce9" in (tmp_path / "x.html").read_text()


def test_multi_line_errors_in_a_store_are_printed_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = gs.Scenario(gs.Platform.of([1.0]), gs.Workload.of([0.0], [1], [1.0]))

    def fails(*_: Any, **__: Any) -> Any:
        raise GridSimError("x")

    store = Store(tmp_path / "store")
    monkeypatch.setattr("gridsim.studies.execution.cell.simulate", fails)
    monkeypatch.setattr(
        "gridsim.studies.execution.cell._error_text", lambda *_: "evil\nline\x1b[31m", raising=False
    )
    gs.sweep(scenario, {"fcfs": gs.Fcfs()}, {}, replicates=1, store=store)
    message = str(gs.sweep(scenario, {"fcfs": gs.Fcfs()}, {}, replicates=1, store=store))
    lines = message.splitlines()
    assert ["failed: " in line for line in lines].count(True) == 1 and not any(
        line.startswith("line") for line in lines
    )


def test_a_scenario_with_invalid_utf_8_is_not_saved(tmp_path: Path) -> None:
    log = tmp_path / "n\udcff.swf"
    log.write_text("1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n")
    scenario = gs.Scenario(gs.Platform.of([1.0]), gs.Workload.from_log(log))
    with pytest.raises(
        gs.ScenarioError,
        match=r"strings of a scenario, such as names of files, must be valid UTF-8, got '\\udcff'",
    ):
        scenario.save(tmp_path / "s.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n\udcff.swf"]


def test_studies_of_too_many_runs_are_rejected() -> None:
    answer = CliRunner().invoke(cli, ["compare", "--nodes", "5", "--replicates", "30000000"])
    assert answer.exit_code == 2 and "replicates must be" in answer.stderr and "10000000" in answer.stderr
    answer = CliRunner().invoke(cli, ["compare", "--nodes", "5", "--replicates", "9999999"])
    assert answer.exit_code == 2 and "replicates must make at most 10000000 runs" in answer.stderr
