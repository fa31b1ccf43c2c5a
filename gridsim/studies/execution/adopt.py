"""The function `adopt`, which takes over the records of runs of earlier versions of gridsim in a store."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence

from gridsim.errors import SchedulerWarning, warn
from gridsim.studies.execution.cell import Cell, RunRecord, measure
from gridsim.studies.execution.store import Store
from gridsim.support.imports import stored_name
from gridsim.support.provenance import code_version

_LOG = logging.getLogger(__name__)
#: A run that is not in the store: its key and description.
_Missing = tuple[str, Cell]


def adopt(store: Store, missing: Mapping[str, Cell], metrics: Sequence[str]) -> None:
    """Add records of `missing` runs to `store` that other versions of gridsim have executed.

    For each version and class of schedulers, some of the runs (`Store.adopt`) are executed again, spread over
    all.  If all have the same digest and metrics as in the store, the records of the others are taken over.
    Otherwise none is, with a `SchedulerWarning`.

    Parameters
    ----------
    missing
        Key -> run.
    metrics
        The metrics that a record must have.
    """
    remaining = dict(missing)
    for code in store.other_versions():
        old_keys = {store.key(cell, code): key for key, cell in remaining.items()}
        records = {
            old_key: record for old_key, record in store.find(old_keys, metrics).items() if not record.error
        }
        by_class: dict[str, list[str]] = {}
        for old_key in records:
            kind = stored_name(type(remaining[old_keys[old_key]].scheduler))
            by_class.setdefault(kind, []).append(old_key)
        for kind, keys_of_kind in sorted(by_class.items()):
            if (code, kind) not in store.comparisons:
                step = max(1, len(keys_of_kind) // store.adopt)
                sample = [
                    (old_keys[key], remaining[old_keys[key]], records[key]) for key in keys_of_kind[::step]
                ]
                store.comparisons[code, kind] = _have_same_outcome(store, sample[: store.adopt])
            if not store.comparisons[code, kind]:
                continue
            rows = []
            for old_key in keys_of_kind:
                key, record = old_keys[old_key], records[old_key]
                origin = record.adopted_from or record.code
                record = dataclasses.replace(record, code=code_version(), adopted_from=origin)
                rows.append((key, remaining.pop(key), record))
                store.copy_result(old_key, key)
            store.add(rows)
            _LOG.info("%d runs of %s under %s are adopted", len(rows), kind, code)


def _have_same_outcome(store: Store, sample: Sequence[tuple[str, Cell, RunRecord]]) -> bool:
    """Execute runs again, and return whether they have the same outcome as their records."""
    for key, cell, record in sample:
        repeat = measure(dataclasses.replace(store.prepare(cell, key), keep=None))
        if repeat.lost or repeat.error or repeat.digest != record.digest:
            difference = repeat.error or f"the digest {record.digest[:16]}, got {repeat.digest[:16]}"
        else:
            differing = [name for name in record.values if not _is_same(record.values, repeat.values, name)]
            if not differing:
                continue
            difference = ", ".join(
                f"{name} {record.values[name]:.9g}, got {repeat.values.get(name, math.nan):.9g}"
                for name in differing[:3]
            )
        warn(
            f"{cell.scheduler.name}: runs of version {record.code} are not adopted, since a run executed "
            f"again must have {difference}",
            SchedulerWarning,
            stacklevel=2,
        )
        return False
    return True


def _is_same(old_values: Mapping[str, float], new_values: Mapping[str, float], name: str) -> bool:
    one, other = old_values[name], new_values.get(name)
    return other is not None and (one == other or (math.isnan(one) and math.isnan(other)))
