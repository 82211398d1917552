"""MultiLevelTilingTensorCore: multi-level tiling around a group of tensor intrinsics that load, compute and store fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.tir.thread_axis import WARP_EXECUTION
from ir.tir.transform.pipeline_parts import ASYNC_STAGES, ORDER, STAGE

from ..analysis import consumers_of
from ..annotation import AUTO_TENSORIZE_INIT, TILING_STRUCTURE
from ..block_facts import node_of, reduce_vars, stands_alone
from ..choice import one_of
from ..error import ScheduleError
from ..primitive.tensorize import fits_description
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tensorize_mapping import get_tensorize_loop_mapping
from ..tree import BlockNode
from .bank_rows import row_step, spread_rows
from .base import unless_refused
from .device_limits import SharedCache, keep_within_device, product_of
from .fragments import cut_into_tiles, described_in_memory, written_scope
from .multi_level_tiling import MultiLevelTiling, ReuseType, TiledBlock, read_by_loops
from .persistent_blocks import keep_resident, require_tiles
from .tensorize import blockize_for
from .tile_form import ProductForm, TileForm, bring_into_form, described_form, nearest_form, product_in_memory

_MOST_PADDED = 2
"""Times the work of a product that its tiles may have; tensor cores are several times as fast as other units."""
_REGISTER_BYTES = 4
_OTHER_REGISTERS = 24
"""Of a thread, for places in memory and counters of loops."""
_FEWEST_STAGES = 2
"""Of a pipeline: one step is copied while another one is computed with."""
_ASYNC_BYTES = 4
"""That the hardware copies to shared memory at once without a thread's waiting, at least (``cp.async``)."""
ROLES = ("init", "load_a", "load_b", "compute", "store")


