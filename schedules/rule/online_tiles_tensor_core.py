"""OnlineTilesTensorCore: attention of 16 bits on a GPU's tensor cores, as one kernel with a running maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES, WARP
from ir.tir.tensor_intrin.cuda_mma import TILE

from ..analysis import producers_of
from ..block_facts import is_injective, is_scheduled, node_of
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..stored_value import choices_in
from ..tree import BlockNode, LeafNode
from .base import Alternatives, ScheduleRule, unless_refused
from .online_fragments import WarpTiles, fuse_in_fragments, how_multiplied, products_of
from .online_tiles import inline_producers, sizes_of
from .reduction_chain import Chain, Tile, chain_of, has_mask, is_extreme

_MOST_REGISTERS = 192
"""Of a thread, for matrices: others hold addresses, and what a row has once."""
_VERSIONS = 2
"""Of tiles of keys and values: one is looked at while the next one is copied."""


class OnlineTilesTensorCore(ScheduleRule):
    """Offer chains of a product, a maximum, and sums relative to it, whose products tensor cores multiply: :mod:`.online_fragments`.

    The products' operands are float16 or bfloat16 (the weights are rounded to that: ``[relax-attention-half]`` in docs/semantics.md),
    their sums float32, and all extents whole tiles of 16. Other chains are left to :class:`~.online_tiles.OnlineTiles`, which
    offers these, too.

    Args:
        warp_rows: rows of a warp, of which those are offered that divide the rows.
        warps: of a block of threads, likewise.
        key_tiles: keys of a tile, likewise.
    """

    changes_rounding = True  # where a mask hides what is not finite, a result may be NaN

    def __init__(
        self,
        warp_rows: Sequence[int] = (16, 32),
        warps: Sequence[int] = (1, 2, 4, 8),
        key_tiles: Sequence[int] = (16, 32, 64),
    ) -> None:
        sizes = [*warp_rows, *key_tiles]
        if not (warp_rows and warps and key_tiles) or min(*sizes, *warps) < 1 or any(n % TILE for n in sizes):
            raise ScheduleError(
                f"OnlineTilesTensorCore: rows of a warp and keys must be multiples of {TILE}, and numbers of warps positive, got"
                f" {list(warp_rows)}, {list(key_tiles)} and {list(warps)}"
            )
        self.warp_rows, self.warps, self.key_tiles = list(warp_rows), list(warps), list(key_tiles)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        if not is_extreme(node) or is_scheduled(node):
            return [sch]
        (start,) = unless_refused(sch, partial(prepared, block=block)) or [sch]
        chain = chain_of(node_of(start, block))
        shapes = list(self.shapes(chain)) if chain is not None else []
        if chain is None or not shapes:
            return [sch]
        fuse = partial(fuse_in_fragments, block=block)
        return Alternatives(
            [
                *[
                    partial(unless_refused, start, partial(fuse, shape=shape, skips=skips))
                    for shape in shapes
                    for skips in ((True, False) if has_mask(chain) else (False,))
                ],
                lambda: [sch],
            ]
        )

    def shapes(self, chain: Chain) -> Iterator[WarpTiles]:
        """The shapes that divide a chain evenly and fit a block's memory and a thread's registers."""
        sizes = sizes_of(chain) if chain.has_product else None
        multiplied = how_multiplied(chain, self.target) if sizes is not None else None
        if sizes is None or multiplied is None:
            return
        n_rows, n_results, n_summed = sizes
        if n_results % TILE or n_summed % TILE:
            return
        dtype, in_halves = multiplied
        most = int(self.target.max_shared_memory_per_block_optin)
        for shape in self._dividing(n_rows, chain.extent):
            shape = replace(shape, in_halves=in_halves)
            for kept in (replace(shape, keeps_queries=True), shape):
                if registers_of(kept, n_results, n_summed) <= _MOST_REGISTERS:
                    is_ahead = self.target.supports_async_copy and chain.extent > kept.tile.keys
                    for offered in (replace(kept, is_pipelined=True), kept) if is_ahead else (kept,):
                        if shared_bytes_of(offered, n_results, n_summed, dt.bytes_of(dtype)) <= most:
                            yield offered
                    break

    def _dividing(self, n_rows: int, n_keys: int) -> Iterator[WarpTiles]:
        most = int(self.target.max_threads_per_block) // WARP
        for rows in self.warp_rows:
            for warps in self.warps:
                for keys in self.key_tiles:
                    if warps <= most and n_rows % (rows * warps) == 0 and n_keys % keys == 0:
                        yield WarpTiles(Tile(keys, rows * warps), warps)


def registers_of(shape: WarpTiles, n_results: int, n_summed: int) -> int:
    """Registers of a thread for scores and results, weights, queries, and the operand of a step."""
    rows, keys = shape.warp_rows, shape.tile.keys
    sums = rows * (keys + n_results) // WARP
    halves = rows * keys + rows * (n_summed if shape.keeps_queries else TILE) + TILE * max(keys, n_results)
    return sums + halves // (2 * WARP)


def shared_bytes_of(shape: WarpTiles, n_results: int, n_summed: int, item_bytes: int = 2) -> int:
    """What a block of threads has of queries, keys and values, with what lies between rows."""
    pad = ACCESS_BYTES // item_bytes
    keys = shape.tile.keys * (n_summed + n_results + 2 * pad)
    return item_bytes * (shape.tile.rows * (n_summed + pad) + keys * (_VERSIONS if shape.is_pipelined else 1))


def drop_hidden_masks(sch: Schedule, block: BlockRV) -> None:
    """Let the values of a chain be what lies in memory, where a mask hides them behind weights of 0.

    Args:
        sch: a schedule, which is changed.
        block: the maximum; scores are scaled and masked in it already.

    Raises:
        ScheduleError: a value is masked otherwise.
    """
    chain = chain_of(node_of(sch, block))
    if chain is not None and has_mask(chain):
        for node in products_of(chain)[1:]:
            leaf = node.body.leaf if isinstance(node.body, LeafNode) else None
            if leaf is not None and choices_in(leaf):
                sch.drop_hidden_mask(sch.get_block(node.name))


def inline_moved_operands(sch: Schedule, block: BlockRV) -> None:
    """Let products read their operands where those lie, if they are another order, or a part, of a tensor."""
    chain = chain_of(node_of(sch, block))
    names = [] if chain is None else [node.name for node in products_of(chain)]
    for name in names:
        while found := [
            node for node in producers_of(node_of(sch, sch.get_block(name))) if _moves_elements(node)
        ]:
            sch.compute_inline(sch.get_block(found[0].name))


def _moves_elements(node: BlockNode) -> bool:
    """Whether a block computes nothing: each of its elements is one of a tensor."""
    store = node.body.leaf if isinstance(node.body, LeafNode) else None
    return (
        is_injective(node) and isinstance(store, tir.BufferStore) and isinstance(store.value, tir.BufferLoad)
    )


def prepared(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """The schedule with all that is computed element by element where a chain's products need it; it is changed.

    Args:
        sch: of a program of which nothing is scheduled.
        block: the maximum.

    Raises:
        ScheduleError: a block cannot be computed there, or a mask not dropped.
    """
    inline_producers(sch, block)
    inline_moved_operands(sch, block)
    drop_hidden_masks(sch, block)
    return [sch]
