"""What tells machines of one speed apart: memory, kind and place; and what jobs want of it.

A platform of equal machines has `attributes`, made from a recipe as speeds are.  Rigid jobs may want machines
of enough memory or of one kind; the constraints of drawn jobs are made from a recipe, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arguments import hint
from gridsim.support.arrays import Bools, Floats, Integers
from gridsim.support.parameters import Declared, Limits, Recipe, Seed, Text
from gridsim.support.random_streams import Streams

#: The largest memory of a machine or of a job on each of its machines; such numbers of bytes are exact.
_MOST_BYTES = 2.0**53

#: Type of a field for a number of bytes of memory.
Memory = Annotated[float, Limits(low=0, high=_MOST_BYTES, unit="bytes")]
_Coordinate = Annotated[float, Limits(low=-1e9, high=1e9)]
#: The kind of machine that jobs have which run on any.
ANY = ""

Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Attributes:
    """The attributes of n machines.

    memory : float64[n], bytes; None if machines do not state their memory.
    kind : text[n]; None if machines are of no kinds.
    places : float64[n, 2], coordinates in a plane, in any unit; None if machines have no places.
    """

    memory: Floats | None = None
    kind: Texts | None = None
    places: Floats | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the attributes as columns of a table: memory, kind, x and y, of those that there are."""
        found = {"memory": self.memory, "kind": self.kind}
        if self.places is not None:
            found |= {"x": self.places[:, 0].copy(), "y": self.places[:, 1].copy()}
        return {name: column for name, column in found.items() if column is not None}

    def suit(self, memory: float, kind: str) -> Bools:
        """Return which machines have at least so much memory (bytes) and are of a kind (`ANY` for any)."""
        columns = [each for each in (self.memory, self.kind, self.places) if each is not None]
        suited: Bools = np.ones(len(columns[0]), np.bool_)
        if memory > 0 and self.memory is not None:
            suited &= self.memory >= memory
        if kind != ANY and self.kind is not None:
            suited &= self.kind == kind
        return suited


class _Attributes(Recipe, frozen=True, kw_only=True):
    part: ClassVar[str] = "platform.attributes"


class DrawnAttributes(_Attributes, frozen=True, kw_only=True, tag="drawn"):
    """Memory, kind and place of each machine, drawn independently of one another.

    seed : seed of the draws.
    memory : bytes; each machine has one of these, all equally likely.  One that is named twice is twice as
        likely.  Without any, machines do not state their memory.
    kinds : names of kinds; each machine is of one of these, drawn in the same way.
    side : side of the square, in any unit, in which machines have uniform places; without it they have none.
    """

    seed: Seed = 0
    memory: tuple[Memory, ...] = ()
    kinds: tuple[Text, ...] = ()
    side: Annotated[float, Limits(above=0, high=1e9)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.memory or self.kinds or self.side is not None):
            raise ScenarioError(f"{self.part} must have memory, kinds or side, got none of them")

    def realize(self, machines: int) -> Attributes:
        """Return the attributes of so many machines."""
        streams = Streams(self.seed)
        draw = streams("platform.places")
        return Attributes(
            _drawn(self.memory, machines, streams("platform.memory"), np.float64),
            _drawn(self.kinds, machines, streams("platform.kinds"), np.str_),
            None if self.side is None else self.side * draw.random((machines, 2)),
        )


class ListedAttributes(_Attributes, frozen=True, kw_only=True, tag="list"):
    """Lists of attributes, each with one entry per machine.

    memory : bytes of each machine.
    kinds : name of the kind of each machine.
    x, y : coordinates of each machine, in any unit; both or neither.
    """

    memory: tuple[Memory, ...] | None = None
    kinds: tuple[Text, ...] | None = None
    x: tuple[_Coordinate, ...] | None = None
    y: tuple[_Coordinate, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise ScenarioError(f"{self.part} must have memory, kinds, or x and y, got none of them")
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
        )


AttributesRecipe = DrawnAttributes | ListedAttributes


class Constraints(Declared, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What drawn jobs, or those of a log, want of each of their machines.

    memory : bytes; each job needs one of these, all equally likely.  One that is named twice is twice as
        likely; 0 stands for any memory, and so does an empty list.
    kinds : names of kinds; each job wants machines of one of these, drawn in the same way.  An empty text
        stands for any kind.
    """

    part: ClassVar[str] = "workload.constraints"

    memory: tuple[Memory, ...] = ()
    kinds: tuple[str, ...] = ()

    def draw(self, seed: int, count: int) -> tuple[Floats | None, Texts | None]:
        """Return memory (bytes) and kind that each of `count` jobs wants; None where no job wants any."""
        streams = Streams(seed)
        return (
            _drawn(self.memory, count, streams("workload.memory"), np.float64),
            _drawn(self.kinds, count, streams("workload.kinds"), np.str_),
        )


def groups(
    memory: Floats | None, kind: Texts | None, attributes: Attributes | None
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return in which group each job is, int64[jobs], and which machines suit each group.

    memory, kind : what each job wants; one of them may be None.
    attributes : those of the machines.

    The second is bool[groups, machines].  Jobs that the same machines suit are in one group.  Raises
    ScenarioError if machines do not state what jobs want, or are of other kinds.
    """
    for wanted, entry, column in (("memory", "memory", memory), ("a kind", "kinds", kind)):
        stated = None if attributes is None else getattr(attributes, "kind" if entry == "kinds" else entry)
        if column is not None and stated is None:
            raise ScenarioError(
                f"platform.attributes.{entry} must be given for jobs that want {wanted}, got none"
            )
    assert attributes is not None
    known = [ANY] if attributes.kind is None else [ANY, *np.unique(attributes.kind).tolist()]
    count = max(0 if column is None else len(column) for column in (memory, kind))
    least = np.zeros(count) if memory is None else memory
    names = np.full(count, ANY) if kind is None else kind
    masks: dict[bytes, int] = {}
    group: dict[tuple[float, str], int] = {}
    wishes = list(zip(least.tolist(), names.tolist(), strict=True))
    for i, wish in enumerate(wishes):
        if wish in group:
            continue
        if wish[1] not in known:
            raise ScenarioError(
                f"workload.kinds[{i}] must be one of {', '.join(known[1:])}, the kinds of the machines, or "
                f"empty for any, got {wish[1]!r}{hint(known[1:], wish[1])}"
            )
        group[wish] = masks.setdefault(attributes.suit(*wish).tobytes(), len(masks))
    suited = np.stack([np.frombuffer(mask, np.bool_) for mask in masks])
    return np.array([group[wish] for wish in wishes], np.int64), suited


def mean_distance(places: Floats) -> float:
    """Return the mean distance between two different ones of k places, float64[k, 2]; 0 for a single one."""
    count = len(places)
    if count < 2:
        return 0.0
    apart = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    return float(apart.sum()) / (count * (count - 1))


def wish(memory: Floats | None, kind: Texts | None, job: int) -> str:
    """Return what a job wants of its machines, in words."""
    said = [] if memory is None or not memory[job] > 0 else [f"at least {memory[job]:g} bytes"]
    said += [] if kind is None or kind[job] == ANY else [f"kind {str(kind[job])!r}"]
    return " and ".join(said) or "any"


def _drawn(
    values: tuple[Any, ...], count: int, draw: np.random.Generator, dtype: type
) -> NDArray[Any] | None:
    """Return `count` of `values`, all equally likely; None if there are no values."""
    return np.array(values, dtype)[draw.integers(len(values), size=count)] if values else None
