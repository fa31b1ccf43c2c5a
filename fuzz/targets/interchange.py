"""Job logs as results, and results as job logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from files import FOLDER, check_refusal, write_file

import gridsim as gs
from gridsim.errors import GridSimError
from gridsim.results.formats.job_logs import result_from_log, to_swf

from . import swf

DICTIONARY = [*swf.DICTIONARY, b"; MaxNodes: ", b"AllowOveruse: Yes"]


def seeds() -> Iterator[bytes]:
    yield from swf.seeds()
    yield b"; MaxProcs: 1073741824\n1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 -1\n"


def execute(data: bytes) -> None:
    path = write_file("log.swf", data)
    with check_refusal(GridSimError):
        result = result_from_log(path)
        assert isinstance(result, gs.Result) and len(result.applications)
        assert str(result).isprintable()
        again = str(Path(FOLDER, "again.swf"))
        to_swf(result, again)
        with check_refusal(GridSimError):
            written = result_from_log(again)
            assert np.array_equal(written.applications["tasks"], result.applications["tasks"])
