"""Dodoor and its rivals on heterogeneous servers: messages, response times and utilization.

W. Da and E. Kalyvianaki, "Dodoor: efficient randomized decentralized scheduling with load caching for
heterogeneous tasks and clusters" (arXiv 2510.12889, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import msgspec
import numpy as np

import gridsim as gs
from gridsim.reproduce.framework import Case, Measurements, Reproduction, ResultGrid, Run, lines
from gridsim.reproduce.verdicts import SMALLER, ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import NodeForm
from gridsim.support.arrays import Floats
from gridsim.support.random_streams import Streams

MESSAGES = "Dodoor reduces scheduling messages by 55 to 66 %"
MEAN = "it reduces the mean makespan latency"
TAIL = "it improves the tail latency"

#: Number of cores of a server -> number of servers; every other server has twice the speed of the rest.
SERVERS = {4: 50, 8: 30, 16: 20}
SPEEDS = (1000.0, 2000.0)
LOADS = (0.5, 0.7, 0.9)
#: Number of bags of the full and the quick run; the bags of the second half are measured.
BAGS = 12_000, 3_000
#: Maximum number of tasks of a bag.
TASKS = 5
#: Mean task size, Mflop; the deviation of the logarithm of sizes, and the size at which they are cut off, in
#: multiples of the mean before that.
SIZE, DEVIATION, CUT = 10_000.0, 1.0, 6.0
#: Batches of Dodoor, for which a scheduler reports after min(8, batch) decisions.
BATCHES = (1, 16, 64, 256, 1024)

DODOOR, POWER, SPARROW, RANDOM = "dodoor", "power-of-d", "sparrow", "random"
BOARD, WORK = "shorter queue", "less work"
RIVALS = (POWER, SPARROW, BOARD, WORK)
ALL_MESSAGES, REQUESTS = "all messages", "requests"
#: Scheduler -> kinds of messages that are not requests of a scheduler: answers, and reports of servers.
NO_REQUESTS: Mapping[str, tuple[str, ...]] = {
    DODOOR: ("register", "state"),
    POWER: ("answer",),
    SPARROW: ("task", "none"),
}

_FORMS: tuple[NodeForm, ...] = ("compiled", "interpreted") if find_spec("numba") else ("interpreted",)


class _Dodoor(gs.Dodoor, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


class _Power(gs.PowerOfD, frozen=True, kw_only=True):
    node_forms: ClassVar[tuple[NodeForm, ...]] = _FORMS


SCHEDULERS: dict[str, gs.Scheduler] = {
    DODOOR: _Dodoor(),
    "dodoor, cores only": _Dodoor(duration_weight=0.0),
    "dodoor, duration only": _Dodoor(duration_weight=1.0),
    POWER: _Power(),
    SPARROW: gs.Sparrow(),
    BOARD: gs.JoinShortestQueue(choices=2),
    WORK: gs.LeastWork(choices=2),
    RANDOM: gs.Random(),
}


def batch_label(batch: int) -> str:
    """Return the name of Dodoor with a batch."""
    return f"dodoor, b = {batch}"


@dataclass(frozen=True)
class HeterogeneousBags:
    """Factory of scenarios: servers with different cores and speeds, and Poisson arrivals of bags."""

    load: float
    bags: int

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``dodoor-0.9``."""
        return f"dodoor-{self.load:g}"

    def __call__(self, seed: int) -> gs.Scenario:
        streams = Streams(seed)
        cores = np.repeat(list(SERVERS), list(SERVERS.values()))
        speeds = np.resize(SPEEDS, len(cores))
        gap = SIZE * (1 + TASKS) / 2 / (self.load * float(cores @ speeds))
        release = np.cumsum(streams("dodoor arrivals").exponential(gap, self.bags))
        normal = streams("dodoor sizes").standard_normal(self.bags)
        shares = np.minimum(np.exp(DEVIATION * normal - DEVIATION**2 / 2), CUT)
        tasks = streams("dodoor tasks").integers(1, TASKS + 1, size=self.bags)
        submitter = streams("dodoor submitters").integers(len(cores), size=self.bags)
        return gs.Scenario(
            gs.Platform.of(speeds, cores=cores.tolist()),
            gs.Workload.of(release, tasks, SIZE * shares / shares.mean(), submitter=submitter, origin=0.0),
            gs.Network(latency=0.0005, bandwidth=math.inf, interfaces="equal"),
            seed,
        )


# -- metrics ----------------------------------------------------------------------------------------------


def messages_per_task(result: gs.Result) -> float:
    """Return the number of messages between machines per task, those that move tasks included."""
    return _per_task(result, result.messages["sent"])


def requests_per_task(result: gs.Result) -> float:
    """Return the number of requests that schedulers send or answer per task, as the authors count them."""
    is_request = ~np.isin(result.messages["kind"], NO_REQUESTS.get(result.scheduler["name"], ()))
    return _per_task(result, result.messages["sent"][is_request])


def bytes_per_task(result: gs.Result) -> float:
    """Return the size of all messages per task, bytes."""
    return _per_task(result, result.messages["bytes"])


def _per_task(result: gs.Result, column: Any) -> float:
    return float(column.sum() / result.applications["tasks"].sum())


def mean_response(result: gs.Result) -> float:
    """Return the mean time from the release of a bag to its end, of the second half of the bags, s."""
    return float(_responses(result).mean())


