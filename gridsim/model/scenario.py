"""Scenario: all inputs of a run except the scheduler, as stored in a TOML file."""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.applications import JOB_TIMES, MACHINE_SHARES
from gridsim.model.background_load import Fluctuation
from gridsim.model.bag_workloads import LogRecipe
from gridsim.model.faults import Faults
from gridsim.model.kinds import PARTS, Kind, kinds_for
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
from gridsim.model.workload import Workload
from gridsim.support import html, units
from gridsim.support import toml as toml_files
from gridsim.support.arguments import hint, integer, listed, one_of, short_repr, text
from gridsim.support.arrays import first_true
from gridsim.support.columns import COLUMNS, ArrayColumn
from gridsim.support.files import StrPath, atomic_file
from gridsim.support.imports import first_code_name
from gridsim.support.memory import check_fits
from gridsim.support.parameters import Limits, column_checks, fields_of, limits_of, literal_values, tables_of
from gridsim.support.random_streams import DEFAULT_SEED
from gridsim.support.references import Arrays, with_columns, with_references

_LOG = logging.getLogger(__name__)
#: Entry -> the entry that overrides it.  If only the former is set to a new value, the latter is removed.
_OVERRIDING_ENTRIES = {"workload.tasks_per_node": "workload.tasks"}
_KEYS = ("seed", "platform", "workload", "network", "faults", "fluctuation", "schedulers")
_REQUIRED_KEYS = ("platform", "workload")
#: Estimated memory per element of a list of Python numbers, bytes.
_BYTES_PER_NUMBER = 100
#: Name of a type in msgspec -> its name in error messages.
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


class ArchivedScenario(NamedTuple):
    """A scenario as it is stored in a result, a checkpoint or a store of runs.

    Parameters
    ----------
    toml
        The scenario as TOML, with references to its long lists (`gridsim.support.references`).
    arrays
        Name in the TOML -> long list, a one-dimensional array.
    """

    toml: str
    arrays: Arrays


