"""The command `gridsim report`, and the check of ``--report`` of other commands."""

from __future__ import annotations

import click

from gridsim.cli.output import check_distinct, check_output
from gridsim.cli.result_args import guard_display, named_files
from gridsim.errors import ScenarioError


def check_report(file: str | None, flag: str = "--report") -> None:
    """Check, before a run, that a report can be written."""
    if file is None:
        return
    from gridsim.report.html import check_extra

    if not file.lower().endswith(".html"):
        raise ScenarioError(f"{flag} must end in .html, got {file!r}")
    check_output(flag, file)
    check_extra(flag)


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, metavar="FILE", help="Output file (.html).")
@click.option("--title", metavar="TEXT", help="Title of the page.  [the names of the results]")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def report(paths: tuple[str, ...], out: str, title: str | None, as_json: bool) -> None:
    """Write a report on results (files, or folders of files): one HTML file that works offline.

    Several results are compared under the names of their files.  The baseline is the result named mincent,
    else the first of a centralized scheduler, else the first.
    """
    from gridsim.report import write_report
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    if title is not None and not title.strip():
        raise ScenarioError(f"--title must not be empty, got {title!r}")
    files = named_files(paths)
    check_report(out, "--out")
    check_distinct([(f"PATH {file}", file) for file in files.values()], [("--out", out)])
    results = {name: Result.load(file) for name, file in files.items()}
    with guard_display(files.values()):
        write_report(results, out, title=title, files=files)
    if as_json:
        digests = {name: result.digest for name, result in results.items()}
        click.echo(to_json({"out": out, "files": files, "digests": digests}))
    else:
        click.echo(f"saved {out}: {', '.join(files)}")
