"""The command `gridsim sweep`: a sweep that a file defines.  A store keeps its runs, so it can be resumed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import (
    DAYS,
    INT,
    PART,
    NamingCommand,
    complete_metrics,
    complete_schedulers,
    import_option,
    json_option,
    progress_option,
    report_option,
    settings_option,
)
from gridsim.cli.output import (
    check_distinct,
    check_table,
    print_plan,
    print_text,
    progress_of,
    save_table,
    scenario_files,
)
from gridsim.cli.study_flags import (
    check_study,
    execution_arguments,
    execution_options,
    headline_option,
    names_of,
    show_study,
)
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.studies.execution.cell import Cell, RunRecord
    from gridsim.studies.execution.store import Store
    from gridsim.studies.sweep import Sweep


@click.command(cls=NamingCommand)
@click.argument("file", metavar="SWEEP.toml")
@click.option(
    "--schedulers",
    "names",
    metavar="A,B,C",
    shell_complete=complete_schedulers,
    help="Schedulers to compare: names, module:Class, or LABEL=NAME.  [as in the file]",
)
@click.option(
    "--replicates",
    type=INT,
    metavar="N",
    help="Number of replications of each point.  [as in the file, else 10]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    help="Scheduler to which ratios are relative.  [as in the file, else none]",
)
@click.option(
    "--metrics",
    metavar="A,B,C",
    shell_complete=complete_metrics,
    help="Metrics to report; schedulers are compared by the first one.  [as in the file]",
)
@click.option(
    "--skip-days",
    type=DAYS,
    metavar="N",
    help="Leave what is released in the first N days out of metrics.  [as in the file, else 0]",
)
@click.option(
    "--part",
    type=PART,
    help="Only run part K of N parts, which may share a store, or have stores that are merged.",
)
@settings_option
@import_option
@execution_options
@headline_option
@report_option
@click.option("--out", metavar="FILE", help="Save the table of runs (.parquet or .csv).")
@progress_option
@json_option
def sweep(
    file: str,
    names: str | None,
    replicates: int | None,
    baseline: str | None,
    metrics: str | None,
    skip_days: float | None,
    out: str | None,
    part: tuple[int, int] | None,
    settings: tuple[str, ...],
    imports: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run a sweep: schedulers over a grid of changes to a scenario, with replications of each point.

    Run records are kept in a store (--store, else SWEEP.store next to the file); a repeated sweep only
    computes the missing ones.  The exit code is 1 if runs failed.
    """
    from gridsim.studies.replicate import plan_lines
    from gridsim.studies.sweep import Sweep
    from gridsim.support.announcement import announce
    from gridsim.support.arguments import text

    if part is not None:
        for flag, value in (
            ("out", out),
            *((name, flags[name]) for name in ("figure", "width", "report", "title", "table")),
        ):
            if value is not None:
                raise ScenarioError(f"--{flag} does not support --part, since it requires the whole sweep")
    check_study(flags, "sweep")
    check_table(out)
    changes: dict[str, Any] = {
        "schedulers": names_of(names) or None,
        "replicates": replicates,
        "baseline": baseline,
    }
    changes |= {"metrics": names_of(metrics) or None, "skip_days": skip_days}
    overrides = {key: value for key, value in changes.items() if value is not None}
    definition = Sweep.from_toml(text("SWEEP.toml", file), imports=imports, **overrides)
    definition = _with_settings(definition, settings)
    # this also checks the points, before the store is created
    files = dict.fromkeys(name for cell in definition.cells for name in cell.scenario.files)
    outputs = [("--out", out), *((f"--{name}", flags[name]) for name in ("figure", "report", "table"))]
    check_distinct([("SWEEP.toml", file), *scenario_files(files)], outputs)
    # an error in the plan would occur in every run
    lines = plan_lines(
        definition.cells[0].scenario,
        [cell.scheduler for cell in definition.cells],
        definition.hold,
        skip_days=definition.skip_days,
    )
    runs, points = len(definition.cells), len(list(definition.points()))
    lines["runs"] = (
        f"{runs:,} at {points:,} points; the lines above describe replication 0 of the first point"
    )
    arguments = execution_arguments(flags, f"{os.path.splitext(file)[0]}.store")
    with arguments as execution, print_plan(flags["as_json"]) as plan:
        announce(lambda: lines)
        execution["progress"] = progress_of(flags["progress"], flags["as_json"])
        if part is not None:
            records = definition.run_part(*part, **execution)
            _show_part(part, definition.part(*part), records, execution["store"], flags["as_json"])
            return
        result = definition.run(**execution)
    if out is not None:
        save_table(result.to_arrow(), out)
    store = execution["store"].path
    show_study(
        result,
        flags,
        result.metrics,
        scenario=definition.scenario,
        command=_command(file, overrides, settings, imports),
        details={"skip_days": definition.skip_days, "store": str(store), "out": out},
        plan=plan,
        chart_metrics=result.chart_metrics,
        messages=[f"kept in {store}", *([] if out is None else [f"saved {out}"])],
    )
    if result.errors:
        sys.exit(1)


def _show_part(
    part: tuple[int, int], cells: Sequence[Cell], records: Sequence[RunRecord], store: Store, as_json: bool
) -> None:
    """Print the number of runs of a part, and exit with 1 if runs failed."""
    from gridsim.studies.overview import failure_lines
    from gridsim.support.text import to_json

    names = (f"{cell.label}, {cell.place}" for cell in cells)
    failures = [(name, record.error) for name, record in zip(names, records, strict=True) if record.error]
    number, count = part
    if as_json:
        answer = {"part": number, "parts": count, "runs": len(records), "failed": len(failures)}
        click.echo(to_json({**answer, "store": str(store.path)}))
    else:
        for line in failure_lines(failures, len(records)):
            print_text(line)
        print_text(f"part {number} of {count}: {len(records)} runs, {len(failures)} failed")
        print_text(f"kept in {store.path}")
    if failures:
        sys.exit(1)


def _with_settings(definition: Sweep, settings: Sequence[str]) -> Sweep:
    """Return a sweep with the parameters of ``--set``, in place of those of the file, at all points."""
    from gridsim.cli.settings import settings_by_label

    tables: dict[str, dict[str, Any]] = {}
    kinds = {label: type(scheduler) for label, scheduler in definition.schedulers.items()}
    for setting, label, parameter, value in settings_by_label(settings, kinds):
        if f"schedulers.{label}.{parameter}" in definition.over:
            raise ScenarioError(f"--set {setting}: the parameter must not be an axis of the sweep")
        tables.setdefault(label, {})[parameter] = value
    return definition.with_parameters(tables)


def _command(
    file: str, overrides: dict[str, Any], settings: Sequence[str], imports: Sequence[str]
) -> list[str]:
    """Return the command that repeats the sweep."""
    arguments = ["gridsim", "sweep", file]
    for flag, value in overrides.items():
        arguments += [
            f"--{flag.replace('_', '-')}",
            ",".join(value) if isinstance(value, list) else str(value),
        ]
    arguments += [part for setting in settings for part in ("--set", setting)]
    arguments += [part for name in imports for part in ("--import", name)]
    return arguments
