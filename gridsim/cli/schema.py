"""The JSON Schema of scenario files, with which editors complete and check them.

Types and defaults are those of the Structs into which a file is read.  Descriptions of keys come from the
docstrings of these Structs, or else from the constructors of `Platform`, `Workload`, `Faults` and
`Fluctuation`; they are missing where Python drops docstrings (``-OO``).  The schema has the limits of single
numbers.  Conditions on two values are checked when gridsim reads the file.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, get_args

import msgspec

from gridsim.model import (
    attributes,
    background_load,
    distributions,
    faults,
    platform,
    workload,
)
from gridsim.model import (
    bag_workloads as bags,
)
from gridsim.model import (
    bag_workloads as job_streams,
)
from gridsim.model import (
    rigid_workloads as rigid,
)
from gridsim.model import (
    time_zones as zones,
)
from gridsim.model.network import Network
from gridsim.model.scenario import Scenario
from gridsim.scheduling.registry import registered
from gridsim.support import units
from gridsim.support.columns import ArrayColumn
from gridsim.support.docstrings import first_paragraph, parameter_texts
from gridsim.support.parameters import Limits, limits_of
from gridsim.support.random_streams import DEFAULT_SEED

#: Struct of a table -> constructor whose docstring describes its keys.
CONSTRUCTORS: dict[type[msgspec.Struct], Any] = {
    platform.UniformSpeeds: platform.Platform.desktop_grid,
    platform.ParetoSpeeds: platform.Platform.pareto,
    platform.NormalSpeeds: platform.Platform.normal,
    platform.HostSpeedTable: platform.Platform.from_hosts,
    platform.ListedSpeeds: platform.Platform.of,
    platform.EqualSpeeds: platform.Platform.equal,
    bags.BagRecipe: workload.Workload.bags,
    bags.LogRecipe: workload.Workload.from_log,
    bags.ListRecipe: workload.Workload.of,
    bags.TasksRecipe: workload.Workload.of_tasks,
    job_streams.StreamRecipe: workload.Workload.job_streams,
    rigid.JobRecipe: workload.Workload.jobs,
    rigid.JobLogRecipe: workload.Workload.jobs_from_log,
    rigid.JobListRecipe: workload.Workload.jobs_of,
    faults.PoissonFaults: faults.Faults.poisson,
    faults.ExponentialFaults: faults.Faults.exponential,
    faults.WeibullFaults: faults.Faults.weibull,
    faults.TraceFaults: faults.Faults.trace,
    faults.ListedFaults: faults.Faults.of,
    zones.ZoneFaults: faults.Faults.zones,
    background_load.UniformFluctuation: background_load.Fluctuation.uniform,
    background_load.ListedFluctuation: background_load.Fluctuation.of,
}
_TABLES = {
    "platform": ("the machines", platform.PlatformRecipe),
    "workload": ("the applications, or jobs", workload.WorkloadRecipe),
    "network": ("what a message costs", Network),
    "faults": ("when machines fail and come back; without it they do not", faults.FaultsRecipe),
    "fluctuation": (
        "what machines have of their speed; without it all of it",
        background_load.FluctuationRecipe,
    ),
}


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file, as plain values."""
    schedulers = registered()
    classes = sorted({cls for cls, _ in schedulers.values()}, key=lambda cls: cls.__name__)
    kinds = [kind for _, kind in _TABLES.values()]
    made, parts = msgspec.json.schema_components(
        [*kinds, *classes], schema_hook=_column, ref_template="#/$defs/{name}"
    )
    known: list[type[msgspec.Struct]] = [*CONSTRUCTORS, *classes, Network, *_inner()]
    by_name = {cls.__name__: cls for cls in known}
    for name, part in parts.items():
        _describe(part, by_name[name])
    for table, union in zip(_TABLES, kinds, strict=True):
        for cls in get_args(union):
            parts[cls.__name__]["title"] = f'{table}, kind = "{cls.__struct_config__.tag}"'
    parts["Network"]["title"] = "network"
    tables = dict(zip(_TABLES, made, strict=False))
    names = {
        name: {"$ref": f"#/$defs/{cls.__name__}", "description": first_paragraph(cls)}
        for name, (cls, _) in schedulers.items()
    }
    said = parameter_texts(Scenario)
    properties = {
        "seed": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_SEED,
            "description": said.get("seed", ""),
        },
        **{name: {"description": _TABLES[name][0], **_plain(table)} for name, table in tables.items()},
        "schedulers": {
            "description": said.get("schedulers", ""),
            "type": "object",
            "properties": names,
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
    plain: dict[str, Any] = json.loads(msgspec.json.encode(schema), object_hook=_saying)
    return plain


def _inner() -> tuple[type[msgspec.Struct], ...]:
    """Return the Structs of tables within tables."""
    wants = *get_args(attributes.AttributesRecipe), attributes.Constraints
    return distributions.Range, *get_args(bags.Spread), zones.Zones, *wants


def _column(kind: type[ArrayColumn]) -> dict[str, Any]:
    """Return the schema of a column, which is a list in a file."""
    return msgspec.json.schema(list[kind.hints[0]])  # type: ignore[name-defined]


def _describe(part: dict[str, Any], cls: type[msgspec.Struct]) -> None:
    """Add descriptions and limits to a table and its keys, and forbid other keys."""
    constructor = CONSTRUCTORS.get(cls)
    part["description"] = _markdown(first_paragraph(cls if constructor is None else constructor))
    part["additionalProperties"] = False
    if part.get("required") == []:
        del part["required"]
    said = {} if constructor is None else parameter_texts(constructor)
    for base in reversed(cls.__mro__[:-1]):
        said |= parameter_texts(base)
    limits = limits_of(cls)
    for name, entry in part["properties"].items():
        described = _plain(entry)
        if name in limits:
            _limit(described, limits[name])
            _allow_text(described, limits[name].unit)
        if name == cls.__struct_config__.tag_field:
            described["description"] = "how it is made"
        elif name in said:
            described["description"] = _markdown(said[name])
        part["properties"][name] = described


def _limit(entry: dict[str, Any], limits: Limits) -> None:
    """Add the range of a number, or of the numbers in a list."""
    for each in entry.get("anyOf", [entry]):
        while each.get("type") == "array":
            each = each["items"]
        low = 0.0 if limits.or_zero else limits.low
        said = (("minimum", low), ("exclusiveMinimum", limits.above), ("maximum", limits.high))
        if "$ref" not in each:
            each |= {key: value for key, value in said if value is not None}


def _allow_text(entry: dict[str, Any], unit: str) -> None:
    """Allow texts with a unit, such as "50 ms", where a number in `unit` is."""
    if unit not in units.UNITS:
        return
    text = {"type": "string", "pattern": units.pattern(unit)}
    if "anyOf" in entry:
        entry["anyOf"].append(text)
    elif entry.get("type") == "number":
        limited = ("type", "minimum", "exclusiveMinimum", "maximum")
        number = {key: entry.pop(key) for key in limited if key in entry}
        entry["anyOf"] = [number, text]
    elif entry.get("type") == "array":
        entry["items"] = {"anyOf": [entry["items"], text]}


def _saying(entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` without an empty description."""
    return {key: value for key, value in entry.items() if (key, value) != ("description", "")}


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` without what TOML and JSON lack (null, infinite defaults) and what only OpenAPI has."""
    entry = {key: value for key, value in entry.items() if key != "discriminator"}
    if (default := entry.get("default", ...)) is None or default == math.inf:
        del entry["default"]
    if "anyOf" in entry:
        kept = [_plain(each) for each in entry.pop("anyOf") if each != {"type": "null"}]
        entry |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    return entry


def _markdown(text: str) -> str:
    return re.sub("``([^`]*)``", r"`\1`", text)
