"""Products of matrices on tensor cores: by ``mma`` of what ``ldmatrix`` loads, or, where these have no such shapes, by ``wmma``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ir import dtype as dt
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.index_map import IndexMap
from ir.tir.tensor_intrin.cuda import get_wmma_intrin_group, wmma_shape
from ir.tir.tensor_intrin.cuda_mma import TILE, get_mma_intrin_group, mma_shape
from ir.tir.tensor_intrin.fragment_layouts import LANES, sums_layout
from ir.tir.thread_axis import WARP_EXECUTION
from ir.tir.transform.pipeline_parts import ASYNC_STAGES, ORDER, STAGE

from ...annotation import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT, COOPERATIVE_FETCH
from ...block_facts import node_of
from ...error import ScheduleError
from ...primitive.tensorize import fits_description
from ...random_variable import BlockRV, LoopRV
from ...rule.fragments import by_tiles, cut_into_tiles, described_in_memory, written_scope
from ...rule.product_form import ProductAxes, extent_of, product_axes
from ...schedule import Schedule
from ...tree import BlockNode
from .operand_copies import fetched, lanes_of, staged, writes_neighbours
from .product_tiles import bind_blocks, only_consumer, rounded_up
from .rule import Nests

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Tile:
    """What a block of threads computes: warps along rows and columns, and the tiles of 16 by 16 that each of them has there."""

    warps: tuple[int, int]
    tiles: tuple[int, int]

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = (warps * tiles * TILE for warps, tiles in zip(self.warps, self.tiles, strict=True))
        return rows, columns


_TILES = (
    _Tile((2, 2), (4, 4)), _Tile((2, 2), (4, 2)), _Tile((2, 2), (2, 2)), _Tile((1, 4), (2, 1)), _Tile((1, 4), (1, 1))
)  # fmt: skip
"""From the one that reads memory least often to the one that fills small devices."""
_SYMBOLIC = 512
"""What an unknown extent counts as."""
_STORED_OF_ROW = 8
"""Results of a row that lanes of a warp store at once."""
_STEP_BYTES = 64
"""Of each row of an operand that a step takes."""
_MOST_REGISTERS = 192
"""Of a thread, for matrices: others hold addresses."""
_VERSIONS = 2
"""Of what a step takes: one is computed with while the next one is fetched."""


def tile_on_tensor_cores(nests: Nests, block: BlockRV) -> bool:
    """Tile a product for tensor cores, if the target's multiply operands of its types and its axes are those of matrices; whether it was.

    Warps keep tiles of results in registers; all threads together fetch a step of the operands into shared memory, asynchronously where
    the device can, while the step before is computed with. Each thread writes out what it holds, as the elementwise
    consumer makes it.
    """
    plan = _Plan.of(nests, block)
    if plan is None:
        return False
    tried = nests.sch.copy()
    try:
        plan.apply(tried)
    except ScheduleError as refusal:
        _LOG.debug("no tensor cores for %s: %s", node_of(nests.sch, block).name, refusal)
        return False
    nests.sch = tried
    return True


@dataclass(frozen=True)
class _Operand:
    """One of a product's operands."""

    position: int
    """Among what the product reads."""
    role: str
    """Of what loads it."""
    order: tuple[int, ...]
    """Its dimensions as shared memory has them: where loads cannot transpose, k is the last one."""
    is_transposed: bool
    """Whether shared memory has A as (k, m), B as (n, k)."""


