"""Messages with delays, messages of variable size that leave at once, and ends of tasks."""

from __future__ import annotations

from typing import Any

import pytest

import gridsim as gs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.Message(10, delay=-1.0), "delay of a message must be a number in 0..2e\\+09 s, got -1.0"),
        (lambda: gs.Message(10, delay="x"), "delay of a message must be a number in 0..2e\\+09 s, got 'x'"),
        (
            lambda: gs.Message(2**31),
            "nbytes of a message must be None, a function or a whole number in 0..2147483647, got 2147483648",
        ),
        (
            lambda: gs.Message(10, delay=float("nan")),
            "delay of a message must be a number in 0..2e\\+09 s, got nan",
        ),
        (lambda: gs.Message(10, counted=False), "counted=False requires a delay"),
        (lambda: gs.Message(None, delay=1.0), "nbytes=None does not support delay"),
    ],
)
def test_invalid_kinds_of_messages_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(gs.ScenarioError, match=message):
        make()
