"""Files of sweeps: read, and their first point made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from files import put, refused
from samples import BAGS

from gridsim.errors import GridSimError
from gridsim.sweeps import Sweep

DICTIONARY = [
    b"replicates = ", b"[over]\n", b'"platform.nodes" = ', b"schedulers = [", b'"mincent"', b"metrics = [",
    b"hold = [", b'"max_stretch"', b"baseline = ", b"time_limit = ", b'"schedulers.mincent.x" = ',
    b"[over.both.a]\n", b"inf", b"1e308",
]  # fmt: skip


def seeds() -> Iterator[bytes]:
    head = b'schedulers = ["mincent", "fcfs"]\nreplicates = 2\nbaseline = "fcfs"\nmetrics = ["makespan"]\n'
    over = b'[over]\n"platform.nodes" = [2, 3]\n[over.load.high]\n"workload.interarrival" = 2.0\n'
    document = BAGS.to_toml().replace("[", "[scenario.").replace("seed = 0\n", "", 1).encode()
    yield head + over + document
    yield b'scenario = "scenario.toml"\n' + head + over
    yield head + b"[over]\n" + b'"a.b" = [' + b"1," * 300 + b"]\n" + document


def one(data: bytes) -> None:
    put("scenario.toml", BAGS.to_toml().encode())
    path = put("sweep.toml", data)
    with suppress(OSError), refused(GridSimError):  # what it names need not be there
        sweep = Sweep.from_toml(path)
        _, entries = next(sweep.points())
        own, others = sweep._split(entries)
        sweep.scenario.replaced(others)
