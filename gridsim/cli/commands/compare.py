"""The command `gridsim compare`: schedulers on one scenario, or on replications of it."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.commands.report import check_report
from gridsim.cli.output import file_name, progress_of, say, width
from gridsim.cli.scenario_flags import Flags, complete_schedulers, prepare, recorded, run_options, scenario_of
from gridsim.cli.study_flags import (
    check_figure,
    draw,
    drawn,
    headline_option,
    names_of,
    places,
    replica_options,
    where_options,
)
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from gridsim.model.scenario import Scenario
    from gridsim.studies.replicate import Replicates

#: Whether a workload has rigid jobs -> the schedulers that are compared on it.
USUAL = {
    False: ("fair-tree", "fair-tree-root", "mincent", "fcfs"),
    True: ("dgs-asap", "asap", "backfill", "backfill-fcfs"),
}


@click.command()
@run_options
@click.option(
    "--schedulers",
    "names",
    metavar="A,B,C",
    shell_complete=complete_schedulers,
    help=f"Names, module:Class, or all that can run it.  [{','.join(USUAL[False])}; for rigid jobs "
    f"{','.join(USUAL[True])}]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    help="Ratios are to this one's max stretch, or mean waiting time.  [mincent; of rigid jobs backfill "
    "(EASY); else the first centralized one, else the first]",
)
@replica_options
@where_options
@headline_option
def compare(names: str | None, baseline: str | None, **flags: Any) -> None:
    """Compare schedulers on one scenario; without arguments: on a desktop grid of 1000 machines.

    With --replicates or --half-width: on replications of it, as means and ratios with intervals; exit code
    1 if runs failed.
    """
    from gridsim.support.arguments import hint

    chosen, refused = _chosen(names, flags)
    if baseline is not None and baseline not in chosen:
        close = hint(chosen, baseline)
        raise ScenarioError(f"--baseline must be one of {', '.join(chosen)}, got {baseline!r}{close}")
    if flags["replicates"] is not None or flags["half_width"] is not None:
        _replicated(chosen, refused, baseline, flags)
        return
    for flag in ("at_most", "hold", "metrics", "dask", "store_path", "figure"):
        if flags[flag] is not None:
            name = flag.removesuffix("_path").replace("_", "-")
            other = {"figure": "; of single runs: --out DIR, then gridsim plot DIR"}
            other["metrics"] = "; of single runs --verbose shows more metrics"
            raise ScenarioError(f"--{name} needs --replicates{other.get(flag, '')}")
    for flag in ("retry", "keep_results"):
        if flags[flag]:
            raise ScenarioError(f"--{flag.replace('_', '-')} needs --replicates")
    _once(chosen, refused, baseline, flags)


def _chosen(names: str | None, flags: Flags) -> tuple[list[str], dict[str, str]]:
    """Names of schedulers, and why others cannot run the scenario if all that can are wanted."""
    scenario = scenario_of(flags)
    usual = USUAL[scenario.workload.rigid]
    if names == "all" or (names is None and scenario.workload.rigid and _demanding(scenario)):
        from gridsim.studies.compare import applicable

        found, refused = applicable(scenario, None if names else usual)
        chosen = list(found)
    else:
        chosen, refused = list(usual) if names is None else names_of(names), {}
    if not chosen:
        raise ScenarioError("schedulers must name at least one, got none")
    for i, name in enumerate(chosen):
        if name in chosen[:i]:
            raise ScenarioError(f"--schedulers names {name!r} twice")
    return chosen, refused


def _demanding(scenario: Scenario) -> bool:
    """Return whether jobs state times or want certain machines, so that not all the usual ones take them."""
    from gridsim.model.applications import JOB_TIMES

    applications = scenario.workload.realize(scenario.platform)
    return applications.group is not None or any(
        getattr(applications, name) is not None for name in JOB_TIMES
    )


def _once(chosen: list[str], refused: dict[str, str], baseline: str | None, flags: Flags) -> None:
    from gridsim.studies import compare as experiment
    from gridsim.support.text import to_json

    out, files = flags["out"], {}
    if out:
        if os.path.lexists(out) and not os.path.isdir(out):
            raise ScenarioError(f"--out {out}: compare saves one file a scheduler, so this must be a folder")
        files = {name: os.path.join(out, file_name(name)) for name in chosen}
        if len(set(files.values())) < len(files):
            raise ScenarioError(f"--out {out}: two of the schedulers have the same file name there")
    check_report(flags["report"])
    new = out is not None and not os.path.isdir(out)  # then the folder is what will be made
    scenario, schedulers, keep = prepare(chosen, flags, [out.rstrip("/")] if new else list(files.values()))
    with _workers(flags["workers"]) as executor:
        comparison = experiment.compare(
            scenario,
            schedulers,
            progress=progress_of(flags["progress"], flags["as_json"]),
            baseline=baseline,
            bound=flags["bound"],
            threads=flags["threads"],
            time_limit=flags["time_limit"],
            record=recorded(flags, out, flags["report"]),
            executor=executor,
        )
    keep()
    if files:
        os.makedirs(out, exist_ok=True)
        for name, file in files.items():
            comparison[name].save(file)
    if flags["report"] is not None:
        from gridsim.report import write_report

        write_report(comparison, flags["report"], files=files)
    if flags["as_json"]:
        about = {"files": files, "report": flags["report"], "not_applicable": refused}
        click.echo(to_json({**comparison.to_dict(), **about}))
        return
    say(comparison.format(width=width(), verbose=flags["verbose"]))
    for name, why in refused.items():
        click.echo(f"not applicable: {name}: {why}")
    for file in [*files.values(), *filter(None, [flags["report"]])]:
        click.echo(f"saved {file}")


def _workers(count: int | None) -> AbstractContextManager[Executor | None]:
    """Return the executor for the runs; None: they are executed in this process, as usual."""
    if count is None:
        return nullcontext()
    from gridsim.support.processes import executor_of

    return executor_of(count)


def _again(found: Replicates, flags: Flags) -> str:
    """The command for the same replications of the scenario in scenario.toml, which has the parameters."""
    words = ["gridsim", "compare", "scenario.toml", "--schedulers", ",".join(found.schedulers)]
    words += ["--baseline", str(found.baseline), "--replicates", str(len(found.seeds))]
    for flag in ("hold", "metrics", "time_limit"):
        if flags[flag] is not None:
            words += ["--" + flag.replace("_", "-"), str(flags[flag])]
    return shlex.join(words)


def _replicated(chosen: list[str], refused: dict[str, str], baseline: str | None, flags: Flags) -> None:
    from gridsim.studies import compare as experiment
    from gridsim.studies.replicate import AT_MOST, replicate
    from gridsim.support.extras import need
    from gridsim.support.text import to_json

    for flag in ("out", "record", "decisions", "messages", "verbose"):
        if flags[flag]:
            raise ScenarioError(
                f"--{flag} saves or shows whole results, of one run each; with --replicates, use --store DIR"
            )
    if flags["at_most"] is not None and flags["half_width"] is None:
        raise ScenarioError("--at-most needs --half-width")
    if flags["bound"] != "best":
        raise ScenarioError("--bound is for a single run: the metric gap is over the best bound")
    need("scipy.stats", "stats", "--replicates")  # which is needed in the end: better now
    check_figure(flags["figure"])
    check_report(flags["report"])
    scenario, schedulers, keep = prepare(chosen, flags, [])
    with places(flags) as where:
        found = replicate(
            scenario,
            schedulers,
            replicates=flags["replicates"],
            half_width=flags["half_width"],
            at_most=AT_MOST if flags["at_most"] is None else flags["at_most"],
            hold=names_of(flags["hold"]),
            baseline=baseline or experiment.default_baseline(schedulers),
            metrics=names_of(flags["metrics"]) or None,
            errors="record",
            time_limit=flags["time_limit"],
            progress=progress_of(flags["progress"], flags["as_json"]),
            **where,
        )
    whole = keep()
    if flags["report"] is not None:
        from gridsim.report import write_report

        write_report(found, flags["report"], scenario=whole, command=_again(found, flags))
    if flags["figure"] is not None:
        draw(flags["figure"], found.figure(headline=flags["headline"]))
    if flags["as_json"]:
        about = {"scenario": scenario.to_toml(), "not_applicable": refused}
        about |= {name: flags[name] for name in ("figure", "report")}
        click.echo(to_json({**found.to_dict(), **about}))
    else:
        say(found.format())
        for name, why in refused.items():
            click.echo(f"not applicable: {name}: {why}")
        if flags["figure"] is not None:
            click.echo(drawn(flags["figure"], list(found.values)))
        if flags["report"] is not None:
            click.echo(f"saved {flags['report']}")
    if found.errors:
        sys.exit(1)
