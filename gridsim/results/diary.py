"""The diary of a node: the arguments, actions and changes of its handler calls, recorded on request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridsim.results.table import ArrowStream, Table
from gridsim.support import html
from gridsim.support.text import plain

#: Entry of a diary -> its sentence with placeholders for columns of the row and for `fields` (in
#: parentheses).
_SENTENCES = {
    "call": "{handler}{fields}",
    "fail": "the machine fails, and the node loses its memory",
    "send": "sends {name} to node {peer}{fields}, which arrives at {due:.6f} s",
    "lost": "sends {name} to node {peer}{fields}, which does not arrive",
    "later": "sends {name} to itself{fields}, which arrives at {due:.6f} s",
    "timer": "sets the timer {name}{fields} for {due:.6f} s",
    "cancel": "cancels the timer {name}{fields} for {due:.6f} s",
    "act": "calls act for {due:.6f} s",
    "enqueue": "enqueues {text}",
    "take": "withdraws {text} from its queue",
    "publish": "publishes {text}",
    "add": "adds to {name} of the board{fields}",
    "note": "adds a row to {name}: {text}",
    "decide": "decides {name}: {text}",
    "attribute": "{name}: {text}",
}


@dataclass(frozen=True)
class Diary(ArrowStream):
    """The handler calls of a node in a part of a run.

    Parameters
    ----------
    node
        The node.
    start, end
        Beginning and end of the part of the run, s.
    rows
        The rows of the table ``diary`` of this node and time, in order.
    left_out
        Number of rows, of all nodes, that were not kept; a call that was not recorded counts as one.
    """

    node: int
    start: float
    end: float
    rows: Table
    left_out: int = 0

    def format(self) -> str:
        """Return a line for each handler call, followed by an indented line for each of its effects."""
        lines = [f"{self._subject}: {self._calls} handler call{'s' * (self._calls != 1)}"]
        for call in self._call_lines():
            lines.append("\n    ".join(call))
        if self.left_out:
            lines.append(
                f"{self.left_out} later rows of the diary of this run were not kept: the limit was reached"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"<Diary of {self._subject}: {self._calls} handler calls>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the calls and their effects."""
        calls = list(self._call_lines())
        columns = [
            ["call", *(lines[0] for lines in calls)],
            ["then", *("; ".join(lines[1:]) for lines in calls)],
        ]
        return html.table(columns, left=(0, 1), caption=f"Diary of {self._subject}")

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.  Raises ImportError without pandas."""
        return self.rows.to_pandas()

    def to_arrow(self) -> Any:
        """Return the rows as a pyarrow Table.  Raises ImportError without pyarrow."""
        return self.rows.to_arrow()

    def to_dict(self) -> dict[str, Any]:
        """Return the diary as plain values, with None for NaN, as for a message that did not arrive."""
        rows = [
            {name: None if value != value else value for name, value in row.items()}
            for row in self.rows.rows()
        ]
        span = {"start": self.start, "end": self.end if math.isfinite(self.end) else None}
        return {"node": self.node, **span, "rows": plain(rows), "left_out": self.left_out}

    @property
    def _subject(self) -> str:
        until = f" to {self.end:g} s" if math.isfinite(self.end) else ""
        return (
            f"node {self.node} from {self.start:g} s{until}" if self.start or until else f"node {self.node}"
        )

    @property
    def _calls(self) -> int:
        return int(np.count_nonzero(self.rows["entry"] == "call"))

    def _call_lines(self) -> Iterator[list[str]]:
        """Yield the lines of each call, the first of which names the handler; a failure counts as a call."""
        lines: list[str] = []
        for row in self.rows.rows():
            if row["entry"] not in ("call", "fail"):
                lines.append(_sentence(row))
                continue
            if lines:
                yield lines
            lines = [f"t = {row['time']:.6f} s: {_sentence(row)}"]
        if lines:
            yield lines


def _sentence(row: dict[str, Any]) -> str:
    entry, fields = row["entry"], f" ({row['text']})" if row["text"] else ""
    if entry == "call" and row["name"]:
        sender = f" from node {row['peer']}" if row["peer"] >= 0 else ""
        fields = f": {row['name']}{sender}{fields}"
    if entry == "send" and math.isnan(row["due"]):
        entry = "lost"
    return _SENTENCES.get(entry, "{entry} {text}").format(**row, fields=fields)


def diary_of(table: Table, node: int, start: float, end: float, left_out: int) -> Diary:
    """Return the part of the table ``diary`` about `node` from `start` to `end` s, both included."""
    is_included = (table["node"] == node) & (table["time"] >= start) & (table["time"] <= end)
    rows = np.flatnonzero(is_included)
    return Diary(node, start, end, Table({name: column[rows] for name, column in table.items()}), left_out)
