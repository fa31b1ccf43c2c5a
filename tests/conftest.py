"""Fixtures shared by tests: real traces, the profile of Hypothesis, a small scheduler, clean environment."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gridsim.studies.execution import collect as collecting
from tests._helpers.toy import Toy

# Users' commands buffer their output, and so must commands that tests start, in any environment.
os.environ.pop("PYTHONUNBUFFERED", None)
os.environ.pop("COLUMNS", None)  # the width of output
# Tests have no deadlines, since a machine may be busy.  Each run draws other examples, more of them at night.
settings.register_profile(
    "patient",
    max_examples=int(os.environ.get("GRIDSIM_EXAMPLES", "18")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the objects of the collection phase from garbage collection, during that phase and later."""
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
    """A simple scheduler for tests of the framework."""
    return Toy


@pytest.fixture
def run_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List of the numbers of cells that each call of `collect` runs."""
    counts: list[int] = []
    inner = collecting.run_cells

    def run_cells(cells, *args, **kwargs) -> None:
        counts.append(len(cells))
        inner(cells, *args, **kwargs)

    monkeypatch.setattr(collecting, "run_cells", run_cells)
    return counts
