"""What `gridcore.random_walk.walk` is told, and its state as read from a checkpoint, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST, State

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
LOOKS = ("job", "node", "asked", "heard", "verdict", "free", "home_free", "true_free", "count")
#: Searches under way, a row each, then their steps: a node, or ~node if it has been asked before.
SEARCH = ("job", "time", "sequence", "asking", "taken", "seen", "seen_free", "best", "best_free", "steps")


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

    home : of each job.  walks : steps of a search, at most.  queued : whether jobs and results wait for
        dispatchers.  log : rows of the log, at most.
    """
    state, jobs = State(state), len(home)
    made: dict[str, Any] = {
        "now": state.whole("now", 0, LATEST),
        "next": state.whole("next", 0, jobs),
        "sequence": state.whole("sequence", 0, LATEST),
        "free": state.array("free", np.int64, (nodes,), 0, LATEST),
        "answered": state.array("answered", np.uint32, (nodes,)),
    }
    for name in NODE_COLUMNS:
        made[name] = state.array(name, np.int64, (nodes,), 0, LATEST)
    for name, dtype in JOB_COLUMNS.items():
        high = nodes - 1 if name == "machine" else walks if name == "probes" else LATEST
        made[name] = state.array(name, dtype, (jobs,), -1, high)
    if log:
        made["looks"] = looks = state.array("looks", np.int64, (None, len(LOOKS)), -1, LATEST)
        made["unlogged"] = state.whole("unlogged", 0, LATEST)
        job, node, _, heard, verdict = looks.T[:5]
        sound = (job >= 0) & (job < made["next"]) & (node < nodes) & ((node >= 0) | (heard >= 0))
        sound &= (verdict >= 0) & (verdict < len(VERDICTS)) & (np.arange(len(looks)) < log)
        for k in np.flatnonzero(~sound)[:1]:
            raise ValueError(f"state['looks'][{k}] must be a row of this log, got {looks[k].tolist()}")
    made["ending"] = state.array("ending", np.int64, (None, 2), 0, LATEST)
    made["searches"] = searches = state.array("searches", np.int64, (None, len(SEARCH)), -1, LATEST)
    made["steps"] = steps = state.array("steps", np.int64, (None,), -nodes, nodes - 1)
    placed = np.append(made["machine"] >= 0, False)
    for k in np.flatnonzero(~placed[np.minimum(made["ending"][:, 1], jobs)])[:1]:
        job = made["ending"][k, 1]
        raise ValueError(f"state['ending'][{k}] must name a job that has a machine, got {job}")
    of = dict(zip(SEARCH, searches.T, strict=True))
    # a job looks for a node once, when it has been released: else it would meet its own stamps
    sound = (of["job"] >= 0) & (of["job"] < made["next"]) & (of["time"] >= 0) & (of["asking"] >= 0)
    sound &= (of["seen"] < nodes) & (of["best"] < nodes) & (of["seen_free"] >= 0) & (of["best_free"] >= 0)
    sound &= (of["steps"] >= 1) & (of["steps"] <= walks) & (of["taken"] >= 1 - of["asking"])
    sound &= (of["taken"] < of["steps"] + 1 - np.minimum(of["asking"], 1)) & (of["asking"] <= 1)
    sound &= np.isin(np.arange(len(searches)), np.unique(of["job"], return_index=True)[1])
    for k in np.flatnonzero(~sound)[:1]:
        raise ValueError(f"state['searches'][{k}] must be a search of these jobs, got {searches[k].tolist()}")
    if int(of["steps"].sum()) != len(steps):
        raise ValueError(
            f"state['steps'] must be {of['steps'].sum()}, as the searches have, got {len(steps)}"
        )
    _dispatchers(state, made, home, of["job"] if queued else None)
    waiting = np.flatnonzero((made["start"] > made["now"]) & (made["machine"] >= 0))
    order = np.lexsort((made["start"][waiting], made["machine"][waiting]))
    return {**made, "waiting": waiting[order]}


def _dispatchers(
    state: State, made: dict[str, Any], home: NDArray[np.int64], deciding: NDArray[np.int64] | None
) -> None:
    """Who waits for a dispatcher, in order: jobs without a machine, and others that have run.

    deciding : the jobs for which dispatchers look for a node; None where nobody waits.
    """
    made["dispatchers"] = line = state.array("dispatchers", np.int64, (None,), 0, len(home) - 1)
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
    for k in np.flatnonzero(~sound)[:1]:
        raise ValueError(f"state['dispatchers'][{k}] must be a job that waits for one, got {line[k]}")
