"""Hints in errors about unknown names."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["closest", "listed"]


def closest(known: Iterable[str], name: object) -> str:
    """Return ``"did you mean ...? "`` with the closest known name, or "" if none is close."""
    from difflib import get_close_matches  # imported here, since only errors need it

    names = list(known)
    same = [other for other in names if other.casefold() == str(name).casefold()]
    close = same or get_close_matches(str(name), names, 1)
    return f"did you mean {close[0]}? " if close else ""


def listed(known: Iterable[str], name: object) -> str:
    """Return the end of an error text about an unknown name: the closest known name, and all known names."""
    known_names = list(known)
    return f"{closest(known_names, name)}known: {', '.join(known_names) or 'none'}"
