"""A message that a node has sent, for tests and diaries."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Sent"]


class Sent:
    """A message that a node has sent: its receiver, its kind and its fields.

    Two of them are equal if all of these are equal; arrays are compared by their elements.

    Parameters
    ----------
    to
        The node that receives the message.
    kind
        The kind of the message.
    **fields
        The fields of the message.  Requests and answers have ``request``, the number of the request.

    Examples
    --------
    >>> Sent(2, "task", application=0, tasks=1)
    Sent(2, 'task', application=0, tasks=1)
    """

    __slots__ = ("fields", "kind", "to")

    def __init__(self, to: int, kind: str, /, **fields: Any) -> None:
        self.to, self.kind, self.fields = to, kind, fields

    def __repr__(self) -> str:
        fields = "".join(f", {name}={value!r}" for name, value in self.fields.items())
        return f"Sent({self.to}, {self.kind!r}{fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sent):
            return NotImplemented
        return (
            (self.to, self.kind) == (other.to, other.kind)
            and self.fields.keys() == other.fields.keys()
            and all(_are_equal(value, other.fields[name]) for name, value in self.fields.items())
        )

    def __hash__(self) -> int:
        return hash((self.to, self.kind))


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