class MultiLevelTilingTensorCore(MultiLevelTiling):
    """Offer, for each group of intrinsics that fits a block, the block tiled for them.

    The results of a tile are accumulated in a fragment (of the scope that the group's ``compute`` writes), and operands are loaded
    into fragments under the innermost reduction loop; each of these steps is a block annotated with its intrinsic. Extents that are no
    multiples of a tile's are padded with zeros.

    Args:
        intrin_groups: per group the names of the registered intrinsics "init", "load_a", "load_b", "compute" and "store".
        structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write: as :class:`MultiLevelTiling`'s; with tiles
            that a block computes one after the other, all blocks are resident (see :mod:`.persistent_blocks`);
            ``reuse_write`` says behind which level fragments are stored.
        use_software_pipeline: annotate the loop around the loads as a pipeline of two stages; where the target has asynchronous
            copies, also the one around the copies to shared memory.
        pipeline_stages: candidates of the stages of that one, which are the steps of the reduction that shared memory has room for.
        keeps_block: whether the block without tensor cores is offered, too, for rules that follow.
    """

    def __init__(
        self,
        intrin_groups: Sequence[Mapping[str, Any]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | Mapping[str, Any] | None = None,
        reuse_write: ReuseType | Mapping[str, Any] | None = None,
        use_software_pipeline: bool = False,
        keeps_block: bool = False,
        pipeline_stages: Sequence[int] = (2,),
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
        self.intrin_groups = [{role: str(group[role]) for role in ROLES} for group in intrin_groups]
        if not pipeline_stages or min(pipeline_stages) < _FEWEST_STAGES:
            raise ScheduleError(
                "MultiLevelTilingTensorCore: pipeline_stages must be numbers from"
                f" {_FEWEST_STAGES} on, got {list(pipeline_stages)}"
            )
        self.use_software_pipeline, self.pipeline_stages = use_software_pipeline, list(pipeline_stages)
        self.keeps_block = keeps_block

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not stands_alone(node) or not reduce_vars(node):
            return [sch]
        product = product_in_memory(node)
        if product is None:
            return [sch]
        found: list[Schedule] = []
        fitting = [
            (group, compute, form)
            for group, compute in zip(self.intrin_groups, self._products, strict=True)
            if _has_dtypes(compute, product) and (form := described_form(compute.desc)) is not None
        ]
        nearest = nearest_form(product, [form for _, _, form in fitting])
        for group, compute, form in fitting:
            if form == nearest:
                found += unless_refused(
                    sch, partial(self._tile_group, block, group, compute=compute, product=product, form=form)
                )
        return [*found, sch] if self.keeps_block or not found else found

    @cached_property
    def _products(self) -> list[tir.TensorIntrin]:
        """What each group computes of matrices in memory, made when it is first asked for."""
        return [described_in_memory(group) for group in self.intrin_groups]

    def _tile_group(
        self,
        block: BlockRV,
        group: Mapping[str, str],
        sch: Schedule,
        *,
        compute: tir.TensorIntrin,
        product: ProductForm,
        form: TileForm,
    ) -> list[Schedule]:
        stored_to = written_scope(group["store"])
        if stored_to == "global" and consumers_of(node_of(sch, block)):
            return []  # what reads the result is computed where it is copied from shared memory
        bring_into_form(sch, block, product, form)
        if not _pad_to_tiles(sch, block, compute):
            return []
        sides = _operands(node_of(sch, block))
        unit = blockize_for(sch, block, group["compute"])
        if unit is None or not fits_description(node_of(sch, unit), compute):
            return []
        if "" in self.tile_binds:
            require_tiles(node_of(sch, unit), self.target)
        sch.annotate(unit, TILING_STRUCTURE, self.structure)
        sch.annotate(unit, AUTO_TENSORIZE_INIT, group["init"])
        sch.annotate(unit, WARP_EXECUTION, 1)
        state = TiledBlock(sch, unit, reads=read_by_loops(node_of(sch, unit)))
        # Copies are made and cut into tiles while loops have known extents, of which tiles are whole parts.
        shared = sch.cache_write(unit, 0, stored_to) if stored_to.startswith("shared") else None
        result = cut_into_tiles(
            sch, sch.cache_write(unit, 0, written_scope(group["compute"])), group["store"], ("read", 0)
        )
        operands = self._fragments_of_operands(sch, unit, group, sides)
        fetched = self._shared_operands(sch, operands)
        self._tile_loops(state)
        reduction = self.structure.index("R")
        level = self.reuse_write.levels[0] if self.reuse_write.levels else reduction
        held = max(level, len(self.tile_binds))  # fragments belong to the warps that hold them
        place = self._place(state, held if shared is None else reduction)
        sch.reverse_compute_at(result, place, preserve_unit_loops=True)
        if shared is not None:
            self._stage_result(state, result, shared, level)
        for _, fragments in operands:
            sch.compute_at(fragments, self._last_reduction(state), preserve_unit_loops=True)
        along_sum = dict(
            zip([position for position, _ in operands], (not form.trans_a, form.trans_b), strict=True)
        )
        ahead = self._steps_ahead(state) if fetched else 0
        for level, position, copy in fetched:
            self._fetch_matrix(state, copy, position, level, along_sum[position], ahead)
        if self.tile_binds:
            self._keep_within_device(state)
        if self.use_software_pipeline:
            self._pipeline(state, ahead)
        return [state.sch]

    def _stage_result(self, state: TiledBlock, result: BlockRV, copy: BlockRV, level: int) -> None:
        """Lets threads take results out of shared memory together, where fragments were stored to it."""
        sch = state.sch
        sch.reverse_compute_at(copy, self._place(state, level), preserve_unit_loops=True)
        loops = sch.get_loops(copy)[-len(node_of(sch, copy).iter_vars) :]
        extents = [sch.get(loop).extent for loop in loops]
        lanes = self._share_copy(sch, copy)
        staged = node_of(sch, copy).reads[0].buffer
        step = row_step(staged)
        spread_rows(sch, result, step)
        at_once = tir.const(1) if lanes is None else sch._value(lanes)
        cache = SharedCache(extents, extents, extents, at_once, dt.bytes_of(staged.dtype), row=step)
        state.shared += [cache] if cache.is_known else []

    def _fetch_matrix(
        self,
        state: TiledBlock,
        copy: BlockRV,
        position: int,
        level: int,
        along_sum: bool,
        ahead: int | ExprRV,
    ) -> None:
        """Fills an operand's part of shared memory, from which fragments are loaded."""
        known = len(state.shared)
        waits = not isinstance(ahead, ExprRV) and ahead == 0
        self._fetch(state, copy, position, level, 1 if waits else _ASYNC_BYTES)
        versions = _number(state.sch, ahead) + 1
        step = row_step(node_of(state.sch, copy).writes[0].buffer, along_sum)
        spread_rows(state.sch, copy, step)
        state.shared[known:] = [replace(cache, row=step, versions=versions) for cache in state.shared[known:]]

    def _fragments_of_operands(
        self, sch: Schedule, unit: BlockRV, group: Mapping[str, str], sides: Sequence[tir.Buffer]
    ) -> list[tuple[int, BlockRV]]:
        """The copies of both operands to fragments, and which reads of the block they are."""
        read = [region.buffer for region in node_of(sch, unit).reads]
        found = []
        for position, role in zip(map(read.index, sides), ROLES[1:3], strict=True):
            copy = sch.cache_read(unit, position, written_scope(group[role]))
            found.append((position, cut_into_tiles(sch, copy, group[role], ("write", 0))))
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
            operands=self._operand_registers(state, threads),
        )
        if "" in self.tile_binds:
            keep_resident(
                state.sch,
                grid=state.extent_of(level for level, axis in axes.items() if axis.startswith("blockIdx")),
                tiles=state.extent_of(level for level, axis in axes.items() if not axis),
                threads=warps * threads,
                shared=state.shared,
                target=self.target,
            )

    def _operand_registers(self, state: TiledBlock, threads: int) -> tir.PrimExpr:
        """Registers of a thread for the fragments of one step, and of the next one where they are loaded ahead."""
        node = node_of(state.sch, state.block)
        last = len(self.structure) - 1 - self.structure[::-1].index("S")
        *_, rows, columns = [factors[last] for factors in state.factors.values() if last in factors]
        held: tir.PrimExpr = tir.const(_OTHER_REGISTERS)
        read = [region for region in node.reads if region.buffer is not node.writes[0].buffer]
        for fragments, region in zip((rows, columns), read, strict=False):
            size = product_of(item.extent for item in region.region) * dt.bytes_of(region.buffer.dtype)
            held = held + fragments * -(-size // (threads * _REGISTER_BYTES)) * (
                2 if self.use_software_pipeline else 1
            )
        return held

    def _last_reduction(self, state: TiledBlock) -> LoopRV:
        """The innermost loop of the last reduction level."""
        level = len(self.structure) - 1 - self.structure[::-1].index("R")
        return state.levels[level][-1]

    def _pipeline(self, state: TiledBlock, ahead: int | ExprRV) -> None:
        """Load what a step needs while an earlier one is computed with: its fragments, and before them its part of shared memory.

        Args:
            state: the tiled block.
            ahead: how many steps copies to shared memory are ahead.
        """
        sch, loop = state.sch, self._last_reduction(state)
        sch.annotate(loop, STAGE, [0, 0, 1])
        sch.annotate(loop, ORDER, [0, 1, 2])
        if isinstance(ahead, ExprRV) or ahead:
            around = self._place(state, self.reuse_read.levels[-1])
            sch.annotate(around, STAGE, [0] * len(state.caches) + [ahead])
            sch.annotate(around, ORDER, list(range(len(state.caches) + 1)))
            sch.annotate(around, ASYNC_STAGES, [0])

    def _steps_ahead(self, state: TiledBlock) -> int | ExprRV:
        """By how many steps shared memory is filled before they are computed with, a decision where there are several numbers."""
        sch = state.sch
        if not self.use_software_pipeline or not self.target.supports_async_copy:
            return 0
        around, loop = self._place(state, self.reuse_read.levels[-1]), self._last_reduction(state)
        if sch.get(around) is sch.get(loop):
            return 0
        numbers = [stages - 1 for stages in self.pipeline_stages]
        if len(numbers) == 1:
            return numbers[0]
        ahead = one_of(sch, numbers)
        fewest = min(numbers)
        # With fewer steps than copies are ahead, a pipeline is as one with fewer stages that takes more shared memory.
        sch.constrain_numbers(
            [sch._value(ahead), sch.get(around).extent],
            lambda chosen, steps: (chosen == fewest) | (chosen < steps),
        )
        return ahead


def _number(sch: Schedule, number: int | ExprRV) -> tir.PrimExpr:
    """A number in terms of open decisions."""
    return sch._value(number) if isinstance(number, ExprRV) else tir.const(number)


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


def _has_dtypes(compute: tir.TensorIntrin, product: ProductForm) -> bool:
    """Whether an intrinsic multiplies and adds in the dtypes of a product."""
    a, b, c = (buffer.dtype for buffer in compute.desc.buffer_map.values())
    return product.form.dtypes == (c, a, b)


def _operands(node: BlockNode) -> list[tir.Buffer]:
    """What a product in the form of a tile multiplies, the rows first."""
    product = product_in_memory(node)
    if product is None:
        raise ScheduleError(f"block {node.name!r} is no product of two matrices any more")
    return [node.reads[position].buffer for position in (product.axes.lhs, product.axes.rhs)]
