"""Data files of reproductions: each experiment has one, as `gridsim reproduce --data` writes it."""

import sys
import tomllib
from collections import Counter
from datetime import date
from importlib import import_module
from pathlib import Path

import pytest

from gridsim.cli.commands.reproduce import EXPERIMENTS, experiment_of
from gridsim.reproduce.framework import Report, ResultGrid
from gridsim.reproduce.output import to_record, to_toml
from gridsim.reproduce.verdicts import Row, conclude, judge

DOCS = Path(__file__).resolve().parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
FILES = sorted((DOCS / "reproductions").glob("*.toml"))


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    yield import_module("claims")
    sys.modules.pop("claims")


def test_every_experiment_has_a_file_and_is_on_one_page(claims):
    assert {path.stem for path in FILES} == set(EXPERIMENTS)
    pages = [claims.names(page.read_text()) for page in (DOCS / "reproductions").glob("*.md")]
    assert Counter(name for page in pages for name in page) == Counter(list(EXPERIMENTS))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_data_file_has_the_form_that_the_command_writes(path, claims):
    values = tomllib.loads(path.read_text())
    experiment = experiment_of(path.stem)
    example = to_record(
        experiment, Report([1], False, [judge("", "a", None)], [ResultGrid("b", "c", {})]), "2026-01-01"
    )
    assert values.keys() == example.keys()
    assert all(row.keys() == example["rows"][0].keys() for row in values["rows"])
    assert to_toml(values) == path.read_text()

    assert values["name"] == path.stem and not values["quick"]
    assert date.fromisoformat(values["date"])
    assert [each["claim"] for each in values["claims"]] == list(experiment.claims)
    assert {each["verdict"] for each in values["claims"]} <= set(claims.VERDICTS)
    assert {each["verdict"] for each in values["rows"]} <= {"", *claims.VERDICTS} - {"partly reproduced"}
    assert {each["claim"] for each in values["rows"]} <= {"", *experiment.claims}
    rows = [Row(**{**row, "measured": None}) for row in values["rows"]]
    judged = {row.claim for row in rows if row.verdict}
    for each in values["claims"]:
        assert each["why"]
        if each["claim"] in judged:
            assert each["verdict"] == conclude(each["claim"], rows).verdict, each["claim"]
    for grid in values["grids"]:
        assert grid.keys() == example["grids"][0].keys()
        assert {len(cells) + 1 for cells in grid["rows"].values()} == {len(grid["columns"])}, grid["title"]


def test_a_page_of_the_site_has_claims_rows_and_tables(claims):
    source = ["# Probes\n\n<!-- measured: dodoor -->\n"]
    claims.fill(None, "reproductions/probes", source)
    values = claims.data("dodoor")
    assert "\n## dodoor\n" in source[0] and "measured:" not in source[0]
    assert all(f"| **{each['claim']}** |" in source[0] for each in values["claims"])
    assert all(f"| {each['quantity']} | {each['paper']} |" in source[0] for each in values["rows"])
    assert all(
        claims.row(name, *cells) in source[0]
        for grid in values["grids"]
        for name, cells in grid["rows"].items()
    )
    source = [claims.CLAIMS]
    claims.fill(None, claims.PAGE, source)
    assert source[0].count("\n") == 1 + sum(len(experiment_of(name).claims) for name in EXPERIMENTS)
