"""The site: docstrings as lists, links, pages in the index; .ci/run builds it."""

import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest
from docstring_parser.numpydoc import parse

import gridcore
import gridsim as gs
from gridsim.support.docstrings import first_paragraph, parameter_texts
from gridsim.support.parameters import CheckedStruct, fields_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)


@pytest.fixture
def helper(monkeypatch):
    """Return a function that imports a module of docs/ by its name."""
    monkeypatch.syspath_prepend(DOCS)
    loaded = []

    def load(name):
        loaded.append(name)
        return import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


# -- docstrings ---------------------------------------------------------------------------------------------


def example(a, b=2.0, *args, c="x"):
    """What it is
    on two lines.

    More of it: a : b is no entry.

    Parameters
    ----------
    a, b
        Two of them,
        on two lines.
    *args
        The rest.
    c : str
        One.

    Raises
    ------
    ValueError
        Never.
    """


def test_parameters_of_a_docstring_are_parsed():
    assert first_paragraph(example) == "What it is on two lines."
    assert parameter_texts(example) == {
        "a": "Two of them, on two lines.",
        "b": "Two of them, on two lines.",
        "args": "The rest.",
        "c": "One.",
    }


@pytest.mark.parametrize("module", [m.name for m in pkgutil.walk_packages(gs.__path__, "gridsim.")])
def test_documented_parameters_exist(module):
    """Names in the sections of parameters are those of the signature, so a rename changes both."""
    try:
        loaded = import_module(module)
    except ImportError as error:
        pytest.skip(str(error))
    for name, thing in vars(loaded).items():
        if getattr(thing, "__module__", None) != module or not (isfunction(thing) or isclass(thing)):
            continue
        for owner in [thing, *(vars(thing).values() if isclass(thing) else ())]:
            function = getattr(owner, "__func__", owner)
            if not (isfunction(function) or owner is thing) or not inspect.getdoc(function):
                continue
            try:
                known = set(inspect.signature(function).parameters)
            except (TypeError, ValueError):
                continue
            if isclass(thing) and issubclass(thing, CheckedStruct):
                # also known: names in files, and fields that a base class describes for its subclasses
                for kind in (thing, *thing.__subclasses__()):
                    known |= {field.encode_name for field in fields_of(kind).values()}
            params = [p for p in parse(inspect.getdoc(function)).params if p.args[0] == "param"]
            declared = {name.strip(" *") for param in params for name in param.arg_name.split(",")}
            assert declared <= known, f"{module}.{name}: {declared - known}"


def test_signatures_of_compiled_functions_come_from_the_stubs(helper):
    pytest.importorskip("sphinx")
    docstrings = helper("docstrings")
    text, result = docstrings.signature(None, "class", "", gridcore.PullQueue, None, "()", None)
    assert text.startswith("(speed: ") and text.endswith("log: bool = False)") and result == ""
    method = gridcore.PullQueue.backlog
    assert docstrings.signature(None, "method", "", method, None, "()", None) == ("(now: int)", "float")


# -- links --------------------------------------------------------------------------------------------------


def test_links_out_of_the_documentation_have_targets(helper):
    pytest.importorskip("sphinx")
    links = helper("links")
    source = ["[a](../../CONTRIBUTING.md#golden-digests) [b](../speed.md) [c](../../LICENSE)"]
    links.inward(None, "guides/checks", source)
    assert source == ["[a](../project/contributing.md#golden-digests) [b](../speed.md) [c](../../LICENSE)"]
    assert links.exists("gridsim.FairTree.bound") and links.exists("gridcore.queues.edf.optimal_stretch")
    assert not links.exists("gridsim.FairTree.band") and not links.exists("gridsim.nothing")


def test_the_link_check_finds_broken_links(helper, tmp_path):
    check = helper("check_links")
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="deep/b.html#y">1</a> <a href="#z">2</a> <a href="https://example.org">3</a></p>'
    )
    (tmp_path / "deep/b.html").write_text('<h1 id="y"></h1><a href="../a.html#x">4</a><img src="no.png">')
    assert check.broken(tmp_path) == ["a.html: #z: no such place", "deep/b.html: no.png: no such file"]
    (tmp_path / "deep/no.png").write_text("")
    (tmp_path / "a.html").write_text('<p id="x">')
    assert check.broken(tmp_path) == []


