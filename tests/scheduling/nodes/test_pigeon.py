"""The example with roles, `examples/pigeon.py`, in all forms."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

import gridsim as gs
from gridsim.emulation.emulate import emulate
from gridsim.validation.results import validate_result
from tests.emulation.test_virtual_time import run_in_virtual_time

FILE = Path(__file__).resolve().parents[3] / "examples" / "pigeon.py"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="the examples are not part of this copy")


@pytest.fixture(scope="module")
def pigeon_class() -> Any:
    """The class of the scheduler."""
    spec = importlib.util.spec_from_file_location("pigeon", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Pigeon


def scenario(**options: Any) -> gs.Scenario:
    workload = gs.Workload.bags(applications=6, interarrival=40.0, tasks_per_node=1.5, seed=2)
    return gs.Scenario(gs.Platform.desktop_grid(nodes=30, seed=1), workload, seed=3, **options)


FAULTS = gs.Faults.of([3, 17, 3, 8], [50.0, 71.0, 120.0, 90.0], [80.0, 71.0, 125.0, 300.0])


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_pigeon_has_the_same_results_compiled(
    pigeon_class: Any, faults: gs.Faults | None, tmp_path: Any
) -> None:
    pytest.importorskip("numba", reason="needs the extra jit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDSIM_CACHE", str(tmp_path))
        scheduler = pigeon_class(size=7, cutoff=2e4, patience=100.0)
        interpreted = gs.simulate(scenario(faults=faults), scheduler, nodes="interpreted", record=True)
        compiled = gs.simulate(scenario(faults=faults), scheduler, nodes="compiled", record=True)
    assert compiled.digest == interpreted.digest


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_pigeon_has_the_same_results_emulated(pigeon_class: Any, faults: gs.Faults | None) -> None:
    scheduler = pigeon_class(size=7, cutoff=2e4, patience=100.0)
    emulated = run_in_virtual_time(scenario(faults=faults), scheduler)
    simulated = gs.simulate(scenario(faults=faults), scheduler, nodes="interpreted")
    assert emulated.digest == simulated.digest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="emulate needs fork")
def test_pigeon_runs_in_processes_that_fail(pigeon_class: Any) -> None:
    faults = gs.Faults.of([3, 17], [50.0, 110.0], [80.0, 130.0])
    result = emulate(scenario(faults=faults), pigeon_class(size=7), processes=4, speedup=40.0, kill=True)
    assert validate_result(result) == [] and result.provenance["emulation"]["kills"] == 2
