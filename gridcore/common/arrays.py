"""Types of arrays, for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
#: A structured array, such as one with a row per message.
Rows: TypeAlias = NDArray[Any]
