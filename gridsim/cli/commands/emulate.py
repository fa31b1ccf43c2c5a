"""The command `gridsim emulate`."""

from __future__ import annotations

from typing import Any

import click

from gridsim.cli.output import output_file, show_result
from gridsim.cli.quantities import FLOAT, INT
from gridsim.cli.scenario_flags import prepare, report_option, scenario_options, settings_option


@click.command()
@scenario_options
@click.option(
    "--scheduler",
    "name",
    default="sparrow",
    show_default=True,
    metavar="NAME|module:Class",
    help="The scheduler to run: its registered name or its class.",
)
@settings_option
@click.option(
    "--processes",
    type=INT,
    help="Number of processes that share the machines.  [default: 2, or 1 with --speedup inf]",
)
@click.option("--speedup", type=FLOAT, default=10.0, show_default=True, help="Simulated seconds per second.")
@click.option(
    "--network",
    type=click.Choice(["modelled", "real"]),
    default="modelled",
    show_default=True,
    help="Delay messages as the scenario models it, or send them as fast as the sockets do.",
)
@click.option(
    "--work",
    type=click.Choice(["sleep", "spin"]),
    default="sleep",
    show_default=True,
    help="Activity of a task for its run time: sleep, or use the processor.",
)
@click.option("--kill", is_flag=True, help="Let failures kill processes (SIGKILL), not only node objects.")
@click.option(
    "--time-limit", type=FLOAT, metavar="S", help="Simulated time (s) after which a run ends with an error."
)
@click.option(
    "--bound",
    type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
    default="best",
    help="Lower bound of the max stretch to compare with.  [best: discrete if affordable]",
)
@click.option("--out", metavar="PATH", help="Save the result: a file, or a folder for NAME.npz.")
@report_option
@click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def emulate_command(name: str, **flags: Any) -> None:
    """Emulate a scheduler: run its nodes in processes that send messages over sockets of this machine."""
    from gridsim.cli.commands.report import check_report
    from gridsim.emulation.emulate import emulate

    out = output_file(flags["out"], name)
    check_report(flags["report"])
    scenario, schedulers, save_scenario = prepare([name], flags, [] if out is None else [out])
    names = ("processes", "speedup", "network", "work", "kill", "time_limit")
    result = emulate(scenario, schedulers[name], **{flag: flags[flag] for flag in names})
    save_scenario()
    show_result(result, name, out=out, report=flags["report"], bound=flags["bound"], as_json=flags["as_json"])
