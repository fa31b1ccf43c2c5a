"""Job logs in Standard Workload Format."""

from __future__ import annotations

from collections.abc import Iterator

from files import put, refused

from gridsim.errors import TraceFormatError
from gridsim.traces import read_swf


def seeds() -> Iterator[bytes]:
    yield b"; a: b\n1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n"


def one(data: bytes) -> None:
    path = put("log.swf", data)
    with refused(TraceFormatError, naming=path):
        read_swf(path)
