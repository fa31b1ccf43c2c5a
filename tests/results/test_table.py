from __future__ import annotations

import json
import math
import os
import re
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from gridsim.results.table import Table, digest, frozen
from gridsim.support.files import atomic_file
from gridsim.support.text import plain, to_json


def test_a_table_has_columns_and_rows():
    table = Table({"x": [1, 2, 3], "name": ["a", "bb", ""], "y": np.array([0.5, math.nan, 2.0])})
    assert len(table) == 3 and list(table.keys()) == list(table) == ["x", "name", "y"] and "x" in table
    assert table["x"].tolist() == [1, 2, 3] and table[0] == {"x": 1, "name": "a", "y": 0.5}
    assert [row["name"] for row in table.rows()] == ["a", "bb", ""]
    assert type(table[-1]["x"]) is int
    assert table == Table(dict(table.items())) != Table({"x": [1, 2, 3]})
    with pytest.raises(ValueError):
        table["x"][0] = 5
    with pytest.raises(KeyError, match="no column 'z'; known: x, name, y"):
        table["z"]
    with pytest.raises(IndexError):
        table[3]
    assert table[1:] == Table({name: column[1:] for name, column in table.items()}) and not len(table[3:])


def test_a_list_or_mask_of_rows_selects_a_table():
    table = Table({"x": [1, 2, 3], "name": ["a", "bb", ""]})
    assert table[[2, 0]]["x"].tolist() == [3, 1] and table[np.array([-1])]["name"].tolist() == [""]
    assert table[table["x"] > 1] == table[[False, True, True]] == table[1:] and len(table[[]]) == 0
    assert table[np.int32(1)] == table[1]
    for key, message in (
        ([0, 3], r"^rows must be in -3\.\.2, got 3$"),
        ([True, False], "^a mask must have 3 entries, one per row, got 2$"),
    ):
        with pytest.raises(IndexError, match=message):
            table[key]
    for key in ((0, 1), 1.0, [0.5], ["x"], [[0], [1, 2]], None, True):
        with pytest.raises(TypeError, match="^the index of a table must be the name of a column, .*, got "):
            table[key]


def test_a_table_copies_its_columns():
    column = np.zeros(3)
    table = Table({"x": column})
    column[:] = 1
    assert table["x"].tolist() == [0, 0, 0]


def test_a_table_shares_read_only_columns():
    column = frozen(np.zeros(3))
    assert Table({"x": column})["x"] is column
    below = np.zeros(3)
    seen = below[:]
    seen.flags.writeable = False  # the view is read-only, but the owner may still write to the array
    table = Table({"x": seen})
    below[:] = 1
    assert table["x"].tolist() == [0, 0, 0]


def test_the_repr_of_a_table_has_a_few_rows():
    text = repr(Table({"x": np.arange(1000), "y": np.arange(1000) / 3}))
    assert text.splitlines()[0].split() == ["x", "y"]
    assert "333.0" not in text and "332.667" in text and "[1000 rows x 2 columns]" in text
    assert len(text.splitlines()) == 13
    assert "[0 rows x 0 columns]" in repr(Table({}))


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [1], "y": [1, 2]},
        {"x": [[1]]},
        {"x": [object()]},
        {"x": [1j]},
        {"a b": [1]},
        {"../x": [1]},
        {"": [1]},
    ],
)
def test_invalid_tables_are_rejected(columns):
    with pytest.raises(ValueError):
        Table(columns)


def test_the_error_of_to_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"gridsched\[data\]"):
        Table({"x": [1]}).to_pandas()


def test_the_digest_depends_on_values_names_and_types():
    base = digest({"t": Table({"x": [1, 2], "n": ["a", "b"]})}, {"f": 1})
    same = [
        digest({"t": Table({"n": ["a", "b"], "x": np.array([1, 2], ">i8")})}, {"f": 1}),
        digest({"t": Table({"n": np.array(["a", "b"], "U9"), "x": [1, 2]})}, {"f": np.int64(1)}),
    ]
    other = [
        digest({"t": Table({"x": [1, 2], "n": ["a", "b"]})}, {"f": 1.0}),
        digest({"t": Table({"x": [1, 2], "n": ["a", "c"]})}, {"f": 1}),
        digest({"t": Table({"x": [1.0, 2.0], "n": ["a", "b"]})}, {"f": 1}),
        digest({"t": Table({"y": [1, 2], "n": ["a", "b"]})}, {"f": 1}),
        digest({"s": Table({"x": [1, 2], "n": ["a", "b"]})}, {"f": 1}),
    ]
    assert set(same) == {base} and len({base, *other}) == 6


