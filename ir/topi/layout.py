"""Data layouts as text, ``NCHW`` or ``NCHW4c``, and the index arithmetic between two of them.

An upper-case letter is a whole axis; a number and the same letter in lower case is its inner part of that size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..error import IRValueError
from ..tir.operators import convert, floordiv, floormod


@dataclass(frozen=True)
class Layout:
    """A parsed layout: ``axes`` holds (letter, size); the size of a whole (upper-case) axis is 0.

    >>> parse_layout("NCHW4c").axes
    (('N', 0), ('C', 0), ('H', 0), ('W', 0), ('c', 4))
    """

    name: str
    axes: tuple[tuple[str, int], ...]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    def index_of(self, letter: str) -> int:
        """Position of an axis, -1 when the layout lacks it."""
        for position, (name, _) in enumerate(self.axes):
            if name == letter:
                return position
        return -1

    def factor_of(self, letter: str) -> int:
        """Product of the inner sizes of an axis, 1 when it is not split."""
        total = 1
        for name, size in self.axes:
            if size and name.upper() == letter.upper():
                total *= size
        return total

    def merge(self, indices: Sequence[Any]) -> dict[str, Any]:
        """The index along each whole axis, from indices in this layout."""
        found: dict[str, Any] = {}
        for (name, size), index in zip(self.axes, indices, strict=True):
            letter = name.upper()
            if not size:
                found[letter] = index * self.factor_of(letter) if self.factor_of(letter) != 1 else index
        remaining = {letter: self.factor_of(letter) for letter in found}
        for (name, size), index in zip(self.axes, indices, strict=True):
            if size:
                letter = name.upper()
                remaining[letter] //= size
                step = remaining[letter]
                found[letter] = found[letter] + (index * step if step != 1 else index)
        return found

    def split(self, whole: dict[str, Any]) -> list[Any]:
        """Indices in this layout, from the index along each whole axis."""
        remaining = {name.upper(): self.factor_of(name) for name, _ in self.axes}
        result: list[Any] = []
        for name, size in self.axes:
            letter = name.upper()
            index = convert(whole[letter])
            if not size:
                result.append(floordiv(index, self.factor_of(letter)))
            else:
                remaining[letter] //= size
                part = floordiv(index, remaining[letter])
                outermost = remaining[letter] * size == self.factor_of(letter) and self.index_of(letter) < 0
                result.append(part if outermost else floormod(part, size))
        return result


def parse_layout(name: str) -> Layout:
    """Parse a layout; raises IRValueError for a letter used twice or an inner part without its whole axis."""
    axes: list[tuple[str, int]] = []
    position = 0
    for match in re.finditer(r"(\d*)([A-Za-z])", name):
        if match.start() != position:
            break
        position = match.end()
        size, letter = match.groups()
        if bool(size) != letter.islower():
            raise IRValueError(
                f"layout {name!r}: {match.group()!r} must be an upper-case letter or a size and a lower-case one"
            )
        axes.append((letter, int(size or 0)))
    if position != len(name):
        raise IRValueError(f"layout {name!r} cannot be read at {name[position:]!r}")
    letters = [letter for letter, _ in axes]
    whole = {letter for letter in letters if letter.isupper()}
    if len(whole) != sum(letter.isupper() for letter in letters):
        raise IRValueError(f"layout {name!r} names an axis twice")
    lone = {letter for letter in letters if letter.islower() and letter.upper() not in whole}
    if lone:
        raise IRValueError(f"layout {name!r} has an inner part {sorted(lone)} without its whole axis")
    return Layout(name, tuple(axes))


@dataclass(frozen=True)
class BijectiveLayout:
    """The mapping between two layouts of the same axes."""

    source: Layout
    target: Layout

    def forward_index(self, indices: Sequence[Any]) -> list[Any]:
        """Indices in the target layout of an element given by its indices in the source layout."""
        return self.target.split(self.source.merge(indices))

    def backward_index(self, indices: Sequence[Any]) -> list[Any]:
        """Indices in the source layout of an element given by its indices in the target layout."""
        return self.source.split(self.target.merge(indices))

    def forward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the target layout; extents that a factor does not divide are rounded up."""
        whole = _whole_extents(self.source, shape)
        result: list[Any] = []
        for name, size in self.target.axes:
            factor = self.target.factor_of(name)
            extent = whole[name.upper()]
            result.append(size or floordiv(convert(extent) + (factor - 1), factor))
        return result

    def backward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the source layout."""
        return BijectiveLayout(self.target, self.source).forward_shape(shape)


def _whole_extents(layout: Layout, shape: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (name, size), extent in zip(layout.axes, shape, strict=True):
        if not size:
            found[name] = extent * layout.factor_of(name) if layout.factor_of(name) != 1 else extent
    return found


def bijective_layout(src_layout: str, dst_layout: str) -> BijectiveLayout:
    """The mapping between two layouts; raises IRValueError when their axes differ."""
    source, target = parse_layout(src_layout), parse_layout(dst_layout)
    if {name.upper() for name, _ in source.axes} != {name.upper() for name, _ in target.axes}:
        raise IRValueError(f"layouts {src_layout!r} and {dst_layout!r} have different axes")
    return BijectiveLayout(source, target)
