"""SpatialTiling: tiles for nests that reuse nothing in registers - elementwise chains, copies, transpositions, gathers, windows.

A block over the axes i, j, k whose result is contiguous along k becomes

    for i0, j0 (parallel): for i1, j1:               # how many jobs there are, and how long they are
        for k0: for k1 (unrolled): for k2 (vector): B[i, j, k] = f(A[i, j, k], ...)

Where an operand is contiguous along another axis than the result (a transposition), every order of the loops is strided in one of
the two. Both axes are tiled then, so that the cache lines of a tile stay in the nearest cache until they are used whole (Lam,
Rothberg, Wolf: "The cache performance and optimizations of blocked algorithms", ASPLOS 1991); the orders in which the result or
the operand is walked through memory are structures of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from ir.tir.intrinsic.declaration import calls_costly
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..analysis import lanes_of, why_not_reduction
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import (
    extent_at,
    is_injective,
    is_plain_nest,
    node_of,
    reduce_vars,
    reduction_loops,
    stands_beside_tiles,
)
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LeafNode, all_blocks, loops_around, root_of
from .base import ScheduleRule, unless_refused
from .memory_order import contiguous_loop, transposed_operands, walk_through
from .padding import pad_loop, padded_extent

_JOBS_PER_CORE = 8
"""Loops are shared out, the outermost first, until their iterations could be so many jobs for each core."""
_FEW_VECTORS = 8
"""A vector loop of fewer vectors is not shared out among the cores."""


@dataclass(frozen=True)
class _Order:
    """One way to run a block's loops, which are positions from the outermost on."""

    loops: tuple[int, ...]
    """Those that are not reductions, in the order in which they are walked through."""
    vector: int | None
    sides: frozenset[int]
    """Loops that are the sides of a transposition's tile."""
    in_vectors: bool
    """Whether the vector loop is split into whole vectors, padded where it must be; else lowering takes it apart."""


@dataclass
class _Levels:
    """The loops of a tiled nest by level, the outermost first."""

    jobs: list[LoopRV] = field(default_factory=list)
    in_job: list[LoopRV] = field(default_factory=list)
    outer: list[LoopRV] = field(default_factory=list)
    in_tile: list[LoopRV] = field(default_factory=list)
    vectors: list[LoopRV] = field(default_factory=list)
    """A loop over vectors, where there is one, and that over their elements."""


