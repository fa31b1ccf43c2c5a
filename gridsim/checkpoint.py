"""Checkpoints: a run that goes on, in a file.

A zip of ``checkpoint.json`` and one .npy member an array: what it takes to set the run up again, and the
state of all that has changed since it was.  The file is replaced as a whole, so that whoever is killed while
it is written leaves the one before.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from gridsim.archive import Reader, Writer
from gridsim.engine import Engine
from gridsim.errors import GridSimError
from gridsim.provenance import version
from gridsim.records import atomic_file
from gridsim.states import Array, Kept, packed, unpacked

#: Version of the file format.
FORMAT = 1
_ABOUT = "checkpoint.json"


class Keeper:
    """A hook of the engine (`Engine.at_wave_end`) that keeps what has a state in a file, every so often.

    every : s between the end of one writing and the beginning of the next, at least.
    about : what is written beside the state.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float,
        what: Any,
        engine: Engine,
        about: Callable[[], dict[str, Any]],
    ) -> None:
        self._path, self._every, self._what, self._engine, self._about = path, every, what, engine, about
        self._due = time.monotonic() + every

    def __call__(self) -> None:
        if time.monotonic() >= self._due and not self._engine.stopping:
            save(self._path, self._what, self._about())
            self._due = time.monotonic() + self._every


def save(path: str | os.PathLike[str], what: Any, about: dict[str, Any]) -> None:
    """Write the state of `what` to one file, whole or not at all; arrays go there one by one, as they are."""
    arrays = 0
    with (
        atomic_file(path, temporary=f"{os.fspath(path)}.part") as stream,
        Writer(stream, compress=False) as archive,
    ):

        def put_aside(array: Array) -> int:
            nonlocal arrays
            archive.array(_member(arrays), array)
            arrays += 1
            return arrays - 1

        state = packed(what, put_aside)
        made_by = {"format": FORMAT, "gridcore": version(), "byteorder": sys.byteorder}
        archive.json(_ABOUT, {**made_by, **about, "state": state})


class Checkpoint:
    """A checkpoint that is read; to be closed.

    about : what was written beside the state.

    Raises GridSimError for a file that is none, is damaged, or was made by another version or kind of
    machine; OSError for one that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        self._stream = open(path, "rb")  # noqa: SIM115
        try:
            self._archive = Reader(self._stream)
            self.about = self._archive.json(_ABOUT)
            made_by = {"format": FORMAT, "gridcore": version(), "byteorder": sys.byteorder}
            for key, value in made_by.items():
                if self.about[key] != value:
                    raise GridSimError(
                        f"{self._name}: a checkpoint of {key} {self.about[key]!r}, this is {value!r}: a run "
                        "goes on only with what it began with"
                    )
        except Exception as error:
            self._stream.close()
            raise self._damaged(error) from error

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.__exit__()
        self._stream.close()

    def restore(self, what: Any) -> None:
        """Put the state into `what`, which has been made as at the beginning of the run."""
        try:
            kept = unpacked(self.about["state"], lambda number: self._archive.array(_member(number)))
            if not isinstance(kept, Kept):
                raise ValueError("state must be one of a run")
            what.setstate(kept.state)
        except Exception as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> Exception:
        """What to raise; whatever a damaged file makes of zip, npy, JSON and states is one error."""
        if isinstance(error, (GridSimError, MemoryError)):
            return error
        return GridSimError(f"{self._name}: not a sound checkpoint ({type(error).__name__}: {error})")


def _member(number: int) -> str:
    return f"arrays/{number}.npy"
