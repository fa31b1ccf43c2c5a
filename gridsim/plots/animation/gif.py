"""Animations as GIFs, drawn with Pillow, which matplotlib requires, in the fonts of matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from gridsim.plots.animation.pace import Pace
from gridsim.plots.animation.scenes import SHADES, Scene, State
from gridsim.plots.style import APPLICATION_COLOURS, text_colour
from gridsim.support.imports import import_extra

#: Frames are drawn this many times larger, and then reduced, so that edges are smooth.
_SCALE = 2
#: Seconds for which the last frame stays.
_LAST_SECONDS = 1.2
#: Opacities of colours on the background.
_ALPHAS = (1.0, 0.82, 0.65, 0.5, 0.45, 0.3, 0.15)
#: Height of the cell of a machine, of the queues, and of the bar of an application, px.
_CELL, _QUEUE, _BAR = 26, 104, 20
#: Seconds of playing for which a release or a transient failure stays marked.
_MARK_SECONDS = 0.6

Point = tuple[float, float]


@dataclass(frozen=True)
class Theme:
    """Colours of the background, of text and of lines."""

    background: str
    text: str
    faint: str
    line: str
    surface: str


LIGHT = Theme("#ffffff", "#1b1f24", "#525b66", "#c9d0d7", "#f0f2f5")
DARK = Theme("#14171c", "#e6e9ed", "#a7b0bb", "#414954", "#1d2229")


def gif(scene: Scene, pace: Pace, *, width: int, dark: bool, frames_per_second: float) -> bytes:
    """Return an animation as a GIF that repeats, with the options of `Animation.save`."""
    image = import_extra("PIL.Image", "plot", "a GIF")
    duration = max(20, 10 * round(100 / frames_per_second))  # GIFs count hundredths of a second
    count = max(2, round(1000 * pace.seconds / duration))
    painter = Painter(scene, pace, width, DARK if dark else LIGHT)
    frames = [painter.frame(play) for play in np.linspace(0.0, pace.seconds, count)]
    palette = image.new("P", (1, 1))
    palette.putpalette([value for colour in painter.palette() for value in _rgb(colour)])
    indexed = [each.quantize(palette=palette, dither=image.Dither.NONE) for each in frames]
    durations = [duration] * (count - 1) + [round(1000 * _LAST_SECONDS)]
    stream = io.BytesIO()
    indexed[0].save(
        stream, format="GIF", save_all=True, append_images=indexed[1:], duration=durations, loop=0,
        optimize=True, disposal=1,
    )  # fmt: skip
    return stream.getvalue()


class Painter:
    """Draws the frames of an animation.

    Parameters
    ----------
    width
        Width of a frame, px; the height follows from the contents.
    """

    def __init__(self, scene: Scene, pace: Pace, width: int, theme: Theme) -> None:
        self.scene, self.pace = scene, pace
        self.width, self.theme = width, theme
        self.colours, self.inks = APPLICATION_COLOURS, tuple(map(text_colour, APPLICATION_COLOURS))
        self.has_tree = bool(len(self.scene.levels))
        self.depth = int(self.scene.levels.max(initial=0))
        self.top = 34.0
        scene, machines = self.scene, self.scene.machines
        self.column = np.argsort(scene.order)
        self.has_bars = scene.has_bars
        self.bars_across = 1 if width < 600 or len(scene.tasks) < 3 else 2
        if scene.has_columns:
            self.left = 66.0
            self.pitch = min(96.0, (width - self.left - 10) / machines)
            self.x = self.left + (width - self.left - 10 - self.pitch * machines) / 2
            self.level = min(52.0, max(26.0, 210 / max(1, self.depth)))
            servers = 96.0 if scene.servers else 76.0
            band = self.depth * self.level if self.has_tree else servers if scene.messages else 4.0
            self.cells = self.top + 14 + band
            self.queue = min(_QUEUE, 9.0 * scene.largest_queue)
            self.bottom = self.cells + _CELL + 20 + (self.queue + 16 if self.queue else 0)
        else:
            count = machines if scene.raster is None else len(scene.raster.machines)
            self.left = self.x = 10.0
            room = width - 20
            self.across = max(1, math.ceil(math.sqrt(count * room / min(400.0, room * 0.6))))
            self.pitch = min(36.0, room / self.across)
            self.cells = self.top + (40 if scene.servers and scene.messages else 4)
            self.bottom = self.cells + math.ceil(count / self.across) * self.pitch
        rows = math.ceil(len(scene.tasks) / self.bars_across) if self.has_bars else 0
        legend = 24 if scene.raster is not None else 0
        self.height = round(self.bottom + 12 + rows * _BAR + legend + 26)
        self.image = import_extra("PIL.Image", "plot", "a GIF")
        self.canvas = import_extra("PIL.ImageDraw", "plot", "a GIF")

    # -- parts --------------------------------------------------------------------------------------------

    def palette(self) -> list[str]:
        """Return the colours of all frames: those that are drawn, and their blends at smooth edges."""
        theme, scene = self.theme, self.scene
        bases = [theme.text, theme.faint, theme.line]
        if scene.raster is None:
            bases += self.colours[: len(scene.tasks)]
        blends = [self.pale(colour, alpha) for colour in bases for alpha in _ALPHAS]
        shades = SHADES if scene.raster is not None else ()
        return list(dict.fromkeys((theme.background, theme.surface, *blends, *shades)))

    def frame(self, play: float) -> Any:
        """Return the frame at a playing time (s), an image of Pillow."""
        time = float(self.pace.times(play))
        size = self.width * _SCALE, self.height * _SCALE
        picture = self.image.new("RGB", size, self.theme.background)
        self.draw = self.canvas.Draw(picture)
        scene = self.scene
        digits = 2 if scene.end - scene.begin < 7200 else 0
        self.text(f"t = {time:,.{digits}f} s", (self.width - 10, 16), anchor="rm", size=14, bold=True)
        self.text(self.scene.title, (10, 16), anchor="lm", size=13)
        if scene.raster is not None:
            summary = self.draw_raster(time)
        else:
            state = scene.state(time)
            if scene.servers and scene.messages is not None:
                self.draw_servers()
            (self.draw_columns if scene.has_columns else self.draw_grid)(state, time)
            self.draw_messages(time)
            self.draw_marks(time, play)
            if self.has_bars:
                self.draw_bars(state, time)
            queued = f", {int(state.queued.sum())} queued" if self.scene.largest_queue else ""
            down = int((~state.is_up).sum())
            summary = (
                f"tasks: {int(state.running_tasks.sum())} running{queued}, {int(state.pending.sum())} "
                f"waiting elsewhere, {int(state.done.sum())} done"
                + (f"; {down} machine{'s' * (down > 1)} down" if down else "")
            )
        self.text(summary, (10, self.height - 13), anchor="lm", size=12, colour=self.theme.faint)
        return picture.reduce(_SCALE)

    def place(self, node: int) -> Point:
        """Return the centre of a node of the tree, a machine or a server."""
        scene, machines = self.scene, self.scene.machines
        if self.has_tree:
            is_leaf = node >= machines - 1
            y = self.cells + _CELL / 2 if is_leaf else self.top + 14 + float(scene.levels[node]) * self.level
            return self.x + (float(scene.positions[node]) + 0.5) * self.pitch, y
        if node >= machines:
            return self.width * (node - machines + 0.5) / scene.servers, self.top + 12
        if scene.has_columns:
            return self.x + (int(self.column[node]) + 0.5) * self.pitch, self.cells + _CELL / 2
        row, column = divmod(node, self.across)
        return self.x + (column + 0.5) * self.pitch, self.cells + (row + 0.5) * self.pitch

    def draw_columns(self, state: State, time: float) -> None:
        """Draw the tree, the machines and their queues."""
        scene, machines, theme = self.scene, self.scene.machines, self.theme
        gap = min(10.0, self.pitch * 0.14) if self.pitch > 8 else 1.0 if self.pitch > 3 else 0.0
        if self.has_tree:
            for node in range(1, len(scene.levels)):
                a, b = self.place(node)
                end = self.place((node - 1) // 2)
                self.line((a, self.cells if node >= machines - 1 else b), end, theme.line, 1.5)
            self.label("routers", self.top + 14)
        self.label("machines", self.cells + _CELL / 2)
        if self.queue:
            self.label("queued", self.cells + _CELL + 26)
        height = self.queue / max(1, self.scene.largest_queue)
        every = 1 if self.pitch >= 16 else 5 if self.pitch >= 6 else 10
        for machine in range(machines):
            left = self.x + int(self.column[machine]) * self.pitch + gap / 2
            width = self.pitch - gap
            self.draw_cell(machine, state, time, (left, self.cells, width, _CELL))
            if int(self.column[machine]) % every == 0:
                centre = left + width / 2, self.cells + _CELL + 10
                self.text(str(machine), centre, size=11, colour=theme.faint)
            y = self.cells + _CELL + 20
            low, high = np.searchsorted(state.queues[0], (machine, machine + 1))
            stack = [column[low:high].tolist() for column in state.queues[1:]]
            for application, tasks in zip(*stack, strict=True):
                is_divided = height >= 4
                for _ in range(tasks if is_divided else 1):
                    block = height if is_divided else tasks * height
                    self.box(
                        (left + width * 0.1, y, width * 0.8, block - is_divided), self.colour(application)
                    )
                    y += block
            total = sum(stack[1])
            if total and self.pitch >= 20:
                self.text(str(total), (left + width / 2, y + 8), size=11)

    def draw_grid(self, state: State, time: float) -> None:
        """Draw machines as cells, each with a bar for its queue."""
        gap = 2.0 if self.pitch > 12 else 1.0 if self.pitch > 5 else 0.0
        inner = self.pitch - gap
        bar = max(1.5, inner * 0.2) if self.scene.largest_queue else 0.0
        machines, _, tasks = state.queues
        totals = np.bincount(machines, tasks, self.scene.machines) / max(1, self.scene.largest_queue)
        for machine in range(self.scene.machines):
            x, y = (centre - self.pitch / 2 for centre in self.place(machine))
            self.draw_cell(machine, state, time, (x, y, inner, inner - bar))
            if bar and totals[machine]:
                self.box(
                    (x, y + inner - bar + 0.5, inner * float(totals[machine]), bar - 0.5), self.theme.faint
                )

    def draw_cell(
        self, machine: int, state: State, time: float, area: tuple[float, float, float, float]
    ) -> None:
        """Draw what a machine runs: the cores that each piece uses, and the progress of a single task."""
        x, y, width, height = area
        pieces, cores = self.scene.pieces, int(self.scene.cores[machine])
        assert pieces is not None
        self.box(area, self.theme.surface, self.theme.line if width > 5 else None)
        used = 0.0
        for k in self.running_on(machine, state):
            part = float(pieces.cores[k]) / cores
            colour = self.colour(int(pieces.application[k]))
            cell = (x, y + height * (1 - used - part), width, height * part)
            if cores == 1 and self.scene.has_columns:
                tasks = 1 if pieces.at_once else int(pieces.tasks[k])
                share = (time - pieces.start[k]) / max(pieces.end[k] - pieces.start[k], 1e-12) * tasks % 1.0
                self.box(cell, self.pale(colour, 0.45))
                self.box((x, cell[1], width * float(share), cell[3]), colour)
            else:
                self.box(cell, colour, self.theme.background if cell[3] > 4 and width > 5 else None)
            used += part
        if not state.is_up[machine]:
            self.box(area, self.theme.faint)
            if width > 8:
                centre = x + width / 2, y + height / 2
                self.cross(centre, min(width, height) / 4, self.theme.background)

    def running_on(self, machine: int, state: State) -> list[int]:
        """Return the pieces that run on a machine in a state."""
        pieces = self.scene.pieces
        assert pieces is not None
        rows: list[int] = state.running[pieces.machine[state.running] == machine].tolist()
        return rows

    def draw_raster(self, time: float) -> str:
        """Draw the utilization of groups of machines; return a summary."""
        raster = self.scene.raster
        assert raster is not None
        intervals = raster.share.shape[1]
        interval = min(intervals - 1, max(0, int(np.searchsorted(raster.edges, time, side="right")) - 1))
        share, gap = raster.share[:, interval], 1.0 if self.pitch > 6 else 0.0
        for group, value in enumerate(share.tolist()):
            row, column = divmod(group, self.across)
            corner = self.x + column * self.pitch, self.cells + row * self.pitch
            shade = SHADES[round(value * (len(SHADES) - 1))]
            self.box((*corner, self.pitch - gap, self.pitch - gap), shade)
        for k, shade in enumerate(SHADES):
            self.box((46 + 14 * k, self.bottom + 10, 14, 12), shade)
        self.text("0 %", (40, self.bottom + 16), anchor="rm", size=11, colour=self.theme.faint)
        end = 52 + 14 * len(SHADES), self.bottom + 16
        self.text("100 % busy", end, anchor="lm", size=11, colour=self.theme.faint)
        mean = float((share * raster.machines).sum() / raster.machines.sum())
        return f"{100 * mean:.0f} % of the time of the machines busy"

    def draw_servers(self) -> None:
        """Draw the servers of the scheduler."""
        for k in range(self.scene.servers):
            x, y = self.place(self.scene.machines + k)
            self.box((x - 42, y - 10, 84, 20), self.theme.surface, self.theme.faint)
            self.text(f"scheduler {k}" if self.scene.servers > 1 else "scheduler", (x, y), size=11)

    def draw_routers(self) -> None:
        """Draw the routers of the tree, with their names if there is room."""
        radius = min(10.0, max(2.5, self.pitch * 0.28))
        for node in range(self.scene.machines - 1 if self.has_tree else 0):
            self.circle(self.place(node), radius, self.theme.background, self.theme.faint)
            if radius >= 8:
                self.text(f"r{node}", self.place(node), size=10, colour=self.theme.faint)

    def draw_messages(self, time: float) -> None:
        """Draw the messages that travel, dots with their numbers of tasks on lines, and the routers."""
        if (messages := self.scene.messages) is None:
            self.draw_routers()
            return
        dots: list[tuple[Point, int, bool, bool]] = []
        for k in np.flatnonzero(
            (messages.sent <= time) & (time < messages.until) & messages.in_tree
        ).tolist():
            sender, receiver = int(messages.sender[k]), int(messages.receiver[k])
            (a, b), (c, d) = self.place(sender), self.place(receiver)
            is_edge = self.has_tree and min(sender, receiver) < self.scene.machines - 1
            height = 0.0
            if self.scene.has_columns:
                height = 0.0 if is_edge else min(60.0, 14 + abs(a - c) * 0.25)
                b, d = min(b, self.cells), min(d, self.cells)
            points = [
                (a + (c - a) * s, b + (d - b) * s - 4 * height * s * (1 - s)) for s in np.linspace(0, 1, 17)
            ]
            application, is_main = int(messages.application[k]), bool(messages.is_main[k])
            if is_main:
                pale = self.pale(self.colour(application), 0.5)
                for start, end in pairwise(points if height else points[:: len(points) - 1]):
                    self.line(start, end, pale, 2.5 if is_edge else 1.2)
            share = float((time - messages.sent[k]) / (messages.until[k] - messages.sent[k]))
            is_lost = bool(messages.is_lost[k])
            reach = share / 2 if is_lost else share
            place = a + (c - a) * reach, b + (d - b) * reach - 4 * height * reach * (1 - reach)
            dots.append((place, k, is_main, is_lost and share > 0.5))
        self.draw_routers()
        for place, k, is_main, has_cross in dots:
            application, tasks = int(messages.application[k]), int(messages.tasks[k])
            is_large = tasks > 0 and self.pitch >= 20 and self.scene.has_columns
            colour = self.colour(application) if application >= 0 else self.theme.faint
            self.circle(place, 9 if is_large else 4 if is_main else 2.3, colour, None)
            if is_large:
                ink = self.inks[application % len(self.inks)]
                self.text(str(tasks), place, size=10 if tasks < 100 else 8, colour=ink, bold=True)
            if has_cross:
                self.cross(place, 4, self.theme.text)

    def draw_marks(self, time: float, play: float) -> None:
        """Mark machines at which an application was just submitted, or that just failed for an instant."""
        scene, leaves = self.scene, self.scene.machines - 1 if self.has_tree else 0
        ages = play - self.pace.plays(scene.release)
        is_recent = (
            (scene.release <= time) & (ages <= _MARK_SECONDS) & (scene.submitter >= 0) & (scene.tasks > 0)
        )
        for k in np.flatnonzero(is_recent).tolist():
            share = float(ages[k]) / _MARK_SECONDS
            colour = self.pale(self.colour(k), 1 - share)
            self.circle(self.place(int(scene.submitter[k]) + leaves), 8 + 22 * share, None, colour, 3)
        machine, begin, end = scene.outages
        ages = play - self.pace.plays(begin)
        for k in np.flatnonzero((begin == end) & (begin <= time) & (ages <= _MARK_SECONDS)).tolist():
            self.cross(self.place(int(machine[k]) + leaves), 6, self.theme.text)

    def draw_bars(self, state: State, time: float) -> None:
        """Draw a bar for the tasks of each application: done, running and queued."""
        scene, theme = self.scene, self.theme
        rows = math.ceil(len(scene.tasks) / self.bars_across)
        wide = self.width / self.bars_across
        scale = (wide - 200) / max(1, int(scene.tasks.max(initial=1)))
        for k, tasks in enumerate(scene.tasks.tolist()):
            x, y = 10 + (k // rows) * wide, self.bottom + 12 + (k % rows) * _BAR
            self.text(f"{scene.item} {scene.names[k]}", (x, y + 7), anchor="lm", size=11)
            left = x + 88
            self.box((left, y, max(1.0, tasks * scale), 13), theme.surface)
            start = left
            for count, alpha in (
                (state.done[k], 1.0),
                (state.running_tasks[k], 0.65),
                (state.queued[k], 0.3),
            ):
                if count:
                    self.box((start, y, float(count) * scale, 13), self.pale(self.colour(k), alpha))
                    start += float(count) * scale
            is_released = bool(scene.release[k] <= time)
            outline = theme.faint if is_released else theme.line
            self.box((left, y, max(1.0, tasks * scale), 13), None, outline)
            note = f"{state.done[k]}/{tasks} done" if is_released else "submitted later"
            self.text(note, (left + tasks * scale + 6, y + 7), anchor="lm", size=11, colour=theme.faint)

    # -- shapes -------------------------------------------------------------------------------------------

    def colour(self, application: int) -> str:
        return self.colours[application % len(self.colours)]

    def pale(self, colour: str, alpha: float) -> str:
        """Return a colour with opacity `alpha` on the background."""
        pairs = zip(_rgb(colour), _rgb(self.theme.background), strict=True)
        return "#" + "".join(f"{round(alpha * a + (1 - alpha) * b):02x}" for a, b in pairs)

    def label(self, text: str, y: float) -> None:
        self.text(text, (6, y), anchor="lm", size=11, colour=self.theme.faint)

    def text(
        self,
        text: str,
        at: Point,
        *,
        anchor: str = "mm",
        size: int = 12,
        colour: str = "",
        bold: bool = False,
    ) -> None:
        font = _font(size * _SCALE, bold)
        place = at[0] * _SCALE, at[1] * _SCALE
        self.draw.text(place, text, fill=colour or self.theme.text, font=font, anchor=anchor)

    def box(
        self, area: tuple[float, float, float, float], fill: str | None, outline: str | None = None
    ) -> None:
        x, y, width, height = (value * _SCALE for value in area)
        if width >= 1 and height >= 1:
            corners = (round(x), round(y), round(x + width) - 1, round(y + height) - 1)
            if corners[2] >= corners[0] and corners[3] >= corners[1]:
                self.draw.rectangle(corners, fill=fill, outline=outline, width=_SCALE)

    def line(self, start: Point, end: Point, colour: str, width: float) -> None:
        ends = [(x * _SCALE, y * _SCALE) for x, y in (start, end)]
        self.draw.line(ends, fill=colour, width=max(1, round(width * _SCALE)))

    def circle(
        self, centre: Point, radius: float, fill: str | None, outline: str | None, width: float = 1.2
    ) -> None:
        x, y, r = (value * _SCALE for value in (*centre, radius))
        corners = (x - r, y - r, x + r, y + r)
        self.draw.ellipse(corners, fill=fill, outline=outline, width=max(1, round(width * _SCALE)))

    def cross(self, centre: Point, size: float, colour: str) -> None:
        x, y = centre
        for sign in (-1, 1):
            self.line((x - size, y - sign * size), (x + size, y + sign * size), colour, 2)


@lru_cache(maxsize=32)
def _font(size: int, bold: bool) -> Any:
    """Return a font of matplotlib, for text of `size` px."""
    folder: Callable[[], str] = import_extra("matplotlib", "plot", "a GIF").get_data_path
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return import_extra("PIL.ImageFont", "plot", "a GIF").truetype(f"{folder()}/fonts/ttf/{name}", size)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))
