"""OnlineTiles: attention on a GPU as one kernel, tile by tile of the keys, with a running maximum.

    for i0 (blocks of threads):                      # a tile of queries
        for k0:                                      # a tile of keys
            S = Q[i0] K[k0]^T                        # registers, then shared memory
            m_rf, P = max(S), exp(S - m_rf)          # threads of a row combine by shuffles
            o_rf, s_rf = P V[k0], sum(P)             # registers
            m, o, s = of both, rescaled              # the maximum so far, in shared memory; o in registers
        out[i0] = o / s

Scores never reach global memory. Tiles of which a mask hides everything are not multiplied (:mod:`schedules.primitive.skip_masked`). The
unfused form stays in the space. (Dao et al.: "FlashAttention", 2022; what makes one reduction of the chain is said in
:mod:`schedules.primitive.rfactor_chain`, and how it runs in :mod:`schedules.primitive.run_chain`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES

from ..affine import mentions
from ..analysis import consumers_of, is_output_block, producers_of, scope_children
from ..block_facts import is_injective, is_one, is_scheduled, node_of, number_of, reduction_loops
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, blocks_below, loops_around
from .base import Alternatives, ScheduleRule, unless_refused
from .reduction_chain import (
    Chain,
    Tile,
    chain_of,
    feed_tile,
    has_mask,
    is_extreme,
    is_sum,
    split_member,
    take_epilogues,
)

_PAD_BYTES = ACCESS_BYTES
"""Between rows of shared memory, so that a column lies in several banks and vectors stay aligned."""
_BANKS_BYTES = 32 * 4
"""From an element to the next one in the same bank."""
_REGISTERS = 128
"""Of a thread, for results and partial results."""
_ROW_RESULTS = 8
"""What is kept of each row, in words: maxima, sums and factors."""


@dataclass(frozen=True)
class Shape:
    """How much a block of threads looks at together, and by how many threads."""

    tile: Tile
    rows: int
    """Threads along rows."""
    columns: int
    """Threads along keys, and along what a product with the values has in their place."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows * self.columns


class OnlineTiles(ScheduleRule):
    """Offer chains of a product, a maximum, and sums relative to it, as one kernel in several shapes of tiles.

    Args:
        row_tiles: rows of a tile, of which those are offered that divide the rows.
        key_tiles: keys of a tile, likewise.
        threads: the fewest and the most threads of a block; fewer only where there is no work for so many.
    """

    def __init__(
        self,
        row_tiles: Sequence[int] = (16, 32, 64, 128),
        key_tiles: Sequence[int] = (16, 32, 64),
        threads: tuple[int, int] = (64, 256),
    ) -> None:
        if not row_tiles or not key_tiles or min(*row_tiles, *key_tiles) < 1 or threads[0] > threads[1]:
            raise ScheduleError(
                f"OnlineTiles: sizes must be positive numbers, got {list(row_tiles)}, {list(key_tiles)} and {threads}"
            )
        self.row_tiles, self.key_tiles, self.threads = list(row_tiles), list(key_tiles), threads

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        if not is_extreme(node) or is_scheduled(node):
            return [sch]
        (start,) = unless_refused(sch, partial(_inlined, block=block)) or [sch]
        chain = chain_of(node_of(start, block))
        shapes = list(self.shapes(chain)) if chain is not None and chain.has_product else []
        if not shapes:
            return [sch]
        return Alternatives(
            [
                *[
                    partial(
                        unless_refused, start, partial(fuse_online, block=block, shape=shape, skips=skips)
                    )
                    for shape in shapes
                    for skips in ((True, False) if chain is not None and has_mask(chain) else (False,))
                ],
                lambda: [sch],
            ]
        )

    def shapes(self, chain: Chain) -> Iterator[Shape]:
        """The shapes that divide a chain evenly and fit a block's memory and a thread's registers."""
        sizes = sizes_of(chain)
        if sizes is None:
            return
        n_rows, n_results, n_summed = sizes
        size = operand_bytes(chain)
        for n, keys in (
            (n, keys)
            for n in _dividing(self.row_tiles, n_rows)
            for keys in _dividing(self.key_tiles, chain.extent)
        ):
            operands = n * n_summed + keys * (_stride(n_summed, size) + _stride(n_results, size))
            words = 2 * n * keys + n * _ROW_RESULTS
            if size * operands + chain.item_bytes * words > int(self.target.max_shared_memory_per_block):
                continue
            yield from self._threads_for(Tile(keys, n), n_results)

    def _threads_for(self, tile: Tile, n_results: int) -> Iterator[Shape]:
        """Numbers of threads: those whose parts of a tile are closest to squares, in either number of them."""
        fewest, most = self.threads
        common = gcd(tile.keys, n_results)
        found = [
            Shape(tile, rows, columns)
            for rows in _divisors(tile.rows)
            for columns in _divisors(common)
            if columns & (columns - 1) == 0 and columns <= 32 and rows * columns <= most
        ]
        found = [item for item in found if _registers(item, n_results) <= _REGISTERS]
        enough = [item for item in found if item.threads >= fewest]
        by_count: dict[int, Shape] = {}
        for item in enough or sorted(found, key=lambda item: -item.threads)[:1]:
            known = by_count.get(item.threads)
            if known is None or operand_loads_of(item, n_results) < operand_loads_of(known, n_results):
                by_count[item.threads] = item
        yield from by_count.values()


