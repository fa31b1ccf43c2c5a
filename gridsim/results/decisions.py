"""Decisions of a run, recorded on request.

A record states the deciding machine, the action, the value that the machine saw, its age, and the true value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.results.table import ArrowStream, Table, frozen
from gridsim.support import html
from gridsim.support.clock import NS
from gridsim.support.state import Stateful
from gridsim.support.text import plain

#: Largest number of rows that are kept by default.
DECISIONS_LIMIT = 1_000_000

#: Action -> (sentence, quantity, unit), as in `gridsim.scheduling.contract.Scheduler.decision_words`.
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
#: A row as bytes, which numpy copies at once instead of field by field.
_BYTES = np.dtype((np.void, _ROW.itemsize))
#: Number of rows that are split into columns in one step; they fit into the processor cache.
_BLOCK = 4096


class Decisions(Stateful):
    """Log of the decisions of a run, in order; decisions beyond `limit` are only counted.

    Parameters
    ----------
    action_texts
        The actions that can be recorded, and the texts that describe them.

    Raises
    ------
    ScenarioError
        If `action_texts` are malformed.
    """

    STATE: ClassVar[tuple[str, ...]] = ("rows", "kept", "dropped")

    def __init__(self, action_texts: DecisionTexts, limit: int = DECISIONS_LIMIT) -> None:
        self.action_texts, self.limit = check_action_texts(action_texts), limit
        self.codes = {action: code for code, action in enumerate(self.action_texts)}
        #: Function that adds the rows that a kernel has recorded since its last call; None without a kernel.
        self.flush: Callable[[], None] | None = None
        self.rows: NDArray[Any] = np.empty(0, _ROW)  # the first `kept` rows are in use, the others are spare
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
        """Record one decision, given as numbers, or several, given as arrays of one length.

        Arguments that do not apply are omitted.  If there is a `machine`, then `saw`, `true` and `age` refer
        to it; a decider sees the true value of its own state.

        Parameters
        ----------
        action
            A key of `action_texts`, an array of keys, or an int array of positions of keys.
        time
            Time of the decision, ns.
        decider
            The machine that decided, -1 for a central scheduler.
        level
            The level of the decider in the tree.
        machine
            The machine that was chosen or asked.
        tasks
            Number of tasks concerned.
        among
            Number of candidates.
        saw
            The value on which the decision was based, as the decider knew it.
        limit
            The threshold with which `saw` was compared.
        true
            The true value at that time, in the unit of the action like `saw` and `limit`.
        age
            Age of the value `saw`, s.

        Raises
        ------
        KeyError
            If an action has no text.
        """
        if self.flush is not None:
            self.flush()
        code: Any = action
        if isinstance(action, str):
            code = self.codes[action]
        elif not (isinstance(action, np.ndarray) and action.dtype.kind == "i"):
            code = np.array([self.codes[key] for key in action], np.int16)
        row = time, application, task, code, decider, level, machine, tasks, among, saw, limit, true, age
        counts = [len(value) for value in row if isinstance(value, (list, np.ndarray)) and np.ndim(value)]
        n_kept = self._make_room(max(counts, default=1))
        if not n_kept:
            return
        if counts:
            rows = self.rows[self.kept : self.kept + n_kept]
            for name, value in zip(_NAMES, row, strict=True):
                rows[name] = value[:n_kept] if np.ndim(value) else value
        else:
            self.rows[self.kept] = row
        self.kept += n_kept

    def add(self, rows: NDArray[Any], left_out: int = 0) -> None:
        """Add rows that a kernel has recorded, and count the `left_out` rows as dropped.

        The rows have the dtype of the attribute `rows`; an action is its position in `action_texts`.
        """
        n_kept = self._make_room(len(rows))
        self.rows.view(_BYTES)[self.kept : self.kept + n_kept] = rows.view(_BYTES)[:n_kept]
        self.kept += n_kept
        self.dropped += left_out

    def _make_room(self, count: int) -> int:
        """Make room for `count` rows; return the number that fits, and count the others as dropped."""
        n_kept = min(count, self.limit - self.kept)
        self.dropped += count - n_kept
        if self.kept + n_kept > len(self.rows):
            capacity = min(self.limit, max(self.kept + n_kept, 2 * self.kept))
            longer = np.empty(capacity, _ROW)
            longer.view(_BYTES)[: self.kept] = self.rows.view(_BYTES)[: self.kept]
            self.rows = longer
        return n_kept

    def getstate(self) -> dict[str, Any]:
        """Return the state without spare rows."""
        if self.flush is not None:
            self.flush()
        return super().getstate() | {"rows": self.rows[: self.kept]}

    def table(self) -> Table:
        """Return the decisions as a table, with times in s."""
        if self.flush is not None:
            self.flush()
        columns: dict[str, NDArray[Any]] = {name: np.empty(self.kept, _ROW[name]) for name in _NAMES}
        for first in range(0, self.kept, _BLOCK):
            block = self.rows[first : min(first + _BLOCK, self.kept)]
            for name, column in columns.items():
                column[first : first + len(block)] = block[name]
        columns["time"] = columns["time"] / NS
        columns["action"] = np.array(list(self.action_texts), np.str_)[columns["action"]]
        return Table({name: frozen(column) for name, column in columns.items()})

    def metadata(self) -> dict[str, Any]:
        """Return the provenance: texts of the actions, limit, and numbers of rows kept and dropped."""
        words = {action: list(text) for action, text in self.action_texts.items()}
        return {"words": words, "kept": self.kept, "dropped": self.dropped, "limit": self.limit}


@dataclass(frozen=True)
class Explanation(ArrowStream):
    """Explanation of where and when an application, a job or one of its tasks ran.

    Parameters
    ----------
    decisions
        Rows of the table ``decisions`` about the application, in order of time.
    words
        The texts that describe the actions.
    dropped
        Number of rows, of all applications, that were not kept.
    job
        Number of the job in its log; None without a log.
    """

    application: int
    task: int | None
    decisions: Table
    words: DecisionTexts
    dropped: int = 0
    job: int | None = None

    def format(self) -> str:
        """Return a line per decision and a line with its reasons: value seen, its age and the true value."""
        count = len(self.decisions)
        lines = [f"{self._subject}: {count} decision{'s' * (count != 1)}"]
        for row in self.decisions.rows():
            lines.append("\n    ".join(_lines(row, self.words[row["action"]])))
        if self.dropped:
            lines.append(f"{self.dropped} later decisions of this run were not kept: the limit was reached")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"<Explanation of {self._subject}: {len(self.decisions)} decisions>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the decisions and their reasons."""
        decisions = [_lines(row, self.words[row["action"]]) for row in self.decisions.rows()]
        columns = [["decision", *(lines[0] for lines in decisions)]]
        columns.append(["grounds", *("; ".join(lines[1:]) for lines in decisions)])
        note = f"{self.dropped} later decisions of this run were not kept" if self.dropped else ""
        return html.table(columns, left=(0, 1), caption=f"Explanation: {self._subject}") + html.text(note)

    @property
    def _subject(self) -> str:
        job = "" if self.job is None else f" (job {self.job} of the log)"
        return f"application {self.application}{job}" + ("" if self.task is None else f", task {self.task}")

    def to_pandas(self) -> Any:
        """Return the decisions as a pandas DataFrame.  Raises ImportError without pandas."""
        return self.decisions.to_pandas()

    def to_arrow(self) -> Any:
        """Return the decisions as a pyarrow Table.  Raises ImportError without pyarrow."""
        return self.decisions.to_arrow()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values; the text of a decision has the key ``said``."""
        words = self.words
        rows = [row | {"said": "; ".join(_lines(row, words[row["action"]]))} for row in self.decisions.rows()]
        return {
            "application": self.application,
            "job": self.job,
            "task": self.task,
            "decisions": plain(rows),
            "dropped": self.dropped,
        }


def why(
    table: Table, metadata: Mapping[str, Any], application: int, task: int | None, job: int | None = None
) -> Explanation:
    """Return an explanation of the decisions in `table` about `application`.

    With a `task`, only decisions about this task or the whole application are included.

    Parameters
    ----------
    metadata
        The words and counts that `Decisions.metadata` returns.
    job
        The number of the application in its log.

    Raises
    ------
    ScenarioError
        If `metadata` has no words for an action.
    """
    selected = table["application"] == application
    if task is not None:
        selected &= (table["task"] == task) | (table["task"] == -1)
    indices = np.flatnonzero(selected)
    indices = indices[np.argsort(table["time"][indices], kind="stable")]
    rows = Table({name: column[indices] for name, column in table.items()})
    words = check_action_texts(metadata["words"])
    if unknown := set(rows["action"].tolist()) - set(words):
        raise ScenarioError(
            f"decision_words must describe the action {min(unknown)!r}, got only {', '.join(words) or 'none'}"
        )
    return Explanation(application, task, rows, words, int(metadata["dropped"]), job)


def check_action_texts(action_texts: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return `action_texts` if they are well formed; otherwise raise ScenarioError.

    The texts of a loaded result are untrusted, since they come from a file.
    """
    row = dict.fromkeys(_NAMES, 0)
    for action, text in action_texts.items():
        try:
            sentence, *rest = text
            if len(rest) != 2 or not all(isinstance(part, str) for part in rest):
                raise ValueError(rest)
            for _, name, spec, conversion in Formatter().parse(sentence):
                if name is not None and not (name in row and not conversion and _SPEC.fullmatch(spec or "")):
                    raise ValueError(name)
            sentence.format(**row)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ScenarioError(
                f"decision_words[{action!r}] must be a sentence with columns of the table decisions in "
                f"braces, a quantity and a unit, got {text!r}"
            ) from error
    return {action: tuple(text) for action, text in action_texts.items()}


