"""Runs that continue from damaged states: none crashes, and Ctrl-C ends each of them.

The states are those of whole runs, which together use all kernels.  Some numbers, rows or lengths are
changed, and a run continues from the state in its own process.  The state may be rejected, and the run may
end, fail with an error, or not end.  The checks of bounds in a build with `GRIDCORE_CHECKED` find accesses
that would not crash here.

To test more states: ``python -P tests/kernels/test_damaged_states.py NAME NUMBER [SEED]``.
"""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gridsim as gs
from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation
from gridsim.support.state import unpack
from gridsim.testing.resuming import Snapshot, snapshot

#: Number of damaged states of a run in a test.
STATES = 40
#: Time (s) after which a run gets the signal of Ctrl-C, and time that it then has to end.
PATIENCE, GRACE = 2.0, 20.0
#: Memory limit (bytes) of a process, since a damaged state may request any amount.
MEMORY = 6 << 30
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 7, 9, 100, 2**15, 2**31 - 1, 2**31, 2**61, 2**63 - 1)
REALS = (0.0, -1.0, 1e-300, 1e300, float("inf"), float("nan"))

Array = np.ndarray[Any, Any]

CASES: dict[str, gs.Scheduler] = {
    "links, queues, tree": gs.FairTree(samples=(3, 2, 2), run_on=True),
    "queues of tasks with sizes": gs.LeastWork(),
    "queues of tasks with data": gs.MinCent(mode="once"),
    "pull": gs.Fcfs(mode="pull"),
    "rigid": gs.BatchQueue(),
    "rigid, negotiations": gs.DgsAsap(degree=6, policy="pull", detection=5.0, patience=5.0, retry=30.0),
    "work": gs.WqrFt(task_order="great", machine_choice="all", predictor="past", checkpoint_interval=1.0),
    "work, random": gs.WqrFt(max_replicas=3, bag_order="longidle", checkpoint_store="local"),
    "walk": gs.Rjss(k=0.5, pick="best", probe_latency="network"),
    "walk, cores": gs.Rjss(k=1.0, overlay=3, probe_latency=0.3),
    "nodes": gs.RandomWalkSearch(),
    "nodes, board": gs.JoinShortestQueue(),
    "probes": gs.Sparrow(retry=5.0, patience=3.0),
    "probes, stealing": gs.Hawk(),
    "probes, shortest work": gs.Eagle(),
    "probes, stale": gs.Dlwl(),
}


def scenario(name: str) -> gs.Scenario:
    network = gs.Network(bandwidth=20_000.0)
    if name.startswith("rigid"):
        draw = np.random.default_rng(1)
        nodes, run = draw.integers(1, 60, 40), draw.uniform(5.0, 60.0, 40)
        jobs = gs.Workload.jobs_of(np.arange(40) * 4.0, nodes, run, requested=2.0 * run)
        return gs.Scenario(gs.Platform.equal(70), jobs, faults=gs.Faults.poisson(4000.0, seed=4))
    if name.startswith("walk"):
        jobs = gs.Workload.job_streams(200.0, 10.0, 20.0, 20_000.0, seed=2)
        cores = [1 + k % 3 for k in range(13)] if name == "walk, cores" else None
        return gs.Scenario(gs.Platform.normal(13, seed=1, cores=cores), jobs, network, seed=3)
    more: dict[str, Any] = (
        {"spread": gs.Normal(0.5)} if name in ("queues of tasks with sizes", "work") else {}
    )
    platform = gs.Platform.desktop_grid(nodes=9, seed=1)
    if name == "queues of tasks with data":
        platform = platform.linked([1e5 * (1 + k % 7) for k in range(9)])
        more = {"input_bytes": [0.0, 3e5, 5e6], "output_bytes": [0.0, 1e6]}
    bags = gs.Workload.bags(
        6, interarrival=5.0, tasks_per_node=3.0, task_size=[4000.0, 9000.0], seed=2, **more
    )
    faults = None if name == "queues of tasks with data" else gs.Faults.of([2, 5], [6.0, 9.0], [6.0, 15.0])
    return gs.Scenario(platform, bags, network, seed=3, faults=faults)


def new_run(name: str) -> Simulation:
    return Simulation(scenario(name), CASES[name], Options(record="all"))


def states(name: str) -> list[Snapshot]:
    """Return the states of a run after waves 1, 2, 4, ..."""
    run, snapshots, waves = new_run(name), [], 0

    def look() -> None:
        nonlocal waves
        waves += 1
        if waves & (waves - 1) == 0 and not run.engine.stopping:
            snapshots.append(snapshot(run))

    run.engine.at_wave_end(look)
    run.run()
    return snapshots


# -- damage --------------------------------------------------------------------------------------------------


