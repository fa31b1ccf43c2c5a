"""The page on the architecture matches the packages and modules."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import gridcore
import gridsim

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
if not PAGE.is_file():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
DECISIONS = PAGE.parent / "decisions"
HOMES = [Path(package.__file__).parent for package in (gridcore, gridsim)]
PACKAGES = {
    ".".join([home.name, *path.parent.relative_to(home).parts])
    for home in HOMES
    for path in home.rglob("__init__.py")
}


TEXT = PAGE.read_text()


def named_modules():
    return set(re.findall(r"`(grid(?:sim|core)(?:\.\w+)*)`", TEXT))


def test_modules_named_on_the_page_exist():
    assert {"gridsim.simulation.simulate", "gridcore.queues.edf"} <= named_modules()
    assert not {name for name in named_modules() if find_spec(name) is None}


def test_every_package_and_kernel_is_on_the_page():
    drawn = set(re.findall(r"\w+", TEXT.split("```")[1]))
    kernels = {path.stem for path in HOMES[0].rglob("*.pyx")}
    assert not {name for name in kernels if name not in drawn}
    assert not {
        name for name in PACKAGES if name not in named_modules() and name.rpartition(".")[2] not in drawn
    }


def test_decisions_are_numbered_listed_and_complete():
    files = sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    assert [name[:4] for name in files] == [f"{k:04}" for k in range(1, len(files) + 1)]
    index = (DECISIONS / "README.md").read_text()
    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index) == files
    for name in files:
        text = (DECISIONS / name).read_text()
        assert re.match(rf"# {name[:4]}\. .+\n\n\d{{4}}-\d\d-\d\d\. ", text), name
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], name
