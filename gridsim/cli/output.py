"""Output of commands, shared by several of them: terminal, files, and the summary of a result."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from gridsim.errors import ScenarioError, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gridsim.results.metrics.registry import BoundKind
    from gridsim.results.result import Result
    from gridsim.support.progress import Progress

#: Pairs of a flag, or another label for error messages, and the file that it names.
LabelledFiles = Iterable[tuple[str, str | None]]


def print_text(text: str) -> None:
    """Write a string to standard output, with control characters escaped."""
    click.echo(printable(text))


def single_line(message: str) -> str:
    """Return a message as one line; control characters are escaped."""
    return printable(" ".join(message.split()))


def terminal_width() -> int:
    """Return the width of lines in characters.

    It is that of COLUMNS in the environment, else that of the terminal, and 100 if standard output is none.
    """
    from gridsim.support.text import WIDTH

    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return WIDTH
    from shutil import get_terminal_size

    return max(40, get_terminal_size((WIDTH, 24)).columns)


def check_output(flag: str, path: str) -> None:
    """Check that a file can be written to `path`, without writing it.

    Raises
    ------
    ScenarioError
        If `path` is empty, or exists and is not a regular file.
    OSError
        If its folder does not exist or is not writable.
    """
    if not path:
        raise ScenarioError(f"{flag} must name a file, got ''")
    target = os.path.realpath(path)
    folder = os.path.dirname(path) or "."
    for parent in (folder, os.path.dirname(target)):  # a link may point into another folder
        if not os.path.isdir(parent):
            raise FileNotFoundError(errno.ENOENT, "no such folder", parent)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ScenarioError(f"{flag} must be a regular file, got {path}")
    if not os.access(os.path.dirname(target), os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def check_distinct(inputs: LabelledFiles, outputs: LabelledFiles) -> None:
    """Check that no output file is also an input file or another output file.

    Parameters
    ----------
    inputs, outputs
        Pairs of a flag and the file that it names.

    Raises
    ------
    ScenarioError
        If two flags, at least one of them of an output, name the same file.
    """
    flags = {os.path.realpath(path): flag for flag, path in reversed([*inputs]) if path is not None}
    for flag, path in outputs:
        if path is None:
            continue
        target = os.path.realpath(path)
        if target in flags:
            raise ScenarioError(f"{flags[target]} and {flag} must name different files, got {path} for both")
        flags[target] = flag


def check_table(out: str | None) -> None:
    """Check, before a run, that a table can be written to the file of ``--out``, if it is given."""
    if out is not None:
        check_output("--out", out)
        if not out.endswith((".parquet", ".csv")):
            raise ScenarioError(f"--out must end in .parquet or .csv, got {out!r}")


def save_table(table: Any, out: str) -> None:
    """Write a table of pyarrow to a file, .parquet or .csv."""
    from gridsim.support.files import atomic_file
    from gridsim.support.imports import import_extra

    with atomic_file(out) as stream:
        if out.endswith(".csv"):
            import_extra("pyarrow.csv", "data", "--out").write_csv(table, stream)
        else:
            import_extra("pyarrow.parquet", "data", "--out").write_table(table, stream)


def save_animation(path: str, result: Result) -> tuple[str, ...]:
    """Write the animation of a recorded result; return notes on what it does not show."""
    from gridsim.plots import animate

    animation = animate(result)
    animation.save(path)
    return animation.scene.notes


def print_notes(notes: Iterable[str], indent: int = 0) -> None:
    """Print each note as a paragraph, indented by `indent` characters."""
    from gridsim.support.text import wrap_text

    for note in notes:
        print_text("\n".join(wrap_text(" " * indent + note, terminal_width(), indent)))


def print_lines(lines: Iterable[str]) -> None:
    """Print each line, wrapped to the terminal; what follows its first part is indented."""
    from gridsim.support.text import wrap_text

    for line in lines:
        print_text("\n".join(wrap_text(line, terminal_width(), 2)))


def scenario_files(files: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the files that a scenario reads, each with a label for error messages."""
    return [("the scenario", file) for file in files]


