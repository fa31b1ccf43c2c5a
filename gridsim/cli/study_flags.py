"""Flags of studies, shared by several commands: replications, execution, the store and figures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import FLOAT, INCHES, INT, SECONDS, Command, Flags, complete_metrics, workers_option
from gridsim.cli.output import check_output, print_lines, print_text, terminal_width
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.model.scenario import Scenario
    from gridsim.studies.execution.store import Store
    from gridsim.studies.study import Study


#: Default time limit for a Dask cluster to start, s.
_WAIT = 300.0


#: Option of commands that draw figures.
width_option = click.option(
    "--width",
    type=INCHES,
    help="Width of the figure in inches, or with a unit (in, cm, mm), such as 84mm for a column of a paper.",
)


#: Option of commands that compare schedulers: ending of the file -> format.
table_option = click.option(
    "--table",
    metavar="FILE",
    help="Save a table of means, intervals and ratios for a paper (.tex, LaTeX with booktabs; .md; .csv).",
)
_TABLE_FORMATS = {"tex": "to_latex", "md": "to_markdown", "csv": "to_csv"}


def execution_options(command: Command) -> Command:
    """Add the options for processes, the store and the figure to a command."""
    options = [
        workers_option,
        click.option(
            "--dask", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler has this address."
        ),
        click.option(
            "--scheduler-file",
            metavar="FILE",
            help="Run on the Dask cluster whose scheduler writes this file.",
        ),
        click.option(
            "--wait",
            type=SECONDS,
            help="Time limit for the scheduler file and the first worker of the Dask cluster.  [300 s]",
        ),
        click.option(
            "--store", "store_path", metavar="DIR", help="Keep run records in DIR, and reuse those in it."
        ),
        click.option("--keep-results", is_flag=True, help="Also keep whole results in the store."),
        click.option(
            "--adopt",
            type=INT,
            metavar="N",
            help="Adopt runs in the store of earlier versions of gridsim if N of them, executed again, have "
            "the same outcomes.",
        ),
        click.option("--retry", is_flag=True, help="Repeat the runs that failed according to the store."),
        click.option("--figure", metavar="FILE", help="Draw a figure (.png, .svg or .pdf)."),
        width_option,
        table_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


#: Option of commands whose figures can name the best scheduler.
headline_option = click.option(
    "--headline/--no-headline", default=True, help="Name the best scheduler above the figure.  [yes]"
)


def replication_options(command: Command) -> Command:
    """Add the options for replications to a command."""
    options = [
        click.option(
            "--replicates", type=INT, metavar="N", help="Number of replications: runs with other seeds."
        ),
        click.option(
            "--half-width",
            type=FLOAT,
            metavar="W",
            help="Add replications until the confidence intervals have this relative half-width.",
        ),
        click.option(
            "--at-most",
            type=INT,
            metavar="N",
            help="Maximum number of replications with --half-width.  [1000]",
        ),
        click.option(
            "--hold",
            metavar="A,B",
            help="Parts of the scenario that are the same in all replications, such as platform.",
        ),
        click.option(
            "--metrics",
            metavar="A,B",
            shell_complete=complete_metrics,
            help="Metrics to report.  [the usual ones of the schedulers]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def names_of(flag: str | None) -> list[str]:
    """Return the names in the comma-separated list of a flag."""
    return [] if flag is None else [name.strip() for name in flag.split(",") if name.strip()]


def check_figure(file: str | None, width: float | None = None) -> None:
    """Check, before a run, that a figure can be drawn with this width and written.

    Raises
    ------
    ScenarioError
        If the name of the file has no known ending, the file cannot be written, or there is a width without a
        figure or one that is too small.
    MissingExtra
        If matplotlib is not installed.
    """
    if width is not None:
        from gridsim.plots.style import MIN_WIDTH
        from gridsim.support.arguments import real

        if file is None:
            raise ScenarioError("--width requires --figure")
        real("--width", width, low=MIN_WIDTH, unit="in")
    if file is not None:
        from gridsim.plots import FORMATS
        from gridsim.support.imports import import_extra

        if _ending(file) not in FORMATS:
            known = ", ".join(f".{name}" for name in FORMATS)
            raise ScenarioError(f"--figure must end in one of {known}, got {file!r}")
        check_output("--figure", file)
        import_extra("matplotlib.figure", "plot", "--figure")


def check_means(file: str | None) -> None:
    """Check, before a run, that a table can be written to the file of ``--table``, if it is given."""
    if file is not None:
        if _ending(file) not in _TABLE_FORMATS:
            known = ", ".join(f".{name}" for name in _TABLE_FORMATS)
            raise ScenarioError(f"--table must end in one of {known}, got {file!r}")
        check_output("--table", file)


def save_means(file: str | None, study: Study) -> None:
    """Write the table of means of a study to the file of ``--table``, if it is given."""
    if file is not None:
        from gridsim.support.files import atomic_file

        with atomic_file(file) as stream:
            stream.write(getattr(study, _TABLE_FORMATS[_ending(file)])().encode())


def check_animation(file: str | None, flag: str) -> None:
    """Check, before a run, that an animation can be drawn and written.

    Raises
    ------
    ScenarioError
        If the name of the file has no known ending, or the file cannot be written.
    MissingExtra
        If matplotlib, which a GIF requires, is not installed.
    """
    if file is not None:
        from gridsim.plots.animation.player import check_ending
        from gridsim.support.imports import import_extra

        if check_ending(flag, file) == "gif":
            import_extra("matplotlib", "plot", flag)
        check_output(flag, file)


def check_report(file: str | None, flag: str = "--report", title: str | None = None) -> None:
    """Check, before a run, that a report can be written."""
    if title is not None and not title.strip():
        raise ScenarioError(f"--title must not be empty, got {title!r}")
    if file is None:
        if title is not None:
            raise ScenarioError(f"--title requires {flag}")
        return
    from gridsim.report.html import check_extra

    if not file.lower().endswith(".html"):
        raise ScenarioError(f"{flag} must end in .html, got {file!r}")
    check_output(flag, file)
    check_extra(flag)


def check_study(flags: Flags, feature: str) -> None:
    """Check, before the runs, that `feature` can compute intervals, and write the figure and the report."""
    from gridsim.support.imports import import_extra

    if not flags.get("headline", True) and flags["figure"] is None:
        raise ScenarioError("--no-headline requires --figure")
    import_extra("scipy.stats", "stats", feature)  # used only after the runs
    check_figure(flags["figure"], flags["width"])
    check_means(flags["table"])
    check_report(flags["report"], title=flags["title"])


def save_figure(file: str, figure: Any) -> None:
    """Write a figure to a file; if that fails, an existing file is unchanged."""
    from gridsim import plots
    from gridsim.support.files import atomic_file

    with atomic_file(file) as stream:
        plots.save(figure, stream, format=_ending(file))


def show_study(
    study: Study,
    flags: Flags,
    metrics: Sequence[str],
    *,
    scenario: Scenario,
    command: Sequence[Any],
    details: Mapping[str, Any],
    messages: Sequence[str] = (),
    plan: Mapping[str, str] = MappingProxyType({}),
    chart_metrics: Sequence[str] = (),
) -> None:
    """Write the report and the figure of a study, and print it.

    Parameters
    ----------
    metrics
        Names of what was measured.
    scenario, command
        What the report says on how to repeat the study.
    details
        What ``--json`` prints besides the values of the study.
    messages
        Lines below its text.
    plan
        Facts of the study that are left out, since they were printed before the runs.
    chart_metrics
        Names of what the figure shows; by default the first of `metrics`.
    """
    from gridsim.support.text import to_json

    figure, report, table = flags["figure"], flags["report"], flags["table"]
    save_means(table, study)
    if report is not None:
        from gridsim.report import write_report

        command_text = shlex.join(map(str, command))
        write_report(study, report, title=flags["title"], scenario=scenario, command=command_text)
    if figure is not None:
        save_figure(figure, study.figure(headline=flags.get("headline", True), width=flags["width"]))
    if flags["as_json"]:
        click.echo(
            to_json({**study.to_dict(), **details, "figure": figure, "report": report, "table": table})
        )
        return
    print_text(study.format(width=terminal_width(), plan=plan))
    print_lines(messages)
    if figure is not None:
        chart_metrics = chart_metrics or metrics[:1]
        click.echo(
            f"saved {figure}"
            + (f", which shows {chart_metrics[0]}" if len(chart_metrics) < len(metrics) else "")
        )
    for file in filter(None, [report, table]):
        click.echo(f"saved {file}")


def _ending(file: str) -> Any:
    return os.path.splitext(file)[1].lower().removeprefix(".")


@contextmanager
def execution_arguments(flags: Flags, default_store: str | None = None) -> Iterator[Flags]:
    """Yield the arguments executor, store and retry of `replicate`, according to `flags`."""
    from gridsim.support.arguments import real
    from gridsim.support.dask_cluster import scheduler_address, wait_for_worker
    from gridsim.support.processes import executor_of

    places = [name for name in ("workers", "dask", "scheduler_file") if flags[name] is not None]
    if len(places) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in places[:2])
        raise ScenarioError(f"{second} and {first} exclude each other")
    address, file, wait = flags["dask"], flags["scheduler_file"], _WAIT
    if flags["wait"] is not None:
        wait = real("--wait", flags["wait"], low=0.0, unit="s")
        if file is None:
            raise ScenarioError("--wait requires --scheduler-file")
    if file is not None:
        address = scheduler_address(file, wait)
    with executor_of(flags["workers"], address) as executor:
        if file is not None:
            wait_for_worker(executor, address, wait)
        yield {"executor": executor, "store": _store(flags, default_store), "retry": flags["retry"]}


def _store(flags: Flags, default: str | None) -> Store | None:
    path = default if flags["store_path"] is None else flags["store_path"]
    if path == "":
        raise ScenarioError("--store must name a folder, got ''")
    if path is None:
        for flag in ("keep_results", "retry", "adopt"):
            if flags[flag]:
                raise ScenarioError(f"--{flag.replace('_', '-')} requires --store")
        return None
    # a link at the default path may have come with files of unknown origin, and point to any folder
    if flags["store_path"] is None and os.path.islink(path):
        raise ScenarioError(f"--store is required, since the default store {path} is a symbolic link")
    from gridsim.studies.execution.store import Store

    return Store(path, keep_results=flags["keep_results"], adopt=flags["adopt"] or 0)
