"""MultiLevelTilingWideVector: multi-level tiling whose vector axis always has tiles of one long vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir import dtype as dt
from ir import tir

from ..block_facts import contiguous_var
from ..error import ScheduleError
from ..random_variable import LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode
from .multi_level_tiling import MultiLevelTiling, ReuseType


class MultiLevelTilingWideVector(MultiLevelTiling):
    """Multi-level tiling in which the output's contiguous axis is split by the vector length, and sampled outside of that.

    Args:
        structure: as :class:`MultiLevelTiling`'s.
        vector_length_in_bits: of the target's vectors.
        max_innermost_factor, reuse_read, reuse_write: as there.
    """

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: ReuseType | Mapping[str, Any] | None = None,
        reuse_write: ReuseType | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(structure, None, max_innermost_factor, None, reuse_read, reuse_write)
        if vector_length_in_bits < 8:
            raise ScheduleError(
                f"MultiLevelTilingWideVector: vectors of {vector_length_in_bits} bits hold no element"
            )
        self.vector_length_in_bits = vector_length_in_bits

    def _split(self, sch: Schedule, node: BlockNode, loop: LoopRV, item: LoopNode, n: int) -> list[LoopRV]:
        var = contiguous_var(node)
        lanes = self.vector_length_in_bits // dt.bits(node.writes[0].buffer.dtype)
        bound = dict(zip([axis.var for axis in node.iter_vars], node.iter_values, strict=True))
        extent = item.extent.value if isinstance(item.extent, tir.IntImm) else 0
        if n < 2 or not extent >= lanes > 1 or bound.get(var) is not item.var:
            return super()._split(sch, node, loop, item, n)
        outer, vector = sch.split(loop, [None, lanes])
        whole = -(-extent // lanes)
        if n == 2:
            return [outer, vector]
        limit = self.max_innermost_factor or whole
        return [*sch.split(outer, sch.sample_perfect_tile(outer, n - 1, limit)), vector]
