"""HTML and SVG as a tree: what comes from files can only be text or the value of an attribute in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from xml.etree.ElementTree import Element, tostring

TEMPLATE = Path(__file__).with_name("page.html")

Content = Element | str


def tag(name: str, *content: Content, **attributes: object) -> Element:
    """An element. `class_` and `text_anchor` become "class" and "text-anchor"; attributes of None are left out."""
    made = Element(name)
    for key, value in attributes.items():
        if value is not None:
            made.set(key.rstrip("_").replace("_", "-"), f"{value:.1f}" if isinstance(value, float) else str(value))
    put(made, *content)
    return made


def put(parent: Element, *content: Content) -> None:
    """Append elements and text, in order."""
    for part in content:
        if not isinstance(part, str):
            parent.append(part)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + part
        else:
            parent.text = (parent.text or "") + part


def table(
    name: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, left: int = 1, strong: Iterable[int] = ()
) -> Element:
    """A table that scrolls on narrow screens; the first `left` columns are words, the rows `strong` stand out."""
    marked = set(strong)

    def cells(kind: str, row: Sequence[Content]) -> list[Element]:
        return [tag(kind, cell, class_=None if i < left else "number") for i, cell in enumerate(row)]

    lines = []
    for number, row in enumerate(rows):
        first, *others = cells("td", row)
        heading = tag("th", *_content(first), scope="row")
        lines.append(tag("tr", heading, *others, class_="strong" if number in marked else None))
    heads = [tag("th", *_content(cell), scope="col", class_=cell.get("class")) for cell in cells("th", head)]
    made = tag("table", tag("caption", name), tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=name)


def _content(element: Element) -> list[Content]:
    return [element.text or "", *element]


def details(title: str, *content: Content) -> Element:
    """Something that is closed until somebody wants it."""
    return tag("details", tag("summary", title), *content)


def page(title: str, body: Iterable[Element]) -> str:
    """The whole document. What UTF-8 cannot carry (halves of pairs, from JSON's escapes) becomes "?"."""
    shown = "\n".join(tostring(element, encoding="unicode", method="html") for element in body)
    made = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(title=escape(title), body=shown)
    return made.encode("utf-8", errors="replace").decode("utf-8")
