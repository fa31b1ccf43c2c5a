"""The stub of the constructors equals the one generated from their recipes.

``python -m tests.invariants.test_constructors`` writes it.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Any

import gridsim as gs
from gridsim.model import constructors

STUB = Path(constructors.__file__).with_suffix(".pyi")
KINDS: tuple[Any, ...] = (gs.Platform, gs.Workload, gs.Faults, gs.Fluctuation)
HEAD = """# Written by ``python -m tests.invariants.test_constructors``.

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray

from gridsim.model.attributes import Constraints, DrawnAttributes, ListedAttributes
from gridsim.model.power import Power
from gridsim.model.background_load import Fluctuation
from gridsim.model.bag_workloads import Exponential, LogNormal, LogUniform, Normal
from gridsim.model.faults import Faults
from gridsim.model.platform import Platform
from gridsim.model.time_zones import Zones
from gridsim.model.workload import Workload
from gridsim.support.parameters import CheckedStruct

_Kind = TypeVar("_Kind", bound=type)

class Constructor(NamedTuple):
    recipe: type[CheckedStruct]
    positional: str = ""

def constructors(**by_name: Constructor) -> Callable[[_Kind], _Kind]: ...
"""


def stub() -> str:
    lines = [HEAD]
    for kind in KINDS:
        lines.append(f"class {kind.__name__}Constructors:")
        lines.append("    constructors: ClassVar[dict[str, Constructor]]")
        for name in kind.constructors:
            method = getattr(kind, name)
            lines += ["    @classmethod", *signature(name, method, kind)]
            lines.append(textwrap.indent(f'"""{inspect.getdoc(method)}\n"""', "        "))
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def signature(name: str, method: Any, kind: type) -> list[str]:
    parameters = inspect.signature(method).parameters.values()
    lines, by_name = [f"    def {name}(", "        cls,"], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            lines.append("        *,")
            by_name = True
        default = "" if parameter.default is parameter.empty else f" = {text_of(parameter.default)}"
        lines.append(f"        {parameter.name}: {parameter.annotation}{default},")
    return [*lines, f"    ) -> {kind.__name__}:"]


def text_of(default: Any) -> str:
    """Return a default as code, or ... if it is not a literal."""
    is_literal = default is None or isinstance(default, (bool, int, str)) or default in (0.0, 1.0)
    return repr(default) if is_literal or (isinstance(default, float) and default < 1e300) else "..."


def test_stub_agrees_with_the_recipes() -> None:
    assert STUB.read_text(encoding="utf-8") == stub()


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
