"""The commands `gridsim store`: what a store of runs contains, and its maintenance."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import NamingCommand, SentenceGroup, json_option
from gridsim.cli.output import check_distinct, check_table, print_text, save_table
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.studies.execution.store import Store


@click.group("store", cls=SentenceGroup)
def store() -> None:
    """List, check, merge, shrink or export stores, the folders in which studies keep their runs (--store)."""


def _store_at(path: str) -> Store:
    """Return the store in a folder, which must exist."""
    from gridsim.studies.execution.store import Store, is_store

    if not is_store(path):
        raise ScenarioError(f"DIR must be a store, as --store makes it, got {path!r}")
    return Store(path)


@store.command("list", cls=NamingCommand)
@click.argument("path", metavar="DIR")
@json_option
def list_command(path: str, as_json: bool) -> None:
    """List the runs of a store by version, scheduler and your code: number, failures, total wall time."""
    from gridsim.support.provenance import code_version
    from gridsim.support.text import align, to_json

    rows = _store_at(path).contents()
    if as_json:
        click.echo(to_json({"store": path, "code": code_version(), "contents": rows}))
        return
    columns = {
        "version": [
            f"{row['code']}{'' if row['code'] == code_version() else ' (another version)'}" for row in rows
        ],
        "scheduler": [row["scheduler"] for row in rows],
        "user code": [row["user_code"] or "-" for row in rows],
        "runs": [str(row["runs"]) for row in rows],
        "failed": [str(row["failed"]) for row in rows],
        "wall (s)": [f"{row['wall_seconds']:.1f}" for row in rows],
    }
    print_text("\n".join(align([[name, *column] for name, column in columns.items()], left=range(3))))


@store.command("verify", cls=NamingCommand)
@click.argument("path", metavar="DIR")
@json_option
def verify(path: str, as_json: bool) -> None:
    """Read all files of a store and check their digests.

    The exit code is 1 if a file is damaged or missing.
    """
    from gridsim.support.text import to_json

    opened = _store_at(path)
    faults = opened.verify()
    if as_json:
        click.echo(to_json({"store": path, "faults": faults}))
    else:
        for fault in faults:
            print_text(fault)
        print_text(f"{path}: {len(faults) or 'no'} fault{'' if len(faults) == 1 else 's'}")
    if faults:
        sys.exit(1)


@store.command("merge", cls=NamingCommand)
@click.argument("path", metavar="DIR")
@click.argument("paths", metavar="OTHER...", nargs=-1, required=True)
@json_option
def merge(path: str, paths: tuple[str, ...], as_json: bool) -> None:
    """Add the runs of other stores to the store DIR, which is created if it does not exist.

    The other stores are unchanged.
    """
    from gridsim.studies.execution.store import Store, check_mergeable, is_store
    from gridsim.support.text import to_json

    sources = [_store_at(source) for source in paths]
    check_distinct([(f"OTHER {source}", source) for source in paths], [("DIR", path)])
    check_mergeable([*([Store(path)] if is_store(path) else []), *sources])  # before the folder is created
    target = Store(path)
    added = {file: target.merge(source) for file, source in zip(paths, sources, strict=True)}
    if as_json:
        click.echo(to_json({"store": path, "added": added, "runs": len(target)}))
        return
    for file, count in added.items():
        print_text(f"{file}: {count} runs added")
    print_text(f"{path}: {len(target)} runs")


@store.command("drop", cls=NamingCommand)
@click.argument("path", metavar="DIR")
@click.option("--code", metavar="VERSION", help="Runs of this version, as gridsim store list shows it.")
@click.option("--scheduler", metavar="NAME", help="Runs of the scheduler of this name.")
@click.option("--user-code", metavar="HASH", help="Runs with this version of your own code, as listed.")
@click.option("--failed", is_flag=True, help="Runs that failed.")
@click.option("--other-versions", is_flag=True, help="Runs of other versions of gridsim than this one.")
@json_option
def drop(path: str, as_json: bool, **conditions: Any) -> None:
    """Remove the runs to which all of the conditions apply, with what only they refer to.

    Meanwhile no study may use the store.
    """
    from gridsim.support.text import to_json

    target = _store_at(path)
    if not any(value not in (None, False) for value in conditions.values()):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in conditions)
        raise ScenarioError(f"drop requires at least one of {flags}")
    count = target.drop(**conditions)
    if as_json:
        click.echo(to_json({"store": path, "dropped": count, "runs": len(target)}))
    else:
        print_text(f"{path}: {count} runs dropped, {len(target)} left")


@store.command("export", cls=NamingCommand)
@click.argument("path", metavar="DIR")
@click.option("--out", required=True, metavar="FILE", help="Output file (.parquet or .csv).")
@json_option
def export(path: str, out: str, as_json: bool) -> None:
    """Write a table with a row for each run of a store, in the order of their keys."""
    from gridsim.support.text import to_json

    check_table(out)
    table = _store_at(path).to_arrow().sort_by("key")  # equal stores have equal tables
    save_table(table, out)
    if as_json:
        click.echo(to_json({"store": path, "rows": table.num_rows, "out": out}))
    else:
        print_text(f"saved {out}: {table.num_rows} rows")
