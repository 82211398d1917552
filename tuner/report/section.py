"""What sections of a page have in common: a heading, a drawing with a caption, and how times and shares are written."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ir.time_interval import milliseconds

from .markup import Child, node

MOST_NAMED = 40
"""Kernels that are bars of their own; tables have all."""
SERIES = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8")
"""Classes of the parts of bars, by which the style sheet colours them."""


def section(key: str, title: str, *children: Child) -> Element:
    """A section of the page; ``key`` names it in links."""
    return node(
        "section", node("h2", title, id=f"{key}-title"), *children, id=key, aria_labelledby=f"{key}-title"
    )


def nothing(text: str) -> Element:
    """A sentence in the place of a drawing."""
    return node("p", text, class_="nothing")


def figure(drawing: Element, caption: str, *below: Child) -> Element:
    """A drawing with its caption above."""
    return node("figure", node("figcaption", caption), drawing, *below)


def ms(secs: float | None) -> str:
    """Milliseconds, or a dash."""
    return "-" if secs is None else milliseconds(secs)


def percent(share: float | None) -> str:
    """A share in percent, or a dash."""
    return "-" if share is None else f"{share:.1%}"
