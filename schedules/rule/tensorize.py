"""MultiLevelTilingWithIntrin: tile a block so that the innermost tile is a tensor intrinsic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ir import tir

from ..annotation import AUTO_TENSORIZE, TILING_STRUCTURE
from ..block_facts import node_of, reduce_vars, stands_alone
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import loops_around
from .base import unless_refused
from .multi_level_tiling import MultiLevelTiling, ReuseType, TiledBlock


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Offer, where a block's innermost loops are multiples of an intrinsic's, the block tiled for it.

    The tile becomes a block of its own (see ``blockize``), annotated with the intrinsic; the loops outside it are tiled as
    :class:`MultiLevelTiling` tiles those of a block.

    Args:
        intrin_name: a registered tensor intrinsic.
        structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write, filter_fn: as there.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str = "SSRSRS",
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = 64,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | Mapping[str, Any] | None = None,
        reuse_write: ReuseType | Mapping[str, Any] | None = None,
        filter_fn: Callable[[Schedule, BlockRV], bool] | None = None,
    ) -> None:
        super().__init__(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write, filter_fn
        )
        if tir.TensorIntrin.get(intrin_name, allow_missing=True) is None:
            raise ScheduleError(
                f"{type(self).__name__}: no tensor intrinsic {intrin_name!r} is registered;"
                f" there are {tir.TensorIntrin.names()}"
            )
        self.intrin_name = intrin_name

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if not stands_alone(node_of(sch, block)):
            return [sch]
        if self.filter_fn is not None and not self.filter_fn(sch, block):
            return [sch]
        if not reduce_vars(node_of(sch, block)):
            return [sch]
        return [*unless_refused(sch, partial(self._tiled, block=block)), sch]

    def _tiled(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        unit = blockize_for(sch, block, self.intrin_name)
        if unit is None:
            return []
        sch.annotate(unit, TILING_STRUCTURE, self.structure)
        return [state.sch for state in self._states(TiledBlock(sch, unit))]


def blockize_for(sch: Schedule, block: BlockRV, intrin_name: str) -> BlockRV | None:
    """The tile of an intrinsic as a block annotated with it; None where the intrinsic does not fit the block's inner loops."""
    intrin = tir.TensorIntrin.get(intrin_name)
    assert intrin is not None
    extents = _tile_extents(intrin.desc)
    nodes = loops_around(node_of(sch, block))
    head = len(nodes) - len(extents)
    if not extents or head < 0:
        return None
    # a tile with open decisions is a multiple if the rule made it one
    if not all(
        not isinstance(loop.extent, tir.IntImm) or loop.extent.value % extent == 0
        for loop, extent in zip(nodes[head:], extents, strict=True)
    ):
        return None
    loops = sch.get_loops(block)
    outer: list[LoopRV] = []
    tile: list[LoopRV] = []
    for loop, extent in zip(loops[head:], extents, strict=True):
        rest, part = sch.split(loop, [None, extent])
        outer.append(rest)
        tile.append(part)
    try:
        sch.reorder(*outer, *tile)
        unit = sch.blockize(tile[0])
    except ScheduleError:
        return None  # the loops cannot be brought into the intrinsic's order
    sch.annotate(unit, AUTO_TENSORIZE, intrin_name)
    return unit


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
