"""Job logs with the duration of every task (.tr), and the bags made of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from files import check_refusal, write_file

from gridsim.errors import TraceFormatError
from gridsim.traces import bags_of_tasks, read_tr
from gridsim.traces.lint import info, lint
from gridsim.traces.tr import TaskLog

DICTIONARY = [b" 1 5 5\n", b" 2 ", b" -1", b"1e18", b"nan", b"1_0", b"\r", b"\xef\xbb\xbf"]


def seeds() -> Iterator[bytes]:
    yield b"100.5 2 3.6 2.5 4.7\n\n101.5\t3  2.0 1.9 3.2 0.9\n101.5 1 7.25 7.25\n"
    yield b"9 1 1 1\n5 2 0 0 0\n5 1 1e18 1e18\n"
    yield b"1 1 5 " + b"9" * 5000 + b"\n"


def execute(data: bytes) -> None:
    path = write_file("log.tr", data)
    with check_refusal(TraceFormatError, naming=path):
        log = read_tr(path)
        sound(log)
        if len(data) % 8 == 0:
            again(log)
            info(path)
    if len(data) % 16 == 0:
        lint(path)


def sound(log: TaskLog) -> None:
    """Finite, sorted, with a duration for each task; and so are bags."""
    assert len(log) == len(log.submit) == len(log.mean) == len(log.line) and (log.tasks > 0).all()
    assert log.offsets[-1] == len(log.duration) and (np.diff(log.submit) >= 0).all()
    for column in (log.submit, log.mean, log.duration):
        assert (np.abs(column) <= 1e18).all()
    assert (log.duration >= 0).all() and (log.mean >= 0).all()
    for whole in (False, True):
        bags = bags_of_tasks(log, whole_seconds=whole)
        assert bags.estimate is not None and (bags.estimate >= 0).all() and (bags.job_run_time > 0).all()
        assert bags.tasks.sum() == len(bags.job_run_time) and (np.diff(bags.release) >= 0).all()
        assert np.isfinite(bags.run_time).all()


def again(log: TaskLog) -> None:
    """Check that a written copy is read with the same content."""
    lines = []
    for job, durations in enumerate(np.split(log.duration, log.offsets[1:-1])):
        row = (log.submit[job].item(), len(durations), log.mean[job].item(), *durations.tolist())
        lines.append(" ".join(map(repr, row)))
    written = read_tr(write_file("again.tr", "\n".join(lines).encode()))
    for name in ("submit", "tasks", "mean", "duration"):
        assert np.array_equal(getattr(written, name), getattr(log, name))
