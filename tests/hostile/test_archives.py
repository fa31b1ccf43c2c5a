"""Malicious or damaged results, checkpoints and stores: one clear error, and nothing is loaded."""

from __future__ import annotations

import copy
import errno
import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.errors import GridSimError
from gridsim.results.archive import Reader, _memory_bound, _without_strings
from gridsim.scheduling.registry import make_scheduler
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.studies.execution.store import Store
from gridsim.validation.results import validate_result
from tests._helpers.archives import change_archive, npy, rewrite_size
from tests._helpers.checkpoints import edit_checkpoint

pytestmark = pytest.mark.slow

BUSY = "tables/machines/busy.npy"


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (npy([1.0], shape=(10**12,)), "must match its header, (1000000000000,) of float64, got 8 bytes"),
        (npy([1.0], shape=(2**62, 2**62)), "must match its header"),
        (npy([1.0], shape=(-1,)), "must match its header, (-1,) of"),
        (npy([1.0, 2.0], shape=(-2, -1)), "must match its header, (-2, -1) of"),
        (npy(shape=(10**12,), descr="<U0"), "must match its header, (1000000000000,) of"),
        (npy(shape=(10**12,), descr="|V0"), "must match its header, (1000000000000,) of"),
        (npy([1.0, 2.0], shape=(1,)), "must match its header, (1,) of float64, got 16 bytes"),
        (npy([1.0], descr="|O"), "plain values, got objects"),
        (npy([1.0], descr=[("a", "<f8")]), "must be one-dimensional and contain numbers or text"),
        (npy([1.0, 2.0], shape=(1, 2)), "must be one-dimensional and contain numbers or text"),
        (npy([1.0, 2.0], descr="<M8[s]"), "must be one-dimensional and contain numbers or text"),
        (npy([1.0]).replace(b"'<f8'", b"exit()"), "machines/busy.npy must have a valid header"),
        (npy([1.0]).replace(b"'<f8'", b"(((((("), "not a valid result file"),
        (npy([1.0]).replace(b"NUMPY\x01", b"NUMPY\x03"), "must be 1.0 or 2.0, got (3, 0)"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "not a valid result file"),
        (b"", "not a valid result file"),
    ],
)
def test_invalid_headers_of_arrays_are_rejected(file: Path, member: bytes, expected: str) -> None:
    """Memory is allocated only if the header matches the size of the member."""
    with pytest.raises(GridSimError) as error:
        gs.Result.load(change_archive(file, {BUSY: member}))
    message = str(error.value)
    assert expected in message and message.startswith(f"{file}: ") and message.isprintable()


def test_a_header_nested_too_deeply_for_the_parser_is_rejected(file: Path) -> None:
    """The parser raises a MemoryError for such a header."""
    text = b"-" * 9000 + b"1\n"
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with pytest.raises(GridSimError, match="not a valid result file .*header"):
        gs.Result.load(change_archive(file, {BUSY: header}))


def test_arrays_of_any_byte_and_axis_order_give_equal_results(file: Path, result: gs.Result) -> None:
    busy = result.machines["busy"]
    swapped = npy(busy.view(np.uint64).byteswap().view(np.float64), descr=">f8", fortran=True)
    assert gs.Result.load(change_archive(file, {BUSY: swapped})).digest == result.digest
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", npy(np.arange(6.0), shape=(2, 3), fortran=True))
    with open(file, "rb") as stream, Reader(stream) as read:
        assert read.array("a.npy").tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


class MaliciousObject:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["npy", "whole", "json"])
def test_pickles_are_never_loaded(file: Path, tmp_path: Path, kind: str) -> None:
    """The pickle would create a folder if it were loaded."""
    harm = pickle.dumps(np.array([MaliciousObject(tmp_path / "harm")], object))
    with pytest.raises(GridSimError):
        if kind == "npy":
            gs.Result.load(change_archive(file, {BUSY: npy(shape=(1,), descr="|O") + harm}))
        elif kind == "whole":
            file.write_bytes(harm)
            gs.Result.load(file)
        else:
            change_archive(file, {"result.json": harm})
            gs.Result.load(file)
    assert not (tmp_path / "harm").exists()
    pickle.loads(harm)
    assert (tmp_path / "harm").exists()  # unpickling the harmful content does create the folder


