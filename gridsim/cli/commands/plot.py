"""The command `gridsim plot`: a chart of saved results."""

from __future__ import annotations

from typing import Any

import click

from gridsim.cli.output import check_apart
from gridsim.cli.result_args import display_errors, machines_of, named_files
from gridsim.cli.study_flags import check_figure, draw
from gridsim.errors import ScenarioError

#: Flag -> the kind that takes it.
_OF = {
    "metric": "distribution",
    "quantity": "series",
    "machines": "gantt",
    "unit": "traffic",
    "column": "tree",
}
_KINDS = ("gantt", "distribution", "series", "traffic", "tree")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(_KINDS), required=True, help="Which chart.")
@click.option("--figure", required=True, metavar="FILE", help="Where to (.png, .svg or .pdf).")
@click.option("--metric", metavar="NAME", help="distribution: of applications.  [stretch_agg]")
@click.option("--quantity", metavar="NAME", help="series: active, waiting or busy.  [active]")
@click.option("--machines", metavar="FIRST:END|A,B,C", help="gantt: only these.  [all]")
@click.option("--unit", metavar="NAME", help="traffic: bytes or messages.  [bytes]")
@click.option("--column", metavar="NAME", help="tree: of machines.  [utilization]")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def plot(paths: tuple[str, ...], kind: str, figure: str, as_json: bool, **flags: str | None) -> None:
    """Draw saved results (files, or folders of them): a Gantt chart, how values are distributed, what there
    was over time, what was sent from each level of the tree, or the tree itself.

    Of several results distribution and series are drawn in one chart, the others one below the other.
    gantt, and series of busy machines, require recorded runs (run --record).
    """
    from gridsim.results.result import Result
    from gridsim.studies.figures import of_results
    from gridsim.support.text import to_json

    how: dict[str, Any] = {}
    for flag, value in flags.items():
        if value is not None:
            if _OF[flag] != kind:
                raise ScenarioError(f"--{flag} is for --kind {_OF[flag]}, got --kind {kind}")
            how[flag] = machines_of(value) if flag == "machines" else value
    files = named_files(paths)
    check_figure(figure)
    check_apart([("PATH", file) for file in files.values()], [("--figure", figure)])
    results = {name: Result.load(file) for name, file in files.items()}
    with display_errors(files.values()):
        draw(figure, of_results(kind, results, **how))
    if as_json:
        click.echo(to_json({"files": files, "kind": kind, "figure": figure}))
    else:
        click.echo(f"saved {figure}")
