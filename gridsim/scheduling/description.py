"""Descriptions of schedulers for files: name, class and parameters as plain values."""

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
from gridsim.support.imports import stored_name
from gridsim.support.text import plain

#: Types whose repr has the whole value.
_EXACT = (complex, bytes, bytearray, range, slice, date, time, timedelta, Decimal, Fraction, UUID, np.dtype)


class Description:
    """A scheduler as plain values.

    Attributes
    ----------
    told
        Its ``name``, ``class`` (``module:Class``) and ``parameters``.
    modules
        The modules of its class and of all classes and functions among its parameters.
    texts
        The texts among the parameters; some may name a function.
    unsaid
        Parameter -> a value in it that is described only by its repr, which may be incomplete.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        kind = type(scheduler)
        self.modules: dict[str, None] = {kind.__module__: None}
        self.texts: list[str] = []
        self.unsaid: dict[str, Any] = {}
        self.told: dict[str, Any] = {
            "name": kind.name,
            "class": stored_name(kind),
            "parameters": {
                field: self._of(field, getattr(scheduler, field)) for field in scheduler.__struct_fields__
            },
        }

    def _of(self, path: str, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            value = value.value
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.kind in "biuf":
                return value.tolist()
            value = value.tolist()
        if isinstance(value, str):
            self.texts.append(str(value))
        if value is None or isinstance(value, (str, bool, int, float)):
            return plain(value)
        if isinstance(value, (list, tuple)):
            return [self._of(path, each) for each in value]
        if isinstance(value, Mapping):
            told = {str(key): self._of(path, each) for key, each in value.items()}
            if len(told) < len(value):  # keys such as 1 and "1" have become the same
                self.unsaid[path] = value
            return told
        if isinstance(value, Set):
            return sorted((self._of(path, each) for each in value), key=_said)
        if isinstance(value, msgspec.Struct):
            fields = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            return self._object(path, value, {told: getattr(value, name) for name, told in fields})
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._object(path, value, {name: getattr(value, name) for name in names})
        if isinstance(value, os.PathLike):
            return self._of(path, os.fspath(value))
        if (name := self._named(value)) is not None:
            return name
        if not isinstance(value, _EXACT):
            self.unsaid[path] = value
        return repr(value)

    def _object(self, path: str, value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the class and the fields of an object."""
        name = self._named(type(value))
        if name is None:
            self.unsaid[path] = value
        told = {key: self._of(path, each) for key, each in fields.items()}
        return {"class": name or repr(type(value)), **told}

    def _named(self, value: Any) -> str | None:
        """Return a class or function as ``module:name``; None if it is not found there."""
        module, name = (getattr(value, key, None) for key in ("__module__", "__qualname__"))
        if not (isinstance(module, str) and isinstance(name, str)):
            return None
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            return None
        self.modules[module] = None
        return f"{module}:{name}"


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """Return the name, class and parameters of a scheduler as plain values."""
    return Description(scheduler).told


def _said(told: Any) -> str:
    return json.dumps(told, sort_keys=True)
