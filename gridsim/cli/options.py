"""Options of commands: types of values, options for fields of structs, and groups of options."""

from __future__ import annotations

import functools
import math
import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from gridsim.errors import ScenarioError

if TYPE_CHECKING:
    _Quantity = click.ParamType[float]
    _Type = click.ParamType[Any]
else:
    _Quantity = _Type = click.ParamType  # older versions of click have no type parameter

#: Largest number of nodes whose numbers an option may list.
_MAX_LISTED_NODES = 1 << 20
#: Name of an option -> its value.
Flags = dict[str, Any]
Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class _AsciiOnly:
    """A mixin that rejects numbers with underscores, such as 1_000, or with digits other than 0-9."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (not value.isascii() or "_" in value):
            raise click.BadParameter(
                f"must be a number in the digits 0-9, got {value!r}", ctx=ctx, param=param
            )
        return super().convert(value, param, ctx)  # type: ignore[misc]


class _Int(_AsciiOnly, type(click.INT)):  # type: ignore[misc]
    pass


class _Float(_AsciiOnly, type(click.FLOAT)):  # type: ignore[misc]
    pass


INT, FLOAT = _Int(), _Float()


class UnitQuantity(_Quantity):
    """A number in `unit`, or a string such as "50 ms" with a unit of the same dimension."""

    name = "quantity"

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the value of a flag in `unit`; its range is checked later, by the scenario."""
        from gridsim.support import units

        try:
            return float(FLOAT.convert(value, param, ctx))
        except click.BadParameter:
            number = units.number(value, self.unit)
        if number is None:
            known = ", ".join(units.UNITS[self.unit])
            text = f"{value!r} is neither a number ({self.unit}) nor a number with a unit: {known}"
            if re.match(r"\s*[0-9]+,[0-9]", str(value)):
                text += f"; a fraction has a point, such as {str(value).strip().replace(',', '.', 1)}"
            self.fail(text, param, ctx)
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder of the value in the help text."""
        return self.unit.upper() if self.unit == "s" else self.unit


SECONDS, WORK, WATTS, INCHES = (UnitQuantity(unit) for unit in ("s", "Mflop", "W", "in"))


class _Days(_Type):
    """A number of days, or a time with another unit, such as "12 h", in days."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from gridsim.support import units

        try:
            return float(FLOAT.convert(value, param, ctx))
        except click.BadParameter:
            seconds = units.number(value, "s")
        if seconds is None:
            known = ", ".join(units.UNITS["s"])
            self.fail(f"{value!r} is neither a number of days nor a number with a unit: {known}", param, ctx)
        return seconds / 86_400.0


DAYS = _Days()


class _Name(_Type):
    """One of the names that a function returns, such as those that installed packages add."""

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.Choice([*self.names()]).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return click.Choice([*self.names()]).shell_complete(ctx, param, incomplete)


def _export_names() -> Iterable[str]:
    from gridsim.results.formats.registry import export_formats

    return export_formats()


EXPORT_FORMAT = _Name(_export_names)


