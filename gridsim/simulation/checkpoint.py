"""Checkpoints: files from which an unfinished run can be resumed.

A checkpoint has a header, from which the run can be set up again, and the state of all objects that have
changed since then; `gridsim.simulation.checkpoint_file` has the format.  The file is replaced as a whole, so
a process that is killed while it writes leaves the previous checkpoint in place.  The checkpoints of tasks,
which are part of the model, are in `gridsim.schedulers.wqr`.
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
from gridsim.simulation.checkpoint_file import CheckpointFileReader, CheckpointFileWriter
from gridsim.support.files import atomic_file, open_regular
from gridsim.support.provenance import code_version
from gridsim.support.references import check_array
from gridsim.support.state import SavedState, pack, unpack

#: Version of the file format.
FORMAT = 3


class SchedulerHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler of a run as plain values, from `gridsim.scheduling.description.describe`."""

    name: str
    cls: str = msgspec.field(name="class")
    parameters: dict[str, Any]


class CheckpointHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The header of a checkpoint, from which the run can be set up again.

    Parameters
    ----------
    scenario, arrays
        The fields of a `gridsim.model.scenario.ArchivedScenario`.
    files
        SHA-256 of each trace file.
    scheduler
        The scheduler of the run.
    options
        The fields of `gridsim.simulation.options.Options`.
    every
        Wall-clock time between two checkpoints, s.
    worked
        Wall-clock time of the run so far, s.
    resumed
        The number of times that the run has been resumed.
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
    """A hook of the engine (`Engine.at_wave_end`) that saves a run to a file at intervals.

    If the file cannot be written, memory runs out, or another run has replaced the file, the hook issues a
    `CheckpointWarning` and tries again after the interval.

    Parameters
    ----------
    path
        The file.
    interval
        The minimum time between the end of one save and the beginning of the next, s.
    simulation
        The run, an object with ``getstate``.
    engine
        The engine of the run.
    make_header
        Function that returns the header of the checkpoint.
    has_run
        Whether the file contains an earlier checkpoint of this run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        interval: float,
        simulation: Any,
        engine: Engine,
        make_header: Callable[[], CheckpointHeader],
        has_run: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        #: Identity of the file that may be overwritten, and whether that file contains this run.
        self._known, self._has_run = _identity(self.path), has_run
        #: Identity of the file that is about to replace it.
        self._next: _Identity | None = None
        self._interval, self._engine = interval, engine
        self._simulation, self._make_header = simulation, make_header
        self._due = time.monotonic() + interval

    @property
    def has_run(self) -> bool:
        """True if the file contains this run: it was saved, and no other file has replaced it."""
        identity = _identity(self.path)  # an interrupt may occur just after the next file has replaced it
        return identity is not None and identity in (self._known if self._has_run else None, self._next)

    def __call__(self) -> None:
        if time.monotonic() < self._due or self._engine.stopping:
            return
        try:
            reason = self._save()
        except (OSError, MemoryError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not enough memory"
        if reason is not None:
            message = f"{self.path}: no checkpoint could be written ({reason}); the run continues"
            warnings.warn(message, CheckpointWarning, stacklevel=2)
        self._due = time.monotonic() + self._interval

    def _save(self) -> str | None:
        """Write the file and return None; if another run has replaced it, return a text about that."""
        header, identity_now = self._make_header(), _identity(self.path)
        if identity_now != self._known and (other_run := _other_run(self.path, header)) is not None:
            return f"the file has {other_run}"

        def check_unchanged(identity: _Identity | None) -> None:
            if _identity(self.path) != identity_now:  # the next attempt will read the new file
                raise FileExistsError(errno.EEXIST, "another process has replaced the file", self.path)
            self._next = identity

        save(self.path, self._simulation, header, new=identity_now is None, before_replace=check_unchanged)
        self._known, self._has_run = self._next, True
        return None


#: Identity of a file: device, inode, time of change (ns), size.  A file that replaces it has another
#: identity.
_Identity = tuple[int, int, int, int]


def _identity(file: str | int) -> _Identity | None:
    try:
        status = os.stat(file)
    except OSError:  # there is no file, or it cannot be accessed
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def save(
    path: str | os.PathLike[str],
    simulation: Any,
    header: CheckpointHeader,
    *,
    new: bool = False,
    before_replace: Callable[[_Identity | None], None] = lambda identity: None,
) -> None:
    """Write the state of `simulation` and `header` to one file, completely or not at all.

    Parameters
    ----------
    new
        Whether an existing file at `path` is an error.
    before_replace
        A function that is called with the identity of the new file before it replaces the old one.
    """
    with atomic_file(path, new=new) as stream:
        writer = CheckpointFileWriter(stream)
        state = pack(simulation, writer.array)
        record = msgspec.to_builtins(header, builtin_types=(np.ndarray,))
        record["arrays"] = {name: writer.array(array) for name, array in header.arrays.items()}
        writer.close({**_provenance(), "about": record, "state": state})
        stream.flush()
        # On some file systems, this changes the time of the file, which is part of its identity.
        os.fsync(stream.fileno())
        before_replace(_identity(stream.fileno()))


def _provenance() -> dict[str, Any]:
    return {"format": FORMAT, "code": code_version(), "byteorder": sys.byteorder}


class Checkpoint:
    """A checkpoint file that is open for reading; as a context manager it closes the file.

    Attributes
    ----------
    header
        The header, from which the run can be set up again.

    Raises
    ------
    GridSimError
        If the file is not a checkpoint, is damaged, or was written by another version of gridsim or NumPy, or
        on a machine with another byte order.
    OSError
        If the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._stream = open_regular(path)
        try:
            self._reader = CheckpointFileReader(self._stream)
            content = self._reader.document
            for key, value in _provenance().items():
                if type(content[key]) is not type(value) or content[key] != value:  # 3.0 is 3, too
                    raise GridSimError(
                        f"{self.path}: {key} of a checkpoint must be {value!r}, got {content[key]!r}: a run "
                        "can only be resumed by the version that began it"
                    )
            record = content["about"]
            arrays = dict(record.get("arrays", {}))
            record["arrays"] = {
                name: check_array(name, self._reader.array(position)) for name, position in arrays.items()
            }
            self.header = msgspec.convert(record, CheckpointHeader)
            self._state = content["state"]
        except Exception as error:
            self._stream.close()
            raise damage_error(self.path, error) from error

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def restore(self, simulation: Any) -> None:
        """Restore the saved state in `simulation`, which must be set up as at the beginning of the run."""
        try:
            content = unpack(self._state, self._reader.array)
            if not isinstance(content, SavedState):
                raise ValueError(f"state must be the saved state of a run, got {type(content).__name__}")
            simulation.setstate(content.state)
        except Exception as error:
            raise damage_error(self.path, error) from error


