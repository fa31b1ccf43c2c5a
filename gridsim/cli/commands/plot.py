"""The command `gridsim plot`: a chart of saved results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from gridsim.cli.output import check_distinct
from gridsim.cli.quantities import SECONDS
from gridsim.cli.result_args import guard_display, named_files, parse_machines, parse_nodes
from gridsim.cli.study_flags import check_figure, save_figure
from gridsim.errors import ScenarioError

#: Flag -> the kind of chart that supports it.
_KIND_OF_FLAG = {
    "metric": "distribution",
    "quantity": "series",
    "machines": "gantt",
    "unit": "traffic",
    "column": "tree",
    "nodes": "sequence",
    "start": "sequence",
    "end": "sequence",
}
_KINDS = ("gantt", "distribution", "series", "sequence", "traffic", "tree")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(_KINDS), required=True, help="Kind of chart.")
@click.option("--figure", required=True, metavar="FILE", help="Output file (.png, .svg or .pdf).")
@click.option(
    "--metric", metavar="NAME", help="distribution: column of the table of applications.  [stretch_agg]"
)
@click.option(
    "--quantity",
    metavar="NAME",
    help="series: number of active or waiting applications, or of busy machines.  [active]",
)
@click.option("--machines", metavar="FIRST:END|A,B,C", help="gantt: machines to draw.  [all]")
@click.option("--unit", metavar="NAME", help="traffic: unit, bytes or messages.  [bytes]")
@click.option("--column", metavar="NAME", help="tree: column of the table of machines.  [utilization]")
@click.option("--nodes", metavar="A,B,C", help="sequence: nodes to draw.  [all recorded ones]")
@click.option("--start", type=SECONDS, help="sequence: start of the part to draw.  [0]")
@click.option("--end", type=SECONDS, help="sequence: end of the part to draw.  [the end of the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def plot(paths: tuple[str, ...], kind: str, figure: str, as_json: bool, **flags: Any) -> None:
    """Draw a chart of saved results (files, or folders of files).

    Kinds: gantt, a Gantt chart of the machines; distribution, of a metric of applications; series, a quantity
    over time; sequence, the messages and timers of nodes; traffic, messages sent by each level of the tree;
    tree, the tree itself.  Several results share one chart of the kinds distribution and series, and have a
    chart each of the other kinds.  gantt, and series of busy machines, require results with a schedule (run
    --record), and sequence requires diaries of nodes (run --events).
    """
    from gridsim.results.result import Result
    from gridsim.studies.figures import of_results
    from gridsim.support.text import to_json

    parsers: dict[str, Callable[[str], Any]] = {
        "machines": parse_machines,
        "nodes": partial(parse_nodes, "--nodes"),
    }
    options: dict[str, Any] = {}
    for flag, value in flags.items():
        if value is not None:
            if _KIND_OF_FLAG[flag] != kind:
                raise ScenarioError(f"--{flag} requires --kind {_KIND_OF_FLAG[flag]}, got --kind {kind}")
            options[flag] = parsers[flag](value) if flag in parsers else value
    files = named_files(paths)
    check_figure(figure)
    check_distinct([("PATH", file) for file in files.values()], [("--figure", figure)])
    results = {name: Result.load(file) for name, file in files.items()}
    with guard_display(files.values()):
        save_figure(figure, of_results(kind, results, **options))
    if as_json:
        click.echo(to_json({"files": files, "kind": kind, "figure": figure}))
    else:
        click.echo(f"saved {figure}")
