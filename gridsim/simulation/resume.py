"""resume(): continues an interrupted run from its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.scheduling.contract import Scheduler
    from gridsim.support.progress import Progress

#: Exceptions that a run may raise after it was given a well-formed state that no real run can have.
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
    """Continue the run whose checkpoint is the file `path`, and return its result.

    The result is the same as without the interruption.  Checkpoints go on being written to `path`.

    Raises GridSimError for a file that is no checkpoint, is damaged, or was made by another version;
    ScenarioError for a scheduler that is not known or not that of the run, or where a trace file has
    changed; otherwise as `simulate`.  An unexpected exception after the restart means, with a scheduler of
    gridsim, that the file is damaged; with a scheduler of your own it is raised as it is, since it may be an
    error in your code.

    Parameters
    ----------
    scheduler
        The run's scheduler; needed if it is not one of those known by name, because what a file says is never
        imported.
    progress
        As in `simulate`.
    threads, checkpoint_every
        As in `simulate`; None for the values that the run had.
    """
    from gridsim.errors import ScenarioError, naming
    from gridsim.model.scenario import ArchivedScenario, Scenario
    from gridsim.scheduling.contract import Scheduler
    from gridsim.scheduling.description import describe
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.checkpoint import Checkpoint, damaged
    from gridsim.simulation.simulate import Options, Simulation
    from gridsim.support import provenance
    from gridsim.support.files import remove_leftovers

    name = os.fspath(path)
    with Checkpoint(path) as kept:
        about = kept.about
        told = about.scheduler
        stated = {"name": told.name, "class": told.cls, "parameters": told.parameters}
        chosen = scheduler_from(stated, f"the run of {name}") if scheduler is None else scheduler
        if not isinstance(chosen, Scheduler):
            raise ScenarioError(f"scheduler must be a Scheduler object, got {scheduler!r}")
        if scheduler is not None and describe(scheduler) != stated:
            raise ScenarioError(f"scheduler must be the run's, {stated}, got {scheduler!r}")
        with naming([name]):
            scenario = Scenario.from_archive(ArchivedScenario(about.scenario, about.arrays))
        _check_files(name, {file: provenance.sha256(file) for file in scenario.files}, about.files)
        try:
            with naming([name]) if threads is None else nullcontext():
                options = Options(**(about.options | ({} if threads is None else {"threads": threads})))
        except TypeError as error:
            raise damaged(name, error) from error
        with naming([name]):
            simulation = Simulation(scenario, chosen, options)
        _check_files(name, simulation.files, about.files)  # they may have changed since the first check
        kept.restore(simulation)
    remove_leftovers(path)
    simulation.worked, simulation.resumed = about.worked, about.resumed + 1
    try:
        with naming([name]) if checkpoint_every is None else nullcontext():
            simulation.checkpoint_to(path, about.every if checkpoint_every is None else checkpoint_every)
        return simulation.run(progress)
    except _OF_STATES as error:
        if type(chosen).__module__.partition(".")[0] != "gridsim":  # its author needs the traceback
            raise
        raise damaged(name, error) from error


def _check_files(name: str, found: Mapping[str, str], began: Mapping[str, str]) -> None:
    from gridsim.errors import ScenarioError

    for file in sorted(began.keys() - found.keys()):  # such as a table of nodes that has disappeared
        raise ScenarioError(f"the scenario of {name} must read {file!r}, as when its run began")
    for file in found:
        if found[file] != began.get(file):
            raise ScenarioError(f"{file} has changed since the run of {name} began")