def places(value: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return (path, owner, key) of the numbers in the text of a state; some of them are those of arrays."""
    actual: list[tuple[str, Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        below = f"{path}/{key if isinstance(value, dict) else ''}"
        actual += [(below, value, key)] if type(entry) in (int, float) else places(entry, below)
    return actual


def damaged_array(array: Array, draw: random.Random) -> Array:
    """Return an array with other values, or with rows that were removed, repeated or moved."""
    array, rows = np.array(array), list(range(len(array) if array.ndim else 0))
    if rows and draw.random() < 0.3:
        k = draw.choice(rows)
        return array[
            draw.choice((rows[:k], [*rows[: k + 1], *rows[k:]], rows[1:], rows[::-1], [k, *rows[1:]]))
        ]
    values = array[draw.choice(array.dtype.names)] if array.dtype.names else array
    for _ in range(draw.choice((1, 1, 1, 5, 50)) if array.size else 0):
        index, other = (tuple(draw.randrange(length) for length in values.shape) for _ in range(2))
        if values.dtype.kind in "iu":
            info = np.iinfo(values.dtype)
            number = draw.choice(
                (int(values[other]), int(values[index]) + draw.choice((-1, 1)), draw.choice(NUMBERS))
            )
            values[index] = min(max(number, int(info.min)), int(info.max))
        elif values.dtype.kind == "f":
            values[index] = draw.choice((values[other], *REALS))
        elif values.dtype.kind == "b":
            values[index] = not values[index]
    return array


def damage(state: Snapshot, draw: random.Random) -> tuple[Any, list[Array], list[str]]:
    """Return the text and the arrays of a state with one to three changes, and the paths of these."""
    text, arrays = json.loads(state[0]), list(state[1])
    actual, changed = places(text), []
    for _ in range(draw.choice((1, 1, 2, 3))):
        # most of the numbers in the text are those of Python objects
        paths = sorted({path for path, _, _ in actual if path.endswith("/array") or draw.random() < 0.1})
        path = draw.choice(paths)
        _, owner, key = draw.choice([place for place in actual if place[0] == path])
        changed.append(path)
        if key in ("array", "scalar") or path.endswith("/arrays/"):
            arrays[owner[key]] = damaged_array(arrays[owner[key]], draw)
        else:
            numbers = NUMBERS if type(owner[key]) is int else REALS
            owner[key] = draw.choice((*numbers, owner[key] + 1, owner[key] - 1))
    return text, arrays, changed


# -- processes ----------------------------------------------------------------------------------------------


def go_on(run: Simulation, text: Any, arrays: list[Array]) -> str:
    """Continue a run from a state; return its end."""
    errors: list[BaseException | None] = []
    # errors in functions that cannot raise them
    sys.unraisablehook = lambda unraisable: errors.append(unraisable.exc_value)
    end = "rejected"
    try:
        run.setstate(unpack(text, lambda number: np.array(arrays[number])).state)
        end = "failed"
        run.run()
        end = "ended"
    except KeyboardInterrupt:
        end = "interrupted"
    except Exception as error:
        errors.append(error)
    return "is out of bounds" if any("Out of bounds on buffer" in str(error) for error in errors) else end


def end_of(run: Simulation, text: Any, arrays: list[Array]) -> str:
    """Return the end of a run that continues in its own process; `run` itself does not advance."""
    receive, send = os.pipe()
    process = os.fork()
    if process == 0:
        if "ASAN_OPTIONS" not in os.environ:  # AddressSanitizer reserves all addresses
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            os.write(send, go_on(run, text, arrays).encode())
        except KeyboardInterrupt:
            os.write(send, b"interrupted")
        finally:
            os._exit(0)
    os.close(send)
    start, interrupted = time.monotonic(), False
    completed, status = os.waitpid(process, os.WNOHANG)
    while not completed:
        time.sleep(0.002)
        if time.monotonic() - start > PATIENCE and not interrupted:
            os.kill(process, signal.SIGINT)
            interrupted = True
        if time.monotonic() - start > PATIENCE + GRACE:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return "does not end by Ctrl-C"
        completed, status = os.waitpid(process, os.WNOHANG)
    with os.fdopen(receive) as stream:
        return "crashed" if os.WIFSIGNALED(status) else stream.read()


def main(name: str, number: int, seed: int = 0) -> None:
    """Damage the state of a run `number` times; print the counts of the ends of the continued runs.

    Raises AssertionError if a process crashes, or Ctrl-C does not end it.
    """
    warnings.simplefilter("ignore")
    draw, taken, run, ends = random.Random(seed), states(name), new_run(name), Counter[str]()
    for _ in range(number):
        text, arrays, changed = damage(copy.deepcopy(draw.choice(taken)), draw)
        end = end_of(run, text, arrays)
        ends[end] += 1
        assert end in ("rejected", "ended", "failed", "interrupted"), (
            f"a run {end} after a change of {changed}"
        )
    print(dict(ends))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("name", CASES)
def test_a_run_with_a_damaged_state_neither_crashes_nor_ignores_ctrl_c(name: str) -> None:
    process = subprocess.run(
        [sys.executable, "-P", __file__, name, str(STATES)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    assert "rejected" in process.stdout or "ended" in process.stdout


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
