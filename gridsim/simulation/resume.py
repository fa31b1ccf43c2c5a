"""A run that was cut off goes on from its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.scheduling.contract import Scheduler
    from gridsim.support.progress import Progress

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
    from gridsim.errors import ScenarioError, naming
    from gridsim.model.scenario import Scenario
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
