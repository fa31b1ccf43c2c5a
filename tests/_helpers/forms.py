"""The forms in which nodes run, as parameters of tests; the compiled one is skipped without Numba."""

from importlib.util import find_spec
from typing import Any

import pytest

from gridsim.scheduling.contract import NodeForm

HAS_NUMBA = find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="needs the extra jit")
#: Parameters of a test in each form.
FORMS: tuple[Any, ...] = ("python", "interpreted", pytest.param("compiled", marks=needs_numba))
#: The forms that can run here.
RUNNABLE_FORMS: tuple[NodeForm, ...] = ("python", "interpreted", "compiled")[: 2 + HAS_NUMBA]
