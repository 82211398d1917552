"""SplitKeys: attention of a few queries on all multiprocessors of a GPU, in two kernels.

    for i, k0 (blocks of threads):                       # one kernel: a query, and a part of the keys
        for k1, d: S[k1] += Q[i, d] K[k0 * n + k1, d]    # neighbouring threads share each key
        m_rf[i, k0], P = max(S), exp(S - m_rf)           # all threads; shared memory
        s_rf[i, k0] = sum(P)
        for e, k1: o_rf[i, k0, e] += P[k1] V[k0 * n + k1, e]
    for i (blocks of threads):                           # another one: the parts, each brought to the maximum of all
        m, s, o = of all parts, rescaled
        out[i] = o / s

A decoder's query alone leaves a block of threads for each head, which loads all of its keys and values: too few to keep the memory busy.
Scores and weights stay in shared memory, and keys and values are loaded once. The order of sums is always the same. The
unfused form stays in the space. (Dao, Haziza, Massa, Sizov: "Flash-Decoding for long-context inference", 2023; what is kept of a part,
and how parts are brought together, is said in :mod:`schedules.primitive.rfactor_chain`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES, WARP

from ..affine import mentions
from ..analysis import consumers_of, is_output_block, producers_of, scope_children
from ..block_facts import is_one, is_scheduled, node_of, reduce_vars, reduction_loops
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, blocks_below, loops_around
from .base import Alternatives, ScheduleRule, unless_refused
from .online_tiles import inline_producers, inline_rounded_weights, operand_bytes, sizes_of
from .reduction_chain import (
    Chain,
    Tile,
    chain_of,
    feed_tile,
    is_extreme,
    is_sum,
    split_member,
    take_epilogues,
)

_SHARING = 8
"""Threads at most that share a key: together they load whole sectors of memory at a time, and exchange their sums in a few steps."""
_WAVES = 4
"""Blocks for each multiprocessor: some wait for memory while others compute."""
_FEWEST_KEYS = 32
"""Of a part: fewer are not worth the partial results that are written and read again."""
_MOST_ROWS = (1 << 16) - 1
"""Of queries and heads: what a grid has of blocks along ``y``."""
_WORDS_OF_EXCHANGE = 2
"""Of a thread at most, in shared memory, for the sums that threads have together."""


@dataclass(frozen=True)
class KeyShare:
    """How much a block of threads looks at, and by how many threads along each axis."""

    keys: int
    """Of a part."""
    sharing: int
    """``threadIdx.x``: threads that share a key, neighbours of results for the values."""
    results: int
    """``threadIdx.y``: threads on further results, and on further keys."""
    keys_at_once: int
    """``threadIdx.z``: threads on further keys."""
    lanes: int
    """Neighbouring elements of a key that a thread loads at once."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.sharing * self.results * self.keys_at_once


class SplitKeys(ScheduleRule):
    """Offer attention of single queries in parts of the keys, combined by a second kernel.

    Args:
        threads: of a block at most.
        most_ways: numbers of parts that are offered at most.
    """

    def __init__(self, threads: int = 256, most_ways: int = 3) -> None:
        if threads < 1 or most_ways < 1:
            raise ScheduleError(
                f"SplitKeys: threads and most_ways must be positive, got {threads} and {most_ways}"
            )
        self.threads, self.most_ways = threads, most_ways

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        if not is_extreme(node) or is_scheduled(node):
            return [sch]
        (start,) = unless_refused(sch, partial(_inlined, block=block)) or [sch]
        chain = chain_of(node_of(start, block))
        shares = [] if chain is None else shares_of(chain, self.target, self.threads)[: self.most_ways]
        if not shares:
            return [sch]
        return Alternatives(
            [
                *[
                    partial(unless_refused, start, partial(_in_parts, block=block, share=share))
                    for share in shares
                ],
                lambda: [sch],
            ]
        )


