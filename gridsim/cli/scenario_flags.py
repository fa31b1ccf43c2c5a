"""Flags and files that specify the scenario, the schedulers and the options of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

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
from gridsim.cli.result_args import parse_nodes
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
    from gridsim.model.power import Power
    from gridsim.model.scenario import Scenario
    from gridsim.scheduling.contract import Scheduler
    from gridsim.scheduling.nodes.observe import Observe

_PLATFORM_FLAGS = ("nodes", "power")
_NETWORK_FLAGS = ("latency", "bandwidth", "interfaces", "task_data")
_BAG_FLAGS = ("interarrival", "tasks_per_node")
_WORKLOAD_FLAGS = ("applications", *_BAG_FLAGS, "task_size", "load", "cores_per_node", "after")
#: Flag -> fields of workloads; the flag sets the first one that the kind of workload has.
_FIELDS = {"applications": ("max_applications", "applications"), "load": ("load", "utilization")}

_OPTIONS = "gridsim.simulation.options:Options"
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

_threads_option = field_option(_OPTIONS, "threads")
#: The number of threads of a continued run.
resumed_threads_option = field_option(_OPTIONS, "threads", default_text="as in the run")
time_limit_option = field_option(_OPTIONS, "time_limit")
_shared_run_options: tuple[Decorator, ...] = (
    _threads_option,
    time_limit_option,
    click.option("--record", "schedule", is_flag=True, help="Also save the schedule, for gridsim validate."),
    click.option("--decisions", is_flag=True, help="Also save the decisions, for gridsim why."),
    click.option("--messages", is_flag=True, help="Also save a log of all messages."),
)
#: The options of a run that `compare` supports.
shared_run_options = OptionGroup("run_flags", *_shared_run_options)
#: The options of a run.
run_options = OptionGroup(
    "run_flags",
    *_shared_run_options,
    click.option("--events", is_flag=True, help="Also save the handler calls of nodes, for gridsim diary."),
    field_option(_OPTIONS, "nodes", "--node-form"),
    field_option(_OPTIONS, "processes"),
    *(field_option(_OPTIONS, f"{name}_limit", metavar="N") for name in ("decisions", "messages", "diary")),
    click.option("--record-nodes", metavar="A,B,C", help="Nodes for --events.  [all]"),
    click.option(
        "--observe",
        "columns",
        multiple=True,
        metavar="[NAME=]ATTRIBUTE,...",
        help="Sample attributes of nodes, such as mean or view.work, into the table observed; repeatable.",
    ),
    click.option("--observe-every", type=SECONDS, help="Simulated time between samples, for --observe."),
    click.option("--observe-nodes", metavar="A,B,C", help="Nodes to sample.  [all]"),
)


#: Flag -> the flag of the recording to which it applies.
_RECORDING_OF = {
    "decisions_limit": "decisions",
    "messages_limit": "messages",
    "diary_limit": "events",
    "record_nodes": "events",
}


def run_arguments(flags: Flags, *destinations: str | None) -> Flags:
    """Return the arguments of `simulate` that `run_options` specify.

    Parameters
    ----------
    destinations
        Files and folders in which records are saved, or None.

    Raises
    ------
    ScenarioError
        If a flag has a value that is not allowed, or requires another flag or a destination.
    """
    from gridsim.simulation.options import Options, Recording

    record = tuple(name for name in get_args(Recording) if flags.get(name))
    if record and all(destination is None for destination in destinations):
        raise ScenarioError(f"--{record[0].replace('schedule', 'record')} requires --out")
    for flag, kind in _RECORDING_OF.items():
        if flag in flags and kind not in record:
            raise ScenarioError(f"--{flag.replace('_', '-')} requires --{kind}")
    arguments = {name: flags[name] for name in Options.__struct_fields__ if name in flags}
    arguments["record"] = record
    if (observe := _observation(flags)) is not None:
        arguments["observe"] = observe
    if "node_form" in flags:
        arguments["nodes"] = flags["node_form"]
    if "record_nodes" in flags:
        arguments["record_nodes"] = parse_nodes("--record-nodes", flags["record_nodes"])
    with flags_in_errors({"nodes": "--node-form"} | run_options.flags):
        Options(**arguments)
    return arguments


def _observation(flags: Flags) -> Observe | None:
    """Return the argument `observe` of `simulate`."""
    paths = [path.strip() for text in flags.get("columns", ()) for path in text.split(",")]
    for flag in ("observe_every", "observe_nodes"):
        if flag in flags and not paths:
            raise ScenarioError(f"--{flag.replace('_', '-')} requires --observe")
    if not paths:
        return None
    if "observe_every" not in flags:
        raise ScenarioError("--observe requires --observe-every")
    from gridsim.scheduling.nodes.observe import Observe

    nodes = parse_nodes("--observe-nodes", flags["observe_nodes"]) if "observe_nodes" in flags else None
    return Observe(every=flags["observe_every"], columns=paths, nodes=nodes)


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
    """Return the scenario of the file, or the default one, with the changes of the flags."""
    import dataclasses

    from gridsim.model.bag_workloads import LogRecipe
    from gridsim.model.platform import (
        EqualSpeeds,
        HostSpeedTable,
        ParetoSpeeds,
        Platform,
        SiteSpeeds,
        UniformSpeeds,
    )
    from gridsim.model.rigid_logs import JobLogRecipe, SiteLogsRecipe
    from gridsim.model.scenario import Scenario
    from gridsim.model.workload import Workload
    from gridsim.support.arguments import integer, text

    logs = flags["job_log"] if isinstance(flags.get("job_log"), tuple) else ()
    if isinstance(flags.get("nodes"), tuple):
        raise ScenarioError(
            "--nodes must be one number, except for gridsim compare without --replicates; gridsim sweep has "
            "several of any entry"
        )
    sites = site_platform(flags, logs)
    machines = flags.get("nodes")
    if (
        "job_log" in flags
        and not sites
        and "scenario" not in flags
        and (machines is None or isinstance(machines, Multiple | Addition))
    ):
        changes = dict(map(_parse_change, flags.get("changes", ())))
        procs = changes.get("workload.cores_per_node", flags.get("cores_per_node", 1))
        count = machine_count(
            text("--job-log", flags["job_log"]),
            _cores_per_node(procs) if flags.get("rigid") else 1,
            is_rigid=flags.get("rigid", False),
            is_shared="shared" in flags,
            change=machines,
        )
        flags["nodes"] = count  # later calls need it, too
    values = dict(flags)
    if "hosts" in values and "speeds" in values:
        raise ScenarioError("--hosts and --speeds exclude each other")
    rigid = values.pop("rigid", False)
    if logs and not rigid:
        raise ScenarioError("several --job-log require --rigid: the logs of sites have rigid jobs")
    for flag in ("hosts", "speeds"):
        if rigid and values.get(flag, "equal") != "equal":
            raise ScenarioError(f"--rigid and --{flag} exclude each other: rigid jobs require equal machines")
    if "seed" in values:
        integer("--seed", values["seed"])
    if "scenario" in flags:
        _check_not_job_log(flags["scenario"])
        base = Scenario.from_toml(
            Path(text("SCENARIO.toml", flags["scenario"])), imports=flags.get("imports", ())
        )
    else:
        base = default_scenario(values.get("seed", DEFAULT_SEED))
    platform: Any = base.platform.recipe
    if isinstance(machines := values.get("nodes"), Multiple | Addition):
        if isinstance(platform, SiteSpeeds):
            platform = scaled_sites(platform, values.pop("nodes"))
        else:
            values["nodes"] = changed_count(machines, base.platform.nodes)
    load = values.pop("load") if isinstance(values.get("load"), Multiple) else None
    if "task_size" in values:
        values["task_size"] = _parse_task_size(values["task_size"])
    seed = {"seed": values["seed"]} if "seed" in values else {}

    if {"hosts", "speeds"} & set(values):
        common: Flags = {"nodes": base.platform.nodes, "seed": getattr(platform, "seed", base.seed)}
        if "hosts" in values:
            platform = HostSpeedTable(path=text("--hosts", values["hosts"]), **common)
        elif values["speeds"] != "equal":
            platform = (UniformSpeeds if values["speeds"] == "uniform" else ParetoSpeeds)(**common)
    if sites:
        platform = sites
    elif (rigid or values.get("speeds") == "equal") and not isinstance(platform, EqualSpeeds | SiteSpeeds):
        platform = EqualSpeeds(nodes=base.platform.nodes)
    if "power" in values:
        names = Platform(platform).site_names
        values["power"] = _parse_power(values["power"], base.platform.recipe.power, names)
    platform = _with_flags("platform", platform, values, _PLATFORM_FLAGS, seed)
    if "shared" in values:
        platform = share_nodes(platform, values, is_rigid=rigid, has_logs=bool(logs))
    elif resources := {"gpus", "memory"} & set(values):
        raise ScenarioError(f"--{min(resources)}-per-node requires --shared")
    workload: Any = base.workload.recipe
    if logs:
        paths = tuple(text("--job-log", path) for path in logs)
        workload = SiteLogsRecipe(paths=paths, seed=getattr(workload, "seed", base.seed))
    elif "job_log" in values:
        path = text("--job-log", values["job_log"])
        workload = LogRecipe(path=path, seed=getattr(workload, "seed", base.seed))
    if rigid and isinstance(workload, LogRecipe):
        _check_selection(workload)
        workload = JobLogRecipe(path=workload.path, seed=workload.seed)
    elif rigid and not logs:
        raise ScenarioError("--rigid requires a job log: --job-log, or a scenario whose workload is a log")
    workload = _with_flags("workload", workload, values, _WORKLOAD_FLAGS, seed)
    network = _with_flags("network", base.network, values, _NETWORK_FLAGS, {})
    run_seed = values.get("seed", base.seed)
    scenario = dataclasses.replace(
        base,
        platform=Platform(platform),
        workload=Workload(workload),
        network=network,
        seed=run_seed,
        faults=_faults(flags, run_seed) or base.faults,
    )
    changes = dict(map(_parse_change, flags.get("changes", ())))
    scenario = _apply_changes(scenario, changes) if changes else scenario
    return scenario if load is None else _with_load(scenario, load)


def _apply_changes(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario with the entries of --change; an error says how values of the shell are written."""
    try:
        return scenario.replaced(changes)
    except ScenarioError as error:
        for key, value in changes.items():
            if str(error).startswith(f"{key} must be a list, got") and not isinstance(value, (list, dict)):
                return _apply_changes(scenario, {**changes, key: [value]})
            if str(error).startswith(f"{key} must be a number, got a list") and len(value) == 2:
                number = ".".join(map(str, value))
                raise ScenarioError(f"{error}; a fraction has a point, such as {key}={number}") from error
        raise


