"""The commands on saved results: `gridsim report`, `plot`, `export`, `validate`, `why` and `diary`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import (
    EXPORT_FORMAT,
    INT,
    SECONDS,
    NamingCommand,
    by_option,
    import_option,
    json_option,
    skip_days_option,
    title_option,
)
from gridsim.cli.output import (
    check_distinct,
    check_output,
    print_notes,
    print_text,
    save_animation,
)
from gridsim.cli.result_args import guard_display, import_code, named_files, parse_machines, parse_nodes
from gridsim.cli.study_flags import (
    check_animation,
    check_figure,
    check_report,
    names_of,
    save_figure,
    width_option,
)
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.validation.common import Violation


@click.command("report", cls=NamingCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, metavar="FILE", help="Output file (.html).")
@title_option
@by_option
@skip_days_option
@json_option
def report(
    paths: tuple[str, ...], out: str, title: str | None, by: str | None, skip_days: float, as_json: bool
) -> None:
    """Write a report on results (files, or folders of files): one HTML file that works offline.

    Several results are compared under the names of their files.  The baseline is the result named mincent,
    else the first of a centralized scheduler, else the first.
    """
    from gridsim.report import write_report
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    files = named_files(paths)
    check_report(out, "--out", title)
    check_distinct([(f"PATH {file}", file) for file in files.values()], [("--out", out)])
    results = {name: Result.load(file) for name, file in files.items()}
    with guard_display(files.values()):
        results = {name: result.without_first_days(skip_days) for name, result in results.items()}
        groups: Any = names_of(by)  # checked where they are used
        write_report(results, out, title=title, files=files, by=groups)
    if as_json:
        digests = {name: result.digest for name, result in results.items()}
        click.echo(to_json({"out": out, "files": files, "digests": digests}))
    else:
        click.echo(f"saved {out}: {', '.join(files)}")


#: Flag -> the kind of chart that supports it.
_KIND_OF_FLAG = {
    "metric": "distribution",
    "quantity": "series",
    "machines": "gantt",
    "unit": "traffic",
    "column": "tree",
    "nodes": "sequence",
    "start": "sequence",
    "end": "sequence",
}
_KINDS = ("animation", "gantt", "distribution", "series", "sequence", "traffic", "tree")


@click.command(cls=NamingCommand)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(_KINDS), required=True, help="Kind of chart.")
@click.option(
    "--figure",
    required=True,
    metavar="FILE",
    help="Output file (.png, .svg or .pdf; .html or .gif for an animation).",
)
@width_option
@click.option(
    "--metric", metavar="NAME", help="distribution: column of the table of applications.  [stretch_agg]"
)
@click.option(
    "--quantity",
    metavar="NAME",
    help="series: number of active or waiting applications, or of busy machines.  [active]",
)
@click.option("--machines", metavar="FIRST:END|A,B,C", help="gantt: machines to draw.  [all]")
@click.option("--unit", metavar="NAME", help="traffic: unit, bytes or messages.  [bytes]")
@click.option("--column", metavar="NAME", help="tree: column of the table of machines.  [utilization]")
@click.option("--nodes", metavar="A,B,C", help="sequence: nodes to draw.  [all recorded ones]")
@click.option("--start", type=SECONDS, help="sequence: start of the part to draw.  [0]")
@click.option("--end", type=SECONDS, help="sequence: end of the part to draw.  [the end of the run]")
@json_option
def plot(
    paths: tuple[str, ...], kind: str, figure: str, width: float | None, as_json: bool, **flags: Any
) -> None:
    """Draw a chart of saved results (files, or folders of files).

    Kinds: animation, the run in motion; gantt, a Gantt chart of the machines; distribution, of a metric of
    applications; series, a quantity over time; sequence, the messages and timers of nodes; traffic, messages
    sent by each level of the tree; tree, the tree itself.  Several results share one chart of the kinds
    distribution and series, and have a chart each of the other kinds; an animation shows one result.
    animation, gantt, and series of busy machines, require results with a schedule (run --record), and
    sequence requires diaries of nodes (run --events).
    """
    from gridsim.results.result import Result
    from gridsim.studies.figures import of_results
    from gridsim.support.text import to_json

    parsers: dict[str, Callable[[str], Any]] = {
        "machines": parse_machines,
        "nodes": partial(parse_nodes, "--nodes"),
    }
    options: dict[str, Any] = {}
    for flag, value in flags.items():
        if value is not None:
            if _KIND_OF_FLAG[flag] != kind:
                raise ScenarioError(f"--{flag} requires --kind {_KIND_OF_FLAG[flag]}, got --kind {kind}")
            options[flag] = parsers[flag](value) if flag in parsers else value
    files = named_files(paths)
    if kind == "animation":
        check_animation(figure, "--figure")
        if width is not None:
            raise ScenarioError("--kind animation does not support --width")
        if len(files) > 1:
            raise ScenarioError(f"--kind animation requires one result, got {len(files)}")
    else:
        check_figure(figure, width)
    check_distinct([("PATH", file) for file in files.values()], [("--figure", figure)])
    results = {name: Result.load(file) for name, file in files.items()}
    notes: tuple[str, ...] = ()
    with guard_display(files.values()):
        if kind == "animation":
            notes = save_animation(figure, next(iter(results.values())))
        else:
            save_figure(figure, of_results(kind, results, width=width, **options))
    if as_json:
        click.echo(to_json({"files": files, "kind": kind, "figure": figure, "notes": notes}))
    else:
        click.echo(f"saved {figure}")
        print_notes(notes)


@click.command("export")
@click.argument("file", metavar="RESULT")
@click.option(
    "--format",
    "kind",
    metavar="NAME",
    type=EXPORT_FORMAT,
    required=True,
    help="Format: batsim, evalys, swf, perfetto, or another one that gridsim list exports shows.",
)
@click.option("--machines", metavar="FIRST:END|A,B,C", help="Machines in a perfetto trace.  [all]")
@click.option("--out", required=True, metavar="FILE", help="Output file.")
@json_option
def export(file: str, kind: str, machines: str | None, out: str, as_json: bool) -> None:
    """Write the schedule of a result (run --record) in the format of another program."""
    from gridsim.results.formats.job_logs import unique_job_numbers
    from gridsim.results.formats.perfetto import to_perfetto
    from gridsim.results.formats.registry import BUILT_IN
    from gridsim.results.formats.registry import export as export_result
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    check_output("--out", out)
    check_distinct([("RESULT", file)], [("--out", out)])
    if machines is not None and kind != "perfetto":
        raise ScenarioError(f"--machines requires --format perfetto, got {kind}")
    selection = None if machines is None else parse_machines(machines)
    result = Result.load(file)
    with guard_display([file]):
        if kind == "perfetto":
            rows = to_perfetto(result, out, machines=selection)
        else:
            rows = export_result(result, out, kind)
    if as_json:
        click.echo(to_json({"file": file, "format": kind, "rows": rows, "out": out}))
    else:
        click.echo(f"saved {out}: {rows} {'events' if kind == 'perfetto' else 'rows'}")
        if kind != "perfetto" and kind in BUILT_IN:
            unit = "job" if result.rigid else "bag"
            offset = f"{unit} k is application k - 1 of gridsim why"
            click.echo(offset if unique_job_numbers(result) is None else "jobs have their numbers in the log")
        if kind == "perfetto" and (count := result.left_out.get("message_log")):
            length = len(result.tables["message_log"])
            click.echo(
                f"the log has the first {length} messages; {count} later ones were not recorded", err=True
            )


@click.command(cls=NamingCommand)
@click.argument("file", metavar="SCHEDULE")
@click.option("--nodes", type=INT, metavar="N", help="Number of machines, for a job log or a jobs table.")
@click.option("--job-log", metavar="FILE", help="Submitted jobs, a job log, for a job log or a jobs table.")
@import_option
@json_option
def validate(
    file: str, nodes: int | None, job_log: str | None, imports: tuple[str, ...], as_json: bool
) -> None:
    """Check a finished schedule: a result (run --record), Batsim's jobs table, or a job log, such as SWF.

    The exit code is 1 if an invariant is violated.
    """
    from dataclasses import asdict

    from gridsim.support.text import to_json

    import_code(imports)
    kind, violations = _check(file, nodes, job_log)
    if as_json:
        click.echo(
            to_json(
                {"file": file, "kind": kind, "violations": [asdict(violation) for violation in violations]}
            )
        )
    else:
        for violation in violations:
            click.echo(str(violation))
        plural = "" if len(violations) == 1 else "s"
        click.echo(f"{file}: {kind}, {len(violations) or 'no'} violation{plural}")
    if violations:
        sys.exit(1)


def _check(file: str, nodes: int | None, job_log: str | None) -> tuple[str, list[Violation]]:
    from gridsim.results.result import Result
    from gridsim.support.arguments import integer
    from gridsim.support.files import open_regular
    from gridsim.traces._text import text_lines
    from gridsim.validation.logs import validate_batsim, validate_swf
    from gridsim.validation.results import validate_result

    if nodes is not None:
        integer("--nodes", nodes, low=1, high=2**31 - 1)
    with open_regular(file) as stream:
        is_zip = stream.read(4) == b"PK\x03\x04"
    if is_zip:
        for option, value in (("--nodes", nodes), ("--job-log", job_log)):
            if value is not None:
                raise ScenarioError(f"a result does not support {option}, since it contains its scenario")
        result = Result.load(file, verify=False)
        schedule = "with its schedule" if "schedule" in result.tables else "without a schedule (run --record)"
        with guard_display([file]):
            return f"a result {schedule}", validate_result(result)
    first = next(iter(text_lines(file)), "")
    if "job_id" in first.split(","):
        return "a jobs table of Batsim", validate_batsim(file, machines=nodes, job_log=job_log)
    return "a job log", validate_swf(file, machines=nodes, job_log=job_log)


@click.command(cls=NamingCommand)
@click.argument("file", metavar="RESULT")
@click.argument("application", type=INT, metavar="[APPLICATION]", required=False)
@click.option("--job", type=INT, metavar="N", help="Number of a job in its log, instead of APPLICATION.")
@click.option("--task", type=INT, metavar="K", help="Only show decisions on task K, or on all tasks.")
@json_option
def why(file: str, application: int | None, job: int | None, task: int | None, as_json: bool) -> None:
    """Explain the decisions on an application or a job.

    Each decision is shown with the machine that decided (or the scheduler), the information used, its age,
    and the true values at that time.  RESULT must contain decisions (run --decisions).  Applications and
    tasks are numbered from 0, in order of release.
    """
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    if (application is None) == (job is None):
        raise ScenarioError(
            "why requires exactly one of APPLICATION and --job (a job's number in its log), "
            f"got {'neither' if job is None else 'both'}"
        )
    result = Result.load(file, verify=False)
    with guard_display([file]):
        try:
            if job is not None:
                application = result.row_of_job(job)
            assert application is not None
            explanation = result.why(application, task)
        except IndexError as error:
            raise ScenarioError(f"{file}: {error}") from error
        print_text(to_json({"file": file, **explanation.to_dict()}) if as_json else explanation.format())


@click.command(cls=NamingCommand)
@click.argument("file", metavar="RESULT")
@click.argument("node", type=INT)
@click.option("--start", type=SECONDS, default=0.0, help="Start of the part to show.  [0]")
@click.option("--end", type=SECONDS, default=math.inf, help="End of the part to show.  [the end of the run]")
@json_option
def diary(file: str, node: int, start: float, end: float, as_json: bool) -> None:
    """Show the arguments, messages, timers, tasks and changes of the handler calls of a node.

    RESULT must contain the diary of the node (run --events).
    """
    from gridsim.results.result import Result
    from gridsim.support.text import to_json

    result = Result.load(file, verify=False)
    with guard_display([file]):
        calls = result.diary(node, start, end)
        print_text(to_json({"file": file, **calls.to_dict()}) if as_json else calls.format())