@dataclass(frozen=True)
class _Instructions:
    """What multiplies: intrinsics of a group, the products that one of them adds, and which operands loads can transpose."""

    make_group: Callable[[bool, bool], dict[str, Any]]
    k: int
    transposes: tuple[bool, bool]
    is_staged: bool
    """Whether results are stored to shared memory first: who has which of a fragment is not known."""

    @classmethod
    def of(cls, target: Target, dtype: str, sums: str) -> _Instructions | None:
        """The best that a target has; None where it has none."""
        if dtype not in _TYPES:
            return None
        if mma_shape(dtype) in target.tensor_core_shapes(dtype, sums):
            both = dt.bits(dtype) == 16
            return cls(
                partial(get_mma_intrin_group, "shared", "global", dtype, sums), mma_shape(dtype)[2], (both, both), False
            )  # fmt: skip
        if wmma_shape(dtype) in target.tensor_core_shapes(dtype, sums, "wmma"):
            return cls(
                lambda _, trans_b: get_wmma_intrin_group("shared", "shared", dtype, sums, trans_b),
                wmma_shape(dtype)[2],
                (False, True),
                True,
            )
        return None


@dataclass(frozen=True)
class _Plan:
    """How a product is tiled."""

    block: BlockRV
    axes: ProductAxes
    operands: tuple[_Operand, ...]
    group: dict[str, Any]
    tile: _Tile
    k: tuple[int, int]
    """Instructions of a step along k, and products that one of them adds."""
    is_pipelined: bool
    is_staged: bool
    lanes: int

    @classmethod
    def of(cls, nests: Nests, block: BlockRV) -> _Plan | None:
        """None where tensor cores have no such products."""
        node, target = node_of(nests.sch, block), nests.target
        axes = product_axes(node)
        if axes is None or not axes.is_matrix() or not _is_row_by_column(node, axes):
            return None
        dtypes = {node.reads[position].buffer.dtype for position in (axes.lhs, axes.rhs)}
        dtype, sums = next(iter(dtypes)), node.writes[0].buffer.dtype
        instructions = _Instructions.of(target, dtype, sums) if len(dtypes) == 1 else None
        if instructions is None:
            return None
        sides = zip((axes.lhs, axes.rhs), "ab", instructions.transposes, strict=True)
        operands = [_operand(node, position, role, axes, transposes) for position, role, transposes in sides]
        known = tuple(operand for operand in operands if operand is not None)
        if len(known) < len(operands):
            return None
        group = instructions.make_group(*[operand.is_transposed for operand in known])
        k, size = extent_of(node, axes.k), dt.bytes_of(dtype)
        steps = 1 if k is not None and k <= instructions.k else _STEP_BYTES // (instructions.k * size)
        is_pipelined = target.supports_async_copy and (k is None or k > 2 * steps * instructions.k)
        room = _Room(
            row_bytes=(_VERSIONS if is_pipelined else 1) * (steps * instructions.k * size + ACCESS_BYTES),
            shared_bytes=int(target.max_shared_memory_per_block),
            staged_bytes=dt.bytes_of(sums) if instructions.is_staged else 0,
            sum_bytes=dt.bytes_of(sums),
            dtype=dtype,
        )
        tile = _tile_for(nests, node, axes, room)
        warp = int(target.thread_warp_size)
        return cls(
            block,
            axes,
            known,
            group,
            tile,
            (steps, instructions.k),
            is_pipelined,
            instructions.is_staged,
            warp,
        )

    def apply(self, sch: Schedule) -> None:
        """Schedule the product.

        Raises:
            ScheduleError: a primitive refuses a step.
        """
        block, axes, tile = self.block, self.axes, self.tile
        consumer = only_consumer(node_of(sch, block))
        steps = (*tile.extents, self.k[0] * self.k[1])
        extents = dict(zip((axes.m[0], axes.n[0], axes.k[0]), steps, strict=True))
        cut = rounded_up(sch, block, [extents.get(item.var, 1) for item in node_of(sch, block).iter_vars])
        shared = [staged(sch, block, operand.position, operand.order) for operand in self.operands]
        held = written_scope(self.group["compute"])
        result = sch.cache_write(block, 0, held) if cut is None else cut
        if consumer is not None:
            sch.reverse_compute_inline(sch.get_block(consumer.name))
        loops = self._bind(sch)
        unit = sch.blockize(loops.inside)
        if not fits_description(node_of(sch, unit), described_in_memory(self.group)):
            raise ScheduleError("the product is not what the instruction computes")
        sch.annotate(unit, AUTO_TENSORIZE, self.group["compute"])
        sch.annotate(unit, AUTO_TENSORIZE_INIT, self.group["init"])
        sch.annotate(unit, WARP_EXECUTION, 1)
        stored = sch.cache_write(unit, 0, held) if self.is_staged else None
        sch.set_scope(unit, 0, held)
        for operand, copy in zip(self.operands, shared, strict=True):
            self._load(sch, unit, operand, copy, loops)
        if stored is None:
            self._write_out(sch, result, loops)
        else:
            self._write_out_staged(sch, stored, result, loops)
        sch.decompose_reduction(unit, loops.step)
        if self.is_pipelined:
            sch.annotate(loops.step, STAGE, [0, 0, 1])
            sch.annotate(loops.step, ORDER, [0, 1, 2])
            sch.annotate(loops.step, ASYNC_STAGES, [0])

    def _bind(self, sch: Schedule) -> _Loops:
        block, axes, tile = self.block, self.axes, self.tile
        node = node_of(sch, block)
        by_var = dict(zip([item.var for item in node.iter_vars], sch.get_loops(block), strict=True))
        batch = [loop for var, loop in by_var.items() if var not in (axes.m[0], axes.n[0], axes.k[0])]
        rows, row_warp, row_tile, row = sch.split(
            by_var[axes.m[0]], [None, tile.warps[0], tile.tiles[0], TILE]
        )
        columns, column_warp, column_tile, column = sch.split(
            by_var[axes.n[0]], [None, tile.warps[1], tile.tiles[1], TILE]
        )
        step, within, k = sch.split(by_var[axes.k[0]], [None, *self.k])
        sch.reorder(
            *batch, rows, columns, row_warp, column_warp, step, within, row_tile, column_tile, row, column, k
        )  # fmt: skip
        bind_blocks(sch, batch, rows, columns, extent_of(node, axes.batch))
        warp = sch.fuse(row_warp, column_warp)
        sch.bind(warp, "threadIdx.y")
        return _Loops(columns, warp, step, within, row)

    def _load(self, sch: Schedule, unit: BlockRV, operand: _Operand, copy: BlockRV, loops: _Loops) -> None:
        """From global to shared memory, and on to registers."""
        scope = written_scope(self.group[operand.role])
        held = cut_into_tiles(
            sch, sch.cache_read(unit, operand.position, scope), self.group[operand.role], ("write", 0)
        )
        sch.compute_at(held, loops.within, preserve_unit_loops=True)
        threads = self.tile.warps[0] * self.tile.warps[1] * self.lanes
        # Rows are odd multiples of what is read of each of eight, which thus lie in different banks.
        own = ACCESS_BYTES // dt.bytes_of(node_of(sch, copy).writes[0].buffer.dtype)
        fetched(sch, copy, loops.step, threads, (2 * own, own))

    def _write_out(self, sch: Schedule, result: BlockRV, loops: _Loops) -> None:
        """Each lane what it holds: of every eighth row of a tile pairs of neighbours."""
        node = node_of(sch, result)
        position = next(i for i, region in enumerate(node.reads) if region.buffer.scope() == "warp")
        layout = IndexMap.from_func(lambda i, j: list(sums_layout(i, j)), ndim=2, index_dtype="int32")
        sch.transform_layout(result, ("read", position), by_tiles((TILE, TILE), layout))
        sch.reverse_compute_at(result, loops.warp, preserve_unit_loops=True)
        rows, columns = sch.get_loops(result)[-2:]
        row_tile, lower, row = sch.split(rows, [None, 2, 8])
        column_tile, half, pair, element = sch.split(columns, [None, 2, 4, 2])
        sch.reorder(row_tile, column_tile, half, lower, row, pair, element)
        sch.bind(sch.fuse(row, pair), "threadIdx.x")
        if writes_neighbours(node_of(sch, result)):
            sch.vectorize(element)

    def _write_out_staged(self, sch: Schedule, stored: BlockRV, result: BlockRV, loops: _Loops) -> None:
        """From fragments to shared memory, and on by all threads together."""
        sch.set_scope(stored, 0, "shared")
        unit = cut_into_tiles(sch, stored, self.group["store"], ("read", 0))
        sch.reverse_compute_at(unit, loops.warp, preserve_unit_loops=True)
        sch.storage_align(unit, 0, axis=-2, factor=2 * _STORED_OF_ROW, offset=_STORED_OF_ROW)
        sch.reverse_compute_at(result, loops.tile, preserve_unit_loops=True)
        node = node_of(sch, result)
        lanes = lanes_of(node, node.writes[0]) if writes_neighbours(node) else 1
        sch.fuse(*sch.get_loops(result)[-2:])
        sch.annotate(result, COOPERATIVE_FETCH, lanes)


