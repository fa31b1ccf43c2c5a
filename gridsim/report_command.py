"""The command `gridsim report`, and what others need for ``--report``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import click

from gridsim.errors import ScenarioError
from gridsim.output import check_output

#: What files of results in a folder end in.
ENDINGS = (".npz", ".gridsim")


def check_report(file: str | None, others: Mapping[str, str | None], flag: str = "--report") -> None:
    """That a report can be written, and not over one of `others`, before anything is run.

    others : flag -> file that is read or written.
    """
    if file is None:
        return
    from gridsim.report.html import check_extra

    if not file.lower().endswith(".html"):
        raise ScenarioError(f"{flag} must end in .html, got {file!r}")
    check_output(flag, file)
    for other, path in others.items():
        if path is not None and os.path.realpath(path) == os.path.realpath(file):
            raise ScenarioError(f"{other} and {flag} name the same file, {file}")
    check_extra(flag)


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, metavar="FILE", help="Where to (.html).")
@click.option("--title", metavar="TEXT", help="Of the page.  [the names of the results]")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def report(paths: tuple[str, ...], out: str, title: str | None, as_json: bool) -> None:
    """Write a report on results (files, or folders of them): one HTML file that works offline.

    Several results are compared, under the names of their files; with the one named mincent, else with the
    first that sees the whole grid, else with the first.
    """
    from gridsim.records import to_json
    from gridsim.report import write_report
    from gridsim.results import Result

    if title is not None and not title.strip():
        raise ScenarioError(f"--title must be a text that is not empty, got {title!r}")
    files = named(result_files(paths))
    check_report(out, {f"PATH {file}": file for file in files.values()}, "--out")
    results = {name: Result.load(file) for name, file in files.items()}
    write_report(results, out, title=title, files=files)
    if as_json:
        digests = {name: result.digest for name, result in results.items()}
        click.echo(to_json({"out": out, "files": files, "digests": digests}))
    else:
        click.echo(f"saved {out}: {', '.join(files)}")


def result_files(paths: Sequence[str]) -> list[str]:
    """The files that `paths` name, of a folder those in it that end as results do, in the order of names.

    Raises ScenarioError for a folder without any, or for a file that is named twice.
    """
    files: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        inside = sorted(name for name in os.listdir(path) if name.endswith(ENDINGS))
        if not inside:
            raise ScenarioError(f"{path}: no result ({' or '.join(ENDINGS)}) in this folder")
        files += [os.path.join(path, name) for name in inside]
    seen: set[str] = set()
    for file in files:
        if (real := os.path.realpath(file)) in seen:
            raise ScenarioError(f"PATH {file} is named twice")
        seen.add(real)
    return files


def named(files: Sequence[str]) -> dict[str, str]:
    """Name -> file: that of the file without its ending, and of equal ones with the folders that differ."""
    parts = {file: PurePath(file).with_suffix("").parts for file in files}
    names: dict[str, str] = {}
    for file, mine in parts.items():
        others = [each for other, each in parts.items() if other != file and each[-1] == mine[-1]]
        told = (k for k in range(1, len(mine) + 1) if all(each[-k:] != mine[-k:] for each in others))
        count = next(told, None)
        names[file if count is None else "/".join(mine[-count:])] = file
    return names
