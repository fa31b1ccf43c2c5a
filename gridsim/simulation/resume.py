"""The function `resume`, which continues an interrupted run from its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.scheduling.contract import Scheduler
    from gridsim.support.progress import Progress

#: Exceptions that a run may raise after it was resumed from a well-formed, but impossible state.
_ERRORS_OF_DAMAGED_STATES = (
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
    """Continue the run whose checkpoint is the file `path`, and return its result.

    The result is the same as without the interruption.  Further checkpoints are written to `path`.

    Parameters
    ----------
    path
        The checkpoint file.
    scheduler
        The scheduler of the run.  It is required if the scheduler is not registered, since files must not
        cause imports.
    progress
        As in `simulate`.
    threads, checkpoint_every
        As in `simulate`; None for the previous values.

    Raises
    ------
    GridSimError
        If the file is not a checkpoint, is damaged, or was written by another version.  With a scheduler of
        gridsim, an unexpected exception of the run means that the file is damaged.  With a user's scheduler
        that exception is raised unchanged, since it may be an error in the user's code.
    ScenarioError
        If the scheduler is unknown or not that of the run, or a trace file has changed.
    Exception
        Any other exception of `simulate`.
    """
    from gridsim.errors import ScenarioError, name_files_in_errors
    from gridsim.model.scenario import ArchivedScenario, Scenario
    from gridsim.scheduling.contract import Scheduler
    from gridsim.scheduling.description import describe
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.checkpoint import Checkpoint, damage_error
    from gridsim.simulation.options import Options
    from gridsim.simulation.simulate import Simulation
    from gridsim.support import provenance
    from gridsim.support.files import remove_leftovers

    name = os.fspath(path)
    with Checkpoint(path) as checkpoint:
        header = checkpoint.header
        scheduler_header = header.scheduler
        description = {
            "name": scheduler_header.name,
            "class": scheduler_header.cls,
            "parameters": scheduler_header.parameters,
        }
        scheduler_object = (
            scheduler_from(description, f"the run of {name}") if scheduler is None else scheduler
        )
        if not isinstance(scheduler_object, Scheduler):
            raise ScenarioError(f"scheduler must be a Scheduler object, got {scheduler!r}")
        if scheduler is not None and describe(scheduler) != description:
            raise ScenarioError(f"scheduler must be that of the run, {description}, got {scheduler!r}")
        with name_files_in_errors([name]):
            scenario = Scenario.from_archive(ArchivedScenario(header.scenario, header.arrays))
        _check_files(name, {file: provenance.sha256(file) for file in scenario.files}, header.files)
        try:
            with name_files_in_errors([name]) if threads is None else nullcontext():
                options = Options(**(header.options | ({} if threads is None else {"threads": threads})))
        except TypeError as error:
            raise damage_error(name, error) from error
        with name_files_in_errors([name]):
            simulation = Simulation(scenario, scheduler_object, options)
        _check_files(name, simulation.files, header.files)  # files may have changed since the first check
        checkpoint.restore(simulation)
    remove_leftovers(path)
    simulation.earlier_work, simulation.resumed = header.worked, header.resumed + 1
    try:
        with name_files_in_errors([name]) if checkpoint_every is None else nullcontext():
            simulation.checkpoint_to(path, header.every if checkpoint_every is None else checkpoint_every)
        return simulation.run(progress)
    except _ERRORS_OF_DAMAGED_STATES as error:
        if type(scheduler_object).__module__.partition(".")[0] != "gridsim":
            raise  # the author of the scheduler needs the original traceback
        raise damage_error(name, error) from error


def _check_files(name: str, files: Mapping[str, str], files_at_start: Mapping[str, str]) -> None:
    from gridsim.errors import ScenarioError

    for file in sorted(files_at_start.keys() - files.keys()):  # for example, a table of nodes was deleted
        raise ScenarioError(
            f"{file!r} must be read by the scenario, as at the start of the run of {name}: restore the file, "
            "or the reference to it"
        )
    for file in files:
        if files[file] != files_at_start.get(file):
            raise ScenarioError(f"{file} has changed since the run of {name} began")
