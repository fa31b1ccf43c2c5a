"""The part of a traceback that is about a user's own code, such as a scheduler."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback

import gridcore
import gridsim

#: A frame in a traceback as text, with the lines of its source.
_FRAME = re.compile(r'^  File "(.+?)", line .*\n(?:    .*\n|\n)*', re.MULTILINE)


def user_traceback(error: BaseException) -> str:
    """Return the traceback of `error` with the user's own frames alone; empty if there are none.

    Frames of gridsim, of Python and of installed packages are left out.  They are found in the text, since an
    error in another process has its traceback only as text.
    """
    found = [match for match in _FRAME.finditer("".join(traceback.format_exception(error))) if _own(match[1])]
    if not found:
        return ""
    frames = "".join(match[0] for match in found)
    last = "".join(traceback.format_exception_only(error))
    return f"Traceback (most recent call last), your own code only:\n{frames}{last}"


def _own(file: str) -> bool:
    """Whether a file is neither of gridsim nor of Python or an installed package."""
    places = [*gridsim.__path__, *gridcore.__path__]
    places += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    path = os.path.realpath(file)
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
    return (
        os.path.isabs(file)
        and not installed
        and not any(path.startswith(os.path.realpath(place) + os.sep) for place in places)
    )
