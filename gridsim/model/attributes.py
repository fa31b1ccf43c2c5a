"""What tells machines apart besides speed: memory, disk, kind and place; and what jobs and tasks want of it.

A platform has `attributes`, made from a recipe as speeds are.  Rigid jobs may want machines of enough memory
and disk, or of one kind, and tasks of bags of enough memory and disk; the constraints of drawn jobs and bags
are made from a recipe, too.
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

#: The largest memory or disk of a machine, or that a task needs; such numbers of bytes are exact.
_MOST_BYTES = 2.0**53

#: Type of a field for a number of bytes of memory or disk.
Memory = Annotated[float, Limits(low=0, high=_MOST_BYTES, unit="bytes")]
#: Type of a field for a list of them, one per application or job.
ListedMemory = Annotated[FloatColumn, Limits(low=0, high=_MOST_BYTES, unit="bytes")]
_Coordinate = Annotated[float, Limits(low=-1e9, high=1e9)]
#: The kind of machine that jobs have which run on any.
ANY = ""

Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Attributes:
    """The attributes of n machines.

    Parameters
    ----------
    memory
        float64[n], bytes; None if machines do not state their memory.
    kind
        Text[n]; None if machines are of no kinds.
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
        """Return the columns of a table: those of memory, disk, kind, x and y that machines have."""
        found = {"memory": self.memory, "disk": self.disk, "kind": self.kind}
        if self.places is not None:
            found |= {"x": self.places[:, 0].copy(), "y": self.places[:, 1].copy()}
        return {name: column for name, column in found.items() if column is not None}

    def suit(self, memory: float, kind: str = ANY, disk: float = 0.0) -> Bools:
        """Return which machines have at least so much memory and disk (bytes) and are of a kind."""
        columns = [each for each in (self.memory, self.kind, self.places, self.disk) if each is not None]
        suited: Bools = np.ones(len(columns[0]), np.bool_)
        for least, there in ((memory, self.memory), (disk, self.disk)):
            if least > 0 and there is not None:
                suited &= there >= least
        if kind != ANY and self.kind is not None:
            suited &= self.kind == kind
        return suited


