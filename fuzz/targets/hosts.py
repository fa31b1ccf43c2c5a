"""Tables of hosts (CSV): speeds, and platforms drawn from them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from files import check_refusal, write_file

from gridsim.errors import TraceFormatError
from gridsim.model.platform import Platform
from gridsim.traces import read_host_speeds
from gridsim.traces.lint import info, lint

DICTIONARY = [
    b"cpu_model",
    b"computers",
    b"gflops_core",
    b'"',
    b'""',
    b"1e308",
    b"1099511627776",
    b"\r\n",
    b"nan",
]
HEAD = b"cpu_model,computers,avg_cores,gflops_core,gflops_computer\n"


def seeds() -> Iterator[bytes]:
    yield HEAD + b'A,2,4,1.5,6\n"B, C",1,2,0,4\n\n"D",3,1,2.5,2\n'
    yield b"cpu_model,computers,gflops_core\n" + b"A,1099511627776,1e18\n" * 3


def execute(data: bytes) -> None:
    path = write_file("hosts.csv", data)
    with check_refusal(TraceFormatError, naming=path):
        hosts = read_host_speeds(path)
        assert len(hosts) == len(hosts.speed) == len(hosts.weight)
        assert np.isfinite(hosts.speed).all() and (hosts.speed > 0).all() and (hosts.weight > 0).all()
        assert hosts.speed.min() <= hosts.mean() * (1 + 1e-9) and hosts.mean() <= hosts.speed.max() * (
            1 + 1e-9
        )
        assert set(Platform.from_hosts(path, 5, seed=1).speeds) <= set(hosts.speed)
        if len(data) % 8 == 0:
            info(path)
    if len(data) % 16 == 0:
        lint(path)
