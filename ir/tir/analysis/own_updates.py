"""What a block updates and does not state to read: where it has an init it need not (``[region]`` in docs/semantics.md), for the init comes
first. Whoever takes an init away, or puts it elsewhere, lets the block state this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...structural import structural_equal
from ..buffer import Buffer
from ..stmt import BufferRegion


def own_updates(
    reads: Sequence[BufferRegion], writes: Sequence[BufferRegion], updated: Collection[Buffer]
) -> list[BufferRegion]:
    """What is written of some buffers, and not stated to be read."""
    return [
        region
        for region in writes
        if region.buffer in updated and not any(structural_equal(region, read) for read in reads)
    ]
