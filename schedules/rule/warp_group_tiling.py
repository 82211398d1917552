"""WarpGroupTiling: products on Hopper by warp groups (wgmma), whose operands the tensor copy engine brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.stmt_functor import variables_in
from ir.tir.tensor_intrin.warp_group_product import GROUP_ROWS, WarpGroupProduct

from ..block_facts import is_one, node_of, operand_loads, reduce_vars, stands_alone
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule, unless_refused

_TILES = ((128, 256), (256, 128), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64))
"""Rows and columns, from those that read memory least often on."""
_MOST_STAGES = 8
_SCOPE = "shared.dyn"
_BANKS, _OFFSET = 32, 8
"""Rows of sums begin so many words further on that the eight rows which a warp stores to at once lie in several banks."""
_MOST_BLOCKS = (1 << 16) - 1
"""Along ``blockIdx.z``."""
_BARRIER_BYTES = 1024
"""What barriers take of shared memory, as the stages begin at a multiple of it."""
MOST_ROWS_OF_TILES = 8
"""Tiles below each other that run at one time, so that they find the columns that they share in the second-level cache."""
_LARGE_GROUPS = 16
"""As many of them at most where a search looks for the number."""


@dataclass(frozen=True)
class WarpGroupTile:
    """How a product is tiled for warp groups."""

    m: Any
    """The variable of the rows of a tile; those of columns and of the sum are the next ones, all others are outside of tiles."""
    n: Any
    k: Any
    product: WarpGroupProduct
    blocks: int
    """Tiles that the product has."""


class WarpGroupTiling(ScheduleRule):
    """Offer, for a product that warp groups multiply, the block in each size of tiles that fills it; last, the block as it is.

    Blocks of threads compute a tile each (:class:`WarpGroupProduct`); how many tiles below each other run at one time is sampled.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        found: list[Schedule] = []
        for tile in warp_group_tiles(node_of(sch, block), self.target):
            found += unless_refused(sch, partial(_tiled, block=block, found=tile))
        return [*found, sch]


def _tiled(sch: Schedule, block: BlockRV, found: WarpGroupTile) -> list[Schedule]:
    tile_for_warp_groups(sch, block, found, None)
    return [sch]


