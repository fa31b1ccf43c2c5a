"""The command `gridsim why`."""

from __future__ import annotations

import click

from gridsim.cli.quantities import INT


@click.command()
@click.argument("file", metavar="RESULT")
@click.argument("application", type=INT, metavar="[APPLICATION]", required=False)
@click.option("--job", type=INT, metavar="N", help="Number of a job in its log, instead of APPLICATION.")
@click.option("--task", type=INT, metavar="K", help="Only show decisions on task K, or on all tasks.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def why(file: str, application: int | None, job: int | None, task: int | None, as_json: bool) -> None:
    """Explain the decisions on an application or a job.

    Each decision is shown with the machine that decided (or the scheduler), the information used, its age,
    and the true values at that time.  RESULT must contain decisions (run --decisions).  Applications and
    tasks are numbered from 0, in order of release.
    """
    from gridsim.cli.output import print_text
    from gridsim.cli.result_args import guard_display
    from gridsim.errors import ScenarioError
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    if (application is None) == (job is None):
        raise ScenarioError(
            "why requires exactly one of APPLICATION and --job (a job's number in its log), "
            f"got {'neither' if job is None else 'both'}"
        )
    result = Result.load(file, verify=False)
    with guard_display([file]):
        try:
            if job is not None:
                application = result.row_of_job(job)
            assert application is not None
            explanation = result.why(application, task)
        except IndexError as error:
            raise ScenarioError(f"{file}: {error}") from error
        print_text(to_json({"file": file, **explanation.to_dict()}) if as_json else explanation.format())
