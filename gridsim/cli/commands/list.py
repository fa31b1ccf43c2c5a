"""The commands `gridsim list`: schedulers, parameters, keys, columns, facts, metrics and formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from gridsim.cli.options import SentenceGroup, complete_schedulers, json_option
from gridsim.cli.output import print_text, terminal_width

Row = dict[str, Any]


#: Name of a command -> the function that yields its rows.
_ROWS: dict[str, Callable[..., Iterator[Row]]] = {}


@click.group("list", cls=SentenceGroup, invoke_without_command=True)
@click.pass_context
@json_option
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List schedulers, their parameters, keys of scenario files, columns of results, metrics and formats.

    With --json and without a command, everything is listed.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError("--json must follow the name of the command")
        return
    if not as_json:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)
    from gridsim.cli.reference import scenario_tables
    from gridsim.scheduling.registry import registered
    from gridsim.support.text import to_json

    names = {"parameters": [*registered()], "keys": [*scenario_tables()]}
    everything: dict[str, Any] = {
        name: {argument: [*rows(argument)] for argument in names[name]} if name in names else [*rows()]
        for name, rows in _ROWS.items()
    }
    click.echo(to_json(everything))


def _listing(
    name: str, *columns: str, notes: Sequence[str] = ()
) -> Callable[[Callable[..., Iterator[Row]]], Callable[..., None]]:
    """Return a decorator that turns a function that yields rows into a command that shows them.

    Parameters
    ----------
    columns
        Keys of the rows, in the order in which they are shown; the last one is wrapped.
    notes
        Keys of the rows that are shown in brackets after the last column.
    """

    def decorate(rows: Callable[..., Iterator[Row]]) -> Callable[..., None]:
        def command(as_json: bool, **arguments: Any) -> None:
            from gridsim.support.text import to_json

            entries = list(rows(**arguments))
            click.echo(to_json(entries)) if as_json else print_text(
                "\n".join(_lines(entries, columns, notes))
            )

        _ROWS[name] = rows
        command.__doc__ = rows.__doc__
        for option in getattr(rows, "__click_params__", []):
            command.__dict__.setdefault("__click_params__", []).append(option)
        list_command.command(name)(json_option(command))
        return command

    return decorate


def _without_markup(row: Row) -> Row:
    """Return a row whose text has no backquotes, and no targets of links."""
    return {**row, "what": re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row["what"]).replace("`", "")}


def _lines(rows: Sequence[Row], columns: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    from gridsim.support.text import align, wrap_text

    if not rows:
        yield "none"
        return
    texts = [[key, *(str(row[key]) for row in rows)] for key in columns[:-1]]
    heads = align(texts, left=range(len(texts)))
    indent = 2 + max(map(len, heads))
    last = [columns[-1]]
    for row in rows:
        note = ", ".join(filter(None, (row[key] for key in notes)))
        last.append(f"{row[columns[-1]]}{f'  [{note}]' if note else ''}")
    for head, text in zip(heads, last, strict=True):
        yield from wrap_text(f"{head:<{indent}}{text}".rstrip(), max(terminal_width(), indent + 30), indent)


@_listing("schedulers", "name", "of", "information", "what")
def schedulers() -> Iterator[Row]:
    """List the registered schedulers, what each knows of other machines, and a summary.

    "perfect": everything at every instant, at no cost; "messages": what messages have told its nodes.
    """
    from gridsim.scheduling.registry import registered

    for name, (cls, preset) in registered().items():
        values = ", ".join(f"{key}={value}" for key, value in preset.items())
        summary = cls(**preset).summary
        yield {
            "name": name,
            "of": "rigid jobs" if cls.rigid else "bags",
            "information": "messages" if cls.decentralized else "perfect",
            "class": f"{cls.__module__}:{cls.__qualname__}",
            "preset": dict(preset),
            "decisions": [*cls.decision_words],
            "environment": [
                {"where": condition, "because": reason}
                for condition, reason in getattr(cls, "environment_reasons", list)()
            ],
            "what": ": ".join(filter(None, (f"with {values}" if values else "", summary))),
        }


@_listing("metrics", "name", "unit", "what")
def metrics() -> Iterator[Row]:
    """List the metrics that studies can report (--metrics)."""
    from gridsim.results.metrics.registry import ALIASES, METRICS
    from gridsim.results.metrics.selection import plugin_metrics

    for name, metric in METRICS.items():
        aliases = " or ".join(alias for alias, alias_of in ALIASES.items() if alias_of == name)
        text = f"{metric.text.removesuffix('.')}; also {aliases}." if aliases else metric.text
        yield {"name": name, "unit": "-" if metric.unit == "1" else metric.unit, "what": text}
    for name, other in plugin_metrics().items():
        yield {"name": name, "unit": "-" if other.unit == "1" else other.unit, "what": other.text}


@_listing("parameters", "name", "default", "what", notes=("value", "unit"))
@click.argument("name", shell_complete=complete_schedulers)
def parameters(name: str) -> Iterator[Row]:
    """List the parameters (--set NAME.PARAM=VALUE) of the scheduler NAME or module:Class."""
    from gridsim.cli.reference import parameter_rows
    from gridsim.scheduling.registry import scheduler_class

    yield from map(_without_markup, parameter_rows(scheduler_class(name)))


@_listing("keys", "kind", "name", "default", "what", notes=("value", "unit"))
@click.argument("table")
@click.argument("kind", required=False)
def keys(table: str, kind: str | None = None) -> Iterator[Row]:
    """List the keys of a table of scenario files, such as `network`, `workload` or `platform.power`.

    With KIND, such as `bags`, only those of this kind.
    """
    from gridsim.cli.reference import key_rows, scenario_tables
    from gridsim.support.arguments import one_of

    tables = scenario_tables()
    kinds = tables[one_of("TABLE", table, tuple(tables))]
    selected = kinds if kind is None else ("all", one_of("KIND", kind, tuple(kinds)))
    for row in key_rows(table):
        if row["kind"] in ("all", *selected):
            yield _without_markup(row)


@_listing("columns", "table", "column", "what", notes=("type", "unit", "only"))
@click.argument("table", required=False)
def columns(table: str | None = None) -> Iterator[Row]:
    """List the columns of the tables of a result, or of TABLE."""
    from gridsim.cli.reference import column_rows
    from gridsim.results.schema import TABLES
    from gridsim.support.arguments import one_of

    selected = TABLES if table is None else (one_of("TABLE", table, tuple(TABLES)),)
    for row in column_rows():
        if row["table"] in selected:
            yield _without_markup(row)


@_listing("facts", "fact", "what", notes=("of", "unit"))
def facts() -> Iterator[Row]:
    """List the facts (`Result.facts`) that schedulers report."""
    from gridsim.results.descriptions import FACTS

    for name, fact in FACTS.items():
        yield _without_markup({"fact": name, "unit": fact.unit, "of": fact.of, "what": fact.text})


@_listing("provenance", "key", "what")
def provenance() -> Iterator[Row]:
    """List the keys of the provenance of a result (`Result.provenance`)."""
    from gridsim.results.descriptions import PROVENANCE

    for key, text in PROVENANCE.items():
        yield _without_markup({"key": key, "what": text})


@_listing("workloads", "table", "kind", "what")
def workloads() -> Iterator[Row]:
    """List the kinds of workloads, platforms, failures and background load of scenario files."""
    from gridsim.cli.schema import CONSTRUCTORS
    from gridsim.model.kinds import all_kinds
    from gridsim.support.docstrings import first_paragraph

    for part in ("workload", "platform", "faults", "fluctuation"):
        for name, cls in all_kinds(part).items():
            constructor = CONSTRUCTORS.get(cls)
            yield {
                "table": part,
                "kind": name,
                "what": first_paragraph(cls).partition("  ")[0].replace("`", ""),
                "constructor": f"{part.capitalize()}({cls.__module__}:{cls.__qualname__}(...))"
                if constructor is None
                else f"{constructor.__self__.__name__}.{constructor.__name__}",
            }


@_listing("traces", "format", "what")
def traces() -> Iterator[Row]:
    """List the formats of trace files."""
    from gridsim.traces.formats import format_descriptions

    for name, description in format_descriptions().items():
        yield {"format": name, "what": description}


@_listing("exports", "format", "what")
def exports() -> Iterator[Row]:
    """List the formats in which results are exported (gridsim export --format)."""
    from gridsim.results.formats.registry import export_formats

    for name, format in export_formats().items():
        yield {"format": name, "what": format.text}
