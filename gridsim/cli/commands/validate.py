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
@click.option("--nodes", type=INT, metavar="N", help="Number of machines, for a job log or a jobs table.")
@click.option("--job-log", metavar="FILE", help="Submitted jobs (SWF, GWF), for a job log or a jobs table.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def validate(file: str, nodes: int | None, job_log: str | None, as_json: bool) -> None:
    """Check a finished schedule: a result (run --record), Batsim's jobs table, or a job log (SWF, GWF).

    The exit code is 1 if an invariant is violated.
    """
    from dataclasses import asdict

    from gridsim.support.text import to_json

    kind, violations = _check(file, nodes, job_log)
    if as_json:
        click.echo(
            to_json(
                {"file": file, "kind": kind, "violations": [asdict(violation) for violation in violations]}
            )
        )
    else:
        for violation in violations:
            click.echo(str(violation))
        plural = "" if len(violations) == 1 else "s"
        click.echo(f"{file}: {kind}, {len(violations) or 'no'} violation{plural}")
    if violations:
        sys.exit(1)


def _check(file: str, nodes: int | None, job_log: str | None) -> tuple[str, list[Violation]]:
    from gridsim.cli.result_args import guard_display
    from gridsim.errors import ScenarioError
    from gridsim.results.result import Result
    from gridsim.support.arguments import integer
    from gridsim.support.files import open_regular
    from gridsim.traces._text import text_lines
    from gridsim.validation.logs import validate_batsim, validate_swf
    from gridsim.validation.results import validate_result

    if nodes is not None:
        integer("--nodes", nodes, low=1, high=2**31 - 1)
    with open_regular(file) as stream:
        is_zip = stream.read(4) == b"PK\x03\x04"
    if is_zip:
        for option, value in (("--nodes", nodes), ("--job-log", job_log)):
            if value is not None:
                raise ScenarioError(f"a result does not support {option}, since it contains its scenario")
        result = Result.load(file, verify=False)
        schedule = "with its schedule" if "schedule" in result.tables else "without a schedule (run --record)"
        with guard_display([file]):
            return f"a result {schedule}", validate_result(result)
    first = next(iter(text_lines(file)), "")
    if "job_id" in first.split(","):
        return "a jobs table of Batsim", validate_batsim(file, machines=nodes, job_log=job_log)
    return "a job log", validate_swf(file, machines=nodes, job_log=job_log)
