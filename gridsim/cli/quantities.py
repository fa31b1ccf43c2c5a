"""Values of flags: numbers in ASCII digits, and numbers with a unit, such as "50 ms"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # older versions of click have no type parameter


class _Ascii:
    """Rejects full-width digits and 1_000, which Python reads; files must not have them either."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (not value.isascii() or "_" in value):
            raise click.BadParameter(f"{value!r} is not a number in the digits 0-9", ctx=ctx, param=param)
        return super().convert(value, param, ctx)  # type: ignore[misc]


class _Int(_Ascii, type(click.INT)):  # type: ignore[misc]
    pass


class _Float(_Ascii, type(click.FLOAT)):  # type: ignore[misc]
    pass


INT, FLOAT = _Int(), _Float()


class Quantity(_Type):
    """A number in `unit`, or a text with another unit that fits."""

    name = "quantity"

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number that a flag stands for; its range is checked where it is used."""
        from gridsim.support import units

        try:
            return float(FLOAT.convert(value, param, ctx))
        except click.BadParameter:
            found = units.number(value, self.unit)
        if found is None:
            known = ", ".join(units.UNITS[self.unit])
            self.fail(
                f"{value!r} is neither a number ({self.unit}) nor a text with a unit: {known}", param, ctx
            )
        return found

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what help shows for the value."""
        return self.unit.upper() if self.unit == "s" else self.unit


SECONDS, BYTES, RATE, WORK = Quantity("s"), Quantity("bytes"), Quantity("bytes/s"), Quantity("Mflop")
