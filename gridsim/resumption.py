"""resume(): a run that was cut off goes on from its checkpoint; and the command `gridsim resume`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli_scenario import import_option

if TYPE_CHECKING:
    from gridsim.progress import Progress
    from gridsim.results import Result
    from gridsim.scheduler import Scheduler

#: What a state that can be, of no run that can, makes of the run.
_OF_STATES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)


def resume(
    path: str | os.PathLike[str],
    *,
    scheduler: Scheduler | None = None,
    progress: Progress = False,
    threads: int | None = None,
    checkpoint_every: float | None = None,
) -> Result:
    """Go on with the run that is kept in `path`, keeping it there; what comes out is what would have been.

    scheduler : needed if it is none of those known by name: a file is not asked what to import.
    progress : as in `simulate`.
    threads, checkpoint_every : as in `simulate`; None for those that the run had.

    Raises GridSimError for a file that is no checkpoint, is damaged, or was made by another version;
    ScenarioError for a scheduler that is not known or is another one, or where a trace file has changed;
    otherwise as `simulate`.  What a run of gridsim's own schedulers raises once it goes on is damage of the
    file; with yours it may be a mistake of yours, and is raised as it is.
    """
    from gridsim import provenance
    from gridsim.checkpoint import Checkpoint, damaged
    from gridsim.describing import describe
    from gridsim.errors import ScenarioError, naming
    from gridsim.naming import scheduler_from
    from gridsim.records import remove_leftovers
    from gridsim.scenario import Scenario
    from gridsim.simulation import Options, Simulation

    name = os.fspath(path)
    with Checkpoint(path) as kept:
        about = kept.about
        told = about.scheduler
        stated = {"name": told.name, "class": told.cls, "parameters": told.parameters}
        chosen = scheduler_from(stated, f"the run of {name}") if scheduler is None else scheduler
        if scheduler is not None and describe(scheduler) != stated:
            raise ScenarioError(f"scheduler must be the run's, {stated}, got {scheduler!r}")
        with naming([name]):
            scenario = Scenario.from_text(about.scenario)
        _check_files(name, {file: provenance.sha256(file) for file in scenario.files}, about.files)
        try:
            with naming([name]) if threads is None else nullcontext():
                options = Options(**(about.options | ({} if threads is None else {"threads": threads})))
        except TypeError as error:
            raise damaged(name, error) from error
        with naming([name]):
            simulation = Simulation(scenario, chosen, options)
        _check_files(name, simulation.files, about.files)  # they may have changed before they were read
        kept.restore(simulation)
    remove_leftovers(path)
    simulation.worked, simulation.resumed = about.worked, about.resumed + 1
    try:
        with naming([name]) if checkpoint_every is None else nullcontext():
            simulation.keep(path, about.every if checkpoint_every is None else checkpoint_every)
        return simulation.run(progress)
    except _OF_STATES as error:
        if type(chosen).__module__.partition(".")[0] != "gridsim":  # which needs a traceback to be found
            raise
        raise damaged(name, error) from error


def _check_files(name: str, found: Mapping[str, str], began: Mapping[str, str]) -> None:
    from gridsim.errors import ScenarioError

    for file in sorted(began.keys() - found.keys()):  # a table of nodes has gone, or never was
        raise ScenarioError(f"the scenario of {name} must read {file!r}, as when its run began")
    for file in found:
        if found[file] != began.get(file):
            raise ScenarioError(f"{file} has changed since the run of {name} began")


@click.command("resume")
@click.argument("file", metavar="CHECKPOINT")
@click.option("--scheduler", "name", metavar="module:Class", help="Of a run of your own scheduler.")
@import_option
@click.option("--out", metavar="PATH", help="Save the result: a file, or a folder for NAME.npz.")
@click.option("--threads", type=int, help="Of a kernel; changes no result.  [as the run had]")
@click.option("--checkpoint-every", "every", type=float, metavar="S", help="As of run.  [as the run had]")
@click.option(
    "--bound", type=click.Choice(["fluid", "discrete"]), default="fluid", help="As of run.  [fluid]"
)
@click.option(
    "--progress/--no-progress", default=None, help="Show a bar (default: on a terminal, without --json)."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def resume_command(
    file: str,
    name: str | None,
    imports: tuple[str, ...],
    out: str | None,
    threads: int | None,
    every: float | None,
    bound: Any,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Go on with a run that was cut off, from the file that --checkpoint kept."""
    from gridsim.checkpoint import Checkpoint
    from gridsim.naming import scheduler_from
    from gridsim.output import check_apart, check_output, deliver, in_folder, of_scenario, progress_of

    with Checkpoint(file) as kept:
        about = kept.about.scheduler
    title = about.name
    described = {"name": title, "class": about.cls, "parameters": about.parameters}
    out = in_folder(out, title)
    if out is not None:
        check_output("--out", out)
        check_apart([("CHECKPOINT", file), *of_scenario(kept.about.files)], [("--out", out)])
    result = resume(
        file,
        scheduler=scheduler_from(described, "the run", imported_as=name, imports=imports),
        progress=progress_of(progress, as_json),
        threads=threads,
        checkpoint_every=every,
    )
    deliver(result, title, out=out, bound=bound, as_json=as_json)
