"""Checkpoints: a run that goes on, in a file.

A zip of ``checkpoint.json`` and one .npy member an array: what it takes to set the run up again, and the
state of all that has changed since it was.  The file is replaced as a whole, so that whoever is killed while
it is written leaves the one before.
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

from gridsim.engine.engine import Engine
from gridsim.errors import CheckpointWarning, GridSimError, ScenarioError
from gridsim.results.archive import Reader, Writer
from gridsim.support.files import atomic_file, opened
from gridsim.support.provenance import code_version
from gridsim.support.state import Array, Kept, packed, unpacked

#: Version of the file format.
FORMAT = 2
_ABOUT = "checkpoint.json"


class SchedulerAbout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `gridsim.simulation.simulate.describe`."""

    name: str
    cls: str = msgspec.field(name="class")
    parameters: dict[str, Any]


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpoint holds beside the state: all that it takes to make the run again.

    scenario : TOML.  files : SHA-256 of each trace file.  options : of `gridsim.simulation.simulate.Options`.
    every : s between checkpoints.  worked : s so far.  resumed : how often it was taken up again.
    """

    scenario: str
    files: dict[str, str]
    scheduler: SchedulerAbout
    options: dict[str, Any]
    every: float
    worked: float
    resumed: int


class Keeper:
    """A hook of the engine (`Engine.at_wave_end`) that keeps what has a state in a file, every so often.

    every : s between the end of one writing and the beginning of the next, at least.
    about : what is written beside the state.

    A file that cannot be written, for which there is no memory, or that holds another run by now, is a
    `CheckpointWarning`; it is tried again after `every` s.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float,
        what: Any,
        engine: Engine,
        about: Callable[[], About],
        kept: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        #: The file that may be replaced, whether it has the run, and the one that takes its place.
        self._known, self._has = _identity(self.path), kept
        self._next: _Identity | None = None
        self._every, self._what, self._engine, self._about = every, what, engine, about
        self._due = time.monotonic() + every

    @property
    def kept(self) -> bool:
        """Whether the file has the run: it was written, and nobody has put another one in its place."""
        there = _identity(self.path)  # an interrupt may come as soon as it is the next one
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
        """Write the file, or say why not: another run may have begun to keep itself there."""
        about, there = self._about(), _identity(self.path)
        if there != self._known and (other := _other_run(self.path, about)) is not None:
            return f"it holds {other}"

        def ready(identity: _Identity | None) -> None:
            if _identity(self.path) != there:  # writing takes long; the next time will tell what has come
                raise FileExistsError(errno.EEXIST, "another file has come there", self.path)
            self._next = identity

        save(self.path, self._what, about, new=there is None, ready=ready)
        self._known, self._has = self._next, True
        return None


#: What tells a file from the one that takes its place.
_Identity = tuple[int, int, int, int]


def _identity(file: str | int) -> _Identity | None:
    try:
        of = os.stat(file)
    except OSError:  # there is none, or none that can be read
        return None
    return of.st_dev, of.st_ino, of.st_mtime_ns, of.st_size


def save(
    path: str | os.PathLike[str],
    what: Any,
    about: About,
    *,
    new: bool = False,
    ready: Callable[[_Identity | None], None] = lambda identity: None,
) -> None:
    """Write the state of `what` to one file, whole or not at all; arrays go there one by one, as they are.

    new : there must be no file yet, see `gridsim.support.files.atomic_file`.
    ready : is told which file it is, before it takes its place.
    """
    arrays = 0
    with atomic_file(path, new=new) as stream:
        with Writer(stream, compress=False) as archive:

            def put_aside(array: Array) -> int:
                nonlocal arrays
                archive.array(_member(arrays), array)
                arrays += 1
                return arrays - 1

            state = packed(what, put_aside)
            archive.json(_ABOUT, {**_made_by(), "about": msgspec.to_builtins(about), "state": state})
        stream.flush()
        os.fsync(stream.fileno())  # some disks give it another time then
        ready(_identity(stream.fileno()))


def _made_by() -> dict[str, Any]:
    return {"format": FORMAT, "code": code_version(), "byteorder": sys.byteorder}


class Checkpoint:
    """A checkpoint that is read; to be closed.

    about : what was written beside the state.

    Raises GridSimError for a file that is none, is damaged, or was made by other code, another numpy, or
    another kind of machine; OSError for one that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._stream = opened(path)
        try:
            self._archive = Reader(self._stream)
            content = self._archive.json(_ABOUT)
            for key, value in _made_by().items():
                if content[key] != value:
                    raise GridSimError(
                        f"{self.path}: a checkpoint of {key} {content[key]!r}, this is {value!r}: a run "
                        "goes on only with what it began with"
                    )
            self.about = msgspec.convert(content["about"], About)
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
        """Put the state into `what`, which has been made as at the beginning of the run."""
        try:
            kept = unpacked(self._state, lambda number: self._archive.array(_member(number)))
            if not isinstance(kept, Kept):
                raise ValueError("state must be one of a run")
            what.setstate(kept.state)
        except Exception as error:
            raise damaged(self.path, error) from error


def check_replaceable(path: str | os.PathLike[str], about: About) -> None:
    """That the file at `path`, if there is one, does not hold another run than `about`, which could go on.

    Raises ScenarioError.
    """
    if (other := _other_run(path, about)) is not None:
        raise ScenarioError(
            f"checkpoint {os.fspath(path)} holds {other}: name another file, or remove that one"
        )


def _other_run(path: str | os.PathLike[str], about: About) -> str | None:
    """What other run than `about`, which could go on, the file at `path` holds; None if it holds none."""
    try:
        with Checkpoint(path) as kept:
            held = kept.about
    except (GridSimError, OSError):  # there is none, or none with which anything goes on
        return None
    if _which(held) == _which(about):
        return None
    return f"another run, of {held.scheduler.name} after {held.worked:.3g} s of work"


def _which(about: About) -> Any:
    """What tells one run from another, of the same files: of others, none of them could go on."""
    options = {key: value for key, value in about.options.items() if key not in ("threads", "cohort_limit")}
    told = about.scenario, msgspec.to_builtins(about.scheduler), options
    return json.loads(json.dumps(told))


def damaged(path: str, error: Exception) -> Exception:
    """What to raise; whatever a damaged file makes of zip, npy, JSON, states and runs is one error."""
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    if isinstance(error, OSError) and error.filename == path:  # it may be sound, but cannot be read
        return error
    return GridSimError(f"{path}: not a sound checkpoint ({type(error).__name__}: {error})")


def _member(number: int) -> str:
    return f"arrays/{number}.npy"
