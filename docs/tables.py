"""Tables of pages, and lists of schedulers, made from what the library declares.

Those of reference/schema.md are made when the site is built.  Others are kept in the pages, each below a
comment that says what it has: ``python docs/tables.py`` writes them anew after a change of columns, metrics
or parameters, or of the registered schedulers, and a test fails when that was forgotten.  It also writes the
names of schedulers where the package and its reference list them.
"""

from __future__ import annotations

import json
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import claims
import msgspec

from gridsim.cli.schema import CONSTRUCTORS, scenario_schema
from gridsim.model.attributes import Constraints, DrawnAttributes, ListedAttributes
from gridsim.model.bag_workloads import Exponential, LogNormal, LogUniform, Normal
from gridsim.model.network import Network
from gridsim.model.power import Power
from gridsim.model.time_zones import Zones
from gridsim.results.metrics.registry import SUMMARY
from gridsim.results.schema import COLUMNS
from gridsim.scheduling.registry import builtin_modules, registered
from gridsim.support.columns import ArrayColumn
from gridsim.support.docstrings import parameter_texts
from gridsim.support.parameters import Limits

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
DECLARED = re.compile(
    r"(<!-- (columns|metrics|parameters|schedulers|decisions|experiments): (.+) -->\n\n)(?:\|.*\n)*"
)
#: Pages with such tables.
PAGES = ("reference/outputs.md", "reference/scenario.md", "guides/why.md", "background/*.md")


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
        where = f"`{each.requirement}`" if each.requirement else "bags" if each.of_bags else ""
        yield f"| `{name}` | {each.unit} | {escaped(each.text)} | {where} |"


def schedulers(title: str) -> Iterator[str]:
    """A table of all registered schedulers."""
    yield "| name | class | preset | what |"
    yield "|---|---|---|---|"
    for name, (cls, preset) in registered().items():
        values = ", ".join(f"`{key} = {toml(value)}`" for key, value in preset.items())
        what = re.sub("``([^`]*)``", r"`\1`", cls(**preset).summary)
        yield f"| `{name}` | `{cls.__name__}` | {values} | {escaped(what)} |"


def decisions(title: str) -> Iterator[str]:
    """A table of the decisions that schedulers record."""
    yield "| scheduler | decisions |"
    yield "|---|---|"
    recording: dict[tuple[str, ...], dict[str, None]] = {}
    for cls, _ in registered().values():
        if cls.decision_words:
            recording.setdefault(tuple(cls.decision_words), {})[f"`{cls.__name__}`"] = None
    for actions, names in recording.items():
        yield f"| {', '.join(names)} | {', '.join(f'`{action}`' for action in actions)} |"


def parameters(title: str) -> Iterator[str]:
    """A table of the fields of a scheduler, or of a table of a scenario file, by the name of its class."""
    cls = described()[title]
    yield "| name | value | unit | default | meaning |"
    yield "|---|---|---|---|---|"
    constructor, said = CONSTRUCTORS.get(cls), {}
    for base in (*([] if constructor is None else [constructor]), *reversed(cls.__mro__[:-1])):
        said |= parameter_texts(base)
    hints = get_type_hints(cls, include_extras=True)
    fields = msgspec.structs.fields(cls)
    has_neighbours = all(each.default != 0 for each in fields if each.name == "degree")
    for each in fields:
        if each.name in ("degree", "overlay") and not has_neighbours:
            continue
        default = "required"
        if each.default_factory is not msgspec.NODEFAULT:
            default = "see there"
        elif not each.required:
            value = each.default
            default = "none" if value is None else f"`{toml(value)}`"
        hint = hints[each.name]
        unit, meaning = (
            unit_of(hint),
            re.sub("``([^`]*)``", r"`\1`", said.get(each.encode_name, "").rstrip(".")),
        )
        yield f"| `{each.encode_name}` | {value_of(hint)} | {unit} | {default} | {escaped(meaning)} |"


def described() -> dict[str, type[msgspec.Struct]]:
    """Classes by name: of schedulers, and of tables of scenario files."""
    known = [cls for cls, _ in registered().values()]
    spreads = (Normal, LogUniform, Exponential, LogNormal)
    of_machines = (DrawnAttributes, ListedAttributes, Power, Constraints)
    return {cls.__name__: cls for cls in (*known, *CONSTRUCTORS, Network, Zones, *spreads, *of_machines)}


def escaped(text: str) -> str:
    return text.replace("|", r"\|")


def toml(value: Any) -> str:
    """A default as it is written in a scenario file."""
    if isinstance(value, float):
        return repr(value)
    if value == ():
        return "[]"
    return json.dumps(value) if isinstance(value, (bool, int, str)) else f"{type(value).__name__}()"


