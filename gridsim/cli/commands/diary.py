"""The command `gridsim diary`."""

from __future__ import annotations

import math

import click

from gridsim.cli.quantities import INT, SECONDS


@click.command()
@click.argument("file", metavar="RESULT")
@click.argument("node", type=INT)
@click.option("--start", type=SECONDS, default=0.0, help="Start of the part to show.  [0]")
@click.option("--end", type=SECONDS, default=math.inf, help="End of the part to show.  [the end of the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def diary(file: str, node: int, start: float, end: float, as_json: bool) -> None:
    """Show what the handlers of a node got, sent, set, queued and changed.

    RESULT must contain the diary of the node (run --events).
    """
    from gridsim.cli.output import print_text
    from gridsim.cli.result_args import guard_display
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    result = Result.load(file, verify=False)
    with guard_display([file]):
        calls = result.diary(node, start, end)
        print_text(to_json({"file": file, **calls.to_dict()}) if as_json else calls.format())
