"""The log of messages, with their kind, sender, receiver, and times of sending and delivery."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.network.links import Links
from gridsim.results.table import Table
from gridsim.support.clock import NS

#: The number of messages that the log keeps by default.
MESSAGES_LIMIT = 1_000_000
#: The maximum number of messages that the log can keep.
MAX_MESSAGES = 2**31 - 1


def offset_of(dtype: np.dtype[Any], name: str) -> int:
    """Return the offset of the int64 field `name` in a row, in bytes; -1 if there is no such field."""
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
        The number of applications.
    application_of
        int64[subjects], the application of each subject of a message, such as a job; None if the subjects are
        applications.
    """
    rows = links.logged()
    subject = rows["subject"]
    if application_of is not None:
        known = (subject >= 0) & (subject < len(application_of))
        subject = np.where(known, np.append(application_of, -1)[np.where(known, subject, -1)], -1)
    delivered = rows["delivered"]
    columns = {
        "kind": np.array(kinds, np.str_)[rows["kind"]],
        "sender": rows["sender"],
        "receiver": rows["receiver"],
        "sent": rows["sent"] / NS,
        "delivered": np.where(delivered >= 0, delivered / NS, np.nan),
        "dropped": (delivered == -2).astype(np.int64),
        "bytes": rows["nbytes"],
        "application": np.where((subject >= 0) & (subject < applications), subject, -1),
    }
    return Table(columns)
