"""The command `gridsim ladder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import check_apart, scenario_files, progress_of
from gridsim.cli.quantities import INT, SECONDS
from gridsim.cli.scenario_flags import Flags, renaming_paths, inputs, scenario_of, scenario_options, setting_of
from gridsim.cli.study_flags import check_figure, draw, execution_arguments, execution_options
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.model.scenario import Scenario

#: Whether jobs are rigid -> the scheduler whose ladder it is.
WHOSE = {False: "fair-tree", True: "dgs-asap"}


@click.command("ladder")
@scenario_options
@click.option("--set", "settings", multiple=True, metavar="NAME.PARAM=VALUE", help="A parameter.")
@click.option("--scheduler", "name", help="Such as least-work.  [fair-tree; of rigid jobs: dgs-asap]")
@click.option("--ages", metavar="S,...", help="Ages of views, each a step; of schedulers that see a board.")
@click.option("--replicates", type=INT, default=10, show_default=True, help="Of the scenario, other seeds.")
@click.option(
    "--failures",
    type=SECONDS,
    metavar="S",
    help="Last step: each machine is reset once in S s.  [the scenario's faults, else 14400 for bags]",
)
@click.option("--time-limit", type=SECONDS, help="Simulated time after which to give up.")
@execution_options
@click.option("--progress/--no-progress", default=None, help="Show a bar (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def ladder_command(
    name: str | None,
    ages: str | None,
    settings: tuple[str, ...],
    replicates: int,
    failures: float | None,
    time_limit: float | None,
    **flags: Any,
) -> None:
    """What decentralization costs, step by step: the fair tree, for rigid jobs DGS_ASAP, or --scheduler."""
    from gridsim.model.faults import Faults
    from gridsim.scheduling.registry import named_scheduler
    from gridsim.studies.ladder import ladder
    from gridsim.support.extras import need
    from gridsim.support.text import to_json

    need("scipy.stats", "stats", "ladder")  # which is needed in the end: better now
    check_figure(flags["figure"])
    scenario = scenario_of(flags)
    check_apart([*inputs(flags).items(), *scenario_files(scenario.files)], [("--figure", flags["figure"])])
    for other, table in scenario.schedulers.items():
        named_scheduler(other, table)  # tables of schedulers that do not run must be right too
    name = WHOSE[scenario.workload.rigid] if name is None else name
    scheduler = named_scheduler(name, _parameters(name, scenario, settings))
    with renaming_paths({"faults.mean": "--failures"}):
        faults = None if failures is None else Faults.poisson(failures, scenario.seed)
    with execution_arguments(flags) as where:
        made = ladder(
            scenario,
            replicates,
            scheduler=scheduler,
            faults=faults,
            ages=() if ages is None else _numbers(ages),
            time_limit=time_limit,
            progress=progress_of(flags["progress"], flags["as_json"]),
            **where,
        )
    if flags["figure"] is not None:
        draw(flags["figure"], made.figure())
    if flags["as_json"]:
        click.echo(to_json({**made.to_dict(), "figure": flags["figure"]}))
        return
    click.echo(made.format())
    if flags["figure"] is not None:
        click.echo(f"saved {flags['figure']}")


def _numbers(ages: str) -> list[float]:
    try:
        return [float(age) for age in ages.split(",")]
    except ValueError:
        raise ScenarioError(f"--ages must be numbers, such as 1,10, got {ages!r}") from None


def _parameters(name: str, scenario: Scenario, settings: tuple[str, ...]) -> Flags:
    """The parameters of the scheduler whose ladder it is, of the scenario and of ``--set``."""
    parameters = dict(scenario.schedulers.get(name, {}))
    for setting in settings:
        whose, parameter, value = setting_of(setting)
        if whose != name:
            raise ScenarioError(f"--set {setting}: no scheduler {whose!r} here; chosen: {name}")
        parameters[parameter] = value
    return parameters
