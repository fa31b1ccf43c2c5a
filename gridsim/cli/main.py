"""The command-line interface `gridsim`: thin commands over the library.

Answers go to standard output; with ``--json`` they are one JSON value and nothing else.  Progress bars,
warnings and errors go to standard error.

Exit codes: 0 for success; 1 if `trace lint` found errors, runs of a study failed, `theory` found a value
outside its interval, or user code raised an error; 2 for invalid input or usage; 130 if interrupted (SIGINT),
143 if terminated (SIGTERM).
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import logging
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

import click

from gridsim.cli.commands.compare import compare
from gridsim.cli.commands.diary import diary
from gridsim.cli.commands.emulate import emulate_command
from gridsim.cli.commands.export import export
from gridsim.cli.commands.init import init
from gridsim.cli.commands.ladder import ladder_command
from gridsim.cli.commands.list import list_command
from gridsim.cli.commands.plot import plot
from gridsim.cli.commands.report import check_report, report
from gridsim.cli.commands.repro import repro
from gridsim.cli.commands.reproduce import reproduce
from gridsim.cli.commands.resume import resume_command
from gridsim.cli.commands.schema import schema
from gridsim.cli.commands.sweep import sweep
from gridsim.cli.commands.theory import theory
from gridsim.cli.commands.validate import validate
from gridsim.cli.commands.why import why
from gridsim.cli.output import output_file, print_text, progress_of, show_result
from gridsim.cli.quantities import INT, SECONDS
from gridsim.cli.result_args import parse_nodes
from gridsim.cli.scenario_flags import complete_schedulers, prepare, records, run_options
from gridsim.cli.signals import Termination, install_handlers, mark_ended, mark_running
from gridsim.cli.user_traceback import user_traceback
from gridsim.errors import (
    CheckpointWarning,
    GridSimError,
    ModelWarning,
    PluginWarning,
    ScenarioError,
    SchedulerWarning,
    TraceWarning,
    printable,
)
from gridsim.support.extras import MissingExtra
from gridsim.support.idle_threads import sleeping_thread_variables

#: Error numbers of failed writes; without a file name, the write was to standard output.
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
#: Message of the dynamic loader if there is not enough memory for a library, such as one of SciPy's.
_MAP_ERROR = "failed to map segment from shared object"


class _Group(click.Group):
    """A group whose commands report each input error as one line on standard error."""

    def invoke(self, ctx: click.Context) -> Any:
        shown_lines = set()

        def show_warning(message: Warning | str, *_: Any) -> None:
            line = _one_line(str(message))
            if line not in shown_lines:  # each scheduler reads the log, so its warnings are repeated
                shown_lines.add(line)
                _write_error(f"warning: {line}")

        with warnings.catch_warnings():
            for category in (
                TraceWarning,
                ModelWarning,
                SchedulerWarning,
                CheckpointWarning,
                PluginWarning,
            ):
                warnings.simplefilter("always", category)
            warnings.showwarning = show_warning  # type: ignore[assignment]
            try:
                try:
                    mark_running()
                    return super().invoke(ctx)
                finally:
                    mark_ended()
            except GridSimError as error:
                message = str(error) or type(error).__name__
            except click.UsageError as error:  # shown as one line, without the usage text
                if isinstance(error, click.exceptions.NoArgsIsHelpError):
                    click.echo(error.format_message())
                    ctx.exit(2)
                message = error.format_message()
            except MissingExtra as error:
                message = str(error)
            except MemoryError as error:
                message = _with_notes(f"not enough memory: {error}".removesuffix(": "), error)
            except ImportError as error:
                if _MAP_ERROR not in str(error):
                    raise
                message = f"not enough memory: {error}"
            except OSError as error:
                if error.errno == errno.EPIPE:  # the reader of the output has closed it; click exits silently
                    raise
                message = _system_message(error)
            except KeyboardInterrupt as error:
                word, code = ("terminated", 143) if isinstance(error, Termination) else ("interrupted", 130)
                _write_error(_with_notes(f"{word}: {error}".removesuffix(": "), error))
                ctx.exit(code)
            except (click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if ctx.params.get("verbosity") or not (traceback := user_traceback(error)):
                    raise
                with suppress(OSError):
                    click.echo(
                        printable(traceback) + "gridsim: gridsim -v shows the whole traceback", err=True
                    )
                ctx.exit(1)
            _write_error(message)
            ctx.exit(2)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the group, and report write errors of --help and --version."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _write_error(_system_message(error))
            sys.exit(2)


def _write_error(message: str) -> None:
    """Write one line to standard error; ignore a failed write, as the exit code reports the error as well."""
    with suppress(OSError):
        click.echo(f"gridsim: {_one_line(message)}", err=True)


def _open_standard_streams() -> None:
    """Replace standard streams that were closed before Python started.

    Messages to a closed standard error are lost; writing an answer to a closed standard output is an error.
    The file descriptors 0 to 2 are occupied, since a file that is opened later would otherwise get one of
    them and receive what is written to that stream.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)  # worker processes need standard streams as well
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _discard_output() -> None:
    """Discard buffered output that could not be written; the error has been reported already.

    Otherwise Python would write it again at exit, and fail with further messages and another exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), stream.fileno())


def _with_notes(message: str, error: BaseException) -> str:
    return "; ".join([message, *getattr(error, "__notes__", [])])


def _system_message(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    # an error without a file name concerns standard output, or a path relative to the current folder
    if error.errno == errno.ENOENT and _is_current_folder_gone():
        return "the current folder no longer exists"
    place = "standard output: " if error.errno in _WRITE_ERRORS else ""
    return place + (error.strerror or str(error))


def _is_current_folder_gone() -> bool:
    """Return whether the current folder was removed, so that relative paths cannot be resolved."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing:
        from gridsim.support.provenance import VERSION

        click.echo(f"gridsim {VERSION}")
        ctx.exit()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version."
)
@click.option("-v", "verbosity", count=True, help="Log the steps to standard error; -vv: in detail.")
@click.pass_context
def cli(ctx: click.Context, verbosity: int) -> None:
    """Simulate decentralized grid scheduling."""
    if verbosity:
        handler, logger = logging.StreamHandler(), logging.getLogger("gridsim")
        handler.setFormatter(logging.Formatter("gridsim: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
        ctx.call_on_close(lambda: logger.removeHandler(handler))


@cli.command()
@run_options
@click.option(
    "--scheduler",
    "name",
    default="fair-tree",
    show_default=True,
    metavar="NAME|module:Class",
    shell_complete=complete_schedulers,
    help="The scheduler to run: its registered name or its class.",
)
@click.option("--checkpoint", metavar="FILE", help="Save checkpoints to FILE, for gridsim resume.")
@click.option(
    "--checkpoint-every",
    type=SECONDS,
    help="Save a checkpoint after each such period of computing time (to gridsim.checkpoint unless "
    "--checkpoint names a file).  [600]",
)
@click.option(
    "--node-form",
    type=click.Choice(["python", "interpreted", "compiled"]),
    help="How node programs are executed; results do not depend on it.",
)
@click.option(
    "--processes",
    type=INT,
    default=1,
    help="Number of processes that share the run (fair-tree only); results do not depend on it.  [1]",
)
@click.option(
    "--decisions-limit", type=INT, metavar="N", help="Maximum number of recorded decisions.  [1000000]"
)
@click.option(
    "--messages-limit", type=INT, metavar="N", help="Maximum number of recorded messages.  [1000000]"
)
@click.option(
    "--events",
    is_flag=True,
    help="Also save the handler calls of nodes, for gridsim diary.",
)
@click.option("--record-nodes", metavar="A,B,C", help="Nodes for --events.  [all]")
@click.option("--diary-limit", type=INT, metavar="N", help="Maximum number of recorded events.  [100000]")
@click.option(
    "--observe",
    "columns",
    multiple=True,
    metavar="[NAME=]ATTRIBUTE,...",
    help="Sample attributes of nodes, such as mean or view.work, into the table observed; repeatable.",
)
@click.option("--observe-every", type=SECONDS, help="Simulated time between samples, for --observe.")
@click.option("--observe-nodes", metavar="A,B,C", help="Nodes to sample.  [all]")
def run(name: str, checkpoint: str | None, checkpoint_every: float | None, **flags: Any) -> None:
    """Run one scheduler on a scenario; flags override the scenario file or, without a file, the defaults."""
    from gridsim.simulation.simulate import CHECKPOINT_EVERY, simulate

    out = output_file(flags["out"], name)
    if checkpoint_every is not None and checkpoint is None:
        checkpoint = "gridsim.checkpoint"
    check_report(flags["report"])
    scenario, schedulers, save_scenario = prepare([name], flags, [] if out is None else [out], checkpoint)
    result = simulate(
        scenario,
        schedulers[name],
        progress=progress_of(flags["progress"], flags["as_json"]),
        threads=flags["threads"],
        processes=flags["processes"],
        nodes=flags["node_form"],
        time_limit=flags["time_limit"],
        record=records(flags, out, flags["report"], checkpoint),
        **_limits(flags),
        **_watched_nodes(flags),
        checkpoint=checkpoint,
        checkpoint_every=CHECKPOINT_EVERY if checkpoint_every is None else checkpoint_every,
    )
    save_scenario()
    show_result(
        result,
        name,
        out=out,
        report=flags["report"],
        bound=flags["bound"],
        as_json=flags["as_json"],
        verbose=flags["verbose"],
    )


def _limits(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `simulate` that limit what is recorded: decisions, messages and events."""
    limits = {}
    for kind, name in (("decisions", "decisions"), ("messages", "messages"), ("events", "diary")):
        if (limit := flags[f"{name}_limit"]) is not None:
            if not flags[kind]:
                raise ScenarioError(f"--{name}-limit requires --{kind}")
            limits[f"{name}_limit"] = limit
    return limits


def _watched_nodes(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments `record_nodes` and `observe` of `simulate`."""
    arguments: dict[str, Any] = {}
    if flags["record_nodes"] is not None:
        if not flags["events"]:
            raise ScenarioError("--record-nodes requires --events")
        arguments["record_nodes"] = parse_nodes("--record-nodes", flags["record_nodes"])
    paths = [path.strip() for text in flags["columns"] for path in text.split(",")]
    for flag in ("observe_every", "observe_nodes"):
        if flags[flag] is not None and not paths:
            raise ScenarioError(f"--{flag.replace('_', '-')} requires --observe")
    if paths:
        if flags["observe_every"] is None:
            raise ScenarioError("--observe requires --observe-every")
        from gridsim.scheduling.nodes.observe import Observe

        nodes = flags["observe_nodes"]
        arguments["observe"] = Observe(
            every=flags["observe_every"],
            columns=paths,
            nodes=None if nodes is None else parse_nodes("--observe-nodes", nodes),
        )
    return arguments


cli.add_command(compare)
cli.add_command(diary)
cli.add_command(sweep)
cli.add_command(emulate_command, "emulate")
cli.add_command(export)
cli.add_command(init)
cli.add_command(ladder_command)
cli.add_command(list_command)
cli.add_command(plot)
cli.add_command(report)
cli.add_command(reproduce)
cli.add_command(repro)
cli.add_command(resume_command)
cli.add_command(schema)
cli.add_command(theory)
cli.add_command(validate)
cli.add_command(why)


@cli.group()
def trace() -> None:
    """Inspect trace files: job logs (swf, gwf, tr), availability (avt, fta), host speeds (hosts)."""


_format = click.option(
    "--format", "kind", help="Format: swf, gwf, tr, avt, fta or hosts.  [detected from the file]"
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@trace.command("info")
@click.argument("file")
@_format
@_json
def trace_info(file: str, kind: str | None, as_json: bool) -> None:
    """Show the size and other properties of a trace; the name of a property ends in its unit."""
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.info import info

    properties = info(text("FILE", file), format=kind)
    if as_json:
        click.echo(to_json(properties))
        return
    for key, value in properties.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {_one_line(str(entry))}" for name, entry in value.items()) or "-"
        if isinstance(value, list):
            value = "; ".join(value) or "-"
        print_text(f"{key:<18}  {value}")


@trace.command("lint")
@click.argument("file")
@_format
@_json
@click.pass_context
def trace_lint(ctx: click.Context, file: str, kind: str | None, as_json: bool) -> None:
    """Report suspicious values of a trace; exit code 1 if there are errors, 2 if it cannot be read."""
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.lint import lint

    findings = lint(text("FILE", file), format=kind)
    for finding in findings:
        if finding.code == "unreadable":
            line = f":{finding.first_line}" if finding.first_line else ""
            raise GridSimError(f"{file}{line}: {finding.message}")
    if as_json:
        fields = ("severity", "code", "message", "count", "first_line")
        entries = [{field: getattr(finding, field) for field in fields} for finding in findings]
        click.echo(to_json({"file": file, "findings": entries}))
    else:
        name = _one_line(file)
        for finding in findings:
            place = f"{name}:{finding.first_line}" if finding.first_line else name
            print_text(f"{place}: {finding.severity}: {finding.count}x {finding.message} [{finding.code}]")
        kinds = "1 kind of finding" if len(findings) == 1 else f"{len(findings)} kinds of findings"
        print_text(f"{name}: {kinds if findings else 'no findings'}")
    ctx.exit(int(any(finding.severity == "error" for finding in findings)))


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by JSON escapes, so that JSON stays valid."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def main() -> None:
    """Run the command line interface; the entry point of the package."""

    install_handlers()
    os.environ.update(sleeping_thread_variables())  # numpy is imported later
    _open_standard_streams()
    codecs.register_error("gridsim", _json_escapes)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="gridsim")
    try:
        cli(prog_name="gridsim")
    finally:
        _discard_output()


if __name__ == "__main__":
    main()
