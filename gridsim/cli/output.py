"""What commands share about their answers: where they go, and how a result is shown."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from gridsim.errors import ScenarioError, printable

if TYPE_CHECKING:
    from gridsim.results.metrics.registry import BoundKind
    from gridsim.results.result import Result
    from gridsim.support.progress import Progress

#: Flags, or what else they are called, and the files that they name.
Places = Iterable[tuple[str, str | None]]


def say(text: str) -> None:
    """Show a text, in which names of files of others may stand, on standard output."""
    click.echo(printable(text))


def check_output(flag: str, path: str) -> None:
    """That `path` can be written as a file, as far as one can tell without writing."""
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
    """That no file is written where another one is written, or read; both are pairs of a flag and a file."""
    taken = {os.path.realpath(path): flag for flag, path in reversed([*read]) if path is not None}
    for flag, path in written:
        if path is None:
            continue
        target = os.path.realpath(path)
        if target in taken:
            raise ScenarioError(f"{taken[target]} and {flag} name the same file, {path}")
        taken[target] = flag


def of_scenario(files: Iterable[str]) -> list[tuple[str, str | None]]:
    """The files that a scenario reads, each with what to call it."""
    return [("the scenario", file) for file in files]


def file_name(name: str) -> str:
    """The file of a result in a folder."""
    return re.sub(r"[^\w.-]", "_", name) + ".npz"


def in_folder(out: str | None, name: str) -> str | None:
    """The file that ``--out`` means: itself, or if it is a folder, one in it."""
    return os.path.join(out, file_name(name)) if out is not None and os.path.isdir(out) else out


def progress_of(wanted: bool | None, as_json: bool) -> Progress:
    """What `simulate` is told for ``--progress``, ``--no-progress`` or neither: then not with ``--json``."""
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
) -> None:
    """Save a result and a report on it where that is wanted, and show it."""
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
    say(result.format(name, bound))
    if out is not None:
        click.echo(f"saved         {out}")
    if report is not None:
        click.echo(f"report        {report}")
