"""The command `gridsim theory`."""

from __future__ import annotations

import click

from gridsim.cli.output import progress_of
from gridsim.cli.quantities import INT


@click.command()
@click.argument("names", nargs=-1, metavar="[NAMES]")
@click.option(
    "--full", is_flag=True, help="Run for minutes, for narrow intervals.  [a smaller version, for seconds]"
)
@click.option(
    "--seed",
    type=INT,
    default=1,
    show_default=True,
    help="Random seed from which all replications are seeded.",
)
@click.option(
    "--jobs",
    "--workers",
    "workers",
    type=INT,
    metavar="N",
    help="Number of worker processes.  [as many as processors; 1: run in this process]",
)
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
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
    """Compare simulations with exact results of queueing theory.

    The exit code is 1 if a theoretical value is outside the confidence interval of the simulation.
    """
    from gridsim.support.text import to_json
    from gridsim.theory import check_theory

    outcome = check_theory(
        names, full=full, seed=seed, workers=workers, progress=progress_of(progress, as_json)
    )
    click.echo(to_json(outcome.to_dict()) if as_json else outcome.format())
    ctx.exit(int(not outcome.passed))
