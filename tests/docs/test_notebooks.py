"""Notebooks: a rerun prints what is stored, and its numbers support the text."""

import ast
import json
import re
import sys
from base64 import b64decode
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gridsim as gs
from tests.docs.test_blocks import ANSWERS, blocks, check_text, run_python

DOCS = Path(__file__).resolve().parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
#: Bytes of one stored picture or animation, and of all notebooks.
LARGEST_OUTPUT, LARGEST_SUM = 60_000, 1_500_000

pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def is_run(cell):
    return "skip-execution" not in cell["metadata"].get("tags", ())


def check_answers(name, names):
    """Run the answers to the exercises of a notebook after its cells, whose `names` they use."""
    _, *sections = re.split(r"^## \[.*\]\((\w+)\.ipynb\)$", ANSWERS.read_text(), flags=re.MULTILINE)
    printed = ""
    for line, language, code in blocks(dict(zip(sections[::2], sections[1::2], strict=True))[name]):
        location = f"answers to {name}, line {line}"
        if language == "python":
            printed = run_python(code, names, location)
        else:
            check_text(code, printed, location)


def run(path, check_printed):
    """Run the cells of a notebook, and return its names."""
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path), 1):
        if is_run(cell):
            check_printed(cell, run_python("".join(cell["source"]), namespace, f"{path.name}:{number}"))
    return namespace


def check_stored(cell, printed):
    streams = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
    assert printed == "".join(line for text in streams for line in text), "docs/notebook_outputs.py stores it"


# -- what the text of a notebook says about its numbers -----------------------------------------------------


def first_hour(names):
    assert list(names["fcfs"].applications["stretch_agg"]) == [1.0, 7.0, 3.5, 2.5]  # by hand
    center, tree = (gs.simulate(names["scenario"](), each) for each in (gs.MinCent(), gs.FairTree()))
    assert center.applications["finish"][0] == 150.0 and center.max_stretch_agg == 1.875
    late = tree.applications["finish"] - center.applications["finish"]
    assert 10.0 < late[1] < 11.0  # one task, and messages
    calm = [
        gs.simulate(names["scenario"](0.5), each)
        for each in (gs.Fcfs(mode="pull"), gs.MinCent(), gs.FairTree())
    ]
    assert max(result.max_stretch_agg for result in calm) < 1.05


def fair_tree(names):
    comparison, sent = names["comparison"], names["tree"].messages
    assert 1.0 < comparison.ratio("fair tree") < 1.03 and 2.7 < comparison.ratio("FCFS") < 3.0
    fcfs = comparison["FCFS"].applications
    assert fcfs["size"][np.argsort(fcfs["stretch"])[-5:]].max() < np.median(fcfs["size"])
    assert sent["bytes"][sent["kind"] == "summary"].sum() > 0.8 * sent["bytes"].sum()


def dgs_asap(names):
    for name in ("DGS_ASAP", "whole grid"):
        assert 30.0 < np.median(names["comparison"][name].applications["waiting"]) < 60.0
    waiting = names["waiting"]
    assert waiting[waiting > 1.0].sum() > 0.95 * waiting.sum()
    informed = gs.simulate(names["scenario"], gs.DgsAsap(estimate="run"))
    assert informed.mean_waiting < 0.2 * names["comparison"]["DGS_ASAP"].mean_waiting


def rjss(names):
    comparison, means = names["comparison"], names["means"]
    home = comparison["no migration"].mean_turnaround
    moved = [comparison[name].mean_turnaround for name in ("RJSS", "resource exclusion")]
    assert max(moved) < 0.6 * home
    assert means["resource exclusion"][0] < means["RJSS"][0]
    assert means["resource exclusion"][-1] > 1.5 * means["RJSS"][-1]


def wqr_ft(names):
    completion = names["completion"]
    assert list(completion.values()) == sorted(completion.values(), reverse=True)
    assert 0.85 < completion["GreatET-AllInfo"] / completion["WQR-FT"] < 0.9


CHECKS = {check.__name__: check for check in (first_hour, fair_tree, dgs_asap, rjss, wqr_ft)}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow) if path.stem == "lemmas" else path for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_notebooks_and_their_answers_print_what_is_stored(path, folder):
    pytest.importorskip("matplotlib")
    names = run(path, check_stored)
    if path.stem in CHECKS:  # in lemmas Hypothesis checks
        CHECKS[path.stem](names)
    check_answers(path.stem, names)


def test_every_end_of_the_sliders_can_be_drawn(folder, monkeypatch):
    pytest.importorskip("matplotlib")
    path = DOCS / "notebooks/first_hour.ipynb"
    names = run(path, lambda cell, printed: None)
    (sliders,) = (cell for cell in code_cells(path) if not is_run(cell))
    drawn = []

    def interact(draw, **controls):
        for name, control in controls.items():
            kind = vars(control)
            ends = (
                [value for _, value in kind["options"]] if "options" in kind else [kind["min"], kind["max"]]
            )
            for value in (ends[0], ends[-1]):
                draw(**{name: value})
                drawn.append((name, value))

    widgets = ModuleType("ipywidgets")
    vars(widgets).update(interact=interact, FloatSlider=SimpleNamespace, SelectionSlider=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    assert run_python("".join(sliders["source"]), names, "sliders") == ""
    assert {name for name, _ in drawn} == {"load", "up", "bound"}
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert "no sliders" in run_python("".join(sliders["source"]), names, "sliders")


# -- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_with_small_outputs_and_valid_links(path):
    cells = json.loads(path.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown" and "".join(cells[0]["source"]).startswith("# ")
    counts = [cell["execution_count"] for cell in code_cells(path) if is_run(cell)]
    assert counts == list(range(1, len(counts) + 1)), "docs/notebook_outputs.py runs all cells"
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert not any(isinstance(item, ast.Assert) for item in ast.parse(text).body)
            assert max(map(len, text.splitlines())) <= 110
            for output in cell["outputs"]:
                data = {kind: "".join(content) for kind, content in output.get("data", {}).items()}
                assert len(b64decode(data.get("image/png", ""))) <= LARGEST_OUTPUT
                assert len(data.get("text/html", "")) <= LARGEST_OUTPUT
            continue
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            assert (path.parent / target).is_file(), target


def test_notebooks_together_are_small():
    assert sum(path.stat().st_size for path in NOTEBOOKS) <= LARGEST_SUM
