"""Platform: the machines of a grid, generated from a recipe that a scenario file can hold.

A recipe is a frozen msgspec Struct (one of a tagged union, tag field ``kind``).  Equal recipes generate equal
speeds.  The draws of a recipe depend only on its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.model.attributes import MAX_MEMORY, Attributes, AttributesRecipe, Memory
from gridsim.model.constructors import Constructor, PlatformConstructors, constructors
from gridsim.model.distributions import Amount, Range, amount_of, check_amount
from gridsim.model.power import CarbonIntensity, MachinePower, Power
from gridsim.support.arguments import integer, normalise, one_of, real, sequence, short_repr
from gridsim.support.arrays import Floats, Integers
from gridsim.support.columns import FloatColumn, IntColumn, TextColumn
from gridsim.support.memory import MACHINE_BYTES, check_fits
from gridsim.support.parameters import FilePath, Limits, Recipe, Seed, Text
from gridsim.support.provenance import file_digests
from gridsim.support.random_streams import DEFAULT_SEED, Streams, normal_factors

#: Largest number of machines N: the 2 N - 1 nodes of a tree over them must fit into 32 bits.
MAX_NODES = 2**30

#: Largest number of cores of a machine.
MAX_CORES = 2**16

Nodes = Annotated[int, Limits(low=1, high=MAX_NODES)]
#: Limits of a speed.
SPEED_LIMITS = Limits(low=1e-6, unit="Mflop/s")
Speed = Annotated[float, SPEED_LIMITS]


class PlatformKind(Recipe, frozen=True, kw_only=True):
    """Base class of the kinds of platforms, with their common fields; a kind has a field `nodes`, too.

    Parameters
    ----------
    bandwidth
        Bytes/s of each machine's link to the data of tasks, up and down at once: a number for all, a list
        with one entry per machine, or a table {low = ..., high = ...} for a log-uniform draw.  By default
        data take no time.
    attributes
        Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; by default
        machines differ in speed only.
    cores
        Cores of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
        by default one.  Each core runs one task at a time, at the speed of the machine.
    memory
        Memory of each machine, bytes: a number for all, or a list with one entry per machine, or, of sites,
        per site.  By default it is that of `attributes`.
    gpus
        GPUs of each machine: a number for all, or a list with one entry per machine, or, of sites, per site;
        by default none.
    power
        Power of each machine, `Power`; by default the energy of a run is not counted.
    """

    part: ClassVar[str] = "platform"

    bandwidth: Annotated[Amount | None, Limits(above=0, unit="bytes/s")] = None
    cores: Annotated[int | tuple[int, ...] | None, Limits(low=1, high=MAX_CORES)] = None
    memory: Memory | tuple[Memory, ...] | None = None
    gpus: Annotated[int | tuple[int, ...] | None, Limits(low=0, high=MAX_CORES)] = None
    attributes: AttributesRecipe | None = None
    power: Power | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.attributes, AttributesRecipe | None):
            raise ScenarioError(
                "platform.attributes must be DrawnAttributes, ListedAttributes or None, got "
                f"{short_repr(self.attributes)}"
            )
        if not isinstance(self.power, Power | None):
            raise ScenarioError(f"platform.power must be Power or None, got {short_repr(self.power)}")
        self._check_amounts("cores", partial(integer, low=1, high=MAX_CORES))
        self._check_amounts("memory", Limits(low=0, high=MAX_MEMORY, unit="bytes").real)
        self._check_amounts("gpus", partial(integer, high=MAX_CORES))
        if self.memory is not None and getattr(self.attributes, "memory", None):
            raise ScenarioError("platform.memory must be None if platform.attributes has memory, got both")
        if self.bandwidth is None:
            return
        bandwidth = check_amount("platform.bandwidth", self.bandwidth, "link", above=0, unit="bytes/s")
        if isinstance(bandwidth, tuple) and len(bandwidth) != self.count:
            raise ScenarioError(
                f"platform.bandwidth must have {self.count} entries, one per machine, got {len(bandwidth)}"
            )
        normalise(self, bandwidth=bandwidth)

    def _check_amounts(self, name: str, check: Callable[[str, Any], float]) -> None:
        """Check a field that is a number for all machines, or has an entry for each machine or site."""
        amount, path = getattr(self, name), f"platform.{name}"
        if amount is None:
            return
        if np.ndim(amount) == 0:
            normalise(self, **{name: check(path, amount)})
            return
        amounts = tuple(check(f"{path}[{k}]", value) for k, value in enumerate(sequence(path, amount)))
        if len(amounts) not in self._lengths():
            expected = ", or ".join(
                f"{count} entries, one per {noun}" for count, noun in self._lengths().items()
            )
            raise ScenarioError(f"{path} must have {expected}, got {len(amounts)}")
        normalise(self, **{name: amounts})

    def _lengths(self) -> dict[int, str]:
        """Return the lengths that a list of cores, memory or GPUs may have -> what has an entry."""
        return {self.count: "machine"}

    def of_machines(self, amount: float | tuple[float, ...]) -> NDArray[Any]:
        """Return the cores, the memory or the GPUs of each machine: an array of `count` entries."""
        return np.broadcast_to(np.array(amount), self.count)

    def machines(self) -> tuple[Floats, Integers | None]:
        """Return the speed of each machine, Mflop/s, and its number of cores; None if each has one."""
        speeds = self.speeds()
        return speeds, None if self.cores is None else self.of_machines(self.cores)

    def speeds(self) -> Floats:
        """Return the speed of each machine, Mflop/s: float64[nodes]; each kind defines this method."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Number of machines."""
        nodes: int = getattr(self, "nodes")  # noqa: B009 - every recipe except the list has this field
        return nodes


