"""The command `gridsim emulate`."""

from __future__ import annotations

from typing import Any

import click

from gridsim.cli.output import deliver, in_folder
from gridsim.cli.quantities import FLOAT, INT
from gridsim.cli.scenario_flags import prepare, scenario_options


@click.command()
@scenario_options
@click.option("--scheduler", "name", default="sparrow", show_default=True, metavar="NAME|module:Class")
@click.option("--set", "settings", multiple=True, metavar="NAME.PARAM=VALUE", help="A parameter.")
@click.option("--processes", type=INT, default=2, show_default=True, help="In which the machines are.")
@click.option("--speedup", type=FLOAT, default=10.0, show_default=True, help="Simulated s in a second.")
@click.option(
    "--network",
    type=click.Choice(["modelled", "real"]),
    default="modelled",
    show_default=True,
    help="Messages take the scenario's time, or that of the sockets.",
)
@click.option(
    "--work",
    type=click.Choice(["sleep", "spin"]),
    default="sleep",
    show_default=True,
    help="What tasks do until their time is over.",
)
@click.option("--kill", is_flag=True, help="Failures kill processes (SIGKILL), not only node objects.")
@click.option("--time-limit", type=FLOAT, metavar="S", help="Simulated s after which to give up.")
@click.option(
    "--bound",
    type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
    default="best",
    help="As for `gridsim run`.",
)
@click.option("--out", metavar="PATH", help="Save the result: a file, or a folder for NAME.npz.")
@click.option("--report", metavar="FILE", help="Write a report too: HTML that works offline.")
@click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def emulate_command(name: str, **flags: Any) -> None:
    """Run one scheduler for real: its nodes in processes that send messages over sockets of this machine."""
    from gridsim.cli.commands.report import check_report
    from gridsim.emulation.emulate import emulate

    out = in_folder(flags["out"], name)
    check_report(flags["report"])
    scenario, schedulers, keep = prepare([name], flags, [] if out is None else [out])
    given = ("processes", "speedup", "network", "work", "kill", "time_limit")
    result = emulate(scenario, schedulers[name], **{each: flags[each] for each in given})
    keep()
    deliver(result, name, out=out, report=flags["report"], bound=flags["bound"], as_json=flags["as_json"])
