"""Shared by commands: the flags of studies, on replications, where runs go, and what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import check_output
from gridsim.cli.quantities import FLOAT, INT
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.studies.execution.store import Store

Flags = dict[str, Any]


def where_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags on where runs go and what is kept of them."""
    options = [
        click.option("--workers", type=INT, metavar="N", help="Processes.  [as many as processors; 1: none]"),
        click.option("--dask", metavar="ADDRESS", help="Of the scheduler of a Dask cluster, to run there."),
        click.option("--store", "store_path", metavar="DIR", help="Keep what was run there, and reuse it."),
        click.option("--keep-results", is_flag=True, help="Keep whole results in the store too."),
        click.option("--retry", is_flag=True, help="Run again what the store knows to have failed."),
        click.option("--figure", metavar="FILE", help="Draw a figure (.png, .svg or .pdf)."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


#: For commands whose figures say who is best.
headline_option = click.option(
    "--headline/--no-headline", default=True, help="Write above the figure who is best.  [yes]"
)


def replica_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags on replications."""
    options = [
        click.option("--replicates", type=INT, metavar="N", help="Replications: runs with other seeds."),
        click.option("--half-width", type=FLOAT, metavar="W", help="Until intervals are +-W, relative."),
        click.option("--at-most", type=INT, metavar="N", help="Replications for that.  [1000]"),
        click.option("--hold", metavar="A,B", help="Parts that are the same in all, such as platform."),
        click.option("--metrics", metavar="A,B", help="What to measure.  [the usual of such schedulers]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def names_of(flag: str | None) -> list[str]:
    """Return the names in the comma-separated list of a flag."""
    return [] if flag is None else [name.strip() for name in flag.split(",") if name.strip()]


def check_figure(file: str | None) -> None:
    """Check, before anything is run, that a figure can be drawn and written; raise an error if not."""
    if file is not None:
        from gridsim.plots import FORMATS
        from gridsim.support.extras import need

        if _ending(file) not in FORMATS:
            known = ", ".join(f".{name}" for name in FORMATS)
            raise ScenarioError(f"--figure must end in one of {known}, got {file!r}")
        check_output("--figure", file)
        need("matplotlib.figure", "plot", "--figure")


def draw(file: str, made: Any) -> None:
    """Write a figure to a file, completely or not at all."""
    from gridsim import plots
    from gridsim.support.files import atomic_file

    with atomic_file(file) as stream:
        plots.save(made, stream, format=_ending(file))


def drawn(file: str, metrics: Sequence[str]) -> str:
    """Return the line that says that a figure was saved, and which of several metrics it shows."""
    return f"saved {file}" + (f", which shows {metrics[0]}" if len(metrics) > 1 else "")


def _ending(file: str) -> Any:
    return os.path.splitext(file)[1].lower().removeprefix(".")


@contextmanager
def places(flags: Flags, default_store: str | None = None) -> Iterator[Flags]:
    """Yield what `flags` say about where runs go, as arguments of `replicate`: executor, store, retry."""
    from gridsim.support.processes import executor_of

    if flags["dask"] is not None and flags["workers"] is not None:
        raise ScenarioError("--dask and --workers exclude each other")
    with executor_of(flags["workers"], flags["dask"]) as executor:
        yield {"executor": executor, "store": _store(flags, default_store), "retry": flags["retry"]}


def _store(flags: Flags, default: str | None) -> Store | None:
    path = default if flags["store_path"] is None else flags["store_path"]
    if path == "":
        raise ScenarioError("--store must name a folder, got ''")
    if path is None:
        for flag in ("keep_results", "retry"):
            if flags[flag]:
                raise ScenarioError(f"--{flag.replace('_', '-')} needs --store")
        return None
    if flags["store_path"] is None and os.path.islink(path):  # perhaps made by whoever made the file
        raise ScenarioError(f"--store must name where runs are kept, as {path} is a symbolic link")
    from gridsim.studies.execution.store import Store

    return Store(path, keep_results=flags["keep_results"])
