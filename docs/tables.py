"""Tables of pages, made from what the library declares: ``python docs/tables.py`` writes them into the pages.

Below a comment such as ``<!-- keys: platform uniform -->`` stands a table, up to ``<!-- end -->``, by a
function of `TABLES`: of the rows of `gridsim list`, or of ``docs/data/defaults.csv`` and
``docs/data/defaults.toml``.  The names of all schedulers are written where the package and its reference list
them.  A test fails when that was forgotten.
"""

from __future__ import annotations

import csv
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import claims

from gridsim.cli.reference import column_rows, key_rows, parameter_rows, scenario_tables
from gridsim.results.descriptions import FACTS, PROVENANCE, TABLE_TEXTS
from gridsim.results.metrics.registry import SUMMARY
from gridsim.scheduling.registry import builtin_modules, registered
from gridsim.support.docstrings import description
from gridsim.support.parameters import fields_of

DOCS = Path(__file__).parent
#: A comment that asks for a table, and the table that it has.
MARK = re.compile(r"^<!-- (\w+): (.+) -->$(?:\n\n(?:(?!<!-- ).*\n)*?<!-- end -->$)?", re.MULTILINE)


def table(*rows: Iterable[str]) -> str:
    """Return a table in Markdown; the first row is its head."""
    head, *rest = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(text: str) -> str:
    """Return a text of a docstring with code as in Markdown."""
    return re.sub("``([^`]*)``", r"`\1`", text)


def toml(value: Any) -> str:
    """Return a default as it is written in a scenario file."""
    if value is None:
        return "none"
    if value == "required":
        return value
    return f"`{repr(value) if isinstance(value, float) else json.dumps(value)}`"


def fields(rows: Iterable[dict[str, Any]]) -> str:
    """Return a table of the fields of a class."""
    head = ("name", "value", "unit", "default", "meaning")
    return table(
        head,
        *(
            (
                f"`{row['name']}`",
                row["value"],
                row["unit"],
                toml(row["default"]),
                markdown(row["what"]).rstrip("."),
            )
            for row in rows
        ),
    )


def columns(name: str) -> str:
    """Return what a row of a table of results is, and a table of its columns."""
    head = ("column", "type", "unit", "definition", "only")
    rows = [row for row in column_rows() if row["table"] == name]
    cells = [(f"`{row['column']}`", row["type"], row["unit"], row["what"], row["only"]) for row in rows]
    some = any(row["only"] for row in rows)
    return f"{TABLE_TEXTS[name]}\n\n{table(*(line if some else line[:-1] for line in (head, *cells)))}"


def keys(name: str) -> str:
    """Return what a table of a scenario file is, and a table of its keys.

    With a kind, as in "platform uniform", these are the keys of this kind alone; of a table with kinds, those
    that all kinds share.
    """
    part, _, kind = name.partition(" ")
    kinds = scenario_tables()[part]
    wanted = kind if kind in kinds else "all"
    rows = [row for row in key_rows(part) if row["kind"] == wanted]
    parts = [markdown(description(kinds[wanted]))] if wanted in kinds else []
    return "\n\n".join([*parts, *([fields(rows)] if rows else [])])


def parameters(name: str) -> str:
    """Return a table of the parameters of a scheduler, by the name of its class."""
    return fields(parameter_rows({cls.__name__: cls for cls, _ in registered().values()}[name]))


def metrics(_: str) -> str:
    """Return a table of all metrics of a summary."""
    rows = (
        (
            f"`{name}`",
            metric.unit,
            markdown(metric.text),
            f"`{metric.requirement}`" if metric.requirement else "bags" if metric.of_bags else "",
        )
        for name, metric in SUMMARY.items()
    )
    return table(("key", "unit", "definition", "only with"), *rows)


def facts(_: str) -> str:
    """Return a table of all facts."""
    rows = ((f"`{name}`", fact.of, fact.unit, fact.text) for name, fact in FACTS.items())
    return table(("fact", "of", "unit", "definition"), *rows)


def provenance(_: str) -> str:
    """Return a table of the keys of the provenance of a result."""
    return table(("key", "definition"), *((f"`{key}`", text) for key, text in PROVENANCE.items()))