def completion(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a function that completes the last of a comma-separated list of names in the shell."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def _scheduler_names() -> Iterable[str]:
    from gridsim.scheduling.registry import registered

    return registered()


def _metric_names() -> Iterable[str]:
    from gridsim.results.metrics.registry import METRICS
    from gridsim.results.metrics.selection import plugin_metrics

    return [*METRICS, *plugin_metrics()]


def _parameter_names() -> Iterable[str]:
    from gridsim.scheduling.registry import registered
    from gridsim.support.parameters import fields_of

    return [f"{name}.{field}=" for name, (cls, _) in registered().items() for field in fields_of(cls)]


complete_schedulers, complete_metrics = completion(_scheduler_names), completion(_metric_names)


class _PartNumber(_Type):
    """A part of a study: its number K, from 1, and the number of parts N, written K/N."""

    name = "part"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", value)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            self.fail(f"must be K/N with 1 <= K <= N, such as 3/40, got {value!r}", param, ctx)
        return int(match[1]), int(match[2])

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "K/N"


PART = _PartNumber()


class Multiple(float):
    """A factor of the value that a flag would have by default, such as 2x."""


class Addition(int):
    """A number to add to the value that a flag would have by default, such as +10."""


class _OrMultiple(_Type):
    """A number; a `Multiple`, a number > 0 followed by x; or, of whole numbers, an `Addition`."""

    def __init__(self, number: Any) -> None:
        self.number, self.name = number, number.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.endswith("%"):
            self.fail(f"must be a number, or a factor such as 1.3x for 30 % more, got {value!r}", param, ctx)
        if self.number is INT and isinstance(value, str) and re.fullmatch(r"\+[0-9]+", value):
            return Addition(value)
        if isinstance(value, str) and value.startswith("+"):
            more = ", or a whole number to add such as +10" if self.number is INT else ""
            self.fail(f"must be a number, or a factor such as 1.3x{more}, got {value!r}", param, ctx)
        try:
            if not (isinstance(value, str) and value.endswith(("x", "X"))):
                return self.number.convert(value, param, ctx)
            factor = float(FLOAT.convert(value[:-1], param, ctx))
        except click.BadParameter:
            if not value.isascii() or "_" in value:
                raise
            number = "a whole number" if self.number is INT else "a number"
            text = f"one number, or one factor such as 1.3x with a decimal point, got {value!r}"
            if "," not in value:
                text = f"{number}, or a factor such as 1.3x, got {value!r}"
            self.fail(f"must be {text}", param, ctx)
        if not 0 < factor < math.inf:
            self.fail(f"must be a factor > 0, such as 1.3x, got {value!r}", param, ctx)
        return Multiple(factor)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N|FACTORx|+N" if self.number is INT else "N|FACTORx"


class _OrList(_Type):
    """A value, or several with commas: a tuple."""

    def __init__(self, entry: Any) -> None:
        self.entry, self.name = entry, entry.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) > 1 and not all(parts):
            self.fail(f"must have a number on each side of a comma, got {value!r}", param, ctx)
        if any(part[0] == "0" and part[1:].isdecimal() for part in parts[1:]):
            self.fail(f"must have no comma between thousands, got {value!r}", param, ctx)
        values = tuple(self.entry.convert(part, param, ctx) for part in parts)
        return values if len(values) > 1 else values[0]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N|FACTORx|+N" if isinstance(self.entry, _OrMultiple) else "N"


class ByNode(tuple[float, ...]):
    """Numbers that are stated for so many nodes each, such as 180x0,20x4: an entry for each node."""


class _OfNodes(_Type):
    """A number of each node, or with commas numbers of several sites or ``COUNTxNUMBER``, of COUNT nodes."""

    def __init__(self, number: Any) -> None:
        self.number, self.name = number, number.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        groups = [re.fullmatch(r"\s*([0-9]{1,9})x(.+)", part) for part in str(value).split(",")]
        if not any(groups):
            return _OrList(self.number).convert(value, param, ctx)
        if not all(groups):
            self.fail(
                f"must have a number of nodes in each entry, such as 180x0,20x4, got {value!r}", param, ctx
            )
        counts = [int(group[1]) for group in groups if group is not None]
        if sum(counts) > _MAX_LISTED_NODES:
            self.fail(f"must be of at most {_MAX_LISTED_NODES:,} nodes, got {sum(counts):,}", param, ctx)
        numbers = [self.number.convert(group[2].strip(), param, ctx) for group in groups if group is not None]
        return ByNode(number for count, number in zip(counts, numbers, strict=True) for _ in range(count))

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"{self.number.get_metavar(param, ctx) or 'N'}|COUNTxN,..."


INT_OR_LIST = _OrList(INT)
INTS_OF_NODES, BYTES_OF_NODES = _OfNodes(INT), _OfNodes(UnitQuantity("bytes"))
INTS_OR_MULTIPLES, FLOAT_OR_MULTIPLE = _OrList(_OrMultiple(INT)), _OrMultiple(FLOAT)


