"""The command `gridsim export`: the schedule in a result, for programs that read another format."""

from __future__ import annotations

import click


@click.command("export")
@click.argument("file", metavar="RESULT")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["batsim", "evalys", "swf", "perfetto"]),
    required=True,
    help="Batsim's jobs table (with job_id), the same with evalys' jobID, a job log, or a trace for "
    "ui.perfetto.dev.",
)
@click.option("--machines", metavar="FIRST:END|A,B,C", help="Of a trace: only these.  [all]")
@click.option("--out", required=True, metavar="FILE", help="Where to.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def export(file: str, kind: str, machines: str | None, out: str, as_json: bool) -> None:
    """Write the schedule in a result (run --record) in a format of others."""
    from gridsim.cli.output import check_apart, check_output
    from gridsim.cli.result_args import looked_at, machines_of
    from gridsim.errors import ScenarioError
    from gridsim.results.formats.job_logs import to_batsim, to_swf, unique_job_numbers
    from gridsim.results.formats.perfetto import to_perfetto
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    check_output("--out", out)
    check_apart([("RESULT", file)], [("--out", out)])
    if machines is not None and kind != "perfetto":
        raise ScenarioError(f"--machines is for --format perfetto, got {kind}")
    chosen = None if machines is None else machines_of(machines)
    result = Result.load(file)
    with looked_at([file]):
        if kind == "perfetto":
            rows = to_perfetto(result, out, machines=chosen)
        elif kind == "swf":
            rows = to_swf(result, out)
        else:
            rows = to_batsim(result, out, dialect="evalys" if kind == "evalys" else "batsim")
    if as_json:
        click.echo(to_json({"file": file, "format": kind, "rows": rows, "out": out}))
    else:
        click.echo(f"saved {out}: {rows} {'events' if kind == 'perfetto' else 'rows'}")
        if kind != "perfetto":
            what = "job" if result.rigid else "bag"
            own = f"{what} k is application k - 1 of gridsim why"
            click.echo(own if unique_job_numbers(result) is None else "jobs have their numbers in the log")
        if kind == "perfetto" and (count := result.left_out.get("message_log")):
            kept = len(result.tables["message_log"])
            click.echo(f"the log has the first {kept} messages; {count} more are not in it", err=True)
