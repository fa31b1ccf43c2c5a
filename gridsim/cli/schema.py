"""The JSON Schema of scenario files, for editors that complete and check them.

Types and defaults are those of the Structs into which a file is read, and descriptions of keys come from
their docstrings; they are missing if Python drops docstrings (``-OO``).  The schema contains the limits of
single numbers; conditions on two values are only checked when gridsim reads the file.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Union, get_args

import msgspec

from gridsim.model import (
    attributes,
    background_load,
    distributions,
    faults,
    platform,
    power,
    workload,
)
from gridsim.model import (
    bag_workloads as bags,
)
from gridsim.model import (
    time_zones as zones,
)
from gridsim.model.kinds import PARTS, all_kinds
from gridsim.model.network import Network
from gridsim.model.scenario import Scenario
from gridsim.scheduling.registry import registered
from gridsim.support import units
from gridsim.support.columns import ArrayColumn
from gridsim.support.docstrings import first_paragraph, parameter_texts
from gridsim.support.parameters import Limits, limits_of
from gridsim.support.random_streams import DEFAULT_SEED

#: Struct of a table -> the constructor that makes it.
CONSTRUCTORS: dict[type[msgspec.Struct], Any] = {
    constructor.recipe: getattr(kind, name)
    for kind in (platform.Platform, workload.Workload, faults.Faults, background_load.Fluctuation)
    for name, constructor in kind.constructors.items()
}
#: Table of a scenario file -> its description.
_TABLES = {
    "platform": "the machines",
    "workload": "the applications, or rigid jobs",
    "network": "latency and bandwidth of messages",
    "faults": "failures and recoveries of machines; none by default",
    "fluctuation": "background load, which slows machines down; none by default",
}


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of scenario files, as dicts, lists, strings and numbers."""
    schedulers = registered()
    classes = sorted({cls for cls, _ in schedulers.values()}, key=lambda cls: cls.__name__)
    kinds_of = {name: tuple(all_kinds(name).values()) if name in PARTS else (Network,) for name in _TABLES}
    kinds: list[Any] = [Union[kinds] for kinds in kinds_of.values()]  # noqa: UP007 - made at run time
    table_schemas, parts = msgspec.json.schema_components(
        [*kinds, *classes], schema_hook=_column_schema, ref_template="#/$defs/{name}"
    )
    tables_of_kinds = [cls for kinds in kinds_of.values() for cls in kinds]
    structs: list[type[msgspec.Struct]] = [*tables_of_kinds, *classes, *_nested_structs()]
    by_name = {cls.__name__: cls for cls in structs}
    for name, part in parts.items():
        _describe(part, by_name[name])
    for table in PARTS:
        for cls in kinds_of[table]:
            parts[cls.__name__]["title"] = f'{table}, kind = "{cls.__struct_config__.tag}"'
    parts["Network"]["title"] = "network"
    tables = dict(zip(_TABLES, table_schemas, strict=False))
    names = {
        name: {"$ref": f"#/$defs/{cls.__name__}", "description": first_paragraph(cls)}
        for name, (cls, _) in schedulers.items()
    }
    texts = parameter_texts(Scenario)
    properties = {
        "seed": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_SEED,
            "description": texts.get("seed", ""),
        },
        **{name: {"description": _TABLES[name], **_key_schema(table)} for name, table in tables.items()},
        "schedulers": {
            "description": texts.get("schedulers", ""),
            "type": "object",
            "properties": names,
            # variants, LABEL=NAME
            "patternProperties": {f"^[^:=]+={re.escape(name)}$": part for name, part in names.items()},
            "additionalProperties": False,
        },
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of gridsim",
        "type": "object",
        "properties": properties,
        "required": ["platform", "workload"],
        "additionalProperties": False,
        "$defs": parts,
    }
    plain: dict[str, Any] = json.loads(msgspec.json.encode(schema), object_hook=_without_empty_description)
    return plain


def _nested_structs() -> tuple[type[msgspec.Struct], ...]:
    """Return the Structs of nested tables."""
    requirements = *get_args(attributes.AttributesRecipe), attributes.Constraints
    return distributions.Range, *get_args(bags.Spread), zones.Zones, power.Power, *requirements


def _column_schema(kind: type[ArrayColumn]) -> dict[str, Any]:
    """Return the schema of an array column, which is a list in a file."""
    return msgspec.json.schema(list[kind.hints[0]])  # type: ignore[name-defined]


def _describe(part: dict[str, Any], cls: type[msgspec.Struct]) -> None:
    """Add descriptions and limits to a table and its keys, and forbid other keys."""
    part["description"] = _markdown(first_paragraph(cls))
    part["additionalProperties"] = False
    if part.get("required") == []:
        del part["required"]
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        texts |= parameter_texts(base)
    limits = limits_of(cls)
    for name, entry in part["properties"].items():
        key_schema = _key_schema(entry)
        if name in limits:
            _add_range(key_schema, limits[name])
            _allow_unit(key_schema, limits[name].unit)
        if name == cls.__struct_config__.tag_field:
            key_schema["description"] = "the kind of this table"
        elif name in texts:
            key_schema["description"] = _markdown(texts[name])
        part["properties"][name] = key_schema


def _add_range(entry: dict[str, Any], limits: Limits) -> None:
    """Add the range of a number, or of the numbers in a list, to its schema."""
    for number in entry.get("anyOf", [entry]):
        while number.get("type") == "array":
            number = number["items"]
        low = 0.0 if limits.or_zero else limits.low
        keywords = (("minimum", low), ("exclusiveMinimum", limits.above), ("maximum", limits.high))
        if "$ref" not in number:
            number |= {key: value for key, value in keywords if value is not None}


def _allow_unit(entry: dict[str, Any], unit: str) -> None:
    """Allow strings with a unit, such as "50 ms", in place of a number in `unit`."""
    if unit not in units.UNITS:
        return
    text = {"type": "string", "pattern": units.pattern(unit)}
    if "anyOf" in entry:
        entry["anyOf"].append(text)
    elif entry.get("type") == "number":
        keywords = ("type", "minimum", "exclusiveMinimum", "maximum")
        number = {key: entry.pop(key) for key in keywords if key in entry}
        entry["anyOf"] = [number, text]
    elif entry.get("type") == "array":
        entry["items"] = {"anyOf": [entry["items"], text]}


def _without_empty_description(entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` without an empty description."""
    return {key: value for key, value in entry.items() if (key, value) != ("description", "")}


def _key_schema(entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` without values that TOML and JSON lack (null, infinity) and without OpenAPI keywords."""
    entry = {key: value for key, value in entry.items() if key != "discriminator"}
    if (default := entry.get("default", ...)) is None or default == math.inf:
        del entry["default"]
    if "anyOf" in entry:
        alternatives = [_key_schema(choice) for choice in entry.pop("anyOf") if choice != {"type": "null"}]
        entry |= alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    return entry


def _markdown(text: str) -> str:
    return re.sub("``([^`]*)``", r"`\1`", text)
