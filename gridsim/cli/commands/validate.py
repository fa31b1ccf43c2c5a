"""The command `gridsim validate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gridsim.cli.quantities import INT

if TYPE_CHECKING:
    from gridsim.validation.common import Violation


@click.command()
@click.argument("file", metavar="SCHEDULE")
@click.option("--nodes", type=INT, metavar="N", help="Machines there are; of a job log or a table of Batsim.")
@click.option("--job-log", metavar="FILE", help="The jobs that were to be run (SWF, GWF); of the same.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def validate(file: str, nodes: int | None, job_log: str | None, as_json: bool) -> None:
    """Check a finished schedule: a result (run --record), Batsim's jobs table, or a job log (SWF, GWF).

    Exit code 1 if an invariant is broken.
    """
    from dataclasses import asdict

    from gridsim.support.text import to_json

    kind, found = _check(file, nodes, job_log)
    if as_json:
        click.echo(to_json({"file": file, "kind": kind, "violations": [asdict(each) for each in found]}))
    else:
        for each in found:
            click.echo(str(each))
        plural = "" if len(found) == 1 else "s"
        click.echo(f"{file}: {kind}, {len(found) or 'no'} violation{plural}")
    if found:
        sys.exit(1)


def _check(file: str, nodes: int | None, job_log: str | None) -> tuple[str, list[Violation]]:
    from gridsim.cli.result_args import looked_at
    from gridsim.errors import ScenarioError
    from gridsim.results.result import Result
    from gridsim.support.arguments import whole
    from gridsim.support.files import open_regular
    from gridsim.traces._text import text_lines
    from gridsim.validation.logs import validate_batsim, validate_swf
    from gridsim.validation.results import validate_result

    if nodes is not None:
        whole("--nodes", nodes, low=1, high=2**31 - 1)
    with open_regular(file) as stream:
        zipped = stream.read(4) == b"PK\x03\x04"
    if zipped:
        for option, given in (("--nodes", nodes), ("--job-log", job_log)):
            if given is not None:
                raise ScenarioError(f"{option} is for other schedules: a result has its scenario in it")
        result = Result.load(file, verify=False)
        schedule = "with its schedule" if "schedule" in result.tables else "without a schedule (run --record)"
        with looked_at([file]):
            return f"a result {schedule}", validate_result(result)
    first = next(iter(text_lines(file)), "")
    if "job_id" in first.split(","):
        return "a jobs table of Batsim", validate_batsim(file, machines=nodes, job_log=job_log)
    return "a job log", validate_swf(file, machines=nodes, job_log=job_log)
