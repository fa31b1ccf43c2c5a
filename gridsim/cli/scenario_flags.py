"""Shared by commands: the scenario and the schedulers that flags and files ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridsim.cli.output import check_apart, check_output, of_scenario
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

_PLATFORM = ("nodes",)
_NETWORK = ("latency", "bandwidth", "interfaces", "task_data")
_WORKLOAD = ("applications", "interarrival", "tasks_per_node", "task_size", "load")
#: Flag -> the fields that it sets; the first one that the kind of workload has.
_FIELDS = {"applications": ("max_applications", "applications"), "load": ("load", "utilization")}
#: Machines of the default scenario.
_NODES = 1000


#: For commands that repeat runs described in a file.
import_option = click.option(
    "--import",
    "imports",
    metavar="module:function",
    multiple=True,
    help="Code that parameters in the file may name; repeatable. Without it none is imported.",
)


def complete_schedulers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of schedulers that complete the last one of a list, for the shell."""
    from gridsim.scheduling.registry import registered

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in registered() if name.startswith(last)]


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument SCENARIO.toml and the flags that change the scenario."""
    options = [
        click.argument("scenario", required=False, metavar="[SCENARIO.toml]"),
        click.option("--nodes", type=INT, help="Machines.  [1000; of a job log, as its header states]"),
        click.option(
            "--speeds", type=click.Choice(["uniform", "pareto", "equal"]), help="Speeds.  [uniform]"
        ),
        click.option("--hosts", metavar="FILE", help="Speeds drawn from a table of hosts (CSV)."),
        click.option("--applications", type=INT, help="Applications (of a log: the first so many).  [100]"),
        click.option("--interarrival", type=SECONDS, help="Mean time between releases.  [10]"),
        click.option("--tasks-per-node", type=FLOAT, help="Mean tasks of an application, a machine.  [10]"),
        click.option("--task-size", help="Mflop: a number, LOW..HIGH, or classes A,B,C.  [65536]"),
        click.option(
            "--load", type=FLOAT, help="Scale all releases to this load.  [as drawn, or in the log]"
        ),
        click.option("--job-log", metavar="FILE", help="Bags of tasks made of a job log (SWF, GWF, .tr)."),
        click.option("--rigid", is_flag=True, default=None, help="Keep its jobs rigid, on equal machines."),
        click.option("--latency", type=SECONDS, help='Of a message, such as 0.05 or "50 ms".  [0.05]'),
        click.option("--bandwidth", type=RATE, help="Of a machine, up and down.  [125000]"),
        click.option("--interfaces", type=click.Choice(["fifo", "equal"]), help="Queueing.  [fifo]"),
        click.option("--task-data", type=BYTES, help="That a task fetches, counted apart.  [0]"),
        click.option("--seed", type=INT, help=f"Of platform, workload and run.  [{DEFAULT_SEED}]"),
        click.option(
            "--change",
            "changes",
            multiple=True,
            metavar="KEY=VALUE",
            help="Any key of the scenario file, such as workload.end=86400; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that `run` and `compare` share, with those of the scenario."""
    options = [
        click.option("--availability", metavar="FILE", help="When machines are up: a trace (avt, FTA)."),
        click.option("--failures", type=SECONDS, help="Mean up time of a machine.  [no failures]"),
        click.option("--down", type=SECONDS, help="Mean time until it is up again.  [0, with --failures]"),
        click.option("--set", "settings", multiple=True, metavar="NAME.PARAM=VALUE", help="A parameter."),
        click.option(
            "--bound",
            type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
            default="best",
            help="Lower bound to compare with.  [best: discrete where affordable]",
        ),
        click.option(
            "--out",
            metavar="PATH",
            help="Save the results; run: a file, or a folder for NAME.npz; compare: a folder.",
        ),
        click.option("--report", metavar="FILE", help="Write a report too: HTML that works offline."),
        click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML."),
        click.option("--threads", type=INT, default=1, help="Of a kernel; changes no result.  [1]"),
        click.option("--record", is_flag=True, help="Save the schedule too, for gridsim validate."),
        click.option("--decisions", is_flag=True, help="Save the decisions too, for gridsim why."),
        click.option("--messages", is_flag=True, help="Save a log of all messages too."),
        click.option("--time-limit", type=SECONDS, help="Simulated time after which to give up."),
        click.option(
            "--progress/--no-progress",
            default=None,
            help="Show a bar (default: on a terminal, without --json).",
        ),
        click.option("--verbose", is_flag=True, help="Show parameters, reported facts and more metrics."),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return scenario_options(command)


def recorded(flags: Flags, *places: str | None) -> Record:
    """Return what ``--record``, ``--decisions`` and ``--messages`` ask `simulate` to record.

    Parameters
    ----------
    places
        Where the records may go.  Raises ScenarioError if a flag is set and all places are None.
    """
    wanted: dict[str, Recording] = {"record": "schedule", "decisions": "decisions", "messages": "messages"}
    given = [flag for flag in wanted if flags[flag]]
    if given and all(place is None for place in places):
        raise ScenarioError(f"--{given[0]} needs --out, where that is saved")
    return tuple(wanted[flag] for flag in given)


def inputs(flags: Flags) -> dict[str, str | None]:
    """Return the files that the flags read: flag -> file."""
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
    from gridsim.support.arguments import text, whole

    if flags["scenario"] is None and flags["nodes"] is None and flags["job_log"] is not None:
        flags["nodes"] = _machines_of(text("--job-log", flags["job_log"]))  # for later calls, too
    given = {key: value for key, value in flags.items() if value is not None}
    if "hosts" in given and "speeds" in given:
        raise ScenarioError("--hosts and --speeds exclude each other")
    rigid = given.pop("rigid", False)
    for flag in ("hosts", "speeds"):
        if rigid and given.get(flag, "equal") != "equal":
            raise ScenarioError(f"--rigid and --{flag} exclude each other: rigid jobs need equal machines")
    if "seed" in given:
        whole("--seed", given["seed"])
    if flags["scenario"] is not None:
        _check_no_log(flags["scenario"])
        base = Scenario.from_toml(Path(text("SCENARIO.toml", flags["scenario"])))
    else:
        base = default_scenario(given.get("seed", DEFAULT_SEED))
    if "task_size" in given:
        given["task_size"] = _task_size(given["task_size"])
    seed = {"seed": given["seed"]} if "seed" in given else {}

    platform: Any = base.platform.recipe
    if {"hosts", "speeds"} & set(given):
        shape: Flags = {"nodes": base.platform.nodes, "seed": getattr(platform, "seed", base.seed)}
        if "hosts" in given:
            platform = HostSpeedTable(path=text("--hosts", given["hosts"]), **shape)
        elif given["speeds"] != "equal":
            platform = (UniformSpeeds if given["speeds"] == "uniform" else ParetoSpeeds)(**shape)
    if (rigid or given.get("speeds") == "equal") and not isinstance(platform, EqualSpeeds):
        platform = EqualSpeeds(nodes=base.platform.nodes)
    platform = _changed("platform", platform, given, _PLATFORM, seed)
    workload: Any = base.workload.recipe
    if "job_log" in given:
        path = text("--job-log", given["job_log"])
        workload = LogRecipe(path=path, seed=getattr(workload, "seed", base.seed))
    if rigid and isinstance(workload, LogRecipe):
        _check_same_jobs(workload)
        workload = JobLogRecipe(path=workload.path, seed=workload.seed)
    elif rigid:
        raise ScenarioError("--rigid needs a job log: --job-log, or a scenario whose workload is a log")
    workload = _changed("workload", workload, given, _WORKLOAD, seed)
    network = _changed("network", base.network, given, _NETWORK, {})
    run_seed = given.get("seed", base.seed)
    made = dataclasses.replace(
        base,
        platform=Platform(platform),
        workload=Workload(workload),
        network=network,
        seed=run_seed,
        faults=_faults(flags, run_seed) or base.faults,
    )
    return made.replaced(dict(map(_change_of, flags["changes"]))) if flags["changes"] else made


def _check_no_log(file: str) -> None:
    """Raise ScenarioError if what should be a scenario is named like a job log."""
    from gridsim.traces import format_of_name

    if (format := format_of_name(file)) in ("swf", "gwf", "tr"):
        raise ScenarioError(f"{file}: a job log ({format}) is no scenario: use --job-log {file}")


def _check_same_jobs(log: LogRecipe) -> None:
    """Raise ScenarioError if the bags of `log` are only a part of its jobs."""
    for name, default in (("max_applications", None), ("skip", 0), ("min_tasks", 1)):
        if (value := getattr(log, name)) != default:
            raise ScenarioError(
                f"workload.{name} = {value} is of bags: with --rigid leave it out; workload.start and "
                "workload.end (s) of a workload of kind 'job-log' keep a part of the jobs"
            )


def _machines_of(log: str) -> int:
    """Return the number of machines in the header of a job log, or the default one, and say which."""
    from gridsim.traces.info import read_header
    from gridsim.traces.jobs import MAX_MACHINES, stated_machines

    header = read_header(log)
    if header is None:
        return _NODES
    stated = stated_machines(header)
    if stated is None or not 1 <= stated[1] <= MAX_MACHINES:
        count = _NODES
        said = f"{count:,} machines, as the header of {log} gives no number (MaxProcs, MaxNodes)"
    else:
        key, count = stated
        said = f"{count:,} machines, the {key} of {log}"
    click.echo(f"gridsim: {printable(said)}; --nodes takes another number", err=True)
    return count


def _faults(flags: Flags, seed: int) -> Faults | None:
    """Return the failures that the flags ask for; None if they ask for none."""
    from gridsim.model.faults import Faults
    from gridsim.support.arguments import text

    trace, up, down = (flags.get(name) for name in ("availability", "failures", "down"))
    if trace is not None and up is not None:
        raise ScenarioError("--availability and --failures exclude each other")
    if down is not None and up is None:
        raise ScenarioError("--down needs --failures")
    if trace is not None:
        return Faults.trace(text("--availability", trace), seed)
    if up is None:
        return None
    with blaming({"faults.mean": "--failures", "faults.up": "--failures", "faults.down": "--down"}):
        return Faults.exponential(up, down, seed) if down else Faults.poisson(up, seed)


def default_scenario(seed: int = DEFAULT_SEED) -> Scenario:
    """Return a scenario like the fair-tree papers': 100 bags of about 10,000 tasks on 1000 machines."""
    from gridsim.model.platform import Platform
    from gridsim.model.scenario import Scenario
    from gridsim.model.workload import Workload

    workload = Workload.bags(applications=100, interarrival=10.0, task_size=65536.0, seed=seed)
    return Scenario(Platform.desktop_grid(_NODES, seed), workload, seed=seed)


def _changed(where: str, recipe: Any, given: Flags, names: tuple[str, ...], seed: Flags) -> Any:
    """Return `recipe` with the flags of `names`; ScenarioError for a flag that its kind does not have."""
    import msgspec

    known, changes, flag_of = recipe.__struct_fields__, {}, {}
    for name in set(names) & set(given):
        field = next((field for field in _FIELDS.get(name, (name,)) if field in known), None)
        if field is None:
            kind, flag = recipe.__struct_config__.tag, "--" + name.replace("_", "-")
            rigid = ""
            if kind == "job-log" and name == "applications":
                rigid = "; to leave jobs out, --change workload.end=SECONDS or workload.max_nodes=MACHINES"
            raise ScenarioError(f"{flag} does not apply to a {where} of kind {kind!r}{rigid}")
        changes[field], flag_of[f"{where}.{field}"] = given[name], "--" + name.replace("_", "-")
    changes |= {name: value for name, value in seed.items() if name in known}
    if "tasks_per_node" in changes and "tasks" in known:
        changes["tasks"] = None  # which would override the flag
    with blaming(flag_of):
        return msgspec.structs.replace(recipe, **changes)


@contextmanager
def blaming(flag_of: Mapping[str, str]) -> Iterator[None]:
    """Let errors begin with the flag that the user gave, not with the path of the key that it became."""
    try:
        yield
    except ScenarioError as error:
        path = re.match(r"[\w.]*?(?=\[| |\.low |\.high )", str(error))
        if path is None or path[0] not in flag_of:
            raise
        raise ScenarioError(flag_of[path[0]] + str(error)[path.end() :]) from error


def _task_size(value: Any) -> Any:
    from gridsim.model.distributions import Range

    if not isinstance(value, str):
        return value
    try:
        if ".." in value:
            low, _, high = value.partition("..")
            return Range(_work(low), _work(high))
        sizes = tuple(_work(part) for part in value.split(","))
    except (ValueError, click.BadParameter):
        raise ScenarioError(f"--task-size must be a number, LOW..HIGH or A,B,C, got {value!r}") from None
    return sizes[0] if len(sizes) == 1 else sizes


def _work(part: str) -> float:
    return WORK.convert(part.strip(), None, None)


def setting_of(setting: str) -> tuple[str, str, Any]:
    """Split NAME.PARAM=VALUE; the value is a TOML value, a list without its brackets, or plain text."""
    target, equals, value = setting.partition("=")
    name, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and name and parameter):
        raise ScenarioError(f"--set {setting}: expected NAME.PARAM=VALUE")
    return name, parameter, _value_of(value)


