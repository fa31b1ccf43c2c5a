"""Attributes of machines besides speed (memory, disk, kind, place), and the requirements of jobs and tasks.

The attributes of a platform are generated from a recipe, like its speeds.  Rigid jobs may require machines
with enough memory and disk, or of one kind; tasks of bags may require enough memory and disk.  The
requirements of drawn jobs and bags are also generated from a recipe (`Constraints`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arguments import hint, short_repr
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.columns import FloatColumn
from gridsim.support.parameters import CheckedStruct, Limits, Recipe, Seed, Text
from gridsim.support.random_streams import DEFAULT_SEED, Streams

#: Maximum memory or disk of a machine or task (bytes); floats up to it represent whole bytes exactly.
MAX_MEMORY = 2.0**53

#: Type of a field for a number of bytes of memory or disk.
Memory = Annotated[float, Limits(low=0, high=MAX_MEMORY, unit="bytes")]
#: Type of a field for a list of numbers of bytes, one per application or job.
ListedMemory = Annotated[FloatColumn, Limits(low=0, high=MAX_MEMORY, unit="bytes")]
_Coordinate = Annotated[float, Limits(low=-1e9, high=1e9)]
#: The kind in a job that runs on machines of any kind.
ANY_KIND = ""

Texts = NDArray[np.str_]


def bytes_text(value: float) -> str:
    """Return a number of bytes with six digits, or more if these do not state it exactly."""
    return short if float(short := f"{value:g}") == value else f"{value:.15g}"


@dataclass(frozen=True)
class Attributes:
    """The attributes of n machines.

    Parameters
    ----------
    memory
        float64[n], bytes; None if machines do not state their memory.
    kind
        Text[n]; None if machines have no kinds.
    places
        float64[n, 2], coordinates in a plane, in any unit; None if machines have no places.
    disk
        float64[n], bytes; None if machines do not state their disk.
    """

    memory: Floats | None = None
    kind: Texts | None = None
    places: Floats | None = None
    disk: Floats | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the stated attributes as columns of a table: memory, disk, kind, x and y."""
        columns = {"memory": self.memory, "disk": self.disk, "kind": self.kind}
        if self.places is not None:
            columns |= {"x": self.places[:, 0].copy(), "y": self.places[:, 1].copy()}
        return {name: column for name, column in columns.items() if column is not None}

    def suitable_machines(self, memory: float, kind: str = ANY_KIND, disk: float = 0.0) -> Bools:
        """Return a mask of the machines of kind `kind` with at least `memory` and `disk` bytes: bool[n]."""
        columns = [c for c in (self.memory, self.kind, self.places, self.disk) if c is not None]
        mask: Bools = np.ones(len(columns[0]), np.bool_)
        for minimum, capacity in ((memory, self.memory), (disk, self.disk)):
            if minimum > 0 and capacity is not None:
                mask &= capacity >= minimum
        if kind != ANY_KIND and self.kind is not None:
            mask &= self.kind == kind
        return mask


