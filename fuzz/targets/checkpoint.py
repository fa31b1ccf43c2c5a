"""Checkpoints: header and state, which is restored in a small run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from files import FOLDER, check_refusal, write_file
from samples import BAGS, LISTED, scheduler
from zips import mutate

from gridsim.errors import GridSimError
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.simulation.simulate import Options, Simulation

__all__ = ["execute", "mutate", "seeds"]

NAMES = ("mincent", "fair-tree", "fcfs", "wave")


def seeds() -> Iterator[bytes]:
    path = Path(FOLDER, "seed.checkpoint")
    for name in NAMES:
        simulation = Simulation(BAGS, scheduler(name), Options())
        if name != NAMES[0]:
            simulation.engine.run(20 * 10**9)
        save(path, simulation, simulation.checkpoint_header(600.0))
        yield path.read_bytes()
    simulation = Simulation(LISTED, scheduler(NAMES[0]), Options())
    save(path, simulation, simulation.checkpoint_header(600.0))
    yield path.read_bytes()


def execute(data: bytes) -> None:
    path = write_file("run.checkpoint", data)
    with check_refusal(GridSimError, naming=path), Checkpoint(path) as kept:
        name = kept.header.scheduler.name
        simulation = Simulation(BAGS, scheduler(name if name in NAMES else NAMES[0]), Options())
        kept.restore(simulation)
