"""Values of flags with a unit: a number, or a text such as "50 ms"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # older versions of click have no type parameter


class Quantity(_Type):
    """A number in `unit`, or a text with another unit that fits."""

    name = "quantity"

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number that a flag stands for; its range is checked where it is used."""
        from gridsim.support import units

        try:
            return float(value)
        except ValueError:
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
