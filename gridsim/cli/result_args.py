"""Arguments of commands that name saved results: files, or folders of files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import click

from gridsim.cli.options import INT
from gridsim.errors import GridSimError, ScenarioError, name_files_in_errors, printable

#: Endings of the files in a folder that are read as results.
ENDINGS = (".npz", ".gridsim")


def named_files(paths: Sequence[str]) -> dict[str, str]:
    """Return name -> file of the results in `paths`; a folder stands for the results in it, sorted by name.

    The name of a result is the name of its file without the ending of results.  If names are equal, all are
    preceded by as many parent folders as make them unique.

    Raises
    ------
    ScenarioError
        If a folder has no results, or a file is named twice.
    """
    files = _files(paths)
    paths_of = {file: _without_ending(PurePath(file)).parts for file in files}
    lengths = range(1, max(map(len, paths_of.values())) + 1)
    is_unique = (len({path[-k:] for path in paths_of.values()}) == len(files) for k in lengths)
    length = next(itertools.compress(lengths, is_unique), None)
    names: dict[str, str] = {}
    for file, path in paths_of.items():
        name = printable(file if length is None else "/".join(path[-length:]))
        names[name if name not in names else ascii(file)] = file
    return names


def _without_ending(path: PurePath) -> PurePath:
    return path.with_suffix("") if path.suffix in ENDINGS else path


def import_code(names: Sequence[str]) -> None:
    """Import the code of ``--import``, so that the kinds of scenarios that it defines are known.

    Raises
    ------
    ScenarioError
        If a name is not module:NAME, or its import fails.
    """
    from gridsim.support.imports import import_named

    for name in names:
        import_named("code", name)


@contextmanager
def guard_display(files: Collection[str]) -> Iterator[None]:
    """Convert unexpected errors while results are displayed to a GridSimError that names `files`.

    A file with a correct digest may still have values that no run produces, which cause such errors.
    """
    try:
        with name_files_in_errors(files):
            yield
    except (click.ClickException, GridSimError, ImportError, MemoryError, OSError):
        raise
    except Exception as error:
        raise GridSimError(
            f"{', '.join(files)}: cannot be displayed ({type(error).__name__}: {error}); "
            "if `gridsim validate` finds no violation, this is a bug in gridsim"
        ) from error


def _files(paths: Sequence[str]) -> list[str]:
    """Return the files in `paths`; a folder stands for its files with the `ENDINGS`, sorted by name.

    Symbolic links in a folder to other files of the list are skipped.
    """
    files: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        results = sorted(name for name in os.listdir(path) if name.endswith(ENDINGS))
        if not results:
            raise ScenarioError(
                f"PATH must be a result or a folder with results ({' or '.join(ENDINGS)}), got {path}, "
                "a folder with none"
            )
        candidates = [os.path.join(path, name) for name in results]
        targets = {os.path.realpath(file) for file in candidates if not os.path.islink(file)}
        files += [
            file for file in candidates if not os.path.islink(file) or os.path.realpath(file) not in targets
        ]
    real_paths: set[str] = set()
    for file in files:
        if (real := os.path.realpath(file)) in real_paths:
            raise ScenarioError(f"PATH must name each file once, got {file} twice")
        real_paths.add(real)
    return files


def parse_machines(value: str) -> slice | list[int]:
    """Parse ``FIRST:END`` (END excluded, as in Python) or ``A,B,C`` into a slice or a list of machines."""
    try:
        if ":" in value:
            first, end = (
                INT.convert(part, None, None) if part.strip() else None for part in value.split(":")
            )
            return slice(first, end)
        return [INT.convert(part, None, None) for part in value.split(",")]
    except (ValueError, click.BadParameter):
        raise ScenarioError(f"--machines must be FIRST:END or numbers A,B,C, got {value!r}") from None


def parse_nodes(flag: str, value: str) -> list[int]:
    """Parse the numbers ``A,B,C`` of nodes, the value of `flag`."""
    try:
        return [INT.convert(part, None, None) for part in value.split(",")]
    except click.BadParameter:
        raise ScenarioError(f"{flag} must be numbers A,B,C, got {value!r}") from None
