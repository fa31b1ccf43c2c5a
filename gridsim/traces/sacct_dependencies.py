"""Jobs of a table of ``sacct`` that start after others: dependencies, and arrays with a limit.

Source: https://slurm.schedmd.com/sbatch.html.  The command of a job (column SubmitLine) states its
dependencies (``--dependency=afterok:11:12,singleton``) and how many tasks of its array may run at once
(``--array=1-40%4``), which lines of pending tasks state, too (``12_[4-9%2]``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import Remark
from gridsim.traces.accounting import Floats, Rows
from gridsim.traces.tables import AccountingTable, TableColumn
from gridsim.traces.values import is_unknown

#: Columns, in lower case, that state dependencies, and the one that "singleton" needs besides the user.
STATEMENTS = "submitline", "dependency"
IDENTITY = "jobname"
#: The number of a job, of a task of an array, or of a component of a job.
TASK = re.compile(r"(\d+)(?:_(\d+)|\+(\d+))?")
#: The tasks of an array that wait, with a limit for those that run at once.
_PENDING_ARRAY = re.compile(r"(\d+)_\[[^\]]*%(\d+)\]?")
_ENTRY = r"(?:after[a-z]*(?::[\d_*+]+(?:\([a-z]+\))?)+|singleton(?:\([a-z]+\))?)"
_DEPENDENCY = rf"{_ENTRY}(?:[,?]{_ENTRY})*"
_OPTION = re.compile(rf"(?:^|\s)(?:--dep\w*(?:=|\s+)|-d\s*)['\"]?({_DEPENDENCY})['\"]?(?=\s|$)")
_VALUE = re.compile(rf"({_DEPENDENCY})")
#: Dependencies of other kinds.
_OTHER_OPTION = re.compile(r"(?:^|\s)(?:--dep\w*(?:=|\s+)|-d\s*)['\"]?[A-Za-z]\w*:\d")
_LIMIT = re.compile(r"(?:^|\s)(?:--ar\w*(?:=|\s+)|-a\s*)['\"]?[\d,:-]+%(\d+)['\"]?(?=\s|$)")
#: Dependencies on the ends of jobs, of which "aftercorr" is on those of the tasks of equal numbers.
_ENDS = frozenset(("afterok", "afterany", "afternotok", "aftercorr", "afterburstbuffer"))


class SlurmPredecessors(NamedTuple):
    """The preceding jobs of a table.

    Parameters
    ----------
    preceding
        float64[rows], the number of a preceding job; NaN for none.
    further
        int64[n, 2], the line of a job and the number of another preceding one.
    remarks
        Remarks on what preceding jobs cannot state.
    """

    preceding: Floats
    further: NDArray[np.int64]
    remarks: tuple[Remark, ...]


def slurm_predecessors(
    table: AccountingTable,
    numbers: NDArray[np.int64],
    rows: Rows,
    submit: Floats,
    start: Floats,
    end: Floats,
    run_time: Floats,
) -> SlurmPredecessors:
    """Return the jobs after which the jobs of `rows` start.

    A job that is not in `rows` counts as one that the log does not have.  Tasks that never ran have no part
    in the limit of their array.

    Parameters
    ----------
    numbers
        int64[rows of the table], the number of each job.
    submit, start, end, run_time
        float64[rows of the table], s; NaN is unknown.
    """
    jobs = _JobNames(table, numbers, rows)
    rows_without_effect: list[int] = []
    pairs: dict[int, dict[int, None]] = defaultdict(dict)  # row -> numbers of preceding jobs, in order
    singletons: set[int] = set()
    for row, entries, is_alternative in jobs.dependencies():
        for kind, *names in entries:
            if kind == "singleton" and jobs.names is not None and not is_alternative:
                singletons.add(row)
            elif kind in _ENDS and not is_alternative:
                task = jobs.task_of.get(row, -1) if kind == "aftercorr" else -1
                pairs[row] |= dict.fromkeys(number for name in names for number in jobs.find(name, task))
            else:
                rows_without_effect.append(row)
    for row, earlier_rows in jobs.before_singletons(singletons, submit):
        pairs[row] |= dict.fromkeys(numbers[earlier_rows].tolist())
    tasks_over_limit: list[int] = []
    end = np.where(np.isnan(end), start + run_time, end)
    for tasks, limit in jobs.limited_arrays():
        started, ended, keeps_limit = _freed_places([k for k in tasks if run_time[k] > 0], limit, start, end)
        tasks_over_limit += [] if keeps_limit else started
        for row, before in zip(started[limit:], ended, strict=False):
            pairs[row][numbers.item(before)] = None

    preceding, further = np.full(len(table), np.nan), list[tuple[int, int]]()
    for row, preceding_numbers in pairs.items():
        first, *rest = preceding_numbers
        preceding[row] = first
        further += [(table.line.item(row), number) for number in rest]
    return SlurmPredecessors(
        preceding,
        np.array(further, np.int64).reshape(-1, 2),
        (
            Remark(
                table.line[np.unique(np.array(rows_without_effect, np.int64))],
                "jobs whose dependency is not on the ends of all jobs that it names, which has no effect",
            ),
            Remark(
                table.line[np.array(tasks_over_limit, np.int64)],
                "tasks of arrays that ran more tasks at once than their limit, taken in their order",
            ),
        ),
    )


class _JobNames:
    """The jobs of a table as dependencies name them.

    Attributes
    ----------
    names
        The names of jobs; None if the table has no names or no users.
    task_of
        Row -> number of the task, of tasks of arrays.
    """

    def __init__(self, table: AccountingTable, numbers: NDArray[np.int64], rows: Rows) -> None:
        self._table, self._numbers, self._rows = table, numbers, np.flatnonzero(rows).tolist()
        self._missing = int(numbers.max(initial=0)) + 1  # a number that no job has
        self.names, self._users = table.get(IDENTITY), table.get("User", "UID")
        if self._users is None:
            self.names = None
        self._statements = [column for name in STATEMENTS if (column := table.get(name)) is not None]
        self.task_of: dict[int, int] = {}
        self._arrays: dict[int, dict[int, int]] = defaultdict(dict)  # array -> task -> row
        self._numbers_of: dict[str, int] = {}
        column = table.get("JobID")
        self._texts = [] if column is None else column.texts()
        self._limits = {
            int(match[1]): int(match[2]) for text in self._texts if (match := _PENDING_ARRAY.match(text))
        }
        if not (self._limits or self._statements):
            return
        if (raw := table.get("JobIDRaw")) is not None:
            self._add_names(raw)
        if column is None:
            return
        self._add_names(column)
        for row in self._rows:
            if (match := TASK.fullmatch(self._texts[column.index(row)])) and match[2] is not None:
                self.task_of[row] = int(match[2])
                self._arrays[int(match[1])][int(match[2])] = row

    def _add_names(self, column: TableColumn) -> None:
        texts = column.texts()
        self._numbers_of |= {texts[column.index(row)]: self._numbers.item(row) for row in self._rows}

    def dependencies(self) -> list[tuple[int, list[list[str]], bool]]:
        """Return (row, entries, whether one of the entries suffices) for each statement of a job.

        An entry has the kind of dependency, "" if it is none of Slurm, and the names of jobs.
        """
        statements: list[tuple[int, list[list[str]], bool]] = []
        for column in self._statements:
            is_command = column.name.lower() == "submitline"
            pattern = _OPTION if is_command else _VALUE
            values = [pattern.search(text) for text in column.texts()]
            is_unread = [
                _OTHER_OPTION.search(text) is not None if is_command else not is_unknown(text)
                for text in column.texts()
            ]
            for row in self._rows:
                if (match := values[column.index(row)]) is None:
                    statements += [(row, [[""]], False)] if is_unread[column.index(row)] else []
                else:
                    text = re.sub(r"\([a-z]+\)", "", match[1])
                    statements.append((row, [e.split(":") for e in re.split("[,?]", text)], "?" in text))
        return statements

    def find(self, name: str, task: int) -> list[int]:
        """Return the numbers of the jobs that `name` means: a job, a task of an array, or all tasks.

        Parameters
        ----------
        task
            The task that is meant if `name` is an array; -1 for all.
        """
        array = name.removesuffix("_*")
        if array.isdecimal() and (tasks := self._arrays.get(int(array))):
            chosen = tasks.values() if task < 0 else [tasks[task]] if task in tasks else []
            if chosen:
                return [self._numbers.item(row) for row in chosen]
            return [self._missing]
        return [self._numbers_of.get(name, self._missing)]

    def before_singletons(self, singletons: set[int], submit: Floats) -> list[tuple[int, list[int]]]:
        """Return (row, earlier rows) for jobs that start after all earlier ones of their name and user.

        Jobs before an earlier such job are left out, since that one has waited for them.
        """
        if not singletons:
            return []
        names, users = self.names, self._users
        assert names is not None and users is not None
        earlier: dict[tuple[int, int], list[int]] = defaultdict(list)
        pairs: list[tuple[int, list[int]]] = []
        for row in sorted(self._rows, key=lambda row: (submit.item(row), self._numbers.item(row))):
            key = names.index(row), users.index(row)
            if row in singletons:
                pairs.append((row, earlier[key]))
                earlier[key] = []
            earlier[key].append(row)
        return [(row, rows) for row, rows in pairs if rows]

    def limited_arrays(self) -> list[tuple[list[int], int]]:
        """Return (rows of the tasks in order, limit) for each array with a limit."""
        if (column := self._table.get("SubmitLine")) is not None:
            limits = [_LIMIT.search(text) for text in column.texts()]
            for array, tasks in self._arrays.items():
                match = limits[column.index(next(iter(tasks.values())))]
                if match is not None:
                    self._limits.setdefault(array, int(match[1]))
        arrays = [
            (self._arrays[array], limit) for array, limit in self._limits.items() if array in self._arrays
        ]
        return [([row for _, row in sorted(tasks.items())], max(1, limit)) for tasks, limit in arrays]


def _freed_places(
    tasks: list[int], limit: int, start: Floats, end: Floats
) -> tuple[list[int], list[int], bool]:
    """Return tasks of an array in order of their starts and of their ends, and whether they kept the limit.

    The k-th task to start can do so as soon as k - `limit` tasks have ended.  If starts or ends are unknown,
    or the limit was not kept, both orders are that of `tasks`.
    """
    if np.isnan(start[tasks] + end[tasks]).any():
        return tasks, tasks, True
    starts, ends = sorted(tasks, key=start.item), sorted(tasks, key=end.item)
    if all(end[before] <= start[row] for row, before in zip(starts[limit:], ends, strict=False)):
        return starts, ends, True
    return tasks, tasks, False
