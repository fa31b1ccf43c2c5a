"""The schema of scenario files: as strict as the reader on keys and types, with descriptions of all keys."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.scenario_flags import default_scenario
from gridsim.cli.schema import scenario_schema
from gridsim.model.background_load import FluctuationRecipe
from gridsim.model.faults import FaultsRecipe
from gridsim.model.platform import PlatformRecipe
from gridsim.model.workload import WorkloadRecipe
from gridsim.scheduling.registry import registered

SCHEMA = scenario_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)
DOCS = Path(__file__).resolve().parents[2] / "docs"

BASE = {
    "seed": 3,
    "platform": {"kind": "uniform", "nodes": 9, "seed": 1},
    "workload": {"kind": "bags", "seed": 2},
}


def with_value(path, value):
    document = json.loads(json.dumps(BASE))
    *tables, last = path.split(".")
    inner = document
    for name in tables:
        inner = inner.setdefault(name, {})
    inner[last] = value
    return document


def test_schema_conforms_to_json_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


def test_documented_scenarios_are_valid():
    blocks = []
    for page in sorted(DOCS.glob("*/*.md")):
        blocks += re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    if not blocks:
        pytest.skip("the documents are not part of this copy")
    scenarios = [
        tomllib.loads(item) for item in blocks if not re.match(r"(# .*\n)?scenario =|\[project", item)
    ]
    assert len(scenarios) >= 5
    for document in scenarios:
        CHECK.validate(document)


def test_saved_scenarios_are_valid():
    faulty = default_scenario().replaced(
        {
            "faults": {"kind": "list", "machine": [1], "down": [3.0], "up": [float("inf")]},
            "schedulers": {"fair-tree": {"bound": 2, "grid": [[0.1], [1.0], [1.0]]}, "WQR-FT": {}},
        }
    )
    for scenario in (default_scenario(), faulty):
        CHECK.validate(tomllib.loads(scenario.to_toml()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("platfrom", {}),
        ("platform.nods", 9),
        ("platform.kind", "unifrom"),
        ("platform.nodes", 1.5),
        ("platform.speed", 1000.0),  # a speed belongs to another kind of platform
        ("workload.task_size", "large"),
        ("workload.task_size", {"low": 1.0}),
        ("workload.spread", {"kind": "normal", "ratio": 2.0}),
        ("network.latancy", 0.1),
        ("network.interfaces", "lifo"),
        ("faults", {"kind": "poisson", "seed": 1}),  # the mean is missing
        ("seed", "one"),
        ("schedulers.fair-tree.bond", 2.0),
        ("schedulers.fairtree", {}),
        ("schedulers.fcfs.mode", "push"),
    ],
)
def test_invalid_scenarios_are_rejected_as_by_the_reader(path, value):
    document = with_value(path, value)
    assert not CHECK.is_valid(document)
    with pytest.raises(gs.GridSimError):
        actual = gs.Scenario.from_document(document)
        for name, table in actual.schedulers.items():
            from gridsim.scheduling.registry import make_scheduler

            make_scheduler(name, table)


def test_every_key_has_a_description():
    kinds = [
        kind
        for union in (PlatformRecipe, WorkloadRecipe, FaultsRecipe, FluctuationRecipe)
        for kind in get_args(union)
    ]
    for cls in (*kinds, gs.Network, gs.Zones, gs.Normal, *{cls for cls, _ in registered().values()}):
        part = SCHEMA["$defs"][cls.__name__]
        keys = {field.encode_name: field for field in msgspec.structs.fields(cls)}
        assert set(keys) == set(part["properties"]) - {"kind"}, cls
        assert part["description"] and part["additionalProperties"] is False
        for name, entry in part["properties"].items():
            assert len(entry["description"]) > 2, f"{cls.__name__}.{name}"
            assert "told by" not in entry["description"]
    assert set(SCHEMA["properties"]["schedulers"]["properties"]) == set(registered())


def test_the_command_prints_the_schema(tmp_path):
    shell, file = CliRunner(), tmp_path / "gridsim.schema.json"
    assert json.loads(shell.invoke(cli, ["schema"]).stdout) == SCHEMA
    answer = shell.invoke(cli, ["schema", "--out", str(file), "--json"])
    assert json.loads(answer.stdout) == {"out": str(file)} and json.loads(file.read_text()) == SCHEMA
    assert shell.invoke(cli, ["schema", "--out", str(tmp_path / "no" / "file")]).exit_code == 2


def test_descriptions_are_missing_without_docstrings(tmp_path):
    """``python -OO`` drops docstrings; the rest of the schema is unchanged."""

    def without_description(part):
        if isinstance(part, list):
            return [without_description(item) for item in part]
        if not isinstance(part, dict):
            return part
        return {key: without_description(value) for key, value in part.items() if key != "description"}

    process = subprocess.run(
        [sys.executable, "-OO", "-m", "gridsim", "schema"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    assert without_description(document) == without_description(SCHEMA)
    assert not any("description" in part for part in document["$defs"].values())
    assert "description" not in document["properties"]["seed"]