# -- which tiles ---------------------------------------------------------------------------------------------------
def warp_group_tiles(node: BlockNode, target: Target) -> list[WarpGroupTile]:
    """The tiles that fill a product, ``C[.., m, n] = sum_k(A[.., m, k] * B[.., n, k])`` or ``B[.., k, n]``, the largest first.

    None for targets without warp groups, for other blocks, and for operands that lie otherwise, or of types that are not multiplied.
    """
    found = _form(node) if target.supports_warpgroup_mma and stands_alone(node) else None
    if found is None:
        return []
    m_var, n_var, k_var, kind = found
    extents = {item.var: item.dom.extent for item in node.iter_vars}
    sizes = {var: extent.value for var, extent in extents.items() if isinstance(extent, tir.IntImm)}
    if len(sizes) < len(extents):
        return []
    outer = prod(size for var, size in sizes.items() if var not in (m_var, n_var, k_var))
    tiles = []
    for rows, columns in _TILES:
        made = _staged(replace(kind, m=rows, n=columns, k=sizes[k_var]), target)
        if made is not None and sizes[m_var] % rows == 0 and sizes[n_var] % columns == 0:
            blocks = outer * (sizes[m_var] // rows) * (sizes[n_var] // columns)
            tiles.append(WarpGroupTile(m_var, n_var, k_var, made, blocks))
    return tiles


def _staged(tile: WarpGroupProduct, target: Target) -> WarpGroupProduct | None:
    """A tile with as many stages as fit into shared memory and are of use."""
    room = target.max_shared_memory_per_block_optin - _BARRIER_BYTES
    sums = tile.m * (tile.n + _OFFSET) * dt.bytes_of(tile.total)
    stages = min(room // tile.stage_bytes, _MOST_STAGES, max(2, tile.k // tile.step + 1))
    made = replace(tile, stages=stages)
    return made if made.exists and sums <= room else None


def _form(node: BlockNode) -> tuple[Any, Any, Any, WarpGroupProduct] | None:
    """The variables of rows, of columns and of the sum, and the kind of product, of some sizes; None where operands lie otherwise."""
    loads = operand_loads(node)
    sums = [item for item in node.iter_vars if item.var in reduce_vars(node) and not is_one(item.dom.extent)]
    if len(loads) != 2 or len(sums) != 1 or any(len(load.indices) < 2 for load in loads):
        return None
    k = sums[0].var
    (m, along), right = (load.indices[-2:] for load in loads)
    is_transposed = right[1] is k
    n = right[0] if is_transposed else right[1]
    if (
        along is not k
        or not any(index is k for index in right)
        or not isinstance(m, tir.Var)
        or not isinstance(n, tir.Var)
    ):
        return None
    used = [set(variables_in(*load.indices)) for load in loads]
    if (
        m in used[1]
        or n in used[0]
        or any(load.buffer.strides or load.buffer.scope() != "global" for load in loads)
    ):
        return None
    operand = loads[0].buffer.dtype
    if loads[1].buffer.dtype != operand or not all(_has_tensor_map(load.buffer) for load in loads):
        return None
    if operand == "float32":
        if not _rounds_to_tf32(node):
            return None
        operand = "tf32"
    total = node.writes[0].buffer.dtype
    return m, n, k, WarpGroupProduct(0, 0, 0, operand, total, is_transposed, _SCOPE, 0, m.dtype)


def _has_tensor_map(buffer: tir.Buffer) -> bool:
    """Whether rows begin at multiples of what the copy engine reads at a time."""
    row = buffer.shape[-1]
    return isinstance(row, tir.IntImm) and row.value * dt.bytes_of(buffer.dtype) % ACCESS_BYTES == 0


def _rounds_to_tf32(node: BlockNode) -> bool:
    """Whether both operands are rounded to what tensor cores read."""
    found: list[Any] = []

    def visit(item: Any) -> None:
        if getattr(getattr(item, "op", None), "name", "") == "tir.round_to_tf32":
            found.append(item)

    tir.post_order_visit(node.body.stmt(), visit)
    return len(found) == 2


# -- how they are made ---------------------------------------------------------------------------------------------
def tile_for_warp_groups(
    sch: Schedule,
    block: BlockRV,
    found: WarpGroupTile,
    rows_of_tiles: int | None,
    followers: Sequence[BlockRV] = (),
) -> None:
    """Tile a product for warp groups.

    Args:
        sch: the schedule.
        block: the product.
        found: the tile.
        rows_of_tiles: that run at one time; None where it is sampled.
        followers: blocks that use results one by one, which become part of how these are written out.

    Raises:
        ScheduleError: a primitive refuses a step.
    """
    copy = sch.cache_write(block, 0, _SCOPE)
    for follower in followers:
        sch.reverse_compute_inline(follower)
    grid = _cut_tiles(sch, block, found)
    sch.reverse_compute_at(copy, grid.n, preserve_unit_loops=True)
    _write_out(sch, copy, found.product)
    sch.storage_align(block, 0, axis=-2, factor=_BANKS, offset=_OFFSET)
    sch.tensorize(grid.tile, found.product.name)  # while loops have known extents
    _bind_grid(sch, grid, rows_of_tiles)


@dataclass(frozen=True)
class _Grid:
    """The loops over tiles."""

    outer: list[LoopRV]
    m: LoopRV
    n: LoopRV
    rows: int
    """How many iterations :attr:`m` has."""
    tile: LoopRV
    """The outermost loop of a tile."""


def _cut_tiles(sch: Schedule, block: BlockRV, found: WarpGroupTile) -> _Grid:
    """Loops over tiles around those of a tile."""
    tile, node = found.product, node_of(sch, block)
    by_var = dict(zip([item.var for item in node.iter_vars], sch.get_loops(block), strict=True))
    extents = {item.var: int(getattr(item.dom.extent, "value", 0)) for item in node.iter_vars}
    outer = [var for var in by_var if var not in (found.m, found.n, found.k)]
    if prod(extents[var] for var in outer) > _MOST_BLOCKS:
        raise ScheduleError(f"tiles for warp groups: more than {_MOST_BLOCKS} products")
    m, m_in = sch.split(by_var[found.m], [None, tile.m])
    n, n_in = sch.split(by_var[found.n], [None, tile.n])
    outer_loops = [by_var[var] for var in outer]
    sch.reorder(*outer_loops, m, n, m_in, n_in, by_var[found.k])
    return _Grid(outer_loops, m, n, extents[found.m] // tile.m, m_in)


def _bind_grid(sch: Schedule, grid: _Grid, rows_of_tiles: int | None) -> None:
    """A block of threads for each tile; so many below each other come one after the other."""
    factors: Sequence[ExprRV | int | None]
    if rows_of_tiles is None:
        factors = sch.sample_perfect_tile(grid.m, 2, _LARGE_GROUPS)
    else:
        factors = [None, max(size for size in range(1, rows_of_tiles + 1) if grid.rows % size == 0)]
    m_far, m_near = sch.split(grid.m, factors)
    sch.reorder(m_far, grid.n, m_near)
    if grid.outer:
        sch.bind(sch.fuse(*grid.outer), "blockIdx.z")
    sch.bind(sch.fuse(m_far, grid.n, m_near), "blockIdx.x")


def _write_out(sch: Schedule, copy: BlockRV, tile: WarpGroupProduct) -> None:
    """All threads of the block write out neighbouring results at once."""
    node = node_of(sch, copy)
    lanes = ACCESS_BYTES // max(dt.bytes_of(item.buffer.dtype) for item in (*node.reads, *node.writes))
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, group, thread, lane = sch.split(fused, [None, tile.m // GROUP_ROWS, 128, max(lanes, 1)])
    sch.bind(group, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
