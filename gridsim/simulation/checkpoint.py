"""Checkpoints: files from which an unfinished run can be resumed.

A checkpoint is a zip file with ``checkpoint.json`` and one .npy member per array.  It holds what is needed to
set the run up again, and the state of all that has changed since then.  The file is replaced as a whole: a
process that is killed while it writes leaves the previous checkpoint in place.  (Checkpoints of tasks, which
the model has, are in `gridsim.schedulers.wqr`.)
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from gridsim.engine.engine import Engine
from gridsim.errors import CheckpointWarning, GridSimError, ScenarioError
from gridsim.results.archive import Reader, Writer
from gridsim.support.files import atomic_file, open_regular
from gridsim.support.provenance import code_version
from gridsim.support.state import Array, SavedState, pack, unpack

#: Version of the file format.
FORMAT = 2
_ABOUT = "checkpoint.json"


class SchedulerHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler of a run as plain values; see `gridsim.scheduling.description.describe`."""

    name: str
    cls: str = msgspec.field(name="class")
    parameters: dict[str, Any]


class CheckpointHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpoint holds besides the state: all that is needed to set up the run again.

    Parameters
    ----------
    scenario, arrays
        The scenario, see `gridsim.model.scenario.ArchivedScenario`.
    files
        SHA-256 of each trace file.
    options
        Fields of `gridsim.simulation.simulate.Options`.
    every
        S between checkpoints.
    worked
        s of work so far.
    resumed
        How often the run has been resumed.
    """

    scenario: str
    arrays: dict[str, Any] = {}
    files: dict[str, str]
    scheduler: SchedulerHeader
    options: dict[str, Any]
    every: float
    worked: float
    resumed: int


class CheckpointWriter:
    """Saves a run to a file at intervals; a hook of the engine (`Engine.at_wave_end`).

    If the file cannot be written, memory does not suffice, or the file holds another run by now, it issues a
    `CheckpointWarning` and tries again after `every` s.

    Parameters
    ----------
    every
        The least number of s between the end of one writing and the beginning of the next.
    about
        Returns what is written besides the state.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float,
        what: Any,
        engine: Engine,
        about: Callable[[], CheckpointHeader],
        kept: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        #: Identity of the file that may be replaced, whether that holds this run, and identity of the file
        #: that is about to replace it.
        self._known, self._has = _identity(self.path), kept
        self._next: _Identity | None = None
        self._every, self._what, self._engine, self._about = every, what, engine, about
        self._due = time.monotonic() + every

    @property
    def kept(self) -> bool:
        """Whether the file holds this run: it was written, and has not been replaced by another file."""
        there = _identity(self.path)  # an interrupt may come just after the next file took its place
        return there is not None and there in (self._known if self._has else None, self._next)

    def __call__(self) -> None:
        if time.monotonic() < self._due or self._engine.stopping:
            return
        try:
            why = self._keep()
        except (OSError, MemoryError) as error:
            why = error.strerror if isinstance(error, OSError) else "not enough memory"
        if why is not None:
            said = f"{self.path}: no checkpoint could be written ({why}); the run goes on"
            warnings.warn(said, CheckpointWarning, stacklevel=2)
        self._due = time.monotonic() + self._every

    def _keep(self) -> str | None:
        """Write the file and return None, or return why not: it may have come to hold another run."""
        about, there = self._about(), _identity(self.path)
        if there != self._known and (other := _other_run(self.path, about)) is not None:
            return f"it holds {other}"

        def ready(identity: _Identity | None) -> None:
            if _identity(self.path) != there:  # replaced during the writing; the next attempt will read it
                raise FileExistsError(errno.EEXIST, "another file has come there", self.path)
            self._next = identity

        save(self.path, self._what, about, new=there is None, ready=ready)
        self._known, self._has = self._next, True
        return None


#: What distinguishes a file from one that replaces it: device, inode, time of change (ns), size (bytes).
_Identity = tuple[int, int, int, int]


def _identity(file: str | int) -> _Identity | None:
    try:
        of = os.stat(file)
    except OSError:  # there is no file, or it cannot be accessed
        return None
    return of.st_dev, of.st_ino, of.st_mtime_ns, of.st_size


