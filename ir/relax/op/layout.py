"""Shapes in named layouts (``NCHW``, ``NHWC``, ``NCHW4c``): to and from the canonical order of the axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ...error import IRValueError
from ...tir.expr import PrimExpr
from .inference import int64, simplify


@lru_cache(maxsize=None)
def axes_of(layout: str) -> tuple[tuple[str, int], ...]:
    """(letter, factor) per axis; the factor is 0 for whole (upper-case) axes.

    >>> axes_of("NCHW4c")
    (('N', 0), ('C', 0), ('H', 0), ('W', 0), ('c', 4))
    """
    found = re.findall(r"(\d*)([A-Za-z])", layout)
    if "".join(number + letter for number, letter in found) != layout or not found:
        raise IRValueError(f"layout {layout!r} is malformed; expected for example 'NCHW' or 'NCHW4c'")
    axes = []
    for number, letter in found:
        if letter.islower() != bool(number):
            raise IRValueError(f"layout {layout!r}: inner axes are lower-case with a factor, such as 4c")
        axes.append((letter, int(number) if number else 0))
    return tuple(axes)


def check_layout(op: str, name: str, layout: str, canonical: str) -> None:
    """Raise unless the layout has exactly the whole axes of the canonical one."""
    whole = sorted(letter for letter, factor in axes_of(layout) if not factor)
    if whole != sorted(canonical):
        raise IRValueError(f"{op}: {name} {layout!r} must have the axes {', '.join(canonical)}")


def canonical_shape(layout: str, shape: Sequence[PrimExpr], canonical: str) -> list[PrimExpr]:
    """The extents in the order of the canonical layout, inner axes merged into theirs."""
    if layout == canonical:
        return list(shape)
    extents: dict[str, PrimExpr] = {}
    for (letter, _), dim in zip(axes_of(layout), shape, strict=True):
        key = letter.upper()
        extents[key] = simplify(extents[key] * dim) if key in extents else dim
    return [extents[letter] for letter in canonical]


def shape_in(layout: str, canonical: str, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The extents of a canonical shape in another layout."""
    if layout == canonical:
        return list(shape)
    extents = dict(zip(canonical, shape, strict=True))
    for letter, factor in axes_of(layout):
        if factor:
            key = letter.upper()
            extents[key] = simplify(extents[key] // factor)
    return [int64(factor) if factor else extents[letter] for letter, factor in axes_of(layout)]
