"""Flags that specify sites: --sites, several --job-log, and --shared and --cores-per-node of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import Addition, ByNode, Flags, Multiple, flags_in_errors
from gridsim.errors import ScenarioError, printable

if TYPE_CHECKING:
    from gridsim.model.platform import EqualSpeeds, SiteSpeeds

#: Number of machines of the default scenario.
DEFAULT_NODES = 1000


def site_platform(flags: Flags, logs: Sequence[str]) -> SiteSpeeds | None:
    """Return the platform of --sites, or of the headers of several logs; None without sites.

    A factor of --nodes multiplies the machines of each site.  In `flags`, --sites then is the number of
    machines of each site, for later calls, and there is no --nodes.
    """
    from gridsim.model.platform import SiteSpeeds

    is_file = "scenario" in flags
    if "sites" not in flags and (not logs or is_file):
        return None
    factor = flags.get("nodes")
    if factor is not None and not isinstance(factor, Multiple):
        given = "--sites" if "sites" in flags else "several --job-log"
        raise ScenarioError(
            f"{given} and --nodes exclude each other, unless --nodes is a factor such as 2x; --sites N,N,... "
            "has the machines of each site"
        )
    for flag in ("speeds", "hosts"):
        if flag in flags and "sites" in flags:
            raise ScenarioError(f"--sites and --{flag} exclude each other")
    names, sizes = _entries(flags["sites"], logs) if "sites" in flags else ([], [])
    names = names or _file_stems(logs)
    if sizes:
        sizes = [changed_count(factor, size) for size in sizes] if factor is not None else sizes
    elif is_file:
        raise ScenarioError(f"--sites must be numbers of machines, such as 64,128, got {flags['sites']!r}")
    else:
        sizes = _sizes_of_logs(flags, logs, names)
    if logs and len(sizes) != len(logs):
        raise ScenarioError(f"--sites must have {len(logs)} entries, one for each log, got {len(sizes)}")
    with flags_in_errors({"platform.sizes": "--sites", "platform.names": "--sites"}):
        fields: dict[str, Any] = {"sizes": sizes, "names": names or None}
        platform = SiteSpeeds(**fields)
    prefixes = [f"{name}=" for name in names] or [""] * len(sizes)
    flags["sites"] = ",".join(f"{prefix}{size}" for prefix, size in zip(prefixes, sizes, strict=True))
    flags.pop("nodes", None)
    return platform


def _entries(text: str, logs: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the names and the numbers of machines in --sites; either may be empty.

    Without numbers, it has a name of each of several logs.
    """
    entries = [entry.strip() for entry in text.split(",")]
    is_named = len(entries) == len(logs) == len(set(entries))
    if is_named and all(name and "=" not in name and not name.isdecimal() for name in entries):
        return entries, []
    names, sizes = [], []
    for entry in entries:
        name, _, size = entry.rpartition("=")
        if not size.isdecimal():
            raise ScenarioError(
                f"--sites must be numbers of machines, such as 64,128 or delft=64,leiden=128, got {text!r}"
            )
        names.append(name)
        sizes.append(int(size))
    if any(names) and not all(names):
        raise ScenarioError(f"--sites must name all sites or none, got {text!r}")
    return names if any(names) else [], sizes


def _file_stems(logs: Sequence[str]) -> list[str]:
    """Return the names of files without endings; no names if two are equal or a list cannot have them."""
    stems = [Path(log).name.removesuffix(".gz").rpartition(".") for log in logs]
    names = [stem or ending for stem, _, ending in stems]
    is_distinct = len(set(names)) == len(names)
    return names if is_distinct and all(name and not set(name) & set(",=") for name in names) else []