class _AttributesBase(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "platform.attributes"


class DrawnAttributes(_AttributesBase, frozen=True, kw_only=True, tag="drawn"):
    """Memory, disk, kind and place of each machine, drawn independently of one another.

    Parameters
    ----------
    seed
        Seed of the draws.
    memory
        Values in bytes; each machine has one of them, all equally likely.  A value listed twice is twice as
        likely.  If the list is empty, machines do not state their memory.
    disk
        Bytes, drawn in the same way.
    kinds
        Names of kinds; each machine is of one of these kinds, drawn in the same way.
    side
        Side of the square, in any unit, in which machines have uniformly drawn places; None for no places.
    """

    seed: Seed = DEFAULT_SEED
    memory: tuple[Memory, ...] = ()
    disk: tuple[Memory, ...] = ()
    kinds: tuple[Text, ...] = ()
    side: Annotated[float, Limits(above=0, high=1e9)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.memory or self.disk or self.kinds or self.side is not None):
            raise ScenarioError(
                f"{self.part} must have at least one of memory, disk, kinds and side, got none"
            )

    def realize(self, machines: int) -> Attributes:
        """Return the attributes of `machines` machines."""
        streams = Streams(self.seed)
        draw = streams("platform.places")
        return Attributes(
            _draw_values(self.memory, machines, streams("platform.memory"), np.float64),
            _draw_values(self.kinds, machines, streams("platform.kinds"), np.str_),
            None if self.side is None else self.side * draw.random((machines, 2)),
            _draw_values(self.disk, machines, streams("platform.disk"), np.float64),
        )


class ListedAttributes(_AttributesBase, frozen=True, kw_only=True, tag="list"):
    """Lists of attributes, each with one entry per machine.

    Parameters
    ----------
    memory, disk
        Bytes of each machine.
    kinds
        Name of the kind of each machine.
    x, y
        Coordinates of each machine, in any unit; x requires y and y requires x.
    """

    memory: tuple[Memory, ...] | None = None
    disk: tuple[Memory, ...] | None = None
    kinds: tuple[Text, ...] | None = None
    x: tuple[_Coordinate, ...] | None = None
    y: tuple[_Coordinate, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise ScenarioError(
                f"{self.part} must have at least one of memory, disk, kinds, and the pair x, y, got none"
            )
        if (self.x is None) != (self.y is None):
            missing, present = ("x", "y") if self.x is None else ("y", "x")
            raise ScenarioError(f"{self.part}.{present} requires {self.part}.{missing}")

    def realize(self, machines: int) -> Attributes:
        """Return the attributes of `machines` machines.

        Raises
        ------
        ScenarioError
            If a list does not have one entry per machine.
        """
        for name in self.__struct_fields__:
            column = getattr(self, name)
            if column is not None and len(column) != machines:
                raise ScenarioError(
                    f"{self.part}.{name} must have {machines} entries, one per machine, got {len(column)}"
                )
        return Attributes(
            None if self.memory is None else np.array(self.memory),
            None if self.kinds is None else np.array(self.kinds),
            None if self.x is None or self.y is None else np.column_stack((self.x, self.y)),
            None if self.disk is None else np.array(self.disk),
        )


AttributesRecipe = DrawnAttributes | ListedAttributes


class Requirements(NamedTuple):
    """Requirements of n jobs, or of the tasks of n bags, on a machine.

    A column is None if no job or bag has that requirement.

    Parameters
    ----------
    memory, disk
        float64[n], minimum, bytes.
    kind
        Text[n]; `ANY_KIND` for any kind.
    """

    memory: Floats | None = None
    kind: Texts | None = None
    disk: Floats | None = None

    def columns(self, group: Integers, suited: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the requirements by name, with groups unless all machines suit all jobs or bags."""
        columns: dict[str, Any] = {
            name: column for name, column in self._asdict().items() if column is not None
        }
        return columns if suited.all() else {**columns, "group": group, "suited": suited}

    @property
    def any(self) -> bool:
        """True if there is any requirement."""
        return not (self.memory is None and self.kind is None and self.disk is None)

    def rows(self) -> list[tuple[float, str, float]]:
        """Return the arguments of `Attributes.suitable_machines` for each job or bag."""
        count = max(0 if column is None else len(column) for column in self)
        memory, disk = (np.zeros(count) if column is None else column for column in (self.memory, self.disk))
        kind = np.full(count, ANY_KIND) if self.kind is None else self.kind
        return list(zip(memory.tolist(), kind.tolist(), disk.tolist(), strict=True))

    def row(self, i: int) -> tuple[float, str, float]:
        """Return the arguments of `Attributes.suitable_machines` for job or bag `i`."""
        return (
            0.0 if self.memory is None else float(self.memory[i]),
            ANY_KIND if self.kind is None else str(self.kind[i]),
            0.0 if self.disk is None else float(self.disk[i]),
        )

    def describe(self, i: int) -> str:
        """Return the requirements of job or bag `i` as text."""
        memory, kind, disk = self.row(i)
        parts = [f"at least {bytes_text(memory)} bytes"] if memory > 0 else []
        parts += [f"at least {bytes_text(disk)} bytes of disk"] if disk > 0 else []
        parts += [f"kind {kind!r}"] if kind != ANY_KIND else []
        return " and ".join(parts) or "any"

    def groups(self, attributes: Attributes | None, noun: str = "jobs") -> tuple[Integers, NDArray[np.bool_]]:
        """Return the group of each job or bag, int64[n], and the machines that suit each group.

        The second array is bool[groups, machines].  Jobs or bags with the same suitable machines are in one
        group.

        Parameters
        ----------
        attributes
            The attributes of the machines.
        noun
            The word for jobs or tasks in errors.

        Raises
        ------
        ScenarioError
            If machines do not state an attribute that is required, or none is of a required kind.
        """
        self.check_stated(attributes, noun)
        assert attributes is not None
        kinds = [ANY_KIND] if attributes.kind is None else [ANY_KIND, *np.unique(attributes.kind).tolist()]
        first, class_of = self._classes(attributes)
        masks: dict[bytes, int] = {}
        group = np.zeros(len(first), np.int64)
        for k in np.argsort(first).tolist():  # groups are numbered in the order of their first members
            row = self.row(first[k])
            if row[1] not in kinds:
                raise ScenarioError(
                    f"workload.kinds[{first[k]}] must be one of {', '.join(kinds[1:])}, the kinds of the "
                    f"machines, or empty for any, got {row[1]!r}{hint(kinds[1:], row[1])}"
                )
            group[k] = masks.setdefault(attributes.suitable_machines(*row).tobytes(), len(masks))
        return group[class_of], np.stack([np.frombuffer(mask, np.bool_) for mask in masks])

    def check_stated(self, attributes: Attributes | None, noun: str = "jobs") -> None:
        """Raise ScenarioError if machines do not state an attribute that is required."""
        entries = {
            "memory": ("memory", "memory"),
            "kind": ("a kind", "attributes.kinds"),
            "disk": ("disk", "attributes.disk"),
        }
        for name, (label, entry) in entries.items():
            capacity = None if attributes is None else getattr(attributes, name)
            if getattr(self, name) is not None and capacity is None:
                raise ScenarioError(f"platform.{entry} must be set for {noun} that require {label}, got none")

    def _classes(self, attributes: Attributes) -> tuple[Integers, Integers]:
        """Return the first member of each class of equal requirements, and each member's class, int64[n].

        Two amounts count as equal if no machine has an amount between them.
        """
        count = max(0 if column is None else len(column) for column in self)
        first, class_of = np.zeros(1, np.int64), np.zeros(count, np.int64)
        for demand, capacity in (
            (self.memory, attributes.memory),
            (self.disk, attributes.disk),
            (self.kind, attributes.kind),
        ):
            if demand is None or capacity is None:
                continue
            if demand.dtype.kind == "U":
                texts = demand.tolist()
                number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
                code, codes = np.fromiter(map(number.__getitem__, texts), np.int64, count), len(number)
            else:
                levels = np.unique(capacity)
                code, codes = np.searchsorted(levels, demand), len(levels) + 1
            _, first, class_of = np.unique(class_of * codes + code, return_index=True, return_inverse=True)
        return first, class_of


class Constraints(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requirements of drawn jobs, jobs of a log, or tasks of drawn bags for their machines.

    Parameters
    ----------
    memory
        Amounts in bytes; each job, or each task of a bag, needs one of them, all equally likely.  An amount
        listed twice is twice as likely; 0 stands for any memory, and so does an empty list.
    disk
        Bytes, drawn in the same way.
    kinds
        Names of kinds; each job needs machines of one of these kinds, drawn in the same way.  An empty string
        stands for any kind.  Must be empty for bags.
    """

    part: ClassVar[str] = "workload.constraints"

    memory: tuple[Memory, ...] = ()
    disk: tuple[Memory, ...] = ()
    kinds: tuple[str, ...] = ()

    def draw(self, seed: int, count: int) -> Requirements:
        """Return the requirements of `count` jobs or bags."""
        streams = Streams(seed)
        return Requirements(
            _draw_values(self.memory, count, streams("workload.memory"), np.float64),
            _draw_values(self.kinds, count, streams("workload.kinds"), np.str_),
            _draw_values(self.disk, count, streams("workload.disk"), np.float64),
        )


def draw_requirements(constraints: Constraints | None, seed: int, count: int) -> Requirements:
    """Return the requirements of `count` jobs or bags, which are empty if `constraints` is None."""
    return Requirements() if constraints is None else constraints.draw(seed, count)


def check_constraints(constraints: Any) -> None:
    """Raise ScenarioError unless `constraints` is a `Constraints` or None."""
    if not isinstance(constraints, Constraints | None):
        raise ScenarioError(
            f"workload.constraints must be Constraints or None, got {short_repr(constraints)}"
        )


def mean_distance(places: Floats) -> float:
    """Return the mean distance between two of k `places`, float64[k, 2]; 0 for a single place."""
    count = len(places)
    if count < 2:
        return 0.0
    distances = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    return float(distances.sum()) / (count * (count - 1))


def _draw_values(
    values: tuple[Any, ...], count: int, draw: np.random.Generator, dtype: type
) -> NDArray[Any] | None:
    """Draw `count` values from `values`, all equally likely; return None if there are no values."""
    return np.array(values, dtype)[draw.integers(len(values), size=count)] if values else None
