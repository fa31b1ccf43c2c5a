"""Parameters with declared ranges: the annotation of a field contains its limits.

    class Pausing(Scheduler, frozen=True, kw_only=True):
        pause: Annotated[float, Limits(low=0, unit="s")] = 0.0
        order: Literal["fifo", "edf"] = "fifo"

Errors, the JSON Schema of scenario files and tables in the documentation use these declarations.
"""

from __future__ import annotations

import numbers
import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support import html, units
from gridsim.support.arguments import (
    INTEGER_LIMIT,
    flag,
    integer,
    listed,
    normalise,
    one_of,
    real,
    sequence,
    short_repr,
    text,
)
from gridsim.support.arrays import Bools, first_true
from gridsim.support.columns import ArrayColumn

#: Abbreviator of values in reprs.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80

Check = Callable[[str, Any], Any]
_Annotation = TypeVar("_Annotation")


#: Unit of the machines that jobs have at once; if jobs share machines, these are cores.
MACHINES_OR_CORES = "machines or cores"


class Limits(NamedTuple):
    """Allowed range of a number.

    Parameters
    ----------
    low
        Lower limit, inclusive.
    above
        Lower limit, exclusive.
    high
        Upper limit, inclusive.
    unit
        Unit of the number.
    or_zero
        Allow 0 as well.
    finite
        Reject infinity.
    """

    low: float | None = None
    above: float | None = None
    high: float | None = None
    unit: str = ""
    or_zero: bool = False
    finite: bool = True

    def real(self, path: str, value: Any) -> float:
        """Return `value` as a float within the limits, or raise a ScenarioError naming `path`."""
        if self.high is None:
            return real(path, value, above=self.above, low=self.low, unit=self.unit, finite=self.finite)
        with suppress(ScenarioError):
            number = real(path, value, unit=self.unit)
            inside = (self.low is None or number >= self.low) and (self.above is None or number > self.above)
            if (inside and number <= self.high) or (self.or_zero and number == 0):
                return number
        texts = units.accepted_units(self.unit) if isinstance(value, str) else ""
        raise ScenarioError(f"{path} must be {self.describe()}, got {short_repr(value)}{texts}")

    def describe(self) -> str:
        """Return the range, which must have an upper limit, in words."""
        lower = f" > {self.above:g} and" if self.above is not None else ""
        upper = f"in {self.low:g}..{self.high:g}" if self.low is not None else f"at most {self.high:g}"
        zero, unit = "0 or " if self.or_zero else "", f" {self.unit}" if self.unit else ""
        return f"{zero}a number{lower} {upper}{unit}"

    def integer(self, path: str, value: Any) -> int:
        """Return `value` as an int within the limits, or raise a ScenarioError naming `path`."""
        low, high = self._whole_range
        return integer(path, value, low=low, high=high)

    @property
    def _whole_range(self) -> tuple[int, int]:
        """The smallest and the largest whole number allowed."""
        high = INTEGER_LIMIT - 1 if self.high is None else int(self.high)
        return 0 if self.low is None else int(self.low), high

    def valid_mask(self, values: NDArray[Any]) -> Bools:
        """Return a mask of the numbers (int64 or float64) that `integer` or `real` accepts."""
        if values.dtype.kind == "i":
            low, high = self._whole_range
            return (values >= low) & (values <= high)
        finite = self.finite or self.high is not None
        inside: Bools = np.isfinite(values) if finite else ~np.isnan(values)
        inside &= True if self.low is None else values >= self.low
        inside &= True if self.above is None else values > self.above
        inside &= True if self.high is None else values <= self.high
        return inside | (values == 0) if self.or_zero and self.high is not None else inside


