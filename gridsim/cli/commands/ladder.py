"""The command `gridsim ladder`."""

from __future__ import annotations

from typing import Any

import click

from gridsim.cli.options import (
    INT,
    SECONDS,
    Flags,
    NamingCommand,
    flags_in_errors,
    json_option,
    progress_option,
    report_option,
    settings_option,
)
from gridsim.cli.output import progress_of
from gridsim.cli.run_flags import time_limit_option
from gridsim.cli.scenario_flags import faultless_scenario_options, prepare, scenario_of
from gridsim.cli.study_flags import check_study, execution_arguments, execution_options, show_study
from gridsim.errors import ScenarioError


@click.command(cls=NamingCommand)
@faultless_scenario_options
@settings_option
@click.option(
    "--scheduler",
    "name",
    help="Scheduler to examine, such as least-work.  [fair-tree; for rigid jobs: dgs-asap]",
)
@click.option(
    "--ages",
    metavar="S,...",
    help="Ages of views (s, or with a unit), one step each; only for schedulers with a shared board.",
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
@time_limit_option
@execution_options
@report_option
@progress_option
@json_option
def ladder(
    scenario_flags: Flags,
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
    from gridsim.studies.ladder import DEFAULT_SCHEDULERS
    from gridsim.studies.ladder import ladder as run_ladder

    check_study(flags, "ladder")
    if name is None:
        name = DEFAULT_SCHEDULERS[scenario_of(scenario_flags).workload.rigid]
    outputs = [(f"--{name}", flags[name]) for name in ("figure", "report", "table")]
    scenario, schedulers, _ = prepare([name], scenario_flags, settings, outputs)
    with flags_in_errors({"faults.mean": "--failures"}):
        faults = None if failures is None else Faults.poisson(failures, scenario.seed)
    with execution_arguments(flags) as execution:
        result = run_ladder(
            scenario,
            replicates,
            scheduler=next(iter(schedulers.values())),
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
        return [SECONDS.convert(age.strip(), None, None) for age in ages.split(",")]
    except click.BadParameter:
        raise ScenarioError(f"--ages must be times, such as '1,10 s,1 min', got {ages!r}") from None
