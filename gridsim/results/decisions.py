"""Decisions of a run, recorded on request.

For each it is recorded which machine decided what, what it saw, how old that was, and the true value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.results.table import Table, frozen
from gridsim.support import html
from gridsim.support.clock import NS
from gridsim.support.state import Stateful
from gridsim.support.text import plain

#: Default of the largest number of rows that are kept.
DECISIONS_LIMIT = 1_000_000

#: An action -> (sentence, quantity, unit); see `gridsim.scheduling.contract.Scheduler.decision_words`.
DecisionTexts = Mapping[str, tuple[str, str, str]]

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
_NAMES: tuple[str, ...] = _ROW.names or ()
#: A row as bytes, which are copied at once and not field by field.
_BYTES = np.dtype((np.void, _ROW.itemsize))
#: Rows that are taken apart at a time, which a cache holds.
_BLOCK = 4096


class Decisions(Stateful):
    """The decisions of a run, in the order in which they were noted; those beyond `limit` are only counted.

    Parameters
    ----------
    words
        The actions that can be noted, and how each is put into words.

    Raises
    ------
    ScenarioError
        If `words` are malformed.
    """

    STATE: ClassVar[tuple[str, ...]] = ("rows", "kept", "dropped")

    def __init__(self, words: DecisionTexts, limit: int = DECISIONS_LIMIT) -> None:
        self.words, self.limit = _checked(words), limit
        self._code = {action: code for code, action in enumerate(self.words)}
        self.rows: NDArray[Any] = np.empty(0, _ROW)  # the first `kept` are in use, the others are spare
        self.kept = self.dropped = 0

    def record(
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
        """Note one decision, given as numbers, or several, given as arrays of one length.

        `saw`, `true` and `age` are about `machine` if there is one; of itself a decider sees the true value.

        Leave out what does not apply.  Raises KeyError for an action that has no words.

        Parameters
        ----------
        action
            One of the keys of the words, an array of them, or an int array of their places.
        time
            ns.
        decider
            The machine that decided, -1 for a central scheduler.
        level
            The level of the decider in the tree.
        machine
            The machine chosen or asked.
        tasks
            How many tasks were decided on.
        among
            How many there were to choose from.
        saw
            The value on which it decided, as far as it knew.
        limit
            The threshold that it was compared with.
        true
            The true value at that moment; like `saw` and `limit` in the unit of the action's words.
        age
            Age of the value that it saw, s.
        """
        code: Any = action
        if isinstance(action, str):
            code = self._code[action]
        elif not (isinstance(action, np.ndarray) and action.dtype.kind == "i"):
            code = np.array([self._code[each] for each in action], np.int16)
        row = time, application, task, code, decider, level, machine, tasks, among, saw, limit, true, age
        counts = [len(each) for each in row if isinstance(each, (list, np.ndarray)) and np.ndim(each)]
        room = self._make_room(max(counts, default=1))
        if not room:
            return
        if counts:
            rows = self.rows[self.kept : self.kept + room]
            for name, value in zip(_NAMES, row, strict=True):
                rows[name] = value[:room] if np.ndim(value) else value
        else:
            self.rows[self.kept] = row
        self.kept += room

    def add(self, rows: NDArray[Any], left_out: int = 0) -> None:
        """Add `rows` as a kernel has made them, and count those that it has `left_out`.

        They have the type of `rows`, and the positions of their actions among the words.
        """
        room = self._make_room(len(rows))
        self.rows.view(_BYTES)[self.kept : self.kept + room] = rows.view(_BYTES)[:room]
        self.kept += room
        self.dropped += left_out

    def _make_room(self, count: int) -> int:
        """Make room for `count` rows; return for how many there is, and count the others as dropped."""
        room = min(count, self.limit - self.kept)
        self.dropped += count - room
        if self.kept + room > len(self.rows):
            more = min(self.limit, max(self.kept + room, 2 * self.kept))
            longer = np.empty(more, _ROW)
            longer.view(_BYTES)[: self.kept] = self.rows.view(_BYTES)[: self.kept]
            self.rows = longer
        return room

    def getstate(self) -> dict[str, Any]:
        """See `gridsim.support.state.Stateful`."""
        return super().getstate() | {"rows": self.rows[: self.kept]}

    def table(self) -> Table:
        """Return the decisions as a table, with times in s."""
        columns: dict[str, NDArray[Any]] = {name: np.empty(self.kept, _ROW[name]) for name in _NAMES}
        for first in range(0, self.kept, _BLOCK):
            block = self.rows[first : min(first + _BLOCK, self.kept)]
            for name, column in columns.items():
                column[first : first + len(block)] = block[name]
        columns["time"] = columns["time"] / NS
        columns["action"] = np.array(list(self.words), np.str_)[columns["action"]]
        return Table({name: frozen(column) for name, column in columns.items()})

    def about(self) -> dict[str, Any]:
        """Return what a result stores besides the table: words, rows kept and dropped, and the limit."""
        words = {action: list(said) for action, said in self.words.items()}
        return {"words": words, "kept": self.kept, "dropped": self.dropped, "limit": self.limit}


@dataclass(frozen=True)
class Explanation:
    """Why an application, a job or one of its tasks ran where and when it did.

    Parameters
    ----------
    decisions
        Rows of the table ``decisions`` about it, in order of time.
    words
        How they are put into words.
    dropped
        Number of rows, of all applications, that were not kept.
    job
        Its number in the log that it comes from; None without a log.
    """

    application: int
    task: int | None
    decisions: Table
    words: DecisionTexts
    dropped: int = 0
    job: int | None = None

    def format(self) -> str:
        """Return a line per decision, and one for its grounds: the value seen, its age and the true value."""
        count = len(self.decisions)
        lines = [f"{self._what}: {count} decision{'s' * (count != 1)}"]
        for row in self.decisions.rows():
            lines.append("\n    ".join(_said(row, self.words[row["action"]])))
        if self.dropped:
            lines.append(f"{self.dropped} later decisions of this run were not kept: its limit was met")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"<Why of {self._what}: {len(self.decisions)} decisions>"

    def _repr_html_(self) -> str:
        """Return the decisions as notebooks show them: when, who and what, and the grounds."""
        said = [_said(row, self.words[row["action"]]) for row in self.decisions.rows()]
        columns = [["decision", *(each[0] for each in said)]]
        columns.append(["grounds", *("; ".join(each[1:]) for each in said)])
        left = f"{self.dropped} later decisions of this run were not kept" if self.dropped else ""
        return html.table(columns, left=2, caption=f"Why: {self._what}") + html.text(left)

    @property
    def _what(self) -> str:
        job = "" if self.job is None else f" (job {self.job} of the log)"
        return f"application {self.application}{job}" + ("" if self.task is None else f", task {self.task}")

    def to_pandas(self) -> Any:
        """Return the decisions as a pandas DataFrame.  Raises ImportError without pandas."""
        return self.decisions.to_pandas()

    def to_arrow(self) -> Any:
        """Return the decisions as a pyarrow Table.  Raises ImportError without pyarrow."""
        return self.decisions.to_arrow()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; each decision also has ``said``, the decision in words."""
        words = self.words
        rows = [row | {"said": "; ".join(_said(row, words[row["action"]]))} for row in self.decisions.rows()]
        return {
            "application": self.application,
            "job": self.job,
            "task": self.task,
            "decisions": plain(rows),
            "dropped": self.dropped,
        }


