"""Types of arrays, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
#: A structured array with one row per message.
Rows = NDArray[Any]
