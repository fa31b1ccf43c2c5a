"""Validation of schedules of other programs: jobs tables of Batsim, and job logs."""

from __future__ import annotations

from collections.abc import Iterator

from files import check_refusal, write_file
from samples import SWF, log

from gridsim.errors import TraceFormatError
from gridsim.validation.logs import validate_batsim, validate_swf

from . import swf

DICTIONARY = [b"0-3", b"1 2", b"0-999999999999", b"job_id", b"REJECTED", b'"', *swf.DICTIONARY]


def seeds() -> Iterator[bytes]:
    for rigid in (False, True):
        yield log(rigid, batsim=True)
        yield log(rigid, batsim=False)
    yield SWF
    yield SWF.replace(b"MaxProcs: 8", "MaxProcs: ²".encode())


def execute(data: bytes) -> None:
    path, job_log = write_file("schedule", data), write_file("given.swf", SWF)
    with check_refusal(TraceFormatError, naming=path):
        table = b"job_id" in data[:200]
        check = validate_batsim if table else validate_swf
        for violation in check(
            path, machines=3 if len(data) % 2 else None, job_log=job_log if len(data) % 3 else None
        ):
            assert str(violation).isprintable() and violation.count >= 1
