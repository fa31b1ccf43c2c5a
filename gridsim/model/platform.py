"""Platform: the machines of a grid, made from a recipe that a scenario file can hold.

A recipe is a frozen msgspec Struct (one of a tagged union, tag field ``kind``).  The same recipe always makes
the same speeds.  The draws of a recipe depend on its own seed and on nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.attributes import Attributes, AttributesRecipe
from gridsim.model.distributions import Amount, Range, amount_of, checked_amount
from gridsim.support.arguments import normalise, real, short_repr, suggest_arguments, text
from gridsim.support.arrays import Floats
from gridsim.support.columns import FloatColumn
from gridsim.support.memory import MACHINE_BYTES, check_fits
from gridsim.support.parameters import Limits, Recipe, Seed, Text
from gridsim.support.provenance import reading
from gridsim.support.random_streams import Streams, normal_factors

#: Largest number of machines N.  The 2 N - 1 nodes of a tree over them are counted in 32 bits, too.
MOST_NODES = 2**30

Nodes = Annotated[int, Limits(low=1, high=MOST_NODES)]
#: Limits of a speed.
SPEED = Limits(low=1e-6, unit="Mflop/s")
Speed = Annotated[float, SPEED]


class _Speeds(Recipe, frozen=True, kw_only=True):
    """What all platforms have.

    Parameters
    ----------
    bandwidth
        Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
        with one entry per machine, or a table {low = ..., high = ...} between which logarithms are uniform.
        Without it data take no time.
    attributes
        Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; without it
        machines differ in speed only.
    """

    part: ClassVar[str] = "platform"

    bandwidth: Annotated[Amount | None, Limits(above=0, unit="bytes/s")] = None
    attributes: AttributesRecipe | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.attributes, AttributesRecipe | None):
            raise ScenarioError(
                "platform.attributes must be DrawnAttributes or ListedAttributes, got "
                f"{short_repr(self.attributes)}"
            )
        if self.bandwidth is None:
            return
        checked = checked_amount("platform.bandwidth", self.bandwidth, "link", above=0, unit="bytes/s")
        if isinstance(checked, tuple) and len(checked) != self.count:
            raise ScenarioError(
                f"platform.bandwidth must have one entry for each of {self.count} machines, "
                f"got {len(checked)}"
            )
        normalise(self, bandwidth=checked)

    @property
    def count(self) -> int:
        """The number of machines."""
        nodes: int = getattr(self, "nodes")  # noqa: B009 - of all kinds but the list
        return nodes


class UniformSpeeds(_Speeds, frozen=True, kw_only=True, tag="uniform"):
    """Speeds drawn uniformly from low, low + step, ..., high (Mflop/s)."""

    nodes: Nodes
    seed: Seed
    low: Speed = 1000.0
    high: Speed = 3000.0
    step: Speed = 200.0

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high, step = self.low, real("platform.high", self.high, low=self.low, unit="Mflop/s"), self.step
        steps = (high - low) / step
        if not steps < 2**53:
            raise ScenarioError(f"platform.step must leave fewer than 2**53 speeds, got {step:g} Mflop/s")
        if abs(steps - round(steps)) > 1e-9 * max(1.0, steps) or (high > low and round(steps) == 0):
            raise ScenarioError(
                f"platform.step must divide high - low = {high - low:g} Mflop/s evenly, got {step:g}"
            )

    def speeds(self) -> Floats:
        levels = round((self.high - self.low) / self.step) + 1
        drawn = Streams(self.seed)("platform.speeds").integers(levels, size=self.nodes)
        return self.low + self.step * drawn.astype(np.float64)


class ParetoSpeeds(_Speeds, frozen=True, kw_only=True, tag="pareto"):
    """Speeds of 1000 + 200 (j - 1) Mflop/s with P(j) ~ 1 / (j (j + 1)), j in 1..10; mean 1244 Mflop/s."""

    nodes: Nodes
    seed: Seed

    def speeds(self) -> Floats:
        levels = 10
        share = Streams(self.seed)("platform.speeds").random(self.nodes)
        # j = floor(X), X Pareto (k = 1) cut at levels + 1: F(x) = (1 - 1/x) (levels + 1) / levels, inverted
        drawn = np.floor(1.0 / (1.0 - share * (levels / (levels + 1))))
        speeds: Floats = 1000.0 + 200.0 * (np.clip(drawn, 1, levels) - 1)
        return speeds


class NormalSpeeds(_Speeds, frozen=True, kw_only=True, tag="normal"):
    """Normally distributed speeds around `mean` (Mflop/s); speeds of at most 0.01 * mean are drawn again."""

    nodes: Nodes
    seed: Seed
    mean: Speed = 200.0
    variation: Annotated[float, Limits(low=0)] = 0.2

    def speeds(self) -> Floats:
        return self.mean * normal_factors(Streams(self.seed)("platform.speeds"), self.variation, self.nodes)


class HostSpeedTable(_Speeds, frozen=True, kw_only=True, tag="hosts"):
    """Speeds of real hosts, drawn with replacement from a table (see `gridsim.traces.read_host_speeds`)."""

    path: Text
    nodes: Nodes
    seed: Seed
    column: Text = "gflops_core"

    def speeds(self) -> Floats:
        from gridsim.traces import read_host_speeds

        hosts = read_host_speeds(self.path, self.column)
        return hosts.sample(self.nodes, Streams(self.seed)("platform.speeds"))


class ListedSpeeds(_Speeds, frozen=True, kw_only=True, tag="list"):
    """A list of speeds, Mflop/s, one per machine."""

    listed: Annotated[FloatColumn, SPEED] = msgspec.field(name="speeds")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.listed:
            raise ScenarioError("platform.speeds must name at least one machine, got none")

    @property
    def count(self) -> int:
        """The number of machines."""
        return len(self.listed)

    def speeds(self) -> Floats:
        return np.array(self.listed, dtype=np.float64)


class EqualSpeeds(_Speeds, frozen=True, kw_only=True, tag="equal"):
    """`nodes` machines of the same speed (Mflop/s); `Platform.equal` explains each field."""

    nodes: Nodes
    speed: Speed = 1000.0

    def speeds(self) -> Floats:
        return np.full(self.nodes, self.speed)


PlatformRecipe = UniformSpeeds | ParetoSpeeds | NormalSpeeds | HostSpeedTable | ListedSpeeds | EqualSpeeds


#: Up to this many machines, a platform makes the speeds when it is created, before they are asked for.
_AT_ONCE = 1 << 20


# -- the platform ---------------------------------------------------------------------------------------


@suggest_arguments
@dataclass(frozen=True)
class Platform:
    """The machines of a grid.  Two platforms are equal when their recipes are.

    Speeds are made when the platform is created, so that errors in them show early; and so are attributes,
    by which machines differ for jobs and tasks that want certain machines.  With more than a million
    machines they are made when first asked for, so that reading a scenario takes no memory for them.

    Parameters
    ----------
    recipe
        How the platform was made; use the constructors below.
    """

    recipe: PlatformRecipe

    def __post_init__(self) -> None:
        if self.nodes <= _AT_ONCE:
            _ = self.speeds, self.attributes

    @cached_property
    def speeds(self) -> Floats:
        """Speed of each machine, Mflop/s: float64[nodes], read-only."""
        check_fits("platform.nodes", self.nodes, "machines", MACHINE_BYTES)
        table = [self.recipe.path] if isinstance(self.recipe, HostSpeedTable) else []
        # infinite speeds are rejected here
        with reading(table) as files, np.errstate(over="ignore"):
            speeds = self.recipe.speeds()
            if not math.isfinite(speeds.sum()):
                raise ScenarioError(
                    f"platform must have speeds with a finite sum, got up to {speeds.max():g} Mflop/s"
                )
        speeds.flags.writeable = False
        self.__dict__["files"] = files
        return speeds

    @cached_property
    def files(self) -> dict[str, str]:
        """SHA-256 of the table of hosts as it was read, by path; empty if the speeds are not from a table."""
        _ = self.speeds
        files: dict[str, str] = self.__dict__["files"]
        return files

    @cached_property
    def attributes(self) -> Attributes | None:
        """Memory, disk, kind and place of each machine; None for machines without attributes."""
        recipe = self.recipe.attributes
        return None if recipe is None else recipe.realize(self.nodes)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in ("speeds", "bandwidth"):
            if state.get(name) is not None:
                getattr(self, name).flags.writeable = False  # pickle and deepcopy do not keep this flag

    @classmethod
    def desktop_grid(
        cls, nodes: int, seed: int, low: float = 1000.0, high: float = 3000.0, step: float = 200.0
    ) -> Platform:
        """`nodes` machines with speeds drawn uniformly from low, low + step, ..., high (Mflop/s).

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        low
            Slowest speed, Mflop/s.
        high
            Fastest speed, Mflop/s.
        step
            Difference between two neighbouring speeds, Mflop/s; it must divide high - low.
        """
        return cls(UniformSpeeds(nodes=nodes, seed=seed, low=low, high=high, step=step))

    @classmethod
    def pareto(cls, nodes: int, seed: int) -> Platform:
        """`nodes` machines of 1000..2800 Mflop/s, most of them slow (mean 1244).

        The speed is 1000 + 200 (j - 1) Mflop/s with P(j) ~ 1 / (j (j + 1)) for j in 1..10.

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        """
        return cls(ParetoSpeeds(nodes=nodes, seed=seed))

    @classmethod
    def normal(cls, nodes: int, seed: int, mean: float = 200.0, variation: float = 0.2) -> Platform:
        """`nodes` machines with normally distributed speeds (Mflop/s).

        Speeds of at most 0.01 of the mean are drawn again.

        Parameters
        ----------
        nodes
            Number of machines.
        seed
            Seed of the draw.
        mean
            Mean speed, Mflop/s; a clock of 1 MHz counts as 1 Mflop/s, as in the RJSS paper.
        variation
            Standard deviation of the speeds, relative to the mean.
        """
        return cls(NormalSpeeds(nodes=nodes, seed=seed, mean=mean, variation=variation))

    @classmethod
    def from_hosts(
        cls, path: str | os.PathLike[str], nodes: int, seed: int, column: str = "gflops_core"
    ) -> Platform:
        """`nodes` machines with the speeds of hosts drawn from a table of real hosts.

        Raises TraceFormatError for a bad table.

        Parameters
        ----------
        path
            A CSV table with the columns cpu_model, computers and those of the speeds, plain or gzip.
        nodes
            Number of machines.
        seed
            Seed of the draw, which is with replacement; each computer is equally likely.
        column
            Column of the speed: ``gflops_core`` for one core, ``gflops_computer`` for all cores.
        """
        return cls(HostSpeedTable(path=text("platform.path", path), nodes=nodes, seed=seed, column=column))

    @classmethod
    def equal(cls, nodes: int, speed: float = 1000.0, attributes: AttributesRecipe | None = None) -> Platform:
        """`nodes` machines of the same speed (Mflop/s), as rigid jobs need them.

        Parameters
        ----------
        nodes
            Number of machines.
        speed
            Speed of each machine, Mflop/s.
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; with None
            all machines are alike.
        """
        return cls(EqualSpeeds(nodes=nodes, speed=speed, attributes=attributes))

    @classmethod
    def of(cls, speeds: Iterable[float] | Floats) -> Platform:
        """Machines with exactly the given speeds, Mflop/s.

        Parameters
        ----------
        speeds
            Mflop/s, one entry per machine.
        """
        listed: Any = speeds
        return cls(ListedSpeeds(listed=listed))

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.recipe.count

    def linked(self, bandwidth: float | tuple[float, float] | Iterable[float]) -> Platform:
        """Return the same machines with links to the data of tasks (`Workload.bags`: ``input_bytes``).

        Without links, data take no time.  The network between machines (`Network`) has nothing to do with
        them.

        Parameters
        ----------
        bandwidth
            Bytes/s of the link of each machine, up and down at once.  One number is for all; of a tuple (low,
            high) the links are drawn so that their logarithms are uniform, with the seed of the platform (0
            if it has none); a list has one entry per machine.
        """
        given = bandwidth if isinstance(bandwidth, (int, float, str, tuple)) else list(bandwidth)
        made = amount_of("platform.bandwidth", given, above=0, unit="bytes/s")
        return Platform(msgspec.structs.replace(self.recipe, bandwidth=made))

    def with_attributes(self, attributes: AttributesRecipe | None) -> Platform:
        """Return the same machines with attributes, for jobs and tasks that want certain machines.

        Parameters
        ----------
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; None for
            none.
        """
        return Platform(msgspec.structs.replace(self.recipe, attributes=attributes))

    def unlinked(self) -> Platform:
        """Return the same machines without links."""
        if self.recipe.bandwidth is None:
            return self
        return Platform(msgspec.structs.replace(self.recipe, bandwidth=None))

    @cached_property
    def bandwidth(self) -> Floats | None:
        """Bandwidth of each machine's link to data, bytes/s: float64[nodes]; None without links."""
        given = self.recipe.bandwidth
        if given is None:
            return None
        if isinstance(given, Range):
            draw = Streams(getattr(self.recipe, "seed", 0))("platform.bandwidth")
            made = np.exp(draw.uniform(math.log(given.low), math.log(given.high), self.nodes))
            made = np.clip(made, given.low, given.high)
        else:
            made = np.broadcast_to(np.array(given, dtype=np.float64), self.nodes).copy()
        made.flags.writeable = False
        return made

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Speeds of the slowest and of the fastest machine, Mflop/s."""
        return float(self.speeds.min()), float(self.speeds.max())

    @cached_property
    def aggregate_speed(self) -> float:
        """Speed of all machines together, Mflop/s (summed exactly, rounded once)."""
        return math.fsum(self.speeds.tolist())