class _FieldType(_Type):
    """The type of the values of a field; its range is checked later, by the struct."""

    name = "field"

    def __init__(self, struct: str, field: str, default: str | None) -> None:
        self.struct, self.field, self.default = struct, field, default

    @functools.cached_property
    def type(self) -> _Type:
        from gridsim.support.parameters import fields_of, limits_of, literal_values
        from gridsim.support.units import UNITS

        kind = pkgutil.resolve_name(self.struct)
        field = fields_of(kind)[self.field]
        if values := literal_values(field.type):
            return click.Choice(values)
        limits = limits_of(kind).get(field.encode_name)
        if limits is not None and limits.unit in UNITS:
            return UnitQuantity(limits.unit)
        return INT if limits is not None and "int" in str(field.type) else FLOAT

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.type.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        own = self.type.get_metavar(param, ctx=ctx)
        return self.type.name.upper() if own is None else own

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return self.type.shell_complete(ctx, param, incomplete)

    @property
    def help(self) -> str:
        """The first sentence of the description of the field, and its default."""
        from gridsim.support.docstrings import parameter_texts
        from gridsim.support.parameters import fields_of

        kind = pkgutil.resolve_name(self.struct)
        default = fields_of(kind)[self.field].default if self.default is None else self.default
        sentence = parameter_texts(kind)[self.field].split(". ")[0].rstrip(".").replace("`", "")
        sentence = sentence.removesuffix("; None for no limit")  # an option without a value is not set
        shown = f"{default:.9g}" if isinstance(default, int | float) else default
        return f"{sentence}." + (f"  [{shown}]" if isinstance(shown, str) else "")


class _FieldOption(click.Option):
    """An option for a field.  Its struct is imported when it is needed, so that other commands start fast."""

    _text: str | None = None

    @property
    def help(self) -> str | None:
        if self._text is None and isinstance(self.type, _FieldType):
            self._text = self.type.help
        return self._text

    @help.setter
    def help(self, text: str | None) -> None:
        self._text = text


def field_option(
    struct: str, field: str, *names: str, default_text: str | None = None, **settings: Any
) -> Decorator:
    """Return an option whose type, help and default are those of a field of a struct.

    Parameters
    ----------
    struct
        Path of the struct, ``module:Class``.
    field
        Name of the field.
    names
        Names of the option; by default that of the field.
    default_text
        Text for the default in the help; None for the default of the field.
    settings
        Settings of `click.option`; without ``help`` it is the first sentence of the field's description.
    """
    names = names or (f"--{field.replace('_', '-')}",)
    return click.option(*names, cls=_FieldOption, type=_FieldType(struct, field, default_text), **settings)


@contextmanager
def flags_in_errors(flag_of: Mapping[str, str]) -> Iterator[None]:
    """Replace the path of a key at the start of an error by the flag that set it."""
    try:
        yield
    except ScenarioError as error:
        path = re.match(r"[\w.]*?(?=\[| |\.low |\.high )", str(error))
        flag = None if path is None else flag_of.get(path[0].replace(".", "_"), flag_of.get(path[0]))
        if path is None or flag is None:
            raise
        raise ScenarioError(flag + str(error)[path.end() :]) from error


