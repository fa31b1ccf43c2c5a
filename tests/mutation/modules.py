"""What is mutated, by which tests each module is judged, and the table of what came out.

Nothing here needs mutmut: `tests/docs/test_mutation.py` holds it together with the sources, the page, and the
settings of mutmut in `pyproject.toml`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "project" / "mutation.md"
TWINS = (
    "arguments", "availability", "backfill", "central", "dispatch", "edf", "links", "mapping", "overlay",
    "queues", "slots", "summaries", "tree", "walk",
)  # fmt: skip
SHARED = {
    "arguments": [
        "test_refusals",
        "test_availability",
        "test_queues_edges",
        "test_tree_edges",
        "test_links_edges",
        "test_dispatch_edges",
    ],
    "availability": ["test_refusals"],
    "edf": ["test_refusals", "test_availability"],
    "links": ["test_states"],
    "queues": ["test_states"],
    "slots": ["test_states"],
    "summaries": ["test_refusals", "test_tree", "test_tree_cases"],
    "tree": ["test_states"],
}
MODEL = {
    "bound_search": ["model/test_bounds.py", "golden/test_golden_bounds.py"],
    "bounds": ["model/test_bounds.py", "golden/test_golden_bounds.py"],
    "measures": ["model/test_measures.py"],
    "metrics": ["model/test_metrics.py", "model/test_rigid.py", "model/test_turnaround.py"],
    "rigid_metrics": ["model/test_rigid_metrics.py"],
    "series": ["model/test_series.py"],
    "turnaround": ["model/test_turnaround.py"],
}
#: A row of the table: name, mutants, killed, timed out, survived, and of which source.
_ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| `(\w+)` \|$", re.MULTILINE)


class Row(NamedTuple):
    """What came out for a module, and of which source."""

    mutants: int
    killed: int
    timed_out: int
    survived: int
    source: str


def place(name: str) -> tuple[str, Path, list[str]]:
    """The module's full name, its file and its test files."""
    if name in MODEL:
        return f"gridsim.{name}", ROOT / "gridsim" / f"{name}.py", [f"tests/{file}" for file in MODEL[name]]
    tests = ROOT / "tests" / "kernels"
    own = sorted([*tests.glob(f"test_{name}.py"), *tests.glob(f"test_{name}_*.py")])
    files = [f"tests/kernels/{test}.py" for test in (*(file.stem for file in own), *SHARED.get(name, ()))]
    return f"gridcore.reference.{name}", ROOT / "gridcore" / "reference" / f"{name}.py", files


def source(name: str) -> str:
    """SHA-256 of the module, of which eight digits are enough to see a change."""
    return hashlib.sha256(place(name)[1].read_text(encoding="utf-8").encode()).hexdigest()[:8]


def table(page: str) -> dict[str, Row]:
    """The rows of the table."""
    return {
        name: Row(*(int(number.replace(",", "")) for number in numbers), of)
        for name, *numbers, of in _ROW.findall(page)
    }


def entered(page: str, name: str, verdicts: Mapping[str, int]) -> str:
    """The page with what came out for a module, and the sums; what was neither killed nor timed out is to be
    explained."""
    killed, late, all_ = verdicts.get("killed", 0), verdicts.get("timed out", 0), sum(verdicts.values())
    row = Row(all_, killed, late, all_ - killed - late, source(name))
    line = _line(f"`{name}`", row, f"`{row.source}`")
    page = re.sub(rf"^\| `{name}` \|.*$", line, page, flags=re.MULTILINE)
    return re.sub(r"^\| together \|.*$", _line("together", together(page), ""), page, flags=re.MULTILINE)


def together(page: str) -> Row:
    """The sums of the table."""
    columns = list(zip(*table(page).values(), strict=True))[:4]
    return Row(*map(sum, columns), "")


def _line(name: str, row: Row, of: str) -> str:
    return " | ".join([f"| {name}", *(f"{number:,}" for number in row[:4]), of]).rstrip() + " |"
