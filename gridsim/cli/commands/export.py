"""The command `gridsim export`: the schedule of a result in the format of another program."""

from __future__ import annotations

import click


@click.command("export")
@click.argument("file", metavar="RESULT")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["batsim", "evalys", "swf", "perfetto"]),
    required=True,
    help="Batsim's jobs table (column job_id), the same table for evalys (column jobID), a job log, or a "
    "trace for ui.perfetto.dev.",
)
@click.option("--machines", metavar="FIRST:END|A,B,C", help="Machines in a perfetto trace.  [all]")
@click.option("--out", required=True, metavar="FILE", help="Output file.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def export(file: str, kind: str, machines: str | None, out: str, as_json: bool) -> None:
    """Write the schedule of a result (run --record) in the format of another program."""
    from gridsim.cli.output import check_distinct, check_output
    from gridsim.cli.result_args import guard_display, parse_machines
    from gridsim.errors import ScenarioError
    from gridsim.results.formats.job_logs import to_batsim, to_swf, unique_job_numbers
    from gridsim.results.formats.perfetto import to_perfetto
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    check_output("--out", out)
    check_distinct([("RESULT", file)], [("--out", out)])
    if machines is not None and kind != "perfetto":
        raise ScenarioError(f"--machines requires --format perfetto, got {kind}")
    selection = None if machines is None else parse_machines(machines)
    result = Result.load(file)
    with guard_display([file]):
        if kind == "perfetto":
            rows = to_perfetto(result, out, machines=selection)
        elif kind == "swf":
            rows = to_swf(result, out)
        else:
            rows = to_batsim(result, out, dialect="evalys" if kind == "evalys" else "batsim")
    if as_json:
        click.echo(to_json({"file": file, "format": kind, "rows": rows, "out": out}))
    else:
        click.echo(f"saved {out}: {rows} {'events' if kind == 'perfetto' else 'rows'}")
        if kind != "perfetto":
            unit = "job" if result.rigid else "bag"
            offset = f"{unit} k is application k - 1 of gridsim why"
            click.echo(offset if unique_job_numbers(result) is None else "jobs have their numbers in the log")
        if kind == "perfetto" and (count := result.left_out.get("message_log")):
            length = len(result.tables["message_log"])
            click.echo(
                f"the log has the first {length} messages; {count} later ones were not recorded", err=True
            )
