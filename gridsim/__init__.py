"""gridsim: a simulator of decentralized grid scheduling.

The public names are those of `__init__.pyi`.  They are imported when they are first used, so that
``import gridsim`` costs nothing.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

_attribute, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from gridsim.support.provenance import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module 'gridsim' has no attribute {name!r}")
    return _attribute(name)


def __dir__() -> list[str]:
    return sorted(__all__)