#: Allowed format specification of a column in a sentence: thousands separator, digits, kind of number.
_SPEC = re.compile(r",?(\.\d{1,2})?[defg]?")


#: A count of 1 followed by a plural, which becomes a singular.
_SINGULAR = re.compile(r"(?<![\d.,])1 (task|machine|job)s\b")


class _Number(float):
    """A float that is formatted with six digits by default, and without an exponent up to 1e15."""

    def __format__(self, spec: str) -> str:
        text = super().__format__(spec or ".6g")
        return super().__format__(".0f") if "e+" in text and abs(self) < 1e15 else text


def _lines(row: dict[str, Any], words: tuple[str, str, str]) -> list[str]:
    """Return a line for a decision, and another line for its reasons, if any."""
    row = {name: _Number(value) if isinstance(value, float) else value for name, value in row.items()}
    sentence, quantity, unit = words
    decider = "the scheduler" if row["decider"] < 0 else f"machine {row['decider']}"
    level = f" (level {row['level']})" if row["level"] >= 0 else ""
    subject = "" if "{decider" in sentence else f"{decider}{level} "
    among = ""
    if row["among"] >= 0 and "{among}" not in sentence:
        among = f"; among {row['among']}" if row["among"] else "; no candidate was known"
    action = _SINGULAR.sub(r"1 \1", sentence.format(**row))
    lines = [f"t = {row['time']:.6f} s: {subject}{action}{among}"]
    if np.isnan(row["saw"]) or (row["among"] == 0 and np.isinf(row["saw"])):
        if not np.isnan(row["true"]):  # the decision did not depend on the value
            lines.append(f"true value: {quantity} {row['true']} {unit}".rstrip())
        return lines
    threshold = "" if not np.isfinite(row["limit"]) or "{limit" in sentence else f", threshold {row['limit']}"
    grounds = [f"saw {quantity} {row['saw']} {unit}".rstrip() + threshold]
    if row["age"] == 0 and row["true"] == row["saw"]:
        grounds.append("fresh and true")
    else:
        if not np.isnan(row["age"]):
            grounds.append(f"{row['age']} s old" if row["age"] > 0 else "fresh")
        if not np.isnan(row["true"]):
            grounds.append(f"true value {row['true']}")
    return [*lines, "; ".join(grounds)]
