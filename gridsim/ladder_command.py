"""The command `gridsim ladder`."""

from __future__ import annotations

import os
from typing import Any

import click

from gridsim.cli_scenario import Flags, inputs, scenario_of, scenario_options, scheduler_of, setting_of
from gridsim.errors import ScenarioError
from gridsim.output import check_output, progress_of
from gridsim.reproduce.command import pool

#: Whether jobs are rigid -> the scheduler whose ladder it is.
WHOSE = {False: "fair-tree", True: "dgs-asap"}


@click.command()
@scenario_options
@click.option("--set", "settings", multiple=True, metavar="NAME.PARAM=VALUE", help="A parameter.")
@click.option("--replicates", type=int, default=10, show_default=True, help="Of the scenario, other seeds.")
@click.option(
    "--failures",
    type=float,
    metavar="S",
    help="Last step: each machine is reset once in S s.  [the scenario's faults, else 14400 for bags]",
)
@click.option("--figure", metavar="FILE.png", help="Draw the waterfall.")
@click.option("--workers", type=int, metavar="N", help="Processes.  [as many as there are processors]")
@click.option("--progress/--no-progress", default=None, help="Show bars (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def ladder_command(
    settings: tuple[str, ...],
    replicates: int,
    failures: float | None,
    figure: str | None,
    workers: int | None,
    progress: bool | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """What decentralization costs, step by step: the fair tree, or for rigid jobs DGS_ASAP."""
    from gridsim.faults import Faults
    from gridsim.ladder import ladder
    from gridsim.platform import whole

    count = whole("--workers", os.cpu_count() or 1 if workers is None else workers, low=1, high=10_000)
    whole("--replicates", replicates, low=1, high=1_000_000)
    _check_extras(figure)
    if figure is not None:
        _check_figure(figure, flags)
    scenario = scenario_of(flags)
    for other, table in scenario.schedulers.items():
        scheduler_of(other, table)  # tables of schedulers that do not run must be right too
    name = WHOSE[scenario.workload.rigid]
    parameters = dict(scenario.schedulers.get(name, {}))
    for setting in settings:
        whose, parameter, value = setting_of(setting)
        if whose != name:
            raise ScenarioError(f"--set {setting}: no scheduler {whose!r} here; chosen: {name}")
        parameters[parameter] = value
    faults = None if failures is None else Faults.poisson(failures, scenario.seed)
    with pool(count) as executor:
        made = ladder(
            scenario,
            replicates,
            scheduler=scheduler_of(name, parameters),
            faults=faults,
            executor=executor,
            progress=progress_of(progress),
        )
    if figure is not None:
        from gridsim.plots import save
        from gridsim.records import atomic_file

        with atomic_file(figure) as stream:
            save(made.figure(), stream)
    if as_json:
        from gridsim.records import to_json

        click.echo(to_json({**made.to_dict(), "figure": figure}))
        return
    click.echo(made.format())
    if figure is not None:
        click.echo(f"saved {figure}")


def _check_figure(figure: str, flags: Flags) -> None:
    """That it can be written, and is no file that is read."""
    check_output("--figure", figure)
    for flag, given in inputs(flags).items():
        if given is not None and os.path.realpath(given) == os.path.realpath(figure):
            raise ScenarioError(f"{flag} and --figure name the same file, {figure}")


def _check_extras(figure: str | None) -> None:
    """That what is needed in the end is there, before anything is run."""
    from importlib.util import find_spec

    for module, extra in (("scipy", "stats"), *((("matplotlib", "plot"),) if figure is not None else ())):
        if find_spec(module) is None:
            raise ScenarioError(f'ladder needs {module}: pip install "gridcore[{extra}]"')
