"""Flags and files that specify the scenario and the schedulers of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.options import (
    BYTES_OF_NODES,
    FLOAT_OR_MULTIPLE,
    INT,
    INT_OR_LIST,
    INTS_OF_NODES,
    INTS_OR_MULTIPLES,
    SECONDS,
    WATTS,
    WORK,
    Addition,
    Decorator,
    Flags,
    Multiple,
    OptionGroup,
    field_option,
    flags_in_errors,
)
from gridsim.cli.output import check_distinct, check_output, scenario_files
from gridsim.cli.settings import expanded_ranges, parse_change, schedulers_of
from gridsim.cli.site_flags import (
    DEFAULT_NODES,
    changed_count,
    machine_count,
    scaled_sites,
    share_nodes,
    site_platform,
)
from gridsim.errors import ScenarioError
from gridsim.support.random_streams import DEFAULT_SEED

if TYPE_CHECKING:
    from gridsim.model.bag_workloads import LogRecipe
    from gridsim.model.faults import Faults
    from gridsim.model.platform import SiteSpeeds
    from gridsim.model.power import Power
    from gridsim.model.scenario import Scenario
    from gridsim.scheduling.contract import Scheduler

_PLATFORM_FLAGS = ("nodes", "power")
_NETWORK_FLAGS = ("latency", "bandwidth", "interfaces", "task_data")
_BAG_FLAGS = ("interarrival", "tasks_per_node")
_WORKLOAD_FLAGS = ("applications", *_BAG_FLAGS, "task_size", "load", "cores_per_node", "after")
#: Flag -> fields of workloads; the flag sets the first one that the kind of workload has.
_FIELDS = {"applications": ("max_applications", "applications"), "load": ("load", "utilization")}

_NETWORK = "gridsim.model.network:Network"
_BAGS = "gridsim.model.bag_workloads:BagRecipe"

_scenario_options: tuple[Decorator, ...] = (
    click.argument("scenario", required=False, metavar="[SCENARIO.toml]"),
    click.option(
        "--nodes",
        type=INTS_OR_MULTIPLES,
        help="Number of machines; 2x: twice the default, or twice the machines of each site; +10: ten more.  "
        "compare takes several, such as 1x,2x.  [1000; with a job log, as its header states]",
    ),
    click.option(
        "--speeds",
        type=click.Choice(["uniform", "pareto", "equal"]),
        help="Distribution of the machines' speeds.  [uniform]",
    ),
    click.option(
        "--sites",
        metavar="N,N,...",
        help="Machines of each site, such as 64,128 or delft=64,leiden=128; delft,leiden names those of "
        "several logs.  [with several logs, as their headers state, named by their files]",
    ),
    click.option("--hosts", metavar="FILE", help="Draw the machines' speeds from a table of hosts (CSV)."),
    click.option(
        "--power",
        metavar="IDLE,BUSY[,OFF]",
        help="Count the energy of machines of this power in W, such as 95,190; OFF if down.  Of sites: "
        "delft=95,190,leiden=80,250.  [not counted]",
    ),
    click.option(
        "--applications",
        type=INT,
        help="Number of applications; with a job log, its first ones, without --rigid.  [100]",
    ),
    *(field_option(_BAGS, name) for name in _BAG_FLAGS),
    click.option(
        "--task-size",
        help="Work of a task in Mflop: a number, LOW..HIGH, or classes A,B,C.  [65536]",
    ),
    click.option(
        "--load",
        type=FLOAT_OR_MULTIPLE,
        help="Scale the release times to this load (work / capacity); 1.3x: to 1.3 times the default.  [as "
        "drawn, or as in the log]",
    ),
    click.option(
        "--job-log",
        metavar="FILE",
        multiple=True,
        callback=lambda ctx, parameter, values: values[0] if len(values) == 1 else values or None,
        help="Make bags of tasks from a job log (SWF, sacct, .tr ...).  With --rigid, repeat it for each "
        "site.",
    ),
    click.option(
        "--rigid",
        is_flag=True,
        default=None,
        help="Keep the jobs of the log rigid, on machines of equal speed.",
    ),
    click.option(
        "--cores-per-node",
        type=INT_OR_LIST,
        help="Processors of a node: each machine is a node of N processors.  With several logs N,N,...  [1]",
    ),
    click.option(
        "--shared",
        is_flag=False,
        flag_value="",
        metavar="[SITE,...]",
        help="With --cores-per-node: jobs share the nodes, and each of their processors is a core anywhere; "
        "of several logs at all sites, or at these.  --set NAME.exclusive=true gives each job whole nodes.",
    ),
    click.option(
        "--gpus-per-node",
        "gpus",
        type=INTS_OF_NODES,
        help="With --shared: GPUs of a node, which jobs take as the log says (sacct); 180x0,20x4: 180 nodes "
        "without and 20 with 4.  With several logs N,N,...  [not counted]",
    ),
    click.option(
        "--memory-per-node",
        "memory",
        type=BYTES_OF_NODES,
        help='With --shared: memory of a node, such as "192 GiB", of which jobs take what they requested; '
        "entries as of --gpus-per-node.  [not counted]",
    ),
    click.option(
        "--after",
        type=click.Choice(["none", "preceding", "user"]),
        help="With --rigid: release a job of the log after its preceding jobs, or after the previous job of "
        "its user.  [none]",
    ),
    *(field_option(_NETWORK, name) for name in _NETWORK_FLAGS),
    click.option("--seed", type=INT, help=f"Random seed of platform, workload and run.  [{DEFAULT_SEED}]"),
    click.option(
        "--change",
        "changes",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set any key of the scenario file, such as workload.end=86400; repeatable.",
    ),
    click.option(
        "--import",
        "imports",
        metavar="module:Class",
        multiple=True,
        help="Import this class, a kind of your own that the scenario file names; repeatable.",
    ),
)
_fault_options: tuple[Decorator, ...] = (
    click.option("--availability", metavar="FILE", help="Trace of the machines' up intervals (avt, FTA)."),
    click.option("--failures", type=SECONDS, help="Mean time to failure of a machine.  [no failures]"),
    click.option(
        "--down", type=SECONDS, help="Mean time to recovery of a failed machine.  [0, with --failures]"
    ),
)
#: The options that specify a scenario: with and without those for the failures of machines.
scenario_options = OptionGroup("scenario_flags", *_scenario_options, *_fault_options)
faultless_scenario_options = OptionGroup("scenario_flags", *_scenario_options)


def input_files(flags: Flags) -> dict[str, str | None]:
    """Return flag -> the input file that it names."""
    flag_of = {"scenario": "SCENARIO", "hosts": "--hosts", "job_log": "--job-log"}
    flag_of["availability"] = "--availability"
    files = {flag: flags.get(name) for name, flag in flag_of.items()}
    if isinstance(logs := files["--job-log"], tuple):
        del files["--job-log"]
        files |= {f"--job-log {k}": log for k, log in enumerate(logs)}
    return files


def scenario_of(flags: Flags) -> Scenario:
    """Return the scenario of the file, or the default one, with the changes of the flags.

    Numbers of machines that come from logs are entered in `flags`, so that a further call does not print
    them again.
    """
    import dataclasses

    from gridsim.model.platform import Platform
    from gridsim.model.workload import Workload
    from gridsim.support.arguments import integer

    logs = flags["job_log"] if isinstance(flags.get("job_log"), tuple) else ()
    if isinstance(flags.get("nodes"), tuple):
        raise ScenarioError(
            "--nodes must be one number, except for gridsim compare without --replicates; gridsim sweep has "
            "several of any entry"
        )
    sites = site_platform(flags, logs)
    changes = dict(map(parse_change, flags.get("changes", ())))
    if "job_log" in flags and not sites and "scenario" not in flags:
        _count_machines(flags, changes)
    values = dict(flags)
    is_rigid = values.pop("rigid", False)
    _check_exclusions(values, is_rigid=is_rigid, has_logs=bool(logs))
    if "seed" in values:
        integer("--seed", values["seed"])
    base = _base_scenario(flags)
    load = values.pop("load") if isinstance(values.get("load"), Multiple) else None
    platform = _platform_recipe(base, sites, values, is_rigid=is_rigid, has_logs=bool(logs))
    workload = _workload_recipe(base, logs, values, is_rigid=is_rigid)
    network = _with_flags("network", base.network, values, _NETWORK_FLAGS)
    run_seed = values.get("seed", base.seed)
    scenario = dataclasses.replace(
        base,
        platform=Platform(platform),
        workload=Workload(workload),
        network=network,
        seed=run_seed,
        faults=_faults(flags, run_seed) or base.faults,
    )
    scenario = _apply_changes(scenario, changes) if changes else scenario
    return scenario if load is None else _with_load(scenario, load)


def _apply_changes(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario with the entries of --change; an error says how values of the shell are written."""
    try:
        return scenario.replaced(changes)
    except ScenarioError as error:
        for key, value in changes.items():
            if str(error).startswith(f"{key} must be a list, got") and not isinstance(value, (list, dict)):
                return _apply_changes(scenario, {**changes, key: expanded_ranges(value) or [value]})
            if str(error).startswith(f"{key} must be a number, got a list") and len(value) == 2:
                number = ".".join(map(str, value))
                raise ScenarioError(f"{error}; a fraction has a point, such as {key}={number}") from error
        raise


