"""The commands that repeat published experiments and exact results: `gridsim reproduce` and `theory`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import INT, NamingCommand, json_option, progress_option, workers_option
from gridsim.cli.output import progress_of
from gridsim.errors import ScenarioError
from gridsim.support.imports import import_extra

if TYPE_CHECKING:
    from gridsim.reproduce.framework import Desktops, Files, Log, Reproduction

#: Name of an experiment -> its module in `gridsim.reproduce`, and its name there.
EXPERIMENTS = {
    "celaya-fig4a": "celaya.figure4.FIG4A",
    "celaya-table1": "celaya.table1.TABLE1",
    "celaya-fig4b": "celaya.figure4.FIG4B",
    "celaya-failures": "celaya.failures.FAILURES",
    "celaya-loss": "celaya.figure4.LOSS_STEPS",
    "dgs-table1": "dgs.tables.TABLE1",
    "dgs-table2": "dgs.tables.TABLE2",
    "dgs-table3": "dgs.tables.TABLE3",
    "dgs-fig4": "dgs.utilization.FIG4",
    "dgs-fig5": "dgs.figures.FIG5",
    "dgs-fig6": "dgs.figures.FIG6",
    "dgs-whole": "dgs.utilization.WHOLE_LOG",
    "dgs-criteria": "dgs.criteria.CRITERIA",
    "dgs-times": "dgs.times.TIMES",
    "coallocation": "dgs.rivals.COALLOCATION",
    "queues": "dgs.queues.QUEUES",
    "wqr-tables": "wqr.tables.RUNNING_EXAMPLE",
    "wqr-fig5": "wqr.fig5.FIG5",
    "wqr-information": "wqr.information.INFORMATION",
    "wqr-real": "wqr.real.REAL_DESKTOPS",
    "multi-bag": "wqr.multi_bag.MULTI_BAG",
    "rjss-fig1": "rjss.prediction.FIG1",
    "rjss-fig2": "rjss.figures.FIG2",
    "rjss-fig4": "rjss.figures.FIG4",
    "rjss-fig5": "rjss.figures.FIG5",
    "rjss-fig6": "rjss.figures.FIG6",
    "rjss-fig7": "rjss.figures.FIG7",
    "rjss-load": "rjss.figures.LOAD",
    "rjss-transit": "rjss.figures.TRANSIT",
    "braun": "others.mapping.BRAUN",
    "data-tree": "others.tree_extensions.DATA_TREE",
    "need-tree": "others.tree_extensions.NEED_TREE",
    "master-worker": "others.master_worker.MASTER_WORKER",
    "lpas": "others.mapping.AFFINITY",
    "probes-on-bags": "others.probes_on_bags.PROBES_ON_BAGS",
    "searches": "others.searches.SEARCHES",
    "stale-views": "others.stale_views.STALE_VIEWS",
    "tree-repair": "others.tree_repair.TREE_REPAIR",
    "waves": "others.waves.WAVES",
    "volunteers": "others.volunteers.VOLUNTEERS",
    "sparrow": "others.probes.SPARROW",
    "hawk": "others.probes.HAWK",
    "eagle": "others.probes.EAGLE",
    "dodoor": "others.cached_loads.CACHED_LOADS",
    "emulation": "others.emulation.EMULATION",
}
#: Files of an experiment -> the flags with which they are given.
FLAGS: dict[str | None, str] = {
    "desktops": "--availability FILE, --speeds FILE and --log FILE",
    "task logs": "--trace FILE, a .tr log",
}


def experiment_of(name: str) -> Reproduction:
    """Return the experiment called `name`.

    Raises
    ------
    ScenarioError
        If there is no such experiment.
    """
    from importlib import import_module

    from gridsim.support.arguments import listed

    if name not in EXPERIMENTS:
        raise ScenarioError(f"unknown experiment {name!r}; {listed([*EXPERIMENTS, 'all'], name)}")
    module, _, attribute = EXPERIMENTS[name].rpartition(".")
    experiment: Reproduction = getattr(import_module(f"gridsim.reproduce.{module}"), attribute)
    return experiment


def experiments_with(files: Files) -> list[str]:
    """Return the names of the experiments in which such files can replace what is drawn."""
    return [name for name in EXPERIMENTS if experiment_of(name).files == files]


@click.command(cls=NamingCommand)
@click.argument("name", required=False, metavar="[NAME|all]")
@click.option("--list", "list_only", is_flag=True, help="List the experiments and their claims.")
@click.option(
    "--quick", is_flag=True, help="Run a smaller version in about a minute; verdicts are marked as quick."
)
@click.option("--seeds", type=INT, metavar="N", help="Use seeds 1..N.  [as many as the experiment states]")
@click.option("--out", metavar="DIR", help="Write DIR/NAME/table.md, table.json, figure.png, scenarios/.")
@click.option("--data", metavar="DIR", help="Write DIR/NAME.toml: table.json without the runs, as TOML.")
@workers_option
@click.option(
    "--log",
    metavar="FILE",
    help="Run the jobs of this log instead of generated ones: dgs-*, coallocation, queues, wqr-*, multi-bag, "
    "probes-on-bags.",
)
@click.option(
    "--availability",
    metavar="FILE",
    help="Take the up intervals of hosts from this trace (.avt, FTA): wqr-*, multi-bag, waves, volunteers.",
)
@click.option("--speeds", metavar="FILE", help="Take the speeds of hosts from this table: wqr-*, multi-bag.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="FILE",
    help="Run the jobs of this .tr log; repeatable: sparrow, hawk, eagle.",
)
@click.option(
    "--cores-per-node", type=INT, metavar="N", help="Processors of the log per node of the platform.  [1]"
)
@progress_option
@json_option
def reproduce(
    name: str | None,
    list_only: bool,
    quick: bool,
    seeds: int | None,
    out: str | None,
    data: str | None,
    workers: int | None,
    log: str | None,
    availability: str | None,
    speeds: str | None,
    traces: tuple[str, ...],
    cores_per_node: int | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Repeat published experiments, and check which of their claims hold here."""
    from gridsim.support.arguments import integer
    from gridsim.support.text import to_json

    if list_only:
        if name is not None:
            raise ScenarioError(f"--list does not support NAME, got {name!r}")
        _list(as_json)
        return
    if name is None:
        raise ScenarioError(f"NAME must be one of {', '.join(EXPERIMENTS)}, or all, got none")
    exclusions = {}
    if name == "all":
        experiments = list(map(experiment_of, EXPERIMENTS))
        exclusions = {each.name: f"requires {FLAGS[each.files]}" for each in experiments if each.needs_files}
        experiments = [each for each in experiments if not each.needs_files]
    else:
        experiments = [experiment_of(name)]
    reads_hosts = name != "all" and experiments[0].files == "availability"
    host_trace = _hosts(name, availability, speeds, log) if reads_hosts else None
    desktops = None
    if not reads_hosts and (availability is not None or speeds is not None):
        _check_support(experiments, "desktops", "--availability and --speeds")
        desktops = _desktops(availability, speeds, log)
    if seeds is not None:
        integer("--seeds", seeds, low=1, high=1_000_000)
    worker_count = integer(
        "--workers", os.cpu_count() or 1 if workers is None else workers, low=1, high=10_000
    )
    folders = {"--out": out, "--data": data}
    for flag, folder in folders.items():
        if folder is not None and (not folder or (os.path.lexists(folder) and not os.path.isdir(folder))):
            raise ScenarioError(f"{flag} must name a folder, got {folder!r}")
    _check_extras(out is not None)
    _check_traces(traces, experiments)
    for experiment in experiments:
        if experiment.needs_files and not (desktops if experiment.files == "desktops" else traces):
            raise ScenarioError(f"{experiment.name} requires {FLAGS[experiment.files]}")
    jobs = None if desktops else _log(log, cores_per_node, experiments)
    for flag, folder in folders.items():
        try:
            if folder is not None:
                os.makedirs(folder, exist_ok=True)  # before the runs, so that errors are reported early
        except OSError as error:
            raise ScenarioError(
                f"{flag} must name a folder that can be created, got {folder!r}: {error}"
            ) from None

    from gridsim.reproduce.framework import Run
    from gridsim.reproduce.output import markdown, to_dict, write, write_record
    from gridsim.support.processes import executor_of

    answers = []
    with executor_of(worker_count) as executor:
        for experiment in experiments:
            seed_count = experiment.seeds[quick] if seeds is None else seeds
            shown_progress = progress_of(progress, as_json)
            options = Run(
                range(1, seed_count + 1), quick, executor, shown_progress, jobs, desktops, host_trace, traces
            )
            report = experiment.run(options)
            files = [] if out is None else write(experiment, report, options.record, out)
            files += [] if data is None else [write_record(experiment, report, data)]
            if as_json:
                answers.append({**to_dict(experiment, report, options.record), "files": files})
                continue
            click.echo(markdown(experiment, report))
            for file in files:
                click.echo(f"saved {file}")
    if as_json:
        click.echo(to_json({"reproductions": answers, "left_out": exclusions}))
        return
    for key, reason in exclusions.items():
        click.echo(f"not run: {key}, which {reason}")


