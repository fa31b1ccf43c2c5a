"""The command `gridsim why`."""

from __future__ import annotations

import click

from gridsim.cli.quantities import INT


@click.command()
@click.argument("file", metavar="RESULT")
@click.argument("application", type=INT, metavar="[APPLICATION]", required=False)
@click.option("--job", type=INT, metavar="N", help="Instead of APPLICATION: a job, by its number in the log.")
@click.option("--task", type=INT, metavar="K", help="Only what was decided on this task, or on all.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def why(file: str, application: int | None, job: int | None, task: int | None, as_json: bool) -> None:
    """Who decided on an application or a job, what it saw, how old that was, and what was true.

    Of a saved result with decisions (run --decisions).  Applications and tasks are counted from 0, in order
    of release.
    """
    from gridsim.cli.output import say
    from gridsim.cli.result_args import display_errors
    from gridsim.errors import ScenarioError
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    if (application is None) == (job is None):
        raise ScenarioError("give either APPLICATION or --job, the number of a job in its log")
    result = Result.load(file, verify=False)
    with display_errors([file]):
        try:
            if job is not None:
                application = result.row_of_job(job)
            assert application is not None
            found = result.why(application, task)
        except IndexError as error:
            raise ScenarioError(f"{file} has no {error}") from error
        say(to_json({"file": file, **found.to_dict()}) if as_json else found.format())