def _count_machines(flags: Flags, changes: Mapping[str, Any]) -> None:
    """Enter the number of machines of a job log in `flags`, unless --nodes is a number."""
    from gridsim.support.arguments import text

    change = flags.get("nodes")
    if change is not None and not isinstance(change, Multiple | Addition):
        return
    is_rigid = flags.get("rigid", False)
    flags["nodes"] = machine_count(
        text("--job-log", flags["job_log"]),
        _cores_per_node(flags, changes) if is_rigid else 1,
        is_rigid=is_rigid,
        is_shared="shared" in flags,
        change=change,
    )


def _cores_per_node(flags: Flags, changes: Mapping[str, Any]) -> int:
    """Return the processors of a node of a single log."""
    from gridsim.support.arguments import integer

    key = "workload.cores_per_node"
    if key in changes:
        return integer(f"--change {key}", changes[key], low=1)
    count = flags.get("cores_per_node", 1)
    if isinstance(count, tuple):
        text = ",".join(map(str, count))
        raise ScenarioError(
            f"--cores-per-node must be one number unless there are several --job-log, got {text}"
        )
    return integer("--cores-per-node", count, low=1)


def _check_exclusions(values: Flags, *, is_rigid: bool, has_logs: bool) -> None:
    """Raise ScenarioError if flags of the speeds of machines, or of rigid jobs, exclude each other."""
    if "hosts" in values and "speeds" in values:
        raise ScenarioError("--hosts and --speeds exclude each other")
    if has_logs and not is_rigid:
        raise ScenarioError("several --job-log require --rigid: the logs of sites have rigid jobs")
    for flag in ("hosts", "speeds"):
        if is_rigid and values.get(flag, "equal") != "equal":
            raise ScenarioError(f"--rigid and --{flag} exclude each other: rigid jobs require equal machines")