def _change_of(change: str) -> tuple[str, Any]:
    key, equals, value = change.partition("=")
    if not (equals and key.strip()):
        raise ScenarioError(f"--change {change}: expected KEY=VALUE, such as workload.end=86400")
    return key.strip(), _value_of(value)


def _value_of(value: str) -> Any:
    import tomllib

    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            document = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # no TOML, or a number that Python does not read
            continue
        if len(document) == 1:  # not several lines
            return document["value"]
    return value.strip()


def prepare(
    names: list[str], flags: Flags, outputs: list[str], checkpoint: str | None = None
) -> tuple[Scenario, dict[str, Scheduler], Callable[[], Scenario]]:
    """Return the scenario, the schedulers and a function, all checked before anything is run or written.

    The function returns the scenario with the parameters of the schedulers, and saves it if that is wanted.
    Call it after the run: only then is it known that the scenario can be run.
    """
    import dataclasses

    import msgspec

    from gridsim.scheduling.registry import named_scheduler
    from gridsim.support.arguments import hint

    file = flags["save_scenario"]
    written: list[tuple[str, str | None]] = [("--out", path) for path in outputs]
    written += [("--save-scenario", file), ("--checkpoint", checkpoint)]
    for flag, path in written:
        if path is not None:
            check_output(flag, path)
    written += [("--figure", flags.get("figure")), ("--report", flags["report"])]
    check_apart(inputs(flags).items(), written)
    scenario = scenario_of(flags)
    check_apart(of_scenario(scenario.files), written)
    settings: dict[str, dict[str, Any]] = {name: dict(scenario.schedulers.get(name, {})) for name in names}
    for setting in flags["settings"]:
        name, parameter, value = setting_of(setting)
        if name not in settings:
            chosen = f"chosen: {', '.join(names)}{hint(names, name)}"
            raise ScenarioError(f"--set {setting}: no scheduler {name!r} here; {chosen}")
        settings[name][parameter] = value
    schedulers = {name: named_scheduler(name, settings[name]) for name in names}
    for name, table in scenario.schedulers.items():
        named_scheduler(name, table)  # tables of schedulers that are not asked for must be right too

    def keep() -> Scenario:
        # the parameters as checked: plain values of the right types
        parameters = {name: dict(table) for name, table in scenario.schedulers.items()}
        for name in names:
            if settings[name] and ":" not in name:
                checked = msgspec.to_builtins(schedulers[name])
                given = {key: checked[key] for key in settings[name] if checked[key] is not None}
                parameters[name] = given
        whole = dataclasses.replace(scenario, schedulers=parameters)
        if file is not None:
            whole.save(file)
        return whole

    return scenario, schedulers, keep
