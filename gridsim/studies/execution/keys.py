"""Keys of runs: hashes of all data on which the outcome of a run depends."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.model.scenario import ArchivedScenario, Scenario
from gridsim.results.metrics.registry import MetricFunction
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.description import Description
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.user_code import UserCode
from gridsim.support.arguments import short_repr
from gridsim.support.imports import import_object
from gridsim.support.provenance import code_version, sha256
from gridsim.support.text import plain

#: Number of hexadecimal digits of `Keys.user_code`.
_HASH_LENGTH = 12


@dataclass(frozen=True)
class _ArchivedInput:
    """A scenario with its stored form, the SHA-256 of its files, and the digests of the code of plugins.

    The reference to the scenario keeps its id unique.
    """

    scenario: Scenario
    archive: ArchivedScenario
    files: Mapping[str, str]
    modules: Mapping[str, str]


class Keys:
    """A factory of keys of runs, which reads scenarios, files and modules of several runs only once."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._scenarios: dict[int, _ArchivedInput] = {}
        #: id -> a scheduler, referenced so that the id stays unique, and its part of the key
        self._schedulers: dict[int, tuple[Scheduler, dict[str, Any]]] = {}
        #: name and id of a function -> the function and its part of the key
        self._functions: dict[tuple[str, int], tuple[MetricFunction, dict[str, Any]]] = {}

    def scenario(self, scenario: Scenario) -> ArchivedScenario:
        """Return the form of a scenario for stores and keys.

        It has no parameters of schedulers.  Each path is replaced by the SHA-256 of the file and the format
        that its name states.
        """
        return self._archived_input(scenario).archive

    def files(self, scenario: Scenario) -> Mapping[str, str]:
        """Return the SHA-256 of each file that the scenario reads, as used in its key."""
        return self._archived_input(scenario).files

    def _archived_input(self, scenario: Scenario) -> _ArchivedInput:
        if id(scenario) not in self._scenarios:
            sources = scenario.sources()
            files = {file: self._file(file) for of_path in sources.values() for file in of_path}

            def content(path: str) -> str:
                from gridsim.traces import format_of_name

                # the name of a file determines its format
                packed = ("gz:" if file.endswith(".gz") else "" for file in sources[path])
                parts = [f"{gz}sha256:{files[file]}" for gz, file in zip(packed, sources[path], strict=True)]
                return "+".join(filter(None, (format_of_name(path), *parts)))

            archive = scenario.to_archive(schedulers=False, place=content)
            modules = self._plugins(scenario, sources)
            self._scenarios[id(scenario)] = _ArchivedInput(scenario, archive, files, modules)
        return self._scenarios[id(scenario)]

    def _plugins(self, scenario: Scenario, paths: Iterable[str]) -> dict[str, str]:
        """Return the digests of the code of plugins that makes the parts of a scenario or reads its files."""
        from gridsim.traces import format_of_name
        from gridsim.traces.formats import BUILT_IN, plugin_formats

        code = UserCode()
        for part in (scenario.platform, scenario.workload, scenario.faults, scenario.fluctuation):
            if part is not None:
                code.add_object(type(part.recipe), "a part of the scenario")
        for path in paths:
            if (name := format_of_name(path)) and name not in BUILT_IN:
                code.add_object(plugin_formats()[name].read, f"the trace format {name}")
        return code.digests

    def key(self, cell: Cell, code: str | None = None) -> str:
        """Return the SHA-256 (hexadecimal) of all data on which the outcome of `cell` depends.

        These are the scenario with its seeds and the content of its files, the scheduler's class and
        parameters, the time limit, the days that do not count, the groups of jobs, functions of the user, the
        code of the user (`UserCode`, without comments and docstrings), the code of gridsim and the version of
        numpy.

        Parameters
        ----------
        code
            The version of the code in place of the present one, as `code_version` returned it.

        Raises
        ------
        ScenarioError
            If the source of a scheduler or function is not known, or a parameter cannot be written as
            plain values.
        """
        inputs = {
            "code": code_version() if code is None else code,
            "scenario": self.scenario(cell.scenario).toml,
            **self._scheduler(cell.scheduler),
            **self._user_code(cell),
            "time_limit": cell.time_limit,
            "skip_days": cell.skip_days,
            "by": cell.by,
        }
        return hashlib.sha256(json.dumps(plain(inputs), sort_keys=True).encode()).hexdigest()

    def user_code(self, cell: Cell) -> str:
        """Return a hash of the code of the user on which the outcome of `cell` depends; "" without any."""
        used = self._user_code(cell)
        if not any(used.values()):
            return ""
        return hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]

    def _user_code(self, cell: Cell) -> dict[str, dict[str, Any]]:
        """Return the digests of the modules of the user, and the user's functions with theirs."""
        return {
            "modules": {
                **self._scheduler(cell.scheduler)["modules"],
                **self._archived_input(cell.scenario).modules,
            },
            "metrics": {
                name: self._function(name, metric)
                for name, metric in sorted(cell.metrics.items())
                if metric is not None
            },
        }

    def _scheduler(self, scheduler: Scheduler) -> dict[str, Any]:
        """Return the part of a key that identifies a scheduler."""
        if id(scheduler) not in self._schedulers:
            description, code = Description(scheduler), UserCode()
            for name, value in description.opaque_values.items():
                raise ScenarioError(
                    f"{scheduler.name}.{name} must consist of plain values, structs, and functions or "
                    f"classes of modules to be kept in a store, got {short_repr(value)}"
                )
            code.add_scheduler(scheduler)
            entry = {name: description.values[name] for name in ("class", "parameters")}
            modules = _digests(code, description.objects)
            self._schedulers[id(scheduler)] = scheduler, {**entry, "modules": modules}
        return self._schedulers[id(scheduler)][1]

    def _function(self, name: str, metric: MetricFunction) -> dict[str, Any]:
        """Return the name of a user's function, which must be importable, and the code that it needs."""
        if (name, id(metric)) not in self._functions:
            module, qualname = (getattr(metric, key, "") for key in ("__module__", "__qualname__"))
            try:
                target = import_object(f"{module}:{qualname}")
            except Exception:  # an import may raise any exception
                target = None
            if target is not metric:
                raise ScenarioError(
                    f"metrics[{name!r}] must be a function of a module, since a store identifies it by "
                    f"its name, got {metric!r}"
                )
            code = UserCode()
            code.add_metric(name, metric)
            entry = {"function": f"{module}:{qualname}", "modules": _digests(code, [metric])}
            self._functions[name, id(metric)] = metric, entry
        return self._functions[name, id(metric)][1]

    def _file(self, path: str) -> str:
        if path not in self._files:
            self._files[path] = sha256(path)
        return self._files[path]


def _digests(code: UserCode, objects: Iterable[Any]) -> dict[str, str]:
    """Return the digests of the code of the user, and Python's version if it has one of `objects`."""
    if any(str(obj.__module__).partition(".")[0] in sys.stdlib_module_names for obj in objects):
        return {**code.digests, "python": sys.version}
    return code.digests
