"""PairTiling: a convolution or product and the one that reads its results, tile by tile, so that what is between them stays in a cache.

    for y, x, c: D[y, x, c] = depthwise(A)           for y0 (parallel):
    for y, x, c: E[y, x, c] = relu(D[y, x, c])   ->      for y1, x, c: E[y1, x, c] = relu(depthwise(A))   # a nest in registers, as it was
    for y, x, f: C[y, x, f] += E[y, x, c] * W            for y1, x, f: C[y1, x, f] += E[y1, x, c] * W     # another one

The tile is the one that fits a cache and computes least again of what windows of neighbouring tiles share. Each of the two nests keeps a
register tile and panels of its own. The pair as two passes stays in the space. (Alwani, Chen, Ferdman, Milder: "Fused-layer CNN
accelerators", MICRO 2016.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..affine import coefficient_of, mentions
from ..analysis import consumers_of, is_output_block, lanes_of, producers_of
from ..annotation import PARALLEL, VECTORIZE
from ..block_facts import (
    contiguous_var,
    elementwise_consumer,
    has_data_reuse,
    is_injective,
    loop_position,
    node_of,
    operand_loads,
    reduce_vars,
    spatial_vars,
    stands_alone,
)
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule, unless_refused
from .register_tiling import RegisterTiling

_MOST_REPEATED = 1.25
"""Tiles that compute more of the first of a pair again, by this factor, are not offered."""
_MOST_BETWEEN = 2
"""Blocks between the two at most: what is computed of the results, and their padding."""


@dataclass(frozen=True)
class _Axis:
    """An axis of the second of a pair that selects parts of what it reads of the first.

    Attributes:
        var: of the block.
        position: of its loop.
        sizes: of tiles that divide it.
    """

    var: Any
    position: int
    extent: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Tile:
    """A tile of the second of a pair.

    Attributes:
        sizes: by position of the loops that are split.
        repeated: results of the first that all tiles compute, relative to those that there are.
        bytes: of those results that one tile reads.
    """

    sizes: tuple[tuple[int, int], ...]
    repeated: float
    bytes: int


class PairTiling(ScheduleRule):
    """Offer two reductions with reuse, of which the second alone reads the first, in tiles for the first and for the second cache."""

    def initialize(self, target: Target) -> None:
        super().initialize(target)
        self._registers = RegisterTiling()
        self._registers.initialize(target)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        chain = _chain_before(node)
        if not chain:
            return [sch]
        names = [item.name for item in chain]
        found: list[Schedule] = []
        for tile in self._tiles(node, chain):
            found += unless_refused(sch, partial(self._fuse, block=block, names=names, tile=tile))
        return [*found, sch]

    # ---- sizes --------------------------------------------------------------------------------------------------

    def _tiles(self, node: BlockNode, chain: Sequence[BlockNode]) -> list[Tile]:
        """For each cache the tile in it that repeats least, then the one of the fewest loops, then the largest."""
        load = _load_of(node, chain[0])
        axes = list(self._axes(node, load)) if load is not None else []
        if not axes or load is None:
            return []
        fitting = [_tile_of(node, load, axes, sizes) for sizes in product(*[axis.sizes for axis in axes])]
        # a block between the two that is no epilogue, such as padding, is a copy of the tile
        copies = max(1, len(chain) - 1)
        found: list[Tile] = []
        for budget in (self.target.l1_cache_bytes // 2, self.target.l2_cache_bytes // 2):
            best = min(
                (tile for tile in fitting if tile.sizes and tile.bytes * copies <= budget),
                key=lambda tile: (round(tile.repeated, 1), len(tile.sizes), -tile.bytes),
                default=None,
            )
            if best is not None and best.repeated <= _MOST_REPEATED and best not in found:
                found.append(best)
        return found

    def _axes(self, node: BlockNode, load: tir.BufferLoad) -> Iterator[_Axis]:
        """Those of the second's axes that select what it reads; of one along memory, tiles are whole cache lines."""
        line = self.target.cache_line_bytes // dt.bytes_of(load.buffer.dtype)
        line = max(line, lanes_of(self.target, node))
        for var in spatial_vars(node):
            position, extent = loop_position(node, var), _extent_of(node, var)
            if position is None or extent == 1 or not any(mentions(index, {var}) for index in load.indices):
                continue
            step = line if var is contiguous_var(node) else 1
            divisors = (size for size in range(1, extent) if extent % size == 0 and size % step == 0)
            yield _Axis(var, position, extent, (*divisors, extent))

    # ---- one tile -----------------------------------------------------------------------------------------------

    def _fuse(self, sch: Schedule, block: BlockRV, names: Sequence[str], tile: Tile) -> list[Schedule]:
        sizes = dict(tile.sizes)
        outer, inner = [], []
        for position, loop in enumerate(sch.get_loops(block)):
            if position in sizes:
                jobs, loop = sch.split(loop, [None, sizes[position]])
                outer.append(jobs)
            inner.append(loop)
        sch.reorder(*outer, *inner)
        for loop in outer:
            sch.annotate(loop, PARALLEL, 1)
        for name in names:
            sch.compute_at(sch.get_block(name), outer[-1], preserve_unit_loops=True)
        first = sch.get_block(names[-1])
        epilogue = elementwise_consumer(node_of(sch, first))
        for name in names[:-1]:
            if epilogue is None or name != epilogue.name:
                sch.annotate(sch.get_loops(sch.get_block(name))[-1], VECTORIZE, 1)
        for half in (block, first):
            self._registers.tile_inside(sch, half)
        return [sch]


