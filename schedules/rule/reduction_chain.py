"""ReductionChain: a maximum, the sums that depend on it, and the product that feeds them, tile by tile of their common axis.

    for i, k: m[i] = max(m[i], x[i, k])                   for i:
    for i, k: p[i, k] = exp(x[i, k] - m[i])                   for k0:  # a tile of keys has a maximum and sums of its own
    for i, k: s[i] += p[i, k]                       ->            m_rf, p_rf, s_rf, o_rf of k0
    for i, e, k: o[i, e] += p[i, k] * v[k, e]                 m, s, o of those of all tiles, rescaled
    for i, e: y[i, e] = o[i, e] / s[i]                        for e: y[i, e] = o[i, e] / s[i]

Scores and weights then live in the cache only, and each row of x is looked at once. Where a product computes x, some rows share each
tile. Tiles of which a mask hides everything are left out, where that is known to mean the same
(:mod:`schedules.primitive.skip_masked`). The unfused form stays in the space. (Milakov, Gimelshein: "Online normalizer calculation for
softmax", 2018; Rabe, Staats: "Self-attention does not need O(n²) memory", 2021; Dao et al.: "FlashAttention", 2022; how parts are
brought together is said in :mod:`schedules.primitive.rfactor_chain`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import loads_in

from ..analysis import (
    consumers_of,
    is_output_block,
    producers_of,
    scope_children,
    why_not_complete,
    why_not_reduction,
)
from ..annotation import PARALLEL, SKIP_MASKED, VECTORIZE
from ..block_facts import (
    has_data_reuse,
    is_injective,
    is_one,
    is_scheduled,
    loop_position,
    node_of,
    reduce_vars,
    reduction_loops,
)
from ..bounds import slack
from ..error import ScheduleError
from ..masked import Iteration
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..stored_value import choices_in
from ..tree import BlockNode, LeafNode, LoopNode, blocks_below, loops_around
from .base import ScheduleRule, unless_refused
from .compute_location import free_depth

_JOBS_PER_CORE = 64
"""So many iterations of parallel loops let cores that are done early help others; loops inside of them stay serial."""


@dataclass(frozen=True)
class Tile:
    """How much of the axis, and how many rows, are looked at together."""

    keys: int
    rows: int = 1


class ReductionChain(ScheduleRule):
    """Offer chains of reductions over one axis as one pass over its tiles, in tiles for the first and for the second cache.

    Args:
        max_row_tile: rows that share a tile at most, where a product computes what is reduced.
        max_jobs_per_core: with fewer tiles of rows per core, tiles of the axis are offered to the cores, too.
    """

    def __init__(self, max_row_tile: int = 64, max_jobs_per_core: int = 4) -> None:
        if max_row_tile < 1:
            raise ScheduleError(f"ReductionChain: max_row_tile must be positive, got {max_row_tile}")
        self.max_row_tile = max_row_tile
        self.max_jobs_per_core = max_jobs_per_core

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not is_extreme(node) or is_scheduled(node):
            return [sch]
        found: list[Schedule] = []
        for start in [*unless_refused(sch, lambda copy: [copy]), *_with_weights_again(sch, block)]:
            chain = chain_of(node_of(start, block))
            if chain is None:
                continue
            tiles = self._tiles(chain)
            squares = _squares(tiles) if has_mask(chain) else []
            for tile in [*tiles, *squares]:
                for whole_rows in (True, False):
                    if whole_rows or self._leaves_cores_idle(chain, tile):
                        fuse = partial(self._fuse, block=block, tile=tile, whole_rows=whole_rows)
                        fused = unless_refused(start, fuse)
                        found += fused[:-1] if tile in squares else fused
        return [*found, sch]

    # ---- sizes --------------------------------------------------------------------------------------------------

    def _tiles(self, chain: Chain) -> list[Tile]:
        """For each cache the tile in it that uses what it loads most often."""
        budgets = (int(self.target.l1_cache_bytes) // 2, int(self.target.l2_cache_bytes) // 2)
        found: list[Tile] = []
        for budget in budgets:
            best = max(self._fitting(chain, budget), key=lambda tile: _reuse(chain, tile), default=None)
            if best is not None and best not in found:
                found.append(best)
        return found

    def _fitting(self, chain: Chain, budget: int) -> Iterator[Tile]:
        rows = [1]
        if chain.has_product and chain.rows:
            rows = [size for size in range(1, self.max_row_tile + 1) if chain.rows[-1] % size == 0]
        for n_rows in rows:
            # what is the same for all rows, and for each row an element and a weight of it
            per_key = chain.key_bytes + n_rows * chain.element_bytes
            keys = (budget - n_rows * chain.row_bytes) // per_key
            keys = self._good_size(chain, keys) if keys > 0 else 0
            # Products of several rows fill registers in whole tiles only; without any, one tile of all keys saves nothing.
            if keys < 2:
                continue
            if chain.extent % keys == 0 if n_rows > 1 else keys < chain.extent or chain.has_product:
                yield Tile(keys, n_rows)

    def _good_size(self, chain: Chain, most: int) -> int:
        """The most keys up to ``most``: whole vectors that divide the extent, if they are half as many; else all; else a power of two."""
        most = min(chain.extent, most)
        lanes = max(1, int(self.target.vector_bits) // 8 // chain.item_bytes)
        good = [size for size in range(lanes, most + 1, lanes) if chain.extent % size == 0]
        if good and 2 * good[-1] > most:
            return good[-1]
        return most if most == chain.extent else 1 << (most.bit_length() - 1)

    def _leaves_cores_idle(self, chain: Chain, tile: Tile) -> bool:
        if not chain.rows:  # its tiles of the axis go to the cores in any case
            return False
        jobs, cores = prod(chain.rows) // tile.rows, int(self.target.num_cores)
        return cores > 1 and tile.keys < chain.extent and jobs < self.max_jobs_per_core * cores

    # ---- one variant --------------------------------------------------------------------------------------------

    def _fuse(self, sch: Schedule, block: BlockRV, tile: Tile, whole_rows: bool) -> list[Schedule]:
        chain = chain_of(node_of(sch, block))
        assert chain is not None
        depth = len(chain.rows)
        outer = [split_member(sch, member, tile) for member in [*chain.members, *chain.readers]]
        made = sch.rfactor_chain(*outer)
        parts, readers = made[: len(chain.members)], made[len(chain.members) :]
        loop = sch.merge(*[sch.get_loops(part)[depth] for part in parts])
        feed_tile(sch, parts, loop)
        for reader in readers:
            sch.annotate(sch.get_loops(reader)[-1], VECTORIZE, 1)
        if not whole_rows or not depth:
            self._share(sch, loop)
            return [*without_hidden_tiles(sch, loop), sch]
        inside = {id(node) for node in blocks_below(sch._loop(loop))}
        scope = scope_children(node_of(sch, parts[0]))
        combining = [
            node
            for node in scope
            if id(node) not in inside and any(id(item) in inside for item in producers_of(node))
        ]
        rows = [sch.get_loops(sch.get_block(node.name))[depth - 1] for node in combining]
        around = sch.merge(sch.get_loops(parts[0])[depth - 1], *rows)
        take_epilogues(sch, around)
        self._share(sch, around)
        return [*without_hidden_tiles(sch, loop), sch]

    def _share(self, sch: Schedule, innermost: LoopRV) -> None:
        """Mark the loops down to one for the cores: where the chain's blocks are computed is settled, too."""
        (block, *_) = blocks_below(sch._loop(innermost))
        depth = len(loops_around(sch._loop(innermost))) + 1
        jobs = 1
        for loop in sch.get_loops(sch.get_block(block.name))[:depth]:
            if jobs < _JOBS_PER_CORE * int(self.target.num_cores):
                sch.annotate(loop, PARALLEL, 1)
            extent = sch._loop(loop).extent
            jobs *= extent.value if isinstance(extent, tir.IntImm) else 1


