"""The command `gridsim reproduce`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import progress_of
from gridsim.cli.quantities import INT
from gridsim.errors import ScenarioError
from gridsim.support.extras import import_extra

if TYPE_CHECKING:
    from gridsim.reproduce.framework import Desktops, Log, Reproduction

#: Name of an experiment -> its module in `gridsim.reproduce`.
MODULES = {
    "celaya-fig4a": "celaya.fig4a",
    "celaya-table1": "celaya.table1",
    "celaya-fig4b": "celaya.fig4b",
    "celaya-failures": "celaya.failures",
    "celaya-loss": "celaya.loss",
    "dgs-table1": "dgs.table1",
    "dgs-table2": "dgs.table2",
    "dgs-table3": "dgs.table3",
    "dgs-fig4": "dgs.fig4",
    "dgs-fig5": "dgs.fig5",
    "dgs-fig6": "dgs.fig6",
    "dgs-whole": "dgs.whole",
    "dgs-criteria": "dgs.criteria",
    "dgs-times": "dgs.times",
    "coallocation": "dgs.coallocation",
    "wqr-tables": "wqr.tables",
    "wqr-fig5": "wqr.fig5",
    "wqr-information": "wqr.information",
    "wqr-real": "wqr.real",
    "multi-bag": "wqr.multi_bag",
    "rjss-fig1": "rjss.fig1",
    "rjss-fig2": "rjss.fig2",
    "rjss-fig4": "rjss.fig4",
    "rjss-fig5": "rjss.fig5",
    "rjss-fig6": "rjss.fig6",
    "rjss-fig7": "rjss.fig7",
    "rjss-load": "rjss.load",
    "rjss-transit": "rjss.transit",
    "braun": "others.braun",
    "data-tree": "others.data_tree",
    "need-tree": "others.need_tree",
    "master-worker": "others.master_worker",
    "lpas": "others.lpas",
    "probes-on-bags": "others.probes_on_bags",
    "searches": "others.searches",
    "stale-views": "others.stale_views",
    "tree-repair": "others.tree_repair",
    "waves": "others.waves",
    "volunteers": "others.volunteers",
    "sparrow": "others.sparrow",
    "hawk": "others.hawk",
    "eagle": "others.eagle",
    "emulation": "others.emulation",
}
#: Experiments on rigid jobs; they support a job log.
RIGID_EXPERIMENTS = (*(name for name in MODULES if name.startswith("dgs-")), "coallocation")
#: The experiment on bags that supports a job log without traces of desktops.
BAG_EXPERIMENT = "probes-on-bags"
#: Experiments on desktop grids, which support traces of real desktops; the last one requires such traces.
DESKTOP_EXPERIMENTS, REAL_DESKTOPS = ("wqr-fig5", "wqr-information", "wqr-real", "multi-bag"), "wqr-real"
#: Experiments that require logs with the duration of every task.
PROBE_EXPERIMENTS = ("sparrow", "hawk", "eagle")
#: Experiment -> end of an error message with the flags that it requires.
REQUIREMENTS = {
    REAL_DESKTOPS: "requires --availability FILE, --speeds FILE and --log FILE",
    **dict.fromkeys(PROBE_EXPERIMENTS, "requires --trace FILE, a .tr log"),
}
#: Experiments that support an availability trace without speeds.
HOST_EXPERIMENTS = ("waves", "volunteers")


def reproduction(name: str) -> Reproduction:
    """Return the experiment called `name`.

    Raises
    ------
    ScenarioError
        If there is no such experiment.
    """
    from importlib import import_module

    from gridsim.support.arguments import listed

    if name not in MODULES:
        raise ScenarioError(f"unknown experiment {name!r}; {listed([*MODULES, 'all'], name)}")
    module: Any = import_module(f"gridsim.reproduce.{MODULES[name]}")
    return module  # type: ignore[no-any-return]


@click.command()
@click.argument("name", required=False, metavar="[NAME|all]")
@click.option("--list", "list_only", is_flag=True, help="List the experiments and their claims.")
@click.option(
    "--quick", is_flag=True, help="Run a smaller version in about a minute; verdicts are marked as quick."
)
@click.option("--seeds", type=INT, metavar="N", help="Use seeds 1..N.  [as many as the experiment states]")
@click.option("--out", metavar="DIR", help="Write DIR/NAME/table.md, table.json, figure.png, scenarios/.")
@click.option("--workers", type=INT, metavar="N", help="Number of worker processes.  [as many as processors]")
@click.option(
    "--log",
    metavar="FILE",
    help="Run the jobs of this log instead of generated ones: dgs-*, coallocation, wqr-*, multi-bag, "
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
    "--procs-per-node", type=INT, metavar="N", help="Processors of the log per node of the platform.  [1]"
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show progress bars (default: on a terminal, without --json).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def reproduce(
    name: str | None,
    list_only: bool,
    quick: bool,
    seeds: int | None,
    out: str | None,
    workers: int | None,
    log: str | None,
    availability: str | None,
    speeds: str | None,
    traces: tuple[str, ...],
    procs_per_node: int | None,
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
        raise ScenarioError(f"NAME must be one of {', '.join(MODULES)}, or all, got none")
    host_trace = _hosts(name, availability, speeds, log) if name in HOST_EXPERIMENTS else None
    if host_trace is None and name != "all" and (availability is not None or speeds is not None):
        _check_desktops([name])
    desktops = _desktops(availability, speeds, log) if host_trace is None else None
    exclusions = {}
    if name == "all":
        exclusions = {key: reason for key, reason in REQUIREMENTS.items() if key in MODULES}
    names = [key for key in MODULES if key not in exclusions] if name == "all" else [name]
    experiments = list(map(reproduction, names))
    if seeds is not None:
        integer("--seeds", seeds, low=1, high=1_000_000)
    worker_count = integer(
        "--workers", os.cpu_count() or 1 if workers is None else workers, low=1, high=10_000
    )
    if out is not None and (not out or (os.path.lexists(out) and not os.path.isdir(out))):
        raise ScenarioError(f"--out must name a folder, got {out!r}")
    _check_extras(out is not None)
    if desktops is not None:
        _check_desktops(names)
    _check_traces(traces, names)
    _check_requirements(
        names, {REAL_DESKTOPS} if desktops is not None else set(PROBE_EXPERIMENTS if traces else ())
    )
    jobs = None if desktops else _log(log, procs_per_node, names)
    if out is not None:
        try:
            os.makedirs(out, exist_ok=True)  # before the runs, so that errors are reported early
        except OSError as error:
            raise ScenarioError(
                f"--out must name a folder that can be created, got {out!r}: {error}"
            ) from None

    from gridsim.reproduce.framework import Run
    from gridsim.reproduce.written import markdown, to_dict, write
    from gridsim.support.processes import executor_of

    answers = []
    with executor_of(worker_count) as executor:
        for experiment in experiments:
            seed_count = experiment.SEEDS[quick] if seeds is None else seeds
            shown_progress = progress_of(progress, as_json)
            options = Run(
                range(1, seed_count + 1), quick, executor, shown_progress, jobs, desktops, host_trace, traces
            )
            report = experiment.run(options)
            files = [] if out is None else write(experiment, report, options.ran, out)
            if as_json:
                answers.append({**to_dict(experiment, report, options.ran), "files": files})
                continue
            click.echo(markdown(experiment, report))
            for file in files:
                click.echo(f"saved {file}")
    if as_json:
        click.echo(to_json({"reproductions": answers, "left_out": exclusions}))
        return
    for key, reason in exclusions.items():
        click.echo(f"not run: {key}, which {reason}")


def _log(path: str | None, procs_per_node: int | None, names: list[str]) -> Log | None:
    """Return the log of ``--log``, after a check that all experiments support it and that it can be read."""
    from gridsim.reproduce.framework import Log
    from gridsim.support.arguments import integer
    from gridsim.traces.info import detect_format, load_jobs
    from gridsim.traces.tr import load_tr

    if path is None:
        if procs_per_node is not None:
            raise ScenarioError("--procs-per-node requires --log FILE")
        return None
    for name in names:
        if name not in (*RIGID_EXPERIMENTS, BAG_EXPERIMENT):
            raise ScenarioError(
                f"{name} does not support --log; it is supported by {', '.join(RIGID_EXPERIMENTS)}, "
                f"{BAG_EXPERIMENT}, and with --availability and --speeds by {', '.join(DESKTOP_EXPERIMENTS)}"
            )
    log = Log(path, 1 if procs_per_node is None else integer("--procs-per-node", procs_per_node, low=1))
    # read the log before the runs, so that its errors are reported early
    if names == [BAG_EXPERIMENT] and detect_format(path) == "tr":
        load_tr(path)
    else:
        load_jobs(path)
    return log


def _desktops(availability: str | None, speeds: str | None, log: str | None) -> Desktops | None:
    """Return the files of real desktops, after a check that they can be read; None without the flags."""
    from gridsim.reproduce.framework import Desktops
    from gridsim.traces import read_availability, read_host_speeds
    from gridsim.traces.info import load_jobs

    if availability is None and speeds is None:
        return None
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


def _check_desktops(names: list[str]) -> None:
    """Check that all experiments support traces of desktops."""
    for name in names:
        if name not in DESKTOP_EXPERIMENTS:
            raise ScenarioError(
                f"{name} does not support --availability and --speeds; these experiments do: "
                f"{', '.join(DESKTOP_EXPERIMENTS)}"
            )


def _check_traces(traces: tuple[str, ...], names: list[str]) -> None:
    """Check that all experiments support ``--trace``, and that the logs are known and distinct."""
    from gridsim.reproduce.others.probes import log_of

    for path in traces:
        for name in names:
            if name not in PROBE_EXPERIMENTS:
                raise ScenarioError(
                    f"{name} does not support --trace; these experiments do: {', '.join(PROBE_EXPERIMENTS)}"
                )
        log_of(path)  # before the runs, so that errors of the log are reported early
    if len(set(map(log_of, traces))) < len(traces):
        raise ScenarioError(f"--trace must name different logs, got {', '.join(traces)}")


def _check_requirements(names: list[str], available: set[str]) -> None:
    """Check that the experiments which require flags are in `available`."""
    for name in names:
        if name in REQUIREMENTS and name not in available:
            raise ScenarioError(f"{name} {REQUIREMENTS[name]}")


def _list(as_json: bool) -> None:
    from gridsim.support.text import to_json

    entries: list[dict[str, Any]] = [
        {
            "name": experiment.NAME,
            "title": experiment.TITLE,
            "claims": list(experiment.CLAIMS),
            "seeds": experiment.SEEDS[0],
        }
        for experiment in map(reproduction, MODULES)
    ]
    if as_json:
        click.echo(to_json({"reproductions": entries}))
        return
    for entry in entries:
        click.echo(f"{entry['name']}: {entry['title']} ({entry['seeds']} seeds)")
        for claim in entry["claims"]:
            click.echo(f"  - {claim}")


def _check_extras(figures: bool) -> None:
    """Check, before the runs, that the optional libraries used after them are installed."""
    import_extra("scipy.stats", "stats", "reproduce")
    if figures:
        import_extra("matplotlib", "plot", "reproduce --out")
