"""The command `gridsim compare`: comparison of schedulers on one scenario, or on replications of it."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import (
    Flags,
    NamingCommand,
    bound_option,
    by_option,
    complete_schedulers,
    json_option,
    progress_option,
    report_option,
    save_scenario_option,
    settings_option,
    skip_days_option,
    verbose_option,
)
from gridsim.cli.output import file_name, print_lines, print_plan, print_text, progress_of, terminal_width
from gridsim.cli.run_flags import run_arguments, shared_run_options
from gridsim.cli.scenario_flags import prepare, scenario_of, scenario_options
from gridsim.cli.study_flags import (
    check_means,
    check_report,
    check_study,
    execution_arguments,
    execution_options,
    headline_option,
    names_of,
    replication_options,
    save_means,
    show_study,
)
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from gridsim.model.scenario import Scenario
    from gridsim.studies.compare import Comparison
    from gridsim.studies.replicate_result import Replicates

#: Whether the workload has rigid jobs -> the schedulers that are compared by default.
DEFAULT_SCHEDULERS = {
    False: ("fair-tree", "fair-tree-root", "mincent", "fcfs"),
    True: ("dgs-asap", "asap", "backfill", "backfill-fcfs"),
}


@click.command(cls=NamingCommand)
@scenario_options
@settings_option
@click.option(
    "--schedulers",
    "names",
    metavar="A,B,C",
    shell_complete=complete_schedulers,
    help="Schedulers to compare: names, module:Class, or all (those that support the scenario).  LABEL=NAME "
    "is a variant, whose parameters --set LABEL.PARAM=VALUE sets.  "
    f"[{','.join(DEFAULT_SCHEDULERS[False])}; for rigid jobs {','.join(DEFAULT_SCHEDULERS[True])}]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    help="Scheduler to which ratios of max stretch, or of mean waiting time, are relative, or log, the "
    "schedule recorded in a job log.  [mincent; for rigid jobs backfill (EASY); else the first centralized "
    "one, else the first]",
)
@shared_run_options
@bound_option
@skip_days_option
@click.option(
    "--log/--no-log",
    "log",
    default=True,
    help="With the jobs of a log, show the schedule recorded in it, as a reference.  [yes]",
)
@by_option
@click.option("--out", metavar="DIR", help="Save the results in a folder, as NAME.npz.")
@save_scenario_option
@verbose_option
@replication_options
@execution_options
@headline_option
@report_option
@progress_option
@json_option
def compare(names: str | None, baseline: str | None, **flags: Any) -> None:
    """Compare schedulers on one scenario; without arguments, on a desktop grid of 1000 machines.

    With --replicates or --half-width, compare them on replications of the scenario, and show means and ratios
    with confidence intervals; the exit code is 1 if runs failed.
    """
    from gridsim.scheduling.registry import split_label
    from gridsim.studies.log_reference import LOG
    from gridsim.support.arguments import hint

    flags["scenario_flags"], *further_flags = _flags_by_nodes(flags["scenario_flags"])
    selection, exclusions = _selected_schedulers(names, flags)
    labels = [split_label(name)[0] for name in selection]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise ScenarioError(
                f"--schedulers must name different schedulers, got {label!r} twice; a variant has a label, "
                f"LABEL={split_label(selection[i])[1]}"
            )
    if baseline in selection:
        baseline = split_label(baseline)[0]
    has_replications = flags["replicates"] is not None or flags["half_width"] is not None
    rows = [*labels, *([LOG] if flags["log"] and not has_replications else [])]
    if baseline is not None and baseline not in rows:
        close = hint(labels, baseline)
        raise ScenarioError(f"--baseline must be one of {', '.join(labels)}, got {baseline!r}{close}")
    if has_replications:
        if further_flags:
            raise ScenarioError(
                "--replicates requires one number of --nodes; for several use --save-scenario FILE, and "
                'gridsim sweep with "platform.nodes" under [over]'
            )
        _compare_replications(selection, exclusions, baseline, flags)
        return
    for flag in ("at_most", "hold", "metrics", "dask", "store_path", "figure", "width"):
        if flags[flag] is not None:
            name = flag.removesuffix("_path").replace("_", "-")
            plot_hint = "; for single runs use --out DIR, then gridsim plot DIR"
            hints = dict.fromkeys(("figure", "width"), plot_hint)
            hints["metrics"] = "; add --replicates 5"
            raise ScenarioError(f"--{name} requires --replicates{hints.get(flag, '')}")
    for flag in ("retry", "keep_results"):
        if flags[flag]:
            raise ScenarioError(f"--{flag.replace('_', '-')} requires --replicates")
    if not flags["headline"]:
        raise ScenarioError("--no-headline requires --replicates and --figure")
    further = {f"{scenario.platform.nodes}": scenario for scenario in map(scenario_of, further_flags)}
    counts = f"{scenario_of(flags['scenario_flags']).platform.nodes}", *further
    if len(set(counts)) <= len(further_flags):
        raise ScenarioError(f"--nodes must be different numbers, got {', '.join(counts)}")
    _compare_runs(selection, exclusions, baseline, further, flags)


def _selected_schedulers(names: str | None, flags: Flags) -> tuple[list[str], dict[str, str]]:
    """Return the names of the schedulers to compare, and name -> reason for excluded ones."""
    scenario = scenario_of(flags["scenario_flags"])
    defaults = DEFAULT_SCHEDULERS[scenario.workload.rigid]
    if names == "all" or (names is None and scenario.workload.rigid and _has_job_requirements(scenario)):
        from gridsim.studies.compare import applicable

        result, exclusions = applicable(scenario, None if names else defaults)
        selection = list(result)
    else:
        selection, exclusions = list(defaults) if names is None else names_of(names), {}
    if not selection:
        raise ScenarioError("--schedulers must name at least one scheduler, got none")
    return selection, exclusions


def _flags_by_nodes(flags: Flags) -> list[Flags]:
    """Return the values of `scenario_options` for each number of machines of --nodes."""
    counts = flags.get("nodes")
    return [{**flags, "nodes": count} for count in counts] if isinstance(counts, tuple) else [flags]


def _has_job_requirements(scenario: Scenario) -> bool:
    """Return whether jobs have properties that not all default schedulers support.

    Examples are deadlines, constraints on machines, and several cores on one machine.
    """
    from gridsim.model.applications import JOB_TIMES, MACHINE_SHARES

    applications = scenario.workload.realize(scenario.platform)
    return applications.group is not None or any(
        getattr(applications, name) is not None for name in (*JOB_TIMES, *MACHINE_SHARES)
    )


def _compare_runs(
    names: list[str],
    exclusions: dict[str, str],
    baseline: str | None,
    further: dict[str, Scenario],
    flags: Flags,
) -> None:
    """Compare schedulers on the scenario of the flags, and on `further`, by numbers of machines."""
    from gridsim.scheduling.registry import split_label
    from gridsim.studies import compare as experiment
    from gridsim.studies.log_reference import LOG
    from gridsim.support.text import to_json

    out, files = flags["out"], {}
    first = f"{scenario_of(flags['scenario_flags']).platform.nodes}"
    if out:
        if os.path.lexists(out) and not os.path.isdir(out):
            raise ScenarioError(f"--out must be a folder (compare saves one file per scheduler), got {out}")
        labels = [split_label(name)[0] for name in names]
        if further:
            labels = [f"{label} {count}" for label in labels for count in (first, *further)]
        labels += [LOG] * flags["log"]
        files = {label: os.path.join(out, file_name(label)) for label in labels}
        if len(set(files.values())) < len(files):
            first, second = next((a, b) for b in labels for a in labels if a < b and files[a] == files[b])
            raise ScenarioError(
                f"--out requires schedulers with different file names, got {first!r} and {second!r}, both "
                f"{os.path.basename(files[first])}"
            )
    check_report(flags["report"], title=flags["title"])
    check_means(flags["table"])
    is_new_folder = out is not None and not os.path.isdir(out)
    outputs = [out.rstrip("/")] if is_new_folder else list(files.values())
    scenario, schedulers, save_scenario = prepare(
        names,
        flags["scenario_flags"],
        flags["settings"],
        [*(("--out", path) for path in outputs), *_outputs(flags)],
    )
    with _run_executor(flags["workers"]) as executor, print_plan(flags["as_json"]) as plan:
        comparison: Comparison = experiment.compare(
            {first: scenario, **further} if further else scenario,
            schedulers,
            progress=progress_of(flags["progress"], flags["as_json"]),
            baseline=baseline,
            bound=flags["bound"],
            skip_days=flags["skip_days"],
            executor=executor,
            log=flags["log"],
            by=_groups(flags),
            **run_arguments(flags["run_flags"], out, flags["report"]),
        )
    save_scenario(flags["save_scenario"])
    if files:
        os.makedirs(out, exist_ok=True)
        files = {name: file for name, file in files.items() if name in comparison.all_results}
        for name, file in files.items():
            comparison[name].save(file)
    if flags["report"] is not None:
        from gridsim.report import write_report

        write_report(comparison, flags["report"], title=flags["title"], files=files)
    save_means(flags["table"], comparison)
    if flags["as_json"]:
        details = {
            "files": files,
            "report": flags["report"],
            "table": flags["table"],
            "not_applicable": exclusions,
        }
        click.echo(to_json({**comparison.to_dict(), **details}))
        return
    print_text(comparison.format(width=terminal_width(), verbose=flags["verbose"], plan=plan))
    print_lines(f"not applicable: {name}: {reason}" for name, reason in exclusions.items())
    for file in [*files.values(), *filter(None, [flags["report"], flags["table"]])]:
        click.echo(f"saved {file}")


def _outputs(flags: Flags) -> list[tuple[str, str | None]]:
    """Return the pairs of a flag and its output file, besides those of ``--out``."""
    names = ("save_scenario", "figure", "report", "table")
    return [(f"--{name.replace('_', '-')}", flags[name]) for name in names]


def _groups(flags: Flags) -> Any:
    """Return the names of --by, which are checked where they are used."""
    return names_of(flags["by"])


def _run_executor(count: int | None) -> AbstractContextManager[Executor | None]:
    """Return a context manager with the executor of the runs; None to execute them in this process."""
    if count is None:
        return nullcontext()
    from gridsim.support.processes import executor_of

    return executor_of(count)


def _command(names: list[str], result: Replicates, flags: Flags) -> list[str]:
    """Return the command that repeats the replications of the scenario in scenario.toml."""
    arguments = ["gridsim", "compare", "scenario.toml", "--schedulers", ",".join(names)]
    arguments += ["--baseline", str(result.baseline), "--replicates", str(len(result.seeds))]
    for flag in ("hold", "metrics", "by"):
        if flags[flag] is not None:
            arguments += [f"--{flag}", str(flags[flag])]
    if flags["skip_days"]:
        arguments += ["--skip-days", f"{flags['skip_days']:g}"]
    if (time_limit := flags["run_flags"].get("time_limit")) is not None:
        arguments += ["--time-limit", str(time_limit)]
    return arguments


def _compare_replications(
    names: list[str], exclusions: dict[str, str], baseline: str | None, flags: Flags
) -> None:
    from gridsim.studies import compare as experiment
    from gridsim.studies.replicate import AT_MOST, replicate

    run_flags = dict(flags["run_flags"])
    time_limit = run_flags.pop("time_limit", None)
    single = [shared_run_options.flags[name] for name in run_flags]
    single += [f"--{name}" for name in ("out", "verbose") if flags[name]]
    if single:
        raise ScenarioError(
            f"--replicates does not support {single[0]}, which is for single runs; use --store DIR"
        )
    if flags["at_most"] is not None and flags["half_width"] is None:
        raise ScenarioError("--at-most requires --half-width")
    if flags["bound"] != "best":
        raise ScenarioError("--replicates does not support --bound: the metric gap uses the best bound")
    check_study(flags, "--replicates")
    scenario, schedulers, save_scenario = prepare(
        names, flags["scenario_flags"], flags["settings"], _outputs(flags)
    )
    messages = [f"not applicable: {name}: {reason}" for name, reason in exclusions.items()]
    if flags["log"] and scenario.workload.recipe.__struct_config__.tag in ("job-log", "site-logs"):
        messages.append("no row for the log: its schedule is shown beside single runs, without --replicates")
    with execution_arguments(flags) as execution, print_plan(flags["as_json"]) as plan:
        result = replicate(
            scenario,
            schedulers,
            replicates=flags["replicates"],
            half_width=flags["half_width"],
            at_most=AT_MOST if flags["at_most"] is None else flags["at_most"],
            hold=names_of(flags["hold"]),
            baseline=baseline or experiment.default_baseline(schedulers),
            metrics=names_of(flags["metrics"]) or None,
            skip_days=flags["skip_days"],
            by=_groups(flags),
            errors="record",
            time_limit=time_limit,
            progress=progress_of(flags["progress"], flags["as_json"]),
            **execution,
        )
    show_study(
        result,
        flags,
        list(result.values),
        scenario=save_scenario(flags["save_scenario"]),
        command=_command(names, result, flags),
        details={
            "scenario": scenario.to_toml(),
            "skip_days": flags["skip_days"],
            "not_applicable": exclusions,
        },
        messages=messages,
        plan=plan,
    )
    if result.errors:
        sys.exit(1)