class UniformSpeeds(PlatformKind, frozen=True, kw_only=True, tag="uniform"):
    """Speeds drawn uniformly from low, low + step, ..., high (Mflop/s).

    The defaults are those of the fair tree paper.

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

    nodes: Nodes
    seed: Seed = DEFAULT_SEED
    low: Speed = 1000.0
    high: Speed = 3000.0
    step: Speed = 200.0

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high, step = self.low, real("platform.high", self.high, low=self.low, unit="Mflop/s"), self.step
        steps = (high - low) / step
        if not steps < 2**53:
            raise ScenarioError(f"platform.step must give fewer than 2**53 speeds, got {step:g} Mflop/s")
        if abs(steps - round(steps)) > 1e-9 * max(1.0, steps) or (high > low and round(steps) == 0):
            raise ScenarioError(
                f"platform.step must divide high - low = {high - low:g} Mflop/s evenly, got {step:g}"
            )

    def speeds(self) -> Floats:
        levels = round((self.high - self.low) / self.step) + 1
        level = Streams(self.seed)("platform.speeds").integers(levels, size=self.nodes)
        return self.low + self.step * level.astype(np.float64)


class ParetoSpeeds(PlatformKind, frozen=True, kw_only=True, tag="pareto"):
    """Speeds drawn from 1000..2800 Mflop/s, most of them slow (mean 1244).

    The speed is 1000 + 200 (j - 1) Mflop/s with P(j) ~ 1 / (j (j + 1)) for j in 1..10.

    Parameters
    ----------
    nodes
        Number of machines.
    seed
        Seed of the draw.
    """

    nodes: Nodes
    seed: Seed = DEFAULT_SEED

    def speeds(self) -> Floats:
        levels = 10
        share = Streams(self.seed)("platform.speeds").random(self.nodes)
        # j = floor(X), X Pareto (k = 1) truncated at levels + 1, drawn by inversion of its distribution
        # function F(x) = (1 - 1/x) (levels + 1) / levels
        level = np.floor(1.0 / (1.0 - share * (levels / (levels + 1))))
        speeds: Floats = 1000.0 + 200.0 * (np.clip(level, 1, levels) - 1)
        return speeds


class NormalSpeeds(PlatformKind, frozen=True, kw_only=True, tag="normal"):
    """Normally distributed speeds (Mflop/s).

    Speeds of at most 0.01 of the mean are redrawn.

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

    nodes: Nodes
    seed: Seed = DEFAULT_SEED
    mean: Speed = 200.0
    variation: Annotated[float, Limits(low=0)] = 0.2

    def speeds(self) -> Floats:
        return self.mean * normal_factors(Streams(self.seed)("platform.speeds"), self.variation, self.nodes)


