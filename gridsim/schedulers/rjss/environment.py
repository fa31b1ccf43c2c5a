"""Environment of RJSS nodes: network parameters, release rates, the overlay, and random numbers of jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST
from gridcore.random_walk.state import MAX_BYTES
from gridsim.errors import ScenarioError
from gridsim.results.table import frozen
from gridsim.schedulers.rjss.decisions import SearchLog, note_walks
from gridsim.scheduling.contract import Outcome, Run
from gridsim.scheduling.nodes.environment import Environment
from gridsim.scheduling.nodes.single_tasks import SingleTasks
from gridsim.scheduling.overlays import overlay_of_nodes, random_neighbours
from gridsim.support.arrays import Floats, Integers, first_true
from gridsim.support.clock import NS, nanoseconds
from gridsim.support.columns import NumbersColumn

#: Maximum duration of a search, s; the clock is limited to 2**61 ns.
LONGEST_SEARCH = 2e9


class RjssEnvironment(Environment):
    """The services of the model to the nodes of a run.

    Attributes
    ----------
    tasks
        The tasks of the workload, each of which is a job.
    probes
        Maximum number of nodes that are probed for a job.
    probe_time
        Time from a probe to its answer, ns.
    latency, bandwidth
        Latency (ns) and bandwidth (bytes/s) of the network.
    cores
        int64[nodes], number of cores of each node.
    rates
        float64[nodes], mean rate of releases at each node, per core, jobs/s; NaN if the workload does not
        state it.
    neighbours
        The neighbours of each node on the overlay on which probes walk; None without an overlay.
    seed
        Seed of the random numbers of jobs.
    """

    reason = (
        "nodes know the network and their rates of releases from the beginning, and count a job of another "
        "node from the instant at which that sends it; jobs draw the random numbers of the compiled form"
    )
    STATE: ClassVar[tuple[str, ...]] = ("log",)
    #: Name of the table that has a row for each job whose result has returned.
    results: ClassVar[str] = "jobs"

    def __init__(self, parameters: Any, run: Run) -> None:
        super().__init__(parameters, run)
        self.tasks = SingleTasks(run.applications)
        _check_sizes(parameters, run)
        self.probe_time = probe_time(parameters, run)
        network, nodes = run.network.network, len(run.speeds)
        self.probes = math.ceil(parameters.k * nodes)
        self.latency, self.bandwidth = nanoseconds(network.latency), network.bandwidth
        self.travel_time = lru_cache(_CACHED)(self._travel_time)
        self._state_of = lru_cache(_CACHED)(self._first_state)
        rates = run.applications.rates
        self.cores: Integers = np.ones(nodes, np.int64) if run.cores is None else run.cores
        self.rates: Floats = np.full(nodes, np.nan) if rates is None else rates / self.cores
        self.neighbours = _overlay(parameters, run, nodes)
        self.seed = int(run.streams("walk").integers(2**63))
        self.log = SearchLog(0 if run.decisions is None else min(run.decisions.limit, LATEST))

    def _travel_time(self, data: int) -> int:
        """Return the travel time L of a job of `data` bytes to another node, ns."""
        return int(self.latency + round(data / self.bandwidth * NS))

    def of_node(self, node: int) -> RjssView:
        """Return the environment of a node."""
        return RjssView(self, node)

    def draw(self, job: int, number: int, count: int) -> int:
        """Return random number `number` (from 0) of a job, in 0..count - 1, as in `random_walk.searches`."""
        return (_splitmix((self._state_of(job) + (number + 1) * _GOLDEN) & _MASK) >> 32) * count >> 32

    def _first_state(self, job: int) -> int:
        """Return the initial state of the random numbers of a job."""
        return _splitmix((self.seed + (job + 1) * _GOLDEN) & _MASK)

    def is_over(self) -> bool:
        """Return whether the results of all jobs have returned."""
        return len(self.adapter.notes.rows[self.results]) == len(self.adapter.run.applications)

    def complete(self, outcome: Outcome) -> None:
        """Add the table of jobs and the maximum queue lengths of machines; all results have returned."""
        if self.run.decisions is not None:
            note_walks(self.run.decisions, self, self.log.columns(), self.log.left_out)
        queues = self.adapter.queues
        rows, came, ran = outcome.tables["jobs"], queues.arrivals(), queues.schedule()
        jobs = {name: np.zeros(len(rows["application"]), np.int64) for name in JOB_COLUMNS}
        jobs["arrived"][came["application"]] = came["time"]
        for name in ("start", "machine"):
            jobs[name][ran["application"]] = ran[name]
        for name in ("probes", "predicted", "returned"):
            jobs[name][rows["application"]] = rows[name]
        self.report(outcome, jobs)
        del outcome.machines["interrupted"]
        outcome.machines["peak_queue"] = most_waiting(jobs, len(self.run.speeds))
        order = np.lexsort((came["application"], jobs["start"][came["application"]], came["time"]))
        outcome.arrivals = {name: column[order] for name, column in outcome.arrivals.items()}

    def report(self, outcome: Outcome, jobs: dict[str, NDArray[Any]]) -> None:
        """Add the table of jobs to an outcome, from columns like those of `JobWalks.jobs`."""
        home, release = (
            self.tasks.of_each(column)
            for column in (self.run.applications.submitter, self.run.applications.release_ns)
        )
        has_moved = jobs["machine"] != home
        outcome.tables = {
            "jobs": {
                "application": frozen(self.tasks.numbers),
                "machine": jobs["machine"].astype(np.int32, copy=False),
                "probes": jobs["probes"].astype(np.int32, copy=False),
                "predicted": frozen(np.where(has_moved, jobs["predicted"] / NS, np.nan)),
                "waited": frozen((jobs["start"] - jobs["arrived"]) / NS),
                "turnaround": frozen((jobs["returned"] - release) / NS),
            }
        }
        outcome.facts["nodes_asked"] = min(self.probes, len(self.run.speeds) - 1)


def _overlay(parameters: Any, run: Run, nodes: int) -> NumbersColumn | None:
    """Return the neighbours of each node on the overlay of probes; None without an overlay."""
    path, overlay = f"{parameters.name}.overlay", parameters.overlay
    if overlay is None:
        return None
    if isinstance(overlay, int):
        return NumbersColumn.of(random_neighbours(nodes, overlay, run.streams("walk overlay")))
    graph = overlay_of_nodes(overlay, nodes, range(nodes), path)
    for k in first_true(graph.counts == 0) if nodes > 1 else ():
        raise ScenarioError(f"{path}[{k}] must have a neighbour, got none")
    return graph


def _check_sizes(parameters: Any, run: Run) -> None:
    """Raise ScenarioError if a job, with its state where that travels, is too large for a message."""
    data = run.applications.data
    job = 0 if data is None else int(data.max())
    state = parameters.state if run.faults and parameters.migrates else 0
    if job + state > MAX_BYTES:
        raise ScenarioError(
            f"{parameters.name}.state must be at most {MAX_BYTES - job} bytes with jobs of up to {job} "
            f"bytes, got {state}"
        )
    run.network.check_transfer("job with its state" if state else "job", job + state)


def probe_time(parameters: Any, run: Run) -> int:
    """Return the time from a probe to its answer, ns.

    Raises
    ------
    ScenarioError
        If a search would take more than `LONGEST_SEARCH`.
    """
    probes, network = math.ceil(parameters.k * len(run.speeds)), run.network.network
    latency: float = parameters.probe_latency
    if parameters.probe_latency == "network":
        latency = 2 * (network.latency + parameters.load_packet / network.bandwidth)
    if max(1, probes) * latency > LONGEST_SEARCH:
        raise ScenarioError(
            f"{parameters.name}.probe_latency must allow {probes} probes within {LONGEST_SEARCH:g} s, "
            f"got {latency!r} s for each"
        )
    return nanoseconds(latency)


#: Columns of jobs from which `RjssEnvironment.report` makes its table; times are ns.
JOB_COLUMNS = ("machine", "arrived", "start", "returned", "probes", "predicted")
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
#: Number of cached states for further draws of the same jobs.
_CACHED = 2**14


def _splitmix(x: int) -> int:
    """Return the output of SplitMix64 (Steele, Lea and Flood 2014) for state `x`."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def most_waiting(jobs: dict[str, Integers], nodes: int) -> Integers:
    """Return the maximum number of jobs that waited on each node at once."""
    peak = np.zeros(nodes, np.int64)
    order = np.lexsort((jobs["arrived"], jobs["start"], jobs["machine"]))
    machine = jobs["machine"][order]
    for rows in np.split(order, np.flatnonzero(np.diff(machine)) + 1):
        start, arrived = jobs["start"][rows], jobs["arrived"][rows]
        waiting = np.arange(1, len(rows) + 1) - np.searchsorted(start, arrived, side="right")
        peak[jobs["machine"][rows[0]]] = waiting[start > arrived].max(initial=0)
    return peak


