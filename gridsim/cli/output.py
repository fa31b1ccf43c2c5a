"""Shared by commands: where their answers go, and how a result is shown."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from gridsim.errors import ScenarioError, printable

if TYPE_CHECKING:
    from gridsim.results.metrics.registry import BoundKind
    from gridsim.results.result import Result
    from gridsim.support.progress import Progress

#: Pairs of a flag, or another name for messages, and the file that it names.
Places = Iterable[tuple[str, str | None]]


def say(text: str) -> None:
    """Write a text, which may contain names of files made by others, to standard output in printable form."""
    click.echo(printable(text))


def width() -> int:
    """Return the characters of a line of the terminal; 100 if the output goes elsewhere."""
    from gridsim.support.text import WIDTH

    if not sys.stdout.isatty():
        return WIDTH
    from shutil import get_terminal_size

    return max(40, get_terminal_size((WIDTH, 24)).columns)


def check_output(flag: str, path: str) -> None:
    """Check, without writing, that `path` can be written as a file.  Raises ScenarioError or OSError."""
    if not path:
        raise ScenarioError(f"{flag} must name a file, got ''")
    target = os.path.realpath(path)
    folder = os.path.dirname(path) or "."
    for needed in (folder, os.path.dirname(target)):  # a link may point into another folder
        if not os.path.isdir(needed):
            raise FileNotFoundError(errno.ENOENT, "no such folder", needed)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ScenarioError(f"{flag} {path}: not a regular file")
    if not os.access(os.path.dirname(target), os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def check_apart(read: Places, written: Places) -> None:
    """Raise ScenarioError if a file would be written that is also read, or that is written twice.

    Parameters
    ----------
    read, written
        Pairs of a flag and the file that it names.
    """
    taken = {os.path.realpath(path): flag for flag, path in reversed([*read]) if path is not None}
    for flag, path in written:
        if path is None:
            continue
        target = os.path.realpath(path)
        if target in taken:
            raise ScenarioError(f"{taken[target]} and {flag} name the same file, {path}")
        taken[target] = flag


def of_scenario(files: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the files that a scenario reads, each with a name for error messages."""
    return [("the scenario", file) for file in files]


def file_name(name: str) -> str:
    """Return the file name of the result `name` in a folder."""
    return re.sub(r"[^\w.-]", "_", name) + ".npz"


def in_folder(out: str | None, name: str) -> str | None:
    """Return the file that ``--out`` means: the path itself, or a file in it if it is a folder."""
    return os.path.join(out, file_name(name)) if out is not None and os.path.isdir(out) else out


def progress_of(wanted: bool | None, as_json: bool) -> Progress:
    """Return `progress` for `simulate`: as the flag says, or if neither is given, on without ``--json``."""
    if wanted is None:
        return not as_json
    return "force" if wanted else False


def deliver(
    result: Result,
    name: str,
    *,
    out: str | None,
    bound: BoundKind,
    as_json: bool,
    report: str | None = None,
    verbose: bool = False,
) -> None:
    """Show a result; save it, and write a report on it, if that is wanted."""
    from gridsim.results.metrics.registry import UNITS
    from gridsim.support.text import to_json

    if out is not None:
        result.save(out)
    if report is not None:
        from gridsim.report import write_report
        from gridsim.studies.compare import Comparison

        one = Comparison(result.scenario, {name: result}, name, bound)
        write_report(one, report, files=None if out is None else {name: out})
    if as_json:
        answer = {**result.summary(bound), "provenance": result.provenance, "units": UNITS}
        click.echo(to_json({"name": name, **answer, "file": out, "report": report}))
        return
    say(result.format(name, bound, width=width(), verbose=verbose))
    if out is not None:
        click.echo(f"saved         {out}")
    if report is not None:
        click.echo(f"report        {report}")
