"""What the documents say of the packages and modules is so."""

import ast
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
PLAN = TEXT.split("```")[1].removeprefix("none\n")
#: Columns of the floor plan that hold modules.
MODULES = slice(11, 49)


def floors():
    """Module or package of the plan -> its floor, the highest is 0."""
    found = {}
    for number, floor in enumerate(re.split(r"^[-=]+$", PLAN, flags=re.MULTILINE)):
        home = "gridcore" if "(gridcore)" in floor else "gridsim"
        for line in floor.splitlines():
            for word in line[MODULES].split():
                found[word if "." in word else f"{home}.{word}"] = number
    return found


def named():
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    return {*floors(), *re.findall(r"`(grid(?:sim|core)(?:\.\w+)*)`", prose)}


def test_modules_that_are_named_exist():
    assert {"gridsim.engine", "gridsim.simulation", "gridcore.walk"} <= set(floors())
    assert not {name for name in named() if find_spec(name) is None}


def test_every_package_is_named():
    assert named() >= PACKAGES


def floor_of(module, found):
    while module not in found and "." in module:
        module = module.rpartition(".")[0]
    return found.get(module)


def test_imports_point_down_the_plan():
    """Those at the top of a module, of what the plan has."""
    found = floors()
    for path in HOMES[1].rglob("*.py"):
        own = ".".join(["gridsim", *path.relative_to(HOMES[1]).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        if (here := floor_of(own, found)) is None:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gridsim"):
                targets = [node.module] if "." in node.module else [f"gridsim.{a.name}" for a in node.names]
                for target in targets:
                    there = floor_of(target, found)
                    assert there is None or there >= here, f"{own} imports {target}, which is above it"


def test_every_kernel_is_named():
    kernels = {f"gridcore.{path.stem}" for path in HOMES[0].glob("*.pyx")}
    assert set(floors()) >= kernels


def test_decisions_are_numbered_listed_and_whole():
    files = sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    assert [name[:4] for name in files] == [f"{k:04}" for k in range(1, len(files) + 1)]
    index = (DECISIONS / "README.md").read_text()
    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index) == files
    for name in files:
        text = (DECISIONS / name).read_text()
        assert re.match(rf"# {name[:4]}\. .+\n\n\d{{4}}-\d\d-\d\d\. ", text), name
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], name