def _sizes_of_logs(flags: Flags, logs: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the numbers of machines of several logs."""
    from gridsim.support.arguments import integer

    procs = flags.get("cores_per_node", 1)
    counts = procs if isinstance(procs, tuple) else (procs,) * len(logs)
    if len(counts) != len(logs):
        raise ScenarioError(
            f"--cores-per-node must be one number, or {len(logs)}, one for each log, got {len(counts)}"
        )
    for count in counts:
        integer("--cores-per-node", count, low=1)
    shares = _sharing(flags.get("shared"), names or [str(k) for k in range(len(logs))])
    return [
        machine_count(
            log, count, flag="--sites", is_rigid=True, is_shared=is_shared, change=flags.get("nodes")
        )
        for log, count, is_shared in zip(logs, counts, shares, strict=True)
    ]


def _sharing(shared: str | None, names: Sequence[str]) -> list[bool]:
    """Return whether jobs share the nodes of each site: those that --shared names, or all without names."""
    from gridsim.support.arguments import one_of

    if not shared:
        return [shared is not None] * len(names)
    chosen = {one_of("--shared", name.strip(), tuple(names)) for name in shared.split(",")}
    return [name in chosen for name in names]


def share_nodes(
    platform: EqualSpeeds | SiteSpeeds, values: Flags, *, is_rigid: bool, has_logs: bool
) -> EqualSpeeds | SiteSpeeds:
    """Return a platform with the cores, GPUs and memory of nodes, which jobs share as --shared says.

    In `values`, --cores-per-node then is that of the workload, and there is no --shared.
    """
    import msgspec

    from gridsim.model.platform import EqualSpeeds, SiteSpeeds

    if not is_rigid or "cores_per_node" not in values:
        raise ScenarioError("--shared requires --rigid and --cores-per-node")
    shared, cores = values.pop("shared"), values.pop("cores_per_node")
    if shared and not (has_logs and isinstance(platform, SiteSpeeds)):
        raise ScenarioError(
            f"--shared must have no value, except for names of sites with several --job-log, got {shared!r}"
        )
    names = [""]
    if isinstance(platform, SiteSpeeds):
        names = [*(platform.names or map(str, range(len(platform.sizes))))]
    if isinstance(cores, tuple) and len(cores) != len(names):
        raise ScenarioError(f"--cores-per-node must be one number, or one for each site, got {len(cores)}")
    shares = _sharing(shared, names)
    if not all(shares):
        counts = cores if isinstance(cores, tuple) else (cores,) * len(names)
        values["cores_per_node"] = tuple(
            1 if is_shared else count for is_shared, count in zip(shares, counts, strict=True)
        )
    resources = {name: values[name] for name in ("gpus", "memory") if name in values}
    for name, amounts in resources.items():
        if isinstance(amounts, ByNode):
            resources[name] = tuple(amounts)
            if isinstance(platform, EqualSpeeds) and len(amounts) != platform.nodes:
                resources[name] = _apportioned_amounts(f"--{name}-per-node", amounts, platform.nodes)
    with flags_in_errors({f"platform.{name}": f"--{name}-per-node" for name in resources}):
        return msgspec.structs.replace(platform, cores=cores, **resources)


def _apportioned_amounts(flag: str, amounts: ByNode, nodes: int) -> tuple[float, ...]:
    """Return amounts of another number of nodes, in proportion as partitions are, and print them."""
    from gridsim.support.arrays import apportion

    groups = [(amount, len(list(group))) for amount, group in groupby(amounts)]
    counts = apportion([count for _, count in groups], nodes).tolist()
    scaled = [(amount, count) for (amount, _), count in zip(groups, counts, strict=True)]
    text = ",".join(f"{count}x{amount:.15g}" for amount, count in scaled)
    click.echo(f"gridsim: {flag} is of {len(amounts):,} nodes, scaled to {nodes:,}: {text}", err=True)
    return tuple(amount for amount, count in scaled for _ in range(count))


def changed_count(change: Multiple | Addition, count: int) -> int:
    """Return a number of machines times a factor, rounded, at least 1; or with machines added."""
    return count + change if isinstance(change, Addition) else max(1, round(change * count))


def scaled_sites(platform: SiteSpeeds, factor: Multiple | Addition) -> SiteSpeeds:
    """Return a platform with `factor` times the machines of each site."""
    import msgspec

    if isinstance(factor, Addition):
        raise ScenarioError(f"--nodes must be a factor such as 2x with several sites, got +{factor}")
    sizes = [changed_count(factor, size) for size in platform.sizes.tolist()]
    return msgspec.structs.replace(platform, sizes=sizes)


def machine_count(
    log: str,
    cores_per_node: int = 1,
    *,
    flag: str = "--nodes",
    is_rigid: bool = False,
    is_shared: bool = False,
    change: Multiple | Addition | None = None,
) -> int:
    """Return the number of machines of a job log, with `change`, and print where it comes from.

    It is that of the header; without one, for rigid jobs the most that they used at once, else the default.

    Raises
    ------
    ScenarioError
        If there is a change of the default.
    """
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import (
        MACHINE_KEYS,
        MAX_MACHINES,
        header_count,
        header_fault_texts,
        stated_machines,
    )

    header = read_header(log)
    if header is None:
        return DEFAULT_NODES
    header_field = stated_machines(header, cores_per_node)
    faults = "; ".join(header_fault_texts(header, *MACHINE_KEYS))
    reason = f"since {log} does not state its number of machines"
    if faults:
        reason = f"since in {log}, {faults}"
    if header_field is not None and header_field[1] > MAX_MACHINES:
        reason = f"since the {header_field[0]} of {log} is above {MAX_MACHINES:,}, {header_field[1]:,}"
    if header_field is not None and header_field[1] <= MAX_MACHINES:
        key, count = header_field
        divided = f" / {cores_per_node}" if key == "MaxProcs" and cores_per_node > 1 else ""
        if divided and count * cores_per_node != header_count(header, key):
            divided += ", rounded up,"
        text = f"{count:,} machines, the {key}{divided} of {log}"
    elif is_rigid and 0 < (count := _most_nodes(log, cores_per_node, is_shared)) <= MAX_MACHINES:
        text = f"{count:,} machines, as many as jobs used at once, {reason}"
    elif change is not None:
        raise ScenarioError(f"{flag} must be a number of machines, {reason}")
    else:
        count = DEFAULT_NODES
        text = f"{count:,} machines by default, {reason}"
    if is_rigid and cores_per_node > 1:
        text += f"; each is a node of {cores_per_node} processors{', which jobs share' if is_shared else ''}"
    if change is None:
        text += f"; {flag} sets another number"
    else:
        count = changed_count(change, count)
        how = f"{change:,} more than" if isinstance(change, Addition) else f"{change:g} times"
        text = f"{count:,} machines, {how} {text}"
    click.echo(f"gridsim: {printable(text)}", err=True)
    return count


def _most_nodes(log: str, cores_per_node: int, is_shared: bool) -> int:
    """Return the most nodes that jobs of a log used at once; if they share nodes, those of their cores."""
    from gridsim.traces.info import load_jobs
    from gridsim.traces.rigid import most_in_use

    jobs = load_jobs(log)
    return -(-most_in_use(jobs) // cores_per_node) if is_shared else most_in_use(jobs, cores_per_node)
