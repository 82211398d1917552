"""MultiLevelTilingTensorCore: multi-level tiling around a group of tensor intrinsics that load, compute and store fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ir import tir
from ir.tir.thread_axis import WARP_EXECUTION

from ..annotation import AUTO_TENSORIZE_INIT, TILING_STRUCTURE
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from .base import unless_refused
from .block_facts import node_of, reduce_vars, stands_alone
from .multi_level_tiling import MultiLevelTiling, ReuseType, TiledBlock
from .tensorize import blockize_for

ROLES = ("init", "load_a", "load_b", "compute", "store")


class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Offer, for each group of intrinsics that fits a block, the block tiled for them.

    The results of a tile are accumulated in a fragment (of the scope that the group's ``compute`` writes), and operands are loaded
    into fragments under the innermost reduction loop; each of these steps is a block annotated with its intrinsic.

    Args:
        intrin_groups: per group the names of the registered intrinsics "init", "load_a", "load_b", "compute" and "store".
        structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write: as :class:`MultiLevelTiling`'s;
            ``reuse_write`` says behind which level fragments are stored.
        use_software_pipeline: annotate the loop around the loads as a pipeline of two stages.
    """

    def __init__(
        self,
        intrin_groups: Sequence[Mapping[str, str]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | Mapping[str, Any] | None = None,
        reuse_write: ReuseType | Mapping[str, Any] | None = None,
        use_software_pipeline: bool = False,
    ) -> None:
        super().__init__(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write
        )
        for group in intrin_groups:
            missing = [role for role in ROLES if role not in group]
            if missing:
                raise ScheduleError(f"MultiLevelTilingTensorCore: a group of intrinsics lacks {missing}")
            for role in ROLES:
                if tir.TensorIntrin.get(group[role], allow_missing=True) is None:
                    raise ScheduleError(
                        f"MultiLevelTilingTensorCore: no tensor intrinsic {group[role]!r} ({role}) is registered"
                    )
        self.intrin_groups = [dict(group) for group in intrin_groups]
        self.use_software_pipeline = use_software_pipeline

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not stands_alone(node) or not reduce_vars(node):
            return [sch]
        found: list[Schedule] = []
        for group in self.intrin_groups:
            found += unless_refused(sch, partial(self._tile_group, block=block, group=group))
        return found or [sch]

    def _tile_group(self, sch: Schedule, block: BlockRV, group: Mapping[str, str]) -> list[Schedule]:
        unit = blockize_for(sch, block, group["compute"])
        if unit is None:
            return []
        sch.annotate(unit, TILING_STRUCTURE, self.structure)
        sch.annotate(unit, AUTO_TENSORIZE_INIT, group["init"])
        sch.annotate(unit, WARP_EXECUTION, 1)
        state = TiledBlock(sch, unit)
        self._tile_loops(state)
        level = self.reuse_write.levels[0] if self.reuse_write.levels else self.structure.index("R")
        self._store_fragment(state, level, group)
        state = self._cache_operands(state)
        self._load_fragments(state, group)
        if self.use_software_pipeline:
            self._pipeline(state)
        return [state.sch]

    def _store_fragment(self, state: TiledBlock, level: int, group: Mapping[str, str]) -> None:
        scope = _scope_of(group["compute"])
        copy = state.sch.cache_write(state.block, 0, scope)
        state.sch.reverse_compute_at(copy, self._place(state, level), preserve_unit_loops=True)
        if blockize_for(state.sch, copy, group["store"]) is None:
            raise ScheduleError(f"{group['store']} does not fit the tile")

    def _load_fragments(self, state: TiledBlock, group: Mapping[str, str]) -> None:
        place = self._last_reduction(state)
        written = {region.buffer for region in node_of(state.sch, state.block).writes}
        reads = node_of(state.sch, state.block).reads
        operands = [i for i, region in enumerate(reads) if region.buffer not in written]
        for position, role in zip(operands, ("load_a", "load_b"), strict=True):
            scope = _scope_of(group[role])
            copy = state.sch.cache_read(state.block, position, scope)
            state.sch.compute_at(copy, place, preserve_unit_loops=True)
            if blockize_for(state.sch, copy, group[role]) is None:
                raise ScheduleError(f"{group[role]} does not fit the tile")

    def _last_reduction(self, state: TiledBlock) -> LoopRV:
        """The innermost loop of the last reduction level."""
        level = len(self.structure) - 1 - self.structure[::-1].index("R")
        return state.levels[level][-1]

    def _pipeline(self, state: TiledBlock) -> None:
        """Load the fragments of one step while the last one is computed with."""
        loop = self._last_reduction(state)
        state.sch.annotate(loop, "software_pipeline_stage", [0, 0, 1])
        state.sch.annotate(loop, "software_pipeline_order", [0, 1, 2])


def _scope_of(intrin_name: str) -> str:
    """The storage scope of what an intrinsic's description writes."""
    intrin = tir.TensorIntrin.get(intrin_name)
    assert intrin is not None
    assert isinstance(intrin.desc.body, tir.BlockRealize)
    root = intrin.desc.body.block
    regions = root.writes
    return str(regions[0].buffer.scope()) if regions else "global"
