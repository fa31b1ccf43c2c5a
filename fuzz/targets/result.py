"""Files of results."""

from __future__ import annotations

from collections.abc import Iterator

from files import put, refused
from samples import long_lists, messages, result, saved
from zips import mutate, unzipped, zipped

import gridsim as gs
from gridsim.errors import GridSimError

__all__ = ["mutate", "one", "seeds"]


def seeds() -> Iterator[bytes]:
    for sample in (result(False), result(True), messages(), long_lists()):
        file = saved(sample)
        yield file
        yield zipped(unzipped(file))


def one(data: bytes) -> None:
    path = put("result.npz", data)
    with refused(GridSimError, naming=path):
        read = gs.Result.load(path)
        if len(data) % 8 == 0:
            again = put("again.npz", b"")
            read.save(again)
            written = gs.Result.load(again)
            assert written.digest == read.digest and written.tables == read.tables