class HostSpeedTable(PlatformKind, frozen=True, kw_only=True, tag="hosts"):
    """Speeds drawn from a table of real hosts, such as BOINC's public table of processor models.

    Rows without a speed or computers are left out, with a warning.

    Parameters
    ----------
    path
        A CSV table with a header line, the columns cpu_model and computers, and columns of speeds (Gflop/s),
        plain or gzip.
    nodes
        Number of machines.
    seed
        Seed of the draw, which is with replacement; each computer is equally likely.
    column
        Column of the speed: ``gflops_core`` for one core, ``gflops_computer`` for all cores.
    with_cores
        Whether each machine has as many cores as its host: the mean of its model (column ``avg_cores``),
        rounded.  By default machines have one core, or `cores`.

    Raises
    ------
    TraceFormatError
        If the table is invalid.
    """

    path: FilePath
    nodes: Nodes
    seed: Seed = DEFAULT_SEED
    column: Text = "gflops_core"
    with_cores: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.with_cores and self.cores is not None:
            raise ScenarioError("platform.with_cores and platform.cores exclude each other")
        if self.with_cores and self.column == "gflops_computer":
            raise ScenarioError(
                'platform.with_cores requires the speed of one core (platform.column = "gflops_core"), got '
                f"{self.column!r}"
            )

    def speeds(self) -> Floats:
        from gridsim.traces import read_host_speeds

        hosts = read_host_speeds(self.path, self.column)
        return hosts.sample(self.nodes, Streams(self.seed)("platform.speeds"))

    def machines(self) -> tuple[Floats, Integers | None]:
        if not self.with_cores:
            return super().machines()
        from gridsim.traces import read_host_speeds

        hosts = read_host_speeds(self.path, self.column, cores=True)
        assert hosts.cores is not None
        models = hosts.draw(self.nodes, Streams(self.seed)("platform.speeds"))
        return hosts.speed[models], np.minimum(hosts.cores[models], MAX_CORES)


class ListedSpeeds(PlatformKind, frozen=True, kw_only=True, tag="list"):
    """A list of speeds.

    Parameters
    ----------
    speeds
        Speed, Mflop/s, one entry per machine.
    """

    speed_list: Annotated[FloatColumn, SPEED_LIMITS] = msgspec.field(name="speeds")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.speed_list:
            raise ScenarioError("platform.speeds must have at least one entry, got none")

    @property
    def count(self) -> int:
        """Number of machines."""
        return len(self.speed_list)

    def speeds(self) -> Floats:
        return np.array(self.speed_list, dtype=np.float64)


class EqualSpeeds(PlatformKind, frozen=True, kw_only=True, tag="equal"):
    """Machines of the same speed, as rigid jobs require.

    Parameters
    ----------
    nodes
        Number of machines.
    speed
        Speed of each machine, Mflop/s.
    """

    nodes: Nodes
    speed: Speed = 1000.0

    def speeds(self) -> Floats:
        return np.full(self.nodes, self.speed)


