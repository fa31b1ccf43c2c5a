"""What `gridcore.random_walk.walk` is told, and its state as read from a checkpoint, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import FLAG, INSTANT, LATEST, OR_NEVER, Array, Entry, Number, Rows, refuse
from gridcore.common.state import read as read_state

#: Kinds of message, and so the order of `kinds`: a probe, its answer, a job that moves, and its result.
PROBE, LOAD, JOB, RESULT = range(4)
RECORD = np.dtype([("node", "i8"), ("sender", "i8"), ("job", "i8")])
PICKS = ("first", "best", "fastest")
RULES = ("none", "exactly-one", "at-least-one")
#: Of a node that was asked: it fits, it is slow, a job of its own is likely, or jobs of others are; and of a
#: search that is over: its job moves, or stays.
FITS, SLOW, OWN, OTHERS, MOVES, STAYS = range(6)
VERDICTS = ("fits", "slow", "own", "others", "moves", "stays")
#: Bytes of a message.
MOST_BYTES = 2**31 - 1
#: Jobs and nodes are counted in 32 bits.
MOST = 2**31 - 1

#: Per job; times are ns, -1 for never.
JOB_COLUMNS: dict[str, Any] = {
    "machine": np.int32,
    "probes": np.int32,
    **dict.fromkeys(("arrived", "start", "end", "returned", "predicted"), np.int64),
}
#: Per node, as reported.
NODE_COLUMNS = ("busy", "done", "own", "remote", "peak")
#: What is logged of a node that was asked and of a search that is over.  Times are ns; -1 for none.
#: asked : when the probe came to the node; heard : when the answer was back, or the search over.
#: verdict : its place in `VERDICTS`.  free : when the node will be free, as heard.
#: home_free, true_free : when the job's own node and this one really will be, as of `heard`.
#: count : jobs on which "own" and "others" rest.
_LOOKS = Rows(
    {
        **{"job": (0, "next"), "node": (-1, "nodes"), "asked": OR_NEVER, "heard": OR_NEVER},
        "verdict": (0, len(VERDICTS)),
        **dict.fromkeys(("free", "home_free", "true_free", "count"), OR_NEVER),
    }
)
LOOKS = tuple(_LOOKS.columns)
#: Searches under way, a row each, then their steps: a node, or ~node if it has been asked before.
_SEARCHES = Rows(
    {
        **{"job": (0, "next"), "time": INSTANT, "sequence": OR_NEVER, "asking": FLAG, "taken": OR_NEVER},
        **{"seen": (-1, "nodes"), "seen_free": INSTANT, "best": (-1, "nodes"), "best_free": INSTANT},
        "steps": (1, "up_to_walks"),
    }
)
STATE: dict[str, Entry] = {
    "now": Number(0, LATEST + 1),
    "next": Number(0, "up_to_jobs"),
    "sequence": Number(0, LATEST + 1),
    "free": Array(np.int64, ("nodes",), INSTANT),
    "answered": Array(np.uint32, ("nodes",)),
    **{name: Array(np.int64, ("nodes",), INSTANT) for name in NODE_COLUMNS},
    **{name: Array(dtype, ("jobs",), OR_NEVER) for name, dtype in JOB_COLUMNS.items()},
    "machine": Array(np.int32, ("jobs",), (-1, "nodes")),
    "probes": Array(np.int32, ("jobs",), (-1, "up_to_walks")),
    "ending": Rows({"time": INSTANT, "job": (0, "jobs")}),
    "searches": _SEARCHES,
    "steps": Array(np.int64, limits=("least", "nodes")),
    "dispatchers": Array(np.int64, limits=(0, "jobs")),
}
LOG: dict[str, Entry] = {"looks": _LOOKS, "unlogged": Number(0, LATEST + 1)}


def checked(
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
    log: Any,
    widths: Any,
) -> dict[str, NDArray[Any]]:
    """Copies of the arrays among the arguments: nobody changes them once they are checked.

    ValueError naming what is wrong.
    """
    made: dict[str, NDArray[Any]] = {}
    for dtype, columns in (
        (np.float64, {"speed": speed, "work": work, "rate": rate}),
        (np.int64, {"kinds": kinds, "release": release, "node": node, "data": data}),
    ):
        for name, given in columns.items():
            made[name] = np.ascontiguousarray(np.array(given, dtype))
            if made[name].ndim != 1:
                raise ValueError(f"{name} must have one dimension, got {made[name].ndim}")
    nodes, jobs = len(made["speed"]), len(made["release"])
    for name, count in (("rate", nodes), ("node", jobs), ("work", jobs), ("data", jobs), ("kinds", 4)):
        if len(made[name]) != count:
            raise ValueError(f"{name} must have {count} entries, got {len(made[name])}")
    if not (0 < nodes <= MOST and jobs <= MOST):
        raise ValueError(
            f"speed must have 1..{MOST} entries and release at most as many, got {nodes}, {jobs}"
        )
    for k, number in enumerate(made["kinds"].tolist()):
        if not 0 <= number < len(widths) or widths[number] != RECORD.itemsize:
            raise ValueError(f"kinds[{k}] must be a kind of {RECORD.itemsize} bytes, got {number}")
    _whole("release", made["release"], 0, LATEST)
    _whole("node", made["node"], 0, nodes - 1)
    _whole("data", made["data"], 0, MOST_BYTES)
    for name, sound in (
        ("speed", made["speed"] > 0),
        ("work", made["work"] > 0),
        ("rate", ~(made["rate"] < 0)),
    ):
        for k in np.flatnonzero(~sound | np.isinf(made[name]))[:1]:
            wanted = ">= 0, or nan" if name == "rate" else "> 0"
            raise ValueError(f"{name}[{k}] must be finite and {wanted}, got {float(made[name][k])!r}")
    for k in np.flatnonzero(np.diff(made["release"]) < 0)[:1]:
        raise ValueError(
            f"release must not decrease, got {made['release'][k + 1]} after {made['release'][k]}"
        )
    for name, value, known in (("pick", pick, PICKS), ("rule", rule, RULES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")
    limits: tuple[tuple[str, Any, float], ...] = (
        ("probes", probes, MOST),
        ("probe_time", probe_time, LATEST // max(1, probes)),
        ("packet", packet, MOST_BYTES),
        ("log", log, LATEST),
        ("local_threshold", local_threshold, np.inf),
        ("remote_threshold", remote_threshold, np.inf),
        ("min_speed", min_speed, np.inf),
    )
    for name, value, high in limits:
        if not 0 <= value <= high:
            raise ValueError(f"{name} must be in 0..{high}, got {value!r}")
    table = np.zeros((nodes, 0), np.int32) if neighbours is None else neighbours
    if not (isinstance(table, np.ndarray) and table.dtype == np.int32 and table.ndim == 2):
        raise ValueError("neighbours must be int32[nodes, degree]")
    table = np.array(table, order="C")
    if len(table) != nodes:
        raise ValueError(f"neighbours must have {nodes} rows, got {len(table)}")
    _whole("neighbours", table.ravel(), 0, nodes - 1)
    for k in np.flatnonzero((table == np.arange(nodes)[:, None]).any(axis=1))[:1]:
        raise ValueError(f"neighbours[{k}] must not have {k} itself")
    return {**made, "neighbours": table}


def _whole(name: str, values: NDArray[Any], low: int, high: int) -> None:
    for k in np.flatnonzero((values < low) | (values > high))[:1]:
        raise ValueError(f"{name}[{k}] must be in {low}..{high}, got {values[k]}")


def read(
    state: Any, nodes: int, home: NDArray[np.int64], walks: int, queued: bool, log: int
) -> dict[str, Any]:
    """The entries of a state, checked.

    Parameters
    ----------
    home
        Of each job.
    walks
        Steps of a search, at most.
    queued
        Whether jobs and results wait for dispatchers.
    log
        Rows of the log, at most.
    """
    made = read_state(
        state,
        STATE | (LOG if log else {}),
        nodes=nodes,
        jobs=len(home),
        up_to_jobs=len(home) + 1,
        up_to_walks=walks + 1,
        least=-nodes,
    )
    if log:
        _, node, _, heard = made["looks"].T[:4]
        sound = ((node >= 0) | (heard >= 0)) & (np.arange(len(heard)) < log)
        refuse("looks", ~sound, "a row of this log")
    refuse("ending", made["machine"][made["ending"][:, 1]] < 0, "of a job that has a machine")
    of = dict(zip(_SEARCHES.columns, made["searches"].T, strict=True))
    # a job looks for a node once, when it has been released: else it would meet its own stamps
    sound = (of["taken"] >= 1 - of["asking"]) & (of["taken"] < of["steps"] + 1 - of["asking"])
    sound &= np.isin(np.arange(len(sound)), np.unique(of["job"], return_index=True)[1])
    refuse("searches", ~sound, "a search of these jobs")
    if int(of["steps"].sum()) != len(made["steps"]):
        raise ValueError(f"state['steps'] must be those of the searches, {of['steps'].sum()}")
    _dispatchers(made, home, of["job"] if queued else None)
    waiting = np.flatnonzero((made["start"] > made["now"]) & (made["machine"] >= 0))
    order = np.lexsort((made["start"][waiting], made["machine"][waiting]))
    return {**made, "waiting": waiting[order]}


def _dispatchers(made: dict[str, Any], home: NDArray[np.int64], deciding: NDArray[np.int64] | None) -> None:
    """Who waits for a dispatcher, in order: jobs without a machine, and others that have run.

    Parameters
    ----------
    deciding
        The jobs for which dispatchers look for a node; None where nobody waits.
    """
    line = made["dispatchers"]
    if deciding is None:
        sound, deciding = np.zeros(len(line), np.bool_), np.zeros(0, np.int64)
    else:
        busy = np.bincount(home[deciding], minlength=1)
        for k in np.flatnonzero(busy[home[deciding]] > 1)[:1]:
            node = home[deciding[k]]
            raise ValueError(f"state['searches'] must have one search of node {node}, got {busy[node]}")
        machine = made["machine"][line]
        node = np.where(machine < 0, home[line], machine)
        sound = np.isin(node, home[deciding]) & (line < made["next"]) & ~np.isin(line, deciding)
        sound &= (machine < 0) | ((made["end"][line] <= made["now"]) & (made["returned"][line] < 0))
        sound &= ~np.isin(line, made["ending"][:, 1])
    sound &= np.isin(np.arange(len(line)), np.unique(line, return_index=True)[1])
    refuse("dispatchers", ~sound, "a job that waits for one")