def _base_scenario(flags: Flags) -> Scenario:
    """Return the scenario of the file, or the default one."""
    from gridsim.model.scenario import Scenario
    from gridsim.support.arguments import text

    if "scenario" not in flags:
        return default_scenario(flags.get("seed", DEFAULT_SEED))
    _check_not_job_log(flags["scenario"])
    file = Path(text("SCENARIO.toml", flags["scenario"]))
    return Scenario.from_toml(file, imports=flags.get("imports", ()))


def _platform_recipe(
    base: Scenario, sites: SiteSpeeds | None, values: Flags, *, is_rigid: bool, has_logs: bool
) -> Any:
    """Return the recipe of the platform with the changes of the flags.

    In `values`, --nodes then is a number or missing, --power is a `Power`, and --cores-per-node is that of
    the workload.

    Parameters
    ----------
    base
        The scenario that the flags change.
    sites
        The platform of several sites that flags specify, or None.
    """
    from gridsim.model.platform import (
        EqualSpeeds,
        HostSpeedTable,
        ParetoSpeeds,
        Platform,
        SiteSpeeds,
        UniformSpeeds,
    )
    from gridsim.support.arguments import text

    recipe: Any = base.platform.recipe
    if isinstance(change := values.get("nodes"), Multiple | Addition):
        if isinstance(recipe, SiteSpeeds):
            recipe = scaled_sites(recipe, values.pop("nodes"))
        else:
            values["nodes"] = changed_count(change, base.platform.nodes)
    speeds, seed = values.get("speeds"), getattr(recipe, "seed", base.seed)
    if "hosts" in values:
        path = text("--hosts", values["hosts"])
        recipe = HostSpeedTable(path=path, nodes=base.platform.nodes, seed=seed)
    elif speeds in ("uniform", "pareto"):
        kind = UniformSpeeds if speeds == "uniform" else ParetoSpeeds
        recipe = kind(nodes=base.platform.nodes, seed=seed)
    if sites is not None:
        recipe = sites
    elif (is_rigid or speeds == "equal") and not isinstance(recipe, EqualSpeeds | SiteSpeeds):
        recipe = EqualSpeeds(nodes=base.platform.nodes)
    if "power" in values:
        names = Platform(recipe).site_names
        values["power"] = _parse_power(values["power"], base.platform.recipe.power, names)
    recipe = _with_flags("platform", recipe, values, _PLATFORM_FLAGS)
    if "shared" in values:
        return share_nodes(recipe, values, is_rigid=is_rigid, has_logs=has_logs)
    if resources := {"gpus", "memory"} & set(values):
        raise ScenarioError(f"--{min(resources)}-per-node requires --shared")
    return recipe


