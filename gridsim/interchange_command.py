"""The command `gridsim export`: the schedule in a result, for programs that read another format."""

from __future__ import annotations

import click


@click.command("export")
@click.argument("file", metavar="RESULT")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["batsim", "evalys", "swf"]),
    required=True,
    help="Batsim's jobs table (with job_id), the same with evalys' jobID, or a job log.",
)
@click.option("--out", required=True, metavar="FILE", help="Where to.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def export(file: str, kind: str, out: str, as_json: bool) -> None:
    """Write the schedule in a result (run --record) in a format of others."""
    import os

    from gridsim.errors import ScenarioError
    from gridsim.interchange import to_batsim, to_swf
    from gridsim.output import check_output
    from gridsim.records import to_json
    from gridsim.results import Result

    check_output("--out", out)
    if os.path.realpath(out) == os.path.realpath(file):
        raise ScenarioError(f"--out names the result itself, {file}")
    result = Result.load(file)
    if kind == "swf":
        rows = to_swf(result, out)
    else:
        rows = to_batsim(result, out, dialect="evalys" if kind == "evalys" else "batsim")
    if as_json:
        click.echo(to_json({"file": file, "format": kind, "rows": rows, "out": out}))
    else:
        click.echo(f"saved {out}: {rows} rows")
