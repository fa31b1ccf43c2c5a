"""What tests of hostile files share: bounds on memory and time, and a result."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridsim as gs
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload
from gridsim.scheduling.registry import make_scheduler
from tests._helpers import clock

#: Bytes that a test may take beside what the process has.
ROOM = 1 << 30


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """What hangs, or takes the machine's memory, fails."""

    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, before[1]))
    with clock.bounded():
        yield
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
