"""Job logs in Standard Workload Format, and workloads made of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from files import check_refusal, write_file
from samples import SWF, log

from gridsim.errors import TraceFormatError
from gridsim.traces import derive_bags, derive_jobs, read_swf
from gridsim.traces.job_lines import lines_of
from gridsim.traces.jobs import JOB_FIELDS, JobLog
from gridsim.traces.lint import info, lint

DICTIONARY = [
    b"; MaxProcs: ",
    b"; MaxJobs: ",
    b" -1",
    b"1e308",
    b"nan",
    b"9007199254740993",
    b"\n  ",
    b"\xef\xbb\xbf",
]


def seeds() -> Iterator[bytes]:
    yield SWF
    yield log(rigid=True, batsim=False)
    yield log(rigid=False, batsim=False)[:1000]
    yield b"1 1e18 1 1e18 1099511627776 1 1 1 1 1 1 1 1 1 1 1 1 1\n" * 3
    yield b"1 0 3 10 2 -1 -1 2 20 -1 1 1 1 -1 1 -1 -1 " + b"9" * 5000 + b"\n"


def execute(data: bytes) -> None:
    path = write_file("log.swf", data)
    with check_refusal(TraceFormatError, naming=path):
        read = read_swf(path)
        check_sound(read)
        if len(data) % 8 == 0:
            check_round_trip(read)
            info(path)
    if len(data) % 16 == 0:
        lint(path)


def check_sound(read: JobLog) -> None:
    """Check that jobs, and bags and rigid jobs made of them, are finite, sorted and complete."""
    jobs = read.jobs
    assert len(jobs) and all(np.isfinite(jobs[name]).all() for name in jobs.dtype.names)
    assert (np.diff(jobs["submit"]) >= 0).all() and (np.diff(np.sort(jobs["line"])) > 0).all()
    assert ((jobs["run_time"] >= 0) | (jobs["run_time"] == -1)).all() and (read.procs >= 1).all()
    bags, rigid = derive_bags(read), derive_jobs(read)
    ran = lines_of(jobs).ran
    assert bags.jobs.sum() == len(rigid) == ran.sum() and bags.tasks.sum() == read.procs[ran].sum()
    assert (np.diff(bags.release) >= 0).all() and np.isfinite(bags.run_time).all() and (bags.tasks > 0).all()
    assert (np.diff(rigid.release) >= 0).all() and (rigid.run_time > 0).all() and (rigid.requested > 0).all()


def check_round_trip(read: JobLog) -> None:
    """Check that a written copy is read with the same content."""
    rows = (" ".join(repr(row[name].item()) for name in JOB_FIELDS) for row in read.jobs)
    written = read_swf(write_file("again.swf", "\n".join(rows).encode()))
    assert all(np.array_equal(written.jobs[name], read.jobs[name]) for name in JOB_FIELDS)
