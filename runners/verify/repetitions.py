"""Arrays that repeat some base values: to draw more would take longer than most kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SHIFT = 25_620
"""So many elements further on does the second repetition begin, the third twice as many further than that, and so on: two of them are
alike at another distance than any other two, and at a prime number of elements, which is no distance of rows."""


def fill(flat: Array, base: Array) -> None:
    """Repeat the base values to the end of an array, each time from another element on: no elements are alike by their distance."""
    for part, values in _repetitions(flat, base):
        part[...] = values


def _repetitions(flat: Array, base: Array) -> Iterator[tuple[Array, Array]]:
    """The parts of an array, and what :func:`fill` puts there."""
    for number, start in enumerate(range(0, flat.size, max(base.size, 1))):
        first = _first(number, base.size)
        for begin, values in ((start, base[first:]), (start + base.size - first, base[:first])):
            part = flat[begin : begin + values.size]
            yield part, values[: part.size]


def place_of(flat: Any, size: int) -> Any:
    """Where in base values of a size the element at a place of an array comes from, or those at several places."""
    number = flat // size
    return (_first(number, size) + flat % size) % size


def _first(number: Any, size: int) -> Any:
    """Which of the base values a repetition begins with."""
    return number * (number + 1) // 2 * _SHIFT % size


def changed(flat: Array, base: Array) -> int | None:
    """The first element that is no longer what :func:`fill` put there, compared by bits."""
    width = f"u{flat.dtype.itemsize}"
    begin = 0
    for part, values in _repetitions(flat, base):
        same = part.view(width) == values.view(width)
        if not same.all():
            return begin + int(np.argmin(same))
        begin += part.size
    return None
