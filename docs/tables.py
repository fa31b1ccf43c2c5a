"""Tables of pages, made from what the library declares.

Those of reference/schema.md are made when the site is built.  Those of reference/outputs.md are kept in the
page, each below a comment that says what it has: ``python docs/tables.py`` writes them anew after a change of
columns or metrics, and a test fails when that was forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gridsim.cli.schema import scenario_schema
from gridsim.results.metrics.registry import SUMMARY
from gridsim.results.schema import COLUMNS

MARK = "<!-- tables -->"


def leads(entry: dict[str, Any], parts: dict[str, Any]) -> list[str]:
    """Links to the tables that an entry may be."""
    names = [each["$ref"].rpartition("/")[2] for each in entry.get("anyOf", [entry]) if "$ref" in each]
    titles = {name: parts[name]["title"].partition(" = ")[2] or parts[name]["title"] for name in names}
    return [f"[`{title}`](#schema-{name.lower()})" for name, title in titles.items()]


def kind(entry: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in entry:
        return " or ".join(kind(each) for each in entry["anyOf"])
    if "enum" in entry:
        return ", ".join(f"`{json.dumps(value)}`" for value in entry["enum"])
    if "$ref" in entry:
        name = entry["$ref"].rpartition("/")[2]
        return f"[table](#schema-{name.lower()})"
    if entry.get("type") == "array":
        if "items" in entry and entry["items"]:
            return f"list of {kind(entry['items'])}"
        return "list"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    return words.get(entry.get("type", ""), "text")


def rows(table: dict[str, Any]) -> Iterator[str]:
    """A table of the keys of a table."""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    required = table.get("required", [])
    for name, entry in table["properties"].items():
        default = "required" if name in required else "none"
        if "default" in entry:
            default = f"`{json.dumps(entry['default'])}`"
        cells = (f"`{name}`", kind(entry), default, entry.get("description", ""))
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def tables() -> str:
    """What a file has, the schedulers, and a section for each table."""
    schema = scenario_schema()
    parts = schema["$defs"]
    lines = ["## Tables", "", "| key | default | meaning | kinds |", "|---|---|---|---|"]
    for name, entry in schema["properties"].items():
        default = "required" if name in schema["required"] else "`0`" if name == "seed" else "none"
        found = ", ".join(leads(entry, parts))
        lines.append(f"| `{name}` | {default} | {entry['description']} | {found} |")
    lines += ["", "## Schedulers", "", "| name | parameters | |", "|---|---|---|"]
    for name, entry in schema["properties"]["schedulers"]["properties"].items():
        lines.append(f"| `{name}` | {leads(entry, parts)[0]} | {entry['description']} |")
    lines += ["", "## Keys", ""]
    for name, part in parts.items():
        lines += [f"(schema-{name.lower()})=", "", f"### {part['title']}", "", f"{part['description']}", ""]
        if part["properties"]:
            lines += [*rows(part), ""]
    return "\n".join(lines)


#: A comment that says what the table below it has.
DECLARED = re.compile(r"(<!-- (columns|metrics): (.+) -->\n\n)(?:\|.*\n)*")


def columns(group: str) -> Iterator[str]:
    """A table of the columns of a group."""
    yield "| column | type | unit | definition |"
    yield "|---|---|---|---|"
    for each in COLUMNS[group]:
        yield f"| `{each.name}` | {each.kind} | {each.unit} | {each.text} |"


def metrics(title: str) -> Iterator[str]:
    """A table of all metrics."""
    yield "| key | unit | definition | only with |"
    yield "|---|---|---|---|"
    for name, each in SUMMARY.items():
        text = each.text.replace("|", r"\|")
        where = f"`{each.when}`" if each.when else ""
        yield f"| `{name}` | {each.unit} | {text} | {where} |"


def declared(page: str) -> str:
    """The text of a page with all tables that are made of declarations."""
    made = {"columns": columns, "metrics": metrics}
    return DECLARED.sub(lambda found: found[1] + "\n".join(made[found[2]](found[3])) + "\n", page)


def fill(app: Any, page: str, source: list[str]) -> None:
    """Sphinx's event ``source-read``."""
    if page == "reference/schema":
        source[0] = source[0].replace(MARK, tables())


def changed(app: Any, *_: Any) -> list[str]:
    """Sphinx's event ``env-get-outdated``: the page is read again, whatever became of the schema."""
    return ["reference/schema"]


def setup(app: Any) -> None:
    app.connect("env-get-outdated", changed)
    app.connect("source-read", fill)


if __name__ == "__main__":
    outputs = Path(__file__).parent / "reference" / "outputs.md"
    outputs.write_text(declared(outputs.read_text()))