# ---- what a chain is --------------------------------------------------------------------------------------------


@dataclass
class _Member:
    """A block of a chain with the variables that run over the rows, in the order of the maximum's, and along the axis."""

    node: BlockNode
    rows: list[Any]
    axis: Any


@dataclass
class Chain:
    """A maximum, the weights relative to it, and sums."""

    members: list[_Member]
    """The maximum first."""
    readers: list[_Member]
    """Elementwise blocks behind the sums that read weights."""
    item_bytes: int
    extent: int
    rows: list[int]
    rounded: list[BlockNode]
    """Those members that make other numbers of weights."""
    has_product: bool
    """Whether rows have operands in common, so that a tile of several rows loads less."""
    key_bytes: int
    """What a tile of one key holds that all rows use."""
    element_bytes: int
    """What it holds for each row."""
    row_bytes: int
    """What a tile of one row holds that all keys use."""


def is_extreme(node: BlockNode) -> bool:
    """Whether a block is a maximum or minimum of floats over one axis."""
    if why_not_reduction(node) is not None or not isinstance(node.body, LeafNode):
        return False
    store = node.body.leaf
    return (
        isinstance(store, tir.BufferStore)
        and isinstance(store.value, tir.Max | tir.Min)
        and dt.is_float(store.buffer.dtype)
        and len(reduce_vars(node)) == 1
    )