class AnswerWait(NamedTuple):
    """Declaration that a parameter is the time in which an answer should arrive, s.

    A run warns if the time is shorter than its network takes for the answer.

    Parameters
    ----------
    consequence
        What happens if the time ends before the answer arrives.
    messages
        Number of messages, one after another, that the time must suffice for; 2 is a round trip.
    only_failures
        The time has an effect only if machines can fail.
    """

    consequence: str
    messages: int = 2
    only_failures: bool = False


#: Types of a field for a non-empty string, and for one that is the path of a file.
Text = Annotated[str, "not empty"]
FilePath = Annotated[str, "path of a file"]
#: Type of a field for the seed of random streams.
Seed = Annotated[int, Limits(low=0)]


class _SuggestingMeta(msgspec.StructMeta):
    """Metaclass whose constructor raises ScenarioError with the closest name for an unknown parameter."""

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        unknown = [name for name in keywords if name not in cls.__struct_fields__]
        if unknown:
            name = unknown[0]
            value = getattr(cls, name, None)
            hint = listed(cls.__struct_fields__, name)
            if type(value) in (bool, int, float, str):  # a class variable that was meant as a field
                hint = f"annotate it in the class: {name}: {type(value).__name__} = {value!r}"
            raise ScenarioError(f"{cls.__name__} has no parameter {name!r}; {hint}")
        try:
            return super().__call__(*args, **keywords)
        except TypeError as error:
            if not str(error).startswith("Extra positional arguments"):
                raise
        names, values = ", ".join(cls.__struct_fields__), ", ".join(map(short_repr, args))
        raise ScenarioError(
            f"{cls.__name__} must get its parameters by name ({names or 'it has none'}), got {values}"
        )


class CheckedStruct(msgspec.Struct, metaclass=_SuggestingMeta, frozen=True, kw_only=True):
    """A struct that checks its fields against their declarations when it is created.

    Numbers, strings, literals and bools are checked, also in optional fields, tuples and columns.  A subclass
    checks its other fields itself, in a ``__post_init__`` that calls this one first.
    """

    #: Prefix of the paths of the fields in errors.
    part: ClassVar[str] = ""

    def _path(self) -> str:
        return self.part

    def __repr__(self) -> str:
        """Return the constructor call with the fields that differ from the default; long values are cut."""
        arguments = ", ".join(f"{name}={value}" for name, value in changed_fields(self).items())
        return f"{type(self).__name__}({arguments})"

    def _repr_html_(self) -> str:
        """Return an HTML table of the fields with their units, headed by the summary of the class."""
        limits = limits_of(type(self))
        non_defaults = changed_fields(self)
        rows = [
            [
                field.name,
                _SHORT.repr(getattr(self, field.name)),
                limits[field.encode_name].unit if field.encode_name in limits else "",
                "" if field.name in non_defaults else "default",
            ]
            for field in fields_of(type(self)).values()
        ]
        summary = (type(self).__doc__ or "").partition("\n")[0]
        head = html.text(f"{type(self).__name__}: {summary}")
        return head + (
            html.table([*map(list, zip(*rows, strict=True))], heads=0, left=range(4)) if rows else ""
        )

    def __post_init__(self) -> None:
        path = self._path()
        for name, key, check in checks(type(self)):
            value = getattr(self, name)
            result = check(f"{path}.{key}" if path else key, value)
            if result is not value:
                normalise(self, **{name: result})


class Recipe(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A table of a scenario file that has several kinds, distinguished by the key ``kind``."""


def changed_fields(struct: msgspec.Struct) -> dict[str, str]:
    """Return field -> shortened repr of its value, for the fields that differ from their defaults."""
    texts = {}
    for field in fields_of(type(struct)).values():
        value, default = getattr(struct, field.name), default_of(field)
        if default is msgspec.NODEFAULT or not _equals(value, default):
            texts[field.name] = _SHORT.repr(value)
    return texts


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default of a field, or ``msgspec.NODEFAULT``."""
    if field.default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _equals(value: Any, default: Any) -> bool:
    """Return whether a value equals the default; an array never does."""
    try:
        return bool(value is default or value == default)
    except ValueError:
        return False


@cache
def checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Check], ...]:
    """Return (name, name in files, check) for each field that has a check."""
    candidates = (
        (field.name, field.encode_name, _check(_declared_type(kind, field.name)))
        for field in fields_of(kind).values()
    )
    return tuple((name, key, check) for name, key, check in candidates if check is not None)