def sizes_of(chain: Chain) -> tuple[int, int, int] | None:
    """Rows that tiles are made of, results of a row, and what its scores are sums over; None where a chain has other axes."""
    node = chain.members[0].node
    products = [item for item in producers_of(node) if is_sum(item) or reduction_loops(item)]
    sums = [item.node for item in chain.members[1:] if is_sum(item.node)]
    wide = [
        extents
        for item in chain.members[1:]
        if is_sum(item.node)
        and (
            extents := [
                number_of(axis.dom.extent) or 0
                for axis in item.node.iter_vars
                if axis.var not in (*item.rows, item.axis)
            ]
        )
    ]
    if len(products) != 1 or not sums or len(wide) > 1 or chain.readers or not chain.rows:
        return None
    summed = [
        number_of(axis.dom.extent) or 0
        for axis in products[0].iter_vars
        if axis.iter_type == tir.IterVar.CommReduce
    ]
    results = prod(wide[0]) if wide else 1
    if (wide and len(wide[0]) > 1) or len(summed) != 1 or not summed[0] or not results:
        return None
    return chain.rows[-1], results, summed[0]


def operand_bytes(chain: Chain) -> int:
    """Of an element of what products read of tensors: queries, keys and values; of the widest, where they differ."""
    made = {region.buffer for item in chain.members for region in item.node.writes}
    scores = [item for item in producers_of(chain.members[0].node) if reduction_loops(item)]
    made |= {region.buffer for item in scores for region in item.writes}
    sums = [*scores, *[item.node for item in chain.members if is_sum(item.node)]]
    read = [region.buffer for item in sums for region in item.reads if region.buffer not in made]
    return max((dt.bytes_of(buffer.dtype) for buffer in read), default=chain.item_bytes)