def save(
    path: str | os.PathLike[str],
    what: Any,
    about: CheckpointHeader,
    *,
    new: bool = False,
    ready: Callable[[_Identity | None], None] = lambda identity: None,
) -> None:
    """Write the state of `what` and `about` to one file, whole or not at all.

    Arrays are written one by one and uncompressed.

    Parameters
    ----------
    new
        Whether there must be no file at `path` yet; see `gridsim.support.files.atomic_file`.
    ready
        Called with the identity of the new file before that is put in place.
    """
    arrays = 0
    with atomic_file(path, new=new) as stream:
        with Writer(stream, compress=False) as archive:

            def put_aside(array: Array) -> int:
                nonlocal arrays
                archive.array(_member(arrays), array)
                arrays += 1
                return arrays - 1

            state = pack(what, put_aside)
            archive.arrays(about.arrays)
            record = msgspec.to_builtins(about, builtin_types=(np.ndarray,))
            record["arrays"] = list(about.arrays)
            archive.json(_ABOUT, {**_made_by(), "about": record, "state": state})
        stream.flush()
        os.fsync(stream.fileno())  # before the identity is taken: on some disks this changes the file's time
        ready(_identity(stream.fileno()))


def _made_by() -> dict[str, Any]:
    return {"format": FORMAT, "code": code_version(), "byteorder": sys.byteorder}


class Checkpoint:
    """A checkpoint file that is open for reading; a context manager that closes it.

    Raises GridSimError for a file that is no checkpoint, is damaged, or was made by other code, with another
    numpy, or on another kind of machine; OSError for one that cannot be read.

    Attributes
    ----------
    about
        What was written besides the state.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._stream = open_regular(path)
        try:
            self._archive = Reader(self._stream)
            content = self._archive.json(_ABOUT)
            for key, value in _made_by().items():
                if content[key] != value:
                    raise GridSimError(
                        f"{self.path}: a checkpoint of {key} {content[key]!r}, this is {value!r}: a run "
                        "goes on only with what it began with"
                    )
            record = content["about"]
            record["arrays"] = self._archive.arrays(record.get("arrays", ()))
            self.about = msgspec.convert(record, CheckpointHeader)
            self._state = content["state"]
        except Exception as error:
            self._stream.close()
            raise damaged(self.path, error) from error

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.__exit__()
        self._stream.close()

    def restore(self, what: Any) -> None:
        """Set the state of `what`, which has been set up as at the beginning of the run."""
        try:
            kept = unpack(self._state, lambda number: self._archive.array(_member(number)))
            if not isinstance(kept, SavedState):
                raise ValueError("state must be one of a run")
            what.setstate(kept.state)
        except Exception as error:
            raise damaged(self.path, error) from error


def check_replaceable(path: str | os.PathLike[str], about: CheckpointHeader) -> None:
    """Raise ScenarioError if the file at `path` holds a resumable run that is not that of `about`."""
    if (other := _other_run(path, about)) is not None:
        raise ScenarioError(
            f"checkpoint {os.fspath(path)} holds {other}: name another file, or remove that one"
        )


def _other_run(path: str | os.PathLike[str], about: CheckpointHeader) -> str | None:
    """Describe the run that the file at `path` holds, if it can be resumed and is not that of `about`.

    Return None if there is no such run.
    """
    try:
        with Checkpoint(path) as kept:
            held = kept.about
    except (GridSimError, OSError):  # there is no file, or none from which a run can be resumed
        return None
    if _which(held) == _which(about):
        return None
    return f"another run, of {held.scheduler.name} after {held.worked:.3g} s of work"


def _which(about: CheckpointHeader) -> Any:
    """Return what identifies a run.

    The SHA-256 of trace files are left out: a run whose files have changed cannot be resumed anyway.
    """
    options = {key: value for key, value in about.options.items() if key not in ("threads", "cohort_limit")}
    told = about.scenario, msgspec.to_builtins(about.scheduler), options
    return json.loads(json.dumps(told))


def damaged(path: str, error: Exception) -> Exception:
    """Return the exception to raise for `error`, which came up while the checkpoint at `path` was in use.

    Any error that a damaged file causes in zip, npy, JSON, states or runs becomes one GridSimError.
    """
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    if isinstance(error, OSError) and error.filename == path:  # the file may be sound, but cannot be read
        return error
    return GridSimError(f"{path}: not a sound checkpoint ({type(error).__name__}: {error})")


def _member(number: int) -> str:
    return f"arrays/{number}.npy"