def _declared_type(kind: type[msgspec.Struct], name: str) -> Any:
    """Return the type of a field; a subclass that only changes a default inherits the limits.

    It has no limits if its default is outside them, such as ``degree: int = 0``.
    """
    field = fields_of(kind)[name]
    for base in kind.__mro__[1:]:
        if issubclass(base, CheckedStruct) and name in base.__struct_fields__:
            inherited = _declared_type(base, name)
            check = _check(inherited)
            if get_origin(inherited) is Annotated and get_args(inherited)[0] is field.type and check:
                with suppress(ScenarioError):
                    check(name, field.default)
                    return inherited
    return field.type


def _check(hint: Any, limits: Limits | None = None) -> Check | None:
    """Return the check for values of the type `hint`; None if it declares no condition."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, ArrayColumn):
        return _column_check(hint, ())
    if origin is Annotated:
        kind, *annotations = arguments
        if isinstance(kind, type) and issubclass(kind, ArrayColumn):
            return _column_check(kind, tuple(annotations))
        if kind is str:
            return text
        limits = next((entry for entry in annotations if isinstance(entry, Limits)), None)
        return _check(kind, limits)
    if origin is Literal:
        return lambda path, value: one_of(path, value, arguments)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        if [get_origin(kind) for kind in kinds[:2]] == [tuple, dict]:
            words = [word for kind in kinds[2:] for word in get_args(kind)]
            of_list, of_table = (_check(kind, limits) for kind in kinds[:2])
            return _list_or_table(of_list, of_table, words)
        inner = _check(kinds[0], limits) if len(kinds) == 1 else None
        if inner is None or len(kinds) == len(arguments):
            return inner
        return lambda path, value: None if value is None else inner(path, value)
    if origin is tuple and arguments[1:] == (...,):
        entry = _check(arguments[0], limits)
        return None if entry is None else _entries(entry)
    if origin is dict and arguments[0] is str:
        entry = _check(arguments[1], limits)
        return None if entry is None else _values(entry)
    if hint is bool:
        return flag
    if limits is None:
        return _PLAIN.get(hint)
    return limits.integer if hint is int else limits.real


def _any_integer(path: str, value: Any) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise ScenarioError(f"{path} must be a whole number, got {short_repr(value)}")


def _any_number(path: str, value: Any) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise ScenarioError(f"{path} must be a number, got {short_repr(value)}")


def _any_string(path: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ScenarioError(f"{path} must be a string, got {short_repr(value)}")


#: Type of a field without limits -> its check.
_PLAIN: dict[Any, Check] = {int: _any_integer, float: _any_number, str: _any_string}


def _entries(entry: Check) -> Check:
    def check(path: str, values: Any) -> tuple[Any, ...]:
        return tuple(entry(f"{path}[{k}]", value) for k, value in enumerate(sequence(path, values)))

    return check


def _values(entry: Check) -> Check:
    def check(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: entry(f"{path}.{name}", value) for name, value in values.items()}

    return check


def _list_or_table(of_list: Check | None, of_table: Check | None, words: Sequence[str] = ()) -> Check | None:
    """Return the check for a list whose entries may have names instead; None if the entries have no check.

    Parameters
    ----------
    words
        Texts that are allowed in place of a list.
    """
    if of_list is None or of_table is None:
        return None

    def check(path: str, value: Any) -> Any:
        if isinstance(value, (str, numbers.Number)):
            if value in words:
                return value
            allowed = ["a list", "a table", *map(repr, words)]
            condition = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise ScenarioError(f"{path} must be {condition}, got {short_repr(value)}")
        return (of_table if isinstance(value, Mapping) else of_list)(path, value)

    return check


def _column_check(kind: type[ArrayColumn], annotations: tuple[Any, ...]) -> Check:
    """Return the check for a column of type `kind` with `annotations`.

    All numbers are compared with the limits at once.  Entries are checked one by one only if some are not
    plain values, and the first invalid number is checked separately for its error.
    """
    entry, number = (_check(Annotated[(hint, *annotations)] if annotations else hint) for hint in kind.hints)
    limits = next((limits for limits in annotations if isinstance(limits, Limits)), None)
    assert entry is not None and number is not None

    def check(path: str, values: Any) -> ArrayColumn:
        column = kind.of(values)
        if column is None and not isinstance(values, (np.ndarray, ArrayColumn)):
            values = sequence(path, values)
            column = kind.of(values)
        if column is None:
            column = kind.of(_entries(entry)(path, values))
        if column is None:
            raise ScenarioError(
                f"{path} must be a list of strings without null characters, got {short_repr(values)}"
            )
        invalid = [] if limits is None else first_true(~limits.valid_mask(column.arrays[0]))
        for k in invalid:
            place, value = path, values
            for index in column.place(k):
                place, value = f"{place}[{index}]", value[index]
            number(place, value)
        return column

    return check


@cache
def column_checks(kind: type[msgspec.Struct]) -> Mapping[str, Check]:
    """Return name in files -> check, for the fields that are columns."""
    return types.MappingProxyType(
        {key: check for name, key, check in checks(kind) if column_of(fields_of(kind)[name].type)}
    )


def column_of(hint: Any) -> type[ArrayColumn] | None:
    """Return the column type of a type hint, which may be annotated or optional; None for other hints."""
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return column_of(get_args(hint)[0])
    return hint if isinstance(hint, type) and issubclass(hint, ArrayColumn) else None


def literal_values(hint: Any) -> tuple[Any, ...]:
    """Return the values of a literal type, which may be optional; () for other types."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return next((values for kind in get_args(hint) if (values := literal_values(kind))), ())
    return ()


