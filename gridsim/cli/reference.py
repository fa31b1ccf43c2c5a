"""Parameters of schedulers, keys of scenario files and columns of results, as rows of `gridsim list`.

The tables of the reference pages have the same rows.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from gridsim.model.kinds import PARTS, all_kinds
from gridsim.model.network import Network
from gridsim.support.columns import ArrayColumn
from gridsim.support.docstrings import parameter_texts
from gridsim.support.parameters import Limits, default_of, fields_of, limits_of, tables_of

Row = dict[str, Any]
_PLAIN = {bool: "true or false", str: "text", int: "whole number", float: "number"}


def parameter_rows(cls: type[msgspec.Struct]) -> Iterator[Row]:
    """Yield name, default, allowed values, unit and meaning of each field of a class."""
    from gridsim.cli.schema import CONSTRUCTORS

    texts: dict[str, str] = {}
    described = [CONSTRUCTORS[cls]] if cls in CONSTRUCTORS else []
    for source in (*described, *reversed(cls.__mro__[:-1])):
        texts |= parameter_texts(source)
    limits = limits_of(cls)
    for field in fields_of(cls).values():
        key = field.encode_name
        yield {
            "name": key,
            "default": "required" if field.required else _plain_default(default_of(field)),
            "value": value_text(field.type),
            "unit": limits[key].unit if key in limits else "",
            "what": texts.get(key, ""),
        }


def _plain_default(value: Any) -> Any:
    """Return a default as in a scenario file: a list for a tuple, {} for a table of defaults."""
    if isinstance(value, msgspec.Struct):
        return {}
    return [*value] if isinstance(value, tuple) else value


def scenario_tables() -> dict[str, dict[str, type[msgspec.Struct]]]:
    """Return table of a scenario file -> kind -> class; a table without kinds has the kind ""."""
    tables: dict[str, dict[str, type[msgspec.Struct]]] = {}
    for part in PARTS:
        tables[part] = all_kinds(part)
        for cls in all_kinds(part).values():
            for key, structs in tables_of(cls).items():
                inner = tables.setdefault(f"{part}.{key}", {})
                inner |= {str(struct.__struct_config__.tag or ""): struct for struct in structs}
    return tables | {"network": {"": Network}}


def key_rows(table: str) -> Iterator[Row]:
    """Yield kind and parameter row of each key of a table, such as "workload" or "platform.power".

    The kind of a key that all kinds share is "all".
    """
    kinds = {kind: [*parameter_rows(cls)] for kind, cls in scenario_tables()[table].items()}
    first, *others = kinds.values()
    shared = [row for row in first if others and all(row in rows for rows in others)]
    for kind, rows in {"all": shared, **kinds}.items():
        for row in rows:
            if kind == "all" or row not in shared:
                yield {"kind": kind, **row}


def column_rows() -> Iterator[Row]:
    """Yield table, condition, name, type, unit and meaning of each declared column of a result."""
    from gridsim.results.schema import COLUMNS

    for group, columns in COLUMNS.items():
        table, _, condition = group.partition(", ")
        for column in columns:
            yield {
                "table": table,
                "column": column.name,
                "type": column.kind,
                "unit": column.unit,
                "only": condition,
                "what": column.text,
            }


def value_text(hint: Any) -> str:
    """Return the allowed values of a type in words, such as "list of numbers >= 0"."""
    origin, arguments = get_origin(hint), get_args(hint)
    column = arguments[0] if origin is Annotated else hint
    if isinstance(column, type) and issubclass(column, ArrayColumn):
        entry, number = column.hints
        single = Annotated[(number, *arguments[1:])] if arguments else number
        one_list = types.GenericAlias(tuple, (single, ...))
        return value_text(one_list if entry is number else types.GenericAlias(tuple, (one_list, ...)))
    if origin is Annotated:
        limits = next((entry for entry in arguments if isinstance(entry, Limits)), None)
        if limits is None or get_origin(arguments[0]) in (Union, types.UnionType):
            return value_text(arguments[0])
        return _range_text(_PLAIN[arguments[0]], limits)
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(value_text(kind) for kind in arguments if kind is not type(None)))
    if origin is tuple:
        entry = value_text(arguments[0])
        noun = "list" if "list" in entry else "number"
        return f"list of {entry.replace(noun, f'{noun}s', 1)}"
    if origin is dict or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return "table"
    return _PLAIN.get(hint, "name")


def _range_text(noun: str, limits: Limits) -> str:
    spec = ",.0f" if noun == _PLAIN[int] else "g"
    if limits.low is not None and limits.high is not None:
        text = f"{noun} in {limits.low:{spec}}..{limits.high:{spec}}"
    else:
        bounds = {">": limits.above, ">=": limits.low, "at most": limits.high}
        texts = (f"{word} {bound:{spec}}" for word, bound in bounds.items() if bound is not None)
        text = f"{noun} {', '.join(texts)}".rstrip()
    return f"0 or {text}" if limits.or_zero else text