def limits(hint: Any) -> Limits | None:
    """The limits in a type, also of the entries of a list."""
    for each in get_args(hint):
        found = each if isinstance(each, Limits) else limits(each)
        if found is not None:
            return found
    return None


def unit_of(hint: Any) -> str:
    found = limits(hint)
    return found.unit if found else ""


def value_of(hint: Any) -> str:
    """What a field may be, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    column = arguments[0] if origin is Annotated else hint
    if isinstance(column, type) and issubclass(column, ArrayColumn):
        entry, number = column.hints
        single = Annotated[(number, *arguments[1:])] if arguments else number
        return value_of(tuple[single if entry is number else tuple[single, ...], ...])
    if origin is Annotated:
        kind, found = arguments[0], limits(hint)
        if found is None or get_origin(kind) in (Union, types.UnionType):
            return value_of(kind)
        what = "whole number" if kind is int else "number"
        if found.high is not None:
            high = f"{found.high:,.0f}" if kind is int else f"{found.high:g}"
            most = f"> {found.above:g}, at most {high}" if found.low is None else f"in {found.low:g}..{high}"
            return f"{'0 or ' if found.or_zero else ''}{what} {most}"
        bound = f" > {found.above:g}" if found.above is not None else ""
        bound = f" >= {found.low:g}" if found.low is not None else bound
        return f"{what}{bound}"
    if origin is Literal:
        return ", ".join(f"`{json.dumps(each)}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(value_of(each) for each in arguments if each is not type(None)))
    if origin is tuple:
        inner = value_of(arguments[0])
        one = "list" if "list" in inner else "number"
        return f"list of {inner.replace(one, f'{one}s', 1)}"
    if origin is dict or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return "table"
    return {bool: "true or false", str: "text", int: "whole number", float: "number"}.get(hint, "name")


def declared(page: str) -> str:
    """The text of a page with all tables that are made of declarations."""
    made = {
        "columns": columns,
        "metrics": metrics,
        "parameters": parameters,
        "schedulers": schedulers,
        "decisions": decisions,
        "experiments": claims.experiments,
    }
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


def pages() -> list[Path]:
    """Those with tables of declarations."""
    return sorted(path for pattern in PAGES for path in Path(__file__).parent.glob(pattern))


def scheduler_stub(text: str) -> str:
    """The stub of `gridsim.schedulers`, with its constants."""
    head, constants = text.splitlines()[0], re.findall(r"^from .* as [A-Z_]+$", text, re.MULTILINE)
    classes = [f"from .{module} import {name} as {name}" for name, module in builtin_modules().items()]
    return "\n".join([head, "", *sorted([*classes, *constants], key=str.lower)]) + "\n"


def public_stub(text: str) -> str:
    """The stub of `gridsim`, with all schedulers."""
    lines = (f"from .schedulers import (\n    {name} as {name},\n)\n" for name in sorted(builtin_modules()))
    before, _, rest = text.partition("from .schedulers import (")
    after = re.split(r"(?:.*\n)*from \.schedulers import \(\n.*\n\)\n", rest)[-1]
    return before + "".join(lines) + after


def help_text(text: str) -> str:
    """The source of `gridsim` with all schedulers in its help."""
    kinds = registered()
    rigid = {cls.__name__: cls.rigid for cls, _ in kinds.values()}
    groups: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
    for name, module in builtin_modules().items():
        groups[rigid[name]].setdefault(module.partition(".")[0], []).append(name)
    bags, jobs = ("; ".join(map(", ".join, groups[kind].values())) for kind in (False, True))
    lines = textwrap.wrap(f"Schedulers of bags: {bags}.  Schedulers of rigid jobs: {jobs}.", 109)
    return re.sub(r"(?m)^Schedulers of bags: (?:.+\n)+", lambda _: "\n".join(lines) + "\n", text)


def reference_list(text: str) -> str:
    """The page of the reference with all schedulers."""
    lines = "".join(f"   {name}\n" for name in builtin_modules())
    return re.sub(r"(:toctree: generated\n\n)(?:   \w+\n)*", lambda found: found[1] + lines, text)


#: File -> function that returns its text with all schedulers.
LISTS: dict[str, Callable[[str], str]] = {
    "../gridsim/schedulers/__init__.pyi": scheduler_stub,
    "../gridsim/__init__.pyi": public_stub,
    "../gridsim/__init__.py": help_text,
    "reference/api/schedulers.md": reference_list,
}


def generated() -> Iterator[tuple[Path, str]]:
    """Pairs of a file and the text that it should have."""
    for path in pages():
        yield path, declared(path.read_text())
    for name, text_of in LISTS.items():
        path = Path(__file__).parent / name
        yield path, text_of(path.read_text())


if __name__ == "__main__":
    for path, text in [*generated()]:
        path.write_text(text)
