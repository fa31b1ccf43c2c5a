"""Checkpoints: header and state, which is restored in a small run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from files import FOLDER, check_refusal, write_file
from samples import BAGS, LISTED, scheduler
from zips import default_mutation, mutate_json, mutate_npy

from gridsim.errors import GridSimError
from gridsim.simulation.checkpoint import Checkpoint, save
from gridsim.simulation.checkpoint_file import CheckpointFileReader, CheckpointFileWriter
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation

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


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return a checkpoint with a changed document or array and its checksum, sometimes with changed bytes."""
    draw = random.Random(seed)
    try:
        reader = CheckpointFileReader(BytesIO(data))
    except Exception:  # an earlier mutation may have caused any error
        return default_mutation(data, max_size)
    if draw.random() < 0.1:
        return default_mutation(data, max_size)
    stream = BytesIO()
    writer = CheckpointFileWriter(stream)
    arrays, text = data[stream.tell() : reader.end], data[reader.end : -8]
    if draw.random() < 0.5:
        text = mutate_json(text, draw)
    else:
        starts = [k for k in range(len(arrays)) if arrays.startswith(b"\x93NUMPY", k)]
        at = draw.randrange(len(starts)) if starts else 0
        begin, end = (*starts, len(arrays))[at : at + 2] if starts else (0, 0)
        changed = mutate_npy(arrays[begin:end], draw)
        # the other arrays keep their positions
        arrays = arrays[:begin] + changed.ljust(end - begin, b"\0")[: end - begin] + arrays[end:]
    writer.write(arrays)
    writer.write(text + len(text).to_bytes(8, "little"))
    writer.seal()
    made = stream.getvalue()
    return made if len(made) <= max_size else data[:max_size]


def execute(data: bytes) -> None:
    path = write_file("run.checkpoint", data)
    with check_refusal(GridSimError, naming=path), Checkpoint(path) as kept:
        name = kept.header.scheduler.name
        simulation = Simulation(BAGS, scheduler(name if name in NAMES else NAMES[0]), Options())
        kept.restore(simulation)