def _cores_per_node(count: Any) -> int:
    """Return the number of --cores-per-node for a single log."""
    from gridsim.support.arguments import integer

    if isinstance(count, tuple):
        text = ",".join(map(str, count))
        raise ScenarioError(
            f"--cores-per-node must be one number unless there are several --job-log, got {text}"
        )
    return integer("--cores-per-node", count, low=1)


def _with_load(scenario: Scenario, factor: Multiple) -> Scenario:
    """Return the scenario with releases scaled to `factor` times its load."""
    import dataclasses

    from gridsim.model.workload import Workload
    from gridsim.results.metrics.formulas import offered_load

    load = offered_load(scenario.workload.realize(scenario.platform), scenario.platform)
    if load == math.inf:
        raise ScenarioError(f"--load {factor:g}x requires applications or jobs released at different times")
    recipe = _with_flags("workload", scenario.workload.recipe, {"load": factor * load}, ("load",), {})
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


def _with_flags(table: str, recipe: Any, values: Flags, names: tuple[str, ...], seed: Flags) -> Any:
    """Return `recipe` with the values of the flags in `names` that are set.

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
    changes |= {name: value for name, value in seed.items() if name in fields}
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


def parse_setting(setting: str) -> tuple[str, str, Any]:
    """Return the three parts of NAME.PARAM=VALUE.

    VALUE is TOML, a list without brackets, a table KEY=VALUE,..., or plain text.
    """
    target, equals, value = setting.partition("=")
    name, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and name and parameter):
        raise ScenarioError(f"--set must be NAME.PARAM=VALUE, got {setting!r}")
    return name, parameter, _parse_value(f"--set {target.strip()}", value)


def settings_by_label(
    settings: Sequence[str],
    kinds: Mapping[str, type[Scheduler]],
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the setting, the label of a scheduler, the parameter and its value for each ``--set``.

    The name ``*`` stands for all schedulers that have the parameter.

    Parameters
    ----------
    kinds
        Label -> class of each scheduler.
    aliases
        Further name of a scheduler -> its label.

    Raises
    ------
    ScenarioError
        If a setting cannot be read, or no scheduler has the name or, with ``*``, the parameter.
    """
    from gridsim.support.arguments import hint
    from gridsim.support.parameters import fields_of

    for setting in settings:
        name, parameter, value = parse_setting(setting)
        name = aliases.get(name, name)
        labels = [name] if name in kinds else []
        if name == "*":
            labels = [label for label, kind in kinds.items() if parameter in fields_of(kind)]
            if not labels:
                known = sorted({field for kind in kinds.values() for field in fields_of(kind)})
                raise ScenarioError(
                    f"--set {setting}: * requires a parameter of {', '.join(kinds)}, got {parameter!r}"
                    f"{hint(known, parameter)}"
                )
        if not labels:
            choices = f"{', '.join(kinds)}, got {name!r}{hint(kinds, name)}"
            raise ScenarioError(f"--set {setting}: the scheduler must be one of {choices}")
        for label in labels:
            yield setting, label, parameter, value


