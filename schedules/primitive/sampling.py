"""Sampling: random decisions, drawn from a seeded generator so that the same seed gives the same schedule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ir.tir import IterVar

from ..affine import mentions
from ..analysis import consumers_of, is_output_block, require, why_not_complete, why_not_reduction
from ..tree import BlockNode, LoopNode, blocks_below, loops_around
from .inline import why_not_inlinable


@lru_cache(maxsize=4096)
def perfect_tiles(extent: int, n: int, max_innermost_factor: int) -> np.ndarray:
    """All ordered factorizations of ``extent`` into ``n`` factors with a bounded last one, as rows of int64 [rows, n].

    There is always a row: when no divisor respects the bound, the last factor is 1.
    """
    limit = max(1, max_innermost_factor)
    rows = [(tile,) for tile in _divisors(extent) if tile <= limit]
    full: list[tuple[int, ...]] = []
    for (innermost,) in rows:
        full += [(*outer, innermost) for outer in _factorizations(extent // innermost, n - 1)]
    table = np.array(full, dtype=np.int64).reshape(-1, n)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=65536)
def _divisors(extent: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(extent**0.5) + 1) if extent % d == 0]
    return tuple(sorted({*small, *[extent // d for d in small]}))


@lru_cache(maxsize=65536)
def _factorizations(extent: int, n: int) -> tuple[tuple[int, ...], ...]:
    if n == 0:
        return ((),) if extent == 1 else ()
    if n == 1:
        return ((extent,),)
    return tuple(
        (first, *rest) for first in _divisors(extent) for rest in _factorizations(extent // first, n - 1)
    )


def sample_perfect_tile(
    generator: np.random.Generator, extent: int, n: int, max_innermost_factor: int
) -> tuple[int, ...]:
    """A random row of :func:`perfect_tiles`."""
    require(n >= 1, "sample_perfect_tile", f"n must be at least 1, got {n}")
    table = perfect_tiles(extent, n, max_innermost_factor) if n > 1 else np.array([[extent]])
    require(
        len(table) > 0,
        "sample_perfect_tile",
        f"extent {extent} has no tile with factors up to {max_innermost_factor}",
    )
    return tuple(int(item) for item in table[int(generator.integers(len(table)))])


def sample_categorical(
    generator: np.random.Generator, candidates: Sequence[int], probs: Sequence[float]
) -> int:
    """The position of a candidate drawn with the given probabilities."""
    require(
        len(candidates) == len(probs) and len(probs) > 0,
        "sample_categorical",
        f"got {len(candidates)} candidates and {len(probs)} probabilities; their numbers must agree and be positive",
    )
    weights = np.asarray(probs, dtype=np.float64)
    return int(generator.choice(len(candidates), p=weights / weights.sum()))


def sample_partitioned_tile(
    generator: np.random.Generator, extent: int, n: int, partition_pos: int, innerpart_factor: int
) -> tuple[int, ...]:
    """A random factorization whose factors from ``partition_pos`` on multiply to a multiple of ``innerpart_factor``."""
    require(n >= 1, "sample_partitioned_tile", f"n must be at least 1, got {n}")
    require(
        0 <= partition_pos < n and innerpart_factor >= 1,
        "sample_partitioned_tile",
        f"partition_pos {partition_pos} is no position among {n} factors, or innerpart_factor {innerpart_factor} is below 1",
    )
    require(
        extent % innerpart_factor == 0,
        "sample_partitioned_tile",
        f"extent {extent} is no multiple of {innerpart_factor}",
    )
    table = perfect_tiles(extent, n, extent) if n > 1 else np.array([[extent]])
    fits = np.prod(table[:, partition_pos:], axis=1) % innerpart_factor == 0
    rows = table[fits]
    return tuple(int(item) for item in rows[int(generator.integers(len(rows)))])


def compute_locations(block: BlockNode) -> dict[int, LoopNode | None]:
    """The places at which a block may be computed: decision -> loop (None for -1, the root, and -2, inlining).

    Loops are those around all consumers, by their position around the first; behind a reduction loop no data-parallel loop
    follows, since the block would be computed anew for each of its iterations.
    """
    choices: dict[int, LoopNode | None] = {-1: None}
    if why_not_inlinable(block) is None:
        choices[-2] = None
    consumers = consumers_of(block)
    if is_output_block(block) or not consumers:
        return choices
    complete_or_reduction = why_not_complete(block) is None or why_not_reduction(block) is None
    if not complete_or_reduction:
        return choices
    common = loops_around(consumers[0])
    for consumer in consumers[1:]:
        around = loops_around(consumer)
        common = [loop for loop in common if any(loop is item for item in around)]
    reduction_seen = False
    for position, loop in enumerate(common):
        if any(loop is item for item in loops_around(block)):
            continue
        reduces = _reduces(loop)
        if reduction_seen and not reduces:
            break
        reduction_seen = reduction_seen or reduces
        choices[position] = loop
    return choices


def _reduces(loop: LoopNode) -> bool:
    """Whether a block below uses the loop for a reduction variable."""
    return any(
        item.iter_type == IterVar.CommReduce and mentions(value, {loop.var})
        for block in blocks_below(loop)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )
