"""Files of results."""

from __future__ import annotations

from collections.abc import Iterator

from files import check_refusal, write_file
from samples import file_of, long_lists, messages, result
from zips import mutate, unzipped, zipped

import gridsim as gs
from gridsim.errors import GridSimError

__all__ = ["execute", "mutate", "seeds"]


def seeds() -> Iterator[bytes]:
    for sample in (result(False), result(True), messages(), long_lists()):
        file = file_of(sample)
        yield file
        yield zipped(unzipped(file))


def execute(data: bytes) -> None:
    path = write_file("result.npz", data)
    with check_refusal(GridSimError, naming=path):
        read = gs.Result.load(path)
        if len(data) % 8 == 0:
            again = write_file("again.npz", b"")
            read.save(again)
            written = gs.Result.load(again)
            assert written.digest == read.digest and written.tables == read.tables
