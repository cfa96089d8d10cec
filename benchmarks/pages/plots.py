"""Plots as SVG: lines, columns in time, bars, dots. Colours and type are the page's; every mark says what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import Scale, linear
from benchmarks.pages.formats import number
from benchmarks.pages.markup import put, tag

COLOURS = 6
GAP = 14
"""Between the numbers at the ends of lines."""


@dataclass(frozen=True)
class Size:
    """Of a drawing: `wide` or `narrow`, as the screen is; `small` in pairs and `tiny` in threes, on any screen."""

    name: str
    width: int
    height: int


WIDE, NARROW = Size("wide", 1000, 400), Size("narrow", 400, 330)
SMALL, TINY = Size("small", 460, 250), Size("tiny", 320, 210)


def both(draw: Callable[[Size], Element]) -> list[Element]:
    """A drawing for wide and one for narrow screens."""
    return [draw(WIDE), draw(NARROW)]


def colour(i: int) -> str:
    """The class of the i-th thing of a plot; the second round of colours is dashed."""
    return f"c{i % COLOURS}" + (" dashed" if i >= COLOURS else "")


def legend(names: Sequence[str]) -> Element:
    items = [tag("li", key(i), f" {name}") for i, name in enumerate(names)]
    return tag("ul", *items, class_="legend")


def key(i: int) -> Element:
    """The mark of the i-th line beside its name."""
    return tag("span", str(i + 1), class_=f"key {colour(i)}")


class Frame:
    """An SVG with its axes drawn, ready for marks. `told`: what it shows, for those who cannot see it."""

    def __init__(
        self, size: Size, x: Scale, y: Scale, titles: tuple[str, str], told: str, *, named: Sequence[str] = ()
    ) -> None:
        """`named`: words under equal parts of the x axis in place of its ticks."""
        self._x, self._y = x, y
        self.left = 16 + max(text_width(text) for _, text in y.ticks)
        self.right, self.top, self.bottom = size.width - 18.0, 30.0, size.height - 46.0
        self.svg = tag("svg", class_=size.name, viewBox=f"0 0 {size.width} {size.height}", role="img", aria_label=told)
        for value, text in y.ticks:
            at = self.y(value)
            self.add("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="grid")
            self.write(text, self.left - 8, at + 4, "end")
        if named:
            step = (self.right - self.left) / len(named)
            for i, text in enumerate(named):
                self.write(text, self.left + (i + 0.5) * step, self.bottom + 18, "middle")
        else:
            self._ticks()
        self.add("line", x1=self.left, x2=self.right, y1=self.bottom, y2=self.bottom, class_="axis")
        self.write(titles[1], 2, 14, "start", "title")
        self.write(titles[0], self.right, size.height - 6, "end", "title")

    def _ticks(self) -> None:
        free = 0.0
        for value, text in self._x.ticks:
            at, half = self.x(value), text_width(text) / 2
            self.add("line", x1=at, x2=at, y1=self.bottom, y2=self.bottom + 4, class_="axis")
            if at - half >= free:
                self.write(text, at, self.bottom + 18, "middle")
                free = at + half + 6

    def x(self, value: float) -> float:
        return self.left + self._x.part(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self._y.part(value) * (self.bottom - self.top)

    def add(self, name: str, *content: Element | str, **attributes: object) -> None:
        self.svg.append(tag(name, *content, **attributes))

    def write(self, text: str, x: float, y: float, anchor: str, class_: str = "tick") -> None:
        self.add("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)

    def level(self, value: float, text: str, *, above: bool = False) -> None:
        """A line across, such as the SLO's; what it is stands at the line, or `above` all that is drawn."""
        at = self.y(value)
        self.add("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="mark")
        if above:
            start = self.right - 1.2 * text_width(text) - 6
            self.add("line", x1=start - 26, x2=start, y1=10, y2=10, class_="mark")
            self.write(text, self.right, 14, "end", "marked")
        else:
            self.write(text, self.left + 6, at - 6 if at > self.top + 16 else at + 16, "start", "marked")

    def upright(self, value: float, text: str) -> None:
        """A line upwards, such as a capacity's."""
        at = self.x(value)
        self.add("line", x1=at, x2=at, y1=self.top, y2=self.bottom, class_="mark")
        side = "start" if at < (self.left + self.right) / 2 else "end"
        self.write(text, at, self.top - 4, side, "marked")

    def line(
        self, points: Sequence[tuple[float, float]], i: int, told: str, *, steps: bool = False, thick: bool = False
    ) -> None:
        """A line of colour `i`; with `steps` each value holds from the point before to its own."""
        drawn: list[str] = []
        for x, y in points:
            right, up = f"{self.x(x):.1f}", f"{self.y(y):.1f}"
            move = [f"M{right} {up}"] if not drawn else [f"V{up}", f"H{right}"] if steps else [f"L{right} {up}"]
            if move != drawn[-len(move) :]:
                drawn += move
        self.add("path", tag("title", told), d="".join(drawn), class_=f"line {colour(i)}" + " thick" * thick)

    def dot(self, x: float, y: float, class_: str, told: str, *, cross: bool = False) -> None:
        """A mark of one point: a circle, or a cross."""
        at, up = self.x(x), self.y(y)
        if cross:
            shape = f"M{at - 5:.1f} {up - 5:.1f}l10 10m0 -10l-10 10"
            self.add("path", tag("title", told), d=shape, class_=f"cross {class_}")
        else:
            self.add("circle", tag("title", told), cx=at, cy=up, r=5, class_=f"dot {class_}")

    def ends(self, ends: Sequence[tuple[float, float]]) -> None:
        """Number the ends of lines, where the numbers do not touch."""
        taken: list[tuple[float, float]] = []
        for i in sorted(range(len(ends)), key=lambda i: -self.y(ends[i][1])):
            at, up = self.x(ends[i][0]) - 10, self.y(ends[i][1]) - 6
            while near := [b for a, b in taken if abs(a - at) < GAP and abs(b - up) < GAP]:
                up = min(near) - GAP
            taken.append((at, up))
            self.write(str(i + 1), at, up, "middle", f"end {colour(i)}")


def stacks(
    frame: Frame, columns: Sequence[tuple[str, Sequence[tuple[str, float]]]], *, gap: float = 0.15, most: float = 60.0
) -> None:
    """Columns over equal parts of the x axis: for each, what it is, and (class, height) from below."""
    step = (frame.right - frame.left) / len(columns)
    width = min(most, step * (1 - gap))
    for i, (told, parts) in enumerate(columns):
        group, base = tag("g", tag("title", told)), 0.0
        for class_, height in parts:
            low, high = frame.y(base), frame.y(base + height)
            if low - high > 0:
                at = frame.left + (i + 0.5) * step - width / 2
                put(group, tag("rect", x=at, y=high, width=width, height=low - high, class_=f"fill {class_}"))
            base += height
        frame.svg.append(group)


@dataclass(frozen=True)
class Bar:
    """A named value with its class of colour; None is drawn as nothing measured."""

    name: str
    value: float | None
    class_: str


def bars(
    size: Size, rows: Sequence[Bar], unit: str, *, mark: tuple[float, str] | None = None, highest: float = 0
) -> Element:
    """Bars to the right, each under its name. `mark`: a line through all; `highest`: of other drawings beside it."""
    step, top = 40, 26 if mark else 6
    height = top + step * len(rows) + 4
    values = [row.value for row in rows if row.value is not None]
    end = size.width - 12 - max([text_width(number(v)) for v in values], default=0)
    scale = linear(max([highest, *values, mark[0] if mark else 0.0]))
    told = ", ".join(f"{row.name}: {number(row.value)} {unit}" for row in rows)
    svg = tag("svg", class_=size.name, viewBox=f"0 0 {size.width} {height}", role="img", aria_label=told)
    words = []  # over the line through all
    for i, row in enumerate(rows):
        y = top + i * step
        width = max(1.0, scale.part(row.value) * end) if row.value is not None else 0.0
        shown = "not measured" if row.value is None else number(row.value)
        put(svg, tag("rect", x=0, y=y + 18, width=width, height=15, rx=2, class_=f"fill {row.class_}"))
        words.append(tag("text", row.name, x=0, y=y + 13, class_=f"name {row.class_}"))
        words.append(tag("text", shown, x=width + 6 if width else 0, y=y + 30, class_="value"))
    if mark:
        at = scale.part(mark[0]) * end
        put(svg, tag("line", x1=at, x2=at, y1=18, y2=height, class_="mark"))
        words.append(tag("text", mark[1], x=at, y=12, text_anchor="start" if at < end / 2 else "end", class_="marked"))
    put(svg, *words)
    return svg


def text_width(text: str) -> float:
    """About as wide as the page writes small text."""
    return sum(12.0 if east_asian_width(c) in "WF" else 6.8 for c in text)
