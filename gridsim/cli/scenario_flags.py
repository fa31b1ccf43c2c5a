"""Flags and files that specify the scenario and the schedulers, shared by several commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import check_distinct, check_output, scenario_files
from gridsim.cli.quantities import BYTES, FLOAT, INT, RATE, SECONDS, WORK
from gridsim.errors import ScenarioError, printable
from gridsim.support.random_streams import DEFAULT_SEED

if TYPE_CHECKING:
    from gridsim.model.bag_workloads import LogRecipe
    from gridsim.model.faults import Faults
    from gridsim.model.scenario import Scenario
    from gridsim.scheduling.contract import Scheduler
    from gridsim.simulation.simulate import Record, Recording

Flags = dict[str, Any]

_PLATFORM_FLAGS = ("nodes",)
_NETWORK_FLAGS = ("latency", "bandwidth", "interfaces", "task_data")
_WORKLOAD_FLAGS = ("applications", "interarrival", "tasks_per_node", "task_size", "load")
#: Flag -> fields of workloads; the flag sets the first one that the kind of workload has.
_FIELDS = {"applications": ("max_applications", "applications"), "load": ("load", "utilization")}
#: Number of machines of the default scenario.
_NODES = 1000


#: Option of commands that repeat the runs described in a file.
import_option = click.option(
    "--import",
    "imports",
    metavar="module:function",
    multiple=True,
    help="Allow parameters in the file to import this code; repeatable.  [nothing is imported]",
)


#: Option of commands that run schedulers.
settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME.PARAM=VALUE",
    help="Set a parameter of a scheduler; repeatable.",
)

#: Option of commands whose results can be reported.
report_option = click.option(
    "--report", metavar="FILE", help="Also write a report: one HTML file that works offline."
)


def complete_schedulers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the completions of the last name in a comma-separated list of schedulers, for the shell."""
    from gridsim.scheduling.registry import registered

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in registered() if name.startswith(last)]


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument SCENARIO.toml and the options that change the scenario to a command."""
    options = [
        click.argument("scenario", required=False, metavar="[SCENARIO.toml]"),
        click.option(
            "--nodes", type=INT, help="Number of machines.  [1000; with a job log, as its header states]"
        ),
        click.option(
            "--speeds",
            type=click.Choice(["uniform", "pareto", "equal"]),
            help="Distribution of the machines' speeds.  [uniform]",
        ),
        click.option(
            "--hosts", metavar="FILE", help="Draw the machines' speeds from a table of hosts (CSV)."
        ),
        click.option(
            "--applications",
            type=INT,
            help="Number of applications; with a job log, its first ones.  [100]",
        ),
        click.option("--interarrival", type=SECONDS, help="Mean time between two releases.  [10]"),
        click.option("--tasks-per-node", type=FLOAT, help="Mean tasks per application and machine.  [10]"),
        click.option(
            "--task-size",
            help="Work of a task in Mflop: a number, LOW..HIGH, or classes A,B,C.  [65536]",
        ),
        click.option(
            "--load",
            type=FLOAT,
            help="Scale the release times to this load (work / capacity).  [as drawn, or as in the log]",
        ),
        click.option("--job-log", metavar="FILE", help="Make bags of tasks from a job log (SWF, GWF, .tr)."),
        click.option(
            "--rigid",
            is_flag=True,
            default=None,
            help="Keep the jobs of the log rigid, on machines of equal speed.",
        ),
        click.option(
            "--latency", type=SECONDS, help='Latency of a message, such as 0.05 or "50 ms".  [0.05]'
        ),
        click.option(
            "--bandwidth", type=RATE, help="Bandwidth of a machine's link in each direction.  [125000]"
        ),
        click.option(
            "--interfaces",
            type=click.Choice(["fifo", "equal"]),
            help="Sharing of a machine's link: one message after another, or equal shares.  [fifo]",
        ),
        click.option(
            "--task-data",
            type=BYTES,
            help="Input data that a task fetches, counted separately from messages.  [0]",
        ),
        click.option(
            "--seed", type=INT, help=f"Random seed of platform, workload and run.  [{DEFAULT_SEED}]"
        ),
        click.option(
            "--change",
            "changes",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set any key of the scenario file, such as workload.end=86400; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `run` and `compare` share, including those of the scenario, to a command."""
    options = [
        click.option(
            "--availability", metavar="FILE", help="Trace of the machines' up intervals (avt, FTA)."
        ),
        click.option("--failures", type=SECONDS, help="Mean time to failure of a machine.  [no failures]"),
        click.option(
            "--down", type=SECONDS, help="Mean time to recovery of a failed machine.  [0, with --failures]"
        ),
        settings_option,
        click.option(
            "--bound",
            type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
            default="best",
            help="Lower bound of the max stretch to compare with.  [best: discrete if affordable]",
        ),
        click.option(
            "--out",
            metavar="PATH",
            help="Save the results; run: a file, or a folder for NAME.npz; compare: a folder.",
        ),
        report_option,
        click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML."),
        click.option(
            "--threads",
            type=INT,
            default=1,
            help="Number of threads of compiled kernels; results do not depend on it.  [1]",
        ),
        click.option("--record", is_flag=True, help="Also save the schedule, for gridsim validate."),
        click.option("--decisions", is_flag=True, help="Also save the decisions, for gridsim why."),
        click.option("--messages", is_flag=True, help="Also save a log of all messages."),
        click.option(
            "--time-limit", type=SECONDS, help="Simulated time after which a run ends with an error."
        ),
        click.option(
            "--progress/--no-progress",
            default=None,
            help="Show a progress bar (default: on a terminal, without --json).",
        ),
        click.option("--verbose", is_flag=True, help="Show parameters, reported facts and more metrics."),
        click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return scenario_options(command)


def records(flags: Flags, *destinations: str | None) -> Record:
    """Return the argument `record` of `simulate` for --record, --decisions, --messages and --events.

    Parameters
    ----------
    destinations
        Files and folders in which records are saved, or None.

    Raises
    ------
    ScenarioError
        If a flag is set and all destinations are None.
    """
    recordings: dict[str, Recording] = {
        "record": "schedule",
        "decisions": "decisions",
        "messages": "messages",
        "events": "events",
    }
    selected = [flag for flag in recordings if flags.get(flag)]
    if selected and all(destination is None for destination in destinations):
        raise ScenarioError(f"--{selected[0]} requires --out")
    return tuple(recordings[flag] for flag in selected)


def input_files(flags: Flags) -> dict[str, str | None]:
    """Return flag -> the input file that it names."""
    files = {"SCENARIO": flags["scenario"], "--hosts": flags["hosts"], "--job-log": flags["job_log"]}
    return files | {"--availability": flags.get("availability")}


def scenario_of(flags: Flags) -> Scenario:
    """Return the scenario of the file, or the default one, with the changes of the flags."""
    import dataclasses

    from gridsim.model.bag_workloads import LogRecipe
    from gridsim.model.platform import EqualSpeeds, HostSpeedTable, ParetoSpeeds, Platform, UniformSpeeds
    from gridsim.model.rigid_workloads import JobLogRecipe
    from gridsim.model.scenario import Scenario
    from gridsim.model.workload import Workload
    from gridsim.support.arguments import integer, text

    if flags["scenario"] is None and flags["nodes"] is None and flags["job_log"] is not None:
        flags["nodes"] = _machine_count(text("--job-log", flags["job_log"]))  # later calls need it, too
    values = {key: value for key, value in flags.items() if value is not None}
    if "hosts" in values and "speeds" in values:
        raise ScenarioError("--hosts and --speeds exclude each other")
    rigid = values.pop("rigid", False)
    for flag in ("hosts", "speeds"):
        if rigid and values.get(flag, "equal") != "equal":
            raise ScenarioError(f"--rigid and --{flag} exclude each other: rigid jobs require equal machines")
    if "seed" in values:
        integer("--seed", values["seed"])
    if flags["scenario"] is not None:
        _check_not_job_log(flags["scenario"])
        base = Scenario.from_toml(Path(text("SCENARIO.toml", flags["scenario"])))
    else:
        base = default_scenario(values.get("seed", DEFAULT_SEED))
    if "task_size" in values:
        values["task_size"] = _parse_task_size(values["task_size"])
    seed = {"seed": values["seed"]} if "seed" in values else {}

    platform: Any = base.platform.recipe
    if {"hosts", "speeds"} & set(values):
        common: Flags = {"nodes": base.platform.nodes, "seed": getattr(platform, "seed", base.seed)}
        if "hosts" in values:
            platform = HostSpeedTable(path=text("--hosts", values["hosts"]), **common)
        elif values["speeds"] != "equal":
            platform = (UniformSpeeds if values["speeds"] == "uniform" else ParetoSpeeds)(**common)
    if (rigid or values.get("speeds") == "equal") and not isinstance(platform, EqualSpeeds):
        platform = EqualSpeeds(nodes=base.platform.nodes)
    platform = _with_flags("platform", platform, values, _PLATFORM_FLAGS, seed)
    workload: Any = base.workload.recipe
    if "job_log" in values:
        path = text("--job-log", values["job_log"])
        workload = LogRecipe(path=path, seed=getattr(workload, "seed", base.seed))
    if rigid and isinstance(workload, LogRecipe):
        _check_selection(workload)
        workload = JobLogRecipe(path=workload.path, seed=workload.seed)
    elif rigid:
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
    return scenario.replaced(dict(map(_parse_change, flags["changes"]))) if flags["changes"] else scenario


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


def _machine_count(log: str) -> int:
    """Return the number of machines in the header of a job log, else the default; print which one is used."""
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import MAX_MACHINES, stated_machines

    header = read_header(log)
    if header is None:
        return _NODES
    header_field = stated_machines(header)
    if header_field is None or not 1 <= header_field[1] <= MAX_MACHINES:
        count = _NODES
        text = f"{count:,} machines by default, since the header of {log} has no MaxProcs or MaxNodes"
    else:
        key, count = header_field
        text = f"{count:,} machines, the {key} of {log}"
    click.echo(f"gridsim: {printable(text)}; --nodes sets another number", err=True)
    return count


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
    return Scenario(Platform.desktop_grid(_NODES, seed), workload, seed=seed)


def _with_flags(table: str, recipe: Any, values: Flags, names: tuple[str, ...], seed: Flags) -> Any:
    """Return `recipe` with the values of those flags in `names` that are set.

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
            raise ScenarioError(f"{flag} does not apply to a {table} of kind {kind!r}{hint}")
        changes[field], flag_of[f"{table}.{field}"] = values[name], "--" + name.replace("_", "-")
    changes |= {name: value for name, value in seed.items() if name in fields}
    if "tasks_per_node" in changes and "tasks" in fields:
        changes["tasks"] = None  # a fixed number of tasks would override the flag
    with flags_in_errors(flag_of):
        return msgspec.structs.replace(recipe, **changes)


@contextmanager
def flags_in_errors(flag_of: Mapping[str, str]) -> Iterator[None]:
    """Replace the path of a key at the start of an error by the flag that set it."""
    try:
        yield
    except ScenarioError as error:
        path = re.match(r"[\w.]*?(?=\[| |\.low |\.high )", str(error))
        if path is None or path[0] not in flag_of:
            raise
        raise ScenarioError(flag_of[path[0]] + str(error)[path.end() :]) from error


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
    """Return the three parts of NAME.PARAM=VALUE; VALUE is TOML, a list without brackets, or plain text."""
    target, equals, value = setting.partition("=")
    name, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and name and parameter):
        raise ScenarioError(f"--set must be NAME.PARAM=VALUE, got {setting!r}")
    return name, parameter, _parse_value(value)


def _parse_change(change: str) -> tuple[str, Any]:
    key, equals, value = change.partition("=")
    if not (equals and key.strip()):
        raise ScenarioError(f"--change must be KEY=VALUE, such as workload.end=86400, got {change!r}")
    return key.strip(), _parse_value(value)


def _parse_value(value: str) -> Any:
    import tomllib

    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            document = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # not TOML, or a number with too many digits for Python
            continue
        if len(document) == 1:  # a value with line breaks could define further keys
            return document["value"]
    return value.strip()


def prepare(
    names: list[str], flags: Flags, outputs: list[str], checkpoint: str | None = None
) -> tuple[Scenario, dict[str, Scheduler], Callable[[], Scenario]]:
    """Return the scenario, the schedulers and a function that saves the scenario.

    Input and output files are checked here, before a run.  The function returns the scenario with the
    parameters of the schedulers, and writes it to the file of --save-scenario.  Call it after the run, so
    that only scenarios that can be run are saved.
    """
    import dataclasses

    import msgspec

    from gridsim.scheduling.registry import named_scheduler
    from gridsim.support.arguments import hint

    scenario_file = flags["save_scenario"]
    files: list[tuple[str, str | None]] = [("--out", path) for path in outputs]
    files += [("--save-scenario", scenario_file), ("--checkpoint", checkpoint)]
    for flag, path in files:
        if path is not None:
            check_output(flag, path)
    files += [("--figure", flags.get("figure")), ("--report", flags["report"])]
    check_distinct(input_files(flags).items(), files)
    scenario = scenario_of(flags)
    check_distinct(scenario_files(scenario.files), files)
    settings: dict[str, dict[str, Any]] = {name: dict(scenario.schedulers.get(name, {})) for name in names}
    for setting in flags["settings"]:
        name, parameter, value = parse_setting(setting)
        if name not in settings:
            choices = f"{', '.join(names)}, got {name!r}{hint(names, name)}"
            raise ScenarioError(f"--set {setting}: the scheduler must be one of {choices}")
        settings[name][parameter] = value
    schedulers = {name: named_scheduler(name, settings[name]) for name in names}
    for name, table in scenario.schedulers.items():
        named_scheduler(name, table)  # tables of schedulers that do not run are checked as well

    def save_scenario() -> Scenario:
        # save parameters as the checked schedulers have them: plain values of the declared types
        parameters = {name: dict(table) for name, table in scenario.schedulers.items()}
        for name in names:
            if settings[name] and ":" not in name:
                values = msgspec.to_builtins(schedulers[name])
                parameters[name] = {key: values[key] for key in settings[name] if values[key] is not None}
        completed = dataclasses.replace(scenario, schedulers=parameters)
        if scenario_file is not None:
            completed.save(scenario_file)
        return completed

    return scenario, schedulers, save_scenario
