"""The function `collect`, which returns the records of runs from a store, or executes the runs."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

from gridsim.errors import GridSimError, MetricWarning, WarningScope, warn
from gridsim.results.metrics.registry import MESSAGE_METRICS
from gridsim.studies.execution.adopt import adopt
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.packing import WorkerMismatch
from gridsim.studies.execution.run_cells import run_cells
from gridsim.studies.execution.run_executor import ExecutorLost
from gridsim.studies.execution.store import Store
from gridsim.support.progress import Progress, bar
from gridsim.support.provenance import TraceDigests

#: Maximum number of runs of a study, since all are objects in memory before the first one begins.
MAX_RUNS = 10_000_000
#: The first line of a traceback.
_HEADER = "Traceback (most recent call last):\n"
_LOG = logging.getLogger(__name__)


def collect(
    cells: Sequence[Cell],
    *,
    executor: Executor | None = None,
    batch: int | None = None,
    store: Store | None = None,
    progress: Progress = False,
    retry: bool = False,
    fail_fast: bool = False,
    first_read: TraceDigests | None = None,
) -> list[RunRecord]:
    """Return the record of each of `cells`, from `store` or by executing the run.

    Equal runs are executed once: with a store those with equal keys, otherwise those with the same objects.

    The other parameters are those of `gridsim.replicate`.

    Parameters
    ----------
    retry
        Whether failed runs in `store` are executed again.
    fail_fast
        Whether to raise GridSimError for the first run that fails.
    first_read
        The trace files that were read in earlier calls for the same study.

    Raises
    ------
    GridSimError
        If a trace file has changed since earlier runs.
    """
    digests = TraceDigests() if first_read is None else first_read
    records: list[RunRecord | None] = [None] * len(cells)
    positions: dict[Any, list[int]] = {}
    keys: Sequence[Any] = [
        (id(c.scenario), id(c.scheduler), id(c.metrics), c.time_limit, c.skip_days, c.by) for c in cells
    ]
    if store is not None:  # a run whose files cannot be read has no key; it fails and is not stored
        keys = [number if key is None else key for number, key in enumerate(store.keys_of(cells))]
        scenarios = {
            id(c.scenario): c.scenario for c, key in zip(cells, keys, strict=True) if type(key) is str
        }
        for scenario in scenarios.values():
            _check(digests.changed_file(store.files(scenario), scenario.places()), store)
    for number, key in enumerate(keys):
        positions.setdefault(key, []).append(number)
    if store is not None:
        metrics = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
        to_find = {key: cells[numbers[0]] for key, numbers in positions.items() if isinstance(key, str)}
        stored = store.find(to_find, metrics)
        if store.adopt and len(stored) < len(to_find):
            adopt(store, {key: cell for key, cell in to_find.items() if key not in stored}, metrics)
            stored = store.find(to_find, metrics)
        store.add_scenarios([to_find[key].scenario for key in stored])  # a shard of them may be missing
        for key, stored_record in stored.items():
            if stored_record.error:
                stored_record = dataclasses.replace(
                    stored_record, error=f"{stored_record.error} (in the store: retry runs it again)"
                )
            if not (stored_record.error and retry):
                if fail_fast:
                    _refuse(cells[positions[key][0]], stored_record)
                for number in positions.pop(key):
                    records[number] = stored_record
    pending = [(key, numbers) for key, numbers in positions.items()]
    stored_count = done = len(cells) - sum(len(numbers) for _, numbers in pending)
    _LOG.info("%d runs, of which %d are in the store", len(cells), done)
    display = bar(progress, len(cells) - done, "runs")  # counts only runs that are not in the store

    def report(finished: list[tuple[int, RunRecord]]) -> None:
        nonlocal done
        if store is not None:
            valid = [(pending[i][0], first_cells[i], record) for i, record in finished if not record.lost]
            if rows := [row for row in valid if isinstance(row[0], str)]:
                store.add(rows)
        for index, record in finished:
            _check(record.changed_file, store)
            if record.files:
                _check(digests.changed_file(record.files, first_cells[index].scenario.places()), store)
            for category, message in record.notes:
                warn(message, category, stacklevel=2)
            for number in pending[index][1]:
                records[number] = record
                done += 1
            if fail_fast:
                _refuse(first_cells[index], record)
        if display is not None:
            display.move(done - stored_count)

    def run() -> None:
        try:
            with WarningScope():
                run_cells(first_cells, report, executor=executor, batch=batch)
        except (KeyboardInterrupt, ExecutorLost, WorkerMismatch) as error:
            kept = "; use a store to keep them" if done else ""
            if store is not None:
                kept = f", which are in {store.path}: the same command continues from there"
            text = f"{done} of {len(cells)} runs are done{kept}"
            if isinstance(error, KeyboardInterrupt):
                raise type(error)(text) from None
            raise type(error)(f"{error}; {text}") from error

    first_cells = [cells[numbers[0]] for _, numbers in pending]
    if store is not None:
        prepared = zip(first_cells, pending, strict=True)
        first_cells = [
            store.prepare(cell, key) if isinstance(key, str) else cell for cell, (key, _) in prepared
        ]
    if display is None:
        run()
    else:
        with display:
            run()
    if store is not None:
        store.tidy()
    complete = [record for record in records if record is not None]
    assert len(complete) == len(cells), "each run must have a record"
    _warn_of_metrics(zip(cells, complete, strict=True))
    return [_remove_free_messages(cell, record) for cell, record in zip(cells, complete, strict=True)]


def _warn_of_metrics(runs: Iterable[tuple[Cell, RunRecord]]) -> None:
    """Issue one warning for each metric of the user that raised an error in some of `runs`."""
    errors: dict[str, list[str]] = {}
    for cell, record in runs:
        for name, error in record.metric_errors.items():
            errors.setdefault(name, []).append(f"{cell.name}: {error}")
    for name, texts in errors.items():
        count = f"{len(texts)} runs, first in " if len(texts) > 1 else ""
        warn(f"metrics[{name!r}] has no value in {count}{texts[0]}", MetricWarning, stacklevel=3)


def _remove_free_messages(cell: Cell, record: RunRecord) -> RunRecord:
    """Return a record without metrics of messages, NaN, if the scheduler is not charged for any."""
    if cell.scheduler.decentralized or record.values.get("messages") != 0.0:
        return record
    free = {name: math.nan for name in MESSAGE_METRICS if cell.metrics.get(name) is None}
    return dataclasses.replace(record, values={**record.values, **free})


def _check(changed_file: str, store: Store | None) -> None:
    if changed_file:
        kept = "" if store is None else f"; records of runs that read it unchanged are in {store.path}"
        raise GridSimError(
            f"{changed_file} must be unchanged since the study began, or since its platform was made{kept}"
        )


def _refuse(cell: Cell, record: RunRecord) -> None:
    if record.error:
        error = GridSimError(f"{cell.name}: {record.error}")
        if record.trace.count(_HEADER) == 1:  # the traceback of this error has the same header
            error.add_note(record.trace.removeprefix(_HEADER))
        else:
            error.add_note(record.trace)
        raise error
