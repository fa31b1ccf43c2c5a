"""The results that commands are told of: files, or folders of them, and what each is called."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import click

from gridsim.errors import GridSimError, ScenarioError, naming, printable

#: What files of results in a folder end in.
ENDINGS = (".npz", ".gridsim")


def named_files(paths: Sequence[str]) -> dict[str, str]:
    """Name -> file of the results that `paths` name, of a folder those in it, in the order of names.

    A name is that of the file without its ending, and of equal ones with the folders that differ.  Raises
    ScenarioError for a folder without any, or for a file that is named twice.
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
    """Around what looks at results that were read: GridSimError, which names `files`, for whatever numbers
    that no run gives, and that no digest or check of a file finds, make of it."""
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
    """The files that `paths` name, of a folder those in it that end as results do, in the order of names.

    Links in a folder to others of its files are passed over.  Raises ScenarioError for a folder without any,
    or for a file that is named twice.
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
    """The machines that ``FIRST:END`` (without END, as in Python) or ``A,B,C`` names; else ScenarioError."""
    try:
        if ":" in value:
            first, end = (int(part) if part.strip() else None for part in value.split(":"))
            return slice(first, end)
        return [int(part) for part in value.split(",")]
    except ValueError:
        raise ScenarioError(f"--machines must be FIRST:END or numbers A,B,C, got {value!r}") from None
