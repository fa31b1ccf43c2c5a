"""Cores and memory of the nodes of a cluster, derived from a table of ``sacct -P`` with a column NodeList.

Such a table does not state the size of nodes, but the nodes of each job and what it had of them.  The most
that jobs had of a node at once is a lower bound of its size, and equal to it once jobs have filled the node.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gridsim.support.files import StrPath
from gridsim.traces._text import format_error, truncate
from gridsim.traces.sacct import read_allocations
from gridsim.traces.values import is_unknown

#: Largest number of nodes in a list of nodes.
MAX_NODES = 1 << 20
#: Largest number of pairs of a job and one of its nodes in a table.
_MAX_PAIRS = 1 << 27
_LIST = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@dataclass(frozen=True)
class NodeSizes:
    """Sizes of the nodes of a cluster: the most that jobs had of each at once.

    Parameters
    ----------
    path
        The table that was read.
    name
        Names of the n nodes, in alphabetical order.
    cores
        int64[n].
    memory
        float64[n], bytes; NaN if the table does not state the memory of jobs.
    jobs
        int64[n], number of jobs that ran on the node.
    """

    path: str
    name: tuple[str, ...]
    cores: NDArray[np.int64]
    memory: NDArray[np.float64]
    jobs: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)

    def facts(self) -> dict[str, int | float]:
        """Return the number of nodes, their cores, and their median and largest size, as plain values."""
        facts = {
            "count": len(self),
            "cores": int(self.cores.sum()),
            "cores_median": float(np.median(self.cores)),
            "cores_max": int(self.cores.max()),
        }
        memory = self.memory[~np.isnan(self.memory)]
        if len(memory):
            facts |= {
                "memory_median_bytes": float(np.median(memory)),
                "memory_max_bytes": float(memory.max()),
            }
        return facts


def read_nodes(path: StrPath) -> NodeSizes:
    """Derive the cores and memory of nodes from a table of ``sacct -P``.

    The CPUs and memory of a job are divided evenly among its nodes, CPUs rounded down.  A job that has not
    ended is on its nodes until the end of the table.

    Raises
    ------
    TraceFormatError
        If the table has no column NodeList, of starts, of ends or run times, or of CPUs, if no job has nodes,
        or if a value cannot be read.
    """
    jobs = read_allocations(path)
    numbers: dict[str, int] = {}
    lists: dict[int, NDArray[np.int64]] = {}
    for k in np.unique(jobs.list_of).tolist():
        try:
            names = node_names(jobs.nodes[k])
        except ValueError as error:
            line = int(jobs.line[np.argmax(jobs.list_of == k)])
            message = f"field NodeList must be {error}, got {truncate(jobs.nodes[k])!r}"
            raise format_error(path, line, message) from None
        lists[k] = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    widths = np.array([len(lists[k]) for k in jobs.list_of.tolist()], np.int64)
    if not widths.any():
        raise format_error(path, 0, "no job that has started has nodes in NodeList")
    if widths.sum() > _MAX_PAIRS:
        message = f"jobs must have at most {_MAX_PAIRS} nodes in total, got {widths.sum()}"
        raise format_error(path, 0, message)
    node = np.concatenate([lists[k] for k in jobs.list_of.tolist()])
    divisor = np.maximum(widths, 1)
    order = np.argsort(np.array(list(numbers)))
    rank = np.argsort(order)
    at_once = [
        _most_at_once(
            rank[node],
            np.repeat(jobs.start, widths),
            np.repeat(jobs.end, widths),
            np.repeat(np.floor(np.nan_to_num(amount) / divisor), widths),
            len(order),
        )
        for amount in (jobs.cpus, jobs.memory)
    ]
    is_stated = np.zeros(len(order), np.bool_)
    is_stated[rank[node][np.repeat(~np.isnan(jobs.memory), widths)]] = True
    names_by_number = list(numbers)
    return NodeSizes(
        os.fspath(path),
        tuple(names_by_number[k] for k in order.tolist()),
        at_once[0].astype(np.int64),
        np.where(is_stated, at_once[1] * 1024.0, np.nan),
        np.bincount(rank[node], minlength=len(order)),
    )


def node_names(text: str) -> list[str]:
    """Return the names in a list of nodes of Slurm, such as ``n[01-03,7],gpu1``; [] for no nodes.

    Raises
    ------
    ValueError
        If the text is not a list, or has more than `MAX_NODES` names; the error is the condition.
    """
    text = text.strip()
    if is_unknown(text) or text == "None assigned":
        return []
    if _LIST.sub("", text).replace(",", ""):
        raise ValueError("a list of nodes such as n[01-04,7]")
    names: list[str] = []
    for entry in _LIST.findall(text):
        choices = [
            [literal] if literal else _numbers(ranges, MAX_NODES) for ranges, literal in _PART.findall(entry)
        ]
        if len(names) + math.prod(map(len, choices)) > MAX_NODES:
            raise ValueError(f"a list of at most {MAX_NODES} nodes")
        names += map("".join, product(*choices))
    return names


def _numbers(ranges: str, limit: int) -> list[str]:
    """Return the numbers in ranges such as 01-04,7, with their leading zeros."""
    numbers: list[str] = []
    for entry in ranges.split(","):
        match = _RANGE.fullmatch(entry.strip())
        if match is None:
            raise ValueError("a list of nodes such as n[01-04,7]")
        low, high = match[1], match[2] or match[1]
        if int(high) - int(low) + len(numbers) >= limit:
            raise ValueError(f"a list of at most {limit} nodes")
        numbers += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
    return numbers


def _most_at_once(
    node: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    amount: NDArray[np.float64],
    nodes: int,
) -> NDArray[np.float64]:
    """Return the largest sum of amounts in use at once on each node; ends come before starts."""
    node, time = np.concatenate((node, node)), np.concatenate((start, np.maximum(start, end)))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((change, time, node))
    # whole numbers, so that all that is taken is given back exactly, and sums of a node begin at 0
    sums = np.cumsum(change[order])
    most = np.zeros(nodes)
    np.maximum.at(most, node[order], sums)
    return most
