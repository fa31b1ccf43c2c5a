"""The command `gridsim ladder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import check_distinct, progress_of, scenario_files
from gridsim.cli.quantities import INT, SECONDS
from gridsim.cli.scenario_flags import (
    Flags,
    flags_in_errors,
    input_files,
    parse_setting,
    report_option,
    scenario_of,
    scenario_options,
    settings_option,
)
from gridsim.cli.study_flags import check_study, execution_arguments, execution_options, show_study
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.model.scenario import Scenario


@click.command("ladder")
@scenario_options
@settings_option
@click.option(
    "--scheduler",
    "name",
    help="Scheduler to examine, such as least-work.  [fair-tree; for rigid jobs: dgs-asap]",
)
@click.option(
    "--ages",
    metavar="S,...",
    help="Ages of views (s), one step each; only for schedulers with a shared board.",
)
@click.option(
    "--replicates",
    type=INT,
    default=10,
    show_default=True,
    help="Number of replications: runs with other seeds.",
)
@click.option(
    "--failures",
    type=SECONDS,
    metavar="S",
    help="Mean time between transient failures of a machine in the last step.  [the scenario's faults, else "
    "14400 for bags]",
)
@click.option("--time-limit", type=SECONDS, help="Simulated time after which a run ends with an error.")
@execution_options
@report_option
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def ladder_command(
    name: str | None,
    ages: str | None,
    settings: tuple[str, ...],
    replicates: int,
    failures: float | None,
    time_limit: float | None,
    **flags: Any,
) -> None:
    """Measure the cost of decentralization step by step, from a central scheduler to a decentralized one."""
    from gridsim.model.faults import Faults
    from gridsim.scheduling.registry import named_scheduler
    from gridsim.studies.ladder import DEFAULT_SCHEDULERS, ladder

    check_study(flags, "ladder")
    scenario = scenario_of(flags)
    check_distinct(
        [*input_files(flags).items(), *scenario_files(scenario.files)],
        [("--figure", flags["figure"]), ("--report", flags["report"])],
    )
    for other, table in scenario.schedulers.items():
        named_scheduler(other, table)  # tables of schedulers that do not run are checked as well
    name = DEFAULT_SCHEDULERS[scenario.workload.rigid] if name is None else name
    scheduler = named_scheduler(name, _parameters(name, scenario, settings))
    with flags_in_errors({"faults.mean": "--failures"}):
        faults = None if failures is None else Faults.poisson(failures, scenario.seed)
    with execution_arguments(flags) as execution:
        result = ladder(
            scenario,
            replicates,
            scheduler=scheduler,
            faults=faults,
            ages=() if ages is None else _parse_ages(ages),
            time_limit=time_limit,
            progress=progress_of(flags["progress"], flags["as_json"]),
            **execution,
        )
    command: list[Any] = ["gridsim", "ladder", "scenario.toml", "--scheduler", name]
    command += ["--replicates", replicates]
    command += [part for setting in settings for part in ("--set", setting)]
    for flag, value in (("--ages", ages), ("--failures", failures), ("--time-limit", time_limit)):
        command += [] if value is None else [flag, value]
    show_study(result, flags, result.measures, scenario=scenario, command=command, details={})


def _parse_ages(ages: str) -> list[float]:
    try:
        return [float(age) for age in ages.split(",")]
    except ValueError:
        raise ScenarioError(f"--ages must be numbers, such as 1,10, got {ages!r}") from None


def _parameters(name: str, scenario: Scenario, settings: tuple[str, ...]) -> Flags:
    """Return the parameters of the scheduler, from the scenario and ``--set``."""
    parameters = dict(scenario.schedulers.get(name, {}))
    for setting in settings:
        target, parameter, value = parse_setting(setting)
        if target != name:
            raise ScenarioError(f"--set {setting}: the scheduler must be {name}, got {target!r}")
        parameters[parameter] = value
    return parameters
