"""The log of messages, recorded on request: kind, sender, receiver, times of sending and delivery."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.results.table import Table
from gridsim.support.clock import NS

#: How many messages are kept by default.
MESSAGES_LIMIT = 1_000_000
#: The most messages that can be kept.
MOST_MESSAGES = 2**31 - 1


def place_of(dtype: np.dtype[Any], name: str) -> int:
    """Return the offset of the field `name` in a row, in bytes; -1 if there is no such int64 field."""
    fields = dtype.fields
    if fields is None or name not in fields or fields[name][0] != np.int64:
        return -1
    return int(fields[name][1])


def message_table(
    links: Links, kinds: list[str], applications: int, application_of: NDArray[np.int64] | None
) -> Table:
    """Return the log of `links` as a table with one row per message, in order of sending.

    The columns are described in docs/reference/outputs.md.

    Parameters
    ----------
    kinds
        The names of the kinds of messages, by number.
    applications
        How many applications there are.
    application_of
        int64, the application of each thing that messages are about; None if messages are about applications
        themselves.
    """
    logged = links.logged()
    about = logged["subject"]
    if application_of is not None:
        known = (about >= 0) & (about < len(application_of))
        about = np.where(known, np.append(application_of, -1)[np.where(known, about, -1)], -1)
    ends = logged["delivered"]
    columns = {
        "kind": np.array(kinds, np.str_)[logged["kind"]],
        "sender": logged["sender"],
        "receiver": logged["receiver"],
        "sent": logged["sent"] / NS,
        "delivered": np.where(ends >= 0, ends / NS, np.nan),
        "dropped": (ends == -2).astype(np.int64),
        "bytes": logged["nbytes"],
        "application": np.where((about >= 0) & (about < applications), about, -1),
    }
    # the log is not in order of sending: what a kernel accounts for itself is logged on arrival
    order = np.argsort(logged["sent"], kind="stable")
    return Table({name: column[order] for name, column in columns.items()})
