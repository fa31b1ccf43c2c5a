"""The command `gridsim`: thin commands over the library.

Answers go to standard output (with ``--json`` one JSON value and nothing else), bars, warnings and errors to
standard error.  Exit codes: 0 done; 1 `trace lint` found errors; 2 wrong input or usage; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridsim.errors import CheckpointWarning, GridSimError, ModelWarning, ScenarioError, TraceWarning
from gridsim.output import check_output, deliver, file_name, in_folder, progress_of
from gridsim.repro import repro
from gridsim.reproduce.command import reproduce
from gridsim.resumption import resume_command
from gridsim.validation.command import validate
from gridsim.why_command import why

if TYPE_CHECKING:
    from gridsim.scenario import Scenario
    from gridsim.scheduler import Scheduler
    from gridsim.simulation import Record

Flags = dict[str, Any]
Settings = dict[str, dict[str, Any]]

_PLATFORM = ("nodes",)
_NETWORK = ("latency", "bandwidth", "interfaces", "task_data")
_WORKLOAD = ("applications", "interarrival", "tasks_per_node", "task_size")
#: --record, --decisions -> what `simulate` is to record.
_RECORD: dict[tuple[bool, bool], Record] = {
    (False, False): False, (True, False): "schedule", (False, True): "decisions", (True, True): "all"
}  # fmt: skip
_LOG_NAMES = {"applications": "max_applications"}  # what a flag is called in a workload from a log


class _Group(click.Group):
    """A group whose commands end with one line on standard error for whatever is wrong with the input."""

    def invoke(self, ctx: click.Context) -> Any:
        said = set()

        def show(message: Warning | str, *_: Any) -> None:
            line = _one_line(str(message))
            if line not in said:  # a log is read once a scheduler
                said.add(line)
                click.echo(f"gridsim: warning: {line}", err=True)

        with warnings.catch_warnings():
            for category in (TraceWarning, ModelWarning, CheckpointWarning):
                warnings.simplefilter("always", category)
            warnings.showwarning = show  # type: ignore[assignment]
            try:
                return super().invoke(ctx)
            except GridSimError as error:
                message = str(error) or type(error).__name__
            except click.UsageError as error:  # as one line, and without the usage
                message = error.format_message()
            except MemoryError as error:
                message = f"not enough memory: {error}".removesuffix(": ")
            except OSError as error:
                if error.errno == errno.EPIPE:  # the reader of our output has gone; click ends quietly
                    raise
                known = error.strerror and error.filename is not None
                message = f"{error.filename}: {error.strerror}" if known else error.strerror or str(error)
            except KeyboardInterrupt:
                click.echo("gridsim: interrupted", err=True)
                ctx.exit(130)
            click.echo(f"gridsim: {_one_line(message)}", err=True)
            ctx.exit(2)


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from gridsim.provenance import version

        click.echo(f"gridsim {version()}")
        ctx.exit()


#: Whether a workload has rigid jobs -> the schedulers that are compared on it.
USUAL = {
    False: ("fair-tree", "mincent", "fcfs"),
    True: ("dgs-asap", "asap", "backfill", "backfill-fcfs"),
}


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version."
)
def cli() -> None:
    """Simulate decentralized grid scheduling."""


def _scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.argument("scenario", required=False, metavar="[SCENARIO.toml]"),
        click.option("--nodes", type=int, help="Machines.  [1000]"),
        click.option("--speeds", type=click.Choice(["uniform", "pareto"]), help="Speeds.  [uniform]"),
        click.option("--hosts", metavar="FILE", help="Speeds drawn from a table of hosts (CSV)."),
        click.option("--applications", type=int, help="Applications (of a log: the first so many).  [100]"),
        click.option("--interarrival", type=float, help="Mean time between releases, s.  [10]"),
        click.option("--tasks-per-node", type=float, help="Mean tasks of an application, a machine.  [10]"),
        click.option("--task-size", help="Mflop: a number, LOW..HIGH, or classes A,B,C.  [65536]"),
        click.option("--job-log", metavar="FILE", help="Applications from a job log (SWF, GWF)."),
        click.option("--latency", type=float, help="Of a message, s.  [0.05]"),
        click.option("--bandwidth", type=float, help="Of a machine, up and down, bytes/s.  [125000]"),
        click.option("--interfaces", type=click.Choice(["fifo", "equal"]), help="Queueing.  [fifo]"),
        click.option("--task-data", type=float, help="That a task fetches, bytes, counted apart.  [0]"),
        click.option("--seed", type=int, help="Of platform, workload and run.  [1]"),
        click.option("--set", "settings", multiple=True, metavar="NAME.PARAM=VALUE", help="A parameter."),
        click.option(
            "--bound",
            type=click.Choice(["fluid", "discrete"]),
            default="fluid",
            help="Lower bound to compare with.  [fluid]",
        ),
        click.option(
            "--out",
            metavar="PATH",
            help="Save the results; run: a file, or a folder for NAME.npz; compare: a folder.",
        ),
        click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML."),
        click.option("--threads", type=int, default=1, help="Of a kernel; changes no result.  [1]"),
        click.option("--record", is_flag=True, help="Save the schedule too, for gridsim validate."),
        click.option("--decisions", is_flag=True, help="Save the decisions too, for gridsim why."),
        click.option("--time-limit", type=float, metavar="S", help="Simulated s after which to give up."),
        click.option("--progress/--no-progress", default=None, help="Show a bar (default: on a terminal)."),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command()
@_scenario_options
@click.option("--scheduler", "name", default="fair-tree", show_default=True, metavar="NAME|module:Class")
@click.option("--checkpoint", metavar="FILE", help="Keep the run there, for gridsim resume.")
@click.option(
    "--checkpoint-every",
    "every",
    type=float,
    metavar="S",
    help="Seconds of work between two checkpoints (file: gridsim.checkpoint unless said).  [600]",
)
def run(name: str, checkpoint: str | None, every: float | None, **flags: Any) -> None:
    """Run one scheduler on a scenario; flags override the file, or the default without one."""
    from gridsim.simulation import CHECKPOINT_EVERY, simulate

    out = in_folder(flags["out"], name)
    if every is not None and checkpoint is None:
        checkpoint = "gridsim.checkpoint"
    if checkpoint is not None:
        check_output("--checkpoint", checkpoint)
        others = {"--out": out, "--save-scenario": flags["save_scenario"], **_inputs(flags)}
        for flag, path in others.items():
            if path is not None and os.path.realpath(path) == os.path.realpath(checkpoint):
                raise ScenarioError(f"{flag} and --checkpoint name the same file, {path}")
    scenario, schedulers, keep = _prepare([name], flags, [] if out is None else [out])
    result = simulate(
        scenario,
        schedulers[name],
        progress=progress_of(flags["progress"]),
        threads=flags["threads"],
        time_limit=flags["time_limit"],
        record=_RECORD[flags["record"], flags["decisions"]],
        checkpoint=checkpoint,
        checkpoint_every=CHECKPOINT_EVERY if every is None else every,
    )
    keep()
    deliver(result, name, out=out, bound=flags["bound"], as_json=flags["as_json"])


@cli.command()
@_scenario_options
@click.option(
    "--schedulers",
    "names",
    metavar="A,B,C",
    help=f"[{','.join(USUAL[False])}; for rigid jobs {','.join(USUAL[True])}]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    help="Ratios are to this one's max stretch, or mean waiting time.  [mincent, else the first centralized "
    "one, else the first]",
)
def compare(names: str | None, baseline: str | None, **flags: Any) -> None:
    """Compare schedulers on one scenario; without arguments: on a desktop grid of 1000 machines."""
    from gridsim import experiment
    from gridsim.records import to_json

    chosen = list(USUAL[_scenario(flags).workload.rigid])
    if names is not None:
        chosen = [name.strip() for name in names.split(",") if name.strip()]
    for i, name in enumerate(chosen):
        if name in chosen[:i]:
            raise ScenarioError(f"--schedulers names {name!r} twice")
    if baseline is not None and baseline not in chosen:
        raise ScenarioError(f"--baseline must be one of {', '.join(chosen)}, got {baseline!r}")
    out, files = flags["out"], {}
    if out:
        if os.path.lexists(out) and not os.path.isdir(out):
            raise ScenarioError(f"--out {out}: compare saves one file a scheduler, so this must be a folder")
        files = {name: os.path.join(out, file_name(name)) for name in chosen}
        if len(set(files.values())) < len(files):
            raise ScenarioError(f"--out {out}: two of the schedulers have the same file name there")
    new = out is not None and not os.path.isdir(out)  # then the folder is what will be made
    scenario, schedulers, keep = _prepare(chosen, flags, [out.rstrip("/")] if new else list(files.values()))
    comparison = experiment.compare(
        scenario,
        schedulers,
        progress=progress_of(flags["progress"]),
        baseline=baseline,
        bound=flags["bound"],
        threads=flags["threads"],
        time_limit=flags["time_limit"],
        record=_RECORD[flags["record"], flags["decisions"]],
    )
    keep()
    if files:
        os.makedirs(out, exist_ok=True)
        for name, file in files.items():
            comparison[name].save(file)
    if flags["as_json"]:
        click.echo(to_json({**comparison.to_dict(), "files": files}))
        return
    click.echo(comparison.format())
    for file in files.values():
        click.echo(f"saved {file}")


cli.add_command(reproduce)
cli.add_command(repro)
cli.add_command(resume_command)
cli.add_command(validate)
cli.add_command(why)


@cli.group()
def trace() -> None:
    """Look at trace files: job logs (swf, gwf), availability (avt, fta), host speeds (hosts)."""


_format = click.option("--format", "kind", help="swf, gwf, avt, fta or hosts.  [told from the file]")
_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@trace.command("info")
@click.argument("file")
@_format
@_json
def trace_info(file: str, kind: str | None, as_json: bool) -> None:
    """Size and shape of a trace (units in the names)."""
    from gridsim.platform import text
    from gridsim.records import to_json
    from gridsim.traces.info import info

    facts = info(text("FILE", file), format=kind)
    if as_json:
        click.echo(to_json(facts))
        return
    for key, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {_one_line(str(entry))}" for name, entry in value.items()) or "-"
        click.echo(f"{key:<18}  {value}")


@trace.command("lint")
@click.argument("file")
@_format
@_json
@click.pass_context
def trace_lint(ctx: click.Context, file: str, kind: str | None, as_json: bool) -> None:
    """What is suspicious about a trace; exit code 1 if there are errors, 2 if it cannot be read."""
    from gridsim.platform import text
    from gridsim.records import to_json
    from gridsim.traces.lint import lint

    findings = lint(text("FILE", file), format=kind)
    for finding in findings:
        if finding.code == "unreadable":
            line = f":{finding.first_line}" if finding.first_line else ""
            raise GridSimError(f"{file}{line}: {finding.message}")
    if as_json:
        fields = ("severity", "code", "message", "count", "first_line")
        entries = [{field: getattr(finding, field) for field in fields} for finding in findings]
        click.echo(to_json({"file": file, "findings": entries}))
    else:
        for found in findings:
            place = f"{file}:{found.first_line}" if found.first_line else file
            click.echo(f"{place}: {found.severity}: {found.count} {found.message} [{found.code}]")
        click.echo(f"{file}: {len(findings)} kinds of findings" if findings else f"{file}: nothing to say")
    ctx.exit(int(any(finding.severity == "error" for finding in findings)))


# -- building what was asked for ------------------------------------------------------------------------


def _prepare(
    names: list[str], flags: Flags, outputs: list[str]
) -> tuple[Scenario, dict[str, Scheduler], Callable[[], None]]:
    """The scenario and the schedulers, all checked before anything is run or written.

    The last of the three saves the scenario if that is wanted, to be called when it has been run: only
    then is it known to be one that can be.
    """
    import dataclasses

    import msgspec

    for path in outputs:
        check_output("--out", path)
        for flag, given in _inputs(flags).items():
            if given is not None and os.path.realpath(given) == os.path.realpath(path):
                raise ScenarioError(f"{flag} and --out name the same file, {path}")
    if (file := flags["save_scenario"]) is not None:
        check_output("--save-scenario", file)
        if os.path.realpath(file) in map(os.path.realpath, outputs):
            raise ScenarioError(f"--out and --save-scenario name the same file, {file}")
    scenario = _scenario(flags)
    settings: Settings = {name: dict(scenario.schedulers.get(name, {})) for name in names}
    for setting in flags["settings"]:
        name, parameter, value = _setting(setting)
        if name not in settings:
            raise ScenarioError(f"--set {setting}: no scheduler {name!r} here; chosen: {', '.join(names)}")
        settings[name][parameter] = value
    schedulers = {name: _scheduler(name, settings[name]) for name in names}
    for name, table in scenario.schedulers.items():
        _scheduler(name, table)  # tables of schedulers that are not asked for must be right too

    def keep() -> None:
        if file is None:
            return
        # the parameters as checked: plain values of the right types
        parameters = {name: dict(table) for name, table in scenario.schedulers.items()}
        for name in names:
            if settings[name] and ":" not in name:
                checked = msgspec.to_builtins(schedulers[name])
                given = {key: checked[key] for key in settings[name] if checked[key] is not None}
                parameters[name] = given
        dataclasses.replace(scenario, schedulers=parameters).save(file)

    return scenario, schedulers, keep


def _inputs(flags: Flags) -> dict[str, str | None]:
    """The files that are read."""
    return {"SCENARIO": flags["scenario"], "--hosts": flags["hosts"], "--job-log": flags["job_log"]}


def _scenario(flags: Flags) -> Scenario:
    """The scenario of the file, or the default one, with what the flags change."""
    import dataclasses

    from gridsim.bags import LogRecipe
    from gridsim.platform import HostSpeedTable, ParetoSpeeds, Platform, UniformSpeeds, text, whole
    from gridsim.scenario import Scenario
    from gridsim.workload import Workload

    given = {key: value for key, value in flags.items() if value is not None}
    if "hosts" in given and "speeds" in given:
        raise ScenarioError("--hosts and --speeds exclude each other")
    if "seed" in given:
        whole("--seed", given["seed"])
    if flags["scenario"] is not None:
        base = Scenario.from_toml(Path(text("SCENARIO.toml", flags["scenario"])))
    else:
        base = default_scenario(given.get("seed", 1))
    if "task_size" in given:
        given["task_size"] = _task_size(given["task_size"])
    seed = {"seed": given["seed"]} if "seed" in given else {}

    platform: Any = base.platform.recipe
    if {"hosts", "speeds"} & set(given):
        shape: Flags = {"nodes": base.platform.nodes, "seed": getattr(platform, "seed", base.seed)}
        if "hosts" in given:
            platform = HostSpeedTable(path=text("--hosts", given["hosts"]), **shape)
        else:
            platform = (UniformSpeeds if given["speeds"] == "uniform" else ParetoSpeeds)(**shape)
    platform = _changed("platform", platform, given, _PLATFORM, seed)
    workload: Any = base.workload.recipe
    if "job_log" in given:
        path = text("--job-log", given["job_log"])
        workload = LogRecipe(path=path, seed=getattr(workload, "seed", base.seed))
    workload = _changed("workload", workload, given, _WORKLOAD, seed)
    network = _changed("network", base.network, given, _NETWORK, {})
    run_seed = given.get("seed", base.seed)
    return dataclasses.replace(
        base, platform=Platform(platform), workload=Workload(workload), network=network, seed=run_seed
    )


def default_scenario(seed: int = 1) -> Scenario:
    """The shape of the fair-tree papers' experiments: 100 bags of about 10,000 tasks on 1000 machines."""
    from gridsim.platform import Platform
    from gridsim.scenario import Scenario
    from gridsim.workload import Workload

    workload = Workload.bags(applications=100, interarrival=10.0, task_size=65536.0, seed=seed)
    return Scenario(Platform.desktop_grid(1000, seed), workload, seed=seed)


