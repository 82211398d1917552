"""Matmul: products of matrices, and what is one in other axes, such as convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from ir import tir
from ir.target.gpu_facts import BANKS

from ...block_facts import node_of
from ...error import ScheduleError
from ...random_variable import BlockRV, LoopRV
from ...rule.matrix_form import as_matrices
from ...rule.product_form import ProductAxes, extent_of, is_matrix_product, product_axes
from ...schedule import Schedule
from ...tree import BlockNode, loops_around
from .operand_copies import fetched, lanes_of, staged, writes_neighbours
from .product_tiles import bind_blocks, only_consumer, rounded_up
from .rule import GPUScheduleRule, Nests
from .tensor_core_product import tile_on_tensor_cores


@dataclass(frozen=True)
class Tile:
    """What a block of threads computes in a step: m times n results over k, of which a thread has some of each of its virtual threads."""

    virtual: tuple[int, int]
    threads: tuple[int, int]
    results: tuple[int, int]
    k: int

    @property
    def m(self) -> int:
        """Rows."""
        return self.virtual[0] * self.threads[0] * self.results[0]

    @property
    def n(self) -> int:
        """Columns."""
        return self.virtual[1] * self.threads[1] * self.results[1]


_TILES = (
    Tile((2, 2), (16, 16), (4, 4), 8),
    Tile((1, 1), (16, 16), (4, 4), 16),
    Tile((1, 1), (8, 16), (4, 2), 16),
    Tile((1, 1), (8, 8), (2, 2), 16),
)
"""From the one that reads memory least often to the one that fills small devices."""
_SYMBOLIC = 512
"""What an unknown extent counts as."""
_TILES_PER_PROCESSOR = 1
_OFFSET = 4
"""Rows begin so many words further on in the banks of shared memory, that vectors stay aligned and columns lie in several."""


class Matmul(GPUScheduleRule):
    """Tile sums of products, ``C[m, n] = sum_k(A[m, k] * B[k, n])``, on blocks of threads.

    Axes are brought into the order batch, m, n, k and rounded up to tiles; all threads together fetch parts of the operands into shared
    memory, with what is computed of them on the way (a convolution's padding, a cast); each thread keeps a tile of results in
    registers, and writes it out as the elementwise consumer makes it. Products of types that the target's tensor cores multiply are done by
    these (:mod:`.tensor_core_product`). Other nests of the function become kernels of their own.
    Products with few rows or columns are left to others.
    """

    def stays(self, node: BlockNode) -> bool:
        return is_matrix_product(node)

    def schedule(self, nests: Nests) -> bool:
        products = [block for block in nests.blocks() if is_matrix_product(node_of(nests.sch, block))]
        for block in products:
            if not tile_on_tensor_cores(nests, block):
                _tile(nests, block)
        return bool(products)


def _tile(nests: Nests, block: BlockRV) -> None:
    sch = nests.sch
    consumer = only_consumer(node_of(sch, block))
    followers = [] if consumer is None else [sch.get_block(consumer.name)]
    axes = product_axes(node_of(sch, block))
    assert axes is not None
    if not axes.is_matrix() or not _is_indexed_plainly(node_of(sch, block), axes):
        followers = [as_matrices(sch, block, axes)]
        if consumer is not None:
            sch.reverse_compute_inline(sch.get_block(consumer.name))
        axes = product_axes(node_of(sch, block))
        if axes is None or not axes.is_matrix():
            raise ScheduleError("Matmul: the axes are those of no product of matrices")
    node = node_of(sch, block)
    tile = _tile_for(nests, node, axes)
    sizes = {axes.m[0]: tile.m, axes.n[0]: tile.n, axes.k[0]: tile.k}
    cut = rounded_up(sch, block, [sizes.get(item.var, 1) for item in node.iter_vars])
    copy = sch.cache_write(block, 0, "local") if cut is None else cut
    for follower in followers:
        sch.reverse_compute_inline(follower)
    loops = _bind_tile(sch, block, axes, tile)
    for position in (axes.lhs, axes.rhs):
        operand = staged(sch, block, position, _rows_last(node_of(sch, block), position, axes))
        fetched(sch, operand, loops.step, tile.threads[0] * tile.threads[1], (BANKS, _OFFSET))
    sch.reverse_compute_at(copy, loops.thread, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    _write_vectors(sch, copy)
    sch.decompose_reduction(block, loops.step)


def _tile_for(nests: Nests, node: BlockNode, axes: ProductAxes) -> Tile:
    """The largest tile of which there are enough for all multiprocessors."""
    batch, m, n = (extent_of(node, side) or _SYMBOLIC for side in (axes.batch, axes.m, axes.n))
    processors = nests.target.multi_processor_count
    fitting = [
        tile
        for tile in _TILES
        if batch * -(-m // tile.m) * -(-n // tile.n) >= processors * _TILES_PER_PROCESSOR
    ]
    return (fitting or _TILES[-1:])[0]


@dataclass(frozen=True)
class _Loops:
    """Where what surrounds a tile goes."""

    thread: LoopRV
    """The innermost loop of threads."""
    step: LoopRV
    """The loop over parts of the reduction."""


def _bind_tile(sch: Schedule, block: BlockRV, axes: ProductAxes, tile: Tile) -> _Loops:
    node = node_of(sch, block)
    by_var = dict(zip([item.var for item in node.iter_vars], sch.get_loops(block), strict=True))
    batch = [loop for var, loop in by_var.items() if var not in (*axes.m, *axes.n, *axes.k)]
    m_block, m_virtual, m_thread, m_own = _split(sch, by_var[axes.m[0]], tile, 0)
    n_block, n_virtual, n_thread, n_own = _split(sch, by_var[axes.n[0]], tile, 1)
    step, within = sch.split(by_var[axes.k[0]], [None, tile.k])
    sch.reorder(
        *batch, m_block, n_block, m_virtual, n_virtual, m_thread, n_thread, step, within, m_own, n_own
    )  # fmt: skip
    bind_blocks(sch, batch, m_block, n_block, extent_of(node, axes.batch))
    for loop, axis, count in zip(
        (m_virtual, n_virtual), ("vthread.y", "vthread.x"), tile.virtual, strict=True
    ):
        if count > 1:
            sch.bind(loop, axis)
    sch.bind(m_thread, "threadIdx.y")
    sch.bind(n_thread, "threadIdx.x")
    sch.unroll(within)
    return _Loops(n_thread, step)


def _is_indexed_plainly(node: BlockNode, axes: ProductAxes) -> bool:
    """Whether each operand has a dimension for the sum's axis, and one for its rows or columns: not ``A[m, 31 - k]``, nor ``A[m + k]``."""
    for position, own in ((axes.lhs, axes.m[0]), (axes.rhs, axes.n[0])):
        indices = [item.min for item in node.reads[position].region]
        if not all(any(index is var for index in indices) for var in (own, axes.k[0])):
            return False
    return True


def _split(sch: Schedule, loop: LoopRV, tile: Tile, side: int) -> list[LoopRV]:
    return sch.split(loop, [None, tile.virtual[side], tile.threads[side], tile.results[side]])


def _rows_last(node: BlockNode, position: int, axes: ProductAxes) -> list[int]:
    """The dimensions of an operand with that of k before the last one, so that rows are along m or n."""
    region = node.reads[position].region
    k = next(i for i, item in enumerate(region) if item.min is axes.k[0])
    order = [i for i in range(len(region)) if i != k]
    order.insert(len(region) - 2, k)
    return order


def _write_vectors(sch: Schedule, copy: BlockRV) -> None:
    """Write out neighbouring results at once."""
    node, loop = node_of(sch, copy), sch.get_loops(copy)[-1]
    lanes = lanes_of(node, node.writes[0])
    extent = loops_around(node)[-1].extent
    if writes_neighbours(node) and lanes > 1 and isinstance(extent, tir.IntImm):
        if extent.value > lanes and extent.value % lanes == 0:
            loop = sch.split(loop, [None, lanes])[-1]
        if extent.value % lanes == 0 or lanes % extent.value == 0:
            sch.vectorize(loop)
