"""Fixtures of the tests of reports: results of every kind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gridsim as gs
from tests._helpers.report_pages import NAMES, bags, read, rigid


@pytest.fixture(autouse=True)
def skip_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, which would take most of the time of these tests."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def write_report(tmp_path: Path) -> Any:
    """Return a function that writes a report and reads it."""

    def write(results: Any, **more: Any) -> SimpleNamespace:
        path = tmp_path / "report.html"
        gs.write_report(results, path, **more)
        return read(path)

    return write


@pytest.fixture(scope="session")
def single_run() -> gs.Result:
    return gs.simulate(bags(), gs.FairTree(), record=True)


@pytest.fixture(scope="session")
def comparison() -> gs.Comparison:
    return gs.compare(bags(), NAMES, record=True)


@pytest.fixture(scope="session")
def compared_jobs() -> gs.Comparison:
    return gs.compare(rigid(), {"dgs": gs.DgsAsap(), "easy": gs.BatchQueue()}, record=True)


@pytest.fixture(scope="session")
def replicates() -> gs.Replicates:
    return gs.compare(bags(), NAMES, replicates=6)
