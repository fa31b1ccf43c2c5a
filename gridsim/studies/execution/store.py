"""Store: a folder with the records of runs, under keys that cover all data on which a record depends.

``cells/*.parquet`` has one row per run, ``scenarios/*.parquet`` has the scenarios of the runs,
``arrays/*.npz`` has the long lists of these, ``results/*.npz`` has whole results if they are kept, and
``manifest/*.parquet`` has the keys of the runs that studies have added, so that a lost shard is noticed.
Files are written completely or not at all and are never changed, so a process may be killed at any time, and
several processes may use one store.  The name of a Parquet file is the SHA-256 of its content, which is
checked whenever it is read.  A store needs the extra ``data``.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gridsim.errors import GridSimError, ScenarioError, TraceFormatError
from gridsim.model.scenario import ArchivedScenario, Scenario
from gridsim.results.archive import Reader, Writer, scenario_member
from gridsim.results.metrics.registry import METRICS
from gridsim.results.result import Result
from gridsim.results.table import ArrowStream
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.description import describe
from gridsim.studies.execution.cell import Cell, RunRecord
from gridsim.studies.execution.keys import Keys
from gridsim.studies.execution.shards import Shards, no_link
from gridsim.support.arguments import integer, one_of, short_repr
from gridsim.support.columns import content_name
from gridsim.support.files import atomic_file, open_regular, temporary_names
from gridsim.support.imports import import_extra
from gridsim.support.provenance import code_version
from gridsim.support.references import Arrays
from gridsim.support.text import plain

StorePath = str | os.PathLike[str]

#: Version of the layout.
FORMAT = 1
_HEADER = "store.json"
#: Maximum number of bytes of `_HEADER` that are read.
_LONGEST = 1 << 16
#: Folder -> pattern of the names of its files.
_SHARD = r"[0-9a-f]{32}(?:[0-9a-f]{32})?\.parquet"  # earlier versions of gridsim used 32 random digits
_SHA256 = "[0-9a-f]{64}"
_FOLDERS = {
    "cells": _SHARD,
    "scenarios": _SHARD,
    "manifest": _SHARD,
    "arrays": rf"{_SHA256}\.npz",
    "results": rf"{_SHA256}\.npz",
}
#: Number of shards that are merged into one: new ones by `Store.add`, all of them by `Store.tidy`.
_MERGE_COUNT = 64
#: Age after which an unfinished file counts as a leftover of a killed process, s.
_LEFTOVER_AGE = 3600.0

#: Columns of a row besides the metrics: name -> type of pyarrow.
_COLUMNS = {
    "key": "string",
    "error": "string",
    "digest": "string",
    "code": "string",
    "adopted_from": "string",
    "user_code": "string",
    "scheduler": "string",
    "class": "string",
    "parameters": "string",
    "scenario": "string",
    "seed": "int64",
    "time_limit": "double",
    "wall_seconds": "double",
    "peak_memory": "int64",
}
#: Folder -> types of the columns of its tables; metrics of the user are numbers as well.
_TYPES = {
    "cells": _COLUMNS | dict.fromkeys(METRICS, "double"),
    "scenarios": {"scenario": "string", "toml": "string"},
}
#: Columns that may be empty: not every system reports memory, not every run has all metrics, and stores of
#: earlier versions have no columns `adopted_from` and `user_code`.
_OPTIONAL = ("adopted_from", "user_code", "peak_memory", *METRICS)
#: A reference to an array in the text of a scenario.
_REFERENCE = re.compile(rf'\b(?:array|counts) = "({_SHA256})"')


class Store(ArrowStream):
    """The store in the folder `path`, which is created if it does not exist.

    Parameters
    ----------
    keep_results
        Whether whole results are also saved, for `result`; the processes that execute the runs must have
        access to the folder.
    adopt
        Number of runs of each earlier version of gridsim and class of schedulers that studies execute again
        to take over the others, if their outcomes are the same; 0 to take over none.

    Raises
    ------
    ScenarioError
        If `path` is no path, the folder is not a store, or `adopt` is invalid.
    OSError
        If the folder cannot be created or written.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep_results: bool = False, adopt: int = 0) -> None:
        if not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
            raise ScenarioError(f"store must be a Store or the path of a folder, got {short_repr(path)}")
        self.path, self.keep_results = Path(path), keep_results
        self.adopt = integer("adopt", adopt)
        self._cells = Shards(self.path / "cells", "key", _TYPES["cells"], _OPTIONAL)
        self._scenarios = Shards(self.path / "scenarios", "scenario", _TYPES["scenarios"])
        self._manifest = Shards(self.path / "manifest", "key", {"key": "string"})
        header = self.path / _HEADER
        for part in (header, *(self.path / folder for folder in _FOLDERS)):
            no_link(part)
        if not header.exists():
            if self.path.exists() and not (
                self.path.is_dir() and all(map(_can_be_in_new_store, self.path.iterdir()))
            ):
                raise ScenarioError(f"store must be a store of gridsim or a new folder, got {self.path}")
            self.path.mkdir(exist_ok=True)
            with atomic_file(header) as stream:
                stream.write(json.dumps({"gridsim store": FORMAT}).encode())
        try:
            with open_regular(header) as stream:
                version = json.loads(stream.read(_LONGEST))["gridsim store"]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise GridSimError(f"{header} must be the header of a store ({error})") from error
        if type(version) is not int or version != FORMAT:  # True is 1, too
            raise GridSimError(f"{header}: format of a store must be {FORMAT}, got {version!r}")
        for folder, name in _FOLDERS.items():
            if folder not in ("arrays", "manifest"):  # these folders are created only if needed
                (self.path / folder).mkdir(exist_ok=True)
            unfinished = temporary_names(name)
            for file in (self.path / folder).glob(".*.tmp"):
                with suppress(FileNotFoundError):
                    if unfinished.fullmatch(file.name) and time.time() - file.stat().st_mtime > _LEFTOVER_AGE:
                        file.unlink()
        self._keys = Keys()
        #: (version, class of schedulers) -> whether runs executed again have the outcomes of that version.
        self.comparisons: dict[tuple[str, str], bool] = {}
        #: Keys of added runs that are not yet in the manifest.
        self._added_keys: list[str] = []
        #: Names (SHA-256) of the scenarios in the store; None before they are read.
        self._saved_scenarios: set[str] | None = None

    # -- runs -----------------------------------------------------------------------------------------

    def keys_of(self, cells: Sequence[Cell]) -> list[str | None]:
        """Return the key of each run, from `gridsim.studies.execution.keys.Keys.key`.

        The key is None for a run whose files cannot be read."""
        for cell in cells:
            for name, metric in cell.metrics.items():
                if name in _COLUMNS or (metric is not None and name in METRICS):
                    raise ScenarioError(f"metrics: a function must not have the name {name!r} in a store")
        self._keys = Keys()  # files and modules may have changed since they were read
        return [self._key(cell) for cell in cells]

    def _key(self, cell: Cell) -> str | None:
        try:
            return self._keys.key(cell)
        except (OSError, TraceFormatError):
            return None

    def key(self, cell: Cell, code: str) -> str:
        """Return the key that a run would have with another version of the code; it must have a key."""
        return self._keys.key(cell, code)

    def other_versions(self) -> list[str]:
        """Return the versions of gridsim, except the present one, under which the store has runs."""
        rows, _ = self._cells.read(columns=["key", "code"])
        return sorted(set(rows["code"].unique().to_pylist()) - {code_version()})

    def copy_result(self, key: str, new_key: str) -> None:
        """Copy the whole result of a run, if the store has it, to a new key."""
        if (file := self.result_file(key)).exists():
            with open_regular(file) as stream, atomic_file(self.result_file(new_key)) as copy:
                shutil.copyfileobj(stream, copy)

    def prepare(self, cell: Cell, key: str) -> Cell:
        """Return `cell` with the SHA-256 of its files, and the file of its result if results are kept."""
        keep = str(self.result_file(key).absolute()) if self.keep_results else None
        return dataclasses.replace(cell, keep=keep, files=self.files(cell.scenario))

    def files(self, scenario: Scenario) -> Mapping[str, str]:
        """Return the SHA-256 that each file of a scenario had when `keys_of` computed the keys."""
        return self._keys.files(scenario)

    def result_file(self, key: str) -> Path:
        """Return the path of the whole result of a run, which may not exist.

        Raises
        ------
        GridSimError
            If the key is invalid.
        """
        if not re.fullmatch(_SHA256, key):
            raise GridSimError(f"store: a key must be the SHA-256 of a run, got {key!r}")
        return no_link(self.path / "results" / f"{key}.npz")

    def find(self, keys: Iterable[str], metrics: Iterable[str] = ()) -> dict[str, RunRecord]:
        """Return key -> record for the `keys` that are in the store as failed or with all of `metrics`."""
        key_set, metric_names = set(keys), set(metrics)
        table, _ = self._read(key_set)
        # numbers are read column by column, since rows of pyarrow as dicts take ten times as long
        values: list[dict[str, float]] = [{} for _ in range(table.num_rows)]
        for name in table.column_names:
            if name not in _COLUMNS:
                column = table[name]
                numbers, valid = column.to_numpy().tolist(), column.is_valid().to_numpy().tolist()
                for row_values, number, is_valid in zip(values, numbers, valid, strict=True):
                    if is_valid:
                        row_values[name] = number
        names = ("key", "digest", "error", "wall_seconds", "peak_memory", "code", "adopted_from")
        records = {}
        for row_values, key, digest, error, seconds, memory, code, origin in zip(
            values, *(table[name].to_pylist() for name in names), strict=True
        ):
            is_complete = metric_names <= row_values.keys() and (
                not self.keep_results or self.result_file(key).exists()
            )
            if error or is_complete:
                records[key] = RunRecord(
                    values=row_values,
                    digest=digest,
                    error=error,
                    wall_seconds=seconds,
                    peak_memory=memory,
                    code=code,
                    adopted_from=origin or "",
                )
        return records

    def add(self, rows: Sequence[tuple[str, Cell, RunRecord]]) -> None:
        """Add records of runs under their keys in a new shard, and new scenarios in another shard."""
        schedulers_by_id = {id(cell.scheduler): cell.scheduler for _, cell, _ in rows}
        schedulers = {number: _scheduler_columns(scheduler) for number, scheduler in schedulers_by_id.items()}
        names = self.add_scenarios([cell.scenario for _, cell, _ in rows])
        columns: dict[str, list[Any]] = {
            "key": [key for key, _, _ in rows],
            **{
                name: [getattr(record, name) for _, _, record in rows]
                for name in ("error", "digest", "code", "adopted_from")
            },
            "user_code": [self._keys.user_code(cell) for _, cell, _ in rows],
            **{
                name: [schedulers[id(cell.scheduler)][name] for _, cell, _ in rows]
                for name in ("scheduler", "class", "parameters")
            },
            "scenario": names,
            "seed": [cell.scenario.seed for _, cell, _ in rows],
            "time_limit": [math.inf if cell.time_limit is None else cell.time_limit for _, cell, _ in rows],
            **{
                name: [getattr(record, name) for _, _, record in rows]
                for name in ("wall_seconds", "peak_memory")
            },
        }
        user_metrics = sorted({name for _, _, record in rows for name in record.values} - set(METRICS))
        columns |= {
            name: [record.values.get(name) for _, _, record in rows] for name in (*METRICS, *user_metrics)
        }
        self._cells.append(self._cells.table(columns), _MERGE_COUNT)
        self._added_keys += columns["key"]

    def add_scenarios(self, scenarios: Sequence[Scenario]) -> list[str]:
        """Add those of `scenarios` that are missing, in a new shard, and return the name of each."""
        if self._saved_scenarios is None:
            rows, _ = self._scenarios.read(columns=["scenario"])
            self._saved_scenarios = set(rows["scenario"].to_pylist())
        distinct = {id(scenario): self._keys.scenario(scenario) for scenario in scenarios}
        names = {
            number: hashlib.sha256(archive.toml.encode()).hexdigest() for number, archive in distinct.items()
        }
        self._keep_arrays({k: array for archive in distinct.values() for k, array in archive.arrays.items()})
        new = {names[number]: archive.toml for number, archive in distinct.items()}
        new = {name: toml for name, toml in new.items() if name not in self._saved_scenarios}
        if new:
            table = self._scenarios.table({"scenario": [*new], "toml": [*new.values()]})
            self._scenarios.append(table, _MERGE_COUNT)
            self._saved_scenarios |= new.keys()
        return [names[id(scenario)] for scenario in scenarios]

    def _keep_arrays(self, arrays: Arrays) -> None:
        """Write each array of scenarios to a file, unless it exists."""
        for name, array in arrays.items():
            file = no_link(self.path / "arrays" / f"{name}.npz")
            if not file.exists():
                file.parent.mkdir(exist_ok=True)
                with atomic_file(file) as stream, Writer(stream) as archive:
                    archive.arrays([(scenario_member(name), array)])

    # -- tables ---------------------------------------------------------------------------------------

    def _read(self, keys: set[str] | None = None) -> tuple[Any, list[Path]]:
        """Return the rows of `keys`, or all rows, each key once, and the paths of the shards that were read.

        Of several rows with one key, the first choice is one that did not fail, then one with more metrics.
        """
        rows, shards = self._cells.read(keys)
        compute = import_extra("pyarrow.compute", "data", "a store")
        nulls = (compute.is_null(rows[name]).cast("int64") for name in METRICS)
        order = rows.select(["key", "error"]).append_column("missing", functools.reduce(compute.add, nulls))
        return self._cells.distinct(rows, order), shards

    def tidy(self) -> None:
        """Add new keys to the manifest, and merge shards of one kind if there are `_MERGE_COUNT` or more."""
        if self._added_keys:
            self._manifest.folder.mkdir(exist_ok=True)
            self._manifest.write(self._manifest.table({"key": self._added_keys}))
            self._added_keys = []
        self._compact(_MERGE_COUNT)

    def _compact(self, count: int = 2) -> None:
        """Merge the shards of one kind into one if there are `count` or more."""
        if len(self._cells.paths()) >= count:
            self._cells.replace(*self._read())
        for table in (self._scenarios, self._manifest):
            if len(table.paths()) >= count:
                rows, shards = table.read()
                table.replace(table.distinct(rows), shards)

    # -- maintenance ----------------------------------------------------------------------------------

    def contents(self) -> list[dict[str, Any]]:
        """Return a row for each version of gridsim, scheduler and version of the user's code in the store.

        Returns
        -------
        list of dict
            ``code``, the version; ``scheduler``, its name; ``user_code``, the hash of the user's code, empty
            without any; ``runs``, their number; ``failed``, the number of those that failed;
            ``wall_seconds``, their total duration, s.
        """
        compute = import_extra("pyarrow.compute", "data", "a store")
        groups_of = ["code", "scheduler", "user_code"]
        rows, _ = self._cells.read(columns=["key", "error", *groups_of, "wall_seconds"])
        rows = self._cells.distinct(rows, rows.select(["key", "error"]))
        rows = rows.append_column("failed", compute.not_equal(rows["error"], "").cast("int64"))
        place = rows.column_names.index("user_code")
        rows = rows.set_column(place, "user_code", compute.fill_null(rows["user_code"], ""))
        totals = [("key", "count"), ("failed", "sum"), ("wall_seconds", "sum")]
        groups = rows.group_by(groups_of).aggregate(totals).to_pylist()
        names = {"runs": "key_count", "failed": "failed_sum", "wall_seconds": "wall_seconds_sum"}
        return [
            {name: group[names.get(name, name)] for name in (*groups_of, *names)}
            for group in sorted(groups, key=lambda group: [group[name] for name in groups_of])
        ]

    def verify(self) -> list[str]:
        """Read all files of the store and return its faults, one line each; [] if there are none.

        Damaged files are faults, and scenarios, arrays and results that are missing or are not those that
        their names and the runs state, scenarios without runs, missing runs of the manifest, and runs with
        one key and several digests.  A study that needs what is missing adds it again.  Meanwhile no other
        process may add runs.
        """
        faults: list[str] = []
        cells, scenarios, manifest = (
            self._intact(shards, faults) for shards in (self._cells, self._scenarios, self._manifest)
        )
        arrays = _Arrays(self.path / "arrays")
        for name in arrays:
            try:
                if content_name(arrays[name]) != name:
                    faults.append(f"{self.path}/arrays/{name}.npz: its name must be the SHA-256 of the array")
            except GridSimError as error:
                faults.append(str(error))
        known = set()
        for row in scenarios.to_pylist():
            known.add(row["scenario"])
            if hashlib.sha256(row["toml"].encode()).hexdigest() != row["scenario"]:
                faults.append(f"scenario {row['scenario']}: its name must be the SHA-256 of its text")
            missing = sorted(set(_REFERENCE.findall(row["toml"])) - set(arrays))
            faults += [f"scenario {row['scenario']}: the array {name} is missing" for name in missing]
        used = set(cells["scenario"].unique().to_pylist())
        faults += [f"scenario {name} of some runs is missing" for name in sorted(used - known)]
        faults += [f"scenario {name}: its runs are missing" for name in sorted(known - used)]
        if lost := set(manifest["key"].to_pylist()) - set(cells["key"].to_pylist()):
            faults.append(f"{len(lost)} runs that studies have added are missing, such as {min(lost)}")
        digests: dict[str, str] = {}
        for key, digest in zip(cells["key"].to_pylist(), cells["digest"].to_pylist(), strict=True):
            if digest and digests.setdefault(key, digest) != digest:
                faults.append(f"run {key}: there are several digests, {digests[key]} and {digest}")
        for file in sorted((self.path / "results").glob("*.npz")):
            try:
                result = Result.load(no_link(file))
                if result.digest != digests.get(file.stem, result.digest):
                    faults.append(f"{file}: the digest must be {digests[file.stem]}, got {result.digest}")
            except (GridSimError, OSError) as error:
                faults.append(str(error))
        return faults

    def _intact(self, shards: Shards, faults: list[str]) -> Any:
        """Return the rows of all intact shards; add the others to `faults`."""
        tables = []
        for shard in shards.paths():
            try:
                tables.append(shards.read_shard(shard))
            except GridSimError as error:
                faults.append(str(error))
        return shards.concatenate(tables)

    def merge(self, source: Store) -> int:
        """Add the runs of another store, with their scenarios and whole results, and return their number.

        Raises
        ------
        GridSimError
            If a run has other digests in the two stores, or a shard is damaged; then nothing is added.
        """
        check_mergeable([self, source])
        rows, count = source._read()[0], len(self)
        for folder, suffix in (("arrays", ".npz"), ("results", ".npz")):
            for file in sorted((source.path / folder).glob(f"*{suffix}")):
                target = no_link(self.path / folder / file.name)
                if not target.exists():
                    target.parent.mkdir(exist_ok=True)
                    with open_regular(no_link(file)) as stream, atomic_file(target) as copy:
                        shutil.copyfileobj(stream, copy)
        if rows.num_rows:
            self._scenarios.write(source._scenarios.distinct(source._scenarios.read()[0]))
            self._cells.write(rows)
        keys = source._manifest.read()[0]
        if keys.num_rows:
            self._manifest.folder.mkdir(exist_ok=True)
            self._manifest.write(source._manifest.distinct(keys))
        self._compact()
        return len(self) - count

    def drop(
        self,
        *,
        code: str | None = None,
        scheduler: str | None = None,
        user_code: str | None = None,
        failed: bool = False,
        other_versions: bool = False,
    ) -> int:
        """Remove the runs to which all of these conditions apply, and return their number.

        Scenarios, arrays and whole results that no other run refers to are removed as well.  Meanwhile no
        other process may add runs.

        Parameters
        ----------
        code
            The runs of this version of gridsim, as in `contents`.
        scheduler
            The runs of the scheduler of this name.
        user_code
            The runs with this version of the user's code, as in `contents`.
        failed
            The runs that failed.
        other_versions
            The runs of other versions of gridsim than the present one.

        Raises
        ------
        ScenarioError
            If there is no condition, or no run has the code, scheduler or version of the user's code.
        """
        compute = import_extra("pyarrow.compute", "data", "a store")
        rows, shards = self._read()
        conditions = []
        for name, value in (("code", code), ("scheduler", scheduler), ("user_code", user_code)):
            if value is not None:
                column = compute.fill_null(rows[name], "")
                one_of(name, value, tuple(sorted(column.unique().to_pylist())))
                conditions.append(compute.equal(column, value))
        if failed:
            conditions.append(compute.not_equal(rows["error"], ""))
        if other_versions:
            conditions.append(compute.not_equal(rows["code"], code_version()))
        if not conditions:
            raise ScenarioError(
                "drop requires at least one of code, scheduler, user_code, failed and other_versions"
            )
        remaining_rows = rows.filter(compute.invert(functools.reduce(compute.and_, conditions)))
        self._cells.replace(remaining_rows, shards)
        manifest, shards = self._manifest.read()
        dropped = rows.filter(functools.reduce(compute.and_, conditions))["key"]
        is_dropped = compute.is_in(manifest["key"], dropped)
        self._manifest.replace(manifest.filter(compute.invert(is_dropped)), shards)
        scenarios, shards = self._scenarios.read(set(remaining_rows["scenario"].unique().to_pylist()))
        scenarios = self._scenarios.distinct(scenarios)
        self._scenarios.replace(scenarios, shards)
        self._saved_scenarios = None
        names = {
            "arrays": {name for text in scenarios["toml"].to_pylist() for name in _REFERENCE.findall(text)},
            "results": set(remaining_rows["key"].to_pylist()),
        }
        for folder, needed in names.items():
            for file in (self.path / folder).glob("*.npz"):
                if file.stem not in needed and re.fullmatch(_SHA256, file.stem):
                    file.unlink(missing_ok=True)
        return int(rows.num_rows - remaining_rows.num_rows)

    # -- the whole store ------------------------------------------------------------------------------

    def __len__(self) -> int:
        compute = import_extra("pyarrow.compute", "data", "a store")
        return int(compute.count_distinct(self._cells.read(columns=["key"])[0]["key"]).as_py())

    def to_arrow(self) -> Any:
        """Return a pyarrow Table with one row per run, in any order (docs/guides/experiments.md).

        Metrics that a run does not have are null, as in tables of studies.
        """
        rows, compute = self._read()[0], import_extra("pyarrow.compute", "data", "a store")
        for place, name in enumerate(rows.column_names):
            if name not in _COLUMNS:
                column = compute.if_else(compute.is_nan(rows[name]), None, rows[name])
                rows = rows.set_column(place, name, column)
        return rows

    def to_pandas(self) -> Any:
        """Return `to_arrow` as a pandas DataFrame."""
        import_extra("pandas", "data", "to_pandas")
        return self.to_arrow().to_pandas()

    def scenario(self, name: str) -> Scenario:
        """Return scenario `name` of the column ``scenario``, with SHA-256 in place of the paths of its files.

        Raises
        ------
        GridSimError
            If there is no scenario with this name, or one of its arrays is damaged.
        """
        rows, _ = self._scenarios.read({name})
        if not rows.num_rows:
            raise GridSimError(f"store: there is no scenario {name}")
        return Scenario.from_archive(ArchivedScenario(rows["toml"][0].as_py(), _Arrays(self.path / "arrays")))

    def result(self, key: str) -> Result:
        """Return the whole result of a run; raise GridSimError if it was not kept or has another digest."""
        file = self.result_file(key)
        if not file.exists():
            raise GridSimError(f"store: there is no result of {key}; use keep_results=True to keep results")
        result = Result.load(file)
        for digest in self._read({key})[0]["digest"].to_pylist():
            if digest and digest != result.digest:
                raise GridSimError(
                    f"{file}: the digest must be {digest}, as in the store, got {result.digest}"
                )
        return result

    def __repr__(self) -> str:
        return f"<Store {self.path}: {len(self)} runs>"


