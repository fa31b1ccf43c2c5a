"""The command `gridsim reproduce`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import progress_of
from gridsim.cli.quantities import INT
from gridsim.errors import ScenarioError
from gridsim.support.extras import need

if TYPE_CHECKING:
    from gridsim.reproduce.framework import Desktops, Log, Reproduction

#: Name on the command line -> module of `gridsim.reproduce`.
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
#: Those of rigid jobs, which can be those of a log.
RIGID = (*(name for name in MODULES if name.startswith("dgs-")), "coallocation")
#: That of bags, which can be those of a log.
BAGS = "probes-on-bags"
#: Those of desktops, which can be real ones, and the one that knows no others.
DESKTOP, REAL = ("wqr-fig5", "wqr-information", "wqr-real", "multi-bag"), "wqr-real"
#: Those of logs with the duration of every task.
PROBING = ("sparrow", "hawk", "eagle")
#: What an experiment cannot do without.
NEEDS = {
    REAL: "needs --availability FILE, --speeds FILE and --log FILE",
    **dict.fromkeys(PROBING, "needs --trace FILE, a .tr log"),
}
#: Those of hosts of which only the availability matters.
HOSTS = ("waves", "volunteers")


def reproduction(name: str) -> Reproduction:
    """The experiment called `name`.  Raises ScenarioError for one that is not known."""
    from importlib import import_module

    from gridsim.support.arguments import listed

    if name not in MODULES:
        raise ScenarioError(f"unknown experiment {name!r}; {listed([*MODULES, 'all'], name)}")
    made: Any = import_module(f"gridsim.reproduce.{MODULES[name]}")
    return made  # type: ignore[no-any-return]


@click.command()
@click.argument("name", required=False, metavar="[NAME|all]")
@click.option("--list", "listed", is_flag=True, help="List the experiments and what they claim.")
@click.option("--quick", is_flag=True, help="In small, in a minute or so: verdicts are marked as quick.")
@click.option("--seeds", type=INT, metavar="N", help="Use seeds 1..N.  [as each experiment says]")
@click.option("--out", metavar="DIR", help="Write DIR/NAME/table.md, table.json, figure.png, scenarios/.")
@click.option("--workers", type=INT, metavar="N", help="Processes.  [as many as there are processors]")
@click.option(
    "--log",
    metavar="FILE",
    help="Jobs of this log, not drawn ones: dgs-*, coallocation, wqr-*, multi-bag, probes-on-bags.",
)
@click.option(
    "--availability",
    metavar="FILE",
    help="Desktops of this trace (.avt, FTA): wqr-*, multi-bag, waves, volunteers.",
)
@click.option(
    "--speeds", metavar="FILE", help="Desktops as fast as the hosts of this table: wqr-*, multi-bag."
)
@click.option(
    "--trace", "traces", multiple=True, metavar="FILE", help="Jobs of this .tr log: sparrow, hawk, eagle."
)
@click.option("--procs-per-node", type=INT, metavar="N", help="Processors of the log that are a node.  [1]")
@click.option(
    "--progress/--no-progress", default=None, help="Show bars (default: on a terminal, without --json)."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def reproduce(
    name: str | None,
    listed: bool,
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
    """Repeat published results, and say which of them hold here."""
    from gridsim.support.arguments import whole
    from gridsim.support.text import to_json

    if listed:
        if name is not None:
            raise ScenarioError(f"--list takes no name, got {name!r}")
        _list(as_json)
        return
    if name is None:
        raise ScenarioError(f"reproduce needs the name of an experiment: {', '.join(MODULES)}, or all")
    hosts = _hosts(name, availability, speeds, log) if name in HOSTS else None
    if hosts is None and name != "all" and (availability is not None or speeds is not None):
        _check_desktops([name])
    desktops = _desktops(availability, speeds, log) if hosts is None else None
    left_out = {each: why for each, why in NEEDS.items() if each in MODULES} if name == "all" else {}
    names = [each for each in MODULES if each not in left_out] if name == "all" else [name]
    chosen = [reproduction(each) for each in names]
    if seeds is not None:
        whole("--seeds", seeds, low=1, high=1_000_000)
    count = whole("--workers", os.cpu_count() or 1 if workers is None else workers, low=1, high=10_000)
    if out is not None and (not out or (os.path.lexists(out) and not os.path.isdir(out))):
        raise ScenarioError(f"--out must name a folder, got {out!r}")
    _check_extras(out is not None)
    if desktops is not None:
        _check_desktops(names)
    _check_traces(traces, names)
    _check_needed(names, {REAL} if desktops is not None else set(PROBING if traces else ()))
    jobs = None if desktops else _log(log, procs_per_node, names)
    if out is not None:
        try:
            os.makedirs(out, exist_ok=True)  # what is wrong with it is reported before anything is run
        except OSError as error:
            raise ScenarioError(f"--out must name a folder that can be made, got {out!r}: {error}") from None

    from gridsim.reproduce.framework import Run
    from gridsim.reproduce.written import markdown, to_dict, write
    from gridsim.support.processes import executor_of

    answers = []
    with executor_of(count) as executor:
        for this in chosen:
            number = this.SEEDS[quick] if seeds is None else seeds
            shown = progress_of(progress, as_json)
            how = Run(range(1, number + 1), quick, executor, shown, jobs, desktops, hosts, traces)
            report = this.run(how)
            files = [] if out is None else write(this, report, how.ran, out)
            if as_json:
                answers.append({**to_dict(this, report, how.ran), "files": files})
                continue
            click.echo(markdown(this, report))
            for file in files:
                click.echo(f"saved {file}")
    if as_json:
        click.echo(to_json({"reproductions": answers, "left_out": left_out}))
        return
    for each, why in left_out.items():
        click.echo(f"left out: {each}, which {why}; and logs and traces in place of what is drawn")


def _log(path: str | None, procs_per_node: int | None, names: list[str]) -> Log | None:
    """The log that is asked for, if it is for all of these experiments and can be read."""
    from gridsim.reproduce.framework import Log
    from gridsim.support.arguments import whole
    from gridsim.traces.info import detect_format, load_jobs
    from gridsim.traces.tr import load_tr

    if path is None:
        if procs_per_node is not None:
            raise ScenarioError("--procs-per-node is of a log: it needs --log FILE")
        return None
    for name in names:
        if name not in (*RIGID, BAGS):
            raise ScenarioError(
                f"--log is for {', '.join(RIGID)}, {BAGS}, and with --availability and --speeds for "
                f"{', '.join(DESKTOP)}; {name} runs bags of tasks"
            )
    log = Log(path, 1 if procs_per_node is None else whole("--procs-per-node", procs_per_node, low=1))
    # what is wrong with it is reported before anything is run
    if names == [BAGS] and detect_format(path) == "tr":
        load_tr(path)
    else:
        load_jobs(path)
    return log


def _desktops(availability: str | None, speeds: str | None, log: str | None) -> Desktops | None:
    """The real desktops that are asked for, if all that it takes is there and can be read."""
    from gridsim.reproduce.framework import Desktops
    from gridsim.traces import read_availability, read_host_speeds
    from gridsim.traces.info import load_jobs

    if availability is None and speeds is None:
        return None
    if availability is None or speeds is None or log is None:
        raise ScenarioError("real desktops need --availability FILE, --speeds FILE and --log FILE")
    read_availability(availability)  # what is wrong with them is reported before anything is run
    read_host_speeds(speeds)
    load_jobs(log)
    return Desktops(availability, speeds, log)


def _hosts(name: str, availability: str | None, speeds: str | None, log: str | None) -> str | None:
    """The trace of hosts that is asked for, if it comes alone and says what is night there."""
    from gridsim.reproduce.others.waves import hours_of

    if speeds is not None or log is not None:
        raise ScenarioError(f"{name} takes --availability FILE alone, no --speeds or --log")
    if availability is not None:
        hours_of(availability)  # what is wrong with it is reported before anything is run
    return availability


def _check_desktops(names: list[str]) -> None:
    """Real desktops are for experiments of desktops."""
    for name in names:
        if name not in DESKTOP:
            raise ScenarioError(f"--availability and --speeds are for {', '.join(DESKTOP)}, not {name}")


def _check_traces(traces: tuple[str, ...], names: list[str]) -> None:
    """Logs with the duration of every task are for experiments of these, and known."""
    from gridsim.reproduce.others.probes import log_of

    for path in traces:
        for name in names:
            if name not in PROBING:
                raise ScenarioError(f"--trace is for {', '.join(PROBING)}, not {name}")
        log_of(path)  # what is wrong with it is reported before anything is run
    if len(set(map(log_of, traces))) < len(traces):
        raise ScenarioError(f"--trace must name different logs, got {', '.join(traces)}")


def _check_needed(names: list[str], given: set[str]) -> None:
    """What experiments cannot do without is there; `given` are those for which it is."""
    for name in names:
        if name in NEEDS and name not in given:
            raise ScenarioError(f"{name} {NEEDS[name]}")


def _list(as_json: bool) -> None:
    from gridsim.support.text import to_json

    entries: list[dict[str, Any]] = [
        {"name": this.NAME, "title": this.TITLE, "claims": list(this.CLAIMS), "seeds": this.SEEDS[0]}
        for this in map(reproduction, MODULES)
    ]
    if as_json:
        click.echo(to_json({"reproductions": entries}))
        return
    for entry in entries:
        click.echo(f"{entry['name']}: {entry['title']} ({entry['seeds']} seeds)")
        for claim in entry["claims"]:
            click.echo(f"  - {claim}")


def _check_extras(figures: bool) -> None:
    """That what is needed in the end is there, before anything is run."""
    need("scipy.stats", "stats", "reproduce")
    if figures:
        need("matplotlib", "plot", "reproduce --out")
