"""Flags that specify the options of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from gridsim.cli.options import SECONDS, Decorator, Flags, OptionGroup, field_option, flags_in_errors
from gridsim.cli.result_args import parse_nodes
from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    from gridsim.scheduling.nodes.observe import Observe

_OPTIONS = "gridsim.simulation.options:Options"

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