def _log(path: str | None, cores_per_node: int | None, experiments: list[Reproduction]) -> Log | None:
    """Return the log of ``--log``, after a check that all experiments support it and that it can be read."""
    from gridsim.reproduce.framework import Log
    from gridsim.support.arguments import integer
    from gridsim.traces.info import detect_format, load_jobs
    from gridsim.traces.tr import load_tr

    if path is None:
        if cores_per_node is not None:
            raise ScenarioError("--cores-per-node requires --log FILE")
        return None
    for experiment in experiments:
        if experiment.files not in ("job log", "bag log"):
            supported = ", ".join(experiments_with("job log") + experiments_with("bag log"))
            raise ScenarioError(
                f"{experiment.name} does not support --log; it is supported by {supported}, and with "
                f"--availability and --speeds by {', '.join(experiments_with('desktops'))}"
            )
    log = Log(path, 1 if cores_per_node is None else integer("--cores-per-node", cores_per_node, low=1))
    # read the log before the runs, so that its errors are reported early
    if experiments[0].files == "bag log" and detect_format(path) == "tr":
        load_tr(path)
    else:
        load_jobs(path)
    return log


def _desktops(availability: str | None, speeds: str | None, log: str | None) -> Desktops:
    """Return the files of real desktops, after a check that they can be read."""
    from gridsim.reproduce.framework import Desktops
    from gridsim.traces import read_availability, read_host_speeds
    from gridsim.traces.info import load_jobs

    if availability is None or speeds is None or log is None:
        raise ScenarioError("--availability and --speeds require each other and --log FILE")
    read_availability(availability)  # read before the runs, so that errors of the files are reported early
    read_host_speeds(speeds)
    load_jobs(log)
    return Desktops(availability, speeds, log)


