"""The command `gridsim theory`."""

from __future__ import annotations

import click

from gridsim.cli.output import progress_of
from gridsim.cli.quantities import INT


@click.command()
@click.argument("names", nargs=-1, metavar="[NAMES]")
@click.option("--full", is_flag=True, help="In full, in minutes: narrow intervals.  [in small, in seconds]")
@click.option("--seed", type=INT, default=1, show_default=True, help="Of the replications.")
@click.option(
    "--jobs",
    "--workers",
    "workers",
    type=INT,
    metavar="N",
    help="Processes.  [as many as processors; 1: none]",
)
@click.option("--progress/--no-progress", default=None, help="Show a bar (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.pass_context
def theory(
    ctx: click.Context,
    names: tuple[str, ...],
    full: bool,
    seed: int,
    workers: int | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Run experiments whose outcome is known from queueing theory.

    Exit code 1 if the value of theory is outside of an interval.
    """
    from gridsim.support.text import to_json
    from gridsim.theory import check_theory

    found = check_theory(
        names, full=full, seed=seed, workers=workers, progress=progress_of(progress, as_json)
    )
    click.echo(to_json(found.to_dict()) if as_json else found.format())
    ctx.exit(int(not found.passed))
