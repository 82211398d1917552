"""Matmul: products of matrices, and what is one in other axes, such as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES

from ...affine import mentions
from ...analysis import producers_of
from ...annotation import COOPERATIVE_FETCH
from ...error import ScheduleError
from ...random_variable import BlockRV, LoopRV
from ...rule.block_facts import elementwise_consumer, is_spatial, node_of
from ...schedule import Schedule
from ...tree import BlockNode, loops_around
from .matrix_form import as_matrices
from .product_form import ProductAxes, extent_of, is_matrix_product, product_axes
from .rule import GPUScheduleRule, Nests


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
_MOST_BLOCKS = (1 << 16) - 1
"""Along ``blockIdx.y`` and ``blockIdx.z``."""
_BANKS, _OFFSET = 32, 4
"""Banks of shared memory; rows begin so many words further on, that vectors stay aligned and columns lie in several banks."""


class Matmul(GPUScheduleRule):
    """Tile sums of products, ``C[m, n] = sum_k(A[m, k] * B[k, n])``, on blocks of threads.

    Axes are brought into the order batch, m, n, k and rounded up to tiles; all threads together fetch parts of the operands into shared
    memory, with what is computed of them on the way (a convolution's padding, a cast); each thread keeps a tile of results in
    registers, and writes it out as the elementwise consumer makes it. Other nests of the function become kernels of their own.
    Products with few rows or columns are left to others.
    """

    def stays(self, node: BlockNode) -> bool:
        return is_matrix_product(node)

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        products = [block for block in nests.blocks() if is_matrix_product(node_of(sch, block))]
        for block in products:
            _tile(nests, block)
        if not products:
            return False
        return True


def _tile(nests: Nests, block: BlockRV) -> None:
    sch = nests.sch
    consumer = elementwise_consumer(node_of(sch, block))
    if consumer is not None and len(producers_of(consumer)) > 1:
        consumer = None  # it waits for the others
    followers = [] if consumer is None else [sch.get_block(consumer.name)]
    axes = product_axes(node_of(sch, block))
    assert axes is not None
    if not axes.is_matrix():
        followers = [as_matrices(sch, block, axes)]
        if consumer is not None:
            sch.reverse_compute_inline(sch.get_block(consumer.name))
        axes = product_axes(node_of(sch, block))
        if axes is None or not axes.is_matrix():
            raise ScheduleError("Matmul: the axes are those of no product of matrices")
    node = node_of(sch, block)
    tile = _tile_for(nests, node, axes)
    sizes = {axes.m[0]: tile.m, axes.n[0]: tile.n, axes.k[0]: tile.k}
    cut = _pad(sch, block, [sizes.get(item.var, 1) for item in node.iter_vars])
    copy = sch.cache_write(block, 0, "local") if cut is None else cut
    for follower in followers:
        sch.reverse_compute_inline(follower)
    loops = _bind_tile(sch, block, axes, tile)
    for position in (axes.lhs, axes.rhs):
        _fetch(nests, block, position, axes, tile, loops.step)
    sch.reverse_compute_at(copy, loops.thread, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    _write_vectors(sch, copy)
    sch.decompose_reduction(block, loops.step)


def _tile_for(nests: Nests, node: BlockNode, axes: ProductAxes) -> Tile:
    """The largest tile of which there are enough for all multiprocessors."""
    batch, m, n = (extent_of(node, side) or _SYMBOLIC for side in (axes.batch, axes.m, axes.n))
    processors = int(nests.target.attrs.get("multi_processor_count", 1))
    fitting = [
        tile
        for tile in _TILES
        if batch * -(-m // tile.m) * -(-n // tile.n) >= processors * _TILES_PER_PROCESSOR
    ]
    return (fitting or _TILES[-1:])[0]


def _pad(sch: Schedule, block: BlockRV, sizes: Sequence[int]) -> BlockRV | None:
    """Round the extents of a product up; returns the block that cuts the result to size, if it has to be."""
    extents = [item.dom.extent for item in node_of(sch, block).iter_vars]
    rounded = [
        not isinstance(extent, tir.IntImm) or extent.value % size != 0
        for extent, size in zip(extents, sizes, strict=True)
    ]
    if not any(rounded):
        return None
    result = node_of(sch, block).writes[0].buffer
    sch.pad_einsum(block, sizes)
    return None if node_of(sch, block).writes[0].buffer is result else sch.get_consumers(block)[0]


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
    n_batches = extent_of(node, axes.batch)
    many = n_batches is None or n_batches > _MOST_BLOCKS
    if batch:
        sch.bind(sch.fuse(*batch), "blockIdx.x" if many else "blockIdx.z")
    sch.bind(m_block, "blockIdx.z" if many else "blockIdx.x")
    sch.bind(n_block, "blockIdx.y")
    for loop, axis, count in zip(
        (m_virtual, n_virtual), ("vthread.y", "vthread.x"), tile.virtual, strict=True
    ):
        if count > 1:
            sch.bind(loop, axis)
    sch.bind(m_thread, "threadIdx.y")
    sch.bind(n_thread, "threadIdx.x")
    sch.unroll(within)
    return _Loops(n_thread, step)


def _split(sch: Schedule, loop: LoopRV, tile: Tile, side: int) -> list[LoopRV]:
    return sch.split(loop, [None, tile.virtual[side], tile.threads[side], tile.results[side]])


def _fetch(nests: Nests, block: BlockRV, position: int, axes: ProductAxes, tile: Tile, step: LoopRV) -> None:
    """Let all threads copy an operand's part of a step into shared memory, in the order in which they find it, with rows along m or n."""
    sch = nests.sch
    copy = sch.cache_read(block, position, "shared", consumer_blocks=[block])
    _inline_makers(sch, copy)
    region = node_of(sch, block).reads[position].region
    k = next(i for i, item in enumerate(region) if item.min is axes.k[0])
    count = len(region)
    order = [i for i in range(count) if i != k]
    order.insert(count - 2, k)
    if order != list(range(count)):
        sch.transform_layout(copy, ("write", 0), lambda *indices: [indices[i] for i in order])
    sch.compute_at(copy, step, preserve_unit_loops=True)
    node, loops = node_of(sch, copy), sch.get_loops(copy)[-count:]
    contiguous = _contiguous(node, count)
    if contiguous is not None and contiguous != count - 1:
        sch.reorder(loops[-1], loops[contiguous])
        loops[-1], loops[contiguous] = loops[contiguous], loops[-1]
    lanes = 1 if contiguous is None else _lanes(node, node.reads[0])
    while lanes > 1 and tile.threads[0] * tile.threads[1] * lanes > _elements_of(node, count):
        lanes //= 2
    sch.fuse(*loops)
    sch.annotate(copy, COOPERATIVE_FETCH, lanes)
    sch.storage_align(copy, 0, axis=count - 2, factor=_BANKS, offset=_OFFSET)


def _inline_makers(sch: Schedule, copy: BlockRV) -> None:
    """Compute in a copy what is computed of an operand element by element, a convolution's padding included."""
    while makers := [item for item in sch.get_producers(copy) if _can_go(node_of(sch, item))]:
        sch.compute_inline(makers[0])


def _can_go(node: BlockNode) -> bool:
    """Whether a block computes every element once, and is not what writes out another product's tiles."""
    return is_spatial(node) and all(loop.thread_binding is None for loop in loops_around(node))


def _elements_of(node: BlockNode, count: int) -> int:
    """How often the innermost loops of a block run."""
    return prod(
        loop.extent.value for loop in loops_around(node)[-count:] if isinstance(loop.extent, tir.IntImm)
    )


def _contiguous(node: BlockNode, count: int) -> int | None:
    """The loop, among the innermost ones of a copy, along which the memory that it reads is contiguous."""
    for item, dim in zip(reversed(node.reads[0].region), reversed(node.reads[0].buffer.shape), strict=True):
        if isinstance(dim, tir.IntImm) and dim.value == 1:
            continue
        if not isinstance(item.min, tir.Var):
            return None
        value = dict(zip([axis.var for axis in node.iter_vars], node.iter_values, strict=True)).get(item.min)
        own = loops_around(node)[-count:]
        found = [i for i, loop in enumerate(own) if value is not None and mentions(value, {loop.var})]
        return found[0] if len(found) == 1 else None
    return None


def _lanes(node: BlockNode, region: tir.BufferRegion) -> int:
    """Elements that a thread accesses at once in rows of a buffer."""
    row = region.buffer.shape[-1]
    lanes = ACCESS_BYTES // max(dt.bytes_of(item.buffer.dtype) for item in (*node.reads, *node.writes))
    while lanes > 1 and (not isinstance(row, tir.IntImm) or row.value % lanes):
        lanes //= 2
    return max(lanes, 1)


def _write_vectors(sch: Schedule, copy: BlockRV) -> None:
    """Write out neighbouring results at once."""
    node, loop = node_of(sch, copy), sch.get_loops(copy)[-1]
    lanes = _lanes(node, node.writes[0])
    extent = loops_around(node)[-1].extent
    if _contiguous_result(node) and lanes > 1 and isinstance(extent, tir.IntImm):
        if extent.value > lanes and extent.value % lanes == 0:
            loop = sch.split(loop, [None, lanes])[-1]
        if extent.value % lanes == 0 or lanes % extent.value == 0:
            sch.vectorize(loop)


def _contiguous_result(node: BlockNode) -> bool:
    """Whether the innermost loop of a copy runs through neighbours in the memory that it writes."""
    last = node.writes[0].region[-1].min
    innermost = loops_around(node)[-1].var
    return any(
        item.var is last and mentions(value, {innermost})
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
    )
