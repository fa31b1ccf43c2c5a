"""Fixtures for tests of hostile files: limits on memory and time, and a result."""

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

#: Bytes of memory that a test may take in addition to those of the process.
MAX_MEMORY = 1 << 30


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Fail a test that hangs or takes too much memory."""

    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MAX_MEMORY, before[1]))
    with clock.limit_time():
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
    """Return the path of a saved result."""
    result.save(tmp_path / "result.npz")
    return tmp_path / "result.npz"