def _parse_change(change: str) -> tuple[str, Any]:
    key, equals, value = change.partition("=")
    if not (equals and key.strip()):
        raise ScenarioError(f"--change must be KEY=VALUE, such as workload.end=86400, got {change!r}")
    return key.strip(), _parse_value(f"--change {key.strip()}", value)


def _parse_value(path: str, value: str) -> Any:
    import tomllib

    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            document = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # not TOML, or a number with too many digits for Python
            continue
        if len(document) == 1:  # a value with line breaks could define further keys
            return document["value"]
    if len(bare := value.strip()) > 2 and bare[0] + bare[-1] == "[]" and not set(bare[1:-1]) & set("[]{}\"'"):
        return [_parse_value(path, entry) for entry in bare[1:-1].split(",")]  # names without quotes
    entries = [entry.partition("=") for entry in value.split(",")]
    if all(key.strip() and equals for key, equals, _ in entries) and "\n" not in value:
        keys = [key.strip() for key, _, _ in entries]
        if repeated := [key for key in keys if keys.count(key) > 1]:
            raise ScenarioError(f"{path} must have each key once, got {repeated[0]} several times")
        return {key: _parse_value(path, entry) for key, (_, _, entry) in zip(keys, entries, strict=True)}
    return value.strip()


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
    schedulers, parameters = _schedulers_of(names, settings, scenario.schedulers)

    def save_scenario(file: str | None) -> Scenario:
        import dataclasses

        completed = dataclasses.replace(scenario, schedulers=parameters)
        if file is not None:
            completed.save(file)
        return completed

    return scenario, schedulers, save_scenario


