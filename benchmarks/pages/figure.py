"""The parts of the page: a section, and in it figures, each with a sentence that says how to read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from benchmarks.pages.markup import Content, tag


@dataclass(frozen=True)
class Section:
    """A subject of the page; `id` is where the contents point."""

    id: str
    title: str
    parts: Sequence[Element]

    def html(self) -> Element:
        return tag("section", tag("h2", self.title), *self.parts, id=self.id)


def figure(title: str, read: str, *content: Element) -> Element:
    """`read`: how to read it."""
    caption = tag("figcaption", tag("h3", title), tag("p", read, class_="read"))
    return tag("figure", caption, *content)


def panels(shown: Iterable[tuple[Content, Element]], *, pairs: bool = False) -> Element:
    """Small drawings side by side, each under its title: as many as there is room for, or two and two."""
    drawn = [tag("div", tag("h4", title), drawing) for title, drawing in shown]
    return tag("div", *drawn, class_="panels pairs" if pairs else "panels")


def key_of(entries: Iterable[tuple[str, str]]) -> Element:
    """What classes of colour mean."""
    items = [tag("li", tag("span", class_=f"swatch {class_}"), f" {text}") for class_, text in entries]
    return tag("ul", *items, class_="legend")


def note(*content: Content) -> Element:
    return tag("p", *content, class_="note")
