"""Small charts as SVG: an area with two scales, and lines, dots and bars in it.

Colours come from the page's style sheet by classes, so that one drawing serves light and dark. Every chart has a title and a description
for those who do not see it; a table beside it has the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from .markup import node

WIDTH, HEIGHT = 460.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 74.0, 12.0, 12.0, 40.0
_MOST_DOTS = 2000
"""Of one series; of more, each n-th is drawn."""
_PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}

Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis.

    Attributes:
        low, high: the values at its ends, ``low < high``; positive where the scale is logarithmic.
        begin, end: the places of these.
    """

    low: float
    high: float
    begin: float
    end: float
    is_logarithmic: bool = False
    is_whole: bool = False
    """Whether values are whole numbers, so that ticks are, too."""

    def place(self, value: float) -> float:
        """Where a value is; what is beyond an end is at it."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.begin + (self.end - self.begin) * (at - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values within the scale, five or so.

        >>> Scale(0.0, 10.0, 0.0, 1.0).ticks()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        >>> Scale(1e-3, 1.0, 0.0, 1.0, is_logarithmic=True).ticks()
        [0.001, 0.01, 0.1, 1.0]
        """
        if self.is_logarithmic:
            found = self._logarithmic_ticks()
            if len(found) >= 3:
                return found
        raw = (self.high - self.low) / 5
        step = 10.0 ** math.floor(math.log10(raw))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw * 0.999)
        step = max(step, 1.0) if self.is_whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{number * step:.12g}") for number in range(first, last + 1)]

    def _logarithmic_ticks(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for factors in ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
            values = [float(f"{factor}e{power}") for power in powers for factor in factors]
            found = [value for value in values if self.low <= value <= self.high]
            if len(found) >= 3:
                break
        return found[:: math.ceil(len(found) / 7) or 1]


def linear(values: Sequence[float], begin: float, end: float) -> Scale:
    """A scale from 0 that holds all values."""
    return Scale(0.0, max([*values, 0.0]) or 1.0, begin, end)


def counting(count: int, begin: float, end: float) -> Scale:
    """A scale of the whole numbers up to a count."""
    return Scale(0.0, float(max(count, 1)), begin, end, is_whole=True)


def logarithmic(values: Sequence[float], begin: float, end: float) -> Scale:
    """A logarithmic scale that holds all values, which are positive, with some room."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    room = max((high / low) ** 0.05, 1.05)
    return Scale(low / room, high * room, begin, end, is_logarithmic=True)


def quantity(value: float, unit: str) -> str:
    """A value with a prefix for its size.

    >>> quantity(2.34e-05, "s"), quantity(0.0, "s"), quantity(1.5e11, "FLOP/s"), quantity(0.5, "")
    ('23.4 µs', '0 s', '150 GFLOP/s', '0.5')
    """
    if not unit or value == 0 or not math.isfinite(value):
        return f"{value:.4g} {unit}".rstrip()
    power = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), -4), 5)
    digits = f"{value / 1000.0**power:.3g}"
    return f"{digits} {_PREFIXES[power]}{unit}".rstrip()


class Chart:
    """One chart; what is drawn later covers what was drawn before.

    Args:
        title: what it shows.
        description: what can be seen in it, in a sentence.
        x_label, y_label: of the axes.
        x, y: the scales; :meth:`x_range` and :meth:`y_range` are the places that they are to reach over.
        x_unit, y_unit: of the values, for the texts at the ticks.
    """

    x_range = (_LEFT, WIDTH - _RIGHT)
    y_range = (HEIGHT - _BOTTOM, _TOP)

    def __init__(
        self,
        title: str,
        description: str,
        x: Scale,
        y: Scale,
        *,
        x_label: str,
        y_label: str,
        x_unit: str = "",
        y_unit: str = "",
    ) -> None:
        self._title, self._description = title, description
        self._x, self._y = x, y
        self._parts = [*self._axes(x_label, y_label, x_unit, y_unit)]

    def _axes(self, x_label: str, y_label: str, x_unit: str, y_unit: str) -> list[Element]:
        (left, right), (bottom, top) = self.x_range, self.y_range
        parts = []
        for value in self._y.ticks():
            at = self._y.place(value)
            parts.append(node("path", d=f"M{left:.1f} {at:.1f}H{right:.1f}", class_="grid"))
            parts.append(node("text", quantity(value, y_unit), x=left - 6, y=at + 4, class_="end"))
        for value in self._x.ticks():
            at = self._x.place(value)
            parts.append(node("path", d=f"M{at:.1f} {bottom:.1f}V{top:.1f}", class_="grid"))
            parts.append(node("text", quantity(value, x_unit), x=at, y=bottom + 15, class_="middle"))
        parts.append(node("path", d=f"M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}", class_="axis"))
        parts.append(node("text", x_label, x=(left + right) / 2, y=HEIGHT - 6, class_="middle label"))
        middle = (top + bottom) / 2
        turn = f"rotate(-90 11 {middle:.1f})"
        parts.append(node("text", y_label, x=11, y=middle, transform=turn, class_="middle label"))
        return parts

    def steps(self, points: Sequence[Point], end: float, kind: str) -> None:
        """A line that keeps each value until the next point, and the last one until ``end``."""
        if not points:
            return
        places = [(self._x.place(x), self._y.place(y)) for x, y in points]
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        path += "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
        self._parts.append(node("path", d=f"{path}H{self._x.place(end):.1f}", class_=f"line {kind}"))

    def line(self, points: Sequence[Point], kind: str) -> None:
        """Straight lines from point to point."""
        places = [f"{self._x.place(x):.1f} {self._y.place(y):.1f}" for x, y in points]
        self._parts.append(node("path", d="M" + "L".join(places), class_=f"line {kind}"))

    def dots(self, points: Sequence[Point], kind: str) -> None:
        """Many dots as one path, so that thousands take little room."""
        kept = points[:: math.ceil(len(points) / _MOST_DOTS) or 1]
        places = "".join(f"M{self._x.place(x):.1f} {self._y.place(y):.1f}h0" for x, y in kept)
        if places:
            self._parts.append(node("path", d=places, class_=f"dots {kind}"))

    def ticks_below(self, values: Sequence[float], kind: str) -> None:
        """Short strokes on the axis below, at values."""
        bottom = self.y_range[0]
        kept = values[:: math.ceil(len(values) / _MOST_DOTS) or 1]
        path = "".join(f"M{self._x.place(x):.1f} {bottom:.1f}v-7" for x in kept)
        if path:
            self._parts.append(node("path", d=path, class_=f"strokes {kind}"))

    def named_dot(self, point: Point, name: str, kind: str) -> None:
        """A dot that says its name where a pointer rests on it."""
        x, y = self._x.place(point[0]), self._y.place(point[1])
        self._parts.append(node("circle", node("title", name), cx=x, cy=y, r=4.5, class_=kind))

    def bar(self, low: float, high: float, value: float, name: str, kind: str) -> None:
        """A bar from 0 to ``value`` between two values of the other axis."""
        begin, end, top = self._x.place(low), self._x.place(high), self._y.place(value)
        width, height = max(0.5, end - begin - 1), self.y_range[0] - top
        made = node("rect", node("title", name), x=begin, y=top, width=width, height=height, class_=kind)
        self._parts.append(made)

    def figure(self) -> Element:
        """The chart as an image with its title and description."""
        return image(self._title, self._description, WIDTH, HEIGHT, self._parts)


def image(title: str, description: str, width: float, height: float, parts: Sequence[Element]) -> Element:
    """An SVG image that says what it shows."""
    label = f"{title}. {description}"
    return node("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label)


def share_bars(
    title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], kinds: Sequence[str]
) -> Element:
    """Horizontal bars, one per row, each of parts that lie side by side.

    Args:
        title: what they show.
        rows: name, and (what, value, text for a pointer that rests on it) for each part.
        kinds: classes of the parts, in their order.
    """
    longest = max((sum(value for _, value, _ in parts) for _, parts in rows), default=0.0) or 1.0
    drawn: list[Element] = []
    for number, (name, parts) in enumerate(rows):
        at, y = 0.0, 34.0 * number
        drawn.append(node("text", shortened(name, 48), x=0, y=y + 12))
        if len(parts) == 1:
            drawn.append(node("text", parts[0][2], x=WIDTH, y=y + 12, class_="end"))
        for (what, value, text), kind in zip(parts, kinds):
            width = value / longest * WIDTH
            if width > 0:
                drawn.append(
                    node(
                        "rect",
                        node("title", f"{what}: {text}"),
                        x=at,
                        y=y + 16,
                        width=width,
                        height=12,
                        class_=kind,
                    )
                )
            at += width
    described = "; ".join(
        f"{name}: " + ", ".join(f"{what} {text}" for what, value, text in parts if value > 0)
        for name, parts in rows
    )
    return image(title, described, WIDTH, max(34.0 * len(rows), 1.0), drawn)


def shortened(text: str, length: int) -> str:
    """A text of at most so many characters; one that is cut ends in an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