class RjssView:
    """The services of the model to one node (`View.environment`).

    Parameters
    ----------
    environment
        The environment of the run.
    node
        The node.

    Attributes
    ----------
    rate
        Mean rate of releases here, per core, jobs/s (lambda_l); NaN if it must be estimated from the releases
        so far.
    neighbours
        The neighbours of this node on the overlay; empty without an overlay.
    probe_time
        Time from a probe to its answer, ns.
    draw
        `RjssEnvironment.draw`, which returns a random number of a job.
    travel_time
        Function that returns the travel time L of a job with the given number of bytes, ns.
    has_log
        Whether decisions are recorded.
    """

    def __init__(self, environment: RjssEnvironment, node: int) -> None:
        self._environment, self._node = environment, node
        self.rate, self.probe_time = float(environment.rates[node]), environment.probe_time
        overlay = environment.neighbours
        self.neighbours: Sequence[int] = () if overlay is None else overlay[node]
        self.draw, self.travel_time = environment.draw, environment.travel_time
        self.has_log = environment.log.limit > 0

    # -- the record of decisions, which does not affect the run ---------------------------------------------

    def log_question(self, job: int, verdict: int) -> None:
        """Record the verdict of this node on `job`."""
        self._environment.log.add_question(self._environment.adapter, self._node, job, verdict)

    def log_answer(self, job: int) -> None:
        """Record that the answer about `job` has arrived."""
        self._environment.log.add_answer(self._environment.adapter, self._node, job)

    def log_choice(self, job: int, node: int, free: int) -> None:
        """Record the node to which `job` moves (-1: it stays), and when that is free as far as known here."""
        self._environment.log.add_choice(self._environment.adapter, self._node, job, node, free)