def shares_of(chain: Chain, target: Target, threads: int = 256) -> list[KeyShare]:
    """In what parts the keys of a chain may be looked at, those first that are nearest to a few blocks for each multiprocessor.

    None where several queries of a head would load the same keys, no two parts divide these, or a part has too few.
    """
    sizes = sizes_of(chain) if chain.has_product else None
    if sizes is None or sizes[0] != 1 or prod(chain.rows) > _MOST_ROWS:
        return []
    _, n_results, n_summed = sizes
    lanes = gcd(ACCESS_BYTES // operand_bytes(chain), n_summed)
    sharing = gcd(_SHARING, n_summed // lanes, n_results)
    threads = min(threads, int(target.max_threads_per_block))
    most_results = gcd(n_results // sharing, _power_of_two(threads // sharing))
    found = []
    for keys in range(min(_FEWEST_KEYS, chain.extent // 2), chain.extent // 2 + 1):
        words = 2 * keys + _WORDS_OF_EXCHANGE * threads
        if keys < 2 or chain.extent % keys or 4 * words > int(target.max_shared_memory_per_block):
            continue
        results = gcd(most_results, keys)
        at_once = gcd(keys // results, _power_of_two(threads // (sharing * results)))
        found.append(KeyShare(keys, sharing, results, at_once, lanes))
    blocks = _WAVES * int(target.attrs.get("multi_processor_count") or 1)
    rows = prod(chain.rows)
    return sorted(found, key=lambda item: abs(rows * (chain.extent // item.keys) - blocks))


def _power_of_two(number: int) -> int:
    """The largest one up to a number."""
    return 1 << (max(number, 1).bit_length() - 1)


def _inlined(sch: Schedule, block: BlockRV) -> list[Schedule]:
    inline_producers(sch, block)
    inline_rounded_weights(sch, block)
    return [sch]


def _in_parts(sch: Schedule, block: BlockRV, share: KeyShare) -> list[Schedule]:
    split_keys(sch, block, share)
    return [sch]


def split_keys(sch: Schedule, block: BlockRV, share: KeyShare) -> None:
    """The chain of a maximum in parts of its axis, as a kernel, and another one that combines them.

    Args:
        sch: a schedule, which is changed.
        block: the maximum, into which scores are scaled and masked (:func:`inline_producers`).
        share: how large a part is, and how threads share it.

    Raises:
        ScheduleError: the block has no such chain.
    """
    chain = chain_of(node_of(sch, block))
    if chain is None:
        raise ScheduleError(
            f"SplitKeys: nothing that is summed up depends on block {node_of(sch, block).name!r}"
        )
    depth = len(chain.rows)
    outer = [split_member(sch, member, Tile(share.keys)) for member in chain.members]
    parts = sch.rfactor_chain(*outer)
    part = sch.merge(*[sch.get_loops(item)[depth] for item in parts])
    feed_tile(sch, parts, part)
    whole = _combining(sch, parts, part, depth)
    _PartKernel(sch, share, depth + 1, part).bind()
    _bind_whole(sch, whole, max(WARP, share.sharing * share.results))


def _combining(sch: Schedule, parts: Sequence[BlockRV], part: LoopRV, depth: int) -> LoopRV:
    """What combines the parts, and is computed of that, in one nest; returns the innermost loop over its rows."""
    inside = {id(node) for node in blocks_below(sch._loop(part))}
    nodes = [
        node
        for node in scope_children(node_of(sch, parts[0]))
        if id(node) not in inside and any(id(item) in inside for item in producers_of(node))
    ]
    rows = sch.merge(*[sch.get_loops(sch.get_block(node.name))[depth - 1] for node in nodes])
    take_epilogues(sch, rows)
    return rows


class _PartKernel:
    """The loops of a part on their way to the threads of a block.

    Args:
        depth: how many loops choose a part: those of its rows, and its own.
        part: the innermost of them.
    """

    def __init__(self, sch: Schedule, share: KeyShare, depth: int, part: LoopRV) -> None:
        self._sch, self._share, self._depth, self._part = sch, share, depth, part

    def bind(self) -> None:
        """Scores, their maximum and weights are put into shared memory; what the second kernel reads goes to global memory, too."""
        sch = self._sch
        names = [node.name for node in blocks_below(sch._loop(self._part))]
        extreme = next(name for name in names if is_extreme(node_of(sch, sch.get_block(name))))
        self._keep_extreme(extreme)
        sums = [name for name in names if name != extreme and is_sum(node_of(sch, sch.get_block(name)))]
        scores = [name for name in sums if names.index(name) < names.index(extreme)]
        for name in names:
            if name != extreme and (name not in sums or name in scores):
                sch.set_scope(sch.get_block(name), 0, "shared")
        rows = sch.get_loops(sch.get_block(names[0]))[: self._depth - 1]
        sch.bind(sch.fuse(*rows), "blockIdx.y")
        sch.bind(self._part, "blockIdx.x")
        self._depth = 2
        for node in blocks_below(sch._loop(self._part)):
            if node.name in scores:
                self._share_scores(node)
            else:
                self._share_keys(node)

    def _keep_extreme(self, name: str) -> None:
        """Let the weights read the maximum of the part where the block's threads have it."""
        sch = self._sch
        inside = {id(node) for node in blocks_below(sch._loop(self._part))}
        readers = [node for node in consumers_of(node_of(sch, sch.get_block(name))) if id(node) in inside]
        copy = sch.cache_write(
            sch.get_block(name), 0, "shared", consumer_blocks=[sch.get_block(node.name) for node in readers]
        )
        sch.reverse_compute_at(copy, self._part, preserve_unit_loops=True)

    def _own(self, node: BlockNode) -> tuple[list[LoopRV], list[LoopRV]]:
        """The loops of a block within the part: over results, and of a reduction."""
        return own_loops(self._sch, node, self._depth)

    def _share_scores(self, node: BlockNode) -> None:
        """Neighbouring threads load neighbouring elements of a key, as vectors, and add up what they have of its score."""
        sch, share = self._sch, self._share
        (keys,), (summed,) = self._own(node)
        block = sch.get_block(node.name)
        _, z, y = sch.split(keys, [None, share.keys_at_once, share.results])
        _, x, _ = sch.split(summed, [None, share.sharing, share.lanes])
        sch.bind(z, "threadIdx.z")
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        if share.lanes > 1:
            self._load_vectors(block, y)

    def _load_vectors(self, block: BlockRV, key: LoopRV) -> None:
        """Load what lies side by side along the sum to registers first, at once: each thread what it multiplies."""
        sch, share = self._sch, self._share
        summed = set(reduce_vars(node_of(sch, block)))
        depth = len(loops_around(sch._loop(key))) + 1
        for position, region in enumerate(node_of(sch, block).reads):
            if mentions(region.region[-1].min, summed):
                copy = sch.cache_read(block, position, "local")
                sch.compute_at(copy, key, preserve_unit_loops=True)
                own = sch.fuse(*sch.get_loops(copy)[depth:])
                _, x, elements = sch.split(own, [None, share.sharing, share.lanes])
                sch.bind(x, "threadIdx.x")
                sch.vectorize(elements)

    def _share_keys(self, node: BlockNode) -> None:
        """Results for the values along the first threads, keys along the last ones, and along all where there is a result of a key only."""
        sch, share = self._sch, self._share
        spatial, reduced = self._own(node)
        if reduced and spatial:
            columns, y, x = sch.split(spatial[0], [None, share.results, share.sharing])
            keys, z = sch.split(reduced[0], [None, share.keys_at_once])
            sch.reorder(columns, y, x, keys, z)
        else:
            (loop, *_) = [*spatial, *reduced]
            _, z, y, x = sch.split(loop, [None, share.keys_at_once, share.results, share.sharing])
        sch.bind(z, "threadIdx.z")
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")


def own_loops(sch: Schedule, node: BlockNode, depth: int) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops of a block inside of the outermost ``depth``, without those of one iteration unless there is no other.

    Returns:
        Those over results, and those of a reduction.
    """
    block = sch.get_block(node.name)
    loops, around, reduced = sch.get_loops(block), loops_around(node), reduction_loops(node)
    spatial = [
        loops[i] for i in range(depth, len(loops)) if i not in reduced and not is_one(around[i].extent)
    ]
    summed = [loops[i] for i in reduced if i >= depth]
    if not spatial and not summed:
        spatial = [loops[-1] if len(loops) > depth else sch.add_unit_loop(block)]
    return spatial, summed


def _bind_whole(sch: Schedule, rows: LoopRV, threads: int) -> None:
    """The second kernel: a block of threads for each row, the results of which they have one by one."""
    names = [node.name for node in blocks_below(sch._loop(rows))]
    depth = len(loops_around(sch._loop(rows))) + 1
    sch.bind(sch.fuse(*sch.get_loops(sch.get_block(names[0]))[:depth]), "blockIdx.x")
    for name in names:
        block = sch.get_block(name)
        node = node_of(sch, block)
        spatial, summed = own_loops(sch, node, 1)
        if spatial and summed:
            sch.reorder(*spatial, *summed)
        if not is_output_block(node):
            sch.set_scope(block, 0, "local" if spatial and summed else "shared")
        (loop, *_) = [*spatial, *summed]
        _, x = sch.split(loop, [None, threads])
        sch.bind(x, "threadIdx.x")