def _changed(where: str, recipe: Any, given: Flags, names: tuple[str, ...], seed: Flags) -> Any:
    """`recipe` with the flags of `names`; an error for a flag that its kind does not have."""
    import msgspec

    known, changes, flag_of = recipe.__struct_fields__, {}, {}
    for name in set(names) & set(given):
        field = _LOG_NAMES.get(name, name) if "max_applications" in known else name
        if field not in known:
            kind = recipe.__struct_config__.tag
            raise ScenarioError(f"--{name.replace('_', '-')} does not apply to a {where} of kind {kind!r}")
        changes[field], flag_of[f"{where}.{field}"] = given[name], "--" + name.replace("_", "-")
    changes |= {name: value for name, value in seed.items() if name in known}
    try:
        return msgspec.structs.replace(recipe, **changes)
    except ScenarioError as error:  # it begins with the path of a key; the user gave a flag
        path = re.match(r"[\w.]*?(?=\[| |\.low |\.high )", str(error))
        if path is None or path[0] not in flag_of:
            raise
        raise ScenarioError(flag_of[path[0]] + str(error)[path.end() :]) from error


def _task_size(value: Any) -> Any:
    from gridsim.bags import Range

    if not isinstance(value, str):
        return value
    try:
        if ".." in value:
            low, _, high = value.partition("..")
            return Range(float(low), float(high))
        sizes = tuple(float(part) for part in value.split(","))
    except ValueError:
        raise ScenarioError(f"--task-size must be a number, LOW..HIGH or A,B,C, got {value!r}") from None
    return sizes[0] if len(sizes) == 1 else sizes


def _setting(setting: str) -> tuple[str, str, Any]:
    """NAME.PARAM=VALUE; the value is a TOML value, a list without its brackets, or plain text."""
    target, equals, value = setting.partition("=")
    name, dot, parameter = target.strip().rpartition(".")
    if not (equals and dot and name and parameter):
        raise ScenarioError(f"--set {setting}: expected NAME.PARAM=VALUE")
    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            document = tomllib.loads(f"value = {text}")
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        if len(document) == 1:  # not several lines
            return name, parameter, document["value"]
    return name, parameter, value.strip()


def _scheduler(name: str, parameters: Mapping[str, Any]) -> Scheduler:
    from gridsim.experiment import import_scheduler, make_scheduler

    if ":" in name:
        return import_scheduler(name, parameters)

    return make_scheduler(name, parameters)


def main() -> None:
    """Entry point of the command."""
    cli(prog_name="gridsim")


if __name__ == "__main__":
    main()
