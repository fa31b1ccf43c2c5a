"""What the documents say of mutants adds up, and is what mutmut is told to do."""

import importlib.util
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "project" / "mutation.md"
if not PAGE.is_file():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
TEXT = PAGE.read_text()


@pytest.fixture(scope="module")
def modules():
    spec = importlib.util.spec_from_file_location("mutated", ROOT / "tests" / "mutation" / "modules.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_numbers_add_up(modules):
    for name, row in modules.table(TEXT).items():
        assert row.mutants == row.killed + row.timed_out + row.survived, name
    total, count = modules.together(TEXT), len(modules.table(TEXT))
    assert "| together | " + " | ".join(f"{number:,}" for number in total[:4]) + " | |\n" in TEXT
    said = " ".join((ROOT / "docs" / "background" / "trust.md").read_text().split())
    assert (
        f"of {total.mutants:,} mutants of {count} modules the tests kill {total.killed:,}, "
        f"{total.timed_out:,} never end, {total.survived:,} do the same as the original"
    ) in said


def test_each_mutant_that_is_left_is_explained(modules):
    """And each that timed out is listed."""
    _, left, late = re.split("## What survived, and why|## What timed out", TEXT)
    columns = re.findall(r"`(\w+)`\s\((\d+)\)", left.partition("### The type")[0])
    rows = modules.table(TEXT)
    assert counted(columns + of_lines(left)) == Counter({name: row.survived for name, row in rows.items()})
    assert counted(of_lines(late)) == Counter({name: row.timed_out for name, row in rows.items()})


def of_lines(part):
    """Module and number of each line, which says one mutant if it does not say how many."""
    return re.findall(r"^- `(\w+)\.[\w.]+`(?: \((\d+)\))?:", part, re.MULTILINE)


def counted(said):
    found = Counter()
    for name, number in said:
        found[name] += int(number or 1)
    return found


def test_a_result_is_entered_with_its_sums(modules):
    before, total = modules.table(TEXT)["measures"], modules.together(TEXT)
    page = modules.entered(TEXT, "measures", {"killed": before.killed + 1000, "timed out": 2, "survived": 3})
    after = modules.table(page)
    assert after.pop("measures")[:4] == (before.killed + 1005, before.killed + 1000, 2, 3)
    assert after == {name: row for name, row in modules.table(TEXT).items() if name != "measures"}
    now = modules.together(page)
    assert now.killed == total.killed + 1000 and f"| together | {now.mutants:,} | {now.killed:,} |" in page


def test_mutmut_is_told_the_same(modules):
    """The modules, and the tests of all of them."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    mutated = {path for pattern in told["only_mutate"] for path in ROOT.glob(pattern)}
    places = [modules.place(name) for name in (*modules.TWINS, *modules.MODEL)]
    assert mutated - {ROOT / "gridcore" / "reference" / "__init__.py"} == {path for _, path, _ in places}
    chosen = told["pytest_add_cli_args_test_selection"]
    files = {file for *_, tests in places for file in tests}
    assert all((ROOT / file).is_file() for file in files)
    kernels = {file for file in files if file.startswith("tests/kernels/")}
    assert kernels and sorted(chosen) == sorted({*files - kernels, "tests/kernels"})
