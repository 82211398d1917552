"""MultiLevelTilingTensorCore: multi-level tiling around a group of tensor intrinsics that load, compute and store fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.thread_axis import WARP_EXECUTION
from ir.tir.transform.pipeline_parts import ASYNC_STAGES, ORDER, STAGE

from ..annotation import AUTO_TENSORIZE_INIT, TILING_STRUCTURE
from ..error import ScheduleError
from ..primitive.tensorize import fits_description
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tensorize_mapping import get_tensorize_loop_mapping
from .base import unless_refused
from .block_facts import node_of, reduce_vars, stands_alone
from .device_limits import keep_within_device, product_of
from .multi_level_tiling import MultiLevelTiling, ReuseType, TiledBlock, read_by_loops
from .tensorize import blockize_for

_BANKS_BYTES = 128
"""Bytes that all banks of shared memory give at once."""
_MOST_PADDED = 2
"""Times the work of a product that its tiles may have; tensor cores are several times as fast as other units."""
ROLES = ("init", "load_a", "load_b", "compute", "store")


class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Offer, for each group of intrinsics that fits a block, the block tiled for them.

    The results of a tile are accumulated in a fragment (of the scope that the group's ``compute`` writes), and operands are loaded
    into fragments under the innermost reduction loop; each of these steps is a block annotated with its intrinsic. Extents that are no
    multiples of a tile's are padded with zeros.

    Args:
        intrin_groups: per group the names of the registered intrinsics "init", "load_a", "load_b", "compute" and "store".
        structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write: as :class:`MultiLevelTiling`'s;
            ``reuse_write`` says behind which level fragments are stored.
        use_software_pipeline: annotate the loop around the loads as a pipeline of two stages; where the target has asynchronous
            copies, also the one around the copies to shared memory.
        keeps_block: whether the block without tensor cores is offered, too, for rules that follow.
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
        keeps_block: bool = False,
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
        self.keeps_block = keeps_block

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not stands_alone(node) or not reduce_vars(node):
            return [sch]
        found: list[Schedule] = []
        for group in self.intrin_groups:
            found += unless_refused(sch, partial(self._tile_group, block=block, group=group))
        return [*found, sch] if self.keeps_block or not found else found

    def _tile_group(self, sch: Schedule, block: BlockRV, group: Mapping[str, str]) -> list[Schedule]:
        compute = tir.TensorIntrin.get(group["compute"])
        assert compute is not None
        if not _pad_to_tiles(sch, block, compute):
            return []
        unit = blockize_for(sch, block, group["compute"])
        if unit is None or not fits_description(node_of(sch, unit), compute):
            return []
        sch.annotate(unit, TILING_STRUCTURE, self.structure)
        sch.annotate(unit, AUTO_TENSORIZE_INIT, group["init"])
        sch.annotate(unit, WARP_EXECUTION, 1)
        state = TiledBlock(sch, unit, reads=read_by_loops(node_of(sch, unit)))
        # Copies are made and cut into tiles while loops have known extents, of which tiles are whole parts.
        stored_to = _written_scope(group["store"])
        shared = sch.cache_write(unit, 0, stored_to) if stored_to.startswith("shared") else None
        result = _cut_into_tiles(
            sch, sch.cache_write(unit, 0, _written_scope(group["compute"])), group["store"], ("read", 0)
        )
        operands = self._fragments_of_operands(sch, unit, group)
        fetched = self._shared_operands(sch, operands)
        self._tile_loops(state)
        reduction = self.structure.index("R")
        level = self.reuse_write.levels[0] if self.reuse_write.levels else reduction
        place = self._place(state, level if shared is None else reduction)
        sch.reverse_compute_at(result, place, preserve_unit_loops=True)
        if shared is not None:
            sch.reverse_compute_at(shared, self._place(state, level), preserve_unit_loops=True)
            self._share_copy(sch, shared)
        for _, fragments in operands:
            sch.compute_at(fragments, self._last_reduction(state), preserve_unit_loops=True)
        for level, position, copy in fetched:
            self._fetch(state, copy, position, level)
            _pad_rows(sch, copy)
        if self.tile_binds:
            self._keep_within_device(state)
        if self.use_software_pipeline:
            self._pipeline(state)
        return [state.sch]

    def _fragments_of_operands(
        self, sch: Schedule, unit: BlockRV, group: Mapping[str, str]
    ) -> list[tuple[int, BlockRV]]:
        """The copies of both operands to fragments, and which reads of the block they are."""
        node = node_of(sch, unit)
        written = {region.buffer for region in node.writes}
        operands = [i for i, region in enumerate(node.reads) if region.buffer not in written]
        if len(operands) != len(ROLES[1:3]):
            raise ScheduleError("the product of a tensor with itself has no fragments of two operands")
        found = []
        for position, role in zip(operands, ROLES[1:3], strict=True):
            copy = sch.cache_read(unit, position, _written_scope(group[role]))
            found.append((position, _cut_into_tiles(sch, copy, group[role], ("write", 0))))
        return found

    def _shared_operands(
        self, sch: Schedule, operands: Sequence[tuple[int, BlockRV]]
    ) -> list[tuple[int, int, BlockRV]]:
        """The copies that fragments are loaded from: level, which read of the block, copy."""
        if self.reuse_read.req == "no":
            return []
        return [
            (level, position, sch.cache_read(fragments, 0, self.reuse_read.scope))
            for level in self.reuse_read.levels
            for position, fragments in operands
        ]

    def _keep_within_device(self, state: TiledBlock) -> None:
        """As for other tiles: each iteration of threads is a warp, whose threads have parts of its results."""
        spatial = [level for level, kind in enumerate(self.structure) if kind == "S"]
        axes = dict(zip(spatial, self.tile_binds, strict=False))
        warps = state.extent_of(level for level, axis in axes.items() if axis.startswith("threadIdx"))
        result = node_of(state.sch, state.block).writes[0]
        elements = product_of(item.extent for item in result.region)
        threads = int(self.target.thread_warp_size)
        tiles = state.extent_of(level for level in spatial if level not in axes)
        keep_within_device(
            state.sch,
            result.buffer,
            threads=warps * threads,
            virtual_threads=tir.const(1),
            results=tiles * (elements // threads),
            shared=state.shared,
            target=self.target,
        )

    def _last_reduction(self, state: TiledBlock) -> LoopRV:
        """The innermost loop of the last reduction level."""
        level = len(self.structure) - 1 - self.structure[::-1].index("R")
        return state.levels[level][-1]

    def _pipeline(self, state: TiledBlock) -> None:
        """Load what one step needs while the last one is computed with: its fragments, and before them its part of shared memory."""
        sch, loop = state.sch, self._last_reduction(state)
        sch.annotate(loop, STAGE, [0, 0, 1])
        sch.annotate(loop, ORDER, [0, 1, 2])
        if not state.caches or not self.target.supports_async_copy:
            return
        around = self._place(state, self.reuse_read.levels[-1])
        if sch.get(around) is not sch.get(loop):
            sch.annotate(around, STAGE, [0] * len(state.caches) + [1])
            sch.annotate(around, ORDER, list(range(len(state.caches) + 1)))
            sch.annotate(around, ASYNC_STAGES, [0])


def _pad_to_tiles(sch: Schedule, block: BlockRV, compute: tir.TensorIntrin) -> bool:
    """Pads a block's extents to multiples of the tile's, where they are none; whether that can be, and no more is added than there was."""
    mapping = get_tensorize_loop_mapping(sch, block, compute.desc, allow_padding=True)
    if mapping is None:
        return False
    if mapping.block_iter_paddings is None:
        return True
    work = padded = 1
    for item, step in zip(node_of(sch, block).iter_vars, mapping.block_iter_paddings, strict=True):
        extent = item.dom.extent.value if isinstance(item.dom.extent, tir.IntImm) else 1
        work, padded = work * extent, padded * (-(-extent // step) * step)
    if padded > _MOST_PADDED * work:
        return False
    sch.pad_einsum(block, list(mapping.block_iter_paddings))
    return True


def _cut_into_tiles(sch: Schedule, copy: BlockRV, intrin_name: str, fragments: tuple[str, int]) -> BlockRV:
    """A copy as a block for each tile, which an intrinsic moves; fragments lie one behind the other.

    Args:
        copy: from or to fragments.
        intrin_name: what moves a tile.
        fragments: the copy's side that is fragments.
    """
    unit = blockize_for(sch, copy, intrin_name)
    if unit is None:
        raise ScheduleError(f"{intrin_name} does not fit the tile")
    sch.annotate(unit, WARP_EXECUTION, 1)
    side, position = fragments
    node = node_of(sch, unit)
    region = (node.reads if side == "read" else node.writes)[position].region
    rows, columns = (int(item.extent) for item in region[-2:])  # type: ignore[call-overload]

    def by_tiles(*indices: Any) -> list[Any]:
        *outer, i, j = indices
        return [*outer, i // rows, j // columns, i % rows, j % columns]

    sch.transform_layout(copy, fragments, by_tiles)
    return unit


def _pad_rows(sch: Schedule, cache: BlockRV) -> None:
    """Rows of a cache in shared memory begin in other banks, at multiples of what a thread copies at once."""
    buffer = node_of(sch, cache).writes[0].buffer
    if buffer.scope().startswith("shared") and len(buffer.shape) > 1:
        size = dt.bytes_of(buffer.dtype)
        sch.storage_align(cache, 0, -2, _BANKS_BYTES // size, ACCESS_BYTES // size)


def _written_scope(intrin_name: str) -> str:
    """The storage scope of what an intrinsic's description writes."""
    intrin = tir.TensorIntrin.get(intrin_name)
    assert intrin is not None
    assert isinstance(intrin.desc.body, tir.BlockRealize)
    root = intrin.desc.body.block
    regions = root.writes
    return str(regions[0].buffer.scope()) if regions else "global"
