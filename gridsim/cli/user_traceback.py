"""The frames of a traceback in user code, such as a scheduler."""

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
    """Return the traceback of `error` with the frames of user code only; empty if there are none.

    Frames of gridsim, Python and installed packages are omitted.  The text of the traceback is searched,
    since an error in another process has its traceback only as text.
    """
    user_frames = [
        match
        for match in _FRAME.finditer("".join(traceback.format_exception(error)))
        if _is_user_code(match[1])
    ]
    if not user_frames:
        return ""
    frames = "".join(match[0] for match in user_frames)
    last = "".join(traceback.format_exception_only(error))
    return f"Traceback (most recent call last), your own code only:\n{frames}{last}"


def _is_user_code(file: str) -> bool:
    """Return whether a file belongs neither to gridsim nor to Python or an installed package."""
    places = [*gridsim.__path__, *gridcore.__path__]
    places += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    path = os.path.realpath(file)
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
    return (
        os.path.isabs(file)
        and not installed
        and not any(path.startswith(os.path.realpath(place) + os.sep) for place in places)
    )