def _chain_before(node: BlockNode) -> list[BlockNode]:
    """The blocks that compute what a reduction with reuse reads, the last one first, back to another such reduction; or none.

    Each is read by the one behind it only, and none is scheduled yet.
    """
    chain: list[BlockNode] = []
    current = node
    if not _is_tileable(node):
        return []
    while len(chain) <= _MOST_BETWEEN:
        producers = producers_of(current)
        if len(producers) != 1 or LAYOUT_REWRITE_PREPROC in producers[0].annotations:
            return []
        (current,) = producers
        if is_output_block(current) or len(consumers_of(current)) != 1 or not stands_alone(current):
            return []
        chain.append(current)
        if _is_tileable(current):
            return chain
        if not is_injective(current):
            return []
    return []


def _is_tileable(node: BlockNode) -> bool:
    """Whether a block alone in its nest reduces with reuse, over axes of known extents, everywhere."""
    return (
        has_data_reuse(node)
        and stands_alone(node)
        and node.is_unconditional
        and all(isinstance(item.dom.extent, tir.IntImm) for item in node.iter_vars)
    )


def _load_of(node: BlockNode, producer: BlockNode) -> tir.BufferLoad | None:
    """The only load of what another block writes."""
    written = {region.buffer for region in producer.writes}
    loads = [load for load in operand_loads(node) if load.buffer in written]
    return loads[0] if len(loads) == 1 else None


def _extent_of(node: BlockNode, var: Any) -> int:
    extent = next(item.dom.extent for item in node.iter_vars if item.var is var)
    assert isinstance(extent, tir.IntImm)
    return int(extent.value)


def _tile_of(node: BlockNode, load: tir.BufferLoad, axes: Sequence[_Axis], sizes: Sequence[int]) -> Tile:
    """A tile with what it reads: for each index the steps of its axes, and the windows of reductions."""
    tiled = {axis.var: size for axis, size in zip(axes, sizes, strict=True)}
    read, whole = 1, 1
    for index in load.indices:
        span = full = 1
        for var in [*spatial_vars(node), *reduce_vars(node)]:
            step = coefficient_of(index, var) if mentions(index, {var}) else 0
            extent = _extent_of(node, var)
            span += abs(step or 0) * (tiled.get(var, extent) - 1)
            full += abs(step or 0) * (extent - 1)
        read, whole = read * span, whole * full
    n_tiles = prod(axis.extent // size for axis, size in zip(axes, sizes, strict=True))
    split = tuple((axis.position, size) for axis, size in zip(axes, sizes, strict=True) if size < axis.extent)
    return Tile(split, read * n_tiles / whole, read * dt.bytes_of(load.buffer.dtype))
