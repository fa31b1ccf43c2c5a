"""Sweep files: reading, and output of small sweeps as if they had run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

from files import check_refusal, write_file
from samples import BAGS

from gridsim.errors import GridSimError
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.execution.keys import Keys
from gridsim.studies.sweep import Sweep
from gridsim.studies.sweep_result import SweepResult
from gridsim.support.text import to_json

#: Maximum number of runs of a sweep whose cells are created.
MAX_RUNS = 64

DICTIONARY = [
    b"replicates = ", b"[over]\n", b'"platform.nodes" = ', b"schedulers = [", b'"mincent"', b"metrics = [",
    b"hold = [", b'"max_stretch"', b"baseline = ", b"time_limit = ", b'"schedulers.mincent.x" = ',
    b"[over.both.a]\n", b"inf", b"1e308",
    b"1979-05-27", b"07:32:00", '"größe"'.encode(), '[over."é".a]\n'.encode(), b'""', b"9007199254740993",
    b"100000000000000000000", b"1" + b"0" * 22,
]  # fmt: skip


def seeds() -> Iterator[bytes]:
    head = b'schedulers = ["mincent", "fcfs"]\nreplicates = 2\nbaseline = "fcfs"\nmetrics = ["makespan"]\n'
    over = b'[over]\n"platform.nodes" = [2, 3]\n[over.load.high]\n"workload.interarrival" = 2.0\n'
    document = BAGS.to_toml().replace("[", "[scenario.").replace("seed = 0\n", "", 1).encode()
    yield head + over + document
    yield b'scenario = "scenario.toml"\n' + head + over
    yield head + b"[over]\n" + b'"a.b" = [' + b"1," * 300 + b"]\n" + document


def execute(data: bytes) -> None:
    write_file("scenario.toml", BAGS.to_toml().encode())
    path = write_file("sweep.toml", data)
    with suppress(OSError), check_refusal(GridSimError):  # files that it names may be missing
        sweep = Sweep.from_toml(path)
        runs = math.prod(map(len, sweep.labels.values())) * sweep.replicates * len(sweep.schedulers)
        if runs > MAX_RUNS:
            return
        Keys().key(sweep.cells[0])
        check_output(sweep)


def check_output(sweep: Sweep) -> None:
    """Check that results can be written; an error at this point would lose them."""
    metrics = tuple(sweep.metrics or ["makespan"])
    measured = [RunRecord(values=dict.fromkeys(metrics, 1.0))] * len(sweep.cells)
    found = SweepResult(
        sweep.labels, tuple(sweep.schedulers), sweep.replicates, metrics, sweep.baseline, measured, metrics
    )
    try:
        found.to_arrow()
        to_json(found.to_dict())
        found.format()
    except Exception as error:
        raise AssertionError(f"results cannot be written: {error!r}") from error
