"""SplitLastWave: products whose tiles do not fill the last wave of blocks share its sums among all multiprocessors.

    for i in 10: C[i] = A[i] B        ->    for i in 8: C[i] = A[i] B                              # whole waves, a tile for each block
    (4 multiprocessors)                     for p in 2: for i in 2: P[p, i] = A[i + 8, p] B[p]     # the tiles that are left, in parts
                                            for i in 2: C[i + 8] = P[0, i] + P[1, i]               # in a fixed order

The first two are products like others, which rules behind this one tile, each by tiles of its own. All blocks of a wave have as many
steps, so that none waits for the others. (Osama et al.: "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023: its hybrid, with parts of equal extents. There a block may end one tile and begin another; here
it has a part of one.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from ir import tir
from ir.target import Target

from ..analysis import is_output_block
from ..block_facts import (
    is_leaf_block,
    is_one,
    is_product,
    is_scheduled,
    node_of,
    operand_vars,
    reduce_vars,
    reduction_loops,
    stands_alone,
)
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused
from .split_reduction import PRODUCT_STEP, STEPS, split_reduction

_SIDE = 128
"""Extents of what is left are multiples of such a tile's side, as far as the whole extent is one."""
_GAIN = 0.95
"""The part of the waves that is left at most, one of so many parts of a sum counted as such a part of one."""

_SUM = 0.03
"""What a part costs besides, in waves: its results are written, and read by who adds them up."""


@dataclass(frozen=True)
class LastWave:
    """What of a product is computed in parts."""

    loop: int
    """Position of the loop that is cut."""
    extent: int
    """Iterations of it that are left for the last wave."""
    parts: int
    """Of their sums."""


class SplitLastWave(ScheduleRule):
    """Offer a product with the results of its last wave in parts of the sum, beside the product as it is.

    Products of less than one wave are :class:`~schedules.rule.SplitReduction`'s; with many waves the last one is a small part of all.
    What something else in the kernel reads is left alone: what is computed of it had to wait for both.

    Args:
        most_waves: whole waves that a product has at most.
        tiles: how many results a block of threads usually has at a time.
    """

    def __init__(self, most_waves: int = 8, tiles: Sequence[int] = (128 * 128, 128 * 64, 64 * 64)) -> None:
        if most_waves < 1 or not tiles or min(tiles) < 1:
            raise ScheduleError(
                f"SplitLastWave: most_waves and tiles must be positive, got {most_waves} and {list(tiles)}"
            )
        self.most_waves, self.tiles = most_waves, list(tiles)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if is_scheduled(node) or not is_output_block(node):
            return [sch]
        found: list[Schedule] = []
        for wave in last_waves(node, self.target, self.most_waves, self.tiles):
            found += unless_refused(sch, partial(_split, block=block, wave=wave))
        return [sch, *found]


def last_waves(node: BlockNode, target: Target, most_waves: int, tiles: Sequence[int]) -> list[LastWave]:
    """The last waves of a product that leave multiprocessors idle, for some sizes of tiles.

    None where extents are symbolic, waves are full, or parts of sums take no fewer waves.
    """
    if not is_leaf_block(node) or not stands_alone(node) or not is_product(node):
        return []
    if not all(isinstance(item.dom.extent, tir.IntImm) for item in node.iter_vars):
        return []
    processors = int(target.attrs.get("multi_processor_count") or 1)
    found: list[LastWave] = []
    for area in tiles:
        wave = _last_wave(node, area, processors, most_waves)
        if wave is not None and wave not in found:
            found.append(wave)
    return found


def _last_wave(node: BlockNode, area: int, processors: int, most_waves: int) -> LastWave | None:
    loop, step = _cut(node)
    results = prod(_extents(node, reduced=False))
    whole = _extents(node, reduced=False)[0]
    waves, left = divmod(-(-results // area), processors)
    if not 1 <= waves <= most_waves or not left:
        return None
    for_each = results // whole
    begun = waves * processors * area // for_each // step * step
    tiles, rest = -(-begun * for_each // area), -(-(whole - begun) * for_each // area)

    def waves_of(parts: int) -> float:
        """Of all, where what is left is computed in some parts."""
        return -(-tiles // processors) + -(-rest * parts // processors) / parts + _SUM * parts

    parts = min(_parts(node), key=waves_of, default=1)
    if not begun or waves_of(parts) > _GAIN * (waves + 1):
        return None
    return LastWave(loop, whole - begun, parts)


def _cut(node: BlockNode) -> tuple[int, int]:
    """The position of the outermost loop over results, and of how many of its iterations a part is a multiple."""
    loops, reduced = loops_around(node), set(reduction_loops(node))
    position = next(
        number for number, loop in enumerate(loops) if number not in reduced and not is_one(loop.extent)
    )
    values = dict(zip(node.iter_values, [item.var for item in node.iter_vars], strict=True))
    var = values[loops[position].var]
    is_batch = all(var in used for used in operand_vars(node))
    return position, 1 if is_batch else gcd(_number(loops[position].extent), _SIDE)


def _extents(node: BlockNode, reduced: bool) -> list[int]:
    """Of the loops over results, or of those that are summed, without those of one iteration."""
    chosen = set(reduction_loops(node))
    return [
        _number(loop.extent)
        for number, loop in enumerate(loops_around(node))
        if (number in chosen) == reduced and not is_one(loop.extent)
    ]


def _parts(node: BlockNode) -> Iterator[int]:
    """Numbers of parts, each of several steps, that divide the longest loop of the sum."""
    extents = _extents(node, reduced=True)
    if not extents or not reduce_vars(node):
        return
    most = prod(extents) // (STEPS * PRODUCT_STEP)
    yield from (parts for parts in range(2, most + 1) if max(extents) % parts == 0)


def _number(extent: tir.PrimExpr) -> int:
    assert isinstance(extent, tir.IntImm)
    return extent.value


def _split(sch: Schedule, block: BlockRV, wave: LastWave) -> list[Schedule]:
    rest = sch.separate_rest(sch.get_loops(block)[wave.loop], wave.extent)
    (placed,) = sch.get_consumers(rest)
    split_reduction(sch, rest, wave.parts)
    sch.compute_at(rest, sch.get_loops(placed)[-1])
    sch.set_scope(rest, 0, "local")
    return [sch]