def schedulers(_: str) -> str:
    """Return a table of all registered schedulers."""
    rows = []
    for name, (cls, preset) in registered().items():
        values = ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in preset.items())
        rows.append((f"`{name}`", f"`{cls.__name__}`", values, markdown(cls(**preset).summary)))
    return table(("name", "class", "preset", "what"), *rows)


def decisions(_: str) -> str:
    """Return a table of the decisions that schedulers record."""
    recording: dict[tuple[str, ...], dict[str, None]] = {}
    for cls, _ in registered().values():
        if cls.decision_words:
            recording.setdefault(tuple(cls.decision_words), {})[f"`{cls.__name__}`"] = None
    rows = (
        (", ".join(names), ", ".join(f"`{word}`" for word in words)) for words, names in recording.items()
    )
    return table(("scheduler", "decisions"), *rows)


# -- reasons of defaults -------------------------------------------------------------------------------------


@cache
def measurements() -> dict[str, list[dict[str, str]]]:
    """Return scheduler -> rows of the settings that were compared with its defaults."""
    rows: dict[str, list[dict[str, str]]] = {}
    with open(DOCS / "data/defaults.csv", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row.pop("scheduler"), []).append(row)
    return rows


@cache
def entries() -> dict[str, Any]:
    """Return scheduler -> metric, cost, and reasons of the defaults that were not varied."""
    return tomllib.loads((DOCS / "data/defaults.toml").read_text())


def varied(scheduler: str) -> set[str]:
    """Return the parameters of a scheduler that were varied."""
    cells = (row["parameter"].partition(" with ")[0] for row in measurements().get(scheduler, ()))
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def reason(scheduler: str, parameter: str) -> str:
    """Return why a parameter has its default although it was not varied."""
    entry = entries()[scheduler]
    if parameter in (own := entry.get("reasons", {})):
        return own[parameter]
    if (like := entry.get("like")) is None:
        return entries()["common"]["reasons"][parameter]
    return f"as `{like}`" if parameter in varied(like) else reason(like, parameter)


def choices(scheduler: str) -> dict[str, Any]:
    """Return parameter -> default of the parameters of a scheduler that do something."""
    cls = {cls.name: cls for cls, _ in registered().values()}[scheduler]
    defaults = {name: field.default for name, field in fields_of(cls).items()}
    without = ("degree", "overlay") if defaults.get("degree") == 0 else ()  # nodes have no neighbours
    return {name: value for name, value in defaults.items() if name not in without}


def defaults(scheduler: str) -> str:
    """Return the settings that were compared with the defaults of a scheduler, and reasons of the others."""
    parts = []
    if rows := measurements().get(scheduler):
        entry = entries()[scheduler]
        parts += [
            f"Metric: {entry['metric']}; cost: {entry['cost']}.",
            table([*rows[0]], *(row.values() for row in rows)),
        ]
    others = {name: value for name, value in choices(scheduler).items() if name not in varied(scheduler)}
    if others:
        cells = ((f"`{name}`", toml(value), reason(scheduler, name)) for name, value in others.items())
        parts.append(table(("not varied", "default", "reason"), *cells))
    return "\n\n".join(parts)


# -- pages ---------------------------------------------------------------------------------------------------

#: Word of a comment -> function that returns the table.
TABLES: dict[str, Callable[[str], str]] = {
    function.__name__: function
    for function in (
        columns,
        keys,
        parameters,
        metrics,
        facts,
        provenance,
        schedulers,
        decisions,
        defaults,
        claims.experiments,
    )
}


def filled(page: str) -> str:
    """Return the text of a page with all tables."""

    def with_table(mark: re.Match[str]) -> str:
        word, title = mark[1], mark[2]
        if word not in TABLES:
            return mark[0]
        return f"<!-- {word}: {title} -->\n\n{TABLES[word](title)}\n\n<!-- end -->"

    return MARK.sub(with_table, page)


# -- lists of schedulers -------------------------------------------------------------------------------------


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
    """Yield each page with tables and each file that lists all schedulers, with the text it should have."""
    functions = {DOCS / name: text_of for name, text_of in LISTS.items()}
    for path in DOCS.glob("*/*.md"):
        functions.setdefault(path, filled)
    for path, text_of in functions.items():
        yield path, text_of(path.read_text())


if __name__ == "__main__":
    for path, text in [*generated()]:
        if text != path.read_text():
            path.write_text(text)
