"""The page of promises names what holds them, and all of that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "background" / "trust.md"
if not PAGE.exists():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text()
TESTS = ROOT / "tests"
#: Folders whose files hold promises, all of them.
WHOLE = ("golden", "hostile", "kernels", "laws", "resources", "validation")

#: `laws/test_cohorts.py: some_law, another_law`, or a whole file.
_HELD = re.compile(r"`(\w+/test_\w+\.py)(?:: ([\w, ]+))?`")


def rows() -> list[tuple[str, str]]:
    """The promises and what holds them."""
    found = []
    for table in re.split(r"^\| promise \| held by \|\n\|---\|---\|\n", TEXT, flags=re.M)[1:]:
        lines = table.partition("\n\n")[0].splitlines()
        found += [tuple(line.strip("| ").split(" | ", 1)) for line in lines]
    return found


def test_every_promise_is_held_by_a_test_or_a_check() -> None:
    assert len(rows()) > 40
    for promise, held in rows():
        assert _HELD.search(held) or re.search(r"`\.ci/\w+`", held), promise


def test_what_holds_a_promise_is_there() -> None:
    for file, names in _HELD.findall(TEXT):
        defined = set(re.findall(r"^ *def test_(\w+)", (TESTS / file).read_text(), flags=re.M))
        missing = [name for name in names.split(", ") if name and name not in defined]
        assert not missing, (file, missing)
    for script in re.findall(r"`(\.ci/\w+)`", TEXT):
        assert (ROOT / script).is_file()


def test_no_file_of_laws_is_left_out() -> None:
    named = {file for file, _ in _HELD.findall(TEXT)}
    files = {f"{folder}/{path.name}" for folder in WHOLE for path in (TESTS / folder).glob("test_*.py")}
    assert files <= named, sorted(files - named)
