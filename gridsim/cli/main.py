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
import gc
import importlib
import io
import json
import logging
import os
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import click

import gridcore
import gridsim
from gridsim.cli.options import SentenceGroup
from gridsim.cli.output import single_line
from gridsim.cli.signals import Termination, install_handlers, mark_ended, mark_running
from gridsim.errors import (
    CheckpointWarning,
    ExecutorWarning,
    GridSimError,
    MetricWarning,
    ModelWarning,
    PluginWarning,
    SchedulerWarning,
    TraceWarning,
    printable,
)
from gridsim.support.imports import MissingExtra, sleeping_thread_variables

#: Error numbers of failed writes; without a file name, the write was to standard output.
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
#: Message of the dynamic loader if there is not enough memory for a library, such as one of SciPy's.
_MAP_ERROR = "failed to map segment from shared object"
#: A frame in a traceback as text, with the lines of its source.
_FRAME = re.compile(r'^  File "(.+?)", line .*\n(?:    .*\n|\n)*', re.MULTILINE)


#: Command -> the module of `gridsim.cli.commands` that has it, which is imported when the command is used.
_COMMANDS = {
    "compare": "compare",
    "diary": "results",
    "emulate": "run",
    "export": "results",
    "init": "init",
    "ladder": "ladder",
    "list": "list",
    "plot": "results",
    "report": "results",
    "repro": "repro",
    "reproduce": "reproduce",
    "resume": "run",
    "run": "run",
    "schema": "init",
    "store": "store",
    "sweep": "sweep",
    "theory": "reproduce",
    "trace": "trace",
    "validate": "results",
    "why": "results",
}


class _Group(SentenceGroup):
    """A group whose commands report each input error as one line on standard error."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"gridsim.cli.commands.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, "list_command" if cmd_name == "list" else cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them for `invoke`."""
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        shown_lines = set()

        def show_warning(message: Warning | str, *_: Any) -> None:
            line = single_line(str(message))
            if line not in shown_lines:  # each scheduler reads the log, so its warnings are repeated
                shown_lines.add(line)
                _write_error(f"warning: {line}")

        with warnings.catch_warnings():
            for category in (
                TraceWarning,
                ModelWarning,
                MetricWarning,
                SchedulerWarning,
                CheckpointWarning,
                ExecutorWarning,
                PluginWarning,
            ):
                warnings.simplefilter("always", category)
            warnings.showwarning = show_warning  # type: ignore[assignment]
            try:
                try:
                    mark_running()
                    _check_json_flag(ctx.meta["arguments"])
                    return super().invoke(ctx)
                finally:
                    mark_ended()
            except GridSimError as error:
                message = _with_notes(str(error) or type(error).__name__, error)
            except click.UsageError as error:  # shown as one line, without the usage text
                if isinstance(error, click.exceptions.NoArgsIsHelpError):
                    click.echo(error.format_message(), err=True)
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
                if ctx.params.get("verbosity") or not (traceback := _user_traceback(error)):
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


def _check_json_flag(arguments: Sequence[str]) -> None:
    """Raise click.UsageError if --json is followed by the name of a file to be written."""
    for flag, value in pairwise(arguments):
        if flag == "--json" and value.lower().endswith(".json") and not os.path.exists(value):
            raise click.UsageError(
                f"--json does not take a file, got {value}; to write the answer to a file: --json > {value}"
            )


def _write_error(message: str) -> None:
    """Write one line to standard error; ignore a failed write, as the exit code reports the error as well."""
    with suppress(OSError):
        click.echo(f"gridsim: {single_line(message)}", err=True)


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
    """Return a message with the notes of its error, without those of several lines, which are tracebacks."""
    notes = [note for note in getattr(error, "__notes__", []) if "\n" not in note]
    return "; ".join([message, *notes])


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


def _user_traceback(error: BaseException) -> str:
    """Return the traceback of `error` with the frames of user code only; empty if there are none.

    Frames of gridsim, Python and installed packages are omitted.  The text of the traceback is searched,
    since an error in another process has its traceback only as text.
    """
    user_frames = [
        match
        for match in _FRAME.finditer("".join(traceback.format_exception(error)))
        if _is_user_code(match[1])
    ]
    if not user_frames:
        return ""
    frames = "".join(match[0] for match in user_frames)
    last = "".join(traceback.format_exception_only(error))
    return f"Traceback (most recent call last), your own code only:\n{frames}{last}"


def _is_user_code(file: str) -> bool:
    """Return whether a file belongs neither to gridsim nor to Python or an installed package."""
    places = [*gridsim.__path__, *gridcore.__path__]
    places += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    path = os.path.realpath(file)
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
    return (
        os.path.isabs(file)
        and not installed
        and not any(path.startswith(os.path.realpath(place) + os.sep) for place in places)
    )


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
        gc.freeze()  # else the interpreter searches for cycles as it ends, a tenth of a short command


if __name__ == "__main__":
    main()
