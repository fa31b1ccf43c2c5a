"""Checks of the arguments and the states of `gridcore.random_walk.walk`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import (
    FLAG,
    INSTANT,
    INSTANT_OR_NEVER,
    LATEST,
    ArrayEntry,
    Entry,
    NumberEntry,
    TableEntry,
)
from gridcore.common.state import read as read_state

#: Kinds of messages, in the order of `kinds`: a probe, its answer, a job that moves, and its result.
PROBE, LOAD, JOB, RESULT = range(4)
RECORD = np.dtype([("node", "i8"), ("sender", "i8"), ("job", "i8")])
PICKS = ("first", "best", "fastest")
RULES = ("none", "exactly-one", "at-least-one")
#: Verdicts on a probed node: it fits, is too slow, or expects to run its own or other nodes' jobs first.
#: Verdicts on a completed search: the job moves, or stays.
FITS, SLOW, OWN_JOBS, OTHER_JOBS, MOVES, STAYS = range(6)
VERDICTS = ("fits", "slow", "own", "others", "moves", "stays")
#: Largest size of a message, bytes.
MAX_BYTES = 2**31 - 1
#: Largest number of jobs or nodes, which are counted in 32 bits.
MAX_COUNT = 2**31 - 1
#: Largest number of cores of a node.
MAX_CORES = 2**16

#: Columns per job; times are in ns, -1 means never.
JOB_COLUMNS: dict[str, Any] = {
    "machine": np.int32,
    "probes": np.int32,
    **dict.fromkeys(("arrived", "start", "end", "returned", "predicted"), np.int64),
}
#: Names of the totals per node in the outcome of a run.
NODE_COLUMNS = ("busy", "done", "own", "remote", "peak")
#: Columns of the log, with a row for each probed node and each completed search.  Times are ns; -1: none.
#: asked: arrival of the probe at the node.  heard: arrival of the answer, or end of the search.
#: verdict: an index into `VERDICTS`.  free: when the node will be free according to its answer.
#: home_free, true_free: when the job's own node and this node will be free, as known at `heard`.
#: count: the number of jobs that explain the verdicts "own" and "others".
_PROBES = TableEntry(
    {
        **{"job": (0, "next"), "node": (-1, "nodes"), "asked": INSTANT_OR_NEVER, "heard": INSTANT_OR_NEVER},
        "verdict": (0, len(VERDICTS)),
        **dict.fromkeys(("free", "home_free", "true_free", "count"), INSTANT_OR_NEVER),
    }
)
PROBE_COLUMNS = tuple(_PROBES.columns)
#: One row per search in progress.  Its steps are stored separately: node u is u, or ~u if it was probed
#: before.
_SEARCHES = TableEntry(
    {
        **{
            "job": (0, "next"),
            "time": INSTANT,
            "sequence": INSTANT_OR_NEVER,
            "asking": FLAG,
            "taken": INSTANT,
        },
        **{"seen": (-1, "nodes"), "seen_free": INSTANT, "best": (-1, "nodes"), "best_free": INSTANT},
        "steps": (1, "up_to_walks"),
    },
    unique=("job",),  # two searches of a job would mistake each other's stamps for their own
    totals={"steps": "steps"},
)
STATE: dict[str, Entry] = {
    "now": NumberEntry(0, LATEST + 1),
    "next": NumberEntry(0, "up_to_jobs"),
    "sequence": NumberEntry(0, LATEST + 1),
    "free": ArrayEntry(np.int64, ("cores",), INSTANT),
    "answered": ArrayEntry(np.uint32, ("nodes",)),
    **{name: ArrayEntry(np.int64, ("nodes",), INSTANT) for name in NODE_COLUMNS},
    **{name: ArrayEntry(dtype, ("jobs",), INSTANT_OR_NEVER) for name, dtype in JOB_COLUMNS.items()},
    "machine": ArrayEntry(np.int32, ("jobs",), (-1, "nodes")),
    "probes": ArrayEntry(np.int32, ("jobs",), (-1, "up_to_walks")),
    "ending": TableEntry({"time": INSTANT, "job": (0, "jobs")}),
    "steps": ArrayEntry(np.int64, limits=("least", "nodes")),
    "searches": _SEARCHES,
    "dispatchers": ArrayEntry(np.int64, limits=(0, "next")),
}
LOG: dict[str, Entry] = {"probe_rows": _PROBES, "unlogged": NumberEntry(0, LATEST + 1)}


def check_arguments(
    *,
    speed: Any,
    kinds: Any,
    release: Any,
    node: Any,
    work: Any,
    data: Any,
    rate: Any,
    probes: Any,
    pick: Any,
    rule: Any,
    local_threshold: Any,
    remote_threshold: Any,
    min_speed: Any,
    probe_time: Any,
    packet: Any,
    neighbours: Any,
    neighbour_offsets: Any,
    cores: Any,
    log: Any,
    widths: Any,
) -> dict[str, NDArray[Any]]:
    """Return checked copies of the arrays among the arguments.

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit the others.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for dtype, columns in (
        (np.float64, {"speed": speed, "work": work, "rate": rate}),
        (np.int64, {"kinds": kinds, "release": release, "node": node, "data": data}),
        (np.int64, {"cores": np.ones(np.size(speed)) if cores is None else cores}),
    ):
        for name, values in columns.items():
            arrays[name] = np.ascontiguousarray(np.array(values, dtype))
            if arrays[name].ndim != 1:
                raise ValueError(f"{name} must have one dimension, got {arrays[name].ndim}")
    nodes, jobs = len(arrays["speed"]), len(arrays["release"])
    for name, count in (
        ("rate", nodes),
        ("cores", nodes),
        ("node", jobs),
        ("work", jobs),
        ("data", jobs),
        ("kinds", 4),
    ):
        if len(arrays[name]) != count:
            raise ValueError(f"{name} must have {count} entries, got {len(arrays[name])}")
    for name, count, minimum in (("speed", nodes, 1), ("release", jobs, 0)):
        if not minimum <= count <= MAX_COUNT:
            raise ValueError(f"{name} must have {minimum}..{MAX_COUNT} entries, got {count}")
    for k, number in enumerate(arrays["kinds"].tolist()):
        if not 0 <= number < len(widths) or widths[number] != RECORD.itemsize:
            raise ValueError(f"kinds[{k}] must be a kind of {RECORD.itemsize} bytes, got {number}")
    _check_range("release", arrays["release"], 0, LATEST)
    _check_range("node", arrays["node"], 0, nodes - 1)
    _check_range("data", arrays["data"], 0, MAX_BYTES)
    _check_range("cores", arrays["cores"], 1, MAX_CORES)
    for name, is_valid in (
        ("speed", arrays["speed"] > 0),
        ("work", arrays["work"] > 0),
        ("rate", ~(arrays["rate"] < 0)),
    ):
        for k in np.flatnonzero(~is_valid | np.isinf(arrays[name]))[:1]:
            condition = ">= 0, or nan" if name == "rate" else "> 0"
            raise ValueError(f"{name}[{k}] must be finite and {condition}, got {float(arrays[name][k])!r}")
    for k in np.flatnonzero(np.diff(arrays["release"]) < 0)[:1]:
        raise ValueError(
            f"release must not decrease, got {arrays['release'][k + 1]} after {arrays['release'][k]}"
        )
    for name, value, known in (("pick", pick, PICKS), ("rule", rule, RULES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    limits: tuple[tuple[str, Any, float], ...] = (
        ("probes", probes, MAX_COUNT),
        ("probe_time", probe_time, LATEST // max(1, probes)),
        ("packet", packet, MAX_BYTES),
        ("log", log, LATEST),
        ("local_threshold", local_threshold, np.inf),
        ("remote_threshold", remote_threshold, np.inf),
        ("min_speed", min_speed, np.inf),
    )
    for name, value, high in limits:
        if not 0 <= value <= high:
            raise ValueError(f"{name} must be in 0..{high}, got {value!r}")
    if (neighbours is None) != (neighbour_offsets is None):
        raise ValueError("neighbours and neighbour_offsets must be given together")
    offsets, among = np.zeros(nodes + 1, np.int64), np.zeros(0, np.int64)
    if neighbours is not None:
        offsets = _integers("neighbour_offsets", neighbour_offsets)
        among = _integers("neighbours", neighbours)
    if len(offsets) != nodes + 1:
        raise ValueError(f"neighbour_offsets must have {nodes + 1} entries, got {len(offsets)}")
    counts = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(among) or (counts < 0).any():
        raise ValueError(f"neighbour_offsets must rise from 0 to {len(among)}, got {offsets.tolist()[:9]}")
    if counts.any():
        for k in np.flatnonzero(counts == 0)[:1]:
            raise ValueError(f"node {k} must have a neighbour, as others have")
    _check_range("neighbours", among, 0, nodes - 1)
    for k in np.flatnonzero(among == np.repeat(np.arange(nodes), counts))[:1]:
        raise ValueError(f"neighbours[{k}] must be another node, got {among[k]}, the node itself")
    return {**arrays, "neighbours": among.astype(np.int32), "neighbour_offsets": offsets}


def _integers(name: str, values: Any) -> NDArray[Any]:
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        got = f"{array.dtype}{list(array.shape)}"
        raise ValueError(f"{name} must be whole numbers with one dimension, got {got}")
    return array.astype(np.int64)


def _check_range(name: str, values: NDArray[Any], low: int, high: int) -> None:
    for k in np.flatnonzero((values < low) | (values > high))[:1]:
        raise ValueError(f"{name}[{k}] must be in {low}..{high}, got {values[k]}")


def read(state: Any, nodes: int, cores: int, jobs: int, walks: int, log: int) -> dict[str, Any]:
    """Check the entries of a state, and return them by name.

    Ends of jobs without a machine and jobs that wait for a dispatcher while they are searched for are
    dropped.  A further entry, ``waiting``, has the jobs that wait at their machines, by machine and start.

    Parameters
    ----------
    cores
        The number of cores of all nodes.
    walks
        The largest number of steps of a search.
    log
        The largest number of rows of the log.
    """
    entries = read_state(
        state,
        STATE | (LOG if log else {}),
        nodes=nodes,
        cores=cores,
        jobs=jobs,
        up_to_jobs=jobs + 1,
        up_to_walks=walks + 1,
        least=-nodes,
    )
    machine, columns = entries["machine"], dict(zip(_SEARCHES.columns, entries["searches"].T, strict=True))
    columns["taken"][:] = np.minimum(columns["taken"], columns["steps"] - columns["asking"])
    entries["ending"] = entries["ending"][machine[entries["ending"][:, 1]] >= 0]
    line = entries["dispatchers"]
    entries["dispatchers"] = line[(machine[line] >= 0) | ~np.isin(line, columns["job"])]
    waiting = np.flatnonzero((entries["start"] > entries["now"]) & (machine >= 0))
    order = np.lexsort((entries["start"][waiting], machine[waiting]))
    return {**entries, "waiting": waiting[order]}
