"""Arguments of the reference implementations as lists; the kernels check them."""

from __future__ import annotations

from typing import Any

import numpy as np


def doubles(values: Any) -> list[float]:
    return [float(value) for value in np.asarray(values)]


def integers(values: Any) -> list[int]:
    return [int(value) for value in np.asarray(values).tolist()]