def _hosts(name: str, availability: str | None, speeds: str | None, log: str | None) -> str | None:
    """Return the availability trace of hosts, after a check that it states local times, or None."""
    from gridsim.reproduce.others.waves import hours_of

    if speeds is not None or log is not None:
        raise ScenarioError(f"{name} does not support --speeds and --log, only --availability FILE")
    if availability is not None:
        hours_of(availability)  # read before the runs, so that errors of the trace are reported early
    return availability


def _check_support(experiments: list[Reproduction], files: Files, flags: str) -> None:
    """Check that all experiments can read such files."""
    for experiment in experiments:
        if experiment.files != files:
            raise ScenarioError(
                f"{experiment.name} does not support {flags}; these experiments do: "
                f"{', '.join(experiments_with(files))}"
            )


def _check_traces(traces: tuple[str, ...], experiments: list[Reproduction]) -> None:
    """Check that all experiments support ``--trace``, and that the logs are known and distinct."""
    from gridsim.reproduce.others.probes import log_of

    if not traces:
        return
    _check_support(experiments, "task logs", "--trace")
    logs = [log_of(path) for path in traces]  # before the runs, so that errors of a log are reported early
    if len(set(logs)) < len(logs):
        raise ScenarioError(f"--trace must name different logs, got {', '.join(traces)}")


def _list(as_json: bool) -> None:
    from gridsim.support.text import to_json

    entries: list[dict[str, Any]] = [
        {
            "name": experiment.name,
            "title": experiment.title,
            "paper": experiment.paper,
            "claims": list(experiment.claims),
            "seeds": experiment.seeds[0],
        }
        for experiment in map(experiment_of, EXPERIMENTS)
    ]
    if as_json:
        click.echo(to_json({"reproductions": entries}))
        return
    for entry in entries:
        click.echo(f"{entry['name']}: {entry['title']} ({entry['paper']}; {entry['seeds']} seeds)")
        for claim in entry["claims"]:
            click.echo(f"  - {claim}")


def _check_extras(figures: bool) -> None:
    """Check, before the runs, that the optional libraries used after them are installed."""
    import_extra("scipy.stats", "stats", "reproduce")
    if figures:
        import_extra("matplotlib", "plot", "reproduce --out")


@click.command(cls=NamingCommand)
@click.argument("names", nargs=-1, metavar="[NAMES]")
@click.option(
    "--full", is_flag=True, help="Run for minutes, for narrow intervals.  [a smaller version, for seconds]"
)
@click.option(
    "--seed",
    type=INT,
    default=1,
    show_default=True,
    help="Random seed from which all replications are seeded.",
)
@workers_option
@progress_option
@json_option
@click.pass_context
def theory(
    ctx: click.Context,
    names: tuple[str, ...],
    full: bool,
    seed: int,
    workers: int | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Compare simulations with exact results of queueing theory.

    The exit code is 1 if a theoretical value is outside the confidence interval of the simulation.
    """
    from gridsim.support.text import to_json
    from gridsim.theory import check_theory

    outcome = check_theory(
        names, full=full, seed=seed, workers=workers, progress=progress_of(progress, as_json)
    )
    click.echo(to_json(outcome.to_dict()) if as_json else outcome.format())
    ctx.exit(int(not outcome.passed))
