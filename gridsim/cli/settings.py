"""Values of --set and --change: parameters of schedulers, and keys of the scenario file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.scheduling.contract import Scheduler


def parse_setting(setting: str) -> tuple[str, str, Any]:
    """Return the three parts of NAME.PARAM=VALUE.

    VALUE is TOML, a list without brackets, a table KEY=VALUE,..., or plain text.
    """
    target, equals, value = setting.partition("=")
    name, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and name and parameter):
        raise ScenarioError(f"--set must be NAME.PARAM=VALUE, got {setting!r}")
    return name, parameter, _parse_value(f"--set {target.strip()}", value)


def settings_by_label(
    settings: Sequence[str],
    kinds: Mapping[str, type[Scheduler]],
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the setting, the label of a scheduler, the parameter and its value for each ``--set``.

    The name ``*`` stands for all schedulers that have the parameter.

    Parameters
    ----------
    kinds
        Label -> class of each scheduler.
    aliases
        Further name of a scheduler -> its label.

    Raises
    ------
    ScenarioError
        If a setting cannot be read, or no scheduler has the name or, with ``*``, the parameter.
    """
    from gridsim.support.arguments import hint
    from gridsim.support.parameters import fields_of

    for setting in settings:
        name, parameter, value = parse_setting(setting)
        name = aliases.get(name, name)
        labels = [name] if name in kinds else []
        if name == "*":
            labels = [label for label, kind in kinds.items() if parameter in fields_of(kind)]
            if not labels:
                known = sorted({field for kind in kinds.values() for field in fields_of(kind)})
                raise ScenarioError(
                    f"--set {setting}: * requires a parameter of {', '.join(kinds)}, got {parameter!r}"
                    f"{hint(known, parameter)}"
                )
        if not labels:
            choices = f"{', '.join(kinds)}, got {name!r}{hint(kinds, name)}"
            raise ScenarioError(f"--set {setting}: the scheduler must be one of {choices}")
        for label in labels:
            yield setting, label, parameter, value


def parse_change(change: str) -> tuple[str, Any]:
    """Return the two parts of KEY=VALUE, where VALUE is as in `parse_setting`."""
    key, equals, value = change.partition("=")
    if not (equals and key.strip()):
        raise ScenarioError(f"--change must be KEY=VALUE, such as workload.end=86400, got {change!r}")
    return key.strip(), _parse_value(f"--change {key.strip()}", value)


def _parse_value(path: str, value: str) -> Any:
    """Return a value that a flag states.

    Parameters
    ----------
    path
        The flag and the key, for errors.
    """
    import tomllib

    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            document = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # not TOML, or a number with too many digits for Python
            continue
        if len(document) == 1:  # a value with line breaks could define further keys
            return document["value"]
    if len(bare := value.strip()) > 2 and bare[0] + bare[-1] == "[]" and not set(bare[1:-1]) & set("[]{}\"'"):
        return [_parse_value(path, entry) for entry in bare[1:-1].split(",")]  # names without quotes
    entries = [entry.partition("=") for entry in value.split(",")]
    if all(key.strip() and equals for key, equals, _ in entries) and "\n" not in value:
        keys = [key.strip() for key, _, _ in entries]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise ScenarioError(f"{path} must have each key once, got {repeated[0]} several times")
        return {key: _parse_value(path, entry) for key, (_, _, entry) in zip(keys, entries, strict=True)}
    return value.strip()


def expanded_ranges(value: Any) -> list[int]:
    """Return the whole numbers of a text such as "0-7,12"; none if it is another value."""
    entry = "[0-9]{1,7}(-[0-9]{1,7})?"
    if not (isinstance(value, str) and re.fullmatch(f"{entry}(,{entry})*", value)):
        return []
    ends = [list(map(int, entry.split("-"))) for entry in value.split(",")]
    if any(pair[0] > pair[-1] for pair in ends):
        return []
    return [number for pair in ends for number in range(pair[0], pair[-1] + 1)]


def schedulers_of(
    names: list[str], settings: Sequence[str], tables: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Scheduler], dict[str, dict[str, Any]]]:
    """Return label -> scheduler, and name -> parameters for the scenario file.

    Parameters
    ----------
    tables
        Name -> parameters in the scenario, which those of ``--set`` override.
    """
    import msgspec

    from gridsim.scheduling.registry import named_scheduler, scheduler_class, split_label

    name_of = {split_label(name)[0]: name for name in names}
    values_by_name = {name: dict(tables.get(name, {})) for name in names}
    kinds = {label: scheduler_class(split_label(name)[1]) for label, name in name_of.items()}
    aliases = {name: label for label, name in name_of.items()}
    for _, label, parameter, value in settings_by_label(settings, kinds, aliases):
        values_by_name[name_of[label]][parameter] = value
    schedulers = {label: named_scheduler(name, values_by_name[name]) for label, name in name_of.items()}
    for name, table in tables.items():
        named_scheduler(name, table)  # tables of schedulers that do not run are checked as well
    parameters = {name: dict(table) for name, table in tables.items()}
    for name, table in values_by_name.items():
        if table and ":" not in name:
            # as the checked schedulers have them: plain values of the declared types
            values = msgspec.to_builtins(schedulers[split_label(name)[0]])
            parameters[name] = {key: values[key] for key in table if values[key] is not None}
    return schedulers, parameters
