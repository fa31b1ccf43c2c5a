"""Fixtures shared by tests: real traces, the profile of Hypothesis, a small scheduler, clean environment."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gridsim.studies.execution import collect as collecting
from tests._helpers.toy import Toy

# Commands that tests start have their output buffered, as users do, whoever runs the tests.
os.environ.pop("PYTHONUNBUFFERED", None)
# No timing decides a test: a busy machine may take its time.  Each run draws other examples, more at night.
settings.register_profile(
    "patient",
    max_examples=int(os.environ.get("GRIDSIM_EXAMPLES", "18")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays until the end: the garbage collector looks at none of it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def traces() -> Path:
    """The folder of real traces, from the environment variable GRIDSIM_TRACES."""
    folder = os.environ.get("GRIDSIM_TRACES")
    if not folder:
        pytest.skip("GRIDSIM_TRACES is not set: no real traces")
    return Path(folder)


@pytest.fixture(scope="session")
def toy() -> type[Toy]:
    """A scheduler for tests of everything around schedulers."""
    return Toy


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells each call of `collect` has run."""
    counts: list[int] = []
    inner = collecting.run_cells

    def run_cells(cells, *args, **kwargs) -> None:
        counts.append(len(cells))
        inner(cells, *args, **kwargs)

    monkeypatch.setattr(collecting, "run_cells", run_cells)
    return counts
