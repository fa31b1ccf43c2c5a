"""The command `gridsim resume`."""

from __future__ import annotations

from typing import Any

import click

from gridsim.cli.quantities import INT, SECONDS
from gridsim.cli.scenario_flags import import_option


@click.command("resume")
@click.argument("file", metavar="CHECKPOINT")
@click.option(
    "--scheduler", "name", metavar="module:Class", help="Class of your own scheduler, if the run used one."
)
@import_option
@click.option("--out", metavar="PATH", help="Save the result: a file, or a folder for NAME.npz.")
@click.option("--threads", type=INT, help="Number of threads of compiled kernels.  [as in the run]")
@click.option(
    "--checkpoint-every",
    type=SECONDS,
    help="Save a checkpoint after each such period of computing time.  [as in the run]",
)
@click.option(
    "--bound",
    type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
    default="best",
    help="Lower bound of the max stretch to compare with.  [best: discrete if affordable]",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar (default: on a terminal, without --json).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def resume_command(
    file: str,
    name: str | None,
    imports: tuple[str, ...],
    out: str | None,
    threads: int | None,
    checkpoint_every: float | None,
    bound: Any,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Continue an interrupted run from its checkpoint (run --checkpoint)."""
    from gridsim.cli.output import (
        check_distinct,
        check_output,
        output_file,
        progress_of,
        scenario_files,
        show_result,
    )
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.checkpoint import Checkpoint
    from gridsim.simulation.resume import resume

    with Checkpoint(file) as checkpoint:
        header = checkpoint.header.scheduler
    title = header.name
    description = {"name": title, "class": header.cls, "parameters": header.parameters}
    out = output_file(out, title)
    if out is not None:
        check_output("--out", out)
        check_distinct([("CHECKPOINT", file), *scenario_files(checkpoint.header.files)], [("--out", out)])
    result = resume(
        file,
        scheduler=scheduler_from(description, "the run", imported_as=name, imports=imports),
        progress=progress_of(progress, as_json),
        threads=threads,
        checkpoint_every=checkpoint_every,
    )
    show_result(result, title, out=out, bound=bound, as_json=as_json)