def check_replaceable(path: str | os.PathLike[str], header: CheckpointHeader) -> None:
    """Raise ScenarioError if the file at `path` has a resumable run other than that of `header`."""
    if (run := _other_run(path, header)) is not None:
        raise ScenarioError(
            f"checkpoint must not be {os.fspath(path)}, which has {run}: name another file, or remove it"
        )


def _other_run(path: str | os.PathLike[str], header: CheckpointHeader) -> str | None:
    """Describe the resumable run in the file at `path`; None if there is none or it has the same `header`."""
    try:
        with Checkpoint(path) as checkpoint:
            file_header = checkpoint.header
    except (GridSimError, OSError):  # without a valid file there is no run to protect
        return None
    if _run_key(file_header) == _run_key(header):
        return None
    return f"another run, of {file_header.scheduler.name} after {file_header.worked:.3g} s of work"


def _run_key(header: CheckpointHeader) -> Any:
    """Return the identity of a run: its scenario, scheduler and options.

    Digests of trace files are not part of it, because a run whose files have changed cannot be resumed.
    """
    options = {key: value for key, value in header.options.items() if key not in ("threads", "cohort_limit")}
    key = header.scenario, msgspec.to_builtins(header.scheduler), options
    return json.loads(json.dumps(key))


def damage_error(path: str, error: Exception) -> Exception:
    """Return the exception to raise for `error`, which occurred while the checkpoint at `path` was in use.

    A damaged file may cause any kind of exception, which becomes a GridSimError; a MemoryError, or an
    OSError about the file itself, is returned unchanged.
    """
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    if isinstance(error, OSError) and error.filename == path:  # a file that cannot be read may be valid
        return error
    return GridSimError(f"{path}: not a valid checkpoint ({type(error).__name__}: {error})")
