"""Elements of a page as a tree, of which the standard library makes the text: no name of a database can become markup.

Elements are :mod:`xml.etree.ElementTree`'s; texts are escaped where they are written. Control characters, which neither HTML nor SVG may
hold, are shown as the replacement character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
Child = Element | str | None
"""What an element holds: elements, texts, and None for nothing."""


def node(tag: str, *children: Child, **attributes: str | float | None) -> Element:
    """An element.

    Args:
        tag: its name.
        children: in order.
        attributes: by name; ``_`` stands for ``-`` within a name, and one at the end is left away (``class_``). Of None there is no
            attribute.

    >>> text_of(node("p", "a < b ", node("b", "c"), class_="note", data_x=1.5))
    '<p class="note" data-x="1.5">a &lt; b <b>c</b></p>'
    >>> text_of(node("p", "<script>", title='"><script>'))
    '<p title="&quot;&gt;&lt;script&gt;">&lt;script&gt;</p>'
    """
    named = {
        name.rstrip("_").replace("_", "-"): _printable(value)
        for name, value in attributes.items()
        if value is not None
    }
    made = Element(tag, named)
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif child:
            text = _printable(child)
            if last is None:
                made.text = (made.text or "") + text
            else:
                last.tail = (last.tail or "") + text
    return made


def text_of(element: Element) -> str:
    """The text of an element and all in it."""
    # As XML: the serializer of HTML leaves angle brackets in attributes as they are. Empty elements of a page need their end tags.
    return ElementTree.tostring(element, encoding="unicode", method="xml", short_empty_elements=False)


def _printable(value: str | float) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return _UNPRINTABLE.sub("\ufffd", text)


def table(
    caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()
) -> Element:
    """A table with a caption, whose first cells name their rows, in a region that scrolls where it is too wide.

    Args:
        caption: what it shows.
        headers: of the columns.
        rows: texts of the cells.
        numeric: numbers of the columns that hold numbers.
    """
    right = set(numeric)

    def kind(column: int) -> str | None:
        return "number" if column in right else None

    head = [node("th", name, scope="col", class_=kind(column)) for column, name in enumerate(headers)]
    body = []
    for row in rows:
        first, *others = row
        cells = [node("td", text, class_=kind(column)) for column, text in enumerate(others, 1)]
        body.append(node("tr", node("th", first, scope="row", class_=kind(0)), *cells))
    made = node("table", node("caption", caption), node("thead", node("tr", *head)), node("tbody", *body))
    return node("div", made, class_="wide", role="region", aria_label=caption, tabindex="0")


def details(summary: str, key: str, *children: Child) -> Element:
    """What is folded away until somebody asks for it; ``key`` names it in the page."""
    return node("details", node("summary", summary), *children, id=key)
