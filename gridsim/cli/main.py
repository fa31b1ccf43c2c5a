"""The command `gridsim`: thin commands over the library.

Answers go to standard output; with ``--json`` they are one JSON value and nothing else.  Progress bars,
warnings and errors go to standard error.  Exit codes: 0 done; 1 `trace lint` found errors, runs of a study
failed, `theory` found a value outside of its interval, or code of the user raised an error; 2 wrong input or
usage; 130 interrupted (SIGINT), 143 terminated (SIGTERM).
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
from gridsim.cli.output import deliver, in_folder, progress_of, say
from gridsim.cli.quantities import INT, SECONDS
from gridsim.cli.scenario_flags import complete_schedulers, prepare, recorded, run_options
from gridsim.cli.signals import Terminated, begin, end, heed
from gridsim.cli.user_traceback import user_traceback
from gridsim.errors import (
    CheckpointWarning,
    GridSimError,
    ModelWarning,
    PluginWarning,
    ScenarioError,
    TraceWarning,
    printable,
)
from gridsim.support.extras import MissingExtra
from gridsim.support.idle_threads import sleeping_thread_variables

#: Error numbers which mean that output could not be written.
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
#: Message of the system about a library, such as one of SciPy, for which there is not enough memory.
_NOT_LOADED = "failed to map segment from shared object"


class _Group(click.Group):
    """A group whose commands report anything wrong with the input as one line on standard error."""

    def invoke(self, ctx: click.Context) -> Any:
        said = set()

        def show(message: Warning | str, *_: Any) -> None:
            line = _one_line(str(message))
            if line not in said:  # each scheduler reads the log again
                said.add(line)
                _tell(f"warning: {line}")

        with warnings.catch_warnings():
            for category in (TraceWarning, ModelWarning, CheckpointWarning, PluginWarning):
                warnings.simplefilter("always", category)
            warnings.showwarning = show  # type: ignore[assignment]
            try:
                try:
                    begin()
                    return super().invoke(ctx)
                finally:
                    end()
            except GridSimError as error:
                message = str(error) or type(error).__name__
            except click.UsageError as error:  # as one line, without the usage text
                if isinstance(error, click.exceptions.NoArgsIsHelpError):
                    click.echo(error.format_message())
                    ctx.exit(2)
                message = error.format_message()
            except MissingExtra as error:
                message = str(error)
            except MemoryError as error:
                message = _noted(f"not enough memory: {error}".removesuffix(": "), error)
            except ImportError as error:
                if _NOT_LOADED not in str(error):
                    raise
                message = f"not enough memory: {error}"
            except OSError as error:
                if error.errno == errno.EPIPE:  # the reader of our output is gone; click ends quietly
                    raise
                message = _of_system(error)
            except KeyboardInterrupt as error:
                word, code = ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
                _tell(_noted(f"{word}: {error}".removesuffix(": "), error))
                ctx.exit(code)
            except (click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if ctx.params.get("verbosity") or not (own := user_traceback(error)):
                    raise
                with suppress(OSError):
                    click.echo(printable(own) + "gridsim: gridsim -v shows the whole traceback", err=True)
                ctx.exit(1)
            _tell(message)
            ctx.exit(2)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the group, and report errors while the text of --help or --version is written."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _tell(_of_system(error))
            sys.exit(2)


def _tell(message: str) -> None:
    """Write one line to standard error; if that fails, as on a full disk, only the exit code tells."""
    with suppress(OSError):
        click.echo(f"gridsim: {_one_line(message)}", err=True)


def _open_closed() -> None:
    """Replace standard streams that were closed before Python started.

    Messages to them are lost, and an answer that goes nowhere is an error, as on a full disk.  Their file
    numbers are occupied.  Otherwise files that are opened later would get them, and the output to a stream.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)  # worker processes have standard streams, too
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _give_up_output() -> None:
    """Discard output that could not be written, as an error line has reported it.

    Otherwise Python would try to write it again at exit, and fail with more messages and another exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def _noted(message: str, error: BaseException) -> str:
    return "; ".join([message, *getattr(error, "__notes__", [])])


def _of_system(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    # errors about files have a name: without one, it is our output or a path relative to the current folder
    if error.errno == errno.ENOENT and _nowhere():
        return "the current folder is gone"
    where = "standard output: " if error.errno in _NOT_WRITTEN else ""
    return where + (error.strerror or str(error))


def _nowhere() -> bool:
    """Return whether the current folder was removed, so that no relative path can be made absolute."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from gridsim.support.provenance import VERSION

        click.echo(f"gridsim {VERSION}")
        ctx.exit()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version."
)
@click.option("-v", "verbosity", count=True, help="Say on standard error what is done; -vv: in detail.")
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
)
@click.option("--checkpoint", metavar="FILE", help="Keep the run there, for gridsim resume.")
@click.option(
    "--checkpoint-every",
    "every",
    type=SECONDS,
    help="Time of work between two checkpoints (file: gridsim.checkpoint unless said).  [600]",
)
@click.option(
    "--node-form",
    type=click.Choice(["interpreted", "compiled"]),
    help="How the nodes of a decentralized scheduler are run; changes no result.",
)
@click.option(
    "--processes",
    type=INT,
    default=1,
    help="How many share the run (only of fair-tree); changes no result.  [1]",
)
@click.option("--decisions-limit", type=INT, metavar="N", help="Decisions that are kept.  [1000000]")
@click.option("--messages-limit", type=INT, metavar="N", help="Messages that are kept.  [1000000]")
def run(name: str, checkpoint: str | None, every: float | None, **flags: Any) -> None:
    """Run one scheduler on a scenario; flags override the file, or the default without one."""
    from gridsim.simulation.simulate import CHECKPOINT_EVERY, simulate

    out = in_folder(flags["out"], name)
    if every is not None and checkpoint is None:
        checkpoint = "gridsim.checkpoint"
    check_report(flags["report"])
    scenario, schedulers, keep = prepare([name], flags, [] if out is None else [out], checkpoint)
    result = simulate(
        scenario,
        schedulers[name],
        progress=progress_of(flags["progress"], flags["as_json"]),
        threads=flags["threads"],
        processes=flags["processes"],
        nodes=flags["node_form"],
        time_limit=flags["time_limit"],
        record=recorded(flags, out, flags["report"], checkpoint),
        **_limits(flags),
        checkpoint=checkpoint,
        checkpoint_every=CHECKPOINT_EVERY if every is None else every,
    )
    keep()
    deliver(
        result,
        name,
        out=out,
        report=flags["report"],
        bound=flags["bound"],
        as_json=flags["as_json"],
        verbose=flags["verbose"],
    )