def test_members_with_a_false_size_are_rejected(file: Path) -> None:
    full_run = file.read_bytes()
    for size in (0, 8, 2**32 - 2):
        file.write_bytes(full_run)
        with pytest.raises(GridSimError, match="not a valid result file"):
            gs.Result.load(rewrite_size(file, BUSY, size))


def test_archives_larger_than_the_memory_when_unpacked_are_rejected(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_archive(file, {f"more/{k}.npy": bytes(1 << 24) for k in range(16)})
    assert file.stat().st_size < 1 << 20
    monkeypatch.setattr("gridsim.results.archive.memory", lambda: 200 << 20)
    with pytest.raises(
        GridSimError, match=r"unpacking requires 285\.\d+ MB of memory, but this machine has 209\.715 MB"
    ):
        gs.Result.load(file)


def test_a_second_reference_to_a_member_is_rejected(tmp_path: Path) -> None:
    """Otherwise many references to one array could fill the memory from a few bytes."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(np.zeros(1 << 17)))
    with open(tmp_path / "a.zip", "rb") as stream, Reader(stream) as read:
        assert len(read.array("a.npy")) == 1 << 17
        with pytest.raises(ValueError, match="must have a member a.npy that is referenced exactly once"):
            read.array("a.npy")


def test_members_of_the_same_name_are_rejected(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(BUSY, npy([7.0, 7.0]))
    with pytest.raises(GridSimError, match="members must have different names"):
        gs.Result.load(file)


def test_overlapping_members_are_rejected(file: Path) -> None:
    """Overlapping members unpack to much more than the size of the file."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("tables/machines/a.npy", npy(np.random.default_rng(1).random(10_000)))
        other = copy.copy(archive.getinfo("tables/machines/a.npy"))
        other.filename = "tables/machines/b.npy"
        archive.filelist.append(other)
    with pytest.raises(GridSimError, match="members must not overlap"):
        gs.Result.load(file)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "C:\\x", "a\0b", "x" * 300, "", "a.b", 7, None])