@dataclass(frozen=True)
class _Loops:
    """Where what surrounds a tile goes."""

    tile: LoopRV
    """The innermost loop over blocks of threads."""
    warp: LoopRV
    """The loop over warps."""
    step: LoopRV
    """The loop over steps of the sum."""
    within: LoopRV
    """The loop over the instructions of a step."""
    inside: LoopRV
    """The outermost loop of an intrinsic's tile."""


_TYPES = ("float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")
"""Of operands; float32 is not rounded for those who do not ask."""


def _is_row_by_column(node: BlockNode, axes: ProductAxes) -> bool:
    """Whether results lie as the instruction has them: the first operand's axis before the second one's."""
    region = node.writes[0].region
    return len(region) > 1 and (region[-2].min, region[-1].min) == (axes.m[0], axes.n[0])


def _operand(
    node: BlockNode, position: int, role: str, axes: ProductAxes, transposes: bool
) -> _Operand | None:
    """None where its last two dimensions are not those of a matrix; ``transposes``: whether loads can."""
    region, own = node.reads[position].region, (axes.m if role == "a" else axes.n)[0]
    last: Sequence[Any] = [item.min for item in region[-2:]]
    if len(last) < 2 or {*last} != {own, axes.k[0]}:
        return None
    has_k_last = last[1] is axes.k[0]
    order = list(range(len(region)))
    if not has_k_last and not transposes:
        order[-2:] = order[:-3:-1]
        has_k_last = True
    return _Operand(position, f"load_{role}", tuple(order), has_k_last == (role == "b"))