def _workload_recipe(base: Scenario, logs: Sequence[str], values: Flags, *, is_rigid: bool) -> Any:
    """Return the recipe of the workload with the changes of the flags.

    Parameters
    ----------
    base
        The scenario that the flags change.
    logs
        The files of --job-log if there are several.
    """
    from gridsim.model.bag_workloads import LogRecipe
    from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
    from gridsim.support.arguments import text

    recipe: Any = base.workload.recipe
    seed = getattr(recipe, "seed", base.seed)
    if logs:
        recipe = SiteLogsRecipe(paths=tuple(text("--job-log", path) for path in logs), seed=seed)
    elif "job_log" in values:
        recipe = LogRecipe(path=text("--job-log", values["job_log"]), seed=seed)
    if is_rigid and isinstance(recipe, LogRecipe):
        _check_selection(recipe)
        recipe = JobLogRecipe(path=recipe.path, seed=recipe.seed)
    elif is_rigid and not logs:
        raise ScenarioError("--rigid requires a job log: --job-log, or a scenario whose workload is a log")
    if "task_size" in values:
        values = {**values, "task_size": _parse_task_size(values["task_size"])}
    return _with_flags("workload", recipe, values, _WORKLOAD_FLAGS)


def _with_load(scenario: Scenario, factor: Multiple) -> Scenario:
    """Return the scenario with releases scaled to `factor` times its load."""
    import dataclasses

    from gridsim.model.workload import Workload
    from gridsim.results.metrics.formulas import offered_load

    load = offered_load(scenario.workload.realize(scenario.platform), scenario.platform)
    if load == math.inf:
        raise ScenarioError(f"--load {factor:g}x requires applications or jobs released at different times")
    recipe = _with_flags("workload", scenario.workload.recipe, {"load": factor * load}, ("load",))
    return dataclasses.replace(scenario, workload=Workload(recipe))


