"""What tests of hostile files share: bounds on memory and time, and a result."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.naming import make_scheduler
from gridsim.platform import Platform
from gridsim.workload import Workload

sys.path.insert(0, str(Path(__file__).parent))

#: Bytes that a test may take beside what the process has, and s.
ROOM, SECONDS = 1 << 30, 20


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """What hangs, or takes the machine's memory, fails."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"took more than {SECONDS} s")

    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, before[1]))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="session")
def scenario() -> gs.Scenario:
    return gs.Scenario(Platform.of([1000.0, 2000.0]), Workload.of([0.0, 1.0], [2, 3], [500.0, 600.0]))


@pytest.fixture(scope="session")
def result(scenario: gs.Scenario) -> gs.Result:
    return gs.simulate(scenario, make_scheduler("mincent"), record=True)


@pytest.fixture
def file(result: gs.Result, tmp_path: Path) -> Path:
    """A result."""
    result.save(tmp_path / "result.npz")
    return tmp_path / "result.npz"
