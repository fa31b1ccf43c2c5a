"""Scenario: everything a run depends on except the scheduler, exactly as a TOML file holds it."""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.background_load import Fluctuation, FluctuationRecipe
from gridsim.model.bag_workloads import LogRecipe
from gridsim.model.faults import Faults, FaultsRecipe
from gridsim.model.network import Network
from gridsim.model.platform import Platform, PlatformRecipe
from gridsim.model.rigid_workloads import JobLogRecipe
from gridsim.model.workload import Workload, WorkloadRecipe
from gridsim.support import html, units
from gridsim.support import toml as toml_files
from gridsim.support.arguments import hint, listed, real, short_repr, text, whole
from gridsim.support.columns import COLUMNS, ArrayColumn
from gridsim.support.files import StrPath, atomic_file
from gridsim.support.imports import names_code
from gridsim.support.memory import check_fits
from gridsim.support.parameters import column_checks, limits_of, tables_of
from gridsim.support.random_streams import DEFAULT_SEED
from gridsim.support.references import Arrays, with_columns, with_references

_LOG = logging.getLogger(__name__)
#: Entry -> the entry that overrides it.  The second is removed when the first alone is set to a new value.
_OVERRIDDEN = {"workload.tasks_per_node": "workload.tasks"}
_KEYS = ("seed", "platform", "workload", "network", "faults", "fluctuation", "schedulers")
_REQUIRED = ("platform", "workload")
#: Bytes of a number in a list of Python numbers, from which tuples are made.
_OF_NUMBER = 100
_TYPES = {  # name of a type in msgspec -> name in error messages
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


class ArchivedScenario(NamedTuple):
    """A scenario as a result, a checkpoint or a store holds it.

    Parameters
    ----------
    toml
        The scenario as TOML, which refers to its long lists, see `gridsim.support.references`.
    arrays
        Those lists, one-dimensional, under the names by which the TOML refers to them.
    """

    toml: str
    arrays: Arrays


@dataclass(frozen=True)
class Scenario:
    """A platform, a workload, a network, faults and fluctuation (each may be None), and a seed.

    The clock of a run begins at `Workload.origin`, so that times that a list of releases, failures or factors
    states in UNIX time, say, are times after the first release.

    Names of files in the parts are relative to the working directory.  In a scenario *file* they are relative
    to the folder of that file.

    Parameters
    ----------
    seed
        Seed of the random streams of schedulers; platform and workload have seeds of their own.
    schedulers
        Parameters of schedulers by name, such as ``{"fair-tree": {"bound": 2.0}}``, for schedulers that are
        given by name, on the command line and to `simulate`, `compare` and so on.  An object such as
        ``FairTree()`` has its own.
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
                shown = type(getattr(self, name)).__name__
                raise ScenarioError(f"{name} must be a {kind.__name__}, got {shown}")
        for name, option in (("faults", Faults), ("fluctuation", Fluctuation)):
            given = getattr(self, name)
            if not (given is None or isinstance(given, option)):
                raise ScenarioError(f"{name} must be {option.__name__} or None, got {type(given).__name__}")
            if given is not None and given.origin != self.workload.origin:
                object.__setattr__(self, name, replace(given, origin=self.workload.origin))
        object.__setattr__(self, "seed", whole("seed", self.seed))
        object.__setattr__(self, "schedulers", _checked_schedulers(self.schedulers))

    def __repr__(self) -> str:
        return f"<Scenario: {', '.join(f'{part} {said}' for part, said in self._parts().items())}>"

    def _repr_html_(self) -> str:
        """Return the scenario as notebooks show it."""
        lines = {
            name: ", ".join(f"{key} {short_repr(value)}" for key, value in table.items())
            if isinstance(table, dict)
            else str(table)
            for name, table in self._document().items()
        }
        return html.pairs(lines, "Scenario")

    def _parts(self) -> dict[str, str]:
        """Return what the parts are, in a few words."""
        parts: dict[str, Any] = {"platform": self.platform, "workload": self.workload}
        parts |= {"faults": self.faults, "fluctuation": self.fluctuation}
        said = {
            name: str(part.recipe.__struct_config__.tag) for name, part in parts.items() if part is not None
        }
        said["platform"] = f"{self.platform.nodes} machines ({said['platform']})"
        return {**said, "seed": str(self.seed)}

    @property
    def drawn(self) -> tuple[str, ...]:
        """The names of the parts that are drawn at random, with seeds of their own.

        Of a log the machines at which its jobs are submitted are drawn: "submitters" stands for these.
        """
        names = []
        for name in ("platform", "workload", "faults", "fluctuation"):
            recipe = getattr(getattr(self, name), "recipe", None)
            if name == "workload" and isinstance(recipe, JobLogRecipe | LogRecipe):
                names.append("submitters")
            elif hasattr(recipe, "seed") or hasattr(getattr(recipe, "attributes", None), "seed"):
                names.append(name)
        return tuple(names)

    @property
    def paths(self) -> tuple[str, ...]:
        """The trace files and folders of FTA traces that the scenario names, as it names them."""
        parts = (self.platform, self.workload, self.faults)
        recipes: list[Any] = [part.recipe for part in parts if part is not None]
        return tuple(recipe.path for recipe in recipes if hasattr(recipe, "path"))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the scenario reads; for an FTA trace its events and the nodes beside them.

        Raises TraceFormatError for a folder without a trace.
        """
        return tuple(dict.fromkeys(file for files in self.sources().values() for file in files))

    def sources(self) -> dict[str, tuple[str, ...]]:
        """Return, for each of the `paths`, those of the `files` that are read for it."""
        found = {path: (path,) for path in self.paths}
        return found | (self.faults.sources() if self.faults is not None else {})

    def places(self) -> dict[str, tuple[str, ...]]:
        """Return, for each of the `paths`, the files that would be read for it, whether they exist or not."""
        found = {path: (path,) for path in self.paths}
        return found | (self.faults.places() if self.faults is not None else {})

    # -- writing --------------------------------------------------------------------------------------

    def to_toml(self, *, schedulers: bool = True, place: Callable[[str], str] = str) -> str:
        """Return the scenario as TOML; ``Scenario.from_toml(s.to_toml()) == s``.

        Parameters
        ----------
        schedulers
            Whether to include the parameters of schedulers.
        place
            Function that maps the path of a file to the text written in its place.
        """
        return _toml(_inline(self._document(place)), schedulers)

    def to_archive(self, *, schedulers: bool = True, place: Callable[[str], str] = str) -> ArchivedScenario:
        """Return the scenario as an archive holds it; ``Scenario.from_archive(s.to_archive()) == s``.

        Equal scenarios give equal texts.  `schedulers` and `place` are as in `to_toml`.
        """
        arrays: dict[str, NDArray[Any]] = {}
        document = self._document(place)
        tables = {
            name: entry if name == "schedulers" else with_references(entry, arrays)
            for name, entry in document.items()
        }
        return ArchivedScenario(_toml(_inline(tables), schedulers), arrays)

    def save(self, path: StrPath) -> None:
        """Write the scenario to a file, completely or not at all."""
        folder = os.path.dirname(os.path.abspath(path))

        def relative(file: str) -> str:
            return file if os.path.isabs(file) else os.path.relpath(file, folder)

        try:
            content = self.to_toml(place=relative).encode()
        except UnicodeEncodeError as error:
            raise ScenarioError(
                "a scenario file must be UTF-8, got the text "
                f"{short_repr(error.object[error.start : error.end])}, as of a file whose name is not"
            ) from error
        with atomic_file(path) as stream:
            stream.write(content)

    def document(self, place: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the content of a scenario file as nested dicts, without entries that are None."""
        document: dict[str, Any] = _inline(self._document(place))
        return document

    def _document(self, place: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the same as `document`, with columns in place of lists."""
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
            if "path" in table:
                table["path"] = place(table["path"])
            document[name] = _given(table)
        if self.schedulers:
            document["schedulers"] = copy.deepcopy(dict(self.schedulers))
        return document

    # -- reading --------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text_or_path: StrPath) -> Scenario:
        """Make a scenario from TOML text, or from the file at a path (a str without a newline is a path).

        Raises ScenarioError naming the configuration path of the wrong entry, or FILE:LINE if the text is
        not TOML; OSError for a file that cannot be read.
        """
        if isinstance(text_or_path, str) and "\n" in text_or_path:
            return cls.from_text(text_or_path)
        file = text("scenario", text_or_path)
        _LOG.info("scenario of %s", file)
        try:
            toml = toml_files.read(file)
        except FileNotFoundError as error:
            folder, name = os.path.split(file)
            near = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
            said = hint((each for each in near if each.endswith(".toml")), name)
            raise FileNotFoundError(error.errno, f"{error.strerror}{said}", file) from error
        return cls._read(toml, file, os.path.dirname(file))

    @classmethod
    def from_text(cls, toml: str) -> Scenario:
        """Make a scenario from TOML text, as `from_toml` does, but never take the text for a path."""
        return cls._read(toml, "<scenario>", "")

    @classmethod
    def from_archive(cls, archived: ArchivedScenario) -> Scenario:
        """Make a scenario from what an archive holds.

        Raises ScenarioError as `from_toml` does, also for an array that is not there.
        """
        document = toml_files.parse(archived.toml, "<scenario>")
        return cls.from_document(document, "the archive", arrays=archived.arrays)

    def replaced(self, values: Mapping[str, Any], *, folder: str = "") -> Scenario:
        """Return a copy with other values for some entries of its file, such as ``{"platform.nodes": 200}``.

        Raises ScenarioError for a path or value that a scenario cannot have.

        Parameters
        ----------
        values
            Path -> value.  A table such as ``faults`` may be replaced as a whole, and None removes an entry.
            If a table does not exist, it is created with the entries set in it.
        folder
            Folder that files in `values` are relative to; the working directory unless given.
        """
        document = self._document()
        for path in values:
            text("the path of an entry", path)
        for path, other in _OVERRIDDEN.items():
            if values.get(path) is not None and values.get(other) is not None:
                raise ScenarioError(f"{path} has no effect if {other} is given: give one of them, got both")
        # whole tables are replaced before single entries, in whatever order they are given
        for path, value in sorted(values.items(), key=lambda entry: entry[0].count(".")):
            *tables, last = path.split(".")
            table = document
            for name in tables:
                table = table.setdefault(name, {})
                if not isinstance(table, dict):
                    raise ScenarioError(f"{path}: {name} is no table of a scenario")
            if value is None:
                table.pop(last, None)
            else:
                table[last] = _in_folder(path, copy.deepcopy(value), folder)
                if path in _OVERRIDDEN and _OVERRIDDEN[path] not in values:
                    table.pop(_OVERRIDDEN[path].rpartition(".")[2], None)
        return self.from_document(document)

    @classmethod
    def _read(cls, toml: str, file: str, folder: str) -> Scenario:
        return cls.from_document(toml_files.parse(toml, file), file, folder)

    @classmethod
    def from_document(
        cls,
        document: dict[str, Any],
        file: str = "the scenario",
        folder: str = "",
        arrays: Arrays = MappingProxyType({}),
    ) -> Scenario:
        """Make a scenario from the content of a scenario `file`, whose paths are relative to `folder`.

        Raises ScenarioError as `from_toml` does.

        Parameters
        ----------
        arrays
            Those to which the file refers; a scenario file of a user refers to none.
        """
        for key in document:
            if key not in _KEYS:
                raise ScenarioError(f"{key} is not a known key of a scenario; {listed(_KEYS, key)}")
        for key in _REQUIRED:
            if key not in document:
                raise ScenarioError(f"{key} is missing: {file} has no table [{key}]")
        for key in _KEYS[1:]:
            if not isinstance(document.get(key, {}), dict):
                raise ScenarioError(f"{key} must be a table, got {document[key]!r}")
        document = {
            key: entry if key == "schedulers" else with_columns(entry, arrays, key, file)
            for key, entry in document.items()
        }
        made: dict[str, Any] = {}
        for name, kind, union in (
            ("platform", Platform, PlatformRecipe),
            ("workload", Workload, WorkloadRecipe),
            ("faults", Faults, FaultsRecipe),
            ("fluctuation", Fluctuation, FluctuationRecipe),
        ):
            if name not in document:
                continue
            made[name] = kind(_one_of(union, _in_folder(name, document[name], folder), name))
        return cls(
            **made,
            network=_convert(Network, document.get("network", {}), "network"),
            seed=document.get("seed", DEFAULT_SEED),
            schedulers=document.get("schedulers", {}),
        )


def _toml(document: dict[str, Any], schedulers: bool) -> str:
    """Return a document as TOML, with the parameters of schedulers only if that is asked for."""
    import tomli_w

    return tomli_w.dumps(
        {name: entry for name, entry in document.items() if schedulers or name != "schedulers"}
    )


def _inline(value: Any) -> Any:
    """Return a table, and the tables in it, with lists in place of columns."""
    if isinstance(value, dict):
        return {key: _inline(entry) for key, entry in value.items()}
    return value.tolist() if isinstance(value, ArrayColumn) else value


def _given(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table, and the tables in it, without entries that are None."""
    kept = {key: entry for key, entry in table.items() if entry is not None}
    return {key: _given(entry) if isinstance(entry, dict) else entry for key, entry in kept.items()}


def _in_folder(path: str, value: Any, folder: str) -> Any:
    """Return the value of an entry, with paths of files in it taken as relative to `folder`."""
    if isinstance(value, dict) and "path" in value and path in _KEYS:
        return {**value, "path": _in_folder(f"{path}.path", value["path"], folder)}
    named = path.count(".") == 1 and path.endswith(".path") and isinstance(value, str)
    return os.path.normpath(os.path.join(folder, value)) if named and value and folder else value


def _one_of(union: Any, table: dict[str, Any], where: str) -> Any:
    return _convert(_which(get_args(union), table, where), table, where)


def _which(
    structs: Iterable[type[msgspec.Struct]], table: dict[str, Any], where: str
) -> type[msgspec.Struct]:
    """Return the one of `structs` that the key ``kind`` of a table names, or raise ScenarioError."""
    kinds = {str(kind.__struct_config__.tag): kind for kind in structs}
    given = table.get("kind")
    if not isinstance(given, str) or given not in kinds:
        said = "nothing" if given is None else repr(given)
        raise ScenarioError(f"{where}.kind must be one of {', '.join(kinds)}, got {said}{hint(kinds, given)}")
    known = kinds[given].__struct_encode_fields__
    for key in table:
        of = [name for name, kind in kinds.items() if key in kind.__struct_encode_fields__]
        if of and key not in known:
            raise ScenarioError(
                f"{where}.{key} must be absent, as {where}.kind is {given}: it is a key of {', '.join(of)}; "
                f"known: {', '.join(known)}"
            )
    return kinds[given]


def _convert(kind: type[msgspec.Struct], table: dict[str, Any], where: str) -> Any:
    return converted(_without_units(table, kind, where), kind, where)


def _without_units(table: dict[str, Any], kind: type[msgspec.Struct], where: str) -> dict[str, Any]:
    """Return a table with numbers in place of texts that have a unit, such as ``"50 ms"``.

    Raises ScenarioError for unknown keys, also of tables within it.
    """
    known = kind.__struct_encode_fields__
    for key in table:
        if key not in known and key != kind.__struct_config__.tag_field:
            raise ScenarioError(f"{where}.{key} is not a known key; {listed(known, key)}")
    found, inner, columns = limits_of(kind), tables_of(kind), column_checks(kind)

    def plain(path: str, value: Any, unit: str) -> Any:
        if isinstance(value, str):
            return real(path, value, unit=unit)
        if isinstance(value, list):
            return [plain(f"{path}[{k}]", each, unit) for k, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: plain(f"{path}.{key}", each, unit) for key, each in value.items()}
        return value

    def within(key: str, value: Any) -> Any:
        path = f"{where}.{key}"
        if key in columns:
            return columns[key](path, value)
        if isinstance(value, ArrayColumn):
            check_fits(path, len(value.arrays[0]), "numbers", _OF_NUMBER)
            return value.tolist()
        if key in inner and isinstance(value, dict):
            first, *others = inner[key]
            return _without_units(value, _which(inner[key], value, path) if others else first, path)
        return (
            plain(path, value, found[key].unit) if key in found and found[key].unit in units.UNITS else value
        )

    return {key: within(key, value) for key, value in table.items()}


def converted(value: Any, kind: Any, where: str) -> Any:
    """Return `value` as `kind`; turn msgspec's error into a ScenarioError that begins with the path."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ScenarioError):
            raise error.__cause__ from None
        message, _, place = str(error).partition(" - at `$")
        message = message[:1].lower() + message[1:]
        if place:
            where += place.rstrip("`")
        if match := re.fullmatch(r"object (missing required|contains unknown) field `(.*)`", message):
            said = "is missing" if match[1] == "missing required" else "is not a known key"
            raise ScenarioError(f"{where}.{match[2]} {said}") from error
        if match := re.fullmatch(r"expected `([a-z| ]+)`, got `(\w+)`", message):
            wanted = " or ".join(_TYPES.get(word, word) for word in match[1].split(" | "))
            got = "a fraction" if match.groups() == ("int", "float") else _TYPES.get(match[2], match[2])
            raise ScenarioError(f"{where} must be {wanted}, got {got}") from error
        raise ScenarioError(f"{where}: {message}") from error


def check_scenario(given: Any) -> Scenario:
    """Return `given` if it is a Scenario; it might be the name of a file.  Raises ScenarioError."""
    if not isinstance(given, Scenario):
        raise ScenarioError(f"scenario must be a Scenario, got {short_repr(given)}")
    return given


def _has_nan(value: Any) -> bool:
    """Return whether `value` contains a NaN; a scenario with one would not be equal to itself."""
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_nan, value))
    return isinstance(value, float) and value != value


def _copied(value: Any) -> Any:
    """Return a deep copy in which Python values, which a file can hold, replace those of numpy."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(_copied, value)) if isinstance(value, tuple) else list(map(_copied, value))
    return copy.deepcopy(value)


def _checked_schedulers(given: Any) -> dict[str, dict[str, Any]]:
    checked = {}
    if not isinstance(given, Mapping):
        raise ScenarioError(f"schedulers must be a table, got {given!r}")
    for name, parameters in given.items():
        if not isinstance(name, str) or ":" in name:
            raise ScenarioError(
                f"schedulers.{name!r}: a scenario never imports code; name a module:Class on the command line"
            )
        if not isinstance(parameters, Mapping):
            raise ScenarioError(f"schedulers.{name} must be a table of parameters, got {parameters!r}")
        for key, value in parameters.items():
            if (code := names_code(value)) is not None:
                raise ScenarioError(
                    f"schedulers.{name}.{key}: a scenario never imports code, got {code!r}; name a "
                    "module:function on the command line"
                )
            if _has_nan(value):
                raise ScenarioError(f"schedulers.{name}.{key} must have no nan, got {short_repr(value)}")
        checked[name] = {key: _copied(value) for key, value in parameters.items()}
    return checked