def file_name(name: str) -> str:
    """Return the file name of the result `name` in a folder."""
    return re.sub(r"[^\w.-]", "_", name) + ".npz"


def output_file(out: str | None, name: str) -> str | None:
    """Return the output file for ``--out``: the path itself, or a file in it if it is a folder."""
    return os.path.join(out, file_name(name)) if out is not None and os.path.isdir(out) else out


def progress_of(flag: bool | None, as_json: bool) -> Progress:
    """Return the argument `progress` of `simulate`; without the flag, progress is shown unless ``--json``."""
    if flag is None:
        return not as_json
    return "force" if flag else False


@contextmanager
def print_plan(as_json: bool) -> Iterator[dict[str, str]]:
    """Print lines on platform, workload and load before the runs in this context; none with ``--json``.

    Yields the lines, which are empty until they are printed.
    """
    from gridsim.support.announcement import receive_plan

    plan: dict[str, str] = {}

    def write(lines: dict[str, str]) -> None:
        from gridsim.studies.overview import facts_text

        if lines and not as_json:
            plan.update(lines)
            with suppress(OSError):  # it is raised again where the result is printed, after it is saved
                print_text(facts_text(lines, terminal_width()))

    with receive_plan(write):
        yield plan


def show_result(
    result: Result,
    name: str,
    *,
    out: str | None,
    bound: BoundKind,
    as_json: bool,
    report: str | None = None,
    title: str | None = None,
    animation: str | None = None,
    has_bags: bool = False,
    verbose: bool = False,
    plan: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print a result without the lines of `plan`, with its bags if `has_bags`; write what has a file."""
    from gridsim.results.metrics.registry import UNITS
    from gridsim.support.text import to_json

    if out is not None:
        result.save(out)
    if report is not None:
        from gridsim.report import write_report
        from gridsim.studies.compare import Comparison

        comparison = Comparison(result.scenario, {name: result}, name, bound)
        write_report(comparison, report, title=title, files=None if out is None else {name: out})
    notes: tuple[str, ...] = ()
    if animation is not None:
        notes = save_animation(animation, result)
    if as_json:
        answer = {**result.summary(bound), "provenance": result.provenance, "units": UNITS}
        if "observed" in result.tables:
            answer["observed"] = {name: column.tolist() for name, column in result.observed.items()}
        if has_bags:
            answer["bags"] = {name: column.tolist() for name, (_, column) in _bags(result).items()}
        files = {"file": out, "report": report, "animation": animation, "animation_notes": notes}
        click.echo(to_json({"name": name, **answer, **files}))
        return
    print_text(result.format(name, bound, width=terminal_width(), verbose=verbose, plan=plan))
    if "observed" in result.tables:
        print_text(repr(result.observed))
    if has_bags:
        print_text(f"\n{_bags_text(result)}\n")
    if out is not None:
        click.echo(f"saved         {out}")
    if report is not None:
        click.echo(f"report        {report}")
    if animation is not None:
        click.echo(f"animation     {animation}")
        print_notes(notes, indent=14)


def _bags(result: Result) -> dict[str, tuple[str, NDArray[Any]]]:
    """Return what the stretch of each bag follows from: the name of a column -> its unit and its values.

    The stretch is the response time over the time that the bag takes if it has all machines for itself.
    """
    import numpy as np

    table = result.applications
    return {
        "bag": ("", np.arange(len(table))),
        "release": ("s", table["release"]),
        "tasks": ("", table["tasks"]),
        "work": ("Mflop", table["size"]),
        "start": ("s", table["first_start"]),
        "end": ("s", table["finish"]),
        "response": ("s", table["finish"] - table["release"]),
        "alone": ("s", table["size"] / result.aggregate_speed),
        "stretch": ("", table["stretch_agg"]),
    }


def _bags_text(result: Result) -> str:
    """Return `_bags` as lines of text."""
    from gridsim.support.text import align, number_text

    cells = [
        [
            name,
            unit,
            *(f"{value:,}" if column.dtype.kind == "i" else number_text(value, 5) for value in column),
        ]
        for name, (unit, column) in _bags(result).items()
    ]
    return "\n".join(align(cells))