class SpatialTiling(ScheduleRule):
    """Tile the loops of a block that no other rule has tiled.

    Sampled are how many jobs the outer loops make, how many vectors are computed at a time, and the tile of a transposition. In a
    program with reductions the nest as it was is offered too. Beside reductions that other rules have tiled, only transpositions
    are tiled, in one order: the time of such programs is spent elsewhere.

    Args:
        max_vectors: vectors of the innermost loop that are unrolled at most.
        max_tile: elements along a side of a transposition's tile at most.
    """

    def __init__(self, max_vectors: int = 8, max_tile: int = 64) -> None:
        self.max_vectors, self.max_tile = max_vectors, max_tile

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        reduces = why_not_reduction(node) is None and isinstance(node.body, LeafNode)
        if not (_reduces_alone(node) if reduces else is_injective(node)):
            return [sch]
        if LAYOUT_REWRITE_PREPROC in node.annotations or not is_plain_nest(node):
            return [sch]
        orders = list(self._orders(node))
        beside = stands_beside_tiles(node)
        if beside:
            orders = [order for order in orders[:1] if order.sides]
        found = [
            made
            for order in orders
            for made in unless_refused(sch, partial(self._tile, block=block, order=order))
        ]
        return found if found and (beside or not _reduces_somewhere(node)) else [sch, *found]

    def _orders(self, node: BlockNode) -> Iterator[_Order]:
        """As the result is walked through in memory, and as operands are."""
        reductions = set(reduction_loops(node))
        natural = [i for i in range(len(loops_around(node))) if i not in reductions]
        written = contiguous_loop(node, node.writes[0])
        operands = [] if reductions or written is None else transposed_operands(node, written)
        found = [written, *(contiguous_loop(node, region) for region in operands)]
        sides = {position for position in found if position is not None}
        long = {position for position in sides if extent_at(node, position) >= self._lanes(node)}
        vector = written
        if len(sides) > 1 and long and written not in long:
            # A few elements are no vector: lanes that lie apart in the result are better.
            vector = max(long, key=lambda position: extent_at(node, position))
        orders = [tuple(natural), *(walk_through(node, region, natural) for region in operands)]
        tiled = frozenset(long if len(long) > 1 else ())
        for loops in dict.fromkeys(orders):
            for in_vectors in self._splits(node, vector, bool(tiled)):
                yield _Order(loops, vector, tiled, in_vectors)

    def _splits(self, node: BlockNode, vector: int | None, in_tiles: bool) -> tuple[bool, ...]:
        """Whether the vector loop is split: it has several vectors. Where the last one is not whole, both ways are structures."""
        lanes = self._lanes(node)
        if vector is None or extent_at(node, vector) < 2 * lanes:
            return (False,)
        return (True, False) if extent_at(node, vector) % lanes and not in_tiles else (True,)

    def _lanes(self, node: BlockNode) -> int:
        """Elements of the narrowest result in a vector, in two vectors where a polynomial is computed: its steps wait for each other."""
        pairs = isinstance(node.body, LeafNode) and calls_costly(node.body.leaf)
        return lanes_of(self.target, node) * (2 if pairs else 1)

    # ---- one structure -----------------------------------------------------------------------------------------

    def _tile(self, sch: Schedule, block: BlockRV, order: _Order) -> list[Schedule]:
        node = node_of(sch, block)
        loops, extents = sch.get_loops(block), [extent_at(node, i) for i in range(len(loops_around(node)))]
        summed = [loops[position] for position in reduction_loops(node)]
        shared = self._shared(node, order)
        levels = _Levels()
        for position in order.loops:
            loop, extent = loops[position], extents[position]
            place = levels.jobs if position in shared else levels.outer
            if position == order.vector and order.in_vectors:
                is_side = position in order.sides
                n_levels = 2 if is_side or position in shared else 1
                most = max(1, self.max_tile // self._lanes(node)) if is_side else None
                outer, *inside, unrolled, elements = self._split_vectors(
                    sch, loop, extent, self._lanes(node), n_levels, most
                )
                place.append(outer)
                (levels.in_tile if is_side else levels.in_job).extend(inside)
                levels.vectors += [unrolled, elements]
            elif position == order.vector:
                levels.vectors.append(loop)
            elif position in order.sides:
                outer, inner = self._split_side(sch, loop, extent)
                place.append(outer)
                levels.in_tile.append(inner)
            elif position in shared and extent > 1:
                outer, inner = sch.split(loop, sch.sample_perfect_tile(loop, 2, extent))
                place.append(outer)
                levels.in_job.append(inner)
            else:
                place.append(loop)
        chain = [*levels.jobs, *levels.in_job, *levels.outer, *levels.in_tile, *summed, *levels.vectors]
        if len(chain) > 1:
            sch.reorder(*chain)
        for loop in levels.jobs:
            sch.annotate(loop, PARALLEL, 1)
        for loop in levels.vectors:
            sch.annotate(loop, VECTORIZE if loop is levels.vectors[-1] else UNROLL, 1)
        return [sch]

    def _shared(self, node: BlockNode, order: _Order) -> set[int]:
        """The loops that are shared out among the cores: the outermost ones, as far as they are needed."""
        chosen: set[int] = set()
        jobs = 1
        for position in order.loops:
            extent = extent_at(node, position)
            if position == order.vector and (
                not order.in_vectors or extent < _FEW_VECTORS * self._lanes(node)
            ):
                break
            if jobs >= _JOBS_PER_CORE * self.target.num_cores:
                break
            chosen.add(position)
            jobs *= extent
        return chosen

    def _split_vectors(
        self, sch: Schedule, loop: LoopRV, extent: int, lanes: int, n_levels: int, most: int | None
    ) -> list[LoopRV]:
        """Split a loop into levels of vectors, at most so many in a tile of the inner ones; vectors that are unrolled; and elements."""
        if extent % lanes:
            loop = pad_loop(sch, loop, padded_extent(extent, lanes, self.max_vectors))
        rest, elements = sch.split(loop, [None, lanes])
        factors = sch.sample_perfect_tile(rest, n_levels + 1, self.max_vectors)
        if most is not None:
            sch.restrict_tile(factors, lambda table: table[:, 1:].prod(axis=1) <= most)
        return [*sch.split(rest, factors), elements]

    def _split_side(self, sch: Schedule, loop: LoopRV, extent: int) -> tuple[LoopRV, LoopRV]:
        """Split the other side of a transposition's tile, padded where it has no good divisor."""
        if not any(extent % size == 0 for size in range(8, self.max_tile + 1)) and extent > self.max_tile:
            loop = pad_loop(sch, loop, padded_extent(extent, 8, 8))
        outer, inner = sch.split(loop, sch.sample_perfect_tile(loop, 2, self.max_tile))
        return outer, inner


def _reduces_alone(node: BlockNode) -> bool:
    """Whether no other block of the program reduces: of several, all combinations would be structures."""
    return not any(reduce_vars(item) for item in all_blocks(root_of(node)) if item is not node)


def _reduces_somewhere(node: BlockNode) -> bool:
    """Whether a block of the program reduces."""
    return any(reduce_vars(item) for item in all_blocks(root_of(node)))
