"""Partitions of the nodes of a cluster, derived from a table of ``sacct -P`` with a column NodeList."""

from __future__ import annotations

import os
import re
from contextlib import closing
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gridsim.errors import TraceFormatError
from gridsim.support.arrays import apportion
from gridsim.support.files import StrPath
from gridsim.support.provenance import file_state
from gridsim.traces._text import text_lines
from gridsim.traces.nodes import node_names
from gridsim.traces.sacct import TEXT_COLUMNS, table_separator
from gridsim.traces.tables import read_table
from gridsim.traces.values import is_unknown

#: Columns that are read, in lower case -> pattern of their values.
_PATTERNS = {"partition": None, "nodelist": re.compile(r"[^|]*")}


class Partitions(NamedTuple):
    """The partitions that a log shows: sets of nodes whose queues ran jobs on no other nodes.

    Parameters
    ----------
    nodes
        Name of each partition, which is that of its queue with the most nodes -> number of its nodes.
    of_queue
        Name of each other queue -> its partition.
    """

    nodes: dict[str, int]
    of_queue: dict[str, str]

    def settings(self, machines: int) -> list[str]:
        """Return the flags of commands that set the partitions of all schedulers on a number of machines."""
        sizes = apportion([*self.nodes.values()], machines).tolist()
        tables: list[tuple[str, dict[str, Any]]] = [
            ("partitions", dict(zip(self.nodes, sizes, strict=True))),
            ("queue_partitions", self.of_queue),
        ]
        return [
            word
            for name, table in tables
            if table
            for word in ("--set", f"*.{name}={','.join(f'{key}={value}' for key, value in table.items())}")
        ]


def find_partitions(path: StrPath) -> Partitions | None:
    """Return the partitions of the nodes of a log; None if it does not state the nodes of jobs.

    Of a table that cannot be read they are not known.
    """
    return _find_partitions(os.fspath(path), file_state(os.fspath(path)))


@lru_cache(maxsize=16)
def _find_partitions(path: str, state: Any) -> Partitions | None:
    try:
        with closing(text_lines(path)) as lines:
            first = next((line for line in lines if line.strip()), "")
        separator = table_separator(first)
        names = [] if separator is None else [name.strip().lower() for name in first.split(separator)]
        if separator is None or not set(_PATTERNS) <= set(names):
            return None
        table = read_table(path, separator, _PATTERNS, texts=TEXT_COLUMNS)
        queues, lists = table.get("Partition"), table.get("NodeList")
        assert queues is not None and lists is not None
        queue_names, list_texts = queues.texts(), lists.texts()
        pairs = np.stack([column.rows(np.arange(len(column.texts()))) for column in (queues, lists)])
        nodes_of: dict[str, set[str]] = {}
        for queue, listed in np.unique(pairs, axis=1).T.tolist():
            if not is_unknown(queue_names[queue]):  # steps of jobs have none
                nodes_of.setdefault(queue_names[queue], set()).update(node_names(list_texts[listed]))
    except (TraceFormatError, OSError, ValueError):
        return None
    groups: list[tuple[set[str], list[str]]] = []
    for queue, nodes in sorted(nodes_of.items(), key=lambda item: -len(item[1])):
        if nodes:
            joined = [group for group in groups if group[0] & nodes]
            groups = [group for group in groups if not group[0] & nodes]
            all_nodes = nodes.union(*(group[0] for group in joined))
            groups.append((all_nodes, [*(name for group in joined for name in group[1]), queue]))
    groups.sort(key=lambda group: -len(group[0]))
    return (
        Partitions(
            {names[0]: len(nodes) for nodes, names in groups},
            {name: names[0] for _, names in groups for name in names[1:]},
        )
        if groups
        else None
    )