@dataclass(frozen=True)
class _Room:
    """What a tile may take."""

    row_bytes: int
    """Of shared memory for a row or column of a step."""
    shared_bytes: int
    staged_bytes: int
    """Of shared memory for a result."""
    sum_bytes: int
    dtype: str
    """Of operands."""

    def holds(self, tile: _Tile) -> bool:
        """Whether there is enough for a tile."""
        rows, columns = tile.tiles
        operands = 4 * (rows + columns)
        if dt.is_float(self.dtype) and dt.bits(self.dtype) == 8:
            operands += 2 * operands  # where the units multiply no such numbers, they are made float16 first
        registers = rows * columns * TILE * TILE * self.sum_bytes // (4 * LANES) + operands
        staged = tile.extents[0] * (tile.extents[1] + _STORED_OF_ROW) * self.staged_bytes
        shared = sum(tile.extents) * self.row_bytes + staged
        return shared <= self.shared_bytes and registers <= _MOST_REGISTERS


def _tile_for(nests: Nests, node: BlockNode, axes: ProductAxes, room: _Room) -> _Tile:
    """The largest tile of which there are enough for all multiprocessors, and for which these have room."""
    batch, m, n = (extent_of(node, side) or _SYMBOLIC for side in (axes.batch, axes.m, axes.n))
    processors = nests.target.multi_processor_count

    def fits(tile: _Tile) -> bool:
        rows, columns = tile.extents
        return batch * -(-m // rows) * -(-n // columns) >= processors and room.holds(tile)

    return next((tile for tile in _TILES if fits(tile)), _TILES[-1])
