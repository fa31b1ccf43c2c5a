"""Results with arbitrary tables and a matching digest: each command that reads a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner
from files import check_refusal, write_file
from samples import file_of, messages, result
from zips import mutate

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.errors import GridSimError

__all__ = ["execute", "mutate", "seeds"]

_PLOT = ["plot", "sealed.npz", "--figure", "chart.svg", "--kind"]
_EXPORT = ["export", "sealed.npz", "--out", "exported", "--format"]
VALIDATE = ["validate", "sealed.npz"]
COMMANDS = (
    VALIDATE,
    ["why", "sealed.npz", "0"],
    ["report", "sealed.npz", "--out", "page.html"],
    *([*_PLOT, kind] for kind in ("gantt", "distribution", "series", "traffic", "tree")),
    *([*_EXPORT, kind] for kind in ("batsim", "swf", "perfetto")),
)


def seeds() -> Iterator[bytes]:
    for sample in (result(False), result(True), messages()):
        file = file_of(sample)
        # the length chooses the command
        yield from (file + bytes(length) for length in range(len(COMMANDS)))


def execute(data: bytes) -> None:
    path = write_file("result.npz", data)
    sealed = Path(write_file("sealed.npz", b""))
    with check_refusal(GridSimError, naming=path):
        gs.Result.load(path, verify=False).save(sealed)
        command = COMMANDS[len(data) % len(COMMANDS)]
        with chdir(sealed.parent):
            code, lines = _run(command)
            # a result that cannot be shown is invalid, and `validate` must report why
            if any("cannot be shown" in line for line in lines):
                assert command != VALIDATE and _run(VALIDATE)[0], (command, lines)


def _run(command: list[str]) -> tuple[int, list[str]]:
    done = CliRunner().invoke(cli, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(command) from done.exception
    assert done.exit_code in (0, 1, 2), (command, done.exit_code)
    lines = done.stderr.splitlines()
    assert done.exit_code != 2 or lines and lines[-1].startswith("gridsim: "), (command, lines)
    assert all(line.isprintable() for line in lines), (command, lines)
    return done.exit_code, lines
