"""The command `gridsim repro`: repeat the run of a result, and compare the digests."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import NamingCommand, class_option, import_option, json_option
from gridsim.cli.result_args import import_code
from gridsim.errors import ScenarioError, name_files_in_errors, one_line

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.scheduling.contract import Scheduler


@dataclass(frozen=True)
class RepeatedRun:
    """The outcome of repeating the run of a result.

    Attributes
    ----------
    expected_digest, digest
        The digests of the result and of the repeated run.
    difference
        Description of the first difference; None if the digests are equal.
    changes
        Name -> old and new value, for versions and trace files that have changed since the run.
    """

    expected_digest: str
    digest: str
    difference: str | None
    changes: dict[str, tuple[Any, Any]]


def reproduce_result(result: Result, scheduler: Scheduler | None = None) -> RepeatedRun:
    """Repeat the run of a result with its scenario and its scheduler.

    Parameters
    ----------
    scheduler
        The scheduler of the result.  Only a registered one may be omitted, since a result file must not
        decide which code is imported.

    Raises
    ------
    ScenarioError
        If the scheduler is unknown, the scenario cannot be built any more, or the result does not come from a
        simulated run.
    """
    from gridsim.results.diff import first_difference
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.simulate import execute as simulate

    _check_scheduled(result)
    if scheduler is None:
        scheduler = scheduler_from(result.scheduler, "the result")
    rerun = simulate(result.scenario, scheduler, record="schedule" in result.tables)
    is_equal = rerun.digest == result.digest
    difference = None if is_equal else first_difference(result, rerun) or "tables of different types"
    return RepeatedRun(result.digest, rerun.digest, difference, _changes(result.provenance, rerun.provenance))


def _check_scheduled(result: Result) -> None:
    if result.of_log:
        raise ScenarioError(
            f"the result must come from a run, got the schedule in the log "
            f"{result.scheduler['parameters']['log']}, which cannot be repeated"
        )
    if "emulation" in result.provenance:
        raise ScenarioError(
            "the result must come from a simulation, got an emulation, which is not deterministic and so "
            "cannot be repeated"
        )


def _changes(original: dict[str, Any], current: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    changes = {
        key: (original.get(key), current[key])
        for key in ("gridcore", "python", "implementation", "numpy", "system")
        if original.get(key) != current[key]
    }
    original_files, current_files = original.get("files", {}), current["files"]
    for path in sorted(original_files.keys() | current_files.keys()):
        if original_files.get(path) != current_files.get(path):
            changes[f"file {path}"] = (original_files.get(path), current_files.get(path))
    return changes


@click.command(cls=NamingCommand)
@click.argument("file", metavar="RESULT")
@class_option
@import_option
@json_option
def repro(file: str, name: str | None, imports: tuple[str, ...], as_json: bool) -> None:
    """Repeat the run of a result, and compare the digests.

    If they differ, the first difference is shown, and the exit code is 1.
    """
    from gridsim.cli.output import print_text
    from gridsim.results.result import Result
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.support.text import to_json

    import_code(imports)
    result = Result.load(file)
    _check_scheduled(result)
    with name_files_in_errors([file]):
        scheduler = scheduler_from(result.scheduler, "the result", imported_as=name, imports=imports)
        rerun = reproduce_result(result, scheduler)
    if as_json:
        answer = {"file": file, "stated": rerun.expected_digest, "found": rerun.digest}
        click.echo(to_json({**answer, "difference": rerun.difference, "changed": rerun.changes}))
    else:
        for key, (original, current) in rerun.changes.items():
            print_text(one_line(f"changed: {key} was {original}, is {current}"))
        if rerun.difference is None:
            click.echo(f"{file}: the same digest, {rerun.digest}")
        else:
            click.echo(f"{file}: digest {rerun.digest}, expected {rerun.expected_digest}")
            print_text(one_line(f"first difference (then, and now): {rerun.difference}"))
    if rerun.difference is not None:
        sys.exit(1)
