"""Results that state what does not hold: validated, explained and shown, whatever is in their tables."""

from __future__ import annotations

from collections.abc import Iterator

from files import check_refusal, write_file
from zips import mutate

import gridsim as gs
from gridsim.errors import GridSimError
from gridsim.validation.results import validate_result

from . import result

__all__ = ["execute", "mutate", "seeds"]


def seeds() -> Iterator[bytes]:
    return result.seeds()


def execute(data: bytes) -> None:
    path = write_file("result.npz", data)
    with check_refusal(GridSimError):
        read = gs.Result.load(path, verify=False)
        for violation in validate_result(read):
            assert str(violation).isprintable()
