"""Decisions: who decided what, what it saw, how old that was, and what was true; recorded on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.records import Table
from gridsim.states import Stateful

#: Rows that are kept, unless another number is asked for.
DECISIONS_LIMIT = 1_000_000
_NS = 10**9  # results, which know this module, share nothing with the engine

#: An action -> (sentence, quantity, unit); see `gridsim.scheduler.Scheduler.decision_words`.
Words = Mapping[str, tuple[str, str, str]]

_ROW = np.dtype(
    [
        ("time", "i8"),
        ("application", "i8"),
        ("task", "i8"),
        ("action", "i2"),
        ("decider", "i8"),
        ("level", "i2"),
        ("machine", "i8"),
        ("tasks", "i8"),
        ("among", "i8"),
        ("saw", "f8"),
        ("limit", "f8"),
        ("true", "f8"),
        ("age", "f8"),
    ]
)


class Decisions(Stateful):
    """The decisions of a run, in the order in which they were noted; those beyond `limit` are only counted.

    words : what can be noted, and how it is said.
    """

    STATE: ClassVar[tuple[str, ...]] = ("rows", "kept", "dropped")

    def __init__(self, words: Words, limit: int = DECISIONS_LIMIT) -> None:
        self.words, self.limit = dict(words), limit
        self._code = {action: code for code, action in enumerate(self.words)}
        self.rows: list[NDArray[Any]] = []
        self.kept = self.dropped = 0

    def note(
        self,
        action: Any,
        *,
        time: Any,
        application: Any,
        decider: Any,
        task: Any = -1,
        level: Any = -1,
        machine: Any = -1,
        tasks: Any = 0,
        among: Any = -1,
        saw: Any = np.nan,
        limit: Any = np.nan,
        true: Any = np.nan,
        age: Any = np.nan,
    ) -> None:
        """Note decisions: numbers, or arrays of one length.

        action : one of the words, or an array of them.
        time : ns.  decider : the machine that decided, -1 for a central scheduler.  level : of it in the
            tree.
        machine : to which it was.  tasks : so many.  among : so many were to choose from.
        saw : the value on which it decided, as far as it knew; limit : what that was held against; true :
            what it was in truth at that moment; all in the unit of the action's words.  age : s, of what it
            saw.

        What does not apply is left out.  KeyError for an action that has no words.
        """
        given = {
            "time": time, "application": application, "task": task, "decider": decider, "level": level,
            "machine": machine, "tasks": tasks, "among": among, "saw": saw, "limit": limit, "true": true,
            "age": age,
        }  # fmt: skip
        one = isinstance(action, str)
        code: Any = self._code[action] if one else np.array([self._code[each] for each in action], np.int16)
        count = max((len(value) for value in given.values() if np.ndim(value)), default=1)
        room = min(count, self.limit - self.kept)
        self.dropped += count - room
        if not room:
            return
        rows = np.empty(room, _ROW)
        rows["action"] = code if one else code[:room]
        for name, value in given.items():
            rows[name] = value[:room] if np.ndim(value) else value
        self.rows.append(rows)
        self.kept += room
        if len(self.rows) > 1024:
            self.rows = [np.concatenate(self.rows)]

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.states.Stateful`."""
        self.rows = [np.concatenate(self.rows)] if self.rows else []
        return super().getstate()

    def table(self) -> Table:
        """The rows, with times in s."""
        rows = np.concatenate([np.zeros(0, _ROW), *self.rows])
        columns = {name: rows[name].copy() for name in _ROW.names or ()}
        columns["time"] = rows["time"] / _NS
        columns["action"] = np.array(list(self.words), np.str_)[rows["action"]]
        return Table(columns)

    def about(self) -> dict[str, Any]:
        """What a result says of them beside the table: how they are said, and how many there were."""
        words = {action: list(said) for action, said in self.words.items()}
        return {"words": words, "kept": self.kept, "dropped": self.dropped, "limit": self.limit}


@dataclass(frozen=True)
class Why:
    """Why an application, a job or a task of one ran where and when it did.

    decisions : rows of the table ``decisions`` about it, in order of time.
    words : how they are said.  dropped : rows that were not kept, of all applications.
    """

    application: int
    task: int | None
    decisions: Table
    words: Words
    dropped: int = 0

    def format(self) -> str:
        """A line a decision."""
        what = f"application {self.application}" + ("" if self.task is None else f", task {self.task}")
        lines = [f"{what}: {len(self.decisions)} decisions"]
        lines += [_line(row, self.words[row["action"]]) for row in self.decisions.rows()]
        if self.dropped:
            lines.append(f"{self.dropped} later decisions of this run were not kept: its limit was met")
        return "\n".join(lines)

    __str__ = format


def why(table: Table, about: Mapping[str, Any], application: int, task: int | None) -> Why:
    """The decisions of `table` about `application`, and of these on the whole of it or `task`."""
    chosen = table["application"] == application
    if task is not None:
        chosen &= (table["task"] == task) | (table["task"] == -1)
    which = np.flatnonzero(chosen)
    which = which[np.argsort(table["time"][which], kind="stable")]
    rows = Table({name: column[which] for name, column in table.items()})
    words = {action: tuple(said) for action, said in about["words"].items()}
    return Why(application, task, rows, words, int(about["dropped"]))


def _line(row: dict[str, Any], said: tuple[str, str, str]) -> str:
    sentence, quantity, unit = said
    who = "the central scheduler" if row["decider"] < 0 else f"machine {row['decider']}"
    level = f" (level {row['level']})" if row["level"] >= 0 else ""
    parts = [sentence.format(**row)]
    if row["among"] >= 0:
        parts.append(f"among {row['among']}")
    if not np.isnan(row["saw"]):
        held = "" if np.isnan(row["limit"]) else f", held against {row['limit']:.6g} {unit}".rstrip()
        parts.append(f"it saw {quantity} {row['saw']:.6g} {unit}".rstrip() + held)
    if not np.isnan(row["age"]):
        parts.append(f"{row['age']:.6g} s old" if row["age"] > 0 else "fresh")
    if not np.isnan(row["true"]):
        parts.append(f"in truth {row['true']:.6g} {unit}".rstrip())
    return f"t = {row['time']:.6f} s: {who}{level} {'; '.join(parts)}"