def _check_not_job_log(file: str) -> None:
    """Raise ScenarioError if the scenario file is named like a job log."""
    from gridsim.traces import format_of_name

    if (format := format_of_name(file)) in ("swf", "gwf", "tr"):
        raise ScenarioError(
            f"SCENARIO.toml must be a scenario, got a job log ({format}): use --job-log {file}"
        )


def _check_selection(log: LogRecipe) -> None:
    """Raise ScenarioError if `log` selects jobs by rules that only bags of tasks support."""
    for name, default in (("max_applications", None), ("skip", 0), ("min_tasks", 1)):
        if (value := getattr(log, name)) != default:
            raise ScenarioError(
                f"--rigid does not support workload.{name} = {value}; to select jobs, use workload.start and "
                "workload.end (s) of a workload of kind 'job-log'"
            )


def _faults(flags: Flags, seed: int) -> Faults | None:
    """Return the failures that the flags specify; None without such flags."""
    from gridsim.model.faults import Faults
    from gridsim.support.arguments import text

    trace, up, down = (flags.get(name) for name in ("availability", "failures", "down"))
    if trace is not None and up is not None:
        raise ScenarioError("--availability and --failures exclude each other")
    if down is not None and up is None:
        raise ScenarioError("--down requires --failures")
    if trace is not None:
        return Faults.trace(text("--availability", trace), seed)
    if up is None:
        return None
    with flags_in_errors({"faults.mean": "--failures", "faults.up": "--failures", "faults.down": "--down"}):
        return Faults.exponential(up, down, seed) if down else Faults.poisson(up, seed)


def default_scenario(seed: int = DEFAULT_SEED) -> Scenario:
    """Return the scenario of the fair-tree papers: 100 bags of about 10,000 tasks on 1000 machines."""
    from gridsim.model.platform import Platform
    from gridsim.model.scenario import Scenario
    from gridsim.model.workload import Workload

    workload = Workload.bags(applications=100, interarrival=10.0, task_size=65536.0, seed=seed)
    return Scenario(Platform.desktop_grid(DEFAULT_NODES, seed), workload, seed=seed)


def _with_flags(table: str, recipe: Any, values: Flags, names: tuple[str, ...]) -> Any:
    """Return `recipe` with the values of the flags in `names` that are set, and of --seed if it has a seed.

    Raises
    ------
    ScenarioError
        If the kind of the recipe has no field for a flag.
    """
    import msgspec

    fields, changes, flag_of = recipe.__struct_fields__, {}, {}
    for name in set(names) & set(values):
        field = next((field for field in _FIELDS.get(name, (name,)) if field in fields), None)
        if field is None:
            kind, flag = recipe.__struct_config__.tag, "--" + name.replace("_", "-")
            hint = ""
            if kind == "job-log" and name == "applications":
                hint = "; to drop jobs, use --change workload.end=SECONDS or workload.max_nodes=MACHINES"
            elif name == "load" and "release" in fields:
                hint = ", which lists its releases: for 1.3 times the load, divide them by 1.3"
            elif name == "nodes" and kind == "list":
                hint = ", which lists its machines: edit its speeds in the file"
            elif kind == "site-logs" and name == "load":
                hint = ", whose logs keep their releases; --nodes 0.8x has fewer machines"
            raise ScenarioError(f"{flag} does not apply to a {table} of kind {kind!r}{hint}")
        changes[field], flag_of[f"{table}.{field}"] = values[name], "--" + name.replace("_", "-")
    if "seed" in values and "seed" in fields:
        changes["seed"] = values["seed"]
    if "tasks_per_node" in changes and "tasks" in fields:
        changes["tasks"] = None  # a fixed number of tasks would override the flag
    with flags_in_errors(flag_of):
        return msgspec.structs.replace(recipe, **changes)