class NamingCommand(click.Command):
    """A command whose errors name the flags of its user, not the arguments that get their values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; errors suggest the closest flag, and name lists that have spaces."""
        for flag, value, following in zip(args, args[1:], args[2:], strict=False):
            is_list = flag.startswith("--") and value.endswith(",")
            if is_list and not following.startswith("-") and not os.path.exists(following):
                raise click.UsageError(f"{flag} must be a list without spaces: {value}{following}")
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from difflib import get_close_matches  # imported here, since only errors need it

            if error.option_name == "--over":
                raise click.UsageError(
                    "axes are no options: write them under [over] in the file of a sweep, such as "
                    '"workload.load" = [0.5, 0.8]'
                ) from None
            names = [name for parameter in self.params for name in parameter.opts]
            closest = get_close_matches(error.option_name, names, 1)
            raise click.NoSuchOption(error.option_name, possibilities=closest, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        flags: dict[str, str] = {}
        for parameter in self.params:
            name = str(parameter.name)
            if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
                flag = max(parameter.opts, key=len)
                flags |= dict.fromkeys((name, flag.lstrip("-").replace("-", "_")), flag)
        with flags_in_errors({name: flag for name, flag in flags.items() if flag.startswith("--")}):
            return super().invoke(ctx)


class SentenceGroup(click.Group):
    """A group that lists its commands with whole sentences, which click would cut to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of the help text of each command."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, " ".join((command.help or "").partition("\n\n")[0].split()))
            for name, command in commands
            if command is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class OptionGroup:
    """Options that a command gets as one mapping.

    Parameters
    ----------
    name
        Name of the argument of the command: a mapping of the options that are set to their values.
    options
        The options and arguments, as decorators.
    """

    def __init__(self, name: str, *options: Decorator) -> None:
        self.name, self.options = name, options

    def __call__(self, command: Command) -> Command:
        """Add the options to a command."""

        def call(**values: Any) -> Any:
            flags = {name: values.pop(name) for name in self.flags}
            set_flags = {
                name: value
                for name, value in flags.items()
                if value is not None and value is not False and value != ()
            }
            return command(**{self.name: set_flags}, **values)

        group: Command = functools.wraps(command)(call)
        for option in reversed(self.options):
            group = option(group)
        return group

    @functools.cached_property
    def flags(self) -> dict[str, str]:
        """Name of each option -> its flag, such as ``--time-limit``."""

        def command() -> None: ...

        for option in self.options:
            option(command)
        parameters: Sequence[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
        return {str(parameter.name): parameter.opts[0] for parameter in parameters}


#: Option of commands that execute runs in several processes.
workers_option = click.option(
    "--workers",
    type=INT,
    metavar="N",
    help="Number of worker processes.  [as many as processors; 1: run in this process]",
)
#: Options of commands that repeat the runs described in a file.
import_option = click.option(
    "--import",
    "imports",
    metavar="module:NAME",
    multiple=True,
    help="Allow the file to import this code, which it names; repeatable.  [nothing is imported]",
)
class_option = click.option(
    "--scheduler", "name", metavar="module:Class", help="Class of your own scheduler, if the run used one."
)
#: Option of commands that run schedulers.
settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME.PARAM=VALUE",
    shell_complete=completion(_parameter_names),
    help="Set a parameter of a scheduler, or with the name * of all schedulers that have it; repeatable.",
)
#: Options of commands with results.
bound_option = click.option(
    "--bound",
    type=click.Choice(["best", "fluid", "preemptive", "discrete"]),
    default="best",
    help="Lower bound of the max stretch to compare with.  [best: discrete if affordable]",
)
by_option = click.option(
    "--by",
    metavar="A,B",
    help="Show mean waiting times of rigid jobs by queue, user, account, site or size (1, 2-8, 9-64, ...).",
)
skip_days_option = click.option(
    "--skip-days",
    type=DAYS,
    default=0.0,
    metavar="N",
    help="Leave the applications or jobs released in the first N days out of metrics (not out of the run), "
    'or in a time with another unit, such as "12 h".  [0]',
)
out_option = click.option("--out", metavar="PATH", help="Save the result: a file, or a folder for NAME.npz.")
title_option = click.option(
    "--title", metavar="TEXT", help="Title of the report.  [the names of the results]"
)
_report_file_option = click.option(
    "--report", metavar="FILE", help="Also write a report: one HTML file that works offline."
)


def report_option(command: Command) -> Command:
    """Add the options for a report to a command."""
    return _report_file_option(title_option(command))


animate_option = click.option(
    "--animate",
    metavar="FILE",
    help="Also write an animation of the run, a page (.html) or a GIF; records the schedule, messages and "
    "decisions.",
)
verbose_option = click.option(
    "--verbose", is_flag=True, help="Show parameters, reported facts and more metrics."
)
save_scenario_option = click.option("--save-scenario", metavar="FILE", help="Save the scenario as TOML.")
#: Options of most commands.
progress_option = click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar (default: on a terminal, without --json).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