@cache
def tables_of(kind: type[msgspec.Struct]) -> Mapping[str, tuple[type[CheckedStruct], ...]]:
    """Return field -> allowed structs, for the fields that are tables in scenario files."""
    structs_by_field = {}
    for field in fields_of(kind).values():
        hint = field.type
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        structs_by_field[field.encode_name] = tuple(
            struct for struct in kinds if isinstance(struct, type) and issubclass(struct, CheckedStruct)
        )
    return types.MappingProxyType({name: structs for name, structs in structs_by_field.items() if structs})


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by name.

    They are cached, since evaluating their annotations takes longer than a small run.
    """
    return types.MappingProxyType({field.name: field for field in msgspec.structs.fields(kind)})


@cache
def limits_of(kind: type[msgspec.Struct]) -> Mapping[str, Limits]:
    """Return field -> limits, for the fields that have limits."""
    return _annotations_of(kind, Limits)


@cache
def answer_waits_of(kind: type[msgspec.Struct]) -> Mapping[str, AnswerWait]:
    """Return field -> declaration, for the fields in which an answer should arrive."""
    return _annotations_of(kind, AnswerWait)


def _annotations_of(kind: type[msgspec.Struct], annotation: type[_Annotation]) -> Mapping[str, _Annotation]:
    """Return field -> its annotation of a type, for the fields that have one."""
    annotations: dict[str, _Annotation] = {}

    def collect(name: str, hint: Any) -> None:
        for argument in get_args(hint):
            if isinstance(argument, annotation):
                annotations[name] = argument
            else:
                collect(name, argument)

    for field in fields_of(kind).values():
        collect(field.encode_name, field.type)
    return types.MappingProxyType(annotations)
