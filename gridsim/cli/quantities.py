"""Values of flags: numbers in ASCII digits, and numbers with a unit, such as "50 ms"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # older versions of click have no type parameter


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


class UnitQuantity(_Type):
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
            self.fail(
                f"{value!r} is neither a number ({self.unit}) nor a number with a unit: {known}", param, ctx
            )
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the placeholder of the value in the help text."""
        return self.unit.upper() if self.unit == "s" else self.unit


SECONDS, BYTES, RATE, WORK = (
    UnitQuantity("s"),
    UnitQuantity("bytes"),
    UnitQuantity("bytes/s"),
    UnitQuantity("Mflop"),
)