@dataclass(frozen=True)
class Scenario:
    """A platform, a workload, a network, optional faults and background load, and a seed.

    The clock of a run begins at `Workload.origin`.  Lists of releases, failures or factors may thus state
    UNIX times, for example, which become times after the first release.

    Paths of files in the parts are relative to the working directory.  In a scenario *file* they are relative
    to the folder of that file.

    Parameters
    ----------
    seed
        Seed of the random streams of schedulers; the parts have separate seeds.
    schedulers
        Parameters of schedulers by name, such as ``{"fair-tree": {"bound": 2.0}}``.  They apply to schedulers
        that are selected by name, on the command line or in a call such as `simulate` and `compare`, and not
        to objects such as ``FairTree()``.
    """

    platform: Platform
    workload: Workload
    network: Network = field(default_factory=Network)
    seed: int = DEFAULT_SEED
    schedulers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    faults: Faults | None = None
    fluctuation: Fluctuation | None = None

    def __post_init__(self) -> None:
        for name, kind in (("platform", Platform), ("workload", Workload), ("network", Network)):
            if not isinstance(getattr(self, name), kind):
                type_name = type(getattr(self, name)).__name__
                raise ScenarioError(f"{name} must be a {kind.__name__}, got {type_name}")
        for name, option in (("faults", Faults), ("fluctuation", Fluctuation)):
            part = getattr(self, name)
            if not (part is None or isinstance(part, option)):
                raise ScenarioError(f"{name} must be {option.__name__} or None, got {type(part).__name__}")
            if part is not None and part.origin != self.workload.origin:
                object.__setattr__(self, name, replace(part, origin=self.workload.origin))
        object.__setattr__(self, "seed", integer("seed", self.seed))
        object.__setattr__(self, "schedulers", _check_schedulers(self.schedulers))

    def __repr__(self) -> str:
        return f"<Scenario: {', '.join(f'{part} {text}' for part, text in self._parts().items())}>"

    def _repr_html_(self) -> str:
        """Return the scenario as HTML, for notebooks."""
        lines = {
            name: ", ".join(f"{key} {short_repr(value)}" for key, value in table.items())
            if isinstance(table, dict)
            else str(table)
            for name, table in self._document().items()
        }
        return html.pairs(lines, "Scenario")

    def _parts(self) -> dict[str, str]:
        """Return a short description of each part."""
        parts: dict[str, Any] = {"platform": self.platform, "workload": self.workload}
        parts |= {"faults": self.faults, "fluctuation": self.fluctuation}
        texts = {
            name: str(part.recipe.__struct_config__.tag) for name, part in parts.items() if part is not None
        }
        texts["platform"] = f"{self.platform.nodes} machines ({texts['platform']})"
        return {**texts, "seed": str(self.seed)}

    def _kinds(self) -> dict[str, Kind]:
        """Return table -> class of its kind."""
        parts = ((name, getattr(self, name)) for name in PARTS)
        return {name: type(part.recipe) for name, part in parts if part is not None}

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of the parts that are drawn at random, with separate seeds.

        For a workload from a log, "submitters" stands for the drawn machines at which its jobs are submitted,
        unless the jobs are drawn as well.
        """
        names = []
        for name in ("platform", "workload", "faults", "fluctuation"):
            recipe = getattr(getattr(self, name), "recipe", None)
            if name == "workload" and isinstance(recipe, JobLogRecipe | SiteLogsRecipe | LogRecipe):
                is_resampled = getattr(recipe, "resample", None) is not None
                names.append("workload" if is_resampled else "submitters")
            elif hasattr(recipe, "seed") or hasattr(getattr(recipe, "attributes", None), "seed"):
                names.append(name)
        return tuple(names)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of trace files, and of folders of FTA traces, as the scenario states them."""
        parts = (self.platform, self.workload, self.faults)
        recipes: list[Any] = [part.recipe for part in parts if part is not None]
        recipes.insert(0, self.platform.recipe.power)
        paths = ([r.path] if hasattr(r, "path") else getattr(r, "paths", ()) for r in recipes)
        return tuple(path for group in paths for path in group)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that a run reads; for an FTA trace its events and its table of nodes.

        Raises
        ------
        TraceFormatError
            If a folder has no trace.
        """
        return tuple(dict.fromkeys(file for files in self.sources().values() for file in files))

    def sources(self) -> dict[str, tuple[str, ...]]:
        """Return the files that are read for each of the `paths`."""
        files = {path: (path,) for path in self.paths}
        return files | (self.faults.sources() if self.faults is not None else {})

    def places(self) -> dict[str, tuple[str, ...]]:
        """Return the files that may be read for each of the `paths`, whether they exist or not."""
        files = {path: (path,) for path in self.paths}
        return files | (self.faults.places() if self.faults is not None else {})

    @property
    def remarks(self) -> dict[str, str]:
        """`Workload.remarks`; ``parts`` says what jobs take of shared machines, which are no nodes."""
        lines, recipe = self.workload.remarks, self.workload.recipe
        if not (self.platform.is_shared and isinstance(recipe, JobLogRecipe | SiteLogsRecipe)):
            return lines
        if parts := "; ".join(filter(None, (recipe.parts, recipe.resources(self.platform)))):
            lines.pop("cores", None)
            lines["parts"] = parts
        return lines

    def by_site(self) -> dict[str, Scenario]:
        """Return each site by itself: its name -> a scenario of its machines and the jobs at home there.

        Releases keep the clock of this scenario.  Sites without jobs are left out.

        Raises
        ------
        ScenarioError
            If the platform has no sites, or a job is wider than its home site or has none, or if the scenario
            has bags of tasks, faults, background load, or attributes of machines.
        """
        platform, jobs = self.platform, self.workload.realize(self.platform)
        for name, part in (
            ("faults", self.faults),
            ("fluctuation", self.fluctuation),
            ("platform.attributes", platform.recipe.attributes),
        ):
            if part is not None:
                raise ScenarioError(f"{name} must be None to separate the sites, got {short_repr(part)}")
        if jobs.site is None or jobs.machine_site is None or jobs.requested is None:
            raise ScenarioError(
                "Scenario.by_site requires rigid jobs and a platform of sites (Platform.sites)"
            )
        for i in first_true(jobs.site < 0):
            raise ScenarioError(f"workload.site[{i}] must be the home of the job, got {jobs.site[i]}")
        scenarios = {}
        for k, name in enumerate(platform.site_names):
            rows = np.flatnonzero(jobs.site == k)
            single = platform.site(k)
            # a job on shared machines may have more tasks than there are machines
            for i in first_true((jobs.tasks[rows] > single.nodes) & (not single.is_shared)):
                raise ScenarioError(
                    f"workload.nodes must be at most {single.nodes} at site {name}, its machines, "
                    f"got {jobs.tasks[rows[i]]}"
                )
            if not len(rows):
                continue
            optional = {
                column: None if (values := getattr(jobs, column)) is None else values[rows]
                for column in ("user", "queue", "priority", *MACHINE_SHARES, *JOB_TIMES)
            }
            workload = Workload.jobs_of(
                jobs.release[rows],
                jobs.tasks[rows],
                jobs.task_size[rows] / single.speeds[0],
                jobs.requested[rows],
                jobs.submitter[rows] - int(np.searchsorted(jobs.machine_site, k)),
                origin=0.0,
                **_without_unknown(optional),
            )
            scenarios[name] = replace(self, platform=single, workload=workload)
        return scenarios

    # -- writing --------------------------------------------------------------------------------------

    def to_toml(self, *, schedulers: bool = True, place: Callable[[str], str] = str) -> str:
        """Return the scenario as TOML; ``Scenario.from_toml(s.to_toml()) == s``.

        Parameters
        ----------
        schedulers
            Whether to include the parameters of schedulers.
        place
            Function from the path of a file to the path that is written.
        """
        return _toml(_lists_for_columns(self._document(place)), schedulers)

    def to_archive(self, *, schedulers: bool = True, place: Callable[[str], str] = str) -> ArchivedScenario:
        """Return the scenario in its archived form; ``Scenario.from_archive(s.to_archive()) == s``.

        The texts of equal scenarios are equal.  `schedulers` and `place` are as in `to_toml`.
        """
        arrays: dict[str, NDArray[Any]] = {}
        document = self._document(place)
        tables = {
            name: entry if name == "schedulers" else with_references(entry, arrays)
            for name, entry in document.items()
        }
        return ArchivedScenario(_toml(_lists_for_columns(tables), schedulers), arrays)

    def save(self, path: StrPath) -> None:
        """Write the scenario to a file, completely or not at all."""
        folder = os.path.dirname(os.path.abspath(path))

        def relative(file: str) -> str:
            return file if os.path.isabs(file) else os.path.relpath(file, folder)

        try:
            content = self.to_toml(place=relative).encode()
        except UnicodeEncodeError as error:
            raise ScenarioError(
                "strings of a scenario, such as names of files, must be valid UTF-8, got "
                f"{short_repr(error.object[error.start : error.end])}"
            ) from error
        with atomic_file(path) as stream:
            stream.write(content)

    def document(self, place: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the content of a scenario file as nested dicts, without entries that are None."""
        document: dict[str, Any] = _lists_for_columns(self._document(place))
        return document

    def _document(self, place: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the content of a scenario file as nested dicts, with columns in place of lists."""
        document: dict[str, Any] = {"seed": self.seed}
        for name, value in (
            ("platform", self.platform.recipe),
            ("workload", self.workload.recipe),
            ("network", self.network),
            ("faults", None if self.faults is None else self.faults.recipe),
            ("fluctuation", None if self.fluctuation is None else self.fluctuation.recipe),
        ):
            if value is None:
                continue
            table = msgspec.to_builtins(value, builtin_types=COLUMNS)
            document[name] = _drop_none(_with_places(table, name, place))
        if self.schedulers:
            document["schedulers"] = copy.deepcopy(dict(self.schedulers))
        return document

    # -- reading --------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text_or_path: StrPath, *, imports: Collection[str] = ()) -> Scenario:
        """Make a scenario from TOML text, or from the file at a path (a str without a newline is a path).

        Parameters
        ----------
        imports
            Classes of kinds, such as ``"gammabags:Gamma"``, whose modules have not been imported.

        Raises
        ------
        ScenarioError
            If an entry is wrong (the error names its path) or the text is not TOML (it names FILE:LINE).
        OSError
            If the file cannot be read.
        """
        if isinstance(text_or_path, str) and "\n" in text_or_path:
            return cls._read(text_or_path, "<scenario>", "", imports)
        file = text("scenario", text_or_path)
        _LOG.info("scenario of %s", file)
        try:
            toml = toml_files.read(file)
        except FileNotFoundError as error:
            folder, name = os.path.split(file)
            entries = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
            advice = hint((entry for entry in entries if entry.endswith(".toml")), name)
            raise FileNotFoundError(error.errno, f"{error.strerror}{advice}", file) from error
        return cls._read(toml, file, os.path.dirname(file), imports)

    @classmethod
    def from_text(cls, toml: str) -> Scenario:
        """Make a scenario from TOML text, also from a text without a newline.

        Raises
        ------
        ScenarioError
            If an entry is wrong (the error names its path) or the text is not TOML (it names the line).
        """
        return cls._read(toml, "<scenario>", "")

    @classmethod
    def from_archive(cls, archive: ArchivedScenario) -> Scenario:
        """Make a scenario from its archived form.

        Raises
        ------
        ScenarioError
            If an entry is wrong (the error names its path) or an array is missing.
        """
        document = toml_files.parse(archive.toml, "<scenario>")
        return cls.from_document(document, "the archive", arrays=archive.arrays)

    def replaced(self, values: Mapping[str, Any], *, folder: str = "") -> Scenario:
        """Return a copy with the entries `values` replaced, such as ``{"platform.nodes": 200}``.

        Parameters
        ----------
        values
            Path -> value.  A whole table such as ``faults`` may be replaced, and None removes an entry.  A
            table that does not exist is created.
        folder
            Folder that files in `values` are relative to; by default the working directory.

        Raises
        ------
        ScenarioError
            If a path or value is invalid in a scenario.
        """
        document = self._document()
        for path in values:
            text("the path of an entry", path)
        for path, override in _OVERRIDING_ENTRIES.items():
            if values.get(path) is not None and values.get(override) is not None:
                raise ScenarioError(
                    f"{path} does not support {override}, which overrides it; set one of them"
                )
        # whole tables are replaced before single entries, regardless of the order of `values`
        for path, value in sorted(values.items(), key=lambda entry: entry[0].count(".")):
            *tables, last = path.split(".")
            table = document
            for name in tables:
                table = table.setdefault(name, {})
                if not isinstance(table, dict):
                    raise ScenarioError(f"{path}: {name} must be a table of the scenario, got {table!r}")
            if value is None:
                table.pop(last, None)
            else:
                table[last] = _join_folder(path, copy.deepcopy(value), folder)
                if path in _OVERRIDING_ENTRIES and _OVERRIDING_ENTRIES[path] not in values:
                    table.pop(_OVERRIDING_ENTRIES[path].rpartition(".")[2], None)
        return self.from_document(document, kinds=self._kinds())

    @classmethod
    def _read(cls, toml: str, file: str, folder: str, imports: Collection[str] = ()) -> Scenario:
        return cls.from_document(toml_files.parse(toml, file), file, folder, imports=imports)

    @classmethod
    def from_document(
        cls,
        document: dict[str, Any],
        file: str = "the scenario",
        folder: str = "",
        arrays: Arrays = MappingProxyType({}),
        imports: Collection[str] = (),
        kinds: Mapping[str, Kind] = MappingProxyType({}),
    ) -> Scenario:
        """Make a scenario from the content of a scenario file as nested dicts.

        Parameters
        ----------
        document
            The content, as of `Scenario.document`.
        file
            Name of the file in errors.
        folder
            Folder that paths in the content are relative to.
        arrays
            Arrays to which the content refers; a scenario file of a user refers to none.
        imports
            As of `from_toml`.
        kinds
            Table -> class of the kind that its tag stands for.

        Raises
        ------
        ScenarioError
            If an entry is wrong; the error names its path.
        """
        for key in document:
            if key not in _KEYS:
                raise ScenarioError(f"{key} is not a known key of a scenario; {listed(_KEYS, key)}")
        for key in _REQUIRED_KEYS:
            if key not in document:
                raise ScenarioError(f"{key} is missing: {file} has no table [{key}]")
        for key in _KEYS[1:]:
            if not isinstance(document.get(key, {}), dict):
                raise ScenarioError(f"{key} must be a table, got {document[key]!r}")
        document = {
            key: entry if key == "schedulers" else with_columns(entry, arrays, key, file)
            for key, entry in document.items()
        }
        parts: dict[str, Any] = {}
        for name, part in (
            ("platform", Platform),
            ("workload", Workload),
            ("faults", Faults),
            ("fluctuation", Fluctuation),
        ):
            if name not in document:
                continue
            table = _join_folder(name, document[name], folder)
            structs = kinds_for(name, table.get("kind"), kinds.get(name), imports)
            parts[name] = part(_convert(_kind_of(structs.values(), table, name), table, name))
        return cls(
            **parts,
            network=_convert(Network, document.get("network", {}), "network"),
            seed=document.get("seed", DEFAULT_SEED),
            schedulers=document.get("schedulers", {}),
        )


def _without_unknown(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that are not None and have no unknown (negative) users or queues."""
    return {
        name: column
        for name, column in columns.items()
        if column is not None and not (name in ("user", "queue") and column.min() < 0)
    }


def _toml(document: dict[str, Any], schedulers: bool) -> str:
    """Return a document as TOML, with the parameters of schedulers if `schedulers` is true."""
    import tomli_w

    return tomli_w.dumps(
        {name: entry for name, entry in document.items() if schedulers or name != "schedulers"}
    )


def _lists_for_columns(value: Any) -> Any:
    """Return a table, and its inner tables, with lists in place of columns."""
    if isinstance(value, dict):
        return {key: _lists_for_columns(entry) for key, entry in value.items()}
    return value.tolist() if isinstance(value, ArrayColumn) else value


def _drop_none(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table, and its inner tables, without entries that are None."""
    entries = {key: entry for key, entry in table.items() if entry is not None}
    return {key: _drop_none(entry) if isinstance(entry, dict) else entry for key, entry in entries.items()}


#: Entries that are paths of files, or lists of paths, if they are strings.
_PATHS = re.compile(r"\w+\.paths?|platform\.power\.carbon")


def _with_places(value: Any, path: str, place: Callable[[str], str]) -> Any:
    """Return the value of an entry, with `place` of each path of a file in it."""
    if isinstance(value, dict):
        return {key: _with_places(entry, f"{path}.{key}", place) for key, entry in value.items()}
    if not _PATHS.fullmatch(path):
        return value
    if isinstance(value, str):
        return place(value) if value else value
    is_list = isinstance(value, (list, tuple))
    return [place(entry) if isinstance(entry, str) else entry for entry in value] if is_list else value


def _join_folder(path: str, value: Any, folder: str) -> Any:
    """Return the value of an entry, with its paths of files joined to `folder`."""
    if not folder:
        return value
    return _with_places(value, path, lambda file: os.path.normpath(os.path.join(folder, file)))


def _kind_of(
    structs: Iterable[type[msgspec.Struct]], table: dict[str, Any], path: str
) -> type[msgspec.Struct]:
    """Return the struct that the key ``kind`` of a table names, or raise ScenarioError."""
    kinds = {str(kind.__struct_config__.tag): kind for kind in structs}
    name = table.get("kind")
    if not isinstance(name, str) or name not in kinds:
        value = "nothing" if name is None else repr(name)
        advice = hint(kinds, name)
        if name is not None and path in PARTS and not advice:
            advice = "; a class of your own requires --import module:Class, or in Python that it is imported"
        raise ScenarioError(f"{path}.kind must be one of {', '.join(kinds)}, got {value}{advice}")
    fields = kinds[name].__struct_encode_fields__
    for key in table:
        owners = [tag for tag, kind in kinds.items() if key in kind.__struct_encode_fields__]
        if owners and key not in fields:
            raise ScenarioError(
                f"{path}.{key} requires {path}.kind = {' or '.join(owners)}, got {name}; "
                f"keys of {name}: {', '.join(fields)}"
            )
    return kinds[name]


def _convert(kind: type[msgspec.Struct], table: dict[str, Any], path: str) -> Any:
    return convert_value(_without_units(table, kind, path), kind, path)


def _without_units(table: dict[str, Any], kind: type[msgspec.Struct], path: str) -> dict[str, Any]:
    """Return a table with numbers in place of texts that have a unit, such as ``"50 ms"``.

    Raises
    ------
    ScenarioError
        If a key of the table or of an inner table is unknown.
    """
    fields = kind.__struct_encode_fields__
    for key in table:
        if key not in fields and key != kind.__struct_config__.tag_field:
            raise ScenarioError(f"{path}.{key} is not a known key; {listed(fields, key)}")
    limits, inner, columns = limits_of(kind), tables_of(kind), column_checks(kind)

    def without_unit(path: str, value: Any, limits: Limits) -> Any:
        if isinstance(value, str):
            return limits.real(path, value)
        if isinstance(value, list):
            return [without_unit(f"{path}[{k}]", entry, limits) for k, entry in enumerate(value)]
        if isinstance(value, dict):
            return {key: without_unit(f"{path}.{key}", entry, limits) for key, entry in value.items()}
        return value

    def entry_without_unit(key: str, value: Any) -> Any:
        entry_path = f"{path}.{key}"
        if key in columns:
            return columns[key](entry_path, value)
        if isinstance(value, ArrayColumn):
            check_fits(entry_path, len(value.arrays[0]), "numbers", _BYTES_PER_NUMBER)
            return value.tolist()
        if key in inner and isinstance(value, dict):
            first, *further = inner[key]
            struct = _kind_of(inner[key], value, entry_path) if further else first
            return _without_units(value, struct, entry_path)
        has_unit = key in limits and limits[key].unit in units.UNITS
        return without_unit(entry_path, value, limits[key]) if has_unit else value

    return {key: entry_without_unit(key, value) for key, value in table.items()}


def convert_value(value: Any, kind: Any, path: str) -> Any:
    """Return `value` as `kind`; turn msgspec's error into a ScenarioError that begins with `path`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ScenarioError):
            raise error.__cause__ from None
        message, _, place = str(error).partition(" - at `$")
        message = message[:1].lower() + message[1:]
        if place:
            path += place.rstrip("`")
        if match := re.fullmatch(r"object (missing required|contains unknown) field `(.*)`", message):
            fault = "is missing" if match[1] == "missing required" else "is not a known key"
            raise ScenarioError(f"{path}.{match[2]} {fault}") from error
        if match := re.fullmatch(r"expected `([a-z| ]+)`, got `(\w+)`", message):
            expected_type = " or ".join(_TYPES.get(word, word) for word in match[1].split(" | "))
            actual_type = (
                "a fraction" if match.groups() == ("int", "float") else _TYPES.get(match[2], match[2])
            )
            raise ScenarioError(f"{path} must be {expected_type}, got {actual_type}") from error
        if match := re.fullmatch("invalid enum value '(.*)'", message):
            field = fields_of(kind).get(place.strip(".`"))
            one_of(path, match[1], () if field is None else literal_values(field.type))
        raise ScenarioError(f"{path}: {message}") from error


def check_scenario(scenario: Any) -> Scenario:
    """Return `scenario`, or raise ScenarioError if it is not a Scenario but, for example, a file name."""
    if not isinstance(scenario, Scenario):
        is_file = isinstance(scenario, (str, os.PathLike))
        advice = f"; write Scenario.from_toml({short_repr(scenario)})" if is_file else ""
        raise ScenarioError(f"scenario must be a Scenario, got {short_repr(scenario)}{advice}")
    return scenario


def _has_nan(value: Any) -> bool:
    """Return whether `value` contains a NaN, with which a scenario would not be equal to itself."""
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_nan, value))
    return isinstance(value, float) and value != value