def weights_of(node: BlockNode) -> list[BlockNode]:
    """Elementwise blocks that depend on a maximum and are summed up."""
    return [
        item
        for item in consumers_of(node)
        if is_injective(item) and not is_output_block(item) and any(map(is_sum, consumers_of(item)))
    ]


def is_sum(node: BlockNode) -> bool:
    return why_not_reduction(node) is None and len(reduce_vars(node)) == 1


def _with_weights_again(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """The schedule with weights inlined that others than sums read, too, such as the division of a softmax: those compute them again."""
    weights = [
        weight.name
        for weight in weights_of(node_of(sch, block))
        if not all(map(is_sum, consumers_of(weight)))
    ]

    def inlined(copy: Schedule) -> list[Schedule]:
        for name in weights:
            copy.compute_inline(copy.get_block(name))
        return [copy]

    return unless_refused(sch, inlined) if weights else []


def chain_of(node: BlockNode) -> Chain | None:
    """The chain of which a block is the maximum; None where nothing depends on it along the same axis."""
    first = _member(node, node.writes[0].region, reduce_vars(node)[0])
    extent = _extent_of(node, first.axis) if first is not None else None
    if first is None or extent is None:
        return None
    members = [first]
    for weight in weights_of(node):
        load = _load_of(weight, node)
        free = [
            item.var for item in weight.iter_vars if load is not None and item.var not in set(load.indices)
        ]
        member = _member(weight, load.indices, free[0]) if load is not None and len(free) == 1 else None
        if member is None:
            return None
        members.append(member)
    rounded = _rounded_weights(members[1:])
    members += rounded
    for other in scope_children(node):
        if other is not node and is_sum(other):
            member = _reading_member(other, members, reduce_vars(other)[0])
            members += [] if member is None else [member]
    order = {id(other): place for place, other in enumerate(scope_children(node))}
    members.sort(key=lambda item: order[id(item.node)])
    readers: list[_Member] = []
    for kept in members[1:]:
        for other in consumers_of(kept.node) if not is_sum(kept.node) else ():
            if any(other is item.node for item in [*members, *readers]):
                continue
            load = _load_of(other, kept.node)
            place = next(i for i, item in enumerate(kept.node.writes[0].region) if item.min is kept.axis)
            reader = _reading_member(other, [kept], load.indices[place]) if load is not None else None
            if reader is None or not is_injective(other):
                return None
            readers.append(reader)
    same = all(_extent_of(item.node, item.axis) == extent for item in [*members, *readers])
    if not any(is_sum(item.node) for item in members[1:]) or not same:
        return None
    return _measured(members, readers, extent, [item.node for item in rounded])


def _rounded_weights(weights: Sequence[_Member]) -> list[_Member]:
    """Elementwise blocks that make other numbers of weights, such as those of 16 bits that a product takes."""
    found: list[_Member] = []
    for weight in weights:
        for other in consumers_of(weight.node):
            load = _load_of(other, weight.node)
            if load is None or not is_injective(other) or is_output_block(other):
                continue
            if not any(map(is_sum, consumers_of(other))):
                continue
            place = next(i for i, item in enumerate(weight.node.writes[0].region) if item.min is weight.axis)
            member = _reading_member(other, [weight], load.indices[place])
            found += [] if member is None else [member]
    return found


def _reading_member(node: BlockNode, producers: Sequence[_Member], axis: Any) -> _Member | None:
    """A block that reads what one of the members writes, as a member; None if it reads none, or has no loops as those have."""
    for producer in producers:
        load = _load_of(node, producer.node)
        if load is not None:
            written = [item.min for item in producer.node.writes[0].region]
            names = dict(zip(written, load.indices, strict=True))
            return _member(node, [names.get(row) for row in producer.rows], axis)
    return None


def _member(node: BlockNode, rows: Sequence[Any], axis: Any) -> _Member | None:
    """A member, if single loops run over its rows and along its axis."""
    variables = [getattr(row, "min", row) for row in rows]
    if any(not isinstance(var, tir.Var) or loop_position(node, var) is None for var in [*variables, axis]):
        return None
    return _Member(node, variables, axis)


def _load_of(node: BlockNode, producer: BlockNode) -> tir.BufferLoad | None:
    """The first load of what another block writes."""
    buffers = {region.buffer for region in producer.writes}
    leaf = node.body.leaf if isinstance(node.body, LeafNode) else None
    return (
        next((load for load in loads_in(leaf) if load.buffer in buffers), None) if leaf is not None else None
    )


def _extent_of(node: BlockNode, var: Any) -> int | None:
    extent = next(item.dom.extent for item in node.iter_vars if item.var is var)
    return extent.value if isinstance(extent, tir.IntImm) else None


def _measured(
    members: list[_Member], readers: list[_Member], extent: int, rounded: list[BlockNode]
) -> Chain | None:
    """The chain with what a tile of it holds."""
    first = members[0]
    rows = [_extent_of(first.node, row) for row in first.rows]
    n_bytes = dt.bytes_of(first.node.writes[0].buffer.dtype)
    own = 0
    for item in members[1:]:
        others = [
            _extent_of(item.node, axis.var)
            for axis in item.node.iter_vars
            if axis.var not in item.rows and axis.var is not item.axis
        ]
        if None in others:
            return None
        own += prod(others) if others else 0  # type: ignore[arg-type]
    if None in rows:
        return None
    summed = sum(
        _extent_of(node, reduced) or 0
        for node in _sources(first.node)
        if has_data_reuse(node)
        for reduced in reduce_vars(node)
    )
    n_stored = 1 + sum(not is_sum(item.node) for item in members[1:])
    return Chain(
        members,
        readers,
        n_bytes,
        extent,
        rows,  # type: ignore[arg-type]
        rounded,
        own > 0 or summed > 0,
        (own + summed) * n_bytes,
        n_stored * n_bytes,
        (own + summed) * n_bytes,
    )


def _sources(node: BlockNode) -> list[BlockNode]:
    """The blocks that compute what a block reads, through elementwise ones."""
    found = []
    for producer in producers_of(node):
        found.append(producer)
        if is_injective(producer):
            found += _sources(producer)
    return found


def has_mask(chain: Chain) -> bool:
    """Whether a comparison of indices hides some of what is reduced."""
    leaves = [item.node.body.leaf for item in chain.members if isinstance(item.node.body, LeafNode)]
    conditions = [condition for leaf in leaves for _, condition, _, _ in choices_in(leaf)]
    return any(slack(clause) is not None for condition in conditions for clause in conjuncts(condition))


def _squares(tiles: Sequence[Tile]) -> list[Tile]:
    """Tiles of no more keys than rows: the border of a triangle cuts less of them, which is to be computed with the mask."""
    squares = [Tile(tile.rows, tile.rows) for tile in tiles if 1 < tile.rows < tile.keys]
    return [tile for number, tile in enumerate(squares) if tile not in [*tiles, *squares[:number]]]


def _reuse(chain: Chain, tile: Tile) -> float:
    """How often a tile uses what it loads: by keys and by rows."""
    return tile.keys * tile.rows / (tile.keys + tile.rows) if chain.has_product else tile.keys


# ---- steps ------------------------------------------------------------------------------------------------------


def split_member(sch: Schedule, member: _Member, tile: Tile) -> LoopRV:
    """Bring a block's loops into the order tiles of rows, tiles of keys, the rest; returns the loop over the tiles of keys."""
    block = sch.get_block(member.node.name)
    loops = sch.get_loops(block)
    places = [loop_position(member.node, var) for var in [*member.rows, member.axis]]
    *rows, axis = [loops[place] for place in places if place is not None]
    others = [loop for position, loop in enumerate(loops) if position not in places]
    inner: list[LoopRV] = []
    if tile.rows > 1:
        rows[-1], in_tile = sch.split(rows[-1], [None, tile.rows])
        inner.append(in_tile)
    outer, within = sch.split(axis, [None, tile.keys])
    sch.reorder(*rows, outer, *inner, *others, within)
    return outer


def feed_tile(sch: Schedule, parts: Sequence[BlockRV], loop: LoopRV) -> None:
    """Compute what only the tile reads in the tile, if none of it is computed twice."""
    place = sch._loop(loop)
    around = [*loops_around(place), place]
    done = False
    while not done:
        done = True
        for node in [item for block in blocks_below(place) for item in producers_of(block)]:
            if _is_fed_once(node, place, around):
                sch.compute_at(sch.get_block(node.name), loop, preserve_unit_loops=True)
                done = False
                break


def _is_fed_once(node: BlockNode, place: LoopNode, around: list[LoopNode]) -> bool:
    consumers = consumers_of(node)
    below = {id(item) for item in blocks_below(place)}
    if id(node) in below or is_output_block(node) or is_scheduled(node):
        return False
    if why_not_complete(node) is not None and why_not_reduction(node) is not None:
        return False
    if not consumers or any(id(item) not in below for item in consumers):
        return False
    repeated = [loop for loop in around if not is_one(loop.extent)]
    return free_depth(node, consumers, repeated) == len(repeated)


def without_hidden_tiles(sch: Schedule, loop: LoopRV) -> list[Schedule]:
    """The schedule with those tiles left out in which a mask hides everything; none where that cannot be shown to mean the same."""
    percentage = Iteration(sch._loop(loop)).percentage_left()
    if percentage is None or not unless_refused(sch, lambda copy: _rehearsed(copy, loop)):
        return []
    skipping = sch.copy()
    skipping.annotate(loop, SKIP_MASKED, percentage)
    return [skipping]


def _rehearsed(sch: Schedule, loop: LoopRV) -> list[Schedule]:
    """The schedule with reductions initialised apart, as they are when a mark is followed, if then all of them may be left out."""
    for node in blocks_below(sch._loop(loop)):
        if node.init is not None:
            block = sch.get_block(node.name)
            sch.decompose_reduction(block, sch.get_loops(block)[reduction_loops(node)[0]])
    iteration = Iteration(sch._loop(loop))
    skipped = {id(node) for hidden in iteration.hidden for node in hidden.skipped}
    sums = [node for node in iteration.blocks if reduce_vars(node)]
    return [sch] if all(id(node) in skipped for node in sums) else []


def take_epilogues(sch: Schedule, loop: LoopRV) -> None:
    """Move the elementwise blocks behind a loop into it that take its results only."""
    done = False
    while not done:
        done = True
        inside = blocks_below(sch._loop(loop))
        for node in [item for block in inside for item in consumers_of(block)]:
            if any(node is item for item in inside) or not is_injective(node):
                continue
            try:
                sch.reverse_compute_at(sch.get_block(node.name), loop)
            except ScheduleError:
                continue  # it takes results of others, too; it stays where it is
            done = False
            break
