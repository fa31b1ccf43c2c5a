"""Metadata of a release: version, Python versions, dependencies and citations agree."""

import importlib.metadata
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "CITATION.cff").is_file():
    pytest.skip("the files of a release are not part of this copy", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = (ROOT / "CITATION.cff").read_text()


def citation_field(key: str) -> str | None:
    actual = re.search(rf"^{key}: (.+)$", CITATION, re.MULTILINE)
    return actual and actual[1]


def test_all_files_state_the_same_version() -> None:
    """The files are the code, the citation, the metadata, the recipe, the changelog and the tag."""
    newest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    source = (ROOT / "gridsim" / "support" / "provenance.py").read_text()
    declared = re.search(r'^VERSION = "(.+)"$', source, re.MULTILINE)
    assert declared and importlib.metadata.version("gridsched") == declared[1]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"].endswith(".VERSION")
    version = declared[1]
    assert (version, version) == (citation_field("version"), newest[1])
    assert json.loads((ROOT / "codemeta.json").read_text())["version"] == version
    assert f'{{% set version = "{version}" %}}' in (ROOT / "conda" / "meta.yaml").read_text()
    assert citation_field("date-released") == (None if newest[2] == "unreleased" else newest[2])
    if os.environ.get("GITHUB_REF_TYPE") == "tag":
        assert os.environ["GITHUB_REF_NAME"] == f"v{version}"
        assert newest[2] != "unreleased"
        repository = PROJECT["project"].get("urls", {}).get("Repository")
        assert repository and repository == citation_field("repository-code"), (
            "a release must name its repository"
        )


def test_stated_python_versions_are_built_and_tested() -> None:
    kinds = PROJECT["project"]["classifiers"]
    named = [actual[1] for kind in kinds if (actual := re.search(r":: Python :: (3\.\d+)$", kind))]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [f"cp{item.replace('.', '')}-*" for item in named]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert f"python: {named}".replace("'", '"') in workflow


def test_metadata_and_recipe_state_the_same_dependencies() -> None:
    needs, extras = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
    assert json.loads((ROOT / "codemeta.json").read_text())["softwareRequirements"] == needs
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    run, constrained = recipe.split("  run:\n")[1].split("  run_constrained:")
    assert re.findall(r"^    - (\S+) (\S+)$", run, re.MULTILINE) == [
        tuple(re.split(r"(?=>=)", need)) for need in needs
    ]
    for need in extras["data"] + extras["report"] + extras["stats"] + extras["testing"] + extras["jit"]:
        assert " ".join(re.split(r"(?=>=)", need)) in constrained


def test_wheels_without_all_extras_have_the_same_test_tools() -> None:
    """If a dependency of one extra has no wheel, tests use the other extras."""
    extras = PROJECT["project"]["optional-dependencies"]
    (override,) = PROJECT["tool"]["cibuildwheel"]["overrides"]
    assert override["test-requires"] == [need for need in extras["test"] if need != "gridsched[all]"]
    assert extras["all"] == [f"gridsched[{','.join(sorted([*override['test-extras'], 'plot']))}]"]


def test_the_citation_has_every_author_that_the_documentation_follows() -> None:
    """CITATION.cff has the authors that pages of schedulers name as their source."""
    pages = sorted((ROOT / "docs" / "background").glob("*.md"))
    if not pages:
        pytest.skip("the documents are not part of this copy")
    names = set()
    for page in pages:
        for sentence in re.findall(r"\bAfter ((?:[A-Z]\. )+[^;]*?)(?:\. |\.\n|;)", page.read_text()):
            names |= set(re.findall(r"(?:[A-Z]\. )+((?:da )?[A-Z][a-z]+)", sentence))
    assert {"Maheswaran", "Vasilakos", "Zhou", "da Silva"} <= names
    assert not {name for name in names if f"family-names: {name}\n" not in CITATION and name not in CITATION}
