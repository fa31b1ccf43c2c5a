"""Scenario files: they are written as they were read, and small workloads are realized."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from files import check_refusal, write_file
from samples import BAGS, RIGID

import gridsim as gs
from gridsim.errors import GridSimError, ScenarioError
from gridsim.model.platform import Platform
from gridsim.model.workload import Workload

KEYS = ["seed", "kind", "nodes", "low", "high", "step", "tasks", "task_size", "path", "latency", "jitter"]
KINDS = ["uniform", "pareto", "list", "equal", "bags", "jobs", "poisson", "weibull", "trace", "zones"]
TABLES = ["platform", "workload", "faults", "network", "fluctuation", "schedulers.x"]
DICTIONARY = [
    *(f"{key} = ".encode() for key in KEYS),
    *(f'"{kind}"'.encode() for kind in KINDS),
    *(f"[{table}]\n".encode() for table in TABLES),
    *(
        b"inf",
        b"nan",
        b"9223372036854775807",
        b"1e308",
        b"1e-320",
        b"-0.0",
        b"0x",
        b"1979-05-27",
        b'"""',
        b"{}",
    ),
    b'"\\u001b[31m"',
]


def seeds() -> Iterator[bytes]:
    two = Platform.of([1000.0, 2000.0])
    bags, listed = Workload.bags(2, seed=1), Workload.of([0.0, 1.0], [2, 3], [5.0, 6.0])
    network = gs.Network(latency=0.1, jitter=0.05)
    more = [
        BAGS,
        RIGID,
        gs.Scenario(Platform.pareto(3, 1), listed, schedulers={"dgs": {"x": [1]}}),
        gs.Scenario(Platform.normal(3, 1), Workload.of_tasks([0.0], [[1.0, 2.0]]), network),
        gs.Scenario(two, Workload.jobs(4, seed=1), faults=gs.Faults.zones(seed=3)),
        gs.Scenario(two, bags, faults=gs.Faults.of([0], [1.0], [2.0])),
        gs.Scenario(
            two, Workload.job_streams(2, seed=1), faults=gs.Faults.weibull(1.0, 9.0, 1.0, 2.0, seed=3)
        ),
        gs.Scenario(two, bags, faults=gs.Faults.poisson(50.0, seed=3)),
        gs.Scenario(two, bags, fluctuation=gs.Fluctuation.uniform(seed=3, low=0.5, high=1.0, period=60.0)),
    ]
    for each in more:
        yield each.to_toml().encode()
    yield b'[platform]\nkind = "hosts"\nnodes = 1\nseed = 1\npath = "/dev/zero"\n'
    yield b"seed" + b".a" * 60 + b" = 1\n"
    yield b"seed = 0x" + b"f" * 5000 + b"\n"


def execute(data: bytes) -> None:
    path = write_file("scenario.toml", data)
    with suppress(OSError), check_refusal(GridSimError):  # files that it names may be missing
        scenario = gs.Scenario.from_toml(path)
        text = scenario.to_toml()
        copy = gs.Scenario.from_toml(text)
        assert copy == scenario and copy.to_toml() == text
        with check_refusal(ScenarioError):
            check_workload(scenario)


def check_workload(scenario: gs.Scenario) -> None:
    """Check that the workload of a small scenario has valid numbers."""
    document = scenario.document()
    if scenario.platform.nodes > 1000 or document["workload"].get("applications", 0) > 1000:
        return
    if document["workload"].get("tasks_per_node", 0) > 100 or document["workload"].get("streams", 0) > 1000:
        return
    applications = scenario.workload.realize(scenario.platform)
    assert (np.diff(applications.release) >= 0).all() and np.isfinite(applications.release).all()
    assert (applications.tasks >= 1).all() and np.isfinite(applications.task_size).all()
    assert (applications.task_size > 0).all()
    assert ((applications.submitter >= 0) & (applications.submitter < scenario.platform.nodes)).all()
