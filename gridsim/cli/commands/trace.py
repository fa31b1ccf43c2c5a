"""The commands `gridsim trace info` and `gridsim trace lint`."""

from __future__ import annotations

import click

from gridsim.cli.options import json_option
from gridsim.cli.output import print_text, single_line
from gridsim.errors import GridSimError


@click.group()
def trace() -> None:
    """Inspect trace files: job logs (swf, gwf, tr), availability (avt, fta), host speeds (hosts)."""


_format = click.option(
    "--format", "kind", help="Format: swf, gwf, tr, avt, fta or hosts.  [detected from the file]"
)


@trace.command("info")
@click.argument("file")
@_format
@json_option
def trace_info(file: str, kind: str | None, as_json: bool) -> None:
    """Show the size and other properties of a trace; the name of a property ends in its unit."""
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.info import info

    properties = info(text("FILE", file), format=kind)
    if as_json:
        click.echo(to_json(properties))
        return
    for key, value in properties.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {single_line(str(entry))}" for name, entry in value.items()) or "-"
        if isinstance(value, list):
            value = "; ".join(value) or "-"
        print_text(f"{key:<18}  {value}")


@trace.command("lint")
@click.argument("file")
@_format
@json_option
@click.pass_context
def trace_lint(ctx: click.Context, file: str, kind: str | None, as_json: bool) -> None:
    """Report suspicious values of a trace; exit code 1 if there are errors, 2 if it cannot be read."""
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.lint import lint

    findings = lint(text("FILE", file), format=kind)
    for finding in findings:
        if finding.code == "unreadable":
            line = f":{finding.first_line}" if finding.first_line else ""
            raise GridSimError(f"{file}{line}: {finding.message}")
    if as_json:
        fields = ("severity", "code", "message", "count", "first_line")
        entries = [{field: getattr(finding, field) for field in fields} for finding in findings]
        click.echo(to_json({"file": file, "findings": entries}))
    else:
        name = single_line(file)
        for finding in findings:
            place = f"{name}:{finding.first_line}" if finding.first_line else name
            print_text(f"{place}: {finding.severity}: {finding.count}x {finding.message} [{finding.code}]")
        kinds = "1 kind of finding" if len(findings) == 1 else f"{len(findings)} kinds of findings"
        print_text(f"{name}: {kinds if findings else 'no findings'}")
    ctx.exit(int(any(finding.severity == "error" for finding in findings)))
