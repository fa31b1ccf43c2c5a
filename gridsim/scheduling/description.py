"""Descriptions of schedulers in files: name, class and parameters as plain values."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import sys
from collections.abc import Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from gridsim.scheduling.contract import Scheduler
from gridsim.support.columns import ArrayColumn
from gridsim.support.imports import original_module, stored_name
from gridsim.support.text import plain

#: Length up to which a list of numbers, such as an overlay, is stated; a longer one is stated by SHA-256.
MAX_NUMBERS = 10_000
#: Types whose repr describes a value completely.
_EXACT = (complex, bytes, bytearray, range, slice, date, time, timedelta, Decimal, Fraction, UUID, np.dtype)


class Description:
    """A scheduler as plain values.

    Attributes
    ----------
    values
        The ``name``, ``class`` (``module:Class``) and ``parameters`` of the scheduler.
    objects
        Its class, and all classes and functions in its parameters.
    texts
        The strings in its parameters; some may name a function.
    opaque_values
        Parameter -> a value in it that is described only by its repr, which may be incomplete.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        kind = type(scheduler)
        self.objects: list[Any] = [kind]
        self.texts: list[str] = []
        self.opaque_values: dict[str, Any] = {}
        self.values: dict[str, Any] = {
            "name": kind.name,
            "class": stored_name(kind),
            "parameters": {
                field: self._plain_value(field, getattr(scheduler, field))
                for field in scheduler.__struct_fields__
            },
        }

    def _plain_value(self, path: str, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            value = value.value
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.kind in "biuf":
                return value.tolist()
            value = value.tolist()
        if isinstance(value, ArrayColumn):
            if value.arrays[0].size > MAX_NUMBERS:
                return {"sha256": list(value.names)}
            return value.tolist()
        if isinstance(value, str):
            self.texts.append(str(value))
        if value is None or isinstance(value, (str, bool, int, float)):
            return plain(value)
        if isinstance(value, (list, tuple)):
            return [self._plain_value(path, entry) for entry in value]
        if isinstance(value, Mapping):
            entries = {str(key): self._plain_value(path, entry) for key, entry in value.items()}
            if len(entries) < len(value):  # keys such as 1 and "1" have become the same
                self.opaque_values[path] = value
            return entries
        if isinstance(value, Set):
            return sorted((self._plain_value(path, entry) for entry in value), key=_sort_key)
        if isinstance(value, msgspec.Struct):
            fields = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            return self._object(path, value, {key: getattr(value, name) for name, key in fields})
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._object(path, value, {name: getattr(value, name) for name in names})
        if isinstance(value, os.PathLike):
            return self._plain_value(path, os.fspath(value))
        if (name := self._name_of(value)) is not None:
            return name
        if not isinstance(value, _EXACT):
            self.opaque_values[path] = value
        return repr(value)

    def _object(self, path: str, value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the class and the fields of an object as plain values."""
        name = self._name_of(type(value))
        if name is None:
            self.opaque_values[path] = value
        values = {key: self._plain_value(path, entry) for key, entry in fields.items()}
        return {"class": name or repr(type(value)), **values}

    def _name_of(self, value: Any) -> str | None:
        """Return a class or function as ``module:name``; None if the module has no such name."""
        module, name = (getattr(value, key, None) for key in ("__module__", "__qualname__"))
        if not (isinstance(module, str) and isinstance(name, str)):
            return None
        definition: Any = sys.modules.get(module)
        for part in name.split("."):
            definition = getattr(definition, part, None)
        if definition is not value:
            return None
        self.objects.append(value)
        return f"{original_module(module)}:{name}"


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """Return the name, class and parameters of a scheduler as plain values."""
    return Description(scheduler).values


def _sort_key(values: Any) -> str:
    return json.dumps(values, sort_keys=True)