def test_the_digest_does_not_distinguish_nans_or_signed_zeros():
    strange = np.array([0xFFF8_0000_0000_0001, 0x8000_0000_0000_0000], np.uint64).view(np.float64)
    assert digest({"t": Table({"x": strange})}, {}) == digest({"t": Table({"x": [math.nan, 0.0]})}, {})


def test_the_digest_of_a_known_table_never_changes():
    """A digest in a paper must remain valid."""
    table = Table({"kind": ["request", "a"], "sent": [3, 4], "share": [0.1, math.inf]})
    assert digest({"messages": table}, {"bound": 2.0, "name": "x"}) == KNOWN


KNOWN = "94af9884794964904020d5177c43b3b6e4f5a009427ad57e904913ef3ba259c2"


def test_values_are_converted_to_plain_ones_and_strict_json():
    arguments = {"a": np.float64(1.5), "b": [np.int32(2), None, True], "c": np.array([1.0, math.inf]), 3: "x"}
    assert plain(arguments) == {"a": 1.5, "b": [2, None, True], "c": [1.0, math.inf], "3": "x"}
    assert type(plain(np.float64(1.5))) is float
    assert json.loads(to_json(arguments))["c"] == [1.0, None]
    with pytest.raises(TypeError):
        plain({"x": object()})


def test_the_folder_of_an_atomic_file_is_synced_after_the_renaming(tmp_path, monkeypatch):
    synced = []

    def sync(descriptor):
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "x").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    with atomic_file(tmp_path / "x") as stream:
        stream.write(b"new")
    assert synced == [(False, False), (True, True)]


def test_an_atomic_file_is_written_completely_or_not_at_all(tmp_path):
    path = tmp_path / "x"
    with atomic_file(path) as stream:
        stream.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as stream:
        stream.write(b"two")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"one" and os.listdir(tmp_path) == ["x"]
    with pytest.raises(FileNotFoundError, match="absent/x'"), atomic_file(tmp_path / "absent" / "x"):
        pass
    with pytest.raises(OSError, match="not a regular file"), atomic_file(tmp_path):
        pass


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_no_file(tmp_path, monkeypatch, links):
    """A file that was created meanwhile is not overwritten if the disk has hard links."""

    def refuse_link(*_):
        raise PermissionError("no links here")

    if not links:
        monkeypatch.setattr("os.link", refuse_link)
    path = tmp_path / "x"
    with atomic_file(path, new=True) as stream:
        stream.write(b"one")
    assert path.read_bytes() == b"one" and os.listdir(tmp_path) == ["x"]
    path.unlink()

    def write_concurrently():
        with atomic_file(path, new=True) as stream:
            path.write_bytes(b"another")
            stream.write(b"two")

    if links:
        with pytest.raises(FileExistsError, match=re.escape(str(path))):
            write_concurrently()
        assert path.read_bytes() == b"another"
    else:
        write_concurrently()
        assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["x"]


def test_a_symbolic_link_is_kept(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with atomic_file(tmp_path / "link") as stream:
        stream.write(b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"x"


@pytest.mark.skipif(sys.platform == "win32", reason="kill")
@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(mode)
    with atomic_file(file) as stream:
        stream.write(b"new")
    assert file.read_bytes() == b"new" and file.stat().st_mode & 0o777 == mode


def test_a_writer_killed_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    code = (
        "import sys, time\nfrom gridsim.support.files import atomic_file\n"
        f"with atomic_file({str(path)!r}) as stream:\n"
        "    stream.write(b'new')\n    stream.flush()\n    print('ready', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        process.kill()
    assert path.read_bytes() == b"old"
