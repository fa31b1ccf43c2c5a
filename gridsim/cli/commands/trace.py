"""The commands `gridsim trace info`, `gridsim trace lint` and `gridsim trace convert`."""

from __future__ import annotations

import click

from gridsim.cli.options import INT, SentenceGroup, json_option
from gridsim.cli.output import print_text, single_line
from gridsim.errors import GridSimError

#: Most characters of a value of a header in texts.
_MAX_VALUE = 60


@click.group(cls=SentenceGroup)
def trace() -> None:
    """Inspect and convert trace files: job logs, availability, host speeds (gridsim list traces)."""


_format = click.option(
    "--format", "kind", help="Format, one of gridsim list traces.  [detected from the file]"
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
            value = (
                ", ".join(f"{name} {_cut(single_line(str(entry)))}" for name, entry in value.items()) or "-"
            )
        elif isinstance(value, list):
            value = "; ".join(value) or "-"
        elif isinstance(value, float | int):
            value = f"{value:,}"
        print_text(f"{key:<18}  {value}")


def _cut(value: str) -> str:
    """Return a value of a header, shortened with an ellipsis; ``--json`` has all of it."""
    return value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 3].rstrip()}..."


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


@trace.command("convert")
@click.argument("file", metavar="IN")
@click.argument("output", metavar="OUT.swf")
@_format
@click.option("--max-procs", type=INT, help="Processors of the machine, for the header.")
@click.option("--zone", metavar="NAME", help="Time zone of times that have none, such as Europe/Berlin.")
@json_option
def trace_convert(
    file: str, output: str, kind: str | None, max_procs: int | None, zone: str | None, as_json: bool
) -> None:
    """Write a job log of any format in Standard Workload Format, and count what was left out.

    Users, groups and queues are numbered in the order of their appearance; the header lists their names.
    """
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.conversion import convert

    summary = convert(text("IN", file), text("OUT.swf", output), format=kind, max_procs=max_procs, zone=zone)
    if as_json:
        click.echo(to_json(summary))
        return
    never_ran = f", {summary['never_ran']} of which never ran" if summary["never_ran"] else ""
    print_text(f"{single_line(output)}: {summary['jobs']} jobs{never_ran}, from {summary['format']}")
    for key, names in summary["names"].items():
        print_text(f"  {names} names of {key} in the header")
    for description, count in summary["repairs"].items():
        print_text(f"  {count} {single_line(description)}")
    for description, count in summary["dropped"].items():
        print_text(f"  left out: {count} {single_line(description)}")
    for message in summary["contradictions"]:
        print_text(f"  {single_line(message)}")
    if summary["note"]:
        print_text(f"  {single_line(summary['note'])}")
    if summary["command"]:
        print_text(f"To compare schedulers on it:\n  {single_line(summary['command'])}")
