"""Attention on tensor cores as one kernel: scores and weights stay in the registers of the warps that own a tile's rows.

    for i0 (blocks of threads):                      # a tile of queries, of which each warp owns 16 or 32 rows
        for k0:                                      # a tile of keys, which all threads copy to shared memory
            S = Q[i0] K[k0]^T                        # mma, sums in registers
            m = max(before = m, max(S))              # lanes that share a row hand each other their maxima
            P = exp(S - m), again = exp(before - m)
            s = again * s + sum(P)
            o = again * o                            # registers, row by row
            o += f16(P) V[k0]                        # mma: the registers that hold P are its first operand
        out[i0] = o / s

The layouts of results and of first operands of ``mma`` are one (:mod:`ir.tir.tensor_intrin.fragment_layouts`), so weights are
rounded where they are. Each of the four lanes that share a row computes the row's maximum, sum and factor for itself (:meth:`replicate`).
(Dao: "FlashAttention-2", 2023.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES, WARP
from ir.tir.index_map import IndexMap
from ir.tir.tensor_intrin.cuda_mma import TILE, get_mma_intrin_group
from ir.tir.tensor_intrin.fragment_layouts import sums_layout
from ir.tir.thread_axis import WARP_EXECUTION
from ir.tir.transform.pipeline_parts import ASYNC_STAGES, ORDER, STAGE

from ..affine import mentions
from ..analysis import is_output_block, producers_of
from ..annotation import AUTO_TENSORIZE
from ..block_facts import is_one, node_of, number_of, reduction_loops
from ..error import ScheduleError
from ..primitive.tensorize import fits_description
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, SeqNode, blocks_below, is_ancestor, loops_around
from .fragments import by_tiles, cut_into_tiles, described_in_memory
from .online_tiles import tiles_of_chain
from .product_form import product_axes
from .reduction_chain import Chain, Tile, chain_of, is_sum

PAIR, SHARING = 2, 4
"""Neighbours of a row of results that a lane holds, and lanes that share a row."""
_ROWS_APART = TILE // 2
"""From one row that a lane holds to the next one."""
_COLUMNS = PAIR * SHARING
"""Of a row of results, for its lanes once."""


@dataclass(frozen=True)
class WarpTiles:
    """How much a block of threads looks at together, and how."""

    tile: Tile
    warps: int
    """Along rows, of which each owns as many."""
    keeps_queries: bool = False
    """Whether fragments of the queries stay in registers, or are loaded for each tile of keys again."""
    is_pipelined: bool = False
    """Whether the next tile of keys is copied, asynchronously, while one is looked at."""
    in_halves: bool = False
    """Whether products along k are of 8, not of 16 (:func:`~ir.tir.tensor_intrin.cuda_mma.get_mma_intrin_group`)."""

    @property
    def warp_rows(self) -> int:
        """Rows of a warp."""
        return self.tile.rows // self.warps


def how_multiplied(chain: Chain, target: Target) -> tuple[str, bool] | None:
    """The dtype of all operands of a chain's two products, and whether they are multiplied in halves; None where tensor cores do not."""
    products = products_of(chain)
    dtypes = set()
    for node in products:
        axes = product_axes(node)
        if axes is None or len(axes.k) != 1 or len(axes.n) != 1:
            return None
        dtypes |= {node.reads[position].buffer.dtype for position in (axes.lhs, axes.rhs)}
        if node.writes[0].buffer.dtype != "float32":
            return None
    if len(products) != 2 or len(dtypes) != 1 or not dtypes <= {"float16", "bfloat16"}:
        return None
    (dtype,) = dtypes
    shapes = target.tensor_core_shapes(dtype, "float32")
    if (TILE, _COLUMNS, TILE) in shapes:
        return dtype, False
    return (dtype, True) if (TILE, _COLUMNS, TILE // 2) in shapes and dtype == "float16" else None


def products_of(chain: Chain) -> list[BlockNode]:
    """The scores, and the sum of the values by weights."""
    scores = [item for item in producers_of(chain.members[0].node) if reduction_loops(item)]
    depth = len(chain.rows)
    wide = [
        item.node for item in chain.members[1:] if is_sum(item.node) and len(item.node.iter_vars) > depth + 1
    ]
    return [*scores, *wide]


def fuse_in_fragments(sch: Schedule, block: BlockRV, shape: WarpTiles, skips: bool = False) -> list[Schedule]:
    """The chain of a maximum as one kernel on tensor cores.

    Args:
        sch: a schedule, which is changed.
        block: the maximum; scores are scaled and masked in it already, and masks of values are dropped.
        shape: of what a block of threads does.
        skips: whether tiles of which a mask hides everything are not multiplied.

    Raises:
        ScheduleError: a primitive refuses a step; the schedule is of no use then.
    """
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    _, wide = products_of(chain)
    name = wide.name
    _, loop, around = tiles_of_chain(sch, block, shape.tile)
    sch.run_chain(loop, joins_parts=True)
    sch.add_into(name)
    _Kernel(sch, shape, len(chain.rows), loop, around).build(skips)
    return [sch]


@dataclass(frozen=True)
class _Operand:
    """An operand of a product that lies in global memory."""

    copy: BlockRV
    is_left: bool
    is_transposed: bool
    """Whether A lies as (k, m), or B as (n, k)."""
    moves: bool
    """Whether it is another one for each tile of keys."""


@dataclass
class _Product:
    """A product on its way to the warps."""

    update: str
    """The name of the block that adds."""
    begin: str | None = None
    """That of the one that stores zeros, if the sum begins with them."""
    operands: list[_Operand] = field(default_factory=list)
    """What is copied to shared memory."""


class _Kernel:
    """The blocks of a chain on their way to fragments.

    Args:
        depth: how many loops are around the one over tiles of keys.
        loop: over the tiles of keys.
        around: over the tiles of rows.
    """

    def __init__(self, sch: Schedule, shape: WarpTiles, depth: int, loop: LoopRV, around: LoopRV) -> None:
        self._sch, self._shape, self._depth, self._loop, self._around = sch, shape, depth, loop, around
        self._products: list[_Product] = []
        self._matrices: list[str] = []
        """Blocks that compute elements of rows one by one."""
        self._rows: list[str] = []
        """Blocks that compute what there is once for each row."""

    def build(self, skips: bool) -> None:
        """Bind all loops inside to warps and lanes, and those around to blocks; ``skips``: whether hidden tiles are not multiplied."""
        sch = self._sch
        self._sort_blocks()
        if skips:
            sch.skip_masked(self._loop, [sch.get_block(item.update) for item in self._products])
        parts = self._share_rows()
        for product in self._products:
            self._stage_operands(product)
        for name in (*(item.update for item in self._products), *self._matrices):
            self._put_rows_last(sch.get_block(name))
        units = [self._tile(item) for item in self._products]
        for block in (*units, *map(sch.get_block, self._matrices)):
            self._hold_matrix(block)
        for name in self._matrices:
            self._bind_matrix(sch.get_block(name))
        for name in (*parts, *self._rows):
            self._hold_rows(sch.get_block(name))
        for product in self._products:
            for operand in product.operands:
                self._share_copy(operand)
        if self._shape.is_pipelined:
            self._pipeline()
        first = sch.get_block(self._nodes()[0].name)
        sch.bind(sch.fuse(*sch.get_loops(first)[: self._depth]), "blockIdx.x")

    # ---- what blocks are -----------------------------------------------------------------------------------------

    def _nodes(self) -> list[BlockNode]:
        return blocks_below(self._sch._loop(self._around))

    def _own(self, node: BlockNode) -> tuple[list[LoopRV], list[LoopRV]]:
        """The loops of a block inside of the kernel's: spatial ones that run more than once, and those of a reduction."""
        sch = self._sch
        around = loops_around(node)
        begin = self._depth + any(item is sch._loop(self._loop) for item in around)
        reduced = reduction_loops(node)
        loops = sch.get_loops(sch.get_block(node.name))
        spatial = [i for i in range(begin, len(loops)) if i not in reduced and not is_one(around[i].extent)]
        return [loops[i] for i in spatial], [loops[i] for i in reduced]

    def _sort_blocks(self) -> None:
        """Tell products, matrices and rows apart; products begin in nests of their own, and take their sums outermost."""
        sch = self._sch
        for node in self._nodes():
            spatial, reduced = self._own(node)
            kind = len(spatial), len(reduced)
            if kind == (2, 1):
                block = sch.get_block(node.name)
                sch.reorder(*reduced, *spatial)
                begin = sch.decompose_reduction(block, reduced[0]) if node.init is not None else None
                name = None if begin is None else node_of(sch, begin).name
                self._products.append(_Product(node_of(sch, block).name, name))
            elif kind == (2, 0):
                self._matrices.append(node.name)
            elif kind in ((1, 0), (1, 1)) and not is_output_block(node):
                self._rows.append(node.name)
            else:
                raise ScheduleError(
                    f"attention on tensor cores: block {node.name!r} has other loops than rows and keys or results"
                )
        if len(self._products) != 2:
            raise ScheduleError(
                f"attention on tensor cores: there are {len(self._products)} products, not two"
            )

    def _dims(self, node: BlockNode, region: tir.BufferRegion, loops: Sequence[LoopRV]) -> list[int]:
        """Along which dimensions of a region loops run; each along one.

        Raises:
            ScheduleError: one runs along none, or several.
        """
        found = []
        for loop in loops:
            var = self._sch._loop(loop).var
            bound = {
                item.var
                for item, value in zip(node.iter_vars, node.iter_values, strict=True)
                if mentions(value, {var})
            }
            dims = [i for i, item in enumerate(region.region) if mentions(item.min, bound)]
            if len(dims) != 1:
                raise ScheduleError(
                    f"attention on tensor cores: {var.name} runs along {len(dims)} dimensions of {region.buffer.name}"
                )
            found += dims
        return found

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _share_rows(self) -> list[str]:
        """Let lanes share rows: each reduces what it holds, and then what all of a row have, for itself; the blocks of the first step."""
        sch = self._sch
        parts = []
        for name in self._rows:
            _, reduced = self._own(node_of(sch, sch.get_block(name)))
            if reduced:
                _, _, lane, _ = sch.split(reduced[0], [None, TILE // _COLUMNS, SHARING, PAIR])
                parts.append(node_of(sch, sch.rfactor(lane, -1)).name)
        sch.replicate(self._rows, SHARING, PAIR)
        return parts

    def _hold_rows(self, block: BlockRV) -> None:
        """What each lane has of its rows lies in its registers."""
        sch = self._sch
        node = node_of(sch, block)
        spatial, reduced = self._own(node)
        rows, lane = spatial
        region = node.writes[0]
        dims = self._dims(node, region, spatial)

        def place(*indices: Any) -> list[Any]:
            row, copy = (indices[i] for i in dims)
            others = [item for i, item in enumerate(indices) if i not in dims]
            return [*others, row // TILE, row % _ROWS_APART * SHARING + copy, row % TILE // _ROWS_APART]

        sch.transform_layout(block, ("write", 0), place)
        sch.set_scope(block, 0, "warp")
        warp, tile, lower, row = self._split_rows(rows)
        sch.reorder(warp, tile, lower, row, lane, *reduced)
        self._bind(warp, sch.fuse(row, lane))
        self._unroll(tile, lower, *reduced)

    def _split_rows(self, rows: LoopRV) -> list[LoopRV]:
        return self._sch.split(rows, [self._shape.warps, None, TILE // _ROWS_APART, _ROWS_APART])

    def _bind(self, warp: LoopRV, lane: LoopRV) -> None:
        self._sch.bind(warp, "threadIdx.y")
        self._sch.bind(lane, "threadIdx.x")

    def _unroll(self, *loops: LoopRV) -> None:
        """Registers have no addresses: loops over them are no loops."""
        for loop in loops:
            self._sch.unroll(loop)

    # ---- matrices ------------------------------------------------------------------------------------------------

    def _put_rows_last(self, block: BlockRV) -> None:
        """Let a block's results lie as matrices: rows and columns are the last dimensions."""
        sch = self._sch
        node = node_of(sch, block)
        if is_output_block(node):
            return
        dims = self._dims(node, node.writes[0], self._own(node)[0])
        self._put_last(block, dims, len(node.writes[0].region))

    def _put_last(self, block: BlockRV, dims: Sequence[int], count: int) -> None:
        order = [*[i for i in range(count) if i not in dims], *dims]
        if order != list(range(count)):
            self._sch.transform_layout(block, ("write", 0), lambda *indices: [indices[i] for i in order])

    def _hold_matrix(self, block: BlockRV) -> None:
        """Results lie in the registers of lanes, tile by tile."""
        sch = self._sch
        node = node_of(sch, block)
        if not is_output_block(node) and node.writes[0].buffer.scope() != "warp":
            layout = IndexMap.from_func(lambda i, j: list(sums_layout(i, j)), ndim=2, index_dtype="int32")
            sch.transform_layout(block, ("write", 0), by_tiles((TILE, TILE), layout))
            sch.set_scope(block, 0, "warp")

    def _bind_matrix(self, block: BlockRV) -> None:
        """Each lane what it holds: of every eighth row pairs of neighbours."""
        sch = self._sch
        node = node_of(sch, block)
        spatial, _ = self._own(node)
        warp, tile, lower, row = self._split_rows(spatial[0])
        column, half, pair, element = sch.split(spatial[1], [None, TILE // _COLUMNS, SHARING, PAIR])
        sch.reorder(warp, tile, column, half, lower, row, pair, element)
        self._bind(warp, sch.fuse(row, pair))
        self._unroll(tile, column, half, lower)
        if is_output_block(node):
            sch.vectorize(element)
        else:
            self._unroll(element)

    # ---- products ------------------------------------------------------------------------------------------------

    def _stage_operands(self, product: _Product) -> None:
        """Copies of what a product reads of the function's arguments, for shared memory."""
        sch = self._sch
        block = sch.get_block(product.update)
        made = {region.buffer for other in self._nodes() for region in other.writes}
        count = len(node_of(sch, block).reads)
        for position in range(count):
            node = node_of(sch, block)
            region = node.reads[position]
            if region.buffer in made:
                continue
            (rows, columns), summed = self._own(node)
            is_left = self._runs_along(node, region, rows)
            own, k = self._dims(node, region, [rows if is_left else columns, *summed])
            moves = self._runs_along(node, region, self._loop)
            # Keys that are values, too, are copied for each product, which may need them otherwise.
            copy = sch.cache_read(block, position, "shared", consumer_blocks=[block])
            self._put_last(copy, sorted((own, k)), len(region.region))
            product.operands.append(_Operand(copy, is_left, (own > k) == is_left, moves))
        if [item.is_left for item in product.operands].count(False) != 1:
            raise ScheduleError(
                f"attention on tensor cores: block {product.update!r} does not read its second operand from the function's arguments"
            )

    def _tile(self, product: _Product) -> BlockRV:
        """Cut a product into tiles of an instruction, with what loads their operands; returns the block of a tile."""
        sch = self._sch
        block = sch.get_block(product.update)
        group = self._group(product)
        (rows, columns), (summed,) = self._own(node_of(sch, block))
        step, k = sch.split(summed, [None, TILE])
        row_tile, column_tile, inside = self._split_tiles(rows, columns, (step, k))
        unit = self._unit(inside, group["compute"])
        if not fits_description(node_of(sch, unit), described_in_memory(group)):
            raise ScheduleError("attention on tensor cores: a product is not what the instruction computes")
        for operand in product.operands:
            self._load(unit, operand, group, step)
        self._unroll(step, row_tile, column_tile)
        if product.begin is not None:
            (rows, columns), _ = self._own(node_of(sch, sch.get_block(product.begin)))
            row_tile, column_tile, inside = self._split_tiles(rows, columns)
            self._unit(inside, group["init"])
            self._unroll(row_tile, column_tile)
        return unit

    def _split_tiles(
        self, rows: LoopRV, columns: LoopRV, summed: tuple[LoopRV, ...] = ()
    ) -> tuple[LoopRV, LoopRV, LoopRV]:
        """The loops over a warp's tiles of rows and of columns, and the outermost one in a tile."""
        sch = self._sch
        warp, row_tile, row = sch.split(rows, [self._shape.warps, None, TILE])
        column_tile, column = sch.split(columns, [None, TILE])
        sch.reorder(warp, *summed[:1], row_tile, column_tile, row, column, *summed[1:])
        sch.bind(warp, "threadIdx.y")
        return row_tile, column_tile, row

    def _group(self, product: _Product) -> dict[str, Any]:
        """The intrinsics that suit how the operands lie; the first one of values lies in registers."""
        transposed = {operand.is_left: operand.is_transposed for operand in product.operands}
        copied = node_of(self._sch, product.operands[0].copy).writes[0].buffer
        return get_mma_intrin_group(
            "shared",
            "global",
            copied.dtype,
            "float32",
            transposed.get(True, False),
            transposed[False],
            in_halves=self._shape.in_halves,
        )

    def _runs_along(self, node: BlockNode, region: tir.BufferRegion, loop: LoopRV) -> bool:
        """Whether a loop moves a region."""
        var = self._sch._loop(loop).var
        bound = {
            item.var
            for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            if mentions(value, {var})
        }
        return any(mentions(item.min, bound) for item in region.region)

    def _unit(self, outermost: LoopRV, intrinsic: str) -> BlockRV:
        unit = self._sch.blockize(outermost)
        self._sch.annotate(unit, AUTO_TENSORIZE, intrinsic)
        self._sch.annotate(unit, WARP_EXECUTION, 1)
        return unit

    def _load(self, unit: BlockRV, operand: _Operand, group: dict[str, Any], step: LoopRV) -> None:
        """Fragments of an operand, for a step along the sum; of queries that are kept, before all tiles of keys."""
        sch = self._sch
        memory = node_of(sch, operand.copy).writes[0].buffer
        position = next(i for i, item in enumerate(node_of(sch, unit).reads) if item.buffer is memory)
        fragments = sch.cache_read(unit, position, "warp")
        role = "load_a" if operand.is_left else "load_b"
        loads = cut_into_tiles(sch, fragments, group[role], ("write", 0))
        if operand.is_left and not operand.moves and self._shape.keeps_queries:
            sch.compute_at(loads, self._around, preserve_unit_loops=True)
            *_, rows, summed = sch.get_loops(loads)
            rows, summed = (summed, rows) if operand.is_transposed else (rows, summed)
            warp, rows = sch.split(rows, [self._shape.warps, None])
            sch.reorder(warp, rows, summed)
            sch.bind(warp, "threadIdx.y")
            self._unroll(rows, summed)
            return
        sch.compute_at(loads, step, preserve_unit_loops=True)
        self._unroll(*sch.get_loops(loads)[-2:])

    # ---- shared memory -------------------------------------------------------------------------------------------

    def _share_copy(self, operand: _Operand) -> None:
        """All threads copy an operand, for each tile of keys or once; rows lie so far apart that eight of them begin in different banks."""
        sch, copy = self._sch, operand.copy
        count = len(node_of(sch, copy).iter_vars)
        sch.compute_at(copy, self._loop if operand.moves else self._around, preserve_unit_loops=True)
        node = node_of(sch, copy)
        n_elements = prod(number_of(loop.extent) or 0 for loop in loops_around(node)[-count:])
        lanes = ACCESS_BYTES // dt.bytes_of(node.writes[0].buffer.dtype)
        vector, threads = lanes, self._shape.warps * WARP
        while vector > 1 and (n_elements % (threads * vector) or _row_of(node) % vector):
            vector //= 2
        _, warp, lane, elements = sch.split(
            sch.fuse(*sch.get_loops(copy)[-count:]), [None, self._shape.warps, WARP, vector]
        )
        self._bind(warp, lane)
        sch.vectorize(elements)
        sch.storage_align(copy, 0, -2, 2 * lanes, lanes)

    def _pipeline(self) -> None:
        """Copy the next tile of keys while one is looked at."""
        sch = self._sch
        body = sch._loop(self._loop).body
        copies = [
            node_of(sch, operand.copy)
            for product in self._products
            for operand in product.operands
            if operand.moves
        ]
        if not isinstance(body, SeqNode):
            raise ScheduleError("attention on tensor cores: there is nothing to overlap copies with")
        ahead = [any(is_ancestor(nest, copy) for copy in copies) for nest in body.nodes]
        first = sum(ahead)
        order = iter(range(first, len(ahead))), iter(range(first))
        sch.annotate(self._loop, STAGE, [int(not early) for early in ahead])
        sch.annotate(self._loop, ORDER, [next(order[early]) for early in ahead])
        sch.annotate(self._loop, ASYNC_STAGES, [0])


def _row_of(node: BlockNode) -> int:
    """Elements that a copy finds side by side."""
    return number_of(node.reads[0].buffer.shape[-1]) or 0