class _Attributes(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "platform.attributes"


class DrawnAttributes(_Attributes, frozen=True, kw_only=True, tag="drawn"):
    """Memory, disk, kind and place of each machine, drawn independently of one another.

    Parameters
    ----------
    seed
        Seed of the draws.
    memory
        Bytes; each machine has one of these, all equally likely.  One that is named twice is twice as likely.
        Without any, machines do not state their memory.
    disk
        Bytes, drawn in the same way.
    kinds
        Names of kinds; each machine is of one of these, drawn in the same way.
    side
        Side of the square, in any unit, in which machines have uniform places; without it they have none.
    """

    seed: Seed = DEFAULT_SEED
    memory: tuple[Memory, ...] = ()
    disk: tuple[Memory, ...] = ()
    kinds: tuple[Text, ...] = ()
    side: Annotated[float, Limits(above=0, high=1e9)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.memory or self.disk or self.kinds or self.side is not None):
            raise ScenarioError(f"{self.part} must have memory, disk, kinds or side, got none of them")

    def realize(self, machines: int) -> Attributes:
        """Return the attributes of so many machines."""
        streams = Streams(self.seed)
        draw = streams("platform.places")
        return Attributes(
            _drawn(self.memory, machines, streams("platform.memory"), np.float64),
            _drawn(self.kinds, machines, streams("platform.kinds"), np.str_),
            None if self.side is None else self.side * draw.random((machines, 2)),
            _drawn(self.disk, machines, streams("platform.disk"), np.float64),
        )


class ListedAttributes(_Attributes, frozen=True, kw_only=True, tag="list"):
    """Lists of attributes, each with one entry per machine.

    Parameters
    ----------
    memory, disk
        Bytes of each machine.
    kinds
        Name of the kind of each machine.
    x, y
        Coordinates of each machine, in any unit; both or neither.
    """

    memory: tuple[Memory, ...] | None = None
    disk: tuple[Memory, ...] | None = None
    kinds: tuple[Text, ...] | None = None
    x: tuple[_Coordinate, ...] | None = None
    y: tuple[_Coordinate, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise ScenarioError(f"{self.part} must have memory, disk, kinds, or x and y, got none of them")
        if (self.x is None) != (self.y is None):
            missing, given = ("x", "y") if self.x is None else ("y", "x")
            raise ScenarioError(f"{self.part}.{missing} must be given with {self.part}.{given}, got none")

    def realize(self, machines: int) -> Attributes:
        """Return the attributes of so many machines; raises ScenarioError if a list has other entries."""
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


class Wants(NamedTuple):
    """What each of n jobs, or each task of n bags, wants of a machine; None where none does.

    Parameters
    ----------
    memory, disk
        float64[n], bytes, at least.
    kind
        Text[n], `ANY` for any.
    """

    memory: Floats | None = None
    kind: Texts | None = None
    disk: Floats | None = None

    @property
    def any(self) -> bool:
        """Whether anything is stated."""
        return not (self.memory is None and self.kind is None and self.disk is None)

    def rows(self) -> list[tuple[float, str, float]]:
        """Return memory, kind and disk of each, as `Attributes.suit` takes them."""
        count = max(0 if column is None else len(column) for column in self)
        memory, disk = (np.zeros(count) if each is None else each for each in (self.memory, self.disk))
        kind = np.full(count, ANY) if self.kind is None else self.kind
        return list(zip(memory.tolist(), kind.tolist(), disk.tolist(), strict=True))

    def row(self, i: int) -> tuple[float, str, float]:
        """Return memory, kind and disk of number `i`, as `Attributes.suit` takes them."""
        return (
            0.0 if self.memory is None else float(self.memory[i]),
            ANY if self.kind is None else str(self.kind[i]),
            0.0 if self.disk is None else float(self.disk[i]),
        )

    def said(self, i: int) -> str:
        """Return what number `i` wants, in words."""
        memory, kind, disk = self.row(i)
        said = [f"at least {memory:g} bytes"] if memory > 0 else []
        said += [f"at least {disk:g} bytes of disk"] if disk > 0 else []
        said += [f"kind {kind!r}"] if kind != ANY else []
        return " and ".join(said) or "any"

    def groups(self, attributes: Attributes | None, what: str = "jobs") -> tuple[Integers, NDArray[np.bool_]]:
        """Return in which group each is, int64[n], and which machines suit each group.

        The second is bool[groups, machines].  Those that the same machines suit are in one group.  Raises
        ScenarioError if machines do not state what is wanted, or are of other kinds.

        Parameters
        ----------
        attributes
            Those of the machines.
        what
            The word for those that want machines, in errors.
        """
        entries = {"memory": ("memory", "memory"), "kind": ("a kind", "kinds"), "disk": ("disk", "disk")}
        for name, (wanted, entry) in entries.items():
            stated = None if attributes is None else getattr(attributes, name)
            if getattr(self, name) is not None and stated is None:
                raise ScenarioError(
                    f"platform.attributes.{entry} must be given for {what} that want {wanted}, got none"
                )
        assert attributes is not None
        known = [ANY] if attributes.kind is None else [ANY, *np.unique(attributes.kind).tolist()]
        first, which = self._classes(attributes)
        masks: dict[bytes, int] = {}
        group = np.zeros(len(first), np.int64)
        for k in np.argsort(first).tolist():  # so that groups are numbered in the order of their first
            row = self.row(first[k])
            if row[1] not in known:
                raise ScenarioError(
                    f"workload.kinds[{first[k]}] must be one of {', '.join(known[1:])}, the kinds of the "
                    f"machines, or empty for any, got {row[1]!r}{hint(known[1:], row[1])}"
                )
            group[k] = masks.setdefault(attributes.suit(*row).tobytes(), len(masks))
        suited = np.stack([np.frombuffer(mask, np.bool_) for mask in masks])
        return group[which], suited

    def _classes(self, attributes: Attributes) -> tuple[Integers, Integers]:
        """Return the first one of each class of those that want the same, and the class of each, int64[n].

        Amounts are the same if no machine has an amount between them.
        """
        count = max(0 if column is None else len(column) for column in self)
        first, which = np.zeros(1, np.int64), np.zeros(count, np.int64)
        for wanted, stated in (
            (self.memory, attributes.memory),
            (self.disk, attributes.disk),
            (self.kind, attributes.kind),
        ):
            if wanted is None or stated is None:
                continue
            if wanted.dtype.kind == "U":
                texts = wanted.tolist()
                number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
                code, codes = np.fromiter(map(number.__getitem__, texts), np.int64, count), len(number)
            else:
                levels = np.unique(stated)
                code, codes = np.searchsorted(levels, wanted), len(levels) + 1
            _, first, which = np.unique(which * codes + code, return_index=True, return_inverse=True)
        return first, which


class Constraints(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What drawn jobs, or those of a log, want of each of their machines; and the tasks of drawn bags.

    Parameters
    ----------
    memory
        Bytes; each job, or each task of a bag, needs one of these, all equally likely.  One that is named
        twice is twice as likely; 0 stands for any memory, and so does an empty list.
    disk
        Bytes, drawn in the same way.
    kinds
        Names of kinds; each job wants machines of one of these, drawn in the same way.  An empty text stands
        for any kind.  Bags want no kinds.
    """

    part: ClassVar[str] = "workload.constraints"

    memory: tuple[Memory, ...] = ()
    disk: tuple[Memory, ...] = ()
    kinds: tuple[str, ...] = ()

    def draw(self, seed: int, count: int) -> Wants:
        """Return what each of `count` jobs or bags wants."""
        streams = Streams(seed)
        return Wants(
            _drawn(self.memory, count, streams("workload.memory"), np.float64),
            _drawn(self.kinds, count, streams("workload.kinds"), np.str_),
            _drawn(self.disk, count, streams("workload.disk"), np.float64),
        )


def drawn_wants(constraints: Constraints | None, seed: int, count: int) -> Wants:
    """Return what each of `count` jobs or bags wants: nothing without constraints."""
    return Wants() if constraints is None else constraints.draw(seed, count)


def check_constraints(constraints: Any) -> None:
    """Raise ScenarioError unless they are `Constraints` or None."""
    if not isinstance(constraints, Constraints | None):
        raise ScenarioError(f"workload.constraints must be Constraints, got {short_repr(constraints)}")


def mean_distance(places: Floats) -> float:
    """Return the mean distance between two different ones of k places, float64[k, 2]; 0 for a single one."""
    count = len(places)
    if count < 2:
        return 0.0
    apart = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    return float(apart.sum()) / (count * (count - 1))


def _drawn(
    values: tuple[Any, ...], count: int, draw: np.random.Generator, dtype: type
) -> NDArray[Any] | None:
    """Return `count` of `values`, all equally likely; None if there are no values."""
    return np.array(values, dtype)[draw.integers(len(values), size=count)] if values else None
