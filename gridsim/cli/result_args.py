"""The results that are given to commands: files, or folders of files, and a name for each."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import click

from gridsim.cli.quantities import INT
from gridsim.errors import GridSimError, ScenarioError, naming, printable

#: Endings of the files in a folder that are taken for results.
ENDINGS = (".npz", ".gridsim")


def named_files(paths: Sequence[str]) -> dict[str, str]:
    """Return name -> file of the results in `paths`; a folder stands for those in it, sorted by name.

    The name of a result is that of its file without the ending.  If names are equal, the folders that differ
    go before them.  Raises ScenarioError for a folder without results, or for a file that is named twice.
    """
    files = _files(paths)
    parts = {file: PurePath(file).with_suffix("").parts for file in files}
    names: dict[str, str] = {}
    for file, mine in parts.items():
        others = [each for other, each in parts.items() if other != file and each[-1] == mine[-1]]
        told = (k for k in range(1, len(mine) + 1) if all(each[-k:] != mine[-k:] for each in others))
        count = next(told, None)
        name = printable(file if count is None else "/".join(mine[-count:]))
        names[name if name not in names else ascii(file)] = file
    return names


@contextmanager
def looked_at(files: Collection[str]) -> Iterator[None]:
    """Raise GridSimError, which names `files`, for unexpected errors while results that were read are shown.

    Such errors come from numbers that no run gives, and that no digest or check of a file detects.
    """
    try:
        with naming(files):
            yield
    except (click.ClickException, GridSimError, ImportError, MemoryError, OSError):
        raise
    except Exception as error:
        raise GridSimError(
            f"{', '.join(files)}: cannot be shown ({type(error).__name__}: {error}); if `gridsim validate` "
            "finds nothing wrong, that is a mistake of gridsim's"
        ) from error


def _files(paths: Sequence[str]) -> list[str]:
    """Return the files in `paths`; a folder stands for its files with the `ENDINGS`, sorted by name.

    Links in a folder to other files in it are skipped.  Raises ScenarioError for a folder without results, or
    for a file that is named twice.
    """
    files: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        inside = sorted(name for name in os.listdir(path) if name.endswith(ENDINGS))
        if not inside:
            raise ScenarioError(f"{path}: no result ({' or '.join(ENDINGS)}) in this folder")
        listed = [os.path.join(path, name) for name in inside]
        there = {os.path.realpath(file) for file in listed if not os.path.islink(file)}
        files += [file for file in listed if not (os.path.islink(file) and os.path.realpath(file) in there)]
    seen: set[str] = set()
    for file in files:
        if (real := os.path.realpath(file)) in seen:
            raise ScenarioError(f"PATH {file} is named twice")
        seen.add(real)
    return files


def machines_of(value: str) -> slice | list[int]:
    """Return the machines of ``FIRST:END`` (END excluded, as in Python) or ``A,B,C``; else ScenarioError."""
    try:
        if ":" in value:
            first, end = (
                INT.convert(part, None, None) if part.strip() else None for part in value.split(":")
            )
            return slice(first, end)
        return [INT.convert(part, None, None) for part in value.split(",")]
    except (ValueError, click.BadParameter):
        raise ScenarioError(f"--machines must be FIRST:END or numbers A,B,C, got {value!r}") from None
