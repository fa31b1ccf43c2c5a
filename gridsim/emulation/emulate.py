"""emulate(): runs one scenario in real processes of this machine, and returns a checked `Result`."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gridsim.emulation.coordinator import Coordinator
from gridsim.emulation.part import Setup
from gridsim.emulation.virtual import VirtualCoordinator
from gridsim.emulation.wire import LOOPBACK, check_address, from_plain
from gridsim.errors import ScenarioError
from gridsim.model.faults import Faults
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.results.result import Result
from gridsim.results.text import planned_lines
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import scheduler_of
from gridsim.simulation.options import checked_limit
from gridsim.simulation.outages import Outages
from gridsim.support.announcement import announce
from gridsim.support.arguments import integer, one_of, real
from gridsim.support.clock import NEVER, NS

#: Maximum number of processes of an emulation.
MAX_PROCESSES = 64
#: Maximum number of simulated seconds per second; above it, the clock cannot represent a run of hours.
MAX_SPEEDUP = 1e6


def emulate(
    scenario: Scenario,
    scheduler: Scheduler | str,
    *,
    processes: int | None = None,
    speedup: float = 10.0,
    network: Literal["modelled", "real"] = "modelled",
    work: Literal["sleep", "spin"] = "sleep",
    kill: bool = False,
    time_limit: float | None = None,
    host: str = LOOPBACK,
) -> Result:
    """Run `scenario` under `scheduler` for real: its nodes are in processes that send messages over sockets.

    The node program is the one that `simulate` runs.  The result has the same tables, and its schedule is
    always recorded; ``provenance["emulation"]`` says how it was made, and how late timers were.  Two runs
    are never quite the same, so that the digest says nothing but which result this is.

    Raises ScenarioError as `simulate` does, and for schedulers and scenarios that cannot be emulated;
    SchedulerError for errors of nodes; InvariantViolation when an invariant does not hold afterwards.

    Parameters
    ----------
    scheduler
        The scheduler, or its name; a name gets its parameters from ``scenario.schedulers``.
    processes
        In how many processes the machines are, neighbouring ones in the same; None for 1 with
        ``speedup=math.inf``, else 2.
    speedup
        Simulated seconds in a second, at most 1e6.  ``math.inf`` is a virtual clock, which does not wait:
        there is one process, this one, nothing is late, and the result has the digest of a simulated one.
    network
        ``"modelled"``, messages take the time that the network of the scenario says, or longer if the
        computer does; ``"real"``, they take what sockets take.
    work
        What tasks do until their time is over: ``"sleep"``, or ``"spin"``: each process computes as long as a
        task runs on one of its machines, so that processes compete for the processor.
    kill
        Let the failures of the scenario kill (SIGKILL) the process of the machine that fails, with all its
        machines; it begins anew when that machine is up, with what its nodes had in stable storage.  The
        result has the failures that came of it.  Without it, only the node objects of machines are lost.
    time_limit
        Simulated s after which the run is stopped.
    host
        The address on which processes listen; only 127.0.0.1 is allowed.
    """
    check_address(host)
    if not hasattr(os, "fork") and speedup != math.inf:
        raise ScenarioError("emulate requires a system that can copy a process (fork), such as Linux")
    scheduler = scheduler_of("scheduler", scheduler, check_scenario(scenario).schedulers)
    if "interpreted" not in scheduler.node_forms:
        raise ScenarioError(f"{scheduler.name} does not support emulation: it has no node program")
    speedup = real("speedup", speedup, above=0, finite=False)
    is_virtual = speedup == math.inf
    if processes is None:
        processes = 1 if is_virtual else 2
    processes = integer("processes", processes, low=1, high=MAX_PROCESSES)
    if is_virtual and processes > 1:
        raise ScenarioError(
            f"processes must be 1 with speedup=inf, got {processes}; write processes=1, or leave it out"
        )
    if is_virtual and (kill or (network, work) != ("modelled", "sleep")):
        raise ScenarioError("speedup must be finite with kill, network='real' or work='spin', got inf")
    if speedup > MAX_SPEEDUP and not is_virtual:
        raise ScenarioError(f"speedup must be at most {MAX_SPEEDUP:g}, got {speedup:g}")
    setup = Setup(
        scenario=scenario,
        scheduler=scheduler,
        processes=processes,
        speedup=speedup,
        modelled=one_of("network", network, ("modelled", "real")) == "modelled",
        spin=one_of("work", work, ("sleep", "spin")) == "spin",
        kill=kill,
        secret=secrets.token_bytes(32),
    )
    if processes > scenario.platform.nodes:
        raise ScenarioError(
            f"processes must be at most {scenario.platform.nodes}, the number of machines, got {processes}"
        )
    run = (VirtualCoordinator if is_virtual else Coordinator)(setup, checked_limit(time_limit))
    announce(lambda: planned_lines(scenario))
    if is_virtual:
        run.execute()
        return result_of(run)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run.execute()
    else:  # an event loop is running, as in a notebook
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run.execute).result()
    return result_of(run)


def result_of(run: Coordinator) -> Result:
    """Make the result of a finished run."""
    for packed, counts in run.counted:
        if packed:
            run.network.counters.add(packed)
        if counts:
            run.policy.environment.merge({name: from_plain(value) for name, value in counts.items()})
    for table, sources in run.row_sources.items():
        if not run.is_alone:  # a single process writes rows in the order of a simulation
            rows = run.policy.notes.rows[table]
            rows[:] = [rows[k] for k in sorted(range(len(rows)), key=sources.__getitem__)]
    if run.setup.kill:
        _replace_faults(run)
    else:
        run.outages.end(run.engine.ended)
    result = run._result()
    result.provenance["emulation"] = _execution_facts(run)
    return result


def _replace_faults(run: Coordinator) -> None:
    """Replace the faults in the scenario of the result by the outages of killed processes."""
    machine, down, up = [], [], []
    origin = run.scenario.workload.origin  # time 0 of the run's clock
    machines = run.machines.platform_machines(np.array([u for u, *_ in run.down_times], np.int64)).tolist()
    rows = [(u, since, until) for u, (_, since, until) in zip(machines, run.down_times, strict=True)]
    for u, since, until in dict.fromkeys(rows):  # the cores of a machine are down together
        machine.append(u)
        down.append(since / NS + origin)
        up.append(until / NS + origin if until < NEVER else math.inf)
    run.scenario = replace(run.scenario, faults=Faults.of(machine, down, up))
    # times of faults count from the origin of the scenario, as the clock does
    outages = Outages(run.scenario.faults, run.machines, run.engine, run.network)
    outages._next_time()
    outages._apply_before(run.engine.now + 1)
    run.outages = outages


def _execution_facts(run: Coordinator) -> dict[str, Any]:
    """Return facts about the execution of the run and its lateness."""
    late = [sum(item) for item in zip(*(final[0][:3] for final in run.final), strict=True)]
    mean = late[1] / late[0] if late[0] else 0.0
    spread = math.sqrt(max(0.0, late[2] / late[0] - mean * mean)) if late[0] else 0.0
    lags = [final[1] for final in run.final]
    setup = run.setup
    return {
        "processes": setup.processes,
        "speedup": setup.speedup,
        "network": "modelled" if setup.modelled else "real",
        "work": "spin" if setup.spin else "sleep",
        "kills": run.kills,
        "events": sum(final[2] for final in run.final),
        "events_per_second": sum(final[2] for final in run.final) / max(1e-9, run.seconds),
        "cpu_seconds": sum(final[3] for final in run.final),
        # in seconds of the wall clock
        "timers": late[0],
        "late_mean": mean / NS,
        "late_deviation": spread / NS,
        "late_most": max((final[0][3] for final in run.final), default=0.0) / NS,
        # in simulated seconds
        "messages_behind": sum(item[0] for item in lags),
        "behind_mean": sum(item[1] for item in lags) / max(1, sum(item[0] for item in lags)) / NS,
        "behind_most": max((item[2] for item in lags), default=0) / NS,
    }