def p99_response(result: gs.Result) -> float:
    """Return the 99th percentile of the time from the release of a bag to its end, of the second half, s."""
    return float(np.percentile(_responses(result), 99))


def _responses(result: gs.Result) -> Floats:
    times: Floats = result.applications["finish"] - result.applications["release"]
    return times[len(times) // 2 :]


def utilization(result: gs.Result) -> float:
    """Return the share of the time of all cores that is used, %."""
    return 100 * float(result.utilization)


def makespan(result: gs.Result) -> float:
    """Return the time from the first release to the last end, s."""
    return float(result.makespan)


METRICS: dict[str, MetricFunction] = {
    ALL_MESSAGES: messages_per_task,
    REQUESTS: requests_per_task,
    "bytes": bytes_per_task,
    "mean response": mean_response,
    "p99 response": p99_response,
    "utilization": utilization,
    "makespan": makespan,
}
#: Metric -> column heading.
HEADINGS = {
    ALL_MESSAGES: "messages / task",
    REQUESTS: "requests / task",
    "bytes": "bytes / task",
    "mean response": "mean response, s",
    "p99 response": "p99 response, s",
    "utilization": "utilization, %",
    "makespan": "makespan, s",
}


# -- experiment -------------------------------------------------------------------------------------------


def _cases(run: Run) -> dict[str, Case]:
    batches: dict[str, gs.Scheduler] = {
        batch_label(batch): msgspec.structs.replace(_Dodoor(), batch=batch, decisions=min(8, batch))
        for batch in BATCHES
    }
    schedulers = SCHEDULERS | batches
    return {f"load {load:g}": Case(HeterogeneousBags(load, run.choose(*BAGS)), schedulers) for load in LOADS}


def _rows(data: Measurements) -> Iterator[Row]:
    for case, values in data.items():
        for metric in (REQUESTS, ALL_MESSAGES):
            for rival in (POWER, SPARROW):
                saving = estimate(100 * (1 - values[metric][DODOOR] / values[metric][rival]))
                is_published = rival == POWER
                yield judge(
                    MESSAGES if is_published else "",
                    f"{case}: {metric}, fewer than {rival}",
                    saving,
                    ClaimedRange("55 to 66", 55.0, 66.0) if is_published else None,
                    unit="%",
                )
        for claim, metric in ((MEAN, "mean response"), (TAIL, "p99 response")):
            for rival in RIVALS:
                is_published = rival == POWER
                yield judge(
                    claim if is_published else "",
                    f"{case}: {metric}, dodoor / {rival}",
                    values.mean_ratio(DODOOR, rival, metric),
                    SMALLER if is_published else None,
                )
        for metric in (REQUESTS, ALL_MESSAGES):
            for batch in BATCHES:
                saving = estimate(100 * (1 - values[metric][batch_label(batch)] / values[metric][POWER]))
                yield judge("", f"{case}, b = {batch}: {metric}, fewer than {POWER}", saving, unit="%")


def _grids(data: Measurements) -> Iterator[ResultGrid]:
    labels = {"": list(SCHEDULERS), ", batches": list(map(batch_label, BATCHES))}
    for case, values in data.items():
        for title, names in labels.items():
            rows = {name: [values.mean(name, metric) for metric in HEADINGS] for name in names}
            yield ResultGrid(f"{case}{title}", ["scheduler", *HEADINGS.values()], rows)


CACHED_LOADS = Reproduction(
    name="dodoor",
    title="Dodoor, power of two choices, Sparrow and boards on heterogeneous servers",
    paper="Da and Kalyvianaki 2025",
    claims=(MESSAGES, MEAN, TAIL),
    cases=_cases,
    metrics=METRICS,
    rows=_rows,
    grids=_grids,
    remarks=(
        "100 servers: 50 of 4 cores, 30 of 8 and 20 of 16, every other one of 1000 and of 2000 Mflop/s; "
        "Poisson arrivals of bags of 1 to 5 tasks; task sizes differ from bag to bag, lognormal up to six "
        "times the mean, which is 10,000 Mflop (10 s on a slow core); a message takes 0.5 ms.",
        "Messages: all between machines, also those that move tasks.  Requests: those that schedulers send "
        "or receive, as the authors count them: a probe and its answer are one, and reports of servers to "
        "the data store are none.  600 registrations of servers, for which the authors have configuration "
        "files, and first reports count as messages.",
        "The authors' rivals are power of two choices with probes, and Prequal, which gridsim lacks.  "
        "Only the first is judged.  Sparrow has late binding, and its probes go to single cores.",
        "shorter queue, less work: two choices by a board that is fresh at each decision and takes no "
        "messages.",
        "Response: from the release of a bag to the end of its last task, of the second half of the bags.",
        "Two uniform choices keep up with loads up to 0.872: 65 servers, of 4 cores or of 8 slow ones, have "
        "36.8 % of the capacity, and both choices are among them for 42.25 % of the tasks.  Above, queues "
        "grow, and means are those of this span.",
        "Throughput is not judged: arrivals set it as long as queues do not grow.",
    ),
    figure=lines(
        (LOADS, LOADS),
        {HEADINGS[metric]: metric for metric in (ALL_MESSAGES, "mean response", "p99 response")},
        {"xlabel": "load"},
        [name for name in SCHEDULERS if name != RANDOM],
        name_as="ylabel",
        shared=True,
    ),
)
