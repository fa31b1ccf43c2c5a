"""The command `gridsim sweep`: the sweep in a file, kept in a store, so that it can be cut off and go on."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.commands.report import check_report
from gridsim.cli.output import check_apart, check_output, scenario_files, progress_of, say
from gridsim.cli.quantities import INT
from gridsim.cli.study_flags import (
    check_figure,
    draw,
    figure_message,
    headline_option,
    names_of,
    execution_arguments,
    execution_options,
)
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.studies.sweep_result import SweepResult


@click.command()
@click.argument("file", metavar="SWEEP.toml")
@click.option("--schedulers", "names", metavar="A,B,C", help="In place of the file's.")
@click.option("--replicates", type=INT, metavar="N", help="In place of the file's, which are 10 by default.")
@click.option("--baseline", metavar="NAME", help="In place of the file's.")
@click.option("--metrics", metavar="A,B,C", help="In place of the file's; the first is shown and drawn.")
@execution_options
@headline_option
@click.option("--report", metavar="FILE", help="Write a report too: HTML that works offline.")
@click.option("--out", metavar="FILE", help="Save the table of runs (.parquet or .csv).")
@click.option("--progress/--no-progress", default=None, help="Show a bar (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def sweep(
    file: str,
    names: str | None,
    replicates: int | None,
    baseline: str | None,
    metrics: str | None,
    report: str | None,
    out: str | None,
    **flags: Any,
) -> None:
    """Run a sweep: schedulers over a grid of changes to a scenario, with replications of each point.

    What was run is kept in a store (--store; else SWEEP.store beside the file): run again, only what is
    missing is computed.  Exit code 1 if runs failed.
    """
    from gridsim.results.text import planned_lines
    from gridsim.studies.sweep import Sweep
    from gridsim.support.arguments import text
    from gridsim.support.extras import need
    from gridsim.support.text import to_json

    need("scipy.stats", "stats", "sweep")  # which is needed in the end: better now
    check_figure(flags["figure"])
    check_report(report)
    _check_table(out)
    changes = {"schedulers": names_of(names) or None, "replicates": replicates, "baseline": baseline}
    changes["metrics"] = names_of(metrics) or None
    given = {key: value for key, value in changes.items() if value is not None}
    made = Sweep.from_toml(text("SWEEP.toml", file), **given)
    # what is wrong with a point is to be known before there is a store
    files = dict.fromkeys(name for cell in made.cells for name in cell.scenario.files)
    written = [("--out", out), ("--figure", flags["figure"]), ("--report", report)]
    check_apart([("SWEEP.toml", file), *scenario_files(files)], written)
    if made.cells:
        planned_lines(made.cells[0].scenario)  # an error here would be one of every run
    with execution_arguments(flags, f"{os.path.splitext(file)[0]}.store") as where:
        found = made.run(progress=progress_of(flags["progress"], flags["as_json"]), **where)
    if out is not None:
        _save(found, out)
    if flags["figure"] is not None:
        draw(flags["figure"], found.figure(headline=flags["headline"]))
    if report is not None:
        from gridsim.report import write_report

        write_report(found, report, scenario=made.scenario, command=_again(file, given))
    if flags["as_json"]:
        about = {"store": str(where["store"].path), "out": out, "report": report}
        click.echo(to_json({**found.to_dict(), **about}))
    else:
        say(found.format())
        click.echo(f"kept in {where['store'].path}")
        if out is not None:
            click.echo(f"saved {out}")
        if flags["figure"] is not None:
            click.echo(figure_message(flags["figure"], found.metrics))
        if report is not None:
            click.echo(f"saved {report}")
    if found.errors:
        sys.exit(1)


def _again(file: str, given: dict[str, Any]) -> str:
    """The command for the same sweep."""
    words = ["gridsim", "sweep", file]
    for flag, value in given.items():
        words += [f"--{flag}", ",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join(words)


def _check_table(out: str | None) -> None:
    if out is not None:
        check_output("--out", out)
        if not out.endswith((".parquet", ".csv")):
            raise ScenarioError(f"--out must end in .parquet or .csv, got {out!r}")


def _save(found: SweepResult, out: str) -> None:
    from gridsim.support.extras import need
    from gridsim.support.files import atomic_file

    table = found.to_arrow()
    with atomic_file(out) as stream:
        if out.endswith(".csv"):
            need("pyarrow.csv", "data", "--out").write_csv(table, stream)
        else:
            need("pyarrow.parquet", "data", "--out").write_table(table, stream)