def _plain_copy(value: Any) -> Any:
    """Return a deep copy with NumPy values converted to Python values, which a file can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain_copy(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain_copy, value)) if isinstance(value, tuple) else list(map(_plain_copy, value))
    return copy.deepcopy(value)


def _check_schedulers(schedulers: Any) -> dict[str, dict[str, Any]]:
    """Return a plain copy of the parameters of schedulers, or raise ScenarioError."""
    tables = {}
    if not isinstance(schedulers, Mapping):
        raise ScenarioError(f"schedulers must be a table, got {schedulers!r}")
    for name, parameters in schedulers.items():
        if not isinstance(name, str) or ":" in name:
            raise ScenarioError(
                f"schedulers.{name!r} must be the name of a registered scheduler, as a scenario never "
                "imports code; state a module:Class on the command line"
            )
        if not isinstance(parameters, Mapping):
            raise ScenarioError(f"schedulers.{name} must be a table of parameters, got {parameters!r}")
        for key, value in parameters.items():
            if (code := first_code_name(value)) is not None:
                raise ScenarioError(
                    f"schedulers.{name}.{key} must not name code, as a scenario never imports code, got "
                    f"{code!r}; state a module:function on the command line"
                )
            if _has_nan(value):
                raise ScenarioError(f"schedulers.{name}.{key} must not contain nan, got {short_repr(value)}")
        tables[name] = {key: _plain_copy(value) for key, value in parameters.items()}
    return tables