def test_invalid_names_of_tables_are_rejected_and_create_no_files(
    file: Path, tmp_path: Path, name: Any
) -> None:
    members = {f"tables/machines/{name}.npy": npy([1.0, 2.0])} if isinstance(name, str) else {}
    before = sorted(tmp_path.iterdir())
    change_archive(file, members, lambda metadata: metadata["tables"]["machines"].append(name))
    if name == "x" * 300:  # a long name of letters is valid
        with pytest.raises(GridSimError, match="states digest"):
            gs.Result.load(file)
    else:
        with pytest.raises(GridSimError, match="not a valid result file"):
            gs.Result.load(file)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "edit_json",
    [
        lambda answers: answers.update(tables=[]),
        lambda answers: answers.update(tables={"machines": 5}),
        lambda answers: answers["tables"].update(machines=["busy", "busy"] * 3),
        lambda answers: answers.update(facts={"x": [[]] * 3}, digest=5),
        lambda answers: answers.update(format=10**400 if hasattr(sys, "set_int_max_str_digits") else 7),
        lambda answers: answers.clear(),
    ],
)
def test_invalid_metadata_of_a_result_are_rejected(file: Path, edit_json: Any) -> None:
    with pytest.raises(GridSimError):
        gs.Result.load(change_archive(file, edit_json=edit_json))


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("applications/finish", "applications.finish must be float, got"),
        ("schedule/machine", "schedule.machine must be int, got"),
        ("messages/kind", "messages.kind must be text, got"),
    ],
)
def test_columns_of_the_wrong_type_are_rejected(file: Path, member: str, expected: str) -> None:
    with zipfile.ZipFile(file) as archive:
        rows = np.load(archive.open(f"tables/{member}.npy")).shape[0]
    content = npy(np.zeros((rows + 1) // 2), shape=(rows,), descr="<f4")[: 128 + 4 * rows]
    if member == "applications/finish":
        content, expected = npy(np.zeros(rows), descr="<i8"), "applications.finish must be float, got int64"
    with pytest.raises(GridSimError, match=expected):
        gs.Result.load(change_archive(file, {f"tables/{member}.npy": content}), verify=False)


def test_validation_reports_implausible_values(file: Path) -> None:
    """A scenario of the wrong type is an error instead."""
    content = npy(np.full(2, 1e300), shape=(2,))
    violations = validate_result(change_archive(file, {"tables/machines/speed.npy": content}))
    assert violations and all(str(item).isprintable() for item in violations)
    change_archive(file, edit_json=lambda answers: answers["provenance"].update(scenario=7))
    with pytest.raises(GridSimError):
        validate_result(file)


def test_json_nested_too_deeply_is_rejected(file: Path) -> None:
    with pytest.raises(GridSimError, match="not a valid result file"):
        gs.Result.load(change_archive(file, {"result.json": b"[" * 100_000}))


def test_json_with_more_values_than_fit_into_memory_is_rejected(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value takes more memory than bytes in the file, even under a key that is not used."""

    def add_values(document: dict[str, Any]) -> None:
        document.update(more=[[]] * (1 << 19))
        document["provenance"]["scenario"] += "# " + ',[{"\\' * (1 << 20)  # the scenario is one string

    # noise makes the file large enough to pass the check of its compression ratio
    change_archive(file, {"more/noise.npy": np.random.default_rng(1).bytes(1 << 18)}, add_values)
    with pytest.raises(GridSimError, match=r"result.json must have at most 1048576 values, got 10\d{5}"):
        gs.Result.load(file)
    change_archive(file, edit_json=lambda document: document.pop("more"))
    gs.Result.load(file, verify=False)
    monkeypatch.setattr("gridsim.results.archive.memory", lambda: 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", json.dumps([[]] * (1 << 14)))
        archive.writestr("b.json", json.dumps([[]] * (1 << 12)))
    with open(tmp_path / "a.zip", "rb") as stream, Reader(stream) as read:
        with pytest.raises(
            ValueError, match=r"a.json requires 2\.\d+ MB of memory, but this machine has 1\.\d+ MB"
        ):
            read.json("a.json")
        assert len(read.json("b.json")) == 1 << 12


#: Pieces of JSON that take much memory for their bytes, and characters that take up to four bytes each.
UNITS = {
    "objects": lambda k: '{"a":0}',
    "objects of new keys": lambda k: f'{{"{k:05}":0}}',
    "arrays": lambda k: "[]",
    "arrays of one": lambda k: "[[0]]",
    "empty objects": lambda k: "{}",
    "texts": lambda k: '"aa"',
    "letters": lambda k: '"\u0101"',
    "more letters": lambda k: '"\U0001f600"',
    "numbers": lambda k: "999",
    "floats": lambda k: "1.5",
    "digits": lambda k: "9" * 40,
    "one text": lambda k: "0" if k else '"\U0001f600' + "a" * 100_000 + '"',
}


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("keyed", [False, True])
def test_json_takes_at_most_the_bound_on_its_memory(unit: Callable[[int], str], keyed: bool) -> None:
    """The bound is at least the measured peak, and not many times as large."""
    parts = [f'"{k}":{unit(k)}' if keyed else unit(k) for k in range(20_000)]
    text = ("{%s}" if keyed else "[%s]") % ",".join(parts)
    tracemalloc.start()
    json.loads(text)
    peak = tracemalloc.get_traced_memory()[1] + sys.getsizeof(text)
    tracemalloc.stop()
    assert peak <= _memory_bound(text, _without_strings(text)) <= 12 * peak


def test_members_with_an_unsupported_compression_are_rejected(file: Path) -> None:
    """Other methods than deflate may unpack to millions of times the size."""
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more/a.npy", bytes(1 << 24), zipfile.ZIP_BZIP2)
    with pytest.raises(GridSimError, match="more/a.npy must be stored or deflated"):
        gs.Result.load(file)


@pytest.mark.parametrize(
    "harm",
    [
        {"list": [{"array": 0}] * 100_000},
        {"array": "../../x"},
        {"array": -1},
        {"arrays": 5},
        {"generator": {"bit_generator": "PCG64", "state": {"state": 10**400, "inc": -1}}},
        {"set": [{"list": []}]},
        {"SimpleNamespace": [["x"]]},
        {"os.system": ["true"]},
        {},
        [],
        None,
    ],
)
def test_invalid_states_of_checkpoints_are_rejected(scenario: gs.Scenario, tmp_path: Path, harm: Any) -> None:
    path = tmp_path / "run.checkpoint"
    simulation = Simulation(scenario, make_scheduler("mincent"), Options())
    save(path, simulation, simulation.checkpoint_header(600.0))

    def edit_json(document: Any) -> None:
        document["state"]["state"]["engine"] = harm

    if isinstance(harm, dict) and "generator" in harm:  # Python limits the digits of a number in JSON
        sys.set_int_max_str_digits(0)
    try:
        edit_checkpoint(path, edit_json)
    finally:
        sys.set_int_max_str_digits(4300)
    with pytest.raises(GridSimError, match="not a valid checkpoint"), Checkpoint(path) as kept:
        kept.restore(Simulation(scenario, make_scheduler("mincent"), Options()))


@pytest.mark.parametrize(
    ("array", "count"),
    [
        (npy([0.0] * 65536), 1000),
        (npy([1.0], shape=(10**12,)), 1),
        (npy([1.0], shape=(2**62, 2**62)), 1),
        (npy([1.0, 2.0], shape=(-2, -1)), 1),
        (npy(shape=(10**12,), descr="<U0"), 1),
        (npy([1.0], descr="|O"), 1),
        (npy([1.0])[:-1], 1),
    ],
)
def test_arrays_of_a_checkpoint_take_no_more_memory_than_its_file(
    scenario: gs.Scenario, tmp_path: Path, array: bytes, count: int
) -> None:
    path = tmp_path / "run.checkpoint"
    simulation = Simulation(scenario, make_scheduler("mincent"), Options())
    save(path, simulation, simulation.checkpoint_header(600.0))

    def change(document: Any) -> None:
        document["state"]["state"]["engine"] = {"list": [{"array": document["more"][0]}] * count}

    edit_checkpoint(path, change, more=(array,))
    tracemalloc.start()
    with pytest.raises(GridSimError, match="checkpoint: not a valid checkpoint"), Checkpoint(path) as kept:
        kept.restore(Simulation(scenario, make_scheduler("mincent"), Options()))
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_read_error_at_the_end_of_a_file_is_raised_as_an_os_error() -> None:
    """Without the end, which has the directory, a file cannot be recognised as an archive."""

    class FailingStream(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 1:
                raise OSError(errno.EIO, "Input/output error", "file")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error: 'file'"):
        Reader(FailingStream(bytes(1000)))


def test_a_damaged_description_of_a_store_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    Store(folder)
    for text in (
        b"[" * 50_000,
        b"\xff",
        b"7",
        b'{"gridsim store": "\x1b"}',
        b'{"gridsim store": true}',
        b'{"gridsim store": 1' + b" " * (1 << 16) + b"}",
    ):
        (folder / "store.json").write_bytes(text)
        with pytest.raises(GridSimError) as error:
            Store(folder)
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("folder", "columns", "expected"),
    [
        ("cells", {"key": [1]}, "key must be of type string, got int64"),
        ("cells", {"key": [["a"]]}, "key must be of type string, got list"),
        ("cells", {"key": ["a"], "error": [5]}, "error must be of type string, got int64"),
        ("cells", {"key": ["a"], "makespan": ["x"]}, "makespan must be of type double, got string"),
        ("cells", {"key": ["a"], "own": ["x"]}, "own must be of type double, got string"),
        ("cells", {"seed": [1]}, "key"),
        ("scenarios", {"scenario": ["n"], "toml": [5]}, "toml must be of type string, got int64"),
        ("scenarios", {"scenario": ["n"]}, "toml"),
    ],
)
def test_shards_with_invalid_columns_are_rejected(
    tmp_path: Path, folder: str, columns: Any, expected: str
) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    store = Store(tmp_path / "store")
    parquet.write_table(arrow.table(columns), tmp_path / "store" / folder / "a.parquet")
    query: Any = store.find if folder == "cells" else store.scenario
    with pytest.raises(GridSimError, match=f"a.parquet: not a valid shard of a store .*{expected}"):
        query("n")
