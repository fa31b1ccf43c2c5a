from typing import Any

import numpy as np

__all__ = ["ACTIONS", "NOTE"]

ACTIONS: tuple[str, ...]
NOTE: np.dtype[Any]
