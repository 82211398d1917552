"""MultiLevelTilingWithIntrin: tile a block so that the innermost tile is a tensor intrinsic."""

from __future__ import annotations

from typing import Any

from ir import tir

from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import loops_around
from .base import ScheduleRule
from .block_facts import node_of, reduce_vars

AUTO_TENSORIZE = "meta_schedule.auto_tensorize"
"""On blocks: the intrinsic that :class:`~schedules.postproc.RewriteTensorize` puts in their place."""


class MultiLevelTilingWithIntrin(ScheduleRule):
    """Offer, where a block's innermost loops are multiples of an intrinsic's, the block tiled for it.

    The tile becomes a block of its own (see ``blockize``), annotated with the intrinsic; loops outside it are tiled once more
    with sampled factors, and the outermost run in parallel.

    Args:
        intrin_name: a registered tensor intrinsic.
        max_innermost_factor: bound of the sampled inner factors.
    """

    def __init__(self, intrin_name: str, max_innermost_factor: int = 64) -> None:
        if tir.TensorIntrin.get(intrin_name, allow_missing=True) is None:
            raise ScheduleError(
                f"MultiLevelTilingWithIntrin: no tensor intrinsic {intrin_name!r} is registered;"
                f" there are {sorted(tir.TensorIntrin.registry)}"
            )
        self.intrin_name = intrin_name
        self.max_innermost_factor = max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        intrin = tir.TensorIntrin.get(self.intrin_name)
        assert intrin is not None
        extents = _tile_extents(intrin.desc)
        node = node_of(sch, block)
        loops = loops_around(node)
        if not extents or len(loops) < len(extents) or not reduce_vars(node):
            return [sch]
        inner = loops[len(loops) - len(extents) :]
        fits = all(
            isinstance(loop.extent, tir.IntImm) and loop.extent.value % extent == 0
            for loop, extent in zip(inner, extents, strict=True)
        )
        if not fits or any(loop.annotations for loop in loops):
            return [sch]
        tiled = sch.copy()
        try:
            self._tile(tiled, block, extents)
        except ScheduleError:
            return [sch]  # the loops cannot be brought into the intrinsic's order
        return [tiled, sch]

    def _tile(self, sch: Schedule, block: BlockRV, extents: list[int]) -> None:
        loops = sch.get_loops(block)
        head = len(loops) - len(extents)
        outer: list[LoopRV] = list(loops[:head])
        tile: list[LoopRV] = []
        for loop, extent in zip(loops[head:], extents, strict=True):
            rest, part = sch.split(loop, [None, extent])
            outer.append(rest)
            tile.append(part)
        sch.reorder(*outer, *tile)
        node = node_of(sch, block)
        if node.init is not None:
            init = sch.decompose_reduction(block, self._first_reduction(sch, block))
            del init
        unit = sch.blockize(tile[0])
        sch.annotate(unit, AUTO_TENSORIZE, self.intrin_name)
        spatial = [loop for loop in sch.get_loops(unit) if _is_spatial(sch, unit, loop)]
        if spatial:
            factors = sch.sample_perfect_tile(spatial[0], 2, self.max_innermost_factor)
            first, _ = sch.split(spatial[0], factors)
            del first

    def _first_reduction(self, sch: Schedule, block: BlockRV) -> LoopRV:
        for loop in sch.get_loops(block):
            if not _is_spatial(sch, block, loop):
                return loop
        raise ScheduleError("MultiLevelTilingWithIntrin: the reduction runs over no loop")


def _is_spatial(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    from ..affine import mentions

    node = node_of(sch, block)
    reductions = set(reduce_vars(node))
    var = sch.get(loop).loop_var
    return not any(
        item.var in reductions and mentions(value, {var})
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
    )


def _tile_extents(desc: tir.PrimFunc) -> list[int]:
    """The extents of the loops of an intrinsic's description, outermost first; empty when they are not constant."""
    extents: list[int] = []
    stmt: Any = desc.body
    while True:
        if isinstance(stmt, tir.BlockRealize):
            if stmt.block.iter_vars:
                return extents
            stmt = stmt.block.body
        elif isinstance(stmt, tir.For):
            if not isinstance(stmt.extent, tir.IntImm):
                return []
            extents.append(stmt.extent.value)
            stmt = stmt.body
        else:
            return extents
