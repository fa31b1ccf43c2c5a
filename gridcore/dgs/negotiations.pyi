from typing import Any

import numpy as np

__all__ = [
    "ANSWER",
    "BROKEN",
    "CANCEL",
    "COMMIT",
    "COMMITTING",
    "DONE",
    "FAILED",
    "NEW",
    "PLACED",
    "REPLY",
    "REQUEST",
    "SEARCHING",
    "WAITING",
]

ANSWER: np.dtype[Any]
CANCEL: np.dtype[Any]
COMMIT: np.dtype[Any]
REPLY: np.dtype[Any]
REQUEST: np.dtype[Any]
NEW: int
SEARCHING: int
COMMITTING: int
WAITING: int
PLACED: int
BROKEN: int
DONE: int
FAILED: int