def _stride(size: int, item_bytes: int) -> int:
    """Elements from one row of shared memory to the next."""
    return size + (_PAD_BYTES // item_bytes - size) % (_BANKS_BYTES // item_bytes)


def _dividing(wanted: Sequence[int], extent: int) -> list[int]:
    """Those sizes that divide an extent; of a small one its largest part."""
    found = [size for size in wanted if extent % size == 0]
    return found or [max(size for size in _divisors(extent) if size <= max(wanted))]


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _parts(shape: Shape, n_results: int) -> tuple[int, int, int]:
    """Rows, keys and results of a row that a thread has."""
    return shape.tile.rows // shape.rows, shape.tile.keys // shape.columns, n_results // shape.columns


def _registers(shape: Shape, n_results: int) -> int:
    rows, keys, results = _parts(shape, n_results)
    return rows * keys + 2 * rows * results


def operand_loads_of(shape: Shape, n_results: int) -> float:
    """What a thread loads for each product that it takes, from shared memory, and what the block does from global memory."""
    rows, keys, results = _parts(shape, n_results)
    return (rows + keys) / (rows * keys) + (rows + results) / (rows * results) + 2 / shape.tile.rows


def _inlined(sch: Schedule, block: BlockRV) -> list[Schedule]:
    inline_producers(sch, block)
    inline_rounded_weights(sch, block)
    return [sch]


def inline_producers(sch: Schedule, block: BlockRV) -> None:
    """Let scores be scaled and masked where they are used."""
    while found := [node for node in producers_of(node_of(sch, block)) if is_injective(node)]:
        sch.compute_inline(sch.get_block(found[0].name))


def inline_rounded_weights(sch: Schedule, block: BlockRV) -> None:
    """Let weights be rounded where they are multiplied, which takes no memory of their own."""
    chain = chain_of(node_of(sch, block))
    weights = [] if chain is None else chain.rounded
    for node in weights:
        sch.compute_inline(sch.get_block(node.name))


def fuse_online(sch: Schedule, block: BlockRV, shape: Shape, skips: bool = False) -> list[Schedule]:
    """The chain of a maximum as one kernel.

    Args:
        sch: a schedule, which is changed.
        block: the maximum.
        shape: of a tile.
        skips: whether tiles of which a mask hides everything are passed over.
    """
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    depth = len(chain.rows)
    n_dims = [len(item.node.iter_vars) for item in chain.members]
    is_wide = [is_sum(item.node) and n > depth + 1 for item, n in zip(chain.members, n_dims, strict=True)]
    wide = {item.node.writes[0].buffer.name for item, yes in zip(chain.members, is_wide, strict=True) if yes}
    parts, loop, around = tiles_of_chain(sch, block, shape.tile)
    sch.run_chain(loop)
    wide |= {
        node_of(sch, part).writes[0].buffer.name for part, yes in zip(parts, is_wide, strict=True) if yes
    }
    _Kernel(sch, shape, depth, loop, around, wide).bind(skips)
    return [sch]


def tiles_of_chain(sch: Schedule, block: BlockRV, tile: Tile) -> tuple[list[BlockRV], LoopRV, LoopRV]:
    """The chain of a maximum in parts of some keys, for some rows together, and what combines these behind.

    Returns:
        The blocks of a part, the loop over parts, and that over tiles of rows.
    """
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    depth = len(chain.rows)
    outer = [split_member(sch, member, tile) for member in chain.members]
    parts = sch.rfactor_chain(*outer)
    loop = sch.merge(*[sch.get_loops(part)[depth] for part in parts])
    feed_tile(sch, parts, loop)
    inside = {id(node) for node in blocks_below(sch._loop(loop))}
    combining = [
        node
        for node in scope_children(node_of(sch, parts[0]))
        if id(node) not in inside and any(id(item) in inside for item in producers_of(node))
    ]
    rows = [sch.get_loops(sch.get_block(node.name))[depth - 1] for node in combining]
    around = sch.merge(sch.get_loops(parts[0])[depth - 1], *rows)
    take_epilogues(sch, around)
    return parts, loop, around


class _Kernel:
    """The loops of a fused chain on their way to the threads of a block.

    Args:
        loop: over the tiles of keys.
        around: over the tiles of rows.
        wide: names of the buffers that threads keep in registers from one tile to the next, or until they are added to such.
    """

    def __init__(
        self, sch: Schedule, shape: Shape, depth: int, loop: LoopRV, around: LoopRV, wide: set[str]
    ) -> None:
        self._sch, self._shape, self._depth, self._loop, self._around = sch, shape, depth, loop, around
        self._wide = wide

    def bind(self, skips: bool) -> None:
        """Bind all loops inside to threads, and those around to blocks."""
        sch = self._sch
        for node in self._nodes():
            self._place_results(node)
        products = [node.name for node in self._nodes() if self._is_product(node)]
        updates = [self._begin_apart(name) for name in products]
        kept = next(node.name for node in self._nodes() if node.name not in updates)
        self._around = sch.fuse(*sch.get_loops(sch.get_block(kept))[: self._depth])
        self._depth = 1
        sch.bind(self._around, "blockIdx.x")
        for node in self._nodes():
            self._bind_block(node)
        for name in updates:
            self._stage_operands(sch.get_block(name))
        if skips:
            sch.skip_masked(self._loop, updates)

    def _nodes(self) -> list[BlockNode]:
        return blocks_below(self._sch._loop(self._around))

    def _begin_apart(self, name: str) -> str:
        """Let a product begin with zeros in a nest of its own, and take its sums outermost; returns the name of the block that adds."""
        sch = self._sch
        block = sch.get_block(name)
        spatial, reduced = self._own(node_of(sch, block))
        sch.reorder(*reduced, *spatial)
        sch.decompose_reduction(block, reduced[0])
        return node_of(sch, block).name

    # ---- threads -------------------------------------------------------------------------------------------------

    def _own(self, node: BlockNode) -> tuple[list[LoopRV], list[LoopRV]]:
        """The loops of a block inside of the kernel's: spatial ones, and those of a reduction."""
        sch = self._sch
        block = sch.get_block(node.name)
        around = loops_around(node)
        begin = self._depth + any(item is sch._loop(self._loop) for item in around)
        reduced = reduction_loops(node)
        loops = sch.get_loops(block)
        spatial = [
            loops[i] for i in range(begin, len(loops)) if i not in reduced and not is_one(around[i].extent)
        ]
        if not spatial and not reduced:
            spatial = [loops[-1] if len(loops) > begin else sch.add_unit_loop(block)]
        return spatial, [loops[i] for i in reduced]

    def _is_product(self, node: BlockNode) -> bool:
        spatial, reduced = self._own(node)
        return len(spatial) == 2 and bool(reduced)

    def _bind_block(self, node: BlockNode) -> None:
        sch = self._sch
        spatial, reduced = self._own(node)
        block = sch.get_block(node.name)
        if len(spatial) > 2 or len(reduced) > 1:
            raise ScheduleError(
                f"OnlineTiles: block {node.name!r} has other loops than rows and keys or results"
            )
        if len(spatial) == 2:
            self._bind_grid(spatial, reduced)
        else:
            self._bind_row(block, spatial, reduced)

    def _bind_grid(self, spatial: Sequence[LoopRV], reduced: Sequence[LoopRV]) -> None:
        """Neighbouring threads have neighbouring columns; what a thread has of both is innermost in a product."""
        sch = self._sch
        (rows, y), (columns, x) = (
            sch.split(loop, [None, count])
            for loop, count in zip(spatial, (self._shape.rows, self._shape.columns), strict=True)
        )
        if reduced:
            sch.reorder(y, x, *reduced, rows, columns)
            sch.unroll(rows)
            sch.unroll(columns)
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")

    def _place_results(self, node: BlockNode) -> None:
        """Results of products are a thread's registers, from which others are given a copy in shared memory; all else lies there."""
        sch = self._sch
        buffer = node.writes[0].buffer
        if is_output_block(node) or buffer.scope() != "global":
            return
        makers = [item for item in self._nodes() if any(region.buffer is buffer for region in item.writes)]
        is_wide = buffer.name in self._wide
        if not is_wide and not any(map(self._is_product, makers)):
            sch.set_scope(sch.get_block(node.name), 0, "shared")
            return
        sch.set_scope(sch.get_block(node.name), 0, "local")
        if is_wide:
            return
        names = {item.name for item in makers}
        made = node.writes[0].buffer
        readers = [item for item in consumers_of(node) if item.name not in names]
        position = next(i for i, region in enumerate(readers[0].reads) if region.buffer is made)
        sch.cache_read(
            sch.get_block(readers[0].name),
            position,
            "shared",
            consumer_blocks=[sch.get_block(item.name) for item in readers],
        )

    def _bind_row(self, block: BlockRV, spatial: Sequence[LoopRV], reduced: Sequence[LoopRV]) -> None:
        """Rows along threads; those of a row share a reduction, and one of them does what there is once."""
        sch, shape = self._sch, self._shape
        row = spatial[0] if spatial else sch.add_unit_loop(block)
        if not reduced and shape.tile.rows % shape.threads == 0:
            _, y, x = sch.split(row, [None, shape.rows, shape.columns])
        else:
            _, y = sch.split(row, [None, shape.rows])
            inner = reduced[0] if reduced else sch.add_unit_loop(block)
            _, x = sch.split(inner, [None, shape.columns])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")

    # ---- shared memory -------------------------------------------------------------------------------------------

    def _stage_operands(self, block: BlockRV) -> None:
        """Copy what a product reads of the function's arguments to shared memory, for each tile of keys or once."""
        sch = self._sch
        node = node_of(sch, block)
        made_here = {region.buffer for other in producers_of(node) for region in other.writes}
        own = {region.buffer for region in node.writes}
        operands = [
            position
            for position, region in enumerate(node.reads)
            if region.buffer not in made_here and region.buffer not in own
        ]
        for position in operands:
            region = node_of(sch, block).reads[position]
            tile = sch._loop(self._loop).var
            values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
            moves = any(
                mentions(value, {tile})
                for var, value in values.items()
                if any(mentions(item.min, {var}) for item in region.region)
            )
            copy = sch.cache_read(block, position, "shared")
            sch.compute_at(copy, self._loop if moves else self._around, preserve_unit_loops=True)
            self._share_copy(copy, moves)

    def _share_copy(self, copy: BlockRV, is_padded: bool) -> None:
        sch, shape = self._sch, self._shape
        node = node_of(sch, copy)
        begin = self._depth + any(item is sch._loop(self._loop) for item in loops_around(node))
        loops = sch.get_loops(copy)[begin:]
        extents = [number_of(item.extent) or 0 for item in loops_around(node)[begin:]]
        size = dt.bytes_of(node.writes[0].buffer.dtype)
        most = ACCESS_BYTES // size
        lanes = most if extents[-1] % most == 0 and prod(extents) % (most * shape.threads) == 0 else 1
        _, y, x, elements = sch.split(sch.fuse(*loops), [None, shape.rows, shape.columns, lanes])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        if lanes > 1:
            sch.vectorize(elements)
        if is_padded:
            sch.storage_align(copy, 0, -2, _BANKS_BYTES // size, _PAD_BYTES // size)
