"""The function `executor_for`: the `RunExecutor` of processes, of a Dask cluster, or of another library."""

from __future__ import annotations

from typing import Any

from gridsim.errors import ScenarioError
from gridsim.studies.execution.dask_executor import DaskExecutor
from gridsim.studies.execution.run_executor import ProcessesExecutor, RunExecutor
from gridsim.support.processes import Processes


def executor_for(executor: Any) -> RunExecutor:
    """Return the `RunExecutor` of an executor, or of a client of a Dask cluster.

    Raises
    ------
    ScenarioError
        If `executor` is a class, or has no method ``submit`` like an `Executor`.
    """
    if isinstance(executor, type):
        raise ScenarioError(
            f"executor must be an object, got the class {executor.__name__}; create one with "
            f"{executor.__name__}(...)"
        )
    if not callable(getattr(executor, "submit", None)):
        raise ScenarioError(
            f"executor must be a concurrent.futures.Executor, a client of Dask or None, got {executor!r}"
        )
    if isinstance(executor, Processes):
        return ProcessesExecutor(executor)
    if type(executor).__module__.partition(".")[0] == "distributed":
        return DaskExecutor(executor)
    return RunExecutor(executor)