def _schedulers_of(
    names: list[str], settings: Sequence[str], tables: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Scheduler], dict[str, dict[str, Any]]]:
    """Return label -> scheduler, and name -> parameters for the scenario file.

    Parameters
    ----------
    tables
        Name -> parameters in the scenario, which those of ``--set`` override.
    """
    import msgspec

    from gridsim.scheduling.registry import named_scheduler, scheduler_class, split_label

    name_of = {split_label(name)[0]: name for name in names}
    values_by_name = {name: dict(tables.get(name, {})) for name in names}
    kinds = {label: scheduler_class(split_label(name)[1]) for label, name in name_of.items()}
    aliases = {name: label for label, name in name_of.items()}
    for _, label, parameter, value in settings_by_label(settings, kinds, aliases):
        values_by_name[name_of[label]][parameter] = value
    schedulers = {label: named_scheduler(name, values_by_name[name]) for label, name in name_of.items()}
    for name, table in tables.items():
        named_scheduler(name, table)  # tables of schedulers that do not run are checked as well
    parameters = {name: dict(table) for name, table in tables.items()}
    for name, table in values_by_name.items():
        if table and ":" not in name:
            # as the checked schedulers have them: plain values of the declared types
            values = msgspec.to_builtins(schedulers[split_label(name)[0]])
            parameters[name] = {key: values[key] for key in table if values[key] is not None}
    return schedulers, parameters
