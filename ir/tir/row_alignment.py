"""Where the rows of an allocated buffer begin, as a schedule asks (``storage_align``) of the block that fills the buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

BUFFER_DIM_ALIGN = "buffer_dim_align"
"""Of a block: the :class:`RowAlignment` of what it writes, as plain tuples."""


class RowAlignment(NamedTuple):
    """From one index of an axis to the next lie ``offset`` elements, modulo ``factor``.

    Attributes:
        position: of the buffer among what the block writes.
        axis: of the buffer.
        factor, offset: in elements.
    """

    position: int
    axis: int
    factor: int
    offset: int

    def step(self, dense: Any) -> Any:
        """The least such step that is not below ``dense``, a number or an array of numbers.

        >>> [RowAlignment(0, 0, 32, 1).step(extent) for extent in (20, 32, 33, 34)]
        [33, 33, 33, 65]
        """
        return dense + (self.offset - dense) % self.factor


def row_alignments(annotations: Mapping[str, Any]) -> list[RowAlignment]:
    """Those of a block with some annotations."""
    return [
        RowAlignment(*(int(getattr(item, "value", item)) for item in entry))
        for entry in annotations.get(BUFFER_DIM_ALIGN, ())
    ]