def _parse_power(text: str, earlier: Power | None, sites: Sequence[str]) -> Power:
    """Return the power that --power states, with the carbon intensity of the scenario file.

    Parameters
    ----------
    sites
        Names of the sites; empty for a platform without sites.
    """
    from gridsim.model.power import Power

    watts_of: dict[str, list[float]] = {}
    name = ""
    for part in text.split(","):
        site, equals, number = part.rpartition("=")
        if equals:
            name = site.strip()
            if name in watts_of:
                raise ScenarioError(f"--power must have each site once, got {name} twice")
        try:
            watts = WATTS.convert(number.strip(), None, None)
        except click.BadParameter:
            raise ScenarioError(f"--power must be numbers in W, such as 95,190, got {text!r}") from None
        watts_of.setdefault(name, []).append(watts)
    if any(not 2 <= len(watts) <= 3 for watts in watts_of.values()):
        raise ScenarioError(
            f"--power must be IDLE,BUSY[,OFF], or NAME=IDLE,BUSY[,OFF] of each site, got {text!r}"
        )
    if any(watts[1] < watts[0] for watts in watts_of.values()):
        raise ScenarioError(f"--power must have a BUSY of at least IDLE, got {text!r}")
    power: dict[str, Any] = {}
    for k, field in enumerate(("idle", "busy", "off")):
        power[field] = {site: watts[k] if k < len(watts) else 0.0 for site, watts in watts_of.items()}
    if [*watts_of] == [""]:
        power = {field: values[""] for field, values in power.items()}
    elif watts_of.keys() != set(sites):
        expected = f"the sites {', '.join(sites)}" if sites else "no sites, since the platform has none"
        raise ScenarioError(f"--power must name {expected}, got {text!r}")
    else:
        power = {field: [values[site] for site in sites] for field, values in power.items()}
    carbon = None if earlier is None else earlier.carbon
    with flags_in_errors({f"platform.power.{name}": "--power" for name in ("idle", "busy", "off")}):
        return Power(carbon=carbon, **power)


def _parse_task_size(value: Any) -> Any:
    from gridsim.model.distributions import Range

    if not isinstance(value, str):
        return value
    try:
        if ".." in value:
            low, _, high = value.partition("..")
            return Range(_parse_work(low), _parse_work(high))
        sizes = tuple(_parse_work(part) for part in value.split(","))
    except (ValueError, click.BadParameter):
        raise ScenarioError(f"--task-size must be a number, LOW..HIGH or A,B,C, got {value!r}") from None
    return sizes[0] if len(sizes) == 1 else sizes


def _parse_work(part: str) -> float:
    return WORK.convert(part.strip(), None, None)


def prepare(
    names: list[str],
    flags: Flags,
    settings: Sequence[str],
    outputs: Sequence[tuple[str, str | None]],
) -> tuple[Scenario, dict[str, Scheduler], Callable[[str | None], Scenario]]:
    """Return the scenario, the schedulers and a function that saves the scenario.

    Input and output files are checked here, before a run.

    Parameters
    ----------
    names
        Names of the schedulers, as `gridsim.scheduling.registry.named_scheduler` takes them.
    flags
        The values of `scenario_options`.
    settings
        The values of ``--set``.
    outputs
        Pairs of a flag and the output file that it names, or None.

    Returns
    -------
    tuple
        The function writes the scenario, with the parameters of the schedulers, to a file, and returns it.
        Call it after the run, so that only scenarios that can be run are saved.
    """
    for flag, path in outputs:
        if path is not None:
            check_output(flag, path)
    check_distinct(input_files(flags).items(), outputs)
    scenario = scenario_of(flags)
    check_distinct(scenario_files(scenario.files), outputs)
    schedulers, parameters = schedulers_of(names, settings, scenario.schedulers)

    def save_scenario(file: str | None) -> Scenario:
        import dataclasses

        completed = dataclasses.replace(scenario, schedulers=parameters)
        if file is not None:
            completed.save(file)
        return completed

    return scenario, schedulers, save_scenario
