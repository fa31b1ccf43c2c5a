"""What an error says about a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "listed"]


def closest(known: Iterable[str], given: object) -> str:
    """Return ``"did you mean ...? "`` with the known name that is closest, or nothing if none is close."""
    from difflib import get_close_matches  # for errors only

    close = get_close_matches(str(given), list(known), 1)
    return f"did you mean {close[0]}? " if close else ""


def listed(known: Iterable[str], given: object) -> str:
    """Return the end of an error about a name that is not known: the closest known one, and all of them."""
    names = list(known)
    return f"{closest(names, given)}known: {', '.join(names) or 'none'}"