class SiteSpeeds(PlatformKind, frozen=True, kw_only=True, tag="sites"):
    """Sites, which are clusters of machines of one speed; machines are numbered site by site.

    Rigid jobs have a home site: the one at which they are submitted.  If the speeds of sites differ, a rigid
    job takes as long as on the slowest of its machines; only `Metascheduler` and `Zorilla` run such jobs,
    without failures.

    Parameters
    ----------
    sizes
        Number of machines of each site.
    speeds
        Speed of the machines of each site, Mflop/s, one entry per site; in Python, a single number in place
        of a list is that of all sites.  By default it is 1000 Mflop/s.
    names
        Name of each site, one entry per site; by default its number.
    """

    sizes: Annotated[IntColumn, Limits(low=1, high=MAX_NODES)]
    speed_list: Annotated[FloatColumn, SPEED_LIMITS] | None = msgspec.field(default=None, name="speeds")
    names: TextColumn | None = None

    def __post_init__(self) -> None:
        if isinstance(self.speed_list, (int, float, np.number)):
            normalise(self, speed_list=[self.speed_list] * len(sequence("platform.sizes", self.sizes)))
        super().__post_init__()
        if not self.sizes:
            raise ScenarioError("platform.sizes must have at least one entry, got none")
        if self.count > MAX_NODES:
            raise ScenarioError(f"platform.sizes must add up to at most {MAX_NODES}, got {self.count}")
        for name, column in (("speeds", self.speed_list), ("names", self.names)):
            if column is not None and len(column) != len(self.sizes):
                raise ScenarioError(
                    f"platform.{name} must have {len(self.sizes)} entries, one per site, got {len(column)}"
                )
        names = () if self.names is None else tuple(self.names)
        for k, name in enumerate(names):
            if not name or name in names[:k]:
                raise ScenarioError(
                    f"platform.names[{k}] must be a name that no other site has, got {short_repr(name)}"
                )

    @property
    def count(self) -> int:
        """Number of machines."""
        return sum(self.sizes.tolist())

    def _lengths(self) -> dict[int, str]:
        return {self.count: "machine", len(self.sizes): "site"}

    def of_machines(self, amount: float | tuple[float, ...]) -> NDArray[Any]:
        if isinstance(amount, tuple) and len(amount) == len(self.sizes):
            return np.repeat(np.array(amount), self.sizes.array)
        return super().of_machines(amount)

    def speeds(self) -> Floats:
        speeds = np.full(len(self.sizes), 1000.0) if self.speed_list is None else self.speed_list.array
        return np.repeat(speeds, self.sizes.array)


PlatformRecipe: TypeAlias = (
    UniformSpeeds | ParetoSpeeds | NormalSpeeds | HostSpeedTable | ListedSpeeds | EqualSpeeds | SiteSpeeds
)


#: Platforms with more machines generate speeds and attributes only when they are used.
_MAX_EAGER_NODES = 1 << 20


# -- the platform ---------------------------------------------------------------------------------------


