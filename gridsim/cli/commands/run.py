"""The commands that run one scheduler: `gridsim run`, `resume` and `emulate`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from gridsim.cli.options import (
    FLOAT,
    INT,
    SECONDS,
    Decorator,
    Flags,
    NamingCommand,
    animate_option,
    bound_option,
    class_option,
    complete_schedulers,
    import_option,
    json_option,
    out_option,
    progress_option,
    report_option,
    save_scenario_option,
    settings_option,
    skip_days_option,
    verbose_option,
)
from gridsim.cli.output import (
    check_distinct,
    check_output,
    output_file,
    print_plan,
    progress_of,
    scenario_files,
    show_result,
)
from gridsim.cli.result_args import import_code
from gridsim.cli.run_flags import resumed_threads_option, run_arguments, run_options, time_limit_option
from gridsim.cli.scenario_flags import prepare, scenario_options
from gridsim.cli.study_flags import check_animation, check_report
from gridsim.errors import ScenarioError


def _scheduler_option(default: str) -> Decorator:
    """Return the option for the scheduler to run."""
    return click.option(
        "--scheduler",
        "name",
        default=default,
        show_default=True,
        metavar="NAME|module:Class",
        shell_complete=complete_schedulers,
        help="The scheduler to run: its registered name or its class.",
    )


@click.command(cls=NamingCommand)
@scenario_options
@_scheduler_option("fair-tree")
@settings_option
@run_options
@click.option("--checkpoint", metavar="FILE", help="Save checkpoints to FILE, for gridsim resume.")
@click.option(
    "--checkpoint-every",
    type=SECONDS,
    help="Save a checkpoint after each such period of computing time (to gridsim.checkpoint unless "
    "--checkpoint names a file).  [600]",
)
@bound_option
@skip_days_option
@out_option
@report_option
@animate_option
@click.option("--bags", is_flag=True, help="Also print a table of the bags, with the stretch of each.")
@save_scenario_option
@progress_option
@verbose_option
@json_option
def run(
    scenario_flags: Flags,
    name: str,
    settings: tuple[str, ...],
    run_flags: Flags,
    checkpoint: str | None,
    checkpoint_every: float | None,
    bound: Any,
    skip_days: float,
    out: str | None,
    report: str | None,
    title: str | None,
    animate: str | None,
    bags: bool,
    save_scenario: str | None,
    progress: bool | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run one scheduler on a scenario; flags override the scenario file or, without a file, the defaults."""
    from gridsim.model.sanity_checks import warn_unusual
    from gridsim.results.text import planned_lines
    from gridsim.scheduling.registry import split_label
    from gridsim.simulation.simulate import CHECKPOINT_EVERY, execute

    label = split_label(name)[0]
    out = output_file(out, label)
    if checkpoint_every is not None and checkpoint is None:
        checkpoint = "gridsim.checkpoint"
    check_report(report, title=title)
    check_animation(animate, "--animate")
    outputs = [("--out", out), ("--save-scenario", save_scenario), ("--checkpoint", checkpoint)]
    outputs += [("--report", report), ("--animate", animate)]
    scenario, schedulers, save = prepare([name], scenario_flags, settings, outputs)
    scheduler = next(iter(schedulers.values()))
    if bags and scheduler.rigid:
        raise ScenarioError(f"--bags requires a scheduler of bags, got {label}, which runs rigid jobs")
    arguments = run_arguments(run_flags, out, report, animate, checkpoint)
    if animate is not None:
        events = arguments["record"] if "events" in arguments["record"] else ()
        arguments["record"] = tuple(dict.fromkeys((*events, "schedule", "messages"))) if events else "all"
    warn_unusual(scenario)
    with print_plan(as_json) as plan:
        result = execute(
            scenario,
            scheduler,
            plan=partial(planned_lines, scenario, skip_days=skip_days),
            progress=progress_of(progress, as_json),
            **arguments,
            checkpoint=checkpoint,
            checkpoint_every=CHECKPOINT_EVERY if checkpoint_every is None else checkpoint_every,
        )
    save(save_scenario)
    show_result(
        result.without_first_days(skip_days),
        label,
        out=out,
        report=report,
        title=title,
        animation=animate,
        has_bags=bags,
        bound=bound,
        as_json=as_json,
        verbose=verbose,
        plan=plan,
    )


@click.command(cls=NamingCommand)
@click.argument("file", metavar="CHECKPOINT")
@class_option
@import_option
@resumed_threads_option
@click.option(
    "--checkpoint-every",
    type=SECONDS,
    help="Save a checkpoint after each such period of computing time.  [as in the run]",
)
@bound_option
@out_option
@progress_option
@json_option
def resume(
    file: str,
    name: str | None,
    imports: tuple[str, ...],
    threads: int | None,
    checkpoint_every: float | None,
    bound: Any,
    out: str | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Continue an interrupted run from its checkpoint (run --checkpoint)."""
    from gridsim.scheduling.registry import scheduler_from
    from gridsim.simulation.checkpoint import Checkpoint
    from gridsim.simulation.resume import resume as continue_run

    import_code(imports)
    with Checkpoint(file) as checkpoint:
        header = checkpoint.header.scheduler
    title = header.name
    description = {"name": title, "class": header.cls, "parameters": header.parameters}
    out = output_file(out, title)
    if out is not None:
        check_output("--out", out)
        check_distinct([("CHECKPOINT", file), *scenario_files(checkpoint.header.files)], [("--out", out)])
    result = continue_run(
        file,
        scheduler=scheduler_from(description, "the run", imported_as=name, imports=imports),
        progress=progress_of(progress, as_json),
        threads=threads,
        checkpoint_every=checkpoint_every,
    )
    show_result(result, title, out=out, bound=bound, as_json=as_json)


@click.command(cls=NamingCommand)
@scenario_options
@_scheduler_option("sparrow")
@settings_option
@click.option(
    "--processes",
    type=INT,
    help="Number of processes that share the machines.  [default: 2, or 1 with --speedup inf]",
)
@click.option(
    "--speedup",
    type=FLOAT,
    default=10.0,
    show_default=True,
    help="Simulated seconds per second, at most 1e6; inf for a virtual clock, which does not wait.",
)
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
@time_limit_option
@bound_option
@out_option
@report_option
@save_scenario_option
@json_option
def emulate(
    scenario_flags: Flags,
    name: str,
    settings: tuple[str, ...],
    bound: Any,
    out: str | None,
    report: str | None,
    title: str | None,
    save_scenario: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Emulate a scheduler: run its nodes in processes that send messages over sockets of this machine."""
    from gridsim.emulation.emulate import emulate as run_for_real
    from gridsim.scheduling.registry import split_label

    label = split_label(name)[0]
    out = output_file(out, label)
    check_report(report, title=title)
    outputs = [("--out", out), ("--save-scenario", save_scenario), ("--report", report)]
    scenario, schedulers, save = prepare([name], scenario_flags, settings, outputs)
    with print_plan(as_json) as plan:
        result = run_for_real(scenario, next(iter(schedulers.values())), **options)
    save(save_scenario)
    show_result(result, label, out=out, report=report, title=title, bound=bound, as_json=as_json, plan=plan)
