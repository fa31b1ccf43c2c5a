"""The command `gridsim repro`: run a result's scenario again, and see whether the same comes out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.scenario_flags import import_option
from gridsim.errors import ScenarioError, naming, one_line

if TYPE_CHECKING:
    from gridsim.results.result import Result
    from gridsim.scheduling.contract import Scheduler


@dataclass(frozen=True)
class Repro:
    """What came out when a result was made again.

    stated, found : the digests.  difference : the first thing that differs, in words; None if the digests are
    equal.  changed : what is another one than it was: versions, trace files.
    """

    stated: str
    found: str
    difference: str | None
    changed: dict[str, tuple[Any, Any]]


def reproduce_result(result: Result, scheduler: Scheduler | None = None) -> Repro:
    """Run the scenario in `result` again, under the same scheduler.

    Raises ScenarioError for a scheduler that is not known, a scenario that cannot be made any more, or a
    result that no scheduler made, or that was emulated.

    Parameters
    ----------
    scheduler
        Needed if it is none of those known by name: a result file is not asked what to import.
    """
    from gridsim.results.diff import first_difference
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.simulate import execute as simulate

    _check_scheduled(result)
    chosen = scheduler_from(result.scheduler, "the result") if scheduler is None else scheduler
    again = simulate(result.scenario, chosen, record="schedule" in result.tables)
    same = again.digest == result.digest
    difference = None if same else first_difference(result, again) or "tables of other types"
    return Repro(result.digest, again.digest, difference, _changed(result.provenance, again.provenance))


def _check_scheduled(result: Result) -> None:
    if result.of_log:
        raise ScenarioError(
            f"the result must be that of a run, got the schedule that the log "
            f"{result.scheduler['parameters']['log']} tells of itself: no scheduler made it, so it cannot be "
            "run again"
        )
    if "emulation" in result.provenance:
        raise ScenarioError(
            "the result must be that of a simulation, got an emulated one: no emulated run is like another, "
            "so it cannot be repeated"
        )


def _changed(then: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    changed = {
        key: (then.get(key), now[key])
        for key in ("gridcore", "python", "implementation", "numpy", "system")
        if then.get(key) != now[key]
    }
    before, after = then.get("files", {}), now["files"]
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            changed[f"file {path}"] = (before.get(path), after.get(path))
    return changed


@click.command()
@click.argument("file", metavar="RESULT")
@click.option("--scheduler", "name", metavar="module:Class", help="Of a result of your own scheduler.")
@import_option
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def repro(file: str, name: str | None, imports: tuple[str, ...], as_json: bool) -> None:
    """Run the scenario in a result again.

    Exit code 1, and the first difference, if another digest comes out.
    """
    from dataclasses import asdict

    from gridsim.cli.output import say
    from gridsim.results.result import Result
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.support.text import to_json

    result = Result.load(file)
    _check_scheduled(result)
    with naming([file]):
        scheduler = scheduler_from(result.scheduler, "the result", imported_as=name, imports=imports)
        found = reproduce_result(result, scheduler)
    if as_json:
        click.echo(to_json({"file": file, **asdict(found)}))
    else:
        for key, (then, now) in found.changed.items():
            say(one_line(f"changed: {key} was {then}, is {now}"))
        if found.difference is None:
            click.echo(f"{file}: the same digest, {found.found}")
        else:
            click.echo(f"{file}: digest {found.stated}, found {found.found}")
            say(one_line(f"first difference (then, and now): {found.difference}"))
    if found.difference is not None:
        sys.exit(1)