@constructors(
    desktop_grid=Constructor(UniformSpeeds, "nodes seed low high step"),
    pareto=Constructor(ParetoSpeeds, "nodes seed"),
    normal=Constructor(NormalSpeeds, "nodes seed mean variation"),
    from_hosts=Constructor(HostSpeedTable, "path nodes seed column"),
    equal=Constructor(EqualSpeeds, "nodes speed attributes"),
    of=Constructor(ListedSpeeds, "speeds"),
    sites=Constructor(SiteSpeeds, "sizes speeds names attributes"),
)
@dataclass(frozen=True)
class Platform(PlatformConstructors):
    """The machines of a grid.  Platforms with equal recipes are equal.

    Speeds and attributes are generated when the platform is created, so that errors are reported early.  For
    more than a million machines they are generated at first use, so that a scenario can be read without the
    memory for them.

    Parameters
    ----------
    recipe
        Recipe of the platform; the constructors below make it.
    """

    recipe: PlatformKind

    def __post_init__(self) -> None:
        if self.nodes <= _MAX_EAGER_NODES:
            _ = self.speeds, self.attributes, self.power, self.carbon_intensity

    @property
    def speeds(self) -> Floats:
        """Speed of each machine, Mflop/s: float64[nodes], read-only."""
        return self._machines[0]

    @cached_property
    def _machines(self) -> tuple[Floats, Integers | None]:
        """Speed and number of cores of each machine, read-only; None if each has one core."""
        check_fits("platform.nodes", self.nodes, "machines", MACHINE_BYTES)
        table = [self.recipe.path] if hasattr(self.recipe, "path") else []
        # infinite speeds are rejected below
        with file_digests(table) as files, np.errstate(over="ignore"):
            speeds, cores = self.recipe.machines()
            if not math.isfinite(speeds.sum()):
                raise ScenarioError(
                    f"platform must have speeds with a finite sum, got up to {speeds.max():g} Mflop/s"
                )
        speeds.flags.writeable = False
        self._digests.update(files)
        if cores is None or cores.max() == 1:
            return speeds, None
        cores.flags.writeable = False
        return speeds, cores

    @property
    def files(self) -> dict[str, str]:
        """Path of each table that the platform is read from -> its SHA-256 when it was read.

        These are the table of hosts and that of the carbon intensity.
        """
        _ = self.speeds, self.carbon_intensity
        return dict(self._digests)

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {}

    @cached_property
    def attributes(self) -> Attributes | None:
        """Memory, disk, kind and place of each machine; None for machines without attributes."""
        recipe, memory = self.recipe.attributes, self.recipe.memory
        attributes = None if recipe is None else recipe.realize(self.nodes)
        if memory is None:
            return attributes
        stated = self.recipe.of_machines(memory).astype(np.float64)
        return replace(attributes or Attributes(), memory=stated)

    @cached_property
    def power(self) -> MachinePower | None:
        """Power of each machine, W; None if the energy of a run is not counted."""
        recipe, attributes = self.recipe.power, self.attributes
        kinds = None if attributes is None else attributes.kind
        return None if recipe is None else recipe.realize(self.nodes, kinds, self.site_sizes)

    @cached_property
    def carbon_intensity(self) -> CarbonIntensity | None:
        """Carbon intensity of the electricity of the machines; None if carbon is not counted."""
        if self.recipe.power is None:
            return None
        with file_digests(self.recipe.power.paths) as files:
            intensity = self.recipe.power.carbon_intensity()
        self._digests.update(files)
        return intensity

    @property
    def needs_schedule(self) -> bool:
        """True if the schedule of a run is needed to count carbon, since the carbon intensity changes."""
        return not (self.carbon_intensity is None or self.carbon_intensity.is_constant)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        columns = [state.get("bandwidth"), state.get("machine_site")]
        for column in (*columns, *state.get("_machines", ()), *(state.get("power") or ())):
            if column is not None:
                column.flags.writeable = False  # pickle and deepcopy do not keep this flag

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.recipe.count

    @property
    def site_names(self) -> tuple[str, ...]:
        """Name of each site; empty for a platform without sites."""
        if not isinstance(self.recipe, SiteSpeeds):
            return ()
        if self.recipe.names is None:
            return tuple(map(str, range(len(self.recipe.sizes))))
        return tuple(self.recipe.names)

    @cached_property
    def site_sizes(self) -> Integers | None:
        """Number of machines of each site: int64[sites]; None for a platform without sites."""
        return self.recipe.sizes.array if isinstance(self.recipe, SiteSpeeds) else None

    @cached_property
    def machine_site(self) -> Integers | None:
        """Site of each machine: int64[nodes], read-only; None for a platform without sites."""
        sizes = self.site_sizes
        if sizes is None:
            return None
        site = np.repeat(np.arange(len(sizes)), sizes)
        site.flags.writeable = False
        return site

    def site(self, site: int | str) -> Platform:
        """Return the platform of one site: its machines with their cores, GPUs and power, and nothing else.

        Parameters
        ----------
        site
            Number or name of the site.

        Raises
        ------
        ScenarioError
            If the platform has no such site.
        """
        k = self.site_number(site)
        assert self.site_sizes is not None
        first, size = int(self.site_sizes[:k].sum()), int(self.site_sizes[k])
        capacity: dict[str, Any] = {
            name: column[first : first + size].tolist()
            for name, column in (("cores", self.cores), ("gpus", self.gpus))
            if column is not None
        }
        power = self.recipe.power
        if power is not None and self.power is not None:
            columns = zip(self.power._fields, self.power, strict=True)
            power = msgspec.structs.replace(power, **{n: c[first : first + size] for n, c in columns})
        return Platform.equal(size, float(self.speeds[first]), power=power, **capacity)

    def site_number(self, site: int | str) -> int:
        """Return the number of a site, which is given by its number or name."""
        names = self.site_names
        if not names:
            raise ScenarioError(
                f"platform must have sites (Platform.sites), got {self.recipe.__struct_config__.tag}"
            )
        if isinstance(site, str):
            return names.index(one_of("site", site, names))
        return integer("site", site, high=len(names) - 1)

    def linked(self, bandwidth: float | tuple[float, float] | Iterable[float]) -> Platform:
        """Return a copy of the platform that has links to the data of tasks (``input_bytes``).

        Without links, data take no time.  The links are independent of the network between machines
        (`Network`).

        Parameters
        ----------
        bandwidth
            Bytes/s of the link of each machine, up and down at once: a number for all machines, a tuple (low,
            high) for a log-uniform draw with the seed of the platform (0 if it has none), or a list with one
            entry per machine.
        """
        amount = amount_of("platform.bandwidth", bandwidth)
        return Platform(msgspec.structs.replace(self.recipe, bandwidth=amount))

    def with_attributes(self, attributes: AttributesRecipe | None) -> Platform:
        """Return a copy of the platform with attributes of machines, which jobs and tasks may require.

        Parameters
        ----------
        attributes
            Memory, disk, kind and place of each machine, `DrawnAttributes` or `ListedAttributes`; None for
            machines without attributes.
        """
        return Platform(msgspec.structs.replace(self.recipe, attributes=attributes))

    def unlinked(self) -> Platform:
        """Return the platform without links to data."""
        if self.recipe.bandwidth is None:
            return self
        return Platform(msgspec.structs.replace(self.recipe, bandwidth=None))

    @cached_property
    def bandwidth(self) -> Floats | None:
        """Bandwidth of each machine's link to data, bytes/s: float64[nodes]; None without links."""
        amount = self.recipe.bandwidth
        if amount is None:
            return None
        if isinstance(amount, Range):
            draw = Streams(getattr(self.recipe, "seed", 0))("platform.bandwidth")
            bandwidth = np.exp(draw.uniform(math.log(amount.low), math.log(amount.high), self.nodes))
            bandwidth = np.clip(bandwidth, amount.low, amount.high)
        else:
            bandwidth = np.broadcast_to(np.array(amount, dtype=np.float64), self.nodes).copy()
        bandwidth.flags.writeable = False
        return bandwidth

    @property
    def cores(self) -> Integers | None:
        """Number of cores of each machine: int64[nodes], read-only; None if each has one."""
        return self._machines[1]

    @cached_property
    def gpus(self) -> Integers | None:
        """Number of GPUs of each machine: int64[nodes], read-only; None if none has any."""
        if self.recipe.gpus is None:
            return None
        gpus = self.recipe.of_machines(self.recipe.gpus).astype(np.int64)
        return None if gpus.max() == 0 else gpus

    @property
    def is_shared(self) -> bool:
        """Whether rigid jobs share machines: some have several cores, or GPUs."""
        return self.cores is not None or self.gpus is not None

    @property
    def core_count(self) -> int:
        """Number of cores of all machines."""
        return self.nodes if self.cores is None else int(self.cores.sum())

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Speeds of the slowest and the fastest machine, Mflop/s."""
        return float(self.speeds.min()), float(self.speeds.max())

    @property
    def has_equal_speeds(self) -> bool:
        """Whether all machines have the same speed."""
        slowest, fastest = self.extremes
        return slowest == fastest

    @cached_property
    def aggregate_speed(self) -> float:
        """Sum of the speeds of all cores, Mflop/s (summed exactly, rounded once)."""
        return math.fsum((self.speeds if self.cores is None else self.speeds * self.cores).tolist())