def why(
    table: Table, about: Mapping[str, Any], application: int, task: int | None, job: int | None = None
) -> Explanation:
    """Return the decisions of `table` about `application`; with a `task` only those on it or on all tasks.

    Parameters
    ----------
    about
        As returned by `Decisions.about`.
    job
        The number of the application in its log.

    Raises
    ------
    ScenarioError
        If `about` has no words for one of them.
    """
    chosen = table["application"] == application
    if task is not None:
        chosen &= (table["task"] == task) | (table["task"] == -1)
    which = np.flatnonzero(chosen)
    which = which[np.argsort(table["time"][which], kind="stable")]
    rows = Table({name: column[which] for name, column in table.items()})
    words = _checked(about["words"])
    if unknown := set(rows["action"].tolist()) - set(words):
        raise ScenarioError(f"decision_words must have {min(unknown)!r}")
    return Explanation(application, task, rows, words, int(about["dropped"]), job)


def _checked(words: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return `words` if they are well formed, else raise ScenarioError.

    The words of a loaded result must not be trusted: anybody may have made the file.
    """
    row = dict.fromkeys(_NAMES, 0)
    for action, said in words.items():
        try:
            sentence, *rest = said
            if len(rest) != 2 or not all(isinstance(each, str) for each in rest):
                raise ValueError(rest)
            for _, name, spec, conversion in Formatter().parse(sentence):
                if name is not None and not (name in row and not conversion and _SPEC.fullmatch(spec or "")):
                    raise ValueError(name)
            sentence.format(**row)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ScenarioError(
                f"decision_words[{action!r}] must be a sentence with columns of the table decisions in "
                f"braces, a quantity and a unit, got {said!r}"
            ) from error
    return {action: tuple(said) for action, said in words.items()}


#: Allowed format of a column in a sentence: thousands separator, digits, kind of number.
_SPEC = re.compile(r",?(\.\d{1,2})?[defg]?")


#: What there is one of, in the plural.
_ONE = re.compile(r"(?<![\d.,])1 (task|machine|job)s\b")


class _Number(float):
    """A float shown with six digits, or as many as asked for, and with all digits before the point."""

    def __format__(self, spec: str) -> str:
        said = super().__format__(spec or ".6g")
        return super().__format__(".0f") if "e+" in said and abs(self) < 1e15 else said


def _said(row: dict[str, Any], said: tuple[str, str, str]) -> list[str]:
    """Return a line for a decision, and another one for its grounds, if it has any."""
    row = {name: _Number(value) if isinstance(value, float) else value for name, value in row.items()}
    sentence, quantity, unit = said
    who = "the scheduler" if row["decider"] < 0 else f"machine {row['decider']}"
    level = f" (level {row['level']})" if row["level"] >= 0 else ""
    among = f"; among {row['among']}" if row["among"] >= 0 and "{among}" not in sentence else ""
    done = _ONE.sub(r"1 \1", sentence.format(**row))
    lines = [f"t = {row['time']:.6f} s: {who}{level} {done}{among}"]
    if np.isnan(row["saw"]):
        if not np.isnan(row["true"]):  # a value that the decision did not depend on
            lines.append(f"true value: {quantity} {row['true']} {unit}".rstrip())
        return lines
    held = "" if np.isnan(row["limit"]) or "{limit" in sentence else f", threshold {row['limit']}"
    grounds = [f"saw {quantity} {row['saw']} {unit}".rstrip() + held]
    if row["age"] == 0 and row["true"] == row["saw"]:
        grounds.append("fresh and true")
    else:
        if not np.isnan(row["age"]):
            grounds.append(f"{row['age']} s old" if row["age"] > 0 else "fresh")
        if not np.isnan(row["true"]):
            grounds.append(f"true value {row['true']}")
    return [*lines, "; ".join(grounds)]