def _limits(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `simulate` that limit how many decisions and messages are kept."""
    limits = {}
    for what in ("decisions", "messages"):
        if (limit := flags[f"{what}_limit"]) is not None:
            if not flags[what]:
                raise ScenarioError(f"--{what}-limit needs --{what}")
            limits[f"{what}_limit"] = limit
    return limits


cli.add_command(compare)
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
    """Look at trace files: job logs (swf, gwf, tr), availability (avt, fta), host speeds (hosts)."""


_format = click.option("--format", "kind", help="swf, gwf, tr, avt, fta or hosts.  [told from the file]")
_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@trace.command("info")
@click.argument("file")
@_format
@_json
def trace_info(file: str, kind: str | None, as_json: bool) -> None:
    """Size and shape of a trace (units in the names)."""
    from gridsim.support.arguments import text
    from gridsim.support.text import to_json
    from gridsim.traces.info import info

    facts = info(text("FILE", file), format=kind)
    if as_json:
        click.echo(to_json(facts))
        return
    for key, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {_one_line(str(entry))}" for name, entry in value.items()) or "-"
        if isinstance(value, list):
            value = "; ".join(value) or "-"
        say(f"{key:<18}  {value}")


@trace.command("lint")
@click.argument("file")
@_format
@_json
@click.pass_context
def trace_lint(ctx: click.Context, file: str, kind: str | None, as_json: bool) -> None:
    """What is suspicious about a trace; exit code 1 if there are errors, 2 if it cannot be read."""
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
        for found in findings:
            place = f"{name}:{found.first_line}" if found.first_line else name
            say(f"{place}: {found.severity}: {found.count}x {found.message} [{found.code}]")
        kinds = "1 kind of finding" if len(findings) == 1 else f"{len(findings)} kinds of findings"
        say(f"{name}: {kinds if findings else 'nothing to say'}")
    ctx.exit(int(any(finding.severity == "error" for finding in findings)))


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by JSON escapes: JSON stays valid, and text readable."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def main() -> None:
    """Run the command; its entry point."""

    heed()
    os.environ.update(sleeping_thread_variables())  # numpy is imported later
    _open_closed()
    codecs.register_error("gridsim", _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="gridsim")
    try:
        cli(prog_name="gridsim")
    finally:
        _give_up_output()


if __name__ == "__main__":
    main()
