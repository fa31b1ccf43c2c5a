"""Job logs in Grid Workload Format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from files import check_refusal, write_file

from gridsim.errors import TraceFormatError
from gridsim.traces import read_gwf, read_jobs
from gridsim.traces.lint import lint

from .swf import check_sound

ROW = b"1 0 3 10 2 -1 -1 2 20 -1 1 U1 G1 X Q P" + b" -1" * 13 + b"\n"
DICTIONARY = [b"# JobID", b" U12", b" -1", b"1e308", b"nan", b"9007199254740992", b"1_0"]


def seeds() -> Iterator[bytes]:
    yield b"# Version: 1\n" + ROW + ROW.replace(b"U1", b"7")
    yield b"# JobID SubmitTime\n" + b"2 5 0 7 1 -1 -1 1 20 -1 1 3\n"
    yield ROW.replace(b"U1", b"9007199254740992") + ROW


def execute(data: bytes) -> None:
    path = write_file("log.gwf", data)
    with check_refusal(TraceFormatError, naming=path):
        log = read_gwf(path)
        check_sound(log)
        if len(data) % 8 == 0:
            assert np.array_equal(read_jobs(path).jobs, log.jobs)
    if len(data) % 16 == 0:
        lint(path)
