"""Animations of runs: `animate`, and the pages and pictures into which an animation is saved."""

from __future__ import annotations

import base64
import html
import json
import os
from functools import cached_property
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gridsim.errors import ScenarioError
from gridsim.plots.animation.pace import pace_of
from gridsim.plots.animation.scenes import SHADES, Scene, State, scene_of
from gridsim.plots.style import APPLICATION_COLOURS, text_colour
from gridsim.support.arguments import integer, real
from gridsim.support.files import StrPath, atomic_file
from gridsim.support.provenance import VERSION

if TYPE_CHECKING:
    from gridsim.results.result import Result

_FOLDER = Path(__file__).parent
#: Duration of a GIF, s, unless `animate` states one.
GIF_SECONDS = 8.0
#: Up to this number of machines, the circles of routers have room for their names.
_MAX_NAMED_ROUTERS = 32
#: Number of units of time into which a page divides the run; times are whole numbers of them.
_UNITS = 10**9


class Animation:
    """A run in motion: what its machines do, their queues, failures and messages, over time.

    It has controls in notebooks, and `save` writes it as a page or as a GIF.

    Parameters
    ----------
    scene
        What the animation shows.
    seconds
        Duration of playing, s; None for one that fits the messages.
    """

    def __init__(self, scene: Scene, seconds: float | None = None) -> None:
        self.scene, self._seconds = scene, seconds
        self.pace = pace_of(scene, seconds)

    def __repr__(self) -> str:
        scene = self.scene
        return f"<Animation of {self.scene.title}, {scene.begin:g} to {scene.end:g} s>"

    def state(self, time: float) -> State:
        """Return the state that is drawn for a simulated time (s).

        Raises
        ------
        ScenarioError
            If the animation shows only the utilization of groups of machines.
        """
        return self.scene.state(real("time", time, unit="s"))

    def save(
        self, path: StrPath, *, width: int = 720, dark: bool = False, frames_per_second: float = 12.5
    ) -> None:
        """Write the animation; equal animations give equal files.

        Parameters
        ----------
        path
            The output file.  ``.html``: a page with controls, which works offline; ``.gif``: a GIF, of 8 s
            unless `animate` states a duration.  If writing fails, an existing file is unchanged.
        width, dark, frames_per_second
            Of a GIF: its width (px), whether its background is dark, and its number of frames per second.

        Raises
        ------
        ScenarioError
            If the path has another ending.
        ImportError
            If matplotlib, which a GIF requires, is not installed.
        OSError
            If the file cannot be written.
        """
        ending = check_ending("path", path)
        if ending == "html":
            content = self.to_html().encode(errors="backslashreplace")
        else:
            from gridsim.plots.animation.gif import gif

            width = integer("width", width, low=240, high=4000)
            rate = real("frames_per_second", frames_per_second, above=0)
            pace = self.pace if self._seconds is not None else pace_of(self.scene, GIF_SECONDS)
            content = gif(self.scene, pace, width=width, dark=dark, frames_per_second=rate)
        with atomic_file(path) as stream:
            stream.write(content)

    def to_html(self, *, autoplay: bool = True) -> str:
        """Return a page with controls, which loads nothing from the network."""
        return Template((_FOLDER / "page.html").read_text(encoding="utf-8")).substitute(
            version=VERSION,
            title=html.escape(self.scene.title),
            style=STYLE.read_text(encoding="utf-8"),
            script=SCRIPT.read_text(encoding="utf-8"),
            player=self.player(autoplay=autoplay),
        )

    def player(self, *, autoplay: bool = False) -> str:
        """Return the part of a page with the animation; the page needs `STYLE` and, at its end, `SCRIPT`."""
        data = json.dumps(self._data, separators=(",", ":"), allow_nan=False)
        for character in "<>&":
            data = data.replace(character, f"\\u{ord(character):04x}")
        return Template((_FOLDER / "player.html").read_text(encoding="utf-8")).substitute(
            label=html.escape(self.scene.title),
            autoplay=" data-autoplay" if autoplay else "",
            traffic=self.scene.traffic,
            notes=html.escape("  ".join(f"{note[0].upper()}{note[1:]}." for note in self.notes)),
            data=data,
        )

    def _repr_html_(self) -> str:
        """Return the animation in a frame of its own, for notebooks."""
        page = html.escape(self.to_html(autoplay=False))
        style = f"width: 100%; height: {self._height}px; border: 0"
        return f'<iframe class="gridsim-frame" srcdoc="{page}" style="{style}" title="Animation"></iframe>'

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the animation shows, without their full stops."""
        scene = self.scene
        notes = list(scene.notes)
        applications = len(scene.tasks)
        if scene.has_bars:
            notes.insert(
                0, f"bars: how much of each {scene.item} is done, running (pale) and queued (palest)"
            )
        if len(scene.levels) and scene.machines <= _MAX_NAMED_ROUTERS:
            notes.insert(0, "routers: r0, r1, ... on machines 0, 1, ...")
        if scene.has_columns and (scene.submitter >= 0).any():
            notes.insert(0, f"ring: the machine at which a {scene.item} was just submitted")
        if scene.has_columns and (scene.cores == 1).any():
            piece = "job" if scene.item == "job" else "task"
            notes.insert(0, f"boxes of machines: how much of the running {piece} is done (dark)")
        if scene.raster is None and not scene.has_columns and scene.largest_queue:
            tasks = f"{scene.largest_queue:,} task{'' if scene.largest_queue == 1 else 's'}"
            notes.insert(0, f"the bar below a machine is its queue, of up to {tasks}")
        if scene.raster is None and applications > len(APPLICATION_COLOURS):
            notes.insert(0, f"{applications:,} {scene.item}s in {len(APPLICATION_COLOURS)} repeated colours")
        return tuple(notes)

    @property
    def _height(self) -> int:
        """Height of the frame in a notebook before its script adapts it, px."""
        return 760 if self.scene.has_columns else 700

    @cached_property
    def _data(self) -> dict[str, Any]:
        """The data of a page, with times as whole units from the beginning."""
        scene, span = self.scene, self.scene.end - self.scene.begin
        unit = span / _UNITS

        def units(times: ArrayLike) -> np.ndarray:
            relative = (np.asarray(times, np.float64) - scene.begin) / unit
            return np.rint(np.clip(np.nan_to_num(relative), -_UNITS, 2 * _UNITS)).astype(np.int64)

        def steps(values: np.ndarray) -> list[int]:
            return list(map(int, np.diff(values, prepend=0)))

        data: dict[str, Any] = {
            "begin": scene.begin,
            "unit": unit,
            "span": _UNITS,
            "machines": scene.machines,
            "servers": scene.servers,
            "cores": compact(scene.cores),
            "order": scene.order.tolist(),
            "rigid": scene.rigid,
            "columns": scene.has_columns,
            "item": scene.item,
            "colours": APPLICATION_COLOURS,
            "inks": [text_colour(colour) for colour in APPLICATION_COLOURS],
            "applications": {
                "names": scene.names.tolist(),
                "release": units(scene.release).tolist(),
                "tasks": scene.tasks.tolist(),
                "submitter": scene.submitter.tolist(),
            },
            "outages": {
                "machine": scene.outages[0].tolist(),
                "begin": units(scene.outages[1]).tolist(),
                "end": units(scene.outages[2]).tolist(),
            },
            "pace": {
                "play": [round(value, 4) for value in self.pace.play.tolist()],
                "time": units(self.pace.time).tolist(),
            },
            "bars": scene.has_bars,
            "largest_queue": scene.largest_queue,
            "tree": None,
            "pieces": None,
            "queues": None,
            "messages": None,
            "kinds": None,
            "raster": None,
        }
        if len(scene.levels):
            data["tree"] = {"levels": scene.levels.tolist(), "positions": scene.positions.tolist()}
        if (pieces := scene.pieces) is not None:
            start = units(pieces.start)
            data["pieces"] = {
                "machine": pieces.machine.tolist(),
                "application": pieces.application.tolist(),
                "tasks": pieces.tasks.tolist(),
                "start": steps(start),
                "length": (units(pieces.end) - start).tolist(),
                "completed": (pieces.completed * 1).tolist(),
                "cores": compact(pieces.cores),
            }
        if scene.arrivals is not None:
            time, machine, application, change = scene.arrivals
            columns = {"machine": machine, "application": application, "change": change}
            data["queues"] = {"time": steps(units(time))} | {
                name: column.tolist() for name, column in columns.items()
            }
        if (messages := scene.messages) is not None:
            sent = units(messages.sent)
            data["kinds"] = messages.kinds
            # a reader can show them
            hidden = np.setdiff1d(messages.kind, messages.kind[messages.in_tree])
            data["hidden"] = hidden.tolist()
            data["messages"] = {
                "kind": messages.kind.tolist(),
                "sender": messages.sender.tolist(),
                "receiver": messages.receiver.tolist(),
                "sent": steps(sent),
                "travel": (units(messages.until) - sent).tolist(),
                "lost": (messages.is_lost * 1).tolist(),
                "application": messages.application.tolist(),
                "main": (messages.is_main * 1).tolist(),
                "tasks": messages.tasks.tolist(),
            }
        if (raster := scene.raster) is not None:
            share = np.rint(255 * raster.share.T).astype(np.uint8)
            data["raster"] = {
                "machines": raster.machines.tolist(),
                "intervals": len(raster.edges) - 1,
                "share": base64.b64encode(share.tobytes()).decode(),
                "colours": SHADES,
            }
        return data


#: The style sheet and the script of animations in a page.
STYLE, SCRIPT = _FOLDER / "player.css", _FOLDER / "player.js"
#: Endings of the files of animations.
ENDINGS = ("html", "gif")


def check_ending(name: str, path: StrPath) -> str:
    """Return the ending of the file of an animation; raise ScenarioError if it is neither HTML nor GIF."""
    ending = os.path.splitext(os.fspath(path))[1].lower().removeprefix(".")
    if ending not in ENDINGS:
        raise ScenarioError(f"{name} must end in .html or .gif, got {os.fspath(path)!r}")
    return ending


def compact(values: np.ndarray) -> list[int]:
    """Return values as a list, of one entry if they are all equal."""
    first: list[int] = values[:1].tolist()
    return first if (values == values[:1]).all() else values.tolist()


def animate(result: Result, *, messages: bool | None = None, seconds: float | None = None) -> Animation:
    """Return an animation of a recorded run.

    Each machine shows the tasks that it runs, in the colour of their application or job, those that wait in
    its queue, and whether it is down.  A fair tree of up to 128 machines is drawn as a tree, with requests
    that climb and are divided on their way down.  Messages are drawn if the run recorded them
    (``record="all"``, or ``["schedule", "messages"]``); with decisions, they show their number of tasks.
    While messages about applications travel, time passes more slowly.

    Up to 128 machines are columns; more are cells of a grid.  With more than 2,000 machines or 50,000 pieces
    of work, the animation shows the utilization of groups of machines.  A note states what is not drawn.

    Parameters
    ----------
    result
        A run with ``record=True``, or with more recordings.
    messages
        Whether to draw messages; None to draw them if they are recorded.
    seconds
        Duration of playing, s; None for one that fits the messages, and 8 s for a GIF.

    Returns
    -------
    Animation
        Its `save` writes a page (.html) or a GIF, and notebooks display it.

    Raises
    ------
    ScenarioError
        If the schedule was not recorded, or messages are required and were not recorded.
    """
    if seconds is not None:
        seconds = real("seconds", seconds, above=0, unit="s")
    return Animation(scene_of(result, messages), seconds)