# -- outputs of notebooks -----------------------------------------------------------------------------------


def test_the_build_finds_changed_outputs_of_notebooks(helper):
    outputs = helper("notebook_outputs")

    def notebook(*texts):
        streams = [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]
        value = {"output_type": "display_data", "data": {"text/plain": ["<Figure>"], "image/png": texts[0]}}
        return {"cells": [{"cell_type": "code", "outputs": [*streams, value]}, {"cell_type": "markdown"}]}

    stored = notebook(["a  1\n", "\n", "b 2\n"])
    assert outputs.differences(stored, notebook("a 1\nb 2\n", "b 2\n")) == []  # as myst-nb merges streams
    (line,) = outputs.differences(stored, notebook("a 1\nb 3\n"))
    assert line == "code cell 1 must print what is stored, 'a 1 b 2 <Figure>', got 'a 1 b 3 <Figure>'"


def test_the_lesson_has_the_first_hour_without_outputs(helper):
    outputs = helper("notebook_outputs")
    copy, stored = (
        json.loads(path.read_text()) for path in (outputs.LESSON, outputs.FOLDER / "first_hour.ipynb")
    )
    for cell in copy["cells"]:
        cell["source"] = "".join(cell["source"])
    assert copy == outputs.without_outputs(stored), "docs/notebook_outputs.py first_hour writes it"
    assert "](" not in "".join(cell["source"] for cell in copy["cells"] if cell["cell_type"] == "markdown")


# -- contents of the site ----------------------------------------------------------------------------------


def test_the_index_has_every_page():
    listed, new = set(), {DOCS / "index.md"}
    while new:
        page = new.pop()
        listed.add(page)
        for block in re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text(), re.M | re.S):
            for line in (line for line in block.splitlines() if line and not line.startswith(":")):
                actual = [(page.parent / (line + end)).resolve() for end in (".md", ".ipynb")]
                actual = [path for path in actual if path.is_file()]
                assert actual, f"{page.name} lists {line}"
                new.update({*actual} - listed)
    for page in [path for path in listed if path.suffix == ".md"]:
        for below in re.findall(r"^<!-- pages: (\S+) -->$", page.read_text(), re.M):
            listed.update(page.parent.glob(below))
    pages = {*DOCS.glob("*.md"), *DOCS.glob("notebooks/*.ipynb")}
    pages |= {path for path in DOCS.glob("*/*.md") if path.parent.name != "_build"}
    assert pages == {path for path in listed if path.parent.name != "api"}


def test_the_reference_has_every_public_name():
    listed = set()
    for page in (DOCS / "reference/api").glob("*.md"):
        for block in re.findall(r"^\.\. autosummary::\n(.*?)^```$", page.read_text(), re.M | re.S):
            listed |= {line.strip() for line in block.splitlines() if line.strip()[:1] not in ("", ":")}
    constants = {"BRAUN_CLASSES", "__version__"}
    assert set(gs.__all__) - constants <= listed
    kernels = {getattr(gridcore, name).__module__ for name in gridcore.__all__ if name != "NEVER"}
    assert kernels <= listed


@pytest.mark.parametrize(
    "drawing",
    [
        "plots.bars(['a'], [Estimate(1.0, 0.5, 1.5, 5)])",
        "with plots.use_style():\n    import matplotlib.pyplot as plt; plt.figure()",
    ],
)
def test_charts_in_notebooks_do_not_change_the_backend(drawing, tmp_path):
    """An interactive backend must stay interactive after the first chart."""
    pytest.importorskip("matplotlib")
    (tmp_path / "loud.py").write_text(
        "import matplotlib\nfrom matplotlib.backends.backend_agg import *\nmatplotlib.interactive(True)\n"
    )
    code = (
        "import matplotlib; from gridsim import Estimate, plots\n"
        f"{drawing}\nassert matplotlib.is_interactive()"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "MPLBACKEND": "module://loud", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=tmp_path)