class _Arrays(Mapping[str, NDArray[Any]]):
    """The arrays in a folder of a store by name; an array is read from its file at the access.

    Raises
    ------
    GridSimError
        If a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> NDArray[Any]:
        if not re.fullmatch(_SHA256, name):
            raise KeyError(name)
        file = no_link(self._folder / f"{name}.npz")
        try:
            with open_regular(file) as stream, Reader(stream) as archive:
                return archive.scenario_arrays([name])[name]
        except FileNotFoundError:
            raise KeyError(name) from None
        except MemoryError:
            raise
        except Exception as error:  # a damaged file may cause any exception of zip
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk: the file may be intact
            raise GridSimError(f"{file}: not a valid array of a store ({error})") from error

    def __iter__(self) -> Iterator[str]:
        return (file.stem for file in self._folder.glob("*.npz"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _scheduler_columns(scheduler: Scheduler) -> dict[str, str]:
    """Return the columns that identify a scheduler."""
    description = describe(scheduler)
    parameters = json.dumps(plain(description["parameters"]), sort_keys=True)
    return {"scheduler": description["name"], "class": description["class"], "parameters": parameters}


def _can_be_in_new_store(path: Path) -> bool:
    """Return whether `path` may be in a store that is being created, or whose creation was interrupted."""
    if (name := _FOLDERS.get(path.name)) is not None:
        return path.is_dir() and all(_has_name(file, name) for file in path.iterdir())
    return _has_name(path, re.escape(_HEADER))


def _has_name(path: Path, pattern: str) -> bool:
    """Return whether the name of `path`, or of an unfinished file of that name, matches `pattern`."""
    return bool(re.fullmatch(pattern, path.name) or temporary_names(pattern).fullmatch(path.name))


def check_mergeable(stores: Sequence[Store]) -> None:
    """Raise GridSimError if a shard of a store is damaged, or a run has other digests in two of them."""
    known: dict[str, tuple[str, Store]] = {}
    for store in stores:
        store._scenarios.read(columns=["scenario"])
        rows, _ = store._cells.read(columns=["key", "digest"])
        for key, digest in zip(rows["key"].to_pylist(), rows["digest"].to_pylist(), strict=True):
            if not digest:  # the run failed
                continue
            other_digest, other = known.setdefault(key, (digest, store))
            if other_digest != digest:
                raise GridSimError(
                    f"{store.path}: the digest of run {key} must be {other_digest}, as in {other.path}, got "
                    f"{digest}"
                )


def store_of(store: Store | StorePath | None) -> Store | None:
    """Return `store` itself if it is a `Store` or None, otherwise the store at that path."""
    return store if store is None or isinstance(store, Store) else Store(store)


def is_store(path: StorePath) -> bool:
    """Return whether a folder is a store."""
    return (Path(path) / _HEADER).is_file()
